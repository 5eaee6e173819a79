"""The list of configured answers: read with the place of everything that is wrong."""

from pathlib import Path
from textwrap import dedent

import pytest

from launchbay.app.machines import read_answers_file
from launchbay.errors import CannotStart
from launchbay.machines.dry_run import Answer, Answers, of_policies

FILE = """
    answers:
      - action: execrun
        step: generate-db-password
        give: { stdout: 1.10, exitCode: 0 }
      - give: { chefState: { a: [1, { b: null }] } }
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "answers.yml"
    path.write_text(dedent(text))
    return str(path)


def test_a_file_is_read_in_its_order(tmp_path: Path) -> None:
    answers = read_answers_file(written(tmp_path, FILE))
    assert answers == Answers(
        (
            Answer({"action": "execrun", "step": "generate-db-password"}, {"stdout": 1.1, "exitCode": 0}),
            Answer({}, {"chefState": {"a": [1, {"b": None}]}}),
        )
    )


def test_without_a_file_there_are_no_answers() -> None:
    assert read_answers_file("") == Answers()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("answers: {a: 1}", "Line 1, column 10: 'answers' must be a list"),
        ("answers: [7]", "An answer must be a map, but it is the number 7"),
        ("answers:\n  - {give: {}, setp: x}", "Line 2, column 16: An answer knows no 'setp'"),
        ("answers:\n  - {step: x}", "'give' must be a map of outputs, but it is missing"),
        ("answers:\n  - {step: x, give: [1]}", "'give' must be a map of outputs, but it is a list"),
        ("answers:\n  - {step: [x], give: {}}", "'step' must be a text, but it is a list"),
        ("rules: []", "The key 'rules' is unknown"),
        ("- 1", "The document must be a map"),
        ("a: [", "This is not YAML"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CannotStart, match=r"answers\.yml: ") as refused:
        read_answers_file(written(tmp_path, text))
    assert said in " ".join(refused.value.messages)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"nothing-here\.yml cannot be read"):
        read_answers_file(str(tmp_path / "nothing-here.yml"))


def test_a_policy_and_one_below_it_do_not_mix() -> None:
    policies = {"dry-run.execrun.stdout": "word", "dry-run.execrun.stdout.deep": "lost", "dry-run.execrun.n.x.0": 1}
    assert of_policies(policies, "execrun") == {"stdout": "word", "n": {"x": [1]}}


def test_policies_of_an_action_with_a_dot_are_found() -> None:
    assert of_policies({"dry-run.compute.shrink-all.error": "no"}, "compute.shrink-all") == {"error": "no"}
