"""Whole conversations of the real agent: what was said is what is stored, and the provider never sees too much."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from host import model_server
from host.checks import assert_valid
from host.drive import WINDOW, Home, HostDiedError, Key, Process, all_rows, compare, key_of, stored_rows
from host.model_server import REVIEW, ModelServer, Reply, Request, Turns, text_of
from host.scripts import LISTING, busy_turn, long_turn, sayings
from host.shared import Running

pytestmark = pytest.mark.host


def noted(turn: int) -> Sequence[Reply]:
    return [Reply(f"Noted, part {turn}.")]


@pytest.mark.few(1)
@pytest.mark.parametrize("in_place", [True, False], ids=["in-place", "rotating"])
def test_each_message_is_stored_once(tmp_path: Path, in_place: bool) -> None:
    """Three turns or more with three compactions and background reviews, then a restart: rows equal distinct messages.

    How often a prompt is folded depends on whether its summaries were ready in time.
    """
    with ModelServer(Turns(busy_turn), limit=WINDOW) as model:
        early = {
            "LCM_CONTEXT_THRESHOLD": "0.5"
        }  # the first two files fit, also behind the longer prompt of hosts near 0.22
        home = Home.make(tmp_path / "home", model.base_url, in_place=in_place, review_every=2, settings=early)
        with home.process() as host:
            first = last = host.open()["session_id"]
            for turn in range(20):
                done = host.turn(text=model.says(sayings(turn)))
                assert (done["failed"], done["final"]) == (None, f"Done with turn {turn}.")
                last = done["session_id"]
                if turn >= 2 and host.compactions() >= 3:
                    break
            host.wait_reviews()
            compactions = host.compactions()
            told = [event["text"] for event in host.events if event["event"] == "status"]
            before = all_rows(host, last)
            host.close()
        with home.process() as host:
            host.open(session_id=last, resume=True)
            after_restart = all_rows(host, last)
            done = host.turn(text=model.says("And now?"))
            after_turn = all_rows(host, done["session_id"])

    assert compactions >= 3
    assert sum(text.startswith("Folded ") and "nothing lost" in text for text in told) == compactions
    assert (first == last) is in_place
    assert after_restart == before
    assert not (difference := compare(home.transcript(model.truth), after_turn)), difference
    assert model.of_kind("review"), "no background review ran, so nothing was shown about it"
    assert not [row for row in after_turn if REVIEW in str(row["content"])]
    for request in model.of_kind("chat"):
        assert_valid(request)
    whole = home.transcript(model.truth)
    assert [text_of(m) for m in model.truth] == [text_of(m) for m in whole], "the model never saw a result as it came"


def test_defaults_outlast_a_small_window(agents: Running) -> None:
    """12 turns of 24,000 characters, all defaults, and a provider that rejects what exceeds its window: all succeed."""
    text = "Some words that are not the same as the ones before, number {}. "
    model, home, host = agents.talk(Turns(noted), limit=WINDOW)
    outcomes = []
    opened = host.open()
    session = opened["session_id"]
    for turn in range(12):
        said = "".join(text.format(turn * 1000 + line) for line in range(400))[:24_000]
        outcomes.append(host.turn(text=model.says(said)))
        assert text_of(model.of_kind("chat")[-1].last).strip() == said.strip()
    rows = stored_rows(host, session)
    compacted_at = [event["before"] for event in host.events if event["event"] == "compaction"]

    assert [outcome["failed"] for outcome in outcomes] == [None] * 12
    assert [outcome["final"] for outcome in outcomes] == [f"Noted, part {turn}." for turn in range(12)]
    # The provider counts about what the host estimates, so there is no reason to compact much earlier.
    assert compacted_at
    assert min(compacted_at) >= 0.9 * opened["threshold_tokens"]
    assert not (difference := compare(home.transcript(model.truth), rows)), difference


def test_facts_that_the_summariser_names_are_in_the_ledger(tmp_path: Path) -> None:
    """What a user said in these words is, marked as found by it; what nobody said is struck, and no summary holds either line."""
    said = "By the way, we keep the staging machine in Oslo, next to the old one."
    told = "FACT | value | staging machine | Oslo | we keep the staging machine in Oslo"
    invented = "FACT | value | staging machine | Bergen | we keep the staging machine in Bergen"

    def naming(request: Request) -> Reply:
        return Reply(f"{model_server.summarise(request).text}\n{told}\n{invented}")

    words, chance = (
        ["".join(pair) for pair in product("bdfgklmnprst", ("ara", "eno", "ilu", "oke", "usi"))],
        random.Random(7),
    )
    parts = [" ".join(chance.choices(words, k=5_000)) + "." for _ in range(6)]
    with ModelServer(Turns(noted), aux=naming, limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        with home.process() as host:
            session = host.open()["session_id"]
            for part in [f"{parts[0]} {said}", *parts[1:], *parts]:
                host.turn(text=model.says(part))
                if host.compactions():
                    break
    ledger = home.hermes("lcm", "ledger", "--session", session).stdout
    with closing(sqlite3.connect(next(home.path.rglob("lcm.db")))) as database:
        texts = [text for (text,) in database.execute("SELECT text FROM nodes WHERE quality = 'verified'")]

    assert ledger.count("we keep the staging machine in Oslo") == 1
    assert "found by the summariser" in ledger
    assert "Bergen" not in ledger
    assert texts
    assert not [text for text in texts if "FACT" in text]


def test_one_turn_longer_than_the_window(agents: Running) -> None:
    """Twenty rounds of tools after one request: the request stays verbatim in every prompt, each message is kept once."""
    asked = "Go through all twenty lists, and keep in mind: the magic word is rhubarb."
    model, home, host = agents.talk(Turns(lambda turn: long_turn(20) if not turn else []), limit=WINDOW)
    session = host.open()["session_id"]
    outcomes = [host.turn(text=model.says(text)) for text in (asked, "Thank you.")]
    rows = stored_rows(host, session)
    compactions = host.compactions()

    assert [outcome["failed"] for outcome in outcomes] == [None, None]
    assert compactions >= 2
    assert not model.refused
    assert not (difference := compare(home.transcript(model.truth), rows)), difference
    for request in model.of_kind("chat")[:21]:
        assert_valid(request)
        assert asked in [text_of(message) for message in request.messages]


@pytest.mark.few(1)
@pytest.mark.parametrize("place", ["first", "later"])
def test_a_typed_message_larger_than_the_window_is_sent_in_part(agents: Running, place: str) -> None:
    """Requests show its beginning and its end, before and after a restart and a compaction; all of it is stored once (P6)."""
    pasted = "Read this:\n" + "".join(f"Line {n} of a log that somebody pasted whole.\n" for n in range(9_000)) + "Why?"
    model, home, host = agents.talk(Turns(noted), limit=WINDOW)
    said = [sayings(n) for n in range(3)]
    said.insert(0 if place == "first" else 2, pasted)
    session = host.open()["session_id"]
    outcomes = [host.turn(text=model.says(text)) for text in said]
    told = [event["text"] for event in host.events if event["event"] == "status"]
    early = host.compactions()
    with home.process() as another:
        another.open(session_id=session, resume=True)
        outcomes += [another.turn(text=model.says(sayings(n))) for n in (4, 5)]
        outcomes += [another.turn(text=model.says("x y z. " * 5_000)) for _ in range(5)]
        rows = stored_rows(another, session)
        found = next(row["content"] for row in rows if str(row["content"]).startswith("Read this"))
        folded = another.compactions()

    assert [outcome["failed"] for outcome in outcomes] == [None] * 11
    assert not model.refused
    assert max(request.tokens for request in model.of_kind("chat")) < WINDOW
    shown = [
        text_of(request.last) for request in model.of_kind("chat") if text_of(request.last).startswith("Read this")
    ]
    assert len(shown) == 1
    assert shown[0].endswith("Why?")
    assert "lcm_expand(store_id=" in shown[0]
    assert found == pasted
    assert early == 0, "what fits was folded because of a message that is not sent"
    assert folded
    assert any("more than the model's window holds" in line for line in told)
    assert not (difference := compare(home.transcript(model.truth), rows)), difference


def test_a_chinese_text_larger_than_the_window_is_sent_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host takes it for a third of what the provider counts, and before the first answer nobody has told (P6)."""
    estimate = model_server.count_tokens

    def counted(messages: Sequence[dict[str, Any]], tools: Sequence[Any] = ()) -> int:
        wide = sum(1 for message in messages for char in text_of(message) if "\u2e80" <= char <= "\ud7ff")
        return estimate(messages, tools) + wide // 2

    monkeypatch.setattr(model_server, "count_tokens", counted)
    pasted = "看。" + "历史记录里的一行，" * 9_000 + "为什么？"
    with ModelServer(Turns(noted), limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        with home.process() as host:
            session = host.open()["session_id"]
            outcomes = [host.turn(text=model.says(text)) for text in (pasted, "然后呢？")]
            told = [event["text"] for event in host.events if event["event"] == "status"]
            rows = stored_rows(host, session)

    assert [outcome["failed"] for outcome in outcomes] == [None, None]
    assert not model.refused
    assert [line for line in told if "more than the model's window holds" in line] == told
    assert not (difference := compare(home.transcript(model.truth), rows)), difference


def test_a_provider_with_less_room_than_it_says(tmp_path: Path) -> None:
    """The provider refuses far below the configured window: one compaction below the threshold saves the turn.

    It refuses above 64,000 because hosts near 0.22 give up on a model that turns out to have less.
    """
    with ModelServer(Turns(busy_turn), limit=66_000) as model:
        home = Home.make(tmp_path / "home", model.base_url, window=200_000)
        with home.process() as host:
            host.open()
            outcomes = [host.turn(text=model.says(sayings(turn))) for turn in range(6)]
            rows = all_rows(host, outcomes[-1]["session_id"])

    assert model.refused, "the provider had no reason to refuse, so nothing was shown"
    assert [outcome["failed"] for outcome in outcomes] == [None] * 6
    assert not (difference := compare(home.transcript(model.truth), rows)), difference


HOST_STUB = "[Result unavailable"  # on the wire only: the host closes calls whose process was killed


def shown(home: Home, model: ModelServer) -> list[dict[str, Any]]:
    """Every message of the conversation that was in a request: the host had handed it over before it left."""

    def name(message: dict[str, Any]) -> Any:
        return message["tool_call_id"] if message["role"] == "tool" else key_of(message)

    said = {name(m): m for m in home.transcript(model.truth) if not text_of(m).startswith(HOST_STUB)}
    seen = dict.fromkeys(name(message) for request in model.of_kind("chat") for message in request.messages)
    return [said[each] for each in seen if each in said]


def unheard_of(model: ModelServer, keys: Sequence[Key], kills: int = 0) -> list[Key]:
    """Those of the keys that are neither what somebody said nor an answer to a call of the model's.

    Hosts near 0.22 take calls out of a message whose results a kill prevented: at most one such message for each kill.
    """
    said = {key_of(message) for message in model.truth}
    calls = {call["id"] for message in model.truth for call in message.get("tool_calls") or []}
    unknown = [key for key in keys if key not in said and not (key[0] == "tool" and key[3] in calls)]
    asking = {key[:2] for key in said if key[2]}
    pruned = [key for key in unknown if not key[2] and key[:2] in asking]
    return unknown if len(pruned) > kills else [key for key in unknown if key not in pruned]


class Reaper:
    """A model during whose answers the agent's process is killed: at once at some requests, a little later at others."""

    def __init__(self, turns: int, kills: int) -> None:
        self.chance = random.Random(turns)
        apart = (2 * turns - kills) // kills  # requests; one kill in each stretch, none at its end
        moments = [n * apart + self.chance.randrange(2, apart * 2 // 3) for n in range(kills)]
        self.at_once, self.later = set(moments[::2]), set(moments[1::2])
        self.victim: Process | None = None

    def __call__(self, request: Request) -> Reply:
        assert self.victim is not None
        if request.number in self.at_once:
            self.victim.kill()
        elif request.number in self.later:
            threading.Timer(self.chance.uniform(0.0, 0.3), self.victim.kill).start()
        if request.last["role"] == "tool":
            return Reply(f"Answer {request.number}. " + "All of it noted. " * 20)
        command = f"echo {request.number}; {LISTING} | head -c 900"
        return Reply(f"Call {request.number}", [("terminal", {"command": command})])


@pytest.mark.parametrize(
    ("turns", "kills"),
    [pytest.param(12, 2, id="12-turns"), pytest.param(300, 20, id="300-turns", marks=pytest.mark.slow)],
)
def test_killed_at_random_points(tmp_path: Path, turns: int, kills: int) -> None:
    """SIGKILL in the middle of whatever it does: what the model was shown is on disk, and nothing twice."""
    reaper = Reaper(turns, kills)
    deaths, turn, session, is_over = 0, 0, "", False
    with ModelServer(reaper) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        while not is_over:  # one that is killed in the last turn is looked at by the next
            with home.process() as host:
                reaper.victim = host
                host.open()  # a stranger, who cannot catch up from the host's own transcript
                if session:
                    look_again(home, model, stored_rows(host, session), deaths)
                session = host.open(session_id=session or None, resume=bool(session))["session_id"]
                try:
                    while turn < turns:
                        turn += 1
                        host.turn(text=model.says(f"Turn {turn} of many. " + "Please go on. " * 12))
                    host.open()
                    look_again(home, model, stored_rows(host, session), deaths)
                    is_over = True
                except HostDiedError:
                    deaths += 1

    assert deaths == kills, "a kill did not hit the process at work"


def look_again(home: Home, model: ModelServer, rows: Sequence[dict[str, Any]], kills: int) -> None:
    """Whatever was in a request is stored, once, in order; nothing is stored that nobody said."""
    difference = compare(shown(home, model), rows)
    assert not difference.lost, difference
    assert not difference.duplicated, difference
    assert not unheard_of(model, difference.foreign, kills), difference
    assert len({key_of(row) for row in rows}) == len(rows), "something is stored twice"
    assert not difference.disordered, difference
