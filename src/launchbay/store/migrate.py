"""Bring a database to the schema of this version of the product (promise 13).

Alembic and SQLAlchemy do the work in a process of their own (`python -m launchbay.store.migrations`), and only when
there is work: they cost 30 MB and half a second, too much for finding out that nothing is to be done.
Any number of servers may start at once: an advisory lock lets them through one by one, and the later find it done.

The queue's tables are not ours: the engine brings and upgrades them (`engine/queue_schema.py`), after this.
"""

import re
import subprocess
import sys
from importlib import resources

import psycopg

from launchbay.errors import CannotStart
from launchbay.process_environment import least_environment
from launchbay.store.pool import check_version, conninfo, shown

URL_VARIABLE = "LAUNCHBAY_MIGRATE_URL"  # not an argument, because the list of processes shows arguments
_WITHIN_S = 3600
_VERSION_FILE = re.compile(r"v(\d{4})_\w+\.py")


def upgrade(database_url: str) -> bool:
    """Apply the migrations that are missing; tell whether there were any. Blocks until they are done.

    Raises CannotStart when the database does not answer, is older than PostgreSQL 15, was upgraded by a newer version
    of the product, or a migration fails (which leaves the database as it was).
    """
    known = revisions()
    current = _current(database_url)
    if current == known[-1]:
        return False
    if current is not None:
        check_known(current, f"The database at {shown(database_url)}")
    run = subprocess.run(
        [sys.executable, "-m", "launchbay.store.migrations"],
        check=False,
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        # The operator's own variables for connections and certificates count here, as they do for the server.
        env={**least_environment(keep=("PG", "PYTHON", "SSL_")), URL_VARIABLE: conninfo(database_url)},
    )
    if run.returncode != 0:
        raise CannotStart(
            f"The database at {shown(database_url)} could not be brought to schema {known[-1]}:",
            run.stderr.strip().rpartition("\n")[2],
            "It is as it was before. Mend the cause and start again.",
        )
    return True


def check_known(revision: str, what: str) -> None:
    """Raise CannotStart for a schema that only a newer version of the product can have written."""
    known = revisions()
    if revision not in known:
        raise CannotStart(
            f"{what} has schema {revision}, and this version of the product knows {known[-1]} as the newest: a newer"
            " version has upgraded it.",
            "Start that version or a later one, or restore the backup made before the upgrade.",
        )


def revisions() -> list[str]:
    """Return the schema revisions that this version of the product knows, oldest first."""
    names = (entry.name for entry in resources.files("launchbay.store.migrations.versions").iterdir())
    return sorted(found[1] for name in names if (found := _VERSION_FILE.fullmatch(name)))


def _current(database_url: str) -> str | None:
    try:
        with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
            check_version(connection.info.server_version)
            row = connection.execute("SELECT to_regclass('alembic_version')").fetchone()
            if row is None or row[0] is None:
                return None
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            return None if row is None else str(row[0])
    except psycopg.Error as error:
        raise CannotStart(
            f"The database at {shown(database_url)} does not let us in: {str(error).strip()}",
            "Check LAUNCHBAY_DATABASE_URL, and that the server runs and knows the user.",
        ) from error
