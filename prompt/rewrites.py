"""
Requests that show something else than their list: who wants that, how it is done on this host, and whether it was.

One per process and database. Sources say what is to be replaced; the host's request middleware or its ``select_context``
brings the request here, whichever it has. What could not be applied is remembered, so that the next compaction does it for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..ingest.ingestor import Ingest
from ..records import Transcript
from ..session import Session
from . import rewrite
from .rewrite import Instead, Replacement, Retold, Shown

Messages = Sequence[Mapping[str, Any]]


class Source(Protocol):
    """Somebody who has parts of a list shown otherwise."""

    def waits(self, session: Session) -> bool:
        """Cheap, asked once a turn: might there be anything?"""

    def replacements(self, session: Session, messages: Messages, transcript: Transcript) -> Sequence[Replacement]:
        """In places of the live list."""


@dataclass(slots=True)
class _State:
    """One session's requests. ``done``: what became of the one that is being sent; ``unshown``: a list that was sent as it is."""

    done: Shown | None = None
    saving: int = 0
    unshown: str = ""
    gave_up: tuple[Replacement, ...] = ()
    selected: bool = False


class RequestRewrites:
    """The requests of one database's sessions."""

    def __init__(
        self, ingest: Ingest, sources: Sequence[Source], *, rough: Callable[[Sequence[Mapping[str, Any]]], int]
    ) -> None:
        self._ingest = ingest
        self._sources = tuple(sources)
        self._rough = rough
        self._states: dict[str, _State] = {}

    # -- what is wanted ---------------------------------------------------------------------------------
    def watch(self, session: Session) -> bool:
        """Once a turn, and after each change: must this session's requests be looked at?"""
        wanted = any(source.waits(session) for source in self._sources)
        if not wanted:
            self._states.pop(session.session_id, None)
        else:
            self._states.setdefault(session.session_id, _State()).done = None
        return wanted

    def expect(self, session: Session, messages: Messages, transcript: Transcript) -> None:
        """Something has changed that the next request will show: the host measures its list before that."""
        state = self._states.get(session.session_id)
        if state is not None:
            state.saving, state.selected = (
                self.saving(messages, self.replacements(session, messages, transcript)),
                False,
            )

    def watched(self, session_id: str) -> bool:
        """Does anybody want anything of this session's requests?"""
        return session_id in self._states

    def replacements(self, session: Session, messages: Messages, transcript: Transcript) -> tuple[Replacement, ...]:
        """All that the sources want of a list."""
        return tuple(item for source in self._sources for item in source.replacements(session, messages, transcript))

    # -- the request ------------------------------------------------------------------------------------
    def request(
        self,
        session: Session,
        wire: Messages,
        seen: tuple[Messages, Transcript] | None = None,
        *,
        selected: bool = False,
    ) -> list[dict[str, Any]] | None:
        """The request as it is to be sent, or None: as it is.

        ``seen``: the live list and its transcript, by default as the last hook saw it. ``selected``: the host asked before it
        measured the request, so that its estimate is one of what is sent.
        """
        state = self._states.get(session.session_id)
        known = seen or self._ingest.last_seen(session.session_id)
        if state is None or known is None:
            return None
        messages, transcript = known
        wanted = self.replacements(session, messages, transcript)
        if not wanted:
            state.done, state.saving, state.selected = Shown(None, "already"), 0, selected
            return None
        state.done = rewrite.rewrite_list(messages, wire, wanted)
        if state.done.state == "unmatched" and (must := _must(wanted)) and len(must) < len(wanted):
            wanted = must
            state.done = rewrite.rewrite_list(messages, wire, wanted)
        done = state.done.state != "unmatched"
        state.saving = self.saving(messages, wanted) if done else 0
        state.selected = selected and done
        return state.done.messages

    def saving(self, messages: Messages, wanted: Sequence[Replacement]) -> int:
        """By how much the replacements make a request smaller, as the host estimates."""
        before: list[Mapping[str, Any]] = []
        after: list[Mapping[str, Any]] = []
        for item in wanted:
            if isinstance(item, Instead):
                before.extend(messages[item.first : item.stop])
                after.extend(item.messages)
            elif isinstance(item, Retold):
                before.append(messages[item.index])
                after.append({**messages[item.index], "content": item.text})
        return self._rough(before) - self._rough(after)

    # -- what came of it --------------------------------------------------------------------------------
    def sent(self, session: Session, messages: Messages, transcript: Transcript) -> str:
        """A request leaves, of this list (perhaps once more). Why it does not show what it should, or ""."""
        state = self._states.get(session.session_id)
        if state is None:
            return ""
        done = state.done
        if done is not None and done.state != "unmatched":
            state.unshown = ""
            return ""
        wanted = self.replacements(session, messages, transcript)
        if not _must(wanted) or wanted == state.gave_up:
            state.unshown = ""
            return ""
        state.unshown = done.reason if done is not None else "this host gave no chance to rewrite the request"
        return state.unshown

    def unshown(self, session_id: str) -> str:
        """Why requests of this session go out as they are although something is to be replaced; "" if they do not."""
        state = self._states.get(session_id)
        return state.unshown if state is not None else ""

    def must_compact(self, session_id: str, reason: str) -> None:
        """Replacements that only a compaction can make: requests cannot be rewritten."""
        state = self._states.get(session_id)
        if state is not None:
            state.unshown, state.gave_up = reason, ()

    def compacted(self, session: Session, messages: Messages, transcript: Transcript, *, progress: bool) -> None:
        """A compaction was tried with this list. Without progress it is not asked for again until something changes."""
        state = self._states.get(session.session_id)
        if state is None:
            return
        state.unshown, state.saving, state.done = "", 0, None
        state.gave_up = () if progress else self.replacements(session, messages, transcript)

    def spared(self, session_id: str) -> int:
        """Tokens that the host counts when it measures the list, but that are not sent."""
        state = self._states.get(session_id)
        return state.saving if state is not None and not state.selected else 0

    def shape(self, session_id: str) -> object:
        """Replacements that the last request showed, as something to compare."""
        state = self._states.get(session_id)
        return state.saving if state is not None else 0

    def answered(self, session_id: str) -> None:
        """The request was answered: the next estimate is one of the list again."""
        state = self._states.get(session_id)
        if state is not None:
            state.selected, state.done = False, None


def _must(wanted: Sequence[Replacement]) -> tuple[Replacement, ...]:
    """Replacements that somebody asked for. Another text for a message merely saves room: no compaction makes up for it."""
    return tuple(item for item in wanted if isinstance(item, Instead))
