"""What a workflow sees of the components at the other end of its interfaces."""

import asyncio

import pytest

from launchbay import limits
from launchbay.model.environment import EnvironmentView
from tests.support.runtime import FAILING, QUICK_RUN, SLOW, Instance, instance, reader

HALF = "{steps: [], return: {ip: {value: IP}}}"


def seen(live: Instance, what: str) -> object:
    return live.components["r"]["signals"]["result"][what]


NOTHING = "{action: compute}"


@pytest.mark.parametrize(
    ("peers", "single", "multi"),
    [
        ({}, {}, {}),
        ({"a": QUICK_RUN}, {"ip": "ip-a", "n": 1}, {"a": {"ip": "ip-a", "n": 1}}),
        (
            {"a": QUICK_RUN, "b": QUICK_RUN},
            {"ip": "ip-a", "n": 1},
            {"a": {"ip": "ip-a", "n": 1}, "b": {"ip": "ip-b", "n": 1}},
        ),
    ],
    ids=["none", "one", "two"],
)
async def test_required_signals_are_seen_in_both_forms(peers: dict[str, str], single: object, multi: object) -> None:
    live = reader(NOTHING, required="[in]", **peers)
    assert await live.launch() is None
    assert seen(live, "single") == {"in": single, "other": {}}
    assert seen(live, "multi") == {"in": multi, "other": {}}


async def test_each_signal_alone_is_from_the_first_peer_that_has_it() -> None:
    live = reader(
        "{action: waitPeers, parameters: {interfaces: {in: 1}}}",
        a=HALF,
        b=SLOW.replace("n: {value: 1}", "n: {value: 2}"),
    )
    assert await live.launch() is None
    assert seen(live, "single") == {"in": {"ip": "ip-a", "n": 2}, "other": {}}
    assert seen(live, "multi") == {"in": {"a": {"ip": "ip-a"}, "b": {"ip": "ip-b", "n": 2}}, "other": {}}


async def test_signals_are_as_they_were_at_the_workflows_start() -> None:
    live = reader("{action: effect, parameters: {seconds: 0.1}}", a=SLOW)
    assert await live.launch() is None
    assert seen(live, "multi") == {"in": {}, "other": {}}


async def test_wait_peers_waits_and_refreshes() -> None:
    live = reader("{action: waitPeers, parameters: {interfaces: {in: 2}}}", a=SLOW, b=SLOW)
    assert await live.launch() is None
    assert seen(live, "multi") == {"in": {"a": {"ip": "ip-a", "n": 1}, "b": {"ip": "ip-b", "n": 1}}, "other": {}}


async def test_a_peer_counts_only_when_it_has_every_signal() -> None:
    live = reader("{action: waitPeers, parameters: {interfaces: {in: 2}, timeout: 0.1}}", a=HALF, b=QUICK_RUN)
    error = await live.launch()
    assert error is not None
    assert "Too few peers after 0.1 s: in has 1 of 2." in error


async def test_wait_peers_gives_up_when_a_peer_has_failed() -> None:
    live = reader("{action: waitPeers, parameters: {interfaces: {in: 1}}}", a=FAILING)
    begun = asyncio.get_running_loop().time()
    error = await live.launch()
    assert asyncio.get_running_loop().time() - begun < 10
    assert error is not None
    assert "Peers of in weren't launched" in error


async def test_wait_peers_is_content_with_those_that_did_not_fail() -> None:
    live = reader("{action: waitPeers, parameters: {interfaces: {in: 1}}}", a=FAILING, b=SLOW)
    error = await live.launch()
    assert error is not None
    assert error.startswith("Component 'a': ")
    assert "Component 'r'" not in error


async def test_wait_peers_without_a_timeout_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAIT_PEERS_S", 0.05)
    live = reader("{action: waitPeers, parameters: {interfaces: {other: 1}}}")
    error = await live.launch()
    assert error is not None
    assert "Too few peers after 0.05 s: other has 0 of 1." in error


async def test_wait_peers_names_an_interface_that_does_not_exist() -> None:
    live = reader("{action: waitPeers, parameters: {interfaces: {nowhere: 1}}}")
    error = await live.launch()
    assert error is not None
    assert "no signal-consuming interface 'nowhere'. It has: in, other." in error


ENVIRONMENT = """
    application:
      components:
        env:
          type: reference.Service
          interfaces:
            properties: {region: publish-signal(string), count: publish-signal(int), absent: publish-signal(int)}
            gpu: {gpu: publish-signal(unit)}
        fixed:
          type: cobalt.common.Constants
          interfaces: {values: {url: publish-signal(string), ports: publish-signal(list<int>)}}
          configuration: {configuration.values: {values.url: "http://x", values.ports: ["80", 443]}}
        r:
          type: workflow.Instance
          interfaces:
            properties: {region: consume-signal(string), count: consume-signal(int), absent: consume-signal(int)}
            gpu: {gpu: consume-signal(unit)}
            values: {url: consume-signal(string), ports: consume-signal(list<int>)}
            result: {seen: publish-signal(object)}
          configuration:
            configuration.workflows:
              launch:
                steps: [{read: {action: getEnvironmentProperties, output: {seen: result}}}]
                return: {seen: {value: "{$.seen}"}}
      bindings: [[r, env], [r, fixed]]
"""


async def test_the_environment_and_constants_are_seen_without_being_required() -> None:
    view = EnvironmentView(markers=["gpu", "ssd"], properties={"region": "eu", "count": "3", "more": 1})
    live = instance(ENVIRONMENT, environment=view)
    assert await live.launch() is None
    assert seen(live, "seen") == {
        "properties": {"region": "eu", "count": 3},
        "gpu": {"gpu": None},
        "values": {"url": "http://x", "ports": [80, 443]},
    }


async def test_what_the_environment_does_not_offer_is_not_there() -> None:
    live = instance(ENVIRONMENT)
    assert await live.launch() is None
    assert seen(live, "seen") == {"properties": {}, "gpu": {}, "values": {"url": "http://x", "ports": [80, 443]}}


async def test_a_property_of_the_wrong_type_fails_the_component_by_name() -> None:
    live = instance(ENVIRONMENT, environment=EnvironmentView(properties={"count": "many"}))
    error = await live.launch()
    assert error is not None
    assert "Component 'env': the environment's property 'count':" in error


async def test_who_am_i() -> None:
    live = instance("""
        launch:
          steps: [{me: {action: getInstanceContext, output: {id: instanceId}}}]
          return: {id: {value: "{$.id}"}}
    """)
    assert await live.launch() is None
    assert live.results == {"id": "5f0000000000000000000001"}
