"""
Regular expressions that a model or a user typed: compiled, bounded in time, with a literal to skip texts by.

Pure. With the ``regex`` package every search has a time-out. Python's ``re`` has none and holds the interpreter while it
backtracks, so without the package expressions that can explode are refused and the others see slices short enough.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..errors import BadRequest

MAX_PATTERN = 1000
# Slice lengths by the number of unbounded repeats k, so that n ** (k + 1) / (k + 1)! stays near 2e7 steps.
_SLICES = (20_000, 6_000, 480, 150)
_FUZZY = re.compile(r"\{\s*[a-z\d]*[a-z<]")
_CLASS = re.compile(r"\[:(\w*):\]")
_POSIX = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": r"\x21-\x7e", "lower": "a-z", "print": r"\x20-\x7e", "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z",
    "word": r"\w", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_MANY = 20  # a repeat of more than this counts as unbounded


def _optional(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_regex = _optional("regex")
_parser = _optional("re._parser")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled expression. ``literal`` (case-folded, maybe empty) is in every text that matches.

    ``spaced``: the longest literal with blanks in it, as every match has it but for what kind of blanks they are.
    """

    source: str
    literal: str
    _find: Callable[[str, float], int]
    spaced: str = ""

    def find(self, text: str, timeout_s: float) -> int:
        """Offset of the first match, -1 without one. Raises TimeoutError."""
        if self.literal and self.literal not in text.casefold():
            return -1
        return self._find(text, timeout_s)


def compile_pattern(source: str) -> Pattern:
    """Pattern that ignores case; ``^`` and ``$`` match at line borders. Raises BadRequest with what is wrong."""
    if len(source) > MAX_PATTERN:
        raise BadRequest(f"the pattern has {len(source)} characters, at most {MAX_PATTERN} are accepted")
    tree = _parsed(source)
    fuzzy = _FUZZY.search(source) is not None  # syntax of ``regex`` that ``re`` reads as plain characters
    literal, spaced = "", ""
    if tree is not None and not fuzzy:
        literal, spaced = (_longest_literal(tree, blanks=blanks).casefold() for blanks in (False, True))
    if _regex is not None:
        return Pattern(source, literal, _with_regex(_regex, source), spaced)
    return Pattern(source, literal, _with_re(source, tree), spaced)


def _parsed(source: str) -> Any:
    if _parser is None:
        return None
    try:
        return _parser.parse(_for_re(source), re.MULTILINE | re.IGNORECASE)
    except (BadRequest, re.error, RecursionError, OverflowError):
        return None  # perhaps syntax that only ``regex`` knows; the compiler will say


def _with_regex(engine: ModuleType, source: str) -> Callable[[str, float], int]:
    try:
        compiled = engine.compile(source, engine.MULTILINE | engine.IGNORECASE)
    except (engine.error, RecursionError, OverflowError) as exc:
        raise _unreadable(source, exc) from exc

    def find(text: str, timeout_s: float) -> int:
        match = compiled.search(text, timeout=max(timeout_s, 0.001), concurrent=True)
        return match.start() if match else -1

    return find


def _with_re(source: str, tree: Any) -> Callable[[str, float], int]:
    try:
        compiled = re.compile(_for_re(source), re.MULTILINE | re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as exc:
        raise _unreadable(source, exc) from exc
    if tree is None:
        raise BadRequest(
            "regular expressions need the optional package `regex` on this Python; search for words instead"
        )
    size = _SLICES[_repeats(tree, source)]
    step = size - size // 4

    def find(text: str, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        for at in range(0, max(len(text), 1), step):
            match = compiled.search(text, at, at + size)
            # A match that ends where the slice ends may be an artefact of the cut; the next slice sees it whole.
            if match and (match.end() < at + size or match.start() == at or at + size >= len(text)):
                return match.start()
            if time.monotonic() > deadline:
                raise TimeoutError
        return -1

    return find


def _for_re(source: str) -> str:
    """An expression without what ``re`` knows no meaning for, or warns about: POSIX classes, nested sets.

    ``[[:digit:]_]`` becomes ``[0-9_]``; other signs that a later Python may read as set operations are escaped.
    """
    out: list[str] = []
    at, first = 0, -1  # ``first``: where the set that is open may have a closing bracket as its first character
    while at < len(source):
        piece = source[at : at + 2]
        found = _CLASS.match(source, at) if first >= 0 else None
        if piece[0] == "\\":
            out.append(piece)
        elif first < 0:
            piece = piece if piece == "[^" else piece[0]
            first = at + len(piece) if piece[0] == "[" else -1
            out.append(piece)
        elif found:
            piece = found[0]
            out.append(_class(found[1]))
        elif piece in ("--", "&&", "~~", "||"):
            out.append(f"{piece[0]}\\{piece[1]}")
        else:
            piece = piece[0]
            out.append(f"\\{piece}" if piece == "[" or (piece == "]" and at == first) else piece)
            first = -1 if piece == "]" and at > first else first
        at += len(piece)
    return "".join(out)


def _class(name: str) -> str:
    if name not in _POSIX:
        raise BadRequest(f"[:{name}:] is not a class of characters; there are {', '.join(_POSIX)}")
    return _POSIX[name]


def _unreadable(source: str, exc: Exception) -> BadRequest:
    return BadRequest(f"pattern {source!r} is not a regular expression: {exc}")


def _walk(tree: Any, inside: bool = False) -> Iterator[tuple[str, Any, bool]]:
    """Every node: operator name, argument, whether it stands in an unbounded repeat."""
    for operator, argument in tree:
        name = str(operator)
        yield name, argument, inside
        unbounded = name.endswith("REPEAT") and int(argument[1]) > _MANY
        for part in _parts(argument):
            yield from _walk(part, inside or unbounded)


def _parts(argument: Any) -> Iterator[Any]:
    if hasattr(argument, "data") and hasattr(argument, "state"):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for item in argument:
            yield from _parts(item)


def _repeats(tree: Any, source: str) -> int:
    """Number of unbounded repeats; BadRequest for what can explode in Python's ``re``."""
    count = 0
    for name, argument, inside in _walk(tree):
        unbounded = name.endswith("REPEAT") and int(argument[1]) > _MANY
        count += unbounded
        if inside and (unbounded or name == "BRANCH" or name.startswith("GROUPREF")):
            raise BadRequest(
                f"pattern {source!r} repeats something that itself repeats or branches, which can hang the process; "
                "say it without the outer repeat, or install the optional package `regex`"
            )
    if count >= len(_SLICES):
        raise BadRequest(
            f"pattern {source!r} has {count} open repeats, at most {len(_SLICES) - 1} are safe without the optional "
            "package `regex`; bound some of them, like .{0,20}"
        )
    return count


def _is_blanks(operator: object, argument: Any) -> bool:
    """Is this one or more of any blanks, like ``\\s+``?"""
    if str(operator).endswith("REPEAT") and int(argument[0]) > 0:
        return all(_is_blanks(*each) for each in argument[2])
    return str(operator) == "IN" and [str(each[1]) for each in argument] == ["CATEGORY_SPACE"]


def _longest_literal(tree: Any, *, blanks: bool = False) -> str:
    """The longest run of plain characters that every match contains (top level only); ``blanks``: one for any of them."""
    best, run = "", ""
    for operator, argument in tree:
        if blanks and _is_blanks(operator, argument):
            run += " "
            continue
        if str(operator) == "LITERAL" and (
            argument < 128 or 0x3040 <= argument <= 0x9FFF
        ):  # what casefold leaves as it is
            run += chr(argument)
        else:
            run = ""
        best = max(best, run, key=len)
    return best
