"""What lcm_status says, how fast, and that asking changes nothing."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from worlds import linear
from worlds.home import ROOT, Home, digest

from hermes_lcm.archive.ranges import ARCHIVED, RESTORED, Archive
from hermes_lcm.command import FOUND, OK, answer, run
from hermes_lcm.config import KNOBS
from hermes_lcm.ops import presets, render
from hermes_lcm.ops import status as status_module
from hermes_lcm.ops import survey as inside_module
from hermes_lcm.ops.render import status_text
from hermes_lcm.ops.status import status

FIELDS = (
    *(
        "session_id",
        "context_length",
        "threshold_tokens",
        "prompt_pressure",
        "compression_count",
        "store",
        "dag",
        "config",
    ),
    *("session_filters", "source_lineage", "lifecycle", "last_rotate_at", "rotate_backup_path", "preset_suggestion"),
    *(
        "plugin_path",
        "plugin_git_commit",
        "plugin_git_branch",
        "plugin_git_dirty",
        "sensitive_patterns",
        "disk",
        "problems",
    ),
    *("disabled_features", "refused_settings", "database", "background", "summary_routes", "summary_spend", "host"),
)


@pytest.mark.few(10)
@pytest.mark.parametrize("name", FIELDS)
def test_the_status_has_every_documented_field(name: str, world: Home) -> None:
    """Dashboards read it without scraping text."""
    assert name in status(world.deps())


def test_a_summary_model_that_rests_is_named_with_its_reason_until_it_is_asked_again(world: Home) -> None:
    """Extracts stand in meanwhile. A chat is not told: what failed may have been another's."""
    state = {"gpt": {"failures": 2, "retry_at": world.now + 60, "reason": "rate limit or quota (429)"}}
    world.runtime.sessions.open("chat", now=1.0, platform="telegram", host_key="agent:main:telegram:dm:7")
    told = [status_text(status(world.deps(session, breaker=state))) for session in ("s1", "chat")]
    world.now += 61

    assert ["429" in text for text in (*told, status_text(status(world.deps(breaker=state))))] == [True, False, False]


def test_numbers_are_those_of_the_session(world: Home) -> None:
    """Rows and nodes of this session, and of the whole archive beside them."""
    world.say("another", "one", session="s2")
    said = status(world.deps())

    assert said["store"] == {"total_messages": 102, "conversation_messages": 100, "session_messages": 100}
    assert said["dag"]["by_depth"] == {"0": {"verified": 1}}
    assert said["dag"]["total_nodes"] == 1


def test_a_chat_counts_what_belongs_to_its_partner(world: Home) -> None:
    """How much others have said is theirs; whoever sits at the machine counts everything."""
    chat = {"platform": "telegram", "host_key": "agent:main:telegram:dm:7"}
    world.runtime.sessions.open("chat", now=1.0, **chat)
    world.say("hello", "there", "again", session="chat")
    parent = world.runtime.sessions.find("chat")
    branch = world.runtime.sessions.open("aside", now=2.0, parent=parent, origin="branch", fork_seq=3)
    world.say("hello", "there", "again", "one more", session="aside")
    said = status(world.deps("chat"))

    assert branch.principal == "telegram:dm:7"
    assert said["store"]["total_messages"] == 4
    assert said["dag"]["total_nodes"] == 0
    assert status(world.deps("chat", trusted=True))["store"]["total_messages"] == 104
    assert status(world.deps("s1"))["dag"]["total_nodes"] == 1


def test_a_chat_is_told_nothing_of_the_disk(world: Home) -> None:
    """A line without a value says nothing."""
    world.runtime.sessions.open("chat", now=1.0, platform="telegram", host_key="agent:main:telegram:dm:7")
    world.say("hello", session="chat")
    told = [
        bool(re.search(r"^\s+disk\b", status_text(status(world.deps("chat", trusted=trusted))), re.MULTILINE))
        for trusted in (True, False)
    ]

    assert told == [True, False]


@pytest.mark.parametrize(("threshold", "late"), [(199_999, False), (200_000, True), (300_000, True)])
def test_a_threshold_that_is_not_below_the_window_is_told_beside_it(world: Home, threshold: int, late: bool) -> None:
    """The doctor says it, too; who never asks the doctor reads it in the status."""
    said = status_text(status(world.deps(threshold_tokens=threshold)))

    line = next(line for line in said.splitlines() if line.strip().startswith("threshold"))
    assert ("not below the window: compaction begins only when it is full" in line) is late


def test_pressure_is_measured_against_window_and_threshold(world: Home) -> None:
    """150,000 of 200,000 tokens is the default threshold exactly."""
    said = status(world.deps(last_prompt_tokens=150_000))

    assert said["prompt_pressure"] == {"of_context": 0.75, "of_threshold": 1.0}


def test_an_unknown_window_is_said_in_words(world: Home) -> None:
    """The host reported 0: what is assumed instead, and what to do."""
    said = status(world.deps(context_length=0, fallback_context=True))

    assert said["context_length_note"] == "unknown; using 128,000 (set model.context_length)"
    assert said["problems"][0]["message"] == said["context_length_note"]
    assert said["effective_context_length"] == 128_000


def test_every_setting_is_shown(world: Home) -> None:
    """With its value; with its source when it is not a default."""
    said = status(world.deps())

    assert set(said["config"]) == set(KNOBS)
    assert said["config_sources"] == {"doctor_clean_apply_enabled": "env"}


def test_refused_settings_are_shown(tmp_path: Path) -> None:
    """A setting that does nothing is no riddle."""
    said = status(Home(tmp_path, fresh_tail_count="many").deps())

    assert "LCM_FRESH_TAIL_COUNT='many'" in said["refused_settings"][0]
    assert status_text(said).count("LCM_FRESH_TAIL_COUNT='many'") == 1


def test_filters_say_where_they_come_from(tmp_path: Path) -> None:
    """Operators confirm that their patterns are loaded."""
    world = Home(tmp_path, ignore_session_patterns="cron:*")
    world.runtime.health.counters["ignored_messages"] = 3
    filters = status(world.deps(None, trusted=True))["session_filters"]

    assert filters["ignore_session_patterns"] == ["cron:*"]
    assert filters["ignore_session_patterns_source"] == "env"
    assert filters["stateless_session_patterns_source"] == "default"
    assert (filters["ignored"], filters["stateless"], filters["ignored_message_count"]) == (False, False, 3)


def test_problems_carry_their_remedy(world: Home) -> None:
    """What was survived is shown until it is resolved."""
    world.runtime.health.degraded("ingest", "disk full", remedy="free disk space")
    said = status(world.deps())["problems"]

    assert [(each["topic"], each["remedy"]) for each in said] == [("ingest", "free disk space")]


@pytest.mark.parametrize(("severity", "code"), [("error", FOUND), ("warning", OK)])
def test_a_promise_at_risk_is_told_by_the_code(world: Home, severity: str, code: int) -> None:
    """As by the doctor's: an error that is not resolved, and no warning."""
    world.runtime.health.degraded("ingest", "disk full", severity=severity)
    said = answer("status", world.deps("s1", trusted=True)), answer("doctor", world.deps("s1", trusted=True))

    assert [each.code for each in said] == [code, code]


def test_problems_come_before_the_figures(world: Home) -> None:
    """Behind the sentence about the archive, so that nobody scrolls for them."""
    world.runtime.health.degraded("ingest", "disk full", remedy="free disk space")
    lines = status_text(status(replace(world.deps(), trusted=True))).splitlines()

    assert lines.index("Problems") < lines.index("Session") < lines.index("Stored")
    assert "conversation" in lines[1]


def test_before_the_first_message_the_status_says_what_to_do(tmp_path: Path) -> None:
    """An empty archive is no fault, and must not read like one."""
    text = status_text(status(Home(tmp_path).idle()))

    assert "Nothing is stored yet: send a message." in text
    assert "uninitialized" not in text


def test_the_status_begins_with_the_archive(world: Home) -> None:
    """The newest session may be an import or a single word."""
    first = status_text(status(replace(world.deps(), trusted=True))).splitlines()[1]

    assert re.fullmatch(r"  1 conversation, 1 session, \d+ messages, \d+ summar(y|ies); since \d{4}-\d\d-\d\d", first)


@pytest.mark.parametrize(("sessions", "said"), [(1, False), (2, True)])
def test_the_cost_of_several_sessions_is_not_shown_as_that_of_one(sessions: int, said: bool, world: Home) -> None:
    """An operator's sum is that of the whole archive; the lines around it are about one session."""
    data = status(world.deps())
    data |= {
        "cost_today": {"requests": 1, "line": "$0.100 for 1 request"},
        "archive": {**data["archive"], "sessions": sessions},
    }

    assert ("all sessions together" in status_text(data)) == said


def test_sources_of_a_part_say_so(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest messages are looked at; the number beside a source is not that of all."""
    whole = status_text(status(world.deps()))
    monkeypatch.setattr(status_module, "_SOURCE_ROWS", 3)

    assert re.search(r"sources +cli \d+$", whole, re.MULTILINE)
    assert re.search(r"sources +cli 3 \(of the newest 3\)$", status_text(status(world.deps())), re.MULTILINE)


def test_asking_creates_no_file(tmp_path: Path) -> None:
    """A status on an empty home leaves it empty."""
    status(Home(tmp_path).idle())

    assert list(tmp_path.iterdir()) == []


def test_asking_changes_no_file(world: Home) -> None:
    """Neither the database nor its log, proven by hash."""
    files = (world.path, Path(f"{world.path}-wal"))
    before = digest(*files)
    status(world.deps())

    assert digest(*files) == before


def test_the_text_names_what_is_not_a_default(world: Home) -> None:
    """People read thirty lines, not forty settings."""
    text = status_text(status(world.deps()))

    assert "doctor_clean_apply_enabled" in text
    assert "fresh_tail_count" not in text


def test_spend_is_counted_from_the_guards_buckets(world: Home) -> None:
    """Calls and tokens of the window, its limits for all and for one chat, and how many chats reached theirs."""
    spend = {
        "width": 60.0,
        "buckets": {"1": [2, 300], "2": [1, 50]},
        "chats": {"1": {"a": 499, "b": 499}, "2": {"a": 1}},
    }
    said = status(world.deps(spend=spend))["summary_spend"]

    assert said == {
        "calls": 3, "tokens": 350, "max_calls": 5000, "max_calls_of_a_chat": 500, "chats_at_their_limit": 1,
        "window_seconds": 3600,
    }  # fmt: skip


def test_a_folder_with_very_many_files_is_not_read_to_its_end(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status costs the same whatever lies beside the database; it says where it stopped."""
    monkeypatch.setattr(status_module, "_MOST_FILES", 5)
    folder = world.home / "lcm-exports"
    folder.mkdir()
    for n in range(9):
        (folder / f"{n}.jsonl").write_bytes(b"x" * 1000)
    said = answer("status", world.deps())

    assert said.data["disk"]["at_least"] == ["exports"]
    assert 1000 <= said.data["disk"]["exports"] <= 5000
    assert re.search(r"exports at least \d\.0 kB", said.text)
    assert answer("doctor", world.deps()).code == 0


@pytest.mark.slow
def test_a_million_rows_cost_the_same(tmp_path: Path) -> None:
    """Nothing in the status counts a big table. (In milliseconds: benchmarks/operators.py.)"""
    world = Home(tmp_path)
    world.say("first", "second")
    world.raw(
        "WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) "
        "INSERT INTO messages(conversation_id, session_key, seq, pos, role, digest, tokens, chars, stored_at, source, envelope) "
        "SELECT 1, 1, i, i, 'user', x'00', 10, 400, 0, 'cli', zeroblob(400) FROM n"
    )
    small = Home(tmp_path / "small")
    small.say("first", "second")
    least = {}
    for each in (small, world):
        status(each.deps())
        least[each] = linear.least(lambda each=each: status(each.deps()), 30)

    assert status(world.deps())["store"]["total_messages"] == 1_000_000
    assert least[world] < 4 * least[small]


def test_archives_of_the_conversation_are_counted(world: Home) -> None:
    """What the agent archived, and what it restored; the text has a line for them when there are any."""
    before = status(world.deps())
    session = world.runtime.find_session("s1")
    assert session is not None
    where = session.conversation_id
    for n, state in enumerate((ARCHIVED, ARCHIVED, RESTORED)):
        world.runtime.archives.add(
            Archive(0, f"mem://s1/{n}", where, "s1", (n + 1,), n, n, 1, "", False, "", 5, 2, ARCHIVED, 1.0, 1.0)
        )
        world.runtime.archives.change([world.runtime.archives.of(session)[-1].archive_id], state, now=2.0)
    said = status(world.deps())

    assert before["archives"] == {"archived": 0, "restored": 0}
    assert not re.search(r"^ +archives ", render.status_text(before), re.MULTILINE)
    assert said["archives"] == {"archived": 2, "restored": 1}
    assert re.search(r"\n +archives +2 archived, 1 restored", render.status_text(said))


# -- words ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("count", "thing", "said"),
    [
        (1, "message", "1 message"),
        (0, "session", "0 sessions"),
        (2, "summary", "2 summaries"),
        (1234, "row", "1,234 rows"),
    ],
)
def test_one_thing_is_no_plural(count: int, thing: str, said: str) -> None:
    assert render.counted(count, thing) == said


def test_answers_about_one_message_say_message(tmp_path: Path) -> None:
    """In every verb that counts what is stored."""
    world = Home(tmp_path)
    world.say("hello")
    said = "\n".join(
        run(words, world.deps()) for words in ("doctor retention", "doctor deep", "backup", "explain msg_1")
    )

    assert "1 message" in said
    assert not re.findall(r"(?<![\d,.])1 (?:messages|sessions|summaries|files|rows|compactions|warnings|calls)\b", said)


def test_the_text_says_what_a_session_is(world: Home) -> None:
    """How it began, what is done with it, and whether it has ended."""
    said = render.status_text(status(world.deps()))

    assert "active; stored and summarised; new conversation" in said


def test_a_session_that_ended_without_a_summary_is_stored_only(world: Home) -> None:
    """One that has a summary is stored and summarised."""
    world.say("hello", "there", session="short")
    for session in ("s1", "short"):
        world.runtime.sessions.end(session, now=9.0, reason="exit")
    said = {session: render.status_text(status(world.deps(session))) for session in ("s1", "short")}

    assert "ended; stored and summarised; new conversation" in said["s1"]
    assert "ended; stored; new conversation" in said["short"]


def test_the_text_names_an_unknown_window_once(world: Home) -> None:
    """In words, with the way out, in its row and as a problem."""
    said = render.status_text(status(world.deps(context_length=0, fallback_context=True)))

    words = r"unknown; using 128,000 \(set model.context_length\)"
    assert re.search(rf"context window +{words}", said)
    assert re.search(rf"warning: context window: {words}", said)


# -- presets -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("window", "expected"),
    [(0, None), (128_000, None), (272_000, "codex_gpt_long_context"), (1_000_000, "large_window_balanced")],
    ids=str,
)
def test_a_preset_is_suggested_by_the_window(window: int, expected: str | None, world: Home) -> None:
    """And none where the defaults fit or the window is unknown."""
    assert status(world.deps(context_length=window))["preset_suggestion"]["preset"] == expected


def test_a_suggestion_respects_what_the_operator_set(tmp_path: Path) -> None:
    """Explicit values stay, refused ones are named, and only the rest would change."""
    config = Home(tmp_path, fresh_tail_count="100", leaf_chunk_tokens="lots").config
    said = presets.suggestion(config, context_length=272_000)

    assert said["kept_because_you_set_them"]["LCM_FRESH_TAIL_COUNT"]["value"] == 100
    assert "LCM_LEAF_CHUNK_TOKENS" in said["invalid_settings"]
    assert "LCM_FRESH_TAIL_COUNT" not in said["would_change"]


@pytest.mark.parametrize("preset", presets.PRESETS, ids=lambda preset: preset.name)
def test_what_a_preset_quotes_is_what_was_measured(preset: presets.Preset) -> None:
    """Its row and the one of the defaults, from the raw file of the benchmark."""
    raw = json.loads((ROOT / "benchmarks" / "results" / "presets.json").read_text(encoding="utf-8"))
    table = next(each for each in raw["tables"] if preset.name in [row[0] for row in each["rows"]])
    rows = {row[0]: dict(zip(table["columns"][1:], row[1:], strict=True)) for row in table["rows"]}

    assert not raw["quick"]
    found = [dict(zip(presets.FIGURES, each, strict=True)) for each in (preset.measured, preset.defaults_measured)]
    assert found == [rows[preset.name], rows["defaults"]]


@pytest.mark.parametrize("preset", presets.PRESETS, ids=lambda preset: preset.name)
def test_the_tuning_page_quotes_the_same(preset: presets.Preset) -> None:
    """Its table of presets has their rows and those of the defaults."""
    page = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    for name, each in ((f"`{preset.name}`", preset.measured), ("defaults", preset.defaults_measured)):
        measured = dict(zip(presets.FIGURES, each, strict=True))
        shown = ("compactions", "largest_request", "mean_request", "summaries_written", "newest_raw_messages")
        assert f"| {name} | {' | '.join(f'{measured[each]:,}' for each in shown)} |" in page


def test_a_suggestion_without_a_known_model_says_so(world: Home) -> None:
    """The window alone does not tell which family a preset was measured with."""
    assert status(world.deps(context_length=272_000))["preset_suggestion"]["match"] == "context-only"
    assert status(world.deps(context_length=272_000, model="gpt-5-codex"))["preset_suggestion"]["match"] == "model"


# -- which commit --------------------------------------------------------------------------------------
def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    call = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "trunk")
    (folder / "file.txt").write_text("one\n")
    git(folder, "add", "file.txt")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def test_the_commit_is_read_without_git(checkout: Path) -> None:
    """Commit, branch, and no local changes."""
    head = git(checkout, "rev-parse", "HEAD")
    assert status_module.identity(checkout) == {"commit": head, "branch": "trunk", "dirty": False}


def test_packed_refs_and_detached_heads_are_read(checkout: Path) -> None:
    """A fresh clone packs its refs; a bisect has no branch."""
    commit = git(checkout, "rev-parse", "HEAD")
    git(checkout, "pack-refs", "--all")
    assert status_module.identity(checkout)["commit"] == commit
    git(checkout, "checkout", "-q", "--detach")
    assert status_module.identity(checkout) == {"commit": commit, "branch": None, "dirty": False}


def test_a_changed_file_makes_a_checkout_dirty(checkout: Path) -> None:
    """Same length or not; and touching it alone does not."""
    path = checkout / "file.txt"
    path.write_text("two\n")
    assert status_module.identity(checkout)["dirty"] is True
    path.write_text("one\n")
    assert status_module.identity(checkout)["dirty"] is False
    path.unlink()
    assert status_module.identity(checkout)["dirty"] is True


def test_a_worktree_is_followed(checkout: Path, tmp_path: Path) -> None:
    """Its .git is a file that names the folder."""
    git(checkout, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))

    assert status_module.identity(tmp_path / "side")["branch"] == "side"
    assert status_module.identity(tmp_path / "side")["commit"] == git(checkout, "rev-parse", "HEAD")


def test_no_checkout_is_no_error(tmp_path: Path) -> None:
    """An installed package has no .git."""
    assert status_module.identity(tmp_path) == {"commit": None, "branch": None, "dirty": None}


def test_the_version_is_the_manifests(world: Home) -> None:
    """plugin.yaml and the status never disagree."""
    assert f"version: {status(world.deps())['plugin_version']}" in (ROOT / "plugin.yaml").read_text()


@pytest.fixture
def filled(world: Home) -> Home:
    """Messages, packed and not, and pages that nothing uses."""
    world.say(*(f"note {n}: the lighthouse number {n * 7} answers with code {n * n}" for n in range(800)))
    with world.runtime.db.transaction():
        world.runtime.db.execute("CREATE TABLE scratch(x)")
        world.runtime.db.execute("INSERT INTO scratch VALUES (zeroblob(50000))")
        world.runtime.db.execute("DROP TABLE scratch")
    return world


def test_what_fills_the_database_adds_up_to_the_file(filled: Home) -> None:
    """Every page belongs to exactly one kind."""
    parts = answer("status deep", filled.deps()).data["inside_database"]
    pages = filled.runtime.db.query("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0][0]

    # the lock page and the pages that say where pages lie belong to SQLite alone
    assert 0 <= pages - sum(parts.values()) <= 0.01 * pages + 1024
    assert all(parts[kind] > 0 for kind in ("messages", "message_columns", "message_indexes", "search_index", "other"))
    assert parts["free_pages"] >= 48_000


def test_packing_shows_in_what_fills_the_database(filled: Home) -> None:
    """Stored JSON leave the rows for blocks."""
    before = answer("status deep", filled.deps()).data["inside_database"]
    filled.runtime.ended()
    after = answer("status deep", filled.deps()).data["inside_database"]

    assert before["messages"] > 0
    assert after["messages"] < before["messages"] * 0.1
    assert after["message_blocks"] > before["message_blocks"]
    assert after["free_pages"] < before["free_pages"]


def test_the_plain_status_looks_at_no_page(filled: Home) -> None:
    """It names the free ones, which SQLite counts anyway; the rest is asked for with deep."""
    said = answer("status", filled.deps())

    assert said.data["disk"]["free_pages"] >= 48_000
    assert re.search(r"free pages \d", said.text)
    assert "inside_database" not in said.data
    assert "inside the database" in answer("status deep", filled.deps()).text


def test_the_deep_doctor_says_what_fills_the_database(filled: Home) -> None:
    """Beside the sizes of the files."""
    plain, deep = (
        next(each for each in answer(verb, filled.deps()).data["checks"] if each["check"] == "sizes")
        for verb in ("doctor", "doctor deep")
    )

    assert "inside_database" not in plain["data"]
    assert deep["data"]["inside_database"]["search_index"] > 0


def test_a_sqlite_that_cannot_look_into_the_file_says_so(filled: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some builds have no dbstat; everything else of the status is there."""
    monkeypatch.setattr(inside_module, "_PAGES", "SELECT name FROM dbstat_that_is_not_there")
    monkeypatch.setattr(inside_module, "_MISSING", "no such table: dbstat_that_is_not_there")
    said = answer("status deep", filled.deps())

    assert "no dbstat" in said.data["inside_database"]
    assert said.data["database"]["state"] == "ready"
