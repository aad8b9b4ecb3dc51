"""
Verbs of ``hermes lcm`` and the search of the agent's tool, for the tab: the same words, functions and refusals; settings, exam
and ledger with them.

What changes something is shown first. To do it, the page sends back a digest of what it showed, and it is refused where the
same question has another answer by then.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from ..command import VERBS, flagged, parsed, perform, refused
from ..command import answer as verb
from ..config import KNOBS, setting_text
from ..errors import BadRequest, LcmError
from ..ledger.table import STRUCK
from ..ops import journal as kept
from ..ops import presets
from ..ops.answers import FOUND, OK, Verb, Words, at_terminal
from ..ops.replay import REACHED
from ..ops.settings import data_of
from ..ops.status import last_exam, telling
from ..recall import ledger as stated
from ..text.printable import printable
from ..tools import call
from .look import Answer, Hidden, Look

_FILTERS: Final = ("mode", "scope", "sort", "role", "source", "time_from", "time_to", "limit", "cursor")
_PAGE: Final = 25
#: Verbs that tell figures and settings only, their dry runs included.
_FIGURES: Final = frozenset((
    "status", "cost", "doctor", "doctor retention", "doctor clean", "doctor repair", "rotate", "dissolve", "restore", "help",
    "preset", "preset show", "preset suggest",
))  # fmt: skip
_LOOKING_ONLY: Final = "LCM_DASHBOARD=metadata permits figures only; `hermes lcm {0}` at a terminal shows and does more"


def listed(look: Look) -> Answer:
    """Every verb: its words, what it does, whether it changes something."""
    return {
        "verbs": [
            {"name": each.name, "usage": each.usage, "help": each.help, "example": each.example,
             "changes": each.changes or each.at_once}
            for each in VERBS
            if look.full or each.name in _FIGURES
        ]
    }  # fmt: skip


def search(look: Look) -> Answer:
    """The answer of ``lcm_grep``, with the reasons for the rank of each hit."""
    asked: Answer = {name: look.text(name) for name in _FILTERS if look.text(name)}
    asked |= {"query": look.text("query"), "format": "json", "reasons": True}
    asked["session_scope"] = "current" if look.text("where") == "here" else "all"
    found: Answer = json.loads(call(look.deps, "lcm_grep", asked).text)
    if "error" in found:
        raise BadRequest(str(found["error"]))
    return found


# -- verbs ---------------------------------------------------------------------------------------------
def run(look: Look) -> Answer:
    """One verb: what it says, or would do; with ``apply``, and the digest of what was shown, it is done."""
    words = look.given.get("words")
    if not isinstance(words, str) or not words.strip():
        raise BadRequest("words: expected what would be typed behind `hermes lcm`")
    verb, typed = parsed(words)
    if not look.full and (verb.name not in _FIGURES or "undo" in typed.rest):
        raise Hidden(_LOOKING_ONLY.format(verb.name))
    if typed.apply:
        raise BadRequest("leave `apply` out of the words: look first, then apply what you saw")
    shown = _said(look, verb, replace(typed, dry=verb.changes or verb.at_once))
    if look.given.get("apply") is not True:
        return shown
    if not look.full:
        raise Hidden(_LOOKING_ONLY.format(verb.name))
    if not (verb.changes or verb.at_once):
        raise BadRequest(f"`{verb.name}` changes nothing, so there is nothing to apply")
    if look.given.get("seen") != shown["seen"]:
        raise BadRequest("what this would do is not what you were shown: something changed meanwhile; look again")
    undo = "undo" in typed.rest
    return _said(look, verb, typed if undo or verb.at_once else flagged(verb, list(typed.rest), ["apply"]))


def _said(look: Look, verb: Verb, words: Words) -> Answer:
    try:
        told = perform(verb, look.deps, words)
    except (LcmError, OSError) as exc:
        told = refused(exc)
    told = told if verb.quotes and told.code == OK else at_terminal(told, look.text("session") or None)
    text = printable(told.text)
    return {
        "verb": verb.name, "words": " ".join([verb.name, *words.rest]), "text": text, "code": told.code,
        "changes": verb.changes or verb.at_once, "applied": told.code in (OK, FOUND) and verb.acts(words),
        "data": json.loads(json.dumps(told.data, default=str)),
        "seen": blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest(),
    }  # fmt: skip


def journal(look: Look) -> Answer:
    """Deeds of operators on this archive, newest first, a page of them."""
    offset, limit = look.whole("offset"), look.whole("limit", _PAGE, most=200)
    found = kept.entries(look.deps.db)[::-1] if look.deps.db.exists else []
    if not look.full:  # what was typed and answered may quote what was said
        found = [{"at": each["at"], "words": each["words"].partition(" ")[0], "said": ""} for each in found]
    return {"entries": found[offset : offset + limit], "offset": offset, "more": len(found) > offset + limit}


# -- settings, exam, ledger ----------------------------------------------------------------------------
def settings(look: Look) -> Answer:
    """Every setting, and the presets by name."""
    config = look.deps.config
    return {
        "settings": [
            {**data_of(config, knob), "default": setting_text(knob.default), "replayed": name in REACHED,
             "value": setting_text(getattr(config, name)) if look.full or not telling(name) else None}
            for name, knob in KNOBS.items()
        ],
        "refused": [str(problem) for problem in config.problems if look.full or not telling(problem.name)],
        "presets": [{"name": each.name, "summary": each.summary} for each in (*presets.CHOICES, *presets.PRESETS)],
    }  # fmt: skip


def exam(look: Look) -> Answer:
    """The last grade; with ``ask`` the exam is held now, as ``hermes lcm exam`` does, and says each probe."""
    if not look.text("ask"):
        return {"asked": False, **(last_exam(look.deps) or {})}
    done = verb("exam", look.deps)
    if "kinds" not in done.data:
        raise BadRequest(str(done.data.get("error", done.text)))
    data = {**done.data, "asked": True}
    if not look.full:
        del data["probes"]
    return data


def ledger(look: Look) -> Answer:
    """Facts that were stated, pinned ones first, then the newest, struck ones last; without texts only how many."""
    found, seen = stated.entries(look.deps)
    out: Answer = {
        "session_id": look.session.session_id,
        "kinds": dict(Counter(entry.fact.kind for entry in found)),
        "marks": dict(Counter(entry.mark for entry in found if entry.mark)),
        "contradictions": sum(bool(entry.contradicts) for entry in found),
        "behind": seen.behind,
    }
    if not look.full:
        return out
    offset, limit, kind = look.whole("offset"), look.whole("limit", _PAGE, most=200), look.text("kind")
    among = (each.entry for each in stated.about(look.deps, found, look.text("about"), struck=True))
    shown = [entry for entry in among if kind in ("", entry.fact.kind)]
    shown.sort(key=lambda entry: entry.mark == STRUCK)
    page = shown[offset : offset + limit]
    return {
        **out, "entries": [stated.render_entry(look.deps, entry) for entry in page], "offset": offset, "total": len(shown),
        "more": len(shown) > offset + limit,
    }  # fmt: skip
