"""The provider: its configuration, and the program that Terraform starts."""

import argparse
import os
import platform
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from tf.runner import run_provider
from tf.schema import Attribute, Schema
from tf.types import String
from tf.utils import Diagnostics

from launchbay.client import Client, RefreshToken, SessionToken
from launchbay_terraform import __version__
from launchbay_terraform.data_sources import DATA_SOURCES
from launchbay_terraform.resources import RESOURCES

ADDRESS = "launchbay.local/launchbay/launchbay"
PROGRAM = "terraform-provider-launchbay"
_TIMEOUT_S = 60.0
_STARTED_BY_TERRAFORM = "TF_PLUGIN_MAGIC_COOKIE"  # Terraform and OpenTofu set it for each provider that they start
_USAGE = f"""\
Usage: {PROGRAM} install [DIRECTORY]

Terraform starts this provider itself. `install` puts it where `terraform init` finds it:
by default in ~/.terraform.d/plugins."""


class LaunchbayProvider:
    """What Terraform asks a provider for (`tf.iface.Provider`)."""

    def __init__(self) -> None:
        # None until Terraform has configured the provider: it checks configurations before.
        self.client: Client | None = None

    def get_model_prefix(self) -> str:
        return "launchbay_"

    def full_name(self) -> str:
        return ADDRESS

    def get_provider_schema(self, _: Diagnostics) -> Schema:
        return Schema(
            attributes=[
                Attribute("url", String(), "URL of the server. Default: `LAUNCHBAY_URL`.", optional=True),
                Attribute(
                    "token",
                    String(),
                    "Access token, or refresh token. Default: `LAUNCHBAY_TOKEN`.",
                    optional=True,
                    sensitive=True,
                ),
                Attribute("ca_file", String(), "File with the certificates that sign the server's.", optional=True),
            ]
        )

    def validate_config(self, diags: Diagnostics, config: Mapping[str, Any]) -> None:
        """Nothing can be said about a value before Terraform knows all of them: `configure_provider` does."""

    def configure_provider(self, diags: Diagnostics, config: Mapping[str, Any]) -> None:
        """Connect, or say what is missing."""
        url = config.get("url") or os.environ.get("LAUNCHBAY_URL")
        token = config.get("token") or os.environ.get("LAUNCHBAY_TOKEN")
        for name, value in (("url", url), ("token", token)):
            if not value:
                detail = f"Set {name} in the provider's block, or the variable LAUNCHBAY_{name.upper()}."
                diags.add_error(f"The provider needs a {name}", detail, [name])
        if not url or not token:
            return
        try:
            verify = ssl.create_default_context(cafile=config["ca_file"]) if config.get("ca_file") else True
            credentials = RefreshToken(token) if token.startswith("lbr_") else SessionToken(token)
            self.client = Client(url, credentials, timeout_s=_TIMEOUT_S, verify=verify)
        except (OSError, ValueError) as error:
            diags.add_error("The provider can't connect", str(error))

    def get_data_sources(self) -> list[type]:
        return list(DATA_SOURCES)

    def get_resources(self) -> list[type]:
        return list(RESOURCES)

    def get_functions(self) -> list[type]:
        return []

    def new_resource(self, kind: type) -> Any:
        return kind(self)

    def new_data_source(self, kind: type) -> Any:
        return kind(self)


def install(directory: Path) -> Path:
    """Put the provider where `terraform init` finds it, and return the path of the program there.

    `directory` is a directory of plugins, such as `~/.terraform.d/plugins`.
    """
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine().lower())
    place = directory / ADDRESS / __version__ / f"{platform.system().lower()}_{machine}"
    place.mkdir(parents=True, exist_ok=True)
    program = place / f"{PROGRAM}_v{__version__}"
    # Terraform starts a program of this name. This one starts ours in the environment that it is installed in.
    paths = quote(":".join(path for path in sys.path if path))
    command = f'{quote(sys.executable)} -m launchbay_terraform.provider "$@"'
    program.write_text(f"#!/bin/sh\nPYTHONPATH={paths} exec {command}\n")
    program.chmod(0o755)
    return program


def main() -> None:
    """Serve Terraform, or install the provider: `terraform-provider-launchbay install DIRECTORY`.

    Without Terraform there is nobody to serve. A terminal then gets the usage instead of a program that waits forever.
    """
    if sys.argv[1:2] == ["install"]:
        parser = argparse.ArgumentParser(prog=f"{PROGRAM} install", description="Install the provider for Terraform.")
        parser.add_argument("directory", nargs="?", type=Path, default=Path.home() / ".terraform.d" / "plugins")
        print(install(parser.parse_args(sys.argv[2:]).directory))  # noqa: T201 - the answer of a command
        return
    if "--dev" not in sys.argv[1:] and _STARTED_BY_TERRAFORM not in os.environ:
        is_help = sys.argv[1:2] in (["--help"], ["-h"])
        print(_USAGE, file=sys.stdout if is_help else sys.stderr)
        sys.exit(0 if is_help else 2)
    run_provider(LaunchbayProvider(), sys.argv)


if __name__ == "__main__":
    main()
