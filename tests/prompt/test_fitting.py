"""The room of the present state: six hundredths of the threshold for any content; lines without room are counted."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds.process import Chat, World, chat, owner_rights, tokens_of

from hermes_lcm import command
from hermes_lcm.compaction.compress import state_tokens
from hermes_lcm.ledger import table
from hermes_lcm.prompt.fitting import Part, fitted
from hermes_lcm.prompt.present_state import PresentState
from hermes_lcm.prompt.work_log import Entry
from hermes_lcm.text import markup, tokens

NONCE = "0123456789abcdef"
GROUP: Any = {"platform": "telegram", "host_key": "agent:main:telegram:group:-5"}
SHARE = 0.06
MORE = re.compile(r"And ([\d,]+) more without room here: .*")


# -- conversations with more to say than there is room ----------------------------------------------------------------
def step(live: Chat, tool: str, given_: dict[str, Any], answer: dict[str, Any] | str) -> Chat:
    name, text = f"call{len(live)}", answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return live.calls(name, arguments=json.dumps(given_), tool=tool).results(name, text=text, tool=tool)


def crowded(words: str, count: int, *, request: str = "") -> Chat:
    """A conversation with so many of everything that a block tells."""
    live = chat().user(request or f"Build the importer: {words}")
    for n in range(count):
        live.user(f"Never touch file{n}.txt, {words[:200]} {n}.").says("I see.")
        live.user(f"Add the column {n} to port 80{n:02d}: {words}").says(f"Done. I added column {n} on port 80{n:02d}.")
        live.says(f"I cannot change the port 80{n:02d}, it is not possible: {words[:80]}")
        step(live, "terminal", {"command": f"serve{n} {words}", "background": True}, {"session_id": f"proc_{n}"})
        step(live, "delegate_task", {"goal": words}, {"status": "dispatched", "delegation_id": f"deleg_{n}"})
        step(live, "skill_view", {"name": f"s{n}"}, {"success": True, "name": f"s{n}", "content": f"Rule {n}. {words}"})
        step(live, "terminal", {"command": f"make{n} all"}, {"exit_code": 2, "output": f"error {n}: {words[:150]}"})
        step(live, "write_file", {"path": f"src/part{n}.py", "content": words[:50]}, "ok")
        step(live, "create_ticket", {"id": f"T-{n}", "text": words[:99]}, {"ticket_id": f"X{n}"})
    items = [{"id": str(n), "content": f"task {n} {words}", "status": "pending"} for n in range(2 * count)]
    items += [{"id": f"d{n}", "content": f"done {n} {words}", "status": "completed"} for n in range(count)]
    step(live, "todo", {"todos": []}, {"todos": items})
    live[-1]["tool_name"] = "todo"
    return live.user(f"And now the totals: {words}")


def told(world: World, live: Chat, room: int, *, session_id: str = "s", shown: Sequence[int] = ()) -> str:
    """The block as it is written for a room, without its tags."""
    world.take(live, session_id)
    session = world.session(session_id)
    segments = world.sessions.ancestry(session.conversation_id)
    state = PresentState(world.store, world.runtime.ledger, world.sessions)
    return state.block(segments, nonce=NONCE, shown=shown, room_tokens=room)


def size(block: str) -> int:
    """Tokens as the host counts them, or as we do: the larger figure."""
    framed = markup.present_state(NONCE, block)
    return max(tokens_of([{"role": "user", "content": framed}]) - tokens_of([{"role": "user", "content": ""}]),
               tokens.count(framed))  # fmt: skip


def pin(world: World, most: int = 50) -> int:
    """Pin the rules of the conversation; how many these are."""
    rows = [row for rows in world.store.row_batches() for row in rows]
    found = [each for each in table.entries(rows, {}) if each.fact.kind == "rule"][:most]
    for each in found:
        world.runtime.ledger.mark(each, table.PINNED, now=1.0)
    return len(found)


def lines(block: str) -> list[str]:
    return [each for each in block.split("\n") if each.startswith("- ")]


def counted(block: str) -> int:
    """Number that the last line names."""
    found = MORE.fullmatch(block.rsplit("\n", maxsplit=1)[-1])
    return int(found[1].replace(",", "")) if found else 0


WORDS = st.one_of(
    st.sampled_from([
        "修复登录页面的错误并且检查所有的文件。" * 20, "👩‍👩‍👧‍👦🇩🇪" * 40, "x" * 3000, "<summary <present_state " * 40,
        "“a” \\n'b'\" " * 60,
        "word " * 300, "0x9F-31;" * 60,
    ]),
    st.text(max_size=400),
)  # fmt: skip


@settings(max_examples=settings.default.max_examples // 5, suppress_health_check=list(HealthCheck))
@given(
    words=WORDS,
    count=st.integers(1, 14),
    thresholds=st.lists(st.integers(4000, 60_000), min_size=1, max_size=3),
    pinned=st.integers(0, 14),
    group=st.booleans(),
)
def test_the_block_takes_six_hundredths_whatever_it_has_to_say(
    words: str, count: int, thresholds: list[int], pinned: int, group: bool
) -> None:
    """Every line has its address, and what is not shown is counted."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        world.session(**(GROUP if group else {}))
        live = crowded(words, count)
        world.take(live)
        pin(world, pinned)
        whole = told(world, live, 10**6)
        for threshold in [4000, *thresholds]:
            block = told(world, live, int(threshold * SHARE))

            assert size(block) <= SHARE * threshold
            assert all("[msg_" in each for each in lines(block))
            assert counted(block) > 0 or len(lines(block)) == len(lines(whole))
            assert told(world, live, int(threshold * SHARE)) == block
        world.db.close()


ENTRIES = st.lists(
    st.builds(Entry, st.integers(1, 99_999), st.text(st.characters(exclude_characters="“”\n\r"), max_size=90))
)


@st.composite
def parts(draw: st.DrawFn) -> list[Part]:
    """Kinds of lines with and without claims, some with shorter forms."""
    out = []
    for n in range(draw(st.integers(1, 9))):
        whole = [each._replace(text=f"- [msg_{each.store_id}] {each.text.strip()}") for each in draw(ENTRIES)]
        short = [each._replace(text=each.text[:24]) for each in whole]
        out.append(
            Part(
                f"Head {n // 2}:", f"kind{n}", draw(st.sampled_from([[whole], [whole, short]])), claim=draw(st.integers(0, 9)),
                sure=0.1, share=draw(st.floats(0.1, 0.5)), weight=draw(st.floats(0.5, 2)), most=draw(st.integers(1, 40)),
                view=draw(st.sampled_from(["", "look()"])), quotes=draw(st.booleans()),
            )
        )  # fmt: skip
    return out


@given(parts=parts(), room=st.integers(0, 1500))
def test_every_line_is_shown_or_counted_and_the_room_holds(parts: list[Part], room: int) -> None:
    """Where not one line fits, the line that counts them stands alone."""
    text = fitted(parts, room, lambda text: markup.present_state(NONCE, text) if text else "")
    every = sum(len(part.forms[0]) for part in parts)

    assert len(lines(text)) + counted(text) == every
    assert size(text) <= room or (not every and not text) or MORE.fullmatch(text)


def test_a_value_is_not_told_again_where_the_line_of_a_finished_request_has_it() -> None:
    """Its words stand once; what is said nowhere else stays."""
    done = Part("Finished:", "finished", [[Entry(1, "- “add it” closed by msg_2: “It uses port 8080.” [msg_1]")]])
    values = [Entry(2, "- named [msg_2]: “It uses port 8080.”"), Entry(4, "- named [msg_4]: “The host is db1.”")]
    text = fitted([done, Part("Values:", "with values", [values], quotes=True)], 1000, str)

    assert lines(text) == [done.forms[0][0].text, "- named [msg_4]: “The host is db1.”"]
    assert counted(text) == 0


@pytest.mark.parametrize("threshold", [200, 1000, 2500])
def test_below_the_smallest_thresholds_the_block_is_one_line_or_fits(tmp_path: Path, threshold: int) -> None:
    """A line that counts everything, with the way to it."""
    block = told(World(tmp_path), crowded("完成这个任务 " * 30, 9), int(threshold * SHARE))

    assert size(block) <= SHARE * threshold or MORE.fullmatch(block)
    assert "lcm_expand(store_id=msg_1..msg_" in block


def test_chinese_tasks_processes_skills_and_long_requests_stay_within_the_share(tmp_path: Path) -> None:
    """What took 11.4 % of a threshold of 20,000: each kind is still told."""
    live = crowded("完成这个任务并且检查所有的文件" * 40, 10)
    block = told(World(tmp_path), live, int(20_000 * SHARE))

    assert size(block) <= SHARE * 20_000
    for kind in ("latest request", "open tasks", "runs in the background", "the user said"):
        assert kind in block
    assert re.search(r"and \d+ more: lcm_expand\(store_id=\d+\)", block)


# -- what gives way ---------------------------------------------------------------------------------------------------
def test_the_request_in_force_stands_verbatim_while_it_fits(tmp_path: Path) -> None:
    """All of its words, where the rest leaves room; also where it is the first one."""
    asked = " ".join(f"point{n}" for n in range(400))
    assert f": “{asked}”" in told(World(tmp_path / "first"), chat().user(asked).says("ok"), 4000)
    block = told(World(tmp_path), chat().user("hello").says("hi").user(asked), 4000)

    assert f"latest request [msg_3, 1970-01-01 00:00Z]: “{asked}”" in re.sub(
        r"\d{4}-\S+ \S+Z", "1970-01-01 00:00Z", block
    )


@pytest.mark.parametrize("length", [3000, 15_000, 300_000])
def test_a_request_in_force_that_does_not_fit_stands_with_beginning_end_and_the_call_for_the_rest(
    tmp_path: Path, length: int
) -> None:
    """What was asked often stands at the end of what was pasted."""
    asked = "Mend what this log shows: " + "line " * length + "and then tell me why."
    block = told(World(tmp_path), chat().user("hello").says("hi").user(asked).says("ok"), 1200)
    (line,) = [each for each in lines(block) if "latest request" in each]

    assert "“Mend what this log shows: " in line
    assert re.search(r"and then tell me why\.” \(all of it: lcm_expand\(store_id=3\)\)$", line)


def test_tasks_and_processes_take_no_room_of_pinned_entries_and_rules(tmp_path: Path) -> None:
    """What stands first stays as it is while what runs and is open grows."""
    begin = chat().user("Always use tabs in the importer.").says("ok").user("Never push to main.").says("ok")
    world = World(tmp_path)
    world.take(begin)
    pin(world, 1)
    few = told(world, begin.copy().user("Build it."), 1000)
    live = begin.copy().user("Build it.")
    for n in range(20):
        step(live, "terminal", {"command": "完成这个任务" * 30, "background": True}, {"session_id": f"proc_{n}"})
    step(live, "todo", {}, {"todos": [{"id": str(n), "content": "完成" * 99, "status": "pending"} for n in range(30)]})
    many = told(world, live, 1000)

    stable = few[: few.index("Words that may still hold")]
    assert "pinned" in stable
    assert "Never push to main." in stable
    assert many.startswith(stable)


def test_pinned_entries_that_do_not_fit_are_counted_with_the_call_that_lists_them(tmp_path: Path) -> None:
    """The newest of them are shown, also where other things have much to say."""
    world, live = World(tmp_path), crowded("检查所有的文件" * 20, 14)
    world.take(live)
    number = pin(world)
    block = told(world, live, int(10_000 * SHARE))
    shown = [each for each in lines(block) if each.startswith("- pinned ")]

    assert "file13.txt" in shown[-1]
    assert f'{number - len(shown)} pinned: lcm_describe(view="ledger")' in block


def test_files_and_failures_beyond_the_newest_are_counted(tmp_path: Path) -> None:
    """However large the room is."""
    live = chat().user("Build it.")
    for n in range(15):
        step(live, "write_file", {"path": f"src/part{n}.py", "content": "x"}, "ok")
    block = told(World(tmp_path), live, 10_000)

    assert "part14.py" in block
    assert re.search(r"And 3 more without room here: 3 files: lcm_expand\(store_id=msg_\d+..msg_\d+\)$", block)
    assert block.count("part") == 12


def test_summaries_that_stand_for_little_leave_a_small_block(tmp_path: Path) -> None:
    """And never more than its share of a small threshold."""
    assert state_tokens(20_000, []) == 400
    assert state_tokens(4000, []) == 240


# -- at the terminal --------------------------------------------------------------------------------------------------
def test_who_pins_more_than_fits_hears_of_it_with_figures_and_the_way_out(tmp_path: Path) -> None:
    """At once, and in the status until one is let go."""
    world = World(tmp_path, fallback_context_tokens=16_000, context_threshold=0.5)
    live = chat()
    for n in range(8):
        live.user(f"Never touch file{n}.txt, {'不要改动这个文件' * 12} {n}.").says("ok")
    world.take(live)
    deps = world.runtime.access(world.session(), owner_rights(world.session()))
    names = [each["entry"] for each in command.answer("ledger", deps).data["entries"]]
    assert len(names) == 8
    answers = [command.run(f"ledger pin {name}", deps) for name in names]

    assert "tokens" not in answers[0]
    assert re.search(r"pinned or corrected entries \(8\) take [\d,]+ tokens, and 120 are kept", answers[-1])
    assert "`/lcm ledger clear ENTRY` lets one go" in answers[-1]
    assert "pinned or corrected entries (8)" in command.run("status", deps)
    for name in names:
        command.run(f"ledger clear {name}", deps)
    assert "pinned or corrected" not in command.run("status", deps)
