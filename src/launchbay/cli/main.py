"""The `launchbay` command: the group that all commands join. Each is loaded when it is asked for."""

from collections.abc import Mapping

import click
from click.shell_completion import get_completion_class

from launchbay import __version__
from launchbay.cli.lazy import NOUNS, Entry, LazyGroup

SECTIONS: Mapping[str, Mapping[str, Entry]] = {
    "Begin": {
        "demo": Entry("launchbay.demo.command:demo", "Start a server with a sample application, and show it."),
        "login": Entry("launchbay.cli.login:login", "Sign in to a server."),
        "logout": Entry("launchbay.cli.login:logout", "Revoke the token and forget it."),
        "profile": Entry("launchbay.cli.login:profile", "Servers and organizations that commands can mean."),
        "completion": Entry("launchbay.cli.main:completion", "Completion for bash, zsh and fish."),
    },
    "Every day": {
        "launch": Entry("launchbay.cli.commands:launch", "Launch an application; --wait shows its steps."),
        "run": Entry("launchbay.cli.commands:run", "Run a workflow of an instance."),
        "logs": Entry("launchbay.cli.commands:logs", "The log of an instance; --follow goes on."),
        "apply": Entry("launchbay.cli.directory.commands:apply", "Make the organization what a directory says."),
        "export": Entry("launchbay.cli.directory.commands:export", "Write the organization as a directory."),
    },
    "Manifests, offline": {
        "validate": Entry("launchbay.cli.manifests:validate", "Check manifests, with line and column."),
        "test": Entry("launchbay.manifest_tests.runner:test", "Run the tests of manifests."),
        "graph": Entry("launchbay.cli.manifests:graph", "Draw a manifest as Mermaid or DOT."),
    },
    "The API, by noun and verb": {
        noun: Entry(f"launchbay.cli.commands:{noun.replace('-', '_')}", summary) for noun, summary in NOUNS.items()
    },
    "Servers": {
        "serve": Entry("launchbay.app.commands:serve", "Run the API and the job engine."),
        "worker": Entry("launchbay.app.commands:worker", "Run jobs only, beside servers."),
        "migrate": Entry("launchbay.app.commands:migrate", "Bring the database to this version."),
        "backup": Entry("launchbay.app.commands:backup", "Write the database into a file."),
        "restore": Entry("launchbay.app.commands:restore", "Fill an empty database with a backup."),
        "rotate-secret-key": Entry("launchbay.app.commands:rotate", "Seal everything with a new secret key."),
    },
}


@click.version_option(__version__, prog_name="launchbay")
def _main() -> None:
    """Launchbay launches applications with one call, runs workflows on them and has them destroyed on time."""


main = LazyGroup(
    "launchbay",
    SECTIONS,
    callback=_main,
    help=_main.__doc__,
    params=getattr(_main, "__click_params__", []),
    context_settings={"help_option_names": ["-h", "--help"]},
)

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion of a shell.

    bash: eval "$(launchbay completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc; fish: launchbay completion fish >
    ~/.config/fish/completions/launchbay.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these three"
    click.echo(kind(ctx.find_root().command, {}, "launchbay", "_LAUNCHBAY_COMPLETE").source())


if __name__ == "__main__":
    main()
