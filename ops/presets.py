"""
Named groups of settings, and which of them suits a context window.

Never applied by the plugin itself: a preset is a suggestion with its provenance. "apply" prints what an operator would set,
"use" lets the operator write it. A setting that the operator chose is never overridden, one that was refused is invalid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..config import KNOBS, Config, setting_text
from ..errors import NotFound

POLICY_VERSION = 1
POLICY_FILE = "ops/presets.py"
MEASURED_BY = "benchmarks/presets.py (one synthetic conversation for each window)"


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings that go together. ``low`` and ``high``: the windows (tokens) they are meant for.

    ``measured``: the ``FIGURES`` of ``benchmarks/presets.py``; ``defaults_measured``: with the defaults, same conversation.
    """

    name: str
    family: str
    summary: str
    settings: tuple[tuple[str, object], ...]
    low: int
    high: int
    provenance: str
    benchmark_only: tuple[tuple[str, object], ...] = ()
    measured: tuple[float, ...] = ()
    defaults_measured: tuple[float, ...] = ()


FIGURES = (
    "compactions", "largest_request", "mean_request", "repeated_share", "summaries_written", "tokens_summarised",
    "newest_raw_messages",
)  # fmt: skip
#: What the defaults come to in a window of a million tokens, beside the presets for such windows.
_DEFAULTS_OF_A_MILLION = (3, 748880, 359496, 0.997, 187, 2032907, 63)

PRESETS: tuple[Preset, ...] = (
    Preset(
        "codex_gpt_long_context",
        "codex_gpt",
        "Coding agents with a window of about 200k to 500k tokens: a short raw tail and small chunks.",
        (("context_threshold", 0.75), ("fresh_tail_count", 24), ("leaf_chunk_tokens", 8000)),
        200_000,
        500_000,
        "the earlier hermes-lcm 0.14; measured again with this plugin",
        (("target_after_compaction", 0.55),),
        measured=(6, 203827, 108388, 0.99, 344, 1658451, 23),
        defaults_measured=(8, 203827, 115187, 0.986, 140, 1423846, 49),
    ),
    Preset(
        "large_window_balanced",
        "any",
        "Windows from about 500k tokens: compaction begins near 400k of a million.",
        (("context_threshold", 0.4), ("fresh_tail_count", 64)),
        500_000,
        10_000_000,
        "arithmetic: trigger = window x threshold (docs/tuning.md); what it comes to is measured",
        measured=(8, 399475, 190418, 0.992, 234, 2390776, 64),
        defaults_measured=_DEFAULTS_OF_A_MILLION,
    ),
    Preset(
        "large_window_economical",
        "any",
        "The same windows, where money and time count more: compaction begins near 250k of a million.",
        (("context_threshold", 0.25), ("fresh_tail_count", 48)),
        500_000,
        10_000_000,
        "arithmetic: trigger = window x threshold (docs/tuning.md); what it comes to is measured",
        measured=(12, 249883, 132940, 0.989, 292, 2871625, 48),
        defaults_measured=_DEFAULTS_OF_A_MILLION,
    ),
)


_MEASURED = "measured with real transcripts: benchmarks/bill.py, docs/tuning.md"
#: What to spend, whatever the window: from the least money to the most that is known raw.
CHOICES: tuple[Preset, ...] = (
    Preset(
        "economy", "any", "The lowest cost: compaction at a quarter of the window, or before it where that pays.",
        (("context_threshold", 0.25), ("fold_early", "auto"), ("low_water", 0.6), ("prefix_share", 0.35)),
        100_000, 10_000_000, _MEASURED,
    ),
    Preset(
        "balanced", "any", "The defaults: a compaction comes where the prices say that it pays, at three quarters at the latest.",
        (), 0, 10_000_000, _MEASURED,
    ),
    Preset(
        "memory", "any", "The most messages in full: no compaction before the threshold, and a long raw tail after it.",
        (("fold_early", "off"), ("tail_share", 0.2), ("low_water", 0.5)), 0, 10_000_000, _MEASURED,
    ),
)  # fmt: skip
NAMED = (*PRESETS, *CHOICES)


@dataclass(frozen=True, slots=True)
class Plan:
    """``changes``: new values by setting, None for the default. ``kept``: settings that stay, and why."""

    changes: dict[str, object]
    kept: dict[str, str]


def _of_presets(config: Config) -> set[tuple[str, object]]:
    """Settings and values that an earlier preset may have written: of each that left none of its settings at the default."""
    whole = (each for each in NAMED if all(config.provenance(name) != "default" for name, _ in each.settings))
    return {setting for each in whole for setting in each.settings}


def taking_over(preset: Preset, config: Config) -> Plan:
    """Changes of config.yaml by which a preset is taken over. A value of another preset gives way, one's own stays."""
    changes: dict[str, object] = {}
    kept: dict[str, str] = {}
    wanted, earlier = dict(preset.settings), _of_presets(config)
    for name in dict.fromkeys(name for each in NAMED for name, _ in each.settings):
        now, source = getattr(config, name), config.provenance(name)
        ours = source == "default" or (name, now) in earlier
        if source == "env" and name in wanted:
            kept[name] = f"{KNOBS[name].env} is set in the environment"
        elif source == "env" or (name in wanted and now == wanted[name] and source != "default"):
            continue
        elif name in wanted and ours:
            changes[name] = wanted[
                name
            ]  # a default too: fold_early=auto beside a threshold makes that the latest point
        elif name in wanted:
            kept[name] = "you have set it yourself"
        elif ours and source != "default":
            changes[name] = None
    return Plan(changes, kept)


def preset_named(name: str) -> Preset:
    """The preset of that name."""
    for preset in NAMED:
        if preset.name == name:
            return preset
    raise NotFound(f"there is no preset {name!r}; there are: {', '.join(each.name for each in NAMED)}")


def suggestion(config: Config, *, context_length: int, model: str = "", provider: str = "") -> dict[str, Any]:
    """The preset that suits the window, with everything an operator needs to judge it; read-only."""
    fitting = [each for each in PRESETS if each.low <= context_length < each.high]
    if not fitting:
        reason = (
            "the context window is not known yet; give the model's context_length in config.yaml, or ask in a chat in which "
            "the agent has answered; `/lcm preset show` says which windows each preset is for"
            if context_length <= 0
            else "the defaults suit this context window"
        )
        return {"preset": None, "reason": reason, "context_length": context_length}
    preset = fitting[0]
    known = bool(model or provider)
    of_family = preset.family == "any" or any(
        word in f"{provider} {model}".lower() for word in preset.family.split("_")
    )
    match = "model" if known and of_family else "context-only"
    return {
        "preset": preset.name,
        "family": preset.family,
        "reason": f"window of {context_length:,} tokens lies in {preset.low:,} to {preset.high:,}",
        "match": match,
        "alternatives": [each.name for each in fitting[1:]],
        **described(preset, config),
        "command": f"/lcm preset apply {preset.name} --dry-run",
    }


def described(preset: Preset, config: Config) -> dict[str, Any]:
    """A preset in words, and the changes that it would bring."""
    plan = taking_over(preset, config)
    wanted, refused = dict(preset.settings), {problem.name: str(problem) for problem in config.problems}
    invalid = {
        KNOBS[name].env: bad
        for name in wanted
        if (bad := refused.get(KNOBS[name].env) or refused.get(f"lcm.{name}")) is not None
    }
    own = [name for name in wanted if config.provenance(name) != "default" and name not in plan.changes]
    chosen = {
        KNOBS[name].env: {
            "value": getattr(config, name), "source": config.provenance(name), "preset": wanted[name],
        }
        for name in own
    }  # fmt: skip
    new = {name: KNOBS[name].default if value is None else value for name, value in plan.changes.items()}
    delta = {
        KNOBS[name].env: {"from": getattr(config, name), "to": value}
        for name, value in new.items()
        if value != getattr(config, name)
    }
    return {
        "provenance": preset.provenance,
        "policy_file": POLICY_FILE,
        "policy_version": POLICY_VERSION,
        "metrics": dict(zip(FIGURES, preset.measured, strict=False)),
        "metrics_of_defaults": dict(zip(FIGURES, preset.defaults_measured, strict=False)),
        "measured_by": MEASURED_BY,
        "kept_because_you_set_them": chosen,
        "invalid_settings": invalid,
        "benchmark_only": dict(preset.benchmark_only),
        "would_change": delta,
    }


def preview(name: str) -> list[str]:
    """The lines an operator would put into the environment; nothing is written."""
    preset = preset_named(name)
    return [f"{KNOBS[key].env}={setting_text(value)}" for key, value in preset.settings]
