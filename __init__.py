"""Lossless context management for Hermes Agent: ``register(ctx)`` and nothing else. Imports happen inside it."""

from __future__ import annotations

from typing import Any


def register(ctx: Any) -> None:
    """Called by the host once per process (and again when it reloads its plugins)."""
    try:
        from agent.context_engine import ContextEngine
    except ImportError as exc:
        raise RuntimeError("hermes-lcm needs Hermes Agent 0.18 or newer: this host has no context-engine slot") from exc
    if not hasattr(ContextEngine, "has_content_to_compress") or not hasattr(ctx, "register_context_engine"):
        raise RuntimeError("hermes-lcm needs Hermes Agent 0.18 or newer (one engine per agent); please update the host")
    from .host import too_old

    if reason := too_old():
        raise RuntimeError(reason)
    from .registration import register_all

    register_all(ctx)
