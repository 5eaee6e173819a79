"""Groups that import a command when it is called: `launchbay --help` imports none."""

import difflib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from launchbay.cli.examples import example_of


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command: where it is, `module:attribute`, and its line in the help of its group."""

    import_path: str
    summary: str


Sections = Mapping[str, Mapping[str, LazyCommand]]
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


def load(import_path: str) -> Any:
    module, _, attribute = import_path.partition(":")
    return getattr(importlib.import_module(module), attribute)


class HelpfulGroup(click.Group):
    """A group that suggests names, and whose commands name a page of the documentation."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find the command.

        Its help ends with an example, and with its own page or else that of its group.
        """
        command = self.find(ctx, cmd_name)
        if command is not None and command.epilog is None:
            page = DOCUMENTATION.get(cmd_name if ctx.parent is None else self.name or "")
            if self.name in _RULED:
                page = DOCUMENTATION_OF_RULES.get(cmd_name.removeprefix("set-").removeprefix("lift-"), page)
            command.epilog = f"Documentation: launchbay docs {page}" if page else self.epilog
            if not isinstance(command, click.Group):
                path = " ".join([*_below_root(ctx), cmd_name])
                # The first line keeps the others as they are.
                command.epilog = f"\b\nExample:\n  {example_of(path, command)}\n\n{command.epilog or ''}"
        return command

    def find(self, ctx: click.Context, name: str) -> click.Command | None:
        """Find the command by its name. Groups that load their commands override this."""
        return super().get_command(ctx, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises UsageError with similar names."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            root = ctx.find_root()
            is_shortcut = isinstance(root.command, click.Group) and name in root.command.list_commands(root)
            unknown = unknown_name(f"command '{name}'", name, self.list_commands(ctx))
            meant = f"Unknown command '{name}'. Did you mean 'launchbay {name}'?"
            raise click.UsageError(meant if is_shortcut else unknown, ctx)
        return super().resolve_command(ctx, args)


def _below_root(ctx: click.Context) -> list[str]:
    """Return the names of the groups that lead to a context, without the first one."""
    return [] if ctx.parent is None else [*_below_root(ctx.parent), ctx.info_name or ""]


class LazyGroup(HelpfulGroup):
    """A group whose help lists its commands in sections."""

    def __init__(self, name: str, sections: Sections, **rest: Any) -> None:
        super().__init__(name, **rest)
        self._sections = sections
        self._entries = {name: entry for section in sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's method
        return list(self._entries)

    def find(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002 - of the group
        entry = self._entries.get(name)
        command: click.Command | None = None if entry is None else load(entry.import_path)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's method
        """Write the sections without importing a command."""
        width = max(len(name) for name in self._entries)
        for title, entries in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.summary) for name, entry in entries.items()])


def unknown_name(what: str, name: str, known: Sequence[str]) -> str:
    """Return an error message for an unknown name, with similar names. `what` is its kind and the name."""
    near = difflib.get_close_matches(name.lower(), [each.lower() for each in known], n=3, cutoff=0.6)
    shown = [each for each in known if each.lower() in near]
    hint = f" Did you mean {' or '.join(repr(each) for each in shown)}?" if shown else ""
    return f"Unknown {what}.{hint}"


# Noun or command → page of the documentation that its help names.
DOCUMENTATION: Mapping[str, str] = {
    "access-token": "howto/automation-tokens",
    "account": "howto/second-factors",
    "application": "cookbook/index",
    "apply": "howto/apply-a-directory",
    "approval": "cookbook/ask-for-approval",
    "audit": "howto/see-the-past",
    "backup": "howto/back-up",
    "bulk": "howto/repair-many",
    "change-set": "howto/change-safely",
    "completion": "reference/cli/get-started",
    "demo": "index",
    "destroy": "howto/lifetimes",
    "diff": "howto/see-the-impact",
    "docs": "index",
    "doctor": "howto/install-package",
    "edit": "howto/change-without-overwriting",
    "environment": "reference/manifest/environments",
    "explain": "reference/errors",
    "erase-person": "howto/person-leaves",
    "export": "howto/apply-a-directory",
    "failures": "howto/repair-many",
    "generations": "howto/change-safely",
    "git-source": "howto/git",
    "graph": "reference/manifest/index",
    "instance": "cookbook/index",
    "invitation": "reference/cli/invitation",
    "job": "troubleshooting",
    "launch": "get-started/tutorial",
    "login": "get-started/tutorial",
    "logout": "howto/automation-tokens",
    "logs": "troubleshooting",
    "manifest": "reference/manifest/index",
    "mcp": "howto/agents",
    "migrate": "howto/upgrade",
    "open": "get-started/tour",
    "organization": "howto/move-an-organization",
    "page": "reference/api/pages",
    "permission": "reference/permissions",
    "profile": "reference/cli/profile",
    "ps": "howto/repair-many",
    "quota": "reference/settings",
    "recurring-schedule": "howto/recurring-schedules",
    "reset-password": "howto/let-people-in",
    "restore": "howto/restore",
    "revision": "reference/glossary",
    "role": "reference/permissions",
    "rollback": "howto/change-safely",
    "adopt": "howto/adopt",
    "drift": "howto/find-drift",
    "promote": "howto/promote",
    "promotion": "howto/promote",
    "plan": "howto/plan-changes",
    "rollout": "howto/change-safely",
    "rotate-identity-key": "reference/identity",
    "rotate-secret-key": "howto/rotate-the-key",
    "run": "get-started/tutorial",
    "serve": "howto/configure",
    "server": "howto/monitor",
    "service": "reference/services",
    "service-account": "howto/automation-tokens",
    "status": "troubleshooting",
    "rule": "howto/rules",
    "test": "howto/test-a-manifest",
    "token": "howto/automation-tokens",
    "user": "howto/let-people-in",
    "validate": "reference/findings",
    "wait": "howto/why-a-job-waits",
    "webhook": "howto/webhooks",
    "worker": "howto/scale-out",
    "zone": "reference/services",
}
_RULED = {"application", "environment", "organization"}
# What is ruled there, with or without `set-` or `lift-` → page.
DOCUMENTATION_OF_RULES: Mapping[str, str] = {
    "change-policy": "howto/require-change-sets",
    "concurrency": "howto/limit-jobs",
    "drift-schedule": "howto/find-drift",
    "freeze": "howto/stop-the-line",
    "freeze-windows": "howto/stop-the-line",
    "lifetime": "howto/lifetimes",
    "promotion-order": "howto/promote",
    "rule-versions": "howto/rules",
    "rules": "howto/rules",
    "sleep": "howto/sleep",
}
NOUNS: Mapping[str, str] = {
    "access-token": "Manage access tokens of users and service accounts.",
    "account": "Change your password.",
    "application": "Manage applications, and launch them.",
    "approval": "Answer the questions of waiting workflows.",
    "audit": "List who changed what, and when.",
    "recurring-schedule": "Run workflows, launches and bulk runs at the times of a cron expression.",
    "bulk": "Run a workflow on many instances, or resume, reconfigure, extend, destroy or label them.",
    "change-set": "Keep what a change would do, have it approved, and apply it as shown.",
    "git-source": "Let an application or a directory follow a branch of a Git repository.",
    "drift": "Find what somebody changed behind instances: check, show, ignore.",
    "environment": "Manage environments: policies, markers, properties, services.",
    "instance": "Operate instances: status, workflows, schedules, log, events.",
    "invitation": "Join organizations that invite you.",
    "job": "Show, cancel and resume jobs of instances.",
    "manifest": "Upload and show manifests of applications, by version.",
    "organization": "Manage organizations.",
    "page": "Print web pages of the server as HTML.",
    "permission": "Explain why a user has a permission or not.",
    "plan": "Find out what a change would do, step by step.",
    "promotion": "Show which version is in which environment, and promote it.",
    "revision": "Manage named revisions of applications.",
    "role": "Manage roles and their permissions.",
    "rollout": "Bring a manifest version to many instances in waves, and take it back.",
    "server": "Check the server, and print its metrics and API description.",
    "service-account": "Manage service accounts, which programs use.",
    "service": "Manage services, and run their commands.",
    "token": "Create tokens, and manage your refresh tokens.",
    "user": "Manage users and their roles.",
    "webhook": "Manage webhooks, and show their deliveries.",
    "zone": "List the zones of services.",
}
