"""Who may read what (P8): every kind of agent that the host makes, with what the host says of its session."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worlds.gateway import ALICE, MALLORY, OWL, PIN, Agent, Gateway
from worlds.process import Chat, chat
from worlds.recall import Model

from hermes_lcm.command import operator_access, run
from hermes_lcm.config import load
from hermes_lcm.dag import fingerprint
from hermes_lcm.host import facts
from hermes_lcm.plugin import registration
from hermes_lcm.records import Flag, NewNode, Scope
from hermes_lcm.runtime import by_itself
from hermes_lcm.search.scope import Rights
from hermes_lcm.session import alone


@pytest.fixture
def world(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    made = Gateway(hermes_home)
    monkeypatch.setattr(made.hooks, "PROCESS", made.hooks.PROCESS)
    made.agent("alice", "telegram", ALICE).says(f"my bank PIN is {PIN}")
    made.agent("term", "cli").says(f"the secret of the terminal is {OWL}")
    yield made
    made.runtime.preparer.stop()
    made.runtime.db.close()


# -- whose agent asks ----------------------------------------------------------------------------------------------
def test_the_terminal_reads_everything(world: Gateway) -> None:
    """Its agent, its session and the host's row of it all say that it is the person at this machine."""
    assert world.agent("other", "cli").says("hello").finds("PIN secret") == {"alice", "term"}


@pytest.mark.parametrize(
    "row",
    [None, ("telegram", MALLORY, {}), ("telegram", "", {}), ("cli", MALLORY, {}), ("cli", "", {"user_id": "666"})],
    ids=["no-row", "a-chat", "a-chat-without-key", "a-key", "a-user"],
)
def test_a_terminals_agent_reads_its_session_only_where_the_host_says_otherwise(world: Gateway, row: Any) -> None:
    """All three must say it."""
    if row is None:
        agent = Agent(world, "new", "cli")
    else:
        world.row("new", row[0], row[1], **row[2])
        agent = Agent(world, "new", "cli")
    agent.says("hello")

    assert agent.finds("PIN secret hello") == {"new"}
    assert agent.reads("alice") == agent.reads("term") == 0


@pytest.mark.parametrize("platform", ["", "cron", "curator", "batch", "webhook", "desktop"])
def test_an_agent_that_is_nobodys_reads_its_own_session(world: Gateway, platform: str) -> None:
    """Jobs, and agents that the host makes for itself."""
    agent = world.agent("job", platform).says("hello")

    assert agent.finds("PIN secret hello") == {"job"}
    assert agent.reads("alice") == agent.reads("term") == 0
    assert agent.reads("job") == 2


def test_a_worker_of_the_board_reads_its_own_session(world: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks like a terminal, and works for whoever made the task."""
    monkeypatch.setenv("HERMES_KANBAN_TASK", "t_1")

    assert world.agent("worker", "cli").says("hello").finds("PIN secret hello") == {"worker"}


def test_a_chat_that_an_agent_without_a_chat_saw_first_is_its_users(world: Gateway) -> None:
    """The host's hygiene pass comes first; its row of the session says whose it is, and the chat's agent does."""
    world.row("chat", "telegram", MALLORY)
    Agent(world, "chat", "").says("from before")

    assert world.owner("chat") == "telegram:dm:666"
    assert world.agent("chat", "telegram", MALLORY).says("hello").finds("PIN secret hello before") == {"chat"}


def test_a_session_that_nobody_could_claim_is_claimed_by_the_first_who_can(world: Gateway) -> None:
    """Without a row of the host the first agent proves nothing."""
    Agent(world, "chat", "").says("from before")
    before = world.owner("chat")
    mallory = world.agent("chat", "telegram", MALLORY).says("hello")

    assert (before, world.owner("chat")) == ("session:chat", "telegram:dm:666")
    assert mallory.finds("before hello") == {"chat"}


def test_a_chat_to_which_a_terminal_session_was_handed_reads_that_session(world: Gateway) -> None:
    """It stays the terminal's, which is shown."""
    chats = Agent(world, "term", "telegram", "agent:main:telegram:thread:-100:77")
    chats.says("hello", live=chat().user(f"the secret of the terminal is {OWL}").says("noted"))

    assert chats.finds("PIN secret hello") == {"term"}
    assert (chats.reads("term"), chats.reads("alice")) == (4, 0)
    assert world.owner("term") == "local"
    assert world.agent("again", "cli").says("hi").finds("PIN hello") == {"alice", "term"}


def test_a_contradicting_owner_is_refused_and_shown(world: Gateway) -> None:
    """Two chats with one session id: the second reads that session, and the conversation stays the first one's."""
    world.row("alice", "telegram", MALLORY)
    mallory = Agent(world, "alice", "telegram", MALLORY).says("hello")

    assert world.owner("alice") == "telegram:dm:1"
    assert mallory.finds("PIN secret hello") <= {"alice"}
    assert "owner of alice" in world.topics()


def test_who_continues_a_session_by_its_id_reads_no_more_than_it(world: Gateway) -> None:
    """A client of the API server that names the id of a terminal's session, or a chat's."""
    for session in ("term", "alice"):
        client = Agent(world, session, "api_server").says("hello")
        assert client.finds("PIN secret hello") <= {session}
        assert client.reads({"term": "alice", "alice": "term"}[session]) == 0


@pytest.mark.parametrize("parent", ["term", "alice"])
@pytest.mark.parametrize(
    ("platform", "key"), [("api_server", ""), ("api_server", ALICE), ("telegram", MALLORY), ("", "")]
)
def test_who_continues_a_sub_agents_session_has_not_its_askers_rights(
    world: Gateway, parent: str, platform: str, key: str
) -> None:
    """These are lent to the sub-agent, while it works."""
    askers = [world.agent("alice", "telegram", ALICE), world.agent("term", "cli")]
    world.hooks.subagent_start(parent_session_id=parent, child_session_id="child")
    child = world.agent("child", "subagent").says("a task")
    other = Agent(world, "child", platform, key).says("hello", live=Chat(child.live))

    assert askers
    assert child.reads(parent) == 2
    assert other.finds("PIN secret hello") <= {"child"}
    assert other.reads("alice") == other.reads("term") == 0


def test_no_session_becomes_a_sub_agents_that_is_somebodys(world: Gateway) -> None:
    """Evidence of another owner comes too late."""
    world.agent("mallory", "telegram", MALLORY).says("hello")
    Agent(world, "child", "subagent").says("a task")
    for child in ("alice", "term", "child"):
        world.hooks.subagent_start(parent_session_id="mallory", child_session_id=child)

    assert [world.owner(each) for each in ("alice", "term", "child")] == ["telegram:dm:1", "local", "telegram:dm:666"]


def test_a_branch_belongs_to_who_makes_it(world: Gateway) -> None:
    """The operator branches off a chat at the terminal: the chat's user sees nothing of it."""
    world.row("aside", "cli", parent_session_id="alice", model_config='{"_branched_from": "alice"}')
    past = chat().user(f"my bank PIN is {PIN}").says("noted")
    aside = Agent(world, "aside", "cli").says("the operator thinks KESTREL", live=past)
    alice = world.agent("alice", "telegram", ALICE).says(
        "hello", live=chat().user(f"my bank PIN is {PIN}").says("noted")
    )

    assert world.owner("aside") == "local"
    assert aside.finds("PIN") >= {"alice"}
    assert alice.finds("KESTREL PIN") == {"alice"}
    assert alice.reads("aside") == 0


def test_a_branch_of_somebody_elses_session_reads_what_its_list_shows(world: Gateway) -> None:
    """As that session itself does, where a chat goes on with it."""
    world.row("aside", "telegram", MALLORY, parent_session_id="alice", model_config='{"_branched_from": "alice"}')
    mallory = Agent(world, "aside", "telegram", MALLORY).says("hello", live=chat().user("shall I?").says("yes"))

    assert PIN not in mallory.tool("lcm_grep", query="PIN", session_scope="all")
    assert PIN not in mallory.tool("lcm_expand", store_id="msg_1..msg_9")
    assert "shall I" in mallory.tool("lcm_load_session")


def test_what_the_operator_does_in_a_branch_of_a_chat_shows_nowhere_in_it(
    world: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edited message, and summaries that replace, cover or condense what it inherits."""
    alice = world.agent("alice", "telegram", ALICE).says(
        "and plums", live=chat().user(f"my bank PIN is {PIN}").says("noted")
    )
    add, rows = partial(world.runtime.dag.add, now=time.time()), (1, 2)
    leaf = add(NewNode(1, 0, "provisional", "PIN", "", 1, 9, rows, fingerprint(0, rows)))

    def told() -> list[str]:
        asked = [alice.tool("lcm_load_session"), alice.tool("lcm_expand", store_id="msg_1")]
        asked += [alice.tool("lcm_describe", id=each) for each in ("msg_1", leaf.address)]
        asked += [alice.tool("lcm_grep", query="PIN", session_scope=each) for each in ("all", "current")]
        return asked + [typed(world, monkeypatch, ALICE, f"explain {each}") for each in ("msg_1", leaf.address)]

    before = told()
    world.row("aside", "cli", parent_session_id="alice", model_config='{"_branched_from": "alice"}')
    Agent(world, "aside", "cli").says(
        OWL, live=chat().user(f"my bank PIN is {PIN}, or so").says("noted").user("and plums")
    )
    add(NewNode(3, 0, "verified", OWL, "", 1, 9, rows, fingerprint(0, (*rows, 1)), replaces=leaf.node_id))
    add(NewNode(3, 1, "verified", OWL, "", 1, 9, (leaf.node_id,), fingerprint(1, (leaf.node_id,))))

    assert 1 in [row.head.revises for rows in world.runtime.store.row_batches() for row in rows]
    assert told() == before


def test_what_the_operator_says_of_a_fact_in_a_branch_of_a_chat_shows_nowhere_in_it(
    world: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A correction of what the branch inherits is the branch's; so is taking it back."""
    past = chat().user("Always use tabs in this project.").says("noted")
    alice = world.agent("tabs", "telegram", ALICE).says(live=Chat(past))
    world.row("aside", "cli", parent_session_id="tabs", model_config='{"_branched_from": "tabs"}')
    aside = Agent(world, "aside", "cli").says("and more", live=Chat(past))
    rule = json.loads(aside.tool("lcm_describe", view="ledger"))["entries"][0]["entry"]
    operator = replace(operator_access(world.runtime, world.runtime.find_session("aside"), None), trusted=True)
    said = [run(f"ledger correct {rule} {OWL}", operator)]
    shown = [agent.tool("lcm_describe", view="ledger") for agent in (alice, aside)]
    typed(world, monkeypatch, ALICE, f"ledger pin {rule}")
    said.append(run(f"ledger clear {rule}", operator))

    assert [OWL in each for each in (*said, *shown)] == [True, False, False, True]
    assert ["pinned" in agent.tool("lcm_describe", view="ledger") for agent in (alice, aside)] == [True, False]


def test_resuming_a_session_carries_nothing_into_it(world: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/resume` is not `/new`."""
    world.db.said["alice"] = [{"role": "user", "content": "x"}]
    carried: list[str] = []
    monkeypatch.setattr(world.runtime, "_carry", lambda old, new: carried.append(new.session_id))
    term = Agent(world, "term", "cli")
    for target in ("old", "alice", "new"):
        world.row(target, "cli")
        world.db.said["old"] = [{"role": "user", "content": "from before the plugin"}]
        term.engine.on_session_reset()
        term.engine.bind_session_state(world.db, target)
        world.hooks.post_llm_call(session_id=target, conversation_history=chat().user(target), platform="cli")

    assert carried == ["new"]


@pytest.mark.parametrize("platform", ["", "cron", "api_server", "telegram"])
def test_a_long_answer_to_the_terminal_goes_on_for_nobody_else(world: Gateway, platform: str) -> None:
    """Nor for a caller of whom nothing is stored yet."""
    long = " ".join(f"word{n} of {PIN}" for n in range(3000))
    world.runtime.model = Model(*[json.dumps({"answer": long, "citedIds": ["msg_1"]})] * 2)
    term = world.agent("term", "cli")
    cut = json.loads(term.tool("lcm_expand_query", prompt="bank PIN", max_tokens=200, session_scope="all"))
    rest = {"prompt": "bank PIN", "cursor": cut["continue_with"]["cursor"]}

    assert PIN in term.tool("lcm_expand_query", **rest)
    assert PIN not in Agent(world, "new", platform).tool("lcm_expand_query", **rest)


# -- patterns ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("platform", "stored"), [("telegram", 0), ("cli", 4)])
def test_what_patterns_decide_waits_for_evidence(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch, platform: str, stored: int
) -> None:
    """Nothing is written while it is not known where a session is from; then what was held back is stored, or dropped."""
    monkeypatch.setenv("LCM_IGNORE_SESSION_PATTERNS", "telegram:**")
    world = Gateway(hermes_home)
    Agent(world, "chat", "").says("first")
    before = world.runtime.store.count() if world.runtime.db.path.exists() else 0
    agent = world.agent("chat", platform, MALLORY if platform == "telegram" else "")
    agent.says("second", live=chat().user("first").says("noted"))

    assert before == 0
    assert (world.runtime.store.count() if world.runtime.db.path.exists() else 0) == stored
    assert "sessions held back" not in world.topics()


def test_what_is_made_from_a_session_that_is_left_out_is_left_out(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sub-agent of an ignored chat, and its own one, know what was said there."""
    monkeypatch.setenv("LCM_IGNORE_SESSION_PATTERNS", "telegram")
    world = Gateway(hermes_home)
    world.agent("chat", "telegram", ALICE).says(PIN)
    for parent, child in (("chat", "child"), ("child", "grandchild"), ("other", "kept")):
        world.hooks.subagent_start(parent_session_id=parent, child_session_id=child)
        world.agent(child, "subagent").says(f"{child}: {PIN}")
    stored = [row.text for rows in world.runtime.store.row_batches() for row in rows if PIN in row.text]
    world.runtime.db.close()

    assert stored == [f"kept: {PIN}"]
    assert b"grandchild" not in b"".join(path.read_bytes() for path in hermes_home.rglob("lcm.db*"))


@pytest.mark.parametrize("restarted", [False, True], ids=["same process", "after a restart"])
@pytest.mark.parametrize("setting", ["LCM_IGNORE_SESSION_PATTERNS", "LCM_STATELESS_SESSION_PATTERNS"])
def test_a_command_stores_no_line_of_a_group_that_the_settings_leave_out(
    setting: str, restarted: bool, hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a command the host's transcript is looked at for lines that nobody said to the bot."""
    key = "agent:main:telegram:group:-5"
    (hermes_home / "config.yaml").write_text("context:\n  engine: lcm\n", encoding="utf-8")
    Gateway(hermes_home).agent("group", "telegram", key).says("said while the group was kept")
    monkeypatch.setenv(setting, "telegram")
    world = Gateway(hermes_home)
    _alive = None if restarted else world.agent("group", "telegram", key)
    before = texts_of(world)
    world.db.said["group"] = [{"role": "user", "content": f"[Anna|1]\n{OWL}", "observed": True}]
    kept = SimpleNamespace(session_key=key, session_id="group")
    store = SimpleNamespace(get_session_key=lambda _: key, list_sessions=lambda: [kept], _db=world.db)
    command = SimpleNamespace(source="group", text="/help")
    copy_context().run(world.hooks.pre_gateway_dispatch, event=command, session_store=store)

    assert texts_of(world) == before
    assert world.topics() == []


def test_a_command_of_two_reads_no_transcript(hermes_home: Path) -> None:
    """Nobody is overheard there, and a long one takes its time to read, while other chats wait."""
    (hermes_home / "config.yaml").write_text("context:\n  engine: lcm\n", encoding="utf-8")
    world, read = Gateway(hermes_home), list[str]()
    database = SimpleNamespace(get_messages_as_conversation=lambda session_id: read.append(session_id) or [])
    kept = SimpleNamespace(session_key="k", session_id="s")
    store = SimpleNamespace(get_session_key=lambda _: "k", list_sessions=lambda: [kept], _db=database)
    for chat_type in ("group", "dm"):
        command = SimpleNamespace(source=SimpleNamespace(chat_type=chat_type), text="/help")
        copy_context().run(world.hooks.pre_gateway_dispatch, event=command, session_store=store)

    assert read == ["s"]


def texts_of(world: Gateway) -> list[str]:
    return [row.text for rows in world.runtime.store.row_batches() for row in rows]


def test_ids_that_differ_in_a_password_only_are_two_sessions(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redaction makes one placeholder of all passwords, and never one session of two clients."""
    monkeypatch.setenv("LCM_SENSITIVE_PATTERNS_ENABLED", "true")
    world = Gateway(hermes_home)
    one = world.agent("password=hunter2222", "api_server").says(PIN)
    other = world.agent("password=letmein333", "api_server").says("hello")
    found = [len(each.finds(PIN)) for each in (one, other)]
    world.runtime.preparer.stop()
    world.runtime.db.close()

    assert found == [1, 0]
    assert world.runtime.stored(one.session) != world.runtime.stored(other.session)
    assert b"hunter2222" not in b"".join(path.read_bytes() for path in hermes_home.rglob("lcm.db*"))


# -- commands ------------------------------------------------------------------------------------------------------
def typed(world: Gateway, monkeypatch: pytest.MonkeyPatch, key: str, words: str) -> str:
    """`/lcm` in a chat of a gateway."""
    monkeypatch.setattr(world.hooks.PROCESS.engines, "gateway", True)
    monkeypatch.setattr(world.hooks, "command_key", lambda: key)
    return registration.answer(words)


@pytest.mark.parametrize(
    "words",
    [
        *("status", "status deep", "doctor", "doctor deep", "doctor clean", "doctor repair", "doctor source", "help"),
        *("doctor retention", "backup", "restore", "restore latest", "restore latest apply", "search PIN secret"),
        *("explain msg_1", "explain msg_3", "rotate", "dissolve sum_1", "redact preview", "import x", "export"),
    ],
)
def test_a_command_of_a_chat_tells_and_changes_nothing_of_others(
    world: Gateway, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Neither names, counts nor texts."""
    world.agent("mallory", "telegram", MALLORY).says("hello")
    said = typed(world, monkeypatch, MALLORY, words)
    world.agent("late", "telegram", "agent:main:telegram:dm:2").says("one", "two", "three")

    assert not [word for word in (PIN, OWL, "alice", "term ", "dm:1") if word in said]
    assert typed(world, monkeypatch, MALLORY, words) == said
    assert len(list(world.home.rglob("*.sqlite3"))) == 0


@pytest.mark.parametrize("begun", [False, True], ids=["no-agent", "an-agent"])
def test_the_person_at_a_terminal_finds_what_was_said_there_before_the_first_message(
    world: Gateway, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """Neither host nor archive has a row yet that says whose session it is; the chats' words stay theirs."""
    monkeypatch.setattr(world.hooks.PROCESS, "engines", type(world.hooks.PROCESS.engines)())
    made = Agent(world, "fresh", "cli") if begun else None
    monkeypatch.setattr("hermes_lcm.host.facts.at_terminal", lambda: True)
    said = registration.answer("search PIN secret terminal")
    monkeypatch.setattr("hermes_lcm.host.facts.at_terminal", lambda: False)
    elsewhere = registration.answer("search PIN secret terminal")
    del made

    assert OWL in said
    assert PIN not in said
    assert OWL not in elsewhere


def test_a_resumed_session_of_a_chat_is_nothing_new_at_a_terminal(
    world: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's row of it says whose it is, though nothing of it is stored here."""
    monkeypatch.setattr(world.hooks.PROCESS, "engines", type(world.hooks.PROCESS.engines)())
    world.row("theirs", "telegram", MALLORY)
    made = Agent(world, "theirs", "cli")
    monkeypatch.setattr("hermes_lcm.host.facts.at_terminal", lambda: True)
    said = registration.answer("search PIN secret terminal")
    del made

    assert OWL not in said
    assert PIN not in said


@pytest.mark.parametrize(
    ("platform", "source", "key", "owner"),
    [
        ("cli", "oneshot", "", "local"), ("", "oneshot", "", "session:once"), ("cli", "oneshot", MALLORY, "telegram:dm:666"),
        ("cli", "tool", "", "session:once"), ("telegram", "oneshot", MALLORY, "telegram:dm:666"),
    ],
)  # fmt: skip
def test_a_question_typed_into_a_shell_is_of_the_person_at_the_machine(
    world: Gateway, platform: str, source: str, key: str, owner: str
) -> None:
    """Hosts near 0.22 call the source of `hermes chat -q` "oneshot"; alone that shows nothing."""
    world.row("once", source, key)
    asked = Agent(world, "once", platform, key).says("what is the secret?")

    assert world.owner("once") == owner
    assert (OWL in asked.tool("lcm_grep", query="secret terminal", session_scope="all")) is (owner == "local")


@pytest.mark.parametrize(
    ("loaded", "terminal"),
    [
        (["os", "cli", "gateway.run"], True), (["tui_gateway.server", "gateway.run"], True),
        (["gateway.run", "cli"], False), (["os"], False),
    ],
)  # fmt: skip
def test_a_program_is_told_by_what_it_loaded_first(loaded: list[str], terminal: bool) -> None:
    """A terminal loads parts of the gateway later, and the other way round."""
    assert facts.at_terminal(loaded) is terminal


def test_a_command_whose_chat_is_not_known_is_refused(world: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not answered for whoever's agent was made last."""
    for words in ("search PIN", "status"):
        said = typed(world, monkeypatch, "", words)
        assert said.startswith("Not done")
        assert PIN not in said
        assert "alice" not in said


def test_a_client_with_a_chats_key_is_another_chat(world: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server's clients choose their keys."""
    world.agent("client", "api_server", ALICE).says("the client says MARMOT")

    assert PIN in typed(world, monkeypatch, ALICE, "search PIN")
    assert "MARMOT" not in typed(world, monkeypatch, ALICE, "search MARMOT").replace("search MARMOT", "")


def test_no_chat_makes_the_choices_of_another_owner(world: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a newcomer, nor a chat to which the terminal's session was handed."""
    said = [typed(world, monkeypatch, "agent:main:telegram:dm:2", "notices off")]
    chats = Agent(world, "term", "telegram", MALLORY)
    chats.says("hello", live=chat().user(f"the secret of the terminal is {OWL}").says("noted"))
    said.append(typed(world, monkeypatch, MALLORY, "notices off"))

    assert [each.startswith("Not done") for each in said] == [True, True]
    assert world.runtime.wants_notices("term")


def test_what_a_session_cost_its_owner_is_not_told_where_it_was_handed_to(
    world: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the status there tells no numbers of it."""
    world.runtime.costs.note("term", requests=3, prompt=1000)
    chats = Agent(world, "term", "telegram", MALLORY)
    said = typed(world, monkeypatch, MALLORY, "cost")
    del chats

    assert said.startswith("Nothing is counted")
    assert "3 requests" in run("cost", operator_access(world.runtime, None, None, Rights()))


def test_who_else_works_in_a_session_is_told_to_the_operator_only(world: Gateway) -> None:
    """A chat's id is the chat's own."""
    alice = world.agent("alice", "telegram", ALICE)
    world.row("alice", "telegram", MALLORY)
    agents = [alice, Agent(world, "alice", "telegram", MALLORY)]
    told = "".join(each.says("hi").tool(name) for each in agents for name in ("lcm_status", "lcm_doctor"))

    assert "another owner" in told
    assert "telegram:dm:" not in told
    assert "telegram:dm:666" in world.agent("operator", "cli").says("hello").tool("lcm_status")


# -- sessions that several people share ----------------------------------------------------------------------------
def test_clients_that_begin_with_the_same_words_do_not_read_each_other(world: Gateway) -> None:
    """The host derives one session id for both; each request gets what its own history shows."""
    common = chat().user("hello").says("how can I help? " + "onboarding " * 200)
    world.agent("api", "api_server").says(live=common)
    anna = Agent(world, "api", "api_server").says(f"my PIN is {PIN}", live=Chat(common))
    made = json.loads(anna.tool("lcm_archive", operation="store", start_index=0, end_index=1, summary=f"hi {PIN}"))
    bert = Agent(world, "api", "api_server").says("what else can you do?", live=Chat(common))
    asked = {
        "lcm_grep": {"query": "PIN else"}, "lcm_load_session": {}, "lcm_expand": {"store_id": "msg_1..msg_20"},
        "lcm_archive": {"operation": "list"}, "lcm_describe": {}, "lcm_status": {}, "lcm_doctor": {},
    }  # fmt: skip
    told = [name for name, args in asked.items() if PIN in bert.tool(name, **args)]
    of_handle = bert.tool("lcm_archive", operation="load", memory_handle=made["memory_handle"])
    session = world.runtime.session("api")
    seen = {name: world.runtime.observe("api", list(agent.live)) for name, agent in (("anna", anna), ("bert", bert))}
    placeholders = {name: world.runtime.archived.replacements(session, *each) for name, each in seen.items()}

    for agent in (anna, bert, anna):  # each request shows the whole history of one
        world.runtime.observe("api", list(agent.live))

    assert world.runtime.scopes.counts(Scope(session_id="api"))[0] == 6
    assert told == []
    assert PIN not in of_handle
    assert PIN in anna.tool("lcm_load_session")
    assert [bool(placeholders["anna"]), bool(placeholders["bert"])] == [True, False]


def test_a_client_with_a_key_does_not_get_what_one_without_said(world: Gateway) -> None:
    """The same first words are the same session; a key of one's own choice proves nothing of it."""
    anna = world.agent("api", "api_server").says("hello", f"my PIN is {PIN}")
    thief = Agent(world, "api", "api_server", "chosen").says("hello")

    assert PIN not in thief.tool("lcm_load_session") + thief.tool("lcm_grep", query="PIN", session_scope="all")
    assert PIN in anna.tool("lcm_load_session")


@pytest.mark.parametrize("key", ["", "bert's"])
@pytest.mark.parametrize("session", ["api-0123456789abcdef", "default"])
def test_clients_with_keys_that_share_an_id_do_not_read_each_other(world: Gateway, session: str, key: str) -> None:
    """Their first words are the same, or they choose the same id: no key makes one the owner of what the other says there."""
    anna = world.agent(session, "api_server", "anna's").says("hello", "I am Anna")
    bert = Agent(world, session, "api_server", key).says("hello", f"my PIN is {PIN}")
    again = Agent(world, session, "api_server", "anna's").says("and I", live=Chat(anna.live))
    late = world.agent("later", "api_server", "anna's").says("hello again")

    for agent in (anna, again, late):
        assert PIN not in agent.tool("lcm_grep", query="PIN", session_scope="all")
        assert PIN not in agent.tool("lcm_load_session", session_id=session)
    assert "Anna" in again.tool("lcm_load_session")
    assert "Anna" not in bert.tool("lcm_load_session")
    assert PIN in bert.tool("lcm_load_session")


def test_what_another_process_learnt_of_an_owner_counts_at_once(world: Gateway) -> None:
    """Of two gateways on one file, one has another client in a session that the other one knows as its client's."""
    anna = world.agent("default", "api_server", "anna's").says("hello", "I am Anna")
    other = by_itself(world.runtime.path, world.runtime.config)
    other.sessions.claim(other.sessions.find("default"), alone("default"))
    other.ingest_list("default", chat().user("hello").says("hi").user(f"my PIN is {PIN}").says("noted"))
    other.db.close()

    assert PIN not in anna.tool("lcm_load_session") + anna.tool("lcm_grep", query="PIN")
    assert PIN not in compacted(anna, anna.live.turns(10))


def test_a_client_whose_session_goes_on_under_another_id_does_not_read_who_came_into_it(world: Gateway) -> None:
    """Both ids are of one conversation."""
    anna = world.agent("api-0123456789abcdef", "api_server", "anna's").says("hello", "I am Anna")
    world.runtime.announce("later", platform="api_server", parent="api-0123456789abcdef", origin="rotation")
    anna = Agent(world, "later", "api_server", "anna's").says("and I", live=Chat(anna.live))
    Agent(world, "api-0123456789abcdef", "api_server", "bert's").says("hello", f"my PIN is {PIN}")

    assert PIN not in anna.tool("lcm_load_session", session_id="api-0123456789abcdef")
    assert PIN not in anna.tool("lcm_grep", query="PIN")


# -- prompts -------------------------------------------------------------------------------------------------------
def secretive(*before: dict[str, Any]) -> Chat:
    """A talk of which the present state would quote a rule, a value, a refusal and a file."""
    said = (
        Chat(before).user(f"Always use the {PIN} key. The port of {PIN}.example.org is 4711.").says(f"{PIN} is used.")
    )
    said.calls("t1", tool="write_file", arguments=json.dumps({"path": f"/srv/{PIN}/x.conf", "content": "x"}))
    return said.results("t1", tool="write_file").says(f"I could not reach {PIN}: impossible.")


def compacted(agent: Agent, live: Chat) -> str:
    """The prompt that a compaction makes of an agent's list, without a model."""
    runtime = agent.world.runtime
    runtime.config = replace(
        runtime.config, summary_model="extractive", fresh_tail_count=4, background_compaction=False
    )
    agent.says(live=live)
    return json.dumps(agent.engine.compress(list(live), current_tokens=60_000, force=True))


@pytest.mark.parametrize("taken", ["a session's id", "a branch"])
def test_a_prompt_shows_of_somebody_elses_session_what_the_list_shows(world: Gateway, taken: str) -> None:
    """Nothing that was said in it beside that list is summarised or quoted for the agent that goes on with it."""
    world.agent("theirs", "telegram", ALICE).says(live=secretive())
    if taken == "a branch":
        world.row("aside", "telegram", MALLORY, parent_session_id="theirs", model_config='{"_branched_from": "theirs"}')
    mallory = Agent(world, "theirs" if taken == "a session's id" else "aside", "telegram", MALLORY)
    shown = compacted(mallory, chat().turns(10))

    assert "<summary" in shown
    assert PIN not in shown


@pytest.mark.parametrize(("key", "alike"), [("", True), ("", False), ("bert's", False)])
def test_a_prompt_shows_a_client_nothing_that_another_said_in_its_session(
    world: Gateway, monkeypatch: pytest.MonkeyPatch, key: str, *, alike: bool
) -> None:
    """Whether or not their lists begin alike, and though the other one speaks while the prompt is made."""
    hello = chat().user("hello").says("how can I help?") if alike else chat()
    anna = world.agent("api-0123456789abcdef", "api_server", key and "anna's").says(live=secretive(*hello))
    bert = Agent(world, "api-0123456789abcdef", "api_server", key)
    compact = world.runtime.compress_pass.compact

    def interrupted(*args: Any) -> Any:
        anna.says("and more")
        return compact(*args)

    monkeypatch.setattr(world.runtime.compress_pass, "compact", interrupted)
    shown = compacted(bert, Chat(hello).turns(10))

    assert "<summary" in shown
    assert PIN not in shown
    assert "question 3" not in compacted(anna, anna.live.turns(10, first=50))


@pytest.mark.parametrize(("platform", "key"), [("telegram", MALLORY), ("api_server", ""), ("cli", "")])
def test_what_the_owner_pulled_in_or_carried_over_goes_along_with_the_owners_message(
    world: Gateway, platform: str, key: str
) -> None:
    """Not with that of a chat to which the session was handed, or of a client that names its id."""
    term = world.agent("term", "cli")
    term.engine.on_session_reset()
    term.engine.bind_session_state(world.db, world.row("next", "cli"))
    node = NewNode(2, 0, "verified", f"a summary: {OWL}", "", 1, 9, (3,), fingerprint(0, (3,)))
    carried = world.runtime.dag.add(node, now=time.time())
    world.runtime.orders.pull("next", ["msg_1"])
    live = chat().user("hello")
    world.runtime.observe("next", list(live), platform="cli")
    world.runtime.sessions.carry(world.runtime.session("next").conversation_id, [carried.node_id])
    asking = Agent(world, "next", platform, key)
    told = world.hooks.pre_llm_call(session_id="next", conversation_history=list(live), platform=platform)
    shown = compacted(asking, live.says("hi").turns(10))

    assert [word in f"{told} {shown}" for word in (PIN, OWL)] == [platform == "cli"] * 2


def test_an_answer_that_was_cut_does_not_go_on_once_its_messages_are_purged(world: Gateway) -> None:
    """The rest of it is kept in memory, also by processes that did not purge."""
    long = " ".join(f"word{n} of {PIN}" for n in range(3000))
    world.runtime.model = Model(*[json.dumps({"answer": long, "citedIds": ["msg_1"]})] * 2)
    alice = world.agent("alice", "telegram", ALICE)
    cut = json.loads(alice.tool("lcm_expand_query", prompt="bank PIN", max_tokens=200))
    rest = {"prompt": "bank PIN", "cursor": cut["continue_with"]["cursor"]}
    before = alice.tool("lcm_expand_query", **rest)
    operator = replace(operator_access(world.runtime, None, None), trusted=True)
    run("purge messages msg_3 apply", operator)
    meanwhile = alice.tool("lcm_expand_query", **rest)
    run("purge messages msg_1 apply", operator)

    assert meanwhile == before
    assert PIN in before
    assert PIN not in alice.tool("lcm_expand_query", **rest)


# -- taken back ----------------------------------------------------------------------------------------------------
def first_turn(world: Gateway, agent: Agent, text: str) -> None:
    """The next turn after the host's list became empty."""
    agent.live = chat().user(text)
    world.hooks.pre_llm_call(
        session_id=agent.session, conversation_history=list(agent.live), platform=agent.platform, is_first_turn=True
    )


@pytest.mark.parametrize("restarted", [False, True])
def test_what_the_user_took_back_whole_is_kept_and_not_shown(world: Gateway, restarted: bool) -> None:
    """`/undo` of all there is, then another question."""
    agent = world.agent("undone", "cli").says("delete everything")
    if restarted:
        world.runtime.ingest.forget_all()
        agent = world.agent("undone", "cli")
    first_turn(world, agent, "what is the weather?")
    session = world.runtime.session("undone")
    rows = [row for rows in world.runtime.store.row_batches() for row in rows if row.head.session_id == "undone"]

    assert [bool(row.head.flags & Flag.RETRACTED) for row in rows] == [True, True, False]
    assert [item.store_id for item in world.runtime.ingest.transcripts.expected(session, None)] == [rows[-1].store_id]
    assert "unaligned list" not in world.topics()


@pytest.mark.parametrize(("left", "gone"), [(2, [False, False, True, True]), (3, [False] * 4), (4, [False] * 4)])
def test_what_neither_list_nor_transcript_shows_was_taken_back(world: Gateway, left: int, gone: list[bool]) -> None:
    """The host's file keeps turns that its list lost: `/undo` counts a context message or a `/retry` in one of them only.

    A transcript that ends with a request, perhaps with this one, says nothing; nor does one that has it all.
    """
    agent = world.agent("undone", "cli").says("use the red paint", "use the blue paint")
    world.db.said["undone"] = list(agent.live[:left])
    first_turn(world, agent, "what is the weather?")
    rows = [row for rows in world.runtime.store.row_batches() for row in rows if row.head.session_id == "undone"]

    assert [bool(row.head.flags & Flag.RETRACTED) for row in rows] == [*gone, False]


def test_a_host_that_lost_its_transcript_takes_nothing_back(world: Gateway) -> None:
    """Its row of the session is newer than ours."""
    agent = world.agent("lost", "cli").says("keep this")
    world.row("lost", "cli", started_at=time.time() + 1000)
    first_turn(world, agent, "what is the weather?")
    rows = [row for rows in world.runtime.store.row_batches() for row in rows if row.head.session_id == "lost"]

    assert [bool(row.head.flags & Flag.RETRACTED) for row in rows] == [False, False, False]


def test_a_session_that_begins_with_a_history_gets_nothing_carried(
    world: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the host's transcript does not tell, its first list does: `/resume` shows more than one request."""
    carried: list[str] = []
    monkeypatch.setattr(world.runtime, "_carry", lambda old, new: carried.append(new.session_id))
    term = Agent(world, "term", "cli")
    for target, history in (("resumed", chat().turns(3)), ("new", chat().user("hello"))):
        world.row(target, "cli")
        term.engine.on_session_reset()
        term.engine.bind_session_state(world.db, target)
        world.hooks.pre_llm_call(session_id=target, conversation_history=list(history), platform="cli")

    assert carried == ["new"]


def test_a_session_id_that_is_used_again_opens_nothing(world: Gateway) -> None:
    """Another chat reads what its own list shows, nothing of what the first one said under that id."""
    again = Agent(world, "alice", "telegram", MALLORY).says("hello, I am somebody else")

    assert PIN not in again.tool("lcm_load_session") + again.tool("lcm_grep", query="PIN", session_scope="all")
    assert PIN not in again.tool("lcm_expand", store_id="msg_1..msg_9")
    assert "somebody else" in again.tool("lcm_load_session")


@pytest.mark.parametrize("session", ["worker", "lcm_grep"])
def test_no_session_is_named_like_a_problem(world: Gateway, session: str) -> None:
    """A client chooses its session's id."""
    world.runtime.health.degraded("background worker", f"failed on {PIN}")
    world.runtime.health.degraded("tool lcm_grep", f"failed on {PIN}")
    client = Agent(world, session, "api_server", "key of the client").says("hello")

    assert PIN not in client.tool("lcm_status") + client.tool("lcm_doctor")


def test_a_chat_is_not_told_what_was_refused_of_the_operators_settings(
    world: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may name other chats."""
    block = {"ignore_session_patterns": {"telegram:alice_the_spy": True}, "leaf_chunk_tokens": "many"}
    config = load({}, block)
    monkeypatch.setattr(world.runtime, "config", config)
    for problem in config.problems:
        world.runtime.health.degraded(f"setting {problem.name}", str(problem), severity="warning")
    said = Agent(world, "mallory", "telegram", MALLORY).says("hello").tool("lcm_status")

    assert "leaf_chunk_tokens" in said
    assert "spy" not in said
    assert "spy" in world.agent("operator", "cli").says("hello").tool("lcm_status")
