"""The page of the fault campaigns."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from benchmarks.evidence.words import number, page, table

Campaign = dict[str, Any]

# What every campaign has; the rest is special to its kind.
_COMMON = frozenset(
    {
        "kind",
        "seed",
        "kills",
        "recoveries",
        "hit_again",
        "p50_s",
        "p99_s",
        "most_s",
        "violations",
        "figures",
        "ended_at",
    }
)


def faults(campaigns: list[Campaign]) -> str:
    """Return the page of fault campaigns."""
    in_order = sorted(campaigns, key=lambda each: (each["kind"], each["ended_at"]))
    broken = [f"- {each['kind']}, seed {each['seed']}: {text}" for each in in_order for text in each["violations"]]
    return page(
        "Faults",
        "Campaigns of `make test-faults`: real processes under load are killed, stopped and cut off at random moments;"
        " then what clients were promised is compared with what the database says and with a ledger of every effect."
        " A recovery is the time from a kill to the next step of a job of the killed process, on another one or after"
        " its restart; jobs that were hit again before it are counted apart.",
        "LAUNCHBAY_EVIDENCE=DIR makes each campaign add a line to `faults.jsonl` there;"
        " LAUNCHBAY_FAULT_SEED repeats its random choices. The machine has two cores, and was busy with other work too,"
        " so the times are an upper bound of what an idle one shows.",
        table(
            ("campaigns", "number", "kills", "recoveries", "longest p50", "longest p99", "longest", "promises broken"),
            _together(in_order),
        ),
        "## Each campaign",
        table(
            ("campaign", "seed", "kills", "recoveries", "p50", "p99", "most", "promises broken", "ended at"),
            _each(in_order),
        ),
        "\n".join(broken),
        "What each campaign did:",
        "\n".join(f"- {each['kind']}: {each['figures']}{_special(each)}" for each in in_order),
    )


def _together(campaigns: list[Campaign]) -> Iterator[list[str]]:
    kinds: dict[str, list[Campaign]] = defaultdict(list)
    for each in campaigns:
        kinds[each["kind"]].append(each)
    for kind, of_kind in kinds.items():
        longest = (max((each[name] or 0.0 for each in of_kind), default=0.0) for name in ("p50_s", "p99_s", "most_s"))
        yield [
            kind,
            str(len(of_kind)),
            number(sum(each["kills"] for each in of_kind)),
            number(sum(each["recoveries"] for each in of_kind)),
            *(number(longest_s or None, "s") for longest_s in longest),
            number(sum(len(each["violations"]) for each in of_kind)),
        ]


def _each(campaigns: list[Campaign]) -> Iterator[list[str]]:
    for each in campaigns:
        yield [
            each["kind"],
            str(each["seed"]),
            number(each["kills"]),
            number(each["recoveries"]),
            *(number(each[name], "s") for name in ("p50_s", "p99_s", "most_s")),
            number(len(each["violations"])),
            each["ended_at"],
        ]


def _special(campaign: Campaign) -> str:
    return "".join(f"; {name} {value:.4g}" for name, value in campaign.items() if name not in _COMMON)
