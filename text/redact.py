"""
Secrets in texts, and the placeholders that stand for them.

Pure and linear: each kind of secret has literals that it cannot do without; only where one stands is its pattern tried, and every
try is bounded. Finds secrets also where they are quoted inside JSON inside JSON, percent-encoded, broken by the width of a
terminal, or in base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import html
import json
import logging
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import AnyStr, Final

DEFAULT: Final = ("api_key", "bearer_token", "password_assignment", "private_key", "aws_key", "github_token")
_DEPTH = 2  # base64 inside base64 is opened this deep
_WORD = 24  # shorter words of base64 hold no secret
_IN_WORD = bytes(0x31 if (chr(n).isalnum() and n < 128) or chr(n) in "+/_-" else 0x20 for n in range(256))
_PRINTED = bytes(n for n in range(256) if n >= 32 or 9 <= n <= 13)
# Most long words (paths, names) cannot be base64 of text: a first character of g to v would be a byte in the middle of a UTF-8
# character, every fourth one of A, B, E to H a control character, of + and / (- and _) none that UTF-8 has; and behind an ASCII
# character (C, D, I to f) some second characters would be such a byte in the middle, or a control character.
_FIRST = frozenset(b"CDIJKLMNOPQRSTUVWXYZabcdefwxyz0123456789")
_SAYS = re.compile(rb"(?:[CDI-Za-f][^BI-LRYZabho-rx4-7]..|[g-z0-9]...){%d}" % (_WORD // 4))
_DONE = "[redacted:"
_PLACEHOLDER = re.compile(r"\[redacted:([a-z_]+)(?::([0-9a-f]{12}))?\]")
#: How the placeholder of a secret in a name or an id begins.
NAMELESS: Final = "redacted_"
_SALT, _ROUNDS = b"hermes-lcm", 200_000  # of the digest of an id that holds a password

# Python before 3.11.5 matches wrongly where a group that may backtrack is repeated possessively: ``(?:a{1,8}b)++``.
# What stands between a name and its value, and the value: quoted (at any depth of escaping) or not.
_END = r"(?P<tail>[\w.-]{0,40}+)(?:\\{0,8}+[\"'])?\s{0,8}+(?::=|=>|[=:](?!=)|%3[dDaA])\s{0,8}+"
_QUOTED = r"(?P<bs>\\{0,8}+)(?P<q>[\"'`])(?P<quoted>(?:(?!(?<!\\)(?P=bs)(?P=q))[^\r\n]){1,4096})"
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
    needs: tuple[str, ...] = ()  # signs and options, exactly as written, of which a text with a match has one
    token: bool = False  # each literal begins, exactly as written, a word of ``_LONG`` characters at least
    #: How long one is, where it may go on behind the end of a line (0: nobody knows, ``_ENDS``: its form says where it ends,
    #: ``_LAST``: a word like any other, that goes on where the width of a terminal broke the line; ``_WIDE``: it goes on there
    #: where the next word is as odd as it, too).
    size: int | None = None
    #: Literals in other letters, looked for where a text has any.
    foreign: tuple[str, ...] = ()


_ENDS: Final = -1
_LAST: Final = -2
_WIDE: Final = -3
_TERMINAL: Final = 40  # columns of the narrowest one whose width breaks a value of ``_WIDE``
_LONG: Final = 15
# With the sign that stands for what is not ASCII.
_IN_LONG = bytes(0x31 if (chr(n).isalnum() and n < 128) or chr(n) in "_-.?" else 0x20 for n in range(256))
_SHORT: Final = 4000  # a text of so many characters is searched as it is
_ANCHOR: Final = 17  # characters of the longest literal
#: What every match of ``_assigned`` has one of.
_ASSIGNS = ("=", ":", "%")


def _late(pattern: str) -> Callable[[], re.Pattern[str]]:
    """A pattern that is compiled when it is used: redaction is off in most homes."""
    return lru_cache(maxsize=1)(lambda: re.compile(pattern))


def _shape(pattern: str, group: int = 0) -> Callable[[str, int], Match | None]:
    """A secret that is known by its own shape; the anchor stands at its beginning."""
    compiled = _late(pattern)

    def find(text: str, at: int) -> Match | None:
        found = compiled().match(text, at)
        return found.span(group) if found else None

    return find


def _assigned(
    name: str, *, least: int, word_value: bool = False, quoted_word: bool = True
) -> Callable[[str, int], Match | None]:
    """The value that a name is given. ``word_value``: a word may be one; ``quoted_word``: where it is quoted."""
    compiled = _late(f"(?i:{name})" + _END + "(?:" + _QUOTED + "|" + _BARE.replace("LEAST", str(least)) + ")")

    def find(text: str, at: int) -> Match | None:
        found = compiled().match(text, at)
        if found is None or _OF_ANOTHER.search(found["tail"]):
            return None
        if (quoted := found["quoted"]) is not None:
            said = (
                len(quoted) >= (min(least, 3) if quoted_word else 6)
                and not _CLOSED.match(quoted)
                and _is_value(quoted)
                and (word_value or not _NAME.fullmatch(quoted))
                and (quoted_word or _odd_enough(quoted))
            )
            return found.span("quoted") if said else None
        return found.span("bare") if _plausible(found["bare"], found["after"], word_value) else None

    return find


_EMPTY = re.compile(
    r"(?i)(?:none|null|nil|true|false|yes|no|on|off|undefined|str|string|int|bool|bytes|any|optional|required|secret|password|token|"
    r"value|credentials?|(?:0x[0-9a-f]{1,8}|\d+(?:\.\d+){2,8})|[^@?&#\s]{2,6}://[^@?&#\s]*|x+|\*+|\.+|-+|_+|changeme|redacted|example|placeholder)\W?"
)
# Names that merely begin like that of a secret: `passwordError`, `API_KEY_PREFIX`, `token_expires_at`.
_OF_ANOTHER = re.compile(
    r"(?i)(?:error|message|msg|label|text|textcontent|hint|placeholder|title|help|prompt|prefix|pattern|regex|length|policy|field|"
    r"input|url|path|file|name|endpoint|header|limit|budget|count|type|usage)s?$"
    r"|(?:(?:^|[_.-])(?:ids?|at|on|date|time|ttl|size|age)|(?-i:(?:Id|At|On|Date|Time|TTL|Size)))$"
)
# Behind a quote that ends a string: code. `"Token: " + value`, `input("Password: ", hidden)`.
_CLOSED = re.compile(r"\s+[-+,.%&|<>)\]}?:]|[,;]\s|[)\]}]+(?:[\s,;.)\]}]|$)")
# The path of a file.
_PATH = re.compile(
    r"(?:/(?:home|root|usr|etc|var|opt|run|tmp|mnt|srv|app|data|dev|proc|sys|Users|Volumes|private|secrets|workspace)|~|\.\.?)/"
    r"|[A-Za-z]:\\"
)
_FORMAT = re.compile(r"%(?:\(\w+\))?[a-z]|\{\w*\}")
# Values that stand for one in examples: `YOUR_API_KEY`, `my-secret-password`, `some_token`.
_WORDS = (
    r"(?:your|my|our|the|an?|some|any|new|old|test(?:ing)?|user(?:name)?|password|passphrase|passwd|pass|pwd|secret|secure|keys?|"
    r"api|token|access|auth|bearer|client|app|here|goes|value|string|example|sample|dummy|fake|mock|demo|placeholder|wrong|"
    r"invalid|valid|correct|incorrect|bad|good|very|long|short|weak|strong|hash(?:ed)?|plain|text|default|change|me|insert|replace|"
    r"with|enter|put|this|is|not|real|slack|github|openai|aws|google)"
)
_EXAMPLE = re.compile(rf"(?i)[\W_]*(?:{_WORDS}[\W_]{{0,3}})+|(?:{_WORDS}[\W_]{{1,3}})+{_WORDS}\d{{1,4}}\W?")
_YOURS = re.compile(r"(?i)your[_ -]")
_EXAMPLE_CHARS = 60
_VARIABLE = re.compile(r"\$[A-Za-z_]\w*")
_CODE = re.compile(
    r"(?:self|this|os|process|env|config|settings|args|kwargs|request|req|data|params|options|props|ctx|event)\."
    r"|[a-z]+(?:[A-Z][a-z]+)*Pass(?:word|wd|phrase)\Z"
)
_KEBAB = re.compile(r"[a-z]{1,16}(?:-[a-z]{1,16})+")
_TELLING = re.compile(r"[^A-Za-z._:/-]")  # ``_tells`` for ASCII
_NAME = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+|_*[a-z]+(?:_[a-z]+)+|_*[A-Z]+(?:_[A-Z]+)+")


def _is_value(text: str) -> bool:
    """Is this something that was filled in?"""
    text = text.strip()
    if not any(map(str.isalnum, text)) or _DONE in text or text[:2] in ("${", "{{", "<%", "$("):
        return False
    if not any(map(str.isalnum, _FORMAT.sub("", text))) or _PATH.match(text) or (text[0], text[-1]) == ("<", ">"):
        return False
    example = len(text) <= _EXAMPLE_CHARS and (_EXAMPLE.fullmatch(text) or _YOURS.match(text))
    return not (example or _EMPTY.fullmatch(text) or _VARIABLE.fullmatch(text))


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
    return _odd_enough(text) or (word_value and after in ("", "\n", "\r", ",", ";", "&", '"', "'", "\\", "}"))


def _odd_enough(text: str) -> bool:
    """Is this no word, and no name of a few words?"""
    telling = _TELLING.search(text) if text.isascii() else any(map(_tells, text))
    return bool(telling) or (len(text) >= 20 and not _KEBAB.fullmatch(text))


def _tells(char: str) -> bool:
    """Is this a digit, or a sign that names do not have?"""
    return char.isdigit() or (not char.isalnum() and char not in "._-:/")


def _filled(pattern: str) -> Callable[[str, int], Match | None]:
    """The first group of a shape, where it is something that was filled in."""
    shape = _shape(pattern, 1)

    def find(text: str, at: int) -> Match | None:
        found = shape(text, at)
        return found if found and _is_value(text[slice(*found)]) else None

    return find


def _private_key(text: str, at: int) -> Match | None:
    """A PEM block; one that is cut off goes as far as it looks like one."""
    head = _PEM_HEAD.match(text, at)
    if head is None:
        return None
    body = _PEM_BODY.match(text, head.end())
    return (at, body.end()) if body else (at, head.end())


_PEM_HEAD = re.compile(r"-----BEGIN[ +][A-Z0-9 +]{0,40}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----")
# What stands between its lines: borders, numbers, marks of quotations, comments and differences, quotes of strings.
_BETWEEN = r"[\s│┃║|>#*:→]++|\\{1,8}+[nrt/\"']|&gt;|<br ?/?>|[\"',+]\s{0,40}+|(?<=\n)-(?!-)"
_PEM_BODY = re.compile(
    rf"(?:(?:{_BETWEEN}|\d{{1,6}}+(?=[:→│┃║|\t]|\\{{1,8}}t))*+[A-Z][\w-]{{1,30}}+: [^\n\\]{{1,200}}+){{0,6}}"
    rf"(?:[A-Za-z0-9+/=]++|{_BETWEEN})*+(?:-{{5,6}}END[ +][A-Z0-9 +]{{0,40}}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----)?"
)
_PEM_LINE = re.compile(
    r"(?:[ \t>#*+-]|&gt;|//)*(?:\d{1,6}[ \t]{0,8}(?:[:→│┃║|\t]|\\{1,8}t))?[ \t│┃║|>]*[A-Za-z0-9+/=]{4,128}[ \t│┃║|\\]*"
)
_PEM_TAIL = re.compile(r"-----END[ +][A-Z0-9 +]{0,40}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----")


def _end_of_private_key(text: str, at: int) -> Match | None:
    """The last lines of a PEM block whose beginning stands on another page."""
    tail = _PEM_TAIL.match(text, at)
    lines = [*_LINE_END.finditer(text, max(0, at - 8000), at)] if tail else []
    start = at
    for before, behind in pairwise(reversed(lines)):
        if not _PEM_LINE.fullmatch(text, behind.end(), before.start()):
            break
        start = behind.end()
    else:
        if lines and _PEM_LINE.fullmatch(text, max(0, at - 8000), lines[0].start()):
            start = max(0, at - 8000)
    return (start, tail.end()) if tail and start < at else None


_PHRASE = (
    r"(?:password|passwort|passwd|passphrase|passcode|passe(?![a-z])|contrase(?:ñ|n)a|senha|wachtwoord"
    r"|pwd)"
)
#: A value that looks like no name and no word of prose: letters and digits; no path, option or variable, and no method.
_FILLED_IN = (
    r"(?![/$({<-]|(?i:sha|md5|base|bcrypt|argon|pbkdf|utf|aes|rsa|oauth|http))(?=\S{0,128}\d)(?=\S{0,128}[A-Za-z])"
    r"([^\s\"'`<>\\]{5,127}[^\s\"'`<>\\.,;:!?)\]}])"
)
_OPENED = r"\\{0,4}[\"'`]?"
_SAID_PASSWORD = _late(
    rf"(?i:{_PHRASE})(?: (?:(?:is|ist|was|now|to|(?:(?:was|is) )?(?:set|reset|changed) to)[: ]{{1,3}}{_OPENED}|[\"'`])"
    rf"{_FILLED_IN}"
    rf"|(?<=<password)>\s{{0,8}}(?:<!\[CDATA\[)?([^<>\s\[\]]{{3,128}})(?:\]\]>)?\s{{0,8}}<"
    rf"|\\{{0,4}}[\"']\s{{1,8}}value=\\{{0,4}}[\"']([^\"'\\]{{3,128}})\\{{0,4}}[\"'])"
    rf"|(?:(?<=--)(?i:{_PHRASE})|(?<=--)pass){_OPENED}(?:,\s{{0,4}}| {{1,4}}){_OPENED}{_FILLED_IN}"
    rf"|(?<=--)password(?:[= ]|,\s{{0,4}}){_OPENED}([A-Za-z]{{5,128}})(?=\s{{1,4}}-|\\{{0,4}}[\"'])"
    rf"|(?<=ssh)pass -p ?{_OPENED}([^\s\"'\\]{{3,128}})|(?i:identified by|(?<=with )password) \\{{0,4}}['\"]([^'\"\\]{{3,128}})"
)


def _said_password(text: str, at: int) -> Match | None:
    """A password that stands behind its name, with no sign of equality between."""
    found = _SAID_PASSWORD().match(text, at)
    filled = (found.lastindex or 0) if found else 0
    return found.span(filled) if found and _is_value(found[filled]) else None


#: A password in languages without Latin letters, and the value behind it.
_ABROAD: Final = (
    "парол",
    "Парол",
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "비밀번호",
    "암호",
    "סיסמ",
    "كلمة المرور",
    "κωδικ",
    "Κωδικ",
)
_ABROAD_IN_JSON: Final = tuple(json.dumps(name)[1:-1] for name in _ABROAD)
_SAID_ABROAD = _filled(
    rf"(?:{'|'.join(map(re.escape, _ABROAD + _ABROAD_IN_JSON))})(?:\w|\\u[0-9a-f]{{4}}){{0,6}}?"
    r"(?:[^\S\n]{0,3}(?:[:=：＝—-]|是|为|為|は|이|\\u(?:ff1a|ff1d|662f|4e3a|70ba|306f|c774))){0,2}[^\S\n]{0,3}"
    rf"{_OPENED}(?![/$({{<-]|\\)(?=[!-~]{{0,128}}\d)(?=[!-~]{{0,128}}[A-Za-z])"
    r"([!#-&(-;=?-\[\]-_a-~]{5,127}[A-Za-z0-9!#-&*+@^_~-])"
)
_SHORT_NAME = r"(?:(?<![a-z])|(?<=\\n))(?:pass|pw)(?==(?!=|>|\d+\b))"
_SHORT_NAME_APART = (
    r"(?:(?<![A-Za-z])(?-i:pass|pw)|(?<=\\n)(?:pass|pw)|(?<=[._-])(?:pass|pw))"
    r"(?=[\"'\\]{0,10}[ \t]{0,8}[=:](?!\s*\d+\b|[=>]))"
)
_GAP = r"[ \t\"',\\]{1,8}"
_ARGUMENTS = rf"(?:{_GAP}(?!OPTION)[^\s\"',\\|;&<>]{{1,200}}){{0,12}}{_GAP}OPTION"
_OF_COMMAND = r"([^\s\"'`\\|;&<>{$-][^\s\"'`\\|;&<>]{2,127})"
_BLANKS = r"(?:\s|\\{1,8}[rnt]){1,40}"


def _command(programs: str, option: str, gap: str = rf"(?:{_GAP}|=)?") -> Callable[[str, int], Match | None]:
    """The password that an option of some programs is given."""
    return _filled(rf"(?i:{programs})(?:\.exe)?{_ARGUMENTS.replace('OPTION', option)}{gap}{_OPENED}{_OF_COMMAND}")


def _behind(before: str, pattern: str, chars: int) -> Callable[[str, int], Match | None]:
    """The first group of a shape that stands right behind something."""
    filled, front = _filled(pattern), _late(rf"(?:{before})\Z")

    def find(text: str, at: int) -> Match | None:
        found = filled(text, at)
        return found if found and front().search(text[max(0, at - chars) : at]) else None

    return find


def _before(pattern: str, chars: int) -> Callable[[str, int], Match | None]:
    """The first group of a shape that ends where the literal begins."""
    shape = _late(rf"(?:{pattern})\Z")

    def find(text: str, at: int) -> Match | None:
        first = max(0, at - chars)
        found = shape().search(text[first:at])
        return (first + found.start(1), first + found.end(1)) if found and _is_value(found[1]) else None

    return find


def _around(before: str, pattern: str, chars: int) -> Callable[[str, int], Match | None]:
    """A shape that is known by a literal in its middle: what stands before that, and the rest of it."""
    front, shape = _late(rf"{_BEGINS}(?:{before})\Z"), _shape(pattern)

    def find(text: str, at: int) -> Match | None:
        found = shape(text, at)
        begin = front().search(text[max(0, at - chars - 2) : at]) if found else None
        return (at - len(begin[0]), found[1]) if found and begin else None

    return find


_LOGIN = _behind(
    rf"(?i:docker|podman|nerdctl|buildah|skopeo|registry|oras|crane|az|acr|oc|argocd|cf|ghcr){_GAP}",
    rf"(?i:login){_ARGUMENTS.replace('OPTION', '-p')}(?:{_GAP}|=)?{_OPENED}{_OF_COMMAND}", 24,
)  # fmt: skip
_USER = rf"{_OPENED}[\w.@+\\-]{{1,64}}:"
_USER_OF_CURL = _command("curl", "(?:-u|-U|--user|--proxy-user)", rf"(?:{_GAP}|=)?{_USER}(?!\d{{1,9}}\b|//)")
_USER_OF_SMB = _command(
    r"smb(?:client|get|cacls|map|spool)|rpcclient",
    "(?:-U|--user)",
    rf"(?:{_GAP}|=)?{_OPENED}[\w.@+/\\-]{{1,64}}%",
)
_ORACLE = _filled(
    rf"(?i:sqlplus)(?:{_GAP}-[\w-]{{1,20}}(?:{_GAP}\d\S{{0,8}})?){{0,6}}{_GAP}{_OPENED}"
    r"[\w$#]{1,30}/([^\s@\"'/\\]{3,128})"
)
_IMPACKET = _filled(
    rf"(?:exec|dump)\.py{_ARGUMENTS.replace('OPTION', '')}[\w.-]{{1,64}}/[\w.-]{{1,64}}:([^\s@\"'\\]{{3,128}})@"
)
_PIPED = r"[\"'\\]{0,4}[ ]{0,4}\|[ ]{0,4}(?:sudo )?"
_IN_HEADER = _behind(
    r"(?i:authorization)[\"'\\]{0,8}\s{0,4}[:=,]\s{0,4}[\"'\\]{0,8}",
    r"(?i:token|api-?key)[ =]{1,3}[\"'\\]{0,8}((?=[\w.~+/=-]{0,400}\d)[\w.~+/=-]{16,4096})", 40,
)  # fmt: skip
_NETRC = _behind(
    rf"(?:machine{_BLANKS}\S{{1,253}}|(?m:^)[ \t]*default){_BLANKS}login{_BLANKS}\S{{1,128}}{_BLANKS}",
    rf"password{_BLANKS}([^\s\"'\\]{{3,128}})", 500,
)  # fmt: skip
_PGPASS = _behind(
    r"(?:^|[\s\"'`|>=]|\\n)[\w.*-]{1,253}",
    r":[\d*]{1,5}:(?:[\w.-]{1,63}|\*):(?:[\w.@-]{1,63}|\*):([^\s:\"'`\\]{3,128})", 255,
)  # fmt: skip
_API = r"(?:api[\s_.-]?(?:key|token|secret)|access[\s_.-]?token|secret[\s_.-]?key|client[\s_.-]?secret|apikey)"
_BEARER = r"(?i:bearer)(?:\s|%20|\+){1,4}(?!(?i:tokens?|auth[a-z]*)\b)"
#: Of a variable in the environment; the keys of tables and caches, and public ones, are none.
_NO_SECRET = "".join(f"(?<!{each}_)" for each in ("PUBLIC", "CACHE", "PRIMARY", "FOREIGN", "SORT"))
_UPPER = rf"(?-i:(?:{_NO_SECRET}KEY|TOKEN|SECRET|PASSW(?:OR)?D|_PASS|CREDENTIALS?|DSN)(?![A-Za-z]))"
#: In front of a token that says where a list goes on.
_PAGES = "".join(rf"(?<!{each})(?<!{each}[_-])" for each in ("page", "next", "continuation", "sync"))
_PASSWORDS = ("password=", "passwd=", "pwd=")
_NAMED = "(?i:password|passwd|pwd)="
_OF_CONNECTION = r"(?:dbname|host|hostaddr|port|user|sslmode|connect_timeout|application_name|options)="
_AWS = (
    r"(?:aws[\s_.+-]?secret(?:[\s_.+-]?access)?(?:[\s_.+-]?key)?|secret[\s_.+-]?access[\s_.+-]?key|"
    r"aws[\s_.+-]?session[\s_.+-]?token)"
)
_GITLAB = ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glft-", "glsoat-", "gloas-", "glagent-")

_BEGINS: Final = r"(?:(?<![A-Za-z0-9+])|(?<=\\[nrt]))"  # of a word, also behind an escaped end of a line
#: How the tokens of other services begin, and what follows.
_PREFIXES: Final = {
    "dop_v1_ doo_v1_ dor_v1_ sntryu_": "[0-9a-f]{64}", "shpat_ shpca_ shppa_ shpss_": "[0-9a-f]{32}",
    "pul- sbp_": "[0-9a-f]{40}", "rubygems_": "[0-9a-f]{48}",
    "glsa_": "[A-Za-z0-9]{32}_[0-9a-fA-F]{8}", "glc_ sntrys_": r"eyJ[\w+/=-]{30,400}", "lin_api_": "[A-Za-z0-9]{40}",
    "ntn_": "[A-Za-z0-9]{43,46}", "figd_": r"[\w-]{40,60}", "dckr_pat_ dckr_oat_": r"[\w-]{27,40}",
    "hvs. hvb. hvr.": r"[\w-]{24,300}", "dp.pt. dp.st. dp.ct. dp.sa.": r"(?:[\w-]{1,40}\.)?[A-Za-z0-9]{40,44}",
    "gsk_": "[A-Za-z0-9]{48,60}", "xai- pplx-": "[A-Za-z0-9]{48,90}", "r8_": "[A-Za-z0-9]{37}", "tvly-": r"[\w-]{28,60}",
    "lsv2_pt_ lsv2_sk_": "[0-9a-f]{32}_[0-9a-f]{10}", "ATATT3": r"[\w=-]{100,250}", "ATBB": "[A-Za-z0-9]{32}",
    "HRKU-": r"[\w-]{36,80}", "NRAK-": "[A-Z0-9]{27}", "pscale_tkn_ pscale_pw_ pscale_oauth_": r"[\w.-]{32,64}",
    "sb_secret_": r"[\w-]{22,48}", "PMAK-": "[0-9a-f]{24}-[0-9a-f]{34}", "AGE-SECRET-KEY-1": "[0-9A-Z]{58}",
    "tskey-": r"[a-z]{3,8}-[A-Za-z0-9]{8,24}-[A-Za-z0-9]{20,48}", "nfp_ nfc_ nfo_": "[A-Za-z0-9]{36,40}",
    "sq0csp- sq0atp-": r"[\w-]{22,48}",
}  # fmt: skip
#: Those that begin like many other words are not looked for in lines that a terminal broke.
_COMMON_PREFIXES: Final = {
    "dapi key- SK": "[0-9a-f]{32}", "fw_": "(?=[A-Za-z0-9]{0,23}[0-9])[A-Za-z0-9]{24}", "secret_": "[A-Za-z0-9]{43}",
    "cio": "(?=[A-Za-z0-9]{0,31}[0-9])[A-Za-z0-9]{32}", "pat": r"[A-Za-z0-9]{14}\.[0-9a-f]{64}", "EAAA": r"[\w-]{60}",
    "sdk-": "[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", "re_": "[A-Za-z0-9]{8}_[A-Za-z0-9]{20,32}",
}  # fmt: skip


def _services(prefixes: Mapping[str, str], size: int | None) -> Rule:
    """The tokens that begin with one of these."""
    shapes = "|".join(f"(?:{'|'.join(map(re.escape, names.split()))}){rest}" for names, rest in prefixes.items())
    anchors = tuple(each for names in prefixes for each in names.split())
    return Rule("service_token", anchors, _shape(f"{_BEGINS}(?:{shapes})(?![A-Za-z0-9])"), size=size, token=True)


#: How the number of an account of Discord begins in base64: with its first digit.
_SNOWFLAKES: Final = ("MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT")

# What stands in front of the password: other fields, and perhaps the end of a line behind them.
_FIELD_BEFORE: Final = re.compile(
    rf"(?i:{_OF_CONNECTION})[^\s=]{{1,128}}\s{{1,40}}\Z"
    r"|(?:;[\w ]{2,24}=[^;=\s]{1,80};|[?&][\w.-]{1,40}=[^&=\s]{1,80}&|/\w{1,40}\?)"
    r"[ \t│┃|]{0,40}(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n)[ \t│┃|]{0,40}\Z"
)
_LAST_FIELD: Final = _filled(rf"{_NAMED}([^;&\s\"'()]{{3,128}})")


def _last_of_connection(text: str, at: int) -> Match | None:
    """The password behind another field of a connection string, where a blank or the end of a line stands between."""
    found = _LAST_FIELD(text, at)
    return found if found and _FIELD_BEFORE.search(text[max(0, at - 200) : at]) else None


RULES: tuple[Rule, ...] = (
    Rule("private_key", ("-----begin",), _private_key, size=_ENDS),
    Rule("private_key", ("-----end",), _end_of_private_key),
    Rule("aws_key", ("aws", "secret"), _assigned(_AWS, least=16), needs=_ASSIGNS),
    Rule(
        "aws_key", ("aws", "secret"), _shape(rf"(?i:{_AWS})\W{{1,8}}([A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+])", 1), size=_ENDS,
    ),
    Rule(  # an id and its secret, side by side
        "aws_key", ("AKIA", "ASIA"),
        _shape(
            r"A[KS]IA[A-Z0-9]{16}[^A-Za-z0-9]{1,12}(?:[A-Za-z_ ]{2,30}[^A-Za-z0-9/+]{1,8})?"
            r"((?=[a-z0-9/+]*[A-Z])(?=[A-Z0-9/+]*[a-z])(?=[A-Za-z/+]*\d)[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])", 1,
        ),
        size=_ENDS, token=True,
    ),
    Rule(
        "api_key", ("api", "access", "secret", "client"), _assigned(_API, least=6),
        key=re.compile(rf"(?i)[\w.-]{{0,40}}{_API}[\w.-]{{0,20}}"), needs=_ASSIGNS, size=_WIDE,
    ),
    Rule(
        "bearer_token", ("bearer",),
        _shape(_BEARER + r"(?P<v>(?=[A-Za-z._~+/=-]{0,400}+\d|[\w.~+/=-]{24})[\w.~+/=-]{8,4096})", 1), size=0,
    ),
    Rule(
        "bearer_token", ("token",), _assigned(_PAGES + r"token(?!s|i[sz]|\.[a-z])", least=12, quoted_word=False),
        key=re.compile(rf"(?i)(?:[\w.-]{{0,40}}[_-])?{_PAGES}token|[a-z]{{1,20}}{_PAGES}Token|authorization"), needs=_ASSIGNS,
        size=_WIDE,
    ),
    Rule("bearer_token", ("token", "api"), _IN_HEADER, size=_WIDE, needs=(":",)),
    Rule(
        "password_assignment", ("pass", "pwd", "contrase", "senha", "wachtwoord"),
        _assigned(_PHRASE, least=3, word_value=True), digest=False,
        key=re.compile(rf"(?i)[\w.-]{{0,40}}{_PHRASE}[\w.-]{{0,20}}"), needs=_ASSIGNS,
    ),
    Rule("password_assignment", (), _SAID_ABROAD, digest=False, foreign=_ABROAD),
    Rule("password_assignment", _ABROAD_IN_JSON, _SAID_ABROAD, digest=False, needs=("\\u",)),
    # Without a sign of equality: an option, an item of a list of arguments, a tag, a sentence, SQL.
    Rule("password_assignment", ("pass", "identified by"), _said_password, digest=False),
    # `pass` and `pw` alone are words of many other things.
    Rule("password_assignment", ("pass", "pw"), _assigned(_SHORT_NAME, least=3, word_value=True), digest=False, needs=("=",)),
    Rule("password_assignment", ("pass", "pw"), _assigned(_SHORT_NAME_APART, least=3), digest=False, needs=_ASSIGNS),
    Rule(
        "password_assignment", ("mysql", "mariadb"), _command(r"(?:mysql|mariadb)[\w-]{0,12}", "-p", ""), digest=False,
        needs=("-p",),
    ),
    Rule(
        "password_assignment", ("mongo", "rdesktop", "7z", "evil-winrm", "crackmapexec", "netexec"),
        _command(r"mongo[a-z]{0,8}|rdesktop|7z[az]?|evil-winrm|crackmapexec|netexec", "-p"), digest=False, needs=("-p",),
    ),
    Rule("password_assignment", ("redis-cli",), _command("redis-cli", "-a"), digest=False),
    Rule("password_assignment", ("sqlcmd", "zip"), _command("sqlcmd|zip", "-P"), digest=False, needs=("-P",)),
    Rule("password_assignment", ("ldap",), _command(r"ldap(?:search|modify|add|delete|passwd|whoami)", "-w"), digest=False),
    Rule(
        "password_assignment", ("pscp", "plink", "psftp"), _command("pscp|plink|psftp", "-pw", _GAP), digest=False,
        needs=("-p",),
    ),
    Rule("password_assignment", ("login",), _LOGIN, digest=False, needs=("-p",)),
    Rule("password_assignment", ("curl",), _USER_OF_CURL, digest=False, needs=(":",)),
    Rule("password_assignment", ("smb", "rpcclient"), _USER_OF_SMB, digest=False, needs=("%",)),
    Rule("password_assignment", ("sqlplus",), _ORACLE, digest=False, needs=("/",)),
    Rule("password_assignment", ("exec.py", "dump.py"), _IMPACKET, digest=False, needs=("@",)),
    Rule(
        "password_assignment", ("htpasswd",),
        _filled(r"htpasswd(?: -\w{1,8}){0,4} -\w{0,8}b\w{0,8}(?: -\w{1,8}){0,4} \S{1,200} \S{1,64} [\"']?([^\s\"'\\]{3,128})"),
        digest=False,
    ),
    Rule("password_assignment", ("chpasswd",), _before(rf"[\w.-]{{1,32}}:([^\s\"'|\\]{{3,128}}){_PIPED}", 200), digest=False),
    Rule(
        "password_assignment", ("sudo -S",), _before(rf"echo(?: -\w)? {_OPENED}([^\s\"'|\\]{{3,128}}){_PIPED}", 200),
        digest=False,
    ),
    Rule("password_assignment", ("password",), _NETRC, digest=False),
    Rule("password_assignment", (":5432:", ":5433:", ":6432:", ":*:"), _PGPASS, digest=False),
    # Of a connection string: there it has an end, or else the end of the line may be one.
    Rule(
        "password_assignment", _PASSWORDS, _filled(rf"(?<=[;?&]){_NAMED}([^;&\s\"']{{3,128}})(?=[;&])"), digest=False,
        needs=(";", "?", "&"), size=_ENDS,
    ),
    Rule(
        "password_assignment", _PASSWORDS, _filled(rf"(?<=[;?&]){_NAMED}([^;&\s\"']{{3,128}})"), digest=False,
        needs=(";", "?", "&"), size=_LAST,
    ),
    Rule("password_assignment", _PASSWORDS, _last_of_connection, digest=False, size=_LAST),
    Rule(
        "password_assignment", _PASSWORDS,
        _filled(rf"(?:(?<=\s)|(?<=\\n)){_NAMED}([\"']?[^;\s\"']{{3,128}}[\"']?)(?=[\s│┃|]{{1,40}}{_OF_CONNECTION})"),
        digest=False, size=_ENDS,
    ),
    Rule("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _shape(r"gh[pousr]_[A-Za-z0-9]{30,255}"), size=40, token=True),
    Rule("github_token", ("github_pat_",), _shape(r"github_pat_\w{22,255}"), size=93, token=True),
    Rule("gitlab_token", _GITLAB, _shape(r"gl[a-z]{2,6}-[\w-]{20,255}(?:\.[\w-]{2,40}){0,3}"), size=26, token=True),
    Rule(
        "aws_key", ("AKIA", "ASIA", "ABIA", "ACCA"), _shape(r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
        size=20, token=True,
    ),
    Rule(
        "slack_token", ("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
        _shape(r"(?:xox[abeoprs]|xapp)-(?!(?:your|my|some|slack|bot|xxx)-)[A-Za-z0-9-]{10,255}"), size=0, token=True,
    ),
    Rule(
        "slack_token", ("hooks.slack.com",),
        _shape(r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/+-]{20,255})", 1), size=0, token=True,
    ),
    Rule("google_key", ("AIza",), _shape(r"AIza[\w-]{35}"), size=39, token=True),
    Rule("google_key", ("ya29.",), _shape(r"ya29\.[\w-]{20,2048}"), size=0, token=True),
    Rule("google_key", ("GOCSPX-",), _shape(r"GOCSPX-[\w-]{20,60}"), size=35, token=True),
    Rule("anthropic_key", ("sk-ant-",), _shape(r"sk-ant-[\w-]{20,255}"), size=108, token=True),
    Rule(
        "openai_key", ("sk-",),
        _shape(r"(?<![A-Za-z0-9])sk-(?!ant-)(?:proj-|svcacct-|admin-|or-v1-)?(?=[\w-]{0,60}\d)[\w-]{20,255}"),
        size=164, token=True,
    ),
    Rule("stripe_key", ("sk_", "rk_", "whsec_"), _shape(r"(?:[sr]k_(?:live|test)|whsec)_\w{16,255}"), size=0, token=True),
    Rule("npm_token", ("npm_",), _shape(r"npm_[A-Za-z0-9]{36}"), size=40, token=True),
    Rule("pypi_token", ("pypi-",), _shape(r"pypi-AgE[\w-]{50,1024}"), size=0, token=True),
    Rule("huggingface_token", ("hf_",), _shape(r"hf_[A-Za-z]{30,50}(?!\w)|hf_[A-Za-z0-9]{30,50}(?!\w)"), size=37, token=True),
    Rule("sendgrid_key", ("SG.",), _shape(r"SG\.[\w-]{16,32}\.[\w-]{30,64}"), size=69, token=True),
    _services(_PREFIXES, 0),
    _services(_COMMON_PREFIXES, None),
    Rule("service_token", ("Q~",), _around(r"[\w.~-]{3}\d", r"Q~[\w.~-]{31,34}(?![\w~-])", 4), size=40),
    Rule("service_token", ("JQQJ99",), _around(r"[A-Za-z0-9]{52}", r"JQQJ99[A-Za-z0-9]{16,40}", 52), size=84),
    Rule("service_token", ("-us",), _around(r"[0-9a-f]{32}", r"-us\d{1,2}(?![\w-])", 32), token=True),
    Rule("service_token", (".atlasv1.",), _around(r"[A-Za-z0-9]{14}", r"\.atlasv1\.[\w-]{60,80}", 14), size=0, token=True),
    Rule("google_key", ("1//0",), _shape(_BEGINS + r"1//0[\w-]{38,200}"), size=0),
    Rule("telegram_token", (":AA",), _around(r"(?:bot)?\d{8,10}", r":AA[\w-]{32,34}(?![\w-])", 13), size=46),
    Rule(
        "discord_token", _SNOWFLAKES, _shape(_BEGINS + r"[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,45}(?![\w-])"),
        token=True, needs=(".",),
    ),
    Rule("discord_token", ("/api/webhooks/",), _shape(r"(?i:/api/webhooks/)\d{17,20}/([\w-]{60,80})", 1), size=0),
    Rule("jwt", ("eyJ",), _shape(r"eyJ[\w-]{8,400}+\.eyJ[\w-]{8,8192}+\.[\w-]{8,4096}"), size=0, token=True),
    Rule(
        "url_credentials", ("://",),
        _shape(
            r"://[^\s/:@\"'`<>\\]{0,256}:"
            r"([^\s/?#\"'`<>\\]{1,256}|(?!\d{1,5}[/?#])[^\s\"'`<>\\]{1,256}?)@[\w\[]", 1,
        ),
        digest=False, needs=("@",), size=_ENDS,
    ),
    Rule(
        "connection_string", ("accountkey=", "sharedaccesskey=", "sharedsecret=", "sig="),
        _shape(r"(?i:accountkey|sharedaccesskey|sharedsecret|sig)=([\w+/=%-]{16,512})", 1), needs=("=",), size=0,
    ),
    Rule("basic_auth", ("basic ",),
        _shape(r"(?i:basic) ((?=[A-Za-z+/=]{0,200}\d|[\w+/]{0,200}=)[A-Za-z0-9+/]{8,1024}={0,2})(?![\w.])", 1),
        digest=False),
    Rule(
        "basic_auth", ("-u ", "--user "),
        _shape(r"--?u(?:ser)? {1,3}\\{0,4}[\"']?[\w.@+-]{1,64}:(?!\d{1,9}\b|\[redacted:|//)([^\s\"'\\]{3,256})", 1),
        digest=False, needs=(":",),
        size=_WIDE,
    ),
    Rule(
        "env_assignment", ("KEY", "TOKEN", "SECRET", "PASSW", "_PASS", "CREDENTIAL", "DSN"),
        _assigned(_UPPER, least=6, quoted_word=False),
        needs=_ASSIGNS,
        size=_WIDE,
    ),
)  # fmt: skip
CATALOGUE: Final = tuple(dict.fromkeys(rule.kind for rule in RULES))


def placeholder(kind: str, secret: str, *, digest: bool = True) -> str:
    """Placeholder of a secret. The digest lets equal secrets be recognised; passwords have none, they could be guessed."""
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
        #: Where somebody collects what was found, it is noted here.
        self.seen: set[str] | None = None
        #: Keys and names of tools are the same in most messages.
        self.key, self.name = lru_cache(2048)(self.text), lru_cache(2048)(self._name)
        self.identity = lru_cache(2048)(self._identity)
        # Where two rules find the same, the first one names it: a shape says more than a name does.
        self._in_order = sorted(self._rules, key=lambda rule: rule.needs == _ASSIGNS)
        self._breakable = [rule for rule in self._in_order if rule.size not in (None, _WIDE)]
        self._anchors = _Anchors(self._rules)

    def kind_in(self, text: str) -> str:
        """Kind of a secret that stands in the text as it is, "" for none. Quick; secrets that are encoded are passed over."""
        return next((rule.kind for _, _, rule in _Literals(text, self._anchors).found(self._in_order)), "")

    def text(self, text: str) -> str:
        """The text without its secrets; the same object when it has none."""
        return self._text(text, _DEPTH)

    def _name(self, text: str) -> str:
        """A name or an id without its secrets: what stands for them is made of characters that every provider takes in one."""
        clean = self.text(text)
        return text if clean == text else _PLACEHOLDER.sub(lambda found: f"{NAMELESS}{found[2] or found[1]}", clean)

    def _identity(self, text: str) -> str:
        """An id without its secrets that is no other id's: behind a password, which has no digest, one that is slow to guess."""
        clean = self.text(text)
        if clean == text or all(found[2] for found in _PLACEHOLDER.finditer(clean)):
            return clean
        return (
            f"{clean}#{hashlib.pbkdf2_hmac('sha256', text.encode('utf-8', 'surrogatepass'), _SALT, _ROUNDS).hex()[:12]}"
        )

    def _text(self, text: str, depth: int) -> str:
        clean = _replaced(text, self._edits(text))
        return self._decoded(clean, depth - 1) if depth and len(clean) >= _WORD else clean

    def _edits(self, text: str) -> list[Edit]:
        """Placeholders for the secrets of a text, in order; none overlaps another."""
        known: dict[tuple[str, str], str] = {}  # the same secret often stands in a text more than once
        out: list[Edit] = []
        literals = _Literals(text, self._anchors)
        for start, stop, rule in [*literals.found(self._in_order), *self._elsewhere(literals)]:
            secret = text[start:stop]
            new = known.get((rule.kind, secret))
            if self.seen is not None:
                self.seen.add(secret)
            if new is None:
                new = known[rule.kind, secret] = placeholder(rule.kind, secret, digest=rule.digest)
            out.append((start, stop, new))
        return _merged(out)

    def _elsewhere(self, literals: _Literals) -> Iterator[tuple[int, int, Rule]]:
        """Secrets that are there only when escapes are undone, or lines that a terminal broke are joined."""
        if escapes := sorted(_escapes(literals.text)):
            plain = _View(literals.text, escapes)
            for start, stop, rule in _Literals(plain.text, self._anchors).found(self._in_order):
                yield *plain.span(start, stop), rule
        breaks = _breaks(literals.text)
        if breaks and (rules := literals.across(breaks, self._breakable)):
            joined = _View(literals.text, breaks)
            for start, stop, rule in _Literals(joined.text, _Anchors(rules)).found(rules):
                end = joined.continued(start, stop, rule)
                if end > start:
                    yield *joined.span(start, end), rule

    def _decoded(self, text: str, depth: int) -> str:
        """The text without the secrets in what its base64 words say."""
        edits: list[Edit] = []
        for start, stop in _words(_one_byte(text)):
            said = _said(text[start:stop])
            clean = self._text(said, depth) if said is not None else None
            if said is not None and clean is not None and clean != said:
                data = clean.encode()
                # Filled up with blanks: signs of equality behind letters would be looked at as an assignment the next time.
                edits.append((start, stop, base64.b64encode(data + b" " * (-len(data) % 3)).decode()))
        return _replaced(text, edits)

    def value(self, key: str, text: str) -> str:
        """The value of a JSON key: the whole of it when the key names a secret."""
        if len(key) <= 80 and text:
            for rule in self._rules:
                if rule.key and rule.key.fullmatch(key) and not _OF_ANOTHER.search(key) and _is_value(text):
                    if self.seen is not None:
                        self.seen.add(text)
                    return placeholder(rule.kind, text, digest=rule.digest)
        return self.text(text)

    def pieces(self, texts: Sequence[str]) -> list[str]:
        """Texts that follow each other (streamed parts): a secret may begin in one and end in a later one."""
        out = list(texts)
        if len(out) > 1:
            out = _split(out, self._edits("".join(out)))
        return [self.text(text) for text in out]


# What says a character in another way: percent-encoding, escapes of JSON, entities; and what nobody sees: colours, signs without
# width. Each pattern begins with one literal character: that is what the standard library looks for fastest.
_UNSEEN: Final = "\xad\u200b\u200c\u200d\u2060\ufeff"
_COLOUR: Final = r"\[[0-9;]{0,20}[A-Za-z]"
_ESCAPES: Final = tuple(
    (sign, re.compile(pattern))
    for sign, pattern in (
        ("%", r"%(?:25)?(0[9AaDd]|[2-7][0-9A-Fa-f])"),
        ("\\", rf"\\(?:\\{{0,7}}(?:u00([2-7][0-9A-Fa-f])|x([2-7][0-9A-Fa-f])|(/)|(?:u001[bB]|x1[bB]|033|e){_COLOUR}))"),
        ("\x1b", rf"\x1b{_COLOUR}"),
        *((sign, sign) for sign in f"\0{_UNSEEN}"),
    )
)
# Lines of mails ("quoted-printable"), and letters of another style or width, of which some stand side by side.
_PRINTABLE: Final = re.compile(r"=(?:\r?\n|([2-7][0-9A-F]))")
_PRINTABLE_SIGNS: Final = ("=3D", "=20\n")
_STYLED: Final = re.compile("[\uff01-\uff5e\U0001d400-\U0001d7ff](?:[!-~]?[\uff01-\uff5e\U0001d400-\U0001d7ff]){5,}")
_ENTITY: Final = re.compile(r"&(?:#\d{2,6}|#[xX][0-9a-fA-F]{2,5}|[A-Za-z]{2,9});")
# Ends of lines within a token, as such or escaped, with what indents, borders and numbers the next one; strings put together.
_BEGIN = r"(?=[\"'`\\]*[\w./+=~@:-])"
_NEXT_LINE = r"[ \t]{0,40}+(?:(?:[│┃║|>]|\d{1,6}(?:[ \t]{0,8}[:→│┃║|]|\t|\\{1,8}t))[ \t]{0,40}+)?" + _BEGIN
_NEXT_STRING = r"[ \t]{0,8}(?:(?:\r?\n|\\{1,8}n)[ \t]{0,40})?(?=\\{0,8}[\"'`])" + _BEGIN
_BORDER: Final = " \t│┃║|"
_BREAKS: Final = (
    ("\n", re.compile(rf"\n{_NEXT_LINE}"), _BORDER + "\r\\"),
    ("\\", re.compile(rf"\\(?:\\{{0,7}}(?:r\\{{1,8}})?n|\r?\n){_NEXT_LINE}"), _BORDER),
    *((sign, re.compile(rf"\{sign}{_NEXT_STRING}"), " \t\r\n") for sign in "+.&"),
)
_LINE_END: Final = re.compile(r"\r?\n|(?:\\{1,8}r)?\\{1,8}n")
_NEXT_PART: Final = re.compile(
    r"[ \t│┃║|]{0,40}(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n)[ \t│┃║|]{0,40}([\w./+~@-]{1,4096}={0,2})(?!\w)"
)
_NEAR: Final = 600  # characters in which the lines around a broken one are looked at
_QUOTES: Final = "\\\"'`"
_QUOTE: Final = re.compile(r"\\{0,8}[\"'`]")
_AT_QUOTE: Final = re.compile(r"\\{0,8}[\"'`]\Z")
_IN_BREAK: Final = "_./+=~:@-!$#%^&*?"
_ODD: Final = re.compile(r"\d|[a-z][A-Za-z]*[A-Z]|[A-Z]{2}[A-Z]*[a-z]")


def _escapes(text: str) -> Iterator[Edit]:
    """Escapes, and the character that each stands for; "" of what nobody sees."""
    for sign, pattern in _ESCAPES:
        for found in pattern.finditer(text) if sign in text else ():
            code = "".join(filter(None, found.groups()))
            yield found.start(), found.end(), code if code in ("", "/") else chr(int(code, 16))
    for found in _PRINTABLE.finditer(text) if "=" in text and any(sign in text for sign in _PRINTABLE_SIGNS) else ():
        yield found.start(), found.end(), chr(int(found[1], 16)) if found[1] else ""
    for found in _STYLED.finditer(text) if not text.isascii() else ():
        for at in range(*found.span()):
            said = unicodedata.normalize("NFKC", text[at])
            if len(said) == 1 and said.isascii():
                yield at, at + 1, said
    for found in _ENTITY.finditer(text) if "&" in text else ():
        said = html.unescape(found[0])
        if len(said) == 1 and (said.isascii() or said in _UNSEEN):
            yield found.start(), found.end(), said if said.isascii() else ""


def _breaks(text: str) -> list[Edit]:
    """Ends of lines within words, with the borders around them, and strings that are put together of two."""
    out: list[Edit] = []
    for sign, pattern, borders in _BREAKS:
        for found in pattern.finditer(text) if sign in text else ():
            start, stop = found.span()
            before, behind = text[start - 1 : start], text[stop]
            if before in borders or before in _QUOTES:
                out += _break(text, start, stop, borders)
            elif behind not in _QUOTES and (before in _IN_BREAK or before.isalnum()):
                out.append((start, stop, ""))
    out.sort()
    return [each for n, each in enumerate(out) if not n or each[0] >= out[n - 1][1]]


def _break(text: str, start: int, stop: int, borders: str) -> Iterator[Edit]:
    """A break at a place, as far as it reaches over borders and quotes; none where no word goes over it."""
    line = text[max(0, start - _NEAR) : start]
    start -= len(line) - len(line.rstrip(borders))
    begins, ends = _QUOTE.match(text, stop), _AT_QUOTE.search(text, max(0, start - 9), start)
    if (begins is None) == (ends is None):
        start, stop = (ends.start(), begins.end()) if begins and ends else (start, stop)
        before = text[start - 1 : start]
        if before and (before in _IN_BREAK or before.isalnum()):
            yield start, stop, ""


def _wraps(text: str, before: int, behind: int, end: int) -> int:
    """Columns of a line that a terminal's width broke between two places, in a word up to ``end``; 0 where it did not: a line
    near is longer, or what follows is another name."""
    near = text[max(0, before - _NEAR) : before], text[behind : behind + _NEAR]
    lines = [line.strip(_BORDER) for line in (*_LINE_END.split(near[0])[-3:], *_LINE_END.split(near[1])[:2])]
    broken = len(_LINE_END.split(near[0])[-1].strip(_BORDER))
    return broken if broken == max(map(len, lines)) and text[end : end + 1] not in ("=", ":", "(") else 0


def _beyond(text: str, stop: int) -> int:
    """End of a value of ``_WIDE`` that goes on behind the end of its line."""
    while found := _NEXT_PART.match(text, stop):
        if not _ODD.search(found[1]) or _wraps(text, stop, found.start(1), found.end()) < _TERMINAL:
            break
        stop = found.end()
    return stop


class _View:
    """A text with some of its stretches as one other character each, or as none, and the way back."""

    def __init__(self, text: str, changes: Iterable[Edit]) -> None:
        parts: list[str] = []
        # Runs of the view: where each begins here and there, and how wide its one character is there (0: as wide as here).
        self._here, self._there, self._width = [0], [0], [0]
        self._changes: list[int] = []
        here = there = 0
        for start, stop, new in changes:
            parts += [text[there:start], new]
            here += start - there
            self._changes.append(here)
            if new:
                self._run(here, start, stop - start)
            here, there = here + len(new), stop
            self._run(here, there, 0)
        self.text, self._source = "".join([*parts, text[there:]]), text

    def _run(self, here: int, there: int, width: int) -> None:
        self._here.append(here)
        self._there.append(there)
        self._width.append(width)

    def span(self, start: int, stop: int) -> Match:
        """Place of a stretch in the text itself."""
        first, last = bisect_right(self._here, start) - 1, bisect_right(self._here, stop - 1) - 1
        begin = self._there[first] + (0 if self._width[first] else start - self._here[first])
        return begin, self._there[last] + (self._width[last] or stop - self._here[last])

    def _wraps(self, at: int, stop: int) -> bool:
        """Was a line broken here by a terminal's width, and does its word end at ``stop``?"""
        _, before = self.span(at - 1, at)
        behind, _ = self.span(at, at + 1)
        _, end = self.span(stop - 1, stop)
        return _wraps(self._source, before, behind, end) > 0

    def continued(self, start: int, stop: int, rule: Rule) -> int:
        """End of a secret that goes over the ends of lines; ``start`` if it does not go over one.

        The next line's first word is a part of it if it is as odd as one, or makes it as long as its kind is.
        """
        end, size = start, rule.size or 0
        if size == _ENDS:
            return stop
        ends = self._changes[bisect_right(self._changes, start) : bisect_right(self._changes, stop - 1)]
        if not ends:  # what was broken stands before it
            return stop
        for at, following in pairwise([*ends, stop]):
            if 0 < size <= at - start:
                break
            whole = following - start == size or _ODD.search(self.text, at, following)
            if not whole and not (size == _LAST and self._wraps(at, following)):
                return start + size if size > 0 and following - start > size else end
            end = following
        return end


def _is_placeholder(text: str, at: int) -> bool:
    """Does this stand in a placeholder of ours?"""
    begin = text.rfind(_DONE, max(0, at - 60), at)
    return begin >= 0 and text.find("]", begin, at) < 0


def _one_byte(text: str) -> bytes:
    """The text with one byte a character; what is not ASCII becomes a question mark."""
    return text.encode("ascii", "replace")


class _Anchors:
    """The literals of some rules, by where each is looked for: in any case, as written, in long words."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        wants: dict[str, tuple[str, ...]] = {}  # signs of which one must be there, or () where no rule needs one
        for rule in rules:
            for each in rule.anchors:
                known = wants.get(each)
                wants[each] = rule.needs if known is None else known + rule.needs if known and rule.needs else ()
        tokens = {each for rule in rules if rule.token for each in rule.anchors}
        others = {each for rule in rules if not rule.token for each in rule.anchors}
        self._anyhow = _shorter_first({each for each in others if each == each.lower()})
        self._exact = _shorter_first({each for each in others if each != each.lower()})
        self._tokens = _shorter_first(tokens)
        #: Literals by the signs of which each needs one.
        self._needing = [
            (needs, frozenset(each for each, of in wants.items() if of == needs))
            for needs in dict.fromkeys(filter(None, wants.values()))
        ]

    def among(self, raw: bytes, low: bytes, words: bytes, has: Callable[[str], bool]) -> set[str]:
        """Those that stand in a text. ``words``: its long words; ``has``: does a sign stand in the text in question?"""
        useless = set[str]().union(*(names for needs, names in self._needing if not any(map(has, needs))))
        return (
            _found(low, self._anyhow, useless)
            | _found(raw, self._exact, useless)
            | _found(words, self._tokens, useless)
        )


def _found(raw: bytes, literals: Iterable[_Literal], useless: Set[str]) -> set[str]:
    """The literals that stand in a text, but for useless ones."""
    out: set[str] = set()
    absent: set[str] = set()
    for literal, name, within in literals:
        if name in useless:
            continue
        if absent.isdisjoint(within) and literal in raw:
            out.add(name)
        else:
            absent.add(name)
    return out


#: A literal as bytes and as a text, and those that are a part of it: where one of these is not, it is not either.
_Literal = tuple[bytes, str, frozenset[str]]
_PARTS: Final = ("_", "-", ".", "-----", "32:", "pass", "pw", "sql")


def _shorter_first(literals: Set[str]) -> list[_Literal]:
    """Literals, and parts that several of them share, so that each is looked for behind its parts."""
    parts = {part for part in _PARTS if sum(part in each for each in literals) > 1}
    every = sorted(literals | parts, key=lambda one: (len(one), one))
    return [
        (one.encode("ascii"), one, frozenset(each for each in every if each != one and each in one)) for one in every
    ]


class _LongWords:
    """The long words of a text, and where each stands in it; a short text is taken as it is."""

    def __init__(self, raw: bytes) -> None:
        runs = list(_runs(raw, _IN_LONG, _LONG)) if len(raw) > _SHORT else [(0, len(raw))]
        self.raw = b" ".join([raw[start:stop] for start, stop in runs])
        self._there = [start for start, _ in runs]
        self._here = list(accumulate((stop - start + 1 for start, stop in runs), initial=0))

    def places(self, literal: bytes) -> Iterator[int]:
        """Everywhere a literal stands in them, as places of the text."""
        for at in _places(self.raw, literal):
            word = bisect_right(self._here, at) - 1
            yield self._there[word] + at - self._here[word]


class _Literals:
    """A text with the literals that stand in it: they decide which rules can match at all."""

    def __init__(self, text: str, anchors: _Anchors) -> None:
        self.text, self._anchors = text, anchors
        self._raw = _one_byte(text)
        self._low = self._raw.lower()
        self._signs: dict[str, bool] = {}
        self._words = _LongWords(self._raw)
        self._present = anchors.among(self._raw, self._low, self._words.raw, self._has)

    def _has(self, sign: str) -> bool:
        if sign not in self._signs:
            self._signs[sign] = sign in self.text
        return self._signs[sign]

    def _likely(self, rules: Iterable[Rule], present: Set[str]) -> list[Rule]:
        return [
            rule
            for rule in rules
            if not present.isdisjoint(rule.anchors + rule.foreign)
            and (not rule.needs or any(map(self._has, rule.needs)))
        ]

    def found(self, rules: Sequence[Rule]) -> Iterator[tuple[int, int, Rule]]:
        """(start, stop, rule) of every secret; they may overlap."""
        text, clean = self.text, _DONE not in self.text
        present = self._present if text.isascii() else self._present.union(*(each.foreign for each in rules))
        for rule in self._likely(rules, present) if present else ():
            for anchor in present.intersection(rule.anchors + rule.foreign):
                done = 0
                for at in self._places(rule, anchor):
                    match = rule.find(text, at) if at >= done else None
                    if match:
                        done = match[1]
                        if clean or not (_is_placeholder(text, at) or _is_placeholder(text, match[0])):
                            yield match[0], _beyond(text, match[1]) if rule.size == _WIDE else match[1], rule

    def _places(self, rule: Rule, anchor: str) -> Iterator[int]:
        if not anchor.isascii():
            return _places(self.text, anchor)
        literal = anchor.encode("ascii")
        if rule.token:
            return self._words.places(literal)
        return _places(self._low if anchor == anchor.lower() else self._raw, literal)

    def across(self, breaks: Sequence[Edit], rules: Sequence[Rule]) -> list[Rule]:
        """The rules of which a literal stands in the text, or would, were it not for the breaks."""
        edges = b" ".join(
            [self._raw[max(0, at - _ANCHOR) : at] + self._raw[end : end + _ANCHOR] for at, end, _ in breaks]
        )
        return self._likely(
            rules, self._present | self._anchors.among(edges, edges.lower(), _LongWords(edges).raw, self._has)
        )


def _places(raw: AnyStr, literal: AnyStr) -> Iterator[int]:
    """Everywhere a literal stands."""
    at = raw.find(literal)
    while at >= 0:
        yield at
        at = raw.find(literal, at + 1)


def _runs(raw: bytes, of: bytes, least: int) -> Iterator[Match]:
    """Runs of at least so many characters of a kind (``of``: a table that makes each of them a 1, any other a blank)."""
    kinds, run = raw.translate(of), b"1" * least
    at = kinds.find(run)
    while at >= 0:
        stop = kinds.find(b" ", at + least)
        stop = stop if stop >= 0 else len(kinds)
        yield at, stop
        at = kinds.find(run, stop)


def _words(raw: bytes) -> Iterator[Match]:
    """Runs of at least ``_WORD`` characters of base64 that may say text, with the signs that fill them up."""
    for at, stop in _runs(raw, _IN_WORD, _WORD):
        if raw[at] in _FIRST and _SAYS.match(raw, at):
            filled = 2 if raw.startswith(b"==", stop) else 1 if raw.startswith(b"=", stop) else 0
            yield at, stop + filled


def _said(word: str) -> str | None:
    """Text of a base64 word, if it is text."""
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


# -- the log of the plugin -------------------------------------------------------------------------------
# One logger for all homes of a process: once redaction is on in one of them, it is on for the log.
LOGGER: Final = "hermes_lcm"
_UNSAID: Final = "a record of the log could not be made free of secrets and is left out"
#: What a text may raise that is put together of anything: another number of arguments, an odd object, endless nesting.
_UNREADABLE: Final = (TypeError, ValueError, LookupError, AttributeError, RuntimeError)


class Clean(logging.Filter):
    """Takes secrets out of messages and tracebacks."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self.redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record passes, reworded where it must be."""
        try:
            said = self.redactor.text(record.getMessage())
            trace = (
                self.redactor.text(logging.Formatter().formatException(record.exc_info)) if record.exc_info else None
            )
        except _UNREADABLE as exc:  # a filter that raises would end the turn that logs; what is not clean is not shown
            said, trace, record.exc_info = f"{_UNSAID} ({type(exc).__name__})", None, None
        record.msg, record.args = said, ()
        record.exc_text = trace or record.exc_text
        return True


def keep_clean(redactor: Redactor) -> None:
    """From now on; a second call replaces what the first asked for."""
    logger = logging.getLogger(LOGGER)
    for each in list(logger.filters):
        if type(each).__name__ == Clean.__name__:  # of this module, or of another copy of the plugin in this process
            logger.removeFilter(each)
    logger.addFilter(Clean(redactor))
