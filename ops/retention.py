"""
Retention policy: which sessions are old enough for which step, by platform, kind and age. Reads only; nothing is removed here.

A rule is ``who:days=step``. ``who`` is a glob of session ids or platforms, or a kind of session (``cron``, ``subagent``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from ..config import RETENTION_RULE, matches_session
from ..storage.meta import Meta

if TYPE_CHECKING:
    from ..storage.connection import Database

#: From the mildest to the strongest.
STEPS: Final = ("payloads", "summaries", "purge")
_DONE: Final = "retained:"  # in ``meta``, with the session's id: the step that was done, and how new it was then
DAY_S: Final = 86_400.0
HOUR_S: Final = 3_600.0
_ROUND: Final = "retention round"  # in ``meta``: the last one of the schedule
#: A session is as old as its newest message; one that others branched off from stays with them.
_SESSIONS: Final = """
SELECT s.session_id, s.platform, s.origin,
       (SELECT stored_at FROM messages m WHERE m.session_key = s.session_key ORDER BY m.store_id DESC LIMIT 1)
  FROM sessions s
 WHERE s.started_at < ? AND s.conversation_id NOT IN (SELECT parent_id FROM conversations WHERE parent_id IS NOT NULL)
 ORDER BY s.started_at, s.session_id
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the policy. ``after_s``: how old a session has to be, in seconds."""

    who: str
    after_s: float
    step: str

    @classmethod
    def of(cls, text: str) -> Rule:
        """The rule that a setting says; the setting was checked when it was read."""
        found = re.fullmatch(RETENTION_RULE, text)
        assert found is not None
        return cls(found["who"], int(found["days"]) * DAY_S, found["step"])

    def fits(self, session_id: str, platform: str, origin: str) -> bool:
        """Is the rule about this session?"""
        if self.who == "subagent":
            return origin == "subagent"
        kind = "cron" if session_id.startswith("cron_") else platform
        return self.who == kind or matches_session((self.who,), session_id, platform) is not None


@dataclass(frozen=True, slots=True)
class Due:
    """A session that is old enough, and the strongest step that its age allows."""

    session_id: str
    step: str
    newest_at: float


@dataclass(frozen=True, slots=True)
class Round:
    """A round of the schedule: when (Unix seconds), whether it removed anything, and how much it removed, or would have."""

    at: float
    applied: bool
    sessions: int = 0
    messages: int = 0
    frees: int = 0
    held: int = 0
    failed: bool = False


def last_round(db: Database) -> Round | None:
    """The last round of the schedule, or what was noted when it began."""
    found = Meta(db).value(_ROUND)
    return Round(**found) if isinstance(found, dict) else None


def note_round(db: Database, **facts: Any) -> None:
    """Note a round."""
    Meta(db).note(_ROUND, asdict(Round(**facts)))


def due(db: Database, policy: Sequence[str], *, now: float) -> list[Due]:
    """The sessions that are due; a look-up for each session, of any size."""
    rules = [Rule.of(each) for each in policy]
    if not rules:
        return []
    done = Meta(db).with_prefix(_DONE)
    out = []
    before = now - min(rule.after_s for rule in rules)
    for session_id, platform, origin, newest in db.query(_SESSIONS, (before,)):
        if newest is None:
            continue
        steps = [rule.step for rule in rules if rule.fits(session_id, platform, origin) and newest < now - rule.after_s]
        if steps and done.get(session_id) != [step := max(steps, key=STEPS.index), newest]:
            out.append(Due(session_id, step, newest))
    return out


def settle(db: Database, found: Iterable[Due]) -> None:
    """Note that a step was done to these sessions: until they go on, or a stronger one is due, nothing is."""
    meta = Meta(db)
    with db.transaction():
        for each in found:
            meta.note(_DONE + each.session_id, [each.step, each.newest_at])


def by_step(found: Iterable[Due]) -> dict[str, int]:
    """Number of sessions that are due, by step."""
    counts = Counter(each.step for each in found)
    return {step: counts[step] for step in STEPS if counts[step]}
