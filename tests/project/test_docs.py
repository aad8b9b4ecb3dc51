"""Documentation that is derived is up to date, and what a user can set or call is in it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

from hermes_lcm.config import KNOBS, load
from hermes_lcm.schemas import SCHEMAS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATOR = ROOT / "scripts" / "gen-docs.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """scripts/gen-docs.py, whose name is no module name."""
    spec = importlib.util.spec_from_file_location("gen_docs", GENERATOR)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_up_to_date() -> None:
    """A change of a setting or a tool changes its page in the same commit."""
    done = subprocess.run([sys.executable, GENERATOR, "--check"], capture_output=True, text=True, check=False)

    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


def test_the_generator_needs_neither_host_nor_packages(tmp_path: Path) -> None:
    """It runs with any Python, from any folder."""
    call = [sys.executable, "-I", "-S", str(GENERATOR), "--check"]
    done = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert "Error" not in done.stderr


@pytest.mark.parametrize("name", KNOBS)
def test_every_setting_is_documented(name: str) -> None:
    """A setting that nobody can find does not exist."""
    assert f"`{KNOBS[name].env}`" in (DOCS / "configuration.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", KNOBS)
def test_every_meaning_is_a_sentence(name: str) -> None:
    """It stands alone in a table."""
    assert re.fullmatch(r"[A-Z`].*\.", KNOBS[name].meaning)


def test_sections_begin_with_settings_that_exist(generator: ModuleType) -> None:
    """A renamed setting must not make its section disappear."""
    assert set(generator.SECTIONS) <= set(KNOBS)
    assert next(iter(KNOBS)) in generator.SECTIONS


def test_a_new_tool_is_written_into_a_manifest(generator: ModuleType, tmp_path: Path) -> None:
    """Where it stands, at whatever depth; nothing else is changed."""
    found = tmp_path / "manifest.yaml"
    for before, behind in (("name: x\n", "provides_hooks:\n  - a\n"), ("a:\n  b: c\n", "  d: []\n")):
        depth = "  " * behind.startswith(" ")
        found.write_text(f"{before}{depth}provides_tools:\n{depth}  - lcm_old\n{behind}")
        names = "".join(f"{depth}  - {schema['name']}\n" for schema in SCHEMAS)

        assert generator.with_tools(found) == f"{before}{depth}provides_tools:\n{names}{behind}"


def test_every_tool_of_the_manifest_is_documented() -> None:
    """What plugin.yaml offers, docs/tools.md explains."""
    page = DOCS / "tools.md"
    offered = re.findall(r"- (lcm_\w+)", (ROOT / "plugin.yaml").read_text(encoding="utf-8"))

    assert re.findall(r"^## (\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE) == offered


PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
DEFINED = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_variables_in_the_documentation_exist(page: Path) -> None:
    """Somebody will copy them."""
    mentioned = set(re.findall(r"\bLCM_[A-Z][A-Z0-9_]*[A-Z0-9]\b", page.read_text(encoding="utf-8")))

    assert load(dict.fromkeys(mentioned, "")).problems == ()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Links between our pages and into the repository."""
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))

    assert [each for each in targets if not (page.parent / each).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_a_page_names_exist(page: Path) -> None:
    """A claim whose test was moved or renamed looks like one that nobody tests."""
    text = page.read_text(encoding="utf-8")
    files = {path for path in re.findall(r"`(tests/[\w/]+\.py)`", text) if not (ROOT / path).exists()}
    names = set(re.findall(r"`(test_\w+)`", text))

    assert files == set()
    assert names <= DEFINED


# -- pictures ----------------------------------------------------------------------------------------------------------
PICTURES = sorted((DOCS / "pictures").glob("*.svg"))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_pictures_can_be_read_by_everybody(picture: Path) -> None:
    """Well-formed, with a title and a description, nothing from elsewhere, and on a page with words in its place."""
    drawn = ET.fromstring(picture.read_text(encoding="utf-8"))
    names = [child.tag.removeprefix("{http://www.w3.org/2000/svg}") for child in drawn]
    page = (DOCS / "how-it-works.md").read_text(encoding="utf-8")

    assert names[:3] == ["title", "desc", "rect"]
    assert "script" not in names
    assert not [child for child in drawn.iter() if "href" in "".join(child.attrib)]
    assert re.search(rf"!\[[^\]]{{20,}}\]\(pictures/{picture.name}\)", page)


@pytest.mark.slow
@pytest.mark.host
def test_pictures_are_drawn_from_the_plugin_as_it_is(tmp_path: Path) -> None:
    """The script still works, and draws every picture that is shown."""
    script = ROOT / "scripts" / "gen-pictures.py"
    done = subprocess.run([sys.executable, script, "--out", tmp_path], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [picture.name for picture in PICTURES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_diagrams_are_of_a_kind_that_is_rendered(page: Path) -> None:
    """What GitHub draws; labels that hold a sign of the grammar are quoted."""
    for block in re.findall(r"```mermaid\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        kind = block.split(maxsplit=1)[0]
        assert kind in ("sequenceDiagram", "flowchart")
        assert block.count('"') % 2 == 0
        bare = re.sub(r'"[^"]*"', "", block)
        assert kind == "sequenceDiagram" or not re.search(r"[;:,'`]|\bend\b", bare)


def test_every_page_can_be_found() -> None:
    """From the README, directly or through a page that it links."""
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
        waiting += [(page.parent / link).resolve() for link in links]

    assert sorted(path.name for path in set(DOCS.glob("*.md")) - seen) == []


DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
PROMISES = re.findall(r"^\| (P\d+) \w+ \|.*\| (.+) \|$", DESIGN, re.MULTILINE)


@pytest.mark.parametrize(("promise", "shown_by"), PROMISES, ids=[name for name, _ in PROMISES])
def test_a_promise_is_shown_by_tests_that_say_so(promise: str, shown_by: str) -> None:
    """Every file that the design's table names begins with which promises it is about, or names them at its tests."""
    paths = [path for path in re.findall(r"`(tests/[^`]+)`", shown_by) if path.endswith(".py")]
    silent = [path for path in paths if not re.search(rf"\b{promise}\b", (ROOT / path).read_text(encoding="utf-8"))]

    assert paths
    assert silent == []


def test_every_promise_is_in_the_table() -> None:
    assert [name for name, _ in PROMISES] == [f"P{n}" for n in range(1, 11)]


def test_the_site_leads_to_every_page() -> None:
    """A page that is in no menu is found by nobody."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:")[2]

    assert sorted(re.findall(r"[\w-]+\.md", menu)) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))
