"""The help of every command has an example, and each example is a command line that the command accepts."""

import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.support.cases import hold
from tests.support.shell import COMMANDS, ROOT

FILES = ("manifest.yml", "production.test.yml", "archive.json", "launchbay.backup", "organization/x.yml")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that examples name."""
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("files")
def test_the_help_of_a_command_has_an_example_that_it_accepts() -> None:
    hold(_accepts_its_example, ((path,) for path in COMMANDS))


def _accepts_its_example(path: str) -> None:
    lines = COMMANDS[path].get_help().splitlines()
    assert any(line.strip() == "Example:" for line in lines), path
    example = lines[lines.index("  Example:") + 1].strip()
    assert example.startswith(path), example
    words = shlex.split(example)[1:]
    with CliRunner().isolation(input="secret-1\nsecret-1\nsecret-1\n"):
        context = ROOT
        while isinstance(context.command, click.Group):
            name, command, words = context.command.resolve_command(context, words)
            assert command is not None
            if isinstance(command, click.Group):
                context = click.Context(command, parent=context, info_name=name, **command.context_settings)
            else:
                context = command.make_context(name, words, parent=context)
