"""
The block of present state at the end of the context message.

Quoted words of the user, the task list as the host's own tool returned it last, and what ``work_log``, ``requests`` and
``running`` read from calls, results and replies: each with its address; no model writes any of it. Reads a bounded number of
stored rows, so it costs the same in a conversation of a hundred messages as in one of a hundred thousand. What changes least
stands first, so that a provider's cache keeps it. What has no room is counted (``fitting``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..ledger.table import CORRECTED, CORRECTION_CHARS, KEPT, NOT_SAID, STRUCK, Entry, Ledger
from ..records import Flag, Row
from ..session import Segment, Sessions
from ..store import MessageStore
from ..text import markers, markup, salience, statements
from . import instructions, work_log
from .context_message import stamp
from .fitting import Part, fitted, line_tokens
from .work_log import Closed

_WORDS_CHARS, _RULE_CHARS = 300, 400
_FIRST_CHARS, _LEAST_CHARS = 600, 24  # of the first request, where another one is in force; of any
_LEDGER = 'lcm_describe(view="ledger")'
PINNED_SHARE = 0.25  # of the room: the entries that an operator keeps in the prompt
_USERS, _REPLIES, _RESULTS = 500, 300, 200  # rows that are read, newest first
_BEGUN, _MENTIONS = 50, (8, 20)  # processes begun before these, and so many of them with their newest mentions
_VALUES_A_LINE = 3
_REPLACED = 3  # rules that one line names as replaced
_FILES, _TOUCHED, _FAILURES = 12, 5, 15
_ASKED_CHARS, _OUTCOME_CHARS = 70, 240  # of a request that is finished
_REASON_CHARS, _SKILLS = 120, 2
_FINISHED_REASON = "a request that is finished"  # among the words that still hold its own words would read as open
_SKILLS_SHARE = 0.25
_CHARS_A_TOKEN = 4  # at most, in the host's estimate
_SKILL_TEXTS = (1.0, 0.5, 0.25, 0.12, 0.0)  # of what their share holds of plain words
_COMMAND_CHARS = (120, 60, 25)
_PINNED_HEAD = "Pinned or corrected since, with /lcm ledger:"
_RULES_HEAD = "Rules and wishes of the user, as they were said (a later one overrides an earlier one):"
_FINISHED_HEAD = "Finished, not to be begun again:"
_NAMED_HEAD = "Values, and what was said not to be possible:"
HOLDS_HEAD = "Words that may still hold (a later message of the user overrides them):"
_READ_CHARS = 4000
_OF_ANY_LENGTH = 3  # newest messages of users; of a very long one the beginning and the end are read
_LONG_CHARS = 100_000
_LAST = 2**62
_POINTING_WORDS = 8  # of a rule that may name nothing by itself
_POINTS = re.compile(
    r"\b(?:do|doing|say|saying|repeat) (?:that|this|it|so)\b|\blike (?:that|this)\b|\bthat way\b|\bça\b|\bmach das\b|"
    r"\blo hagas\b|\bделай так\b|这样|那样",
    re.IGNORECASE,
)
#: Of the task list: characters of an item, open items, other items; less of each where there is less room.
_TASKS = ((200, 20, 8), (120, 20, 8), (70, 20, 8), (40, 20, 8), (25, 20, 8), (25, 8, 3), (25, 3, 1), (25, 0, 0))
_TODO_TOOL = "todo"
_TOLD_ROWS = 2000  # how far back the task list and skills are looked for
_TODO_CHARS = 512_000  # what the host itself takes back into its list
_SNAPSHOT_ITEM = re.compile(r"- \[([ >x~?])\] (\S{1,80})\. (.*) \((pending|in_progress|completed|cancelled)\)")
_OPEN = ("in_progress", "pending")


class Task(NamedTuple):
    """Item of the host's task list."""

    text: str
    status: str  # pending, in_progress, completed, cancelled


@dataclass(frozen=True, slots=True)
class _Read:
    """The rows that a block is made of, oldest first. ``users`` without notes of the host and ``gone``, what was taken back.

    ``speakers``: by message who said it, where several people talk.
    """

    first: Row | None
    users: Sequence[Row]
    gone: Sequence[Row]
    rules: Sequence[work_log.Rule]
    speakers: Mapping[int, str]
    notes: Sequence[Row]
    replies: Sequence[Row]
    done: Sequence[work_log.Step]
    raw: frozenset[int]
    marked: Sequence[Entry]

    def unseen(self, entries: Iterable[work_log.Entry]) -> list[work_log.Entry]:
        """Entries of messages that the prompt does not show."""
        return [entry for entry in entries if entry.store_id not in self.raw]

    def covered(self, rows: Iterable[Row]) -> list[Row]:
        """Messages that the prompt does not show."""
        return [row for row in rows if row.store_id not in self.raw]


class PresentState:
    """Requests, rules, tasks, failures, changed files and finished work of a conversation."""

    def __init__(self, store: MessageStore, ledger: Ledger, sessions: Sessions) -> None:
        self._store = store
        self._ledger = ledger
        self._sessions = sessions

    def block(
        self, segments: Sequence[Segment], *, nonce: str, shown: Collection[int], room_tokens: int,
        only: Collection[int] | None = None,
    ) -> str:  # fmt: skip
        """The block for a prompt that shows these rows raw; "" when there is nothing to say. ``only``: of these rows.

        In its tags it takes no more than ``room_tokens``; only a single line may, where nothing else would be left.
        """
        if only is not None:
            narrow = PresentState(self._store.only(only), self._ledger.only(only), self._sessions)
            return narrow.block(segments, nonce=nonce, shown=shown, room_tokens=room_tokens)
        read = self._read(segments, frozenset(shown))
        heard = self._heard(read)
        closed = heard.closed
        tasks = self._tasks(segments)
        skills = _skills(
            self._with_skills(segments, read),
            closed,
            int(room_tokens * _SKILLS_SHARE) * _CHARS_A_TOKEN,
            busy=bool(tasks[0]),
        )
        return fitted(
            [
                Part(_PINNED_HEAD, "pinned", [_pinned(read)], claim=2, sure=PINNED_SHARE, share=0.5, view=_LEDGER),
                Part(_RULES_HEAD, "rules", [_rules(read)], claim=5, sure=0.2, share=0.5),
                Part(_FINISHED_HEAD, "finished", [_finished(read, closed)], weight=1.5),
                Part(_FINISHED_HEAD, "done by tools", [_deeds(read)], claim=7, share=0.25, weight=1.5),
                Part(_NAMED_HEAD, "with values", [_values(read)], weight=2, quotes=True),
                Part(_NAMED_HEAD, "not possible", [_refusals(read)], weight=0.8, quotes=True),
                Part(HOLDS_HEAD, "requests", _requests(read, heard, room_tokens), claim=1, sure=0.3, share=0.5),
                Part(HOLDS_HEAD, "of tasks", tasks, claim=3, sure=0.15, share=0.5),
                Part(HOLDS_HEAD, "running", _running(self._with_older(segments, read)), claim=4, sure=0.1, share=0.25),
                Part(HOLDS_HEAD, "instructions", skills, claim=6, share=_SKILLS_SHARE, most=_SKILLS),
                Part(HOLDS_HEAD, "messages", [_words(read, closed)], weight=0.6, quotes=True),
                Part(HOLDS_HEAD, "of files looked at", [_looked_at(read)]),
                Part(HOLDS_HEAD, "failures", [_failures(read)], claim=8, share=0.25, most=_FAILURES),
                Part(HOLDS_HEAD, "files", [_files(read)], claim=9, share=0.25, most=_FILES),
            ],
            room_tokens,
            lambda text: markup.present_state(nonce, text) if text else "",
        )

    def _read(self, segments: Sequence[Segment], raw: frozenset[int]) -> _Read:
        def newest(role: str, limit: int) -> list[Row]:
            return self._store.last_of(segments, role=role, before=_LAST, limit=limit)[::-1]

        newest_users = self._store.last_of(segments, role="user", before=_LAST, limit=_OF_ANY_LENGTH, most_chars=_LAST)
        ids = {row.store_id for row in newest_users}
        everybody = [row for row in newest("user", _USERS) if row.store_id not in ids]
        everybody += [_readable(row) for row in newest_users[::-1]]
        replies = newest("assistant", _REPLIES)
        typed, speakers = self._spoken([row for row in everybody if not row.head.flags & NOT_SAID])
        users = statements.standing(typed, speakers)
        began = self._store.first_of(segments, role="user")
        kept = {row.store_id for row in users}
        gone = [row for row in typed if row.store_id not in kept]
        taken_back = began is not None and any(row.store_id == began.store_id for row in gone)
        firsts, who = self._spoken([began] if began is not None and not taken_back else [])
        speakers |= who
        done = work_log.steps([*replies, *newest("tool", _RESULTS)])
        notes = [row for row in everybody if row.head.flags & Flag.HOST_NOTE]
        ends = {each.conversation_id: each.end for each in segments}
        marked = [
            each
            for each in self._ledger.marked(ends)
            if each.row.head.seq <= (end := ends[each.row.head.conversation_id]).seq and each.row.head.pos <= end.pos
        ]
        speakers |= self._spoken([each.row for each in marked])[1]
        rules = work_log.rules(users, speakers)
        return _Read(firsts[0] if firsts else None, users, gone, rules, speakers, notes, replies, done, raw, marked)

    def _with_older(self, segments: Sequence[Segment], read: _Read) -> _Read:
        """The rows that were read, and those of older processes and sub-agents."""
        results = [step.told for step in read.done]
        if len(results) < _RESULTS:
            return read
        began = (self._store.holding(segments, words, before=results[0], limit=_BEGUN) for words in work_log.BEGAN)
        begun = self._steps(segments, [row for rows in began for row in rows])
        most, newest = _MENTIONS
        told = {
            row.store_id: row
            for name in work_log.begun(begun)[-most:]
            for row in self._store.holding(segments, name, before=results[0], limit=newest)
        }
        steps = {step.told: step for step in [*begun, *self._steps(segments, told.values()), *read.done]}
        notes = [row for row in told.values() if row.head.role == "user"]
        return replace(read, done=[steps[at] for at in sorted(steps)], notes=[*notes, *read.notes])

    def _with_skills(self, segments: Sequence[Segment], read: _Read) -> _Read:
        """The rows that were read, and those of skills that were loaded before."""
        told = self._store.last_told(segments, tool=instructions.SKILL_TOOL, within=_TOLD_ROWS, notes=False)
        steps = {step.told: step for step in [*self._steps(segments, told), *read.done]}
        return replace(read, done=[steps[at] for at in sorted(steps)])

    def _steps(self, segments: Sequence[Segment], rows: Iterable[Row]) -> list[work_log.Step]:
        """Steps whose results are among rows."""
        results = [row for row in rows if row.head.role == "tool"]
        calls = [
            self._store.last_of(segments, role="assistant", before=row.store_id, limit=1, most_chars=_LAST)
            for row in results
        ]
        return work_log.steps([*(row for found in calls for row in found), *results])

    def _spoken(self, rows: Sequence[Row]) -> tuple[list[Row], dict[int, str]]:
        """Messages as those who speak said them; who they are, where several people talk."""
        found = {each: self._sessions.find(each) for each in {row.head.session_id for row in rows}}
        shared = {name for name, session in found.items() if session is not None and self._sessions.of_several(session)}
        out, speakers = [], {}
        for row in rows:
            several = row.head.session_id in shared
            name, number = markers.speaker(row.text) if several else ("", "")
            if name:
                speakers[row.store_id] = _named(name) + (f" ({_named(number)})" if number else "")
            out.append(replace(row, text=markers.by_speaker(row.text, named=several, source=row.head.source)))
        return out, speakers

    def _heard(self, read: _Read) -> work_log.Heard:
        """Requests that were finished, by message, and what is done first; the first request too, however long ago it was."""
        said = [*read.users, *read.gone, *(row for row in read.replies if not row.calls)]
        heard = work_log.heard(sorted(said, key=lambda row: row.store_id), {row.store_id for row in read.gone})
        if read.first is not None and all(read.first.store_id < row.store_id for row in read.replies[:1]):
            replies = self._store.legible([*self._store.closings([read.first.head]).values()])[0]
            heard.closed.update(work_log.closed([read.first, *(row for row in replies if not row.calls)]))
        return heard

    def _tasks(self, segments: Sequence[Segment]) -> list[list[work_log.Entry]]:
        """The task list as it was told last, by the host's tool or by its note behind a compaction; whole and shorter."""
        told = self._store.last_told(segments, tool=_TODO_TOOL, within=_TOLD_ROWS)
        row = next((row for row in told if tasks_of(row)), None)
        tasks = tasks_of(row) if row is not None else ()
        return [_task_lines(row, tasks, *most) for most in _TASKS] if row is not None and tasks else [[]]


def _task_lines(row: Row, tasks: Sequence[Task], chars: int, most_open: int, most_others: int) -> list[work_log.Entry]:
    # The host's note names open items only: what it does not name is not known to be finished.
    still = [task for status in _OPEN for task in tasks if task.status == status]
    listed = {"open tasks": (still, most_open, still[:most_open])}
    for status, said in (("completed", "finished, not to be done again"), ("cancelled", "cancelled")):
        others = [task for task in tasks if task.status == status]
        listed[said] = others, most_others, others[len(others) - most_others :] if len(others) > most_others else others
    return [
        work_log.Entry(row.store_id, f"- {said} {_place(row)}: {_named_tasks(row, named, len(all_) - most, chars)}")
        for said, (all_, most, named) in listed.items()
        if all_ or said == "open tasks"
    ]


def _named_tasks(row: Row, named: Sequence[Task], others: int, chars: int) -> str:
    more = [f"and {others} more: lcm_expand(store_id={row.store_id})"] if others > 0 else []
    return "; ".join([*(_shown(each, chars) for each in named), *more]) or "none"


def tasks_of(row: Row) -> tuple[Task, ...]:
    """The host's task list in a stored message: a result of its tool, or the note that it adds behind a compaction."""
    if row.head.role == "tool":
        return _from_result(row.text)
    at = row.text.find(markers.TODO_HEAD)
    if at < 0:
        return ()
    found = (_SNAPSHOT_ITEM.fullmatch(line) for line in row.text[at:].splitlines()[1:])
    return tuple(Task(item[3], item[4]) for item in found if item)


def _from_result(text: str) -> tuple[Task, ...]:
    items = work_log.parsed(text, most_chars=_TODO_CHARS).get("todos") if '"todos"' in text else None
    if not isinstance(items, list):
        return ()
    return tuple(
        Task(str(item.get("content") or ""), str(item.get("status") or "pending"))
        for item in items
        if isinstance(item, dict) and item.get("content")
    )


def _shown(task: Task, chars: int) -> str:
    state = " (in progress)" if task.status == "in_progress" else ""
    return work_log.quoted(task.text, chars) + state


def _place(row: Row) -> str:
    """Address and time of a message."""
    return f"[msg_{row.store_id}, {stamp(row.head.said_at or row.head.stored_at)}]"


def _who(read: _Read, row: Row) -> str:
    """Speaker of a message: the user, or whom of several the host names."""
    return read.speakers.get(row.store_id, "the user")


def _requests(read: _Read, heard: work_log.Heard, room: int) -> list[list[work_log.Entry]]:
    """The first request while it is not finished, and the latest; the one in force whole, then by its beginning and end."""
    closed = heard.closed
    first, latest = read.first, _in_force(read, closed)
    asked, behind = list[tuple[Row, str, str]](), list[work_log.Entry]()
    if first is not None and first.store_id not in read.raw and first.store_id not in closed:
        asked.append(_asking("first", first, read))
    if latest is not None and (first is None or latest.store_id != first.store_id):
        if latest.store_id not in read.raw:
            asked.append(_asking("latest", latest, read))
        elif asked or closed:
            said = f"- {_who(read, latest)}'s latest request {_place(latest)} stands in full behind this record"
            behind.append(work_log.Entry(latest.store_id, said))
    behind += _agreed(read, heard.agreed)
    force = latest.store_id if latest is not None else 0
    most = max(_LEAST_CHARS, room * _CHARS_A_TOKEN)
    lengths = [most >> n for n in range(most.bit_length()) if most >> n >= _LEAST_CHARS]
    return [
        [
            *(
                work_log.Entry(
                    row.store_id, begin + _ends(row, said, chars if row.store_id == force else min(chars, _FIRST_CHARS))
                )
                for row, begin, said in asked
            ),
            *behind,
        ]
        for chars in lengths
    ]


def _agreed(read: _Read, agreed: tuple[Row, work_log.Entry] | None) -> list[work_log.Entry]:
    """The step that the agent proposed to take first, and to which the user agreed."""
    if agreed is None or agreed[1].store_id in read.raw:
        return []
    answer, asked = agreed
    question = f"{work_log.quoted(asked.text, _WORDS_CHARS)} [msg_{asked.store_id}]"
    said = (
        f"- to be done before it: the agent asked {question}, and {_who(read, answer)} agreed [msg_{answer.store_id}]"
    )
    return [work_log.Entry(asked.store_id, said)]


def _asking(which: str, row: Row, read: _Read) -> tuple[Row, str, str]:
    """A request with how its line begins, and its words."""
    return row, f"- {_who(read, row)}'s {which} request {_place(row)}: ", " ".join(markers.typed(row.text).split())


def _readable(row: Row) -> Row:
    """A message, of a very long one its beginning and its end."""
    if len(row.text) < _LONG_CHARS:
        return row
    between = f"[… all of it: lcm_expand(store_id={row.store_id}) …]"
    return replace(row, text=f"{row.text[: _LONG_CHARS // 2]}\n{between}\n{row.text[-_LONG_CHARS // 2 :]}")


def _ends(row: Row, said: str, chars: int) -> str:
    """Words as they are, or their beginning and end with the call that shows them whole."""
    begin, end = said[: chars * 2 // 3], said[-(chars // 3) :]
    if len(said) <= chars or len(begin) + len(end) >= len(said):
        return work_log.quoted(said, len(said))
    quoted = f"{work_log.quoted(begin, chars)} … {work_log.quoted(end, chars)}"
    return f"{quoted} (all of it: lcm_expand(store_id={row.store_id}))"


def _pinned(read: _Read) -> list[work_log.Entry]:
    """Words that an operator keeps in the prompt, and corrections of what was said; in a group with who said them."""
    return [
        work_log.Entry(each.row.store_id, f"- {each.mark} {_by(read, each.row)}{_day(each.row)}: {_kept(each)}")
        for each in read.marked
        if each.mark in KEPT
    ]


def _kept(entry: Entry) -> str:
    right = f"; right is: {work_log.quoted(entry.correction, CORRECTION_CHARS)}" if entry.correction else ""
    return work_log.quoted(entry.fact.text, _RULE_CHARS) + right


def kept_tokens(entry: Entry) -> int:
    """Tokens that an entry takes of the room while an operator keeps it in the prompt."""
    return line_tokens(f"- {entry.mark} {_day(entry.row)}: {_kept(entry)}") if entry.mark in KEPT else 0


def _by(read: _Read, row: Row) -> str:
    """Speaker of a message where the host names several."""
    return f"{read.speakers[row.store_id]} " if row.store_id in read.speakers else ""


def _rules(read: _Read) -> list[work_log.Entry]:
    """Rules of the user that hold beyond the task at hand, with the day they were said."""
    gone = {each.fact.text for each in _wrong(read)}
    rules = [rule for rule in read.rules if rule.text not in gone]
    return [work_log.Entry(rule.row.store_id, line) for rule in rules if (line := _rule(rule, read))]


def _rule(rule: work_log.Rule, read: _Read) -> str:
    """A rule that the prompt does not show, and the one that it replaces; "" where both stand in the prompt."""
    old = rule.replaces
    deed = statements.is_deed(rule.text) and not (old and statements.corrects(rule.text, old.text, follows=True))
    if rule.row.store_id not in read.raw and not deed:
        said = f"- {_who(read, rule.row)} said {_day(rule.row)}: {work_log.quoted(_with_its_thing(rule), _RULE_CHARS)}"
        return said + (f" (replaces {'; before it '.join(_replaced(old))})" if old is not None else "")
    if old is None or old.row.store_id in read.raw:
        return ""
    replaced = f"- no longer in force {_day(old.row)}: {work_log.quoted(old.text, _RULE_CHARS)}"
    return f"{replaced}; replaced by what {_who(read, rule.row)} said in msg_{rule.row.store_id}"


def _with_its_thing(rule: work_log.Rule) -> str:
    """A rule; one that only points at what was said before it ("stop doing that") with the sentence in front of it."""
    if len(rule.text.split()) > _POINTING_WORDS or not _POINTS.search(rule.text):
        return rule.text
    said = list(salience.sentences(markers.typed(rule.row.text)[:_READ_CHARS]))
    at = said.index(rule.text) if rule.text in said else 0
    return f"{said[at - 1]} {rule.text}" if at else rule.text


def _replaced(rule: work_log.Rule | None) -> list[str]:
    """A rule that was replaced, and those that it had replaced itself, newest first."""
    out: list[str] = []
    while rule is not None and len(out) < _REPLACED:
        out.append(f"{_day(rule.row)}: {work_log.quoted(rule.text, _RULE_CHARS)}")
        rule = rule.replaces
    return out


def _finished(read: _Read, closed: Mapping[int, Closed]) -> list[work_log.Entry]:
    """Requests with the replies that closed them, and commits, by the message that asked or did it."""
    rows = {row.store_id: row for row in [*read.users, *([read.first] if read.first is not None else [])]}
    told = [
        work_log.Entry(
            at,
            f"{_asked(read, rows[at])} closed by msg_{end.store_id}: {work_log.quoted(end.outcome, _OUTCOME_CHARS)}",
        )
        for at, end in closed.items()
    ]
    ended = sorted(read.unseen([*told, *work_log.commits(read.done)]))
    return [entry._replace(text=f"- {entry.text} [msg_{entry.store_id}]") for entry in ended]


def _deeds(read: _Read) -> list[work_log.Entry]:
    return _entries("done by a tool", read.unseen(work_log.deeds(read.done)))


def _asked(read: _Read, row: Row) -> str:
    said = work_log.quoted(markers.typed(row.text), _ASKED_CHARS)
    return f"{_who(read, row)} asked {said}" if row.store_id in read.speakers else said


def _values(read: _Read) -> list[work_log.Entry]:
    """Values in the sentences that named them, a message a line; a sentence that is among the rules is not said twice."""
    prose = sorted(
        read.covered([*read.users, *(row for row in read.replies if not row.calls)]), key=lambda row: row.store_id
    )
    ruled = {(rule.row.store_id, work_log.quoted(rule.text, _RULE_CHARS)) for rule in read.rules}
    told: dict[int, list[str]] = {}
    gone = {each.fact.value for each in _wrong(read)}
    for entry in work_log.values(prose):
        if entry not in ruled and not any(_names(value, entry.text) for value in gone):
            told.setdefault(entry.store_id, []).append(entry.text)
    return [
        work_log.Entry(
            at,
            f"- named{f' by {read.speakers[at]}' if at in read.speakers else ''} [msg_{at}]: "
            + " ".join(texts[n : n + _VALUES_A_LINE]),
        )
        for at, texts in told.items()
        for n in range(0, len(texts), _VALUES_A_LINE)
    ]


def _wrong(read: _Read) -> list[Entry]:
    """Entries that an operator struck or corrected: what they say is said no more."""
    return [each for each in read.marked if each.mark in (STRUCK, CORRECTED)]


def _names(value: str, text: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(value)}(?![\w]|\.\d)", text) is not None


def _refusals(read: _Read) -> list[work_log.Entry]:
    said = read.covered(row for row in read.replies if not row.calls)
    return _entries("said not to be possible", work_log.refusals(said))


def _running(read: _Read) -> list[list[work_log.Entry]]:
    """Background processes and sub-agents, whole and shorter."""
    notes = [(row.store_id, row.text) for row in [*read.users, *read.notes]]
    said = [text for _, text in notes]
    return [
        sorted(
            [
                *_entries("runs in the background", work_log.processes(read.done, said, chars)),
                *_entries(
                    "a sub-agent works, its result is still to come", work_log.delegations(read.done, notes, chars)
                ),
            ],
            key=lambda entry: entry.store_id,
        )
        for chars in _COMMAND_CHARS
    ]


def _skills(read: _Read, closed: Mapping[int, Closed], chars: int, *, busy: bool) -> list[list[work_log.Entry]]:
    """Instructions that are being followed; these with their text where it is not shown, whole and shorter.

    Instructions are followed while tasks are open, or until the request is finished that they were loaded for.
    """
    held = instructions.loaded(read.done, read.users)
    lines = list[tuple[instructions.Loaded, str, bool]]()
    for each in held:
        before = [row for row in read.users if row.store_id <= each.store_id]
        asks = (row for row in reversed(before) if not salience.is_acknowledgement(markers.typed(row.text)))
        asked = next(asks, before[-1] if before else None)
        since = asked.store_id if asked is not None else each.store_id
        line = f"- instructions {_named(each.name)} [msg_{each.store_id}]"
        if asked is not None:
            reason = work_log.quoted(markers.typed(asked.text), _REASON_CHARS)
            line += f", loaded for {_FINISHED_REASON if since in closed else reason} [msg_{since}]"
        told = each.store_id not in read.raw and (busy or since not in closed)
        lines.append((each, line, told))
    each_ = chars // max(1, min(len(held), _SKILLS))
    return [
        [
            work_log.Entry(each.store_id, line + (_told(each, int(part * each_) - len(line)) if told else ""))
            for each, line, told in lines
        ]
        for part in _SKILL_TEXTS
    ]


def _told(each: instructions.Loaded, chars: int) -> str:
    return f"; they say: {work_log.quoted(each.text, chars)}" if chars > 0 else ""


def _in_force(read: _Read, closed: Mapping[int, Closed]) -> Row | None:
    """The latest request: a "go on" belongs to the one before it, while that is not finished."""
    asks = (row for row in reversed(read.users) if not salience.is_acknowledgement(markers.typed(row.text)))
    asked = next(asks, None)
    newest = read.users[-1] if read.users else None
    return newest if asked is None or asked.store_id in closed else asked


def _words(read: _Read, closed: Mapping[int, Closed]) -> list[work_log.Entry]:
    """The newest messages of the user that nothing finished, but for requests, and those that are hardly more than a rule."""
    told: dict[int, int] = {}
    for rule in read.rules:
        told[rule.row.store_id] = told.get(rule.row.store_id, 0) + len(rule.text)
    named = {row.store_id for row in (read.first, _in_force(read, closed)) if row is not None}
    since = read.replies[0].store_id if read.replies else 0
    open_ = work_log.unfinished(read.covered(row for row in read.users if row.store_id > since), closed)
    wrong = {each.row.store_id: each.fact.text for each in _wrong(read)}
    return [
        work_log.Entry(
            row.store_id,
            f"- {_who(read, row)} wrote {_day(row)}: {work_log.quoted(markers.typed(row.text), _WORDS_CHARS)}",
        )
        for row in open_
        if row.store_id not in named
        and 2 * len(wrong.get(row.store_id, "")) < len(markers.typed(row.text))
        and 2 * max(told.get(row.store_id, 0), work_log.ruling(row)) < min(len(markers.typed(row.text)), _WORDS_CHARS)
    ]


def _failures(read: _Read) -> list[work_log.Entry]:
    return _entries("failed, and not mended since", read.unseen(work_log.failures(read.done)))


def _files(read: _Read) -> list[work_log.Entry]:
    """Files with their last change and its day."""
    days = {row.store_id: _day(row) for row in read.replies}
    return [
        work_log.Entry(
            each.store_id,
            f"- {each.operation} {_named(each.path)} {days.get(each.store_id, f'[msg_{each.store_id}]')}",
        )
        for each in work_log.changes(read.done)
        if each.store_id not in read.raw
    ]


def _looked_at(read: _Read) -> list[work_log.Entry]:
    """Files that were touched last and not changed, in one line."""
    changed = {each.path for each in work_log.changes(read.done)}
    touched = _touched(read.covered(read.replies), changed)
    names = ", ".join(f"{_named(path)} [msg_{at}]" for path, at in touched)
    return [work_log.Entry(touched[0][1], f"- files touched most recently: {names}")] if touched else []


def _day(row: Row) -> str:
    """Address and day of a message."""
    return f"[msg_{row.store_id}, {stamp(row.head.said_at or row.head.stored_at)[:10]}]"


def _entries(kind: str, entries: Iterable[work_log.Entry]) -> list[work_log.Entry]:
    return [entry._replace(text=f"- {kind} [msg_{entry.store_id}]: {entry.text}") for entry in entries]


def _touched(rows: Iterable[Row], known: Collection[str]) -> list[tuple[str, int]]:
    """Paths in the arguments of the newest tool calls with the message that named them last, most recent first."""
    out: dict[str, int] = {}
    for row in reversed(list(rows)):
        for call in row.calls:
            for path in work_log.paths(work_log.parsed(call.arguments, most_chars=_READ_CHARS)):
                if path not in known:
                    out.setdefault(path, row.store_id)
                if len(out) >= _TOUCHED:
                    return list(out.items())
    return list(out.items())


_PLAIN = re.compile(r"[\w./~@+:\\-]+(?: [\w./~@+:\\-]+){0,4}")


def _named(path: str) -> str:
    """A path as it is, or in quotation marks where it could pass for words of ours."""
    return path if _PLAIN.fullmatch(path) else work_log.quoted(path, _WORDS_CHARS)
