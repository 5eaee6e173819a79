"""The dashboard and the alert rules of integrations/monitoring, as Prometheus reads them."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from generators.monitoring import ALERTS, FOLDER, dashboard
from tests.support.documentation import ROOT, blocks
from tests.support.eventually import eventually_blocking
from tests.support.servers import Bay, free_ports, served

RULES = ROOT / FOLDER / "alerts.yml"
WITHIN_S = 60.0
TOKEN = "a token for metrics"
JOB = 'job="launchbay",instance="one:8080"'


@dataclass(frozen=True)
class Case:
    """Series at whole minutes, in promtool's notation, with which an alert fires at one time, and not at another."""

    series: dict[str, str]
    fires_at: str
    quiet_at: str
    summary: str


UP = "1+0x60"
SOON_IDLE = "0+60x40 2406+6x80"
CASES = {
    "LaunchbayDown": Case({f"up{{{JOB}}}": "1x9 0x20"}, "13m", "11m", "one:8080 doesn't answer."),
    "LaunchbayDatabaseDown": Case(
        {f"launchbay_database_up{{{JOB}}}": "1x9 0x20"}, "12m", "10m", "The database doesn't answer one:8080."
    ),
    "LaunchbayNoWorkers": Case(
        {f"launchbay_workers{{{JOB}}}": "2x9 0x20"}, "12m", "10m", "No worker has a recent heartbeat. Jobs don't run."
    ),
    "LaunchbayWorkersDie": Case(
        {f"launchbay_job_recoveries_total{{{JOB}}}": "0x9 9x60"},
        "12m",
        "30m",
        "Other workers took over 9 jobs within ten minutes.",
    ),
    "LaunchbayQueueLong": Case(
        {f"launchbay_queue_depth{{{JOB}}}": "0x9 40x60"},
        "26m",
        "15m",
        "At least 40 jobs have been waiting for workers for ten minutes.",
    ),
    "LaunchbayJobsStartLate": Case(
        {
            f'launchbay_job_wait_seconds_bucket{{{JOB},le="10"}}': "0x120",
            f'launchbay_job_wait_seconds_bucket{{{JOB},le="60"}}': "0+10x120",
            f'launchbay_job_wait_seconds_bucket{{{JOB},le="+Inf"}}': "0+10x120",
        },
        "30m",
        "5m",
        "One of 20 jobs waits longer than 57.5s for a worker.",
    ),
    "LaunchbayJobsFail": Case(
        {
            f'launchbay_job_seconds_count{{{JOB},kind="workflow",status="Failed"}}': "0x29 0+3x60",
            f'launchbay_job_seconds_count{{{JOB},kind="workflow",status="Succeeded"}}': "0x29 0+1x60",
        },
        "50m",
        "30m",
        "More than half of the jobs of the last 30 minutes failed.",
    ),
    "LaunchbaySchedulesLate": Case(
        {f"launchbay_schedules_oldest_overdue_seconds{{{JOB}}}": "0x9 90x20"}, "13m", "9m", "A schedule is 1m 30s late."
    ),
    "LaunchbayServerErrors": Case(
        {
            f'launchbay_http_request_seconds_count{{{JOB},operation="launch",status="503"}}': "0x9 0+10x60",
            f'launchbay_http_request_seconds_count{{{JOB},operation="launch",status="200"}}': "0+30x120",
        },
        "30m",
        "8m",
        "25% of the requests fail with a server error.",
    ),
    "LaunchbayRequestsSlow": Case(
        {
            f'launchbay_http_request_seconds_bucket{{{JOB},operation="launch",status="200",le="1"}}': "0x120",
            f'launchbay_http_request_seconds_bucket{{{JOB},operation="launch",status="200",le="2.5"}}': SOON_IDLE,
            f'launchbay_http_request_seconds_bucket{{{JOB},operation="launch",status="200",le="+Inf"}}': SOON_IDLE,
        },
        "30m",
        "60m",  # as slow, and one in ten seconds
        "One of 100 requests takes longer than 2.485s.",
    ),
    "LaunchbayConnectionsRefused": Case(
        {f'launchbay_http_connections_closed_total{{{JOB},reason="refused"}}': "0x9 4x60"},
        "11m",
        "30m",
        "4 connections were refused, because there were too many.",
    ),
    "LaunchbayPoolExhausted": Case(
        {f"launchbay_database_pool_waiting{{{JOB}}}": "0x9 3x20"},
        "16m",
        "12m",
        "Tasks of one:8080 have been waiting for database connections for five minutes.",
    ),
    "LaunchbayFilesShort": Case(
        {f"process_open_fds{{{JOB}}}": "100x9 900x20", f"process_max_fds{{{JOB}}}": "1000x60"},
        "16m",
        "9m",
        "one:8080 has opened 90% of the files that it may.",
    ),
    "LaunchbayCertificateExpires": Case(
        {f"launchbay_tls_certificate_expiry_timestamp_seconds{{{JOB}}}": "0x9 90000x9 2000000x60"},
        "15m",
        "30m",
        "The certificate of one:8080 expires in 1d 0h 45m 0s.",
    ),
    "LaunchbayBackupOld": Case(
        {f"launchbay_last_backup_timestamp_seconds{{{JOB}}}": "0x19 60x3000"},
        "2170m",
        "2000m",
        "The last backup is 1d 12h 9m 0s old.",
    ),
    "LaunchbayClockWrong": Case(
        {f"launchbay_clock_ahead_seconds{{{JOB}}}": "0.2x9 -8x20"},
        "12m",
        "9m",
        "The clocks of one:8080 and of the database are 8s apart.",
    ),
    "LaunchbayDispatchDisconnected": Case(
        {f'launchbay_dispatch_connected{{{JOB},way="nats"}}': "1x9 0x20"},
        "16m",
        "12m",
        "one:8080 isn't connected to NATS. Jobs start up to a second later.",
    ),
    "LaunchbayQuotaUsedUp": Case(
        {f'launchbay_quota_refusals_total{{{JOB},quota="instances"}}': "0x9 2x60"},
        "12m",
        "40m",
        "An organization has used up its quota instances.",
    ),
    "LaunchbayRuleFails": Case(
        {f"launchbay_change_rule_failures_total{{{JOB}}}": "0x9 2x60"},
        "12m",
        "40m",
        "A rule about changes can't be computed, so it refuses changes.",
    ),
}


def promtool(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    return subprocess.run([program, *arguments], check=False, capture_output=True, text=True, timeout=60)


def expressions(interval: str, job: str = ".*") -> list[str]:
    """Return the expressions of the dashboard as Grafana sends them."""
    found = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]
    values = {"$__rate_interval": interval, "$job": job, "$instance": ".*"}
    for name, value in values.items():
        found = [each.replace(name, value) for each in found]
    return found


def test_prometheus_accepts_the_rules() -> None:
    done = promtool("check", "rules", RULES)
    assert done.returncode == 0, done.stderr
    assert f"SUCCESS: {len(ALERTS)} rules found" in done.stdout


@pytest.mark.slow
def test_every_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    assert CASES.keys() == {each.name for each in ALERTS}
    tests = []
    for alert in ALERTS:
        case = CASES[alert.name]
        series = dict(re.findall(r'(\w+)="([^"]*)"', next(iter(case.series))))
        shown = {"severity": alert.severity} | {
            name: series[name] for name in ("job", *re.findall(r"\$labels\.(\w+)", alert.summary)) if name in series
        }
        by = re.match(r"(?:\w+) by \(([^)]*)\)|histogram_quantile", alert.expression)
        labels = shown if by else {"severity": alert.severity, **{k: v for k, v in series.items() if k != "le"}}
        fired = {
            "exp_labels": labels,
            "exp_annotations": {
                "summary": case.summary,
                "runbook_url": f"docs/howto/alerts.md#{alert.name.lower()}",
            },
        }
        tests.append(
            {
                "name": alert.name,
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
                "alert_rule_test": [
                    {"eval_time": case.fires_at, "alertname": alert.name, "exp_alerts": [fired]},
                    {"eval_time": case.quiet_at, "alertname": alert.name, "exp_alerts": []},
                ],
            }
        )
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_section_that_says_what_to_do() -> None:
    page = (ROOT / "docs" / "howto" / "alerts.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=\n## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert sections.keys() == {each.name for each in ALERTS}
    assert all(len(text) > 80 for text in sections.values())
    links = [rule["annotations"]["runbook_url"] for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]]
    assert links == [f"docs/howto/alerts.md#{each.name.lower()}" for each in ALERTS]


def test_the_expressions_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    recorded = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(expressions("5m"))]
    file = tmp_path / "recorded.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    done = promtool("check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24


@contextmanager
def prometheus(directory: Path, server: Bay) -> Iterator[str]:
    """Start Prometheus with the configuration of the page, and yield its address."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed (Debian package prometheus)")
    [block] = [each for each in blocks(ROOT / "docs/howto/monitor.md") if "scrape_configs" in each.text]
    configuration: dict[str, Any] = yaml.safe_load(block.text)
    [scraped] = configuration["scrape_configs"]
    scraped["scrape_interval"] = "500ms"
    scraped["static_configs"] = [{"targets": [server.url.removeprefix("http://")]}]
    scraped["authorization"]["credentials_file"] = str(directory / "token")
    (directory / "token").write_text(TOKEN)
    configuration["global"] = {"evaluation_interval": "1s"}
    shutil.copy(RULES, directory)
    (directory / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    [port] = free_ports(1)
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: httpx.get(f"{url}/-/ready", trust_env=False).status_code == 200, "Prometheus is ready")
        yield f"{url}/api/v1"
    finally:
        process.terminate()
        process.wait(timeout=WITHIN_S)


def asked(url: str, **query: str) -> Any:
    answer = httpx.get(url, params=query, trust_env=False)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def values(api: str, expression: str) -> list[float]:
    return [float(each["value"][1]) for each in asked(f"{api}/query", query=expression)["result"]]


def until(check: Callable[[], Any], what: str) -> Any:
    return eventually_blocking(check, within_s=WITHIN_S, despite=httpx.TransportError)  # it is starting


@pytest.mark.slow  # starts a server and Prometheus
def test_prometheus_scrapes_a_loaded_server_and_evaluates_the_whole_dashboard(tmp_path: Path) -> None:
    settings = {
        "LAUNCHBAY_METRICS_TOKEN": TOKEN,
        "LAUNCHBAY_METRICS_APPLICATIONS": "*",
        "LAUNCHBAY_METRICS_LABELS": "team",
    }
    with served(**settings) as server, prometheus(tmp_path, server) as api:
        until(lambda: values(api, 'up{job="launchbay"} == 1'), "the server is scraped")
        application = server.application("loaded", "launch: {steps: [a: {action: wait, parameters: {delay: 0 sec}}]}")
        for _ in range(20):
            launched = server.call("POST", f"applications/{application}/launch", {"labels": {"team": "web"}})
            server.settled(launched["id"])
            server.request("GET", "instances/nobody")
        jobs = 'sum(launchbay_job_seconds_count{status="Succeeded"})'
        until(lambda: max(values(api, jobs), default=0) >= 20, "the jobs are counted")
        # All may have run between two scrapes, and a rate needs two that have the series.
        until(lambda: values(api, "rate(launchbay_job_seconds_count[30s])"), "the jobs are scraped once more")
        asked_for = {each: values(api, each) for each in expressions("30s", "launchbay")}
        silent = {
            re.findall(r"launchbay_\w+?(?=_bucket|_total|_count|\{)", each)[0] for each, v in asked_for.items() if not v
        }
        # What did not happen here has no series: NATS, used up quotas, closed connections, late schedules.
        assert silent <= {
            "launchbay_last_backup_timestamp_seconds",
            "launchbay_tls_certificate_expiry_timestamp_seconds",
            "launchbay_dispatch_connected",
            "launchbay_dispatch_announcements",
            "launchbay_dispatch_wake_ups",
            "launchbay_quota_refusals",
            "launchbay_http_connections_closed",
            "launchbay_schedule_lateness_seconds",
        }
        rules = until(
            lambda: [
                each
                for group in asked(f"{api}/rules")["groups"]
                for each in group["rules"]
                if each["health"] != "unknown"
            ],
            "the rules are evaluated",
        )
        assert {each["name"]: each["health"] for each in rules} == {each.name: "ok" for each in ALERTS}
        assert [each["labels"]["alertname"] for each in asked(f"{api}/alerts")["alerts"]] == []
