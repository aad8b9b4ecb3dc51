"""
An object store beside the shared server (S3 and what speaks its language): large messages, and copies of backups.

The only module that uses the store's client, when something is asked for. Whoever may read the bucket reads nothing: each message
is sealed with a key of its own (AES-256-GCM), which stands in the row that names it, so that row level security decides. No error
here shows the store's secret.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from ..errors import FleetError, FleetUnavailable, StoreError, is_of_a_disk
from .server import connection_string

_URL: Final = (
    r"(?P<scheme>https?)://(?P<key>[^:@/]+):(?P<secret>[^@/]+)@(?P<host>[^/?]+)/(?P<bucket>[^/?]+)"
    r"(/(?P<prefix>[^?]*))?(\?region=(?P<region>[\w-]+))?"
)
#: The first byte of a row's stored JSON that is elsewhere; no packed JSON begins so.
_ELSEWHERE: Final = b"\xff"
_NAME: Final = re.compile(r"messages/[\w-]+")
#: What rows raise that no host writes, and objects that are gone or were changed.
ODD: Final = (FleetError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, zlib.error)
_NONCE: Final = bytes(12)  # a key seals one text only
_TAG_BYTES: Final = 16
_CONNECT_S, _READ_S = 5.0, 30.0
_LOOK: Final = "see that LCM_FLEET_OBJECTS says https://KEY:SECRET@HOST/BUCKET/PREFIX, and that the store answers"


class Objects:
    """One place in an object store. ``url``: with key and secret, or ``file:`` and the path of a file that holds it."""

    def __init__(self, url: str) -> None:
        self._url = url

    @cached_property
    def _place(self) -> re.Match[str]:
        found = re.fullmatch(_URL, connection_string(self._url, "LCM_FLEET_OBJECTS"))
        if found is None:
            raise FleetError("LCM_FLEET_OBJECTS names no place in an object store", _LOOK)
        return found

    @cached_property
    def _client(self) -> Any:
        try:
            minio, urllib3 = import_module("minio"), import_module("urllib3")
        except ImportError as exc:
            raise FleetError(
                "LCM_FLEET_OBJECTS is set, and minio is not installed", "in Hermes' environment: pip install minio"
            ) from exc
        at = self._place
        pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=_CONNECT_S, read=_READ_S), retries=urllib3.Retry(total=1)
        )
        return minio.Minio(
            at["host"], access_key=unquote(at["key"]), secret_key=unquote(at["secret"]), secure=at["scheme"] == "https",
            region=at["region"] or "us-east-1", http_client=pool,
        )  # fmt: skip

    def _named(self, name: str) -> dict[str, str]:
        prefix = (self._place["prefix"] or "").strip("/")
        return {"bucket_name": self._place["bucket"], "object_name": f"{prefix}/{name}".lstrip("/")}

    # -- objects ------------------------------------------------------------------------------------------
    def put(self, name: str, data: bytes) -> None:
        """Store an object, or the same again. Raises FleetUnavailable, as all of these do."""
        with _translated():
            self._client.put_object(**self._named(name), data=io.BytesIO(data), length=len(data))

    def put_file(self, name: str, path: Path) -> None:
        """Store a file as it is."""
        with _translated(path):
            self._client.fput_object(**self._named(name), file_path=str(path))

    def get(self, name: str) -> bytes:
        """An object."""
        with _translated():
            answer = self._client.get_object(**self._named(name))
            try:
                return bytes(answer.read())
            finally:
                answer.close()
                answer.release_conn()

    def get_file(self, name: str, path: Path) -> None:
        """An object as a file."""
        with _translated(path):
            self._client.fget_object(**self._named(name), file_path=str(path))

    def names(self, beginning: str) -> list[str]:
        """Names that begin so, in order."""
        place = self._named("")["object_name"]
        with _translated():
            found = self._client.list_objects(
                self._place["bucket"], prefix=self._named(beginning)["object_name"], recursive=True
            )
            return sorted(str(each.object_name).removeprefix(place) for each in found)

    def remove(self, name: str) -> None:
        """Remove an object; one that is not there is no error."""
        with _translated():
            self._client.remove_object(**self._named(name))

    # -- stored JSON ----------------------------------------------------------------------------------------
    def keep(self, number: int, packed: bytes, nonce: str) -> bytes:
        """Store a message's stored JSON: what its row holds instead. ``nonce``: its conversation's, which no name tells."""
        key = hashlib.sha256(nonce.encode() + b"\0" + packed).digest()
        name = f"{_of(number, nonce)}{hashlib.sha256(key).hexdigest()[:32]}"
        sealed, tag = cipher(key).encrypt_and_digest(packed)
        self.put(name, tag + sealed)
        return _ELSEWHERE + json.dumps({"object": name, "key": key.hex()}).encode()

    def fetch(self, reference: bytes) -> bytes:
        """The stored JSON that a row names. Raises one of ``ODD`` where the object is gone or changed, or the row names none."""
        said = json.loads(reference[1:])
        if not _NAME.fullmatch(said["object"]):
            raise FleetError("it names an object that no host stored")
        data = self.get(said["object"])
        try:
            return bytes(cipher(bytes.fromhex(said["key"])).decrypt_and_verify(data[_TAG_BYTES:], data[:_TAG_BYTES]))
        except ValueError as exc:
            raise FleetError(f"object {said['object']} is not what was stored", "put it back from a copy") from exc

    def forget(self, number: int, nonce: str, but: bytes = b"") -> int:
        """Remove what was ever stored of a message, but what its row still names: how many objects."""
        kept = json.loads(but[1:])["object"] if is_elsewhere(but) else ""
        gone = [name for name in self.of(number, nonce) if name != kept]
        for name in gone:
            self.remove(name)
        return len(gone)

    def of(self, number: int, nonce: str) -> list[str]:
        """Names of the objects of a message."""
        return self.names(_of(number, nonce))


def is_elsewhere(stored_json: bytes) -> bool:
    """Does a row hold a reference instead of its stored JSON?"""
    return stored_json[:1] == _ELSEWHERE


def fetched(objects: Objects | None, stored_json: bytes) -> bytes:
    """Stored JSON as it was packed, wherever it lies."""
    if not is_elsewhere(stored_json):
        return stored_json
    if objects is None:
        raise FleetError("a message lies in the fleet's object store, and LCM_FLEET_OBJECTS is not set here", _LOOK)
    return objects.fetch(stored_json)


def objects_of(url: str) -> Objects | None:
    """The store that a setting names, if any."""
    return Objects(url) if url else None


def _of(number: int, nonce: str) -> str:
    """Prefix of the names of a message's objects. A number alone may be another conversation's, too."""
    return f"messages/{number}-{hashlib.sha256(f'{number} {nonce}'.encode()).hexdigest()[:16]}-"


def cipher(key: bytes) -> Any:
    """AES-256-GCM under a key that is used once."""
    aes = import_module("Crypto.Cipher.AES")
    return aes.new(key, aes.MODE_GCM, nonce=_NONCE)


@contextmanager
def _translated(path: Path | None = None) -> Iterator[None]:
    """Errors of the client as ours. Only their kind and code are told: a request's text holds the key. ``path``: our file."""
    minio, http = import_module("minio.error"), import_module("urllib3.exceptions")
    try:
        yield
    except minio.S3Error as exc:
        if exc.code == "NoSuchKey":  # time does not heal it, and it concerns nothing else
            raise FleetError(
                "it lies in the fleet's object store, and is not there", "put it back from a copy"
            ) from None
        raise FleetUnavailable(f"the fleet's object store refuses it: {exc.code}", _LOOK) from None
    except (minio.MinioException, http.HTTPError, OSError, ValueError) as exc:
        if path is not None and isinstance(exc, OSError) and is_of_a_disk(exc):
            raise StoreError(f"{path}: {exc.strerror}") from exc
        raise FleetUnavailable(f"the fleet's object store does not answer: {type(exc).__name__}", _LOOK) from None
