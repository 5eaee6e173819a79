"""The lines of the speed table: what was measured, must be, and is aimed at, and what the machine itself can do."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import machine

ROW = "{:<50} {:>12} {:>12} {:>12}   {}"


@dataclass(frozen=True)
class Limit:
    """What bounds a figure on this machine, measured in the same run and in the same unit."""

    what: str
    value: float


@dataclass(frozen=True)
class Line:
    """One line. A rate (a unit that ends with `/s`) is to be high, everything else low unless `is_high` says so."""

    what: str
    value: float
    unit: str
    must: float | None = None
    aim: float | None = None
    limit: Limit | None = None
    beside: str = ""
    is_high: bool = False

    def row(self) -> dict[str, Any]:
        """Return it as JSON has it, with the ratio to the machine's limit and whether the must is kept."""
        ratio = None if self.limit is None else round(self.value / self.limit.value, 3)
        return {**asdict(self), "value": round(self.value, 3), "ratio": ratio, "kept": self.is_kept()}

    def is_kept(self) -> bool | None:
        """Say whether it is as it must be; None when nothing is demanded."""
        if self.must is None:
            return None
        is_high = self.is_high or self.unit.endswith("/s")
        return self.value >= self.must if is_high else self.value <= self.must


@dataclass
class Table:
    """Lines of one run, printed as they come."""

    lines: list[Line] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=machine.facts)

    def head(self) -> None:
        """Print what it runs on, and the heads of the columns."""
        facts = self.machine
        print(f"Python {facts['python']}, {facts['cores']} cores, load {facts['load_before']} before the run\n")
        print(ROW.format("work", "measured", "must", "aim", "beside"))

    def add(self, what: str, value: float, unit: str, **more: Any) -> None:
        """Add a line and print it; `more` are the further fields of `Line`."""
        line = Line(what, value, unit, **more)
        self.lines.append(line)
        beside = [line.beside] if line.beside else []
        if line.limit is not None:
            beside.append(f"{line.limit.what}: {shown(line.limit.value, unit)}, ratio {value / line.limit.value:.2f}")
        demands = ["" if each is None else shown(each, unit) for each in (line.must, line.aim)]
        print(ROW.format(what, shown(value, unit), *demands, "; ".join(beside)), flush=True)

    def write(self, path: Path | None) -> None:
        """Write the result where it is asked for."""
        if path is not None:
            machine.write(path, {"machine": self.machine, "lines": [line.row() for line in self.lines]})

    def unkept(self) -> str | None:
        """Return which lines are not as they must be, for `sys.exit`; None if all are."""
        found = [line.what for line in self.lines if line.is_kept() is False]
        return f"not as it must be: {'; '.join(found)}" if found else None


def shown(value: float, unit: str = "") -> str:
    """Return a figure as people read it, with three digits that count."""
    text = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    return f"{text}{unit}" if not unit or unit.startswith("/") else f"{text} {unit}"
