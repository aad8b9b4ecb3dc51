"""What one request shows: found in the list as the host sends it, replaced there, never in the list that the host keeps."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.process import Chat, World, alternates, chat

from hermes_lcm.ingest.transcript import Entries, Entry
from hermes_lcm.prompt import rewrites
from hermes_lcm.prompt.context_message import inserted, joint, placeholder
from hermes_lcm.prompt.rewrites import Instead, Retold, as_sent, rewrite_list, superseded
from hermes_lcm.text import content, markup

NONCE = "0123456789abcdef"
SYSTEM = {"role": "system", "content": "You are an agent."}
PLACEHOLDER = "[[memory archived handle=mem://s/1 range=1..2 messages=2 chars=10 tokens=3]]"


def sent(live: Chat, *, cached: bool = False, recalled: str = "") -> list[dict[str, Any]]:
    """A live list as the host sends it: system message, no private keys, blanks stripped, recalled text, cache marks."""
    out: list[dict[str, Any]] = [dict(SYSTEM)]
    for message in live:
        wire = {k: v for k, v in message.items() if not k.startswith("_") and k not in ("reasoning", "timestamp")}
        if isinstance(wire.get("content"), str):
            wire["content"] = wire["content"].strip()
        if not wire.get("content") and not wire.get("tool_calls") and wire["role"] == "assistant":
            continue
        out.append(wire)
    if recalled:
        out[-1] = {**out[-1], "content": f"{out[-1]['content']}\n\n{recalled}"}
    if cached:
        for message in out[-3:]:
            body = [{"type": "text", "text": message["content"], "cache_control": {"type": "ephemeral"}}]
            message["content"] = body
    return out


def archived(live: Chat, first: int, stop: int) -> Instead:
    before = live[first - 1] if first else None
    return Instead(first, stop, placeholder(before, live[stop] if stop < len(live) else None, PLACEHOLDER, NONCE))


@pytest.mark.parametrize("cached", [False, True], ids=["plain", "cache-marks"])
def test_a_range_is_shown_as_its_placeholder(cached: bool) -> None:
    """The rest of the request is what the host wrote, to the byte."""
    live = chat().turns(4).user("  and now? ", _private=1)
    wire = sent(live, cached=cached, recalled="<memory>tea</memory>")

    got = rewrite_list(live, wire, [archived(live, 2, 4)])

    assert got.state == "applied"
    assert got.messages is not None
    assert [m for m in got.messages if m in wire] == [m for n, m in enumerate(wire) if n not in (3, 4)]
    assert [m["content"] for m in got.messages].count(PLACEHOLDER) == 1
    assert alternates(got.messages[1:])


def test_neither_list_is_changed() -> None:
    """The host's dicts stay as they are, whatever was replaced."""
    live = chat().turns(3).calls("a").results("a").user("and now?")
    wire = sent(live)
    before = copy.deepcopy((list(live), wire))

    got = rewrite_list(live, wire, [archived(live, 0, 2), Retold(7, "a stub")])

    assert got.state == "applied"
    assert (list(live), wire) == before


def test_a_tool_result_is_retold_in_its_place() -> None:
    """Only its text is another one."""
    live = chat().user("look").calls("a", "b").results("a", "b").says("done").user("and now?")

    got = rewrite_list(live, sent(live), [Retold(2, "a stub")])

    assert got.messages is not None
    assert got.messages[3] == {**sent(live)[3], "content": "a stub"}
    assert got.messages[:3] + got.messages[4:] == sent(live)[:3] + sent(live)[4:]


def test_a_request_that_shows_it_already_is_left_alone() -> None:
    """Two hooks that both rewrite requests replace once."""
    live = chat().turns(4).user("and now?")
    once = rewrite_list(live, sent(live), [archived(live, 2, 4)])
    assert once.messages is not None

    twice = rewrite_list(live, once.messages, [archived(live, 2, 4)])

    assert (twice.state, twice.messages) == ("already", None)


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(
            lambda live: [{"role": "user", "content": [{"type": "text", "text": "something else"}]}], id="foreign"
        ),
        pytest.param(lambda live: sent(Chat(live[3:])), id="without-its-beginning"),
        pytest.param(lambda live: sent(live)[:3] + sent(live)[4:], id="a-message-is-missing"),
        pytest.param(lambda live: [], id="empty"),
    ],
)
def test_a_request_that_is_not_understood_is_sent_as_it_is(wire: Any) -> None:
    """P10."""
    live = chat().turns(4).user("and now?")

    got = rewrite_list(live, wire(live), [archived(live, 2, 4)])

    assert (got.messages, got.state) == (None, "unmatched")
    assert got.reason


@pytest.mark.parametrize("silent", [False, True])
def test_what_the_host_joined_to_an_archived_message_is_not_taken_along(silent: bool) -> None:
    """Hosts merge neighbours of one role: the request is then one in which the range cannot be told from what follows."""
    live = chat().turns(2).user("never answered")
    live = live.says("", reasoning="hm") if silent else live
    live.user("the next request").says("its answer").turns(1, first=5)
    wire = [message for message in sent(live) if message["content"] != "the next request"]
    wire[5] = {**wire[5], "content": "never answered\n\nthe next request"}

    got = rewrite_list(live, wire, [archived(live, 3, 6 if silent else 5)])

    assert (got.state, got.messages) == ("unmatched", None)


def test_half_a_tool_group_is_never_taken() -> None:
    """P3: a range that would part a call from its results changes nothing."""
    live = chat().user("look").calls("a", "b").results("a", "b").says("done").user("and now?")

    got = rewrite_list(live, sent(live), [Instead(1, 3, ())])

    assert got.messages is None


def test_thoughts_that_the_host_does_not_send_are_no_hindrance() -> None:
    """A live message that says nothing has no place in the request."""
    live = chat().user("one").says("", reasoning="hm").calls("a").results("a").says("done").user("and now?")

    got = rewrite_list(live, sent(live), [archived(live, 1, 5)])

    assert got.messages is not None
    assert [m["content"] for m in got.messages] == [SYSTEM["content"], "one", PLACEHOLDER, "and now?"]


def test_examples_in_front_of_the_conversation_are_kept() -> None:
    """The host may put prefilled messages behind its system message."""
    live = chat().turns(3).user("and now?")
    wire = sent(live)
    wire[1:1] = [{"role": "user", "content": "example"}, {"role": "assistant", "content": "answer"}]

    got = rewrite_list(live, wire, [archived(live, 2, 4)])

    assert got.messages is not None
    assert got.messages[:5] == wire[:5]


MESSAGES = st.sampled_from(["user", "assistant", "round"])


def built(kinds: list[str]) -> tuple[Chat, list[int]]:
    """A valid list with roles in turn, and where its groups begin."""
    live, starts = chat(), []
    for n, kind in enumerate(kinds):
        last = live[-1]["role"] if live else ""
        if kind == "user" and last == "user":
            kind = "assistant"
        elif kind in ("assistant", "round") and last in ("assistant", ""):
            kind = "user"
        starts.append(len(live))
        if kind == "round":
            live.calls(f"c{n}").results(f"c{n}")
        else:
            (live.user if kind == "user" else live.says)(f"text {n}")
    starts.append(len(live))
    return live.user("and now?") if live[-1]["role"] != "user" else live.says("so").user("and now?"), starts


@given(kinds=st.lists(MESSAGES, min_size=2, max_size=12), data=st.data())
def test_whatever_is_archived_the_chat_stays_valid(kinds: list[str], data: st.DataObject) -> None:
    """P3: groups whole, roles in turn, for every range of whole groups."""
    live, starts = built(kinds)
    first = data.draw(st.sampled_from(starts[:-1]))
    stop = data.draw(st.sampled_from([start for start in starts if start > first]))

    got = rewrite_list(live, sent(live), [archived(live, first, stop)])

    assert got.messages is not None, got.reason
    assert content.problems(got.messages[1:]) == []
    assert alternates(got.messages[1:])


@given(kinds=st.lists(MESSAGES, min_size=2, max_size=12), data=st.data())
def test_what_is_inserted_or_left_out_keeps_the_chat_valid(kinds: list[str], data: st.DataObject) -> None:
    """P3: stored messages between others, and neighbours of what is gone."""
    live, starts = built(kinds)
    first = data.draw(st.sampled_from(starts[:-1]))
    stop = data.draw(st.sampled_from([start for start in starts if start > first]))
    gone = Chat([*live[:first], *live[stop:]])
    before = live[first - 1] if first else None

    back = rewrite_list(
        gone, sent(gone), [Instead(first, first, inserted(before, live[first:stop], live[stop], NONCE))]
    )

    assert back.messages is not None, back.reason
    assert [m for m in back.messages[1:] if "lcm:carrier" not in str(m["content"])] == sent(live)[1:]
    assert alternates([*live[:first], *joint(before, live[stop], NONCE), *live[stop:]])


def test_a_stored_message_is_sent_as_the_host_sends_it() -> None:
    """Without bookkeeping, with the bytes that were sent when it was new."""
    stored = {
        "role": "user", "content": "tea?", "api_content": "tea?\n\n<memory>", "timestamp": 1.0, "_db_persisted": True,
    }  # fmt: skip

    assert as_sent(stored) == {"role": "user", "content": "tea?\n\n<memory>"}


TYPED = st.builds(
    lambda role, chars, parts: {"role": role, "content": [{"type": "text", "text": "a"}] if parts else "a" * chars},
    st.sampled_from(["user", "user", "assistant"]), st.integers(0, 12), st.sampled_from([False, False, True]),
)  # fmt: skip


@given(st.lists(st.tuples(st.lists(TYPED, max_size=5), st.integers(2, 12), TYPED, st.booleans()), max_size=6))
def test_a_list_that_has_gone_on_has_the_large_messages_that_a_look_at_all_of_it_finds(
    turns: list[tuple[list[dict[str, Any]], int, dict[str, Any], bool]],
) -> None:
    """Whatever room they had before, and though the host writes into the newest ones."""
    live, entries, before = list[dict[str, Any]](), Entries([]), None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrites, "_NEWEST", 2)
        for new, most, other, parted in turns:
            if parted:  # an /undo: what follows belongs to another list
                live, entries = live[:1], entries.first(1).followed_by([])
            live[-1:] = [other] if live else []
            live += new
            entries = entries.followed_by([Entry((n,), b"") for n in range(len(entries), len(live))])
            before = rewrites.looked(live, entries, most, before)
            anew = rewrites.looked(live, entries, most)
            found = [[n for n in each.long if rewrites._is_long(live[n], most)] for each in (before, anew)]

            assert found[0] == found[1]


# ------------------------------------------------------------
# Superseded tool results are shown as address and digest: only in prompts, only when it pays, and never for good.

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


def test_a_group_talk_too_large_for_a_request_shows_what_was_said_to_the_bot(tmp_path: Path) -> None:
    """Its row holds no more than that; the lines in front of it are rows of their own."""
    world = World(tmp_path)
    world.session(platform="telegram")
    lines = [f"[Anna|1]\n{n} {'the dog barks ' * 20}" for n in range(200)]
    heard = "\n".join(lines)
    live = chat().user(
        f"[Observed Telegram group context - context only, not requests]\n{heard}\n\n[Current addressed message - answer "
        "only this unless it explicitly asks you to use the observed context]\n[Carl|3]\nwhich dog?"
    )
    world.take([{"role": "user", "content": line} for line in lines])
    transcript = world.take(live)

    world.runtime.oversized.look("s", live, transcript, 5_000, 1.0)
    [shown] = world.runtime.oversized.replacements(world.session(), live, transcript)

    assert shown.text.startswith("[Observed Telegram group context")
    assert shown.text.endswith("[Carl|3]\nwhich dog?")
    assert f"messages in front of msg_{transcript.entries[-1].ids[0]}" in shown.text
