"""
The archive as the text interface shows it: a tree, the text of each line, a search.

Reads through the pages of the dashboard, so both show the same with the same rights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..dashboard import conversation, verbs
from ..dashboard.look import Answer, Look
from ..recall.access import Access
from ..text.printable import one_line, printable

_SESSIONS, _MESSAGES, _LABEL_CHARS = 200, 200, 90


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the tree. ``kind``: session, span (of messages), summary or message; ``key``: what it is asked for with."""

    kind: str
    label: str
    key: tuple[Any, ...] = field(default=())

    @property
    def opens(self) -> bool:
        """Is there something below it?"""
        return self.kind not in ("message", "note")


class Shelf:
    """The archive as a tree: sessions; their topmost summaries and spans of messages; what a summary was made of."""

    def __init__(self, deps: Access) -> None:
        self._deps = deps

    def sessions(self) -> list[Item]:
        """The newest sessions."""
        found = conversation.sessions(Look(self._deps, {"limit": _SESSIONS}, "full"))["sessions"]
        return [
            Item(
                "session",
                _label(f"{each['session_id']}  {each['messages']:,} messages  {each['title']}"),
                (each["session_id"],),
            )
            for each in found
        ]

    def below(self, item: Item) -> list[Item]:
        """Lines below a line."""
        if item.kind == "session":
            return self._session(*item.key)
        if item.kind == "span":
            return self._messages(*item.key)
        return list(self._sources(*item.key))

    def text(self, item: Item) -> str:
        """The right side for a line."""
        if item.kind == "message":
            return self._message(*item.key)
        if item.kind == "summary":
            said = conversation.node(self._look(id=item.key[0]))
            size = f"depth {said['depth']}, {said['messages']:,} messages"
            head = f"{said['address']}: {said['state']}, {size}, checks: {said['checks']}"
            return printable(f"{head}\n\n{said['text']}\n\nIt covers msg_{said['first']} to msg_{said['last']}.")
        return printable(item.label)

    def search(self, words: str) -> list[Item]:
        """The hits of a search in all sessions. Raises BadRequest for words that cannot be searched."""
        found = verbs.search(self._look(query=words, limit=50))
        return [
            Item(
                "summary" if each["address"].startswith("sum_") else "message",
                _label(
                    f"{each['address']}  {each.get('session_id', '')}  {each.get('snippet') or each.get('text') or ''}"
                ),
                (int(each["address"].partition("_")[2]),),
            )
            for each in found["results"]
        ]

    def _look(self, session: str = "", **given: Any) -> Look:
        deps = self._deps
        if session and (found := deps.sessions.find(session)) is not None:
            deps = replace(deps, session=found)
        return Look(deps, given, "full")

    def _session(self, session: str) -> list[Item]:
        """Topmost summaries, then spans of messages."""
        line = conversation.graph(self._look(session))
        nodes, low, end = line["nodes"], int(line["from"]), int(line["to"]) + 1
        covered = {child for each in nodes for child in each["of"]} | {each["replaces"] for each in nodes}
        out = [
            Item("summary", f"sum_{each['id']}  {each['state']}, depth {each['depth']}", (each["id"],))
            for each in nodes
            if each["id"] not in covered
        ]
        for at in range(low, end, _MESSAGES) if line["messages"] else ():
            stop = min(end, at + _MESSAGES)
            out.append(Item("span", f"messages {at:,} to {stop - 1:,}", (session, at, stop)))
        return out

    def _messages(self, session: str, low: int, high: int) -> list[Item]:
        found = conversation.messages(self._look(session, **{"from": low, "to": high}))["messages"]
        wanted = [each["id"] for each in found if low <= each["pos"] < high]
        return [
            Item("message", _label(f"msg_{row.store_id}  {row.head.role}: {row.text}"), (row.store_id,))
            for row in self._deps.rows(wanted)
        ]

    def _sources(self, number: int) -> Iterator[Item]:
        said = conversation.node(self._look(id=number, limit=50))
        for each in said["sources"]:
            kind, _, at = each["address"].partition("_")
            yield Item(
                "summary" if kind == "sum" else "message",
                _label(f"{each['address']}  {each['role']}: {each['text']}"),
                (int(at),),
            )
        if said["total"] > len(said["sources"]):
            yield Item("note", f"and {said['total'] - len(said['sources']):,} more")

    def _message(self, number: int) -> str:
        said: Answer = conversation.message(self._look(id=number))
        more = f"\n\n(the first {len(said['text']):,} of {said['chars']:,} characters)" if said["next"] else ""
        calls = "".join(f"\ncalls {each}" for each in said["calls"])
        role = " ".join(filter(None, [said["role"], said["tool"]]))
        head = f"{said['address']}  {role}  session {said['session_id']}"
        return printable(f"{head}\n\n{said['text']}{calls}{more}")


def _label(text: str) -> str:
    return one_line(" ".join(text[: 4 * _LABEL_CHARS].split()))[:_LABEL_CHARS]
