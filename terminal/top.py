"""
The live view: what the first page of the tab says, on one screen, again every two seconds.
"""

from __future__ import annotations

import os
import select
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TextIO

from ..dashboard.conversation import sessions
from ..dashboard.look import Answer, Look
from ..dashboard.now import about, now
from ..ops.render import counted, disk_said, moment, of_earlier, table
from ..recall.access import Access
from ..text.printable import one_line
from .screen import clipped

EVERY_S: Final = 2.0
_REST: Final = 5  # it sleeps so many times as long as a look takes
_SESSIONS: Final = 8
_PROBLEMS: Final = 4
_SIGNS: Final = {"system": "s", "summaries": "#", "state": "*", "tail": "="}
_HOME, _CLEAR, _ALONE, _BACK = "\x1b[H", "\x1b[J", "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


def look(deps: Access) -> Answer:
    """The state to be shown now. Raises StoreError."""
    seen = Look(deps, {"limit": _SESSIONS}, "full")
    return {"at": deps.clock(), **about(seen), **now(seen), **({} if not deps.db.exists else sessions(seen))}


def frame(said: Mapping[str, Any], width: int) -> str:
    """One look as text."""
    lines = [f"hermes lcm top   {moment(said['at'])}", ""]
    if not said["stored"]:
        return "\n".join([*lines, "Installed and active. Nothing is stored yet: send a message."])
    if said["database"]["state"] == "earlier":
        earlier = of_earlier(said["database"].get("messages"), live=False, used=said["engine"] == "lcm")
        return "\n".join([*lines, *earlier])
    rows = [("archive", _archive(said)), ("file", said["database"]["path"])]
    rows.append(("session", f"{said['session_id'] or '(none)'}  {said.get('model') or ''}".rstrip()))
    rows += [*_window(said, width), *_next(said), *_money(said), *_health(said)]
    lines += table(rows, indent="")
    shown = [
        (each["session_id"], counted(each["messages"], "message"), counted(each["summaries"], "summary"),
         moment(each["last_at"])[:16], one_line(each["title"]))
        for each in said.get("sessions", ())
    ]  # fmt: skip
    lines += ["", "Newest sessions", *table(shown, indent="")]
    return "\n".join(clipped(line, width) for line in lines)


def _archive(said: Mapping[str, Any]) -> str:
    messages = counted((said.get("store") or {}).get("total_messages", 0), "message")
    summaries = counted((said.get("dag") or {}).get("total_nodes", 0), "summary")
    disk = said.get("disk")
    return f"{messages}, {summaries}{f'; {disk_said(disk)}' if disk else ''}"


def _window(said: Mapping[str, Any], width: int) -> list[tuple[str, str]]:
    window = said.get("window")
    if not window:
        return []
    room = max(20, min(60, width - 14))
    whole = max(window["size"], window["used"], 1)
    bar = ""
    for part in window["parts"]:
        bar += _SIGNS[part["kind"]] * round(room * part["tokens"] / whole)
    bar = bar[:room].ljust(room, ".")
    mark = min(room - 1, round(room * window["threshold"] / whole))
    bar = f"{bar[:mark]}|{bar[mark + 1 :]}"
    used = f"{window['used']:,} of {window['size']:,} tokens ({100 * window['used'] // whole} %)"
    return [
        ("window", f"[{bar}]"), ("", f"{used}, compacted at {window['threshold']:,}"),
        ("", "s system  # summaries  * present state  = messages  | threshold"),
    ]  # fmt: skip


def _next(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    coming = said.get("next")
    if not coming:
        return []
    when = f"in about {coming['left']:,} tokens" if coming["left"] else "with the next request"
    folds = f"it folds {counted(coming['messages'], 'message')}" if coming["messages"] else "there is nothing to fold"
    return [("next", f"compaction {when}; {folds}")]


def _money(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    money = said.get("money") or {}
    if "total" not in money:
        return []
    saved = money["saved"]
    if not any(money["prices"]["main"]) and not money["total"]["money"]:
        return [("money", "none: a local model costs time, a subscription nothing by the token")]
    spent = f"${money['total']['money']:.2f} in all, ${money['session'].get('money', 0):.2f} here"
    if saved is None:
        return [("money", spent)]
    than = f"${abs(saved):.2f} {'less' if saved >= 0 else 'more'} than Hermes' own compressor"
    return [("money", f"{spent}; {than}, estimated")]


def _health(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    bad = [f"{each['severity']}: {_problem(each['topic'], one_line(each['message']))}" for each in said["problems"]]
    if not bad:
        return [("health", "no problem is known; the doctor checks more")]
    more = [f"and {len(bad) - _PROBLEMS} more: `hermes lcm doctor`"] if len(bad) > _PROBLEMS else []
    return [("health" if not n else "", text) for n, text in enumerate([*bad[:_PROBLEMS], *more])]


def _problem(topic: str, message: str) -> str:
    """A problem with its topic, where the message does not begin with it."""
    return message if message.startswith(topic.removeprefix("setting ")) else f"{topic}: {message}"


# -- on a screen ---------------------------------------------------------------------------------------
def live(frames: Callable[[int], str], keys: TextIO, out: TextIO, every_s: float = EVERY_S) -> None:
    """Draw, wait, draw again; until q, Ctrl-C or the end of the keys. The screen is left as it was found."""
    with _alone(keys, out):
        while True:
            began = time.monotonic()
            columns, lines = shutil.get_terminal_size()
            text = "\n".join(frames(columns).split("\n")[: max(1, lines - 2)])
            out.write(_HOME + text.replace("\n", "\x1b[K\n") + f"\x1b[K\n{_CLEAR}q: leave")
            out.flush()
            wait = max(every_s, _REST * (time.monotonic() - began))
            if select.select([keys], [], [], wait)[0] and _leaves(keys):
                return


def _leaves(keys: TextIO) -> bool:
    typed = os.read(keys.fileno(), 64)
    return not typed or b"q" in typed.lower() or b"\x04" in typed


@contextmanager
def _alone(keys: TextIO, out: TextIO) -> Iterator[None]:
    """The terminal without echo and line buffer, on a screen of its own."""
    import termios  # not on Windows
    import tty

    before = termios.tcgetattr(keys)
    out.write(_ALONE)
    try:
        tty.setcbreak(keys)
        yield
    except KeyboardInterrupt:
        pass
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
        out.write(_BACK)
        out.flush()
