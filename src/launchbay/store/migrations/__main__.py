"""Apply the missing migrations to the database in LAUNCHBAY_MIGRATE_URL. Started by `launchbay.store.migrate`.

An argument names the revision to stop at; tests make databases of older versions so.
"""

import os
import sys
import time
from pathlib import Path

from alembic import command
from alembic.config import Config
from psycopg.errors import LockNotAvailable

from launchbay.store.migrate import URL_VARIABLE
from launchbay.store.upgrade_locks import ATTEMPTS, PAUSE_S


def main(revision: str) -> None:
    """Run Alembic on this directory, again and again while somebody uses the tables for long."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["url"] = os.environ[URL_VARIABLE]
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return command.upgrade(config, revision)
        except LockNotAvailable:
            if attempt == ATTEMPTS:
                raise
            time.sleep(PAUSE_S)
    return None


main(sys.argv[1] if len(sys.argv) > 1 else "head")
