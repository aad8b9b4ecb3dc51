"""Rows of the search index have computed numbers: of one chunk of one message each, near those of the next message."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm.search import documents

STORE_IDS = st.one_of(st.integers(0, 100_000), st.integers(0, documents.LAST_STORE_ID))
CHUNKS = st.integers(0, documents.MAX_CHUNKS - 1)


@pytest.fixture(scope="module")
def sql():
    with sqlite3.connect(":memory:") as connection:
        yield lambda expression, value: connection.execute(
            f"SELECT {expression.format('v')} FROM (SELECT ? AS v)", (value,)
        ).fetchone()[0]
    connection.close()


@given(STORE_IDS, CHUNKS)
def test_a_number_tells_its_message_and_its_chunk(sql, store_id, chunk):
    number = documents.chunk_id(store_id, chunk)
    assert 0 <= number < 2**62
    assert (sql(documents.STORE_ID_SQL, number), documents.chunk_of(number)) == (store_id, chunk)


@given(STORE_IDS)
def test_sql_knows_the_number_of_a_first_chunk(sql, store_id):
    assert sql(documents.FIRST_SQL, store_id) == documents.chunk_id(store_id, 0)


@given(STORE_IDS, st.integers(0, 1000), CHUNKS)
def test_a_range_of_messages_is_a_range_of_numbers(first_id, more, chunk):
    last_id = min(first_id + more, documents.LAST_STORE_ID)
    first, last = documents.rows_of(first_id, last_id)
    assert first <= documents.chunk_id(first_id, chunk) <= last
    assert first <= documents.chunk_id(last_id, chunk) <= last
    low, high = documents.messages_of(first, last)
    assert low <= first_id <= last_id <= high < low + more + 3 * 128


def test_no_two_chunks_of_neighbours_have_one_number():
    numbers = {documents.chunk_id(s, c) for s in range(300) for c in range(documents.MAX_CHUNKS)}
    assert len(numbers) == 300 * documents.MAX_CHUNKS


def test_first_chunks_of_messages_that_follow_each_other_lie_close_together_and_in_order():
    """What makes the index small: the distance to a message said up to 31 messages later takes one byte, mostly."""
    steps = [documents.chunk_id(n + 1, 0) - documents.chunk_id(n, 0) for n in range(1, 1000)]
    assert sum(step == 4 for step in steps) >= 0.99 * len(steps)
    assert all(step > 0 for step in steps)
