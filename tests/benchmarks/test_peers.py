"""The pure parts of benchmarks/peers: how engines are compared, and when a launch has ended."""

from benchmarks.peers.__main__ import MUST, Comparison


def comparison(ours: list[float], restate: list[float], flush_ms: float = 0) -> Comparison:
    """Return a comparison whose rows all have these figures, round by round."""

    def rounds(figures: list[float]) -> list[dict[str, float]]:
        return [dict.fromkeys(MUST, each) for each in figures]

    return Comparison(flush_ms, {"Launchbay": rounds(ours), "Restate": rounds(restate), "DBOS": rounds(restate)})


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    # The medians alone would give 2: the machine was slow in the second round, for both.
    found = comparison([100, 10, 60], [50, 10, 40])
    assert found.ratios("8 clients, launches/s", "Restate") == [2, 1, 1.5]
    [line] = [line for line in found.lines() if line.startswith("8 clients")]
    assert "1.50 ( 1.00 to  2.00)" in line
    assert line.endswith("1.1")


def test_rows_are_missed_whose_ratio_to_the_fastest_peer_is_too_low() -> None:
    assert comparison([90], [100]).missed() == [
        "1 client, launches/s",
        "8 clients, launches/s",
        "32 clients, launches/s",
    ]


def test_nothing_is_demanded_of_slower_flushes() -> None:
    found = comparison([1], [100], flush_ms=4)
    assert not found.missed()
    assert not any(line.endswith("1.1") for line in found.lines())
