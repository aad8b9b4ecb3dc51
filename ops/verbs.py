"""
Everything an operator can ask for: one table for ``/lcm`` in the chat and ``hermes lcm`` at the terminal.

A verb takes parsed words and gives an ``Answer``. Verbs that change something show what they would do, and do it when told
"apply"; before that a verified backup is made. Adding a verb is adding a row.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Collection

from ..errors import BadRequest
from . import backup, checks, clean, explain, import_verbs, presets, redaction, render, repair, rotate
from .answers import FAILED, FOUND, OK, REFUSED, Answer, Verb, Words, at_most, one
from .status import OpsDeps, exists, status

__all__ = ["FAILED", "FOUND", "OK", "REFUSED", "VERBS", "Answer", "Verb", "Words", "flagged", "parsed"]

_FLAGS = {"apply": "apply", "--apply": "apply", "--dry-run": "dry", "dry-run": "dry", "deep": "deep", "--deep": "deep"}


# -- looking -------------------------------------------------------------------------------------------
def _status(deps: OpsDeps, words: Words) -> Answer:
    data = status(deps, deep=words.deep)
    return Answer(render.status_text(data), data)


def _doctor(deps: OpsDeps, words: Words) -> Answer:
    data = checks.doctor(deps, deep=words.deep, progress=words.progress)
    return Answer(render.doctor_text(data), data, FOUND if data["overall"] == "unhealthy" else OK)


def _retention(deps: OpsDeps, words: Words) -> Answer:
    if words.apply:
        raise BadRequest(
            "retention is an analysis only; `/lcm doctor clean apply` removes sessions that a pattern names"
        )
    if not deps.db.path.exists():
        return Answer("Nothing is stored yet.", {"months": []})
    rows = clean.retention(deps)
    data = [{"month": row[0], "messages": row[1], "sessions": row[2], "stored_bytes": row[3]} for row in rows]
    shown = [
        (month, f"{render.counted(count, 'message')}", f"{render.counted(sessions, 'session')}", render.size(size))
        for month, count, sessions, size in rows
    ]
    head = "What is stored, by month (nothing is ever removed by age):"
    return Answer("\n".join([head, *render.table(shown)]) if shown else "Nothing is stored yet.", {"months": data})


def _explain(deps: OpsDeps, words: Words) -> Answer:
    address = one(words, "an address such as msg_12 or sum_3")
    data = explain.explain(deps, address)
    said = {name: render.checks_said(text) if name.startswith("checks") else text for name, text in data.items()}
    return Answer("\n".join(render.table(said.items(), indent="")), data)


def _search(deps: OpsDeps, words: Words) -> Answer:
    if not "".join(words.rest).strip():
        raise BadRequest("`/lcm search` needs words to look for")
    data = explain.search(deps, " ".join(words.rest))
    lines = [f"{each['address']}  {each['when']}  {each['role']}: {each['excerpt']}" for each in data["results"]]
    notes = [f"({note})" for note in data["notes"]]
    return Answer("\n".join([*(lines or ["Nothing was found."]), *notes]), data)


# -- presets -------------------------------------------------------------------------------------------
def _preset_show(deps: OpsDeps, words: Words) -> Answer:
    if not words.rest:
        data = [
            {"preset": each.name, "summary": each.summary, **presets.described(each, deps.config)}
            for each in presets.PRESETS
        ]
        rows = [(each.name, each.summary) for each in presets.PRESETS]
        foot = "`/lcm preset show NAME` says what one of them sets and where its values come from."
        return Answer("\n".join([*render.table(rows, indent=""), foot]), {"presets": data})
    preset = presets.named(one(words, "the name of one preset"))
    said = {
        "preset": preset.name,
        "family": preset.family,
        "summary": preset.summary,
        "settings": presets.preview(preset.name),
        "windows": [preset.low, preset.high],
        **presets.described(preset, deps.config),
    }
    return Answer(render.preset_text(said), said)


def _preset_suggest(deps: OpsDeps, _words: Words) -> Answer:
    facts = deps.engine
    data = presets.suggestion(
        deps.config, context_length=facts.context_length, model=facts.model, provider=facts.provider
    )
    if data["preset"] is None:
        return Answer(f"No preset is suggested: {data['reason']}.", data)
    return Answer(render.preset_text(data), data)


def _preset_apply(deps: OpsDeps, words: Words) -> Answer:
    name = one(words, f"a preset: {', '.join(each.name for each in presets.PRESETS)}")
    preset = presets.named(name)
    if not words.dry:
        presets.refuse_apply(name)
    lines = presets.preview(name)
    said = presets.described(preset, deps.config)
    head = [f"Dry run of {name}; nothing is changed, presets are never applied by the plugin. To take it over, set:"]
    kept = [
        f"  (you have set {key} yourself: {value['value']})" for key, value in said["kept_because_you_set_them"].items()
    ]
    bad = [f"  (invalid and therefore not in effect: {text})" for text in said["invalid_settings"].values()]
    only = [
        f"  (not a setting, only part of the benchmark: {key}={value})" for key, value in said["benchmark_only"].items()
    ]
    return Answer("\n".join([*head, *lines, *kept, *bad, *only]), {"preset": name, "settings": lines, **said})


# -- changing ------------------------------------------------------------------------------------------
def _clean(deps: OpsDeps, words: Words) -> Answer:
    if not deps.db.path.exists():
        return Answer("Nothing is stored yet.", {"junk": []})
    found = clean.clean(deps, words.progress) if words.apply else clean.candidates(deps)
    rows = [
        (", ".join(each.sessions), f"{render.counted(each.messages, 'message')}", f"matches {each.pattern}")
        for each in found.junk
    ]
    lines = ["Sessions that LCM_IGNORE_SESSION_PATTERNS names:", *(render.table(rows) or ["  none"])]
    if found.spared:
        lines.append(f"Kept, because they are in use or others rest on them: {', '.join(found.spared[:20])}")
    if found.small:
        lines.append(
            f"Ended with two messages or fewer (kept; worth a look): {', '.join(row[0] for row in found.small[:20])}"
        )
    if found.backup:
        lines.append(f"Removed {render.counted(found.removed_messages, 'message')}. Backup: {found.backup}")
        if not found.reindexed:
            lines.append("Their words leave the search index with `/lcm doctor repair apply`.")
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
    return Answer("\n".join(lines), data)


def _repair(deps: OpsDeps, words: Words) -> Answer:
    done = (
        repair.repair(deps, words.progress) if words.apply else repair.Repaired(repair.diagnose(deps, words.progress))
    )
    found = done.diagnosis
    data = {
        "damaged": list(found.damaged),
        "indexes": list(found.indexes),
        "applied": words.apply and not found.well,
        "kept": str(done.kept) if done.kept else None,
        "saved": dict(done.saved),
        "lost": dict(done.lost),
        "notes": list(done.notes),
    }
    if not exists(deps):
        said = "There is no database yet: nothing is stored, so there is nothing to repair."
        if backup.backups(deps.db.path):
            said += " There are backups of one: `/lcm restore latest`."
        return Answer(said, {**data, "notes": [said]})
    if found.well:
        return Answer("\n".join(["Nothing to repair: the file and its search indexes are sound.", *done.notes]), data)
    lines = [f"The file is damaged: {each}" for each in found.damaged[:5]]
    lines += [f"Search index: {each}" for each in found.indexes[:5]]
    if not words.apply:
        what = (
            "saves what is readable into a new file and keeps the damaged one"
            if found.damaged
            else "builds the indexes anew"
        )
        return Answer("\n".join([*lines, f"Dry run. `/lcm doctor repair apply` {what}."]), data, FOUND)
    lines.append(f"{'The damaged file is kept' if found.damaged else 'Backup'}: {done.kept}")
    if done.saved:
        lines.append("Saved: " + ", ".join(f"{count} {name}" for name, count in done.saved.items() if count))
        lines.append("Unreadable: " + (", ".join(f"{count} {name}" for name, count in done.lost.items()) or "no row"))
    lines += [f"  {note}" for note in done.notes]
    return Answer("\n".join([*lines, "The search indexes were built anew."]), data)


def _source(deps: OpsDeps, words: Words) -> Answer:
    if not deps.db.path.exists():
        return Answer("Nothing is stored yet.", {"blank": 0})
    if not words.apply:
        count = clean.blank_sources(deps)
        hint = " Dry run. `/lcm doctor source apply` backs up and writes 'unknown' into them." if count else ""
        return Answer(f"Without a source: {render.counted(count, 'message')}.{hint}", {"blank": count})
    count, path = clean.fill_sources(deps, words.progress)
    said = (
        f"{render.counted(count, 'message')} given the source 'unknown'. Backup: {path}"
        if count
        else "No message lacks its source."
    )
    return Answer(said, {"filled": count, "backup": str(path) if path else None})


def _backup(deps: OpsDeps, words: Words) -> Answer:
    made = backup.back_up(deps, words.progress)
    kinds = ("messages", "message"), ("nodes", "summary"), ("sessions", "session")
    counts = ", ".join(render.counted(made.counts.get(name, 0), word) for name, word in kinds)
    lines = [f"{made.path} ({render.size(made.bytes)}), checked: {counts}"]
    if made.payloads:
        lines.append(
            f"{render.counted(made.payloads, 'payload file')} left in place; the manifest beside the backup has the digests"
        )
    if made.missing:
        named = ", ".join(f"file_{sha[:16]}" for sha in made.missing[:5])
        lines.append(
            f"{render.counted(len(made.missing), 'payload file')} missing, here as in the database; messages show them: {named}"
        )
    if made.dropped:
        lines.append(f"older than the newest {backup.KEEP}, removed: {', '.join(path.name for path in made.dropped)}")
    data = {"path": str(made.path), "bytes": made.bytes, "counts": dict(made.counts), "payloads": made.payloads}
    data |= {"missing_payloads": list(made.missing)}
    return Answer("\n".join(lines), {**data, "removed": [str(path) for path in made.dropped]})


def _restore(deps: OpsDeps, words: Words) -> Answer:
    if not words.rest:
        names = [path.name for path in backup.backups(deps.db.path)]
        said = "\n".join(
            ["Name the backup to put back, or `latest`:", *(f"  {name}" for name in names[::-1] or ["none yet"])]
        )
        foot = "`/lcm restore NAME` looks at one, `/lcm restore NAME apply` puts it back."
        return Answer(f"{said}\n{foot}" if names else said, {"backups": names})
    at_most(words, 1, "one backup, or `latest`")
    plan = (
        backup.restore(deps, words.rest[0], words.progress) if words.apply else backup.plan_restore(deps, words.rest[0])
    )
    newer = "unknown, it cannot be read" if plan.newer is None else f"{plan.newer:,}"
    lines = [
        f"{plan.source}: sound, {render.counted(plan.counts.get('messages', 0), 'message')}; newer ones are here: {newer}"
    ]
    lines += [f"payload file missing or changed: {name}" for name in plan.missing_payloads[:20]]
    if words.apply:
        lines.append(f"It is the database now. What was there before: {plan.kept or 'nothing'}")
    else:
        lines.append(f"Dry run. `/lcm restore {words.rest[0]} apply` puts it back and keeps the present file.")
    data = {
        "source": str(plan.source),
        "counts": dict(plan.counts),
        "newer_messages": plan.newer,
        "applied": words.apply,
    }
    return Answer("\n".join(lines), {**data, "kept": str(plan.kept) if plan.kept else None})


def _rotate(deps: OpsDeps, words: Words) -> Answer:
    done = rotate.apply(deps, words.progress) if words.apply else rotate.preview(deps)
    lines = [f"status: {done.status}", done.reason]
    if done.status != "noop":
        lines.append(
            f"out of the prompt: about {render.counted(done.leaving, 'message')}; at most {done.tail} stay; "
            "none is deleted, no model is asked"
        )
    if done.backup:
        lines.append(f"backup: {done.backup}")
    elif done.status == "preview":
        lines.append("Dry run. `/lcm rotate apply` orders it, after a backup.")
    data = {"status": done.status, "reason": done.reason, "leaving": done.leaving, "tail": done.tail}
    return Answer("\n".join(lines), {**data, "backup": str(done.backup) if done.backup else None})


def _dissolve(deps: OpsDeps, words: Words) -> Answer:
    address = one(words, "a summary such as sum_3", most=2)
    undo = words.rest[1:] == ("undo",)
    if words.rest[1:] and not undo:
        raise BadRequest(f"{words.rest[1]!r} is neither 'apply' nor 'undo'")
    before = explain.dissolve(deps, address, apply=False)
    if not words.apply or undo or before["dissolved"]:  # an order that is there already changes nothing
        data = explain.dissolve(deps, address, apply=undo, undo=undo)
        return Answer(str(data["said"]), data)
    made = backup.back_up(deps, words.progress)
    data = {**explain.dissolve(deps, address, apply=True), "backup": str(made.path)}
    return Answer(f"{data['said']} Backup: {made.path}", data)


def _help(_deps: OpsDeps, _words: Words) -> Answer:
    rows = [(f"/lcm {each.name} {each.usage}".rstrip(), each.help) for each in VERBS]
    foot = "What changes something shows first what it would do; with `apply` it makes a backup and does it."
    return Answer("\n".join([*render.table(rows, indent=""), foot]), {"verbs": [each.name for each in VERBS]})


VERBS: tuple[Verb, ...] = (
    Verb(
        "status",
        _status,
        "what is going on in this session and in the archive; deep also says what fills the file",
        "[deep]",
    ),
    Verb("doctor", _doctor, "health checks; deep also reads the whole file", "[deep]"),
    Verb("doctor clean", _clean, "sessions that a pattern of yours names as junk", "[apply]", changes=True),
    Verb("doctor repair", _repair, "search indexes, or a damaged file", "[apply]", changes=True),
    Verb("doctor source", _source, "messages without a source", "[apply]", changes=True),
    Verb("doctor retention", _retention, "how much is stored, by month"),
    *import_verbs.VERBS,
    Verb("backup", _backup, "a checked copy of the database"),
    Verb("restore", _restore, "put a backup back", "[<name>|latest] [apply]", changes=True),
    *redaction.VERBS,
    Verb("rotate", _rotate, "let everything before the fresh tail leave the prompt", "[apply]", changes=True),
    Verb("preset show", _preset_show, "shipped groups of settings and where their values come from", "[<name>]"),
    Verb("preset suggest", _preset_suggest, "which of them suits this context window"),
    Verb("preset apply", _preset_apply, "the settings to put into the environment; writes nothing", "<name> --dry-run"),
    Verb("explain", _explain, "what a message or summary is, and what covers it", "<msg_12|sum_3>", quotes=True),
    Verb("dissolve", _dissolve, "use a summary no more; undo takes it back", "<sum_3> [apply|undo]", changes=True),
    Verb("search", _search, "find messages", "<words>", quotes=True),
    Verb("help", _help, "this list"),
)
_BY_NAME = {verb.name: verb for verb in VERBS}


def parsed(text: str) -> tuple[Verb, Words]:
    """The verb that was typed, and what follows it. Raises BadRequest with the nearest help."""
    try:
        words = shlex.split(text)
    except ValueError:  # an odd quote is somebody's apostrophe
        words = text.split()
    if not words:
        return _BY_NAME["status"], Words()
    for length in (2, 1):
        verb = _BY_NAME.get(" ".join(words[:length]).lower())
        if verb is not None and len(words) >= length:
            return verb, flagged(verb, words[length:])
    raise BadRequest(f"{_unknown(words)} `/lcm help` lists what there is")


def _unknown(words: list[str]) -> str:
    """What is wrong with words that are no verb: the first half of one alone, or a mistyped one."""
    follow = [name.partition(" ")[2] for name in _BY_NAME if name.startswith(f"{words[0].lower()} ")]
    if follow and len(words) == 1:
        return f"`/lcm {words[0].lower()}` needs one more word ({', '.join(follow)});"
    if follow:
        near = difflib.get_close_matches(words[1].lower()[:60], follow, n=1, cutoff=0.6)
        meant = f" did you mean `/lcm {words[0].lower()} {near[0]}`?" if near else ""
        return f"`/lcm {words[0].lower()}` takes no {words[1]!r} (what there is: {', '.join(follow)});{meant}"
    return f"/lcm knows no {words[0]!r};{_nearest(words)}"


def _nearest(words: list[str]) -> str:
    """The verb that was probably meant, if one is near."""
    for length in (2, 1):
        near = difflib.get_close_matches(" ".join(words[:length]).lower()[:60], list(_BY_NAME), n=1, cutoff=0.6)
        if near:
            return f" did you mean `/lcm {near[0]}`?"
    return ""


def flagged(verb: Verb, words: list[str], options: Collection[str] = ()) -> Words:
    """Free words and flags; ``options``: flags that were given apart. Words to search for are never flags.

    Raises BadRequest for whatever the verb has no use for: `backup --dry-run` shall not make a backup.
    """
    search = verb.name == "search"
    flags = set(options) | ({_FLAGS[word] for word in words if word in _FLAGS} if not search else set())
    dry = verb.changes or "--dry-run" in verb.usage
    for flag, shown, fits in (
        ("apply", "apply", verb.changes), ("deep", "deep", "deep" in verb.usage), ("dry", "--dry-run", dry)
    ):  # fmt: skip
        if flag in flags and not fits:
            raise BadRequest(_no_use(verb, shown))
    rest = tuple(word for word in words if search or word not in _FLAGS)
    if rest and verb is not _BY_NAME["help"] and "<" not in verb.usage:
        raise BadRequest(_no_use(verb, rest[0]))
    applied = "apply" in flags and "dry" not in flags
    return Words(rest, apply=applied, dry="dry" in flags, deep="deep" in flags, name=verb.name)


def _no_use(verb: Verb, word: str) -> str:
    """What a verb cannot do with a word, and the words that it takes."""
    known = [each.name.removeprefix(f"{verb.name} ") for each in VERBS if each.name.startswith(f"{verb.name} ")]
    known += re.findall(r"\[(\w+)\]", verb.usage)
    said = f" (what there is: {', '.join(known)})" if known else ""
    return f"`/lcm {verb.name}` takes no {word!r}{said}; `/lcm help` lists everything"
