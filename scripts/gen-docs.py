#!/usr/bin/env python3
"""
Write docs/configuration.md from config.py, docs/tools.md from schemas.py, docs/metrics.md from ops/metrics.py and
docs/doctor.md from ops/doctor/checks.py; settings and tools of plugin.yaml, and tools of catalog/hermes-lcm.yaml.

    scripts/gen-docs.py            write what changed
    scripts/gen-docs.py --check    change nothing; exit code 1 when something is out of date
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTE = "<!-- Written by scripts/gen-docs.py from {source}; change it there. -->"

SECTIONS = {  # title, by the first setting of the section
    "context_threshold": "When the prompt is compacted, and how far",
    "leaf_chunk_tokens": "How summaries are cut",
    "summary_model": "Who writes summaries",
    "expansion_model": "Reading back",
    "ignore_session_patterns": "What is stored, and how",
    "database_path": "Files and commands",
    "fleet_dsn": "Several hosts",
}

CONFIGURATION = """\
# Configuration

{note}

No setting is needed. Each one can be given as an environment variable or, in small letters and without `LCM_`, as a key
of the `lcm:` block in the host's `config.yaml`. The variable wins. A blank value counts as not set. Variables may also
stand in the file `.env` of the Hermes home. `hermes config set lcm.context_threshold 0.6` writes such a key; the host
says that it does not know it, and writes it all the same.

```yaml
lcm:
  context_threshold: 0.6
  ignore_session_patterns: [cron:*]
```

A value that is not accepted is refused, and the next source (variable, `config.yaml`, default) is used. A name that
nobody knows is ignored. Neither ever stops the plugin; `lcm_status` and `lcm_doctor` show what was found, what was
expected and the nearest right name. Settings are read when Hermes starts.

**Kinds of values.** Numbers of tokens may be written as `20000`, `20_000` or `20k`; shares as `0.35` or `35%`; switches
as `true`, `yes`, `on`, `1` and their opposites; lists separated by commas or as YAML lists. A comma inside brackets
does not separate, so that `x{{1,3}}` is one pattern.

**For some models and platforms only**: rules under `overrides`, in `config.yaml`. A key is a glob of the model's name, `@` and a
platform, or both. The most specific rule wins: a model's name before a platform alone, a longer name before a shorter one.
Settings that may stand there: {overridable}. `lcm_status` and `hermes lcm status` name the rule that decided. The host's own
`compression.model_thresholds` count where no threshold of ours is set.

```yaml
lcm:
  overrides:
    "claude-haiku*": {{context_threshold: 0.4}}
    "@cron": {{summary_model: extractive}}
    "gpt-5*@telegram": {{context_threshold: 60k, low_water: 0.25}}
```

**Session patterns** are compared with the session's id, its platform, and `platform:session_id`. `*` stays within one
colon-delimited segment, `**` spans several: `cron:*` matches each cron session, `telegram:**` all of Telegram.
"""

FORM = "# settings: written by scripts/gen-docs.py"

TOOLS = """\
# Tools

{note}

What the agent can call while the context engine `lcm` is selected. Where `format` is offered, answers are lines of text within a
budget; `format="json"` gives all details. Errors are JSON in both forms. The texts below are exactly what the model reads with
each request, so they are short: an argument without a meaning is what its name says.
"""

METRICS = """\
# Metrics

{note}

Off by default. `LCM_METRICS_PATH` names a file in the
[Prometheus text format](https://prometheus.io/docs/instrumenting/exposition_formats/), for the textfile collector of the node
exporter, which reads files called `*.prom`:

```sh
export LCM_METRICS_PATH=/var/lib/node_exporter/textfile/hermes_lcm.prom
```

- A relative path is taken from the folder of the database.
- A thread of its own writes the file while Hermes works, at most every `LCM_METRICS_INTERVAL_SECONDS`, and once when the process
  ends. No turn waits for it. Looking (`hermes lcm status`) writes nothing.
- The file is replaced as a whole, so a reader never sees half of it. An empty lock file, `.<name>.lock`, stays beside it.
- Counters belong to the file, not to a process. All processes that share the file add to it, and a restart does not reset it.
  Delete the file to begin at zero. Several databases may share one file; the label `database` tells them apart.
- It holds no text of any message. If it cannot be written, status and doctor show a warning.

Every sample has the label `database`; a histogram `X` has the series `X_bucket`, `X_sum` and `X_count`.

| Metric | Type | More labels | Meaning |
|---|---|---|---|
{rows}
"""

DOCTOR = """\
# What the doctor asks

{note}

`/lcm doctor`, `hermes lcm doctor` and the tool `lcm_doctor` ask the same questions. A finding says what it
means, what to do and the exact command. Checks marked * need a database that answers; without one the others still run.

| Check | Question |
|---|---|
{rows}
"""


def load(module: str) -> Any:
    """Import one of our modules without running the plugin's ``__init__``, which needs the host."""
    if "hermes_lcm" not in sys.modules:
        package = types.ModuleType("hermes_lcm")
        package.__path__ = [str(ROOT)]
        sys.modules["hermes_lcm"] = package
    return importlib.import_module(f"hermes_lcm.{module}")


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def configuration() -> str:
    """The text of docs/configuration.md."""
    config = load("config")
    names = ", ".join(f"`{each}`" for each in config.OVERRIDABLE)
    lines = [CONFIGURATION.format(note=NOTE.format(source="config.py"), overridable=names)]
    for knob in config.KNOBS.values():
        if knob.name in SECTIONS:
            lines += [
                "",
                f"## {SECTIONS[knob.name]}",
                "",
                row("Variable", "Default", "Accepted", "Meaning"),
                "|---|---|---|---|",
            ]
        default = f"`{config.setting_text(knob.default)}`" if knob.default not in ("", ()) else "empty"
        lines.append(row(f"`{knob.env}`", default, knob.expected, knob.meaning))
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def tools() -> str:
    """The text of docs/tools.md."""
    lines = [TOOLS.format(note=NOTE.format(source="schemas.py"))]
    for schema in load("schemas").SCHEMAS:
        lines += [f"## {schema['name']}\n", schema["description"].strip() + "\n"]
        arguments = list(_arguments(schema["parameters"]))
        if arguments:
            lines += [row("Argument", "Type", "Meaning"), "|---|---|---|", *arguments, ""]
        else:
            lines.append("No arguments.\n")
    return "\n".join(lines).rstrip() + "\n"


def _arguments(parameters: Mapping[str, Any]) -> Iterator[str]:
    required = parameters.get("required", ())
    for name, schema in parameters.get("properties", {}).items():
        meaning = schema.get("description", "")
        if "default" in schema and "efault" not in meaning:
            meaning += f" Default: `{schema['default']}`."
        yield row(f"`{name}`" + (" (required)" if name in required else ""), _type(schema), meaning)


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(_type(each) for each in schema.get("anyOf") or schema["oneOf"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def metrics() -> str:
    """The text of docs/metrics.md."""
    known = load("ops.metrics")
    rows = [
        row(f"`{known.PREFIX}{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), each.help)
        for each in known.METRICS
    ]
    return METRICS.format(note=NOTE.format(source="ops/metrics.py"), rows="\n".join(rows))


def doctor() -> str:
    """The text of docs/doctor.md."""
    rows = [
        row(
            f"`{check.name}`" + (" *" if check.reads else ""),
            " ".join((check.run.__doc__ or "").replace("``", "`").split()),
        )
        for check in load("ops.doctor.checks").CHECKS
    ]
    return DOCTOR.format(note=NOTE.format(source="ops/doctor/checks.py"), rows="\n".join(rows))


def manifest() -> str:
    """The text of plugin.yaml with the form of settings that newer hosts show.

    Without defaults: a form that wrote them all back would make each of them the user's own choice.
    """
    kinds = {bool: "bool", int: "int", float: "float", tuple: "list"}
    own = with_tools(ROOT / "plugin.yaml").partition(FORM)[0]
    lines = [own + FORM, "config_schema:"]
    for knob in load("config").KNOBS.values():
        if isinstance(knob.default, str | bool | int | float | tuple):
            default = ",".join(map(str, knob.default)) if isinstance(knob.default, tuple) else str(knob.default)
            said = json.dumps(f"{knob.meaning} Default: {default or 'empty'}.", ensure_ascii=False)
            lines.append(f"  {knob.name}:\n    type: {kinds.get(type(knob.default), 'str')}\n    description: {said}")
    return "\n".join(lines) + "\n"


def with_tools(path: Path) -> str:
    """The text of a manifest, with the tools that there are."""
    names = [schema["name"] for schema in load("schemas").SCHEMAS]

    def listed(found: re.Match[str]) -> str:
        return "".join(f"{found[1]}{line}\n" for line in ("provides_tools:", *(f"  - {name}" for name in names)))

    said = path.read_text(encoding="utf-8")
    return re.sub(r"^( *)provides_tools:\n(?:\1  - \w+\n)*", listed, said, flags=re.MULTILINE)


def pages() -> dict[Path, str]:
    """Every generated page and its text; ``tools.md`` as soon as there are tools."""
    found = {ROOT / "docs" / "configuration.md": configuration()}
    if (ROOT / "schemas.py").is_file():
        found[ROOT / "docs" / "tools.md"] = tools()
    found[ROOT / "docs" / "metrics.md"] = metrics()
    found[ROOT / "docs" / "doctor.md"] = doctor()
    found[ROOT / "plugin.yaml"] = manifest()
    catalog = ROOT / "catalog" / "hermes-lcm.yaml"
    found[catalog] = with_tools(catalog)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, report what is out of date")
    check = parser.parse_args().check
    stale = [
        (path, text) for path, text in pages().items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        print(f"{path.relative_to(ROOT)} {'is out of date: run scripts/gen-docs.py' if check else 'written'}")
        if not check:
            path.write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
