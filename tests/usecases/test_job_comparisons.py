"""Which values of two runs differ."""

import pytest

from launchbay.usecases.job_comparisons import different_values


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, 1.0), ([0], [False]), ({"a": 1}, {"a": True})])
def test_values_of_other_types_differ(one: object, other: object) -> None:
    assert different_values({"x": one, "y": 2}, {"x": other, "y": 2}) != []
    assert different_values({"x": one, "y": 2}, {"x": one, "y": 2}) == []
