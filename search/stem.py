"""
Porter's stem of one word, exactly as SQLite's ``porter`` tokenizer computes it.

Pure. Python needs the stems that the index holds: to ask how common a word is, and to find its forms in a text.
"""

from __future__ import annotations

from functools import lru_cache

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
    """How many times a vowel run is followed by a consonant run."""
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
