"""
Write filters: what happens to a message on its way into the store.

Composes noise (not stored at all), redaction (secrets leave) and the guard (payloads go into files). Who a message is has been
decided before: its digest stays that of what the host shows, so that the host's copy is recognised whatever the row holds.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import json
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

from ..config import Config
from ..records import Flag, Message
from ..storage.meta import Health
from ..storage.payloads import Payloads
from ..text import blobs, content, redact
from ..text.blobs import LiteralLostError, Ref
from ..text.explore import explore
from ..text.redact import Redactor
from ..text.secret_kinds import CATALOGUE

IGNORED: Final = "ignored_messages"
SECRETS: Final = "secrets in messages"
_SWITCH_ON: Final = (
    "LCM_SENSITIVE_PATTERNS_ENABLED=true keeps secrets out from then on; `/lcm redact apply` takes out what is stored"
)
_KIND = re.compile(r"\[redacted:([a-z_]+)")
_LOOKED_AT = 100_000  # bytes of a message
_MOST_UNSEEN = 64  # messages: more are looked at while the turn waits
_NAMES = frozenset(("role", "tool_call_id", "message_uid", "timestamp", "name", "tool_name", "type", "id", "call_id"))
_LEAST_SAVED = 400  # what a placeholder with its description costs: shorter strings stay


class WriteFilters:
    """Filters of what is stored. One per process and database; stateless but for the counters in health."""

    def __init__(
        self, payloads: Payloads, health: Health, *, noise: Noise, redactor: Redactor | None, threshold: int | None,
        named: Redactor | None = None,
    ) -> None:  # fmt: skip
        self._payloads = payloads
        self._health = health
        self._noise = noise
        self._redactor = redactor
        self._named = named or redactor or Redactor()
        self._told = False
        self._unseen = deque[bytes]()  # beginnings of messages in which nobody has looked for secrets yet
        self._threshold = threshold
        #: A text that is no message (a focus, a summary of the agent's, a setting), without secrets.
        self.text: Callable[[str], str] = redactor.text if redactor is not None else str
        #: As ``text``, for a short one that comes often.
        self.key: Callable[[str], str] = redactor.key if redactor is not None else str
        #: A name or an id of a message, as it is stored.
        self.name: Callable[[str], str] = redactor.name if redactor is not None else str
        #: Id of a session, as it is stored.
        self.identity: Callable[[str], str] = redactor.identity if redactor is not None else str

    def __call__(self, message: Mapping[str, Any], read: Message) -> Message | None:
        if self._noise and self._is_noise(message, read):
            self._health.counters[IGNORED] += 1
            return None
        return self.stored_form(read)

    def stored_form(self, read: Message) -> Message:
        """A message that is wanted, as it is stored."""
        if self._redactor is None:
            if not self._told and not read.flags & Flag.OWN_TOOL:
                self._unseen.append(read.stored_json[:_LOOKED_AT])
                if len(self._unseen) > _MOST_UNSEEN:
                    self.warn_of_secrets()
            return self._folded(read)
        if not self._told:
            self._told = True
            self._health.resolved(SECRETS)
        return self._folded(redacted(read, self._redactor))

    def warn_of_secrets(self) -> None:
        """Tell once, while redaction is off, that a secret was stored, and how to take it out. Behind the turn: nobody waits."""
        with suppress(IndexError):  # none is left, or another thread looked at it
            while not self._told:
                text = self._unseen.popleft().decode("utf-8", "replace")
                kind = self._named.kind_in(text)
                if kind and not _KIND.search(text):
                    self._told = True
                    self._health.degraded(SECRETS, f"a message that was stored holds a secret ({kind}); redaction is off",
                                          severity="warning", remedy=_SWITCH_ON)  # fmt: skip
        if self._told:
            self._unseen.clear()

    def clean(self, messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Messages of a live list as models may see them: without secrets."""
        return [_clean_live(m, self._redactor) for m in messages] if self._redactor is not None else list(messages)

    def quiet(self, message: Mapping[str, Any]) -> bool:
        """Must no summary show this message?"""
        return bool(self._noise) and self._is_noise(message, content.read_message(message))

    def _is_noise(self, message: Mapping[str, Any], read: Message) -> bool:
        body = message.get("content")
        said = read.text if body is None or isinstance(body, str) else body
        return self._noise.match(said, timed_out=self._slow) is not None

    def _slow(self, pattern: str) -> None:
        self._health.degraded(
            "slow pattern", f"LCM_IGNORE_MESSAGE_PATTERNS: {pattern!r} took too long for a message, which was kept",
            severity="warning", remedy="simplify the pattern",
        )  # fmt: skip

    def again(self, clean: Message) -> Message:
        """A stored message whose secrets were taken out, as it is stored."""
        return self._folded(replace(clean, flags=clean.flags & ~(Flag.EXTERNALISED | Flag.COLLECTED)))

    # -- payloads -----------------------------------------------------------------------------------
    def _folded(self, read: Message) -> Message:
        """The message with payloads in files; unchanged when it has none, or they could not be written."""
        if read.flags & Flag.OWN_TOOL:
            return read  # what our tools read back from files must not go there again
        known, raw = read.value, read.stored_json
        if not self._is_large(raw) and (len(raw) < blobs.MIN_CHARS or not blobs.suspicious(raw)):
            return read
        try:
            data = known if known is not None else json.loads(raw)
            fold = _Folding(self._payloads, self._threshold)
            view, stored = fold.message(data)
        except (LiteralLostError, RecursionError):
            return read
        if not fold.refs:
            return read
        self._payloads.refer(read.digest, fold.refs.values(), fold.chars)
        shown = content.decode(_dumped(view)) if read.flags & Flag.QUARANTINED else view
        return replace(
            read,
            text=content.text_of(shown.get("content")),
            calls=content.calls_of(shown),
            stored_json=_dumped(stored).encode("utf-8"),
            flags=read.flags | Flag.EXTERNALISED,
            value=None,
            files=tuple(fold.refs),
        )

    def _is_large(self, stored_json: bytes) -> bool:
        """By its characters, of which each has four bytes at most."""
        most = self._threshold
        if most is None or len(stored_json) <= most:
            return False
        return len(stored_json) > 4 * most or len(stored_json.decode("utf-8")) > most


class _Folding:
    """Folding of one message into files. ``refs`` and ``chars`` by digest."""

    def __init__(self, payloads: Payloads, threshold: int | None) -> None:
        self._payloads = payloads
        self._threshold = threshold
        self.refs: dict[str, Ref] = {}
        self.chars: dict[str, int] = {}

    def message(self, data: Any) -> tuple[Any, Any]:
        """(as it is read and searched, as it is stored)."""
        spans: dict[int, list[blobs.Span]] = {}  # by the strings themselves: to hash a huge one takes a while
        content.mapped(data, lambda text: self._look(text, spans))
        if not spans and not self._has(data, self._is_large):
            return data, data
        literals = self._has(data, lambda text: blobs.MARK in text)
        view = content.mapped(
            data, lambda text: blobs.fold(text, self._keep, found=spans.get(id(text), []), literals=literals)
        )
        return view, content.mapped(view, self._as_file)

    @staticmethod
    def _look(text: str, spans: dict[int, list[blobs.Span]]) -> str:
        if len(text) >= blobs.MIN_CHARS and id(text) not in spans:
            found = blobs.spans(text)
            if found:
                spans[id(text)] = found
        return text

    def _is_large(self, text: str) -> bool:
        return self._threshold is not None and len(text) > self._threshold and len(text) > _LEAST_SAVED

    @staticmethod
    def _has(data: Any, what: Callable[[str], bool]) -> bool:
        """Is any of its strings like that?"""
        found = False

        def look(text: str) -> str:
            nonlocal found
            found = found or what(text)
            return text

        content.mapped(data, look)
        return found

    def _as_file(self, text: str) -> str:
        """A text that is too long as a placeholder, and what it looks like."""
        if not self._is_large(text):
            return text
        kind, description = explore(text)
        ref = self._keep(text, blobs.TEXT, _MIMES.get(kind, "text/plain"))
        return text if ref is None else f"{ref}\n{description}"

    def _keep(self, text: str, kind: str, mime: str) -> Ref | None:
        ref = self._payloads.keep(text, kind, mime)
        if ref is not None:
            self.refs[ref.sha] = ref
            self.chars[ref.sha] = len(text)
        return ref


_MIMES = {"json": "application/json", "table": "text/csv", "markup": "text/html"}


def _dumped(data: Any) -> str:
    """JSON that ``content.decode`` reads, lone surrogates escaped."""
    if set(data) == {content._ESCAPE}:  # noqa: SLF001 - the escaped form is already what encode makes
        return json.dumps(data, separators=(",", ":"))
    return content.encode(data)[0]


# -- secrets ---------------------------------------------------------------------------------------------
def redacted(read: Message, redactor: Redactor) -> Message:
    """The message without its secrets, flagged if it had any."""
    data = read.value if read.value is not None else json.loads(read.stored_json)
    if set(data) != {content._ESCAPE}:  # noqa: SLF001 - see above
        said = clean_message(data, redactor)
        return read if said == data else content.rewritten(read, said, Flag.REDACTED)
    clean = {content._ESCAPE: _clean_graph(data[content._ESCAPE], redactor)}  # noqa: SLF001
    if clean == data:
        return read
    shown = content.rewritten(read, content.decode(json.dumps(clean)), Flag.REDACTED)
    return replace(shown, stored_json=_dumped(clean).encode("utf-8"), value=None)


def clean_message(message: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """A host message without secrets, in its keys, names and ids neither; ids that were equal are equal."""
    return _clean_items(message, redactor, calls=False, names=True)


def _clean_items(items: Mapping[Any, Any], redactor: Redactor, *, calls: bool, names: bool) -> dict[Any, Any]:
    """A mapping, whose ``_NAMES`` are names and ids if ``names``. No two keys become one."""
    out: dict[Any, Any] = {}
    for key, value in items.items():
        new = redactor.key(key) if isinstance(key, str) else key
        while new in out:
            new += "_"
        if names and key in _NAMES and isinstance(value, str):
            out[new] = redactor.name(value)
        else:
            out[new] = _clean(value, redactor, key, calls=key == "function" if calls else names and key == "tool_calls")
    return out


def _clean_live(message: Mapping[str, Any], redactor: Redactor) -> Mapping[str, Any]:
    try:
        return clean_message(message, redactor)
    except (
        RecursionError
    ):  # a message that goes deeper than Python does is looked at leaf by leaf, as it would be stored
        return content.decode(redacted(content.read_message(message), redactor).stored_json)


def _clean(value: Any, redactor: Redactor, key: Any = "", *, calls: bool = False) -> Any:
    if isinstance(value, str):
        return redactor.value(key, value) if isinstance(key, str) else redactor.text(value)
    if isinstance(value, dict):
        return _clean_items(value, redactor, calls=calls, names=calls)
    if isinstance(value, list):
        return _clean_list(value, redactor, calls=calls)
    if isinstance(value, tuple):  # no list of a host that came from JSON holds one
        return tuple(_clean_list([*value], redactor, calls=calls))
    return value


def _clean_list(items: list[Any], redactor: Redactor, *, calls: bool) -> list[Any]:
    """Items one by one, and texts that follow each other also as one."""
    out = [_clean(item, redactor, calls=calls) for item in items]
    at = 0
    while at < len(out):
        stop = at
        while stop < len(out) and _text(out[stop]) is not None:
            stop += 1
        if stop - at > 1:
            texts = redactor.pieces([str(_text(item)) for item in out[at:stop]])
            pairs = zip(out[at:stop], texts, strict=True)
            out[at:stop] = [text if isinstance(item, str) else {**item, "text": text} for item, text in pairs]
        at = stop + 1
    return out


def _clean_graph(nodes: list[list[Any]], redactor: Redactor) -> list[list[Any]]:
    """The escaped form of a message that is not JSON: flat, so every leaf is looked at, at any depth."""
    out = [[kind, _LEAVES[kind](payload, redactor) if kind in _LEAVES else payload] for kind, payload in nodes]
    for kind, payload in nodes:
        for key, item in payload if kind == "dict" else ():
            if (
                nodes[key][0] == nodes[item][0] == "value"
                and isinstance(nodes[key][1], str)
                and isinstance(nodes[item][1], str)
            ):
                name, said = nodes[key][1], nodes[item][1]
                out[item] = ["value", redactor.name(said) if name in _NAMES else redactor.value(name, said)]
    return out


def _clean_bytes(payload: str, redactor: Redactor) -> str:
    try:
        text = base64.b64decode(payload).decode("latin-1")
    except (binascii.Error, ValueError):
        return payload
    return base64.b64encode(redactor.text(text).encode("latin-1")).decode("ascii")


def _clean_pairs(payload: str, redactor: Redactor) -> str:
    text = base64.b64decode(payload).decode("utf-8", "surrogatepass")
    return base64.b64encode(redactor.text(text).encode("utf-8", "surrogatepass")).decode("ascii")


_LEAVES: Mapping[str, Callable[[Any, Redactor], Any]] = {
    "value": lambda payload, redactor: redactor.text(payload) if isinstance(payload, str) else payload,
    "repr": lambda payload, redactor: redactor.text(payload),
    "bytes": _clean_bytes,
    "text": _clean_pairs,
}


def as_redacted(message: Mapping[str, Any], stored_json: Mapping[str, Any]) -> dict[str, Any]:
    """A live message as a prompt should show it once its row is redacted: the row's words, the host's names and other keys.

    An id of a call stays that of its result, which may not have been redacted.
    """
    words = {key: stored_json[key] for key in ("content", "tool_calls") if key in stored_json}
    if "tool_calls" in words:
        words["tool_calls"] = _with_names(message.get("tool_calls"), words["tool_calls"])
    return {**message, **words}


def _with_names(live: Any, stored: Any) -> Any:
    """Stored calls under the names and ids of the live ones."""
    if isinstance(live, list) and isinstance(stored, list) and len(live) == len(stored):
        return [_with_names(*each) for each in zip(live, stored, strict=True)]
    if not isinstance(live, dict) or not isinstance(stored, dict):
        return stored
    names = {key: live[key] for key in _NAMES.intersection(live, stored)}
    if "function" in stored:
        names["function"] = _with_names(live.get("function"), stored["function"])
    return {**stored, **names}


# -- building --------------------------------------------------------------------------------------------
def build(config: Config, payloads: Payloads, health: Health) -> WriteFilters:
    """The write filters that the settings ask for; faults of these go into health."""
    noise = Noise(config.ignore_message_patterns)
    for n, problem in enumerate(noise.problems):
        health.degraded(
            f"message pattern {n + 1}", problem, severity="warning", remedy="see LCM_IGNORE_MESSAGE_PATTERNS"
        )
    named = Redactor(config.sensitive_patterns)
    redactor = named if config.sensitive_patterns_enabled else None
    if redactor is not None:
        health.clean = redactor.text
        redact.keep_clean(redactor)
    for name in named.unknown:  # also while it is off: who switches it on relies on the names
        health.degraded(
            f"sensitive pattern {name}", f"LCM_SENSITIVE_PATTERNS: {name!r} is not a known kind of secret", severity="warning",
            remedy=f"the kinds are {', '.join(CATALOGUE)}, or all",
        )  # fmt: skip
    threshold = (
        config.large_output_externalization_threshold_chars if config.large_output_externalization_enabled else None
    )
    return WriteFilters(payloads, health, noise=noise, redactor=redactor, threshold=threshold, named=named)


# -- ignored messages: regular expressions of the operator -----------------------------------------------
# Only with the ``regex`` package, whose searches can be stopped. One message has one limit for all patterns together: each has a
# share that no other can take; what one leaves the next may use; one that was stopped comes last until it ends in time.
TIMEOUT_S: Final = 0.05  # for one message and the only pattern
SEVERAL_TIMEOUT_S: Final = 0.04  # for all of several: each may be stopped a little late
_SHARED: Final = 0.5  # of that is divided among the patterns; the rest goes to whoever comes first
NO_REGEX: Final = (
    "LCM_IGNORE_MESSAGE_PATTERNS is not applied: install the package `regex`, whose searches can be stopped"
)


def _installed() -> ModuleType | None:
    try:
        return importlib.import_module("regex")
    except ImportError:
        return None


_regex = _installed()


class Noise:
    """Compiled patterns. ``problems``: what is wrong with them, for health; the others work.

    ``engine`` None: the package is missing, so nothing is filtered.
    """

    def __init__(
        self, patterns: Sequence[str], *, engine: ModuleType | None = _regex, timeout_s: float | None = None
    ) -> None:
        self.problems: list[str] = []
        several = SEVERAL_TIMEOUT_S if len(patterns) > 1 else TIMEOUT_S
        self._timeout_s = several if timeout_s is None else timeout_s
        self._searches: list[tuple[str, Callable[..., Any]]] = []
        self._stopped: set[str] = set()  # patterns that were too slow when they were last tried
        if patterns and engine is None:
            self.problems.append(NO_REGEX)
            return
        for pattern in patterns:
            assert engine is not None
            try:
                self._searches.append((pattern, engine.compile(pattern).search))
            except (engine.error, RecursionError, OverflowError, re.error) as exc:
                self.problems.append(f"pattern {pattern!r} is not a regular expression: {exc}")

    def __bool__(self) -> bool:
        return bool(self._searches)

    def match(self, content: Any, *, timed_out: Callable[[str], None] = lambda _: None) -> str | None:
        """The first pattern that matches what a message says, or None. What was not decided in time matches nothing."""
        if not self._searches:
            return None
        text = spoken(content)
        least = self._timeout_s * _SHARED / len(self._searches)
        left = self._timeout_s
        waiting = len(self._searches)
        for pattern, search in sorted(self._searches, key=lambda each: each[0] in self._stopped):
            waiting -= 1
            began = time.perf_counter()
            try:
                found = search(text, timeout=max(least, left - waiting * least), concurrent=True)
            except TimeoutError:
                self._stopped.add(pattern)
                timed_out(pattern)
            else:
                self._stopped.discard(pattern)
                if found:
                    return pattern
            left -= time.perf_counter() - began
        return None


def spoken(content: Any) -> str:
    """Text that patterns are matched against: the text, the text parts, or the JSON of what has neither."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, Sequence):
        parts = [text for part in content if (text := _text(part)) is not None]
        if parts:
            return "\n".join(parts)
    try:
        return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=repr)
    except (TypeError, ValueError, RecursionError):
        return ""


def _text(part: Any) -> str | None:
    """Text of a part of a content list; None of a part without one."""
    text = part.get("text") if isinstance(part, Mapping) else part
    return text if isinstance(text, str) else None
