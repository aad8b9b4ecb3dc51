"""
Numbers of the rows of a search index that hold messages in chunks.

Pure. A full-text index keeps the distance from one row of a word's list to the next, in one byte below 128 and in two below
16,384. So the first chunks of messages that follow each other get numbers that lie close together: 128 messages share a group of
16,384 numbers, and the first four chunks of each are at its end, in the order of the messages; what else long ones have comes
before. A number is computed, never looked up; a range of messages is a range of groups.
"""

from __future__ import annotations

from typing import Final

MAX_CHUNKS: Final = 128
_MESSAGES_BITS = 7  # messages in a group
_NEAR_BITS = 2  # chunks of a message that lie at the end of its group

#: Numbers of one group: within it, rows are not in the order of their messages.
GROUP: Final = MAX_CHUNKS << _MESSAGES_BITS
_MESSAGES = 1 << _MESSAGES_BITS
_NEAR = 1 << _NEAR_BITS
_FAR = MAX_CHUNKS - _NEAR
_NEAR_FROM = _MESSAGES * _FAR
_NEAR_MASK = _MESSAGES * _NEAR - 1  # _NEAR_FROM is a multiple of the numbers behind it

#: The greatest store id that has numbers.
LAST_STORE_ID: Final = (1 << (62 - MAX_CHUNKS.bit_length() + 1)) - 1

#: SQL: the number of a message's first chunk, of ``{}`` its store id.
FIRST_SQL: Final = (
    f"(({{0}} >> {_MESSAGES_BITS}) * {GROUP} + {_NEAR_FROM} + (({{0}} & {_MESSAGES - 1}) << {_NEAR_BITS}))"
)
#: SQL: the store id of the message that a row belongs to, of ``{}`` its number.
STORE_ID_SQL: Final = (
    f"(({{0}} / {GROUP} << {_MESSAGES_BITS}) + CASE WHEN {{0}} & {GROUP - 1} >= {_NEAR_FROM} "
    f"THEN ({{0}} & {_NEAR_MASK}) >> {_NEAR_BITS} ELSE ({{0}} & {GROUP - 1}) / {_FAR} END)"
)


def chunk_id(store_id: int, chunk: int) -> int:
    """The number of a message's chunk, counted from 0."""
    base, place = (store_id >> _MESSAGES_BITS) * GROUP, store_id & (_MESSAGES - 1)
    if chunk < _NEAR:
        return base + _NEAR_FROM + (place << _NEAR_BITS) + chunk
    return base + place * _FAR + chunk - _NEAR


def chunk_of(number: int) -> int:
    """Which chunk of its message a row is."""
    offset = number & (GROUP - 1)
    return offset & (_NEAR - 1) if offset >= _NEAR_FROM else _NEAR + offset % _FAR


def rows_of(first_id: int, last_id: int) -> tuple[int, int]:
    """The first and last number that messages between two store ids may have; some of their neighbours lie there too."""
    return (first_id >> _MESSAGES_BITS) * GROUP, ((last_id >> _MESSAGES_BITS) + 1) * GROUP - 1


def messages_of(first: int, last: int) -> tuple[int, int]:
    """The store ids of all groups that a range of numbers touches."""
    return first // GROUP << _MESSAGES_BITS, ((last // GROUP + 1) << _MESSAGES_BITS) - 1
