"""
The block of present state at the end of the context message.

Quoted words of the user, the task list as the host's own tool returned it last, and what ``work_log``, ``requests`` and
``running`` read from calls, results and replies: each with its address; no model writes any of it. Reads a bounded number of
stored rows, so it costs the same in a conversation of a hundred messages as in one of a hundred thousand. What changes least
stands first, so that a provider's cache keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..ledger.table import CORRECTED, NOT_SAID, PINNED, STRUCK, Entry, Ledger
from ..records import Flag, Row
from ..session import Sessions
from ..store import MessageStore, Segment
from ..text import markers, salience, statements, tokens
from . import work_log
from .context_message import stamp
from .work_log import Closed

_REQUEST_CHARS, _WORDS_CHARS, _RULE_CHARS = 600, 300, 400
_USERS, _REPLIES, _RESULTS = 500, 300, 200  # rows that are read, newest first
_VALUES_A_LINE = 3
_REPLACED = 3  # rules that one line names as replaced
_FILES, _TOUCHED, _FAILURES = 12, 5, 15
_ASKED_CHARS, _OUTCOME_CHARS = 70, 240  # of a request that is finished
_REASON_CHARS, _SKILLS = 120, 2
_ROOM_TOKENS, _LEAST_TOKENS, _CHARS_A_TOKEN = 1500, 400, 4
_FRAME_TOKENS = 40  # of the tags around the block
_PINNED_HEAD = "Pinned or corrected since, with /lcm ledger:"
_RULES_HEAD = "Rules and wishes of the user, as they were said (a later one overrides an earlier one):"
_FINISHED_HEAD = "Finished, not to be begun again:"
_NAMED_HEAD = "Values, and what was said not to be possible:"
HOLDS_HEAD = "Words that may still hold (a later message of the user overrides them):"
_READ_CHARS = 4000
_LAST = 2**62
#: Of the task list, so many open and so many other items, each so long; shorter ones where there is less room.
_OPEN_TASKS, _OTHER_TASKS = 20, 8
_TASK_CHARS = (200, 120, 70, 40, 25)
_TODO_TOOL = "todo"
_TODO_ROWS = 2000  # how far back the host's task list is looked for
_TODO_CHARS = 512_000  # what the host itself takes back into its list
_SNAPSHOT_ITEM = re.compile(r"- \[([ >x~?])\] (\S{1,80})\. (.*) \((pending|in_progress|completed|cancelled)\)")
_OPEN = ("in_progress", "pending")
_OF_DAY = re.compile(r"(?<=\[msg_)(?:\d+)(, \d{4}-\d\d-\d\d\])")


class Task(NamedTuple):
    """One item of the host's task list."""

    text: str
    status: str  # pending, in_progress, completed, cancelled


@dataclass(frozen=True, slots=True)
class _Part:
    """Lines of one kind, oldest first.

    ``share`` of the room is taken before the parts share what is left by ``weight``; 1: all lines, whatever the room.
    """

    head: str
    lines: Sequence[str]
    share: float = 0.0
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class _Read:
    """The rows that a block is made of, oldest first. ``users`` without notes of the host and what was taken back.

    ``speakers``: by message who said it, where several people talk.
    """

    first: Row | None
    users: Sequence[Row]
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

    def block(self, segments: Sequence[Segment], *, shown: Collection[int], room_tokens: int = _ROOM_TOKENS) -> str:
        """The block for a prompt that shows these rows raw; "" when there is nothing to say.

        Requests, tasks and what runs are kept when they need more than ``room_tokens``.
        """
        read = self._read(segments, frozenset(shown))
        closed = self._closed(read)
        room = max(_LEAST_TOKENS, room_tokens) - _FRAME_TOKENS
        tasks = self._tasks(segments, room // 2)
        return _fitted(
            [
                _Part(_PINNED_HEAD, _pinned(read), 1),
                _Part(_RULES_HEAD, _rules(read), 0.5),
                _Part(_FINISHED_HEAD, _finished(read, closed), weight=1.5),
                _Part(_FINISHED_HEAD, _entries("done by a tool", read.unseen(work_log.deeds(read.done))), 0.25, 1.5),
                _Part(_NAMED_HEAD, _values(read), weight=2),
                _Part(_NAMED_HEAD, _refusals(read), weight=0.8),
                _Part(HOLDS_HEAD, self._requests(read, closed), 1),
                _Part(HOLDS_HEAD, tasks, 1),
                _Part(HOLDS_HEAD, _beside(read, closed, room * _CHARS_A_TOKEN // 4, busy=bool(tasks)), 1),
                _Part(HOLDS_HEAD, _words(read, closed), weight=0.6),
                _Part(HOLDS_HEAD, _failures(read), 0.25),
                _Part(HOLDS_HEAD, _files(read), 0.25),
            ],
            room,
        )

    def _read(self, segments: Sequence[Segment], raw: frozenset[int]) -> _Read:
        def newest(role: str, limit: int) -> list[Row]:
            return self._store.last_of(segments, role=role, before=_LAST, limit=limit)[::-1]

        everybody, replies = newest("user", _USERS), newest("assistant", _REPLIES)
        typed, speakers = self._spoken([row for row in everybody if not row.head.flags & NOT_SAID])
        users = statements.standing(typed, speakers)
        began = self._store.first_of(segments, role="user")
        firsts, who = self._spoken([began] if began is not None else [])
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
        return _Read(firsts[0] if firsts else None, users, speakers, notes, replies, done, raw, marked)

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
            out.append(replace(row, text=markers.by_speaker(row.text, named=several)))
        return out, speakers

    def _closed(self, read: _Read) -> Mapping[int, Closed]:
        """Requests that were finished, by message; the first one too, however long ago it was."""
        prose = sorted([*read.users, *(row for row in read.replies if not row.calls)], key=lambda row: row.store_id)
        closed = work_log.closed(prose)
        if read.first is not None and all(read.first.store_id < row.store_id for row in read.replies[:1]):
            replies = self._store.legible([*self._store.closings([read.first.head]).values()])[0]
            closed.update(work_log.closed([read.first, *(row for row in replies if not row.calls)]))
        return closed

    def _requests(self, read: _Read, closed: Mapping[int, Closed]) -> list[str]:
        """The first request while it is not finished, and the latest."""
        first, latest = read.first, _in_force(read, closed)
        lines = []
        if first is not None and first.store_id not in read.raw and first.store_id not in closed:
            lines.append(_request("first", first, read))
        if latest is None or (first is not None and latest.store_id == first.store_id):
            return lines
        if latest.store_id not in read.raw:
            lines.append(_request("latest", latest, read))
        elif lines or closed:
            lines.append(f"- {_who(read, latest)}'s latest request {_place(latest)} stands in full behind this record")
        return lines

    def _tasks(self, segments: Sequence[Segment], room: int) -> list[str]:
        """The task list as it was told last, by the host's tool or by its note behind a compaction.

        Long tasks are told by their beginnings, so that all of them need no more than ``room`` tokens.
        """
        told = self._store.last_told(segments, tool=_TODO_TOOL, within=_TODO_ROWS)
        row = next((row for row in told if tasks_of(row)), None)
        tasks = tasks_of(row) if row is not None else ()
        if row is None or not tasks:
            return []
        lines = list[str]()
        for chars in _TASK_CHARS:
            lines = _task_lines(row, tasks, chars)
            if sum(map(tokens.count, lines)) <= room:
                break
        return lines


def _task_lines(row: Row, tasks: Sequence[Task], chars: int) -> list[str]:
    # The host's note names open items only: what it does not name is not known to be finished.
    still = [task for status in _OPEN for task in tasks if task.status == status]
    lines = [
        f"- open tasks {_place(row)}: " + ("; ".join(_shown(each, chars) for each in still[:_OPEN_TASKS]) or "none")
    ]
    if len(still) > _OPEN_TASKS:
        lines[0] += f"; and {len(still) - _OPEN_TASKS} more"
    for status, said in (("completed", "finished, not to be done again"), ("cancelled", "cancelled")):
        others = [task for task in tasks if task.status == status]
        if others:
            more = f"; and {len(others) - _OTHER_TASKS} more" if len(others) > _OTHER_TASKS else ""
            named = "; ".join(_shown(each, chars) for each in others[-_OTHER_TASKS:])
            lines.append(f"- {said} {_place(row)}: {named}{more}")
    return lines


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


def _request(which: str, row: Row, read: _Read) -> str:
    return f"- {_who(read, row)}'s {which} request {_place(row)}: {work_log.quoted(markers.typed(row.text), _REQUEST_CHARS)}"


def _pinned(read: _Read) -> list[str]:
    """Words that an operator keeps in the prompt, and corrections of what was said; in a group with who said them."""
    return [
        f"- {each.mark} {_by(read, each.row)}{_day(each.row)}: {work_log.quoted(each.fact.text, _RULE_CHARS)}"
        + (f"; right is: {work_log.quoted(each.correction, _RULE_CHARS)}" if each.correction else "")
        for each in read.marked
        if each.mark in (PINNED, CORRECTED)
    ]


def _by(read: _Read, row: Row) -> str:
    """Speaker of a message where the host names several."""
    return f"{read.speakers[row.store_id]} " if row.store_id in read.speakers else ""


def _rules(read: _Read) -> list[str]:
    """Rules of the user that hold beyond the task at hand, with the day they were said."""
    gone = {each.fact.text for each in _wrong(read)}
    rules = [rule for rule in work_log.rules(read.users, read.speakers) if rule.text not in gone]
    return [line for rule in rules if (line := _rule(rule, read))]


def _rule(rule: work_log.Rule, read: _Read) -> str:
    """A rule that the prompt does not show, and the one that it replaces; "" where both stand in the prompt."""
    old = rule.replaces
    if rule.row.store_id not in read.raw:
        said = f"- {_who(read, rule.row)} said {_day(rule.row)}: {work_log.quoted(rule.text, _RULE_CHARS)}"
        return said + (f" (replaces {'; before it '.join(_replaced(old))})" if old is not None else "")
    if old is None or old.row.store_id in read.raw:
        return ""
    replaced = f"- no longer in force {_day(old.row)}: {work_log.quoted(old.text, _RULE_CHARS)}"
    return f"{replaced}; replaced by what {_who(read, rule.row)} said in msg_{rule.row.store_id}"


def _replaced(rule: work_log.Rule | None) -> list[str]:
    """A rule that was replaced, and those that it had replaced itself, newest first."""
    out: list[str] = []
    while rule is not None and len(out) < _REPLACED:
        out.append(f"{_day(rule.row)}: {work_log.quoted(rule.text, _RULE_CHARS)}")
        rule = rule.replaces
    return out


def _finished(read: _Read, closed: Mapping[int, Closed]) -> list[str]:
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
    return [f"- {entry.text} [msg_{entry.store_id}]" for entry in ended]


def _asked(read: _Read, row: Row) -> str:
    said = work_log.quoted(markers.typed(row.text), _ASKED_CHARS)
    return f"{_who(read, row)} asked {said}" if row.store_id in read.speakers else said


def _values(read: _Read) -> list[str]:
    """Values in the sentences that named them, a message a line; what stands among the rules is not said twice."""
    prose = sorted(
        read.covered([*read.users, *(row for row in read.replies if not row.calls)]), key=lambda row: row.store_id
    )
    ruled = {
        (rule.row.store_id, work_log.quoted(rule.text, _RULE_CHARS))
        for rule in work_log.rules(read.users, read.speakers)
    }
    told: dict[int, list[str]] = {}
    gone = {each.fact.value for each in _wrong(read)}
    for entry in work_log.values(prose):
        if entry not in ruled and not any(_names(value, entry.text) for value in gone):
            told.setdefault(entry.store_id, []).append(entry.text)
    return [
        f"- named{f' by {read.speakers[at]}' if at in read.speakers else ''} [msg_{at}]: "
        + " ".join(texts[n : n + _VALUES_A_LINE])
        for at, texts in told.items()
        for n in range(0, len(texts), _VALUES_A_LINE)
    ]


def _wrong(read: _Read) -> list[Entry]:
    """Entries that an operator struck or corrected: what they say is said no more."""
    return [each for each in read.marked if each.mark in (STRUCK, CORRECTED)]


def _names(value: str, text: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(value)}(?![\w]|\.\d)", text) is not None


def _refusals(read: _Read) -> list[str]:
    said = read.covered(row for row in read.replies if not row.calls)
    return _entries("said not to be possible", work_log.refusals(said))


def _beside(read: _Read, closed: Mapping[int, Closed], room: int, *, busy: bool) -> list[str]:
    """Background work, and the instructions that are being followed; these with their text where it is not shown.

    Instructions are followed while tasks are open, or nothing was finished since the request that they were loaded for.
    """
    notes = [(row.store_id, row.text) for row in [*read.users, *read.notes]]
    lines = _entries("runs in the background", work_log.processes(read.done, [text for _, text in notes]))
    lines += _entries("a sub-agent works, its result is still to come", work_log.delegations(read.done, notes))
    held = work_log.loaded(read.done, read.users)[-_SKILLS:]
    for each in held:
        asked = next((row for row in reversed(read.users) if row.store_id <= each.store_id), None)
        since = asked.store_id if asked is not None else each.store_id
        line = f"- instructions {_named(each.name)} [msg_{each.store_id}]"
        if asked is not None:
            line += f", loaded for {work_log.quoted(markers.typed(asked.text), _REASON_CHARS)} [msg_{since}]"
        if each.store_id not in read.raw and (busy or all(at < since for at in closed)):
            line += f"; they say: {work_log.quoted(each.text, max(0, room // len(held) - len(line)))}"
        lines.append(line)
    return lines


def _in_force(read: _Read, closed: Mapping[int, Closed]) -> Row | None:
    """The latest request: a "go on" belongs to the one before it, while that is not finished."""
    asks = (row for row in reversed(read.users) if not salience.is_acknowledgement(markers.typed(row.text)))
    asked = next(asks, None)
    newest = read.users[-1] if read.users else None
    return newest if asked is None or asked.store_id in closed else asked


def _words(read: _Read, closed: Mapping[int, Closed]) -> list[str]:
    """The newest messages of the user that nothing finished, but for requests, and those that are hardly more than a rule."""
    told: dict[int, int] = {}
    for rule in work_log.rules(read.users, read.speakers):
        told[rule.row.store_id] = told.get(rule.row.store_id, 0) + len(rule.text)
    named = {row.store_id for row in (read.first, _in_force(read, closed)) if row is not None}
    since = read.replies[0].store_id if read.replies else 0
    open_ = work_log.unfinished(read.covered(row for row in read.users if row.store_id > since), closed)
    wrong = {each.row.store_id: each.fact.text for each in _wrong(read)}
    return [
        f"- {_who(read, row)} wrote {_day(row)}: {work_log.quoted(markers.typed(row.text), _WORDS_CHARS)}"
        for row in open_
        if row.store_id not in named
        and 2 * len(wrong.get(row.store_id, "")) < len(markers.typed(row.text))
        and 2 * max(told.get(row.store_id, 0), work_log.ruling(row)) < min(len(markers.typed(row.text)), _WORDS_CHARS)
    ]


def _failures(read: _Read) -> list[str]:
    return _entries("failed, and not mended since", read.unseen(work_log.failures(read.done)[-_FAILURES:]))


def _files(read: _Read) -> list[str]:
    """Files with their last change and its day, and those that were only looked at."""
    changed = [each for each in work_log.changes(read.done) if each.store_id not in read.raw][-_FILES:]
    days = {row.store_id: _day(row) for row in read.replies}
    lines = [
        f"- {each.operation} {_named(each.path)} {days.get(each.store_id, f'[msg_{each.store_id}]')}"
        for each in changed
    ]
    touched = _touched(read.covered(read.replies), {each.path for each in changed})
    names = ", ".join(f"{_named(path)} [msg_{at}]" for path, at in touched)
    return [*([f"- files touched most recently: {names}"] if names else []), *lines]


def _day(row: Row) -> str:
    """Address and day of a message."""
    return f"[msg_{row.store_id}, {stamp(row.head.said_at or row.head.stored_at)[:10]}]"


def _entries(kind: str, entries: Iterable[work_log.Entry]) -> list[str]:
    return [f"- {kind} [msg_{entry.store_id}]: {entry.text}" for entry in entries]


def _fitted(parts: Sequence[_Part], room: int) -> str:
    """The newest lines of each part that fit ``room`` tokens: first its share, then evenly by weight; in the parts' order."""
    left = room - sum(tokens.count(head) + 1 for head in {part.head for part in parts if part.lines})
    waiting = [[(tokens.count(short) + 1, line) for line, short in zip(part.lines, _days_once(part.lines), strict=True)]
               for part in parts]  # fmt: skip
    kept: list[list[str]] = [[] for _ in parts]

    def move(n: int) -> int:
        cost, line = waiting[n].pop()
        kept[n].append(line)
        return cost

    for n, part in enumerate(parts):
        most = int(room * part.share)
        while waiting[n] and (part.share == 1 or waiting[n][-1][0] <= min(most, left)):
            cost = move(n)
            left, most = left - cost, most - cost
    used = [0.0] * len(parts)
    while open_ := [n for n, lines in enumerate(waiting) if lines and parts[n].weight]:
        n = min(open_, key=used.__getitem__)
        if waiting[n][-1][0] <= left:
            cost = move(n)
            left, used[n] = left - cost, used[n] + cost / parts[n].weight
        else:
            waiting[n].clear()
    out: dict[str, list[str]] = {}
    for part, lines in zip(parts, kept, strict=True):
        out.setdefault(part.head, []).extend(_days_once(lines[::-1]))
    return "\n".join(line for head, lines in out.items() if lines for line in [head, *lines])


def _days_once(lines: Sequence[str]) -> list[str]:
    """Lines without the day where the one above them names it."""
    days = [found[1] if (found := _OF_DAY.search(line)) else "" for line in lines]
    again = [bool(day) and day == above for day, above in zip(days, ["", *days], strict=False)]
    return [line.replace(day, "]", 1) if twice else line for line, day, twice in zip(lines, days, again, strict=True)]


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
