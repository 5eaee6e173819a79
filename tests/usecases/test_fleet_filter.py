"""The parameters that a filter of instances gives its statement."""

from launchbay.usecases.fleet import InstanceFilter


def test_values_in_any_order_and_repeated_are_one_statement() -> None:
    one = InstanceFilter(statuses=["Running", "Failed", "Running"], job_statuses=["Succeeded", "Failed"])
    other = InstanceFilter(statuses=["Failed", "Running"], job_statuses=["Failed", "Succeeded", "Failed"])
    assert one.conditions() == other.conditions()
