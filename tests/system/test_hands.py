"""One session, several hands: a chat that a gateway and a terminal go on with, in turn and at once (P1, P2, P4)."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds.process import Chat, World, chat, texts

from hermes_lcm.records import Flag
from hermes_lcm.storage import seals

HERE = Path(__file__).resolve().parents[1]
FORK = multiprocessing.get_context("fork")  # a process that is started anew imports for two seconds


class Hand:
    """An agent with a list of its own. ``transcript``: what the host keeps of the session for all of them."""

    def __init__(self, world: World, name: str, transcript: list[dict[str, Any]]) -> None:
        self.world = world
        self.world.runtime.leases.has_others = lambda _: True  # type: ignore[method-assign]
        self.name = name
        self.transcript = transcript
        self.list = Chat(copy.deepcopy(transcript))
        self.said = 0

    def says(self) -> None:
        """One turn: a question, handed over before the request, and its answer."""
        self.said += 1
        for message in (
            {"role": "user", "content": f"{self.name} asks {self.said}"},
            {"role": "assistant", "content": f"{self.name} is told {self.said}"},
        ):
            self.list.append(message)
            self.shows()
            self.transcript.append(copy.deepcopy(message))

    def reloads(self) -> None:
        """What a gateway does before a turn, and a terminal that is started again."""
        self.list = Chat(copy.deepcopy(self.transcript))
        self.shows()

    def shows(self) -> None:
        self.world.ingest.ingest_list(self.world.session(), self.list, source="test", alone=False)

    def undoes(self) -> list[str]:
        """The last turn of its own list is taken back; what it said. The transcript loses it too."""
        gone, self.list = self.list[-2:], Chat(self.list[:-2])
        for message in gone:
            self.transcript.remove(message)
        return texts(gone)


def hands(folder: Path, names: str, *, processes: bool) -> list[Hand]:
    """Agents of one process, or each in one of its own."""
    transcript = list(chat().turns(3))
    world = World(folder)
    world.take(transcript)
    return [Hand(World(folder) if processes else world, name, transcript) for name in names]


def assert_everything_once(folder: Path, transcript: list[dict[str, Any]]) -> None:
    world = World(folder)
    said = Counter(texts(world.stored()))
    assert said == Counter(texts(transcript))
    assert texts(world.flagged(Flag.RETRACTED)) == []
    assert Counter(texts(world.thread())) == said


MOVES = st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["says", "says", "reloads"])), min_size=4, max_size=24)


@settings(max_examples=settings.default.max_examples // 2, deadline=None)
@given(moves=MOVES, processes=st.booleans())
def test_what_one_hand_does_not_show_the_other_has_not_taken_back(
    tmp_path_factory: Any, moves: list[tuple[int, str]], processes: bool
) -> None:
    """Whoever speaks, with a list as old as it may be: each message once, all of them in the thread."""
    folder = tmp_path_factory.mktemp("hands")
    both = hands(folder, "GT", processes=processes)
    for which, move in moves:
        getattr(both[which], move)()

    assert_everything_once(folder, both[0].transcript)


def test_an_undo_of_the_own_turn_is_still_one(tmp_path: Path) -> None:
    """What a hand has shown, and shows no more when it goes on, was taken back; the other's turns were not."""
    gateway, terminal = hands(tmp_path, "GT", processes=True)
    gateway.says()
    terminal.says()
    gateway.says()
    gone = gateway.undoes()
    gateway.says()

    assert texts(gateway.world.flagged(Flag.RETRACTED)) == gone
    assert set(texts(gateway.world.thread())) == set(texts(gateway.transcript))


def test_an_undo_before_the_process_was_started_again_is_still_one(tmp_path: Path) -> None:
    """Nobody else is at work: what the resumed list lacks was taken back while nobody looked."""
    live = chat().turns(6)
    World(tmp_path).take(live)
    later = World(tmp_path)
    later.take(live[:8].copy())
    later.take(Chat(live[:8].copy()).user("something else"))

    assert texts(later.flagged(Flag.RETRACTED)) == texts(live[8:])


def test_what_was_taken_back_and_is_shown_again_in_the_middle_comes_back(tmp_path: Path) -> None:
    """It is not stored a second time."""
    world = World(tmp_path)
    live = chat().turns(6)
    world.take(live)
    other = Chat(live[:8]).turns(1, first=50)
    world.take(other)
    world.take(Chat(live).turns(1, first=50).user("go on"))

    assert Counter(texts(world.stored())).most_common(1)[0][1] == 1
    assert texts(world.flagged(Flag.RETRACTED)) == []


def speaks(folder: Path, name: str, begin: Any) -> None:
    """What one process says."""
    world, live = World(folder), chat().turns(3)
    world.take(live)
    begin.wait(60)
    for n in range(25):
        live.user(f"{name} asks {n}")
        world.take(live)
        live.says(f"{name} is told {n}")
        world.take(live)


def test_three_processes_that_speak_at_once_are_all_heard(tmp_path: Path) -> None:
    """Each with a list that lacks what the others say."""
    first = World(tmp_path)
    first.take(chat().turns(3))
    first.db.close()
    begin = FORK.Barrier(3)
    speakers = [FORK.Process(target=speaks, args=(tmp_path, name, begin)) for name in "GTU"]
    for speaker in speakers:
        speaker.start()
    for speaker in speakers:
        speaker.join(60)

    assert [speaker.exitcode for speaker in speakers] == [0, 0, 0]
    said = [f"{name} {what} {n}" for name in "GTU" for n in range(25) for what in ("asks", "is told")]
    assert_everything_once(tmp_path, [*chat().turns(3), *({"role": "user", "content": text} for text in said)])


_RESUME = """
import fcntl, json, random, sys
from pathlib import Path
from worlds.process import Chat, World
folder, name = Path({folder!r}), sys.argv[1]
world, rng, kept = World(folder), random.Random(name), folder / "transcript.jsonl"

def resumed():
    with kept.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        return Chat(map(json.loads, file))

live = resumed()
print("ready", flush=True)
for n in range(15):
    if rng.random() < 0.35:
        live = resumed()
        world.take(live)
    for what in ("asks", "is told"):
        live.append({{"role": "user" if what == "asks" else "assistant", "content": f"{{name}} {{what}} {{n}}"}})
        world.take(live)
        with kept.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(live[-1]) + "\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_processes_that_resume_at_once_and_are_killed_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    """A gateway and a terminal go on beside a third one that is killed three times, anywhere, and resumed."""
    rng, said = random.Random(seed), chat().turns(3)
    World(tmp_path).take(said)
    kept = tmp_path / "transcript.jsonl"
    kept.write_text("".join(f"{json.dumps(message)}\n" for message in said), encoding="utf-8")
    paths = os.pathsep.join([str(HERE), str(HERE.parent / ".lcm-path")])

    def resume(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-c", _RESUME.format(folder=str(tmp_path)), f"{name}{seed}"]
        environment = {**os.environ, "PYTHONPATH": paths}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    going_on = [resume("G"), resume("T")]
    for name in "UVW":
        third = resume(name)
        time.sleep(rng.uniform(0.05, 0.6))
        third.kill()
        third.wait()
    assert [process.wait(120) for process in going_on] == [0, 0]

    world = World(tmp_path)
    stored = Counter(texts(world.stored()))
    shown = {json.loads(line)["content"] for line in kept.read_text(encoding="utf-8").splitlines()}
    assert shown <= set(stored)
    assert max(stored.values()) == 1
    assert texts(world.flagged(Flag.RETRACTED)) == []
    assert seals.broken(world.db) == []
