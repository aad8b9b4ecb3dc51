"""
JSON within texts, as it reads: what most tools answer, and the arguments of calls.

Pure. Only for what is indexed: texts, offsets and literals stay those of what is stored.
"""

from __future__ import annotations

import re

_JSON = re.compile(r'[{\[]\s{0,8}"')
_UNICODE = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")


def json_begins(text: str) -> int:
    """Where JSON with escapes begins in a text (the output of most tools, the arguments of calls); its length if nowhere."""
    found = _JSON.search(text) if "\\" in text else None
    return found.start() if found else len(text)


def unescaped(text: str) -> str:
    """A piece of JSON with its line ends and characters as such: ``\\nname`` is no word that begins with an n."""
    text = text.replace("\\\\", " ").replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r")
    return _UNICODE.sub(_characters, text) if "\\u" in text else text


def _characters(match: re.Match[str]) -> str:
    codes = bytes.fromhex(match.group().replace("\\u", ""))
    return codes.decode("utf-16-be", "replace")
