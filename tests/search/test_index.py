"""Search succeeds on the first call, shows only what may be read, and says what it did."""

from __future__ import annotations

import random
import re
import time

import pytest
from worlds import linear
from worlds.process import WAIT_S, copy_new

from hermes_lcm.errors import BadRequest
from hermes_lcm.records import Flag, Scope
from hermes_lcm.search import documents, fts
from hermes_lcm.search import index as search_module
from hermes_lcm.search import query as words
from hermes_lcm.search.documents import postings
from hermes_lcm.search.index import IndexRow, MessageIndex, NodeIndex, few, prepare
from hermes_lcm.search.scope import Filters
from hermes_lcm.storage import connection
from hermes_lcm.storage.connection import Database

EVERYTHING = Scope()
_COLUMNS = (
    "store_id, conversation_id, session_key, seq, pos, role, digest, tokens, chars, said_at, stored_at, source, flags, "
    "envelope"
)


class World:
    """A database with messages, and shortcuts to search it."""

    def __init__(self, path) -> None:
        self.db = Database(path)
        prepare(self.db)
        self.index = MessageIndex(self.db)
        self.nodes = NodeIndex(self.db)
        self.said: dict[int, str] = {}
        self._seq: dict[int, int] = {}

    def say(
        self,
        text,
        *,
        role="user",
        conversation=1,
        session="",
        at=None,
        source="cli",
        flags=0,
        extra="",
        principal="local",
    ):
        """One message; its store id."""
        return self.say_all([(role, text)], conversation, session, at, source, flags, extra, principal)[0]

    def say_all(
        self, messages, conversation=1, session="", at=None, source="cli", flags=0, extra="", principal="local"
    ):
        ids = []
        with self.db.transaction():
            self.db.execute(
                "INSERT OR IGNORE INTO conversations(conversation_id, principal, nonce, created_at) VALUES (?, ?, ?, 0)",
                (conversation, principal, f"n{conversation}"),
            )
            name = session or f"s{conversation}"
            self.db.execute(
                "INSERT OR IGNORE INTO sessions(session_id, conversation_id, origin, principal, started_at) "
                "VALUES (?, ?, 'start', ?, 0)",
                (name, conversation, principal),
            )
            ((key,),) = self.db.fetch("SELECT session_key FROM sessions WHERE session_id = ?", (name,))
            rows = []
            for role, text in messages:
                seq = self._seq[conversation] = self._seq.get(conversation, 0) + 1
                store_id = self.db.execute(
                    f"INSERT INTO messages({_COLUMNS}) VALUES (NULL, ?, ?, ?, ?, ?, x'', 0, ?, ?, ?, ?, ?, x'')",
                    (
                        conversation,
                        key,
                        seq,
                        seq,
                        role,
                        len(text),
                        at,
                        1000.0 + seq,
                        source,
                        flags,
                    ),
                )
                rows.append(IndexRow(store_id, text, extra))
                self.said[store_id] = documents.searchable(text, extra)
                ids.append(store_id)
            if not flags & Flag.FILTERED:
                self.index.documents.add(postings(rows))
        return ids

    def texts(self, ids):
        return {n: self.said[n] for n in ids}

    def find(self, query, *, scope=EVERYTHING, limit=10, texts=True, **filters):
        sort = filters.pop("sort", "relevance")
        return self.index.search(
            words.parse(query),
            scope=scope,
            filters=Filters(**filters),
            limit=limit,
            sort=sort,
            texts=self.texts if texts else None,
        )

    def ids(self, query, **kwargs):
        return [hit.store_id for hit in self.find(query, **kwargs).hits]

    def scan(self, pattern, **kwargs):
        return self.index.scan(pattern, texts=self.texts, **{"scope": EVERYTHING, "limit": 10, **kwargs})


@pytest.fixture
def world(tmp_path):
    copy_new(tmp_path / "lcm.db")
    made = World(tmp_path / "lcm.db")
    yield made
    assert made.index.check(deep=True) == []
    assert made.nodes.check(deep=True) == []
    made.db.close()


# ---------------------------------------------------------------------------------------------- finding


def test_a_question_typed_verbatim_finds_its_answer(world):
    """The words of question and answer differ; the ones they share decide."""
    world.say_all([("user", f"We talked about topic number {n} for a while") for n in range(20)])
    answer = world.say("The rotation of database passwords happens every ninety days")
    world.say_all([("assistant", f"Understood, topic {n} is clear now") for n in range(20)])

    assert world.ids("How often do we rotate the database password?")[0] == answer


@pytest.mark.parametrize(
    ("query", "rung"),
    [
        ("blue train", "phrase"),
        ("train blue", "all"),
        ("blue airplane", "any"),
        ("trai", "prefix"),
        ("ue tra", "substring"),
        ("lue", "substring"),
    ],
)
def test_the_strictest_rung_that_matched_is_told(world, query, rung):
    """In one call."""
    wanted = world.say("yesterday the blue train was late")
    world.say("something else entirely", conversation=2)

    hits = world.find(query)

    assert (hits.hits[0].store_id, hits.hits[0].rung, hits.rungs[0]) == (wanted, rung, rung)


def test_an_exact_phrase_comes_before_its_scattered_words(world):
    """One list, by relevance."""
    scattered = world.say("the schedule of the deploy, and a freeze of the schedule")
    world.say_all([("user", "nothing to see here at all")] * 5)
    exact = world.say("we agreed on a deploy freeze on friday, and that is final for everyone in the whole team")

    assert world.ids("deploy freeze")[:2] == [exact, scattered]


def test_neighbours_of_a_hit_are_found_too(world):
    """An answer rarely repeats the words of its question."""
    world.say("Which restaurant did you visit in Lisbon?")
    answer = world.say("It was called Ramiro, wonderful seafood", role="assistant")
    world.say_all([("user", f"filler about weather {n}") for n in range(10)])

    hits = world.find("restaurant Lisbon")

    assert answer in [h.store_id for h in hits.hits]
    assert hits.total == sum(hit.rung != "near" for hit in hits.hits)


def test_a_nod_is_not_shown_for_its_neighbours_sake(world):
    """Who would want to read "ok"?"""
    world.say("the quarterly budget is approved")
    nod = world.say("ok", role="assistant")

    assert nod not in world.ids("quarterly budget")


def test_a_long_message_is_found_by_any_of_its_parts_and_says_where(world):
    """The best chunk counts; the offset leads to it."""
    long = world.say("filler words here. " * 300 + "the zanzibar parameter is seven. " + "more filler words. " * 300)

    hit = world.find("zanzibar parameter").hits[0]

    assert hit.store_id == long
    assert world.said[long][hit.offset :].startswith("zanzibar")


def test_tool_calls_are_found(world):
    """Names and arguments are part of a message."""
    call = world.say("", role="assistant", extra='terminal {"command": "cat src/deep/config-loader.py"}')

    assert world.ids("src/deep/config-loader.py") == [call]


@pytest.mark.parametrize("query", ["密码轮换周期", "王小明负责", "第7号", "王", "谁负责数据库密码的轮换?"])
def test_chinese_is_found(world, query):
    """Without an index of its own."""
    wanted = world.say("数据库密码轮换周期第7号由王小明负责")
    world.say("今天天气很好，我们去公园散步吧", conversation=2)

    assert world.ids(query)[0] == wanted


def test_signs_that_the_index_does_not_know_are_seen_in_the_text(world):
    """c++ is not c."""
    world.say_all([("user", f"variant c of plan {n}") for n in range(4)])
    wanted = world.say("the c++ build of the plan")
    world.say_all([("user", f"variant c of plan {n}") for n in range(4)])

    assert world.ids("c++ plan")[0] == wanted


def test_quotes_that_match_nothing_are_given_up_openly(world):
    """Loosening is told."""
    near = world.say("the door was green")

    hits = world.find('"green door"')

    assert [h.store_id for h in hits.hits] == [near]
    assert "as it was typed" in " ".join(hits.notes)


def test_quotes_that_match_are_kept(world):
    """Nothing looser is mixed in."""
    exact = world.say("a green door")
    world.say("the door was green", conversation=2)

    assert world.ids('"green door"') == [exact]


def test_excluded_words_exclude_the_whole_message(world):
    """In whatever chunk they stand, and as somebody's neighbour too."""
    world.say("python " + "filler text here. " * 100 + " java")
    kept = world.say("python only")
    world.say("java next to it")

    assert world.ids("python NOT java") == [kept]


def test_nothing_found_names_words_that_are_there(world):
    """The nearest terms, and what was searched."""
    world.say("the kubernetes cluster is healthy")

    hits = world.find("kubernettes")

    assert hits.hits == ()
    assert hits.nearest == ("kubernet",)


@pytest.mark.parametrize(
    "query",
    ["", "\0", "\ud800", "x" * 10_000, "a " * 5000, '"' * 99, "the of and", "((((", "AND OR NOT", "中" * 3000],
    ids=lambda query: repr(query[:9]),
)
def test_any_query_has_an_answer(world, query):
    """Never a syntax error."""
    world.say("a message about the things of and for the world")

    assert world.find(query).total >= 0


def test_odd_texts_are_indexed(world):
    """NUL, surrogates, megabytes, nothing."""
    world.say_all([("user", t) for t in ("\0", "\ud800 half", "", "x" * 3_000_000, "word " * 400_000)])
    wanted = world.say("before\0after needle")

    assert world.ids("needle")[0] == wanted


# ---------------------------------------------------------------------------------------------- filters


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """The same words said by different people at different times."""
    world = World(tmp_path_factory.mktemp("crowd") / "lcm.db")
    return world, {
        "mine": world.say("the secret password plan", at=100.0, session="a"),
        "tool": world.say("the secret password plan of a tool", role="tool", at=200.0, session="a"),
        "later": world.say("the secret password plan again", at=300.0, session="b", source="telegram"),
        "other": world.say("the secret password plan of somebody", conversation=2, principal="telegram:7", at=400.0),
        "filtered": world.say("the secret password plan, ignored", flags=Flag.FILTERED, at=500.0),
    }


@pytest.mark.few(27)
@pytest.mark.parametrize("query", ["secret", "secret password plan", '"secret password"', "secret OR nothing", "ecre"])
@pytest.mark.parametrize(
    ("narrow", "expected"),
    [
        ({}, {"mine", "tool", "later", "other"}),
        ({"scope": Scope(principal="local")}, {"mine", "tool", "later"}),
        ({"scope": Scope(principal="telegram:7")}, {"other"}),
        ({"scope": Scope(conversations=(2,))}, {"other"}),
        ({"scope": Scope(conversations=())}, set()),
        ({"scope": Scope(conversations=(99,))}, set()),
        ({"scope": Scope(principal="local", conversations=(2,))}, set()),
        ({"scope": Scope(session_id="a")}, {"mine", "tool"}),
        ({"scope": Scope(session_id="nobody")}, set()),
        ({"roles": ("user",)}, {"mine", "later", "other"}),
        ({"sources": ("telegram",)}, {"later"}),
        ({"since": 200.0, "until": 400.0}, {"tool", "later"}),
        ({"first_id": 2, "last_id": 3}, {"tool", "later"}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_every_filter_holds_on_every_rung(crowd, query, narrow, expected):
    """Neighbours included."""
    world, ids = crowd

    assert set(world.ids(query, **narrow)) == {ids[name] for name in expected}


def test_a_pattern_keeps_to_the_filters_too(crowd):
    """The scan is SQL's choice of rows as well."""
    world, ids = crowd

    found = world.scan(r"secret\s+pass", scope=Scope(principal="local"), filters=Filters(roles=("user",)))

    assert [h.store_id for h in found.hits] == [ids["later"], ids["mine"]]


def test_nearest_terms_are_never_somebody_elses(world):
    """A suggestion would tell what they talk about."""
    world.say("the kubernetes cluster", conversation=2, principal="telegram:7")

    assert world.find("kubernettes", scope=Scope(principal="local")).nearest == ()


# ---------------------------------------------------------------------------------------------- orders and bounds


@pytest.mark.parametrize("typed", ["数据库连接池" * 500, "-".join(["part"] * 2000), f'"{"part " * 2000}"'])
def test_what_is_endless_is_searched_by_its_beginning(world, typed):
    """A phrase of thousands of words would take seconds; the answer says what was left out."""
    wanted = world.say(typed.strip('"'))
    query = words.parse(typed)
    assert len(query.expression) < 3000
    found = world.index.search(query, scope=EVERYTHING, limit=5)
    assert [hit.store_id for hit in found.hits] == [wanted]
    assert any("the first 400 characters" in note for note in found.notes)


def test_recency_is_by_message_wherever_in_it_the_match_is(world):
    """In the index, the later pieces of long messages lie apart from all else that was said at the time."""
    for _ in range(70):
        world.say("\n".join(f"line {n} of the deploy log" for n in range(80)))
    filler = "\n".join(f"nothing to see in line {n}" for n in range(200))
    newest = world.say(f"{filler}\nthen deploy")
    assert world.ids("deploy", sort="recency", limit=3) == [newest, newest - 1, newest - 2]


def test_recency_lists_the_newest_match_first(world):
    """Whatever its relevance."""
    ids = world.say_all([("user", f"deploy note {n} " + "deploy " * (9 - n)) for n in range(9)])

    assert world.ids("deploy", sort="recency", limit=3) == ids[:-4:-1]


def test_an_unknown_order_is_refused(world):
    """With the accepted ones."""
    with pytest.raises(BadRequest, match="relevance, recency, hybrid, time"):
        world.find("x", sort="random")


def test_a_total_that_was_cut_is_a_bound(world):
    """Exact below the number of candidates, at least so many above."""
    world.say_all([("user", f"error number {n} in the log") for n in range(search_module.CANDIDATES + 50)])
    world.say_all([("user", f"warning number {n} in the log") for n in range(30)])

    assert (world.find("warning").total, world.find("warning").total_is_bound) == (30, False)
    assert world.find("error").total_is_bound


def test_very_common_words_are_searched_in_the_newest_messages(world, monkeypatch):
    """Bounded work, and told."""
    monkeypatch.setattr("hermes_lcm.search.fts.MAX_POSTINGS", 20)
    ids = world.say_all([("user", f"error of kind {n % 7}") for n in range(200)])

    hits = world.find("error")

    assert {h.store_id for h in hits.hits} <= set(ids[150:])
    assert hits.total_is_bound
    assert "newest" in " ".join(hits.notes)


def test_common_words_are_left_out_when_rarer_ones_decide(world, monkeypatch):
    """Their share of the ranking is small, their cost is not."""
    monkeypatch.setattr("hermes_lcm.search.fts.MAX_POSTINGS", 20)
    world.say_all([("user", f"error of kind {n % 7}") for n in range(200)])
    rare = world.say("zebra")

    hits = world.find("error zebra")

    assert hits.hits[0].store_id == rare
    assert "too common" in " ".join(hits.notes)


# ---------------------------------------------------------------------------------------------- patterns


def test_a_pattern_finds_the_newest_first(world):
    """With the place of the match."""
    ids = world.say_all([("user", f"ticket ABC-{n} is open") for n in range(5)])

    found = world.scan(r"abc-\d", limit=2)

    assert [(h.store_id, h.offset) for h in found.hits] == [(ids[4], 7), (ids[3], 7)]
    assert found.total_is_bound


def test_a_pattern_without_a_match_is_exact(world):
    """All was read."""
    world.say_all([("user", "nothing")] * 900)

    found = world.scan("xyz+")

    assert (found.hits, found.total, found.total_is_bound) == ((), 0, False)


def test_a_scan_ends_when_its_time_is_over(world):
    """And says how far it came."""
    world.say_all([("user", "nothing")] * 900)

    found = world.scan("xyz+", timeout_s=0.0)

    assert found.total_is_bound
    assert 1 < found.reached <= 900


def test_a_scan_comes_as_far_on_a_busy_machine(world, monkeypatch):
    """Time that others compute is not its own."""
    world.say("the canary is 🦊🚀")
    world.say_all([("user", "nothing")] * 900)

    at_once = world.texts
    monkeypatch.setattr(world, "texts", lambda store_ids: time.sleep(0.1) or at_once(store_ids))

    assert world.ids("🦊🚀")[:1] == [1]


def test_a_scan_ends_on_a_slow_disk(world, monkeypatch):
    """Waiting for it is no time of its own."""
    world.say_all([("user", "nothing")] * 900)

    monkeypatch.setattr(search_module.time, "thread_time", lambda: 0.0)
    at_once = world.texts
    monkeypatch.setattr(world, "texts", lambda store_ids: time.sleep(0.1) or at_once(store_ids))
    found = world.scan("xyz+", timeout_s=0.01)

    assert found.total_is_bound


def test_what_has_no_word_is_looked_for_as_long_as_any_text(world, monkeypatch):
    """Emoji are in no index, so that others use them says nothing."""
    world.say("the canary is 🦊🚀")
    given = []
    monkeypatch.setattr(MessageIndex, "_scan", lambda *arguments: given.append(arguments[4]) or ([], 0))
    world.ids("🦊🚀")

    assert given == [search_module.SCAN_S]


# ---------------------------------------------------------------------------------------------- a cache


@pytest.mark.parametrize("apart", [False, True])
def test_a_scan_finds_old_messages_behind_newer_ones_of_many_pieces(world, monkeypatch, apart):
    """Messages whose addresses lie close together have more pieces with the word than a page of the scan has rows."""
    monkeypatch.setattr(search_module, "PAGE", 16)
    ids = [world.say(f"the pump of hall {n} failed\n" * 500) for n in range(9)]

    found = world.scan(r"pump of hall \d failed", scope=Scope(conversations=(1,), apart=apart), timeout_s=WAIT_S)

    assert sorted(hit.store_id for hit in found.hits) == ids


def test_the_index_can_be_made_again(world):
    """It holds nothing that the messages do not."""
    world.say_all([("user", f"message {n} about {'apples' if n % 2 else 'pears'}") for n in range(50)])
    before = world.find("apples", limit=50)

    world.index.rebuild([[IndexRow(n, text) for n, text in world.said.items()]])

    assert world.find("apples", limit=50) == before


def test_an_index_that_is_made_again_is_folded_in_parts_and_then_by_itself(world):
    """A large one would fold for long while nobody else can write; one that never folds again is searched ever more slowly."""
    for n in range(40):
        world.say(f"the cache of server {n} is cold")
    world.index.rebuild([IndexRow(n, world.said[n])] for n in [*world.said])

    settings = dict(world.db.query("SELECT k, v FROM message_index_config"))
    assert settings.get("automerge") == documents.APART
    assert segments(world) < 16
    assert len(world.find("cache", limit=100).hits) == 40


def segments(world):
    """Number of the index's parts that every search opens."""
    return world.db.query("SELECT count(DISTINCT segid) FROM message_index_idx")[0][0]


def test_an_index_that_is_made_again_folds_no_few_large_parts(world):
    """FTS5 copies the list of a common word in one step, and a turn that stores waits for it."""
    for n in range(6):
        world.say(f"the cache of server {n} is cold")
    world.index.rebuild([IndexRow(n, world.said[n])] for n in [*world.said])

    assert segments(world) == 6


@pytest.mark.parametrize(("large", "left"), [(1_000, 1), (0, 6)])
def test_the_end_of_a_session_folds_no_few_parts_of_a_large_index(world, monkeypatch, large, left):
    """In a small one they are folded: it is searched sooner."""
    monkeypatch.setattr(documents, "_LARGE", large)
    for n in range(6):
        world.say(f"the cache of server {n} is cold")
    world.index.rebuild([IndexRow(n, world.said[n])] for n in [*world.said])
    with world.db.transaction():
        world.index.documents.fold()

    assert segments(world) == left


def test_a_missing_message_is_noticed(tmp_path):
    """Cheaply for new ones, deeply for all."""
    world = World(tmp_path / "lcm.db")
    world.say("one")
    world.index.rebuild([])

    assert "messages missing from the search index: 1" in world.index.check()[0]


def test_preparing_twice_changes_nothing(world):
    """True only for the caller that made them."""
    assert prepare(world.db) == set()


def test_an_index_that_was_dropped_is_made_and_reported(world):
    """So that the caller rebuilds it."""
    with world.db.transaction():
        world.db.execute("DROP TABLE message_terms")

    assert prepare(world.db) == {"message_index"}


def test_an_aborted_append_leaves_no_trace_in_the_index(world):
    """Message and index entry are one fact."""

    def append_and_fail():
        with world.db.transaction():
            world.index.documents.add(postings([IndexRow(77, "a ghost")]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        append_and_fail()

    assert world.db.query("SELECT count(*) FROM message_index WHERE message_index MATCH 'ghost'") == [(0,)]


# ---------------------------------------------------------------------------------------------- nodes


@pytest.fixture
def summaries(world):
    """Two nodes of different owners."""
    first = world.say("x", session="a")
    second = world.say("y", conversation=2, principal="telegram:7")
    for node_id, conversation, store_id, text in (
        (1, 1, first, "Decided to rotate keys monthly"),
        (2, 2, second, "keys rotate"),
    ):
        with world.db.transaction():
            world.db.execute(
                "INSERT INTO nodes VALUES (?,?,0,'verified',?,'',0,0,1,?,?,1,1,NULL,NULL,?,'','','{}',0,NULL)",
                (node_id, conversation, text, store_id, store_id, bytes([node_id])),
            )
            world.nodes.add(node_id, conversation, text)
    return world


@pytest.mark.parametrize(
    ("query", "scope", "expected"),
    [
        ("rotate keys", EVERYTHING, [1, 2]),
        ("rotation of the keys", EVERYTHING, [2, 1]),
        ("rotate keys", Scope(principal="telegram:7"), [2]),
        ("rotate keys", Scope(conversations=(1,)), [1]),
        ("rotate keys", Scope(session_id="a"), [1]),
        ("monthly zebra", EVERYTHING, [1]),
        ('"keys rotate"', EVERYTHING, [2]),
        ("zebra", EVERYTHING, []),
        ("", EVERYTHING, []),
    ],
    ids=str,
)
def test_nodes_are_found_by_the_same_ladder(summaries, query, scope, expected):
    """Within the caller's scope."""
    found = summaries.nodes.search(words.parse(query), scope=scope, limit=5)

    assert [h.node_id for h in found.hits] == expected


# ---------------------------------------------------------------------------------------------- speed


def test_ten_thousand_messages_are_searched_without_reading_them(world):
    """A question costs less than looking through all of them; exact numbers are measured elsewhere."""
    rng = random.Random(3)
    vocabulary = [f"w{n}x" for n in range(3000)]
    world.say_all([("user", " ".join(rng.choices(vocabulary[: rng.choice((20, 3000))], k=30))) for _ in range(10_000)])
    questions = [" ".join(rng.choices(vocabulary, k=5)) for _ in range(20)]
    asking = linear.least(lambda: [world.find(question) for question in questions]) / len(questions)
    looking = linear.least(lambda: world.scan(r"\dnone|\dthem", timeout_s=WAIT_S))

    assert asking < looking


def test_a_question_with_one_word_left_is_searched_by_it(world):
    """Its particles are no reason to find nothing."""
    world.say("我上司喜欢集邮")
    world.say("数据库")

    assert [hit.store_id for hit in world.find("我上司是干啥的呀？").hits if hit.rung == "any"] == [1]


# -- a large archive ---------------------------------------------------------------------------------------------------
@pytest.fixture
def crowded(world, monkeypatch):
    """An archive in which little can be afforded: one conversation of old, and others that say the same words all the time."""
    monkeypatch.setattr(fts, "MAX_POSTINGS", 50)
    monkeypatch.setattr(search_module, "FEW", 100)
    world.phrase = world.say("the schema of deploy and fail", conversation=3, at=10.0)
    world.pattern = world.say("it said TLS_CERT_ALTNAME_17 again", conversation=3, at=10.0)
    world.say_all([("user", f"deploy fail schema {n}") for n in range(60)], conversation=1, at=500.0)
    for at in range(3000, 3010):
        world.say_all([("user", f"deploy a fail of schema again {at} {n}") for n in range(300)], conversation=2, at=at)
    return world


SMALL = Scope(conversations=(1,))


def test_a_small_scope_is_never_cut(crowded):
    """Its cost is that of its own rows, however old they are, and however much others say."""
    found = crowded.find("deploy fail schema", scope=SMALL, limit=200)

    assert (found.total, found.reached) == (60, 0)


def test_a_small_scope_that_goes_on_late_is_never_cut(crowded):
    """A conversation that is resumed spans the archive."""
    crowded.say("deploy fail schema at last", conversation=1)

    assert crowded.find("deploy fail schema", scope=SMALL, limit=200).total == 61


@pytest.mark.parametrize("since", [400.0, 500.0])
def test_a_time_is_searched_whole(crowded, since):
    """The rows of that time are few."""
    found = crowded.find("deploy fail schema", since=since, until=600.0, limit=200)

    assert (found.total, found.reached) == (60, 0)


def test_a_source_that_nobody_has_costs_nothing(crowded):
    found = crowded.find("deploy fail schema", sources=("telegram",))

    assert (found.total, found.reached, found.hits) == (0, 0, ())


@pytest.mark.parametrize("query", ['"schema of deploy and fail"', "the schema of deploy and fail"])
def test_a_phrase_of_common_words_is_found_wherever_it_stands(crowded, query):
    """Strict searches have a budget of their own."""
    assert crowded.ids(query)[0] == crowded.phrase


def test_what_a_chat_reads_of_itself_is_the_same_whether_its_rows_are_read_one_by_one_or_all(crowded, monkeypatch):
    """Which of the two is the faster way must not show: neither in what is found nor in how it is ranked."""
    for n in range(40):  # in turns with another chat
        crowded.say(
            ["schema deploy", "deploy the schema", "src/deploy/schema.py", "cache"][n % 4] + " x" * n, conversation=4
        )
        crowded.say("schema deploy, said elsewhere", conversation=2)
    scope = Scope(conversations=(4,), apart=True)
    asked = ['"schema deploy"', "schema deploy fail", "cache", "deploy AND schema", "src/deploy/schema.py", "unsaid"]

    def answers(crowd, needed):
        monkeypatch.setattr(fts, "_CROWD", crowd)
        monkeypatch.setattr(fts, "needed", needed)
        return [[(h.store_id, h.rung, h.score) for h in crowded.find(q, scope=scope, limit=400).hits] for q in asked]

    one_by_one = answers(10**9, lambda _: "")
    assert answers(1, words.needed) == one_by_one
    assert [len(found) > 9 for found in one_by_one] == [True] * 5 + [False]


def test_what_was_not_searched_is_named(crowded):
    """How far the search came, and that it was not all."""
    found = crowded.find("deploy fail schema")

    assert found.total_is_bound
    assert found.reached > 1


def test_a_pattern_reads_only_what_can_match(crowded):
    """Its whole words are looked up."""
    read = []

    def texts(ids):
        read.extend(ids)
        return crowded.texts(ids)

    found = crowded.index.scan(r"CERT_ALTNAME_\d+", texts=texts, scope=EVERYTHING, limit=10)

    assert [hit.store_id for hit in found.hits] == [crowded.pattern]
    assert set(read) == {crowded.pattern}


def test_a_pattern_of_several_words_is_looked_up_before_anything_is_read(crowded, monkeypatch):
    """However common each of them is: reading from the newest on would come to it after minutes."""
    monkeypatch.setattr(search_module, "SCANNED_BY_WORD", 10)
    found = crowded.scan(r"schema\s+of[ \t]deploy\s{1,2}and\s+fail", timeout_s=0.0)

    assert [hit.store_id for hit in found.hits] == [crowded.phrase]
    assert found.total_is_bound


def test_what_the_index_found_is_looked_at_when_the_search_for_it_took_all_the_time(crowded, monkeypatch):
    """A newer message that says nearly the same hides nothing, on however busy a machine."""
    monkeypatch.setattr(search_module, "SCANNED_BY_WORD", 10)
    crowded.say("the schema of deploy and others", conversation=2, at=4000)
    found = crowded.scan(r"schema\s+of\s+deploy\s+and\s+fail", timeout_s=0.0)

    assert [hit.store_id for hit in found.hits] == [crowded.phrase]


@pytest.mark.parametrize("most", [3, 1000], ids=["fewer than there are", "all"])
@pytest.mark.parametrize(
    "span", [(1, 140), (300, 600), (760, 900)], ids=["near the start", "in the middle", "near the end"]
)
def test_the_newest_come_first_from_whichever_end_the_index_is_read(world, span, most):
    """The direction in which FTS5 goes through a range is a matter of its cost alone."""
    ids = world.say_all([("user", f"river {n}" if n % 3 else "hill") for n in range(900)])
    where = fts.Where("m.store_id BETWEEN ? AND ?", span, *documents.rows_of(*span))
    rows = world.index._fts.match('"river"', where, most, own=True, newest=True)
    wanted = [store_id for n, store_id in enumerate(ids) if n % 3 and span[0] <= store_id <= span[1]][::-1]

    assert [row[2] for row in rows][:most] == wanted[:most]


def test_messages_side_by_side_are_read_at_once(crowded):
    """FTS5 looks for a phrase from the end of the whole index on, each time that it is asked."""
    neighbours = [documents.rows_of(n, n) for n in range(1, 3000)]
    (first, last), far = documents.rows_of(1, 2999), documents.rows_of(90_000, 90_000)

    assert few([*neighbours, far]) == [(first, last), far]


def test_how_common_a_word_is_is_counted_once_and_again_when_the_index_has_grown(crowded, monkeypatch):
    """For each count FTS5 reads all its rows."""
    monkeypatch.setattr(fts, "_COMMON", 100)
    asked = []
    plain = crowded.db.query
    monkeypatch.setattr(
        crowded.db,
        "query",
        lambda sql, params=(): (asked.append(params) if "_terms" in sql else None) or plain(sql, params),
    )
    first = crowded.find("deploy schema")
    crowded.find("deploy schema")
    crowded.say_all([("user", "deploy schema")] * 500, conversation=4)
    again = crowded.find("deploy schema", limit=600)

    counted = [set(params) - {None} for params in asked if "schema" in params]  # others ask for spellings
    assert counted == [{"deploi", "schema"}] * 2
    assert first.hits
    assert again.hits


@pytest.mark.few(13)
@pytest.mark.parametrize(
    "literal",
    ["TLS_CERT_ALTNAME_", "src/stem/trio", "a b c", "x", "see /etc/hosts now", "total is 12", "_y_", "naïve one"],
)
@pytest.mark.parametrize("around", ["{}", "({})", "pre{}post", "a {} b", "/{}/"])
def test_every_text_with_a_literal_holds_its_whole_words(world, literal, around):
    """Whatever stands around it."""
    store_id = world.say(around.format(literal))

    sql = "SELECT 1 FROM message_index WHERE message_index MATCH ?"
    assert [e for e, _ in words.whole(literal) if not world.db.query(sql, (e,))] == []
    assert store_id in [hit.store_id for hit in world.scan(re.escape(literal)).hits]


# -- other forms of a word ---------------------------------------------------------------------------------------

OTHER_FORMS = [
    ("Wann kamen die Häuser dran?", "Das Haus ist verkauft"),
    ("Was war mit der Rechnung?", "Alle Rechnungen sind bezahlt"),
    ("Où est le journal ?", "Les journaux arrivent lundi"),
    ("¿Quién se ocupa de la contratación?", "Ayer contrataron a dos personas"),
    ("O que falta para as instalações?", "A instalação acaba amanhã"),
    ("Chi ha firmato il contratto?", "Due contratti sono pronti"),
    ("Когда мы подписали договор?", "Список договоров готов"),
    ("أين العقد؟", "وقعنا عقدنا أمس"),
    ("איפה החוזה?", "שני חוזים נחתמו"),
]


@pytest.mark.parametrize(("asked", "said"), OTHER_FORMS)
def test_the_asked_word_is_found_in_another_form(world, asked, said):
    wanted = world.say(said)
    world.say("Something else entirely")

    assert world.ids(asked)[:1] == [wanted]


def test_a_lone_unknown_word_may_be_of_any_language(world):
    """Nothing tells its language, and it stands nowhere as it is."""
    wanted = world.say("Alle Rechnungen sind bezahlt")

    assert world.ids("Rechnung") == [wanted]


def test_a_form_that_only_others_said_shows_nowhere(world):
    """Neither among the hits nor in the words of the notes."""
    question = "Wann war die Prüfung der Lieferungen?"
    mine = world.say("Die Prüfung ist vorbei", principal="anna", conversation=1)
    scope = Scope("anna", apart=True)  # as everybody has it who may not read all
    alone = world.find(question, scope=scope)
    for n in range(20):
        world.say(f"Lieferung {n} und die Prüfungen", principal="bert", conversation=2)
    beside = world.find(question, scope=scope)

    assert ([hit.store_id for hit in beside.hits], beside) == ([mine], alone)


# -- how far a deep look is ------------------------------------------------------------------------------
def many_words(world):
    """So many words that looking at each takes a while."""
    for n in range(40):
        world.say(" ".join(f"w{n}x{k}" for k in range(100)))


def test_a_deep_look_at_the_index_says_how_far_it_is(world, monkeypatch):
    """Each step of it tells of how much; a terminal makes the time left of that."""
    monkeypatch.setattr(connection, "TOLD_STEPS", 50)
    many_words(world)
    seen = []
    world.index.check(deep=True, progress=lambda *at: seen.append(at))

    steps = {what: [(done, total) for name, done, total in seen if name == what] for what, _, _ in seen}
    assert {"reading message index data", "checking message index"} <= set(steps)
    assert all(0 <= done <= total for at in steps.values() for done, total in at)
    words_ = [at for at in steps["checking message index"] if at[1] == 4000]
    assert words_ == [(0, 4000), (1000, 4000), (2000, 4000), (3000, 4000)]


def test_ctrl_c_ends_a_deep_look_at_the_index(world, monkeypatch):
    """SQLite would only say that it was interrupted."""
    monkeypatch.setattr(connection, "TOLD_STEPS", 50)
    many_words(world)

    def stopped(what, _done, _total):
        if what == "reading message index docsize":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.index.check(deep=True, progress=stopped)
