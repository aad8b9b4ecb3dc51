"""
A tool call's name and arguments in, JSON out.

The one place where errors become text for the model. A table maps names to functions; what they do is ``finding``'s,
``retrieve``'s, ``overview``'s and ``answer``'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import archiving, finding, overview, retrieve
from .answer import Desk, answer, go_on
from .archives import Archives
from .caller import Caller, InPrompt, Payloads
from .config import Config
from .dag import SummaryDag
from .errors import BadRequest, LcmError, StoreError
from .evidence import Question
from .llm.client import Model
from .reading import Answer, Room, dumps
from .records import Lineage
from .schemas import TOOLS
from .scope import Reach, Wanted
from .search import MessageIndex, NodeIndex
from .session import Session, Sessions
from .store import MessageStore
from .text import arguments
from .text.arguments import Address

Args = Mapping[str, Any]

#: What an answer costs beside the text that ``max_tokens`` asks for.
_FRAME_TOKENS = 250


@dataclass(frozen=True, slots=True)
class ToolDeps:
    """Everything one tool call may use, with the rights of the session that it comes from."""

    store: MessageStore
    dag: SummaryDag
    sessions: Sessions
    search: MessageIndex
    nodes: NodeIndex
    config: Config
    session: Session | None
    principal: str | None
    room_tokens: int
    model: Model
    lineage: Lineage | None
    status: Callable[[], Mapping[str, Any]]
    doctor: Callable[[bool], Mapping[str, Any]]
    clock: Callable[[], float]
    reach: Reach | None = None
    payloads: Payloads | None = None
    desk: Desk = field(default_factory=Desk)
    expansion_task: str = "compression"
    archives: Archives | None = None
    live: archiving.Live | None = None


def call(deps: ToolDeps, name: str, args: Args, *, messages: Sequence[Any] | None = None) -> str:  # noqa: ARG001
    """The answer of one tool call as JSON; what is wrong with it is part of the answer."""
    try:
        tool = TOOLS.get(name)
        if tool is None:
            guess = arguments.nearest(name, TOOLS)
            raise BadRequest(f"there is no tool {arguments.shown(name)}; {f'did you mean {guess}?' if guess else 'see'} "
                             f"{', '.join(TOOLS)}")  # fmt: skip
        return dumps(_ANSWERS[name](deps, arguments.read(tool, args)))
    except StoreError as exc:
        return dumps({"error": f"{name}: {exc}", "remedy": exc.remedy})
    except LcmError as exc:
        return dumps({"error": f"{name}: {exc}"})


def caller_of(deps: ToolDeps) -> Caller:
    """The archive as the calling session sees it."""
    reach = deps.reach or Reach(deps.store._db)  # noqa: SLF001 - until the runtime hands one in
    return Caller(
        store=deps.store, dag=deps.dag, sessions=deps.sessions, reach=reach, index=deps.search, node_index=deps.nodes,
        config=deps.config, session=deps.session, principal=deps.principal, in_prompt=in_prompt(deps.lineage),
        payloads=deps.payloads, archives=deps.archives,
    )  # fmt: skip


def in_prompt(lineage: Lineage | None) -> InPrompt:
    """What a live list shows: messages as they are, and the summaries of its context message."""
    if lineage is None:
        return InPrompt()
    raw = frozenset(store_id for entry in lineage.entries if not entry.own for store_id in entry.ids)
    return InPrompt(raw, lineage.assembly.roots if lineage.assembly else ())


# ---------------------------------------------------------------------------------------------------------------- tools
def _grep(deps: ToolDeps, args: Args) -> Answer:
    caller = caller_of(deps)
    return finding.grep(caller, _search(caller, args), Room.of(deps.room_tokens))


def _search(caller: Caller, args: Args) -> finding.Ask:
    since, until = args["time_from"], args["time_to"]
    if since is not None and until is not None and since >= until:
        raise BadRequest("time_from is not before time_to")
    return finding.Ask(
        query=args["query"],
        mode=args["mode"],
        typed_as_pattern="pattern" in args.get("typed", ()),
        scope=args["scope"],
        chosen=caller.choose(
            args["session_scope"], args["session_id"], args["conversation_id"], args["all_conversations"]
        ),
        roles=args["role"] or (),
        sources=args["source"] or (),
        since=since,
        until=until,
        sort=args["sort"] or "relevance",
        limit=args["limit"],
        cursor=args["cursor"],
    )


def _load(deps: ToolDeps, args: Args) -> Answer:
    wanted = Wanted(args["role"] or (), args["source"] or (), args["time_from"], args["time_to"])
    ask = retrieve.Load(args["session_id"], args["after_store_id"], args["limit"], args["max_content_chars"], wanted)
    return retrieve.load(caller_of(deps), ask, Room.of(deps.room_tokens))


def _describe(deps: ToolDeps, args: Args) -> Answer:
    caller, room = caller_of(deps), Room.of(deps.room_tokens).capped(args["max_tokens"])
    address: Address | None = args["id"] or args["node_id"] or args["store_id"]
    if address is not None:
        return overview.describe(caller, address, args["source_offset"], args["content_offset"], room)
    if args["session_id"] is not None:
        session = caller.find_session(args["session_id"])
        if session is None:
            raise BadRequest(f"there is no session {args['session_id']!r} that you may read")
        return overview.overview(caller, session, room, args["source_offset"])
    if args["conversation_id"] is not None:
        chosen = caller.choose(conversation_id=args["conversation_id"])
        known = caller.sessions.of_conversation(args["conversation_id"]) if not chosen.missing else []
        if not known:
            raise BadRequest(f"there is no conversation {args['conversation_id']} that you may read")
        return overview.overview(caller, known[-1], room, args["source_offset"])
    return overview.overview(caller, None, room, args["source_offset"])


def _expand(deps: ToolDeps, args: Args) -> Answer:
    caller = caller_of(deps)
    named: list[Address] = [
        args[name] for name in ("store_id", "node_id", "externalized_ref") if args[name] is not None
    ]
    if len(named) != 1:
        raise BadRequest("give one of store_id (a message), node_id (a summary) or externalized_ref (a file)")
    wanted = args["max_tokens"] + _FRAME_TOKENS if args["max_tokens"] is not None else deps.config.max_expand_tokens
    room = Room.of(min(deps.room_tokens, deps.config.max_expand_tokens, wanted))
    piece = retrieve.Slice(args["content_offset"], args["arguments_offset"], args["lines"], args["bytes"], args["part"])
    address = named[0]
    if address.kind == "file":
        return retrieve.file(caller, address.name, piece, room)
    if address.kind == "sum":
        if address.last is not None:
            raise BadRequest(f"{address} is a range; expand one summary at a time")
        sources = retrieve.Sources(args["source_offset"], args["source_limit"], args["recursive"])
        return retrieve.summary(caller, address.number, sources, args["content_offset"], room)
    if address.last is not None:
        return retrieve.stretch(caller, address, room)
    return retrieve.message(caller, address.number, piece, room)


def _expand_query(deps: ToolDeps, args: Args) -> Answer:
    caller = caller_of(deps)
    given = {
        "mode": None,
        "scope": None,
        "sort": None,
        "limit": 12,
        "cursor": None,
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
    if args["cursor"] is not None:
        return go_on(caller, question, args["cursor"], desk=deps.desk, room=Room.of(deps.room_tokens))
    return answer(
        caller, question, model=deps.model, desk=deps.desk, room=Room.of(deps.room_tokens), clock=deps.clock,
        task=deps.expansion_task,
    )  # fmt: skip


def _archive(deps: ToolDeps, args: Args) -> Answer:
    return archiving.answer(caller_of(deps), deps.live, args, Room.of(deps.room_tokens))


def _status(deps: ToolDeps, _: Args) -> Answer:
    out = dict(deps.status())
    archived = len(deps.live.all()) if deps.live is not None else 0
    pressure = archiving.pressure(deps.live)
    return {**out, "archive": {"archives": archived, **pressure}} if archived or pressure else out


def _doctor(deps: ToolDeps, args: Args) -> Answer:
    return dict(deps.doctor(args["deep"]))


_ANSWERS: Mapping[str, Callable[[ToolDeps, Args], Answer]] = {
    "lcm_grep": _grep,
    "lcm_load_session": _load,
    "lcm_describe": _describe,
    "lcm_expand": _expand,
    "lcm_expand_query": _expand_query,
    "lcm_archive": _archive,
    "lcm_status": _status,
    "lcm_doctor": _doctor,
}
