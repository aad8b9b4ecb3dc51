"""
What the host writes in the user's name, told from what the user typed.

Pure. Each kind of block is known by exact grammar: how it begins, how it ends, and what may stand between. A block counts where
the host puts it: as the whole message, in front of the user's words (a blank line between), behind them, or, recalled memory,
anywhere. Text that merely resembles one is the user's. Nothing is cut from what is stored: this is for those who summarise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

TODO_HEAD: Final = "[Your active task list was preserved across context compression]"
_ITEM = r"(?:\n- \[[^\]\n]{1,3}\] [^\n]*)+"
_NOTE = "[System note: "


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a message. ``kind``: which block of the host it is; "" for the user's own words."""

    kind: str
    text: str


def _between(head: str, tail: str, inside: str = r"[\s\S]*?") -> str:
    return re.escape(head) + inside + re.escape(tail)


#: Blocks that stand alone, or in front of the user's words.
_BEFORE: tuple[tuple[str, str], ...] = (
    ("model switch", _between("[Note: model was just switched from ", "Adjust your self-identification accordingly.]",
                              r"[^\n\]]{1,200} to [^\n\]]{1,200} via [^\n\]]{1,200}\. ")),
    ("resumed turn", _between(_NOTE + "The previous turn was interrupted by ", "]", r"[^\n\]]{1,900}?")),
    ("resumed turn", _between(_NOTE + "Your previous turn ", "]", r"[^\n\]]{1,900}?")),
    ("resumed turn", _between(_NOTE + "A new message has arrived. ", "]", r"[^\n\]]{1,900}?")),
    ("new session", _between(_NOTE + "The user's previous session ", "This is a fresh conversation with no prior context.]",
                             r"[^\n\]]{1,200}?")),
    ("new session", _between(_NOTE + "The user's session was automatically reset ",
                             "This is a fresh conversation with no prior context.]", r"[^\n\]]{1,200}?")),
    ("new session", _between(_NOTE + "The previous gateway session could not be recovered ", "]", r"[^\n\]]{1,300}?")),
    ("first message", _between(_NOTE + "This is the user's very first message ever. ", "]", r"[^\]]{1,2500}?")),
    ("browser", _between(_NOTE + "The user invoked /browser connect and connected your browser tools to ", "]",
                         r"[^\n\]]{1,1500}?")),
    ("browser", _between(_NOTE + "The user has disconnected the browser tools from ", "]", r"[^\n\]]{1,500}?")),
    ("skills reloaded", _between("[USER INITIATED SKILLS RELOAD:\n", "\nUse skills_list to see the updated catalog.]")),
    ("tools reloaded", _between("[IMPORTANT: MCP servers have been reloaded. ",
                                "The tool list for this conversation has been updated accordingly.]", r"[^\n]{0,4000}?")),
    ("handoff", _between('[Session was just handed off from CLI ("', "continue from this device.]", r"[^\n]{1,900}?")),
)  # fmt: skip
#: Blocks that are a message by themselves.
_ALONE: tuple[tuple[str, str], ...] = (
    ("task list", re.escape(TODO_HEAD) + _ITEM),
    ("continuation", _between("[System: Your previous tool call (", " stream timeouts.]")),
    ("continuation", _between("[System: The previous response was cut off by a network error", "Finish the answer directly.]")),
    ("continuation", _between("[System: Your previous response was truncated by the output length limit",
                              "Finish the answer directly.]")),
    ("continuation", _between("[System: Your previous response contained only internal reasoning", "]")),
    ("continuation", _between("[System: Continue now. Execute the required tool calls", "]")),
    ("verification", _between("[System: You edited code in this turn, but the workspace does not have fresh", "]")),
    ("kanban", _between("[System: You are a Hermes kanban worker. ", "]")),
    ("kanban", _between("[Continuing toward this kanban task — judge says it is not done yet]\nReason: ",
                        "Do not stop without calling one of them.")),
    ("kanban", _between("[The work looks complete, but the task is still open]\nReason: ",
                        "kanban_block with the reason instead.")),
    ("goal", _between("[Continuing toward your standing goal]\nGoal: ", "say so clearly and stop.", r"[\s\S]*")),
    ("background process", _between("[IMPORTANT: Background process ", "]",
                                    r"\S{1,100} (?:matched watch pattern |[^\n]{1,100} \(exit code )[\s\S]*")),
    ("background process", _between("[Background process ", "]",
                                    r"\S{1,100} (?:finished with exit code|is still running~)[\s\S]*")),
    ("subagent", _between("[ASYNC DELEGATION COMPLETE — ", "",
                          r"[^\n\]]{1,200}\]\nA background subagent you dispatched [\s\S]*")),
    ("subagent", _between("[ASYNC DELEGATION BATCH COMPLETE — ", "", r"[^\n\]]{1,200}\]\nA background fan-out of [\s\S]*")),
)  # fmt: skip
_BLANKS = re.compile(r"\s*")
_LINE_ENDS = re.compile(r"\n*")
_TODO_BEHIND = re.compile(re.escape("\n\n" + TODO_HEAD) + _ITEM + r"\s*\Z")
_MEMORY_HEAD: Final = "<memory-context>\n[System note: The following is recalled memory context, NOT new user input. "
_MEMORY_TAIL: Final = "\n</memory-context>"
_SKILL_HEAD: Final = "[IMPORTANT: The user has invoked the "
_SKILL_SINGLE: Final = "The full skill content is loaded below.]"
_SKILL_SAID: Final = "The user has provided the following instruction alongside the skill invocation: "
_SKILL_NOTE: Final = "\n\n[Runtime note:"
_BUNDLE_FIRST: Final = "\n\n[Loaded as part of the "
_BUNDLE_SAID: Final = "\nUser instruction: "
_OPENING: Final = ("[", "<memory-context>")


@lru_cache(maxsize=2)
def _compiled(alone: bool) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Late: most processes never see such a message, and all of them wait for what is made when this is imported."""
    end = r"\s*\Z" if alone else r"(?=\n\n|\s*\Z)"
    return tuple((kind, re.compile(pattern + end)) for kind, pattern in (_ALONE if alone else _BEFORE))


def pieces(text: str) -> tuple[Piece, ...]:
    """A message of the user, taken apart in order; one piece without a kind when all of it is the user's."""
    if not any(mark in text for mark in _OPENING):
        return (Piece("", text),)
    begin = text.lstrip()
    for kind, pattern in _compiled(True):
        if pattern.match(begin):
            return (Piece(kind, text),)
    skill = _skill(begin)
    if skill:
        return skill
    return tuple(piece for piece in _taken_apart(text) if piece.kind or piece.text.strip()) or (Piece("", text),)


def _taken_apart(text: str) -> Iterator[Piece]:
    for part in _memories(text):
        if part.kind:
            yield part
            continue
        at = 0
        while (note := _leading(part.text, at)) is not None:
            yield Piece(*note[:2])
            at = note[2]
        rest = part.text[at:]
        behind = _TODO_BEHIND.search(rest) if TODO_HEAD in rest else None
        yield Piece("", rest[: behind.start()] if behind else rest)
        if behind:
            yield Piece("task list", behind[0].strip())


def _leading(text: str, at: int) -> tuple[str, str, int] | None:
    """A note of the host at a place in a text: its kind, what it says, where it and the empty lines behind it end."""
    begin = _behind(_BLANKS, text, at)
    if not text.startswith("[", begin):
        return None
    for kind, pattern in _compiled(False):
        found = pattern.match(text, begin)
        if found:
            return kind, found[0], _behind(_LINE_ENDS, text, found.end())
    return None


def _behind(what: re.Pattern[str], text: str, at: int) -> int:
    found = what.match(text, at)
    return found.end() if found else at


def _memories(text: str) -> Iterator[Piece]:
    """Recalled memory between its tags; a block that is not closed is none."""
    at = 0
    while (start := text.find(_MEMORY_HEAD, at)) >= 0:
        stop = text.find(_MEMORY_TAIL, start)
        if stop < 0:
            break
        stop += len(_MEMORY_TAIL)
        yield Piece("", text[at:start])
        yield Piece("recalled memory", text[start:stop])
        at = stop
    yield Piece("", text[at:])


def _skill(text: str) -> tuple[Piece, ...]:
    """A skill that a slash command loaded: the host's text, and the words that were typed behind the command."""
    if not text.startswith(_SKILL_HEAD):
        return ()
    line = text.partition("\n")[0]
    if " skill bundle," in line:
        head, _, skills = text.partition(_BUNDLE_FIRST)
        front, found, words = head.partition(_BUNDLE_SAID)
        behind = _BUNDLE_FIRST + skills if skills else ""
    elif line.endswith(_SKILL_SINGLE):
        front, found, words = text.rpartition(_SKILL_SAID)
        if not found:
            return (Piece("skill", text),)
        words, _, note = words.partition(_SKILL_NOTE)
        behind = _SKILL_NOTE + note if note else ""
    else:
        return ()
    out = [Piece("skill", front + found), Piece("", words), Piece("skill", behind.strip())]
    return tuple(piece for piece in out if piece.text.strip())


def whole(text: str) -> str:
    """The kind of block that a user message is; "" when any word of it is the user's."""
    found = pieces(text)
    return found[0].kind if all(piece.kind for piece in found) else ""


def typed(text: str) -> str:
    """What the user typed of a message, with a mark where the host put a block; the same text when there is none."""
    found = pieces(text)
    if len(found) == 1:
        return text
    return "\n".join(
        piece.text.strip("\n") if not piece.kind else f"[{piece.kind}: a note of the host]" for piece in found
    )
