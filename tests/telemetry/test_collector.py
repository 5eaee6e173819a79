"""Metrics and log lines as an OpenTelemetry collector gets them, from a real process."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from launchbay.errors import CannotStart
from launchbay.settings import Settings
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.servers import Process, calling, place, prepare
from tests.support.service import METRICS_TOKEN, Api, accepted, running_api

TRACE = "0af7651916cd43dd8448eb211c80319c"
MANIFEST = "launch: {steps: [rest: {action: wait, parameters: {delay: 0 sec}}]}"


@pytest.fixture
async def collector() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        for signal in ("traces", "metrics", "logs"):
            server.routes[f"/v1/{signal}"] = answer()
        yield server


def bodies(collector: LoopbackServer, path: str) -> list[bytes]:
    received = [each for each in collector.received if each.target == path]
    return [
        gzip.decompress(each.body) if each.headers.get("content-encoding") == "gzip" else each.body for each in received
    ]


def newest_metrics(collector: LoopbackServer) -> dict[str, Any]:
    [resource] = ExportMetricsServiceRequest.FromString(bodies(collector, "/v1/metrics")[-1]).resource_metrics
    about = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert about["service.name"] == "launchbay"
    assert about["service.instance.id"]
    return {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}


def log_lines(collector: LoopbackServer) -> list[Any]:
    return [
        line
        for body in bodies(collector, "/v1/logs")
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs
        for scope in resource.scope_logs
        for line in scope.log_records
    ]


def labels(point: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


def exposed(text: str, series: str) -> float:
    [value] = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(series + " ")]
    return float(value)


async def measured(databases: Databases, collector: LoopbackServer) -> tuple[Api, str]:
    """Run the service once with a workflow, end it, and return its last metrics as Prometheus would get them."""
    chosen: dict[str, Any] = {"otlp_endpoint": collector.url(""), "otlp_signals": "metrics", "otlp_interval_s": 1_000.0}
    async with running_api(databases.create(), **chosen) as api:
        await api.running(MANIFEST)
        await api.get("instances/nobody")
        answered = await api.client.get(
            "http://launchbay/metrics", headers={"authorization": f"Bearer {METRICS_TOKEN}"}
        )
    return api, answered.text


@pytest.mark.slow
async def test_the_collector_gets_the_values_that_prometheus_gets(
    databases: Databases, collector: LoopbackServer
) -> None:
    _, text = await measured(databases, collector)
    found = newest_metrics(collector)
    jobs = found["launchbay_job_seconds"]
    assert jobs.unit == "s"
    assert jobs.histogram.aggregation_temporality == 2, "cumulative"
    for point in jobs.histogram.data_points:
        inside = ",".join(f'{name}="{value}"' for name, value in labels(point).items())
        assert point.count == exposed(text, f"launchbay_job_seconds_count{{{inside}}}") == sum(point.bucket_counts)
        assert point.sum == pytest.approx(exposed(text, f"launchbay_job_seconds_sum{{{inside}}}"))
        ordered = ",".join(f'{name}="{value}"' for name, value in sorted({**labels(point), "le": "0.5"}.items()))
        below = exposed(text, f"launchbay_job_seconds_bucket{{{ordered}}}")
        position = list(point.explicit_bounds).index(0.5)
        assert sum(point.bucket_counts[: position + 1]) == below
    refusals = found["launchbay_http_refusals"].sum
    assert refusals.is_monotonic
    [missing] = [point for point in refusals.data_points if labels(point) == {"code": "NotFound"}]
    assert missing.as_double == exposed(text, 'launchbay_http_refusals_total{code="NotFound"}')
    assert found["launchbay_database_up"].gauge.data_points[0].as_double == 1
    # It has values only where a test before has used NATS in this process.
    assert ("launchbay_dispatch_connected" in found) == ("launchbay_dispatch_connected{" in text)


@pytest.mark.slow  # OpenTelemetry tries again for some seconds
async def test_a_collector_that_is_away_disturbs_nobody(databases: Databases) -> None:
    chosen: dict[str, Any] = {"otlp_endpoint": "http://127.0.0.1:1", "otlp_signals": "traces, metrics, logs"}
    async with running_api(databases.create(), **chosen) as api:
        await api.running(MANIFEST)


@pytest.mark.slow
def test_the_settings_choose_the_signals() -> None:
    assert Settings().signals() == set()
    assert Settings(otlp_endpoint="http://collector:4318").signals() == {"traces"}
    assert Settings(otlp_endpoint="http://collector:4318", otlp_signals="logs,metrics").signals() == {"logs", "metrics"}
    with pytest.raises(CannotStart, match="LAUNCHBAY_OTLP_SIGNALS names profiles"):
        Settings(otlp_endpoint="http://collector:4318", otlp_signals="profiles")


@pytest.mark.slow  # a process has a log of its own
async def test_lines_of_a_request_and_its_job_belong_to_the_trace_of_the_caller(collector: LoopbackServer) -> None:
    with place() as directory:
        prepare(directory / "data")
        settings = {"LAUNCHBAY_OTLP_ENDPOINT": collector.url(""), "LAUNCHBAY_OTLP_SIGNALS": "traces,logs"}
        server = Process(["serve", "--port", "0", "--data-dir", str(directory / "data")], directory, settings=settings)
        await _launch(server, collector)
        written = (directory / "serve-1.log").read_text("utf-8")
    lines = log_lines(collector)
    mine = [line for line in lines if line.trace_id.hex() == TRACE]
    assert {line.body.string_value for line in mine} >= {"http.request"}
    [request] = [line for line in mine if line.body.string_value == "http.request"]
    assert request.severity_text == "INFO"
    assert labels(request)["request_id"] in written, "the lines are written too"
    assert not [line for line in lines if line.body.string_value and "opentelemetry" in labels(line).get("logger", "")]


async def _launch(server: Process, collector: LoopbackServer) -> None:
    await asyncio.to_thread(server.start)
    try:
        async with calling(server) as remote:
            answered = await remote.client.get(
                "organizations", headers={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
            )
            accepted(answered)
    finally:
        await asyncio.to_thread(server.end)
    await eventually(lambda: any(line.trace_id.hex() == TRACE for line in log_lines(collector)))
