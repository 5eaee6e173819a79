"""The `launchbay` command: the sections of its help, and completion."""

import os
from collections.abc import Mapping

import click
from click.shell_completion import get_completion_class

from launchbay import __version__
from launchbay.cli.lazy import HELP_OPTIONS, NOUNS, LazyCommand, LazyGroup

SECTIONS: Mapping[str, Mapping[str, LazyCommand]] = {
    "Get started": {
        "demo": LazyCommand("launchbay.demo.command:demo", "Start a server with a sample application."),
        "login": LazyCommand("launchbay.cli.login:login", "Sign in to a server."),
        "logout": LazyCommand("launchbay.cli.login:logout", "Revoke the token of a profile and delete it."),
        "profile": LazyCommand("launchbay.cli.login:profile", "Manage profiles: server, organization, output format."),
        "explain": LazyCommand(
            "launchbay.cli.documentation:explain", "Explain an error code, finding, setting, action or metric."
        ),
        "docs": LazyCommand("launchbay.cli.documentation:docs", "Open a page of the documentation, or search it."),
        "completion": LazyCommand(
            "launchbay.cli.main:completion", "Print the completion script for bash, zsh or fish."
        ),
    },
    "Common commands": {
        "launch": LazyCommand("launchbay.cli.commands:launch", "Launch an application; --wait shows its steps."),
        "run": LazyCommand("launchbay.cli.commands:run", "Run a workflow on an instance."),
        "logs": LazyCommand("launchbay.cli.commands:logs", "Print the log of an instance; --follow prints new lines."),
        "status": LazyCommand(
            "launchbay.cli.short_verbs:status", "Show an instance, its running job and its newest jobs."
        ),
        "wait": LazyCommand("launchbay.cli.short_verbs:wait", "Wait for a job, or for the job that an instance runs."),
        "destroy": LazyCommand("launchbay.cli.short_verbs:destroy", "Destroy an instance."),
        "adopt": LazyCommand("launchbay.cli.adopt:adopt", "Make an instance of what runs already; nothing changes it."),
        "generations": LazyCommand(
            "launchbay.cli.short_verbs:generations", "List the configurations that an instance had."
        ),
        "rollback": LazyCommand(
            "launchbay.cli.short_verbs:rollback", "Roll an instance back to an earlier configuration."
        ),
        "promote": LazyCommand(
            "launchbay.features.promotion.cli:promote", "Bring a version of an application to the next environment."
        ),
        "edit": LazyCommand(
            "launchbay.cli.editing:edit", "Edit a manifest, a role, an environment's policies and so on."
        ),
        "open": LazyCommand("launchbay.cli.short_verbs:open_", "Print the address of an instance in the console."),
        "ps": LazyCommand(
            "launchbay.cli.instances:ps", "List instances with their last jobs; filters find the failed ones."
        ),
        "failures": LazyCommand(
            "launchbay.cli.instances:failures", "List failures, equal ones together; resume all of one."
        ),
        "apply": LazyCommand(
            "launchbay.features.directories.cli:apply", "Apply a directory of files to an organization."
        ),
        "export": LazyCommand(
            "launchbay.features.directories.cli:export", "Write an organization to a directory of files."
        ),
        "diff": LazyCommand("launchbay.cli.diff:diff", "Compare versions, instances, or a directory with the server."),
        "mcp": LazyCommand("launchbay.cli.mcp:mcp", "Serve tools for coding and operations agents on standard input."),
    },
    "Manifests (no server needed)": {
        "validate": LazyCommand(
            "launchbay.cli.manifests:validate", "Check manifests; print findings with line and column."
        ),
        "test": LazyCommand("launchbay.manifest_tests.runner:test", "Run tests of manifests."),
        "rule": LazyCommand("launchbay.features.change_rules.cli:rule", "Test rules about changes."),
        "graph": LazyCommand("launchbay.cli.manifests:graph", "Draw a manifest as a Mermaid or DOT graph."),
    },
    "Resources": {
        noun: LazyCommand(f"launchbay.cli.commands:{noun.replace('-', '_')}", summary)
        for noun, summary in NOUNS.items()
    },
    "Administration": {
        "serve": LazyCommand("launchbay.app.commands:serve", "Start a server: HTTP API, console and job engine."),
        "worker": LazyCommand("launchbay.app.commands:worker", "Run jobs for servers on the same database."),
        "doctor": LazyCommand(
            "launchbay.app.doctor:doctor", "Say what this machine lacks for a server, and how to get it."
        ),
        "migrate": LazyCommand("launchbay.app.commands:migrate", "Migrate the database to this version."),
        "quota": LazyCommand("launchbay.app.commands:quota", "Set what organizations may use."),
        "backup": LazyCommand("launchbay.app.commands:backup", "Back up the database to a file."),
        "restore": LazyCommand("launchbay.app.commands:restore", "Restore a backup into an empty database."),
        "reset-password": LazyCommand("launchbay.app.commands:reset_password", "Replace a forgotten password."),
        "erase-person": LazyCommand("launchbay.app.commands:erase_person", "Erase the address of a removed person."),
        "rotate-identity-key": LazyCommand(
            "launchbay.app.commands:rotate_identity", "Make a new key for the tokens of jobs."
        ),
        "rotate-secret-key": LazyCommand(
            "launchbay.app.commands:rotate", "Re-encrypt all secrets with a new secret key."
        ),
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
