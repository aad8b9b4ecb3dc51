"""What runs beside the conversation and which instructions hold, as the host's own tools tell it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from worlds.process import Chat, World, chat

SKILL = "# Review\n\nRead every changed file. Never approve without running the tests."


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, fresh_tail_count=4)


def step(live: Chat, tool: str, arguments: dict[str, Any], answer: dict[str, Any]) -> Chat:
    name = f"call{len(live)}"
    return live.calls(name, arguments=json.dumps(arguments), tool=tool).results(
        name, text=json.dumps(answer), tool=tool
    )


def state(world: World, live: Chat) -> str:
    """The block of the next prompt."""
    text = str(world.compact(live)[0]["content"])
    return text[text.index("<present_state") : text.index("</present_state>")] if "<present_state" in text else ""


def started(live: Chat) -> Chat:
    return step(
        live,
        "terminal",
        {"command": "npm run dev", "background": True},
        {"output": "Background process started", "session_id": "proc_1a", "exit_code": 0, "error": None},
    )


def test_a_background_process_is_told_until_it_ends(world: World) -> None:
    """By a poll that saw its end, by a kill, by the host's note."""
    live = started(chat().user("serve it")).says("it runs").turns(30)
    assert "runs in the background [msg_3]: “npm run dev” as proc_1a" in state(world, live)

    step(live.user("stop it"), "process", {"action": "kill", "session_id": "proc_1a"}, {"status": "killed"}).says("ok")
    assert "runs in the background" not in state(world, live.turns(30, first=60))


def test_the_hosts_note_of_an_end_counts(world: World) -> None:
    """Whatever the exit code."""
    live = started(chat().user("serve it")).says("it runs")
    live.user("[IMPORTANT: Background process proc_1a exited (exit code 1).\nCommand: npm run dev\nOutput:\nx]").says(
        "I see"
    )

    assert "runs in the background" not in state(world, live.turns(30))


def test_a_list_of_processes_tells_which_of_them_ended(world: World) -> None:
    """The host's own tool names all of this conversation, and says of others that they are others'."""
    live = started(chat().user("serve it")).says("it runs").user("what runs?")
    ended = {"session_id": "proc_1a", "command": "npm run dev", "status": "exited"}
    found = {"session_id": "proc_2b", "command": "npm test", "status": "running"}
    others = {"session_id": "proc_3c", "command": "top", "status": "running", "session_scoped": True}
    step(live, "process", {"action": "list"}, {"processes": [ended, found, others]})
    shown = state(world, live.says("one").turns(30))

    assert [line for line in shown.splitlines() if "runs in the background" in line] == [
        "- runs in the background [msg_7]: “npm test” as proc_2b"
    ]


def test_a_process_that_another_task_of_the_chat_began_is_known_to_have_ended(world: World) -> None:
    """The host marks it in its list as the chat's, once the task in which it began is over."""
    live = started(chat().user("serve it")).says("it runs").user("what runs?")
    ended = {"session_id": "proc_1a", "command": "npm run dev", "status": "exited", "session_scoped": True}
    step(live, "process", {"action": "list"}, {"processes": [ended]})

    assert "runs in the background" not in state(world, live.says("one").turns(30))


def test_a_process_that_began_long_ago_is_known_by_a_look_at_it(world: World) -> None:
    """More calls lie behind its beginning than are read."""
    live = started(chat().user("serve it")).says("it runs").user("watch it").rounds(120)
    step(
        live,
        "process",
        {"action": "poll", "session_id": "proc_1a"},
        {"session_id": "proc_1a", "command": "npm run dev", "status": "running"},
    )

    assert "“npm run dev” as proc_1a" in state(world, live.says("it runs still").turns(30))


def polled(live: Chat, status: str) -> Chat:
    told = {"session_id": "proc_1a", "command": "npm run dev", "status": status}
    return step(live, "process", {"action": "poll", "session_id": "proc_1a"}, told)


def test_a_process_that_nobody_looked_at_since_is_told_however_long_ago_it_began(world: World) -> None:
    """With the last look at it."""
    live = polled(started(chat().user("serve it")), "running").rounds(120).says("It is done.").turns(10)

    assert "[msg_3]: “npm run dev” as proc_1a, last seen in msg_5" in state(world, live)


@pytest.mark.parametrize("end", ["poll", "note", "kill"])
def test_a_process_that_ended_long_ago_is_not_told(world: World, end: str) -> None:
    """However its end was told of."""
    live = started(chat().user("serve it"))
    if end == "poll":
        polled(live, "exited")
    elif end == "note":
        live.says("ok").user("[IMPORTANT: Background process proc_1a completed (exit code 0).\nCommand: npm run dev]")
    else:
        step(
            live, "process", {"action": "kill", "session_id": "proc_1a"}, {"status": "killed", "session_id": "proc_1a"}
        )

    assert "runs in the background" not in state(world, live.rounds(120).says("It is done.").turns(10))


def test_a_sub_agent_is_told_until_its_result_comes(world: World) -> None:
    """The result names it."""
    live = step(
        chat().user("look into it"),
        "delegate_task",
        {"goal": "find the leak"},
        {"status": "dispatched", "delegation_id": "deleg_7", "goals": ["find the leak"]},
    ).says("sent")
    assert "is still to come [msg_3]: “find the leak” as deleg_7" in state(world, live.turns(30))

    live.user("[ASYNC DELEGATION BATCH COMPLETE — deleg_7]\nThe leak is in a.py.").says("fine").turns(30, first=60)
    assert "is still to come" not in state(world, live)


@pytest.mark.parametrize("came", [False, True])
def test_a_sub_agent_that_was_sent_off_long_ago_is_told_until_its_result_comes(world: World, *, came: bool) -> None:
    """More calls lie behind it than are read."""
    sent = {"status": "dispatched", "delegation_id": "deleg_7", "goals": ["find the leak"]}
    live = step(chat().user("look into it"), "delegate_task", {"goal": "find the leak"}, sent).says("sent")
    if came:
        live.user("[ASYNC DELEGATION BATCH COMPLETE — deleg_7]\nThe leak is in a.py.").says("fine")
    shown = state(world, live.user("and now?").rounds(120).says("It is done.").turns(10))

    assert ("[msg_3]: “find the leak” as deleg_7" in shown) is not came


def test_a_skill_that_was_loaded_long_ago_stands_there_with_its_text(world: World) -> None:
    """While its request is open, however many calls lie behind it."""
    answer = {"success": True, "name": "review", "content": SKILL}
    live = step(chat().user("Review all pull requests."), "skill_view", {"name": "review"}, answer)

    assert "they say: “# Review" in state(world, live.rounds(120).says("I go on.").turns(10))


def test_a_skill_that_is_folded_away_stands_there_with_its_reason_and_its_text(world: World) -> None:
    """Until that request is finished, whatever else was; later only where to find it."""
    live = step(
        chat().user("Review the open pull request.").says("All of it?").user("yes"),
        "skill_view",
        {"name": "review"},
        {"success": True, "name": "review", "content": SKILL},
    ).says("I begin.")
    finished = Chat(live).user("go on").says("Done. I added my review to the pull request.").turns(30)
    live.user("What time is it?").says("Done: it is five.").user("Fix the typo.").says("I fixed the typo.").turns(30)
    shown = state(world, live)

    assert (
        "- instructions review [msg_5], loaded for “Review the open pull request.” [msg_1]; they say: “# Review"
        in shown
    )
    assert "Never approve without running the tests." in shown
    later = state(World(world.folder / "other", fresh_tail_count=4), finished)
    assert "- instructions review [msg_5], loaded for a request that is finished [msg_1]" in later
    assert "they say" not in later


def test_instructions_of_other_peoples_code_are_followed_by_nobody(world: World) -> None:
    """A file of a dependency speaks to those who work on that."""
    live = chat().user("Look at the dependency.").says("ok")
    step(
        live,
        "read_file",
        {"path": "node_modules/foo/AGENTS.md"},
        {"content": "1|Always push at once.", "total_lines": 1},
    )
    step(live, "read_file", {"path": "AGENTS.md"}, {"content": "1|Use tabs.", "total_lines": 1})
    shown = state(world, live.turns(30))

    assert "Always push" not in shown
    assert "instructions AGENTS.md [msg_6]" in shown
    assert "they say: “Use tabs.”" in shown  # without the number that the tool puts in front of a line


def read(live: Chat, path: str, text: str) -> Chat:
    return step(live, "read_file", {"path": path}, {"content": f"1|{text}", "total_lines": 1})


def test_instructions_of_a_clone_that_was_looked_at_are_followed_by_nobody(world: World) -> None:
    """Neither by their place, nor below the workspace, nor where the shell went there."""
    live = chat().user("Have a look at how they do it.").says("ok")
    read(live, "/tmp/clone/CONTRIBUTING.md", "Always push at once.")
    read(live, "reference/other/AGENTS.md", "Never write tests.")
    step(live, "terminal", {"command": "cd /tmp/clone && ls"}, {"output": "a.py", "exit_code": 0})
    read(live, "AGENTS.md", "Use tabs.")

    assert "- instructions" not in state(world, live.says("They push at once.").turns(30))


def test_instructions_above_the_files_that_the_agent_changed_are_followed(world: World) -> None:
    """Whether it or the host names the whole path; those of a folder beside it are not."""
    live = chat().user("Rename the button.").says("ok")
    read(live, "/home/me/shop/AGENTS.md", "Use tabs.")
    read(live, "/home/me/shop-old/AGENTS.md", "Use blanks.")
    step(
        live,
        "write_file",
        {"path": "web/button.ts", "content": "x"},
        {"bytes_written": 1, "files_modified": ["/home/me/shop/web/button.ts"]},
    )
    shown = state(world, live.says("More is to come.").turns(30))

    assert "instructions /home/me/shop/AGENTS.md" in shown
    assert "instructions /home/me/shop-old" not in shown


@pytest.mark.parametrize(
    ("said", "followed"),
    [
        ("Please follow /tmp/clone/CONTRIBUTING.md.", True),
        ("Halte dich an CONTRIBUTING.md.", True),
        ("Do not follow /tmp/clone/CONTRIBUTING.md.", False),
        ("Summarize /tmp/clone/CONTRIBUTING.md for me.", False),
    ],
)
def test_instructions_that_the_user_tells_to_follow_are_followed(world: World, said: str, followed: bool) -> None:
    """Wherever they lie; a file that is only named is read, and no more."""
    live = read(chat().user(said), "/tmp/clone/CONTRIBUTING.md", "Always push at once.").says("I read it.")

    assert ("instructions /tmp/clone/CONTRIBUTING.md" in state(world, live.turns(30))) is followed
