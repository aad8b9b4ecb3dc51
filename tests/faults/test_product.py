"""Every verb on every kind of file, piped and at a terminal: words, an exit code, never a traceback; Ctrl-C included."""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import re
import shutil
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from worlds.home import PAGE_BYTES as PAGE

from hermes_lcm.command import VERBS
from hermes_lcm.config import load
from hermes_lcm.plugin import cli
from hermes_lcm.runtime import Process, Runtime
from hermes_lcm.storage import seals

#: What is typed behind a verb that needs something.
BEHIND = {
    "explain": ["sum_1"], "dissolve": ["sum_1"], "search": ["question"], "show": ["msg_1"], "preset show": [],
    "import": ["x.jsonl"],
    "preset apply": ["balanced", "--dry-run"], "restore": ["latest"],
}  # fmt: skip
NAMES = [verb.name for verb in VERBS]
#: A line of its own, where a bar of progress may have stood before.
STOPPED = re.compile(r"^(?:\r|\x1b\[[?\d]*[A-Za-z])*Stopped( while .+)?\.", re.MULTILINE)


def put(at: int, what: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at : at + len(what)] = what
        path.write_bytes(data)

    return damage


def cut(share: float) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, int(path.stat().st_size * share))


def at_word(word: bytes, what: bytes) -> Callable[[Path], None]:
    return lambda path: put(path.read_bytes().index(word), what)(path)


def sql(*statements: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as raw:
            for each in statements:
                raw.execute(each)

    return damage


def instead(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def root_page(table: str) -> Callable[[Path], None]:
    """The first page of a table or an index is zeros."""

    def damage(path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path)) as raw:
            (page,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        put((page - 1) * PAGE, b"\0" * PAGE)(path)

    return damage


FILES: dict[str, Callable[[Path], Any]] = {
    "sound": lambda _: None,
    "missing": Path.unlink,
    "empty": lambda path: os.truncate(path, 0),
    "a folder": instead(Path.mkdir),
    "a pipe": instead(os.mkfifo),
    "a device": instead(lambda path: path.symlink_to("/dev/null")),
    "text": instead(lambda path: path.write_text("shopping list\n" * 300)),
    "another program's": instead(sql("CREATE TABLE notes(text)")),
    "newer": sql("PRAGMA user_version=999"),
    "half": cut(0.5),
    "no magic": put(0, b"\xff" * 16),
    "no schema": put(100, b"\0" * (PAGE - 100)),
    "no UTF-8": at_word(b"tablemessages", b"tablemess\xff\xfe\xfd\xfc"),
    "noise": put(30 * PAGE, os.urandom(40 * PAGE)),
    "no page of sessions": root_page("sessions"),
    "no sessions": sql("DELETE FROM sessions"),
    "no table": sql("DROP TABLE node_sources"),
    "no words": sql("UPDATE messages SET envelope = x'00'"),
    "no numbers": sql("UPDATE messages SET flags = 'x', seq = 'x' WHERE store_id = 5"),
    "too deep": sql(f"UPDATE assemblies SET tail_ids = '{'[' * 3000}{']' * 3000}'"),
    "a circle": sql("UPDATE node_sources SET store_id = NULL, child_id = 1 WHERE node_id = 1 AND position = 0"),
}
#: What a status, which reads little, tells from a sound file.
FAILED = (
    "no numbers",
    "too deep",
    "missing",
    "empty",
    "no words",
    "no sessions",
    "noise",
    "another program's",
    "half",
    "no magic",
    "no schema",
    "no UTF-8",
    "no table",
    "no page of sessions",
    "a folder",
    "a device",
    "a pipe",
    "text",
    "newer",
)
BROKEN = (
    "half",
    "no magic",
    "no schema",
    "no UTF-8",
    "no table",
    "no words",
    "missing",
    "empty",
    "a folder",
    "a device",
    "a pipe",
    "text",
)


@contextlib.contextmanager
def output(*, terminal: bool) -> Iterator[list[str]]:
    """Stdout and stderr, as a pipe or as a real pseudo-terminal."""
    read, write = pty.openpty() if terminal else os.pipe()
    said: list[str] = []

    def drain() -> None:
        with contextlib.suppress(OSError):  # a terminal that is closed says so
            while part := os.read(read, 65536):
                said.append(part.decode("utf-8", "replace"))

    thread = threading.Thread(target=drain)
    thread.start()
    before = sys.stdout, sys.stderr
    with os.fdopen(write, "w", encoding="utf-8") as file:
        sys.stdout = sys.stderr = file
        try:
            yield said
        finally:
            sys.stdout, sys.stderr = before
    thread.join(10)
    os.close(read)


def typed(home: Path, words: list[str], *, terminal: bool, **variables: str) -> tuple[int, str]:
    """(exit code, what was said) of ``hermes lcm WORDS``, with these environment variables."""
    parser = argparse.ArgumentParser()
    cli.setup(parser)
    runtime = Runtime(home / "lcm.db", load(variables), Process())
    with output(terminal=terminal) as said:
        try:
            args, _ = parser.parse_known_args(words)
            code = cli.main(args, runtime)
        except SystemExit as exc:
            code = int(str(exc.code or 0))
    runtime.db.close()
    return code, "".join(said)


def answers(
    name: str, verb: str, end: tuple[str, ...], source: Path, home: Path, patch: pytest.MonkeyPatch, *, terminal: bool
) -> None:
    """A code that is documented, words, and no exception."""
    shutil.copytree(source, home)
    patch.setenv("HERMES_HOME", str(home))
    FILES[name](home / "lcm.db")
    code, said = typed(home, [*verb.split(), *BEHIND.get(verb, []), *end], terminal=terminal)

    assert code in (0, 1, 2, 3), (name, verb, code, said)
    assert said.strip(), (name, verb)
    assert "Traceback" not in said, (name, verb, said)
    if verb == "doctor" and not end and name in BROKEN:
        assert code == 1, said
    if verb == "status":
        assert code == (name in FAILED), said
    if verb == "restore" and end:
        assert (code, "It is the database now" in said) in ((0, True), (3, False), (2, False)), (name, verb, said)
        assert code != 2 or name == "a device", said
    shutil.rmtree(home)


#: A verb with what is typed at its end.
TYPED = [*((verb, ()) for verb in NAMES)]
TYPED += [(verb, ("--apply",)) for verb in NAMES if verb.startswith("doctor") or verb == "restore"]


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [False, True], ids=["piped", "terminal"])
@pytest.mark.parametrize("name", FILES)
def test_every_verb_answers_on_every_file(
    name: str, terminal: bool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them with each."""
    monkeypatch.chdir(tmp_path)
    for verb, end in TYPED:
        answers(name, verb, end, source, tmp_path / "home", monkeypatch, terminal=terminal)


def test_every_verb_answers_on_a_file(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with one kind of file; status and doctor with every kind."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(FILES):
        for verb, end in [("status", ()), ("doctor", ()), *TYPED[number :: len(FILES)]]:
            answers(name, verb, end, source, tmp_path / "home", monkeypatch, terminal=number % 2 == 1)


@pytest.mark.few(2)
@pytest.mark.parametrize("verb", ["doctor", "backup", "doctor repair", "status"])
def test_ctrl_c_ends_with_words(verb: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 130, and nothing half-made."""
    home = Path(shutil.copytree(source, tmp_path / "home"))
    monkeypatch.setenv("HERMES_HOME", str(home))

    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("hermes_lcm.storage.files.quick_check", stopped)
    monkeypatch.setattr("hermes_lcm.ops.survey.quick_check", stopped)
    monkeypatch.setattr("hermes_lcm.ops.status.disk", stopped)
    code, said = typed(home, verb.split(), terminal=True)

    assert (code, bool(STOPPED.search(said))) == (130, True), said
    assert "Traceback" not in said
    assert [path.name for path in home.rglob(".*lcm*")] == []


def test_ctrl_c_inside_a_function_that_sqlite_calls_ends_with_words(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal is raised where the next Python function begins: SQLite then says that its function raised something."""
    home = Path(shutil.copytree(source, tmp_path / "home"))
    monkeypatch.setenv("HERMES_HOME", str(home))
    talk = tmp_path / "talk.jsonl"
    talk.write_text('{"role": "user", "content": "hello"}\n', encoding="utf-8")
    monkeypatch.setattr(seals.Sealer, "_row", lambda *_: signal.raise_signal(signal.SIGINT))
    started = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs without one
    before = signal.getsignal(signal.SIGINT)
    try:
        code, said = typed(home, ["import", str(talk), "--apply"], terminal=True)
        after = signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, started)

    assert (code, bool(STOPPED.search(said))) == (130, True), said
    assert "What was finished is kept" in said
    assert after is before


def test_ctrl_c_while_a_long_answer_is_printed_is_no_traceback(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hermes lcm export -o -` goes on for minutes; the code is that of whatever is stopped."""
    home = Path(shutil.copytree(source, tmp_path / "home"))
    monkeypatch.setenv("HERMES_HOME", str(home))

    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_show", stopped)

    assert typed(home, ["status"], terminal=True) == (130, "")
