"""
Replay: the archive's newest day, once more, under other settings.

Walks the stored messages of each conversation in order; a request stands before each message of the agent. ``plan`` says when
a fold is due and what it leaves, as in a live turn. No model is asked: a summary is reckoned by its usual share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..compaction import plan
from ..config import BLOCK, KNOBS, Config
from ..records import Flag, Unit
from .costs import Prices
from .render import counted, table

if TYPE_CHECKING:
    from ..recall.access import Access

DAY_S: Final = 86_400.0
#: Settings that say when is folded, and what.
REACHED: Final = (
    "context_threshold", "fold_early", "fresh_tail_count", "tail_share", "prefix_share", "low_water", "leaf_chunk_tokens",
    "dynamic_leaf_chunk_enabled", "dynamic_leaf_chunk_max", "fallback_context_tokens",
)  # fmt: skip
_FRAME_TOKENS: Final = 45
_TURNS_OF_A_FOLD: Final = 3  # where compactions come more often, it is said
_RECENT: Final = 50_000  # newest messages among which the day's conversations are looked for
_LONGEST: Final = 50_000  # messages of one conversation


#: Prompts of a conversation as they were built: when, up to which message, tokens of their summaries and their tail.
_BUILT: Final = """
SELECT created_at, last_seq,
       (SELECT coalesce(sum(tokens), 0) FROM nodes WHERE node_id IN (SELECT value FROM json_each(roots))) +
       (SELECT coalesce(sum(tokens), 0) FROM messages WHERE store_id IN (SELECT value FROM json_each(tail_ids)))
  FROM assemblies WHERE conversation_id = ? ORDER BY assembly_id
"""


@dataclass(frozen=True, slots=True)
class Said:
    """A stored message: role, tokens, and whether it is of the day. ``behind``: tokens of what the prompt showed before it."""

    role: str
    tokens: int
    new: bool
    behind: int = 0


@dataclass(slots=True)
class Replayed:
    """Sums of a replayed day. ``prompts``: tokens of all its requests; ``raw``: messages that its folds left as they are."""

    requests: int = 0
    prompts: int = 0
    largest: int = 0
    compactions: int = 0
    summaries: int = 0
    raw: int = 0
    dollars: float = 0.0

    @property
    def mean(self) -> int:
        """Tokens of a request."""
        return round(self.prompts / max(1, self.requests))

    @property
    def raw_per_fold(self) -> int:
        """Messages that a fold left raw."""
        return round(self.raw / max(1, self.compactions))


@dataclass(slots=True)
class _Prompt:
    """The prompt of one conversation while it is replayed. ``cached``: tokens that the request before sent too."""

    config: Config
    window: int
    prices: plan.Prices
    beside: int
    units: list[Unit] = field(default_factory=list)
    raw: int = 0
    prefix: int = 0
    cached: int = 0
    asked: int = 0
    grown: int = 0

    @property
    def tokens(self) -> int:
        return self.beside + self.prefix + self.raw

    def add(self, n: int, said: Said) -> None:
        self.raw += said.tokens
        self.grown += said.tokens
        if said.role == "tool" and self.units:
            last = self.units[-1]
            self.units[-1] = replace(last, ids=(*last.ids, n), tokens=last.tokens + said.tokens, stop=last.stop + 1)
        else:
            self.units.append(Unit((n,), said.tokens, said.role, None, n, n + 1))

    def request(self, day: Replayed, *, counts: bool) -> None:
        """One request, and the fold before it where one is due."""
        self.asked += 1
        threshold = self.config.threshold_tokens(self.window)
        due = self._due(threshold)
        if self.tokens >= due:
            self._fold(threshold, due, day if counts else Replayed())
        if counts:
            day.requests += 1
            day.prompts += self.tokens
            day.largest = max(day.largest, self.tokens)
            day.dollars += (self.cached * self.prices.cached + (self.tokens - self.cached) * self.prices.uncached) / 1e6
        self.cached = self.tokens

    def _due(self, threshold: int) -> int:
        growth = self.grown / self.asked
        tail = min(self.raw, int(self.config.tail_share * self.tokens))
        kept = self.beside + self.prefix + int(plan.WRITTEN_SHARE * self.raw) + _FRAME_TOKENS + tail
        prompt = plan.Prompt(
            self.tokens, threshold, self.window, kept, growth, self.config.why_exact()
        )  # fmt: skip
        return plan.next_fold(self.prices, prompt, 0, max(plan.LEAST_REQUESTS, self.asked)).due

    def _fold(self, threshold: int, due: int, day: Replayed) -> None:
        config = self.config
        room = plan.budget(
            threshold=threshold, messages=self.tokens - self.beside, current=self.tokens, low_water=config.low_water,
            tail_share=config.tail_share, prefix_share=config.prefix_share, force=False, due=due,
        )  # fmt: skip
        asked = max((n for n, unit in enumerate(self.units) if unit.role == "user"), default=None)
        tail = plan.tail_of(self.units, count=config.fresh_tail_count, room_tokens=room.tail, request=asked)
        leaving = [unit for n, unit in enumerate(self.units[: tail.start]) if n != tail.request]
        folded = sum(unit.tokens for unit in leaving)
        if not leaving:
            return
        size = plan.chunk_tokens(
            config.leaf_chunk_tokens, folded,
            dynamic=config.dynamic_leaf_chunk_enabled, dynamic_max=config.dynamic_leaf_chunk_max,
        )  # fmt: skip
        made = len(plan.chunks(leaving, {}, size))
        self.units = [unit for unit in self.units if unit not in leaving]
        self.raw -= folded
        self.prefix = min(
            self.prefix + int(plan.WRITTEN_SHARE * folded) + made * _FRAME_TOKENS, max(room.prefix, self.prefix)
        )
        self.cached = self.beside
        day.compactions += 1
        day.summaries += made
        day.raw += sum(unit.stop - unit.index for unit in self.units)
        day.dollars += (
            folded * (plan.READ_SHARE * self.prices.summary_in + plan.WRITTEN_SHARE * self.prices.summary_out) / 1e6
        )  # fmt: skip


def replay(
    talks: Iterable[Sequence[Said]], config: Config, *, window: int, prices: plan.Prices, beside: int = 0
) -> Replayed:
    """The day of some conversations under these settings. ``beside``: tokens of each request that are no messages."""
    day = Replayed()
    for talk in talks:
        prompt = _Prompt(config, config.window(window), prices, beside)
        for n, said in enumerate(talk):
            if said.role == "assistant":
                prompt.request(day, counts=said.new)
            prompt.add(n, said)
    return day


def beside_messages(talks: Iterable[Iterable[Said]], *, most: int, measured: int) -> int:
    """Tokens of system prompt and tools: what the prompts that were ``measured`` had beside their messages.

    The prompts as they were built count, so whatever is set by now comes to the same.
    """
    shown = [said.behind for talk in talks for said in talk if said.new and said.role == "assistant"]
    return max(0, min(most, measured - round(sum(shown) / max(1, len(shown))))) if measured else 0


def compared(deps: Access, trials: Mapping[str, Config], costs: Prices) -> dict[str, Any]:
    """The newest day under the settings of now and under each trial; empty where nothing is stored."""
    prices = plan.priced(costs.main, costs.summariser, local=False, cached_share=0.0, requests=0)
    prices = replace(prices, source=costs.source)
    newest = deps.db.query("SELECT stored_at FROM messages ORDER BY store_id DESC LIMIT 1")
    if not newest or not (deps.reads_all or deps.session):
        return {}
    began = float(newest[0][0]) - DAY_S
    talks, config, window = _talks(deps, began), deps.config, deps.engine.context_length
    beside = beside_messages(talks, most=config.window(window) // 2, measured=_measured(deps, began))
    configs = {"now": config, **trials}
    days = {name: replay(talks, each, window=window, prices=prices, beside=beside) for name, each in configs.items()}
    return {
        "since": began,
        "conversations": len(talks),
        "messages": sum(said.new for talk in talks for said in talk),
        "turns": sum(said.new and said.role == "user" for talk in talks for said in talk),
        "beside_messages": beside,
        "prices": prices.source,
        "window": config.window(window),
        "days": {name: _data(day, configs[name].threshold_tokens(window)) for name, day in days.items()},
    }


def _data(day: Replayed, threshold: int) -> dict[str, Any]:
    return {
        "threshold": threshold, "requests": day.requests, "compactions": day.compactions, "summaries": day.summaries,
        "largest_prompt": day.largest, "mean_prompt": day.mean, "raw_messages_kept": day.raw_per_fold,
        "dollars": round(day.dollars, 4),
    }  # fmt: skip


def _talks(deps: Access, began: float) -> list[list[Said]]:
    """The conversations of the day that the caller may know of, each from its beginning or its last so many messages on."""
    recent = deps.db.query(
        "SELECT DISTINCT conversation_id FROM (SELECT conversation_id, stored_at FROM messages ORDER BY store_id DESC LIMIT ?) "
        "WHERE stored_at >= ? ORDER BY conversation_id",
        (_RECENT, began),
    )
    own = deps.session.conversation_id if deps.session is not None else None
    return [_talk(deps, number, began) for (number,) in recent if deps.reads_all or number == own]


def _talk(deps: Access, conversation: int, began: float) -> list[Said]:
    rows = deps.db.query(
        "SELECT role, tokens, stored_at, seq FROM messages WHERE conversation_id = ? AND flags & ? = 0 "
        "ORDER BY seq DESC LIMIT ?",
        (conversation, Flag.RETRACTED, _LONGEST),
    )[::-1]
    built, out, behind = deque(deps.db.query(_BUILT, (conversation,))), list[Said](), 0
    for n, (role, tokens, at, _) in enumerate(rows):
        while built and built[0][0] <= at:
            _, last, behind = built.popleft()
            behind += sum(size for _, size, _, seq in rows[:n] if seq > last)
        out.append(Said(str(role), int(tokens), float(at) >= began, int(behind)))
        behind += tokens
    return out


def _measured(deps: Access, began: float) -> int:
    """Tokens of a request of that time, as the host counted them; 0 where it did not."""
    where, params = "day >= ?", [datetime.fromtimestamp(began, UTC).date().isoformat()]
    if not deps.reads_all and deps.session is not None:
        where, params = f"{where} AND session_id = ?", [*params, deps.session.session_id]
    sums = dict(
        deps.db.query(
            f"SELECT substr(what, 1, instr(what || ' ', ' ') - 1) AS name, sum(amount) FROM costs WHERE {where} "
            "AND name IN ('prompt', 'requests') GROUP BY name",
            tuple(params),
        )
    )
    return round(int(sums.get("prompt", 0)) / max(1, int(sums.get("requests", 0))))


def tried(config: Config, values: Mapping[str, object]) -> Config:
    """The settings with some values in place of those of now; None: the default."""
    sources = {name: source for name, source in config.sources if name not in values}
    sources |= {name: BLOCK for name, value in values.items() if value is not None}
    made = {name: KNOBS[name].default if value is None else value for name, value in values.items()}
    return replace(config, **made, sources=tuple(sources.items()))  # type: ignore[arg-type]


_SHOWN: Final = (
    ("compactions", "compactions"), ("summaries", "summaries"), ("largest prompt", "largest_prompt"),
    ("mean prompt", "mean_prompt"), ("raw messages after each", "raw_messages_kept"), ("dollars", "dollars"),
)  # fmt: skip


def text(data: Mapping[str, Any]) -> list[str]:
    """The comparison for people."""
    if not data or not data["messages"]:
        return ["Nothing is stored yet, so there is no day to replay."]
    days = data["days"]
    columns = [[name, *(_figure(each, key) for _, key in _SHOWN)] for name, each in days.items()]
    widths = [max(map(len, column)) for column in columns]
    titles = ["", *(title for title, _ in _SHOWN)]
    rows = [
        (title, *(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)))
        for title, *cells in zip(titles, *columns, strict=True)
    ]
    head = (
        f"The archive's newest day, replayed: {counted(data['messages'], 'message')} in "
        f"{counted(data['conversations'], 'conversation')}, window {data['window']:,} tokens"
    )
    beside = data["beside_messages"]
    foot = f"An estimate by {data['prices']} prices, with {beside:,} tokens of system prompt and tools in each request."
    tight = [
        f"{name}: the threshold of {each['threshold']:,} is below that, so nearly every request is compacted."
        for name, each in days.items()
        if each["threshold"] <= beside
    ]
    return [head, *table(rows), foot, *tight, *_often(data)]


def _often(data: Mapping[str, Any]) -> list[str]:
    """Warnings of settings under which compactions come often: each costs a request without a cache, and summaries."""
    turns, beside = data["turns"], data["beside_messages"]
    return [
        f"{name}: {each['compactions']:,} compactions in {counted(turns, 'turn')}, more than one in three turns; "
        f"with a context_threshold above {each['threshold']:,} tokens there are fewer."
        for name, each in data["days"].items()
        if each["threshold"] > beside and each["compactions"] > max(1, turns / _TURNS_OF_A_FOLD)
    ]


def _figure(day: Mapping[str, Any], name: str) -> str:
    return f"{day[name]:.3f}" if name == "dollars" else f"{day[name]:,}"
