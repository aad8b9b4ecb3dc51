"""Through the tools alone, after three compactions and a restart: what was said comes back byte for byte (P1, P7)."""

from __future__ import annotations

import base64
import json
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worlds.process import Script, chat
from worlds.recall import as_json

SESSION = "20260101_000000_recovery"


class Process:
    """The real engine in a process of its own: nothing but the files outlives it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from hermes_lcm import engine, runtime

        fresh = runtime.Process()
        for name, module in list(sys.modules.items()):
            if name.startswith("hermes_lcm") and hasattr(module, "PROCESS"):
                monkeypatch.setattr(module, "PROCESS", fresh)
        self.engine: Any = engine.LCMEngine()
        self.engine.update_model("m", 8_000)
        self.engine.on_session_start(SESSION, platform="cli")
        self.runtime = self.engine.runtime
        self.runtime.compactor._summarise = self.runtime.ladder.summarise = Script()

    def end(self) -> None:
        self.runtime.preparer.stop()
        self.runtime.save_states()
        self.runtime.db.close()

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        answer = json.loads(self.engine.handle_tool_call(name, as_json(name, arguments), session_id=SESSION))
        assert isinstance(answer, dict)
        assert "error" not in answer, answer
        return answer

    def found(self, query: str, **arguments: Any) -> list[dict[str, Any]]:
        """The messages that one search brings."""
        hits = self.tool("lcm_grep", query=query, scope="messages", **arguments)["results"]
        return [hit for hit in hits if hit["match"] != "near"]

    def read(self, store_id: int) -> tuple[str, list[str]]:
        """A message's content and the arguments of its calls, as the continuations of the answers lead through them."""
        text, calls = "", dict[str, str]()
        following: list[dict[str, Any]] = [{"store_id": store_id}]
        while following:
            page = self.tool("lcm_expand", **following.pop())
            text += page.get("content") or ""
            for call in page.get("tool_calls", ()):
                calls[call["id"]] = calls.get(call["id"], "") + call["function"]["arguments"]
            handle = dict(page.get("continue_with", {}))
            then = handle.pop("then", None)
            if handle:
                assert handle.pop("tool") == "lcm_expand"
                if then:
                    following.append({"store_id": store_id, **then})
                following.append(handle)
        return text, list(calls.values())


def _noise(chars: int, seed: int) -> str:
    rng = random.Random(seed)
    return " ".join("".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _ in range(chars // 6))


def _payload() -> str:
    """Half a megabyte that no index should hold."""
    return f"data:image/png;base64,{base64.b64encode(random.Random(5).randbytes(400_000)).decode()}"


NEEDLES: dict[str, tuple[str, str]] = {
    "a tool result": ("ERR-7731 vault sealed", f"{_noise(2000, 1)}\nERR-7731 vault sealed\n{_noise(2000, 2)}\n"),
    "a CJK message": ("轮换周期由王小明负责", "数据库密码轮换周期由王小明负责,每三十七天一次。\u3000请记住。"),
    "a path with dashes": ("srv/app-config/eu-west-1/db-pool.yaml", "see  /srv/app-config/eu-west-1/db-pool.yaml\tline 7"),
    "the middle of 40 kB": ("quokka sanctuary", f"{_noise(20_000, 3)} the quokka sanctuary opens at 9:41 {_noise(20_000, 4)}"),
    "600 kB of text": ("wombat census", f"{_noise(300_000, 6)} the wombat census says 4,117 {_noise(300_000, 7)}"),
}  # fmt: skip
ARGUMENTS = json.dumps({"command": f"grep -rn 'needle_in_args' ./src && echo {_noise(3000, 8)}", "note": "Ä\u2028\\"})
IMAGE = f"the floor plan of the aviary {_payload()} as promised"


SETTINGS = {"LCM_LARGE_OUTPUT_EXTERNALIZATION_ENABLED": "true", "LCM_FRESH_TAIL_COUNT": "4"}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which all needles were said and compacted away three times."""
    home = tmp_path_factory.mktemp("lived")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**SETTINGS, "HERMES_HOME": str(home)}.items():
            patch.setenv(name, value)
        says_and_compacts(Process(patch))
    return home


@pytest.fixture
def process(lived: Path, hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """The second process on a copy of that home."""
    shutil.copytree(lived, hermes_home, dirs_exist_ok=True)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    second = Process(monkeypatch)
    yield second
    second.end()


def says_and_compacts(first: Process) -> None:
    live = chat().user("Look into the vault, please.").calls("a", arguments=ARGUMENTS)
    live.results("a", text=NEEDLES["a tool result"][1]).says("It is sealed.")
    live.user(NEEDLES["a CJK message"][1]).says("Noted.").user(NEEDLES["a path with dashes"][1]).says("I see.")
    live.user(NEEDLES["the middle of 40 kB"][1]).says("Long.").user("Print the census.").calls("b")
    live.results("b", text=NEEDLES["600 kB of text"][1]).says("Printed.").user(IMAGE).says("Nice plan.")
    compacted = 0
    for part in range(3):
        live.turns(12, first=part * 12)
        first.tool("lcm_status")
        from hermes_lcm.plugin import hooks

        hooks.pre_api_request(session_id=SESSION, conversation_history=live, platform="cli")
        out = first.engine.compress(live, current_tokens=50_000)
        compacted += out is not live
        live[:] = out
        first.engine.on_session_start(SESSION, platform="cli", boundary_reason="compression", old_session_id=SESSION)
    assert compacted == 3
    shown = json.dumps(live, ensure_ascii=False)
    assert [name for name, (needle, _) in NEEDLES.items() if needle in shown and name != "a CJK message"] == []
    first.end()


def test_every_needle_comes_back_byte_for_byte(process: Process) -> None:
    """One search finds it, and following what the answers say reads all of it."""
    for where, (needle, whole) in NEEDLES.items():
        hits = process.found(needle)
        assert hits, where
        assert process.read(hits[0]["store_id"])[0] == whole, where


def test_arguments_of_a_call_come_back_byte_for_byte(process: Process) -> None:
    """Found by their words, read as the JSON text that the model wrote."""
    hit = process.found("needle_in_args")[0]

    assert process.read(hit["store_id"]) == ("", [ARGUMENTS])


def test_a_payload_comes_back_byte_for_byte(process: Process) -> None:
    """In its message, and as the file that it lies in, while new messages arrive."""
    from hermes_lcm.plugin import hooks

    arriving = chat()
    hit = process.found("floor plan of the aviary")[0]
    page = process.tool("lcm_load_session", after_store_id=hit["store_id"] - 1, limit=1)
    [file] = page["messages"][0]["externalized"]
    text, at = "", {"externalized_ref": file["externalized_ref"]}
    while at:
        part = process.tool("lcm_expand", **at)
        text += part["content"]
        arriving.turns(1)
        hooks.pre_api_request(session_id="another", conversation_history=arriving, platform="cli")
        at = {name: value for name, value in part.get("continue_with", {}).items() if name != "tool"}

    assert text == _payload()
    assert process.read(hit["store_id"])[0] == IMAGE


def test_a_regular_expression_finds_what_words_cannot(process: Process) -> None:
    """The same messages, by a pattern."""
    assert process.found(r"quokka\s+sanct\w+ opens at \d+:\d+", mode="regex")
    assert process.found(r"eu-west-\d/db-pool\.ya?ml", mode="regex")
