"""The filters: noise and filtered text reach nothing, secrets reach no file, and who a message is does not depend on either."""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from worlds import linear
from worlds.process import Chat, World, chat, run, texts

from hermes_lcm.ingest.filters import NO_REGEX, Noise, as_redacted, spoken
from hermes_lcm.ops.status import remembered
from hermes_lcm.records import Flag
from hermes_lcm.text import content
from hermes_lcm.text.redact import Redactor

SECRET = "zQ9-geheim-4711"
ON = {"sensitive_patterns_enabled": True}


def noisy(folder: Path) -> World:
    pytest.importorskip("regex")
    return World(folder, ignore_message_patterns=("^NOISE",))


# -- noise -----------------------------------------------------------------------------------------------
def test_a_filtered_message_has_no_row(tmp_path: Path) -> None:
    """It is counted instead."""
    world = noisy(tmp_path)
    world.take(chat().user("hi").says("NOISE: all is well").user("go on"))

    assert texts(world.stored()) == ["hi", "go on"]
    assert world.health.counters["ignored_messages"] == 1


def test_a_filtered_message_is_counted_once(tmp_path: Path) -> None:
    """However often the host shows it."""
    world = noisy(tmp_path)
    live = chat().user("hi").says("NOISE: all is well").user("go on")
    for _ in range(3):
        world.take(live)
    world.take(live.says("more"))

    assert world.health.counters["ignored_messages"] == 1
    assert texts(world.stored()) == ["hi", "go on", "more"]


def test_a_filtered_message_does_not_disturb_a_restart(tmp_path: Path) -> None:
    """The others are recognised around it."""
    world = noisy(tmp_path)
    live = chat().turns(4).user("NOISE a").turns(4, first=4).says("NOISE b")
    world.take(live)

    assert world.restart().take(live.copy()).stored == 0


def test_filtered_text_reaches_no_summary_and_leaves_the_prompt(tmp_path: Path) -> None:
    """No row, so no chunk holds it; once it is older than the tail the prompt does not show it either."""
    world = noisy(tmp_path)
    live = chat().turns(6).user("NOISE quokka").says("NOISE wombat").turns(60, first=6)
    after = world.compact(live)
    said = "".join(line.text for task in world.model.tasks for line in task.lines)

    assert "NOISE" not in said
    assert "NOISE" not in json.dumps(after)
    assert world.gaps(after) == ([], [])


def test_wrong_patterns_are_in_health(tmp_path: Path) -> None:
    """And the right one works."""
    pytest.importorskip("regex")
    world = World(tmp_path, ignore_message_patterns=("(", "^NOISE"))
    world.take(chat().user("NOISE").says("b"))

    assert [each.topic for each in world.health.problems()] == ["message pattern 1"]
    assert texts(world.stored()) == ["b"]


# -- secrets ---------------------------------------------------------------------------------------------
def test_redaction_is_off_unless_it_is_asked_for(tmp_path: Path) -> None:
    """What is stored is what was said."""
    world = World(tmp_path)
    live = chat().user(f"password={SECRET}")
    world.take(live)

    assert world.stored() == list(live)


def test_a_redacted_row_is_flagged_and_recognised(tmp_path: Path) -> None:
    """Its digest stays that of what the host shows."""
    world = World(tmp_path, **ON)
    live = chat().user(f"password={SECRET}").says("thanks")
    world.take(live)

    assert texts(world.flagged(Flag.REDACTED)) == ["password=[redacted:password_assignment]"]
    assert world.restart().take(live.copy()).stored == 0


def test_ids_and_names_stay(tmp_path: Path) -> None:
    """Calls find their results."""
    world = World(tmp_path, **ON)
    call = "token_0123456789abcdef"
    world.take(chat().calls(call, arguments=json.dumps({"password": SECRET})).results(call, text=f"api_key={SECRET}"))
    asked, answered = world.stored()

    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"] == call
    assert json.loads(asked["tool_calls"][0]["function"]["arguments"]) == {"password": "[redacted:password_assignment]"}


def test_unknown_kinds_are_in_health(tmp_path: Path) -> None:
    """By name, and while redaction is off as well: who switches it on relies on the names."""
    for home, settings in (("on", ON), ("off", {})):
        world = World(tmp_path / home, **settings, sensitive_patterns=("api_key", "typo"))
        assert [each.topic for each in world.health.problems()] == ["sensitive pattern typo"]


def shapes(secret: str) -> Iterator[dict[str, Any]]:
    """One secret in every place and encoding, as messages."""
    assigned = f"the password={secret} was set"
    nested = json.dumps({"env": json.dumps({"DB_PASSWORD": secret})})
    blob = base64.b64encode((f"{assigned}\n" + "some filler text 123 ABC\n" * 200).encode()).decode()
    half = len(secret) // 2
    yield {"role": "user", "content": assigned}
    yield {"role": "user", "content": [{"type": "text", "text": assigned}, {"type": "text", "text": "x"}]}
    yield {
        "role": "user",
        "content": [{"type": "text", "text": f"api_key={secret[:half]}"}, {"type": "text", "text": secret[half:]}],
    }
    yield {"role": "user", "content": {"deep": [{"password": secret}]}}
    yield {"role": "user", "content": f"postgres://app:{secret}@db/x?password={secret}"}
    yield {"role": "user", "content": "see", "odd": (1, f"password={secret}".encode(), {"client_secret": secret})}
    yield {"role": "user", "content": f"data:text/plain;base64,{blob}"}
    yield {"role": "user", "content": "x" * 30_000 + f" password={secret} " + "y" * 30_000}
    yield {"role": "assistant", "content": "ok", "reasoning": f"they use passwd: '{secret}' there"}
    yield {"role": "user", "content": nested}
    arguments = json.dumps(
        {"command": f"curl -u app:{secret} -H 'Authorization: Bearer {secret}'", "env": {"API_KEY": secret}}
    )
    call = {"id": f"call_{secret[:3]}", "type": "function", "function": {"name": "terminal", "arguments": arguments}}
    yield {"role": "assistant", "content": "", "tool_calls": [call]}


def findable(folder: Path, secret: str) -> list[str]:
    """Files in which the secret stands, as it is, or behind the compression of a payload."""
    raw, coded = secret.encode(), base64.b64encode(secret.encode())[:-4]
    held = [(path.name, path.read_bytes()) for path in folder.rglob("*") if path.is_file()]
    held += [(name, zlib.decompress(data)) for name, data in held if name.endswith(".z")]
    return [name for name, data in held if raw in data or coded in data]


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
def test_forty_secrets_in_five_hundred_messages(enabled: bool, tmp_path: Path) -> None:
    """With redaction on, no file holds one, nor any row, summary or payload; with it off everything is there exactly."""
    secrets = [f"zQ{n}-geheim-{n * 7919}" for n in range(4)]
    settings = {"sensitive_patterns_enabled": enabled, "sensitive_patterns": ("all",)}
    world = World(tmp_path, **settings, large_output_externalization_enabled=True)
    planted = [(secret, message) for secret in secrets for message in shapes(secret)]
    live, said = chat(), []
    for n, (secret, message) in enumerate(planted):
        live.append(message)
        live.results(*(call["id"] for call in message.get("tool_calls", ())), text=f"export DB_PASSWORD='{secret}'")
        live.turns(6, first=6 * n, words=20)
        said = [*live]
        world.take(live)
    after = world.compact(live, threshold=8000)
    world.runtime.ended()  # packed, and pages given back
    assert len(planted) > 40
    assert len(live) > 500
    kept = json.dumps(
        [row.stored_json for rows in world.runtime.whole_store.row_batches() for row in rows], default=repr
    )
    summaries = "".join(node.text for node in world.nodes()) + "".join(
        line.text for task in world.model.tasks for line in task.lines
    )

    if enabled:
        assert [name for secret in secrets for name in findable(tmp_path, secret)] == []
        assert [secret for secret in secrets if secret in kept or secret in summaries] == []
        assert world.take(after).stored == 0
    else:
        assert [row.stored_json for rows in world.runtime.whole_store.row_batches() for row in rows] == said


def test_a_turn_with_five_megabytes_is_not_held_up(tmp_path: Path) -> None:
    """What the filters costs grows with the size of a payload and no faster."""
    filters = World(tmp_path).runtime.filters
    number = itertools.count()

    def through(blob: str) -> None:
        """Each time another one, so that its file is not there already."""
        (message,) = Chat().user(f"data:image/png;base64,{next(number):08}{blob}")
        kept = filters(message, content.read_message(message))
        assert kept is not None
        assert len(kept.stored_json) < 1000

    blob = base64.b64encode(bytes(range(256)) * 14_600).decode()

    assert linear.excess(through, blob[: len(blob) // 20 * 4], blob) <= linear.LIMIT


def test_a_prompt_can_show_what_the_row_says(tmp_path: Path) -> None:
    """The words of the row, the keys of the host."""
    world = World(tmp_path, **ON)
    (message,) = live = chat().user(f"password={SECRET}", custom=1)
    world.take(live)

    assert as_redacted(message, world.stored()[0]) == {**message, "content": "password=[redacted:password_assignment]"}


def test_a_message_of_any_depth_is_shown_without_its_secret(tmp_path: Path) -> None:
    """Deeper than Python goes, it is looked at leaf by leaf."""
    nested: list[Any] = []
    for _ in range(3000):
        nested = [nested]
    said = {"role": "user", "content": [{"type": "text", "text": f"api_key={SECRET}"}, nested]}
    (clean,) = World(tmp_path, **ON).runtime.filters.clean([said])

    assert clean["content"][0]["text"].startswith("api_key=[redacted:api_key:")


@pytest.mark.parametrize("odd", [{1: f"pwd={SECRET}"}, (f"pwd={SECRET}",)], ids=["a number for a key", "a tuple"])
def test_a_message_that_is_no_json_is_shown_without_its_secret(odd: Any, tmp_path: Path) -> None:
    """Lists of hosts need never have been JSON; what they hold stays of its kind."""
    (clean,) = World(tmp_path, **ON).runtime.filters.clean([{"role": "user", "content": "x", "extra": odd}])

    assert repr(clean["extra"]) == repr(odd).replace(SECRET, "[redacted:password_assignment]")


def test_a_stored_secret_is_told_behind_the_turn(tmp_path: Path) -> None:
    """While redaction is off nobody waits for the look; status has it at the latest when it is asked."""
    world = World(tmp_path)
    with patch.object(Redactor, "kind_in", side_effect=AssertionError("a turn waits")):
        world.take(chat().user("export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"))
    remembered(world.runtime.access(None, trusted=True))

    assert "redaction is off" in " ".join(each.message for each in world.health.problems())


def test_many_unread_messages_are_not_all_kept_for_the_look(tmp_path: Path) -> None:
    """A long list that comes at once is looked through at once."""
    world = World(tmp_path)
    live = chat().user("export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY").turns(40)
    world.take(live)

    assert "redaction is off" in " ".join(each.message for each in world.health.problems())


# ------------------------------------------------------------
# Noise: what matches is kept out, patterns cannot hold the turn, and what is wrong with them is said.

pytest.importorskip("regex")


def test_a_message_that_matches_is_noise() -> None:
    """The first pattern that matches is named."""
    assert Noise(["^Cronjob Response:", "alert"]).match("Cronjob Response: fine") == "^Cronjob Response:"


def test_other_messages_are_not() -> None:
    """An anchored pattern binds to the beginning."""
    assert Noise(["^Cronjob Response:"]).match("He said: Cronjob Response: fine") is None


def test_text_parts_are_matched_as_one_text() -> None:
    """So that anchors bind to what a person sees."""
    parts = [
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "text", "text": "Cron: a"},
        {"type": "text", "text": "b"},
    ]
    assert Noise(["^Cron: a\nb$"]).match(parts) is not None


def test_content_without_text_is_matched_as_json() -> None:
    """Sorted and without blanks."""
    assert spoken([{"type": "alert", "code": 7}]) == '[{"code":7,"type":"alert"}]'


def test_an_invalid_pattern_is_reported_and_the_others_work() -> None:
    """One typing error does not switch the filter off."""
    noise = Noise(["(", "^cron"])

    assert "'('" in noise.problems[0]
    assert noise.match("cron job") == "^cron"


def test_without_the_package_nothing_is_filtered() -> None:
    """A pattern that cannot be stopped is not tried."""
    noise = Noise(["^cron"], engine=None)

    assert (noise.problems, noise.match("cron"), bool(noise)) == ([NO_REGEX], None, False)


def test_a_catastrophic_pattern_is_stopped() -> None:
    """The message is kept, the pattern named."""
    slow: list[str] = []

    assert run(lambda: Noise([r"^(a|a)*$"]).match("a" * 50_000 + "b", timed_out=slow.append)) == [None]
    assert slow == [r"^(a|a)*$"]


class Engine:
    """Stands for the package and the clock: patterns are words that texts begin with, and take as long as is said."""

    error = ValueError

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.tried: list[tuple[str, float]] = []
        monkeypatch.setattr("hermes_lcm.ingest.filters.time.perf_counter", lambda: self.now)

    def compile(self, pattern: str) -> SimpleNamespace:
        def search(text: str, *, timeout: float, concurrent: bool) -> bool:
            assert concurrent
            self.tried.append((pattern, timeout))
            self.now += min(self.seconds[pattern], timeout)
            if self.seconds[pattern] > timeout:
                raise TimeoutError
            return text.startswith(pattern)

        return SimpleNamespace(search=search)


def noise(engine: Engine) -> Noise:
    return Noise(list(engine.seconds), engine=engine, timeout_s=1.0)  # type: ignore[arg-type]


def test_all_patterns_of_a_message_have_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of them are catastrophic; each is told."""
    engine = Engine(monkeypatch, **{f"p{n}": 100.0 for n in range(20)})
    slow: list[str] = []

    assert noise(engine).match("text", timed_out=slow.append) is None
    assert slow == list(engine.seconds)
    assert engine.now <= 1.0 + 1e-9


def test_a_good_pattern_behind_catastrophic_ones_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a share that they cannot take."""
    engine = Engine(monkeypatch, bad=100.0, worse=100.0, good=0.1)

    assert noise(engine).match("good text") == "good"


def test_a_pattern_that_was_stopped_is_tried_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the others leave is enough for it, or not."""
    engine = Engine(monkeypatch, bad=100.0, good=0.1)
    filters = noise(engine)
    filters.match("text")
    engine.tried.clear()
    filters.match("text")

    (first, second) = engine.tried
    assert (first[0], second[0]) == ("good", "bad")
    assert second[1] == pytest.approx(0.9)


def test_a_pattern_that_ends_in_time_again_has_its_place_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was the message."""
    engine = Engine(monkeypatch, first=100.0, second=0.1)
    filters = noise(engine)
    filters.match("text")
    engine.seconds["first"] = 0.1
    filters.match("text")
    engine.tried.clear()
    filters.match("text")

    assert [pattern for pattern, _ in engine.tried] == ["first", "second"]


def test_no_pattern_has_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One alone has all of it."""
    engine = Engine(monkeypatch, only=0.1)
    noise(engine).match("text")

    assert engine.tried == [("only", 1.0)]
