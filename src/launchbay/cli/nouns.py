"""The groups of the nouns: `launchbay.cli.nouns:application` is the group of all commands of applications."""

from functools import cache

import click

from launchbay.cli.commands import command_of
from launchbay.cli.extensions import ADDED, EXTENSIONS
from launchbay.cli.lazy import HelpfulGroup, load
from launchbay.cli.verbs import all_operations, nouns


class NounGroup(HelpfulGroup):
    """The verbs of a noun."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the verbs, in the order of the API."""
        noun = self.name or ""
        return [*nouns()[noun], *ADDED.get(noun, {})]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Make the command of a verb."""
        noun = self.name or ""
        place = ADDED.get(noun, {}).get(cmd_name)
        if place is not None:
            command: click.Command = load(place)
            return command
        name = nouns()[noun].get(cmd_name)
        return None if name is None else command_of(all_operations()[name], cmd_name, EXTENSIONS.get(name))


@cache
def group_of(noun: str) -> NounGroup:
    """Return the group of a noun."""
    summaries = {name: f"Commands of {name.replace('-', ' ')}s." for name in nouns()}
    return NounGroup(noun, help=summaries[noun], context_settings={"help_option_names": ["-h", "--help"]})


def __getattr__(name: str) -> NounGroup:
    """Give the group of a noun as an attribute of this module, which is how lazy groups name their commands."""
    noun = name.replace("_", "-")
    if noun not in nouns():
        raise AttributeError(name)
    return group_of(noun)
