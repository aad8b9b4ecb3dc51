"""
Facts that a message states, found by rule: rules, decisions, names, values and dates.

Pure. A fact is a quotation, with the words in it that name its subject and its value; nothing is put into other words. What only
might be one is none: a ledger is worth as much as its worst line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ..text import markers, salience
from ..text.salience import MONTHS, lazy
from ..text.statements import QUOTED, is_order, lifts, own_words
from . import languages

RULE, DECISION, NAME, VALUE, DATE = "rule", "decision", "name", "value", "date"
_READ_CHARS: Final = 6000
_OF_A_MESSAGE: Final = 12
_SENTENCE_CHARS: Final = 900
_RULE_CHARS: Final = 300
_BEFORE, _QUOTE_CHARS = 90, 240  # of a long sentence, around what was found
_DAY: Final = (
    rf"(?P<value>{MONTHS}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?|"
    rf"\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {MONTHS}\b(?:,? \d{{4}})?|\d{{4}}-\d\d-\d\d)"
)
_UNITS: Final = (
    "percent|ms|seconds?|minutes?|hours?|days?|weeks?|months?|years?|words?|pages?|km|kg|miles?|[KMG]B|"
    "dollars?|euros?|[AP]M"
)
_AMOUNT: Final = (
    r"(?P<value>https?://[^\s)\]>`\"',]+|[\w.+-]+@[\w-]+(?:\.\w+)+|[$€£]\d[\d,]*(?:\.\d+)?[kKM]?\b|#[0-9a-fA-F]{6}\b|"
    rf"v?\d+(?:\.\d+){{1,3}}%?|\d[\d,]*(?:%|[ -](?:{_UNITS})\b)<more>)(?![\w/-])(?!\.\d)"
)
_MEASURE: Final = _AMOUNT.replace("<more>", "")
#: Of what is one's own, or named as a setting, a bare number says enough.
_NUMBER: Final = _AMOUNT.replace("<more>", r"|\d[\d,]*(?=[,.;)!]|$| (?:and|but|from|so)\b)")
#: What something is called: whose it is, and up to four words that are no clause of their own.
_WORD: Final = (
    r"(?!(?:i|we|you|he|she|they|it|that|which|who|is|was|are|were|be|being|been|have|has|had|and|or|but|if|when|while|one|so)\b)"
    r"[\w'’/-]+"
)
_OWN: Final = rf"(?:my|our) (?:{_WORD} ){{0,3}}{_WORD}"
_SUBJECT: Final = rf"\b(?P<subject>{_OWN}|the (?:{_WORD} ){{0,3}}{_WORD})"
_SETTING: Final = rf"\b(?P<subject>{_OWN}|the (?:{_WORD} ){{0,2}}(?:port|limit|timeout|threshold|size|count))"
_PROPER: Final = r"(?P<value>(?-i:[A-Z][a-zà-ÿ-]+(?: [A-Z][a-zà-ÿ-]+){0,2}))"
_RELATION: Final = (
    "(?:(?:best|close|old|older|elder|younger|little|big|twin) )?(?:wife|husband|partner|boyfriend|girlfriend|fianc[ée]e?|son|"
    "daughter|sister|brother|mother|father|mom|mum|dad|aunt|uncle|cousin|niece|nephew|grandmother|grandfather|grandma|grandpa|"
    "friend|boss|manager|colleague|coworker|mentor|roommate|neighbou?r|teacher|doctor|dog|cat|kitten|puppy)"
)
_EVENT: Final = (
    "deadline|meeting|appointment|interview|launch|release|workshop|webinar|presentation|birthday|anniversary|wedding|exam|trip|"
    "flight|call|demo|sprint|party|session|conference|festival|match|game|concert|surgery|follow-up|delivery|event|hearing|move"
)
_IS: Final = "(?:is|are|will be|must be|=|costs?)(?: now| set to| exactly)?"
_NAMES: Final = (
    lazy(rf"\b(?P<subject>my (?:full |first |last )?name)(?: is|['’]s)[: ]+{_PROPER}", re.IGNORECASE),
    lazy(
        rf"\b(?P<subject>(?:my|our) {_RELATION})(?: is (?:named|called)|['’]s name is| named| called|,)? {_PROPER}",
        re.IGNORECASE,
    ),
)
_DATES: Final = (
    lazy(
        rf"{_SUBJECT} (?:is|are|was|were|will be|has been|got|starts?|ends?|begins?) (?:now )?"
        rf"(?:due|scheduled|set|moved|planned|booked|rescheduled|postponed)? ?(?:on|for|by|to|until)? ?{_DAY}",
        re.IGNORECASE,
    ),
    lazy(
        rf"\b(?P<subject>(?:my|our|the|an?) (?:{_WORD} ){{0,3}}(?:{_EVENT}))(?: with [A-Z]\w+)? (?:on|for|of) {_DAY}",
        re.IGNORECASE,
    ),
)
_VALUES: Final = (
    lazy(rf"{_SUBJECT} {_IS} {_MEASURE}", re.IGNORECASE),
    lazy(rf"{_SETTING} {_IS} {_NUMBER}", re.IGNORECASE),
    lazy(
        r"\b(?:set|changed?|raised?|increased?|lower(?:ed)?|reduced?|limit(?:ed)?|updated?|extend(?:ed)?|bump(?:ed)?) "
        rf"{_SUBJECT} (?:from \S+(?: \w+)? )?to {_NUMBER}",
        re.IGNORECASE,
    ),
    lazy(
        r"\b(?:an?|my|our|the) "
        r"(?P<subject>(?:[\w-]+ )?(?:budget|limit|salary|goal|target|timeout|price|deposit|rent|fee|word count))"
        rf" of {_NUMBER}",
        re.IGNORECASE,
    ),
    lazy(
        r"\b(?:[Uu]s(?:e|ing)|[Ww]ith|[Oo]n|[Rr]unning|[Uu]pgrad(?:e|ed|ing) to|[Ii]nstall(?:ed|ing)?|and|,) "
        r"(?P<subject>[A-Z][A-Za-z.+#-]*[A-Za-z](?: [A-Z][A-Za-z.+#-]*[A-Za-z])?) (?P<value>v?\d+\.\d+(?:\.\d+)*)(?![\w%-])"
    ),
    lazy(r"\b(?:on|to|uses?|using|at) (?:the )?(?P<subject>port) (?P<value>\d{2,5})\b", re.IGNORECASE),
)
_ENDS: Final = r"(?=[.;!?]|$|,? (?:and|but|so|because) (?:i|we|can|could|it)\b|,? (?:please|thanks)\b)"
_DECISIONS: Final = (
    lazy(
        r"\b(?:i|we)(?:['’]ve| have)? (?:just |now |finally |also )?(?P<subject>decided|chose|chosen|opted|agreed|settled) "
        rf"(?:to|on|for) (?P<value>[^.;!?]{{4,160}}?){_ENDS}",
        re.IGNORECASE,
    ),
    lazy(
        r"^(?:(?:ok(?:ay)?|yes|so|then|alright|perfect|great),? )*(?:let['’]?s|(?:we|i)(?:['’]ll| will)) "
        rf"(?P<subject>use|go with|switch to|stick with|stick to|take|choose|pick) (?P<value>[^.;!?]{{2,160}}?){_ENDS}",
        re.IGNORECASE,
    ),
)
_STATED: Final = (
    (NAME, (*_NAMES, *languages.NAMES)),
    (DATE, (*_DATES, *languages.DATES)),
    (VALUE, (*_VALUES, *languages.VALUES)),
    (DECISION, (*_DECISIONS, *languages.DECISIONS)),
)
_MORE_VERBS: Final = (
    "provide|highlight|maintain|tailor|respond|answer|cite|quote|prefer|assume|commit|speak|address|mention|trust"
)
_LEAD: Final = r"^(?:(?:and|but|also|so|ok(?:ay)?|no|yes|please|note|important|remember|again)[,:]? )*"
_RULES: Final = (
    lazy(rf"{_LEAD}(?:always|never) (?:{'|'.join(sorted(salience.VERBS))}|{_MORE_VERBS})\b(?! up\b)", re.IGNORECASE),
    lazy(
        rf"{_LEAD}(?:do not|don['’]?t|you (?:must|should) (?:always|never|not|only)) "
        r"(?!worry|hesitate|forget|give|quit|let|be |know|think|get |feel|miss|sweat|mind|see|have|want|need|"
        r"stress|ever|believe|you|really|remember|like|care|understand)[a-z]+",
        re.IGNORECASE,
    ),
    lazy(
        r"^(?!.*\bi(?:['’]ll| will)\b).*\b(?:from now on|going forward|in (?:the )?future, (?:please|always|never|do|don)|"
        r"when(?:ever)? i ask|by default,? (?:use|do|don|please)|(?:each|every) time you|every time i ask)",
        re.IGNORECASE,
    ),
    lazy(rf"{_LEAD}(?:only use|use only|prefer|avoid using|stick to|please (?:always|never|only|avoid))\b", re.IGNORECASE),
    lazy(r"\bi(?:['’]d| would)?(?: always| strongly| generally)? prefer (?!to (?:see|know|hear))", re.IGNORECASE),
    lazy(
        r"^(?:请|你|记住[,，]?)?(?:不要(?!紧|了)|别再|必须(?!说|承认|是)|务必|始终(?!没)|总是(?=用|使用|先|在|要|按|保持|写|把)|禁止|以后都|今后都)|"
        r"^(?:从现在起|从今以后|今后|以后)(?:都|请|要|用|一律|不要|必须|只)"
    ),
)  # fmt: skip
_SUPPOSED: Final = lazy(
    r"^(?:is|are|was|were|do|does|did|can|could|would|should|if|what|when|which|imagine|suppose|pretend|translate|"
    r"wenn|falls|angenommen|übersetze|si|supón|imagina|traduce)\b|^(?:如果|假如|假设|翻译)",
    re.IGNORECASE,
)
_IF: Final = lazy(
    r"\b(?:if|suppose|instead of|where|say|wenn|falls|statt|si)(?: \w+){0,2} ?$|如果\w{0,6}$", re.IGNORECASE
)
#: In front of a fact: somebody else's words, or none that are meant.
_REPORTED: Final = lazy(
    r"(?<!i )(?<!i already )(?<!we )\b(?:says?|said|tells?|told|wrote|writes?|reads|claims?|states)\b|"
    r"\b(?:pretend|imagine|translate|(?:for|in (?:the|this|that|an?)) example|(?:the|this|a) (?:tutorial|documentation)|"
    r"zum beispiel|z\. ?b\.|sagte?|schreibt|schrieb|por ejemplo|dice (?:que|:)|dijo)(?!\w)|"
    r"\bin (?:the|this|my|a) (?:story|novel|game|book)\b|例如|比如|教程|说[：:，,]?",
    re.IGNORECASE,
)
_CHANGED: Final = lazy(
    r"\b(?:now|instead|changed?|moved|rescheduled|postponed|extended|raised|increased|lowered|reduced|actually|updated?|new|"
    r"no longer|rather|correction|switched|"
    r"jetzt|nun|stattdessen|geändert|verschoben|erhöht|gesenkt|nicht mehr|ahora|cambiad\w+|cambió|aplazad\w+|ya no)\b|"
    r"现在|改为|改成|改到|推迟|不再",
    re.IGNORECASE,
)
#: Of whom one has one; somebody may have several friends.
_ONLY_ONE: Final = lazy(
    r"(?:name|wife|husband|partner|mother|father|mom|mum|dad|boss|manager|heiße|frau|mann|mutter|vater|llamo|nombre|esposa|marido|"
    r"madre|padre|叫|名字)$",
    re.IGNORECASE,
)
_SOME: Final = lazy(r"^an? ", re.IGNORECASE)
_OWNER: Final = lazy(
    r"^(?:(?:my|our|the|der|die|das|meine?|unsere?|el|la|los|mi|nuestr[oa]) |我们的|我们|我的|我|它的)", re.IGNORECASE
)
_OWN_ONES: Final = lazy(r"(?:(?:my|ich|meine?|mi|me)\b|我(?!们))", re.IGNORECASE)
_CALLED: Final = {"ich heiße": "name", "me llamo": "name", "nombre": "name", "叫": "name", "名字": "name"}


@dataclass(frozen=True, slots=True)
class Fact:
    """``text``: the quotation. ``subject`` and ``value``: words of it; a rule has no subject, and is its value."""

    kind: str
    subject: str
    value: str
    text: str

    @property
    def key(self) -> tuple[str, str] | None:
        """Key that facts about the same thing share; None where only the words could tell."""
        one = _ONLY_ONE.search(self.subject) if self.kind == NAME else self.kind in (VALUE, DATE)
        vague = _SOME.match(self.subject)
        subject = salience.normal(_OWNER.sub("", self.subject))
        return (self.kind, _CALLED.get(subject, subject)) if one and not vague else None

    @property
    def own(self) -> bool:
        """Is the fact about its speaker alone?"""
        return _OWN_ONES.match(self.subject) is not None

    @property
    def changes(self) -> bool:
        """Does it say of itself that something was otherwise before?"""
        return _CHANGED.search(self.text) is not None


def stated(text: str) -> tuple[Fact, ...]:
    """The facts of what a user typed, in order."""
    if markers.host_block(text):
        return ()
    said = own_words(markers.by_speaker(markers.typed(text), named=False)[:_READ_CHARS])
    return tuple(islice(_found(said), _OF_A_MESSAGE))


def _found(said: str) -> Iterator[Fact]:
    for sentence in salience.sentences(said):
        if len(sentence) <= _SENTENCE_CHARS and _is_told(sentence):
            found = {fact.value: fact for fact in _stated(sentence)}
            yield from found.values()
            if not found and _is_rule(sentence):
                yield Fact(RULE, "", sentence, sentence)


def _is_told(sentence: str) -> bool:
    """Is it made of words? Signs that are words by themselves count twice."""
    return sum((c.isalpha() or c == " ") + ("\u4e00" <= c <= "\u9fff") for c in sentence) >= 0.5 * len(sentence)


def _stated(sentence: str) -> Iterator[Fact]:
    asks, supposed = salience.is_question(sentence), _SUPPOSED.match(sentence)
    for kind, patterns in _STATED:
        if not supposed and not (asks and kind == DECISION):
            for match in (match for pattern in patterns for match in pattern.finditer(sentence)):
                if not _is_supposed(sentence, match.start()):
                    yield Fact(kind, match["subject"].strip(), match["value"].strip(), _quote(sentence, match))


def _is_supposed(sentence: str, at: int) -> bool:
    """Does what stands before a place make what follows a condition, an example or somebody else's words?"""
    if _IF.search(sentence, max(0, at - 40), at) or _REPORTED.search(sentence, max(0, at - 80), at):
        return True
    return any(quoted.start() < at < quoted.end() for quoted in QUOTED.finditer(sentence))


def _is_rule(sentence: str) -> bool:
    """Does it tell the agent how to work from now on?"""
    if (
        len(sentence) > _RULE_CHARS
        or sentence[-1] in "!:！："
        or salience.is_question(sentence)
        or not salience.is_prose(sentence)
    ):
        return False
    return is_order(sentence) or lifts(sentence) or any(pattern.search(sentence) for pattern in _RULES)


def _quote(sentence: str, match: re.Match[str]) -> str:
    """The sentence; of a long one the stretch with what was found in it, at whole words."""
    if len(sentence) <= _QUOTE_CHARS:
        return sentence
    start = sentence.rfind(" ", 0, max(0, match.start() - _BEFORE)) + 1
    stop = sentence.find(" ", max(match.end(), start + _QUOTE_CHARS))
    return sentence[start : stop if stop > 0 else len(sentence)]
