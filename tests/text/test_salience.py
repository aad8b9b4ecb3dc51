"""What counts as worth keeping, and that reading it takes linear time."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from worlds import linear

from hermes_lcm.llm.source import Haystack, recall
from hermes_lcm.records import SourceLine
from hermes_lcm.text import salience
from hermes_lcm.text.salience import Item, Reading, kind_of, phrases, terms


def salient(lines):
    """Items of lines that nobody has read yet."""
    return salience.salient(map(Reading, lines))


def line(role: str, text: str, n: int = 1) -> SourceLine:
    return SourceLine(f"msg_{n}", role, text)


def found(text: str, kind: str) -> list[str]:
    return [item.text for item in terms(text).values() if item.kind == kind]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("see src/auth/login.py, please", "path", ["src/auth/login.py"]),
        ("in /etc/hosts:12 and ~/notes.md.", "path", ["/etc/hosts", "~/notes.md"]),
        ('{"path":"a/b/c.ts"}', "path", ["a/b/c.ts"]),
        ("C:\\Users\\me\\x.txt", "path", ["C:\\Users\\me\\x.txt"]),
        ("go to https://example.com/a?b=1.", "url", ["https://example.com/a?b=1"]),
        ("call fetch_rows and http.client and max-retries-2", "identifier", ["fetch_rows", "http.client", "max-retries-2"]),
        ("parseConfig failed for user mia@example.org", "identifier", ["parseConfig", "mia@example.org"]),
        ("paid $12,345 for 250ms and 7 things", "number", ["$12,345", "250ms"]),
        ("commit 9fceb02d0ae598e95dc970b74767f19372d61af8 or 9fceb02", "hash",
         ["9fceb02d0ae598e95dc970b74767f19372d61af8", "9fceb02"]),
        ("on 2024-05-20T10:00:00Z and 2024/5/2", "date", ["2024-05-20", "2024/5/2"]),
        ("raised ECONNREFUSED, then ValueError", "error", ["ECONNREFUSED", "ValueError"]),
    ],
    ids=lambda value: str(value)[:24],
)  # fmt: skip
def test_a_word_is_known_by_its_shape(text, kind, expected):
    """Punctuation around it does not matter."""
    assert found(text, kind) == expected


@pytest.mark.parametrize(
    "word", ["and/or", "well-known", "e.g", "done.Next", "12", "the", "Hello", "read-only", "---", "..."]
)
def test_ordinary_words_are_not_salient(word):
    """Hyphens, slashes and dots occur in prose."""
    assert kind_of(word) == ""


@pytest.mark.parametrize(
    "text",
    [
        "</div>", "s/undefined,$/defaultTheme,/g", "sed -i s/0,/", "/\\t/g", "/^abc/i", "/abc/.test(x)", "\\x1b[31mfailed",
        "\x1b[31mfailed\x1b[0m",
    ],
)  # fmt: skip
def test_what_stands_between_slashes_in_code_is_no_path(text):
    """Closing tags, patterns, substitutions, and colours of a terminal."""
    assert terms(text) == {}


def test_an_escaped_line_end_is_no_part_of_a_path():
    """Code holds paths so."""
    found = terms("print('/usr/bin/env\\n') and '\\n/opt/lib/a.so'")

    assert [item.text for item in found.values()] == ["/usr/bin/env", "/opt/lib/a.so"]


def test_dates_and_quotations_in_prose_are_read():
    """In words, with units behind a blank, and in Chinese."""
    got = phrases('On May 20th, 2024 he said "use tabs" after 30 minutes; 会议在2024年4月1日,关于「预算」。')

    assert {item.text for item in got.values()} == {"May 20th, 2024", "30 minutes", "use tabs", "2024年4月1日", "预算"}


def test_quotation_marks_in_calls_and_code_are_syntax():
    """They quote nobody."""
    assert not phrases('[calls terminal] {"command": "ls"}\n```py\nx = "y z"\n```')


@pytest.mark.parametrize(
    "sentence",
    [
        "Never push to main.",
        "Please use tabs",
        "do not touch it",
        "add a test",
        "不要改配置",
        "必ず確認してください",
        "I want blue",
    ],
)
def test_directives_are_told_by_their_words(sentence):
    """Imperatives, wishes and prohibitions."""
    assert Reading(line("user", sentence)).directives(5) == (sentence,)


@pytest.mark.parametrize("sentence", ["The tests passed.", "It was late", "今天天气好"])
def test_statements_are_no_directives(sentence):
    """Nobody is told to do anything."""
    assert Reading(line("user", sentence)).directives(5) == ()


def test_open_points_are_found_from_the_end():
    """The newest ones count."""
    text = "TODO one.\nTODO two.\nAll fine.\nStill need the docs."

    assert Reading(line("user", text)).open_points(2) == ("TODO two.", "Still need the docs.")


def test_a_long_listing_has_no_thousand_facts():
    """Of a long tool result count its telling lines and what somebody spoke about."""
    listing = (
        "\n".join(f"src/pkg/file_{n}.py" for n in range(1000))
        + "\nERROR in src/pkg/broken.py: exit code 3\n"
        + "x\n" * 200
    )
    items = {item.text for item in salient([line("tool", listing), line("user", "open src/pkg/file_7.py")])}

    assert {"src/pkg/broken.py", "src/pkg/file_7.py"} <= items
    assert len(items) < 20


def test_what_the_user_demands_ranks_first():
    """Before names and numbers."""
    items = salient([line("assistant", "see src/a.py and 12345"), line("user", "Never use tabs in src/a.py.", 2)])

    assert items[0].kind == "directive"


def test_recall_counts_terms_exactly_and_sentences_by_their_words():
    """A number inside a longer one does not count."""
    items = [Item("number", "123", "123"), Item("path", "a/b.py", "a/b.py"),
             Item("directive", "never push secrets to main", "never push secrets to main")]  # fmt: skip
    share, missing = recall(items, Haystack("Main: secrets must NEVER be pushed (push) to it; 51234; A/B.py"))

    assert (round(share, 2), [item.text for item in missing]) == (0.67, ["123"])


HOSTILE = {
    "letters": "a", "dashes": "a-", "slashes": "/a", "commas": "1,", "quotes": '"a', "ticks": "`", "urls": "://a",
    "assignments": "a=b,", "blanks": " ", "line ends": "\n", "calls": "[calls a\n", "fences": "```\n", "dots": "1.",
    "months": "May ", "days": "12 of ", "sentence ends": ". ", "errors": "AError", "cjk": "「", "capitals": "E", "tildes": "~/",
    "colons": "a:b:", "todos": "TODO ", "list marks": "- ", "tabs": "\t\n",
    "backslashes": "\\",
}  # fmt: skip


@pytest.mark.few(9)
@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
def test_reading_takes_linear_time(piece):
    """Whatever the text repeats."""

    def read(text: str) -> None:
        salient([line("user", text), line("assistant", text), line("tool", text)])
        salience.normal(text)

    assert linear.excess(read, piece * (8000 // len(piece)), piece * (40_000 // len(piece))) <= linear.LIMIT


def test_a_huge_text_is_read_at_both_ends():
    """Bounded by size: reading must not take longer than summarising."""
    text = "first_name " + "x " * salience.MAX_CHARS + "last_name"

    assert {"first_name", "last_name"} <= set(terms(text))


@given(st.text(max_size=400), st.sampled_from(["user", "assistant", "tool", "summary", "host"]))
def test_no_text_is_too_strange(text, role):
    """Surrogates, control characters, nothing at all: items with keys, no exception."""
    assert all(item.key for item in salient([line(role, text)]))


@given(st.text(max_size=300))
def test_a_text_holds_all_of_its_own_items(text):
    """Recall of a text by itself is complete."""
    share, _ = recall(salient([line("assistant", text)]), Haystack(text))

    assert share == 1.0


@pytest.mark.parametrize("before", range(135, 150))
def test_half_a_name_is_no_name(before):
    """Of a long result the end is read, and of a line in it the beginning: what such a border cuts is left out."""
    told = "error " + "- " * before + "customer_number was wrong"
    result = f"{told}\n{'so it goes, ' * 80}{'- ' * 60}payment_id {'- ' * (before // 2)}"

    assert set(Reading(line("tool", result)).items()) <= {"customer_number", "payment_id"}


@given(
    st.text(alphabet="ab_. ", max_size=60), st.integers(-5, 70), st.integers(-5, 70), st.sampled_from(["", " c" * 200])
)
@example("a name_of_it", 0, 8, " c" * 200)
@example("__", 1, -1, " c" * 200)
def test_a_stretch_has_whole_words(text, start, stop, behind):
    """Those that stand between the places, unless one word is all there is; also near the beginning of a long text."""
    text += behind
    words = salience.stretch(text, start, stop).split()

    assert set(words) <= set(text.split())


# -- pauses of a thread that reads long texts ------------------------------------------------------------------------
def test_a_thread_pauses_every_two_milliseconds_and_not_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is told that it may."""
    now, pauses = [time.monotonic() + 1.0], list[float]()
    monkeypatch.setattr(
        salience, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: pauses.append(now[0]))
    )
    for _ in range(1000):
        now[0] += 0.0001
        salience.pause()

    assert 45 <= len(pauses) <= 50


def test_each_thread_has_its_own_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that just paused keeps no other from it."""
    pauses = list[int]()
    monkeypatch.setattr(
        salience,
        "time",
        SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: pauses.append(threading.get_ident())),
    )
    salience.pause()
    other = threading.Thread(target=salience.pause)
    other.start()
    other.join()

    assert other.ident in pauses


def test_what_is_quoted_in_a_line_is_not_divided() -> None:
    """It is somebody's words as a whole; a sign of inches opens no quotation."""
    text = 'He says: "Wait. I come." and sits. A 5" disk is full. Take a 3" disk. “One. Two.”'

    assert list(salience.sentences(text)) == [
        'He says: "Wait. I come." and sits.', 'A 5" disk is full.', 'Take a 3" disk.', "“One. Two.”",
    ]  # fmt: skip


@pytest.mark.parametrize("mark", '"“«„「')
def test_marks_that_begin_quotations_without_end_cost_little_more_than_letters(mark: str) -> None:
    """Behind each of them no end is looked for through all that may be quoted."""
    plain = linear.least(lambda: list(salience.sentences("a. " * 7000)))

    assert linear.least(lambda: list(salience.sentences(mark * 21_000))) < 5 * max(plain, linear.FLOOR_S)


def test_whoever_reads_sentences_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is taken apart is a long one more often than not."""
    pauses = list[int]()
    monkeypatch.setattr(salience, "pause", lambda: pauses.append(1))

    assert list(salience.sentences("One thing. Another one.")) == ["One thing.", "Another one."]
    assert pauses == [1]


@pytest.mark.parametrize("said", ["Ja, mach das.", "Да, сделай.", "Vale, adelante.", "ja mach weiter"])
def test_who_says_do_it_agrees_in_any_language(said: str) -> None:
    assert salience.is_acknowledgement(said)


@pytest.mark.parametrize(
    "said", ["Nein, lösch das.", "No, bórralo.", "Non, supprime-le.", "Нет, удалите.", "Não, apague isso."]
)
def test_who_says_what_to_do_wants_something_in_any_language(said: str) -> None:
    assert not salience.is_acknowledgement(said)
