"""Completion of commands in shells."""

import click
from click.shell_completion import get_completion_class

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
