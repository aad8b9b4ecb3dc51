"""Turns from a rule: "back to npm", "no more emojis", "push now" take the place of what the same person ruled, and of no more."""

from __future__ import annotations

import uuid

import pytest
from worlds.linear import LIMIT, excess
from worlds.process import World, chat

from hermes_lcm.ledger.table import entries
from hermes_lcm.prompt import work_log
from hermes_lcm.prompt.work_log import Rule
from hermes_lcm.records import Row
from hermes_lcm.text import statements, turns


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A database for many conversations."""
    return World(tmp_path_factory.mktemp("shared"))


def said(world: World, *texts: str) -> list[Row]:
    """What a user said in a conversation, read back from the store."""
    live = chat()
    for text in texts:
        live.user(text).says("I see.")
    ids = [store_id for entry in world.take(live, uuid.uuid4().hex).entries for store_id in entry.ids]
    return statements.standing([row for row in world.store.rows(ids) if row.head.role == "user"])


def ruled(world: World, *texts: str) -> list[Rule]:
    return work_log.rules(said(world, *texts))


TURNED = [
    ("Use single quotes everywhere.", "I changed my mind: double quotes everywhere"),
    ("Use single quotes everywhere.", "I changed my mind about the quotes. Double quotes everywhere."),
    ("Use npm, not pnpm.", "back to pnpm"),
    ("Use yarn, not npm.", "Actually, back to npm please."),
    ("Never use pnpm.", "switch to pnpm"),
    ("Always write JSDoc comments.", "no more JSDoc please"),
    ("Always add a changelog entry.", "enough with the changelog entries"),
    ("Run the linter before each commit.", "we don't need the linter any more"),
    ("Indent with two spaces everywhere.", "On second thought, four spaces."),
    ("Always use tabs for indentation.", "let's go back to spaces"),
    ("Always use pytest.", "unittest instead please"),
    ("Use the light theme everywhere.", "dark theme from now on"),
    ("Use short variable names everywhere.", "change of plans: long variable names"),
    ("Format timestamps as 24-hour times everywhere.", "back to 12-hour times"),
    ("Always answer in English.", "switch to German please"),
    ("Antworte immer auf Deutsch.", "Ich hab's mir anders überlegt: Englisch"),
    ("Verwende immer einfache Anführungszeichen.", "doch lieber doppelte Anführungszeichen"),
    ("Nutze pnpm, nicht npm.", "zurück zu npm"),
    ("Schreibe immer JSDoc-Kommentare.", "kein JSDoc mehr bitte"),
    ("Responde siempre en español.", "he cambiado de idea: inglés"),
    ("Usa pnpm, no npm.", "volvamos a npm"),
    ("Réponds toujours en français.", "j'ai changé d'avis : anglais"),
    ("Utilise pnpm, pas npm.", "retour à npm"),
    ("Rispondi sempre in italiano.", "Ho cambiato idea: inglese"),
    ("Usa pnpm, non npm.", "torniamo a npm"),
    ("Responda sempre em português.", "mudei de ideia: inglês"),
    ("Отвечай всегда на русском.", "я передумал: английский"),
    ("用pnpm，不要用npm。", "还是改回npm吧"),
    ("常に日本語で答えてください。", "やっぱり英語で"),
    ("항상 한국어로 대답해 주세요.", "다시 영어로 바꿔 줘"),
]  # fmt: skip


@pytest.mark.parametrize(("earlier", "later"), TURNED)
def test_who_turns_from_a_rule_replaces_it(shared: World, earlier: str, later: str) -> None:
    """In the present state and in the ledger both are named."""
    rows = said(shared, earlier, "Fix the tests.", later)
    (rule,), (old, new) = work_log.rules(rows), entries(rows, {})

    assert rule.text == later
    assert rule.replaces is not None
    assert rule.replaces.text == earlier
    assert (old.fact.text, old.replaced_by, new.replaces) == (earlier, new.name, old.name)


@pytest.mark.parametrize(
    ("ban", "order"),
    [
        ("Commit but do not push.", "push now"), ("Commit everything, but don't push.", "ok, push it"),
        ("Do not deploy yet.", "You can deploy now."), ("Do not merge.", "go ahead and merge"),
        ("Please don't delete the old logs.", "now delete the old logs"), ("Committe, aber pushe nicht.", "jetzt pushen"),
        ("Noch nicht deployen!", "deploye jetzt"),
    ],
)  # fmt: skip
def test_who_orders_what_he_forbade_lifts_the_ban(shared: World, ban: str, order: str) -> None:
    """The ban is named as what the order replaced."""
    (rule,) = ruled(shared, ban, "Fix the tests.", order)

    assert (rule.text, rule.replaces and rule.replaces.text) == (order, ban)


NOT_TURNED = [
    ("Use single quotes everywhere.", "Should we go back to double quotes?"),
    ("Use single quotes everywhere.", "Tom says: back to double quotes"),
    ("Use single quotes everywhere.", "Tom changed his mind: double quotes everywhere"),
    ("Use single quotes everywhere.", 'He wrote "I changed my mind: double quotes everywhere"'),
    ("Use single quotes everywhere.", "If the linter complains, switch to double quotes."),
    ("Use single quotes everywhere.", "Maybe back to double quotes"),
    ("Use single quotes everywhere.", "I changed my mind: double quotes in tests only"),
    ("Use single quotes everywhere.", "I changed my mind about the double room, take the single one"),
    ("Use short variable names everywhere.", "I changed my mind, I want a long walk"),
    ("Use npm, not pnpm.", "I'm back to npm now"),
    ("Use npm, not pnpm.", "Switch to the pnpm branch and look"),
    ("Use npm, not pnpm.", "install pnpm in the container"),
    ("Always write JSDoc comments.", "no more questions, please and thanks"),
    ("Always write JSDoc comments.", "no more JSDoc in the tests please"),
    ("Always write JSDoc comments.", "Is JSDoc no longer needed?"),
    ("Always send me a summary at the end.", "the summary is no longer needed"),
    ("Always add tests for each feature.", "no more features please"),
    ("Keep functions under 50 lines.", "no more functions please"),
    ("Commit but do not push.", "Tom will push now"),
    ("Commit but do not push.", "push the notification handler into its own file"),
    ("Commit but do not push.", "when the tests pass, push"),
    ("Commit but do not push.", "Let's not push now"),
    ("Commit but do not push.", "push nothing now"),
    ("Do not push.", "push back now"),
    ("Committe, aber pushe nicht.", "jetzt nichts pushen"),
    ("Always write JSDoc comments.", "no more JSDoc comments on this one"),
    ("Never push without asking me.", "ok, push now"),
    ("Do not push to main.", "push now"),
    ("Never delete files.", "delete the file now"),
    ("Write commit messages in English.", "switch to German"),
    ("Always answer in English.", "switch to the German keyboard layout"),
    ("Always use tabs in Makefiles.", "switch to spaces"),
    ("Antworte immer auf Deutsch.", "Sollen wir wieder auf Englisch schreiben?"),
    ("Committe, aber pushe nicht.", "Kann ich jetzt pushen?"),
    ("Always write tests and update the changelog.", "no more changelog please"),
    ("Duze mich und antworte immer auf Deutsch.", "doch lieber siezen"),
    ("Always answer in English, and keep it short.", "switch to German"),
    ("Always run the tests before pushing.", "no more tests please"),
    ("Never use tabs.", "switch to spaces"),
    ("Do not delete anything.", "delete it"),
    ("From now on run npm lint before each commit.", "back to pnpm"),
    ("Always print a summary table.", "let's go back to spaces"),
]  # fmt: skip


@pytest.mark.parametrize(("earlier", "later"), NOT_TURNED)
def test_what_only_looks_like_a_turn_replaces_no_rule(shared: World, earlier: str, later: str) -> None:
    """A question, somebody else's words, a condition, an exception, another thing, or a single task."""
    rules = ruled(shared, earlier, later)

    assert rules[0].text == earlier
    assert all(rule.replaces is None for rule in rules)


def test_a_turn_that_may_mean_several_rules_replaces_none(shared: World) -> None:
    """Nobody knows which; of one that names the thing it is known."""
    rules = ["Always use tabs in Makefiles.", "Always use tabs in Python."]

    assert [rule.text for rule in ruled(shared, *rules, "back to spaces")] == rules
    assert [rule.text for rule in ruled(shared, *rules, "back to spaces in Python")] == [
        rules[0], "back to spaces in Python"
    ]  # fmt: skip


def test_nobody_turns_from_somebody_elses_rule(shared: World) -> None:
    """In a group each speaks for himself; the ledger tells that the two are at odds."""
    rows = said(shared, "[Anna] Use npm, not pnpm.", "[Ben] back to pnpm")
    speakers = {row.store_id: name for row, name in zip(rows, ("Anna", "Ben"), strict=True)}
    old, new = entries(rows, {}, speakers)

    assert (old.replaced_by, new.replaces, old.contradicts, new.contradicts) == ("", "", new.name, old.name)


@pytest.mark.parametrize(
    "text", ["back to " * 10, "no more " * 10, "X is no longer needed " * 4, "I changed my mind. " * 4]
)
def test_turns_are_looked_for_in_linear_time(text: str) -> None:
    """Of a longer text, too."""

    def read(told: str) -> None:
        turns.turn.cache_clear()
        for sentence in turns.sentences(told * 40):
            turns.turn(sentence)

    assert excess(read, text, text * 8) < LIMIT
