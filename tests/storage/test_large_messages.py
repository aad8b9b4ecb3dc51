"""A message of megabytes is stored in its turn, in its row, like any other, and comes back byte for byte (P1, P2)."""

from __future__ import annotations

import json
import random
import string
import zlib
from pathlib import Path
from typing import Any

import pytest
from worlds.home import PAGE_BYTES, Home
from worlds.process import WAIT_S, World, chat

from hermes_lcm.errors import StoreError
from hermes_lcm.ops import backup, upkeep
from hermes_lcm.records import Scope
from hermes_lcm.search import query
from hermes_lcm.storage import packing
from hermes_lcm.text import blobs

HUGE_CHARS = 5_000_000
SAYS = "The quokka said so in line 17000."


def huge(seed: int = 0, chars: int = HUGE_CHARS) -> str:
    """An output of so many characters."""
    rng = random.Random(seed)
    lines = [f"line {n} of a log ü {rng.randrange(10**6)}" for n in range(chars // 24)]
    lines[min(17000, len(lines) - 1)] = SAYS
    return "\n".join(lines)[:chars]


def conversation(text: str) -> Any:
    return chat().turns(2).calls("a").results("a", text=text).says("I see")


def sizes(world: World) -> list[int]:
    """Bytes of every stored JSON in the database."""
    return [row[0] for row in world.db.query("SELECT length(envelope) FROM messages ORDER BY store_id")]


def said(world: World) -> list[dict[str, Any]]:
    return [row.stored_json for rows in world.runtime.whole_store.row_batches() for row in rows]


def files(world: World) -> list[Path]:
    return sorted(path for path in world.runtime.payloads.folder.rglob("*") if path.is_file())


# -- the way in --------------------------------------------------------------------------------------------------
def test_five_megabytes_are_in_their_row_when_the_turn_goes_on(tmp_path: Path) -> None:
    """Smaller, and nothing lies beside the database; shown again they are known."""
    world = World(tmp_path)
    live = conversation(huge())
    world.take(live)

    assert 1_000_000 < sizes(world)[5] < HUGE_CHARS / 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lcm.db", "lcm.db-shm", "lcm.db-wal"]
    assert said(world) == list(live)
    assert world.take(live).stored == 0


@pytest.mark.parametrize(
    "piece",
    [
        '{"path": "C:\\\\x", "n": 1}\n',
        "\x1b[32mok\x1b[0m\r\n",
        "\0\x7f\u2028",
        "12 34\n{",
        "\U0001f9a5 é",
        "half \ud83d",
    ],
    ids=["JSON", "colours", "control characters", "numbers", "characters of four bytes", "half characters"],
)
def test_it_comes_back_exactly(piece: str, tmp_path: Path) -> None:
    """Whatever JSON must do to its text, and wherever that stands in the message."""
    world = World(tmp_path)
    text = piece * (1_000_000 // len(piece))
    result = {"content": text, "role": "tool", "tool_call_id": "a", "name": "terminal", "tool_name": "terminal"}
    messages = [*chat().turns(1).calls("a"), result, *chat().says('I "see"')]
    world.take(messages)

    assert list(map(json.dumps, said(world))) == list(map(json.dumps, messages))


@pytest.mark.parametrize("alphabet", ["".join(map(chr, range(32, 127))), "".join(map(chr, range(0xA000, 0xD700, 7)))])
def test_what_repeats_nothing_is_smaller_too(alphabet: str, tmp_path: Path) -> None:
    """Random characters, of one alphabet or of many."""
    world = World(tmp_path)
    text = "".join(random.Random(3).choices(alphabet, k=500_000))
    world.take(chat().user(text).says("I see"))

    assert sizes(world)[0] < len(text.encode())
    assert said(world)[0]["content"] == text


@pytest.mark.parametrize("size", [0, 1, 599, 600, 4096, 4097, packing.LARGE_BYTES, packing.LARGE_BYTES + 1, 1_000_000])
@pytest.mark.parametrize("alphabet", ["ab", string.printable])
def test_stored_json_of_any_size_is_unpacked_as_it_was(size: int, alphabet: str) -> None:
    """On both sides of every size at which the form changes."""
    stored_json = "".join(random.Random(size).choices(alphabet, k=size))

    assert packing.unpack(packing.pack(stored_json)) == stored_json


def test_what_has_no_repetitions_is_not_searched_for_them() -> None:
    """It comes out smaller than by searching, and four times as fast; what has them is."""
    odd = "".join(random.Random(1).choices(string.ascii_letters + string.digits + "+/", k=500_000)).encode()
    even = huge(chars=500_000).encode()

    assert len(packing.deflated(odd)) < len(zlib.compress(odd, 1))
    assert packing.deflated(even) == zlib.compress(even, 1)


def test_it_is_found_and_read_in_the_next_moment(tmp_path: Path) -> None:
    """The search indexes it, if the worker has not yet."""
    world = World(tmp_path)
    world.take(conversation(huge()))
    found = world.runtime.index.search(query.parse("quokka"), scope=Scope(), limit=5)

    assert found.hits[0].store_id == 6
    assert SAYS in world.runtime.view_store.text(6)


# -- faults ------------------------------------------------------------------------------------------------------
def test_a_statement_that_fails_leaves_nothing_of_it(tmp_path: Path) -> None:
    """Each of storing it, in turn; the next hook stores it once."""
    world = World(tmp_path)
    world.take(chat().turns(2))
    live = conversation(huge(chars=1_500_000))
    failed = 0
    for number in range(1, 100):
        try:
            with world.failing_at(number):
                world.take(live)
            break
        except StoreError:
            failed += 1
            assert world.store.count() == 4

    assert failed >= 2
    assert said(world) == list(live)


def test_one_that_cannot_be_read_keeps_no_other_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the search index, however long that takes here."""
    monkeypatch.setattr(upkeep, "_ENDING_S", 6 * WAIT_S)
    home = Home(tmp_path / "home")
    home.say(huge(1, 300_000))
    ((stored,),) = home.runtime.db.query("SELECT envelope FROM messages")
    home.close()
    page = home.path.read_bytes().index(stored[50_000:50_100]) // PAGE_BYTES * PAGE_BYTES
    with home.path.open("r+b") as file:
        file.seek(page)
        file.write(b"\xde\xad\xbe\xef" * (PAGE_BYTES // 4))
    home.say(huge(2, 300_000), session="s2")
    home.say(huge(3, 300_000), session="s3")
    home.runtime.ended()

    assert home.runtime.index.documents.waiting() == [1]


def test_a_backup_holds_it(tmp_path: Path) -> None:
    """It is one file, and its copy in another home is complete."""
    home = Home(tmp_path / "home")
    home.say("hello", huge(), "thanks")
    made = backup.back_up(home.deps())
    fresh = Home(tmp_path / "fresh")
    backup.restore(fresh.deps(None), str(made.path))

    assert [row.text for row in fresh.runtime.store.rows([1, 2, 3])] == ["hello", huge(), "thanks"]


# -- in a file ---------------------------------------------------------------------------------------------------
def test_its_payload_file_is_deflated_when_the_turn_goes_on(tmp_path: Path) -> None:
    """Where large outputs lie in files; of encoded bytes the characters are counted."""
    world = World(tmp_path, large_output_externalization_enabled=True)
    encoded = "".join(random.Random(1).choices(string.ascii_letters + string.digits + "+/", k=1_000_000))
    live = conversation(huge()).user(f"look: {encoded}")
    world.take(live)
    small, large = sorted(path.stat().st_size for path in files(world))

    assert small < 0.8 * len(encoded)
    assert large < HUGE_CHARS / 2
    assert sizes(world)[5] < blobs.MIN_CHARS
    assert said(world) == list(live)
    assert world.runtime.payloads.survey(deep=True).damaged == ()
