"""Who a message is, and that the whole of it comes back (P1)."""

from __future__ import annotations

import copy
import json
import math
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import linear
from worlds.process import chat, equal, flatten, reload

from hermes_lcm.records import Flag
from hermes_lcm.text import content

SWITCHED = "[Note: model was just switched from x to y via Z. Adjust your self-identification accordingly.]"
TODO = "[Your active task list was preserved across context compression]\n- [>] 1. Fix the parser (in_progress)"


def who(message: dict[str, Any]) -> bytes:
    return content.read_message(message).digest


def user(text: Any, **keys: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **keys}


def call(arguments: Any = "{}", name: str = "terminal", id: str = "c1", **keys: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": id, "function": function, **keys}]}


# -- the same message ------------------------------------------------------------------------------------------------


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SAME: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "outer blanks": (user("  look \n"), user("look")),
    "line ends": (user("a\r\nb\rc"), user("a\nb\nc")),
    "composed letters": (user("cafe\u0301"), user("caf\u00e9")),
    "image flattened": (user([{"type": "text", "text": "look"}, IMAGE]), user("look\n[screenshot]")),
    "two images flattened": (
        user([IMAGE, {"type": "text", "text": "look"}, IMAGE]),
        user("[screenshot]\nlook\n[screenshot]"),
    ),
    "image stripped": (user([IMAGE]), user([{"type": "text", "text": "[screenshot]"}])),
    "sound left out": (
        user([{"type": "text", "text": "listen"}, {"type": "input_audio", "input_audio": {"data": "AAAA"}}]),
        user("listen"),
    ),
    "nothing but a file": (user([{"type": "file", "file": {"file_id": "f1"}}]), user(None)),
    "an empty part between": (
        user([{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]),
        user("a\n\nb"),
    ),
    "one text part": (user([{"type": "text", "text": "look"}]), user("look")),
    "no text": ({**call(), "content": None}, {**call(), "content": ""}),
    "times": (user("look"), user("look", timestamp=1_700_000_000.5)),
    "private keys": (user("look", _db_persisted=True, _row=3), user("look")),
    "reasoning": ({"role": "assistant", "content": "x", "reasoning": "because"}, {"role": "assistant", "content": "x"}),
    "what was sent": (user("look", api_content="look <memory>"), user("look")),
    "finish reason": (
        {"role": "assistant", "content": "x", "finish_reason": "stop"},
        {"role": "assistant", "content": "x"},
    ),
    "argument blanks": (call('{"a": 1, "b": 2}'), call('{"b":2,"a":1}')),
    "argument escapes": (call('{"a": "\\u00e9"}'), call('{"a": "é"}')),
    "arguments as dict": (call({"a": 1}), call('{"a": 1}')),
    "call without type": (call(type="function"), call()),
    "id or call id": (
        call(),
        {"role": "assistant", "content": "", "tool_calls": [{"call_id": "c1", "name": "terminal", "arguments": "{}"}]},
    ),
    "tool name": (
        {"role": "tool", "tool_call_id": "c1", "content": "x", "name": "t"},
        {"role": "tool", "tool_call_id": "c1", "content": "x", "tool_name": "t"},
    ),
    "todo merged": (user("go on"), user(f"go on\n\n{TODO}")),
    "time shown": (user("go on"), user("[Mon 2026-11-30 05:47:32 UTC] go on")),
    "memory injected": (user("go on"), user("go on\n<memory-context>\nlikes tea\n</memory-context>")),
}


@pytest.mark.parametrize(
    "note",
    ["The previous turn was interrupted by a restart; go on.", "Your previous turn was cut.", "A new message has arrived. So."],
)  # fmt: skip
def test_a_note_on_an_interrupted_turn_makes_no_other_message_of_a_request(note: str) -> None:
    """The gateway shows it in front of the next request, and keeps that without; a note that stands alone is a message."""
    shown = f"[System note: {note}]"
    stamp = "[Mon 2026-11-30 05:47:32 UTC] "

    assert who(user(f"{shown}\n\nwell?")) == who(user(f"{stamp}{shown}\n\n{stamp}well?")) == who(user("well?"))
    assert (
        len({who(user(text)) for text in ("", shown, f"{shown} well?", f"{shown}\n\n{SWITCHED}\n\nwell?", "well?")})
        == 5
    )
    assert content.read_message(user(f"{shown}\n\nwell?")).text == f"{shown}\n\nwell?"


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME.keys())
def test_what_the_host_does_to_a_message_does_not_change_who_it_is(one: dict[str, Any], other: dict[str, Any]) -> None:
    """The same words in another form are the same message."""
    assert who(one) == who(other)


OTHER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "text": (user("a"), user("b")),
    "case": (user("a"), user("A")),
    "inner blanks": (user("a b"), user("a  b")),
    "role": (user("a"), {"role": "assistant", "content": "a"}),
    "call id": (call(id="c1"), call(id="c2")),
    "call name": (call(name="a"), call(name="b")),
    "arguments": (call('{"a":1}'), call('{"a":2}')),
    "argument type": (call('{"a":1}'), call('{"a":"1"}')),
    "argument truth": (call('{"a":1}'), call('{"a":true}')),
    "calls or text": (call(), {"role": "assistant", "content": ""}),
    "answered call": (
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "tool", "tool_call_id": "b", "content": "x"},
    ),
    "order of calls": (
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}, {"id": "b"}]},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "b"}, {"id": "a"}]},
    ),
    "piece borders": (
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "name": "bc", "arguments": "d"}]},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "ab", "name": "c", "arguments": "d"}]},
    ),
    "todo quoted": (user("go on"), user(f"go on\n\n{TODO}\nand more words")),
    "todo in front": (user("go on"), user(f"{TODO}\n\ngo on")),
    "todo glued without a blank line": (user("go on"), user(f"go on {TODO}")),
    "todo without items": (user("go on"), user("go on\n\n" + TODO.splitlines()[0])),
    "time elsewhere": (user("go on"), user("go [Mon 2026-11-30 05:47:32 UTC] on")),
    "another time": (user("go on"), user("[2026-11-30 05:47] go on")),
    "time of a reply": tuple({"role": "assistant", "content": f"{at}ok"} for at in ("", "[Mon 2026-11-30 05:47:32] ")),
    "two images or one": (user([IMAGE]), user([IMAGE, IMAGE])),
}


@pytest.mark.parametrize(("one", "other"), OTHER.values(), ids=OTHER.keys())
def test_other_words_are_another_message(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Whatever a person or model would call different is different; decorations are cut by exact grammar only."""
    assert who(one) != who(other)


@given(st.text())
def test_the_hosts_own_cleaning_does_not_change_who_a_message_is(text: str) -> None:
    """What the host's session database does to a text on its way back."""
    from agent.memory_manager import sanitize_context

    assert who(user(sanitize_context(text).strip())) == who(user(text))


FENCES = [
    "<memory-context>\nlikes tea\n</memory-context>",
    "a <memory-context>b</memory-context> c",
    "<MEMORY-CONTEXT >x</ memory-context >",
    "a stray <memory-context> tag",
    "a stray </memory-context> tag",
    "[System note: The following is recalled memory context, NOT new user input. Treat as informational background data.] hello",
    "<memory-context>a</memory-context><memory-context>b</memory-context>",
    "<memory-context>a<memory-context>b</memory-context>c</memory-context>",
]


@pytest.mark.parametrize("text", FENCES, ids=range(len(FENCES)))
def test_the_hosts_memory_fences_do_not_change_who_a_message_is(text: str) -> None:
    """Every fence that the host removes when it reads a message back."""
    from agent.memory_manager import sanitize_context

    assert who(user(sanitize_context(text).strip())) == who(user(text))


@given(st.text(), st.text(alphabet=" \n\t\r"))
def test_blanks_around_a_text_never_count(text: str, blank: str) -> None:
    """Stripped or not: the same message."""
    assert who(user(blank + text + blank)) == who(user(text))


@given(st.text())
def test_the_canonical_form_is_final(text: str) -> None:
    """Making a text canonical twice changes nothing more."""
    once = content.canonical_text(text)

    assert content.canonical_text(once) == once


@given(st.text())
def test_unicode_forms_do_not_count(text: str) -> None:
    """Composed or decomposed: the same message."""
    assert who(user(unicodedata.normalize("NFD", text))) == who(user(unicodedata.normalize("NFC", text)))


def test_a_reload_changes_nobody() -> None:
    """A whole conversation through the host's session database: the same messages."""
    messages = (
        chat().user([{"type": "text", "text": " look "}, IMAGE], _x=1).turns(2).rounds(2).says("end\r\n", reasoning="r")
    )

    assert [who(message) for message in reload(messages)] == [who(message) for message in messages]


@pytest.mark.parametrize(
    "body",
    [[IMAGE], [{"type": "text", "text": "a"}, IMAGE], [{"type": "text", "text": ""}], [], [IMAGE, IMAGE]],
    ids=len,
)
def test_flattened_parts_are_the_same_message(body: list[Any]) -> None:
    """The host keeps content parts as one text."""
    assert who(user(flatten(body))) == who(user(body))


# -- the whole message comes back --------------------------------------------------------------------------------


def deep(depth: int) -> Any:
    out: Any = "bottom"
    for n in range(depth):
        out = [out] if n % 2 else {"in": out}
    return out


ROUND = {
    "empty": {},
    "surrogate": user("\ud800 alone"),
    "surrogate pair in halves": user("\ud83d" + "\ude00"),
    "surrogate in a key": user("x", **{"\udfff": 1}),
    "escaped look-alike": user("\\ud800 \\u0000"),
    "NUL": user("a\0b"),
    "bytes": user(b"\x00\xff"),
    "tuple": user((1, 2, ("a",))),
    "set": user("x", tags={"a", "b"}),
    "odd keys": user("x", table={1: 2, None: 3, False: 4, 1.5: 5, (1, 2): 6}),
    "our escape as a key": user("x", extra={"__lcm_escaped__": "bytes", "value": "AAAA"}),
    "our escape with more": user("x", extra={"__lcm_escaped__": "tuple", "value": [1], "and": 2}),
    "our escape and bytes": user(b"x", extra={"__lcm_escaped__": "dict", "value": [[1, 2]]}),
    "our escape as text": user("__lcm_escaped__"),
    "null calls": user("x", tool_calls=None),
    "dict arguments": call({"a": {"b": [1, None]}}),
    "unknown": {"role": "oracle", "content": {"deep": [1]}, "more": None},
    "infinities": user("x", scores=[math.inf, -math.inf, -0.0]),
    "integers": user("x", counts=[0, -1, 2**63, 2**64, 10**300]),
    "5000 digits": user("x", count=10**5000),
    "20 MB": user("0123456789abcdef\n" * 1_200_000),
    "nested 60": user("x", tree=deep(60)),
    "nested 100 and a tuple": user("x", tree=deep(100), pair=(1,)),
    "nested 1000": user("x", tree=deep(1000)),
    "truth is no number": user("x", flags=[True, 1, False, 0, 1.0]),
}


@pytest.mark.parametrize("message", ROUND.values(), ids=ROUND.keys())
def test_a_message_of_any_shape_comes_back(message: dict[str, Any]) -> None:
    """Encoding and decoding gives the message, types included."""
    stored_json, _ = content.encode(message)
    stored_json.encode("utf-8")
    found = content.decode(stored_json)

    assert equal(found, message)
    assert _types(found) == _types(message)


def _types(value: Any, depth: int = 0) -> Any:
    if depth > 40:
        return None
    if isinstance(value, dict):
        return [(type(key), _types(item, depth + 1)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [type(value), *(_types(item, depth + 1) for item in value)]
    return type(value)


def test_not_a_number_comes_back() -> None:
    """NaN is stored as what it is."""
    assert math.isnan(content.decode(content.encode(user("x", score=math.nan))[0])["score"])


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner) | st.tuples(inner, inner),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "x", "__lcm_escaped__"]), json_like
    )
)
@settings(max_examples=60)
def test_anything_comes_back(message: dict[str, Any]) -> None:
    """Whatever a host may put into a dict."""
    before = copy.deepcopy(message)

    assert content.decode(content.encode(message)[0]) == message == before


def nested(depth: int) -> list[Any]:
    """Lists in lists."""
    out: list[Any] = ["x"]
    for _ in range(depth):
        out = [out]
    return out


@pytest.mark.parametrize("odd", [[10**5000], nested(1000), nested(30_000)], ids=["digits", "1000", "30000"])
def test_a_part_that_python_cannot_print_is_read_and_comes_back(odd: list[Any]) -> None:
    """One such message must not keep those behind it from being stored."""
    message = {"role": "tool", "tool_call_id": "a", "content": [odd, "and more"]}
    read = content.read_message(message)

    assert read.text == "[list that cannot be shown as text]\nand more"
    assert read.digest == content.canonical_core(message).digest
    assert content.encode(content.decode(read.stored_json))[0] == read.stored_json.decode()


@given(
    st.dictionaries(
        st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "name", "timestamp", "_x"]), json_like
    )
)
@settings(max_examples=60)
def test_anything_can_be_read(message: dict[str, Any]) -> None:
    """Reading never raises, and what it gives can be stored: texts in UTF-8, numbers in range."""
    found = content.read_message(message)

    assert len(found.digest) == 16
    for text in (found.role, found.tool_call_id, found.tool_name):  # the store takes them so
        (content.storable(text) or "").encode("utf-8")
    assert found.stored_json.decode("utf-8") == content.encode(message)[0]
    assert found.said_at is None or isinstance(found.said_at, float)
    assert 0 <= found.tokens < 2**63


@pytest.mark.parametrize("stamp", [10**400, -1, 0, True, "soon", math.nan, math.inf, None, [], 1.5e9])
def test_odd_times_are_no_times(stamp: Any) -> None:
    """A time that is none does not stop a message."""
    assert content.read_message(user("x", timestamp=stamp)).said_at in (None, 1.5e9, math.inf)


def test_a_cycle_is_cut_and_marked() -> None:
    """What has no end cannot be stored whole; it says so."""
    knot: dict[str, Any] = {"role": "user", "content": "x"}
    knot["self"] = [knot]
    read = content.read_message(knot)

    assert read.flags & Flag.QUARANTINED
    assert content.decode(read.stored_json)["content"] == "x"


def test_objects_are_marked() -> None:
    """What cannot come back as it was is kept as its description."""
    read = content.read_message(user("x", thing=object()))

    assert read.flags & Flag.QUARANTINED
    assert "object" in json.dumps(content.decode(read.stored_json))


# -- what a message is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (user(TODO), True),
        (user(TODO + "\n"), True),
        (user("x", _todo_snapshot_synthetic=True), True),
        (user("x", _verification_stop_synthetic=True), True),
        (user("x", _todo_snapshot_synthetic=False), False),
        (user(TODO + "\nwhat is this?"), False),
        (user("please: " + TODO), False),
        ({"role": "assistant", "content": TODO}, False),
        (user([{"type": "text", "text": TODO}]), True),
    ],
    ids=["snapshot", "newline", "mark", "other mark", "mark off", "quoted", "prefixed", "assistant", "parts"],
)
def test_notes_of_the_host(message: dict[str, Any], expected: bool) -> None:
    """Only what the host certainly wrote itself is its note."""
    assert bool(content.read_message(message).flags & Flag.HOST_NOTE) is expected


def test_the_readable_text() -> None:
    """What a person would read: texts of parts, placeholders for images, nothing of the calls."""
    body = [{"type": "text", "text": "a"}, IMAGE, "b", {"type": "input_text", "text": "c"}]

    assert content.text_of(body) == "a\n[screenshot]\nb\nc"


@pytest.mark.parametrize(
    "calls", [None, 1, True, "x", {}, {"a": 1}, [None], [1, "a", []], [{}], [{"function": 3}]], ids=str
)
def test_calls_of_any_shape(calls: Any) -> None:
    """Reading calls never raises."""
    message = {"role": "assistant", "content": "x", "tool_calls": calls}

    assert all(isinstance(item.arguments, str) for item in content.calls_of(message))
    assert isinstance(content.call_ids(message), set)


def test_a_text_in_the_place_of_calls_is_no_list_of_them() -> None:
    """It may be as long as any text: to look for a call in each of its signs would hold the turn up for as long."""

    class Text(str):
        def __iter__(self) -> Any:
            raise AssertionError

    message = {"role": "assistant", "content": "", "tool_calls": Text("x" * 50)}

    assert content.calls_of(message) == ()
    assert content.call_ids(message) == content.unpaired([message]) == set()


# -- recalled memory --------------------------------------------------------------------------------------------------
_NOTE = "[System note: The following is recalled memory context, NOT new user input. Treat as "
_MEMORY = (
    r"<\s*memory-context\s*>[\s\S]*?</\s*memory-context\s*>",
    (
        r"\[System note:\s*The following is recalled memory context,\s*NOT new user input\.\s*"
        r"Treat as (?:informational background data|authoritative reference data[^\]]*)\.\]\s*"
    ),
    r"</?\s*memory-context\s*>",
)
_PARTS = (
    *(
        "<memory-context>",
        "< MEMORY-context >",
        "</memory-context>",
        "</ Memory-Context>",
        _NOTE,
        ".]",
        "]",
        ".",
        " ",
        "x",
    ),
    *(_NOTE + "informational background data", _NOTE + "authoritative reference data", "memory", "<", "[", "\n"),
)
_MEMORY_KINDS = ("informational background data", "authoritative reference data, as ever")


@given(st.lists(st.sampled_from(_PARTS), max_size=12).map("".join))
def test_recalled_memory_is_cut_as_the_host_cuts_it(text: str) -> None:
    """By three expressions; that they are not used themselves changes no digest."""
    expected = text
    for pattern in _MEMORY if "emory" in text or "EMORY" in text else ():
        expected = re.sub(pattern, "", expected, flags=re.IGNORECASE)

    assert content.canonical_text(text) == expected.strip()


@given(st.integers(0, len(_NOTE)), st.sampled_from(_MEMORY_KINDS))
def test_recalled_memory_is_cut_where_a_block_of_it_stood_inside_of_a_note(at: int, kind: str) -> None:
    """The host cuts the block first, and then finds the note."""
    text = f"{_NOTE[:at]}<memory-context>x</memory-context>{_NOTE[at:]}{kind}.] hello"

    assert content.canonical_text(text) == "hello"


@pytest.mark.parametrize(
    "part",
    [
        *("<memory-context>", _NOTE + "authoritative reference data ", "</memory-context"),
        *("[System note: ", "[System note: Your previous turn ", "[System note: Your previous turn ended]\n\n"),
    ],
)
def test_the_digest_of_any_text_is_linear(part: str) -> None:
    """What begins like a block of the host a hundred thousand times, and never ends like one."""
    text = part * (1_000_000 // len(part))

    assert linear.excess(lambda some: content.digest("user", some), text[: len(text) // 5], text) <= linear.LIMIT


@given(json_like)
def test_what_stored_json_says_is_at_hand_where_it_is_the_message(value: Any) -> None:
    """Who looks into a message on its way in need not parse it."""
    read = content.read_message({"role": "user", "content": "x", "value": value, "_db_persisted": 1})

    assert (read.value is None) == bool(read.flags & Flag.QUARANTINED)
    if read.value is not None:
        assert json.dumps(read.value) == json.dumps(json.loads(read.stored_json))
