"""`launchbay rule test`: cases of rules, without a server."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from launchbay.cli.main import main

EXAMPLES = sorted(Path("examples/rules").glob("*.test.yml"))
RULES = "- name: friday\n  when: $.time.weekday == 'FRI'\n  deny: Not on a Friday in {$.environment.name}.\n"
CASES = """\
facts: { environment: { name: production } }
tests:
  friday: { facts: { time: "2026-12-04T12:00Z" }, expect: { deny: friday, message: in production } }
  monday: { facts: { time: "2026-12-07T12:00Z" }, expect: allow }
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["rule", "test", *arguments])


def written(directory: Path, rules: str, cases: str) -> Path:
    (directory / "rules.yml").write_text(rules, "utf-8")
    found = directory / "rules.test.yml"
    found.write_text(cases, "utf-8")
    return found


def test_there_are_ten_examples() -> None:
    assert len(EXAMPLES) == 10


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_passes_its_tests(path: Path) -> None:
    found = run(str(path))
    assert found.exit_code == 0, found.output
    assert "all succeeded" in found.output


def test_rules_are_tested_by_the_file_with_their_name(tmp_path: Path) -> None:
    written(tmp_path, RULES, CASES)
    found = run(str(tmp_path / "rules.yml"))
    assert found.exit_code == 0, found.output
    assert "2 tests, all succeeded" in found.output


@pytest.mark.parametrize(
    ("expected", "difference"),
    [
        ("allow", "expected allow, found deny by friday."),
        ("{ warn: friday }", "expected warn by friday, found deny by friday."),
        ("{ deny: monday }", "expected deny by monday, found deny by friday."),
        ("{ deny: friday, message: in test }", "expected a message with 'in test', found 'Not on a Friday in a.'."),
    ],
)
def test_a_test_that_fails_says_where_and_what_was_found(tmp_path: Path, expected: str, difference: str) -> None:
    cases = f"tests:\n  one:\n    facts: {{ time: '2026-12-04', environment: {{ name: a }} }}\n    expect: {expected}\n"
    path = written(tmp_path, RULES, cases)
    found = run(str(path))
    assert found.exit_code == 1
    assert f"{path}:3: {difference}" in found.output
    assert "1 test, 1 failed" in found.output


def test_a_rule_that_fails_is_named_with_its_reason(tmp_path: Path) -> None:
    path = written(
        tmp_path, "- name: a\n  when: $.parameters.x > 1\n  deny: No.\n", "tests: { one: { expect: allow } }"
    )
    found = run(str(path))
    assert found.exit_code == 1
    assert "The rule failed: $.parameters.x > 1: > can't compare null with a number" in found.output


@pytest.mark.parametrize(
    ("rules", "cases", "problem"),
    [
        (RULES, "tests: {}", "No tests found"),
        (RULES, "tests: { a: {} }", "A test says what it expects"),
        (RULES, "tests: { a: { expect: { forbid: x } } }", "Unknown key 'forbid'"),
        (RULES, "tests: { a: { facts: { kin: x }, expect: allow } }", "There is no fact 'kin'"),
        (RULES, "tests: { a: { facts: { who: { mail: x } }, expect: allow } }", "There is no fact 'who.mail'"),
        (RULES, "tests: { a: { facts: { who: ann }, expect: allow } }", "'who' is a map"),
        (RULES, "tests: { a: { facts: { time: soon }, expect: allow } }", "'time' is a time"),
        (RULES, "rules: other.yml\ntests: { a: { expect: allow } }", "other.yml: No such file"),
        ("- name: a\n", "tests: { a: { expect: allow } }", "rules.yml: Line 1, column 3: a: A rule has exactly one"),
        (RULES, "{", "Line "),
    ],
)
def test_a_file_that_cannot_be_read_ends_with_2(tmp_path: Path, rules: str, cases: str, problem: str) -> None:
    found = run(str(written(tmp_path, rules, cases)))
    assert found.exit_code == 2, found.output
    assert problem in found.output


def test_the_recipes_of_the_documentation_are_the_examples() -> None:
    page = Path("docs/howto/rule-recipes.md").read_text("utf-8")
    recipes = re.findall(r"\(`([a-z-]+\.yml)`\).*?```yaml\n(.*?)```", page, re.DOTALL)
    assert {name for name, _ in recipes} == {path.name.replace(".test", "") for path in EXAMPLES}
    for name, text in recipes:
        assert text in (Path("examples/rules") / name).read_text("utf-8"), name
