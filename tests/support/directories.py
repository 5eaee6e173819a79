"""Directories of organizations, written and exported by the commands."""

from itertools import count
from pathlib import Path

from tests.support.shell import Shell

_NUMBERS = count()


def new_organization(cli: Shell) -> None:
    cli.environ["LAUNCHBAY_ORGANIZATION"] = cli.good("organization", "create", f"values {next(_NUMBERS)}").strip()


def written(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return directory


def exported(cli: Shell, directory: Path) -> dict[str, bytes]:
    cli.good("export", str(directory))
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
