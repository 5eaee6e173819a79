"""The `launchbay` command: the sections of its help, and completion."""

import os
from collections.abc import Mapping

import click
from click.shell_completion import get_completion_class

from launchbay import __version__
from launchbay.cli.lazy import HELP_OPTIONS, NOUNS, Entry, LazyGroup

SECTIONS: Mapping[str, Mapping[str, Entry]] = {
    "Get started": {
        "demo": Entry("launchbay.demo.command:demo", "Start a server with a sample application."),
        "login": Entry("launchbay.cli.login:login", "Sign in to a server."),
        "logout": Entry("launchbay.cli.login:logout", "Revoke the token of a profile and delete it."),
        "profile": Entry("launchbay.cli.login:profile", "Manage profiles: server, organization, output format."),
        "explain": Entry(
            "launchbay.cli.documentation:explain", "Explain an error code, finding, setting, action or metric."
        ),
        "docs": Entry("launchbay.cli.documentation:docs", "Open a page of the documentation, or search it."),
        "completion": Entry("launchbay.cli.main:completion", "Print the completion script for bash, zsh or fish."),
    },
    "Common commands": {
        "launch": Entry("launchbay.cli.commands:launch", "Launch an application; --wait shows its steps."),
        "run": Entry("launchbay.cli.commands:run", "Run a workflow on an instance."),
        "logs": Entry("launchbay.cli.commands:logs", "Print the log of an instance; --follow prints new lines."),
        "status": Entry("launchbay.cli.short_verbs:status", "Show an instance, its running job and its newest jobs."),
        "wait": Entry("launchbay.cli.short_verbs:wait", "Wait for a job, or for the job that an instance runs."),
        "destroy": Entry("launchbay.cli.short_verbs:destroy", "Destroy an instance."),
        "generations": Entry("launchbay.cli.short_verbs:generations", "List the configurations that an instance had."),
        "rollback": Entry("launchbay.cli.short_verbs:rollback", "Roll an instance back to an earlier configuration."),
        "edit": Entry("launchbay.cli.editing:edit", "Edit a manifest, a role, an environment's policies and so on."),
        "open": Entry("launchbay.cli.short_verbs:open_", "Print the address of an instance in the console."),
        "ps": Entry("launchbay.cli.instances:ps", "List instances with their last jobs; filters find the failed ones."),
        "failures": Entry("launchbay.cli.instances:failures", "List failures, equal ones together; resume all of one."),
        "apply": Entry("launchbay.cli.directory:apply", "Apply a directory of files to an organization."),
        "export": Entry("launchbay.cli.directory:export", "Write an organization to a directory of files."),
        "diff": Entry("launchbay.cli.diff:diff", "Compare versions, instances, or a directory with the server."),
        "mcp": Entry("launchbay.cli.mcp:mcp", "Serve tools for coding and operations agents on standard input."),
    },
    "Manifests (no server needed)": {
        "validate": Entry("launchbay.cli.manifests:validate", "Check manifests; print findings with line and column."),
        "test": Entry("launchbay.manifest_tests.runner:test", "Run tests of manifests."),
        "graph": Entry("launchbay.cli.manifests:graph", "Draw a manifest as a Mermaid or DOT graph."),
    },
    "Resources": {
        noun: Entry(f"launchbay.cli.commands:{noun.replace('-', '_')}", summary) for noun, summary in NOUNS.items()
    },
    "Administration": {
        "serve": Entry("launchbay.app.commands:serve", "Start a server: HTTP API, console and job engine."),
        "worker": Entry("launchbay.app.commands:worker", "Run jobs for servers on the same database."),
        "doctor": Entry("launchbay.app.doctor:doctor", "Say what this machine lacks for a server, and how to get it."),
        "migrate": Entry("launchbay.app.commands:migrate", "Migrate the database to this version."),
        "quota": Entry("launchbay.app.commands:quota", "Set what organizations may use."),
        "backup": Entry("launchbay.app.commands:backup", "Back up the database to a file."),
        "restore": Entry("launchbay.app.commands:restore", "Restore a backup into an empty database."),
        "reset-password": Entry("launchbay.app.commands:reset_password", "Replace a forgotten password."),
        "erase-person": Entry("launchbay.app.commands:erase_person", "Erase the address of a removed person."),
        "rotate-secret-key": Entry("launchbay.app.commands:rotate", "Re-encrypt all secrets with a new secret key."),
    },
}


@click.version_option(__version__, prog_name="launchbay")
def _main() -> None:
    """Launch applications from manifests, run workflows on them, and destroy them on schedule."""
    if os.environ.get("NO_COLOR"):
        click.get_current_context().color = False


main = LazyGroup(
    "launchbay",
    SECTIONS,
    callback=_main,
    help=_main.__doc__,
    epilog="Documentation: launchbay docs. For a code, a setting or an action: launchbay explain NAME.",
    params=getattr(_main, "__click_params__", []),
    context_settings=HELP_OPTIONS,
)

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    bash: add eval "$(launchbay completion bash)" to ~/.bashrc

    zsh: add eval "$(launchbay completion zsh)" to ~/.zshrc

    fish: launchbay completion fish > ~/.config/fish/completions/launchbay.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click supports these three"
    click.echo(kind(ctx.find_root().command, {}, "launchbay", "_LAUNCHBAY_COMPLETE").source())


if __name__ == "__main__":
    main()
