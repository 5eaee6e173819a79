"""How long the jobs of a killed process wait until another goes on with them."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import zip_longest

from tests.durability.verdict import Kill, Line, Records, percentile


@dataclass
class Recoveries:
    """Seconds from a kill to the next step of each job of the killed process, in ascending order.

    Left out, and counted in `hit_again`, are jobs that a further kill came before: their time is not of one kill.
    """

    times_s: list[float] = field(default_factory=list)
    hit_again: int = 0

    def share_s(self, share: float) -> float | None:
        """Return the time that this share of the recoveries does not exceed; None without any."""
        return percentile(self.times_s, share) if self.times_s else None

    def __str__(self) -> str:
        if not self.times_s:
            return "none"
        p50, p99, most = percentile(self.times_s, 0.5), percentile(self.times_s, 0.99), self.times_s[-1]
        return (
            f"p50 {p50:.2f} s, p99 {p99:.2f} s, most {most:.2f} s of {len(self.times_s)}"
            f" (and {self.hit_again} that were hit again before)"
        )


def recoveries(kills: list[Kill], records: Records, ledger: list[Line]) -> Recoveries:
    """Return how long the jobs that killed processes were working on waited for a step on another process."""
    if not kills:
        return Recoveries()
    ended = dict(
        records.rows("SELECT id, extract(epoch FROM finished_at)::float8 FROM jobs WHERE finished_at IS NOT NULL")
    )
    by_job: dict[str, list[Line]] = defaultdict(list)
    by_pid: dict[int, dict[str, float]] = defaultdict(dict)  # the first line of each job
    for line in ledger:
        by_job[line.job].append(line)
        by_pid[line.pid].setdefault(line.job, line.at)
    in_order = sorted(kills, key=lambda each: each.at)
    found = Recoveries()
    for kill, following in zip_longest(in_order, in_order[1:]):
        next_kill = float("inf") if following is None else following.at
        for job, first_at in by_pid[kill.pid].items():
            if first_at > kill.at or ended.get(job, float("inf")) < kill.at:
                continue
            again = min((x.at for x in by_job[job] if x.at > kill.at and x.pid != kill.pid), default=float("inf"))
            if again < next_kill:
                found.times_s.append(again - kill.at)
            elif again < float("inf"):
                found.hit_again += 1
    found.times_s.sort()
    return found
