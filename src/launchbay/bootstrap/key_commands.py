"""The command `rotate-secret-key`."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from launchbay.auth.secret_key import FORMER, NEXT, KeyFile, new_key, read_secret_key
from launchbay.bootstrap.options import config_option, data_option, database_option, read_settings
from launchbay.bootstrap.parts import prepare as prepare_database
from launchbay.errors import CannotStart
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.settings import Settings
from launchbay.store.database import Database
from launchbay.usecases.sealing import Resealed, reseal

Line = tuple[str, bytes]


@click.command("rotate-secret-key")
@config_option
@data_option
@database_option
@click.option("--prepare", is_flag=True, help="Only add the next key to the file, to be copied to other servers first.")
@click.option("--finish", is_flag=True, help="Seal what is left with the key, then take former keys out of the file.")
def rotate(config: Path | None, prepare: bool, finish: bool, **given: Any) -> None:  # noqa: FBT001 - click hands flags over so
    """Seal everything in the database with a new secret key; servers go on working meanwhile."""
    settings = read_settings(config, given)
    file = KeyFile(settings.key_file())
    if prepare and finish:
        raise click.UsageError("Give --prepare or --finish, not both.")
    try:
        if prepare:
            _prepare(file)
        elif finish:
            _finish(settings, file)
        else:
            _rotate(settings, file)
    except CannotStart as error:
        click.echo("\n".join(error.sentences), err=True)
        sys.exit(1)


def _prepare(file: KeyFile) -> None:
    lines = file.lines()
    if any(word == NEXT for word, _ in lines):
        raise CannotStart(f"{file.path} has a next key already.", "Copy it to the other servers, then rotate.")
    file.write([*lines, (NEXT, new_key())])
    click.echo(f"{file.path} has a next key now, which opens and does not seal yet.")
    click.echo("Copy the file to all other servers, then run this command without --prepare on one of them.")


def _rotate(settings: Settings, file: KeyFile) -> None:
    lines = file.lines()
    sealing = next((key for word, key in lines if word == NEXT), None) or new_key()
    former = [(FORMER, key) for word, key in lines if word != NEXT]
    _on_database(settings, lambda url: _write_and_reseal(url, file, [("", sealing), *former]))
    click.echo(f"{file.path} keeps the former key for now. Copy the file to all other servers.")
    click.echo("When all have it, run: launchbay rotate-secret-key --finish")


def _finish(settings: Settings, file: KeyFile) -> None:
    lines = file.lines()
    if not any(word == FORMER for word, _ in lines):
        raise CannotStart(f"{file.path} has no former key.", "There is nothing to finish.")
    _on_database(settings, lambda url: _write_and_reseal(url, file, lines))
    file.write([line for line in lines if line[0] != FORMER])
    click.echo(f"{file.path} has no former key any more. Backups from before the rotation need it: keep it with them.")


def _write_and_reseal(database_url: str, file: KeyFile, lines: Sequence[Line]) -> None:
    asyncio.run(prepare_database(database_url))
    # The file first: what servers seal from now on is sealed with the new key, so that none of it is left behind.
    file.write(lines)
    done = asyncio.run(_reseal(database_url, file.path))
    click.echo(f"Sealed {done.count} values anew.")
    for name, count in done.broken.items():
        if count:
            click.echo(f"{count} of {name} open with none of the keys and stay as they are.", err=True)


async def _reseal(database_url: str, file: Path) -> Resealed:
    async with Database(database_url, connections=2) as database:
        return await reseal(database, read_secret_key(file))


def _on_database(settings: Settings, work: Callable[[str], None]) -> None:
    if settings.database_url:
        work(settings.database_url)
    elif not (settings.data_dir / "postgres").exists():
        raise CannotStart(f"There is no database in {settings.data_dir}.", "Name its directory with --data-dir.")
    else:
        with EmbeddedPostgres.start(settings.data_dir, serving=False) as embedded:
            work(embedded.url)
