"""
Checks of the doctor about the running engine, its settings and the host around it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ...config import Config, matches_session
from ...ingest.filters import Noise
from ...recall.access import Access
from ...storage.meta import WORKER
from ...text.secret_kinds import CATALOGUE
from ..findings import Finding, fail, ok, warn
from ..render import counted
from ..status import (
    OPTIONAL_PACKAGES,
    changed_settings,
    context_note,
    missing_packages,
    remembered,
    resting_models,
    sensitive,
    spend,
    window,
)
from ..status import plugin as identity

OLDEST_HOST = (0, 18)
_FULL, _TIGHT = 0.97, 0.9


#: What a problem means, by whether it is an error.
_MEANT = {True: "something went wrong, and the turn went on", False: "it was noticed in a turn, which went on"}


def problems(deps: Access, _deep: bool) -> Finding:
    """Are there problems that are not solved yet?"""
    found = [each for each in remembered(deps) if not each.topic.startswith(("setting ", "sensitive pattern "))]
    if not found:
        return ok("nothing unresolved")
    first = found[0]
    kind = fail if any(each.severity == "error" for each in found) else warn
    more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
    often = f" ({counted(first.count, 'time')})" if first.count > 1 else ""
    return kind(
        f"{first.topic}: {first.message}{often}{more}",
        meaning=f"{_MEANT[kind is fail]}; this line stays until it is solved",
        remedy=first.remedy or "see the log of Hermes for the first occurrence",
        problems=[
            {"topic": each.topic, "count": each.count, "message": each.message, "remedy": each.remedy} for each in found
        ],
    )


def settings(deps: Access, _deep: bool) -> Finding:
    """Was every setting taken as written, and does none make the plugin useless?"""
    refused = [f"{problem}{_written_at(problem.name, deps)}" for problem in deps.config.problems]
    useless = _useless(deps)
    if not refused and not useless:
        changed = changed_settings(deps.config)
        said = ", ".join(f"{name}={value} ({source})" for name, value, source in changed)
        return ok(said or "all defaults")
    kind = fail if any(hard for _, hard in useless) else warn
    return kind(
        "\n".join([*(said for said, _ in useless), *refused]),
        meaning="these settings do not do what was meant, or leave nothing to do",
        remedy="correct them in the environment or in the `lcm:` block of config.yaml, then restart Hermes",
        refused=refused,
    )


def _written_at(name: str, deps: Access) -> str:
    """Place of a refused setting in config.yaml; the environment's need none."""
    if not name.startswith("lcm"):
        return " (environment)"
    path = deps.home / "config.yaml"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return f" ({path})"
    keys = "|".join(re.escape(each.rpartition(".")[2]) for each in name.split(" + "))
    key = re.compile(rf"\s*[\"']?(?:{keys})[\"']?\s*:")
    line = next((n for n, text in enumerate(lines, 1) if key.match(text)), 0)
    return f" ({path}:{line})" if line else f" ({path})"


#: Sessions as hosts name them: who keeps all of these out keeps everything out.
_USUAL_SESSIONS = tuple(
    (f"2026{n:04}_{n:06}_{n:06x}", place) for n, place in enumerate(("cli", "telegram", "cron", "api"))
)


#: Messages as people, models and tools say them: a pattern that matches all of these keeps everything out.
_USUAL_TEXTS = (
    "Why did the build fail?",
    "I have mended it; all tests pass now.",
    '{"exit_code": 0}',
    "12",
    "おはよう",
)
_SHARES = ("low_water", "tail_share", "prefix_share")


def _useless(deps: Access) -> list[tuple[str, bool]]:
    """(what makes the plugin do nothing, is that a failure)."""
    config, out = deps.config, list[tuple[str, bool]]()
    if not deps.engine.compression_enabled:
        out.append(("compression.enabled is false (config.yaml): nothing is ever compacted", True))
    out += [(f"{what}: nothing is stored", True) for what in _kept_out(config)]
    size, threshold = window(deps)  # as the rules for this model and the host have it
    if threshold >= size:
        own = config.provenance("context_threshold")
        source = deps.engine.threshold_source or own
        value = f"={config.context_threshold:,}" if source == own else ""
        said = f"LCM_CONTEXT_THRESHOLD{value} ({source}) is not below the window of {size:,} tokens"
        out.append((f"{said}: compaction begins only when it is full", False))
    shares = config.tail_share + config.prefix_share
    if any(config.provenance(name) != "default" for name in _SHARES) and shares > config.low_water:
        low = f"LCM_LOW_WATER={config.low_water:g} ({config.provenance('low_water')})"
        said = f"is below LCM_TAIL_SHARE + LCM_PREFIX_SHARE={shares:g}: a compaction leaves less than the two may take"
        out.append((f"{low} {said}", False))
    if deps.engine.misspelt_block:
        out.append((f"{deps.engine.misspelt_block}: in config.yaml is not read; the block is called lcm:", False))
    if config.metrics_path and (why := _not_writable(deps.db.path.parent / Path(config.metrics_path).expanduser())):
        out.append((f"LCM_METRICS_PATH ({config.provenance('metrics_path')}): {why}", False))
    return out


def _kept_out(config: Config) -> list[str]:
    """Settings that keep out every session or every message."""
    ignored, stateless = config.ignore_session_patterns, config.stateless_session_patterns
    found = list[str]()
    for names, patterns in (
        (("ignore_session_patterns",), ignored),
        (("stateless_session_patterns",), stateless),
        (("ignore_session_patterns", "stateless_session_patterns"), (*ignored, *stateless)),
    ):
        if not found and all(matches_session(patterns, *each) for each in _USUAL_SESSIONS):
            given = " and ".join(f"LCM_{name.upper()} ({config.provenance(name)})" for name in names)
            found.append(f"{given} {'keeps' if len(names) == 1 else 'keep'} out every session")
    noise = Noise(config.ignore_message_patterns)
    if noise and all(noise.match(text) for text in _USUAL_TEXTS):
        given = f"LCM_IGNORE_MESSAGE_PATTERNS ({config.provenance('ignore_message_patterns')})"
        found.append(f"{given} keeps out every message")
    return found


def _not_writable(path: Path) -> str:
    """Why no file can be written there; "" when it can."""
    if path.is_dir():
        return f"{path} is a folder"
    if path.exists() and not path.is_file():
        return f"{path} is no regular file"
    return "" if os.access(path.parent, os.W_OK) else f"{path.parent} is not a folder that can be written"


def plugin(deps: Access, _deep: bool) -> Finding:
    """Which release runs, and from where?"""
    data = identity(deps)
    commit = str(data["plugin_git_commit"] or "")[:12]
    dirty = ", with local changes" if data["plugin_git_dirty"] else ""
    at = f", commit {commit} on {data['plugin_git_branch']}{dirty}" if commit else ""
    return ok(f"{data['plugin_version']} at {data['plugin_path']}{at}", **data)


def packages(deps: Access, _deep: bool) -> Finding:
    """Is a feature off because a package is missing?"""
    missing = missing_packages()
    if "regex" in missing and deps.config.ignore_message_patterns:
        return warn(
            f"regex is not installed: {OPTIONAL_PACKAGES['regex']}",
            meaning="messages that match LCM_IGNORE_MESSAGE_PATTERNS are stored all the same",
            remedy="install it into the environment that Hermes runs in, then restart Hermes",
            command="pip install regex",
            missing=missing,
        )
    return ok(
        "; ".join(f"without {name}: {OPTIONAL_PACKAGES[name]}" for name in missing) or "all present", missing=missing
    )


def host(deps: Access, _deep: bool) -> Finding:
    """Is this a host that the plugin was made for?"""
    found, missing = deps.engine.host_version, deps.engine.missing_hooks
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:2]) if found else ()
    data = {"version": found, "missing_hooks": list(missing)}
    if missing:
        return warn(
            f"Hermes Agent {found or 'of an unknown version'} does not know {', '.join(missing)}",
            meaning="the plugin registers these hooks and is never called there: messages may be stored late",
            remedy="update Hermes Agent",
            command="hermes update",
            **data,
        )
    if numbers and numbers < OLDEST_HOST:
        return warn(
            f"Hermes Agent {found} is older than {'.'.join(map(str, OLDEST_HOST))}",
            meaning="the plugin was never tried with it",
            remedy="update Hermes Agent",
            command="hermes update",
            **data,
        )
    return ok(f"Hermes Agent {found}; it knows every hook that is used" if found else "version unknown", **data)


def in_use(deps: Access, _deep: bool) -> Finding:
    """Does the host really use this engine?"""
    name = deps.engine.engine_name_in_use
    if deps.engine.live:
        return ok("the host runs this engine", engine="lcm", configured=name)
    if name is None:
        return ok("not known here")
    if name == "lcm":
        return ok("context.engine is lcm", engine=name)
    return fail(
        f"context.engine is {name!r}, not 'lcm'",
        meaning="Hermes compacts with another engine: nothing is stored, and the tools of this plugin are not offered",
        remedy="set `context: {engine: lcm}` in config.yaml, then restart Hermes",
        command="hermes config set context.engine lcm",
        engine=name,
    )


def context_length(deps: Access, _deep: bool) -> Finding:
    """Is the model's window known?"""
    size, threshold = window(deps)
    facts = deps.engine
    data = {"context_length": facts.context_length, "effective": size, "threshold_tokens": threshold}
    note = context_note(deps)
    if not note:
        known = f" (from {facts.context_source})" if facts.context_source else ""
        return ok(f"{size:,} tokens{known}, compaction from {threshold:,}", **data)
    if not facts.live:
        return ok(f"context window {note}", **data)
    return warn(
        f"context window {note}",
        meaning="compaction may come too late for a smaller model, or too early for a larger one",
        remedy="set the window of your model in config.yaml, then restart Hermes; or the fallback itself",
        command=f"hermes config set model.context_length {size}",
        **data,
    )


def pressure(deps: Access, _deep: bool) -> Finding:
    """How full is the window?"""
    used = deps.engine.last_prompt_tokens
    size, threshold = window(deps)
    share = used / size
    said = f"{used:,} of {size:,} tokens ({share:.0%}), {used / threshold:.0%} of the threshold"
    if used <= 0:
        return ok("no request has been measured yet")
    if share < _TIGHT:
        return ok(said, share=round(share, 4))
    kind = fail if share >= _FULL else warn
    return kind(
        said,
        meaning="the next request may be refused by the provider",
        remedy="compact now, or lower LCM_CONTEXT_THRESHOLD",
        command="/compress",
        share=round(share, 4),
    )


_OF_THE_WORKER = {
    "waiting_sessions": "sessions that wait",
    "leaves_prepared": "summaries written ahead",
    "nodes_repaired": "extracts replaced",
}


def background(deps: Access, _deep: bool) -> Finding:
    """Does the worker that writes summaries ahead of time run?"""
    state = dict(deps.engine.background)
    if not deps.config.background_compaction:
        return ok("switched off (LCM_BACKGROUND_COMPACTION)", **state)
    failed = next((each for each in remembered(deps) if each.topic == WORKER), None)
    if failed is not None:
        return warn(
            f"last failure: {failed.message} ({counted(failed.count, 'time')})",
            meaning="summaries are written when they are needed instead of ahead of time; turns may wait",
            remedy=failed.remedy or "see the log of Hermes; the worker tries again after the next turn",
            **state,
        )
    if "running" not in state:
        return ok("no worker in this process", **state)
    did = ", ".join(f"{words} {state[name]:,}" for name, words in _OF_THE_WORKER.items() if name in state)
    where = "" if deps.engine.live else "no agent runs in this process; "
    return ok(f"{where}the worker {'runs' if state['running'] else 'rests'}; {did}", **state)


def routes(deps: Access, _deep: bool) -> Finding:
    """Is a summary model left alone because it kept failing?"""
    states, said = deps.engine.breaker, resting_models(deps)
    if not said:
        failing = ", ".join(f"{name or 'default'}: {state['reason']}" for name, state in states.items())
        return ok(f"in use, after failures: {failing}" if failing else "every model route is in use")
    return warn(
        f"not called for now: {said}",
        meaning="extracts stand in for summaries until the model answers again",
        remedy="check the model of `auxiliary.compression` (or LCM_SUMMARY_MODEL); it is tried again by itself",
        routes={name: dict(state) for name, state in states.items() if state["retry_at"] > deps.clock()},
    )


def spending(deps: Access, _deep: bool) -> Finding:
    """Is a limit on model calls reached, of a chat or of all?"""
    used = spend(deps)
    calls, most, chats = int(used.get("calls") or 0), int(used["max_calls"]), int(used.get("chats_at_their_limit") or 0)
    said = f"{counted(calls, 'call')} in {used['window_seconds']} s, limit {most or 'none'}"
    if not most or (calls < most and not chats):
        return ok(said, **used)
    return warn(
        f"{said}; {counted(chats, 'chat')} at the limit of {used['max_calls_of_a_chat']}",
        meaning="no model is called for them until the window moves on; until then extracts stand in for their summaries",
        remedy="wait, or raise the limit",
        command=f"export LCM_SUMMARY_SPEND_MAX_CALLS={int(used['max_calls_of_a_chat']) * 2}",
        **used,
    )


def redaction(deps: Access, _deep: bool) -> Finding:
    """Are secrets redacted before they are stored?"""
    said = sensitive(deps.config)
    if said["unknown"]:
        off = "redaction is off, so every secret is stored as it is; if it were on, these kinds would still be"
        return warn(
            f"{'on' if said['enabled'] else 'off'}; not a kind of secret: {', '.join(said['unknown'])}",
            meaning="these kinds of secrets are stored as they are" if said["enabled"] else off,
            remedy=f"correct LCM_SENSITIVE_PATTERNS ({said['source']}); there are: {', '.join(CATALOGUE)}",
            **said,
        )
    if not said["enabled"]:
        return ok("off: messages are stored as they are (LCM_SENSITIVE_PATTERNS_ENABLED)", **said)
    return ok(f"on for new messages: {', '.join(said['patterns'])}; what was stored before is not rewritten", **said)
