"""
Request rewrites: parts of a list that requests show otherwise, who wants that, and whether it was done.

One per process and database. Sources say what is to be replaced; the host's request middleware or its ``select_context``
brings the request here, whichever it has. What could not be applied is remembered, so that the next compaction does it for good.

``rewrite_list`` is pure. Replacements are said in places of the live list (``Instead``: a range as other messages, ``Retold``: a
message with another text) and found again in the outgoing list, which the host has decorated by then. A request in which they
cannot be found beyond doubt is left as it is. Two sources are here: stubs of superseded tool results, and of what somebody
typed that alone is too large for a request. The third is ``archive``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, Protocol

from ..ingest.ingestor import Ingest
from ..ingest.transcript import Entries, Entry, Messages, Transcript
from ..session import Session
from ..store import MessageStore
from ..text import content, markers
from ..text.markup import read_stub
from . import context_message


class Source(Protocol):
    """A source of replacements: parts of a list that requests show otherwise."""

    def waits(self, session: Session) -> bool:
        """Cheap, asked once a turn: might there be anything?"""

    def replacements(self, session: Session, messages: Messages, transcript: Transcript) -> Sequence[Replacement]:
        """Replacements in places of the live list."""


@dataclass(slots=True)
class Watched:
    """State of one session's requests.

    ``saving``: tokens by which replacements made the last one smaller. ``done``: what became of the one that is being sent;
    ``unshown``: a list that was sent as it is.
    """

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
        #: Sessions of whose requests something is wanted.
        self.states: dict[str, Watched] = {}

    # -- what is wanted ---------------------------------------------------------------------------------
    def watch(self, session: Session) -> bool:
        """Decide, once a turn and after each change, whether this session's requests must be looked at."""
        wanted = any(source.waits(session) for source in self._sources)
        if not wanted:
            self.states.pop(session.session_id, None)
        else:
            self.states.setdefault(session.session_id, Watched()).done = None
        return wanted

    def expect(self, session: Session, messages: Messages, transcript: Transcript) -> None:
        """Note a change that the next request will show: the host measures its list before that."""
        state = self.states.get(session.session_id)
        if state is not None:
            state.saving, state.selected = (
                self.saving(messages, self.replacements(session, messages, transcript)),
                False,
            )

    def replacements(self, session: Session, messages: Messages, transcript: Transcript) -> tuple[Replacement, ...]:
        """Replacements that the sources want in a list; a text within a range that is shown otherwise is none."""
        found = [item for source in self._sources for item in source.replacements(session, messages, transcript)]
        ranges = _must(found)
        return tuple(
            item
            for item in found
            if isinstance(item, Instead) or not any(each.first <= item.index < each.stop for each in ranges)
        )

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
        state = self.states.get(session.session_id)
        known = seen or self._ingest.last_seen(session.session_id)
        if state is None or known is None:
            return self.typed(session.session_id, wire)
        messages, transcript = known
        wanted = self.replacements(session, messages, transcript)
        if not wanted:
            state.done, state.saving, state.selected = Shown(None, "already"), 0, selected
            return None
        state.done, applied = _rewritten(messages, wire, wanted)
        state.saving = self.saving(messages, applied)
        state.selected = selected and bool(applied)
        return state.done.messages

    def typed(self, session_id: str, wire: Messages) -> list[dict[str, Any]] | None:
        """The request where the list is not known, or nothing can be read: only what somebody typed is shown otherwise."""
        found = [source.by_words(session_id, wire) for source in self._sources if isinstance(source, Oversized)]
        return next(filter(None, found), None)

    def saving(self, messages: Messages, wanted: Sequence[Replacement]) -> int:
        """Tokens by which the replacements make a request smaller, as the host estimates."""
        before: list[Mapping[str, Any]] = []
        after: list[Mapping[str, Any]] = []
        for item in wanted:
            if isinstance(item, Instead):
                before.extend(messages[item.first : item.stop])
                after.extend(item.messages)
            elif isinstance(item, Retold):
                before.append(messages[item.index])
                after.append(as_shown(messages[item.index], item.text))
        return self._rough(before) - self._rough(after)

    # -- what came of it --------------------------------------------------------------------------------
    def sent(self, session: Session, messages: Messages, transcript: Transcript) -> str:
        """A request leaves, of this list (perhaps once more). Why it does not show what it should, or ""."""
        state = self.states.get(session.session_id)
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
        """Reason why requests of this session go out as they are although something is to be replaced; "" if they do not."""
        state = self.states.get(session_id)
        return state.unshown if state is not None else ""

    def must_compact(self, session_id: str, reason: str) -> None:
        """Replacements that only a compaction can make: requests cannot be rewritten."""
        state = self.states.get(session_id)
        if state is not None:
            state.unshown, state.gave_up = reason, ()

    def compacted(self, session: Session, messages: Messages, transcript: Transcript, *, progress: bool) -> None:
        """A compaction was tried with this list. Without progress it is not asked for again until something changes."""
        state = self.states.get(session.session_id)
        if state is None:
            return
        state.unshown, state.saving, state.done = "", 0, None
        state.gave_up = () if progress else self.replacements(session, messages, transcript)

    def spared(self, session_id: str) -> int:
        """Tokens that the host counts when it measures the list, but that are not sent."""
        state = self.states.get(session_id)
        return state.saving if state is not None and not state.selected else 0

    def answered(self, session_id: str) -> None:
        """The request was answered: the next estimate is one of the list again."""
        state = self.states.get(session_id)
        if state is not None:
            state.selected, state.done = False, None


def _must(wanted: Sequence[Replacement]) -> tuple[Instead, ...]:
    """Replacements that somebody asked for. Another text for a message merely saves room: no compaction makes up for it."""
    return tuple(item for item in wanted if isinstance(item, Instead))


def _rewritten(
    live: Messages, wire: Messages, wanted: tuple[Replacement, ...]
) -> tuple[Shown, tuple[Replacement, ...]]:
    """The request with as many of the replacements as can be found, and these."""
    done, applied = rewrite_list(live, wire, wanted), wanted
    must = _must(wanted)
    if done.state == "unmatched" and must and len(must) < len(wanted):
        done, applied = rewrite_list(live, wire, must), must
    if done.state == "unmatched":
        applied = ()
    typed = [item for item in wanted if isinstance(item, Retold) and live[item.index].get("role") == "user"]
    if applied == wanted or not typed or (found := by_words(live, done.messages or wire, typed)) is None:
        return done, applied
    return replace(done, messages=found, state=done.state if must else "applied"), (*applied, *typed)


Message = Mapping[str, Any]
State = Literal["applied", "already", "unmatched"]

#: System message, and examples that the host puts in front of a conversation.
_MOST_IN_FRONT: Final = 24
_SYSTEM: Final = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Instead:
    """Messages ``first`` to ``stop`` (exclusive) of the live list, shown as ``messages``. An empty range inserts them."""

    first: int
    stop: int
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Retold:
    """Message ``index`` of the live list, shown with another text."""

    index: int
    text: str


Replacement = Instead | Retold


@dataclass(frozen=True, slots=True)
class Shown:
    """The rewritten request, or None and why it is sent as it is. ``already``: another hook has put the replacements in."""

    messages: list[dict[str, Any]] | None
    state: State
    reason: str = ""


def rewrite_list(live: Sequence[Message], wire: Sequence[Message], replacements: Sequence[Replacement]) -> Shown:
    """``wire`` (the live list as the host sends it) with the replacements in it. Neither list is changed."""
    ranges = sorted((r for r in replacements if isinstance(r, Instead)), key=lambda r: (r.first, r.stop))
    texts = [r for r in replacements if isinstance(r, Retold)]
    if any(one.stop > other.first for one, other in pairwise(ranges)):
        return Shown(None, "unmatched", "replaced ranges overlap")
    end = max([*(r.stop for r in ranges), *(r.index + 1 for r in texts)], default=0)
    if not replacements or end > len(live):
        return Shown(
            None, "unmatched", "nothing to replace" if not replacements else "the list is shorter than a range"
        )
    places = located(live, end, wire)
    if places is None:
        if _there(wire, ranges, texts):
            return Shown(None, "already", "the request shows the replacements")
        return Shown(None, "unmatched", "the request does not show the list as the host keeps it")
    out: list[Message] = list(wire)
    for text in texts:
        if places[text.index] >= 0:
            said = live[text.index] if live[text.index].get("role") == "user" else None
            out[places[text.index]] = retold(out[places[text.index]], text.text, said)
    for item in reversed(ranges):
        first, stop = _span(places, item)
        out[first:stop] = item.messages
    if content.unpaired(out) - content.unpaired(wire):
        return Shown(None, "unmatched", "a replacement would take a tool call from its results")
    return Shown([dict(message) for message in out], "applied")


def by_words(live: Sequence[Message], wire: Sequence[Message], texts: Sequence[Retold]) -> list[dict[str, Any]] | None:
    """``wire`` with other texts for long messages that users typed, found by their own words; None where none is.

    The host may have changed the rest of the list, and what it joined to one of them stays behind it.
    """
    out, at = [dict(message) for message in wire], 0
    for text in sorted(texts, key=lambda each: each.index):
        said = live[text.index]
        place = next((n for n in range(at, len(wire)) if same(said, wire[n])), None)
        if place is not None:
            out[place], at = retold(wire[place], text.text, said), place + 1
    return out if at else None


def located(live: Sequence[Message], needed: int, wire: Sequence[Message]) -> list[int] | None:
    """Places of the first ``needed`` live messages in ``wire`` (-1: not sent, as it says nothing); None if not beyond doubt.

    The list ends with the place behind the last of them, where the next live message, if there is one, must stand.
    """
    front = 0
    while front < len(wire) and wire[front].get("role") in _SYSTEM:
        front += 1
    for lead in range(front, min(len(wire), front + _MOST_IN_FRONT) + 1):
        places = _walk(live[:needed], wire, lead)
        if places is not None and _goes_on(live[needed:], wire, places[-1]):
            return places
    return None


def _goes_on(rest: Sequence[Message], wire: Sequence[Message], at: int) -> bool:
    """Does the next live message follow there? If not, the host joined it to one that is to be replaced, or put something in."""
    following = next((message for message in rest if not _silent(message)), None)
    return following is None or (at < len(wire) and same(following, wire[at]))


def _walk(live: Sequence[Message], wire: Sequence[Message], at: int) -> list[int] | None:
    places: list[int] = []
    for message in live:
        if at < len(wire) and same(message, wire[at]):
            places.append(at)
            at += 1
        elif _silent(message):
            places.append(-1)
        else:
            return None
    return [*places, at]


def same(live: Message, wire: Message) -> bool:
    """Is this the live message as the host sends it?

    It strips blanks and private keys, marks texts for the provider's cache, and adds what it recalled behind the user's words.
    Ids of tool calls are proof by themselves.
    """
    role = live.get("role")
    if role != wire.get("role"):
        return False
    if role == "tool":
        return str(live.get("tool_call_id") or "") == str(wire.get("tool_call_id") or "")
    calls = content.call_ids(live)
    if calls or wire.get("tool_calls"):
        return bool(calls & content.call_ids(wire))
    sent = _squeezed(wire.get("content"))
    said = _squeezed(live.get("content"))
    if sent == said or (live.get("api_content") and sent == _squeezed(live["api_content"])):
        return True
    return role == "user" and bool(said) and sent.startswith(said)


def _squeezed(body: Any) -> str:
    text = body if isinstance(body, str) else content.text_of(body)
    text = text.strip()
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _silent(message: Message) -> bool:
    """An assistant's turn of thoughts only, which the host does not send."""
    return (
        message.get("role") == "assistant" and not message.get("tool_calls") and not _squeezed(message.get("content"))
    )


def _span(places: Sequence[int], item: Instead) -> tuple[int, int]:
    """The part of the request that a range is."""
    sent = [place for place in places[item.first : item.stop] if place >= 0]
    if sent:
        return sent[0], sent[-1] + 1
    behind = next(place for place in places[item.stop :] if place >= 0)
    return behind, behind


def _there(wire: Sequence[Message], ranges: Sequence[Instead], texts: Sequence[Retold]) -> bool:
    """Does the request show all of it already?"""
    said = {_squeezed(message.get("content")) for message in wire}
    wanted = [message for item in ranges for message in item.messages if not message.get("tool_calls")]
    return all(_squeezed(m.get("content")) in said for m in wanted) and all(_squeezed(t.text) in said for t in texts)


def retold(message: Message, text: str, said: Message | None = None) -> dict[str, Any]:
    """A message with another text; marks for the provider's cache stay on it.

    ``said``: what the user typed. What the host added behind it and pictures stay, too.
    """
    body = message.get("content")
    last = body[-1] if isinstance(body, list) and body else None
    if said is not None:
        typed, sent = _squeezed(said.get("content")), _squeezed(body)
        text += sent[len(typed) :] if sent.startswith(typed) else ""
        pictures = [part for part in body if _is_picture(part)] if isinstance(body, list) else []
        if pictures:
            return {**message, "content": [{"type": "text", "text": text}, *pictures]}
    if isinstance(last, Mapping) and "cache_control" in last:
        return {**message, "content": [{"type": "text", "text": text, "cache_control": last["cache_control"]}]}
    return {**message, "content": text}


def as_shown(message: Message, text: str) -> dict[str, Any]:
    """A message of the list as requests with that text show it."""
    kept = {name: value for name, value in message.items() if name != "api_content"}
    return retold(kept, text, message if message.get("role") == "user" else None)


def shown(messages: Messages, texts: Mapping[int, str]) -> Messages:
    """The list as requests with these texts, by place, show it."""
    if not texts:
        return messages
    return [as_shown(each, texts[n]) if n in texts else each for n, each in enumerate(messages)]


def _is_picture(part: Any) -> bool:
    return isinstance(part, Mapping) and "text" not in part


#: What a chat request may say of a message; the rest is the host's own bookkeeping.
_SENT: Final = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "reasoning_details")
_SENT_OF_CALL: Final = ("id", "type", "function", "extra_content")


def as_sent(message: Message) -> dict[str, Any]:
    """A stored host message as the host would put it into a request: without its private and bookkeeping keys."""
    out = {key: message[key] for key in _SENT if key in message}
    replayed = message.get("api_content")
    if isinstance(replayed, str) and replayed and out.get("role") in ("user", "assistant"):
        out["content"] = replayed
    if isinstance(out.get("content"), str):
        out["content"] = out["content"].strip()
    if out.get("tool_calls"):
        out["tool_calls"] = [
            {key: call[key] for key in _SENT_OF_CALL if key in call} if isinstance(call, Mapping) else call
            for call in out["tool_calls"]
        ]
    return out


# -- stubs: results that a later one made superfluous, shown as address and digest ---------------------------
# Decided in the worker after a turn, never while somebody waits; a decision stays: the prefix of the prompt changes once. That
# change is paid for: the tokens behind it leave the provider's cache, all of them. So nothing is stubbed until the saving is
# worth that. At a compaction the prefix is new anyway; there ``compress`` stubs what it finds.
KEEP_CHARS: Final = 300  # of a superseded result: its beginning and its end
_SESSIONS: Final = 200
_ROOMS: Final = 50  # sessions whose large messages are held
_NEWEST: Final = 256  # of a list that goes on, so many may say something else than they did
_SHOWN_OF_OVERSIZED: Final = 0.1  # of what one message may take; the model reads on with a tool
_FITS_AGAIN: Final = 0.85  # of that: estimates waver, and each change of what is shown costs the provider's cache


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


class Oversized:
    """Stubs of messages that somebody typed and that alone are too large for a request, in sessions that have such a one.

    The list keeps such a message as it was typed: only requests show its beginning and its end.
    """

    def __init__(self, store: MessageStore, *, rough: Callable[[Messages], int]) -> None:
        self._store = store
        self._rough = rough
        self._lock = threading.Lock()
        self._rooms: dict[str, Room] = {}
        self._looked: dict[str, Looked] = {}

    def look(
        self, session_id: str, messages: Messages, transcript: Transcript, most_tokens: int, factor: float
    ) -> set[int]:
        """Stub each that is larger than ``most_tokens`` by the host's estimate, none else; the places of new ones.

        ``factor``: from such an estimate to what the provider counts.
        """
        before = self._rooms.get(session_id)
        known = before.stubs if before is not None else {}
        room = Room(most_tokens, factor)
        found = looked(messages, transcript.entries, most_tokens, self._looked.get(session_id))
        places = self._places(messages, transcript, room, known, found.long)
        with self._lock:
            self._rooms.pop(session_id, None)
            if places:
                self._rooms[session_id] = room
            self._looked.pop(session_id, None)
            self._looked[session_id] = found
            for held in (self._rooms, self._looked):
                while len(held) > _ROOMS:
                    held.pop(next(iter(held)))
        return {n for n in places if _named(transcript.entries[n]) not in known}

    def _places(
        self, messages: Messages, transcript: Transcript, room: Room, known: Mapping[Name, str], long: Iterable[int]
    ) -> dict[int, str]:
        """Stubs by place in the list, as far as possible the known ones; the room keeps them. ``long``: where any may be."""
        out = dict[int, str]()
        for n in long:
            message, entry = messages[n], transcript.entries[n]
            if not _is_long(message, room.most_tokens) or not entry.ids or entry.own:
                continue
            name = _named(entry)
            if text := room.stubs.get(name) or self._stub(message, entry.ids, room, known.get(name, "")):
                out[n] = room.stubs[name] = text
                room.said[name] = message
        return out

    def by_words(self, session_id: str, wire: Messages) -> list[dict[str, Any]] | None:
        """A request of the session with the stubs, without a look at list or store; None where none is in it."""
        room = self._rooms.get(session_id)
        said = list(room.said.items()) if room is not None else []
        texts = [Retold(n, room.stubs[name]) for n, (name, _) in enumerate(said)] if room is not None else []
        return by_words([message for _, message in said], wire, texts)

    def _stub(self, message: Message, ids: Sequence[int], room: Room, known: str) -> str:
        """Stub of a message, or of several that the host joined (the address is that of the largest); "" where it fits."""
        sent, most = as_sent(message), room.most_tokens
        said = content.text_of(sent.get("content"))
        if len(said) < _SHOWN_OF_OVERSIZED * most:  # pictures have no beginning and end
            return ""
        heads = self._store.heads_of(ids)
        size = max(self._rough([sent]), int(sum(head.tokens for head in heads.values()) / room.factor))
        if size <= (most * _FITS_AGAIN if known else most):
            return ""
        if known and self._rough([as_shown(message, known)]) <= 2 * _SHOWN_OF_OVERSIZED * most:
            return known
        store_id = max(ids, key=lambda i: heads[i].tokens if i in heads else 0)
        text = (text_of(self._store, message, store_id) if len(ids) == 1 else "") or said
        place = f"All of it: lcm_expand(store_id={store_id})"
        if markers.overheard(said)[0] and not markers.overheard(text)[0]:
            text, place = said, f"Its lines are messages in front of msg_{store_id}: lcm_load_session, lcm_grep"
        chars = int(_SHOWN_OF_OVERSIZED * most * len(text) / max(1, size))
        head, tail = text[: chars * 2 // 3], text[len(text) - chars // 3 :]
        note = (
            f"[... {len(text) - len(head) - len(tail):,} of {len(text):,} characters left out: the message is larger than a "
            f"request may be. {place} ...]"
        )
        return f"{head}\n{note}\n{tail}"

    def forget(self, session_id: str) -> None:
        """Let go of a session's messages; the next look finds them again."""
        with self._lock:
            self._rooms.pop(session_id, None)
            self._looked.pop(session_id, None)

    def waits(self, session: Session) -> bool:
        """Is there any?"""
        return session.session_id in self._rooms

    def shown(self, session: Session, messages: Messages, transcript: Transcript) -> tuple[dict[int, str], Messages]:
        """The stubs by place in the live list, and the list with them."""
        texts = {item.index: item.text for item in self.replacements(session, messages, transcript)}
        return texts, shown(messages, texts)

    def replacements(self, session: Session, messages: Messages, transcript: Transcript) -> Sequence[Retold]:
        """The stubs in places of the live list, also under the numbers that rows have since another file stands in."""
        room = self._rooms.get(session.session_id)
        if room is None:
            return ()
        long = looked(messages, transcript.entries, room.most_tokens).long
        return [Retold(n, text) for n, text in self._places(messages, transcript, room, {}, long).items()]


Name = tuple[tuple[int, ...], bytes]
"""Rows by number and by what they say: in another file the number is that of another row."""


def _named(entry: Entry) -> Name:
    return entry.ids, entry.digest


class Looked(NamedTuple):
    """Places of typed messages of at least so many characters among the first ones of a list, and what all these are."""

    entries: Entries
    least_chars: int
    long: Sequence[int]


def looked(messages: Messages, entries: Entries, most_tokens: int, before: Looked | None = None) -> Looked:
    """A look for typed messages that may be larger than so many tokens: no estimate makes two of one character.

    In a list that has gone on since the look ``before`` only the newest are looked at: the host writes into no others.
    """
    shown, start, known = entries.first(len(messages)), 0, list[int]()
    least = most_tokens // 2  # what a request can hold is a little more or less the next time
    if before is not None and before.least_chars <= most_tokens and shown.continues(before.entries):
        start, least = max(0, len(before.entries) - _NEWEST), before.least_chars
        known = [n for n in before.long if n < start]
    new = [n for n, message in enumerate(messages[start : len(shown)], start) if _is_long(message, least)]
    return Looked(shown, least, known + new)


def _is_long(message: Message, chars: int) -> bool:
    """Did somebody type so many characters, or send parts?"""
    if message.get("role") != "user":
        return False
    body = message.get("api_content") or message.get("content")
    return not isinstance(body, str) or len(body) >= chars


@dataclass(frozen=True, slots=True)
class Room:
    """Room of one typed message in the requests of a session, in the host's estimate; those that exceed it, and their stubs."""

    most_tokens: int
    factor: float
    stubs: dict[Name, str] = field(default_factory=dict)
    said: dict[Name, Message] = field(default_factory=dict)


def text_of(store: MessageStore, message: Mapping[str, Any], store_id: int) -> str:
    """A result's text: as it is stored, for a list may show a stub of it; where that cannot be read, as the list shows it."""
    rows, damaged = store.legible([store_id])
    return content.text_of(message.get("content")) if damaged else rows[0].text if rows else ""


def stub(nonce: str, store: MessageStore, message: Mapping[str, Any], store_id: int) -> str:
    """Stub of a superseded result: where it is, how it begins and ends."""
    name = str(message.get("tool_name") or message.get("name") or "")
    return context_message.stub_text(nonce, store_id, name, text_of(store, message, store_id), KEEP_CHARS)


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
            calls[call.id] = (call.name, content.canonical_arguments(call.arguments))
        key = calls.get(str(message.get("tool_call_id"))) if message.get("role") == "tool" else None
        body = message.get("content")
        if key is not None and isinstance(body, str) and read_stub(body) is None:
            results.append((place, key, len(body)))
    for place, key, chars in reversed(results):
        if chars >= least_chars and size.get(key, 0) >= chars * _SHARE:
            found.append(place)
        size[key] = max(size.get(key, 0), chars)
    return found[::-1]
