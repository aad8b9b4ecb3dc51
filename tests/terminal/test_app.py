"""The text interface: its tree, its texts, its search; driven by Textual's own pilot."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path

import pytest
from worlds.home import Home

from hermes_lcm.errors import BadRequest
from hermes_lcm.plugin.cli import browse
from hermes_lcm.terminal.shelf import Shelf


@pytest.fixture
def world(tmp_path: Path) -> Home:
    """Two sessions; a summary of ten messages in the first."""
    made = Home(tmp_path / "home")
    first = made.say(*[f"message {n} [bold] of zebras" for n in range(30)])
    made.say("hello", "hi", session="s2")
    made.node(*range(1, 11), text="ten messages about zebras", conversation=first.conversation_id)
    return made


def shelf(world: Home) -> Shelf:
    return Shelf(world.deps(trusted=True))


def test_the_tree_leads_from_sessions_to_messages(world: Home) -> None:
    """By summaries, and by spans of messages."""
    tree = shelf(world)
    first = next(each for each in tree.sessions() if each.label.startswith("s1"))
    summary, span = tree.below(first)
    sources, messages = tree.below(summary), tree.below(span)

    assert (summary.label, span.label) == ("sum_1  verified, depth 0", "messages 1 to 30")
    assert [each.label[:6] for each in sources[:2]] == ["msg_1 ", "msg_2 "]
    assert len(messages) == 30
    assert "ten messages about zebras" in tree.text(summary)
    assert "message 3 [bold] of zebras" in tree.text(messages[3])


def test_a_search_finds_in_all_sessions(world: Home) -> None:
    """As the tab does."""
    assert [each.kind for each in shelf(world).search("hello")] == ["message"]


def test_without_textual_a_sentence_says_how_to_get_it(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """And without a terminal what prints the same."""
    with pytest.raises(BadRequest, match="needs a terminal"):
        browse(world.deps(trusted=True), watched=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadRequest, match="pip install textual"):
        browse(world.deps(trusted=True), watched=True)


def test_it_is_used_by_keys(world: Home) -> None:
    """A session is opened, a message read, a search made; hostile markup stays text."""
    pytest.importorskip("textual")
    from textual.widgets import Static, Tree

    from hermes_lcm.terminal.app import Browser

    async def use() -> None:
        app = Browser(shelf(world))
        async with app.run_test(size=(120, 40)) as pilot:
            tree = app.query_one(Tree)
            assert len(tree.root.children) == 2
            await pilot.press("down", "down", "enter", "down")
            await pilot.pause()
            assert "ten messages about zebras" in str(app.query_one("#text", Static).render())
            await pilot.press("slash", *"hello", "enter")
            await pilot.pause()
            assert "search 'hello': 1 hit" in str(tree.root.children[0].label)
            assert "hello" in str(app.query_one("#text", Static).render())
            await pilot.press("q")

    asyncio.run(use())
