"""Lossless context management for Hermes Agent: ``register(ctx)`` and nothing else. Imports happen inside it."""

from __future__ import annotations

from typing import Any


def register(ctx: Any) -> None:
    """Called by the host once per process (and again when it reloads its plugins)."""
    # Newer hosts read this file and take a folder that names the host's engine classes for an engine of its own: it would
    # be offered twice, and loaded once without its hooks. So these names stand in host/facts.py.
    from .host.facts import too_old

    if reason := too_old(ctx):
        raise RuntimeError(reason)
    from .plugin.registration import register_all

    register_all(ctx)
