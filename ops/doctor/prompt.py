"""
Checks of the doctor about the prompt that was built: does it show everything once, and does its beginning stay as it is?
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from ...recall.access import Access
from ...records import Node
from ...session import Session
from ..coverage import uncovered
from ..findings import Finding, ok, warn
from ..render import counted
from ..survey import Survey

#: Conversations above this are measured by deep checks only.
_COVERAGE_ROWS = 60_000
#: So many of the newest prompts are compared, and so few say nothing yet.
_PROMPTS, _FEW = 20, 5
_REQUESTS = 10
#: So long conversations are looked at, one after the other.
_LOOK_S, _DEEP_LOOK_S = 2.0, 60.0
_LEAST_KEPT, _LEAST_CACHED = 0.4, 0.3


# -- where to look ---------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Looked:
    """Findings by conversation with a prompt: this session's first, then the newest. ``of``: how many there are."""

    found: list[tuple[str, Any]]
    of: int

    @property
    def count_text(self) -> str:
        """Number of conversations that were looked at, where that is not this one alone."""
        return f"; {len(self.found)} of {self.of} conversations looked at, newest first" if self.of > 1 else ""

    @property
    def data(self) -> dict[str, int]:
        return {"conversations": self.of, "looked_at": len(self.found)} if self.of > 1 else {}


def _everywhere(deps: Access, look: Callable[[Access, Session], Any], *, deep: bool) -> Looked:
    """Findings of ``look`` in each conversation that may be told of, for at most so many seconds."""
    end = time.monotonic() + (_DEEP_LOOK_S if deep else _LOOK_S)
    own = deps.session
    prompted = deps.dag.prompted() if deps.reads_all else []
    here = [own] if own is not None and deps.assembly() is not None else []
    others = [each for each in prompted if own is None or each != own.conversation_id]
    found = [(each.session_id, look(deps, each)) for each in here]
    for conversation in others:
        if found and time.monotonic() >= end:
            break
        newest = deps.sessions.of_conversation(conversation)[-1:]
        found += [(each.session_id, look(replace(deps, session=each), each)) for each in newest]
    return Looked(found, len(here) + len(others))


# -- is everything in it once ----------------------------------------------------------------------------
def coverage(deps: Access, deep: bool) -> Finding:
    """P4: is every message of a conversation in its prompt, raw or under exactly one active node?"""
    looked = _everywhere(deps, partial(_measured, deep=deep), deep=deep)
    if not looked.found:
        return ok("nothing is summarised here yet" if deps.session else "no session is bound")
    measured = [(name, each) for name, each in looked.found if each is not None]
    large = len(looked.found) - len(measured)
    left = f"not measured: {large} with more than {counted(_COVERAGE_ROWS, 'message')}; `doctor deep` does"
    if not measured:
        return ok(f"{left}{looked.count_text}", measured=False, **looked.data)
    count = sum(each[2] for _, each in measured)
    bad = [(name, *each) for name, each in measured if each[0] or each[1]]
    if not bad:
        rest = f"; {left}" if large else ""
        return ok(f"all {count:,} messages are in the prompt, raw or summarised{looked.count_text}{rest}", messages=count,
                  **looked.data)  # fmt: skip
    session_id, missing, twice, own = bad[0]
    among = f" ({counted(len(bad), 'conversation')}, the first: session {session_id})" if looked.of > 1 else ""
    is_own = deps.session is not None and session_id == deps.session.session_id
    return warn(
        f"of {counted(own, 'message')} {_misplaced(missing, twice)}{among}{looked.count_text}",
        meaning="the model does not see those unless it searches; all of them are stored",
        remedy="a rotation covers them at the next message: order one, or let the agent search with lcm_grep",
        command="/lcm rotate apply" if is_own else f"hermes lcm rotate --session {shlex.quote(session_id)} apply",
        missing=sorted(missing)[:20],
        twice=sorted(twice)[:20],
        sessions=[each[0] for each in bad[:20]],
        **looked.data,
    )


def _misplaced(missing: set[int], twice: set[int]) -> str:
    said = [f"the prompt lacks {len(missing):,}"] if missing else []
    return " and ".join(
        [*said, *([f"{len(twice):,} {'is' if len(twice) == 1 else 'are'} in it twice"] if twice else [])]
    )


def _measured(deps: Access, session: Session, *, deep: bool) -> tuple[set[int], set[int], int] | None:
    """``uncovered`` of a conversation; None for one that is too large for a check that is not deep."""
    assembly = deps.assembly()
    if assembly is None:
        return set(), set(), 0
    large = deps.store.last_seq(session.conversation_id) > _COVERAGE_ROWS
    return None if large and not deep else uncovered(deps, session, assembly)


# -- the beginning of the prompt -------------------------------------------------------------------------
def cache_prefix(deps: Access, deep: bool) -> Finding:
    """Does the beginning of the prompts stay as it is, so that providers can cache it?"""
    asked = dict(deps.engine.cache)
    requests, prompt, read = (int(asked.get(each, 0)) for each in ("requests", "prompt_tokens", "cache_read_tokens"))
    looked = _everywhere(deps, _stability, deep=deep)
    session_id, (kept, causes) = min(looked.found, key=_least_kept, default=("", ([], Counter())))
    data: dict[str, Any] = {"provider": asked, "compactions_compared": len(kept), "causes": dict(causes), **looked.data}
    mean = sum(kept) / len(kept) if kept else 1.0
    among = f"; session {session_id} kept least{looked.count_text}" if looked.of > 1 else ""
    if read and requests >= _REQUESTS and read < prompt * _LEAST_CACHED:
        return warn(
            f"the provider read {read / prompt:.0%} of {prompt:,} prompt tokens from its cache ({counted(requests, 'request')})",
            meaning="the beginning of the prompt changes from request to request; that costs money and time",
            remedy="between compactions this plugin changes nothing: look at other plugins that rewrite the prompt, and at "
            "how long the provider keeps its cache",
            **data,
        )
    if len(kept) >= _FEW and mean < _LEAST_KEPT:
        return warn(
            f"of the summaries at the beginning {mean:.0%} stayed, on average of "
            f"{counted(len(kept), 'compaction')} ({_said(causes)}){among}",
            meaning="the provider's cache starts over after most compactions, which costs money and time",
            **_way_out(causes),
            kept=round(mean, 3),
            **data,
        )
    parts = [f"{read / prompt:.0%} of the prompt tokens came from the provider's cache"] if read else []
    if kept:
        parts.append(
            f"{mean:.0%} of the summaries stayed over {counted(len(kept), 'compaction')} ({_said(causes)}){among}"
        )
    said = "; ".join(parts) or f"no two compactions to compare yet{looked.count_text}"
    return ok(said, kept=round(mean, 3), **data)


def _least_kept(found: tuple[str, tuple[list[float], Counter[str]]]) -> tuple[bool, float]:
    """Orders conversations: those with enough compactions to tell first, by the share of summaries that stayed."""
    _, (kept, _causes) = found
    return len(kept) < _FEW, sum(kept) / len(kept) if kept else 1.0


def _stability(deps: Access, session: Session) -> tuple[list[float], Counter[str]]:
    """Per compaction the share of the older prompt's summaries that stayed in front, and what changed the first other one."""
    prompts = Survey(deps.db).prompts(session.conversation_id, newest=_PROMPTS)
    nodes = {node.node_id: node for node in deps.dag.nodes(sorted({each for roots in prompts for each in roots}))}
    kept: list[float] = []
    causes: Counter[str] = Counter()
    for old, new in pairwise(prompts):
        before, after = ([nodes[each] for each in roots if each in nodes] for roots in (old, new))
        same = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
        same = min(same, len(after))
        total = sum(node.tokens for node in before)
        if total:
            kept.append(sum(node.tokens for node in before[:same]) / total)
            causes[_cause(deps, before[same:], after[same:])] += 1
    return kept, causes


def _cause(deps: Access, before: Sequence[Node], after: Sequence[Node]) -> str:
    """Why the first summary that is not the same any more is not."""
    if not before:
        return "only added"
    if not after:
        return "taken out"
    if after[0].depth > before[0].depth and before[0].node_id in deps.dag.sources(after[0].node_id):
        return "condensed"
    if before[0].quality == "provisional" and after[0].fingerprint == before[0].fingerprint:
        return "replaced an extract"
    return "other summaries"


def _said(causes: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in causes.most_common())


def _way_out(causes: Counter[str]) -> dict[str, str]:
    if causes["replaced an extract"] > causes["condensed"]:
        remedy = "extracts are replaced when a model answers; see the checks provisional_nodes and summary_routes"
        return {"remedy": remedy}
    return {
        "remedy": "give the summaries more room and the raw tail less, so that they are condensed more rarely",
        "command": "export LCM_PREFIX_SHARE=0.35 LCM_TAIL_SHARE=0.25",
    }
