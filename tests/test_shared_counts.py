"""Processes of one server count requests and connections together."""

import os
from collections.abc import Iterator

import pytest

from launchbay.fairness.shared_counts import SharedCounts

PROCESSES = 3


@pytest.fixture
def processes() -> Iterator[list[SharedCounts]]:
    """Return the counts as the supervisor has them, then as each process has."""
    supervisor, descriptor = SharedCounts.make(PROCESSES)
    yield [supervisor, *(SharedCounts(PROCESSES, number, descriptor) for number in range(1, PROCESSES + 1))]
    os.close(descriptor)


def test_connections_of_all_processes_count(processes: list[SharedCounts]) -> None:
    for process in processes[1:]:
        process.add_connections("a", 1)
    processes[1].add_connections("b", 1)
    assert [each.connections("a") for each in processes] == [PROCESSES] * (PROCESSES + 1)
    processes[2].add_connections("a", -1)
    assert processes[1].connections("a") == PROCESSES - 1
    assert processes[3].connections("b") == 1


def test_connections_of_a_dead_process_count_no_more(processes: list[SharedCounts]) -> None:
    for process in processes[1:]:
        process.add_connections("a", 5)
    processes[0].forget_connections(2)
    assert processes[1].connections("a") == 5 * (PROCESSES - 1)


def test_requests_count_in_their_second_only(processes: list[SharedCounts]) -> None:
    for process in processes[1:]:
        process.count_in_second("a", 7)
    assert processes[0].in_second("a", 7) == PROCESSES
    assert processes[1].in_second("a", 8) == 0
    processes[1].count_in_second("a", 9)
    assert processes[2].in_second("a", 9) == 1
    assert processes[2].in_second("a", 7) == 0


def test_thousands_of_keys_are_told_apart() -> None:
    counts = SharedCounts()
    for number in range(3000):
        counts.add_connections(f"address {number}", 1 + number % 3)
    wrong = sum(counts.connections(f"address {number}") != 1 + number % 3 for number in range(3000))
    assert wrong <= 5
    assert counts.connections("nobody") <= 1
