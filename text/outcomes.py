"""
Outcomes: what a reply says to have been done, and which tools do something, by their words.

Pure. Owns the words of finished work, in the languages that these are known of.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from . import salience

_REMEMBERED: Final = 1500  # replies whose outcome is kept: most were there at the compaction before
FENCED: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
READING: Final = re.compile(r"(?:^|_)(?:read|view|open|cat|search|grep|list|get|find)", re.IGNORECASE)
_DEEDS: Final = (
    r"(?:added|changed|removed|updated|moved|ported|created|fixed|copied|deleted|restored|booked|cancell?ed|committed|simplified|"
    r"replaced|renamed|implemented|transferred|wrote|written|built(?!-)|installed|switched|upgraded|merged|published|deployed|pushed)"
)
_DEEDS_ELSEWHERE: Final = (
    r"ich habe [^.\n]{1,90}\b(?:ge\w+(?:t|en)|\w+iert|be(?:hoben|arbeitet)|er(?:stellt|gänzt|setzt|ledigt)|entfernt|hinzugefügt|"
    r"umbenannt)\b|(?:ya )?he (?:creado|corregido|cambiado|añadido|eliminado|actualizado|arreglado|instalado|movido)\b|"
    r"j['’]ai (?:supprimé|corrigé|ajouté|créé|modifié|mis à jour|installé|déplacé|renommé)\b|"
    r"(?:я )?(?:исправил|добавил|удалил|создал|обновил|переименовал)\w*\b"
)
_DONE: Final = re.compile(
    r"^\W*(?:done|fixed|finished|completed|committed|updated|all (?:tests|checks|clean|done|set|committed)|"
    rf"perfect\W+(?:i|the|now)|i(?:['’]ve| have)? (?:now |just |successfully |also )*{_DEEDS}|"
    rf"(?:it|that|this|the [^.\n]{{1,60}}) (?:is|works|are) (?:now )?(?:done|fixed|{_DEEDS})|"
    rf"(?:successfully )?{_DEEDS} (?:the|a|an|all|your|\d)\b|successfully {_DEEDS}|all (?:\d+ )?(?:tests|checks) pass|"
    r"(?:the|your) [^.\n]{1,90} (?:has|have) been (?:successfully )?\w+|"
    rf"完成|我?已|好了|fertig|erledigt|listo|hecho|terminado|c['’]est fait|готово|{_DEEDS_ELSEWHERE})",
    re.IGNORECASE,
)
#: What a reply begins with that only seems to tell of an end.
_OPEN: Final = re.compile(
    r"^[^.!?\n]{0,90}?\b(?:(?:not|n['’]t|noch nicht) (?:\w+ ){0,3}(?:yet|so far|done|finished|fixed|ready|complete|fertig)|"
    r"nothing|nichts|almost|fast fertig|zur hälfte|(?:first|one|other) half|partly|partially|\d+ of (?:the )?\d+|"
    r"still (?:open|fails?|failing|missing|occurs?|broken)|been (?:declined|rejected|denied|refused|postponed))\b"
    r"|^\W*\w+\? (?:no|not|almost|nearly)\b|\b(?:shall|should|may) i (?:start|begin|proceed|go ahead|apply|implement)\b",
    re.IGNORECASE,
)
#: Words that tell of a change.
DID: Final = re.compile(rf"\b(?:{_DEEDS}|uses?|used|now|set)\b|已|改|新增|删除", re.IGNORECASE)
_DOING: Final = re.compile(
    r"(?:^|[_.-])(?:book|cancel|update|create|send|delete|remove|transfer|schedule|reschedule|post|publish|submit|order|pay|reserve|"
    r"add|set|assign|close|reopen|merge|approve|reject|invite|reply|deploy|release|upload|rename|move|archive|subscribe|charge|refund|"
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
def outcome(reply: str) -> str:
    """The sentence in which a reply says what was done; "" where it does not say that the work is finished."""
    if not _DONE.search(reply[:400]) or _OPEN.search(reply[:400]):
        return ""
    said = [sentence for sentence in salience.sentences(FENCED.sub("\n", reply[:6000])) if 20 <= len(sentence) <= 240]
    telling = [
        sentence
        for sentence in said
        if DID.search(sentence) and _tells(sentence) and len(sentence.split()) > 3 and salience.is_prose(sentence)
    ]
    whole = [sentence for sentence in said if _tells(sentence)]
    return (telling or whole or [" ".join(reply.split())[:160]])[0]


def _tells(sentence: str) -> bool:
    """Is it more than the head of a list?"""
    return not sentence.rstrip("*_ ").endswith(":")


@lru_cache(maxsize=_REMEMBERED)
def refusals(text: str) -> tuple[str, ...]:
    """Sentences that say that something is not possible."""
    head = text[:6000]
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
