"""``hermes lcm``: the verbs of /lcm at a terminal, as the host calls them."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import resource
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.home import LOCKS_OUT, PAGE_BYTES, ROOT, WRITES, Holder, Home, corrupt, empty, healthy, newer, wrecked

from hermes_lcm import command
from hermes_lcm.command import FAILED, FOUND, OK, REFUSED, VERBS, operator_access, run
from hermes_lcm.ops import status
from hermes_lcm.ops.doctor import clean
from hermes_lcm.plugin import cli
from hermes_lcm.records import Flag
from hermes_lcm.storage import connection, files
from hermes_lcm.text.printable import printable


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A locked database is given up after 20 ms."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 20)
    monkeypatch.setattr(files, "_BUSY_S", 0.02)


def arguments(*words: str) -> argparse.Namespace:
    """Parsed as the host parses them."""
    parser = argparse.ArgumentParser()
    cli.setup(parser)
    return parser.parse_args(words)


def call(world: Home, *words: str) -> int:
    """The exit code of ``hermes lcm <words>``."""
    return cli.main(arguments(*words), world.runtime)


def shown_by(capsys: pytest.CaptureFixture[str]) -> str:
    """What a person at a terminal sees: answers, and refusals on stderr."""
    captured = capsys.readouterr()
    return captured.out + captured.err


@pytest.fixture
def world(tmp_path: Path) -> Home:
    return healthy(tmp_path)


# -- answers -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS if not verb.changes], ids=lambda verb: verb.name.replace(" ", "-")
)
def test_every_verb_answers_as_json(verb: Any, world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """One object on stdout, nothing else."""
    more = {"explain": ["msg_1"], "search": ["zebra"], "preset apply": ["codex_gpt_long_context", "--dry-run"]}
    call(world, *verb.name.split(), *more.get(verb.name, []), "--json")

    assert isinstance(json.loads(shown_by(capsys)), dict)


def test_text_is_the_default(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """What a person at a terminal wants."""
    assert call(world) == OK
    assert shown_by(capsys).startswith("LCM status")


def test_the_newest_session_is_looked_at(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless one is named."""
    call(world, "status", "--json")
    assert json.loads(shown_by(capsys))["session_id"] == "s1"
    assert call(world, "status", "--session", "unknown") == REFUSED


def test_rotating_needs_a_named_session(world: Home) -> None:
    """Nobody should rotate the newest session by accident."""
    assert call(world, "rotate") == REFUSED
    assert call(world, "rotate", "--session", "s1") == OK


@pytest.mark.parametrize("words", ["status", "doctor", "rotate"])
def test_a_named_session_that_nobody_stored_is_refused(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing is stored as where other sessions are; an unbound status would look like an answer about it."""
    for world in (empty(tmp_path / "empty"), healthy(tmp_path / "healthy")):
        assert call(world, words, "--session", "nope") == REFUSED
        assert "nothing is stored under a session 'nope'" in shown_by(capsys)
    assert not (tmp_path / "empty" / "lcm.db").exists()


def test_who_names_no_session_to_rotate_is_told_which_there_are(
    world: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The way out is in the message."""
    world.say("hello", session="s2")
    call(world, "rotate")
    assert re.search(r"`hermes lcm rotate --session ID`\. The newest.*: s2, s1$", shown_by(capsys).strip())
    assert call(empty(tmp_path / "empty"), "rotate") == REFUSED
    assert "nothing is stored yet" in shown_by(capsys)


def test_apply_works_as_a_word_and_as_an_option(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """And --dry-run wins."""
    world.raw("UPDATE messages SET source = ''")
    call(world, "doctor", "source", "--apply", "--dry-run", "--json")
    assert json.loads(shown_by(capsys)) == {"blank": 100}
    call(world, "doctor", "source", "apply", "--json")
    assert json.loads(shown_by(capsys))["filled"] == 100


def test_words_may_stand_behind_options(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Who is told `rotate --session ID` adds the apply at the end."""
    assert call(world, "rotate", "--session", "s1", "apply", "--json") == OK
    assert json.loads(shown_by(capsys))["status"] == "ordered"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--aply", "`hermes lcm` has no option --aply; did you mean --apply?"),
        ("--unknown=3", "no option --unknown=3; there are --session, --since, --limit,"),
        ("-x", "no option -x; there are --session,"),
    ],
)
def test_an_unknown_option_is_refused_in_words(option: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Below the host's parser as well, which would print the usage of all its commands."""
    host = argparse.ArgumentParser(prog="hermes")
    cli.setup(host.add_subparsers().add_parser("lcm"))
    with pytest.raises(SystemExit) as ended:
        host.parse_args(["lcm", "doctor", "repair", option])

    shown = capsys.readouterr().err
    assert (ended.value.code, said in shown, "usage" in shown) == (REFUSED, True, False), shown


def test_words_to_search_for_stay_as_quoted(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """The shell has read the quotes already."""
    call(world, "search", "it's apply", "--json")

    assert json.loads(shown_by(capsys))["query"] == "it's apply"


@pytest.mark.parametrize(
    "typed", ["search --json -- --deep x", "--json search -- --deep x", "--json -- search --deep x"]
)
def test_what_stands_behind_two_dashes_is_words(typed: str, world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever the options stand, and below the host's parser as well."""
    host = argparse.ArgumentParser(prog="hermes")
    cli.setup(host.add_subparsers().add_parser("lcm"))

    assert cli.main(host.parse_args(["lcm", *typed.split()]), world.runtime) == OK
    assert json.loads(shown_by(capsys))["query"] == "--deep x"


# -- wording -------------------------------------------------------------------------------------------
SAMPLES = {
    "explain": ["msg_1"], "search": ["zebra"], "preset apply": ["codex_gpt_long_context", "--dry-run"],
    "restore": ["latest"], "dissolve": ["sum_1"], "import": ["transcript.jsonl"],
}  # fmt: skip


def typed(verb: Any, home: Path) -> list[str]:
    """A verb with what it needs."""
    if verb.name == "import":
        (home / "transcript.jsonl").write_text('{"role": "user", "content": "hello"}\n')
        return ["import", str(home / "transcript.jsonl")]
    return [*verb.name.split(), *SAMPLES.get(verb.name, [])]


@pytest.mark.few(21)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name.replace(" ", "-"))
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_answers_name_commands_as_they_are_typed_here(
    verb: Any, as_json: bool, world: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody can type /lcm into a shell."""
    world.raw("UPDATE messages SET source = ''")
    world.runtime.index.rebuild([])
    if verb.name == "restore":
        call(world, "backup")
    capsys.readouterr()
    more = ["--json"] if as_json else []
    call(world, *typed(verb, tmp_path), "--session", "s1", *more)

    assert not re.search(r"/lcm[ `\"]", shown_by(capsys))


def test_a_rotation_is_named_with_its_session(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that is shown works as it is shown."""
    call(world, "rotate", "--session", "s1")
    shown = re.search(r"`hermes lcm (rotate apply[^`]*)`", shown_by(capsys))

    assert shown
    assert call(world, *shlex.split(shown[1])) == OK


def test_help_groups_the_verbs_with_their_meanings_under_each_other(
    world: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each verb once, in lines that fit a narrow terminal; none of them with a session of somebody's."""
    call(world, "help")
    said = shown_by(capsys)
    names = {verb.name.partition(" ")[0] for verb in VERBS}
    rows = [line for line in said.splitlines() if re.match(r"  \w", line)]

    assert sorted(line.split()[0] for line in rows) == sorted(names)
    assert {re.match(r"  \w+ +", line).end() for line in rows} == {14}  # type: ignore[union-attr]
    assert max(map(len, said.splitlines())) <= 80
    assert "s1" not in said


def test_the_status_of_an_archive_that_is_well_fits_a_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 lines, also where both optional packages are missing; no heading has nothing below it."""
    monkeypatch.setattr(status, "missing_packages", lambda: ["regex", "tiktoken"])
    world = Home(tmp_path / "plain")
    world.say("hello", "hi")
    call(world, "status")
    said = shown_by(capsys)

    assert "regex" in said
    assert len(said.splitlines()) <= 24, said
    assert "none\n" not in said


def test_what_somebody_said_is_not_reworded(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """A message that speaks of /lcm status is shown as it is."""
    world.say("please type /lcm status now, quagga", session="said")
    call(world, "search", "quagga")

    assert "/lcm status now" in shown_by(capsys)


@pytest.mark.parametrize(
    "words", [["search", "zebra"], ["explain", "msg_1"], ["exam"], ["recall", "zebra"]], ids=" ".join
)
def test_an_error_is_reworded_whatever_the_verb_quotes(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What to do about a damaged file is typed at the terminal, too: here no message can be read, so it is no repair."""
    assert call(wrecked(tmp_path), *words) == FAILED
    said = shown_by(capsys)

    assert "`hermes lcm import host apply`" in said
    assert "/lcm " not in said
    assert "doctor repair" not in said


def test_a_refused_rotation_says_how_to_name_a_session(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no session that it is typed in."""
    assert call(world, "rotate") == REFUSED
    assert "hermes lcm rotate --session ID" in shown_by(capsys)


@pytest.mark.parametrize("words", ["preset show", "preset show codex_gpt_long_context", "preset suggest"])
def test_presets_are_shown_for_people(
    words: str, world: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No dicts, no None."""
    world.runtime.windows = {"": 0}
    monkeypatch.setattr(command.facts, "configured_model", lambda: ("gpt-5", "codex", 272_000))
    call(world, *words.split())
    said = shown_by(capsys)

    assert "codex_gpt_long_context" in said
    assert not re.search(r"[{}\[\]]|None", said)


def test_no_suggestion_is_said_in_words(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Instead of `preset  None`."""
    call(world, "preset", "suggest")

    said = shown_by(capsys)
    assert said.startswith("No preset is suggested: the context window is not known yet; ")
    assert "context_length in config.yaml" in said
    assert "`hermes lcm preset show`" in said


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("statsu", "status"), ("docter", "doctor"), ("doctr clean", "doctor clean"), ("perset suggest", "preset suggest")],
)
def test_a_verb_that_is_mistyped_gets_the_nearest_name(
    typed: str, meant: str, world: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the terminal and in a chat."""
    assert call(world, *typed.split()) == 2
    assert f"did you mean `hermes lcm {meant}`?" in shown_by(capsys)
    assert f"did you mean `/lcm {meant}`?" in run(typed, world.deps())
    assert "did you mean" not in run("xyzzy", world.deps())


@pytest.mark.parametrize(
    ("typed", "meant"), [("sess", "sessions"), ("doc", "doctor"), ("preset sug", "preset suggest")]
)
def test_the_beginning_of_a_verb_gets_the_whole_name(typed: str, meant: str, world: Home) -> None:
    """Nobody spells it out to find out."""
    assert f"did you mean `/lcm {meant}`?" in run(typed, world.deps())


@pytest.mark.parametrize("typed", ["frobnicate", "translate", "se"])
def test_a_name_that_is_not_near_is_no_suggestion(typed: str, world: Home) -> None:
    """A guess would be typed: `rotate` changes what the agent sees."""
    assert "did you mean" not in run(typed, world.deps())


@pytest.mark.parametrize("typed", ["dashboard", "web", "gui"])
def test_who_looks_for_the_page_in_the_browser_hears_whose_it_is(typed: str, world: Home) -> None:
    """It is a tab of Hermes' own dashboard, and no verb of ours."""
    assert "the tab LCM of Hermes' own page: `hermes dashboard`." in run(typed, world.deps())
    assert "`hermes dashboard`" in run("help", world.deps())


@pytest.mark.parametrize(
    ("typed", "meant"), [("list", "sessions"), ("ls", "sessions"), ("cat msg_1", "show"), ("tui", "browse")]
)
def test_a_verb_under_a_name_that_other_programs_use_gets_ours(typed: str, meant: str, world: Home) -> None:
    """`list` says where the list of conversations is."""
    assert f"did you mean `/lcm {meant}`?" in run(typed, world.deps())


def test_a_name_that_other_programs_use_means_a_verb_that_there_is() -> None:
    """And is none itself: it would never be answered by a hint."""
    names = {verb.name for verb in command.VERBS}

    assert set(command._ELSEWHERE.values()) <= names
    assert not names & set(command._ELSEWHERE)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("preset", "`/lcm preset show NAME` says what one of them sets"),
        ("redact nonsense", "not a kind of secret: nonsense"),
        ("status dep", "`/lcm status` does not take 'dep' (it takes: deep);"),
        ("doctor claen", "retention, duplicates, deep, verbose);"),
        ("import /no/such/file", "at the terminal"),
    ],
)
def test_what_is_incomplete_or_too_much_is_told_what_fits(typed: str, said: str, world: Home) -> None:
    """Half a verb is not unknown, and a word that does not fit is told which would."""
    assert said in run(typed, world.deps())


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("status --apply", "`hermes lcm status` does not take 'apply' (it takes: deep);"),
        ("backup --dry-run", "`hermes lcm backup` does not take '--dry-run' (it takes: drill);"),
        ("backup dry-run", "`hermes lcm backup` does not take '--dry-run' (it takes: drill);"),
        ("export --apply", "`hermes lcm export` does not take 'apply'"),
        ("search --deep zebra", "`hermes lcm search` does not take 'deep'"),
        ("doctor repair deep", "`hermes lcm doctor repair` does not take 'deep' (it takes: apply);"),
    ],
)
def test_a_flag_that_a_verb_has_no_use_for_is_refused(
    typed: str, said: str, world: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a word and as an option: who asks for a dry run gets no backup."""
    assert call(world, *typed.split()) == REFUSED
    assert said in shown_by(capsys)
    assert not (world.home / "lcm-backups").exists()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("explain", "`hermes lcm explain` needs an address such as msg_12 or sum_3"),
        ("explain msg_1 msg_2", "unexpected 'msg_2': `hermes lcm explain` takes an address"),
        ("explain 12", "'12' is not the address of a message, summary or file; did you mean msg_12 or sum_12?"),
        ("search ''", "`hermes lcm search` needs words"),
        ("import", "`hermes lcm import` needs one file of messages, such as talk.jsonl"),
        ("import my talk.jsonl", "takes one file of messages, such as talk.jsonl. Put quotes around names with spaces"),
        ("import host s1 s2", "unexpected 's2': `hermes lcm import host` takes one session, or none"),
        (
            "export s1 pdf",
            "unexpected 'pdf': `hermes lcm export` takes one session (or all) and one of jsonl, markdown",
        ),
        ("adopt a b c", "unexpected 'c': `hermes lcm adopt` takes a database file"),
        ("restore latest x", "unexpected 'x': `hermes lcm restore` takes one backup"),
        ("redact preview apply", "`hermes lcm redact preview` does not take 'apply'"),
        ("preset sugest", "did you mean `hermes lcm preset suggest`?"),
        (
            "export nope",
            "no format of that name (formats: jsonl, markdown); the newest sessions: s1",
        ),
        (
            "export pdf",
            "there is no session 'pdf' that you may read here, and no format of that name",
        ),
        (
            "status --session nope",
            "under a session 'nope'; the newest sessions: s1",
        ),
    ],
)
def test_a_refusal_names_the_word_and_what_would_do(
    typed: str, said: str, world: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """The offender, and the way out."""
    assert call(world, *shlex.split(typed)) == REFUSED
    assert said in shown_by(capsys)


def test_a_file_that_is_missing_is_named_once(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """In words, without the error's number."""
    assert call(world, "import", "/no/such/file") == 2
    assert "/no/such/file cannot be read: No such file or directory\n" in shown_by(capsys)


@pytest.mark.parametrize(("verb", "folder"), [("backup", "lcm-backups"), ("export", "lcm-exports")])
def test_a_folder_that_is_none_is_named(
    verb: str, folder: str, world: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the terminal and in a chat; removing what was begun fails there too, and hides nothing."""
    (world.home / folder).write_text("a file")

    assert call(world, verb) == FAILED
    for said in (shown_by(capsys), run(verb, world.deps())):
        assert said.startswith(f"Not done: {world.home / folder}"), said
        assert ".partial" not in said
        assert "What to do: see that the account that Hermes runs as may write" in said


@pytest.mark.skipif(not Path("/proc/self/mem").is_file(), reason="a file whose beginning nobody can read")
def test_a_file_that_cannot_be_read_is_no_matter_for_the_doctor(
    world: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not ours."""
    assert call(world, "import", "/proc/self/mem") == REFUSED
    assert "/proc/self/mem cannot be read" in shown_by(capsys)


# -- the context window --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("configured", "reported", "size", "source"),
    [
        (("m", "p", 200_000), {}, 200_000, "config.yaml"),
        (("m", "p", 0), {"m": 64_000}, 64_000, "the last agent that ran m"),
        (("other", "p", 200_000), {"m": 64_000}, 64_000, "the last agent that ran m"),
        (("m", "p", 0), {}, 0, "unknown"),
        (("", "", 0), {}, 0, "unknown"),
    ],
    ids=["configured", "reported", "another-model", "neither", "no-configuration"],
)
def test_a_terminal_knows_the_window(
    configured: tuple[str, str, int], reported: dict[str, int], size: int, source: str, world: Home,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """From the host's configuration or as an agent with the session's model was told; or it says that it does not know."""
    world.raw("UPDATE sessions SET model = 'm'")
    monkeypatch.setattr(command.facts, "configured_model", lambda: configured)
    world.runtime.windows = reported
    call(world, "status", "--json")
    said = json.loads(shown_by(capsys))
    call(world)
    text = shown_by(capsys)

    assert (said["context_length"], said["context_length_source"]) == (size, source)
    assert (f"{size:,} tokens (from {source})" in text) if size else ("unknown; using 128,000" in text)
    assert not [each for each in said["problems"] if each["topic"] == "context window"]


def test_a_window_that_is_seen_while_windows_are_written_down_disturbs_nobody(tmp_path: Path) -> None:
    """The worker goes through them while an agent begins."""
    runtime = Home(tmp_path).runtime
    for model in ("a", "b", "c"):
        runtime.saw_window(model, 64_000)
    written = []
    for model in runtime.windows:
        runtime.saw_window(model, 128_000)
        written.append(model)

    assert written == ["a", "b", "c"]
    assert runtime.windows == dict.fromkeys(written, 128_000)


def test_processes_with_different_models_keep_the_windows_of_both(tmp_path: Path) -> None:
    """One that began before the other wrote its window down does not take it away."""
    first, second = Home(tmp_path), Home(tmp_path)
    for each, model in ((first, "a"), (second, "b")):
        each.runtime.saw_window(model, 64_000)
        each.say("hello")
    for each in (first, second):
        each.runtime.save_states()
    later = first.restart()
    later.runtime.db.open()

    assert later.runtime.windows == {"a": 64_000, "b": 64_000}


@pytest.mark.parametrize("behind_a_turn", [True, False])
def test_the_window_of_an_agent_outlives_its_process(behind_a_turn: bool, tmp_path: Path) -> None:
    """Kept behind the turn and when a session ends, for the terminal that asks later."""
    world = Home(tmp_path)
    world.runtime.saw_window("m", 64_000)
    world.say("hello")
    if behind_a_turn:
        world.runtime._between_turns(lambda: False)
    else:
        world.runtime.save_states()
    later = world.restart()
    later.runtime.db.open()

    assert later.runtime.windows == {"m": 64_000}


# -- progress and pipes --------------------------------------------------------------------------------
class Screen(io.StringIO):
    """Something that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def bars(said: str) -> list[str]:
    return [each.strip() for each in re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", said)) if each.strip()]


def test_long_work_shows_how_far_it_is(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the host's rich; on stderr, so that the answer can be piped on."""
    monkeypatch.setattr(sys, "stderr", Screen())
    monkeypatch.setattr(cli, "BAR_AFTER_S", 0.0)
    world.runtime.index.rebuild([])
    assert call(world, "doctor", "repair", "apply") == OK
    shown = bars(sys.stderr.getvalue())  # type: ignore[attr-defined]

    assert any("indexing messages" in each for each in shown)


def test_steps_with_names_of_their_own_show_the_time_left(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """One check is too short to be measured; all of them together are not."""
    monkeypatch.setattr(sys, "stderr", Screen())
    monkeypatch.setattr(cli, "BAR_AFTER_S", 0.0)
    call(world, "doctor")

    assert re.search(r"checking background.*\d:\d\d:\d\d", sys.stderr.getvalue())  # type: ignore[attr-defined]


def test_nobody_watching_nothing_shown(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """stderr is a file, or the answer is for a program."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    call(world, "backup", "--json")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    call(world, "backup")

    assert screen.getvalue() + sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def apart(home: Path, out: int) -> subprocess.CompletedProcess[str]:
    """``hermes lcm status --json`` in a process of its own, which writes its answer to ``out``."""
    healthy(home).close()
    code = (
        "import argparse; from hermes_lcm.plugin import cli\n"
        "p = argparse.ArgumentParser()\ncli.setup(p)\ncli.handle(p.parse_args())"
    )
    env = {**os.environ, "HERMES_HOME": str(home), "PYTHONPATH": str(ROOT / ".lcm-path")}
    return subprocess.run(
        [sys.executable, "-c", code, "status", "--json"], stdout=out, stderr=subprocess.PIPE, text=True, env=env, timeout=60,
        check=False,
    )  # fmt: skip


def test_a_reader_that_has_seen_enough_is_no_error(hermes_home: Path) -> None:
    """`hermes lcm status --json | head`: no traceback, neither at the print nor at the interpreter's end."""
    reading, writing = os.pipe()
    os.close(reading)  # whoever read is gone
    done = apart(hermes_home, writing)
    os.close(writing)

    assert (done.stderr, done.returncode) == ("", OK)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full for one file")
def test_an_answer_that_a_full_disk_does_not_take_is_an_error_in_a_line(hermes_home: Path) -> None:
    """`hermes lcm export -o - > file`: a script must hear of it."""
    with Path("/dev/full").open("wb") as full:
        done = apart(hermes_home, full.fileno())

    assert (done.stderr, done.returncode) == ("The answer cannot be written: No space left on device\n", FAILED)


def test_a_device_is_not_imported(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """`/dev/zero` never ends, and would fill the memory."""
    assert call(world, "import", "/dev/null") == REFUSED
    assert "is a device" in capsys.readouterr().err


# -- exit codes ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "words", "code"),
    [
        (healthy, "doctor", OK),
        (empty, "status", OK),
        (corrupt, "doctor --deep", FOUND),
        (corrupt, "doctor repair", FOUND),
        (newer, "doctor", FOUND),
        (newer, "backup", FAILED),
        (healthy, "nonsense", REFUSED),
        (healthy, "explain msg_999", REFUSED),
        (empty, "backup", REFUSED),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value).replace(" ", "-"),
)
def test_exit_codes_tell_scripts_what_happened(state: Any, words: str, code: int, tmp_path: Path) -> None:
    """0 done, 1 something is wrong, 2 refused, 3 the database could not."""
    world = state(tmp_path)
    engine = {"engine_name_in_use": "lcm"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            cli,
            "operator_access",
            lambda runtime, session, _engine: world.deps(session and session.session_id, **engine),
        )
        assert call(world, *words.split()) == code


def test_the_host_gets_an_exit_code(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ignores what a handler returns."""
    monkeypatch.setattr(cli.PROCESS, "at", lambda: world.runtime)
    with pytest.raises(SystemExit) as ended:
        cli.handle(arguments("nonsense"))
    assert ended.value.code == REFUSED
    cli.handle(arguments("help"))


@pytest.mark.parametrize("statements", [WRITES, LOCKS_OUT], ids=["writer", "locked"])
def test_it_works_beside_another_process(
    statements: tuple[str, ...], world: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """A running agent writes, or keeps everything to itself: an answer either way."""
    world.close()
    holder = Holder(world.path, *statements)
    try:
        call(world, "status", "--json")
        said = json.loads(shown_by(capsys))
    finally:
        holder.free()

    assert said["database"]["state"] == ("ready" if statements is WRITES else "failed")


# -- the whole way -------------------------------------------------------------------------------------
@pytest.mark.host
def test_the_hosts_own_command_answers(hermes_home: Path) -> None:
    """``hermes lcm status --json`` through the host's argument parser, with the plugin installed by a link."""
    (hermes_home / "plugins").mkdir()
    (hermes_home / "plugins" / "hermes-lcm").symlink_to(ROOT, target_is_directory=True)
    (hermes_home / "config.yaml").write_text("plugins:\n  enabled: [hermes-lcm]\ncontext:\n  engine: lcm\n")
    healthy(hermes_home).close()
    code = "import sys; sys.argv = ['hermes', 'lcm', *sys.argv[1:]]; from hermes_cli.main import main; main()"
    env = {**os.environ, "HERMES_HOME": str(hermes_home)}
    command = [sys.executable, "-c", code, "status", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=hermes_home, env=env, timeout=120, check=False)
    said = json.loads(done.stdout[done.stdout.index("{") :])

    assert done.returncode == OK, done.stderr[-2000:]
    assert said["store"]["total_messages"] == 100
    assert said["host"]["engine_in_use"] == "lcm"


# -- finding one's way -----------------------------------------------------------------------------------
def test_a_refusal_goes_to_stderr_as_json_too(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """`hermes lcm export x > file` must not hide it in the file."""
    for words in (["show", "msg_99999"], ["show", "msg_99999", "--json"]):
        assert call(world, *words) != 0
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "msg_99999 does not exist" in captured.err


def test_sessions_lists_what_is_stored(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Newest first; `--limit` says how many, and what was left out is said."""
    world.say("a second conversation", session="s2")
    assert call(world, "sessions", "--limit", "1", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert ([each["session_id"] for each in data["sessions"]], data["more"]) == (["s2"], True)
    assert call(world, "sessions") == 0
    shown = capsys.readouterr().out
    assert re.search(r"^s1 +cli +100 +1 ", shown, re.MULTILINE)


def test_sessions_names_one_day_once(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """With the times of its first and its last message; the list fits a terminal of 80 columns."""
    world.raw("UPDATE messages SET stored_at = 1700000000 + 600 * (store_id = 100)")

    assert call(world, "sessions") == 0
    assert re.search(r"^s1 .* 2023-11-14 22:13–22:23$", capsys.readouterr().out, re.MULTILINE)


def test_sessions_counts_the_messages_that_a_transcript_shows(
    world: Home, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What was taken back is stored, and counts apart."""
    world.runtime.store.flag([99, 100], add=Flag.RETRACTED)
    assert call(world, "export", "s1", "markdown", "-o", str(tmp_path / "s1.md")) == 0
    capsys.readouterr()

    assert call(world, "sessions") == 0
    shown = capsys.readouterr().out
    assert re.search(r"^s1 +cli +98 ", shown, re.MULTILINE)
    assert "98 messages" in (tmp_path / "s1.md").read_text()
    assert "Stored, but not counted here: 2 messages taken back (/undo, /retry)." in shown


def test_sessions_of_one_conversation_share_out_its_summaries(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Each counts once, in the session where the first of its messages was said."""
    world.runtime.announce("s2", platform="cli", parent="s1", origin="rotation")
    world.runtime.ingest_list("s2", [{"role": "user", "content": "go on"}], source="cli")

    assert call(world, "sessions", "--json") == 0
    listed = json.loads(capsys.readouterr().out)["sessions"]
    assert {each["session_id"]: each["summaries"] for each in listed} == {"s1": 1, "s2": 0}


@pytest.mark.parametrize("address", ["msg_1", "sum_1"])
def test_show_prints_the_whole_text(address: str, world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is cut or put on one line."""
    world.say("first line\nsecond line " + "word " * 500, session="s3")
    address = "msg_101" if address == "msg_1" else address
    assert call(world, "show", address) == 0
    shown = capsys.readouterr().out

    assert shown.startswith(address)
    assert address != "msg_101" or ("first line\nsecond line" in shown and shown.count("word") == 500)


def test_search_keeps_to_the_session_that_is_named(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """And to `--limit`; each hit says its session."""
    world.say("the zebra of another talk", session="s2")
    assert call(world, "search", "zebra", "--session", "s2", "--json") == 0
    assert {each["session_id"] for each in json.loads(capsys.readouterr().out)["results"]} == {"s2"}
    assert call(world, "search", "zebra", "--limit", "3", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["results"]) == 3


@pytest.mark.parametrize("typed", ["0", "-1", "many", "1.5", ""])
def test_a_limit_that_is_no_number_is_refused(typed: str, world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """By its value and what was expected."""
    assert call(world, "sessions", f"--limit={typed}") == REFUSED
    assert "expected a whole number" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["help", "restore"], ["restore", "--help"]])
def test_a_verb_has_help_of_its_own(words: list[str], world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Its words, an example, and whether it changes something; not the list of all verbs."""
    with suppress(SystemExit):
        call(world, *words)
    shown = capsys.readouterr().out  # the host hides what is written to stderr while it parses

    assert "hermes lcm restore [<name>|latest] [apply]" in shown
    assert "example: hermes lcm restore latest" in shown
    assert "hermes lcm status" not in shown


@pytest.mark.parametrize(
    "name", ["x y", "it's", "tab\tand\nline", "\x1b[31mred", "back\\slash\x07", "\u202eevil", "\udcff raw", "ünder 漢"]
)
def test_a_suggested_command_can_be_pasted(
    name: str, world: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Into a shell, which gets the very file; and the terminal obeys nothing of its name."""
    path = tmp_path / f"{name}.jsonl"
    path.write_text('{"role": "user", "content": "hi"}\n')
    assert call(world, "import", str(path)) == OK
    said = capsys.readouterr().out
    command = said.split("`hermes lcm import ")[1].split(" --apply`")[0]
    got = subprocess.run(["bash", "-c", f"printf %s {command}"], capture_output=True, check=True).stdout

    assert got == os.fsencode(path)
    assert printable(said) == said
    assert len(said.splitlines()) == 6


def test_help_for_nonsense_is_refused(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error is no reason to print everything."""
    assert call(world, "help", "nonsense") == REFUSED
    assert "'nonsense' is not a command" in shown_by(capsys)


# -- what a newcomer meets -----------------------------------------------------------------------------
def test_short_work_flashes_no_bar(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar that is gone before it can be read is noise."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(cli, "BAR_AFTER_S", 600.0)
    call(world, "doctor", "repair")

    assert screen.getvalue() == ""


def test_who_stops_the_work_hears_how_far_it_came(
    world: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words and exit code 130 instead of a traceback."""

    def stopped(_deps: Any, words: Any) -> Any:
        words.progress("reading messages", 38_000, 60_000)
        raise KeyboardInterrupt

    monkeypatch.setattr(
        command.backup, "back_up", lambda deps, progress, **_: stopped(deps, command.Words(progress=progress))
    )

    assert call(world, "backup") == 130
    assert "Stopped while reading messages (38,000 of 60,000). Nothing stored was changed." in shown_by(capsys)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("doctor", "clean", "--apply"), "What was finished is kept: the same command does the rest."),
        (("doctor", "clean"), "Nothing stored was changed."),
        (("doctor", "deep"), "Nothing stored was changed."),
    ],
)
def test_who_stops_the_work_hears_what_is_kept(
    typed: tuple[str, ...], said: str, world: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A look kept nothing, and a change that was begun is gone on with."""

    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(command.checks, "doctor", stopped)
    for name in ("clean", "candidates"):
        monkeypatch.setattr(clean, name, stopped)

    assert call(world, *typed) == 130
    assert shown_by(capsys).strip() == f"Stopped. {said}"


def test_the_doctor_shows_what_is_wrong_and_counts_the_rest(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Thirty passes hide one failure; --verbose lists them."""
    world.runtime.health.degraded("ingest", "disk full", remedy="free disk space")
    call(world, "doctor")
    short = shown_by(capsys)
    call(world, "doctor", "--verbose")

    assert "  ok " not in short
    assert "\n  FAILED  problems: " in short
    assert re.search(r"^  \d+ checks passed; `hermes lcm doctor verbose` lists them\.$", short, re.MULTILINE)
    assert "  ok      journal_mode: wal" in shown_by(capsys)


def test_an_unknown_option_is_refused_as_json_where_json_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """A program that asks reads stderr as it reads any other refusal."""
    with pytest.raises(SystemExit) as left:
        arguments("backup", "--nope", "--json")
    captured = capsys.readouterr()

    assert (left.value.code, captured.out) == (REFUSED, "")
    assert json.loads(captured.err)["kind"] == "BadRequest"


def test_an_export_goes_where_it_is_told(world: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Into a file, to stdout as the same bytes, and all conversations into a folder, which is made."""
    world.say("another one", session="s2")
    file, folder = tmp_path / "here it is.jsonl", tmp_path / "new" / "all"
    call(world, "export", "s1", "-o", str(file))
    capsys.readouterr()
    call(world, "export", "s1", "-o", "-")
    printed = capsys.readouterr().out
    call(world, "export", "all", "-o", str(folder))

    assert printed.rstrip("\n") == file.read_text(encoding="utf-8").rstrip("\n")
    assert {path.name for path in folder.iterdir()} == {"s1.jsonl", "s2.jsonl"}
    assert call(world, "backup", "-o", "x") == REFUSED


def test_an_export_of_all_says_how_many_conversations_are_written(world: Home) -> None:
    """One bar for all of them: a bar for each would begin anew and again."""
    for name in ("s2", "s3"):
        world.say("another one", session=name)
    seen: list[tuple[str, int, int]] = []
    deps = operator_access(world.runtime, None, None)
    verb, words = command.parsed("export all")
    said = replace(words, progress=lambda *at: seen.append(at))
    command.perform(verb, replace(deps, trusted=True), said)

    assert seen == [("writing conversations", n, 3) for n in range(3)]


def test_what_a_transcript_holds_is_shown_before_it_is_taken_in(
    world: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Roles, times, oddities; and a command that can be pasted."""
    file = tmp_path / "x y.jsonl"
    file.write_text('{"role": "wizard", "content": 5}\n{"role": "user", "content": "hi", "timestamp": "garbage"}\n')
    call(world, "import", str(file))
    said = shown_by(capsys)

    for part in ("roles: 1 wizard, 1 user", "no model knows (wizard)", "content that is not text", "is not a time"):
        assert part in said
    assert f"`hermes lcm import {shlex.quote(str(file))} --apply`" in said


def test_the_hint_below_a_search_is_typed_as_here(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """What was found is quoted; what we say of it is not."""
    call(world, "search", "zebra")

    assert re.search(r"`hermes lcm show msg_\d+` prints a message whole\.", shown_by(capsys))


# -- a status is as good as its exit code ----------------------------------------------------------------
def _gone(world: Home) -> None:
    world.close()
    world.path.unlink()


def _emptied(world: Home) -> None:
    world.close()
    os.truncate(world.path, 0)


def _index_page(world: Home) -> None:
    (page,) = world.runtime.db.query("SELECT rootpage FROM sqlite_master WHERE name = 'nodes_by_first'")[0]
    world.close()
    with world.path.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\0" * PAGE_BYTES)


def _one_text(world: Home) -> None:
    world.raw("UPDATE messages SET envelope = x'00' WHERE store_id = 3")
    world.close()


@pytest.mark.parametrize(
    ("damage", "said", "back"),
    [
        (_gone, "is not there, but there are: a backup", "hermes lcm restore lcm-"),
        (_emptied, "is empty, but there are: a backup", "hermes lcm restore lcm-"),
        (_index_page, "lcm.db: ", "hermes lcm doctor repair"),
        (_one_text, "1 message cannot be read, the first is msg_3", "hermes lcm doctor repair"),
    ],
)
def test_a_status_of_a_lost_or_damaged_archive_fails(
    damage: Any, said: str, back: str, world: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and one command back."""
    assert run("backup", world.deps())
    damage(world)
    code, text = call(world, "status"), shown_by(capsys)

    assert (code, said in text, back in text) == (FOUND, True, True), text


def test_the_status_of_a_first_installation_is_no_failure(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the host has said before."""
    _gone(world)
    with sqlite3.connect(world.home / "state.db") as host:
        host.execute("CREATE TABLE sessions(id, source)")
        host.execute("CREATE TABLE messages(id, session_id, role, content)")
        host.execute("INSERT INTO messages VALUES (1, 's', 'user', 'hello')")
    code, text = call(world, "status"), shown_by(capsys)

    assert (code, "othing is stored" in text) == (OK, True), text


# -- a full disk -----------------------------------------------------------------------------------------
@pytest.fixture
def full(world: Home) -> Iterator[Home]:
    """No room for the side files that SQLite makes when it opens a database."""
    world.close()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        yield world
    finally:
        world.close()
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("search", "zebra"), "zebra deployment"),
        (("show", "msg_3"), "message 2 about"),
        (("sessions",), "s1"),
        (("explain", "sum_1"), "sum_1"),
        (("export", "-o", "-"), "message 2 about"),
        (("ledger",), "fact"),
    ],
    ids=lambda each: "" if isinstance(each, str) else each[0],
)
def test_what_is_stored_can_be_read_on_a_full_disk(
    words: tuple[str, ...], said: str, full: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a file that nobody changes."""
    code, text = call(full, *words), shown_by(capsys)

    assert (code, said in text) == (OK, True), text


def test_the_status_of_a_full_disk_ends_as_the_doctor_does(full: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """What looks for trouble by the code alone learns that nothing new is stored."""
    code, text = call(full, "status"), shown_by(capsys)

    assert (code, "nothing new is stored in the file" in text) == (FOUND, True), text
    code, text = call(full, "doctor"), shown_by(capsys)
    assert (code, "FAILED  database" in text, "nothing new is stored in the file" in text) == (FOUND, True, True), text


def test_a_verb_that_writes_says_that_the_disk_is_full(full: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """And what to do about it."""
    code, text = call(full, "backup"), shown_by(capsys)

    assert (code, "What to do:" in text, "Traceback" in text) == (FAILED, True, False), text


def test_every_check_of_the_doctor_works_on_a_full_disk(full: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Also those that read the whole file, and the index."""
    code, text = call(full, "doctor", "deep", "verbose"), shown_by(capsys)

    assert (code, "could not be checked" in text, "every message is readable" in text) == (FOUND, False, True), text


def test_what_only_an_unfolded_log_holds_is_read_on_a_full_disk(full: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """What was said last stands there, and the process that said it was killed."""
    killed = (
        "import os, sqlite3; at = sqlite3.connect({0!r}, isolation_level=None); "
        "at.execute('PRAGMA wal_autocheckpoint=0'); at.execute('PRAGMA journal_mode=WAL'); "
        "at.execute('UPDATE sessions SET platform = ?', ('of the log',)); os._exit(9)"
    )
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit[1], limit[1]))
    subprocess.run([sys.executable, "-c", killed.format(str(full.path))], check=False)
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    for shared in (True, False):
        if not shared:
            full.path.with_name("lcm.db-shm").unlink()
        code, text = call(full, "sessions"), shown_by(capsys)

        assert (code, "of the log" in text) == (OK, True), text
        full.close()
    assert full.path.with_name("lcm.db-wal").stat().st_size


def test_a_change_on_a_full_disk_is_refused_in_words(full: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """The file was opened for reading only."""
    assert call(full, "sessions") == OK
    code, text = call(full, "notices", "on"), shown_by(capsys)

    assert (code, "free disk space" in text) == (FAILED, True), text


def test_an_export_of_all_on_stdout_is_taken_in_again(
    world: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One behind the other in one file; each conversation comes back under its own name."""
    world.say("another one", session="s2")
    call(world, "export", "all", "-o", "-")
    file = tmp_path / "all.jsonl"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    other = empty(tmp_path / "other")
    assert call(other, "import", str(file), "--apply") == OK

    for session in ("s1", "s2"):
        call(world, "export", session, "-o", "-")
        before = capsys.readouterr().out
        call(other, "export", session, "-o", "-")
        texts = [[json.loads(line)["message"] for line in each.splitlines()[1:] if line.startswith('{"store_id"')]
                 for each in (before, capsys.readouterr().out)]  # fmt: skip
        assert texts[0] == texts[1] != []
    assert call(other, "import", str(file)) == OK
    assert "0 messages to add, 101 already here" in capsys.readouterr().out


def test_an_incomplete_part_of_an_export_of_all_is_refused(
    world: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error counts the messages of that part."""
    world.say("another one", session="s2")
    call(world, "export", "all", "-o", "-")
    file = tmp_path / "all.jsonl"
    file.write_text("\n".join(capsys.readouterr().out.splitlines()[:-1]), encoding="utf-8")

    assert call(world, "import", str(file)) == REFUSED
    assert "is not complete: 99 messages of 100" in capsys.readouterr().err


def test_help_takes_words_that_are_flags_elsewhere(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """`preset apply` is a verb with a flag in its name."""
    assert call(world, "help", "preset", "apply") == OK
    assert capsys.readouterr().out.startswith("hermes lcm preset apply <name>")


@pytest.mark.parametrize("typed", ["sessions --limit 1", "journal --limit 1", "status"])
def test_hints_can_be_typed_where_they_are_shown(typed: str, world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Also below what a verb quotes, and no advice to type a command of the terminal in a chat."""
    for session in ("s2", "s3"):
        world.say("another one", session=session)
        call(world, "pin", session)
    capsys.readouterr()
    call(world, *typed.split())
    said = capsys.readouterr().out

    assert "/lcm" not in said.replace("/lcm.db", "")
    assert "lcm status in the chat" not in said


def test_a_purge_that_would_remove_nothing_says_so(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Six lines of zeros and an offer to do it are no answer."""
    assert call(world, "purge", "--matching", "nothing like this") == OK
    assert capsys.readouterr().out == "Nothing to purge: nothing that is stored fits `matching nothing like this`.\n"


def test_a_redaction_that_would_change_nothing_says_so(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """And where there is something, the command can be pasted."""
    call(world, "redact")
    clean = capsys.readouterr().out
    world.say("the key is ghp_" + "a1B2" * 9, session="s2")
    call(world, "redact", "github_token,jwt")

    assert "Nothing to do: none of these was found." in clean
    assert "`hermes lcm redact github_token,jwt apply`" in capsys.readouterr().out


def test_an_option_without_its_value_is_refused_in_a_line(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """Not by the usage of all that there is."""
    with pytest.raises(SystemExit) as stopped:
        call(world, "sessions", "--limit")
    said = capsys.readouterr().err

    assert stopped.value.code == REFUSED
    assert said == "Not done: argument --limit: expected one argument; `hermes lcm help` lists what there is\n"


def test_an_option_without_its_value_is_refused_as_data(world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that asks for data reads refusals as data, too."""
    with pytest.raises(SystemExit):
        call(world, "sessions", "--limit", "--json")

    assert json.loads(capsys.readouterr().err)["kind"] == "BadRequest"


def test_an_export_into_a_folder_is_told_to_name_a_file(
    world: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk is not full, and the folder may be written."""
    assert call(world, "export", "s1", "-o", str(tmp_path)) == REFUSED
    assert f"name a file in it, such as {tmp_path / 's1.jsonl'}" in capsys.readouterr().err


def test_an_export_takes_the_place_of_no_device(
    world: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-o /dev/null`, typed as root: every program on the machine needs it."""
    device = tmp_path / "device"
    os.mkfifo(device)

    assert call(world, "export", "s1", "-o", str(device)) == REFUSED
    assert device.is_fifo()
    assert "`-o -` writes to stdout" in capsys.readouterr().err


def test_an_export_through_a_link_leaves_the_link(world: Home, tmp_path: Path) -> None:
    """`/dev/stdout` is one."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "talk.jsonl")

    assert call(world, "export", "s1", "-o", str(link)) == OK
    assert (link.is_symlink(), (tmp_path / "talk.jsonl").is_file()) == (True, True)


def test_an_export_through_a_link_to_itself_is_no_traceback(world: Home, tmp_path: Path) -> None:
    """There is nothing behind it."""
    link = tmp_path / "link"
    link.symlink_to(link)

    assert call(world, "export", "s1", "-o", str(link)) == OK
    assert link.is_file()


@pytest.mark.parametrize("words", [["fleet"], ["fleet", "nonsense"], ["help", "doctor", "nonsense"]])
def test_a_wrong_second_word_leads_to_the_help_of_the_first(
    words: list[str], world: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list of all verbs does not say what it takes."""
    assert call(world, *words) == REFUSED
    assert f"`hermes lcm help {words[-2] if len(words) > 1 else words[0]}` says more" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["purge", "redact", "restore", "adopt", "rotate"])
def test_help_says_that_apply_does_it(name: str, world: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """What it keeps comes beside that, not in its place."""
    call(world, "help", name)

    assert re.search(r"With `apply` it (does it|makes a backup, and then does it)", shown_by(capsys))
