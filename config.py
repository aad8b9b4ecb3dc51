"""
Every setting, stated once: default, accepted values, meaning.

Owns the names, the reading of the environment and of the host's ``lcm:`` block, and the report of what was refused or
misspelt. ``docs/configuration.md`` and the status output are derived from here. Reading never raises: a plugin that
refuses to start because of a typing error would take the memory away along with the mistake.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, Generic, TypeVar

T = TypeVar("T")

ENV_PREFIX: Final = "LCM_"
BLOCK: Final = "config.yaml"
SENSITIVE_PATTERNS: Final = ("api_key", "bearer_token", "password_assignment", "private_key", "aws_key", "github_token")
REASONING_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")

_LARGEST = 1_000_000_000  # keeps every product of settings far from overflow in timers and SQLite
_FEWEST_TOKENS = 1_000  # a threshold between 1 and this is a percentage without its sign, not a number of tokens
_WHOLE = re.compile(r"[+-]?[0-9][0-9_]*")
_AMOUNT = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)([km]?)", re.IGNORECASE)
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}
_CHATS_AT_THEIR_LIMIT = 10  # of model calls: then the whole database is at its own
_SHOWN = 80  # characters of a refused value that a report repeats
#: Prefixes that somebody may have written for ours.
_PREFIXES = re.compile(r"^(HERMES_)?(LCM|LMC)_+", re.IGNORECASE)


# -- kinds of values ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of value: what is accepted, in words, and a reader that raises ``ValueError`` for everything else."""

    expected: str
    parse: Callable[[object], T]


def _whole(raw: object) -> int:
    if isinstance(raw, bool):
        raise ValueError(raw)
    if isinstance(raw, int):
        return raw
    if isinstance(raw, float) and raw.is_integer():
        return int(raw)
    if isinstance(raw, str) and _WHOLE.fullmatch(raw.strip()):
        return int(raw)
    raise ValueError(raw)


def _amount(raw: object) -> int:
    """A number of tokens; text may say ``96k`` or ``1.5m``."""
    found = _AMOUNT.fullmatch(raw.strip()) if isinstance(raw, str) else None
    if not found:
        return _whole(raw)
    value = float(found[1]) * _UNITS[found[2].lower()]
    if not value.is_integer():
        raise ValueError(raw)
    return int(value)


def _real(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise ValueError(raw)
    text = str(raw).strip()
    value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not math.isfinite(value):
        raise ValueError(raw)
    return value


def _flag(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    word = str(raw).strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ValueError(raw)


class Secret(str):
    """A value that nothing shows: as text it only says whether it is set. ``reveal``: the value."""

    __slots__ = ("reveal",)

    def __new__(cls, value: str = "") -> Secret:
        made = super().__new__(cls, "(set)" if value else "")
        made.reveal = value
        return made

    reveal: str

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self.reveal,)


def revealed(value: str) -> str:
    """Value of a setting that nothing else shows."""
    return value.reveal if isinstance(value, Secret) else value


def _secret(raw: object) -> Secret:
    return Secret(_text(raw))


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError(raw)
    raw.encode()  # a lone surrogate (a UnicodeError is a ValueError) could not be stored or sent later
    return raw.strip()


def _globs(raw: object) -> tuple[str, ...]:
    """Globs know ``*`` and ``**`` only: a bracket is refused, as it means something else elsewhere."""
    texts = _items(raw)
    if any(set(text) & set("[]{}?") for text in texts):
        raise ValueError(raw)
    return texts


#: ``who:days=step``: what is done to which sessions once they are so many days old.
RETENTION_RULE: Final = r"(?P<who>[^:=,\s]+):(?P<days>\d{1,5})d?=(?P<step>payloads|summaries|purge)"


def _retention(raw: object) -> tuple[str, ...]:
    texts = _items(raw)
    if not all(re.fullmatch(RETENTION_RULE, text) for text in texts):
        raise ValueError(raw)
    return texts


def _path(raw: object) -> str:
    """A file that is the same from every folder that Hermes is started in."""
    text = _text(raw)
    if text and not os.path.isabs(os.path.expanduser(text)):
        raise ValueError(raw)
    return text


def _items(raw: object) -> tuple[str, ...]:
    """A YAML list is taken as it is; text is cut at commas, but not inside brackets (``x{1,3}`` is one pattern)."""
    parts = _split(_text(raw)) if isinstance(raw, str) else raw
    if not isinstance(parts, list | tuple):
        raise ValueError(raw)
    texts = [_text(part) for part in parts]
    return tuple(text for text in texts if text)


def _split(text: str) -> list[str]:
    parts, depth, start, escaped = [], 0, 0, False
    for at, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth = max(0, depth - 1)
        elif char == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    # Brackets that never close would swallow the rest of the list: take every comma then.
    return text.split(",") if depth else [*parts, text[start:]]


def _threshold(raw: object) -> float | int:
    if isinstance(raw, str) and raw.strip()[-1:].lower() in ("k", "m"):
        value: float = _amount(raw)
    else:
        value = _real(raw.replace("_", "") if isinstance(raw, str) else raw)
    if 0 < value <= 1:
        return float(value)
    if _FEWEST_TOKENS <= value <= _LARGEST:
        return _whole(value)
    raise ValueError(raw)


def _bounded(read: Callable[[object], int], low: int, high: int) -> Callable[[object], int]:
    def checked(raw: object) -> int:
        value = read(raw)
        if not low <= value <= high:
            raise ValueError(raw)
        return value

    return checked


def whole(low: int, high: int = _LARGEST) -> Kind[int]:
    upper = f"to {high:,}" if high < _LARGEST else "or more"
    return Kind(f"a whole number, {low:,} {upper}", _bounded(_whole, low, high))


def tokens(low: int) -> Kind[int]:
    return Kind(f"a number of tokens, {low:,} or more (20000 or 20k)", _bounded(_amount, low, _LARGEST))


def share(*, zero: bool = False) -> Kind[float]:
    def read(raw: object) -> float:
        value = _real(raw)
        if not (0 <= value <= 1 if zero else 0 < value < 1):
            raise ValueError(raw)
        return value

    return Kind("a share from 0 to 1, or a percentage" if zero else "a share between 0 and 1, or a percentage", read)


def one_of(*words: str) -> Kind[str]:
    def read(raw: object) -> str:
        word = _text("off" if raw is False else raw).lower()  # YAML reads a bare off as false
        if word not in words:
            raise ValueError(raw)
        return word

    return Kind("one of " + ", ".join(filter(None, words)), read)


FLAG: Final = Kind("true or false", _flag)
TEXT: Final = Kind("text", _text)
SECRET: Final[Kind[str]] = Kind("text", _secret)
ITEMS: Final = Kind("a comma-separated list", _items)
GLOBS: Final = Kind("a comma-separated list of globs (`*` within a part, `**` over all; no brackets, no `?`)", _globs)
RETENTION: Final = Kind(
    "a comma-separated list of rules like cron:30d=purge (payloads, summaries or purge)", _retention
)
PATH: Final = Kind("an absolute path, or one that begins with ~", _path)
THRESHOLD: Final = Kind(
    f"a fraction such as 0.75, a percentage such as 75%, or {_FEWEST_TOKENS:,} tokens or more (96000 or 96k)",
    _threshold,
)


def knob(default: T, kind: Kind[T], meaning: str) -> T:
    """Declare one setting; its name is the key in config.yaml and, in capitals behind LCM_, the variable."""
    declared: T = field(default=default, metadata={"kind": kind, "meaning": meaning})
    return declared


#: The key of config.yaml under which settings for some models and platforms stand, and which settings may.
OVERRIDES: Final = "overrides"
OVERRIDABLE: Final = (
    "context_threshold", "fold_early", "fresh_tail_count", "tail_share", "prefix_share", "low_water", "foreground_budget_ms",
    "summary_model",
)  # fmt: skip
HOST_THRESHOLDS: Final = "the host's model_thresholds"
#: Settings that do nothing while another one is off, empty or 0.
NEEDS: Final = {
    "dynamic_leaf_chunk_max": "dynamic_leaf_chunk_enabled",
    "condensation_fanin": "incremental_max_depth",
    "summary_spend_window_seconds": "summary_spend_max_calls",
    "large_output_externalization_threshold_chars": "large_output_externalization_enabled",
    "retention_every_hours": "retention",
    "retention_apply": "retention_every_hours",
    "metrics_interval_seconds": "metrics_path",
    "fleet_objects": "fleet_dsn",
    "fleet_object_bytes": "fleet_objects",
    "fleet_backup_hours": "fleet_objects",
    "fleet_pull_days": "fleet_dsn",
}
_NO_EFFECT: Final = "no effect"


# -- the settings ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """A setting that was not taken as written: what was found, what would be right, what is used instead.

    For a name that nobody knows, ``used`` is empty, ``expected`` is the nearest name (or empty), and the value is left
    out: it may be another program's secret. For one that does nothing alone, ``expected`` is the setting that it needs.
    """

    name: str
    value: str
    expected: str
    used: str

    def __str__(self) -> str:
        if self.used == _NO_EFFECT:
            return f"{self.name}={self.value} has no effect: set {self.expected} too"
        if self.used:
            return f"{self.name}={self.value!r}: expected {self.expected}; using {self.used}"
        hint = f"; did you mean {self.expected}?" if self.expected else ""
        return f"{self.name} is not a setting of hermes-lcm{hint}"


@dataclass(frozen=True, slots=True)
class Override:
    """Settings for some models and platforms only: a rule of ``lcm.overrides`` in config.yaml, and the values it sets."""

    rule: str
    values: tuple[tuple[str, object], ...]

    def fits(self, model: str, platform: str) -> bool:
        """Is it for this model (in full, or behind the last slash) on this platform?"""
        rule = self.rule.lower()
        glob, where = (part.strip() for part in rule.partition("@")[::2])
        names = (model.lower(), model.lower().rpartition("/")[2])
        here = not where or where == platform.lower()
        # Some names of models hold an @ themselves.
        return any(fnmatchcase(name, rule) for name in names) or (
            here and (not glob or any(fnmatchcase(name, glob) for name in names))
        )

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Rank of a rule: one that names the platform and a longer name of a model comes last, and wins."""
        glob, at, _ = self.rule.partition("@")
        return bool(at and glob), bool(glob), len(glob)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, read once. ``problems`` says what was not taken as written."""

    context_threshold: float | int = knob(0.75, THRESHOLD, "Prompt size that starts a compaction.")
    fold_early: str = knob(
        "auto",
        one_of("auto", "off"),
        "Compact before `context_threshold` where that is cheaper by the model's prices. Where somebody set a threshold, only if "
        "auto is set too. off: never.",
    )
    fresh_tail_count: int = knob(
        64, whole(1), "Newest messages that stay raw, as far as `tail_share` has room for them."
    )
    tail_share: float = knob(0.03, share(), "Share of the threshold that the raw newest messages may take.")
    prefix_share: float = knob(0.25, share(), "Share of the threshold that the summaries may take.")
    low_water: float = knob(
        0.35, share(), "A compaction goes on until the prompt is down to this share of the threshold."
    )
    fallback_context_tokens: int = knob(128_000, tokens(1000), "Context window assumed when the host reports none.")
    critical_budget_pressure_ratio: float = knob(
        0.0,
        share(zero=True),
        "From this share of the context window on nothing is put off: all that is left is summarised at once, in the worker and "
        "in the turn, and summaries are condensed before they need to be. 0: never.",
    )

    leaf_chunk_tokens: int = knob(
        20_000,
        tokens(100),
        "Raw messages outside the tail from which on summaries are worth a call; one covers up to twice as many, "
        "but 8,000 to 60,000 tokens whatever is set here (without dynamic chunks).",
    )
    dynamic_leaf_chunk_enabled: bool = knob(
        False,
        FLAG,
        "Compact chunk by chunk, only as much as is needed, in chunks that grow with the backlog up to the next setting.",
    )
    dynamic_leaf_chunk_max: int = knob(40_000, tokens(100), "Largest chunk when chunks may grow.")
    condensation_fanin: int = knob(4, whole(2, 64), "Summaries of one depth that are condensed into one of the next.")
    incremental_max_depth: int = knob(
        -1, whole(-1, 64), "Greatest depth of the summaries. -1: no limit, 0: none above leaves."
    )
    background_compaction: bool = knob(True, FLAG, "Write summaries ahead of time, after a turn, in a worker thread.")
    foreground_budget_ms: int = knob(20_000, whole(1), "Longest time that a compaction may hold up a turn.")
    new_session_retain_depth: int = knob(
        2,
        whole(-1, 64),
        "Least depth of the summaries that `/new` carries over as references: the topmost ones. -1: of any depth, 0: none.",
    )

    summary_model: str = knob("", TEXT, "Model that writes summaries. Empty: the host's `auxiliary.compression`.")
    summary_fallback_models: tuple[str, ...] = knob((), ITEMS, "Models tried in this order when that one fails.")
    summary_timeout_ms: int = knob(60_000, whole(1), "Longest time for one summary.")
    summary_parallelism: int = knob(4, whole(1, 32), "Summaries written at the same time.")
    summary_reasoning_effort: str = knob(
        "", one_of("", *REASONING_EFFORTS), "Reasoning effort for summaries. Empty: the model's own default."
    )
    custom_instructions: str = knob("", TEXT, "Text added to the instructions for every summary.")
    summary_circuit_breaker_failure_threshold: int = knob(
        2, whole(1), "Failures in a row after which a model is left alone."
    )
    summary_circuit_breaker_cooldown_seconds: int = knob(300, whole(0), "How long it is left alone.")
    summary_spend_max_calls: int = knob(
        500,
        whole(0),
        "Most model calls for one chat in one window of the next setting; for all together ten times as many. 0: no limit.",
    )
    summary_spend_window_seconds: int = knob(3600, whole(1), "Length of that window.")

    summary_daily_tokens: int = knob(
        0, tokens(0), "Most tokens that summaries may take in 24 hours; then extracts stand for them. 0: no limit."
    )

    expansion_model: str = knob(
        "", TEXT, "Model behind `lcm_expand_query` and `lcm_map`. Empty: the one that writes summaries."
    )
    expansion_context_tokens: int = knob(
        32_000, tokens(100), "Recovered material that `lcm_expand_query` or `lcm_map` may give that model."
    )
    expansion_timeout_ms: int = knob(
        120_000, whole(1), "Longest time for one answer of `lcm_expand_query` or `lcm_map`."
    )
    max_expand_tokens: int = knob(
        8_000, tokens(100), "Largest answer of `lcm_expand`; longer ones continue on the next page."
    )
    archive_scope: str = knob(
        "principal",
        one_of("principal", "session"),
        "How far wider searches reach on a gateway: all conversations of the same chat partner, or this session only, with its "
        "sub-agents.",
    )

    ignore_session_patterns: tuple[str, ...] = knob((), GLOBS, "Globs of sessions that are not stored.")
    stateless_session_patterns: tuple[str, ...] = knob((), GLOBS, "Globs of sessions that may read but store nothing.")
    ignore_message_patterns: tuple[str, ...] = knob(
        (),
        ITEMS,
        "Regular expressions; messages that match are not stored. One has 50 ms a message, several have 40 ms together; what "
        "they do not decide in that time is stored, and told.",
    )
    sensitive_patterns_enabled: bool = knob(False, FLAG, "Redact secrets before anything is stored. Not reversible.")
    sensitive_patterns: tuple[str, ...] = knob(
        SENSITIVE_PATTERNS,
        ITEMS,
        "Kinds of secrets to redact, when redaction is enabled; `all`: every kind there is.",
    )
    large_output_externalization_enabled: bool = knob(
        False, FLAG, "Keep oversized messages in files beside the database."
    )
    large_output_externalization_threshold_chars: int = knob(
        12_000, whole(100), "Size from which a message is oversized."
    )
    large_output_transcript_gc_enabled: bool = knob(
        False, FLAG, "Replace tool results that are in a file and summarised by a short placeholder in the database."
    )

    retention: tuple[str, ...] = knob(
        (),
        RETENTION,
        "What `hermes lcm retention apply` forgets: rules `who:days=step`; who: a glob, `cron` or `subagent`.",
    )

    retention_every_hours: int = knob(
        0,
        whole(0),
        "Hours between two rounds of the retention policy that Hermes makes by itself, after a turn. 0: none.",
    )
    retention_apply: bool = knob(
        False,
        FLAG,
        "Such a round removes what is due, after a backup. Off: it only says in the status what it would free.",
    )

    stub_min_chars: int = knob(
        4_000,
        whole(200),
        "Tool results from this size on are shown to the model as address and digest once the same call was made again.",
    )
    stub_repay_share: float = knob(
        0.5,
        share(zero=True),
        "Between compactions they are stubbed when that saves this share of the tokens behind the first of them, which leave the "
        "provider's cache. 0: only at compactions.",
    )

    database_path: str = knob("", PATH, "SQLite file. Empty: `lcm.db` in the Hermes home of the profile.")
    dashboard: str = knob(
        "full",
        one_of("off", "metadata", "full"),
        "What the tab in the host's dashboard shows: figures and texts, figures only, or nothing. Behind a login, where others "
        "may look too, it shows figures only until this is set.",
    )
    enable_slash_command: bool = knob(False, FLAG, "Offer `/lcm` in the chat. Only where everybody in it is trusted.")
    compaction_notices: bool = knob(
        True, FLAG, "Say one line in the chat at each compaction. `/lcm notices off` turns it off for one chat."
    )
    recall_policy: bool = knob(
        True,
        FLAG,
        "Tell the model in three lines when to search the archive: in the system prompt of new sessions, where "
        "the host has sections of it, else in the context message.",
    )
    semantic: bool = knob(
        False,
        FLAG,
        "Find and rank messages by their meaning as well, with a local encoder (the extra `semantic`; no "
        "network). Vectors of messages are made in the background, in the database. A search may take seconds more. Off again: "
        "`/lcm doctor repair apply` removes them.",
    )
    doctor_clean_apply_enabled: bool = knob(False, FLAG, "Permit `/lcm doctor clean apply`, which deletes sessions.")
    metrics_path: str = knob(
        "", TEXT, "Prometheus text file that gets counters and timings; relative: beside the database. Empty: none."
    )
    metrics_interval_seconds: int = knob(15, whole(1), "Shortest time between two writes of that file.")

    fleet_dsn: str = knob(
        Secret(),
        SECRET,
        "PostgreSQL server that hosts share: a connection string of libpq (`sslmode`, `passfile` ... too), or `file:` and the "
        "path of a file that holds one. Empty: no fleet. Never shown.",
    )
    fleet_objects: str = knob(
        Secret(),
        SECRET,
        "Object store (S3) of the fleet for messages above `LCM_FLEET_OBJECT_BYTES` and copies of backups: "
        "`https://KEY:SECRET@HOST/BUCKET/PREFIX`, or `file:` and the path of a file that holds it. Empty: none. Never shown.",
    )
    fleet_object_bytes: int = knob(
        1_000_000, whole(1), "Larger messages, files included, lie in the fleet's object store."
    )
    fleet_backup_hours: int = knob(
        0, whole(0), "Hours between two copies of a backup that go to the fleet's object store by themselves. 0: none."
    )
    fleet_pull_days: int = knob(
        30,
        whole(0),
        "Conversations of other hosts that changed in so many days are brought here. 0: only by `hermes lcm fleet pull`.",
    )

    overrides: tuple[Override, ...] = ()  # the most specific one last
    problems: tuple[Problem, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()  # pairs, not a mapping: engines are deep-copied and configs compared

    def provenance(self, name: str) -> str:
        """Source of a setting's value: ``default``, ``env``, ``config.yaml``, a rule of overrides, the host."""
        if name not in KNOBS:
            raise KeyError(f"no setting is called {name!r}")
        return dict(self.sources).get(name, "default")

    def of(self, model: str, platform: str, host_share: float | None = None) -> Config:
        """The settings for a model on a platform. ``host_share``: the host's own threshold for this model, if it has one.

        The host's is taken where nobody set ours; rules of ``lcm.overrides`` win over everything.
        """
        fitting = [each for each in self.overrides if each.fits(model, platform)]
        values: dict[str, object] = {}
        sources = dict(self.sources)
        if host_share is not None and 0 < host_share <= 1 and "context_threshold" not in sources:
            values["context_threshold"], sources["context_threshold"] = host_share, HOST_THRESHOLDS
        for each in fitting:
            values.update(each.values)
            sources.update(dict.fromkeys(dict(each.values), f'lcm.overrides "{each.rule}"'))
        if not values:
            return self
        return _agreed(replace(self, **values, sources=tuple(sources.items())))  # type: ignore[arg-type]

    def window(self, context_length: int) -> int:
        """The context window to reckon with; a host that knows none reports 0."""
        return context_length if context_length > 0 else self.fallback_context_tokens

    @property
    def spend_in_all(self) -> int:
        """Most model calls of all chats together within the window; 0: no limit."""
        return self.summary_spend_max_calls * _CHATS_AT_THEIR_LIMIT

    def is_critical(self, used_tokens: int, context_length: int) -> bool:
        """Is a prompt so near the end of its window that maintenance is no longer put off for the sake of caches?"""
        ratio = self.critical_budget_pressure_ratio
        return ratio > 0 and used_tokens >= ratio * self.window(context_length)

    def why_exact(self) -> str:
        """Why a compaction waits for the threshold, even where an earlier one is cheaper; "" where it does not."""
        if self.fold_early == "off":
            return "LCM_FOLD_EARLY is off"
        asked = self.provenance("fold_early") != "default" or self.provenance("context_threshold") == "default"
        return "" if asked else "the threshold that was set"

    def threshold_tokens(self, context_length: int) -> int:
        """Prompt tokens that start a compaction; never above the window."""
        window = self.window(context_length)
        wanted = self.context_threshold
        return max(1, min(window, int(window * wanted if wanted <= 1 else wanted)))


@dataclass(frozen=True, slots=True)
class Knob:
    """The declaration of one setting, as documentation and status show it."""

    name: str
    default: object
    expected: str
    meaning: str
    parse: Callable[[object], object]

    @property
    def env(self) -> str:
        return ENV_PREFIX + self.name.upper()


def _declared(each: Field[object]) -> Knob:
    kind: Kind[object] = each.metadata["kind"]
    return Knob(each.name, each.default, kind.expected, each.metadata["meaning"], kind.parse)


KNOBS: Final[Mapping[str, Knob]] = {each.name: _declared(each) for each in fields(Config) if "kind" in each.metadata}


def setting_text(value: object) -> str:
    """A setting's value as an operator would write it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "(empty)"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) or "(empty)"


# -- reading -----------------------------------------------------------------------------------------------------------


def load(env: Mapping[str, str] | None = None, block: object = None) -> Config:
    """Read all settings: the environment wins over ``block`` (``lcm:`` in the host's config.yaml) over the default.

    Never raises. A refused value gives way to the next source; that, and every unknown name, is in ``problems``.
    """
    env = os.environ if env is None else env
    given = block if isinstance(block, Mapping) else {}
    values: dict[str, object] = {}
    sources: list[tuple[str, str]] = []
    problems = [] if block is None or block is given else [_not_a_block(block)]
    for knob_ in KNOBS.values():
        refused = []
        for source, name, raw in _written(knob_, env, given):
            try:
                values[knob_.name] = knob_.parse(raw)
            except ValueError:
                refused.append((name, raw))
            else:
                sources.append((knob_.name, source))
                break
        used = setting_text(values.get(knob_.name, knob_.default))
        hidden = isinstance(knob_.default, Secret)
        problems += [
            Problem(name, "(hidden)" if hidden else _printable(raw), knob_.expected, used) for name, raw in refused
        ]
    overrides, wrong = _overrides(given.get(OVERRIDES))
    problems += [*_unknown(env, given), *wrong]
    config = Config(**values, overrides=overrides, problems=tuple(problems), sources=tuple(sources))  # type: ignore[arg-type]
    config = _agreed(replace(config, problems=(*config.problems, *_idle(config))))
    return replace(config, problems=(*config.problems, *_impossible(config)))


def _impossible(config: Config) -> Iterator[Problem]:
    """Rules of overrides whose values are impossible together with the general settings."""
    for each in config.overrides:
        values = dict(each.values)
        found = _agreed(replace(config, **values, problems=())).problems  # type: ignore[arg-type]
        yield from (replace(problem, name=f"lcm.{OVERRIDES}.{each.rule}: {problem.name}") for problem in found)


def _as_written(config: Config, *names: str) -> str:
    """Names of settings in the place that sets them: keys of config.yaml, or variables."""
    in_block = any(config.provenance(name) == BLOCK for name in names)
    return " + ".join(f"lcm.{name}" if in_block else KNOBS[name].env for name in names)


def _idle(config: Config) -> Iterator[Problem]:
    """Settings that were written and do nothing, each with the one that it needs."""
    for name, needed in NEEDS.items():
        source = config.provenance(name)
        if source != "default" and getattr(config, name) != KNOBS[name].default and not getattr(config, needed):
            yield Problem(_as_written(config, name), setting_text(getattr(config, name)), KNOBS[needed].env, _NO_EFFECT)


def _overrides(raw: object) -> tuple[tuple[Override, ...], list[Problem]]:
    """The rules of ``lcm.overrides``, the most specific one last, and what is wrong with the others."""
    if raw is None:
        return (), []
    if not isinstance(raw, Mapping):
        return (), [Problem(f"lcm.{OVERRIDES}", _printable(raw), "rules by model and platform", "none")]
    rules, problems = [], []
    for rule, given in raw.items():
        name, values = f"lcm.{OVERRIDES}.{_printable(rule)}", {}
        for key, value in given.items() if isinstance(given, Mapping) else [("", given)]:
            if key not in OVERRIDABLE:
                expected = f"settings of {', '.join(OVERRIDABLE)}"
                problems.append(
                    Problem(f"{name}.{key}".rstrip("."), _printable(value), expected, "the general setting")
                )
                continue
            try:
                values[key] = KNOBS[key].parse(value)
            except ValueError:
                problems.append(Problem(f"{name}.{key}", _printable(value), KNOBS[key].expected, "the general setting"))
        if values:
            rules.append(Override(str(rule).strip(), tuple(values.items())))
    return tuple(sorted(rules, key=lambda each: each.rank)), problems


def _written(knob_: Knob, env: Mapping[str, str], given: Mapping[object, object]) -> Iterator[tuple[str, str, object]]:
    """The places that set a knob, strongest first. Blank counts as unset: compose files pass empty variables on."""
    for source, name, raw in (
        ("env", knob_.env, env.get(knob_.env)),
        (BLOCK, f"lcm.{knob_.name}", given.get(knob_.name)),
    ):
        if raw is not None and not (isinstance(raw, str) and not raw.strip()):
            yield source, name, raw


def _unknown(env: Mapping[str, str], given: Mapping[object, object]) -> Iterator[Problem]:
    known = [each.env for each in KNOBS.values()]
    for name in sorted(map(str, env)):
        meant = _PREFIXES.sub(ENV_PREFIX, name, count=1).upper()
        if name.startswith(ENV_PREFIX) and name not in known:
            yield Problem(_printable(name), "", _nearest(meant, known), "")
        elif name not in known and meant != name and meant in known:
            yield Problem(_printable(name), "", meant, "")
    keys = [f"lcm.{each}" for each in KNOBS]
    for name in sorted(f"lcm.{each}" for each in given):
        if name not in (*keys, f"lcm.{OVERRIDES}"):
            plain = name.lower().replace("-", "_").replace("lcm.lcm_", "lcm.")
            yield Problem(_printable(name), "", _nearest(plain, keys), "")


def _nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name[:_SHOWN], list(known), n=1, cutoff=0.75)
    return found[0] if found else ""


def _not_a_block(block: object) -> Problem:
    return Problem("lcm", _printable(block), "a block of settings", "defaults")


def _printable(raw: object) -> str:
    try:
        text = str(raw)
    except ValueError:  # an integer with more digits than Python converts
        text = f"({type(raw).__name__})"
    short = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return short.encode("utf-8", "backslashreplace").decode()


def _agreed(config: Config) -> Config:
    """Settings that are fine alone and impossible together."""
    if config.tail_share + config.prefix_share >= 1:
        tail, prefix = (float(str(KNOBS[name].default)) for name in ("tail_share", "prefix_share"))
        found = f"{config.tail_share} + {config.prefix_share}"
        names = _as_written(config, "tail_share", "prefix_share")
        problem = Problem(names, found, "a sum below 1", f"{tail} + {prefix}")
        config = replace(_without(config, "tail_share", "prefix_share"), tail_share=tail, prefix_share=prefix)
        config = replace(config, problems=(*config.problems, problem))
    if config.dynamic_leaf_chunk_max < config.leaf_chunk_tokens:
        floor = config.leaf_chunk_tokens
        problem = Problem(
            _as_written(config, "dynamic_leaf_chunk_max"),
            str(config.dynamic_leaf_chunk_max),
            "LCM_LEAF_CHUNK_TOKENS or more",
            str(floor),
        )
        asked = config.dynamic_leaf_chunk_enabled or config.provenance("dynamic_leaf_chunk_max") != "default"
        noted = (problem,) if asked else ()
        config = replace(_without(config, "dynamic_leaf_chunk_max"), dynamic_leaf_chunk_max=floor)
        config = replace(config, problems=(*config.problems, *noted))
    return config


def _without(config: Config, *names: str) -> Config:
    """Settings whose values came from nowhere that counts: what was written is not in effect."""
    return replace(config, sources=tuple(each for each in config.sources if each[0] not in names))


# -- session patterns --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def session_glob(pattern: str) -> re.Pattern[str]:
    """``*`` stays within one colon-delimited segment, ``**`` spans them; everything else is literal."""
    stars = {"*": "[^:]*", "**": ".*"}
    parts = re.split(r"(\*+)", pattern)
    return re.compile(
        "".join(stars[part[:2]] if part.startswith("*") else re.escape(part) for part in parts), re.DOTALL
    )


#: Which setting keeps a session out, by its mode.
MODE_SETTINGS: Final = {"ignored": "LCM_IGNORE_SESSION_PATTERNS", "stateless": "LCM_STATELESS_SESSION_PATTERNS"}


def mode_of(config: Config, session_id: str, platform: str) -> str:
    """ignored, stateless or full: what the patterns of now say of a session."""
    if matches_session(config.ignore_session_patterns, session_id, platform):
        return "ignored"
    return "stateless" if matches_session(config.stateless_session_patterns, session_id, platform) else "full"


def matches_session(patterns: Iterable[str], session_id: str, platform: str | None = None) -> str | None:
    """The first pattern that matches the session's id, its platform, or ``platform:session_id``."""
    names = [session_id, platform, f"{platform}:{session_id}"] if platform else [session_id]
    for pattern in patterns:
        if any(name and session_glob(pattern).fullmatch(name) for name in names):
            return pattern
    return None
