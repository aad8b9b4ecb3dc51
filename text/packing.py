"""
The stored form of envelopes: one by one while they are young, many together when they are cold.

Pure. A young envelope is one tag byte and UTF-8, deflated (up to 4 kB with a dictionary) unless it is short. A block holds the
envelopes of messages that followed each other, deflated as one: they repeat each other far more than themselves.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final

_PLAIN, _ZLIB, _ZLIB_D1 = b"\0", b"\1", b"\2"
_SMALL_BYTES = 600  # shorter ones take as long to deflate as to store, and a block takes them in soon
_MIDDLE_BYTES = 4096  # above this a dictionary saves nothing
#: Larger ones stay alone: whoever reads a small neighbour should not unpack them too.
LARGE_BYTES: Final = 256 * 1024
_SAMPLE_BYTES = 32 * 1024
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
BLOCK_BYTES: Final = 60 * 1024
_SUM_BYTES: Final = 4
_STRETCH_BYTES: Final = 4096  # inflated at a time
_MOST_HEAD_BYTES: Final = 1024 * 1024
#: Nothing larger is deflated, alone or in a block: what unpacks to more was not written here, and is refused before it is.
MOST_BYTES: Final = 64 * 1024 * 1024


def pack(envelope: str | bytes) -> bytes:
    """The stored form of a young envelope."""
    raw = envelope if isinstance(envelope, bytes) else envelope.encode("utf-8")
    if len(raw) < _SMALL_BYTES or len(raw) > MOST_BYTES:
        return _PLAIN + raw
    if len(raw) > _MIDDLE_BYTES:
        return _ZLIB + deflated(raw)
    deflate = zlib.compressobj(1, zlib.DEFLATED, -13, 7, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY_1)
    return _ZLIB_D1 + deflate.compress(raw) + deflate.flush()


def deflated(raw: bytes) -> bytes:
    """What a turn can wait for: zlib's fastest level; of a large text without repetitions (base64) it only counts characters.

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
    """Envelopes by store id as one blob: a checksum, then which ones and how long each is, and all of them, deflated together."""
    bodies = [envelope.encode("utf-8") for _, envelope in envelopes]
    head = json.dumps([[store_id for store_id, _ in envelopes], [len(body) for body in bodies]], separators=(",", ":"))
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY_1)
    body = deflate.compress(head.encode("ascii") + b"\n" + b"".join(bodies)) + deflate.flush()
    return zlib.crc32(body).to_bytes(_SUM_BYTES, "big") + body


class Block(Mapping[int, bytes]):
    """The envelopes (as UTF-8) of a blob by store id, inflated as far as they are asked for. ``size``: bytes of all of them.

    The checksum is of the deflated bytes: what is read is known to be right before the rest is inflated. For several threads.
    """

    __slots__ = ("_inflate", "_left", "_lock", "_places", "_raw", "size")

    def __init__(self, blob: bytes) -> None:
        """Raises zlib.error or ValueError for what is no block."""
        if zlib.crc32(blob[_SUM_BYTES:]) != int.from_bytes(blob[:_SUM_BYTES], "big") or len(blob) <= _SUM_BYTES:
            raise zlib.error("the block is damaged: its checksum is that of other bytes")
        self._lock = threading.Lock()
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS, _DICTIONARY_1)
        self._left = blob[_SUM_BYTES:]
        self._raw = bytearray()
        while (end := self._raw.find(b"\n")) < 0:
            if len(self._raw) > _MOST_HEAD_BYTES or not self._inflated(_STRETCH_BYTES):
                raise ValueError("the head of the block has no end")
        store_ids, sizes = json.loads(self._raw[:end])
        self.size = sum(sizes)
        if min(sizes, default=0) < 0 or self.size > MOST_BYTES:
            raise ValueError(f"the block says that it holds {self.size} bytes")
        begins = list(accumulate(sizes, initial=end + 1))
        self._places = dict(zip(store_ids, pairwise(begins), strict=True))

    def __getitem__(self, store_id: int) -> bytes:
        begin, end = self._places[store_id]
        with self._lock:
            while len(self._raw) < end:
                if not self._inflated(max(end - len(self._raw), _STRETCH_BYTES)):
                    raise zlib.error("the block is cut short")
            return bytes(self._raw[begin:end])

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _inflated(self, most: int) -> bool:
        """Inflate some more; False when there is no more."""
        piece = self._inflate.decompress(self._left, most)
        self._left = self._inflate.unconsumed_tail
        self._raw += piece
        return bool(piece)
