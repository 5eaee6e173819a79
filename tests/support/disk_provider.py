"""A provider of Terraform whose resources are files, which anybody can change without Terraform.

Its program runs in the environment of `requirements/terraform`.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

_TERRAFORM = Path(__file__).parents[2] / ".venv" / "terraform" / "bin" / "python"
_ADDRESS, _VERSION = "local.test/tests/disk", "1.0.0"
HAS_FRAMEWORK = _TERRAFORM.exists()
REQUIRED = f'terraform {{\n  required_providers {{\n    disk = {{ source = "{_ADDRESS}" }}\n  }}\n}}\n'


def install(directory: Path) -> Path:
    """Write a mirror with the provider, and return the configuration of the program that names it."""
    place = directory / "mirror" / _ADDRESS / _VERSION / "linux_amd64"
    place.mkdir(parents=True)
    program = place / f"terraform-provider-disk_v{_VERSION}"
    program.write_text(f'#!/bin/sh\nexec {_TERRAFORM} {Path(__file__)} "$@"\n')
    program.chmod(0o755)
    config = directory / "disk.tfrc"
    config.write_text(
        f'provider_installation {{\n  filesystem_mirror {{\n    path = "{directory / "mirror"}"\n  }}\n}}\n'
    )
    return config


def _serve() -> None:
    from tf.runner import run_provider
    from tf.schema import Attribute, Schema
    from tf.types import String

    class File:
        """A file with a text. `read_at` is another one each time."""

        def __init__(self, _: Any) -> None:
            pass

        @classmethod
        def get_name(cls) -> str:
            return "file"

        @classmethod
        def get_schema(cls) -> Any:
            attributes = [
                Attribute("path", String(), required=True, requires_replace=True),
                Attribute("content", String(), required=True),
                Attribute("read_at", String(), computed=True),
            ]
            return Schema(attributes=attributes)

        def validate(self, *_: Any) -> None:
            pass

        def plan(self, _context: Any, _current: Any, planned: Any) -> Any:
            return planned

        def create(self, _context: Any, planned: Any) -> Any:
            Path(planned["path"]).write_text(planned["content"])
            return {**planned, "read_at": str(time.time_ns())}

        def read(self, _context: Any, current: Any) -> Any:
            file = Path(current["path"])
            if not file.exists():
                return None
            return {**current, "content": file.read_text(), "read_at": str(time.time_ns())}

        def update(self, _context: Any, current: Any, planned: Any) -> Any:
            Path(planned["path"]).write_text(planned["content"])
            return {**planned, "read_at": current["read_at"]}

        def delete(self, _context: Any, current: Any) -> None:
            Path(current["path"]).unlink(missing_ok=True)

        def upgrade(self, _context: Any, _version: int, old: Any) -> Any:
            return old

        def import_(self, _context: Any, _id: str) -> Any:
            return None

    class Disk:
        def get_model_prefix(self) -> str:
            return "disk_"

        def full_name(self) -> str:
            return _ADDRESS

        def get_provider_schema(self, _: Any) -> Any:
            return Schema()

        def validate_config(self, *_: Any) -> None:
            pass

        def configure_provider(self, *_: Any) -> None:
            pass

        def get_data_sources(self) -> list[type]:
            return []

        def get_resources(self) -> list[type]:
            return [File]

        def get_functions(self) -> list[type]:
            return []

        def new_resource(self, kind: type) -> Any:
            return kind(self)

        def new_data_source(self, kind: type) -> Any:
            return kind(self)

    run_provider(Disk(), sys.argv)


if __name__ == "__main__":
    assert "TF_PLUGIN_MAGIC_COOKIE" in os.environ, "Terraform starts it."
    _serve()
