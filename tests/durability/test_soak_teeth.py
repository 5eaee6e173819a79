"""A soak notices what leaks: descriptors, memory and tasks are put into a server on purpose (benchmarks/soak)."""

import pytest

from benchmarks.soak.__main__ import run

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]
MINUTES = 1.2


def test_a_leak_of_each_kind_is_noticed_within_a_minute_and_harms_no_promise() -> None:
    result = run(MINUTES, seed=1, leak="everything")
    judged = {row["name"]: row for row in result["judged"]}
    assert not result["flat"]
    for kind in ("memory", "own descriptors", "tasks"):
        found = judged[f"server: {kind}"]
        # Far beyond what starting up and noise make of it.
        assert found["risen"] > 2 * found["allowed"], found
    assert judged["second server: descriptors"]["flat"], "nothing is leaked there"
    assert result["violations"] == []
    assert result["errors"] == 0
