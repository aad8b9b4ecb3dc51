"""
Answers of ``lcm_archive``: history, store, load, list, restore, prune, and the advice when the window fills up.

Indexes are places in the live list as the host holds it. Nothing here changes a message or the host's list: an operation notes
which rows a placeholder stands for, and ``archive`` derives from that what requests and compactions show.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..archive import ranges
from ..archive.ranges import ARCHIVED, PRUNED, RESTORED, Archive, Run, handle_of, latest_request, new_handle, text_of
from ..errors import BadRequest, NotFound
from ..llm.prompts import render_calls
from ..prompt import context_message
from ..records import Node
from ..text import content
from .access import Access
from .expand import with_handle
from .grep import NOTE
from .paging import Answer, Room, page

Args = Mapping[str, Any]

#: From which share of the window on archiving is advised, and where it should lead.
ADVISED_FROM: Final = 0.70
_ADVISED_TO: Final = 0.57
_NEWEST_KEPT: Final = 6
NO_SUMMARY: Final = "(none given)"
_PREVIEW_CHARS: Final = 120


class Live:
    """The live list of the calling agent, with the archives of its conversation. None of them without one that is stored."""

    def __init__(self, access: Access) -> None:
        if access.live is None or access.session is None:
            raise BadRequest("this session is not stored (LCM_IGNORE_SESSION_PATTERNS, LCM_STATELESS_SESSION_PATTERNS, or the "
                             "database cannot be used): nothing of it can be archived")  # fmt: skip
        self.access = access
        self.session = access.session
        self.messages, self.transcript = access.live.messages, access.live.transcript
        self.costs, self.rewritable, self.changed = access.live.costs, access.live.rewritable, access.live.changed

    def tokens(self, first: int, stop: int) -> int:
        """Tokens of messages of the list in a request, by the provider's counts."""
        return self.costs().tokens(first, stop)

    def archives(self) -> list[Archive]:
        """The archives of this conversation."""
        return self.access.ranges.of(self.session, self.transcript)

    def runs(self) -> list[Run]:
        """Places of archived ranges in the list."""
        return self.access.ranges.runs(self.messages, self.transcript.entries, self.archives())

    def nodes(self) -> dict[str, Node]:
        """The nodes of the context message that stand for archives, by handle."""
        roots = self.transcript.assembly.roots if self.transcript.assembly else ()
        return {handle: node for node in self.access.dag.nodes(roots) if (handle := handle_of(node))}

    def protected(self) -> dict[int, str]:
        """Indexes that cannot be archived, and why."""
        entries = self.transcript.entries
        out = {
            n: "our context message"
            for n, entry in enumerate(entries)
            if entry.own in ("context", "carrier") and not entry.ids
        }
        request = latest_request(self.messages, entries)
        if request is not None:
            out[request] = "the user's latest request"
        last = content.groups(self.messages)[-1] if self.messages else None
        if last is not None and not last.whole:
            out |= dict.fromkeys(range(last.start, last.stop), "the tool call that is running")
        return out


def answer(caller: Access, args: Args, room: Room) -> Answer:
    """Answer of one operation."""
    operation = args["operation"]
    if operation == "load":
        return load(caller, _handle(args), args["after_store_id"], args["limit"], room)
    live = Live(caller)
    if operation == "store":
        return store(live, args)
    if operation == "history":
        return history(live, args, room)
    if operation == "restore":
        return restore(live, _handle(args), args, room)
    if operation == "prune":
        return prune(live)
    return listed(live, args, room)


def _by(archive: Archive) -> str:
    """Author of an archive's summary."""
    return "you" if archive.given else "nobody" if archive.summary == NO_SUMMARY else "heuristic"


def _handle(args: Args) -> str:
    handle = args["memory_handle"]
    if not handle:
        raise BadRequest(f"operation={args['operation']} needs memory_handle: one that store or list returned")
    return str(handle)


# ------------------------------------------------------------------------------------------------------------- history
def history(live: Live, args: Args, room: Room) -> Answer:
    """The live messages, so that a range can be chosen."""
    first = args["start_index"] or 0
    last = min(len(live.messages) - 1, args["end_index"] if args["end_index"] is not None else len(live.messages) - 1)
    protected = live.protected()
    hidden = {n: run.archive.handle for run in live.runs() for n in range(run.first, run.stop)}
    out: Answer = {"messages": [], "total_messages": len(live.messages), "has_more": False, **pressure(live.access)}
    if first >= len(live.messages):
        raise BadRequest(f"start_index={first}: the list has indexes 0 to {len(live.messages) - 1}")
    room.use_up(out)
    for n in range(first, min(last + 1, first + args["limit"])):
        item = _line(live, n, protected, hidden)
        if out["messages"] and not room.holds(item):
            break
        room.use_up(item)
        out["messages"].append(item)
    following = first + len(out["messages"])
    if following <= last:
        out["has_more"] = True
        out["continue_with"] = {"tool": "lcm_archive", "operation": "history", "start_index": following}
    return out


def _line(live: Live, n: int, protected: Mapping[int, str], hidden: Mapping[int, str]) -> Answer:
    message = live.messages[n]
    text = content.text_of(message.get("content"))
    calls = content.calls_of(message)
    said = ranges.line(text[: 4 * _PREVIEW_CHARS]) or ", ".join(f"calls {call.name}" for call in calls)
    item: Answer = {
        "index": n,
        "role": str(message.get("role")),
        "tokens": live.tokens(n, n + 1),
        "preview": said[:_PREVIEW_CHARS] + ("…" if len(said) > _PREVIEW_CHARS else ""),
    }
    ids = live.transcript.entries[n].ids if n < len(live.transcript.entries) else ()
    if ids:
        item["address"] = f"msg_{ids[-1]}"
    if n in hidden:
        item["archived"] = hidden[n]
    if n in protected:
        item["protected"] = protected[n]
    return item


# --------------------------------------------------------------------------------------------------------------- store
def store(live: Live, args: Args) -> Answer:
    """Note that a placeholder stands for a range from the next request on."""
    first, stop, widened = _range(live, args["start_index"], args["end_index"])
    part = live.messages[first:stop]
    ids = tuple(i for entry in live.transcript.entries[first:stop] for i in entry.ids)
    texts = [(str(m.get("role")), content.text_of(m.get("content")) or render_calls(content.calls_of(m))) for m in part]
    summary = ranges.given(args["summary"] or "")
    given = bool(summary)
    if not given:
        said = next((text for _, text in texts if text.strip()), "")
        summary = ranges.heuristic(said, len(part)) if args["auto"] else NO_SUMMARY
    now = live.access.clock()
    archive = Archive(
        0, new_handle(live.session.session_id), live.session.conversation_id, live.session.session_id, ids, first, stop - 1,
        len(part), summary, given, ranges.preview(texts, args["max_preview_chars"]), sum(len(text) for _, text in texts),
        live.tokens(first, stop), ARCHIVED, now, now,
    )  # fmt: skip
    saving = _saving(live, first, stop, archive)
    if saving <= 0:
        raise BadRequest(
            f"messages {first}..{stop - 1} take {archive.tokens} tokens, the placeholder as many; choose a longer range"
        )
    request = latest_request(live.messages, live.transcript.entries)
    live.access.archives.add(
        archive, request=next(reversed(live.transcript.entries[request].ids), None) if request is not None else None
    )
    live.changed()
    out: Answer = {
        "memory_handle": archive.handle, "archived": f"{first}..{stop - 1}", "messages": len(part), "chars": archive.chars,
        "tokens": archive.tokens, "saves_tokens": saving, "placeholder": text_of(archive),
        "takes_effect": _effect(live),
    }  # fmt: skip
    if widened:
        out["widened"] = widened
    return out


def _effect(live: Live) -> str:
    if live.rewritable():
        return "with the next request; the next compaction makes it permanent. Indexes of history stay as they are"
    return (
        "with the compaction that the next request begins with: this provider's requests cannot be changed one by one"
    )


def _range(live: Live, first: int | None, last: int | None) -> tuple[int, int, str]:
    """(first, stop, how it was widened). Raises BadRequest for what cannot be archived; then nothing has changed."""
    size = len(live.messages)
    if first is None or last is None:
        raise BadRequest("operation=store needs start_index and end_index; operation=history shows the indexes")
    if first > last or last >= size:
        raise BadRequest(f"start_index={first}, end_index={last}: give a range within 0 to {size - 1}, the start first")
    touched = [g for g in content.groups(live.messages) if g.start <= last and g.stop > first]
    start, stop = touched[0].start, touched[-1].stop
    for n, why in sorted(live.protected().items()):
        if start <= n < stop:
            raise BadRequest(f"index {n} is {why} and cannot be archived; {_nearest_free(live, start, stop)}")
    for run in live.runs():
        if run.first < stop and run.stop > start:
            raise BadRequest(
                f"{start}..{stop - 1} overlaps {run.archive.handle}, which stands for {run.first}..{run.stop - 1}; "
                "restore that first, or choose another range"
            )
    if not all(group.whole for group in touched):
        raise BadRequest(
            f"{start}..{stop - 1} holds a tool call without its result; archive what is before or after it"
        )
    if not any(entry.ids for entry in live.transcript.entries[start:stop]):
        raise BadRequest(
            f"nothing of {start}..{stop - 1} is stored (LCM_IGNORE_MESSAGE_PATTERNS), so it could not come back"
        )
    widened = (start, stop - 1) != (first, last)
    said = f"{first}..{last} cut through a tool call and its results; archived whole: {start}..{stop - 1}"
    return start, stop, said if widened else ""


def _nearest_free(live: Live, start: int, stop: int) -> str:
    """The part of a refused range that could be archived."""
    best = max(_free(live, start, stop), key=lambda run: run[1] - run[0], default=None)
    return f"{best[0]}..{best[1] - 1} could be" if best else "operation=history shows what can be"


def _free(live: Live, start: int = 0, stop: int | None = None) -> list[tuple[int, int]]:
    """Stretches of whole groups that may be archived and are not."""
    taken = set(live.protected())
    for run in live.runs():
        taken.update(range(run.first, run.stop))
    out: list[tuple[int, int]] = []
    for group in content.groups(live.messages[: len(live.transcript.entries)]):
        inside = group.start >= start and (stop is None or group.stop <= stop)
        if not inside or not group.whole or not taken.isdisjoint(range(group.start, group.stop)):
            continue
        if out and out[-1][1] == group.start:
            out[-1] = (out[-1][0], group.stop)
        else:
            out.append((group.start, group.stop))
    return out


def _saving(live: Live, first: int, stop: int, archive: Archive) -> int:
    """Tokens by which the next request gets smaller."""
    before = live.messages[first - 1] if first else None
    after = live.messages[stop] if stop < len(live.messages) else None
    mine = context_message.placeholder(before, after, text_of(archive), live.session.nonce)
    return live.tokens(first, stop) - live.costs().cost(mine)


# ---------------------------------------------------------------------------------------------------------------- load
def load(caller: Access, handle: str, after: int, limit: int, room: Room) -> Answer:
    """The archived messages, exactly, a page at a time. Changes nothing."""
    archive = _found(caller, handle)
    ids = list(archive.store_ids)
    if after and after not in ids:
        raise BadRequest(
            f"after_store_id={after} is not a message of {handle}; give the next_cursor of the page before"
        )
    at = ids.index(after) + 1 if after else 0
    out: Answer = {
        "note": NOTE, "memory_handle": handle, "state": archive.state, "range": f"{archive.first_index}..{archive.last_index}",
        "total_messages": len(ids), "tokens": archive.tokens, "summary": archive.summary, "messages": [], "has_more": False,
        "next_cursor": None,
    }  # fmt: skip
    if caller.live is not None:
        out["where"] = _where(Live(caller), archive)
    room.use_up(out)
    places = {i: {"index": archive.first_index + n} for n, i in enumerate(ids)} if len(ids) == archive.messages else {}
    shown, _ = page(
        caller.rows(ids[at : at + limit]), room, most_chars=None, extra=lambda row: places.get(row.store_id, {})
    )
    out["messages"] = [with_handle(each) for each in shown]
    if shown and at + len(shown) < len(ids):
        out["has_more"], out["next_cursor"] = True, ids[at + len(shown) - 1]
        out["continue_with"] = {
            "tool": "lcm_archive", "operation": "load", "memory_handle": handle, "after_store_id": out["next_cursor"],
        }  # fmt: skip
    return out


def _found(caller: Access, handle: str) -> Archive:
    """An archive that may be read. Somebody else's and none at all are answered in the same words."""
    scope = caller.everything()
    mine = caller.session.conversation_id if caller.session else None
    if caller.rights.shown:
        found = next((each for each in Live(caller).archives() if each.handle == handle), None)
    else:
        found = caller.archives.find(handle, principal=scope.principal, conversations=scope.conversations, mine=mine)
    if found is None:
        raise NotFound(
            f"there is no archive {handle!r} that you may read; operation=list shows those of this conversation"
        )
    return found


def _where(live: Live, archive: Archive) -> str:
    """Place of an archive's messages for the model now."""
    run = next((run for run in live.runs() if run.archive.handle == archive.handle), None)
    node = live.nodes().get(archive.handle)
    if archive.state == RESTORED:
        return "restored: shown as messages"
    if run is not None:
        return f"hidden from requests, in place of messages {run.first}..{run.stop - 1}"
    return f"in the context message as {node.address}" if node is not None else "no longer part of the prompt"


# ---------------------------------------------------------------------------------------------------------------- list
def listed(live: Live, args: Args, room: Room) -> Answer:
    """The archives of this conversation with what is known of them."""
    after = args["after_store_id"]
    all_ = [archive for archive in live.archives() if archive.archive_id > after]
    out: Answer = {"archives": [], "total": len(live.archives()), "has_more": False, **pressure(live.access)}
    room.use_up(out)
    for archive in all_[: args["limit"]]:
        item = {
            "memory_handle": archive.handle, "range": f"{archive.first_index}..{archive.last_index}",
            "messages": archive.messages, "chars": archive.chars, "tokens": archive.tokens, "summary": archive.summary,
            "summary_by": _by(archive), "preview": archive.preview,
            "where": _where(live, archive),
        }  # fmt: skip
        if out["archives"] and not room.holds(item):
            break
        room.use_up(item)
        out["archives"].append(item)
    if len(out["archives"]) < len(all_):
        last = all_[len(out["archives"]) - 1].archive_id
        out["has_more"] = True
        out["continue_with"] = {"tool": "lcm_archive", "operation": "list", "after_store_id": last}
    return out


# ------------------------------------------------------------------------------------------------------------- restore
def restore(live: Live, handle: str, args: Args, room: Room) -> Answer:
    """Let the messages themselves be shown again, in the place where they were said."""
    _found(live.access, handle)
    archive = next((each for each in live.archives() if each.handle == handle), None)
    if archive is None:
        raise BadRequest(
            f"{handle} belongs to another conversation: operation=load reads it, it cannot be restored here"
        )
    notes = _wishes(args)
    run = next((run for run in live.runs() if run.archive.handle == handle), None)
    node = live.nodes().get(handle)
    out: Answer = {"memory_handle": handle, "messages": archive.messages, "tokens": archive.tokens}
    if archive.state == RESTORED:
        return {**out, "restored": True, "notes": ["it was restored before; nothing changed", *notes]}
    if run is None and node is None:
        raise BadRequest(
            f"the messages of {handle} are no longer part of this prompt (taken back, or summarised with others): "
            "operation=load shows them"
        )
    if run is None and not live.rewritable():
        quoted = load(live.access, handle, 0, args["limit"], room)
        said = (
            "a compaction took the messages out and this provider's requests cannot be changed: here they are, quoted"
        )
        return {**quoted, "restored": False, "as": "quoted block", "notes": [said, *notes]}
    live.access.archives.change([archive.archive_id], RESTORED, now=live.access.clock())
    live.changed()
    where = (
        f"messages {run.first}..{run.stop - 1} of the live list"
        if run is not None
        else "between the context message and the live list"
    )
    out |= {"restored": True, "as": "live messages", "insert_position": run.first if run is not None else None,
            "where": f"{where}, in the order in which they were said", "takes_effect": "with the next request"}  # fmt: skip
    engine = live.access.engine
    if 0 < engine.threshold_tokens <= engine.counted_tokens + archive.tokens:
        notes.append(
            f"the prompt then takes about {engine.counted_tokens + archive.tokens} tokens and will be compacted at "
            f"{engine.threshold_tokens}: archive something else, or use operation=load"
        )
    if run is None:
        notes = ["the next compaction summarises them like any other messages of their age", *notes]
    return {**out, "notes": notes} if notes else out


def _wishes(args: Args) -> list[str]:
    """Notes on arguments that were not followed."""
    notes = []
    if args["restore_insert_index"] is not None:
        notes.append(
            f"restore_insert_index={args['restore_insert_index']} was not followed: messages return to their own place, for at "
            "another one old requests would look like new ones"
        )
    if args["replace_placeholder_with"] is not None:
        notes.append(
            "replace_placeholder_with was not followed: the messages themselves stand where the placeholder stood"
        )
    if args["remove_placeholder"] is False:
        notes.append("the placeholder is gone although remove_placeholder is false: the messages stand in its place")
    return notes


# --------------------------------------------------------------------------------------------------------------- prune
def prune(live: Live) -> Answer:
    """Forget archives whose placeholder is gone. Messages stay stored."""
    hidden = {run.archive.handle for run in live.runs()}
    shown = live.nodes()
    gone = [archive for archive in live.archives() if archive.handle not in hidden and archive.handle not in shown]
    live.access.archives.change([archive.archive_id for archive in gone], PRUNED, now=live.access.clock())
    if gone:
        live.changed()
    return {
        "pruned": [archive.handle for archive in gone],
        "remaining": len(live.archives()),
        "note": "messages are never removed: lcm_grep and lcm_expand still find them",
    }


# -------------------------------------------------------------------------------------------------------------- advice
def pressure(caller: Access) -> Answer:
    """Fill of the window by the provider's count, and from 70 % on what to archive."""
    used, window = caller.engine.counted_tokens, caller.config.window(caller.engine.context_length)
    if caller.live is None or not used or not window:
        return {}
    share = used / window
    out: Answer = {"usage": {"prompt_tokens": used, "window_tokens": window, "share": round(share, 3)}}
    if share > ADVISED_FROM:
        best = _advised(Live(caller), used - int(_ADVISED_TO * window))
        if best is not None:
            first, stop, saves = best
            out["advice"] = {
                "operation": "store", "start_index": first, "end_index": stop - 1, "saves_tokens": saves,
                "leads_to_share": round((used - saves) / window, 3),
                "why": f"the prompt takes {share:.0%} of the window; this is the earliest stretch that helps",
            }  # fmt: skip
    return out


def _advised(live: Live, wanted: int) -> tuple[int, int, int] | None:
    """The earliest stretch that saves what is wanted, or the one that saves most: (first, stop, tokens saved)."""
    most = len(live.messages) - _NEWEST_KEPT
    best: tuple[int, int, int] | None = None
    for first, stop in _free(live, 0, max(0, most)):
        saved, end = -60, first
        for group in content.groups(live.messages[first:stop]):
            saved += live.tokens(first + group.start, first + group.stop)
            end = first + group.stop
            if saved >= wanted:
                return first, end, saved
        if saved > 0 and (best is None or saved > best[2]):
            best = first, end, saved
    return best
