#!/usr/bin/env python3
"""
Two processes with four chats each on one database, and faults all the time: is anything lost, doubled, or too large?

    python benchmarks/outages.py [--quick] [--json FILE] [--where FOLDER] [--faults N] [--messages N] [--seed N] [--few N]

The messages are those of real transcripts where there are any. As a host does, each process keeps what was said in files of its
own before the plugin sees it, and begins with the list that it had when it was killed. Between two faults every chat says a few
messages, and behind a copy that is put back two at least. Summaries are extracts, so that no model's mood is measured.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import mmap
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import kit
from kit import Chat

PROCESSES, CHATS = 2, 4
WINDOW = int(os.environ.get("OUTAGES_WINDOW", "32000"))
LIMIT_BYTES = 400_000
_IDLE_S = 30.0  # that the worker has at the end
#: Where a chat may stop to let the faults catch up: the first number in the shared file, behind it what each chat has said. Then
#: what each process knows of faults: how many of them its statements have met, how many failures its status has counted, and how
#: often a look at it showed one.
_SLOT = struct.Struct("<q")


class Board:
    """Numbers that all processes see."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(b"\0" * _SLOT.size * (1 + PROCESSES * (CHATS + 3)))
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), 0)

    def __getitem__(self, slot: int) -> int:
        return int(_SLOT.unpack_from(self._map, slot * _SLOT.size)[0])

    def __setitem__(self, slot: int, value: int) -> None:
        _SLOT.pack_into(self._map, slot * _SLOT.size, value)


def knows(process: int) -> int:
    """The first slot of what a process knows of faults."""
    return 1 + PROCESSES * CHATS + 3 * process


#: A statement that failed a moment ago is dealt with first: a stand-in is begun, and only then told of.
_TOLD_WITHIN_S = 2.0
#: Problems that say nothing of a fault of the file.
_OTHERS = ("unknown context message", "unaligned", "secrets", "setting")


# ------------------------------------------------------------------------------------------------ a process with chats
class Talking(threading.Thread):
    """One chat of a host: its transcript in files, its engine, its turns."""

    def __init__(self, number: int, turns: Sequence[list[Chat]], folder: Path, board: Board) -> None:
        super().__init__(daemon=True)
        from hermes_lcm.engine import LCMEngine

        self.number, self.turns, self.folder, self.board = number, turns, folder / f"chat{number}", board
        self.folder.mkdir(exist_ok=True)
        self.session_id = f"chat{number}"
        self.said, self.live = self._resumed()
        self.engine: Any = LCMEngine()
        self.engine.on_session_start(self.session_id, platform="cli")
        self.engine.update_model(model="m", context_length=WINDOW)
        self.largest = 0

    stopped = False  # nobody says anything new

    def _resumed(self) -> tuple[int, list[Chat]]:
        """What the transcript says: how many messages there are, and the list with which the chat goes on."""
        live: list[Chat] = []
        said = 0
        for path in sorted(self.folder.glob("*.json")):
            with suppress(ValueError):  # killed in the middle of writing it
                record = json.loads(path.read_text(encoding="utf-8"))
                live = record["list"] if "list" in record else [*live, record["message"]]
                said += "message" in record
        return said, live

    def _record(self, record: dict[str, Any]) -> None:
        name = self.folder / f"{time.monotonic_ns():020d}"
        name.with_suffix(".tmp").write_text(json.dumps(record), encoding="utf-8")
        name.with_suffix(".tmp").rename(name.with_suffix(".json"))

    def run(self) -> None:
        done = 0
        for turn in self.turns:
            for message in turn:
                done += 1
                if done > self.said and not self.stopped:
                    self.say(message)
            if done >= self.said:
                self.hook("post_llm_call")
        if (
            not self.stopped
        ):  # what failed last is asked once more, as by the next turn: a problem ends where it works again
            self.engine.should_compress(0)
            self.hook("post_llm_call")
        self.board[1 + self.number] = 1 << 40

    def say(self, message: Chat) -> None:
        while self.board[1 + self.number] >= self.board[0]:
            time.sleep(0.005)
        if self.stopped:
            return
        self._record({"message": message})
        self.live.append(message)
        self.said += 1
        if message["role"] != "assistant":
            self.request()
        self.board[1 + self.number] = self.said

    def request(self) -> None:
        """What the host does before it sends a request."""
        from hermes_lcm.host import facts

        size = facts.rough(self.live)
        for _ in range(3):
            if not self.engine.should_compress(size):
                break
            out = self.engine.compress(list(self.live), current_tokens=size)
            if out == self.live:
                break
            self.live = json.loads(json.dumps(out))
            self._record({"list": self.live})
            self.engine.on_session_start(
                self.session_id, platform="cli", boundary_reason="compression", old_session_id=self.session_id
            )
            size = facts.rough(self.live)
        self.hook("pre_api_request")
        self.largest = max(self.largest, size)

    def hook(self, name: str) -> None:
        from hermes_lcm import runtime
        from hermes_lcm.plugin import hooks

        runtime.PROCESS.engines.used = True
        hooks.HOOKS[name](session_id=self.session_id, conversation_history=self.live, platform="cli", model="m")


class Faulty(sqlite3.Cursor):
    """Statements of which one fails."""

    left = met = 0
    code = sqlite3.SQLITE_IOERR
    locked = False  # by the supervisor: that processes wait for each other is no fault

    def execute(self, sql: str, *args: Any) -> Any:
        if Faulty.left:
            Faulty.left -= 1
            if not Faulty.left:
                Faulty.met += 1
                error = sqlite3.OperationalError(
                    "disk I/O error" if Faulty.code == sqlite3.SQLITE_IOERR else "disk is full"
                )
                error.sqlite_errorcode = Faulty.code
                raise error
        try:
            return super().execute(sql, *args)
        except sqlite3.Error as exc:
            Faulty.met += Faulty.locked and getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            self.close()  # as SQLite's own shortcut does; else the traceback would keep the file open
            raise


class Wired(sqlite3.Connection):
    """Connections whose statements may be made to fail."""

    def cursor(self, *_: Any) -> Any:
        return super().cursor(Faulty)

    def execute(self, sql: str, *args: Any) -> Any:
        return self.cursor().execute(sql, *args)


def wired() -> list[float]:
    """Statements and the clock of this process as the supervisor wants them; by how much the clock is wrong."""
    connect, now, shift = sqlite3.connect, time.time, [0.0]
    sqlite3.connect = lambda *args, **facts: connect(*args, **{**facts, "factory": Wired})  # type: ignore[assignment]
    time.time = lambda: now() + shift[0]  # type: ignore[assignment]
    signal.signal(signal.SIGXFSZ, lambda *_: setattr(Faulty, "met", Faulty.met + 1))
    return shift


def worker(number: int, folder: Path, seed: int, messages: int, few: int) -> None:
    """The process: its chats, and what the supervisor tells it to break in itself."""
    import resource

    if os.environ.get("OUTAGES_LOG"):
        logging.basicConfig(level=os.environ["OUTAGES_LOG"], format="%(asctime)s %(process)d %(message)s")
    shift = wired()
    board = Board(folder / "board")
    turns = talk(messages, seed, few)
    os.environ.pop("LCM_DATA", None)  # to the plugin it looks like a setting that is mistyped
    chats = [Talking(n, parts(turns, n, messages), folder, board) for n in range(number * CHATS, (number + 1) * CHATS)]
    seen: set[str] = set()
    for chat in chats:
        chat.start()

    threading.Thread(target=looking, args=(number, board, seen), daemon=True).start()
    for line in sys.stdin:
        what, _, value = line.strip().partition(" ")
        if what in ("end", "stop"):
            Talking.stopped = what == "stop"
            break
        if what == "fail":
            Faulty.code, Faulty.left = (int(each) for each in value.split())
        elif what == "locked":
            Faulty.locked = bool(int(value))
        elif what == "clock":
            shift[0] = float(value)
        elif what == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(value), resource.RLIM_INFINITY))
    finished(chats, seen)


def talk(messages: int, seed: int, few: int) -> list[list[Chat]]:
    """The turns of all chats: ``few`` of them, said again and again, or as many as there are."""
    import material

    turns, _ = material.turns(few or messages // 2, seed)
    return [random.Random(n).choice(turns) for n in range(messages // 2)] if few else turns


def looking(number: int, board: Board, seen: set[str]) -> None:
    """Write down again and again what the status of a process tells."""
    from hermes_lcm import runtime

    slot = knows(number)
    while True:
        told, topics = 0, set[str]()
        for at in runtime.PROCESS.runtimes():
            topics.update(problem.topic for problem in at.health.problems(may_open=False))
            told += sum(at.health.failures.copy().values())
        seen.update(topics)
        board[slot], board[slot + 1] = Faulty.met, told
        board[slot + 2] += any(not topic.startswith(_OTHERS) for topic in topics)
        time.sleep(0.02)


def finished(chats: Sequence[Talking], seen: set[str]) -> None:
    """The chats say what is left, and the worker does what is left for it; what was seen goes to the supervisor."""
    from hermes_lcm import runtime

    for chat in chats:
        chat.join()
    for _ in range(2):  # what failed while the last fault lasted is done after the next turn
        for chat in chats:
            chat.hook("post_llm_call")
        for at in runtime.PROCESS.runtimes():
            at.preparer.idle(_IDLE_S)
    print(json.dumps({"largest": max(chat.largest for chat in chats), "topics": sorted(seen)}), flush=True)


def parts(turns: Sequence[list[Chat]], number: int, messages: int) -> list[list[Chat]]:
    """The turns of one chat: as many as give it its share of the messages."""
    share = messages // (PROCESSES * CHATS)
    out: list[list[Chat]] = []
    for turn in turns[number :: PROCESSES * CHATS]:
        if sum(map(len, out)) >= share:
            break
        out.append(turn)
    return out


# ------------------------------------------------------------------------------------------------ the supervisor
class Run:
    """The processes, and the faults that they meet."""

    def __init__(self, folder: Path, faults: int, messages: int, seed: int, few: int) -> None:
        self.folder, self.home = folder, folder / "home"
        self.home.mkdir()
        (self.home / "config.yaml").write_text("context:\n  engine: lcm\n", encoding="utf-8")
        self.db = self.home / "lcm.db"
        self.faults, self.messages, self.seed, self.few = faults, messages, seed, few
        self.rng = random.Random(seed)
        self.board = Board(folder / "board")
        self.kinds: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.invisible: Counter[str] = Counter()
        self.workers = [self.started(n) for n in range(PROCESSES)]
        self.trace = False
        self.said: Counter[bytes] = Counter()  # so far, and the records of it
        self.known: set[Path] = set()
        self.rest = False  # out of time: what is left is not said

    def started(self, number: int) -> subprocess.Popen[str]:
        env = {**os.environ, "HERMES_HOME": str(self.home), "LCM_SUMMARY_MODEL": "extractive"}
        words = [
            sys.executable,
            __file__,
            "--worker",
            str(number),
            str(self.folder),
            str(self.seed),
            str(self.messages),
            str(self.few),
        ]
        return subprocess.Popen(
            words,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "log").open("a"),
            text=True,
        )

    def tell(self, words: str) -> None:
        for each in self.workers:
            assert each.stdin is not None
            with suppress(OSError):
                each.stdin.write(words + "\n")
                each.stdin.flush()

    def step(self, count: float) -> None:
        """Let every chat say so many messages, and wait for the slowest one; no longer than a stuck one deserves."""
        self.board[0] = int(count)
        end = time.monotonic() + 240  # a process that was killed begins anew, on a busy machine
        while any(self.board[1 + n] < int(count) for n in range(PROCESSES * CHATS)):
            if time.monotonic() > end:
                for each in self.workers:
                    each.send_signal(signal.SIGUSR1)  # where its threads are goes into the log
                time.sleep(1)
                raise TimeoutError(f"chats stand still at {[self.board[1 + n] for n in range(PROCESSES * CHATS)]}")
            time.sleep(0.002)

    def go(self, progress: Callable[[str], None], until: float) -> None:
        share = self.messages / (PROCESSES * CHATS)
        at = 4.0
        self.step(at)
        acts = list(ACTS.items())
        for n in range(self.faults):
            if time.monotonic() > until:
                self.rest = True
                break
            name, act = self.rng.choices(acts, [WEIGHTS.get(name, 10) for name, _ in acts])[0]
            self.kinds[name] += 1
            before_it = self.seen()
            undo = act(self)
            before, at = at, at + (share - 1 - at) / (self.faults - n)
            try:
                # Two messages at least while it lasts: an answer alone stores nothing, and meets nothing.
                self.step(at if undo is None else max(int(before) + 2, (before + at) / 2))
            finally:
                if undo is not None:
                    undo()
            if name in UNSEEN and undo is not None:
                at = min(at + 2, share - 1)
            self.step(at)
            self.judge(name, before_it)
            if self.trace:
                traced(self, n, name)
            if n % 20 == 0:
                progress(f"{n} faults, last {name}")

    def seen(self) -> tuple[list[int], list[int]]:
        """(faults met, failures told or shown) by each process."""
        slots = [knows(n) for n in range(PROCESSES)]
        return [self.board[at] for at in slots], [self.board[at + n] for at in slots for n in (1, 2)]

    def judge(self, name: str, before: tuple[list[int], list[int]]) -> None:
        """Was a fault that a process met told by one? A process that was killed tells nothing, and what hurts nobody neither."""
        if name in HARMLESS:
            return
        time.sleep(0.05)  # a process writes down every 20 ms what it knows
        met, told = self.seen()
        if name in AT_A_STATEMENT and met == before[0]:
            return
        end = time.monotonic() + _TOLD_WITHIN_S
        while told == before[1] and time.monotonic() < end:  # the chats stand still: nothing else can tell
            time.sleep(0.02)
            _, told = self.seen()
        self.met[name] += 1
        self.invisible[name] += told == before[1]

    def end(self) -> list[dict[str, Any]]:
        self.tell("stop" if self.rest else "end")
        self.board[0] = 1 << 41
        out = []
        for each in self.workers:
            said, _ = each.communicate(timeout=300)
            out.append(json.loads(said.splitlines()[-1]))
        return out


Undo = Callable[[], None] | None


def killed(run: Run) -> Undo:
    n = run.rng.randrange(PROCESSES)
    run.workers[n].kill()
    run.workers[n].wait()
    run.workers[n] = run.started(n)
    return None


def locked(run: Run) -> Undo:
    """For as long as the chats go on; they wait once."""
    try:
        other = sqlite3.connect(run.db, isolation_level=None, timeout=1, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
    except sqlite3.Error:
        return None
    run.tell("locked 1")

    def back() -> None:
        other.close()
        run.tell("locked 0")

    return back


def failing(run: Run) -> Undo:
    run.tell(f"fail {sqlite3.SQLITE_IOERR} {run.rng.randrange(1, 60)}")
    return None


def full(run: Run) -> Undo:
    run.tell(f"fail {sqlite3.SQLITE_FULL} {run.rng.randrange(1, 60)}")
    return None


def limited(run: Run) -> Undo:
    size = max((path.stat().st_size for path in run.home.glob("lcm.db*")), default=0)
    run.tell(f"limit {max(LIMIT_BYTES, size)}")
    return lambda: run.tell("limit -1")


def overwritten(run: Run) -> Undo:
    """A page of the file; a copy of before takes its place afterwards, as a backup would."""
    good = run.home / "good"
    good.unlink(missing_ok=True)
    if not copied(run.db, good):
        return None
    size = run.db.stat().st_size
    with run.db.open("r+b") as file:  # another process: nobody's locks here
        file.seek(run.rng.randrange(0, max(1, size // 1024)) * 1024)
        file.write(run.rng.randbytes(1024))
    return lambda: exchanged(run.db, good)


def exchanged(db: Path, good: Path) -> None:
    for ending in ("-wal", "-shm"):
        Path(f"{db}{ending}").unlink(missing_ok=True)
    good.replace(db)


def copied(db: Path, target: Path) -> bool:
    try:
        with (
            closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True, timeout=2)) as now,
            closing(sqlite3.connect(target)) as copy,
        ):
            now.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error:
        return False
    target.chmod(0o600)
    return True


def log_removed(run: Run) -> Undo:
    for ending in run.rng.choice((("-wal",), ("-wal", "-shm"))):
        Path(f"{run.db}{ending}").unlink(missing_ok=True)
    return None


def deleted(run: Run) -> Undo:
    for ending in ("", "-wal", "-shm"):
        Path(f"{run.db}{ending}").unlink(missing_ok=True)
    return None


def replaced(run: Run) -> Undo:
    older = run.home / "older"
    if run.rng.random() < 0.5 or not copied(run.db, older):
        older.unlink(missing_ok=True)
        older.touch(mode=0o600)
    exchanged(run.db, older)
    return None


def renamed(run: Run) -> Undo:
    away = run.home.with_name("away")
    run.home.rename(away)

    def back() -> None:
        for _ in range(100):  # a process that writes just then makes the folder anew
            with suppress(OSError):
                shutil.rmtree(run.home)
            with suppress(OSError):
                away.rename(run.home)
                return
        away.rename(run.home)

    return back


def at_the_end(run: Run) -> Undo:
    """The counter of addresses has none left: SQLite calls that a full disk."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(run.db, timeout=1, isolation_level=None)) as other:
        other.execute("UPDATE sqlite_sequence SET seq = 9223372036854775807 WHERE name = 'messages'")
    return None


def clock(run: Run) -> Undo:
    run.tell(f"clock {run.rng.choice((-86400, -60, 60, 86400))}")
    return lambda: run.tell("clock 0")


def closed(run: Run) -> Undo:
    """Rights: without effect where everything runs as root."""
    for path in run.home.glob("lcm.db*"):
        path.chmod(0o400)
    run.home.chmod(0o500)

    def back() -> None:
        run.home.chmod(0o700)
        for path in run.home.glob("lcm.db*"):
            path.chmod(0o600)

    return back


ACTS: dict[str, Callable[[Run], Undo]] = {
    "process killed": killed, "lock held": locked, "I/O error at a statement": failing, "disk full at a statement": full,
    "file size limit": limited, "page overwritten": overwritten, "log removed": log_removed, "file deleted": deleted,
    "file replaced": replaced, "folder renamed": renamed, "clock jumps": clock, "rights taken": closed,
    "no address left": at_the_end,
}  # fmt: skip
#: Not every one of them comes about: where no statement was run or had to wait long, or no file was as large as that.
AT_A_STATEMENT = {"I/O error at a statement", "disk full at a statement", "file size limit", "lock held"}
#: To whoever may write everywhere, and to a plugin that orders by sequence numbers.
HARMLESS = {"process killed", "clock jumps", *(["rights taken"] if os.geteuid() == 0 else [])}
#: What is put back here nobody has open yet. Taken away before a chat has used it, it would be lost to everybody.
UNSEEN = {"page overwritten"}
WEIGHTS = {
    "I/O error at a statement": 30, "disk full at a statement": 20, "process killed": 6, "lock held": 6, "no address left": 4
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ what is there
def traced(run: Run, n: int, name: str) -> None:
    """One line of what neither the database nor a stand-in holds just then (memory may), and of how much each of them has."""
    from hermes_lcm.text import content

    meant = run.said
    for path in set(run.folder.glob("chat*/*.json")) - run.known:
        run.known.add(path)
        record = json.loads(path.read_text(encoding="utf-8"))
        if "message" in record:
            meant[content.canonical_core(record["message"]).digest] += 1
    there: Counter[bytes] = Counter()
    sizes = []
    for path in sorted((*run.home.glob("*.db"), *run.home.glob("*.saved"), *run.home.glob("lcm-backups/*.sqlite3"))):
        try:
            for ending in ("", "-wal"):  # a copy: whoever opens the file itself takes part
                copy = run.folder / f"traced{ending}"
                copy.unlink(missing_ok=True)
                with suppress(FileNotFoundError):
                    shutil.copy(f"{path}{ending}", copy)
            with closing(sqlite3.connect(run.folder / "traced")) as db:
                rows = [row[0] for row in db.execute("SELECT digest FROM messages WHERE flags & 512 = 0")]
        except sqlite3.Error as exc:
            sizes.append(f"{path.name}: {exc}")
            continue
        if path.parent == run.home:
            there |= Counter(rows)
            sizes.append(f"{path.name} {len(rows)}")
    with (run.folder / "trace").open("a") as file:
        file.write(f"{time.strftime('%H:%M:%S')} {n} {name}: said {meant.total()}, missing {sum((meant - there).values())}, "
                   f"double {sum((there - meant).values())}; {', '.join(sizes)}\n")  # fmt: skip


def judged(run: Run) -> dict[str, Any]:
    """A new process: what is stored of each chat, beside what was said. What asks for a repair gets it first."""
    os.environ["HERMES_HOME"] = str(run.home)
    os.environ.pop("LCM_DATA", None)
    from hermes_lcm import command, runtime
    from hermes_lcm.errors import StoreCorrupt
    from hermes_lcm.ingest.filters import SECRETS
    from hermes_lcm.session import Segment
    from hermes_lcm.text import content

    at = runtime.PROCESS.at(run.home)
    at.standby.settle()
    repair = ""
    try:
        at.db.query("SELECT 1")
    except StoreCorrupt:  # the file of a size limit that lost its log: only an operator takes a damaged file away
        operator = replace(command.operator_access(at, None, None), trusted=True)
        repair = command.answer("doctor repair apply", operator).text
        at.standby.settle()
    lost = doubled = disordered = said = 0
    for folder in sorted(run.folder.glob("chat*")):
        records = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json")))
        meant = [content.canonical_core(record["message"]).digest for record in records if "message" in record]
        said += len(meant)
        session = at.sessions.find(folder.name)
        rows = at.store.heads([Segment(session.conversation_id)]) if session is not None else []
        there = [row.digest for row in rows if not row.flags & 512]
        lost += sum((Counter(meant) - Counter(there)).values())
        doubled += sum((Counter(there) - Counter(meant)).values())
        disordered += there != meant and Counter(there) == Counter(meant)
    deep = command.answer("doctor deep", command.operator_access(at, None, None))
    out = {
        "messages": said, "lost": lost, "doubled": doubled, "chats out of order": disordered,
        "doctor": [line for line in deep.text.splitlines() if "FAILED" in line],
        # Not what is said of the messages, and not a notice that asks for nothing and goes with the process.
        "problems": [each.topic for each in at.health.problems()
                     if each.topic != SECRETS and not each.remedy.startswith("nothing:")],
        "stand-ins left": len(list(run.home.glob("lcm.standby-*.db"))), "repair": repair,
    }  # fmt: skip
    at.preparer.stop()
    at.db.close()
    return out


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        faulthandler.register(signal.SIGUSR1)
        number, folder, seed, messages, few = sys.argv[2:7]
        worker(int(number), Path(folder), int(seed), int(messages), int(few))
        return 0
    parser = kit.arguments(__doc__)
    parser.add_argument("--faults", type=int)
    parser.add_argument("--messages", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="no new fault after so many")
    parser.add_argument("--few", type=int, default=0, help="only so many turns, said again and again")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--trace", action="store_true", help="after each fault, what no file holds just then")
    given = parser.parse_args()
    faults = given.faults or (30 if given.quick else 2000)
    messages = given.messages or (640 if given.quick else 20_000)
    folder = Path(tempfile.mkdtemp(prefix="outages-", dir=given.where))
    began = time.monotonic()
    report = kit.Report("outages", f"{faults} faults, seed {given.seed}", given.quick)
    run = Run(folder, faults, messages, given.seed, given.few)
    run.trace = given.trace
    try:
        run.go(lambda said: print(said, file=sys.stderr, flush=True), began + given.seconds)
        ends = run.end()
        found = judged(run)
    except TimeoutError:
        given.keep = True  # the log says where its threads stood
        raise
    finally:
        for each in run.workers:
            each.kill()
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
    reported(report, run, found, ends)
    print(json.dumps({**found, "met": dict(run.met), "invisible": dict(+run.invisible)}), file=sys.stderr)
    return report.finish(given.json) or int(any(not each["holds"] for each in report.budgets))


def reported(report: kit.Report, run: Run, found: dict[str, Any], ends: Sequence[dict[str, Any]]) -> None:
    """The faults, and what is there afterwards. Where the time was up, fewer than were asked for."""
    report.about = f"{run.kinds.total()} faults, seed {run.seed}" + (
        f", {run.few} turns again and again" if run.few else ""
    )
    told = [[name, n, run.met[name], run.invisible[name]] for name, n in sorted(run.kinds.items())]
    note = f"Met: it hurt a process that may tell it. Harmless here, and left out: {', '.join(sorted(HARMLESS))}."
    report.table("Faults", ("fault", "of it", "met", "not shown by any status"), told, note)
    topics = sorted({topic.partition(" in ")[0] for each in ends for topic in each["topics"]})
    report.note(f"{found['messages']:,} messages in {PROCESSES * CHATS} chats of {PROCESSES} processes; shown meanwhile: "
                + ", ".join(topics))  # fmt: skip
    report.note(
        f"chats out of order: {found['chats out of order']}; problems afterwards: {', '.join(found['problems']) or 'none'}"
    )
    if found["repair"]:
        report.note(f"damaged at the end, and repaired as its status asks for: {found['repair']}")
    for what in ("lost", "doubled"):
        report.budget(f"messages {what}", found[what], 0)
    report.budget("largest request, tokens", max(each["largest"] for each in ends), WINDOW)
    report.budget("faults that no status showed", sum(run.invisible.values()), 0)
    for what in ("problems", "doctor"):
        report.budget(f"{what} afterwards", len(found[what]), 0)
    report.budget("stand-ins left", found["stand-ins left"], 0)


if __name__ == "__main__":
    sys.exit(main())
