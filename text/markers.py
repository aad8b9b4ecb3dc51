"""
Markers of text that the host writes in the user's name, told from what the user typed.

Pure. Each kind of block is known by exact grammar: how it begins, how it ends, and what may stand between. A block counts where
the host puts it: as the whole message, in front of the user's words (a blank line between), behind them, or, recalled memory,
anywhere. Text that merely resembles one is the user's. Nothing is cut from what is stored: this is for those who summarise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
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
    ("continuation", _between("[System: Your previous tool call (", "]")),
    ("continuation", _between("[System: The previous response was cut off by a network error", "]")),
    ("continuation", _between("[System: Your previous response was truncated by the output length limit",
                              "Finish the answer directly.]")),
    ("continuation", _between("[System: Your previous response contained only internal reasoning", "]")),
    ("continuation", _between("[System: Your previous message ended the turn with a fragment", "]")),
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
                                    r"\S{1,100} (?:finished with exit code|is still running~|heartbeat #)[\s\S]*")),
    ("subagent", _between("[ASYNC DELEGATION COMPLETE — ", "",
                          r"[^\n\]]{1,200}\]\nA background subagent you dispatched [\s\S]*")),
    ("subagent", _between("[ASYNC DELEGATION BATCH COMPLETE — ", "",
                          r"[^\n\]]{1,200}\]\nA background fan-out (?:of|unit you) [\s\S]*")),
    ("subagent", _between("[ASYNC DELEGATION TASK FAILED — ", "",
                          r"[^\n\]]{1,200}\]\nOne subagent in a background fan-out [\s\S]*")),
)  # fmt: skip
_BLANKS = re.compile(r"\s*")
_LINE_ENDS = re.compile(r"\n*")
_TODO_BEHIND = re.compile(re.escape("\n\n" + TODO_HEAD) + _ITEM + r"\s*\Z")
#: Fences of recalled memory, each alone on its line: the host's with the note that it always writes, those of memory plugins.
#: What is indented further is code.
_FENCE = re.compile(
    r"(?m)^ {0,3}<(?:(memory-context)>\s*\[System note:\s*The following is recalled memory|"
    r"(supermemory-(?:context|containers)|hindsight[-_]memories|relevant[-_]memories)>[ \t]*\r?$)",
    re.IGNORECASE,
)
#: In a reply the host's own is an echo in code and in quotes, too: the model had it before it, and nobody said it.
_ECHOED = re.compile(
    r"(?m)^(?:[ \t>]*<(memory-context)>[\s>]*\[System note:\s*The following is recalled memory|"
    r" {0,3}<(supermemory-(?:context|containers)|hindsight[-_]memories|relevant[-_]memories)>[ \t]*\r?$)",
    re.IGNORECASE,
)
_CODE = re.compile(r"(?m)^ {0,3}(`{3,}(?=[^`\n]*$)|~{3,})([^\n]*)$")
_SKILL_HEAD: Final = "[IMPORTANT: The user has invoked the "
_SKILL_SINGLE: Final = "The full skill content is loaded below.]"
_SKILL_SAID: Final = "The user has provided the following instruction alongside the skill invocation: "
_SKILL_NOTE: Final = "\n\n[Runtime note:"
_BUNDLE_FIRST: Final = "\n\n[Loaded as part of the "
_BUNDLE_SAID: Final = "\nUser instruction: "


@lru_cache(maxsize=2)
def _compiled(alone: bool) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Late: most processes never see such a message, and all of them wait for what is made when this is imported."""
    end = r"\s*\Z" if alone else r"(?=\n\n|\s*\Z)"
    return tuple((kind, re.compile(pattern + end)) for kind, pattern in (_ALONE if alone else _BEFORE))


def pieces(text: str) -> tuple[Piece, ...]:
    """A message of the user, taken apart in order; one piece without a kind when all of it is the user's."""
    if "[" not in text and not _may_recall(text):
        return (Piece("", text),)
    begin = text.lstrip()
    front = _behind_name(begin)
    for kind, pattern in _compiled(True):
        if pattern.match(begin) or pattern.match(begin, front):
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


def _behind_name(text: str) -> int:
    """Place behind a name: in a chat of several people a gateway puts one in front of blocks of the host, too."""
    return _behind(_SPEAKER, text, _behind(_TIME, text, 0))


def _memories(text: str) -> Iterator[Piece]:
    """Pieces of a text: recalled memory in its tags, and the words before, between and behind."""
    at = 0
    for start, stop in _recalled(text):
        yield Piece("", text[at:start])
        yield Piece("recalled memory", text[start:stop])
        at = stop
    yield Piece("", text[at:])


def _may_recall(text: str) -> bool:
    return "emor" in text or "EMOR" in text


def _recalled(text: str, fence: re.Pattern[str] = _FENCE) -> Iterator[tuple[int, int]]:
    """Places of blocks of recalled memory, tags included; one that is not closed is none. Linear.

    Nor is one that somebody quotes in a block of code, which begins before it and ends behind it, unless it is an echo. Code that
    nobody closes reaches to the end of a reply; behind that of a user the host may have put the block.
    """
    if not _may_recall(text) or not fence.search(text):
        return
    at, open_ended, code = 0, set[str](), ""
    unclosed = len(text) if fence is _ECHOED else -1
    while head := fence.search(text, at):
        tag = (head[1] or head[2]).lower()
        echo = fence is _ECHOED and head[1]
        tail = None if tag in open_ended else _fence_end(tag, r"[ \t>]*" if echo else " {0,3}").search(text, head.end())
        code = _open_code(text, at, head.start(), code)
        end = unclosed if code in open_ended else _code_end(text, head.end(), code, unclosed) if code and tail else -1
        if code and end == unclosed:
            open_ended.add(code)
        if tail is None:
            open_ended.add(tag)
        elif echo or not code or end < tail.end():
            yield head.start(), tail.end()
        at = head.end() if tail is None else max(tail.end(), end)


def _open_code(text: str, start: int, stop: int, code: str) -> str:
    """The mark of the block of code that is open at a place, "" outside of any. ``code``: the one before these lines."""
    for line in _CODE.finditer(text, start, stop):
        if not code:
            code = line[1]
        elif line[1].startswith(code) and not line[2].strip():
            code = ""
    return code


def _code_end(text: str, at: int, code: str, unclosed: int) -> int:
    """Place of the line that closes a block of code."""
    lines = _CODE.finditer(text, at)
    return next((line.start() for line in lines if line[1].startswith(code) and not line[2].strip()), unclosed)


@lru_cache(maxsize=8)
def _fence_end(tag: str, before: str) -> re.Pattern[str]:
    return re.compile(rf"(?im)^{before}</\s*{tag}\s*>(?=[ \t\r]*$)")


def unrecalled(role: str, text: str, *, blanks: bool = True) -> str:
    """A message's text with blanks for what a memory plugin recalled into it: every character keeps its place.

    Nobody said these words here: searches go over this text. Summaries go over it without ``blanks``.
    """
    if role not in ("user", "assistant"):
        return text
    out, at = list[str](), 0
    for start, stop in _recalled(text, _ECHOED if role == "assistant" else _FENCE):
        out += [text[at:start], " " * (stop - start) * blanks]
        at = stop
    return "".join([*out, text[at:]]) if at else text


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


def host_block(text: str) -> str:
    """The kind of block that a user message is; "" when any word of it is the user's."""
    found = pieces(text)
    return found[0].kind if all(piece.kind for piece in found) else ""


def typed(text: str) -> str:
    """The user's own words in a message, with a mark where the host put a block; the same text when there is none."""
    found = pieces(text)
    if len(found) == 1:
        return text
    return "\n".join(
        piece.text.strip("\n") if not piece.kind else f"[{piece.kind}: a note of the host]" for piece in found
    )


# -- speakers ---------------------------------------------------------------------------------------------
#: How a gateway begins a message of a chat that several people share: the time, notes, what was said before in the channel, and
#: the name of who says it. A platform that has ids puts name and id on a line of their own.
_TIME = re.compile(r"\[\w{3} \d{4}-\d\d-\d\d [^\]\n]{1,40}\] ")
_TIMES = re.compile(rf"(?m)^(?:{_TIME.pattern})+(?=\[[^\[\]|\n]{{1,300}}\|[^\[\]|\n]{{1,100}}\]$)")
#: The host's own expression for it.
_STAMPS = re.compile(r"(?:\[[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Za-z0-9_+\-/:]+)?\]\s*)+")
_REPLY_END = '"]\n\n'
_SENT_NOTE = re.compile(
    r"\[(?:(?:The user sent a|Triggering message id: |voice message could not be transcribed)[^\]]{0,1500}"
    r"|Replying to(?: your previous message)?: \"[\s\S]{0,500}?\")\]\n\n"
    r"|\[The user sent an image~ Here's what I can see:\n(?:(?!\]\n\[)[\s\S]){0,8000}\]\n"
    r"\[If you need a closer look, use vision_analyze with image_url: [^\]\n]{1,500} ~\](?:\n\n|\Z)"
)
_CHANNEL = re.compile(
    r"\[(?:Recent channel messages\]\n|Context around the replied-to message\]\n|Messages prefixed with \[unverified\] )"
)
_NEW_MESSAGE = "\n\n[New message]\n"
#: Telegram's groups of which the bot hears all: what nobody said to it, all of it, in front of what somebody did.
_OBSERVED = re.compile(r"\[Observed Telegram group context - context only, not requests\]\n")
_ADDRESSED = (
    "\n\n[Current addressed message - answer only this unless it explicitly asks you to use the observed context]\n"
)
_SPEAKER = re.compile(
    r"\[(?P<named>(?:[^\[\]\n]|\[[^\[\]\n]*\]){1,300})\|(?P<id>[^\[\]|\n]{1,100})\]\n"
    r"|\[(?P<alone>(?:[^\[\]\n]|\[[^\[\]\n]*\]){1,300})\](?: |\Z)"
)
_NEXT_SPEAKER = re.compile(r"\n\n\[[^\[\]|\n]{1,300}\|[^\[\]|\n]{1,100}\]\n")
_SPEAKERS_LINE = re.compile(r"\n+(?=\[[^\[\]|\n]{1,300}\|[^\[\]|\n]{1,100}\](?:\n|\Z))|\n\n(?=\[)")
_QUOTES = 8  # beginnings of lines that one line may hold
#: What platforms put in front of somebody's words, behind the name: what others wrote in the thread, what is quoted, a talk
#: that is handed on. Of marks that others may have written too the last one counts.
_THREAD = re.compile(r"\[Thread context — prior messages in this thread \(not yet in conversation history\)[.:]")
_THREAD_END = "\n[End of thread context]\n\n"
_HANDED_ON = re.compile(r"当前用户的昵称为[^\n]{1,200}\n以下为用户的聊天记录\n")
_HANDED_ON_END = "\n\n用户附言："
_QUOTATION = re.compile(
    r"\[Quoted message\]:(?: \(image\)|\n(?:(?!\n\n)[\s\S])+)(?:\n\n|\Z)|\[引用(?:媒体)?(?:: (?:(?!\]\n)[\s\S])+)?\]\n"
)
#: A voice message: the gateway writes what was said in quotation marks, in front of what else there is.
_HEARD = re.compile(r'(?:"[^"\n]+"(?:\n\n|\s*\Z))+')
_BEGINS: Final = ("[", '"', "当")
_HEAD_CHARS = 20_000  # of a message, in which its beginning is looked for


#: Where people type: a message in quotation marks quotes there.
_KEYBOARDS: Final = frozenset(("", "unknown", "cli", "tui", "acp", "local", "oneshot"))


@dataclass(frozen=True, slots=True)
class _Begin:
    """Place at which somebody's words begin behind what the gateway puts in front.

    ``sure``: no other place could be it. ``heard``: places of what was spoken, of a voice message.
    """

    at: int
    sure: bool
    heard: tuple[tuple[int, int], ...]


def _begin(text: str) -> _Begin:
    at, sure = _behind_earlier(text, _behind(_STAMPS, text, 0), _OBSERVED, _ADDRESSED, len(text))
    while found := _leading(text, at) or _TIME.match(text, at):
        at = found[2] if isinstance(found, tuple) else found.end()
    heard = list[tuple[int, int]]()
    while found := _SENT_NOTE.match(text, at) or _HEARD.match(text, at):
        if found.re is _HEARD:
            heard.append(found.span())
        else:
            sure = sure and text.count(_REPLY_END, at, _HEAD_CHARS) <= 1  # what is replied to is quoted as it was said
        at = found.end()
    at, only = _behind_earlier(text, at, _CHANNEL, _NEW_MESSAGE, _HEAD_CHARS)
    return _Begin(at, sure and only, tuple(heard))


def _behind_earlier(text: str, at: int, head: re.Pattern[str], end: str, most: int) -> tuple[int, bool]:
    """End of the earlier part of a chat with which a text begins, and whether it is the only possible end."""
    if not head.match(text, at):
        return at, True
    last = text.rfind(end, at, most)
    return (last + len(end) if last >= 0 else at), text.count(end, at, most) == 1


def _behind_others(text: str, at: int) -> int:
    """Place behind what others said, which the platform puts between a speaker's name and words."""
    for head, tail in ((_THREAD, _THREAD_END), (_HANDED_ON, _HANDED_ON_END)):
        if head.match(text, at):
            end = text.rfind(tail, at)
            return end + len(tail) if end >= 0 else at
    return _behind(_QUOTATION, text, at)


def by_speaker(text: str, *, named: bool, source: str = "") -> str:
    """The speaker's own words in a message: without what the gateway put in front, and, where it names speakers, the name.

    ``source``: platform that the message came from; one with a microphone writes in quotation marks what it heard.
    """
    if not text.startswith(_BEGINS) or host_block(text):
        return text
    begin = _begin(text)
    name = _SPEAKER.match(text, begin.at)
    if begin.heard and (source in _KEYBOARDS or (name is None and begin.at < len(text))):
        return text  # somebody's quotation, and what is said of it
    front = name.end() if name else begin.at
    words = text[front if named and begin.sure else begin.at : front] + text[_behind_others(text, front) :]
    heard = (text[start:stop].replace('"', "").strip() for start, stop in begin.heard)
    return "\n\n".join(each for each in (*heard, words) if each) or text.partition("\n")[0]


def speaker(text: str) -> tuple[str, str]:
    """(name, id) of who said a message of a shared chat, as the gateway wrote them in front of it; "" for what it did not."""
    if not text.startswith(_BEGINS) or host_block(text):
        return "", ""
    begin = _begin(text)
    found = _SPEAKER.match(text, begin.at) if begin.sure else None
    return ((found["named"] or found["alone"]).strip(), found["id"] or "") if found else ("", "")


def unstamped(text: str) -> str:
    """A user's text without what a gateway shows in front of it, and does not keep there: the time, a note on a turn before."""
    at = _behind(_STAMPS, text, 0) if text.startswith("[") else 0
    while (
        text.startswith(_NOTE, at)
        and (note := _leading(text, at))
        and note[0] == "resumed turn"
        and note[2] < len(text)
    ):
        at = _behind(_STAMPS, text, note[2])
    return text[at:]


def overheard(text: str) -> tuple[str, str]:
    """Words that were said in a group to somebody else, and behind them what was said to the bot; ("", text) without them."""
    head = _OBSERVED.match(text, _behind(_STAMPS, text, 0)) if text.startswith("[") else None
    heard, _, addressed = text[head.end() :].rpartition(_ADDRESSED) if head else ("", "", "")
    return (_TIMES.sub("", heard), addressed) if heard else ("", text)


def only_says(text: str, is_said: Callable[[str], bool]) -> bool:
    """Is each line that was said in a group to somebody else, in front of a message, one that somebody said by itself?

    A line may quote others: then it is several of the pieces into which the form of lines takes the talk apart.
    """
    heard = overheard(text)[0]
    starts = [0, *(found.end() for found in _SPEAKERS_LINE.finditer(heard)), len(heard)]
    if all(is_said(heard[start:stop]) for start, stop in pairwise(starts)):
        return True
    last, left, known = len(starts) - 1, [0], set[int]()
    while left:
        at = left.pop()
        if at == last:
            return True
        ends = range(at + 1, min(at + _QUOTES, last) + 1) if at not in known else ()
        left += [end for end in ends if is_said(heard[starts[at] : starts[end]])]
        known.add(at)
    return False


def holds_others(text: str) -> bool:
    """May a message hold lines that several people said in a group, of which the host made one?"""
    return bool(overheard(text)[0]) or _NEXT_SPEAKER.search(text) is not None


def of_speaker(text: str) -> str:
    """A message with blanks for all but its speaker's name and words: every character keeps its place.

    The same text where the gateway names no speaker, or where a name and words may be somebody else's.
    """
    if not speaker(text)[0]:
        return text
    begin = _begin(text)
    name = _SPEAKER.match(text, begin.at)
    front = name.end() if name else begin.at
    out, at = list[str](), 0
    for start, stop in (*begin.heard, (begin.at, front), (_behind_others(text, front), len(text))):
        out += [" " * (start - at), text[start:stop]]
        at = stop
    return "".join(out)


# -- recalled memory, which the host puts into messages and takes out again ------------------------------
#: What the host's own cleaning takes out of user and assistant text, in its order: blocks, its note, stray tags. It says so with
#: one expression each; two of these look through the rest of a text at every beginning that has no end, so they are taken apart.
_BLOCK_HEAD = re.compile(r"<\s*memory-context\s*>", re.IGNORECASE)
_BLOCK_TAIL = re.compile(r"</\s*memory-context\s*>", re.IGNORECASE)
_RECALLED = re.compile(
    r"\[System note:\s*The following is recalled memory context,\s*NOT new user input\.\s*"
    r"Treat as (?:informational background data(?P<end>\.\]\s*)|authoritative reference data)",
    re.IGNORECASE,
)
_RECALLED_TAIL = re.compile(r"\]\s*")
_STRAY = re.compile(r"</?\s*memory-context\s*>", re.IGNORECASE)


def without_recalled(text: str) -> str:
    """The text without recalled memory, its note and its tags. Linear."""
    low = text.lower()
    if "memory-context" not in low and "recalled memory context" not in low:
        return text
    return _STRAY.sub("", "".join(_outside_notes("".join(_outside_blocks(text)))))


def _outside_blocks(text: str) -> Iterator[str]:
    """Text outside of closed blocks of recalled memory."""
    at = 0
    while (head := _BLOCK_HEAD.search(text, at)) and (tail := _BLOCK_TAIL.search(text, head.end())):
        yield text[at : head.start()]
        at = tail.end()
    yield text[at:]


def _outside_notes(text: str) -> Iterator[str]:
    """Text outside of notes on recalled memory; one ends with the first bracket behind it, if that ends a sentence."""
    at = bracket = 0
    for head in _RECALLED.finditer(text):
        tail = head if head["end"] else None
        if head.start() >= at and tail is None:
            bracket = bracket if bracket >= head.end() else text.find("]", head.end())
            if bracket < 0:
                break
            if bracket > head.end() and text[bracket - 1] == ".":
                tail = _RECALLED_TAIL.match(text, bracket)
        if head.start() >= at and tail is not None:
            yield text[at : head.start()]
            at = tail.end()
    yield text[at:]
