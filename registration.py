"""
What the plugin registers with the host: the engine, hooks, commands, auxiliary tasks, the skill.

Optional registrations are feature-detected; a host without one of them gets the rest. Everything heavy is imported at
its first use: a process that never builds an agent pays a few milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .late import REQUEST_MIDDLEWARE
from .prototype import Prototype

logger = logging.getLogger("hermes_lcm")

#: Callbacks of ``hooks.HOOKS``.
HOOKS = (
    "pre_llm_call",
    "pre_api_request",
    "post_llm_call",
    "on_session_finalize",
    "subagent_start",
    "pre_gateway_dispatch",
)
_TASKS = (
    (
        "lcm_summary",
        "LCM summaries",
        "Writes the summaries of the conversation archive (default: as context compression)",
    ),
    ("lcm_expansion", "LCM recall", "Answers questions from the conversation archive (lcm_expand_query)"),
)


def register_all(ctx: Any) -> None:
    """Register everything this host offers a place for."""
    ctx.register_context_engine(Prototype())
    for name in HOOKS:
        ctx.register_hook(name, _hook(name))
    REQUEST_MIDDLEWARE.offer(getattr(ctx, "register_middleware", None), _llm_request)
    _optional(ctx, "register_cli_command", _register_cli)
    _optional(ctx, "register_command", _register_slash)
    _optional(ctx, "register_auxiliary_task", _register_tasks)
    _optional(ctx, "register_skill", _register_skill)


def _optional(ctx: Any, feature: str, register: Callable[[Any], None]) -> None:
    if hasattr(ctx, feature):
        try:
            register(ctx)
        except Exception as exc:
            logger.warning("%s refused by the host: %s", feature, exc)


def _hook(name: str) -> Callable[..., None]:
    def callback(**kwargs: Any) -> None:
        from .hooks import HOOKS as CALLBACKS

        CALLBACKS[name](**kwargs)

    callback.__name__ = name
    return callback


def _llm_request(**kwargs: Any) -> Any:
    from .hooks import llm_request

    return llm_request(**kwargs)


def _register_slash(ctx: Any) -> None:
    from . import config, host

    if config.load(None, host.config_block()).enable_slash_command:
        ctx.register_command("lcm", slash, "Lossless context: status, doctor, backup, search", "status|doctor|help")


async def slash(raw_args: str = "") -> str:
    """``/lcm ...`` in a chat or at the terminal. Backups take seconds, and a gateway calls this on its event loop."""
    return await asyncio.to_thread(answer, raw_args)


def answer(raw_args: str = "") -> str:
    """The same, at once."""
    from . import hooks
    from .binding import caller, chat, ops_deps
    from .command import run
    from .runtime import RUNTIMES

    engine = hooks.command_engine()
    runtime = engine.runtime if engine is not None else RUNTIMES.at()
    session = caller(runtime, engine.session_id) if engine is not None else chat(runtime, hooks.command_key())
    return run(raw_args or "", ops_deps(runtime, session, engine))


def _register_cli(ctx: Any) -> None:
    def setup(parser: Any) -> None:
        from .cli import setup as fill

        fill(parser)

    def handle(args: Any) -> Any:
        from .cli import handle as run

        return run(args)

    ctx.register_cli_command("lcm", "Inspect and maintain the lossless context archive", setup, handle)


def _register_tasks(ctx: Any) -> None:
    """Names for the menu in which users choose models. The host's terminal program makes that menu; without it, importing it
    here would cost more than all the rest.
    """
    if "hermes_cli.main" not in sys.modules:
        return
    for key, name, description in _TASKS:
        ctx.register_auxiliary_task(key, display_name=name, description=description, defaults={"timeout": 120})


def _register_skill(ctx: Any) -> None:
    skill = Path(__file__).resolve().parent / "SKILL.md"
    if skill.exists():
        ctx.register_skill("recall", skill, "When and how to search this conversation's own archive")
