"""
The exam as text: a table of kinds, a bar for each, and what is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..ops.render import counted, table

_BAR: Final = 24
_SIGNS: Final = {"prompt": "#", "look": "+", "lost": "."}
_LOST: Final = 8  # lost ones that are named


def text(data: Mapping[str, Any]) -> str:
    """The report for a terminal; the data has every probe."""
    count = counted(data["all"]["n"], "question")
    head = f"What the agent still knows of {data['session_id']}: {count}, made by rule; no model is asked."
    rows = {**data["kinds"], "all": data["all"], "no longer raw": data["covered"]}
    shown = [("", "questions", "prompt", "one look", "lost", "")]
    shown += [(name, str(each["n"]), *_shares(each), _bar(each)) for name, each in rows.items() if each["n"]]
    out = [head, *table(shown), "# in the prompt   + one look with lcm_grep away   . lost"]
    if data["finished_shown_as_open"]:
        out.append(f"Finished requests that the prompt shows as open: {data['finished_shown_as_open']}")
    if not data["prompt_exact"]:
        out.append("The prompt was built with other settings than now, so these figures are close, not exact.")
    lost = [each for each in data["probes"] if each["grade"] == "lost"]
    out += [f"lost: {each['question']} {each['address']}: {each['answer']}" for each in lost[:_LOST]]
    if len(lost) > _LOST:
        out.append(f"and {len(lost) - _LOST} more: --json")
    return "\n".join(out)


def _shares(counts: Mapping[str, int]) -> tuple[str, str, str]:
    prompt, look, lost = (f"{counts[grade] / max(1, counts['n']):.0%}" for grade in _SIGNS)
    return prompt, look, lost


def _bar(counts: Mapping[str, int]) -> str:
    ends, before = [], 0
    for grade in _SIGNS:
        before += counts[grade]
        ends.append(round(_BAR * before / max(1, counts["n"])))
    return "".join(sign * (end - start) for sign, start, end in zip(_SIGNS.values(), [0, *ends], ends, strict=False))
