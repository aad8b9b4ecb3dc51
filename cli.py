"""
``hermes lcm ...``: the verbs of ``/lcm`` at the terminal, with ``--json`` and exit codes.

Works beside a running agent: it reads the same file. What takes long shows what it is doing, on stderr.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TextIO

from .binding import ops_deps
from .command import refused
from .db.files import Progress, silent
from .errors import BadRequest, LcmError
from .ops.answers import newest as newest_named
from .ops.verbs import REFUSED, VERBS, Answer, Verb, Words, flagged, parsed
from .runtime import RUNTIMES, Runtime
from .session import Session

_Parse = Callable[..., tuple[argparse.Namespace, list[str]]]
_EXIT = "exit codes: 0 done or nothing wrong, 1 something is wrong, 2 the request was refused, 3 the database could not do it"
_OPTIONS = ("--session", "--apply", "--dry-run", "--deep", "--json", "--help")


def setup(parser: argparse.ArgumentParser) -> None:
    """Add our arguments to the parser the host made for ``hermes lcm``."""
    width = max(len(f"{verb.name} {verb.usage}") for verb in VERBS)
    lines = [f"  {f'{verb.name} {verb.usage}'.ljust(width)}  {verb.help}" for verb in VERBS]
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["what to do:", *lines, "", _EXIT])
    parser.add_argument("words", nargs="*", metavar="what", help="see below; nothing: status")
    parser.add_argument("--session", help="the session it is about (looking: the newest if none is named)")
    parser.add_argument("--apply", action="store_true", help="do it, instead of showing what would be done")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done (the default)")
    parser.add_argument("--deep", action="store_true", help="status, doctor: read the whole file as well")
    parser.add_argument("--json", action="store_true", help="print the data instead of text")
    parser.parse_known_args = _everywhere(parser)  # type: ignore[method-assign,assignment]


def _everywhere(parser: argparse.ArgumentParser) -> _Parse:
    """Words count behind options too (`rotate --session s1 apply`): argparse takes those of one place only.

    What stands behind a `--` is words, whatever it looks like. An option that is none of ours is refused here: the
    host would answer with the usage of all its commands.
    """
    parse = parser.parse_known_args

    def known(args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:
        typed = list(sys.argv[1:] if args is None else args)
        end = typed.index("--") if "--" in typed else len(typed)
        found, left = parse(typed[:end], namespace)
        found.words = [*found.words, *(word for word in left if not word.startswith("-")), *typed[end + 1 :]]
        if unknown := [word for word in left if word.startswith("-")]:
            parser.exit(REFUSED, f"Not done: {_no_option(unknown[0])}\n")
        return found, []

    return known


def _no_option(word: str) -> str:
    """What is wrong with an option that nobody knows, and which there are."""
    near = difflib.get_close_matches(word.partition("=")[0], _OPTIONS, n=1, cutoff=0.6)
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(_OPTIONS)};"
    return f"`hermes lcm` has no option {word}; {meant} `hermes lcm help` lists what there is"


def handle(args: argparse.Namespace) -> None:
    """What the host calls for ``hermes lcm``; ends the process with the exit code when that is not 0."""
    code = main(args)
    if code:
        raise SystemExit(code)


def main(args: argparse.Namespace, runtime: Runtime | None = None) -> int:
    """Answer on stdout; the exit code."""
    runtime = runtime or RUNTIMES.at()
    session, quotes = None, False
    try:
        verb, words = _chosen(args)
        quotes = verb.quotes
        with _progress(quiet=args.json) as progress:
            session = _session(runtime, args.session, verb)
            deps = replace(ops_deps(runtime, session, None), trusted=True)
            answer = verb.run(deps, replace(words, progress=progress))
    except (LcmError, OSError) as exc:
        answer, quotes = refused(exc), False  # an error is ours, whatever the verb quotes
    if not quotes:
        answer = at_terminal(answer, args.session or (session.session_id if session else None))
    try:
        _show(answer, as_json=args.json)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has seen enough; the interpreter must not complain at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return answer.code


def _chosen(args: argparse.Namespace) -> tuple[Verb, Words]:
    """The verb and its words; arguments of their own stay as they were quoted."""
    typed: list[str] = list(args.words)
    for length in (2, 1):
        name = " ".join(typed[:length]).lower()
        if name and len(typed) >= length and any(verb.name == name for verb in VERBS):
            return _with_options(parsed(name)[0], typed[length:], args)
    return _with_options(parsed(" ".join(typed[:2]))[0], [], args)


def _with_options(verb: Verb, rest: list[str], args: argparse.Namespace) -> tuple[Verb, Words]:
    given = {"apply": args.apply, "dry": args.dry_run, "deep": args.deep}
    return verb, flagged(verb, rest, [flag for flag, on in given.items() if on])


def _session(runtime: Runtime, named: str | None, verb: Verb) -> Session | None:
    if not runtime.db.path.exists():
        if named:
            raise BadRequest(
                f"nothing is stored under a session {named!r}, nor under any other yet ({runtime.db.path})"
            )
        return None
    try:
        if named:
            found = runtime.sessions.find(named)
            if found is None:
                there = newest_named(runtime.sessions)
                raise BadRequest(f"nothing is stored under a session {named!r}; the newest, newest first: {there}")
            return found
        newest = [] if verb.changes else runtime.sessions.recent(principal=None, limit=1)
        return newest[0] if newest else None
    except BadRequest:
        raise
    except LcmError:
        return None  # status and doctor say what is wrong with the database; the others meet it themselves


# -- wording ---------------------------------------------------------------------------------------------
_SLASH = re.compile(r"(?<![\w/.])/lcm(?=[ `)]|$)( rotate(?: apply)?(?=`|$))?")
#: Fields of an answer's data in which we speak to the operator.
_OURS = frozenset(("command", "remedy", "detail", "meaning", "note", "reason", "error", "said", "message"))


def at_terminal(answer: Answer, session_id: str | None) -> Answer:
    """The same answer with the commands as they are typed here: ``hermes lcm ...`` instead of ``/lcm ...``."""

    def typed(found: re.Match[str]) -> str:
        which = f" --session {shlex.quote(session_id)}" if found[1] and session_id else ""
        return f"hermes lcm{found[1] or ''}{which}"

    def spoken(value: Any, ours: bool) -> Any:
        if isinstance(value, str):
            return _SLASH.sub(typed, value) if ours else value
        if isinstance(value, Mapping):
            return {key: spoken(each, key in _OURS) for key, each in value.items()}
        if isinstance(value, list):
            return [spoken(each, ours) for each in value]
        return value

    return replace(answer, text=_SLASH.sub(typed, answer.text), data=spoken(answer.data, False))


# -- showing ---------------------------------------------------------------------------------------------
def _show(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer.data, ensure_ascii=False, indent=2, default=str))
    elif not (sys.stdout.isatty() and _show_rich(answer.data)):
        print(answer.text)


def _show_rich(data: Mapping[str, Any]) -> bool:
    """The doctor's findings as a coloured table; False: not the doctor, or no rich."""
    if "checks" not in data:
        return False
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    colours = {"pass": "green", "warn": "yellow", "fail": "bold red"}
    table = Table(title=f"LCM doctor: {data['overall']}")
    for column in ("check", "status", "finding"):
        table.add_column(column, overflow="fold")
    for each in data["checks"]:
        more = [f"{label}: {each[name]}" for name, label in _PARTS if each.get(name)]
        finding = Text("\n".join([str(each["detail"]), *more]))
        table.add_row(str(each["check"]), Text(each["status"], style=colours[each["status"]]), finding)
    Console().print(table)
    return True


_PARTS = (("meaning", "it means"), ("remedy", "what to do"), ("command", "command"))


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress]:
    """Show on a terminal what is being done and how far it is; nothing where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars
    except ImportError:
        line = Line(sys.stderr)
        try:
            yield line.show
        finally:
            line.clear()
        return
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None, start=False)
        now = ""

        def show(what: str, done: int, total: int) -> None:
            nonlocal now
            if what != now:
                bars.reset(task, description=what, total=total or None)
                now = what
                bars.refresh()
            bars.update(task, completed=done, total=total or None)

        yield show


class Line:
    """A bar on one line of a terminal, for an environment without ``rich``."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown = ""

    def show(self, what: str, done: int, total: int) -> None:
        """What is being done and how far it is; without a total only how much."""
        filled = _BAR * done // total if total else 0
        bar = (
            f" [{'#' * filled}{'.' * (_BAR - filled)}] {100 * done // total} %" if total else f" {done:,}" * bool(done)
        )
        text = f"{what}{bar}"
        if text != self._shown:
            self._out.write("\r" + text.ljust(len(self._shown)))
            self._out.flush()
            self._shown = text

    def clear(self) -> None:
        """Leave the line as it was found."""
        self._out.write("\r" + " " * len(self._shown) + "\r")
        self._out.flush()


_BAR = 24
