"""Backup of the whole database into one file, while it is in use, and its restoration into an empty one (promise 13).

PostgreSQL's own programs of the embedded wheel do the work: the file is what `pg_dump --format=custom` writes, one
consistent moment of everything, and `pg_restore` of any installation of that version or a later one can read it.
The wheel's programs can't use TLS. For a database that is reached through it, those of the machine connect.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from launchbay.errors import CannotStart
from launchbay.postgres import cluster
from launchbay.processes.run import minimal_environment, search_path
from launchbay.store.database import connection_parameters, redacted_url
from launchbay.store.schema import check_known, has_tables, major_version

_SERVICE = "launchbay"
# Values of `sslmode` that refuse a connection without TLS.
TLS_MODES = {"require", "verify-ca", "verify-full"}
_MAJOR = re.compile(r"\d+")
_SECTIONS = ("pre-data", "data", "post-data")
_REPORTED_LINES = 5
_CHUNK_BYTES = 1 << 20
# What other versions of PostgreSQL refuse, and no table of ours needs: a parameter that there is from 17 on, and a mark
# that servers since November 2026 (15.20 and its kin) put on columns for themselves.
_FOREIGN = re.compile(rb"SET transaction_timeout = 0;|ALTER TABLE ONLY \S+ ALTER COLUMN \S+ SET \(pg_attver=\d+\);")


def _run(command: list[str], variables: dict[str, str], failed: str) -> str:
    """Run a program and return what it prints.

    Raises CannotStart, with `failed` before the reason.
    """
    done = subprocess.run(  # noqa: S603 - PostgreSQL's programs with our own arguments
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        umask=0o077,
        env=variables,
    )
    if done.returncode != 0:
        raise _failure(failed, done.stderr)
    return done.stdout.decode("utf-8", "replace")


def _run_archive(database_url: str, archive: Path, failed: str) -> None:
    """Run an archive of pg_dump in one transaction, which a violated constraint or a bad file rolls back.

    `pg_restore` prints the archive as SQL, and `psql` runs it without the statements that it may not know.
    Raises CannotStart, with `failed` before the reason.
    """
    psql_path = client_program("psql", database_url)
    with _variables(database_url) as variables, tempfile.TemporaryFile() as errors:
        options = ["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]
        with subprocess.Popen(  # noqa: S603 - the same, with options of our own
            [psql_path, *options], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, env=variables
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
            [_built_in("pg_restore"), *options, str(archive)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_without_database(),
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


def _built_in(name: str) -> str:
    return str(cluster.binaries() / name)


def client_program(name: str, database_url: str) -> str:
    """Return the path of the program that connects to the database.

    Raises CannotStart if the URL asks for TLS, and the machine has no program of at least the server's version.
    """
    mode = connection_parameters(database_url).get("sslmode")
    if mode not in TLS_MODES:
        return _built_in(name)
    wanted = major_version(database_url)
    install = (
        f"Install the package postgresql-client-{wanted} or newer: Debian, Ubuntu and https://apt.postgresql.org have"
        " it. If it is installed, put its directory first in PATH."
    )
    path = shutil.which(name, path=search_path())
    if path is None:
        raise CannotStart(f"The database's URL has sslmode={mode}, and no {name} that can use TLS is in PATH.", install)
    version = _run([path, "--version"], _without_database(), f"{path} can't run:")
    found = _MAJOR.search(version)
    if found is None or int(found[0]) < wanted:
        raise CannotStart(f"The database is PostgreSQL {wanted}, and {path} is older: {version.strip()}.", install)
    return path


def _failure(failed: str, errors: bytes) -> CannotStart:
    return CannotStart(failed, *errors.decode("utf-8", "replace").strip().splitlines()[-_REPORTED_LINES:])


def _without_database() -> dict[str, str]:
    return minimal_environment(path=os.defpath, LC_ALL="C")


@contextmanager
def _variables(database_url: str) -> Iterator[dict[str, str]]:
    """Tell the connection through a private file: everybody may read the arguments of a process."""
    given = {**connection_parameters(database_url), "options": "-c statement_timeout=0 -c timezone=UTC"}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "service.conf"
        path.write_text(
            "\n".join([f"[{_SERVICE}]", *(f"{name}={value}" for name, value in given.items()), ""]), "utf-8"
        )
        file = {"PGSERVICEFILE": str(path), "PGSERVICE": _SERVICE}
        yield minimal_environment(path=os.defpath, LC_ALL="C", **file)


# The schema's record (`store/schema.py`) has one row; this is what pg_restore's text of it looks like.
_REVISION_TABLE = "alembic_version"
_VERSION = re.compile(rf"^COMMENT ON TABLE public\.{_REVISION_TABLE} IS 'Launchbay ([^']+)'", re.MULTILINE)


def back_up(database_url: str, file: Path) -> int:
    """Write a backup and return its size in bytes; the file is there when it is whole and on the disk, or not at all.

    Raises CannotStart when the file exists, or the database or the disk refuses.
    """
    if file.exists():
        raise CannotStart(f"{file} is there already, and a backup overwrites nothing.", "Choose another name.")
    try:
        # In a directory of its own until it is whole: linking it to its place can only succeed or find one there.
        with tempfile.TemporaryDirectory(dir=file.absolute().parent, prefix=f".{file.name}.") as directory:
            draft = Path(directory) / file.name
            options = ["--format=custom", "--no-owner", "--no-privileges", "--no-unlogged-table-data"]
            command = [client_program("pg_dump", database_url), *options, "--file", str(draft)]
            with _variables(database_url) as variables:
                _run(command, variables, "The backup could not be made:")
            with draft.open("rb") as stream:
                os.fsync(stream.fileno())
                size = os.fstat(stream.fileno()).st_size
            os.link(draft, file)
    except OSError as error:
        raise CannotStart(f"Can't write the backup {file}: {error}.", "Fix the cause, then retry.") from error
    return size


def restore(database_url: str, file: Path) -> str:
    """Bring an empty database to what a backup holds, all of it or nothing, and return the backup's schema revision.

    Raises CannotStart if the file isn't a backup or comes from a newer version, or if the database isn't empty.
    """
    revision = checked_revision(file)
    _check_empty(database_url)
    _run_archive(database_url, file, f"{file} could not be restored:")
    return revision


def checked_revision(file: Path) -> str:
    """Return the schema revision of a backup. Needs no database.

    Raises CannotStart if the file isn't a backup or comes from a newer version.
    """
    revision = _revision(file)
    check_known(revision, f"The backup {file}", _version(file))
    return revision


def _revision(file: Path) -> str:
    command = [_built_in("pg_restore"), "--data-only", "--table", _REVISION_TABLE, "--file", "-", str(file)]
    text = _run(command, _without_database(), f"{file} cannot be read as a backup:")
    lines = text.splitlines()
    for place, line in enumerate(lines[:-1]):
        if line.startswith("COPY ") and _REVISION_TABLE in line:
            return lines[place + 1].strip()
    raise CannotStart(f"{file} is a PostgreSQL dump, but of no database of Launchbay.", "Choose another file.")


def _version(file: Path) -> str | None:
    """Return which version of the product the backup's schema is of, where it says so."""
    text = _run(
        [_built_in("pg_restore"), "--schema-only", "--file", "-", str(file)],
        _without_database(),
        f"{file} cannot be read:",
    )
    found = _VERSION.search(text)
    return None if found is None else found[1]


def _check_empty(database_url: str) -> None:
    if has_tables(database_url):
        raise CannotStart(
            f"The database at {redacted_url(database_url)} is not empty, and a restoration overwrites nothing.",
            "Restore into a new data directory (--data-dir) or a new database (--database-url).",
        )
