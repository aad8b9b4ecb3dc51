"""
The grammar of the text that this plugin itself puts into a prompt, and what a reader would take for it.

Three kinds: the context message (summaries), the carrier (a one-line assistant message that keeps two user messages apart)
and the stub (the placeholder of an oversized tool result). Each carries the conversation's nonce. Reading is exact: opening
line at the very start, closing line as printed, nonce known; anything else is somebody's words.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import product
from typing import Final

from .content import canonical_text

_NONCE = r"[0-9a-f]{16}"
_OPEN = re.compile(rf"\[lcm:history ({_NONCE})\]\n")
_CLOSE = re.compile(rf"\n\[/lcm:history ({_NONCE}) assembly=(\d+)\]")
_STUB = re.compile(rf"\[lcm:stub ({_NONCE}) msg_(\d+)[^\]\n]*\]\n[\s\S]*\n\[/lcm:stub\]")

_TAGS = ("<summary", "</summary", "<present_state", "<presentstate", "</present_state", "</presentstate")
_OPENINGS = (*_TAGS, "[lcm:", "[/lcm:", "[[memory", "[memoryarchived")
_NEUTRAL = "\u2039"
_KEY_CHARS = 8

#: First line of a placeholder for archived messages, as it is printed; an imported summary may only look like one.
ARCHIVED = re.compile(
    r"\[\[memory archived handle=mem://[\w.:@+/-]+ range=\d+\.\.\d+ messages=\d+ chars=\d+ tokens=\d+\]\](?:\n|\Z)",
    re.ASCII,
)
CARRIER_TEXT = "Noted: the record above is history for reference. The conversation continues below."
_CARRIER = re.compile(rf"\[lcm:carrier ({_NONCE})\] {re.escape(CARRIER_TEXT)}")
#: Tells the model when to search the archive, the same in every prompt.
RECALL_POLICY: Final = """\
Recall: all that was said here and in earlier conversations is kept, beyond what is in view.
Before you ask the user again, guess, or say that it was never said: lcm_grep(query=the question as it stands).
Where statements differ, the newest one holds. If nothing is found, say that it is not in the archive."""


@dataclass(frozen=True, slots=True)
class Context:
    """A context message found in a live list. ``rest`` is text that the host glued behind it."""

    nonce: str
    assembly_id: int
    rest: str


def context(nonce: str, assembly_id: int, body: str) -> str:
    """The whole text of a context message. ``body`` must not hold a closing line (see ``defuse``)."""
    return f"[lcm:history {nonce}]\n{body}\n[/lcm:history {nonce} assembly={assembly_id}]"


def key(nonce: str) -> str:
    """The part of the nonce that the tags inside of a context message bear."""
    return nonce[:_KEY_CHARS]


def defuse(text: str, nonce: str) -> str:
    """Quoted text that cannot close our fence: no nonce, and a visible sign where a look-alike of our tags begins."""
    text = text.replace(key(nonce), nonce[:4] + "…") if key(nonce) in text else text
    out, done = [], 0
    for start, stop in signs(text):
        if begins(text, start, _OPENINGS):
            out += [text[done:start], _NEUTRAL]
            done = stop
    return "".join([*out, text[done:]])


def summary(nonce: str, facts: str, body: str, lead: str = "") -> str:
    """One summary in its tags. ``facts`` are attributes of ours, ``lead`` a first line of ours."""
    return f'<summary {facts} key="{key(nonce)}">\n{lead}{defuse(body, nonce)}\n</summary>'


def present_state(nonce: str, body: str) -> str:
    """The block of present state in its tags."""
    return f'<present_state key="{key(nonce)}">\n{defuse(body, nonce)}\n</present_state>'


def read_context(text: str) -> Context | None:
    """The context message that ``text`` begins with, if it does."""
    if not text.startswith("[lcm:history "):
        return None
    opened = _OPEN.match(text)
    if opened is None:
        return None
    for closed in _CLOSE.finditer(text):
        if closed.group(1) == opened.group(1):
            return Context(opened.group(1), int(closed.group(2)), text[closed.end() :].strip())
    return None


def context_digest(text: str) -> bytes:
    """Content of the context message that ``text`` begins with, in any spacing of the host, without text glued behind."""
    opened = _OPEN.match(text)
    closed = next((m for m in _CLOSE.finditer(text) if opened and m.group(1) == opened.group(1)), None)
    record = canonical_text(text[: closed.end()] if closed else text)
    return blake2b(" ".join(record.split()).encode("utf-8", "replace"), digest_size=16).digest()


def carrier(nonce: str) -> str:
    """The one-line assistant message between the context message and a user message."""
    return f"[lcm:carrier {nonce}] {CARRIER_TEXT}"


def read_carrier(text: str) -> tuple[str, str] | None:
    """(nonce, text glued behind it) of a carrier, or None."""
    if not text.startswith("[lcm:carrier "):
        return None
    line, _, rest = text.partition("\n")
    found = _CARRIER.fullmatch(line)
    return (found.group(1), rest.strip()) if found else None


def glued(text: str) -> str:
    """Text that the host glued behind the context message or carrier that ``text`` begins with; all of it where there is none."""
    context, carried = read_context(text), read_carrier(text)
    return context.rest if context is not None else carried[1] if carried is not None else text


def stub(nonce: str, store_id: int, note: str, snippet: str) -> str:
    """Stub in the prompt for the text of message ``store_id``."""
    fact = defuse(note, nonce).replace("]", ")").replace("\n", " ")
    return f"[lcm:stub {nonce} msg_{store_id} {fact}]\n{defuse(snippet, nonce)}\n[/lcm:stub]"


def read_stub(text: str) -> tuple[str, int] | None:
    """(nonce, store id) of a stub, or None."""
    if not text.startswith("[lcm:stub "):
        return None
    found = _STUB.fullmatch(text.strip())
    return (found.group(1), int(found.group(2))) if found else None


# -- look-alikes --------------------------------------------------------------------------------------------
# Linear. A character counts as what it looks like: in another script or style, with marks over it, as an escape or entity; what
# cannot be seen does not count.
#: What Unicode's own decomposition does not fold, and digits that are read as letters.
_TWINS: Final = {
    "s": "ѕꜱᏚꓢՏ5$ƽꮪ𐑈𑣁", "u": "υսʋᴜꓴ∪⋃ᑌꞟꭎꭒ𐓶𑣘", "m": "мμᴍᎷꓟϻ", "a": "аαɑᴀᎪꓮ⍺4@", "r": "гʀᎡꓣᴦᏒⲅꭇꭈꮁ",
    "y": "уүγΥʏꓬᎩᎽɣყᶌỿꭚ𑣜", "p": "рρᴘᏢꓑ⍴ⲣ", "e": "еεᴇᎬꓰҽ℮3ꬲ", "n": "пηνɴꓠոռ", "t": "тτᴛᎢꓔ7",
    "l": "ӏʟᏞꓡιiıіɩլ1|ǀ۱ᛁ∣⏽Ⲓⵏꓲ￨𐊊𐌉𐌠𖼨", "c": "сϲᴄᏟꓚⲥꮯ𐐽", "f": "ғꜰϝꓝ", "g": "ɡԍꓖᏀɢ",
    "o": "оοօᴏⲟꓳ0σ۵०੦૦௦ం౦ಂ೦ംഠ൦ං๐໐ဝ၀ჿᴑꬽ𐐬𐓪𑣈𑣗", "/": "⁄∕╱⧸᜵⁁⟋Ⳇ⼃〳ノ㇓丿𝈺", ":": "꞉∶ː˸։׃ःઃ᛬᠃᠉⁚ꓽ︰", "_": "‗",
    "<": "❬❰˂⦑⧼≺⋖ᐸ❮⟨〈〈«《⟪≪ᚲ𝈶", "[": "⟦【〚❲⁅〔",
}  # fmt: skip
_OF_TWIN: Final = {twin: char for char, twins in _TWINS.items() for twin in twins}
#: Letters for which two others are taken, side by side.
_PAIRS: Final = {"m": ("m", "rn", "nn"), "d": ("d", "cl")}
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
def _as_seen(words: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Words as they are seen, and all of their beginnings."""
    spelled = ("".join(parts) for word in words for parts in product(*(_PAIRS.get(char, char) for char in word)))
    seen = frozenset("".join(map(_looks, each)) for each in spelled)
    return seen, frozenset(each[:n] for each in seen for n in range(1, len(each)))


def begins(text: str, at: int, words: tuple[str, ...]) -> bool:
    """Does the text from a place on look as if it began with one of these words?"""
    seen, beginnings = _as_seen(words)
    said = ""
    for char in _seen(text, at):
        said += char
        if said in seen:
            return True
        if said not in beginnings:
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
