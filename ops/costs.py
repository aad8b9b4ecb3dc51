"""
Cost ledger: tokens of requests, compactions and summaries by session and day (UTC), and what they cost.

Owns table ``costs``. Amounts are added up in memory and written between turns, by addition: processes share the table. What a
request took is kept by the model that answered it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

from ..errors import BadRequest
from ..storage.connection import Database
from .render import counted, few

#: Dollars for a million tokens where nobody knows better: read, read from the cache, written.
STATED: Final = (3.0, 0.3, 15.0)
#: The host's own compressor (agent/context_compressor.py): where it begins, what it keeps, what its summary takes.
_HOST_BEGINS, _HOST_BEGINS_LARGE, _HOST_LARGE = 0.75, 0.5, 512_000
_HOST_LEAST, _HOST_BEGINS_LEAST = 64_000, 0.85
_HOST_TAIL, _HOST_SUMMARY, _HOST_SUMMARY_LEAST, _HOST_SUMMARY_SHARE, _HOST_SUMMARY_MOST = 0.2, 0.2, 2_000, 0.05, 10_000
FORMULA: Final = (
    "estimate: the same requests. Each conversation's prompt grows as it did here, up to the size at which Hermes compacts. "
    "Then it falls to Hermes' tail and one summary. That summariser reads what leaves. The provider's cache misses "
    "as often as it did here. A conversation that neither would have compacted costs the same."
)
#: Where nobody is paid: a model on this machine.
FREE: Final = (0.0, 0.0, 0.0)
#: Dollars as a host knows them: read, read from the cache, written.
Known = tuple[float, float | None, float] | None
Rates = tuple[float, float, float]
#: Model, provider, and whether it runs on this machine or its network.
Model = tuple[str, str, bool]
_SHOWN_FOLDS: Final = 10  # the newest ones
_SHOWN_MODELS: Final = 3
_ASSUMED: Final = "assumed prices"
_HOSTS: Final = "the host's prices"
#: What a day had until a compaction, under these names.
_SO_FAR: Final = {"requests": "at", "summary_in": "read", "summary_out": "wrote"}
_SUMS: Final = ("requests", "prompt", "cached", "written", "summaries", "summary_in", "summary_out", "unused")
#: Tokens that a model is paid for, and the word between these and its name.
_PRICED: Final = ("prompt", "cached", "written")
_OF: Final = " of "
_HERE: Final = " (local)"
#: Takes a conversation's sessions out of the names; what they cost stays.
FORGET: Final = (
    """
    INSERT INTO costs(day, session_id, what, amount) SELECT day, '', what, sum(amount) FROM costs
     WHERE session_id IN (SELECT session_id FROM sessions WHERE conversation_id = ?)
       AND (instr(what, ':') = 0 OR instr(what, ' of ')) GROUP BY day, what
    ON CONFLICT(day, session_id, what) DO UPDATE SET amount = amount + excluded.amount
    """,
    "DELETE FROM costs WHERE session_id IN (SELECT session_id FROM sessions WHERE conversation_id = ?)",
)


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
        self._saving = threading.Lock()  # another one: a turn notes amounts while somebody waits for the database
        self._unsaved: Counter[tuple[str, str, str]] = Counter()

    def note(self, session_id: str, **amounts: int) -> None:
        """Add amounts of now. Costs no statement."""
        self._add(self._today(), self._clean(session_id), amounts)

    def asked(
        self, session_id: str, *, model: str, provider: str, local: bool, prompt: int, cached: int, written: int
    ) -> None:
        """A request that a model answered: tokens as the provider counts them."""
        name = f"{_OF}{provider}/{model}{_HERE if local else ''}" if model else ""
        amounts = {f"{what}{name}": amount for what, amount in zip(_PRICED, (prompt, cached, written), strict=True)}
        self.note(session_id, requests=1, **amounts)

    def _add(self, day: str, session_id: str, amounts: Mapping[str, int]) -> None:
        with self._lock:
            for what, amount in amounts.items():
                self._unsaved[day, session_id, what] += amount

    def _today(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).date().isoformat()

    def folded(self, session_id: str, assembly_id: int, before: int, after: int) -> None:
        """A compaction: its prompt before and after, and what the session's day had of requests and summaries until then."""
        day, session_id = self._today(), self._clean(session_id)
        marks = {"before": before, "after": after}
        with self._saving:
            saved = dict(
                self._db.query("SELECT what, amount FROM costs WHERE day = ? AND session_id = ?", (day, session_id))
            )
            for what, name in _SO_FAR.items():
                marks[name] = int(saved.get(what, 0)) + self._unsaved[day, session_id, what]
        self._add(day, session_id, {f"{name}:{assembly_id}": amount for name, amount in marks.items()})

    @property
    def waiting(self) -> bool:
        """Is there anything to write?"""
        with self._lock:
            return any(self._unsaved.values())

    def save(self) -> None:
        """Write what came since. Raises StoreError, and keeps it for the next time; also while another file stands in."""
        with self._saving:
            with self._lock:
                rows = {key: amount for key, amount in self._unsaved.items() if amount}
            if not rows or self._db.stands_in:
                return
            with self._db.transaction():
                for key, amount in rows.items():
                    self._db.execute(
                        "INSERT INTO costs(day, session_id, what, amount) VALUES (?,?,?,?) "
                        "ON CONFLICT(day, session_id, what) DO UPDATE SET amount = amount + excluded.amount",
                        (*key, amount),
                    )
            with self._lock:
                self._unsaved.subtract(rows)
                self._unsaved = +self._unsaved


class Prices(NamedTuple):
    """Dollars for a million tokens of the model and of its summariser. ``source``: whose they are."""

    main: Rates = STATED
    summariser: Rates = STATED
    source: str = "stated"

    @classmethod
    def known(cls, main: Known, summariser: Known, *, local: bool) -> Prices:
        """Prices as a host knows them. ``local``: the model runs on this machine or its network."""
        if main is None and local:
            return cls(FREE, FREE if summariser is None else full(summariser), "local")
        return cls(full(main), full(summariser or main), "stated" if main is None else "the host's")

    @property
    def why_free(self) -> str:
        """Why requests cost no money; "" where they do."""
        if self.source == "local":
            return "a local model costs time"
        return "" if any(self.main) else "Hermes' price for it is 0"


def full(known: Known) -> Rates:
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
    price_of: Callable[[Model], Known] = lambda _: None,
) -> dict[str, Any]:
    """Tokens and money by day and session. ``since``: a date, or a number of days; ``session_id``: only its conversation.

    ``prices``: of the models in use, for summaries and what was counted when no model was noted; ``price_of``: of each other one.
    """
    where, params = ["costs.day >= ?"], [_first_day(since)]
    if session_id:
        where.append(_OF_CONVERSATION)
        params += [session_id, session_id]
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    talks: dict[str, object] = {}
    for day, session, what, amount, talk in db.query(f"{_AMOUNTS} WHERE {' AND '.join(where)} {_ORDER}", tuple(params)):
        found[str(day), str(session)][str(what)] = int(amount)
        talks[str(session)] = session if talk is None else talk
    once = cache(price_of)  # the host may ask the network
    models = {key: _by_model(amounts, prices, once) for key, amounts in found.items()}
    folds = _folds(found, talks, prices, {key: _mean_price([each], prices) for key, each in models.items()})
    rows = [_row(*key, amounts, folds[key], models[key], prices) for key, amounts in found.items()]
    total = {
        name: sum(row[name] for row in rows) for name in (*_SUMS, "compactions", "uncached", "money", "summary_money")
    }
    paid = total["money"] > total["summary_money"]
    return {
        "since": params[0] if since else "",
        "days": rows,
        "total": {
            **total, "money": round(total["money"], 4), "summary_money": round(total["summary_money"], 4),
            "prices": _sources(rows, prices),
        },
        "prices": prices._asdict(),
        "host_compressor_estimate": round(_of_host(rows, talks, prices, window), 4)
        if window and (paid or any(prices.main))
        else None,
        "host_compressor_formula": FORMULA,
    }  # fmt: skip


def _by_model(
    amounts: Mapping[str, int], prices: Prices, price_of: Callable[[Model], Known]
) -> dict[str, dict[str, Any]]:
    """Tokens of requests by the model that answered them, with its prices and what it was paid; "" where none was noted."""
    tokens: dict[str, Counter[str]] = defaultdict(Counter)
    for what, amount in amounts.items():
        name, _, model = what.partition(_OF)
        if name in _PRICED:
            tokens[model][name] += amount
    out = {}
    for model, each in tokens.items():
        (read, cached, written), source = (prices.main, prices.source) if not model else _rates(model, price_of)
        uncached = max(0, each["prompt"] - each["cached"])
        money = (uncached * read + each["cached"] * cached + each["written"] * written) / 1e6
        out[model] = {
            **{name: each[name] for name in _PRICED}, "uncached": uncached, "money": money, "prices": (read, cached, written),
            "source": source,
        }  # fmt: skip
    return out


def _rates(name: str, price_of: Callable[[Model], Known]) -> tuple[Rates, str]:
    """Prices of a model, and whose they are."""
    provider, _, model = name.removesuffix(_HERE).partition("/")
    local = name.endswith(_HERE)
    found = Prices.known(price_of((model, provider, local)), None, local=local)
    return found.main, found.source


def _mean_price(days: Iterable[Mapping[str, Mapping[str, Any]]], prices: Prices) -> Rates:
    """Prices of the models of some days, by what each of them read."""
    read = [(each["prompt"], each["prices"]) for models in days for each in models.values() if each["prompt"]]
    if len({paid for _, paid in read}) < 2:  # so that sums of one model are exact
        return read[0][1] if read else prices.main
    whole = sum(tokens for tokens, _ in read)
    first, second, third = (sum(tokens * paid[n] for tokens, paid in read) / whole for n in range(3))
    return first, second, third


def _sources(rows: Iterable[Mapping[str, Any]], prices: Prices) -> str:
    """Source of the prices of requests: the host, or assumed; "" where requests cost nothing."""
    paid = {name: each["source"] for row in rows for name, each in row["models"].items() if each["money"]}
    if not paid:
        return "" if prices.why_free else _ASSUMED if prices.source == "stated" else _HOSTS
    assumed = sorted(name or "earlier requests" for name, source in paid.items() if source == "stated")
    if len(assumed) == len(paid):
        return _ASSUMED
    return _HOSTS + (f", assumed ones for {few(assumed, _SHOWN_MODELS)}" if assumed else "")


#: A conversation goes through several sessions where a host begins another one at each compaction.
_AMOUNTS: Final = (
    "SELECT costs.day, costs.session_id, costs.what, costs.amount, sessions.conversation_id FROM costs "
    "LEFT JOIN sessions ON sessions.session_id = costs.session_id"
)
_ORDER: Final = "ORDER BY costs.day, sessions.session_key, costs.session_id"
_OF_CONVERSATION: Final = (
    "(costs.session_id = ? OR sessions.conversation_id = (SELECT conversation_id FROM sessions WHERE session_id = ?))"
)


def _first_day(since: str) -> str:
    if not since:
        return ""
    with suppress(ValueError, OverflowError):
        if since.isdigit():
            return (datetime.now(UTC).date() - timedelta(days=int(since))).isoformat()
        return datetime.strptime(since, "%Y-%m-%d").replace(tzinfo=UTC).date().isoformat()
    raise BadRequest(f"--since {since!r} is neither a date like 2026-11-01 nor a number of days")


def _row(
    day: str, session: str, amounts: Mapping[str, int], folds: Sequence[Mapping[str, Any]],
    models: Mapping[str, Mapping[str, Any]], prices: Prices,
) -> dict[str, Any]:  # fmt: skip
    of_models = {name: sum(each[name] for each in models.values()) for name in (*_PRICED, "uncached")}
    sums = {name: amounts.get(name, 0) for name in _SUMS}
    paid = _paid(sums["summary_in"], sums["summary_out"], prices)
    return {
        "day": day, "session": session, **sums, **of_models, "compactions": len(folds), "folds": folds, "models": models,
        "summary_money": paid, "money": sum(each["money"] for each in models.values()) + paid,
    }  # fmt: skip


def _paid(read: int, written: int, prices: Prices) -> float:
    """Money for summaries."""
    return (read * prices.summariser[0] + written * prices.summariser[2]) / 1e6


class _Mark(NamedTuple):
    """A compaction within its conversation: behind how many requests and tokens of summaries it came."""

    number: int
    before: int
    after: int
    at: int
    read: int
    wrote: int


def _folds(
    found: Mapping[tuple[str, str], Mapping[str, int]],
    talks: Mapping[str, object],
    prices: Prices,
    paid_for: Mapping[tuple[str, str], Rates],
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Compactions by day and session, with what each cost (tokens read anew, the summaries since the one before) and has earned:
    fewer cached tokens in each request until the conversation's next one, whatever day and session that comes in."""
    behind: dict[object, Counter[str]] = defaultdict(Counter)
    marks: dict[object, list[tuple[tuple[str, str], _Mark]]] = defaultdict(list)
    for key, amounts in found.items():
        talk, past = talks[key[1]], behind[talks[key[1]]]
        for number in sorted(int(what.partition(":")[2]) for what in amounts if what.startswith("before:")):
            counts = [past[what] + amounts.get(f"{name}:{number}", 0) for what, name in _SO_FAR.items()]
            mark = _Mark(number, amounts[f"before:{number}"], amounts.get(f"after:{number}", 0), *counts)
            marks[talk].append((key, mark))
        past.update({what: amounts.get(what, 0) for what in _SO_FAR})
    out: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for talk, folds in marks.items():
        read = wrote = 0
        for place, (key, mark) in enumerate(folds):
            until = folds[place + 1][1].at if place + 1 < len(folds) else behind[talk]["requests"]
            paid = _paid(max(0, mark.read - read), max(0, mark.wrote - wrote), prices)
            read, wrote = max(read, mark.read), max(wrote, mark.wrote)
            out[key].append(_fold(mark, max(0, until - mark.at), paid, paid_for[key]))
    return out


def _fold(mark: _Mark, served: int, paid: float, rates: Rates) -> dict[str, Any]:
    return {
        "assembly": mark.number, "before": mark.before, "after": mark.after, "requests_since": served,
        "summary_money": paid,
        "cost": mark.after * (rates[0] - rates[1]) / 1e6 + paid,
        "earned": (mark.before - mark.after) * served * rates[1] / 1e6,
    }  # fmt: skip


def _of_host(rows: Iterable[Mapping[str, Any]], talks: Mapping[str, object], prices: Prices, window: int) -> float:
    """Estimated costs of the host's own compressor, by the formula. ``rows``: days of sessions, in the order of days."""
    conversations: dict[object, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        conversations[talks[row["session"]]].append(row)
    return sum(_conversation_of_host(days, prices, window) for days in conversations.values())


def _conversation_of_host(days: Sequence[Mapping[str, Any]], prices: Prices, window: int) -> float:
    requests, prompt, uncached, written = (
        sum(row[name] for row in days) for name in ("requests", "prompt", "uncached", "written")
    )
    folds = [fold for row in days for fold in row["folds"]]
    own = float(sum(row["money"] - row["summary_money"] for row in days))
    begins, keeps, summary = host_compressor(window)
    grown = _grown(days) if folds else 2 * prompt / max(1, requests)  # from nothing on, so twice the mean at the end
    if not requests or (not folds and grown <= begins):
        return own
    read, cached, out = _mean_price([row["models"] for row in days], prices)
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
    """Tokens that came into the prompt of a conversation that was compacted: up to its first compaction, between two of them,
    and, at the same pace, behind the last one."""
    behind = [fold["requests_since"] for row in days for fold in row["folds"]]
    folds = [fold for row in days for fold in row["folds"]]
    between = [max(0, later["before"] - earlier["after"]) for earlier, later in pairwise(folds)]
    until_first = sum(row["requests"] for row in days) - sum(behind)
    paces = sum(between), sum(behind[:-1])
    pace = paces[0] / paces[1] if paces[1] else folds[0]["before"] / max(1, until_first)
    return float(folds[0]["before"] + sum(between) + pace * behind[-1])


def _summaries(sums: Mapping[str, Any]) -> str:
    """Tokens asked of the summariser, and those that no compaction used, which may be of an earlier day."""
    made, unused = sums["summaries"], sums["unused"]
    share = f" ({unused / made:.0%})" if unused <= made else ""
    said = f"{counted(made, 'summary')}, {sums['summary_in']:,} tokens in, {sums['summary_out']:,} out"
    return f"{said}, {unused} written for nothing{share}" if unused else said


def line(total: Mapping[str, Any], prices: Prices) -> str:
    """The sums of a day for status."""
    requests, summaries = counted(total["requests"], "request"), _summaries(total) if total["summaries"] else ""
    if prices.why_free and not total["money"]:
        return f"{'; '.join(filter(None, [requests, summaries]))}: no money ({prices.why_free})"
    said = f"{_money(total['money'], prices)} for {requests}"
    if summaries:
        said += f", {_money(total['summary_money'], prices)} of it for {summaries}"
    return f"{said} ({total['prices'] or prices.why_free})"


def _money(amount: float, prices: Prices) -> str:
    return "no money" if prices.why_free and not amount else f"${amount:.3f}"


def text(data: Mapping[str, Any]) -> str:
    """The report for people."""
    total, prices = data["total"], Prices(**data["prices"])
    if not data["days"]:
        return (
            f"Nothing is counted since {data['since']}." if data["since"]
            else "Nothing is counted yet: counting begins with the next request."
        )  # fmt: skip
    lines = [
        f"{row['day']}  {row['session'] or '(no session)'}: {counted(row['requests'], 'request')}, "
        f"{counted(row['compactions'], 'compaction')}, "
        f"{row['cached']:,} tokens from the cache, {row['uncached']:,} not from it, {row['written']:,} written; "
        + (f"{_summaries(row)}; " if row["summaries"] else "")
        + _money(row["money"], prices)
        + _models(row["models"], prices)
        + (f" (${row['summary_money']:.3f} of it for summaries)" if row["summary_money"] else "")
        for row in data["days"]
    ]
    folds = sorted((fold for row in data["days"] for fold in row["folds"]), key=lambda fold: int(fold["assembly"]))
    lines += [
        f"  compaction {fold['assembly']}: {fold['before']:,} to {fold['after']:,} tokens, "
        + (
            f"in {counted(fold['requests_since'], 'request')} since"
            if not (fold["cost"] or fold["earned"])
            else f"cost ${fold['cost']:.4f} (${fold['summary_money']:.4f} of it for summaries), "
            f"earned ${fold['earned']:.4f} in {counted(fold['requests_since'], 'request')}"
        )
        for fold in folds[-_SHOWN_FOLDS:]
    ]
    if not total["requests"]:
        lines.append("No request is counted: there was none in this time, or the model's provider reports no usage.")
    at = f" at {total['prices']}" if total["prices"] else f": {prices.why_free}"
    lines.append(f"all: {_money(total['money'], prices)}{at}{_said(STATED) if total['prices'] == _ASSUMED else ''}")
    if data["host_compressor_estimate"] is not None:
        estimate = data["host_compressor_estimate"]
        less = estimate - total["money"]
        by = f"${abs(less):.3f} {'more' if less >= 0 else 'less'}"
        lines.append(f"Hermes' own compressor would have cost about ${estimate:.3f}: {by}")
        lines.append(f"({data['host_compressor_formula']})")
    return "\n".join(lines)


def _models(models: Mapping[str, Mapping[str, Any]], prices: Prices) -> str:
    """Money for each model of a day, where there were several."""
    each = [f"{name or 'earlier'} {_money(paid['money'], prices)}" for name, paid in models.items()]
    return f" ({', '.join(each)})" if len(each) > 1 else ""


def _said(rates: Rates) -> str:
    read, cached, written = rates
    return f" (per million tokens ${read:g} read, ${cached:g} cached, ${written:g} written; Hermes knows none)"
