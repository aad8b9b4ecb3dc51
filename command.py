"""
Operator verbs: one table for ``/lcm`` in the chat and ``hermes lcm`` at the terminal; words in, answer out.

A verb takes parsed words and gives an ``Answer``. Verbs that change something show what they would do, and do it when told
"apply"; before that a verified backup is made. Adding a verb is adding a row.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import tempfile
import textwrap
import time
from collections.abc import Collection
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from .config import Config, setting_text
from .errors import BadRequest, LcmError, NotFound, StoreError, way_out, worded
from .exam import grading
from .fleet import forget as purging
from .fleet import verbs as fleet
from .host import facts
from .importers import verbs as importers
from .ops import backup, explain, journal, ledger, listing, presets, pull, redaction, render, rotate, settings
from .ops import verbs as ops
from .ops.answers import FAILED, FOUND, OK, REFUSED, Answer, Verb, Words, one, terminal_only
from .ops.doctor import checks, repair
from .ops.doctor import verbs as doctor
from .ops.forget import verbs as forget
from .ops.status import UNREADABLE, status, unreadable
from .recall.access import Access, EngineState
from .runtime import LiveEngine, Runtime, by_itself, numbers, rights_of
from .search.scope import OWN_SESSION, Rights
from .session import Session, principal_of
from .text.printable import printable

_OPERATORS = (
    "`/lcm {0}` works on the whole archive, which others have a part in; it is the operator's: `hermes lcm {0}`"
)
_FLAGS = {"apply": "apply", "--apply": "apply", "--dry-run": "dry", "dry-run": "dry", "deep": "deep", "--deep": "deep",
          "with-files": "files", "--with-files": "files", "verbose": "verbose", "--verbose": "verbose"}  # fmt: skip
_ERASING = ("redact", "purge")
_OF_WORDS = ("ledger correct", "config set")  # behind them "apply" and "deep" are words like others
#: Verbs that are not asked where there is no database: looking makes none.
_OF_WHAT_IS_STORED = frozenset((
    "doctor clean", "doctor accept", "doctor source", "doctor retention", "doctor duplicates", "export",
    "explain", "dissolve", "search", "cost", "sessions", "show", "journal", "notices", "recall", "redact", "redact preview",
    "purge", "pin", "retention", "exam", "ledger",
    "fleet push", "fleet verify", "fleet keep",
))  # fmt: skip

#: Of these, verbs of one thing that is stored: where nothing is, it is not.
_OF_ONE_THING = frozenset(("explain", "dissolve", "show", "pin"))


# -- verbs that need more than one package -------------------------------------------------------------------
def _status(deps: Access, words: Words) -> Answer:
    data = status(deps, deep=words.deep, wrong=_lost(deps))
    damaged = data["database"]["state"] == "failed" or data["database"].get("damaged")
    at_risk = any(each["severity"] == "error" for each in data["problems"])
    return Answer(render.status_text(data), data, FOUND if damaged or at_risk else OK)


def _lost(deps: Access) -> StoreError | None:
    """Damage that a short look finds: a database that is gone, or that answers and is damaged all the same."""
    try:
        if deps.db.exists:
            if deps.reads_all and (damaged := repair.glanced(deps)):
                damaged.remedy = "`/lcm doctor repair` says what can be saved, with `apply` it saves it"
                return damaged
            return None
        if not (left := backup.left_of(deps)):
            return None
    except (LcmError, OSError):
        return None  # the status meets it itself
    error = StoreError(backup.gone(deps, left))
    if not deps.reads_all:
        error.remedy = backup.ASK_OPERATOR
        return error
    best = backup.best_backup(deps)
    error.remedy = "put the file back from where it was moved to" if best is None else backup.way_back(deps)
    if best is not None and best.sound:
        error.remedy = f"`/lcm restore {best.path.name} apply`"
    return error


def _exam(deps: Access, _words: Words) -> Answer:
    data = grading.exam(deps)
    return Answer(grading.text(data), data)


def _sought(_deps: Access, words: Words) -> str:
    if not "".join(words.rest).strip():
        raise BadRequest("`/lcm search` needs words to look for")
    return " ".join(words.rest)


def _search(deps: Access, words: Words) -> Answer:
    data = explain.search(deps, _sought(deps, words), session_id=words.session, limit=words.limit)
    lines = [
        line
        for each in data["results"]
        if not each["near"]
        for line in (
            f"{each['address']}  {each['when']}  {each['session_id']}",
            f"    {each['role']}: {each['snippet']}",
        )
    ]
    near = sorted((each["address"] for each in data["results"] if each["near"]), key=lambda each: int(each[4:]))
    lines += [f"Neighbours of these messages, which need not hold the words: {', '.join(near)}"] if near else []
    if not lines and (wrong := repair.glanced(deps)):
        raise wrong
    notes = [f"({note})" for note in data["notes"]]
    foot = [f"`/lcm show {data['results'][0]['address']}` prints a message whole."] if lines else []
    return Answer("\n".join([*(lines or ["Nothing was found."]), *notes]), data, foot="".join(foot))


def _program(_deps: Access, words: Words) -> Answer:
    raise BadRequest(f"this needs a terminal of its own: type `hermes lcm {words.name}` in one")


def _drill(deps: Access, words: Words) -> Answer:
    """A backup (the best one, unless one is named), put into a home of its own, examined, and compared with what is here."""
    began = time.monotonic()
    name = one(words, "one backup, or none for the best") if words.rest else "latest"
    if not words.rest and backup.best_backup(deps) is None:
        raise NotFound(f"there is no backup in {backup.backup_folder(deps.db.path)}; `/lcm backup` makes one")
    if words.rest:
        terminal_only(deps, words, "a backup is named at the terminal only")
    source, _ = backup.chosen(deps, name)
    backup.remove_half_made(deps.db.path)
    prefix = f".{deps.db.path.name}.{os.getpid()}.drill-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=deps.db.path.parent, ignore_cleanup_errors=True) as folder:
        runtime = by_itself(Path(folder) / deps.db.path.name, deps.config)
        scratch = replace(operator_access(runtime, None, None), home=Path(folder), trusted=True, clock=deps.clock)
        if deps.payloads.folder.is_dir() and source.suffix != ".tar":
            runtime.payloads.folder.symlink_to(deps.payloads.folder, target_is_directory=True)
        done = backup.restore(scratch, str(source), words.progress)
        restored_s = time.monotonic() - began
        found = [
            each for each in checks.doctor(scratch, deep=True, progress=words.progress)["checks"] if each["stored"]
        ]
        beside = backup.compared(deps, scratch) if deps.db.exists else backup.Compared(0, 0, (), 0)
        runtime.db.close()
    seconds = time.monotonic() - began
    failed = [each for each in found if each["status"] == "fail"]
    count = render.counted(done.counts.get("messages", 0), "message")
    counted_same = f"{render.counted(beside.same, 'message')} the same"
    lines = [
        f"{source.name}: {count}, put back into an empty home in {restored_s:.1f} s, examined in {seconds - restored_s:.1f} s",
        f"Against the database: {counted_same}; {beside.changed:,} changed or removed there since; {beside.newer:,} newer",
        *(f"FAILED {each['check']}: {each['detail']}" for each in failed),
        *(f"DIFFERS FROM WHAT IS HERE: msg_{each}" for each in beside.differing[:20]),
        *(f"payload file missing or changed: {name}" for name in done.missing_payloads[:20]),
    ]
    if not failed:
        lines.append(
            f"{len(found)} checks of what is stored, nothing failed: {', '.join(each['check'] for each in found)}"
        )
    data = {
        "source": str(source), "seconds": round(seconds, 3), "restored_in": round(restored_s, 3), "counts": dict(done.counts),
        "checks": found, "same": beside.same, "changed": beside.changed, "newer": beside.newer,
        "differing": [f"msg_{each}" for each in beside.differing],
    }  # fmt: skip
    return Answer("\n".join(lines), data, FOUND if failed or beside.differing else OK)


# -- help ----------------------------------------------------------------------------------------------
def _help(_deps: Access, words: Words) -> Answer:
    return help_of(" ".join(words.rest)) if words.rest else overview()


def overview() -> Answer:
    """Every verb in a line or two, by what it is for."""
    families: dict[str, list[Verb]] = {}
    for each in VERBS:
        families.setdefault(each.name.partition(" ")[0], []).append(each)
    lines = ["/lcm <command>: look at the archive, keep it safe, change it"]
    for title, names in _GROUPS:
        lines += ["", title, *(line for name in names.split() for line in _family(name, families[name]))]
    lines += ["", "Examples: /lcm search port of the gateway · /lcm show msg_12"]
    lines += ["A command that changes something first shows what it would do. `apply` does it."]
    lines += ["`/lcm help <command>` says more about one command and gives an example."]
    lines += ["In the browser: the tab LCM of `hermes dashboard`."]
    return Answer("\n".join(lines), {"verbs": [each.name for each in VERBS]})


def _kept_by(verb: Verb) -> str:
    """Words on what a verb keeps of what it changes, for its help."""
    if verb.name in _ERASING:
        return "does it, and makes no backup before: that would still hold what you remove"
    if verb.name in _WITHOUT_BACKUP:
        return "does it"
    kept = {"restore": "does it, and keeps the present file", "adopt": "does it, and keeps the original file"}
    return kept.get(verb.name, "makes a backup, and then does it")


#: Changes that take nothing away from the database.
_WITHOUT_BACKUP = ("install", "uninstall", "preset use", "doctor accept", "rescue")
_GROUPS = (
    ("Look", "status top browse sessions search show explain recall cost exam ledger journal"),
    ("Keep it safe", "doctor backup restore rotate dissolve"),
    ("Import and export", "import adopt export rescue"),
    ("Privacy", "redact purge pin retention"),
    ("Several hosts", "fleet"),
    ("Set up", "config preset notices install uninstall completion help"),
)
#: What words have in common that are no command alone.
_FAMILIES = {"fleet": "share one history between several hosts, through a PostgreSQL server"}
_NAME_COLUMNS, _HELP_COLUMNS = 12, 66


def _family(name: str, verbs: list[Verb]) -> list[str]:
    """A verb in the list of all, with what may stand behind its name, in lines that fit a narrow terminal."""
    more = [verb.name.partition(" ")[2] for verb in verbs if " " in verb.name]
    said = _FAMILIES.get(name, verbs[0].help)
    if more:
        said = f"{said[:-1]}; also:" if said.endswith(")") else f"{said} (also:"
        said = f"{said} {', '.join(more)})"
    first, *rest = textwrap.wrap(said, _HELP_COLUMNS)
    return [f"  {name.ljust(_NAME_COLUMNS)}{first}", *(" " * (_NAME_COLUMNS + 2) + line for line in rest)]


def help_of(name: str) -> Answer:
    """One verb, or a family of them: what it does, its words, an example. Raises BadRequest for a verb that there is not."""
    name = name.lower()
    found = [verb for verb in VERBS if verb.name == name or verb.name.startswith(f"{name} ")]
    if not found:
        raise BadRequest(_unknown(name.split()))
    lines = []
    for verb in found:
        lines += [f"/lcm {verb.name} {verb.usage}".rstrip(), f"  {verb.help}"]
        lines += [f"  example: /lcm {verb.name} {verb.example}".rstrip()]
        if verb.changes:
            lines.append(f"  Without `apply` it only shows what it would do. With `apply` it {_kept_by(verb)}.")
        if verb.at_once:
            lines.append("  It is done at once; `--dry-run` only shows it.")
    return Answer("\n".join(lines), {"verbs": [verb.name for verb in found]})


VERBS: tuple[Verb, ...] = (
    Verb(
        "status",
        _status,
        "the archive and this session in numbers; deep also says what takes up the space in the file",
        "[deep]",
        own=True,
    ),
    Verb(
        "cost",
        ops.cost,
        "tokens and money of requests, compactions and summaries",
        "[since <date|days>]",
        own=True,
        example="since 7",
    ),
    *doctor.VERBS,
    *importers.VERBS,
    *fleet.VERBS,
    Verb(
        "backup",
        ops.make_backup,
        "copy the database, and check the copy by reading every message",
        "[<folder>] [--with-files]",
    ),
    Verb(
        "backup drill",
        _drill,
        "try a backup: restore it into an empty folder, check it, say how long it took",
        "[<name>]",
    ),
    Verb(
        "restore",
        ops.restore,
        "replace the database with a backup",
        "[<name>|latest] [apply]",
        changes=True,
        example="latest",
    ),
    *redaction.VERBS,
    *forget.verbs(purging.others_of),
    *rotate.VERBS,
    Verb("preset", ops.show_preset, "groups of settings for one purpose", own=True),
    Verb(
        "preset show",
        ops.show_preset,
        "what a preset sets, and where its values come from",
        "[<name>]",
        own=True,
        example="economy",
    ),
    *(
        Verb(
            f"preset {each.name}", partial(ops.show_choice, each.name), each.summary.partition(":")[0].lower(), own=True
        )
        for each in presets.NAMED
    ),
    Verb("preset suggest", ops.suggest_preset, "name the one that suits this context window", own=True),
    Verb(
        "preset apply",
        ops.apply_preset,
        "print the settings for the environment; writes nothing",
        "<name> --dry-run",
        own=True,
        example="codex_gpt_long_context --dry-run",
    ),
    Verb(
        "preset use",
        ops.use_preset,
        "write a preset into config.yaml (not in a chat)",
        "<name> [apply]",
        changes=True,
        example="economy",
    ),
    Verb("exam", _exam, "test what the agent still knows; no model is asked", quotes=True),
    Verb(
        "explain",
        ops.explain_address,
        "what a message, summary or file is, and which summary covers it",
        "<msg_12|sum_3|file_...>",
        quotes=True,
        own=True,
        example="sum_3",
        check=listing.named,
    ),
    Verb(
        "dissolve",
        ops.dissolve,
        "stop using a summary; undo takes it back",
        "<sum_3> [apply|undo]",
        changes=True,
        own=True,
        example="sum_3",
    ),
    Verb(
        "search",
        _search,
        "find messages; at a terminal --session ID looks in one session only",
        "<words> [--limit N]",
        quotes=True,
        own=True,
        example="port of the gateway",
        check=_sought,
    ),
    Verb(
        "sessions",
        listing.sessions,
        "list the sessions of the archive, newest first",
        "[--limit N]",
        quotes=True,
        own=True,
    ),
    Verb(
        "show",
        listing.show,
        "print a message, a summary or a file whole",
        "<msg_12|sum_3|file_...>",
        quotes=True,
        own=True,
        example="msg_12",
        check=listing.named,
    ),
    Verb(
        "recall",
        pull.recall,
        "send old messages to the model, with your next message",
        "<words|msg_12|sum_3>",
        quotes=True,
        own=True,
        example="port of the gateway",
        check=pull.wanted,
    ),
    Verb(
        "install",
        ops.install_dashboard,
        "show the tab LCM in Hermes' dashboard, after pip install (not in a chat)",
        "[apply]",
        changes=True,
    ),
    Verb(
        "uninstall", ops.uninstall, "leave Hermes as it was; the archive stays (not in a chat)", "[apply]", changes=True
    ),
    Verb("config", settings.changed, "settings that are not defaults"),
    Verb("config get", settings.get, "the value of a setting, or of all", "<name>|all", example="fresh_tail_count"),
    Verb(
        "config set",
        ops.set_setting,
        "write a setting into config.yaml (not in a chat)",
        "<name> <value>",
        example="fresh_tail_count 24",
        at_once=True,
    ),
    Verb(
        "config explain",
        ops.explain_setting,
        "a setting: value, source, meaning; with a value: what it would have changed on the archive's newest day",
        "<name> [<value>]",
        example="context_threshold 0.5",
    ),
    Verb(
        "notices",
        ops.notices,
        "one line in this chat at each compaction: on or off",
        "[<on|off>]",
        own=True,
        at_once=True,
        example="off",
    ),
    *ledger.VERBS,
    Verb("top", _program, "a live view of window, next compaction, money and health (q leaves it; not in a chat)"),
    Verb("browse", _program, "a text interface: sessions, tree, messages, search (not in a chat)"),
    Verb(
        "completion",
        _program,
        "print what makes your shell complete these commands (not in a chat)",
        "<bash|zsh|fish>",
        example="bash",
    ),
    Verb("journal", journal.journal, "list what was changed in this archive, newest first", "[--limit N]"),
    Verb("help", _help, "this list, or more about one verb", "[<verb>]", own=True, example="backup"),
)
_BY_NAME = {verb.name: verb for verb in VERBS}
#: What other programs call it. Their names are no verbs here: they only tell which verb was meant.
_ELSEWHERE = {
    "ls": "sessions", "list": "sessions", "history": "sessions", "find": "search", "grep": "search", "cat": "show",
    "view": "show", "print": "show", "rm": "purge", "delete": "purge", "forget": "purge", "verify": "doctor",
    "check": "doctor", "fsck": "doctor", "settings": "config", "tui": "browse", "ui": "browse",
}  # fmt: skip
#: What somebody types who looks for the page in the browser, which is Hermes' own.
_PAGES = ("dashboard", "web", "gui")


def parsed(text: str) -> tuple[Verb, Words]:
    """The verb that was typed, and what follows it. Raises BadRequest."""
    try:
        words = shlex.split(text)
    except ValueError:  # an odd quote is somebody's apostrophe
        words = text.split()
    verb, rest = verb_of(words)
    return verb, flagged(verb, rest)


def verb_of(words: list[str]) -> tuple[Verb, list[str]]:
    """The verb that some words begin with (none: status), and the others. Raises BadRequest with the nearest help."""
    if not words:
        return _BY_NAME["status"], []
    for length in (2, 1):
        verb = _BY_NAME.get(" ".join(words[:length]).lower())
        if verb is not None and len(words) >= length:
            return verb, words[length:]
    raise BadRequest(_unknown(words))


def _unknown(words: list[str]) -> str:
    """Error text for words that are no verb: the first half of one alone, or a mistyped one."""
    first = words[0].lower()
    follow = [name.partition(" ")[2] for name in _BY_NAME if name.startswith(f"{first} ")]
    more = f"`/lcm help {first}` says more"
    if follow and len(words) == 1:
        return f"`/lcm {first}` needs one more word ({', '.join(follow)}); {more}"
    if follow:
        near = _near(words[1], follow)
        meant = f" did you mean `/lcm {first} {near[0]}`?" if near else ""
        return f"`/lcm {first}` does not take {words[1]!r} (it takes: {', '.join(follow)});{meant} {more}"
    return f"{words[0]!r} is not a command of `/lcm`;{_nearest(words)} `/lcm help` lists what there is"


def _nearest(words: list[str]) -> str:
    """The verb that was probably meant, if one is near or is called so elsewhere."""
    if (elsewhere := _ELSEWHERE.get(words[0].lower())) in _BY_NAME:
        return f" did you mean `/lcm {elsewhere}`?"
    if words[0].lower() in _PAGES:
        return " it is the tab LCM of Hermes' own page: `hermes dashboard`."
    for length in (2, 1):
        if near := _near(" ".join(words[:length]), list(_BY_NAME)):
            return f" did you mean `/lcm {near[0]}`?"
    return ""


def _near(word: str, names: list[str]) -> list[str]:
    """The name that a word begins or misspells, if there is one. A looser match would guess: "frobnicate" is no "rotate"."""
    low = word.lower()[:60]
    begun = [name for name in names if len(low) > 2 and name.startswith(low)]
    return begun[:1] or difflib.get_close_matches(low, names, n=1, cutoff=0.7)


def flagged(verb: Verb, words: list[str], options: Collection[str] = ()) -> Words:
    """Free words and flags; ``options``: flags that were given apart. Words to search for are never flags.

    Raises BadRequest for whatever the verb has no use for: `backup --dry-run` shall not make a backup.
    """
    search = verb.name in ("search", "recall", "help")
    spelled = "--" if verb.name in _OF_WORDS else ""
    words, limit = _limited(verb, words)
    typed_flags = {word for word in words if word in _FLAGS and word.startswith(spelled) and not search}
    flags = set(options) | {_FLAGS[word] for word in typed_flags}
    dry = verb.changes or verb.at_once or "--dry-run" in verb.usage
    for flag, typed, fits in (
        ("apply", "apply", verb.changes), ("deep", "deep", "deep" in verb.usage), ("dry", "--dry-run", dry),
        ("files", "--with-files", "with-files" in verb.usage), ("verbose", "--verbose", "verbose" in verb.usage),
    ):  # fmt: skip
        if flag in flags and not fits:
            raise BadRequest(_no_use(verb, typed))
    rest = tuple(word for word in words if word not in typed_flags)
    if rest and verb is not _BY_NAME["help"] and "<" not in verb.usage:
        raise BadRequest(_no_use(verb, rest[0]))
    applied = "apply" in flags and "dry" not in flags
    return Words(
        rest,
        apply=applied,
        dry="dry" in flags,
        deep="deep" in flags,
        files="files" in flags,
        verbose="verbose" in flags,
        name=verb.name,
        limit=limit,
    )


def _limited(verb: Verb, words: list[str]) -> tuple[list[str], int]:
    """The words without `--limit N`, and N (0: not given), for verbs that take one."""
    if "--limit" not in verb.usage or "--limit" not in words:
        return words, 0
    at = words.index("--limit")
    return [*words[:at], *words[at + 2 :]], listing.limit_of("".join(words[at + 1 : at + 2]))


def _no_use(verb: Verb, word: str) -> str:
    """A refusal of words that a verb does not know, with those that it takes."""
    known = [each.name.removeprefix(f"{verb.name} ") for each in VERBS if each.name.startswith(f"{verb.name} ")]
    known += re.findall(r"\[(\w+)\]", verb.usage)
    said = f" (it takes: {', '.join(known)})" if known else ""
    near = _near(word, known)
    meant = f" did you mean `/lcm {verb.name} {near[0]}`?" if near else ""
    return f"`/lcm {verb.name}` does not take {word!r}{said};{meant} `/lcm help {verb.name}` says more"


# -- running --------------------------------------------------------------------------------------------
def run(words: str, deps: Access) -> str:
    """The answer to what was typed behind ``/lcm``; never an exception for a reason of the archive."""
    return printable(answer(words, deps).whole)


def answer(words: str, deps: Access) -> Answer:
    """Answer with its data and an exit code to what was typed behind ``/lcm``."""
    try:
        verb, rest = parsed(words)
        if not verb.own and not deps.reads_all:
            raise BadRequest(_OPERATORS.format(verb.name))
        return perform(verb, deps, rest)
    except (LcmError, OSError) as exc:
        return refused(exc)


def perform(verb: Verb, deps: Access, words: Words) -> Answer:
    """A verb's answer; an error names the way out that helps with this file."""
    try:
        return _performed(verb, deps, words)
    except StoreError as exc:
        exc.remedy = backup.way_out_for(deps, exc)
        raise
    finally:
        if deps.db.reads_when_full:  # it stores nothing: what it had open would lock a repair or a restore out
            deps.db.close()


def _performed(verb: Verb, deps: Access, words: Words) -> Answer:
    """The same. Looking makes no database: where there is none, what lies around it is said instead."""
    stored = verb.name in _OF_WHAT_IS_STORED
    if stored and deps.db.exists:
        deps.db.open()  # a damaged file says so, before a verb finds no conversation in it
    if not stored or deps.db.exists:
        return _noted(verb, deps, words, _run(verb, deps, words))
    around = backup.traces_around(deps)
    if not around and verb.check is not None:
        verb.check(deps, words)
    if not around and verb.name in _OF_ONE_THING and words.rest:
        raise NotFound(f"nothing is stored under {words.rest[0]}, nor under any other address yet")
    if not around:
        return Answer("Nothing is stored yet.", {"stored": 0})
    said, remedy = (
        backup.gone(deps, around),
        "`/lcm doctor` names the way back" if deps.reads_all else backup.ASK_OPERATOR,
    )
    return Answer(f"Not done: {said}\nWhat to do: {remedy}.", {"error": said}, FAILED)


def _run(verb: Verb, deps: Access, words: Words) -> Answer:
    """A verb's own answer. No turn waits for its look at a million rows; where nothing is stored there are none."""
    try:
        with deps.db.apart() if deps.db.exists else nullcontext():
            return verb.run(deps, words)
    except UNREADABLE as exc:
        raise unreadable(deps.db, exc) from exc


def _noted(verb: Verb, deps: Access, words: Words, done: Answer) -> Answer:
    """The answer, after it was noted in the journal where something was changed."""
    if verb.acts(words) and not done.idle and done.code in (OK, FOUND) and deps.db.exists:
        rest = () if verb.name in _ERASING else words.rest  # they may say what is to be forgotten
        said = done.text
        if verb.name == "config set":  # as the answer shows it: some values are shown to nobody
            rest = (str(done.data["name"]), setting_text(done.data["value"]))
        if verb.name.startswith("ledger "):  # a purge of the message finds no quotation here
            rest, said = rest[:1], str(done.data["mark"] or "as it was said")
        typed = " ".join([verb.name, *rest, *(["apply"] if words.apply else [])])
        journal.note(deps.db, typed, said, now=deps.clock())
    return done


def refused(exc: LcmError | OSError) -> Answer:
    """An error as an answer: what is wrong, and what to do about it."""
    said = worded(exc)
    if isinstance(exc, BadRequest):
        return Answer(f"Not done: {said}", {"error": said, "kind": type(exc).__name__}, REFUSED)
    remedy = way_out(exc)
    text = f"Not done: {said}\nWhat to do: {remedy}"
    return Answer(text, {"error": said, "kind": type(exc).__name__, "remedy": remedy}, FAILED)


# -- what verbs work with -------------------------------------------------------------------------------
def chat(runtime: Runtime, host_key: str) -> Session | None:
    """The newest session of a gateway's chat, for commands that come when no agent of it is in memory (after a restart)."""
    if not host_key or not runtime.db.exists:
        return None
    try:
        recent = runtime.sessions.recent(principal=principal_of("", host_key, ""), limit=20)
    except StoreError:
        return None
    return next((each for each in recent if each.host_key == host_key), None)


def operator_access(
    runtime: Runtime, session: Session | None, engine: LiveEngine | None, allowed: Rights = OWN_SESSION
) -> Access:
    """The database as status, doctor and commands see it, a stand-in included.

    ``allowed``: the rights where no engine says whose they are.
    """
    if runtime.costs.waiting:  # what is told of them is what is written
        runtime.save_costs()
    home = engine.home if engine is not None else None
    allowed = rights_of(engine, session, engine.session_id) if engine is not None else allowed
    made = runtime.access(session, allowed, engine=engine_state(runtime, session, engine), home=home)
    return runtime.standby.of_database(made)


def engine_state(runtime: Runtime, session: Session | None, engine: LiveEngine | None) -> EngineState:
    """State of the live engine; without one (a terminal command) of the configuration and of earlier agents."""
    common = replace(
        numbers(engine) if engine is not None else EngineState(),
        compactions=session.compactions if session else 0,
        host_version=facts.version(),
        missing_hooks=facts.missing_hooks(),
        background={
            **runtime.preparer.state(),
            **_fleet(runtime),
            **_vectors(runtime),
        },
        breaker=runtime.breaker.dump(),
        spend=runtime.spend.dump(),
        compression_enabled=facts.compression_enabled(),
        misspelt_block=facts.misspelt_block(),
    )
    if engine is None:
        return _off_line(runtime, session, common)
    return _with_next_fold(_live(runtime, engine, common), runtime, session, engine.config)


def _fleet(runtime: Runtime) -> dict[str, object]:
    """Backlog of this host at the server, as far as it is known here."""
    try:
        return {} if runtime.fleet is None or not runtime.db.exists else {"fleet": runtime.fleet.state()}
    except StoreError as exc:
        return {"fleet": {"behind": None, "error": str(exc)}}


def _vectors(runtime: Runtime) -> dict[str, object]:
    """Progress of the vectors of messages, where they are asked for."""
    try:
        return {} if runtime.vectors is None or not runtime.db.exists else {"vectors": runtime.vectors.state()}
    except StoreError:  # the status says itself what is wrong with the file
        return {}


def _with_next_fold(state: EngineState, runtime: Runtime, session: Session | None, config: Config) -> EngineState:
    """The state with when the next compaction of the session is due, and why then."""
    if session is None or not (state.threshold_tokens and state.compression_enabled):
        return state
    runtime.preparer.read_kept()  # another process may be at work
    fold = runtime.preparer.fold(session.session_id, state.threshold_tokens, config)
    with suppress(StoreError):
        if runtime.orders.rotation(session.session_id) is not None:
            fold = replace(fold, due=0, why="with the next message: a rotation was ordered")
    told = {"due": fold.due, "why": fold.why, "saves": round(fold.saves, 4)}
    return replace(state, background={**state.background, "next_fold": told})


def _live(runtime: Runtime, engine: LiveEngine, common: EngineState) -> EngineState:
    return replace(
        common,
        threshold_source=engine.config.provenance("context_threshold"),
        last_prompt_tokens=max(0, engine.last_prompt_tokens),
        provider=engine.provider,
        local=facts.is_local(engine.base_url),
        compactions=engine.compactions,
        fallback_context=engine.fallback_context,
        last_compression=engine.last_compression,
        engine_name_in_use=engine.name if engine.session_id else facts.selected_engine(),
        calibration=runtime.calibration.status(engine.model, engine.session_id, max(0, engine.last_prompt_tokens)),
        cache=engine.cache,
        prices=runtime.priced(engine.model, engine.provider),
        priced=runtime.known_prices(),
    )


def _off_line(runtime: Runtime, session: Session | None, common: EngineState) -> EngineState:
    """No engine runs here. The window is the one in the host's configuration, or what an agent with that model was told."""
    configured, provider, size = facts.configured_model()
    model = (session.model if session is not None else "") or configured
    if size > 0 and model == configured:
        source = "config.yaml"
    else:
        size, source = runtime.windows.get(model, 0), f"the last agent that ran {model}"
    provider = provider if model == configured else ""
    share = facts.host_threshold(model, provider, facts.model_thresholds())
    config = runtime.config.of(model, session.platform if session is not None else "", share)
    state = replace(
        common,
        engine_name_in_use=facts.selected_engine(),
        threshold_tokens=config.threshold_tokens(size) if size else 0,
        threshold_source=config.provenance("context_threshold"),
        context_length=size,
        context_source=source if size else "",
        model=model if size else "",
        provider=provider if size else "",
        local=facts.is_local(facts.configured_url()),
    )
    return _with_next_fold(state, runtime, session, config)
