"""
Salient items: what a summary must not lose and must not invent.

Reads paths, URLs, identifiers, numbers, hashes, dates, error codes, quoted strings, the user's directives and open
questions out of text. Owns only the reading: which of them are kept, where, and at what price is decided in
``llm/``.

Every pattern runs in linear time: a word is one run of a character class, taken greedily and then judged by its
shape, and whatever needs a wider view is bounded by a small constant. Repeated words are judged once.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, cast
from unicodedata import normalize

from ..records import SourceLine


class _Lazy:
    """A pattern that is compiled when it is first used: most processes that import this never read a text."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._made = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._made)
        for method in ("match", "search", "fullmatch", "findall", "finditer", "sub", "split"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """``re.compile`` put off to the first use, at no cost from then on."""
    return cast("re.Pattern[str]", _Lazy(pattern, flags))


#: Words of a result that say that there was no error, such as those at the end of what the host's terminal answers.
NO_ERROR: Final = lazy(
    r"(?i)\b(?:errors?|failed|failures?|exceptions?)\\?[\"']?\s?[:=]\s?(?:null|none|nil|false|0|\\?\"\\?\"|''|\[\]|\{\})(?![\w.])"
    r"|\b(?:0|no|zero) (?:errors?|failures?|failed|exceptions?)\b"
)
#: Seconds between two pauses of a thread. A pause takes 0.06 ms where nobody else wants to run.
_EVERY_S: Final = 0.002


class _Thread(threading.local):
    paused = 0.0


_THREAD: Final = _Thread()


def pause() -> None:
    """A pause of a thread that reads long texts, where its last one was some time ago: others of its process go on meanwhile.

    The interpreter runs one thread at a time, and one that computes keeps it for 5 ms. A thread that stores a message needs it
    some twenty times while others wait for it to write.
    """
    if time.monotonic() - _THREAD.paused > _EVERY_S:
        time.sleep(0)
        _THREAD.paused = time.monotonic()


#: Of a longer text the two ends are read, half of this each: reading must not take longer than summarising.
MAX_CHARS: Final = 4_000_000
#: A tool result up to this size counts whole; of a longer one, what its telling lines say and others took up.
SMALL_RESULT_CHARS: Final = 600
_MAX_ITEM_CHARS: Final = 160
_REMEMBERED: Final = 8192  # words whose reading is kept, about 3 MB
_MAX_TELLING_LINES: Final = 40
_MAX_SENTENCE_CHARS: Final = 400

PATH, URL, IDENTIFIER, NUMBER, HASH = "path", "url", "identifier", "number", "hash"
DATE, ERROR, QUOTE, DIRECTIVE, OPEN = "date", "error", "quote", "directive", "open"
#: Kinds that are one word or number, as opposed to a sentence.
TERMS: Final = frozenset({PATH, URL, IDENTIFIER, NUMBER, HASH, DATE, ERROR, QUOTE})

_WEIGHTS: Final = {
    DIRECTIVE: 5.0,
    OPEN: 3.0,
    ERROR: 3.0,
    PATH: 2.5,
    URL: 2.5,
    HASH: 2.0,
    IDENTIFIER: 2.0,
    DATE: 1.5,
    QUOTE: 1.5,
    NUMBER: 1.0,
}
_ROLES: Final = {"user": 2.0, "summary": 1.5, "assistant": 1.2, "tool": 1.0, "host": 0.5}

_WORD = lazy(r"[A-Za-z0-9_./@~+:#%$€£¥\\=?&,-]+")
_CODE = lazy(r"E[A-Z]{4,20}|SIG[A-Z]{3,6}|(?:[A-Z][A-Za-z0-9]{1,40})?[A-Za-z](?:Error|Exception|Warning|Failure|Fault)")
_ISO = lazy(r"(?:19|20)\d\d[-/.](?:0?[1-9]|1[0-2])[-/.](?:[0-2]?\d|3[01])")
#: Text between slashes that is a pattern, a substitution or a chain of calls, and no path.
_PATTERN = lazy(
    r".*\\[a-zA-Z.]|[$^]/|/[$^]|[sy]/(?:[^/.]*$|[^/]*/[^/]*/[gimp]*$)|.*/\.(?:test|exec|match|matchAll|replace|split)$"
)
#: A control sequence of a terminal, or a character that is written by its number, or a line end before more.
_ESCAPE = lazy(
    r"(?:(?<!\\)\\++(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|033)|\x1b)(?:\[[\d;]*[A-Za-z])?|(?<!\\)\\++[nrt](?![a-z])"
)
_CLOSING_TAG = lazy(r"</[\w:-]+>?")
_DAY = lazy(r"(?:[0-2]?\d|3[01])[/.](?:[0-2]?\d|3[01])[/.](?:19|20)\d\d")
_CLOCK = lazy(r"\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d{1,9})?[Zz]?")
_HEX = lazy(r"(?:0x)?[0-9a-f]{7,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_UNITS: Final = (
    "ms|us|ns|min|mins|sec|secs|seconds?|minutes?|hours?|hrs?|days?|weeks?|months?|years?|[KMGTkmgt]i?[Bb]|"
    "bytes?|[kKMGB]|px|"
    "tokens?|lines?|files?|tests?|USD|EUR|GBP|dollars?|euros?|percent|km|kg|cm|mm|miles?|[smhdw]|%|x"
)
_NUMBER = lazy(rf"[$€£¥]?[+-]?\d[\d,]*(?:\.\d+)?(?P<unit>{_UNITS})?")
_VERSION = lazy(r"v?\d+\.\d+\.\d+[\w.+-]*")
_UNIT_AFTER = lazy(rf"(?<![\w.,/-])[$€£]?\d{{1,9}}(?:[.,]\d{{1,6}})? (?:{_UNITS})(?!\w)")
#: English names of months, short ones too, in a pattern.
MONTHS: Final = (
    "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?|"
    "Nov(?:ember)?|Dec(?:ember)?)"
)
_LONG_DATE = lazy(
    rf"\b{MONTHS}\.?[ -]\d{{1,2}}(?:st|nd|rd|th)?(?:,?[ -](?:19|20)\d\d)?\b|"
    rf"\b\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {MONTHS}\b(?:,? (?:19|20)\d\d)?|"
    r"(?:19|20)?\d\d年\d{1,2}月(?:\d{1,2}日)?|\d{1,2}月\d{1,2}日"
)
_QUOTED = lazy(r"\"([^\"\n]{2,80})\"|“([^”\n]{2,80})”|「([^」\n]{1,60})」|『([^』\n]{1,60})』|`([^`\n]{2,80})`")
_SYNTAX = lazy(r"^\[calls? [^\n]*$|^```[^\n]*\n(?:(?!```)[^\n]*\n)*", re.MULTILINE)
_INNER_CAPITAL = lazy(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_EXTENSIONS_WORDS: Final = """
py pyi ts tsx js jsx mjs cjs go rs c h cc cpp hpp java kt rb php sh bash zsh ps1 md rst txt json jsonl yaml yml toml
ini cfg conf env lock log csv tsv sql db sqlite html htm css scss xml svg png jpg jpeg gif webp pdf zip tar gz tgz
whl exe dll so ipynb proto tf vue svelte swift scala lua pl r diff patch service pem key crt
"""
_EXTENSIONS: Final = frozenset(_EXTENSIONS_WORDS.split())

#: A German day is no end: "am 3. Mai".
GERMAN_MONTHS: Final = "(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)"
#: A title in front of a name ends no sentence.
_TITLED = r"(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\bProf\.)"
_SENTENCE_END = lazy(rf"(?<=[.!?]){_TITLED}(?!(?<=\d\.)\s+{GERMAN_MONTHS}\b)\s+|(?<=[。！？])|\n+")
_QUOTES = lazy("[\"“«„「‘‚']")
#: A quotation in single marks, in which an apostrophe ends nothing.
SINGLE: Final = (
    r"(?<!\w)'(?=[^\s\d])(?:[^'\n]|(?<=\w)'(?=\w)){1,600}(?<=\S)'(?!\w)|"
    r"‘(?:[^‘’\n]|(?<=\w)’(?=\w)){1,600}’|‚[^‚‘\n]{1,600}‘"
)
_QUOTATION = lazy(
    r"(?<!\w)\"(?=\S)[^\"\n]{1,600}(?<=\S)\"(?!\w)|“[^“”\n]{1,600}”|«[^«»\n]{1,600}»|„[^„“\n]{1,600}“|「[^「」\n]{1,600}」|"
    rf"{SINGLE}"
)
_LIST_MARK = lazy(r"(?:[-*•]|\d{1,3}[.)])\s+")
_DIRECTIVE = lazy(
    r"\b(?:do not|don'?t|never|always|must(?:n'?t)?|should(?:n'?t)?|prefer|please|make sure|ensure|avoid|"
    r"only use|instead of|"
    r"remember|no longer|from now on|need to|want you to|i want|i need|i(?:'d| would) like|has to|have to|required?|"
    r"can you|could you|let'?s|stop|keep|not allowed|forbidden)\b|"
    r"不要|别再|不能|不得|必须|务必|请|总是|始终|一直要|禁止|记住|应该|需要|改用|优先|ください|しないで|必ず|べき|"
    r"하지\s?마|항상|반드시|해\s?주세요",
    re.IGNORECASE,
)
_STANDING = lazy(
    r"\b(?:do not|don'?t|never|always|must(?:n'?t)?|prefer|from now on|no longer|not allowed|forbidden|remember|only use|"
    r"make sure|please use|instead|want (?:you to|it|this|that|the|all|them|every\w*)|"
    r"should(?:n'?t| not)? (?:be|have|use|stay))\b|^no, |"
    r"不要|别再|不得|必须|务必|总是|始终|禁止|记住|以后|しないで|必ず|하지\s?마|항상|반드시",
    re.IGNORECASE,
)
#: What is left of a word at a border; longer ones are no names.
_PART_CHARS: Final = 160
_PART = lazy(rf"[\w./-]{{1,{_PART_CHARS}}}", re.ASCII)
_QUESTION = lazy(
    r"[?？][\"'”)\]]*\s*$|^(?:why|what|how|do you|does|did|is|are|was|were|when|where|who|which)\b|"
    r"\bi (?:really |just |also |still |actually )?(?:don[’']?t|do not|can[’']?t|cannot|never|haven[’']?t) "
    r"(?:really |actually )?(?:know|think|see|remember|recall|understand|have|care|mind|get|feel)\b|"
    r"\bi(?:'m| am) (?:not sure|trying|worried|thinking|considering)\b|[吗呢]\s*$|"
    r"^(?:can|could|would|will) (?:you|we|i|it)\b|\bi(?:'ve| have) never\b|"
    r"\b(?:it|he|she|they) (?:never|always|don'?t)\b|\bdon[’']?t (?:know|t?[hi]+n?k|we\b|you\b|they\b)|"
    r"\bthere must be\b|\baccording to\b|\bnever ?mind\b|"
    r"\b(?:i|we)(?:'d| would|'ll| will)? [^.]{0,30}\b(?:make|making|be|ensure) sure\b|"
    r"\bmake sure (?:i|we|my|our|that (?:i|we|my|our))\b|\bshould have been\b",
    re.IGNORECASE,
)
_ACKS: Final = frozenset(
    """a again all alright amazing and appreciate are awesome can confirm continue cool correct do done everything exactly fine
    for go good great hello help hey hi i is it its just let lets looks lot love me much nice no now ok okay on please perfect
    proceed really right so sounds stop sure thank thanks that thats the then this very works would yeah yep yes you your
    danke dank dir euch vielen ja nein gut prima super toll klasse genau passt alles klar mach weiter bitte das ist sehr
    gracias muchas sí si vale perfecto genial adelante bien muy eso es todo está
    merci beaucoup oui non parfait très c est tout спасибо да хорошо отлично""".split()
)
#: The same in scripts without blanks, where a whole sentence is one word.
_CJK_ACKS = lazy(
    r"谢谢|多谢|感谢|辛苦|不客气|没问题|没关系|好|继续|可以|对|是|行|嗯|明白|知道|收到|了解|很|非常|太|极|得|棒|完美|不错|厉害|"
    r"你们?|您|大家|吧|啊|呀|呢|哦|啦|了|的|请|就|这样|那|做|下去|ありがとう|ございま(?:す|した)|はい|お願い(?:し?ます)?|続けて|"
    r"ください|です|でした|大丈夫|よろしく|どうも"
)
#: "Do the invitations": one word, and a request.
_DO = lazy(r"\W*(?:(?:please|now|and|ok|okay|yes|then)\W+)*do (?:the|my|a|an|all|both|another|these|those)\b")
_CJK = lazy("[\u3040-\u30ff\u3400-\u9fff]")
_VERBS_WORDS: Final = """
add adjust allow apply ask attach book build call cancel change check clean clear close commit compare configure
continue convert copy create debug delete deploy describe disable document download draft drop edit enable exclude
expand explain export extract fetch fill find finish fix follow format generate get give go ignore implement import
improve include increase inspect install investigate keep leave limit list load log look make merge migrate modify
move name open optimize pick plan port print proceed publish pull push put read rebase reduce refactor release
remind remove rename repeat replace report reset restart restore revert review rewrite run save search send set show
skip sort split start stop store summarize switch take tell test translate try turn undo uninstall update upgrade
upload use verify wait write
"""
VERBS: Final = frozenset(_VERBS_WORDS.split())
#: Those of them that, with no object, are work: "don't stop" and "don't go" only cheer on.
WORK: Final = VERBS - {"get", "go", "look", "name", "pick", "plan", "start", "stop", "turn"}
#: Orders in German, Spanish, Portuguese, Italian, French and Russian, without acute accents, and what follows a "no" there. None
#: says "do it", which only agrees.
_ORDERS_WORDS: Final = """
lösch lösche löschen änder ändere ändern schreib schreibe füg füge bau baue stell stelle setz setze zeig zeige prüf prüfe teste
starte stopp stoppe führ führe such suche öffne schließ schließe erstell erstelle entfern entferne installier installiere
aktualisier aktualisiere buche schick schicke sende frag frage gib kopier kopiere verschieb verschiebe benenn benenne korrigier
korrigiere reparier repariere lies speicher speichere übersetz übersetze erklär erkläre ersetz ersetze ergänz ergänze sortier
sortiere storniere beheb behebe überprüf überprüfe wiederhol wiederhole räum räume ruf rufe trag trage borra borres elimina
elimines quita quites crea cambia cambies añade añadas agrega agregues escribe escribas muestra ejecuta ejecutes instala
instales actualiza envia envies manda mandes abre abras cierra cierres revisa corrige arregla mueve muevas copia renombra
reserva reserves cancela canceles explica traduce resume guarda sube subas toques apaga apague exclua remova altera altere muda
mude adiciona adicione cria crie escreva mostra mostre execute rode instale atualize envie abra feche verifique corrija mova
copie renomeie reserve cancele explique traduza salve cancella cancellare eliminare rimuovi rimuovere cambiare aggiungi
aggiungere scrivi scrivere esegui eseguire installa aggiorna invia inviare apri aprire chiudi chiudere controlla verifica
correggi sposta spostare rinomina prenota annulla spiega traduci riassumi salva togli togliere toccare supprime supprimez efface
effacez cree change changez ajoute ajoutez ecris montre envoie envoyez cherche ouvre ferme verifie repare deplace renomme annule
annulez arrête traduis modifie modifiez enleve retire remplace remplacez touche удали удаляй создай создавай измени меняй
изменяй добавь добавляй напиши пиши покажи запусти запускай установи обнови отправь отправляй найди открой закрой проверь
исправь перемести скопируй переименуй забронируй отмени останови объясни переведи сохрани убери замени трогай
"""
_ORDERS: Final = frozenset(_ORDERS_WORDS.split())
#: What hangs on such a word: "borralo", "supprime-le", "удалите".
_HANGS_ON = lazy(r"(?:-\w.*|(?<=[aei])(?:me|te|se|nos|mi|ci)?(?:l[aeio]s?)|(?<=\w)те)$")
_OPEN = lazy(
    r"\b(?:TODO|FIXME|still (?:need|needs|to do|open|missing|failing)|not yet|remaining|left to do|"
    r"pending|open question|"
    r"unresolved|follow[- ]up|next step|blocked (?:on|by))\b|待办|尚未|未完成|还需要|还没",
    re.IGNORECASE,
)
#: A word of each alternative of the two patterns above.
_DIRECTIVE_CUES: Final = frozenset(
    """do don't dont never always must mustn't mustnt should shouldn't shouldnt prefer please make ensure avoid only instead
    remember longer from need want i i'd has have require required can could let's lets stop keep not forbidden
    """.split()
)
_OPEN_CUES: Final = frozenset("todo fixme still not remaining left pending open unresolved follow next blocked".split())
_PUNCTUATION: Final = str.maketrans(dict.fromkeys('"()[]{}.,:;!?*_`-/', " "))
#: What a line of a tool result says when it is worth a look.
_TELLING: Final = (
    "Error error ERROR Fail fail FAIL xception raceback FATAL Fatal fatal Panic panic Denied denied refused Invalid invalid "
    "Timeout timeout Cannot cannot Unable unable Undefined undefined WARN passed SUCCESS Critical critical 错误 失败 异常"
)
_TELLING_CUES: Final = (*_TELLING.split(), "not found", "No such", "no such", "timed out", "exit ")


class Item(NamedTuple):
    """Item worth keeping. ``key`` is what equal items share; ``weight`` orders, 0 until ranked."""

    kind: str
    text: str
    key: str
    weight: float = 0.0


def bounded(text: str) -> str:
    """``text``, or its two ends when it is longer than ``MAX_CHARS``."""
    if len(text) <= MAX_CHARS:
        return text
    return stretch(text, 0, MAX_CHARS // 2) + "\n" + stretch(text, len(text) - MAX_CHARS // 2, len(text))


def stretch(text: str, start: int, stop: int) -> str:
    """Text between two places, without what they leave of a word: half a name is another name."""
    start, stop = max(0, start), max(0, min(len(text), stop))
    first, last = _PART.match(text, start, stop), _PART.match(text[max(0, stop - _PART_CHARS) : stop][::-1])
    if start and first and _PART.match(text[start - 1]):
        start = first.end()
    if stop < len(text) and last and _PART.match(text[stop]):
        stop -= last.end()
    return text[start:stop]


def normal(text: str) -> str:
    """The form in which text is compared: case folded, one blank between words, no commas inside numbers."""
    flat = " ".join(text.casefold().split())
    return _DIGIT_COMMA.sub("", flat) if "," in flat else flat


# The comma first: the engine skips to it.
_DIGIT_COMMA = lazy(r",(?<=\d,)(?=\d{3}(?!\d))")


# ---------------------------------------------------------------------------------------------------- single words
def _number_kind(word: str) -> str:
    if _VERSION.fullmatch(word):
        return IDENTIFIER
    match = _NUMBER.fullmatch(word)
    if match is None:
        return ""
    digits = sum(c.isdigit() for c in word)
    return NUMBER if digits >= 3 or match["unit"] or not word[0].isdigit() else ""


def _path_kind(word: str) -> str:
    parts = [part for part in word.split("/") if part]
    if not parts or not any(c.isalpha() for c in word) or _PATTERN.match(word):
        return ""
    rooted = word[0] in "/~." and len(parts[0]) > 1
    plain = all(part.isalpha() for part in parts)
    if plain and not rooted and len(parts) < 3:
        return ""  # and/or, read/write
    return PATH


def _dotted_kind(word: str) -> str:
    parts = word.split(".")
    if parts[-1].lower() in _EXTENSIONS and parts[-2:-1] != [""]:
        return PATH
    if any(len(part) < 2 for part in parts) or (len(parts) == 2 and parts[1][:1].isupper() and parts[0].islower()):
        return ""  # e.g., or a sentence end without a blank
    return IDENTIFIER


def _identifier_kind(word: str) -> str:
    if "_" in word.strip("_"):
        return IDENTIFIER
    if "." in word:
        return _dotted_kind(word)
    digits = any(c.isdigit() for c in word)
    if "-" in word:
        return IDENTIFIER if digits or not word.islower() or word.count("-") >= 2 else ""
    if digits:
        return IDENTIFIER if any(c.isalpha() for c in word) and len(word) >= 3 else ""
    return IDENTIFIER if _INNER_CAPITAL.search(word) else ""


def _date_kind(word: str) -> str:
    if _ISO.match(word) or _DAY.fullmatch(word):
        return DATE
    return ""


def kind_of(word: str) -> str:
    """Kind of a single word, by its shape; "" for an ordinary one."""
    if len(word) < 2 or len(word) > _MAX_ITEM_CHARS:
        return ""
    if _CODE.fullmatch(word):
        return ERROR
    if word.isalpha():
        return IDENTIFIER if _INNER_CAPITAL.search(word) else ""
    if word[0].isdigit() or word[0] in "$€£¥+":
        kind = _date_kind(word) or _number_kind(word)
        if kind or _CLOCK.fullmatch(word):
            return kind
    if _HEX.fullmatch(word) and any(c.isdigit() for c in word) and any(c.isalpha() for c in word):
        return HASH
    if "/" in word:
        return _path_kind(word)
    if "\\" in word and ":" in word[:3]:
        return PATH
    return _identifier_kind(word) if any(c.isalpha() for c in word) else ""


def _url(word: str) -> str:
    cut = word.find("://")
    start = cut
    while start > 0 and word[start - 1].isalnum():
        start -= 1
    return word[start:].rstrip(".,:;?&=#/") if start < cut else ""


def _pieces(word: str) -> Iterator[str]:
    """A run of word characters, freed of punctuation; two pieces around ``=`` and ``,``."""
    for piece in re.split(r"[=,?&](?!\d{3}(?!\d))", word) if not word.isalnum() else (word,):
        bare = piece.rstrip(".:,-+#@/\\=?&~").lstrip(":+#@-,=?&%\\")
        if ":" in bare and bare[1:3] != ":\\" and not _CLOCK.fullmatch(bare):
            if _ISO.match(bare):
                yield bare[:10]
            else:
                yield from bare.split(":")
        else:
            yield bare


def terms(text: str) -> dict[str, Item]:
    """Paths, URLs, identifiers, numbers, hashes, dates and error codes of ``text`` by key, in order of appearance."""
    out: dict[str, Item] = {}
    for token in dict.fromkeys(bounded(text).split()):
        if token.isalpha() and token.isascii() and (token.islower() or token.istitle()):
            continue
        for item in _known_terms(token) if len(token) <= _MAX_ITEM_CHARS else _terms_of(token):
            out.setdefault(item.key, item)
    return out


def _terms_of(token: str) -> Iterator[Item]:
    """Terms of a text without blanks."""
    out: dict[str, Item] = {}
    if "<" in token:
        token = _CLOSING_TAG.sub(" ", token)
    if "\\" in token or "\x1b" in token:
        token = _ESCAPE.sub(" ", token)
    for word in dict.fromkeys(_WORD.findall(token)):
        if "://" in word and (url := _url(word)):
            _put(out, URL, url[:_MAX_ITEM_CHARS])
            continue
        for piece in _pieces(word):
            if kind := kind_of(piece):
                _put(out, kind, piece)
    return iter(out.values())


@lru_cache(maxsize=_REMEMBERED)
def _known_terms(token: str) -> tuple[Item, ...]:
    """Terms of a short text without blanks: a conversation says the same names again and again."""
    return tuple(_terms_of(token))


def _put(out: dict[str, Item], kind: str, text: str) -> None:
    key = normal(text)
    if key and key not in out:
        out[key] = Item(kind, text, key)


# ----------------------------------------------------------------------------------------------------- beyond a sentence
def without_syntax(text: str) -> str:
    """``text`` without the calls and the fenced code in it."""
    return _SYNTAX.sub("\n", bounded(text))


def phrases(text: str) -> dict[str, Item]:
    """Written-out dates, numbers with a unit behind a blank, and short quotations."""
    out: dict[str, Item] = {}
    text = bounded(text)
    for match in _LONG_DATE.finditer(text):
        _put(out, DATE, match[0])
    for match in _UNIT_AFTER.finditer(text):
        _put(out, NUMBER, match[0])
    # Quotation marks inside the arguments of a call and inside code are syntax.
    for match in _QUOTED.finditer(without_syntax(text)):
        quoted = next(group for group in match.groups() if group)
        if quoted.strip() and "{" not in quoted:
            _put(out, QUOTE, quoted.strip())
    return out


def sentences(text: str) -> Iterator[str]:
    """The sentences and list items of ``text``, list marks and outer blanks removed; what is quoted in a line is not divided."""
    pause()
    for part in _divided(bounded(text)):
        bare = part.strip()
        mark = _LIST_MARK.match(bare)
        if bare:
            yield bare[mark.end() :] if mark else bare


def _divided(text: str) -> Iterator[str]:
    """Text between the ends of sentences, but for those within a quotation."""
    quoted = _QUOTATION.finditer(text)
    quotation = next(quoted, None) if _QUOTES.search(text) else None
    at = 0
    for end in _SENTENCE_END.finditer(text):
        while quotation is not None and quotation.end() <= end.start():
            quotation = next(quoted, None)
        if quotation is None or quotation.start() >= end.start():
            yield text[at : end.start()]
            at = end.end()
    yield text[at:]


def _may_match(head: str, cues: frozenset[str]) -> bool:
    """Could one of the cue words be in it? Much cheaper than the pattern; other scripts have no words to look up."""
    return not head.isascii() or not cues.isdisjoint(head.lower().translate(_PUNCTUATION).split())


def is_directive(sentence: str) -> bool:
    """Does the sentence tell somebody what to do or not to do?"""
    head = sentence[:_MAX_SENTENCE_CHARS]
    first = head[:24].split(None, 1)
    if first and first[0].strip(",:;.!").lower() in VERBS:
        return True
    return _may_match(head, _DIRECTIVE_CUES) and _DIRECTIVE.search(head) is not None


def is_standing(sentence: str) -> bool:
    """Does a directive hold beyond the task at hand: a prohibition, a rule, a preference?"""
    return _STANDING.search(sentence[:_MAX_SENTENCE_CHARS]) is not None


def is_question(sentence: str) -> bool:
    """Does the sentence ask, or speak of its speaker, and so rule nothing?"""
    return _QUESTION.search(sentence[:_MAX_SENTENCE_CHARS]) is not None


def is_prose(sentence: str) -> bool:
    """Is the sentence made of words rather than of code, figures or signs?"""
    return sum(c.isalpha() or c == " " for c in sentence) >= 0.7 * len(sentence)


def orders_elsewhere(word: str) -> bool:
    """Is a word an order in one of six languages beside English?"""
    plain = normalize("NFC", normalize("NFD", word.lower()).replace("\u0301", ""))
    return plain in _ORDERS or _HANGS_ON.sub("", plain) in _ORDERS


def is_acknowledgement(text: str) -> bool:
    """Does a message only agree, thank or send the other one on, so that it asks for nothing of its own?"""
    head = text[:200].lower()
    words = [word for word in re.findall(r"\w+", head) if word not in _ACKS]
    if len(words) >= 2 and not all(map(_CJK.search, words)):
        return False
    if words and " do " in f" {head}" and _DO.match(head):
        return False
    if any(map(orders_elsewhere, words)):
        return False
    return VERBS.isdisjoint(words) and len(_CJK.findall(_CJK_ACKS.sub("", head))) < 2


def is_open(sentence: str) -> bool:
    """Does the sentence name unfinished work?"""
    if len(sentence) > _MAX_SENTENCE_CHARS or not _may_match(sentence, _OPEN_CUES):
        return False
    return _OPEN.search(sentence) is not None


def _shown(sentence: str) -> str:
    return sentence if len(sentence) <= _MAX_SENTENCE_CHARS else sentence[:_MAX_SENTENCE_CHARS] + "…"


def last_open(among: Iterable[str], limit: int) -> tuple[str, ...]:
    """Up to ``limit`` of the last sentences that name unfinished work."""
    found = [sentence for sentence in among if is_open(sentence)]
    return tuple(dict.fromkeys(found[-limit:])) if limit else ()


def _telling(text: str) -> list[tuple[int, str]]:
    text = bounded(text)
    # Most texts hold two or three of the cues: looking for these alone is three times as quick as a pattern of all.
    cues = [cue for cue in _TELLING_CUES if cue in text]
    if not cues:
        return []
    return [(n, line) for n, line in enumerate(text.splitlines()) if any(cue in line[:2000] for cue in cues)]


def _thinned(found: list[tuple[int, str]], limit: int) -> tuple[tuple[int, str], ...]:
    if len(found) <= limit:
        return tuple(found)
    step = len(found) / limit
    return tuple(found[int(n * step)] for n in range(limit))


def telling_lines(text: str, *, limit: int) -> tuple[tuple[int, str], ...]:
    """Up to ``limit`` numbered lines of a tool result that speak of errors or outcomes; thinned out evenly."""
    return _thinned(_telling(text), limit)


# ---------------------------------------------------------------------------------------------------- whole chunks
class Reading:
    """Reading of one line of a source, done once."""

    def __init__(self, line: SourceLine) -> None:
        self.line = line

    @cached_property
    def sentences(self) -> tuple[tuple[str, bool], ...]:
        """The sentences, and whether each gives an instruction."""
        return tuple((sentence, is_directive(sentence)) for sentence in sentences(self.line.text))

    @cached_property
    def _found(self) -> list[tuple[int, str]]:
        return _telling(self.line.text)

    def directives(self, limit: int) -> tuple[str, ...]:
        """Up to ``limit`` sentences that give an instruction, verbatim, the longest ones shortened at their end."""
        found = (_shown(sentence) for sentence, directive in self.sentences if directive and len(sentence) > 3)
        return tuple(dict.fromkeys(found))[:limit]

    def open_points(self, limit: int) -> tuple[str, ...]:
        """Up to ``limit`` of the last sentences that name unfinished work."""
        return last_open((sentence for sentence, _ in self.sentences), limit)

    def telling_lines(self, limit: int) -> tuple[tuple[int, str], ...]:
        """Up to ``limit`` numbered lines of a tool result that speak of errors or outcomes; thinned out evenly."""
        return _thinned(self._found, limit)

    def items(self) -> dict[str, Item]:
        """Items worth keeping, by key."""
        pause()
        line = self.line
        if line.role == "tool":
            return self._told()
        out = terms(line.text) | phrases(line.text)
        if line.role == "user":
            for sentence in self.directives(24):
                _put(out, DIRECTIVE, sentence)
            for sentence in self.open_points(8):
                _put(out, OPEN, sentence)
        elif line.role == "assistant":
            for sentence in last_open(sentences(line.text), 8):
                _put(out, OPEN, sentence)
        return out

    def _told(self) -> dict[str, Item]:
        """Words of a tool result on its own: everything when it is short, else its telling lines and end."""
        text = self.line.text
        if len(text) <= SMALL_RESULT_CHARS:
            return terms(text)
        kept = [stretch(told, 0, 300) for _, told in self.telling_lines(_MAX_TELLING_LINES)]
        return terms("\n".join([*kept, stretch(text, len(text) - 200, len(text))]))


def salient(readings: Iterable[Reading]) -> tuple[Item, ...]:
    """Items that a summary of these lines should keep, most important first.

    People's and models' words count whole. A long tool result counts by its telling lines, and by what occurs in
    somebody's words too: a listing of a thousand files has no thousand facts worth keeping. Names of fields, which stand
    in result after result, come last.
    """
    items: dict[str, Item] = {}
    weight: dict[str, float] = {}
    mentions: Counter[str] = Counter()
    fields: Counter[str] = Counter()
    for reading in readings:
        role = _ROLES.get(reading.line.role, 1.0)
        found = reading.items()
        mentions.update(found.keys())
        fields.update(
            {normal(name) for pair in _FIELD.findall(reading.line.text[:_FIELD_CHARS]) for name in pair if name}
        )
        for key, item in found.items():
            items.setdefault(key, item)
            weight[key] = max(weight.get(key, 0.0), _WEIGHTS[item.kind] * role)
    kept = [
        Item(
            item.kind,
            item.text,
            key,
            _of_field(weight[key] * (1 + min(mentions[key], 8) / 4), fields[key], mentions[key]),
        )
        for key, item in items.items()
        if not _ADDRESS.fullmatch(key)  # ours, not the conversation's
    ]
    return tuple(sorted(kept, key=lambda item: -item.weight))


def _of_field(weight: float, named: int, mentions: int) -> float:
    """Weight of a name that stands before so many of the values, in most of the lines that have it."""
    return weight / _FIELD_LOSS if named >= _FIELD_LINES and 2 * named > mentions else weight


_FIELD = lazy(r"\"(\w{2,40})\"\s{0,2}:|(?:(?<=\] )|(?<=; ))(\w{2,40}): ")
_FIELD_LINES, _FIELD_LOSS, _FIELD_CHARS = 3, 8, 4000
_ADDRESS = lazy(r"(?:msg|sum|part|file)_\d+")
