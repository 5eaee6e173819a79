"""The commands that run a server: `serve`, `worker`, `migrate`."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click
import uvloop

from launchbay.bootstrap.options import config_option, data_option, database_option, read_settings
from launchbay.bootstrap.parts import Parts, check_secret_key, prepare, started
from launchbay.errors import CannotStart
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.settings import Settings
from launchbay.telemetry.logs import configure_logs
from launchbay.web.server import serve as serve_http


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
        async with started(settings) as parts:
            await check_secret_key(parts, settings)
            _greet(parts)
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
        async with started(settings) as parts:
            await check_secret_key(parts, settings)
            click.echo(f"Launchbay worker {parts.engine.name} runs jobs.")
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(parts.engine.run(stop), name="engine")
                if is_watched:
                    tasks.create_task(serve_http(parts.watching_app, settings, stop, started=_announce), name="web")

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
            click.echo("\n".join(error.sentences), err=True)
        sys.exit(1)


def _flat(group: ExceptionGroup[CannotStart]) -> list[CannotStart]:
    found: list[CannotStart] = []
    for error in group.exceptions:
        found.extend(_flat(error) if isinstance(error, ExceptionGroup) else [error])
    return found


async def _end_streams(parts: Parts, stop: asyncio.Event) -> None:
    """End the event streams with the begin of the stop: they would take up all of the grace time."""
    await stop.wait()
    await parts.feed.close()


def _greet(parts: Parts) -> None:
    administrator = parts.first_administrator
    if administrator is None:
        return
    click.echo(f"Created the administrator {administrator.email}.")
    if administrator.is_generated:
        click.echo(f"Password, shown this once: {administrator.password}")


def _announce(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"Launchbay answers at http://{shown}:{port}")
