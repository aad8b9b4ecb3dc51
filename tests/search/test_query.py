"""What is indexed, and how anything that is typed becomes searches."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.linear import LIMIT, excess

from hermes_lcm.search import documents, pattern, ranking
from hermes_lcm.search import query as words
from hermes_lcm.search.forms import stem

TOKENIZE = "tokenize='porter unicode61 remove_diacritics 2'"


@pytest.fixture(scope="module")
def fts():
    """FTS5 itself, to ask what it makes of an expression."""
    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE doc USING fts5(text, {TOKENIZE})")
    yield db
    db.close()


def matches(fts: sqlite3.Connection, text: str, expression: str) -> bool:
    fts.execute("DELETE FROM doc")
    fts.execute("INSERT INTO doc(rowid, text) VALUES (1, ?)", (documents.index_text(text),))
    return bool(fts.execute("SELECT 1 FROM doc WHERE doc MATCH ?", (expression,)).fetchall())


ANYTHING = st.one_of(
    st.text(max_size=200),
    st.text(alphabet=st.sampled_from(list("ab \"'()-*:^{}+~|\\/._\0\ud800中文かな한")), max_size=60),
    st.lists(
        st.sampled_from(
            ["AND", "OR", "NOT", "(", ")", '"', "NEAR", "x", "-yyy", "the", "src/a.py", "fooBar", "中文字"]
        ),
        max_size=20,
    ).map(" ".join),
)


@given(ANYTHING)
def test_fts5_accepts_every_expression_that_parse_makes(fts, query):
    """Whatever is typed, there is no syntax error."""
    parsed = words.parse(query)
    atoms = [a.match for a in (*parsed.atoms, *parsed.required, *parsed.excluded)]

    for expression in filter(None, (parsed.phrase, parsed.expression, words.inner(parsed.literal), *atoms)):
        fts.execute("SELECT 1 FROM doc WHERE doc MATCH ?", ("{text} : (" + expression + ")",)).fetchall()


@given(st.text(max_size=300))
def test_indexed_text_is_harmless(text):
    """No NUL and no lone surrogate: FTS5 stops at one, sqlite3 refuses the other."""
    found = documents.index_text(text)

    assert "\0" not in found
    found.encode()


@given(st.text(max_size=3000), st.integers(5, 700))
def test_chunks_are_the_text(text, size):
    """In order, without gaps, at the offsets they claim."""
    pieces = documents.chunks(text, size)

    assert "".join(piece for _, piece in pieces) == text
    assert all(text.startswith(piece, offset) for offset, piece in pieces)


@pytest.mark.parametrize("sign", ["x", "x ", "word. ", "line\n"], ids=repr)
def test_a_huge_message_never_has_too_many_chunks(sign):
    """Its chunks grow instead."""
    pieces = documents.chunks(sign * (6_000_000 // len(sign)))

    assert documents.MAX_CHUNKS / 3 < len(pieces) <= documents.MAX_CHUNKS


def test_a_query_is_read_in_linear_time():
    """Of quotations that nothing closes too."""
    assert excess(words.parse, "“" * 4000, "“" * 32_000) <= LIMIT


def test_chunks_end_at_sentences():
    """A border inside a word would hide it from the search."""
    pieces = [piece for _, piece in documents.chunks("One two three four five. " * 200)]

    assert all(piece.endswith(". ") for piece in pieces)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the getUserName function", "user name"),
        ("the getUserName function", "getusername"),
        ("call get user name now", "getUserName"),
        ("see src/main/db-pool.py line 3", "src/main/db-pool.py"),
        ("see src/main/db-pool.py line 3", "db-pool"),
        ("snake_case_name", "case name"),
        ("数据库密码轮换周期第7号由王小明负责", "密码轮换周期"),
        ("数据库密码轮换周期第7号由王小明负责", "第7号"),
        ("数据库密码轮换周期第7号由王小明负责", "王"),
        ("数据库密码轮换周期第7号由王小明负责", "责"),
        ("使用FastAPI框架开发", "FastAPI框架"),
        ("東京タワーに行きました", "タワー"),
        ("데이터베이스를 삭제했다", "데이터베이스"),
        ("Crème brûlée", "creme brulee"),
        ("ＡＢＣ full width", "abc"),
        ("He was deploying", "deployed"),
        ("Anna's dog", "Anna"),
        ("ask Anna", "Anna's"),
        ("I didn't go", "didn't"),
        ("to be or not to be", "to be or not to be"),
        ("bad \0 byte \ud800 here", "byte \ud800 here"),
        ("deployment failed", "deploy*"),
        ("deployment failed", "deployment, failed!"),
        ("red or blue", "blue OR green"),
        ("red and blue", "(red OR pink) AND blue"),
        ("the blue train left", '"blue train"'),
        ("the blue train left", "“blue train”"),
        ("find . -name x", "find -name x"),
        ("THE SERVER IS DOWN OR BROKEN", "SERVER OR BROKEN DOWN"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_was_typed_is_found(fts, text, query):
    """All of the query, as FTS5 sees it."""
    assert matches(fts, text, words.parse(query).expression)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the train was blue", '"blue train"'),
        ("green only", "blue OR red"),
        ("red only", "(red OR pink) AND blue"),
        ("src main db pool", "src/db-pool.py"),
        ("密码周期", "密码轮换周期"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_was_not_typed_is_not_found(fts, text, query):
    """Strict searches stay strict."""
    assert not matches(fts, text, words.parse(query).expression)


@pytest.mark.parametrize(
    ("query", "excluded"),
    [
        ("python -java", ['"java"']),
        ("python NOT java", ['"java"']),
        ('python NOT "spring boot"', ['"spring boot"']),
        ("find . -name x", []),
        ("tar -x", []),
        ("DO NOT PUSH", []),
        ("-only", []),
    ],
)
def test_only_unambiguous_exclusions_exclude(query, excluded):
    """A dash may be a shell flag, a shouted NOT may be a word."""
    assert [a.match for a in words.parse(query).excluded] == excluded


@pytest.mark.parametrize("query", ["foo OR", "OR foo", "(foo OR bar", "a OR (b NOT c)", "NOT", "AND AND", "()"])
def test_broken_operators_are_words_and_say_so(query):
    """Never a silent change of meaning."""
    parsed = words.parse(query)

    assert parsed.excluded == ()
    assert parsed.notes or "foo" not in query


@pytest.mark.parametrize("query", ["", "   ", "\0", "\ud800", "+-*/", '"" ""', "()"])
def test_nothing_to_search_is_no_error(query):
    """Only the literal is left."""
    parsed = words.parse(query)

    assert (parsed.phrase, parsed.expression, parsed.atoms) == ("", "", ())


def test_stop_words_are_left_out_unless_nothing_else_is_left():
    """What remains decides."""
    assert words.parse("What did the cat say about it?").expression == '"cat" AND "say"'
    assert words.parse("what about that").expression == '"what" AND "about" AND "that"'


def test_a_pasted_page_is_searched_by_its_first_words():
    """And the caller is told."""
    parsed = words.parse(" ".join(f"word{n}" for n in range(2000)))

    assert len(parsed.atoms) <= 128
    assert parsed.phrase == ""
    assert "first 128" in parsed.notes[0]


@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("I was wondering if you could remind me of the name of that restaurant", {'"name"', '"restaurant"'}),
        ("I'm going back to our previous conversation about dinosaurs", {'"dinosaurs"'}),
        ("你还记得数据库吗", {'"数据库"*', '"数据 据库"', '"数据"', '"据库"'}),
        ("remind me", {'"remind"'}),
    ],
)
def test_words_that_only_say_that_we_talked_are_not_searched(question, left):
    """They stand in every second message of a chat; where nothing else was typed, they are what is meant."""
    assert {atom.match for atom in words.parse(question).atoms if not atom.stop} <= left


def test_quotes_that_match_nothing_can_be_given_up():
    """The words inside are searched instead, knowingly."""
    loose = words.loosened(words.parse('who sang "the green door" yesterday'))

    assert loose.required == ()
    assert loose.phrase_lost
    assert '"green"' in [a.match for a in loose.atoms]


def test_items_with_signs_are_kept_as_typed():
    """The index knows only their words."""
    assert words.parse("why is c++ slower than src/a.py, Anna's?").literals == ("c++", "src/a.py")


@given(st.lists(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=14), min_size=1, max_size=30))
def test_stems_are_those_of_sqlite(tokens):
    """Letter for letter, or frequencies would be asked of the wrong words."""
    assert list(map(stem, tokens)) == _sqlite_stems(tokens)


def test_stems_of_english_words_are_those_of_sqlite():
    """Words that go through every step of the algorithm."""
    tokens = """caresses ponies ties cats feed agreed plastered motoring sing conflated troubled sized hopping tanned falling
    hissing fizzed failing filing happy sky relational conditional rational valenci digitizer conformabli radicalli differentli
    vileli analogousli vietnamization predication operator feudalism decisiveness hopefulness callousness formaliti sensitiviti
    sensibiliti triplicate formative formalize electriciti electrical hopeful goodness revival allowance inference airliner
    gyroscopic adjustable defensible irritant replacement adjustment dependent adoption communism activate angulariti homologous
    effective bowdlerize probate rate cease controll roll ies eed yes ing ed""".split()

    assert list(map(stem, tokens)) == _sqlite_stems(tokens)


def _sqlite_stems(tokens: list[str]) -> list[str]:
    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE doc USING fts5(text, {TOKENIZE})")
    db.execute("CREATE VIRTUAL TABLE term USING fts5vocab('doc', 'instance')")
    db.executemany("INSERT INTO doc(rowid, text) VALUES (?, ?)", list(enumerate(tokens)))
    found = dict(db.execute("SELECT doc, term FROM term"))
    db.close()
    return [found[n] for n in range(len(tokens))]


# ---------------------------------------------------------------------------------------------- patterns


@pytest.fixture(params=["regex", "re"])
def engine(request, monkeypatch):
    """Both with the optional package and without it."""
    if request.param == "re":
        monkeypatch.setattr(pattern, "_regex", None)
    elif pattern._regex is None:
        pytest.skip("the optional package `regex` is not installed")
    return request.param


@pytest.mark.parametrize(
    ("source", "text", "at"),
    [
        (r"foo.*bar", "a Foo and BAR", 2),
        (r"^line$", "one\nline\ntwo", 4),
        (r"error: \d+", "x" * 30_000 + " error: 42", 30_001),
        (r"(?:red|blue) car", "a blue car", 2),
        (r"zzz", "abc", -1),
        (r"a\{e", "x a{e}", 2),
        (r"", "abc", 0),
    ],
)
def test_patterns_find(engine, source, text, at):
    """Ignoring case, line by line."""
    assert pattern.compile_pattern(source).find(text, 1.0) == at


def test_an_explosive_pattern_ends_in_time(engine):
    """By a time-out, or refused before it starts."""
    with pytest.raises((TimeoutError, pattern.BadRequest)):
        pattern.compile_pattern(r"(a+)+$").find("a" * 5000 + "!", 0.1)


@pytest.mark.parametrize("source", ["[", "(", "a" * 2000, "*a"], ids=lambda s: s[:10])
def test_what_is_no_pattern_is_a_bad_request(engine, source):
    """With the offender in the message."""
    with pytest.raises(pattern.BadRequest, match="pattern"):
        pattern.compile_pattern(source)


@pytest.mark.parametrize("source", [r"(a|b)*\w+c", r"(\w+\s?)+x", r"\w+\s+\w+\s+\w+", r"(a*)*"])
def test_without_the_package_open_repeats_are_limited(source, monkeypatch):
    """The message says how to go on."""
    monkeypatch.setattr(pattern, "_regex", None)

    if source == r"(a|b)*\w+c":  # one character either way: a set, harmless
        assert pattern.compile_pattern(source).find("abc", 1.0) == 0
    else:
        with pytest.raises(pattern.BadRequest, match=r"regex|repeats"):
            pattern.compile_pattern(source)


@pytest.mark.parametrize(
    ("question", "wanted", "unwanted"),
    [
        ("同事的工作地是在哪儿呢？", {"同事", "工作", "作地"}, {"事的", "地是", "是在"}),
        ("数据库密码由谁负责", {"数据", "密码", "负责"}, {"谁负"}),
        ("王和平", {"王和", "和平"}, set()),
        ("这是什么", {"这是", "什么"}, set()),
        ("另外，那个身高164cm的人是做什么的呀？", {"身高", "164cm"}, {"另外", "的人", "么的", ","}),
        ("有几个活动超过三天", {"活动", "三天"}, {"有几", "个活"}),
    ],
)
def test_chinese_particles_split_a_question_into_its_words(question: str, wanted: set[str], unwanted: set[str]) -> None:
    """Pairs across a particle are words that nobody wrote; a name or a question of nothing else stays whole."""
    pairs = {atom.match.strip('"*') for atom in words.parse(question).atoms}

    assert wanted <= pairs
    assert not unwanted & pairs


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("source", "text", "at"),
    [
        ("[[:digit:]]+", "abc 42", 4),
        ("[^[:alpha:]_]", "ab_c7", 4),
        ("[[:upper:][:digit:]]{2}x", "aB2x", 1),
        ("[]a]+b", "x]ab", 1),
        (r"[\]a]b", "x]b", 1),
        ("[[a]", "x[", 1),
        ("[a&&b]", "x&", 1),
        ("[a||b]", "x|", 1),
        ("[a~~b]", "x~", 1),
        (r"\[[:alpha:]", "x[a", 1),
    ],
)
def test_sets_of_characters_mean_what_they_say_and_warn_nobody(engine, source, text, at):
    """POSIX classes are what grep has taught everybody; a warning would end in somebody's terminal."""
    assert pattern.compile_pattern(source).find(text, 1.0) == at


def test_an_unknown_class_of_characters_is_told(engine):
    """With the ones that there are, where we know them."""
    with pytest.raises(pattern.BadRequest):
        pattern.compile_pattern("[[:nope:]]")


@pytest.mark.filterwarnings("error")
@given(st.text(alphabet="[]^-&|~:alnum\\ab(){}*+?.$", max_size=30))
def test_no_pattern_warns_or_fails_otherwise(source):
    """It compiles, or it is refused with a reason."""
    with contextlib.suppress(pattern.BadRequest):
        assert pattern.compile_pattern(source)


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("Which port did we choose? And who approved the budget?",
         ("Which port did we choose?", "And who approved the budget?")),
        ("我穿的运动鞋是哪一双来着？另外，那个身高164cm的人是做什么的呀？",
         ("我穿的运动鞋是哪一双来着？", "另外，那个身高164cm的人是做什么的呀？")),
        ("Which port did we choose?", ()),
        ("Which port did we choose? Thanks for looking it up.", ()),
        ("Who is Anna? Where does she live?", ()),  # the second one needs the first
    ],
)  # fmt: skip
def test_questions_asked_together_are_told_apart(typed: str, asked: tuple[str, ...]) -> None:
    assert words.questions(typed) == asked


def test_the_question_that_ends_a_speech_is_asked_apart_from_it() -> None:
    speech = (
        "What a day! The garden is in full bloom. The cat slept. Now what I ask is: how is the shopping mall nearby?"
    )
    assert words.questions(speech) == ("how is the shopping mall nearby?", speech)


def test_a_question_in_thai_is_no_name() -> None:
    """It is one run without blanks, yet of many words: what begins as they do is found."""
    assert not words.parse("ลูกสาวแพ้อะไร").strict
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE said USING fts5(text, tokenize='porter unicode61 remove_diacritics 2')")
    db.execute("INSERT INTO said VALUES (?)", (documents.index_text("ลูกสาวของฉันแพ้ถั่วลิสง"),))

    match = " OR ".join(atom.match for atom in words.parse("ลูกสาวแพ้อะไร").atoms)

    assert db.execute("SELECT count(*) FROM said WHERE said MATCH ?", (match,)).fetchone() == (1,)
    db.close()


@pytest.mark.parametrize(
    ("question", "text", "tells"),
    [
        ("Which amount was named with cabin and economy?", "- Cabin: economy ($130), business ($378)", True),
        ("Which amount was named with cabin and economy?", '{"cabin": "economy", "amount": 130}', False),
        ("Which amount was named with cabin and economy?", "The cabin of economy class is full, they said.", False),
        ("cabin economy", "The cabin of economy class is full, they said to all of us at the gate.", True),
        ("cabin economy", '{"cabin": "economy", "amount": 130}', False),
        ("cabin economy", "The cabin is small.", True),
        ("cabin economy", f"economy: 1, cabin: 2 {'3, 4; ' * 60} The cabin of economy class is full, they said.", True),
        ("cabin economy", "Nothing of this.", False),
        ("cabin economy", "The cabin of `economy` is `#00d7ff`, and that of `first` is `#5f87af` or `$73%`.", True),
    ],
)
def test_common_words_are_told_by_a_sentence_and_amounts_by_a_sum(question: str, text: str, tells: bool) -> None:
    """A table that repeats the words says less."""
    asked = ranking.Asked(question, dict.fromkeys(words.parse(question).atoms, 1.0))

    assert (asked.told(asked.see(text))[0] > 0) == tells


@pytest.mark.parametrize(
    ("expression", "word"),
    [
        ('"the schema of"', '"schema"'),
        ('"src/deploy/a.py"', '"deploy"'),
        ('"one" AND "other AND same"', '"other"'),
        ('"single"', ""),
        ('"a b" OR "c d"', ""),
        ('"beginning of wor"*', ""),
        ('("camel" OR "camel case")', ""),
        ('"数据 据库"', ""),
    ],
)
def test_a_word_that_every_match_of_an_expression_holds(expression, word):
    assert words.needed(expression) == word


@pytest.mark.parametrize(
    "text", ["データベースのバックアップ", "でんわ番号", "हिन्दी में लिखो", "한국어 데이터", "Đặng Übung"]
)
def test_stems_are_the_words_of_the_index_in_any_script(text: str) -> None:
    """Voiced kana keep their mark, and a sign that ends a word in the index ends one here."""
    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE said USING fts5(text, {TOKENIZE})")
    db.execute("CREATE VIRTUAL TABLE words USING fts5vocab('said', 'row')")
    db.execute("INSERT INTO said VALUES (?)", (documents.index_text(text),))
    known = {term for (term,) in db.execute("SELECT term FROM words")}
    db.close()

    assert {stem for atom in words.parse(text).atoms for stem in atom.stems} <= known
