"""
Kit of the benchmarks: synthetic conversations, clocks, a bare SQLite table to compare with, and one form of report.

Imports nothing of the plugin at the top, so that a script may set ``HERMES_HOME`` first. Times are seconds inside, milliseconds
in reports. Every figure that is judged is a ratio of two things measured in the same run, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = ROOT / ".lcm-path"

Chat = dict[str, Any]


def importable() -> None:
    """Make ``hermes_lcm`` importable without ever putting the checkout itself on the path."""
    link = LINK / "hermes_lcm"
    if not link.is_symlink():
        LINK.mkdir(exist_ok=True)
        link.symlink_to("..", target_is_directory=True)
    if str(LINK) not in sys.path:
        sys.path.insert(1, str(LINK))
    sys.dont_write_bytecode = True


importable()


# ------------------------------------------------------------------------------------------- synthetic conversations
_ONSETS = "b c d f g h j k l m n p r s t v w br cl cr dr fl gr pl pr st tr sh ch th".split()
_NUCLEI = "a e i o u ai ea ou io ee".split()
_CODAS = "n r s t l m d ck st nd ng rt x p".split() + [""] * 6
_LITTLE = (
    "the of to and a in is it that for was on are with as this be at or from have an we not by but they you which "
    "can will if there all has when so then its what after before into only should now"
).split()
_FOLDERS = "src core api auth billing cache worker tests utils models routes storage sync search report".split()
_SUFFIXES = "py ts go rs yaml md sql json toml".split()
_ERRORS = "ECONNRESET ETIMEDOUT KeyError ValueError NullPointer DEADLINE_EXCEEDED SIGTERM OOMKilled".split()
HAN = "数据库连接超时请检查配置文件服务器重启后恢复正常用户反馈页面加载缓慢我们决定升级版本明天上午发布"


class Words:
    """A vocabulary with Zipf's frequencies; the same for the same seed."""

    def __init__(self, rng: random.Random, size: int = 9000) -> None:
        seen: dict[str, None] = dict.fromkeys(_LITTLE)
        while len(seen) < size:
            syllables = rng.choices((1, 2, 3, 4), (20, 45, 28, 7))[0]
            seen["".join(rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(_CODAS) for _ in range(syllables))] = (
                None
            )
        self.all = list(seen)
        total, self._ends = 0.0, []
        for rank in range(len(self.all)):
            total += 1 / (rank + 3)
            self._ends.append(total)

    def some(self, rng: random.Random, count: int) -> list[str]:
        return rng.choices(self.all, cum_weights=self._ends, k=count)


class Talk:
    """Writes conversations of an agent at work: requests, tool rounds with their outputs, answers."""

    def __init__(self, seed: int, vocabulary: int = 1) -> None:
        self.rng = random.Random(seed)
        self.words = Words(random.Random(vocabulary))
        self._calls = 0
        self.seed = seed

    def prose(self, chars: int) -> str:
        rng, out, size = self.rng, [], 0
        while size < chars:
            sentence = " ".join(self.words.some(rng, rng.randint(6, 18)))
            if rng.random() < 0.25:
                sentence += " " + rng.choice((self.path, self.number, self.name))()
            sentence = sentence[:1].upper() + sentence[1:] + rng.choice((".", ".", ".", "?", ":"))
            out.append(sentence)
            size += len(sentence) + 1
        return " ".join(out)

    def path(self) -> str:
        rng = self.rng
        parts = rng.sample(_FOLDERS, rng.randint(1, 3))
        return "/".join([*parts, f"{self.words.some(rng, 1)[0]}_{rng.randint(1, 400)}.{rng.choice(_SUFFIXES)}"])

    def number(self) -> str:
        rng = self.rng
        return rng.choice((str(rng.randint(100, 99999)), f"{rng.random() * 100:.2f}%", f"{rng.randint(2, 900)} ms",
                           f"v{rng.randint(0, 9)}.{rng.randint(0, 30)}.{rng.randint(0, 9)}"))  # fmt: skip

    def name(self) -> str:
        one, two = self.words.some(self.rng, 2)
        return self.rng.choice((f"{one}_{two}", f"{one}{two.title()}", f"{one.upper()}_{two.upper()}", f"{one}-{two}"))

    def output(self, chars: int) -> str:
        """What a tool prints: a listing, a log, code or JSON."""
        rng, out, size = self.rng, [], 0
        kind = rng.choice(("code", "log", "json", "listing"))
        while size < chars:
            if kind == "code":
                line = (
                    f"{'    ' * rng.randint(0, 3)}{self.name()} = {self.name()}({', '.join(self.words.some(rng, 2))})"
                )
            elif kind == "log":
                line = (f"2026-0{rng.randint(1, 9)}-{rng.randint(10, 28)}T{rng.randint(10, 23)}:{rng.randint(10, 59)}:00Z "
                        f"{rng.choice(('INFO', 'WARN', 'ERROR'))} {self.name()}: {' '.join(self.words.some(rng, 5))} "
                        f"{rng.choice(_ERRORS) if rng.random() < 0.1 else self.number()}")  # fmt: skip
            elif kind == "json":
                line = json.dumps({self.name(): self.number(), "path": self.path(), "id": rng.randrange(10**9)})
            else:
                line = f"-rw-r--r-- 1 dev dev {rng.randint(100, 99999):>7} {self.path()}"
            out.append(line)
            size += len(line) + 1
        return "\n".join(out)

    def size(self, median: float, spread: float, most: int = 12_000) -> int:
        return int(min(most, self.rng.lognormvariate(0, spread) * median))

    def user(self, chars: int = 0) -> Chat:
        if self.rng.random() < 0.04:
            return {"role": "user", "content": "".join(self.rng.choices(HAN, k=60))}
        return {"role": "user", "content": self.prose(chars or self.size(170, 0.7))}

    def answer(self, chars: int = 0) -> Chat:
        return {"role": "assistant", "content": self.prose(chars or self.size(420, 0.7)), "finish_reason": "stop"}

    def round(self, chars: int = 0) -> list[Chat]:
        """An assistant message with one or two calls, and their results."""
        rng, calls, results = self.rng, [], []
        for _ in range(2 if rng.random() < 0.15 else 1):
            self._calls += 1
            call_id = f"call_{self.seed}_{self._calls:06d}"
            tool, arguments = rng.choice((
                ("terminal", {"command": f"grep -rn {self.name()} {self.path()}"}), ("read_file", {"path": self.path()}),
                ("write_file", {"path": self.path(), "content": self.output(300)}), ("search_files", {"query": self.name()}),
            ))  # fmt: skip
            calls.append({"id": call_id, "type": "function",
                          "function": {"name": tool, "arguments": json.dumps(arguments)}})  # fmt: skip
            results.append({"role": "tool", "name": tool, "tool_name": tool, "tool_call_id": call_id,
                            "content": self.output(chars or self.size(700, 0.9))})  # fmt: skip
        said = self.prose(80) if rng.random() < 0.4 else ""
        return [{"role": "assistant", "content": said, "tool_calls": calls, "finish_reason": "tool_calls"}, *results]

    def history(self, count: int) -> list[Chat]:
        """``count`` messages; ends at a turn's end as nearly as the number allows."""
        out: list[Chat] = []
        while len(out) < count:
            out.append(self.user())
            for _ in range(self.rng.choices((0, 1, 2, 4), (25, 35, 25, 15))[0]):
                out.extend(self.round())
            out.append(self.answer())
        del out[count:]
        while out and out[-1].get("tool_calls"):  # a call without its results would be no valid end
            out[-1] = self.answer()
        return out


def reloaded(messages: Sequence[Chat]) -> list[Chat]:
    """Equal messages without one shared object, as a gateway gets them from its database."""
    return json.loads(json.dumps(messages))


def text_of(message: Chat) -> str:
    """Everything of a message that a search should find."""
    calls = "".join(f" {c['function']['name']} {c['function']['arguments']}" for c in message.get("tool_calls") or ())
    return f"{message.get('content') or ''}{calls}"


# ------------------------------------------------------------------------------------------------- bare SQLite
_BARE = """
CREATE TABLE messages(id INTEGER PRIMARY KEY, session TEXT NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX by_session ON messages(session, id);
CREATE VIRTUAL TABLE found USING fts5(content, content='messages', content_rowid='id', tokenize='porter unicode61');
CREATE TRIGGER kept AFTER INSERT ON messages BEGIN
  INSERT INTO found(rowid, content) VALUES (new.id, new.content);
END;
"""


class Bare:
    """The least that a durable, searchable archive costs: one table, FTS5 with external content by trigger, WAL, FULL."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.executescript(_BARE)

    def add(self, session: str, messages: Sequence[Chat]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany(
            "INSERT INTO messages(session, role, content, at) VALUES (?,?,?,?)",
            [(session, m["role"], text_of(m), time.time()) for m in messages],
        )
        self.db.execute("COMMIT")

    def close(self) -> None:
        self.db.close()


# ------------------------------------------------------------------------------------------------- instant model
_LINE = re.compile(r"\S")
_SOURCE = re.compile(r"^(~{4,}) ?source begins.*?$(.*)^\1 ?source ends", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^~{4,}.*$", re.MULTILINE)
_SALIENT = re.compile(r"[\w.~-]*/[\w./~-]+|\b[A-Z][A-Z0-9_]{3,}\b|\b\w+[-_.]\w+(?:[-_.]\w+)*\b|\b\d{3,}\b")


class InstantModel:
    """In the place of the host's auxiliary model: an honest extract of what it was asked to shorten, at once."""

    def __init__(self) -> None:
        self.calls = 0
        self.chars = 0
        self.written = 0
        self.seconds = 0.0
        self._lock = threading.Lock()

    def install(self) -> InstantModel:
        from agent import auxiliary_client

        auxiliary_client.call_llm = self
        return self

    def __call__(self, *_: Any, messages: Sequence[Chat] = (), max_tokens: int | None = None, **__: Any) -> Any:
        began = time.thread_time()
        prompt = "\n".join(str(m.get("content") or "") for m in messages)
        room = max(400, min(int((max_tokens or 2000) * 1.2), len(prompt) // 12))
        text = extract(prompt, room)
        with self._lock:
            self.calls += 1
            self.chars += len(prompt)
            self.written += len(text)
            self.seconds += time.thread_time() - began
        message = SimpleNamespace(role="assistant", content=text, tool_calls=None, refusal=None, reasoning=None)
        usage = SimpleNamespace(
            prompt_tokens=len(prompt) // 4, completion_tokens=len(text) // 4, total_tokens=len(prompt) // 4
        )
        choice = SimpleNamespace(index=0, message=message, finish_reason="stop")
        return SimpleNamespace(id="instant", model="instant", object="chat.completion", usage=usage, choices=[choice])


def extract(prompt: str, room: int) -> str:
    """Lines spread over the source, shortened, then names and figures that it holds."""
    prompt = _source_of(prompt)
    lines = [line.strip() for line in prompt.splitlines() if len(line) > 24 and _LINE.search(line)]
    step = max(1, len(lines) // max(1, room // 180))
    out, used = ["What happened:"], 0  # a line of the source may begin as if somebody thought aloud
    for line in lines[::step]:
        piece = "- " + line[:110].rsplit(" ", 1)[0]
        if used + len(piece) > room * 0.65:
            break
        out.append(piece)
        used += len(piece) + 1
    names: dict[str, None] = {}
    for found in _SALIENT.finditer(prompt, len(prompt) // 5):
        word = found.group()
        if len(word) < 90 and word not in names:
            used += len(word) + 2
            if used > room:
                break
            names[word] = None
    if names:
        out.append("Names and figures: " + ", ".join(names))
    return "\n".join(out)


def _source_of(prompt: str) -> str:
    """What lies between the marks of a summariser's prompt, without them: a good model repeats neither them nor its task."""
    marked = _SOURCE.search(prompt)
    return _FENCE.sub("", marked.group(2)) if marked is not None else prompt


# ------------------------------------------------------------------------------------------------- homes
@contextmanager
def home(where: Path | None = None, **settings: object) -> Iterator[Path]:
    """An empty Hermes home for the block; nothing of the caller's LCM settings reaches it."""
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(("LCM_", "HERMES_")):
            del os.environ[name]
    folder = Path(tempfile.mkdtemp(prefix="lcm-bench-", dir=where))
    os.environ["HERMES_HOME"] = str(folder)
    os.environ.update({f"LCM_{name.upper()}": str(value) for name, value in settings.items()})
    try:
        yield folder
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def data_folder() -> Path | None:
    """Real material to measure with, where there is any: ``LCM_DATA``, or a folder beside the checkout."""
    named = os.environ.get("LCM_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None


# ------------------------------------------------------------------------------------------------- clocks and reports
def timed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
    began = time.perf_counter()
    function(*args, **kwargs)
    return time.perf_counter() - began


def at(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the values lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered) + 0.5) - 1))]


def spread(values: Sequence[float], scale: float = 1000.0) -> list[Any]:
    """n, least, median, 90th and 99th percentile; milliseconds by default."""
    shown = [min(values), statistics.median(values), at(values, 0.9), at(values, 0.99)]
    return [len(values), *(round(scale * v, 3) for v in shown)]


SPREAD = ("n", "min ms", "median ms", "p90 ms", "p99 ms")


#: Writes 4 kB through to the disk ten times a second until its input ends; then prints the seconds of each.
_WRITES = """
import json, os, select, sys, time
file, took = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600), []
while not select.select([sys.stdin], [], [], 0.1)[0]:
    began = time.perf_counter()
    os.pwrite(file, b"x" * 4096, 0)
    os.fdatasync(file)
    took.append(time.perf_counter() - began)
print(json.dumps(took))
"""


class Disk:
    """The disk alone, in a process of its own beside a run: seconds of each write of 4 kB that is waited for."""

    def __init__(self, folder: Path) -> None:
        self._words = [sys.executable, "-c", _WRITES, str(folder / "probe")]
        self.took: list[float] = []

    def __enter__(self) -> Disk:
        self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.took = json.loads(self._process.communicate("\n")[0])


class Report:
    """Tables and judged figures of one benchmark; printed as text, kept as JSON."""

    def __init__(self, name: str, about: str, quick: bool) -> None:
        self.name = name
        self.about = about
        self.quick = quick
        self.tables: list[dict[str, Any]] = []
        self.budgets: list[dict[str, Any]] = []
        self.plots: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._load = os.getloadavg()[0]
        self._began = time.time()

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> None:
        self.tables.append({"title": title, "columns": list(columns), "rows": [list(r) for r in rows], "note": note})

    def plot(
        self, title: str, x: str, y: str, lines: Mapping[str, Sequence[tuple[float, float]]], *, log: bool = False
    ) -> None:
        """Points for a plot of the page; ``log``: both axes."""
        points = {name: [[_short(a), _short(b)] for a, b in line] for name, line in lines.items()}
        self.plots.append({"title": title, "x": x, "y": y, "lines": points, "log": log})

    def budget(self, what: str, value: float, limit: float, *, least: bool = False) -> None:
        """A figure with a limit: at most ``limit``, or (``least``) at least."""
        holds = value >= limit if least else value <= limit
        sign = ">=" if least else "<="
        self.budgets.append({"what": what, "value": round(value, 3), "limit": f"{sign} {limit:g}", "holds": holds})

    def note(self, text: str) -> None:
        self.notes.append(text)

    def data(self) -> dict[str, Any]:
        machine = {
            "python": platform.python_version(), "sqlite": sqlite3.sqlite_version, "system": platform.system(),
            "processors": os.cpu_count(), "load before": round(self._load, 2), "load after": round(os.getloadavg()[0], 2),
        }  # fmt: skip
        return {
            "name": self.name, "about": self.about, "quick": self.quick, "seconds": round(time.time() - self._began, 1),
            "machine": machine, "tables": self.tables, "budgets": self.budgets, "plots": self.plots, "notes": self.notes,
        }  # fmt: skip

    def text(self) -> str:
        data = self.data()
        out = [f"# {self.name}: {self.about}", "", ", ".join(f"{k} {v}" for k, v in data["machine"].items())
               + f"; {'quick' if self.quick else 'full'} run, {data['seconds']} s"]  # fmt: skip
        for table in self.tables:
            out += ["", table["title"], *aligned(table["columns"], table["rows"])]
            out += [table["note"]] if table["note"] else []
        if self.budgets:
            rows = [[b["what"], b["value"], b["limit"], "holds" if b["holds"] else "MISSED"] for b in self.budgets]
            out += ["", "Budgets", *aligned(["what", "measured", "limit", ""], rows)]
        out += ["", *(f"note: {text}" for text in self.notes)] if self.notes else []
        return "\n".join(out) + "\n"

    def finish(self, json_file: str | None) -> int:
        print(self.text(), end="")
        if json_file:
            Path(json_file).parent.mkdir(parents=True, exist_ok=True)
            Path(json_file).write_text(json.dumps(self.data(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return 0


def _short(value: float) -> float:
    return float(f"{value:.4g}") if abs(value) < 1e4 else round(value)


def aligned(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """A table as text: words to the left, figures to the right."""
    cells = [[str(c) for c in columns], *([shown(cell) for cell in row] for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(columns))]
    figures = [all(isinstance(row[n], (int, float)) for row in rows) for n in range(len(columns))]
    lines = [
        "  ".join(
            c.rjust(w) if right else c.ljust(w) for c, w, right in zip(row, widths, figures, strict=True)
        ).rstrip()
        for row in cells
    ]
    return [lines[0], "  ".join("-" * w for w in widths), *lines[1:]]


def shown(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.2f}" if abs(cell) >= 1 else f"{cell:.3f}"
    return str(cell)


def arguments(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer repetitions")
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON")
    parser.add_argument("--where", type=Path, help="folder for temporary databases (on the disk to be measured)")
    return parser
