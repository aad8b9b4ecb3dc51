"""
Is this answer a summary of that source? Judged without a model.

Owns the reasons to refuse an answer, the suspects in it (paths, numbers and identifiers that the source lacks), and the
anchor line that adds what it left out. Pure, and never raises on whatever a model may have written.

An answer is judged by its shape, never because it mentions something: a summary of a conversation about refused
credentials is a good summary.
"""

from __future__ import annotations

import functools
import json
import re
import zlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ..records import SummaryTask
from ..text import salience
from ..text.salience import Item, lazy
from ..text.tokens import Count
from . import claims, prompts
from .client import Reply
from .source import RUN, Evidence, Haystack, Source, recall, with_more

#: Of an answer that came to a limit of its length.
CUT_ENDS: Final = frozenset(("length", "max_tokens", "model_length"))
_BAD_ENDS: Final = CUT_ENDS | frozenset(
    {"content_filter", "safety", "recitation", "refusal", "error", "tool_calls",
     "function_call", "tool_use", "pause_turn", "incomplete", "malformed_function_call"}
)  # fmt: skip
_BEFORE_HINT: Final = r"[\s>*_#\"“-]*expand for details about[*_]*\s*[:：][*_]*\s*[\"“]?"
_HINT = lazy(rf"{_BEFORE_HINT}(.*?)[\s*_\"”]*$", re.IGNORECASE)
#: Behind the last sentence of a line; what another sentence follows is none.
_LAST_HINT = lazy(
    rf"(?<=[.!?。！？]){_BEFORE_HINT}((?:(?![.!?][*_\"”]*\s+\S|[。！？]\S).)*?)[\s*_\"”]*$", re.IGNORECASE
)
_LONGEST_HINT: Final = 2000

_PREFACE = lazy(
    r"(?:sure|certainly|of course|okay|ok|here(?:'s| is| are)|below is|the following is)\b[^\n]{0,120}[:：]\s*\n+",
    re.IGNORECASE,
)
#: What some servers leave at the end of an answer.
_END_TOKENS: Final = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
    "<eos>",
)
_WRAPPED = lazy(r"```[a-z]*\n(.*)\n```", re.DOTALL | re.IGNORECASE)

_REFUSAL = lazy(
    r"\W*(?:i'?m (?:really |very )?(?:sorry|afraid)|sorry,|i apologi[sz]e|unfortunately,? i|as an ai\b|"
    r"i (?:can(?:no|')t|cannot|am unable|'?m unable|am not able|'?m not able|won'?t|must decline)|"
    r"抱歉|对不起|很遗憾|我无法|我不能|申し訳|죄송|"
    r"(?:es )?tut mir leid|leider kann ich|(?:je suis )?désolé|je ne peux pas|lo siento|lo lamento|no puedo (?:ayudar|resumir)|"
    r"mi dispiace|non posso (?:aiutar|riassumere)|sinto muito|lamento|desculpe|não posso (?:ajudar|resumir)|"
    r"извините|к сожалению, я|я не могу|"
    # asks for what it was given
    r"(?:(?:sure|of course|certainly)\W+)?(?:i(?:'d| would|'ll| will) be (?:happy|glad) to|please (?:provide|share|paste)|"
    r"(?:could|can) you (?:please )?(?:provide|share|paste)|how (?:can|may) i (?:help|assist)|"
    r"it (?:looks|seems|appears) (?:like|that|as if) (?:no|there is no|you (?:have not|haven't|did not|didn't))\b))",
    re.IGNORECASE,
)
_ERROR_PAGE = lazy(
    r"\W*(?:error code:?\s*[45]\d\d\b|http(?:/\d(?:\.\d)?)?\s*(?:error:?)?\s*[45]\d\d\b|"
    r"[45]\d\d\s*[-:]?\s*(?:unauthorized|forbidden|not found|bad request|too many|internal server|"
    r"bad gateway|service un|gateway)|"
    r"(?:api|authentication|authorization|connection|rate ?limit|quota) ?error\b|"
    r"(?:incorrect|invalid|missing) (?:api[ _-]?key|credentials|token)|unauthorized\b|access denied\b|"
    r"(?:you exceeded your|rate limit (?:reached|exceeded)|insufficient (?:quota|credits|balance))|"
    r"the model [`'\"]?[\w./:-]{1,80}[`'\"]? does not exist|upstream (?:connect )?error|"
    r"service unavailable|bad gateway)",
    re.IGNORECASE,
)
_MARKUP_PAGE = lazy(r"\s*(?:<!doctype html|<html\b|<\?xml\b)", re.IGNORECASE)
# How reasoning begins that came without tags. A summary may well begin with "First the user asked for a summary of ...".
_THINKING = lazy(
    r"\W*(?:<(?:think|thinking|reasoning|thought)\b|"
    r"(?:okay|ok|alright|hmm+)\b[,.]? (?:so,? |first,? )?(?:the user|let me|let's|i need|i should|i'?ll|i will|i have|we)\b|"
    r"(?:well|so|first|now)\b[,.]? (?:let me|let's|i need|i should|i'?ll|i will|we need|we should)\b|"
    r"(?:let me|let's) (?:think|start|look|analy[sz]e|see|break|read|go|summari|carefully|first)|"
    r"(?:we|i) (?:need|have|are asked|am asked|should) to (?:write|produce|create|summari[sz]e|condense|output|generate)\b|"
    r"the user (?:wants|is asking|asks|asked|has asked) (?:me|us) (?:to|for)\b[^.\n]{0,60}\b"
    r"(?:summar|record|condens|conversation))",
    re.IGNORECASE,
)
_SENTENCE = lazy(r"(?<=[.!?])[ \t]+|(?<=[。！？])")
#: A sentence, or a line without an end of one.
_UNIT = lazy(r"\S[^\n]*?(?:[.!?](?=\s)|[。！？]|(?=\n)|\Z)")
_LEAST_TOLD: Final = 3  # sentences of a summary that ends in circles
_LOOPED: Final = 6  # sentences of the circles: two that are said again may be half a summary
_FIGURES = lazy(r"(?<!\S)\d[\d.,:]*(?!\S)")
_NEW_RUNS: Final = 0.45
_ROLL_LINE: Final = 400
_SEVERAL: Final = 20
_CITED: Final = 2  # addresses of messages
_WORDS = lazy(r"\w{4,}")
_DIGITS = lazy(r"\d+")


#: Of what users said, so much is quoted where there is room for it.
_QUOTED_SHARE: Final = 0.4
_MOST_QUOTED: Final = 2_400


class Verdict(NamedTuple):
    """Findings of verification. ``reasons`` refuse the answer; ``suspects`` ask for a retry and may be struck.

    ``text`` is the answer without preface and hint line; ``anchors`` is the line to append, or "".
    """

    ok: bool
    reasons: tuple[str, ...]
    suspects: tuple[str, ...]
    missing: tuple[str, ...]
    recall: float
    anchors: str
    text: str = ""
    hint: str = ""
    struck: tuple[str, ...] = ()
    recall_with_anchors: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The checks that are kept with the node; bounded."""
        return {
            "ok": self.ok,
            "reasons": list(self.reasons),
            "suspects": [name[:80] for name in self.suspects[:12]],
            "struck": [text[:160] for text in self.struck[:8]],
            "missing": len(self.missing),
            "recall": round(self.recall, 3),
            "recall_with_anchors": round(self.recall_with_anchors, 3),
        }


class Band(NamedTuple):
    """Least and greatest size of an acceptable answer, in tokens."""

    floor: int
    ceiling: int


def band(task: SummaryTask) -> Band:
    """More than a phrase, and clearly smaller than the source."""
    source, target = max(1, task.source_tokens), max(1, task.target_tokens)
    floor = min(max(24, int(source * prompts.readable(task.lines) * 0.005)), 120, max(24, target // 3))
    smaller = min(int(source * 0.75) + 40, int(source * 0.95))
    return Band(floor, max(1, min(smaller, 3 * target + 200)))


# ------------------------------------------------------------------------------------------------------ the answer
def tidy(text: str) -> tuple[str, str]:
    """The summary itself and its hint: no "Here is the summary:", no code fence around everything, no hint at its end."""
    text = text.strip()
    while found := next((token for token in _END_TOKENS if text.endswith(token)), ""):
        text = text.removesuffix(found).rstrip()
    text = _PREFACE.sub("", text, count=1) if _PREFACE.match(text) else text
    wrapped = _WRAPPED.fullmatch(text)
    lines = (wrapped[1] if wrapped else text).splitlines()
    hints: list[str] = []
    kept: list[str] = []
    for line in lines:
        match = _HINT.match(line) if len(line) < _LONGEST_HINT else None
        match = match or _LAST_HINT.search(line, max(0, len(line) - _LONGEST_HINT))
        if match:
            hints.append("" if _says_nothing(match[1]) else match[1].strip())
        if match is None or match.start():
            kept.append(line[: match.start()] if match else line)
    return "\n".join(kept).strip(), "; ".join(dict.fromkeys(hint for hint in hints if hint))[:600]


def _says_nothing(hint: str) -> bool:
    """Is it the place of the hint as the prompt names it, or "None"?"""
    return hint.startswith("<") or hint.strip(" .").casefold() in (prompts.LEFT_OUT, "none", "nothing", "n/a")


# ------------------------------------------------------------------------------------------------- reasons against
def _is_error_page(text: str) -> bool:
    is_markup = _MARKUP_PAGE.match(text) is not None
    if is_markup or len(text) > 3000:
        return is_markup
    if text.startswith("{") and text.endswith("}"):
        try:
            value = json.loads(text)
        except ValueError:
            return False
        return isinstance(value, dict) and ("error" in value or "errors" in value or "detail" in value)
    # An error page is one statement of the provider; a summary that opens with an error goes on about something else.
    return len(text) < 700 and text.count("\n") < 6 and _ERROR_PAGE.match(text) is not None


def _is_roll(text: str, source: Source) -> bool:
    """Is it a list, most of which are short lines that name something of the source that no other line names?"""
    lines = [Haystack(line) for line in text[:20_000].splitlines()[:200] if len(line.strip()) > 12]
    by_term = ([n for n, line in enumerate(lines) if line.has(term)] for term in source.terms)
    own = {at[0] for at in by_term if len(at) == 1 and len(lines[at[0]].text) < _ROLL_LINE}
    return len(lines) > 3 and 4 * sum(len(lines[n].text) for n in own) >= 3 * len(text)


@functools.lru_cache(maxsize=4)
def _is_loop(text: str) -> bool:
    """Does it repeat itself: as a whole, or in its second half?"""
    if len(text) < 240:
        return False
    for part in (text[:20_000], text[len(text) // 2 :][:20_000], text[-1200:]):
        raw = part.encode("utf-8", "replace")
        ratio = len(raw) / len(zlib.compress(raw, 6))
        if len(raw) >= 240 and ratio > (4.5 if len(raw) < 1500 else 8):
            return True
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 12]
    # What is told twice is kept once (``_said_once``).
    return (len(lines) >= 8 and 2 * len(set(lines)) < len(lines)) or _turns_in_circles(text[:20_000])


def _told_all(text: str) -> str:
    """The answer without a tail that only says again what it said before: a small model that has told all ends in circles."""
    told: set[str] = set()
    end = again = 0
    units = list(_UNIT.finditer(text))
    for n, unit in enumerate(units, 1):
        said = salience.normal(unit[0])
        begun = n == len(units) and any(each.startswith(said) for each in told)  # where the answer was cut
        if begun or said in told:
            again += 1
        else:
            again, end = 0, unit.end()
            told.add(said)
    return text[:end] if again >= _LOOPED and len(told) >= _LEAST_TOLD else text


def _turns_in_circles(text: str) -> bool:
    """Says the same again and again with other numbers in it. Of summaries, three in four runs of three words are new."""
    said = "\n".join(line for line in text.splitlines() if not _is_listing(line))
    words = _FIGURES.sub("0", said.casefold()).split()
    runs = list(zip(words, words[1:], words[2:], strict=False))
    return len(runs) >= 30 and len(set(runs)) < _NEW_RUNS * len(runs)


_WINDOW: Final = 200
#: Sentences, cut also at an address; so long at least, and of so many messages in a line.
_PIECES = lazy(r"(?<=[.!?])[ \t]+|(?<=[。！？])|\[msg_\d+\]")
_PIECE: Final = 20
_STRUNG: Final = 3
#: That many characters of our own instructions in one piece were copied.
_OWN_RUN: Final = 60
#: A line of so many, all of them our own, says nothing about the source.
_OWN_LINE: Final = 40
_BLANKS: Final = re.compile(r"\n{3,}")
_MARK = lazy(
    r"^~{4,} ?(?:source (?:begins|ends)|(?:msg|sum|part)_\d+ \|)|"
    r"<\|(?:im_start|im_end|start_header_id|eot_id|begin_of_text|end_of_text|endoftext|user|assistant|system|end)\|>|"
    r"<what was left out|<(?:start|end)_of_turn>|\[/?INST\]|<<SYS>>",
    re.MULTILINE,
)
_CALL = lazy(r"^\[calls [^\]\s]{1,80}\] \S", re.MULTILINE)
#: Summaries of which that much is left were not condensed.
_NEARLY_ALL: Final = 0.8


def _is_listing(line: str) -> bool:
    """Names one after another: the same names in the same order are no copied text."""
    return line.count(", ") >= 6 and line.count(", ") * 40 > len(line)


def _windows(text: str) -> list[str]:
    flat = salience.normal("\n".join(line for line in text[:60_000].splitlines() if not _is_listing(line)))
    return [flat[n : n + _WINDOW] for n in range(0, len(flat) - _WINDOW + 1, _WINDOW)]


def _copied(windows: list[str], *haystacks: Haystack) -> bool:
    """Is most of it copied in long runs? Quoting a sentence is not."""
    if len(windows) < 2:
        return False
    return sum(any(hay.contains(window) for hay in haystacks) for window in windows) > len(windows) / 2


def _without(prompt: str, texts: Iterable[str]) -> str:
    for text in texts:
        if text.strip():
            prompt = prompt.replace(text.strip(), "")
    return prompt


def _is_strung(text: str, source: Source) -> bool:
    """Are most of its lines words of several messages one after another, so that nobody can tell who said what?

    A line for each is a list, and summaries are condensed in their own sentences.
    """
    if source.task.depth > 0:
        return False
    said = [salience.normal(line.text) for line in source.task.lines]
    strung = 0
    for line in text[:20_000].splitlines():
        pieces = [piece for part in _PIECES.split(line) if len(piece := salience.normal(part)) >= _PIECE]
        copied = [piece for piece in pieces if source.haystack.contains(piece)]
        speakers = {n for piece in copied for n, words in enumerate(said) if piece in words}
        if len(copied) > len(pieces) / 2 and min(len(copied), len(speakers)) >= _STRUNG:
            strung += len(line)
    return strung > len(text[:20_000]) / 2


def _is_echo(text: str, source: Source, prompt: str) -> bool:
    """Is it the source, or the prompt, instead of an account of it? The summary before it may be taken up in the same words."""
    windows = _windows(text)
    task = source.task
    if task.depth > 0:
        return _is_deep_echo(windows, source, prompt)
    return _copied(windows, source.haystack, Haystack(_without(prompt, [task.previous])))


def _is_deep_echo(windows: list[str], source: Source, prompt: str) -> bool:
    """Summaries may be condensed in their own sentences. Nearly all of them, or one of several, is a copy all the same."""
    if not _copied(windows, source.haystack):
        texts = [line.text for line in source.task.lines]
        return _copied(windows, Haystack(_without(prompt, [*texts, source.task.previous])))
    whole = len(source.haystack.text)
    if len(windows) * _WINDOW >= _NEARLY_ALL * whole:
        return True
    lines = [Haystack(line.text) for line in source.task.lines]
    return any(
        len(line.text) < whole / 2 and sum(line.contains(window) for window in windows) >= _NEARLY_ALL * len(windows)
        for line in lines
    )


@functools.cache
def _own_words() -> Haystack:
    return Haystack("\n".join(prompts.OWN_WORDS))


def _is_told(flat: str, source: Source) -> bool:
    return _own_words().contains(flat) and not source.haystack.contains(flat)


def _is_copied_call(line: str, source: Source) -> bool:
    """Is it a call as the source writes it, or as much of it as the prompt showed? An invented one goes on with the talk."""
    parts = [salience.normal(part) for part in line.split(prompts.SHORTENED)] if _CALL.match(line) else []
    return bool(parts) and all(source.haystack.contains(part) for part in parts)


def _untold(text: str, source: Source) -> tuple[str, tuple[str, ...]]:
    """The answer without lines that repeat our instructions or copy a call, and the lines left out. The rest may be good."""
    kept: list[str] = []
    told: list[str] = []
    for line in text.splitlines():
        flat = salience.normal(line.strip(" \t-*•>#"))
        copied = _is_copied_call(line, source) or (len(flat) >= _OWN_LINE and _is_told(flat, source))
        (told if copied else kept).append(line)
    if not source.haystack.contains(prompts.LEFT_OUT):  # a small model takes the place of the hint for somebody's words
        rest, placed = strike("\n".join(kept), (f" {prompts.LEFT_OUT}",))
        kept, told = [rest], [*told, *placed]
    return ("\n".join(kept).strip(), tuple(told)) if told else (text, ())


def _said_once(text: str) -> str:
    """The answer without long lines that stand there again, one behind another: a small model tells its summary twice.

    A line that comes back alone, between others, tells of a second event.
    """
    lines = text.splitlines()
    long = [(at, flat) for at, line in enumerate(lines) if len(flat := salience.normal(line)) >= _OWN_LINE]
    first = {flat: at for at, flat in reversed(long)}
    again = [first[flat] < at for at, flat in long]
    dropped = {
        at
        for n, (at, flat) in enumerate(long)
        if again[n] and (flat == long[n - 1][1] or again[n - 1] or again[n + 1 : n + 2] == [True])
    }
    return _BLANKS.sub("\n\n", "\n".join(line for at, line in enumerate(lines) if at not in dropped)).strip()


def _is_mostly_told(text: str, source: Source) -> bool:
    """Is it mostly our instructions?"""
    flat = salience.normal(text[:60_000])
    runs = [flat[n : n + _OWN_RUN] for n in range(0, len(flat) - _OWN_RUN + 1, _OWN_RUN)]
    return sum(_is_told(run, source) for run in runs) > len(runs) / 2


def _plays_on(text: str, source: Source) -> bool:
    """Does it go on with the prompt or the conversation: with our marks, a template's, a call?

    A conversation about just these may hold them.
    """
    text = text[:60_000]
    return _CALL.search(text) is not None or any(
        not source.haystack.contains(salience.normal(mark[0])) for mark in _MARK.finditer(text)
    )


def _is_unrelated(answer: Haystack, share: float, source: Source) -> bool:
    """Holds nothing of a source that has plenty to hold, or shares neither names nor words with it.

    Who cites several of the source's addresses has read it: nothing else holds them.
    """
    if sum(answer.contains(line.address) for line in source.task.lines) >= _CITED:
        return False
    if share == 0.0 and len(source.items) >= _SEVERAL:
        return True
    if len(source.terms) < 12 or any(answer.contains(term.key) for term in source.terms):
        return False
    words = set(_WORDS.findall(answer.text))
    return bool(words) and sum(source.haystack.contains(word) for word in words) < 0.3 * len(words)


def _ended(text: str, reply: Reply) -> tuple[str, Reply]:
    """The text of an answer and the answer; one that ends in circles without them, as if it had ended by itself."""
    told = _told_all(text)
    return (told, reply._replace(finish_reason="stop")) if told != text else (text, reply)


def _form_reasons(reply: Reply, text: str, source: Source) -> list[str]:
    """Faults of the answer as such, apart from its size."""
    out = []
    finish = reply.finish_reason.lower()
    if finish in _BAD_ENDS:
        out.append(f"it did not end by itself (finish_reason {finish})")
    if reply.tool_calls:
        out.append("it called a tool instead of writing")
    if reply.reasoning_only:
        out.append("it consists of reasoning only")
    elif not text:
        out.append("it is empty")
    elif _THINKING.match(text):
        out.append("it is reasoning, not a record")
    elif len(text) < 700 and _REFUSAL.match(text) and not _tells(text, source):
        out.append("it refuses")
    elif _is_error_page(text) and not _tells(text, source):
        out.append("it is an error page")
    return out


def _tells(text: str, source: Source) -> bool:
    """Does it hold several of the source's names? Then it is a summary, however it opens."""
    haystack = Haystack(text)
    return sum(haystack.has(term) for term in source.terms) >= 3


def _size_reasons(tokens: int, allowed: Band) -> list[str]:
    if tokens < allowed.floor:
        return [f"it is too short ({tokens} tokens, at least {allowed.floor})"]
    if tokens > allowed.ceiling:
        return [f"it is too long ({tokens} tokens, at most {allowed.ceiling})"]
    return []


# -------------------------------------------------------------------------------------------------------- suspects
_A_FILE = lazy(r"\.\w{1,8}$")


def with_names(text: str, evidence: Evidence) -> tuple[str, tuple[str, ...]]:
    """A text with the names of files spelled as its source spells them, and the names that the source spells in several ways.

    README.md and Readme.md are two files. A part of a longer name or of an address stays as it is.
    """
    unclear = list[str]()
    for item in salience.terms(text).values():
        alone = rf"(?<![\w./\\:-]){re.escape(item.text)}(?![\w/])"
        is_file = item.kind == salience.PATH and _A_FILE.search(item.text)
        for name in dict.fromkeys(re.findall(alone, text, re.IGNORECASE)) if is_file else ():
            known = evidence.spellings(name)
            if len(known) > 1:
                unclear.append(name)
            elif known and name not in known:
                right = min(known).replace("\\", r"\\")
                text = re.sub(alone.replace(re.escape(item.text), re.escape(name)), right, text)
    return text, tuple(unclear)


def _is_claim(item: Item) -> bool:
    """Is it something that would be harmful when invented? Ordinary words and words joined by a hyphen are not."""
    if item.kind in (salience.PATH, salience.URL, salience.HASH, salience.DATE):
        return True
    if item.kind == salience.NUMBER:
        return RUN.search(item.key) is not None
    if item.kind != salience.IDENTIFIER:
        return False
    if RUN.search(item.key) or "_" in item.key or "." in item.key or "/" in item.key:
        return True
    return "-" in item.key and (any(c.isdigit() for c in item.key) or item.key.count("-") >= 3)


def suspects(text: str, evidence: Evidence) -> tuple[str, ...]:
    """Paths, numbers, identifiers, hashes and dates of ``text`` for which there is no evidence."""
    claims = [item for item in salience.terms(evidence.without_grouped(text)).values() if _is_claim(item)]
    return tuple(item.text for item in claims if not evidence.supports(item))[:40]


def _strike_line(line: str, named: tuple[str, ...], struck: list[str]) -> str:
    def bad(part: str) -> bool:
        return any(name in part for name in named)

    if not bad(line):
        return line
    listing = line.count(", ") >= 3 and len(_SENTENCE.split(line)) <= 2
    parts = line.split(", ") if listing else _SENTENCE.split(line)
    kept = [part for part in parts if not bad(part)]
    if listing and bad(parts[0]) and ": " in parts[0] and not bad(parts[0].split(": ", 1)[0]):
        kept = [parts[0].split(": ", 1)[0] + ": " + ", ".join(kept)] if kept else []
        struck.append(parts[0].split(": ", 1)[1])
        struck.extend(part for part in parts[1:] if bad(part))
        return kept[0] if kept else ""
    struck.extend(part for part in parts if bad(part))
    joined = (", " if listing else " ").join(kept)
    return joined if joined.strip(" -*•#>0123456789.)") else ""


def strike(text: str, named: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """``text`` without the sentences and list items that hold one of ``named``, and what was taken out."""
    struck: list[str] = []
    kept = []
    for line in text.splitlines():
        rest = _strike_line(line, named, struck)
        if rest.strip() or not line.strip():
            kept.append(rest)
    return "\n".join(kept).strip(), tuple(part.strip() for part in struck)


# --------------------------------------------------------------------------------------------------------- anchors
def anchor_line(missing: Iterable[Item], source: Source, *, room: int, count: Count) -> str:
    """``Anchors: a, b, c`` with as many of the items (most important first) as ``room`` tokens take, or "".

    They stand in the order of the source: what was named together stands together.
    """
    chosen: list[Item] = []
    seen, numbers = "", set[str]()
    left = room - count("Anchors: ")
    for item in missing:
        text = " ".join(item.text.split())
        told = item.key in (numbers if item.key.isdigit() else seen)
        if item.kind not in salience.TERMS or told or len(text) > 160:
            continue
        cost = count(text) + 1
        if cost > left:
            if left < 4:
                break
            continue
        left -= cost
        chosen.append(item)
        seen += "\n" + item.key
        numbers.update(_DIGITS.findall(item.key))
    chosen.sort(key=lambda item: source.haystack.text.find(item.key))
    return "Anchors: " + ", ".join(" ".join(item.text.split()) for item in chosen) if chosen else ""


def anchor_room(task: SummaryTask, tokens: int) -> int:
    """Tokens that anchors may add to a text of ``tokens``: the node must stay clearly smaller than its source."""
    return min(max(60, task.target_tokens // 4), band(task).ceiling - tokens)


def quotes_room(task: SummaryTask, tokens: int, said: int) -> int:
    """Tokens that quotations may add to a text of ``tokens`` and its anchors: more where users said much."""
    wanted = max(task.target_tokens, min(_MOST_QUOTED, int(said * _QUOTED_SHARE)))
    return min(wanted, band(task).ceiling + wanted - tokens - anchor_room(task, tokens))


# ----------------------------------------------------------------------------------------------------------- check
def check(source: Source, reply: Reply, *, count: Count, prompt: str = "") -> Verdict:
    """Judge an answer. ``prompt`` is all that the model read: not invented, and not to be echoed."""
    task = source.task
    whole, hint = tidy(reply.text)
    if reply.finish_reason.lower() in CUT_ENDS or _is_loop(whole):
        whole, reply = _ended(whole, reply)
    recited = _is_mostly_told(whole, source)
    as_written, told = (whole, ()) if recited else _untold(whole, source)
    text = _said_once(as_written)
    reasons = _form_reasons(reply, text, source)
    tokens = count(text)
    if text and not reasons:
        reasons += _size_reasons(tokens, band(task))
    # A hopeless answer may be forty thousand words: nothing below is worth its time then.
    if reasons:
        return Verdict(False, tuple(reasons), (), (), 0.0, "", text[:2000], hint)
    evidence = source.evidence(prompt)
    answer = Haystack(text)
    if _is_loop(as_written) and not _is_roll(as_written, source):
        reasons.append("it repeats itself")
    if _is_echo(text, source, prompt):
        reasons.append("it copies the source")
    elif _is_strung(text, source):
        reasons.append("it strings words of several messages together")
    if recited or _plays_on(text, source):
        reasons.append("it goes on with the prompt or the conversation")
    share, missing = recall(source.items, answer)
    if _is_unrelated(answer, share, source):
        reasons.append("it has nothing to do with the source")
    named = tuple[str, ...]()
    if not reasons:
        text, named = with_names(text, evidence)
        named += suspects(f"{text}\n{hint}", evidence) + claims.unfounded(text, task)
    anchors = anchor_line(missing, source, room=anchor_room(task, tokens), count=count)
    return Verdict(
        ok=not reasons and not named,
        reasons=tuple(reasons),
        suspects=named,
        missing=tuple(item.text for item in missing),
        recall=share,
        anchors=anchors,
        text=text,
        hint=hint,
        struck=told,
        recall_with_anchors=with_more(source.items, missing, answer.plus(anchors)),
    )
