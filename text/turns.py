"""
Turns: a change of what holds, said without the words of a rule, in ten languages: "back to npm", "no more emojis", "push now".

Pure. A form only tells what is said to hold, to be gone or to be done; which earlier rule it means, if any, its words decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from . import rule_forms, salience
from .salience import lazy

_REMEMBERED: Final = 1500
_CHARS: Final = 80  # of a turn: what is longer says more
_ORDER_WORDS: Final = 5  # of an order for what was forbidden
#: Who says so holds something else from now on.
_SAYS_SO: Final = (
    r"(?:(?:i(?:['’]ve| have)? )?(?:just )?changed my mind(?: again)?(?: (?:about|on)(?: (?:that|this|it|those|"
    r"these|the))?)?|on second thoughts?|"
    r"change of plans?|(?:ich )?hab(?:e?['’]?s|e)? (?:es |das )?mir(?: es| das)?(?: doch)? anders überlegt|"
    r"(?:ich habe )?(?:meine )?meinung geändert|planänderung|kommando zurück|(?:he cambiado|cambié) de (?:idea|opinión)|"
    r"pensándolo mejor|j['’]ai changé d['’]avis|réflexion faite|ho cambiato idea|ripensandoci|mudei de (?:ideia|opinião)|"
    r"pensando melhor|(?:я )?передумала?|我?(?:改(?:变)?主意|改变想法)了?|(?:気|考え)が変わ(?:った|りました)|"
    r"(?:마음|생각)이 바뀌었(?:어요?|습니다))(?![^\W\u3040-\u30ff\u3400-\u9fff])[\s,.:;!–—，。：；、-]*"
)
_SIGN: Final = lazy(_SAYS_SO, re.IGNORECASE)
_BARE: Final = lazy(rf"(?:{_SAYS_SO})(?:(?<=the )[\w-]+(?: [\w-]+)?)?[.!:。！]*", re.IGNORECASE)
#: What was before holds again.
_BACK: Final = lazy(
    r"(?:(?:let['’]?s|please|we|i want to|we should|and|so) )*(?:(?:go|switch|move|change|return|revert|"
    r"get) )?back to (?P<en>.+)|"
    r"(?:(?:let['’]?s|please) )*(?:return|revert) to (?P<rev>.+)|"
    r"(?:(?:bitte|jetzt|nun|geh|gehe|lass uns|wir gehen|wir) )*(?:doch )?(?:zurück zu[mr]?|doch wieder|wieder) (?P<de>.+)|"
    r"(?:volvamos|vuelve|volver|regresa|regresemos|de vuelta) (?:a(?: los| las| la)?|al) (?P<es>.+)|"
    r"(?:retour|reviens|revenons|revenez) (?:à|aux?|en) (?P<fr>.+)|"
    r"(?:torna|torniamo|ritorna|ritorniamo) (?:a|al|alla|ai|alle|agli|all['’]) ?(?P<it>.+)|"
    r"(?:volt[ae]|voltemos|vamos voltar|de volta) (?:para|pra|a|ao|aos|às?) (?P<pt>.+)|"
    r"(?:верн[её]мся|вернись|возвращаемся|назад|обратно) (?:к|ко|на) (?P<ru>.+)|"
    r"请?(?:还是)?(?:改回|换回|切回|回到|用回)(?P<zh>[^，。]+?)(?:吧|了)?[。！]?$|"
    r"(?:やっぱり|やはり)?[、]?(?P<ja>[^、。]+?)に戻(?:して(?:ください|下さい)?|しましょう|そう|す)[。！]?$|"
    r"다시 (?P<ko>[^.]+?)(?:으로|로) (?:돌아가|바꿔|되돌려)\S*(?: ?(?:줘|주세요))?[.!]?$",
    re.IGNORECASE,
)
#: Something else holds from now on.
_TO: Final = lazy(
    r"(?:(?:let['’]?s|please|we|i want to|we should|and|so) )*(?:switch|go over|move over|change over|change) to (?P<en>.+)|"
    r"(?:(?:bitte|jetzt|nun|lass uns|wir) )*(?:wechs(?:el|le|eln)|umsteigen|steig) (?:bitte )?(?:zu|auf) (?P<de>.+)|"
    r"(?:doch lieber|lieber doch|stattdessen|ab (?:jetzt|sofort)|von nun an) (?P<ab>.+)|"
    r"(?:cambia|cambiemos|pasa|pasemos) a (?P<es>.+)|(?:mejor|a partir de ahora) (?P<mejor>.+)|"
    r"(?:passe|passons|passez) (?:à|aux?|en) (?P<fr>.+)|(?:finalement|désormais|dorénavant),? (?P<fin>.+)|"
    r"(?:passa|passiamo) (?:a|al|alla|ai|alle|agli) (?P<it>.+)|d['’]ora in poi,? (?P<ora>.+)|"
    r"(?:mud[ae]|mudemos|pass[ae]) (?:para|pra|a|ao|aos) (?P<pt>.+)|a partir de agora,? (?P<agora>.+)|"
    r"(?:перейд[её]м|перейди|переходим|переходи) (?:к|ко|на) (?P<ru>.+)|(?:отныне|теперь) (?P<rab>.+)|"
    r"请?(?:还是)?(?:换成|改成|改用|改为|还是用|从现在起用?|以后用)(?P<zh>[^，。]+?)(?:吧|了)?[。！]?$|"
    r"(?:やっぱり|やはり|これからは|今後は)[、]?(?P<ja>[^、。]+?)(?:で(?:お願いします?)?|に(?:して(?:ください)?|します)|を使って(?:ください)?)?[。！]?$|"
    r"(?:이제|앞으로는?|지금부터) (?P<ko>[^.]+?)(?:으로|로)? ?(?:바꿔|해|써)? ?(?:줘|주세요)?[.!]?$",
    re.IGNORECASE,
)
#: The same behind it.
_INSTEAD: Final = lazy(
    r"(?P<en>.+?),? (?:instead|from now on|after all)(?:,? please)?[.!]?$|"
    r"(?P<de>.+?),? (?:stattdessen|ab (?:jetzt|sofort))(?: bitte)?[.!]?$|(?P<es>.+?) (?:en su lugar|a partir de ahora)[.!]?$|"
    r"(?P<fr>.+?) (?:à la place|à partir de maintenant)[.!]?$|(?P<it>.+?) (?:invece|d['’]ora in poi)[.!]?$|"
    r"(?P<pt>.+?) (?:em vez disso|a partir de agora)[.!]?$",
    re.IGNORECASE,
)
#: Something holds no longer.
_END: Final = lazy(
    r"(?:please |and )*no more (?P<en>.+)|(?:enough (?:with|of)|stop(?: with)?) (?:all )?(?:the|those|these) (?P<eno>.+)|"
    r"(?:(?:we|i|you) )?(?:(?:do not|don['’]?t) need (?P<need>.+?) any ?more|no longer need (?P<nol>.+))[.!]?$|"
    r"(?P<is>.+?) (?:is|are) no longer (?:needed|necessary|required|wanted)[.!]?$|"
    r"(?P<any>.+?) (?:is|are)(?:n['’]t| not) (?:needed|necessary|required|wanted) any ?more[.!]?$|"
    r"no (?P<no>.+?) any ?more(?:,? please)?[.!]?$|"
    r"(?:bitte )?(?:ab (?:jetzt|sofort) )?keine?n? (?P<de>.+?) mehr(?: bitte)?[.!]?$|schluss mit (?:de[nmr] )?(?P<mit>.+)|"
    r"(?P<ist>.+?) (?:ist|sind|wird|werden|brauch(?:e|en|st)? (?:ich|wir|du)) (?:jetzt )?nicht mehr"
    r"(?: (?:nötig|notwendig|erforderlich|gebraucht|gewünscht))?[.!]?$|"
    r"(?:ya )?no más (?P<es>.+)|basta de (?P<bas>.+)|ya no (?:necesit(?:o|amos)|quiero|queremos|hace[n]? falta) (?P<ya>.+)|"
    r"fini(?:e?s?) (?:les? |la |l['’])(?P<fr>.+)|assez de (?P<ass>.+)|"
    r"(?:je n['’]ai|on n['’]a|nous n['’]avons) plus besoin d(?:e |es |u |['’])(?P<plus>.+)|"
    r"niente più (?P<it>.+)|basta (?:con )?(?:i |gli |le |il |la |lo )?(?P<basta>.+)|non (?:serv(?:e|ono)|"
    r"voglio) più (?P<piu>.+)|"
    r"chega de (?P<pt>.+)|não (?:precisamos|preciso|quero) mais (?:de |d[oae]s? )?(?P<mais>.+)|"
    r"(?:хватит|довольно|больше никаких|больше не (?:нужн\w+|надо)) (?P<ru>.+)|(?P<bol>.+?) больше не нуж\w+[.!]?$|"
    r"(?:请)?(?:不要|别|不用|不需要)再?(?:写|加|用|要)?(?P<zh>[^，。]+?)了[。！]?$|(?P<zhb>[^，。]+?)(?:不需要了|不用了|就免了)[。！]?$|"
    r"(?:もう)?(?P<ja>[^、。]+?)は(?:もう)?(?:いらない|いりません|不要(?:です)?|必要ない|必要ありません)(?:です)?[。！]?$|"
    r"(?:더 이상 )?(?P<ko>[^.]+?)(?:은|는|이|가)? (?:더 이상 )?(?:필요 ?없|그만)[^.]*[.!]?$",
    re.IGNORECASE,
)
#: What somebody has no more of, who gives no order: "no more questions".
_HAS_NONE: Final = lazy(
    r"(?:questions?|ideas?|time|money|problems?|errors?|issues?|bugs?|changes|excuses|fragen|zeit|geld|probleme|fehler|ideen|"
    r"preguntas|dudas|tiempo|questions|temps|domande|tempo|perguntas|dúvidas|вопрос\w*|问题)\b(?! please| bitte)",
    re.IGNORECASE,
)
_NEEDED: Final = lazy(
    r"\b(?:need(?:ed)?|necessary|required|nötig|notwendig|erforderlich|gebraucht|brauch\w*|necesit\w+|falta|"
    r"besoin|serv\w+|precis\w+|"
    r"нуж\w+|надо)\b|需要|いらない|いりません|不要|必要|필요",
    re.IGNORECASE,
)
_NOW: Final = lazy(
    r"\b(?:now|jetzt|nun|ahora|ya|maintenant|adesso|ora|agora|сейчас|теперь)\b|现在|今すぐ|지금|이제", re.IGNORECASE
)
_LET: Final = lazy(
    r"(?:(?:you (?:can|may)|go ahead(?: and)?|now|then|jetzt|nun|please|bitte|all right|alright) )+", re.IGNORECASE
)

_ARTICLES: Final = r"(?:the|die|der|das|den|dem|el|las?|los|les?|il|lo|gli)"
_THE: Final = lazy(
    rf"(?:(?:this|that|these|those|diese[rsnm]?|est[aeo]s?|es[aeo]s?|cette|ces?|quest[aeio]|эт\w+)|"
    rf"{_ARTICLES} (?P<noun>[\w-]+))(?!\w)",
    re.IGNORECASE,
)
_ON_THIS: Final = lazy(
    r"\b(?:on|in|for|about|to|with|zu|für|in|bei|über|en|sobre|para|sur|pour|su|per) "
    r"(?:this|that|it|these|those|diese[rsmn]?|es[aeo]s?|est[aeo]s?|ça|cela|quest[aeio])(?: (?:one|ones))?[.!]?$",
    re.IGNORECASE,
)
_QUOTES: Final = re.compile('["“«„「]')

Kind = Literal["to", "end", "do"]


class Turn(NamedTuple):
    """A turn: its kind, and what is to hold, to end or to be done (``said``).

    ``again``: it is of what was said before, so no place need be named; or what there is, is needed no longer.
    """

    kind: Kind
    said: str
    again: bool = False


@lru_cache(maxsize=_REMEMBERED)
def turn(sentence: str) -> Turn | None:
    """The turn that a sentence may be; None for a question, a condition and what has another form."""
    said = rule_forms.without_tag(sentence)
    if len(said) > _CHARS or salience.is_question(said) or _QUOTES.search(said):
        return None
    said = rule_forms.core(said).strip()
    sign = _SIGN.match(said)
    rest = rule_forms.core(said[sign.end() :]).strip() if sign else said
    ended = _taken(_END, rest)
    if ended and not _HAS_NONE.match(ended):
        return Turn("end", ended, again=_NEEDED.search(rest) is not None)
    back = _taken(_BACK, rest)
    if back or sign:
        return Turn("to", back or rest, again=True) if back or rest else None
    other = _taken(_TO, rest) or _taken(_INSTEAD, rest)
    if other:
        return Turn("to", other, again="instead" in rest or "stattdessen" in rest)
    bare = _LET.sub("", rest, count=1) if _LET.match(rest) else rest
    return Turn("do", bare) if _is_order(rest, bare) else None


def is_at_hand(said: str, rule: str) -> bool:
    """Is what ends a thing at hand: "this summary", "comments on this", or "the summary" where no rule says "the" as well?"""
    if _ON_THIS.search(said):
        return True
    found = _THE.match(said)
    if found is None or not found["noun"]:
        return found is not None
    return re.search(rf"\b{_ARTICLES} {re.escape(found['noun'])}", rule, re.IGNORECASE) is None


def without_sign(sentence: str) -> str:
    """A sentence without the words in front that only say that something changes."""
    said = rule_forms.core(sentence)
    sign = _SIGN.match(said)
    return said[sign.end() :] if sign else sentence


def _taken(pattern: re.Pattern[str], said: str) -> str:
    found = pattern.match(said)
    return next(filter(None, found.groups()), "").strip() if found else ""


def _is_order(said: str, bare: str) -> bool:
    """Does it order something that is done at once, in a few words? ``bare``: without the leave in front."""
    first = bare.split(maxsplit=1)[0].strip(",.!").lower() if bare.strip() else ""
    known = first in salience.VERBS or salience.orders_elsewhere(first)
    return len(bare.split()) <= _ORDER_WORDS and (known or _NOW.search(said) is not None)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text; one that only says that something changes, together with the one behind it."""
    before = ""
    for sentence in salience.sentences(text):
        said, before = f"{before} {sentence}".lstrip(), ""
        if len(said) <= _CHARS and _BARE.fullmatch(rule_forms.core(said)):
            before = said
        else:
            yield said
    if before:
        yield before
