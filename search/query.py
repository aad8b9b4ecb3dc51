"""
Queries as searches: parsing of what was typed, into words of the index.

Pure. The index side (``documents``) and the query side (``parse``) must see the same words: both run through ``index_text``, and
FTS5's own tokenizer does the rest, so a query never has to be escaped or re-implemented. ``stems`` imitates that tokenizer where
Python itself has to compare words: counting them, ranking, highlighting.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from . import forms
from .documents import CJK_RUN, HARMFUL, ONE_CJK, bigrams, humps, normal
from .forms import stem

_MAX_ITEMS = 128  # typed items that become search terms; a pasted page is searched by its first words and as a literal
_MAX_ITEM_CHARS = 400  # of many words in one item: a phrase of thousands takes seconds
_MAX_ATOMS = 192  # and so many single terms, parts of names included
_MAX_PHRASE = 48  # longer word sequences are not searched as a phrase

_FRAME = re.compile(
    r"""\bi(?:['’]m|\ am)\ going\ back\ to\b
    |\bi(?:['’]d\ like|\ wanted|\ want)\ to\ (?:follow\ up\ on|go\ back\ to)\b
    |\bi\ was\ (?:just\ )?(?:thinking|wondering)(?:\ (?:about|if|whether))?\b
    |\b(?:(?:can|could|would|will)\ you\ )?(?:please\ )?remind\ me(?:\ again)?\b
    |\b(?:do|can)\ you\ (?:still\ )?(?:remember|recall)\b
    |\b(?:our|my|the|that)\ (?:previous|earlier|last|past|prior)\ (?:conversation|chat|discussion|talk)s?\b
        (?:\ (?:about|on)\b)?
    |\b(?:i\ (?:think|believe|remember|recall)\ )?(?:we|you)\ (?:had\ )?
        (?:discussed|talked|spoke|chatted|mentioned|told\ me|brought\ up)\b
        (?:\ about\b)?(?:\ (?:earlier|before|previously|last\ time)\b)?
    |\bwhich\ of\ the\ following\b(?:\ (?:statement|description|option|answer)s?\b)?
    |\b(?:erinnerst\ du\ dich|erinnere\ mich)(?:\ (?:noch\ )?an)?\b|\bhatten\ wir\ besprochen\b
    |(?:你|您)?还?记得|(?:我们)?(?:之前|上次|以前)(?:说过|聊过|提到|讨论)的?|提醒我(?:一下)?
    |(?:以下|下列|下面)哪一?[个项种](?:[^，。？?]{0,8}(?:描述|说法|选项|答案))?""",
    re.IGNORECASE | re.VERBOSE,
)
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")  # Thai, Lao, Burmese, Khmer: written without blanks
_PIECE = 3  # letters of a piece of theirs
_MAX_FRAMED = 2000  # a pasted page is no question
_SENTENCE_END = re.compile(r"(?<=[。！？])|(?<=[.!?])\s+|\n+")
_ASKED = re.compile(r"[?？][\"'”’」』）)]*$")
_MOST_QUESTIONS, _SPEECH = 3, 4  # questions that are answered apart; sentences that only lead to the last one

_WORD = re.compile(r"[^\W_]+")
_ALL_OF = re.compile(r'"[\x21\x23-\x7e ]+"(?: AND "[\x21\x23-\x7e ]+")*')
_ITEM = re.compile(r'"([^"]*)"|“([^“”]*)”|([()])|([^\s"“”()]+)')
_EDGES = " \t\r\n.,;:!?؟،؛¿¡'’‘`´()[]{}<>«»…。，、；：！？（）【】「」『』《》"
_NUMBERED = re.compile(r"([A-Za-z]{2,8})-?(\d{1,8})")
_GROUPED = re.compile(r"[^\w\s]?(\d{1,3}(?:[.,'’]\d{3})+)(?:[.,]\d\d?)?[^\w\s]?")
_SEPARATED = re.compile(r"[\s/()+-]+")
_LEAST_DIGITS, _MOST_BESIDE = 5, 3  # of a number; letters in it: more are a hash, which has no parts
_ENGLISH_TAIL = re.compile(r"['’](?:s|re|ve|ll|d|m|S)$")


@dataclass(frozen=True, slots=True)
class Atom:
    """Term to look for: an FTS5 expression and the stems it stands for (empty when Python cannot tell)."""

    match: str
    stems: tuple[str, ...]
    stop: bool = False
    forms: tuple[str, ...] = ()  # other tokens of the index that are the same word
    roots: tuple[str, ...] = ()  # what its forms have in common, as it stands in texts without accents
    typed: str = ""  # the expression before its forms were added

    @property
    def written(self) -> str:
        """The expression as it was asked for: which forms there are may tell what others said."""
        return self.typed or self.match

    def rows(self, frequency: Mapping[str, int]) -> int:
        """About how many rows hold it, by rows for each token."""
        if self.forms:
            return sum(frequency.get(token, 0) for token in {*self.forms, *self.stems})
        return min((frequency.get(token, 0) for token in self.stems), default=0)


@dataclass(frozen=True, slots=True)
class Query:
    """A typed query as searches, from strict to loose. Empty expressions mean: there is no such search.

    ``phrase`` all words in sequence; ``expression`` what was asked for, every word of it (or the boolean expression as typed);
    ``atoms`` single terms, to be joined by OR; ``required`` quoted phrases that even the loose search insists on;
    ``excluded`` what a message must not contain; ``literal`` the text for a substring scan, ``literals`` typed items with
    signs that the index does not know (``c++``, ``src/a.py``). ``strict``: operators, quotes or one path or identifier were
    typed, so that loosening is a change of meaning that must be told; ``phrase_lost``: quotes were given up.
    """

    raw: str
    literal: str
    phrase: str
    expression: str
    atoms: tuple[Atom, ...]
    required: tuple[Atom, ...] = ()
    excluded: tuple[Atom, ...] = ()
    strict: bool = False
    phrase_lost: bool = False
    literals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()  # which it may be in, of those whose forms ``search/forms.py`` knows

    @property
    def stems(self) -> frozenset[str]:
        """The stems of the words that mean something."""
        return frozenset(stem for atom in self.atoms if not atom.stop for stem in atom.stems)

    @property
    def loosens(self) -> bool:
        """Do the single terms say anything else than what was asked for as a whole?"""
        return len(self.atoms) > 1 or self.expression != "".join(atom.match for atom in self.atoms)


@dataclass(frozen=True, slots=True)
class _Item:
    text: str
    kind: str  # "word", "phrase", "open", "close"


class _NotBoolean(Exception):  # noqa: N818 - a signal between two functions of this module
    """The operators do not form an expression; read them as words."""


def parse(query: str) -> Query:
    """A query of anything that was typed. Never raises."""
    raw = query
    text = HARMFUL.sub(" ", query).strip()
    notes: list[str] = []
    items = list(_items(unframed(text)))
    if len(items) > _MAX_ITEMS:
        notes.append(f"the query is long: only its first {_MAX_ITEMS} words are searched as words")
        items = items[:_MAX_ITEMS]
    literal = _literal(text, items)
    if any(_is_endless(i) for i in items):
        notes.append(
            f"of what is very long without a blank, or quoted, the first {_MAX_ITEM_CHARS} characters are searched"
        )
        items = [replace(i, text=i.text[:_MAX_ITEM_CHARS]) if _is_endless(i) else i for i in items]
    boolean = _boolean(items, notes)
    if boolean is not None:
        return Query(
            raw, literal, "", boolean.match, boolean.atoms, excluded=boolean.excluded, strict=True, notes=tuple(notes)
        )
    languages = forms.languages(text)
    items, excluded = _exclusions(items, notes)
    plain = [i for i in items if i.kind in ("word", "phrase")]
    required = tuple(_phrase_atom(i.text) for i in plain if i.kind == "phrase")
    words = _content([i for i in plain if i.kind == "word"], languages, keep_all=not required)
    everything = [a.match for a in required] + [_spellings(i.text) for i in words]
    loose = _distinct([*required, *(a for i in words for a in _loose(i.text))])
    sequence = " ".join(i.text for i in plain)
    phrase = _sequence(sequence) if len(plain) > 1 and len(plain) <= _MAX_PHRASE and not excluded else ""
    one_name = len(plain) == 1 and _is_compound(plain[0].text) and not _is_unbroken(plain[0].text)
    return Query(
        raw,
        literal,
        phrase,
        " AND ".join(filter(None, everything)),
        loose,
        required,
        excluded,
        strict=bool(required or excluded or one_name),
        literals=tuple(dict.fromkeys(_clean_sign(i.text) for i in words if _has_sign(i.text)))[:8],
        notes=tuple(notes),
        languages=languages,
    )


def unframed(text: str) -> str:
    """A question without the words that only say that it is one about earlier talk; as it is when nothing else is left."""
    left = _FRAME.sub(" ", text) if len(text) < _MAX_FRAMED else text
    return left if _WORD.search(left) else text


def questions(text: str) -> tuple[str, ...]:
    """Questions asked one after the other; of a speech that ends with a question that one, and the whole. Empty: one question."""
    if len(text) > _MAX_FRAMED:
        return ()
    sentences = [each.strip() for each in _SENTENCE_END.split(text) if _WORD.search(each)]
    asked = [n for n, each in enumerate(sentences) if _ASKED.search(each)]
    if not asked or asked[-1] + 1 < len(sentences):
        return ()
    if 1 < len(asked) <= _MOST_QUESTIONS and len(sentences) <= _SPEECH:
        found = [" ".join(sentences[begin:end]) for begin, end in pairwise([0, *(n + 1 for n in asked)])]
    elif len(sentences) >= _SPEECH:
        last = re.split("：|: ", sentences[-1])[-1]
        found = [last if _WORD.search(last) else sentences[-1], text]
    else:
        return ()
    return tuple(found) if all(len(parse(each).stems) > 1 for each in found) else ()


def phrase(text: str) -> str:
    """The expression for a text's words in sequence; "" where it has none."""
    return _sequence(text) if any(char.isalnum() for char in text) else ""


def loosened(query: Query) -> Query:
    """The query without its quotes."""
    bare = re.sub('["“”]', " ", query.raw)
    return replace(parse(bare), raw=query.raw, phrase_lost=True, excluded=query.excluded, notes=query.notes)


def inner(literal: str) -> str:
    """FTS5 expression that holds for every text which contains the literal; "" when words cannot tell.

    The first word may be the end of a longer one, the last one the beginning: ``ain/db.p`` is in ``src/main/db.py``.
    """
    tokens = _WORD.findall(literal)
    return _prefix(tokens[1:]) if len(tokens) > 1 and literal.isascii() and len(tokens[-1]) > 1 else ""


def separated(literal: str) -> re.Pattern[str] | None:
    """Pattern of a number, or a name of digits, however its parts are set apart: 0304455667 is 030/4455667; None of words."""
    signs = _SEPARATED.sub("", literal)
    digits = sum(map(str.isdigit, signs))
    if not signs.isascii() or not signs.isalnum() or digits < _LEAST_DIGITS or len(signs) > digits + _MOST_BESIDE:
        return None
    return re.compile(r"[\s./()-]{0,3}".join(signs), re.IGNORECASE)


def whole(literal: str) -> list[tuple[str, str]]:
    """FTS5 expressions, each with the stem of a word that it needs, one of which every text holds that contains the literal.

    Piece by piece between blanks, as a text is indexed in parts that end at blanks. The first and the last word of the literal
    may be parts of longer ones, so they count only where a sign stands beside them.
    """
    if not literal.isascii() or "\\" in literal:
        return []
    out = []
    padded = f"x{literal}x"  # other letters may be around it in a text
    for piece in padded.split():
        tokens = _WORD.findall(piece)
        inside = tokens[1 if padded.startswith(piece) else 0 : -1 if padded.endswith(piece) else None]
        if inside:
            out.append((f'"{" ".join(inside)}"', stem(max(inside, key=len).lower())))
    return out


def needed(expression: str) -> str:
    """FTS5 expression of a word that every match holds: of a phrase, or of several that are all asked for; "" when unknown."""
    tokens = _WORD.findall(expression.replace('" AND "', " ")) if _ALL_OF.fullmatch(expression) else []
    return f'"{max(tokens, key=len)}"' if len(tokens) > 1 else ""


def sequence(literal: str) -> str:
    """FTS5 expression for most texts that contain a literal of several words; "" for fewer than three.

    The last one may be the beginning of a longer word, and is not asked for.
    """
    tokens = _WORD.findall(literal) if literal.isascii() else []
    return f'"{" ".join(tokens[:-1])}"' if len(tokens) > 2 else ""


def likely(literal: str) -> str:
    """FTS5 expression for most texts that contain the literal: those in which it begins a word; "" when words cannot tell."""
    tokens = _WORD.findall(literal)
    if not tokens or len(literal) < 3:
        return ""
    return _prefix(tokens) if literal.isascii() else _sequence(literal)


def beginning(literal: str) -> str:
    """FTS5 expression for texts in which the literal's last word goes on: ``db-po`` is in ``db-pool``."""
    tokens = _WORD.findall(literal)
    return _prefix(tokens) if tokens and literal.isascii() and len(tokens[-1]) > 2 else ""


def _prefix(tokens: list[str]) -> str:
    """A phrase whose last word is a beginning. FTS5 stems that one too, so it is cut down to what no stem changes."""
    last = tokens[-1].lower()
    while (stemmed := stem(last)) != last:
        last = last[: next((n for n, (a, b) in enumerate(zip(stemmed, last, strict=False)) if a != b), len(stemmed))]
    return f'"{" ".join([*tokens[:-1], last])}"*'


def _items(text: str) -> Iterator[_Item]:
    for match in _ITEM.finditer(text):
        straight, curly, bracket, word = match.groups()
        if bracket:
            yield _Item(bracket, "open" if bracket == "(" else "close")
        elif word is not None:
            if any(map(str.isalnum, word)):
                yield _Item(word, "word")
        else:
            quoted = (straight if straight is not None else curly).strip()
            if any(map(str.isalnum, quoted)):
                yield _Item(quoted, "phrase" if len(quoted.split()) > 1 or _is_compound(quoted) else "word")


def _is_endless(item: _Item) -> bool:
    return len(item.text) > _MAX_ITEM_CHARS and _is_compound(item.text)


def _literal(text: str, items: list[_Item]) -> str:
    if len(items) == 1 and text[:1] in '"“' and text[-1:] in '"”':
        return text[1:-1].strip()
    return text


def _is_compound(text: str) -> bool:
    """Does FTS5 see more than one token in it?"""
    return len(_WORD.findall(text)) > 1 or bool(ONE_CJK.search(text))


def _is_unbroken(text: str) -> bool:
    """Do words follow each other in it without blanks, so that it may be a whole question?"""
    return bool(ONE_CJK.search(text) or _UNSPACED.search(text))


def _clean(word: str) -> str:
    return _ENGLISH_TAIL.sub("", word.strip(_EDGES))


def _clean_sign(word: str) -> str:
    return word.strip(" .,;:!?'’()[]{}<>")


def _has_sign(word: str) -> bool:
    """Does the item hold signs that tell it from its words: c++, .env, src/a.py, but not Anna's or "end." """
    bare = _ENGLISH_TAIL.sub("", _clean_sign(word))
    return (
        bare.isascii() and not bare.isalnum() and any(c.isalnum() for c in bare) and "'" not in bare and "*" not in bare
    )


def _is_stop(word: str) -> bool:
    return _clean(word).lower().replace("’", "'").split("'")[0] in STOP_WORDS


def _content(words: list[_Item], languages: tuple[str, ...], *, keep_all: bool) -> list[_Item]:
    """Without stop words, unless nothing else is left."""
    content = [i for i in words if not (_is_stop(i.text) or forms.is_common(_clean(i.text), languages))]
    return content if content or not keep_all else words


def _sequence(text: str) -> str:
    """An FTS5 phrase of the text's tokens. The last character of a CJK run is left open: the text may go on there."""
    spaced = HARMFUL.sub(" ", text).replace('"', " ")
    if not spaced.isascii():
        spaced = normal(spaced).replace('"', " ")
        spaced = CJK_RUN.sub(_query_bigrams, spaced)
    tokens = " ".join(spaced.split())
    if not tokens:
        return ""
    last = tokens.rsplit(" ", 1)[-1]
    return f'"{tokens}"*' if len(last) == 1 and ONE_CJK.match(last) else f'"{tokens}"'


def _query_bigrams(match: re.Match[str]) -> str:
    text, end = match.string, match.end()
    if end == len(text.rstrip(_EDGES)) and len(match.group()) > 1:
        run = match.group()
        return f" {' '.join(map(''.join, pairwise(run)))} "
    return bigrams(match) if len(match.group()) > 1 else f" {match.group()} "


def _phrase_atom(text: str) -> Atom:
    return Atom(_sequence(text), stems(text))


def _spellings(word: str) -> str:
    """The word as one FTS5 operand; camelCase also matches its parts, ``name*`` every beginning."""
    word = word if word.endswith("*") else _clean(word) or word
    base = word.rstrip("*")
    found = _sequence(base)
    if word.endswith("*") and _WORD.fullmatch(base) and not ONE_CJK.search(base):
        return _prefix([base]) if base.isascii() else f"{found}*"
    parts = [*humps(base), *_respelt(base)[:1]] if base.isascii() else []
    return f"({found} OR {' OR '.join(map(_sequence, parts))})" if parts else found


def _respelt(word: str) -> tuple[str, ...]:
    """Spellings of a name with a number, or of an amount: utf8 and UTF-8, 7,250.00 and 7250; first the one to search."""
    if named := _NUMBERED.fullmatch(word):
        apart, joined = " ".join(named.groups()), "".join(named.groups())
        return (joined, word, apart) if "-" in word else (apart, word, "-".join(named.groups()))
    grouped = _GROUPED.fullmatch(word)
    return (re.sub(r"\D", "", grouped[1]), grouped[1]) if grouped else ()


def _loose(word: str) -> Iterator[Atom]:
    """The word and, of an identifier, path or CJK run, its parts."""
    base = _clean(word.rstrip("*")) or word
    if not base.isascii():
        base = content_of(normal(base)) if ONE_CJK.search(base) else base
        parts = [part for part in base.split() if _WORD.search(part)] or [word]
        yield from (Atom(_spellings(part), stems(part), _is_stop(part)) for part in parts)
        yield from (piece for part in parts if _UNSPACED.search(part) for piece in _pieces(part))
        tokens = [token for part in parts for token in _WORD.findall(CJK_RUN.sub(_query_bigrams, normal(part)))]
    else:
        yield Atom(_spellings(word), stems(base), _is_stop(base), roots=tuple(map(str.lower, _respelt(base))))
        tokens = _WORD.findall(base) + [p for part in humps(base) for p in part.split()]
    if len(tokens) > 1:
        for token in tokens:
            if len(token) > 1 or ONE_CJK.match(token):
                yield Atom(_sequence(token), stems(token), token.lower() in STOP_WORDS)


def _pieces(text: str) -> Iterator[Atom]:
    """Beginnings of what FTS5 takes for words where no blanks are written: it ends them at vowel signs, and nowhere else."""
    tokens = _WORD.findall(text)
    for first, then in pairwise(tokens):
        yield Atom(f'"{first} {then[:_PIECE]}"*', (first, then[:_PIECE]))
    for token in tokens:
        if len(token) > _PIECE:
            yield Atom(f'"{token[:_PIECE]}"*', (token[:_PIECE],))


def _distinct(atoms: list[Atom]) -> tuple[Atom, ...]:
    return tuple({a.match: a for a in reversed(atoms) if a.match}.values())[::-1][:_MAX_ATOMS]


# ------------------------------------------------------------------------------------------------- operators


def _exclusions(items: list[_Item], notes: list[str]) -> tuple[list[_Item], tuple[Atom, ...]]:
    """``-word`` at the end of a query. Followed by more words it may as well be a shell flag and stays a word."""
    kept = list(items)
    excluded: list[Atom] = []
    while len(kept) > 1 and kept[-1].kind == "word" and re.fullmatch(r"-[^\W\d_]{3,}", kept[-1].text):
        excluded.append(_phrase_atom(kept.pop().text[1:]))
    if not any(i.kind in ("word", "phrase") for i in kept):
        return items, ()
    if excluded:
        notes.append(f"without {', '.join(reversed([a.match for a in excluded]))}; quote a leading - to search for it")
    return kept, tuple(reversed(excluded))


@dataclass(frozen=True, slots=True)
class _Expression:
    match: str
    atoms: tuple[Atom, ...]
    excluded: tuple[Atom, ...]


def _boolean(items: list[_Item], notes: list[str]) -> _Expression | None:
    """The query as a boolean expression when operators were typed (upper case, in a query that is not all upper case)."""
    words = [i.text for i in items if i.kind == "word"]
    operators = [w for w in words if w in ("AND", "OR", "NOT")]
    shouting = not any(c.islower() for i in items for c in i.text) and all(w.isascii() for w in words)
    if not operators or (shouting and not any(i.kind == "phrase" for i in items)):
        return None
    try:
        parser = _Boolean(items)
        expression = parser.parse()
    except (_NotBoolean, RecursionError):
        notes.append("AND, OR, NOT do not form an expression here and are read as words")
        return None
    return expression


class _Boolean:
    """Recursive descent with the precedence of FTS5: a sequence binds tighter than AND, AND tighter than OR."""

    def __init__(self, items: list[_Item]) -> None:
        self._items = items
        self._at = 0
        self._atoms: list[Atom] = []
        self._excluded: list[Atom] = []

    def parse(self) -> _Expression:
        match = self._either(depth=0)
        if self._at < len(self._items) or not match:
            raise _NotBoolean
        return _Expression(match, _distinct(self._atoms), tuple(self._excluded))

    def _next(self) -> _Item | None:
        return self._items[self._at] if self._at < len(self._items) else None

    def _operator(self, name: str) -> bool:
        item = self._next()
        if item is not None and item.kind == "word" and item.text == name:
            self._at += 1
            return True
        return False

    def _either(self, depth: int) -> str:
        if depth > 20:
            raise _NotBoolean
        sides = [self._both(depth)]
        while self._operator("OR"):
            sides.append(self._both(depth))
        if len(sides) > 1 and self._excluded:
            raise _NotBoolean  # NOT inside OR: FTS5 could say it about chunks, not about messages
        return sides[0] if len(sides) == 1 else "(" + " OR ".join(sides) + ")"

    def _both(self, depth: int) -> str:
        operands: list[str] = []
        while (item := self._next()) is not None and item.kind != "close" and item.text != "OR":
            if operands and self._operator("AND") and self._next() is None:
                raise _NotBoolean
            if self._operator("NOT"):
                self._exclude(depth)
                continue
            operands.append(self._operand(depth))
        words = [o for o in operands if o]
        if not words:
            raise _NotBoolean
        return words[0] if len(words) == 1 else "(" + " AND ".join(words) + ")"

    def _exclude(self, depth: int) -> None:
        item = self._next()
        if depth or item is None or item.kind not in ("word", "phrase") or item.text in ("AND", "OR", "NOT"):
            raise _NotBoolean
        self._at += 1
        self._excluded.append(_phrase_atom(_clean(item.text)))

    def _operand(self, depth: int) -> str:
        item = self._next()
        if item is None or item.text in ("AND", "OR", "NOT"):
            raise _NotBoolean
        self._at += 1
        if item.kind == "open":
            inner = self._either(depth + 1)
            closing = self._next()
            if closing is None or closing.kind != "close":
                raise _NotBoolean
            self._at += 1
            return inner
        if item.kind == "phrase":
            self._atoms.append(_phrase_atom(item.text))
            return _sequence(item.text)
        self._atoms.extend(_loose(item.text))
        return _spellings(item.text)


# ------------------------------------------------------------------------------------------------- FTS5's words


def stems(text: str) -> tuple[str, ...]:
    """The tokens of ``text`` as ``porter unicode61 remove_diacritics 2`` makes them (after ``index_text``'s bigrams)."""
    if not text.isascii():
        text = normal(text)
        if ONE_CJK.search(text):
            text = CJK_RUN.sub(_query_bigrams, text)
        decomposed = unicodedata.normalize("NFD", text)
        # Of scripts from India on, marks are no accents: the index keeps those of kana, and ends words at the others.
        text = unicodedata.normalize(
            "NFC", "".join(c for c in decomposed if c >= "\u0900" or not unicodedata.combining(c))
        )
    return tuple(map(stem, _WORD.findall(text.lower())))


# -- stop words ------------------------------------------------------------------------------------------
# Chinese is written without spaces: there particles, pronouns and question words split a run of characters.
STOP_WORDS = forms.ENGLISH.union(
    """after also am before being doing done having here hers him just might nor now ours out over own should some such theirs
    those too under very yours please tell ain aren couldn didn doesn don hadn hasn haven isn shouldn wasn weren won wouldn
    d ll m re s t ve""".split()
)

_PARTICLES = re.compile(
    "为什么|什么样|怎么样|是不是|有没有|能不能|来着|到底|究竟|什么|怎么|怎样|如何|哪里|哪儿|哪个|哪些|哪位|多少|请问|告诉|时候|"
    "我们|你们|他们|她们|它们|咱们|这个|那个|这些|那些|"
    "另外|有?几[个次位岁]|有几|多[大高久长]|[的了是在吗呢啊呀吧么啦嘛哪谁啥这那我你您他她它们和与也都就还又很]"
)


def content_of(text: str) -> str:
    """A text with the words of each run of characters apart and its particles gone; as it is when they are all that it has.

    A run of particles between words is nothing: in "164cm 的人是做什么的" one looks for the height.
    """
    spaced = CJK_RUN.sub(_without_particles, text)
    return spaced if _WORD.search(spaced) else text


def _without_particles(run: re.Match[str]) -> str:
    """The words of a run of characters, with blanks between; "" where none of two characters is left."""
    parts = [part for part in _PARTICLES.split(run.group()) if len(part) > 1]
    return f" {' '.join(parts)} "
