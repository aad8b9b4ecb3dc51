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

#: What Unicode's own decomposition does not fold, and digits that are read as letters.
_TWINS: Final = {
    "s": "ѕꜱᏚꓢՏ5$", "u": "υսʋᴜꓴ∪⋃ᑌ", "m": "мμᴍᎷꓟϻ", "a": "аαɑᴀᎪꓮ⍺4@", "r": "гʀᎡꓣᴦᏒ", "y": "уүγΥʏꓬᎩᎽ", "p": "рρᴘᏢꓑ",
    "e": "еεᴇᎬꓰҽ℮3", "n": "пηνɴꓠոռ", "t": "тτᴛᎢꓔ7", "l": "ӏʟᏞꓡιiıіɩլ1|", "c": "сϲᴄᏟꓚⲥ", "f": "ғꜰϝꓝ", "g": "ɡԍꓖᏀɢ",
    "o": "оοօᴏⲟꓳ0", "/": "⁄∕╱⧸", ":": "꞉∶ː˸։׃", "_": "‗", "<": "❬❰˂⦑⧼≺⋖ᐸ❮⟨〈〈«《⟪≪", "[": "⟦【〚❲⁅〔",
}  # fmt: skip
_OF_TWIN: Final = {twin: char for char, twins in _TWINS.items() for twin in twins}
#: Alphabets of letters in circles, in squares and of flags.
_PICTURES: Final = tuple(range(start, start + 26) for start in (0x1F150, 0x1F170, 0x1F1E6))
_UNSEEN: Final = frozenset("\u3164\u115f\u1160\uffa0\u2800\\")
_ENTITY: Final = re.compile(r"&(#\d{1,8}|#[xX][0-9a-fA-F]{1,8}|[lL][tT]|[A-Za-z]{1,24}(?=;));?")
_H: Final = "[0-9a-fA-F]"
#: Escapes of programming languages, style sheets, addresses and mail: a code in hexadecimal, in octal, a name, or a blank.
_ESCAPE: Final = re.compile(
    rf"\\{{1,8}}(?:u(?P<a>{_H}{{4}})|U(?P<b>{_H}{{8}})|x(?P<c>{_H}{{2}})|[ux]\{{0*(?P<d>{_H}{{2,6}})\}}"
    rf"|(?=[0-7]*[89a-fA-F])0*(?P<e>{_H}{{2}})(?!{_H}) ?|(?:0(?=0))?o?\{{?(?P<octal>[0-3]?[0-7]{{2}})\}}?"
    rf"|N\{{(?P<name>[\w -]{{2,60}})\}}|(?P<blank>[nrtvf]))"
    rf"|%(?P<f>{_H}{{2}})|%u(?P<g>{_H}{{4}})|[uU]\+(?P<h>{_H}{{4}})|0x(?P<i>{_H}{{2}})|=(?P<j>{_H}{{2}})"
)
_ESCAPES: Final = "\\%uU0="
_AHEAD: Final = 60  # characters of an escape of an escape
_SIGNS: Final = re.compile(
    "[" + re.escape("<＜﹤[［" + _TWINS["<"] + _TWINS["["]) + r"&\\%]|[uU]\+(?=00)|0x(?=[35])|=(?=[35])"
)


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


def _unit(text: str, at: int, deep: int = 8) -> tuple[str, int]:
    """(the character that is written at a place, where what writes it ends). Escapes of escapes are read too."""
    char, end = text[at], at + 1
    if char == "&" and (found := _ENTITY.match(text, at)):
        said = html.unescape(f"&{found[1]};")
        char, end = (said, found.end()) if said == "&" or said[:1] != "&" else (char, end)
    elif char in _ESCAPES and (found := _ESCAPE.match(text, at)):
        char, end = _escaped(found), found.end()
    if end > at + 1 and deep and char in ("&", *_ESCAPES):
        inner, size = _unit(char + text[end : end + _AHEAD], 0, deep - 1)
        char, end = (inner, end + size - 1) if size > 1 else (char, end)
    return char, end


def _escaped(found: re.Match[str]) -> str:
    """The character of an escape; "" for a blank and for what is no character."""
    if found["blank"]:
        return ""
    try:
        if found["name"]:
            return unicodedata.lookup(found["name"])
        code = int(found["octal"], 8) if found["octal"] else int(found[found.lastgroup or 0], 16)
        return chr(code)
    except (KeyError, ValueError, OverflowError):
        return ""


def _seen(text: str, at: int) -> Iterator[str]:
    """The characters from a place on, as they are seen."""
    while at < len(text):
        char, at = _unit(text, at)
        yield from "".join(map(_looks, char))


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
    done = 0
    for found in _SIGNS.finditer(text):
        char, end = _unit(text, found.start())
        if found.start() >= done and char and _looks(char[0])[:1] in ("<", "["):
            done = end
            yield found.start(), end
