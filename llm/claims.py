"""
Claims of a summary that a file was changed, where its source shows that it was only read.

Pure. Judged only where every tool call of the source can be told by its words: what merely reads, and what names the file that it
changes. Beside a command that may change anything, and beside words of somebody who speaks of the change, a claim stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ..records import SourceLine, SummaryTask
from ..text import salience
from ..text.salience import lazy

_CALL = lazy(r"^\[calls ([^\]\s]{1,80})\] ?(.*)$", re.MULTILINE)
#: Tools that change no file, by their names.
_READS = lazy(
    r"(?:read|view|open|cat|search|grep|list|get|find|glob|fetch|lcm_|session_search|web_|todo|memory|clarify|skill|browser_)|"
    r".*_(?:read|view|search|grep|list|get|find)(?:_|$)",
    re.IGNORECASE,
)
_NAMES_A_FILE = lazy(r"(?:^|; )(?:path|file_path|file|filename|filepath|target_file): \S")
_COMMAND = lazy(r"(?:^|; )command: (.*)$")
_APART: Final = re.compile(r"&&|\|\||[;|]")
_WRITES: Final = re.compile(r"(?<![<>=-])>(?!&|\s*/dev/null)|\btee\b|-(?:delete|exec|i)\b|`|\$\(")
#: Programs that only show something.
_SHOWING: Final = re.compile(
    r"\s*(?:cd|ls|cat|head|tail|grep|rg|find|wc|pwd|tree|stat|file|which|env|date|sleep|echo|sort|uniq|diff|du|df|ps|"
    r"git (?:status|log|diff|show|branch|blame))\b",
)
_FILE: Final = r"(?:[\w.~-]*/)*[\w-][\w.-]*\.[A-Za-z]\w{0,7}"
_CHANGED: Final = (
    r"(?:edited|modified|changed|updated|rewritten|rewrote|overwritten|overwrote|"
    r"created|written|wrote|deleted|patched|renamed)"
)
_CLAIM = lazy(
    rf"(?:^|(?<=[.;:] )|\b(?:assistant|agent|it|i|and|then|also|has|have)[ \t])[-*• \t]*"
    rf"{_CHANGED} (?:the )?(?:file )?[`\"'*]*(?P<does>{_FILE})\b|"
    rf"(?<![\w./~-])(?P<was>{_FILE})[`\"'*]* (?:was|were|has been)(?: then| now| also| successfully)? {_CHANGED}\b(?! by\b)",
    re.IGNORECASE | re.MULTILINE,
)
#: Of a sentence that tells of no deed of the agent, or of none that was done.
_NO_DEED = lazy(
    r"\b(?:not|never|no|without|should|would|could|must|may|might|will|to be|if|unless|users?|says?|said|states?|stated|shows?|"
    r"showed|mentions?|mentioned|according|logs?|commits?|changelog|history|docs|read|reads|last|lists?|listed|claims?|describes?|"
    r"reported|who|which|that|whether|asks?|asked)\b|n['’]t\b",
    re.IGNORECASE,
)
_OF_CHANGE = lazy(
    r"\b(?:edit|chang|modif|updat|writ|wrot|creat|delet|remov|patch|fix|add|renam|replac|mov|set|bump|made|make|put|adjust|rewr|"
    r"overwr|convert|refactor|implement|format|revert|restor|clean|correct|sav|generat|insert|appl|chose|done|switch)",
    re.IGNORECASE,
)


def unfounded(text: str, task: SummaryTask) -> tuple[str, ...]:
    """Claims in a summary of messages that a file was changed, which no call did and nobody spoke of."""
    if task.depth > 0:
        return ()
    claims = [found for found in _CLAIM.finditer(text) if not _NO_DEED.search(_sentence(text, found))]
    if not claims or not any(_CALL.search(line.text) for line in task.lines):
        return ()
    told = _told(task)
    if told is None:
        return ()
    return tuple(dict.fromkeys(found[0].strip() for found in claims if not any(_name(found) in each for each in told)))


def _sentence(text: str, found: re.Match[str]) -> str:
    start = max(text.rfind("\n", 0, found.start()), text.rfind(". ", 0, found.start())) + 1
    end = min(at if at >= 0 else len(text) for at in (text.find("\n", found.end()), text.find(". ", found.end())))
    return text[start:end]


def _name(found: re.Match[str]) -> str:
    return (found["does"] or found["was"]).rpartition("/")[2].casefold()


def _told(task: SummaryTask) -> list[str] | None:
    """Words that may tell of changes: calls that change a file, and sentences; None where a call may do anything."""
    out = [task.previous.casefold()]
    for line in task.lines:
        for name, arguments in _CALL.findall(line.text):
            if _is_reading(name, arguments):
                continue
            if not _NAMES_A_FILE.search(arguments) or _COMMAND.search(arguments):
                return None
            out.append(arguments.casefold())
        out += _spoken(line)
    return out


def _is_reading(name: str, arguments: str) -> bool:
    command = _COMMAND.search(arguments)
    if command is None:
        return _READS.match(name) is not None
    return not _WRITES.search(command[1]) and all(_SHOWING.match(each) for each in _APART.split(command[1]))


def _spoken(line: SourceLine) -> Iterator[str]:
    """Sentences of a line that may tell of a change: all that are not English, and all that a shell shows."""
    shown = line.role == "tool" and _READS.match(line.tool_name or "read") is None
    text = _CALL.sub("", line.text)
    for sentence in text.splitlines() if line.role == "tool" else salience.sentences(text):
        foreign = not sentence.isascii() or any(map(salience.orders_elsewhere, sentence.split()))
        if shown or foreign or _OF_CHANGE.search(sentence):
            yield sentence.casefold()
