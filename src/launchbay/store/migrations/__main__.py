"""Apply the missing migrations to the database in LAUNCHBAY_MIGRATE_URL. Started by `launchbay.store.migrate`."""

import os
from pathlib import Path

from alembic import command
from alembic.config import Config

from launchbay.store.migrate import URL_VARIABLE


def main() -> None:
    """Run Alembic on this directory."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["url"] = os.environ[URL_VARIABLE]
    command.upgrade(config, "head")


main()
