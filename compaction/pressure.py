"""
Pressure of a prompt on its window: two measures of its size, when a compaction is due, when another pass is worth trying.

The host estimates a request; the provider counts it. ``Calibration`` learns how far the estimates are from the counts: online
ratios per model and content class, kept between processes by their owner. A request is a mix of classes and the provider
tells one number for all of it, so each class moves by its share in the error. Only ever used to act earlier: a ratio below one
(the estimate was too high) changes nothing, because acting late is what ends a session. Before a provider has said anything, a
count of the text itself stands in: characters/4 is three times too low for Chinese. ``Pressure`` is the policy of one agent;
it remembers the sizes of the last request, and the size at which a pass could do nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from ..text import content, tokens
from ..text.tokens import Count
from .compress import Outcome

Rough = Callable[[list[Mapping[str, Any]]], int]

PROSE, STRUCTURED, CJK, FIXED = "prose", "structured", "cjk", "fixed"
#: What a request is made of. ``fixed``: system prompt and tool schemas, which no compaction makes smaller.
CLASSES: Final = (PROSE, STRUCTURED, CJK, FIXED)

_WEIGHT = 0.3  # of the newest observation when it lowers a ratio
_MIN_ROUGH = 2000  # below this a request says little
_LOW, _HIGH = 0.25, 4.0
_MOST_MARGIN = 0.25
_SAMPLE_MESSAGES = 96
_SAMPLE_CHARS = 2000  # of one message
_CLASS_CHARS = 8_000  # of one class
_SESSIONS = 256
_CJK_SHARE = 0.15
_MARKS_SHARE = 0.14  # of code, JSON and logs: digits, brackets and signs; prose has less than a tenth
_MARKS = str.maketrans("", "", "0123456789{}[]()<>\"'`=/\\_|;:#$%&*+-@^~,")


@dataclass(frozen=True, slots=True)
class Mix:
    """The mix of a session's requests: tokens by class of content, as the host estimates them.

    ``shares`` of the messages by class (their sum is 1), ``fixed`` tokens beside them; ``counted``: a count of each class's text
    over the host's estimate, for classes that no provider has spoken about.
    """

    shares: Mapping[str, float]
    fixed: int
    counted: Mapping[str, float]

    def of(self, request_tokens: int) -> dict[str, float]:
        """The classes of a request of that size."""
        fixed = min(self.fixed, request_tokens)
        return {FIXED: float(fixed), **{name: share * (request_tokens - fixed) for name, share in self.shares.items()}}


def class_of(role: str, text: str) -> str:
    """The content class of a text, by its characters."""
    sample = text[:_SAMPLE_CHARS]
    if not sample:
        return PROSE
    if not sample.isascii():
        wide = sum(1 for char in sample if "\u2e80" <= char <= "\ud7ff" or "\uf900" <= char <= "\ufaff")
        if wide >= _CJK_SHARE * len(sample):
            return CJK
    marks = len(sample) - len(sample.translate(_MARKS))
    # A tool's answer may be prose; a few signs less are enough to take it for what it usually is.
    return STRUCTURED if marks >= (_MARKS_SHARE * (0.6 if role == "tool" else 1.0)) * len(sample) else PROSE


def mix_of(messages: Sequence[Mapping[str, Any]], *, rough: int, request: int | None, count: Count) -> Mix:
    """The mix of a list, by an even sample. ``rough``: the host's estimate of it; ``request``: of all that goes out."""
    step = max(1, len(messages) // _SAMPLE_MESSAGES)
    sizes: dict[str, int] = {}
    texts: dict[str, list[str]] = {}
    for message in messages[::step]:
        for role, text in _texts(message):
            name = class_of(role, text)
            sizes[name] = sizes.get(name, 0) + len(text)
            if sum(map(len, texts.setdefault(name, []))) < _CLASS_CHARS:
                texts[name].append(text[:_SAMPLE_CHARS])
    total = sum(sizes.values())
    shares = {name: size / total for name, size in sizes.items()} if total else {PROSE: 1.0}
    counted = {name: _per_char("\n".join(parts), count) for name, parts in texts.items()}
    # The host's estimate counts the keys of each message too, which cost next to nothing: what it makes of a character of text
    # is more than a quarter.
    estimated = rough / (total * step) if total and rough else 0.25
    overhead = tokens.MESSAGE_OVERHEAD_TOKENS * len(messages[::step]) / total if total else 0.0
    ratios = {name: (each + overhead) / estimated for name, each in counted.items()}
    return Mix(shares, max(0, (request or 0) - rough), ratios)


def _texts(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(role, text) of a message and of the arguments of its calls."""
    role = str(message.get("role") or "")
    out = [(role, content.text_of(message.get("content")))]
    if message.get("tool_calls"):
        out.append(("tool", "\n".join(call.arguments for call in content.calls_of(message))))
    return [(role, text) for role, text in out if text]


def _per_char(text: str, count: Count) -> float:
    return count(text) / len(text) if text else 0.25


@dataclass(slots=True)
class _Model:
    """Measurements of one model: the ratio of each class that was seen, how often, and by how much the last guesses were off."""

    ratios: dict[str, float]
    seen: int = 0
    off: float = 0.0


class Calibration:
    """Reported prompt tokens over estimated ones, by model and content class."""

    def __init__(self, *, count: Count = tokens.count, rough: Rough = tokens.rough) -> None:
        self._count = count
        self._rough = rough
        self._lock = threading.Lock()
        self._models: dict[str, _Model] = {}
        self._mixes: OrderedDict[str, Mix] = OrderedDict()

    def measure(self, session_id: str, messages: Sequence[Mapping[str, Any]], request: int | None) -> None:
        """Look at what a session's list is made of. ``request``: the host's estimate of the whole request it went out in.

        Takes milliseconds, so it is done when a compaction measures the list anyway, and by the worker.
        """
        mix = mix_of(messages, rough=self._rough(list(messages)), request=request, count=self._count)
        with self._lock:
            before = self._mixes.pop(session_id, None)
            fixed = mix.fixed or (before.fixed if before is not None else 0)
            self._mixes[session_id] = replace(mix, fixed=fixed)
            while len(self._mixes) > _SESSIONS:
                self._mixes.popitem(last=False)

    def fixed(self, session_id: str) -> int:
        """Estimated tokens of a session's requests beside their messages, as measured last; 0 where they never were."""
        with self._lock:
            mix = self._mixes.get(session_id)
        return mix.fixed if mix is not None else 0

    def observe(self, model: str, rough: int, real: int, session_id: str = "") -> None:
        """One request: what was estimated for it and what the provider counted."""
        if rough < _MIN_ROUGH or real <= 0:
            return
        with self._lock:
            parts = _parts(rough, self._mixes.get(session_id))
            known = self._models.setdefault(model, _Model({}))
            overall = max(_LOW, min(_HIGH, real / rough))
            for name in parts:
                known.ratios.setdefault(name, overall)
            guess = sum(size * known.ratios[name] for name, size in parts.items())
            error = real - guess
            # Upwards at once, downwards slowly: one request that was dearer than thought is proof, one cheap one is not.
            step = error if error > 0 else _WEIGHT * error
            squares = sum(size * size for size in parts.values())
            for name, size in parts.items():
                known.ratios[name] = max(_LOW, min(_HIGH, known.ratios[name] + step * size / squares))
            off = abs(error) / real
            known.off = off if known.seen == 0 else known.off + _WEIGHT * (off - known.off)
            known.seen += 1

    def factor(self, model: str, session_id: str = "", *, request: int = 100_000) -> float:
        """Factor for an estimate (``request`` tokens large), on the safe side; never below one."""
        with self._lock:
            mix = self._mixes.get(session_id)
            parts = _parts(max(1, request), mix)
            known = self._models.get(model)
            guess = sum(size * self._ratio(known, name, mix) for name, size in parts.items())
            margin = 1.0 + min(_MOST_MARGIN, known.off) if known is not None else 1.0
        return max(1.0, min(_HIGH, margin * guess / sum(parts.values())))

    @staticmethod
    def _ratio(known: _Model | None, name: str, mix: Mix | None) -> float:
        """Ratio of a class as the provider counts; before it has spoken of this class, as it is counted here, but never lower."""
        if known is not None and name in known.ratios:
            return known.ratios[name]
        if mix is not None:
            return max(1.0, min(_HIGH, mix.counted.get(name, 1.0)))
        return max(known.ratios.values(), default=1.0) if known is not None else 1.0

    def status(self, model: str, session_id: str, request: int) -> dict[str, Any]:
        """Ratios, and what of a request can shrink, for status."""
        out: dict[str, Any] = {"factor": round(self.factor(model, session_id, request=request), 3)}
        out["counted_by"] = getattr(self._count, "name", "estimate by byte class")
        with self._lock:
            known, mix = self._models.get(model), self._mixes.get(session_id)
            if known is not None:
                out |= {"observations": known.seen, "margin": round(min(_MOST_MARGIN, known.off), 3)}
                out["ratios"] = {name: round(ratio, 3) for name, ratio in sorted(known.ratios.items())}
        if mix is not None:
            out["messages_by_class"] = {name: round(share, 3) for name, share in sorted(mix.shares.items())}
            out |= {"fixed_tokens": mix.fixed, "shrinkable_tokens": max(0, request - mix.fixed)}
        return out

    def dump(self) -> dict[str, Any]:
        """JSON-able state."""
        with self._lock:
            return {
                model: {
                    "ratios": {name: round(ratio, 4) for name, ratio in known.ratios.items()},
                    "seen": known.seen,
                    "off": round(known.off, 4),
                }
                for model, known in self._models.items()
            }

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over what ``dump`` gave; what has no such shape is left out."""
        with self._lock:
            for model, item in state.items():
                if isinstance(item, Mapping) and isinstance(item.get("ratios"), Mapping):
                    ratios = {
                        str(n): max(_LOW, min(_HIGH, float(r))) for n, r in item["ratios"].items() if _is_number(r)
                    }
                    kept = {name: ratio for name, ratio in ratios.items() if name in CLASSES}
                    self._models[str(model)] = _Model(kept, int(_number(item.get("seen"))), _number(item.get("off")))


def _parts(tokens: int, mix: Mix | None) -> dict[str, float]:
    """The classes of a request, only those that are there; without a mix it is all one."""
    parts = {name: size for name, size in mix.of(tokens).items() if size > 0} if mix is not None else {}
    return parts or {PROSE: float(max(1, tokens))}


def _number(value: Any) -> float:
    return float(value) if _is_number(value) else 0.0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


Factor = Callable[[int], float]
"""What to multiply the host's estimate of a request of that size with."""

_RETRY_GROWTH: Final = 1.03  # after a pass without progress: try again when the prompt has grown by this much
_FOR_MODELS: Final = 0.85  # of the foreground budget: beside thirty chats what is done behind them took up to 2 s
_OTHER_MEASURE: Final = 4  # estimates and counts of one prompt do not differ by more


class Size(NamedTuple):
    """A threshold and a prompt, both in the host's own estimates."""

    threshold: int
    current: int | None


class Pressure:
    """Sizes of one agent's prompt. ``counted``: by the provider, -1 if never; ``estimated``: by the host, of the next request."""

    def __init__(self) -> None:
        self.counted = -1
        self.estimated = 0
        self._unanswered = 0
        self._stuck_at = 0

    def forget(self) -> None:
        """Another model or another session: a pass that could do nothing may be able to now."""
        self._stuck_at = 0

    def noted(self, used: int, *, spared: int) -> int:
        """The size of a prompt that the host asks about. Its estimate is of the whole list; ``spared`` tokens are not sent."""
        if used == self.counted:
            return used
        self._unanswered = self.estimated = max(0, used - spared)
        return self.estimated

    def sent(self, current: int | None, spared: int) -> int | None:
        """The size of a request of whose estimate ``spared`` tokens are not sent; what was counted is what was sent."""
        return max(0, current - spared) if current is not None and current != self.counted else current

    def shrank(self, tokens: int) -> None:
        """The next request is smaller by so much than the host has estimated; no new estimate comes."""
        self._unanswered = self.estimated = max(0, self.estimated - tokens)

    def answered(self, counted: int) -> int:
        """The provider has counted the request. What had been estimated for it; 0 if nothing was."""
        estimated, self._unanswered = self._unanswered, 0
        self.counted = counted
        return estimated

    def calibrated(self, used: int, factor: Factor) -> int:
        """An estimate of the host in tokens of the provider; what the provider itself counted stays as it is."""
        return used if used == self.counted else int(used * factor(used))

    def estimate_of(self, current: int | None) -> int:
        """The host's estimate of a prompt of which it says this; of the one on its way if it tells the provider's count."""
        return current if current is not None and current != self.counted else self.estimated

    def size(self, threshold: int, current: int | None, factor: Factor) -> Size:
        """The threshold (in the provider's tokens) and the prompt as a pass measures them."""
        scale = factor(self.estimate_of(current))
        return Size(int(threshold / scale), int(current / scale) if current == self.counted and current else current)

    def worth_a_pass(self, used: int) -> bool:
        """Has anything changed since a pass that could do nothing for a prompt over its threshold?"""
        if used * _OTHER_MEASURE < self._stuck_at:
            self._stuck_at = 0  # what was reported then was no size of this prompt
        return used > self._stuck_at * _RETRY_GROWTH

    def passed(self, outcome: Outcome, current: int | None, threshold: int, factor: Factor, *, force: bool) -> None:
        """A pass is over. ``threshold``: of the provider's tokens."""
        if outcome.messages is None:
            if not force and (current is None or self.calibrated(current, factor) >= threshold):
                self._stuck_at = max(current or 0, threshold)
            return
        self.shrank(max(0, outcome.before_tokens - outcome.after_tokens))
        # Still over the threshold: all that can be done was done, so the next pass waits until the prompt has grown.
        self._stuck_at = threshold if outcome.over_limit else 0


def deadline(began: float, budget_ms: int, *, rotation: bool) -> float:
    """Time until which a pass may ask models: what is done behind them (extracts, the prompt) takes its part of the budget too.

    An ordered rotation is an operation on prompt and backup, not a synthesis: none is asked.
    """
    return began - 1.0 if rotation else began + budget_ms / 1000 * _FOR_MODELS
