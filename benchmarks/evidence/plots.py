"""Plots as SVG: the same file from the same figures, readable on white and on black."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Greys and colours whose contrast with white and with black is about the same.
INK = "#7a828e"
COLOURS = ("#2f81d8", "#d9742b", "#2a9d6f", "#a15fc0")
COLUMNS = 3
SIZE = (3.6, 2.5)  # of a panel, in inches


@dataclass(frozen=True)
class Panel:
    """One diagram: its series by name, each a list of x and one of y."""

    title: str
    x: str
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    log_x: bool = False
    log_y: bool = False
    marks: bool = False


def draw(path: Path, panels: Sequence[Panel]) -> None:
    """Draw panels side by side, three in a row, into a file."""
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    with _style():
        figure = Figure(figsize=(SIZE[0] * columns, SIZE[1] * rows), layout="constrained")
        for number, panel in enumerate(panels):
            _fill(figure.add_subplot(rows, columns, number + 1), panel)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": "Launchbay"})


def _style() -> AbstractContextManager[None]:
    return mpl.rc_context(
        {
            "svg.hashsalt": "launchbay",
            "svg.fonttype": "none",  # text stays text
            "font.family": "sans-serif",
            "font.size": 8,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": INK,
            "axes.titlesize": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "xtick.color": INK,
            "ytick.color": INK,
            "grid.color": INK,
            "grid.alpha": 0.25,
            "legend.frameon": False,
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
        }
    )


def _fill(axes: Axes, panel: Panel) -> None:
    for colour, (name, (x, y)) in zip(COLOURS, panel.series.items(), strict=False):
        axes.plot(x, y, color=colour, label=name, linewidth=1.2, marker="o" if panel.marks else None, markersize=3)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.minorticks_off()
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x)
    axes.grid(visible=True)
    if len(panel.series) > 1:
        axes.legend(fontsize=7)
