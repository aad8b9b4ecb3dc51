"""The real engine at the host's boundary: hooks, copies, failures, /new, hand-overs (P1, P9, P10)."""

from __future__ import annotations

import copy
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worlds.gateway import Gateway
from worlds.process import Chat, Script, alternates, chat, texts, tokens_of

from hermes_lcm import runtime as runtime_module
from hermes_lcm.plugin import hooks
from hermes_lcm.records import Flag


class Host:
    """The real engine on a home of its own, with a scripted summariser, called as the host calls it."""

    def __init__(self, home: Path, script: Script | None = None) -> None:
        from hermes_lcm import engine
        from hermes_lcm.plugin import hooks

        self.home = home
        self.hooks = hooks
        self.engine: Any = engine.LCMEngine()
        self.script = script or Script()
        self.engine.update_model("m", 5_333)
        self.engine.on_session_start("s", hermes_home=str(home), platform="cli")
        self.runtime.compactor._summarise = self.script
        self.runtime.ladder.summarise = self.script

    @property
    def runtime(self) -> Any:
        return self.engine.runtime

    def says(self, messages: Chat, session_id: str = "s") -> None:
        self.hooks.pre_api_request(session_id=session_id, conversation_history=messages, platform="cli")

    def stored(self) -> list[Any]:
        return [row.stored_json for rows in self.runtime.store.row_batches() for row in rows]

    def topics(self) -> set[str]:
        return {problem.topic for problem in self.runtime.health.problems()}


@pytest.fixture
def host(hermes_home: Path) -> Iterator[Host]:
    host = Host(hermes_home)
    yield host
    host.runtime.preparer.stop()
    host.runtime.db.close()


SESSION_HOOKS = {
    "on_session_finalize": {"session_id": "s", "old_session_id": "s", "new_session_id": "t", "reason": "new_session"},
    "subagent_start": {"parent_session_id": "s", "child_session_id": "c"},
    "pre_gateway_dispatch": {"event": None, "session_store": None},
}


def nobody_runs(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hooks of a process without an agent of ours. Was anything asked of the runtime? It would be in the registry."""
    from hermes_lcm.plugin import hooks
    from hermes_lcm.runtime import Process

    runtimes = Process()
    monkeypatch.setattr(hooks, "PROCESS", runtimes)
    return hooks, runtimes


def test_hooks_store_nothing_while_another_engine_is_in_use(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin is enabled, but no agent of this process was given its engine: no hook even looks for the database."""
    hooks, runtimes = nobody_runs(hermes_home, monkeypatch)
    live = {"session_id": "s", "conversation_history": chat().turns(3), "platform": "cli"}
    for name in ("pre_llm_call", "pre_api_request", "post_llm_call"):
        hooks.HOOKS[name](**live)
    for name, facts in SESSION_HOOKS.items():
        hooks.HOOKS[name](**facts)

    assert runtimes.runtimes() == []
    assert list(hermes_home.glob("lcm*")) == []


def test_a_hook_that_fails_while_another_engine_is_in_use_leaves_no_database(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of a chat is noted for `/lcm` whatever engine there is; where that fails the log says so."""
    hooks, runtimes = nobody_runs(hermes_home, monkeypatch)
    event = SimpleNamespace(source="chat")
    hooks.pre_gateway_dispatch(event=event, session_store=SimpleNamespace(get_session_key=lambda _: "key of the chat"))
    hooks.pre_gateway_dispatch(event=event, session_store=SimpleNamespace(get_session_key=lambda _: 1 / 0))

    assert hooks.command_key() == ""  # it is not the chat of the message before
    assert runtimes.runtimes() == []


def test_a_look_at_a_groups_lines_that_fails_is_remembered(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a part of a hook that goes on without it, and is over with the next look."""
    key = "agent:main:telegram:group:-5"
    world = Gateway(hermes_home)
    agent = world.agent("group", "telegram", key).says("hello")
    store = SimpleNamespace(get_session_key=lambda _: agent.engine.host_key)
    command = SimpleNamespace(source="group", text="/help")
    with monkeypatch.context() as broken:
        broken.setattr(world.db, "get_messages_as_conversation", lambda _: 1 / 0)
        copy_context().run(world.hooks.pre_gateway_dispatch, event=command, session_store=store)
        failed = world.topics()
    copy_context().run(world.hooks.pre_gateway_dispatch, event=command, session_store=store)

    assert len(failed) == 1
    assert world.topics() == []


def test_a_session_may_end_before_an_agent_begins(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/new` is the first thing somebody types in a gateway that was started again: the old session gets its end."""
    host.says(chat().turns(3))
    monkeypatch.setattr(host.hooks.PROCESS, "engines", runtime_module.Engines())
    (host.home / "config.yaml").write_text("context:\n  engine: lcm\n")
    host.hooks.on_session_finalize(**SESSION_HOOKS["on_session_finalize"])

    assert host.runtime.sessions.find("s").end_reason == "new_session"


def test_hooks_store_what_the_host_shows(host: Host) -> None:
    """Before a request leaves, its messages are durable."""
    messages = chat().turns(3)
    host.says(messages)

    assert host.stored() == messages


@pytest.mark.parametrize(
    "wishes",
    [
        {},
        {"current_tokens": 9000},
        {"focus_topic": "parser"},
        {"force": True},
        {"memory_context": "likes tea"},
        {"current_tokens": None, "focus_topic": None, "force": False, "memory_context": "", "of_a_newer_host": 1},
    ],
    ids=lambda wishes: " ".join(wishes) or "bare",
)
def test_compress_takes_what_hosts_pass(host: Host, wishes: dict[str, Any]) -> None:
    """Every keyword of every host, known or not."""
    messages = chat().turns(30)
    compacted = host.engine.compress(messages, **wishes)

    assert tokens_of(compacted) < 4000
    assert host.engine._last_compression_made_progress is True
    assert host.engine._last_compress_aborted is False


def test_the_same_list_comes_back_when_nothing_can_be_done(host: Host) -> None:
    """The very object, untouched: the host compares."""
    messages = chat().turns(1)
    before = copy.deepcopy(messages)

    assert host.engine.compress(messages, force=True) is messages
    assert messages == before
    assert host.engine._last_compression_made_progress is False


@pytest.mark.parametrize("where", ["ingest_list", "compact"])
@pytest.mark.parametrize(
    "error", [RuntimeError("bug"), MemoryError(), RecursionError(), UnicodeEncodeError("u", "x", 0, 1, "r")]
)
def test_a_failure_inside_gives_the_list_back(host: Host, monkeypatch: Any, where: str, error: Exception) -> None:
    """Whatever breaks, the host goes on with its own messages, and health remembers why."""

    def broken(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(host.runtime.ingest if where == "ingest_list" else host.runtime.compress_pass, where, broken)
    messages = chat().turns(9)

    assert host.engine.compress(messages) is messages
    assert host.engine._last_compress_aborted is True
    assert "compaction" in host.topics()


def test_a_failure_inside_keeps_the_request_in_its_window(host: Host, monkeypatch: Any) -> None:
    """A list that is as large as the window is cut even where nothing can be stored: extracts stand for its oldest messages."""

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(host.runtime.ingest, "ingest_list", broken)
    messages = chat().turns(30).user("what was question 3 about?")
    compacted = host.engine.compress(messages)

    assert tokens_of(compacted) <= host.engine.threshold_tokens
    assert compacted[-1]["content"] == "what was question 3 about?"
    assert alternates(compacted)
    assert host.engine._last_compress_aborted is False
    assert host.engine.get_active_compression_failure_cooldown() is None
    assert "compaction" in host.topics()


@pytest.mark.parametrize("call", ["pre_llm_call", "pre_api_request", "post_llm_call"])
def test_a_failure_in_a_hook_reaches_nobody(host: Host, monkeypatch: Any, call: str) -> None:
    """Hooks never raise; health remembers."""
    monkeypatch.setattr(host.runtime.ingest, "ingest_list", lambda *_, **__: 1 / 0)
    getattr(host.hooks, call)(session_id="s", conversation_history=chat().turns(1), platform="cli")

    assert "ingest" in host.topics()


@pytest.mark.parametrize("messages", [None, [], [None], ["text"], [{}], [{"role": "user"}], "text"], ids=str)
def test_lists_that_are_none_break_nothing(host: Host, messages: Any) -> None:
    """Whatever a host calls a list."""
    host.says(messages)
    host.engine.has_content_to_compress(messages or [])
    host.engine.on_session_end("s", messages)
    host.engine.on_turn_complete(messages)

    assert host.engine.compress(messages) is messages


@pytest.mark.parametrize("length", [0, None, -5, "x", float("inf"), 10**9])
def test_a_window_of_any_length_gives_a_threshold(host: Host, length: Any) -> None:
    """An unknown window gets a stated fallback."""
    host.engine.update_model("m", length)

    assert host.engine.threshold_tokens > 0
    assert host.engine.fallback_context is (length != 10**9)


def test_below_the_threshold_nothing_is_asked(host: Host) -> None:
    """should_compress is a comparison."""
    assert host.engine.should_compress(host.engine.threshold_tokens - 1) is False
    assert host.engine.should_compress(host.engine.threshold_tokens) is True


def test_a_pass_without_progress_is_not_repeated_at_once(host: Host) -> None:
    """The same size again is not tried again; a larger one is."""
    messages = chat().user("word " * 20_000)
    size = tokens_of(messages)
    assert host.engine.compress(messages, current_tokens=size) is messages

    assert host.engine.should_compress(size) is False
    assert host.engine.should_compress(size * 2) is True


def test_the_status_answers_while_nothing_can_be_stored(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it can be archived either, which is no error (P9)."""
    (hermes_home / "file").write_text("no folder")
    monkeypatch.setenv("LCM_DATABASE_PATH", str(hermes_home / "file" / "x.db"))
    host = Host(hermes_home)
    host.says(messages := chat().turns(2))
    said = json.loads(host.engine.handle_tool_call("lcm_status", {"format": "json"}, messages=messages))

    assert "error" not in said
    assert (said["bound"], "problems" in said) == (False, True)


def asked_at_the_beginning(engine: Any, tokens: int) -> tuple[bool, str | None]:
    """Answer to hosts near 0.22 at the beginning of a turn, where they ask again with the list, if nothing is due."""
    asker: dict[str, Any] = {"_engine_preflight_maintenance": None}
    exec("def _preflight_compression(ask, tokens):\n    return ask(tokens)", asker)
    return asker["_preflight_compression"](engine.should_compress_info, tokens)


def test_a_typed_message_that_is_sent_in_part_makes_no_pass_due(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts near 0.22 stop a turn where a pass was due and left the list beyond the window (P6)."""
    monkeypatch.setattr(type(host.engine), "rewritable", lambda _: True)
    messages = chat().user("word " * 200_000)
    size = tokens_of(messages)

    assert asked_at_the_beginning(host.engine, size) == (False, None)
    assert host.engine.should_compress_preflight(messages) is False
    assert host.engine.should_compress(size) is False


def test_a_list_beyond_the_window_is_folded_where_the_host_asks_again(host: Host) -> None:
    """The size alone is not enough at the beginning of a turn; the list is."""
    messages = chat().turns(60)
    size = tokens_of(messages)

    assert size > host.engine.context_length
    assert asked_at_the_beginning(host.engine, size) == (False, None)
    assert host.engine.should_compress_preflight(messages) is True
    assert tokens_of(host.engine.compress(messages, current_tokens=size)) < host.engine.context_length


def test_what_had_to_stay_for_one_turn_leaves_the_prompt_in_the_next(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass in vain says nothing of the next turn, if the prompt is beyond its window and no request can be rewritten (P6)."""
    monkeypatch.setattr(type(host.engine), "rewritable", lambda _: False)
    messages = chat().user("word " * 200_000)
    size = tokens_of(messages)
    host.engine.should_compress(size)
    assert host.engine.compress(messages, current_tokens=size) is messages
    host.hooks.post_llm_call(session_id="s", conversation_history=messages.says("read"), platform="cli")

    assert host.engine.should_compress(size + 20) is True
    assert tokens_of(host.engine.compress(messages.user("and now?"), current_tokens=size + 20)) < size / 10


@pytest.mark.parametrize("said", [0, -5, 10**11, 10**400, float("nan"), float("inf"), "12", None, True])
def test_counts_that_are_none_do_no_lasting_harm(host: Host, said: Any) -> None:
    """A provider may report anything once: the turn goes on, and a prompt that is full later is compacted (P6, P10)."""
    messages = chat().turns(1)
    host.engine.update_from_response({"prompt_tokens": said, "completion_tokens": said, "cache_read_tokens": said})
    host.engine.should_compress(host.engine.last_prompt_tokens)
    assert host.engine.compress(messages, current_tokens=host.engine.last_prompt_tokens) is messages
    host.engine.update_from_response({"prompt_tokens": 100})

    assert host.engine.last_prompt_tokens == 100
    assert host.engine.should_compress(2 * host.engine.threshold_tokens) is True


def test_notes_of_a_gateway_shift_no_message(host: Host, monkeypatch: Any) -> None:
    """They are left out of the list wherever it meets what is known of its messages: each call means the same places."""
    note = {"role": "session_meta", "content": "tools: 30"}
    live = Chat([note, *chat().turns(8, words=150).user("go")])
    met: list[tuple[int, int]] = []

    def meets(_: Any, request: Any, **__: Any) -> bool:
        met.append((len(request.messages), len(request.transcript.entries)))
        return True

    monkeypatch.setattr(host.runtime.compress_pass, "has_backlog", meets)
    monkeypatch.setattr(host.runtime.preparer, "after_turn", meets)
    host.engine.has_content_to_compress(live)
    host.engine.on_turn_complete(live)
    asked = {"operation": "store", "start_index": 2, "end_index": 3}
    host.engine.handle_tool_call("lcm_archive", asked, messages=live)
    (archive,) = host.runtime.archives.of(host.runtime.session("s"))

    assert met == [(17, 17), (17, 17)]
    assert [row.stored_json for row in host.runtime.store.rows(archive.store_ids)] == live[3:5]


@pytest.mark.parametrize("name", ["pre_llm_call", "pre_api_request", "post_llm_call"])
def test_hooks_take_no_note_of_a_gateway_for_a_message(host: Host, monkeypatch: Any, name: str) -> None:
    """The same lists reach hooks: what is stored, noted and prepared of them is without the notes."""
    note = {"role": "session_meta", "content": "tools: 30"}
    said = chat().turns(8, words=150)
    met: list[int] = []
    monkeypatch.setattr(host.runtime.preparer, "after_turn", lambda _, request, **__: met.append(len(request.messages)))
    monkeypatch.setattr(hooks, "sent", lambda _, __, messages, ___: met.append(len(messages)))
    host.hooks.HOOKS[name](session_id="s", conversation_history=Chat([note, *said]), platform="cli")

    assert host.stored() == said
    assert set(met) <= {len(said)}
    assert host.engine.sending is None or host.engine.sending[0] == len(said)


@pytest.mark.parametrize("name", ["pre_llm_call", "pre_api_request", "post_llm_call"])
@pytest.mark.parametrize("at", [0, 3, 598, 600])
def test_a_note_in_a_long_known_list_is_no_message(host: Host, name: str, at: int) -> None:
    """Of a list whose messages are known as objects, hooks look for notes only where nobody has looked yet."""
    live = chat().turns(300, words=2)
    said = list(live)
    host.says(live)
    live.insert(at, {"role": "session_meta", "content": "tools: 30"})
    host.hooks.HOOKS[name](session_id="s", conversation_history=live, platform="cli")
    live.user("What now?")
    host.hooks.HOOKS[name](session_id="s", conversation_history=live, platform="cli")

    assert host.stored() == [*said, live[-1]]


def test_a_success_that_cannot_be_noted_reaches_nobody(host: Host, monkeypatch: Any) -> None:
    """Whatever breaks in the bookkeeping behind a call, the turn has what it asked for."""
    messages = chat().turns(30)
    monkeypatch.setattr(host.runtime.health, "resolved", lambda topic: 1 / 0 if topic == "compaction" else None)

    assert len(host.engine.compress(messages, force=True)) < len(messages)


def test_copies_are_independent_and_open_nothing(host: Host) -> None:
    """Fifty copies: no connection, no file, no state shared."""
    host.says(chat().turns(2))
    assert host.runtime.preparer.idle(30)
    before = open_files(host.home)
    assert not os.path.isdir("/proc/self/fd") or before
    copies = [copy.deepcopy(host.engine) for _ in range(50)]
    for n, each in enumerate(copies):
        each.update_model("m", 8000 + n)
        each.on_session_start(f"copy {n}", hermes_home=str(host.home), platform="cli")
        each.last_prompt_tokens = n

    assert open_files(host.home) == before
    assert [each.last_prompt_tokens for each in copies] == list(range(50))
    assert len({id(each.runtime) for each in copies}) == 1
    assert host.engine.session_id == "s"


def open_files(home: Path) -> Counter[str]:
    """How often this process has each file of a home open; nothing where the system does not tell."""
    numbers = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    found: Counter[str] = Counter()
    for number in numbers:
        with suppress(OSError):  # closed meanwhile
            found[os.readlink(f"/proc/self/fd/{number}")] += 1
    return Counter({name: count for name, count in found.items() if name.startswith(str(home))})


def test_clones_are_copies(host: Host) -> None:
    """What newer hosts ask for instead of a deep copy."""
    assert host.engine.clone_for_agent("agent", session_id="x").session_id == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threshold_tokens", 1234),
        ("threshold_percent", 0.5),
        ("last_prompt_tokens", -1),
        ("compression_count", 7),
        ("context_length", 99),
        ("protect_first_n", 3),
        ("protect_last_n", 9),
        ("last_compression_rough_tokens", 5),
        ("awaiting_real_usage_after_compression", True),
        ("_compression_cancelled_check", None),
        ("_session_id", "other"),
    ],
)
def test_the_host_may_write_what_it_writes(host: Host, name: str, value: Any) -> None:
    """Attributes that hosts set on an engine keep what they are set to."""
    setattr(host.engine, name, value)

    assert getattr(host.engine, name) == value


def test_a_lowered_threshold_counts(host: Host) -> None:
    """The host lowers the threshold when the compression model's window is smaller."""
    host.engine.threshold_tokens = 2000

    assert tokens_of(host.engine.compress(chat().turns(20), current_tokens=3900)) < 2000


@pytest.mark.parametrize("kind", ["ignore", "stateless"])
def test_sessions_that_are_not_stored_are_compacted(monkeypatch: Any, hermes_home: Path, kind: str) -> None:
    """An ignored or stateless session must not overflow either, and nothing of it is kept."""
    monkeypatch.setenv(f"LCM_{kind.upper()}_SESSION_PATTERNS", "s")
    host = Host(hermes_home)
    messages = chat().turns(30)
    host.says(messages)
    compacted = host.engine.compress(messages)
    for n in range(5):
        compacted = host.engine.compress(Chat(compacted).turns(30, first=100 * (n + 1)))

    assert tokens_of(compacted) < 4000
    assert host.stored() == []
    assert not (hermes_home / "lcm.db").exists() or host.runtime.store.count() == 0


def test_the_background_review_is_not_stored(host: Host) -> None:
    """The review runs under its parent's session id; its words are not the user's."""
    messages = chat().turns(2)
    host.says(messages)
    review = messages.copy().user("Review the conversation above and update the skill library.").says("noted")
    thread = threading.Thread(target=lambda: host.says(review), name="bg-review-1")
    thread.start()
    thread.join()
    host.engine.on_session_end("s", [])

    assert host.stored() == messages


def test_a_user_who_says_what_the_review_says_is_stored(host: Host) -> None:
    """In the user's own thread, words like the review's are the user's."""
    messages = (
        chat().turns(1).user("Review the conversation above and consider saving to memory what I said.").says("this")
    )
    host.says(messages.turns(3, first=50))

    assert host.stored() == messages


def test_the_end_of_a_session_takes_nothing_back(host: Host) -> None:
    """An empty or foreign list at the end changes nothing that is stored."""
    messages = chat().turns(3)
    host.says(messages)
    host.engine.on_session_end("s", [])
    host.engine.on_session_end("s", chat().turns(1, first=70))
    host.says(messages.user("go on"))

    rows = [row for rows in host.runtime.store.row_batches() for row in rows]
    assert len(rows) == 7 + 2
    assert not any(row.head.flags & Flag.RETRACTED for row in rows if row.stored_json in messages)


def test_in_place_compaction_announces_the_same_id(host: Host) -> None:
    """end(pre), start(boundary) with one id: stored once, counted once, the next turns go on."""
    messages = chat().turns(30)
    host.says(messages)
    compacted = Chat(host.engine.compress(messages))
    host.engine.on_session_end("s", messages)
    host.engine.on_session_start("s", boundary_reason="compression", old_session_id="s", platform="cli")
    host.says(compacted.user("next"))

    assert texts(host.stored()) == [*texts(messages), "next"]
    assert host.engine.compactions == 1


def test_rotating_compaction_continues_under_the_new_id(host: Host) -> None:
    """The prompt goes on under another id: stored once."""
    messages = chat().turns(30)
    host.says(messages)
    compacted = Chat(host.engine.compress(messages))
    host.engine.on_session_end("s", messages)
    host.engine.on_session_start("s2", boundary_reason="compression", old_session_id="s", platform="cli")
    host.says(compacted.user("next"), "s2")

    assert texts(host.stored()) == [*texts(messages), "next"]
    sessions = host.runtime.sessions
    assert sessions.find("s").conversation_id == sessions.find("s2").conversation_id


def test_a_new_conversation_deletes_nothing(host: Host) -> None:
    """/new: what was said stays, the next words belong to another conversation."""
    messages = chat().turns(3)
    host.says(messages)
    host.engine.on_session_end("s", messages)
    host.engine.on_session_reset()
    host.engine.bind_session_state(None, "t")
    host.says(chat().user("fresh start"), "t")

    assert texts(host.stored()) == [*texts(messages), "fresh start"]
    sessions = host.runtime.sessions
    assert sessions.find("s").conversation_id != sessions.find("t").conversation_id


def test_two_compactions_of_one_session_do_not_meet(host: Host) -> None:
    """A second pass while one runs gets its own list back at once."""
    host.script.moves[:] = ["hang"]
    messages = chat().turns(30)
    first = threading.Thread(target=lambda: host.engine.compress(messages.copy()), daemon=True)
    first.start()
    while not host.script.tasks:
        time.sleep(0.005)
    second = host.engine.compress(messages)
    host.script.release.set()
    first.join(10)

    assert second is messages


def test_a_database_that_cannot_be_used_costs_no_turn(host: Host, monkeypatch: Any) -> None:
    """The host's list comes back, a short cooldown is announced, and status knows the remedy."""
    from hermes_lcm.errors import StoreFull

    def full(*_: Any, **__: Any) -> None:
        raise StoreFull("no room")

    messages = chat().turns(9)
    with monkeypatch.context() as patch:
        patch.setattr(host.runtime.db, "transaction", full)
        host.says(messages)
        assert host.engine.compress(messages) is messages
        assert host.engine.get_active_compression_failure_cooldown() is not None
        assert "ingest" in host.topics()
    host.says(messages)

    assert texts(host.stored()) == texts(messages)
    assert "ingest" not in host.topics()


def test_a_tool_that_works_again_is_no_problem_any_more(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed inside of it was remembered until then."""
    host.says(chat().turns(1))
    with monkeypatch.context() as broken:
        broken.setattr("hermes_lcm.engine.tools.call", lambda *_, **__: 1 // 0)
        host.engine.handle_tool_call("lcm_status", {})
    told = [each.topic for each in host.runtime.health.problems()]
    host.engine.handle_tool_call("lcm_status", {})

    assert told == ["tool lcm_status"]
    assert host.runtime.health.problems() == []


def test_a_platform_has_its_own_threshold_and_summaries(hermes_home: Path, monkeypatch: Any) -> None:
    """A rule of ``lcm.overrides``: no model is asked for this platform, and status says which rule decided."""
    from hermes_lcm import command

    rules = {"@telegram": {"context_threshold": 0.5, "summary_model": "extractive"}}
    monkeypatch.setattr(runtime_module.host, "config_block", lambda: {"overrides": rules})
    host = Host(hermes_home)
    asked: list[Any] = []
    host.runtime.model.complete = lambda *args, **kwargs: asked.append(args)
    del host.runtime.ladder.summarise
    host.runtime.compactor._summarise = host.runtime.summarise
    here = host.engine.threshold_tokens
    host.engine.on_session_start(
        "t", hermes_home=str(hermes_home), platform="telegram", conversation_id="agent:main:telegram:dm:1"
    )
    live = chat().turns(30)
    host.hooks.pre_api_request(session_id="t", conversation_history=live, platform="telegram")
    out = host.engine.compress(list(live), current_tokens=tokens_of(live), force=True)
    state = command.engine_state(host.runtime, host.runtime.find_session("t"), host.engine)
    host.runtime.preparer.stop()
    host.runtime.db.close()

    assert (here, host.engine.threshold_tokens) == (int(5_333 * 0.75), 5_333 // 2)
    assert len(out) < len(live)
    assert not asked
    assert state.threshold_source == 'lcm.overrides "@telegram"'


@pytest.mark.parametrize(
    ("block", "due", "why"),
    [
        ({}, 150_000, "the threshold; after the next turn an earlier one may be planned"),
        ({"fold_early": "off"}, 150_000, "LCM_FOLD_EARLY is off"),
        ({"context_threshold": 0.5}, 100_000, "the threshold that was set"),
        ({"overrides": {"m@cli": {"context_threshold": 0.4}}}, 80_000, "the threshold that was set"),
    ],
)
def test_status_says_when_the_next_compaction_is_due_from_the_first_turn_on(
    block: dict[str, Any], due: int, why: str, hermes_home: Path, monkeypatch: Any
) -> None:
    """And the engine asks for it there, not a token earlier."""
    monkeypatch.setattr(runtime_module.host, "config_block", lambda: block)
    host = Host(hermes_home)
    host.engine.update_model("m", 200_000)
    host.says(chat().turns(2))
    told = status(host)
    asked = [host.engine.should_compress(used) for used in (due - 1, due)]
    host.runtime.preparer.stop()
    host.runtime.db.close()

    assert f"next compaction at {due:,} tokens: {why}" in " ".join(told.split())
    assert asked == [False, True]


def status(host: Host) -> str:
    """What the user of the session is told."""
    from hermes_lcm import command

    session = host.runtime.find_session(host.engine.session_id)
    return command.run("status", command.operator_access(host.runtime, session, host.engine))


def test_what_another_process_said_since_the_list_was_loaded_is_not_taken_back(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal that is resumed beside a gateway: the host's file holds a reply that the terminal's list lacks."""
    loaded = chat().turns(3).user("the gateway asks")
    host.says(loaded)
    host.runtime.ingest.forget_all()
    monkeypatch.setattr(host.runtime.leases, "has_others", lambda _: True)

    class Transcript:
        def get_messages_as_conversation(self, session_id: str) -> list[dict[str, Any]]:
            return list(Chat(loaded.copy()).says("the gateway is told")) if session_id == "s" else []

    host.engine.bind_session_state(session_db=Transcript(), session_id="s")
    host.engine.on_session_start("s", platform="cli")
    host.says(Chat(loaded.copy()).user("the terminal asks"))

    assert host.runtime.store.retracted(1) == []
    assert texts(host.stored())[-2:] == ["the gateway is told", "the terminal asks"]


def test_whatever_fails_no_call_of_the_host_does(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where the runtime cannot be reached, or the failure not be noted; it is over with the next call."""
    host, live = Host(hermes_home), chat().turns(30)
    calls = {
        "update_model": ("m", 5_333), "update_from_response": ({"prompt_tokens": 9},), "should_compress": (4_900,),
        "should_compress_preflight": (live,), "should_compress_info": (4_900,), "bind_session_state": (None, "s"),
        "get_active_compression_failure_cooldown": (), "on_session_start": ("s",), "compress": (live,),
        "handle_tool_call": ("lcm_status", {}),
    }  # fmt: skip

    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    for owner, name in (
        (runtime_module.Process, "at"),
        (runtime_module.Runtime, "count"),
        (runtime_module.Engines, "add"),
    ):
        with monkeypatch.context() as broken:
            broken.setattr(owner, name, fails)
            said = {call: getattr(host.engine, call)(*given) for call, given in calls.items()}
            hooks.pre_api_request(session_id="s", conversation_history=live, platform="cli")
            hooks.post_llm_call(session_id="s", conversation_history=live, platform="cli")
        assert said["compress"] is live or alternates(said["compress"])
        assert said["handle_tool_call"]
    for call, given in calls.items():
        getattr(host.engine, call)(*given)

    assert {each.topic for each in host.runtime.health.problems()}.isdisjoint(calls)


def test_what_was_spent_is_kept_at_the_end_of_a_turn_where_no_worker_does(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal beside the chat sees it, and a kill does not take it away."""
    monkeypatch.setenv("LCM_BACKGROUND_COMPACTION", "false")
    host = Host(hermes_home)
    said = chat().turns(1)
    host.says(said)
    host.engine.update_from_response({"prompt_tokens": 700, "completion_tokens": 5})
    host.engine.on_turn_complete(said)
    kept = host.runtime.db.query("SELECT amount FROM costs WHERE what LIKE 'prompt%'")
    host.runtime.db.close()

    assert kept == [(700,)]


@pytest.mark.parametrize("quoted", ['{"output": "ok", "exit_code": 0, "error": null}', '{"status": "failed"}'])
def test_the_host_takes_no_answer_for_a_failure_because_of_what_it_quotes(host: Host, quoted: str) -> None:
    """After three of a turn it tells the agent that the tool has failed. What is refused still counts."""
    from agent.tool_guardrails import classify_tool_failure

    call = {"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Run it."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "terminal", "content": quoted},
    ]
    host.says(messages)
    answer = host.engine.handle_tool_call("lcm_expand", {"store_id": 3}, messages=messages)
    refused = host.engine.handle_tool_call("lcm_expand", {"store_id": 99}, messages=messages)

    assert quoted in answer
    assert classify_tool_failure("lcm_expand", answer) == (False, "")
    assert classify_tool_failure("lcm_expand", refused)[0]
