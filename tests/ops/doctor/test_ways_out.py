"""What the doctor says of wrong paths, wrong settings and losses: what it is, and a way out that is another step."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.breaking import Faults, Host
from worlds.home import Home, healthy, newer
from worlds.process import chat

from hermes_lcm.command import answer
from hermes_lcm.config import load
from hermes_lcm.errors import StoreBusy, SummaryUnavailable
from hermes_lcm.llm.breaker import Breaker, SpendGuard
from hermes_lcm.llm.client import Reply
from hermes_lcm.llm.ladder import Ladder, LadderSettings
from hermes_lcm.ops import backup
from hermes_lcm.ops.doctor.checks import doctor
from hermes_lcm.ops.upkeep import SAMPLE_S
from hermes_lcm.plugin import hooks
from hermes_lcm.records import SourceLine, SummaryTask
from hermes_lcm.runtime import Process, Runtime
from hermes_lcm.storage import files
from hermes_lcm.text import blobs
from hermes_lcm.text.tokens import count


def finding(said: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in said["checks"] if each["check"] == name)


def at(path: Path, home: Path) -> Home:
    """A home whose database is somewhere else."""
    world = Home(home)
    world.path = path
    world.runtime = Runtime(path, world.config, Process())
    return world


# -- the disk ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("words", ["doctor", "doctor deep", "status", "backup", "doctor repair"])
def test_a_faulty_disk_leads_to_the_log_of_the_system(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor named itself as the way out of input/output errors, and so did every other verb."""
    healthy(tmp_path).close()
    faults = Faults().install(monkeypatch)
    faults.arm(3, sqlite3.SQLITE_IOERR, lasting=True)
    said = answer(words, Home(tmp_path).deps(None, trusted=True)).text

    assert faults.disarm()
    assert "faults of the disk in the system's log" in said, said
    assert "run `hermes lcm doctor`" not in said, said


# -- the path ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("what", ["device", "folder", "text"])
def test_a_wrong_path_is_called_one(what: str, tmp_path: Path) -> None:
    """LCM_DATABASE_PATH is named, and nobody is told to change the rights of what is not ours."""
    path = {"device": Path("/dev/null"), "folder": tmp_path / "folder", "text": tmp_path / "notes.txt"}[what]
    if what == "folder":
        path.mkdir(mode=0o755)
    if what == "text":
        path.write_text("shopping list\n" * 100)
        path.chmod(0o644)
    said = doctor(at(path, tmp_path / "home").deps(None))
    found = finding(said, "database")

    assert found["status"] == "fail"
    assert "LCM_DATABASE_PATH" in found["detail"] + found["remedy"]
    assert "chmod" not in json.dumps(said) or what == "text"


def test_an_empty_file_becomes_private_when_it_becomes_a_database(tmp_path: Path) -> None:
    """Whoever made it with other rights."""
    world = Home(tmp_path)
    world.path.touch(mode=0o644)
    world.path.chmod(0o644)
    world.say("hello", "there")

    assert world.path.stat().st_mode & 0o777 == 0o600


# -- a file in which nothing can be read --------------------------------------------------------------------
NOTHING: dict[str, Callable[[Path], object]] = {
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "another file": lambda path: path.write_text("shopping list\n" * 300, encoding="utf-8"),
    "its first bytes alone": lambda path: os.truncate(path, 100),
    "nothing": lambda path: os.truncate(path, 0),
    "no file": Path.unlink,
}


@pytest.mark.parametrize("words", ["status", "search zebra", "export s1", "backup"])
def test_no_verb_names_a_repair_where_no_message_can_be_read(words: str, tmp_path: Path) -> None:
    """The backup is named instead, as the doctor does."""
    world = healthy(tmp_path)
    best = backup.back_up(world.deps()).path.name
    world.close()
    NOTHING["another file"](world.path)
    said = answer(words, at(world.path, tmp_path).deps(None)).text

    assert f"`/lcm restore {best}`" in said, said
    assert "doctor repair" not in said, said


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NOTHING)
def test_where_nothing_can_be_saved_the_doctor_names_the_backup_and_it_helps(name: str, tmp_path: Path) -> None:
    """No repair is named, since there is nothing that it could save."""
    world = healthy(tmp_path)
    answer("backup", world.deps())
    world.close()
    NOTHING[name](world.path)
    found = finding(doctor(Home(tmp_path).deps(None)), "database")
    answer(found["command"].removeprefix("/lcm "), Home(tmp_path).deps(None, trusted=True))

    assert "doctor repair" not in found["remedy"] + found["command"], found
    assert answer("doctor deep", Home(tmp_path).deps(None)).code == 0


@pytest.mark.parametrize("name", ["zeros", "another file", "its first bytes alone"])
def test_without_a_backup_a_file_that_says_nothing_is_moved_away(name: str, tmp_path: Path) -> None:
    """The next message begins a new archive, as the doctor says."""
    world = healthy(tmp_path)
    world.close()
    NOTHING[name](world.path)
    found = finding(doctor(Home(tmp_path).deps(None)), "database")
    world.path.rename(tmp_path / "away.db")
    again = Home(tmp_path)
    again.say("hello", "there")

    assert f"move {world.path} away" in found["remedy"], found
    assert (found.get("command", ""), "doctor repair" in found["remedy"]) == ("", False), found
    assert answer("doctor deep", again.deps()).code == 0


def test_a_terminal_names_the_stand_in_of_another_process(tmp_path: Path) -> None:
    """Nothing is said to be lost that is stored there."""
    world = newer(tmp_path)
    before = answer("doctor", world.deps(None)).text
    (tmp_path / "lcm.standby-20240105-120000-1-7.db").touch()
    status, report = (answer(words, world.deps(None)).text for words in ("status", "doctor"))

    assert "new messages are kept in a file beside it until then" in before
    assert "new messages were stored in lcm.standby-20240105-120000-1-7.db" in status
    assert "new messages are kept in lcm.standby-20240105-120000-1-7.db until then" in report


def test_a_repair_of_an_empty_file_makes_and_removes_nothing(tmp_path: Path) -> None:
    """What the messages that were in it show is still there for a restore."""
    world = healthy(tmp_path)
    ref = world.runtime.payloads.keep("a picture " * 100, blobs.TEXT, "text/plain")
    assert ref is not None
    kept = world.runtime.payloads.path(ref.sha)
    os.utime(kept, (1, 1))
    world.close()
    os.truncate(world.path, 0)
    for side in ("-wal", "-shm"):
        world.path.with_name(world.path.name + side).unlink(missing_ok=True)
    said = answer("doctor repair apply", Home(tmp_path).deps(None)).text

    assert (world.path.stat().st_size, kept.exists()) == (0, True), said


# -- settings ----------------------------------------------------------------------------------------------
USELESS: dict[str, tuple[dict[str, str], str, str]] = {
    "everything kept out": ({"ignore_session_patterns": "**"}, "fail", "keeps out every session"),
    "every platform": ({"ignore_session_patterns": "cli,telegram,cron,api"}, "fail", "keeps out every session"),
    "every platform in two settings": (
        {"ignore_session_patterns": "cli,telegram", "stateless_session_patterns": "cron,api"},
        "fail",
        "LCM_STATELESS_SESSION_PATTERNS (env) keep out every session",
    ),
    "every message kept out": (
        {"ignore_message_patterns": "."},
        "fail",
        "LCM_IGNORE_MESSAGE_PATTERNS (env) keeps out every message",
    ),
    "a threshold above the window": ({"context_threshold": "300000"}, "warn", "not below the window"),
    "a threshold of the whole window": ({"context_threshold": "100%"}, "warn", "not below the window"),
    "a metrics file that cannot be": ({"metrics_path": "/nonexistent/x/y"}, "warn", "LCM_METRICS_PATH (env)"),
    "shares above the low water": ({"low_water": "0.2"}, "warn", "below LCM_TAIL_SHARE + LCM_PREFIX_SHARE=0.28"),
    "a bracket in a glob": ({"ignore_session_patterns": "["}, "warn", "expected a comma-separated list of globs"),
    "a relative path": ({"database_path": "relative.db"}, "warn", "expected an absolute path"),
}


def test_a_pattern_that_keeps_out_some_messages_is_fine(tmp_path: Path) -> None:
    """Also one that matches most of what tools say."""
    world = Home(tmp_path, ignore_message_patterns=r"^\{,[a-z]")
    found = finding(doctor(world.deps(None)), "settings")

    assert found["status"] == "pass", found["detail"]


@pytest.mark.parametrize("name", USELESS)
def test_a_setting_that_makes_the_plugin_useless_is_named(name: str, tmp_path: Path) -> None:
    """With its value, where it comes from, and what is used instead."""
    given, status, words = USELESS[name]
    world = Home(tmp_path, **given)
    found = finding(doctor(world.deps(None)), "settings")

    assert (found["status"], words in found["detail"]) == (status, True), found["detail"]
    assert "env" in found["detail"]


def test_the_threshold_in_force_is_judged_not_one_that_a_rule_replaces(tmp_path: Path) -> None:
    """A rule of ``lcm.overrides`` for the model in use wins over the setting."""
    world = Home(tmp_path, context_threshold="300000")
    rule = 'lcm.overrides "gpt*"'
    below = finding(doctor(world.deps(None, threshold_tokens=50_000, threshold_source=rule)), "settings")
    above = finding(
        doctor(world.deps(None, context_length=50_000, threshold_tokens=50_000, threshold_source=rule)), "settings"
    )

    assert below["status"] == "pass", below["detail"]
    assert f"LCM_CONTEXT_THRESHOLD ({rule}) is not below the window of 50,000 tokens" in above["detail"]


def test_compression_that_is_off_is_a_failure(tmp_path: Path) -> None:
    """It is the host's switch for compaction of any kind."""
    found = finding(doctor(Home(tmp_path).deps(None, compression_enabled=False)), "settings")

    assert (found["status"], "nothing is ever compacted" in found["detail"]) == ("fail", True)


def test_a_block_of_another_name_is_named(tmp_path: Path) -> None:
    """Nothing in it is read."""
    found = finding(doctor(Home(tmp_path).deps(None, misspelt_block="hermes-lcm")), "settings")

    assert (found["status"], "hermes-lcm: in config.yaml is not read" in found["detail"]) == ("warn", True)


@pytest.mark.parametrize("key", ["fresh_tial_count", '"fresh_tial_count"'], ids=["bare", "quoted"])
def test_a_refused_setting_of_the_file_has_its_line(key: str, tmp_path: Path) -> None:
    """File and line, and the nearest right name."""
    (tmp_path / "config.yaml").write_text(f"model: x\nlcm:\n  {key}: 3\n")
    world = Home(tmp_path)
    world.runtime.config = load({}, {"fresh_tial_count": 3})
    found = finding(doctor(world.deps(None)), "settings")

    assert "did you mean lcm.fresh_tail_count?" in found["detail"]
    assert f"({tmp_path / 'config.yaml'}:3)" in found["detail"]


@pytest.mark.parametrize("key", ["tail_share", "prefix_share", "dynamic_leaf_chunk_max"])
def test_settings_that_are_impossible_together_have_the_line_of_the_one_that_was_set(key: str, tmp_path: Path) -> None:
    """The other one is a default, and the environment sets neither."""
    value = {"dynamic_leaf_chunk_max": 100}.get(key, 0.98)
    (tmp_path / "config.yaml").write_text(f"model: x\nlcm:\n  {key}: {value}\n")
    world = Home(tmp_path)
    world.runtime.config = load({}, {key: value})
    said = finding(doctor(world.deps(None)), "settings")["detail"]

    assert f"({tmp_path / 'config.yaml'}:3)" in said
    assert "environment" not in said


def test_a_metrics_file_that_is_a_device_is_told(tmp_path: Path) -> None:
    """It is not written, so that it stays a device."""
    os.mkfifo(tmp_path / "device")
    world = Home(tmp_path / "home", metrics_path=str(tmp_path / "device"))
    found = finding(doctor(world.deps(None)), "settings")

    assert (found["status"], "device is no regular file" in found["detail"]) == ("warn", True)


def test_a_block_that_is_none_is_refused() -> None:
    """`lcm: hello` sets nothing."""
    assert "a block of settings" in str(load({}, "hello").problems[0])


def test_extracts_that_were_chosen_are_no_warning(tmp_path: Path) -> None:
    """LCM_SUMMARY_MODEL=extractive is a choice."""
    world = healthy(tmp_path)
    world.node(*range(20, 30), quality="provisional")
    world.raw("UPDATE nodes SET rung = 'extractive' WHERE quality = 'provisional'")

    assert finding(doctor(world.deps()), "provisional_nodes")["status"] == "pass"


def test_summaries_from_before_that_choice_are_no_warning(tmp_path: Path) -> None:
    """No model will be asked for them any more."""
    world = healthy(tmp_path)
    world.node(*range(20, 30), quality="provisional")
    chosen = replace(world.deps(), config=load({"LCM_SUMMARY_MODEL": "extractive"}))

    assert finding(doctor(world.deps()), "provisional_nodes")["status"] == "warn"
    assert finding(doctor(chosen), "provisional_nodes")["status"] == "pass"


def unwritten(deadline: float) -> str:
    """What is kept of how an extract came about, of a model that never answers."""

    class Silent:
        def complete(self, *_: Any, **__: Any) -> Reply:
            raise SummaryUnavailable("no answer")

    def clock() -> float:
        return 0.0

    guards = Breaker(threshold=2, cooldown_s=300, clock=clock), SpendGuard(max_calls=0, window_s=60, clock=clock)
    ladder = Ladder(Silent(), LadderSettings(), *guards, clock, count=count)
    words = "what was said of it, in as many words as are worth a summary " * 40
    task = SummaryTask(0, (SourceLine("msg_1", "user", words, 1.0, "", 600),), 600, 120)
    return ladder.summarise(task, deadline=deadline).checks


def test_a_little_that_no_model_was_asked_about_is_no_warning(tmp_path: Path) -> None:
    """It is summarised with what follows; much of it the worker owes, and what was refused is told."""
    world = healthy(tmp_path)
    world.node(20, 21, quality="provisional")
    states = []
    for deadline, size in ((-1.0, 100), (-1.0, 9000), (1e9, 100)):
        checks = unwritten(deadline)
        world.raw("UPDATE nodes SET checks = ?, source_tokens = ? WHERE quality = 'provisional'", checks, size)
        states.append(finding(doctor(world.deps()), "provisional_nodes")["status"])

    assert states == ["pass", "warn", "warn"]


def test_an_extract_whose_messages_a_longer_summary_covers_is_no_warning(tmp_path: Path) -> None:
    """It was replaced, though not by a summary of the same messages."""
    world = healthy(tmp_path)
    world.node(20, 21, quality="provisional")
    before = finding(doctor(world.deps()), "provisional_nodes")["status"]
    world.node(*range(20, 25))

    assert (before, finding(doctor(world.deps()), "provisional_nodes")["status"]) == ("warn", "pass")


# -- losses ------------------------------------------------------------------------------------------------
LOSSES: dict[str, Callable[[Home], None]] = {
    "rows": lambda world: world.raw("DELETE FROM messages WHERE store_id IN (50, 60)"),
    "a session": lambda world: world.raw("DELETE FROM sessions"),
    "changed words": lambda world: world.raw("UPDATE messages SET role = 'tool' WHERE store_id = 50"),
    "edges": lambda world: world.raw("DELETE FROM node_sources"),
    "what an older release wrote": lambda world: world.raw("INSERT INTO meta VALUES ('hold:s', '{}')"),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_can_be_accepted_and_is_healthy_then(name: str, tmp_path: Path) -> None:
    """Noted with its date; a further loss fails again, and a backup is sound after it."""
    world = healthy(tmp_path)
    world.close()
    LOSSES[name](world)
    before = doctor(world.deps(), deep=True)
    dry = answer("doctor accept", world.deps())
    assert doctor(world.deps(), deep=True)["overall"] == "unhealthy"
    done = answer("doctor accept apply", world.deps())
    after = doctor(world.deps(), deep=True)
    made = answer("backup", world.deps())
    world.close()
    world.raw("DELETE FROM messages WHERE store_id = 70")

    assert (before["overall"], dry.code, done.code, after["counts"]["fail"]) == ("unhealthy", 1, 0, 0)
    assert (made.code, made.data["sound"]) == (0, True)
    assert doctor(world.deps(), deep=True)["overall"] == "unhealthy"


def test_an_acceptance_that_was_stopped_in_between_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss was noted, the seals were not made anew, and every backup was marked from then on."""
    world = healthy(tmp_path)
    world.close()
    LOSSES["rows"](world)
    with monkeypatch.context() as patch:
        patch.setattr(files, "reseal", lambda _: (_ for _ in ()).throw(StoreBusy("somebody has it open")))
        stopped = answer("doctor accept apply", world.deps())
    again = answer("doctor accept apply", world.deps())
    made = answer("backup", world.deps())
    world.close()

    assert (stopped.code, again.code) == (3, 0), again.text
    assert made.data["sound"]


@pytest.mark.parametrize("how", ["gone", "empty"])
def test_a_payload_file_that_is_lost_for_good_can_be_accepted(how: str, tmp_path: Path) -> None:
    """Also what its readers met; a further file that is lost fails again."""
    world = Home(
        tmp_path / "home",
        large_output_externalization_enabled="true",
        large_output_externalization_threshold_chars="2000",
    )
    said = chat().calls("a", "b").results("a", text="one " * 2000).results("b", text="two " * 3000)
    world.runtime.announce("s1")
    world.runtime.ingest_list("s1", said, source="cli")
    first, second = sorted(world.runtime.payloads.folder.rglob("*.z"))
    first.unlink() if how == "gone" else first.write_bytes(b"")
    answer("export s1", world.deps(trusted=True))
    before = answer("doctor deep", world.deps(trusted=True))
    done = answer("doctor accept apply", world.deps(trusted=True))
    after = [answer(words, world.deps(trusted=True)) for words in ("doctor", "doctor deep")]
    second.unlink()

    assert "problems: payload file_" in before.text
    assert (before.code, done.code) == (1, 0), done.text
    assert [each.code for each in after] == [0, 0], after[0].text
    assert answer("doctor", world.deps(trusted=True)).code == 1


def test_silent_damage_is_found_by_the_worker(tmp_path: Path) -> None:
    """Bit by bit, without anybody asking; and told until it is over."""
    world = healthy(tmp_path)
    world.say("another", "conversation", session="s2")
    world.close()
    world.raw("UPDATE nodes SET text = 'nothing of the kind'")
    upkeep = world.runtime.upkeep
    now = [0.0]
    upkeep._monotonic = lambda: now[0]  # the worker's clock
    for _ in range(5):
        now[0] += SAMPLE_S
        upkeep.between_turns()

    assert [each.topic for each in world.runtime.health.problems()] == ["silent damage 1"]


def test_a_session_that_is_over_leaves_nothing_in_memory(hermes_home: Path) -> None:
    """A gateway with a job every five minutes makes a hundred thousand a year."""
    host = Host(hermes_home)
    runtime = host.runtime

    def job(n: int) -> int:
        session = f"cron-{n}"
        runtime.announce(session, platform="cron")
        hooks.pre_api_request(session_id=session, conversation_history=chat().turns(1, first=n), platform="cron")
        hooks.on_session_finalize(session_id=session)
        return (
            len(runtime._sessions)
            + len(runtime._pending)
            + len(runtime.ingest._locks)
            + len(runtime.ingest._seen_lists)
        )

    sizes = [job(n) for n in range(6)]
    host.close()

    assert sizes[-1] == sizes[1]


def test_nothing_takes_the_place_of_a_device(tmp_path: Path) -> None:
    """As root a restore could replace it."""
    sound = healthy(tmp_path / "sound")
    made = answer("backup", sound.deps()).data["path"]
    device = tmp_path / "device"
    os.mkfifo(device)
    said = answer(f"restore {made} apply", at(device, tmp_path / "home").deps(None, trusted=True))

    assert (said.code, "not a regular file" in said.text, device.is_fifo()) == (3, True, True), said.text
