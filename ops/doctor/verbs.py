"""
Verbs of the doctor: what is wrong, and what an operator lets it do about that.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from ...recall.access import Access
from .. import backup, render
from ..answers import FAILED, FOUND, OK, Answer, Verb, Words
from ..survey import Survey
from . import checks, clean, repair


def _doctor(deps: Access, words: Words) -> Answer:
    data = checks.doctor(deps, deep=words.deep, progress=words.progress)
    return Answer(
        render.doctor_text(data, verbose=words.verbose), data, FOUND if data["overall"] == "unhealthy" else OK
    )


def _retention(deps: Access, words: Words) -> Answer:
    rows = clean.retention(deps, words.progress)
    data = [{"month": row[0], "messages": row[1], "sessions": row[2], "stored_bytes": row[3]} for row in rows]
    shown = [
        (month, f"{render.counted(count, 'message')}", f"{render.counted(sessions, 'session')}", render.size(size))
        for month, count, sessions, size in rows
    ]
    head = "What is stored, by month (only `/lcm retention apply` removes anything by age):"
    return Answer("\n".join([head, *render.table(shown)]) if shown else "Nothing is stored yet.", {"months": data})


def _clean(deps: Access, words: Words) -> Answer:
    found = clean.clean(deps, words.progress) if words.apply else clean.candidates(deps)
    rows = [
        (", ".join(each.sessions), f"{render.counted(each.messages, 'message')}", f"matches {each.pattern}")
        for each in found.junk
    ]
    nothing = ["Nothing to do: no stored session matches LCM_IGNORE_SESSION_PATTERNS."]
    lines = ["Sessions that match LCM_IGNORE_SESSION_PATTERNS:", *render.table(rows)] if rows else nothing
    if found.spared:
        lines.append(f"Kept, because they are in use or other sessions need them: {', '.join(found.spared[:20])}")
    if found.small:
        lines.append(
            f"Ended with two messages or fewer (kept; worth a look): {', '.join(row[0] for row in found.small[:20])}"
        )
    if found.backup:
        lines.append(f"Removed {render.counted(found.removed_messages, 'message')}. Backup: {found.backup}")
    elif found.junk:
        lines.append(
            "Dry run. `/lcm doctor clean apply` backs up and removes them (LCM_DOCTOR_CLEAN_APPLY_ENABLED=true)."
        )
    data = {
        "junk": [
            {"sessions": list(each.sessions), "messages": each.messages, "pattern": each.pattern} for each in found.junk
        ],
        "spared": list(found.spared),
        "small": [row[0] for row in found.small],
        "removed_messages": found.removed_messages,
        "backup": str(found.backup) if found.backup else None,
    }
    return Answer("\n".join(lines), data, idle=not found.backup)


#: What an applied repair does, and to which findings.
_REPAIRS = (
    ("saves what is readable into a new file and keeps the damaged one", attrgetter("damaged")),
    ("keeps a copy of the file and takes the triggers out of it", attrgetter("triggers")),
    ("rebuilds the indexes", attrgetter("indexes")),
    ("removes vectors of no use", attrgetter("vectors")),
    ("gives conversations to their owners", attrgetter("guesses")),
)


def _repair(deps: Access, words: Words) -> Answer:
    done = (
        repair.repair(deps, words.progress) if words.apply else repair.Repaired(repair.diagnose(deps, words.progress))
    )
    found = done.diagnosis
    data = {
        "damaged": list(found.damaged),
        "indexes": list(found.indexes),
        "triggers": list(found.triggers),
        "vectors": list(found.vectors),
        "owners": [{"session_id": each.session.session_id, "owner": each.owner} for each in found.guesses],
        "applied": words.apply and not found.well,
        "kept": str(done.kept) if done.kept else None,
        "saved": dict(done.saved),
        "lost": dict(done.lost),
        "notes": list(done.notes),
    }
    if not deps.db.exists:
        said = _no_database(deps)
        return Answer(said, {**data, "notes": [said]})
    if found.well:
        sound = "Nothing to repair: the file and its search indexes are sound."
        return Answer("\n".join([sound, *done.notes]), data, idle=not done.notes)
    lines = [f"The file is damaged: {each}" for each in found.damaged[:5]]
    lines += [f"A trigger that this plugin did not make: {each}" for each in found.triggers]
    lines += [f"Search index: {each}" for each in found.indexes[:5]]
    lines += [f"Ranking by meaning: {each}" for each in found.vectors]
    lines += [f"Owner of {each}" for each in found.guesses]
    if not words.apply and found.damaged and (hopeless := repair.hopeless(deps)):
        return Answer("\n".join([*lines, hopeless]), data, FOUND)
    if not words.apply:
        said = " and ".join(what for what, needed in _REPAIRS if needed(found))
        return Answer("\n".join([*lines, f"Dry run. `/lcm doctor repair apply` {said}."]), data, FOUND)
    lines.append(f"{'The damaged file is kept' if found.damaged else 'Backup'}: {done.kept}")
    if done.saved:
        lines += [f"Saved: {_rows(done.saved)}", f"Unreadable: {_rows(done.lost)}"]
    lines += [f"  {note}" for note in done.notes]
    lines += ["The search indexes were rebuilt."] if done.indexed or found.damaged else []
    lines += [f"Given to their owners: {render.counted(len(found.guesses), 'conversation')}."] if found.guesses else []
    return Answer("\n".join(lines), data)


#: Tables whose rows an operator knows, and what one of them is.
_KNOWN = {"messages": "message", "nodes": "summary", "sessions": "session", "conversations": "conversation"}


def _rows(by_table: Mapping[str, int]) -> str:
    """Numbers of rows: of what an operator knows by name, and of the rest together."""
    known = {thing: by_table[table] for table, thing in _KNOWN.items() if by_table.get(table)}
    known["other row"] = sum(count for table, count in by_table.items() if table not in _KNOWN)
    return ", ".join(render.counted(count, thing) for thing, count in known.items() if count) or "nothing"


def _no_database(deps: Access) -> str:
    said = "There is no database yet: nothing is stored, so there is nothing to repair."
    best = backup.best_backup(deps)
    if best is None:
        return said
    if best.sound:
        return f"{said} There are backups of one, the best is {best}: `/lcm restore {best.path.name} apply`."
    return f"{said} There are backups of one: {backup.way_back(deps)}."


def _accept(deps: Access, words: Words) -> Answer:
    losses, others = checks.accept(deps, apply=words.apply, progress=words.progress)
    data = {"losses": losses, "not_losses": others, "applied": words.apply and bool(losses) and not others}
    if others:
        first = others[0]
        said = f"solve this first: {first['check']}: {first['detail']}"
        return Answer(f"Not done: {said}\nWhat to do: {first.get('remedy')}", {**data, "error": said}, FAILED)
    if not losses:
        return Answer("Nothing to accept: `/lcm doctor deep` finds no loss.", data, idle=True)
    lines = [f"{each['check']}: {each['detail']}" for each in losses]
    if not words.apply:
        foot = "Dry run. `/lcm doctor accept apply` notes this loss and its date. Then the doctor no longer reports it."
        return Answer("\n".join([*lines, foot]), data, FOUND)
    return Answer("\n".join(["Accepted, and noted with the date:", *lines]), data)


def _source(deps: Access, words: Words) -> Answer:
    if not words.apply:
        count = Survey(deps.db).blank_sources()
        if not count:
            return Answer("Nothing to do: every message has a source.", {"blank": 0})
        hint = "Dry run. `/lcm doctor source apply` makes a backup and sets it to 'unknown'."
        return Answer(f"{render.counted(count, 'message')} without a source. {hint}", {"blank": count})
    count, path = clean.fill_sources(deps, words.progress)
    said = (
        f"{render.counted(count, 'message')} given the source 'unknown'. Backup: {path}"
        if count
        else "No message lacks its source."
    )
    return Answer(said, {"filled": count, "backup": str(path) if path else None}, idle=not count)


VERBS: tuple[Verb, ...] = (
    Verb(
        "doctor",
        _doctor,
        "find faults and say what to do; deep also reads the whole file",
        "[deep] [verbose]",
        own=True,
    ),
    Verb(
        "doctor clean",
        _clean,
        "remove sessions that LCM_IGNORE_SESSION_PATTERNS leaves out today",
        "[apply]",
        changes=True,
    ),
    Verb("doctor repair", _repair, "repair search indexes or a damaged file", "[apply]", changes=True),
    Verb("doctor accept", _accept, "stop reporting a loss that nothing can bring back", "[apply]", changes=True),
    Verb("doctor source", _source, "write `unknown` where a message has no source", "[apply]", changes=True),
    Verb("doctor retention", _retention, "how much is stored, by month"),
)
