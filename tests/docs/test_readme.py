"""The README's example works as it is shown, and its commands exist."""

import re
from pathlib import Path

import pytest

from tests.support import shell
from tests.support.documentation import DOCS, ROOT, blocks
from tests.support.servers import Bay, place
from tests.support.service import EMAIL, PASSWORD

PAGE = ROOT / "README.md"
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))


@pytest.mark.parametrize("page", [PAGE, DOCS / "howto" / "install-package.md"], ids=lambda page: str(page.name))
def test_every_make_command_of_the_page_exists(page: Path) -> None:
    used = re.findall(r"\bmake ([a-z-]+)", "".join(block.text for block in blocks(page) if block.language == "console"))
    assert used
    assert set(used) <= TARGETS


@pytest.mark.slow
def test_the_example_prints_what_the_readme_shows(bay: Bay) -> None:
    example = [block for block in blocks(PAGE) if "hello" in block.text.lower()]
    with place() as directory:
        home = directory / "home"
        home.mkdir(mode=0o711)
        login = f"echo '{PASSWORD}' | launchbay login {bay.url} --email {EMAIL} --password-stdin"
        commands = [shell.Command(login, "", 0), *shell.commands_of(example, {})]
        outcomes = shell.run(commands, cwd=directory, home=home)
    wrong = [
        f"line {outcome.command.line}: $ {outcome.command.text}\nprinted\n{outcome.printed}"
        for outcome in outcomes
        if outcome.status or (outcome.command.shown and not shell.agrees(outcome.command.shown, outcome.printed))
    ]
    assert not wrong, "\n\n".join(wrong)
    assert len(outcomes) == 6
