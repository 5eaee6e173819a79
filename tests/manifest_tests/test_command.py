"""`launchbay test`: what it prints, what it chooses, and how it ends."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from launchbay.cli.main import main

MANIFEST = "launch: {steps: [{s: {action: registerLogPath}}], return: {x: {value: 1}}}"
GOOD = "tests: {it works: [{launch: null, expect: {values: {x: 1}}}], it works too: [launch]}"
BAD = "tests:\n  it fails:\n    - launch:\n      expect: {values: {x: 2}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.yml").write_text(MANIFEST)
    (tmp_path / "app.test.yml").write_text(GOOD)
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["test", *map(str, arguments)])


def test_all_that_succeeds_ends_with_0(folder: Path) -> None:
    result = run(folder / "app.test.yml")
    assert result.exit_code == 0
    assert "  ok  it works (" in result.output
    assert "2 tests, all succeeded, " in result.output


def test_a_manifest_means_the_tests_beside_it_and_each_file_runs_once(folder: Path) -> None:
    result = run(folder / "app.yml", folder / "app.test.yml")
    assert (result.exit_code, "2 tests" in result.output) == (0, True)


def test_a_failure_ends_with_1_and_is_told_with_file_and_line(folder: Path) -> None:
    (folder / "app.test.yml").write_text(BAD)
    result = run(folder / "app.test.yml")
    assert result.exit_code == 1
    assert f"{folder}/app.test.yml:4: expected x to be 2, but it is 1." in result.output
    assert "1 tests, 1 failed" in result.output


def test_names_choose_tests(folder: Path) -> None:
    assert "1 tests" in run(folder / "app.test.yml", "-k", "too").output
    assert "0 tests, all succeeded" in run(folder / "app.test.yml", "-k", "nothing").output


def test_the_log_is_shown_when_it_is_asked_for(folder: Path) -> None:
    assert "registerLogPath" not in run(folder / "app.test.yml").output
    assert "The action 'registerLogPath' is accepted" in run(folder / "app.test.yml", "--log").output


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("app.test.yml", "tests: {a: [lunch]}", "app.test.yml: Line 1, column 13: An act is one of"),
        ("app.test.yml", "", "app.test.yml: Line 1, column 1: The file is empty"),
        ("app.yml", "launch: {steps: [{s: {action: nonsense}}]}", "app.yml: Line 1, column"),
        ("app.test.yml", "manifest: gone.yml\ntests: {a: [launch]}", "gone.yml: No such file or directory."),
    ],
)
def test_what_cannot_be_read_ends_with_2(folder: Path, name: str, text: str, said: str) -> None:
    (folder / name).write_text(text)
    result = run(folder / "app.yml")
    assert result.exit_code == 2
    assert said in result.output


def test_a_manifest_without_tests_beside_it_is_told(folder: Path) -> None:
    (folder / "app.test.yml").unlink()
    result = run(folder / "app.yml")
    assert result.exit_code == 2
    assert "app.test.yml: No such file or directory." in result.output
