"""The guard: what is no text is found wherever it stands, what is text is left alone, and nothing is lost."""

from __future__ import annotations

import base64
import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import linear

from hermes_lcm.text import blobs, explore
from hermes_lcm.text.blobs import Ref

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("LCM_DATA") or ROOT.parent / "shared" / "data")
RAW = random.Random(1).randbytes(6000)
BLOB = base64.b64encode(RAW).decode()
WRAPPED = base64.encodebytes(RAW).decode()


def only(text: str) -> str:
    """The one run of a text."""
    (span,) = blobs.spans(text)
    return text[span.start : span.stop]


SHAPES = {
    "plain": (f"look: {BLOB} end", BLOB),
    "data uri": (f"<img src='data:image/png;base64,{BLOB}'>", f"data:image/png;base64,{BLOB}"),
    "uri with parameters": (
        f"(data:text/plain;charset=utf-8;base64,{BLOB})",
        f"data:text/plain;charset=utf-8;base64,{BLOB}",
    ),
    "wrapped": (f"head\n\n{WRAPPED}\n\ntail", WRAPPED.rstrip("\n")),
    "wrapped with CRLF": ("head. " + WRAPPED.replace("\n", "\r\n"), WRAPPED.replace("\n", "\r\n").rstrip("\r\n")),
    "JSON-escaped": (json.dumps({"a": WRAPPED}), json.dumps(WRAPPED)[1:-3]),
    "twice escaped": (json.dumps({"a": json.dumps(WRAPPED)}), json.dumps(json.dumps(WRAPPED))[3:-6]),
    "escaped slashes": ('{"a": "' + BLOB.replace("/", "\\/") + '"}', BLOB.replace("/", "\\/")),
    "url-safe": (f"t={base64.urlsafe_b64encode(RAW).decode()}&", base64.urlsafe_b64encode(RAW).decode()),
}


@pytest.mark.parametrize(("text", "run"), SHAPES.values(), ids=SHAPES)
def test_encoded_bytes_are_found(text: str, run: str) -> None:
    """Plain, wrapped, escaped, inside whatever."""
    assert only(text) == run


def test_the_last_padding_belongs_to_the_run() -> None:
    """Or what is left over would be no base64."""
    text = base64.b64encode(RAW[:3001]).decode()
    assert only(f"{text} x") == text


LOOKALIKES: dict[str, str] = {
    "hashes, one a line": "\n".join(random.Random(n).randbytes(32).hex() for n in range(300)),
    "one long hex text": RAW.hex(),
    "words, one a line": "\n".join(f"word{n}" * 3 for n in range(2000)),
    "prose": "The quick brown fox jumps over the lazy dog. " * 400,
    "minified code": 'var a=function(b,c){return b?c:d(e.f,"g")};' * 300,
    "a ruler": "-" * 9000,
    "bases": "ACGTTGCA" * 1000,
    "paths": "\n".join(f"com/example/SomeVeryLongClassName{n:05d}FactoryBeanThing" for n in range(900)),
    "backslashes": "\\" * 9000,
    "a short blob": BLOB[:1500],
    "numbers": ",".join(map(str, range(5000))),
}


@pytest.mark.parametrize("text", LOOKALIKES.values(), ids=LOOKALIKES)
def test_text_is_left_alone(text: str) -> None:
    """What a person or a program wrote is no payload."""
    assert blobs.spans(text) == []


def texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(item)


def messages() -> Iterator[str]:
    """Texts of real conversations."""
    for path in sorted(DATA.rglob("*.json*")) + sorted(DATA.rglob("*.traj")):
        said = path.read_text(encoding="utf-8")
        for part in said.splitlines() if path.suffix == ".jsonl" else [said]:
            yield from texts(json.loads(part))


@pytest.mark.skipif(not DATA.is_dir(), reason="no folder of real conversations (LCM_DATA)")
def test_ordinary_messages_hold_no_payloads() -> None:
    """No false positive on two thousand messages; the longest ones are the likeliest to hold one."""
    longest = sorted(messages(), key=len, reverse=True)[:2000]
    found = [(text[s.start : s.stop][:60], s.stop - s.start) for text in longest for s in blobs.spans(text)]

    assert len(longest) == 2000
    assert [each for each in found if not each[0].startswith("data:")] == []


_STRETCHES = st.lists(
    st.tuples(
        st.sampled_from(["a", "Ab3+", "é", "漢", " ", "-", "\n", "😀x"]), st.sampled_from([1, 7, 60, 130, 300, 700])
    ),
    max_size=14,
)


def test_a_sample_is_looked_at_every_step() -> None:
    """A run of 128 characters is seen exactly where a sample lies in it, in a text of any length."""
    for size in (2048, 40_000, 700_000):
        for at in (0, 512, 513, 1024 + 384, size // 512 * 512 - 512, size - 128, size - 127):
            text = (" " * at + "Ab3+" * 32 + " " * size)[:size]
            assert blobs.suspicious(text) == (at % 512 == 0 and at + 128 <= size), (size, at)


@given(_STRETCHES)
@settings(max_examples=120)
def test_bytes_are_as_suspicious_as_their_text(stretches: list[tuple[str, int]]) -> None:
    """Characters count, not bytes."""
    text = "".join(part * times for part, times in stretches)

    assert blobs.suspicious(text.encode()) == blobs.suspicious(text)


# -- folding ---------------------------------------------------------------------------------------------
class Shelf(dict[str, str]):
    """Keeps texts by digest."""

    def keep(self, text: str, kind: str, mime: str) -> Ref:
        from hashlib import sha256

        raw = text.encode("utf-8", "surrogatepass")
        ref = Ref(sha256(raw).hexdigest(), kind, mime, len(raw))
        self[ref.sha] = text
        return ref

    def text(self, ref: Ref) -> str | None:
        return self.get(ref.sha)


KINDS = frozenset((blobs.TEXT, blobs.DATA_URI, blobs.BASE64, blobs.LITERAL))
LITERAL = str(Ref("ab" * 32, blobs.BASE64, "image/png", 5))
piece = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [BLOB, WRAPPED, f"data:image/png;base64,{BLOB}", json.dumps(WRAPPED), LITERAL, LITERAL[:40], "[lcm:file "]
    ),
    st.binary(min_size=1600, max_size=3000).map(lambda raw: base64.b64encode(raw).decode()),
)


@given(st.lists(piece, max_size=6).map("".join))
def test_what_was_folded_unfolds_to_the_same_text(text: str) -> None:
    """Payloads, text around them, and text that only looks like a placeholder."""
    shelf = Shelf()
    assert blobs.unfold(blobs.fold(text, shelf.keep), shelf.text, kinds=KINDS) == text


def test_a_payload_that_cannot_be_kept_stays() -> None:
    """Failure to write loses nothing."""
    assert blobs.fold(f"x {BLOB}", lambda *_: None) == f"x {BLOB}"


HOSTILE = {
    "backslashes": "\\" * 5_000_000,
    "line ends": "\n" * 5_000_000,
    "almost runs": ("a" * 2000 + " ") * 2500,
    "lines of two lengths": ("aB3" * 15 + "\n" + "x" * 44 + "\n") * 55_000,
    "escaped line ends": ("x" * 50 + "\\n") * 100_000,
    "a blob": base64.b64encode(random.Random(2).randbytes(3_700_000)).decode(),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_five_megabytes_of_anything_are_looked_through_at_once(text: str) -> None:
    """Linear, whatever it is."""
    assert linear.excess(blobs.spans, text[: len(text) // 5], text) <= linear.LIMIT


# -- exploring -------------------------------------------------------------------------------------------
LOOKS = {
    "json": (json.dumps({"users": [{"name": "Ada"}], "total": 12}), "$.total: 12"),
    "table": ("name,age,town\nAda,36,London\nBob,3,Paris\nEve,9,Rome", "3 columns"),
    "log": (
        "2026-01-02 10:00:00 start\n2026-01-02 10:00:01 ERROR disk gone\n2026-01-02 10:00:02 end",
        "ERROR disk gone",
    ),
    "code": ("import os\ndef one():\n    pass\nclass Two:\n    def three(self): ...\n", "class Two:"),
    "markup": ("<html><p>a</p><p>b</p></html>", "p × 2"),
    "text": ("# Title\nsome words\n## Part\nmore", "## Part"),
}


@pytest.mark.parametrize(("kind", "case"), LOOKS.items(), ids=LOOKS)
def test_a_description_says_what_there_is(kind: str, case: tuple[str, str]) -> None:
    """Kind of text, and what someone would look for in it."""
    text, holds = case
    found, said = explore.explore(text)

    assert found == kind
    assert holds in said


@given(st.text())
def test_descriptions_are_short(text: str) -> None:
    """Whatever the text."""
    assert len(explore.explore(text)[1]) <= explore.MOST_CHARS


_LINES = st.lists(
    st.sampled_from(
        ["Error: x", "TERROR", "errors", "it fa\u0131led", "FA\u0130LED", "refu\u017fed", "no Warning.", "panicked",
         "fatal\x85é", "漢字", "", "x" * 5000 + " error", "plain"]
    ),
    min_size=5, max_size=12,
)  # fmt: skip


@given(_LINES)
def test_lines_that_speak_of_errors_are_all_counted(lines: list[str]) -> None:
    """By whole words in letters of any case, also those that merely fold to them."""
    words = re.compile(r"\b(error|fatal|failed|panic|refused|warning)\b", re.IGNORECASE)
    told = "\n".join(["2026-01-02 start"] * len(lines) * 2 + lines)
    count = sum(1 for line in told.splitlines() if len(line) < 4000 and words.search(line))
    kind, said = explore.explore(told)

    assert kind == "log"
    assert (f"lines that speak of errors: {count}\n" in said) if count else ("speak of errors" not in said)


@pytest.mark.parametrize("value", ["null", "false", "0", '""', "[]", "{}"])
def test_a_line_that_says_there_was_no_error_is_no_line_of_an_error(value: str) -> None:
    """One that names another error beside it is."""
    quiet, loud = f'{{"job": 7, "error": {value}}}', f'{{"error": {value}, "output": "connection refused"}}'
    said = explore.explore("\n".join(["2026-01-02 start"] * 9 + [quiet, quiet, loud]))[1]

    assert "lines that speak of errors: 1\n" in said
    assert quiet not in said.partition("lines that speak")[2]


@pytest.mark.parametrize("behind", ["", "\n", " " * 5000])
def test_json_is_described_whatever_blanks_stand_behind_it(behind: str) -> None:
    """Its end tells whether all of it is there."""
    assert explore.explore(json.dumps({"a": [1]}) + behind)[0] == "json"
    assert explore.explore(json.dumps({"a": [1]})[:-1] + behind)[0] != "json"


def test_huge_fields_are_no_table() -> None:
    """Lines of more characters than the reader of tables takes are described all the same."""
    kind, said = explore.explore("\n".join(["a,b,c" + "x" * 200_000] * 5))

    assert kind == "text"
    assert said.startswith("text, 1,000,029 characters, 5 lines")


def test_a_large_log_is_described_by_its_first_and_last_lines() -> None:
    """Whole ones; it says how much lies between that nobody looked at."""
    lines = [f"2026-01-02T10:00:00 INFO step {n}" for n in range(20_000)] + ["2026-01-02T11:00:00 ERROR out of memory"]
    kind, said = explore.explore("\n".join(lines))
    left_out = int(re.search(r"but for ([\d,]+) characters in the middle", said)[1].replace(",", ""))  # type: ignore[index]

    assert (kind, left_out > 300_000) == ("log", True)
    assert f"from: {lines[0]}\nto: {lines[-1]}\nlines that speak of errors: 1\n{lines[-1]}" in said


@pytest.mark.parametrize("word", ["first", "second", "third"])
def test_an_offset_behind_placeholders_is_found_in_the_original(word: str) -> None:
    """What a search finds in the short form is continued in the long one."""
    shelf = Shelf()
    text = f"first {BLOB} second {BLOB[:3000]} third"
    short = blobs.fold(text, shelf.keep)

    assert blobs.in_original(short, short.index(word)) == text.index(word)
