"""A purge removes what was said and all that was made of it, proves it, and breaks no conversation."""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from worlds.breaking import Host
from worlds.home import Home, healthy
from worlds.process import Chat, chat, tokens_of
from worlds.process import World as Live

from hermes_lcm import command
from hermes_lcm.archive.ranges import Archive
from hermes_lcm.command import FOUND, OK, REFUSED
from hermes_lcm.dag import SummaryDag, fingerprint
from hermes_lcm.ops import backup, explain
from hermes_lcm.ops.forget import purge
from hermes_lcm.ops.forget.elsewhere import Selection
from hermes_lcm.ops.orders import Orders, Rotation
from hermes_lcm.prompt.context_message import context_text
from hermes_lcm.records import ARCHIVE_RUNG, Flag, NewNode
from hermes_lcm.storage import files
from hermes_lcm.storage.meta import Meta

SECRET = "the aardvark of Zwickau sleeps under the third bridge"


def ask(world: Home, words: str, session: str | None = None) -> command.Answer:
    return command.answer(words, world.deps(session, trusted=True))


def holds(folder: Path, text: str) -> list[str]:
    """Files below a folder that say a text, in their bytes or unpacked."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        said = path.suffix in (".db", ".sqlite3") and any(text in each for each in files.texts_of(path))
        if said or text.encode() in path.read_bytes():
            found.append(path.name)
    return found


@pytest.fixture
def world(tmp_path: Path) -> Home:
    """Ten messages, the fourth with the secret; a leaf, a summary above it, an archive, a backup and an export."""
    home = Home(tmp_path / "home")
    home.say(*(f"message {n} about zebras and their stripes" if n != 3 else f"listen: {SECRET}" for n in range(10)))
    leaf = home.node(*range(1, 6), text=f"They said that {SECRET}.")
    home.node(leaf.node_id, depth=1, text=f"In short: {SECRET}.")
    home.node(6, 7, 8, text="Nothing but zebras.")
    home.runtime.archives.add(
        Archive(0, "mem://s1/x", 1, "s1", (3, 4), 2, 3, 2, SECRET, True, SECRET, 9, 9, "archived", 1.0, 1.0)
    )
    home.runtime.store.packer.pack(newest=0, least_bytes=1)
    ask(home, "backup")
    ask(home, "export s1")
    return home


def test_a_dry_run_names_all_that_would_go_and_changes_nothing(world):
    """Rows, summaries, archives, index entries, files, backups."""
    before = world.path.stat().st_size, holds(world.home, SECRET)
    answer = ask(world, "purge messages msg_4")

    assert (answer.code, answer.data["messages"], answer.data["summaries"]) == (OK, ["msg_4"], ["sum_1", "sum_2"])
    assert (answer.data["archives"], answer.data["index_entries"], len(answer.data["copies"])) == ([1], 1, 2)
    assert answer.text.startswith("This would be removed:\n  1 message: msg_4\n")
    assert "Dry run" in answer.text
    assert (world.path.stat().st_size, holds(world.home, SECRET)) == before


def test_what_was_purged_is_in_no_file_any_more(world):
    """Not in rows, summaries, archives, blocks, index, log, backups or exports; the certificate says so."""
    others = [row.stored_json for rows in world.runtime.store.row_batches() for row in rows if row.store_id != 4]
    answer = ask(world, f"purge matching '{SECRET.upper()}' apply")

    assert answer.code == OK, answer.text
    assert answer.text.startswith("Removed: 1 message: msg_4\n")
    assert holds(world.home, SECRET) + holds(world.home, SECRET.upper()) == []
    assert all(each["holds"] == 0 for each in answer.data["certificate"]["files"])
    assert list(answer.data["certificate"]["messages"]) == ["msg_4"]
    words = world.runtime.db.query("SELECT term FROM message_terms WHERE term IN ('aardvark', 'zwickau', 'zebra')")
    assert words == [("zebra",)]
    assert [
        row.stored_json for rows in world.runtime.store.row_batches() for row in rows if row.store_id != 4
    ] == others


def test_after_a_purge_the_archive_is_sound_and_has_a_backup(world):
    """The new one holds what remains."""
    ask(world, "purge messages msg_4 apply")

    assert [each["check"] for each in ask(world, "doctor deep", "s1").data["checks"] if each["status"] == "fail"] == []
    (kept,) = backup.backups(world.deps())
    assert (kept.sound, kept.messages) == (True, 10)


def test_summaries_that_rest_on_it_are_made_again_from_what_remains(world):
    """As extracts that say so; the worker writes the leaf anew, and the one above is condensed anew."""
    ask(world, "purge messages msg_4 apply")
    leaf, above, other = world.runtime.dag.nodes([1, 2, 3])

    assert "stripes" in leaf.text
    assert "zebras" in above.text
    assert (leaf.quality, above.quality, other.quality) == ("provisional", "provisional", "verified")
    assert world.runtime.orders.dissolved() == {2}
    assert other.text == "Nothing but zebras."


def test_a_summary_of_which_nothing_remains_says_only_that(world):
    """No model is asked about nothing."""
    ask(world, "purge messages msg_6,msg_7,msg_8 apply")
    node = world.runtime.dag.node(3)

    assert (node.quality, "zebras" in node.text) == ("verbatim", False)


def test_a_held_message_stays_and_that_is_told_loudly(world):
    """A legal hold wins, of a message or of a whole session."""
    ask(world, "pin msg_4")
    answer = ask(world, "purge messages msg_4,msg_5 apply")

    assert (answer.code, answer.data["held"], answer.data["messages"]) == (FOUND, ["msg_4"], ["msg_5"])
    assert "PINNED, SO NOT PURGED" in answer.text
    assert SECRET in world.runtime.store.text(4)

    ask(world, "pin msg_4 undo")
    ask(world, "pin s1")
    assert ask(world, "purge session s1").data["messages"] == []
    ask(world, "pin s1 undo")
    assert len(ask(world, "purge session s1").data["messages"]) == 9


def test_what_is_pinned_while_a_purge_looks_stops_it(world, monkeypatch):
    """Between its plan and its first change: nothing is removed, and the same again leaves it."""
    looked = purge.plan

    def pinned_meanwhile(*given):
        planned = looked(*given)
        ask(world, "pin msg_4")
        return planned

    monkeypatch.setattr(purge, "plan", pinned_meanwhile)
    refused = ask(world, "purge messages msg_4,msg_5 apply")
    monkeypatch.undo()

    assert (refused.code, "msg_4 was pinned meanwhile" in refused.text) == (REFUSED, True)
    assert [bool(world.runtime.store.heads_of([n])[n].flags & Flag.PURGED) for n in (4, 5)] == [False, False]
    assert ask(world, "purge messages msg_4,msg_5 apply").data["messages"] == ["msg_5"]


@pytest.mark.parametrize("name", ["msg_70", "s9"])
def test_what_is_pinned_while_a_purge_removes_stays(tmp_path, name):
    """Another process pins it behind the first transaction; the answer tells, and no summary forgets it."""
    home = Home(tmp_path / "home")
    home.say(*(f"message {n} about zebras and their stripes" for n in range(80)), session="s9")
    node = home.node(*range(65, 75), text="Zebras, all of them.").node_id
    deps = home.deps(trusted=True)
    done = purge.apply(
        deps,
        Selection(session="s9"),
        lambda what, at, _of: ask(home, f"pin {name}") if (what, at) == ("purging", 50) else None,
    )
    stays = (70,) if name == "msg_70" else tuple(range(51, 81))

    assert done.plan.held == stays
    assert not set(done.digests) & set(stays)
    assert all("zebras" in home.runtime.store.text(n) for n in stays)
    assert "purged" in home.runtime.store.text(1)
    assert ("message 69" in home.runtime.dag.nodes([node])[0].text) == (name == "msg_70")


def test_what_is_summarised_while_a_purge_looks_is_made_again_too(tmp_path, monkeypatch):
    """Another process writes a leaf and one above it between the list of summaries and the first change."""
    home = Home(tmp_path / "home")
    home.say(*(f"message {n} about zebras and their stripes" for n in range(20)))
    home.node(*range(1, 6), text="Zebras, all of them.")
    sources = SummaryDag.sources

    def written_meanwhile(dag, node_id):
        monkeypatch.undo()
        witness = dag.witness(1, 0, range(6, 11))
        leaf = NewNode(
            1, 0, "verified", "Zebras.", "", 5, 50, (*range(6, 11),), b"leaf", "m", "detailed", witness=witness
        )
        home.node(node_id, dag.add(leaf, now=home.now).node_id, depth=1, text="All zebras.")
        return sources(dag, node_id)

    monkeypatch.setattr(SummaryDag, "sources", written_meanwhile)
    ask(home, "purge session s1 apply")
    nodes = home.runtime.dag.nodes([1, 2, 3])

    assert len(nodes) == 3
    assert not [node.text for node in nodes if "zebras" in node.text.lower()]


@pytest.mark.parametrize("before", [True, False], ids=["purged long ago", "purged just now"])
def test_who_pins_what_was_purged_hears_that_it_is_gone(world, monkeypatch, before):
    """Also where the purge overtakes the pin."""
    flag = world.runtime.store.flag

    def late(*args, **keys):
        purged()
        flag(*args, **keys)

    def purged():
        monkeypatch.undo()
        assert ask(world, "purge messages msg_4 apply").code == OK

    if before:
        purged()
    else:
        monkeypatch.setattr(world.runtime.store, "flag", late)
    said = ask(world, "pin msg_4")
    assert (said.code, "nothing is left of it" in said.text) == (REFUSED, True)


def test_other_messages_that_repeat_it_are_named(world):
    """A certificate that finds the words elsewhere is no clean one."""
    world.say(*(f"more {n}" for n in range(4)), f"as I said, {SECRET}, remember", session="s2")
    answer = ask(world, "purge messages msg_4 apply")

    assert (answer.code, answer.data["certificate"]["still_said_in"]) == (FOUND, ["msg_15"])


def test_a_purge_that_was_killed_goes_on(world, monkeypatch):
    """Status says meanwhile that it was not finished; the same command ends it."""

    class Killed(BaseException):
        pass

    def dies(*_args: object) -> None:
        raise Killed

    monkeypatch.setattr(purge, "reindex", dies)
    with pytest.raises(Killed):
        ask(world, "purge messages msg_4 apply")
    monkeypatch.undo()

    again = world.restart()
    assert "a purge was begun" in ask(again, "status", "s1").text
    ask(again, "purge messages msg_4 apply")
    assert "a purge was begun" not in ask(again, "status", "s1").text
    assert again.runtime.db.query("SELECT term FROM message_terms WHERE term = 'aardvark'") == []
    assert holds(again.home, SECRET) == []


@pytest.mark.few(2)
@pytest.mark.parametrize("at", ["empty", "sweep", "erase", "back_up"])
def test_a_purge_that_was_killed_leaves_no_file_behind(tmp_path, monkeypatch, at):
    """Its own files and backups with the message go when it is run again."""

    class Killed(BaseException):
        pass

    def dies(*_args: object) -> None:
        raise Killed

    home = Home(tmp_path / "home", large_output_externalization_enabled="true")
    home.runtime.announce("s1", owner="local")
    live = chat().user("look").calls("c").results("c", text=f"{SECRET} " * 3000)
    home.runtime.ingest_list("s1", live, source="cli")
    ask(home, "backup")
    where = {"empty": home.runtime.payloads, "sweep": purge, "erase": purge.disk, "back_up": backup}[at]
    monkeypatch.setattr(where, "remove" if at == "empty" else at, dies)
    with pytest.raises(Killed):
        ask(home, "purge messages msg_3 apply")
    monkeypatch.undo()
    again = home.restart()
    ask(again, "purge messages msg_3 apply")

    assert [*again.runtime.payloads.folder.rglob("*.z")] == []
    assert holds(again.home, SECRET) == []
    assert ask(again, "doctor deep").code == OK


def test_a_host_that_was_killed_while_it_followed_erases_its_backups_when_it_goes_on(world, monkeypatch):
    """What another host of the fleet purged."""

    class Killed(BaseException):
        pass

    def dies(*_args: object) -> None:
        raise Killed

    monkeypatch.setattr(purge.disk, "erase", dies)
    with pytest.raises(Killed):
        purge.follow(world.deps(trusted=True), [4], [])
    monkeypatch.undo()
    again = world.restart()
    purge.follow(again.deps(trusted=True), [4], [])

    assert holds(again.home / "lcm-backups", SECRET) + holds(again.home / "lcm-exports", SECRET) == []


def state_db(home: Path, *sessions: str) -> None:
    """The host's own database, with a message in each of these sessions."""
    with sqlite3.connect(home / "state.db") as host:
        host.execute("CREATE TABLE sessions(id TEXT, source TEXT)")
        host.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT)")
        for name in sessions:
            host.execute("INSERT INTO messages(session_id, role, content) VALUES (?, 'user', ?)", (name, SECRET))
    host.close()


def test_a_conversation_that_the_host_does_not_know_any_more_goes_as_a_whole(world):
    """With its rows and names; addresses are never given again, and the doctor misses nothing."""
    state_db(world.home)
    world.say("one", "two", session="s2")
    ask(world, "purge session s1 apply")

    assert world.runtime.sessions.find("s1") is None
    assert world.runtime.db.query("SELECT count(*), min(store_id) FROM messages") == [(2, 11)]
    assert [each["check"] for each in ask(world, "doctor deep").data["checks"] if each["status"] == "fail"] == []


def test_what_the_host_still_shows_is_told_and_keeps_its_places(world):
    """Its file is not ours; its list brings nothing back, because the places are known."""
    state_db(world.home, "s1")
    answer = ask(world, "purge session s1 apply")

    assert answer.data["in_state_db"] == ["s1"]
    assert "hermes sessions delete" in answer.text
    assert world.runtime.db.query("SELECT count(*) FROM messages") == [(10,)]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("purge", REFUSED), ("purge messages sum_1", REFUSED), ("purge before soon", REFUSED), ("purge matching ' '", REFUSED),
        ("purge tomorrow x", REFUSED), ("purge before 2020-01-01", OK),
    ],
)  # fmt: skip
def test_what_is_meant_has_to_be_said(world, words, code):
    """A wrong word purges nothing."""
    assert ask(world, words).code == code


def test_a_chat_purges_nothing(world):
    """It removes what was said for good."""
    assert command.answer("purge messages msg_4 apply", replace(world.deps(), trusted=False)).code == REFUSED


def test_a_principal_goes_and_others_stay(tmp_path):
    """Rows of one person in all of their sessions."""
    home = Home(tmp_path / "home")
    home.say("mine", "answer", session="a", platform="telegram")
    home.say("yours", "answer", session="b", platform="cli")
    (who,) = home.runtime.db.query("SELECT principal FROM sessions WHERE session_id = 'a'")[0]

    assert ask(home, f"purge principal {who}").data["messages"] == ["msg_1", "msg_2"]


def test_a_file_goes_with_its_last_message(tmp_path):
    """One that another message shows stays."""
    big = "a very large output " * 3000
    home = Home(tmp_path / "home", large_output_externalization_enabled="true")
    for name in ("s1", "s2"):
        live = chat().user("look").calls("c").results("c", text=big)
        home.runtime.announce(name, owner="local")
        home.runtime.ingest_list(name, live, source="cli")
    files = [*home.runtime.payloads.folder.rglob("*.z")]
    assert files

    ask(home, "purge messages msg_3 apply")
    assert [*home.runtime.payloads.folder.rglob("*.z")] == files
    ask(home, "purge messages msg_6 apply")
    assert [*home.runtime.payloads.folder.rglob("*.z")] == []


def test_of_two_images_under_the_same_words_only_the_purged_one_goes(tmp_path):
    """Equal digests may hide different images."""
    import base64
    import random

    home = Home(tmp_path / "home", large_output_externalization_enabled="true")
    for n, name in enumerate(("s1", "s2")):
        url = "data:image/png;base64," + base64.b64encode(random.Random(n).randbytes(30_000)).decode()
        parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}]
        home.runtime.announce(name, owner="local")
        home.runtime.ingest_list(name, [{"role": "user", "content": parts}], source="cli")
    assert len([*home.runtime.payloads.folder.rglob("*.z")]) == 2

    assert ask(home, "purge messages msg_1 apply").code == OK
    assert len([*home.runtime.payloads.folder.rglob("*.z")]) == 1
    assert "data:image" in str(home.runtime.whole_store.rows([2])[0].stored_json)


# -- a conversation that goes on -------------------------------------------------------------------------------
def operator(live: Live, words: str) -> command.Answer:
    return command.answer(words, replace(live.runtime.access(None, trusted=True), home=live.folder))


def test_the_hosts_list_brings_nothing_back(tmp_path):
    """The same list again, in this process and in the next one: nothing is stored twice, nothing is taken back."""
    live = Live(tmp_path)
    said = chat().turns(6)
    said[4]["content"] = SECRET
    live.take(said)
    operator(live, "purge messages msg_5 apply")

    for world in (live, live.restart()):
        world.take(said)
        world.take(said.turns(1, first=len(said)))
        assert SECRET not in "".join(str(each) for each in world.stored())
        assert len(world.stored()) == len(said)
        assert world.flagged(Flag.RETRACTED) == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_conversation_goes_on_after_a_purge(tmp_path, when):
    """Purged before or after its compaction: each message is covered once, and no later prompt says it."""
    live = Live(tmp_path)
    said = chat().turns(20)
    said[4]["content"] = f"question: {SECRET}"
    if when == "before":
        live.take(said)
        operator(live, "purge messages msg_5 apply")
    said = Chat(live.compact(said))
    if when == "after":
        operator(live, "purge messages msg_5 apply")
    for n in range(3):
        said = Chat(live.compact(said.turns(12, first=100 * (n + 1))))

    assert live.gaps(said) == ([], [])
    assert SECRET not in str(said)
    assert tokens_of(said) < 6000


def test_a_purged_message_in_the_tail_leaves_the_prompt_at_the_next_compaction(tmp_path):
    """The list shows it until then; tool calls keep their results."""
    live = Live(tmp_path)
    said = chat().turns(20).calls("x", arguments=f'{{"q": "{SECRET}"}}').results("x", text=SECRET).says("done")
    live.take(said)
    operator(live, f"purge matching '{SECRET}' apply")
    out = live.compact(said)

    assert SECRET not in str(out)
    assert [each["tool_call_id"] for each in out if each["role"] == "tool"] == ["x"]
    assert live.gaps(out) == ([], [])
    assert live.gaps(Chat(out).turns(1, first=900)) == ([], [])
    assert len(live.stored()) == len(said) + 2


def test_the_engine_goes_on_after_a_purge_by_another_process(tmp_path):
    """It has caches; the terminal has changed the file under it."""
    host = Host(tmp_path)
    said = chat().turns(4)
    said[6]["content"] = SECRET
    host.says(said)
    other = Home(tmp_path)
    ask(other, "purge messages msg_7,msg_8 apply")
    other.close()
    said.turns(2, first=50)
    host.says(said)
    host.ends_turn(said)

    assert [each["content"] for each in host.stored()[8:]] == [each["content"] for each in said[8:]]
    assert SECRET not in host.tool("lcm_grep", query="aardvark Zwickau")
    assert host.gaps(said) == (0, 0)
    host.close()


def test_a_healthy_archive_of_a_hundred_loses_a_part_by_date(tmp_path):
    """Everything before a date; what is younger stays byte for byte."""
    home = healthy(tmp_path / "home")
    home.raw("UPDATE messages SET said_at = 1000000 WHERE store_id <= 20")
    before = [row.stored_json for rows in home.runtime.store.row_batches(after=20) for row in rows]
    ask(home, "purge before 2001-01-01 apply")

    assert home.runtime.db.query(f"SELECT max(store_id) FROM messages WHERE flags & {Flag.PURGED}") == [(20,)]
    assert [row.stored_json for rows in home.runtime.store.row_batches(after=20) for row in rows] == before


def test_what_lies_in_a_damaged_block_goes_and_breaks_nothing(world):
    """Nobody can read it any more; what else the block holds stays as it is."""
    home = world
    home.raw("UPDATE messages SET envelope = 4711 WHERE store_id = 4")
    home.raw("UPDATE messages SET envelope = 4711 WHERE store_id = 5")
    done = ask(home, "purge messages msg_4 apply")

    assert done.code == OK, done.text
    assert home.runtime.db.query(f"SELECT store_id FROM messages WHERE flags & {Flag.PURGED}") == [(4,)]
    assert home.runtime.store.legible([4, 5, 6])[1] == [5]


def test_a_pin_of_what_was_purged_says_that_nothing_is_left(world):
    """It was told that the message is kept from now on."""
    ask(world, "purge messages msg_4 apply")
    refused = ask(world, "pin msg_4")

    assert (refused.code, refused.text) == (
        REFUSED,
        "Not done: msg_4 was purged: nothing is left of it that could be kept",
    )
    assert ask(world, "pin").data["messages"] == []
    assert ask(world, "pin msg_4 undo").code == OK


def test_a_purge_erases_no_file_that_the_database_names_elsewhere(world):
    """A database may have come from somewhere, and say that an earlier purge left any file of this machine."""
    precious = [world.home / "precious.txt", world.home / "precious.z"]
    for path in precious:
        path.write_text("keep me", encoding="utf-8")
    with world.runtime.db.transaction():
        Meta(world.runtime.db).note(purge._LEFT, {"copies": [str(precious[0])], "files": ["../../precious"]})
    ask(world, "purge messages msg_4 apply")

    assert [path.read_text(encoding="utf-8") for path in precious] == ["keep me"] * 2
    assert holds(world.home, SECRET) == []


def test_an_archive_in_a_summarys_place_is_no_longer_called_the_agents_words(world):
    """What is left of it was written by nobody."""
    facts = {"rung": ARCHIVE_RUNG, "checks": '{"archive": "mem://s1/x", "words": "the agent\'s"}', "model": ""}
    head = "[[memory archived handle=mem://s1/x range=1..2 messages=2 chars=10 tokens=3]]"
    text = f"{head}\nSummary: {SECRET}\nPreview: {SECRET}"
    made = world.runtime.dag.add(
        NewNode(
            1, 0, "provisional", text, "", 9, 9, (3, 4, 5), fingerprint(0, (3, 4, 5), variant="archive:x"), **facts
        ),
        now=1.0,
    )
    before = context_text("n", 1, [made], [], 9_000)
    ask(world, f"purge matching '{SECRET}' apply")
    after = context_text("n", 1, world.runtime.dag.nodes([made.node_id]), [], 9_000)

    assert "written by you" in before
    assert "written by you" not in after
    assert "what a purge left" in after
    assert head in after
    assert SECRET not in after


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("gehen wir über die Brücke", id="as it is"),
        pytest.param("gehen wir u\u0308ber die Bru\u0308cke", id="accents apart"),
        pytest.param("half \ud83d of it, über die Brücke", id="beside half a character"),
        pytest.param(r'{"went": "\u00dcber die Br\u00fccke"}', id="escaped"),
        pytest.param(json.dumps({"went": json.dumps("über die Brücke")}), id="escaped twice"),
    ],
)
def test_a_text_to_match_is_found_however_it_is_written(tmp_path: Path, said: str) -> None:
    """A person reads all of these as the same."""
    home = Home(tmp_path / "home")
    home.say("hello there", said)

    assert ask(home, "purge matching 'über die Brücke'").data["messages"] == ["msg_2"]


def test_a_text_with_quotes_is_found_in_json_that_is_a_text_of_json(tmp_path: Path) -> None:
    """As arguments of a tool are."""
    home = Home(tmp_path / "home")
    home.say("hello there", json.dumps({"typed": 'echo "the second bridge"'}))

    assert ask(home, """purge matching 'echo "the second bridge"'""").data["messages"] == ["msg_2"]


def test_words_beside_half_a_character_are_looked_for(tmp_path: Path) -> None:
    """Such a half is written in other ways in the index and in JSON."""
    home = Home(tmp_path / "home")
    home.say("hello there", "at the \ud83d second bridge", "really?", "yes: at the \ud83d second bridge")
    answer = ask(home, "purge messages msg_2 apply")

    assert answer.code == FOUND
    assert answer.data["certificate"]["still_said_in"] == ["msg_4"]


def test_an_archive_of_backups_is_unpacked_to_be_searched(tmp_path: Path) -> None:
    """One that is older than the rows that say it here, as after an import of the host's sessions, is not erased."""
    home = Home(tmp_path / "home")
    home.say("hello there", "and the same words come again " * 100 + SECRET)
    packed = backup.back_up(home.deps(), with_files=True).path
    os.utime(packed, (1.0, 1.0))
    home.runtime.store.packer.pack(newest=0, least_bytes=1)  # in other bytes than those in the archive
    answer = ask(home, "purge messages msg_2 apply")

    assert [each["holds"] > 0 for each in answer.data["certificate"]["files"] if each["path"] == str(packed)] == [True]
    assert answer.code == FOUND


def test_a_purge_that_finds_nothing_names_what_it_looked_for(world: Home) -> None:
    """A mistyped session would be taken for a purged one."""
    assert "fits `session s-typo`." in ask(world, "purge session s-typo").text


def test_a_kind_without_its_value_is_told_from_an_unknown_kind(world: Home) -> None:
    assert "`/lcm purge session` needs a value" in ask(world, "purge session").text
    assert "does not take 'people'" in ask(world, "purge people").text


@pytest.mark.parametrize("word", ["undoo", "apply-not"])
def test_a_word_behind_a_pin_that_is_not_undo_is_refused(world: Home, word: str) -> None:
    """A mistyped undo would pin."""
    answer = ask(world, f"pin msg_2 {word}")

    assert answer.code == REFUSED
    assert repr(word) in answer.text
    assert ask(world, "pin").data["messages"] == []


def test_the_note_on_a_purged_message_gives_the_purge_as_the_only_reason(world: Home) -> None:
    """It matched no pattern of LCM_IGNORE_MESSAGE_PATTERNS, and no secret was found in it."""
    ask(world, "purge messages msg_4 apply")
    said, data = explain.explain(world.deps(trusted=True), "msg_4")

    assert said["notes"] == "what it said was removed"
    assert "purged" in data["flags"]


def test_what_a_purged_conversation_cost_stays_without_its_name(world):
    """The name goes; a sum of all days is still right."""
    state_db(world.home)
    for name, requests in (("s1", 3), ("s2", 2)):
        world.runtime.costs.note(name, requests=requests)
    world.runtime.costs.asked("s1", model="qwen3:8b", provider="", local=True, prompt=10, cached=0, written=0)
    world.runtime.costs.folded("s1", 7, 1000, 100)
    world.runtime.costs.save()
    ask(world, "purge session s1 apply")
    found = ask(world, "cost").data

    assert [(row["session"], row["requests"], row["prompt"]) for row in found["days"]] == [("", 4, 10), ("s2", 2, 0)]
    assert world.runtime.db.query("SELECT count(*) FROM costs WHERE session_id = 's1'") == [(0,)]


def test_nothing_that_is_kept_names_a_conversation_that_went(world):
    """Neither plans, orders and claims nor the last exam; those of others stay."""
    gone, other = "a-name-of-somebody", "a-name-of-somebody-else"
    state_db(world.home)
    for name in (gone, other):
        world.say("one", "two", "three", session=name)
        Orders(world.runtime.db).rotate(Rotation(name))
        Orders(world.runtime.db).pull(name, ["msg_11"])
    ask(world, "exam", gone)
    world.runtime.health.keep({"folds": {name: [5, 1.0, "why", 10, 1.5] for name in (gone, other)}})
    kept = "SELECT key, value FROM meta UNION ALL SELECT name, '' FROM leases"
    before = [row for row in world.runtime.db.query(kept) if gone in str(row)]
    ask(world, f"purge session {gone} apply")
    after = [row for row in world.runtime.db.query(kept) if gone in str(row)]

    assert len(before) > len(after) > 3
    assert [row for row in after if other not in str(row)] == []
    assert Meta(world.runtime.db).value("folds") == {other: [5, 1.0, "why", 10, 1.5]}


@pytest.mark.parametrize("others", [0, 1])
def test_a_person_who_went_is_named_no_more(world, others):
    """Not by a choice or a problem either; the choice stays where another conversation of theirs does."""
    state_db(world.home)
    for name in ("gone", "left")[: 1 + others]:
        session = world.runtime.sessions.open(name, now=1.0, platform="telegram", principal="telegram:dm:777")
        world.say("one", session=session.session_id)
    Orders(world.runtime.db).say_notices("telegram:dm:777", wanted=False)
    world.runtime.health.degraded("owner of gone", "an agent of telegram:dm:778 works in a session of telegram:dm:777")
    world.runtime.health.save()
    ask(world, "purge session gone apply")
    kept = "SELECT key FROM meta UNION ALL SELECT topic || message FROM health UNION ALL SELECT principal FROM sessions"

    assert [row for row in world.runtime.db.query(kept) if "owner of gone" in str(row)] == []
    assert len([row for row in world.runtime.db.query(kept) if "telegram:dm:777" in str(row)]) == 2 * others


def test_what_was_said_of_a_purged_fact_goes_too(tmp_path):
    """A correction of it, and the quotation of it in the journal; marks of other facts stay."""
    home = Home(tmp_path / "home")
    home.say(f"Always deploy where {SECRET}.", "noted", "Always use tabs in this project.")
    for fact in ask(home, "ledger", "s1").data["entries"]:
        ask(home, f"ledger correct {fact['entry']} it is {fact['entry']} aardvarks", "s1")
    assert len(home.runtime.ledger.marks([1])) == 2
    ask(home, "purge messages msg_1 apply")

    assert [name.partition(".")[0] for name in home.runtime.ledger.marks([1])] == ["3"]
    assert holds(home.home, SECRET) == []
    assert holds(home.home, "it is 1.") == []


def test_a_purge_needs_no_notes_that_are_damaged(tmp_path):
    """Nobody can read what they said of facts; it may have been what is to go."""
    home = Home(tmp_path / "home")
    home.say(f"I am called {SECRET}.", "noted")
    with home.runtime.db.transaction():
        home.runtime.db.execute("INSERT INTO meta(key, value) VALUES ('ledger_marks:7', '{1.ab: half')")
    ask(home, "purge messages msg_1 apply")

    assert home.runtime.db.query("SELECT value FROM meta WHERE key = 'ledger_marks:7'") == [("{}",)]
    assert holds(home.home, SECRET) == []
