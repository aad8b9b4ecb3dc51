"""
Settings for the tab: each with its value, where that comes from, and what it does.
"""

from __future__ import annotations

from ..config import KNOBS, setting_text
from ..ops import presets
from ..ops.replay import REACHED
from ..ops.status import telling
from .look import Answer, Look

#: Settings whose values may name chats, places of the machine, or what somebody wrote.
_TELLING = frozenset((
    "ignore_session_patterns", "stateless_session_patterns", "ignore_message_patterns", "custom_instructions", "database_path",
    "metrics_path",
))  # fmt: skip


def settings(look: Look) -> Answer:
    """Every setting, and the presets by name."""
    config = look.deps.config
    return {
        "settings": [
            {"name": name, "env": knob.env, "source": config.provenance(name), "default": setting_text(knob.default),
             "expected": knob.expected, "meaning": knob.meaning, "replayed": name in REACHED,
             "value": setting_text(getattr(config, name)) if look.full or name not in _TELLING else None}
            for name, knob in KNOBS.items()
        ],
        "refused": [str(problem) for problem in config.problems if look.full or not telling(problem.name)],
        "presets": [{"name": each.name, "summary": each.summary} for each in (*presets.CHOICES, *presets.PRESETS)],
    }  # fmt: skip
