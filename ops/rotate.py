"""
Rotate: let a long session go on with a short prompt, without another session and without deleting anything.

The prompt changes only where the host asks for a compaction, so a rotation is an order: at the session's next turn everything
before the fresh tail leaves the prompt, and messages that the prompt lacks come under summaries. Summaries that are ready are
used; for the rest no model is asked, it is shown by extracts that the background worker replaces by summaries later. Every
message stays stored and expandable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import MODE_SETTINGS
from ..errors import BadRequest
from ..storage.files import Progress, silent
from . import backup
from .answers import Answer, Verb, Words, newest
from .coverage import lacking
from .orders import Orders, Rotation
from .render import counted

if TYPE_CHECKING:
    from ..recall.access import Access
    from ..session import Session


@dataclass(frozen=True, slots=True)
class Rotated:
    """``status``: noop, preview or ordered. ``leaving``: messages that leave the prompt; ``tail``: those that stay; ``lacking``:
    messages that are in none and will be covered."""

    status: str
    reason: str
    leaving: int = 0
    tail: int = 0
    backup: Path | None = None
    lacking: tuple[int, ...] = ()


def preview(deps: Access) -> Rotated:
    """Preview of a rotation of the session typed in. Changes nothing."""
    session = _rotatable(deps)
    if Orders(deps.db).rotation(session.session_id) is not None:
        return Rotated("noop", "Nothing to do: a rotation is ordered already; it happens at the next message.")
    count = deps.config.fresh_tail_count
    # What the list of such a session does not show is others'.
    missing = lacking(deps, session) if not deps.rights.shown else ()
    leaving = max(0, _outside_the_tail(deps, session, count))
    if not leaving and not missing:
        return Rotated("noop", f"Nothing to do: the prompt holds no message before the newest {count}.")
    said = "Everything before the newest messages would leave the prompt at the next message."
    return Rotated("preview", said, leaving, count, lacking=missing)


def apply(deps: Access, progress: Progress = silent) -> Rotated:
    """Order the rotation, after the rolling backup was made. Nothing to do: nothing is written, the last backup stays."""
    plan = preview(deps)
    if plan.status == "noop":
        return plan
    session = _rotatable(deps)
    made = backup.roll(deps, progress)
    Orders(deps.db).rotate(Rotation(session.session_id, plan.lacking))
    said = "Everything before the newest messages leaves the prompt at the next message."
    return replace(plan, status="ordered", reason=said, backup=made.path)


def _rotatable(deps: Access) -> Session:
    session, mode = deps.session, deps.mode()
    name = session.session_id if session is not None else deps.engine.session_id
    if mode in MODE_SETTINGS:
        raise BadRequest(
            f"{name} is {mode} ({MODE_SETTINGS[mode]}): its messages are not stored now, so none may leave its prompt"
        )
    if session is None:
        raise BadRequest(_which(deps))
    return session


def _which(deps: Access) -> str:
    """Advice where no session is bound."""
    if not deps.trusted:
        return "no session is bound here; type this into the session that is to be rotated"
    if not deps.db.exists or not deps.sessions.recent(principal=None, limit=1):
        return "nothing is stored yet, so there is no session to rotate"
    return f"name a session: `/lcm rotate --session ID`. The newest sessions: {newest(deps.sessions)}"


def _outside_the_tail(deps: Access, session: Session, count: int) -> int:
    """Raw messages of the prompt before the newest ``count``."""
    assembly = deps.assembly()
    newest = deps.store.last_seq(session.conversation_id)
    if assembly is None:
        return newest - count
    if assembly.conversation_id != session.conversation_id:
        return newest + len(assembly.tail_ids) - count
    return newest - assembly.last_seq + len(assembly.tail_ids) - count


def _rotate(deps: Access, words: Words) -> Answer:
    done = apply(deps, words.progress) if words.apply else preview(deps)
    lines = [done.reason]
    if done.status != "noop":
        lines.append(
            f"Out of the prompt: about {counted(done.leaving, 'message')}; at most {done.tail} stay; "
            "none is deleted, no model is asked."
        )
    if done.lacking:
        lines.append(f"Into the prompt: {counted(len(done.lacking), 'message')} that it lacks, under summaries.")
    if done.backup:
        lines.append(f"backup: {done.backup}")
    elif done.status == "preview":
        lines.append("Dry run. `/lcm rotate apply` orders it, after a backup.")
    data = {"status": done.status, "reason": done.reason, "leaving": done.leaving, "tail": done.tail}
    data |= {"backup": str(done.backup) if done.backup else None, "lacking": len(done.lacking)}
    return Answer("\n".join(lines), data, idle=done.status == "noop")


VERBS: tuple[Verb, ...] = (
    Verb(
        "rotate",
        _rotate,
        "take everything before the newest messages out of the prompt; a terminal names the session: --session ID",
        "[apply]",
        changes=True,
        own=True,
    ),
)
