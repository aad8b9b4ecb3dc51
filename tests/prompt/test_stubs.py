"""Superseded tool results are shown as address and digest: only in prompts, only when it pays, and never for good."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from worlds.process import Chat, World, chat

from hermes_lcm.prompt.rewrites import rewrite_list, superseded
from hermes_lcm.text import markup

BODY = "\n".join(f"line {n} of the file" for n in range(400))


def reads(path: str, *names: str, body: str = BODY, **extra: str) -> Chat:
    """The same file, read once for each id."""
    live = chat()
    for name in names:
        live.calls(name, arguments=json.dumps({"path": path, **extra}), tool="read_file").results(
            name, text=body, tool="read_file"
        )
    return live


def twice(middle: int = 0) -> Chat:
    return Chat(
        [*chat().user("go"), *reads("a.py", "r1"), *chat().turns(middle), *reads("a.py", "r2"), *chat().says("done")]
    )


# -- what is superseded --------------------------------------------------------------------------------------
def test_a_file_that_is_read_again_later_is_superseded() -> None:
    """All readings but the last."""
    live = Chat([*chat().user("go"), *reads("a.py", "r1", "r2", "r3")])

    assert superseded(live, 200) == [2, 4]


@pytest.mark.parametrize(
    "later",
    [
        reads("b.py", "r2"),
        reads("a.py", "r2", offset="200"),
        reads("a.py", "r2", body="File unchanged since last read"),
        chat().calls("r2", arguments='{"path": "a.py"}', tool="terminal").results("r2", text=BODY, tool="terminal"),
        chat().calls("r2", arguments='{"path": "a.py"}', tool="read_file"),
        chat(),
    ],
    ids=["another file", "another part", "unchanged", "another tool", "no answer", "nothing"],
)
def test_what_nothing_stands_for_is_not(later: Chat) -> None:
    """The earlier result is still all there is."""
    assert superseded([*chat().user("go"), *reads("a.py", "r1"), *later], 200) == []


def test_the_order_of_arguments_does_not_count() -> None:
    """Models write them as they like."""
    one = chat().calls("r1", arguments='{"path": "a", "limit": 5}').results("r1", text=BODY)
    two = chat().calls("r2", arguments='{"limit":5,"path":"a"}').results("r2", text=BODY)

    assert superseded([*one, *two], 200) == [1]


def test_small_results_stay() -> None:
    """An address costs something too."""
    assert superseded(reads("a", "r1", "r2", body="small"), 200) == []


# -- at a compaction -----------------------------------------------------------------------------------------
def test_a_compaction_shows_it_by_address(tmp_path: Path) -> None:
    """The last reading stays whole, the store keeps both, and the prompt is recognised."""
    world = World(tmp_path, tail_share=0.3)
    live = Chat([*chat().turns(120), *twice()])
    out = world.compact(live, threshold=30_000, force=True)
    results = [str(message["content"]) for message in out if message["role"] == "tool"]

    assert markup.read_stub(results[0]) is not None
    assert results[1] == BODY
    assert "lcm_expand(store_id=" in results[0]
    assert [message for message in world.stored() if message["role"] == "tool"] == [
        m for m in live if m["role"] == "tool"
    ]
    world.take(out)
    assert world.counts()["messages"] == len(live)
    assert world.gaps(out) == ([], [])


def test_a_damaged_one_is_stubbed_as_the_list_shows_it(tmp_path: Path) -> None:
    """Nothing else of its conversation depends on what is stored of it."""
    world = World(tmp_path, tail_share=0.3)
    live = Chat([*chat().turns(120), *twice()])
    world.take(live)
    with world.db.transaction():
        world.db.execute("UPDATE messages SET envelope = x'ffff' WHERE store_id = ?", (len(live) - 3,))
    out = world.compact(live, threshold=30_000, force=True)
    first, second = (str(message["content"]) for message in out if message["role"] == "tool")

    assert markup.read_stub(first) is not None
    assert "line 0 of the file" in first
    assert second == BODY
    assert looked(world, live) is not None


# -- between compactions -------------------------------------------------------------------------------------
def looked(world: World, live: Chat) -> list[dict[str, object]] | None:
    """What the worker decides after a turn, and the next request."""
    transcript = world.take(live)
    session = world.session()
    world.runtime.superseded.look(session, live, transcript)
    wanted = world.runtime.rewrites.replacements(session, live, transcript)
    return rewrite_list(live, live, wanted).messages


def test_a_request_shows_the_stub_and_the_list_stays(tmp_path: Path) -> None:
    """The host's own list is not touched."""
    world = World(tmp_path, tail_share=0.3)
    live = twice()
    before = live.copy()
    request = looked(world, live)

    assert request is not None
    assert markup.read_stub(str(request[2]["content"])) is not None
    assert request[4]["content"] == BODY
    assert live == before
    assert world.runtime.rewrites.watch(world.session())


def test_nothing_is_stubbed_while_it_does_not_pay(tmp_path: Path) -> None:
    """So much stands behind it in the provider's cache that the saving is not worth the change."""
    world = World(tmp_path, tail_share=0.3)

    assert looked(world, twice(middle=200)) is None
    assert not world.runtime.superseded.waits(world.session())


def test_without_the_setting_requests_stay_as_they_are(tmp_path: Path) -> None:
    """0: only compactions stub."""
    assert looked(World(tmp_path, stub_repay_share=0.0), twice()) is None


def test_what_was_stubbed_stays_stubbed(tmp_path: Path) -> None:
    """The prefix changes once: the same bytes in every later request."""
    world = World(tmp_path, tail_share=0.3)
    live = twice()
    first = looked(world, live)
    later = looked(world, live.turns(200))

    assert first is not None
    assert later is not None
    assert later[: len(first)] == first


def test_a_stub_that_cannot_be_placed_troubles_nobody(tmp_path: Path) -> None:
    """It merely saves room: no compaction is asked for, nothing is degraded."""
    world = World(tmp_path, tail_share=0.3)
    live = twice()
    looked(world, live)
    session, rewrites = world.session(), world.runtime.rewrites
    rewrites.watch(session)
    transcript = world.take(live)
    assert rewrites.request(session, chat().user("another list"), (live, transcript)) is None

    assert rewrites.sent(session, live, transcript) == ""
    assert rewrites.unshown("s") == ""
