"""`launchbay mcp`: the tools for models on standard input and output."""

from collections.abc import Awaitable, Callable
from importlib import import_module

import anyio
import click

from launchbay.cli.connection import Target, choose_target
from launchbay.cli.exit_codes import ExitCode
from launchbay.cli.lazy import HELP_OPTIONS
from launchbay.cli.output import CommandFailed, RemoteCommand
from launchbay.client import AsyncClient
from launchbay.mcp.answers import note_warning

_TIMEOUT_S = 90.0  # longer than the longest wait of a tool


def _mcp(profile: str | None, organization: str | None) -> None:
    target = choose_target(profile, organization)
    try:
        serve_stdio = import_module("launchbay.mcp.server").serve_stdio
    except ImportError as error:
        raise CommandFailed(
            f"This needs the package mcp: {error}. Install it with: pip install 'launchbay[mcp]'", ExitCode.FAILED
        ) from error
    anyio.run(_serve, target, serve_stdio)


async def _serve(target: Target, serve_stdio: Callable[[AsyncClient, str | None], Awaitable[None]]) -> None:
    async with AsyncClient(
        target.url,
        target.authentication,
        timeout_s=_TIMEOUT_S,
        headers={"Launchbay-Agent": "mcp"},
        on_warning=note_warning,
    ) as client:
        await serve_stdio(client, target.organization or None)


mcp = RemoteCommand(
    "mcp",
    callback=_mcp,
    short_help="Serve tools for coding and operations agents on standard input and output.",
    help="Serve tools for coding and operations agents on standard input and output, with the Model Context Protocol."
    " They call the server of the profile with your permissions. Needs the extra launchbay[mcp].",
    params=[
        click.Option(["--profile"], metavar="NAME", help="The profile. Default: the current one."),
        click.Option(["--organization"], metavar="NAME|ID", help="The organization, if you are a member of several."),
    ],
    context_settings=HELP_OPTIONS,
)
