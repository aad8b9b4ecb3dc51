"""
The grammar of the text that this plugin itself puts into a prompt.

Three kinds: the context message (summaries), the carrier (a one-line assistant message that keeps two user messages apart)
and the stub (what stands for an oversized tool result). Each carries the conversation's nonce. Reading is exact: opening
line at the very start, closing line as printed, nonce known; anything else is somebody's words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from . import alike
from .content import canonical_text

_NONCE = r"[0-9a-f]{16}"
_OPEN = re.compile(rf"\[lcm:history ({_NONCE})\]\n")
_CLOSE = re.compile(rf"\n\[/lcm:history ({_NONCE}) assembly=(\d+)\]")
_STUB = re.compile(rf"\[lcm:stub ({_NONCE}) msg_(\d+)[^\]\n]*\]\n[\s\S]*\n\[/lcm:stub\]")

_TAGS = ("<summary", "</summary", "<present_state", "<presentstate", "</present_state", "</presentstate")
_OPENINGS = (*_TAGS, "[lcm:", "[/lcm:", "[[memory", "[memoryarchived")
_NEUTRAL = "\u2039"
_KEY_CHARS = 8

#: First line of a placeholder for archived messages, as it is printed; an imported summary may only look like one.
ARCHIVED = re.compile(
    r"\[\[memory archived handle=mem://[\w.:@+/-]+ range=\d+\.\.\d+ messages=\d+ chars=\d+ tokens=\d+\]\](?:\n|\Z)",
    re.ASCII,
)
CARRIER_TEXT = "Noted: the record above is history for reference. The conversation continues below."
_CARRIER = re.compile(rf"\[lcm:carrier ({_NONCE})\] {re.escape(CARRIER_TEXT)}")


@dataclass(frozen=True, slots=True)
class Context:
    """A context message found in a live list. ``rest`` is text that the host glued behind it."""

    nonce: str
    assembly_id: int
    rest: str


def context(nonce: str, assembly_id: int, body: str) -> str:
    """The whole text of a context message. ``body`` must not hold a closing line (see ``defuse``)."""
    return f"[lcm:history {nonce}]\n{body}\n[/lcm:history {nonce} assembly={assembly_id}]"


def key(nonce: str) -> str:
    """The part of the nonce that the tags inside of a context message bear."""
    return nonce[:_KEY_CHARS]


def defuse(text: str, nonce: str) -> str:
    """Quoted text that cannot close our fence: no nonce, and a visible sign where a look-alike of our tags begins."""
    text = text.replace(key(nonce), nonce[:4] + "…") if key(nonce) in text else text
    out, done = [], 0
    for start, stop in alike.signs(text):
        if alike.begins(text, start, _OPENINGS):
            out += [text[done:start], _NEUTRAL]
            done = stop
    return "".join([*out, text[done:]])


def summary(nonce: str, facts: str, body: str, lead: str = "") -> str:
    """One summary in its tags. ``facts`` are attributes of ours, ``lead`` a first line of ours."""
    return f'<summary {facts} key="{key(nonce)}">\n{lead}{defuse(body, nonce)}\n</summary>'


def present_state(nonce: str, body: str) -> str:
    """The block of present state in its tags."""
    return f'<present_state key="{key(nonce)}">\n{defuse(body, nonce)}\n</present_state>'


def read_context(text: str) -> Context | None:
    """The context message that ``text`` begins with, if it does."""
    if not text.startswith("[lcm:history "):
        return None
    opened = _OPEN.match(text)
    if opened is None:
        return None
    for closed in _CLOSE.finditer(text):
        if closed.group(1) == opened.group(1):
            return Context(opened.group(1), int(closed.group(2)), text[closed.end() :].strip())
    return None


def context_digest(text: str) -> bytes:
    """Content of the context message that ``text`` begins with, in any spacing of the host, without text glued behind."""
    opened = _OPEN.match(text)
    closed = next((m for m in _CLOSE.finditer(text) if opened and m.group(1) == opened.group(1)), None)
    record = canonical_text(text[: closed.end()] if closed else text)
    return blake2b(" ".join(record.split()).encode("utf-8", "replace"), digest_size=16).digest()


def carrier(nonce: str) -> str:
    """The one-line assistant message between the context message and a user message."""
    return f"[lcm:carrier {nonce}] {CARRIER_TEXT}"


def read_carrier(text: str) -> tuple[str, str] | None:
    """(nonce, text glued behind it) of a carrier, or None."""
    if not text.startswith("[lcm:carrier "):
        return None
    line, _, rest = text.partition("\n")
    found = _CARRIER.fullmatch(line)
    return (found.group(1), rest.strip()) if found else None


def glued(text: str) -> str:
    """Text that the host glued behind the context message or carrier that ``text`` begins with; all of it where there is none."""
    context, carried = read_context(text), read_carrier(text)
    return context.rest if context is not None else carried[1] if carried is not None else text


def stub(nonce: str, store_id: int, note: str, excerpt: str) -> str:
    """Stub in the prompt for the text of message ``store_id``."""
    fact = defuse(note, nonce).replace("]", ")").replace("\n", " ")
    return f"[lcm:stub {nonce} msg_{store_id} {fact}]\n{defuse(excerpt, nonce)}\n[/lcm:stub]"


def read_stub(text: str) -> tuple[str, int] | None:
    """(nonce, store id) of a stub, or None."""
    if not text.startswith("[lcm:stub "):
        return None
    found = _STUB.fullmatch(text.strip())
    return (found.group(1), int(found.group(2))) if found else None
