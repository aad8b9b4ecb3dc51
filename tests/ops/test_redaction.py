"""The preview says what redaction would take out of what is stored, shows no secret and changes nothing; logs hold none."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.breaking import Host
from worlds.home import Home
from worlds.process import Chat, chat

from hermes_lcm import command
from hermes_lcm.archive.ranges import Archive
from hermes_lcm.command import FOUND, OK, REFUSED, run
from hermes_lcm.ingest.filters import SECRETS as STORED_SECRETS
from hermes_lcm.ops import backup, redaction
from hermes_lcm.ops.redaction import ENCODED, preview
from hermes_lcm.records import Flag, NewNode
from hermes_lcm.runtime import PROCESS
from hermes_lcm.storage import files
from hermes_lcm.storage.meta import Meta
from hermes_lcm.text.redact import LOGGER, Redactor, keep_clean

SOME_BYTES = st.lists(st.sampled_from([b"a", b"b", b"(", b"\n", b"\xe9"]), min_size=8, max_size=11).map(b"".join)
SECRETS = ("hunter2secret", "k9f8e7d6c5b4", "ghp_0123456789abcdefghijABCDEFGHIJ012345")


@pytest.fixture(autouse=True)
def quiet_logger() -> Iterator[None]:
    """What a test asks of the logger ends with it."""
    before = list(logging.getLogger(LOGGER).filters)
    yield
    logging.getLogger(LOGGER).filters[:] = before


@pytest.fixture
def world(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.say(
        f"password: {SECRETS[0]}", f"api_key = '{SECRETS[1]}' twice api_key = '{SECRETS[1]}'", f"use {SECRETS[2]}",
        base64.b64encode(f"password={SECRETS[0]} and some more words".encode()).decode(), "nothing here",
    )  # fmt: skip
    return home


def test_it_counts_by_kind_and_says_where(world: Home) -> None:
    """With the kinds that are configured."""
    made = preview(world.deps(), (), lambda *_: None)

    assert (made.rows, made.changed) == (5, 4)
    assert {kind: (f.count, f.addresses) for kind, f in made.found.items()} == {
        "password_assignment": (1, ["msg_1"]),
        "api_key": (2, ["msg_2"]),
        "github_token": (1, ["msg_3"]),
        ENCODED: (1, ["msg_4"]),
    }
    (sample,) = made.found["password_assignment"].samples
    assert sample.endswith("password: [redacted:password_assignment]")


def test_a_huge_message_is_looked_at_as_any_other(tmp_path: Path) -> None:
    """Megabytes in front of a secret hide it from nobody."""
    home = Home(tmp_path / "home")
    home.say("word\n" * 300_000 + f"password: {SECRETS[0]}")
    found = preview(home.deps(), (), lambda *_: None).found

    assert {kind: (f.count, f.addresses) for kind, f in found.items()} == {"password_assignment": (1, ["msg_1"])}


def test_no_secret_is_shown_and_nothing_changes(world: Home) -> None:
    """Neither to people nor to programs."""
    before = world.path.read_bytes()
    text = run("redact preview all", world.deps())
    data = json.dumps([f.samples for f in preview(world.deps(), ("all",), lambda *_: None).found.values()])

    assert "github_token" in text
    assert not any(secret in text + data for secret in SECRETS)
    assert world.path.read_bytes() == before


def test_a_message_that_is_no_json_stops_no_preview(world: Home) -> None:
    """It is looked at leaf by leaf, as it was when it was stored."""
    knot: dict[str, object] = {"note": f"password: {SECRETS[0]}"}
    knot["knot"] = knot
    odd = [{1: f"password: {SECRETS[0]}"}, (f"password: {SECRETS[0]}",), knot, {"nothing": (1, {2})}]
    live = [{"role": "user", "content": f"odd {n}", "extra": each} for n, each in enumerate(odd)]
    world.runtime.ingest_list("odd", live, source="cli")
    found = preview(world.deps(), (), lambda *_: None).found["password_assignment"]

    assert found.addresses == ["msg_1", "msg_6", "msg_7", "msg_8"]


def test_unknown_names_are_told(world: Home, tmp_path: Path) -> None:
    """The others count; none at all is refused, also before there is a message."""
    assert "not a kind of secret: nonsense" in run("redact preview jwt,nonsense", world.deps())
    assert "not a kind of secret" in run("redact preview nonsense", world.deps())
    assert "not a kind of secret" in run("redact preview nonsense", Home(tmp_path / "new").idle())


def test_a_chat_sees_its_own_messages_only(world: Home) -> None:
    """Like every verb that quotes."""
    world.runtime.announce("tg", platform="telegram", host_key="agent:main:telegram:dm:1")
    mine = world.say("pwd = other999secret", session="tg", platform="telegram")
    world.runtime.refresh("tg")
    deps = world.deps("tg")

    assert mine.principal != "local"
    assert preview(deps, (), lambda *_: None).rows == 1


def test_problems_and_logs_hold_no_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever an error quotes."""
    home = Home(tmp_path / "home", sensitive_patterns_enabled="true")
    home.say("password: hunter9secret")
    with caplog.at_level(logging.WARNING, LOGGER):
        home.runtime.health.degraded("test", ValueError(f"cannot send password={SECRETS[0]}"))
        try:
            raise ValueError(f"api_key={SECRETS[1]}")
        except ValueError:
            logging.getLogger(LOGGER).exception("failed with password=%s", SECRETS[0])

    said = caplog.text + str(home.runtime.health.problems())
    assert "[redacted:" in said
    assert not any(secret in said for secret in SECRETS)
    assert [row.head.flags & Flag.REDACTED for rows in home.runtime.store.row_batches() for row in rows] == [
        Flag.REDACTED
    ]


class Odd:
    """What cannot even be printed."""

    def __str__(self) -> str:
        raise RuntimeError(SECRETS[0])


@pytest.mark.parametrize("args", [(1,), (Odd(), 2)])
def test_a_record_that_cannot_be_cleaned_ends_no_turn(
    caplog: pytest.LogCaptureFixture, args: tuple[object, ...]
) -> None:
    """Filters run in the thread that logs, and nobody catches what they raise."""
    keep_clean(Redactor(("all",)))
    with caplog.at_level(logging.WARNING, LOGGER):
        logging.getLogger(LOGGER).warning("%s and %s", *args)

    assert "left out" in caplog.text
    assert SECRETS[0] not in caplog.text


# -- every way in ---------------------------------------------------------------------------------------------------

KEY = "AKIA" + "QRSTUVWXYZ234567"
TOKEN = "ghp_" + "aB3dE6gH9" * 4


def on_disk(home: Path) -> str:
    """All that the files of a home say: as bytes, and what is packed in rows and files."""
    texts = [path.read_bytes().decode("latin-1") for path in home.rglob("*") if path.is_file()]
    runtime = PROCESS.at(home)
    texts += [json.dumps(row.stored_json) for rows in runtime.whole_store.row_batches() for row in rows]
    return "\n".join(texts)


@pytest.fixture
def clean(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host with redaction on."""
    monkeypatch.setenv("LCM_SENSITIVE_PATTERNS_ENABLED", "true")
    monkeypatch.setenv("LCM_CUSTOM_INSTRUCTIONS", f"Never name {KEY}.")
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "4")
    host = Host(hermes_home, session_id=f"talk about {TOKEN}")
    yield host
    host.close()


def test_no_way_in_brings_a_secret_to_the_disk(clean: Host, caplog: pytest.LogCaptureFixture) -> None:
    """A message, the name of a session, a typed focus, what the agent says of an archive, a setting, a problem's text."""
    live = chat().user(f"use {KEY}").says("ok").turns(30)
    clean.says(live)
    short = clean.engine.compress(live, focus_topic=f"the key {KEY} and {TOKEN}", force=True)
    clean.says(short := Chat(short).turns(4, first=200))
    stored = clean.engine.handle_tool_call(
        "lcm_archive",
        {"operation": "store", "start_index": len(short) - 6, "end_index": len(short) - 4, "summary": f"about {KEY}"},
        messages=short,
    )
    clean.runtime.health.degraded(f"topic {TOKEN}", f"failed on {KEY}")
    status = clean.tool("lcm_status")
    said = clean.command("status").text + clean.command("doctor").text
    archives = clean.runtime.archives.states(1)
    clean.close()

    assert (archives, bool(clean.runtime.dag.nodes([1]))) == ({"archived": 1}, True), stored
    for secret in (KEY, TOKEN):
        assert secret not in on_disk(clean.home)
        assert secret not in status + said + caplog.text
    assert clean.runtime.find_session(f"talk about {TOKEN}") is not None


def test_summaries_of_an_import_lose_their_secrets(tmp_path: Path) -> None:
    """Whoever stores a summary or an archive: the table takes none with a secret."""
    home = Home(tmp_path / "home", sensitive_patterns_enabled="true")
    home.say("a", "b")
    node = home.node(1, 2, text=f"the key is {KEY}")

    assert KEY not in node.text
    assert "[redacted:aws_key" in node.text


def test_what_operators_models_and_hosts_say_brings_no_secret_to_the_disk(tmp_path: Path) -> None:
    """Words typed behind a verb, names of models, what a provider answered, why a session ended, a question put to many."""
    home = Home(tmp_path / "home", sensitive_patterns_enabled="true")
    home.say("I prefer tabs.", "noted")
    trusted = home.deps(trusted=True)
    name = str(command.answer("ledger", trusted).text.split("\n")[1].split()[0])
    said = [run(words, trusted) for words in (f"pin msg_1 {TOKEN}", f"ledger correct {name} {TOKEN}", f"recall {KEY}")]
    node = home.runtime.dag.add(
        NewNode(1, 0, "verified", "text", "hint", 1, 9, (1,), b"f", f"m/{TOKEN}", "", f'{{"said": "{KEY}"}}'), now=1.0
    )
    meta = Meta(home.runtime.db)
    meta.note(f"windows of {TOKEN}", {f"m/{KEY}": [TOKEN]})
    home.runtime.sessions.end("s1", now=1.0, reason=f"because of {TOKEN}")
    data = "\n".join(files.texts_of(home.path)) + home.path.read_bytes().decode("latin-1")

    assert "is corrected" in said[1]
    assert "[redacted:github_token" in node.model
    assert list(meta.value(f"windows of {TOKEN}")) != [f"m/{KEY}"]
    assert not [secret for secret in (KEY, TOKEN) if secret.lower() in data.lower()]


def test_the_first_secret_is_told_while_redaction_is_off(tmp_path: Path) -> None:
    """One line in status says how to switch it on, and nothing of the secret; switching it on ends the matter."""
    home = Home(tmp_path / "home")
    home.say("nothing", "here")
    home.runtime.filters.warn_of_secrets()  # what the worker does behind a turn
    before = home.runtime.health.problems()
    home.say(f"use {KEY}", "and", f"use {TOKEN}", session="s2")
    home.runtime.filters.warn_of_secrets()
    (told,) = home.runtime.health.problems()
    home.close()
    again = Home(tmp_path / "home", sensitive_patterns_enabled="true")
    again.say("something else", session="s3")

    assert before == []
    assert told.severity == "warning"
    assert "LCM_SENSITIVE_PATTERNS_ENABLED=true" in told.remedy
    assert KEY not in told.message
    assert again.runtime.health.problems() == []


# -- taking it out of what is stored ---------------------------------------------------------------------------------

PEM_BODY = "MIIEowIBAAKCAQEA7bqK9aPq1xyzR8mD2vT4wL6nB0cQ5sJ7hF3gU1oE8iYtVrXk"
KEPT = (KEY, TOKEN, PEM_BODY)


def full_home(folder: Path) -> Home:
    """Secrets in rows, packed rows, a payload file, a summary, an archive, a name, a note, a backup and an export."""
    home = Home(
        folder, large_output_externalization_enabled="true", large_output_externalization_threshold_chars="2000"
    )
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----"
    said = [f"turn {n}: " + "words that repeat " * 30 for n in range(60)]
    said[7], said[8] = f"take {KEY} please", f"output {'x ' * 3000} {pem}"
    home.say(*said, f"and {TOKEN}", session=f"plan for {TOKEN}")
    home.runtime.store.packer.pack(newest=4, least_bytes=0)
    home.node(1, 2, 3, text=f"The user gave {KEY}.")
    session = home.runtime.find_session(f"plan for {TOKEN}")
    now = {"created_at": 1.0, "changed_at": 1.0}
    home.runtime.archives.add(
        Archive(
            0,
            "mem://a",
            1,
            session.session_id,
            (1,),
            0,
            1,
            1,
            f"has {KEY}",
            True,
            f"U: {TOKEN}",
            9,
            9,
            "archived",
            **now,
        )
    )
    home.runtime.health.degraded("something", f"failed on {TOKEN}")
    home.runtime.health.save()
    run("backup", home.deps(None, trusted=True))
    run(f'export "plan for {TOKEN}"', home.deps(None, trusted=True))
    return home


def everything(home: Home) -> str:
    """All that the database and its payload files hold, as bytes and unpacked."""
    texts = [*files.texts_of(home.path), *(text for _, text in home.runtime.payloads.each())]
    paths = [home.path, home.path.with_name("lcm.db-wal"), *home.runtime.payloads.folder.rglob("*")]
    texts += [path.read_bytes().decode("latin-1").lower() for path in paths if path.is_file()]
    return "\n".join(texts)


def test_what_is_stored_loses_its_secrets(tmp_path: Path) -> None:
    """Rows, blocks, files, summaries, archives, names, notes and indexes; all else comes back as it was."""
    home = full_home(tmp_path / "home")
    before = [row.stored_json for rows in home.runtime.whole_store.row_batches() for row in rows]
    assert all(secret in everything(home) for secret in KEPT)
    answer = command.answer("redact apply", home.deps(None, trusted=True))
    after = [row.stored_json for rows in home.runtime.whole_store.row_batches() for row in rows]

    assert answer.data["still_in"] == [], answer.text
    assert not [secret for secret in KEPT if secret.lower() in everything(home).lower()]
    assert [n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new] == [7, 8, 60]
    assert not any(secret in answer.text + json.dumps(answer.data) for secret in KEPT)
    assert (answer.code, answer.data["messages"]) == (OK, 3)


@given(st.lists(SOME_BYTES, min_size=1, max_size=8), st.lists(SOME_BYTES, max_size=4), st.data())
def test_a_pattern_of_many_secrets_finds_what_each_of_them_finds(
    secrets: list[bytes], others: list[bytes], data: st.DataObject
) -> None:
    """However their beginnings are alike."""
    said = b"".join(data.draw(st.permutations([*others, *data.draw(st.lists(st.sampled_from(secrets), max_size=1))])))
    found = re.search(redaction.any_of(sorted(set(secrets))), said)

    assert (found is not None) == any(each in said for each in secrets)


def test_a_digest_that_reads_like_a_secret_is_none(tmp_path: Path) -> None:
    """Of a million messages one has such a digest; the file would never be called clean."""
    home = Home(tmp_path / "home")
    home.say("hello")
    with home.runtime.db.transaction():
        home.runtime.db.execute("UPDATE messages SET digest = ?", (b"\xf16\xb7PW=\xe2u\xaa\xfe,w\xc0",))
    said = list(files.texts_of(home.path))

    assert any("hello" in text for text in said)
    assert not any("PW=" in text for text in said)


def test_it_claims_to_have_searched_what_it_searched(tmp_path: Path) -> None:
    """Raw bytes are compared with the secrets that were taken out; where there were none, only texts were read."""
    home = Home(tmp_path / "home")
    home.say(f"use {SECRETS[2]}")
    first, second = (command.answer("redact apply", home.deps(None, trusted=True)).text for _ in range(2))

    assert "Searched: the bytes of the database" in first
    assert "Searched: all that the database, its log and its payload files unpack to" in second


def test_sessions_that_only_their_secrets_told_apart_stay_apart(tmp_path: Path) -> None:
    """Names are unique: of two that read alike now one has another end, and nothing is left undone."""
    home = Home(tmp_path / "home")
    for secret in SECRETS[:2]:
        home.say("hello", session=f"chat?password={secret}")
    done = [command.answer("redact apply", home.deps(None, trusted=True)) for _ in range(2)]
    names = [name for (name,) in home.runtime.db.query("SELECT session_id FROM sessions ORDER BY 1")]

    assert ([each.code for each in done], [each.data["texts"] > 0 for each in done]) == ([OK, OK], [True, False])
    assert names == ["chat?password=[redacted:password_assignment]", "chat?password=[redacted:password_assignment]_"]


def test_a_redaction_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows lose their secrets in parts. The same command takes out what is left, and everything that was made of it."""
    home = full_home(tmp_path / "home")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(redaction, "reindex", killed)
        patch.setattr(redaction, "_AT_ONCE", 1)
        with pytest.raises(KeyboardInterrupt):
            command.answer("redact apply", home.deps(None, trusted=True))
    answer = command.answer("redact apply", home.deps(None, trusted=True))

    assert answer.data["still_in"] == [], answer.text
    assert not [secret for secret in KEPT if secret.lower() in everything(home).lower()]


def test_backups_that_still_hold_a_secret_are_named(tmp_path: Path) -> None:
    """And exports; they are the operator's to remove. Without them nothing is named."""
    home = full_home(tmp_path / "home")
    named = command.answer("redact apply", home.deps(None, trusted=True)).data["backups_with_secrets"]
    for folder in ("lcm-backups", "lcm-exports"):
        for path in (tmp_path / "home" / folder).iterdir():
            path.unlink()
    again = command.answer("redact apply", home.deps(None, trusted=True)).data

    assert sorted(Path(path).suffix for path in named) == [".jsonl", ".sqlite3"]
    assert (again["messages"], again["texts"], again["backups_with_secrets"]) == (0, 0, [])


def test_messages_are_found_and_known_again_without_their_secrets(tmp_path: Path) -> None:
    """Search finds the other words; the host's list with the secret in it is no new list; the doctor is content."""
    home = full_home(tmp_path / "home")
    live = [row.stored_json for rows in home.runtime.whole_store.row_batches() for row in rows]
    command.answer("redact apply", home.deps(None, trusted=True))
    found = command.answer("search take please", home.deps(None, trusted=True)).data["results"]
    home.close()
    home = Home(tmp_path / "home", sensitive_patterns_enabled="true")
    home.runtime.health.resolved("something")
    count = home.runtime.store.count()
    home.runtime.ingest_list(f"plan for {TOKEN}", [{**message} for message in live], source="cli")

    assert [each["address"] for each in found][:1] == ["msg_8"]
    assert home.runtime.store.count() == count
    assert "FAILED" not in run("doctor deep", home.deps(None, trusted=True))


def test_a_process_that_stored_a_secret_does_not_write_it_again(tmp_path: Path) -> None:
    """The end of a message goes into the index of the next one: as it is stored by then, though it was redacted before."""
    home = Home(tmp_path / "home", sensitive_patterns_enabled="true", sensitive_patterns="github_token")
    home.say("hello", said := f"use {SECRETS[2]} and password: {SECRETS[0]}")
    other = Home(tmp_path / "home")
    other_says = command.answer("redact all apply", other.deps(trusted=True))
    other.close()
    home.say("hello", said, "and something else")
    home.close()

    assert (other_says.code, other_says.data["messages"]) == (OK, 1)
    assert SECRETS[0].encode() not in home.path.read_bytes()


def test_a_long_secret_is_found_across_the_parts_of_a_file(tmp_path: Path) -> None:
    """Files are searched in parts; a secret of any length may begin in one and end in the next."""
    home = Home(tmp_path / "home")
    secret = "".join(chr(97 + n * n % 26) + str(n) for n in range(4_000))
    home.runtime.ingest_list("s1", [{"role": "user", "content": "hello", "extra": {"password": secret}}], source="cli")
    (export := tmp_path / "home" / "lcm-exports" / "notes.bin").parent.mkdir()
    export.write_text("word " * 48_000 + secret)
    answer = command.answer("redact apply", home.deps(trusted=True))

    assert answer.data["backups_with_secrets"] == [str(export)]


def test_redact_shows_first_what_it_would_do(tmp_path: Path) -> None:
    """And changes nothing; in a chat nobody takes out what others said."""
    home = full_home(tmp_path / "home")
    before = home.path.read_bytes()
    shown = run("redact", home.deps(None, trusted=True))
    dry = run("redact apply --dry-run", home.deps(None, trusted=True))
    refused = command.answer("redact apply", home.deps(f"plan for {TOKEN}"))

    assert shown == dry
    assert "`hermes lcm redact apply`" in shown
    assert (refused.code, "at the terminal" in refused.text) == (REFUSED, True)
    assert home.path.read_bytes() == before


def test_a_preview_counts_what_apply_takes_out(tmp_path: Path) -> None:
    """In rows, a payload file, a summary, an archive, a name and a note."""
    deps = full_home(tmp_path / "home").deps(None, trusted=True)
    shown = command.answer("redact", deps)
    done = command.answer("redact apply", deps)

    assert {name: shown.data[name] for name in ("secrets", "messages", "texts")} == {
        name: done.data[name] for name in ("secrets", "messages", "texts")
    }
    assert done.text.splitlines()[0].replace(" taken out", " would be taken out") in shown.text


def test_what_is_said_of_several_backups_is_said_once(tmp_path: Path) -> None:
    """The sentence, and a line for each."""
    home = full_home(tmp_path / "home")
    home.now += 60
    run("backup", home.deps(None, trusted=True))
    answer = command.answer("redact apply", home.deps(None, trusted=True))
    named = answer.data["backups_with_secrets"]

    assert len(named) == 3
    assert answer.text.lower().count("when you need") == 1
    assert all(f"\n  {path}" in answer.text for path in named)


def test_files_are_searched_while_this_process_has_the_database_closed(tmp_path: Path) -> None:
    """Who opens and closes a file drops all locks that the process has on it."""
    home = full_home(tmp_path / "home")
    deps, opened = home.deps(None, trusted=True), list[bool]()

    def looks(what: str, _done: int, _total: int) -> None:
        if what == "searching files":
            opened.append(deps.db.is_open)

    redaction.apply(deps, (), looks)

    assert set(opened) == {False}


def test_an_archive_of_backups_that_still_holds_a_secret_is_named(tmp_path: Path) -> None:
    """In its database, or in a payload file; all of that is packed, so its bytes do not show it."""
    home = Home(tmp_path / "home")
    home.say("hello", f"the token is {SECRETS[2]} " + "and the same words come again " * 100)
    home.runtime.store.packer.pack(newest=0, least_bytes=1)
    in_database = backup.back_up(home.deps(), with_files=True).path
    home.runtime.payloads.keep(f"in a file: {SECRETS[2]} " + "and the same words come again " * 100, "text", "")
    home.now += 60
    both = backup.back_up(home.deps(), with_files=True).path
    answer = command.answer("redact apply", home.deps(trusted=True))

    assert SECRETS[2].encode() not in in_database.read_bytes()
    assert answer.data["backups_with_secrets"] == [str(in_database), str(both)]
    assert not list(in_database.parent.glob(".*"))


@pytest.mark.parametrize("end", [".sqlite3", ".tar"])
def test_a_backup_that_cannot_be_read_is_named(tmp_path: Path, end: str) -> None:
    """Nobody can say that it holds no secret."""
    home = Home(tmp_path / "home")
    home.say("hello", f"the token is {SECRETS[2]}")
    made = backup.back_up(home.deps(), with_files=end == ".tar").path
    made.write_bytes(b"damaged" * 1000)
    answer = command.answer("redact apply", home.deps(trusted=True))

    assert (answer.code, answer.data["unreadable"]) == (FOUND, [str(made)])
    assert f"Remove them when you need them no more:\n  {made}" in answer.text


def test_a_redaction_waits_for_a_file_that_is_not_merged(tmp_path: Path) -> None:
    """It would bring the secrets back."""
    home = Home(tmp_path / "home")
    home.say("hello", f"the token is {SECRETS[2]}")
    home.path.with_name("lcm.standby-20260101-000000-1-99999.db").touch()
    answer = command.answer("redact apply", home.deps(trusted=True))

    assert answer.code == REFUSED
    assert "waits to be merged" in answer.text


def test_who_says_a_secret_as_other_words_is_named(tmp_path: Path) -> None:
    """Nothing shows there that it is one, so it stays; the file still holds it."""
    home = Home(tmp_path / "home")
    home.say(f"password={SECRETS[0]}", f"our cat is called {SECRETS[0].title()} by all")
    answer = command.answer("redact apply", home.deps(trusted=True))

    assert (answer.code, answer.data["said_in"]) == (FOUND, ["msg_2"])
    assert answer.data["still_in"] == [str(home.path)]
    assert "`hermes lcm purge` removes such: msg_2" in answer.text


@pytest.mark.parametrize(("words", "solved"), [("", True), ("all", True), ("jwt", False)])
def test_a_stored_secret_that_was_taken_out_is_no_problem_any_more(words: str, solved: bool, tmp_path: Path) -> None:
    """Of one kind only, others may be left."""
    home = Home(tmp_path / "home")
    home.say(f"use {SECRETS[2]}")
    home.runtime.health.degraded(STORED_SECRETS, "a message that was stored holds a secret")
    command.answer(f"redact {words} apply", home.deps(None, trusted=True))

    assert bool([each for each in home.runtime.health.problems() if each.topic == STORED_SECRETS]) != solved
