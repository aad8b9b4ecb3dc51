"""What the host's own compressor writes anew is recognised: by the grammar of its forms, by ids, and by where it stands."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from worlds import linear
from worlds.home import Home
from worlds.host import HostDb, Message, host_db, said, take, talk, thread, words

from hermes_lcm.importers.replays import Seen, find
from hermes_lcm.ingest import host_compressor
from hermes_lcm.records import Flag, Row, ToolCall
from hermes_lcm.text import content

END = "--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"
SUMMARY = f"[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted:\nwhat was before\n\n{END}"
DUPLICATE = "[Duplicate tool output — same content as a more recent call]"
LONG = "line of an output\n" * 40


@pytest.fixture
def world(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostDb:
    return host_db(tmp_path, monkeypatch)


def glued(text: str) -> str:
    """A message to which 0.18 and 0.22 joined their summary."""
    return (
        "[PRIOR CONTEXT — for reference only; not a new message]\n"
        f"{text}\n\n[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]\n\n{SUMMARY}"
    )


def rounds(first: int, stop: int) -> list[Message]:
    """Turns with a tool round each, whose output is long."""
    out: list[Message] = []
    for n in range(first, stop):
        arguments = json.dumps({"path": f"f{n}.txt", "content": f"{n} " * 400})
        call = {"id": f"call_{n}", "type": "function", "function": {"name": "read_file", "arguments": arguments}}
        out.append({"role": "user", "content": "yes" if n % 3 else f"step {n}"})
        out.append({"role": "assistant", "content": "I look.", "tool_calls": [call]})
        output = {"role": "tool", "content": f"{n}\n{LONG}", "tool_call_id": f"call_{n}", "tool_name": "read_file"}
        out += [output, {"role": "assistant", "content": f"Done with {n}."}]
    return out


def pruned(message: Message) -> Message:
    """As every one of these compressors leaves it in the list."""
    if message["role"] == "tool":
        n = message["tool_call_id"].removeprefix("call_")
        return {**message, "content": f"[read_file] read f{n}.txt from line 1 ({len(message['content']):,} chars)"}
    if not message.get("tool_calls"):
        return dict(message)
    (call,) = message["tool_calls"]
    arguments = json.loads(call["function"]["arguments"])
    cut = json.dumps({key: v[:200] + "...[truncated]" if len(v) > 200 else v for key, v in arguments.items()})
    return {**message, "tool_calls": [{**call, "function": {**call["function"], "arguments": cut}}]}


def rotate_slowly(there: HostDb, old: str, new: str, shown: Sequence[Message]) -> None:
    """0.18.2: the new session's list is flushed row by row, as new messages are."""
    there.db.end_session(old, "compression")
    there.begin(new, parent_session_id=old)
    there.say(new, shown)


def texts(world: Home, *sessions: str) -> list[str]:
    """Everything that is stored, thread or not."""
    return [row.text for name in sessions for row in world.runtime.store.page(name, after=0, limit=999)]


def calls(rows: Sequence[Row]) -> list[tuple[ToolCall, ...]]:
    return [row.calls for row in rows]


# -- the list that a session begins with --------------------------------------------------------------------
def test_the_list_that_a_session_begins_with_comes_over_once(world: Home, there: HostDb) -> None:
    """Protected rows, the summary, the tail; stored as slowly as messages, and what follows it is new."""
    there.begin("a")
    there.say("a", rounds(0, 6))
    live = rounds(0, 6)
    rotate_slowly(there, "a", "b", [*live[:2], {"role": "user", "content": SUMMARY}, *live[-7:]])
    there.say("b", rounds(6, 8))
    done = take(world)

    assert said(thread(world, "b")) == words(rounds(0, 8))
    assert done.taken.copies == 9
    assert take(world).taken.added == 0


def test_shortened_outputs_and_arguments_in_that_list_are_no_messages(world: Home, there: HostDb) -> None:
    """The originals are stored whole; no shortened form is."""
    there.begin("a")
    there.say("a", rounds(0, 6))
    tail = [pruned(message) for message in rounds(0, 6)[-8:]]
    tail[0] = {**tail[0], "content": glued(tail[0]["content"])}
    rotate_slowly(there, "a", "b", tail)
    there.say("b", rounds(6, 7))
    take(world)
    world.close()

    assert said(thread(world, "b")) == words(rounds(0, 7))
    whole = [content.calls_of(message) for message in rounds(0, 7)]
    assert calls(thread(world, "b")) == whole
    assert not [text for text in texts(world, "a", "b") if text.startswith(("[read_file]", "[PRIOR"))]


def test_a_session_that_goes_on_behind_shortened_rows_stores_only_what_is_new(world: Home, there: HostDb) -> None:
    """The host hands over its shortened rows; here they are the messages that they were."""
    there.begin("a")
    there.say("a", rounds(0, 6))
    tail = [pruned(message) for message in rounds(0, 6)[-8:]]
    tail[1] = {**tail[1], "content": glued(tail[1]["content"])}
    there.db.archive_and_compact("a", [{"role": "user", "content": SUMMARY}, *tail])
    take(world)
    live = there.live("a")

    assert world.runtime.ingest_list("a", live).stored == 0
    assert world.restart().runtime.ingest_list("a", [*live, {"role": "user", "content": "go on"}]).stored == 1
    assert said(thread(world, "a")) == [*words(rounds(0, 6)), ("user", "go on")]


def test_what_a_person_says_again_behind_a_summary_is_no_copy(world: Home, there: HostDb) -> None:
    """0.18.0 writes only its summary into the new session. An answer and a word that was said before are messages."""
    said_before: list[Message] = [
        {"role": "user", "content": "yes"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "yes"},
    ]
    there.begin("a")
    there.say("a", [*talk(0, 6), *said_before])
    rotate_slowly(there, "a", "b", [{"role": "user", "content": SUMMARY}, *said_before[1:], talk(9, 10)[0]])
    take(world)

    assert said(thread(world, "b")) == words([*talk(0, 6), *said_before, *said_before[1:], talk(9, 10)[0]])


def test_a_row_that_kept_its_time_does_not_end_a_list(world: Home, there: HostDb) -> None:
    """0.18.0 writes a message that it has loaded with the time that it bears, amidst rows a microsecond apart."""
    there.begin("a")
    there.say("a", talk(0, 4))
    kept = there.live("a")[-1] | {"timestamp": there.db.get_messages("a")[-1]["timestamp"]}
    there.say("a", [{"role": "user", "content": "and now?"}])
    summary = {"role": "user", "content": SUMMARY}
    there.db.archive_and_compact("a", [summary, kept, {"role": "user", "content": "and now?"}])
    take(world)

    assert said(thread(world, "a")) == words([*talk(0, 4), {"role": "user", "content": "and now?"}])


# -- ids that last -------------------------------------------------------------------------------------------
def with_ids(home: Path, rows: Sequence[tuple[int, str]], flags: Sequence[tuple[int, int, int]]) -> None:
    """The column of hosts near 0.22, and how they mark rows: (row, active, compacted)."""
    with closing(sqlite3.connect(home / "state.db")) as db, db:
        db.execute("ALTER TABLE messages ADD COLUMN message_uid TEXT")
        db.executemany("UPDATE messages SET message_uid = ? WHERE id = ?", [(uid, n) for n, uid in rows])
        db.executemany("UPDATE messages SET active = ?, compacted = ? WHERE id = ?", [(a, c, n) for n, a, c in flags])


def test_what_a_compaction_carried_on_was_not_taken_back(world: Home, there: HostDb, tmp_path: Path) -> None:
    """0.22 marks the originals of its tail like rows of /rewind; the copies have their ids. A real /rewind has none."""
    there.begin("a")
    first = rounds(0, 3)
    there.say("a", first)
    there.say("a", [{"role": "user", "content": SUMMARY}, *map(pruned, first[-6:]), *rounds(3, 4), *rounds(4, 5)])
    ids = [(n, f"u{n}") for n in range(1, 28)] + [(n + 7, f"u{n}") for n in range(7, 13)]
    carried = [(n, 0, 0) for n in range(7, 13)]
    rewound = [(n, 0, 0) for n in range(24, 28)]
    with_ids(tmp_path, ids, [*[(n, 0, 1) for n in range(1, 7)], *carried, *rewound])
    take(world)
    world.close()

    assert said(thread(world, "a")) == words(rounds(0, 4))
    gone = [row.text for row in world.runtime.store.page("a", after=0, limit=99) if row.head.flags & Flag.RETRACTED]
    assert gone == [message["content"] for message in rounds(4, 5)]
    assert not [text for text in texts(world, "a") if text.startswith("[read_file]")]
    assert take(world).taken.added == 0


# -- where the original is elsewhere, or gone ----------------------------------------------------------------
def test_a_shortened_output_whose_original_is_gone_is_kept_and_marked(world: Home, there: HostDb) -> None:
    """It is all there is."""
    there.begin("a")
    there.say("a", [pruned(message) for message in rounds(0, 2)])
    take(world)
    marked = [row.head.role for row in thread(world, "a") if row.head.flags & Flag.PRUNED]

    assert said(thread(world, "a")) == words([pruned(message) for message in rounds(0, 2)])
    assert marked == ["assistant", "tool"] * 2
    assert take(world).taken.added == 0


def test_an_original_takes_the_place_of_the_shortened_form_that_is_here(world: Home, there: HostDb) -> None:
    """The plugin saw the shortened tail first; then the import brings what was before."""
    there.begin("a")
    there.say("a", rounds(0, 6))
    tail = [pruned(message) for message in rounds(0, 6)[-8:]]
    tail[0] = {**tail[0], "content": glued(tail[0]["content"])}
    there.db.archive_and_compact("a", tail)
    world.runtime.announce("a", platform="cli")
    live = there.live("a")
    world.runtime.ingest_list("a", live)
    take(world)

    assert said(thread(world, "a")) == words(rounds(0, 6))
    assert world.restart().runtime.ingest_list("a", [*live, {"role": "user", "content": "go on"}]).stored == 1
    assert take(world).taken.added == 0


# -- the grammar ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("line", "is_form"),
    [
        ("[terminal] ran `npm test` -> exit 0, 47 lines output", True),
        ("[read_file] read a1.txt from line 1 (14,718 chars)", True),
        ("[read_file] read a1.txt from line 1 (812 chars) FAILED: no such file", True),
        ("[search_files] content search for 'x' in agent/ -> 12 matches", True),
        ("[mcp_thing] a=1 b=2 (9,100 chars result)", True),
        ("[skill_view] name=x (9,100 chars) [SKILL_PRUNED: content lost in compression; reload]", True),
        ("[terminal] `rm -rf x` BLOCKED, not run; the user did NOT consent", True),
        ("[terminal output demoted at compaction — 9,100 chars preserved in session history.]", True),
        (DUPLICATE, True),
        ("[Old tool output cleared to save context space]", True),
        ("[read_file] read a1.txt", False),
        ("[1, 2, 3]", False),
        (f"{DUPLICATE} and more", False),
        ('{"output": "[read_file] read a1.txt from line 1 (14,718 chars)"}', False),
    ],
)
def test_the_line_in_the_place_of_an_output_is_known_by_its_form(line: str, is_form: bool) -> None:
    """From end to end; what merely looks like one is an output."""
    assert (
        host_compressor.is_pruned(content.canonical_core({"role": "tool", "content": line, "tool_call_id": "c"}))
        is is_form
    )


def test_sizes_tell_outputs_apart_whose_ids_were_given_out_twice() -> None:
    """And where they do not, nothing is claimed."""
    form = content.canonical_core({"role": "tool", "content": "[x] (1,000 chars result)", "tool_call_id": "c"})
    one, other, same = (host_compressor.Original(n, "x" * size) for n, size in enumerate((1000, 2000, 1000)))

    assert host_compressor.original(form, [one, other]) == 0
    assert host_compressor.original(form, [one, other, same]) is None


@pytest.mark.parametrize(
    ("text", "was"),
    [
        (glued("what was said"), "what was said"),
        (f"{SUMMARY}\n\nwhat was said", "what was said"),
        (SUMMARY, ""),
        ("[Attached image — stripped after compression]", "[screenshot]"),
    ],
)
def test_a_message_is_found_beside_the_summary(text: str, was: str) -> None:
    """In front of it, behind it, or nowhere."""
    found = host_compressor.before(text)

    assert found is not None
    assert found.text == was


def test_words_about_a_summary_are_words() -> None:
    """Only the forms themselves, at the beginning of a message."""
    assert host_compressor.before(f"why does it say {SUMMARY}?") is None


def test_a_shortened_row_speaks_for_its_neighbours() -> None:
    """One row that is known to repeat another places the list around it."""
    first = [Seen(b"a", "user", 1.0), Seen(b"b", "tool", 2.0, True, ids=("c",)), Seen(b"d", "assistant", 3.0)]
    again = [Seen(b"b", "tool", 9.0, True, ids=("c",), of=1), Seen(b"d", "assistant", 9.001)]

    assert find([*first, *again]).copies == {3: 1, 4: 2}
    assert find([*first, again[0]._replace(of=None, named=False, ids=()), again[1]]).copies == {}


# -- what merely looks like a form ---------------------------------------------------------------------------
def repeated(*outputs: str) -> list[Message]:
    """The same call again and again, under the one id that the host computes from its name and arguments."""
    call = {"id": "call_0", "type": "function", "function": {"name": "build", "arguments": "{}"}}
    out: list[Message] = []
    for n, text in enumerate(outputs):
        out += [{"role": "user", "content": f"build {n}"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
        out.append({"role": "tool", "content": text, "tool_call_id": "call_0", "tool_name": "build"})
    return out


@pytest.mark.parametrize("text", ["[build] made all of it (12 chars)", "[todo] updated task list"])
def test_an_output_that_looks_like_a_form_is_no_copy_of_what_it_cannot_stand_for(
    world: Home, there: HostDb, text: str
) -> None:
    """The compressor shortens what is long, and names its size: another output of a repeated call is an output."""
    there.begin("a")
    there.say("a", repeated("nothing to do", text))
    take(world)

    assert said(thread(world, "a")) == words(repeated("nothing to do", text))


def test_a_repeated_call_after_an_undo_keeps_its_own_output(world: Home) -> None:
    """Taken back and asked again: the call has the same id, its output is another one."""
    line = "[build] made all of it (12 chars)"
    world.runtime.announce("a", platform="cli")
    before, after = repeated("nothing to do"), repeated(line)
    for live in (before, before[:1], after[:2], after):
        world.runtime.ingest_list("a", live)

    assert line in texts(world, "a")


@pytest.mark.parametrize(
    ("before", "after"),
    [("hello", glued("hello")), ("why [screenshot]?", "why [screenshot removed to save context]?")],
    ids=["a summary", "an image"],
)
def test_what_a_person_types_after_an_undo_is_kept_however_it_looks(world: Home, before: str, after: str) -> None:
    """Words that quote a form are not the message that was taken back."""
    world.runtime.announce("a", platform="cli")
    first, answer = talk(0, 4), {"role": "assistant", "content": "hm"}
    again = [*first, {"role": "user", "content": after}]
    for live in ([*first, {"role": "user", "content": before}, answer], first, again, [*again, answer]):
        world.runtime.ingest_list("a", live)

    assert said(thread(world, "a")) == words([*again, answer])
    assert world.restart().runtime.ingest_list("a", [*again, answer, {"role": "user", "content": "go on"}]).stored == 1


def test_an_id_that_is_given_out_again_and_again_costs_no_time() -> None:
    """A provider that numbers the calls of each answer calls thousands `call_0`: none is compared with all the others."""
    known = {
        count: host_compressor.Candidates(
            host_compressor.Original(n, f"{n}\n" + "line\n" * (100 + n)) for n in range(count)
        )
        for count in (200, 1000)
    }
    line = "[terminal] ran `ls` -> exit 0, {} lines output"
    forms = [
        content.canonical_core({"role": "tool", "content": line.format(102 + n), "tool_call_id": "c"})
        for n in range(1000)
    ]

    def found(asked: list[Any]) -> list[int | None]:
        return [known[len(asked)].original(form) for form in asked]

    assert found(forms) == list(range(1000))
    assert linear.excess(found, forms[:200], forms) <= linear.LIMIT
