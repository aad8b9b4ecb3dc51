"""
Facts that a message states: rules, decisions, names, values and dates, found by rule or pointed at by a summariser.

Pure. A fact is a quotation, with the words in it that name its subject and its value; nothing is put into other words. What only
might be one is none: a ledger is worth as much as its worst line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from ..records import StatedFact
from ..text import markers, salience, turns
from ..text.others import own_words
from ..text.salience import MONTHS, lazy
from ..text.secret_kinds import REDACTED
from ..text.statements import QUOTED, may_turn
from . import choices, languages
from .rules import is_rule, may_be_rule

RULE, DECISION, NAME, VALUE, DATE = "rule", "decision", "name", "value", "date"
_READ_CHARS: Final = 6000
_TOLD_CHARS: Final = 40_000  # in which the words of a summariser's fact are looked for
_OF_A_MESSAGE: Final = 12
_MOVED_CHARS: Final = 20_000  # of a message, in which words that moved are looked for
#: Where a quotation may begin; between Chinese or Japanese signs anywhere.
_BEGINS: Final = lazy(r"(?<![^\W\u3040-\u30ff\u3400-\u9fff])\S")
_SENTENCE_CHARS: Final = 900
_BEFORE, _QUOTE_CHARS = 90, 240  # of a long sentence, around what was found
_DAY: Final = (
    rf"(?P<value>{MONTHS}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?|"
    rf"\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {MONTHS}\b(?:,? \d{{4}})?|\d{{4}}-\d\d-\d\d)(?! ?(?:or|to|-|–) ?\d)"
)
_UNITS: Final = (
    "percent|ms|seconds?|minutes?|hours?|days?|weeks?|months?|years?|words?|pages?|km|kg|miles?|[KMG]B|"
    "dollars?|euros?|[AP]M"
)
_AMOUNT: Final = (
    r"(?P<value>https?://[^\s)\]>`\"',]*[^\s)\]>`\"',.;:!?]|[\w.+-]+@[\w-]+(?:\.\w+)+|"
    r"[$€£]\d[\d,]*(?:\.\d+)?[kKM]?\b(?: (?:thousand|million|billion)\b)?|"
    r"#[0-9a-fA-F]{6}\b|"
    rf"v?\d+(?:\.\d+){{1,3}}%?|\d[\d,]*(?:%|[ -](?:{_UNITS})\b)<more>)(?![\w/-])(?!\.\d)"
)
#: Behind an amount: it counts something else than what is named, or only compares.
_OTHERWISE: Final = (
    "(?! (?:thousand|million|billion|sure|certain|positive|based|"
    "of the|older|younger|taller|shorter|apart|different|away|ago|late|early|behind|ahead|"
    r"later|earlier|more|less|faster|slower|better|worse|"
    r"higher|lower|bigger|smaller)\b)"
)
_MEASURE: Final = _AMOUNT.replace("<more>", "") + _OTHERWISE
#: Of what is one's own, or named as a setting, a bare number says enough.
_NUMBER: Final = (
    _AMOUNT.replace("<more>", r"|\d+(?:,\d{3})*(?=[,.;)!](?!\d)|$| (?:and(?! \d)|but|from|so|now)\b)") + _OTHERWISE
)
#: What something is called: whose it is, and up to four words that are no clause of their own.
_WORD: Final = (
    r"(?!(?:i|we|you|he|she|they|it|that|which|who|is|was|are|were|be|being|been|have|has|had|and|or|but|if|when|while|one|so)\b)"
    r"[\w'’/-]+"
)
#: In front of what a sentence is not about: "one of my friends is 26". First its first letter: most words have another.
_NO_SUBJECT: Final = r"\b(?=[mot])" + "".join(
    f"(?<!\\b{word} )"
    for word in ("of", "in", "on", "at", "with", "for", "from", "to", "than", "within", "between", "about")
)
_OWN: Final = rf"(?:my|our) (?:{_WORD} ){{0,3}}{_WORD}"
_SUBJECT: Final = rf"\b(?P<subject>{_OWN}|the (?:{_WORD} ){{0,3}}{_WORD})"
_SETTING: Final = rf"\b(?P<subject>{_OWN}|the (?:{_WORD} ){{0,2}}(?:port|limit|timeout|threshold|size|count))"
_NO_NAME: Final = r"(?!(?:Its?|He|She|They|We|You|And|But|The|This|That|Who|When|What|Is|Was|So|Just|Also)\b)"
_TITLE: Final = r"(?:(?:Dr|Prof|Mr|Mrs|Ms)\. ){0,2}"
_PROPER: Final = rf"(?P<value>(?-i:{_NO_NAME}{_TITLE}[A-Z][a-zà-ÿ-]+(?: [A-Z][a-zà-ÿ-]+){{0,2}}(?!\.\w)))"
_RELATION: Final = (
    "(?:(?:best|close|old|older|elder|younger|little|big|twin) )?(?:wife|husband|partner|boyfriend|girlfriend|fianc[ée]e?|son|"
    "daughter|sister|brother|mother|father|mom|mum|dad|aunt|uncle|cousin|niece|nephew|grandmother|grandfather|grandma|grandpa|"
    "friend|boss|manager|colleague|coworker|mentor|roommate|neighbou?r|teacher|doctor|dog|cat|kitten|puppy)"
)
_EVENT: Final = (
    "deadline|meeting|appointment|interview|launch|release|workshop|webinar|presentation|birthday|anniversary|wedding|exam|trip|"
    "flight|call|demo|sprint|party|session|conference|festival|match|game|concert|surgery|follow-up|delivery|event|hearing|move"
)
_IS: Final = (
    "(?:is|are|will be|must be|should be|=|costs?)(?: now| currently)?"
    "(?: set to| exactly| at| about| around| roughly| approximately)?"
)
#: It was otherwise before: "my number changed, it's 7".
_BECAME: Final = (
    r"(?:['’]s| has| have)?(?: just)? changed(?:[,;:.]| [–—-]| and)? (?:(?:it|this)(?:['’]s| is)|they(?:['’]re| are)|"
    r"the new (?:one|number) is|to|now|from \S+ to)(?: now)?"
)
_ROLE: Final = (
    "(?:(?:wedding|event|tax|personal|travel|estate|real estate|product|project|tech|team|driving|piano|maths?|football) )?"
    "(?:photographer|planner|organi[sz]er|caterer|florist|lawyer|attorney|accountant|dentist|therapist|vet|landlord|landlady|"
    "plumber|electrician|contractor|architect|designer|developer|editor|agent|broker|supervisor|advisor|tutor|coach|trainer|"
    "babysitter|nanny|hairdresser|recruiter|contact(?: person)?|product owner|lead|cto|ceo|boss|manager|driver|guide|host)"
)
_NAMES: Final = (
    lazy(rf"\b(?P<subject>my (?:full |first |last )?name)(?: is|['’]s)[: ]+{_PROPER}", re.IGNORECASE),
    lazy(
        rf"(?<!name )(?<!named )(?<!call )(?<!called )\b(?P<subject>(?:my|our) {_RELATION})"
        rf"(?: is (?:named|called)|['’]s name is| named| called|,)? {_PROPER}",
        re.IGNORECASE,
    ),
    lazy(
        rf"\b(?P<subject>(?:my|our|the) {_ROLE}) (?:is (?:called |named )?|['’]s name is ){_PROPER}"
        r"(?=[,.;!]|$| from\b| and (?:s?he|his|her)\b)",
        re.IGNORECASE,
    ),
)
#: Kinds of things of which somebody uses one, by name.
_USED: Final = (
    "(?:(?:main|primary|production|staging|test|current) )?(?:database|db|framework|orm|cloud provider|hosting(?: provider)?|"
    "package manager|build tool|test runner|ci(?: system)?|message (?:queue|broker)|cache|programming language|operating system|"
    "web server|editor|ide|issue tracker|bank|insurer|airline|mail provider|registrar)"
)
_PHONE: Final = r"(?P<value>\+?\d(?:[ ()/-]{0,2}\d){6,14})(?![\w-])"
#: In front of what somebody only looks for: "find a flight on 3 May".
_NOT_YET: Final = r"\b(?=an? |my |our |the )" + "".join(
    f"(?<!\\b{words} (?=a))"
    for words in (
        "look for",
        "looking for",
        "search for",
        "searching for",
        "find",
        "find me",
        "get me",
        "get us",
        "book",
        "book me",
        "reserve",
        "need",
        "want",
        "like",
        "suggest",
        "recommend",
        "show me",
        "check for",
    )
)
_DATES: Final = (
    lazy(
        rf"{_SUBJECT} (?:is|are|was|were|being|will be|has been|got|starts?|ends?|begins?|moved|slipped) (?:now )?"
        r"(?:(?:due|scheduled|set|moved|planned|booked|rescheduled|postponed|extended|delayed|changed|brought forward|"
        r"pushed(?: back)?) )?"
        rf"(?:(?:on|for|by|to|until) )?(?:the )?{_DAY}",
        re.IGNORECASE,
    ),
    lazy(rf"{_NO_SUBJECT}{_SUBJECT} (?:scheduled|due|planned|booked|set) (?:on|for|by) {_DAY}", re.IGNORECASE),
    lazy(
        rf"{_NOT_YET}\b(?P<subject>(?:my|our|the|an?) (?:{_WORD} ){{0,3}}(?:{_EVENT})"
        rf"(?: with (?:(?-i:[A-Z])\w+|him|her|them))?) (?:on|for|of) {_DAY}",
        re.IGNORECASE,
    ),
    lazy(
        r"(?:\b(?:i|we)(?:['’]ve| have)? (?:just |now |finally |also )?|^(?:(?:ok(?:ay)?|please|then|so),? )*(?:let['’]?s )?)"
        r"(?:moved?|reschedul(?:e|ed)|postponed?|push(?:ed)?(?: back)?|shift(?:ed)?|delay(?:ed)?|set|schedul(?:e|ed)|booked|"
        r"planned) "
        rf"(?P<subject>(?:my|our|the) (?:{_WORD} ){{0,3}}?(?:{_EVENT}))(?: back| forward)? (?:from [^,.;]{{3,30}} )?"
        rf"(?:to|for|on|until) (?:the )?{_DAY}",
        re.IGNORECASE,
    ),
    lazy(rf"\b(?P<subject>(?:my|our|the) {_DAY} (?:{_WORD} ){{0,2}}(?:{_EVENT}))\b", re.IGNORECASE),
)
_VALUES: Final = (
    lazy(
        rf"\b(?P<subject>(?:my|our|the) {_USED}) is (?:now |still |currently )?(?P<value>(?-i:(?!(?:OK|Down|Up|Fine|Ready|"
        rf"Broken|The|A|In|On|"
        r"Not|Too|So)\b)[A-Z])[\w+#-]*(?:\.\w+)*(?: (?-i:[A-Z\d])[\w.+#-]*\w){0,2})(?=[,;!]|\.(?!\w)|$| (?:and|now|not|but|on|"
        r"in|with|for)\b)",
        re.IGNORECASE,
    ),
    lazy(
        rf"\b(?P<subject>(?:(?:my|our|the) (?:{_WORD} ){{0,2}}|(?-i:[A-Z])[\w-]+['’]s )(?:phone|mobile|cell|telephone|fax|"
        rf"contact)"
        rf"(?: phone)?(?: number)?)(?:{_BECAME}| is|:) {_PHONE}",
        re.IGNORECASE,
    ),
    lazy(rf"\b(?P<subject>{_NO_NAME}[A-ZÀ-Ý][a-zà-ÿ-]+(?: [A-ZÀ-Ý][a-zà-ÿ-]+)?)(?:,| \(|:) ?(?=\+){_PHONE}"),
    lazy(rf"{_NO_SUBJECT}{_SUBJECT}(?:{_BECAME}| {_IS}) {_MEASURE}", re.IGNORECASE),
    lazy(rf"{_NO_SUBJECT}{_SETTING} {_IS} {_NUMBER}", re.IGNORECASE),
    lazy(
        rf"\b(?P<subject>(?:my|our|the) (?:{_WORD} ){{0,2}}(?:id|code|number|username|account))(?:{_BECAME}| is|:) "
        r"(?P<value>(?=[\w-]*[\d_])[\w-]{3,40})(?![\w.,%/-]*\w)(?! [a-z]+s\b)",
        re.IGNORECASE,
    ),
    lazy(
        rf"\b(?P<subject>(?:my|our|the) (?:{_WORD} ){{0,2}}(?:database|db|schema|branch|bucket|host(?:name)?|domain|package|"
        r"table|cluster|namespace|region|model|user)) is (?:now )?(?:called |named )?"
        r"(?P<value>(?=[\w./@-]*\w[_./@-]\w)[\w./@-]{3,60}\w)(?![\w/@-])",
        re.IGNORECASE,
    ),
    lazy(
        r"\b(?P<subject>(?:my|our|the) (?:\w+ )?time ?zone) is (?:now )?"
        r"(?P<value>(?-i:[A-Z][a-z]+/[A-Z][A-Za-z_]+|(?:UTC|GMT)(?:[+-]\d{1,2})?|[A-Z]{3,4})\b)",
        re.IGNORECASE,
    ),
    lazy(
        r"\b(?:set|changed?|raised?|increased?|lower(?:ed)?|reduced?|limit(?:ed)?|updated?|extend(?:ed)?|bump(?:ed)?) "
        rf"{_SUBJECT} (?:from \S+(?: \w+)? )?to {_NUMBER}",
        re.IGNORECASE,
    ),
    lazy(
        r"\b(?P<subject>(?:an?|my|our|the) "
        r"(?:[\w-]+ )?(?:budget|limit|salary|goal|target|timeout|price|deposit|rent|fee|word count))"
        rf" of {_NUMBER}",
        re.IGNORECASE,
    ),
    lazy(
        r"\b(?:[Uu]s(?:es?|ing)|[Ww]ith|[Oo]n|[Rr]unning|[Uu]pgrad(?:e|ed|ing) to|[Ii]nstall(?:ed|ing)?|and|,) "
        r"(?P<subject>[A-Z][A-Za-z.+#-]*[A-Za-z](?: [A-Z][A-Za-z.+#-]*[A-Za-z])?) (?P<value>v?\d+\.\d+(?:\.\d+)*)(?![\w%-])"
    ),
    lazy(r"\b(?:on|to|uses?|using|at) (?:the )?(?P<subject>port) (?P<value>\d{2,5})\b", re.IGNORECASE),
)
#: In front of a decision that only tells when or why something else came to pass.
_NO_CLAUSE: Final = r"\b(?=[iw])" + "".join(
    f"(?<!\\b{word} )"
    for word in (
        "what",
        "that",
        "which",
        "why",
        "when",
        "how",
        "until",
        "method",
        "before",
        "because",
        "since",
        "after",
        "anyway",
    )
)
_CHOSEN: Final = r"(?:[^.;!?]|\.(?=\w))"  # a sign of what was decided: "version 1.0" too
_ENDS: Final = (
    r"(?=[;!?]|\.(?!\w)|$|,? (?:and|but|so|because) (?:i|we|can|could|it|how|what)\b|,? (?:please|thanks)\b| ->|"
    ",? (?:can|could|how|which|do|is|are|should) (?:you|i|we|are|is|can|could|some)\\b|, what\\b|"
    " what (?:are|is|can|could|should|do|does|would)\\b| ?->)"
)
#: What something is used for, where a name with a capital says what: none of it is said by a pronoun, a time or a pastime.
_FOR: Final = (
    r"(?:for|as) (?!(?:it|this|that|them|these|those|me|us|you|him|her|now|fun|free|years|months|days|a while|long|example|"
    r"instance|the (?:moment|time being|day|night|rest|sake|whole|first|last|most part))\b)"
    r"(?:(?:the|our|my|all|every|its|most|an?) )?(?:[\w/+-]+ ){0,2}?[\w/+-]+"
)
#: The same of work, where any word may say what is used.
_FOR_WORK: Final = (
    r"(?:for|as) (?:(?:the|our|my|all|every|its|an?) )?(?:[\w/+-]+ )?(?:databases?|db|cache|caching|queues?|front-?end|back-?end|"
    r"(?:unit |e2e )?tests?|testing|formatt(?:ing|er)|indentation|lint(?:ing|er)|packages?|package manager|dependenc(?:y|ies)|"
    r"deploy\w*|ci|logging|logs|auth\w*|styling|docs|documentation|migrations?|builds?|hosting|storage|search|monitoring|"
    r"payments?|"
    r"version control|state management|type checking|commits?|commit messages|comments|api|orm|ui|infrastructure|secrets|queries)"
)
_AND_MORE: Final = r"(?=[.;!]|$|,| (?:and|but|so|because|which|with|here)\b| ?->)"
_DECISIONS: Final = (
    lazy(
        r"(?:^(?:(?:ok(?:ay)?|yes|no|note|fyi|btw|by the way|for context|currently|hi|hello|"
        r"in (?:this|our) (?:project|repo|repository|code ?base|app|team|company)),? )*|; |\b(?:and|but|so|since|because) )"
        r"(?:we(?:['’]re| are)?|i(?:['’]m| am)) (?:now |currently |already )?(?P<subject>us(?:e|ing)) "
        rf"(?P<value>(?-i:[A-Z]){languages.NAMED} {_FOR}|"
        rf"(?!it |this |that |the ){languages.NAMED} {_FOR_WORK}){_AND_MORE}",
        re.IGNORECASE,
    ),
    lazy(
        rf"{_NO_CLAUSE}"
        r"\b(?:i|we)(?:['’]ve| have)? (?:just |now |finally |also )?(?P<subject>decided|chose|chosen|opted|agreed|settled) "
        rf"(?:(?:to|on|for) |(?=against ))(?!(?:against )?(?:it|that|this|them|my own)\b)(?P<value>{_CHOSEN}{{4,160}}?){_ENDS}",
        re.IGNORECASE,
    ),
    lazy(
        r"^(?:(?:ok(?:ay)?|yes|so|then|alright|perfect|great),? )*(?:let['’]?s|(?:we|i)(?:['’]ll| will)) "
        r"(?P<subject>use|go with|switch to|stick with|stick to|(?:take|choose|pick)(?= (?:the|option|number|plan|both)\b)) "
        rf"(?P<value>{_CHOSEN}{{2,160}}?){_ENDS}",
        re.IGNORECASE,
    ),
    lazy(
        r"\bwe(?:['’]ve| have)? (?:just |now |finally )?(?P<subject>switched|migrated) "
        r"(?P<value>(?:(?:the|our) (?:[\w-]+ ){1,3}?)?(?:from [^\s.;!?]+ )?(?:over |back )?to "
        rf"(?-i:[A-Z]){_CHOSEN}{{1,60}}?){_ENDS}",
        re.IGNORECASE,
    ),
    lazy(
        rf"^(?:(?:ok(?:ay)?|yes|alright|perfect|great),? )+(?:please )?(?P<subject>use|go with) "
        rf"(?P<value>{_CHOSEN}{{2,100}}?)(?: then| please)?{_ENDS}",
        re.IGNORECASE,
    ),
)
#: What was decided, where only "this" says it.
_POINTED_AT: Final = lazy(
    r"(?:[\w-]+ ){0,2}?(?:this|that|it|them|these|those)(?=$| (?:at|in|on|for|to|as|and|now|instead|first|too|because)\b)",
    re.IGNORECASE,
)
_MADE: Final = lazy(r"(?:decided|chose|chosen|opted|agreed|settled)$", re.IGNORECASE)
_HAVE: Final = lazy(r"^(?:i|we)(?:['’]ve| have)\b", re.IGNORECASE)
_ASKED: Final = lazy(r"^(?:how|why|who|where)\b", re.IGNORECASE)
_OF_WORK: Final = lazy(
    r"(?:use|switch|go with|drop|keep|replace|adopt|move to|migrate|implement|build|store|split|remove|rename|stick|stay|not|"
    r"never|against|support|limit|set|add|write|run|deploy|host)\b",
    re.IGNORECASE,
)
#: A sentence that tells what happened: a decision in it was one of that day.
_NARRATED: Final = lazy(
    r"\b(?:was|were|had|went|got|came|saw|thought|turned|tried|grew|could(?:n['’]?t)?|did(?:n['’]?t)|"
    r"one (?:day|time|night|summer|winter)|once|back then|(?:last|that) (?:year|summer|night|day|time)|"
    r"(?:and )?(?:then|so) (?:i|we)|just (?:decided|chose)|ended up|eventually|happened|"
    r"end of the day|after \w+ing|reluctantly|haha|lol)\b",
    re.IGNORECASE,
)
_STATED: Final = (
    (NAME, (*_NAMES, *languages.NAMES)),
    (DATE, (*_DATES, *languages.DATES)),
    (VALUE, (*_VALUES, *languages.VALUES)),
    (DECISION, (*_DECISIONS, *languages.DECISIONS)),
)
_SUPPOSED: Final = lazy(
    r"^(?:is|are|was|were|do|does|did|can|could|would|should|if|what|when|which|imagine|suppose|pretend|translate|"
    r"wenn|falls|angenommen|übersetze|si|supón|imagina|traduce)\b|^(?:如果|假如|假设|翻译)",
    re.IGNORECASE,
)
_IF: Final = lazy(
    r"\b(?:if|suppose|instead of|where|say|wenn|falls|statt|si)(?: \w+){0,2} ?$|"
    r"\b(?:considering|thinking (?:of|about)) ?$|如果\w{0,6}$",
    re.IGNORECASE,
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
    r"\b(?:now(?! that)|instead|changed?|moved|rescheduled|postponed|delayed|pushed back|brought forward|"
    r"extended|raised|increased|lowered|reduced|actually|updated|"
    r"no longer|correction|switched|(?:move|reschedule|postpone|push|shift) (?:the|my|our)|upgrad(?:ed|ing)|downgraded|bumped|"
    r"migrated|"
    r"jetzt|nun|stattdessen|geändert|verschoben|erhöht|gesenkt|nicht mehr|ahora|cambiad\w+|movid[oa]|cambió|aplazad\w+|ya no)\b|"
    r"现在|改为|改成|改到|推迟|不再|変更|延期|変わり",
    re.IGNORECASE,
)
#: In front of what is right.
_CORRECTS: Final = lazy(r"\W*(?:no|nope|sorry|oops|wait|nein|nee|perdón|perdona|non|不对|不是)[,.!，。]", re.IGNORECASE)
_BESIDE: Final = 60, 25  # signs in front of a value and behind it in which a change is told of it
#: A thing that is told to be another one than before: "our new budget", and not "the budget of our new project".
_NEW: Final = lazy(r"^((?:my|our|the) )new (?=(?:(?:phone|email|user|due) )?[\w-]+$)", re.IGNORECASE)
#: Of whom one has one; somebody may have several friends.
_ONLY_ONE: Final = lazy(
    r"(?:name|wife|husband|partner|mother|father|mom|mum|dad|boss|manager|heiße|frau|mann|mutter|vater|llamo|nombre|esposa|"
    r"marido|"
    r"madre|padre|叫|名字)$",
    re.IGNORECASE,
)
#: What there may be several of.
_SOME: Final = lazy(r"^(?:an? |port$|其|[他她它]|.{0,4}一个)", re.IGNORECASE)
#: What is a meeting without the word: "the kickoff" is "the kickoff meeting".
_A_MEETING: Final = lazy(
    r"\b(kick-?off|stand-?up|retro(?:spective)?|all-?hands|one-on-one|check-?in|catch-?up|debrief(?:ing)?|"
    r"briefing|workshop|webinar|interview|"
    r"hearing|appointment|sync)(?:[ -](?:meeting|call|session|event|appointment|termin|treffen|sitzung|reuni[oó]n))$",
    re.IGNORECASE,
)
_OWNER: Final = lazy(
    r"^(?:(?:my|our|the|der|die|das|meine?|unsere?|el|la|los|mi|nuestr[oa]) |我们的|我们|我的|我|它的)", re.IGNORECASE
)
_OWN_ONES: Final = lazy(r"(?:(?:my|ich|meine?|mi|me)\b|我(?!们))", re.IGNORECASE)
_CALLED: Final = {"ich heiße": "name", "me llamo": "name", "nombre": "name", "叫": "name", "名字": "name"}


@dataclass(frozen=True, slots=True)
class Fact:
    """``text``: the quotation. ``subject`` and ``value``: words of it; a rule has no subject, and is its value.

    ``verb`` and ``clause``: of a decision, whose subject is its verb only where no form tells what it is about.
    """

    kind: str
    subject: str
    value: str
    text: str
    told: bool = False  # by a summariser, which chose the words that name the subject
    verb: str = field(default="", compare=False)
    clause: str = field(default="", compare=False)

    @property
    def key(self) -> tuple[str, str] | None:
        """Key that facts about the same thing share; None where only the words could tell."""
        if self.told:
            return None
        one = _ONLY_ONE.search(self.subject) if self.kind == NAME else self.kind in (VALUE, DATE)
        vague = _SOME.match(self.subject)
        subject = salience.normal(_OWNER.sub("", _NEW.sub(r"\1", self.subject)))
        if self.kind == DATE:
            subject = _A_MEETING.sub(r"\1", subject).replace("kick-off", "kickoff")
        return (self.kind, _CALLED.get(subject, subject)) if one and not vague else None

    @property
    def own(self) -> bool:
        """Is the fact about its speaker alone?"""
        return _OWN_ONES.match(self.subject) is not None

    @property
    def changes(self) -> bool:
        """Does it say of itself that something was otherwise before?"""
        at, (before, behind) = self.text.find(self.value), _BESIDE
        beside = self.text[max(0, at - before) : at + len(self.value) + behind]
        return any(
            found is not None
            for found in (_CHANGED.search(beside), _NEW.match(self.subject), _CORRECTS.match(self.text[: max(0, at)]))
        )


def stated(text: str, source: str = "", *, named: bool = False, turning: bool = False) -> tuple[Fact, ...]:
    """The facts of what a user said, in order.

    ``source``: platform that it came from; ``named``: several people talk, and the name of who said it stands in front;
    ``turning``: with what may turn from an earlier rule, and is none itself.
    """
    if markers.host_block(text):
        return ()
    said = own_words(markers.by_speaker(markers.typed(text), named=named, source=source)[:_READ_CHARS])
    return tuple(
        islice((fact for fact in _found(said) if turning or fact.kind != RULE or is_rule(fact.text)), _OF_A_MESSAGE)
    )


def told(
    text: str, facts: Iterable[StatedFact], known: Iterable[Fact], source: str = "", *, named: bool = False
) -> tuple[Fact, ...]:
    """The facts that a summariser found in what a user said, as far as the same words stand there and state them.

    ``known``: those that the rules found, which are not told again. ``source`` and ``named``: as of ``stated``.
    """
    facts = tuple(facts)
    if not facts or markers.host_block(text):
        return ()
    typed = markers.typed(text).strip()
    own = tuple(salience.sentences(own_words(markers.by_speaker(typed, named=named, source=source)[:_TOLD_CHARS])))
    out = list(known)
    for each in facts:
        fact = _told(typed, own, each)
        if fact is not None and not any(_is_same(fact, other) for other in out):
            out.append(fact)
    return tuple(fact for fact in out if fact.told)


def _told(typed: str, own: Iterable[str], stated: StatedFact) -> Fact | None:
    quote = _quotation(typed, stated)
    if not quote:
        return None
    subject, value = (quote[slice(*span)].strip() for span in (stated.subject, stated.value))
    rule = stated.kind == RULE
    inside = next((each for each in own if value in each and (quote in each or each in quote)), "")
    if not inside or not (subject or rule or stated.kind == DECISION):
        return None
    at = inside.find(value)
    asks = salience.is_question(inside) or _SUPPOSED.match(inside) or _is_supposed(inside, at)
    if asks or not (may_be_rule(inside) if rule else _is_told(inside)):
        return None
    if rule:  # the whole sentence: what is left out of it may be a "never"
        return Fact(RULE, "", inside, inside, told=True)
    return Fact(stated.kind, subject, value, _quote(inside, at, at + len(value)), told=True)


def _quotation(typed: str, stated: StatedFact) -> str:
    """The words that a fact points at; "" where they are gone. Where secrets were taken out, those behind them moved."""
    first, last = stated.quote
    moved = _BEGINS.finditer(typed, 0, _MOVED_CHARS) if REDACTED in typed else ()
    said = (typed[at : at + last - first] for at in chain((first,), (match.start() for match in moved)))
    return next((each for each in said if StatedFact.digest_of(each) == stated.digest), "")


def _is_same(fact: Fact, other: Fact) -> bool:
    """Are they about the same words?"""
    if (fact.kind == RULE) != (other.kind == RULE):
        return False
    one, two = salience.normal(fact.value), salience.normal(other.value)
    return (one in two or two in one) and (fact.text in other.text or other.text in fact.text)


def _found(said: str) -> Iterator[Fact]:
    for sentence in turns.sentences(said):
        if len(sentence) <= _SENTENCE_CHARS and _is_told(sentence):
            found = {fact.clause or fact.value: fact for fact in _stated(sentence)}
            yield from found.values()
            if (not found and is_rule(sentence)) or may_turn(sentence):
                yield Fact(RULE, "", sentence, sentence)


def _is_told(sentence: str) -> bool:
    """Is it made of words? Signs that are words by themselves count twice."""
    return sum((c.isalpha() or c == " ") + ("\u4e00" <= c <= "\u9fff") for c in sentence) >= 0.5 * len(sentence)


def _stated(sentence: str) -> Iterator[Fact]:
    asks, supposed = salience.is_question(sentence), _SUPPOSED.match(sentence)
    for kind, patterns in _STATED:
        if not supposed:
            for match in (match for pattern in patterns for match in pattern.finditer(sentence)):
                if not _is_supposed(sentence, match.start()) and (kind != DECISION or _stands(sentence, match, asks)):
                    yield _fact(kind, match["subject"].strip(), match["value"].strip(), _quote(sentence, *match.span()))


def _fact(kind: str, subject: str, value: str, quote: str) -> Fact:
    """The fact that a form tells; of a decision with what it is about."""
    if kind != DECISION:
        return Fact(kind, subject, value, quote)
    about, chosen = choices.about(choices.told(subject, value, quote)) or (subject, value)
    return Fact(kind, about, chosen, quote, verb=subject, clause=value)


def _stands(sentence: str, match: re.Match[str], asks: bool) -> bool:
    """Is a decision one that holds on, and no episode of what somebody tells?"""
    if not _MADE.match(match["subject"]):
        return not asks
    if _ASKED.match(sentence) or _POINTED_AT.match(match["value"]):
        return False
    return (
        _HAVE.search(match[0]) is not None
        or _OF_WORK.match(match["value"]) is not None
        or not _NARRATED.search(sentence)
    )


def _is_supposed(sentence: str, at: int) -> bool:
    """Is a fact at this place a condition, an example or somebody else's words, by the text before it?"""
    if _IF.search(sentence, max(0, at - 40), at) or _REPORTED.search(sentence, max(0, at - 80), at):
        return True
    return any(quoted.start() < at < quoted.end() for quoted in QUOTED.finditer(sentence))


def _quote(sentence: str, first: int, last: int) -> str:
    """The sentence; of a long one the stretch with what was found in it, at whole words."""
    if len(sentence) <= _QUOTE_CHARS:
        return sentence
    start = sentence.rfind(" ", 0, max(0, first - _BEFORE)) + 1
    stop = sentence.find(" ", max(last, start + _QUOTE_CHARS))
    return sentence[start : stop if stop > 0 else len(sentence)]
