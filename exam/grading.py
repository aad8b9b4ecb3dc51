"""
Grades of the exam, and their text: does the prompt say it, does the first look say it, or is it lost?

Reads one conversation with the caller's rights; writes only the last grade (``exam:last`` in ``meta``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate, product
from typing import Any, Final

from ..compaction.compress import state_tokens
from ..errors import BadRequest, StoreError
from ..ops.render import counted, table
from ..ops.status import window
from ..prompt.context_message import context_text, prefix_tokens, saved_tokens, stub_text
from ..prompt.present_state import HOLDS_HEAD, PresentState
from ..recall import grep, lines
from ..recall.access import Access
from ..recall.paging import Room
from ..records import Assembly, Flag, Row, in_order
from ..session import Cut, Session
from ..storage.meta import Meta
from ..text import markup
from ..text.markup import RECALL_POLICY
from .probes import WORD, Probe, finished_requests, probes, verbatim, words_of

LAST: Final = "exam:last"
GRADES: Final = ("prompt", "look", "lost")
_MOST_ROWS: Final = 20_000  # of a conversation, the newest
_LOOK_TOKENS: Final = 2000  # what lcm_grep answers with by default
_LOOK_HITS: Final = 60
_FEW_WORDS: Final = 4  # a request of so few is said again too often to be told apart
_SHOWN_CHARS: Final = 300  # of an answer


class Page:
    """A text that can be asked where words stand."""

    def __init__(self, text: str) -> None:
        self._places: dict[str, list[int]] = defaultdict(list)
        for match in WORD.finditer(text.casefold()):
            self._places[match[0]].append(match.start())

    def says(self, probe: Probe) -> bool:
        """Do enough of the answer's words stand close enough together?"""
        marks = sorted(
            (at, n) for n, group in enumerate(probe.groups) for word in group for at in self._places.get(word, ())
        )
        inside, kinds, first = Counter[int](), 0, 0
        for at, n in marks:
            kinds += not inside[n]
            inside[n] += 1
            while marks[first][0] < at - probe.stretch:
                inside[marks[first][1]] -= 1
                kinds -= not inside[marks[first][1]]
                first += 1
            if kinds >= probe.need:
                return True
        return False


def exam(deps: Access) -> dict[str, Any]:
    """The grades of the caller's conversation: by kind, of all, of what only summaries cover; and each probe.

    Raises BadRequest where there is no conversation, StoreError.
    """
    if deps.session is None:
        raise BadRequest("there is no conversation to ask about; name one with --session")
    rows, older = _rows(deps, deps.session)
    assembly = _prompt(deps, deps.session)
    shown = _raw_ids(assembly, rows)
    record, state, exact = rebuilt(deps, deps.session, assembly) if assembly is not None else ("", "", True)
    short, nonce = assembly.stubs if assembly is not None else {}, deps.session.nonce
    said = [shown_of(row, short.get(row.store_id), nonce) for row in rows if row.store_id in shown]
    page, whole = Page("\n\n".join([record, *said])), shown.difference(short)
    graded = [(probe, "prompt" if probe.store_id in whole else _grade(deps, page, probe)) for probe in probes(rows)]
    data = {
        "session_id": deps.session.session_id,
        "messages": len(rows),
        "older": older,
        "in_prompt": len(shown),
        "prompt_exact": exact,
        "kinds": {kind: _count(graded, kind) for kind in dict.fromkeys(probe.kind for probe, _ in graded)},
        "all": _count(graded),
        "covered": _count([each for each in graded if each[0].store_id not in shown]),
        "finished_shown_as_open": _reopened(rows, state),
        "probes": [_graded(probe, grade) for probe, grade in graded],
    }
    return data | _kept(deps, data)


def _rows(deps: Access, session: Session) -> tuple[list[Row], int]:
    """The newest messages of a conversation, and the number of older ones."""
    segments = deps.sessions.ancestry(session.conversation_id)
    ids = [head.store_id for head in deps.store.heads(segments) if not head.flags & Flag.RETRACTED]
    return deps.store.legible(ids[-_MOST_ROWS:])[0], max(0, len(ids) - _MOST_ROWS)


def _prompt(deps: Access, session: Session) -> Assembly | None:
    """The newest prompt of the conversation; of a branch that built none, the one that it began with."""
    for conversation_id, cut in reversed(deps.sessions.ancestry(session.conversation_id)):
        if cut is None:
            fitting = [each for each in [deps.shown_assembly()] if each is not None]
        else:
            fitting = [each for each in deps.dag.assemblies(conversation_id) if each.last_seq <= cut.seq]
        if fitting:
            return fitting[-1]
    return None


def _raw_ids(assembly: Assembly | None, rows: Sequence[Row]) -> frozenset[int]:
    """Messages that the next request shows as they are."""
    if assembly is None:
        return frozenset(row.store_id for row in rows)
    later = (row.store_id for row in rows if row.head.seq > assembly.last_seq)
    return frozenset([*assembly.tail_ids, *later])


def rebuilt(deps: Access, session: Session, assembly: Assembly) -> tuple[str, str, bool]:
    """(the context message, its present state, is it the very text that was built?)."""
    end = Cut(assembly.last_seq)
    segments = [each.within(end) for each in deps.sessions.ancestry(assembly.conversation_id)]
    roots = in_order(deps.dag.nodes(assembly.roots))
    room = assembly.state_tokens or state_tokens(window(deps)[1], roots)
    whose = next((each for each in deps.sessions.of_conversation(assembly.conversation_id)), session)
    raw = set(assembly.tail_ids).difference(assembly.stubs)
    state = PresentState(deps.store, deps.ledger, deps.sessions).block(
        segments, nonce=whose.nonce, shown=raw, room_tokens=room
    )
    carried = deps.dag.nodes(deps.sessions.carried(assembly.conversation_id))
    every = [*carried, *roots]
    text = ""
    shorter = accumulate([0, *saved_tokens(every)])  # one more summary shortened to a line each time
    for saved, policy in product(shorter, ("", RECALL_POLICY)):
        room = prefix_tokens(every) - saved
        text = context_text(whose.nonce, assembly.assembly_id, roots, carried, room, state, policy)
        if markup.context_digest(text) == assembly.digest:
            return text, state, True
    whole = context_text(whose.nonce, assembly.assembly_id, roots, carried, prefix_tokens(every), state)
    return whole, state, False


def shown_of(row: Row, kept_chars: int | None, nonce: str) -> str:
    """Text of a message in the prompt: all of it, or a stub of this conversation that keeps so many characters."""
    if kept_chars is not None:
        return stub_text(nonce, row.store_id, row.head.tool_name or "", row.text, kept_chars)
    return "\n".join([row.text, *(f"{call.name} {call.arguments}" for call in row.calls)])


def _grade(deps: Access, page: Page, probe: Probe) -> str:
    if page.says(probe):
        return "prompt"
    ask = grep.Ask(query=probe.question, chosen=deps.choose(), limit=_LOOK_HITS, as_lines=True)
    answer = lines.search(grep.grep(deps, ask, Room.of(deps.answer_tokens).capped(_LOOK_TOKENS)))
    return "look" if Page(answer.replace(probe.question, "")).says(probe) else "lost"


def _count(graded: Sequence[tuple[Probe, str]], kind: str = "") -> dict[str, int]:
    counts = Counter(grade for probe, grade in graded if kind in ("", probe.kind))
    return {"n": counts.total(), **{grade: counts[grade] for grade in GRADES}}


def _reopened(rows: Sequence[Row], state: str) -> int:
    """Number of finished requests among the words that still hold."""
    page = Page(state.partition(HOLDS_HEAD)[2])
    asked = [each for each in finished_requests(rows) if len(set(words_of(each))) > _FEW_WORDS]
    return sum(page.says(verbatim("", "", 0, each[:200])) for each in asked)


def _kept(deps: Access, data: Mapping[str, Any]) -> dict[str, Any]:
    """Time of the grade; it is kept for the status, where the database may be written."""
    at = deps.clock()
    try:
        Meta(deps.db).note(LAST, {"at": at, **{name: data[name] for name in ("session_id", "all", "kinds")}})
    except StoreError as exc:
        return {"at": at, "not_kept": str(exc)}
    return {"at": at}


def _graded(probe: Probe, grade: str) -> dict[str, Any]:
    answer = " ".join(probe.answer.split())[:_SHOWN_CHARS]
    return {
        "kind": probe.kind,
        "grade": grade,
        "question": probe.question,
        "address": f"msg_{probe.store_id}",
        "answer": answer,
    }


_BAR: Final = 10
_SIGNS: Final = {"prompt": "#", "look": "+", "lost": "."}
_LOST: Final = 8  # lost ones that are named


def text(data: Mapping[str, Any]) -> str:
    """The report for a terminal; the data has every probe."""
    count = counted(data["all"]["n"], "question")
    head = f"What the agent still knows of {data['session_id']}: {count}, made by rule; no model is asked."
    rows = {**data["kinds"], "all": data["all"], "left the prompt": data["covered"]}
    shown = [("", "questions", "in the prompt", "one search", "not found", "")]
    shown += [(name, str(each["n"]), *_shares(each), _bar(each)) for name, each in rows.items() if each["n"]]
    out = [head, *table(shown), "# in the prompt   + found by one search   . not found"]
    if data["covered"]["n"]:
        out.append("left the prompt: questions about messages that summaries stand for")
    if data["older"]:
        out.append(
            f"Asked about the newest {data['messages']:,} messages; the {data['older']:,} before them are too many."
        )
    if data["finished_shown_as_open"]:
        out.append(f"Finished requests that the prompt shows as open: {data['finished_shown_as_open']}")
    if not data["prompt_exact"]:
        out.append("The prompt was built with other settings than now, so these figures are close, not exact.")
    lost = [each for each in data["probes"] if each["grade"] == "lost"]
    out += [f"not found: {each['question']} {each['address']}: {each['answer']}" for each in lost[:_LOST]]
    if len(lost) > _LOST:
        out.append(f"and {len(lost) - _LOST} more: --json")
    return "\n".join(out)


def _shares(counts: Mapping[str, int]) -> tuple[str, str, str]:
    prompt, look, lost = (f"{counts[grade] / max(1, counts['n']):.0%}" for grade in _SIGNS)
    return prompt, look, lost


def _bar(counts: Mapping[str, int]) -> str:
    ends, before = [], 0
    for grade in _SIGNS:
        before += counts[grade]
        ends.append(round(_BAR * before / max(1, counts["n"])))
    return "".join(sign * (end - start) for sign, start, end in zip(_SIGNS.values(), [0, *ends], ends, strict=False))
