"""The whole product: every verb at a terminal, in a pipe and in a chat, on every damaged file; Ctrl-C at any statement."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from faults.test_damages import DAMAGES, lived
from faults.test_product import BEHIND, FILES, NAMES, typed
from worlds.breaking import Host, template
from worlds.process import reload

from hermes_lcm.storage import files

pytestmark = pytest.mark.slow
Damage = Callable[[Path], Any]
AT = (1, 2, 3, 5, 8, 13, 34, 89)
#: What is typed on top of ``BEHIND``, so that a verb does what it is for.
ALSO = {
    "purge": ["session", "s"], "redact": ["all"], "retention": ["30"], "pin": ["s"], "rotate": [], "recall": ["msg_3"],
    "config get": ["LCM_SUMMARY_MODEL"], "config explain": ["LCM_SUMMARY_MODEL"], "ledger strike": ["1.a"],
    "ledger pin": ["1.a"], "ledger clear": ["1.a"], "completion": ["bash"], "preset use": ["balanced"], "rescue": ["all"],
    "doctor source": ["summaries"], "export": ["-o", "-"],
}  # fmt: skip


def by_hand(statement: str) -> Damage:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as raw:
            raw.execute(statement)

    return damage


DAMAGED: dict[str, Damage] = {
    **FILES,
    **{f"by hand: {name}": by_hand(statement) for name, statement in DAMAGES.items()},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with summaries, tools, and a backup."""

    def long_lived(host: Host) -> None:
        lived(host)
        host.command("backup")

    return template(tmp_path_factory.mktemp("lived"), long_lived)


def homes(source: Path, folder: Path, name: str) -> Iterator[tuple[str, list[str], Path]]:
    """(verb, its words, a damaged home of its own) for every verb, to look and to do."""
    for number, verb in enumerate(NAMES):
        words = [*verb.split(), *(BEHIND.get(verb) or ALSO.get(verb, []))]
        for end in ([], ["--apply"]):
            home = Path(shutil.copytree(source, folder / f"{number}{len(end)}"))
            DAMAGED[name](home / "lcm.db")
            yield verb, [*words, *end], home
            shutil.rmtree(home)


@pytest.mark.parametrize(
    ("name", "terminal"), [*((name, False) for name in DAMAGED), *((name, True) for name in FILES)]
)
def test_every_verb_looks_and_does_on_every_damage(
    name: str, terminal: bool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A code that is documented, words, no exception."""
    monkeypatch.chdir(tmp_path)
    for verb, words, home in homes(source, tmp_path, name):
        monkeypatch.setenv("HERMES_HOME", str(home))
        code, said = typed(home, words, terminal=terminal)

        assert code in (0, 1, 2, 3), (words, code, said)
        assert said.strip() or verb == "browse", words
        assert "Traceback" not in said, (words, said)


@pytest.mark.parametrize("name", FILES)
def test_every_verb_answers_in_a_chat_on_every_damage(
    name: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``/lcm`` while the conversation goes on: words, and the next turn is as good as ever."""
    monkeypatch.chdir(tmp_path)
    for verb, words, home in homes(source, tmp_path, name):
        host = Host(home)
        said = host.command(" ".join(words).replace("--apply", "apply")).text
        live = reload([{"role": "user", "content": "and now?"}])
        host.says(live)
        after = host.compress(live, force=True)
        host.close()

        assert said.strip(), (verb, words)
        assert "Traceback" not in said, (words, said)
        assert after, words


class Typed(sqlite3.Cursor):
    """A cursor at one of whose statements somebody types Ctrl-C."""

    left = 0

    def execute(self, sql: str, *args: Any) -> Any:
        if Typed.left:
            Typed.left -= 1
            if not Typed.left:
                raise KeyboardInterrupt
        return super().execute(sql, *args)


class Watched(sqlite3.Connection):
    """A connection with such cursors."""

    def cursor(self, *_: Any) -> Any:
        return super().cursor(Typed)

    def execute(self, sql: str, *args: Any) -> Any:
        return self.cursor().execute(sql, *args)


@pytest.mark.parametrize("at", AT)
@pytest.mark.parametrize("name", ["sound", "half", "no schema", "no UTF-8", "no sessions", "noise", "a circle"])
def test_ctrl_c_at_any_statement_ends_with_words(
    name: str, at: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code 130 where the verb came that far, nothing half-made, and a sound file stays sound."""
    monkeypatch.chdir(tmp_path)
    plain = sqlite3.connect
    for _, words, home in homes(source, tmp_path, name):
        monkeypatch.setenv("HERMES_HOME", str(home))
        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", lambda *args, **facts: plain(*args, **{"factory": Watched, **facts}))
            Typed.left = at
            code, said = typed(home, words, terminal=True)
            met, Typed.left = not Typed.left, 0

        assert code in ((130, 0, 1, 2, 3) if met else (0, 1, 2, 3)), (words, code, said)
        assert "Traceback" not in said, (words, said)
        assert (code != 130) or re.search(r"^Stopped( while .+)?\.", said, re.MULTILINE), (words, said)
        assert [path.name for path in home.rglob(".*lcm*") if not path.name.endswith(".lock")] == [], words
        if name == "sound" and (home / "lcm.db").exists():
            assert not files.faults(home / "lcm.db"), words
