"""The commands `backup` and `restore`."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from launchbay.bootstrap.options import config_option, data_option, database_option, read_settings
from launchbay.bootstrap.parts import prepare
from launchbay.errors import CannotStart
from launchbay.postgres.backup import back_up
from launchbay.postgres.backup import restore as restore_database
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.settings import Settings

_file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@click.command()
@_file_argument
@config_option
@data_option
@database_option
def backup(file: Path, config: Path | None, **given: Any) -> None:
    """Write everything in the database to FILE, as of one moment; servers may go on working meanwhile."""
    settings = read_settings(config, given)
    _told(lambda: _backup(settings, file))


@click.command()
@_file_argument
@config_option
@data_option
@database_option
def restore(file: Path, config: Path | None, **given: Any) -> None:
    """Fill an empty data directory or database with a backup, and bring it to the schema of this version."""
    settings = read_settings(config, given)
    _told(lambda: _restore(settings, file))


def _backup(settings: Settings, file: Path) -> None:
    if settings.database_url:
        size = back_up(settings.database_url, file)
    else:
        if not (settings.data_dir / "postgres").exists():
            raise CannotStart(f"There is no database in {settings.data_dir}.", "Name its directory with --data-dir.")
        with EmbeddedPostgres.start(settings.data_dir, serving=False) as embedded:
            size = back_up(embedded.url, file)
    click.echo(f"Wrote {file}, {size / 1_000_000:.1f} MB.")
    key = settings.key_file()
    click.echo(f"It is of use only with the secret key, {key}, which is not in it: keep a copy of that elsewhere.")


def _restore(settings: Settings, file: Path) -> None:
    if not file.exists():
        raise CannotStart(f"There is no file {file}.")
    if settings.database_url:
        _fill(settings.database_url, file)
    else:
        with EmbeddedPostgres.start(settings.data_dir) as embedded:
            _fill(embedded.url, file)
    key = settings.key_file()
    if not key.exists():
        click.echo(f"Before you start the server, put the secret key that belongs to the backup at {key}.")


def _fill(database_url: str, file: Path) -> None:
    revision = restore_database(database_url, file)
    asyncio.run(prepare(database_url))
    click.echo(f"Restored {file}, of schema {revision}. Jobs that were under way in it go on when a server starts.")


def _told(work: Callable[[], None]) -> None:
    """Do the work; what keeps it from being done is told in sentences."""
    try:
        work()
    except CannotStart as error:
        click.echo("\n".join(error.sentences), err=True)
        sys.exit(1)
