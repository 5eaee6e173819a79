"""Profiles: which server, which organization, which output. One file in the configuration directory, readable by its
owner only."""

import os
import tempfile
from pathlib import Path
from typing import Any

import click
import msgspec
import platformdirs

DEFAULT = "default"
OUTPUTS = ("table", "json", "yaml")


class Profile(msgspec.Struct, omit_defaults=True):
    """A server with what a user has chosen for it."""

    url: str = ""
    email: str = ""
    organization: str = ""  # name or id
    output: str = ""


class Configuration(msgspec.Struct):
    """All profiles, and the one in use."""

    current: str = DEFAULT
    profiles: dict[str, Profile] = {}


def directory() -> Path:
    """Return the directory of configuration: `LAUNCHBAY_CONFIG_DIR`, or the platform's own."""
    given = os.environ.get("LAUNCHBAY_CONFIG_DIR")
    return Path(given) if given else platformdirs.user_config_path("launchbay", appauthor=False)


def read_configuration() -> Configuration:
    """Return the profiles. Raises UsageError where the file cannot be read."""
    path = directory() / "config.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Configuration)
    except FileNotFoundError:
        return Configuration()
    except (OSError, msgspec.MsgspecError) as error:
        raise click.UsageError(f"{path} cannot be read: {error}. Mend it, or remove it and log in again.") from error


def write_configuration(configuration: Configuration) -> None:
    """Keep the profiles."""
    write_private(directory() / "config.json", configuration)


def write_private(path: Path, value: Any) -> None:
    """Write JSON into a file that only its owner can read; whoever reads meanwhile sees the old one or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # made with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def chosen_name(given: str | None, configuration: Configuration) -> str:
    """Return the profile that is meant: the option, `LAUNCHBAY_PROFILE`, or the one in use."""
    return given or os.environ.get("LAUNCHBAY_PROFILE") or configuration.current
