"""PostgreSQL's own programs, of the embedded wheel, on any database."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from psycopg.conninfo import conninfo_to_dict

from launchbay.errors import CannotStart
from launchbay.processes.run import least_environment
from launchbay.store import cluster
from launchbay.store.database import conninfo

_SERVICE = "launchbay"
_SECTIONS = ("pre-data", "data", "post-data")
_TOLD_LINES = 5
_CHUNK_BYTES = 1 << 20
# What other versions of PostgreSQL refuse, and no table of ours needs: a parameter that there is from 17 on, and a mark
# that servers since November 2026 (15.20 and its kin) put on columns for themselves.
_FOREIGN = re.compile(rb"SET transaction_timeout = 0;|ALTER TABLE ONLY \S+ ALTER COLUMN \S+ SET \(pg_attver=\d+\);")


def run(database_url: str, arguments: list[str], failed: str) -> str:
    """Run a program on a database and return what it prints. Raises CannotStart, with `failed` before the reason."""
    with _variables(database_url) as variables:
        done = subprocess.run(  # noqa: S603 - PostgreSQL's programs with our own arguments
            [_program(arguments[0]), *arguments[1:]],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            umask=0o077,
            env=variables,
        )
    if done.returncode != 0:
        raise _failure(failed, done.stderr)
    return done.stdout.decode("utf-8", "replace")


def run_archive(database_url: str, archive: Path, failed: str) -> None:
    """Do what an archive of pg_dump says in one transaction: a row that breaks a rule ends it, and so does a bad file.

    `pg_restore` tells it as SQL and `psql` runs that, without what the version of the database may not know. Raises
    CannotStart, with `failed` before the reason.
    """
    with _variables(database_url) as variables, tempfile.TemporaryFile() as errors:
        options = ["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]
        with subprocess.Popen(  # noqa: S603 - the same, with options of our own
            [_program("psql"), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=variables,
        ) as psql:
            assert psql.stdin is not None
            # It ends early where the database refuses something, and tells what.
            with suppress(BrokenPipeError), psql.stdin as script:
                script.write(b"BEGIN;\n")
                for section in _SECTIONS:
                    _tell(archive, section, script, failed)
                # Without this nothing is left of it all, whoever dies before.
                script.write(b"COMMIT;\n")
        if psql.returncode != 0:
            errors.seek(0)
            raise _failure(failed, errors.read())


def _tell(archive: Path, section: str, script: IO[bytes], failed: str) -> None:
    options = ["--no-owner", "--no-privileges", f"--section={section}", "--file=-"]
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(  # noqa: S603 - the same, with options of our own
            [_program("pg_restore"), *options, str(archive)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=least_environment(path=os.defpath, LC_ALL="C"),
        ) as told:
            assert told.stdout is not None
            for chunk in _statements(told.stdout):
                script.write(chunk)
        if told.returncode != 0:
            errors.seek(0)
            raise _failure(failed, errors.read())


def _statements(sql: IO[bytes]) -> Iterator[bytes]:
    """Yield the SQL without what is foreign; rows of tables, which come last in their section, are not looked at."""
    for line in sql:
        if _FOREIGN.fullmatch(line.rstrip(b"\n")) is None:
            yield line
        if line.startswith(b"COPY "):
            break
    while chunk := sql.read(_CHUNK_BYTES):
        yield chunk


def _program(name: str) -> Path:
    return cluster.binaries() / name


def _failure(failed: str, errors: bytes) -> CannotStart:
    return CannotStart(failed, *errors.decode("utf-8", "replace").strip().splitlines()[-_TOLD_LINES:])


@contextmanager
def _variables(database_url: str) -> Iterator[dict[str, str]]:
    """Tell the connection through a private file: everybody may read the arguments of a process."""
    given = {**conninfo_to_dict(conninfo(database_url)), "options": "-c statement_timeout=0 -c timezone=UTC"}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "service.conf"
        path.write_text(
            "\n".join([f"[{_SERVICE}]", *(f"{name}={value}" for name, value in given.items()), ""]), "utf-8"
        )
        file = {"PGSERVICEFILE": str(path), "PGSERVICE": _SERVICE}
        yield least_environment(path=os.defpath, LC_ALL="C", **file)
