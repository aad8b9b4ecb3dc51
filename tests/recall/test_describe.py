"""Looking without reading: files and their summaries, what is lost, what was named twice (P7, P9)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from worlds.breaking import Host
from worlds.process import chat

from hermes_lcm.dag import fingerprint
from hermes_lcm.records import NewNode

LOG = "\n".join(f"2026-01-02 10:00:{n % 60:02} INFO step {n} done in {n} ms" for n in range(3000))


@pytest.fixture
def host(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A large result in a file, two leaves, one summary over both; and another conversation."""
    monkeypatch.setenv("LCM_LARGE_OUTPUT_EXTERNALIZATION_ENABLED", "true")
    host = Host(hermes_home, window=200_000)
    host.says(chat().user("run it").calls("c1").results("c1", text=LOG).says("done").turns(2))
    dag = host.runtime.dag
    for depth, sources in ((0, (1, 2, 3, 4)), (0, (5, 6, 7, 8)), (1, (1, 2))):
        dag.add(
            NewNode(1, depth, "verified", f"about {sources}", "", 9, 90, sources, fingerprint(depth, sources)), now=1.0
        )
    return host


def ask(host: Host, name: str, **arguments: Any) -> dict[str, Any]:
    found = json.loads(host.tool(name, **arguments))
    assert isinstance(found, dict)
    return found


def file_of(host: Host) -> str:
    return str(ask(host, "lcm_describe", id="sum_1")["files"][0])


@pytest.mark.parametrize("address", ["sum_1", "sum_3"])
def test_a_summary_names_the_files_of_its_messages(host: Host, address: str) -> None:
    """A leaf its own, a condensed one those below."""
    assert ask(host, "lcm_describe", id=address)["files"] == [file_of(host)]
    assert "files" not in ask(host, "lcm_describe", id="sum_2")


def test_a_file_is_looked_at_for_little(host: Host) -> None:
    """What is in it, and its beginning; all of it where a size was asked for, or from an offset on."""
    name = file_of(host)
    looked = ask(host, "lcm_describe", id=name)
    asked = ask(host, "lcm_describe", id=name, max_tokens=6000)

    assert "3,000" in looked["exploration"] or "3000" in looked["exploration"]
    assert looked["content"] == LOG[:2000]
    assert looked["continue_with"]["content_offset"] == 2000
    assert len(asked["content"]) > 4000


def test_a_file_that_is_gone_is_said_to_be_lost(host: Host) -> None:
    """Its description must not pass for the text."""
    before = ask(host, "lcm_expand", store_id=3)
    for path in host.runtime.payloads.folder.rglob("*.z"):
        path.unlink()
    host.runtime.payloads._cache.clear()
    after = ask(host, "lcm_expand", store_id=3)

    assert "notes" not in before
    assert ask(host, "lcm_describe", id="msg_3")["notes"] == after["notes"]
    hits = {hit["address"]: hit.get("notes") for hit in ask(host, "lcm_grep", query="log", format="json")["results"]}
    assert hits["msg_3"] == after["notes"]
    assert [address for address, notes in hits.items() if notes] == ["msg_3"]
    assert f"\nlcm: {after['notes'][0]}" in host.tool("lcm_grep", query="log", format="text")
    assert [file_of(host) in note and "cannot be read" in note for note in after["notes"]] == [True]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("lcm_describe", {"id": "sum_1"}), ("lcm_describe", {"id": "msg_1"}), ("lcm_expand", {"node_id": 1}),
        ("lcm_expand", {"store_id": 1}),
    ],
)  # fmt: skip
def test_an_address_of_another_conversation_is_told(host: Host, tool: str, arguments: dict[str, Any]) -> None:
    """And a conversation that there is not is refused as a search refuses it."""
    host.hooks.pre_api_request(session_id="other", conversation_history=chat().user("elsewhere"), platform="cli")
    other = host.runtime.find_session("other").conversation_id
    disagree = ask(host, tool, **arguments, conversationId=other)
    unknown = ask(host, tool, **arguments, conversationId=999)

    assert [note for note in disagree["notes"] if f"is of conversation 1, not of {other}" in note]
    assert "there is no conversation 999" in unknown["error"]
    assert "notes" not in ask(host, tool, **arguments, conversationId=1)


def test_a_scope_of_one_session_needs_its_name(host: Host) -> None:
    """Beside an id as without one."""
    assert "needs session_id" in ask(host, "lcm_describe", id="sum_1", sessionScope="session")["error"]


def test_several_summaries_are_expanded_one_by_one(host: Host) -> None:
    """The list that a sub-task sends; the first is opened, the others are named."""
    found = ask(host, "lcm_expand", summaryIds=["sum_1", "sum_2"], includeMessages=True)
    one = ask(host, "lcm_expand", summaryIds=["sum_2"])

    assert (found["node_id"], found["then"]) == (1, {"tool": "lcm_expand", "node_ids": ["sum_2"]})
    assert (one["node_id"], "then" in one) == (2, False)


@pytest.mark.parametrize("tool", ["lcm_describe", "lcm_expand"])
def test_a_bare_digest_names_a_file_everywhere(host: Host, tool: str) -> None:
    """With the prefix or without it."""
    digest = ask(host, "lcm_describe", id=file_of(host))["sha256"]

    assert ask(host, tool, externalized_ref=digest)["sha256"] == digest


def test_a_choice_that_is_missing_names_the_choices(host: Host) -> None:
    """An error names the way out."""
    assert "needs operation: one of history, store" in ask(host, "lcm_archive")["error"]


@pytest.mark.parametrize("name", ["sum_1", "sum_3", "file", ""])
def test_a_list_that_is_continued_behind_its_end_says_where_the_end_is(host: Host, name: str) -> None:
    """An empty page would say that there is nothing."""
    asked = {"id": file_of(host) if name == "file" else name} if name else {}

    assert (
        "source_offset=99 is past the end: there are" in ask(host, "lcm_describe", **asked, source_offset=99)["error"]
    )
