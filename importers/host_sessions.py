"""
The host's own session database, read and never written: conversations that began before this plugin was installed.

The host keeps every row that it compacted away. Each message comes over once: what a compaction wrote again (the tail that it
kept, the messages that it protects) is recognised, in whatever form it was written again, and so is everything that the live
session has stored here already. What the user took back there is kept as taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..config import matches_session
from ..errors import BadRequest, LcmError
from ..host import facts as host
from ..ingest import host_compressor
from ..ops import backup
from ..records import Flag
from ..storage.files import Progress, silent
from ..storage.foreign import HOST, HOST_FILE, Foreign, Row, json_in, of_host
from ..text import content
from . import replays
from .earlier import looks_like_summary
from .intake import Batches, Intake, Item, Taken
from .ledger import Ledger, Source
from .session_links import SessionLink, by_conversation, chains, from_host, open_chain

if TYPE_CHECKING:
    from ..recall.access import Access

KIND: Final = "host"
_JSON: Final = "\0json:"  # how the host marks content that is no text
#: The host stores messages one by one, tens of microseconds apart at least, and a list that it wrote anew a microsecond apart.
_LIST_S: Final = 5e-6
_ENOUGH: Final = 2
_TEXTS: Final = ("tool_call_id", "tool_name", "effect_disposition", "finish_reason", "reasoning", "api_content")
_LOADED: Final = ("reasoning_details", "codex_reasoning_items", "codex_message_items")


@dataclass(frozen=True, slots=True)
class HostImport:
    """An import from the host, planned or done. ``skipped``: sessions that a pattern keeps out."""

    path: Path
    sessions: int
    conversations: int
    taken: Taken = field(default_factory=Taken)
    skipped: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    backup: Path | None = None


def known_sessions(home: Path) -> Mapping[str, SessionLink]:
    """The host's sessions; nothing where it has no database, or one that cannot be read."""
    try:
        with of_host(home) as source:
            return {each.session_id: each for each in _facts(source)} if source is not None else {}
    except LcmError:
        return {}  # who belongs to whom is then what the other database says


def _facts(source: Foreign) -> list[SessionLink]:
    rows = {str(row["id"]): row for row in source.rows("SELECT * FROM sessions ORDER BY started_at, id")}
    return [from_host(row, rows.get(str(row.get("parent_session_id") or ""))) for row in rows.values()]


# -- doing -----------------------------------------------------------------------------------------------
def plan(deps: Access, session_id: str | None, progress: Progress = silent) -> HostImport:
    """Plan of the import. Changes nothing."""
    with _opened(deps) as source:
        return _Host(deps, source, session_id, progress).plan()


def take_in(deps: Access, session_id: str | None, progress: Progress = silent) -> HostImport:
    """Add what is not here yet, after a backup."""
    with _opened(deps) as source:
        work = _Host(deps, source, session_id, progress)
        planned = work.plan()
        if not planned.taken.added:
            return planned
        return work.import_sessions(backup.back_up(deps, progress).path if deps.db.exists else None)


def _opened(deps: Access) -> Foreign:
    if not deps.trusted:
        raise BadRequest("the host's sessions are imported at the terminal: hermes lcm import host")
    path = deps.home / HOST_FILE
    if not path.is_file():
        raise BadRequest(f"Hermes has stored no conversation yet: there is no {path}")
    source = Foreign(path, shared=True)
    if source.kind.name != HOST:
        with source:
            raise BadRequest(f"{path} is not a session database of the host (it is {source.kind.name})")
    return source


class _Host:
    """One pass over the host's database."""

    def __init__(self, deps: Access, source: Foreign, session_id: str | None, progress: Progress) -> None:
        self._deps = deps
        self._source = source
        self._progress = progress
        counts = source.rows("SELECT session_id AS name, count(*) AS n FROM messages GROUP BY session_id")
        self._counts = {str(row["name"]): int(row["n"]) for row in counts}
        every = chains(_facts(source))
        if session_id is not None:
            named = next((chain for chain in every if any(each.session_id == session_id for each in chain)), None)
            if named is None:
                raise BadRequest(f"{source.path} has no session {session_id!r}; `hermes sessions list` names them")
            every = _with_parents(named, every)
        self._skipped = [
            each.session_id for chain in every for each in chain if self._kept_out(each) and self._has(each)
        ]
        wanted = [[each for each in chain if not self._kept_out(each)] for chain in every]
        self._chains = [chain for chain in wanted if any(self._has(each) for each in chain)]

    def _has(self, facts: SessionLink) -> bool:
        return facts.session_id in self._counts

    def _kept_out(self, facts: SessionLink) -> bool:
        config = self._deps.config
        patterns = (*config.ignore_session_patterns, *config.stateless_session_patterns)
        return matches_session(patterns, facts.session_id, facts.platform) is not None

    def plan(self) -> HostImport:
        there = self._deps.db.exists
        intake = self._intake(Ledger(self._deps.db).find(self._import_id) if there else None)
        taken, new = Taken(), []
        for chain in self._chains:
            here = [self._deps.sessions.find(each.session_id) for each in chain] if there else []
            known = [each for each in here if each is not None]
            taken += intake.plan(known[-1] if known else None, self._batches([each.session_id for each in chain]))
            new += [each.session_id for each in chain if each.session_id not in {s.session_id for s in known}]
        return self._result(taken, new, None)

    def import_sessions(self, kept: Path | None) -> HostImport:
        ledger = Ledger(self._deps.db)
        about = {"path": str(self._source.path)}
        source = ledger.begin(self._import_id, KIND, about, now=self._deps.clock())
        intake = self._intake(source)
        taken, new = Taken(), []
        for chain in self._chains:
            new += [each.session_id for each in chain if self._deps.sessions.find(each.session_id) is None]
            for sessions in by_conversation(open_chain(self._deps, chain)):
                taken += intake.store_new(sessions, self._batches(list(sessions)))
        ledger.finish(source, about, now=self._deps.clock())
        return self._result(taken, new, kept)

    def _result(self, taken: Taken, new: Sequence[str], kept: Path | None) -> HostImport:
        count = sum(1 for chain in self._chains for each in chain if self._has(each))
        return HostImport(self._source.path, count, len(self._chains), taken, tuple(self._skipped), tuple(new), kept)

    @property
    def _import_id(self) -> str:
        return f"host:{self._source.path.resolve()}"

    def _intake(self, source: Source | None) -> Intake:
        find = partial(replays.find, burst_s=_LIST_S, enough=_ENOUGH)
        total = sum(self._counts.get(each.session_id, 0) for chain in self._chains for each in chain)
        return Intake(
            self._deps, source, total=total, keep_copies=False, progress=self._progress, find=find, rewritten=True
        )

    # -- rows ---------------------------------------------------------------------------------------
    def _batches(self, names: Sequence[str]) -> Batches:
        """The messages of a chain of sessions, in the order in which the host stored them."""
        platforms = {each.session_id: each.platform for chain in self._chains for each in chain}
        rotated = {each.session_id for chain in self._chains for each in chain if each.origin == "rotation"}
        back_by_id = self._taken_back(names)

        def batches() -> Iterator[list[Item]]:
            marks = ",".join("?" * len(names))
            sql = f"SELECT * FROM messages WHERE session_id IN ({marks}) AND {{key}}"
            review = False  # the host's background review wrote into sessions of users once
            begun: set[str] = set()
            for rows in self._source.walk(sql, "id", tuple(names)):
                out = []
                for row in rows:
                    name = str(row["session_id"])
                    opens = name in rotated and name not in begun
                    begun.add(name)
                    back = back_by_id.get(str(row.get("message_uid")))
                    item = _item(row, platforms.get(name, ""), tip=name == names[-1], opens=opens, back=back)
                    prompt = item.message["role"] in ("user", "system") and host.is_review_prompt(
                        item.message["content"]
                    )
                    if not prompt and not (review and item.message["role"] == "assistant"):
                        out.append(item)
                    review = prompt
                yield out

        return batches

    def _taken_back(self, names: Sequence[str]) -> dict[str, bool]:
        """By its lasting id, whether the user took a message back: its newest row says so.

        Hosts near 0.22 mark a row that a compaction carried on like one that was taken back; the copy has the same id.
        """
        if "message_uid" not in self._source.columns("messages"):
            return {}
        sql = (
            "SELECT message_uid AS uid, max(id), active = 0 AND NOT coalesce(compacted, 0) AS back FROM messages "
            f"WHERE session_id IN ({','.join('?' * len(names))}) AND message_uid IS NOT NULL "
            "GROUP BY message_uid HAVING count(*) > 1"
        )
        return {str(row["uid"]): bool(row["back"]) for row in self._source.rows(sql, tuple(names))}


def _with_parents(chain: Sequence[SessionLink], every: Sequence[list[SessionLink]]) -> list[list[SessionLink]]:
    """A conversation and those that it branched off from, oldest first."""
    out = [list(chain)]
    while out[0][0].parent and len(out) <= len(every):
        above = [each for each in every if any(facts.session_id == out[0][0].parent for facts in each)]
        if not above or above[0] in out:
            break
        out.insert(0, above[0])
    return out


def _item(row: Row, platform: str, *, tip: bool, opens: bool = False, back: bool | None = None) -> Item:
    """A row as the message that the host would hand over when it resumes the session.

    ``tip``: of the session that goes on. A summary of the host that no list shows any more is kept, and no part of the thread;
    one that was glued to a message is part of that. ``back``: whether the user took it back, where the row does not say it.
    """
    message: dict[str, Any] = {"role": str(row["role"]), "content": _content(row.get("content"))}
    message.update({name: row[name] for name in _TEXTS if row.get(name)})
    if row.get("tool_calls"):
        message["tool_calls"] = json_in(row["tool_calls"], row["tool_calls"])
    if row.get("reasoning_content") is not None:
        message["reasoning_content"] = row["reasoning_content"]
    message.update({name: json_in(row[name], row[name]) for name in _LOADED if row.get(name)})
    if row.get("platform_message_id"):
        message["message_id"] = row["platform_message_id"]
    if row.get("observed"):
        message["observed"] = True
    at = row.get("timestamp")
    if at:
        message["timestamp"] = at
    taken_back = row.get("active") == 0 and not row.get("compacted") if back is None else back
    was = (
        host_compressor.before(content.text_of(message["content"]))
        if message["role"] in ("user", "assistant")
        else None
    )
    glued = was is not None and bool(was.text or message.get("tool_calls"))
    summary = not glued and looks_like_summary(message["role"], message["content"])
    shown = tip and row.get("active") != 0
    flags = Flag.RETRACTED if taken_back or (summary and not shown and not message.get("tool_calls")) else Flag.NONE
    uid = row.get("message_uid")
    return Item(
        str(row["id"]), str(row["session_id"]), message, platform or "unknown", at, flags, summary, shown,
        str(uid) if uid else None, opens,
    )  # fmt: skip


def _content(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_JSON):
        return json_in(value[len(_JSON) :], value[len(_JSON) :])
    return value
