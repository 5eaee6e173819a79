"""Answers for a model, without a server."""

from typing import Any

import pytest

from launchbay.mcp.answers import with_warnings


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"a": 1}, {"a": 1, "warnings": ["Odd."]}),
        ({"error": "No."}, {"error": "No.", "warnings": ["Odd."]}),
        ({"warnings": ["First."]}, {"warnings": ["First.", "Odd."]}),
        ({"warnings": ["Odd."]}, {"warnings": ["Odd."]}),
        ({"warnings": None}, {"warnings": ["Odd."]}),
        ([1, 2], {"answer": [1, 2], "warnings": ["Odd."]}),
        (None, {"answer": None, "warnings": ["Odd."]}),
    ],
)
def test_no_answer_loses_warnings(answer: Any, expected: dict[str, Any]) -> None:
    assert with_warnings(answer, ["Odd.", "Odd."]) == expected
    assert with_warnings(answer, []) == answer
