"""
The connection to the shared server: opening it, its schema's version, and its errors in our words.

The only module that imports psycopg, when a connection is asked for. No text of an error here holds the connection string.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..config import revealed
from ..errors import FleetError, FleetUnavailable, FleetUnreachable
from .schema import LEAST_SERVER, PRIVATE, STEPS, VERSION

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from psycopg_pool import ConnectionPool

_FILE: Final = "file:"
_CONNECT_S: Final = 5
#: What the server does for us may take; a lost one is noticed by TCP in about that time, too.
STATEMENT_MS: Final = 60_000
#: Beyond that, a line on which nothing comes is given up: a server that is gone says nothing, its own limit included.
SILENCE_S: Final = STATEMENT_MS / 1000 + 10.0
_LOCK_MS: Final = 5_000
_INSTALL: Final = "in Hermes' environment: pip install 'psycopg[binary,pool]'"
_INIT: Final = "let the operator of the server run `hermes lcm fleet init` with this release"
_ANEW: Final = (
    "let LCM_FLEET_DSN name an empty database, and begin anew: `hermes lcm fleet init`, then again for each host"
)
_LOOK: Final = "see that the server runs, that LCM_FLEET_DSN names it, and that its role may log in"
_LOCKED: Final = "try again; on the server, `SELECT pid, usename, query FROM pg_stat_activity` shows who may keep it"
#: Held while the schema is made or changed: two operators at once.
_SCHEMA_LOCK: Final = 0x6C636D


def connection_string(dsn: str, setting: str = "LCM_FLEET_DSN") -> str:
    """The connection string that a setting names. Raises FleetError where its file cannot be read."""
    text = revealed(dsn)
    if not text.startswith(_FILE):
        return text
    path = Path(text.removeprefix(_FILE)).expanduser()
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise FleetError(
            f"{setting} names a file that cannot be read: {path}", "see that it is there, for this user"
        ) from exc


class Server:
    """The shared server as one role sees it. Thread-safe; nothing is opened before it is used."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = threading.Lock()
        self._pool: ConnectionPool[Any] | None = None

    @contextmanager
    def connected(self, *, silence_s: float | None = None) -> Iterator[Connection[tuple[Any, ...]]]:
        """A connection of its own. Raises FleetUnavailable, and FleetError for what time does not heal.

        ``silence_s``: one answer may take so long; None: ``SILENCE_S``.
        """
        with translated(), _impatient().connect(self._conninfo(), autocommit=True) as connection:
            connection.silence_s = SILENCE_S if silence_s is None else silence_s
            yield connection

    @contextmanager
    def checked(self, *, silence_s: float | None = None) -> Iterator[Connection[tuple[Any, ...]]]:
        """As ``connected``. Raises FleetError where server or schema are not those that this release works with."""
        with self.connected(silence_s=silence_s) as connection:
            refuse_other_versions(connection)
            yield connection

    @contextmanager
    def session(self, *, wait_s: float) -> Iterator[Cursor[tuple[Any, ...]]]:
        """A cursor of the pool, in a transaction, for short questions. ``wait_s``: for a connection, and for each answer."""
        with translated(), self._pooled().connection(timeout=wait_s) as connection, connection.cursor() as cursor:
            connection.silence_s = wait_s
            cursor.execute(f"SET LOCAL statement_timeout = {int(wait_s * 1000)}")
            yield cursor

    def dsn_of(self, role: str, password: str) -> str:
        """The connection string of another role of the same server."""
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        with translated():
            return make_conninfo(
                "", **{**conninfo_to_dict(connection_string(self._dsn)), "user": role, "password": password}
            )

    def close(self) -> None:
        """End the pool."""
        with self._lock:
            if self._pool is not None:
                self._pool.close(timeout=1.0)
            self._pool = None

    def _pooled(self) -> ConnectionPool[Any]:
        from psycopg_pool import ConnectionPool

        with self._lock:
            if self._pool is None:
                self._pool = ConnectionPool(
                    self._conninfo(),
                    connection_class=_impatient(),
                    min_size=0,
                    max_size=4,
                    open=True,
                    max_idle=60.0,
                    reconnect_timeout=1.0,
                    name="lcm-fleet",
                )
            return self._pool

    def _conninfo(self) -> str:
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        given: dict[str, Any] = conninfo_to_dict(connection_string(self._dsn))
        limits = f"-c statement_timeout={STATEMENT_MS} -c lock_timeout={_LOCK_MS} -c search_path=pg_catalog"
        ours = {"application_name": "hermes-lcm", "connect_timeout": _CONNECT_S, "tcp_user_timeout": STATEMENT_MS}
        return make_conninfo("", **{**ours, **given, "options": f"{limits} {given.get('options') or ''}"})


@cache
def _impatient() -> Any:
    """The driver's connection, which gives a line up on which no answer comes in time: nothing else ends such a wait."""
    with translated():
        import psycopg

    class Impatient(psycopg.Connection[tuple[Any, ...]]):
        silence_s = SILENCE_S

        def wait(self, gen: Any, *args: Any, **more: Any) -> Any:
            try:
                return super().wait(_limited(gen, time.monotonic() + self.silence_s), *args, **more)
            except TimeoutError:
                self.close()  # else the driver would ask the silent server to roll back
                raise psycopg.OperationalError(f"no answer in {self.silence_s:g} s") from None

    return Impatient


def _limited(steps: Generator[Any, Any, Any], end: float) -> Generator[Any, Any, Any]:
    """The driver's steps of one exchange; it looks in ten times a second, and says with 0 that nothing came."""
    ready = None
    while True:
        try:
            wanted = steps.send(ready)
        except StopIteration as done:
            return done.value
        ready = yield wanted
        if not ready and time.monotonic() >= end:
            raise TimeoutError


@contextmanager
def translated() -> Iterator[None]:
    """Errors of the driver as ours. What a server said is told but for its details, which may quote a row."""
    try:
        import psycopg
        import psycopg_pool
    except ImportError as exc:
        raise FleetError("LCM_FLEET_DSN is set, and psycopg is not installed", _INSTALL) from exc
    try:
        yield
    except psycopg.errors.LockNotAvailable as exc:
        raise FleetUnavailable(
            "another connection to the fleet's server keeps a lock there for too long", _LOCKED
        ) from exc
    except (psycopg.OperationalError, psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed) as exc:
        kind = FleetUnavailable if exc.sqlstate else FleetUnreachable  # what has one, the server said itself
        raise kind(f"the fleet's server cannot be reached or does not answer: {said(exc)}", _LOOK) from exc
    except (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction) as exc:
        raise FleetError(f"the fleet's database lacks what this release needs: {said(exc)}", _INIT) from exc
    except psycopg.errors.InsufficientPrivilege as exc:
        raise FleetError(f"the fleet's server refuses this role: {said(exc)}", _LOOK) from exc
    except psycopg.Error as exc:
        # Of the connection string, which it may quote.
        if isinstance(exc, psycopg.ProgrammingError) and exc.sqlstate is None:
            raise FleetError("LCM_FLEET_DSN is not a connection string of PostgreSQL", _LOOK) from None
        raise FleetError(f"the fleet's server refuses a statement: {said(exc)}") from exc


def refuses(exc: BaseException) -> bool:
    """Is it the server's word that a role may not do something?"""
    return getattr(exc, "sqlstate", None) == "42501"


def cannot_hold(exc: BaseException) -> bool:
    """Is it about a value that the server holds in no row: too long for an index, out of range, a NUL in a text?"""
    import psycopg

    return isinstance(exc, psycopg.DataError) or (getattr(exc, "sqlstate", None) or "").startswith("54")


def said(exc: BaseException) -> str:
    """What a server said of an error, but for its details, which may quote a row."""
    primary = getattr(getattr(exc, "diag", None), "message_primary", None)
    return str(primary or str(exc).partition("\n")[0] or type(exc).__name__)


def refuse_other_versions(connection: Connection[tuple[Any, ...]]) -> None:
    """Raise FleetError where server or schema are not those that this release works with."""
    version = connection.info.server_version
    if version < LEAST_SERVER:
        raise FleetError(
            f"the fleet's server is PostgreSQL {version // 10000}; 15 is the oldest that works", "update it"
        )
    found = _version(connection)
    _refuse_unreleased(found)
    if found < VERSION:
        raise FleetError(f"the fleet's schema is version {found}; this release needs {VERSION}", _INIT)
    if found > VERSION:
        raise FleetError(
            f"the fleet's schema is version {found}; this release knows {VERSION}", "update the plugin on this host"
        )


def _refuse_unreleased(version: int) -> None:
    if 0 < version < min(STEPS):
        raise FleetError(f"the fleet's schema is version {version}, which no release wrote", _ANEW)


def _version(connection: Connection[tuple[Any, ...]]) -> int:
    row = connection.execute("SELECT to_regclass('lcm.meta') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        return 0
    row = connection.execute("SELECT value FROM lcm.meta WHERE key = 'schema'").fetchone()
    return int(row[0]) if row else 0


def migrate(connection: Connection[tuple[Any, ...]]) -> tuple[int, int]:
    """Bring the schema to this release's version: (version before, version now). Each step is one transaction."""
    if connection.info.server_version < LEAST_SERVER:
        refuse_other_versions(connection)
    before = _version(connection)
    _refuse_unreleased(before)
    for number, step in STEPS.items():
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            if _version(connection) < number:
                connection.execute(step)
                connection.execute(
                    "INSERT INTO lcm.meta VALUES ('schema', %s) ON CONFLICT(key) DO UPDATE SET value = excluded.value",
                    (str(number),),
                )
    return before, max(before, VERSION)


def add_host(
    connection: Connection[tuple[Any, ...]],
    role: str,
    password: str,
    realm: str,
    patterns: tuple[str, ...],
    write_down: Callable[[], object] = lambda: None,
) -> None:
    """A login role for one host, and what it may see: its own realm, and these principals of the shared one.

    ``patterns``: of LIKE. ``write_down`` keeps the password; where it raises, the role is as it was. A role that is there gets
    the new password and these rights instead of its old ones; settings that it has on the server go, and whoever is connected as
    it is sent away: any of them may be a thief's.
    """
    from psycopg import sql

    with connection.transaction():
        known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
        verb = "ALTER" if known else "CREATE"
        connection.execute(
            sql.SQL(verb + " ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD {}").format(
                sql.Identifier(role), sql.Literal(password)
            )
        )
        here = connection.execute("SELECT current_database()").fetchone() or ("",)
        for where in (sql.SQL(""), sql.SQL("IN DATABASE {}").format(sql.Identifier(here[0]))):
            connection.execute(sql.SQL("ALTER ROLE {} {} RESET ALL").format(sql.Identifier(role), where))
        connection.execute(sql.SQL("GRANT lcm_member TO {}").format(sql.Identifier(role)))
        connection.execute(
            "INSERT INTO lcm.hosts(role, realm) VALUES (%s, %s) ON CONFLICT(role) DO UPDATE SET realm = excluded.realm",
            (role, realm),
        )
        connection.execute("DELETE FROM lcm.grants WHERE role = %s", (role,))
        rows = [(role, f"{PRIVATE}{role}", "%"), *((role, realm, pattern) for pattern in patterns)]
        connection.cursor().executemany("INSERT INTO lcm.grants VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", rows)
        write_down()
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s AND pg_has_role(usesysid, 'USAGE')",
        (role,),
    )
