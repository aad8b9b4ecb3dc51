"""Each kind of token that people paste, in each form in which it comes: nothing of it that is worth having is left."""

from __future__ import annotations

import html
import json
import quopri
import random
import string
from collections.abc import Callable
from urllib.parse import quote, urlencode

import pytest

from hermes_lcm.ingest.filters import clean_message
from hermes_lcm.text.redact import Redactor
from hermes_lcm.text.secret_kinds import DEFAULT

WORD = string.ascii_letters + string.digits
LEFT = 8  # characters of a secret that may be left over, of some dozens


def made(rng: random.Random, alphabet: str, count: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(count))


def pem(rng: random.Random) -> str:
    body = "\n".join(made(rng, WORD + "+/", 64) for _ in range(4))
    return f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----"


#: By kind: a pasted text around ``{}``, and how the secret is made.
TOKENS: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "aws id": ("key {} is", lambda r: "AKIA" + made(r, string.ascii_uppercase + "234567", 16)),
    "aws temporary": ("key {} is", lambda r: "ASIA" + made(r, string.ascii_uppercase + "234567", 16)),
    "aws secret": ("aws_secret_access_key = {}", lambda r: made(r, WORD + "/+", 40)),
    "aws json": ('"SecretAccessKey": "{}"', lambda r: made(r, WORD + "/+", 40)),
    "aws pair": ("AKIAABCDEFGHIJKLMNOP,{}", lambda r: made(r, WORD + "/+", 36) + "aB3/"),
    "aws prose": ("Secret access key: {}", lambda r: made(r, WORD + "/+", 40)),
    "ghp": ("git clone https://{}@github.com/a/b", lambda r: "ghp_" + made(r, WORD, 36)),
    "gho": ("use {} now", lambda r: "gho_" + made(r, WORD, 36)),
    "github_pat": ("use {} now", lambda r: f"github_pat_{made(r, WORD, 22)}_{made(r, WORD, 59)}"),
    "gitlab": ("use {} now", lambda r: "glpat-" + made(r, WORD + "_-", 20)),
    "slack": ("use {} now", lambda r: f"xoxb-{made(r, '123456789', 12)}-{made(r, '123456789', 12)}-{made(r, WORD, 24)}"),
    "slack app": ("use {} now", lambda r: f"xapp-1-A{made(r, '123456789', 10)}-{made(r, string.hexdigits.lower(), 64)}"),
    "slack hook": ("https://hooks.slack.com/services/{}", lambda r: f"T0{made(r, WORD, 8)}/B{made(r, WORD, 33)}"),
    "stripe": ("use {} now", lambda r: "sk_live_" + made(r, WORD, 24)),
    "stripe restricted": ("use {} now", lambda r: "rk_live_" + made(r, WORD, 24)),
    "google": ("?key={} now", lambda r: "AIza" + made(r, WORD + "_-", 35)),
    "openai": ("use {} now", lambda r: "sk-proj-" + made(r, WORD + "_-", 120) + "a1"),
    "openai old": ("use {} now", lambda r: "sk-" + made(r, WORD, 48)),
    "anthropic": ("use {} now", lambda r: "sk-ant-api03-" + made(r, WORD + "_-", 93) + "AA"),
    "huggingface": ("use {} now", lambda r: "hf_" + made(r, WORD, 34)),
    "npm": ("//registry.npmjs.org/:_authToken={}", lambda r: "npm_" + made(r, WORD, 36)),
    "pypi": ("use {} now", lambda r: "pypi-AgEIcHlwaS5vcmcC" + made(r, WORD + "_-", 150)),
    "jwt": ("use {} now", lambda r: f"eyJ{made(r, WORD, 33)}.eyJ{made(r, WORD, 80)}.{made(r, WORD + '_-', 43)}"),
    "private key": ("{}", pem),
    "postgres": ("postgresql://app:{}@db.example.org:5432/prod", lambda r: made(r, WORD, 18)),
    "mongo": ("mongodb+srv://app:{}@c0.example.net/?w=majority", lambda r: made(r, WORD + "!~_", 18)),
    "redis": ("redis://:{}@cache:6379/0", lambda r: made(r, WORD, 18)),
    "odbc": ("Server=db;User Id=sa;Password={};Encrypt=yes", lambda r: made(r, WORD, 18)),
}  # fmt: skip


def wrapped(text: str, width: int, joint: str) -> str:
    """What a terminal of this width shows, copied."""
    return joint.join(text[at : at + width] for at in range(0, len(text), width))


def numbered(text: str, width: int, mark: str) -> str:
    """What a tool that reads files shows of lines of this width."""
    return "\n".join(f"{n:6d}{mark}{text[at : at + width]}" for n, at in enumerate(range(0, len(text), width), 98))


def boxed(text: str, width: int) -> str:
    """Lines of a box, each filled up to its border."""
    return "\n".join(f"│ {part:<{width + 30}} │" for part in wrapped(text, width, "\n").split("\n"))


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda t: f"look: {t} thanks",
    "json": lambda t: json.dumps({"a": t}),
    "json twice": lambda t: json.dumps({"a": json.dumps({"b": t})}),
    "slashes escaped": lambda t: json.dumps({"a": t}).replace("/", "\\/"),
    "percent": lambda t: quote(t, safe=""),
    "query": lambda t: "https://x.org/?" + urlencode({"q": t}),
    "percent twice": lambda t: quote(quote(t, safe=""), safe=""),
    "coloured": lambda t: f"\x1b[32m{t}\x1b[0m",
    "the first part found by grep": lambda t: f"\x1b[01;31m\x1b[K{t[:7]}\x1b[m\x1b[K{t[7:]}",
    "coloured in JSON": lambda t: json.dumps({"out": f"\x1b[32m{t[:9]}\x1b[0m{t[9:]}"}),
    "a sign without width inside": lambda t: f"{t[:8]}\u200b{t[8:]}",
    "80 columns": lambda t: wrapped(f"$ cat config and then {t} thanks for it", 80, "\n"),
    "41 columns": lambda t: wrapped(f"$ cat {t} thanks for it", 41, "\n"),
    "30 columns, indented": lambda t: wrapped(f"$ echo {t} thanks for it", 30, "\r\n    "),
    "50 columns, in a box": lambda t: wrapped(f"{t} thanks for it", 50, " │\n│ "),
    "50 columns, in a box that is wider": lambda t: boxed(f"{t} thanks for it", 50),
    "40 columns with numbers": lambda t: numbered(f"then {t} thanks for it", 40, "|"),
    "40 columns with numbers in JSON": lambda t: json.dumps({"content": numbered(f"then {t} thanks for it", 40, "|")}),
    "50 columns, numbered by cat": lambda t: json.dumps({"out": numbered(f"then {t} thanks for it", 50, "\t")}),
    "70 columns, found by grep": lambda t: numbered(f"then {t} thanks for it", 70, ":"),
    "quoted in a mail": lambda t: "> " + wrapped(f"then {t} thanks for it", 60, "\n").replace("\n", "\n> "),
    "two strings": lambda t: f'x = "{t[:9]}" + "{t[9:]}"',
    "two strings in JSON": lambda t: json.dumps({"code": f"x = '{t[:9]}' +\n      '{t[9:]}'"}),
    "strings below each other": lambda t: f'x = (\n    "{t[:9]}"\n    "{t[9:]}"\n)',
    "entities": lambda t: "".join(c if c.isalnum() else f"&#{ord(c)};" for c in t),
    "HTML": lambda t: html.escape(json.dumps({"a": t})),
    "60 columns in JSON": lambda t: json.dumps({"out": wrapped(f"then {t} thanks for it", 60, "\n")}),
}


def longest_left(secret: str, text: str) -> int:
    """The longest stretch of the secret that stands in the text."""
    best = 0
    for at in range(len(secret)):
        while secret[at : at + best + 1] in text and at + best < len(secret):
            best += 1
    return best


@pytest.mark.few(75)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", TOKENS)
def test_no_form_hides_a_token(kind: str, form: str) -> None:
    """Six of each, as different as they are in life, in short texts and in long ones."""
    redactor = Redactor(["all"])
    rng = random.Random(f"{kind} {form}")
    for turn in range(6):
        around, make = TOKENS[kind]
        secret = make(rng)
        text = "go on\n" * (turn % 2 * 1000) + FORMS[form](around.replace("{}", secret))
        clean = redactor.text(text)
        parts = secret.split("\n")[1:-1] if kind == "private key" else [secret]
        assert all(longest_left(part, clean) < LEFT for part in parts), (text, clean)
        assert redactor.text(clean) == clean


@pytest.mark.parametrize("kind", TOKENS)
def test_no_token_stays_in_the_arguments_of_a_tool(kind: str) -> None:
    """Arguments are JSON in a string."""
    around, make = TOKENS[kind]
    secret = make(random.Random(kind))
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "terminal", "arguments": json.dumps({"command": around.replace("{}", secret)})},
    }
    clean = clean_message({"role": "assistant", "content": "", "tool_calls": [call]}, Redactor(["all"]))
    arguments = clean["tool_calls"][0]["function"]["arguments"]

    assert longest_left(secret.split("\n")[-2] if "\n" in secret else secret, arguments) < LEFT
    assert "[redacted:" in json.loads(arguments)["command"]


@pytest.mark.parametrize("kind", ["aws id", "aws secret", "aws json", "ghp", "gho", "github_pat", "private key"])
def test_keys_of_aws_and_github_are_among_the_default_kinds(kind: str) -> None:
    """Whoever switches redaction on need not name them."""
    around, make = TOKENS[kind]
    secret = make(random.Random(kind))

    assert {"aws_key", "github_token"} <= set(DEFAULT)
    assert secret not in Redactor().text(around.replace("{}", secret))


@pytest.mark.parametrize(
    "text",
    [
        "const apiKey = 'YOUR_API_KEY_HERE';",
        "password = 'mysecretpassword'",
        "passwordError.textContent = 'Password cannot exceed 50 characters.'",
        "META_KEYWORDS = 'portfolio, projects, skills'",
        'SENTRY_DSN = "$SENTRY_DSN"',
        "new WebClient('xoxb-your-slack-token')",
        "CACHE_KEY_PREFIX = 'weather_data_'",
        "see sk-learn-contrib\nand task-force\nof 2024",
        "100%25 of https://example.org:8080/a%40b@2",
        "ghp_\nnothing follows",
    ],
)
def test_examples_and_names_are_no_secrets(text: str) -> None:
    """What is taken from these does not come back."""
    assert Redactor(["all"]).text(text) == text


SAID = [
    "my password is {}, keep it", "Das Passwort ist {}.", "login --password {} --host h",
    '["--password", "{}"]', "sshpass -p {} ssh h",
    "<password>{}</password>", "CREATE USER a IDENTIFIED BY '{}';", "ALTER ROLE a WITH PASSWORD '{}'",
    "DB_PASS={}", "Passwort: {}",
    "db.example.org:5432:prod:app:{}", "*:*:*:app:{}", "machine h.example.org login app password {}",
    "machine h.example.org\n  login app\n  password {}\n", "mysql -u root -p{} prod", "mysqldump -h db -uroot -p'{}' prod > x",
    "docker login -u app -p {} registry.example.org", "echo; helm registry login -u a -p {}", "sshpass -p{} ssh h",
    "mysql -P 3306 -p{} -h h", "mongosh -u admin -p {} h", "redis-cli -h h -a {} ping", "sqlcmd -S s -U sa -P {}",
    "unzip -P {} a", "7z x -p{} a.7z", "ldapsearch -D cn=a -w {} -b x", "plink -ssh -pw {} h",
    '<property name="password" value="{}"/>',
    "<password><![CDATA[{}]]></password>", "the password was changed to {}", "passphrase '{}'", "Mot de passe : {}", "pw: {}",
    "[db]\nuser=app\npass={}", "smtp_pass: {}", "passwd: {}", "pwd={}", "mongo --password '{}' --host h", "PGPASSWORD={} psql",
]  # fmt: skip


@pytest.mark.parametrize("said", SAID)
def test_a_password_is_found_without_a_sign_of_equality(said: str) -> None:
    """In a sentence, an option, a list of arguments, a tag, SQL; plain and in JSON."""
    text = said.replace("{}", "Tr0ub4dor3x")

    assert "Tr0ub4dor3x" not in Redactor().text(text)
    assert "Tr0ub4dor3x" not in Redactor().text(json.dumps({"out": text}))


@pytest.mark.parametrize(
    "said",
    [
        "mysql -u root -p{} prod", "docker login -u app -p {} host", "login --password {} --host h", "sshpass -p {} ssh h",
        "pass={}", "passwd: {}", "machine h login app password {}", "h:5432:prod:app:{}",
    ],
)  # fmt: skip
def test_a_password_of_letters_is_found_where_a_command_or_a_file_has_one(said: str) -> None:
    """There a word is a password, too."""
    assert "correcthorse" not in Redactor().text(said.replace("{}", "correcthorse"))


@pytest.mark.parametrize(
    "text",
    [
        "the login page -p asks", "docker run -p 8080:80 image", "mysql -p prod", "mysql -u root -p", "use the --password option",
        "--password is deprecated", "app.c:12:5:error:undeclared", "3 tests pass: 12 of 15", "pass: true", "PASS: tests/foo1.sh",
        "machine learning password reset", "the default login is admin", "make && mysql --port 3306", "PWD=/home/app1",
        "the password is stored as sha256 of it", "the password is base64-encoded", "run it with --password /run/secrets/db1",
        "use --password $PASSWORD1 here", "the password is wrong", "<password>{{ value1 }}</password>", "--passes 12 runs",
    ],
)  # fmt: skip
def test_what_is_said_of_passwords_stays(text: str) -> None:
    """Words, methods, paths and variables are none."""
    assert Redactor(["all"]).text(text) == text


def test_what_follows_a_whole_token_on_the_next_line_stays() -> None:
    """A token of known length ends with its line."""
    token = "ghp_" + "aB3d" * 9
    clean = Redactor().text(f"{token}\nnext7 line")

    assert clean.endswith("]\nnext7 line")


PGP = "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\nComment: mine\n\n{}\n=aB3d\n-----END PGP PRIVATE KEY BLOCK-----"
LOCKED = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n{}\n"
    "-----END RSA PRIVATE KEY-----"
)
OPEN = "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----"
SHOWN: dict[str, Callable[[list[str]], str]] = {
    "as it is": "\n".join,
    "quoted": lambda lines: "\n".join(f"> {each}" for each in lines),
    "quoted twice": lambda lines: "\n".join(f">> {each}" for each in lines),
    "quoted in HTML": lambda lines: "\n".join(f"&gt; {each}" for each in lines),
    "lines of HTML": "<br>\n".join,
    "numbered": lambda lines: "\n".join(f"{n:6d}|{each}" for n, each in enumerate(lines, 97)),
    "numbered, in JSON": lambda lines: json.dumps(
        {"content": "\n".join(f"{n}|{each}" for n, each in enumerate(lines, 97))}
    ),
    "numbered by cat, in JSON": lambda lines: json.dumps(
        {"o": "\n".join(f"{n:6d}\t{each}" for n, each in enumerate(lines, 97))}
    ),
    "found by grep": lambda lines: "\n".join(f"{n}:{each}" for n, each in enumerate(lines, 97)),
    "added": lambda lines: "\n".join(f"+{each}" for each in lines),
    "removed": lambda lines: "\n".join(f"-{each}" for each in lines),
    "a comment": lambda lines: "\n".join(f"# {each}" for each in lines),
    "a box": lambda lines: "\n".join(f"│ {each:<76} │" for each in lines),
    "strings": lambda lines: " +\n".join(f'"{each}\\n"' for each in lines),
    "cut off": lambda lines: "\n".join(f"> {each}" for each in lines[:-2]),
    "the next page": lambda lines: "\n".join(f"{n:6d}|{each}" for n, each in enumerate(lines[-5:], 97)),
}


@pytest.mark.parametrize("key", [PGP, LOCKED, OPEN], ids=["PGP", "locked", "open"])
@pytest.mark.parametrize("shown", SHOWN)
def test_no_line_of_a_private_key_is_left(shown: str, key: str) -> None:
    """However it is shown, with headers or without, and without its beginning or end."""
    body = [made(random.Random(f"{shown}{n}"), WORD + "+/", 64) for n in range(8)]
    text = "it is:\n" + SHOWN[shown](key.format("\n".join(body)).split("\n")) + "\n\nThat is all."
    clean = Redactor().text(text)

    assert all(longest_left(line, clean) < LEFT for line in body), clean
    assert clean.startswith("it is:")
    assert clean.rstrip('"} ').endswith("That is all.") or shown == "cut off"
    assert Redactor().text(clean) == clean


# -- connection strings, broken by the width of a terminal -------------------------------------------------------
CONNECTIONS = {
    "url": "postgres://app:{}@db.example.com:5432/main",
    "url without a user": "redis://:{}@cache:6379/0",
    "fields": "Server=tcp:db.example.com,1433;User ID=app;Password={};Encrypt=True;",
    "driver": "Driver=SQL;Uid=app;Pwd={};Database=x;",
    "words": "host=db.example.com user=app password={} dbname=main",
    "query": "jdbc:postgresql://db/main?user=app&password={}&ssl=true",
    "last of the fields": "Server=tcp:db.example.com,1433;User ID=app;Password={}",
    "last of the query": "jdbc:postgresql://db/main?user=app&password={}",
    "last of the words": "host=db.example.com user=app dbname=main password={}",
    "last, and a command behind it": "psql 'host=db.example.com user=app dbname=main password={}' -c 'select 1'",
    "last, and words behind it": "connect to Server=tcp:db.example.com,1433;User ID=app;Password={} and then look",
}


@pytest.mark.few(27)
@pytest.mark.parametrize("joint", ["\n", "\r\n    ", " │\n│ ", "\\n"])
@pytest.mark.parametrize("password", ["correcthorse", "S3cureW0rdX9"])
@pytest.mark.parametrize("form", CONNECTIONS)
def test_a_plain_password_of_a_connection_string_is_found_wherever_it_is_broken(
    form: str, password: str, joint: str
) -> None:
    """In the name, at the sign between, or in the password itself."""
    text, redactor = CONNECTIONS[form].format(password), Redactor(["all"])
    left = []
    for at in range(len(text) + 1):
        out = redactor.text(text[:at] + joint * (0 < at < len(text)) + text[at:]).replace(joint, "")
        left += [text[:at] + "|" + text[at:] for n in range(len(password) - 3) if password[n : n + 4] in out][:1]

    assert left == []


@pytest.mark.parametrize("text", [
    "DB_PASSWORD=$DB_PASSWORD\nDB_HOST=10.0.0.7", "?user=app&password=YOUR_PASSWORD&x=1", "host=db password=changeme user=a",
])  # fmt: skip
def test_what_only_looks_like_the_password_of_a_connection_is_left(text: str) -> None:
    """Variables and examples."""
    assert Redactor(["all"]).text(text) == text


# -- tokens of other services, and passwords in front of which a command has a name -----------------------------------
HEX, LOW = string.hexdigits[:16], string.ascii_lowercase
SERVICES: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "azure storage": ("AccountName=x;AccountKey={};EndpointSuffix=a", lambda r: made(r, WORD + "+/", 86) + "=="),
    "azure client": ("use {} now", lambda r: made(r, WORD, 3) + "8Q~" + made(r, WORD + "_-", 34)),
    "google refresh": ("refresh 1//{} x", lambda r: "0" + made(r, WORD + "_-", 60)),
    "google client": ("use {} now", lambda r: "GOCSPX-" + made(r, WORD + "_-", 28)),
    "twilio": ("TWILIO_AUTH_TOKEN={}", lambda r: made(r, HEX, 32)),
    "sendgrid": ("use {} now", lambda r: f"SG.{made(r, WORD, 22)}.{made(r, WORD, 43)}"),
    "discord hook": ("https://discord.com/api/webhooks/123456789012345678/{}", lambda r: made(r, WORD + "_-", 68)),
    "telegram": ("https://api.telegram.org/bot{}/getMe", lambda r: f"{made(r, '123456789', 10)}:AA{made(r, WORD, 33)}"),
    "digitalocean": ("use {} now", lambda r: "dop_v1_" + made(r, HEX, 64)),
    "shopify": ("use {} now", lambda r: "shpat_" + made(r, HEX, 32)),
    "docker": ("use {} now", lambda r: "dckr_pat_" + made(r, WORD, 27)),
    "vault": ("use {} now", lambda r: "hvs." + made(r, WORD, 90)),
    "terraform": ("use {} now", lambda r: f"{made(r, WORD, 14)}.atlasv1.{made(r, WORD, 67)}"),
    "groq": ("use {} now", lambda r: "gsk_" + made(r, WORD, 52)),
    "tailscale": ("use {} now", lambda r: f"tskey-auth-{made(r, WORD, 17)}-{made(r, WORD, 32)}"),
    "age": ("use {} now", lambda r: "AGE-SECRET-KEY-1" + made(r, string.ascii_uppercase + "234567", 58)),
    "atlassian": ("use {} now", lambda r: "ATATT3xFfGF0" + made(r, WORD + "_-", 170)),
    "header": ("curl -H 'Authorization: token {}' https://x.org", lambda r: made(r, HEX, 40)),
}
#: Found as long as no line was broken in them.
WHOLE: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "discord": ("use {} now", lambda r: f"MT{made(r, WORD, 22)}.{made(r, WORD, 6)}.{made(r, WORD, 38)}"),
    "mailgun": ("use {} now", lambda r: "key-" + made(r, HEX, 32)),
    "mailchimp": ("use {} now", lambda r: made(r, HEX, 32) + "-us12"),
    "twilio key": ("use {} now", lambda r: "SK" + made(r, HEX, 32)),
    "notion": ("use {} now", lambda r: "secret_" + made(r, WORD, 43)),
    "airtable": ("use {} now", lambda r: f"pat{made(r, WORD, 14)}.{made(r, HEX, 64)}"),
    "resend": ("use {} now", lambda r: f"re_{made(r, WORD, 8)}_{made(r, WORD, 24)}"),
}
PASTED = {
    "plain": lambda t: f"look: {t} thanks",
    "JSON": lambda t: json.dumps({"a": t}),
    "percent": lambda t: quote(t, safe=""),
    "arguments": lambda t: json.dumps({"command": json.dumps({"b": f"so\n{t}\nnext"})}),
}
BROKEN = {
    "80 columns": FORMS["80 columns"],
    "60 columns in JSON": FORMS["60 columns in JSON"],
}


@pytest.mark.parametrize("form", [*PASTED, *BROKEN])
@pytest.mark.parametrize("kind", [*SERVICES, *WHOLE])
def test_no_form_hides_a_token_of_a_service(kind: str, form: str) -> None:
    """In short texts and in long ones."""
    if kind in WHOLE and form in BROKEN:
        form = "plain"
    around, make = {**SERVICES, **WHOLE}[kind]
    redactor = Redactor(["all"])
    for turn in range(2):
        rng = random.Random(f"{kind} {form} {turn}")
        secret = make(rng)
        text = "go on\n" * (turn % 2 * 1000) + {**PASTED, **BROKEN}[form](around.replace("{}", secret))
        clean = redactor.text(text)
        assert longest_left(secret, clean) < LEFT, (text, clean)
        assert redactor.text(clean) == clean


@pytest.mark.parametrize(
    "said",
    [
        "sqlplus scott/{}@db", "sqlplus -S scott/{}@//db.example.org:1521/x", "smbclient //host/share -U user%{}",
        "rpcclient -U 'DOM\\user%{}' host", "curl -uadmin:{} https://x.org", "curl --user=admin:{} https://x.org",
        'curl -s -u "admin:{}" https://x.org', "curl --proxy-user admin:{} https://x.org", "curl -x p -U admin:{} https://x.org",
        "evil-winrm -i h -u admin -p {}", "psexec.py DOM/admin:{}@10.0.0.5", "htpasswd -b file user {}",
        "echo 'root:{}' | chpasswd", "echo '{}' | sudo -S ls",
    ],
)  # fmt: skip
def test_a_password_behind_the_name_of_a_user_is_found(said: str) -> None:
    """Where the command says that it is one; plain and in the arguments of a tool."""
    text = said.replace("{}", "Tr0ub4dor3x")

    assert "Tr0ub4dor3x" not in Redactor().text(text)
    assert "Tr0ub4dor3x" not in Redactor().text(json.dumps({"command": text}))


@pytest.mark.parametrize(
    "text",
    [
        "sqlplus / as sysdba", "smbclient -L //host -U user", "rate of 40% in smb tests", "curl -u $USER:$PASSWORD https://x.org",
        "curl https://x.org:8080 -u https://y.org", "python exec.py a/b:c", "sudo -S ls", "htpasswd -n user",
        "the bot1234:AAA is", "pass it on | chpasswd", "skip-us12 and en-us1", "https://x.org/api/webhooks/1/edit",
        "keyboard key-value pairs",
    ],
)  # fmt: skip
def test_commands_without_a_password_stay(text: str) -> None:
    """Nothing of them is one."""
    assert Redactor(["all"]).text(text) == text


@pytest.mark.parametrize(
    "said",
    [
        "пароль: {}", "Мой пароль {}, не говори", "密码：{}", "密码是{}，请记住", "管理员密码為 {}",
        "パスワードは{}です", "비밀번호: {}", "סיסמה: {}", "كلمة المرور: {}", "κωδικός: {}",
    ],
)  # fmt: skip
def test_a_password_is_found_in_languages_without_latin_letters(said: str) -> None:
    """Behind its name, as in others."""
    assert "Tr0ub4dor3x" not in Redactor().text(said.replace("{}", "Tr0ub4dor3x"))
    assert "Tr0ub4dor3x" not in Redactor().text(json.dumps({"out": said.replace("{}", "Tr0ub4dor3x")}))


@pytest.mark.parametrize(
    "text",
    ["密码必须至少8位", "пароль не менее 8 символов", "密码 /run/secrets/db1", "密码是什么？", "口令 $PASSWORD1"],
)
def test_what_is_said_of_passwords_elsewhere_stays(text: str) -> None:
    """No value stands there."""
    assert Redactor(["all"]).text(text) == text


def styled(text: str, wide: bool) -> str:
    """The same in letters of full width, or of a mathematical style."""
    places = {**dict(zip(string.ascii_uppercase, range(0x1D670, 0x1D68A), strict=True)),
              **dict(zip(string.ascii_lowercase, range(0x1D68A, 0x1D6A4), strict=True)),
              **dict(zip(string.digits, range(0x1D7F6, 0x1D800), strict=True))}  # fmt: skip
    if wide:
        places = {char: ord(char) + 0xFEE0 for char in WORD + "_"}
    return "".join(chr(places[char]) if char in places else char for char in text)


@pytest.mark.parametrize("wide", [True, False])
def test_letters_of_another_width_or_style_hide_no_token(wide: bool) -> None:
    """Models and chats write them for show."""
    clean = Redactor().text(styled("use ghp_" + "aB3d" * 9, wide) + " now")

    assert "[redacted:github_token" in clean
    assert styled("aB3daB3d", wide) not in clean


def test_a_mail_hides_no_token() -> None:
    """Lines of 76 characters, each broken one with a sign at its end ("quoted-printable")."""
    token, redactor = "ghp_" + "aB3d" * 9, Redactor()
    for blanks in range(40):
        text = quopri.encodestring(f"a=b {'x ' * blanks}and the key {token} is it".encode()).decode()
        assert longest_left(token, redactor.text(text)) < LEFT, text
    assert "hunter2secret9" not in redactor.text("password=3Dhunter2secret9")


def test_a_value_goes_on_where_a_terminal_broke_its_line() -> None:
    """And ends with its line where that is no terminal's width."""
    key = "a1B2c3D4" * 5
    broken = f"$ env | grep KEY\nOPENAI_API_KEY_OF_THE_SECOND_PROJECT={key[:20]}\n{key[20:]}\n$"
    settings = f"FIRST_API_KEY_OF_THE_SECOND_PROJECT_OF_ALL={key[:20]}\nDB2_HOST=10.0.0.7\n"

    assert longest_left(key, Redactor().text(broken)) < LEFT
    assert Redactor().text(settings).endswith("]\nDB2_HOST=10.0.0.7\n")


@pytest.mark.parametrize(
    "text",
    [
        "Test results: passed: 467", '{"passed": 1467, "failed": 3}', '{"passed": "467 of 470"}', "passengers=1200, passes: 300x",
        "password_changed_at: 2024-01-05T10:00:00Z", "token_limit=1000000 TOKEN_BUDGET=2000000",
        '"token_type": "urn:ietf:params:oauth:x-1"',
        '{"PWD": "/home/node1/x", "OLDPWD": "/home/node1"}', "MODULE_PWD_STATE = 'yes'", "PWD=/home/app1",
        'if(!k){a&&"password"===g9||d.trim}', 'print("Token: " + repr(tt9))', "getpass(prompt='Password: ', stream=None, x=9)",
        "read.password('Password:', creds9.password)", 'user_pass = "%s:%s" % (a, b)',
        "_core_token_compound=_core_token_compound",
        "U_UNEXPECTED_TOKEN=0x10100", "EXTENSION_KEY_ID = '2.5.29.35'", "OID_EC_PUBLIC_KEY = '1.2.840.10045.2.1'",
        'CONFIG_KEY = "write_approval"', 'BOARD_KEY = "hermes.kanban.selectedBoard"', 'TOKEN_HEADER = "x-raft-bridge-token"',
        "PLATFORMS_KEY = 'cygwin'", "_curses.KEY_F10: 'kf10', _curses.KEY_EOS: 'kcud1'",
        "immediately followed by a :token:`bracket_open`",
        "output = token.close = `)$))${extglobStar9}`;", "stores the bearer token.\n2. **Find** it",
        "Bearer authentication.\n2. Next",
        "{ password: readPassword, username: readUser }", "self.username, self.password = credentials\n",
        '"access_token": "<device1-bearer>"',
        'api_key = "your-admin9-api-key"', "SECRET=/run/secrets/db1", 'password = "/etc/app/pw1.txt"',
        '"nextPageToken": "CAUQAA19xYz0aB12"',
        '"token_endpoint": "https://login.example.org/oauth2/v2"', 'CACHE_KEY = "user_profile_v2"',
        'run(["plink", "-ssh", "-pw", options[1], host])', r'{"content": "8|NAMES = (\"passwd=\", \"pwd=\")\n9|ENDS = \"b2\""}',
    ],
)  # fmt: skip
def test_ordinary_code_and_logs_are_left_alone(text: str) -> None:
    """Tests that passed, paths, names of things, and a quote that ends where a value would begin."""
    assert Redactor(["all"]).text(text) == text


@pytest.mark.parametrize(("key", "value"), [
    ("passed", "467 of 470"), ("PWD", "/home/me1"), ("password_changed_at", "2024-01-05"), ("nextPageToken", "CAUQAA19"),
    ("passenger_id", "12345"), ("token_type", "Bearer1"),
])  # fmt: skip
def test_values_of_keys_that_only_look_alike_stay(key: str, value: str) -> None:
    """In the arguments of a tool, too."""
    assert Redactor(["all"]).value(key, value) == value


@pytest.mark.parametrize(
    "text",
    [
        "os.environ['DB_PASSWORD'] = '{}'", "- name: DB_PASSWORD\n  value: {}", '[{"name": "DB_PASSWORD", "value": "{}"}]',
        "password: >-\n  {}\n", "Kennwort: {}", "<input type=password value='{}'>",
        "DB_PASSWORD={}\nthen I logged in with {} as root", '{"password": "{}", "note": "use {} for root"}',
    ],
)  # fmt: skip
def test_a_password_in_a_settings_file_or_said_again_is_found(text: str) -> None:
    """Behind an index, on the line below its name; and once more where no name stands."""
    assert "Tr0ub4dor3x" not in Redactor().text(text.replace("{}", "Tr0ub4dor3x"))


def test_a_word_that_is_a_password_somewhere_stays_elsewhere() -> None:
    """Only what is odd is looked for again, and only as a whole word."""
    text = "password=geheimnis\nein geheimnis; key=Tr0ub4dor3x password=Tr0ub4dor3x Tr0ub4dor3xyz"
    clean = Redactor().text(text)

    assert "ein geheimnis" in clean
    assert clean.endswith(" Tr0ub4dor3xyz")
