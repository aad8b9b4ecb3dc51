"""The host's API server: an agent is built for every request, the client names user and session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from host.api import api_server
from host.checks import assert_kept, assert_valid, look
from host.drive import WINDOW, Home, stored_rows
from host.model_server import ModelServer, Reply, Request, last_said
from host.scripts import of_many, speaker

pytestmark = [pytest.mark.host, pytest.mark.slow]

NAMES = ("ada", "bob")


def at_once(*jobs: Callable[[], object]) -> None:
    """Run jobs on threads and wait for all."""
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)


def test_two_users_at_once(tmp_path: Path) -> None:
    """Both talk at the same time until they were compacted; then each searches for what the other one said."""
    with ModelServer(of_many, limit=WINDOW, topic=speaker) as model:
        home = Home.make(tmp_path / "home", model.base_url)

        def compacted(name: str) -> bool:
            prompts = [request.tokens for request in model.of_kind("chat") if speaker(request) == name]
            return any(after < before for before, after in pairwise(prompts))

        with api_server(home) as api:

            def talk(name: str, other: str) -> None:
                turn = 0
                while turn < 5 or (turn < 16 and not compacted(name)):  # hosts differ in when they ask for it
                    words = " ".join(f"{name}-{turn}-{n}" for n in range(1500))  # the oldest host's tools refuse here
                    said = model.says(f"{name} {turn} look {words}", name)
                    assert api.ask(said, session=f"s-{name}", key=name) == f"Done with {name} {turn}."
                    turn += 1
                said = model.says(f"{name} {turn} spy secret-of-{other} s-{other}", name)
                api.ask(said, session=f"s-{name}", key=name)

            at_once(lambda: talk("ada", "bob"), lambda: talk("bob", "ada"))
        kept = dict(zip(NAMES, look(home, "s-ada", "s-bob"), strict=True))
        truths = {name: home.transcript(model.truths[name]) for name in NAMES}

    for name, other in (NAMES, NAMES[::-1]):
        assert_kept(kept[name], truths[name])
        assert kept[name].principal == f"api_server:{name}"
        assert [row["role"] for row in kept[name].rows][-3:] == ["tool", "tool", "assistant"], "nobody searched"
        assert f"{other} 0" not in kept[name].texts, "something of the other user's crossed over"
        assert f"{other}-0-7" not in kept[name].texts, "something of the other user's crossed over"
    assert all(compacted(name) for name in NAMES)
    for request in model.of_kind("chat"):
        assert_valid(request)


def test_a_client_cannot_name_itself_the_operator(tmp_path: Path) -> None:
    """The terminal's principal is called "local" and sees everything; a client's key of that name is just a name."""

    def script(request: Request) -> Reply:
        said, answers = last_said(request)
        if said.startswith("spy") and not answers:
            return Reply("", [("lcm_grep", {"query": "rhubarb", "session_scope": "all"})])
        return Reply("Noted.")

    with ModelServer(script) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        home.chat_once("The magic word is rhubarb.")
        with api_server(home) as api:
            for number, key in enumerate(("local", "agent:main:local", "session:s-0", "mallory")):
                api.ask("spy", session=f"s-{number}", key=key)
        found = [request.last["content"] for request in model.of_kind("chat") if request.last["role"] == "tool"]

    assert len(found) == 4
    assert not any("The magic word" in text for text in found)


def test_conversations_that_begin_alike(tmp_path: Path) -> None:
    """Without headers the host names a session after its first words: two such clients share one. All of both is kept once."""
    with ModelServer(lambda request: Reply(f"To {last_said(request)[0]}")) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        with api_server(home) as api:
            histories: dict[str, list[dict[str, str]]] = {name: [] for name in NAMES}
            for turn in range(4):
                for name, history in histories.items():
                    said = "hello" if turn == 0 else f"{name} {turn}"
                    reply = api.ask(said, before=history)
                    history += [{"role": "user", "content": said}, {"role": "assistant", "content": reply}]
        [(session,)] = home.query("SELECT id FROM sessions")
        with home.process() as host:
            host.open()
            rows = stored_rows(host, session)

    texts = [row["content"] for row in rows]
    said = {message["content"] for history in histories.values() for message in history}
    assert sorted(texts) == sorted(said)


def test_clients_that_choose_the_same_id(tmp_path: Path) -> None:
    """Each brings its own history; what one said is in no prompt of the other, nor in what is summarised for it."""
    with ModelServer(lambda _: Reply("Noted."), limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        long = [" ".join(f"bob-{turn}-{n}" for n in range(400)) for turn in range(60)]
        history = [{"role": ("user", "assistant")[turn % 2], "content": said} for turn, said in enumerate(long)]
        with api_server(home) as api:
            ended = [api.run("Always use the key rhubarb.", session="default", key="ada", before=[])]
            before = len(model.requests)
            ended += [api.run("go on", session="default", key="bob", before=history) for _ in range(2)]
        asked = [str(request.messages) for request in model.requests[before:]]

    assert ended == ["completed"] * 3
    assert any("lcm:history" in each for each in asked), "nothing was compacted"
    assert not any("rhubarb" in each for each in asked)
