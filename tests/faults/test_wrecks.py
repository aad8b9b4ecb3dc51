"""
What happens to files, processes and clocks: kills, damaged pages, lost logs, locks, many writers, a clock that goes backwards.

After each: nothing that was durable is lost, nothing is doubled, no turn is broken (P10), the doctor shows it, and it heals.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worlds.breaking import Faults, Host, copied, lost_or_doubled, template, valid
from worlds.home import readable_home, unprivileged
from worlds.process import Script, World, chat, digests, reload, texts

from hermes_lcm.command import OK
from hermes_lcm.storage.connection import Database

HERE = Path(__file__).resolve().parents[1]
PATHS = os.pathsep.join([str(HERE), str(HERE.parent / ".lcm-path")])
PAGE = 4096
SAID = chat().turns(40).rounds(4).says("done").turns(10, first=50)


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: Any) -> None:
    """Nobody pulls the plug of this process: what is killed here is a process, not a machine."""
    Faults().install(monkeypatch)


def child(code: str, home: Path, *words: str) -> subprocess.Popen[str]:
    """A process of its own with the tests' helpers; it prints, we read."""
    env = {**os.environ, "PYTHONPATH": PATHS, "HERMES_HOME": str(home)}
    command = [sys.executable, "-P", "-c", code, str(home), *words]
    return subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def lived(host: Host) -> None:
    host.says(SAID)
    host.says(host.compress(SAID.copy()))


def heals(host: Host, said: Any) -> None:
    """The next hook stores what is missing; the prompt is complete; the doctor finds nothing."""
    live = said.copy()
    host.says(live)
    assert lost_or_doubled(host, said) == ([], [])
    out = host.compress(live, force=True)
    host.says(out)
    assert valid(out)
    assert host.gaps(out) == (0, 0)
    assert host.command("doctor deep").code == OK, host.command("doctor deep").text


# -- kills ------------------------------------------------------------------------------------------------------
_LIVE = """
import sys
from pathlib import Path
from worlds.breaking import Host
from worlds.process import chat
host = Host(Path(sys.argv[1]))
live = chat()
for n in range(1000):
    live.turns(1, first=n).rounds(1, first=n).says(f"end {n}")
    host.says(live)
    print(n, flush=True)
    if n % 5 == 4:
        host.ends_turn(live)
        out = host.compress(live)
        if out is not live:
            break
while True:
    host.ends_turn(live)
    host.compress(live, force=True)
    print("again", flush=True)
"""


def killed(home: Path, after: int, delay_s: float) -> int:
    """Kill a process at a moment of its life; how many of its turns it had reported as durable."""
    process = child(_LIVE, home)
    assert process.stdout is not None
    told = -1
    for _ in range(after):
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        told = int(line) if line.strip().isdigit() else told
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    return told


def check_killed(home: Path, told: int) -> None:
    said = chat()
    for n in range(told + 1):
        said.turns(1, first=n).rounds(1, first=n).says(f"end {n}")
    host = Host(home)
    assert lost_or_doubled(host, said)[0] == [], "what was durable is gone"
    stored = Counter(digests(host.stored()))
    assert max(stored.values()) == 1
    assert [each for each in home.rglob("*") if each.suffix in (".partial", ".work")] == []
    everything = chat()
    for n in range(told + 6):
        everything.turns(1, first=n).rounds(1, first=n).says(f"end {n}")
    heals(host, everything)
    host.close()


def test_a_process_may_be_killed(hermes_home: Path) -> None:
    """What a hook had stored when it returned is there after a kill, and the next process goes on."""
    check_killed(hermes_home, killed(hermes_home, 4, 0.01))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_a_process_may_be_killed_at_any_moment(seed: int, hermes_home: Path) -> None:
    """In hooks, in the worker, in compactions."""
    rng = random.Random(seed)
    check_killed(hermes_home, killed(hermes_home, rng.randint(1, 14), rng.random() * 0.05))


# -- the file -----------------------------------------------------------------------------------------------------
def scribble(home: Path, first: int, count: int = 1) -> None:
    """Noise over pages of the file (the first is page 0). The write-ahead log is folded in first."""
    path = home / "lcm.db"
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    noise = random.Random(first)
    with path.open("r+b") as file:
        file.seek(first * PAGE)
        file.write(noise.randbytes(count * PAGE))


def pages(home: Path) -> int:
    return (home / "lcm.db").stat().st_size // PAGE


def sweep_pages(tmp_path: Path, step: int) -> None:
    source = template(tmp_path, lived)
    for page in range(0, pages(source), step):
        home = copied(source, tmp_path / "home")
        scribble(home, page)
        host = Host(home, Script("ok"))
        live = SAID.copy().user(f"after page {page}")
        out = host.compress(live)
        assert valid(out), page
        assert isinstance(json.loads(host.tool("lcm_grep", query="question 7")), dict)
        sound = host.command("doctor deep").code == OK
        host.command("doctor repair apply")
        host = host.next()
        host.says(live)
        shown = host.command("doctor deep")
        refused = "restore" in shown.text
        assert refused or lost_or_doubled(host, live)[0] == [], f"page {page}, found sound: {sound}"
        host.close()


def test_a_damaged_page_breaks_no_turn(tmp_path: Path) -> None:
    """The host goes on with its own messages, tools answer, and after a repair everything that it still shows is stored."""
    sweep_pages(tmp_path, 47)


@pytest.mark.slow
def test_any_damaged_page_breaks_no_turn(tmp_path: Path) -> None:
    """The same for every page of the file."""
    sweep_pages(tmp_path, 1)


@pytest.mark.few(3)
@pytest.mark.parametrize("cut", [0, 1, 32, 100, 5000], ids="{} bytes left".format)
def test_a_log_that_was_cut_short_loses_only_what_it_held(cut: int, hermes_home: Path) -> None:
    """What is gone with the log and still shown by the host is stored again, once."""
    host = Host(hermes_home)
    host.says(SAID[:40])
    shutil.copytree(hermes_home, hermes_home.parent / f"left{cut}")
    host.close()
    home = hermes_home.parent / f"left{cut}"
    log = home / "lcm.db-wal"
    (home / "lcm.db-shm").unlink(missing_ok=True)
    log.write_bytes(log.read_bytes()[:cut])

    heals(Host(home), SAID)


@pytest.mark.parametrize("names", [("message_index", "message_terms"), ("node_index", "node_terms"),
                                   ("message_index", "message_terms", "node_index", "node_terms")])  # fmt: skip
def test_an_index_that_is_gone_is_made_again(names: tuple[str, ...], hermes_home: Path) -> None:
    """By the next process, in full."""
    host = Host(hermes_home)
    lived(host)
    host.close()
    with sqlite3.connect(hermes_home / "lcm.db") as raw:
        for name in reversed(names):
            raw.execute(f"DROP TABLE {name}")
    raw.close()
    host = host.next()

    assert host.runtime.index.check(deep=True) == []
    assert json.loads(host.tool("lcm_grep", query="question 7"))["results"]


def test_a_message_that_cannot_be_read_refuses_no_start(hermes_home: Path) -> None:
    """The index is missing and one row is garbage: the next process stores and finds what it can, and says what it cannot."""
    host = Host(hermes_home)
    host.says(SAID)
    host.close()
    with sqlite3.connect(hermes_home / "lcm.db") as raw:
        raw.execute("UPDATE messages SET envelope = x'01ffff' WHERE store_id = 5")
        for name in ("message_terms", "message_index"):
            raw.execute(f"DROP TABLE {name}")
    raw.close()
    host = host.next()
    host.says(SAID.copy().user("one more"))

    assert host.runtime.store.count() == len(SAID) + 1
    assert "unreadable messages" in host.topics()
    assert json.loads(host.tool("lcm_grep", query="one more"))["results"]
    assert host.command("doctor deep").code != OK


def test_a_payload_that_is_gone_is_named(hermes_home: Path, monkeypatch: Any) -> None:
    """The message keeps its placeholder, the doctor names the file, and putting it back is all that is needed."""
    noise = random.Random(3).randbytes(60_000).hex()
    said = chat().user(f"look: data:image/png;base64,{noise}").says("a picture").turns(3)
    host = Host(hermes_home)
    host.says(said)
    (file,) = host.runtime.payloads.folder.rglob("*.z")
    kept = file.read_bytes()
    file.unlink()
    host = host.next()
    host.says(reload(said))
    told = host.command("doctor")

    assert told.code != OK
    assert file.stem[:16] in told.text
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(kept)
    assert host.command("doctor").code == OK
    assert texts(host.stored()) == texts(said)


# -- other processes -------------------------------------------------------------------------------------------------
_LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1] + "/lcm.db", isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
"""


def locked_for(home: Path, seconds: float) -> None:
    """Another process holds the lock: at least three turns, and so many seconds."""
    host = Host(home)
    live = chat().turns(10)
    host.says(live)
    other = child(_LOCK, home)
    assert other.stdout is not None
    assert other.stdout.readline() == "locked\n"
    waited, began = [], time.monotonic()
    while len(waited) < 3 or time.monotonic() < began + seconds:
        live.turns(1, first=100 + len(waited))
        at = time.monotonic()
        host.says(live)
        host.tool("lcm_grep", query="question")
        waited.append(time.monotonic() - at)
        assert valid(host.compress(live, force=True))
        assert "stand-in" in host.topics()
        assert "locked" in host.command("doctor").text
    other.kill()
    other.wait(10)
    host.engine._cooldown_until = host.runtime.db._busy_until = 0.0
    live.turns(1, first=999)
    heals(host, live)
    assert host.topics() == set()
    assert sorted(waited)[len(waited) // 2] < waited[0], "each turn waited, not the first one"


def test_a_lock_of_another_process_costs_turns_a_moment(hermes_home: Path) -> None:
    """The turn goes on, the trouble shows, and everything is stored when the lock is gone."""
    locked_for(hermes_home, 0.0)


@pytest.mark.slow
def test_a_lock_of_thirty_seconds(hermes_home: Path) -> None:
    """As long as an operator's tool may hold it."""
    locked_for(hermes_home, 30.0)


_MANY = """
import sys, threading
from pathlib import Path
from worlds.process import World, chat
home, name, threads, turns = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
world = World(home)
errors = []
def speak(n):
    live = chat()
    session = f"{name}-{n}"
    for at in range(turns):
        live.turns(1, first=at * 1000 + n, words=12)
        for _ in range(200):
            try:
                world.take(live, session)
                break
            except Exception as exc:
                last = exc
        else:
            errors.append(repr(last))
            return
workers = [threading.Thread(target=speak, args=(n,)) for n in range(threads)]
[worker.start() for worker in workers]
[worker.join() for worker in workers]
print(errors)
"""


def many(home: Path, threads: int, turns: int) -> None:
    processes = [child(_MANY, home, name, str(threads), str(turns)) for name in ("one", "two")]
    for process in processes:
        out, err = process.communicate(timeout=900)
        assert out.strip() == "[]", err[-2000:]
    world = World(home)
    for name in ("one", "two"):
        for n in range(threads):
            meant = chat()
            for at in range(turns):
                meant.turns(1, first=at * 1000 + n, words=12)
            assert texts(world.thread(f"{name}-{n}")) == texts(meant)
    assert world.store.count() == 2 * threads * turns * 2
    assert world.runtime.index.check(deep=True) == []
    world.db.close()


def test_two_processes_with_four_threads_each(tmp_path: Path) -> None:
    """Each session complete and in its order."""
    many(tmp_path, 4, 12)


@pytest.mark.slow
def test_two_processes_with_four_threads_each_for_ten_thousand_messages(tmp_path: Path) -> None:
    """The same, for long."""
    many(tmp_path, 4, 625)


# -- engines -----------------------------------------------------------------------------------------------------------
def test_five_hundred_engine_copies_share_one_database(hermes_home: Path) -> None:
    """A gateway copies the engine for every agent: a file handle, a thread or a lock each would be too many."""
    import copy

    host = Host(hermes_home)
    host.says(chat().turns(3))
    before = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    engines = [copy.deepcopy(host.engine) for _ in range(500)]
    for n, engine in enumerate(engines):
        engine.update_model("m", 5_333)
        engine.on_session_start(f"copy{n}", hermes_home=str(hermes_home), platform="cli")
        host.hooks.pre_api_request(
            session_id=f"copy{n}", conversation_history=chat().turns(1, first=n), platform="cli", model="m"
        )
    after = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    assert after[0] <= before[0]
    assert after[1] <= before[1]
    assert host.runtime.store.count() == 3 * 2 + 500 * 2
    assert [host.hooks.PROCESS.engines.of(f"copy{n}") for n in range(500)] == engines


# -- clocks --------------------------------------------------------------------------------------------------------------
@pytest.mark.few(2)
@pytest.mark.parametrize(
    "jump", [-86_400.0 * 400, 86_400.0 * 4000, -1.0], ids=["a year back", "far ahead", "a second back"]
)
def test_a_clock_that_jumps_changes_no_order(jump: float, hermes_home: Path, monkeypatch: Any) -> None:
    """Order comes from the host's list, never from the clock; leases, cool-downs and health survive the jump."""
    host = Host(hermes_home)
    live = SAID.copy()
    host.says(live)
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + jump)
    host = host.next()
    live.turns(8, first=300)
    host.ends_turn(live)
    out: Any = host.compress(live)
    host.says(out)
    assert valid(out)
    assert host.gaps(out) == (0, 0)
    monkeypatch.setattr(time, "time", clock)
    host = host.next()
    out.turns(4, first=400) if hasattr(out, "turns") else out.extend(chat().turns(4, first=400))
    said = live.copy().turns(4, first=400)
    host.ends_turn(out)

    assert lost_or_doubled(host, said) == ([], [])
    assert texts(host.stored()) == texts(said)
    assert host.gaps(out) == (0, 0)
    assert host.topics() == set()


# -- disks -----------------------------------------------------------------------------------------------------------------
@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[Host, bool], None]:
    """SQLite's own limit stands for the end of the disk: for the database, however often it is opened."""
    pages = 0
    connect = Database._connect

    def limited(self: Database, patience: int, *, only_reads: bool = False) -> sqlite3.Connection:
        made = connect(self, patience, only_reads=only_reads)
        if pages and self.file.name == "lcm.db":
            made.execute(f"PRAGMA max_page_count={pages}")
        return made

    def limit(host: Host, on: bool) -> None:
        nonlocal pages
        pages = host.runtime.db.query("PRAGMA page_count")[0][0] if on else 0
        host.runtime.db.close()

    monkeypatch.setattr(Database, "_connect", limited)
    return limit


def test_a_full_disk_costs_no_turn(hermes_home: Path, full: Callable[[Host, bool], None]) -> None:
    """Turns, compactions and tools go on; the doctor says what is wrong; all of it is stored when there is room."""
    host = Host(hermes_home)
    live = SAID.copy()
    host.says(live)
    full(host, True)
    live.turns(60, first=500, words=200)
    host.says(live)
    assert "disk is full" in host.command("doctor").text
    assert valid(host.compress(live)), "extracts, and the host goes on"
    assert "error" not in json.loads(host.tool("lcm_grep", query="question 7"))
    full(host, False)
    host.runtime.standby._not_before = 0.0

    heals(host, live)
    assert host.topics() == set()


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_home_that_cannot_be_written_costs_no_turn(what: str) -> None:
    """The same where the disk is mounted read-only: seen by a user who has no rights there."""
    home = readable_home()
    host = Host(home)
    live = SAID.copy()
    host.says(live)
    host.close()
    for path in home.iterdir():
        path.chmod(0o444)
    home.chmod(0o777 if what == "file" else 0o555)

    def turn() -> list[Any]:
        host = Host(home)
        longer = live.copy().turns(2, first=500)
        host.says(longer)
        return [sorted(host.topics()), valid(host.compress(longer)), host.command("doctor").text]

    topics, sent, told = unprivileged(turn)
    home.chmod(0o700)
    (home / "lcm.db").chmod(0o600)
    assert "stand-in" in topics
    assert sent
    assert "readonly" in told
    heals(Host(home), live.turns(2, first=500))
    shutil.rmtree(home)
