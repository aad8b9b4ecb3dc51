"""What a new conversation has of the one before it: the topmost summaries, in the first request and in the overview (P4, P9)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from worlds.breaking import Host
from worlds.process import chat

from hermes_lcm.dag import fingerprint
from hermes_lcm.records import NewNode


def node(host: Host, depth: int, *sources: int, quality: str = "verified") -> int:
    """A summary of the first conversation."""
    new = NewNode(
        1, depth, quality, f"Depth {depth} over {sources}.", "more", 20, 200, sources, fingerprint(depth, sources), "m"
    )
    return int(host.runtime.dag.add(new, now=1.0).node_id)


@pytest.fixture
def host(hermes_home: Path) -> Host:
    """Twelve leaves; six of depth 1 over them, three of depth 2 over these, one of depth 3 over two of these; no prompt yet."""
    host = Host(hermes_home)
    host.says(chat().turns(12))
    leaves = [node(host, 0, 2 * n + 1, 2 * n + 2) for n in range(12)]
    ones = [node(host, 1, *leaves[2 * n : 2 * n + 2]) for n in range(6)]
    twos = [node(host, 2, *ones[2 * n : 2 * n + 2]) for n in range(3)]
    host.three = node(host, 3, *twos[:2])  # type: ignore[attr-defined]
    host.rest = twos[2]  # type: ignore[attr-defined]
    return host


def renewed(host: Host) -> Host:
    """/new was typed, and the first message of the new conversation is about to be sent."""
    host.engine.on_session_reset()
    host.session_id = "s2"
    host.engine.on_session_start("s2", hermes_home=str(host.home), platform="cli", reason="new_session")
    host.hooks.on_session_finalize(session_id="s", old_session_id="s", new_session_id="s2", reason="new_session")
    return host


def test_the_topmost_summaries_of_the_depth_come_over(host: Host) -> None:
    """Whatever the last prompt showed: nothing that another of them covers, nothing that is too shallow."""
    renewed(host).says(chat().user("hello again"))
    session = host.runtime.find_session("s2")

    assert host.runtime.sessions.carried(session.conversation_id) == sorted([host.three, host.rest])


def test_neighbours_that_reach_into_each_others_range_both_come_over(host: Host) -> None:
    """A request that stayed raw is covered by a later summary than the messages around it."""
    first, second = node(host, 4, 1, 2, 4, 5), node(host, 4, 3, 6, 7)
    renewed(host).says(chat().user("hello again"))
    session = host.runtime.find_session("s2")

    assert {first, second} <= set(host.runtime.sessions.carried(session.conversation_id))


@pytest.mark.parametrize(("depth", "count"), [("0", 0), ("-1", 2), ("3", 1), ("4", 0)])
def test_the_setting_says_from_which_depth_on(
    host: Host, monkeypatch: pytest.MonkeyPatch, depth: str, count: int
) -> None:
    """-1: the topmost ones, whatever their depth; 0: none."""
    host.close()
    monkeypatch.setenv("LCM_NEW_SESSION_RETAIN_DEPTH", depth)
    host = renewed(host.next())
    host.says(chat().user("hello again"))
    session = host.runtime.find_session("s2")

    assert len(host.runtime.sessions.carried(session.conversation_id)) == count


def test_the_first_request_and_the_overview_show_them(host: Host) -> None:
    """Once, with the first message; the overview names them as carried over from then on."""
    renewed(host)
    live = chat().user("hello again")
    given = host.hooks.pre_llm_call(session_id="s2", conversation_history=live, platform="cli")
    overview = json.loads(host.tool("lcm_describe"))
    later = host.hooks.pre_llm_call(session_id="s2", conversation_history=live.says("hi").user("so"), platform="cli")

    assert f'<summary id="sum_{host.three}"' in given["context"]
    assert f'<summary id="sum_{host.rest}"' in given["context"]
    assert "earlier conversation" in given["context"]
    assert later is None
    carried = {each["node_id"] for each in overview["roots"] if each.get("carried_over")}
    assert carried == {host.three, host.rest}


def test_what_is_carried_is_in_the_prompt_before_a_compaction_and_after(host: Host) -> None:
    """Beside the first message, which the host sends again with it; then in the record. lcm_describe says so."""
    renewed(host).says(chat().turns(40, first=500)[:1])
    live = chat().turns(40, first=500)
    host.says(live)
    before = json.loads(host.tool("lcm_describe", id=f"sum_{host.three}"))["in_prompt"]
    live = host.compress(live, force=True)
    after = json.loads(host.tool("lcm_describe", id=f"sum_{host.three}"))["in_prompt"]

    assert (before, after) == (True, True)
    assert f'<summary id="sum_{host.three}"' in live[0]["content"]


def test_a_session_without_anything_carried_is_told_nothing(hermes_home: Path) -> None:
    """Most first requests are as they are."""
    host = Host(hermes_home)

    assert host.hooks.pre_llm_call(session_id="s", conversation_history=chat().user("hi"), platform="cli") is None
