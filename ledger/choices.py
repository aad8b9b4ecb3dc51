"""
Decisions on one thing: which later one takes the place of an earlier one, or says otherwise.

Pure. Only where the same thing is named in both, or the later one names what was chosen before as gone. A limit of
the choice (a place, a time, a part) belongs to the thing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from ..text.salience import lazy

Relation = Literal["", "replaces", "contradicts"]
_DECIDED, _CHOSE = frozenset(("decided", "agreed", "settled", "opted")), frozenset(("chose", "chosen"))

_REMEMBERED: Final = 2000
_MOST_WORDS: Final = 4  # of what is chosen, and of the thing: more say something else beside it
_WORD: Final = re.compile(r"[\w+#]+(?:[.'’/-][\w+#]+)*")
_FILLERS: Final = frozenset(
    "a an the my our your this that all just only simply now then instead please again back over after".split()
)
_GONE: Final = r"(?:instead of|rather than|in place of) (?P<gone>.+?)"
_THING: Final = r"(?:for|as) (?P<thing>.+?)"
_TAKES: Final = r"(?:(?:to )?(?:use|using|go with|going with|adopt|keep|stick (?:with|to)|choose|pick|take) |on |for |)"
_MOVES: Final = r"(?:to )?(?:switch|switched|move|moved|migrate|migrated|change|changed)"
_CHOSEN: Final = r"(?P<chosen>(?!to )\S.*?)"
#: The forms of a decision, behind "we decided" and the like.
_FORMS: Final = (
    rf"{_MOVES} from (?P<gone>.+?) (?:over )?to {_CHOSEN} {_THING}",
    rf"{_MOVES} (?:(?P<thing>(?:the|our|my) [^,]+?) )?from (?P<gone>.+?) (?:over )?to {_CHOSEN}",
    rf"{_MOVES} (?P<thing>(?:the|our|my) [^,]+?) (?:over |back )?to {_CHOSEN}",
    rf"(?:to )?replaced? (?P<gone>.+?) (?:with|by) {_CHOSEN}(?: {_THING})?",
    rf"(?:to )?(?:switch|move|go|migrate)(?: back| over)? to {_CHOSEN} {_THING}",
    rf"{_TAKES}{_CHOSEN} {_GONE} {_THING}",
    rf"{_TAKES}{_CHOSEN} {_THING} {_GONE}",
    rf"{_TAKES}{_CHOSEN} {_THING}",
    rf"{_TAKES}{_CHOSEN} {_GONE}",
)
_ENGLISH: Final = lazy(r"(?:us(?:e|ing)|go|switch|stick|take|choose|pick|migrate)", re.IGNORECASE)
#: Forms that only tell what a decision is about, and what was decided of it: in other languages, and of work.
_ABOUT: Final = (
    *_FORMS,
    (
        r"(?:to )?(?:host|deploy|run|store|keep|save|build|write|implement|test|style|manage|"
        r"publish) (?P<thing>(?:the |our |my )?[\w-]+"
        r"(?: [\w-]+)?) (?:on|in|with|to|using|via) (?P<chosen>(?-i:(?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)[A-Z])[\w.+#-]*"
        r"(?: [A-Z\d][\w.+#-]*){0,2})"
    ),
    (
        r"(?:to )?(?:set|limit|raise|lower|increase|reduce|cap|change) (?P<thing>(?:the |our |my )?[\w-]+(?: [\w-]+)?) "
        r"(?:to|by|at) (?P<chosen>\S*\d\S*(?: \w+)?)"
    ),
    (
        r"(?:usar |utilizar |nehmen |use )?(?P<chosen>[\w.+#/-]+(?: [\w.+#/-]+){0,3}?) (?:als|für|como|para|comme|"
        r"pour|come|per|для|как|в качестве) "
        r"(?:l['’])?(?P<thing>\w[^,;]*)"
    ),
    r"(?:使用|采用|选择|用)? ?(?P<chosen>[A-Za-z][\w.+#/ -]*?) ?(?:作为|做|当)(?P<thing>[\u4e00-\u9fff]{2,8})",
    r"(?P<thing>[^、。\s]{2,12}?)(?:には?|として)(?P<chosen>[A-Za-z][\w.+#/ -]*)",
    r"(?P<thing>[가-힣 ]{1,12}?)(?:로|에는?) (?P<chosen>[A-Za-z][\w.+#/ -]*)",
)
_ABOUTS: Final = tuple(lazy(rf"^(?:{each})(?:,? instead| now| after all)?[.!]?$", re.IGNORECASE) for each in _ABOUT)
_WHOSE: Final = lazy(
    r"^(?:the|our|my|an?|all|der|die|das|den|dem|unsere?[nrm]?|meine?[nrm]?|el|las?|los|nuestr[oa]s?|les?|notre|"
    r"nos|il|lo|i|gli|o|os|as?|"
    r"noss[oa]s?) ",
    re.IGNORECASE,
)
_POINTS: Final = lazy(
    r"(?:this|that|these|those|it|each|any|every|such|one|now|rest|sake|moment|diese[rsnm]?|es[aeo]s?|est[aeo]s?|ce|ces|cette|"
    r"quest\w+)\b|(?:.* )?(?:minutes?|hours?|days?|nights?|weeks?|months?|years?|while)$",
    re.IGNORECASE,
)
_CHOICES: Final = tuple(lazy(rf"^{each}(?:,? instead| now| after all)?[.!]?$", re.IGNORECASE) for each in _FORMS)
#: What a pronoun stands for, nobody knows: two of them may be two things.
_PRONOUNS: Final = frozenset("it them these those me us you him her one ones both here there".split())
_ONE_MORE: Final = lazy(r"an? ", re.IGNORECASE)
#: Among what is chosen: it is so somewhere, or at times.
_LIMITS: Final = frozenset("for as in on at when if until during while only where from with".split())
#: For which one chooses again each time.
_COMES_AGAIN: Final = frozenset(
    "breakfast lunch dinner supper snack dessert weekend evening morning night week trip party birthday meeting".split()
)
#: Somebody chooses one of many such things: a gift for one's mother, and a card for her.
_ONE_OF_MANY: Final = lazy(r"^(?:to )?(?:choose|pick|take)\b", re.IGNORECASE)
#: It was otherwise before.
_OTHERWISE: Final = lazy(
    r"\b(?:instead|switch(?:ed)?|mov(?:e|ed)|migrat(?:e|ed)|chang(?:e|ed)|replac(?:e|ed)|after all)\b|\bback to\b|\bnow\W*$",
    re.IGNORECASE,
)
#: What is chosen beside what there is, for a while, or not at all.
_BESIDE: Final = lazy(
    r"\b(?:also|too|as well|both|additionally|alongside|in addition|besides|either|or|not|never|n['’]t|against|for now|"
    r"temporarily|this time|today|tonight|for the moment|maybe|perhaps|another|second|one more)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Parts of a decision in plain words: the choice, the thing it is for, the choice that is gone; does it speak of a change?"""

    chosen: frozenset[str]
    thing: frozenset[str]
    gone: frozenset[str]
    changes: bool
    firm: bool  # there is one such choice for the thing
    one_more: bool  # of such things there may be several: "a tester"


def told(verb: str, clause: str, text: str) -> str:
    """Words of a decision, with its verb."""
    verb = verb.lower()
    if verb not in _DECIDED | _CHOSE:
        return f"{verb} {clause}" if _ENGLISH.match(verb) else clause
    if text[: max(0, text.find(clause))].rstrip().endswith(" to"):
        return f"to {clause}"
    return f"choose {clause}" if verb in _CHOSE else clause


def relation(later: str, earlier: str) -> Relation:
    """Relation of a later decision to an earlier one; each with its verb."""
    new, old = _choice(later), _choice(earlier)
    if new is None or old is None or new.chosen & old.chosen:
        return ""
    if new.thing and old.thing and (new.thing, new.one_more) != (old.thing, old.one_more):
        return ""
    if new.gone and new.gone == old.chosen:
        return "replaces"
    if not (new.thing and old.thing) or new.gone:
        return ""
    return "replaces" if new.changes else "contradicts" if new.firm and old.firm else ""


@lru_cache(maxsize=_REMEMBERED)
def about(decision: str) -> tuple[str, str] | None:
    """Thing that a decision is about, and the choice made for it; None where no form tells."""
    if _BESIDE.search(decision):
        return None
    for pattern in _ABOUTS:
        if (found := pattern.match(decision.strip())) and (parts := found.groupdict()).get("thing"):
            thing, chosen = _WHOSE.sub("", parts["thing"]), parts["chosen"]
            words = _plain(thing), _plain(chosen)
            short = all(0 < len(each) <= _MOST_WORDS and not each & _LIMITS for each in words)
            if not short or _POINTS.match(thing) or " to " in chosen or any(each <= _PRONOUNS for each in words):
                return None
            return thing, chosen
    return None


@lru_cache(maxsize=_REMEMBERED)
def _choice(decision: str) -> Choice | None:
    """Choice that a decision makes; None where its words fit no known form."""
    if _BESIDE.search(decision):
        return None
    for pattern in _CHOICES:
        if found := pattern.match(decision.strip()):
            parts = found.groupdict()
            chosen, thing, gone = (_plain(parts.get(name) or "") for name in ("chosen", "thing", "gone"))
            if not 0 < len(chosen) <= _MOST_WORDS or len(thing) > _MOST_WORDS or not (thing or gone):
                return None
            if chosen & _LIMITS or thing & _COMES_AGAIN:
                return None
            one_more = _ONE_MORE.match(parts.get("thing") or "") is not None
            changes, firm = _OTHERWISE.search(decision) is not None, not (one_more or _ONE_OF_MANY.match(decision))
            return Choice(chosen, thing - _PRONOUNS, gone, changes, firm, one_more)
    return None


def _plain(words: str) -> frozenset[str]:
    return frozenset(word.lower().removesuffix("'s") for word in _WORD.findall(words)) - _FILLERS
