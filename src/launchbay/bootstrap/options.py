"""Options that the commands on a database share, and the settings that come of them."""

from pathlib import Path
from typing import Any

import click

from launchbay.settings import SettingError, Settings, load

config_option = click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="A TOML file with settings."
)
data_option = click.option("--data-dir", help="Where the embedded database lives. [default: ./data]")
database_option = click.option("--database-url", help="A PostgreSQL to use instead of the embedded one.")


def read_settings(config: Path | None, given: dict[str, Any]) -> Settings:
    """Return the settings; what is wrong with them is told as a mistake of the command line."""
    try:
        return load(file=config, overrides=given)
    except SettingError as error:
        raise click.ClickException(str(error)) from error
