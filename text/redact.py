"""
Secrets in texts, and the placeholders that stand for them.

Pure and linear: each kind of secret has literals that it cannot do without (``anchors`` finds them); only where one stands is
anything tried, and every try is bounded. Finds secrets also where they are quoted inside JSON inside JSON, percent-encoded, or in
base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final

from .anchors import Anchors, plain

DEFAULT: Final = ("api_key", "bearer_token", "password_assignment", "private_key")
_DEPTH = 2  # base64 inside base64 is opened this deep
_WORD = 24  # shorter words of base64 hold no secret
_MARK = ord("?")  # what stands for a character that is not ASCII
_IN_WORD = bytes(0x31 if (chr(n).isalnum() and n < 128) or chr(n) in "+/_-" else 0x20 for n in range(256))
_IN_RUN = _IN_WORD[:_MARK] + b"1" + _IN_WORD[_MARK + 1 :]  # the same, and what may be a letter that is not ASCII
_TOKEN = 20  # no token in a run (see ``Rule.run``) is shorter
_DOTTED = 36  # what may stand before a run with a dot between
_PRINTED = bytes(n for n in range(256) if n >= 32 or 9 <= n <= 13)
# Most long words (paths, names) cannot be base64 of text: a first character of g to v would be a byte in the middle of a UTF-8
# character, every fourth one of A, B, E to H a control character, of + and / (- and _) none that UTF-8 has; and behind an ASCII
# character (C, D, I to f) some second characters would be such a byte in the middle, or a control character.
_FIRST = frozenset(b"CDIJKLMNOPQRSTUVWXYZabcdefwxyz0123456789")
_SAYS = re.compile(rb"(?:[CDI-Za-f][^BI-LRYZabho-rx4-7]..|[g-z0-9]...){%d}" % (_WORD // 4))
_DONE = "[redacted:"
_DOT = ord(".")

# What stands between a name and its value, and the value: quoted (at any depth of escaping) or not.
_END = r"[\w.-]{0,40}+(?:\\{0,8}[\"'])?+\s{0,8}+(?::=|=>|[=:]|%3[dDaA])\s{0,8}+"
_QUOTED = r"(?P<bs>\\{0,8}+)(?P<q>[\"'`])(?P<quoted>(?:(?!(?<!\\)(?P=bs)(?P=q))[^\r\n]){1,4096}+)"
_BARE = r"(?P<bare>[^\s\"'`,;&<>(){}\[\]\\%|]{LEAST,4096}+)(?P<after>[\s\S]?)"

Match = tuple[int, int]
Edit = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret. ``anchors``: literals, one of which begins every match of ``find``; with a capital in it exactly as
    written, otherwise in any case."""

    kind: str
    anchors: tuple[str, ...]
    find: Callable[[str, int], Match | None]
    digest: bool = True
    key: re.Pattern[str] | None = None  # names of JSON keys whose whole value is the secret
    needs: str = ""  # characters of which every match has one
    #: Every match holds a run of at least ``_TOKEN`` letters, digits and signs of base64, and its anchor stands in that run, or
    #: within ``_DOTTED`` characters before it when a dot stands directly before the run.
    run: bool = False


_Goal = tuple[tuple[int, int], Rule]  # a rule, and when it may name what it finds

#: What every match of ``_assigned`` has one of.
_ASSIGNS = "=:%"


def _late(pattern: str) -> Callable[[], re.Pattern[str]]:
    """A pattern that is compiled when it is used: redaction is off in most homes."""
    return lru_cache(maxsize=1)(lambda: re.compile(pattern))


def _shape(pattern: str, group: int = 0, *, back: int = 0) -> Callable[[str, int], Match | None]:
    """A secret that is known by its own shape; the anchor stands at its beginning (or ``back`` characters into it)."""
    compiled = _late(pattern)

    def find(text: str, at: int) -> Match | None:
        found = compiled().match(text, max(0, at - back))
        return found.span(group) if found else None

    return find


def _assigned(name: str, *, least: int, word_value: bool = False) -> Callable[[str, int], Match | None]:
    """The value that a name is given."""
    compiled = _late(f"(?i:{name})" + _END + "(?:" + _QUOTED + "|" + _BARE.replace("LEAST", str(least)) + ")")

    def find(text: str, at: int) -> Match | None:
        found = compiled().match(text, at)
        if found is None:
            return None
        if found["quoted"] is not None:
            return found.span("quoted") if _is_value(found["quoted"]) else None
        return found.span("bare") if _plausible(found["bare"], found["after"], word_value) else None

    return find


_EMPTY = re.compile(
    r"(?i)(?:none|null|nil|true|false|undefined|str|string|int|bool|bytes|any|optional|required|secret|password|token|value|"
    r"x+|\*+|\.+|-+|_+|changeme|redacted|example|placeholder)\W?"
)
_CODE = re.compile(
    r"(?:self|this|os|process|env|config|settings|args|kwargs|request|req|data|params|options|props|ctx|event)\."
)
_TELLING = re.compile(r"[^A-Za-z._:/-]")  # ``_tells`` for ASCII
_NAME = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+|[a-z]+(?:_[a-z]+)+|[A-Z]+(?:_[A-Z]+)+")


def _is_value(text: str) -> bool:
    """Is this something that was filled in?"""
    text = text.strip()
    return bool(text) and _DONE not in text and not _EMPTY.fullmatch(text) and text[:2] not in ("${", "{{", "<%", "$(")


def _plausible(text: str, after: str, word_value: bool) -> bool:
    """Is an unquoted word a secret rather than code or prose?"""
    if (
        not _is_value(text)
        or text[0] in "$<*"
        or _CODE.match(text)
        or after in ("(", "[")
        or _NAME.fullmatch(text.rstrip(".:,"))
    ):
        return False
    if _TELLING.search(text) if text.isascii() else any(map(_tells, text)):
        return True
    return len(text) >= 20 or (word_value and after in ("", "\n", "\r", ",", ";", "&", '"', "'", "\\", "}"))


def _tells(char: str) -> bool:
    """Is this a digit, or a sign that names do not have?"""
    return char.isdigit() or (not char.isalnum() and char not in "._-:/")


def _private_key(text: str, at: int) -> Match | None:
    """A PEM block; one that is cut off goes as far as it looks like one."""
    head = _PEM_HEAD.match(text, at)
    if head is None:
        return None
    body = _PEM_BODY.match(text, head.end())
    return (at, body.end()) if body else (at, head.end())


_PEM_HEAD = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(
    r"(?:[A-Za-z0-9+/=\s]++|\\{1,8}[nrt/]|[\w-]{1,30}: [^\n\\-]{1,200}|[\"',+]\s{0,40})*+"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
)
_PHRASE = r"(?:password|passwd|passphrase|passcode|pwd)"
_API = r"(?:api[\s_.-]?(?:key|token|secret)|access[\s_.-]?token|secret[\s_.-]?key|client[\s_.-]?secret|apikey)"

RULES: tuple[Rule, ...] = (
    Rule("private_key", ("-----begin ",), _private_key),
    Rule("aws_key", ("aws_…secret", "secret"), _assigned(r"(?:aws_secret_access_key|secretaccesskey)", least=16),
         needs=_ASSIGNS),
    Rule(
        "api_key", ("api…key|token|secret", "access…token", "secret", "client…secret"), _assigned(_API, least=6),
        key=re.compile(rf"(?i)[\w.-]{{0,40}}{_API}[\w.-]{{0,20}}"), needs=_ASSIGNS,
    ),
    Rule(
        "bearer_token", ("bearer",),
        _shape(r"(?i:bearer)(?:\s|%20|\+){1,4}(?P<v>(?=[A-Za-z._~+/=-]{0,400}+\d|[\w.~+/=-]{24})[\w.~+/=-]{8,4096})", 1),
    ),
    Rule(
        "bearer_token", ("token",), _assigned(r"token(?!s|i[sz])", least=12),
        key=re.compile(r"(?i)(?:[\w.-]{0,40}[_-])?token|[a-z]{1,20}Token|authorization"), needs=_ASSIGNS,
    ),
    Rule(
        "password_assignment", ("pass", "pwd"), _assigned(_PHRASE, least=3, word_value=True), digest=False,
        key=re.compile(rf"(?i)[\w.-]{{0,40}}{_PHRASE}[\w.-]{{0,20}}"), needs=_ASSIGNS,
    ),
    Rule("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _shape(r"gh[pousr]_[A-Za-z0-9]{30,255}"), run=True),
    Rule("github_token", ("github_pat_",), _shape(r"github_pat_\w{22,255}"), run=True),
    Rule("gitlab_token", ("glpat-", "gldt-", "glrt-"), _shape(r"gl(?:pat|dt|rt)-[\w-]{20,255}"), run=True),
    Rule("aws_key", ("AKIA", "ASIA", "ABIA", "ACCA"), _shape(r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"), run=True),
    Rule(
        "slack_token", ("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"),
        _shape(r"xox[abeoprs]-[A-Za-z0-9-]{10,255}"),
    ),
    Rule(
        "slack_token", ("hooks.slack.com/",), _shape(r"hooks\.slack\.com/(?:services|workflows)/([\w/+-]{20,255})", 1),
        run=True,
    ),
    Rule("google_key", ("AIza",), _shape(r"AIza[\w-]{35}"), run=True),
    Rule("google_key", ("ya29.",), _shape(r"ya29\.[\w-]{20,2048}"), run=True),
    Rule("anthropic_key", ("sk-ant-",), _shape(r"sk-ant-[\w-]{20,255}"), run=True),
    Rule(
        "openai_key", ("sk-",),
        _shape(r"(?<![A-Za-z0-9])sk-(?!ant-)(?:proj-|svcacct-|or-v1-)?(?=[\w-]{0,60}\d)[\w-]{20,255}"), run=True,
    ),
    Rule("stripe_key", ("sk_", "rk_", "whsec_"), _shape(r"(?:[sr]k_(?:live|test)|whsec)_\w{16,255}"), run=True),
    Rule("npm_token", ("npm_",), _shape(r"npm_[A-Za-z0-9]{36}"), run=True),
    Rule("pypi_token", ("pypi-",), _shape(r"pypi-AgEIcHlwaS[\w-]{50,1024}"), run=True),
    Rule("huggingface_token", ("hf_",), _shape(r"hf_[A-Za-z]{30,50}(?!\w)|hf_[A-Za-z0-9]{30,50}(?!\w)"), run=True),
    Rule("sendgrid_key", ("SG.",), _shape(r"SG\.[\w-]{16,32}\.[\w-]{30,64}"), run=True),
    Rule("jwt", ("eyJ",), _shape(r"eyJ[\w-]{8,400}+\.eyJ[\w-]{8,8192}+\.[\w-]{8,4096}")),
    Rule(
        "url_credentials", ("://",), _shape(r"://[^\s/:@\"'`<>\\]{0,256}:([^\s/@\"'`<>\\]{1,256})@[\w\[]", 1), digest=False,
        needs="@",
    ),
    Rule(
        "connection_string", ("accountkey=", "sharedaccesskey=", "sharedsecret=", "sig="),
        _shape(r"(?i:accountkey|sharedaccesskey|sharedsecret|sig)=([\w+/=%-]{16,512})", 1), needs="=",
    ),
    Rule("basic_auth", ("basic ",),
        _shape(r"(?i:basic) ((?=[A-Za-z+/=]{0,200}\d|[\w+/]{0,200}=)[A-Za-z0-9+/]{8,1024}={0,2})(?![\w.])", 1),
        digest=False),
    Rule(
        "basic_auth", ("-u ", "--user "),
        _shape(r"--?u(?:ser)? {1,3}\\{0,4}[\"']?[\w.@+-]{1,64}:(?!\d{1,9}\b)([^\s\"'\\]{3,256})", 1), digest=False, needs=":",
    ),
    Rule(
        "env_assignment", ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "DSN"),
        _assigned(r"(?-i:KEY|TOKEN|SECRET|PASSW(?:OR)?D|CREDENTIALS?|DSN)", least=6), needs=_ASSIGNS,
    ),
)  # fmt: skip
CATALOGUE: Final = tuple(dict.fromkeys(rule.kind for rule in RULES))


def placeholder(kind: str, secret: str, *, digest: bool = True) -> str:
    """What stands for a secret. The digest lets equal secrets be recognised; passwords have none, they could be guessed."""
    if not digest:
        return f"{_DONE}{kind}]"
    return f"{_DONE}{kind}:{hashlib.sha256(secret.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}]"


class Redactor:
    """Finds the secrets of some kinds. ``unknown``: names that are no kind; without any known one the default kinds count."""

    def __init__(self, names: Iterable[str] = DEFAULT) -> None:
        wanted = list(dict.fromkeys(names))
        self.unknown = tuple(name for name in wanted if name not in CATALOGUE and name != "all")
        known = set(CATALOGUE) if "all" in wanted else set(wanted) & set(CATALOGUE)
        self.kinds = tuple(kind for kind in CATALOGUE if kind in (known or set(DEFAULT)))
        self._rules = [rule for rule in RULES if rule.kind in self.kinds]
        # Where two rules find the same, the first one names it: a shape says more than a name does.
        first = sorted(self._rules, key=lambda rule: rule.needs == _ASSIGNS)
        order: dict[str, int] = {}
        anchors: list[tuple[str, str, _Goal]] = []
        for n, rule in enumerate(first):
            places = [(order.setdefault(anchor, len(order)), n) for anchor in rule.anchors]
            anchors += [(anchor, rule.needs, (place, rule)) for anchor, place in zip(rule.anchors, places, strict=True)]
        in_runs = [each for each in anchors if each[2][1].run]
        self._anchors = Anchors([each for each in anchors if not each[2][1].run])
        self._in_runs = Anchors(in_runs) if in_runs else None

    def text(self, text: str) -> str:
        """The text without its secrets; the same object when it has none."""
        return self._text(text, _DEPTH)

    def _text(self, text: str, depth: int) -> str:
        view = _View(text)
        edits = _merged(self._edits(view))
        if depth and len(text) >= _WORD:
            edits += self._decoded(view, edits, depth - 1)
        return _replaced(text, edits)

    def _edits(self, view: _View) -> list[Edit]:
        known: dict[tuple[str, str], str] = {}  # the same secret often stands in a text more than once
        out: list[Edit] = []
        for start, stop, rule in self._found(view):
            secret = view.text[start:stop]
            new = known.get((rule.kind, secret))
            if new is None:
                new = known[rule.kind, secret] = placeholder(rule.kind, secret, digest=rule.digest)
            out.append((start, stop, new))
        return out

    def _found(self, view: _View) -> Iterator[tuple[int, int, Rule]]:
        """(start, stop, rule) of every secret; they may overlap."""
        text = view.text
        clean: bool | None = None
        for places, (_, rule) in self._places(view):
            done = 0
            find = rule.find
            for at in places:
                if at < done:
                    continue
                match = find(text, at)
                if match:
                    done = match[1]
                    if clean is None:
                        clean = _DONE not in text
                    if clean or not (_is_placeholder(text, at) or _is_placeholder(text, match[0])):
                        yield match[0], match[1], rule

    def _places(self, view: _View) -> list[tuple[list[int], _Goal]]:
        """Where anchors stand, in the order in which rules may name what they find."""
        places = list(self._anchors.places(view.text, view.raw))
        if self._in_runs is not None:
            joined, starts, offsets = view.joined()
            for hits, goal in self._in_runs.places(joined, plain(joined)):
                each = {at + offsets[bisect_right(starts, at) - 1] for at in hits}
                places.append((sorted(each), goal))
            places.sort(key=lambda found: found[1][0])
        return places

    def _decoded(self, view: _View, taken: Sequence[Edit], depth: int) -> list[Edit]:
        """Secrets in what base64 words of the text say, outside of those that are known."""
        text = view.text
        spans = view.words(taken) if taken else view.words()
        words = [(start, stop, said) for start, stop in spans if (said := _said(text[start:stop])) is not None]
        if len(words) > 1:
            wanted = self._promising([said for *_, said in words], depth)
            words = [words[n] for n in sorted(wanted)]
        edits: list[Edit] = []
        for start, stop, said in words:
            clean = self._text(said, depth)
            if clean != said:
                data = clean.encode()
                # Filled up with blanks: signs of equality behind letters would be looked at as an assignment the next time.
                edits.append((start, stop, base64.b64encode(data + b" " * (-len(data) % 3)).decode()))
        return edits

    def _promising(self, texts: Sequence[str], depth: int) -> set[int]:
        """Which of many short texts hold an anchor, or words to decode: looked for in all of them at once."""
        joined = "\n".join(texts)
        starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
        view = _View(joined)
        hits = [at for places, _ in self._places(view) for at in places]
        hits += [start for start, _ in view.words()] if depth else []
        return {bisect_right(starts, at) - 1 for at in hits}

    def value(self, key: str, text: str) -> str:
        """The value of a JSON key: the whole of it when the key names a secret."""
        if len(key) <= 80 and text:
            for rule in self._rules:
                if rule.key is not None and rule.key.fullmatch(key) and _is_value(text):
                    return placeholder(rule.kind, text, digest=rule.digest)
        return self.text(text)

    def pieces(self, texts: Sequence[str]) -> list[str]:
        """Texts that follow each other (streamed parts): a secret may begin in one and end in a later one."""
        out = list(texts)
        if len(out) > 1:
            joined = "".join(out)
            out = _split(out, _merged(self._edits(_View(joined))))
        return [self.text(text) for text in out]


def _is_placeholder(text: str, at: int) -> bool:
    """Does this stand in a placeholder of ours?"""
    begin = text.rfind(_DONE, max(0, at - 60), at)
    return begin >= 0 and text.find("]", begin, at) < 0


class _View:
    """A text as searches see it: one byte a character, and its long runs."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.raw = plain(text)
        self._ascii = text.isascii()
        self._found: list[Match] | None = None

    def joined(self) -> tuple[str, list[int], list[int]]:
        """The runs, with what stands before a dot before them; where each begins here, and how much later in the text."""
        raw = self.raw
        parts: list[bytes] = []
        starts: list[int] = []
        offsets: list[int] = []
        size = 0
        self._found = list(_runs(raw, _IN_WORD if self._ascii else _IN_RUN, _TOKEN))
        for at, stop in self._found:
            begin = max(0, at - _DOTTED) if raw[at - 1] == _DOT else at
            starts.append(size)
            offsets.append(begin - size)
            parts.append(raw[begin:stop])
            size += stop - begin + 1
        return b" ".join(parts).decode("ascii"), starts, offsets

    def words(self, taken: Sequence[Edit] = ()) -> Iterator[Match]:
        """Runs of at least ``_WORD`` characters of base64 that may say text, with the signs that fill them up.

        ``taken``: what goes from the text, in order; a word ends there, as no placeholder holds or joins one.
        """
        raw = self.raw
        says = _SAYS.match
        runs: Iterable[Match]
        if self._found is None:
            runs = _runs(raw, _IN_WORD, _WORD)
        elif self._ascii:
            runs = self._found
        else:
            runs = (part for run in self._found for part in _unmarked(raw, run))
        begins = {edit[0] for edit in taken}
        for at, stop in _outside(runs, taken) if taken else runs:
            if raw[at] in _FIRST and stop - at >= _WORD and says(raw, at):
                filled = 2 if raw.startswith(b"==", stop) else 1 if raw.startswith(b"=", stop) else 0
                while filled and not begins.isdisjoint(range(stop, stop + filled)):
                    filled -= 1
                yield at, stop + filled


def _runs(raw: bytes, table: bytes, least: int) -> Iterator[Match]:
    """Runs of bytes for which the table has a one."""
    kinds = raw.translate(table)
    find = kinds.find
    run = b"1" * least
    at = find(run)
    while at >= 0:
        stop = find(b" ", at + least)
        if stop < 0:
            stop = len(kinds)
        yield at, stop
        at = find(run, stop)


def _outside(runs: Iterable[Match], taken: Sequence[Edit]) -> Iterator[Match]:
    """What is left of runs, both in order, where something goes."""
    n = 0
    for at, stop in runs:
        while n < len(taken) and taken[n][1] <= at:
            n += 1
        for each in range(n, len(taken)):
            begin, end, _ = taken[each]
            if begin >= stop:
                break
            if begin > at:
                yield at, begin
            at = max(at, end)
        if at < stop:
            yield at, stop


def _unmarked(raw: bytes, run: Match) -> Iterator[Match]:
    """The parts of a run without the marks for what is not ASCII; short ones may be missing."""
    start, stop = run
    if raw.find(b"?", start, stop) < 0:
        yield run
    else:
        yield from ((start + at, start + end) for at, end in _runs(raw[start:stop], _IN_WORD, _WORD))


def _said(word: str) -> str | None:
    """What a base64 word says, if that is text."""
    if "-" in word or "_" in word:
        word = word.replace("-", "+").replace("_", "/")
    word = word.rstrip("=")
    size = len(word)
    try:
        if size > 64 and binascii.a2b_base64(word[:32]).translate(None, _PRINTED):
            return None  # before all of it is decoded
        size -= size % 4 == 1
        said = binascii.a2b_base64(word[:size] + "=" * (-size % 4))
        return None if said[: min(24, size // 4 * 3)].translate(None, _PRINTED) else said.decode("utf-8")
    except ValueError:
        return None


def _merged(edits: Iterable[Edit]) -> list[Edit]:
    """Edits in order; of overlapping ones the first, longest one, stretched over the others."""
    out: list[Edit] = []
    for start, stop, text in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], stop), out[-1][2])
        else:
            out.append((start, stop, text))
    return out


def _replaced(text: str, edits: Sequence[Edit]) -> str:
    if not edits:
        return text
    out: list[str] = []
    at = 0
    for start, stop, new in _merged(edits):
        out += [text[at:start], new]
        at = stop
    return "".join([*out, text[at:]])


def _split(texts: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """Edits of the joined texts, applied to each: the placeholder goes where the secret began."""
    out: list[str] = []
    begin = 0
    for text in texts:
        end = begin + len(text)
        mine = [
            (max(start, begin) - begin, min(stop, end) - begin, new if start >= begin else "")
            for start, stop, new in edits
            if start < end and stop > begin
        ]
        out.append(_replaced(text, mine))
        begin = end
    return out
