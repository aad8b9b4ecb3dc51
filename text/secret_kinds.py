"""
Kinds of secrets: for each its literals, and the pattern that is tried where one of them stands.

Pure and linear: every try is bounded. A new kind is a row in ``RULES``. How a text is searched is the business of ``redact``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

DEFAULT: Final = ("api_key", "bearer_token", "password_assignment", "private_key", "aws_key", "github_token")
LINE_END: Final = re.compile(r"\r?\n|(?:\\{1,8}r)?\\{1,8}n")
#: How every placeholder begins.
REDACTED: Final = "[redacted:"

# Python before 3.11.5 matches wrongly where a group that may backtrack is repeated possessively: ``(?:a{1,8}b)++``.
# Signs between a name and its value, and the value: quoted (at any depth of escaping) or not.
_END = r"(?P<tail>[\w.-]{0,40}+)(?:\\{0,8}+[\"']\]?)?\s{0,8}+(?::=|=>|[=:](?!=)|%3[dDaA]"
_END += r"|(?:[\s,]|\\{1,8}n){0,40}+\\{0,8}[\"']?value\\{0,8}[\"']?\s{0,4}:)\s{0,8}+(?:[|>][+-]?\s{1,20}+)?"
_QUOTED = r"(?P<bs>\\{0,8}+)(?P<q>[\"'`])(?P<quoted>(?:(?!(?<!\\)(?P=bs)(?P=q))[^\r\n]){1,4096})"
_BARE = r"(?P<bare>[^\s\"'`,;&<>(){}\[\]\\%|]{LEAST,4096}+)(?P<after>[\s\S]?)"

Match = tuple[int, int]


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
    token: bool = False  # each literal begins, exactly as written, a word of ``LONG`` characters at least
    #: How long one is, where it may go on behind the end of a line (0: nobody knows, ``ENDS``: its form says where it ends,
    #: ``LAST``: a word like any other, that goes on where the width of a terminal broke the line; ``WIDE``: it goes on there
    #: where the next word is as odd as it, too).
    size: int | None = None
    #: Literals in other letters, looked for where a text has any.
    foreign: tuple[str, ...] = ()


ENDS: Final = -1
LAST: Final = -2
WIDE: Final = -3
LONG: Final = 15
#: What every match of ``_assigned`` has one of.
ASSIGNS = ("=", ":", "%")


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
        if found is None or OF_ANOTHER.search(found["tail"]):
            return None
        if (quoted := found["quoted"]) is not None:
            said = (
                len(quoted) >= (min(least, 3) if quoted_word else 6)
                and not _CLOSED.match(quoted)
                and is_value(quoted)
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
OF_ANOTHER = re.compile(
    r"(?i)(?:error|message|msg|label|text|textcontent|hint|placeholder|title|help|prompt|prefix|pattern|regex|length|policy|field|"
    r"input|url|path|file|name|endpoint|header|limit|budget|count|type|usage)s?$"
    r"|(?:(?:^|[_.-])(?:ids?|at|on|date|time|ttl|size|age)|(?-i:(?:Id|At|On|Date|Time|TTL|Size)))$"
)
# Behind a quote that ends a string: code. `"Token: " + value`, `input("Password: ", hidden)`.
_CLOSED = re.compile(r"\s+[-+,.%&|<>)\]}?:]|[,;]\s|[)\]}]+(?:[\s,;.)\]}]|\\{1,8}n|$)")
# The path of a file.
_PATH = re.compile(
    r"(?:/(?:home|root|usr|etc|var|opt|run|tmp|mnt|srv|app|data|dev|proc|sys|Users|Volumes|private|secrets|workspace)|~|\.\.?)/"
    r"|[A-Za-z]:\\"
)
# A command that makes or shows a secret, and the pattern of one.
_MAKES = re.compile(r"(?:hermes lcm|openssl rand|kubectl get) [a-z-]|\[[^\]\s]{1,60}\]\{\d{1,4}(?:,\d{0,4})?\}\Z")
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
_NAME = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+|_*[a-z]+(?:_[a-z]+)+|_*[A-Z]+(?:_[A-Z]+)+")


def is_value(text: str) -> bool:
    """Is this something that was filled in?"""
    text = text.strip()
    if not any(map(str.isalnum, text)) or REDACTED in text or text[:2] in ("${", "{{", "<%", "$("):
        return False
    if not any(map(str.isalnum, _FORMAT.sub("", text))) or (text[0], text[-1]) == ("<", ">"):
        return False
    if _PATH.match(text) or _MAKES.match(text):
        return False
    example = len(text) <= _EXAMPLE_CHARS and (_EXAMPLE.fullmatch(text) or _YOURS.match(text))
    return not (example or _EMPTY.fullmatch(text) or _VARIABLE.fullmatch(text))


def _plausible(text: str, after: str, word_value: bool) -> bool:
    """Is an unquoted word a secret rather than code or prose?"""
    if (
        not is_value(text)
        or text[0] in "$<*"
        or _CODE.match(text)
        or after in ("(", "[")
        or _NAME.fullmatch(text.rstrip(".:,"))
    ):
        return False
    return _odd_enough(text) or (word_value and after in ("", "\n", "\r", ",", ";", "&", '"', "'", "\\", "}"))


def _odd_enough(text: str) -> bool:
    """Is this no word, and no name of a few words?"""
    return any(map(_tells, text)) or (len(text) >= 20 and not _KEBAB.fullmatch(text))


def _tells(char: str) -> bool:
    """Is this a digit, or a sign that names do not have?"""
    return char.isdigit() or (not char.isalnum() and char not in "._-:/")


def _filled(pattern: str) -> Callable[[str, int], Match | None]:
    """The first group of a shape, where it is something that was filled in."""
    shape = _shape(pattern, 1)

    def find(text: str, at: int) -> Match | None:
        found = shape(text, at)
        return found if found and is_value(text[slice(*found)]) else None

    return find


def _private_key(text: str, at: int) -> Match | None:
    """A PEM block; one that is cut off goes as far as it looks like one."""
    head = _PEM_HEAD.match(text, at)
    if head is None:
        return None
    body = _PEM_BODY.match(text, head.end())
    return (at, body.end()) if body else (at, head.end())


_PEM_HEAD = re.compile(r"-----BEGIN[ +][A-Z0-9 +]{0,40}PRIVATE[ +]KEY(?:[ +]BLOCK)?-----")
# Signs between its lines: borders, numbers, marks of quotations, comments and differences, quotes of strings.
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
    floor = max(0, at - 8000)
    floor = max(floor, text.rfind("-----END", floor, at))  # nothing of another block
    lines = [*LINE_END.finditer(text, floor, at)] if tail else []
    start = at
    for before, behind in pairwise(reversed(lines)):
        if not _PEM_LINE.fullmatch(text, behind.end(), before.start()):
            break
        start = behind.end()
    else:
        if lines and _PEM_LINE.fullmatch(text, floor, lines[0].start()):
            start = floor
    return (start, tail.end()) if tail and start < at else None


_PHRASE = (
    r"(?:password|passwort|passwd|kennwort|passphrase|passcode|passe(?![a-z])|contrase(?:ñ|n)a|senha|wachtwoord"
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
    rf"|(?:\\{{0,4}}[\"'])?\s{{1,8}}value=\\{{0,4}}[\"']([^\"'\\]{{3,128}})\\{{0,4}}[\"'])"
    rf"|(?:(?<=--)(?i:{_PHRASE})|(?<=--)pass){_OPENED}(?:,\s{{0,4}}| {{1,4}}){_OPENED}{_FILLED_IN}"
    rf"|(?<=--)password(?:[= ]|,\s{{0,4}}){_OPENED}([A-Za-z]{{5,128}})(?=\s{{1,4}}-|\\{{0,4}}[\"'])"
    rf"|(?<=ssh)pass -p ?{_OPENED}([^\s\"'\\]{{3,128}})|(?i:identified by|(?<=with )password) \\{{0,4}}['\"]([^'\"\\]{{3,128}})"
)


def _said_password(text: str, at: int) -> Match | None:
    """A password that stands behind its name, with no sign of equality between."""
    found = _SAID_PASSWORD().match(text, at)
    filled = (found.lastindex or 0) if found else 0
    return found.span(filled) if found and is_value(found[filled]) else None


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
_NO_VARIABLE = r"(?<![\"'],)(?<![\"'], )(?!,)"  # of a list in code: `["plink", "-pw", given]`
_OF_COMMAND = r"([^\s\"'`\\|;&<>{$-][^\s\"'`\\|;&<>]{2,127})"
_BLANKS = r"(?:\s|\\{1,8}[rnt]){1,40}"


def _command(programs: str, option: str, gap: str = rf"(?:{_GAP}|=)?") -> Callable[[str, int], Match | None]:
    """The password that an option of some programs is given."""
    return _filled(
        rf"(?i:{programs})(?:\.exe)?{_ARGUMENTS.replace('OPTION', option)}{gap}{_NO_VARIABLE}{_OPENED}{_OF_COMMAND}"
    )


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
        if "|" not in text[max(0, at - 16) : at]:  # the pipe of ``_PIPED``
            return None
        first = max(0, at - chars)
        found = shape().search(text[first:at])
        return (first + found.start(1), first + found.end(1)) if found and is_value(found[1]) else None

    return find


def _around(before: str, pattern: str, chars: int) -> Callable[[str, int], Match | None]:
    """A shape that is known by a literal in its middle; given are the patterns before it and from it on."""
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

# Text in front of the password: other fields, and perhaps the end of a line behind them.
_FIELD_BEFORE: Final = re.compile(
    rf"(?i:{_OF_CONNECTION})[^\s=]{{1,128}}\s{{1,40}}\Z"
    r"|(?:;[\w ]{2,24}=[^;=\s]{1,80};|[?&][\w.-]{1,40}=[^&=\s]{1,80}&|/\w{1,40}\?)"
    r"[ \t│┃|]{0,40}(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n)[ \t│┃|]{0,40}\Z"
)
_LAST_FIELD: Final = _filled(rf"{_NAMED}([^;&\s\"'()]{{3,128}})")


def _last_of_connection(text: str, at: int) -> Match | None:
    """The password behind another field of a connection string, where a blank or the end of a line stands between."""
    if not (text[at - 1 : at].isspace() or text[at - 1 : at] in ("│", "┃", "|") or text.endswith("\\n", 0, at)):
        return None
    found = _LAST_FIELD(text, at)
    return found if found and _FIELD_BEFORE.search(text[max(0, at - 200) : at]) else None


RULES: tuple[Rule, ...] = (
    Rule("private_key", ("-----begin",), _private_key, size=ENDS),
    Rule("private_key", ("-----end",), _end_of_private_key),
    Rule("aws_key", ("aws", "secret"), _assigned(_AWS, least=16), needs=ASSIGNS),
    Rule(
        "aws_key", ("aws", "secret"), _shape(rf"(?i:{_AWS})\W{{1,8}}([A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+])", 1), size=ENDS,
    ),
    Rule(  # an id and its secret, side by side
        "aws_key", ("AKIA", "ASIA"),
        _shape(
            r"A[KS]IA[A-Z0-9]{16}[^A-Za-z0-9]{1,12}(?:[A-Za-z_ ]{2,30}[^A-Za-z0-9/+]{1,8})?"
            r"((?=[a-z0-9/+]*[A-Z])(?=[A-Z0-9/+]*[a-z])(?=[A-Za-z/+]*\d)[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])", 1,
        ),
        size=ENDS, token=True,
    ),
    Rule(
        "api_key", ("api", "access", "secret", "client"), _assigned(_API, least=6),
        key=re.compile(rf"(?i)[\w.-]{{0,40}}{_API}[\w.-]{{0,20}}"), needs=ASSIGNS, size=WIDE,
    ),
    Rule(
        "bearer_token", ("bearer",),
        _shape(_BEARER + r"(?P<v>(?=[A-Za-z._~+/=-]{0,400}+\d|[\w.~+/=-]{24})[\w.~+/=-]{8,4096})", 1), size=0,
    ),
    Rule(
        "bearer_token", ("token",),
        _assigned(_PAGES + r"(?<!tik)token(?!s|i[sz]|\.[a-z])", least=12, quoted_word=False),  # tiktoken is a package
        key=re.compile(rf"(?i)(?:[\w.-]{{0,40}}[_-])?{_PAGES}token|[a-z]{{1,20}}{_PAGES}Token|authorization"), needs=ASSIGNS,
        size=WIDE,
    ),
    Rule("bearer_token", ("token", "api"), _IN_HEADER, size=WIDE, needs=(":",)),
    Rule(
        "password_assignment", ("pass", "pwd", "kennwort", "contrase", "senha", "wachtwoord"),
        _assigned(_PHRASE, least=3, word_value=True), digest=False,
        key=re.compile(rf"(?i)[\w.-]{{0,40}}{_PHRASE}[\w.-]{{0,20}}"), needs=ASSIGNS,
    ),
    Rule("password_assignment", (), _SAID_ABROAD, digest=False, foreign=_ABROAD),
    Rule("password_assignment", _ABROAD_IN_JSON, _SAID_ABROAD, digest=False, needs=("\\u",)),
    # Without a sign of equality: an option, an item of a list of arguments, a tag, a sentence, SQL.
    Rule("password_assignment", ("pass", "identified by"), _said_password, digest=False),
    # `pass` and `pw` alone are words of many other things.
    Rule("password_assignment", ("pass", "pw"), _assigned(_SHORT_NAME, least=3, word_value=True), digest=False, needs=("=",)),
    Rule("password_assignment", ("pass", "pw"), _assigned(_SHORT_NAME_APART, least=3), digest=False, needs=ASSIGNS),
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
        needs=(";", "?", "&"), size=ENDS,
    ),
    Rule(
        "password_assignment", _PASSWORDS, _filled(rf"(?<=[;?&]){_NAMED}([^;&\s\"']{{3,128}})"), digest=False,
        needs=(";", "?", "&"), size=LAST,
    ),
    Rule("password_assignment", _PASSWORDS, _last_of_connection, digest=False, size=LAST),
    Rule(
        "password_assignment", _PASSWORDS,
        _filled(rf"(?:(?<=\s)|(?<=\\n)){_NAMED}([\"']?[^;\s\"']{{3,128}}[\"']?)(?=[\s│┃|]{{1,40}}{_OF_CONNECTION})"),
        digest=False, size=ENDS,
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
        digest=False, needs=("@",), size=ENDS,
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
        size=WIDE,
    ),
    Rule(
        "env_assignment", ("KEY", "TOKEN", "SECRET", "PASSW", "_PASS", "CREDENTIAL", "DSN"),
        _assigned(_UPPER, least=6, quoted_word=False),
        needs=ASSIGNS,
        size=WIDE,
    ),
)  # fmt: skip
CATALOGUE: Final = tuple(dict.fromkeys(rule.kind for rule in RULES))
