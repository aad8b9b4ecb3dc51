"""
One chat whose database is exchanged again and again, by killed processes, and merged from the files that were left.

Nothing here waits for a lock or a disk: files, lists and merges alone decide what is there in the end. What the host showed is
the truth.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from hermes_lcm.records import Flag
from hermes_lcm.session import Session
from worlds.process import Chat, World, chat, reload, texts, tokens_of

_WORDS = ("ok", "ok", "yes", "go on")
_LONG = tuple(chat().turns(1, first=n, words=120)[1]["content"] for n in range(3))
_LARGE_TOKENS = 2500


class Shelf:
    """The chat, the file that its process uses, and those that wait to be merged."""

    def __init__(self, folder: Path, seed: int, *, undo: bool = False, branch: bool = False) -> None:
        self.folder, self.rng, self.undo, self.branch = folder, random.Random(seed), undo, branch
        self.names = ["s"]
        self.thread: list[dict[str, Any]] = []
        self.live = Chat()
        self.files = 0
        self.left: list[Path] = []
        self.copies: list[Path] = []
        self.log: list[str] = []
        self.compactions = self.merges = 0
        self.world = self._process()
        self.use(self.fresh())

    def _process(self) -> World:
        world = World(self.folder)
        world.runtime.standby.settle = lambda: None  # type: ignore[method-assign]
        return world

    def fresh(self) -> Path:
        self.files += 1
        return self.folder / f"file{self.files}.db"

    @property
    def file(self) -> Path:
        return self.world.db.file

    def use(self, path: Path) -> None:
        self.world.db.use(path)
        self.world.db.open()
        if not self.world.store.count():  # as a stand-in does, or an empty file in the course of time
            number = self.files * 10_000
            with self.world.db.transaction():
                for name in ("messages", "nodes", "assemblies"):
                    self.world.db.execute("INSERT INTO sqlite_sequence(name, seq) VALUES (?,?)", (name, number))

    # -- the host ------------------------------------------------------------------------------------------
    def plays(self, acts: int) -> None:
        self.says(self.rng.choice((1, 5, 15)))
        for _ in range(acts):
            act = self.rng.choices(*zip(*ACTS.items(), strict=True))[0]
            self.log.append(act.__name__)
            act(self)
            if self.rng.random() < 0.6:
                self.log.append("merge")
                self.merge_all()
            self.says(self.rng.choice((0, 0, 0.5, 1, 1, 2, 4)))
        self.merge_all()
        self.says(1)

    def says(self, turns: float) -> None:
        """Half a turn: the process may be killed before the answer."""
        for _ in range(int(2 * turns)):
            if self.undo and self.rng.random() < 0.06:
                self.takes_back()
            if self.branch and self.rng.random() < 0.08:
                self.branches()
            asked = not self.thread or self.thread[-1]["role"] != "user"
            self.says_this(self.rng.choice(_WORDS if asked else (*_WORDS, *_LONG)))

    def goes(self, story: str) -> None:
        """Words in turn, a digit for each of the long ones, ``...`` for a talk up to the next summary, and acts by their names.

        ``exchanged``: for the last copy; ``older``: for the one before; ``merged``: the files that were left; ``undo``: a turn;
        ``branch``: the chat goes on in another session.
        """
        acts = {act.__name__: act for act in ACTS}
        for word in story.split():
            if word in ("exchanged", "older"):
                exchanged(self, self.copies[-1 if word == "exchanged" else -2])
            elif word in acts:
                acts[word](self)
            elif word == "merged":
                self.merge_all()
            elif word == "undo":
                self.takes_back()
            elif word == "branch":
                self.branches()
            elif word == "...":
                self.says_much()
            else:
                self.says_this(_LONG[int(word)] if word.isdigit() else word)

    def says_much(self) -> None:
        before = self.compactions
        while self.compactions == before:
            asked = not self.thread or self.thread[-1]["role"] != "user"
            self.says_this("ok" if asked else _LONG[len(self.thread) // 2 % len(_LONG)])

    def says_this(self, word: str) -> None:
        asked = not self.thread or self.thread[-1]["role"] != "user"
        message = {"role": "user" if asked else "assistant", "content": word, "_n": len(self.thread)}
        self.thread.append(message)
        self.live.append(message)
        self.log.append(f"{message['_n']}")
        self.shows()
        if asked and tokens_of(self.live) > _LARGE_TOKENS:
            out = self.world.compressed(self.live, self.names[-1])
            if out.messages is not None:
                self.log.append("compact")
                self.compactions += 1
                self.live = Chat(out.messages)
                self.shows()

    def shows(self) -> None:
        self.world.take(self.live, self.session().session_id)

    def session(self) -> Session:
        """The session that goes on now. A file that knows nothing of it takes the host's word for what it branched off."""
        session = self.world.session(self.names[0])
        for name in self.names[1:]:
            last = self.world.store.last_seq(session.conversation_id)
            session = self.world.session(name, parent=session, origin="branch", fork_seq=last)
        return session

    def branches(self) -> None:
        if len(self.live) > 3 and self.live[-1]["role"] == "assistant":
            self.log.append("branch")
            self.names.append(f"s{len(self.names)}")

    def takes_back(self) -> None:
        if len(self.live) > 5 and self.live[-1]["role"] == "assistant" and self.live[-2]["role"] == "user":
            self.log.append("undo")
            self.live = Chat(self.live[:-2])
            del self.thread[-2:]

    # -- the files -----------------------------------------------------------------------------------------
    def merge_all(self) -> None:
        """As a process does that finds them beside its database."""
        left, self.left = self.left, []
        for path in self.world.runtime.standby._in_turn(left, last=True):
            self.merges += 1
            self.world.runtime.standby._merged(path)

    def copy(self) -> Path:
        path = self.fresh()
        self.world.db.backup(path)
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode=DELETE")
        return path

    def shown(self) -> list[dict[str, Any]]:
        """What the database shows of the chat."""
        world = self.world
        rows = world.runtime.whole_store.rows(
            [item.store_id for item in world.ingest.transcripts.expected(self.session(), None)]
        )
        return [row.stored_json for row in rows if not row.head.flags & Flag.IMPORTED]

    def verdict(self) -> tuple[int, int, int]:
        """How many messages are lost, how many are there too often, and whether all are there out of order."""
        there, meant = texts(self.shown()), texts(self.thread)
        return (
            (Counter(meant) - Counter(there)).total(),
            (Counter(there) - Counter(meant)).total(),
            there != meant and Counter(there) == Counter(meant),
        )

    def close(self) -> None:
        self.world.preparer.stop()
        self.world.db.close()


# -- acts ------------------------------------------------------------------------------------------------------
def kept(shelf: Shelf) -> None:
    """A copy is made, to take the place of the database some day."""
    shelf.copies.append(shelf.copy())


def killed(shelf: Shelf) -> None:
    file = shelf.file
    shelf.close()
    shelf.live = Chat(
        {**new, **({"_n": old["_n"]} if "_n" in old else {})}
        for old, new in zip(shelf.live, reload(shelf.live), strict=True)
    )
    shelf.world = shelf._process()
    shelf.use(file)


def exchanged(shelf: Shelf, copy: Path | None = None) -> None:
    """A copy of before takes the place of the file."""
    if shelf.copies:
        shelf.left.append(shelf.file)
        path = shelf.fresh()
        shutil.copy(copy or shelf.rng.choice(shelf.copies[-2:]), path)
        shelf.use(path)


def renewed(shelf: Shelf) -> None:
    """So does a copy of now."""
    shelf.left.append(shelf.file)
    shelf.use(shelf.copy())


def emptied(shelf: Shelf) -> None:
    shelf.left.append(shelf.file)
    shelf.use(shelf.fresh())


def exchanged_and_killed(shelf: Shelf) -> None:
    exchanged(shelf)
    killed(shelf)


def emptied_and_killed(shelf: Shelf) -> None:
    emptied(shelf)
    killed(shelf)


def back(shelf: Shelf) -> None:
    """A file that was left takes its place again."""
    if shelf.left:
        path = shelf.left.pop(shelf.rng.randrange(len(shelf.left)))
        shelf.left.append(shelf.file)
        shelf.use(path)


ACTS = {
    kept: 3,
    killed: 3,
    exchanged: 3,
    renewed: 2,
    emptied: 2,
    exchanged_and_killed: 3,
    emptied_and_killed: 2,
    back: 2,
}
