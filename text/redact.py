"""
Secrets in texts, and the placeholders that stand for them.

Pure and linear: each kind of secret has literals that it cannot do without; only where one stands is its pattern tried, and every
try is bounded. Finds secrets also where they are quoted inside JSON inside JSON, percent-encoded, broken by the width of a
terminal, or in base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import html
import logging
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import accumulate, islice, pairwise
from typing import AnyStr, Final

from .secret_kinds import (
    ASSIGNS,
    CATALOGUE,
    DEFAULT,
    ENDS,
    LAST,
    LINE_END,
    LONG,
    OF_ANOTHER,
    REDACTED,
    RULES,
    WIDE,
    Match,
    Rule,
    is_value,
)

_AGAIN: Final = 32  # secrets of a text that are looked for once more
_DEPTH = 2  # base64 inside base64 is opened this deep
_WORD = 24  # shorter words of base64 hold no secret
_IN_WORD = bytes(0x31 if (chr(n).isalnum() and n < 128) or chr(n) in "+/_-" else 0x20 for n in range(256))
_PRINTED = bytes(n for n in range(256) if n >= 32 or 9 <= n <= 13)
# Most long words (paths, names) cannot be base64 of text: a first character of g to v would be a byte in the middle of a UTF-8
# character, every fourth one of A, B, E to H a control character, of + and / (- and _) none that UTF-8 has; and behind an ASCII
# character (C, D, I to f) some second characters would be such a byte in the middle, or a control character.
_FIRST = frozenset(b"CDIJKLMNOPQRSTUVWXYZabcdefwxyz0123456789")
_SAYS = re.compile(rb"(?:[CDI-Za-f][^BI-LRYZabho-rx4-7]..|[g-z0-9]...){%d}" % (_WORD // 4))
_PLACEHOLDER = re.compile(r"\[redacted:([a-z_]+)(?::([0-9a-f]{12}))?\]")
#: How the placeholder of a secret in a name or an id begins.
NAMELESS: Final = "redacted_"
_SALT, _ROUNDS = b"hermes-lcm", 200_000  # of the digest of an id that holds a password
Edit = tuple[int, int, str]
_TERMINAL: Final = 40  # columns of the narrowest one whose width breaks a value of ``WIDE``
# With the sign that stands for what is not ASCII.
_IN_LONG = bytes(0x31 if (chr(n).isalnum() and n < 128) or chr(n) in "_-.?" else 0x20 for n in range(256))
_SHORT: Final = 4000  # a text of so many characters is searched as it is
_ANCHOR: Final = 17  # characters of the longest literal


def placeholder(kind: str, secret: str, *, digest: bool = True) -> str:
    """Placeholder of a secret. The digest lets equal secrets be recognised; passwords have none, they could be guessed."""
    if not digest:
        return f"{REDACTED}{kind}]"
    return f"{REDACTED}{kind}:{hashlib.sha256(secret.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}]"


class Redactor:
    """Finds the secrets of some kinds. ``unknown``: names that are no kind; without any known one the default kinds count."""

    def __init__(self, names: Iterable[str] = DEFAULT) -> None:
        wanted = list(dict.fromkeys(names))
        self.unknown = tuple(name for name in wanted if name not in CATALOGUE and name != "all")
        known = set(CATALOGUE) if "all" in wanted else set(wanted) & set(CATALOGUE)
        self.kinds = tuple(kind for kind in CATALOGUE if kind in (known or set(DEFAULT)))
        self._rules = [rule for rule in RULES if rule.kind in self.kinds]
        #: Where somebody collects what was found, it is noted here.
        self.seen: set[str] | None = None
        #: Keys and names of tools are the same in most messages.
        self.key, self.name = lru_cache(2048)(self.text), lru_cache(2048)(self._name)
        self.identity = lru_cache(2048)(self._identity)
        # Where two rules find the same, the first one names it: a shape says more than a name does.
        self._in_order = sorted(self._rules, key=lambda rule: rule.needs == ASSIGNS)
        self._breakable = [rule for rule in self._in_order if rule.size not in (None, WIDE)]
        self._anchors = _Anchors(self._rules)

    def kind_in(self, text: str) -> str:
        """Kind of a secret that stands in the text as it is, "" for none. Quick; secrets that are encoded are passed over."""
        return next((rule.kind for _, _, rule in _Literals(text, self._anchors).found(self._in_order)), "")

    def text(self, text: str) -> str:
        """The text without its secrets; the same object when it has none."""
        return self._text(text, _DEPTH)

    def _name(self, text: str) -> str:
        """A name or an id without its secrets; their placeholders have only characters that every provider takes in a name."""
        clean = self.text(text)
        return text if clean == text else _PLACEHOLDER.sub(lambda found: f"{NAMELESS}{found[2] or found[1]}", clean)

    def _identity(self, text: str) -> str:
        """An id without its secrets that is no other id's: behind a password, which has no digest, one that is slow to guess."""
        clean = self.text(text)
        if clean == text or all(found[2] for found in _PLACEHOLDER.finditer(clean)):
            return clean
        return (
            f"{clean}#{hashlib.pbkdf2_hmac('sha256', text.encode('utf-8', 'surrogatepass'), _SALT, _ROUNDS).hex()[:12]}"
        )

    def _text(self, text: str, depth: int) -> str:
        clean = _replaced(text, self._edits(text))
        return self._decoded(clean, depth - 1) if depth and len(clean) >= _WORD else clean

    def _edits(self, text: str) -> list[Edit]:
        """Placeholders for the secrets of a text, in order; none overlaps another."""
        known: dict[tuple[str, str], str] = {}  # the same secret often stands in a text more than once
        out: list[Edit] = []
        literals = _Literals(text, self._anchors)
        for start, stop, rule in [*literals.found(self._in_order), *self._elsewhere(literals)]:
            secret = text[start:stop]
            new = known.get((rule.kind, secret))
            if self.seen is not None:
                self.seen.add(secret)
            if new is None:
                new = known[rule.kind, secret] = placeholder(rule.kind, secret, digest=rule.digest)
            out.append((start, stop, new))
        return _merged([*out, *_again(text, known)])

    def _elsewhere(self, literals: _Literals) -> Iterator[tuple[int, int, Rule]]:
        """Secrets that are there only when escapes are undone, or lines that a terminal broke are joined."""
        if escapes := sorted(_escapes(literals.text)):
            plain = _View(literals.text, escapes)
            for start, stop, rule in _Literals(plain.text, self._anchors).found(self._in_order):
                yield *plain.span(start, stop), rule
        breaks = _breaks(literals.text)
        if breaks and (rules := literals.across(breaks, self._breakable)):
            joined = _View(literals.text, breaks)
            for start, stop, rule in _Literals(joined.text, _Anchors(rules)).found(rules):
                end = joined.continued(start, stop, rule)
                if end > start:
                    yield *joined.span(start, end), rule

    def _decoded(self, text: str, depth: int) -> str:
        """The text without the secrets in what its base64 words say."""
        edits: list[Edit] = []
        for start, stop in _words(_one_byte(text)):
            said = _said(text[start:stop])
            clean = self._text(said, depth) if said is not None else None
            if said is not None and clean is not None and clean != said:
                data = clean.encode()
                # Filled up with blanks: signs of equality behind letters would be looked at as an assignment the next time.
                edits.append((start, stop, base64.b64encode(data + b" " * (-len(data) % 3)).decode()))
        return _replaced(text, edits)

    def value(self, key: str, text: str) -> str:
        """The value of a JSON key: the whole of it when the key names a secret."""
        if len(key) <= 80 and text:
            for rule in self._rules:
                if rule.key and rule.key.fullmatch(key) and not OF_ANOTHER.search(key) and is_value(text):
                    if self.seen is not None:
                        self.seen.add(text)
                    return placeholder(rule.kind, text, digest=rule.digest)
        return self.text(text)

    def pieces(self, texts: Sequence[str]) -> list[str]:
        """Texts that follow each other (streamed parts): a secret may begin in one and end in a later one."""
        out = list(texts)
        if len(out) > 1:
            out = _split(out, self._edits("".join(out)))
        return [self.text(text) for text in out]


# What says a character in another way: percent-encoding, escapes of JSON, entities; and what nobody sees: colours, signs without
# width. Each pattern begins with one literal character: that is what the standard library looks for fastest.
_UNSEEN: Final = "\xad\u200b\u200c\u200d\u2060\ufeff"
_COLOUR: Final = r"\[[0-9;]{0,20}[A-Za-z]"
_ESCAPES: Final = tuple(
    (sign, re.compile(pattern))
    for sign, pattern in (
        ("%", r"%(?:25)?(0[9AaDd]|[2-7][0-9A-Fa-f])"),
        ("\\", rf"\\(?:\\{{0,7}}(?:u00([2-7][0-9A-Fa-f])|x([2-7][0-9A-Fa-f])|(/)|(?:u001[bB]|x1[bB]|033|e){_COLOUR}))"),
        ("\x1b", rf"\x1b{_COLOUR}"),
        *((sign, sign) for sign in f"\0{_UNSEEN}"),
    )
)
# Lines of mails ("quoted-printable"), and letters of another style or width, of which some stand side by side.
_PRINTABLE: Final = re.compile(r"=(?:\r?\n|([2-7][0-9A-F]))")
_PRINTABLE_SIGNS: Final = ("=3D", "=20\n")
_STYLED: Final = re.compile("[\uff01-\uff5e\U0001d400-\U0001d7ff](?:[!-~]?[\uff01-\uff5e\U0001d400-\U0001d7ff]){5,}")
_ENTITY: Final = re.compile(r"&(?:#\d{2,6}|#[xX][0-9a-fA-F]{2,5}|[A-Za-z]{2,9});")
# Ends of lines within a token, as such or escaped, with what indents, borders and numbers the next one; strings put together.
_BEGIN = r"(?=[\"'`\\]*[\w./+=~@:-])"
_NEXT_LINE = r"[ \t]{0,40}+(?:(?:[│┃║|>]|\d{1,6}(?:[ \t]{0,8}[:→│┃║|]|\t|\\{1,8}t))[ \t]{0,40}+)?" + _BEGIN
_NEXT_STRING = r"[ \t]{0,8}(?:(?:\r?\n|\\{1,8}n)[ \t]{0,40})?(?=\\{0,8}[\"'`])" + _BEGIN
_BORDER: Final = " \t│┃║|"
_BREAKS: Final = (
    ("\n", re.compile(rf"\n{_NEXT_LINE}"), _BORDER + "\r\\"),
    ("\\", re.compile(rf"\\(?:\\{{0,7}}(?:r\\{{1,8}})?n|\r?\n){_NEXT_LINE}"), _BORDER),
    *((sign, re.compile(rf"\{sign}{_NEXT_STRING}"), " \t\r\n") for sign in "+.&"),
)
_NEXT_PART: Final = re.compile(
    r"[ \t│┃║|]{0,40}(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n)[ \t│┃║|]{0,40}([\w./+~@-]{1,4096}={0,2})(?!\w)"
)
_NEAR: Final = 600  # characters in which the lines around a broken one are looked at
_QUOTES: Final = "\\\"'`"
_QUOTE: Final = re.compile(r"\\{0,8}[\"'`]")
_AT_QUOTE: Final = re.compile(r"\\{0,8}[\"'`]\Z")
_IN_BREAK: Final = "_./+=~:@-!$#%^&*?"
_ODD: Final = re.compile(r"\d|[a-z][A-Za-z]*[A-Z]|[A-Z]{2}[A-Z]*[a-z]")


def _escapes(text: str) -> Iterator[Edit]:
    """Escapes, and the character that each stands for; "" of what nobody sees."""
    for sign, pattern in _ESCAPES:
        for found in pattern.finditer(text) if sign in text else ():
            code = "".join(filter(None, found.groups()))
            yield found.start(), found.end(), code if code in ("", "/") else chr(int(code, 16))
    for found in _PRINTABLE.finditer(text) if "=" in text and any(sign in text for sign in _PRINTABLE_SIGNS) else ():
        yield found.start(), found.end(), chr(int(found[1], 16)) if found[1] else ""
    for found in _STYLED.finditer(text) if not text.isascii() else ():
        for at in range(*found.span()):
            said = unicodedata.normalize("NFKC", text[at])
            if len(said) == 1 and said.isascii():
                yield at, at + 1, said
    for found in _ENTITY.finditer(text) if "&" in text else ():
        said = html.unescape(found[0])
        if len(said) == 1 and (said.isascii() or said in _UNSEEN):
            yield found.start(), found.end(), said if said.isascii() else ""


def _breaks(text: str) -> list[Edit]:
    """Ends of lines within words, with the borders around them, and strings that are put together of two."""
    out: list[Edit] = []
    for sign, pattern, borders in _BREAKS:
        for found in pattern.finditer(text) if sign in text else ():
            start, stop = found.span()
            before, behind = text[start - 1 : start], text[stop]
            if before in borders or before in _QUOTES:
                out += _break(text, start, stop, borders)
            elif behind not in _QUOTES and (before in _IN_BREAK or before.isalnum()):
                out.append((start, stop, ""))
    out.sort()
    return [each for n, each in enumerate(out) if not n or each[0] >= out[n - 1][1]]


def _break(text: str, start: int, stop: int, borders: str) -> Iterator[Edit]:
    """A break at a place, as far as it reaches over borders and quotes; none where no word goes over it."""
    line = text[max(0, start - _NEAR) : start]
    start -= len(line) - len(line.rstrip(borders))
    begins, ends = _QUOTE.match(text, stop), _AT_QUOTE.search(text, max(0, start - 9), start)
    if (begins is None) == (ends is None):
        start, stop = (ends.start(), begins.end()) if begins and ends else (start, stop)
        before = text[start - 1 : start]
        if before and (before in _IN_BREAK or before.isalnum()):
            yield start, stop, ""


def _wraps(text: str, before: int, behind: int, end: int) -> int:
    """Columns of a line that a terminal's width broke between two places, in a word up to ``end``; 0 where it did not: a line
    near is longer, or what follows is another name."""
    near = text[max(0, before - _NEAR) : before], text[behind : behind + _NEAR]
    lines = [line.strip(_BORDER) for line in (*LINE_END.split(near[0])[-3:], *LINE_END.split(near[1])[:2])]
    broken = len(LINE_END.split(near[0])[-1].strip(_BORDER))
    return broken if broken == max(map(len, lines)) and text[end : end + 1] not in ("=", ":", "(") else 0


def _beyond(text: str, stop: int) -> int:
    """End of a value of ``WIDE`` that goes on behind the end of its line."""
    while found := _NEXT_PART.match(text, stop):
        if not _ODD.search(found[1]) or _wraps(text, stop, found.start(1), found.end()) < _TERMINAL:
            break
        stop = found.end()
    return stop


class _View:
    """A text with some of its stretches as one other character each, or as none, and the way back."""

    def __init__(self, text: str, changes: Iterable[Edit]) -> None:
        parts: list[str] = []
        # Runs of the view: where each begins here and there, and how wide its one character is there (0: as wide as here).
        self._here, self._there, self._width = [0], [0], [0]
        self._changes: list[int] = []
        here = there = 0
        for start, stop, new in changes:
            parts += [text[there:start], new]
            here += start - there
            self._changes.append(here)
            if new:
                self._run(here, start, stop - start)
            here, there = here + len(new), stop
            self._run(here, there, 0)
        self.text, self._source = "".join([*parts, text[there:]]), text

    def _run(self, here: int, there: int, width: int) -> None:
        self._here.append(here)
        self._there.append(there)
        self._width.append(width)

    def span(self, start: int, stop: int) -> Match:
        """Place of a stretch in the text itself."""
        first, last = bisect_right(self._here, start) - 1, bisect_right(self._here, stop - 1) - 1
        begin = self._there[first] + (0 if self._width[first] else start - self._here[first])
        return begin, self._there[last] + (self._width[last] or stop - self._here[last])

    def _wraps(self, at: int, stop: int) -> bool:
        """Was a line broken here by a terminal's width, and does its word end at ``stop``?"""
        _, before = self.span(at - 1, at)
        behind, _ = self.span(at, at + 1)
        _, end = self.span(stop - 1, stop)
        return _wraps(self._source, before, behind, end) > 0

    def continued(self, start: int, stop: int, rule: Rule) -> int:
        """End of a secret that goes over the ends of lines; ``start`` if it does not go over one.

        The next line's first word is a part of it if it is as odd as one, or makes it as long as its kind is.
        """
        end, size = start, rule.size or 0
        if size == ENDS:
            return stop
        ends = self._changes[bisect_right(self._changes, start) : bisect_right(self._changes, stop - 1)]
        if not ends:  # what was broken stands before it
            return stop
        for at, following in pairwise([*ends, stop]):
            if 0 < size <= at - start:
                break
            whole = following - start == size or _ODD.search(self.text, at, following)
            if not whole and not (size == LAST and self._wraps(at, following)):
                return start + size if size > 0 and following - start > size else end
            end = following
        return end


def _is_placeholder(text: str, at: int) -> bool:
    """Does this stand in a placeholder of ours?"""
    begin = text.rfind(REDACTED, max(0, at - 60), at)
    return begin >= 0 and text.find("]", begin, at) < 0


def _one_byte(text: str) -> bytes:
    """The text with one byte a character; what is not ASCII becomes a question mark."""
    return text.encode("ascii", "replace")


class _Anchors:
    """The literals of some rules, by where each is looked for: in any case, as written, in long words."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        wants: dict[str, tuple[str, ...]] = {}  # signs of which one must be there, or () where no rule needs one
        for rule in rules:
            for each in rule.anchors:
                known = wants.get(each)
                wants[each] = rule.needs if known is None else known + rule.needs if known and rule.needs else ()
        tokens = {each for rule in rules if rule.token for each in rule.anchors}
        others = {each for rule in rules if not rule.token for each in rule.anchors}
        self._anyhow = _shorter_first({each for each in others if each == each.lower()})
        self._exact = _shorter_first({each for each in others if each != each.lower()})
        self._tokens = _shorter_first(tokens)
        #: Literals by the signs of which each needs one.
        self._needing = [
            (needs, frozenset(each for each, of in wants.items() if of == needs))
            for needs in dict.fromkeys(filter(None, wants.values()))
        ]

    def among(self, raw: bytes, low: bytes, words: bytes, has: Callable[[str], bool]) -> set[str]:
        """Literals that stand in a text. ``words``: its long words; ``has``: does a sign stand in the text in question?"""
        useless = set[str]().union(*(names for needs, names in self._needing if not any(map(has, needs))))
        return (
            _found(low, self._anyhow, useless)
            | _found(raw, self._exact, useless)
            | _found(words, self._tokens, useless)
        )


def _found(raw: bytes, literals: Iterable[_Literal], useless: Set[str]) -> set[str]:
    """The literals that stand in a text, but for useless ones."""
    out: set[str] = set()
    absent: set[str] = set()
    for literal, name, within in literals:
        if name in useless:
            continue
        if absent.isdisjoint(within) and literal in raw:
            out.add(name)
        else:
            absent.add(name)
    return out


#: A literal as bytes and as a text, and those that are a part of it: where one of these is not, it is not either.
_Literal = tuple[bytes, str, frozenset[str]]
_PARTS: Final = ("_", "-", ".", "-----", "32:", "pass", "pw", "sql")


def _shorter_first(literals: Set[str]) -> list[_Literal]:
    """Literals, and parts that several of them share, so that each is looked for behind its parts."""
    parts = {part for part in _PARTS if sum(part in each for each in literals) > 1}
    every = sorted(literals | parts, key=lambda one: (len(one), one))
    return [
        (one.encode("ascii"), one, frozenset(each for each in every if each != one and each in one)) for one in every
    ]


class _LongWords:
    """The long words of a text, and where each stands in it; a short text is taken as it is."""

    def __init__(self, raw: bytes) -> None:
        runs = list(_runs(raw, _IN_LONG, LONG)) if len(raw) > _SHORT else [(0, len(raw))]
        self.raw = b" ".join([raw[start:stop] for start, stop in runs])
        self._there = [start for start, _ in runs]
        self._here = list(accumulate((stop - start + 1 for start, stop in runs), initial=0))

    def places(self, literal: bytes) -> Iterator[int]:
        """Everywhere a literal stands in them, as places of the text."""
        for at in _places(self.raw, literal):
            word = bisect_right(self._here, at) - 1
            yield self._there[word] + at - self._here[word]


class _Literals:
    """A text with the literals that stand in it: they decide which rules can match at all."""

    def __init__(self, text: str, anchors: _Anchors) -> None:
        self.text, self._anchors = text, anchors
        self._raw = _one_byte(text)
        self._low = self._raw.lower()
        self._signs: dict[str, bool] = {}
        self._words = _LongWords(self._raw)
        self._present = anchors.among(self._raw, self._low, self._words.raw, self._has)

    def _has(self, sign: str) -> bool:
        if sign not in self._signs:
            self._signs[sign] = sign in self.text
        return self._signs[sign]

    def _likely(self, rules: Iterable[Rule], present: Set[str]) -> list[Rule]:
        return [
            rule
            for rule in rules
            if not present.isdisjoint(rule.anchors + rule.foreign)
            and (not rule.needs or any(map(self._has, rule.needs)))
        ]

    def found(self, rules: Sequence[Rule]) -> Iterator[tuple[int, int, Rule]]:
        """(start, stop, rule) of every secret; they may overlap."""
        text, clean = self.text, REDACTED not in self.text
        present = self._present if text.isascii() else self._present.union(*(each.foreign for each in rules))
        for rule in self._likely(rules, present) if present else ():
            for anchor in present.intersection(rule.anchors + rule.foreign):
                done = 0
                for at in self._places(rule, anchor):
                    match = rule.find(text, at) if at >= done else None
                    if match:
                        done = _beyond(text, match[1]) if rule.size == WIDE else match[1]
                        if clean or not (_is_placeholder(text, at) or _is_placeholder(text, match[0])):
                            yield match[0], done, rule

    def _places(self, rule: Rule, anchor: str) -> Iterator[int]:
        if not anchor.isascii():
            return _places(self.text, anchor)
        literal = anchor.encode("ascii")
        if rule.token:
            return self._words.places(literal)
        return _places(self._low if anchor == anchor.lower() else self._raw, literal)

    def across(self, breaks: Sequence[Edit], rules: Sequence[Rule]) -> list[Rule]:
        """The rules of which a literal stands in the text, or would, were it not for the breaks."""
        edges = b" ".join(
            [self._raw[max(0, at - _ANCHOR) : at] + self._raw[end : end + _ANCHOR] for at, end, _ in breaks]
        )
        return self._likely(
            rules, self._present | self._anchors.among(edges, edges.lower(), _LongWords(edges).raw, self._has)
        )


def _places(raw: AnyStr, literal: AnyStr) -> Iterator[int]:
    """Everywhere a literal stands."""
    at = raw.find(literal)
    while at >= 0:
        yield at
        at = raw.find(literal, at + 1)


def _runs(raw: bytes, of: bytes, least: int) -> Iterator[Match]:
    """Runs of at least so many characters of a kind (``of``: a table that makes each of them a 1, any other a blank)."""
    kinds, run = raw.translate(of), b"1" * least
    at = kinds.find(run)
    while at >= 0:
        stop = kinds.find(b" ", at + least)
        stop = stop if stop >= 0 else len(kinds)
        yield at, stop
        at = kinds.find(run, stop)


def _words(raw: bytes) -> Iterator[Match]:
    """Runs of at least ``_WORD`` characters of base64 that may say text, with the signs that fill them up."""
    for at, stop in _runs(raw, _IN_WORD, _WORD):
        if raw[at] in _FIRST and _SAYS.match(raw, at):
            filled = 2 if raw.startswith(b"==", stop) else 1 if raw.startswith(b"=", stop) else 0
            yield at, stop + filled


def _said(word: str) -> str | None:
    """Text of a base64 word, if it is text."""
    if "-" in word or "_" in word:
        word = word.replace("-", "+").replace("_", "/")
    word = word.rstrip("=")
    size = len(word)
    try:
        if size > 64 and binascii.a2b_base64(word[:32]).translate(None, _PRINTED):
            return None  # before all of it is decoded
        size -= size % 4 == 1
        said = binascii.a2b_base64(word[:size] + "=" * (-size % 4))
        return None if said[: min(24, size // 4 * 3)].translate(None, _PRINTED) else said.decode("utf-8")
    except ValueError:
        return None


_IN_NAME: Final = re.compile(r"\w")


def _again(text: str, known: Mapping[tuple[str, str], str]) -> Iterator[Edit]:
    """The secrets of a text where they stand once more, as a word, with no name beside them."""
    for (_, secret), new in islice(known.items(), _AGAIN):
        if len(secret) >= 8 and not secret.isalpha() and "\n" not in secret:
            for at in _places(text, secret):
                stop = at + len(secret)
                if not _IN_NAME.search(text[max(0, at - 1) : at] + text[stop : stop + 1]):
                    yield at, stop, new


def _merged(edits: Iterable[Edit]) -> list[Edit]:
    """Edits in order; of overlapping ones the first, longest one, stretched over the others."""
    out: list[Edit] = []
    for start, stop, text in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], stop), out[-1][2])
        else:
            out.append((start, stop, text))
    return out


def _replaced(text: str, edits: Sequence[Edit]) -> str:
    if not edits:
        return text
    out: list[str] = []
    at = 0
    for start, stop, new in _merged(edits):
        out += [text[at:start], new]
        at = stop
    return "".join([*out, text[at:]])


def _split(texts: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """Edits of the joined texts, applied to each: the placeholder goes where the secret began."""
    out: list[str] = []
    begin = 0
    for text in texts:
        end = begin + len(text)
        mine = [
            (max(start, begin) - begin, min(stop, end) - begin, new if start >= begin else "")
            for start, stop, new in edits
            if start < end and stop > begin
        ]
        out.append(_replaced(text, mine))
        begin = end
    return out


# -- the log of the plugin -------------------------------------------------------------------------------
# One logger for all homes of a process: once redaction is on in one of them, it is on for the log.
LOGGER: Final = "hermes_lcm"
_UNSAID: Final = "a record of the log could not be made free of secrets and is left out"
#: What a text may raise that is put together of anything: another number of arguments, an odd object, endless nesting.
_UNREADABLE: Final = (TypeError, ValueError, LookupError, AttributeError, RuntimeError)


class Clean(logging.Filter):
    """Takes secrets out of messages and tracebacks."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self.redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record passes, reworded where it must be."""
        try:
            said = self.redactor.text(record.getMessage())
            trace = (
                self.redactor.text(logging.Formatter().formatException(record.exc_info)) if record.exc_info else None
            )
        except _UNREADABLE as exc:  # a filter that raises would end the turn that logs; what is not clean is not shown
            said, trace, record.exc_info = f"{_UNSAID} ({type(exc).__name__})", None, None
        record.msg, record.args = said, ()
        record.exc_text = trace or record.exc_text
        return True


def keep_clean(redactor: Redactor) -> None:
    """Keep secrets out of the log from now on; a second call replaces what the first asked for."""
    logger = logging.getLogger(LOGGER)
    for each in list(logger.filters):
        if type(each).__name__ == Clean.__name__:  # of this module, or of another copy of the plugin in this process
            logger.removeFilter(each)
    logger.addFilter(Clean(redactor))
