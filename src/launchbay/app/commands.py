"""Options that the commands on a database share, and the settings that come of them."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import click
import uvloop

from launchbay.app.build import App, check_secret_key, lifespan, prepare
from launchbay.app.build import prepare as prepare_database
from launchbay.auth.secret_key import FORMER, NEXT, KeyFile, new_key, read_secret_key
from launchbay.errors import CannotStart
from launchbay.postgres.backup import back_up
from launchbay.postgres.backup import restore as restore_database
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.settings import SettingError, Settings, load
from launchbay.store.database import Database
from launchbay.telemetry.logs import configure_logs
from launchbay.usecases.sealing import Resealed, reseal
from launchbay.web.server import serve as serve_http

config_option = click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="A TOML file with settings."
)
data_option = click.option("--data-dir", help="Where the embedded database lives. [default: ./data]")
database_option = click.option("--database-url", help="A PostgreSQL to use instead of the embedded one.")


def read_settings(config: Path | None, given: dict[str, Any]) -> Settings:
    """Return the settings; what is wrong with them is told as a mistake of the command line."""
    try:
        return load(file=config, overrides=given)
    except SettingError as error:
        raise click.ClickException(str(error)) from error


_file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@click.command()
@_file_argument
@config_option
@data_option
@database_option
def backup(file: Path, config: Path | None, **given: Any) -> None:
    """Write everything in the database to FILE, as of one moment; servers may go on working meanwhile."""
    settings = read_settings(config, given)
    _report_problems(lambda: _backup(settings, file))


@click.command()
@_file_argument
@config_option
@data_option
@database_option
def restore(file: Path, config: Path | None, **given: Any) -> None:
    """Fill an empty data directory or database with a backup, and bring it to the schema of this version."""
    settings = read_settings(config, given)
    _report_problems(lambda: _restore(settings, file))


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


def _report_problems(work: Callable[[], None]) -> None:
    """Do the work; what keeps it from being done is told in sentences."""
    try:
        work()
    except CannotStart as error:
        click.echo("\n".join(error.messages), err=True)
        sys.exit(1)


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
        click.echo("\n".join(error.messages), err=True)
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


@click.command()
@config_option
@click.option("--host", help="The address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=int, help="The port to listen on; 0 takes a free one. [default: 8080]")
@data_option
@database_option
@click.option("--no-engine", is_flag=True, help="Answer requests only; workers elsewhere run the jobs.")
def serve(config: Path | None, no_engine: bool, **given: Any) -> None:  # noqa: FBT001 - click hands flags over so
    """Run the API and the job engine in one process."""
    settings = read_settings(config, given)

    async def run(stop: asyncio.Event) -> None:
        async with lifespan(settings) as parts:
            await check_secret_key(parts, settings)
            _print_welcome(parts)
            async with asyncio.TaskGroup() as tasks:
                if not no_engine:
                    tasks.create_task(parts.engine.run(stop), name="engine")
                tasks.create_task(serve_http(parts.app, settings, stop, started=_announce), name="web")
                tasks.create_task(_end_streams(parts, stop), name="end of streams")

    _run(settings, run)


@click.command()
@config_option
@data_option
@database_option
@click.option("--host", help="The address to answer health checks and metrics on. [default: 127.0.0.1]")
@click.option("--port", type=int, help="The port for health checks and metrics; without it there are none.")
def worker(config: Path | None, **given: Any) -> None:
    """Run jobs only, beside servers on the same database."""
    is_watched = given["port"] is not None
    settings = read_settings(config, given)
    if not settings.database_url:
        raise click.ClickException(
            "A worker shares its database with servers: give --database-url or LAUNCHBAY_DATABASE_URL."
        )

    async def run(stop: asyncio.Event) -> None:
        async with lifespan(settings) as parts:
            await check_secret_key(parts, settings)
            click.echo(f"Launchbay worker {parts.engine.name} runs jobs.")
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(parts.engine.run(stop), name="engine")
                if is_watched:
                    tasks.create_task(serve_http(parts.monitoring_app, settings, stop, started=_announce), name="web")

    _run(settings, run)


@click.command()
@config_option
@data_option
@database_option
def migrate(config: Path | None, **given: Any) -> None:
    """Bring the database to the schema of this version, and end."""
    settings = read_settings(config, given)

    async def run(_: asyncio.Event) -> None:
        if settings.database_url:
            await prepare(settings.database_url)
        else:
            with EmbeddedPostgres.start(settings.data_dir, serving=False) as embedded:
                await prepare(embedded.url)
        click.echo("The database has the schema of this version.")

    _run(settings, run)


def _run(settings: Settings, work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine with an event that SIGTERM and SIGINT set. What keeps it from starting is told in sentences."""
    configure_logs(settings.log_level, settings.log_format)

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await work(stop)

    try:
        with contextlib.suppress(KeyboardInterrupt):
            uvloop.run(main())
    except* CannotStart as group:
        for error in _flat(group):
            click.echo("\n".join(error.messages), err=True)
        sys.exit(1)


def _flat(group: ExceptionGroup[CannotStart]) -> list[CannotStart]:
    found: list[CannotStart] = []
    for error in group.exceptions:
        found.extend(_flat(error) if isinstance(error, ExceptionGroup) else [error])
    return found


async def _end_streams(app: App, stop: asyncio.Event) -> None:
    """End the event streams with the begin of the stop: they would take up all of the grace time."""
    await stop.wait()
    await app.feed.close()


def _print_welcome(app: App) -> None:
    administrator = app.first_administrator
    if administrator is None:
        return
    click.echo(f"Created the administrator {administrator.email}.")
    if administrator.is_generated:
        click.echo(f"Password, shown this once: {administrator.password}")


def _announce(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"Launchbay answers at http://{shown}:{port}")
