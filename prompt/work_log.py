"""
Log of a conversation's work, read from its rows by rule: requests and rules of the user, steps of tools, what runs beside it.

Pure. Requests come with the reply that closed them; steps tell files changed last, failures that nothing mended, outcomes,
values; processes and sub-agents are read from calls and results of the host's own tools, and from the notes with which it
tells of an end. Every entry names the message that says it, and quotes it; nothing is put into other
words.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

from ..records import Row, ToolCall
from ..text import markers, salience, statements, tasks, turns
from ..text.others import label, own_words
from ..text.statements import (
    NOBODY,
    amends,
    corrects,
    is_rule,
    lifts,
    may_amend,
    may_correct,
    may_turn,
    meant,
    replaces,
)
from . import shell

_ARGUMENT_CHARS: Final = 200_000
_RESULT_CHARS: Final = 20_000
_REMEMBERED: Final = 4000  # heads of messages whose reading is kept: most were there at the compaction before
_LINE: Final = (20, 220)  # characters of an error line
_PATH_KEYS: Final = ("path", "file_path", "file", "filename", "filepath", "target_file")
_OPERATIONS: Final = (
    ("edited", re.compile(r"(?:^|_)(?:edit|patch|str_?replace|replace|insert|update|modify)", re.IGNORECASE)),
    ("written", re.compile(r"(?:^|_)(?:write|create|save)", re.IGNORECASE)),
    ("deleted", re.compile(r"(?:^|_)(?:delete|remove|unlink)", re.IGNORECASE)),
    ("moved", re.compile(r"(?:^|_)(?:move|rename)", re.IGNORECASE)),
)
#: Sections of a patch that names its files itself.
_PATCH: Final = re.compile(r"^\*\*\* (Update|Delete|Add) File: (\S[^\n]*?)[ \t]*$", re.MULTILINE)
_PATCHED: Final = {"Update": "edited", "Delete": "deleted", "Add": "written"}
_GONE: Final = ("deleted", "moved")
_ASIDE: Final = "put aside (git stash)"
#: Of a file, what was done to the tree. A file that git knew before it was written anew is not cleaned away.
_AS_FILE: Final = {
    shell.RESET: "restored",
    shell.REVERTED: "restored",
    shell.CLEANED: "deleted (git clean), unless git knew it,",
}
_FILE: Final = re.compile(r"\w\.\w+$")
_COMMIT: Final = re.compile(r"git commit\b[^\"'\n]*[\"']([^\"'\n]{8,160})")
_FAILED: Final = re.compile(
    r"\A\s*(?:error\b|could not\b|no changes\b|traceback\b|failed\b|blocked\b|\[?command (?:interrupted|timed out))|"
    r"exit(?:ed)?(?: with)? (?:code|status)[: ]+[1-9]|"
    r"command failed",
    re.IGNORECASE,
)
#: A result that speaks to its reader instead of telling what went wrong: never repeated as a reason.
_ORDERS: Final = re.compile(
    r"\b(?:ignore|disregard|forget) (?:all|any|the|your|every|previous|prior|earlier)\b|"
    r"\byou (?:must|should|are now|have to|will)\b|"
    r"\b(?:agents?|models?|ai|llms?) (?:must|should|shall|ha(?:s|ve) to|needs? to)\b|\btell (?:the|your) users?\b|"
    r"\b(?:system prompt|instructions?|assistant|as an ai)\b|忽略|指令",
    re.IGNORECASE,
)
_TRACEBACK: Final = "Traceback (most recent call last)"
_ERROR: Final = re.compile(
    r"\b(?:\w*error|\w*exception|fail|failed|failure|fatal|cannot|can't|denied|could not|unable to|no such file|not found|"
    r"no changes made|panicked|timed out|killed|aborted|segmentation fault|merge conflict|"
    r"\w*fehler|fehlgeschlagen|nicht gefunden|falló|no se encontró|erreur|échec|introuvable|ошибка|не найден\w*)\b|"
    r"错误|失败|找不到|无法|エラー|失敗|見つかりません|오류|실패",
    re.IGNORECASE,
)
#: What the host says of an exit code that is no failure.
_HARMLESS: Final = re.compile(r"not an error|often normal|partial results", re.IGNORECASE)
_COMMAND_CHARS: Final = 600  # of a command, which tell what it is for
_QUOTED: Final = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")
_OPTION: Final = re.compile(r"-|[A-Za-z_]\w*=")
_BOTH: Final = re.compile(r"(?<!\S)2>&1(?!\S)")
_PIPED: Final = re.compile(r"\|+&?\s*(\w*)")  # filters, and what is done after a failure
_SHOWING: Final = frozenset(("tail", "cat", "tee"))  # filters that show the end
_INLINE: Final = re.compile(  # code as an argument
    r"(?:sudo )?\S*(?:python|node|ruby|perl|sh)[\d.]*(?: -\S+)* -l?[ce]\b"
)
_LAST_CHARS: Final = 2000  # of an output, in which its last line is looked for
_FRAME: Final = re.compile(r"^\s*(?:at \S|File \"|\d+ \||npm ERR! at|from \S+:\d+)")
_DEED_CHARS: Final = 200
_ARGUMENT_SHOWN: Final = 120
_ID: Final = re.compile(r"(?:^|_)(?:id|key|number|url|code)$", re.IGNORECASE)
_NAME: Final = re.compile(r"\S{1,200}")
_NAMES: Final = re.compile(r"[^\W\d_]\d|\d[^\W\d_]|[A-Z]|\d{2}")  # JFK, HAT069, 2024-05-22; not "no" or 0


class Entry(NamedTuple):
    """Line to show: its message and its text."""

    store_id: int
    text: str


class Change(NamedTuple):
    """The last change of a file, by the message that called for it."""

    path: str
    operation: str  # edited, written, deleted, moved, restored, put aside
    store_id: int


class Failure(NamedTuple):
    """A failure: the message that says so, what was tried, the line that says why, how often."""

    store_id: int
    tried: str
    line: str
    times: int


class Step(NamedTuple):
    """A tool call with its result."""

    asked: int  # the message that called
    told: int  # the message with the result
    call: ToolCall
    arguments: Mapping[str, Any]
    text: str  # the result as it reads
    failed: bool
    answer: Mapping[str, Any]  # the result where it is a JSON object, else {}


def steps(rows: Iterable[Row]) -> list[Step]:
    """Calls and their results among rows, in the order of the results."""
    calls: dict[str, tuple[int, ToolCall]] = {}
    out: list[Step] = []
    for row in sorted(rows, key=lambda row: row.store_id):
        calls.update({call.id: (row.store_id, call) for call in row.calls})
        if row.head.role == "tool" and row.head.tool_call_id in calls:
            asked, call = calls[row.head.tool_call_id]
            answer = parsed(row.text)
            text, failed = result(row.text, answer)
            out.append(Step(asked, row.store_id, call, parsed(call.arguments), text, failed, answer))
    return out


def parsed(text: str, *, most_chars: int = _ARGUMENT_CHARS) -> Mapping[str, Any]:
    """The JSON object that a text is; {} where it is none, or a longer one."""
    if len(text) > most_chars or not text[:40].lstrip().startswith("{"):
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def result(text: str, told: Mapping[str, Any] | None = None) -> tuple[str, bool]:
    """(a tool's result as it reads, whether it tells of a failure). ``told``: the JSON that it is."""
    told = parsed(text) if told is None else told
    if told:
        code, error = told.get("exit_code", told.get("returncode")), told.get("error")
        parts = [
            part
            for part in (error, told.get("output"), told.get("stdout"), told.get("stderr"))
            if isinstance(part, str)
        ]
        failed = (
            (isinstance(code, int) and code != 0)
            or (isinstance(error, str) and bool(error))
            or told.get("success") is False
        )
        if parts or failed:
            return "\n".join(parts)[:_RESULT_CHARS], failed
    shown = text if len(text) <= _RESULT_CHARS else text[: _RESULT_CHARS // 2] + "\n" + text[-_RESULT_CHARS // 2 :]
    return shown, bool(_FAILED.search(shown)) or _TRACEBACK in shown[-3000:]


# -- files ------------------------------------------------------------------------------------------------
def changes(done: Sequence[Step]) -> list[Change]:
    """The last change of each file, oldest first. A change that failed is none; a folder's is one of all known files in it.

    What no commit keeps is taken back by a reset of the whole tree, and put aside by a stash until that is brought back.
    """
    tree = _Tree()
    for step in done:
        for path, operation in changed(step) if not step.failed else ():
            tree.change(path, operation, step.asked)
    return list(tree.changed.values())


class _Tree:
    """Working tree: what was changed last, which commit keeps it, what lies aside."""

    def __init__(self) -> None:
        self.changed: dict[str, Change] = {}
        self._kept: list[set[str]] = []  # files by the commit that keeps them
        self._aside: list[list[Change]] = []

    def change(self, path: str, operation: str, at: int) -> None:
        """Note what a step did to a path, or to the whole tree."""
        if operation == shell.COMMITTED:
            self._kept.append(set(self._open()))
        elif operation == shell.UNSTASHED:
            self._put(self._aside.pop() if self._aside else [])
        elif operation == shell.STASHED:
            open_ = [self.changed[name] for name in self._open()]
            self._aside.append(open_)
            self._put([Change(each.path, _ASIDE, at) for each in open_])
        else:
            self._put([Change(name, _AS_FILE.get(operation, operation), at) for name in self._meant(path, operation)])
            if operation == shell.REVERTED:
                self._kept.append(set())  # it is a commit itself

    def _put(self, changes: Iterable[Change]) -> None:
        for each in changes:
            self.changed.pop(each.path, None)
            self.changed[each.path] = each
            for files in self._kept:
                files.discard(each.path)

    def _open(self) -> list[str]:
        """Changed files that no commit keeps and no stash put aside."""
        kept = set[str]().union(*self._kept)
        return [name for name, each in self.changed.items() if name not in kept and each.operation != _ASIDE]

    def _meant(self, path: str, operation: str) -> list[str]:
        """Files of which a command speaks; a reset forgets the commits that it takes back."""
        if operation == shell.REVERTED:
            return sorted(self._kept[-1 - int(path)]) if int(path) < len(self._kept) else []
        if operation == shell.RESET:
            del self._kept[max(0, len(self._kept) - int(path)) :]
        if operation == shell.CLEANED:
            made = [name for name in self._open() if self.changed[name].operation == "written"]
            return [name for name in made if path == shell.EVERYTHING or f"/{path}/" in f"/{name}/"]
        if operation == shell.RESET or path == shell.EVERYTHING:
            return self._open()
        known = [name for name in self.changed if name == path or name.endswith(f"/{path}")]
        inside = [name for name in self.changed if f"/{path}/" in f"/{name}"]
        unknown = [path] if operation != "restored" and (operation not in _GONE or _FILE.search(path)) else []
        return known[:1] or inside or unknown


def changed(step: Step) -> Iterator[tuple[str, str]]:
    """Files that a step changed: path as the step names it, and operation."""
    name = step.call.name
    operation = next((word for word, pattern in _OPERATIONS if pattern.search(name)), "")
    if operation and not statements.READING.match(name):
        yield from ((path.removeprefix("./"), operation) for path in paths(step.arguments))
        patch = step.arguments.get("patch")
        if isinstance(patch, str):
            yield from ((path, _PATCHED[verb]) for verb, path in _PATCH.findall(patch[:_ARGUMENT_CHARS]))
    command = step.arguments.get("command")
    if isinstance(command, str):
        yield from shell.file_changes(command)


def paths(arguments: Mapping[str, Any]) -> list[str]:
    """Paths that a call names."""
    found = (arguments.get(key) for key in _PATH_KEYS)
    return [path for path in found if isinstance(path, str) and 0 < len(path) < 200 and "\n" not in path]


# -- what tools did outside -------------------------------------------------------------------------------
def deeds(done: Sequence[Step]) -> list[Entry]:
    """Calls that changed something outside of files, with their arguments and the names that they got back; oldest first.

    One that was made again counts where it was made last.
    """
    out: dict[str, Entry] = {}
    for step in filter(_is_deed, done):
        text = _deed(step)
        out.pop(text, None)
        out[text] = Entry(step.asked, text)
    return list(out.values())


def _is_deed(step: Step) -> bool:
    return (
        not step.failed
        and statements.changes_something(step.call.name)
        and bool(step.arguments)
        and not paths(step.arguments)
        and not isinstance(step.arguments.get("command"), str)
    )


def arguments(call: ToolCall, *, result: str = "", besides: str = "") -> str:
    """Arguments of a call as words: what names something first, with what the ``result`` names; then the short ones.

    ``besides``: a text that need not be repeated; numbers are left out then.
    """
    made = parsed(call.arguments)
    if besides:
        made = {name: value for name, value in made.items() if isinstance(value, str) and value not in besides}
    given = [" ".join(said.split())[:_ARGUMENT_SHOWN] for said in [*_given(made), *_got(made, parsed(result))[:2]]]
    return ", ".join(sorted(given, key=lambda said: (not _ID.search(said.partition(" ")[0]), len(said))))


def _given(arguments: Mapping[str, Any]) -> list[str]:
    """Arguments with their names, lists and objects last."""
    plain = {name: value for name, value in arguments.items() if not isinstance(value, (list, dict))}
    nested = {name: value for name, value in arguments.items() if name not in plain}
    return [f"{name} {_flat(value)}" for name, value in {**plain, **nested}.items() if value not in ("", None, [], {})]


def _deed(step: Step) -> str:
    """Text of a deed: ids first, then names and numbers, since the end of long arguments is cut."""
    said = [*_given(step.arguments), *_got(step.arguments, step.answer)[:2]]
    return f"{step.call.name} {quoted(', '.join(sorted(said, key=_telling)), _DEED_CHARS)}"


def _telling(said: str) -> tuple[int, int]:
    """Rank of an argument among those of its call."""
    name, _, value = said.partition(" ")
    return 0 if _ID.search(name) else 1 if _NAMES.search(value) else 2, len(said)


def _got(given: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    """Names that a call got back and did not give; a sentence is none."""
    return [
        f"{name} {value}"
        for name, value in answer.items()
        if _ID.search(name) and name not in given and isinstance(value, (str, int)) and _NAME.fullmatch(str(value))
    ]


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(_flat(each) for each in value.values())
    if isinstance(value, list):
        return "; ".join(_flat(each) for each in value)
    return str(value)[:120]


# -- failures -----------------------------------------------------------------------------------------------
def failures(done: Sequence[Step]) -> list[Entry]:
    """Failures that nothing mended, in a line each: what was tried, how often, and what says why; oldest first."""
    return [
        Entry(
            each.store_id,
            f"{each.tried}{f' ({each.times} times)' if each.times > 1 else ''}: {quoted(each.line, _LINE[1])}",
        )
        for each in unmended(done)
    ]


def unmended(done: Sequence[Step]) -> list[Failure]:
    """Failures that were not followed by the same with success, oldest first."""
    mended: dict[str, dict[tuple[str, ...], int]] = {}
    for step in done:
        if not step.failed and _is_seen(step):
            purpose, files = _purpose(step)
            mended.setdefault(purpose, {})[files] = step.told
    out: dict[tuple[str, tuple[str, ...], str], Failure] = {}
    for step in (each for each in done if each.failed):
        purpose, files = _purpose(step)
        again = any(told > step.told and _covers(some, files) for some, told in mended.get(purpose, {}).items())
        line = "" if again else _reason(step)
        if line:
            before = out.pop((purpose, files, line), None)
            out[purpose, files, line] = Failure(step.told, _tried(step), line, 1 + (before.times if before else 0))
    return list(out.values())


def _reason(step: Step) -> str:
    """Words that say what went wrong; of a command that ended badly without a word of it, its last line or its code."""
    code, meaning = step.answer.get("exit_code"), str(step.answer.get("exit_code_meaning") or "")
    line = error_line(step.text)
    if line or not isinstance(code, int) or _HARMLESS.search(meaning):
        return line
    last = next(
        (each.strip() for each in reversed([*step.text[-_LAST_CHARS:].splitlines(), meaning]) if each.strip()), ""
    )
    said = "" if _ORDERS.search(last) else statements.without_commands(last)
    return f"exit_code {code}" + (f": {said}" if said else "")


def _purpose(step: Step) -> tuple[str, tuple[str, ...]]:
    """Purpose of a call, and the files it is for: the same program, the same file, or the same arguments."""
    command = step.arguments.get("command")
    if isinstance(command, str):
        program, files = _program(command)
        return f"{step.call.name} {program}", files
    named = paths(step.arguments)
    return f"{step.call.name} {named[0] if named else step.call.arguments[:200]}", ()


def _program(command: str) -> tuple[str, tuple[str, ...]]:
    """A command's names ("npm run build") and its files; of code within the command, the code."""
    bare = re.sub(r"^\s*cd \S+\s*(?:&&|;)\s*", "", command[:_COMMAND_CHARS])
    if _INLINE.match(bare):
        return " ".join(bare.split()), ()
    plain = _BOTH.sub(" ", _QUOTED.sub(" ", bare))
    words = [word for word in re.split(r"[|>;&\n]", plain)[0].split() if not _OPTION.match(word)]
    files = tuple(word for word in words[1:] if "/" in word or "." in word)
    return " ".join(word for word in words if word not in files), files


def _is_seen(step: Step) -> bool:
    """Would a failure be seen? Behind a pipe the exit code is that of the filter: the end must be shown, without an error."""
    command = step.arguments.get("command")
    behind = _PIPED.findall(_QUOTED.sub(" ", command[:_COMMAND_CHARS])) if isinstance(command, str) else []
    return not behind or (_SHOWING.issuperset(behind) and not error_line(step.text))


def _covers(done: Sequence[str], failed: Sequence[str]) -> bool:
    """Were all files that failed among those that a later call was for? A call without files is for all."""
    return not done or (
        bool(failed)
        and all(
            any(each == file or each.startswith((f"{file.rstrip('/')}/", f"{file}::")) for file in done)
            for each in failed
        )
    )


def _tried(step: Step) -> str:
    command = step.arguments.get("command")
    if isinstance(command, str):
        return quoted(command, 80)
    named = paths(step.arguments)
    return f"{step.call.name} of {quoted(named[0], 100)}" if named else step.call.name


def error_line(text: str) -> str:
    """The line of a result that says what went wrong; no frame of a stack, and nothing that gives orders."""
    found = (line.strip() for line in text.splitlines() if _ERROR.search(line[:400]) and not _ORDERS.search(line))
    lines = [line for line in map(statements.without_commands, found) if _ERROR.search(line[:400])]
    good = [
        line for line in lines if len(line) >= _LINE[0] and not _FRAME.match(line) and not line.startswith(_TRACEBACK)
    ]
    return next((line for line in good if len(line) <= _LINE[1]), good[0] if good else lines[0] if lines else "")


# -- requests -------------------------------------------------------------------------------------------------
def commits(done: Sequence[Step]) -> list[Entry]:
    """Messages of commits that went through and that no reset took back, oldest first."""
    out: list[Entry | None] = []
    for step in done:
        command = step.arguments.get("command")
        if step.failed or not isinstance(command, str):
            continue
        said = (Entry(step.asked, f"committed {quoted(match[1], 160)}") for match in _COMMIT.finditer(command[:4000]))
        for path, operation in shell.file_changes(command):
            if operation == shell.COMMITTED:
                out.append(next(said, None))
            elif operation == shell.RESET:
                del out[max(0, len(out) - int(path)) :]
            elif operation == shell.REVERTED:
                at = len(out) - 1 - int(path)
                out = [None if n == at else entry for n, entry in enumerate(out)] + [
                    None
                ]  # a revert is a commit itself
        out.extend(said)  # of a command that cannot be read
    return [entry for entry in out if entry is not None]


# -- values and refusals ----------------------------------------------------------------------------------------
def values(rows: Sequence[Row]) -> list[Entry]:
    """Values that were named more than once, each with the sentence it was named in last; oldest first.

    The user's own sentence stands until somebody changes something: a model repeats what it was told.
    """
    times: Counter[str] = Counter()
    last: dict[str, tuple[int, str]] = {}
    spans: dict[tuple[int, str], tuple[int, int]] = {}
    users = {row.store_id for row in rows if row.head.role == "user"}
    for row in rows:
        told = statements.naming(row.text)
        for sentence, changes, found in told:
            for value, first, stop in found:
                if value in last and last[value][0] in users and row.store_id not in users and not changes:
                    continue
                last.pop(value, None)
                key = last[value] = (row.store_id, sentence)
                known = spans.get(key, (first, stop))
                spans[key] = min(known[0], first), max(known[1], stop)
        times.update({value for _, _, found in told for value, _, _ in found})
    kept = dict.fromkeys(key for value, key in last.items() if times[value] > 1)
    return [Entry(at, quoted(_around(sentence, *spans[at, sentence]), 260)) for at, sentence in kept]


def _around(sentence: str, start: int, stop: int) -> str:
    """The stretch of a sentence that holds its values, with the words beside them."""
    begin = max(0, start - 90) if len(sentence) > 200 else 0
    return sentence[begin : max(stop + 90, begin + 200)]


def refusals(rows: Sequence[Row]) -> list[Entry]:
    """Sentences in which the agent said that something is not possible, oldest first."""
    out: dict[str, Entry] = {}
    for row in rows:
        for sentence in statements.refusals(row.text):
            out.pop(sentence, None)
            out[sentence] = Entry(row.store_id, quoted(sentence, 300))
    return list(out.values())


def quoted(text: str, limit: int) -> str:
    """Words in quotation marks that nothing in them closes."""
    flat = " ".join(text.split()).replace("“", "‹").replace("”", "›")
    return f"“{flat[:limit]}…”" if len(flat) > limit else f"“{flat}”"


_READ_CHARS: Final = 4000
_RULES_OF_A_MESSAGE: Final = 8
_QUESTION_CHARS: Final = 100
#: A request for words, which the reply gave.
_ASKS: Final = re.compile(
    r"\W*(?:please |bitte |por favor,? )?(?:(?:explain|describe|tell me|show me|give me|suggest|"
    r"recommend|what|why|how|who|when(?! (?:you|i|we|they|it|the|an?|my|our)\b[^?]*,[^?]*\Z)|where|which|erklär|sag mir|"
    r"zeig mir|was|warum|wie|wer|wann|wo|explica|explícame|dime|muéstrame|qué|"
    r"por qué|cómo|cuándo)\b|请?(?:解释|告诉我|说明)|为什么|什么)",
    re.IGNORECASE,
)


_ANSWER_WORDS: Final = 6
_ANSWER_SIGNS: Final = 10  # in scripts without blanks
_SIGNS: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
#: In front of an order: the answer no, and what forbids.
_NO: Final = re.compile(
    r"^\W*(?:(?:nein|no|non|não|нет|nee|bitte|por favor|s'il te plaît|per favore|пожалуйста|ne|не|nunca|mai|nie)\W+)+",
    re.IGNORECASE,
)
#: Orders in scripts without blanks, which their beginning or their end tells, and "don't".
_ORDERED: Final = re.compile(
    r"^\W*(?:no\W+)?(?:please )?(?:do not|don['’]t) (?!know|care|mind|think|need|have|want|like)|"
    r"(?:^|[。，,！!\s])(?:请|先)?(?:不要|别|删|把|创建|新建|修改|添加|运行|安装|更新|发送|打开|关闭|检查|修复|移动|复制|取消|停止|翻译|保存)|"
    r"(?:て|で)(?:ください|下さい|くれ)[。！]?$|ないで[。！]?$|지\s?(?:마|말)\S{0,9}$|해\s?(?:줘|주세요)[.!]?$",
    re.IGNORECASE,
)
#: Consent in front of what is to be done otherwise: "yes, but never force it".
_YES: Final = re.compile(
    r"\W*(?:(?:yes|yep|yeah|sure|ja|sí|oui|sì|sim|да)\b|好的?[，,]|是的|可以[，,]|はい|네[, ])", re.IGNORECASE
)
#: A question at the end of a reply.
_OFFERED: Final = re.compile(r"(?:^|[.!?。！？\n])(?P<question>[^.!?。！？\n]*[?？])\s*\Z")
#: Of a question, that it asks whether something else be done before.
_BEFORE: Final = re.compile(
    r"(?<!the )\bfirst(?=\W*\Z|,)|\b(?:i|we|to) first\b|\b(?:beforehand|zuerst|vorher|erst (?:d\w\w|noch|mal|einmal|ein\w*)|"
    r"primero|primeiro|d['’]abord|au préalable|сначала|сперва)\b|\b(?:antes|avant|prima)(?=\W*\Z|,)|"
    r"\b(?:(?:shall|should|may) (?:i|we)|(?:want|like) me to|soll ich)\b[^?]*\b(?:before|bevor)\b|先(?!生|ほど)|まず|먼저",
    re.IGNORECASE,
)
#: A question at the end of a reply that wants to know something of the request; an offer is none.
_WHICH: Final = re.compile(
    r"(?:^|[.!?\n:] )[^.!?\n]{0,60}\b(?:which|what|where|when|who|how (?:many|much|long|often)|or|welche\w?|was|wo|wann|"
    r"wie viele?|oder|qué|cuál\w*|dónde|cuándo|cuánt\w+|quel\w*|où|quand|combien)\b"
    r"(?! else\b| next\b| can i\b| would you like me\b)[^.!?\n]{0,120}\?\W*\Z",
    re.IGNORECASE | re.MULTILINE,
)
#: A choice among what was offered.
_CHOICE: Final = re.compile(
    r"\W*(?:(?:ok(?:ay)?|yes|ja|sí|oui|please|let['’]s take|i['’]ll take|take)\W+)*"
    r"(?:(?:the|die|der|das|el|la|le) (?:first|second|third|last|cheapest|fastest|earlier|later|latter|erste|zweite|dritte|"
    r"letzte|billigste|primer[oa]?|segund[oa]|premi\w+|deuxième)(?: (?:one|\w+))?|(?:option|number|nummer) \w+|[A-D]|[1-9]|"
    r"第[一二三四五][^，。]{0,3})(?=\W*\Z|[,.;] | (?:please|bitte|por favor|thanks)\b)",
    re.IGNORECASE,
)


_AGAIN: Final = re.compile(
    r"\W*(?:(?:ok(?:ay)?|now|please|bitte|so)\W+)*(?:try (?:it )?(?:again|once more)|retry|once more|"
    r"versuch['’e]?s? (?:es )?(?:noch ?mal|erneut)|noch ?mal|inténtalo (?:otra vez|de nuevo)|réessaie|"
    r"riprova|tente de novo|再试|重试一|any (?:news|updates?|progress|luck)\b|how(?:['’]s| is) it going|"
    r"(?:are you |is it )?(?:done|finished|ready)(?: yet)?\?|fertig\?|¿(?:ya|alguna novedad))",
    re.IGNORECASE,
)


#: An answer that agrees to nothing.
_DENIES: Final = re.compile(
    r"\W*(?:(?:no|nope|stop|nein|nee|nicht|non|não|нет)\b(?! problem)|不|别|算了|いいえ|아니)", re.IGNORECASE
)


_WAITING: Final = 20  # requests of which a part is open


class Closed(NamedTuple):
    """End of a request: the reply that says so, and the sentence in which it does."""

    store_id: int
    outcome: str


class Rule(NamedTuple):
    """A sentence of the user that holds beyond the request it stands in; ``replaces``: the one that held before."""

    row: Row
    text: str
    replaces: Rule | None = None


class Heard(NamedTuple):
    """Ends of requests, by message, and a step to take first: the user's consent and the agent's question."""

    closed: dict[int, Closed]
    agreed: tuple[Row, Entry] | None


def heard(prose: Iterable[Row], gone: Collection[int] = ()) -> Heard:
    """Requests that a reply says to be finished, and what was agreed to be done first; prose is what user and agent said.

    ``gone``: messages that were taken back; a reply to one of them finishes no other request.

    A "yes, go on" belongs to the request that it answers, and so do a short answer to a question of the agent, a choice
    and another try, and who only asks how far it is. A list of tasks is finished where its replies have spoken of each.
    """
    seen = _Requests()
    for row in prose:
        if row.head.role == "user":
            seen.hear(row)
        else:
            seen.reply(row)
    return Heard({at: end for at, end in seen.closed.items() if at not in gone}, seen.agreed)


def closed(prose: Iterable[Row], gone: Collection[int] = ()) -> dict[int, Closed]:
    """Requests that a reply says to be finished, by message."""
    return heard(prose, gone).closed


class _Requests:
    """Requests that wait for their end, while messages are read one after the other."""

    def __init__(self) -> None:
        self.closed: dict[int, Closed] = {}
        self.agreed: tuple[Row, Entry] | None = None
        self._asked: list[Row] = []  # the request, and the answers to what was asked about it
        self._ended = False
        self._aside: list[Row] = []  # a request before which something else is done, as the agent proposed
        self._partly: dict[int, Row] = {}  # requests of which a part was told to be done
        self._told: dict[int, list[str]] = {}  # replies that told of the end of a request, or of a part
        self._proposal = ("", "")  # the agent's message, and the question in it
        self._proposed = 0  # address of that message
        self._asks = self._offers = self._proposes = False

    def hear(self, row: Row) -> None:
        """Take up what the user said."""
        typed = markers.typed(row.text[:_READ_CHARS])
        waits = self._asked or self._aside
        if waits and salience.is_acknowledgement(typed):
            if self._proposes and not _DENIES.match(typed):
                self._aside, self._asked, self._ended = waits, [], False
                self.agreed = row, Entry(self._proposed, self._proposal[1])
            elif self._ended and self._aside:
                self._asked, self._aside, self._ended = self._aside, [], False
            return
        goes_on = _goes_on(typed, asked=self._asks) or (self._offers and _YES.match(typed) is not None)
        self._aside = self._asked if self._proposes and not self._ended and not goes_on else []
        self._asked = [*(self._asked if not self._ended and goes_on else ()), row]
        self._ended, self.agreed = False, None

    def reply(self, row: Row) -> None:
        """Take up what the agent said: what it finished, and what it asks."""
        text = statements.outcome(row.text) if self._asked or self._aside else ""
        tail = row.text[-_LAST_CHARS:]
        question = None if text else _OFFERED.search(tail)
        self._asks = not text and _WHICH.search(tail) is not None
        self._proposes = question is not None and _BEFORE.search(question["question"]) is not None
        self._offers = question is not None and not self._proposes
        if question is not None and self._proposes:
            self._proposal = f"{row.text[:_READ_CHARS]}\n{tail}", question["question"].strip()
            self._proposed = row.store_id
        if text:
            self._finish(row, text)

    def _finish(self, row: Row, text: str) -> None:
        """Close the requests that a reply finishes; one of which it tells a part waits for the rest."""
        self.agreed = None
        said = row.text[:_READ_CHARS]
        beside = [" ".join([each, *map(_wanted, self._asked)]) for each in self._proposal]
        meant = {
            each.store_id: each
            for each in [
                *self._asked,
                *(each for each in self._aside if tasks.speaks_of(said, _wanted(each), besides=beside)),
            ]
        }
        for at, each in (self._partly | meant).items():
            told = self._told.setdefault(at, [])
            told.append(said)
            if tasks.has_untold(_wanted(each), told, whole=at in meant):
                self._partly[at] = each
            else:
                self.closed[at] = Closed(row.store_id, text)
                self._partly.pop(at, None)
        while len(self._partly) > _WAITING:
            self._partly.pop(next(iter(self._partly)))
        self._ended = bool(self._asked)
        if not self._asked:
            self._asked, self._aside = self._aside, []
            self._ended = all(each.store_id in self.closed for each in self._asked)


def _wanted(request: Row) -> str:
    return markers.typed(request.text[:_READ_CHARS])


def _goes_on(typed: str, *, asked: bool) -> bool:
    """Does a message belong to the request before it: another try, a choice, or, ``asked`` for something, a short answer?"""
    words = typed.split()
    if _AGAIN.match(typed) or (len(words) <= _ANSWER_WORDS and _CHOICE.match(typed)):
        return True
    long = len(words) > _ANSWER_WORDS or len(_SIGNS.findall(typed)) > _ANSWER_SIGNS
    return asked and not long and not _ORDERED.search(typed) and not tasks.is_order(_NO.sub("", typed, count=1))


def rules(users: Iterable[Row], speakers: Mapping[int, str] = NOBODY) -> list[Rule]:
    """Rules in force, oldest first; one that was said again counts where it was said last. Questions rule nothing.

    One that replaces or lifts an earlier one of the same speaker by its words names it. A name in front of a rule is a speaker.
    """
    out: dict[str, Rule] = {}
    before_: dict[str | None, int] = {}
    for row in users:
        last = before_.get(speakers.get(row.store_id))
        before_[speakers.get(row.store_id)] = row.store_id
        for sentence in _rules_of(markers.typed(row.text)[:_READ_CHARS]):
            key = salience.normal(sentence)
            out.pop(key, None)
            who = speakers.get(row.store_id), label(turns.without_sign(sentence))
            gone = [
                rule.text
                for rule in out.values()
                if (speakers.get(rule.row.store_id), label(rule.text)) == who
                and (
                    replaces(sentence, rule.text)
                    or corrects(sentence, rule.text, follows=rule.row.store_id in (last, row.store_id))
                )
            ]
            before = [out.pop(salience.normal(each)) for each in meant(sentence, gone)]
            if not before and not is_rule(sentence) and not any(amends(sentence, rule.text) for rule in out.values()):
                continue  # it lifts a rule that nobody knows, turns from none, or orders something for once
            out[key] = Rule(row, sentence, _chained(before))
    return list(out.values())


def _chained(rules_: Sequence[Rule]) -> Rule | None:
    """Rules that one takes the place of, as if each had replaced the one before it: none of them is lost."""
    last: Rule | None = None
    for rule in rules_:
        last = rule if rule.replaces is not None else rule._replace(replaces=last)
    return last


def ruling(row: Row) -> int:
    """Characters of a message that rule, or ruled until something took their place."""
    return sum(len(each) for each in _rules_of(markers.typed(row.text)[:_READ_CHARS]) if is_rule(each))


@lru_cache(maxsize=_REMEMBERED)
def _rules_of(text: str) -> tuple[str, ...]:
    said = turns.sentences(own_words(text))
    ruling = (
        each for each in said if is_rule(each) or lifts(each) or may_amend(each) or may_turn(each) or may_correct(each)
    )
    return tuple(islice(ruling, _RULES_OF_A_MESSAGE))


def unfinished(users: Iterable[Row], done: Mapping[int, Closed]) -> list[Row]:
    """Messages that want something and of which no reply says that it is finished; a mere question was answered."""
    return [row for row in users if row.store_id not in done and not _is_small(markers.typed(row.text[:_READ_CHARS]))]


def _is_small(text: str) -> bool:
    questions = text.rstrip().endswith(("?", "？")) or _ASKS.match(text) is not None
    return (questions and len(text) <= _QUESTION_CHARS) or salience.is_acknowledgement(text)


DELEGATING: Final = "delegate_task"
_PROCESS_TOOL: Final = "process"
#: Words in the answer of the host's tool where a process or a sub-agent begins.
BEGAN: Final = ("Background process started", "status dispatched")
_ENDED: Final = ("exited", "killed", "already_exited", "not_found")
_END_NOTE: Final = re.compile(
    r"Background process (\S{1,80}) (?:completed|exited|terminated|marked lost|failed to start|finished)"
)
_WHAT_CHARS: Final = 120


def processes(done: Sequence[Step], notes: Iterable[str], chars: int = _WHAT_CHARS) -> list[Entry]:
    """Background processes that nothing says to have ended, oldest first."""
    running: dict[str, Entry] = {}
    seen: dict[str, int] = {}
    for step in done:
        for told in _processes(step):
            name = told.get("session_id") or step.arguments.get("session_id")
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                continue
            if _begins(step):
                command = quoted(str(step.arguments.get("command", "")), chars)
                running[name] = Entry(step.told, f"{command} as {name}")
            elif told.get("status") in _ENDED or (step.arguments.get("action") == "kill" and not step.failed):
                running.pop(name, None)
            elif told.get("status") == "running" and _is_ours(told) and step.call.name == _PROCESS_TOOL:
                running.setdefault(name, Entry(step.told, f"{quoted(str(told['command']), chars)} as {name}"))
                seen[name] = step.told
    for note in notes:
        for name in _END_NOTE.findall(note):
            running.pop(name, None)
    return [
        each._replace(text=f"{each.text}, last seen in msg_{seen[name]}") if seen.get(name, 0) > each.store_id else each
        for name, each in running.items()
    ]


def begun(done: Iterable[Step]) -> list[str]:
    """Names of the processes and sub-agents that steps began, oldest first."""
    names = (step.answer.get("session_id" if _begins(step) else "delegation_id") for step in done)
    return [name for name in names if isinstance(name, str) and _NAME.fullmatch(name)]


def _begins(step: Step) -> bool:
    return step.arguments.get("background") is True and not step.failed


def _processes(step: Step) -> Sequence[Mapping[str, Any]]:
    """Processes of which a result tells: one, or a list."""
    listed = step.answer.get("processes")
    if not isinstance(listed, list):
        return [step.answer]
    return [each for each in listed if isinstance(each, dict)]


def _is_ours(told: Mapping[str, Any]) -> bool:
    """Is a process one of this conversation, rather than another one's of the same chat?"""
    return bool(told.get("command")) and not told.get("session_scoped")


def delegations(done: Sequence[Step], notes: Iterable[tuple[int, str]], chars: int = _WHAT_CHARS) -> list[Entry]:
    """Sub-agents that were sent off and have not reported, oldest first. ``notes``: messages in the user's name."""
    sent = {
        str(step.answer["delegation_id"]): step
        for step in done
        if step.call.name == DELEGATING
        and step.answer.get("status") == "dispatched"
        and _NAME.fullmatch(str(step.answer.get("delegation_id", "")))
    }
    back = {name for name, step in sent.items() for at, note in notes if at > step.told and name in note}
    return [
        Entry(step.told, f"{quoted(_goals(step), chars)} as {name}") for name, step in sent.items() if name not in back
    ]


def _goals(step: Step) -> str:
    goals = step.answer.get("goals")
    return "; ".join(map(str, goals)) if isinstance(goals, list) and goals else str(step.arguments.get("goal", ""))
