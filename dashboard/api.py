"""
Requests of the tab: a page's name and its arguments in, JSON out.

The one place that knows what the setting ``dashboard`` permits, and where errors become an answer. The rights are those of
``hermes lcm`` at a terminal: whoever the host lets in is the operator of this profile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from .. import config as settings
from ..command import operator_access
from ..errors import BadRequest, LcmError, NotFound, StoreError, way_out
from ..host import facts
from ..recall.access import Access
from ..recall.paging import dumps
from ..runtime import Runtime, by_itself, file_of
from . import conversation, now, prompts, verbs
from .look import Answer, Hidden, Look


@dataclass(frozen=True, slots=True)
class Page:
    """``texts``: nothing but words that somebody said. ``empty``: can be asked where nothing is stored yet."""

    run: Callable[[Look], Answer]
    texts: bool = False
    empty: bool = False


PAGES: Mapping[str, Page] = {
    "about": Page(now.about, empty=True),
    "now": Page(now.now, empty=True),
    "sessions": Page(conversation.sessions, empty=True),
    "graph": Page(conversation.graph),
    "messages": Page(conversation.messages),
    "node": Page(conversation.node),
    "message": Page(conversation.message, texts=True),
    "prompts": Page(prompts.prompts),
    "prompt": Page(prompts.prompt),
    "compare": Page(prompts.compare),
    "search": Page(verbs.search, texts=True),
    "exam": Page(verbs.exam),
    "ledger": Page(verbs.ledger),
    "settings": Page(verbs.settings, empty=True),
    "verbs": Page(verbs.listed, empty=True),
    "journal": Page(verbs.journal, empty=True),
    "run": Page(verbs.run, empty=True),
}
_OFF = "the dashboard of LCM is switched off by LCM_DASHBOARD=off; `metadata` shows figures, `full` shows texts too"
_METADATA = (
    "this shows what was said, and LCM_DASHBOARD=metadata permits figures only; set it to `full` in config.yaml "
    "(lcm: dashboard: full) and restart the dashboard"
)
_EMPTY = "nothing is stored yet: the first message in a chat makes the archive"


def answer(page: str, given: Mapping[str, Any], *, shared: bool = False) -> tuple[int, str]:
    """(HTTP status, JSON) of one request. ``shared``: others than the operator of this machine may have logged in."""
    try:
        found = PAGES.get(page)
        if found is None:
            raise NotFound(f"there is no page {page!r}; there are {', '.join(PAGES)}")
        with _opened(str(given.get("profile") or "")) as runtime:
            return 200, dumps(_shown(found, runtime, given, mode_of(runtime.config, shared=shared)))
    except NotFound as exc:
        return 404, dumps({"error": str(exc)})
    except Hidden as exc:
        return 403, dumps({"error": str(exc)})
    except BadRequest as exc:
        return 400, dumps({"error": str(exc)})
    except (LcmError, OSError) as exc:
        return 503, dumps({"error": str(exc), "remedy": way_out(exc)})


def mode_of(config: settings.Config, *, shared: bool) -> str:
    """off, metadata or full. Texts are shown behind a login only where somebody has said so."""
    return "metadata" if shared and config.provenance("dashboard") == "default" else config.dashboard


def _shown(page: Page, runtime: Runtime, given: Mapping[str, Any], mode: str) -> Answer:
    if mode == "off":
        raise Hidden(_OFF)
    if page.texts and mode != "full":
        raise Hidden(_METADATA)
    stored = runtime.db.exists
    if not stored and not page.empty:
        raise NotFound(_EMPTY)
    return page.run(Look(_access(runtime, str(given.get("session") or ""), stored=stored), given, mode))


def _access(runtime: Runtime, session_id: str, *, stored: bool) -> Access:
    """The database as a terminal of this machine sees it, from a session: the one that is named, or the newest."""
    session = None
    if stored:
        found = runtime.sessions.find(session_id) if session_id else None
        if session_id and found is None:
            raise NotFound(f"nothing is stored under a session {session_id!r}")
        try:
            session = found or next(iter(runtime.sessions.recent(principal=None, limit=1)), None)
        except StoreError:
            session = None  # the doctor says what is wrong with the file
    return replace(operator_access(runtime, session, None), trusted=True)


@contextmanager
def _opened(profile: str) -> Iterator[Runtime]:
    """The archive of a profile, for one request.

    A dashboard lives for weeks beside the agents. What it kept (health, calibration) would be old soon, and a runtime of the
    process writes such states when it ends. So nothing is kept, and no file but the database is written.
    """
    with facts.profile(profile) as home:
        config = replace(settings.load(None, facts.config_block()), metrics_path="")
        runtime = by_itself(file_of(config, home), config)
        try:
            yield runtime
        finally:
            runtime.db.close()
