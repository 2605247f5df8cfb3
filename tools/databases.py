"""Private database servers for tests and benchmarks: made for a moment, reached by a socket in a temporary folder.

PostgreSQL and MariaDB come from Debian's packages `postgresql` and `mariadb-server`. Neither listens to a network;
both run as a user without rights if this program runs as root, which PostgreSQL demands, and are stopped at the end.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

#: Runs SQL and returns the cells of its last result as texts; NULL is an empty text.
Run = Callable[[str], list[list[str]]]

#: Seconds until a server must answer, and until a query must end.
_START, _QUERY = 60.0, 120.0


class MissingServerError(RuntimeError):
    """A server that is not installed."""


def _found(name: str, *folders: str) -> str:
    path = shutil.which(name) or next(
        iter(sorted([path for folder in folders for path in glob.glob(f"{folder}/{name}")])[::-1]), None
    )
    if path is None:
        raise MissingServerError(f"{name} is not installed")
    return path


def _as_nobody(folder: str) -> dict[str, str]:
    """What makes a process run without rights, in a folder that it may use."""
    if os.geteuid() != 0:
        return {}
    shutil.chown(folder, "nobody")
    return {"user": "nobody"}


@contextmanager
def _served(start: list[str], query: Callable[[str], list[str]], folder: str, user: dict[str, str]) -> Iterator[Run]:
    def run(sql: str) -> list[list[str]]:
        done = subprocess.run(query(sql), input=sql, capture_output=True, text=True, timeout=_QUERY)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-2000:])
        return [line.split("\t") for line in done.stdout.splitlines() if line]

    with open(os.path.join(folder, "log.txt"), "w") as log:
        server = subprocess.Popen(start, stdout=log, stderr=log, cwd=folder, **user)  # type: ignore[call-overload]
    try:
        deadline = time.monotonic() + _START
        while True:
            try:
                run("SELECT 1;")
                break
            except RuntimeError:
                if server.poll() is not None or time.monotonic() > deadline:
                    text = Path(folder, "log.txt").read_text()[-2000:]
                    raise RuntimeError(f"{start[0]} does not answer: {text}") from None
                time.sleep(0.2)
        yield run
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def postgres() -> Iterator[Run]:
    """A PostgreSQL server."""
    initdb, server = (_found(name, "/usr/lib/postgresql/*/bin") for name in ("initdb", "postgres"))
    client = _found("psql", "/usr/lib/postgresql/*/bin")
    with tempfile.TemporaryDirectory() as folder:
        user, data = _as_nobody(folder), os.path.join(folder, "data")
        make = [initdb, "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(make, check=True, capture_output=True, cwd=folder, timeout=_START, **user)  # type: ignore[call-overload]
        start = [server, "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        ask = [client, "-h", folder, "-U", "tester", "-d", "postgres", "-XqAt", "-F", "\t", "-v", "ON_ERROR_STOP=1"]
        with _served(start, lambda _: ask, folder, user) as run:
            yield run


@contextmanager
def mariadb() -> Iterator[Run]:
    """A MariaDB server with an empty database that is the default one."""
    server, client = _found("mariadbd", "/usr/sbin"), _found("mariadb")
    install = _found("mariadb-install-db")
    with tempfile.TemporaryDirectory() as folder:
        user, data, socket = _as_nobody(folder), os.path.join(folder, "data"), os.path.join(folder, "socket")
        make = [install, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
        subprocess.run(make, check=True, capture_output=True, cwd=folder, timeout=_START, **user)  # type: ignore[call-overload]
        start = [server, "--no-defaults", f"--datadir={data}", f"--socket={socket}", "--skip-networking"]
        start += ["--innodb-flush-log-at-trx-commit=0", "--character-set-server=utf8mb4"]
        ask = [client, "--no-defaults", f"--socket={socket}", "-uroot", "-BN", "--default-character-set=utf8mb4"]
        with _served(start, lambda sql: ask if sql == "SELECT 1;" else [*ask, "private"], folder, user) as run:
            subprocess.run(ask, input="CREATE DATABASE private;", check=True, text=True, timeout=_START)
            yield run


SERVERS = {"postgres": postgres, "mysql": mariadb}
