"""
Registration with the host: the engine, hooks, commands, auxiliary tasks, the skill.

Optional registrations are feature-detected; a host without one of them gets the rest. Everything heavy is imported at
its first use: a process that never builds an agent pays a few milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.context_engine import ContextEngine

from ..host.facts import HOOKS
from ..host.offers import Offers
from ..text.markup import RECALL_POLICY

if TYPE_CHECKING:
    from ..engine import LCMEngine
    from ..recall.access import Access

logger = logging.getLogger("hermes_lcm")

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
    offers = Offers(getattr(ctx, "register_middleware", None), _later(".hooks", "llm_request"))
    ctx.register_context_engine(Prototype(offers))
    for name in HOOKS:
        ctx.register_hook(name, _later(".hooks", name))
    _optional(ctx, "register_cli_command", _register_cli)
    _optional(ctx, "register_command", _register_slash)
    _optional(ctx, "register_auxiliary_task", _register_tasks)
    _optional(ctx, "register_skill", _register_skill)
    _optional(ctx, "register_context_reference", _register_reference)
    _optional(
        ctx,
        "register_system_prompt_section",
        lambda ctx: offers.take_section(ctx.register_system_prompt_section, policy),
    )


def _optional(ctx: Any, feature: str, register: Callable[[Any], None]) -> None:
    if hasattr(ctx, feature):
        try:
            register(ctx)
        except Exception as exc:
            logger.warning("%s refused by the host: %s", feature, exc)


def _later(module: str, name: str) -> Callable[..., Any]:
    """A function of a module beside this one, which is imported when it is called."""

    def callback(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module, __package__), name)(*args, **kwargs)

    callback.__name__ = name
    return callback


def _register_slash(ctx: Any) -> None:
    from .. import config
    from ..host import facts

    if config.load(None, facts.config_block()).enable_slash_command:
        ctx.register_command("lcm", slash, "Lossless context: status, doctor, backup, search", "status|doctor|help")


async def slash(raw_args: str = "") -> str:
    """``/lcm ...`` in a chat or at the terminal. Backups take seconds, and a gateway calls this on its event loop."""
    return await asyncio.to_thread(answer, raw_args)


def answer(raw_args: str = "") -> str:
    """Answer to ``/lcm ...``, at once."""
    from ..command import run

    access = _asked()
    if access is None:
        return "Not done: Hermes does not say in which chat this was typed, so it is not answered here."
    return run(raw_args or "", access)


def _asked() -> Access | None:
    """The archive with the rights of the person who types here; None where that is not known."""
    from ..command import chat, operator_access
    from ..host import facts
    from ..runtime import PROCESS, evidence
    from ..search.scope import OWN_SESSION, Rights
    from ..session import LOCAL
    from . import hooks

    if not hooks.asker_known():
        return None
    engine = hooks.command_engine()
    runtime = engine.runtime if engine is not None else PROCESS.at()
    session = runtime.stored_now(engine.session_id) if engine is not None else chat(runtime, hooks.command_key())
    allowed = Rights(session.principal) if engine is None and session is not None else OWN_SESSION
    access = operator_access(runtime, session, engine, allowed)
    # Before the first message neither the host nor the archive has a row that says whose session it is.
    unknown = session is None and (engine is None or evidence(engine, engine.session_id).row is None)
    at_terminal = not hooks.command_key() and facts.at_terminal()
    return replace(access, rights=Rights(LOCAL)) if unknown and at_terminal else access


def _register_reference(ctx: Any) -> None:
    """``@lcm:msg_12`` and ``@lcm:"that nginx error"``, typed by a person into a message."""
    from agent.context_references import ContextCompletionItem, ContextReferenceProvider

    from ..ops import explain, pull

    class History(ContextReferenceProvider):  # type: ignore[misc,unused-ignore]
        prefix = "lcm"
        description = "a message or summary of an earlier conversation"

        async def autocomplete(self, query: str, *, limit: int = 10) -> list[Any]:
            """Messages that hold the words typed so far."""
            return await asyncio.to_thread(self._found, query, limit)

        def _found(self, query: str, limit: int) -> list[Any]:
            access = _asked()
            if access is None or not query.strip():
                return []
            found = [each for each in explain.search(access, query, limit=limit)["results"] if not each["near"]]
            return [ContextCompletionItem(each["address"], each["snippet"][:80], each["when"]) for each in found]

        async def expand(self, target: str) -> str | None:
            """The text, or None where there is nothing that may be read."""
            return await asyncio.to_thread(self._text, target)

        def _text(self, target: str) -> str | None:
            access = _asked()
            found = pull.addresses(access, target) if access is not None else []
            return pull.text(access.store, access.dag, found) if access is not None and found else None

    ctx.register_context_reference(History())


def policy() -> str:
    """Recall policy for a new session's system prompt; "" where another engine was chosen or the user turned it off."""
    from .. import config
    from ..host import facts

    ours = facts.selected_engine() == "lcm" and config.load(None, facts.config_block()).recall_policy
    return RECALL_POLICY if ours else ""


def _register_cli(ctx: Any) -> None:
    about = "Inspect and maintain the lossless context archive"
    ctx.register_cli_command("lcm", about, _stoppable(_later(".cli", "setup")), _stoppable(_later(".cli", "handle")))


def _stoppable(call: Callable[..., Any]) -> Callable[..., Any]:
    """A call that ends with "Stopped." at Ctrl-C, also while it imports the plugin."""

    def callback(*args: Any) -> Any:
        try:
            return call(*args)
        except KeyboardInterrupt:
            sys.stderr.write("Stopped.\n")
            raise SystemExit(130) from None

    return callback


def _register_tasks(ctx: Any) -> None:
    """Names for the menu in which users choose models. The host's terminal program makes that menu; without it, importing it
    here would cost more than all the rest.
    """
    if "hermes_cli.main" not in sys.modules:
        return
    for key, name, description in _TASKS:
        ctx.register_auxiliary_task(key, display_name=name, description=description, defaults={"timeout": 120})


def _register_skill(ctx: Any) -> None:
    skill = Path(__file__).resolve().parents[1] / "SKILL.md"
    if skill.exists():
        ctx.register_skill("recall", skill, "When and how to search this conversation's own archive")


# -- the engine object that the host copies --------------------------------------------------------------
# Importing the whole plugin for a process that may never build an agent (``hermes --help``) would be a waste.
class Prototype(ContextEngine):
    """Stands for ``LCMEngine`` until somebody works with it."""

    def __init__(self, offers: Offers) -> None:
        self._offers = offers

    @property
    def name(self) -> str:
        return "lcm"

    def is_available(self) -> bool:
        """Nothing but the standard library is needed."""
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> LCMEngine:
        from ..engine import LCMEngine
        from ..runtime import PROCESS

        PROCESS.loaded(self._offers)
        return LCMEngine(PROCESS)

    def clone_for_agent(self, *_: Any, **__: Any) -> LCMEngine:
        """A copy for an agent, on newer hosts that ask for it instead of a deep copy."""
        return self.__deepcopy__({})

    # -- for a host that uses the registered object itself -------------------------------------------------
    @cached_property
    def _engine(self) -> LCMEngine:
        return self.__deepcopy__({})

    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        """As the engine."""
        self._engine.update_from_response(usage)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """As the engine."""
        return self._engine.should_compress(prompt_tokens)

    def compress(self, messages: list[dict[str, Any]], *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """As the engine."""
        return self._engine.compress(messages, *args, **kwargs)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """As the engine."""
        return self._engine.get_tool_schemas()
