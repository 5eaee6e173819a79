"""The Grafana dashboard and the Prometheus alert rules, from the metrics of `telemetry/metrics.py`."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from launchbay.model.yaml_text import yaml_text
from launchbay.telemetry import metrics

FOLDER = Path("integrations/monitoring")
RUNBOOKS = "docs/howto/alerts.md"
JOBS = 'job=~".*launchbay.*"'  # the scrape jobs, in the rules

# Rows of the dashboard: the beginnings of the names of the metrics in them. Each metric is in one row, by its longest.
ROWS: Mapping[str, tuple[str, ...]] = {
    "Jobs": ("job", "step", "ended_job", "labeled_job", "queue", "workers", "drifted", "instances"),
    "Requests": ("http", "quota", "event_streams", "change_rule"),
    "Schedules": ("schedule",),
    "Wake-ups through NATS": ("dispatch",),
    "Database and processes": ("database", "asyncio", "tls", "last_backup", "clock"),
}
_HERE = 'job=~"$job", instance=~"$instance"'
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3
_PREFIX = "launchbay_"


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert: a PromQL expression that must hold for a time, and a sentence with labels of its series."""

    name: str
    expression: str
    for_time: str
    severity: str
    summary: str


ALERTS = (
    Alert("LaunchbayDown", f"up{{{JOBS}}} == 0", "2m", "critical", "{{ $labels.instance }} doesn't answer."),
    Alert(
        "LaunchbayDatabaseDown",
        f"launchbay_database_up{{{JOBS}}} == 0",
        "1m",
        "critical",
        "The database doesn't answer {{ $labels.instance }}.",
    ),
    Alert(
        "LaunchbayNoWorkers",
        f"max by (job) (launchbay_workers{{{JOBS}}}) < 1",
        "1m",
        "critical",
        "No worker has a recent heartbeat. Jobs don't run.",
    ),
    Alert(
        "LaunchbayWorkersDie",
        f"sum by (job) (increase(launchbay_job_recoveries_total{{{JOBS}}}[10m])) > 0",
        "0m",
        "warning",
        'Other workers took over {{ $value | printf "%.0f" }} jobs within ten minutes.',
    ),
    Alert(
        "LaunchbayQueueLong",
        f"min by (job) (min_over_time(launchbay_queue_depth{{{JOBS}}}[10m])) > 20",
        "5m",
        "warning",
        'At least {{ $value | printf "%.0f" }} jobs have been waiting for workers for ten minutes.',
    ),
    Alert(
        "LaunchbayJobsStartLate",
        f"histogram_quantile(0.95, sum by (job, le) (rate(launchbay_job_wait_seconds_bucket{{{JOBS}}}[10m]))) > 10",
        "10m",
        "warning",
        "One of 20 jobs waits longer than {{ $value | humanizeDuration }} for a worker.",
    ),
    Alert(
        "LaunchbayJobsFail",
        f'sum by (job) (increase(launchbay_job_seconds_count{{{JOBS}, status="Failed"}}[30m])) > 10'
        f' and sum by (job) (rate(launchbay_job_seconds_count{{{JOBS}, status="Failed"}}[30m]))'
        f" / sum by (job) (rate(launchbay_job_seconds_count{{{JOBS}}}[30m])) > 0.5",
        "5m",
        "warning",
        "More than half of the jobs of the last 30 minutes failed.",
    ),
    Alert(
        "LaunchbaySchedulesLate",
        f"max by (job) (launchbay_schedules_oldest_overdue_seconds{{{JOBS}}}) > 10",
        "2m",
        "warning",
        "A schedule is {{ $value | humanizeDuration }} late.",
    ),
    Alert(
        "LaunchbayServerErrors",
        f'sum by (job) (rate(launchbay_http_request_seconds_count{{{JOBS}, status=~"5.."}}[5m]))'
        f" / sum by (job) (rate(launchbay_http_request_seconds_count{{{JOBS}}}[5m])) > 0.01",
        "5m",
        "warning",
        "{{ $value | humanizePercentage }} of the requests fail with a server error.",
    ),
    Alert(
        "LaunchbayRequestsSlow",
        # Of fewer than 150 requests in 5 min, a single slow one would be one of 100.
        f"histogram_quantile(0.99, sum by (job, le) (rate(launchbay_http_request_seconds_bucket{{{JOBS}}}[5m]))) > 1"
        f' and on (job) sum by (job) (rate(launchbay_http_request_seconds_bucket{{{JOBS}, le="+Inf"}}[5m])) > 0.5',
        "10m",
        "warning",
        "One of 100 requests takes longer than {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "LaunchbayConnectionsRefused",
        f'sum by (job) (increase(launchbay_http_connections_closed_total{{{JOBS}, reason="refused"}}[5m])) > 0',
        "0m",
        "warning",
        '{{ $value | printf "%.0f" }} connections were refused, because there were too many.',
    ),
    Alert(
        "LaunchbayPoolExhausted",
        f"min_over_time(launchbay_database_pool_waiting{{{JOBS}}}[5m]) > 0",
        "0m",
        "warning",
        "Tasks of {{ $labels.instance }} have been waiting for database connections for five minutes.",
    ),
    Alert(
        "LaunchbayFilesShort",
        f"process_open_fds{{{JOBS}}} / process_max_fds{{{JOBS}}} > 0.8",
        "5m",
        "warning",
        "{{ $labels.instance }} has opened {{ $value | humanizePercentage }} of the files that it may.",
    ),
    Alert(
        "LaunchbayCertificateExpires",
        f"launchbay_tls_certificate_expiry_timestamp_seconds{{{JOBS}}} - time() < 14 * 86400"
        f" and launchbay_tls_certificate_expiry_timestamp_seconds{{{JOBS}}} > 0",
        "1m",
        "warning",
        "The certificate of {{ $labels.instance }} expires in {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "LaunchbayBackupOld",
        f"max by (job) (time() - (launchbay_last_backup_timestamp_seconds{{{JOBS}}} > 0)) > 36 * 3600",
        "1m",
        "warning",
        "The last backup is {{ $value | humanizeDuration }} old.",
    ),
    Alert(
        "LaunchbayClockWrong",
        f"abs(launchbay_clock_ahead_seconds{{{JOBS}}}) > 5",
        "1m",
        "warning",
        "The clocks of {{ $labels.instance }} and of the database are {{ $value | humanizeDuration }} apart.",
    ),
    Alert(
        "LaunchbayDispatchDisconnected",
        f"launchbay_dispatch_connected{{{JOBS}}} == 0",
        "5m",
        "warning",
        "{{ $labels.instance }} isn't connected to NATS. Jobs start up to a second later.",
    ),
    Alert(
        "LaunchbayQuotaUsedUp",
        f"sum by (job, quota) (increase(launchbay_quota_refusals_total{{{JOBS}}}[15m])) > 0",
        "0m",
        "info",
        "An organization has used up its quota {{ $labels.quota }}.",
    ),
    Alert(
        "LaunchbayRuleFails",
        f"sum by (job) (increase(launchbay_change_rule_failures_total{{{JOBS}}}[15m])) > 0",
        "0m",
        "warning",
        "A rule about changes can't be computed, so it refuses changes.",
    ),
)


def monitoring() -> dict[Path, str]:
    """Return path → text of the dashboard and the rules."""
    return {
        FOLDER / "dashboard.json": json.dumps(dashboard(), indent=2) + "\n",
        FOLDER / "alerts.yml": "# Written by `python -m generators`.\n" + yaml_text(rules()),
    }


def rules() -> dict[str, Any]:
    """Return the alert rules as Prometheus reads them."""
    return {
        "groups": [
            {
                "name": "launchbay",
                "rules": [
                    {
                        "alert": each.name,
                        "expr": each.expression,
                        "for": each.for_time,
                        "labels": {"severity": each.severity},
                        "annotations": {
                            "summary": each.summary,
                            "runbook_url": f"{RUNBOOKS}#{each.name.lower()}",
                        },
                    }
                    for each in ALERTS
                ],
            }
        ]
    }


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it: a row for each topic, a panel for each metric."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in _rows().items():
        panels.append({"type": "row", "title": title, "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}, "panels": []})
        top += 1
        of_row = [panel for metric in row for panel in _panels(metric)]
        for number, panel in enumerate(of_row):
            place = {"x": number % _COLUMNS * _WIDTH, "y": top + number // _COLUMNS * _HEIGHT}
            panels.append({**panel, "gridPos": {**place, "w": _WIDTH, "h": _HEIGHT}})
        top += -(-len(of_row) // _COLUMNS) * _HEIGHT
    for number, panel in enumerate(panels, start=1):
        panel["id"] = number
    return {
        "uid": "launchbay",
        "title": "Launchbay",
        "tags": ["launchbay"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables())},
        "annotations": {"list": []},
        "panels": panels,
    }


def _rows() -> dict[str, list[Counter | Gauge | Histogram]]:
    """Return the metrics of each row. Raises ValueError for a metric without a row."""
    found: dict[str, list[Counter | Gauge | Histogram]] = {title: [] for title in ROWS}
    for metric in vars(metrics).values():
        if isinstance(metric, Counter | Gauge | Histogram):
            name = metric._name.removeprefix(_PREFIX)  # noqa: SLF001 - it has no public one
            titles = {part: title for title, parts in ROWS.items() for part in parts if name.startswith(part)}
            if not titles:
                raise ValueError(f"{metric._name}: add the beginning of its name to a row of the dashboard")  # noqa: SLF001 - it has no public one
            found[titles[max(titles, key=len)]].append(metric)
    return found


def _panels(metric: Counter | Gauge | Histogram) -> Iterator[dict[str, Any]]:
    """Yield a panel, or two for a histogram with labels. Gauges of all processes are the same everywhere."""
    name, labels, about = metric._name, metric._labelnames, metric._documentation  # noqa: SLF001 - it has no public ones
    title = name.removeprefix(_PREFIX).replace("_", " ").capitalize()
    by = f" by ({', '.join(labels)})" if labels else ""
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    if isinstance(metric, Histogram):
        buckets = f"sum by (le) (rate({name}_bucket{{{_HERE}}}[$__rate_interval]))"
        shares = ((0.5, "half"), (0.95, "95 %"), (0.99, "99 %"))
        yield _panel(title, about, "s", *((f"histogram_quantile({share}, {buckets})", text) for share, text in shares))
        if labels:
            rates = f"sum{by} (rate({name}_count{{{_HERE}}}[$__rate_interval]))"
            yield _panel(f"{title.removesuffix(' seconds')}: number per second", about, "ops", (rates, legend))
    elif isinstance(metric, Counter):
        rates = f"sum{by} (rate({name}_total{{{_HERE}}}[$__rate_interval]))"
        yield _panel(f"{title} per second", about, "ops", (rates, legend or "all"))
    elif metric in (metrics.database_up, metrics.dispatch_connected):
        yield _panel(title, about, "bool_yes_no", (f"min by (instance) ({name}{{{_HERE}}})", "{{instance}}"))
    elif name.endswith("_timestamp_seconds"):
        apart = f"max by (instance) (abs(({name}{{{_HERE}}} > 0) - time()))"
        yield _panel(
            f"Time to or since {title.removesuffix(' timestamp seconds').lower()}", about, "s", (apart, "{{instance}}")
        )
    else:
        unit = "s" if name.endswith("_seconds") else "short"
        is_of_all = metric._multiprocess_mode == "mostrecent"  # noqa: SLF001 - it has no public one
        per_process = f"sum by ({', '.join(('instance', *labels))}) ({name}{{{_HERE}}})"
        queries = (
            (f"max({name}{{{_HERE}}})", "all") if is_of_all else (per_process, f"{{{{instance}}}} {legend}".strip())
        )
        yield _panel(title, about, unit, queries)


def _panel(title: str, about: str, unit: str, *queries: tuple[str, str]) -> dict[str, Any]:
    """Return a panel with a line for each query: its expression and legend."""
    return {
        "type": "timeseries",
        "title": title,
        "description": about,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(queries)
        ],
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    for name, known in (("job", "launchbay_database_up"), ("instance", 'launchbay_database_up{job=~"$job"}')):
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "query": {"query": f"label_values({known}, {name})", "refId": name},
            "refresh": 2,
            "includeAll": True,
            "multi": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }
