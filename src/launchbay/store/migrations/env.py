"""Alembic's entry: one connection, one lock, one transaction for all missing migrations."""

import psycopg
from alembic import context
from psycopg import sql
from sqlalchemy import create_engine, pool

from launchbay import __version__
from launchbay.store.upgrade_locks import LOCK_TIMEOUT_MS

# Any number that nothing else in the database locks: "launchba" in bytes. The queue's schema has its own.
LOCK = 0x6C61_756E_6368_6261


def run(url: str) -> None:
    """Migrate the database. Whoever comes second waits at the lock, and then finds nothing left to do.

    Raises LockNotAvailable when somebody uses a table for longer than that time; nothing has happened then.
    """

    def connect() -> psycopg.Connection:
        connection = psycopg.connect(url, autocommit=True, application_name="launchbay migrate")
        # A migration of a large table may take its time, and so may the wait for those who migrate already.
        connection.execute("SET statement_timeout = 0")
        connection.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        connection.execute(f"SET lock_timeout = {LOCK_TIMEOUT_MS}")
        connection.autocommit = False
        return connection

    engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=pool.NullPool)
    with engine.connect() as connection:
        context.configure(connection=connection, transactional_ddl=True)
        with context.begin_transaction():
            context.run_migrations()
            # For a version that is too old for the result: it can say which one to start (`migrate.check_known`).
            driver = connection.connection.driver_connection
            assert driver is not None, "an upgrade has a connection"
            driver.execute(sql.SQL("COMMENT ON TABLE alembic_version IS {}").format(f"Launchbay {__version__}"))


run(context.config.attributes["url"])
