"""Payload files: there before any row refers to them, written once, private, and given back exactly."""

from __future__ import annotations

import base64
import json
import os
import random
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds.home import Home
from worlds.process import World, chat, tokens_of

from hermes_lcm.command import run
from hermes_lcm.errors import NotFound, StoreError
from hermes_lcm.ops.doctor.file import payload_files
from hermes_lcm.ops.doctor.repair import repair
from hermes_lcm.recall.access import Payload
from hermes_lcm.records import Flag, NewNode
from hermes_lcm.search.scope import Rights
from hermes_lcm.storage.payloads import Payloads
from hermes_lcm.text import blobs
from hermes_lcm.tools import call

BLOB = base64.b64encode(random.Random(3).randbytes(60_000)).decode()
URI = f"data:image/png;base64,{BLOB}"
LITERAL = "[lcm:file file_" + "ab" * 8 + " kind=base64 mime=image/png bytes=5 sha256=" + "ab" * 32 + "]"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def opened(world: World, name: str, principal: str | None = None) -> Payload | None:
    """A file as a tool opens it, or None."""
    try:
        return world.runtime.access(None, Rights(principal)).payload(name)
    except NotFound:
        return None


def files(world: World) -> list[Path]:
    return sorted(path for path in world.runtime.payloads.folder.rglob("*") if path.is_file())


def whole(world: World) -> list[dict[str, Any]]:
    """Everything that is stored, as the host said it."""
    return [row.stored_json for rows in world.runtime.whole_store.row_batches() for row in rows]


SHAPES = {
    "text": chat().user(f"look {URI} and say"),
    "part": chat().user([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": URI}}]),
    "arguments": chat().calls(
        "a", arguments=json.dumps({"data": base64.encodebytes(b"x1Y" * 9 + os.urandom(9000)).decode()})
    ),
    "tool result": chat().calls("a").results("a", text=json.dumps({"png": BLOB})),
    "private key of the host": chat().user("hi", reasoning_details=[{"encrypted": BLOB}]),
    "bytes and tuples": chat().user("hi", odd=(1, b"x", BLOB)),
    "with a look-alike": chat().user(f"{LITERAL} {URI} {LITERAL}"),
    "only a look-alike": chat().user(f"{LITERAL} is what it says"),
}


@pytest.mark.parametrize("messages", SHAPES.values(), ids=SHAPES)
def test_the_host_s_message_comes_back_exactly(messages: Any, world: World) -> None:
    """Wherever in it the payload stood, and however the text around it looks."""
    world.take(messages)
    assert whole(world) == list(messages)


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "only a look-alike"])
def test_the_row_is_small(name: str, world: World) -> None:
    """The database does not hold the payload."""
    world.take(SHAPES[name])
    rows = world.db.query("SELECT max(length(envelope)) FROM messages")

    assert rows[0][0] < 1500


def test_a_replay_is_recognised(world: World) -> None:
    """Identity is that of what the host shows, before and after a restart."""
    live = chat().user(f"look {URI}").says("seen")
    world.take(live)

    assert (world.take(live.copy()).stored, world.restart().take(live.copy()).stored) == (0, 0)


def test_glued_messages_are_recognised(world: World) -> None:
    """Where the host joins two messages, one of them with a payload."""
    live = chat().user(f"look {URI}").user("and this")
    world.take(live)

    joined = chat().user(f"look {URI}\n\nand this").says("ok")
    assert world.restart().take(joined).stored == 1


def test_equal_payloads_are_one_file(world: World) -> None:
    """Named by content."""
    world.take(chat().user(f"a {URI}").says("x").user(f"b {URI}"))
    assert len(files(world)) == 1


def test_files_are_private(world: World) -> None:
    """0600, in folders of 0700, with nothing left over from writing."""
    world.take(chat().user(URI))
    (file,) = files(world)

    assert [path.stat().st_mode & 0o777 for path in (file, file.parent, file.parent.parent)] == [0o600, 0o700, 0o700]
    assert zlib.decompress(file.read_bytes()).decode() == URI


@pytest.mark.parametrize("number", range(1, 8), ids="statement={}".format)
def test_a_crash_leaves_no_row_without_its_file(number: int, world: World) -> None:
    """At most a file without a row; the next try stores the message once."""
    live = chat().user(f"look {URI}")
    world.session()
    with world.failing_at(number):
        try:
            world.take(live)
        except StoreError:
            assert world.counts()["messages"] == 0
    world.take(live)

    assert whole(world) == list(live)
    assert world.runtime.payloads.survey().missing == ()


def test_a_folder_that_cannot_be_written_keeps_the_payload_inline(world: World) -> None:
    """And says so until a file could be written again."""
    world.runtime.payloads.folder.write_text("in the way")
    live = chat().user(f"look {URI}")
    world.take(live)

    assert world.stored() == list(live)
    assert [each.topic for each in world.health.problems()] == ["payload files"]
    world.runtime.payloads.folder.unlink()
    world.take(live.user(f"more {URI}"))
    assert world.health.problems() == []


def test_orphans_are_swept_and_others_are_not(world: World) -> None:
    """What a crash left behind."""
    world.take(chat().user(URI))
    kept = files(world)
    ref = world.runtime.payloads.keep(BLOB, blobs.BASE64, "x/y")
    assert ref is not None
    os.utime(world.runtime.payloads.path(ref.sha), (1, 1))

    assert world.runtime.payloads.sweep() == 1
    assert files(world) == kept


def test_a_file_that_is_being_written_is_no_orphan(world: World) -> None:
    """Its row may come yet."""
    world.runtime.payloads.keep(BLOB, blobs.BASE64, "x/y")
    assert world.runtime.payloads.sweep() == 0


def test_a_damaged_file_is_not_believed(world: World) -> None:
    """The placeholder stays, and health names it."""
    world.take(chat().user(URI))
    (file,) = files(world)
    file.write_bytes(zlib.compress(b"something else"))

    assert "[lcm:file" in whole(world)[0]["content"]
    assert [each.topic for each in world.health.problems()] == [f"payload file_{file.stem[:16]}"]


@pytest.mark.parametrize("left", [b"", b"no file of ours"], ids=["empty", "other"])
def test_a_damaged_file_is_written_again_with_the_next_message_that_shows_it(left: bytes, world: World) -> None:
    """What is stored now comes back, and so does what was stored before."""
    world.take(live := chat().user(f"look {URI}"))
    files(world)[0].write_bytes(left)
    world = world.restart()
    world.take(live.says("ok").user(f"again {URI}"))

    assert whole(world) == list(live)


@pytest.mark.parametrize("step", ["keep", "refer"])
def test_a_file_that_another_process_purges_while_it_is_stored_again_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Between its writing and its row: what the new message shows is written again, what the old one said is gone."""
    world, other, plain = Home(tmp_path), Home(tmp_path), getattr(Payloads, step)
    world.runtime.ingest_list("s1", live := chat().user(f"look {URI}").says("ok"), source="cli")

    def purged_then(*given: Any) -> Any:
        done = plain(*given)
        monkeypatch.undo()
        run("purge messages msg_1 apply", other.deps(trusted=True))
        return done

    monkeypatch.setattr(Payloads, step, purged_then)
    world.runtime.ingest_list("s1", live.user(f"again {URI}"), source="cli")
    stored = world.restart().runtime.whole_store.rows([1, 3])

    assert "purged" in stored[0].text
    assert stored[1].stored_json == live[2]


def test_every_damaged_file_is_named(world: World) -> None:
    """A sound one that is read in between takes no name away; one that is put back takes its own."""
    live = chat().user(URI).user(f"{URI[:-8]}AAAA").user(f"{URI[:-8]}BBBB")
    world.take(live)
    lost = files(world)[:2]
    kept = lost[0].read_bytes()
    for file in lost:
        file.write_bytes(b"garbage")
    whole(world)
    named = {f"payload file_{file.stem[:16]}" for file in lost}
    found = world.runtime.payloads.survey(deep=True)

    assert {each.topic for each in world.health.problems()} == named
    assert set(found.damaged) == {file.stem for file in lost}
    assert world.runtime.payloads.survey().damaged == ()
    lost[0].write_bytes(kept)
    whole(world)
    assert {each.topic for each in world.health.problems()} == {f"payload file_{lost[1].stem[:16]}"}


def test_a_lost_file_that_no_message_shows_is_no_problem_any_more(world: World) -> None:
    """Its session was removed: nobody could ever read it again."""
    world.take(chat().user(URI))
    (file,) = files(world)
    kept = file.read_bytes()
    file.unlink()
    whole(world)
    assert [each.topic for each in world.health.problems()] == [f"payload file_{file.stem[:16]}"]
    file.write_bytes(kept)
    with world.runtime.db.transaction():
        world.runtime.db.execute("DELETE FROM payload_refs")
    world.runtime.payloads.survey()

    assert not world.health.problems()


def test_a_file_that_was_being_written_at_a_crash_is_swept(world: World) -> None:
    """Once it is old enough."""
    world.take(chat().user(URI))
    unfinished = files(world)[0].parent / ".abc.z.1.2"
    unfinished.write_bytes(b"half")
    assert world.runtime.payloads.sweep() == 0
    os.utime(unfinished, (1, 1))

    assert world.runtime.payloads.sweep() == 1
    assert not unfinished.exists()
    assert whole(world) == [chat().user(URI)[0]]


def test_a_missing_file_is_found_by_the_survey(world: World) -> None:
    """Named by its digest."""
    world.take(chat().user(URI))
    files(world)[0].unlink()

    assert len(world.runtime.payloads.survey().missing) == 1


# -- who may read ----------------------------------------------------------------------------------------
def name_of(world: World) -> str:
    return f"file_{files(world)[0].stem[:16]}"


def test_a_file_opens_for_whom_the_message_is_readable(world: World) -> None:
    """The text, and which messages show it."""
    world.take(chat().user(f"look {URI}"))
    found = opened(world, name_of(world), "session:s")

    assert found is not None
    assert (found.text, found.facts["messages"]) == (URI, ["msg_1"])


def test_a_file_stays_shut_for_everybody_else(world: World) -> None:
    """Knowing its name is not enough."""
    world.take(chat().user(f"look {URI}"))
    assert opened(world, name_of(world), "telegram:7") is None


def test_an_equal_digest_opens_nothing(world: World) -> None:
    """Images do not count for identity: the same words with another picture are another message to files."""
    say = lambda uri: [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": uri}}]  # noqa: E731
    other = "data:image/png;base64," + base64.b64encode(random.Random(9).randbytes(9000)).decode()
    world.sessions.open("s2", now=1.0, platform="telegram", host_key="agent:main:telegram:dm:7")
    world.ingest.ingest_list(world.session("s2"), chat().user(say(other)), source="test")
    theirs = name_of(world)
    world.take(chat().user(say(URI)))

    assert opened(world, theirs, "local") is None


@pytest.mark.parametrize("name", ["file_", "file_zz", "file_../../etc/passwd", "file_abc", "file_" + "0" * 16])
def test_nonsense_opens_nothing(name: str, world: World) -> None:
    """No path is made of a name."""
    assert opened(world, name) is None


# -- large outputs ---------------------------------------------------------------------------------------
LARGE = {"large_output_externalization_enabled": True, "large_output_externalization_threshold_chars": 2000}


def test_a_large_text_is_described_in_its_row(tmp_path: Path) -> None:
    """Placeholder and description; the text itself is in the file, the index and every answer."""
    world = World(tmp_path, **LARGE)
    text = "2026-01-02 10:00:00 start\n" * 300 + "2026-01-02 10:00:01 ERROR quokka vanished\n"
    live = chat().calls("a").results("a", text=text)
    world.take(live)
    stored = world.stored()[1]["content"]

    assert stored.startswith("[lcm:file file_")
    assert "ERROR quokka vanished" in stored
    assert len(stored) < 2400
    assert whole(world) == list(live)
    assert world.db.query("SELECT count(*) FROM message_index WHERE message_index MATCH 'quokka'")[0][0] == 1


def test_a_rebuilt_index_still_finds_what_is_in_files(tmp_path: Path) -> None:
    """The index is a cache of what was said, not of what the row holds."""
    world = World(tmp_path, **LARGE)
    world.take(chat().calls("a").results("a", text="plain words\n" * 400 + "then a wombat\n" + "plain words\n" * 400))
    world.runtime.rebuild_indexes()

    assert world.db.query("SELECT count(*) FROM message_index WHERE message_index MATCH 'wombat'")[0][0] == 1


def test_a_large_text_with_a_payload_comes_back_exactly(tmp_path: Path) -> None:
    """A file in a file."""
    world = World(tmp_path, **LARGE)
    live = chat().calls("a").results("a", text=f"{LITERAL} " + "words and words " * 300 + URI + " more words" * 300)
    world.take(live)

    assert whole(world) == list(live)
    assert len(files(world)) == 3


def test_answers_of_our_own_tools_stay_inline(tmp_path: Path) -> None:
    """Or reading a file would make a file, and so on."""
    world = World(tmp_path, **LARGE)
    world.take(chat().calls("a", tool="lcm_expand").results("a", text=URI, tool="lcm_expand"))

    assert files(world) == []


def test_compaction_reads_the_description(tmp_path: Path) -> None:
    """The summariser gets what the row says, not the bytes."""
    world = World(tmp_path)
    live = chat().turns(3).user(f"look {URI}").says("nice").turns(60, first=3)
    assert tokens_of(world.compact(live)) < tokens_of(live)
    said = "".join(line.text for task in world.model.tasks for line in task.lines)
    said += "".join(node.text for node in world.nodes())  # what is tiny without its bytes is covered by its own words

    assert "[lcm:file file_" in said
    assert BLOB[:200] not in said


piece = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [URI, BLOB[:4000], LITERAL, "[lcm:file ", json.dumps(base64.encodebytes(BLOB[:4000].encode()).decode())]
    ),
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(piece, max_size=5).map("".join), min_size=1, max_size=4), st.booleans())
def test_any_conversation_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, said: list[str], large: bool
) -> None:
    """Arbitrary text with payloads in it, with and without files for large texts."""
    world = World(tmp_path_factory.mktemp("w"), **(LARGE if large else {}))
    live = chat()
    for n, text in enumerate(said):
        live.user(f"{n}{text}").says([{"type": "text", "text": text}, {"type": "x", "deep": [{"y": text}]}])
    world.take(live)

    assert whole(world) == list(live)
    assert all(
        not row.head.flags & Flag.EXTERNALISED for rows in world.runtime.whole_store.row_batches() for row in rows
    )


# -- through the tools -------------------------------------------------------------------------------------
def ask(world: World, name: str, **args: Any) -> dict[str, Any]:
    """One tool call of the local user."""
    runtime = world.runtime
    access = runtime.access(runtime.find_session("s"), Rights())
    answer: dict[str, Any] = json.loads(call(access, name, {"format": "json", **args}).text)
    assert "error" not in answer, answer
    return answer


def test_all_messages_that_show_a_file_are_named(world: World) -> None:
    """Twenty in an answer, how many there are, and where the next ones are."""
    live = chat()
    for n in range(45):
        live.user(f"look {n} {URI}").says(f"seen {n}")
    world.take(live)
    page = ask(world, "lcm_describe", id=name_of(world))
    expanded = ask(world, "lcm_expand", externalized_ref=name_of(world))
    named, pages = list(page["messages"]), 1
    while "messages_continue_with" in page:
        handle = page["messages_continue_with"]
        page = ask(world, handle["tool"], id=handle["id"], source_offset=handle["source_offset"])
        named, pages = named + page["messages"], pages + 1

    assert named == [f"msg_{n}" for n in range(1, 91, 2)]
    assert (pages, page["messages_total"]) == (3, 45)
    assert (expanded["messages"], expanded["messages_total"]) == (named[:20], 45)
    assert expanded["messages_continue_with"]["source_offset"] == 20


def paged(world: World, **args: Any) -> str:
    """All pages of an expansion, joined."""
    text, offset = "", 0
    while True:
        page = ask(world, "lcm_expand", content_offset=offset, **args)
        text += page["content"]
        if not page["content_truncated"]:
            return text
        offset = page["next_content_offset"]


def test_a_message_is_paged_as_it_was_said(world: World) -> None:
    """With its payload in its place."""
    world.take(chat().user(f"before {URI} after"))
    assert paged(world, store_id=1) == f"before {URI} after"


def test_a_file_is_paged_by_its_reference(world: World) -> None:
    """The list of a session names it."""
    world.take(chat().user(f"before {URI} after"))
    item = ask(world, "lcm_load_session", session_id="s")["messages"][0]

    assert paged(world, externalized_ref=item["externalized"][0]["externalized_ref"]) == URI


def test_a_list_ends_in_front_of_a_payload_and_goes_on_exactly_there(world: World) -> None:
    """Bytes do not fill the reader's window; the handle gives them."""
    world.take(chat().user(f"before {URI} after"))
    item = ask(world, "lcm_load_session", session_id="s")["messages"][0]
    rest = ask(world, "lcm_expand", store_id=1, content_offset=item["next_content_offset"])

    assert item["content"] == "before "
    assert rest["content"].startswith(URI[:1000])


def test_the_sources_of_a_summary_page_through_a_payload(world: World) -> None:
    """Every page moves on; joined they are what was said."""
    live = chat().user(f"before {URI} after").says("fine")
    ids = [entry.ids[0] for entry in world.take(live).entries]
    new = NewNode(1, 0, "verified", "text", "", 5, 50, tuple(ids), b"f")
    node = world.dag.add(new, now=1.0)
    got: dict[int, str] = {}
    page = {"next_source_offset": 0, "next_content_offset": 0, "has_more": True}
    for _ in range(40):
        if not page["has_more"]:
            break
        answer = ask(
            world, "lcm_expand", node_id=node.node_id, source_offset=page["next_source_offset"],
            content_offset=page["next_content_offset"] or 0,
        )  # fmt: skip
        for item in answer["expanded"]:
            got[item["store_id"]] = got.get(item["store_id"], "") + item["content"]
        page = answer["pagination"]

    assert list(got.values()) == [f"before {URI} after", "fine"]


def test_the_doctor_names_what_is_missing(tmp_path: Path) -> None:
    """And what lies there for nothing, which repair removes."""
    home = Home(tmp_path / "home")
    home.say(URI)
    payloads = home.runtime.payloads
    ref = payloads.keep(BLOB, blobs.BASE64, "x/y")
    assert ref is not None
    os.utime(payloads.path(ref.sha), (1, 1))
    deps = replace(home.deps(), payloads=payloads)
    before = payload_files(deps, False)
    notes = repair(deps).notes
    (kept,) = payloads.folder.rglob("*.z")
    after = payload_files(deps, False)
    kept.unlink()

    gone = payload_files(deps, False)
    assert [before.status, after.status, gone.status] == ["warn", "pass", "fail"]
    assert f"file_{kept.stem[:16]}" in gone.detail
    kept.write_bytes(b"garbage")
    assert payload_files(deps, False).status == "pass"
    assert f"file_{kept.stem[:16]}" in payload_files(deps, True).detail
    assert notes == ("removed, because no message shows them: 1 payload file",)
