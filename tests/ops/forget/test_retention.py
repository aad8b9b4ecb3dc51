"""The policy removes what it says, of whom it says, when somebody asks; everybody is told before."""

from __future__ import annotations

import base64
import random
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.home import Home
from worlds.process import chat

from hermes_lcm import command
from hermes_lcm.command import OK, REFUSED
from hermes_lcm.config import load
from hermes_lcm.errors import StoreError
from hermes_lcm.ops import backup
from hermes_lcm.ops.forget.retention import apply, between_turns
from hermes_lcm.ops.retention import note_round
from hermes_lcm.records import Flag
from hermes_lcm.storage import files
from hermes_lcm.storage.connection import Database

DAY_S = 86_400.0
POLICY = "cron:30d=purge,subagent:14d=purge,telegram:30=summaries,telegram:10d=payloads"


def ask(world: Home, words: str) -> command.Answer:
    return command.answer(words, world.deps(None, trusted=True))


@pytest.fixture
def world(tmp_path: Path) -> Home:
    """A job of a scheduler, a chat with an image and a summary, a terminal's session; all of them forty days old."""
    home = Home(
        tmp_path / "home", retention=POLICY, large_output_externalization_enabled="true",
        large_output_externalization_threshold_chars="2000",
    )  # fmt: skip
    home.say("run the job", "done: all zebras counted", session="cron_1", platform="cron")
    image = base64.b64encode(random.Random(1).randbytes(30_000)).decode()
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
    ]
    said = (
        chat()
        .user(parts)
        .calls("c")
        .results("c", text="a long output of words " * 300)
        .says("nice")
        .user("unsummarised")
    )
    home.runtime.announce("tg", platform="telegram", owner="telegram:7")
    home.runtime.ingest_list("tg", said, source="telegram")
    home.node(3, 4, 5, 6, conversation=2, text="the summary of a picture")
    home.say("mine", "kept", session="s1")
    age(home, 40)
    return home


def age(world: Home, days: float) -> None:
    at = world.now - days * DAY_S
    world.raw("UPDATE messages SET stored_at = ?", at)
    world.raw("UPDATE sessions SET started_at = ?", at)
    files.reseal(world.path)


def steps(answer: command.Answer) -> dict[str, str]:
    return {each["session_id"]: each["step"] for each in answer.data["sessions"]}


def test_without_a_policy_nothing_is_ever_due(tmp_path):
    """Nor when it is asked for."""
    home = Home(tmp_path / "home")
    home.say("old", "older")
    age(home, 4000)

    assert ask(home, "retention apply").text.startswith("Nothing is removed by age")
    assert home.runtime.store.text(1) == "old"


def test_a_dry_run_names_sessions_steps_and_bytes(world):
    """And changes nothing; status tells how many are due."""
    answer = ask(world, "retention")

    assert steps(answer) == {"cron_1": "purge", "tg": "summaries"}
    assert answer.data["bytes"] > 0
    assert "Dry run" in answer.text
    assert world.runtime.store.text(1) == "run the job"
    assert ask(world, "status").data["retention"]["sessions_due"] == {"summaries": 1, "purge": 1}


def test_texts_go_and_summaries_stay(world):
    """What no model has summarised stays too; a session that no rule names is untouched."""
    summary = world.runtime.dag.node(1)
    ask(world, "retention apply")

    purged = world.runtime.db.query(f"SELECT store_id FROM messages WHERE flags & {Flag.PURGED} ORDER BY 1")
    assert purged == [(1,), (2,), (3,), (4,), (5,), (6,)]
    assert (world.runtime.dag.node(1), world.runtime.store.text(7)) == (summary, "unsummarised")
    assert world.runtime.store.text(8) == "mine"


def test_summaries_stay_of_a_conversation_that_the_host_does_not_know_any_more(world):
    """All its texts are gone, and still something is left of it."""
    with sqlite3.connect(world.home / "state.db") as host:
        host.execute("CREATE TABLE sessions(id TEXT, source TEXT)")
        host.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT)")
    host.close()
    world.node(7, conversation=2)
    ask(world, "retention apply")

    assert world.runtime.db.query("SELECT count(*) FROM nodes") == [(2,)]
    assert world.runtime.dag.node(1).text == "the summary of a picture"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "words", ["purge session tg", "purge principal telegram:7", "purge matching 'summary of'", "retention"]
)
def test_summaries_that_a_milder_step_left_go_with_a_purge(world, words):
    """Asked for by whatever means, or by the stronger step of the policy; nothing is left of their words, and it is done once."""
    ask(world, "retention apply")
    kept = world.runtime.dag.node(1).text
    if words == "retention":
        world = Home(world.path.parent, retention="telegram:35=purge")
    dry = ask(world, words)
    done = ask(world, f"{words} apply")

    assert "summary of" in kept
    assert "Nothing to purge" not in dry.text
    assert "nothing is due" not in dry.text
    assert done.code == OK, done.text
    assert "summary of" not in world.runtime.dag.node(1).text
    again = ask(world, f"{words} apply").text
    assert "Nothing to purge" in again or "nothing is due" in again


def words_of(world: Home) -> set[str]:
    """Words of the search index, as who opens the file reads them."""
    return {row[0] for row in world.runtime.db.query("SELECT term FROM message_terms")}


def test_words_of_a_round_that_was_killed_leave_the_index_with_the_next(world):
    """Nothing is due any more, and doctor says what is left until then."""

    def dies(what: str, _done: int, _total: int) -> None:
        if what.startswith("indexing"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply(world.deps(None), dies)
    assert "zebra" in words_of(world)
    assert "words are still in the search index" in ask(world, "doctor verbose").text

    assert "nothing is due" in ask(world, "retention apply").text
    assert "zebra" not in words_of(world)
    assert "words are still in the search index" not in ask(world, "doctor verbose").text


def test_words_that_a_round_by_itself_leaves_are_told_and_repaired(world):
    """Such a round does not make the index anew: nobody asked for the time that it takes."""
    apply(world.deps(None), renew=False)
    assert "zebra" in words_of(world)
    assert "words are still in the search index" in ask(world, "doctor repair").text

    ask(world, "doctor repair apply")
    assert "zebra" not in words_of(world)


def test_others_store_while_payloads_are_removed(tmp_path):
    """Of a session of many pictures, some in a transaction; the bar tells how many."""
    home = Home(tmp_path / "home", retention="telegram:10d=payloads")
    home.runtime.announce("tg", platform="telegram", owner="telegram:7")
    said = chat()
    for n in range(120):
        image = base64.b64encode(random.Random(n).randbytes(3000)).decode()
        said = said.user([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}]).says("nice")
    home.runtime.ingest_list("tg", said, source="telegram")
    age(home, 12)
    other = Database(home.path, busy_ms=0)
    changed: list[int] = []

    def stores(what: str, _done: int, total: int) -> None:
        if what == "removing" and total == 120:
            with other.transaction():  # waits for nobody
                changed.append(other.fetch(f"SELECT count(*) FROM messages WHERE flags & {Flag.EXTERNALISED}")[0][0])

    apply(home.deps(None), stores)
    left = other.query(f"SELECT count(*) FROM messages WHERE flags & {Flag.EXTERNALISED}")
    other.close()
    home.close()

    assert changed == [120, 70, 20]
    assert (left, [*home.runtime.payloads.folder.rglob("*.z")]) == ([(0,)], [])


def test_payloads_go_first_and_texts_stay(world):
    """Also a large text in a file; the message says what was there."""
    age(world, 12)
    answer = ask(world, "retention apply")

    assert steps(answer) == {"tg": "payloads"}
    row = next(row for rows in world.runtime.store.row_batches(after=2) for row in rows)
    assert "removed by the retention policy" in str(row.stored_json)
    assert "words" in world.runtime.whole_store.text(5)
    assert world.runtime.payloads.survey(deep=True).missing == ()
    assert len([*world.runtime.payloads.folder.rglob("*.z")]) == 1


def test_it_is_done_once(world):
    """The next one finds nothing due; a session that goes on is due again when it is old again."""
    first = ask(world, "retention apply")
    assert first.data["backup"]

    assert ask(world, "retention").data["sessions"] == []
    assert ask(world, "status").data["retention"]["sessions_due"] == {}


def test_what_is_held_stays_and_is_told(world):
    """A hold wins over any policy."""
    ask(world, "pin cron_1")
    answer = ask(world, "retention apply")

    assert answer.data["held"] == ["msg_1", "msg_2"]
    assert "PINNED" in answer.text
    assert world.runtime.store.text(1) == "run the job"


def test_what_is_pinned_between_look_and_act_stays_and_is_told(world):
    """Another process pins it while the round looks at its sessions."""
    done = apply(
        world.deps(None, trusted=True),
        lambda what, *_: ask(world, "pin cron_1") if what == "looking at sessions" else None,
    )

    assert done.held == [1, 2]
    assert world.runtime.store.text(1) == "run the job"


def test_the_archive_is_sound_afterwards(world):
    """Every check of what is stored."""
    ask(world, "retention apply")

    assert [each["check"] for each in ask(world, "doctor deep").data["checks"] if each["status"] == "fail"] == []


def test_a_chat_removes_nothing_by_age(world):
    """The policy is the operator's."""
    assert command.answer("retention apply", world.deps("s1")).code == REFUSED


@pytest.mark.parametrize("rule", ["cron=purge", "cron:soon=purge", "cron:30d=burn", "*:30d"])
def test_a_rule_that_cannot_be_read_is_refused(rule):
    """And nothing is removed by it."""
    config = load({"LCM_RETENTION": rule})

    assert config.retention == ()
    assert [each.name for each in config.problems] == ["LCM_RETENTION"]


def test_a_policy_that_was_refused_is_named_when_it_is_asked_for(tmp_path):
    """Not taken for one that nobody set."""
    home = Home(tmp_path / "home", retention="cron=purge")
    home.say("mine")
    answer = ask(home, "retention")

    assert answer.code == REFUSED
    assert "LCM_RETENTION='cron=purge'" in answer.text


def test_its_commands_are_those_of_the_terminal(world):
    """A chat is refused, and what the verb quotes is left as it is."""
    assert "`hermes lcm retention apply`" in ask(world, "retention").text


def test_a_fresh_session_is_not_due(world):
    """Whatever its first message's age."""
    world.now += 1
    world.say("run the job", "done: all zebras counted", "again", session="cron_1", platform="cron")
    world.raw("UPDATE messages SET stored_at = ? WHERE store_id = (SELECT max(store_id) FROM messages)", world.now)

    assert "cron_1" not in steps(ask(world, "retention"))
    assert ask(world, "retention").code == OK


# -- by itself ---------------------------------------------------------------------------------------------------------
def scheduled(home: Path, **settings: str) -> Home:
    """A job forty days old, and a schedule."""
    world = Home(home, retention=POLICY, **settings)
    world.say("run the job", "done: all zebras counted", session="cron_1", platform="cron")
    age(world, 40)
    return world


def round_at(world: Home, hours: float) -> dict[str, Any]:
    """What the status says after the worker looked in, so long after the beginning."""
    deps = replace(world.deps(None, trusted=True), clock=lambda: world.now + hours * 3600)
    between_turns(deps, world.runtime.leases, lambda: None)
    answer = command.answer("status", deps)
    return {**answer.data["retention"], "text": answer.text}


def test_without_a_schedule_nothing_happens_by_itself(tmp_path):
    """A policy alone removes nothing."""
    world = scheduled(tmp_path / "home")
    said = [round_at(world, hours)["schedule"] for hours in (0, 1000)]

    assert said == [None, None]
    assert world.runtime.store.text(1) == "run the job"


def test_a_clock_that_goes_back_by_years_ends_no_schedule(tmp_path):
    """It was ahead when the last round was noted: the next one is due at once, and then at its interval again."""
    world = scheduled(tmp_path / "home", retention_every_hours="24")
    years = 5 * 365 * 24
    round_at(world, years)
    back = [round_at(world, hours)["schedule"]["last"]["at"] for hours in (0, 23, 25)]

    assert back[0] == back[1] < back[2]


def test_a_round_by_itself_is_a_dry_run_unless_it_was_told_otherwise(tmp_path):
    """At its interval, and the status says what it would free and when the next one is."""
    world = scheduled(tmp_path / "home", retention_every_hours="24")
    first, early, later = (round_at(world, hours) for hours in (0, 23, 25))

    assert first["schedule"]["last"]["sessions"] == early["schedule"]["last"]["sessions"] == 0
    assert later["schedule"]["last"]["messages"] == 2
    assert later["schedule"]["last"]["frees"] > 0
    assert later["schedule"]["next_at"] == world.now + 49 * 3600
    assert "would have removed 2 messages of 1 session" in later["text"]
    assert "dry run only" in later["text"]
    assert world.runtime.store.text(1) == "run the job"


def test_a_round_that_may_removes_after_a_backup_and_says_what(tmp_path):
    """What is held stays; the next round has nothing to do."""
    world = scheduled(tmp_path / "home", retention_every_hours="24", retention_apply="true")
    ask(world, "pin msg_2")
    round_at(world, 0)
    done, again = (round_at(world, hours) for hours in (24, 48))

    assert "removed 1 message of 1 session" in done["text"]
    assert "1 held" in done["text"]
    assert "zebras" in world.runtime.store.text(2)
    assert "purged" in world.runtime.store.text(1)
    assert [each.messages for each in backup.backups(world.deps())] == [2]
    assert "nothing was due" in again["text"]


def test_the_worker_looks_in_after_a_turn(tmp_path):
    """In the real process, without anybody asking."""
    world = scheduled(tmp_path / "home", retention_every_hours="1", retention_apply="true")
    note_round(world.runtime.db, at=0.0, applied=False, sessions=0, messages=0, frees=0)
    world.runtime._between_turns(lambda: False)

    assert "purged" in world.runtime.store.text(1)


def test_a_round_that_fails_is_told_and_tried_again(tmp_path, monkeypatch):
    """Among the problems, and in the line about the schedule."""
    world = scheduled(tmp_path / "home", retention_every_hours="24", retention_apply="true")
    round_at(world, 0)
    with monkeypatch.context() as broken:
        broken.setattr(backup, "back_up", lambda *_: (_ for _ in ()).throw(StoreError("the disk is full")))
        failed = round_at(world, 24)
    topics = [each.topic for each in world.runtime.health.problems()]
    after = round_at(world, 48)

    assert "FAILED" in failed["text"]
    assert "retention" in topics
    assert "removed 2 messages" in after["text"]
    assert "retention" not in [each.topic for each in world.runtime.health.problems()]
