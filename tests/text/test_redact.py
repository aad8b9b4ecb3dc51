"""Redaction: secrets are found wherever they hide, code and prose are left alone, and time stays linear."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import linear

from hermes_lcm.text.redact import Redactor, placeholder
from hermes_lcm.text.secret_kinds import CATALOGUE, DEFAULT

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("LCM_DATA") or ROOT.parent / "shared" / "data")
EVERYTHING = Redactor(["all"])
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq\nxyz+/9==\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"

# kind, text, the secret in it
SECRETS = [
    ("api_key", "api_key = 'k9f8e7d6c5b4'", "k9f8e7d6c5b4"),
    ("api_key", '{"access_token": "t0ken-Value-123"}', "t0ken-Value-123"),
    ("api_key", "client_secret: 8Qz77LkPq", "8Qz77LkPq"),
    ("api_key", "X-Api-Key: 8Qz77LkPq", "8Qz77LkPq"),
    ("bearer_token", "Authorization: Bearer abcDEF123.ghi", "abcDEF123.ghi"),
    ("bearer_token", "auth_token=9f8e7d6c5b4a39281706", "9f8e7d6c5b4a39281706"),
    ("password_assignment", "password: hunter2", "hunter2"),
    ("basic_auth", "curl -u app:hunter2x https://example.org", "hunter2x"),
    ("basic_auth", "curl --user 'app:hunter2x' https://example.org", "hunter2x"),
    ("password_assignment", "passwd=correcthorse\n", "correcthorse"),
    ("password_assignment", 'passphrase = "four words with spaces"', "four words with spaces"),
    ("password_assignment", r'{"password": "quo\"ted12"}', r"quo\"ted12"),
    ("password_assignment", "?user=x&pwd%3Dgeheim77&z=1", "geheim77"),
    ("private_key", PEM, "MIIEowIBAAKCAQEA7bq"),
    ("private_key", json.dumps(PEM), "MIIEowIBAAKCAQEA7bq"),
    ("github_token", "git clone https://ghp_" + "a1B2" * 9 + "@github.com/x", "ghp_" + "a1B2" * 9),
    ("gitlab_token", "glpat-abcdefghij1234567890", "glpat-abcdefghij1234567890"),
    ("aws_key", "AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    (
        "aws_key",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ),
    ("slack_token", "xoxb-123456789012-abcdefABCDEF", "xoxb-123456789012-abcdefABCDEF"),
    ("google_key", "AIza" + "Sy0a1" * 7, "AIza" + "Sy0a1" * 7),
    ("anthropic_key", "sk-ant-api03-abcdefghij0123456789", "sk-ant-api03-abcdefghij0123456789"),
    ("openai_key", "sk-proj-abcdefghij0123456789", "sk-proj-abcdefghij0123456789"),
    ("jwt", JWT, JWT),
    ("url_credentials", "postgres://app:s3cr3t@db/prod", "s3cr3t"),
    ("connection_string", "AccountKey=abcdefghijklmnop0123456789==;", "abcdefghijklmnop0123456789=="),
    ("env_assignment", "export DEPLOY_SECRET=zz11yy22xx", "zz11yy22xx"),
    ("password_assignment", "The password: `hermes sandal 7 lagoon`", "hermes sandal 7 lagoon"),
    ("password_assignment", "The password: `openssl4all`", "openssl4all"),
    ("bearer_token", "tiktok_token: act-9f8e7d6c5b4a39281706", "act-9f8e7d6c5b4a39281706"),
    ("basic_auth", "Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="),
]


@pytest.mark.parametrize(("kind", "text", "secret"), SECRETS, ids=[f"{k}-{n}" for n, (k, *_) in enumerate(SECRETS)])
def test_a_secret_leaves_the_text(kind: str, text: str, secret: str) -> None:
    """Its placeholder says of which kind it was."""
    clean = Redactor([kind]).text(text)

    assert secret not in clean
    assert f"[redacted:{kind}" in clean


@pytest.mark.parametrize(("kind", "text", "secret"), SECRETS, ids=[f"{k}-{n}" for n, (k, *_) in enumerate(SECRETS)])
@pytest.mark.parametrize("depth", [1, 2, 3], ids="depth={}".format)
def test_escaping_hides_nothing(depth: int, kind: str, text: str, secret: str) -> None:
    """JSON inside JSON inside JSON; and it stays JSON."""
    for _ in range(depth):
        text = json.dumps({"command": text})
    clean = EVERYTHING.text(text)

    assert secret not in clean
    for _ in range(depth):
        clean = json.loads(clean)["command"]


@pytest.mark.parametrize(("kind", "text", "secret"), SECRETS, ids=[f"{k}-{n}" for n, (k, *_) in enumerate(SECRETS)])
def test_base64_hides_nothing(kind: str, text: str, secret: str) -> None:
    """What is left decodes to the text without the secret."""
    coded = base64.b64encode(f"some words before; {text}".encode()).decode()
    clean = EVERYTHING.text(f"payload {coded} end")

    assert coded not in clean
    assert secret not in base64.b64decode(clean.split()[1]).decode()


INNOCENT = [
    "CREATE VIRTUAL TABLE notes USING fts5(text, tokenize='porter unicode61 remove_diacritics 2')",
    "def login(password: str, token: str | None = None) -> bool:",
    "password=self.password, api_key=os.environ['X']",
    "the password is required: see below",
    "password = get_password()",
    "docker run -u 1000:1000 image, then chown -u app: file",
    "api_key: str = config.api_key",
    "Set OPENAI_API_KEY=<your key> or api_key=${API_KEY}",
    "max_tokens: 12345678901234567",
    "the access token: what it is for",
    "Bearer authentication is used",
    "https://example.org:8080/path@2",
    "task-1234567890-abcdefghijk and risk-averse-2",
    '"tiktoken": "token counts are estimates (within about 15 %)"',
    'tiktoken = ">=0.7.0,<1.0.0"',
    "A new password: `hermes lcm fleet init laptop anna` again; it also ends the old one.",
    "password: `openssl rand -hex 16`",
    '"AGE-SECRET-KEY-1": "[0-9A-Z]{58}"',
]


@pytest.mark.parametrize("size", range(20, 60))
def test_base64_of_any_length_is_opened(size: int) -> None:
    """With the signs that fill it up or without."""
    said = ("password=" + "hunter2 tail of the text to make it longer still" * 2)[:size]
    word = base64.b64encode(said.encode()).decode()

    for text in (f"see {word} there", f"see {word.rstrip('=')} there"):
        assert (word.rstrip("=") in EVERYTHING.text(text)) == (len(word.rstrip("=")) < 24)


@pytest.mark.parametrize("text", INNOCENT)
def test_code_and_prose_are_left_alone(text: str) -> None:
    """What is destroyed here does not come back."""
    assert EVERYTHING.text(text) == text


@pytest.mark.parametrize(("_kind", "text", "secret"), SECRETS, ids=[f"{k}-{n}" for n, (k, *_) in enumerate(SECRETS)])
def test_redacting_twice_is_redacting_once(_kind: str, text: str, secret: str) -> None:
    """A placeholder is no secret."""
    once = EVERYTHING.text(text)
    assert EVERYTHING.text(once) == once


def test_equal_secrets_have_equal_placeholders() -> None:
    """A short digest, so that they can be told apart."""
    assert placeholder("api_key", "a") == "[redacted:api_key:ca978112ca1b]"


def test_passwords_have_no_digest() -> None:
    """It could be found by guessing."""
    assert Redactor().text("password=hunter2") == "password=[redacted:password_assignment]"


def test_the_default_is_the_documented_six() -> None:
    """A token known by its shape alone is left to the further kinds."""
    assert Redactor().kinds == tuple(kind for kind in CATALOGUE if kind in DEFAULT)


def test_unknown_names_are_reported_and_the_others_count() -> None:
    """A typing error does not switch redaction off."""
    redactor = Redactor(["jwt", "bearer_tokne"])
    assert (redactor.unknown, redactor.kinds) == (("bearer_tokne",), ("jwt",))


def test_without_any_known_name_the_default_counts() -> None:
    """Enabled means enabled."""
    assert set(Redactor(["nonsense"]).kinds) == set(DEFAULT)


@pytest.mark.parametrize("at", range(1, 20), ids="cut={}".format)
def test_a_secret_that_is_split_over_parts_is_found(at: int) -> None:
    """Streamed parts are one text."""
    text = "the password=geheim-7777 is it"
    clean = EVERYTHING.pieces([text[:at], text[at : at + 2], text[at + 2 :]])

    assert "geheim" not in "".join(clean)
    assert "7777" not in "".join(clean)


@pytest.mark.parametrize(
    "key", ["password", "db_password", "apiKey", "client_secret", "refresh_token", "Authorization"]
)
def test_the_value_of_a_telling_key_is_a_secret(key: str) -> None:
    """Whatever it looks like."""
    assert Redactor().value(key, "plainword").startswith("[redacted:")


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    """And a second look finds nothing more."""
    once = EVERYTHING.text(text)
    assert EVERYTHING.text(once) == once


HOSTILE = {
    "names without values": "api_key" * 175_000,
    "open quotes": 'pwd= "x ' * 150_000,
    "a value without end": 'pwd="' + "a" * 1_250_000,
    "keys without end": "-----BEGIN PRIVATE KEY-----" * 45_000,
    "almost tokens": "eyJaaaaaaaa" * 112_500,
    "almost URLs": "://a:" * 250_000,
    "backslashes": "\\" * 1_250_000,
    "values that go on in the next line": "api_key=\nA1b2A1b2A1b2A1b2A1b2A1b2A1b2A1b2A1b2" * 250,
    "commands without a pipe": "chpasswd://a:" * 25_000,
    "ends of keys": "abcd\n-----END RSA PRIVATE KEY-----" * 7_500,
    "fields of connections": "pwd=" * 62_500,
}


@pytest.mark.few(4)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_time_is_linear(text: str) -> None:
    """However the text was made to hurt."""
    assert linear.excess(lambda part: Redactor().text(part), text[: len(text) // 5], text) <= linear.LIMIT


@pytest.mark.skipif(not DATA.is_dir(), reason="no folder of real conversations (LCM_DATA)")
def test_real_conversations_lose_next_to_nothing(record_property: Any) -> None:
    """False positives are reported; there is hardly a secret in these texts."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(DATA.rglob("*.json*")))
    lost = Redactor().text(text).count("[redacted:")
    record_property("redacted", lost)

    assert lost <= len(text) // 50_000


def test_what_two_rules_find_is_named_by_its_shape() -> None:
    """In texts of any length, so that equal secrets have equal placeholders."""
    secret = "sk-proj-abcdefghij0123456789"
    for text in (f"api_key={secret}", f"api_key={secret}" + " and more text" * 500):
        assert f"[redacted:openai_key:{placeholder('x', secret)[12:]}" in EVERYTHING.text(text)


_HIDDEN = base64.b64encode(b"password: hunter2 and more").decode()


@pytest.mark.parametrize(
    "text",
    [
        f"api_key=k9f8e7d6c5b4,{_HIDDEN}",
        f"{_HIDDEN} ghp_{'a1B2' * 9}",
        f"api_key=k9f8e7d6c5b4 {_HIDDEN}== token: 9f8e7d6c5b4a39281706 {_HIDDEN}",
        f"token: 9f8e7d6c5b4a39281706 {base64.b64encode(_HIDDEN.encode()).decode()}",
    ],
)
def test_base64_beside_a_secret_is_opened_too(text: str) -> None:
    """What is known to go from a text hides nothing behind it."""
    clean = EVERYTHING.text(text)

    assert "[redacted:" in clean
    assert _HIDDEN not in clean
    assert base64.b64encode(_HIDDEN.encode()).decode() not in clean


def test_a_secret_in_one_of_many_base64_words_is_found() -> None:
    """They are looked through together, and each is changed by itself."""
    words = [base64.b64encode(f"nothing to see here, {n}".encode()).decode() for n in range(50)]
    words[17] = base64.b64encode(b"some words before; password: hunter2").decode()
    twice = base64.b64encode(f"see {words[17]} there".encode()).decode()
    clean = EVERYTHING.text(" ".join([*words, twice])).split()

    assert [n for n, (old, new) in enumerate(zip([*words, twice], clean, strict=True)) if old != new] == [17, 50]
    assert b"hunter2" not in base64.b64decode(clean[17])
    assert words[17].encode() not in base64.b64decode(clean[50])


@given(st.text(min_size=18, max_size=40).map(str.encode), st.booleans())
def test_whatever_text_is_in_base64_it_is_read(said: bytes, url: bool) -> None:
    """Words are passed over only when no text at all has that beginning (control characters make it none)."""
    said = said.translate(None, bytes(n for n in range(32) if not 9 <= n <= 13)) + b" password: hunter2"
    word = (base64.urlsafe_b64encode if url else base64.b64encode)(said).decode()

    assert word.rstrip("=") not in EVERYTHING.text(f"see {word} there")


AROUND = {
    "words": ("some words and ", " and more of them; "),
    "dots": ("a.b.c.", ".d.e"),
    "letters that are not ASCII": ("漢字 é ", " über 漢字漢字"),
    "no letters": ("*** ", " ***"),
    "a long path": ("/one/two_three/four-five/six/seven ", " /one/two_three/four-five/six/seven"),
}


@pytest.mark.parametrize("times", [1, 700], ids="times={}".format)
@pytest.mark.parametrize(("before", "after"), AROUND.values(), ids=AROUND)
def test_what_stands_around_hides_no_secret(before: str, after: str, times: int) -> None:
    """In short texts and long ones, whose searches may differ."""
    for kind, text, secret in SECRETS:
        clean = EVERYTHING.text(before * times + "\n" + text + "\n" + after * times)
        assert secret not in clean, kind


@pytest.mark.parametrize(
    "secret",
    [
        "SG." + "a1" * 8 + "." + "b2" * 15,
        "ya29." + "k" * 20,
        "sk-ant-" + "é" * 20,
        "AKIA" + "A1" * 8,
        "xoxb-" + "a" * 10,
        "hooks.slack.com/services/" + "T0" * 10,
    ],
)
def test_the_shortest_token_is_found(secret: str) -> None:
    """Behind a dot, a sign, or a letter that is not ASCII, and at either end of a text."""
    for text in (secret, f"x.{secret}", f"=({secret})", f"é{secret} ", f"{'. ' * 900}{secret}"):
        assert EVERYTHING.text(text) == Redactor(["all"]).text(text)
        assert secret[-10:] not in EVERYTHING.text(text)


def test_what_took_the_place_of_a_base64_word_is_no_secret_itself() -> None:
    """Else the same message would be another one as soon as it is looked at again."""
    for n in range(60):
        said = f"a ghp_{hashlib.sha256(b'%d' % n).hexdigest()[:36]}"
        twice = base64.b64encode(base64.b64encode(said.encode())).decode()
        clean = EVERYTHING.text(f"{twice}x86_64 comes next")
        assert twice not in clean
        assert EVERYTHING.text(clean) == clean


def test_base64_between_letters_that_are_not_ascii_is_opened() -> None:
    """They belong to no word of base64."""
    word = base64.b64encode(b"some words; password: hunter2").decode().rstrip("=")
    for kinds in (DEFAULT, ["all"]):
        assert word not in Redactor(kinds).text("漢" * 30 + word + "漢字" * 900)


def test_a_name_with_a_letter_that_looks_like_ascii_is_a_name() -> None:
    """Patterns in any case take the Kelvin sign for a k."""
    assert "s3cr3tvalue" not in Redactor().text("access_to\u212aen = 's3cr3tvalue'")
