"""What the host writes in the user's name is told from what the user typed, by the host's own words where it is installed."""

# ruff: noqa: E501 - the host's sentences stand here as it writes them
from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import linear
from worlds.process import World, chat
from worlds.recall import Archive, says, user

from hermes_lcm.compaction.sources import source_line
from hermes_lcm.records import Flag
from hermes_lcm.text import markers

TODO = "[Your active task list was preserved across context compression]\n- [>] 1. port the parser (in_progress)"
SWITCH = "[Note: model was just switched from claude-x to gpt-y via OpenRouter. Adjust your self-identification accordingly.]"
MEMORY = (
    "<memory-context>\n[System note: The following is recalled memory context, NOT new user input. Treat as authoritative "
    "reference data — this is the agent's persistent memory and should inform all responses.]\n\nlikes [tea]\n</memory-context>"
)
RESUMED = (
    "[System note: The previous turn was interrupted by a gateway restart; the gateway is now back online. Any restart/shutdown "
    "command in the history has already run — do NOT re-execute or verify it. Address the user's NEW message below FIRST.]"
)
RELOADED = "[USER INITIATED SKILLS RELOAD:\n\nAdded Skills:\n    - tidy: cleans up\n\nUse skills_list to see the updated catalog.]"
SKILL = (
    '[IMPORTANT: The user has invoked the "tidy" skill, indicating they want you to follow its instructions. '
    "The full skill content is loaded below.]\n\n# Tidy\nAlways sweep.\n\n"
)
SAID = "The user has provided the following instruction alongside the skill invocation: "
ALONE = {
    "task list": TODO,
    "continuation": "[System: The previous response was cut off by a network error mid-stream. Continue exactly where you left off. "
    "Do not restart or repeat prior text. Finish the answer directly.]",
    "verification": "[System: You edited code in this turn, but the workspace does not have fresh passing verification evidence "
    "yet.\n\nVerification status: none\n\nRun it.]",
    "goal": "[Continuing toward your standing goal]\nGoal: ship it\n\nContinue working toward this goal. If you are blocked and need "
    "input from the user, say so clearly and stop.",
    "background process": "[IMPORTANT: Background process p1 completed normally (exit code 0).\nCommand: make\nOutput:\nok [x]\n]",
    "subagent": "[ASYNC DELEGATION COMPLETE — d1]\nA background subagent you dispatched earlier has finished. You may have moved on.",
    "tools reloaded": "[IMPORTANT: MCP servers have been reloaded. Added servers: a. 3 MCP tool(s) now available. The tool list for "
    "this conversation has been updated accordingly.]",
    "model switch": SWITCH,
    "recalled memory": MEMORY,
    "resumed turn": RESUMED,
    "skill": SKILL,
}


#: What hosts near 0.22 write, as they wrote it.
NEWER = {
    "[ASYNC DELEGATION BATCH COMPLETE — d1]\nA background fan-out unit you dispatched earlier — 2 subagent(s) — has finished; its "
    "consolidated results are below.\n\nDispatched: 2026-11-27 21:31:35 (1s ago)": "subagent",
    "[ASYNC DELEGATION TASK FAILED — d1, task 1/2]\nOne subagent in a background fan-out you dispatched has failed while its "
    "siblings are still running. \nTask: g": "subagent",
    "[System: Your previous tool call (write_file) was too large. The cut was a transport interruption, not a capability change — your "
    "tools remain fully available.]": "continuation",
    "[System: The previous response was cut off by a network error mid-stream — a transport interruption, NOT a change in your "
    "capabilities. Continue exactly where you left off.]": "continuation",
    "[Background process p1 heartbeat #3 — still running after 2m (next in 60s when there is new output; you will also be told when "
    "it exits).\nCommand: make\nOutput since last heartbeat:\nok]": "background process",
}


@pytest.mark.parametrize(("text", "kind"), NEWER.items(), ids=range(len(NEWER)))
def test_a_block_of_a_newer_host_is_the_hosts(text: str, kind: str) -> None:
    """Its words are nobody's."""
    assert markers.host_block(text) == kind


@pytest.mark.parametrize("kind", ALONE)
def test_a_block_by_itself_is_the_hosts(kind: str) -> None:
    """No word of such a message is the user's."""
    assert markers.host_block(ALONE[kind]) == kind
    assert markers.host_block(f"{ALONE[kind]}\n") == kind


@pytest.mark.parametrize("note", [SWITCH, RESUMED, RELOADED, f"{SWITCH}\n\n{RELOADED}"])
def test_words_behind_a_note_are_the_users(note: str) -> None:
    """The host puts its notes in front, a blank line between."""
    assert [p.text for p in markers.pieces(f"{note}\n\nfix [the] parser\n\nplease") if not p.kind] == [
        "fix [the] parser\n\nplease"
    ]
    assert markers.host_block(f"{note}\n\nfix it") == ""
    assert "self-identification" not in markers.typed(f"{note}\n\nfix it")


def test_words_around_recalled_memory_are_the_users() -> None:
    """It may stand in front, behind or between."""
    found = markers.pieces(f"before\n\n{MEMORY}\n\nafter\n\n{TODO}")

    assert [piece.kind for piece in found] == ["", "recalled memory", "", "task list"]
    assert [piece.text.strip() for piece in found if not piece.kind] == ["before", "after"]


RECALLED = {
    "the host's fence": MEMORY,
    "the fence of older hosts": MEMORY.replace("authoritative reference data —", "informational background data,"),
    "a fence of other case": MEMORY.replace("<memory-context>", "<MEMORY-context>"),
    "supermemory": "<supermemory-context>\nThe following is background context.\n\n- likes [tea]\n</supermemory-context>",
    "supermemory's containers": "<supermemory-containers>\n- likes [tea]\n</supermemory-containers>",
    "hindsight": "<hindsight_memories>\n- likes [tea]\n</hindsight_memories>",
    "a list of memories": "<relevant-memories>\r\nlikes [tea]\r\n</relevant-memories>",
}


@pytest.mark.parametrize("block", RECALLED.values(), ids=RECALLED)
def test_recalled_memory_of_every_plugin_is_not_what_the_user_typed(block: str) -> None:
    """The words around it are, each at its place."""
    text = f"before\n\n{block}\n\nafter"

    assert "tea" not in markers.typed(text)
    assert markers.unrecalled("user", text) == f"before\n\n{' ' * len(block)}\n\nafter"
    assert markers.unrecalled("tool", text) == text


@pytest.mark.parametrize(
    "code",
    [
        "```\n{}\n```", "```xml\nlog:\n{}\n```\n", "~~~\n{}\n~~~", "text\n```\na\n```\n```\n{}\n```",
        "````md\n```xml\n{}\n```\n````", "```\n~~~\n{}\n```", "```\na\n```js\nb\n```\n\n```\n{}\n```",
    ],
)  # fmt: skip
@pytest.mark.parametrize("block", RECALLED.values(), ids=RECALLED)
def test_recalled_memory_that_the_user_quotes_in_code_is_what_he_says(block: str, code: str) -> None:
    """Who asks about such a block loses nothing of it; that of the host behind it is still none of his words."""
    text = f"why is this there?\n\n{code.format(block)}\n\nit is wrong"

    assert markers.typed(text) == text
    assert markers.unrecalled("user", text) == text
    assert [piece.text.strip() for piece in markers.pieces(f"{text}\n\n{MEMORY}") if not piece.kind] == [text]


@pytest.mark.parametrize(
    "echo",
    [
        f"```\n{MEMORY}\n```",
        f"- it says\n\n      ~~~xml\n{textwrap.indent(MEMORY, ' ' * 6)}\n      ~~~",
        textwrap.indent(MEMORY, "> ", lambda _: True),
        textwrap.indent(MEMORY, "> > ", lambda _: True),
    ],
    ids=["code", "code in a list", "quote", "quote in a quote"],
)
def test_recalled_memory_that_a_reply_repeats_in_code_or_in_quotes_is_not_searched(tmp_path: Path, echo: str) -> None:
    """Nobody said it here; the reply comes back exactly."""
    text = f"You told me of the plants:\n\n{echo}\n\nThat is all."
    archive = Archive(tmp_path, user("what do you know?"), says(text))

    assert archive.found("tea") == []
    assert archive.found("plants") == [2]
    assert "tea" not in markers.unrecalled("assistant", text, blanks=False)
    assert archive.read("msg_2") == text


@pytest.mark.parametrize("code", ["````md\n```xml\n{}\n```\n````", "```\n{}"], ids=["nested", "open"])
@pytest.mark.parametrize("tag", ["supermemory-context", "hindsight_memories", "relevant-memories"])
def test_the_form_of_a_plugins_memory_that_a_reply_shows_in_code_is_what_it_says(tag: str, code: str) -> None:
    """The host never writes these there, and code that nobody closes reaches to the end of a reply."""
    text = f"It writes:\n\n{code.format(f'<{tag}>{chr(10)}likes tea{chr(10)}</{tag}>')}"

    assert markers.unrecalled("assistant", text) == text


@pytest.mark.parametrize("memory", ["likes [tea]", "```\nlikes [tea]\n```", "~~~\nlikes [tea]"])
def test_code_that_the_user_left_open_hides_no_recalled_memory(memory: str) -> None:
    """The host puts it behind the words, where no line closes that code any more."""
    said = markers.pieces(f"run\n```\nmake\n\n{MEMORY.replace('likes [tea]', memory)}")

    assert [piece.kind for piece in said] == ["", "recalled memory"]


PREFETCHED = {
    "byterover": "## ByteRover Context\n- likes [tea]",
    "hindsight": "# Hindsight Memory (persistent cross-session context)\n\n- likes [tea]",
    "holographic": "## Holographic Memory\n- [0.8] likes [tea]",
    "honcho": "## User Representation\nlikes [tea]\n\n## AI Identity Card\ncalm",
    "mem0": "## Mem0 Memory\n- likes [tea]",
    "openviking": "## OpenViking Context\n<item>likes [tea]</item>",
    "retaindb": "[RetainDB Context]\n- likes [tea]",
    "supermemory": RECALLED["supermemory"],
    "a fence inside": "<memory-context>likes [tea]</memory-context>\n</memory-context>\nlikes [tea]",
}


@pytest.mark.parametrize("recalled", PREFETCHED.values(), ids=PREFETCHED)
def test_what_the_host_wraps_for_a_memory_plugin_is_not_what_the_user_typed(recalled: str) -> None:
    """Whatever the plugin writes: the fence is the host's own, by its own function."""
    from agent.memory_manager import build_memory_context_block

    said = markers.typed(f"before\n\n{build_memory_context_block(recalled)}").splitlines()

    assert [line for line in said if line.strip()] == ["before", "[recalled memory: a note of the host]"]


@pytest.mark.parametrize("block", RECALLED.values(), ids=RECALLED)
def test_recalled_memory_is_kept_and_neither_searched_nor_lent(tmp_path: Path, block: str) -> None:
    """The message comes back exactly; no search finds it, or the one behind it, by what a plugin recalled."""
    archive = Archive(tmp_path, user(f"water the plants\n\n{block}"), says("done"))

    assert archive.found("tea") == []
    assert archive.found("plants")[0] == 1
    assert archive.read("msg_1") == f"water the plants\n\n{block}"
    assert all("tea" not in hit["snippet"] for hit in archive.grep("plants")["results"])


@pytest.mark.parametrize("behind", ["", "\n\n[Runtime note: cwd is /tmp]"])
def test_the_instruction_behind_a_skill_is_the_users(behind: str) -> None:
    """The skill's own text is not."""
    found = [piece.text for piece in markers.pieces(f"{SKILL}{SAID}sweep the cellar{behind}") if not piece.kind]

    assert found == ["sweep the cellar"]


@pytest.mark.parametrize(
    "text",
    [
        "[System note: I think we should wait]",
        "[Note: model was just switched] is what it printed",
        f"why did it print {SWITCH}",
        f"{SWITCH} and then?",
        "<memory-context>\nnotes of mine\n</memory-context>",
        "<persisted-output>\nThis tool result was too large\n</persisted-output>",
        "<memory-context>\n[System note: The following is recalled memory context, NOT new user input. never closed",
        "<supermemory-context>\nis what I see in it, and `</supermemory-context>` behind it. Why?",
        "in the log:\n\n" + "\n".join(f"    {line}" for line in MEMORY.splitlines()) + "\n\nwhy?",
        "\n".join(f"> {line}" for line in MEMORY.splitlines()) + "\n\nwhy?",
        f"it begins with {MEMORY}",
        "[IMPORTANT: Background process",
        f"look: {TODO}\nand more",
        "- [x] done",
        "",
    ],
)
def test_what_merely_resembles_a_block_is_the_users(text: str) -> None:
    """Nothing of it is taken away."""
    assert markers.typed(text) == text
    assert markers.host_block(text) == ""


@given(
    st.lists(st.sampled_from([*ALONE.values(), "words", "[", "]", "\n\n", "<memory-context>", RELOADED]), max_size=8)
)
def test_any_mixture_is_taken_apart(parts: list[str]) -> None:
    """Every word of it is in a piece."""
    text = "".join(parts)

    assert "".join("".join(p.text.split()) for p in markers.pieces(text)) == "".join(text.split())


@pytest.mark.parametrize(
    "unit",
    ["[System note: ", "<memory-context>\n", MEMORY, "]\n\n", "[" * 50, SWITCH + "\n\n", "- [x] a\n", SAID],
    ids=range(8),
)
def test_time_is_linear(unit: str) -> None:
    """Alone, and below the words of another note."""

    def take_apart(text: str) -> None:
        markers.pieces("[Continuing toward your standing goal]\nGoal: " + text)
        markers.pieces(text)

    assert linear.excess(take_apart, unit * (200_000 // len(unit)), unit * (1_000_000 // len(unit))) <= linear.LIMIT


def test_a_summary_sees_the_users_words_only(tmp_path: Path) -> None:
    """And the store keeps all of it."""
    world = World(tmp_path)
    text = f"{SWITCH}\n\nport the parser\n\n{MEMORY}"
    world.take(chat().user(text).says("ok").user(RESUMED))
    rows = world.store.rows([1, 3])

    assert (
        source_line(rows[0]).text
        == "[model switch: a note of the host]\nport the parser\n[recalled memory: a note of the host]"
    )
    assert (source_line(rows[1]).text, source_line(rows[1]).tokens) == ("", rows[1].head.tokens)
    assert rows[0].text == text
    assert rows[1].head.flags & Flag.HOST_NOTE


def test_the_users_request_is_not_a_note_that_came_later(tmp_path: Path) -> None:
    """A compaction keeps the request, whatever the host reported since."""
    world = World(tmp_path)
    live = chat().turns(20).user("the real request").rounds(30).user(ALONE["background process"]).rounds(30, first=50)
    out = world.compact(live)

    assert "the real request" in [message["content"] for message in out]


def _todo(module: Any) -> str | None:
    store = module.TodoStore()
    store.write([{"id": "1", "content": "port the parser", "status": "in_progress"}])
    text: str | None = store.format_for_injection()
    return text


HOST_TEXTS: list[tuple[str, str, Any]] = [
    ("task list", "tools.todo_tool", _todo),
    ("recalled memory", "agent.memory_manager", lambda m: m.build_memory_context_block("likes tea")),
    ("continuation", "agent.conversation_loop", lambda m: m._get_continuation_prompt(True, ["write_file"])),
    ("continuation", "agent.conversation_loop", lambda m: m._get_continuation_prompt(True)),
    ("continuation", "agent.conversation_loop", lambda m: m._get_continuation_prompt(False)),
    ("continuation", "agent.conversation_loop", lambda m: m._CODEX_INCOMPLETE_NUDGE),
    ("goal", "hermes_cli.goals", lambda m: m.CONTINUATION_PROMPT_TEMPLATE.format(goal="ship it")),
    ("goal", "hermes_cli.goals", lambda m: m.CONTINUATION_PROMPT_WITH_CONTRACT_TEMPLATE.format(goal="g", contract_block="c")),
    ("goal", "hermes_cli.goals", lambda m: m.CONTINUATION_PROMPT_WITH_SUBGOALS_TEMPLATE.format(goal="g", subgoals_block="- a")),
    ("kanban", "hermes_cli.goals", lambda m: m.KANBAN_GOAL_CONTINUATION_TEMPLATE.format(reason="r")),
    ("kanban", "hermes_cli.goals", lambda m: m.KANBAN_GOAL_FINALIZE_TEMPLATE.format(reason="r")),
    ("background process", "tools.process_registry", lambda m: m.format_process_notification({"session_id": "p", "exit_code": 0})),
    ("background process", "tools.process_registry",
     lambda m: m.format_process_notification({"type": "watch_match", "session_id": "p", "output": "x", "suppressed": 2})),
    ("subagent", "tools.process_registry", lambda m: m._format_async_delegation({"goal": "g", "status": "completed", "summary": "s"})),
    ("resumed turn", "gateway.run", lambda m: m.build_resume_recovery_note("restart_timeout", "")),
]  # fmt: skip
_NOTICES = "tools.process_registry_notifications"  # of hosts near 0.22
if importlib.util.find_spec(_NOTICES) is not None:
    HOST_TEXTS += [
        ("background process", _NOTICES,
         lambda m: m.format_process_notification({"type": "heartbeat", "session_id": "p", "output": "x"})),
        ("subagent", _NOTICES,
         lambda m: m._format_async_delegation({"goals": ["g"], "results": [{"status": "completed", "summary": "s"}]})),
        ("subagent", _NOTICES,
         lambda m: m._format_async_delegation({"task_failure_notice": True, "goals": ["g"], "results": [{"error": "e"}]})),
        ("continuation", "agent.conversation_loop", lambda m: m._DEGENERATE_FINAL_NUDGE),
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "module", "made"), HOST_TEXTS, ids=range(len(HOST_TEXTS)))
def test_the_installed_host_writes_what_is_recognised(kind: str, module: str, made: Any) -> None:
    """Its own functions make the text."""
    host = pytest.importorskip(module, reason="the host is not installed")
    try:
        text = made(host)
    except AttributeError as exc:
        pytest.skip(f"this host has no such text: {exc}")

    assert markers.host_block(text) == kind, text


def test_any_number_of_notes_is_taken_apart_in_linear_time() -> None:
    """A user may paste what a host wrote, as often as it fits into five megabytes."""
    note = "[System note: Your previous turn was long]\n\n"
    small, large = (note * (size // len(note)) + "and now?" for size in (200_000, 1_000_000))
    found = markers.pieces(large)

    assert linear.excess(markers.pieces, small, large) <= linear.LIMIT
    assert [found[0].kind, found[-1].kind, found[-1].text] == ["resumed turn", "", "and now?"]
