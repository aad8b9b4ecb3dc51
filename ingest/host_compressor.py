"""
The grammar of what the host's own compressor writes into a list, and what each form was before.

Read from the compressors of hosts 0.18.0, 0.18.2, 0.19.0 and 0.22: a summary alone or glued to a message, a request that is
restated behind a summary, the line that stands for a tool's output, shortened arguments of a call, images taken out. Pure, and
exact: what does not fit a form from end to end is somebody's words. A form proves nothing alone; it counts beside the message
that it stands for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from ..records import ToolCall
from ..text.content import SCREENSHOT, Said, canonical_text, digest
from .align import PLACEHOLDERS

PRIOR: Final = "[PRIOR CONTEXT — for reference only; not a new message]"
BELOW: Final = "[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]"
END: Final = "--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"
RESTATED: Final = (
    "[STILL IN PROGRESS — this is the active request, restated after the compaction boundary because it was not finished yet. "
    "Continue it; do not start over.]"
)
#: How every summary of these hosts begins, and of the ones before them.
_SUMMARY: Final = ("[CONTEXT COMPACTION — REFERENCE ONLY] ", "[CONTEXT SUMMARY]:")
_NO_IMAGE: Final = ("[Attached image — stripped after compression]", "[screenshot removed to save context]")
_CUT: Final = "...[truncated]"
_CUT_AT: Final = 200
_LONGEST_LINE: Final = 2_000  # paths and patterns stand in the line uncut
_SHORTEST_OUTPUT: Final = 200  # shorter ones stay whole, unless images were all they were
_IMAGES_GONE: Final = "[screenshot removed]"
#: A placeholder of our own filters in a text: it had another size when the compressor saw it.
_LINES: Final = (
    "[Old tool output cleared to save context space]",
    "[Duplicate tool output — same content as a more recent call]",
    "[todo] updated task list",
    "[clarify] asked user a question",
)
_TOOL: Final = r"\[[^\]\s]+\]"
_FAILED: Final = r"(?: (?:FAILED|SKIPPED)(?:: [^\n]{1,80})?)?"
_CHARS: Final = re.compile(
    rf"{_TOOL}(?: [\s\S]*)? \((?P<chars>[\d,]+) chars(?: result)?\)(?: \[SKILL_PRUNED:[^\]\n]*\][^\n]*)?{_FAILED}"
)
_COUNTED: Final = re.compile(
    r"\[terminal\] ran `[\s\S]*` -> exit (?:-?\d+|\?), (?P<lines>\d+) lines output"
    r"|\[execute_code\] `[^\n]*` \((?P<rows>\d+) lines output\)"
)
_OTHER: Final = re.compile(
    rf"\[write_file\] wrote to [\s\S]* \((?:\d+|\?) lines\)|\[write_file\] [\s\S]* FAILED(?:: [^\n]{{1,80}})?"
    r"|\[search_files\] [\s\S]* search for '[\s\S]*' in [\s\S]* -> (?:\d+|\?) matches"
    rf"|\[memory\] \S+ on \S+{_FAILED}|\[cronjob\] \S+{_FAILED}|\[process\] \S+ session=\S+{_FAILED}"
    r"|\[clarify\] user responded: [\s\S]{1,200}|\[screenshot removed\] [\s\S]{0,200}"
    rf"|{_TOOL}(?: `[\s\S]{{1,60}}`)? (?:BLOCKED, not run[^\n]*|awaiting the user's approval, not run)"
)
_DEMOTED: Final = re.compile(
    r"\[\S+ output demoted at compaction — (?P<chars>[\d,]+) chars preserved in session history\."
    r"(?: Recover with session_search\(query=\.\.\., session_id='[^'\n]*'\))?\]"
)


@dataclass(frozen=True, slots=True)
class Before:
    """A message before the compressor touched its text ("": nothing).

    ``summary``: it bears one now. ``moved``: it is said again behind the summary, away from its place.
    """

    text: str
    summary: bool = False
    moved: bool = False


def before(text: str) -> Before | None:
    """The original of a message whose text is one of the compressor's forms; None where it is none."""
    begin = text.lstrip()
    if begin.startswith(PRIOR) and BELOW in begin:
        return Before(begin[len(PRIOR) :].split(BELOW, 1)[0].strip(), summary=True)
    if begin.startswith(_SUMMARY):
        behind = begin.split(END, 1)[1].strip() if END in begin else ""
        return Before(_without_header(behind), summary=True)
    if begin.startswith(RESTATED):
        return Before(_without_header(begin), moved=True)
    if any(placeholder in text for placeholder in _NO_IMAGE):
        for placeholder in _NO_IMAGE:
            text = text.replace(placeholder, SCREENSHOT)
        return Before(text)
    return None


def unglued(said: Said) -> Said:
    """The message without what was glued to it; itself where nothing was, or where nothing else is left."""
    was = before(said.text)
    if was is None or not (was.text or said.calls):
        return said
    return replace(said, text=was.text, digest=digest(said.role, was.text, said.calls, said.tool_call_id))


def _without_header(text: str) -> str:
    return text[len(RESTATED) :].strip() if text.startswith(RESTATED) else text


# -- replies without their calls -----------------------------------------------------------------------------
_GLUE: Final = "\n"  # between replies that the host joined


def without_calls(live: Sequence[Said | None], known: Collection[bytes]) -> dict[int, str]:
    """Texts of replies without calls that are not known and stand in front of a message that is, by their places."""
    last = max((n for n, said in enumerate(live) if said is not None and said.digest in known), default=0)
    return {
        n: canonical_text(said.text)
        for n, said in enumerate(live[:last])
        if said is not None and said.role == "assistant" and said.text and not said.calls and said.digest not in known
    }


def with_calls(
    digests: Sequence[bytes], bare: Mapping[int, str], stored: Sequence[tuple[bytes, str | None]]
) -> dict[int, list[int]]:
    """Places of the stored replies that ``bare`` ones were, by their places; in the order of both lists.

    ``stored``: the digest of each row and, of a reply, its text, unless the list shows its calls.
    """
    out: dict[int, list[int]] = {}
    at = 0
    for n, shown in enumerate(digests):
        if n not in bare:
            at = next((j + 1 for j in range(at, len(stored)) if stored[j][0] == shown), at)
        elif pieces := _pieces(bare[n], at, stored):
            out[n], at = pieces, pieces[-1] + 1
    return out


def _pieces(text: str, at: int, stored: Sequence[tuple[bytes, str | None]]) -> list[int]:
    """Places, from ``at`` on, of the replies that a text consists of; none where something of it is nobody's."""
    out: list[int] = []
    for j in range(at, len(stored)):
        piece = stored[j][1]
        if piece and text == piece:
            return [*out, j]
        if piece and text.startswith(piece + _GLUE):
            out.append(j)
            text = text[len(piece) :].lstrip()
    return []


# -- outputs and arguments -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Original:
    """A message that a form may stand for. ``key``: the caller's name for it."""

    key: int
    text: str
    calls: tuple[ToolCall, ...] = ()


def is_pruned(said: Said) -> bool:
    """Is this what the compressor leaves of a tool's output, or of a call with long arguments? (By its form.)"""
    if said.role == "tool":
        return bool(said.tool_call_id) and _line(said.text) is not None
    return said.role == "assistant" and any(_CUT in call.arguments for call in said.calls)


class Candidates:
    """Messages that a form may stand for, of one role and with the same ids; found without looking at each of them."""

    def __init__(self, known: Iterable[Original] = ()) -> None:
        self._all: list[Original] = []
        self._by: dict[object, list[Original]] = {}
        self._changed: list[Original] = []
        for each in known:
            self.add(each)

    def add(self, one: Original) -> None:
        """Another one."""
        self._all.append(one)
        if any(mark in one.text for mark in PLACEHOLDERS):
            self._changed.append(one)
        for key in (("chars", len(one.text)), ("lines", _lines(one.text)), _gist(one.calls)):
            self._by.setdefault(key, []).append(one)

    def original(self, pruned: Said) -> int | None:
        """The key of the one message that ``pruned`` stands for; None where there is none, or more than one.

        Hosts give out one id for equal calls: an output that merely looks like a line is another one, unless what it would stand
        for was long enough to be shortened and has the sizes that the line names.
        """
        if pruned.role != "tool":
            return _only(one for one in self._by.get(_gist(pruned.calls), ()) if _shortened(pruned.calls, one.calls))
        line = pruned.text.strip()
        sizes = _line(line)
        if sizes is None:
            return None
        some = self._by.get(next(iter(sizes.items())), ()) if sizes else self._all
        fits = [*islice((one for one in some if one.text.strip() != line and _fits(line, sizes, one.text)), 2)]
        return _only(fits or (one for one in self._changed if one.text.strip() != line))


def original(pruned: Said, candidates: Iterable[Original]) -> int | None:
    """Original of one form, where they are few or looked at once."""
    return Candidates(candidates).original(pruned)


def _only(found: Iterable[Original]) -> int | None:
    first = [*islice(found, 2)]
    return first[0].key if len(first) == 1 else None


def _line(text: str) -> dict[str, int] | None:
    """The sizes that a line in the place of an output names; None where the text is no such line."""
    text = text.strip()
    if not text.startswith("[") or len(text) > _LONGEST_LINE:
        return None
    if text in _LINES or _OTHER.fullmatch(text):
        return {}
    found = _COUNTED.fullmatch(text) or _DEMOTED.fullmatch(text) or _CHARS.fullmatch(text)
    if found is None:
        return None
    named = {name: int(value.replace(",", "")) for name, value in found.groupdict().items() if value}
    return {"lines" if name == "rows" else name: value for name, value in named.items()}


def _fits(line: str, sizes: dict[str, int], text: str) -> bool:
    if len(text) < _SHORTEST_OUTPUT and not line.startswith(_IMAGES_GONE):
        return False
    return sizes.get("chars", len(text)) == len(text) and ("lines" not in sizes or sizes["lines"] == _lines(text))


def _lines(text: str) -> int:
    return text.count("\n") + 1 if text.strip() else 0


def _shortened(mine: Sequence[ToolCall], theirs: Sequence[ToolCall]) -> bool:
    """Are these the same calls, with long arguments cut as the compressor cuts them?"""
    if len(mine) != len(theirs):
        return False
    pairs = list(zip(mine, theirs, strict=True))
    same = all(one.id == other.id and one.name == other.name for one, other in pairs)
    return same and all(_same_arguments(one.arguments, other.arguments) for one, other in pairs)


def _same_arguments(short: str, whole: str) -> bool:
    if short == whole:
        return True
    try:
        return bool(json.loads(short) == _cut(json.loads(whole)))
    except (ValueError, RecursionError):
        return False


def _gist(calls: Sequence[ToolCall]) -> tuple[str, ...]:
    """The common part of calls and their shortened form."""
    return tuple(_begin(call.arguments) for call in calls)


def _begin(arguments: str) -> str:
    try:
        return json.dumps(_cut(json.loads(arguments), ""), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _cut(value: Any, mark: str = _CUT) -> Any:
    if isinstance(value, str):
        return value[:_CUT_AT] + mark if len(value) > _CUT_AT else value
    if isinstance(value, dict):
        return {key: _cut(item, mark) for key, item in value.items()}
    return [_cut(item, mark) for item in value] if isinstance(value, list) else value
