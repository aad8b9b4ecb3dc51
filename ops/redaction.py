"""
Redaction of what is stored: a preview, and the removal itself with its proof. Shows no secret.

Redaction by itself works on the way in only. What was stored before is shown here first, and then taken out of rows, summaries,
archives, names, files and indexes.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..config import SENSITIVE_PATTERNS
from ..errors import BadRequest, StoreError
from ..ingest.filters import SECRETS, redacted
from ..records import Flag, Message, Row, Stored
from ..storage import files
from ..text import content
from ..text.redact import Redactor
from ..text.secret_kinds import CATALOGUE
from . import backup, render
from .answers import FOUND, OK, Answer, Verb, Words, terminal_only
from .explain import readable
from .survey import Survey
from .upkeep import reindex

if TYPE_CHECKING:
    from ..recall.access import Access
    from ..storage.files import Progress

_DONE = re.compile(r"\[redacted:([a-z_]+)(?::[0-9a-f]{12})?\]")
_SAMPLES: Final = 3
_ADDRESSES: Final = 20
_AROUND: Final = 24
_LEAST_SEARCHED: Final = 8  # characters: shorter ones stand in any file by chance
_AT_ONCE: Final = 50  # rows of one transaction
_PART_BYTES: Final = 250_000  # other threads wait while one is searched
_BRANCHES: Final = 3  # bytes
#: Kind of a secret inside base64: its placeholder is encoded too, so the kind is not seen.
ENCODED: Final = "encoded"


@dataclass(slots=True)
class Found:
    """Findings of one kind of secret: number, addresses, samples in which the placeholder stands."""

    count: int = 0
    addresses: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Preview:
    """Preview of a redaction, in the numbers of ``Applied``. ``unknown``: names that are no kind.

    ``rows``, ``changed``: messages and summaries that were read, and that would change; ``damaged``: that cannot be read.
    """

    kinds: tuple[str, ...]
    unknown: tuple[str, ...]
    rows: int = 0
    changed: int = 0
    found: dict[str, Found] = field(default_factory=dict)
    damaged: int = 0
    messages: int = 0
    texts: int = 0
    secrets: int = 0


def preview(deps: Access, names: Sequence[str], progress: Progress) -> Preview:
    """Read all that may be shown here, as redaction would. ``names``: kinds; none: those configured."""
    redactor = _redactor(deps, names)
    redactor.seen = set()
    out, damaged = Preview(redactor.kinds, redactor.unknown), list[int]()
    total = sum(Survey(deps.db).total(*each) for each in (("messages", "store_id"), ("nodes", "node_id")))
    for address, before, after in _texts(deps, redactor, damaged):
        out.rows += 1
        if after != before:
            out.changed += 1
            out.messages += address.startswith("msg_")
            _note(out.found, address, before, after)
        if out.rows % 1000 == 0:
            progress("reading", min(out.rows, total), total)
    out.texts = out.changed - out.messages
    if deps.reads_all:
        out.texts = files.rewrite_texts(deps.db, redactor.text, dry=True)
        _files_with(deps, redactor)
    out.damaged = len(deps.scopes.messages(damaged, readable(deps)))
    out.secrets = len(redactor.seen)
    return out


def _redactor(deps: Access, names: Sequence[str]) -> Redactor:
    """A redactor of the kinds that are named, or configured. Raises BadRequest where none of the names is a kind."""
    redactor = Redactor(names or deps.config.sensitive_patterns or SENSITIVE_PATTERNS)
    if names and len(redactor.unknown) == len(names):
        raise BadRequest(
            f"not a kind of secret: {', '.join(redactor.unknown)}. The kinds are {', '.join(CATALOGUE)}, and all"
        )
    return redactor


def _texts(deps: Access, redactor: Redactor, damaged: list[int]) -> Iterator[tuple[str, str, str]]:
    """(address, text now, text without its secrets) of every message, as JSON, and every summary."""
    scope, scopes = readable(deps), deps.scopes
    for rows in deps.store.row_batches(damaged=damaged):
        allowed = scopes.messages([row.store_id for row in rows], scope)
        for row in rows:
            if row.store_id in allowed:
                before, after = (each.stored_json.decode("utf-8") for each in _read(deps, row, redactor))
                yield f"msg_{row.store_id}", before, after
    for nodes in deps.dag.node_batches():
        owned = set(scopes.conversations(sorted({node.conversation_id for node in nodes}), scope))
        for node in nodes:
            if node.conversation_id in owned:
                said = node.text, node.expand_hint
                yield node.address, "\n".join(said), "\n".join(map(redactor.text, said))


def _read(deps: Access, row: Row, redactor: Redactor) -> tuple[Message, Message]:
    """A whole message, and the same without its secrets: the same object where it has none."""
    read = content.read_message(deps.payloads.whole(row).stored_json)
    return read, redacted(read, redactor)


def _files_with(deps: Access, redactor: Redactor) -> set[str]:
    """Names of the payload files that hold a secret."""
    return {path.stem for path, text in deps.payloads.each() if redactor.text(text) != text}


def _note(found: dict[str, Found], address: str, before: str, after: str) -> None:
    new = Counter(m[1] for m in _DONE.finditer(after)) - Counter(m[1] for m in _DONE.finditer(before))
    samples = {m[1]: m for m in _DONE.finditer(after)}
    for kind, count in (new or Counter({ENCODED: 1})).items():
        each = found.setdefault(kind, Found())
        each.count += count
        if len(each.addresses) < _ADDRESSES:
            each.addresses.append(address)
        if len(each.samples) < _SAMPLES and kind in samples:
            at = samples[kind]
            each.samples.append(" ".join(after[max(0, at.start() - _AROUND) : at.end()].split()))


def _preview(deps: Access, words: Words) -> Answer:
    names = _kinds(deps, words)
    made = preview(deps, names, words.progress)
    data = {
        "kinds": list(made.kinds), "unknown": list(made.unknown), "read": made.rows, "would_change": made.changed,
        "damaged": made.damaged, "messages": made.messages, "texts": made.texts, "secrets": made.secrets,
        "found": {kind: {"count": f.count, "in": f.addresses, "samples": f.samples} for kind, f in made.found.items()},
    }  # fmt: skip
    rows = [
        (
            kind,
            render.counted(f.count, "time"),
            ", ".join(f.addresses[:5]) + (" …" if len(f.addresses) > 5 else ""),
            f.samples[0] if f.samples else "",
        )
        for kind, f in sorted(made.found.items(), key=lambda item: -item[1].count)
    ]
    lines = [
        f"{made.rows:,} messages and summaries read (kinds: {', '.join(made.kinds)})",
        _taken(made, "would be taken"),
    ]
    lines += [f"{render.counted(made.damaged, 'damaged message')} could not be read"] if made.damaged else []
    lines += [f"not a kind of secret: {', '.join(made.unknown)}"] if made.unknown else []
    lines += render.table(rows) if rows else []
    switch = (
        "are redacted"
        if deps.config.sensitive_patterns_enabled
        else "are stored as they are; LCM_SENSITIVE_PATTERNS_ENABLED=true redacts them"
    )
    typed = " ".join(["hermes lcm redact", *map(shlex.quote, words.rest), "apply"])
    lines.append(
        f"Dry run. `{typed}`, at the terminal, removes these from what is stored."
        if made.secrets
        else "Nothing to do: none of these was found."
    )
    lines.append(f"New messages {switch}.")
    return Answer("\n".join(lines), data)


def _taken(counts: Preview | Applied, verb: str) -> str:
    """Number of secrets, and of the messages and other texts that they are in."""
    places = f"{render.counted(counts.messages, 'message')} and {render.counted(counts.texts, 'other text')}"
    return f"{render.counted(counts.secrets, 'secret')} {verb} out of {places} (summaries, archives, names)."


def _kinds(deps: Access, words: Words) -> list[str]:
    """The kinds that were named; a mistyped one is told before anything is read."""
    names = [name for word in words.rest for name in word.split(",") if name]
    _redactor(deps, names)
    return names


# -- taking it out -----------------------------------------------------------------------------------------
@dataclass(slots=True)
class Applied:
    """Number of messages and other texts that lost a secret; files that still hold one.

    ``unread``, ``closed``: messages and files that could not be read. ``said``: addresses of texts that hold one unmarked.
    """

    messages: int = 0
    texts: int = 0
    secrets: int = 0
    holding: list[str] = field(default_factory=list)
    backups: list[str] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


def apply(deps: Access, names: Sequence[str], progress: Progress) -> Applied:
    """Redaction of everything that is stored; indexes and log are written anew, and all files are searched.

    Some rows a transaction, so that nobody waits. Killed, the same command goes on: what is clean stays as it is.
    """
    backup.refuse_stand_ins(deps.db.path)
    backup.remove_half_made(deps.db.path)
    redactor, out = _redactor(deps, names), Applied()
    redactor.seen = set()
    total, read = Survey(deps.db).total("messages", "store_id"), 0
    stems: set[str] = set()
    with deps.db.secure():
        for rows in deps.store.row_batches(size=_AT_ONCE, damaged=out.unread):
            if found := [row.store_id for row in rows if _holds_secret(deps, row, redactor)]:
                out.messages += _clean(deps, found, redactor, stems, out)
            read += len(rows)
            progress("reading", min(read, total), total)
        out.texts = files.rewrite_texts(deps.db, redactor.text, progress)
    deps.payloads.remove(stems | _files_with(deps, redactor))
    reindex(deps, progress)
    with deps.db.secure():
        deps.db.renew(progress)
    out.secrets = len(redactor.seen)
    _prove(deps, redactor, out, progress)
    return out


def _holds_secret(deps: Access, row: Row, redactor: Redactor) -> bool:
    """Does a row hold a secret? Also yes where a file of it cannot be read."""
    if deps.payloads.lacks(row):
        return True
    read, clean = _read(deps, row, redactor)
    return clean is not read


def _clean(deps: Access, found: Sequence[int], redactor: Redactor, stems: set[str], out: Applied) -> int:
    """Rewrite rows without their secrets, as they are by now; how many."""
    gone: set[str] = set()
    with deps.db.part():
        rows, _ = deps.store.legible(found)
        changed = [each for row in rows if (each := _without(deps, row, redactor, gone, out)) is not None]
        deps.store.rewrite(changed)
    stems |= gone
    return len(changed)


def _without(
    deps: Access, row: Row, redactor: Redactor, stems: set[str], out: Applied
) -> tuple[Stored, Message] | None:
    """A stored message without its secrets; None where it has none, or a file of it cannot be read."""
    if deps.payloads.lacks(row):
        out.unread.append(row.store_id)
        return None
    read, clean = _read(deps, row, redactor)
    if clean is read:
        return None
    stems.update(deps.payloads.forget(row.head.digest))
    kept = replace(clean, flags=row.head.flags | Flag.REDACTED, tokens=row.head.tokens, digest=row.head.digest)
    return row.head, deps.filters.again(kept)


def _prove(deps: Access, redactor: Redactor, out: Applied, progress: Progress) -> None:
    """Search for secrets in the bytes and the unpacked texts of the database, its files, backups and exports."""
    known = {secret for secret in redactor.seen or () if len(secret) >= _LEAST_SEARCHED}
    lowered = sorted({each.encode("utf-8", "replace").lower() for each in known})
    pattern, longest = re.compile(any_of(lowered)) if lowered else None, max(map(len, lowered), default=0)
    database = deps.db.path
    deps.db.close()  # its locks would be dropped
    ours = [database, *(database.with_name(database.name + end) for end in ("-wal", "-shm"))]
    ours += [path for path in deps.payloads.folder.rglob("*") if path.is_file()]
    others = backup.kept_files(database)
    for n, path in enumerate((*ours, *others)):
        progress("searching files", n, len(ours) + len(others))
        named = redactor.text(str(path))  # an export is named after its session
        try:
            if path.exists() and _holds(path, pattern, longest, redactor):
                (out.backups if path in others else out.holding).append(named)
        except StoreError:
            out.closed.append(named)
    if pattern is not None and out.holding:
        out.said = list(_saying(deps, pattern))


def _saying(deps: Access, pattern: re.Pattern[bytes]) -> Iterator[str]:
    """Addresses of messages and summaries in which a secret stands unmarked."""
    for rows in deps.store.row_batches(damaged=[]):
        for row in rows:
            if pattern.search(content.encode(row.stored_json)[0].encode().lower()):
                yield f"msg_{row.store_id}"
    for nodes in deps.dag.node_batches():
        yield from (node.address for node in nodes if pattern.search(node.text.encode("utf-8", "replace").lower()))


def any_of(words: Sequence[bytes], shared: int = _BRANCHES) -> bytes:
    """Pattern of any of these. It branches at their first bytes: one after another, thousands take 20 s for a megabyte."""
    if not shared or len(words) == 1:
        return b"|".join(map(re.escape, words))
    rest: dict[bytes, list[bytes]] = {}
    for each in words:
        rest.setdefault(each[:1], []).append(each[1:])
    return b"|".join(re.escape(first) + b"(?:" + any_of(ends, shared - 1) + b")" for first, ends in rest.items())


def _holds(path: Path, pattern: re.Pattern[bytes] | None, longest: int, redactor: Redactor) -> bool:
    """Is a secret in the bytes or the unpacked texts of a file? Raises StoreError where it cannot be read.

    ``longest``: bytes of the longest secret, which may begin in one part of the file and end in the next.
    """
    if pattern is not None:
        tail = b""
        with path.open("rb") as file:
            while part := file.read(_PART_BYTES):
                if pattern.search((tail := tail + part).lower()):
                    return True
                tail = tail[-longest:]
    return any(redactor.text(text) != text for text in _texts_in(path))


def _texts_in(path: Path) -> Iterator[str]:
    """Texts of a file: lines of JSON one by one, for they may be very many. Raises StoreError."""
    if path.suffix == ".jsonl":
        with path.open(encoding="utf-8", errors="replace") as lines:
            yield from lines
    elif path.suffix == ".md":
        yield path.read_text("utf-8", "replace")
    else:
        yield from backup.texts_of(path)


def _redact(deps: Access, words: Words) -> Answer:
    if not words.apply:
        return _preview(deps, words)
    terminal_only(deps, words, "redact apply changes what everybody said, so it is done at the terminal")
    names = _kinds(deps, words)
    done = apply(deps, names, words.progress)
    lines = [_taken(done, "taken")]
    lines.append("Indexes and file were rewritten.")
    if not deps.config.sensitive_patterns_enabled:
        lines.append("Redaction is off: set LCM_SENSITIVE_PATTERNS_ENABLED=true, or the next ones are stored again.")
    if done.unread:
        lines.append(f"not read, so not changed: {', '.join(f'msg_{n}' for n in sorted(set(done.unread))[:20])}")
    lines += [f"still in it: {path}" for path in done.holding]
    if done.said:
        lines.append(
            f"said as other words, so not changed; `hermes lcm purge` removes such: {render.few(done.said, _ADDRESSES)}"
        )
    if not done.holding:
        searched = "all that the database, its log and its payload files unpack to"
        if done.secrets:  # their bytes are known
            searched = f"the bytes of the database, its log and its payload files, and {searched}"
        lines.append(f"Searched: {searched}: no secret.")
    lines += _others(done)
    lines.append("No backup was made: it would hold them. Hermes' own session database (state.db) was not touched.")
    if not (done.holding or done.unread) and (
        not names or "all" in names
    ):  # of what is looked out for, nothing is left
        deps.health.resolved(SECRETS)
    data = {
        "messages": done.messages, "texts": done.texts, "secrets": done.secrets, "unread": sorted(set(done.unread)),
        "still_in": done.holding, "backups_with_secrets": done.backups, "unreadable": done.closed,
        "said_in": done.said,
    }  # fmt: skip
    return Answer("\n".join(lines), data, FOUND if done.holding or done.unread or done.closed else OK)


def _others(done: Applied) -> list[str]:
    """Backups and exports for the operator to remove."""
    lines: list[str] = []
    for paths, what in ((done.backups, "hold a secret"), (done.closed, "may hold a secret: they cannot be read")):
        if paths:
            lines += [f"These still {what}. Remove them when you need them no more:", *(f"  {path}" for path in paths)]
    return lines


VERBS: Final = (
    Verb(
        "redact",
        _redact,
        "remove secrets from what is stored; shows first what it would remove",
        "[<kind>,... | all] [apply]",
        changes=True,
        quotes=True,
        check=_kinds,
    ),
    Verb(
        "redact preview",
        _preview,
        "show the secrets that `redact` would remove; changes nothing",
        "[<kind>,... | all]",
        quotes=True,
        check=_kinds,
    ),
)
