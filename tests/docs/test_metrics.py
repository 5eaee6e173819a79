"""docs/reference/metrics.md has every metric, with its type and labels."""

import re
from pathlib import Path

from prometheus_client import Counter, Gauge, Histogram

from launchbay.telemetry import metrics

PAGE = Path("docs/reference/metrics.md")
ROW = re.compile(r"^\| `(launchbay_\w+)` \| (\w+) \|\s*(.*?)\s*\| \S", re.MULTILINE)


def test_the_page_lists_every_metric_as_it_is() -> None:
    shown = {
        name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in ROW.findall(PAGE.read_text())
    }
    held = [value for value in vars(metrics).values() if isinstance(value, Counter | Gauge | Histogram)]
    assert shown == {metric._name: (metric._type, tuple(metric._labelnames)) for metric in held}
