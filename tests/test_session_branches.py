"""A branch remembers its parents up to where it began, and nothing of what they said, took back or summarised later."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from worlds.recall import Archive, Model, says, user, wants

from hermes_lcm.records import Flag
from hermes_lcm.session import Cut, Session


class Fork(Archive):
    """A parent of eight messages, a branch behind the fifth, and both go on. ``retracted``: taken back before the fork."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.before = self.say(*(user(f"zebra before {n}") if n % 2 else says(f"zebra heard {n}") for n in range(1, 6)))
        self.retracted = self.before[1]
        self.store.flag([self.retracted], add=Flag.RETRACTED)
        self.branch = self.open("branch", parent=self.me, origin="branch", fork_seq=5)
        self.sessions.fork_at(self.branch.conversation_id, Cut(5, 5.0), [self.retracted])
        self.own = self.say(user("zebra in the branch"), says("zebra noted"), to="branch")
        self.after = self.say(user("zebra LATER one"), says("zebra LATER two"), user("zebra LATER three"))
        self.early = self.node("zebra summary of the beginning", self.before[:3])
        self.late = self.node("zebra LATER summary", [*self.before[3:], *self.after])
        self.store.flag(
            [self.before[3]], add=Flag.RETRACTED
        )  # the parent takes something back when the branch has begun

    @property
    def inherited(self) -> set[int]:
        return set(self.before) - {self.retracted}


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return Fork(tmp_path)


def test_a_search_in_a_branch_finds_what_it_inherited_and_its_own(fork: Fork) -> None:
    """The parent goes on in another direction: that is not the branch's past."""
    assert set(fork.found("zebra", fork.branch, limit=50)) == fork.inherited | set(fork.own)
    assert set(fork.found("zebra", limit=50)) == {*fork.before, *fork.after}


@pytest.mark.parametrize("mode", ["full_text", "regex"])
@pytest.mark.parametrize("query", ["LATER", "zebra LATER three"])
def test_no_way_of_searching_shows_what_came_later(fork: Fork, query: str, mode: str) -> None:
    """Neither as a hit, nor as a neighbour of one, nor within a summary."""
    answer = fork.raw("lcm_grep", fork.branch, query=query, mode=mode, scope="both")

    answer = re.sub(r"no good hit says [^;]*;", "", answer)  # words of the question, given back
    assert "LATER" not in answer.replace(json.dumps(query)[1:-1], "")


def test_a_branch_of_a_branch_is_cut_twice(fork: Fork) -> None:
    """Each ancestor up to where its child began."""
    second = fork.open("second", parent=fork.branch, origin="branch", fork_seq=6)
    fork.sessions.fork_at(second.conversation_id, Cut(6, 6.0), [fork.retracted])
    fork.say(user("zebra in the second"), to="second")

    assert {*fork.found("zebra", second, limit=50)} == fork.inherited | {fork.own[0], fork.after[-1] + 1}


def test_a_branch_that_has_not_begun_is_cut_where_the_host_forked_it(fork: Fork) -> None:
    """Before its first message nothing is noted but the host's place."""
    fresh = fork.open("fresh", parent=fork.me, origin="branch", fork_seq=3)

    assert set(fork.found("zebra", fresh, limit=50)) == set(fork.before[:3])


def test_only_summaries_that_end_before_the_fork_are_found(fork: Fork) -> None:
    """A summary that reaches beyond it tells of the parent's future."""
    found = fork.grep("zebra summary", fork.branch, scope="summaries")["results"]

    assert [hit["node_id"] for hit in found] == [fork.early.node_id]


def test_a_hit_names_only_a_summary_that_the_branch_inherits(fork: Fork) -> None:
    """The address would lead to the parent's future."""
    session = fork.branch
    fork.config = replace(fork.config, archive_scope="session")
    fork.node("zebra", fork.before[:4], conversation_id=session.conversation_id)
    hits = {hit["store_id"]: hit.get("summary") for hit in fork.grep("zebra", session, scope="messages")["results"]}

    assert f"sum_{fork.late.node_id}" not in hits.values()
    assert hits[fork.before[4]] is None
    assert hits[fork.before[3]] == f"sum_{fork.late.node_id + 1}"


def test_what_the_parent_takes_back_later_is_still_part_of_the_branch(fork: Fork) -> None:
    """And is not marked as taken back there."""
    marked = {
        hit["store_id"]: hit.get("retracted", False)
        for hit in fork.grep("zebra", fork.branch, scope="messages")["results"]
    }

    assert marked[fork.before[3]] is False
    assert {hit["store_id"]: hit.get("retracted") for hit in fork.grep("zebra", scope="messages", limit=50)["results"]}[
        fork.before[3]
    ] is True


def test_counts_are_those_of_the_branch(fork: Fork) -> None:
    """What an empty search says it searched, and the overview."""
    nothing = fork.grep("giraffe", fork.branch)

    assert nothing["searched_messages"] == len(fork.inherited) + len(fork.own)
    assert fork.call("lcm_describe", fork.branch)["messages"] == nothing["searched_messages"]


def test_a_branch_says_where_its_past_goes_on(fork: Fork) -> None:
    """Up to which message of the parent."""
    page = fork.call("lcm_load_session", fork.branch)

    assert page["continues"] == {"session_id": "main", "as": "branch", "up_to": f"msg_{fork.before[-1]}"}


def test_a_reader_in_a_branch_sees_what_the_branch_sees(fork: Fork) -> None:
    """The evidence pack, and every step that it takes by itself."""
    asked: list[str] = []

    def note(request: dict[str, object]) -> str:
        asked.append(json.dumps(request["messages"]))
        return json.dumps({"answer": "noted", "citedIds": []})

    fork.model = Model(
        wants("search", query="zebra LATER three"),
        wants("expand", address=f"msg_{fork.after[0]}"),
        wants("describe", address=f"sum_{fork.late.node_id}"),
        note,
    )
    fork.call("lcm_expand_query", fork.branch, prompt="What is it about the zebra?")

    assert "zebra in the branch" in asked[0]
    assert "LATER one" not in asked[0]
    assert "LATER two" not in asked[0]
    assert "LATER summary" not in asked[0]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("lcm_grep", {"query": "zebra", "session_scope": "all"}),
        ("lcm_grep", {"query": "zebra", "session_id": "main"}),
        ("lcm_grep", {"query": "zebra", "conversation_id": 1}),
        ("lcm_grep", {"query": "zebra", "scope": "summaries", "session_scope": "all"}),
        ("lcm_load_session", {"session_id": "main"}),
        ("lcm_describe", {"session_id": "main"}),
        ("lcm_describe", {"id": "msg_{after}"}),
        ("lcm_describe", {"id": "sum_{late}"}),
        ("lcm_describe", {"id": "msg_{before}"}),
        ("lcm_expand", {"store_id": "msg_{after}"}),
        ("lcm_expand", {"store_id": "msg_1..msg_99"}),
        ("lcm_expand", {"node_id": "sum_{late}"}),
        ("lcm_expand_query", {"prompt": "zebra", "session_scope": "all"}),
        ("lcm_expand_query", {"prompt": "zebra", "node_ids": ["sum_{late}"]}),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else value,
)
def test_where_the_archive_ends_with_the_session_nothing_of_the_future_can_be_read(
    fork: Fork, tool: str, arguments: dict[str, object]
) -> None:
    """LCM_ARCHIVE_SCOPE=session: no argument of any tool reaches beyond the branch's own past."""
    fork.config = replace(fork.config, archive_scope="session")
    session = replace(fork.branch, principal="telegram:dm:7")
    names = {"after": fork.after[0], "late": fork.late.node_id, "before": fork.before[3]}
    given = json.loads(json.dumps(arguments).replace("{", "{{").replace("}", "}}").replace("{{after}}", "{after}")
                       .replace("{{late}}", "{late}").replace("{{before}}", "{before}").format(**names))  # fmt: skip

    assert "LATER" not in fork.raw(tool, _owned(fork, session), **given)


def _owned(fork: Fork, session: Session) -> Session:
    """The same session when all of it belongs to a chat: the operator of the machine may read everything."""
    with fork.db.transaction():
        fork.db.execute("UPDATE conversations SET principal = ?", (session.principal,))
        fork.db.execute("UPDATE sessions SET principal = ?", (session.principal,))
    found = fork.sessions.find(session.session_id)
    assert found is not None
    return found
