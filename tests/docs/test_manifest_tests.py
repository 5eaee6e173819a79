"""The pages about tests of manifests: their example runs, and prints what they show."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from launchbay.cli.main import main
from launchbay.manifest_tests import suite
from launchbay.manifest_tests.suite import Verb
from tests.support.documentation import DOCS, blocks

PAGE = DOCS / "reference" / "manifest-tests.md"
MANIFEST, TESTS, SHOWN = blocks(DOCS / "howto" / "test-a-manifest.md")
PART, FAILED = blocks(PAGE)
_TIME = re.compile(r"\d+ ms")


def shown(folder: Path, monkeypatch: pytest.MonkeyPatch, tests: str, command: str) -> Result:
    (folder / "shop.yml").write_text(MANIFEST.text)
    (folder / "shop.test.yml").write_text(tests)
    monkeypatch.chdir(folder)
    return CliRunner().invoke(main, command.removeprefix("$ launchbay ").split())


def timeless(text: str) -> str:
    return _TIME.sub("… ms", text)


def test_the_example_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, _, output = SHOWN.text.partition("\n")
    result = shown(tmp_path, monkeypatch, TESTS.text, command)
    assert timeless(result.output) == timeless(output)
    assert result.exit_code == 0


def test_the_example_that_fails_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, _, output = FAILED.text.partition("\n")
    wrong = TESTS.text.replace("expect: { machines: { web: 3 } }", "expect: { machines: { web: 4 } }", 1)
    result = shown(tmp_path, monkeypatch, wrong, command)
    assert timeless(result.output) == timeless(output)
    assert result.exit_code == 1


def test_the_environment_of_the_page_can_be_read() -> None:
    text = f"{PART.text}tests: {{ a: [launch] }}\n"
    found = suite.read_suite(Path("a.test.yml"), text.encode())
    assert found.services["notes"]["add"] == {"id": 7}


def test_everything_that_can_be_written_is_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    names = ["tests", "manifest", "applications", "environment", "answers"]
    names += ["status", "error", "values", "like", "steps", "not-steps", "workflows", "machines", "log"]
    for name in names:
        assert f"| `{name}` |" in page
    for verb in Verb:
        assert re.search(rf"^\| `{verb}:", page, re.MULTILINE)
