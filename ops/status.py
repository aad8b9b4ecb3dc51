"""
Status: one read-only answer for the tool, the slash command and the terminal.

Owns nothing and changes nothing; a database that cannot be read is part of the answer. Every part costs the same on a million
rows as on ten.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..archive.ranges import ARCHIVED, RESTORED, Archives
from ..compaction.compress import STATE_SHARE
from ..config import KNOBS, MODE_SETTINGS, Config, setting_text
from ..errors import LcmError, StoreCorrupt, StoreEarlier, StoreError, StoreReadOnly, way_out, worded
from ..recall import ledger, mapping
from ..recall.access import Access
from ..storage.disk import full_disk, shut
from ..storage.files import EXPORTS
from ..storage.foreign import messages_of_earlier
from ..storage.meta import OF_SESSIONS, Meta
from ..storage.standby import stand_ins
from ..text.secret_kinds import CATALOGUE
from . import costs, presets
from .backup import backup_folder, rotate_path, way_out_for
from .orders import Orders
from .retention import HOUR_S, by_step, due, last_round
from .survey import COUNT_LIMIT, Survey, free_bytes, inside, unsound

if TYPE_CHECKING:
    from ..storage.connection import Database
    from ..storage.meta import Problem

PLUGIN = Path(__file__).resolve().parents[1]
PLACEHOLDER_FORMAT = "[redacted:<kind>:<12 hex digits of SHA-256>]; passwords without digest"
_SOURCE_ROWS = 2000
#: Files of a folder that the status looks at before it says "at least".
_MOST_FILES = 2000
#: Optional packages, and the loss without each.
OPTIONAL_PACKAGES = {
    "regex": "LCM_IGNORE_MESSAGE_PATTERNS cannot be used",
    "tiktoken": "token counts are estimates (within about 15 %)",
}

UNPIN: Final = "`/lcm ledger clear ENTRY` lets one go; a larger threshold has more room"
#: Settings that may name other chats or places of the machine.
_OPERATORS = frozenset(
    {
        *("ignore_session_patterns", "stateless_session_patterns", "ignore_message_patterns", "custom_instructions"),
        *("database_path", "metrics_path"),
    }
)
#: Topics of problems: lost tables, and all damage.
TABLES = "tables"
DAMAGES = (TABLES, "silent damage", "unreadable messages")
#: Problems that no conversation causes; of the others a chat sees those of its own session.
_EVERYBODYS = ("setting ", "sensitive pattern ", TABLES, "search index", "write-ahead log", "upkeep", "metrics file")
_OWNER = "owner of "


#: Errors that damaged stored values raise.
UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, zlib.error)


def unreadable(db: Database, exc: Exception) -> StoreCorrupt:
    """Error for damage that SQLite does not notice. Where the file is sound the fault is ours, and is raised again."""
    if not isinstance(exc, json.JSONDecodeError | zlib.error):
        with suppress(StoreError):
            if not unsound(db):
                raise exc
    return StoreCorrupt(f"{db.path}: a stored value cannot be read: {exc}")


def status(deps: Access, *, deep: bool = False, wrong: StoreError | None = None) -> dict[str, Any]:
    """Status for an operator or an agent; never raises for a reason of the database.

    ``deep``: also what fills the database file, which reads all of it. ``wrong``: damage that the caller has found.
    """
    deps = deps.for_session_facts()
    out: dict[str, Any] = {"engine": "lcm", **_runtime(deps)}
    database = database_state(deps)
    out["database"] = database
    if database["state"] == "ready":
        for part in (_stored, _lifecycle, _mapped, _spent):
            try:
                out.update(part(deps))
            except UNREADABLE as exc:
                wrong = unreadable(deps.db, exc)
            except LcmError as exc:
                database.update(state="failed", **_said(exc))
                break
    elif database["state"] == "earlier":
        database["messages"] = _earlier_messages(deps)
    if wrong is not None and database["state"] != "failed":
        database.pop("note", None)
        database.update(state="failed", **_said(wrong))
    out.update(_rotation(deps))
    out.update(_settings(deps))
    out.update(_work(deps))
    out.update(plugin(deps))
    out["disk"] = disk(deps)
    if deps.config.retention and deps.reads_all and database["state"] == "ready":
        out["retention"] = _due(deps)
    if deep and deps.reads_all and database["state"] == "ready":
        try:
            out["inside_database"] = inside(deps.db) or "not known: this Python's SQLite has no dbstat"
        except LcmError as exc:
            database.update(state="failed", **_said(exc))
    out["problems"] = problems(deps, database)
    _mark(database, out["problems"])
    return out if deps.reads_all else _narrowed(deps, out)


def _mark(database: dict[str, Any], found: Sequence[Mapping[str, Any]]) -> None:
    """Note on a database that answers, and that is damaged all the same."""
    if database["state"] == "ready" and any(each["topic"].startswith(DAMAGES) for each in found):
        database["damaged"] = True


def _narrowed(deps: Access, out: dict[str, Any]) -> dict[str, Any]:
    """A status for a chat: without figures, times and names that others have a part in."""
    own = {name: value for name, value in out["config"].items() if name not in _OPERATORS}
    filters = {name: out["session_filters"][name] for name in ("ignored", "stateless")}
    nothing: dict[str, Any] = {
        name: {} for name in ("summary_routes", "summary_spend", "counters", "disk", "token_calibration")
    }
    nothing["resting_models"] = ""
    nothing["background"] = {name: value for name, value in out["background"].items() if name == "next_fold"}
    return {
        **out,
        **nothing,
        "last_rotate_at": None,
        "rotate_backup_path": None,
        "config": own,
        **unquoted(deps, out["problems"]),
        "session_filters": {**filters, "ignored_message_count": 0},
        "problems_of_others": "left out, as are figures of the whole archive: they are the operator's (`hermes lcm status`)",
    }


# -- runtime -------------------------------------------------------------------------------------------
def window(deps: Access) -> tuple[int, int]:
    """(context window to reckon with, threshold in tokens)."""
    facts = deps.engine
    return deps.config.window(facts.context_length), facts.threshold_tokens or deps.config.threshold_tokens(
        facts.context_length
    )


def context_note(deps: Access) -> str:
    """Note on a context window that is not known; "" when it is."""
    facts = deps.engine
    if facts.context_length > 0 and not facts.fallback_context:
        return ""
    return f"unknown; using {deps.config.fallback_context_tokens:,} (set model.context_length)"


def pins_note(deps: Access) -> str:
    """Note on pinned entries that take more of the prompt than is kept for them; "" while they fit."""
    threshold = window(deps)[1]
    count, need = ledger.kept(deps)
    room = ledger.kept_room(int(threshold * STATE_SHARE))
    if need <= room:
        return ""
    return (
        f"pinned or corrected entries ({count}) take {need:,} tokens, and {room:,} are kept for "
        f"them in a prompt with a threshold of {threshold:,}: those that find no room there are only counted, oldest first"
    )


def _runtime(deps: Access) -> dict[str, Any]:
    facts, session = deps.engine, deps.session
    size, threshold = window(deps)
    out: dict[str, Any] = {
        "session_id": session.session_id if session else facts.session_id if deps.mode() in MODE_SETTINGS else None,
        "bound": session is not None,
        "context_length": facts.context_length,
        "context_length_source": facts.context_source or ("the running agent" if facts.context_length else "unknown"),
        "effective_context_length": size,
        "threshold_tokens": threshold,
        "threshold_source": facts.threshold_source or deps.config.provenance("context_threshold"),
        "last_prompt_tokens": facts.last_prompt_tokens,
        "prompt_pressure": {
            "of_context": round(facts.last_prompt_tokens / size, 4),
            "of_threshold": round(facts.last_prompt_tokens / threshold, 4),
        },
        "compression_count": max(facts.compactions, session.compactions if session else 0),
        "last_compression": dict(facts.last_compression),
        "model": facts.model,
        "provider": facts.provider,
        "token_calibration": dict(facts.calibration),
        "agent_runs_here": facts.live,
    }
    if session is None:
        out["note"] = "no session is bound yet; send a normal message first for live values"
    if note := context_note(deps):
        out["context_length_note"] = note
    return out


# -- database ------------------------------------------------------------------------------------------
def database_state(deps: Access) -> dict[str, Any]:
    """Place of the database, and whether it answers. Asking creates nothing."""
    out: dict[str, Any] = {"path": str(deps.db.path), "state": "ready"}
    if not deps.db.exists:
        out.update(state="empty", note="nothing has been stored yet; the file is made with the first message")
        return out
    try:
        out["schema"] = Survey(deps.db).pragma("user_version")
        Survey(deps.db).touch()
    except StoreEarlier as exc:
        out.update(state="earlier", note=worded(exc), remedy=way_out(exc))
    except LcmError as exc:
        out.update(state="failed", **_said(exc) | {"remedy": way_out_for(deps, exc)})
    return out


def _earlier_messages(deps: Access) -> int | None:
    """Number of the earlier plugin's messages, for the operator; None where they cannot be counted."""
    try:
        return messages_of_earlier(deps.db.path) if deps.reads_all else None
    except LcmError:
        return None


def _said(exc: LcmError) -> dict[str, str]:
    return {"error": worded(exc), "kind": type(exc).__name__, "remedy": way_out(exc)}


def _stored(deps: Access) -> dict[str, Any]:
    survey = Survey(deps.db)
    if survey.ownerless():  # no search finds them
        raise StoreCorrupt(f"{deps.db.path} holds messages and no session that can be read")
    session = deps.session
    if deps.reads_all:
        messages, nodes = survey.total("messages", "store_id"), survey.total("nodes", "node_id")
    elif deps.principal is None:  # what others have said is not counted either
        messages = deps.store.last_seq(session.conversation_id) if session and not deps.rights.shown else 0
        nodes = 0
    else:
        messages, nodes = survey.belonging_to(deps.principal)
    out: dict[str, Any] = {"store": {"total_messages": messages}, "dag": {"total_nodes": nodes}}
    if deps.reads_all:
        out["archive"] = dict(zip(("conversations", "sessions", "since"), survey.archive(), strict=True))
    if session is None or deps.rights.shown:
        return out
    conversation = session.conversation_id
    rows = deps.store.last_seq(conversation)
    mine = survey.messages_of(session.session_id) if survey.sessions_of(conversation) > 1 else None
    out["store"] |= {"conversation_messages": rows, "session_messages": rows if mine is None else mine}
    if mine == COUNT_LIMIT:
        out["store"]["session_messages_at_least"] = True
    by_depth: dict[str, dict[str, int]] = {}
    for (depth, quality), count in deps.dag.by_depth(conversation).items():
        by_depth.setdefault(str(depth), {})[quality] = count
    out["dag"] |= {
        "nodes": sum(count for each in by_depth.values() for count in each.values()),
        "by_depth": by_depth,
        "provisional": sum(each.get("provisional", 0) for each in by_depth.values()),
    }
    states = Archives(deps.db).states(conversation)
    out["archives"] = {state: states.get(state, 0) for state in (ARCHIVED, RESTORED)}
    assembly = deps.assembly()
    if assembly is not None:
        out["dag"] |= {"assembly": assembly.assembly_id, "active_nodes": len(assembly.roots)}
    sources = survey.sources_of(session.session_id, newest=_SOURCE_ROWS)
    out["source_lineage"] = {"sources": sources, "newest_messages": min(_SOURCE_ROWS, sum(sources.values()))}
    return out


def _lifecycle(deps: Access) -> dict[str, Any]:
    session = deps.session
    if session is None:
        return {"lifecycle": {}}
    return {
        "lifecycle": {
            "conversation_id": session.conversation_id,
            "origin": session.origin,
            "platform": session.platform,
            "mode": deps.mode(),
            "parent_session_id": session.parent_session_id,
            "branched_from": session.parent_id,
            "started_at": session.started_at,
            "ended_at": session.ended_at,
            "end_reason": session.end_reason,
            "sessions_in_conversation": Survey(deps.db).sessions_of(session.conversation_id),
            "carried_nodes": len(deps.sessions.carried(session.conversation_id)),
            "rotate_ordered": Orders(deps.db).rotation(session.session_id) is not None,
        }
    }


def _spent(deps: Access) -> dict[str, Any]:
    """Money of today: of this session, or of all."""
    main, summariser = deps.engine.prices
    prices = costs.Prices.known(main, summariser, local=deps.engine.local)
    own = deps.session.session_id if deps.session is not None else "-"
    total = costs.report(
        deps.db, prices, since="0", session_id="" if deps.reads_all else own,
        price_of=lambda model: deps.engine.priced.get(model[:2]),
    )["total"]  # fmt: skip
    return {"cost_today": {**total, "line": costs.line(total, prices)}}


def _mapped(deps: Access) -> dict[str, Any]:
    """The last exam, and the progress of a question that is put to many messages, also after the process that began it."""
    session = deps.session
    told = mapping.progress(Meta(deps.db), session.session_id) if session is not None else ""
    return {"exam": last_exam(deps), "lcm_map": told}


def last_exam(deps: Access) -> dict[str, Any] | None:
    """The last grade of the exam; a chat hears nothing of other chats."""
    return Meta(deps.db).value("exam:last") if deps.reads_all else None


def _rotation(deps: Access) -> dict[str, Any]:
    path = rotate_path(deps.db.path)
    try:
        when: float | None = path.stat().st_mtime
    except OSError:
        when = None
    return {"last_rotate_at": when, "rotate_backup_path": str(path)}


# -- settings ------------------------------------------------------------------------------------------
def _settings(deps: Access) -> dict[str, Any]:
    config = deps.config
    patterns = ("ignore_session_patterns", "stateless_session_patterns", "ignore_message_patterns")
    filters: dict[str, Any] = {}
    for name in patterns:
        filters[name] = list(getattr(config, name))
        filters[f"{name}_source"] = config.provenance(name)
    mode = deps.mode()
    filters |= {
        "ignored": mode == "ignored",
        "stateless": mode == "stateless",
        "ignored_message_count": deps.health.counters["ignored_messages"],
    }
    return {
        "config": {name: getattr(config, name) for name in KNOBS},
        "config_sources": dict(config.sources) or "all defaults",
        "refused_settings": [str(problem) for problem in config.problems],
        "session_filters": filters,
        "sensitive_patterns": sensitive(config),
        "preset_suggestion": presets.suggestion(
            config, context_length=deps.engine.context_length, model=deps.engine.model, provider=deps.engine.provider
        ),
        "disabled_features": [
            f"without the optional package {name}: {OPTIONAL_PACKAGES[name]}" for name in missing_packages()
        ],
    }


def sensitive(config: Config) -> dict[str, Any]:
    """Kinds of secrets that are redacted, and their placeholders."""
    return {
        "enabled": config.sensitive_patterns_enabled,
        "patterns": list(config.sensitive_patterns),
        "unknown": [name for name in config.sensitive_patterns if name != "all" and name not in CATALOGUE],
        "source": config.provenance("sensitive_patterns"),
        "placeholder_format": PLACEHOLDER_FORMAT,
    }


def missing_packages() -> list[str]:
    """Optional packages that this Python does not have."""
    return [name for name in OPTIONAL_PACKAGES if importlib.util.find_spec(name) is None]


def changed_settings(config: Config) -> list[tuple[str, str, str]]:
    """(variable, value, source) of every setting that is not a default."""
    return [(KNOBS[name].env, setting_text(getattr(config, name)), source) for name, source in config.sources]


# -- everything else -----------------------------------------------------------------------------------
def _work(deps: Access) -> dict[str, Any]:
    facts = deps.engine
    return {
        "background": dict(facts.background),
        "summary_routes": dict(facts.breaker),
        "resting_models": resting_models(deps),
        "summary_spend": spend(deps),
        "prompt_cache": dict(facts.cache),
        "counters": dict(deps.health.counters),
        "host": {
            "version": facts.host_version,
            "engine_in_use": facts.engine_name_in_use,
            "missing_hooks": list(facts.missing_hooks),
        },
    }


def resting_models(deps: Access) -> str:
    """Summary models that are left alone for now because they kept failing, until when and why; "" while all are asked."""
    now = deps.clock()
    return "; ".join(
        f"{name or 'default'} until {datetime.fromtimestamp(state['retry_at'], UTC):%H:%M:%SZ} ({state.get('reason')})"
        for name, state in deps.engine.breaker.items()
        if state["retry_at"] > now
    )


def spend(deps: Access) -> dict[str, Any]:
    """Model calls and tokens of the running window, with the limits for one chat and for all."""
    config, state = deps.config, deps.engine.spend
    most = config.summary_spend_max_calls
    limits = {
        "max_calls": config.spend_in_all,
        "max_calls_of_a_chat": most,
        "window_seconds": config.summary_spend_window_seconds,
    }
    if not state:
        return limits
    spent, by_chat = [*state["buckets"].values()], Counter[str]()
    for bucket in state.get("chats", {}).values():
        by_chat.update(bucket)
    return {
        "calls": sum(calls for calls, _ in spent), "tokens": sum(tokens for _, tokens in spent),
        "chats_at_their_limit": sum(1 for calls in by_chat.values() if most and calls >= most), **limits,
    }  # fmt: skip


def plugin(deps: Access) -> dict[str, Any]:
    """Release that runs, its place, and its commit as far as that can be read."""
    git = {f"plugin_git_{name}": value for name, value in identity(PLUGIN).items()}
    return {"plugin_version": version(), "plugin_path": str(PLUGIN), **git, "hermes_home": str(deps.home)}


def version() -> str | None:
    """The release that runs, as ``plugin.yaml`` says."""
    try:
        found = re.search(r"^version:\s*(\S+)", (PLUGIN / "plugin.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return None
    return found[1].strip("'\"") if found else None


def _due(deps: Access) -> dict[str, Any]:
    """Retention policy, and the number of due sessions by step. The bytes that it frees are `hermes lcm retention`'s answer."""
    try:
        found = by_step(due(deps.db, deps.config.retention, now=deps.clock()))
    except LcmError:  # ``database`` says why
        found = {}
    return {"policy": list(deps.config.retention), "sessions_due": found, "schedule": _schedule(deps)}


def _schedule(deps: Access) -> dict[str, Any] | None:
    """The last round that was made by itself, and the next one; None: the policy is carried out only when somebody asks."""
    every = deps.config.retention_every_hours
    if not every:
        return None
    last = last_round(deps.db)
    return {
        "every_hours": every,
        "applies": deps.config.retention_apply,
        "last": asdict(last) if last else None,
        "next_at": (last.at if last else deps.clock()) + every * HOUR_S,
    }


def disk(deps: Access) -> dict[str, Any]:
    """Bytes by kind of file, free pages of the database, free disk space."""
    out = disk_of(deps.db.path, deps.payloads.folder)
    try:
        out["free_pages"] = free_bytes(deps.db) if deps.db.exists else 0
    except LcmError:  # ``database`` says why
        out["free_pages"] = None
    return out


def disk_of(path: Path, payload_dir: Path) -> dict[str, Any]:
    """Bytes by kind for a database file and the folder of its payloads. Every backup folder's file counts as a backup."""
    out: dict[str, Any] = {"database": _size(path), "write_ahead_log": _size(path.with_name(path.name + "-wal"))}
    folders = {
        "backups": backup_folder(path), "payload_files": payload_dir, "exports": path.parent / EXPORTS,
    }  # fmt: skip
    for name, folder in folders.items():
        out[name], complete, closed = _folder_size(folder)
        if not complete:
            out.setdefault("at_least", []).append(name)
        if closed:
            out.setdefault("not_readable", {})[name] = closed
    try:
        out["free"] = shutil.disk_usage(path.parent).free
    except OSError:
        out["free"] = None
    return out


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _folder_size(folder: Path) -> tuple[int, bool, str]:
    """Bytes of the files in a folder and below, whether all were looked at, and which place does not let us look.

    So many files would take too long.
    """
    total, seen, closed = 0, 0, ""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _MOST_FILES:
                        return total, False, closed
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:  # not made yet, or removed meanwhile
            continue
        except OSError as exc:
            closed = f"{exc.filename}: {exc.strerror}"
    return total, True, closed


def remembered(deps: Access) -> list[Problem]:
    """Problems that health remembers. Those of earlier processes are not asked for where asking would make the database file."""
    path = deps.db.path
    made = deps.db.exists or (path.parent.exists() and not os.access(path.parent, os.W_OK))
    deps.filters.warn_of_secrets()
    found = deps.health.problems(may_open=made)
    if deps.reads_all:
        return found
    own = {f"{kind}{deps.session.session_id}" for kind in OF_SESSIONS} if deps.session is not None else ()
    return [_unnamed(each) for each in found if each.topic in own or each.topic.startswith(_EVERYBODYS)]


def _unnamed(problem: Problem) -> Problem:
    """A problem as a chat is told of it: without the ids and keys of others."""
    if not problem.topic.startswith(_OWNER):
        return problem
    return replace(problem, message="an agent of another owner works in this session; it reads this session only")


def unquoted(deps: Access, said: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Refused settings and problems, without those that quote settings in which other chats may be named."""
    return {
        "refused_settings": [str(each) for each in deps.config.problems if not telling(each.name)],
        "problems": [each for each in said if not telling(each["topic"].removeprefix("setting "))],
    }


def telling(setting: str) -> bool:
    """May what somebody wrote for a setting name other chats or places of the machine?"""
    return setting.lower().removeprefix("lcm_").removeprefix("lcm.") in _OPERATORS


def problems(deps: Access, database: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Problems that are not resolved, with what to do about each."""
    out: list[dict[str, Any]] = []
    if database["state"] == "failed":
        out.append(
            {"topic": "database", "severity": "error", "message": database["error"], "remedy": database["remedy"]}
        )
    folder = deps.db.path.parent
    closed = shut(folder)
    if deps.db.exists and (why := closed or deps.db.only_read or full_disk(folder)):
        message = f"{folder}: {why}; what is stored can be read, nothing new is stored in the file"
        remedy = StoreReadOnly.remedy if closed else deps.db.way_to_write
        out.append({"topic": "disk", "severity": "error", "message": message, "remedy": remedy})
    note = context_note(deps)
    if note and deps.engine.live:
        remedy = "`hermes config set model.context_length TOKENS`, or LCM_FALLBACK_CONTEXT_TOKENS"
        out.append({"topic": "context window", "severity": "warning", "message": note, "remedy": remedy})
    with suppress(LcmError):  # ``database`` says why
        if note := pins_note(deps):
            out.append({"topic": "pinned entries", "severity": "warning", "message": note, "remedy": UNPIN})
    out.extend(asdict(each) for each in remembered(deps))
    if (waiting := stand_ins(deps.db.path)) and all(each["topic"] != "stand-in" for each in out):
        names = " and ".join(each.name for each in waiting)
        message = f"new messages were stored in {names}; the next message merges that into a database that works"
        out.append({"topic": "stand-in", "severity": "warning", "message": message, "remedy": ""})
    return out


# -- commit of a checkout, as git tells it -------------------------------------------------------------
# No lock of the index is taken, and no monitor of the user's is started.
_STATUS = ("-c", "core.fsmonitor=false", "--no-optional-locks", "status", "--porcelain=v2", "--branch", "-uno")


def identity(folder: Path) -> dict[str, Any]:
    """Commit and branch of the checkout that ``folder`` is the top of; ``dirty``: a tracked file has changed.

    All is None without git, or where it does not answer.
    """
    unknown = dict.fromkeys(("commit", "branch", "dirty"))
    if not (folder / ".git").exists():
        return unknown
    try:
        call = ["git", "-C", str(folder), *_STATUS]
        done = subprocess.run(call, capture_output=True, text=True, timeout=1.0, check=True)  # noqa: S603 - only constants
    except (OSError, subprocess.SubprocessError):
        return unknown
    heads = dict(line[2:].split(" ", 1) for line in done.stdout.splitlines() if line.startswith("# "))
    commit, branch = heads.get("branch.oid"), heads.get("branch.head")
    return {
        "commit": commit if commit != "(initial)" else None,
        "branch": branch if branch != "(detached)" else None,
        "dirty": any(not line.startswith("#") for line in done.stdout.splitlines()),
    }
