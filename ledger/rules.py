"""
Rules of a user as the ledger reads them: a sentence that tells the agent how to work beyond its request.

Pure. Stricter than ``text.statements.is_rule``: people tell each other too what to do and what they prefer, so the verb or the
thing must be one of an agent's work.
"""

from __future__ import annotations

import re
from typing import Final

from ..text import salience
from ..text.salience import lazy
from ..text.statements import QUOTED, is_order, lifts

_RULE_CHARS: Final = 300
_MORE_VERBS: Final = (
    "provide|highlight|maintain|tailor|respond|answer|cite|quote|prefer|assume|commit|speak|address|mention|trust"
)
_ANY: Final = "|".join(sorted(salience.VERBS))
_WORK: Final = "|".join(sorted(salience.VERBS - {"get", "go", "look", "name", "pick", "plan", "start", "stop", "turn"}))
#: What an agent may be forbidden; of people one asks other things too.
_FORBIDDEN: Final = (
    rf"(?!(?:tell|give|take|find|ask|put too)\b(?! me (?:for|to|about)\b))(?:{_WORK}|{_MORE_VERBS}|"
    "touch|mock|hard-?code|guess|invent|overwrite|execute|force|truncate|abbreviate|shorten|omit|introduce|duplicate|suggest|output|return|reply|apologi[sz]e|"
    "summari[sz]e|charge|contact|e-?mail|invite|sign|share|expose|store|downgrade|squash|amend|bump|wrap|nest|rely|depend|"
    "offer|transfer|repeat|proceed|compile|stage|format|rely|paste|edit|alter|reuse|re-?order|delegate|spawn|fetch|interrupt|"
    r"modify|exceed|reveal|swallow|suppress|comment|combine|mix)\b"
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
_RULES: Final = (
    lazy(rf"{_LEAD}(?:always|never) (?!{_SAYINGS})(?:{_ANY}|{_MORE_VERBS})\b(?! up\b)", re.IGNORECASE),
    lazy(rf"{_LEAD}(?:do not|don['’]?t|you (?:must|should) (?:always|never|not|only)) (?:ever )?{_FORBIDDEN}", re.IGNORECASE),
    lazy(
        rf"{_SOMEBODY_WILL}.*(?:(?<!in )\b(?:from now on|going forward)\b|\bin (?:the )?future, (?:please|always|never|do|don)|"
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
        r"^(?:请|你|记住[,，]?)?(?:不要(?!紧|了)|别再|必须(?!说|承认|是)|务必|始终(?!没)|总是(?=用|使用|先|在|要|按|保持|写|把)|禁止|以后都|今后都)|"
        r"^(?:从现在起|从今以后|今后|以后)(?:都|请|要|用|一律|不要|必须|只)"
    ),
)  # fmt: skip


def is_rule(sentence: str) -> bool:
    """Does it tell the agent how to work from now on?"""
    if (
        len(sentence) > _RULE_CHARS
        or sentence[-1] in ":："
        or salience.is_question(sentence)
        or not salience.is_prose(sentence)
    ):
        return False
    said = QUOTED.sub(" ", sentence)
    return is_order(sentence) or lifts(sentence) or any(pattern.search(said) for pattern in _RULES)
