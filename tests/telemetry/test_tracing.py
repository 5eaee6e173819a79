"""Traces from a request to the steps of the job that it asked for, as a collector gets them."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from launchbay.telemetry.tracing import trace_parent, trace_variables, tracing
from tests.support.databases import Databases
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.service import Api, accepted, running_api

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
MANIFEST = """
launch: {steps: []}
go:
  parameters: [word: {}]
  steps:
    - rest: {action: wait, parameters: {delay: 0 sec}}
    - stop: {action: restcall, parameters: {command: "http://127.0.0.1:1/{$.word}"}, precedingPhases: [rest]}
"""


@pytest.fixture
async def collector() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        server.routes["/v1/traces"] = answer()
        yield server


def spans(collector: LoopbackServer) -> list[Any]:
    found = []
    for received in collector.received:
        body = gzip.decompress(received.body) if received.headers.get("content-encoding") == "gzip" else received.body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            assert names["service.name"] == "launchbay"
            found += [span for scope in resource.scope_spans for span in scope.spans]
    return found


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


async def traced(databases: Databases, collector: LoopbackServer) -> tuple[Api, str]:
    """Run the service once with traces on, let a client go through a failing workflow, and end it."""
    async with running_api(databases.create(), otlp_endpoint=collector.url("")) as api:
        instance = await api.running(MANIFEST)
        headers = {"traceparent": PARENT}
        path = f"instances/{instance}/go"
        accepted(await api.client.post(path, json={"word": "hush-hush"}, headers=headers))
        await api.settled(instance)
    return api, instance


@pytest.mark.slow
async def test_a_trace_leads_from_the_request_of_a_client_to_the_steps(
    databases: Databases, collector: LoopbackServer
) -> None:
    _, instance = await traced(databases, collector)
    mine = [span for span in spans(collector) if span.trace_id.hex() == TRACE]
    by_name = {span.name: span for span in mine}
    assert set(by_name) >= {"run_workflow", "job go", "step rest", "step stop"}
    request, job, step = (by_name[name] for name in ("run_workflow", "job go", "step stop"))
    assert request.parent_span_id.hex() == "b7ad6b7169203331"
    assert job.parent_span_id == request.span_id
    assert step.parent_span_id == job.span_id
    assert attributes(request)["http.response.status_code"] == 200
    assert attributes(job)["launchbay.instance"] == instance
    assert attributes(step)["launchbay.action"] == "restcall"
    assert (by_name["step rest"].status.code, step.status.code) == (0, 2)
    assert attributes(step)["error.type"]


@pytest.mark.slow
async def test_a_request_of_a_step_continues_its_trace(databases: Databases, collector: LoopbackServer) -> None:
    called = collector.url("/called")
    manifest = f"""
launch:
  steps:
    - ours: {{action: restcall, parameters: {{command: "{called}"}}}}
    - own: {{action: restcall, parameters: {{command: "{called}", headers: {{traceparent: mine}}}}}}
"""
    chosen: dict[str, Any] = {"otlp_endpoint": collector.url(""), "outgoing_allow": "127.0.0.1"}
    async with running_api(databases.create(), **chosen) as api:
        await api.running(manifest)
    own, ours = sorted(
        (each.headers["traceparent"] for each in collector.received if each.target == "/called"), key=len
    )
    step = next(span for span in spans(collector) if span.name == "step ours")
    assert own == "mine"
    assert ours.split("-")[:3] == ["00", step.trace_id.hex(), step.span_id.hex()]


def test_programs_get_the_trace_as_a_variable() -> None:
    assert trace_variables() == {}
    token = trace_parent.set(PARENT)
    try:
        assert trace_variables() == {"TRACEPARENT": PARENT}
    finally:
        trace_parent.reset(token)


async def test_spans_hold_no_parameters_and_no_texts_of_errors(databases: Databases, collector: LoopbackServer) -> None:
    await traced(databases, collector)
    assert spans(collector)
    assert "hush-hush" not in "".join(str(span) for span in spans(collector))


@pytest.mark.slow
async def test_a_collector_that_is_away_disturbs_nobody(databases: Databases) -> None:
    async with asyncio.timeout(60):
        async with running_api(databases.create(), otlp_endpoint="http://127.0.0.1:1") as api:
            await api.running("launch: {steps: []}")


async def test_nothing_is_traced_where_no_collector_is_set(api: Api, collector: LoopbackServer) -> None:
    await api.running("launch: {steps: []}")
    assert not tracing.is_on
    assert collector.received == []
