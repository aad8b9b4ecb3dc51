"""
Files that a command of a shell changes, as far as its words tell: removed, moved, written, brought back by version control.

Pure. What is quoted, echoed or written into another file is no command. What cannot be read tells nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

_READ_CHARS: Final = 4000
_HEREDOC: Final = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n[\s\S]*?(?:\n[ \t]*\2[ \t]*(?=\n|\Z)|\Z)")
_ENDS: Final = frozenset({";", "&", "&&", "|", "||", "(", ")", "\n"})
_PATTERN: Final = re.compile(r"[*?\[\]${}`<>|]")
_FILE: Final = re.compile(r"\w\.[A-Za-z]\w{0,7}$")
_BEFORE: Final = re.compile(r"(?:HEAD|@)(?:~(\d{0,3})|(\^{1,9}))?")
#: Of a whole working tree: a commit keeps what was changed, a reset takes back all that no commit keeps, a revert what one
#: commit changed; a stash puts aside what no commit keeps until it is brought back; a clean removes what was not committed.
COMMITTED, RESET, REVERTED, EVERYTHING = "committed", "reset", "reverted", "."
STASHED, UNSTASHED, CLEANED = "stashed", "unstashed", "cleaned"


def file_changes(command: str) -> list[tuple[str, str]]:
    """(path, deleted, moved, written, edited or restored), in the command's order.

    Of the whole tree: ``EVERYTHING`` restored, ``COMMITTED``, ``STASHED``, ``UNSTASHED`` or ``CLEANED``; ("2", ``RESET``) takes
    two commits back too, ("0", ``REVERTED``) what the last one changed.
    """
    text = _HEREDOC.sub(r" <<\3\n", command[:_READ_CHARS])
    try:
        lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
    except ValueError:  # a quotation that does not end
        return []
    out: list[tuple[str, str]] = []
    simple: list[str] = []
    for word in [*words, ";"]:
        if word in _ENDS:
            out += _of_one(simple)
            simple = []
        else:
            simple.append(word)
    return out


def _of_one(words: list[str]) -> Iterator[tuple[str, str]]:
    """Files that one simple command changes."""
    while words and words[0] in ("sudo", "git", "command"):
        words = words[1:]
    if not words:
        return
    verb, rest = words[0], words[1:]
    heredoc = "<<" in rest
    names = [_plain(word) for word in rest if not word.startswith("-") and not _PATTERN.search(word)]
    if verb in ("rm", "unlink", "rmdir"):
        yield from ((name, "deleted") for name in names)
    elif verb == "mv":
        yield from ((name, "moved") for name in names[:-1])
    elif verb == "sed" and any(word.startswith("-i") for word in rest):
        yield from ((name, "edited") for name in names[1:])
    elif heredoc and ">" in rest[:-1]:
        yield _plain(rest[rest.index(">") + 1]), "written"
    else:
        yield from _of_version_control(verb, rest, names)


def _of_version_control(verb: str, rest: list[str], names: list[str]) -> Iterator[tuple[str, str]]:
    if verb == "restore" and "--staged" not in rest:
        yield from ((name, "restored") for name in names)
    elif verb == "checkout" and "--" in rest:
        yield from ((_plain(word), "restored") for word in rest[rest.index("--") + 1 :])
    elif verb == "checkout" and EVERYTHING in names:
        yield EVERYTHING, "restored"
    elif verb == "checkout" and not {"-b", "-B", "--orphan"} & {*rest}:  # a branch has no ending like a file's
        yield from ((name, "restored") for name in names if _FILE.search(name))
    elif verb == "commit":
        yield EVERYTHING, COMMITTED
    elif verb == "reset" and "--hard" in rest:
        yield _commits_back(names) or "0", RESET
    elif verb == "revert" and (back := _commits_back(names)):
        yield back, REVERTED
    elif verb == "stash":
        yield from _of_stash(names, rest)
    elif verb == "clean" and any(word.startswith("-") and "f" in word and "n" not in word for word in rest):
        yield from ((name, CLEANED) for name in names or [EVERYTHING])


def _of_stash(names: list[str], rest: list[str]) -> Iterator[tuple[str, str]]:
    kind = names[0] if names else "push"
    if kind in ("push", "save") and "--" in rest:
        yield from ((_plain(word), "restored") for word in rest[rest.index("--") + 1 :])
    elif kind in ("push", "save"):
        yield EVERYTHING, STASHED
    elif kind in ("pop", "apply"):
        yield EVERYTHING, UNSTASHED


def _commits_back(names: list[str]) -> str:
    """Commits between HEAD and what is named; "" of another branch or an id, since nobody knows how many."""
    found = _BEFORE.fullmatch(names[0]) if names else None
    if found is None:
        return ""
    return str(len(found[2]) if found[2] else int(found[1] or 1) if found[1] is not None else 0)


def _plain(path: str) -> str:
    return path.removeprefix("./").rstrip("/")
