"""
Stems and forms of a word: Porter's stem as SQLite's ``porter`` makes it, and forms in languages that it does not know.

Pure. Stems tell how common a word of the index is, and find its forms in a text. Forms are made, not looked up: the word's root
with every ending (and beginning) of its language, as the index writes them. So no vocabulary is read, no index is made anew, and
nothing depends on what others have said. The endings are a small table of our own; what they bring too much is told apart by the
ranking, which reads the texts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations, islice
from typing import Final

_STEP2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "logi": "log", "bli": "ble",
    "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate",
    "alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
}  # fmt: skip
_STEP3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion", "al",
    "er", "ic", "ou",
)  # fmt: skip


def _cons(word: str, at: int) -> bool:
    letter = word[at]
    if letter in "aeiou":
        return False
    return letter != "y" or at == 0 or not _cons(word, at - 1)


def _measure(word: str) -> int:
    """Number of vowel runs that a consonant run follows."""
    count, previous = 0, True
    for at in range(len(word)):
        now = _cons(word, at)
        count += now and not previous
        previous = now
    return count


def _has_vowel(word: str) -> bool:
    return any(not _cons(word, at) for at in range(len(word)))


def _short_end(word: str) -> bool:
    """Consonant, vowel, consonant other than w, x, y."""
    return (
        len(word) >= 3
        and _cons(word, len(word) - 1)
        and word[-1] not in "wxy"
        and not _cons(word, len(word) - 2)
        and _cons(word, len(word) - 3)
    )


def _replace_suffix(word: str, table: dict[str, str]) -> str:
    for suffix in sorted(table, key=len, reverse=True):
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            return base + table[suffix] if _measure(base) > 0 else word
    return word


def _step1(word: str) -> str:
    if (len(word) > 4 and word.endswith("sses")) or (len(word) > 3 and word.endswith("ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if len(word) > 3 and word.endswith("eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        for suffix in ("ed", "ing"):
            base = word[: -len(suffix)]
            if word.endswith(suffix) and _has_vowel(base):
                word = _mend(base)
                break
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    return word


def _mend(word: str) -> str:
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if len(word) > 1 and word[-1] == word[-2] and word[-1] not in "aeioulsz":
        return word[:-1]
    if _measure(word) == 1 and _short_end(word):
        return word + "e"
    return word


def _step4(word: str) -> str:
    for suffix in _STEP4:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            if _measure(base) > 1 and (suffix != "ion" or base.endswith(("s", "t"))):
                return base
            return word
    return word


def _step5(word: str) -> str:
    if word.endswith("e"):
        base = word[:-1]
        measure = _measure(base)
        if measure > 1 or (measure == 1 and not _short_end(base)):
            word = base
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word


@lru_cache(maxsize=8000)
def stem(token: str) -> str:
    """Porter's stem of a lower-case token, as SQLite computes it (tokens of 3 to 64 bytes, others as they are)."""
    if len(token) < 3 or len(token.encode("utf-8", "replace")) > 64:
        return token
    word = _step1(token)
    word = _replace_suffix(word, _STEP2)
    word = _replace_suffix(word, _STEP3)
    return _step5(_step4(word))


_LEAST_ROOT: Final = 4  # letters; of three only before an ending of one or two
_MOST_LETTERS: Final = 24  # longer words are names, or glued together
_WORD: Final = re.compile(r"[^\W\d_]+")
_FINAL: Final = str.maketrans("םןץףך", "מנצפכ")  # Hebrew letters at the end of a word
_FINALS: Final = str.maketrans("מנצפכ", "םןץףך")


@dataclass(frozen=True, slots=True)
class _Language:
    """``common``: words that say nothing of the matter; ``letters``: what no other language here writes; ``spellings``: a letter
    and what is written for it; ``initials``: letters of which each is written for the others where a root begins."""

    common: frozenset[str]
    endings: tuple[str, ...]
    beginnings: tuple[str, ...] = ("",)
    letters: str = ""
    least: int = _LEAST_ROOT
    spellings: tuple[tuple[str, str], ...] = ()
    initials: str = ""


def _longest(text: str) -> tuple[str, ...]:
    return tuple(sorted(set(text.split()), key=lambda each: (-len(each), each)))


_LANGUAGES: Final = {
    "de": _Language(
        frozenset(
            """aber alle als am an auch auf aus bei beim bin bis bist da damit dann das dass dein deine dem den der des
            dich die dies diese diesem diesen dieser dieses dir doch du durch ein eine einem einen einer eines er es
            etwas euch euer für gab gegen geht gibt habe haben habt hast hat hatte hatten hattest hier ich ihm ihn ihr
            ihre im in ins ist ja kann kein keine können man mein meine meinem meinen meiner mich mir mit nach nicht
            noch nun nur ob oder ohne sein seine sich sie sind so über um und uns unser unsere unseren unserem unserer
            vom von vor wann war waren warum was welche welchem welchen welcher welches wem wen wenn wer werden wie
            wieder wir wird wo wohin woher worden wurde wurden zu zum zur""".split()
        ),
        _longest("e en er ern es em s n st t et ten te est tet end ende enden ung ungen lich liche lichen"),
        ("", "ge"),
        "äöüß",
        spellings=(("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("ß", "ss")),
    ),
    "fr": _Language(
        frozenset(
            """ai as au aux avec avait avons avez ce ces cet cette combien comme comment dans de des donc du elle elles
            en est et était eu eux fut il ils je la le les leur leurs lui ma mais me mes moi mon ne nos notre nous on
            ont ou où par pas plus pour pourquoi qu quand que quel quelle quelles quels qui quoi sa sans se ses si son
            sont sur ta te tes toi ton tu un une vos votre vous""".split()
        ),
        _longest(
            "e es s x ee ees er ez ent ons ait aient ais ant ante ants antes era erait eront a ai al aux ale ales if ive "
            "ifs ives "
            "eur euse eurs ation ations ement ements i is it ie ies ir irent issent issait u ue us ues re"
        ),
        letters="êëîïœûùÿ",
        spellings=(("œ", "oe"),),
    ),
    "es": _Language(
        frozenset(
            """al como con cual cuál cuáles cuando cuándo cuanto cuánto cuántos cuántas de del donde dónde el ella ellos
            en entre era eran es esa ese eso esta este esto está están fue fueron ha han hay la las le les lo los mi
            mis más muy nos nosotros nuestra nuestro nuestras nuestros para pero por porque qué que quien quién
            quiénes se según ser si sin sobre son su sus también te tenemos tiene tu tus un una unas unos y ya yo
            hemos había hizo""".split()
        ),
        _longest(
            "s es o a os as ar er ir ado ada ados adas ido ida idos idas ando iendo aron ieron aba aban ia ian amos emos "
            "imos aste iste "
            "e an en ara aran are cion ciones acion aciones icion iciones dor dora dores miento mientos mente io ion iones"
        ),
        letters="ñ¿¡",
        spellings=(("z", "c"),),  # lápiz, lápices
    ),
    "pt": _Language(
        frozenset(
            """ao aos à às com como da das de do dos e ela ele eles em entre era eram essa esse esta este está estão eu
            foi foram há isso isto já mais mas meu meus minha minhas na nas no nos nós nossa nosso nossas nossos não o
            os onde ou para pela pelo por porque qual quais quando quanto quantos quantas que quem se sem ser seu
            sobre sua são também tem temos tinha um uma uns você vocês""".split()
        ),
        _longest(
            "s es o a os as ar er ir ado ada ados adas ido ida idos idas ando endo indo aram eram iram ava avam ia iam "
            "amos emos imos ou eu "
            "iu ei e am em ara arao ao oes acao acoes cao coes dor dora dores mento mentos mente is eis"
        ),
        letters="ãõ",
    ),
    "it": _Language(
        frozenset(
            """abbiamo agli ai al alla alle anche avete aveva che chi ci come con cosa cui da dagli dai dal dalla dalle
            degli dei del della delle di dove e ed è era erano gli ha hai hanno ho i il in io la le lei lo loro lui ma
            mi mia mio miei noi non nostra nostro nostri nostre per perché più quale quali quando quanti quante quanto
            quanta quella quello questa questo se sei si sia siamo sono stata stato su sua sul sulla suo tra tu tua
            tuo un una uno voi""".split()
        ),
        _longest(
            "o i a e are ere ire ato ata ati ate uto uta uti ute ito ita iti ite ando endo ava avano eva evano iva ivano "
            "iamo ano ono ai "
            "zione zioni azione azioni tore tori trice mento menti mente io ie hi he isce iscono ero irono arono"
        ),
        letters="ìò",
    ),
    "ru": _Language(
        frozenset(
            """а без был была было были быть в вам вас ваш во вот все вы где да для до его ее её если есть еще ещё же за
            и из или им их к как какая какие какого какое какой каком какую кем когда кого ком кому которая которые
            который кто куда ли мне мы на над нам нас наш наша наше нашего нашей нашем наши нашу не него нет но о об
            он она они от по под после при про с сколько со так там то тот ты у уже чего чем чей что чтобы эта эти это
            этот я""".split()
        ),
        _longest(
            "а я о е и ы у ю ь й ой ей ом ем ам ям ах ях ами ями ов ев ий ия ие ию иям ии ый ая ое ые ого его ему ому ым "
            "ых их ую юю ть л ла ло "
            "ли ет ит ут ют ат ят ешь ишь им ете ите ать ал ала али ало ить ил ила или ило еть ел ела ели ен ена ены ено "
            "ан ана аны ано "
            "ние ния нию нием ка ки ку ке кой ок ться лся лась лись ется ится"
        ),
        letters="абвгдежзийклмнопрстуфхцчшщъыьэюяё",
        least=3,
        spellings=(("ё", "е"),),
    ),
    "ar": _Language(
        frozenset("أي أين إلى التي الذي ان أن او أو عن على في كان كانت كم كيف لا لم لماذا ما ماذا متى مع من منذ نحن هذا "
        "هذه هل هو هي و يا".split()),
        _longest("ة ات ه ها هم ي ى نا ين ون ان ك كم تنا ته تها"),
        ("", "ال", "و", "ب", "ل", "ف", "ك", "وال", "بال", "لل", "كال", "فال", "وب", "ول", "وبال", "ولل"),
        "ابتثجحخدذرزسشصضطظعغفقكلمنهويءآأؤإئةى",
        least=3,
        initials="اأإآ",
    ),
    "he": _Language(
        frozenset("אל אם אני אנחנו את אתה או איך איפה אבל גם היא הוא היה הייתה היו הם זה זאת זו יש כי כמה כל לא לי לנו "
        "לפני למה מה מי מתי מתוך על עם של שלי שלנו איזה איזו אחרי".split()),
        _longest("ים ות י ת ה ו נו ם ן ך ית יה יו יהם"),
        ("", "ה", "ו", "ב", "ל", "מ", "ש", "כ", "וה", "שה", "מה", "וב", "ול", "כש"),
        "אבגדהוזחטיכלמנסעפצקרשתםןץףך",
        least=2,
    ),
}  # fmt: skip

_LATIN: Final = tuple(name for name, of in _LANGUAGES.items() if of.endings[-1].isascii())
ENGLISH: Final = frozenset(
    """a about all an and any are as at be been but by can could did do does for from had has have he her his how i if in
    into is it its me my no not of on or our she so than that the their them then there these they this to up us was
    we were what when where which while who whom whose why will with would you your""".split()
)
#: Letters without the signs that the index leaves out: of Latin script only.
_PLAIN: Final = {
    code: base
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    if len(base := unicodedata.normalize("NFD", chr(code))[0]) == 1 and base != chr(code)
}
_MARKED: Final = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
#: A letter that the index keeps apart, and what is written for it by who leaves accents out or has no such key.
_ALIKE: Final = (
    *((letter, unicodedata.normalize("NFD", letter)[0]) for letter in "άέήίϊΐόύϋΰώёїأإآؤئ"),
    *(
        (one, two)
        for one, two in map(
            str.split, "ى ي|ی ي|ة ه|ک ك|ł l|đ d|ð d|ø o|ı i|æ ae|œ oe|ø oe|å aa|ß ss|đ dj|þ th".split("|")
        )
    ),
)
_DIGITS: Final = tuple(
    {code: chr(zero + n) for n, code in enumerate(range(0x30, 0x3A))} for zero in (0x660, 0x6F0, 0x966)
)
_FOLDED: Final = {
    **_PLAIN,
    **{ord(one): two for one, two in _ALIKE if len(two) == 1},
    **{ord(one): two for one, two in ("ςσ", "йи")},
    **{ord(digit): chr(code) for each in _DIGITS for code, digit in each.items()},
}
_FOLDS: Final = re.compile(f"[{''.join(map(chr, _FOLDED))}]")
_MOST_SPELLINGS: Final = 100
_SIGNS: Final = re.compile(r"^\W+|\W+$")
_GROUPING: Final = ",.'’ \u00a0\u202f"  # between the thousands of a number
_UNGROUPED: Final = re.compile("0|(?:19|20)\\d\\d$")  # a year, or the digits of a number that is no amount


def plain(text: str) -> str:
    """A text without the accents of Latin letters, letter by letter, as the index has it: places stay where they are."""
    return text.translate(_PLAIN) if not text.isascii() and _MARKED.search(text) else text


def folded(text: str) -> str:
    """A text in lower case with one letter for those that are written for each other: places stay where they are."""
    return text.translate(_FOLDED) if not text.isascii() and _FOLDS.search(text) else text


def languages(text: str) -> tuple[str, ...]:
    """The language of a question, by its common words and its letters; none for English and those that are not known here;
    where nothing tells, all that are written in Latin letters."""
    lowered = text.lower()
    said = _WORD.findall(lowered)
    english = sum(word in ENGLISH for word in said)
    scores = {
        name: sum(word in of.common for word in said) + min(2, sum(letter in of.letters for letter in lowered))
        for name, of in _LANGUAGES.items()
    }
    best = max(scores, key=lambda name: scores[name])
    if scores[best] > english:
        return (best,)
    return _LATIN if not english and plain(text).isascii() else ()


def is_common(word: str, of: tuple[str, ...]) -> bool:
    """Does a word say nothing of the matter in the one language that this is?"""
    return len(of) == 1 and word.lower() in _LANGUAGES[of[0]].common


@dataclass(frozen=True, slots=True)
class Forms:
    """A word's roots, as they stand in texts without accents, and its forms: a token of the index to the word that makes it."""

    roots: tuple[str, ...] = ()
    words: tuple[tuple[str, str], ...] = ()


@lru_cache(maxsize=2000)
def spelt(word: str) -> Forms:
    """Other spellings of a word, in any language: αγορά and ΑΓΟΡΑ, Łódź and Lodz, أحمد and احمد, 1234 and ١٢٣٤.

    One or two of its letters are exchanged, each at one place or at all of them. Of an amount, its thousands set apart.
    """
    said = _SIGNS.sub("", unicodedata.normalize("NFC", word.lower()).replace("ς", "σ"))
    if len(said) > _MOST_LETTERS:
        return Forms()
    if said.isdecimal():
        base = said.translate(_FOLDED)
        groups = f"{int(base):,}".split(",") if len(base) > 3 and not _UNGROUPED.match(base) else [base]
        tokens = {each: each for each in (said, base, *map(base.translate, _DIGITS))}
        return Forms(
            (base, *(sign.join(groups) for sign in _GROUPING)), (*tokens.items(), (groups[-1], " ".join(groups)))
        )
    if _WORD.fullmatch(said):
        base = said
        for letter, other in _ALIKE:
            base = base.replace(letter, other)
        sites = [(pair, [at.start() for at in re.finditer(pair[1], base)]) for pair in _ALIKE if pair[1] in base]
        changes = [(pair, at) for pair, places in sites for at in {tuple(places), *((each,) for each in places)}]
        several = [(each,) for each in changes], combinations(changes, 2)
        made = [base, *(_changed(base, each) for each in islice(chain(*several), _MOST_SPELLINGS))]
        tokens = {stem(each): each for each in map(plain, (said, *made))}
        return Forms(tuple(dict.fromkeys(map(folded, made))), tuple(tokens.items()))
    return Forms()


def _changed(word: str, changes: Sequence[tuple[tuple[str, str], tuple[int, ...]]]) -> str:
    """Word after changes: for each, a letter with what it replaces, and the places."""
    out = list(word)
    for (letter, other), places in changes:
        for at in places:
            out[at : at + len(other)] = [letter, *[""] * (len(other) - 1)]
    return "".join(out)


@lru_cache(maxsize=2000)
def forms(word: str, of: str) -> Forms:
    """Other forms of a word; nothing where its language knows none."""
    found = _LANGUAGES.get(of)
    written = _written(unicodedata.normalize("NFC", word.lower()), found) if found is not None else []
    if found is None or not _WORD.fullmatch(written[0]) or not found.least <= len(written[0]) <= _MOST_LETTERS:
        return Forms()
    roots = tuple(dict.fromkeys(_ended(each, found) for lowered in written for each in _begun(lowered, found)))
    if (least := min(roots, key=len))[0] in found.initials:
        roots = tuple(dict.fromkeys((*roots, *(first + least[1:] for first in found.initials))))
    made = {stem(each): each for root in roots for each in _inflected(root, found)}
    return Forms(roots, tuple({**made, **{stem(each): each for each in written}}.items()))


def _written(word: str, of: _Language) -> list[str]:
    """A word without accents, and as it is written where a keyboard lacks a letter: München, Muenchen; зелёный, зеленый."""
    pairs = [(one, two) for pair in of.spellings for one, two in (pair, pair[::-1]) if one in word]
    other = [word.replace(one, two) for one, two in pairs]
    other += [word[: at.start()] + two + word[at.end() :] for one, two in pairs for at in re.finditer(one, word)]
    every = word
    for one, two in pairs:
        every = every.replace(one, two)
    other.append(every)
    return [*dict.fromkeys(map(plain, (word, *other)))]


def _begun(word: str, of: _Language) -> Iterator[str]:
    """A word, and what is left of it without the beginnings of its language."""
    yield word
    for begin in of.beginnings:
        if begin and word.startswith(begin) and len(word) - len(begin) >= max(3, of.least):
            yield word[len(begin) :]


def _ended(word: str, of: _Language) -> str:
    """A word without the longest ending that leaves enough of it."""
    for ending in of.endings:
        least = of.least if len(ending) > 1 else min(of.least, 3)
        if word.endswith(ending) and len(word) - len(ending) >= least:
            return word[: -len(ending)].translate(_FINAL)
    return word.translate(_FINAL)


def _inflected(root: str, of: _Language) -> Iterator[str]:
    """A root with every beginning and ending; one shorter than usual with endings of one letter only."""
    for begin in of.beginnings:
        yield begin + root[:-1] + root[-1].translate(_FINALS)
        yield from (begin + root + ending for ending in of.endings if len(root) >= of.least or len(ending) == 1)
