"""
Token estimates without a tokeniser.

A weight per class of UTF-8 byte, counted at C speed. It stays within about 15 % of o200k on prose, code, JSON and
Chinese, where characters/4 is off by up to a factor of three; and unlike ``tiktoken`` it never opens a file or the
network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Count = Callable[[str], int]

#: Every message costs a few tokens for its role and separators.
MESSAGE_OVERHEAD_TOKENS = 4
#: What providers charge for an image, whatever its bytes.
IMAGE_TOKENS = 1500

_WEIGHTS = {
    b"l": 0.222,  # lower-case letters
    b"u": 0.567,  # upper-case letters
    b"d": 0.609,  # digits
    b"p": 0.482,  # punctuation
    b"s": 0.057,  # blanks
    b"n": 0.293,  # line ends
    b"c": 0.788,  # first byte of a CJK character (its following bytes count nothing)
    b"o": 1.053,  # first byte of any other non-ASCII character
}


def _class_of(byte: int) -> bytes:
    char = chr(byte)
    if byte >= 0xE3 and byte <= 0xED:
        return b"c"
    if byte >= 0xC0:
        return b"o"
    if byte >= 0x80:
        return b"-"
    if char.islower():
        return b"l"
    if char.isupper():
        return b"u"
    if char.isdigit():
        return b"d"
    if char in " \t":
        return b"s"
    if char in "\r\n":
        return b"n"
    return b"p" if char.isprintable() else b"-"


#: What is counted of a huge text, and in how many pieces.
_COUNTED_CHARS = 256 * 1024
_STRETCHES = 256

_TABLE = b"".join(_class_of(byte) for byte in range(256))
_SILENT = bytes(byte for byte in range(256) if _class_of(byte) == b"-")
_OTHERS = tuple((name, weight) for name, weight in _WEIGHTS.items() if name != b"l")


def count(text: str) -> int:
    """Estimated tokens of ``text``; at least 1 for any non-empty text.

    Of a huge text even stretches are counted, which comes within 2 % of counting all of it.
    """
    if len(text) <= _COUNTED_CHARS:
        return _count(text)
    step = len(text) / _STRETCHES
    size = _COUNTED_CHARS // _STRETCHES
    stretches = "".join([text[at : at + size] for at in (int(n * step) for n in range(_STRETCHES))])
    return round(_count(stretches) * len(text) / len(stretches))


def _count(text: str) -> int:
    if not text:
        return 0
    classes = text.encode("utf-8", "surrogatepass").translate(_TABLE, _SILENT)
    rest = classes.translate(None, b"l")  # two thirds are gone before the others are counted
    tokens = (len(classes) - len(rest)) * _WEIGHTS[b"l"]
    for name, weight in _OTHERS:
        tokens += rest.count(name) * weight
    return max(1, round(tokens))


def count_message(text: str, calls: int, arguments: str, images: int = 0) -> int:
    """Estimated tokens of one message: its text, its tool calls, its images."""
    return MESSAGE_OVERHEAD_TOKENS + count(text) + count(arguments) + calls * 12 + images * IMAGE_TOKENS


def rough(messages: list[Mapping[str, Any]]) -> int:
    """The host's own rough estimate: characters of the printed dict / 4, images flat.

    Only a stand-in for where the host's function cannot be imported; the two agree, so that "under the threshold" means the
    same on both sides.
    """
    chars = images = 0
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            kept = []
            for part in content:
                if isinstance(part, Mapping) and part.get("type") in ("image", "image_url", "input_image"):
                    images += 1
                    kept.append({"type": part.get("type"), "image": "[stripped]"})
                else:
                    kept.append(part)
            message = {**message, "content": kept}
        chars += len(str(message))
    return (chars + 3) // 4 + images * IMAGE_TOKENS
