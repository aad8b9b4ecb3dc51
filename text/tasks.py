"""
Tasks of a request by its form: items of a list, and orders that one sentence joins ("fix the bug and update the changelog").

Pure. A task that a reply does not speak of is open. Only what orders a deed of its own is a task: what is to be looked at, how
something is to be done, and what hangs on a condition or on a relative clause is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Final, NamedTuple

from . import others, salience

_ANSWERING: Final = frozenset(("skip", "use", "take", "keep", "leave", "ignore", "put"))
_PLEASE: Final = re.compile(
    r"^\W*(?:(?:please|now|ok(?:ay)?|can|could|would|will|you|hey|hi|i(?:['’]d| would) like(?: you)? to|"
    r"i (?:want|need)(?: you)? to|let['’]s|bitte|kannst|könntest|du|mal|jetzt|por favor|puedes|podrías|s['’]il te plaît|peux-tu|"
    r"pourrais-tu)\b\W*)+|^\W*(?:请|麻烦|帮我|先)+",
    re.IGNORECASE,
)
#: Beginning of an item in a list.
_ITEM: Final = re.compile(r"(?:^|(?<=[\s,;:]))(?:\(\d{1,2}\)|\d{1,2}[.)]|[-*•])[ \t]+", re.MULTILINE)
_LEAST: Final = 2
_SENTENCES: Final = 8  # of a request in which orders are looked for
_REMEMBERED: Final = 1500  # requests whose reading is kept: most were there at the compaction before
#: Of a reply, that it means all tasks: "in all browsers" and "all login problems" are no word on all of them.
_ALL: Final = re.compile(
    r"\b(?:all (?:done|finished|completed?|set|clear|is|are|(?:of )?(?:it|them|that|this|these|those|two|three|four|five)|"
    r"\d+ (?:are )?(?:done|finished)|"
    r"(?:(?:the|your|these|those|requested|other|remaining|\d+) ){0,2}(?:items|points|tasks|changes|steps|requests))|"
    r"that['’]s all|both|everything|alles|alle (?:sind|drei|vier|punkte|aufgaben|erledigt|fertig)|beide[sn]?|"
    r"todo (?:está|listo|hecho|lo)|tod[oa]s (?:l[oa]s (?:tareas|puntos|cambios|pasos)|están|list[oa]s|hech[oa]s)|ambos|ambas|"
    r"tout (?:est|a)|tou(?:te)?s (?:les (?:tâches|points|étapes|changements)|sont)|les deux|tutto|entrambi|tudo)\b|[全都]"
)
_BARE_WORDS: Final = 2  # of a reply that names no task and means them all: "Done."
#: The same in front of what the reply goes on to say.
_BARE: Final = re.compile(
    r"^\W*(?:(?:\w+\W+)?\w+|(?:[\w'’]+[ ,]+){0,3}(?:done|finished|completed?|ready|erledigt|fertig|fait|terminé|hecho|listo|"
    r"feito|pronto|fatto|готово))(?:[.!。！]|\s*\n)",
    re.IGNORECASE,
)
_STEM: Final = 4  # letters of a word that tell it, whatever its ending
_WORD: Final = re.compile(r"\w+(?:\.\w+)*")
_LEAST_LETTERS: Final = 3
_SIGN: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_NOTHING: Final = frozenset(
    """the and for with from into that this these those them its our your his her one new now also then please are was has have
    all any der die das den dem des ein eine einen einem einer und mit für von zum zur bitte dann auch
    los las una uno por para con del les des une pour avec dans aux che per gli""".split()
)
#: What changes something by its own name, so that a reply can tell of it.
_DEEDS: Final = frozenset(
    """archive bump cancel clean clear commit configure convert copy create delete deploy disable document edit enable export fix
    format implement install merge migrate modify move publish push rebuild refactor release remove rename replace reset restart
    restore revert rewrite send set sort split tag translate uninstall update upgrade upload write add adjust book change close
    increase reduce order refund reserve schedule build import
    start stop löschen ändern schreiben hinzufügen bauen erstellen entfernen installieren aktualisieren buchen schicken senden
    kopieren verschieben umbenennen korrigieren reparieren übersetzen ersetzen ergänzen stornieren beheben aufräumen eintragen
    anlegen erneuern einrichten aktivieren deaktivieren konfigurieren starten neustarten stoppen bereinigen anpassen
    veröffentlichen lege behebe beheb mets mettez écris crée créez""".split()
)
#: Orders in other languages than English that only look, tell, or do something with what is there.
_LOOKING: Final = frozenset(
    """zeig zeige prüf prüfe teste such suche öffne führ führe stell stelle setz setze frag frage gib lies erklär erkläre überprüf
    überprüfe wiederhol wiederhole ruf rufe muestra ejecuta ejecutes abre abras revisa explica resume mostra mostre execute rode
    abra verifique explique esegui eseguire apri aprire controlla verifica spiega riassumi montre cherche ouvre verifie vérifie
    touche toques toccare покажи запусти запускай найди открой проверь объясни трогай""".split()
)
#: Deeds that are names of things as well: "release notes" are notes, "write tests" is an order.
_NAMES: Final = frozenset(
    """archive book build change close copy document export format import increase order release reserve reset restart schedule
    set sort split start stop tag reserva copia cambia change copie reserve""".split()
)
#: Deeds done to anything: the thing tells which was meant.
_OF_ANYTHING: Final = frozenset(
    """add adjust change configure create edit fix implement modify set update write build ändere ändern schreibe schreiben füge
    erstelle erstellen aktualisiere aktualisieren behebe beheben cambia crea añade agrega escribe actualiza corrige arregla mets
    mettez ajoute ajoutez modifie change crée écris aggiungi scrivi aggiorna adicione crie altere atualize
    更新 修改 添加 新增 创建 新建 修复 写""".split()
)
#: Other words in which replies tell of a deed.
_ALSO: Final = {
    "send": "sent",
    "write": "wrote",
    "delete": "removed gone",
    "remove": "deleted gone",
    "deploy": "live shipped",
    "publish": "live released",
}
#: Deeds that may be done to "it", or to what was named before.
_ON_IT: Final = frozenset("commit push deploy publish send merge release upload delete archive".split())
_IT: Final = frozenset("it them es sie ihn".split())
_ALONE: Final = _IT | frozenset("this that these those lo la los las le les".split())
_OBJECT: Final = re.compile(
    r"(?:the|an?|my|our|your|this|these|those|all|it|them|its|both|another|some|up|out|any|\d+|"
    r"d(?:ie|er|as|en|em)|eine?[nmr]?|mein\w*|el|la|los|las|un[oae]?s?|les?|l['’]\w+|des|à|mon|ma|mes|il|lo|gli|i|o|os|as|um|uma)\b|"
    r"[`\"'“/~]|[\w./-]*\w\.\w",
    re.IGNORECASE,
)
_JOINT: Final = re.compile(
    r"\s*[,;]?\s+(?:and|und|y|e|et|и|&)\s+|\s*[,;]\s+|\s*[，、；]?\s*(?:并且|(?<!合)并|然后|接着|同时|(?<!不)再)\s*|[，、；]\s*",
    re.IGNORECASE,
)
_THEN: Final = re.compile(
    r"^\W*(?:(?:and|then|also|next|finally|afterwards|please|dann|danach|auch|außerdem|anschließend|luego|después|también|además|"
    r"ensuite|puis|aussi|poi|anche)\b\W*)+",
    re.IGNORECASE,
)
#: Behind it, a verb may tell something else than an order.
_BOUND: Final = re.compile(
    r"\b(?:when|whenever|if|unless|once|that|which|who|whose|where|while|because|since|so|until|before|after|whether|how|what|why|"
    r"or|lets?|without|by|wenn|falls|dass|weil|damit|ob|um|oder|que|qui|quand|cuando|si|para|pour|quando|se|che|porque|ou)\b|"
    r"(?:, )(?:der|die|das|den|dem)\b|如果|当|的时候|或",
    re.IGNORECASE,
)
_TO: Final = re.compile(r"\bto ([a-z]+)", re.IGNORECASE)
#: What is to be done only as far as there is need, or as a consequence.
_INDEFINITE: Final = re.compile(
    r"\b(?:whatever|anything|any|everything|only|if|where|needed|necessary|accordingly|too|else|entsprechend|nötig|nur|"
    r"necesario|solo|sólo|nécessaire|besoin)\b|相应|必要|只",
    re.IGNORECASE,
)
_CHINESE: Final = re.compile(
    r"(?:请|再|也)?(修复|更新|删除|添加|新增|创建|新建|修改|重命名|移动|安装|部署|提交|推送|发布|升级|替换|合并|翻译|配置|取消|预订|编写|实现|重构|清理|写)(?=.)"
)


#: Of a clause of a reply, that what it names is still to be done.
_STILL_OPEN: Final = re.compile(
    r"\bnot\b.{0,60}\byet\b|\bnext,? (?:i['’]ll|i will|comes)\b|\b(?:i['’]ll|i will)\b.{0,60}\bnext\b|\bremains?\b|"
    r"\bstill (?:to|needs?|open|missing|pending)\b|\b(?:is|are) (?:left|pending|outstanding)\b|\bnoch (?:nicht|offen|zu)\b|"
    r"\bfehlt noch\b|\bals nächstes\b|\b(?:todavía|aún) no\b|\bqueda pendiente\b|\bpas encore\b|\breste(?:nt)? à\b|"
    r"\bnon ancora\b|\bainda não\b|\bещё не\b|还没|尚未|还剩|接下来",
    re.IGNORECASE,
)
#: Of a clause of a reply, what its speaker says not to have done, at the end: its verb.
_UNDONE: Final = re.compile(
    r"\bi(?: have not| haven['’]t|['’]ve not) (?:yet )?([a-z]{4,})(?![^.;!?]*\b(?:any\w*|else|others?)\b)",
    re.IGNORECASE,
)
_BANNED: Final = re.compile(r"\b(?:don['’]?t|do not|never|without|no)\b[^.;!?]*", re.IGNORECASE)
_CLAUSE: Final = re.compile(r"(?<=[.!?;])\s+|[。；！？\n]|,? but ")


class _Task(NamedTuple):
    """A task: its verb, where one tells it, and the stems of the words that tell it from others."""

    verb: str
    words: frozenset[str]


def has_untold(request: str, replies: Sequence[str], *, whole: bool = True) -> bool:
    """Is there a task of a request of which no reply speaks?

    A reply may speak of all of them without a name ("Done."), unless ``whole`` is False: it is one to another request then.
    """
    left = {stem for reply in replies for stem in _left(request, reply)}
    if any(stem in _left(request, replies[-1]) or not re.search(rf"\b{stem}", replies[-1].lower()) for stem in left):
        return True
    listed, joined = _tasks(request)
    tasks = listed or joined
    if len(tasks) < _LEAST:
        return False
    clauses = [each for reply in replies for each in _CLAUSE.split(reply.lower())]
    said = " ".join(each for each in clauses if not _STILL_OPEN.search(each))
    missing = [each for each in tasks if not _is_named(each, said)]
    still = " ".join(each for each in clauses if _STILL_OPEN.search(each))
    if any(each.words and _is_named(each, still) for each in missing):
        return True
    if whole and _ALL.search(said):
        return False
    if not listed and len(missing) == len(tasks):
        return False  # the reply uses other words, or another language: it is an end as any other is
    return bool(missing) and not (whole and _is_bare(replies[-1], tasks, within=not listed))


def _left(request: str, reply: str) -> list[str]:
    """Stems of what a request orders, and does not forbid, of which a reply says that it is not done."""
    wanted = _BANNED.sub(" ", request.lower())
    stems = [verb.lower()[: max(_STEM, len(verb) - _STEM)] for verb in _UNDONE.findall(reply)]
    return [stem for stem in stems if re.search(rf"\b{stem}", wanted)]


def speaks_of(reply: str, request: str, *, besides: Sequence[str]) -> bool:
    """Does a reply name a request by a word that another (``besides``) lacks? Any word will do where none does."""
    words = _words(request)
    own = next((left for text in besides if (left := words - _words(text))), words)
    return not words or _is_named(_Task("", own), reply.lower())


def is_order(said: str) -> bool:
    """Does what was said begin with a verb that tells the agent to do something?"""
    first = said.split(maxsplit=1)[0].strip(",.!").lower() if said.strip() else ""
    return first in salience.VERBS - _ANSWERING or salience.orders_elsewhere(first)


def _is_bare(reply: str, tasks: Sequence[_Task], *, within: bool) -> bool:
    """Is a reply, or its beginning, an end that names no task?"""
    found = _BARE.match(reply) if within else None
    head = (found[0] if found else reply).lower()
    verbs = [frozenset((each.verb[:_STEM],)) for each in tasks if each.verb]
    named = any(_is_named(each, head) for each in [*tasks, *(_Task("", words) for words in verbs)])
    return (found is not None or len(reply.split()) <= _BARE_WORDS) and not named


def _is_named(task: _Task, said: str) -> bool:
    """Is one of a task's words there? One that has no words of its own is taken for named."""
    if not task.words or any(each in said for each in task.words if _SIGN.search(each)):
        return True
    told = [word for each in _WORD.findall(said) for word in (each, *each.split(".")[1:])]
    return any(
        word.startswith(each) if len(each) >= _STEM else word in (each, f"{each}s")
        for each in task.words
        for word in told
    )


@lru_cache(maxsize=_REMEMBERED)
def _tasks(request: str) -> tuple[list[_Task], list[_Task]]:
    """Tasks of a list, and those of its user's own sentences; not of what was pasted."""
    return _listed(request), _joined(others.own_words(request))


def _listed(request: str) -> list[_Task]:
    """Tasks of a list; below an order of its own a list has the steps of it."""
    lead, *items = _ITEM.split(request)
    tasks = [each for each in items if is_order(each)]
    return _apart(tasks) if len(tasks) >= _LEAST and not is_order(_PLEASE.sub("", lead, count=1)) else []


def _joined(request: str) -> list[_Task]:
    """Orders that a sentence joins, and those of a sentence that goes on with "then" or "also"."""
    out = list[str]()
    for sentence in islice(salience.sentences(request), _SENTENCES):
        goes_on = _THEN.match(sentence) is not None
        said = _PLEASE.sub("", _THEN.sub("", sentence, count=1), count=1).rstrip(" .!?。！？")
        orders = _orders(said) if is_order(said) or said != sentence.rstrip(" .!?。！？") or _is_deed(said) else []
        if len(orders) >= _LEAST or goes_on or not out:
            out += orders
    return _apart(out)


def _orders(sentence: str) -> list[str]:
    """Orders of a sentence that are each a deed of its own."""
    first, *rest = _JOINT.split(sentence)
    clauses = [first]
    for part in (_THEN.sub("", each, count=1) for each in rest):
        if _is_deed(part) and not _is_bound(clauses[-1]):
            clauses.append(part)
        else:
            clauses[-1] += f", {part}"
    return [
        each
        for each in clauses
        if _is_deed(each)
        and not _INDEFINITE.search(each)
        and (each is clauses[-1] or len(each.split()) > 1 or _SIGN.search(each))
    ]


def _is_bound(clause: str) -> bool:
    """Does a clause hold a word, such as "to" with a verb, that a verb behind it may go on with?"""
    return _BOUND.search(clause) is not None or any(
        verb.lower() in salience.VERBS | _DEEDS for verb in _TO.findall(clause)
    )


def _is_deed(clause: str) -> bool:
    """Does a clause order a deed, of something that it names?"""
    if _CHINESE.match(clause):
        return True
    first, _, object_ = clause.lower().strip().partition(" ")
    words = object_.split()
    if not _changes(first):
        return len(words) > 0 and words[-1].endswith("n") and words[-1] in _DEEDS  # "den Fehler beheben"
    if not words or (len(words) == 1 and words[0] in _ALONE) or (words[0] in _IT and not _words(object_)):
        return first in _ON_IT
    return first not in _NAMES or _OBJECT.match(object_) is not None


def _changes(verb: str) -> bool:
    return verb in _DEEDS or (verb not in _LOOKING and salience.orders_elsewhere(verb))


def _apart(tasks: Sequence[str]) -> list[_Task]:
    """Tasks with the words that only one of them has."""
    said = [_task(each) for each in tasks]
    return [
        each._replace(words=each.words.difference(*(other.words for m, other in enumerate(said) if m != n)))
        for n, each in enumerate(said)
    ]


def _task(text: str) -> _Task:
    chinese = _CHINESE.match(text)
    tokens = text.lower().split()
    verb = chinese[1] if chinese else next((each for each in (tokens[0], tokens[-1]) if _changes(each)), "")
    rest = text[chinese.end() :] if chinese else " ".join(each for each in tokens if each != verb)
    words = _words(rest)
    named = _words(f"{verb} {_ALSO.get(verb, '')}")
    return _Task(verb, words if words and verb in _OF_ANYTHING else words | named)


def _words(text: str) -> frozenset[str]:
    """Stems of the words of a text that say something; of Chinese and Japanese the pairs of signs."""
    found = set[str]()
    for word in _WORD.findall(text.lower()):
        if _SIGN.search(word):
            found.update(map("".join, pairwise(word)))
        elif len(word) >= _LEAST_LETTERS and word not in _NOTHING:
            found.add(word[:_STEM])
    return frozenset(found)
