"""
Rows that the host's own compressor wrote anew, beside the messages that they were: which of them is the same message.

The grammar is that of ``text.compressed``; which rows are copies is decided in ``replays``, what happens to them in ``intake``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ..text import compressed, content
from .replays import Seen


class Originals:
    """The messages of a conversation as they were before the host's compressor wrote them anew, as far as rows come by."""

    def __init__(self) -> None:
        self._by_ids: dict[tuple[str, tuple[str, ...]], compressed.Candidates] = {}
        self._digests: dict[int, bytes] = {}
        self._known: set[tuple[str, tuple[str, ...], bytes]] = set()

    def recognised(self, n: int, said: content.Said, seen: Seen) -> Seen:
        """The row with the digest of what it was: without a glued summary, or that of the row whose shortened form it is."""
        was = compressed.before(said.text)
        if was is not None and (was.text or said.calls):
            said = compressed.unglued(said)
            seen = seen._replace(digest=said.digest, more=was.summary, summary=False)
        if not seen.ids:
            return seen
        known = self._by_ids.setdefault((said.role, seen.ids), compressed.Candidates())
        of = known.original(said) if compressed.is_pruned(said) else None
        if of is not None:
            return seen._replace(of=of, digest=self._digests[of])
        if (said.role, seen.ids, seen.digest) not in self._known:
            self._known.add((said.role, seen.ids, seen.digest))
            known.add(compressed.Original(n, said.text, said.calls))
            self._digests[n] = seen.digest
        return seen


@dataclass(frozen=True, slots=True)
class Forms:
    """Rows of another store that are here in another form, as digests to align them by.

    ``whole``: of what a shortened row there stands for. ``was``: of what a row here was before it was shortened or glued.
    """

    whole: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    was: dict[int, bytes] = field(default_factory=dict)


def forms(there: Mapping[int, content.Said], stored: Mapping[int, content.Said], known: Collection[bytes]) -> Forms:
    """Which rows of the other store and which rows here are one message, the one whole and the other not.

    Both without what is on both sides. ``known``: the digests of all rows there.
    """
    out = Forms()
    mine = _by_ids(stored)
    theirs = _by_ids(there)
    for n, said in there.items():
        if compressed.is_pruned(said):
            here = mine[_ids(said)].original(said) if _ids(said) in mine else None
            if here is not None:
                out.whole[n] = {said.digest: stored[here].digest}
    for store_id, said in stored.items():
        plain = compressed.unglued(said)
        if plain.digest != said.digest and plain.digest in known:
            out.was[store_id] = plain.digest
        elif compressed.is_pruned(plain):
            whole = theirs[_ids(said)].original(plain) if _ids(said) in theirs else None
            if whole is not None:
                out.was[store_id] = there[whole].digest
    return out


def _by_ids(rows: Mapping[int, content.Said]) -> dict[tuple[str, tuple[str, ...]], compressed.Candidates]:
    out: dict[tuple[str, tuple[str, ...]], compressed.Candidates] = {}
    for n, said in rows.items():
        if _ids(said)[1]:
            out.setdefault(_ids(said), compressed.Candidates()).add(compressed.Original(n, said.text, said.calls))
    return out


def _ids(said: content.Said) -> tuple[str, tuple[str, ...]]:
    return said.role, tuple(filter(None, [*(call.id for call in said.calls), said.answers]))
