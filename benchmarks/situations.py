#!/usr/bin/env python3
"""
Does a small model find the tools: 40 situations, each put to a real instruct model on this machine.

    python benchmarks/situations.py --url http://127.0.0.1:8799/v1 [--quick] [--json FILE] [--kept FILE] [--only REGEX]
        [--against REVISION]

The server is OpenAI-compatible and on this machine; the top of benchmarks/weak_model.py says how to have one from the package
index. The model sees the tools and what a user says. It first names a tool (its answer is bound to their names), then writes
the arguments (bound to that tool's schema). "right tool": one of those that do it. "usable": the call is carried out on a
conversation that holds the answer, and what it gives holds it, too. Asked with names alone, with the schemas, with the schemas
and SKILL.md; --against: also with the schemas of another revision. Chance is one tool of nine. --kept: the file that each
answer is added to; a run that was interrupted goes on behind those that are in it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import kit
from driving import Agent, hook
from kit import Chat, InstantModel, Report, home

_NAME_TOKENS, _ARGUMENT_TOKENS = 12, 90
_SECONDS = 600
FIND, OPEN, ASK = ("lcm_grep",), ("lcm_expand",), ("lcm_expand_query", "lcm_grep")


class Situation(NamedTuple):
    """``held``: what the conversation says; ``says``: the user; ``tools`` that do it; ``wanted`` in the answer."""

    held: str
    says: str
    tools: tuple[str, ...]
    wanted: str = ""


#: The first ones are messages msg_1, msg_3, ... of the conversation, in this order.
SITUATIONS: Final = (
    Situation("Let us take port 8471 for the metrics server.", "What port did we choose for the metrics server?", FIND, "8471"),
    Situation("The landlord is called Brigitte Oswald.", "What was the name of my landlord?", FIND, "Oswald"),
    Situation("My flight to Lisbon leaves on 14 March.", "When does my flight to Lisbon leave?", FIND, "14 March"),
    Situation("We rejected Redis because of its licence.", "Why did we reject Redis?", FIND, "licence"),
    Situation("The staging database lives on host cobalt-7.", "On which host does the staging database live?", FIND, "cobalt-7"),
    Situation("The build failed with error E4412.", "Which error did the build fail with?", FIND, "E4412"),
    Situation("My daughter is allergic to hazelnuts.", "What is my daughter allergic to?", FIND, "hazelnut"),
    Situation("The config file is /etc/orchid/limits.toml.", "Where is the orchid config file?", FIND, "limits.toml"),
    Situation("Anna said the budget is 12,400 euros.", "What did Anna say about the budget?", FIND, "12,400"),
    Situation("The invoice number is INV-20931.", "Find the invoice number I gave you.", FIND, "INV-20931"),
    Situation("Unser Vermieter verlangt 890 Euro Miete.", "Wie viel Miete verlangt unser Vermieter?", FIND, "890"),
    Situation("我的表弟在杭州工作。", "我的表弟在哪里工作？", FIND, "杭州"),
    Situation("The retry limit is set to six.", "I told you the retry limit long ago. What is it?", FIND, "six"),
    Situation("We deploy on Thursdays only.", "On which day do we deploy?", FIND, "Thursday"),
    Situation("The mascot of the team is a heron.", "Do you remember the mascot of our team?", FIND, "heron"),
    Situation("The kitchen tiles are called Verde Alpi.", "Search for the kitchen tiles that we picked.", FIND, "Verde Alpi"),
    Situation("The API returns status 429 under load.", "Which status does the API return under load?", FIND, "429"),
    Situation("The old password policy was 90 days.", "What was the old password policy?", FIND, "90 days"),
    Situation("The printer is a Lexmark CX331.", "Which printer do we have?", FIND, "CX331"),
    Situation("The first rehearsal was on 3 May.", "When was our first rehearsal?", FIND, "3 May"),
    Situation("", "Show me the exact text of msg_7.", OPEN, "licence"),
    Situation("", "Open msg_11 and give it to me word for word.", OPEN, "E4412"),
    Situation("", "Give me the messages msg_1..msg_5 back exactly as they were.", OPEN, "Oswald"),
    Situation("", "I need the whole original of msg_15.", OPEN, "limits.toml"),
    Situation("", "Expand msg_25: I want its original text.", OPEN, "six"),
    Situation("", "Bring back the original of msg_29 exactly.", OPEN, "heron"),
    Situation("", "Give me an overview of what this conversation holds, without reading it all.", ("lcm_describe",), "messages"),
    Situation("", "Describe msg_9 without its text: size and place.", ("lcm_describe",), "msg_9"),
    Situation("", "Which rules and decisions did I state? Show the ledger.", ("lcm_describe",), "lcm"),
    Situation("", "Read the session's stored messages in order, page by page.", ("lcm_load_session",), "8471"),
    Situation("", "Load this whole session from its beginning.", ("lcm_load_session",), "8471"),
    Situation("", "Answer with sources, from all our messages: how did our plans for deploys develop?", ASK, "Thursday"),
    Situation("", "Let a helper read the originals and tell me briefly what we said of hosts and ports.", ASK, "cobalt-7"),
    Situation("", "Put one question to each of the messages msg_1..msg_9: does it name a person?", ("lcm_map",)),
    Situation("", "For each message about money ask the same: which amount? Then join the answers.", ("lcm_map",)),
    Situation("", "Your context is nearly full: list the live messages with index and tokens.", ("lcm_archive",), "history"),
    Situation("", "Which archives did you store so far? List them.", ("lcm_archive",)),
    Situation("", "How full is the prompt, and how much is stored? Tell the engine's state.", ("lcm_status",), "stored"),
    Situation("", "Is anything wrong with the context engine? Show its status.", ("lcm_status", "lcm_doctor"), "lcm"),
    Situation("", "Check the database and the index for damage.", ("lcm_doctor",), "lcm"),
)  # fmt: skip


class Server:
    """A model whose answers are bound: to one of several words, or to a JSON schema."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/") + "/chat/completions"

    def word(self, system: str, user: str, words: Sequence[str]) -> str:
        """One of the words."""
        return self._said(system, user, {"grammar": "root ::= " + " | ".join(map(json.dumps, words))}, _NAME_TOKENS)

    def data(self, system: str, user: str, schema: Mapping[str, Any]) -> Any:
        """Data of a schema; None where it was cut off before it was whole."""
        shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
        try:
            return json.loads(self._said(system, user, {"response_format": shape}, _ARGUMENT_TOKENS))
        except ValueError:
            return None

    def _said(self, system: str, user: str, bound: Mapping[str, Any], most: int) -> str:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        body = {"messages": messages, "max_tokens": most, "temperature": 0, "cache_prompt": True, **bound}
        request = urllib.request.Request(self._url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
            return str(json.load(reply)["choices"][0]["message"]["content"])


def prompts(against: str) -> dict[str, tuple[str, Sequence[Mapping[str, Any]]]]:
    """What the model is told of the tools, each way; and the schemas that bind its arguments."""
    from hermes_lcm.schemas import SCHEMAS

    skill = (kit.ROOT / "SKILL.md").read_text(encoding="utf-8").split("---", 2)[-1]
    ways = {
        "names alone": (_told([{"name": each["name"]} for each in SCHEMAS]), SCHEMAS),
        "schemas": (_told(SCHEMAS), SCHEMAS),
        "schemas and SKILL.md": (f"{_told(SCHEMAS)}\n{skill}", SCHEMAS),
    }
    if against:
        old = _schemas_of(against)
        ways[f"schemas of {against}"] = (_told(old), old)
    return ways


def _told(schemas: Sequence[Mapping[str, Any]]) -> str:
    tools = "\n".join(json.dumps(each, ensure_ascii=False) for each in schemas)
    return (
        "You are an assistant in a long conversation whose older messages left your view. Choose the one tool that "
        f"does what the user wants. Answer in JSON.\nTools:\n{tools}"
    )


def _schemas_of(revision: str) -> Sequence[Mapping[str, Any]]:
    """The schemas as another revision has them: that module imports nothing of the rest."""
    source = subprocess.run(
        ["git", "show", f"{revision}:schemas.py"], cwd=kit.ROOT, check=True, capture_output=True, text=True
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schemas_before.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("schemas_before", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return list(module.SCHEMAS)


def archive() -> Agent:
    """A conversation that holds the answers."""
    chat: list[Chat] = []
    for each in SITUATIONS:
        if each.held:
            chat += [{"role": "user", "content": each.held}, {"role": "assistant", "content": "Noted."}]
    agent = Agent("20260101_situations", 128_000)
    hook("pre_api_request", agent.session_id, chat)
    return agent


def _needed(shape: Mapping[str, Any], says: str) -> dict[str, Any]:
    """The schema without optional arguments that the user names nothing for: so small a model fills in every one it may."""
    kept = {*shape.get("required", ())} | ({"store_id", "id"} if "msg_" in says else set())
    chosen = {name: each for name, each in shape.get("properties", {}).items() if name in kept}
    return {"type": "object", "properties": chosen, "required": list(chosen), "additionalProperties": False}


def put(
    server: Server, agent: Agent, told: str, schemas: Sequence[Mapping[str, Any]], asked: Situation
) -> dict[str, Any]:
    """One situation: which tool, which arguments, and whether that did it."""
    tool = server.word(told, f"The user says: {asked.says}\nWhich tool?", [each["name"] for each in schemas])
    shape = next((each["parameters"] for each in schemas if each["name"] == tool), {"type": "object"})
    arguments = server.data(
        told, f"The user says: {asked.says}\nThe arguments of {tool}, in JSON:", _needed(shape, asked.says)
    )
    right = tool in asked.tools
    answer = ""
    if right and isinstance(arguments, dict):
        answer = agent.engine.handle_tool_call(tool, arguments, session_id=agent.session_id)
    usable = bool(answer) and not answer.startswith(('{"error', "lcm: error")) and asked.wanted in answer
    return {"says": asked.says, "tool": tool, "arguments": arguments, "right": right, "usable": right and usable}


class Kept:
    """Answers so far, in a file where one is named."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self.read = 0
        self._answers = {(each["way"], each["says"]): each for each in map(json.loads, lines)}

    def known(self, way: str, says: str) -> dict[str, Any] | None:
        """The answer of an earlier run."""
        self.read += (way, says) in self._answers
        return self._answers.get((way, says))

    def add(self, way: str, answer: dict[str, Any]) -> dict[str, Any]:
        """Keep an answer."""
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"way": way, **answer}, ensure_ascii=False) + "\n")
        return answer


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument(
        "--url", default=os.environ.get("LCM_BENCH_MODEL_URL"), help="base address of the server, with /v1"
    )
    parser.add_argument("--against", default="", help="a revision whose schemas are asked with, too")
    parser.add_argument("--model", default="", help="name of the server's model, for the report")
    parser.add_argument(
        "--kept", type=Path, help="file of answers, one a line: read where it is there, and gone on with"
    )
    parser.add_argument("--only", default="", help="regular expression: the ways in which it is told of the tools")
    args = parser.parse_args()
    report = Report("situations", "a small model before the tools", args.quick)
    if not args.url:
        report.note("not measured: no server is named (--url, or LCM_BENCH_MODEL_URL)")
        return report.finish(args.json)
    InstantModel().install()
    server, rows, grouped = Server(args.url), list[list[object]](), list[list[object]]()
    asked = SITUATIONS[:: 5 if args.quick else 1]
    kept = Kept(args.kept)
    with home(args.where or Path(tempfile.gettempdir())):
        agent = archive()
        for way, (told, schemas) in prompts(args.against).items():
            if not re.search(args.only, way):
                continue
            found = [
                kept.known(way, each.says) or kept.add(way, put(server, agent, told, schemas, each)) for each in asked
            ]
            rows.append([way, len(found), *(sum(each[grade] for each in found) for grade in ("right", "usable"))])
            for tool in dict.fromkeys(each.tools[0] for each in asked):
                of = [f for f, each in zip(found, asked, strict=True) if each.tools[0] == tool]
                grouped.append([f"{way}: {tool}", len(of), sum(f["right"] for f in of), sum(f["usable"] for f in of)])
        agent.close()
    report.note(f"model: {args.model or 'not named'}; {kept.read} answers are of earlier runs that were interrupted")
    report.table("Situations", ("told", "situations", "right tool", "usable"), rows)
    report.table("By the tool that does it", ("told: tool", "situations", "right tool", "usable"), grouped)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
