"""What lcm_doctor finds, and that looking changes nothing."""

from __future__ import annotations

import ast
import base64
import contextvars
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worlds import linear
from worlds.home import (
    LOCKS_OUT,
    ROOT,
    WRITES,
    Holder,
    Home,
    corrupt,
    digest,
    empty,
    foreign,
    healthy,
    make_read_only,
    newer,
    no_database,
    readable_home,
    unprivileged,
    wrecked,
)

from hermes_lcm.command import answer, parsed
from hermes_lcm.compaction.background import _Job
from hermes_lcm.config import load
from hermes_lcm.host import facts
from hermes_lcm.ops import backup, explain, redaction
from hermes_lcm.ops.doctor.checks import CHECKS, doctor
from hermes_lcm.ops.doctor.content import inline_payloads
from hermes_lcm.ops.status import status
from hermes_lcm.plugin import hooks
from hermes_lcm.records import Flag
from hermes_lcm.storage import connection

pytestmark = pytest.mark.usefixtures("short_waits")


def finding(said: dict[str, Any], check: str) -> dict[str, Any]:
    """What one check said."""
    found: dict[str, Any] = next(each for each in said["checks"] if each["check"] == check)
    return found


def bad(said: dict[str, Any]) -> dict[str, str]:
    """Checks that did not pass."""
    return {each["check"]: each["status"] for each in said["checks"] if each["status"] != "pass"}


# -- the whole -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("deep", [False, True], ids=["cheap", "deep"])
def test_a_healthy_database_passes_every_check(deep: bool, world: Home) -> None:
    """No warning that an operator learns to ignore."""
    said = doctor(world.deps(), deep=deep)

    assert bad(said) == {}
    assert said["overall"] == "healthy"
    assert [each["check"] for each in said["checks"]] == [check.name for check in CHECKS]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.name))
def test_every_check_says_what_it_asks(check: Any) -> None:
    """A check without a question is a check nobody understands."""
    assert check.run.__doc__.rstrip().endswith(("?", "?.", "which.", "does."))


@pytest.mark.parametrize("deep", [False, True], ids=["cheap", "deep"])
def test_looking_changes_no_file(deep: bool, world: Home) -> None:
    """Proven by hash of the database and its log."""
    doctor(world.deps(), deep=deep)
    files = (world.path, Path(f"{world.path}-wal"))
    before = digest(*files)
    doctor(world.deps(), deep=deep)

    assert digest(*files) == before


def test_no_check_runs_at_start_or_in_a_turn(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """FirstMessage, storing, summarising and indexing ask SQLite for no check of the file; deep ones run when asked."""
    said: list[str] = []
    connected = sqlite3.connect

    def traced(*args: Any, **keys: Any) -> sqlite3.Connection:
        connection = connected(*args, **keys)
        connection.set_trace_callback(said.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    again = world.restart()
    again.say("message 0", "something new", session="s2")
    again.node(101, 102)
    again.runtime.index.rebuild(again.runtime.store.index_rows())
    again.runtime.save_states()
    quiet = [each for each in said if CHECKING.search(each)]
    doctor(again.deps(), deep=True)

    assert quiet == []
    assert {found[0].lower() for each in said for found in [CHECKING.search(each)] if found} >= {
        "quick_check",
        "integrity-check",
    }


CHECKING = re.compile("quick_check|integrity_check|integrity-check", re.IGNORECASE)


def test_looking_creates_no_file(tmp_path: Path) -> None:
    """An empty home stays empty."""
    doctor(Home(tmp_path).idle(), deep=True)

    assert list(tmp_path.iterdir()) == []


def test_no_text_of_a_message_is_shown(world: Home) -> None:
    """Reports are pasted into issues."""
    assert "zebra" not in json.dumps(doctor(world.deps(), deep=True))


def test_every_finding_says_what_to_do(tmp_path: Path) -> None:
    """Meaning and remedy stand beside everything that is not well."""
    world = Home(tmp_path, leaf_chunk_tokens="lots", ignore_message_patterns="x", summary_spend_max_calls="1")
    world.say("a", "b", "c", "d")
    world.node(1, 2, quality="provisional")
    world.raw("UPDATE messages SET source = ' '")
    world.raw("DELETE FROM messages WHERE store_id = 3")
    world.runtime.health.degraded("ingest", "it failed")
    world.runtime.health.degraded("background worker", "it failed as well", severity="warning")
    said = doctor(
        world.deps(
            context_length=0, fallback_context=True, last_prompt_tokens=127_000, breaker={"m": {"retry_at": world.now + 60}},
            spend={"buckets": {"1": [5, 5]}}, host_version="0.12.1",
            cache={"requests": 20, "prompt_tokens": 100_000, "cache_read_tokens": 1_000},
        )
    )  # fmt: skip

    assert len(bad(said)) >= 10
    assert [
        each["check"]
        for each in said["checks"]
        if each["status"] != "pass" and not (each.get("meaning") and each["remedy"])
    ] == []


def commands() -> Iterator[str]:
    """Every command that a check of the doctor, a problem or an error of the store may name."""
    for path in sorted((ROOT / "ops" / "doctor").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            values = [each.value for each in getattr(node, "keywords", ()) if each.arg == "command"]
            if isinstance(node, ast.Dict):
                values += [
                    value for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant) and key.value == "command"
                ]  # fmt: skip
            for value in values:
                parts = value.values if isinstance(value, ast.JoinedStr) else [value]
                if all(isinstance(part, ast.Constant | ast.FormattedValue) for part in parts):
                    yield "".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in parts)


@pytest.mark.parametrize(
    "command", sorted({each for each in commands() if each}), ids=lambda each: each.replace(" ", "-")
)
def test_every_command_that_is_named_exists(command: str) -> None:
    """Somebody will paste it: a verb of ours, a setting that is accepted, or a program that is there."""
    program, _, rest = command.partition(" ")
    if program == "/lcm":
        assert parsed(rest)
    elif program == "export":
        settings = dict(each.split("=", 1) for each in rest.split())
        assert load(settings).problems == ()
    elif program == "hermes":
        assert rest.split()[0] in ("config", "update")
        done = subprocess.run(
            [Path(sys.executable).with_name("hermes"), *rest.split()[:2], "--help"], capture_output=True, check=False
        )
        assert done.returncode == 0
    else:
        assert program in ("chmod", "pip", "/compress")


# -- states of the file --------------------------------------------------------------------------------
def test_an_empty_home_is_no_problem(tmp_path: Path) -> None:
    """Nothing stored yet is not a failure."""
    said = doctor(empty(tmp_path).deps())

    assert finding(said, "database")["detail"].endswith("nothing stored yet (no file)")
    assert "database" not in bad(said)


@pytest.mark.parametrize(
    ("state", "words", "command"),
    [
        (wrecked, "no message can be read in it", None),
        (no_database, "no message can be read in it", None),
        (newer, "update the plugin", None),
        (foreign, "another program", None),
    ],
    ids=["wrecked", "no-database", "newer", "foreign"],
)
def test_a_refused_file_is_explained(
    state: Callable[[Path], Home], words: str, command: str | None, tmp_path: Path
) -> None:
    """What is wrong and what to do, and the rest of the report as usual."""
    world = state(tmp_path)
    before = digest(world.path)
    said = doctor(world.deps())
    failed = [each for each in said["checks"] if each["status"] == "fail"]

    assert said["overall"] == "unhealthy"
    assert any(words in each["detail"] for each in failed)
    assert all(each["remedy"].count("restore a backup") < 2 for each in failed)
    assert command is None or any(each.get("command") == command for each in failed)
    assert digest(world.path) == before


def test_the_long_checks_of_a_deep_look_say_how_far_they_are(tmp_path: Path) -> None:
    """Page by page, message by message and row by row, up to the last, not only check by check."""
    steps: dict[str, list[tuple[int, int]]] = {}
    doctor(
        healthy(tmp_path).deps(),
        deep=True,
        progress=lambda what, done, total: steps.setdefault(what, []).append((done, total)),
    )

    for what in ("checking the file", "reading messages", "comparing with seals"):
        done, total = steps[what][-1]
        assert done == total > 0, (what, steps[what])


def test_a_check_of_the_file_that_is_stopped_leaves_nothing_running(tmp_path: Path) -> None:
    """Ctrl-C does not wait until SQLite is through, and no thread reads on."""
    world = healthy(tmp_path)
    before = threading.active_count()

    def stop(what: str, *_: int) -> None:
        if what == "checking the file":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        doctor(world.deps(), deep=True, progress=stop)

    assert threading.active_count() == before


def test_a_small_file_is_checked_by_sqlite_each_time(tmp_path: Path) -> None:
    """quick_check takes milliseconds there; it changes nothing."""
    said = finding(doctor(corrupt(tmp_path).deps()), "integrity")

    assert (said["status"], said["command"]) == ("fail", "/lcm doctor repair")


def test_a_deep_check_finds_damage_that_nobody_has_read_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cheap one reads the newest messages of a large file only."""
    monkeypatch.setattr("hermes_lcm.ops.doctor.file.QUICK_BYTES", 1000)
    monkeypatch.setattr("hermes_lcm.ops.survey._NEWEST_OF_MANY", 1)
    world = corrupt(tmp_path)

    assert "integrity" not in bad(doctor(world.deps()))
    assert finding(doctor(world.deps(), deep=True), "integrity")["command"] == "/lcm doctor repair"


@pytest.mark.parametrize("quick_bytes", [64_000_000, 1000], ids=["small", "large"])
def test_the_doctor_finds_what_the_status_calls_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_bytes: int
) -> None:
    """Garbage that SQLite takes for a row, behind a newest message that can be read."""
    for module in ("file", "repair"):
        monkeypatch.setattr(f"hermes_lcm.ops.doctor.{module}.QUICK_BYTES", quick_bytes)
    world = healthy(tmp_path)
    world.raw("UPDATE messages SET envelope = x'01ff' WHERE store_id = 30")

    assert "1 message cannot be read, the first is msg_30" in answer("status", world.deps()).text
    assert finding(doctor(world.deps()), "integrity")["status"] == "fail"


@pytest.mark.parametrize(
    "removed",
    [
        "DELETE FROM messages WHERE store_id > 50; DELETE FROM node_sources WHERE store_id > 50",
        "DELETE FROM nodes; DELETE FROM node_sources; DELETE FROM assemblies; DELETE FROM carried",
        "DELETE FROM messages; DELETE FROM node_sources; DELETE FROM nodes; DELETE FROM assemblies",
    ],
    ids=["newest", "summaries", "all"],
)
def test_rows_that_another_program_removed_without_a_trace_are_missed(tmp_path: Path, removed: str) -> None:
    """No gap is left and nothing points to them, but they were counted when they were written."""
    world = healthy(tmp_path)
    for statement in removed.split("; "):
        world.raw(statement)
    said = finding(doctor(world.deps()), "seals")

    assert said["status"] == "fail"
    assert "fewer than were written" in said["detail"]


def test_a_writer_elsewhere_does_not_matter(world: Home, held: list[Holder]) -> None:
    """Reading goes on while another process writes."""
    held.append(Holder(world.path, *WRITES))

    assert bad(doctor(world.deps())) == {}


def test_a_locked_database_is_explained(tmp_path: Path, held: list[Holder], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for once, not by every check."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 500)
    world = healthy(tmp_path)
    world.close()
    held.append(Holder(world.path, *LOCKS_OUT))
    began = time.monotonic()
    said = doctor(world.deps())
    waits = (time.monotonic() - began) / 0.5

    assert "locked" in finding(said, "database")["detail"]
    assert waits < len(CHECKS) / 2


def test_a_read_only_home_is_explained() -> None:
    """An account that may look and not write."""
    home = readable_home()
    healthy(home).close()
    make_read_only(home)
    said = unprivileged(lambda: doctor(Home(home).idle()))

    assert said["overall"] == "unhealthy"
    assert "readonly" in finding(said, "database")["detail"]
    assert "writable" in finding(said, "database")["remedy"]


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of another account")
def test_a_database_that_can_only_be_read_is_not_well() -> None:
    """While its owner has it open, SQLite lets another account read it, and refuse it only to write."""
    home = readable_home()
    owner = healthy(home)
    try:
        for path in home.glob("lcm.db*"):
            path.chmod(0o644)
        said = unprivileged(lambda: doctor(Home(home).idle()))
    finally:
        owner.close()
        shutil.rmtree(home)

    found = finding(said, "database")
    assert (found["status"], found["detail"]) == ("warn", f"this account may not write {home / 'lcm.db'} nor {home}")


@pytest.mark.skipif(os.geteuid() != 0, reason="a folder of another account")
def test_a_folder_that_may_not_be_looked_into_is_named_and_not_counted_as_empty() -> None:
    """By the doctor and the status: without a size, nobody is told that there is nothing."""
    home = readable_home()
    try:
        healthy(home).close()
        (home / "lcm.db").chmod(0o666)
        home.chmod(0o777)
        (home / "lcm-exports").mkdir(mode=0o700)
        said, told = unprivileged(
            lambda: [each(Home(home).idle()) for each in (doctor, lambda of: answer("status", of).text)]
        )
    finally:
        shutil.rmtree(home)

    found = finding(said, "sizes")
    assert (found["status"], str(home / "lcm-exports") in found["detail"]) == ("warn", True)
    assert "may read" in found["remedy"]
    assert f"exports not known ({home / 'lcm-exports'}: Permission denied)" in told


# -- single checks -------------------------------------------------------------------------------------
def test_a_file_that_others_can_read_is_reported(world: Home) -> None:
    """With the command that closes it."""
    world.path.chmod(0o644)

    assert finding(doctor(world.deps()), "file_modes")["command"] == f"chmod 600 '{world.path}'"


def test_no_account_is_told_to_change_the_rights_of_anothers_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner would lock it out."""
    world = healthy(tmp_path)
    world.path.chmod(0o644)
    monkeypatch.setattr(os, "geteuid", lambda: world.path.stat().st_uid + 1)
    found = finding(doctor(world.deps()), "file_modes")

    assert (found["status"], found.get("command", "")) == ("warn", "")
    assert "ask the account that owns" in found["remedy"]


@pytest.mark.parametrize("make", [foreign, no_database])
def test_nobody_is_told_to_change_the_rights_of_what_is_not_ours(make: Any, tmp_path: Path) -> None:
    """A setting that leads astray is no reason to touch another program's file."""
    world = make(tmp_path)
    world.path.chmod(0o644)

    assert finding(doctor(world.deps()), "file_modes")["status"] == "pass"


def test_a_missing_table_is_reported(world: Home) -> None:
    """Somebody dropped it."""
    world.raw("DROP TABLE carried")

    assert finding(doctor(world.deps()), "schema")["data"]["missing"] == ["carried"]


def test_checks_that_a_missing_table_stops_name_its_repair(world: Home) -> None:
    """Not the doctor, which has just run."""
    world.raw("DROP TABLE node_sources")
    said = doctor(world.deps())

    assert [finding(said, name)["command"] for name in ("links", "coverage")] == ["/lcm doctor repair"] * 2


def test_messages_missing_from_the_index_are_reported(world: Home) -> None:
    """And how to build it anew."""
    world.raw("INSERT INTO message_index(message_index) VALUES ('delete-all')")

    assert finding(doctor(world.deps()), "search_index")["command"] == "/lcm doctor repair apply"


def test_removed_rows_leave_a_gap(world: Home) -> None:
    """The sequence of a conversation has no holes by itself."""
    world.raw("DELETE FROM messages WHERE store_id IN (40, 41)")

    assert finding(doctor(world.deps()), "ingest_gaps")["data"]["conversations"] == [
        {"conversation_id": 1, "missing": 2}
    ]


def test_what_is_lost_here_and_stands_in_a_backup_is_not_to_be_accepted(world: Home) -> None:
    """The command of the finding looks at that backup; without one nothing but accepting the loss is left."""
    answer("backup", world.deps())
    (copy,) = backup.backups(world.deps())
    world.raw("DELETE FROM messages WHERE store_id = 40")
    kept = [finding(doctor(world.deps()), name)["command"] for name in ("seals", "ingest_gaps")]
    copy.path.unlink()
    gone = [finding(doctor(world.deps()), name)["command"] for name in ("seals", "ingest_gaps")]

    assert kept == [f"/lcm restore {copy.path.name}"] * 2
    assert gone == ["/lcm doctor accept"] * 2


def test_messages_whose_session_is_gone_are_reported(world: Home) -> None:
    """Another program removed the row; no message is unreadable for it."""
    world.raw("DELETE FROM sessions")
    said = doctor(world.deps(None))

    found = finding(said, "links")
    assert found["data"]["messages_without_a_session"] == 100
    assert (
        found["command"] == "/lcm doctor accept"
    )  # `doctor repair` finds nothing wrong with a file that SQLite can read
    assert len(world.runtime.store.rows(range(1, 101))) == 100


def test_unaligned_messages_are_counted_by_session(world: Home) -> None:
    """Kept, but their place could not be proven."""
    world.runtime.store.flag([7, 8], add=Flag.UNALIGNED)

    assert finding(doctor(world.deps()), "unaligned")["data"]["sessions"] == [{"session_id": "s1", "messages": 2}]


def test_a_message_that_no_node_covers_is_reported(world: Home) -> None:
    """P4: it is neither raw nor summarised."""
    leaf = world.node(1, 2, 3)
    world.assembly([leaf], list(range(6, 101)), 100)

    assert finding(doctor(world.deps()), "coverage")["data"]["missing"] == [4, 5]


def test_a_message_under_two_nodes_is_reported(world: Home) -> None:
    """P4: exactly one."""
    world.assembly([world.node(1, 2, 3), world.node(3, 4, 5)], list(range(6, 101)), 100)

    assert finding(doctor(world.deps()), "coverage")["data"]["twice"] == [3]


def test_what_was_taken_back_need_not_be_covered(world: Home) -> None:
    """/undo removes a message from the thread."""
    world.runtime.store.flag([1], add=Flag.RETRACTED)
    world.assembly([], list(range(2, 101)), 100)

    assert "coverage" not in bad(doctor(world.deps()))


def test_a_large_conversation_is_measured_by_deep_checks_only(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the answer says that it was not."""
    monkeypatch.setattr("hermes_lcm.ops.doctor.prompt._COVERAGE_ROWS", 50)

    assert finding(doctor(world.deps()), "coverage")["data"] == {"measured": False}


def test_provisional_nodes_are_reported_with_their_reason(world: Home) -> None:
    """Until a model's summary of the same messages is there."""
    world.node(20, 21, quality="provisional")
    assert finding(doctor(world.deps()), "provisional_nodes")["data"]["nodes"] == ["sum_2"]
    world.node(20, 21)
    assert "provisional_nodes" not in bad(doctor(world.deps()))


def test_inline_payloads_are_named_by_address(world: Home) -> None:
    """Bytes inside messages make everything larger."""
    blob = base64.b64encode(random.Random(5).randbytes(3000)).decode()
    world.runtime.ingest._filters = None  # as before there was a guard, or where it could not write its files
    world.say(f"look data:image/png;base64,{blob}", blob, session="pictures")
    said = finding(doctor(world.deps()), "inline_payloads")["data"]

    assert (said["data_uri_rows"], said["base64_rows"]) == ([101], [102])


def test_the_largest_rows_are_listed(world: Home) -> None:
    """By size, without their text."""
    world.say("x " * 5000, session="big")

    assert finding(doctor(world.deps()), "largest_rows")["data"]["rows"][0]["store_id"] == 101


def test_blank_sources_are_counted(world: Home) -> None:
    """Rows of an importer that did not say where they came from."""
    world.raw("UPDATE messages SET source = '' WHERE store_id < 6")

    assert finding(doctor(world.deps()), "sources")["data"]["blank"] == 5


def test_another_engine_in_use_is_a_failure(world: Home) -> None:
    """The plugin is loaded and does nothing."""
    said = finding(doctor(world.idle(engine_name_in_use="compressor")), "engine_in_use")

    assert (said["status"], said["command"]) == ("fail", "hermes config set context.engine lcm")


def test_a_full_window_is_a_failure(world: Home) -> None:
    """The provider will refuse the next request."""
    assert finding(doctor(world.deps(last_prompt_tokens=199_000)), "context_pressure")["status"] == "fail"
    assert finding(doctor(world.deps(last_prompt_tokens=185_000)), "context_pressure")["status"] == "warn"


def test_an_open_breaker_is_reported_until_it_closes(world: Home) -> None:
    """With when it is tried again, and why it is open."""
    state = {"gpt": {"failures": 2, "retry_at": world.now + 60, "reason": "rate limit or quota (429)"}}
    assert "429" in finding(doctor(world.deps(breaker=state)), "summary_routes")["detail"]
    world.now += 61
    assert "summary_routes" not in bad(doctor(world.deps(breaker=state)))


def test_a_worker_that_failed_is_reported_until_it_works_again(world: Home) -> None:
    """As the real worker reports it, in the check that is about it."""
    session = world.runtime.find_session("s1")
    assert session is not None
    job = _Job(session, SimpleNamespace(), contextvars.copy_context())  # type: ignore[arg-type]
    world.runtime.preparer._jobs["s1"] = job
    with pytest.raises(TypeError):  # nothing to work on: the thread's own loop, in this thread
        world.runtime.preparer._run()
    said = finding(doctor(world.deps()), "background")
    assert (said["status"], "TypeError" in said["detail"]) == ("warn", True)
    world.runtime.health.resolved("background worker")
    assert finding(doctor(world.deps()), "background")["status"] == "pass"


@pytest.mark.parametrize(
    ("version", "missing", "verdict"),
    [("0.19.0", (), "pass"), ("0.17.9", (), "warn"), ("0.30.1", ("pre_api_request",), "warn"), (None, (), "pass")],
)
def test_a_host_that_does_not_fit_is_reported(
    version: str | None, missing: tuple[str, ...], verdict: str, world: Home
) -> None:
    """Too old, or without a hook that the plugin needs."""
    said = finding(doctor(world.deps(host_version=version, missing_hooks=missing)), "host")

    assert said["status"] == verdict
    assert all(name in said["detail"] for name in missing)


@pytest.mark.host
def test_the_hooks_that_are_asked_for_are_those_that_are_registered() -> None:
    """And the installed host knows all of them."""
    assert set(facts.HOOKS) == set(hooks.HOOKS)
    assert facts.missing_hooks() == ()
    assert facts.missing_hooks(["no_such_hook"]) == ("no_such_hook",)


def test_redaction_shows_what_it_covers_and_what_nobody_knows(tmp_path: Path) -> None:
    """State, names, unknown names, source and the form of the placeholder; never a secret."""
    world = Home(tmp_path, sensitive_patterns_enabled="true", sensitive_patterns="api_key,api_kye")
    said = finding(doctor(world.deps()), "redaction")

    assert (said["status"], said["data"]["unknown"], said["data"]["source"]) == ("warn", ["api_kye"], "env")
    assert "private_key" in said["remedy"]
    assert said["data"]["placeholder_format"].startswith("[redacted:")


def test_an_unknown_kind_of_secret_is_reported_while_redaction_is_off(tmp_path: Path) -> None:
    """Whoever switches it on relies on the names."""
    world = Home(tmp_path, sensitive_patterns="api_key,api_kye")
    said = finding(doctor(world.deps()), "redaction")

    assert (said["status"], said["data"]["unknown"]) == ("warn", ["api_kye"])
    assert said["detail"].startswith("off; not a kind of secret")
    assert "sensitive pattern api_kye" in {each["topic"] for each in status(world.deps())["problems"]}
    assert finding(doctor(world.deps()), "problems")["status"] == "pass"  # one cause, one warning


def test_the_release_and_its_commit_are_named(world: Home) -> None:
    """A report that is pasted into an issue says what was running."""
    said = finding(doctor(world.deps()), "plugin")
    known = status(world.deps())

    assert said["data"]["plugin_version"] in said["detail"]
    assert {name: known[name] for name in said["data"]} == said["data"]
    assert {"plugin_path", "plugin_git_commit", "plugin_git_branch", "plugin_git_dirty"} <= set(said["data"])


def test_an_unresolved_problem_is_reported(world: Home) -> None:
    """With its remedy."""
    world.runtime.health.degraded("ingest", "disk full", remedy="free disk space")

    assert finding(doctor(world.deps()), "problems")["remedy"] == "free disk space"


def test_a_session_kept_out_says_which_setting(tmp_path: Path) -> None:
    """An ignored session stores nothing, and that may not be meant."""
    world = Home(tmp_path, ignore_session_patterns="noise*")
    world.runtime.sessions.open("noise1", now=world.now, mode="ignored")

    assert "LCM_IGNORE_SESSION_PATTERNS" in finding(doctor(world.deps("noise1")), "lifecycle")["remedy"]


def test_a_check_that_cannot_look_says_so(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """One failure does not take the other answers along."""

    def broken(*_args: Any, **_keys: Any) -> None:
        raise connection.translate(sqlite3.DatabaseError("disk I/O error"), world.path)

    monkeypatch.setattr(world.runtime.index, "check", broken)
    said = doctor(world.deps())

    assert bad(said) == {"search_index": "fail"}
    assert "disk I/O error" in finding(said, "search_index")["detail"]


@pytest.mark.slow
def test_a_million_rows_are_not_read(tmp_path: Path) -> None:
    """A plain check costs a fraction of what reading everything once costs. (In seconds: benchmarks/operators.py.)"""
    world = Home(tmp_path)
    world.say("first", "second")
    world.raw(
        "WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) "
        "INSERT INTO messages(conversation_id, session_key, seq, pos, role, digest, tokens, chars, stored_at, source, envelope) "
        "SELECT 1, 1, i, i, 'user', x'00', 10, 400, 0, 'cli', (SELECT envelope FROM messages WHERE store_id = 1) FROM n"
    )
    plain, deep = (linear.least(lambda deep=deep: doctor(world.deps(), deep=deep)) for deep in (False, True))

    assert plain < deep / 3


def test_what_looks_at_many_messages_goes_on_behind_a_damaged_one(tmp_path: Path) -> None:
    """It says that there is one, if that matters."""
    world = Home(tmp_path / "home")
    world.say(*(f"zebra {n} " * 400 for n in range(6)))
    world.raw("UPDATE messages SET envelope = x'ffff' WHERE store_id = 3")
    world = world.restart()
    found = explain.search(world.deps(), "zebra")
    kinds = redaction.preview(world.deps(), [], lambda *_: None)

    assert sorted(each["address"] for each in found["results"]) == ["msg_1", "msg_2", "msg_4", "msg_5", "msg_6"]
    assert found["notes"] == ["found, but cannot be read: msg_3"]
    assert (kinds.rows, kinds.damaged) == (5, 1)
    assert inline_payloads(world.deps(), False).status == "pass"
