#!/usr/bin/env python3
"""
Run the tests of the real host in every host and Python of tox.ini, and write the table of the README from what came out.

    scripts/test --hosts                     everything; an hour on two cores
    scripts/test --hosts py313-h0222 ...     some environments
    scripts/hosts.py --list                  the environments, and which Pythons this machine has
    scripts/hosts.py --write                 only write the table again from tests/host/results.json

Results of environments that were not run stay as they were. Standard library only; tox gets an environment of its own.
"""

from __future__ import annotations

import argparse
import configparser
import datetime as dt
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "tests" / "host" / "results.json"
README = ROOT / "README.md"
RUNNER = ROOT / ".tox" / "runner"
TOOLS = ("tox==4.67.15", "tox-uv==1.37.1")
MARKS = ("<!-- hosts: written by scripts/hosts.py -->", "<!-- end of hosts -->")
REFUSED = "h0170"


def configuration() -> configparser.ConfigParser:
    """tox.ini as it is."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "tox.ini", encoding="utf-8")
    return parser


def environments() -> list[str]:
    """Names like ``py311-h0190``, with every brace of the list spelled out."""
    return [name for line in configuration()["tox"]["env_list"].split() for name in _spelled_out(line)]


def _spelled_out(text: str) -> Iterator[str]:
    found = re.search(r"\{([^{}]*)\}", text)
    if not found:
        yield text
        return
    for choice in found[1].split(","):
        yield from _spelled_out(text[: found.start()] + choice + text[found.end() :])


def hosts() -> dict[str, str]:
    """The package that each factor stands for: ``{"h0190": "hermes-agent 0.19.0"}``."""
    found = re.findall(r"^\s*(h\d+): (hermes\S*)==(\S+)", configuration()["testenv"]["deps"], re.MULTILINE)
    return {factor: f"{name} {version}" for factor, name, version in found}


def python_of(environment: str) -> str:
    """``py311-h0190`` → ``3.11``."""
    digits = environment.partition("-")[0].removeprefix("py")
    return f"{digits[0]}.{digits[1:]}"


# -- finding Pythons ---------------------------------------------------------------------------------------------------


def search_path() -> str:
    """PATH with the versions that pyenv keeps: its shims answer only for those that were chosen."""
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = sorted(str(path.parent) for path in kept.glob("*/bin/python3.1[0-9]"))
    return os.pathsep.join([*dict.fromkeys(found), os.environ.get("PATH", "")])


def has(version: str) -> bool:
    """Does this machine have that Python?"""
    ask = f"import sys; raise SystemExit('%d.%d' % sys.version_info[:2] != '{version}')"
    env = {**os.environ, "PATH": search_path()}
    for folder in env["PATH"].split(os.pathsep):
        program = Path(folder) / f"python{version}"
        if program.exists() and not subprocess.run([program, "-c", ask], env=env, capture_output=True).returncode:
            return True
    return False


# -- running -----------------------------------------------------------------------------------------------------------


def runner() -> Path:
    """The ``tox`` program, installed if need be."""
    program = RUNNER / "bin" / "tox"
    stamp = RUNNER / "tools.txt"
    if not program.exists() or not stamp.exists() or stamp.read_text(encoding="utf-8") != "\n".join(TOOLS):
        print(f"hosts: installing {' and '.join(TOOLS)} into {RUNNER.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", RUNNER], check=True)
        pip = [RUNNER / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *TOOLS]
        subprocess.run(pip, check=True)
        stamp.write_text("\n".join(TOOLS), encoding="utf-8")
    return program


def run(environment: str) -> dict[str, Any]:
    """One environment: what its tests say."""
    report = ROOT / ".tox" / "results" / f"{environment}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    env |= {"PATH": search_path(), "PYTEST_ADDOPTS": f"--junit-xml={report}"}
    done = subprocess.run([runner(), "run", "-e", environment], cwd=ROOT, env=env, check=False)
    outcome = {"host": hosts()[environment.partition("-")[2]], "python": python_of(environment)}
    return {**outcome, "on": f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}", **_counts(report, done.returncode)}


def _counts(report: Path, code: int) -> dict[str, Any]:
    if not report.exists():
        return {"passed": 0, "failed": 0, "skipped": 0, "seconds": 0, "exit": code or 1}
    suites = list(ET.parse(report).getroot().iter("testsuite"))  # noqa: S314 - written by our own pytest
    total, failed, skipped = (
        sum(int(suite.get(key, 0)) for suite in suites for key in keys)
        for keys in (("tests",), ("failures", "errors"), ("skipped",))
    )
    seconds = round(sum(float(suite.get("time", 0)) for suite in suites))
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped, "seconds": seconds, "exit": code}


# -- the table ---------------------------------------------------------------------------------------------------------


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Hosts down, Pythons across."""
    pythons = sorted(
        {python_of(name) for name in environments()}, key=lambda text: [int(part) for part in text.split(".")]
    )
    lines = [f"| host | {' | '.join(f'Python {each}' for each in pythons)} |", "| --- |" + " --- |" * len(pythons)]
    for factor, host in sorted(hosts().items()):
        names = {python_of(name): name for name in environments() if name.endswith(factor)}
        cells = [_cell(factor, results.get(names[each])) if each in names else "" for each in pythons]
        lines.append(f"| {host} | {' | '.join(cells)} |")
    days = sorted({str(result["on"]) for result in results.values()})
    span = " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "never"
    return "\n".join(
        [*lines, "", f"Tried {span} by `scripts/test --hosts`; the numbers are in `tests/host/results.json`."]
    )


def _cell(factor: str, result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "not run"
    if result["failed"] or result["exit"]:
        return f"**{result['failed'] or 'all'} failed**"
    count = result["skipped"]
    skipped = f" ({count} test{'s' if count > 1 else ''} skipped)" if count else ""
    return "no, and it says so" if factor == REFUSED else f"yes{skipped}"


def written(text: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """The README with the table in its place."""
    before, mark, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not mark or not end:
        raise SystemExit(f"hosts: {README.name} has no place for the table: {MARKS[0]} ... {MARKS[1]}")
    return f"{before}{mark}\n{table(results)}\n{end}{after}"


def read_results() -> dict[str, dict[str, Any]]:
    """Results of environments that tox.ini still has."""
    known: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return {name: known[name] for name in environments() if name in known}


def save(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Results and table."""
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    README.write_text(written(README.read_text(encoding="utf-8"), results), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", nargs="*", help="default: all of tox.ini")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave results and README as they are")
    wanted = parser.parse_args(arguments)
    results = read_results()
    if wanted.list or wanted.write:
        for name in environments() if wanted.list else ():
            print(
                f"{name:14} {hosts()[name.partition('-')[2]]:32} {'' if has(python_of(name)) else 'no such Python here'}"
            )
        if wanted.write:
            save(results)
        return 0
    if unknown := set(wanted.environment) - set(environments()):
        parser.error(f"tox.ini has no {', '.join(sorted(unknown))}; it has {', '.join(environments())}")
    failed = []
    for name in wanted.environment or environments():
        if not has(python_of(name)):
            print(f"hosts: {name} not run: this machine has no Python {python_of(name)}", flush=True)
            failed.append(name)
            continue
        print(f"\n== {name}: {hosts()[name.partition('-')[2]]}", flush=True)
        results[name] = run(name)
        if results[name]["exit"]:
            failed.append(name)
        if not wanted.keep:
            save({name: results[name] for name in environments() if name in results})
    print("\nhosts: " + (f"FAILED or not run: {', '.join(failed)}" if failed else "all passed"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
