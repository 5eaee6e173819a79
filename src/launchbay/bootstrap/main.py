"""The `launchbay` command: the group that all commands join."""

import click

from launchbay import __version__
from launchbay.bootstrap.backup_commands import backup, restore
from launchbay.bootstrap.server_commands import migrate, serve, worker
from launchbay.demo.command import demo
from launchbay.manifest_tests.command import test


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="launchbay")
def main() -> None:
    """Launchbay launches applications with one call, runs workflows on them and has them destroyed on time."""


main.add_command(demo)
main.add_command(serve)
main.add_command(worker)
main.add_command(migrate)
main.add_command(backup)
main.add_command(restore)
main.add_command(test)


if __name__ == "__main__":
    main()
