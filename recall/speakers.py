"""
Questions for what somebody said: whose words a question asks for, and what they are to be about.

Pure. Whether somebody of that name speaks is the search's business: a name is any few words in the place of one.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ..search import forms

#: Name of those who may be anybody: who said it is asked.
ANYBODY: Final = "*"
_QUESTION_CHARS: Final = 400
_WORD: Final = re.compile(r"\w+")
#: In front of a question, and nothing of it.
_LEAD: Final = re.compile(
    r"(?:(?:so|and|ok(?:ay)?|hey|hi|well|also|btw|wait|und|sag mal|y|et|e),? )?"
    r"(?:(?:(?:can|could|do) you )?(?:please )?(?:tell me|remind me|know|check|find out|find|show me)(?: if| whether)? |"
    r"(?:when|where|why) (?=did\b))?",
    re.IGNORECASE,
)
_NAME: Final = r"(?P<name>\S(?:[^?!.,;:\n]{0,60}?\S)?)"
_SHORT: Final = r"(?P<name>[^\s?!,;:]{1,60}(?: [^\s?!,;:]{1,30}){0,2}?)"
_ONE: Final = r"(?P<name>[^\s?!,;:]{1,60})"
_ABOUT: Final = r"(?P<about>[^?\n]+?)"
_EN: Final = (
    r"(?: (?:us|me|you|them))?(?: (?:anything|something|nothing|a word))?"
    r"(?: (?:about|on|for|of|to|that|whether|if|regarding|concerning)|:)?"
)
_ZU: Final = r"(?:über|zum?|zur|von|vom|wegen|nach)"
_DE: Final = (
    "(?:gesagt|geschrieben|gemeint|erzählt|gefragt|gewollt|vorgeschlagen|erwähnt|angesprochen|berichtet|gemeldet)"
)
_SOBRE: Final = r"(?:sobre|acerca del?|del?|que|si)"
_SUR: Final = r"(?:sur|de la|de|du|des|à propos de|que|qu['’]|si|d['’])"
_SU: Final = r"(?:su|sulla|sulle|sui|sul|di|del|della|dei|delle|dello|a|al|alla|che|se|riguardo a)"
_PT: Final = r"(?:sobre [ao]s?|sobre|acerca d[eao]s?|d[eao]s?|que|se)"
#: With ``name`` and ``about``; what it is about may be left out.
_WHAT: Final = (
    (
        rf"what (?:did|has|was|is|does) {_NAME} "
        rf"(?:say|said|saying|write|written|ask|asked|tell|told|want|mention|think|suggest|propose){_EN}(?: {_ABOUT})?"
    ),
    (
        rf"what {_SHORT} (?:said|says|wanted|wants|wrote|asked|told|mentioned|thinks|thought|suggested|proposed)"
        rf"{_EN}(?: {_ABOUT})?"
    ),
    (
        rf"was (?:hat(?:te)?|wollte|meinte|sagte|schrieb|denkt|meint|hält) {_NAME}(?: (?:uns|mir|dir|euch))?"
        rf"(?: {_ZU} {_ABOUT})?(?: {_DE})?"
    ),
    (
        r"qué (?:dijo|ha dicho|escribió|quería|pidió|preguntó|opina|piensa) "
        rf"(?P<name>\S+(?: (?!sobre|de|del|acerca)\S+){{0,2}}?)(?: (?:sobre|acerca del?|del?) {_ABOUT})?"
    ),
    rf"(?:qu['’]est-ce que|qu['’]a) {_NAME} (?:a )?(?:dit|écrit|demandé|voulu|pense)(?: (?:sur|de|du|à propos de) {_ABOUT})?",
    (
        rf"(?:che )?cosa (?:ha (?:detto|scritto|chiesto|voluto)|diceva|voleva|pensa) "
        rf"(?P<name>\S+(?: (?!su|di|del|sul)\S+){{0,2}}?)(?: {_SU} {_ABOUT})?"
    ),
    rf"o que (?:[oa] )?{_NAME} (?:disse|escreveu|queria|pediu|perguntou|pensa|acha)(?: {_PT} {_ABOUT})?",
    rf"o que (?:disse|escreveu|queria|pediu|perguntou) (?:[oa] )?{_SHORT}(?: {_PT} {_ABOUT})?",
    (
        r"что (?:сказал|говорил|написал|хотел|просил)[аи]? "
        rf"(?P<name>[^\s?]+(?: (?!(?:обо?|о|про|насч[её]т) )[^\s?]+){{0,2}}?)(?: (?:обо?|о|про|насч[её]т) {_ABOUT})?"
    ),
    (
        r"(?P<name>[^\s、。？?]{1,30}?)(?:さん)?は(?:(?P<about>[^？?]{1,40}?)(?:について|に関して))?"
        r"(?:何と|何を|なんと|なんて|どう)(?:言|書|話)[^？?]{1,8}"
    ),
    (
        r"(?P<name>[^\s，。？?]{1,30}?)(?:(?:关于|對於|对)(?P<about>[^？?]{1,40}?))?(?:之前|昨天|刚才)?(?:都)?(?:说|講|讲|提|写)(?:了|过)?(?:些)?"
        r"什么[^？?]{0,20}"
    ),
)
_DID: Final = (
    (
        rf"(?:did|has|had|have) {_NAME}(?: (?:ever|already|also|really))? (?:say|said|mention|mentioned|write|written|ask|asked|"
        rf"tell|told|talk|talked|suggest|suggested|propose|proposed|complain|complained|want|wanted|report|"
        rf"reported){_EN} {_ABOUT}"
    ),
    rf"hat(?:te)? {_SHORT}(?: (?:schon|je|mal|auch|uns|mir|etwas|was|irgendwas|irgendetwas|nichts))*(?: {_ZU})? {_ABOUT} {_DE}",
    rf"hat(?:te)? {_SHORT} {_DE},? (?:dass|ob) {_ABOUT}",
    rf"(?:mencionó|dijo|habló|escribió|ha (?:mencionado|dicho|hablado|escrito)) {_ONE}(?: algo)?(?: {_SOBRE})? {_ABOUT}",
    rf"{_SHORT} (?:mencionó|dijo|habló|ha (?:mencionado|dicho|hablado))(?: algo)?(?: {_SOBRE})? {_ABOUT}",
    (
        rf"(?:est-ce qu(?:e |['’]))?{_SHORT} a(?:-t-(?:il|elle|on))? (?:déjà )?(?:mentionné|parlé|dit|écrit|demandé)"
        rf"(?: quelque chose)?(?: {_SUR})? ?{_ABOUT}"
    ),
    rf"{_SHORT} ha (?:già )?(?:menzionato|accennato|parlato|detto|scritto|chiesto)(?: qualcosa)?(?: {_SU})? {_ABOUT}",
    rf"(?:[oa] )?{_SHORT} (?:mencionou|falou|disse|escreveu|pediu)(?: (?:algo|alguma coisa))?(?: {_PT})? {_ABOUT}",
    r"(?P<name>[^\s，。？?]{1,30}?)(?:有没有|是否)(?:提到|提|说|讲)(?:过|了)?(?P<about>[^？?]{1,60}?)[吗嘛]?",
)
_OPINION: Final = (
    (
        rf"(?:what(?:['’]?s| is| was| are| were) )?{_SHORT}(?:['’]s|(?<=s)['’]) (?:opinion|view|views|take|thoughts?|"
        r"comments?|ideas?|suggestions?|proposal|feedback|position|stance|concerns?|words?|message|request)s? "
        rf"(?:about|on|for|of|regarding|to) {_ABOUT}"
    ),
    (
        rf"(?:(?:was|wie) ist )?{_SHORT}(?:s|['’]) (?:meinung|ansicht|haltung|vorschlag|idee|einschätzung|bedenken|wunsch) "
        rf"{_ZU} {_ABOUT}"
    ),
    rf"(?:(?:was|wie) ist )?die (?:meinung|ansicht|haltung|einschätzung) von {_SHORT} {_ZU} {_ABOUT}",
    rf"(?:cuál es )?la opinión de {_SHORT} (?:sobre|acerca del?) {_ABOUT}",
    rf"(?:quel(?:le)? est )?(?:l['’](?:avis|opinion)) (?:de |d['’]){_SHORT} sur {_ABOUT}",
    rf"(?:qual è )?(?:l['’]opinione|il parere) di {_SHORT} (?:su|sulla|sulle|sui|sul) {_ABOUT}",
    rf"(?:qual é )?a opinião d[eao] {_SHORT} sobre (?:[ao]s? )?{_ABOUT}",
)
#: No question, but words of a search: "Ben wanted the invoice".
_TOLD: Final = (
    (
        rf"{_SHORT} (?:wanted|wants|said|says|suggested|proposed|mentioned|wrote|thinks|thought|complained|reported|promised|"
        rf"(?:asked|told)(?= (?:us|me|for|about|to|whether|if|that)\b)){_EN} {_ABOUT}"
    ),
    rf"{_SHORT} (?:wollte|meinte|sagte|schrieb|erwähnte|fragte)(?: uns| mir)?,?(?: dass| ob| nach)? {_ABOUT}",
    rf"{_SHORT} quería(?: que)? {_ABOUT}",
    rf"{_SHORT} (?:voulait|disait)(?: que| qu['’])? ?{_ABOUT}",
    rf"{_SHORT} (?:voleva|diceva)(?: che)? {_ABOUT}",
    rf"(?:[oa] )?{_SHORT} (?:queria|dizia)(?: que)? {_ABOUT}",
)
#: Who is asked for; with ``about`` alone.
_WHO: Final = (
    (
        r"who (?:was it (?:that|who) )?(?:has |had )?(?:said|says|mentioned|wrote|written|told|asked|wanted|suggested|proposed|"
        rf"complained|reported|thinks|thought|brought up){_EN} {_ABOUT}"
    ),
    rf"wer hat(?:te)? {_DE},? (?:dass |ob )?{_ABOUT}",
    rf"wer hat(?:te)? (?:(?:etwas|was) )?(?:{_ZU} )?{_ABOUT} {_DE}",
    rf"wer (?:sagte|meinte|wollte|schrieb|erwähnte|fragte),? (?:dass |ob |nach )?{_ABOUT}",
    rf"quién (?:dijo|mencionó|escribió|quería|pidió|habló|ha (?:dicho|mencionado|hablado))(?: algo)?(?: {_SOBRE})? {_ABOUT}",
    rf"qui (?:a (?:dit|mentionné|parlé|écrit|demandé|voulu)|voulait)(?: quelque chose)?(?: {_SUR})? ?{_ABOUT}",
    rf"chi (?:ha (?:detto|menzionato|accennato|parlato|scritto|chiesto|voluto)|voleva)(?: qualcosa)?(?: {_SU})? {_ABOUT}",
    rf"quem (?:disse|mencionou|falou|escreveu|pediu|queria)(?: algo)?(?: {_PT})? {_ABOUT}",
    r"谁(?:说|讲|提|写)(?:到|了|过)?(?P<about>[^？?]{1,60}?)",
)
_ANYBODY: Final = frozenset(
    "anyone anybody someone somebody everyone everybody jemand irgendjemand irgendwer alguien quelqu'un quelqu’un qualcuno "
    "alguém 有人 谁".split()
)
#: Words in the place of a name that name nobody: who asks or is asked is not known by name.
_NOBODY: Final = frozenset(
    "i you we he she they it this that these those there ich du wir ihr er sie es man yo tú él ella nosotros ellos je tu il elle "
    "nous vous ils on io lui lei noi loro eu você ele ela nós eles who what which wer was quién qué qui chi quem que".split()
)


class Asked(NamedTuple):
    """Speaker whose words a question asks for (``ANYBODY``: who said it), and their subject; "" for all of them."""

    name: str
    about: str


def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(rf"[\s¿]*{each}\s*[?？]?\s*", re.IGNORECASE) for each in patterns)


_NAMED: Final = _compiled((*_WHAT, *_DID, *_OPINION, *_TOLD))
_UNNAMED: Final = _compiled(_WHO)


def asked(question: str) -> Asked | None:
    """Speaker and subject that a question asks for; None for any other question."""
    if len(question) > _QUESTION_CHARS or "\n" in question.strip():
        return None
    question = " ".join(question.split())
    question = question[found.end() :] if (found := _LEAD.match(question)) else question
    for pattern in _UNNAMED:
        if found := pattern.fullmatch(question):
            return Asked(ANYBODY, found["about"].strip())
    read = (_asked(found) for pattern in _NAMED if (found := pattern.fullmatch(question)))
    return next((each for each in read if each is not None), None)


def _asked(found: re.Match[str]) -> Asked | None:
    name, about = found["name"].strip(), (found["about"] or "").strip()
    if name.casefold() in _NOBODY:
        return None
    return Asked(ANYBODY if name.casefold() in _ANYBODY else name, about)


def is_called(speaker: tuple[str, str], wanted: str) -> bool:
    """Is somebody called so: by their id, by one of their names or several in a row, or by both as an answer shows them?

    Case, accents and signs count for nothing, where a name has letters at all.
    """
    name, number = speaker
    if wanted.casefold() in (name.casefold(), number.casefold()):
        return True
    whole, part = _words(f"{name} {number}"), _words(wanted)
    return bool(part.strip()) and (part in _words(name) or part == whole)


def _words(name: str) -> str:
    return f" {' '.join(_WORD.findall(forms.plain(name.casefold())))} "
