"""
Rows that the host's own compressor wrote anew, beside the messages that they were: which of them is the same message.

The grammar is that of ``text.compressed``; which rows are copies is decided in ``replays``, what happens to them in ``intake``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..text import compressed, content
from .replays import Seen


class Originals:
    """The messages of a conversation as they were before the host's compressor wrote them anew, as far as rows come by."""

    def __init__(self) -> None:
        self._by_ids: dict[tuple[str, tuple[str, ...]], list[compressed.Original]] = {}
        self._seen: dict[int, Seen] = {}

    def recognised(self, n: int, said: content.Said, seen: Seen) -> Seen:
        """The row with the digest of what it was: without a glued summary, or that of the row whose shortened form it is."""
        was = compressed.before(said.text) if said.role != "system" else None
        if was is not None and (was.text or said.calls):
            digest = content.digest(said.role, was.text, said.calls, said.answers)
            seen = seen._replace(digest=digest, more=was.summary, summary=False)
            said = replace(said, text=was.text, digest=digest)
        if not seen.ids:
            return seen
        known = self._by_ids.setdefault((said.role, seen.ids), [])
        of = compressed.original(said, known) if compressed.is_pruned(said) else None
        if of is not None:
            return seen._replace(of=of, digest=self._seen[of].digest)
        if not any(self._seen[each.key].digest == seen.digest for each in known):
            known.append(compressed.Original(n, said.text, said.calls))
            self._seen[n] = seen
        return seen


@dataclass(frozen=True, slots=True)
class Forms:
    """Rows of another store that are here in another form. ``same``: what to align each as (its digest to that of the row here).
    ``whole``: the row here that is only a form of it."""

    same: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    whole: dict[int, int] = field(default_factory=dict)


def forms(odd: Mapping[int, content.Said], stored: Mapping[int, content.Said], digests: Mapping[int, bytes]) -> Forms:
    """Which of the rows ``odd`` and of the rows that are here are one message: the one says what the other was cut or glued from.

    ``digests``: of the rows here, as the thread shows them.
    """
    out = Forms()
    by_ids: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    glued: dict[bytes, list[int]] = {}
    for store_id, said in stored.items():
        by_ids.setdefault(_ids(said), []).append(store_id)
        digest = _unglued(said)
        if digest is not None:
            glued.setdefault(digest, []).append(store_id)
    for n, said in odd.items():
        rivals = by_ids.get(_ids(said), []) if _ids(said)[1] else []
        if compressed.is_pruned(said):
            here = compressed.original(said, [_original(each, stored[each]) for each in rivals])
        else:
            parts = [each for each in rivals if compressed.is_pruned(stored[each])]
            parts = [each for each in parts if compressed.original(stored[each], [_original(n, said)]) == n]
            parts = parts or glued.get(said.digest, [])
            here = parts[0] if len(parts) == 1 else None
            if here is not None:
                out.whole[n] = here
        if here is not None:
            out.same[n] = {said.digest: digests[here]}
    return out


def _ids(said: content.Said) -> tuple[str, tuple[str, ...]]:
    return said.role, tuple(filter(None, [*(call.id for call in said.calls), said.answers]))


def _original(key: int, said: content.Said) -> compressed.Original:
    return compressed.Original(key, said.text, said.calls)


def _unglued(said: content.Said) -> bytes | None:
    """The digest of the message to which a summary was glued."""
    was = compressed.before(said.text) if said.role in ("user", "assistant") else None
    if was is None or not was.summary or not (was.text or said.calls):
        return None
    return content.digest(said.role, was.text, said.calls, said.answers)
