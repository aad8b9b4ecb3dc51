"""
Cost ledger: tokens of requests, compactions and summaries by session and day, and what they cost.

Owns table ``costs``. Amounts are added up in memory and written between turns, by addition: processes share the table.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

from ..errors import BadRequest
from ..storage.connection import Database
from .render import counted

#: Dollars for a million tokens where nobody knows better: read, read from the cache, written.
STATED: Final = (3.0, 0.3, 15.0)
#: The host's own compressor (agent/context_compressor.py): where it begins, what it keeps, what its summary takes.
_HOST_BEGINS, _HOST_BEGINS_LARGE, _HOST_LARGE = 0.75, 0.5, 512_000
_HOST_LEAST, _HOST_BEGINS_LEAST = 64_000, 0.85
_HOST_TAIL, _HOST_SUMMARY, _HOST_SUMMARY_LEAST, _HOST_SUMMARY_SHARE, _HOST_SUMMARY_MOST = 0.2, 0.2, 2_000, 0.05, 10_000
FORMULA: Final = (
    "estimate: the same requests. Each session's prompt grows as it did here, up to the size at which Hermes compacts. Then it "
    "falls to Hermes' tail and one summary. That summariser reads what leaves. The provider's cache misses as often as it did "
    "here. A session that neither would have compacted costs the same."
)
_SUMS: Final = ("requests", "prompt", "cached", "written", "summaries", "summary_in", "summary_out", "unused")


class Costs:
    """The ledger of one database."""

    def __init__(
        self, db: Database, clock: Callable[[], float] = time.time, *, clean: Callable[[str], str] = str
    ) -> None:
        """``clean`` takes secrets out of the names of sessions."""
        self._db = db
        self._clean = clean
        self._clock = clock
        self._lock = threading.Lock()
        self._unsaved: Counter[tuple[str, str, str]] = Counter()

    def note(self, session_id: str, **amounts: int) -> None:
        """Add amounts of now. Costs no statement."""
        day, session_id = self._today(), self._clean(session_id)
        with self._lock:
            for what, amount in amounts.items():
                self._unsaved[day, session_id, what] += amount

    def _today(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).date().isoformat()

    def folded(self, session_id: str, assembly_id: int, before: int, after: int) -> None:
        """A compaction: what its prompt was before and after, and behind how many requests of the day it came."""
        day, session_id = self._today(), self._clean(session_id)
        stored = self._db.query(
            "SELECT amount FROM costs WHERE day = ? AND session_id = ? AND what = 'requests'", (day, session_id)
        )
        at = sum(int(row[0]) for row in stored) + self._unsaved[day, session_id, "requests"]
        self.note(
            session_id, **{f"before:{assembly_id}": before, f"after:{assembly_id}": after, f"at:{assembly_id}": at}
        )

    def save(self) -> None:
        """Write what came since. Raises StoreError, and keeps it for the next time."""
        with self._lock:
            rows = [(*key, amount) for key, amount in self._unsaved.items() if amount]
            if not rows:
                return
            with self._db.transaction():
                for row in rows:
                    self._db.execute(
                        "INSERT INTO costs(day, session_id, what, amount) VALUES (?,?,?,?) "
                        "ON CONFLICT(day, session_id, what) DO UPDATE SET amount = amount + excluded.amount",
                        row,
                    )
            self._unsaved.clear()


class Prices(NamedTuple):
    """Dollars for a million tokens of the model and of its summariser. ``source``: whose they are."""

    main: tuple[float, float, float] = STATED
    summariser: tuple[float, float, float] = STATED
    source: str = "stated"


def full(known: tuple[float, float | None, float] | None) -> tuple[float, float, float]:
    """A host's prices; where it tells none for cached tokens, a tenth; the stated ones where it knows nothing."""
    if known is None:
        return STATED
    read, cached, written = known
    return read, read / 10 if cached is None else cached, written


def report(
    db: Database,
    prices: Prices,
    *,
    since: str = "",
    session_id: str = "",
    window: int = 0,
) -> dict[str, Any]:
    """Tokens and money by day and session. ``since``: a date, or a number of days."""
    where, params = ["day >= ?"], [_first_day(since)]
    if session_id:
        where.append("session_id = ?")
        params.append(session_id)
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for day, session, what, amount in db.query(
        f"SELECT day, session_id, what, amount FROM costs WHERE {' AND '.join(where)} ORDER BY day, session_id",
        tuple(params),
    ):
        found[str(day), str(session)][str(what)] = int(amount)
    rows = [_row(day, session, amounts, prices) for (day, session), amounts in found.items()]
    total = {
        name: sum(row[name] for row in rows) for name in (*_SUMS, "compactions", "uncached", "money", "summary_money")
    }
    return {
        "since": params[0] if since else "",
        "days": rows,
        "total": {**total, "money": round(total["money"], 4), "summary_money": round(total["summary_money"], 4)},
        "prices": prices._asdict(),
        "host_compressor_estimate": round(_of_host(rows, prices, window), 4) if window else None,
        "host_compressor_formula": FORMULA,
    }


def _first_day(since: str) -> str:
    if not since:
        return ""
    if since.isdigit():
        return (datetime.now(UTC).date() - timedelta(days=int(since))).isoformat()
    try:
        return datetime.strptime(since, "%Y-%m-%d").replace(tzinfo=UTC).date().isoformat()
    except ValueError:
        raise BadRequest(f"--since {since!r} is neither a date like 2026-11-01 nor a number of days") from None


def _row(day: str, session: str, amounts: Mapping[str, int], prices: Prices) -> dict[str, Any]:
    sums = {name: amounts.get(name, 0) for name in _SUMS}
    uncached = max(0, sums["prompt"] - sums["cached"])
    read, cached, written = prices.main
    paid = sums["summary_in"] * prices.summariser[0] + sums["summary_out"] * prices.summariser[2]
    folds = _folds(amounts, sums["requests"], prices)
    return {
        "day": day, "session": session, **sums, "uncached": uncached, "compactions": len(folds), "folds": folds,
        "summary_money": paid / 1e6,
        "money": (uncached * read + sums["cached"] * cached + sums["written"] * written + paid) / 1e6,
    }  # fmt: skip


def _folds(amounts: Mapping[str, int], requests: int, prices: Prices) -> list[dict[str, Any]]:
    """Compactions with what each cost in tokens read anew, and has earned: fewer cached tokens in each request after it."""
    names = sorted(int(what.partition(":")[2]) for what in amounts if what.startswith("before:"))
    out = []
    for place, number in enumerate(names):
        before, after = amounts[f"before:{number}"], amounts.get(f"after:{number}", 0)
        until = amounts.get(f"at:{names[place + 1]}", requests) if place + 1 < len(names) else requests
        served = max(0, until - amounts.get(f"at:{number}", 0))
        out.append({
            "assembly": number, "before": before, "after": after, "requests_since": served,
            "cost": after * (prices.main[0] - prices.main[1]) / 1e6,
            "earned": (before - after) * served * prices.main[1] / 1e6,
        })  # fmt: skip
    return out


def _of_host(rows: Iterable[Mapping[str, Any]], prices: Prices, window: int) -> float:
    """Estimated costs of the host's own compressor, by the formula. ``rows``: days of sessions, in the order of days."""
    sessions: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        sessions[row["session"]].append(row)
    return sum(_session_of_host(days, prices, window) for days in sessions.values())


def _session_of_host(days: Sequence[Mapping[str, Any]], prices: Prices, window: int) -> float:
    requests, prompt, uncached, written = (
        sum(row[name] for row in days) for name in ("requests", "prompt", "uncached", "written")
    )
    folds = [fold for row in days for fold in row["folds"]]
    own = float(sum(row["money"] - row["summary_money"] for row in days))
    begins, keeps, summary = host_compressor(window)
    grown = _grown(days) if folds else 2 * prompt / max(1, requests)  # from nothing on, so twice the mean at the end
    if not requests or (not folds and grown <= begins):
        return own
    read, cached, out = prices.main
    times = max(0.0, (grown - begins) / (begins - keeps))
    first = min(grown, begins)
    mean = (first * first / 2 + (grown - first) * (keeps + begins) / 2) / max(1.0, grown)
    anew = grown + times * keeps
    missed = max(0.0, uncached - grown - sum(fold["after"] for fold in folds)) * mean / max(1.0, prompt / requests)
    anew = min(anew + missed, requests * mean)
    paid = times * ((begins - keeps) * prices.summariser[0] + summary * prices.summariser[2])
    return float((requests * mean - anew) * cached + anew * read + written * out + paid) / 1e6


def host_compressor(window: int) -> tuple[float, float, float]:
    """(prompt at which the host compacts, prompt after it, its summary): tokens, with the host's own settings."""
    share = _HOST_BEGINS if window < _HOST_LARGE else _HOST_BEGINS_LARGE
    begins = max(window * share, _HOST_LEAST)
    if begins >= window:
        begins = window * _HOST_BEGINS_LEAST
    tail = begins * _HOST_TAIL
    most = min(window * _HOST_SUMMARY_SHARE, _HOST_SUMMARY_MOST)
    summary = max(_HOST_SUMMARY_LEAST, min((begins - tail) * _HOST_SUMMARY, most))
    return begins, tail + summary, summary


def _grown(days: Sequence[Mapping[str, Any]]) -> float:
    """Tokens that came into the prompt of a session that was compacted: up to its first compaction, between two of them,
    and, at the same pace, behind the last one."""
    behind = [fold["requests_since"] for row in days for fold in row["folds"]]
    folds = [fold for row in days for fold in row["folds"]]
    between = [max(0, later["before"] - earlier["after"]) for earlier, later in pairwise(folds)]
    until_first = sum(row["requests"] for row in days) - sum(behind)
    paces = sum(between), sum(behind[:-1])
    pace = paces[0] / paces[1] if paces[1] else folds[0]["before"] / max(1, until_first)
    return float(folds[0]["before"] + sum(between) + pace * behind[-1])


def _summaries(sums: Mapping[str, Any]) -> str:
    """Tokens asked of the summariser, and those that no compaction used."""
    said = f"{counted(sums['summaries'], 'summary')}, {sums['summary_in']:,} tokens in, {sums['summary_out']:,} out"
    return said + (
        f", {sums['unused']} written for nothing ({sums['unused'] / max(1, sums['summaries']):.0%})"
        if sums["unused"]
        else ""
    )


def line(total: Mapping[str, Any], source: str) -> str:
    """The sums of a day for status."""
    said = f"${total['money']:.3f} for {counted(total['requests'], 'request')}"
    if total["summaries"]:
        said += f", ${total['summary_money']:.3f} of it for {_summaries(total)}"
    return f"{said} ({'assumed prices; Hermes knows none' if source == 'stated' else f'{source} prices'})"


def text(data: Mapping[str, Any]) -> str:
    """The report for people."""
    total = data["total"]
    if not total["requests"] and not total["summaries"]:
        return (
            f"Nothing is counted since {data['since']}." if data["since"]
            else "Nothing is counted yet: counting begins with the next request."
        )  # fmt: skip
    lines = [
        f"{row['day']}  {row['session'] or '(no session)'}: {counted(row['requests'], 'request')}, "
        f"{counted(row['compactions'], 'compaction')}, "
        f"{row['cached']:,} tokens from the cache, {row['uncached']:,} not from it, {row['written']:,} written; "
        + (f"{_summaries(row)}; " if row["summaries"] else "")
        + f"${row['money']:.3f}"
        + (f" (${row['summary_money']:.3f} of it for summaries)" if row["summaries"] else "")
        for row in data["days"]
    ]
    lines += [
        f"  compaction {fold['assembly']}: {fold['before']:,} to {fold['after']:,} tokens, cost ${fold['cost']:.4f}, "
        f"earned ${fold['earned']:.4f} in {counted(fold['requests_since'], 'request')}"
        for row in data["days"][-1:]
        for fold in row["folds"][-10:]
    ]
    lines.append(f"all: ${total['money']:.3f} at {_source(data['prices'])}")
    if data["host_compressor_estimate"] is not None:
        estimate = data["host_compressor_estimate"]
        less = estimate - total["money"]
        by = f"${abs(less):.3f} {'more' if less >= 0 else 'less'}"
        lines.append(f"Hermes' own compressor would have cost about ${estimate:.3f}: {by}")
        lines.append(f"({data['host_compressor_formula']})")
    return "\n".join(lines)


def _source(prices: Mapping[str, Any]) -> str:
    if prices["source"] != "stated":
        return f"{prices['source']} prices"
    read, cached, written = prices["main"]
    return f"assumed prices (per million tokens ${read:g} read, ${cached:g} cached, ${written:g} written; Hermes knows none)"
