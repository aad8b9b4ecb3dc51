"""
Escalation ladder from one chunk of source to one summary, which no failure of a model stops.

Owns the order of attempts: a detailed summary, and once more, by the next route or as bullet points with what was wrong; then
an extract that needs no model and is marked provisional. A source that overflows a model's window is split, never
cut. Knows nothing of nodes or storage. ``summarise`` may run in several threads at once; they ask models side by side,
and read and judge texts one after the other.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from ..errors import SummaryRejected, SummaryTooLong, SummaryUnavailable
from ..records import EXTRACT_RUNG, OUT_OF_TIME, SourceLine, StatedFact, Summary, SummaryTask
from ..text.salience import stretch
from ..text.tokens import Count
from . import prompts, stated, verify
from .breaker import Breaker, SpendGuard
from .client import Model, Reply
from .extract import digest
from .prompts import Complaint, Prompt
from .quotes import quotes, said_tokens
from .source import Source
from .verify import Verdict

#: The session whose messages are being summarised; "" where nobody says.
SESSION: Final[ContextVar[str]] = ContextVar("lcm_summarised_session", default="")

Clock = Callable[[], float]

#: ``summary_model`` of who wants no model at all.
EXTRACTIVE: Final = "extractive"
#: Rung of summaries condensed in their own sentences, after every model's own words were refused.
QUOTED: Final = "quoted"
#: Why nothing was asked, where the tokens of a day are used up.
DAILY_LIMIT: Final = "daily token limit reached"
#: Names of the host's own auxiliary setting within the list of fallbacks.
_HOST_NAMES: Final = frozenset({"", "auto", "default", "host"})
#: No attempt is started with less time than this left.
_LEAST_S: Final = 1.0
#: A thread that wants to read texts waits so long for another that does.
_ALONE_S: Final = 1.0
#: Below this, splitting a source that overflows is pointless: it is not the source that is too long.
_LEAST_SPLIT_CHARS: Final = 1_200
_MAX_PARTS: Final = 64
_INSTRUCTION_CHARS: Final = 4_000
#: Of the part before, the end, so that the next part goes on instead of starting anew.
_PREVIOUS_CHARS: Final = 1_000


class LadderSettings(NamedTuple):
    """Settings of an operator for the ladder. ``summary_model`` "" is the host's own auxiliary model."""

    summary_model: str = ""
    fallback_models: tuple[str, ...] = ()
    timeout_s: float = 60.0
    custom_instructions: str = ""
    max_prompt_tokens: int = 48_000


#: Rungs, each with the style of its summary.
_LADDER: Final = (("detailed", "detailed"), ("retry", "bullets"))
#: A chunk is asked for so often at most: by one route twice, or by so many once.
_MOST_ANSWERS: Final = len(_LADDER)


class _Run:
    """State of one call of ``summarise``: its limits and what happened so far."""

    def __init__(self, whole: Source, deadline: float, cancelled: Callable[[], bool], routes: tuple[str, ...]) -> None:
        self.whole = whole
        self.chunk = _name(whole.task)
        self.routes = routes
        self.deadline = deadline
        self.cancelled = cancelled
        self.attempts: list[dict[str, str]] = []
        self.parts = 0
        self.route = ""  # that is asked now
        self.alone = False  # does no other thread read meanwhile?
        self.refused = 0  # routes that answered, and no answer of theirs passed

    def source(self, task: SummaryTask) -> Source:
        """The task, or a part of it, as it was read."""
        return self.whole if task is self.whole.task else Source(task)

    def note(self, route: str, rung: str, outcome: str) -> None:
        if len(self.attempts) < 24:
            self.attempts.append({"route": route or "host", "rung": rung, "outcome": outcome[:240]})


def _name(task: SummaryTask) -> str:
    """A chunk's name: by what it begins with, since it grows with each turn."""
    first = task.lines[0] if task.lines else None
    parts = task.chat, task.depth, task.focus, first and first.address, first and first.text
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class _Accepted(NamedTuple):
    """Text that passed on one route."""

    text: str
    hint: str
    rung: str
    model: str
    verdicts: tuple[dict[str, Any], ...]
    stated: tuple[StatedFact, ...] = ()


class _Answer(NamedTuple):
    """Answer of a model: the verdict on its summary, and the facts it names."""

    verdict: Verdict
    rung: str
    model: str
    named: tuple[stated.Named, ...]


class _Stop(Exception):  # noqa: N818 - not an error: time or money is over, no route can help
    """Signal that no further model call may be made for this chunk."""


class Ladder:
    """Summarises chunks. ``clock`` is monotonic; ``count`` estimates tokens."""

    def __init__(
        self,
        model: Model,
        settings: LadderSettings,
        breaker: Breaker,
        spend: SpendGuard,
        clock: Clock,
        *,
        count: Count,
        daily: SpendGuard | None = None,
        told: Callable[[int, int], None] = lambda _read, _written: None,
    ) -> None:
        self._daily = daily
        self._told = told
        self._model = model
        self._settings = settings
        self._breaker = breaker
        self._spend = spend
        self._clock = clock
        self._count = count
        self._windows: dict[str, int] = {}  # route: characters of the smallest prompt that overflowed it
        self._lock = threading.Lock()
        # The interpreter runs one thread at a time: each further one that reads a long text only makes a turn wait longer.
        self._reading = threading.Lock()

    def routes(self, task: SummaryTask) -> tuple[str, ...]:
        """The models that are asked, in order; "" is the host's own."""
        names = task.models or (self._settings.summary_model, *self._settings.fallback_models)
        if names[0].strip().lower() == EXTRACTIVE:
            return ()
        plain = ("" if name.strip().lower() in _HOST_NAMES else name.strip() for name in names)
        return tuple(dict.fromkeys(plain))

    def summarise(self, task: SummaryTask, *, deadline: float, cancelled: Callable[[], bool] | None = None) -> Summary:
        """A verified summary, or an extract that says why. Raises SummaryUnavailable only when cancelled.

        The extract is provisional; of summaries it is verified (``QUOTED``) when every model has answered and none passed.
        """
        run = _Run(Source(task), deadline, cancelled or (lambda: False), self.routes(task))
        self._begin_reading(run)
        try:
            return self._summary(run)
        finally:
            self._end_reading(run)

    def _begin_reading(self, run: _Run) -> None:
        """Wait until no other thread reads a text, but not for long: a huge one of another chat must not hold up a compaction,
        and a thread past its deadline does not wait."""
        run.alone = self._reading.acquire(timeout=min(_ALONE_S, max(0.0, run.deadline - self._clock())))

    def _end_reading(self, run: _Run) -> None:
        if run.alone:
            run.alone = False
            self._reading.release()

    def _summary(self, run: _Run) -> Summary:
        task = run.whole.task
        try:
            for route in run.routes:
                if run.refused >= _MOST_ANSWERS:
                    break
                accepted = self._on_route(task, route, run)
                if accepted is not None:
                    return self._verified(accepted, run)
        except _Stop:
            pass
        if run.cancelled():
            raise SummaryUnavailable("cancelled")
        return self._extract(run)

    # --------------------------------------------------------------------------------------------------------- results
    def _verified(self, accepted: _Accepted, run: _Run) -> Summary:
        checks = {"attempts": run.attempts, "parts": list(accepted.verdicts)}
        made = self._made(accepted.text, accepted.hint, accepted.rung, checks)
        return replace(made, model=accepted.model, stated=accepted.stated)

    def _made(self, text: str, hint: str, rung: str, checks: Mapping[str, Any], quality: str = "verified") -> Summary:
        """A summary that names no model."""
        return Summary(text, hint, quality, rung, "", json.dumps(checks, ensure_ascii=False), self._count(text))

    def _extract(self, run: _Run) -> Summary:
        chosen = not run.routes
        extract = digest(run.whole, count=self._count)
        checks = {
            "attempts": run.attempts,
            "reasons": ["chosen by the setting"] if chosen else [entry["outcome"] for entry in run.attempts][-8:],
            "recall_with_anchors": round(extract.recall, 3),
        }
        if (
            not chosen
            and run.refused >= min(len(run.routes), _MOST_ANSWERS)
            and (quoted := self._quoted(run.whole, extract.text))
        ):
            text = "\n".join(part for part in (quoted.text, self._quotes(run.whole, quoted)) if part)
            return self._made(text, extract.hint, QUOTED, {**checks, "parts": [quoted.as_dict()]})
        return self._made(extract.text, extract.hint, EXTRACT_RUNG if chosen else "digest", checks, "provisional")

    def _quoted(self, source: Source, extract: str) -> Verdict | None:
        """An extract of summaries, judged as a model's answer: what was verified stays so in its own sentences."""
        if not source.task.depth:
            return None
        verdict = verify.check(source, Reply(extract), count=self._count)
        return verdict if verdict.ok else self._struck(source, verdict)

    # ---------------------------------------------------------------------------------------------------------- routes
    def _on_route(self, task: SummaryTask, route: str, run: _Run) -> _Accepted | None:
        """The task summarised by one route, in parts where needed; None when the route fails at any part."""
        if self._breaker.has_refused(route, run.chunk):
            run.note(route, "", "refused before")
            return None
        if not self._breaker.allow(route):
            run.note(route, "", "left alone after failures")
            return None
        run.route = route
        try:
            most = self._most(task)
            return self._in_parts(
                task, route, run, min(most, prompts.room_of(task.lines)), min(most, self._window(task, route))
            )
        except SummaryRejected as exc:
            run.refused += 1
            self._breaker.refused(route, str(exc), run.chunk)
            run.note(route, "", str(exc))
        except (SummaryTooLong, SummaryUnavailable) as exc:
            run.note(route, "", str(exc))
        finally:
            self._breaker.release(route)
        return None

    def _most(self, task: SummaryTask) -> int:
        """Characters of source that the settings allow in one prompt; what is longer is read in parts."""
        chars = sum(len(line.text) for line in task.lines)
        tokens = sum(self._count(line.text) for line in task.lines)
        return max(_LEAST_SPLIT_CHARS, int(self._settings.max_prompt_tokens * chars / tokens) if tokens else chars)

    def _window(self, task: SummaryTask, route: str) -> int:
        """Characters of source that the route's model can read, as far as it is known by its refusals."""
        with self._lock:
            known = self._windows.get(route)
        if known is None:
            return sys.maxsize
        frame = len(task.previous) + len(task.memory_context) + len(self._settings.custom_instructions)
        return max(_LEAST_SPLIT_CHARS, known * 9 // 10 - frame - _INSTRUCTION_CHARS - 60 * len(task.lines))

    def _in_parts(self, task: SummaryTask, route: str, run: _Run, room: int, limit: int) -> _Accepted:
        """At once when what is shown fits into ``limit`` characters, else each half by itself.

        ``room`` is what tool results are shortened to. Their halves are not shortened further: a small window is a reason
        to ask more often, not to read less.
        """
        run.parts += 1
        if run.parts > _MAX_PARTS:
            raise SummaryUnavailable("the source would need too many parts")
        shown = sum(prompts.shares(task.lines, room))
        if shown <= limit or not _splittable(task):
            try:
                return self._climb(task, route, run, room)
            except SummaryTooLong:
                if not _splittable(task):
                    raise
                limit = int(shown * 0.7)
                run.note(route, "", "split: the source exceeds the model's window")
        left, right = split(task, self._count)
        first = self._in_parts(left, route, run, _part_room(task, left, room), limit)
        right = replace(right, previous=first.text[-_PREVIOUS_CHARS:])
        return _joined(first, self._in_parts(right, route, run, _part_room(task, right, room), limit))

    # -------------------------------------------------------------------------------------------------------- attempts
    def _climb(self, task: SummaryTask, route: str, run: _Run, room: int) -> _Accepted:
        """Rung by rung until an answer passes. Raises SummaryRejected when none did."""
        source = run.source(task)
        complaint: Complaint | None = None
        spare: _Answer | None = None  # whose only fault is suspects
        verdict: Verdict | None = None
        for rung, style in _LADDER if len(run.routes) == 1 else _LADDER[:1]:
            prompt = prompts.build(
                task, style="detailed" if spare is not None else style,  # what it said was right, but for some names
                max_chars=room, complaint=complaint if rung == "retry" else None,
                custom_instructions=self._settings.custom_instructions,
            )  # fmt: skip
            try:
                reply = self._ask(task, prompt, route, run)
            except (SummaryUnavailable, _Stop):
                if spare is None:
                    raise
                break
            text, named = stated.taken_out(reply.text)
            verdict = verify.check(source, reply._replace(text=text), count=self._count, prompt=prompt.evidence)
            answer = _Answer(verdict, rung, reply.model or route, named)
            if verdict.ok:
                return self._accept(source, answer, run)
            run.note(route, rung, _why(verdict))
            if verdict.suspects and (spare is None or len(verdict.suspects) < len(spare.verdict.suspects)):
                spare = answer
            complaint = _complaint(verdict, reply)
        if spare is not None and (cleaned := self._struck(source, spare.verdict)):
            return self._accept(source, spare._replace(verdict=cleaned), run)
        raise SummaryRejected(f"refused: {_why(verdict)}" if verdict else "no answer")

    def _struck(self, source: Source, verdict: Verdict) -> Verdict | None:
        """The answer without its suspects, when what is left is still a summary."""
        text, struck = verify.strike(verdict.text, verdict.suspects)
        hint, gone = verify.strike(verdict.hint, verdict.suspects)
        again = verify.check(source, Reply(text), count=self._count)
        if again.reasons or any(name in verdict.suspects for name in again.suspects):
            return None
        return again._replace(
            ok=True, suspects=verdict.suspects, struck=verdict.struck + struck + gone, text=text, hint=hint
        )

    def _accept(self, source: Source, answer: _Answer, run: _Run) -> _Accepted:
        verdict = answer.verdict
        text = "\n".join(part for part in (verdict.text, self._quotes(source, verdict), verdict.anchors) if part)
        run.note(answer.model, answer.rung, "accepted")
        self._breaker.passed(run.route)
        facts = stated.found(answer.named, run.whole.task.lines)
        return _Accepted(text, verdict.hint, answer.rung, answer.model, (verdict.as_dict(),), facts)

    def _quotes(self, source: Source, verdict: Verdict) -> str:
        room = verify.quotes_room(source.task, self._count(verdict.text), said_tokens(source.task.lines, self._count))
        return quotes(source, f"{verdict.text}\n{verdict.anchors}", room=room, count=self._count)

    def _ask(self, task: SummaryTask, prompt: Prompt, route: str, run: _Run) -> Reply:
        """One call, with the breaker and the budget told what came of it."""
        left = run.deadline - self._clock()
        if run.cancelled():
            raise _Stop
        if left < _LEAST_S:
            run.note(route, "", OUT_OF_TIME)
            raise _Stop
        max_tokens = max(600, 2 * task.target_tokens)
        reserved = self._count(prompt.text) + max_tokens
        if self._daily is not None and not self._daily.reserve(reserved):
            run.note(route, "", DAILY_LIMIT)
            raise _Stop
        if not self._spend.reserve(reserved, run.whole.task.chat):
            if self._daily is not None:
                self._daily.settle(reserved=reserved, spent=0)
            run.note(route, "", "spend limit reached")
            raise _Stop
        read = written = 0
        try:
            reply = self._answer(prompt, run, route, max_tokens, min(self._settings.timeout_s, left))
            read, written = reply.usage or (reserved - max_tokens, self._count(reply.text))
        except SummaryTooLong:
            self._breaker.success(route)
            self._remember_window(route, len(prompt.text))
            raise
        except SummaryUnavailable as exc:
            self._breaker.failure(route, str(exc))
            raise
        finally:  # what was not answered is not counted: an outage must not use up a day's tokens
            for guard in (self._spend, self._daily):
                if guard is not None:
                    guard.settle(reserved=reserved, spent=read + written)
        self._breaker.success(route)
        self._told(read, written)
        return reply

    def _answer(self, prompt: Prompt, run: _Run, route: str, max_tokens: int, timeout_s: float) -> Reply:
        """The model's answer; others read while it is waited for."""
        self._end_reading(run)
        try:
            return self._model.complete(prompt.messages, max_tokens=max_tokens, timeout_s=timeout_s, route=route)
        finally:
            self._begin_reading(run)

    def _remember_window(self, route: str, chars: int) -> None:
        with self._lock:
            self._windows[route] = min(chars, self._windows.get(route, chars))


# ------------------------------------------------------------------------------------------------------- splitting
def _splittable(task: SummaryTask) -> bool:
    return sum(len(line.text) for line in task.lines) >= _LEAST_SPLIT_CHARS


def _cut_line(line: SourceLine, count: Count) -> tuple[SourceLine, SourceLine]:
    """Halves of a line, cut at the line end, or else the blank, nearest to its middle."""
    text, middle = line.text, len(line.text) // 2
    reach = len(text) // 4
    cut = (
        text.rfind("\n", middle - reach, middle + reach) + 1
        or text.rfind(" ", middle - reach, middle + reach) + 1
        or len(stretch(text, 0, middle))
    )
    halves = (text[:cut], text[cut:])
    first, second = (replace(line, text=half, tokens=count(half)) for half in halves)
    return first, second


def split(task: SummaryTask, count: Count) -> tuple[SummaryTask, SummaryTask]:
    """The task in two of about the same size, inside a line where there is only one or one outweighs the rest."""
    lines = list(task.lines)
    sizes = [len(line.text) for line in lines]
    total = sum(sizes)
    best, before = 1, 0
    for n in range(1, len(lines)):
        before += sizes[n - 1]
        if n == 1 or abs(total - 2 * before) < abs(total - 2 * sum(sizes[:best])):
            best = n
    share = sum(sizes[:best]) / total if total else 0.5
    if len(lines) == 1 or not 0.2 <= share <= 0.8:
        giant = max(range(len(lines)), key=lambda n: sizes[n])
        first, second = _cut_line(lines[giant], count)
        return _part(task, [*lines[:giant], first], count), _part(task, [second, *lines[giant + 1 :]], count)
    return _part(task, lines[:best], count), _part(task, lines[best:], count)


def _part(task: SummaryTask, lines: Sequence[SourceLine], count: Count) -> SummaryTask:
    every = sum(line.tokens or count(line.text) for line in task.lines) or 1
    tokens = sum(line.tokens or count(line.text) for line in lines)
    share = tokens / every
    return replace(
        task,
        lines=tuple(lines),
        source_tokens=max(1, round(task.source_tokens * share)),
        target_tokens=max(80, round(task.target_tokens * share)),
    )


def _part_room(whole: SummaryTask, part: SummaryTask, room: int) -> int:
    """The room of a part: what gives way is shown as far as the whole would have shown it."""

    def chars(task: SummaryTask, gives_way: bool) -> int:
        return sum(len(line.text) for line in task.lines if (line.role in prompts.GIVES_WAY) == gives_way)

    shown = sum(prompts.shares(whole.lines, room)) - chars(whole, False)
    every = chars(whole, True)
    return chars(part, False) + (-(-shown * chars(part, True) // every) if every else 0)


def _joined(first: _Accepted, second: _Accepted) -> _Accepted:
    return _Accepted(
        text=f"{first.text}\n{second.text}",
        hint="; ".join(hint for hint in dict.fromkeys((first.hint, second.hint)) if hint)[:600],
        rung=first.rung if first.rung == second.rung else f"{first.rung}+{second.rung}"[:60],
        model=first.model if first.model == second.model else f"{first.model}, {second.model}"[:200],
        verdicts=first.verdicts + second.verdicts,
        stated=tuple(dict.fromkeys(first.stated + second.stated)),
    )


def _why(verdict: Verdict) -> str:
    if verdict.reasons:
        return "; ".join(verdict.reasons)
    return "it names what the source lacks: " + ", ".join(verdict.suspects[:6])


def _complaint(verdict: Verdict, reply: Reply) -> Complaint:
    missing = verdict.missing[:20] if not verdict.reasons else ()
    return Complaint(verdict.reasons, verdict.suspects[:20], missing, reply.finish_reason.lower() in verify.CUT_ENDS)
