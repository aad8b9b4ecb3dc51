"""Chats through the real gateway: its sessions, its cached agents, its slash commands."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from host.checks import assert_kept, assert_valid, look
from host.drive import WINDOW, Home, HostDiedError, Process, all_rows, compare, stored_rows
from host.model_server import REVIEW, ModelServer, Reply, Request, Turns, last_said, text_of
from host.scripts import busy_turn, long_turn, of_many, sayings, speaker
from host.shared import GROUPS, Running

pytestmark = pytest.mark.host


def numbered(turn: int) -> Sequence[Reply]:
    return [Reply(f"Reply {turn}.")]


@pytest.mark.parametrize(
    "in_place", [pytest.param(True, id="in-place"), pytest.param(False, id="rotating", marks=pytest.mark.slow)]
)
def test_each_message_of_a_chat_is_stored_once(tmp_path: Path, in_place: bool) -> None:
    """Four turns or more with three compactions, background reviews, and the agent rebuilt in between."""
    with ModelServer(Turns(busy_turn), limit=WINDOW) as model:
        early = {"LCM_CONTEXT_THRESHOLD": "0.4"}
        home = Home.make(tmp_path / "home", model.base_url, in_place=in_place, review_every=2, settings=early)
        with home.process() as host:
            host.gateway()
            sessions = []
            for turn in range(20):
                if turn == 2:
                    host.wait_reviews()
                    host.gateway_evict()
                done = host.gateway_say(text=model.says(sayings(turn)))
                assert (done["engine"], done["reply"]) == ("lcm", f"Done with turn {turn}.")
                sessions.append(done["session_id"])
                if turn >= 3 and host.compactions() >= 3:
                    break
            host.wait_reviews()
            rows = all_rows(host, sessions[-1])
            compactions = host.compactions()

    assert compactions >= 3
    assert (len(set(sessions)) == 1) is in_place
    assert not (difference := compare(home.transcript(model.truth), rows)), difference
    assert model.of_kind("review"), "no background review ran, so nothing was shown about it"
    assert not [row for row in rows if REVIEW in str(row["content"])]


def test_a_first_turn_longer_than_the_window(gateway: Running) -> None:
    """The gateway writes its clean version of the request over whatever stands at the request's old place in the list."""
    model, home, host = gateway.talk(Turns(lambda turn: long_turn(14) if not turn else []), limit=WINDOW)
    for turn in range(3):
        done = host.gateway_say(text=model.says(sayings(turn)), chat="long", user="long")
    rows = all_rows(host, done["session_id"])
    compactions = host.compactions()

    assert compactions
    assert not (difference := compare(home.transcript(model.truth), rows)), difference


OBSERVING = "observed Telegram group context may be provided in a separate context-only block"


@pytest.mark.parametrize("times", [False, True], ids=["without times", "with times"])
def test_lines_of_a_group_that_nobody_said_to_the_bot_are_their_speakers_own(
    request: pytest.FixtureRequest, tmp_path: Path, times: bool
) -> None:
    """Groups whose bot hears all: such lines come again within what somebody says to the bot, or several as one message."""
    if not times:
        _, _, host = request.getfixturevalue("gateway").talk(Turns(numbered))
        overheard(host, "-5", OBSERVING)
        overheard(host, "-6", "a group")
        return
    with ModelServer(Turns(numbered)) as model:
        shows = {"gateway": {"message_timestamps": {"enabled": True}}}
        home = Home.make(tmp_path / "home", model.base_url, config=shows, settings=GROUPS)
        with home.process() as host:
            host.gateway()
            overheard(host, "-5", OBSERVING)
            overheard(host, "-6", "a group")


def overheard(host: Process, group: str, prompt: str) -> None:
    """Such lines in a group come within the next message (``OBSERVING``), or joined to one."""
    silent = [["[Anna|1]\nthe dog barks"], ["[Dora|4]\nthe fox runs", "[Ben|2]\nthe cat sleeps"]]
    replies = []
    for turn, lines in enumerate(silent):
        for line in lines:
            host.gateway_overhears(text=line, chat=group)
        done = host.gateway_say(text=f"[Carl|3]\nturn {turn}", chat=group, overhearing=prompt)
        replies.append(done["reply"])
    rows = stored_rows(host, done["session_id"])
    found = host.tool(name="lcm_grep", args={"query": "cat", "speaker": "Ben"})

    shown = [re.sub(r"^\[\w{3} 20[^]]*\] ", "", row["content"]) for row in rows]
    asked = [[f"[Carl|3]\nturn {turn}", reply] for turn, reply in enumerate(replies)]
    assert shown == [*silent[0], *asked[0], *silent[1], *asked[1]]
    assert not [row for row in rows if {"retracted", "unaligned"} & set(row.get("flags") or ())]
    assert [hit["speaker"] for hit in found["results"]] == ["Ben (2)"]


def test_no_command_joins_the_lines_of_a_group_or_stores_one_twice(gateway: Running) -> None:
    """Several of them write the host's transcript anew, with neighbours as one message; before the first no line was shown."""
    _, home, host = gateway.talk(Turns(numbered))
    said, sessions = list[str](), list[str]()
    for command in ("", "/undo", "/retry", "/compress", "/branch other"):
        for line in (f"[Anna|1]\nfirst {command}", f"[Ben|2]\nthen {command}") if command else ():
            host.gateway_overhears(text=line, chat="-7")
            said.append(line)
        if command:
            host.gateway_say(text=command, chat="-7", overhearing=OBSERVING)
        done = host.gateway_say(text=f"[Carl|3]\nafter {command}", chat="-7", overhearing=OBSERVING)
        said.append(f"[Carl|3]\nafter {command}")
        sessions.append(done["session_id"])
    rows = [row for each in dict.fromkeys(sessions) for row in stored_rows(host, each)]

    assert len(set(sessions)) == 2
    assert [row["content"].strip() for row in rows if row["role"] == "user"] == [each.strip() for each in said]
    taken_back = [row["content"].strip() for row in rows if {"retracted", "unaligned"} & set(row.get("flags") or ())]
    assert taken_back == undone(home, said, *set(sessions))
    assert "[Ben|2]\nthen /undo" in taken_back


def undone(home: Home, said: Sequence[str], *sessions: str) -> list[str]:
    """Lines that the host's own transcripts show no more. Hosts near 0.22 take back what one turn heard, others the last line."""
    sql = f"SELECT content FROM messages WHERE active = 1 AND session_id IN ({', '.join('?' * len(sessions))})"
    shown = "\n".join(str(text) for (text,) in home.query(sql, *sessions))
    return [line for line in said if line not in shown]


def test_a_request_in_front_of_which_the_host_puts_a_note_on_an_interrupted_turn_is_stored_once(tmp_path: Path) -> None:
    """The process was killed while a model answered; the next one shows the note to the model, and keeps none of it."""
    chats = {"42": "", "-5": OBSERVING}  # one of a person alone, and a group
    asked, lines = ["[Carl|3]\nlook", "[Carl|3]\nwell?", "[Carl|3]\nand?"], ["[Anna|1]\nline 0", "[Anna|1]\nline 1"]
    victims, at_work = list[Process](), threading.Barrier(len(chats))

    def script(request: Request) -> Reply:
        if request.last["role"] == "tool" and victims:
            at_work.wait(60)
            victims[0].kill()
        return Reply("", [("terminal", {"command": "echo 7"})]) if victims else Reply("Well.")

    with ModelServer(script) as model:
        home = Home.make(tmp_path / "home", model.base_url, settings=GROUPS)
        with home.process() as host, contextlib.suppress(HostDiedError):
            host.gateway()
            victims.append(host)
            saying = {"text": asked[0], "user": "7"}
            host.gateway_say_at_once(
                messages=[saying | {"chat": chat, "overhearing": prompt} for chat, prompt in chats.items()]
            )
        victims.clear()
        for line, text in zip(lines, asked[1:], strict=True):
            with home.process() as host:
                host.gateway()
                host.gateway_overhears(text=line, chat="-5")
                rows = {
                    chat: stored_rows(host, host.gateway_say(text=text, chat=chat, overhearing=prompt)["session_id"])
                    for chat, prompt in chats.items()
                }

    noted = [r.messages for r in model.of_kind("chat") if "interrupted" in "".join(map(text_of, r.messages))]
    assert {"line 0" in str(messages) for messages in noted} == {True, False}
    said = {
        chat: [re.sub(r"^\[System note: [^]]*\]\n\n", "", row["content"]) for row in each if row["role"] == "user"]
        for chat, each in rows.items()
    }
    assert said == {"42": asked, "-5": [asked[0], lines[0], asked[1], lines[1], asked[2]]}
    assert not [
        row for each in rows.values() for row in each if {"retracted", "unaligned"} & set(row.get("flags") or ())
    ]


def test_a_command_that_comes_first_after_a_restart_joins_no_lines_of_a_group_and_stores_none_twice(
    tmp_path: Path,
) -> None:
    """No agent has been built by then whose engine could look."""
    lines = ["[Anna|1]\nfirst", "[Ben|2]\nthen"]
    commands = {"-5": "/undo", "-6": "/fork", "-7": "/retry"}  # the last one asks the model, so an agent is built
    last, rows = dict[str, str](), dict[str, list[dict[str, Any]]]()

    def say(text: str, group: str) -> str:
        return str(host.gateway_say(text=f"[Carl|3]\n{text}", chat=group, overhearing=OBSERVING)["session_id"])

    with ModelServer(Turns(numbered)) as model:
        home = Home.make(tmp_path / "home", model.base_url, settings=GROUPS)
        with home.process() as host:
            host.gateway()
            first = {group: say("look", group) for group in commands}
            for group, line in product(commands, lines):
                host.gateway_overhears(text=line, chat=group)
        with home.process() as host:
            host.gateway()
            for group, command in commands.items():
                host.gateway_say(text=command, chat=group, overhearing=OBSERVING)
            for group, command in commands.items():  # each chat reads with its own agent
                last[group] = say("well?", group)
                sessions = dict.fromkeys((first[group], last[group]))
                rows[command] = [row for each in sessions for row in stored_rows(host, each)]

    assert [command for group, command in commands.items() if first[group] != last[group]] == ["/fork"]
    said = {
        command: [row["content"].strip() for row in each if row["role"] == "user"] for command, each in rows.items()
    }
    assert said == {key: ["[Carl|3]\nlook", *lines, "[Carl|3]\nwell?"] for key in rows}
    taken_back = {
        command: [row["content"] for row in each if {"retracted", "unaligned"} & set(row.get("flags") or ())]
        for command, each in rows.items()
    }
    assert taken_back == {"/undo": undone(home, lines, last["-5"]), "/fork": [], "/retry": []}
    assert taken_back["/undo"][-1:] == [lines[1]]


def test_a_line_of_a_group_is_a_row_in_each_form_that_its_speaker_gave_it(gateway: Running) -> None:
    """An edit comes as a line of its own: before the bot was shown the line, or later; one brings the first words back."""
    first, longer = "[Anna|1]\nthe dog barks", "[Anna|1]\nthe dog barks\n\nand howls"
    forms = [[first, longer], [first], [longer, longer + " loudly"]]
    _, _, host = gateway.talk(Turns(numbered))
    for group, prompt in (("-8", OBSERVING), ("-9", "a group")):
        expected = list[str]()
        for turn, lines in enumerate(forms):
            for line in lines:
                host.gateway_overhears(text=line, chat=group)
            done = host.gateway_say(text=f"[Carl|3]\nturn {turn}", chat=group, overhearing=prompt)
            expected += [*lines, f"[Carl|3]\nturn {turn}", done["reply"]]
        rows = stored_rows(host, done["session_id"])

        assert [row["content"] for row in rows] == expected
        assert not [row for row in rows if {"retracted", "unaligned"} & set(row.get("flags") or ())]


def test_chats_of_one_process_do_not_mix(gateway: Running) -> None:
    """Two people talk in turns, one of them starts anew: three sessions, each with its own messages."""
    _, _, host = gateway.talk(Turns(numbered))
    said: dict[str, list[str]] = {}
    for number, chat in enumerate(["1", "2", "1", "2", "1"]):
        if number == 4:
            host.gateway_say(text="/new", chat=chat, user=chat)
        done = host.gateway_say(text=f"Message {number}", chat=chat, user=chat)
        said.setdefault(done["session_id"], []).extend([f"Message {number}", f"Reply {number}."])
    found = {}
    for chat, session in zip("121", said, strict=True):
        host.gateway_say(text="/help", chat=chat, user=chat)  # each chat reads with its own agent
        found[session] = [row["content"] for row in stored_rows(host, session)]

    assert len(said) == 3
    assert found == said


CHATS = {"ada": "1", "bob": "2"}


@pytest.mark.slow
def test_two_people_at_the_same_moment(tmp_path: Path) -> None:
    """Seven turns each, all at once, until both were compacted; then each searches for what the other one said."""
    with ModelServer(of_many, limit=WINDOW, topic=speaker) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        sessions = {}
        with home.process() as host:
            host.gateway()
            for turn in range(8):
                said = {name: f"{name} {turn} look" for name in CHATS}
                if turn == 7:
                    said = {
                        "ada": f"ada 7 spy secret-of-bob {sessions['bob']}",
                        "bob": f"bob 7 spy secret-of-ada {sessions['ada']}",
                    }
                coming = [
                    {"text": model.says(said[name], name), "chat": chat, "user": chat} for name, chat in CHATS.items()
                ]
                done = host.gateway_say_at_once(messages=coming)
                assert [each["reply"] for each in done] == [f"Done with {name} {turn}." for name in CHATS]
                sessions = {name: each["session_id"] for name, each in zip(CHATS, done, strict=True)}
            compactions = host.compactions()
        kept = dict(zip(CHATS, look(home, *sessions.values()), strict=True))
        truths = {name: home.transcript(model.truths[name]) for name in CHATS}

    assert compactions >= 2
    for name, other in (("ada", "bob"), ("bob", "ada")):
        assert_kept(kept[name], truths[name])
        assert kept[name].principal.endswith(f"telegram:dm:{CHATS[name]}")
        assert f"{other} 0" not in kept[name].texts, "something of the other one's crossed over"
    for request in model.of_kind("chat"):
        assert_valid(request)


@pytest.mark.slow
def test_children_of_a_chat_belong_to_the_chat(tmp_path: Path) -> None:
    """What a delegated child reads is the archive of the person who asked, and nobody else's."""

    def script(request: Request) -> Reply:
        said, answers = last_said(request)
        if said.startswith("Please find out") and not answers:
            return Reply("", [("delegate_task", {"goal": "Find the rhubarb."})])
        if said.startswith("spy") and not answers:
            return Reply("", [("lcm_grep", {"query": "rhubarb", "session_scope": "all"})])
        return Reply("It is in the cellar." if said.startswith("Find") else "Noted.")

    with ModelServer(script, limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        with home.process() as host:
            host.gateway()
            parent = host.gateway_say(text="Please find out", chat="1", user="1")["session_id"]
            child = wait_for_child(home, parent)
            host.gateway_say(text="spy", chat="2", user="2")
        kept = look(home, parent, child)
        [found] = [
            request.last["content"]
            for request in model.of_kind("chat")
            if request.last.get("name") == "lcm_grep" or "lcm_grep" in str(request.messages[-2].get("tool_calls"))
        ]

    assert [each.principal for each in kept] == ["telegram:dm:1"] * 2
    assert kept[1].origin == "subagent"
    assert [row["content"] for row in kept[1].rows] == ["Find the rhubarb.", "It is in the cellar."]
    assert "cellar" not in found
    assert "Find the rhubarb" not in found


@pytest.mark.slow
def test_a_chat_to_which_a_session_was_handed_over_reads_that_session_only(tmp_path: Path) -> None:
    """Nothing of other people's chats, and nothing of the terminal's other sessions."""
    private: list[str] = []

    def script(request: Request) -> Reply:
        said, answers = last_said(request)
        if not said.startswith("spy") or answers:
            return Reply("Noted.")
        searches = [("lcm_grep", {"query": query, "session_scope": "all"}) for query in ("rhubarb", "owl", "picnic")]
        return Reply("", [*searches, *(("lcm_load_session", {"session_id": each}) for each in private)])

    with ModelServer(script, limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        private.append(home.chat_once("The owl is in the attic.")[1])
        handed = home.chat_once("Let us plan the picnic.")[1]
        with home.process() as host:
            host.gateway()
            private.append(host.gateway_say(text="The rhubarb is in the cellar.", chat="1", user="1")["session_id"])
            keys = host.gateway_handoff(session_id=handed, chat="666")["keys"]
            spying = host.gateway_say(text="spy", chat="666", user="666")
    found = [text_of(m) for request in model.of_kind("chat") for m in request.messages if m["role"] == "tool"]

    assert (len(keys), spying["session_id"]) == (1, handed)
    assert len(found) >= 5
    assert any("plan the picnic" in text for text in found)
    assert not any("cellar" in text or "attic" in text for text in found)


def wait_for_child(home: Home, parent: str) -> str:
    """The session of the parent's child, once it has said its last word."""
    ask = (
        "SELECT s.id FROM sessions s JOIN messages m ON m.session_id = s.id "
        "WHERE s.parent_session_id = ? AND m.role = 'assistant'"
    )
    end = time.monotonic() + 60
    while not (rows := home.query(ask, parent)):
        assert time.monotonic() < end, "the child never answered"
        time.sleep(0.1)
    return str(rows[0][0])
