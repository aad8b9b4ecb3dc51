"""
Verbs that forget: purge and retention, and the words that they understand.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...errors import BadRequest
from ...storage import files
from .. import render
from ..answers import FOUND, OK, Answer, Verb, Words, terminal_only
from ..explain import parsed
from ..render import counted, few
from . import holds, purge, retention
from .elsewhere import Others, Reach, Selection

if TYPE_CHECKING:
    from ...recall.access import Access

_KINDS: Final = ("messages", "session", "principal", "before", "matching")
_SHOWN: Final = 20
_FLEET: Final = (
    "This database is part of a fleet, and LCM_FLEET_DSN names no server: the server and other hosts are not reached."
)
_THERE: Final = (
    "Other hosts empty these rows at their next pull. Not reached: the server's own backups and log, and dead rows until "
    "`VACUUM FULL` there."
)

_STILL_THERE: Final = (
    "Other hosts may still say it there: name these by --session, --principal, --before or --messages."
)
_NAMES: Final = (
    "Names of sessions and persons stay until their conversations are empty, and Hermes has none of the sessions."
)
_NAMES_THERE: Final = "Names of sessions and persons stay on the server and on the hosts; what was said goes."
_NOT_OURS: Final = (
    "This plugin does not change that file: `hermes sessions delete ID` removes one there. "
    "What was purged is not stored here again from it."
)


def selection(words: Words) -> Selection:
    """The selection as it was typed: pairs of a kind and its value. Raises BadRequest for anything else."""
    rest = [*words.rest]
    if words.session:
        rest += ["session", words.session]
    said: dict[str, str] = {}
    while rest:
        kind = rest.pop(0).lower()
        if kind not in _KINDS:
            raise BadRequest(
                f"`/lcm {words.name}` does not take {kind!r} (it takes: {', '.join(_KINDS)}, each with its value)"
            )
        if not rest:
            raise BadRequest(f"`/lcm {words.name} {kind}` needs a value; `/lcm help {words.name}` gives an example")
        said[kind] = rest.pop(0)
        while kind == "messages" and rest and rest[0].lower().startswith("msg_"):
            said[kind] += f",{rest.pop(0)}"
    named = [each for each in said.get("messages", "").replace(",", " ").split() if each]
    addresses = [parsed(each) for each in named]
    if wrong := next((name for name, (kind, _) in zip(named, addresses, strict=True) if kind != "msg"), ""):
        raise BadRequest(f"{wrong} is a summary; name messages to purge, and their summaries go too")
    if "matching" in said and not said["matching"].strip():
        raise BadRequest("an empty text matches everything; if you mean that, use --principal or --before")
    return Selection(
        tuple(number for _, number in addresses), said.get("session"), said.get("principal"),
        _moment(said["before"]) if "before" in said else None, said.get("matching", ""),
    )  # fmt: skip


def _typed(words: Words) -> str:
    """The selection as it was typed: a mistyped name is seen there."""
    named = f"--session {words.session}" if words.session else ""
    return " ".join(filter(None, [*words.rest, named]))


def _moment(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadRequest(f"--before {text!r} is not a date like 2026-11-01") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _purge(others_of: Callable[[Access], Others | None], deps: Access, words: Words) -> Answer:
    terminal_only(deps, words, "purge removes what was said for good, so it is done at the terminal")
    asked, others = selection(words), others_of(deps)
    done = purge.apply(deps, asked, words.progress, others) if words.apply else None
    planned = done.plan if done else purge.plan(deps, asked, words.progress, others)
    if not _anything(planned) and not (done and done.found):  # an apply that was stopped goes on with its proof
        nothing = [f"Nothing to purge: nothing that is stored fits `{_typed(words)}`.", *_silent(planned.there)]
        return Answer("\n".join(nothing), _data(planned), idle=True)
    if done is None:
        shown = ["This would be removed:", *(f"  {line}" for line in _planned(planned))]
        lines = [*shown, "Dry run. The same with --apply does it. No backup is made before: it would hold them."]
        lines += _elsewhere(deps, asked, planned)
        return Answer("\n".join(lines), _data(planned), FOUND if _kept(planned) else OK)
    lines, certificate = [*_planned(done.plan), *_elsewhere(deps, asked, done.plan)], {}
    lines[0] = f"Removed: {lines[0]}"
    if done.found is not None:
        certificate = _certificate(deps, asked, done)
        lines += _certified(done, certificate)
    clean = not _kept(done.plan) and (done.found is None or not done.found.holding)
    clean = clean and not any(each.holds or each.unread for each in done.there)
    data = {**_data(done.plan), "certificate": certificate}
    return Answer("\n".join(lines), data, OK if clean else FOUND, idle=done.found is None)


def _anything(planned: purge.Plan) -> bool:
    here = planned.rows or planned.nodes or planned.archives or planned.payloads or planned.copies or planned.entries
    there = planned.there is not None and (planned.there.messages or planned.there.held_there)
    return bool(here or planned.held or there or planned.host)


def _kept(planned: purge.Plan) -> bool:
    """Does a hold keep any of it?"""
    return bool(planned.held or (planned.there and planned.there.held_there))


def _planned(planned: purge.Plan) -> list[str]:
    kinds: tuple[tuple[str, Iterable[str]], ...] = (
        ("message", (f"msg_{each}" for each in planned.rows)),
        ("summary", (f"sum_{each}" for each in planned.nodes)),
        ("archive", (str(each) for each in planned.archives)),
        ("payload file", planned.payloads),
        ("copy", (path.name for path in planned.copies)),
    )
    lines: list[str] = []
    for thing, named in kinds:
        names = [*named]
        lines.append(f"{counted(len(names), thing)}{': ' * bool(names)}{few(names, _SHOWN)}")
    lines.append(counted(planned.entries, "index entry"))
    if planned.held:
        first = ", ".join(f"msg_{each}" for each in planned.held[:_SHOWN])
        lines.append(
            f"PINNED, SO NOT PURGED: {counted(len(planned.held), 'message')}: {first}. `hermes lcm pin NAME undo` ends that."
        )
    return lines


def _elsewhere(deps: Access, asked: Selection, planned: purge.Plan) -> list[str]:
    """Other holders of it: a fleet, and Hermes itself; and the names that stay."""
    out = [*_there(planned.there), *_silent(planned.there)] if planned.there else []
    if asked.session or asked.principal:
        out.append(_NAMES_THERE if planned.there else _NAMES)
    if not planned.there and deps.db.query("SELECT 1 FROM sqlite_master WHERE name = 'fleet_outbox'"):
        out.append(_FLEET)
    if not planned.host:
        return out
    names = ", ".join(planned.host[:_SHOWN])
    count = counted(len(planned.host), "session")
    return [*out, f"Hermes' own session database (state.db) still has {count} of these: {names}. {_NOT_OURS}"]


def _silent(there: Reach | None) -> list[str]:
    """A text to match is not found where a policy of this or another host has emptied the rows."""
    if there is None or not there.silent:
        return []
    return [
        f"NOT MATCHED: {counted(there.silent, 'message')} that a retention policy emptied on the server. {_STILL_THERE}"
    ]


def _there(there: Reach) -> list[str]:
    """A fleet server's part of the selection."""
    tables = ", ".join(f"{name} {count:,}" for name, count in there.tables.items())
    lines = [f"On {there.where}: {tables}. {_THERE}"]
    for thing, numbers in (("msg", there.messages), ("sum", there.summaries)):
        if numbers:
            lines.append(f"  {few([f'{thing}_{each}' for each in numbers], _SHOWN)}")
    if there.only_there:
        lines.append(f"  of these, {counted(len(there.only_there), 'message')} only there")
    who = sorted({*there.held.values(), *there.held_there.values()})
    if who:
        count = len(there.held) + len(there.held_there)
        lines.append(
            f"PINNED ELSEWHERE, SO NOT PURGED: {counted(count, 'message')}, by {', '.join(who)}; `hermes lcm pin NAME undo` "
            "on that host ends that"
        )
    return lines


def _data(planned: purge.Plan) -> dict[str, Any]:
    return {
        "messages": [f"msg_{each}" for each in planned.rows], "held": [f"msg_{each}" for each in planned.held],
        "summaries": [f"sum_{each}" for each in planned.nodes], "archives": list(planned.archives),
        "payloads": list(planned.payloads), "index_entries": planned.entries,
        "copies": [str(path) for path in planned.copies], "in_state_db": list(planned.host),
        "fleet": _reached(planned.there) if planned.there else None,
    }  # fmt: skip


def _reached(there: Reach) -> dict[str, Any]:
    return {
        "where": there.where, "tables": dict(there.tables), "messages": [f"msg_{each}" for each in there.messages],
        "summaries": [f"sum_{each}" for each in there.summaries], "only_there": [f"msg_{each}" for each in there.only_there],
        "not_matched": there.silent,
        "held": {f"msg_{each}": who for each, who in [*there.held.items(), *there.held_there.items()]},
    }  # fmt: skip


def _certificate(deps: Access, asked: Selection, done: purge.Done) -> dict[str, Any]:
    """Certificate of a purge: its messages and where they were looked for, with digests; the last one is of all the rest."""
    assert done.found is not None
    about = {
        "database": files.facts_of(deps.db).identity,
        "at": render.moment(deps.clock()),
        "asked": {
            "messages": [f"msg_{each}" for each in asked.ids],
            "session": asked.session,
            "principal": asked.principal,
            "before": render.moment(asked.before) if asked.before else None,
            "matching": _sha(asked.matching) if asked.matching else "",
        },
        "messages": {f"msg_{store_id}": found for store_id, found in done.digests.items()},
        "summaries_made_again": [f"sum_{each}" for each in done.plan.nodes],
        "conversations_removed": done.conversations,
        "files_removed": dict(done.removed),
        "new_backup": str(done.backup),
        "pieces_looked_for": [done.found.pieces, done.found.of],
        "messages_too_short_to_look_for": done.short,
        "files": [
            {"path": str(each.path), "bytes": each.bytes, "sha256": each.sha256, "holds": each.holds}
            for each in done.found.files
        ],
        "still_said_in": done.still,
        "fleet": {
            "server": done.plan.there.where,
            "not_matched": done.plan.there.silent,
            "tables": [
                {
                    "table": each.name,
                    "rows": each.rows,
                    "removed": each.removed,
                    "holds": list(each.holds),
                    "pieces_left_out": each.left_out,
                    "rows_not_readable": each.unread,
                }
                for each in done.there
            ],
        }
        if done.plan.there
        else None,
    }
    return {**about, "sha256": _sha(json.dumps(about, sort_keys=True))}


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _certified(done: purge.Done, certificate: dict[str, Any]) -> list[str]:
    found = done.found
    assert found is not None
    rows = [
        (each.path.name, render.size(each.bytes), each.sha256[:16], f"HOLDS {each.holds}" if each.holds else "clean")
        for each in found.files
    ]
    lines = [
        f"Purged. {counted(done.conversations, 'conversation')} went as a whole. New backup: {done.backup}",
        f"CERTIFICATE of {certificate['at']}, database {certificate['database']}",
        (
            f"  looked for {found.pieces:,} of {counted(found.of, 'piece')} of their texts, and the bytes that held them, in "
            f"{counted(len(found.files), 'file')} and in all that these unpack to"
        ),
        *render.table(rows, indent="    "),
        *_searched_there(done),
    ]
    if done.short:
        lines.append(f"  {counted(done.short, 'message')} too short to tell from others: not looked for")
    if done.still:
        named: Sequence[str] = done.still[:_SHOWN]
        lines.append(f"  STILL SAID in {', '.join(named)}: other messages that repeat it; purge them too")
    others = done.not_ours.holding if done.not_ours is not None else ()
    lines += [f"  Hermes' own {each.path} still holds it; `hermes sessions delete ID` there" for each in others]
    lines.append(f"  sha256 of this certificate: {certificate['sha256']} (`--json` prints all of it)")
    return lines


def _searched_there(done: purge.Done) -> list[str]:
    if not done.plan.there:
        return []
    rows = [
        (each.name, counted(each.rows, "row"), f"{each.removed:,} emptied",
         (f"HOLDS IT: {', '.join(map(str, each.holds[:_SHOWN]))}" if each.holds else "clean")
         + (f", {counted(each.left_out, 'piece')} not looked for" if each.left_out else "")
         + (f", {counted(each.unread, 'row')} not readable" if each.unread else ""))
        for each in done.there
    ]  # fmt: skip
    return [f"  on {done.plan.there.where}:", *render.table(rows, indent="    ")]


def _retention(deps: Access, words: Words) -> Answer:
    terminal_only(deps, words, "retention removes what was said, so it is done at the terminal")
    if not deps.config.retention:
        if wrong := [str(each) for each in deps.config.problems if each.name == "LCM_RETENTION"]:
            raise BadRequest(f"nothing is removed by age: {wrong[0]}")
        said = "Nothing is removed by age, because no policy is set. LCM_RETENTION sets one."
        return Answer(said, {"policy": []}, idle=True)
    done = (retention.apply if words.apply else retention.plan)(deps, words.progress)
    verb = "removed" if words.apply else "would remove"
    what = {"payloads": "payload files of", "summaries": "texts (summaries stay) of", "purge": "all of"}
    lines = [f"policy: {', '.join(deps.config.retention)}"]
    lines += [
        f"{verb} {what[each.due.step]} {each.due.session_id} (last message {render.moment(each.due.newest_at)}): "
        f"{counted(len(each.rows), 'message')}, about {render.size(each.frees)}"
        for each in done.shares[:_SHOWN]
    ]
    if len(done.shares) > _SHOWN:
        lines.append(f"and {counted(len(done.shares) - _SHOWN, 'session')} more")
    total = f"{counted(len(done.shares), 'session')}, about {render.size(done.frees)} in all"
    lines.append(total if done.shares else "nothing is due")
    lines += [f"PINNED, SO IT STAYS: {counted(len(done.held), 'message')}"] if done.held else []
    if done.backup:
        lines.append(f"Backup from before: {done.backup}. Older backups go by their own age.")
    elif done.shares:
        lines.append("Dry run. `hermes lcm retention apply` backs up and does it.")
    data = {
        "policy": list(deps.config.retention), "applied": words.apply, "held": [f"msg_{each}" for each in done.held],
        "bytes": done.frees, "backup": str(done.backup) if done.backup else None,
        "sessions": [
            {"session_id": each.due.session_id, "step": each.due.step, "messages": len(each.rows), "bytes": each.frees}
            for each in done.shares
        ],
    }  # fmt: skip
    return Answer("\n".join(lines), data, idle=not done.shares)


def verbs(others_of: Callable[[Access], Others | None]) -> tuple[Verb, ...]:
    """The rows of the table. ``others_of``: who else has what a database has."""
    return (
        Verb("retention", _retention, "forget by age, as LCM_RETENTION says", "[apply]", changes=True, quotes=True),
        Verb(
            "purge",
            partial(_purge, others_of),
            "remove messages for good, with everything made of them; prints a certificate",
            "messages <msg_1,...> | session <id> | principal <who> | before <date> | matching <text> [apply]",
            changes=True,
            quotes=True,
            example="messages msg_12,msg_13",
            check=lambda _, words: selection(words),
        ),
        *holds.VERBS,
    )
