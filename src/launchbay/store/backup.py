"""Backup of the whole database into one file, while it is in use, and its restoration into an empty one (promise 13).

PostgreSQL's own programs of the embedded wheel do the work: the file is what `pg_dump --format=custom` writes, one
consistent moment of everything, and `pg_restore` of any installation of that version or a later one can read it.
"""

import os
import re
import tempfile
from pathlib import Path

import psycopg

from launchbay.errors import CannotStart
from launchbay.store.database import conninfo, shown
from launchbay.store.postgres_programs import run, run_archive
from launchbay.store.schema import check_known

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
            run(database_url, ["pg_dump", *options, "--file", str(draft)], "The backup could not be made:")
            with draft.open("rb") as stream:
                os.fsync(stream.fileno())
                size = os.fstat(stream.fileno()).st_size
            os.link(draft, file)
    except OSError as error:
        raise CannotStart(f"The backup {file} cannot be written: {error}.", "Mend that, then try again.") from error
    return size


def restore(database_url: str, file: Path) -> str:
    """Bring an empty database to what a backup holds, all of it or nothing, and return the backup's schema revision.

    Raises CannotStart when the file is no backup or of a newer version of the product, or the database is not empty.
    """
    revision = _revision(database_url, file)
    check_known(revision, f"The backup {file}", _version(database_url, file))
    _check_empty(database_url)
    run_archive(database_url, file, f"{file} could not be restored:")
    return revision


def _revision(database_url: str, file: Path) -> str:
    arguments = ["pg_restore", "--data-only", "--table", _REVISION_TABLE, "--file", "-", str(file)]
    text = run(database_url, arguments, f"{file} cannot be read as a backup:")
    lines = text.splitlines()
    for place, line in enumerate(lines[:-1]):
        if line.startswith("COPY ") and _REVISION_TABLE in line:
            return lines[place + 1].strip()
    raise CannotStart(f"{file} is a PostgreSQL dump, but of no database of Launchbay.", "Choose another file.")


def _version(database_url: str, file: Path) -> str | None:
    """Return which version of the product the backup's schema is of, where it says so."""
    text = run(database_url, ["pg_restore", "--schema-only", "--file", "-", str(file)], f"{file} cannot be read:")
    found = _VERSION.search(text)
    return None if found is None else found[1]


def _check_empty(database_url: str) -> None:
    try:
        with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
            ).fetchone()
    except psycopg.Error as error:
        raise CannotStart(f"The database at {shown(database_url)} does not let us in: {str(error).strip()}") from error
    if row is None or row[0]:
        raise CannotStart(
            f"The database at {shown(database_url)} is not empty, and a restoration overwrites nothing.",
            "Restore into a new data directory (--data-dir) or a new database (--database-url).",
        )
