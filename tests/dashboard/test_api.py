"""The data of the tab: pages, what the setting permits, and that looking comes before doing."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worlds.earlier import EarlierPlugin, talk
from worlds.home import Home, healthy
from worlds.process import Chat
from worlds.process import World as Compacting

from hermes_lcm.command import VERBS, Verb
from hermes_lcm.compaction.background import FOLDS
from hermes_lcm.dashboard import api
from hermes_lcm.dashboard.conversation import BUCKETS
from hermes_lcm.ops.journal import note

ROOT = Path(__file__).resolve().parents[2]
LOOKS: dict[str, dict[str, str]] = {
    "about": {},
    "now": {},
    "sessions": {},
    "graph": {},
    "messages": {"from": "0", "to": "100"},
    "node": {"id": "1"},
    "prompts": {},
    "prompt": {},
    "compare": {"a": "1", "b": "1"},
    "exam": {"ask": "1"},
    "ledger": {},
    "settings": {},
    "verbs": {},
    "journal": {},
}
TEXTS: dict[str, dict[str, str]] = {"message": {"id": "3"}, "search": {"query": "zebra"}}


def ask(page: str, *, shared: bool = False, **given: Any) -> dict[str, Any]:
    """A page that must answer."""
    status, text = api.answer(page, given, shared=shared)
    assert status == 200, text
    return dict(json.loads(text))


@pytest.fixture
def archive(hermes_home: Path) -> Iterator[Home]:
    """A hundred messages about zebras, and a summary over ten of them."""
    world = healthy(hermes_home)
    world.close()
    yield world
    world.close()


def test_the_first_page_counts_to_the_compaction_that_is_planned(archive: Home, hermes_home: Path) -> None:
    """It may come before the threshold, where that is cheaper."""
    (hermes_home / "config.yaml").write_text(
        "model:\n  default: scripted\n  context_length: 128000\n", encoding="utf-8"
    )
    shown = ask("now")
    threshold, used, session = shown["threshold_tokens"], shown["window"]["used"], shown["session_id"]
    archive.runtime.health.keep({FOLDS: {session: [threshold // 2, 0.1, "cheaper now", threshold, 1.5]}})
    archive.close()

    assert shown["next"]["left"] == threshold - used
    assert ask("now")["next"]["left"] == threshold // 2 - used


@pytest.mark.parametrize(("page", "given"), [*LOOKS.items(), *TEXTS.items()])
def test_every_page_answers(archive: Home, page: str, given: dict[str, str]) -> None:
    """Nothing is missing from this list either."""
    assert ask(page, **given)
    assert set(api.PAGES) == {*LOOKS, *TEXTS, "run"}


# -- what may be shown -------------------------------------------------------------------------------------------------
def test_off_shows_nothing_and_says_how_to_switch_it_on(archive: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even whether something is stored."""
    monkeypatch.setenv("LCM_DASHBOARD", "off")
    answers = [api.answer(page, {"words": "status"}) for page in api.PAGES]

    assert {status for status, _ in answers} == {403}
    assert all("LCM_DASHBOARD=off" in text for _, text in answers)


@pytest.mark.parametrize(("page", "given"), LOOKS.items())
def test_metadata_shows_no_word_that_was_said(
    archive: Home, monkeypatch: pytest.MonkeyPatch, page: str, given: dict[str, str]
) -> None:
    """Every message says zebra."""
    monkeypatch.setenv("LCM_DASHBOARD", "metadata")

    assert "zebra" not in json.dumps(ask(page, **given))


@pytest.mark.parametrize(("page", "given"), TEXTS.items())
def test_metadata_refuses_pages_that_are_texts(
    archive: Home, monkeypatch: pytest.MonkeyPatch, page: str, given: dict[str, str]
) -> None:
    """With the way out."""
    monkeypatch.setenv("LCM_DASHBOARD", "metadata")
    status, text = api.answer(page, given)

    assert (status, "dashboard: full" in text) == (403, True)


def test_metadata_runs_no_verb_that_shows_or_does_something(archive: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """`show` would show; `dissolve ... undo` would do."""
    monkeypatch.setenv("LCM_DASHBOARD", "metadata")
    dry = ask("run", words="dissolve sum_1")
    tries = [
        {"words": "show msg_1"},
        {"words": "dissolve sum_1 undo"},
        {"words": "dissolve sum_1", "apply": True, "seen": dry["seen"]},
    ]

    assert [api.answer("run", each)[0] for each in tries] == [403, 403, 403]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_metadata_lets_no_verb_tell_what_was_said(archive: Home, monkeypatch: pytest.MonkeyPatch, verb: Verb) -> None:
    """A verb that is new tells nothing until somebody lists it."""
    monkeypatch.setenv("LCM_DASHBOARD", "metadata")
    _, text = api.answer("run", {"words": f"{verb.name} {verb.example}".strip()})

    assert "zebra" not in text


def test_metadata_quotes_nothing_that_an_operator_typed(archive: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of a verb, and what was refused of a setting that may name somebody."""
    note(archive.runtime.db, "ledger correct 1.ab the zebra is white", "corrected: the zebra is white", now=1.0)
    (archive.home / "config.yaml").write_text(
        "lcm:\n  ignore_session_patterns: {zebra: 1}\n  leaf_chunk_tokens: many\n"
    )
    archive.close()
    shown = json.dumps([ask("journal"), ask("settings"), ask("now")])
    monkeypatch.setenv("LCM_DASHBOARD", "metadata")
    figures = json.dumps([ask("journal"), ask("settings"), ask("now")])

    assert (shown.count("zebra is white"), "zebra: 1" in shown.replace("'", "")) == (2, True)
    assert ("zebra" in figures, "many" in figures) == (False, True)


def test_behind_a_login_texts_are_shown_only_where_somebody_said_so(
    archive: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others than the operator may have a login."""
    before = ask("about", shared=True)["mode"]
    monkeypatch.setenv("LCM_DASHBOARD", "full")

    assert (before, ask("about", shared=True)["mode"]) == ("metadata", "full")


# -- looking, then doing -----------------------------------------------------------------------------------------------
def test_a_change_is_done_as_it_was_shown_and_noted(archive: Home) -> None:
    """Dry run, then the same words with its digest."""
    dry = ask("run", words="dissolve sum_1")
    untouched = ask("node", id="1")["dissolved"]
    done = ask("run", words="dissolve sum_1", apply=True, seen=dry["seen"])

    assert (dry["applied"], untouched, done["applied"], ask("node", id="1")["dissolved"]) == (False, False, True, True)
    assert [each["words"] for each in ask("journal")["entries"]] == ["dissolve sum_1 apply"]


@pytest.mark.parametrize(
    "given",
    [
        {"words": "dissolve sum_1", "apply": True},
        {"words": "dissolve sum_1", "apply": True, "seen": "of something else"},
        {"words": "dissolve sum_1 apply"},
        {"words": "status", "apply": True},
        {"words": "dissolv sum_1"},
        {"words": ""},
    ],
)
def test_nothing_is_done_that_was_not_shown(archive: Home, given: dict[str, Any]) -> None:
    """Refused, in words."""
    status, text = api.answer("run", given)
    if given.get("apply") and given["words"] == "status":
        given["seen"] = ask("run", words="status")["seen"]

    assert (status, api.answer("run", given)[0]) == (400, 400)
    assert json.loads(text)["error"]
    assert ask("node", id="1")["dissolved"] is False


@pytest.mark.parametrize(
    ("words", "taken_back"), [("pin msg_3", "pin msg_3 undo"), ("ledger strike {entry}", "ledger clear {entry}")]
)
def test_small_changes_are_shown_first_too(hermes_home: Path, words: str, taken_back: str) -> None:
    """The first answer is a dry run; each that is done stands in the journal."""
    world = Home(hermes_home)
    world.say("Always answer briefly.", "yes", "Our budget is $400.")
    world.close()
    entry = ask("ledger")["entries"][-1]["entry"]
    for typed in (words.format(entry=entry), taken_back.format(entry=entry)):
        before = (ask("ledger")["marks"], ask("run", words="pin")["text"])
        dry = ask("run", words=typed)
        untouched = (ask("ledger")["marks"], ask("run", words="pin")["text"])
        done = ask("run", words=typed, apply=True, seen=dry["seen"])

        assert (dry["applied"], dry["changes"], done["applied"]) == (False, True, True)
        assert before == untouched != (ask("ledger")["marks"], ask("run", words="pin")["text"])
    assert len(ask("journal")["entries"]) == 2


def test_the_exam_is_held_when_asked_and_its_grade_stays(archive: Home) -> None:
    """Opening the page asks nothing; figures alone say no question."""
    assert ask("exam") == {"asked": False}
    held = ask("exam", ask="1")

    assert held["probes"]
    assert ask("exam")["all"] == held["all"]


def test_the_ledger_is_filtered_and_comes_in_pages(hermes_home: Path) -> None:
    """By kind and by words; struck entries come last."""
    world = Home(hermes_home)
    world.say("Always answer briefly.", "ok", "Our budget is $400.", "ok", "Never push to main.")
    world.close()
    rule = ask("ledger", kind="rule", about="briefly")["entries"][0]["entry"]
    dry = ask("run", words=f"ledger strike {rule}")
    ask("run", words=f"ledger strike {rule}", apply=True, seen=dry["seen"])
    page = ask("ledger", limit="2")

    assert (page["total"], page["more"], len(page["entries"])) == (3, True, 2)
    assert [each["entry"] for each in ask("ledger", limit="2", offset="2")["entries"]] == [rule]
    assert page["kinds"] == {"rule": 2, "value": 1}


def test_verbs_speak_as_at_the_terminal(archive: Home) -> None:
    """The same words, commands included."""
    said = ask("run", words="doctor retention")["text"]

    assert "100 messages" in said
    assert "`/lcm" not in ask("run", words="dissolve sum_1")["text"]


# -- pages -------------------------------------------------------------------------------------------------------------
def test_an_empty_home_says_what_to_do(hermes_home: Path) -> None:
    """And looking makes no database."""
    assert ask("about")["stored"] is False
    assert ask("now")["window"] is None
    assert ask("sessions")["sessions"] == []
    assert "the first message" in json.loads(api.answer("graph", {})[1])["error"]
    assert list(hermes_home.glob("lcm.db*")) == []


@pytest.mark.parametrize("engine", ["lcm", "compressor"])
def test_the_first_page_knows_which_engine_hermes_uses(hermes_home: Path, engine: str) -> None:
    """Where it is another one, the tab says that nothing new is stored, and how that ends."""
    (hermes_home / "config.yaml").write_text(f"context:\n  engine: {engine}\n", encoding="utf-8")

    assert ask("now")["engine"] == engine


def test_a_file_of_the_earlier_plugin_is_no_failure(hermes_home: Path) -> None:
    """The first page says how many messages are to be taken over; nothing is wrong, and nothing is written."""
    plugin = EarlierPlugin(hermes_home)
    plugin.store("s1", talk(6))
    plugin.close()
    said = ask("now")

    assert (said["database"]["state"], said["database"]["messages"], said["problems"]) == ("earlier", 6, [])
    assert json.loads(api.answer("graph", {})[1])["remedy"].startswith("its messages are taken over")
    assert [path.name for path in hermes_home.glob("lcm.db*")] == ["lcm.db"]


def test_profiles_have_archives_of_their_own(archive: Home, hermes_home: Path) -> None:
    """The host's way to name them."""
    (hermes_home / "profiles" / "work").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hermes_cli.profiles.get_profile_dir", lambda name: hermes_home / "profiles" / name)
        there = ask("about", profile="work")

    assert (there["home"], there["stored"]) == (str(hermes_home / "profiles" / "work"), False)
    assert ask("about")["home"] == str(hermes_home)
    assert api.answer("about", {"profile": "../../etc"})[0] == 404
    assert api.answer("about", {"profile": "nobody"})[0] == 404


def test_lists_come_in_pages(archive: Home) -> None:
    """Each says whether there is more."""
    sources = ask("node", id="1", offset="7", limit="5")
    messages = ask("prompt", id="1", offset="80", limit="25")

    assert [each["address"] for each in sources["sources"]] == ["msg_8", "msg_9", "msg_10"]
    assert ([messages["total"], len(messages["messages"])], ask("sessions", limit="1")["more"]) == ([90, 10], False)


@pytest.mark.parametrize("given", [{"from": "x"}, {"from": "-1"}, {"from": "9", "to": "3"}, {"to": "9" * 40}])
def test_arguments_are_checked(archive: Home, given: dict[str, str]) -> None:
    """The offender is named."""
    status, text = api.answer("messages", given)

    assert (status, "=" in json.loads(text)["error"]) == (400, True)


def test_a_long_line_is_counted_in_pieces(hermes_home: Path) -> None:
    """However many messages there are, an answer has so many pieces at most; a short stretch comes one by one."""
    world = Home(hermes_home)
    world.say(*(f"message {n}" for n in range(5000)))
    world.close()
    whole = ask("messages", **{"from": "0", "to": "5001"})
    part = ask("messages", **{"from": "100", "to": "120"})

    assert len({row[0] for row in whole["counts"]}) <= BUCKETS
    assert sum(row[2] for row in whole["counts"]) == 5000
    assert [each["pos"] for each in part["messages"]] == list(range(100, 121))


def test_what_a_summary_dropped_is_told(hermes_home: Path) -> None:
    """Names, numbers and paths of a source that the summary does not say."""
    world = Home(hermes_home)
    world.say("restart nginx_proxy on port 8443, its file is /etc/nginx/site.conf", "done")
    world.node(1, 2, text="The proxy nginx_proxy was restarted.")
    world.close()
    (source, _) = ask("node", id="1")["sources"]

    assert set(source["dropped"]) == {"8443", "/etc/nginx/site.conf"}


def test_a_prompt_is_the_text_that_the_model_got(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built again, with the digest that was stored; and at a message that came later."""
    monkeypatch.setenv("LCM_CONTEXT_THRESHOLD", "4000")  # that of this world's compactions
    world = Compacting(hermes_home)
    chat = Chat()
    for n in range(40):
        chat.user(f"step {n} of the deployment " * 20).says(f"did step {n} " * 20)
    shorter = world.compact(chat)
    shorter.user("and now?").says("all done")
    world.take(shorter)
    world.db.close()
    seen = ask("prompt", session="s")
    later = ask("prompt", session="s", at="82", limit="100")

    assert (seen["exact"], seen["id"], later["id"]) == (True, 1, 1)
    assert [each["text"] for each in later["messages"]][-2:] == ["and now?", "all done"]
    assert ask("prompt", session="s", at="5")["total"] == 5


def test_a_message_that_a_prompt_shows_by_its_ends_is_shown_so(hermes_home: Path) -> None:
    """With the characters of all of it."""
    world = Compacting(hermes_home)
    live = world.compact(Chat().turns(40))
    (last,) = [row.store_id for row in world.store.newest(None, before=10**9, limit=1)]
    with world.db.transaction():
        world.db.execute("UPDATE assemblies SET stubs = ?", (json.dumps({last: 30}),))
    world.db.close()
    shown = ask("prompt", session="s")["messages"][-1]

    assert (shown["id"], shown["chars"]) == (last, len(live[-1]["content"]))
    assert "characters left out" in shown["text"]
    assert live[-1]["content"][:15] in shown["text"]


def test_hits_say_why_they_stand_where_they_stand(hermes_home: Path) -> None:
    """How they matched, and which signals raised them."""
    world = Home(hermes_home)
    world.say(
        *(f"we talked about the weather of day {n}" for n in range(30)), "the port of the gateway is 8443", "fine"
    )
    world.close()
    best = ask("search", query="which port has the gateway?")["results"][0]

    assert (best["address"], best["match"], best["reasons"]["score"]) == ("msg_31", "all", 1.0)
    assert best["reasons"]["raised_by"]


def test_messages_that_are_no_unicode_are_shown(hermes_home: Path) -> None:
    """A lone surrogate must not break a page."""
    world = Home(hermes_home)
    world.say("half of a sign: \ud83d", "fine")
    world.close()
    text = api.answer("message", {"id": "1"})[1]

    assert json.loads(text)["text"] == "half of a sign: \ud83d"
    assert text.encode()


# -- as the host loads it ----------------------------------------------------------------------------------------------
def test_the_host_loads_the_routes_by_their_path(archive: Home) -> None:
    """Without a package, and finds the copy of the plugin that is there already."""
    from fastapi import FastAPI
    from starlette.testclient import TestClient

    spec = importlib.util.spec_from_file_location("hermes_dashboard_plugin_x", ROOT / "dashboard" / "plugin_api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    app = FastAPI()
    app.include_router(module.router, prefix="/api/plugins/hermes-lcm")
    client = TestClient(app)
    before = set(sys.modules)
    about = client.get("/api/plugins/hermes-lcm/about")
    dry = client.post("/api/plugins/hermes-lcm/run", json={"words": "dissolve sum_1"})
    app.state.auth_required = True

    assert (about.status_code, about.json()["mode"], dry.json()["applied"]) == (200, "full", False)
    assert client.get("/api/plugins/hermes-lcm/about").json()["mode"] == "metadata"
    assert client.get("/api/plugins/hermes-lcm/nothing").status_code == 404
    assert "hermes_lcm_of_dashboard" not in set(sys.modules) - before
