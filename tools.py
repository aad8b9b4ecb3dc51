"""
A tool call's name and arguments in, lines or JSON out.

The one place where errors become text for the model. A table maps names to functions; what they do is ``recall``'s and
``ops``'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from . import command
from .errors import BadRequest, LcmError, StoreError
from .ingest.transcript import Transcript
from .ops.doctor import checks
from .ops.status import status
from .recall import archive, arguments, describe, expand, grep, ledger, lines, mapping
from .recall.access import Access, LiveList
from .recall.arguments import Address
from .recall.evidence import Question
from .recall.expand_query import answer, go_on
from .recall.paging import Answer, Room, dumps
from .runtime import LiveEngine, numbers, rights_of
from .schemas import TOOLS
from .search.scope import Filters

Args = Mapping[str, Any]

#: What an answer costs beside the text that ``max_tokens`` asks for.
_FRAME_TOKENS = 250
#: Tools that show the state of the engine itself.
_TELL_ALL = {"lcm_status", "lcm_doctor"}
#: Hits of one search: of a JSON answer, and at most of one in lines, which ends with its budget.
_MOST_HITS, _LEAST_LINES, _MOST_LINES = 10, 60, 200
_MOST_LOADED = 50  # messages of a page as JSON
_LINE_TOKENS = 16  # of the shortest hits


def tool_access(
    engine: LiveEngine,
    tool: str,
    session_id: str,
    transcript: Transcript | None,
    messages: Sequence[Mapping[str, Any]] | None = None,
) -> Access:
    """The database with the rights of the session that a tool call comes from."""
    runtime = engine.runtime
    live = None
    if transcript is not None and messages:
        costs = cache(lambda: engine.costs.of(messages))
        live = LiveList(messages, transcript, costs, engine.rewritable, lambda: engine.changed(messages, transcript))
    session = runtime.stored_now(session_id)
    state = command.engine_state(runtime, session, engine) if tool in _TELL_ALL else numbers(engine)
    return runtime.access(session, rights_of(engine, session, session_id), engine=state, live=live, home=engine.home)


class Called(NamedTuple):
    """Answer of a tool call as the model reads it; ``result``: ok or error."""

    text: str
    result: str = "ok"


def call(caller: Access, name: str, args: Args) -> Called:
    """The answer of one tool call in lines, or as JSON; what is wrong with it is part of the answer."""
    try:
        tool = TOOLS.get(name)
        if tool is None:
            guess = arguments.nearest(name, TOOLS)
            raise BadRequest(f"there is no tool {arguments.value_text(name)}; {f'did you mean {guess}?' if guess else 'see'} "
                             f"{', '.join(TOOLS)}")  # fmt: skip
        read = arguments.parsed(tool, args)
        answer = _ANSWERS[name](caller, read)
        return Called(_LINES[name](answer) if read.get("format") == "text" else dumps(answer))
    except StoreError as exc:
        return failed(f"{name}: {exc}", exc.remedy)
    except LcmError as exc:
        return failed(f"{name}: {exc}")


def failed(why: str, remedy: str = "") -> Called:
    """The answer of a call that failed."""
    return Called(dumps({"error": why, **({"remedy": remedy} if remedy else {})}), "error")


# ---------------------------------------------------------------------------------------------------------------- tools
def _room(caller: Access, args: Args) -> Room:
    budget = args["budget_tokens"] if args["format"] == "text" or "budget_tokens" in args["typed"] else None
    return Room.of(caller.answer_tokens).capped(budget)


def _grep(caller: Access, args: Args) -> Answer:
    return grep.grep(caller, _search(caller, args), _room(caller, args))


def _search(caller: Access, args: Args) -> grep.Ask:
    since, until = args["time_from"], args["time_to"]
    if since is not None and until is not None and since >= until:
        raise BadRequest("time_from is not before time_to")
    return grep.Ask(
        query=args["query"],
        mode=args["mode"],
        typed_as_pattern="pattern" in args.get("typed", ()),
        scope=args["scope"],
        chosen=caller.choose(
            args["session_scope"], args["session_id"], args["conversation_id"], args["all_conversations"]
        ),
        roles=args["role"] or (),
        sources=args["source"] or (),
        speaker=args["speaker"] or "",
        since=since,
        until=until,
        sort=args["sort"] or "relevance",
        limit=args["limit"] or (_most_lines(args) if args["format"] == "text" else _MOST_HITS),
        cursor=args["cursor"],
        as_lines=args["format"] == "text",
        reasons=bool(args.get("reasons")),
    )


def _most_lines(args: Args) -> int:
    budget: int = args["budget_tokens"]
    return min(_MOST_LINES, max(_LEAST_LINES, budget // _LINE_TOKENS))


def _load(caller: Access, args: Args) -> Answer:
    wanted = Filters(args["role"] or (), args["source"] or (), args["time_from"], args["time_to"])
    as_lines = args["format"] == "text"
    limit = args["limit"] or (_MOST_LINES if as_lines else _MOST_LOADED)
    ask = expand.Load(args["session_id"], args["after_store_id"], limit, args["max_content_chars"], as_lines, wanted)
    return expand.load(caller, ask, _room(caller, args))


def _describe(caller: Access, args: Args) -> Answer:
    room = Room.of(caller.answer_tokens).capped(args["max_tokens"])
    if args["view"] == "ledger" or args["about"] is not None:
        return ledger.view(caller, args["about"] or "", args["source_offset"], room, keep=True)
    address: Address | None = args["id"] or args["node_id"] or args["store_id"]
    if address is not None:
        in_full = args["max_tokens"] is not None
        out = describe.describe(caller, address, args["source_offset"], args["content_offset"], room, in_full=in_full)
        return _of_conversation(caller, args, address, out)
    if args["session_id"] is not None:
        session = caller.find_session(args["session_id"])
        if session is None:
            raise BadRequest(f"there is no session {args['session_id']!r} that you may read")
        return describe.overview(caller, session, room, args["source_offset"])
    if args["conversation_id"] is not None:
        chosen = caller.choose(conversation_id=args["conversation_id"])
        known = caller.sessions.of_conversation(args["conversation_id"]) if not chosen.missing else []
        if not known:
            raise BadRequest(f"there is no conversation {args['conversation_id']} that you may read")
        return describe.overview(caller, known[-1], room, args["source_offset"])
    return describe.overview(caller, None, room, args["source_offset"])


def _of_conversation(caller: Access, args: Args, address: Address, out: Answer) -> Answer:
    """The answer, with a note where what was named by its address is not of the conversation that was named too."""
    wanted = args["conversation_id"]
    if args.get("session_scope") == "session" and args.get("session_id") is None:
        raise BadRequest("session_scope=session needs session_id: the session to look into")
    if wanted is None or address.kind == "file":
        return out
    _known_conversation(caller, wanted)
    of = out.get("conversation_id")
    if of is None and address.kind == "sum":
        of = caller.node(address.number).conversation_id
    if of in (None, wanted):
        return out
    return {**out, "notes": [*out.get("notes", ()), f"{address} is of conversation {of}, not of {wanted}"]}


def _known_conversation(caller: Access, conversation_id: int) -> None:
    if caller.choose(conversation_id=conversation_id).missing:
        raise BadRequest(f"there is no conversation {conversation_id} that you may read")


def _expand(caller: Access, args: Args) -> Answer:
    """The source that one address names; of several summaries the first, and how to get the others."""
    several: tuple[Address, ...] = args["node_ids"] or ()
    if not several:
        return _expand_one(caller, args)
    out = _expand_one(caller, {**args, "node_id": several[0]})
    if len(several) > 1:
        out["then"] = {"tool": "lcm_expand", "node_ids": [str(each) for each in several[1:]]}
    return out


def _expand_one(caller: Access, args: Args) -> Answer:
    named: list[Address] = [
        args[name] for name in ("store_id", "node_id", "externalized_ref") if args[name] is not None
    ]
    if len(named) != 1:
        raise BadRequest("give one of store_id (a message), node_id (a summary) or externalized_ref (a file)")
    wanted = args["max_tokens"] + _FRAME_TOKENS if args["max_tokens"] is not None else caller.config.max_expand_tokens
    room = Room.of(min(caller.answer_tokens, caller.config.max_expand_tokens, wanted))
    piece = expand.Slice(args["content_offset"], args["arguments_offset"], args["lines"], args["bytes"], args["part"])
    address = named[0]
    if address.kind == "file":
        return expand.file(caller, address.name, piece, room)
    if address.kind == "sum":
        if address.last is not None:
            raise BadRequest(f"{address} is a range; expand one summary at a time")
        as_lines = args["format"] == "text"
        sources = expand.Sources(args["source_offset"], args["source_limit"], args["recursive"], as_lines)
        out = expand.summary(caller, address.number, sources, args["content_offset"], room)
    elif address.last is not None:
        out = expand.stretch(caller, address, args["conversation_id"], room, as_lines=args["format"] == "text")
    else:
        out = expand.message(caller, address.number, piece, room)
    return _of_conversation(caller, args, address, out)


def _expand_query(caller: Access, args: Args) -> Answer:
    given = {
        "mode": None,
        "scope": None,
        "sort": None,
        "limit": 12,
        "cursor": None,
        "format": "json",
        "query": args["query"] or args["prompt"],
    }
    question = Question(
        prompt=args["prompt"],
        search=_search(caller, {**args, **given}),
        addresses=args["node_ids"] or (),
        explicit_query=args["query"] is not None,
        max_tokens=args["max_tokens"],
        context_tokens=args["context_max_tokens"],
    )
    room = Room.of(caller.answer_tokens)
    if args["conversation_id"] is not None:
        _known_conversation(caller, args["conversation_id"])
    if args["cursor"] is not None:
        return go_on(caller, question, args["cursor"], room)
    out = answer(caller, question, room)
    for address in args["node_ids"] or ():
        if address.kind == "sum" and address.last is None:
            out = _of_conversation(caller, args, address, {**out, "conversation_id": None})
    return {name: value for name, value in out.items() if name != "conversation_id" or value is not None}


def _map(caller: Access, args: Args) -> Answer:
    if not args["query"] and not args["store_ids"]:
        raise BadRequest("lcm_map needs messages: query (words to search for) or store_ids (msg_10..msg_20, sum_3)")
    beside = sorted({"query", "pattern", "session_scope", "session_id", "conversation_id"} & args["typed"])
    if args["store_ids"] and beside:
        raise BadRequest(f"lcm_map with store_ids takes no {', '.join(beside)}: give either the addresses or a search")
    given = {"mode": None, "scope": None, "sort": None, "cursor": None, "format": "json", "query": args["query"] or ""}
    search = _search(caller, {**args, **given})
    wanted = mapping.Wanted(args["prompt"], args["store_ids"] or (), search, args["limit"])
    return mapping.answer(caller, wanted, Room.of(caller.answer_tokens))


def _archive(caller: Access, args: Args) -> Answer:
    return archive.answer(caller, args, Room.of(caller.answer_tokens))


def _status(caller: Access, _: Args) -> Answer:
    out = status(caller)
    if caller.session is None:
        return out  # nothing of it is stored, so nothing can be archived
    archived = len(archive.Live(caller).archives()) if caller.live is not None else 0
    pressure = archive.pressure(caller)
    return {**out, "archive": {"archives": archived, **pressure}} if archived or pressure else out


def _doctor(caller: Access, args: Args) -> Answer:
    with caller.db.apart():  # other chats go on meanwhile
        return checks.doctor(caller, deep=args["deep"])


_ANSWERS: Mapping[str, Callable[[Access, Args], Answer]] = {
    "lcm_grep": _grep,
    "lcm_load_session": _load,
    "lcm_describe": _describe,
    "lcm_expand": _expand,
    "lcm_expand_query": _expand_query,
    "lcm_map": _map,
    "lcm_archive": _archive,
    "lcm_status": _status,
    "lcm_doctor": _doctor,
}

_LINES: Mapping[str, Callable[[Answer], str]] = {
    "lcm_grep": lines.search,
    "lcm_load_session": lines.page,
    "lcm_describe": lines.text,
    "lcm_expand": lines.expanded,
    "lcm_status": lines.status,
    "lcm_doctor": lines.doctor,
}
