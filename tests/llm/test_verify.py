"""Is this answer a summary of that source? Judged by its shape, its size, and what it names."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import linear

from hermes_lcm.llm import claims, prompts
from hermes_lcm.llm.client import Reply
from hermes_lcm.llm.source import Source
from hermes_lcm.llm.verify import Band, Verdict, anchor_line, band, check, strike, suspects, tidy
from hermes_lcm.records import SourceLine, SummaryTask
from hermes_lcm.text.tokens import count

WORDS = (
    "the worker reads a queue of jobs and writes each result into the table while another process removes what is older than the "
    "limit so that nothing grows without end and every failure is reported once with its cause and the place where it happened"
).split()


def prose(chars: int, start: int = 0) -> str:
    out: list[str] = []
    n, size = start, 0
    while size < chars:
        out.append(WORDS[(n * 7 + n // len(WORDS) * 3) % len(WORDS)])
        n, size = n + 1, size + len(out[-1]) + 1
    return " ".join(out)


def task(*texts: str, target: int = 200, depth: int = 0) -> SummaryTask:
    roles = ("user", "assistant", "tool")
    lines = tuple(
        SourceLine(f"msg_{n + 1}", roles[n % 3], text, 1_700_000_000.0, tokens=count(text))
        for n, text in enumerate(texts)
    )
    return SummaryTask(depth, lines, sum(line.tokens for line in lines), target)


SOURCE = task(
    "Never delete the backups. Fix the importer in src/importer/run.py, ticket ABC-4711.",
    "The importer fails because batch_size is 5000; I set it to 250 in config/import.yaml.",
    "Traceback\nValueError: row 90817 has no key\n" + prose(3000),
)
GOOD = (
    "The user asked for a fix of src/importer/run.py (ABC-4711) and demanded that backups are never deleted. The assistant found "
    "that batch_size was 5000, which made row 90817 fail with a ValueError, and set it to 250 in config/import.yaml. The task is "
    "finished; the tests were not run."
)


GOOD_OF_ROWS = "The importer fails at row 90817; the batch of 5000 rows was made smaller. The place is told in"


def judged(text: str, source: SummaryTask = SOURCE, **more: Any) -> Verdict:
    return check(Source(source), Reply(text, **more), count=count)


# --------------------------------------------------------------------------------------------------------- accepted
def test_an_honest_summary_passes():
    """Nothing to complain about, little to add."""
    verdict = judged(GOOD)

    assert (verdict.ok, verdict.reasons, verdict.suspects) == (True, (), ())


def test_a_few_words_are_enough_about_a_message_that_is_shown_in_part():
    """Of a huge message a model reads no more than an excerpt: how long it is tells nothing about that."""
    huge = task("Read this log.", "ok", prose(400_000), target=1200)
    many = task(*[prose(2000, n) for n in range(200)], target=1200)

    assert huge.source_tokens >= many.source_tokens - 2000
    assert (band(huge).floor, band(many).floor) == (24, 120)


def test_what_a_model_tells_twice_is_kept_once():
    """A small model writes its record, and the same again: it is paid for in every request from then on."""
    verdict = judged(f"{GOOD}\n\nOpen: the tests.\n\n{GOOD}\n\nOpen: the tests.")

    assert verdict.ok
    assert verdict.text == f"{GOOD}\n\nOpen: the tests.\n\nOpen: the tests."


def test_what_happened_twice_is_told_twice():
    """Between two other events the same line is another event."""
    asked = "- The user asked for a restart of the importer in src/importer/run.py."
    told = f"{GOOD}\n{asked}\n- The assistant restarted it, and row 90817 failed again.\n{asked}\n- The assistant restarted it."

    assert judged(told).text == told


def test_a_list_that_is_told_twice_is_kept_once():
    """However many lines it has; told three times it is a model that does not end."""
    told = """- The user asked for a fix of src/importer/run.py (ABC-4711).
- The user demanded that backups are never deleted.
- The assistant found that batch_size was 5000, which made row 90817 fail.
- The assistant set batch_size to 250 in config/import.yaml."""

    twice = judged(f"{told}\n\n{told}")

    assert (twice.reasons, twice.text) == ((), told)


@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize("sign", ["\n", "\n\n", " "], ids=["lines", "paragraphs", "sentences"])
def test_an_answer_that_goes_round_in_circles_ends_where_it_had_told_all(sign: str, finish: str) -> None:
    """A small model writes a good record and cannot stop; the limit of its length cuts it."""
    first = "The user asked for a fix of src/importer/run.py (ABC-4711)."
    circle = [
        "The assistant set batch_size to 250 in config/import.yaml.",
        "The user asked for the tests.",
        "The tests were not run.",
    ]
    told = sign.join([first, *circle])

    verdict = judged(sign.join([told, *circle * 9])[:-9], finish_reason=finish)

    assert (verdict.reasons, verdict.text) == ((), told)


def test_an_answer_that_was_cut_in_something_new_is_refused() -> None:
    """However often it said something before; nor are a few sentences said again a sign that it had told all."""
    circle = "The tests were not run.\n"

    for text in (f"{GOOD}\n{circle * 9}The assistant then began to move the back", f"{GOOD}\n{GOOD}\nThe tas"):
        assert judged(text, finish_reason="length").reasons == ("it did not end by itself (finish_reason length)",)


@pytest.mark.parametrize(
    "text",
    [
        "Error code: 401 was what the gateway returned at first. " + GOOD,
        "I'm sorry was the first word of the user's mail, which the assistant answered. " + GOOD,
        GOOD + " The provider had said: Incorrect API key provided. The rate limit was reached once.",
        "First the user asked for a summary of the importer. " + GOOD,
        "The user asked the model to think; it wrote <think> tags into src/importer/run.py. " + GOOD,
        "The user asked me to fix the importer. " + GOOD,
        "The user wants us to keep the backups. " + GOOD,
        "Es tut mir leid, sagte der Assistent, als batch_size fehlte. " + GOOD,
    ],
    ids=["error", "sorry", "api key", "summary", "tags", "asked me", "wants us", "sorry in German"],
)
def test_a_record_may_speak_of_errors_and_refusals(text):
    """Judged is what the answer is, not what it mentions."""
    assert judged(text).reasons == ()


@pytest.mark.parametrize("finish", ["stop", "end_turn", "", "STOP", "eos"])
def test_unknown_ways_to_end_well_are_accepted(finish):
    """Providers have many words for it."""
    assert judged(GOOD, finish_reason=finish).ok


def test_preface_code_fence_and_hint_are_taken_off():
    """What is stored is the record."""
    text, hint = tidy('Here is the summary:\n\n```markdown\nThe record.\n\n**Expand for details about:** "a, b"\n```')

    assert (text, hint) == ("The record.", "a, b")


@pytest.mark.parametrize(
    "hint", ["<what was left out, in a few words>", "What was left out, in a few words", "None", "Nothing."]
)
@pytest.mark.parametrize("between", ["\n", " "])
def test_a_placeholder_is_no_hint(between: str, hint: str) -> None:
    """Read back as it stood in the prompt, or filled with nothing; a small model writes it behind its last sentence."""
    assert tidy(f"The record.{between}Expand for details about: {hint}") == ("The record.", "")


def test_a_hint_behind_the_last_sentence_is_one():
    """Models do not always begin a line with it."""
    assert tidy("One. The record. Expand for details about: the logs") == ("One. The record.", "the logs")


@pytest.mark.parametrize(
    "said",
    [
        "The assistant made each record end with expand for details about: and a list.",
        "The logs were read. Expand for details about: the logs. The import failed at row 7.",
        "日志已读。Expand for details about：日志。导入失败。",
    ],
    ids=["quoted", "a sentence follows", "a sentence follows at once"],
)
def test_words_of_the_record_are_no_hint(said: str) -> None:
    """A conversation may be about hints, and a model may write one behind each of its sentences."""
    assert tidy(said) == (said, "")


def test_the_last_of_several_hints_in_a_line_is_taken_off() -> None:
    """What stands between them is the record."""
    said = "One. Expand for details about: a. Two of app.py. Expand for details about: b of c.py."

    assert tidy(said) == ("One. Expand for details about: a. Two of app.py.", "b of c.py.")


def test_a_hint_behind_a_long_paragraph_is_one() -> None:
    """Small models write no lines."""
    said = f"{prose(4000)}."

    assert tidy(f"{said} Expand for details about: the logs") == (said, "the logs")


# ---------------------------------------------------------------------------------------------------------- refused
REFUSED = {
    "empty": ("", {}, "empty"),
    "tiny": ("OK done.", {}, "too short"),
    "as long as the source": (prose(9000), {}, "too long"),
    "forty thousand words": ("and then it went on " * 10_000, {}, "too long"),
    "cut off": (GOOD, {"finish_reason": "length"}, "length"),
    "filtered": (GOOD, {"finish_reason": "content_filter"}, "content_filter"),
    "refusal": ("I'm sorry, but I can't help with that request.", {}, "refuses"),
    "refusal as an AI": ("As an AI language model I cannot summarise this conversation. " * 4, {}, "refuses"),
    "refusal in German": ("Es tut mir leid, aber dabei kann ich nicht helfen. " * 2, {}, "refuses"),
    "refusal in French": ("Je suis désolé, mais je ne peux pas résumer cette conversation. " * 2, {}, "refuses"),
    "refusal in Spanish": ("Lo siento, pero no puedo resumir esta conversación. " * 2, {}, "refuses"),
    "refusal in Italian": ("Mi dispiace, ma non posso riassumere questa conversazione. " * 2, {}, "refuses"),
    "refusal in Portuguese": ("Sinto muito, mas não posso resumir esta conversa. " * 2, {}, "refuses"),
    "refusal in Russian": ("Извините, но я не могу пересказать этот разговор. " * 2, {}, "refuses"),
    "asks for the source": (
        "Sure! I'd be happy to help. Please provide the conversation that you would like me to summarise for you.", {}, "refuses",
    ),
    "sees no source": ("It looks like no conversation was given. Share the text, and I will write it.", {}, "refuses"),
    "refusal in Chinese": ("抱歉,我无法协助完成这个请求。" * 3, {}, "refuses"),
    "401 page": ("Error code: 401 - {'error': {'message': 'Incorrect API key provided: sk-bad.'}}" * 2, {}, "error page"),
    "json error": (json.dumps({"error": {"message": "quota " * 60}}), {}, "error page"),
    "html": ("<!DOCTYPE html><html><body>" + "<p>Bad gateway</p>" * 30 + "</body></html>", {}, "error page"),
    "502": ("502 Bad Gateway\n" + "nginx " * 40, {}, "error page"),
    "reasoning": ("Okay, the user wants a summary. Let me look at it first. " + GOOD, {}, "reasoning"),
    "reasoning without okay": ("The user wants me to summarise this. I see an importer. " + GOOD, {}, "reasoning"),
    "reasoning only": ("", {"reasoning_only": True}, "reasoning only"),
    "unclosed tag": ("<think>\n" + GOOD, {}, "reasoning"),
    "tool call": ("", {"tool_calls": ({"name": "terminal"},), "finish_reason": "tool_calls"}, "tool"),
    "loop": ("The importer fails because of the batch size. " * 20, {}, "repeats"),
    "loop at the end": (GOOD + " and so on and so on" * 40, {}, "repeats"),
    "loop of lines": ("\n".join(["- the importer was fixed in run.py"] * 30), {}, "repeats"),
    "numbered loop": (" ".join(f"{n}. Row {n + 500} is not in the limit of {n * 3}." for n in range(8)), {}, "repeats"),
    "loop in Chinese": ("我们修复了导入程序的问题。" * 40, {}, "repeats"),
    "echo": (SOURCE.lines[2].text[200:1600], {}, "copies"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "more", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_summary_is_refused(text, more, reason):
    """Each for its own reason."""
    verdict = judged(text, **more)

    assert not verdict.ok
    assert reason in "; ".join(verdict.reasons)


BOOKED = task(
    *(
        text
        for n in range(14)
        for text in (f"Book HAT{100 + n}, please.", f"I booked HAT{100 + n} for {320 + n} dollars.", "ok")
    ),
    prose(2000),
    target=900,
)


@pytest.mark.parametrize(
    "line",
    ["- The user asked for flight HAT{}; the assistant booked it for {} dollars.", "| HAT{} | {} dollars | booked |"],
    ids=["list", "table"],
)
def test_a_list_whose_lines_tell_of_different_things_is_no_loop(line: str) -> None:
    """However alike they are; with things that the source does not have it is one."""

    def told(first: int) -> str:
        return "\n".join(line.format(first + n, first + 220 + n) for n in range(14))

    assert judged(told(100), BOOKED).reasons == ()
    for looped in (told(600), told(100) + " and so on" * 60, f"{told(100)}\n" + "and so on " * 60):
        assert "it repeats itself" in judged(looped, BOOKED).reasons


def test_an_answer_about_something_else_is_refused():
    """Neither the names nor the words of a source that has plenty of both."""
    source = task("Look at " + " ".join(f"src/pkg/module_{n}.py" for n in range(20)), prose(2000))
    text = (
        "Yesterday sunshine warmed quiet meadows near colourful villages. Children played football, grandparents enjoyed "
        "lemonade, butterflies crossed gardens, musicians rehearsed cheerful melodies beside fountains, bakers sold pastries."
    )

    assert judged(text, source).reasons == ("it has nothing to do with the source",)


def test_a_prompt_read_back_is_an_echo():
    """Also its instructions."""
    prompt = prose(1500, 40) + GOOD
    verdict = check(Source(SOURCE), Reply(prompt[:1200]), count=count, prompt=prompt)

    assert "it copies the source" in verdict.reasons


def records(*texts: str, target: int = 300, depth: int = 1) -> SummaryTask:
    """Records to be condensed."""
    lines = tuple(SourceLine(f"part_{n}", "summary", text, tokens=count(text)) for n, text in enumerate(texts, 1))
    return SummaryTask(depth, lines, sum(line.tokens for line in lines), target)


def sentences(seed: int, many: int = 20) -> str:
    """Sentences of words that hardly repeat."""
    rng = random.Random(seed)
    words = [
        "".join(rng.choices("bdfgklmnprst", k=3)) + rng.choice(("an", "eri", "o", "ung")) for _ in range(15 * many)
    ]
    return ". ".join(" ".join(words[n * 15 : n * 15 + 15]) for n in range(many)) + "."


RECORDS = tuple(sentences(n) for n in range(4))


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_records_may_be_condensed_in_their_own_sentences(depth):
    """An extract of extracts: two sentences in five of each."""
    text = ". ".join(sentence for record in RECORDS for sentence in record.split(". ")[:8])

    assert judged(text, records(*RECORDS, depth=depth)).reasons == ()
    assert judged(text, task(*RECORDS, target=600)).reasons == ("it copies the source",)


DEEP_ECHOES = {
    "all of it": (" ".join(RECORDS), 600, "too long"),
    "nearly all of it": (" ".join(RECORDS)[:-1200], 2000, "copies"),
    "one record of four": (RECORDS[1], 300, "copies"),
}


@pytest.mark.parametrize(("text", "target", "reason"), DEEP_ECHOES.values(), ids=DEEP_ECHOES.keys())
def test_records_read_back_are_not_condensed(text, target, reason, monkeypatch):
    """What is as long as its source gains nothing; one record alone loses the others."""
    if reason == "copies":  # the band would be the first to say so
        monkeypatch.setattr("hermes_lcm.llm.verify.band", lambda _: Band(1, 10**6))

    assert reason in "; ".join(judged(text, records(*RECORDS, target=target)).reasons)


def test_instructions_read_back_are_an_echo_at_every_depth():
    """They are no records."""
    told = sentences(9)
    verdict = check(Source(records(*RECORDS)), Reply(told), count=count, prompt="\n".join([told, *RECORDS]))

    assert verdict.reasons == ("it copies the source",)


PLAYS_ON = ("it goes on with the prompt or the conversation",)
PLAYED_ON = {
    "instructions": prompts.OWN_WORDS[1],
    "instructions, then something": prompts.OWN_WORDS[0] + " " + GOOD[:300],
    "a retry's complaint": GOOD + "\n\n~~~~ source ends\n\nAn earlier attempt at this record was refused.",
    "a title": GOOD + "\n~~~~ msg_7 | user | 2023-11-14",
    "a placeholder": f"{GOOD} User: <what was left out, in a few words>.",
    "a template": GOOD + "\n<|im_start|>user\nThanks!",
    "another template": "<start_of_turn>model\n" + GOOD,
    "a call": GOOD + '\n[calls terminal] {"command": "cat src/importer/run.py"}',
}


@pytest.mark.parametrize("text", PLAYED_ON.values(), ids=PLAYED_ON.keys())
def test_going_on_with_the_prompt_is_no_record(text):
    """What small models write: the instructions, the fences, the next message."""
    assert judged(text).reasons == PLAYS_ON


def test_the_place_of_the_hint_told_as_somebodys_words_is_left_out_of_the_record() -> None:
    """As a small model writes it; the rest is a good record."""
    verdict = judged(f"{GOOD}\nThe user asked for more details about {prompts.LEFT_OUT}. The tests were not run.")

    assert (verdict.reasons, verdict.text) == ((), f"{GOOD}\nThe tests were not run.")


def test_a_call_copied_from_the_source_is_left_out_of_the_record() -> None:
    """Whole or as the prompt showed it; the rest may be a good record."""
    call = "[calls terminal] command: cat src/importer/run.py | grep -n batch_size"
    source = replace(SOURCE, lines=(*SOURCE.lines, replace(SOURCE.lines[1], text=f"I look at it.\n{call}")))

    for line in (call, f"{call[:24]} {prompts.SHORTENED} {call[-20:]}"):
        verdict = judged(f"{GOOD}\nThe assistant looked at it:\n{line}", source)
        assert (verdict.reasons, verdict.text) == ((), f"{GOOD}\nThe assistant looked at it:")
    assert judged(f"{GOOD}\n{call}; rm run.py", source).reasons == PLAYS_ON


@pytest.mark.parametrize("words", [each for each in prompts.OWN_WORDS if "{words}" not in each])
def test_a_line_of_the_instructions_is_taken_out(words):
    """A model that extracts takes one along; whoever reads the record must not take it for an order."""
    line = f"- {words[:150]}"
    verdict = judged(f"{GOOD}\n{line}\n  * {GOOD[:200]}")

    assert verdict.reasons == ()
    assert (verdict.text, verdict.struck) == (f"{GOOD}\n  * {GOOD[:200]}", (line,))


def test_what_a_conversation_says_itself_is_not_taken_out():
    """It may be about these very instructions."""
    line = f"- {prompts.OWN_WORDS[1][:150]}"
    source = task(f"{SOURCE.lines[0].text} It says {line}", *(each.text for each in SOURCE.lines[1:]))

    assert line in judged(f"{GOOD}\n{line}", source).text


def test_a_conversation_about_prompts_may_be_recorded():
    """Ours, for one."""
    told = f"{prompts.OWN_WORDS[1]} Use <|im_start|> there."
    source = task(f"{SOURCE.lines[0].text} The prompt says: {told}", *(line.text for line in SOURCE.lines[1:]))

    assert judged(f'{GOOD} The prompt said "{told}"', source).reasons == ()


@pytest.mark.parametrize("token", ["<|im_end|>", "<end_of_turn>\n", "</s>", "<|eot_id|><|endoftext|>"])
def test_what_ends_an_answer_is_no_part_of_it(token):
    """Some servers leave it there."""
    assert judged(GOOD + token)[:2] == (True, ())
    assert judged(GOOD + token).text == GOOD


def test_an_answer_that_holds_nothing_is_refused():
    """However well its words fit: of twenty things one is worth a word."""
    source = task("Look at " + " ".join(f"src/pkg/module_{n}.py" for n in range(20)), prose(2000))

    assert "nothing to do" in "; ".join(judged(" ".join(sorted(set(WORDS)) * 2), source).reasons)


def test_an_answer_that_cites_its_messages_is_about_them():
    """A short one may name none of twenty paths; the addresses stand nowhere but in what it has read."""
    source = task("Look at " + " ".join(f"src/pkg/module_{n}.py" for n in range(20)), prose(2000))
    text = "Several modules were looked at as msg_1 demanded, one by one; msg_2 tells at length how the worker reads its queue."

    assert judged(text, source)[:2] == (True, ())
    assert "nothing to do" in "; ".join(judged(text.replace("msg_", "part "), source).reasons)


def test_a_quoted_demand_is_no_echo():
    """One long sentence verbatim is what we ask for."""
    demand = prose(260)
    source = task(demand, prose(4000, 11))

    text = f'The user demanded: "{demand}" The assistant agreed, changed the worker, and reported success. {GOOD[:200]}'

    assert judged(text, source).reasons == ()


ASKED = (
    "I'd like to upgrade to economy class, please.",
    "Unfortunately, the passenger of a reservation cannot be changed. Is there anything else?",
    "I need the passenger to be my sister, Ana.",
    "The upgrade costs 60 dollars and is booked for May 27.",
    "Yes, please use the smaller gift card first.",
)


@pytest.mark.parametrize("between", [" ", " [msg_4] "], ids=["plain", "addresses"])
def test_words_of_several_messages_in_a_row_are_no_record(between):
    """Who said them is lost, so an offer reads like a decision."""
    source = task(*ASKED, prose(3000))

    assert judged(between.join(ASKED), source).reasons == ("it strings words of several messages together",)
    assert judged("\n".join(f"- {said}" for said in ASKED), source).reasons == ()


def test_a_record_that_quotes_what_users_demanded_strings_nothing_together():
    """Their own words are asked for."""
    source = task(*ASKED, prose(3000))
    quoted = f"The user asked: {ASKED[0]} {ASKED[2]} {ASKED[4]}"
    told = "The assistant refused to exchange the passenger, named the price, and booked the better class with the smaller card."

    assert judged(f"{quoted}\n{told} The user agreed to all of it; nothing was left open.", source).reasons == ()


def test_a_list_of_names_taken_over_is_no_echo():
    """Anchors of the children come again in the same order."""
    names = ", ".join(f"src/pkg{n}/file_{n}.py" for n in range(40))
    source = task(prose(3000), f"Anchors: {names}", prose(3000, 7))

    assert (
        judged(f"The workers were changed one after another and tested.\nNames and figures: {names}", source).reasons
        == ()
    )


@pytest.mark.parametrize("tokens", [160, 400, 2_000, 20_000, 200_000])
def test_the_band_leaves_room_for_a_summary(tokens):
    """The ceiling is well above the floor and below the source."""
    allowed = band(SummaryTask(0, (), tokens, max(100, tokens // 8)))

    assert allowed.floor * 2 < allowed.ceiling < tokens


# --------------------------------------------------------------------------------------------------------- suspects
@pytest.mark.parametrize(
    "invented",
    [
        *(
            "src/importer/walk.py",
            "/etc/passwd",
            "https://example.org/x",
            "import.toml",
            "max_rows",
            "ABC-9999",
            "msg_99",
        ),
        *("row 77777", "12,345 rows", "deadbeef42", "2023-07-19", "9081 rows", "500 rows", "12.345 rows"),
    ],
)
def test_what_the_source_lacks_is_a_suspect(invented):
    """Paths, numbers of three digits and more, identifiers, hashes, dates, addresses."""
    verdict = judged(GOOD.replace("The task is", f"It touched {invented}. The task is"))

    assert (verdict.ok, verdict.reasons, len(verdict.suspects)) == (False, (), 1)


@pytest.mark.parametrize(
    "word",
    [
        "goodrecapa:",
        "follow-up",
        "read/write",
        "e.g. this",
        "up-to-date",
        "12 files",
        "100 %",
        "user's",
        "Importer",
        "IMPORT",
    ],
)
def test_ordinary_words_are_no_suspects(word):
    """However unknown they are."""
    assert judged(f"{GOOD} It was {word} then.").ok


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ("5000 rows in src/a/b.py", "5,000 rows"),
        ("12,500 rows", "12500 rows"),
        ("5000 Zeilen", "5.000 Zeilen"),
        ("1.250,50 €", "1250,50 €"),
        ("12500 lignes", "12 500 lignes"),
        ("110,000 dollars", "110k"),
        ("250,000 readers", "250 thousand readers"),
        ("3.14159", "3.141"),
        ("am 3. Mai 2026", "2026-05-03"),
        ("le 1er août 2026", "2026-08-01"),
        ("el 20 de mayo de 2024", "20.05.2024"),
        ("on May 20th, 2024", "2024-05-20"),
        ("on 2024年5月20日", "2024-05-20"),
        ("the user message selector", "user-message-selector"),
        ("in /home/me/proj the file src/a.py", "/home/me/proj/src/a.py"),
        ("commit 9fceb02d0ae598e9", "9fceb02"),
    ],
)
def test_the_same_thing_in_another_spelling_is_no_suspect(there, here):
    """Models reformat numbers, dates and paths."""
    assert suspects(f"It was {here}.", Source(task(there)).evidence("")) == ()


def test_a_file_is_named_as_the_source_writes_it():
    """Upper and lower case tell files apart; a name that may be either of two is a suspect."""
    there = "Read README.md.", "It names docs/Setup.md and Readme.md, and src/app.py."
    told = "The assistant read README.md and Readme.md. In DOCS/setup.md nothing was found. Src/app.py was named too."
    right = "The assistant read README.md and Readme.md. In docs/Setup.md nothing was found. src/app.py was named too."

    assert judged(told, task(*there, prose(3000))).text == right
    assert judged(told, task(*there, prose(3000))).suspects == ()
    assert judged(told.replace("Readme.md", "readme.md"), task(*there, prose(3000))).suspects == ("readme.md",)


def read_only(*more: str) -> SummaryTask:
    """A source in which a file is read, and ``more`` is called or said."""
    return task(
        "What does src/config.py say?", "[calls read_file] path: src/config.py", "port = 8080\n" + prose(3000),
        *(each for one in more for each in ("go on", one, "ok")),
    )  # fmt: skip


READ_IT = "The user asked what src/config.py says. It sets port = 8080 for the worker. "


@pytest.mark.parametrize(
    ("claim", "named"),
    [
        ("Edited src/config.py.", "Edited src/config.py"),
        ("The assistant updated `src/config.py` for it.", "assistant updated `src/config.py"),
        ("src/config.py was deleted.", "src/config.py was deleted"),
        ("config.py has been rewritten.", "config.py has been rewritten"),
    ],
)
@pytest.mark.parametrize(
    "more",
    [
        "[calls terminal] command: cd src && cat config.py | grep port",
        "[calls write_file] path: src/other.py; content: x",
    ],
)
def test_a_change_of_a_file_that_was_only_read_is_a_suspect(claim: str, named: str, more: str) -> None:
    """Where all calls can be told: readers, and changes of other files."""
    assert judged(READ_IT + claim, read_only(more)).suspects == (named,)


@pytest.mark.parametrize(
    "more",
    [
        "[calls edit_file] path: src/config.py; old: 1; new: 2",
        "[calls patch] path: config.py; mode: replace",
        "[calls terminal] command: make format",
        "[calls terminal] command: sed -i s/80/90/ src/*.py",
        "[calls terminal] command: echo 1 > src/config.py",
        "[calls execute_code] code: run()",
        "[calls delegate_task] goal: do it",
        "[calls terminal] command: git status\nmodified: src/config.py",
        "I have changed the port in config.py.",
        "Ich habe den Port in config.py geändert: 90.",
        "config.py 里的端口是 90。",
    ],
)
def test_a_change_that_a_call_may_have_made_or_that_somebody_speaks_of_is_no_suspect(more: str) -> None:
    """What cannot be told is believed."""
    assert judged(READ_IT + "Edited src/config.py.", read_only(more)).suspects == ()


@pytest.mark.parametrize(
    "told",
    [
        "src/config.py was not edited.",
        "The user updated src/config.py themselves.",
        "The log says that Bob changed src/config.py.",
        "src/config.py should be edited next.",
        "src/config.py was written by Bob.",
        "It is asked whether config.py was changed.",
    ],
)
def test_a_change_that_is_only_reported_or_wanted_is_no_suspect(told: str) -> None:
    """It is no deed of the agent."""
    assert judged(READ_IT + told, read_only("I see.")).suspects == ()


def test_what_the_prompt_says_is_no_suspect():
    """Times and addresses stand in the prompt only."""
    assert check(
        Source(SOURCE),
        Reply(GOOD + " It began on 2023-11-14 (msg_1)."),
        count=count,
        prompt="msg_1 | user | 2023-11-14 22:13 UTC",
    ).ok


def test_what_only_a_memory_plugin_knows_is_a_suspect():
    """The model reads it for orientation; in a record it would be told as an event of this conversation."""
    source = replace(SOURCE, memory_context="The importer's table is rows_of_2019.")
    prompt = prompts.build(source, max_chars=10_000).evidence

    verdict = check(Source(source), Reply(f"{GOOD} Its table is rows_of_2019."), count=count, prompt=prompt)

    assert verdict.suspects == ("rows_of_2019",)


def test_striking_takes_out_the_sentence_and_nothing_else():
    """And says what it took."""
    text, struck = strike(
        "One is fine. Two is in src/x.py now. Three is fine.\n- four\n- five of src/x.py", ("src/x.py",)
    )

    assert text == "One is fine. Three is fine.\n- four"
    assert struck == ("Two is in src/x.py now.", "- five of src/x.py")


def test_striking_takes_single_items_out_of_a_list():
    """A line of names loses one name."""
    text, struck = strike("Names and figures: a/b.py, c/d.py, 4711, e/f.py, done", ("c/d.py",))

    assert (text, struck) == ("Names and figures: a/b.py, 4711, e/f.py, done", ("c/d.py",))


# ------------------------------------------------------------------------------------------------------------ recall
def test_what_is_missing_becomes_anchors():
    """Machine-made, and found by a search."""
    verdict = judged(
        "The user wanted the importer fixed and the backups kept. The assistant lowered a limit, and the task was finished."
    )

    assert verdict.ok
    assert verdict.anchors.startswith("Anchors: ")
    assert {"src/importer/run.py", "ABC-4711", "config/import.yaml"} <= set(
        verdict.anchors.removeprefix("Anchors: ").split(", ")
    )
    assert verdict.recall < 0.4 < verdict.recall_with_anchors


def test_anchors_stand_in_the_order_of_the_source_and_names_of_fields_last():
    """What was named together stands together; a schema says nothing of the case."""
    users = [f"user_{n}_named" for n in range(12)]
    rows = [
        f'{{"reservation_code": "RES{n}X", "owner_name": "{user}", "total_paid": {n}000, "saved_passengers": []}}'
        for n, user in enumerate(users)
    ]
    source = task(*(text for row in rows for text in ("look it up", "I look.", row)), prose(1500), target=400)
    told = "The user asked for one thing after the other. The assistant looked each of them up, and told what it had found of it."
    verdict = judged(told, source)
    anchors = verdict.anchors.removeprefix("Anchors: ").split(", ")
    pairs = [(f"RES{n}X", user) for n, user in enumerate(users) if user in anchors]

    assert pairs
    assert all(anchors[at + 1] == user for code, user in pairs if (at := anchors.index(code)) >= 0)
    assert "saved_passengers" not in anchors[: 2 * len(pairs)]


def test_anchors_never_outgrow_the_source():
    """Text and anchors together stay within the band."""
    source = task(" ".join(f"src/pkg{n}/file_{n}.py" for n in range(60)), prose(300), target=80)
    verdict = judged(
        "The user named sixty files. The assistant listed them one after another, and nothing else was done with them.",
        source,
    )

    assert count(verdict.text) + count(verdict.anchors) <= band(source).ceiling < source.source_tokens


def test_the_verdict_is_kept_as_bounded_json():
    """With the node, for lcm_describe."""
    verdict = judged(GOOD + " " + " ".join(f"x/y_{n}.py" for n in range(1000, 1400)))

    assert len(json.dumps(verdict.as_dict(), ensure_ascii=False)) < 4000
    assert set(verdict.as_dict()) >= {"ok", "reasons", "suspects", "recall", "missing", "struck"}


# ------------------------------------------------------------------------------------------------------------ robust
@settings(max_examples=60)
@given(
    st.text(max_size=1500),
    st.lists(st.text(max_size=300), max_size=4),
    st.sampled_from(["stop", "length", "", "whatever"]),
    st.booleans(),
    st.integers(-5, 500),
)
def test_no_answer_is_too_strange(text, source, finish, reasoning, target):
    """Whatever a model writes about whatever there was: a verdict, as JSON, and never an exception."""
    verdict = check(
        Source(task(*source, target=target)),
        Reply(text, finish, reasoning_only=reasoning),
        count=count,
        prompt=text[:50],
    )

    assert verdict.as_dict()["ok"] in (True, False)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "piece", ["Here is ", "- ", "a/b.py ", "I'm sorry ", "expand for details about: ", "```\n", ". ", ", "]
)
def test_judging_takes_linear_time(piece):
    """Whatever an answer repeats."""

    def judge(text):
        judged(text)
        tidy(text)

    assert linear.excess(judge, piece * (30_000 // len(piece)), piece * (150_000 // len(piece))) <= linear.LIMIT


@pytest.mark.parametrize("piece", ["a-", "a/", "a.", "é", "\n"])
def test_looking_for_claims_takes_linear_time(piece):
    """One word may be very long, as a path or a digest that a tool showed."""

    def judge(text):
        claims.unfounded(text, SOURCE)

    assert linear.excess(judge, piece * (4_000 // len(piece)), piece * (20_000 // len(piece))) <= linear.LIMIT


@pytest.mark.parametrize("named", ["row-90817", "msg_1..msg_3", "5000-row", "importer-250"])
def test_what_is_put_together_of_known_parts_is_no_suspect(named: str) -> None:
    """A range of addresses, a word and its number."""
    source = task("the importer reads 5000 rows in a batch; row 90817 fails", "now 250", prose(3000))

    assert judged(f"{GOOD_OF_ROWS} {named}.", source).suspects == ()


@pytest.mark.parametrize("named", ["row-90818", "ABC-90817", "msg_1..msg_99", "port_90817"])
def test_what_is_put_together_of_something_else_is_one(named: str) -> None:
    """An invented number, a ticket, an address, a name."""
    source = task("the importer reads 5000 rows in a batch; row 90817 fails", "now 250", prose(3000))

    assert judged(f"{GOOD_OF_ROWS} {named}.", source).suspects == (named,)


def test_a_number_within_a_longer_one_has_an_anchor_of_its_own() -> None:
    """Port 443 is not said by 7443."""
    source = Source(task("The gateway listens on 7443 and the proxy on 443."))

    assert anchor_line(source.items, source, room=100, count=count) == "Anchors: 7443, 443"
