"""The pages about packages of one's own: what they show is in the examples, and their commands do what they say."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launchbay.actions.contract import StepContext
from tests.support import shell
from tests.support.documentation import DOCS, ROOT, blocks
from tests.support.servers import free_ports, place
from tests.support.shell import await_true, processes_of

PAGES = {
    DOCS / "howto" / "write-an-action.md": ROOT / "examples" / "launchbay-example-action",
    DOCS / "howto" / "write-a-component-type.md": ROOT / "examples" / "launchbay-example-component",
}
TRIED = DOCS / "howto" / "install-extensions.md"
INSTALL = "python -m pip install "
# Not into the environment that all tests share, and from no registry.
INSTEAD = f"{INSTALL}--quiet --no-deps --no-build-isolation --target ~/packages "


@pytest.fixture(params=PAGES, ids=lambda page: str(page.name))
def page(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def directory() -> Iterator[Path]:
    with place() as made:
        yield made


def test_what_the_page_shows_is_in_the_package(page: Path) -> None:
    files = [path for path in PAGES[page].rglob("*") if path.suffix in {".py", ".toml"}]
    package = "\n".join(path.read_text("utf-8") for path in files)
    shown = [block for block in blocks(page) if block.language in {"python", "toml"}]
    assert len(shown) > 2
    assert [block.line for block in shown if block.text not in package] == []


@pytest.mark.slow
def test_the_commands_of_the_page_that_tries_them_do_what_it_says(directory: Path) -> None:
    home = directory / "home"
    home.mkdir(mode=0o711)
    replaced = {"8080": str(*free_ports(1)), INSTALL: INSTEAD}
    commands = shell.commands_of([block for block in blocks(TRIED) if block.language in {"console", "yaml"}], replaced)
    packages = shell.Command("export PYTHONPATH=~/packages:$PYTHONPATH", "", 0)
    outcomes = shell.run([packages, *commands], cwd=ROOT, home=home)
    wrong = [
        f"line {outcome.command.line}: $ {outcome.command.text}\nprinted\n{outcome.printed}"
        for outcome in outcomes
        if outcome.status or (outcome.command.shown and not shell.agrees(outcome.command.shown, outcome.printed))
    ]
    assert not wrong, "\n\n".join(wrong)
    assert len(outcomes) > 10
    await_true(lambda: processes_of(directory) == [])


def test_every_part_of_the_context_is_named_or_said_to_be_elsewhere() -> None:
    text = (DOCS / "reference" / "action-contract.md").read_text("utf-8")
    later = {
        "ask",
        "call_command",
        "redact",
        "mail",
        "plan_image",
        "programs",
        "run_image",
        "signals",
        "notify_webhooks",
        "wait_peers",
    }
    parts = {name for name in vars(StepContext) if not name.startswith("_")}
    assert later <= parts
    assert [name for name in parts - later if f"`{name}" not in text] == []
