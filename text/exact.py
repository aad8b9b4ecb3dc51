"""
Exact token counts, where ``tiktoken`` is installed and its tables lie on this machine.

``tiktoken`` fetches a table that it does not find, and one that is damaged. It is therefore asked only when the file is there
under the name it looks for, with the digest it expects. Owns nothing but the loaded encoding; loading it takes a third of a
second and is done on a thread.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Callable
from hashlib import sha1, sha256
from pathlib import Path
from typing import Any, Final

Count = Callable[[str], int]

_URL: Final = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
#: Best first: what current models of the family use, and what their predecessors did. Name and digest of the table.
ENCODINGS: Final = (
    ("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
    ("cl100k_base", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"),
)


def table_path(cache: Path, encoding: str) -> Path:
    """Where ``tiktoken`` looks for a table."""
    return cache / sha1(_URL.format(encoding).encode(), usedforsecurity=False).hexdigest()


def local_encoding(cache: Path | None) -> str | None:
    """The best encoding that can be loaded without the network, or None."""
    if cache is None or importlib.util.find_spec("tiktoken") is None:
        return None
    for name, digest in ENCODINGS:
        try:
            table = table_path(cache, name).read_bytes()
        except OSError:
            continue
        if sha256(table).hexdigest() == digest:
            return name
    return None


class Exact:
    """Counts by ``tiktoken`` once it is loaded, by ``estimate`` before and where it cannot be. ``cache``: its table folder."""

    def __init__(self, estimate: Count, cache: Callable[[], Path | None]) -> None:
        self._estimate = estimate
        self._cache = cache
        self._encoding: Any = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def __call__(self, text: str) -> int:
        """Tokens of a text. The first call starts the loading."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._load, name="lcm-tokens", daemon=True)
                    self._thread.start()
        encoding = self._encoding
        return len(encoding.encode_ordinary(text)) if encoding is not None else self._estimate(text)

    @property
    def name(self) -> str:
        """Which counts these are, for status."""
        return f"tiktoken {self._encoding.name}" if self._encoding is not None else "estimate by byte class"

    def wait(self, timeout_s: float) -> None:
        """Until the loading is over; for tests."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _load(self) -> None:
        name = local_encoding(self._cache())
        if name is None:
            return
        try:
            self._encoding = importlib.import_module("tiktoken").get_encoding(name)
        except (ImportError, OSError, ValueError):
            return  # an estimate will do
