"""
Calls that make, write, rename or remove a file outside SQLite fail, each in turn, with every errno (P1, P2, P9, P10).

A verb says which file, the system's words and the way out; the second run does what the first did not, and leaves nothing
half-made. A turn goes on, and the next one stores and shows everything. By default every 23rd call, with ``-m slow`` all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from faults.test_product import typed
from worlds.breaking import Host, copied, lost_or_doubled, template, valid
from worlds.home import PAGE_BYTES
from worlds.process import Chat, Script, chat, digests, reload
from worlds.refusing import CODES, Refusals, litter

from hermes_lcm.storage import files

STEP = 23
GONE = 4_194_301  # the number of a process that has ended
SAID = (
    chat()
    .turns(6)
    .calls("big")
    .results("big", text="large " + "words and words " * 4000)
    .says("read")
    .turns(20, first=10)
)
KINDS = list(CODES)
#: Settings that a verb needs.
SET = {"retention": {"LCM_RETENTION": "cli:30d=purge"}}


def noise(home: Path) -> None:
    """Pages of the file are overwritten."""
    with (home / "lcm.db").open("r+b") as file:
        file.seek(12 * PAGE_BYTES)
        file.write(b"\xde\xad\xbe\xef" * (PAGE_BYTES // 4))


def salvaged(home: Path) -> None:
    """The header and the schema are gone: leaf pages are scanned."""
    with (home / "lcm.db").open("r+b") as file:
        file.write(bytes(PAGE_BYTES))


def cut(home: Path) -> None:
    """The last fifth of the file is gone."""
    os.truncate(home / "lcm.db", (home / "lcm.db").stat().st_size * 4 // 5)


def gone(home: Path) -> None:
    """Somebody deleted a message by hand; nothing else is wrong."""
    (home / "config.yaml").write_text("context: {engine: lcm}\n", encoding="utf-8")
    with closing(sqlite3.connect(home / "lcm.db", isolation_level=None)) as raw:
        raw.execute("DELETE FROM messages WHERE store_id = 5")


def unreadable_index(home: Path) -> None:
    """Only a cache is damaged: it is made again in the file."""
    with closing(sqlite3.connect(home / "lcm.db", isolation_level=None)) as raw:
        raw.execute("DELETE FROM message_index_data WHERE id > 10")


def broken_state(home: Path) -> None:
    """The host's own file cannot be read."""
    (home / "state.db").write_bytes(b"SQLite format 3\0" + b"\xde\xad" * 4000)


def aged(home: Path) -> None:
    """Everything was said forty days ago."""
    with closing(sqlite3.connect(home / "lcm.db", isolation_level=None)) as raw:
        raw.execute("UPDATE messages SET stored_at = stored_at - 3456000")
        raw.execute("UPDATE sessions SET started_at = started_at - 3456000, ended_at = NULL")
    files.reseal(home / "lcm.db")


def trigger(home: Path) -> None:
    with closing(sqlite3.connect(home / "lcm.db", isolation_level=None)) as raw:
        raw.execute("CREATE TRIGGER odd AFTER INSERT ON messages BEGIN SELECT 1; END")


DAMAGES = (noise, trigger, salvaged, cut, gone, unreadable_index)
#: What is typed, and what was done to the home before.
VERBS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "backup": ("backup", lambda _: None),
    "backup with files": ("backup --with-files", lambda _: None),
    "drill": ("backup drill", lambda _: None),
    "restore": ("restore latest --apply", lambda home: shutil.rmtree(home / "lcm-payloads")),
    "export": ("export s", lambda _: None),
    "import": ("import x.jsonl --apply", lambda _: None),
    "purge": ("purge session other --apply", lambda _: None),
    "redact": ("redact all --apply", lambda _: None),
    "dissolve": ("dissolve sum_1 --apply", lambda _: None),
    "repair": ("doctor repair --apply", noise),
    "repair of triggers": ("doctor repair --apply", trigger),
    "repair of an index": ("doctor repair --apply", unreadable_index),
    "salvage": ("doctor repair --apply", salvaged),
    "salvage of what is left": ("doctor repair --apply", cut),
    "acceptance of a loss": ("doctor accept --apply", gone),
    "rescue of the host's file": ("rescue --apply", lambda _: None),
    "rescue of a damaged one": ("rescue --apply", broken_state),
    "retention": ("retention --apply", aged),
    "install": ("install --apply", lambda _: None),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with payload files, two sessions, a secret, and a backup with its files."""

    def lived(host: Host) -> None:
        said = SAID.copy().says("the password is: password=hunter2hunter2")
        host.says(said)
        host.says(host.compress(said.copy(), force=True))
        host.engine.on_session_start("other", hermes_home=str(host.home), platform="cli")
        host.hooks.pre_api_request(session_id="other", conversation_history=chat().turns(3, first=900), platform="cli")
        host.command("backup with-files")
        (host.home / "x.jsonl").write_text('{"role":"user","content":"from a file"}\n', encoding="utf-8")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LCM_LARGE_OUTPUT_EXTERNALIZATION_ENABLED", "true")
        return template(tmp_path_factory.mktemp("lived"), lived)


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> Refusals:
    return Refusals(monkeypatch)


def stored(home: Path) -> list[str]:
    """Every message that the file holds."""
    with closing(sqlite3.connect(home / "lcm.db")) as raw:
        return [row[0] for row in raw.execute("SELECT hex(digest) FROM messages ORDER BY store_id")]


def kept(home: Path, name: str) -> dict[str, str]:
    """The backups that were there before, by name; of those that a verb must not leave none."""
    before = [] if name in ("purge", "redact") else sorted((home / "lcm-backups").iterdir())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in before}


def verb_refused(
    name: str, source: Path, tmp_path: Path, refusals: Refusals, patch: pytest.MonkeyPatch, step: int
) -> None:
    words, prepare = VERBS[name]

    def made(folder: str) -> Path:
        home = copied(source, tmp_path / folder)
        patch.setenv("HERMES_HOME", str(home))
        patch.chdir(home)
        prepare(home)
        return home

    home = made("whole")
    refusals.arm(0)
    code, _ = typed(home, words.split(), terminal=False, **SET.get(name, {}))
    calls, meant = refusals.seen, stored(home)
    assert calls, name
    for number in range(1, calls + 1, step):
        for lasting in (False, True):
            home = made("home")
            kind = KINDS[(number // step + 3 * lasting) % len(KINDS)]
            refusals.arm(number, CODES[kind], lasting=lasting)
            with patch.context() as other:  # the process of the second run is another one
                other.setattr(os, "getpid", lambda: GONE)
                got, said = typed(home, words.split(), terminal=False, **SET.get(name, {}))
            why, refused = (name, number, kind, lasting, refusals.refused, said), refusals.refused
            refusals.arm(0)
            assert refused or number > 1, why
            assert got in (0, 1, 3), why
            assert "Traceback" not in said, why
            assert got != 3 or (os.strerror(CODES[kind]) in said and "What to do: " in said and str(home) in said), why
            assert prepare in DAMAGES or not files.faults(home / "lcm.db"), why
            assert kept(source, name).items() <= kept(home, name).items(), why
            again, words_again = typed(home, words.split(), terminal=False, **SET.get(name, {}))
            assert again in (code, 0), (why, words_again)
            assert stored(home) == meant, why
            assert not files.faults(home / "lcm.db"), why
            assert name != "purge" or list((home / "lcm-backups").glob("lcm-*")), why
            half_made = [each for each in litter(home) if ".z." not in each]  # of payload files the doctor removes it
            assert not half_made, why
            assert not list(home.glob(".lcm.db.*.drill-*")), why


@pytest.mark.few(2)
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_that_is_refused_a_file_says_so_and_is_mended_by_a_second_run(
    name: str, source: Path, tmp_path: Path, refusals: Refusals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of its calls."""
    verb_refused(name, source, tmp_path, refusals, monkeypatch, STEP)


@pytest.mark.slow
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_may_be_refused_any_file(
    name: str, source: Path, tmp_path: Path, refusals: Refusals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its calls."""
    verb_refused(name, source, tmp_path, refusals, monkeypatch, 1)


def turn_refused(act: str, hermes_home: Path, refusals: Refusals, number: int, kind: str, *, lasting: bool) -> bool:
    """One turn with a large result, of which a call is refused; then one that is not. False: it has fewer calls."""
    shutil.rmtree(hermes_home)
    hermes_home.mkdir()
    host = Host(hermes_home, Script("ok"))
    said = SAID.copy()
    refusals.arm(number, CODES[kind], lasting=lasting)
    host.says(said.copy())
    host.command(act)
    out = Chat(host.compress(said.copy(), force=True))
    refused, why = refusals.refused, (act, number, kind, lasting, refusals.refused)
    refusals.arm(0)
    more = chat().calls("more").results("more", text="large too " + "words again " * 4000).says("read it")
    said.extend(more)
    out.extend(more)
    host.says(out)
    host.ends_turn(out)
    assert valid(out), why
    assert lost_or_doubled(host, said) == ([], []), why
    assert host.gaps(out) == (0, 0), why
    host.close()
    host = host.next()
    host.says(reload(out))
    assert sorted(digests(host.stored())) == sorted(digests(said)), why
    assert host.command("doctor deep").code == 0, (why, host.command("doctor deep").text)
    host.close()
    return bool(refused)


@pytest.mark.few(1)
@pytest.mark.parametrize("act", ["status", "rotate apply", "backup with-files"])
def test_a_turn_that_is_refused_a_file_loses_nothing(
    act: str, hermes_home: Path, refusals: Refusals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Storing, payload files, a compaction, and what is typed meanwhile."""
    monkeypatch.setenv("LCM_LARGE_OUTPUT_EXTERNALIZATION_ENABLED", "true")
    for number in (1, 24):
        for lasting in (False, True):
            kind = KINDS[(number + lasting) % len(KINDS)]
            if not turn_refused(act, hermes_home, refusals, number, kind, lasting=lasting):
                assert number > 1, (act, number)
