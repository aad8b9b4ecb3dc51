"""
Breaking the storage underneath the real engine: every statement of SQLite may fail, in every way, once or from then on.

``Faults`` sits between the plugin and ``sqlite3`` and counts what it is asked: BEGIN, COMMIT, reads, the statements that open a
file. ``Host`` is a process that drives the real engine; ``Host.next()`` is the process after it on the same home.
"""

from __future__ import annotations

import atexit
import copy
import os
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hermes_lcm import command, runtime
from hermes_lcm.ingest.transcript import Transcript
from hermes_lcm.storage.disk import SharedSync
from hermes_lcm.text import content, markup
from worlds.process import Chat, Script, digests
from worlds.recall import as_json

#: How a statement may fail, by SQLite's primary result codes.
KINDS = {
    "full": sqlite3.SQLITE_FULL,
    "input-output": sqlite3.SQLITE_IOERR,
    "busy": sqlite3.SQLITE_BUSY,
    "corrupt": sqlite3.SQLITE_CORRUPT,
    "read-only": sqlite3.SQLITE_READONLY,
}


@dataclass
class Faults:
    """Statement ``at`` (from 1) fails. ``lasting``: so do all after it. ``late``: a COMMIT fails that was done already."""

    code: int = sqlite3.SQLITE_IOERR
    at: int = 0
    lasting: bool = False
    late: bool = False
    seen: int = 0
    fired: list[str] = field(default_factory=list)

    def arm(self, at: int, code: int, *, lasting: bool = False, late: bool = False) -> None:
        self.at, self.code, self.lasting, self.late = at, code, lasting, late
        self.seen, self.fired = 0, []

    def disarm(self) -> list[str]:
        self.at = 0
        return self.fired

    def due(self, sql: str) -> bool:
        if not self.at or (self.late and sql != "COMMIT") or sql == "PRAGMA synchronous=OFF":  # which only tests send
            return False
        self.seen += 1
        if self.seen == self.at or (self.lasting and self.seen > self.at):
            self.fired.append(sql)
            return True
        return False

    def error(self) -> sqlite3.Error:
        kinds = {sqlite3.SQLITE_CORRUPT: sqlite3.DatabaseError}
        error = kinds.get(self.code, sqlite3.OperationalError)(f"made to fail ({self.code})")
        error.sqlite_errorcode = self.code
        return error

    def install(self, monkeypatch: Any) -> Faults:
        """From here on every connection of this process asks this object first."""
        plain = sqlite3.connect

        def connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            self.ask("(opening)")
            made: Any = plain(*args, **{**kwargs, "factory": Connection})
            made.faults = self
            return made  # type: ignore[no-any-return]

        monkeypatch.setattr(sqlite3, "connect", connect)
        monkeypatch.setattr(SharedSync, "wait", lambda *_: None)
        return self

    def ask(self, sql: str) -> None:
        if self.due(sql):
            raise self.error()


class Cursor(sqlite3.Cursor):
    """A cursor whose statements may be made to fail."""

    connection: Connection

    def execute(self, sql: str, *args: Any) -> Any:
        faults = self.connection.faults
        if sql.startswith(
            "PRAGMA synchronous="
        ):  # no test here pulls the plug, and waiting is most of what it would do
            sql = "PRAGMA synchronous=OFF"
        if not faults.due(sql):
            try:
                return super().execute(sql, *args)
            except sqlite3.Error:
                self.close()  # as SQLite's own shortcut does; else the traceback keeps the file open
                raise
        if faults.late and sql == "COMMIT":
            super().execute(sql, *args)
        self.close()
        raise faults.error()

    def executemany(self, sql: str, *args: Any) -> Any:
        self.connection.faults.ask(sql)
        return super().executemany(sql, *args)

    def fetchall(self) -> Any:
        faults = self.connection.faults
        if faults.due("(fetching)"):
            self.close()  # SQLite resets a statement that fails
            raise faults.error()
        return super().fetchall()


class Connection(sqlite3.Connection):
    """A connection all of whose statements go through such cursors."""

    faults: Faults

    def cursor(self, *_: Any) -> Any:
        return super().cursor(Cursor)

    def execute(self, sql: str, *args: Any) -> Any:
        return self.cursor().execute(sql, *args)

    def executemany(self, sql: str, *args: Any) -> Any:
        return self.cursor().executemany(sql, *args)

    def backup(self, *args: Any, **kwargs: Any) -> Any:
        self.faults.ask("(copying)")
        return super().backup(*args, **kwargs)


def terminal_db() -> Any:
    """A host's session database that knows every session as one of its terminal."""
    return SimpleNamespace(get_session=lambda name: {"id": name, "source": "cli"})


class Host:
    """One process with one engine. The model follows a script; the worker works when it is waited for."""

    def __init__(self, home: Path, script: Script | None = None, *, window: int = 5_333, session_id: str = "s") -> None:
        from hermes_lcm.plugin import hooks

        fresh_process()
        os.environ["HERMES_HOME"] = str(home)  # the test's fixture puts it back
        self.home = home
        self.hooks = hooks
        self.script = script or Script()
        self.window = window
        self.session_id = session_id
        self.engine = self.begun()

    def begun(self) -> Any:
        from hermes_lcm.engine import LCMEngine

        engine: Any = LCMEngine()
        engine.update_model("m", self.window)
        engine.bind_session_state(terminal_db(), self.session_id)
        engine.on_session_start(self.session_id, hermes_home=str(self.home), platform="cli")
        engine.runtime.compactor._summarise = self.script
        engine.runtime.ladder.summarise = self.script
        return engine

    @property
    def runtime(self) -> Any:
        return self.engine.runtime

    def next(self) -> Host:
        """The next process on the same home; the present one was killed."""
        return Host(self.home, self.script, window=self.window, session_id=self.session_id)

    def close(self) -> None:
        self.runtime.preparer.stop()
        self.runtime.db.close()

    # -- what the host does ----------------------------------------------------------------------------------
    def says(self, messages: Sequence[dict[str, Any]]) -> None:
        self.hooks.pre_api_request(session_id=self.session_id, conversation_history=messages, platform="cli")

    def ends_turn(self, messages: Sequence[dict[str, Any]]) -> None:
        """With the time that the worker needs."""
        self.hooks.post_llm_call(session_id=self.session_id, conversation_history=messages, platform="cli")
        assert self.runtime.preparer.idle(30)

    def compress(self, messages: list[dict[str, Any]], *, force: bool = False) -> Any:
        """What the host goes on with."""
        out = self.engine.compress(messages, current_tokens=None, force=force)
        if out is not messages:
            self.engine.on_session_start(
                self.session_id, platform="cli", boundary_reason="compression", old_session_id=self.session_id
            )
        return out

    def tool(self, name: str, **arguments: Any) -> str:
        return str(self.engine.handle_tool_call(name, as_json(name, arguments), session_id=self.session_id))

    def command(self, words: str) -> command.Answer:
        session = self.runtime.stored(self.session_id)
        return command.answer(words, command.operator_access(self.runtime, session, self.engine))

    # -- what is there ---------------------------------------------------------------------------------------
    def stored(self) -> list[dict[str, Any]]:
        return [row.stored_json for rows in self.runtime.whole_store.row_batches() for row in rows]

    def topics(self) -> set[str]:
        return {problem.topic for problem in self.runtime.health.problems()}

    def transcript(self, messages: Sequence[dict[str, Any]]) -> Transcript:
        return self.runtime.ingest_list(self.session_id, messages)  # type: ignore[no-any-return]

    def gaps(self, messages: Sequence[dict[str, Any]]) -> tuple[int, int]:
        """P4, counted by hand: messages that the prompt neither shows nor covers, and those that it has twice."""
        transcript = self.transcript(copy.deepcopy(list(messages)))
        dag, session = self.runtime.dag, self.runtime.session(self.session_id)
        raw = [store_id for entry in transcript.entries for store_id in entry.ids]
        roots = transcript.assembly.roots if transcript.assembly else ()
        counted = Counter([*raw, *(store_id for root in roots for store_id in dag.messages_below([root]))])
        thread = [item.store_id for item in self.runtime.ingest.transcripts.expected(session, None)]
        return sum(1 for store_id in thread if store_id not in counted), sum(1 for n in counted.values() if n > 1)


def fresh_process() -> None:
    """What a new process has: nothing but the files. Connections of the old one are dropped as a kill drops them."""
    from hermes_lcm import engine

    atexit.unregister(engine.PROCESS.stop)  # or every process of a test is kept until the end
    for old in engine.PROCESS.runtimes():
        old.preparer.stop()
        old.db.close()
    new = runtime.Process()
    for name, module in sys.modules.copy().items():  # other threads import
        if name.startswith("hermes_lcm") and hasattr(module, "PROCESS"):
            module.PROCESS = new  # type: ignore[attr-defined]


def lost_or_doubled(host: Host, said: Sequence[dict[str, Any]]) -> tuple[list[bytes], list[bytes]]:
    """P1: digests that are missing, and those that are stored too often."""
    stored, meant = Counter(digests(host.stored())), Counter(digests(said))
    return list((meant - stored).elements()), list((stored - meant).elements())


def valid(messages: Sequence[dict[str, Any]]) -> bool:
    """P3, and nothing of ours that is only half there."""
    whole = (
        not messages
        or markup.read_context(str(messages[0].get("content"))) is not None
        or messages[0]["role"] == "user"
    )
    return whole and not [text for text in content.problems(messages) if "begins with" not in text]


def template(folder: Path, build: Callable[[Host], Any], **facts: Any) -> Path:
    """A home that other homes are copies of."""
    home = folder / "template"
    home.mkdir()
    host = Host(home, **facts)
    build(host)
    host.close()
    return home


def copied(source: Path, target: Path) -> Path:
    """A home of its own for one attempt."""
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target)
    return target


def with_new(messages: Chat, first: int, count: int = 1) -> Chat:
    """The live list with so many turns more."""
    return messages.copy().turns(count, first=first)


def a_folder(db: Path) -> Callable[[], None]:
    """A folder at the path of the database, which cannot be read until the returned call takes the folder away."""
    kept = db.with_name("kept")
    db.rename(kept)
    db.mkdir()

    def mend() -> None:
        db.rmdir()
        kept.replace(db)

    return mend
