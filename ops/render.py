"""
Status, doctor and the other answers as text for people.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ..config import MODE_SETTINGS, setting_text
from ..errors import StoreEarlier
from ..records import STATED
from ..text.printable import one_line
from .findings import FAIL, PASS, WARN

_MARK = {PASS: "ok", WARN: "warning", FAIL: "FAILED"}


def size(count: int | None) -> str:
    """Bytes for people."""
    if count is None:
        return "unknown"
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def disk_said(disk: Mapping[str, Any]) -> str:
    """Bytes by kind of file, in words."""
    closed = disk.get("not_readable", {})
    least = {*disk.get("at_least", ()), *closed}
    sizes = [
        f"{name.replace('_', ' ')} {'at least ' if name in least else ''}{size(count)}"
        for name, count in disk.items()
        if (count or (name == "free" and count is not None)) and name not in ("at_least", "not_readable")
    ]
    return ", ".join([*sizes, *(f"{name.replace('_', ' ')} not known ({why})" for name, why in closed.items())])


def counted(count: int, thing: str) -> str:
    """A number of things: one of them is no "1 things"."""
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
    return f"{count:,} {thing if count == 1 else plural}"


def few(texts: Sequence[str], most: int, between: str = ", ") -> str:
    """The first of some texts, and how many more there are."""
    return between.join(texts[:most]) + (f" and {len(texts) - most:,} more" if len(texts) > most else "")


def moment(seconds: float | None) -> str:
    """A time with its zone."""
    return "never" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ}"


def table(rows: Iterable[Sequence[object]], indent: str = "  ") -> list[str]:
    """Rows with their columns under each other; the last column is free."""
    texts = [[one_line(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in texts) for n in range(min(map(len, texts)) - 1)] if texts else []
    return [
        (
            indent
            + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), *row[len(widths) :]])
        ).rstrip()
        for row in texts
    ]


#: How a session began, and what is done with it, for people.
_ORIGINS = {
    "start": "new conversation",
    "rotation": "continued after a compaction of the host",
    "branch": "branch of another conversation",
    "subagent": "delegated by another session",
}
_MODES = {
    "full": "stored and summarised",
    "stateless": "not stored (LCM_STATELESS_SESSION_PATTERNS)",
    "ignored": "not stored (LCM_IGNORE_SESSION_PATTERNS)",
}


# -- status --------------------------------------------------------------------------------------------
def status_text(data: Mapping[str, Any]) -> str:
    """The status on a screen, where all is well; everything is in the data."""
    lines = ["LCM status", *_archive(data), *_amiss(data)]
    if data["database"]["state"] not in ("empty", "earlier") or data["agent_runs_here"]:
        lines += ["", "Session", *table(_session(data))]
    lines += ["", "Stored", *table(_store(data))]
    if changed := table(_changed(data)):
        lines += ["", "Settings that are not defaults", *changed]
    lines += ["", "Plugin", *table(_plugin(data))]
    return "\n".join([*lines, *(f"  {each}" for each in data["disabled_features"])])


def _amiss(data: Mapping[str, Any]) -> list[str]:
    """Problems and settings that were not accepted: what somebody should do comes before the figures."""
    lines: list[str] = []
    # Each refused setting is a problem too; the data has both, and people read it just below.
    if problems := [each for each in data["problems"] if not each["topic"].startswith("setting ")]:
        lines += ["", "Problems"]
    for each in problems:
        lines += [f"  {each['severity']}: {each['topic']}: {each['message']}"]
        lines += [f"    what to do: {each['remedy']}"] if each.get("remedy") else []
    if data["refused_settings"]:
        lines += ["", "Settings that were not accepted", *(f"  {each}" for each in data["refused_settings"])]
    return lines


def _archive(data: Mapping[str, Any]) -> list[str]:
    """The archive as a whole, in a sentence or two."""
    used = data["host"]["engine_in_use"] in ("lcm", "", None)
    if data["database"]["state"] == "earlier":
        said = of_earlier(data["database"].get("messages"), live=data["agent_runs_here"], used=used)
        return [*(f"  {line}" for line in said), *([] if used else [_UNUSED])]
    if data["database"]["state"] == "empty":
        if not used:
            return [_UNUSED]
        return ["  Installed and active. Nothing is stored yet: send a message."]
    found = data.get("archive")
    if not found:
        return []
    what = (
        (found["conversations"], "conversation"), (found["sessions"], "session"),
        (data["store"]["total_messages"], "message"), (data["dag"]["total_nodes"], "summary"),
    )  # fmt: skip
    counts = ", ".join(counted(count, name) for count, name in what)
    return [f"  {counts}; since {moment(found['since'])[:10]}"]


_UNUSED = "  Installed, but Hermes uses another engine, so nothing is stored (see `/lcm doctor`)."


def of_earlier(messages: int | None, *, live: bool, used: bool) -> list[str]:
    """A file of the plugin before this one, and how its messages come over: while an agent runs, or when one starts."""
    its = "Its messages are"
    if messages is not None:
        its = f"Its {counted(messages, 'message')} {'is' if messages == 1 else 'are'}"
    how = "taken over when an agent starts." if used else "not taken over yet."
    how = "taken over now, behind the turns." if live else f"{how} {StoreEarlier.BY_HAND}."
    return ["This file was written by the earlier hermes-lcm plugin. Nothing in it was changed.", f"{its} {how}"]


def _session(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    known = data["context_length"] > 0
    pressure = data["prompt_pressure"]
    live = data["agent_runs_here"]
    source = "" if live else f" (from {data['context_length_source']})"
    length = f"{data['context_length']:,} tokens{source}" if known else data.get("context_length_note", "unknown")
    uninitialised = not known and not data["bound"]
    full = data["threshold_tokens"] >= data["effective_context_length"]
    late = ", not below the window: compaction begins only when it is full" if full else ""
    rows = [
        ("session", _named(data)),
        ("context window", length),
        (
            "threshold",
            "unknown" if uninitialised else f"{data['threshold_tokens']:,} tokens ({data['threshold_source']}){late}",
        ),
        (
            "prompt size",
            f"{pressure['of_context']:.1%} of the window, {pressure['of_threshold']:.1%} of the threshold"
            if live
            else "only a running agent knows it; ask for the status in its chat",
        ),
        *([("last prompt", f"{data['last_prompt_tokens']:,} tokens")] if live else []),
        *_next_fold(data["background"]),
        *_fleet(data["background"]),
        *_vectors(data["background"]),
        ("compactions", f"{data['compression_count']:,}"),
        *_tokens(data["token_calibration"]),
    ]
    life = data.get("lifecycle") or {}
    if life:
        rows.append(("state", _state(life, data.get("dag", {}).get("nodes"))))
    if data["last_rotate_at"] is not None:
        rows.append(("last rotation", moment(data["last_rotate_at"])))
        rows.append(("its backup", data["rotate_backup_path"]))
    if life.get("rotate_ordered"):
        rows.append(("rotation", "ordered; it happens at the next message"))
    spent = data.get("cost_today") or {}
    if spent.get("requests") or spent.get("summaries"):
        several = data.get("archive", {}).get("sessions", 0) > 1  # an operator's sums are of the whole archive
        rows.append(("cost today", spent["line"] + (", all sessions together" if several else "")))
    if exam := data.get("exam"):
        other = f", of session {exam['session_id']}" if exam["session_id"] != data["session_id"] else ""
        rows.append(("last exam", exam_line(exam) + other))
    suggestion = data["preset_suggestion"]
    if suggestion["preset"]:
        why = "fits the model" if suggestion["match"] == "model" else "fits the context window"
        rows.append(("preset suggestion", f"{suggestion['preset']} ({why}); /lcm preset suggest"))
    return rows


def _state(life: Mapping[str, Any], summaries: int | None) -> str:
    """State of a session: has it ended, what is done with it, how did it begin."""
    ended, kept = life["ended_at"], _MODES.get(life["mode"], life["mode"])
    if ended and life["mode"] == "full" and summaries == 0:
        kept = "stored"
    return f"{'ended' if ended else 'active'}; {kept}; {_ORIGINS.get(life['origin'], life['origin'])}"


def exam_line(last: Mapping[str, Any]) -> str:
    """The last grade of `/lcm exam` in a few words."""
    counts = last["all"]
    prompt, look, lost = (f"{counts[grade] / max(1, counts['n']):.0%}" for grade in ("prompt", "look", "lost"))
    when = moment(last["at"])
    return (
        f"{counted(counts['n'], 'question')}: {prompt} in the prompt, {look} one search away, {lost} not found ({when})"
    )


def _named(data: Mapping[str, Any]) -> str:
    """The session, and which setting keeps it out of the archive."""
    filters = data["session_filters"]
    out = next((mode for mode in MODE_SETTINGS if filters[mode]), "")
    none = "unknown: see Problems" if data["database"]["state"] == "failed" else "none yet: send a message"
    return f"{data['session_id'] or none}{f', {out} ({MODE_SETTINGS[out]})' if out else ''}"


def _next_fold(background: Mapping[str, Any]) -> list[tuple[str, str]]:
    fold = background.get("next_fold")
    if not fold:
        return []
    return [("next compaction", f"at {fold['due']:,} tokens: {fold['why']}" if fold["due"] else fold["why"])]


def _fleet(background: Mapping[str, Any]) -> list[tuple[str, str]]:
    fleet = background.get("fleet")
    if not fleet:
        return []
    said = "the server has everything" if not fleet["behind"] else f"the server lacks {fleet['behind']} rows"
    return [("fleet", f"{said}{'; ' if fleet['error'] else ''}{fleet['error']}")]


def _vectors(background: Mapping[str, Any]) -> list[tuple[str, str]]:
    vectors = background.get("vectors")
    if not vectors:
        return []
    said = f"up to msg_{vectors['up_to']} of msg_{vectors['newest']}" if vectors["up_to"] else "of no message yet"
    done = vectors["up_to"] >= vectors["newest"]
    return [("vectors", "of all messages" if done else f"{said}; an agent makes them behind its turns")]


def _tokens(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Corrections of the host's estimates, and the part of the last request that no compaction makes smaller."""
    if not said:
        return []
    ratios = ", ".join(f"{name} {ratio:g}" for name, ratio in said.get("ratios", {}).items())
    text = f"host's estimate x {said['factor']:g}" + (f" ({ratios})" if ratios else f" ({said['counted_by']})")
    rows = [("token calibration", text)]
    if "fixed_tokens" in said:
        rows.append(("last request", f"{said['fixed_tokens']:,} fixed, {said['shrinkable_tokens']:,} can shrink"))
    return rows


def _store(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    database, store, dag = data["database"], data.get("store"), data.get("dag")
    state = {"empty": "no file yet", "earlier": "of the earlier plugin"}.get(database["state"], database["state"])
    state = "damaged in part, see Problems" if database.get("damaged") else state
    rows = [("database", f"{database['path']} ({state})")]
    if store is not None and dag is not None:
        if "session_messages" in store:
            rows.append(
                ("messages", f"{store['session_messages']:,} of this session, {store['total_messages']:,} in all")
            )
            depths = ", ".join(f"{sum(each.values()):,} of depth {depth}" for depth, each in dag["by_depth"].items())
            rest = (
                f", {dag['provisional']:,} not verified"
                if dag["provisional"]
                else ", all verified"
                if dag["nodes"]
                else ""
            )
            rows.append(("summaries", f"{dag['nodes']:,}{f' ({depths})' if depths else ''}{rest}"))
            rows += _resting(data)
        else:
            rows += [("messages", f"{store['total_messages']:,}"), ("summaries", f"{dag['total_nodes']:,}")]
    if data.get("lcm_map"):
        rows.append(("lcm_map", data["lcm_map"]))
    archives = data.get("archives", {})
    if any(archives.values()):
        rows.append(("archives", ", ".join(f"{count} {state}" for state, count in archives.items())))
    lineage = data.get("source_lineage") or {}
    if lineage.get("sources"):
        looked = lineage["newest_messages"]
        of = f" (of the newest {looked:,})" if looked < data["store"]["session_messages"] else ""
        rows.append(("sources", ", ".join(f"{name} {n:,}" for name, n in lineage["sources"].items()) + of))
    rows += [("disk", said) for said in [disk_said(data["disk"])] if said]  # a chat is told nothing of the machine
    if inside := data.get("inside_database"):
        rows.append(("inside the database", disk_said(inside) if isinstance(inside, Mapping) else inside))
    if retention := data.get("retention"):
        waiting = ", ".join(f"{step}: {counted(n, 'session')}" for step, n in retention["sessions_due"].items())
        rows.append(("retention due", f"{waiting or 'nothing'} (`/lcm retention` says what that frees)"))
        if schedule := retention["schedule"]:
            rows.append(("retention by itself", scheduled(schedule)))
    filters = data["session_filters"]
    if filters["ignored_message_count"]:
        rows.append(("ignored messages", f"{filters['ignored_message_count']} since the start of this process"))
    return rows


def _resting(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    resting = data["resting_models"]
    return [("summary model", f"not asked for now: {resting}; extracts stand in")] if resting else []


def _changed(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    sources = data["config_sources"]
    if not isinstance(sources, Mapping):
        return []
    return [
        (name, f"{setting_text(data['config'][name])} ({source})")
        for name, source in sources.items()
        if name in data["config"]
    ]


def _plugin(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    dirty = {True: ", with local changes", False: "", None: ""}[data["plugin_git_dirty"]]
    commit = (data["plugin_git_commit"] or "")[:12]
    at = f" at {commit} on {data['plugin_git_branch']}{dirty}" if commit else ""
    version = f"{data['plugin_version']}{at}"
    host = data["host"]
    used = host["engine_in_use"] or "unknown"
    other = "" if used in ("lcm", "unknown") else ": not this plugin's, see /lcm doctor"
    return [
        ("version", version),
        ("path", data["plugin_path"]),
        ("host", f"{host['version'] or 'unknown'}, context.engine {used}{other}"),
    ]


# -- checks of a summary -------------------------------------------------------------------------------
def checks_said(text: str) -> str:
    """Findings of verification on a summary, as they are kept with the node, in words."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    if not isinstance(found, Mapping) or not found:
        return "none were kept"
    said = [f"{each['rung'] or 'attempt'} by {each['route']}: {each['outcome']}" for each in found.get("attempts", ())]
    for part in found.get("parts", ()):
        said.append(
            f"keeps {part['recall']:.0%} of the names and numbers of its source, "
            f"{part['recall_with_anchors']:.0%} with its list of them"
        )
        said += [f"struck, because the source lacks it: {', '.join(part['struck'])}"] if part["struck"] else []
    if not found.get("attempts"):
        said += [str(reason) for reason in found.get("reasons", ())]
    if facts := len(found.get(STATED, ())):
        said.append(f"{facts} fact{'s' if facts > 1 else ''} of users noted beside it")
    if "recall_with_anchors" in found:
        said.append(f"the extract keeps {found['recall_with_anchors']:.0%} of the names and numbers of its source")
    return "; ".join(said) or ", ".join(f"{name}: {value}" for name, value in found.items())


# -- presets -------------------------------------------------------------------------------------------
def preset_text(data: Mapping[str, Any]) -> str:
    """A preset or a suggestion: what it is, what it would change, and what the operator's own settings keep."""
    rows = [("preset", data["preset"])]
    rows += [("for", data["summary"])] if "summary" in data else []
    if "windows" in data:
        low, high = data["windows"]
        rows.append(("windows", f"{low:,} to {counted(high, 'token')}" if low else "any"))
    if "reason" in data:
        match = (
            "the model is of its family" if data["match"] == "model" else "only the window was compared, not the model"
        )
        rows += [("why", data["reason"]), ("match", f"{data['match']}: {match}")]
    rows.append(("values", f"{data['provenance']} (version {data['policy_version']})"))
    lines = table(rows, indent="")
    for name, change in data["would_change"].items():
        lines.append(f"  {name}: {change['from']} -> {change['to']}")
    for name, kept in data["kept_because_you_set_them"].items():
        lines.append(f"  {name}: stays {kept['value']}, you set it ({kept['source']}); the preset has {kept['preset']}")
    lines += [f"  invalid, so not in effect: {said}" for said in data["invalid_settings"].values()]
    if data.get("settings") == []:
        lines.append("  It sets nothing: it stands for the defaults.")
    elif not data["would_change"]:
        lines.append("  It would change nothing: your settings are these already.")
    if data.get("alternatives"):
        lines.append(f"also for this window: {', '.join(data['alternatives'])}")
    lines += _compared(data)
    if data["would_change"]:
        lines.append(
            f"Nothing is changed yet. `hermes lcm preset use {data['preset']} apply` writes this into config.yaml."
        )
    return "\n".join(lines)


def _compared(data: Mapping[str, Any]) -> list[str]:
    """Figures of a preset, and of the defaults beside it, where it was measured."""
    ours, theirs = data["metrics"], data["metrics_of_defaults"]
    if not ours:
        return []
    rows = [("", "preset", "defaults")]
    rows += [(name.replace("_", " "), _figure(ours[name]), _figure(theirs[name])) for name in ours if name in theirs]
    return ["", f"Measured by {data['measured_by']}:", *table(rows), ""]


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


# -- doctor --------------------------------------------------------------------------------------------
def doctor_text(data: Mapping[str, Any], *, verbose: bool = False) -> str:
    """The doctor's report: failures first, with meaning and remedy; what passed in one line, or each (``verbose``)."""
    counts = data["counts"]
    lines = [
        f"LCM doctor: {data['overall']} ({counts[FAIL]} failed, {counted(counts[WARN], 'warning')}, {counts[PASS]} passed)"
    ]
    order = {FAIL: 0, WARN: 1, PASS: 2}
    for each in sorted(data["checks"], key=lambda item: order[item["status"]]):
        if each["status"] == PASS and not verbose:
            break
        first, *more = each["detail"].split("\n")
        lines += [f"  {_MARK[each['status']]:8}{each['check']}: {first}", *(f"          {line}" for line in more)]
        lines += [f"          it means: {each['meaning']}"] if each.get("meaning") else []
        lines += [f"          what to do: {each['remedy']}"] if each.get("remedy") else []
        lines += [f"          command: {each['command']}"] if each.get("command") else []
    if not verbose:
        lines.append(f"  {counted(counts[PASS], 'check')} passed; `/lcm doctor verbose` lists them.")
    if data.get("sessions", 0) > 1:
        about = f"the newest of {data['sessions']:,} sessions; `hermes lcm doctor --session ID` looks at another one"
        lines.append(f"  Prompt and session checks are about {data['session_id']}, {about}.")
    if data.get("not_checked"):
        begun = any(each["check"] == "database" and each["status"] != PASS for each in data["checks"])
        need = "a database that this plugin can read" if begun else "a first message"
        lines.append(f"  {counted(len(data['not_checked']), 'more check')} need {need}.")
    if not data["deep"]:
        lines.append("  `/lcm doctor deep` also reads the whole file and its indexes.")
    return "\n".join(lines)


def scheduled(schedule: Mapping[str, Any]) -> str:
    """The last round of the retention policy, and when the next one is."""
    said = "dry run only" if not schedule["applies"] else "removes what is due"
    last = schedule["last"]
    if last is not None and last["sessions"]:
        verb = "removed" if last["applied"] else "would have removed"
        held = f", {last['held']:,} held" if last["held"] else ""
        said += (
            f"; at {moment(last['at'])} it {verb} {counted(last['messages'], 'message')} of "
            f"{counted(last['sessions'], 'session')}, about {size(last['frees'])}{held}"
        )
    elif last is not None and last["failed"]:
        said += f"; it FAILED at {moment(last['at'])}"
    elif last is not None:
        said += f"; nothing was due at {moment(last['at'])}"
    return f"{said}; the next round after {moment(schedule['next_at'])}"
