"""
Statements by their words: rules of a user, and which takes the place of an earlier one; outcomes and refusals of a reply;
values (an address, a price, a version, a date, a port) and the sentences that name them.

Pure. Somebody else's words, quotations, habits and permissions rule nothing. Of two rules only what they say counts: the same
said and forbidden, the earlier thing named behind "instead of", or a word of change with most words in common.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from ..records import Row
from . import markers, rule_forms, salience, subjects, turns
from .salience import lazy

_REMEMBERED: Final = 1500  # rules and replies whose reading is kept: most were there at the compaction before
_SAME: Final = 0.6  # of the words of the longer one
_LEAST_WORDS: Final = 3
_FEW_WORDS: Final = 4  # of a rule that one word of another can stand for
_NOT: Final = lazy(
    r"\b(?:never|don['’]?t|do not|no longer|not|avoid|stop|without|nie|niemals|nicht|keine?[nmr]?|nunca|jamás|no|ne|jamais|pas)\b"
    r"|不|别|勿|禁止",
    re.IGNORECASE,
)
_CORRECTS: Final = lazy(
    r"(?=\w)(?P<no>(?:(?:no|nope|nein|non|não|нет|nee|hayır|yok|actually|sorry|oops|wait|hm+|correction|doch)\b[\s,.:–-]*)+)?"
    r"(?P<make>(?:(?:please|let['’]?s) )*make (?:it|that) )?"
    r"(?P<rather>(?:rather|lieber|mejor|plutôt|meglio|melhor|лучше|liever|lepiej)\b,? )?"
    r"(?(no)|(?(make)|(?(rather)|(?!))))",
    re.IGNORECASE,
)
_FIGURE: Final = lazy(r"\d")
_IS: Final = lazy(r"\b(?:can|may|should|must|is|are)\b", re.IGNORECASE)
#: Of an order, that it is for no deed: "push nothing".
_NOTHING: Final = lazy(r"\b(?:nothing|nichts|nada|rien|niente|ничего)\b", re.IGNORECASE)
_CHANGE: Final = lazy(
    r"\b(?:from (?:now|here) on|going forward|instead|no longer|any ?more|actually|changed my mind|rather than|"
    r"as of (?:now|today)|ab (?:jetzt|sofort|heute)|von nun an|stattdessen|statt|nicht mehr|nur noch|doch lieber|"
    r"a partir de (?:ahora|hoy)|de ahora en adelante|en (?:lugar|vez) de|ya no|désormais|dorénavant|à partir de maintenant|"
    r"au lieu de|ne [^.]{1,40} plus)\b|改用|改为|改成|不再|从现在起|今后|以后",
    re.IGNORECASE,
)
_ELSE: Final = lazy(r"\binstead(?! of)\b|\bstattdessen\b|\ben su lugar\b|\bà la place\b|改用|改为|改成", re.IGNORECASE)
_INSTEAD_OF: Final = lazy(
    r"\b(?:instead of|rather than|statt|anstelle von|en (?:lugar|vez) de|au lieu de)\s+(?:the |a |an |my |our )?([\w-]+)",
    re.IGNORECASE,
)
#: A rule that its speaker lifts, without another in its place.
_LIFT: Final = lazy(
    r"\b(?:forget|drop|ignore|scrap|scratch|cancel|lift|undo|disregard|discard|revoke|remove) (?:about )?"
    r"(?:the|that|my|this|your) (?:[\w-]+ ){0,3}?(?:rule|instruction|preference|convention|wish|restriction)\b|"
    r"\b(?:no longer (?:need|have)|needn['’]?t|(?:do not|don['’]?t) (?:need|have)) to\b|\bno (?:longer )?need(?:ed)? to\b|"
    r"\brule\b[^.]{0,60}\b(?:no longer|not) (?:holds?|appl(?:y|ies)|valid|in force)\b|"
    r"\b(?:vergiss|ignoriere?|streiche?|verwirf) (?:bitte )?(?:die|diese|meine|das)\b[^.]{0,60}(?:regel|anweisung|vorgabe)|"
    r"\b(?:musst|brauchst|müsst|braucht)\b[^.]{0,80}\bnicht mehr\b|\bregel\b[^.]{0,60}\bgilt nicht mehr\b|"
    r"\b(?:olvida|ignora|cancela|quita) (?:la|esa|mi) (?:regla|instrucción|preferencia)\b|"
    r"\bya no (?:hace falta|es necesario|tienes que|necesitas|hay que)\b|"
    r"\b(?:oublie|ignore|annule) (?:la|cette|ma) (?:règle|consigne)\b|\bplus besoin d|"
    r"\b(?:dimentica|ignora|annulla) (?:la|quella|questa) regola\b|\b(?:esque[çc]e?a?|ignore|cancele) (?:a|essa|aquela) regra\b|"
    r"\b(?:забудь|отмени|убери)(?:те)? (?:это |то )?правило\b|(?:ルール|規則|決まり)は?(?:忘れて|取り消|なしに|無しに)|"
    r"규칙은?을? (?:잊어|취소|무시)|"
    r"(?:不用|不必|不需要|无需)再|(?:取消|忘掉|忽略|撤销)[^，。]{0,12}(?:规则|要求|规定)",
    re.IGNORECASE,
)
#: What makes a leave one for some cases only, or somebody else's.
_IN_SOME_CASES: Final = lazy(
    r"\b(?:if|when|whenever|once|as soon as|unless|until|after|before|while|except|only|provided|as long as|tomorrow|"
    r"says?|said|told|wenn|falls|sofern|sobald|solange|nur|erst|bis|sagt|si|cuando|hasta|solo|sólo|dice)\b|如果|只要|只有|除非|等|以后才|说",
    re.IGNORECASE,
)
#: What was forbidden, and is allowed from now on; no leave that has a condition.
_AGAIN: Final = "(?:now|again|from now on|after all)"
_NO_MORE: Final = (
    r"(?=\W*$|[.;!]|, (?!(?:but|only|except|unless|if|when|as (?:long|soon)|provided|after|before|once|while)\b)|"
    r" (?:since|because)\b)"
)
_ALLOWED: Final = lazy(
    r"(?:\byou (?:can|may|are allowed to)|\byou['’]re allowed to|\bit(?:['’]s| is) (?:ok(?:ay)?|fine|allowed) (?:for you )?to) "
    rf"(?:(?:now|again) ([^,.;!?]{{3,80}}?)|([^,.;!?]{{3,80}}?) {_AGAIN}){_NO_MORE}|"
    rf"\bfrom now on,? you (?:can|may) ([^,.;!?]{{3,80}}?){_NO_MORE}|"
    r"\bdu (?:darfst|kannst) (?=[^,.;!?]{0,80}\b(?:jetzt|nun|wieder|doch)\b)([^,.;!?]{3,80})"
    r"(?=\W*$|[.;!]|, (?!(?:aber|nur|außer|wenn|sofern|solange|falls)\b))|"
    r"\b(?:ya|ahora) puedes ([^,.;!?]{3,80})(?=\W*$|[.;!]|, (?!(?:pero|solo|sólo|salvo|si|excepto)\b))|"
    r"(?:现在|今后|以后)?可以([^，。；！？]{2,20})了(?=\W*$|[，。；！])",
    re.IGNORECASE,
)
_RULE_NAMED: Final = lazy(
    r"\b(?:rule|instruction|preference|convention|wish|restriction|regel|anweisung|vorgabe|regla|instrucción|preferencia|règle|"
    r"consigne|regola|regra|правило)\b|规则|要求|规定|ルール|規則|決まり|규칙",
    re.IGNORECASE,
)
#: What a rule that is lifted is about, where that is said: behind the word "rule", or in front of it.
_RULE_ABOUT: Final = lazy(
    r"(?:\b(?:rules?|instructions?|preferences?|conventions?|wish|restriction) "
    r"(?:about|on|for|of|regarding|concerning|with|that says)|"
    r"\b(?:regel|anweisung|vorgabe) (?:mit|zum?r?|über|für|bei|bezüglich|wegen|von)|"
    r"\b(?:regla|instrucción|preferencia) (?:sobre|del?|para|con)|"
    r"\b(?:règle|consigne) (?:sur|des?|du|concernant|pour|à propos de)|"
    r"\bregola (?:su\w*|de\w*|per|di)|\bregra (?:sobre|d[eoa]s?|para)|\bправило (?:об?|про|насч[её]т))\s+"
    r"(?P<about>[^,.;:!?–—]{2,60}?)(?=[,.;:!?–—]|$| (?:and|instead|from now|because|since|i|we|und|ab|y|et|e|и)\b| - )|"
    r"\b(?:the|that|my|this|your) (?P<front>(?!one\b|last\b|old\b|whole\b)(?:[\w-]+ ){1,3})"
    r"(?:rule|instruction|preference|convention|restriction)\b|"
    r"关于(?P<sinic>[^，。的]{2,20})的?(?:规则|要求|规定)",
    re.IGNORECASE,
)
_SEVERAL: Final = lazy(
    r"\b(?:rules|instructions|all|both|everything|any|regeln|alle|reglas|todas|règles|toutes)\b", re.IGNORECASE
)
_STEM: Final = 5  # letters of a word that tell it, whatever its ending
_LIFTING: Final = frozenset(
    word[:_STEM]
    for word in """forget drop ignore scrap scratch cancel lift undo disregard discard revoke remove rule instruction preference
    convention wish restriction about with in on for to of at from
    need needn needed have has hold apply valid force longer necessary because you
    vergiss ignoriere streiche verwirf diese meine regel anweisung vorgabe gilt mit den dem musst brauchst müsst
    olvida cancela quita esa regla instrucción preferencia hace falta que es necesario tienes hay sobre en
    oublie annule cette consigne plus besoin""".split()
)
_PERSONS: Final = frozenset(("him", "her", "ihn"))
_ONCE_MORE: Final = frozenset(("again", "wieder", "doch"))
#: What is lifted for once, or for one thing, holds on.
_ONCE: Final = lazy(
    r"\b(?:this time|for (?:this|that|now|the moment)|(?:just|only) (?:this|here|now|today|for)|in this case|today|right now|yet|"
    r"diesmal|dieses mal|heute|esta vez|por ahora|cette fois)\b|这次|今天|暂时",
    re.IGNORECASE,
)
#: Of this one thing, or this time, unless a firm word stands beside it.
_FOR_ONCE: Final = lazy(
    r"\b(?:this time|just this once|diesmal|dieses mal|esta vez|cette fois|desta vez|stavolta)\b|这次|今回|이번",
    re.IGNORECASE,
)
_FIRM: Final = lazy(
    r"\b(?:never|always|must(?:n['’]?t)?|prefer|from now on|going forward|no longer|not allowed|forbidden|only|all|any|"
    r"every\w*|each|whenever|(?:don['’]?t|do not)(?! forget)|stop|should)\b",
    re.IGNORECASE,
)
_THIS_ONE: Final = r"(?:the|it|this|that|them|me|us|him|her|these|those|my|your)\b"
_OF_ONE: Final = lazy(
    r"^(?=.*\binstead\b)(?:\W*(?:please|no|ok(?:ay)?|actually|so|then|and|but|let['’]?s|just|rather|instead)\b)*\W*"
    rf"(?:[a-z]+ (?:{_THIS_ONE}|an? (?:[\w-]+ )*?here\b))|"
    rf"^no, (?:please )?[a-z]+ (?:it|this|that|the)\b(?! \w+ should)|"
    rf"\bi want (?:it|this|that|you to|the \w+(?<!s)(?: by| as|\W*$))|"
    rf"\bmake sure (?:that )?(?:to \w+ )?{_THIS_ONE}|\b(?:remember|don['’]?t forget) (?:to \w+ )?{_THIS_ONE}",
    re.IGNORECASE,
)
#: Foods and the like that the speaker can never have.
_NEEDS: Final = lazy(
    r"\bi(?:['’]m| am) (?:(?!not\b)\w+ ){0,2}?(?:allergic to|vegan|vegetarian|(?:lactose|gluten)[- ]intolerant|"
    r"diabetic|coeliac|celiac)\b",
    re.IGNORECASE,
)
#: Scripts in which an order is told by its end.
_ENDS_TELL: Final = re.compile("[\u3040-\u30ff\uac00-\ud7af]")
_SHORT_STEM: Final = 4
_LONG_PLURAL: Final = 6  # letters of "entries", and not of "ties" or "series"
#: The verb of an English rule; of one that says what to use, the thing that the rule is about is where that is used.
_VERB: Final = lazy(
    r"^(?:\W*(?:from now on|going forward|in future|actually|please|always|never|ever|only|do not|don['’]?t|stop|avoid|no longer|"
    r"instead|you|must|should|not|so|ok(?:ay)?|no|and|but|also|now)\b)*\W*"
    r"(?P<verb>us(?:e|ing)|prefer|call|keep|stick|choose|put(?:ting)?|add(?:ing)?|include|set|show|"
    rf"(?:{'|'.join(sorted(salience.VERBS))}|answer|reply|respond|indent|speak|store|cite|deploy|provide|highlight|"
    rf"edit)(?:ing)?)\b",
    re.IGNORECASE,
)
_USES: Final = lazy(
    r"(?:us(?:e|ing)|prefer|call|stick|choose|put(?:ting)?|add(?:ing)?|include|set|show)$", re.IGNORECASE
)
_WHEN: Final = lazy(r"\b(?:for|on|when|whenever|before|after|during|if|about|while|unless)\b", re.IGNORECASE)
_WHERE: Final = lazy(
    r"\b(?:for|on|when|whenever|before|after|during|if|about|while|unless|in|inside|within|to|with|from|at)\b",
    re.IGNORECASE,
)
#: The same in German and French; in Spanish "en" tells the language to answer in, too.
_WHERE_ELSEWHERE: Final = lazy(r"\b(?:in|für|bei|vor|nach|dans|pour|avant|après)\b", re.IGNORECASE)
_HOW: Final = lazy(r"\b(?:in|to|with|as|under|at|from|by|within|into|using)\b", re.IGNORECASE)
#: Words that say nothing of a place; of what is done, files are something.
_VAGUE: Final = frozenset("code file everything everywhere".split())
_ALL: Final = _VAGUE - {"file"}
_USED: Final = r"\b(?:us(?:e|ing)|with|in|prefer|as|run|install|import|choose|stick to|put)\s+(?:only |the |a |an )?"
#: Of a text that nobody here said: a line in it that tells its reader what to do.
_COMMAND: Final = lazy(
    r"\b(?:from now on|going forward)\b|^(?:please |you )?(?:should |must )?(?:always|never) [a-z]+|"
    r"^please (?:do not|don['’]?t|run|send|delete|push|use|ask|tell|disable)\b|^请|^(?:始终|总是|务必|不要|禁止|从现在起)|"
    r"^(?:then |now )?(?:open|visit|click|paste|send|run|execute|install|delete|remove|disable|download|enter|tell|ask) "
    r"(?:the|your|all|an?|this|that|https?:|[`'\"])",
    re.IGNORECASE,
)
_PARTS: Final = lazy(r"((?:[.:;!] |[。：；！])+)")
#: A message that takes back the one before it.
_SAID: Final = r"what i(?:['’]ve)? (?:just )?(?:said|wrote|asked)"
_LAST: Final = r"(?:my|the|that) (?:last|previous|earlier) (?:message|request|instruction|order)s?"
_AND_NO_MORE: Final = (
    r"(?=\W*$|[,.;:!]| [–-] | (?:please|thanks?|now|then|and|i|we|it|let|just|instead|for now|"
    r"bitte|danke|por favor|gracias|merci|grazie)\b)"
)
_TAKEN_BACK: Final = re.compile(
    r"^\W*(?:(?:actually|sorry|oh|no|nope|ok(?:ay)?|wait|hm+|stopp?|please|thanks?|thank you|hey|(?:can|could|would) you|just|"
    r"i was wrong|my (?:bad|mistake)|ach|nein|halt|bitte|perdón|por favor|non|não)\W+){0,4}"
    r"(?:(?:never ?mind(?! (?:the|your|about the|if|how|what)\b)|nvm|i take (?:it|that) back|"
    rf"(?:scratch|scrap|undo|forget(?: about)?|ignore|disregard) (?:(?:it|that){_AND_NO_MORE}|{_SAID}|{_LAST})|"
    rf"drop (?:it|that){_AND_NO_MORE}|"
    rf"cancel {_LAST}|(?P<deed>(?:cancel|storniere?|cancela|annule|annulla|cancele) "
    rf"(?:that|das|eso|ça|quello|isso){_AND_NO_MORE})|"
    r"(?:streiche?|verwirf) (?:es|das)(?=\W*$|[,.!] | bitte\b)|d[ée]jalo(?=\W*$|[,.])|esque[çc](?:e|a) (?:isso|o que eu disse)|"
    rf"(?:deix[ae] (?:pra lá|isso)|lascia (?:perdere|stare)){_AND_NO_MORE}|dimentica(?:lo| quello che ho detto)|"
    r"vergiss(?: (?:es|das)(?! nicht\b)|,? was ich (?:gerade |eben |vorhin )?(?:gesagt|geschrieben) habe)|doch nicht|"
    r"ignoriere? (?:das|meine (?:letzte|vorige|vorherige) (?:nachricht|anweisung|bitte))|(?:ich )?nehme (?:das|es) zurück|"
    r"lass (?:es|das)(?: (?:bitte|lieber|sein|bleiben))*(?=\W*$|[,.!] )|"
    r"olvídalo|olvida (?:eso|lo que (?:he dicho|dije))|ignora (?:eso|mi (?:último|anterior) mensaje)|"
    r"oublie (?:ça|cela|ce que j['’]ai dit)|ignore (?:ça|mon (?:dernier|précédent) message)|"
    rf"laisse tomber{_AND_NO_MORE}|"
    r"забудь(?:те)?|отмена)\b|"
    r"算了(?![，, ]*[^，。,\s不别没]{2,12}(?:先|就|还是|暂时)?(?:不|别))|当我没说|取消吧|"
    r"(?:不用了[，,。！ ]*)?(?:请?(?:忽略|忘掉|忘了|撤回)(?:我|你)?(?:刚才|上一|之前)|刚才(?:说的)?都?不算)|"
    r"やっぱり(?:いい|やめ|なし)|今のは?(?:なし|忘れて)|없던 (?:걸|일)로|방금 (?:한 )?말은? (?:취소|무시|잊어))",
    re.IGNORECASE,
)
#: Behind the taking back: words that only thank, or say what it is about.
_ON_WHAT: Final = re.compile(
    r"^\W*(?:about|regarding|concerning|on|with|über|mit|wegen|sobre|thanks?|danke|gracias|merci)\b", re.IGNORECASE
)
_TAKING_BACK_CHARS: Final = 80
#: A message that takes back what was asked of one thing.
_OF_TOPIC: Final = re.compile(
    r"^\W*(?:(?:actually|sorry|oh|no|ok(?:ay)?|wait|please|and|ach|nein|bitte|hey)\W+){0,3}"
    rf"(?:(?P<said>(?:forget|ignore|disregard|scratch|scrap) {_SAID} (?:about|on|regarding) (?:(?:the|my|that) )?)|"
    r"(?:never ?mind|forget(?: about)?|scratch|scrap|vergiss|vergesst|olvida|oublie|laisse tomber|lascia (?:perdere|stare)|"
    r"забудь(?:те)?(?: про)?)"
    r"(?: (?:it|that|das|eso|ça))?(?: (?:about|with|mit|sobre|avec|pour))? "
    r"(?:the|my|that|die|den|dem|das|der|el|la|los|las|lo|le|les|il|la|i|gli) )(?P<topic>[^,.;:!?\n–]{2,40})",
    re.IGNORECASE,
)
_NO_TOPIC: Final = frozenset(("thin", "part", "idea", "requ", "task", "one", "stuf", "last", "mess", "rest", "sach"))
_NEAR: Final = 10  # messages of a speaker among which the one thing is looked for
_TOPIC_WORDS: Final = 20  # of a message that is about one thing
#: Speakers by message where only one speaks.
NOBODY: Final[Mapping[int, str]] = {}
_LEAST_HAN: Final = 4  # signs that say something
#: What an agent writes, and somebody may want none of.
UNWANTED: Final = (
    r"(?:emojis?|comments|placeholders?|mocks?|todos?|semicolons?|tabs|abbreviations|apologies|explanations?|markdown|filler|"
    r"fluff|disclaimers?|console logs?|external \w+|new dependencies|prints?|emdashes|em dashes)"
)
#: Rules of two words, and a "please": "never push", "no emojis".
_SHORT: Final = re.compile(
    r"\W*(?:please,? )?(?:(?:never|always|don['’]?t|niemals|nie|immer|nunca|siempre|jamais|toujours|sempre)\s+(?P<verb>[\w-]+)|"
    rf"no {UNWANTED}|be (?:concise|brief|terse))(?:,? please)?[\s.!]*$",
    re.IGNORECASE,
)
_LEAST_CJK: Final = 6  # signs of a rule in a script without blanks
QUOTED: Final = lazy(
    rf"\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|„[^“\n]*“|「[^」\n]*」|{salience.SINGLE}|(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`"
)
_NO_RULE: Final = lazy(
    r"^(?:error|warning|warn|fatal|info|debug|exception|note|remote)\b ?[:\]]|"
    r"^(?:(?:hypothetically|now|so|ok(?:ay)?|and|but|just)[, ]+)*(?:let['’]?s (?:assume|say)|"
    r"(?:let['’]?s )?(?:imagine|suppose|pretend)|say (?:i|we|you|they|he|she|it))\b|"
    r"^(?:angenommen|nehmen wir an|stell(?:t|en sie)? (?:dir|euch|sich) vor|supposons|imaginons|imagine[zs]?|supongamos|"
    r"imagina|допустим|представь(?:те)?|предположим)\b|^(?:假设|假如|假定)|"
    r"\b(?:says|said|states?|stated|tells|told|claims?|mentions?|reads|wrote|warned|insisted|according)\b[^.]{0,30}?"
    r"(?:[:,]| that\b| to\b| never\b| always\b)|"
    r"\b(?:do not|don['’]?t|doesn['’]?t|needn['’]?t) (?:have|need) to\b|\bno need to\b|"
    r"^(?:we|they|you) (?:do not|don['’]?t) need\b(?!.*\b(?:never|always)\b)|\bnot necessary\b|"
    r"^(?:the|an?|his|her|their|this) (?:[\w-]+ ){1,3}(?:complains?|insists?|prints?|shows?|warns?|reports?|demands?): |"
    r"\b(?:to|call(?:ed)?|named|titled|labell?ed) (?-i:Never|Always|Don['’]t|Do not|Must)\b|"
    r"^(?:please )?(?:write|tell|make up|compose|draft) (?:me )?an? [\w -]{1,40}\b(?:in which|about an?|who|whose)\b|"
    r"\bn['’]oublie[sz]? pas\b|^не (?:переживай|волнуйся|беспокойся|торопись)|"
    r"\bdon['’]?t (?:worry|bother|hesitate|mind|panic|rush|get me wrong)\b|\b(?:should|must) (?:never )?have been\b|"
    r"\bshould never happen\b|"
    r"^(?!\W*(?:if|when|whenever|whoever|once|unless|only|as soon as)\b)[^.:]{0,200}?"
    r"\b(?:replies|replied|answered|shouts?|shouted|whispers?|whispered|yells?|yelled|asks|asked)\b[^.:]{0,20}:|"
    r"\bmust (?:have )?been?\b (?:the|a|an|some)\b|\bi (?:always|never) (?!want|need|prefer|expect)|"
    r"\b(?:docs|people|some|others|experts) (?:always |often |usually )?say\b|, (?:says|said|sagt|dice|dit) \w|"
    r"^(?:never|always) (?:seen|saw|say never|had|been|heard|nice|an? (?:great |real )?(?:pleasure|joy|treat|delight)|here|"
    r"happy|glad|"
    r"(?:good|great) to|up for)\b|"
    r"^(?:thanks|thank you|thx)\b[^.]*\b(?:you|it|that) (?:always|never)\b|"
    r"^(?:please )?(?:translate|übersetze|traduce|traduis(?:ez)?)\b|^请?翻译|"
    r"^(?:(?:no|stop|wait|please|hey)\W+)*(?:do not|don['’]?t) (?:do|touch|change|delete|run) (?:that|this|it)"
    r"(?: (?:yet|now|please))?\W*$|"
    r"\bnever change\W*$|\b(?:you|he|she|they|that|it|this|there|which) must be\b|\bmust have [a-z]{2,}(?:ed|en|ne)\W*$|"
    r"^(?:it|this|that|there)(?:['’]s| is| was) (?:just |simply )?(?:always|never)\b|\b(?:i|we) (?:\w+ )?remember\b|"
    r"^remember (?:when|how|that time)\b|\bif (?:you|we|i|they) must\b|^(?:maybe|perhaps)\b|\bi(?:['’]d| would) never\b|"
    r"\bshould(?:n['’]?t| not| never) have (?:\w+(?:ed|en)|done|made|gone|let|put|said|told|sold|bought|brought|"
    r"sent|spent|lost|built|kept|come|run|paid|won|left|got)\b|"
    r"^(?:they|users?|people|customers?|clients?|he|she|everyone|everybody|nobody) (?:\w+ )?(?:(?:do not|don['’]?t) )?wants?\b|"
    r"\b(?:the|this|that|my|our|your|his|her|its|an?) (?:[\w'’-]+ ){1,3}(?:always|never) [a-z]{2,}[^s\W]s\b(?<!us)(?<!is)|"
    r"^(?:all|every|each|any|no one|nobody|everyone|everybody) (?:(?:[\w-]+ ){0,2}?(?:people|persons?|passengers?|players?|"
    r"teams?|"
    r"students?|kids|child(?:ren)?|guests?|members?|travell?ers?|citizens?|employees|visitors?|applicants?) must|"
    r"should have to)\b|"
    r"^instead of\b[^,.]*,? (?:we|it|they|he|she|the \w+) (?:now )?(?:have|has|is|are|was|were|got)\b|"
    r"^(?:immer|nie|niemals) (?:mehr|öfter|besser|schneller|langsamer|das (?:gleiche|selbe)|d(?:as|ie|er)selbe|"
    r"wenn (?:ich|wir|man|es|er|sie|der|die|das))\b|^keine? (?:zeit|problem|lust|angst|frage|panik|chance|idee|eile|stress|"
    r"antwort|sorgen?|ahnung|wunder)\b|^keinen? \w+ (?:gefunden|bekommen|gesehen)\b|\bdu (?:musst|sollst) (?:\w+ sein|leben)\b|"
    r"^\w+ (?:schlagen|laufen|scheitern|stürzen|hängen|gehen|funktionieren|starten|brechen|dauern|werden|sind|haben|können|"
    r"kommen|fehlen) |\bno haces falta\b|^no (?:pares|dejas) de (?:reír|llorar)\b|"
    r"^不要(?:紧|了)|^我(?!们)[^，。]{0,3}(?:必须|总是|始终|记住)|^以后(?:再说|我(?:可能|会|想|也)|可能)|^必须(?:说|承认)|"
    r"必须是在|"
    r"始终没|总是(?:报错|失败|出错|崩溃|没|忘|超时|卡|这么)|^(?:多?谢谢|多谢|感谢)(?![^。]*(?:以后|今后|从现在起|请|不要|必须))|"
    r"^(?:服务器|程序|系统|电脑|网络|页面|网站|老板|同事|[他她它]们?|这|那)[^，。]{0,6}(?:总是|始终)|"
    r"^no (?:me |lo |la |te )?(?:entiendes|sabes|tienes|quieres|crees|creas|ves|dices|puedes|eres|estás|haces|"
    r"preocupes)\b|^siempre (?:fallas|dices|haces)\b|"
    r"^(?:ne |n['’])(?:marche|fonctionne|va|est|sait|t['’]inquiète|vous inquiétez|te soucie) pas\b|"
    r"(?<!ich )\b(?:sagt|sagte|schreibt|schrieb|meint|meinte)\b[^.:]{0,20}:|\b(?:dijo|escribió|a dit|a écrit)\b[^.:]{0,20}:|"
    r"(?<!я )\b(?:сказала?|написала?)\b[^.:]{0,20}:|他说|她说|据说|写道|^(?:这|那)[^，。]{0,12}总是",
    re.IGNORECASE,
)
#: What somebody did, had or knew, however often, in words of the past: "we never deploy on Friday" is a rule, "deployed" is none.
_TOLD: Final = lazy(
    r"^(?:back then|in those days|autrefois|раньше)\b|^(?:früher|damals) \w+en? (?:wir|ich|man|es|sie|er)\b|"
    r"^antes,? (?:nunca|siempre)\b|\bthe (?:old|former) rule was\b|"
    r"^(?:not that|one (?:could|might))\b|\b(?:those|people|anyone) who (?:never|always)\b|"
    r"^(?:if|unless) (?:you|we|they|one) (?:never|always)\b[^,]*"
    r"(?:, (?:it|we|they|(?:the|your) \w+) |,? you(?: will|['’]ll) )\w|"
    r"^wenn (?:du|man|wir|ihr|sie|es)\b[^,]{0,40}\b(?:nie|niemals|immer)\b[^,]{0,60}, \w+ (?:du|man|wir|ihr|sie|es)\b|"
    r"^laut (?-i:(?:de[rm] )?[A-ZÄÖÜ])|"
    r", (?:my \w+|our \w+|he|she|they|somebody|someone) (?:always |once )?(?:said|says|told (?:me|us))\W*$|"
    r"\b(?:spec|standard|rfc|docs?|manual) (?:requires?|demands?) that\b|听说|有人说|都说|(?:文档|手册|网上)[里上]?(?:说|写)|"
    r"^(?:the|this|that|these|those|my|our|it|they)\b[^,;:]{0,60}\b(?:is|are) no longer (?!allowed|permitted|welcome|to be)|"
    r"\b(?<!prefer if )(?<!prefer it if )(?<!rather )(?:we|they|you|nobody|no one|everyone|everybody|people|users?|this|that|"
    r"it|(?:the|our|my) [\w-]+)"
    r"(?: (?:just|simply|really|also))? (?:never|always)(?: (?:really|actually|even|quite|fully|just))? "
    r"(?:(?!embed\b)[a-z]{2,}(?<!e)ed|had|got|found|saw|were|was|did|made|went|came|knew|heard|thought|said|told|took|ran|wrote|"
    r"built|spoke|met|felt|kept|left|sent|paid|lost|won|gave|became|brought|understood|know|understand|remember|seems?)\b|"
    r"\b(?:we|they|you|it|nobody|people)(?:['’](?:ve|d)| have| has| had) (?:just |really |also )?(?:never|always)\b|"
    r"^(?:we|they|he|she|i|(?-i:[A-Z])[a-z]+)(?:['’]ve| have| had)? (?:just |now )?"
    r"(?:decided|chose|chosen|opted|agreed|switched)\b(?!.*\b(?:never|always|must|no longer|from now on)\b|.*n['’]t\b)|"
    r"^(?:nie|niemals|immer|stets|keine?\w?)\b[^.,]{0,40}?\b(?:haben?|hat|hatten?|sind|war(?:en)?|wurden?|konnten?|wollten?) "
    r"(?:wir|ich|er|sie|es|man|jemand|niemand|die|das|der)\b|"
    r"^(?:no|nunca|jamás|siempre) (?:me |lo |la |se |nos )?(?:he|ha|hemos|han|hab[íi]a\w*|hub\w+|fu[ie]\w*|era\w*|estaba\w*|"
    r"tuv\w+|pud\w+|ten[íi]a\w*|pod[íi]a\w*)\b|"
    r"^n['’](?:ai?|as|avons|avez|ont|avai\w+|avions|était|étaient|y a)\b|^ne (?:sont|étions|fut|furent)\b|"
    r"(?:我们|大家|他们)[^，。]{0,4}(?:总是|始终)(?:没|忘|遇到|出现|出错|失败)|从来没|从未|"
    r"(?:항상|반드시)[^.]*[했었았였](?:다|어요|습니다)\W*$",
    re.IGNORECASE,
)
#: What a speaker is, does, has or supposes himself, in words that in an order would be a rule.
_OF_ONESELF: Final = lazy(
    r"(?:\bwould|['’]d) (?:never|always)\b(?! (?:want|expect|prefer|like)\b)|^i wish\b|\bif only (?:i|we|you|they|he|she|it)\b|"
    r"\beven if (?:i|we|you|they|it|he|she) (?:never|always)\b|\b(?:i|he|she|it|they|people|nobody|one) (?:can|"
    r"could) (?:never|always)\b|"
    r"\bi must (?!approve|agree|confirm|sign|see|know|review)|^(?:and |but |so |then )?you must [a-z]+ (?:it|this|"
    r"that)\W*$|\bor never\b|"
    r"\bnever (?:than|say never)\b|^(?-i:[A-Z][a-z]+) (?:never|always) [a-z]{2,}[^s\W]s\b(?!.* without\b)|"
    r"^nigdy nie (?:\w+[łm]\w{0,3}|mów)\b|^nie (?:mam|wiem|jestem|rozumiem|pamiętam|ma|jest)\b|"
    r"\bi(?:['’](?:m|ve|d|ll)| am| have| had| was| will) (?:\w+ )?(?:always|never)\b|"
    r"^from now on,? i(?:['’](?:m|ll)| am| will)\b(?! (?:only |always )?(?:the only|expect|want|need|accept|require|insist)\b)|"
    r"\bthanks for always\b|"
    r"(?:\b(?:is|are|was|were)|['’](?:s|re)) always (?:so|an?|special|great|fun|awesome|cool|amazing|nice|good|there|here|with|"
    r"my|happy|calm|\w+ing)\b|"
    r"\bmust(?:['’]ve| feel| be (?:such|quite an?|incredible|amazing|awesome|so \w+(?:ing|ful|ial|cool)|so cool|"
    r"really \w+ing))\b|"
    r"^must (?:have \w+(?:ed|en)\b|feel\b|be (?:so|really|awesome)\b)|\ba must\b(?! for (?:me|us)\b)|\bmust-\w|\bnever-\w|"
    r"\b(?:do not|don['’]?t|never|not) (?:ever )?(?:give up\b|quit(?=\W*$|,| on\b| -)|be (?:scared|afraid)\b)|"
    r"\bremind(?:s|ed|ing) (?:me|us)\b|\bremind (?:me|us) of\b|\bmade (?:me|us) remember\b|"
    r"\bi(?:['’]ll| can| will| could| also)?\b[^.]{0,80}(?<!want you )(?<!need you )"
    r"\b(?:to|and|also) make sure (?:everything|it|that|the)\b|"
    r"\b(?:i|you|he|she|it|they|we|there) must have\b|\b(?:do|does|did) not always\b|\b(?:i|we) should be\b|"
    r"\bshould be (?:good|fine|ok(?:ay)?|able|ready|eligible|easy|possible)\b|"
    r"\bmust be (?:[a-z]+(?:ing|ful|ous)|hard|nice|fun|tough|great|true)\b|"
    r"\bi (?:do not|don['’]?t) (?:actually|really) (?!want|need|prefer)|"
    r"\b(?:always|never) (?:gives|makes|lets|helps|reminds) (?:me|us)\b|"
    r"^(?:\w+,? )?(?-i:[A-Z][a-z]+) (?:wants|likes|prefers|would like)\b|"
    r"^if (?:you|we|they) (?:do not|don['’]?t)\b[^,]*, (?:i|we|it|that)\b|我(?:这种|们这些)[^，。]{0,6}(?:总是|始终)|"
    r"\b(?:i (?:guess|suppose|assume|bet)|by now)\W*$|"
    r"^no, (?:that['’]?s|it['’]?s|but|i think|i['’]m|i am|thanks?)\b(?!.*\b(?:never|always|don['’]?t|must|only|want|prefer)\b)",
    re.IGNORECASE,
)
#: Behind a "not": what is not to be used.
_NOT_THIS: Final = lazy(
    r"(?:\b(?:not|never(?: use)?|instead of|rather than|(?:do not|don['’]?t) use|no|nicht|statt|anstelle von|"
    r"keine?n?|en (?:lugar|vez) de|"
    r"au lieu d['e]|plutôt que|pas(?: de| d['’])?|invece di|non(?: usare)?|em vez de|não(?: use)?|вместо|"
    r"не(?: используй)?) |不要用?|别用|而不是|不是)"
    r"([^,.;:!?，。；！？]{2,40})",
    re.IGNORECASE,
)
#: What says that something be made or used, so that there may be no more of it.
_MAKES: Final = lazy(
    r"\b(?:us(?:e|ing)|add|includ|put|show|writ|creat|generat|mak(?:e|ing)|giv|send|provid|append|attach|post|print|ask|"
    r"schreib|verwend|be?nutz|füge?|mache?|erstell|gib|zeig|usa|escrib|añad|agreg|pon|incluy|haz|muestr|"
    r"utili[sz]|écri|ajout|mets|fais|montr|scriv|aggiung|metti|fai|inclu|escrev|adicion|coloqu|faça|пиш|добавл|использ|делай)|"
    r"[写加用添使書付]|追加|추가|작성|사용|써",
    re.IGNORECASE,
)
#: What says that something that is there be run: of which "no more" may mean that none be written.
_RUNS: Final = lazy(r"\b(?:run|execut|führe?|starte?|lass|ejecut|lance|esegu|запуск)|[運行]|运行|실행", re.IGNORECASE)
_BAN: Final = lazy(
    r"\b(?:do not|don['’]?t|nicht|no|ne|non|não|не)\b|不要|别|(?:し|さ)ないで|지\s?(?:마|말)", re.IGNORECASE
)
_CLAUSES: Final = lazy(
    r"[,;:.!]+(?=\s|$)|[，。；：！、]+| (?:but|and|aber|und|sondern|pero|y|mais|et|ma|e|mas|но|и|а) |但是?|可是"
)
#: Of a ban that a single order does not lift.
_FOR_GOOD: Final = lazy(
    r"\b(?:never|always|ever|from now on|every|each|any\w*|all|nothing|nichts|nada|niente|rien|ничего|without|"
    r"unless|until|till|before|after|if|when|while|"
    r"nie|niemals|immer|jede\w*|ohne|bis|bevor|wenn|ab jetzt|nunca|jamás|siempre|sin|hasta|antes|si|cuando|jamais|"
    r"toujours|sans|avant|mai|"
    r"sempre|senza|prima|sem|никогда|всегда|без|пока|если)\b|永远|绝对|千万|总是|每次|除非|之前|如果|絶対|常に|必ず|毎回|절대|항상|없이",
    re.IGNORECASE,
)
#: Words of a turn, or of a ban, that say nothing of what it is about.
_TURNING: Final = frozenset(
    """again back everywhere everything yet it that them those these all too then one right please using anything nothing nada
    change commit branch wieder doch überall alles dann noch zurück otra vez todo entonces encore tout alors de di do e
    снова опять все это еще ещё haz hagas haga faça faz fai fais fare machen mach mache but aber also
    anymore longer necessary needed ok okay jetzt ahora maintenant adesso ora agora сейчас теперь ya new""".split()
)
_SPEAKING: Final = frozenset(
    ("answer", "speak", "talk", "spreche", "sprich", "habla", "parle", "parla", "fala", "говори")
)
_NO_WORDS: Final[frozenset[str]] = frozenset()
_I_SAY: Final = lazy(r"\bi (?:said|told(?! (?:him|her|them|my|the|everyone|people)\b)|say)\b", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+(?:[./-]\w+)*")
_HYPHENS: Final = re.compile(r"(?<=\w)-(?=[^\W\d])")
_HAN: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_SAYS_NOTHING: Final = frozenset(
    """a always an and any anymore are be but do don don't going forward from i instead is it its longer make must my never no not
    now of on only or our please rather should so stop sure t than that the then they this to use using want we will you your
    actually avoid changed mind without me more uses usar
    ab bitte das der die du es ich immer jetzt kein keine keinen lieber mehr nicht nie niemals noch nun nur sofort statt stets und
    von wir a ahora de del el favor la las lo los no nunca por siempre un una usa ya y
    mir mich moi toi sempre nunca всегда никогда
    à au désormais dorénavant et jamais la le les lieu maintenant ne partir pas plus toujours
    不 要 别 必 须 总 是 请 用 使 以 后 从 现 在 起 改 为 再""".split()
)


def for_once(sentence: str) -> bool:
    """Does an order say that it holds this time only?"""
    return _FOR_ONCE.search(sentence) is not None


def may_amend(sentence: str) -> bool:
    """Does a sentence order that something be otherwise, if only for once?"""
    return (
        _ELSE.search(sentence) is not None
        and salience.is_directive(sentence)
        and not salience.is_question(sentence)
        and not _NO_RULE.search(QUOTED.sub(" ", sentence))
    )


def amends(later: str, earlier: str) -> bool:
    """Does an order of one thing say that it be otherwise, of which an earlier rule speaks?"""
    return may_amend(later) and not _words(later).isdisjoint(_words(earlier))


def may_correct(sentence: str) -> bool:
    """Does a sentence begin as one that gives what was said another value?"""
    return len(sentence) <= _TAKING_BACK_CHARS and _CORRECTS.match(sentence) is not None and not asks(sentence)


def corrects(later: str, rule: str, *, follows: bool) -> bool:
    """Does a sentence give a rule another value? ``follows``: it stands right behind it, so it need not name the thing.

    Without its thing it must have the place of the value: the word in front of it, or a figure as the rule has.
    """
    found = _CORRECTS.match(later) if may_correct(later) else None
    if found is None:
        return False
    said = _CLAUSES.split(later[found.end() :])[0].split()
    others = [each for each in said if not _FIGURE.search(each)]
    figures = len(others) < len(said) and _FIGURE.search(rule) is not None
    subject = _words(" ".join(said[:2]))
    if figures and found["no"] and not _words(rule).isdisjoint(subject) and _IS.search(" ".join(said)):
        return True
    if not follows or not 0 < len(said) <= _FEW_WORDS:
        return False
    in_place = len(said) > 1 and re.search(rf"\b{re.escape(said[0])} \w+", rule, re.IGNORECASE) is not None
    figures = figures and all(len(each) < _LEAST_WORDS or each in rule for each in others)
    anew = found["no"] is not None and found["make"] is not None and len(said) < _LEAST_WORDS
    return figures or anew or (in_place and found["rather"] is not None)


def takes_back(text: str) -> bool:
    """Does a message take back the one before it?"""
    return len(text) <= _TAKING_BACK_CHARS and _TAKEN_BACK.search(text) is not None


def wants_else(text: str) -> bool:
    """Does a message that takes back the one before it say something of its own as well?"""
    found = _TAKEN_BACK.search(text)
    if found and found["deed"]:  # "cancel that": what was asked may be done, and is to be undone
        return True
    rest = text[found.end() :] if found else text
    return not _ON_WHAT.match(rest) and (len(rest.split()) >= _LEAST_WORDS or len(_HAN.findall(rest)) >= _LEAST_HAN)


def standing(users: Sequence[Row], speakers: Mapping[int, str] = NOBODY) -> list[Row]:
    """Messages without those that were taken back by who said them, and without the taking back that says nothing else."""
    out: list[Row] = []
    for row in users:
        about = topic(row.text)
        back = not about and takes_back(row.text)
        if about or back:
            who = speakers.get(row.store_id)
            said = [n for n, each in enumerate(out) if speakers.get(each.store_id) == who][-_NEAR:]
            ruled = _is_of_words(row.text)
            last = next((n for n in reversed(said) if back or _is_about(out[n].text, about, ruled=ruled)), None)
            out = [each for n, each in enumerate(out) if n != last]
            back = back or (ruled and last is not None)
        if not back or wants_else(row.text):
            out.append(row)
    return out


def topic(text: str) -> frozenset[str]:
    """Stems of the one thing of which a message takes back what was asked; none where it says nothing of the kind."""
    found = _OF_TOPIC.match(text) if len(text) <= 2 * _TAKING_BACK_CHARS else None
    return _stems(_words(found["topic"])) - _NO_TOPIC if found and not lifts(text) else frozenset()


def _is_of_words(text: str) -> bool:
    """Does a message take back what was said of one thing, and not the thing: a rule of it as well?"""
    found = _OF_TOPIC.match(text)
    return found is not None and found["said"] is not None


def _is_about(text: str, about: frozenset[str], *, ruled: bool) -> bool:
    """Is it what a message asks for? A rule in it holds until it is lifted, unless what ``ruled`` is meant."""
    return (
        len(text.split()) <= _TOPIC_WORDS
        and about <= _stems(_words(text))
        and (ruled or not any(is_rule(each) for each in salience.sentences(text)))
    )


def is_rule(sentence: str) -> bool:
    """Does a sentence hold beyond the request it stands in? Questions and other people's words rule nothing."""
    said = QUOTED.sub(" ", rule_forms.without_tag(sentence))
    short = _SHORT.match(sentence)
    verb = (short["verb"] or "").lower() if short else ""
    if short is not None and (not verb or verb in salience.WORK or salience.orders_elsewhere(verb)):
        return True
    if len(sentence.split()) < _LEAST_WORDS and not (len(sentence) >= _LEAST_CJK and _HAN.search(sentence)):
        return False
    orders = rule_forms.is_formed(said)
    if not (orders or salience.is_standing(said) or _NEEDS.search(said)):  # nearly all: what follows is dear
        return False
    if not orders and (_ENDS_TELL.search(said) or (_OF_ONE.search(said) and not _FIRM.search(said))):
        return False
    if for_once(said):
        return False
    if asks(sentence) or not salience.is_prose(sentence):
        return False
    return _I_SAY.search(said) is not None or not any(each.search(said) for each in (_NO_RULE, _TOLD, _OF_ONESELF))


def asks(sentence: str) -> bool:
    """Does a sentence ask something, other than consent to what it orders?"""
    said = rule_forms.without_tag(sentence)
    return salience.is_question(said) and not rule_forms.is_condition(rule_forms.core(said))


def without_commands(line: str) -> str:
    """A line of a text that nobody here said, up to where it tells its reader what to do."""
    at = 0
    for part in _PARTS.split(line):
        if _COMMAND.search(part.strip()) or rule_forms.orders(part.strip()):
            return line[:at].rstrip()
        at += len(part)
    return line


@lru_cache(maxsize=_REMEMBERED)
def lifts(sentence: str) -> bool:
    """Does a sentence say that a rule holds no longer?"""
    lifting = _LIFT.search(sentence) is not None or _ALLOWED.search(sentence) is not None
    return lifting and not salience.is_question(sentence)


def is_order(sentence: str) -> bool:
    """Is it a rule by its verb, or by more than one word?"""
    return rule_forms.is_formed(QUOTED.sub(" ", rule_forms.without_tag(sentence))) and is_rule(sentence)


def replaces(later: str, earlier: str) -> bool:
    """Does a rule, or a turn, replace an earlier rule?"""
    if turns_from(later, earlier):
        return True
    if lifts(later):
        return _is_lifted(earlier, later)
    return (not may_turn(later) or is_rule(later) or may_amend(later)) and _says_otherwise(later, earlier)


def may_turn(sentence: str) -> bool:
    """Could it say, without the words of a rule, that an earlier one holds no longer?"""
    return turns.turn(sentence) is not None


def is_deed(sentence: str) -> bool:
    """Is it an order for now, which lifts a ban and rules nothing?"""
    found = turns.turn(sentence)
    return found is not None and found.kind == "do" and not is_rule(sentence)


#: Behind a verb, it makes another one of it.
_PARTICLE: Final = re.compile(r"(?<=\w )(?:back|off|out|up|away|over|around|through)\b", re.IGNORECASE)


def turns_from(later: str, earlier: str) -> bool:
    """Does a turn mean an earlier rule: its alternative, what it names as not to be used, what it makes, or what it forbids?"""
    turn = turns.turn(later)
    words = _words(turn.said) - _TURNING if turn is not None else frozenset()
    if turn is None or not words or lifts(earlier):
        return False
    if turn.kind == "do":
        orders = not _negative(later) and not _NOTHING.search(later) and not for_once(later)
        particle = _PARTICLE.search(turn.said)  # who is to push back does not push
        orders = orders and (particle is None or particle[0] in earlier)
        return orders and _stems(words) == _stems(_banned(earlier))
    if _is_of_several(earlier):
        return False
    if turn.kind == "end":
        makes = _MAKES.search(earlier) is not None or (turn.again and _RUNS.search(earlier) is not None)
        makes = makes and not _negative(earlier)
        return makes and words <= _made(earlier) and not turns.is_at_hand(turn.said, earlier)
    return words == _unwanted(earlier) or any(_is_other(words, each, earlier, again=turn.again) for each in words)


def _is_other(words: frozenset[str], word: str, rule: str, *, again: bool) -> bool:
    """Is a word of a turn the alternative to one of a rule, and all else the same?"""
    known = _words(rule)
    if word in known - _unwanted(rule):
        return False
    for other in _words(_NOT.split(rule, maxsplit=1)[0]):  # what it forbids is no alternative to what is wanted now
        kind = subjects.apart(word, other)
        rest = words - {word} - ({"in"} if kind == "speech" else _NO_WORDS)
        if kind == "speech" and not rest:
            rest = _SPEAKING & known
        if not kind or not rest <= known - {other} or (kind != "alone" and not rest):
            continue
        place = _thing(rule) or _NO_WORDS
        uses = _made(rule) - {other} <= words | _unwanted(rule) if kind == "alone" and _VERB.search(rule) else True
        if uses and (again or place - {other} - _VAGUE <= words | rest):
            return True
    return False


def _is_of_several(rule: str) -> bool:
    """Does a rule say several things, so that who turns from one of them means the others to hold?"""
    clauses = _CLAUSES.split(_NOT_THIS.sub(" ", rule_forms.core(rule)))
    return sum(bool(_words(each) - _TURNING) for each in clauses) > 1


def _unwanted(rule: str) -> frozenset[str]:
    """Words of what a rule names as not to be used: "npm, not pnpm"."""
    found = _NOT_THIS.search(rule)
    return _words(found[1]) - _TURNING if found else _NO_WORDS


def _made(rule: str) -> frozenset[str]:
    """Words of what a rule says to make or to use, without where and how."""
    verb = _VERB.search(rule)
    return _words(_HOW.split(_WHERE_ELSEWHERE.split(_WHERE.split(rule[verb.end() if verb else 0 :])[0])[0])[0])


def _banned(rule: str) -> frozenset[str]:
    """Words of what a rule forbids for now; none where it holds for good or has a condition."""
    clauses = [each for each in _CLAUSES.split(rule) if _BAN.search(each)]
    if len(clauses) != 1 or _FOR_GOOD.search(rule):
        return _NO_WORDS
    return _words(clauses[0]) - _TURNING


def _says_otherwise(later: str, earlier: str) -> bool:
    """Do the words of a rule say the opposite of an earlier one, or another value of the same thing?"""
    new, old = _words(later), _words(earlier)
    forbidden = _negative(later), _negative(earlier)
    if not new or not old or (new == old and forbidden[0] == forbidden[1]) or not _of_the_same(later, earlier):
        return False
    if len(new & old) >= _SAME * max(len(new), len(old)):
        if forbidden[0] != forbidden[1]:  # "never in Python" says nothing of "always in Go"
            return _stems(new) <= _stems(old) or (_CHANGE.search(later) is not None and _stems(old) <= _stems(new))
        return not forbidden[0] and _CHANGE.search(later) is not None
    return not forbidden[1] and len(old) <= _FEW_WORDS and _names_as_gone(later, earlier)


def meant(later: str, replaced: Sequence[str]) -> Sequence[str]:
    """Earlier rules that a rule takes back, of those whose words match, oldest first: "forget that rule" takes back one.

    A turn that may mean rules of several things takes back none.
    """
    if len(replaced) > 1 and not lifts(later) and len({_thing(each) for each in replaced}) > 1:
        return [each for each in replaced if _says_otherwise(later, each)]
    if len(replaced) < 2 or not lifts(later) or not _RULE_NAMED.search(later) or _SEVERAL.search(later):
        return replaced
    topic = _stems(_words(_lifted(later)), _STEM) - _LIFTING

    def closeness(rule: str) -> float:
        known = _stems(_words(rule), _STEM)
        return len(topic & known) / max(1, len(known))

    return [max(reversed(replaced), key=closeness)]


def _lifted(lifting: str) -> str:
    """Subject of the rule that a sentence lifts; the whole sentence where it names none."""
    named = _RULE_ABOUT.search(lifting)
    return next(filter(None, named.groups()), lifting) if named else lifting


def _is_lifted(rule: str, lifting: str) -> bool:
    """Is a rule what another one lifts, for good and whole?"""
    if lifts(rule) or _ONCE.search(lifting):
        return False
    if (allowed := _ALLOWED.search(lifting)) and not _LIFT.search(lifting):
        if _IN_SOME_CASES.search(lifting):
            return False
        words = _words(next(filter(None, allowed.groups())))
        topic = _stems(words - _ONCE_MORE - _PERSONS, _STEM)
        bans = [each for each in _CLAUSES.split(rule) if _negative(each)]  # beside it stands why, or how long
        banned = [_stems(_words(each), _STEM) for each in (rule, *(bans if len(bans) == 1 else ()))]
        one = not words.isdisjoint(_PERSONS)  # "ping him": of whom the ban says the name
        return (
            _negative(rule)
            and bool(topic)
            and any(topic == each or (one and topic < each and len(each) - len(topic) == 1) for each in banned)
        )
    said = _lifted(lifting)
    phrases = [phrase for split in (_WHEN, _WHERE_ELSEWHERE) for phrase in split.split(said)[1:]]
    topic, part = _stems(_words(said), _STEM) - _LIFTING, _stems(_words(" ".join(phrases)), _STEM) - _LIFTING
    known = _stems(_words(rule), _STEM)
    if not _RULE_NAMED.search(lifting) and not _HAN.search(lifting):  # what names more is an exception
        return bool(topic) and topic <= known
    return bool(topic) and part <= known and len(topic & known) >= _SAME * len(topic)


def _names_as_gone(later: str, earlier: str) -> bool:
    """Is what a rule says "instead of" what the earlier one says to use?"""
    gone = _INSTEAD_OF.search(later)
    used = gone is not None and re.search(rf"{_USED}{re.escape(gone[1])}(?!\w)", earlier, re.IGNORECASE)
    return bool(used)


def _of_the_same(later: str, earlier: str) -> bool:
    """Are two rules of the same thing, as far as their words say of what they are? An exception is of less."""
    new, old = _thing(later), _thing(earlier)
    return new is None or old is None or new <= old


@lru_cache(maxsize=_REMEMBERED)
def _thing(rule: str) -> frozenset[str] | None:
    """Words of what a rule is about, in English: where and when something is used, or what is done; None where no verb tells."""
    verb = _VERB.search(rule)
    if verb is None:
        phrases = _WHERE_ELSEWHERE.split(rule)
        return frozenset().union(*map(_words, phrases[1:])) if len(phrases) > 1 else None
    said = _INSTEAD_OF.sub(" ", _CHANGE.sub(" ", rule[verb.end() :]))
    uses = _USES.match(verb["verb"]) is not None
    phrases = (_WHERE if uses else _WHEN).split(said)
    words = set[str]().union(*map(_words, phrases[1:])) - _VAGUE
    if not uses:
        words |= _words(_HOW.split(phrases[0], maxsplit=1)[0]) - _ALL
    return frozenset(words)


def _stems(words: frozenset[str], length: int = _SHORT_STEM) -> frozenset[str]:
    return frozenset(word[:length] for word in words)


@lru_cache(maxsize=_REMEMBERED)
def _negative(rule: str) -> bool:
    return _NOT.search(rule) is not None


@lru_cache(maxsize=_REMEMBERED)
def _words(rule: str) -> frozenset[str]:
    """Subject of a rule: its words without those that only make it a rule; of Chinese and Japanese the pairs of signs."""
    found = set[str]()
    for word in _WORD.findall(_HYPHENS.sub(" ", rule.casefold())):
        if _HAN.search(word):
            signs = [sign for sign in word if sign not in _SAYS_NOTHING]
            found.update(_plain("".join(pair)) for pair in pairwise(signs))
        elif word not in _SAYS_NOTHING:
            found.add(_plain(word))
    return frozenset(found - _SAYS_NOTHING)


def _plain(word: str) -> str:
    """Form of a word for comparisons: the name of its thing in any language, else the word without a plural s."""
    if len(word) > _LONG_PLURAL and word.endswith("ies"):
        return subjects.same(word) or f"{word[:-3]}y"
    return subjects.same(word) or (word[:-1] if len(word) > 3 and word.endswith("s") else word)


# -- outcomes of replies ------------------------------------------------------------------------------------
FENCED: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
READING: Final = re.compile(r"(?:^|_)(?:read|view|open|cat|search|grep|list|get|find)", re.IGNORECASE)
_DEEDS: Final = (
    r"(?:added|changed|removed|updated|moved|ported|created|fixed|copied|deleted|restored|booked|cancell?ed|committed|simplified|"
    r"replaced|renamed|implemented|transferred|wrote|written|built(?!-)|installed|switched|upgraded|merged|published|deployed|"
    r"pushed|"
    r"scaled|rolled back|reserved|extended|rescheduled|renewed|restarted|rebooted|ordered|refunded|enabled|disabled|reverted|"
    r"archived|set(?= to \W?\d)|uploaded|scheduled|set up|raised|lowered|increased|reduced|shipped)"
)
#: What nobody did: "Merged: no."
_NONE: Final = r"(?!\s*(?:no|none|not|nothing|never|nein|nichts|kein\w*|ninguno|nada|\d{4}-\d\d)\b)"
#: German words for what was looked at, thought or said, not done.
_SEEN: Final = (
    r"(?!ge(?:lesen|sehen|funden|prüft|sucht|schaut|guckt|hört|dacht|fragt|sagt|meint|wartet|testet|merkt|wusst|habt|"
    r"wesen|braucht|"
    r"glaubt|hofft|zählt|sprochen)\b|(?:analys|notier|recherch|identifiz|lokalis|diagnost|verifiz|interpret|kapier|studier))"
)
_DEEDS_ELSEWHERE: Final = (
    rf"ich habe (?:[^.:\n]|\.(?=\w)){{1,90}}\b{_SEEN}(?:ge\w+(?:t|en)|\w+iert|be(?:hoben|arbeitet|reinigt)|"
    r"er(?:stellt|gänzt|setzt|ledigt|neuert)|entfernt|hinzugefügt|"
    r"(?:an|ab|auf|aus|ein|um|hoch|zurück|frei|zusammen)ge(?:legt|passt|tragen|richtet|fügt|baut|schickt|schlossen|räumt|tauscht|"
    r"laden|stellt|zogen|setzt|führt|geben|rollt|sagt|bucht|spielt)|umbenannt)\b|"
    r"(?:ya )?he (?:creado|corregido|cambiado|añadido|eliminado|actualizado|arreglado|instalado|movido|"
    r"pedido|reservado|enviado|cancelado|programado|configurado|escrito)\b|"
    r"j['’]ai (?:supprimé|corrigé|ajouté|créé|modifié|mis à jour|installé|déplacé|renommé|commandé|réservé|envoyé|annulé)\b|"
    r"ho (?:creato|corretto|aggiornato|aggiunto|eliminato|prenotato|inviato|installato)\b|"
    r"(?:eu )?(?:criei|corrigi|atualizei|adicionei|removi|reservei|enviei|instalei)\b|"
    r"(?:cread|corregid|cambiad|añadid|eliminad|actualizad|arreglad|instalad|movid|reservad|enviad|cancelad|programad|"
    rf"configurad)[oa]s?(?=:{_NONE}|[.!]|\W*\Z| (?:con|el|la|los|las|para|en|a|al)\b)|"
    r"(?!funktion|exist|notier|registr|gefund|geles|geseh|geprüf|gehör|gemerk|vorgemerk)"
    r"(?:ge\w{2,}(?:t|en)|\w{2,}ge\w{2,}(?:t|en)|\w{3,}iert)"
    rf"(?=:{_NONE}| auf [^.]{{0,12}}\d)|"
    r"(?:я )?(?:исправил|добавил|удалил|создал|обновил|переименовал)\w*\b"
)
_DONE: Final = re.compile(
    rf"^\W*(?:(?:done|fixed|finished|completed|committed|updated)(?::{_NONE}|(?!:))|"
    r"all (?:tests|checks|clean|done|set|committed)|"
    rf"perfect\W+(?:i|the|now)|i(?:['’]ve| have)? (?:now |just |successfully |also )*{_DEEDS}|"
    rf"(?:it|that|this|the (?:[^.\n]|\.(?=\w)){{1,60}}) (?:is|works|are) (?:now )?(?:done|fixed|{_DEEDS})|"
    rf"(?:successfully )?{_DEEDS} (?:the|a|an|all|your|\d|to|from|it|them|both|[\w./-]+ (?:to|from|on|for|in|with|by|into|as)\b)|"
    rf"{_DEEDS}(?::{_NONE}|[.!*\s]*\Z)|(?:it|that)(?:['’]s| is) (?:in|out|live|gone)(?=[.!:]| now\b)|"
    rf"successfully {_DEEDS}|all (?:\d+ )?(?:tests|checks) pass|"
    r"(?:the|your) (?:[^.\n]|\.(?=\w)){1,90} (?:has|have) been (?:successfully )?\w+|"
    r"完成|我?已(?!经?(?:看|读|查|了解|知道|收到|检查|分析|理解|明白))|"
    rf"好了|fertig|erledigt|listo|hecho|terminado|c['’]est fait|готово|{_DEEDS_ELSEWHERE})",
    re.IGNORECASE,
)
_PARTICIPLES: Final = (
    r"(?:fixed|created|pushed|merged|deleted|removed|added|updated|renamed|moved|installed|deployed|sorted|formatted|"
    r"translated|sent|"
    r"committed|cleaned|refactored|migrated|upgraded|configured|generated|written|saved|published|released|closed|resolved|"
    r"implemented|converted|replaced|copied|uploaded|booked|cancell?ed|scheduled|archived|restored|reverted|reserved|renewed|"
    r"restarted|rebooted|set(?= to \W?\d)|scaled|extended|rescheduled|rolled back|ordered|refunded|registered|confirmed|"
    r"enabled|disabled|raised|lowered|increased|reduced|shipped|stopped|paused)"
)
#: Further deeds with which a reply begins; none that is an order as well ("set the timeout"), or tells of a kind.
_BEGUN_BY: Final = (
    r"(?:sent|converted|refactored|extracted|closed|documented|translated|formatted|cleaned(?: up)?|migrated|configured|"
    r"generated|saved|resolved|bumped|tagged|rewrote|adapted|adjusted|improved|optimi[sz]ed|applied)"
)
_NO_KIND: Final = r"(?![^.,;!?\n]{0,60}(?:\b(?:is|are|was|were|can|should|must|will|means?|has|have)\b|:))"
#: A first sentence that says of a thing what was done to it.
_THING: Final = r"(?:[^.!?\n]|\.(?=\w))"  # a sign of what something is called: "belege.csv" too
_A_FILE: Final = r"[\w./-]+\.\w{1,8}"
_IS_DONE: Final = re.compile(
    rf"^\W*(?:i(?:['’]ve| have)? (?:now |just |successfully )?(?:sent|split|set(?= the)|sorted|formatted|translated|"
    rf"refactored|migrated|converted|configured|generated|cleaned|archived)\b|"
    rf"(?:i(?:['’]ve| have)? (?:now |just |also )?)?{_BEGUN_BY} (?:(?:the|all|your|both|it|them|\d+)\b|`|[\w/-]+\.\w){_NO_KIND}|"
    rf"{_DEEDS} (?:`|(?-i:[A-Z])|[\w/-]+\.\w){_NO_KIND}|"
    r"(?!(?:since|as|because|here|there|you|if|when|although|while|after|before)\b)(?:[^.!?:\n]|\.(?=\w)){2,70}? "
    rf"(?:(?:is|are|has been|have been) (?:now |all )?)?(?:successfully )?(?<!was )(?<!were )(?<!i )(?<!you )(?<!we )(?<!be )"
    rf"{_PARTICIPLES}(?=\W*\Z|[.,!;:\n]| (?:in|and|to|from|on|with|as|for|at|now)\b)|"
    r"(?!(?:since|as|because|here|there|you|if|when|although|while|after|before)\b)(?:[^.!?:\n]|\.(?=\w)){2,60}? (?:is|are) "
    r"(?:now (?:on|at|live|running|up|set to|online|available|in place|back)|back(?= (?:to|at|on|in)\b))\b|"
    r"[^。！？\n]{1,60}(?:更新|修正|作成|追加|削除|変更|移動|実装|設定|送信|予約|完了|保存|公開|統合|書き換え|書き直|置き換え)"
    r"(?:を|が)?(?:し|され|えられ)?ました|"
    r"(?:the|your|it|both|all) (?:[^.!?:\n]|\.(?=\w)){0,60}?\bnow (?!fails|breaks|throws|crashes|needs|wants|appears|seems|looks|"
    r"says|is\b|has\b|was\b)[a-z]{3,}s\b|"
    rf"(?:(?:die|der|das|alle|dein\w*) {_THING}{{1,60}}|{_A_FILE}) (?:ist|sind|wurden?)(?: jetzt| nun| alle)* "
    r"(?:[^.!?\n]{0,30} )?"
    r"(?:ge\w+(?:t|en)|\w+iert|(?:be|ent|er|ver)\w+t|\w+ge\w+(?:t|en)|fertig|auf dem neuesten stand)\b|"
    rf"(?:(?:el|la|los|las|todos?|todas?) {_THING}{{1,60}}|{_A_FILE}) (?:está|están|ha sido|han sido|fue|fueron|quedó|quedaron)"
    r"(?: ahora| ya)* "
    r"\w+(?:ad|id)[oa]s?\b|"
    rf"(?:(?:le|la|les|tout|toutes) {_THING}{{1,60}}|{_A_FILE}) (?:est|sont|a été|ont été)(?: maintenant)? \w+(?:é|i|u)e?s?\b|"
    r"[^，。！？\n]{0,20}(?:已经|已|都)(?:被)?(?:[^，。！？\n]{1,4}完成|迁移|更新|删除|修复|添加|创建|完成|修改|移动|部署|提交|合并|安装|升级|重命名|发送|"
    r"替换|生成|保存|翻译|清理|推送|"
    r"改为|改成|设为|设置|恢复|写好|改好|处理))",
    re.IGNORECASE,
)
_UNDONE: Final = re.compile(
    r"\b(?:not|no|none|never|nothing|nobody|will|to|should|could|can|must|would|may|might|if|when|once|until|being|almost|partly|"
    r"partially|half|only|some|nicht|noch|kein\w*|fast|nur|teilweise|werden|wird|aún|todavía|casi|sólo|solo|pas|presque|"
    r"encore)\b|"
    r"n['’]t\b|[没不未还只]",
    re.IGNORECASE,
)
#: What in the same sentence takes it back.
_BUT: Final = re.compile(
    r"\b(?:but|however|so|therefore|which|fail\w*|missing|error|not|cannot|broken?|aber|deshalb|fehl\w*|pero|por eso|mais)\b|"
    r"n['’]t\b|\?|但|所以|失败",
    re.IGNORECASE,
)
_FIRST: Final = re.compile(r"[^.!?\n。！？]*[.!?。！？]?")
#: What a reply begins with that only seems to tell of an end.
_OPEN: Final = re.compile(
    r"^[^.!?\n]{0,90}?\b(?:(?:not|n['’]t|noch nicht) (?:\w+ ){0,3}(?:yet|so far|done|finished|fixed|ready|complete|fertig)|"
    r"nothing|nichts|almost|fast fertig|zur hälfte|(?:first|one|other) half|partly|partially|\d+ of (?:the )?\d+|"
    r"still (?:open|fails?|failing|missing|occurs?|broken)|been (?:declined|rejected|denied|refused|postponed))\b"
    r"|\b(?:is|are) still (?:open|missing|to (?:do|come|be))\b|\bremains? (?:open|to be)\b"
    r"|\b(?:(?:is|are) not|isn['’]t|aren['’]t) (?:\w+ ){0,3}yet\b|\b(?:ist|sind) noch nicht\b|\b(?:aún|todavía) no est"
    r"|^[^.!?\n]{0,60}(?:\w*error|\w*exception|warnings?|concerns?|alarms?) (?:is|are|was|were|been) raised\b"
    r"|^[^.!?\n]{0,60}\b(?:bugs?|errors?|issues?|problems?|failures?|crash\w*|timeouts?) (?:is|are) back\b"
    r"|\bback (?:to|at|on) (?:red|failing|zero)\b"
    r"|^[^.!?\n]{0,60}\bstopped (?:with|because|due|unexpectedly|working|responding)\b"
    r"|^\W*\w+\? (?:no|not|almost|nearly)\b|\b(?:shall|should|may) i (?:start|begin|apply|implement)\b"
    r"|\bsoll ich (?:so )?(?:anfangen|beginnen|loslegen|(?:das|es|ihn) (?:so )?(?:umsetzen|anwenden))\b"
    r"|\b(?:plan|proposal|draft|outline|approach)\b[^?]{0,300}\b(?:shall|should|may) i (?:proceed|go ahead)\b",
    re.IGNORECASE,
)
#: Words that tell of a change.
DID: Final = re.compile(rf"\b(?:{_DEEDS}|uses?|used|now|set)\b|已|改|新增|删除", re.IGNORECASE)
_DOING: Final = re.compile(
    r"(?:^|[_.-])(?:book|cancel|update|create|send|delete|remove|transfer|schedule|reschedule|post|publish|submit|order|pay|"
    r"reserve|"
    r"add|set|assign|close|reopen|merge|approve|reject|invite|reply|deploy|release|upload|rename|move|archive|subscribe|"
    r"charge|refund|"
    r"enable|disable|start|stop|restart|modify|exchange|return)(?=[_.-]|$)",
    re.IGNORECASE,
)

_REFUSED: Final = re.compile(
    r"\b(?:cannot|can't|unable to|not (?:allowed|eligible|possible|permitted|refundable|supported)|only if)\b|"
    r"\bpolicy\b.{0,60}\b(?:only|strict|no|not|states|requires?|allows?)\b|\b(?:given|under|due to|per) [^.]{0,30}\bpolicy\b|"
    r"不能|无法|不允许",
    re.IGNORECASE,
)


def changes_something(tool: str) -> bool:
    """Does a tool change something, by the verb in its name?"""
    return _DOING.search(tool) is not None and READING.match(tool) is None


@lru_cache(maxsize=_REMEMBERED)
def _own(reply: str) -> str:
    """A reply without the recalled memory that it repeats."""
    return markers.unrecalled("assistant", reply, blanks=False)


@lru_cache(maxsize=_REMEMBERED)
def outcome(reply: str) -> str:
    """The sentence in which a reply says what was done; "" where it does not say that the work is finished."""
    reply = _own(reply)
    if not (_DONE.search(reply[:400]) or _is_done(reply[:200])) or _OPEN.search(reply[:400]):
        return ""
    said = [sentence for sentence in salience.sentences(FENCED.sub("\n", reply[:6000])) if 20 <= len(sentence) <= 240]
    telling = [
        sentence
        for sentence in said
        if DID.search(sentence) and _tells(sentence) and len(sentence.split()) > 3 and salience.is_prose(sentence)
    ]
    whole = [sentence for sentence in said if _tells(sentence)]
    return (telling or whole or [" ".join(reply.split())[:160]])[0]


def _is_done(head: str) -> bool:
    found = _IS_DONE.match(head)
    return found is not None and not _UNDONE.search(found[0]) and not _BUT.search(_first(head))


def _first(text: str) -> str:
    found = _FIRST.match(text.lstrip())
    return found[0] if found else ""


def _tells(sentence: str) -> bool:
    """Is it more than the head of a list?"""
    return not sentence.rstrip("*_ ").endswith(":")


@lru_cache(maxsize=_REMEMBERED)
def refusals(text: str) -> tuple[str, ...]:
    """Sentences that say that something is not possible."""
    head = _own(text)[:6000]
    if not _REFUSED.search(head):
        return ()
    return tuple(
        sentence
        for sentence in salience.sentences(FENCED.sub("\n", head))
        if 40 <= len(sentence) <= 300
        and sentence[-1] not in '?"”'
        and _REFUSED.search(sentence)
        and "polog" not in sentence
    )


# -- values -------------------------------------------------------------------------------------------------------
_NAMED_CHARS: Final = 8_000  # of a message in which values are looked for
_REMEMBERED_HEADS: Final = 4000  # of messages: most were there at the compaction before
_NAMING: Final = (20, 400)  # characters of a sentence
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_VALUE: Final = re.compile(
    r"https?://[^\s)\]>`\"',]+|[$€£]\d[\d,]*(?:\.\d+)?|#[0-9a-fA-F]{6}\b|\b\d{4}-\d\d-\d\d\b|(?<![\w.])v?\d+\.\d+\.\d+(?![\w.])|"
    rf"\b{_MONTH}\.? \d{{1,2}}(?:, \d{{4}})?\b|\b[A-Z]{{2,}}-\d+\b|\b\d+(?:\.\d+)?%|(?:(?<=port )|(?<=localhost:))\d{{2,5}}\b"
)
_MAY_NAME: Final = re.compile(r"\d|://|#[0-9a-fA-F]{6}")


class Naming(NamedTuple):
    """A sentence with values: does it tell of a change, and each value with where it stands."""

    text: str
    changes: bool
    values: tuple[tuple[str, int, int], ...]


def naming(text: str) -> tuple[Naming, ...]:
    """Sentences of a message that name values; none of the code in it."""
    return _naming(_own(text)[:_NAMED_CHARS])


@lru_cache(maxsize=_REMEMBERED_HEADS)
def _naming(head: str) -> tuple[Naming, ...]:
    salience.pause()
    if not _MAY_NAME.search(head):
        return ()
    out = []
    for sentence in salience.sentences(FENCED.sub("\n", head)):
        if _NAMING[0] <= len(sentence) <= _NAMING[1] and _MAY_NAME.search(sentence):
            found = tuple((match[0].rstrip("."), *match.span()) for match in _VALUE.finditer(sentence))
            if found:
                out.append(Naming(sentence, bool(DID.search(sentence)), found))
    return tuple(out)


def value_in(text: str) -> str:
    """The first value of a text; "" where there is none."""
    found = _VALUE.search(text)
    return found[0].rstrip(".") if found else ""
