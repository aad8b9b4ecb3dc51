"""Secrets in ids, names and keys of a message: none is stored, and the message is known again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worlds.home import Home
from worlds.process import Chat, Script, World, chat, reload

from hermes_lcm import command
from hermes_lcm.ingest.filters import clean_message
from hermes_lcm.storage import files
from hermes_lcm.text import content
from hermes_lcm.text.redact import Redactor

TOKEN = "ghp_" + "aB3dE6gH9" * 4
OTHER = "ghp_" + "zY8xW5vU2" * 4


def turn(call_id: str = "c1", name: str = "terminal", **more: Any) -> list[dict[str, Any]]:
    """A question, a call, its result, an answer. ``more``: keys of every message."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": '{"command": "ls"}'}}
    return [
        {"role": "user", "content": "look", **more},
        {"role": "assistant", "content": "", "tool_calls": [call], **more},
        {"role": "tool", "tool_call_id": call_id, "name": name, "content": "three files", **more},
        {"role": "assistant", "content": "there are three", **more},
    ]


def with_call(**keys: Any) -> list[dict[str, Any]]:
    out = turn()
    out[1]["tool_calls"][0].update(keys)
    return out


#: Where a secret may stand: outside of what people wrote.
PLACES: dict[str, list[dict[str, Any]]] = {
    "an id of a call": turn(f"call_{TOKEN}"),
    "the other id of a call": with_call(call_id=TOKEN),
    "the name of a tool": turn(name=TOKEN),
    "the type of a call": with_call(type=TOKEN),
    "an unknown key of a call": with_call(**{TOKEN: 1}),
    "the speaker's name": [{**m, "name": m.get("name", TOKEN)} for m in turn()],
    "a result's tool_name": [{**m, "tool_name": TOKEN} if m["role"] == "tool" else m for m in turn()],
    "an id of the message": turn(message_uid=TOKEN),
    "a key": turn(**{TOKEN: "x"}),
    "a key of a key": turn(extra={TOKEN: [{"a": {TOKEN: 2}}]}),
    "a name that is a mapping": [{**m, "name": {"first": TOKEN}} if m["role"] == "user" else m for m in turn()],
    "a time that is text": turn(timestamp=TOKEN),
    "the role": [*turn(), {"role": f"role of {TOKEN}", "content": "x"}],
    "a part": [{"role": "user", "content": [{"type": TOKEN, "id": TOKEN, "name": TOKEN}]}, *turn()[1:]],
    "what is no JSON": turn(extra={("a",): TOKEN, "id": TOKEN, "name": (TOKEN,)}),
    "a message that is no JSON": [{**m, 1: "odd"} for m in turn(f"call_{TOKEN}", TOKEN, message_uid=TOKEN)],
}  # fmt: skip


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., World]:
    return lambda **settings: World(tmp_path, Script("ok"), **{"sensitive_patterns_enabled": True, **settings})


@pytest.mark.parametrize("place", PLACES)
def test_no_string_of_a_message_brings_a_secret_to_the_disk(make: Callable[..., World], place: str) -> None:
    """Neither in what is stored nor in the columns and indexes beside it; the same list is stored once."""
    world, said = make(), PLACES[place]
    world.take(said)
    world.take(copy.deepcopy(said))
    world.take([*copy.deepcopy(said), {"role": "user", "content": "more"}])
    stored = world.stored()
    texts = [
        *files.texts_of(world.db.path),
        *(path.read_bytes().decode("latin-1") for path in world.db.path.parent.iterdir()),
    ]

    assert TOKEN.lower() not in "\n".join([*texts, str(stored)]).lower()
    assert len(stored) == len(said) + 1
    assert [m.get("content") for m in stored[1:4]] == ["", "three files", "there are three"]


@pytest.mark.few(6)
@pytest.mark.parametrize("place", PLACES)
def test_the_same_list_is_known_after_a_restart(make: Callable[..., World], place: str) -> None:
    """As it was, and as the host reads it back."""
    said = PLACES[place]
    make().take(said)
    again = make()
    again.take([*copy.deepcopy(said), {"role": "user", "content": "more"}])

    assert len(again.stored()) == len(said) + 1
    assert again.thread() == again.stored()


def test_a_call_and_its_result_still_belong_together(make: Callable[..., World]) -> None:
    """Under ids that a provider takes; two ids stay two."""
    world = make()
    world.take([*turn(f"call_{TOKEN}"), *turn(f"call_{OTHER}")])
    calls = [call.id for message in world.stored() for call in content.calls_of(message)]
    results = [message["tool_call_id"] for message in world.stored() if message["role"] == "tool"]

    assert calls == results
    assert len(set(calls)) == 2
    assert all(each.replace("_", "").isalnum() and each.isascii() for each in calls)
    assert [Redactor(["all"]).name(each) for each in calls] == calls


@pytest.mark.parametrize("restarted", [False, True])
def test_a_prompt_keeps_the_hosts_ids_and_is_known_when_it_comes_back(
    make: Callable[..., World], restarted: bool
) -> None:
    """A secret in the words is taken out of what the prompt shows; the ids there stay those of the list."""
    world = make(fresh_tail_count=6)
    live = Chat([*chat().turns(40), *turn(f"call_{TOKEN}", name="shell")])
    live[-3]["tool_calls"][0]["function"]["arguments"] = json.dumps({"command": f"login {OTHER}"})
    live[-2]["content"] = f"logged in with {OTHER}"
    compacted = world.compact(live)
    count = len(world.stored())
    if restarted:
        world, compacted = world.restart(), reload(compacted)
    world.take(Chat(compacted).user("and now?"))

    assert OTHER not in str(compacted)
    assert [m["tool_call_id"] for m in compacted if m["role"] == "tool"] == [f"call_{TOKEN}"]
    assert [call.id for m in compacted for call in content.calls_of(m)] == [f"call_{TOKEN}"]
    assert len(world.stored()) == count + 1
    assert TOKEN not in str(world.stored())


def test_messages_read_back_with_their_new_ids_are_no_new_ones(make: Callable[..., World]) -> None:
    """As they are stored, so they may come back: from an archive, from an export."""
    world = make()
    world.take(chat().turns(2) + turn(f"call_{TOKEN}"))
    world = world.restart()
    world.take([*world.stored(), {"role": "user", "content": "more"}])

    assert len(world.stored()) == 4 + 4 + 1


def test_an_edited_result_of_a_redacted_call_replaces_the_old_one(make: Callable[..., World]) -> None:
    """Who answers whom is still seen, also of rows that were stored before redaction was on."""
    for on in (False, True):
        world = make(sensitive_patterns_enabled=on)
        first = chat().turns(2) + turn(f"call_{TOKEN}")[:3]
        world.take(first, f"s{on}")
        edited = copy.deepcopy(first)
        edited[-1]["content"] = "four files and more"
        again = make()
        again.take([*edited, {"role": "assistant", "content": "four"}], f"s{on}")

        assert [m["content"] for m in again.thread(f"s{on}")][-3:] == ["", "four files and more", "four"]


@pytest.mark.few(6)
@pytest.mark.parametrize("place", PLACES)
def test_redact_apply_takes_it_out_of_what_is_stored(tmp_path: Path, place: str) -> None:
    """The answer proves it, and the list is known again."""
    home = Home(tmp_path / "home")
    live = PLACES[place]
    home.runtime.ingest_list("s1", live, source="cli")
    answer = command.answer("redact apply", home.deps(None, trusted=True))
    data = "\n".join(files.texts_of(home.path)).lower() + home.path.read_bytes().decode("latin-1").lower()
    home.close()
    home = Home(tmp_path / "home", sensitive_patterns_enabled="true")
    home.runtime.ingest_list("s1", [*copy.deepcopy(live), {"role": "user", "content": "more"}], source="cli")

    assert TOKEN.lower() not in data
    assert answer.data["still_in"] == []
    assert home.runtime.store.count() == len(live) + 1
    home.close()


def test_keys_that_look_alike_stay_two() -> None:
    """Two passwords have the same placeholder."""
    keys = {"https://a:hunter2secret@b": 1, "https://a:hunter3secret@b": 2}
    clean = clean_message({"role": "user", "content": "x", "extra": keys}, Redactor(["all"]))

    assert sorted(clean["extra"].values()) == [1, 2]
    assert "hunter" not in str(clean)


@pytest.mark.parametrize("quoted_first", [True, False])
def test_a_quoted_placeholder_and_the_secret_are_two_messages(make: Callable[..., World], quoted_first: bool) -> None:
    """Whichever came first, each is stored once, however often the list comes back."""
    world, secret = make(), f"my key {TOKEN}"
    quoted = str(clean_message({"role": "user", "content": secret}, Redactor())["content"])
    said = [quoted, secret] if quoted_first else [secret, quoted]
    live = chat().user(said[0]).says("ok").user(said[1]).says("fine")
    world.take(live)
    for n in range(2):
        world = world.restart()
        world.take(reload(live.user(f"more {n}").says("so")))

    assert len(world.stored()) == len(live)
