"""
Bytes of stored JSON: one message by itself while it is young, many together in a block once they are old.

Pure. Young stored JSON is one tag byte and UTF-8, deflated (up to 4 kB with a dictionary) unless it is short. A block holds the
stored JSON of messages that followed each other, deflated as one: they repeat each other far more than themselves.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final

_PLAIN, _ZLIB, _ZLIB_D1 = b"\0", b"\1", b"\2"
_SMALL_BYTES = 600  # shorter ones take as long to deflate as to store, and a block takes them in soon
_MIDDLE_BYTES = 4096  # above this a dictionary saves nothing
#: Larger ones stay alone: whoever reads a small neighbour should not unpack them too.
LARGE_BYTES: Final = 256 * 1024
_SAMPLE_BYTES = 32 * 1024
#: Parts of stored JSON beside the words, most common last. Part of the format: a change needs a new tag.
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
BLOCK_BYTES: Final = 60 * 1024
_SUM_BYTES: Final = 4
#: A block holds no more: what inflates to more was not written here, and is refused before it is.
_MOST_BLOCK_BYTES: Final = 6 * LARGE_BYTES
#: Nothing larger is deflated, alone or in a block: what unpacks to more was not written here, and is refused before it is.
MOST_BYTES: Final = 64 * 1024 * 1024


def pack(stored_json: str | bytes) -> bytes:
    """Bytes of the stored JSON of one message."""
    raw = stored_json if isinstance(stored_json, bytes) else stored_json.encode("utf-8")
    if len(raw) < _SMALL_BYTES or len(raw) > MOST_BYTES:
        return _PLAIN + raw
    if len(raw) > _MIDDLE_BYTES:
        return _ZLIB + deflated(raw)
    deflate = zlib.compressobj(1, zlib.DEFLATED, -13, 7, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY_1)
    return _ZLIB_D1 + deflate.compress(raw) + deflate.flush()


def deflated(raw: bytes) -> bytes:
    """Bytes deflated as fast as a turn can wait for; of a large text without repetitions (base64) only by characters.

    Looking for repetitions where there are none takes four times as long, and what comes of it is a little larger.
    """
    if len(raw) > LARGE_BYTES:
        middle = len(raw) // 2
        sample = raw[middle : middle + _SAMPLE_BYTES]
        if len(counted(sample)) <= len(zlib.compress(sample, 1)):
            return counted(raw)
    return zlib.compress(raw, 1)


def counted(raw: bytes) -> bytes:
    """A smaller form of bytes in which nothing repeats: frequent ones take fewer bits."""
    deflate = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_HUFFMAN_ONLY)
    return deflate.compress(raw) + deflate.flush()


def unpack(blob: bytes) -> str:
    """The stored JSON that ``pack`` was given. Raises zlib.error or ValueError for anything else."""
    tag, body = blob[:1], blob[1:]
    if tag == _ZLIB:
        body = _inflated(zlib.decompressobj(), body, MOST_BYTES)
    elif tag == _ZLIB_D1:
        body = _inflated(zlib.decompressobj(-13, _DICTIONARY_1), body, _MIDDLE_BYTES)
    elif tag != _PLAIN:
        raise ValueError(f"no stored JSON begins with {tag!r}")
    return body.decode("utf-8")


def _inflated(inflate: zlib._Decompress, body: bytes, most: int) -> bytes:
    """All of it, if that is no more than was ever deflated so."""
    raw = inflate.decompress(body, most + 1)
    if len(raw) > most:
        raise zlib.error(f"the deflated JSON has more than {most} bytes")
    if not inflate.eof:
        raise zlib.error("the deflated JSON is cut short")
    return raw


Stored = bytes | int
"""The column ``envelope`` of a row: stored JSON by itself, or the number of its block."""


def read_json(store_id: int, stored: Stored, block: Callable[[int], Mapping[int, bytes]]) -> str:
    """The stored JSON of a message. Raises zlib.error, ValueError or KeyError where it cannot be read."""
    if isinstance(stored, bytes):
        return unpack(stored)
    if not isinstance(stored, int):
        raise ValueError(f"stored JSON of type {type(stored).__name__}")
    known = block(stored)
    if store_id not in known:
        raise KeyError(f"block {stored} does not hold it")
    return known[store_id].decode("utf-8")


def pack_block(json_texts: Sequence[tuple[int, str]]) -> bytes:
    """Stored JSON by store id as one blob: a checksum, which ones and how long each is, and all of them, deflated together."""
    bodies = [stored_json.encode("utf-8") for _, stored_json in json_texts]
    head = json.dumps([[store_id for store_id, _ in json_texts], [len(body) for body in bodies]], separators=(",", ":"))
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY_1)
    body = deflate.compress(head.encode("ascii") + b"\n" + b"".join(bodies)) + deflate.flush()
    return zlib.crc32(body).to_bytes(_SUM_BYTES, "big") + body


def unpack_block(blob: bytes) -> dict[int, bytes]:
    """The stored JSON (as UTF-8) of a blob by store id. Raises zlib.error or ValueError for what is no block."""
    body = blob[_SUM_BYTES:]
    if not body or zlib.crc32(body) != int.from_bytes(blob[:_SUM_BYTES], "big"):
        raise zlib.error("the block is damaged: its checksum is that of other bytes")
    raw = _inflated(zlib.decompressobj(-zlib.MAX_WBITS, _DICTIONARY_1), body, _MOST_BLOCK_BYTES)
    begin = raw.find(b"\n") + 1
    store_ids, sizes = json.loads(raw[:begin])
    places = list(pairwise(accumulate(sizes, initial=begin)))
    if min(sizes, default=0) < 0 or begin + sum(sizes) != len(raw):
        raise ValueError(f"the block holds {len(raw) - begin} bytes, and says that it holds {sum(sizes)}")
    return {store_id: raw[start:end] for store_id, (start, end) in zip(store_ids, places, strict=True)}
