"""The operator's commands: serve, worker, migrate, backup, restore, quota, reset-password and both rotations."""

import asyncio
import contextlib
import ctypes
import gc
import ipaddress
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import structlog
import uvloop

from launchbay import __version__
from launchbay.app.build import App, lifespan, prepared
from launchbay.app.features import FEATURES
from launchbay.app.supervisor import Channel, Supervisor
from launchbay.auth.identity_tokens import IDENTITY_KEYS
from launchbay.auth.passwords import Passwords
from launchbay.auth.secret_key import FORMER, NEXT, KeyFile, new_key, read_secret_key
from launchbay.auth.tokens import KeyRing
from launchbay.cli.lazy import HelpfulGroup
from launchbay.clock import SystemClock
from launchbay.errors import BadRequest, CannotStart, NotFound, Unavailable
from launchbay.fairness.shared_counts import SharedCounts
from launchbay.limits import IDENTITY_KEY_SETTLES_S, IDENTITY_KEYS_CACHED_S, IDENTITY_TOKEN_S, MIB
from launchbay.postgres.backup import back_up, checked_revision
from launchbay.postgres.backup import restore as restore_database
from launchbay.postgres.memory import as_overrides, sizes_of
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.quotas.bounds import Quota, Quotas, default_quotas
from launchbay.settings import Settings, load
from launchbay.store.database import Connection, Database, DatabaseError, conninfo, unavailable
from launchbay.store.jobs import note_backup
from launchbay.store.organizations import list_ids_by_name
from launchbay.store.schema import upgrade
from launchbay.telemetry.logs import configure_logs
from launchbay.telemetry.metrics import SAMPLE_INTERVAL_S, sample_process
from launchbay.usecases import organizations, users
from launchbay.usecases.organizations import FirstAdministrator
from launchbay.usecases.sealing import NewestKey, Resealed, begin_rotation, check_copy, end_rotation, reseal
from launchbay.web.connections import Listener, raise_descriptor_limit
from launchbay.web.server import bind
from launchbay.web.server import serve as serve_http

log = structlog.get_logger(__name__)
config_option = click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="TOML file with settings."
)
data_option = click.option(
    "--data-dir", help="Directory of the embedded database and of the secret key. [default: ./data]"
)
database_option = click.option("--database-url", help="PostgreSQL to use instead of the embedded one.")


def read_settings(config: Path | None, given: dict[str, Any], *, has_embedded: bool = True) -> Settings:
    """Return the settings. Raises ClickException, which names wrong options as the user wrote them.

    A `database_url`, wherever it is set, goes over the embedded database of a `--data-dir`: servers whose URL is in the
    environment have that option too, and must not come up with an empty database.
    """
    try:
        settings = load(file=config, overrides=given)
        if has_embedded and settings.database_url and given["data_dir"] and not given["database_url"]:
            variable = "LAUNCHBAY_DATABASE_URL"
            other = variable if os.environ.get(variable) else f"database_url of {config}"
            click.echo(
                f"Using {other}, not the embedded database in {settings.data_dir}: unset it to use that one.", err=True
            )
        for name in ("database_url", "database_direct_url"):
            if url := getattr(settings, name):
                conninfo(url, name=f"LAUNCHBAY_{name.upper()}")  # which refuses an invalid one
    except CannotStart as error:
        message = str(error)
        for name in (name for name, value in given.items() if value is not None):
            message = message.replace(f"LAUNCHBAY_{name.upper()} ", f"--{name.replace('_', '-')} ")
        raise click.ClickException(message) from error
    return settings


SWITCH_S = 0.0002
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_LARGE_BYTES = 4 * MIB


_ErrorT = TypeVar("_ErrorT", bound=Exception)


@contextlib.contextmanager
def _reporting_errors() -> Iterator[None]:
    """Print what keeps the command from running, and exit with code 1.

    A database that leaves meanwhile is one of these things. Errors of statements are defects, which have a traceback.
    """
    messages: list[str] = []
    try:
        yield
    except* CannotStart as group:
        messages += [line for error in _flat(group) for line in error.messages]
    except* (Unavailable, DatabaseError) as group:
        for error in _flat(group):
            if not isinstance(error, Unavailable) and unavailable(error) is None:
                raise
            messages.append(_left(error))
    if messages:
        click.echo("\n".join(dict.fromkeys(messages)), err=True)
        sys.exit(1)


def _flat(group: ExceptionGroup[_ErrorT]) -> list[_ErrorT]:
    found: list[_ErrorT] = []
    for error in group.exceptions:
        found.extend(_flat(error) if isinstance(error, ExceptionGroup) else [error])
    return found


def _left(error: Unavailable | DatabaseError) -> str:
    """Return the sentence about a database that has left while a command needed it."""
    cause = error.__cause__ if isinstance(error, Unavailable) else error
    if not isinstance(cause, DatabaseError):
        return str(error)
    reason = str(cause).strip().partition("\n")[0].rstrip(".")
    return f"The database became unavailable: {reason}. Try again when it answers."


@contextlib.contextmanager
def _existing_database(settings: Settings) -> Iterator[str]:
    """Provide the URL of the database, which may have servers. Raises CannotStart if the data directory has none."""
    if settings.database_url:
        yield settings.direct_url()
    elif not (settings.data_dir / "postgres").exists():
        raise CannotStart(f"{settings.data_dir} has no database.", "Set its directory with --data-dir.")
    else:
        with _embedded(settings, serving=False) as embedded:
            yield embedded.url


def _embedded(settings: Settings, *, serving: bool = True) -> EmbeddedPostgres:
    overrides = as_overrides(sizes_of(settings))
    return EmbeddedPostgres.start(settings.data_dir, serving=serving, overrides=overrides)


_file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@click.command()
@_file_argument
@config_option
@data_option
@database_option
def backup(file: Path, config: Path | None, **given: Any) -> None:
    """Back up the entire database to FILE, as of one point in time. Servers keep running."""
    settings = read_settings(config, given)
    with _reporting_errors(), _existing_database(settings) as url:
        began_at = datetime.now(UTC)
        size = back_up(url, file)
        try:
            asyncio.run(_in_transaction(url, partial(note_backup, at=began_at)))
        except (CannotStart, Unavailable, DatabaseError) as error:  # such as a standby, which is read-only
            reason = " ".join(getattr(error, "messages", [str(error)]))
            click.echo(f"Can't note the time of the backup in the database, for metrics: {reason}", err=True)
        click.echo(f"Wrote {file}, {size / 1_000_000:.1f} MB.")
        click.echo(f"Restoring it requires the secret key {settings.key_file()}. Store a copy of the key elsewhere.")


@click.command()
@_file_argument
@config_option
@data_option
@database_option
def restore(file: Path, config: Path | None, **given: Any) -> None:
    """Restore a backup into an empty data directory or database, and upgrade it to the schema of this version."""
    settings = read_settings(config, given)
    with _reporting_errors():
        _restore(settings, file)


def _restore(settings: Settings, file: Path) -> None:
    if not file.exists():
        raise CannotStart(f"File {file} not found.")
    if settings.database_url:
        _fill(settings.direct_url(), file)
    else:
        checked_revision(file)  # before it creates the data directory
        with _embedded(settings) as embedded:
            _fill(embedded.url, file)
    key = settings.key_file()
    if not key.exists():
        click.echo(f"Before you start the server, copy the secret key of the backup to {key}.")


def _fill(database_url: str, file: Path) -> None:
    revision = restore_database(database_url, file)
    asyncio.run(upgrade(database_url))
    click.echo(f"Restored {file}, schema {revision}. Its running jobs continue when a server starts.")


@click.group(cls=HelpfulGroup)
def quota() -> None:
    """Set what single organizations may use. The settings LAUNCHBAY_QUOTA_* hold for all others.

    Running servers read changes within seconds.
    """


_organization_argument = click.argument("organization")
_quota_argument = click.argument("name", type=click.Choice([each.value for each in Quota]))


@quota.command("list")
@_organization_argument
@config_option
@data_option
@database_option
def list_quotas(organization: str, config: Path | None, **given: Any) -> None:
    """Show what an organization, by ID or name, uses and may use."""

    async def show(connection: Connection, organization_id: str, quotas: Quotas) -> None:
        used: dict[Quota, int] = await quotas.used(connection, organization_id)
        await quotas.read_own(connection)
        for each in Quota:
            allowed = quotas.allowed(organization_id, each) or "any amount"
            click.echo(f"{each.value}: {used.get(each, '-')} of {allowed}")

    _with_organization(organization, config, given, show)


@quota.command("set")
@_organization_argument
@_quota_argument
@click.argument("allowed", type=click.IntRange(0, 2**62))
@config_option
@data_option
@database_option
def set_quota(organization: str, name: str, allowed: int, config: Path | None, **given: Any) -> None:
    """Set what an organization, by ID or name, may use.

    0 allows any amount.
    """

    async def change(connection: Connection, organization_id: str, _: Quotas) -> None:
        await organizations.set_quota(connection, organization_id, Quota(name), allowed)
        click.echo(f"{name}: {allowed or 'any amount'}")

    _with_organization(organization, config, given, change)


@quota.command("reset")
@_organization_argument
@_quota_argument
@config_option
@data_option
@database_option
def reset_quota(organization: str, name: str, config: Path | None, **given: Any) -> None:
    """Let the setting hold again for an organization, by ID or name."""

    async def change(connection: Connection, organization_id: str, quotas: Quotas) -> None:
        await organizations.set_quota(connection, organization_id, Quota(name), None)
        click.echo(f"{name}: {quotas.allowed(organization_id, Quota(name)) or 'any amount'}")

    _with_organization(organization, config, given, change)


def _with_organization(
    name: str,
    config: Path | None,
    given: dict[str, Any],
    work: Callable[[Connection, str, Quotas], Awaitable[None]],
) -> None:
    """Run `work` in a transaction, with the one organization of this ID or name."""
    settings = read_settings(config, given)

    async def run(url: str) -> None:
        await upgrade(url)
        quotas = Quotas(default_quotas(settings), SystemClock())
        async with Database(url, connections=1) as database, database.transaction() as connection:
            found = await list_ids_by_name(connection, name=name)
            if len(found) != 1:
                problem = f"Several organizations have the name {name!r}" if found else f"No organization {name!r}"
                raise CannotStart(f"{problem}.", "Give an ID.")
            await work(connection, found[0], quotas)

    with _reporting_errors(), _existing_database(settings) as url:
        asyncio.run(run(url))


@click.command("reset-password")
@click.argument("email")
@config_option
@data_option
@database_option
@click.option("--password-stdin", is_flag=True, help="Read the new password from standard input.")
@click.option(
    "--remove-second-factors",
    is_flag=True,
    help="Remove passkeys, authenticator applications and recovery codes too, for who lost them.",
)
@click.option("--for-program", "is_for_program", is_flag=True, help="The password never expires: a program uses it.")
def reset_password(
    email: str,
    config: Path | None,
    password_stdin: bool,  # noqa: FBT001 - click hands flags over so
    remove_second_factors: bool,  # noqa: FBT001 - click hands flags over so
    is_for_program: bool,  # noqa: FBT001 - click hands flags over so
    **given: Any,
) -> None:
    """Replace the forgotten password of the account EMAIL. Servers keep running.

    The person must choose another one at the next sign-in. All sessions and tokens of the account end, and so do blocks
    because of wrong passwords and codes.
    """
    settings = read_settings(config, given)
    with _reporting_errors(), _existing_database(settings) as url:
        try:
            asyncio.run(upgrade(url))
            # Before it asks for anything.
            account = asyncio.run(_in_transaction(url, partial(users.account_with_password, email=email)))
            if password_stdin:
                password = sys.stdin.readline().rstrip("\n")
            else:
                password = click.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
            change = partial(
                users.reset_password,
                email=email,
                password_hash=asyncio.run(_hash_new(password, account.email)),
                lifetime_s=0 if is_for_program else settings.given_password_days * 86_400,
                removes_second_factors=remove_second_factors,
            )
            asyncio.run(_in_transaction(url, change))
        except (BadRequest, NotFound) as error:
            raise CannotStart(*error.messages) from error
    click.echo(f"Replaced the password of {account.email}, and ended all sessions and tokens of the account.")
    if is_for_program:
        click.echo("It doesn't expire.")
        return
    expiry = f" must be within {days:g} days. It" if (days := settings.given_password_days) else ""
    click.echo(f"The next sign-in{expiry} asks for another one.")
    if remove_second_factors:
        click.echo("Removed the second factors of the account.")
    elif account.second_factor == "held":
        click.echo("The second factors stay. If they are lost, add --remove-second-factors.")
    if not account.enabled:
        click.echo("The account is disabled, and stays so. An administrator can enable it:")
        click.echo("launchbay user update USER --enabled")


@click.command("erase-person")
@click.argument("email")
@config_option
@data_option
@database_option
@click.option("-y", "--yes", "is_confirmed", is_flag=True, help="Erase. Without it, the command only counts.")
def erase_person(
    email: str,
    config: Path | None,
    is_confirmed: bool,  # noqa: FBT001 - click hands flags over so
    **given: Any,
) -> None:
    """Replace the address and name of a removed person by a pseudonym.

    This covers the audit log, answers to approvals, and messages of ended jobs. Servers keep running. The ID of
    the account stays, so the log still shows who did what. Nobody can undo it.
    """
    settings = read_settings(config, given)

    async def run(url: str) -> None:
        async with Database(url, connections=1) as database:
            async with database.transaction() as connection:
                erasure = await users.erasure_of(connection, email, FEATURES.traces())
                traces = await users.count_traces(connection, erasure, FEATURES.traces())
            for kind, rows in traces:
                click.echo(f"{rows:>9} {kind}")
            if not is_confirmed:
                click.echo(f"Nothing is changed. To replace the address by {erasure.pseudonym}, add --yes.")
                return
            await users.erase_person(database, erasure, FEATURES.traces())
            click.echo(f"Replaced the address and name by {erasure.pseudonym}.")

    with _reporting_errors(), _existing_database(settings) as url:
        try:
            asyncio.run(upgrade(url))
            asyncio.run(run(url))
        except (BadRequest, NotFound) as error:
            raise CannotStart(*error.messages) from error


async def _hash_new(password: str, email: str) -> str:
    passwords = Passwords()
    try:
        return await passwords.hash_new(password, email)
    finally:
        passwords.close()


_T = TypeVar("_T")


async def _in_transaction(url: str, work: Callable[[Connection], Awaitable[_T]]) -> _T:
    async with Database(url, connections=1) as database, database.transaction() as connection:
        return await work(connection)


@click.command("rotate-identity-key")
@config_option
@data_option
@database_option
def rotate_identity(config: Path | None, **given: Any) -> None:
    """Make a new key for the tokens of jobs. Servers keep running.

    They publish it within minutes, and sign with it an hour later. Tokens that were signed before stay valid.
    """
    settings = read_settings(config, given)
    file = KeyFile(settings.key_file())

    async def rotate(url: str) -> None:
        await upgrade(url)
        key = read_secret_key(file.path, creates=False)
        async with Database(url, connections=2) as database:
            await NewestKey(database, key, file).adopt()
            await KeyRing(database, key, SystemClock(), IDENTITY_TOKEN_S, IDENTITY_KEYS).rotate()

    with _reporting_errors(), _existing_database(settings) as url:
        asyncio.run(rotate(url))
    click.echo(f"Made a new key. Servers publish it within {IDENTITY_KEYS_CACHED_S // 60} minutes,")
    click.echo(f"and sign with it in {IDENTITY_KEY_SETTLES_S / 60:g} minutes.")


@click.command("rotate-secret-key")
@config_option
@data_option
@database_option
@click.option("--prepare", is_flag=True, help="Only add the next key to the file. Then copy the file to all servers.")
@click.option("--finish", is_flag=True, help="Encrypt the remaining values, then remove former keys from the file.")
def rotate(config: Path | None, prepare: bool, finish: bool, **given: Any) -> None:  # noqa: FBT001 - click hands flags over so
    """Encrypt the secrets in the database with a new secret key. Servers keep running."""
    settings = read_settings(config, given)
    file = KeyFile(settings.key_file())
    if prepare and finish:
        raise click.UsageError("Use either --prepare or --finish.")
    with _reporting_errors():
        if prepare:
            _prepare(file)
        elif finish:
            _finish(settings, file)
        else:
            _rotate(settings, file)


def _prepare(file: KeyFile) -> None:
    lines = file.lines()
    file.check_writable()
    if any(word == NEXT for word, _ in lines):
        raise CannotStart(f"{file.path} already has a next key.", "Copy the file to all servers, then rotate.")
    file.write([*lines, (NEXT, new_key())])
    click.echo(f"Added the next key to {file.path}. It can decrypt and doesn't encrypt yet.")
    click.echo("Copy the file to all servers, then run this command without --prepare on one of them.")


def _rotate(settings: Settings, file: KeyFile) -> None:
    lines = file.lines()
    current = next((key for word, key in lines if word == NEXT), None) or new_key()
    former = [(FORMER, key) for word, key in lines if word != NEXT]
    file.check_writable()

    async def rotate(database: Database) -> Resealed:
        async with database.transaction() as connection:
            await check_copy(connection, read_secret_key(file.path, creates=False))
        # The file first, so that the servers that share it have the key when the database names it.
        file.write([("", current), *former])
        key = read_secret_key(file.path, creates=False)
        await begin_rotation(database, key)
        return await reseal(database, key, FEATURES.sealed())

    _with_sealed(settings, rotate)
    click.echo(f"{file.path} still has the former key. Copy the file to all servers.")
    click.echo("Then run: launchbay rotate-secret-key --finish")


def _finish(settings: Settings, file: KeyFile) -> None:
    lines = file.lines()
    if not any(word == FORMER for word, _ in lines):
        raise CannotStart(f"{file.path} has no former key, so no rotation is in progress.")
    if any(word == NEXT for word, _ in lines):
        raise CannotStart(f"{file.path} has a next key.", "Rotate to it first, without --finish.")
    file.check_writable()
    key = read_secret_key(file.path, creates=False)

    async def finish(database: Database) -> Resealed:
        async with database.transaction() as connection:
            await check_copy(connection, key)
        await begin_rotation(database, key)
        await end_rotation(database, key, _print_waiting)
        return await reseal(database, key, FEATURES.sealed())

    _with_sealed(settings, finish)
    file.write([line for line in lines if line[0] != FORMER])
    click.echo(f"Removed the former key from {file.path}. Backups from before the rotation still need it.")


def _with_sealed(settings: Settings, work: Callable[[Database], Awaitable[Resealed]]) -> None:
    """Run a part of a rotation, and print what it encrypted again. Raises CannotStart."""

    async def run(url: str) -> Resealed:
        await upgrade(url)
        async with Database(url, connections=2) as database:
            return await work(database)

    with _existing_database(settings) as url:
        done = asyncio.run(run(url))
    click.echo(f"Encrypted {done.count} values again.")
    for name, count in done.broken.items():
        if count:
            click.echo(f"{count} values of {name} can't be decrypted with any key and stay unchanged.", err=True)


def _print_waiting(processes: Sequence[str]) -> None:
    click.echo(f"Waiting until these processes have the newest key: {'; '.join(processes)}", err=True)


@click.command()
@config_option
@click.option("--host", help="Address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on; 0 uses a free one. [default: 8080]")
@click.option("--tls-certificate", help="PEM file with the server's certificate and its chain. Default: no TLS.")
@click.option("--tls-key", help="PEM file with the private key of the certificate.")
@data_option
@database_option
@click.option("--no-engine", is_flag=True, help="Serve requests only. Workers run the jobs.")
@click.option("--processes", type=int, help="Number of server processes on the port. [default: 1]")
def serve(config: Path | None, no_engine: bool, **given: Any) -> None:  # noqa: FBT001 - click hands flags over so
    """Run the API and the job engine, in one process or several."""
    settings = read_settings(config, given)

    async def run(stop: asyncio.Event) -> None:
        _warn_of_plain_http(settings)
        # The port first: a busy one must not cost the password that is shown only once.
        with bind(settings.host, settings.port) as listener:
            started = partial(_announce, settings)
            if settings.processes == 1:
                async with lifespan(settings) as app:
                    await _serve(app, settings, stop, listener, started, has_engine=not no_engine)
            else:
                async with prepared(settings) as (shared, administrator):
                    _print_welcome(settings, administrator)
                    await Supervisor(shared, listener, has_engine=not no_engine).run(stop, started=started)

    _run(settings, run)


def serve_process() -> None:
    """Run a server process. The first argument is the channel to its supervisor."""
    channel = Channel(int(sys.argv[1]))
    order, settings = channel.receive()

    def started(_host: str, _port: int) -> None:
        channel.ready()

    async def run(stop: asyncio.Event) -> None:
        counts = SharedCounts(settings.processes, order.number, order.counts)
        async with lifespan(settings, counts=counts) as app:
            sampling = asyncio.create_task(_sample(app))
            try:
                await _serve(app, settings, stop, channel, started, has_engine=order.has_engine)
            finally:
                sampling.cancel()

    _run(settings, run, process=order.number)


async def _serve(
    app: App,
    settings: Settings,
    stop: asyncio.Event,
    listener: Listener,
    started: Callable[[str, int], None],
    *,
    has_engine: bool,
) -> None:
    tune_interpreter()
    _print_welcome(settings, app.first_administrator)
    async with asyncio.TaskGroup() as tasks:
        if has_engine:
            tasks.create_task(app.engine.run(stop), name="engine")
        tasks.create_task(serve_http(app.app, settings, stop, app.counts, started, listener), name="web")
        tasks.create_task(_end_streams(app, stop), name="end of streams")


async def _sample(app: App) -> None:
    """Sample this process for the others, any of which shows the metrics of all."""
    while True:
        sample_process(app.database)
        await asyncio.sleep(SAMPLE_INTERVAL_S)


@click.command()
@config_option
@click.option("--data-dir", help="Directory of the secret key. [default: ./data]")
@click.option("--database-url", help="PostgreSQL of the servers. Required here or as LAUNCHBAY_DATABASE_URL.")
@click.option("--host", help="Address for health checks and metrics. [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port for health checks and metrics. Default: not served.")
def worker(config: Path | None, **given: Any) -> None:
    """Run jobs only, together with servers on the same database."""
    is_watched = given["port"] is not None
    settings = read_settings(config, given, has_embedded=False)
    if not settings.database_url:
        raise click.ClickException(
            "A worker needs the servers' database. Set --database-url or LAUNCHBAY_DATABASE_URL."
        )

    async def run(stop: asyncio.Event) -> None:
        async with lifespan(settings) as app:
            tune_interpreter()
            if settings.log_format == "json":
                log.info("worker.started", name=app.engine.name, version=__version__)
            else:
                click.echo(f"Launchbay worker {app.engine.name} is running.")
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(app.engine.run(stop), name="engine")
                if is_watched:
                    web = serve_http(app.monitoring_app, settings, stop, app.counts, partial(_announce, settings))
                    tasks.create_task(web, name="web")

    _run(settings, run)


@click.command()
@config_option
@data_option
@database_option
def migrate(config: Path | None, **given: Any) -> None:
    """Upgrade the database to the schema of this version, then exit."""
    settings = read_settings(config, given)

    async def run(_: asyncio.Event) -> None:
        if settings.database_url:
            await upgrade(settings.direct_url())
        else:
            with _embedded(settings, serving=False) as embedded:
                await upgrade(embedded.url)
        click.echo("The database has the schema of this version.")

    _run(settings, run)


def _run(
    settings: Settings, work: Callable[[asyncio.Event], Coroutine[Any, Any, None]], process: int | None = None
) -> None:
    """Run a coroutine with an event that SIGTERM and SIGINT set."""
    configure_logs(settings.log_level, settings.log_format, process)
    raise_descriptor_limit()
    _give_memory_back()

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await work(stop)

    with _reporting_errors(), contextlib.suppress(KeyboardInterrupt):
        uvloop.run(main())


def _give_memory_back() -> None:
    """Let the C library give large blocks back to the system as soon as they are free.

    Otherwise glibc keeps blocks of the size that it has seen freed: the 19 MiB of a password's hash, in each thread.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):  # glibc has it
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, 2 * _LARGE_BYTES)


def tune_interpreter() -> None:
    """Let the event loop run soon, whatever else the process does."""
    # The garbage collector would walk over all modules again and again.
    gc.collect()
    gc.freeze()
    # A compiled manifest of 1 MiB has a million objects: to look for garbage after each 700 costs a quarter of it.
    gc.set_threshold(50_000, 20, 20)
    # A thread that masks a log or compiles a manifest would hold the loop up for 5 ms, after each of its waits.
    sys.setswitchinterval(SWITCH_S)


async def _end_streams(app: App, stop: asyncio.Event) -> None:
    """End event streams when the stop begins, because they would last for all of the grace time."""
    await stop.wait()
    await app.feed.close()


def _print_welcome(settings: Settings, administrator: FirstAdministrator | None) -> None:
    if administrator is None:
        return
    if settings.log_format == "json":
        # Printed, because a log may be sent elsewhere, which must not get the password.
        shown = {"password": administrator.password} if administrator.is_generated else {}
        click.echo(json.dumps({"event": "administrator.created", "email": administrator.email, **shown}))
        return
    click.echo(f"Created administrator {administrator.email}.")
    if administrator.is_generated:
        click.echo(f"Password (shown only once): {administrator.password}")


def _warn_of_plain_http(settings: Settings) -> None:
    """Warn of passwords and tokens that would cross a network unencrypted."""
    if settings.tls_certificate or settings.proxy_networks() or _is_loopback(settings.host):
        return
    effect = (
        f"Listening on {settings.host} without TLS: passwords and tokens cross the network unencrypted. Set"
        " tls_certificate, or trusted_proxies for a proxy with TLS: launchbay docs --print howto/harden"
    )
    if settings.log_format == "json":
        log.warning("server.unencrypted", host=settings.host, effect=effect)
    else:
        click.echo(f"Warning: {effect}", err=True)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _announce(settings: Settings, host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    address = f"{'https' if settings.tls_certificate else 'http'}://{shown}:{port}"
    if settings.log_format == "json":
        log.info("server.started", address=address, version=__version__, processes=settings.processes)
    else:
        click.echo(f"Launchbay is listening at {address}")
