"""The simulation of cells keeps its books, and its strategies differ as they should."""

import random
from typing import Any

import pytest

from benchmarks.cells import HOURS, SHAPE, STRATEGIES, World, simulate, tenants_of

SMALL: Any = {"tenants": 3_000, "launches": 20e6, "days": 10, "capacity": 190.0}


def test_a_day_of_all_hours_has_the_launches_that_were_asked_for() -> None:
    tenants = tenants_of(1_000, 5e6, random.Random(3))
    assert sum(tenant.at(hour) for tenant in tenants for hour in range(HOURS)) * 3600 == pytest.approx(5e6)
    assert sum(SHAPE) == pytest.approx(HOURS)


def test_few_tenants_make_most_of_the_load() -> None:
    rates = sorted((tenant.rate for tenant in tenants_of(10_000, 1e6, random.Random(5))), reverse=True)
    assert sum(rates[:1000]) > 0.5 * sum(rates)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_cells_have_the_load_of_the_tenants_in_them(strategy: str) -> None:
    tenants = tenants_of(2_000, 20e6, random.Random(7))
    world = World(tenants, 4, 120.0, strategy, random.Random(8))
    for _ in range(5):
        world.day()
    for place, cell in enumerate(world.cells):
        inside = [tenant for tenant in tenants if tenant.cell == place]
        for hour in (0, 9, 17):
            assert cell.at(hour) == pytest.approx(sum(tenant.at(hour) for tenant in inside))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_outcome() -> None:
    assert simulate(3, "moves", seed=4, **SMALL) == simulate(3, "moves", seed=4, **SMALL)
    assert simulate(3, "moves", seed=4, **SMALL) != simulate(3, "moves", seed=5, **SMALL)


def test_moves_relieve_the_hottest_cell() -> None:
    left, moved = (simulate(4, strategy, seed=5, **SMALL) for strategy in ("least", "moves"))
    assert left.moves == 0
    assert moved.moves > 0
    assert moved.peaks[0] < left.peaks[0]
    assert moved.overloaded_hours <= left.overloaded_hours
    assert moved.moved_share < 0.5


def test_one_cell_has_nowhere_to_move_to() -> None:
    outcome = simulate(1, "moves", seed=2, **SMALL)
    assert outcome.moves == 0
    assert outcome.overloaded_hours > 0
