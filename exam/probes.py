"""
Probes: questions about a conversation whose answers are quotations from it.

Pure. Made by rule from all that was said, and not from what a prompt shows; each names the message that answers it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..prompt import work_log
from ..records import Flag, Row
from ..text import markers, salience, statements

WORD: Final = re.compile(r"\w+")
_NOT_SAID: Final = Flag.HOST_NOTE | Flag.IMPORTED | Flag.FILTERED | Flag.OWN_TOOL
_RULES, _FILES, _FAILED, _FINISHED, _VALUES, _OPEN = 30, 12, 15, 25, 40, 5  # probes of one kind at most
_ASKED_WORDS: Final = 3  # of a question
_LEAST_WORD: Final = 4  # characters of a word that tells something
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u4e00-\u9fff]{5}")  # several words, of scripts without blanks
_OPERATIONS: Final = {
    "edited": "edit edited edits patch patched replace replaced update updated edit_file str_replace apply_patch",
    "written": "write written wrote create created write_file create_file",
    "deleted": "rm delete deleted remove removed delete_file remove_file",
    "moved": "mv move moved rename renamed move_file rename_file",
    "restored": "restore restored checkout reverted",
}
_STRETCH: Final = 400  # characters within which the words of an answer stand


@dataclass(frozen=True, slots=True)
class Probe:
    """A question, the message that answers it, and the answer as it was said.

    An answer is given where ``need`` of the groups have a word within ``stretch`` characters.
    """

    kind: str
    question: str
    store_id: int
    answer: str
    groups: tuple[frozenset[str], ...]
    need: int
    stretch: int


def words_of(text: str) -> list[str]:
    """The words of a text as probes compare them."""
    return WORD.findall(text.casefold())


def verbatim(kind: str, question: str, store_id: int, answer: str) -> Probe:
    """A probe whose answer is a sentence: four fifths of its words, about as close together as they were said."""
    words = sorted(set(words_of(answer)))
    need = max(1, -(-len(words) * 4 // 5))
    return Probe(
        kind, question, store_id, answer, tuple(frozenset([w]) for w in words), need, len(answer) * 13 // 10 + 60
    )


def _prose(rows: Sequence[Row]) -> tuple[list[Row], dict[int, work_log.Closed]]:
    """Words of the conversation, without calls and without those that the user took back; the requests that were finished."""
    said = [row for row in rows if row.head.role in ("user", "assistant") and not row.calls]
    users = [row for row in said if row.head.role == "user"]
    gone = {row.store_id for row in users} - {row.store_id for row in statements.standing(users)}
    return [row for row in said if row.store_id not in gone], work_log.closed(said, gone)


def finished_requests(rows: Sequence[Row]) -> list[str]:
    """Requests that a reply says to be finished, as they were typed."""
    prose, closed = _prose([row for row in rows if not row.head.flags & _NOT_SAID])
    return [markers.typed(row.text) for row in prose if row.store_id in closed]


def probes(rows: Sequence[Row]) -> list[Probe]:
    """All probes of a transcript; rows in its order, without what the host took out of it."""
    said = [row for row in rows if not row.head.flags & _NOT_SAID]
    seen = Counter(word for row in said for word in set(words_of(row.text)))
    prose, closed = _prose(said)
    users = [row for row in prose if row.head.role == "user"]
    done = work_log.steps(said)
    by_id = {row.store_id: row for row in prose}
    return _clear([
        *_task(users),
        *_spread(list(_rules(users, seen)), _RULES),
        *(_file(each) for each in work_log.changes(done)[-_FILES:]),
        *(_failed(each) for each in work_log.unmended(done)[-_FAILED:]),
        *_spread(list(_finished(closed, by_id, done, seen)), _FINISHED),
        *(_open(row, seen) for row in work_log.unfinished(users, closed)[-_OPEN - 1 : -1]),
        *_spread(list(_values(prose, seen)), _VALUES),
    ])  # fmt: skip


def _clear(made: Sequence[Probe]) -> list[Probe]:
    """Probes without those whose question another one answers anew: the newest answer is meant."""
    newest = {each.question: each for each in sorted(made, key=lambda each: each.store_id)}
    return [each for each in made if newest[each.question] is each]


def _spread(items: Sequence[Probe], most: int) -> list[Probe]:
    """A sample of so many probes, evenly over the conversation."""
    return list(items) if len(items) <= most else [items[n * len(items) // most] for n in range(most)]


def _rare(text: str, seen: Counter[str], most: int = _ASKED_WORDS) -> str:
    """The rarest words of a text, in its order."""
    words = list(dict.fromkeys(w for w in words_of(text) if len(w) >= _LEAST_WORD and not w.isdigit()))
    chosen = sorted(words, key=lambda word: (seen[word], -len(word), word))[:most]
    return " ".join(word for word in words if word in chosen)


def _task(users: Sequence[Row]) -> Iterator[Probe]:
    asks = [row for row in users if not salience.is_acknowledgement(markers.typed(row.text))]
    if asks:
        yield verbatim("task", "What is the user's current request?", asks[-1].store_id, markers.typed(asks[-1].text))


def _rules(users: Sequence[Row], seen: Counter[str]) -> Iterator[Probe]:
    for rule in work_log.rules(users):
        if topic := _rare(rule.text, seen):
            yield verbatim("rules", f"What did the user say about {topic}?", rule.row.store_id, rule.text)


def _file(change: work_log.Change) -> Probe:
    tail = words_of("/".join(change.path.split("/")[-2:]))
    groups = (*(frozenset([word]) for word in tail), frozenset(_OPERATIONS[change.operation].split()))
    question = f"What was last done to {change.path}?"
    return Probe("files", question, change.store_id, f"{change.operation} {change.path}", groups, len(groups), _STRETCH)


def _failed(failure: work_log.Failure) -> Probe:
    return verbatim("failed", f"What error did {failure.tried} give?", failure.store_id, failure.line)


def _finished(
    closed: dict[int, work_log.Closed], rows: dict[int, Row], done: Sequence[work_log.Step], seen: Counter[str]
) -> Iterator[Probe]:
    for at, end in closed.items():
        topic = _rare(markers.typed(rows[at].text), seen)
        if " " in topic or _UNSPACED.search(topic):  # one word alone is no question
            yield verbatim("finished", f"Is this finished: {topic}?", end.store_id, end.outcome)
    for entry in work_log.commits(done):
        text = entry.text.removeprefix("committed ")[1:-1]
        if topic := _rare(text, seen):
            yield verbatim("finished", f"Is the work on {topic} committed?", entry.store_id, text)


def _open(row: Row, seen: Counter[str]) -> Probe:
    text = markers.typed(row.text)[:300]
    return verbatim("open", f"What did the user ask about {_rare(text, seen)}?", row.store_id, text)


def _values(prose: Sequence[Row], seen: Counter[str]) -> Iterator[Probe]:
    """Questions that one sentence answers: of a label that stands before several values nobody could tell which is meant."""
    said = [frozenset(words_of(sentence)) for row in prose for sentence, *_ in statements.naming(row.text)]
    for entry in work_log.values(prose):
        sentence = entry.text[1:-1].rstrip("…")
        value = statements.value_in(sentence)
        near, named = _rare(sentence.replace(value, " "), seen, 4).split(), words_of(value)
        if value and len(near) > 1 and all(words.issuperset(named) for words in said if words.issuperset(near)):
            groups = tuple(frozenset([word]) for word in [*named, *near[:2]])
            question = f"Which value was named with {' '.join(near)}?"
            yield Probe("values", question, entry.store_id, sentence, groups, len(groups), _STRETCH)
