"""Bring a database to the schema of this version of the product (promise 13).

Alembic and SQLAlchemy do the work in a process of their own (`python -m launchbay.store.migrations`), and only when
there is work: they cost 30 MB and half a second, too much for finding out that nothing is to be done.
Any number of servers may start at once: an advisory lock lets them through one by one, and the later find it done.
Servers of the version before go on meanwhile and afterwards (docs/decisions/0085-old-beside-new.md).

The queue's tables are not ours: the engine brings and upgrades them (`engine/queue_schema.py`), after this.
"""

import re
import subprocess
import sys
from importlib import resources
from typing import Any, LiteralString, NamedTuple

import psycopg

from launchbay import __version__
from launchbay.errors import CannotStart
from launchbay.process_environment import least_environment
from launchbay.store.pool import check_version, conninfo, shown

STARTING = "launchbay start"  # the name of connections that are no server's yet
URL_VARIABLE = "LAUNCHBAY_MIGRATE_URL"  # not an argument, because the list of processes shows arguments
# The oldest schema whose servers may run on beside this version. Tests hold their statements to today's schema.
OLDEST_BESIDE = "0013"
_WITHIN_S = 3600
_BY = "Launchbay "  # what env.py writes beside the revision, before the version
_SERVERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'launchbay'"
_VERSION_FILE = re.compile(r"v(\d{4})_\w+\.py")


def upgrade(database_url: str) -> bool:
    """Apply the migrations that are missing; tell whether there were any. Blocks until they are done.

    Raises CannotStart when the database does not answer, is older than PostgreSQL 15, was upgraded by a newer version
    of the product, or a migration fails (which leaves the database as it was).
    """
    known = revisions()
    found = _look(database_url)
    if found.revision == known[-1]:
        return False
    if found.revision is not None:
        check_known(found.revision, f"The database at {shown(database_url)}", found.version)
        if found.revision < OLDEST_BESIDE and found.servers:
            raise CannotStart(
                f"{found.servers} connections of servers and workers of an older version are open to the database at"
                f" {shown(database_url)}, whose schema {found.revision} is older than {OLDEST_BESIDE}: they would not"
                " work correctly after the upgrade.",
                "Stop them all, then start this version.",
            )
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


def check_known(revision: str, what: str, version: str | None) -> None:
    """Raise CannotStart for a schema that only a newer version of the product can have written.

    `version` is the one that did, where it is known.
    """
    known = revisions()
    if revision not in known:
        if version == __version__:
            version = None  # a later state of the source under the same number
        who = f"Launchbay {version}" if version else "a newer version"
        raise CannotStart(
            f"{what} has schema {revision}, and this version of the product, {__version__}, knows {known[-1]} as the"
            f" newest: {who} has upgraded it.",
            f"Start {'that version' if version is None else version} or a later one, or restore the backup made before"
            " the upgrade.",
        )


def revisions() -> list[str]:
    """Return the schema revisions that this version of the product knows, oldest first."""
    names = (entry.name for entry in resources.files("launchbay.store.migrations.versions").iterdir())
    return sorted(found[1] for name in names if (found := _VERSION_FILE.fullmatch(name)))


class _Found(NamedTuple):
    """What there is before an upgrade: the schema, who wrote it, and connections of servers that work with it."""

    revision: str | None
    version: str | None
    servers: int


def _look(database_url: str) -> _Found:
    """Return how the database is. The servers are counted first: they are of the schema that is found after them."""
    try:
        with psycopg.connect(conninfo(database_url), autocommit=True, application_name=STARTING) as connection:
            check_version(connection.info.server_version)
            servers = _one(connection, _SERVERS) or 0
            if _one(connection, "SELECT to_regclass('alembic_version')") is None:
                return _Found(None, None, servers)
            said = str(_one(connection, "SELECT obj_description('alembic_version'::regclass)") or "")
            version = said.removeprefix(_BY) if said.startswith(_BY) else None
            return _Found(_one(connection, "SELECT version_num FROM alembic_version"), version, servers)
    except psycopg.Error as error:
        raise CannotStart(
            f"The database at {shown(database_url)} does not let us in: {str(error).strip()}",
            "Check LAUNCHBAY_DATABASE_URL, and that the server runs and knows the user.",
        ) from error


def _one(connection: psycopg.Connection, statement: LiteralString) -> Any:
    row = connection.execute(statement).fetchone()
    return None if row is None else row[0]
