"""A file system that is mounted read-only: what is stored is read, and whatever would write says so in one line (P9, P10)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faults.test_product import BEHIND, NAMES, typed

WHY = "the file system is mounted read-only"
#: Verbs that would write, with what they need.
WRITING = [
    "backup", "backup drill", "restore latest --apply", "import x.jsonl --apply", "redact all --apply",
    "purge session s --apply", "rotate --session s --apply", "pin s", "recall msg_3", "dissolve sum_1 --apply", "export s",
    "install --apply",
]  # fmt: skip


@pytest.fixture
def mounted(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], tuple[int, str]]]:
    """A home there, and what ``hermes lcm WORDS`` answers."""
    place = tmp_path / "mounted"
    place.mkdir()
    if (
        shutil.which("mount") is None
        or subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=False).returncode
    ):
        pytest.skip("this account may not mount")
    try:
        home = Path(shutil.copytree(source, place / "home"))
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        monkeypatch.setenv("HERMES_HOME", str(home))
        monkeypatch.chdir(home)
        # With so few that stay raw a rotation has something to do.
        yield lambda words: typed(home, words.split(), terminal=False, LCM_FRESH_TAIL_COUNT="4")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_the_doctor_names_a_read_only_mount_and_finds_the_file_sound(
    mounted: Callable[[str], tuple[int, str]],
) -> None:
    """Nothing of the file is damaged; that nothing new is stored is told by the codes of doctor and status."""
    code, said = mounted("doctor deep")
    repair = mounted("doctor repair")
    failed = [line for line in said.splitlines() if "FAILED" in line and "engine_in_use" not in line]
    shown = mounted("status")

    assert (code, failed) == (1, [f"  FAILED  database: {Path.cwd() / 'lcm.db'}: {WHY}"]), said
    assert repair == (0, "Nothing to repair: the file and its search indexes are sound.\n")
    assert (shown[0], WHY in shown[1]) == (1, True), shown


@pytest.mark.few(4)
@pytest.mark.parametrize("words", WRITING)
def test_a_verb_that_writes_names_the_read_only_mount(words: str, mounted: Callable[[str], tuple[int, str]]) -> None:
    """The reason, and the way out that helps there."""
    code, said = mounted(words)

    assert code == 3, said
    assert WHY in said or "Read-only file system" in said, said
    assert "for writing" in said.partition("What to do: ")[2], said


def test_no_verb_fails_to_answer_on_a_read_only_mount(mounted: Callable[[str], tuple[int, str]]) -> None:
    """Words, and a documented code."""
    for verb in NAMES:
        for end in ("", "--apply"):
            code, said = mounted(" ".join([verb, *BEHIND.get(verb, []), end]))

            assert code in (0, 1, 2, 3), (verb, code, said)
            assert said.strip(), verb
            assert "Traceback" not in said, (verb, said)
