"""
Settings one by one: value, where it comes from, what it does.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config import ENV_PREFIX, KNOBS, Config, Knob, load, setting_text
from ..errors import BadRequest
from ..host import facts
from .answers import Answer, Words, at_most, one
from .render import table
from .replay import REACHED

if TYPE_CHECKING:
    from ..recall.access import Access

_NAME = "the name of one setting, such as fresh_tail_count"


def setting_named(word: str) -> Knob:
    """A setting by its name or its variable. Raises BadRequest with the nearest one."""
    name = word.strip().lower().removeprefix(ENV_PREFIX.lower()).removeprefix("lcm.")
    if name not in KNOBS:
        near = difflib.get_close_matches(name[:60], list(KNOBS), n=1, cutoff=0.6)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise BadRequest(f"there is no setting {word!r}.{meant} `/lcm config get all` lists them")
    return KNOBS[name]


def data_of(config: Config, knob: Knob) -> dict[str, Any]:
    """One setting as data."""
    value, default = getattr(config, knob.name), knob.default
    return {
        "name": knob.name, "env": knob.env, "value": value, "source": config.provenance(knob.name), "default": default,
        "expected": knob.expected, "meaning": knob.meaning,
    }  # fmt: skip


def changed(deps: Access, _words: Words) -> Answer:
    """``config``: the settings that are not defaults."""
    return _listed(deps.config, [knob for name, knob in KNOBS.items() if deps.config.provenance(name) != "default"])


def get(deps: Access, words: Words) -> Answer:
    """``config get``: one value, or all of them."""
    word = one(words, f"{_NAME}, or all")
    if word == "all":
        return _listed(deps.config, list(KNOBS.values()))
    knob = setting_named(word)
    data = data_of(deps.config, knob)
    return Answer(setting_text(data["value"]), data)


def _listed(config: Config, knobs: list[Knob]) -> Answer:
    rows = []
    for knob in knobs:
        source = config.provenance(knob.name)
        rows.append(
            (knob.name, setting_text(getattr(config, knob.name)) + (f"  ({source})" if source != "default" else ""))
        )
    foot = "`/lcm config explain NAME` says what one of them does."
    foot += "" if len(knobs) == len(KNOBS) else " `/lcm config get all` lists them all."
    head = table(rows, indent="") or ["Every setting has its default."]
    return Answer("\n".join([*head, foot]), {"settings": [data_of(config, knob) for knob in knobs]})


def explain(deps: Access, words: Words) -> Answer:
    """``config explain``: one setting with its meaning."""
    knob = setting_named(one(words, _NAME))
    data = data_of(deps.config, knob)
    refused = [str(each) for each in deps.config.problems if each.name in (knob.env, f"lcm.{knob.name}")]
    rows = [
        ("setting", knob.name), ("does", knob.meaning), ("value", setting_text(data["value"])), ("from", data["source"]),
        ("default", setting_text(knob.default)), ("accepts", knob.expected),
        ("variable", f"{knob.env} (it wins over config.yaml)"),
        *(("not accepted", each) for each in refused),
    ]  # fmt: skip
    trial = f"`hermes lcm config explain {knob.name} VALUE` tries a value on the archive's newest day.\n"
    foot = f"{trial if knob.name in REACHED else ''}`hermes lcm config set {knob.name} VALUE` changes it."
    return Answer("\n".join(table(rows, indent="")), {**data, "refused": refused}, foot=foot)


def parse_value(knob: Knob, value: str) -> object:
    """A value as the setting takes it. Raises BadRequest for one that it does not take."""
    try:
        return knob.parse(value)
    except ValueError as exc:
        raise BadRequest(f"{knob.name}={value!r}: expected {knob.expected}") from exc


def accepted(config: Config, words: Words) -> tuple[Knob, str]:
    """(setting, value) of a ``config set``. Raises BadRequest for a value that it does not take, and where a variable wins."""
    if len(words.rest) < 2:
        raise BadRequest("`/lcm config set` needs a setting and its value, such as `fresh_tail_count 24`")
    at_most(words, 2, "one setting and one value")
    knob, value = setting_named(words.rest[0]), words.rest[1]
    parse_value(knob, value)
    if config.provenance(knob.name) == "env":
        raise BadRequest(f"{knob.env} is set in the environment and wins over config.yaml; change or unset it there")
    block = facts.config_block()
    there = dict(block) if isinstance(block, Mapping) else {}
    tried = load({}, {**there, knob.name: value})
    if getattr(tried, knob.name) != knob.parse(value):  # fine alone, and impossible beside another one
        why = "; ".join(str(each) for each in tried.problems if knob.name in each.name.lower())
        raise BadRequest(why or f"{knob.name}={value!r} would not be in effect: expected {knob.expected}")
    return knob, value


def write(knob: Knob, value: str) -> None:
    """Let Hermes write a value. Raises BadRequest where config.yaml does not say it then.

    Hermes takes words such as `on` and digits for what they look like; with a blank behind them they are text.
    """
    for spelled in (value, f"{value} "):
        if why := facts.write_setting(f"lcm.{knob.name}", spelled):
            raise BadRequest(f"Hermes did not write {knob.name}: {why}")
        read = load({}, facts.config_block())
        if getattr(read, knob.name) == knob.parse(value):
            return
    raise BadRequest(f"Hermes wrote {knob.name}, and config.yaml does not say {value!r}: write it there by hand")
