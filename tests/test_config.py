"""Settings: three sources, one declaration each, and no input that stops the plugin."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm import config
from hermes_lcm.config import KNOBS, NEEDS, Config, load, matches_session

#: Values of settings that need another one, and of those that they need.
UNUSUAL = {
    "condensation_fanin": "6", "retention": "cron:30d=purge", "retention_every_hours": "6", "retention_apply": "true",
    "metrics_path": "/tmp/metrics", "fleet_dsn": "postgresql://h/d", "fleet_objects": "https://k:s@h/b",
    "dynamic_leaf_chunk_enabled": "true", "large_output_externalization_enabled": "true", "incremental_max_depth": "2",
}  # fmt: skip

SPEC: dict[str, object] = {
    "context_threshold": 0.75,
    "fresh_tail_count": 64,
    "leaf_chunk_tokens": 20_000,
    "dynamic_leaf_chunk_enabled": False,
    "dynamic_leaf_chunk_max": 40_000,
    "new_session_retain_depth": 2,
    "ignore_session_patterns": (),
    "stateless_session_patterns": (),
    "ignore_message_patterns": (),
    "sensitive_patterns_enabled": False,
    "sensitive_patterns": ("api_key", "bearer_token", "password_assignment", "private_key", "aws_key", "github_token"),
    "large_output_externalization_enabled": False,
    "large_output_externalization_threshold_chars": 12_000,
    "large_output_transcript_gc_enabled": False,
    "critical_budget_pressure_ratio": 0.0,
    "summary_model": "",
    "summary_fallback_models": (),
    "summary_circuit_breaker_failure_threshold": 2,
    "summary_circuit_breaker_cooldown_seconds": 300,
    "expansion_model": "",
    "expansion_context_tokens": 32_000,
    "summary_timeout_ms": 60_000,
    "expansion_timeout_ms": 120_000,
    "database_path": "",
    "enable_slash_command": False,
    "doctor_clean_apply_enabled": False,
}


@pytest.mark.parametrize("name", SPEC)
def test_defaults_are_the_published_ones(name: str) -> None:
    """Somebody who changes nothing gets what the documentation always said."""
    assert getattr(load({}), name) == SPEC[name]


# -- sources -----------------------------------------------------------------------------------------------------------


def test_environment_beats_block_beats_default() -> None:
    """The nearer to the process, the stronger."""
    read = load({"LCM_FRESH_TAIL_COUNT": "9"}, {"fresh_tail_count": 8, "leaf_chunk_tokens": 7000})

    assert (read.fresh_tail_count, read.leaf_chunk_tokens, read.summary_timeout_ms) == (9, 7000, 60_000)


def test_provenance_names_the_source() -> None:
    """Status can say where each value came from."""
    read = load({"LCM_FRESH_TAIL_COUNT": "9"}, {"leaf_chunk_tokens": 7000})
    names = ("fresh_tail_count", "leaf_chunk_tokens", "summary_timeout_ms")

    assert [read.provenance(name) for name in names] == ["env", "config.yaml", "default"]


def test_provenance_of_an_unknown_name_is_an_error() -> None:
    """A typing error of ours must not read as `default`."""
    with pytest.raises(KeyError, match="fresh_tial"):
        Config().provenance("fresh_tial")


def test_the_process_environment_is_read_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """`load()` is all the plugin has to call."""
    monkeypatch.setenv("LCM_CONTEXT_THRESHOLD", "0.5")

    assert load().context_threshold == 0.5


@pytest.mark.parametrize("blank", ["", "  ", None], ids=repr)
def test_blank_is_unset(blank: str | None) -> None:
    """Compose files hand on variables that nobody set."""
    read = load({"LCM_FRESH_TAIL_COUNT": blank or ""}, {"summary_model": blank, "fresh_tail_count": 5})

    assert (read.fresh_tail_count, read.summary_model, read.problems) == (5, "", ())


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("context_threshold", "0.6", 0.6),
        ("context_threshold", "75%", 0.75),
        ("context_threshold", "1", 1.0),
        ("context_threshold", "96000", 96_000),
        ("context_threshold", "96_000", 96_000),
        ("context_threshold", "96k", 96_000),
        ("context_threshold", "1.5M", 1_500_000),
        ("leaf_chunk_tokens", "20k", 20_000),
        ("leaf_chunk_tokens", " 2_000 ", 2000),
        ("tail_share", "40%", 0.4),
        ("new_session_retain_depth", "-1", -1),
        ("enable_slash_command", "1", True),
        ("enable_slash_command", "Yes", True),
        ("enable_slash_command", "off", False),
        ("archive_scope", "Session", "session"),
        ("summary_reasoning_effort", "low", "low"),
        ("sensitive_patterns", "api_key, private_key", ("api_key", "private_key")),
        ("summary_fallback_models", "a/b,c:d,", ("a/b", "c:d")),
        ("ignore_message_patterns", r"^x{1,3}$,[a,b],\(,y", (r"^x{1,3}$", "[a,b]", r"\(", "y")),
        ("ignore_message_patterns", "(open,y", ("(open", "y")),
        ("ignore_message_patterns", "^Cronjob Response:,^>>>Cron<<<:", ("^Cronjob Response:", "^>>>Cron<<<:")),
    ],
)
def test_accepted_text(name: str, written: str, value: object) -> None:
    """What people write is understood."""
    read = load({KNOBS[name].env: written})

    assert (getattr(read, name), read.problems) == (value, ())


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("context_threshold", 0.6, 0.6),
        ("context_threshold", 96_000, 96_000),
        ("context_threshold", 1, 1.0),
        ("fresh_tail_count", 32.0, 32),
        ("enable_slash_command", True, True),
        ("fold_early", False, "off"),
        ("dashboard", False, "off"),
        ("ignore_message_patterns", ["a,b", "c"], ("a,b", "c")),
        ("ignore_session_patterns", [], ()),
        ("ignore_session_patterns", "cron:*,x", ("cron:*", "x")),
    ],
)
def test_accepted_yaml(name: str, written: object, value: object) -> None:
    """YAML's own types count as well as text; a pattern in a list may hold a comma."""
    read = load({}, {name: written})

    assert (getattr(read, name), read.problems) == (value, ())


REFUSED: list[Any] = [
    ("context_threshold", "75"),
    ("context_threshold", "0"),
    ("context_threshold", "-0.5"),
    ("context_threshold", "nan"),
    ("context_threshold", True),
    ("context_threshold", float("inf")),
    ("fresh_tail_count", "lots"),
    ("fresh_tail_count", "0"),
    ("fresh_tail_count", "6.5"),
    ("fresh_tail_count", True),
    pytest.param("fresh_tail_count", "9" * 5000, id="too many digits to read"),
    pytest.param("fresh_tail_count", 10**5000, id="too many digits to print"),
    ("leaf_chunk_tokens", "1.0001k"),
    ("tail_share", "1.2"),
    ("low_water", "0"),
    ("enable_slash_command", "maybe"),
    ("archive_scope", "world"),
    ("summary_model", 5),
    ("summary_model", "lone \udc80 surrogate"),
    ("ignore_session_patterns", {"a": 1}),
    ("ignore_session_patterns", ["a", 1]),
]


@pytest.mark.parametrize(("name", "written"), REFUSED)
def test_a_bad_value_gives_way_to_the_default(name: str, written: object) -> None:
    """Refused, reported with what would be right, and the plugin goes on."""
    read = load({}, {name: written})

    assert getattr(read, name) == KNOBS[name].default
    assert read.provenance(name) == "default"
    assert [(each.name, each.expected, each.used) for each in read.problems] == [
        (f"lcm.{name}", KNOBS[name].expected, config.setting_text(KNOBS[name].default))
    ]
    str(read.problems[0]).encode()


def test_a_bad_variable_gives_way_to_the_block() -> None:
    """The next source is nearer to what was meant than our default."""
    read = load({"LCM_FRESH_TAIL_COUNT": "lots"}, {"fresh_tail_count": 7})

    assert (read.fresh_tail_count, read.provenance("fresh_tail_count")) == (7, "config.yaml")
    assert str(read.problems[0]) == "LCM_FRESH_TAIL_COUNT='lots': expected a whole number, 1 or more; using 7"


@pytest.mark.parametrize("block", [[], "yes", 5, True], ids=repr)
def test_a_block_that_is_none_is_reported(block: object) -> None:
    """`lcm: true` in config.yaml is a mistake that somebody should hear of."""
    assert [each.name for each in load({}, block).problems] == ["lcm"]


def test_shares_that_leave_no_room_are_refused_together() -> None:
    """Tail and summaries cannot both have most of the threshold."""
    read = load({"LCM_TAIL_SHARE": "0.8", "LCM_PREFIX_SHARE": "0.5"})

    assert (read.tail_share, read.prefix_share, len(read.problems)) == (0.03, 0.25, 1)
    assert read.sources == ()  # what is not in effect is no setting that differs from its default


@pytest.mark.parametrize(("enabled", "size"), [("true", "1000"), ("false", "1000")])
def test_a_largest_chunk_below_the_usual_one_is_refused(enabled: str, size: str) -> None:
    """With its value, also where chunks do not grow."""
    read = load({"LCM_DYNAMIC_LEAF_CHUNK_MAX": size, "LCM_DYNAMIC_LEAF_CHUNK_ENABLED": enabled})

    refused = "LCM_DYNAMIC_LEAF_CHUNK_MAX='1000': expected LCM_LEAF_CHUNK_TOKENS or more; using 20000"
    assert read.dynamic_leaf_chunk_max == 20_000
    assert refused in [str(each) for each in read.problems]


@pytest.mark.parametrize(("name", "needed"), NEEDS.items())
@pytest.mark.parametrize("place", ["env", "block"])
def test_a_setting_that_does_nothing_alone_says_what_it_needs(name: str, needed: str, place: str) -> None:
    """In the environment and in config.yaml; with the other one beside it there is nothing to say."""
    value, on = UNUSUAL.get(name, "30000"), UNUSUAL.get(needed, "1")
    off = {"incremental_max_depth": "0", "summary_spend_max_calls": "0"}.get(needed)

    def told(**given: str) -> list[str]:
        env = {KNOBS[each].env: text for each, text in given.items()}
        read = load(env) if place == "env" else load({}, given)
        written = KNOBS[name].env if place == "env" else f"lcm.{name}"
        return [str(each) for each in read.problems if each.name == written]

    alone = told(**{name: value, **({needed: off} if off else {})})
    assert [each.partition(" has ")[2] for each in alone] == [f"no effect: set {KNOBS[needed].env} too"]
    assert told(**{name: value, needed: on}) == []
    assert told() == []


@pytest.mark.parametrize(("enabled", "problems"), [("true", 1), ("false", 0)])
def test_the_largest_chunk_is_not_below_the_usual_one(enabled: str, problems: int) -> None:
    """Raised without a word unless somebody asked for growing chunks."""
    read = load({"LCM_LEAF_CHUNK_TOKENS": "60k", "LCM_DYNAMIC_LEAF_CHUNK_ENABLED": enabled})

    assert (read.dynamic_leaf_chunk_max, len(read.problems)) == (60_000, problems)


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "block", "nearest"),
    [
        ({"LCM_FRESH_TIAL_COUNT": "3"}, {}, "LCM_FRESH_TAIL_COUNT"),
        ({"LCM_CONTEXT_TRESHOLD": "3"}, {}, "LCM_CONTEXT_THRESHOLD"),
        ({"LCM_DB_PATH": "x"}, {}, "LCM_DATABASE_PATH"),
        ({"lcm_fresh_tail_count": "3"}, {}, "LCM_FRESH_TAIL_COUNT"),
        ({"HERMES_LCM_FRESH_TAIL_COUNT": "3"}, {}, "LCM_FRESH_TAIL_COUNT"),
        ({"LMC_FRESH_TAIL_COUNT": "3"}, {}, "LCM_FRESH_TAIL_COUNT"),
        ({}, {"fresh_tial_count": 3}, "lcm.fresh_tail_count"),
        ({}, {"fresh-tail-count": 3}, "lcm.fresh_tail_count"),
        ({}, {"LCM_FRESH_TAIL_COUNT": 3}, "lcm.fresh_tail_count"),
    ],
)
def test_a_misspelt_name_is_reported_with_the_nearest(
    env: dict[str, str], block: dict[str, object], nearest: str
) -> None:
    """Silence would look like success."""
    problem = load(env, block).problems[0]

    assert str(problem) == f"{problem.name} is not a setting of hermes-lcm; did you mean {nearest}?"


def test_another_programs_variable_is_noted_without_its_value() -> None:
    """LCM means other things elsewhere, and the value may be a secret."""
    problem = load({"LCM_API_KEY": "hunter2"}).problems[0]

    assert str(problem) == "LCM_API_KEY is not a setting of hermes-lcm"
    assert "hunter2" not in repr(problem)


# -- the whole ---------------------------------------------------------------------------------------------------------

ANYTHING: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=6,
)
NAMES: Any = st.sampled_from([*KNOBS, "fresh_tial"]) | st.text() | st.integers() | st.none()


@given(
    env=st.dictionaries(
        st.sampled_from([each.env for each in KNOBS.values()]) | st.text().map("LCM_".__add__), st.text()
    ),
    block=st.dictionaries(NAMES, ANYTHING) | ANYTHING,
)
def test_no_input_stops_it(env: dict[str, str], block: object) -> None:
    """Whatever is written, the result is a usable configuration and printable reports."""
    read = load(env, block)

    for knob in KNOBS.values():
        allowed = (float, int) if knob.name == "context_threshold" else (type(knob.default),)
        assert type(getattr(read, knob.name)) in allowed
    "\n".join(map(str, read.problems)).encode()
    assert 1 <= read.threshold_tokens(65_536) <= 65_536


def test_a_configuration_is_a_value() -> None:
    """Engines are deep-copied by the host."""
    read = load({"LCM_FRESH_TAIL_COUNT": "9", "LCM_X": "y"})

    assert copy.deepcopy(read) == read
    assert hash(read) == hash(copy.deepcopy(read))


# -- threshold ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "window", "tokens"),
    [
        (0.75, 128_000, 96_000),
        (1.0, 128_000, 128_000),
        (96_000, 200_000, 96_000),
        (96_000, 65_536, 65_536),
        (0.75, 0, 96_000),
        (0.75, -1, 96_000),
        (0.01, 10, 1),
    ],
)
def test_threshold_in_tokens(threshold: float, window: int, tokens: int) -> None:
    """Relative and absolute, never above the window, and with a stated fallback when the host knows no window."""
    assert Config(context_threshold=threshold).threshold_tokens(window) == tokens


# -- session patterns --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "session", "platform", "matches"),
    [
        ("cron:*", "nightly", "cron", True),
        ("cron:*", "nightly:1", "cron", False),
        ("cron:**", "nightly:1", "cron", True),
        ("cron", "nightly", "cron", True),
        ("cron", "nightly", None, False),
        ("nightly", "nightly", "cron", True),
        ("night*", "nightly", None, True),
        ("*", "a:b", "cron", True),
        ("*", "a:b", None, False),
        ("**", "a:b", None, True),
        ("a**z", "a:b:z", "", True),
        ("a.c", "abc", None, False),
        ("", "", "", False),
        ("tele*:dm:*", "dm:42", "telegram", True),
    ],
)
def test_session_globs(pattern: str, session: str, platform: str | None, matches: bool) -> None:
    """One star stays within a segment, two cross them; id, platform and both together are tried."""
    assert matches_session((pattern,), session, platform) == (pattern if matches else None)


def test_the_first_matching_pattern_is_named() -> None:
    """Status says which pattern excludes a session."""
    assert matches_session(("x", "cron:*", "cron:n*"), "nightly", "cron") == "cron:*"


# -- settings for some models and platforms --------------------------------------------------------------------------------
RULES = {
    "overrides": {
        "claude-*": {"context_threshold": 0.4, "low_water": 0.2},
        "@telegram": {"context_threshold": "50%"},
        "claude-haiku*@telegram": {"summary_model": "extractive"},
        "claude-haiku*": {"context_threshold": 0.3},
    }
}


@pytest.mark.parametrize(
    ("model", "platform", "threshold", "rule"),
    [
        ("gpt-5", "cli", 0.75, "default"),
        ("gpt-5", "telegram", 0.5, 'lcm.overrides "@telegram"'),
        ("claude-opus", "telegram", 0.4, 'lcm.overrides "claude-*"'),
        ("anthropic/Claude-Haiku-9", "telegram", 0.3, 'lcm.overrides "claude-haiku*"'),
    ],
)
def test_the_most_specific_rule_decides(model: str, platform: str, threshold: float, rule: str) -> None:
    """A longer name of a model before a shorter one, a model before a platform; and it is told which."""
    narrowed = load({}, RULES).of(model, platform)

    assert narrowed.context_threshold == threshold
    assert narrowed.provenance("context_threshold") == rule
    assert narrowed.summary_model == ("extractive" if "Haiku" in model else "")


@pytest.mark.parametrize("rule", ["claude-3@20240307", "claude* @ CLI", " @cli"])
def test_a_rule_fits_names_that_hold_its_sign_and_may_have_blanks(rule: str) -> None:
    """Some providers write the day of a model behind an @."""
    assert load({}, {"overrides": {rule: {"low_water": 0.2}}}).of("claude-3@20240307", "cli").low_water == 0.2


def test_the_hosts_own_threshold_of_a_model_is_respected() -> None:
    """Where nobody set ours; a rule of ours wins over both."""
    assert load({}).of("m", "cli", 0.6).context_threshold == 0.6
    assert load({"LCM_CONTEXT_THRESHOLD": "0.5"}).of("m", "cli", 0.6).context_threshold == 0.5
    assert load({}, RULES).of("m", "telegram", 0.6).context_threshold == 0.5
    assert load({}).of("m", "cli", 0.6).why_exact() == "the threshold that was set"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, ""),
        ({"LCM_CONTEXT_THRESHOLD": "0.5"}, "the threshold that was set"),
        ({"LCM_CONTEXT_THRESHOLD": "0.5", "LCM_FOLD_EARLY": "auto"}, ""),
        ({"LCM_CONTEXT_THRESHOLD": "0.5", "LCM_FOLD_EARLY": "off"}, "LCM_FOLD_EARLY is off"),
        ({"LCM_FOLD_EARLY": "off"}, "LCM_FOLD_EARLY is off"),
    ],
)
def test_a_threshold_that_was_set_is_exact_unless_early_compactions_were_set_too(
    settings: dict[str, str], why: str
) -> None:
    """Then it is the latest point."""
    assert load(settings).why_exact() == why


def test_a_wrong_rule_is_told_and_loses_nothing_else() -> None:
    """Each part of it by its name."""
    rules = {"@cli": {"context_threshold": "much", "low_water": 0.2, "database_path": "/x"}, "gpt*": 5}
    made = load({}, {"overrides": rules})

    assert made.of("gpt-5", "cli").low_water == 0.2
    assert made.of("gpt-5", "cli").context_threshold == 0.75
    names = [each.name for each in made.problems]
    assert names == ["lcm.overrides.@cli.context_threshold", "lcm.overrides.@cli.database_path", "lcm.overrides.gpt*"]
    assert [each.name for each in load({}, {"overrides": [1]}).problems] == ["lcm.overrides"]


def test_a_rule_that_does_not_go_with_the_general_settings_is_told() -> None:
    """Both shares are the defaults then, for that model only."""
    made = load({}, {"overrides": {"gpt*": {"tail_share": 0.8}}, "tail_share": 0.1})

    assert made.of("gpt-5", "cli").tail_share == 0.03
    assert made.tail_share == 0.1
    assert [str(each) for each in made.problems] == [
        "lcm.overrides.gpt*: lcm.tail_share + lcm.prefix_share='0.8 + 0.25': expected a sum below 1; using 0.03 + 0.25"
    ]
