"""`cobalt.common.HttpEndpoint` (manifest-language §4): a URL of what the component that is bound to it publishes."""

import json
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.service import Api, accepted, fresh_name

# As the public manifest with an endpoint has it: the endpoint declares nothing.
GRID = """
application:
  interfaces:
    grid: {url: bind(url#connection.url), seen: bind(nodes#result.seen)}
    manage: {move: bind(hub#actions.move)}
  bindings: BINDINGS
  components:
    hub:
      type: workflow.Instance
      interfaces:
        INTERFACES
        actions: {move: receive-command(string host)}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: RETURN}
          move: {steps: [], return: {host: {value: "{$.host}"}}}
    url: {type: cobalt.common.HttpEndpoint}
    nodes:
      type: workflow.Instance
      required: [hub]
      interfaces:
        hub: {url: consume-signal(string)}
        result: {seen: publish-signal(string), host: publish-signal(string)}
      configuration:
        configuration.triggers: {hub.url: look}
        configuration.workflows:
          launch: &look
            steps: [{look: {action: getSignals, output: {found: result}}}]
            return: {seen: {value: "{$.found.hub.url}"}, host: {value: node.example}}
          look: *look
"""
TYPES = {"port": "int", "hosts": "list<string>"}


def grid(values: dict[str, Any], bindings: str = "[[hub, url], [url, nodes]]", interface: str = "result") -> str:
    """Return a grid whose hub publishes these values in one interface."""
    pins = ", ".join(f"{name}: publish-signal({TYPES.get(name, 'string')})" for name in values)
    returned = json.dumps({name: {"value": value} for name, value in values.items()})
    text = GRID.replace("INTERFACES", f"{interface}: {{{pins}}}").replace("RETURN", returned)
    return text.replace("BINDINGS", bindings)


@pytest.mark.parametrize(
    ("values", "url"),
    [
        (
            {"host": "hub.example", "port": 4444, "path": "/wd/hub", "protocol": "https"},
            "https://hub.example:4444/wd/hub",
        ),
        ({"host": "hub.example", "port": 4444, "path": "wd/hub"}, "http://hub.example:4444/wd/hub"),
        ({"host": "hub.example"}, "http://hub.example"),
        ({"host": "2001:db8::1", "port": 80}, "http://[2001:db8::1]:80"),
        ({"host": "https://hub.example/", "path": "/up"}, "https://hub.example/up"),
        ({"url": "http://ready.example/x"}, "http://ready.example/x"),
        ({"url": "http://ready.example/x", "host": "hub.example", "port": 1}, "http://ready.example/x"),
    ],
)
async def test_an_endpoint_makes_its_url_of_what_the_component_bound_to_it_publishes(
    api: Api, values: dict[str, Any], url: str
) -> None:
    instance = await api.running(grid(values))
    assert (await api.document(instance))["returnValues"] == {"grid.url": url, "grid.seen": url}


@pytest.mark.parametrize("bindings", ["[[url, nodes], [hub, url]]", "[[nodes, url], [url, hub]]"])
async def test_what_reads_the_url_is_no_source_of_it_though_it_publishes_a_host(api: Api, bindings: str) -> None:
    instance = await api.running(grid({"host": "hub.example", "port": 80}, bindings))
    assert (await api.document(instance))["returnValues"]["grid.url"] == "http://hub.example:80"


async def test_consumers_follow_a_change_of_the_host_through_their_triggers(api: Api) -> None:
    instance = await api.running(grid({"host": "hub.example", "port": 80}))
    await api.run(instance, "manage.move", host="new.example")
    moved = {"grid.url": "http://new.example:80", "grid.seen": "http://new.example:80"}
    await eventually(lambda: api.document(instance), lambda found: found["returnValues"] == moved)


async def test_the_signals_may_come_from_a_submodule(api: Api) -> None:
    child = fresh_name("hub")
    await api.application(
        'launch: {steps: [], return: {host: {value: child.example}, port: {value: "8080"}}}', name=child
    )
    text = f"""
application:
  interfaces: {{grid: {{url: bind(url#connection.url)}}}}
  bindings: [[hub, url]]
  components:
    hub:
      type: reference.Submodule
      interfaces: {{result: {{host: publish-signal(string), port: publish-signal(int)}}}}
      configuration: {{__locator.application-id: {child}}}
    url: {{type: cobalt.common.HttpEndpoint}}
"""
    instance = await api.running(text)
    assert (await api.document(instance))["returnValues"] == {"grid.url": "http://child.example:8080"}


async def test_a_binding_that_offers_no_address_is_warned_of(api: Api) -> None:
    text = grid({"port": 80})
    answer = await api.send("POST", "manifests/validate", text.encode(), content_type="application/x-yaml")
    assert accepted(answer)["warnings"][0]["code"] == "UselessBinding"


async def test_each_member_of_a_scaler_has_its_url(api: Api) -> None:
    text = """
application:
  interfaces: {all: {seen: bind(reader#result.seen)}}
  bindings: [[group.hub, url], [url, reader]]
  components:
    group:
      type: composite.Scaler
      configuration: {configuration.quantity: 2}
      components:
        hub:
          type: cobalt.common.Constants
          interfaces: {at: {host: publish-signal(string), port: publish-signal(int)}}
          configuration: {configuration.values: {at.host: hub.example, at.port: 81}}
    url: {type: cobalt.common.HttpEndpoint}
    reader:
      type: workflow.Instance
      required: [hub]
      interfaces: {hub: {url: consume-signal(string)}, result: {seen: publish-signal(list<string>)}}
      configuration:
        configuration.workflows:
          launch:
            steps: [{look: {action: getSignals, parameters: {multi: true}, output: {found: result}}}]
            return: {seen: {value: "{$.found.hub.*.url}"}}
"""
    instance = await api.running(text)
    assert (await api.document(instance))["returnValues"] == {"all.seen": ["http://hub.example:81"] * 2}


async def test_a_configured_url_is_published_under_both_names(api: Api) -> None:
    text = """
application:
  interfaces: {shop: {url: bind(end#connection.url), same: bind(end#endpoint.url)}}
  components:
    end: {type: cobalt.common.HttpEndpoint, configuration: {configuration.url: "http://shop.example"}}
"""
    instance = await api.running(text)
    shown = (await api.document(instance))["returnValues"]
    assert shown == {"shop.url": "http://shop.example", "shop.same": "http://shop.example"}


async def test_a_parent_may_give_the_address(api: Api) -> None:
    child = fresh_name("endpoint")
    text = """
application:
  interfaces:
    need: {host: bind(url#address.host), port: bind(url#address.port)}
    out: {url: bind(url#connection.url)}
  components:
    url: {type: cobalt.common.HttpEndpoint}
"""
    await api.application(text, name=child)
    parent = f"""
application:
  interfaces: {{out: {{url: bind(child#out.url)}}}}
  bindings: [[child, hub]]
  components:
    child:
      type: reference.Submodule
      interfaces:
        need: {{host: consume-signal(string), port: consume-signal(int)}}
        out: {{url: publish-signal(string)}}
      configuration: {{__locator.application-id: {child}}}
    hub:
      type: cobalt.common.Constants
      interfaces: {{at: {{host: publish-signal(string), port: publish-signal(int)}}}}
      configuration: {{configuration.values: {{at.host: hub.example, at.port: 81}}}}
"""
    instance = await api.running(parent)
    assert (await api.document(instance))["returnValues"] == {"out.url": "http://hub.example:81"}
