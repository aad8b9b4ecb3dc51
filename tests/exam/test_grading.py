"""The exam: probes by rule from the archive, graded by what the prompt and the first look say (P9)."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.process import Chat, World, chat, owner_rights

from hermes_lcm.command import answer, operator_access
from hermes_lcm.engine import LCMEngine
from hermes_lcm.exam import grading
from hermes_lcm.exam.probes import probes
from hermes_lcm.host import facts
from hermes_lcm.ops.render import status_text
from hermes_lcm.recall.access import Access


def deps(world: World, session_id: str = "s") -> Access:
    """What a command at a terminal works with."""
    found = world.runtime.sessions.find(session_id)
    return replace(world.runtime.access(found, owner_rights(found), home=world.folder, trusted=True), store=world.store)


def step(live: Chat, name: str, arguments: dict[str, Any], result: str, tool: str = "terminal") -> Chat:
    return live.calls(name, arguments=json.dumps(arguments), tool=tool).results(name, text=result, tool=tool)


def talk() -> Chat:
    """One probe of each kind but tasks that are open, and much talk behind them."""
    live = chat().user("Port the billing service to Go.").says("Done. I ported the billing service to Go in 12 files.")
    live.user("Never touch the file secrets.env in this repository.").says("Understood.")
    live.user("Please repair the gateway on port 7443.")
    step(live, "a", {"path": "src/gateway.go"}, "ok", tool="patch")
    step(
        live, "b", {"command": "go test ./gateway"}, '{"output": "panic: address already in use error", "exit_code": 1}'
    )
    live.says("The gateway still listens on port 7443, as it did before.").user("Is port 7443 free on the host?")
    return live.says("Port 7443 is taken by an old process.").turns(40)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, fresh_tail_count=6, context_threshold=4000)  # that of its compactions


def test_each_probe_quotes_the_message_that_answers_it(world: World) -> None:
    """Of every kind, by rule."""
    world.take(talk())
    rows = [row for rows in world.store.row_batches() for row in rows]
    said = {row.store_id: " ".join([row.text, *(call.arguments for call in row.calls)]) for row in rows}
    found = probes(rows)

    assert {probe.kind for probe in found} == {"task", "rules", "files", "failed", "finished", "open", "values"}
    assert all(probe.answer.split()[-1] in said[probe.store_id] for probe in found)
    (rule,) = [probe for probe in found if probe.kind == "rules"]
    assert (rule.store_id, rule.answer) == (3, "Never touch the file secrets.env in this repository.")


def test_no_question_is_asked_that_several_values_answer(world: World) -> None:
    """A label before many values; words that one of them has for itself make a question."""
    said = ["The total price is $120.", "The total price is $340.", "The total price of the Lisbon ferry is $95."]
    live = chat()
    for n in range(2):
        live.user(f"and what does it cost on day {n}?").says(" ".join(said))
    world.take(live)
    rows = [row for rows in world.store.row_batches() for row in rows]

    assert [probe.answer for probe in probes(rows) if probe.kind == "values"] == [said[2]]


def test_a_question_is_asked_once_and_has_more_than_one_word(world: World) -> None:
    """Of some requests in equal words the newest is meant; what "port" is to be finished with nobody could tell."""
    live = chat().user("Port 7 it.").says("Done. I moved the billing service to port 7.")
    for n in range(4):
        live.user(f"Look at part {n} of the listing.").says("Which one do you mean?")
    world.take(live.user("Now repair the invoice parser."))
    rows = [row for rows in world.store.row_batches() for row in rows]

    assert [(probe.kind, probe.answer) for probe in probes(rows)] == [
        ("task", "Now repair the invoice parser."), ("open", "Look at part 3 of the listing."),
    ]  # fmt: skip


def test_what_was_finished_is_asked_in_scripts_without_blanks(world: World) -> None:
    """A whole clause looks like one word there."""
    world.take(
        chat()
        .user("请把计费服务移植到新平台。")
        .says("完成。我已将计费服务移植到新平台，共修改了 12 个文件。")
        .user("谢谢")
    )
    rows = [row for rows in world.store.row_batches() for row in rows]

    assert "Is this finished: 请把计费服务移植到新平台?" in [probe.question for probe in probes(rows)]


def test_what_is_raw_or_in_the_present_state_is_in_the_prompt(world: World) -> None:
    """After a compaction that folded all of it away."""
    world.compact(talk())
    data = grading.exam(deps(world))

    assert data["prompt_exact"] is True
    assert data["in_prompt"] < data["messages"]
    for kind in ("task", "rules", "files", "failed", "finished"):
        assert data["kinds"][kind]["prompt"] == data["kinds"][kind]["n"] > 0
    assert data["all"]["lost"] == 0
    assert data["finished_shown_as_open"] == 0


def test_a_message_that_the_request_shows_answers_in_its_own_words(world: World) -> None:
    """A shell writes a file with a sign, and no word of its command says "written"."""
    live = chat().user("Make the list shorter.")
    step(live, "a", {"command": "cat > /tmp/shorten.sed << 'EOF'\ns/a/b/\nEOF"}, '{"output": "", "exit_code": 0}')
    world.take(live.says("Done: the list is shorter."))

    (file,) = [each for each in grading.exam(deps(world))["probes"] if each["kind"] == "files"]
    assert (file["answer"], file["grade"]) == ("written /tmp/shorten.sed", "prompt")


def test_what_the_prompt_does_not_say_is_one_look_away(world: World) -> None:
    """The question typed into lcm_grep brings it."""
    live = talk()
    for n in range(60):
        live.user(f"Never mention alpha{n} beta{n} gamma{n} delta{n} epsilon{n} zeta{n} there.").says("Noted.")
    world.compact(live.turns(10, first=200))
    rules = grading.exam(deps(world))["kinds"]["rules"]

    assert rules["look"] > 0
    assert rules["prompt"] + rules["look"] == rules["n"]


def test_a_file_tool_s_own_call_answers_what_was_done(world: World) -> None:
    """`write_file` with the path, as it stands in the prompt."""
    live = chat().user("I need notes.")
    step(live, "w", {"path": "docs/notes.md", "content": "short"}, "ok", tool="write_file")
    world.take(live.says("It is there.").turns(3))

    (probe,) = [each for each in grading.exam(deps(world))["probes"] if each["kind"] == "files"]

    assert (probe["grade"], probe["answer"]) == ("prompt", "written docs/notes.md")


def test_the_grade_is_shown_as_a_table_and_kept_for_the_status(world: World) -> None:
    """Kinds, a bar for each, no wider than a narrow terminal; `status` has the last grade."""
    world.compact(talk())
    said = answer("exam", deps(world))
    counts = said.data["all"]

    assert "rules" in said.text
    assert re.search("#+$", said.text, re.MULTILINE)
    assert max(map(len, said.text.splitlines()[1:])) <= 80
    assert answer("status", deps(world)).data["exam"]["all"] == counts
    assert "last exam" in answer("status", deps(world)).text


def test_the_status_of_one_session_says_of_which_other_one_the_last_grade_is(world: World) -> None:
    """It stands among the figures of the session."""
    world.compact(talk())
    own = answer("status", deps(world)).data["session_id"]
    answer("exam", deps(world))
    data = answer("status", deps(world)).data

    assert "of session" not in status_text(data)
    assert f", of session {own}" in status_text({**data, "session_id": "another"})


def test_messages_that_are_too_many_to_be_asked_about_are_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest of them."""
    monkeypatch.setattr(grading, "_MOST_ROWS", 20)
    world.take(talk())
    said = answer("exam", deps(world))

    assert (said.data["messages"], said.data["older"]) == (20, len(talk()) - 20)
    assert f"the newest 20 messages; the {len(talk()) - 20} before" in said.text


def test_a_conversation_that_was_never_compacted_is_in_the_prompt(world: World) -> None:
    """All of it is raw."""
    world.take(chat().user("Always answer in German, please.").says("Gut."))
    data = grading.exam(deps(world))

    assert data["all"]["prompt"] == data["all"]["n"] == 2


def test_a_prompt_that_the_host_refused_is_not_graded(world: World) -> None:
    """A list that goes on as it was says so; one that shows the prompt after all takes that back."""
    live = talk()
    world.runtime.ingest_list("s", live)
    built = world.compact(live.copy())
    world.runtime.ingest_list("s", live.says("The list goes on as it was."))
    data = grading.exam(deps(world.restart()))

    assert data["in_prompt"] == data["messages"] == len(live)
    assert data["covered"]["n"] == 0
    world.runtime.ingest_list("s", [*built, *live[-1:], *chat().user("And now?")])
    assert grading.exam(deps(world))["covered"]["n"] > 0


def test_a_branch_of_a_compacted_conversation_shows_what_its_parent_showed(world: World) -> None:
    """Until it builds a prompt of its own."""
    live = world.compact(talk())
    parent = world.sessions.find("s")
    assert parent is not None
    last = world.store.last_seq(parent.conversation_id)
    world.sessions.open("b", now=2.0, parent=parent, origin="branch", fork_seq=last)
    before = grading.exam(deps(world))
    world.take(live.says("Here the branch begins."), "b")
    data = grading.exam(deps(world, "b"))

    assert data["prompt_exact"] is True
    assert data["in_prompt"] == before["in_prompt"] + 1
    assert data["messages"] == before["messages"] + 1


@pytest.mark.parametrize("live", [True, False], ids=["beside its agent", "elsewhere"])
def test_what_is_graded_is_the_prompt_that_was_sent(hermes_home: Path, live: bool) -> None:
    """Where the provider counts more than the host, the present state had less room than the threshold says."""
    lcm: Any = LCMEngine()
    lcm.update_model("m", 64_000)
    lcm.on_session_start("s", hermes_home=str(hermes_home), platform="cli")
    said = chat()
    for n in range(120):
        said.user(f"Never touch the folder number{n} of the archive, please.").says(
            f"Port {4000 + n} is for number{n}. " * 25
        )
    lcm.should_compress(facts.rough(said))
    lcm.update_from_response({"prompt_tokens": 2 * facts.rough(said)})
    lcm.compress(said, current_tokens=2 * facts.rough(said))
    session = lcm.runtime.find_session("s")
    access = operator_access(lcm.runtime, session, lcm if live else None)
    data = grading.exam(replace(access, trusted=True))
    lcm.runtime.preparer.stop()
    lcm.runtime.db.close()

    assert lcm.last_compression["assembly"]
    assert data["prompt_exact"]


def test_words_that_a_stub_leaves_out_are_graded_where_the_prompt_says_them(hermes_home: Path) -> None:
    """Large results of the newest round are shown by beginning and end; the line of an error moves to the present state."""
    lcm: Any = LCMEngine()
    lcm.update_model("m", 64_000)
    lcm.on_session_start("s", hermes_home=str(hermes_home), platform="cli")
    said = chat().turns(60).user("Run the tests of the gateway, please.")
    names = [f"gateway{n}" for n in range(16)]
    said.calls(*names)
    for name, call in zip(names, said[-1]["tool_calls"], strict=True):
        call["function"]["arguments"] = json.dumps({"command": f"go test ./{name}"})
    for name in names:
        lines = "\n".join(f"ok {name} test number {n}" for n in range(300))
        output = f"{lines}\npanic: {name} listener refused its socket with an error\n{lines}"
        said.results(name, text=json.dumps({"output": output, "exit_code": 1}), tool="terminal")
    out = lcm.compress(said, current_tokens=facts.rough(said))
    lcm.runtime.costs.save()
    session = lcm.runtime.find_session("s")
    data = grading.exam(replace(operator_access(lcm.runtime, session, None), trusted=True))
    lcm.runtime.preparer.stop()
    lcm.runtime.db.close()

    failed = [each for each in data["probes"] if each["kind"] == "failed"]
    shown = json.dumps(out)
    assert data["prompt_exact"]
    assert shown.count("characters left out") > 3
    assert len(failed) > 10
    assert {each["answer"] for each in failed if each["grade"] == "prompt"} == {
        each["answer"] for each in failed if each["answer"] in shown
    }
