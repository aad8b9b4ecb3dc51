"""
Rules of a user as the ledger reads them: a sentence that tells the agent how to work beyond its request.

Pure. Stricter than ``text.statements.is_rule``: people tell each other too what to do and what they prefer, so the verb or the
thing must be one of an agent's work.
"""

from __future__ import annotations

import re
from typing import Final

from ..text import rule_forms, salience, statements
from ..text.salience import lazy
from ..text.statements import QUOTED, UNWANTED, asks, for_once, is_order, lifts

_RULE_CHARS: Final = 300
_MORE_VERBS: Final = (
    "provide|highlight|maintain|tailor|respond|answer|cite|quote|prefer|assume|commit|speak|address|mention|trust|confirm|reboot|"
    "double-?check|validate|lint|ensure(?! you\\b)|escape|saniti[sz]e|encrypt|redact|anonymi[sz]e|annotate|indent|round|rebase|"
    "benchmark|clarify|justify(?! yourself)|back ?up(?= (?:the|my|our|all|every|any|your|before|files|data)\\b)|"
    "(?:notify|inform|warn|alert|ping|consult)(?= (?:me|us|(?:(?:the|our|my|all|any) )?(?:team|users?|customers?|clients?|"
    "admins?|operators?|owners?|maintainers?|channel|on-?call|docs|documentation))\\b)"
)
_ANY: Final = "|".join(sorted(salience.VERBS))
_WORK: Final = "|".join(sorted(salience.WORK))
#: What an agent may be forbidden; of people one asks other things too.
_FORBIDDEN: Final = (
    rf"(?!(?:tell|give|take|find|ask|put too)\b(?! me (?:for|to|about)\b))(?:{_WORK}|{_MORE_VERBS}|start(?= (?:the|a|any|new) )|"
    "touch|mock|hard-?code|guess|invent|overwrite|execute|force|truncate|abbreviate|shorten|omit|introduce|duplicate|suggest|"
    "output|return|reply|apologi[sz]e|"
    "summari[sz]e|charge|contact|e-?mail|invite|sign|share|expose|store|downgrade|squash|amend|bump|wrap|nest|rely|depend|"
    "offer|transfer|repeat|proceed|compile|stage|format|rely|paste|edit|alter|reuse|re-?order|delegate|spawn|fetch|interrupt|"
    r"modify|exceed|reveal|swallow|suppress|comment|combine|mix|purge|erase|terminate|"
    r"(?:kill|wipe|shut ?down)(?= (?:[\w-]+ ){0,3}(?:process\w*|servers?|jobs?|sessions?|containers?|pods?|daemons?|services?|"
    r"data\w*|disks?|drives?|volumes?|folders?)\b))\b"
    r"(?! then\W*$)(?! (?:it|this|that|him|her|yourself|fun|me\b(?! (?:for|to|about)\b)|your (?:mind|time))\b)"
)
#: What somebody prefers of an agent's work, and not of life.
_PREFERRED: Final = (
    r"(?:tabs?|spaces|indent\w*|code|comments?|commits?|functions?|types?|typing|nam(?:es|ing)|tests?|styles?|"
    r"format\w*|syntax|imports?|markdown|answers?|repl(?:y|ies)|respon(?:se|ses|d)|explanations?|explained|examples?|"
    r"summar(?:y|ies)|bullets?|bullet points?|lists?|tables?|diagrams?|visuals?|visual \w+|step[- ]by[- ]step|citations?|"
    r"(?:metric|imperial) \w+|celsius|fahrenheit|(?:that|if|when) you|you (?:to|not)|to be (?:called|addressed)|"
    r"not to be \w+ed)"
)
_SOMEBODY_WILL: Final = (
    r"^(?!.*\b(?:i|we|he|she|they|it|this|that|which|who)(?:['’](?:ll|m|re|s)| (?:will|am|are|is|was|were|can|could|had|have|has|"
    r"shall|would|just|think|plan|hope)) |.*\b(?:im|ill|you want me) |"
    r".*\bi (?!(?:want|need|expect|prefer|ask|say|type|write|send|tell|mention|give|paste|post|call)\b))(?=(?:\S+ ){4})"
)
_SAYINGS: Final = r"look out|go (?:in|out|to|back|on)\b|(?:stop|change)\W*$"
_LEAD: Final = r"^(?:(?:and|but|also|so|ok(?:ay)?|no|yes|please|note|important|remember|again)[,:]? )*"
#: What an agent makes, in the words in which all of it is spoken of.
_WORKS: Final = (
    r"(?:answers?|repl(?:y|ies)|responses?|messages?|commits?|commit messages?|comments?|code|functions?|methods?|modules?|"
    r"files?|tests?|types?|variables?|identifiers?|names?|changes?|branch(?:es)?|pull requests?|prs?|docs?|docstrings?|queries|"
    r"endpoints?|components?|dates?|paths?|imports?|strings?|errors?|logs?|migrations?|scripts?|summar(?:y|ies)|emails?|reports?)"
)
_LANGUAGE: Final = (
    "(?:English|German|French|Spanish|Italian|Portuguese|Dutch|Polish|Russian|Ukrainian|Turkish|Arabic|"
    "Hindi|Chinese|Japanese|Korean)"
)
_DOING: Final = (
    "(?:writing|creating|adding|editing|changing|committing|refactoring|answering|replying|responding|testing|naming|deploying|"
    "fixing|reviewing|translating|summari[sz]ing|formatting|updating|coding|implementing|debugging|documenting|searching)"
)
_RULES: Final = (
    lazy(rf"{_LEAD}make sure (?:that )?(?:you |to )?(?:always|never) (?!i |we |my |our )", re.IGNORECASE),
    lazy(
        rf"\bi (?:want|need|expect|would like) you to (?:always|never|only)\b|\bi never want you to {_FORBIDDEN}|"
        rf"\bi (?:don['’]?t|do not) want (?:you to {_FORBIDDEN}|any [^.?]{{1,40}} in (?:the |your |my )?{_WORKS}\b)|"
        rf"\bi want (?:all|every|each|any) (?:of )?(?:the |your |my )?(?:\w+ )?{_WORKS} (?:in|to|with|as|under)\b",
        re.IGNORECASE,
    ),
    lazy(
        rf"^(?:all|every|each) (?:of )?(?:the |your |my |our )?(?:new )?(?:\w+ )?{_WORKS} "
        "(?:must|should|needs? to|ha(?:s|ve) to) ",
        re.IGNORECASE,
    ),
    lazy(
        rf"{_LEAD}(?:we )?use (?:[^.?,]{{1,60}}, never [\w`]|"
        rf"(?!the |this |that |my |your |it )[\w./+-]+(?: [\w./+-]+)? instead of "
        rf"(?!the |this |that )[\w./+-]+\W*$)",
        re.IGNORECASE,
    ),
    lazy(
        rf"\byou (?:are|['’]re) not allowed to {_FORBIDDEN}|\byou may (?:not|never|only) {_FORBIDDEN}|"
        rf"{_LEAD}only (?:touch|edit|modify|change|commit to|write to|work in) |"
        rf"{_LEAD}(?:ask|let me know|check with me)(?: me| first)* before (?:you |any |each |every )?\w+",
        re.IGNORECASE,
    ),
    lazy(
        rf"{_LEAD}(?:answer|respond|reply|write|speak|talk)(?: to me| back| me)?(?: only)? in {_LANGUAGE}\b|"
        rf"{_LEAD}be (?:very |more )?(?:concise|brief|terse)\W*$|"
        rf"{_LEAD}remember to (?:{_ANY})\b[^.?]*\b(?:each|every|always|never|before|after|whenever)\b",
        re.IGNORECASE,
    ),
    lazy(
        r"^(?:in (?:this|our) (?:project|repo(?:sitory)?|code ?base|team|company),? )?we (?:always|never|only) "
        r"(?:use|commit|deploy|push|merge|test|document|release|format|rebase|squash|log|ship|mock)\b(?! (?:to|it|that)\b)|"
        r"^(?:in (?:this|our) (?:project|repo(?:sitory)?|code ?base|team),? )?we (?:do not|don['’]?t) "
        r"(?:use|allow|commit|deploy|push|merge|release|ship|mock|log) [^.?]{2,60} (?:here|"
        r"in (?:this|our) (?:project|repo(?:sitory)?|code ?base|team|company)|"
        r"on (?:mon|tues|wednes|thurs|fri|satur|sun)days?)\W*$|"
        rf"{_LEAD}(?:(?:the|our) )?(?:\w+ ){{0,2}}?(?:{_WORKS}|secrets?|passwords?|keys?|prices?|amounts?|timestamps?|fields?|"
        r"tables?) (?:must (?:never|always|not)|(?:must|should) be (?:signed|written|named|formatted|documented|stored|prefixed|"
        r"sorted|tested|reviewed|logged|typed)) ?(?!(?:today|now|by)\b)",
        re.IGNORECASE,
    ),
    lazy(
        rf"^(?:please,? )?no {UNWANTED}"
        r"(?: please|,|\W*$| in\b| unless\b| at all\b)",
        re.IGNORECASE,
    ),
    lazy(rf"{_LEAD}(?:always|never) (?!{_SAYINGS})(?:{_ANY}|{_MORE_VERBS})\b(?! up\b)", re.IGNORECASE),
    lazy(
        rf"{_LEAD}(?:do not|don['’]?t|never(?! (?:{_SAYINGS}))|you (?:must|should) (?:always|never|not|only)) "
        rf"(?:ever )?{_FORBIDDEN}",
        re.IGNORECASE,
    ),
    lazy(
        rf"{_SOMEBODY_WILL}.*(?:(?<!in )\b(?:from (?:now|here) on|going forward)\b|"
        r"\bin (?:the )?future, (?:please|always|never|do|don)|"
        r"\bby default,? (?:use|do|don|please))",
        re.IGNORECASE,
    ),
    lazy(
        r"^(?!.*\bi(?:['’]ll| will)\b).*\b(?:when(?:ever)? i ask|every time i ask|"
        rf"(?:each|every) time you (?:{_WORK}|edit|finish|deploy|touch|answer|reply|respond))\b",
        re.IGNORECASE,
    ),
    lazy(rf"{_LEAD}(?:only use|use only|prefer|avoid using|stick to|please (?:always|never|only|avoid))\b", re.IGNORECASE),
    lazy(
        r"\bi(?:['’]d| would)?(?: always| strongly| generally)? prefer (?!to (?:see|know|hear))"
        rf"(?:[\w'’-]+ ){{0,3}}?{_PREFERRED}\b",
        re.IGNORECASE,
    ),
    lazy(
        r"^(?:请|你|记住[,，]?)?(?:不要(?!紧|了)|别再|必须(?!说|承认|是)|务必|始终(?!没)|总是(?=用|使用|先|在|要|按|保持|写|"
        r"把)|禁止|以后都|今后都)|"
        r"^(?:从现在起|从今以后|今后|以后)(?:都|请|要|用|一律|不要|必须|只|(?:回答|回复|交流|注释|提交)[^，。我]{0,4}(?:都|请))|"
        r"^[^，。我你他她]{0,6}(?:提交|部署|重启|修改|更改|删除|发布|推送|合并|运行|编写|测试|回答|回复|上线|发送|迁移|升级)"
        r"[^，。]{0,8}[前后时](?:请|都|先)?(?:务必|不要|禁止|必须)"
    ),
)  # fmt: skip

#: Told of one moment only, or as somebody else's words.
_NO_RULE: Final = lazy(
    r"^(?:error|warning|fatal|remote)\b ?:|(?<!i )\b(?:says?|said):|\byet(?=\W*$|[,;])|\b(?:i (?:guess|suppose|assume|bet)|"
    r"by now)\W*$|"
    r", (?:(?:so )?(?:says?|said) |(?:[\w'’]+ ){1,3}(?:says?|said|told|tells|wrote|writes|recommends?)\b"
    r"(?<!i said)(?<!i say)(?<!i told))",
    re.IGNORECASE,
)
#: Begins like a question, and is none.
_WHEN_DOING: Final = lazy(
    rf"^when(?:ever)? {_DOING}\b[^,?]{{0,60}}, (?:please |you (?:must|should) )?(?:always |never |do not |don['’]?t )?"
    rf"(?:{_ANY}|answer|respond|reply|prefer|avoid|ask|provide|cite)\b[^?]*$",
    re.IGNORECASE,
)
#: In front of what is forbidden beside an order: "commit, but do not push". "They commit but never push" tells of them.
_BUT: Final = re.compile(
    rf"^(?!(?:wait|look)\b)(?:{_WORK}|commit)\b[^,;:?!]{{0,60}}, (?=(?:please )?(?:do not|don['’]?t|never)\b)|"
    r"^(?!(?:i|you|we|they|it|this|the|my|our|your) [^,;]* but (?:never|always)\b).*?"
    r"\bbut (?=(?:please )?(?:do not|don['’]?t|never|always)\b)",
    re.IGNORECASE,
)


def may_be_rule(sentence: str) -> bool:
    """Could it be one by its form: short, whole, of words, and no question?"""
    return (
        len(sentence) <= _RULE_CHARS
        and sentence[-1] not in ":："
        and (not asks(sentence) or _WHEN_DOING.match(sentence) is not None)
        and salience.is_prose(sentence)
        and not for_once(sentence)
    )


def is_rule(sentence: str) -> bool:
    """Does it tell the agent how to work from now on?"""
    if not may_be_rule(sentence):
        return False
    said = QUOTED.sub(" ", sentence)
    if _NO_RULE.search(said):
        return False
    if is_order(sentence) or lifts(sentence):
        return True
    bare = rule_forms.core(said)
    if any(pattern.search(each) for each in {said, bare} for pattern in (_WHEN_DOING, *_RULES)):
        return True
    end = _BUT.search(said)
    return end is not None and statements.is_rule(sentence) and is_rule(said[end.end() :])
