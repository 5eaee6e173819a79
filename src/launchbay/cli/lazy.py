"""Groups of commands that load a command when it is asked for: `launchbay --help` loads none."""

import difflib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Entry:
    """A command by its place, `module:attribute`, with its line in the help of the group."""

    import_path: str
    summary: str


Sections = Mapping[str, Mapping[str, Entry]]


def load(import_path: str) -> Any:
    """Return what stands at `module:attribute`."""
    module, _, attribute = import_path.partition(":")
    return getattr(importlib.import_module(module), attribute)


class HelpfulGroup(click.Group):
    """A group that says what an unknown command may have meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises UsageError with the nearest names."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            raise click.UsageError(unknown_name(f"command '{name}'", name, self.list_commands(ctx)), ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(HelpfulGroup):
    """A group whose commands stand in sections, as entries."""

    def __init__(self, name: str, sections: Sections, **rest: Any) -> None:
        super().__init__(name, **rest)
        self._sections = sections
        self._entries = {name: entry for section in sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names, in the order of the sections."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Load a command."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = load(entry.import_path)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the sections, without loading anything."""
        width = max(len(name) for name in self._entries)
        for title, entries in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.summary) for name, entry in entries.items()])


def unknown_name(what: str, name: str, known: Sequence[str]) -> str:
    """Return a sentence about something that is not there, with what may have been meant."""
    near = difflib.get_close_matches(name.lower(), [each.lower() for each in known], n=3, cutoff=0.6)
    shown = [each for each in known if each.lower() in near]
    hint = f" Did you mean {' or '.join(repr(each) for each in shown)}?" if shown else ""
    return f"There is no {what}.{hint}"


NOUNS: Mapping[str, str] = {
    "account": "Your password.",
    "application": "Applications, their launch and their instances.",
    "approval": "What workflows ask people.",
    "audit": "Who changed what, and when.",
    "environment": "Environments: policies, markers, properties, services.",
    "instance": "Instances: status, workflows, schedules, log, events.",
    "job": "Jobs of instances: steps, cancelling, resuming.",
    "manifest": "Manifests of applications, by version.",
    "organization": "Organizations.",
    "page": "The pages of the server, as text.",
    "permission": "Why somebody may do something, or not.",
    "revision": "Named revisions of applications.",
    "role": "Roles and their permissions.",
    "server": "Whether the server is well, and its description.",
    "service": "Services, their types and commands.",
    "token": "Refresh tokens.",
    "user": "Users and the roles that they hold.",
    "webhook": "Webhooks and their deliveries.",
    "zone": "Zones that services can be in.",
}
