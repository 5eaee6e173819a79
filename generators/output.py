"""Every generated file with its text."""

import subprocess
import sys
from pathlib import Path

from generators.chart import chart_schema
from generators.cli_commands import commands_module
from generators.client_operations import operations_module
from generators.client_types import types_module
from generators.manifest_schema import manifest_schema
from generators.monitoring import monitoring
from generators.pages import pages
from generators.pictures import pictures
from generators.words import ROOT, described

CLIENT = Path("src/launchbay/client")


def outputs() -> dict[Path, str]:
    """Return path in the repository → text of every generated file."""
    document = described()
    modules = {
        CLIENT / "types.py": types_module(document),
        CLIENT / "operations.py": operations_module(document),
        Path("src/launchbay/cli/operation_commands.py"): commands_module(document),
    }
    schema = {Path("docs/reference/manifest.schema.json"): manifest_schema()}
    return (
        {path: _formatted(path, text) for path, text in modules.items()}
        | pages(document)
        | schema
        | monitoring()
        | chart_schema()
        | pictures()
    )


def _formatted(path: Path, text: str) -> str:
    """Return a module as the repository's own rules of formatting have it, without imports that it does not need."""
    ruff = str(Path(sys.executable).with_name("ruff"))
    fix = [ruff, "check", "--quiet", "--select", "I,F401", "--fix", "--exit-zero", "--stdin-filename", str(path), "-"]
    text = subprocess.run(  # noqa: S603 - the linter of this repository
        fix, input=text, capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    layout = [ruff, "format", "--quiet", "--stdin-filename", str(path), "-"]
    return subprocess.run(  # noqa: S603 - the formatter of this repository
        layout, input=text, capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
