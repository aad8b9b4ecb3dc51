"""Requests on their way out: when the plugin looks at them, what it does to them, and what happens where it cannot."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from worlds.process import Chat, Script, alternates, chat

from hermes_lcm.host.offers import Offers

SYSTEM = {"role": "system", "content": "You are an agent."}


class Host:
    """The real engine, hooks and request middleware, called as the host calls them."""

    def __init__(
        self, home: Path, *, middleware: bool = True, api_mode: str = "chat_completions", kind: Any = None
    ) -> None:
        from hermes_lcm import engine
        from hermes_lcm.plugin import hooks
        from hermes_lcm.runtime import PROCESS

        self.hooks = hooks
        self.registered: list[Callable[..., Any]] = []
        offered = (lambda _kind, callback: self.registered.append(callback)) if middleware else None
        PROCESS.loaded(Offers(offered, hooks.llm_request))
        self.engine: Any = (kind or engine.LCMEngine)()
        self.api_mode = api_mode
        self.engine.update_model("m", 100_000, api_mode=api_mode)
        self.engine.on_session_start("s", hermes_home=str(home), platform="cli")
        self.runtime.compactor._summarise = Script()

    @property
    def runtime(self) -> Any:
        return self.engine.runtime

    def turn(self, live: Chat) -> None:
        self.hooks.pre_llm_call(session_id="s", conversation_history=live, platform="cli")

    def sends(self, live: Chat, wire: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
        """What leaves for a list: through the middleware if it is registered, then the hook that sees the request."""
        wire = wire if wire is not None else [dict(SYSTEM), *map(dict, live)]
        request: dict[str, Any] = {"model": "m", "messages": wire, "temperature": 1}
        for callback in self.registered[:1]:
            changed = callback(request=request, session_id="s", api_mode=self.api_mode, turn_id="t")
            request = changed["request"] if changed else request
        assert request["temperature"] == 1
        self.hooks.pre_api_request(session_id="s", conversation_history=live, platform="cli")
        return list(request["messages"])

    def archive(self, live: Chat, **args: Any) -> dict[str, Any]:
        given = {"operation": "store", "start_index": 2, "end_index": 5, **args}
        return dict(json.loads(self.engine.handle_tool_call("lcm_archive", given, messages=live)))

    def topics(self) -> set[str]:
        return {problem.topic for problem in self.runtime.health.problems()}


@pytest.fixture
def make(hermes_home: Path) -> Iterator[Callable[..., Host]]:
    made: list[Host] = []

    def build(**wishes: Any) -> Host:
        made.append(Host(hermes_home, **wishes))
        return made[-1]

    yield build
    for host in made:
        host.runtime.process.loaded(Offers())
        host.runtime.preparer.stop()
        host.runtime.db.close()


def talk() -> Chat:
    return chat().turns(8, words=150)


def placeholders(messages: list[dict[str, Any]]) -> int:
    return sum(str(message["content"]).startswith("[[memory archived") for message in messages)


def test_the_middleware_is_registered_when_it_is_needed(make: Callable[..., Host]) -> None:
    """A host with one copies every request several times: not before something is archived, and once."""
    host, live = make(), talk()
    host.turn(live)
    before = host.sends(live)
    assert host.registered == []
    assert before[1:] == live

    host.archive(live)
    host.archive(live, start_index=8, end_index=9)
    host.turn(live)

    assert len(host.registered) == 1
    assert placeholders(host.sends(live)) == 2


def test_a_plugin_that_is_loaded_again_registers_again() -> None:
    """The host forgets all callbacks then."""
    calls: list[str] = []
    for _ in range(2):
        offers = Offers(lambda kind, _callback: calls.append(kind))
        offers.take_middleware()
        offers.take_middleware()

    assert calls == ["llm_request", "llm_request"]


def test_another_process_takes_up_what_is_archived(make: Callable[..., Host]) -> None:
    """The first turn of a resumed session looks."""
    first, live = make(), talk()
    first.archive(live)
    first.runtime.rewrites.states.clear()
    second = make()

    second.turn(live)

    assert placeholders(second.sends(live)) == 1


def test_the_hosts_own_messages_are_not_touched(make: Callable[..., Host]) -> None:
    host, live = make(), talk()
    host.archive(live)
    before = json.dumps(live)
    wire = [dict(SYSTEM), *map(dict, live)]
    sent = json.dumps(wire)

    host.sends(live, wire)

    assert (json.dumps(live), json.dumps(wire)) == (before, sent)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({"messages": "text"}, id="no-list"),
        pytest.param({"input": []}, id="another-api"),
        pytest.param({"messages": [1, 2]}, id="no-messages"),
        pytest.param(None, id="nothing"),
    ],
)
def test_requests_of_another_shape_are_left_alone(make: Callable[..., Host], request_: Any) -> None:
    """P10."""
    host, live = make(), talk()
    host.archive(live)

    assert host.registered[0](request=request_, session_id="s", api_mode="chat_completions") is None


@pytest.mark.parametrize("api_mode", ["anthropic_messages", "bedrock_converse", "codex_responses"])
def test_where_requests_cannot_be_rewritten_the_next_one_begins_with_a_compaction(
    make: Callable[..., Host], api_mode: str
) -> None:
    """The second route: only the archived range leaves the list, and it is asked for once."""
    host, live = make(api_mode=api_mode), talk()
    host.turn(live)
    assert host.engine.should_compress(5000) is False

    made = host.archive(live)
    assert "compaction" in made["takes_effect"]
    assert host.engine.should_compress(5000) is True
    after = Chat(host.engine.compress(live, current_tokens=5000))

    assert [m for m in after if m in live] == [*live[:2], *live[6:]]
    assert made["memory_handle"] in after[0]["content"]
    assert alternates(after)
    host.engine.on_session_end("s", live)
    host.engine.on_session_start("s", boundary_reason="compression", old_session_id="s")
    assert host.engine.should_compress(4000) is False
    host.sends(after)
    assert host.engine.should_compress(4000) is False


def test_a_request_that_is_not_understood_is_followed_by_a_compaction(make: Callable[..., Host]) -> None:
    """Sent as it is, said in status, put right with the next one."""
    host, live = make(), talk()
    host.archive(live)
    foreign = [dict(SYSTEM), {"role": "user", "content": "another list"}]

    assert host.sends(live, foreign) == foreign
    assert "request rewrite of s" in host.topics()
    assert host.engine.should_compress(5000) is True
    after = Chat(host.engine.compress(live, current_tokens=5000))
    host.engine.on_session_start("s", boundary_reason="compression", old_session_id="s")
    host.sends(after)

    assert "request rewrite of s" not in host.topics()
    assert host.engine.should_compress(5000) is False


def test_a_compaction_that_frees_nothing_is_not_asked_for_again(make: Callable[..., Host]) -> None:
    """The record would cost more than the range: the host is not driven in circles."""
    host, live = make(middleware=False), chat().turns(6, words=40)
    host.archive(live, start_index=2, end_index=3)
    assert host.engine.should_compress(5000) is True

    assert host.engine.compress(live, current_tokens=5000) == live
    host.sends(live)

    assert host.engine.should_compress(5000) is False


def test_what_is_not_sent_does_not_count_as_pressure(make: Callable[..., Host]) -> None:
    """Hosts measure the list before the middleware: what it takes out must not trigger a compaction."""
    host, live = make(), talk()
    host.archive(live, start_index=2, end_index=9)
    host.sends(live)
    saved = host.runtime.rewrites.spared("s")
    limit = host.engine.threshold_tokens

    assert saved > 500
    assert host.engine.should_compress(limit + saved // 2) is False
    assert host.engine.should_compress(limit + saved) is True


def test_what_was_just_archived_does_not_count_either(make: Callable[..., Host]) -> None:
    """The host measures its list before the first request that shows the placeholder: no compaction for what is gone."""
    host, live = make(), talk()
    host.turn(live)
    limit = host.engine.threshold_tokens
    assert host.engine.should_compress(limit + 100) is True

    host.archive(live, start_index=2, end_index=9)

    assert host.engine.should_compress(limit + 100) is False


def test_a_resumed_session_is_measured_without_what_it_hides(make: Callable[..., Host]) -> None:
    """Hosts measure a resumed list before anything else: no compaction for what no request will show."""
    first, live = make(), talk()
    first.archive(live, start_index=2, end_index=9)
    first.runtime.rewrites.states.clear()
    first.runtime.ingest.forget_all()
    second = make()

    class Transcript:
        def get_messages_as_conversation(self, session_id: str) -> list[dict[str, Any]]:
            return list(live) if session_id == "s" else []

    second.engine.bind_session_state(session_db=Transcript(), session_id="s")
    second.engine.on_session_start("s", platform="cli")

    assert second.engine.should_compress(second.engine.threshold_tokens + 100) is False


def test_a_request_that_is_sent_again_was_shown(make: Callable[..., Host]) -> None:
    """Newer hosts select the context once and tell of each attempt to send it."""
    host, live = make(), talk()
    host.archive(live)
    host.sends(live)

    host.hooks.pre_api_request(session_id="s", conversation_history=live, platform="cli")

    assert host.engine.should_compress(5000) is False
    assert "request rewrite of s" not in host.topics()


def test_a_failure_leaves_the_request_as_it_is(make: Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> None:
    """P10, and P9: it is remembered."""
    host, live = make(), talk()
    host.archive(live)

    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(host.runtime.rewrites, "replacements", fails)

    assert host.registered[0](request={"messages": list(live)}, session_id="s", api_mode="chat_completions") is None
    assert "request rewrite" in host.topics()


def newer() -> type[Any]:
    """The engine on a host whose base class has ``select_context``."""
    from hermes_lcm.engine import LCMEngine

    class Newer(LCMEngine):
        def select_context(self, request_messages: Any, **_: Any) -> Any:  # the host's own, which does nothing
            raise AssertionError("not asked")

    return Newer


def test_hosts_that_select_context_ask_the_engine(make: Callable[..., Host]) -> None:
    """Only while something is archived: they clone the whole conversation for an engine that has the method."""
    host, live = make(kind=newer()), talk()
    host.turn(live)
    assert "select_context" not in vars(host.engine)

    handle = host.archive(live)["memory_handle"]
    wire = [dict(SYSTEM), *map(dict, live)]
    selected = host.engine.select_context(
        wire, conversation_messages=[dict(m) for m in live], incoming_message=live[-1]
    )

    assert host.registered == []
    assert placeholders(selected) == 1
    assert host.engine.should_compress(host.engine.threshold_tokens) is True, "it measured what it sends"
    assert host.engine.select_context(selected, conversation_messages=[dict(m) for m in live]) is None
    host.archive(live, operation="restore", memory_handle=handle, start_index=None, end_index=None)
    host.archive(live, operation="prune", start_index=None, end_index=None)
    assert "select_context" not in vars(host.engine)


def test_notes_of_a_gateway_are_no_messages_of_the_list_that_a_request_is_made_of(make: Callable[..., Host]) -> None:
    """As they are none at any other hook: what is stored of a conversation does not depend on who shows it."""
    host, live = make(kind=newer()), talk()
    host.turn(live)
    host.archive(live)
    before = host.runtime.store.count()
    noted = [*live[:3], {"role": "session_meta", "content": "a note"}, *live[3:]]
    selected = host.engine.select_context([dict(SYSTEM), *map(dict, live)], conversation_messages=noted)

    assert placeholders(selected) == 1
    assert host.runtime.store.count() == before


def test_sessions_without_an_archive_are_not_looked_at(
    make: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a single query for a request of another session."""
    host, live = make(), talk()
    host.archive(live)

    def fails(*_: Any, **__: Any) -> Any:
        raise AssertionError("the database was asked")

    with monkeypatch.context() as patch:
        for name in ("query", "query_one", "fetch"):
            patch.setattr(host.runtime.db, name, fails)
        assert host.registered[0](request={"messages": list(live)}, session_id="other", api_mode="") is None

    assert "request rewrite" not in host.topics()


def typed(words: str, ends: str) -> dict[str, Any]:
    """A message of about 200,000 tokens."""
    return {"role": "user", "content": f"Read this. {words * (800_000 // len(words))} {ends}"}


@pytest.mark.parametrize("words", ["number 12 of many, ", "历史记录里的一行，", 'a "line"\n'])
def test_a_typed_message_larger_than_the_window_is_shown_in_part(make: Callable[..., Host], words: str) -> None:
    """By its beginning and its end, with what the host put behind it; the list keeps it."""
    host = make()
    live = Chat([*chat().turns(2), typed(words, "Why?")])
    host.turn(live)
    wire = [*map(dict, live[:-1]), {**live[-1], "content": f"{live[-1]['content']}\n\n<memory>recalled</memory>"}]
    (*_, shown) = host.sends(live, [dict(SYSTEM), *wire])
    assert len(shown["content"]) < 100_000
    assert shown["content"].startswith("Read this.")
    assert shown["content"].endswith("Why?\n\n<memory>recalled</memory>")
    assert "lcm_expand(store_id=" in shown["content"]


def test_words_that_the_host_joined_to_a_too_large_message_are_shown(make: Callable[..., Host]) -> None:
    """The provider failed, and the user typed again: the host joins both into one message."""
    host = make()
    large = typed("number 12 of many, ", "Why?")
    live = Chat([*chat().turns(2), large])
    host.turn(live)
    host.sends(live)
    live[-1] = {"role": "user", "content": f"{large['content']}\n\nOnly line 7, please."}
    host.turn(live)
    (*_, shown) = host.sends(live)
    assert len(shown["content"]) < 100_000
    assert shown["content"].endswith("Only line 7, please.")


def test_a_picture_beside_a_too_large_text_is_sent(make: Callable[..., Host]) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    text = typed("number 12 of many, ", "Why?")["content"]
    host = make()
    live = Chat([*chat().turns(2), {"role": "user", "content": [{"type": "text", "text": text}, picture]}])
    host.turn(live)
    (*_, shown) = host.sends(live)
    assert [part["type"] for part in shown["content"]] == ["text", "image_url"]
    assert len(shown["content"][0]["text"]) < 100_000


def test_a_model_with_more_room_gets_the_typed_message_whole(make: Callable[..., Host]) -> None:
    host = make()
    live = Chat([*chat().turns(2), typed("number 12 of many, ", "Why?")])
    host.turn(live)
    host.engine.update_model("m", 1_000_000, api_mode=host.api_mode)
    host.turn(live)
    assert host.sends(live)[-1]["content"] == live[-1]["content"]


def test_a_little_more_room_changes_nothing_of_what_is_shown(make: Callable[..., Host]) -> None:
    """Estimates waver from request to request; a model with much more room gets the message whole (above)."""
    host = make()
    live = Chat([*chat().turns(2), {"role": "user", "content": "number 12 of many, " * (4 * 86_000 // 19)}])
    host.turn(live)
    shown = host.sends(live)[-1]
    host.engine.update_model("m", 103_000, api_mode=host.api_mode)
    host.turn(live)
    assert host.sends(live)[-1] == shown != live[-1]


def test_a_compaction_counts_a_too_large_message_as_it_is_sent(make: Callable[..., Host]) -> None:
    """What it folds frees room for the rest of the prompt; the list that it gives back has the message whole."""
    host = make()
    large = typed("number 12 of many, ", "Why?")
    live = Chat([*chat().turns(20, words=800), large])
    host.turn(live)
    out = host.engine.compress(list(live), current_tokens=host.runtime.rewrites._rough(live))
    assert out[-1]["content"] == large["content"]
    assert len(out) < len(live)
    assert host.engine.last_compression["result"] == "compacted"
    host.engine.on_session_start("s", platform="cli", boundary_reason="compression", old_session_id="s")
    assert host.engine.should_compress(host.runtime.rewrites._rough(out)) is False


def rough(host: Host, messages: list[dict[str, Any]]) -> int:
    return int(host.runtime.rewrites._rough(messages))


def begins(host: Host, live: Chat, *, beside: int = 0) -> list[dict[str, Any]]:
    """A turn as the host begins it: a compaction if one is due, the hook, its own last look; what leaves then.

    ``beside``: tokens of system prompt and tools.
    """
    for looks in range(2):
        if host.engine.should_compress(rough(host, live) + beside):
            live[:] = host.engine.compress(list(live), current_tokens=rough(host, live) + beside)
        if not looks:
            host.turn(live)
    return host.sends(live)


WINDOW = 100_000
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_a_smaller_model_gets_less_of_a_too_large_message(make: Callable[..., Host]) -> None:
    host = make()
    host.engine.update_model("big", 1_000_000, api_mode=host.api_mode)
    live = Chat([*chat().turns(2), {"role": "user", "content": "Read. " + "number 12 of many, " * 260_000 + "Why?"}])
    before = begins(host, live)
    host.engine.update_model("small", 64_000, api_mode=host.api_mode)
    assert 64_000 < rough(host, before) < 1_000_000
    assert rough(host, begins(host, live)) < 64_000


def test_a_model_whose_requests_nobody_may_change_gets_the_list_folded(make: Callable[..., Host]) -> None:
    """What was shown in part until then is counted whole."""
    host = make()
    live = Chat([*chat().turns(2), typed("number 12 of many, ", "Why?")])
    begins(host, live)
    host.engine.update_model("other", WINDOW, api_mode="anthropic_messages")
    host.api_mode = "anthropic_messages"
    live.says("So.").user("and now?")
    assert rough(host, begins(host, live)) < WINDOW


def test_a_too_large_message_is_found_by_its_words_in_a_request_that_is_another(make: Callable[..., Host]) -> None:
    """The host has put words in place of a picture, and joined what was typed behind it."""
    host = make()
    live = Chat([*chat().turns(2), {"role": "user", "content": [{"type": "text", "text": "see"}, PICTURE]}])
    live.says("seen").extend([typed("number 12 of many, ", "Why?"), {"role": "user", "content": "And?"}])
    host.turn(live)
    wire = [dict(SYSTEM), *map(dict, live[:-1])]
    wire[5] = {"role": "user", "content": "a cat on a mat"}
    wire[-1]["content"] += "\n\nAnd?"
    sent = host.sends(live, wire)
    assert sent[:-1] == wire[:-1]
    assert rough(host, sent) < WINDOW
    assert sent[-1]["content"].endswith("Why?\n\nAnd?")


def test_words_under_many_pictures_stay(make: Callable[..., Host]) -> None:
    """To cut them would gain nothing."""
    body = [{"type": "text", "text": "What is on these pictures?"}, *[dict(PICTURE) for _ in range(70)]]
    host = make()
    live = Chat([*chat().turns(2), {"role": "user", "content": body}])
    host.turn(live)
    assert host.sends(live)[-1]["content"] == body


def test_a_too_large_message_within_an_archive_is_counted_once(make: Callable[..., Host]) -> None:
    host = make()
    live = Chat([*chat().turns(1), typed("number 12 of many, ", "Why?"), *chat().says("So.").turns(4, first=10)])
    host.turn(live)
    host.archive(live)
    host.turn(live)
    sent = host.sends(live)
    assert abs(rough(host, live) - host.runtime.rewrites.spared("s") - rough(host, sent[1:])) < 500


def test_what_is_too_large_beside_the_tools_stays_shown_in_part(make: Callable[..., Host]) -> None:
    """80,000 tokens alone are less than the window; the worker's look after the turn does not forget the 20,000 of the tools."""
    host = make()
    text = "Read this. " + "number 12 of many, " * (4 * 80_000 // 19) + "Why?"
    live = Chat([*chat().turns(2), {"role": "user", "content": text}])
    shown = begins(host, live, beside=20_000)[-1]
    live.says("Noted.")
    host.hooks.post_llm_call(session_id="s", conversation_history=live, platform="cli")
    host.runtime.preparer.settled(host.runtime.session("s").conversation_id, time.monotonic() + 10)
    live.user("next")
    sent = begins(host, live, beside=20_000)
    assert len(shown["content"]) < 50_000
    assert sent[-3] == shown
    assert host.runtime.calibration.fixed("s") > 19_000


def test_a_session_that_goes_on_under_another_name_shows_no_more(make: Callable[..., Host]) -> None:
    """Rotation: the prompt is sent under the new name before any hook is called with it."""
    host = make()
    live = Chat([*chat().turns(20, words=800), typed("number 12 of many, ", "Why?")])
    host.turn(live)
    out = host.engine.compress(list(live), current_tokens=rough(host, live))
    host.engine.on_session_start("s2", platform="cli", boundary_reason="compression", old_session_id="s")
    assert host.engine.should_compress(rough(host, out)) is False
    request = {"messages": [dict(SYSTEM), *map(dict, out)]}
    changed = host.registered[0](request=request, session_id="s2", api_mode=host.api_mode, turn_id="t")
    assert rough(host, changed["request"]["messages"]) < WINDOW


@pytest.mark.parametrize("tokens", [60_000, 200_000])
def test_what_a_host_sends_instead_of_a_typed_message_is_not_counted_twice(
    make: Callable[..., Host], tokens: int
) -> None:
    """It keeps the words with what was recalled beside the words alone."""
    host = make()
    text = "Read this. " + "number 12 of many, " * (4 * tokens // 19) + "Why?"
    sent = text + "\n\n<memory>recalled</memory>"
    live = Chat([*chat().turns(2), {"role": "user", "content": text, "api_content": sent}])
    host.turn(live)
    shown = host.sends(live, [dict(SYSTEM), *map(dict, live[:-1]), {"role": "user", "content": sent}])
    spared = rough(host, live) - rough(host, shown[1:]) if tokens > WINDOW else 0
    assert (shown[-1]["content"] == sent) is (tokens < WINDOW)
    assert rough(host, shown) < WINDOW
    assert host.runtime.rewrites.spared("s") == pytest.approx(spared, abs=500)


@pytest.mark.parametrize("before", [2, 40])
def test_a_too_large_text_that_the_host_takes_for_a_small_one(make: Callable[..., Host], before: int) -> None:
    """150,000 Chinese characters, before any provider has counted one: a third of it is what the host estimates."""
    host = make()
    text = "看。" + "历史记录里的一行，" * (150_000 // 9) + "为什么？"
    live = Chat([*chat().turns(before, words=100), {"role": "user", "content": text}])
    assert len(begins(host, live)[-1]["content"]) < 60_000


GONE: dict[str, Callable[[Path], object]] = {
    "damaged": lambda path: path.write_bytes(b"no database" * 1000),
    "removed": lambda path: [each.unlink() for each in path.parent.glob("lcm.db*")],
    "a folder": lambda path: [[each.unlink() for each in path.parent.glob("lcm.db*")], path.mkdir()],
}


@pytest.mark.parametrize("how", GONE)
def test_a_too_large_message_is_shown_in_part_while_another_file_stands_in(make: Callable[..., Host], how: str) -> None:
    """Rows have other numbers there."""
    host = make()
    live = Chat([*chat().turns(2), typed("number 12 of many, ", "Why?")])
    begins(host, live)
    GONE[how](host.runtime.db.path)
    for name in ("c1", "c2", "c3"):
        live.calls(name).results(name)
        host.engine.should_compress(rough(host, live))
        assert rough(host, host.sends(live)) < WINDOW


def test_rounds_of_tools_behind_a_too_large_message_are_folded(make: Callable[..., Host]) -> None:
    """The list that comes back has the message whole, the next request does not."""
    host = make()
    large = typed("number 12 of many, ", "Why?")
    live = Chat([*chat().turns(6, words=800), large]).rounds(60, words=400)
    host.turn(live)
    out = Chat(host.engine.compress(list(live), current_tokens=rough(host, live)))
    host.engine.on_session_start("s", platform="cli", boundary_reason="compression", old_session_id="s")
    assert len(out) < len(live)
    assert large["content"] in [message["content"] for message in out]
    assert rough(host, host.sends(out)) < WINDOW


def test_a_second_too_large_message_folds_nothing_that_fits(
    make: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user hears of it, and what goes out beside the list is measured as before."""
    said: list[str] = []
    host = make()
    monkeypatch.setattr("hermes_lcm.host.facts.tell", lambda _engine, line: said.append(line))
    live = Chat([*chat().turns(2), typed("number 12 of many, ", "Why?")])
    begins(host, live, beside=20_000)
    live.says("So.").append(typed("number 13 of many, ", "And why that?"))
    before = len(live)
    sent = begins(host, live, beside=20_000)
    assert len(live) == before
    assert rough(host, sent) + 20_000 < WINDOW
    assert len(said) == 2
    assert host.runtime.calibration.fixed("s") == pytest.approx(20_000, abs=100)


def test_the_user_hears_once_that_a_message_is_too_large(
    make: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not again where the session is resumed by a process that has not seen it."""
    said: list[str] = []
    host = make()
    monkeypatch.setattr("hermes_lcm.host.facts.tell", lambda _engine, line: said.append(line))
    live = Chat([*chat().turns(2), typed("number 12 of many, ", "Why?")])
    begins(host, live)
    begins(host, live.says("So.").user("next"))
    host.runtime.let_go("s")
    sent = begins(host, live.says("So.").user("and then?"))
    assert rough(host, sent) < WINDOW
    assert [line for line in said if "more than the model's window holds" in line] == said[:1]


@pytest.mark.parametrize("how", ["sound", *GONE])
def test_hosts_that_select_context_show_a_too_large_message_in_part(make: Callable[..., Host], how: str) -> None:
    """They measure what they send; also without a store."""
    host = make(kind=newer())
    live = Chat([*chat().turns(2), typed("number 12 of many, ", "Why?")])
    host.turn(live)
    GONE.get(how, str)(host.runtime.db.path)
    for name in ("c1", "c2"):
        live.calls(name).results(name)
        wire = [dict(SYSTEM), *map(dict, live)]
        sent = host.engine.select_context(wire, conversation_messages=[dict(message) for message in live])
        assert rough(host, sent) < WINDOW
        assert host.engine.should_compress(rough(host, sent)) is False
        host.engine.update_from_response({"prompt_tokens": rough(host, sent)})
    assert host.engine.should_compress(rough(host, live)) is False
