"""Cells on paper: many tenants with a heavy tail on 1 to 10 databases; the load of each, and which tenants move.

python -m benchmarks.cells [--tenants 100000] [--launches 100000000] [--days 60] [--capacity 690] [--seed 1]

A cell is one PostgreSQL with its servers and workers; an organization lives in one cell (decision 0100). Tenants
launch by a Pareto distribution, most of them in the working hours of their time zone. Each day some grow, shrink or
suddenly run hot. `hash` places a tenant by chance; `least` in the cell with the lowest peak; `moves` also moves tenants
out of cells whose peak is above the mark.
"""

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

HOURS = 24
DAY_S = 86_400
_DAY_SHAPE = [2, 1, 1, 1, 1, 2, 4, 9, 18, 26, 30, 26, 18, 22, 28, 30, 24, 16, 9, 6, 5, 4, 3, 3]  # from midnight on
# Launches of an hour as a share of the mean.
SHAPE = [hour * HOURS / sum(_DAY_SHAPE) for hour in _DAY_SHAPE]
ZONES = [(0, 35), (1, 10), (6, 5), (8, 20), (17, 12), (19, 18)]  # hours to the east, and the share of the tenants
TAIL = 1.15  # Pareto's alpha: the largest one of a hundred tenants make more than half of all launches
CHANGES = 0.02  # of the tenants, each day
HOT = 0.00002  # of the tenants, each day: they launch ten to fifty times as much as before
MARK, TARGET = 0.8, 0.7  # of the capacity: moves begin above the one, and fill a cell up to the other
MOVES_A_DAY = 20
KEPT_DAYS = 90
JOB_BYTES = 2_500  # of a job with its steps and log lines, without indexes
COPY_BYTES_PER_S = 50e6
STRATEGIES = ("hash", "least", "moves")


@dataclass(slots=True)
class Tenant:
    """An organization: its launches a second on average, and its time zone."""

    rate: float
    zone: int
    cell: int = 0

    def at(self, hour: int) -> float:
        """Return its launches a second in an hour of the day, in UTC."""
        return self.rate * SHAPE[(hour + self.zone) % HOURS]

    def pause_s(self) -> float:
        """Return how long it stands still while it moves with its history."""
        return 5 + self.rate * DAY_S * KEPT_DAYS * JOB_BYTES / COPY_BYTES_PER_S


@dataclass(slots=True)
class Cell:
    """Launches a second on average, by time zone: enough to know every hour."""

    rates: dict[int, float] = field(default_factory=lambda: {zone: 0.0 for zone, _ in ZONES})

    def at(self, hour: int) -> float:
        """Return the launches a second in an hour of the day, in UTC."""
        return sum(rate * SHAPE[(hour + zone) % HOURS] for zone, rate in self.rates.items())

    def peak(self) -> float:
        """Return the launches a second of the busiest hour."""
        return max(self.at(hour) for hour in range(HOURS))

    def peak_with(self, tenant: Tenant) -> float:
        """Return what the peak would be with one more tenant."""
        return max(self.at(hour) + tenant.at(hour) for hour in range(HOURS))


@dataclass
class Outcome:
    """What happened to a number of cells, peaks as a share of the capacity."""

    cells: int
    strategy: str
    peaks: list[float] = field(default_factory=list)  # at the end, the highest first
    highest_peak: float = 0.0
    overloaded_hours: int = 0  # of all hours of all cells
    moves: int = 0
    moved_share: float = 0.0  # of the launches of the last day
    longest_pause_s: float = 0.0
    too_large: int = 0  # tenants that no cell of the others' size can take


def tenants_of(count: int, launches_a_day: float, chance: random.Random) -> list[Tenant]:
    """Return tenants that launch so much in all."""
    zones = chance.choices([zone for zone, _ in ZONES], [share for _, share in ZONES], k=count)
    weights = [chance.paretovariate(TAIL) for _ in range(count)]
    scale = launches_a_day / DAY_S / sum(weights)
    return [Tenant(weight * scale, zone) for weight, zone in zip(weights, zones, strict=True)]


class World:
    """Tenants in cells, day after day."""

    def __init__(
        self, tenants: list[Tenant], cells: int, capacity: float, strategy: str, chance: random.Random
    ) -> None:
        self.tenants = tenants
        self.cells = [Cell() for _ in range(cells)]
        self.capacity = capacity
        self.strategy = strategy
        self.outcome = Outcome(cells, strategy)
        self._chance = chance
        for tenant in tenants:
            self.place(tenant)

    def place(self, tenant: Tenant) -> None:
        """Find a cell for a new tenant. The directory looks at two, which is nearly as good as at all of them."""
        places = range(len(self.cells))
        if self.strategy == "hash":
            self.enter(tenant, self._chance.choice(places))
        else:
            two = self._chance.sample(places, min(2, len(places)))
            self.enter(tenant, min(two, key=lambda place: sum(self.cells[place].rates.values())))

    def enter(self, tenant: Tenant, cell: int) -> None:
        """Let a tenant live in a cell."""
        tenant.cell = cell
        self.cells[cell].rates[tenant.zone] += tenant.rate

    def leave(self, tenant: Tenant) -> None:
        """Take a tenant out of its cell."""
        self.cells[tenant.cell].rates[tenant.zone] -= tenant.rate

    def day(self) -> None:
        """Let a day pass: tenants change, and some move."""
        count = len(self.tenants)
        for tenant in self._chance.sample(self.tenants, int(count * CHANGES)):
            self.change(tenant, self._chance.lognormvariate(0.0, 0.5))
        for tenant in self._chance.sample(self.tenants, max(1, round(count * HOT))):
            self.change(tenant, self._chance.uniform(10, 50))
        for cell in self.cells:
            loads = [cell.at(hour) / self.capacity for hour in range(HOURS)]
            self.outcome.overloaded_hours += sum(load > 1 for load in loads)
            self.outcome.highest_peak = max(self.outcome.highest_peak, *loads)
        if self.strategy == "moves":
            self.balance()

    def change(self, tenant: Tenant, factor: float) -> None:
        """Let a tenant launch more or less than before, but not more than a tenth of all."""
        self.leave(tenant)
        most = 0.1 * sum(sum(cell.rates.values()) for cell in self.cells)
        tenant.rate = min(tenant.rate * factor, max(tenant.rate, most))
        self.enter(tenant, tenant.cell)

    def balance(self) -> None:
        """Move tenants from the hottest cells to the coolest, the one first that helps most and still fits."""
        for _ in range(MOVES_A_DAY):
            hottest = max(range(len(self.cells)), key=lambda place: self.cells[place].peak())
            coolest = min(range(len(self.cells)), key=lambda place: self.cells[place].peak())
            peak = self.cells[hottest].peak()
            if peak <= MARK * self.capacity or hottest == coolest:
                return
            moving = next(self.fitting(hottest, coolest), None)
            if moving is None:
                return
            self.leave(moving)
            self.enter(moving, coolest)
            self.outcome.moves += 1
            self.outcome.moved_share += moving.rate / sum(sum(cell.rates.values()) for cell in self.cells)
            self.outcome.longest_pause_s = max(self.outcome.longest_pause_s, moving.pause_s())

    def fitting(self, hottest: int, coolest: int) -> Iterator[Tenant]:
        """Yield tenants of the one cell that the other can take, the largest first."""
        target = max(TARGET * self.capacity, self.cells[coolest].peak())
        room = target - self.cells[coolest].peak()
        own = [tenant for tenant in self.tenants if tenant.cell == hottest and tenant.rate * max(SHAPE) <= room * 2]
        for tenant in sorted(own, key=lambda tenant: -tenant.rate):
            if self.cells[coolest].peak_with(tenant) <= target:
                yield tenant


def simulate(
    cells: int, strategy: str, *, tenants: int, launches: float, days: int, capacity: float, seed: int
) -> Outcome:
    """Return how so many cells fare. The same seed has the same tenants, whatever the cells and the strategy."""
    population = tenants_of(tenants, launches, random.Random(seed))
    world = World(population, cells, capacity, strategy, random.Random(seed + 1))
    for _ in range(days):
        world.day()
    world.outcome.peaks = sorted((cell.peak() / capacity for cell in world.cells), reverse=True)
    world.outcome.too_large = sum(tenant.rate * max(SHAPE) > TARGET * capacity for tenant in population)
    return world.outcome


def line(outcome: Outcome, days: int) -> str:
    """Return a row of the table."""
    hours = outcome.overloaded_hours / (days * HOURS * outcome.cells)
    peaks = " ".join(f"{peak:.0%}" for peak in outcome.peaks)
    return (
        f"{outcome.cells:>5} {outcome.strategy:<6} {outcome.highest_peak:>8.0%} {hours:>9.1%} {outcome.moves:>6}"
        f" {outcome.moved_share:>7.1%} {outcome.longest_pause_s / 60:>8.1f} {outcome.too_large:>6}  {peaks}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenants", type=int, default=100_000)
    parser.add_argument("--launches", type=float, default=100e6, help="a day, by all tenants")
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--capacity", type=float, default=690, help="launches/s of a cell")
    parser.add_argument("--cells", type=int, nargs="*", default=list(range(1, 11)))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("cells  place  highest  overload  moves   moved  pause m  large  peaks at the end, of the capacity")
    for cells in options.cells:
        for strategy in STRATEGIES:
            outcome = simulate(
                cells,
                strategy,
                tenants=options.tenants,
                launches=options.launches,
                days=options.days,
                capacity=options.capacity,
                seed=options.seed,
            )
            print(line(outcome, options.days), flush=True)


if __name__ == "__main__":
    main()
