"""The extract that needs no model: what it keeps, and what it must not copy."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lcm.compaction.plan import target_tokens
from hermes_lcm.llm.extract import Digest
from hermes_lcm.llm.extract import digest as digest_of
from hermes_lcm.llm.source import Haystack, Source, recall
from hermes_lcm.records import SourceLine, SummaryTask
from hermes_lcm.text import salience
from hermes_lcm.text.tokens import count


def task(*lines: tuple[str, str], target: int = 300, depth: int = 0) -> SummaryTask:
    made = tuple(SourceLine(f"msg_{n}", role, text, tokens=count(text)) for n, (role, text) in enumerate(lines, 1))
    return SummaryTask(depth, made, sum(line.tokens for line in made), target)


def digest(what: SummaryTask) -> Digest:
    return digest_of(Source(what), count=count)


LOG = "\n".join(f"{n:05d} line of output about nothing in particular, number {n * 7919 % 10007}" for n in range(400))
WORK = (
    ("user", "Port the login form to the new framework. Never touch legacy/auth.php."),
    ("assistant", 'I will read it first.\n[calls terminal] {"command": "cat web/login.tsx"}'),
    ("tool", LOG[:12_000] + "\nERROR: cannot resolve module ./theme (web/login.tsx:41)\n" + LOG[12_000:24_000]),
    (
        "assistant",
        "The root cause is a missing alias, so I decided to add it to vite.config.ts. Still need to update the tests.",
    ),
    ("user", "Good. Please use port 8123 for the preview."),
    ("assistant", "Done: the preview runs on port 8123 and the form is ported."),
)


@pytest.mark.parametrize(
    "kept",
    [
        "Port the login form to the new framework.",
        "Never touch legacy/auth.php.",
        "cat web/login.tsx",
        "cannot resolve module ./theme",
        "decided to add it to vite.config.ts",
        "Still need to update the tests",
        "Please use port 8123",
        "the form is ported",
    ],
)
def test_it_keeps_what_matters(kept):
    """Requests, demands, commands, errors, decisions, open points and the last state, verbatim."""
    assert kept in digest(task(*WORK, target=500)).text


def test_it_says_what_it_is():
    """Nobody takes it for a summary."""
    assert digest(task(*WORK)).text.startswith("Extract made without a model (msg_1 to msg_6).")


@pytest.mark.parametrize("target", [60, 200, 600, 3000], ids="target={}".format)
def test_it_stays_within_its_target(target):
    """Also a digest has a budget."""
    extract = digest(task(*WORK, target=target))

    assert count(extract.text) <= target * 1.1 + 10


@pytest.mark.parametrize("target", [300, 3000])
def test_no_long_stretch_of_a_tool_result_is_copied(target):
    """An echo of a tool result is no extract; 300 characters in one piece are the most."""
    source = task(
        *WORK,
        ("tool", "Error: " + "x y z " * 3000),
        ("tool", '{"error": "' + LOG[:9000].replace("\n", " ") + '"}'),
        target=target,
    )
    text = digest(source).text
    longest = [
        difflib.SequenceMatcher(None, text, line.text[:9000], autojunk=False).find_longest_match().size
        for line in source.lines
        if line.role == "tool"
    ]

    assert max(longest) <= 300


def test_what_the_sentences_lack_is_anchored():
    """Recall comes from names, which are cheap."""
    facts = [
        (role, f"{text} see pkg{n}/mod_{n}.py and run {n * 1009 + 100}")
        for n in range(12)
        for role, text in [("assistant", "then")]
    ]
    source = task(("user", "Look around."), *facts, ("tool", LOG), target=400)
    extract = digest(source)

    assert extract.recall >= 0.95
    assert extract.recall == recall(salience.salient(map(salience.Reading, source.lines)), Haystack(extract.text))[0]


def test_it_condenses_extracts():
    """One depth up: sections stay sections, addresses stay, and the machine's own lines are not quoted."""
    below = [digest(task(*WORK, target=400)).text for _ in range(2)]
    text = digest(task(*(("summary", part) for part in below), target=500, depth=1)).text

    assert text.count("Extract made without a model") == 1
    assert text.count("Anchors: ") <= 1
    assert text.count("Please use port 8123 for the preview. (msg_5)") == 1
    assert text.index("The user asked and demanded:") < text.index("Decisions and findings:")


def test_the_parts_of_another_record_are_not_named():
    """What an extract was made of is numbered in it; in the next one these numbers would mean other records."""
    said = "Record:\n- The importer was slow because of its cache. (part_3)"
    text = digest(task(("summary", said), ("summary", "The scheduler was fixed.\n" * 20), depth=1)).text

    assert "- The importer was slow because of its cache. (msg_1)" in text


def test_chinese_is_extracted_too():
    """Sentences, dates and addresses."""
    source = task(
        ("user", "请不要修改配置文件 conf/app.toml。会议在10月23日。"), ("assistant", "好的,已经完成修改。" * 30)
    )

    assert "请不要修改配置文件 conf/app.toml。" in digest(source).text


def test_it_has_a_hint():
    """So that the reader knows what to expand."""
    assert "vite.config.ts" in digest(task(*WORK)).hint


def test_nothing_makes_an_empty_extract():
    """Not an exception."""
    assert digest(SummaryTask(0, (), 0, 100)).text == ""


def test_with_its_own_room_an_extract_of_extracts_keeps_nearly_everything():
    """Names and demands of messages survive two condensations."""
    lines = [
        SourceLine(f"msg_{n}", role, text, tokens=count(text))
        for n in range(64)
        for role, text in (
            ("user", f"Please fix src/pkg{n}/mod_{n}.py. Never touch table_{n} of it."),
            (
                "assistant",
                f"The cause was cache_{n * 37 + 100}. " + "I looked at the next part of it and went on. " * 30,
            ),
        )
    ]
    records = [tuple(lines[n : n + 8]) for n in range(0, len(lines), 8)]
    for depth in range(3):
        made = []
        for part in records:
            size = sum(line.tokens for line in part)
            extract = digest(SummaryTask(depth, part, size, target_tokens(size, depth, extractive=True)))
            made.append(SourceLine("part_1", "summary", extract.text, tokens=count(extract.text)))
        records = [tuple(made[n : n + 4]) for n in range(0, len(made), 4)]

    share, _ = recall(salience.salient(map(salience.Reading, lines)), Haystack(made[0].text))
    assert (len(made), share >= 0.75, made[0].tokens < sum(line.tokens for line in lines) / 8) == (1, True, True)


@settings(max_examples=80)
@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "tool", "summary", "host", "?"]), st.text(max_size=300)),
        max_size=6,
    ),
    st.integers(0, 400),
)
def test_no_source_is_too_strange(lines, target):
    """It always succeeds: it is the last rung."""
    extract = digest(task(*lines, target=target))

    assert 0.0 <= extract.recall <= 1.0
