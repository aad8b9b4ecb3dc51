"""
Verbs that take something in or give it out: import, adopt, export.

Imports and adoptions work at a terminal only: they read files of this machine by name.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest, StoreError
from ..ops import render
from ..ops.answers import FOUND, OK, Answer, Verb, Words, at_most, one
from ..ops.render import counted
from ..storage.files import Progress, header, silent
from ..storage.foreign import EARLIER, HOST, OPENCLAW, OURS, Foreign
from ..text.printable import one_line
from ..text.printable import typed as quoted
from . import adopt, duplicates, export, host_sessions, openclaw, rescue, transcripts

if TYPE_CHECKING:
    from ..recall.access import Access


def _export(deps: Access, words: Words) -> Answer:
    kinds = [word.lower() for word in words.rest if word.lower() in export.KINDS]
    names = [word for word in words.rest if word.lower() not in export.KINDS]
    for several in (kinds, names):
        at_most(replace(words, rest=tuple(several)), 1, "one session (or all) and one of jsonl, markdown")
    kind, name = kinds[0] if kinds else "jsonl", names[0] if names else None
    if words.output == "-":
        return _printed(deps, name, kind, words)
    wanted = Path(words.output).expanduser() if words.output else None
    if name != "all":
        return _written(export.export(deps, name, kind, words.progress, output=wanted))
    made, sessions = [], export.newest_of_each(deps)
    for n, each in enumerate(sessions):
        words.progress("writing conversations", n, len(sessions))
        made.append(export.export(deps, each, kind, output=wanted and _inside(wanted, each, kind)))
    answers = [_written(each) for each in made]
    head = f"{counted(len(made), 'conversation')}, {counted(sum(each.messages for each in made), 'message')}"
    code = max((each.code for each in answers), default=OK)
    return Answer(
        "\n".join([head, *(each.text for each in answers)]), {"exports": [dict(a.data) for a in answers]}, code
    )


def _inside(folder: Path, session_id: str, kind: str) -> Path:
    """The file of one conversation in a folder of an operator's choice."""
    if folder.exists() and not folder.is_dir():
        raise BadRequest(f"{folder} is a file. An export of all conversations needs a folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / export.file_name(session_id, kind)


def _printed(deps: Access, name: str | None, kind: str, words: Words) -> Answer:
    """An export as the answer itself; of all, one behind the other, as an import reads them."""
    made = [export.printed(deps, each, kind, words.progress)
            for each in (export.newest_of_each(deps) if name == "all" else [name])]  # fmt: skip
    said = [_written(each) for each, _ in made]
    data = [{**each.data, "text": text} for each, (_, text) in zip(said, made, strict=True)]
    text = "".join(text for _, text in made).rstrip("\n")
    code = max((each.code for each in said), default=OK)
    return Answer(text, {"exports": data} if name == "all" else data[0], code, file=True)


def _written(made: export.Exported) -> Answer:
    lost = [f"msg_{store_id}" for store_id in made.lost]
    without = [f"msg_{store_id}" for store_id in made.incomplete]
    data = {"path": str(made.path), "messages": made.messages, "bytes": made.bytes, "unreadable": lost}
    data["incomplete"] = without
    said = f"{made.path}: {counted(made.messages, 'message')}, {render.size(made.bytes)}"
    if lost:
        said += f"\n{counted(len(lost), 'message')} left out, because they cannot be read: {', '.join(lost[:20])}"
    if without:
        said += f"\nA payload file is missing (a placeholder stands for it) in {', '.join(without[:20])}"
    return Answer(said, data, FOUND if lost or without else OK)


def _import(deps: Access, words: Words) -> Answer:
    path = Path(one(words, "one file of messages, such as talk.jsonl")).expanduser()
    if deps.trusted and _of_lossless_claw(deps, path):
        mapped = openclaw.Mapped(summaries=True)
        typed = f"`hermes lcm import {quoted(words.rest[0])} --apply`"
        return lossless_claw(deps, path, mapped, apply=words.apply, typed=typed, progress=words.progress)
    done = transcripts.take_in(deps, path, words.progress) if words.apply else transcripts.plan(deps, path)[1]
    kind = "an export of this plugin, taken in exactly" if done.exact else "a transcript"
    names = render.few([*map(one_line, done.sessions)], 20)
    lines = [f"{one_line(str(path))}: {kind}; {'session' if len(done.sessions) == 1 else 'sessions'} {names}"]
    lines += [f"{name}: {value}" for name, value in done.about]
    verb = "added" if words.apply else "to add"
    lines.append(f"{counted(done.added, 'message')} {verb}, {done.present:,} already here")
    if done.backup:
        lines.append(f"backup: {done.backup}")
    if done.added and not words.apply:
        lines.append(f"Dry run. `hermes lcm import {quoted(words.rest[0])} --apply` {_does(deps)}.")
    data = {"sessions": list(done.sessions), "added": done.added, "present": done.present, "exact": done.exact}
    data |= {"applied": words.apply, "backup": str(done.backup) if done.backup else None}
    return Answer("\n".join(lines), data, idle=not done.added)


def _does(deps: Access) -> str:
    """Words for what an import does when it is applied: where nothing is stored yet there is nothing to back up."""
    return "backs up and does it" if deps.db.exists else "does it"


def _of_lossless_claw(deps: Access, path: Path) -> bool:
    """Is the file a database of lossless-claw? Raises BadRequest for another database: which command takes it in."""
    if not path.is_file():
        return False
    if deps.db.path.exists() and path.samefile(deps.db.path):
        raise BadRequest(f"{path} is the archive itself; there is nothing to import from it")
    try:
        if not header(path).sqlite:
            return False
    except StoreError:
        return False  # it cannot be read: reading it as a transcript says so
    with Foreign(path) as source:
        kind = source.kind.name
    if kind == OPENCLAW:
        return True
    typed = quoted(str(path))
    ways = {
        OURS: f"`hermes lcm restore {typed}` would replace the present one with it. To add its messages instead, export them "
        "from it, then import that file",
        EARLIER: f"`hermes lcm adopt {typed}` takes it in",
        HOST: "`hermes lcm import host` takes in what Hermes itself keeps",
    }
    raise BadRequest(f"{path} is {kind}, not a file of messages. {ways.get(kind, 'Nothing here reads it')}")


def _adopt(deps: Access, words: Words) -> Answer:
    at_most(words, 2, "a database file and a folder of payload files, or neither")
    where, payloads = (*words.rest, None, None)[:2]
    done = (adopt.adopt if words.apply else adopt.plan)(deps, where, payloads, words.progress)
    found, taken, nodes = done.found, done.taken, done.nodes
    version = f", schema {done.version}" if done.version else ""
    counts = f"{counted(found['messages'], 'row')} of {counted(found['sessions'], 'session')}"
    counts += f", {counted(found['nodes'], 'summary')}"
    lines = [f"{done.path}: the earlier hermes-lcm plugin{version}; {counts}"]
    verb = "taken in" if words.apply or done.finished else "to take in"
    lines.append(f"{counted(taken.added, 'row')} {verb}, {taken.present:,} already here")
    if taken.copies:
        lines.append(
            f"{taken.copies:,} rows repeat others, because that plugin stored them again: kept, marked, and left out of "
            "conversations and searches"
        )
    if taken.doubtful:
        lines.append(f"{taken.doubtful:,} rows look like others without proof; they are left as they are")
    lines.append(f"{counted(nodes.added, 'summary')} {verb}, {nodes.present:,} already here (not verified)")
    if nodes.relinked or nodes.homeless:
        lines.append(
            f"{counted(nodes.relinked + nodes.homeless, 'summary')} had lost their sources: they point at messages of that time"
        )
    if done.payloads or done.unused_payloads:
        lines.append(
            f"{done.payloads:,} payload files are back in the messages that show them; {done.unused_payloads:,} belong to no row "
            "and stay where they are"
        )
    lines += [f"payload file missing: {name}" for name in done.missing_payloads[:20]]
    lines += _adopt_end(done, words)
    idle = not (taken.added or nodes.added)
    return Answer("\n".join(lines), _adopt_data(done, applied=words.apply), idle=idle)


def _adopt_end(done: adopt.Adoption, words: Words) -> list[str]:
    if done.finished and not words.apply:
        return ["It was adopted; nothing is left to do.", *([f"The original: {done.kept}"] if done.kept else [])]
    if words.apply:
        what = "The original is kept as" if done.in_place else "Backup of the database that was here:"
        return [f"{what} {done.kept}"] if done.kept else []
    again = " It goes on where it stopped." if done.resumed else ""
    typed = " ".join(["hermes lcm adopt", *map(quoted, words.rest)])
    return [f"Dry run. `{typed} --apply` does it and keeps the original.{again} End other Hermes processes first."]


def _adopt_data(done: adopt.Adoption, *, applied: bool) -> dict[str, Any]:
    return {
        "path": str(done.path), "in_place": done.in_place, "schema": done.version, "found": dict(done.found),
        "added": done.taken.added, "present": done.taken.present, "duplicates": done.taken.copies,
        "revisions": done.taken.edits, "doubtful": done.taken.doubtful, "summaries": done.nodes.added,
        "summaries_present": done.nodes.present, "summaries_relinked": done.nodes.relinked + done.nodes.homeless,
        "payloads": done.payloads, "unused_payloads": done.unused_payloads,
        "missing_payloads": list(done.missing_payloads), "kept": str(done.kept) if done.kept else None,
        "applied": applied, "finished": done.finished,
    }  # fmt: skip


def _import_host(deps: Access, words: Words) -> Answer:
    at_most(words, 1, "one session, or none for all of them")
    named = words.rest[0] if words.rest else None
    done = (host_sessions.take_in if words.apply else host_sessions.plan)(deps, named, words.progress)
    taken = done.taken
    sessions, conversations = counted(done.sessions, "session"), counted(done.conversations, "conversation")
    lines = [f"{done.path}: {sessions} in {conversations}, {counted(taken.rows, 'row')}"]
    verb = "added" if words.apply else "to add, or fewer"
    lines.append(f"{counted(taken.added, 'message')} {verb}, {taken.present:,} already here" if taken.added
                 else f"No new messages; {taken.present:,} already here")  # fmt: skip
    if taken.copies:
        lines.append(f"{taken.copies:,} rows were written again by compactions of the host; each is imported once")
    if taken.own:
        lines.append(f"Skipped: {taken.own:,} rows that this plugin wrote into prompts itself")
    if done.skipped:
        lines.append(f"kept out by a pattern of yours: {', '.join(done.skipped[:20])}")
    if done.backup:
        lines.append(f"backup: {done.backup}")
    if taken.added and not words.apply:
        typed = " ".join(["hermes lcm import host", *map(quoted, words.rest)])
        lines.append(f"Dry run. `{typed} --apply` {_does(deps)}.")
    data = {
        "path": str(done.path), "sessions": done.sessions, "conversations": done.conversations, "rows": taken.rows,
        "added": taken.added, "present": taken.present, "repeated": taken.copies, "own": taken.own,
        "new_sessions": list(done.new), "skipped": list(done.skipped), "applied": words.apply,
        "backup": str(done.backup) if done.backup else None,
    }  # fmt: skip
    return Answer("\n".join(lines), data, idle=not taken.added)


def lossless_claw(
    deps: Access,
    path: Path,
    mapped: openclaw.Mapped,
    *,
    apply: bool,
    typed: str = "The same with --apply",
    progress: Progress = silent,
) -> Answer:
    """Take in a database of lossless-claw: for ``import`` and ``scripts/import_lossless_claw.py``. ``typed``: what does it."""
    done = openclaw.run(deps, path, mapped, apply=apply, progress=progress)
    taken, nodes = done.taken, done.nodes
    lines = [
        f"{done.path}: {counted(taken.rows, 'message')} of {counted(done.conversations, 'conversation')}",
        f"as {counted(len(done.sessions), 'session')}",
        *(f"  {name}" for name in done.sessions[:10]),
        *([f"  and {len(done.sessions) - 10:,} more"] if len(done.sessions) > 10 else []),
        f"{counted(taken.added, 'message')} {'added' if apply else 'to add'}, {taken.present:,} already here",
        f"import id: {done.import_id}",
    ]
    if taken.copies:
        lines.append(
            f"{taken.copies:,} of them repeat others; kept, marked, and left out of conversations and searches"
        )
    if mapped.summaries:
        lines.append(
            f"{counted(nodes.added, 'summary')} {'added' if apply else 'to add'}, {nodes.present:,} already here (not verified)"
        )
    if done.files:
        lines.append(f"{counted(done.files, 'large file')} back in the messages that had them")
    if done.missing_files:
        lines.append(
            f"{counted(len(done.missing_files), 'large file')} cannot be read, their references stay: "
            f"{', '.join(map(one_line, done.missing_files[:20]))}"
        )
    if done.suppressed:
        lines.append(f"{counted(done.suppressed, 'message')} left out: suppressed there, which is how it purges")
    if done.unread:
        lines.append(f"tables that stay there: {', '.join(map(one_line, done.unread))}")
    if done.backup:
        lines.append(f"backup: {done.backup}")
    if not apply:
        lines.append(f"Dry run. {typed} {_does(deps)}.")
    idle = not (taken.added or nodes.added)
    return Answer("\n".join(lines), _lossless_claw_data(deps, done, applied=apply), idle=idle)


def _lossless_claw_data(deps: Access, done: openclaw.ClawImport, *, applied: bool) -> dict[str, Any]:
    return {
        "source": str(done.path), "target": str(deps.db.path), "import_id": done.import_id, "sessions": list(done.sessions),
        "rows": done.taken.rows, "added": done.taken.added, "present": done.taken.present, "duplicates": done.taken.copies,
        "summaries": done.nodes.added, "summaries_present": done.nodes.present, "applied": applied,
        "files": done.files, "missing_files": list(done.missing_files), "suppressed": done.suppressed,
        "tables_left": list(done.unread), "backup": str(done.backup) if done.backup else None,
    }  # fmt: skip


def _duplicates(deps: Access, words: Words) -> Answer:
    done = (duplicates.mark if words.apply else duplicates.look)(deps, words.progress)
    count, places = len(done.found), len(done.by_conversation)
    any_found = bool(count or done.doubtful)
    data = {
        "duplicates": count, "conversations": places, "doubtful": done.doubtful,
        "marked_before": done.marked_before, "examples": [[f"msg_{a}", f"msg_{b}"] for a, b in done.found[:20]],
        "applied": words.apply and any_found, "backup": str(done.backup) if done.backup else None,
    }  # fmt: skip
    if not any_found:
        before = f" ({counted(done.marked_before, 'row')} marked before)" if done.marked_before else ""
        return Answer(f"Nothing to do: nothing is stored twice{before}.", data, idle=True)
    what = "now marked" if done.backup else "not marked yet"
    lines = [
        f"repeats: {counted(count, 'row')} in {counted(places, 'conversation')} ({what}); marked before: {done.marked_before:,}"
    ]
    if done.doubtful:
        lines.append(f"{done.doubtful:,} look like others without proof; they are left as they are")
    if done.backup:
        lines.append(f"They stay readable under their addresses. Backup: {done.backup}")
        lines.append(f"`/lcm restore {done.backup.name} apply` undoes the marks, and whatever was stored since.")
    elif count:
        lines.append("Dry run. `/lcm doctor duplicates apply` backs up and marks them; nothing is deleted.")
    return Answer("\n".join(lines), data, idle=not done.backup)


VERBS: tuple[Verb, ...] = (
    Verb(
        "doctor duplicates", _duplicates, "find messages that an earlier plugin stored twice", "[apply]", changes=True
    ),
    Verb(
        "export",
        _export,
        "write one conversation or all to files; at a terminal, -o names the file (of all: the folder), and -o - prints it",
        "[<session>|all] [jsonl|markdown]",
        quotes=True,
        example="all markdown",
    ),
    Verb(
        "import",
        _import,
        "add messages from a file (not in a chat)",
        "<file> [apply]",
        changes=True,
        example="talk.jsonl",
    ),
    Verb(
        "import host",
        _import_host,
        "add conversations that Hermes has from before (not in a chat)",
        "[<session>] [apply]",
        changes=True,
    ),
    Verb(
        "adopt",
        _adopt,
        "take over the database of the earlier hermes-lcm plugin (not in a chat)",
        "[<file>] [apply]",
        changes=True,
    ),
    *rescue.VERBS,
)
