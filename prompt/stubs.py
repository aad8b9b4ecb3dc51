"""
Stubs for superseded tool results, in requests only: what a later result made superfluous is shown as address and digest.

A source of request rewrites. Decides in the worker after a turn, never while somebody waits; its decision stays: the prefix
of the prompt changes once. That change is paid for: the tokens behind it leave the provider's cache, all of them. So nothing is
stubbed until the saving is worth that. At a compaction the prefix is new anyway; there ``compress`` stubs what it finds.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..records import Transcript
from ..session import Session
from ..store import MessageStore
from ..text import content
from ..text.markup import read_stub
from . import context_message
from .rewrites import Retold

KEEP_CHARS: Final = 300  # of a superseded result: its beginning and its end
_SESSIONS: Final = 200

Messages = Sequence[Mapping[str, Any]]


class Superseded:
    """The stubs of one database's sessions, as far as this process decided them."""

    def __init__(
        self, store: MessageStore, *, least_chars: int, repay: float, rough: Callable[[Messages], int]
    ) -> None:
        self._store = store
        self._least_chars = least_chars
        self._repay = repay
        self._rough = rough
        self._lock = threading.Lock()
        self._stubs: dict[str, dict[int, str]] = {}

    # -- in the worker ----------------------------------------------------------------------------------
    def look(self, session: Session, messages: Messages, transcript: Transcript) -> int:
        """Stub what is superseded if that is worth it; how many stubs there are."""
        shown = {entry.ids[0] for entry in transcript.entries if len(entry.ids) == 1}
        known = {i: text for i, text in self._stubs.get(session.session_id, {}).items() if i in shown}
        fresh = {
            n: transcript.entries[n].ids[0]
            for n in superseded(messages[: len(transcript.entries)], self._least_chars)
            if len(transcript.entries[n].ids) == 1
            and not transcript.entries[n].own
            and transcript.entries[n].ids[0] not in known
        }
        made = {n: stub(session.nonce, self._store, messages[n], store_id) for n, store_id in fresh.items()}
        saved = self._rough([messages[n] for n in made]) - self._rough(
            [{**messages[n], "content": text} for n, text in made.items()]
        )
        if made and self._repay and saved >= self._repay * self._rough(messages[min(made) + 1 :]):
            with self._lock:
                kept = {**known, **{fresh[n]: text for n, text in made.items()}}
                self._stubs.pop(session.session_id, None)
                self._stubs[session.session_id] = kept
                while len(self._stubs) > _SESSIONS:
                    self._stubs.pop(next(iter(self._stubs)))
        return len(self._stubs.get(session.session_id, {}))

    # -- a source of rewrites -----------------------------------------------------------------------------
    def waits(self, session: Session) -> bool:
        """Is anything stubbed?"""
        return bool(self._stubs.get(session.session_id))

    def replacements(self, session: Session, messages: Messages, transcript: Transcript) -> Sequence[Retold]:
        """The stubs in places of the live list; what a compaction took out has none."""
        stubs = self._stubs.get(session.session_id)
        if not stubs:
            return ()
        return [
            Retold(n, stubs[entry.ids[0]])
            for n, entry in enumerate(transcript.entries[: len(messages)])
            if len(entry.ids) == 1 and not entry.own and entry.ids[0] in stubs
        ]


def text_of(store: MessageStore, message: Mapping[str, Any], store_id: int) -> str:
    """A result's text: as it is stored, for a list may show a stub of it; where that cannot be read, as the list shows it."""
    rows, damaged = store.legible([store_id])
    return content.text_of(message.get("content")) if damaged else rows[0].text if rows else ""


def stub(nonce: str, store: MessageStore, message: Mapping[str, Any], store_id: int) -> str:
    """Stub of a superseded result: where it is, how it begins and ends."""
    name = str(message.get("tool_name") or message.get("name") or "")
    return context_message.stub_text(nonce, store_id, name, text_of(store, message, store_id), KEEP_CHARS).text


# -- tool results that a later one made superfluous --------------------------------------------------------
# A tool that merely says "unchanged since last time" leaves the earlier result in force: hence the share.
_SHARE: Final = 0.5  # of the earlier answer's length


def superseded(messages: Sequence[Mapping[str, Any]], least_chars: int) -> list[int]:
    """Places of results of at least so many characters that a later result stands for, in order."""
    calls: dict[str, tuple[str, str]] = {}
    size: dict[tuple[str, str], int] = {}
    found: list[int] = []
    results: list[tuple[int, tuple[str, str], int]] = []
    for place, message in enumerate(messages):
        for call in content.calls_of(message):
            calls[call.id] = (call.name, canonical(call.arguments))
        key = calls.get(str(message.get("tool_call_id"))) if message.get("role") == "tool" else None
        body = message.get("content")
        if key is not None and isinstance(body, str) and read_stub(body) is None:
            results.append((place, key, len(body)))
    for place, key, chars in reversed(results):
        if chars >= least_chars and size.get(key, 0) >= chars * _SHARE:
            found.append(place)
        size[key] = max(size.get(key, 0), chars)
    return found[::-1]


def canonical(arguments: str) -> str:
    """Arguments in the form in which equal ones are equal."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments.strip()
