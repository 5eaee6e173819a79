"""Alembic's entry: one connection, one lock, one transaction for all missing migrations."""

import psycopg
from alembic import context
from sqlalchemy import create_engine, pool

# Any number that nothing else in the database locks: "launchba" in bytes. The queue's schema has its own.
LOCK = 0x6C61_756E_6368_6261


def run(url: str) -> None:
    """Migrate the database. Whoever comes second waits at the lock, and then finds nothing left to do."""

    def connect() -> psycopg.Connection:
        connection = psycopg.connect(url, autocommit=True)
        # A migration of a large table may take its time, and so may the wait for the lock.
        connection.execute("SET statement_timeout = 0")
        connection.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        connection.autocommit = False
        return connection

    engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=pool.NullPool)
    with engine.connect() as connection:
        context.configure(connection=connection, transactional_ddl=True)
        with context.begin_transaction():
            context.run_migrations()


run(context.config.attributes["url"])
