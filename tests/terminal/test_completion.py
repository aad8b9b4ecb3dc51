"""Completion scripts: what a shell answers with them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from hermes_lcm.command import VERBS
from hermes_lcm.errors import BadRequest
from hermes_lcm.terminal import completion

OPTIONS = ("--json", "--limit")


def completed(*words: str) -> set[str]:
    """What bash offers for the last of the words."""
    typed = " ".join(f"'{each}'" for each in words)
    ask = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _hermes_lcm; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    script = f"{completion.script('bash', OPTIONS)}\n{ask}"
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_bash_completes_verbs_their_second_words_and_options() -> None:
    """As far as the table of verbs goes."""
    assert completed("hermes", "lcm", "se") == {"search", "sessions"}
    assert {"clean", "repair", "retention"} <= completed("hermes", "lcm", "doctor", "")
    assert completed("hermes", "lcm", "completion", "") == {"bash", "zsh", "fish"}
    assert completed("hermes", "lcm", "status", "--j") == {"--json"}
    assert completed("hermes", "lcm", "") == {verb.name.split()[0] for verb in VERBS}


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
