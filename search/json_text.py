"""
JSON within texts, as it reads: what most tools answer, and the arguments of calls.

Pure. Only for what is indexed, and for finding it in the text: texts, offsets and literals stay those of what is stored.
"""

from __future__ import annotations

import json
import re

_JSON = re.compile(r'[{\[]\s{0,8}"')
_ESCAPE = re.compile(r"\\(?:[\\nrtbf]|u([0-9a-fA-F]{4}))")
_LOW_HALF = re.compile(r"\\u[dD][c-fC-F]")  # the second escape of a character that has two
_HALF = 6
_BEHIND = re.compile(
    r"(?<!\\)((?:\\\\)*)((?:\\u[0-9a-fA-F]{4})+)"
)  # an even number of backslashes are characters themselves
_CODES = re.compile(r"(?:\\u(?!00[0-7])[0-9a-fA-F]{4})+")
_UNICODE = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")


def json_begins(text: str) -> int:
    """Where JSON with escapes begins in a text (the output of most tools, the arguments of calls); its length if nowhere."""
    found = _JSON.search(text) if "\\" in text else None
    return found.start() if found else len(text)


def unescaped(text: str) -> str:
    """A piece of JSON with its line ends and characters as such: ``\\nname`` is no word that begins with an n."""
    text = text.replace("\\\\", " ").replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r")
    text = text.replace("\\f", "\f").replace("\\b", " ")
    return _UNICODE.sub(_characters, text) if "\\u" in text else text


def as_read(text: str) -> str:
    """A whole text as it reads."""
    begin = json_begins(text)
    return text if begin == len(text) else text[:begin] + unescaped(text[begin:])


def blanked(text: str, low: int, high: int) -> str:
    """A stretch of a text at its length, with blanks for the escapes between words of its JSON: they begin where they stand."""
    begin = min(max(json_begins(text), low), high)
    return text[low:begin] + _ESCAPE.sub(_blank, text[begin:high])


def _blank(match: re.Match[str]) -> str:
    code = match.group(1)
    return match.group() if code and chr(int(code, 16)).isalnum() else " " * len(match.group())


def border(text: str, low: int, high: int) -> int:
    """Where to cut JSON without blanks: before a line end, a full stop or any escape, not within one; else at ``high``."""
    for escape in ("\\n", "\\u3002", "\\"):
        at = text.rfind(escape, low, high)
        if at < 0:
            continue
        at = low + len(text[low:at].rstrip("\\"))  # it may be the second backslash of an escaped one
        half = at > low + _HALF and _LOW_HALF.match(text, at)
        return at - _HALF if half else at
    return high


def escaped(word: str) -> str:
    """A word as JSON in ASCII has it."""
    return json.dumps(word)[1:-1]


def characters(text: str) -> str:
    """JSON with characters that are not ASCII as such, all else as it is written. Not parsed: it may be of any depth."""
    return _BEHIND.sub(_beyond_ascii, text) if "\\u" in text else text


def _beyond_ascii(match: re.Match[str]) -> str:
    return match.group(1) + _CODES.sub(_characters, match.group(2))


def _characters(match: re.Match[str]) -> str:
    codes = bytes.fromhex(match.group().replace("\\u", ""))
    return codes.decode("utf-16-be", "replace")
