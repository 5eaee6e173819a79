"""The tutorial does what it says: every command and every file of it, in one shell, on a fresh server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launchbay.actions.registry import BUILT_IN
from launchbay.manifest.compiler import check
from tests.support import shell
from tests.support.documentation import DOCS, ROOT, blocks
from tests.support.servers import free_ports, place
from tests.support.shell import await_true, processes_of

PAGE = DOCS / "get-started" / "tutorial.md"
ACTIONS = frozenset(name for action in BUILT_IN for name in (action.name, *action.aliases))
PORTS = ("8080", "9000")


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with place() as made:
        yield made


@pytest.fixture(scope="module")
def outcomes(directory: Path) -> list[shell.Outcome]:
    home = directory / "home"
    home.mkdir(mode=0o711)
    replaced = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
    return shell.run(shell.commands_of(list(blocks(PAGE)), replaced), cwd=ROOT, home=home)


@pytest.mark.slow
def test_every_command_of_the_tutorial_succeeds(outcomes: list[shell.Outcome]) -> None:
    failed = [f"$ {outcome.command.text}\n{outcome.printed}" for outcome in outcomes if outcome.status != 0]
    assert not failed, "\n\n".join(failed)


@pytest.mark.slow
def test_every_output_of_the_tutorial_is_the_real_one(outcomes: list[shell.Outcome]) -> None:
    shown = [outcome for outcome in outcomes if outcome.command.shown]
    wrong = [
        f"line {command.line}: $ {command.text}\nis shown as\n{command.shown}\nbut printed\n{outcome.printed}"
        for outcome in shown
        if not shell.agrees((command := outcome.command).shown, outcome.printed)
    ]
    assert len(shown) > 20
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
def test_the_tutorial_leaves_nothing_running(outcomes: list[shell.Outcome], directory: Path) -> None:
    assert outcomes
    await_true(lambda: processes_of(directory) == [])


def test_every_block_of_the_tutorial_is_run_or_saved() -> None:
    for block in blocks(PAGE):
        assert block.language == "console" or shell.commands_of([block], {}), f"line {block.line} is never tried"


def test_a_manifest_of_the_tutorial_has_the_typo_that_the_page_corrects_and_no_other() -> None:
    ferry, harbour = (block.text for block in blocks(PAGE) if block.language == "yaml")
    (typo,) = check(ferry.encode(), known_actions=ACTIONS)
    assert "wiat" in typo.message
    assert check(ferry.replace("wiat", "wait").encode(), known_actions=ACTIONS) == []
    assert check(harbour.encode(), known_actions=ACTIONS) == []


def test_an_output_that_differs_is_noticed() -> None:
    assert shell.agrees('{"id":"6b00261c4ba4eb76fa93ae77"}', '{"id":"000000000000000000000000"}')
    assert shell.agrees("failed: …", "failed: for a reason\nand another")
    assert not shell.agrees("Running", "Failed")
    assert not shell.agrees('{"version":2}', '{"version":3}')
    assert not shell.agrees("… [a]", "failed: b")
