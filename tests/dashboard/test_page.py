"""The page itself, as far as it can be read: words for every language, no HTML made of strings, everything shipped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hermes_lcm.ops.costs import Prices
from hermes_lcm.search.ranking import NAMES

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "dashboard" / "web"
SOURCES = sorted([*WEB.glob("*.mjs"), WEB / "index.js"])
MANIFEST = json.loads((ROOT / "dashboard" / "manifest.json").read_text(encoding="utf-8"))


def words(language: str) -> dict[str, str]:
    return dict(json.loads((WEB / "languages" / f"{language}.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("language", ["de", "zh"])
def test_every_language_says_everything(language: str) -> None:
    """The same keys, with the same places for values."""
    english, other = words("en"), words(language)

    assert set(english) == set(other)
    assert {
        k for k in english if sorted(re.findall(r"{\w+}", english[k])) != sorted(re.findall(r"{\w+}", other[k]))
    } == set()


@pytest.mark.parametrize("language", ["de", "zh"])
def test_no_word_of_a_filled_language_is_left_in_english(language: str) -> None:
    """Except words that are the same there."""
    english, other = words("en"), words(language)

    assert [key for key in english if not other[key].strip()] == []
    assert {key for key in english if other[key] == english[key]} <= {"money.fold", "prompt.name", "settings.env"}


def test_only_filled_languages_are_asked_for() -> None:
    """The page names them; the other languages of the host get English."""
    named = re.search(r"const FILLED = (\[[^\]]*\])", (WEB / "sdk.mjs").read_text(encoding="utf-8"))
    assert named is not None

    assert sorted(json.loads(named[1])) == sorted(path.stem for path in (WEB / "languages").iterdir())


def test_every_word_of_the_page_is_in_the_languages() -> None:
    """Written out, or the beginning of a family of keys."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    known = words("en")
    said = set(re.findall(r'\bsay\("([\w.]+)"', text))
    counted = {f"{each}.other" for each in re.findall(r'\bmany\("([\w.]+)"', text)}
    families = set(re.findall(r"\bsay\(`([\w.]+\.)\$", text))

    assert (said | counted) - set(known) == set()
    assert {family for family in families if not any(key.startswith(family) for key in known)} == set()
    assert {f"signal.{name}" for name in NAMES} <= set(known)


def test_the_prices_of_a_local_model_have_words_of_their_own() -> None:
    """Hermes has no price for it, and none is assumed."""
    source = Prices.known(None, None, local=True).source

    assert f'source === "{source}") return w.say("money.local")' in (WEB / "now.mjs").read_text(encoding="utf-8")


def test_no_text_becomes_html() -> None:
    """Stored messages are hostile: React gets them as children, and nothing else gets them."""
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|DOMParser"

    assert [path.name for path in SOURCES if re.search(forbidden, path.read_text(encoding="utf-8"))] == []


def test_the_page_asks_nobody_but_its_host() -> None:
    """No address of the internet, in code or style."""
    assert [
        path.name
        for path in WEB.iterdir()
        if path.is_file() and "//" in re.sub(r"^\s*//.*$|\s// .*$", "", path.read_text(), flags=re.MULTILINE)
    ] == []


def test_the_manifest_names_files_that_are_there() -> None:
    """Its name is that of the plugin: the host enables both together."""
    plugin = (ROOT / "plugin.yaml").read_text(encoding="utf-8")

    assert [name for name in ("entry", "css", "api") if not (ROOT / "dashboard" / MANIFEST[name]).is_file()] == []
    assert f"name: {MANIFEST['name']}\nversion: {MANIFEST['version']}\n" in plugin
