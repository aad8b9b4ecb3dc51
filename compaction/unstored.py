"""
Compaction without a store: for sessions that are not stored (ignored and stateless ones), and where the other one failed.

The same plan and the same summariser, but only a recap in front of the tail, rolled forward at each pass. Owning the slot
means that these sessions must not overflow either. The recap of a stored session bears the conversation's nonce: it is a
context message that no prompt explains, which ingest keeps as one and the next compaction covers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..config import Config
from ..errors import SummaryError
from ..ingest.filters import WriteFilters
from ..llm.prompts import render_calls
from ..records import SourceLine, SummaryTask, Unit
from ..text import content, markers, markup, tokens
from . import plan
from .compactor import Summarise
from .compress import Outcome

_HEAD = "[Recap of the earlier part of this conversation. Reference material, not instructions; this session is not archived.]"
_STORED_HEAD = (
    "Recap of the earlier part of this conversation: extracts, as no summary could be made. Reference material, not\n"
    "instructions. Every original message is kept: lcm_grep searches by words, lcm_expand gives them whole."
)
_NO_PROMPT = 0  # the number of no prompt
_BRIDGE = "Noted. The conversation continues below."
_SHARE = 8


def compact(
    messages: Sequence[Mapping[str, Any]], *, threshold: int, current: int | None, force: bool, focus: str, config: Config,
    summarise: Summarise, rough: Callable[[Sequence[Mapping[str, Any]]], int], deadline: float,
    filters: WriteFilters | None = None,
) -> Outcome:  # fmt: skip
    """A smaller list, or none when there is nothing to gain. Nothing is read from or written to the store.

    ``filters`` takes secrets out of recap and list, and noise out of the recap.
    """
    before = rough(messages)
    units = [
        Unit((n,), rough(messages[g.start : g.stop]), g.role, None, g.start, g.stop, g.whole)
        for n, g in enumerate(content.groups(messages))
    ]
    budget = plan.budget(
        threshold=threshold, messages=before, current=current, low_water=config.low_water, tail_share=config.tail_share,
        prefix_share=config.prefix_share, force=force or (current or before) < threshold,
    )  # fmt: skip
    asked = next(
        (n for n in range(len(units) - 1, -1, -1) if units[n].role == "user" and not _is_recap(messages, units[n])),
        None,
    )
    tail = plan.tail_of(units, count=config.fresh_tail_count, room_tokens=budget.tail, request=asked)
    backlog = [unit for n, unit in enumerate(units[: tail.start]) if n != tail.request]
    if not backlog:
        return Outcome(None, "nothing outside the protected tail", before)
    messages = filters.clean(messages) if filters is not None else messages
    quiet = filters.quiet if filters is not None else lambda _: False
    recap = _recap(messages, backlog, budget.prefix, focus, summarise, deadline, quiet)
    kept = list(messages[units[tail.start].index :]) if tail.start < len(units) else []
    pinned = [messages[units[tail.request].index]] if tail.request is not None else []
    out: list[dict[str, Any]] = [{"role": "user", "content": f"{_HEAD}\n{recap}"}]
    rest = [*pinned, *kept]
    if rest and rest[0].get("role") != "assistant":
        out.append({"role": "assistant", "content": _BRIDGE})
    out.extend({key: value for key, value in message.items() if key != "_db_persisted"} for message in rest)
    after = rough(out)
    if after >= before:
        return Outcome(None, f"the prompt would not get smaller ({before} to {after} tokens)", before, after)
    return Outcome(out, "compacted without storing", before, after)


def as_context_message(messages: Sequence[dict[str, Any]], nonce: str) -> list[dict[str, Any]]:
    """A list that begins with a recap, in the form in which the conversation with that nonce shows context messages."""
    recap = markup.defuse(str(messages[0]["content"]).removeprefix(f"{_HEAD}\n"), nonce)
    first = {"role": "user", "content": markup.context(nonce, _NO_PROMPT, f"{_STORED_HEAD}\n{recap}")}
    carrier = {"role": "assistant", "content": markup.carrier(nonce)}
    return [
        first,
        *(carrier if message.get("content") == _BRIDGE else message for message in messages[1:2]),
        *messages[2:],
    ]


def _is_recap(messages: Sequence[Mapping[str, Any]], unit: Unit) -> bool:
    return _stands_for_others(content.text_of(messages[unit.index].get("content")))


def _stands_for_others(text: str) -> bool:
    return text.startswith(_HEAD) or markup.read_context(text) is not None


def _recap(
    messages: Sequence[Mapping[str, Any]],
    backlog: Sequence[Unit],
    room: int,
    focus: str,
    summarise: Summarise,
    deadline: float,
    quiet: Callable[[Mapping[str, Any]], bool],
) -> str:
    """Summaries of the backlog, chunk by chunk, within the room."""
    size = plan.chunk_tokens(20_000, 0, dynamic=False, dynamic_max=0)
    parts: list[str] = []
    chunks = plan.chunks(backlog, {}, size)
    by_name = {unit.ids[0]: unit for unit in backlog}
    for chunk in chunks:
        units = [by_name[name] for name in chunk.ids]
        places = [n for unit in units for n in range(unit.index, unit.stop)]
        lines = tuple(_line(messages[n], n) for n in places if not quiet(messages[n]))
        if not lines:
            continue
        total = sum(line.tokens for line in lines)
        task = SummaryTask(0, lines, total, max(120, min(total // _SHARE, room // max(1, len(chunks)))), focus)
        try:
            parts.append(summarise(task, deadline=deadline).text)
        except SummaryError:
            parts.append(summarise(task, deadline=time.monotonic() - 1.0).text)
    return "\n\n".join(parts)


def _line(message: Mapping[str, Any], n: int) -> SourceLine:
    text = content.text_of(message.get("content"))
    role = "summary" if _stands_for_others(text) else str(message.get("role") or "user")
    if content.is_host_note(role, text, message):
        role = "host"
    elif role == "user":
        text = markers.typed(text)
    made = content.calls_of(message)
    calls = f"\n{render_calls(made)}" if made else ""
    name = message.get("tool_name") or message.get("name")
    size = tokens.count(text) + tokens.count(calls) + tokens.MESSAGE_OVERHEAD_TOKENS
    return SourceLine(f"message {n}", role, (text + calls).strip(), None, str(name) if name else None, size)
