"""
The stored form of envelopes: one by one while they are young, many together when they are cold.

Pure. A young envelope is one tag byte and UTF-8, deflated (short ones with a dictionary) when that is worth it. A block holds
the envelopes of messages that followed each other, deflated as one: they repeat each other far more than themselves.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

_PLAIN, _ZLIB, _ZLIB_D1 = b"\0", b"\1", b"\2"
_SMALL_BYTES = 64  # below this zlib saves nothing
_MIDDLE_BYTES = 4096  # above this a dictionary saves nothing
#: What envelopes are made of beside the words, most common last. Part of the format: a change needs a new tag.
_DICTIONARY_1 = (
    b'"name":"search_files","tool_name":"search_files","name":"web_search","name":"write_file","tool_name":"write_file","name":'
    b'"read_file","tool_name":"read_file","name":"terminal","tool_name":"terminal","effect_disposition":"_tool_output_risk":'
    b'"reasoning_content":"reasoning_details":"codex_reasoning_items":"platform_message_id":"message_id":"observed":true '
    b'[{"type":"text","text":"{"type":"image_url","image_url":{"url":" the and you that with this from have not for are was '
    b"error file line path code test function return import class def self print None True False "
    b'{"role":"user","content":"","timestamp":17'
    b'{"role":"assistant","content":"","reasoning":null,"finish_reason":"stop"}'
    b'{"role":"assistant","content":"","reasoning":null,"finish_reason":"tool_calls","tool_calls":[{"id":"call_","call_id":'
    b'"call_","response_item_id":"fc_call_","type":"function","function":{"name":"terminal","arguments":"{\\"command\\": \\"'
    b'\\", \\"path\\": \\"\\"}"}}]}{"role":"tool","name":"terminal","tool_name":"terminal","content":"","tool_call_id":"call_"}'
)
#: Text that goes into one block. Twice as much would save 2 % of the text more, and whoever reads one message unpacks all of it.
BLOCK_BYTES: Final = 48 * 1024
#: Nothing larger is deflated, alone or in a block: what unpacks to more was not written here, and is refused before it is.
MOST_BYTES: Final = 64 * 1024 * 1024


def pack(envelope: str) -> bytes:
    """The stored form of a young envelope."""
    raw = envelope.encode("utf-8")
    if len(raw) < _SMALL_BYTES or len(raw) > MOST_BYTES:
        return _PLAIN + raw
    if len(raw) > _MIDDLE_BYTES:
        return _ZLIB + zlib.compress(raw, 1)
    deflate = zlib.compressobj(1, zlib.DEFLATED, -13, 7, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY_1)
    return _ZLIB_D1 + deflate.compress(raw) + deflate.flush()


def unpack(blob: bytes) -> str:
    """The envelope that ``pack`` was given. Raises zlib.error or ValueError for anything else."""
    tag, body = blob[:1], blob[1:]
    if tag == _ZLIB:
        body = _inflated(zlib.decompressobj(), body, MOST_BYTES)
    elif tag == _ZLIB_D1:
        body = _inflated(zlib.decompressobj(-13, _DICTIONARY_1), body, _MIDDLE_BYTES)
    elif tag != _PLAIN:
        raise ValueError(f"no envelope begins with {tag!r}")
    return body.decode("utf-8")


def _inflated(inflate: zlib._Decompress, body: bytes, most: int) -> bytes:
    """All of it, if that is no more than was ever deflated so."""
    raw = inflate.decompress(body, most + 1)
    if len(raw) > most:
        raise zlib.error(f"the deflated envelope has more than {most} bytes")
    if not inflate.eof:
        raise zlib.error("the deflated envelope is cut short")
    return raw


def pack_block(envelopes: Sequence[tuple[int, str]]) -> bytes:
    """Envelopes by store id as one blob: which ones and how long each is, then all of them, deflated together."""
    bodies = [envelope.encode("utf-8") for _, envelope in envelopes]
    head = json.dumps([[store_id for store_id, _ in envelopes], [len(body) for body in bodies]], separators=(",", ":"))
    deflate = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY_1)
    return deflate.compress(head.encode("ascii") + b"\n" + b"".join(bodies)) + deflate.flush()


class Block(Mapping[int, bytes]):
    """Envelopes (as UTF-8) by store id, cut out of what was unpacked only when they are asked for. ``size``: bytes of all."""

    __slots__ = ("_body", "_ends", "size")

    def __init__(self, store_ids: Sequence[int], sizes: Sequence[int], body: bytes) -> None:
        self.size = len(body)
        self._body = body
        self._ends = dict(zip(store_ids, zip(accumulate(sizes), sizes, strict=True), strict=True))
        if sum(sizes) != len(body) or min(sizes, default=0) < 0:
            raise ValueError("the block does not hold what its head says")

    def __getitem__(self, store_id: int) -> bytes:
        end, size = self._ends[store_id]
        return self._body[end - size : end]

    def __iter__(self) -> Iterator[int]:
        return iter(self._ends)

    def __len__(self) -> int:
        return len(self._ends)


def unpack_block(blob: bytes) -> Block:
    """The envelopes (as UTF-8) that ``pack_block`` was given. Raises zlib.error or ValueError for anything else."""
    inflate = zlib.decompressobj(zlib.MAX_WBITS, _DICTIONARY_1)
    raw = inflate.decompress(blob, MOST_BYTES)
    if not inflate.eof:
        raise zlib.error("the block is cut short")
    head, _, body = raw.partition(b"\n")
    store_ids, sizes = json.loads(head)
    return Block(store_ids, sizes, body)
