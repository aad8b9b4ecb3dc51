"""A conversation leaves as a file and comes back exactly, once."""

from __future__ import annotations

import base64
import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.home import Home, digest, healthy

from hermes_lcm.command import OK, answer
from hermes_lcm.errors import BadRequest, NotFound
from hermes_lcm.importers import export, transcripts
from hermes_lcm.importers.ledger import Ledger
from hermes_lcm.ingest.transcript import Transcripts
from hermes_lcm.ops import backup
from hermes_lcm.ops.doctor.checks import doctor
from hermes_lcm.recall.access import Access
from hermes_lcm.records import Flag
from hermes_lcm.session import Sessions
from hermes_lcm.storage.files import silent
from hermes_lcm.store import MessageStore

AWKWARD = (
    "plain",
    "two\nlines\r\n",
    'quotes " and \\ and "message": {}',
    "日本語 🦓",
    "\u2028 line separator",
    "",
    "x" * 5000,
)


@pytest.fixture
def world(tmp_path: Path) -> Home:
    world = Home(tmp_path / "here")
    world.say(*AWKWARD)
    world.runtime.store.flag([2], add=Flag.RETRACTED)
    return world


def elsewhere(tmp_path: Path) -> Access:
    """Another home, at its terminal."""
    return Home(tmp_path / "there").deps(None, trusted=True)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """An export without what a database gives by itself."""
    out = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [{key: value for key, value in each.items() if key not in ("store_id", "revises")} for each in out]


def test_an_export_comes_back_exactly(world: Home, tmp_path: Path) -> None:
    """Every stored JSON, time, flag, source and place; exporting it again gives the same file."""
    made = export.export(world.deps(), None, "jsonl")
    deps = elsewhere(tmp_path)
    transcripts.take_in(deps, made.path)
    again = export.export(deps, "s1", "jsonl")

    assert lines_of(again.path) == lines_of(made.path)
    assert doctor(deps, deep=True)["counts"]["fail"] == 0


def test_an_export_is_private_and_whole(world: Home) -> None:
    """Readable by its owner, and no half of it is left behind."""
    made = export.export(world.deps(), None, "jsonl")

    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert [path.name for path in made.path.parent.iterdir()] == ["s1.jsonl"]
    assert made.messages == len(AWKWARD)


def test_markdown_is_the_thread_as_it_reads(world: Home) -> None:
    """Without what was taken back."""
    text = export.export(world.deps(), None, "markdown").path.read_text(encoding="utf-8")

    assert "## user · msg_1" in text
    assert "msg_2 " not in text
    assert "日本語 🦓" in text


def test_the_archive_is_not_changed_by_an_export(world: Home) -> None:
    """Looking is looking."""
    world.close()
    before = digest(world.path)
    export.export(world.deps(), None, "jsonl")
    world.close()

    assert digest(world.path) == before


def test_only_what_may_be_read_is_exported(tmp_path: Path) -> None:
    """A chat exports its own conversation and no other."""
    world = Home(tmp_path)
    for name in ("anna", "bert"):
        world.runtime.announce(name, platform="telegram", host_key=f"agent:main:telegram:dm:{name}")
        world.say("secret", session=name, platform="telegram")

    assert export.export(world.deps("anna"), None, "jsonl").messages == 1
    with pytest.raises(NotFound):
        export.export(world.deps("anna"), "bert", "jsonl")


@pytest.mark.parametrize(("typed", "ending"), [("Markdown", ".md"), ("s1 JSONL", ".jsonl")])
def test_a_format_may_be_written_in_capitals(typed: str, ending: str, tmp_path: Path) -> None:
    """It is no session's name then."""
    world = healthy(tmp_path)
    done = answer(f"export {typed}", world.deps())

    assert (done.code, Path(done.data["path"]).suffix) == (OK, ending), done.text


def test_an_export_without_any_conversation_is_told_so(tmp_path: Path) -> None:
    """Not that there is no session called None."""
    deps = replace(healthy(tmp_path).deps(), session=None, trusted=True)
    with pytest.raises(NotFound, match="no conversation is stored yet"):
        export.export(deps, None, "jsonl")


def test_a_database_of_ours_is_no_file_to_import(world: Home, tmp_path: Path) -> None:
    """Who tries is told of the restore, which is what takes one."""
    copy = backup.back_up(world.deps()).path
    said = answer(f"import '{copy}'", elsewhere(tmp_path)).text

    assert f"`hermes lcm restore {copy}` would replace" in said


def test_importing_twice_is_importing_once(world: Home, tmp_path: Path) -> None:
    """The second time finds everything there and makes no backup."""
    made = export.export(world.deps(), None, "jsonl")
    deps = elsewhere(tmp_path)
    first, second = transcripts.take_in(deps, made.path), transcripts.take_in(deps, made.path)

    assert (first.present, first.added) == (0, len(AWKWARD))
    assert (second.present, second.added, second.backup) == (len(AWKWARD), 0, None)


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", ["export", "transcript"])
@pytest.mark.parametrize("at", ["open", "last_seq", "storing"])
def test_two_imports_of_one_file_at_once_store_each_message_once(
    at: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process does it while the first one is at it: before it reads what is there, then, and between its batches."""
    monkeypatch.setattr(transcripts, "_BATCH", 30)
    path = export.export(healthy(tmp_path / "here").deps(), None, "jsonl").path
    if kind == "transcript":
        path = tmp_path / "talk.jsonl"
        path.write_text("".join(json.dumps({"role": "user", "content": f"words {n}"}) + "\n" for n in range(100)))
    deps, other = elsewhere(tmp_path), elsewhere(tmp_path)
    left = [other]

    def meanwhile(what: str = "", *_: Any) -> None:
        if left and what in ("", "storing"):
            transcripts.take_in(left.pop(), path)

    for of, name in ((Sessions, "open"), (MessageStore, "last_seq")):
        if name == at:
            real = getattr(of, name)
            monkeypatch.setattr(of, name, lambda *args, real=real, **keys: (real(*args, **keys), meanwhile())[0])
    transcripts.take_in(deps, path, meanwhile if at == "storing" else silent)
    said = [row.stored_json["content"] for rows in deps.store.row_batches() for row in rows]

    assert not left
    assert said == [line.message["content"] for line in transcripts.read_file(path).conversations[0].lines]


def test_a_dry_run_creates_nothing(world: Home, tmp_path: Path) -> None:
    """Not even the database."""
    made = export.export(world.deps(), None, "jsonl")
    deps = elsewhere(tmp_path)
    transcripts.plan(deps, made.path)

    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("stop", [1, 2])
def test_an_interrupted_import_goes_on(stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are facts: what is stored stays, the rest follows."""
    monkeypatch.setattr(transcripts, "_BATCH", 30)
    made = export.export(healthy(tmp_path / "here").deps(), None, "jsonl")
    deps = elsewhere(tmp_path)
    calls = []

    def interrupted(what: str, _done: int, _total: int) -> None:
        calls.append(what)
        if calls.count("storing") == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        transcripts.take_in(deps, made.path, interrupted)
    assert deps.store.count() == 30 * stop
    assert transcripts.take_in(deps, made.path).added == 100 - 30 * stop
    assert lines_of(export.export(deps, "s1", "jsonl").path) == lines_of(made.path)


def test_another_conversation_under_the_same_name_is_refused(world: Home, tmp_path: Path) -> None:
    """An import never mixes two."""
    made = export.export(world.deps(), None, "jsonl")
    other = Home(tmp_path / "there")
    other.say("something", "else")

    with pytest.raises(BadRequest, match="other messages"):
        transcripts.take_in(other.deps(None, trusted=True), made.path)
    assert other.runtime.store.count() == 2


def test_an_incomplete_export_is_refused(world: Home, tmp_path: Path) -> None:
    """A file that was cut off is no conversation."""
    made = export.export(world.deps(), None, "jsonl")
    lines = made.path.read_text(encoding="utf-8").split("\n")
    made.path.write_text("\n".join(lines[:4]), encoding="utf-8")

    with pytest.raises(BadRequest, match="not complete"):
        transcripts.plan(elsewhere(tmp_path), made.path)


TRANSCRIPT = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(json.dumps(each) for each in TRANSCRIPT),
        json.dumps(TRANSCRIPT),
        json.dumps(TRANSCRIPT, indent=2),
        json.dumps({"messages": TRANSCRIPT}),
        json.dumps({"messages": TRANSCRIPT}, indent=2),
    ],
    ids=["jsonl", "list", "indented-list", "object", "indented-object"],
)
def test_transcripts_of_openai_messages_are_taken_in(text: str, tmp_path: Path) -> None:
    """Whatever tool wrote them."""
    path = tmp_path / "chat.json"
    path.write_text(text)
    deps = elsewhere(tmp_path)
    done = transcripts.take_in(deps, path)

    assert (done.sessions, done.added) == (("import:chat",), 2)
    assert [row.text for row in deps.store.page("import:chat", after=0, limit=9)] == ["hello", "hi"]


@pytest.mark.parametrize(
    "text", ["", "{", "[1, 2]", "not json", '{"a": 1}'], ids=["empty", "cut", "numbers", "prose", "other"]
)
def test_a_file_without_messages_is_refused(text: str, tmp_path: Path) -> None:
    """In words."""
    path = tmp_path / "chat.json"
    path.write_text(text)

    with pytest.raises(BadRequest):
        transcripts.plan(elsewhere(tmp_path), path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"role": "user", "content": "a"}\n{"role": "user", "content": }',
            """line 2: '{"role": "user", "content": }' is not JSON""",
        ),
        ('{"role": "user", "content": "a"}\n\n17', "line 3: 17 is not a message"),
        ('{"role": "user"}\n{"rolle": "user"}', 'line 2: {"rolle": "user"} is not a message'),
        ('[{"role": "user"}, {"role": null}]', 'message 2: {"role": null} is not a message'),
        ('{"messages": [{"role": "user"}, "hello"]}', 'line 1, message 2: "hello" is not a message'),
        ('{"messages": {"role": "user"}}', "has no list of messages"),
        ('{\n "messages": [\n 5 ]}', "message 1: 5 is not a message"),
        ("[1, 2", "no JSON document"),
        ('{"lcm_export": 3, "sessions": []}', "format 3; this release reads 1 to 2"),
        ('{"lcm_export": 2, "conversations": [{"rows": 0}]}', "names no sessions"),
        ('{"lcm_export": 1, "messages": 1, "sessions": [{"session_id": "s"}]}\n{"seq": 1}', "line 2: {"),
    ],
    ids=["json", "number", "key", "role", "text", "object", "document", "cut", "newer", "nameless", "line"],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    """So that somebody can mend the file."""
    path = tmp_path / "chat.json"
    path.write_text(text)

    with pytest.raises(BadRequest) as refused:
        transcripts.plan(elsewhere(tmp_path), path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)


def test_each_line_with_a_list_is_a_conversation(tmp_path: Path) -> None:
    """The files that models are trained with."""
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(json.dumps({"messages": [{"role": "user", "content": f"hello {n}"}]}) for n in range(3)))
    deps = elsewhere(tmp_path)
    done = transcripts.take_in(deps, path)

    assert done.sessions == ("import:many:1", "import:many:2", "import:many:3")
    assert [deps.store.page(name, after=0, limit=9)[0].text for name in done.sessions] == [
        "hello 0",
        "hello 1",
        "hello 2",
    ]
    assert transcripts.take_in(deps, path).added == 0


def test_an_export_of_the_format_before_is_read(world: Home, tmp_path: Path) -> None:
    """Files of an older release stay good."""
    made = export.export(world.deps(), None, "jsonl")
    head, *lines = made.path.read_text(encoding="utf-8").split("\n")
    about = json.loads(head)
    old = {"lcm_export": 1, "messages": about["messages"], "sessions": about["conversations"][0]["sessions"]}
    made.path.write_text("\n".join([json.dumps(old), *lines]), encoding="utf-8")

    assert transcripts.take_in(elsewhere(tmp_path), made.path).added == len(AWKWARD)


# -- branches ------------------------------------------------------------------------------------------
def turns(*texts: str) -> list[dict[str, Any]]:
    """User and assistant in turn."""
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


def branched(home: Path) -> Home:
    """A parent that takes something back before and after a branch begins; a branch of the branch."""
    world = Home(home)
    runtime = world.runtime
    runtime.announce("a", platform="cli")
    first = [f"parent {n}" for n in range(6)]
    runtime.ingest_list("a", turns(*first, "parent 6", "parent 7"))
    runtime.ingest_list("a", turns(*first, "instead of 6", "yes"))
    runtime.announce("b", parent="a", origin="branch", platform="cli")
    runtime.ingest_list("b", turns(*first, "instead of 6", "yes", "in the branch", "b"))
    runtime.ingest_list("a", turns(*first[:2], "all of it again", "well"))
    runtime.announce("c", parent="b", origin="branch", platform="cli")
    runtime.ingest_list("c", turns(*first, "instead of 6", "yes", "in the branch", "in the second branch"))
    return world


def thread(deps: Access, session: str) -> list[str]:
    """What a session shows."""
    found = deps.sessions.find(session)
    assert found is not None
    ids = [item.store_id for item in Transcripts(deps.store, deps.sessions).expected(found, None)]
    return [row.text for row in deps.store.rows(ids)]


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_a_branch_comes_back_with_what_it_inherits(name: str, tmp_path: Path) -> None:
    """Its thread, its parents' rows up to where it began, once; and exporting it again gives the same file."""
    here = branched(tmp_path / "here").deps(name)
    made = export.export(here, None, "jsonl")
    deps = elsewhere(tmp_path)
    transcripts.take_in(deps, made.path)

    assert thread(deps, name) == thread(here, name)
    assert lines_of(export.export(deps, name, "jsonl").path)[1:] == lines_of(made.path)[1:]
    assert transcripts.take_in(deps, made.path).added == 0


def test_branches_of_one_parent_share_it(tmp_path: Path) -> None:
    """Importing the parent, then its branches: no row twice, and all of them go on where they were."""
    here = branched(tmp_path / "here")
    paths = [export.export(here.deps(name), None, "jsonl").path for name in "abc"]
    other = Home(tmp_path / "there")
    for path in paths:
        transcripts.take_in(other.deps(None, trusted=True), path)

    assert other.runtime.store.count() == here.runtime.store.count()
    for name in "abc":
        shown = thread(here.deps(name), name)
        assert thread(other.deps(name), name) == shown
        assert other.runtime.ingest_list(name, turns(*shown, "go on")).stored == 1


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_markdown_of_a_branch_is_what_the_branch_shows(name: str, tmp_path: Path) -> None:
    """Not what its parent took back since, and not what it had taken back before."""
    deps = branched(tmp_path).deps(name)
    text = export.export(deps, None, "markdown").path.read_text(encoding="utf-8")

    assert [line for line in text.split("\n") if line and not line.startswith("#")][1:] == thread(deps, name)


def test_markdown_shows_an_edited_message_once(tmp_path: Path) -> None:
    """As it reads now, where it stood."""
    world = Home(tmp_path)
    world.say("one", "two", "three", "four")
    world.runtime.ingest.forget_all()
    world.runtime.ingest_list("s1", turns("one", "two, edited", "three", "four"))
    text = export.export(world.deps(), None, "markdown").path.read_text(encoding="utf-8")

    assert text.count("two, edited") == 1
    assert "\ntwo\n" not in text
    assert text.index("two, edited") < text.index("three")


# -- everything a row may have -------------------------------------------------------------------------
URI = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 20).decode()


def whole(world: Home) -> Access:
    """The parts as ``hermes lcm`` has them: with payload files and the filters."""
    return replace(world.deps(None, trusted=True), store=world.runtime.view_store)


def test_payloads_leave_with_the_conversation_and_come_back(tmp_path: Path) -> None:
    """In the file they are part of their messages; there they go into files again."""
    here, there = Home(tmp_path / "here"), Home(tmp_path / "there")
    live = turns(f"look: {URI}", "a picture")
    here.runtime.announce("s1", platform="cli")
    here.runtime.ingest_list("s1", live)
    made = export.export(whole(here), "s1", "jsonl")
    transcripts.take_in(whole(there), made.path)

    assert [row.stored_json for row in there.runtime.whole_store.page("s1", after=0, limit=9)] != []
    ids = [row.store_id for row in there.runtime.store.page("s1", after=0, limit=9)]
    assert [row.stored_json for row in there.runtime.whole_store.rows(ids)] == live
    assert list(there.runtime.payloads.folder.rglob("*.z"))
    assert lines_of(export.export(whole(there), "s1", "jsonl").path) == lines_of(made.path)
    assert there.runtime.ingest_list("s1", live).stored == 0


def test_an_owner_leaves_and_comes_back(tmp_path: Path) -> None:
    """A gateway's chat, and a child that belongs to it."""
    here, there = Home(tmp_path / "here"), Home(tmp_path / "there")
    here.runtime.announce("tg", platform="telegram", host_key="agent:main:telegram:dm:42")
    here.say("hello", session="tg", platform="telegram")
    here.runtime.announce("child", platform="subagent", parent="tg", origin="subagent")
    here.say("go", session="child", platform="subagent")
    for name in ("child", "tg"):
        transcripts.take_in(whole(there), export.export(whole(here), name, "jsonl").path)
    found = [there.runtime.sessions.find(name) for name in ("tg", "child")]

    assert [each.principal for each in found if each] == ["telegram:dm:42", "telegram:dm:42"]


def test_redacted_messages_are_found_again_where_they_came_from(tmp_path: Path) -> None:
    """Their digest is that of what was said, which no file tells."""
    world = Home(tmp_path, sensitive_patterns_enabled="true")
    world.say("my password=hunter2hunter2", "noted")
    made = export.export(whole(world), "s1", "jsonl")

    assert "hunter2" not in made.path.read_text()
    assert transcripts.take_in(whole(world), made.path).added == 0


def test_duplicates_stay_duplicates(tmp_path: Path) -> None:
    """Marked, and pointing at what they repeat."""
    here, there = Home(tmp_path / "here"), Home(tmp_path / "there")
    here.say("one", "two", "one", "two")
    here.runtime.store.flag([3, 4], add=Flag.DUPLICATE | Flag.RETRACTED | Flag.FILTERED)
    Ledger(here.runtime.db).mark([(3, 1), (4, 2)])
    transcripts.take_in(whole(there), export.export(whole(here), "s1", "jsonl").path)

    assert Ledger(there.runtime.db).duplicates() == {3: 1, 4: 2}
    assert thread(whole(there), "s1") == ["one", "two"]


def test_a_conversation_with_gaps_comes_back_in_order(tmp_path: Path) -> None:
    """An operator removed rows in the middle, one stood between two others."""
    here, there = Home(tmp_path / "here"), Home(tmp_path / "there")
    here.say(*(f"m{n}" for n in range(6)))
    here.raw("UPDATE messages SET pos = 4.5 WHERE store_id = 6")
    here.raw("DELETE FROM messages WHERE store_id IN (2, 3)")
    here.close()
    made = export.export(whole(here), "s1", "jsonl")
    transcripts.take_in(whole(there), made.path)

    assert thread(whole(there), "s1") == ["m0", "m3", "m5", "m4"]
    assert doctor(whole(there), deep=True)["counts"]["fail"] == 0


def test_a_chat_cannot_import(world: Home) -> None:
    """It would read any file of this machine."""
    assert "at the terminal" in answer("import /etc/passwd", world.deps()).text


@pytest.mark.parametrize("kind", ["jsonl", "markdown"])
def test_a_damaged_message_is_left_out_and_named(kind: str, world: Home, tmp_path: Path) -> None:
    """All others leave, and arrive."""
    world.raw("UPDATE messages SET envelope = x'ffff' WHERE store_id = 3")
    made = export.export(world.deps(), None, kind)
    said = answer(f"export {kind}", world.deps()).text

    assert made.lost == (3,)
    assert "msg_3" in said
    if kind == "jsonl":
        deps = elsewhere(tmp_path)
        transcripts.take_in(deps, made.path)
        rows = [row.text for rows in deps.store.row_batches() for row in rows]
        assert rows == [text for text in AWKWARD if text != AWKWARD[2]]


OTHERS, MINE = "telegram:dm:1", "telegram:dm:666"


def claiming(path: Path, *conversations: tuple[list[str], dict[str, Any]]) -> Path:
    """A file that looks like an export: sessions of somebody, each conversation with its own facts; one message in the last."""
    about = [
        {
            "sessions": [{"session_id": name, "platform": "telegram", "principal": MINE} for name in names],
            "rows": 0,
            **facts,
        }
        for names, facts in conversations
    ]
    said = {
        "session_id": conversations[-1][0][-1],
        "seq": 9,
        "pos": 9,
        "stored_at": 1.0,
        "source": "telegram",
        "flags": 0,
    }
    said |= {"store_id": 1, "revises": None, "message": {"role": "user", "content": "hello"}}
    about[-1]["rows"] = 1
    path.write_text(f"{json.dumps({'lcm_export': 2, 'conversations': about})}\n{json.dumps(said)}\n")
    return path


@pytest.mark.parametrize(
    "conversations",
    [
        [(["theirs"], {}), (["mine"], {"parent": 0, "fork_seq": 99, "cut": [2**60, 1e300]})],
        [(["theirs", "mine"], {}), (["more"], {"parent": 0, "fork_seq": 0})],
    ],
    ids=["a branch", "a rotation"],
)
def test_a_file_gives_nobody_a_conversation_that_is_here(tmp_path: Path, conversations: Any) -> None:
    """Its sessions may say that they go on with somebody else's."""
    world = Home(tmp_path)
    world.runtime.announce("theirs", platform="telegram", host_key=f"agent:main:{OTHERS}", owner=OTHERS)
    world.say("the PIN is ZEBRA", session="theirs", platform="telegram")
    transcripts.take_in(whole(world), claiming(tmp_path / "file.jsonl", *conversations))

    owners = [world.runtime.sessions.find(name).principal for name in ("theirs", "mine")]  # type: ignore[union-attr]
    assert owners in ([OTHERS, OTHERS], [OTHERS, "session:mine"])


def test_a_branch_of_anothers_conversation_does_not_become_the_others(tmp_path: Path) -> None:
    """What is said in it was never told to who owns the conversation above."""
    world = Home(tmp_path)
    file = claiming(tmp_path / "file.jsonl", (["theirs"], {}), (["mine"], {"parent": 0, "fork_seq": 0}))
    file.write_text(file.read_text().replace(MINE, OTHERS, 1))
    transcripts.take_in(whole(world), file)

    owners = [world.runtime.sessions.find(name).principal for name in ("theirs", "mine")]  # type: ignore[union-attr]
    assert owners == [OTHERS, "session:mine"]


def test_a_file_puts_no_words_into_a_conversation_that_is_here(tmp_path: Path) -> None:
    """Behind a session that nobody knows stands the name of one that is stored."""
    world = Home(tmp_path)
    world.say("the PIN is ZEBRA", session="theirs", platform="telegram")
    with pytest.raises(BadRequest, match="theirs is stored already"):
        transcripts.take_in(whole(world), claiming(tmp_path / "file.jsonl", (["mine", "theirs"], {})))

    assert len(world.runtime.store.page("theirs", after=0, limit=9)) == 1
