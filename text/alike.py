"""
Look-alikes: words that a reader takes for one of ours, however their letters are spelt.

Pure and linear. A character counts as what it looks like: in another script or style, with marks over it, as an escape or entity;
what cannot be seen does not count. Knows nothing of which words are ours.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

#: What Unicode's own decomposition does not fold.
_TWINS: Final = {
    "s": "ѕꜱᏚꓢՏ", "u": "υսʋᴜꓴ∪⋃ᑌ", "m": "мμᴍᎷꓟϻ", "a": "аαɑᴀᎪꓮ⍺", "r": "гʀᎡꓣᴦᏒ", "y": "уүγΥʏꓬᎩᎽ", "p": "рρᴘᏢꓑ",
    "e": "еεᴇᎬꓰҽ℮", "n": "пηνɴꓠոռ", "t": "тτᴛᎢꓔ", "l": "ӏʟᏞꓡιiıіɩլ", "c": "сϲᴄᏟꓚⲥ", "f": "ғꜰϝꓝ", "g": "ɡԍꓖᏀɢ", "/": "⁄∕╱⧸",
    ":": "꞉∶ː˸։׃", "_": "‗", "<": "❬❰˂⦑⧼≺⋖ᐸ❮⟨〈〈",
    "[": "⟦【〚❲⁅〔",
}  # fmt: skip
_OF_TWIN: Final = {twin: char for char, twins in _TWINS.items() for twin in twins}
#: Alphabets of letters in circles, in squares and of flags.
_PICTURES: Final = tuple(range(start, start + 26) for start in (0x1F150, 0x1F170, 0x1F1E6))
_UNSEEN: Final = frozenset("\u3164\u115f\u1160\uffa0\u2800")
_ENTITY: Final = re.compile(r"&(?:amp;){0,4}(#\d{1,8}|#[xX][0-9a-fA-F]{1,8}|[lL][tT]|[A-Za-z]{1,10}(?=;));?")
_ESCAPE: Final = re.compile(r"\\{1,8}(?:u\{?0{0,4}([0-9a-fA-F]{2,4})\}?|x([0-9a-fA-F]{2})|(/))|%([0-9a-fA-F]{2})")
_SIGNS: Final = re.compile(
    "[" + re.escape("<＜﹤[［" + _TWINS["<"] + _TWINS["["]) + "]"
    r"|&(?:amp;){0,4}(?:lt|lsqb|lbrack|#0{0,6}(?:60|91)|#x0{0,6}(?:3c|5b));?"
    r"|\\{1,8}(?:u\{?0{0,4}(?:3c|5b)\}?|x(?:3c|5b))|%(?:3c|5b)",
    re.IGNORECASE,
)  # fmt: skip


@lru_cache(4096)
def _looks(char: str) -> str:
    """The plain character that another one is taken for; "" where nobody sees it."""
    for alphabet in _PICTURES:
        if ord(char) in alphabet:
            return chr(ord("a") + ord(char) - alphabet.start)
    if char in _OF_TWIN:
        return _OF_TWIN[char]
    out = ""
    for part in unicodedata.normalize("NFKD", char):
        kind = unicodedata.category(part)
        if part in _UNSEEN or kind in ("Mn", "Me", "Cf", "Cn", "Cc", "Zs", "Zl", "Zp"):
            continue
        low = part.lower()
        out += "_" if kind in ("Pc", "Pd") else _OF_TWIN.get(part) or _OF_TWIN.get(low, low)
    return out


def _seen(text: str, at: int) -> Iterator[str]:
    """The characters from a place on, as they are seen."""
    while at < len(text):
        char, end = text[at], at + 1
        if char == "&" and (found := _ENTITY.match(text, at)):
            said = html.unescape(f"&{found[1]};")
            char, end = (said, found.end()) if said[:1] != "&" else (char, end)
        elif char in "\\%" and (found := _ESCAPE.match(text, at)):
            code = found[1] or found[2] or found[4]
            char, end = chr(int(code, 16)) if code else "/", found.end()
        yield from "".join(map(_looks, char))
        at = end


@lru_cache
def _as_seen(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("".join(map(_looks, word)) for word in words)


def begins(text: str, at: int, words: tuple[str, ...]) -> bool:
    """Does the text from a place on look as if it began with one of these words?"""
    said, words = "", _as_seen(words)
    for char in _seen(text, at):
        said += char
        if said in words:
            return True
        if not any(word.startswith(said) for word in words):
            return False
    return False


def signs(text: str) -> Iterator[tuple[int, int]]:
    """Places of what looks like an opening bracket of a tag."""
    yield from (found.span() for found in _SIGNS.finditer(text))
