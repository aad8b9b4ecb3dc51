"""
``hermes lcm ...``: the verbs of ``/lcm`` at the terminal, with ``--json`` and exit codes.

Works beside a running agent: it reads the same file. What takes long shows what it is doing, on stderr.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from ..command import VERBS, flagged, help_of, operator_access, overview, perform, refused, verb_of
from ..errors import BadRequest, LcmError, StoreError
from ..host import facts
from ..ops.answers import FAILED, REFUSED, Answer, Verb, Words, at_terminal, one
from ..ops.answers import newest as newest_named
from ..ops.status import UNREADABLE, unreadable
from ..recall.access import Access
from ..runtime import PROCESS, Runtime
from ..session import Session
from ..storage.files import Progress
from ..terminal import screen  # here, because an uninstall removes the folder before its answer is shown
from ..text.printable import printable, printable_json

_Parse = Callable[..., tuple[argparse.Namespace, list[str]]]
_EXIT = (
    "Exit codes: 0 done, nothing wrong; 1 something is wrong; 2 refused; 3 the database could not do it; 130 stopped."
)
#: Options whose name and value are words of the verb.
_WORDS = {
    "since": "cost: from this date on (2026-11-01), or so many days back",
    "messages": "purge: these messages (msg_12,msg_13)",
    "principal": "purge: everything of one person",
    "before": "purge: what was said before this date",
    "matching": "purge: messages that hold this text",
}
_PROGRAMS = ("top", "browse", "completion")
_VERBATIM = ("show", "export", "completion")
_WIDE = 100_000  # columns of a live view that nobody watches: in a pipe nothing is cut
#: Options without a value.
_SWITCHES = {
    "apply": "do it, instead of showing what would be done",
    "dry-run": "only show what would be done; what changes much does so by itself",
    "deep": "status, doctor: read the whole file as well",
    "with-files": "backup: take the payload files along, in one archive",
    "verbose": "doctor: list the checks that passed, too",
    "json": "print the data instead of text",
}
_OPTIONS = tuple(
    f"--{name}" for name in dict.fromkeys(("session", "since", "limit", *_SWITCHES, "output", "help", *_WORDS))
)


def setup(parser: argparse.ArgumentParser) -> None:
    """Add our arguments to the parser the host made for ``hermes lcm``."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"{at_terminal(overview(), None).text}\n\n{_EXIT}"
    parser.add_argument("words", nargs="*", metavar="what", help="the command, see below; without one: status")
    parser.add_argument("--session", help="the session that is meant; to look at, the newest if none is named")
    parser.add_argument("--limit", help="search, sessions, journal: how many to show")
    for name, what in _WORDS.items():
        parser.add_argument(f"--{name}", help=what)
    for name, what in _SWITCHES.items():
        parser.add_argument(f"--{name}", action="store_true", help=what)
    parser.add_argument("-o", "--output", help="export: the file to write, or - for stdout")
    parser.parse_known_args = _everywhere(parser)  # type: ignore[method-assign,assignment]


def _everywhere(parser: argparse.ArgumentParser) -> _Parse:
    """Words count behind options too (`rotate --session s1 apply`): argparse takes those of one place only.

    Arguments behind a `--` are words, also those that look like options. An option that is none of ours is refused here: the
    host would answer with the usage of all its commands.
    """
    parse = parser.parse_known_args

    def known(args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:
        typed = list(sys.argv[1:] if args is None else args)
        if asked := _help_wanted(typed):
            _show(
                at_terminal(asked, None), as_json="--json" in typed
            )  # not to stderr: the host hides that while it parses
            parser.exit()
        end = typed.index("--") if "--" in typed else len(typed)
        parser.error = partial(_wrong, as_json="--json" in typed[:end])  # type: ignore[method-assign]
        found, left = parse(typed[:end], namespace)
        found.words = [*found.words, *(word for word in left if not word.startswith("-")), *typed[end + 1 :]]
        if unknown := [word for word in left if word.startswith("-")]:
            answer = at_terminal(refused(BadRequest(_no_option(unknown[0]))), None)
            _show(answer, as_json=found.json)
            parser.exit(REFUSED)
        return found, []

    return known


def _wrong(message: str, *, as_json: bool) -> NoReturn:
    """Refuse what argparse cannot read, such as an option without its value: in our words, not by all its usage."""
    _show(at_terminal(refused(BadRequest(f"{message}; `/lcm help` lists what there is")), None), as_json=as_json)
    raise SystemExit(REFUSED)


def _help_wanted(typed: list[str]) -> Answer | None:
    """The help of the verb that stands in front of `--help`; without one the parser's own help."""
    at = next((n for n, word in enumerate(typed) if word in ("-h", "--help")), 0)
    names = [word for word in typed[:at] if not word.startswith("-")][:2]
    for length in range(len(names), 0, -1):
        if any(verb.name.startswith(" ".join(names[:length]).lower()) for verb in VERBS):
            return help_of(" ".join(names[:length]))
    return None


def _no_option(word: str) -> str:
    """Error text for an unknown option, with those that there are."""
    near = difflib.get_close_matches(word.partition("=")[0], _OPTIONS, n=1, cutoff=0.7)
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(_OPTIONS)};"
    return f"`hermes lcm` has no option {word}; {meant} `hermes lcm help` lists what there is"


def handle(args: argparse.Namespace) -> None:
    """Entry of ``hermes lcm``; ends the process with the exit code when that is not 0."""
    code = main(args)
    if code:
        raise SystemExit(code)


def main(args: argparse.Namespace, runtime: Runtime | None = None) -> int:
    """Answer on stdout; the exit code."""
    runtime = runtime or PROCESS.at()
    verb, words, session, quotes = None, Words(), None, False
    far, stops = Reached(), list[int]()
    try:
        verb, words = _chosen(args)
        quotes = verb.quotes
        runtime.db.reads_when_full = True
        with _ctrl_c(stops), _progress(far, quiet=args.json) as progress:
            session = _session(runtime, args.session, verb)
            deps = replace(operator_access(runtime, session, None), trusted=True)
            said = replace(words, progress=progress, session=args.session or "")
            answer = perform(verb, deps, said) if verb.name not in _PROGRAMS else _program(runtime, deps, said, args)
    except KeyboardInterrupt:
        answer, quotes = _stopped(verb, words, far.suffix()), False
    except UNREADABLE as exc:
        answer, quotes = refused(unreadable(runtime.db, exc)), False
    except (LcmError, OSError) as exc:
        answer = _stopped(verb, words, far.suffix()) if stops else refused(exc)
        quotes = False  # an error is ours, whatever the verb quotes
    spoken = at_terminal(answer, args.session or (session.session_id if session else None))
    answer = replace(answer, foot=spoken.foot) if quotes else spoken
    try:
        _show(answer, as_json=args.json, whole=verb is not None and verb.name in _VERBATIM)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has seen enough; the interpreter must not complain at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as exc:  # a full disk behind `> file`; what the command did is done
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"The answer cannot be written: {exc.strerror or exc}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:  # the work is done; who stops the printing has seen enough
        return 130
    return answer.code


def _program(runtime: Runtime, deps: Access, words: Words, args: argparse.Namespace) -> Answer:
    """Programs that only a terminal has: the live view, the text interface, the completion of its shell."""
    from ..terminal import completion, top  # only these programs need the pages of the dashboard

    watched = sys.stdin.isatty() and sys.stdout.isatty() and not args.json
    if words.name == "completion":
        text = completion.script(one(words, "a shell: bash, zsh or fish"), _OPTIONS)
        return Answer(text.rstrip("\n"), {"script": text}, file=True)
    if words.name == "browse":
        browse(deps, watched=watched)
        return Answer("")
    if not watched:
        said = top.look(deps)
        return Answer(top.frame(said, _WIDE), said)

    def frame(width: int) -> str:
        session = _session(runtime, args.session, VERBS[0])
        return printable(top.frame(top.look(replace(operator_access(runtime, session, None), trusted=True)), width))

    top.live(frame, sys.stdin, sys.stdout)
    return Answer("")


def browse(deps: Access, *, watched: bool) -> None:
    """Show the text interface until it is left. Raises BadRequest where textual is missing, or nobody watches."""
    if importlib.util.find_spec("textual") is None:
        raise BadRequest(
            "`hermes lcm browse` needs the package textual, which is not installed here. "
            "This gets it, typed in the environment of Hermes: pip install textual"
        )
    if not watched:
        raise BadRequest(
            "`hermes lcm browse` needs a terminal; `hermes lcm sessions` and `hermes lcm search` print what it shows"
        )
    if deps.db.exists:
        deps.db.open()  # a file that cannot be read says why
    from ..terminal import app, shelf

    app.Browser(shelf.Shelf(deps)).run()


@contextmanager
def _ctrl_c(stops: list[int]) -> Iterator[None]:
    """Note each Ctrl-C. One that is raised in a function which SQLite calls comes back as an error of the database."""

    def stop(number: int, _frame: object) -> None:
        stops.append(number)
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    ours = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if ours:  # where it is ignored it stays so, and signals are the main thread's
        signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def _stopped(verb: Verb | None, words: Words, far: str) -> Answer:
    """Ctrl-C: what was committed stays, and nothing is half-made."""
    acts = verb is not None and verb.acts(words)
    kept = "What was finished is kept: the same command does the rest." if acts else "Nothing stored was changed."
    said = f"Stopped{far}. {kept}"
    return Answer(said, {"error": said, "kind": "KeyboardInterrupt"}, 130)


def _chosen(args: argparse.Namespace) -> tuple[Verb, Words]:
    """The verb and its words, options among them; arguments of their own stay as they were quoted."""
    verb, rest = verb_of(list(args.words))
    for name in _WORDS:
        if value := getattr(args, name):
            rest = [*rest, name, value]
    given = {"files": args.with_files, "apply": args.apply, "dry": args.dry_run, "deep": args.deep}
    given |= {"verbose": args.verbose}
    limit = ["--limit", args.limit] if args.limit is not None else []
    if args.output is not None and verb.name != "export":
        raise BadRequest(
            f"`/lcm {verb.name}` writes no file, so it does not take --output; `/lcm help {verb.name}` says more"
        )
    words = flagged(verb, [*rest, *limit], [flag for flag, on in given.items() if on])
    return verb, replace(words, output=args.output or "")


def _session(runtime: Runtime, named: str | None, verb: Verb) -> Session | None:
    if not runtime.db.exists:
        if named:
            raise BadRequest(
                f"nothing is stored under a session {named!r}, nor under any other yet ({runtime.db.path})"
            )
        return None
    with suppress(StoreError):  # status and doctor say what is wrong with the database; the others meet it themselves
        if named:
            found = runtime.sessions.find(named)
            if found is None:
                there = newest_named(runtime.sessions)
                raise BadRequest(f"nothing is stored under a session {named!r}; the newest sessions: {there}")
            return found
        newest = [] if verb.changes else runtime.sessions.recent(principal=None, limit=1)
        return newest[0] if newest else None
    return None


# -- showing ---------------------------------------------------------------------------------------------
#: Words of a report that a terminal shows in colour.
_COLOURS = (
    (re.compile(r"^( *)(FAILED|unhealthy)\b", re.MULTILINE), "31;1"),
    (re.compile(r"^( *)(warning)\b", re.MULTILINE), "33"),
)


def _show(answer: Answer, *, as_json: bool, whole: bool = False) -> None:
    """Print it. At a terminal lines are made to fit and a pager shows what is long; ``whole``: every line as it is."""
    out = sys.stderr if answer.code in (REFUSED, FAILED) else sys.stdout
    if as_json:
        print(printable_json(json.dumps(answer.data, ensure_ascii=False, indent=2, default=str)), file=out)
        return
    text = answer.text if answer.file and not out.isatty() else printable(answer.whole)
    if out.isatty() and not whole:
        text = screen.fitted(text, shutil.get_terminal_size().columns)
    if out.isatty() and facts.colours():
        for words, colour in _COLOURS:
            text = words.sub(f"\\1\x1b[{colour}m\\2\x1b[0m", text)
    paging = out is sys.stdout and out.isatty() and sys.stdin.isatty()
    if text and not (paging and screen.paged(text, *facts.pager())):
        print(text, file=out)


class Reached:
    """Progress of the work, for the line after Ctrl-C."""

    def __init__(self) -> None:
        self.what, self.done, self.total = "", 0, 0

    def suffix(self) -> str:
        """ ", ..." or nothing."""
        of = f" of {self.total:,}" if self.total else ""
        reached = f" ({self.done:,}{of})" if self.done or self.total else ""
        return f" while {self.what}{reached}" if self.what else ""


@contextmanager
def _progress(far: Reached, *, quiet: bool) -> Iterator[Progress]:
    """Show on a terminal what is being done and how far it is, once it takes long; nothing where nobody watches."""
    watched, began = not quiet and sys.stderr.isatty(), time.monotonic()
    with ExitStack() as stack:
        shown: Progress | None = None

        def show(what: str, done: int, total: int) -> None:
            nonlocal shown
            far.what, far.done, far.total = printable(what), done, total
            if shown is None and watched and time.monotonic() - began >= BAR_AFTER_S:
                shown = stack.enter_context(_bar())
            if shown is not None:
                shown(what, done, total)

        yield show


@contextmanager
def _bar() -> Iterator[Progress]:
    """A bar on stderr, by the rich that every host brings along."""
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None, start=False)
        now, series = "", ("", 0)

        def show(what: str, done: int, total: int) -> None:
            nonlocal now, series
            if series != (begun := (what.partition(" ")[0], total)):  # steps of one series are measured together
                bars.reset(task, total=total or None, completed=done)
                series = begun
            if what != now:
                bars.update(task, description=printable(what), completed=done)
                now = what
                bars.refresh()
            bars.update(task, completed=done, total=total or None)

        yield show


BAR_AFTER_S = 0.5  # shorter work shows no bar: it would only flash
