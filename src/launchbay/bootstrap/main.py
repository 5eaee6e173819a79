"""The `launchbay` command: the group that all commands join. Each is loaded when it is asked for."""

from collections.abc import Mapping

import click

from launchbay import __version__
from launchbay.cli.lazy import Entry, LazyGroup
from launchbay.cli.noun_names import NOUNS

SECTIONS: Mapping[str, Mapping[str, Entry]] = {
    "Begin": {
        "demo": Entry("launchbay.demo.command:demo", "Start a server with a sample application, and show it."),
        "login": Entry("launchbay.cli.login:login", "Sign in to a server."),
        "logout": Entry("launchbay.cli.login:logout", "Revoke the token and forget it."),
        "profile": Entry("launchbay.cli.login:profile", "Servers and organizations that commands can mean."),
        "completion": Entry("launchbay.cli.completion:completion", "Completion for bash, zsh and fish."),
    },
    "Every day": {
        "launch": Entry("launchbay.cli.shortcuts:launch", "Launch an application; --wait shows its steps."),
        "run": Entry("launchbay.cli.shortcuts:run", "Run a workflow of an instance."),
        "logs": Entry("launchbay.cli.shortcuts:logs", "The log of an instance; --follow goes on."),
        "apply": Entry("launchbay.cli.directories:apply", "Make the organization what a directory says."),
        "export": Entry("launchbay.cli.directories:export", "Write the organization as a directory."),
    },
    "Manifests, offline": {
        "validate": Entry("launchbay.cli.manifests:validate", "Check manifests, with line and column."),
        "test": Entry("launchbay.manifest_tests.command:test", "Run the tests of manifests."),
        "graph": Entry("launchbay.cli.manifests:graph", "Draw a manifest as Mermaid or DOT."),
    },
    "The API, by noun and verb": {
        noun: Entry(f"launchbay.cli.nouns:{noun.replace('-', '_')}", summary) for noun, summary in NOUNS.items()
    },
    "Servers": {
        "serve": Entry("launchbay.bootstrap.server_commands:serve", "Run the API and the job engine."),
        "worker": Entry("launchbay.bootstrap.server_commands:worker", "Run jobs only, beside servers."),
        "migrate": Entry("launchbay.bootstrap.server_commands:migrate", "Bring the database to this version."),
        "backup": Entry("launchbay.bootstrap.backup_commands:backup", "Write the database into a file."),
        "restore": Entry("launchbay.bootstrap.backup_commands:restore", "Fill an empty database with a backup."),
        "rotate-secret-key": Entry("launchbay.bootstrap.key_commands:rotate", "Seal everything with a new secret key."),
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


if __name__ == "__main__":
    main()
