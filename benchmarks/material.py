"""
Real transcripts as chats of the OpenAI form, where there are any; synthetic ones where there are none.

Reads the folder that ``kit.data_folder`` names. Nothing of it is ever written anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kit import Chat, Talk, data_folder


def transcripts(folder: Path) -> dict[str, list[list[Chat]]]:
    """Conversations by where they come from; system prompts left out, calls and results always in pairs."""
    readers = {"tau-bench": _tau, "swe-agent": _swe, "pi-sessions": _pi, "beam": _beam, "hermes-session": _hermes}
    found = {}
    for name, reader in readers.items():
        if (folder / name).is_dir():
            found[name] = [paired(chat) for chat in reader(folder / name)]
    return found


def turns(count: int, seed: int = 1) -> tuple[list[list[Chat]], str]:
    """``count`` turns of one long conversation (each begins with what the user says), and what they were made of.

    Real transcripts one after the other, from each source in turn; when they are used up they are read again with new call ids.
    """
    folder = data_folder()
    sources = transcripts(folder) if folder is not None else {}
    if not sources:
        return cut(Talk(seed).history(count * 5))[:count], "synthetic conversations"
    queues = {name: [cut(chat) for chat in chats] for name, chats in sources.items()}
    out: list[list[Chat]] = []
    lap = 0
    while len(out) < count:
        for place in range(max(map(len, queues.values()))):
            for chats in queues.values():
                if place < len(chats):
                    out += [_relabelled(turn, f"{lap}_{len(out) + n}") for n, turn in enumerate(chats[place])]
        lap += 1
    return out[:count], f"real transcripts ({', '.join(queues)}), " + ("each once" if lap == 1 else f"read {lap} times")


def cut(messages: Sequence[Chat]) -> list[list[Chat]]:
    """A conversation as turns; what comes before the first user message is left out, adjacent user messages are joined."""
    out: list[list[Chat]] = []
    for message in messages:
        if message["role"] == "user":
            if out and len(out[-1]) == 1:
                out[-1][0] = {**message, "content": f"{out[-1][0]['content']}\n\n{message['content']}"}
            else:
                out.append([message])
        elif out:
            out[-1].append(message)
    for turn in out:
        if turn[-1]["role"] != "assistant" or turn[-1].get("tool_calls"):
            turn.append({"role": "assistant", "content": "Done."})
    return out


def paired(messages: Sequence[Chat]) -> list[Chat]:
    """Only calls that have a result directly behind them, and only results of such calls."""
    out: list[Chat] = []
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            continue
        results = []
        for behind in messages[at + 1 :]:
            if behind["role"] != "tool":
                break
            results.append(behind)
        by_id = {r["tool_call_id"]: r for r in results}
        calls = [call for call in message.get("tool_calls") or () if call["id"] in by_id]
        kept = {k: v for k, v in message.items() if k != "tool_calls"}
        if calls:
            kept["tool_calls"] = calls
        if calls or str(kept.get("content") or "").strip():
            out += [{**kept, "content": kept.get("content") or ""}, *(by_id[call["id"]] for call in calls)]
    return out


def relabelled(turns: Sequence[Sequence[Chat]]) -> list[list[Chat]]:
    """Turns of several conversations as one: their call ids differ."""
    return [_relabelled(turn, str(n)) for n, turn in enumerate(turns)]


def _relabelled(turn: Sequence[Chat], mark: str) -> list[Chat]:
    """The turn with call ids of its own."""
    out = []
    for message in turn:
        copy = dict(message)
        if copy.get("tool_calls"):
            copy["tool_calls"] = [{**call, "id": f"{call['id']}_{mark}"} for call in copy["tool_calls"]]
        if "tool_call_id" in copy:
            copy["tool_call_id"] = f"{copy['tool_call_id']}_{mark}"
        out.append(copy)
    return out


def _result(call_id: str, name: str, text: str) -> Chat:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "tool_name": name, "content": text}


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _tau(folder: Path) -> Iterator[list[Chat]]:
    for path in sorted(folder.glob("*.json")):
        for run in json.loads(path.read_text(encoding="utf-8")):
            chat: list[Chat] = []
            for m in run["traj"]:
                if m["role"] == "tool":
                    chat.append(_result(m["tool_call_id"], m["name"], str(m["content"])))
                elif m["role"] != "system":
                    calls = [
                        _call(c["id"], c["function"]["name"], c["function"]["arguments"])
                        for c in m.get("tool_calls") or ()
                    ]
                    chat.append(_said(m["role"], m["content"], calls))
            yield chat


def _said(role: str, text: Any, calls: Sequence[Chat] = ()) -> Chat:
    return {"role": role, "content": text or "", **({"tool_calls": list(calls)} if calls else {})}


def _swe(folder: Path) -> Iterator[list[Chat]]:
    for path in sorted(folder.glob("*.traj")):
        chat: list[Chat] = []
        for m in json.loads(path.read_text(encoding="utf-8"))["history"]:
            if m["role"] == "tool":
                chat += [_result(call_id, "bash", str(m["content"])) for call_id in m.get("tool_call_ids") or ()]
            elif m["role"] != "system":
                calls = [
                    _call(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in m.get("tool_calls") or ()
                ]
                chat.append(_said(m["role"], _joined(m["content"]), calls))
        yield chat


def _pi(folder: Path) -> Iterator[list[Chat]]:
    for path in sorted(folder.glob("*.jsonl")):
        chat: list[Chat] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            m = json.loads(line).get("message")
            if not m:
                continue
            text = _joined(m["content"])
            if m["role"] == "toolResult":
                chat.append(_result(m["toolCallId"], m["toolName"], text))
            elif m["role"] in ("user", "assistant"):
                parts = m["content"] if isinstance(m["content"], list) else ()
                calls = [
                    _call(p["id"], p["name"], json.dumps(p["arguments"], ensure_ascii=False))
                    for p in parts
                    if p.get("type") == "toolCall"
                ]
                chat.append(_said(m["role"], text, calls))
        yield chat


def _joined(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(p.get("text") or "" for p in content if p.get("type") == "text")


def _beam(folder: Path) -> Iterator[list[Chat]]:
    for path in sorted(folder.glob("*/chat.json")):
        batches = json.loads(path.read_text(encoding="utf-8"))
        yield [_said(m["role"], m["content"]) for batch in batches for turn in batch["turns"] for m in turn]


def _hermes(folder: Path) -> Iterator[list[Chat]]:
    for path in sorted(folder.glob("*.txt")):
        lines = path.read_text(encoding="utf-8").splitlines()
        groups = [group for line in lines if line.strip() for group in json.loads(line)]
        yield [_said(m["role"], m["content"]) for group in groups for m in group]
