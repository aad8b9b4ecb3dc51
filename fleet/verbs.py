"""
Verbs of the fleet: init, status, push, pull, verify.
"""

from __future__ import annotations

import math
import re
import secrets
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import BadRequest
from ..ops.answers import FOUND, OK, Answer, Verb, Words, at_most
from ..ops.render import counted, size, table
from ..storage import disk
from . import copies
from .forget import obey
from .member import Member, member_of
from .schema import PRIVATE
from .server import add_host, migrate

if TYPE_CHECKING:
    from ..recall.access import Access

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,40}")
_SHOWN: Final = 10


def _init(deps: Access, words: Words) -> Answer:
    member = member_of(deps)
    with member.server.connected() as connection:
        before, now = migrate(connection)
        lines = [f"schema: version {now}" + ("" if before == now else f" (it was {before})")]
        if words.rest:
            name, realm, *principals = [*words.rest, ""][: max(2, len(words.rest))]
            path = deps.home / f"fleet-{name}.dsn"
            _add(member, connection, name, realm, principals or ["*"], path)
            lines.append(f"host {name}: role lcm_{name}, realm {realm or 'of its own'}")
            lines.append(
                f"its connection string: {path} (readable for you only); there set LCM_FLEET_DSN=file:<its path>"
            )
    return Answer("\n".join(lines), {"schema_before": before, "schema": now})


def _add(member: Member, connection: Any, name: str, realm: str, principals: list[str], path: Path) -> None:
    for what in filter(None, (name, realm)):
        if not _NAME.fullmatch(what):
            raise BadRequest(
                f"{what!r} is not a valid name for a host or a realm; use lower-case letters, digits and _, 40 at most"
            )
    role, password = f"lcm_{name}", secrets.token_urlsafe(24)
    like = tuple(_like(each) for each in principals) if realm else ()
    said = (member.server.dsn_of(role, password) + "\n").encode("utf-8")
    write_down = partial(disk.write, path, said, within=path.parent)
    add_host(connection, role, password, realm or f"{PRIVATE}{role}", like, write_down)


def _like(pattern: str) -> str:
    """A pattern of principals (``telegram:*``) as LIKE reads it."""
    for sign in ("\\", "%", "_"):
        pattern = pattern.replace(sign, f"\\{sign}")
    return pattern.replace("*", "%")


def _status(deps: Access, _words: Words) -> Answer:
    found = member_of(deps).status()
    shown = [(key, str(value)) for key, value in found.items()]
    return Answer("\n".join(table(shown, indent="")), found, FOUND if "error" in found else OK)


def _push(deps: Access, words: Words) -> Answer:
    member = member_of(deps)
    done = 0

    def between() -> None:
        nonlocal done
        done += 1
        words.progress("pushing", done, 0)

    out = member.push(between)
    lines = [f"pushed {counted(out.messages, 'message')}, {counted(out.rows, 'row')} in all"]
    lines += [f"conflict: the fleet has another message under {number}" for number in out.conflicts[:_SHOWN]]
    lines += [f"cannot be read here: msg_{number}" for number in out.unreadable[:_SHOWN]]
    lines += [f"not taken by the fleet: {nonce}: {why}" for nonce, why in [*out.refused.items()][:_SHOWN]]
    data = {"messages": out.messages, "rows": out.rows, "conflicts": out.conflicts, "unreadable": out.unreadable}
    data["refused"] = out.refused
    return Answer("\n".join(lines), data, FOUND if out.conflicts or out.unreadable or out.refused else OK)


def _pull(deps: Access, words: Words) -> Answer:
    at_most(words, 1, "one session, or none for all that changed")
    member = member_of(deps)
    gone = obey(member, deps, most_bytes=math.inf)
    out = member.pull(deps.config.fleet_pull_days, words.rest[0] if words.rest else "")
    said = f"{counted(out.conversations, 'conversation')}: {counted(out.messages, 'message')}, {counted(out.nodes, 'summary')}"
    data = {"conversations": out.conversations, "messages": out.messages, "summaries": out.nodes, "purged": gone}
    said += f"; {counted(gone, 'message')} purged as elsewhere" if gone else ""
    lines = [f"pulled {said}", *(f"not taken in: {nonce}: {why}" for nonce, why in [*out.refused.items()][:_SHOWN])]
    return Answer("\n".join(lines), {**data, "refused": out.refused}, FOUND if out.refused else OK)


def _keep(deps: Access, words: Words) -> Answer:
    copy = copies.keep(member_of(deps), deps, words.progress)
    return Answer(
        f"kept {copy.name}, {size(copy.bytes)}, in the fleet's object store", {"name": copy.name, "bytes": copy.bytes}
    )


def _fetch(deps: Access, words: Words) -> Answer:
    at_most(words, 1, "one copy, or none for the newest")
    path = copies.fetch(member_of(deps), deps, words.rest[0] if words.rest else "", words.progress)
    lines = [
        f"fetched {path}",
        f"`hermes lcm backup drill {path}` tries it, `hermes lcm restore {path.name}` puts it back.",
    ]
    return Answer("\n".join(lines), {"path": str(path)})


def _verify(deps: Access, _words: Words) -> Answer:
    out = member_of(deps).verify()
    lines = [
        f"compared by number and digest: {', '.join(counted(n, kind[:-1]) for kind, n in out.rows.items()) or 'nothing'}"
    ]
    lines += [f"the fleet lacks {each}" for each in out.missing[:_SHOWN]]
    lines += [f"differs: {each}" for each in out.different[:_SHOWN]]
    if out.waiting:
        lines.append(f"{counted(out.waiting, 'row')} wait to be pushed")
    data = {"rows": out.rows, "missing": out.missing, "different": out.different, "waiting": out.waiting}
    return Answer("\n".join(lines), data, OK if out.sound else FOUND)


VERBS: tuple[Verb, ...] = (
    Verb(
        "fleet init", _init, "create the tables on the server, and an account for a host", "[<host> [<realm> [<principals>]]]",
        example="laptop anna",
    ),
    Verb("fleet status", _status, "the shared server, and how far behind it is"),
    Verb("fleet push", _push, "send what the server lacks, now"),
    Verb("fleet pull", _pull, "fetch what other hosts wrote, or one session", "[<session>]"),
    Verb("fleet keep", _keep, "make a backup, and put a sealed copy of it into the fleet's object store"),
    Verb("fleet fetch", _fetch, "bring a copy of a backup back from the object store", "[<name>]"),
    Verb("fleet verify", _verify, "compare this host's rows with the server's"),
)  # fmt: skip
