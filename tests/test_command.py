"""/lcm: every verb on a database in every state, with the rights of the session it is typed in."""

from __future__ import annotations

import argparse
import hashlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worlds import earlier
from worlds.home import (
    LOCKS_OUT,
    ROOT,
    WRITES,
    Holder,
    Home,
    corrupt,
    digest,
    empty,
    foreign,
    healthy,
    huge,
    make_read_only,
    newer,
    no_database,
    readable_home,
    unprivileged,
    wrecked,
)

from hermes_lcm.command import (
    FAILED,
    FOUND,
    OK,
    REFUSED,
    VERBS,
    Answer,
    answer,
    flagged,
    operator_access,
    parsed,
    run,
)
from hermes_lcm.config import load
from hermes_lcm.plugin import cli, hooks, registration
from hermes_lcm.storage import connection, files

STATES = {
    "empty": empty, "healthy": healthy, "corrupt": corrupt, "wrecked": wrecked, "no-database": no_database, "newer": newer,
    "foreign": foreign,
}  # fmt: skip
#: What is typed to look, and to change, where the name of the verb alone is not enough or not all. Verbs that are not named here
#: are asked by their names, so that a new one is tested with the others.
LOOKS = {
    "status": ("", "status"),
    "doctor": ("doctor", "doctor deep"),
    "backup": (),
    "exam": (),  # it keeps its grade
    "restore": ("restore", "restore latest"),
    "export": ("export", "export markdown", "export nobody jsonl"),
    "import": ("import nowhere.jsonl",),
    "preset show": ("preset show", "preset show codex_gpt_long_context", "preset show nothing"),
    "preset apply": ("preset apply codex_gpt_long_context --dry-run", "preset apply codex_gpt_long_context"),
    "explain": ("explain msg_1", "explain sum_1", "explain msg_999999999"),
    "dissolve": ("dissolve sum_1",),
    "search": ("search zebra", "search"),
}
CHANGES = {
    "backup": ("backup",),
    "exam": ("exam",),
    "restore": ("restore latest apply",),
    "import": ("import nowhere.jsonl apply",),
    "dissolve": ("dissolve sum_1 apply", "dissolve sum_1 undo"),
}
LOOKING = tuple(words for verb in VERBS for words in LOOKS.get(verb.name, (verb.name,)))
CHANGING = tuple(
    words
    for verb in VERBS
    if verb.changes or verb.name in CHANGES
    for words in CHANGES.get(verb.name, (f"{verb.name} apply",))
)


#: Verbs that read or write other files of this machine, and are refused in a chat.
TERMINAL = ("import", "import host", "adopt", "rescue", "install", "uninstall", "preset use")


def clear(said: Answer, words: str) -> None:
    """An answer in words; what was not done says so, and what a database could not do says what helps."""
    assert said.text.strip(), words
    assert "Traceback" not in said.text, words
    assert said.code in (OK, FOUND, REFUSED, FAILED), words
    if said.code == REFUSED:
        assert said.text.startswith("Not done: "), words
    if said.code == FAILED:
        assert re.match(r"Not done: .+\nWhat to do: .+", said.text, re.DOTALL), words


def hashed(folder: Path) -> dict[str, str]:
    """Files under a folder in which nobody has a database open, with a hash of each."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A locked database is given up after 5 ms."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 5)
    monkeypatch.setattr(files, "_BUSY_S", 0.005)


# -- every verb, every state ---------------------------------------------------------------------------
@pytest.mark.few(62)
@pytest.mark.parametrize("words", LOOKING, ids=lambda words: str(words).replace(" ", "-") or "nothing")
@pytest.mark.parametrize("state", STATES, ids=str)
def test_looking_answers_and_changes_nothing(state: str, words: str, tmp_path: Path) -> None:
    """Whatever the file is like: words, no traceback, the same bytes afterwards."""
    world = STATES[state](tmp_path)
    world.deps()
    world.close()
    before = hashed(tmp_path)
    said = answer(words, world.deps())
    world.close()

    clear(said, words)
    assert hashed(tmp_path).get(str(world.path)) == before.get(str(world.path))


@pytest.mark.few(25)
@pytest.mark.parametrize("words", CHANGING, ids=lambda words: str(words).replace(" ", "-"))
@pytest.mark.parametrize("state", STATES, ids=str)
def test_changing_answers_and_loses_nothing(state: str, words: str, tmp_path: Path) -> None:
    """Done, or said why not; what the file held is still in it or kept beside it."""
    world = STATES[state](tmp_path)
    world.deps()
    world.close()
    before = hashed(tmp_path).get(str(world.path))
    said = answer(words, world.deps())
    world.close()

    clear(said, words)
    assert state in ("healthy", "corrupt") or not before or before in hashed(tmp_path).values()
    assert state != "healthy" or world.runtime.store.count() == 100
    assert state != "corrupt" or any(world.spared in path.read_bytes() for path in tmp_path.rglob("*.db"))


def test_a_locked_database_gets_clear_answers(tmp_path: Path, held: list[Holder]) -> None:
    """Another process keeps it to itself: every verb, each as a process that has not seen the file."""
    world = healthy(tmp_path)
    world.close()
    held.append(Holder(world.path, *LOCKS_OUT))
    for words in (*LOOKING, *CHANGING):
        asked = Home(tmp_path, doctor_clean_apply_enabled="true")
        clear(answer(words, asked.deps()), words)
        asked.close()
    held.pop().free()

    assert world.runtime.store.count() == 100


def test_looking_goes_on_while_somebody_writes(tmp_path: Path, held: list[Holder]) -> None:
    """Readers never wait for a writer; only the index checks itself under the write lock, and says that it could not."""
    held.append(Holder(healthy(tmp_path).path, *WRITES))
    for words in LOOKING:
        asked = Home(tmp_path, doctor_clean_apply_enabled="true")
        said = answer(words, asked.deps())
        asked.close()

        assert said.code in (OK, REFUSED) or (words == "doctor repair" and "locked" in said.text), words


def test_a_read_only_home_gets_clear_answers() -> None:
    """All verbs, as an account that may only look."""
    home = readable_home()
    healthy(home).close()
    make_read_only(home)
    before = digest(home / "lcm.db")

    def ask() -> list[str]:
        return [run(words, Home(home).deps()) for words in (*LOOKING, *CHANGING)]

    assert all(text.strip() and "Traceback" not in text for text in unprivileged(ask))
    assert digest(home / "lcm.db") == before


def test_a_read_only_home_can_be_read_at_a_terminal() -> None:
    """What is stored is shown without a side file; what would change it is refused with the way out."""
    home = readable_home()
    healthy(home).close()
    make_read_only(home)

    def ask() -> list[str]:
        world = Home(home)
        world.runtime.db.reads_when_full = True  # as `hermes lcm` does
        return [run(words, world.deps()) for words in ("search zebra", "status", "backup")]

    found, status, backup = unprivileged(ask)
    assert "zebra deployment" in found
    assert "nothing new is stored in the file" in status
    assert "make the file and its folder writable" in status
    assert "make the file and its folder writable" in backup


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """One for all, for it takes minutes to make."""
    return huge(tmp_path_factory.mktemp("huge"))


@pytest.mark.slow
@pytest.mark.parametrize("words", [*LOOKING, *CHANGING], ids=lambda words: str(words).replace(" ", "-") or "nothing")
def test_a_million_messages_are_answered_and_kept(words: str, million: Home) -> None:
    """Looking changes no byte; changing loses no row but those of the session that is named as junk."""
    if words in CHANGING:
        million.raw("UPDATE messages SET source = '' WHERE store_id % 100000 = 0")
        million.now += 60
    million.deps()
    million.close()
    before = digest(million.path)
    said = answer(words, million.deps("s7", trusted=True))
    million.close()

    clear(said, words)
    assert words in CHANGING or digest(million.path) == before
    assert million.runtime.store.count() - million.runtime.store.count("junk") == 1_000_000
    for each in million.home.rglob("*.sqlite3"):  # one at a time: each has half a gigabyte
        if words != "backup":
            each.unlink()


@pytest.mark.parametrize(
    "verb",
    [verb for verb in VERBS if verb.changes and verb.name not in TERMINAL],
    ids=lambda verb: verb.name.replace(" ", "-"),
)
def test_a_second_apply_changes_nothing_more(verb: object, tmp_path: Path) -> None:
    """Every apply is safe to repeat."""
    world = healthy(tmp_path)
    trusted = verb.name in ("redact", "purge", "retention")  # type: ignore[attr-defined]  # which a chat is refused
    run("backup", world.deps())
    given = {
        "restore": "restore latest apply",
        "dissolve": "dissolve sum_1 apply",
        "purge": "purge messages msg_12 apply",
    }
    words = given.get(verb.name, f"{verb.name} apply")  # type: ignore[attr-defined]
    run(words, world.deps(trusted=trusted))
    rows = world.runtime.store.count()
    world.now += 1
    again = answer(words, world.deps(trusted=trusted))

    assert again.code == OK
    assert world.runtime.store.count() == rows == 100


def test_a_summary_is_dissolved_after_a_backup(tmp_path: Path) -> None:
    """Each apply makes one first; an order that is there already, a dry run and an undo change nothing that needs it."""
    world = healthy(tmp_path)
    made = [
        answer(f"dissolve sum_1{word}", world.deps()).data.get("backup") for word in ("", " apply", " apply", " undo")
    ]

    assert [bool(each) for each in made] == [False, True, False, False]
    assert Path(str(made[1])).exists()


# -- as the host calls it ------------------------------------------------------------------------------
@pytest.fixture
def engine(hermes_home: Path) -> Iterator[Any]:
    """An engine that the host made for session s1, in which something was said."""
    from hermes_lcm.engine import LCMEngine

    made = LCMEngine()
    made.bind_session_state(SimpleNamespace(get_session=lambda name: {"id": name, "source": "cli"}), "s1")
    made.on_session_start("s1", platform="cli")
    made.update_model(model="m", context_length=64_000)
    made.runtime.ingest_list("s1", [{"role": "user", "content": "hello zebra"}])
    yield made
    made.runtime.db.close()


@pytest.mark.host
@pytest.mark.parametrize("words", ["status", "doctor", "search zebra", "backup", "rotate apply", "nonsense"])
def test_typed_into_a_chat_with_a_locked_database(words: str, engine: Any, held: list[Holder]) -> None:
    """The host gets words, never an exception."""
    engine.runtime.db.close()
    engine.runtime.refresh("s1")
    held.append(Holder(engine.runtime.db.path, *LOCKS_OUT))
    said = registration.answer(words)

    assert said.strip()
    assert words == "nonsense" or "locked" in said or "no session" in said or "it is the operator's" in said


@pytest.mark.host
def test_a_chat_whose_agent_is_not_in_memory_is_known_by_its_key(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart of the gateway: its own newest session, and nobody else's."""
    keys = {name: f"agent:main:telegram:dm:{name}" for name in ("anna", "bert")}
    for name, key in keys.items():
        engine.runtime.announce(f"{name}-1", platform="telegram", host_key=key, owner=f"telegram:dm:{name}")
        engine.runtime.ingest_list(f"{name}-1", [{"role": "user", "content": f"the secret of {name}"}])
    monkeypatch.setattr(hooks, "command_key", lambda: keys["bert"])

    assert "bert-1" in registration.answer("status")
    assert "the secret of bert" in registration.answer("search secret")
    assert "anna" not in registration.answer("status") + registration.answer("search secret")
    monkeypatch.setattr(hooks, "command_key", lambda: "agent:main:telegram:dm:nobody")
    assert "none yet: send a message" in registration.answer("status")


# -- words ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("typed", "name", "rest", "apply"),
    [
        ("", "status", (), False),
        ("DOCTOR", "doctor", (), False),
        ("doctor clean apply", "doctor clean", (), True),
        ("doctor repair --apply", "doctor repair", (), True),
        ("rotate apply --dry-run", "rotate", (), False),
        ("restore latest apply", "restore", ("latest",), True),
        ("search apply deep it's", "search", ("apply", "deep", "it's"), False),
        ('search "two words"', "search", ("two words",), False),
    ],
    ids=lambda value: str(value) or "nothing",
)
def test_words_are_read_as_meant(typed: str, name: str, rest: tuple[str, ...], apply: bool) -> None:
    """One or two words name the verb, flags may stand anywhere behind it, and words to search for are never flags."""
    verb, words = parsed(typed)

    assert (verb.name, words.rest, words.apply) == (name, rest, apply)


@pytest.mark.parametrize("words", ["doctor repair", "doctor repair apply"])
def test_where_no_database_is_none_is_called_sound(words: str, tmp_path: Path) -> None:
    """And none is made. One that was lost comes back from a backup."""
    world = empty(tmp_path / "empty")
    said = answer(words, world.deps())
    assert (said.code, said.data["applied"]) == (OK, False)
    assert said.text == "There is no database yet: nothing is stored, so there is nothing to repair."
    assert not world.path.exists()

    world = healthy(tmp_path / "lost")
    answer("backup", world.deps())
    world.close()
    world.path.unlink()
    assert re.search("`/lcm restore lcm-.*[.]sqlite3 apply`", answer(words, world.deps()).text)
    assert not world.path.exists()


def test_an_unknown_word_leads_to_help(tmp_path: Path) -> None:
    """And help lists every verb."""
    world = empty(tmp_path)

    assert "/lcm help" in run("docter", world.deps())
    said = run("help", world.deps())
    assert all(re.search(rf"\b{verb.name.split()[-1]}\b", said) for verb in VERBS)
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize(
    "words",
    [
        "doctor retntion",
        "status s1",
        "backup now",
        "doctor clean s1 apply",
        "preset suggest large",
        "status apply",
        "backup deep",
    ],
)
def test_words_that_a_verb_has_no_use_for_are_refused(words: str, tmp_path: Path) -> None:
    """A typing error is no plain doctor that says healthy, and a session's name no wish that is dropped."""
    said = answer(words, healthy(tmp_path).deps())

    assert said.code == REFUSED
    assert "/lcm help" in said.text


def test_a_file_that_is_no_database_is_not_ours_to_repair(tmp_path: Path) -> None:
    """Adopting names the file; our own doctor would not help."""
    path = tmp_path / "talk.jsonl"
    path.write_text("no database\n" * 100)
    said = answer(f"adopt {path}", replace(healthy(tmp_path).deps(), trusted=True))

    assert str(path) in said.text
    assert "doctor repair" not in said.text


def test_flags_are_told_from_words() -> None:
    """``apply`` is what an operator types, ``--apply`` what a script does."""
    verb, _ = parsed("restore")

    assert flagged(verb, ["x", "--apply"]).apply
    assert flagged(verb, ["x", "--dry-run", "apply"]).apply is False


def test_a_preset_is_shown_and_never_applied(tmp_path: Path) -> None:
    """With --dry-run the settings, without it a refusal."""
    world = healthy(tmp_path)

    assert "LCM_FRESH_TAIL_COUNT=24" in run("preset apply codex_gpt_long_context --dry-run", world.deps())
    assert answer("preset apply codex_gpt_long_context", world.deps()).code == REFUSED


# -- rights --------------------------------------------------------------------------------------------
@pytest.fixture
def shared(tmp_path: Path) -> Home:
    """Two chats of a gateway, and the terminal."""
    world = Home(tmp_path)
    for name in ("anna", "bert"):
        world.runtime.announce(name, platform="telegram", host_key=f"agent:main:telegram:dm:{name}")
        world.say(f"the secret of {name} is a zebra", "noted", session=name, platform="telegram")
    world.say("the terminal says zebra", "yes", session="s1")
    return world


@pytest.mark.parametrize(
    ("session", "trusted", "found"),
    [
        ("anna", False, {"anna"}),
        ("bert", False, {"bert"}),
        ("s1", False, {"anna", "bert", "s1"}),
        (None, True, {"anna", "bert", "s1"}),
    ],
    ids=["anna", "bert", "terminal-session", "terminal"],
)
def test_a_search_finds_what_its_asker_may_read(
    session: str | None, trusted: bool, found: set[str], shared: Home
) -> None:
    """A chat sees its own conversations, the terminal sees all."""
    data = answer("search zebra", shared.deps(session, trusted=trusted)).data

    assert {each["session_id"] for each in data["results"]} == found


@pytest.mark.parametrize("typed", ["needle", '"needle of"'])
def test_a_search_shows_the_words_that_were_found(typed: str, shared: Home) -> None:
    """However far into its message they stand; not how the message begins."""
    shared.say(f"{'hay and straw, ' * 400}the needle of the stack. {'hay and straw, ' * 400}", session="far")
    [found] = answer(f"search {typed}", shared.deps("far")).data["results"]

    assert "the needle of the stack" in found["snippet"]
    assert (found["snippet"][0], found["snippet"][-1]) == ("…", "…")


def test_a_search_shows_where_most_of_its_words_stand(shared: Home) -> None:
    """Not where the first of them stands, nor a word that merely begins with one or holds one."""
    hay = "hay and straw, " * 400
    shared.say(
        f"Compaction reads slowly. {hay}Upwards at once, downwards slowly, and acting late. {hay}", session="far"
    )
    [found] = answer("search upwards acting downwards slowly", shared.deps("far")).data["results"]

    assert "Upwards at once, downwards slowly, and acting late." in found["snippet"]


def test_the_example_of_a_verb_has_the_words_that_it_needs() -> None:
    """Where something must follow, the example shows it, in a form that is taken."""
    for verb in VERBS:
        needed = verb.usage
        while (shorter := re.sub(r"\[[^\[\]]*\]", "", needed)) != needed:
            needed = shorter

        assert not needed.strip() or verb.example, verb.name
        assert parsed(f"{verb.name} {verb.example}")[0] is verb


def test_a_message_behind_a_hit_is_beside_it_and_no_hit(shared: Home) -> None:
    """The index also holds how the message before ended, which finds a short reply; it says none of the words itself."""
    shared.say("Where does the needle sleep? In the pincushion.", "It goes on.", session="behind")
    said = answer("search needle pincushion", shared.deps("behind"))
    found = said.data["results"]

    assert [each["near"] for each in found] == [False, True]
    assert f"Neighbours of these messages, which need not hold the words: {found[1]['address']}" in said.text


def test_neighbours_of_hits_are_named_in_the_order_in_which_they_were_said(shared: Home) -> None:
    """Their rank says nothing about words that they need not hold."""
    said = [f"Then we spoke of the weather for a while, number {n}." for n in range(20)]
    said[5], said[12] = (
        "Where does the needle sleep at night?",
        "The needle sleeps in the haystack, said Anna of the needle.",
    )
    shared.say(*said, session="beside")
    shown = run("search needle haystack", shared.deps("beside"))
    named = re.findall(r"msg_(\d+)", next(line for line in shown.splitlines() if line.startswith("Neighbours")))

    assert len(named) > 4
    assert named == sorted(named, key=int)


def test_a_search_shows_the_call_that_was_found(shared: Home) -> None:
    """A message may be nothing but calls of tools."""
    call = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "needle.py"}'}}
    live = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
    ]
    shared.runtime.announce("calls", platform="cli")
    shared.runtime.ingest_list("calls", live, source="cli")

    found = answer("search needle.py", shared.deps("calls")).data["results"]
    assert any("needle.py" in each["snippet"] for each in found)


def test_somebody_elses_address_and_none_are_the_same_answer(shared: Home) -> None:
    """Not even its existence is told."""
    theirs, nobodys = (run(f"explain msg_{number}", shared.deps("anna")) for number in (3, 999))

    assert theirs.replace("msg_3", "X") == nobodys.replace("msg_999", "X")
    assert "zebra" in run("explain msg_1", shared.deps("anna"))


def test_without_a_session_nothing_is_shown(shared: Home) -> None:
    """A gateway may not know yet which chat it is."""
    unknown = operator_access(shared.runtime, None, None)

    assert answer("search zebra", unknown).code == REFUSED
    assert answer("search zebra", replace(unknown, trusted=True)).code == OK


def test_the_status_of_a_chat_shows_no_other_session(shared: Home) -> None:
    """Totals, but no names and no text."""
    said = run("status", shared.deps("anna"))

    assert "bert" not in said
    assert "zebra" not in said


@pytest.mark.parametrize("words", ["status", "doctor", "cost", "search zebra", "sessions", "recall", "ledger"])
def test_a_chat_hears_that_the_archive_was_emptied(words: str, shared: Home) -> None:
    """Without a word of how much others had said."""
    deps = shared.deps("anna")
    run("backup", shared.deps(None))
    shared.close()
    for ending in ("", "-wal", "-shm"):
        Path(f"{shared.path}{ending}").unlink(missing_ok=True)
    shared.path.touch()
    said = run(words, deps)

    assert "the archive is empty or gone, and there was one" in said
    assert "Nothing is stored yet" not in said
    assert not [each for each in ("backup", "6 messages") if each in said], said


@pytest.mark.parametrize(
    "words", ["show msg_12", "explain sum_3", "pin msg_12", "pin s1", "pin msg_12 undo", "dissolve sum_3"]
)
def test_where_nothing_is_stored_no_one_thing_is_either(words: str, tmp_path: Path) -> None:
    """A script that asks for it hears so by the exit code, as where other things are stored."""
    deps = empty(tmp_path).deps(None)
    done = answer(words, deps)

    assert done.code == REFUSED
    assert words.split()[1] in done.text
    assert answer("pin", deps).code == OK


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("explain 12", "did you mean msg_12 or sum_12?"),
        ("show sums", "it looks like msg_12 or sum_3"),
        ("explain", "needs an address such as msg_12"),
        ("search", "`/lcm search` needs words to look for"),
        ("recall", "needs words to look for"),
    ],
)
def test_words_that_no_archive_could_answer_are_refused_where_nothing_is_stored(
    words: str, said: str, tmp_path: Path
) -> None:
    """The first thing that somebody types is told what is wrong with it, not only that nothing is there."""
    done = answer(words, empty(tmp_path).deps(None))

    assert done.code == REFUSED
    assert said in done.text


# -- explaining ----------------------------------------------------------------------------------------
def test_a_message_says_what_covers_it(tmp_path: Path) -> None:
    """And where the prompt has it."""
    world = healthy(tmp_path)
    deps = world.deps()

    assert answer("explain msg_5", deps).data["in_prompt_by"] == "sum_1"
    assert answer("explain msg_50", deps).data["in_prompt"] == "raw"
    assert answer("explain msg_5", deps).data["covered_by"] == ["sum_1"]


def test_a_summary_says_what_it_was_made_of(tmp_path: Path) -> None:
    """By whom, and how it was checked."""
    world = healthy(tmp_path)
    data = answer("explain sum_1", world.deps()).data

    assert data["sources"][:2] == ["msg_1", "msg_2"]
    assert data["model"] == "a-model"
    assert data["in_prompt"] == "summary"


# -- documentation -------------------------------------------------------------------------------------
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def shown() -> Iterator[tuple[str, str]]:
    """(line, page) of every command in a block."""
    for page in PAGES:
        for block in re.findall(r"^```text\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            lines = [line for line in block.splitlines() if line.startswith(("/lcm", "hermes lcm"))]
            # The fleet's need a server: tests/fleet and the demonstration run them.
            yield from ((line, page.name) for line in lines if "lcm fleet" not in line)


def mentioned() -> Iterator[tuple[str, str]]:
    """(page, command) of every command within a sentence."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        yield from (
            (page.name, found) for found in re.findall(r"(?<!`)`((?:/lcm|hermes lcm)(?: [^`\n]*)?)`(?!`)", text)
        )


@pytest.mark.parametrize(("page", "said"), sorted(set(mentioned())), ids=lambda value: str(value).replace(" ", "-"))
def test_every_command_in_a_sentence_exists(page: str, said: str) -> None:
    """Its verb, at least; what follows may stand for something (FILE, ...)."""
    words = said.removeprefix("hermes lcm").removeprefix("/lcm").replace("...", "").split(" --")[0]

    assert parsed(words), page


@pytest.mark.parametrize(
    ("line", "page"), sorted(dict(shown()).items()), ids=lambda value: str(value).replace(" ", "-")
)
def test_every_command_in_the_documentation_works(
    line: str, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied from the page, on a database with something in it."""
    world = home_for(line, tmp_path)
    monkeypatch.chdir(tmp_path)  # an export may be written to a file
    if line.startswith("/lcm"):
        assert answer(line.removeprefix("/lcm"), world.deps()).code == OK, page
        return
    parser = argparse.ArgumentParser()
    cli.setup(parser)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "operator_access", lambda *_: world.deps())
        assert cli.main(parser.parse_args(shlex.split(line)[2:]), world.runtime) == OK, page


def home_for(line: str, home: Path) -> Home:
    """What a command of the pages is for: an earlier plugin's database, sessions of the host, or just some messages."""
    if line.startswith("hermes lcm adopt"):
        earlier.used(home)
        return Home(home)
    world = healthy(home)
    if "backup" in line or "restore" in line:
        run("backup", world.deps())
    if line.startswith("hermes lcm import host"):
        from hermes_state import SessionDB

        host = SessionDB(home / "state.db")
        host.create_session("SESSION", "cli")
        host.append_message("SESSION", "user", "what was said before the plugin came")
        host.close()
    return world


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name.replace(" ", "-"))
def test_every_verb_is_documented(verb: Any) -> None:
    """A command that nobody can find does not exist."""
    assert f"/lcm {verb.name}" in (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")


def test_the_numbers_of_the_tuning_page_are_those_of_the_settings() -> None:
    """Its table of a prompt's parts is computed from the defaults."""
    config = load({})
    text = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")

    for share in (config.low_water, config.tail_share, config.prefix_share):
        assert f"{share:.2f} | up to {int(96_000 * share):,} |" in text


@pytest.mark.parametrize(
    "row",
    re.findall(r"^\| ([\d,]+) \| ([\d,]+) \| (0\.\d+) \|$", (ROOT / "docs" / "tuning.md").read_text(), re.MULTILINE),
)
def test_the_worked_thresholds_are_right(row: tuple[str, str, str]) -> None:
    """window x threshold = trigger, as the plugin computes it."""
    window, trigger, share = (text.replace(",", "") for text in row)

    assert load({"LCM_CONTEXT_THRESHOLD": share}).threshold_tokens(int(window)) == int(trigger)


WORKED = re.findall(r"^\| ((?:[\d,]+ \| ){5}[\d,]+) \|$", (ROOT / "docs" / "tuning.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("row", WORKED, ids=lambda row: row.split(" ")[0])
def test_the_worked_windows_are_right(row: str) -> None:
    """Trigger, low water, tail, summaries and what is freed, from the defaults."""
    window, trigger, low, tail, summaries, freed = (int(cell.replace(",", "")) for cell in row.split(" | "))
    config = load({})
    shares = (config.low_water, config.tail_share, config.prefix_share)

    assert len(WORKED) == 6
    assert trigger == config.threshold_tokens(window)
    assert [low, tail, summaries] == [int(trigger * share) for share in shares]
    assert freed == trigger - low


def test_no_turn_waits_for_what_a_verb_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads over a connection of its own: a look at a million messages takes as long as it takes."""
    deps = healthy(tmp_path).deps()
    plain, reads = connection.Database.query, []
    shared = {"rows": 0}

    def query(db: connection.Database, sql: str, params: Any = ()) -> Any:
        reads.append(sql)
        shared["rows"] += db._own_reader() is None and db is deps.db
        return plain(db, sql, params)

    monkeypatch.setattr(connection.Database, "query", query)
    for words in ("doctor source", "doctor retention", "doctor repair", "redact preview", "backup"):
        answer(words, deps)

    assert (len(reads) > 10, shared["rows"]) == (True, 0)


def test_status_calls_no_file_ready_that_lost_a_part(tmp_path: Path) -> None:
    """It answers, and is damaged all the same: exit code 1, as for one that does not answer."""
    world = healthy(tmp_path)
    world.close()
    world.raw("DROP TABLE node_sources")
    said = answer("status", world.restart().deps("s1", trusted=True))

    assert (said.code, said.data["database"]["state"], said.data["database"]["damaged"]) == (FOUND, "ready", True)
    assert "(damaged in part, see Problems)" in said.text
    assert "(ready)" not in said.text
