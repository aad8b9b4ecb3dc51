"""Verbatim lines beside a summary: what is quoted, within which room."""

from __future__ import annotations

import pytest

from hermes_lcm.llm import prompts
from hermes_lcm.llm.quotes import DONE, ERRORS, FILES, NAMED, REFUSED, WORDS, quotes
from hermes_lcm.llm.source import Source
from hermes_lcm.records import SourceLine, SummaryTask
from hermes_lcm.text.tokens import count


def quoted(*lines: tuple[str, str], said: str = "", room: int = 400) -> str:
    source = tuple(SourceLine(f"msg_{n}", role, text) for n, (role, text) in enumerate(lines, 1))
    return quotes(Source(SummaryTask(0, source, 1000, 200)), said, room=room, count=count)


def test_words_of_the_user_error_lines_and_changed_files_stand_verbatim():
    """Each under its heading, in the order in which they came."""
    text = quoted(
        ("user", "Please port the importer to Rust. Never touch the backups."),
        ("assistant", "I will.\n[calls write_file] path: src/lib.rs; content: fn main() {}"),
        ("tool", "compiling\nerror[E0308]: mismatched types in src/lib.rs\ndone"),
    )

    assert text.splitlines() == [
        f"{FILES}: src/lib.rs",
        f"{ERRORS}:",
        "- error[E0308]: mismatched types in src/lib.rs",
        f"{WORDS}:",
        "- Please port the importer to Rust.",
        "- Never touch the backups.",
    ]


def test_an_error_is_quoted_before_code_that_names_one():
    """Of what the host shows of files that were read, with its line numbers and without."""
    read = [
        "12|        throw new Error(`Invalid hex color: ${hex}`);",
        "  // If there's an error loading models.json, we say so",
        "| `toolErrorBg` | Tool execution box (error state) |",
        " 7|} catch (error) {",
        "ValueError: 7 is no colour",
        "FAILED tests/test_hex.py",
    ]

    found = quoted(("tool", "\n".join(read)), room=80).splitlines()
    assert found == [f"{ERRORS}:", "- ValueError: 7 is no colour", "- FAILED tests/test_hex.py"]


@pytest.mark.parametrize(
    "line",
    [
        'e556d5b A number has an anchor of its own", "exit_code": 0, "error": null}',
        r"{\"error\": \"\", \"rows\": 3}",
        "12 passed, 0 failed",
        "Found 0 errors in 40 files",
        "failures=0 errors=0",
        "{'error': None}",
    ],
)
def test_a_result_that_says_there_was_no_error_is_no_error_line(line: str) -> None:
    """The host's terminal ends each answer so."""
    assert quoted(("tool", f"{line}\ndone")) == ""
    assert "Permission denied" in quoted(("tool", f"{line} Permission denied"))


@pytest.mark.parametrize(
    "line", ["error: 05 open", "error=0x80070005", "3 failed, 0 errors", "no error handler: failed to load"]
)
def test_a_line_that_tells_of_an_error_beside_none_is_one(line: str) -> None:
    assert line in quoted(("tool", line))


def test_a_reply_that_only_says_done_is_not_quoted():
    """It does not say what."""
    assert quoted(("assistant", "Done.")) == ""
    assert "archive" in quoted(("assistant", "Done. I moved the old logs to the archive."))


def test_what_a_call_was_given_is_no_reply():
    """Nobody was told so."""
    thought = "thought: The fare is basic, so it cannot be cancelled under the policy of the airline."

    assert quoted(("assistant", f"[calls think] {thought}"), ("assistant", f"I look.\n[calls think] {thought}")) == ""


def test_what_the_summary_or_an_earlier_line_says_is_not_quoted_again():
    """A quotation is worth the words that nothing else says."""
    text = quoted(
        ("user", "Rename the scheduler."),
        ("user", "rename the scheduler!"),
        ("user", "Polish the gateway."),
        said="scheduler rename",
    )

    assert text == f"{WORDS}:\n- Polish the gateway."


def test_a_room_that_is_short_holds_rules_first():
    """What holds beyond the task counts most."""
    text = quoted(
        ("user", "Look into the renderer somewhere today."), ("user", "Never push directly upstream today."), room=14
    )

    assert "Never push" in text
    assert "renderer" not in text


def test_quotations_never_take_more_than_their_room():
    """Whatever the source is."""
    lines = [("user", f"word{n}x stands alone and far from topic{n}y.") for n in range(200)]
    errors = [("tool", f"error {n}: cannot open file{n}z") for n in range(200)]

    assert 200 < count(quoted(*lines, *errors, room=300)) <= 330


def test_records_hand_their_quotations_on():
    """A record of records still says the user's words."""
    record = (
        f"It ran.\n{FILES}: a.py, b.py\n{ERRORS}:\n- fatal: no remote\n{WORDS}:\n- Never touch the backups.\nAnchors: x"
    )
    text = quoted(("summary", record), ("summary", f"{WORDS}:\n- Prefer tabs."))

    assert [line for line in text.splitlines() if not line.endswith(":")] == [
        f"{FILES}: a.py, b.py", "- fatal: no remote", "- Never touch the backups.", "- Prefer tabs.",
    ]  # fmt: skip


@pytest.mark.parametrize("first", ["Never push directly upstream today.", "I moved with my twins upstream today."])
def test_a_record_of_records_hands_on_rules_and_what_users_say_of_themselves_first(first: str) -> None:
    """Before a question of the same length."""
    record = f"It ran.\n{WORDS}:\n- Which renderer draws glyphs somewhere today?\n- {first}"

    assert quoted(("summary", record), room=14).splitlines() == [f"{WORDS}:", f"- {first}"]


def test_thanks_that_an_older_record_quotes_are_not_handed_on():
    """They say nothing, and take the room of what does."""
    record = f"It ran.\n{WORDS}:\n- Never touch the backups.\n- Thank you so much for your help!"

    assert quoted(("summary", record)).splitlines() == [f"{WORDS}:", "- Never touch the backups."]


def test_a_model_that_condenses_reads_no_quotations():
    """They go into the new record as they are; what else the records say is read whole."""
    record = "\n".join(
        ["The parser was rewritten.", f"{FILES}: a.py, b.py", f"{ERRORS}:", "- fatal: no remote", f"{WORDS}:",
         "- Never touch the backups.", "Then the release was cut:", "- on Monday", "Anchors: v1.2, main"]
    )  # fmt: skip
    line = SourceLine("part_1", "summary", record)
    task = SummaryTask(1, (line,), source_tokens=200, target_tokens=100)
    read = prompts.build(task, max_chars=prompts.room_of(task.lines)).text

    assert "The parser was rewritten.\nThen the release was cut:\n- on Monday" in read
    assert not any(part in read for part in ("a.py", "fatal: no remote", "Never touch the backups.", "v1.2"))


def test_without_room_nothing_is_quoted():
    assert quoted(("user", "Never touch the backups."), room=0) == ""


def test_what_was_done_and_what_is_not_possible_is_quoted_from_replies_and_calls() -> None:
    """Calls that change something, the sentence that tells of it, the refusal; nothing that only agrees."""
    text = quoted(
        ("assistant", '[calls close_issue] number: 77; labels: ["bug"]'),
        ("assistant", "Done! I closed the issue about the slow scheduler."),
        ("assistant", "The old branch cannot be deleted while a release still points to it."),
        ("user", "Thank you so much!"),
        said="",
    )

    assert f"{DONE}:\n- close_issue number: 77; labels: bug\n- I closed the issue about the slow scheduler." in text
    assert f"{REFUSED}:\n- The old branch cannot be deleted while a release still points to it." in text
    assert "Thank you" not in text


def test_values_that_replies_name_are_quoted_and_handed_on():
    """From a leaf to the record of leaves, too; a sentence without a value is not."""
    text = quoted(("assistant", "The staging host listens on port 7443 since March 3. It is quick. Shall I go on?"))
    again = quoted(("summary", text))

    assert text.splitlines() == [f"{NAMED}:", "- The staging host listens on port 7443 since March 3."]
    assert again == text


def test_names_and_figures_are_quoted_before_other_words() -> None:
    """Where there is no room for both: nobody can guess the names."""
    talk = ("user", "My sister said that it is all as it was to be.")
    facts = ("user", "My parcel GX4471Q-88 has the number HT_20931.")

    assert quoted(talk, facts, room=20).splitlines() == [f"{WORDS}:", f"- {facts[1]}"]


def test_what_cannot_be_has_more_of_the_room_than_what_users_told() -> None:
    refusals = [
        f"The fare of booking {code} cannot be refunded after departure." for code in ("QK7LM2", "ZR4TP9", "HV3XS8")
    ]
    told = [
        f"We met {name} at the harbour of {town} again."
        for name, town in (("Olga", "Split"), ("Piet", "Bergen"), ("Ines", "Porto"))
    ]

    found = quoted(("user", "\n".join(told)), ("assistant", "\n".join(refusals)), room=110)
    assert all(refusal in found for refusal in refusals)
    assert WORDS in found, "and yet not all of it"


@pytest.mark.parametrize("record", [False, True])
def test_words_with_a_date_or_an_amount_are_quoted_before_others(*, record: bool) -> None:
    """Though a word of the others costs less; in a record of records as well."""
    talk, dated = "Whales near Husavik were seen yesterday.", "The lease of the workshop ends on March 18, 2024."
    lines = [("summary", f"Talk.\n{WORDS}:\n- {talk}\n- {dated}")] if record else [("user", talk), ("user", dated)]

    assert quoted(*lines, room=20).splitlines() == [f"{WORDS}:", f"- {dated}"]


@pytest.mark.parametrize("record", [False, True])
def test_a_rule_whose_words_were_all_said_elsewhere_is_quoted(*, record: bool) -> None:
    """It orders known words anew; a remark made of the same words is not quoted again."""
    talk = ["The staging branch holds customer data.", "The release branch was pushed with backups."]
    rule, remark = "Never push customer backups.", "The customer backups, the release data."
    said = [*talk, remark, rule]
    body = "\n".join(f"- {text}" for text in said) if record else "\n".join(said)
    lines = [("summary", f"Talk.\n{WORDS}:\n{body}")] if record else [("user", body)]

    found = quoted(*lines, said=f"{' '.join(talk)} Each push was never asked for.", room=60)
    assert f"- {rule}" in found
    assert remark not in found


def test_two_refusals_made_of_the_same_words_are_both_quoted() -> None:
    """Which thing is refused for which reason is in their order."""
    first = "The booking cannot be changed, because the ticket was refunded."
    second = "The ticket cannot be refunded, because the booking was changed."

    assert quoted(("assistant", first), ("assistant", second)) == f"{REFUSED}:\n- {first}\n- {second}"


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize(
    "sentence", ["No, that is not it, both use the dark theme.", "I have a badge, but I don't recall its number."]
)
def test_corrections_and_what_users_lack_are_quoted_like_rules(sentence: str, *, record: bool) -> None:
    """Though all of their words were said: without them the agent asks or guesses once more."""
    talk = "That theme is dark and both have a number. Can you recall the badge I use?"
    body = f"{WORDS}:\n- {sentence}" if record else sentence
    lines = [("summary" if record else "user", body)]

    assert f"- {sentence}" in quoted(*lines, said=talk, room=40)
    assert quoted(*lines, said=f"{talk} {sentence}", room=40) == "", "the summary says it as it was said"


def test_errors_that_a_file_names_did_not_happen() -> None:
    """A file that was read quotes none; a reading that failed, and a command whose output names one, do."""
    source = '{\n  "error": "#ff0000",\n- Shows an error state\nerror: ColorSchema\n}'
    read = SourceLine("msg_1", "tool", source, None, "read_file")
    missing = SourceLine("msg_2", "tool", "Error: no such file: theme.json", None, "read_file")
    ran = SourceLine("msg_3", "tool", "one\ntwo\nthree\nfatal: tag v2 exists", None, "terminal")

    found = quotes(Source(SummaryTask(0, (read, missing, ran), 1000, 200)), "", room=400, count=count)
    assert found == f"{ERRORS}:\n- Error: no such file: theme.json\n- fatal: tag v2 exists"


@pytest.mark.parametrize("tool", ["get_build", "list_jobs", "search_logs", "find_orders", "terminal"])
def test_errors_in_what_is_no_file_happened(tool: str) -> None:
    """A build, a job and a log tell what went on."""
    told = SourceLine("msg_1", "tool", "step one\nstep two\nstep three\nfatal: disk full", None, tool)

    assert "fatal: disk full" in quotes(Source(SummaryTask(0, (told,), 1000, 200)), "", room=400, count=count)


def test_keys_items_and_calls_that_name_an_error_are_quoted_last() -> None:
    """They are shown by commands, too: by cat, by a search."""
    shown = '"error": "#ff0000",\n- Tool executions (error states)\n} catch (error)\nthis.showError('
    text = quoted(("tool", f"{shown}\nerror TS2304: Cannot find name chalk"), room=60)

    assert f"{ERRORS}:\n- error TS2304: Cannot find name chalk" in text
    assert "catch" not in text
