"""Conversations of the host's own database from before the plugin: each message once, whatever the host did to its list."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds.home import Home, digest
from worlds.host import SUMMARY, Clock, HostDb, deps_of, host_db, said, take, talk, thread, words

from hermes_lcm.command import OK, VERBS, Words
from hermes_lcm.errors import BadRequest
from hermes_lcm.importers import host_sessions
from hermes_lcm.ops.doctor.checks import doctor
from hermes_lcm.records import Flag
from hermes_lcm.text import markup

pytestmark = pytest.mark.host


@pytest.fixture
def world(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostDb:
    return host_db(tmp_path, monkeypatch)


# -- what comes over -----------------------------------------------------------------------------------
def test_a_session_comes_over_whole(world: Home, there: HostDb) -> None:
    """With everything that the host keeps of a message."""
    there.begin("s1")
    there.say("s1", talk(0, 4))
    done = take(world)
    rows = thread(world, "s1")

    assert said(rows) == words(talk(0, 4))
    assert (done.taken.added, done.new) == (len(rows), ("s1",))
    assert rows[1].stored_json["tool_calls"] == talk(0, 1)[1]["tool_calls"]
    assert rows[1].stored_json["finish_reason"] == "tool_calls"
    assert rows[0].head.said_at is not None
    assert rows[0].head.source == "cli"


def test_parts_of_a_message_are_parts(world: Home, there: HostDb) -> None:
    """The host stores them as marked JSON."""
    parts = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]
    there.begin("s1")
    there.say("s1", [{"role": "user", "content": parts}])
    take(world)

    assert thread(world, "s1")[0].stored_json["content"] == parts


@pytest.mark.parametrize("times", [1, 3])
def test_what_a_compaction_wrote_again_comes_over_once(times: int, world: Home, there: HostDb) -> None:
    """In place: archived rows, the summary, the tail again, and what came after; several times over."""
    there.begin("s1")
    there.say("s1", talk(0, 10))
    live = talk(0, 10)
    for n in range(times):
        there.compact("s1", live[-6:], head=live[:2], text=f"{SUMMARY} {n}")
        there.say("s1", talk(10 + n, 11 + n))
        live += talk(10 + n, 11 + n)
    done = take(world)

    assert said(thread(world, "s1")) == words(live)
    assert done.taken.copies == 8 * times
    assert doctor(deps_of(world.runtime, world), deep=True)["counts"]["fail"] == 0


def test_summaries_that_no_list_shows_any_more_are_kept_apart(world: Home, there: HostDb) -> None:
    """Found and read, but no part of the conversation; the one that is shown is."""
    there.begin("s1")
    live = talk(0, 10)
    there.say("s1", live)
    for n in range(3):
        there.compact("s1", live[-6:], text=f"{SUMMARY} number {n}")
        there.say("s1", talk(10 + n, 11 + n))
        live += talk(10 + n, 11 + n)
    take(world)
    rows = [row for row in world.runtime.store.page("s1", after=0, limit=99) if row.text.startswith("[CONTEXT")]
    shown = [row.text[-1] for row in thread(world, "s1") if row.text.startswith("[CONTEXT")]

    assert [row.text[-1] for row in rows] == ["0", "1", "2"]
    assert shown == ["2"]


def test_a_session_that_goes_on_stores_only_what_is_new(world: Home, there: HostDb) -> None:
    """The host hands over its summary and the tail; then the plugin is there."""
    there.begin("s1")
    there.say("s1", talk(0, 10))
    there.compact("s1", talk(0, 10)[-6:])
    take(world)
    live = there.live("s1")

    assert world.runtime.ingest_list("s1", live).stored == 0
    assert world.restart().runtime.ingest_list("s1", [*live, {"role": "user", "content": "go on"}]).stored == 1


def test_importing_again_adds_nothing(world: Home, there: HostDb) -> None:
    """Also after the session went on, in the host and here."""
    there.begin("s1")
    there.say("s1", talk(0, 5))
    take(world)
    assert take(world).taken.added == 0
    there.say("s1", talk(5, 6))
    world.runtime.ingest_list("s1", there.live("s1"))
    again = take(world)

    assert (again.taken.added, again.taken.present) == (0, len(talk(0, 6)))
    assert said(thread(world, "s1")) == words(talk(0, 6))


def test_what_came_before_the_plugin_goes_in_front(world: Home, there: HostDb) -> None:
    """The plugin saw only the host's summary and what followed it."""
    there.begin("s1")
    there.say("s1", talk(0, 40))
    there.compact("s1", talk(0, 40)[-6:])
    world.runtime.announce("s1", platform="cli")
    there.say("s1", talk(40, 41))
    live = there.live("s1")
    world.runtime.ingest_list("s1", live)
    done = take(world)

    assert said(thread(world, "s1")) == words(talk(0, 41))
    assert done.taken.added == len(talk(0, 40)) - 6
    assert world.restart().runtime.ingest_list("s1", [*live, {"role": "user", "content": "go on"}]).stored == 1


def test_rows_that_the_host_wrote_anew_are_the_same_messages(world: Home, there: HostDb) -> None:
    """/retry deletes and inserts: other ids, same words."""
    there.begin("s1")
    there.say("s1", talk(0, 5))
    take(world)
    there.db.replace_messages("s1", there.live("s1"))

    assert take(world).taken.added == 0


def test_what_was_taken_back_is_kept_as_taken_back(world: Home, there: HostDb) -> None:
    """/rewind hides rows; they can be read and found, and are no part of the conversation."""
    there.begin("s1")
    there.say("s1", talk(0, 4))
    target = next(row["id"] for row in there.db.get_messages("s1") if row["content"] == "question 2 about the zebra")
    there.db.rewind_to_message("s1", target)
    take(world)
    world.close()

    assert said(thread(world, "s1")) == words(talk(0, 2))
    gone = [row for row in world.runtime.store.page("s1", after=0, limit=99) if row.head.flags & Flag.RETRACTED]
    assert [row.text for row in gone] == [
        "question 2 about the zebra",
        "answer 2",
        "question 3 about the zebra",
        "",
        "ok",
        "answer 3",
    ]
    assert take(world).taken.added == 0


def test_prompts_of_this_plugin_are_no_messages(world: Home, there: HostDb) -> None:
    """The host stores our context message, the carrier, the request that stays and the tail; all of it is here, or ours."""
    there.begin("s1")
    there.say("s1", talk(0, 6))
    session = world.runtime.sessions.open("s1", now=1.0, platform="cli")
    mine = {"role": "user", "content": markup.context(session.nonce, 1, "what was before")}
    carrier = {"role": "assistant", "content": markup.carrier(session.nonce)}
    there.db.archive_and_compact("s1", [mine, carrier, talk(4, 5)[0], *talk(5, 6)])
    there.say("s1", talk(6, 7))
    done = take(world)

    assert said(thread(world, "s1")) == words(talk(0, 7))
    assert (done.taken.own, done.taken.copies) == (2, 3)


# -- conversations -------------------------------------------------------------------------------------
def test_a_chain_of_rotations_is_one_conversation(world: Home, there: HostDb) -> None:
    """Two sessions, each message once, and the second one goes on here."""
    there.begin("a")
    there.say("a", talk(0, 10))
    there.rotate("a", "b", talk(0, 10)[-6:])
    there.say("b", talk(10, 12))
    take(world)
    first, second = world.runtime.sessions.find("a"), world.runtime.sessions.find("b")

    assert first is not None
    assert second is not None
    assert first.conversation_id == second.conversation_id
    assert said(thread(world, "b")) == words(talk(0, 12))
    assert (first.end_reason, second.origin) == ("compression", "rotation")
    assert world.runtime.ingest_list("b", [*there.live("b"), {"role": "user", "content": "go on"}]).stored == 1


def test_a_branch_inherits_what_it_copied(world: Home, there: HostDb) -> None:
    """Its parent's messages are stored once; both go on for themselves."""
    there.begin("a")
    there.say("a", talk(0, 4))
    there.branch("a", "b")
    there.say("b", talk(100, 101))
    there.say("a", talk(4, 5))
    done = take(world)

    assert said(thread(world, "b")) == words([*talk(0, 4), *talk(100, 101)])
    assert said(thread(world, "a")) == words(talk(0, 5))
    assert world.runtime.store.count() == len(talk(0, 5)) + len(talk(100, 101)) == done.taken.added
    assert world.runtime.ingest_list("b", [*there.live("b"), {"role": "user", "content": "go on"}]).stored == 1
    assert take(world).taken.added == 0


def test_a_conversation_belongs_to_whom_the_host_says(world: Home, there: HostDb) -> None:
    """The chat of its key, the terminal, or itself alone; a delegated child to its parent's owner."""
    there.begin("tg", "telegram", session_key="agent:main:telegram:dm:42")
    there.begin("nokey", "telegram")
    there.begin("term", "cli")
    there.begin("child", "subagent", parent_session_id="tg", model_config={"_delegate_from": "tg"})
    for name in ("tg", "nokey", "term", "child"):
        there.say(name, [{"role": "user", "content": f"hello from {name}"}])
    take(world)
    owner = {name: world.runtime.sessions.find(name).principal for name in ("tg", "nokey", "term", "child")}  # type: ignore[union-attr]

    assert owner == {"tg": "telegram:dm:42", "nokey": "session:nokey", "term": "local", "child": "telegram:dm:42"}


def test_one_session_and_what_it_rests_on_can_be_named(world: Home, there: HostDb) -> None:
    """A branch needs its parent; nothing else comes over."""
    there.begin("a")
    there.say("a", talk(0, 2))
    there.branch("a", "b")
    there.begin("other")
    there.say("other", talk(0, 1))
    take(world, "b")

    assert world.runtime.sessions.find("other") is None
    assert said(thread(world, "b")) == words(talk(0, 2))
    with pytest.raises(BadRequest, match="no session 'nobody'"):
        take(world, "nobody")


def test_sessions_that_a_pattern_keeps_out_stay_out(tmp_path: Path, there: HostDb) -> None:
    """As they would if they ran now."""
    there.begin("cron_1", "cron")
    there.say("cron_1", talk(0, 1))
    world = Home(tmp_path, ignore_session_patterns="cron*")
    done = take(world)

    assert (done.taken.added, done.skipped) == (0, ("cron_1",))


class Script:
    """A conversation in the host under random treatment, and what was really said in it."""

    def __init__(self, there: HostDb) -> None:
        self.there = there
        self.session, self.said = "s0", [dict(m) for m in talk(0, 3)]
        there.begin("s0")
        there.say("s0", self.said)
        self.n = 3
        self.from_ = 2  # the first message that the list may still show behind a summary
        self.head: int | None = None

    def turn(self, count: int) -> None:
        new = talk(self.n, self.n + count)
        self.n += count
        self.there.say(self.session, new)
        self.said += new

    def compact(self, tail: int, head: int) -> None:
        self.head = head if self.head is None else self.head  # what it protects stays the same
        tail = self._kept(tail)
        self.there.compact(self.session, self.said[-tail:], head=self.said[: self.head], text=f"{SUMMARY} {self.n}")

    def rotate(self, tail: int, _head: int) -> None:
        self.head = 0
        old, self.session = self.session, f"s{self.n}"
        self.there.rotate(old, self.session, self.said[-self._kept(tail) :])

    def _kept(self, tail: int) -> int:
        """A tail is never longer than what the list shows."""
        tail = min(tail, len(self.said) - self.from_)
        self.from_ = len(self.said) - tail
        return tail


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["turn", "compact", "rotate"]), st.integers(2, 7), st.integers(0, 2)), max_size=8
    )
)
def test_whatever_the_host_did_each_message_comes_over_once(
    steps: list[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns, compactions in place and rotations in any order; the session goes on here."""
    import hermes_state

    home = tmp_path_factory.mktemp("home")
    clock = Clock()
    monkeypatch.setattr(hermes_state, "time", clock)
    script, world = Script(HostDb(home, clock)), Home(home)
    for what, size, head in steps:
        if what == "turn":
            script.turn(size)
        else:
            getattr(script, what)(size, head)
            script.turn(1)  # the host compacts because the conversation goes on
    take(world)

    assert said(thread(world, script.session)) == words(script.said)
    live = script.there.live(script.session)
    assert world.runtime.ingest_list(script.session, [*live, {"role": "user", "content": "go on"}]).stored == 1
    assert take(world).taken.added == 0
    script.there.db.close()
    world.close()


# -- safety --------------------------------------------------------------------------------------------
def test_looking_makes_no_file_and_changes_none(world: Home, there: HostDb, tmp_path: Path) -> None:
    """A dry run is a dry run, here and there."""
    there.begin("s1")
    there.say("s1", talk(0, 3))
    there.db.close()
    before = digest(tmp_path / "state.db")
    found = host_sessions.plan(deps_of(world.runtime, world), None)

    assert found.taken.added == len(talk(0, 3))
    assert digest(tmp_path / "state.db") == before
    assert not world.path.exists()


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_an_interrupted_import_goes_on(stop: int, world: Home, there: HostDb, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored stays, the rest follows, nothing comes twice."""
    from hermes_lcm.storage import foreign

    monkeypatch.setattr(foreign, "_BATCH", 7)
    there.begin("s1")
    there.say("s1", talk(0, 8))
    there.compact("s1", talk(0, 8)[-6:])
    there.say("s1", talk(8, 9))
    seen: list[str] = []

    def interrupted(what: str, _done: int, _total: int) -> None:
        seen.append(what)
        if seen.count("storing") == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        host_sessions.take_in(deps_of(world.runtime, world), None, interrupted)
    take(world)

    assert said(thread(world, "s1")) == words(talk(0, 9))


def test_a_live_session_may_go_on_meanwhile(world: Home, there: HostDb) -> None:
    """Between two batches the agent stores its next message: both arrive, each once."""
    there.begin("s1")
    there.say("s1", talk(0, 6))
    world.runtime.announce("s1", platform="cli")
    world.runtime.ingest_list("s1", talk(0, 3))
    done: list[int] = []

    def meanwhile(what: str, _done: int, _total: int) -> None:
        if what == "reading" and not done:
            done.append(world.runtime.ingest_list("s1", talk(0, 6)).stored)

    host_sessions.take_in(deps_of(world.runtime, world), None, meanwhile)

    assert said(thread(world, "s1")) == words(talk(0, 6))


def test_how_far_an_import_came_counts_all_conversations(world: Home, there: HostDb) -> None:
    """Messages read and stored of all there are; no conversation begins at zero."""
    for n in range(3):
        there.begin(f"s{n}")
        there.say(f"s{n}", talk(0, 6))
    seen: list[tuple[str, int, int]] = []
    host_sessions.take_in(deps_of(world.runtime, world), None, lambda *at: seen.append(at))
    reading, storing = ([at for at in seen if at[0] == name] for name in ("reading", "storing"))

    assert [at[1:] for at in reading] == [(16, 48), (32, 48), (48, 48)]
    assert [done for _what, done, _total in storing] == sorted(done for _what, done, _total in storing)
    assert (storing[-1], {total for _what, _done, total in storing}) == (("storing", 48, 48), {48})
    assert seen.index(reading[-1]) < seen.index(storing[0])


def test_a_home_without_the_hosts_database_says_so(world: Home) -> None:
    """Nothing to import from."""
    with pytest.raises(BadRequest, match="stored no conversation yet"):
        take(world)


def test_the_verb_shows_what_it_found_and_did(world: Home, there: HostDb) -> None:
    """Dry run, apply, and again; refused in a chat."""
    there.begin("s1")
    there.say("s1", talk(0, 10))
    there.compact("s1", talk(0, 10)[-6:])
    verb = next(each for each in VERBS if each.name == "import host")
    answers = [verb.run(deps_of(world.runtime, world), Words(apply=apply)) for apply in (False, True, True)]

    assert [each.code for each in answers] == [OK] * 3
    assert [each.data["added"] for each in answers] == [29, 29, 0]
    assert "Dry run" in answers[0].text
    with pytest.raises(BadRequest, match="at the terminal"):
        verb.run(world.deps(None), Words())


@pytest.mark.parametrize(
    ("stored", "does"), [(False, "does it"), (True, "backs up and does it")], ids=["empty", "in use"]
)
def test_a_preview_speaks_of_a_backup_where_something_is_stored(
    stored: bool, does: str, world: Home, there: HostDb
) -> None:
    """In a new home there is nothing to back up."""
    there.begin("s1")
    there.say("s1", talk(0, 2))
    if stored:
        world.say("hello", session="s2")
    verb = next(each for each in VERBS if each.name == "import host")

    assert f"`hermes lcm import host --apply` {does}." in verb.run(world.deps(None, trusted=True), Words()).text


def test_a_damaged_message_here_keeps_none_of_the_others_from_coming(world: Home, there: HostDb) -> None:
    """The live session stored some of it; where lists differ, what is here is compared with what is there."""
    there.begin("s1")
    there.say("s1", talk(0, 4))
    live = talk(0, 3)
    live[5]["content"] = "an edited answer"
    world.runtime.announce("s1", platform="cli")
    world.runtime.ingest_list("s1", live, source="cli")
    world.raw("UPDATE messages SET envelope = x'ffff' WHERE store_id = 6")
    take(world)
    rows = world.runtime.store.legible(range(1, 100))[0]

    assert set(words(talk(0, 4))) <= {*said(rows), words(talk(0, 4))[5]}
