"""Commands at the top that are verbs of a noun too: what people type all day."""

import click

from launchbay.cli.commands import command_of
from launchbay.cli.extensions import EXTENSIONS
from launchbay.cli.verbs import all_operations


def _shortcut(operation: str, name: str) -> click.Command:
    return command_of(all_operations()[operation], name, EXTENSIONS.get(operation))


launch = _shortcut("launch_application", "launch")
logs = _shortcut("read_log", "logs")
run = _shortcut("run_workflow", "run")
