"""
Windows of the text interface, with Textual: the tree on the left, the text on the right, the search below.

Imported only where Textual is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Footer, Input, Static, Tree
from textual.widgets.tree import TreeNode

from ..errors import LcmError
from .shelf import Item, Shelf


class Browser(App[None]):
    """Sessions, their trees, messages, search. Reads when a line is opened; changes nothing."""

    TITLE = "hermes lcm browse"
    CSS = """
    Tree { width: 45%; min-width: 24; }
    #right { width: 1fr; padding: 0 1; border-left: solid $primary; }
    Input { dock: bottom; margin-bottom: 1; display: none; }
    Input.open { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "leave"),
        ("slash", "search", "search"),
        ("escape", "back", "back to the tree"),
        ("tab", "focus_next", "other side"),
    ]

    def __init__(self, shelf: Shelf) -> None:
        super().__init__()
        self._shelf = shelf

    def compose(self) -> ComposeResult:
        """The tree, the text beside it, the line for a search, the keys."""
        with Horizontal():
            yield Tree[Item]("archive", Item("archive", "archive"), id="tree")
            with VerticalScroll(id="right"):
                yield Static("Enter opens a line. / searches. q leaves.", id="text", markup=False)
        yield Input(placeholder="words to search for in all sessions", id="words")
        yield Footer()

    def on_mount(self) -> None:
        """Sessions at the first sight."""
        tree = self.query_exactly_one(Tree)
        tree.root.expand()
        self._fill(tree.root, self._asked(self._shelf.sessions))
        tree.focus()

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[Item]) -> None:
        """Below a line is read when it is opened the first time."""
        node, item = event.node, event.node.data
        if item is not None and item.kind not in ("archive", "found") and not node.children:
            self._fill(node, self._asked(lambda: self._shelf.below(item)))

    def on_tree_node_highlighted(self, event: Tree.NodeHighlighted[Item]) -> None:
        """The text of the line that the cursor is on."""
        item = event.node.data
        if item is None or item.kind in ("archive", "found", "note"):
            return
        try:
            self._say(self._shelf.text(item))
        except LcmError as exc:
            self._say(str(exc))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hits become a branch of the tree, the newest search first."""
        words = event.value.strip()
        self._close()
        if not words:
            return
        found = self._asked(lambda: self._shelf.search(words))
        tree = self.query_exactly_one(Tree)
        label = f"search {words!r}: {len(found)} hit{'' if len(found) == 1 else 's'}"
        branch = tree.root.add(Text(label), Item("found", label), before=0, expand=True)
        self._fill(branch, found)
        self.call_after_refresh(tree.move_cursor, branch.children[0] if found else branch)

    def action_search(self) -> None:
        """Open the line for a search."""
        box = self.query_exactly_one(Input)
        box.value = ""
        box.add_class("open")
        box.focus()

    async def action_back(self) -> None:
        """Leave the line for a search."""
        self._close()

    def _close(self) -> None:
        self.query_exactly_one(Input).remove_class("open")
        self.query_exactly_one(Tree).focus()

    def _fill(self, node: TreeNode[Item], items: list[Item]) -> None:
        for item in items:
            (node.add if item.opens else node.add_leaf)(Text(item.label), item)

    def _asked(self, ask: Callable[[], list[Item]]) -> list[Item]:
        try:
            return ask()
        except LcmError as exc:
            self._say(str(exc))
            return []

    def _say(self, text: str) -> None:
        self.query_exactly_one("#text", Static).update(text)
        self.query_exactly_one("#right", VerticalScroll).scroll_home(animate=False)
