"""Completion scripts: what a shell answers with them."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from hermes_lcm.command import VERBS
from hermes_lcm.errors import BadRequest
from hermes_lcm.terminal import completion

OPTIONS = ("--json", "--limit")
WAIT_S = 120.0
EDITS = "\x1b[?2004h"  # zsh reads keys itself from here on


def in_bash(line: str, folder: Path) -> set[str]:
    words = line.split(" ")
    typed = " ".join(f"'{each}'" for each in words)
    ask = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _hermes_lcm; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    script = f"{completion.script('bash', OPTIONS)}\n{ask}"
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def in_fish(line: str, folder: Path) -> set[str]:
    script = f"{completion.script('fish', OPTIONS)}\ncomplete -C '{line}'"
    home = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    done = subprocess.run(
        ["fish", "-N", "-c", script], capture_output=True, text=True, check=True, env=home, cwd=folder
    )
    return {each.split("\t")[0] for each in done.stdout.splitlines()}


def in_zsh(line: str, folder: Path) -> set[str]:
    """Typed at a terminal, with the key that lists what may follow; its own answer between two marks."""
    (folder / "completion").write_text(completion.script("zsh", OPTIONS))
    setup = (
        f"autoload -Uz compinit; compinit -u -d {folder}/dump; source {folder}/completion; LISTMAX=9999; setopt nobeep; "
        "zstyle ':completion:*' list-packed no; PS1='' PS2=''; print READ''Y"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb", "HOME": str(folder), "COLUMNS": "200"})
    try:
        os.write(terminal, f"{setup}\n".encode())
        read_until(terminal, "READY", behind=EDITS)
        os.write(terminal, f"{line}\x04\x15print EN''D\n".encode())  # Ctrl-D lists, Ctrl-U empties the line
        return set(read_until(terminal, "END").split())
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def read_until(terminal: int, mark: str, behind: str = "") -> str:
    """What a terminal shows up to a mark and what comes ``behind`` it."""
    seen = ""
    while mark not in seen or behind not in seen.partition(mark)[2]:
        assert select.select([terminal], [], [], WAIT_S)[0], seen
        seen += os.read(terminal, 65536).decode("utf-8", "replace")
    return seen


SHELLS = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}
#: bash is where the tests are; the others are asked where they are installed (`apt install zsh fish`).
HERE = [name for name in SHELLS if shutil.which(name)]


@pytest.mark.parametrize("shell", HERE)
def test_a_shell_completes_verbs_their_second_words_and_options(shell: str, tmp_path: Path) -> None:
    """As far as the table of verbs goes."""
    completed = partial(SHELLS[shell], folder=tmp_path)

    assert {"search", "sessions"} <= completed("hermes lcm se")
    assert {"clean", "repair", "retention"} <= completed("hermes lcm doctor ")
    assert {"bash", "zsh", "fish"} <= completed("hermes lcm completion ")
    assert "--json" in completed("hermes lcm status --j")
    assert {verb.name.split()[0] for verb in VERBS} <= completed("hermes lcm ")


def test_bash_offers_nothing_else(tmp_path: Path) -> None:
    """Neither verbs that begin otherwise nor files."""
    assert in_bash("hermes lcm se", tmp_path) == {"search", "sessions"}


def test_what_the_host_completes_stays_its_business() -> None:
    """Our function hands every other word to the one that was there before."""
    before = "_theirs() { COMPREPLY=(theirs); }; complete -F _theirs hermes"
    ask = 'COMP_WORDS=(hermes sess); COMP_CWORD=1; _hermes_lcm; echo "${COMPREPLY[@]}"'
    script = f"{before}\n{completion.script('bash', OPTIONS)}\n{ask}"
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "theirs"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_names_every_verb_and_can_be_read_by_its_shell(shell: str) -> None:
    """The shell itself reads it where it is installed."""
    text = completion.script(shell, OPTIONS)

    assert [verb.name for verb in VERBS if not all(word in text for word in verb.name.split())] == []
    if program := shutil.which(shell):
        subprocess.run([program, "-n", "/dev/stdin"], input=text, text=True, check=True, capture_output=True)


def test_a_shell_that_is_not_known_is_refused() -> None:
    """With those that are."""
    with pytest.raises(BadRequest, match="bash, zsh, fish"):
        completion.script("tcsh", OPTIONS)
