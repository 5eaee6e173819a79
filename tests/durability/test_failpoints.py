"""The server dies at each named moment between two lasting effects, and every promise is kept (promises 1 to 8).

`make test-faults ARGS='tests/durability/test_failpoints.py -k "run.accepted"'` repeats one of them.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.campaigns import NO_SETTINGS, Stand
from tests.support.failpoints import NATS_POINTS, POINTS, find
from tests.support.nats_server import dispatch_settings, nats_servers
from tests.support.operations import OPERATIONS
from tests.support.servers import fault_directory

PASSES = [(name, number) for name, point in POINTS.items() for number in dict.fromkeys((1, point.later))]
NATS_PASSES = [each for each in PASSES if each[0] in NATS_POINTS]


class Stands:
    """The stand of these tests; a new one after one on which something went wrong."""

    def __init__(self, settings: Mapping[str, str] = NO_SETTINGS) -> None:
        self._exits = ExitStack()
        self._current: Stand | None = None
        self._settings = settings

    def sound(self) -> Stand:
        """Return a stand on which all is well."""
        if self._current is None or not self._current.is_sound:
            self.close()
            self._current = Stand(self._exits.enter_context(fault_directory()), settings=self._settings)
            self._exits.callback(self._current.end)
        return self._current

    def close(self) -> None:
        """End the current one."""
        self._exits.close()


@pytest.fixture(scope="module")
def stands() -> Iterator[Stands]:
    made = Stands()
    yield made
    made.close()


@pytest.fixture(scope="module")
def nats_stands() -> Iterator[Stands]:
    with nats_servers() as running:
        made = Stands(dispatch_settings(running))
        yield made
        made.close()


def test_every_failpoint_names_a_place_of_the_product_and_an_operation_that_leads_there() -> None:
    for point in POINTS.values():
        for place in (point.place, point.within, point.since):
            assert place is None or find(place)
        assert point.operation in OPERATIONS


@pytest.mark.faults
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "number"), [each for each in PASSES if each not in NATS_PASSES])
async def test_a_server_that_dies_between_two_effects_keeps_every_promise(
    stands: Stands, name: str, number: int
) -> None:
    assert await stands.sound().judge(name, number) == []


@pytest.mark.faults
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "number"), NATS_PASSES)
async def test_a_server_or_a_worker_that_dies_around_a_wake_up_through_nats_keeps_every_promise(
    nats_stands: Stands, name: str, number: int
) -> None:
    assert await nats_stands.sound().judge(name, number) == []


@pytest.mark.faults
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("defect", "name", "number", "told"),
    [
        ("answer-before-commit", "launch.answered", 1, "lost: "),
        ("next-step-before-the-record", "step.begun", 4, "went back: "),
        ("forget-before-firing", "fire.taken", 1, "schedule: "),
        ("level-by-level", "reconfigure.between-levels", 1, "failed: "),
    ],
)
async def test_dying_there_shows_the_defect(tmp_path: Path, defect: str, name: str, number: int, told: str) -> None:
    stand = Stand(tmp_path, defect)
    try:
        broken = await stand.judge(name, number)
    finally:
        stand.end()
    assert [each for each in broken if each.startswith(told)], broken[:5]
