"""The doctor about the prompt: is everything in it once, also in a branch, and does its beginning stay as it is?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worlds.home import Home

from hermes_lcm.ops.doctor.checks import doctor
from hermes_lcm.records import Node
from hermes_lcm.session import Segment


def finding(world: Home, check: str, session: str = "s1", **facts: Any) -> dict[str, Any]:
    """What one check said."""
    said = doctor(world.deps(session, **facts))
    found: dict[str, Any] = next(each for each in said["checks"] if each["check"] == check)
    return found


# -- coverage --------------------------------------------------------------------------------------------
class Branch:
    """A parent of six messages, and a branch from it with two more."""

    def __init__(self, world: Home) -> None:
        self.world = world
        self.parent = [f"parent {n}" for n in range(6)]
        world.say(*self.parent, session="parent")
        world.runtime.announce("branch", parent="parent", origin="branch")
        world.say(*self.parent, "branch 0", "branch 1", session="branch")
        found = world.runtime.find_session("branch")
        assert found is not None
        self.conversation = found.conversation_id
        self.rows = [row[0] for row in world.runtime.db.query(
            "SELECT store_id FROM messages JOIN sessions USING(session_key) WHERE session_id IN ('parent', 'branch') "
            "ORDER BY store_id")]  # fmt: skip

    def shows(self, covered: list[int], tail: list[int]) -> dict[str, Any]:
        """The finding when the branch's prompt summarises these rows and shows those raw."""
        node = self.world.node(*covered, conversation=self.conversation)
        dag, last = self.world.runtime.dag, self.world.runtime.store.heads_of(tail)[tail[-1]]
        dag.publish(
            self.conversation, "branch", [node.node_id], tail, last_seq=last.seq, last_pos=last.pos, now=self.world.now
        )
        return finding(self.world, "coverage", "branch")


def test_a_branch_is_covered_by_what_it_inherits(tmp_path: Path) -> None:
    """Summaries over its parent's messages, and its own raw."""
    branch = Branch(Home(tmp_path))
    said = branch.shows(branch.rows[:4], branch.rows[4:])

    assert (said["status"], said["data"]["messages"]) == ("pass", 8)


def test_what_its_parent_takes_back_later_is_still_the_branchs(tmp_path: Path) -> None:
    """A branch inherits a message for good: a prompt that lacks it has a gap, whatever the parent did since."""
    branch = Branch(Home(tmp_path))
    branch.world.say(*branch.parent[:4], "parent goes on elsewhere", "yes", session="parent")
    taken_back = [row.store_id for row in branch.world.runtime.store.retracted(1)]
    said = branch.shows(branch.rows[:4], branch.rows[6:])

    assert taken_back == branch.rows[4:6]
    assert said["data"]["missing"] == branch.rows[4:6]


def test_a_message_raw_and_summarised_is_twice_there(world: Home) -> None:
    """P4 says once."""
    world.assembly([world.node(*range(1, 11))], list(range(10, 101)), 100)

    assert finding(world, "coverage")["data"]["twice"] == [10]


def test_a_revision_counts_where_its_first_version_stood(world: Home) -> None:
    """The host changed a message in place after it had been summarised."""
    texts = [f"message {n} about the zebra deployment of service {n % 7} " * 4 for n in range(100)]
    texts[4] += "and changed"
    world.say(*texts)

    assert world.runtime.store.count() == 101
    assert finding(world, "coverage")["status"] == "pass"


def another(world: Home, name: str) -> list[int]:
    """Another conversation of eight messages, with a prompt that lacks one of them; its rows."""
    world.say(*(f"{name} {n}" for n in range(8)), session=name)
    session = world.runtime.find_session(name)
    assert session is not None
    conversation = session.conversation_id
    rows = [row.store_id for row in world.runtime.store.heads([Segment(conversation)])]
    node = world.node(*rows[:4], conversation=conversation)
    world.runtime.dag.publish(
        conversation, name, [node.node_id], rows[5:], last_seq=8, last_pos=8.0 * 2**20, now=world.now
    )
    return rows


def test_every_conversation_is_looked_at(world: Home) -> None:
    """Not the newest one only: the session is named, and the command that mends it."""
    rows = another(world, "other one")
    said = finding(world, "coverage")

    assert (said["status"], said["data"]["missing"]) == ("warn", [rows[4]])
    assert "session other one" in said["detail"]
    assert "2 of 2 conversations looked at" in said["detail"]
    assert said["command"] == "hermes lcm rotate --session 'other one' apply"


def test_a_look_that_takes_long_says_how_far_it_came(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own session first, then the newest."""
    for n in range(3):
        another(world, f"s{n + 2}")
    monkeypatch.setattr("hermes_lcm.ops.doctor.prompt._LOOK_S", 0.0)
    said = finding(world, "coverage")

    assert (said["status"], said["data"]["looked_at"], said["data"]["conversations"]) == ("pass", 1, 4)
    assert "1 of 4 conversations looked at" in said["detail"]


def test_a_chat_hears_of_its_own_conversation_only(world: Home) -> None:
    """What others have is theirs."""
    chat = {"platform": "telegram", "host_key": "agent:main:telegram:dm:7"}
    world.runtime.sessions.open("chat", now=1.0, **chat)
    world.say("hello", "there", session="chat")
    another(world, "other")

    assert "other" not in str(finding(world, "coverage", "chat"))
    assert "other" not in str(finding(world, "cache_prefix", "chat")["detail"])


# -- the beginning ---------------------------------------------------------------------------------------
def prompts(world: Home, *shown: list[Node]) -> None:
    """One compaction after the other, each showing these summaries."""
    for roots in shown:
        world.assembly(roots, [100], 100)


def test_summaries_that_are_only_added_keep_the_prefix(world: Home) -> None:
    """What a provider has cached stays useful."""
    leaves = [world.node(n, n + 1) for n in range(11, 31, 2)]
    prompts(world, *(leaves[:n] for n in range(1, 9)))
    said = finding(world, "cache_prefix")

    assert (said["status"], said["data"]["causes"]) == ("pass", {"only added": 7, "other summaries": 1})


def test_a_prefix_that_is_condensed_each_time_is_reported(world: Home) -> None:
    """With the setting that helps."""
    leaves = [world.node(n, n + 1) for n in range(11, 91, 2)]
    for n in range(0, 36, 4):
        world.assembly(leaves[n : n + 4], [100], 100)
        world.assembly([world.node(*(leaf.node_id for leaf in leaves[n : n + 4]), depth=1)], [100], 100)
    said = finding(world, "cache_prefix")

    assert said["status"] == "warn"
    assert said["data"]["causes"]["condensed"] == 9
    assert said["command"].startswith("export LCM_PREFIX_SHARE=")


def test_the_beginning_of_another_conversation_is_looked_at(world: Home) -> None:
    """A prefix that is made anew each time costs money wherever it is."""
    leaves = [world.node(n, n + 1) for n in range(11, 31, 2)]
    for leaf in leaves:
        world.assembly([leaf], [100], 100)
    world.say("hello", "there", session="newer")
    said = finding(world, "cache_prefix", "newer")

    assert (said["status"], said["data"]["compactions_compared"]) == ("warn", 10)


def test_extracts_that_are_replaced_each_time_are_reported(world: Home) -> None:
    """That is a matter of the model, not of the settings."""
    shown = []
    for n in range(11, 31, 2):
        shown += [[world.node(n, n + 1, quality="provisional")], [world.node(n, n + 1)]]
    prompts(world, *shown)
    said = finding(world, "cache_prefix")

    assert (said["status"], "summary_routes" in said["remedy"], "command" in said) == ("warn", True, False)


@pytest.mark.parametrize(
    ("requests", "read", "verdict"), [(20, 900, "pass"), (20, 100, "warn"), (5, 100, "pass"), (20, 0, "pass")]
)
def test_what_the_provider_counts_is_looked_at(requests: int, read: int, verdict: str, world: Home) -> None:
    """Few cached tokens in many requests; none at all means that this provider has no cache or does not tell."""
    cache = {"requests": requests, "prompt_tokens": 1000, "cache_read_tokens": read}

    assert finding(world, "cache_prefix", cache=cache)["status"] == verdict


def test_few_compactions_say_nothing_yet(world: Home) -> None:
    """Two prompts that have nothing in common are no finding."""
    prompts(world, [world.node(11, 12)], [world.node(13, 14)])

    assert finding(world, "cache_prefix")["status"] == "pass"
