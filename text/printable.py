"""
Control characters, escape sequences and direction marks in text that a terminal or a Markdown reader shows.

Pure. Stored text stays as it is; what is shown of it has each such character as its escape, so that it is seen and does nothing.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Final

#: C0 but tab and line feed, DEL and C1, soft hyphen, invisible and direction marks, line and paragraph separators, surrogates,
#: tags. Not the joiners U+200C and U+200D: scripts and emoji need them.
_HIDDEN: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb"
    "\\ud800-\\udfff\\U000e0000-\\U000e007f]"
)


def printable(text: str) -> str:
    """The text with what a terminal would obey as escapes: ``\\x1b``, ``\\u202e``."""
    return text if _is_printable(text) else _HIDDEN.sub(lambda found: ascii(found[0])[1:-1], text)


def printable_json(text: str) -> str:
    """JSON with the same characters as JSON escapes: it reads back to the very same value."""
    return text if _is_printable(text) else _HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def one_line(text: str) -> str:
    """A name for a line of its own: a line feed is an escape too."""
    return printable(text).replace("\n", "\\n")


def typed(word: str) -> str:
    """A word as a shell takes it, also with characters that a terminal would obey: those as ``$'...'`` writes them."""
    if _is_printable(word) and "\n" not in word:
        return shlex.quote(word)
    each = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t"}
    raw = "".join(each.get(char) or (char if _is_printable(char) else _bytes_of(char)) for char in word)
    return f"$'{raw}'"


def _bytes_of(char: str) -> str:
    """A character as octal bytes: unlike hexadecimal ones they end after three digits in every shell."""
    return "".join(
        f"\\{byte:03o}"
        for byte in char.encode("utf-8", "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass")
    )


def _is_printable(text: str) -> bool:
    return text.isprintable() or _HIDDEN.search(text) is None
