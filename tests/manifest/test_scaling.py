"""Templates of Scalers to members: in peers, pins, values and the order of launch; nothing else changes."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.manifest.configuration import configure
from launchbay.manifest.graph import CompiledManifest, Target
from launchbay.manifest.scaling import (
    component_at,
    configured_quantity,
    expanded,
    member_number,
    members,
    scaled,
    scalers,
    template_path,
)
from tests.support.manifests import compiled

NODES = """
    application:
      configuration: {in.size: 2, in.port: 80}
      interfaces:
        in:
          size: bind(cluster#configuration.quantity, reader#input.size)
          port: bind(cluster.node#input.port)
        out: {url: bind(cluster.node#result.url), again: bind(reader#result.urls)}
        do: {set-quantity: bind(cluster#scale.set-quantity), poke: bind(cluster.node#actions.poke)}
      bindings: [[reader, cluster.node], [cluster.node, store]]
      components:
        store:
          type: cobalt.common.Constants
          interfaces: {db: {host: publish-signal(string)}}
          configuration: {configuration.values: {db.host: db.example}}
        cluster:
          type: composite.Scaler
          components:
            node:
              interfaces:
                input: {port: bind(web#input.port)}
                result: {url: bind(web#result.url)}
                actions: {poke: bind(web#actions.poke)}
                db: {host: bind(web#db.host)}
              bindings: [[web, vm]]
              components:
                vm: {type: compute.Instance}
                web:
                  type: workflow.Instance
                  required: [vm]
                  interfaces:
                    input: {port: configuration(int)}
                    vm: {networks: "consume-signal(map<string,map<string,string>>)"}
                    db: {host: consume-signal(string)}
                    actions: {poke: receive-command()}
                    result: {url: publish-signal(string)}
        reader:
          type: workflow.Instance
          interfaces:
            input: {size: configuration(int)}
            nodes: {url: consume-signal(string)}
            result: {urls: publish-signal(object)}
"""


def nodes(text: str = NODES) -> CompiledManifest:
    return compiled(dedent(text))


def two() -> CompiledManifest:
    return expanded(nodes(), {"cluster": 2})


def test_members_take_the_place_of_the_template() -> None:
    inner = [f"cluster.node[{n}].{name}" for name in ("vm", "web") for n in (0, 1)]
    assert set(two().components) == {"store", "cluster", "reader", *inner}
    assert all(component.path == path for path, component in two().components.items())
    assert all(component.scaler is None for component in two().components.values())


def test_who_is_bound_to_the_template_has_a_peer_for_each_member() -> None:
    peers = two().components["reader"].peers["nodes"]
    assert [peer.component for peer in peers] == ["cluster.node[0]", "cluster.node[1]"]
    assert [peer.pins["url"] for peer in peers] == [
        Target("cluster.node[0].web", "result.url"),
        Target("cluster.node[1].web", "result.url"),
    ]


def test_templates_are_bound_member_by_member_and_to_the_same_outside() -> None:
    for number in (0, 1):
        web = two().components[f"cluster.node[{number}].web"]
        [machine] = web.peers["vm"]
        assert machine.component == f"cluster.node[{number}].vm"
        assert machine.pins["networks"] == Target(f"cluster.node[{number}].vm", "compute.networks")
        [store] = web.peers["db"]
        assert (store.component, store.pins["host"]) == ("store", Target("store", "db.host"))


def test_the_applications_pins_lead_to_every_member() -> None:
    manifest = two()
    assert [target.component for target in manifest.parameters["in.port"].targets] == [
        "cluster.node[0].web",
        "cluster.node[1].web",
    ]
    assert len(manifest.results["out.url"].targets) == 2
    assert len(manifest.commands["do.poke"].targets) == 2
    assert manifest.required_parameters == nodes().required_parameters
    assert configure(manifest, {"in.port": 8080})["cluster.node[1].web"]["input.port"] == 8080


def test_values_of_the_template_go_to_the_members() -> None:
    manifest = nodes()
    _, values = scaled(manifest, configure(manifest, {"in.port": 8080}), lambda _path, _values: 2)
    assert values["cluster.node[0].web"] == values["cluster.node[1].web"] == {"input.port": 8080}
    assert "cluster.node.web" not in values
    assert values == configure(expanded(manifest, {"cluster": 2}), {"in.port": 8080})


def test_members_come_before_those_who_require_them() -> None:
    order = two().order
    for number in (0, 1):
        assert order.index(f"cluster.node[{number}].vm") < order.index(f"cluster.node[{number}].web")
    assert set(order) == set(two().components)


def test_without_members_nobody_is_bound_to_them() -> None:
    manifest = expanded(nodes(), {})
    assert set(manifest.components) == {"store", "cluster", "reader"}
    assert manifest.components["reader"].peers == {"nodes": ()}
    assert manifest.results["out.url"].targets == ()


def test_an_expanded_manifest_and_one_without_scalers_stay_as_they_are() -> None:
    assert expanded(two(), {"cluster": 7}) == two()
    plain = compiled("launch: {steps: []}")
    assert expanded(plain, {}) is plain


TWO_SCALERS = """
    application:
      bindings: [[a.x, b.y]]
      components:
        a:
          type: composite.Scaler
          components: {x: {type: workflow.Instance, interfaces: {i: {s: consume-signal(int)}}}}
        b:
          type: composite.Scaler
          components: {y: {type: workflow.Instance, interfaces: {o: {s: publish-signal(int)}}}}
"""


@given(st.integers(0, 4), st.integers(0, 4))
def test_members_of_two_scalers_are_bound_each_to_each(first: int, second: int) -> None:
    manifest = expanded(nodes(TWO_SCALERS), {"a": first, "b": second})
    for number in range(first):
        peers = manifest.components[f"a.x[{number}]"].peers["i"]
        assert [peer.component for peer in peers] == [f"b.y[{n}]" for n in range(second)]
        assert [peer.pins["s"].component for peer in peers] == [f"b.y[{n}]" for n in range(second)]
    assert len(manifest.components) == 2 + first + second


def test_a_composite_around_a_scaler_gives_one_peer_for_each_member_too() -> None:
    text = """
        application:
          bindings: [[reader, tier]]
          components:
            tier:
              interfaces: {out: {s: bind(c#out.s)}}
              components:
                c:
                  type: composite.Scaler
                  interfaces: {out: {s: bind(x#o.s)}}
                  components: {x: {type: workflow.Instance, interfaces: {o: {s: publish-signal(int)}}}}
            reader: {type: workflow.Instance, interfaces: {i: {s: consume-signal(int)}}}
    """
    peers = expanded(nodes(text), {"tier.c": 2}).components["reader"].peers["i"]
    assert [(peer.component, peer.pins["s"].component) for peer in peers] == [
        ("tier[0]", "tier.c.x[0]"),
        ("tier[1]", "tier.c.x[1]"),
    ]


@pytest.mark.parametrize(
    ("configuration", "quantity"),
    [
        ({}, 1),
        ({"configuration.quantity": 3}, 3),
        ({"configuration.quantity": 0}, 0),
        ({"configuration.minQuantity": 2}, 2),
        ({"configuration.quantity": 1, "configuration.minQuantity": 2}, 2),
        ({"configuration.quantity": -3}, 0),
        ({"configuration.quantity": 10**9}, 0),
    ],
)
def test_the_configured_number_is_within_bounds(configuration: dict[str, int], quantity: int) -> None:
    assert configured_quantity(configuration) == quantity


def test_paths_of_members_lead_back_to_their_templates() -> None:
    manifest = nodes()
    assert scalers(manifest) == ["cluster"]
    assert members(expanded(manifest, {"cluster": 4}), "cluster", [3]) == ["cluster.node[3].vm", "cluster.node[3].web"]
    assert template_path("cluster.node[3].vm") == "cluster.node.vm"
    assert component_at(manifest, "cluster.node[3].vm") is manifest.components["cluster.node.vm"]
    assert component_at(manifest, "nowhere[3]") is None
    assert member_number("cluster.node[12].vm", "cluster") == 12
    assert member_number("other.node[12].vm", "cluster") is None
    assert member_number("cluster.node.vm", "cluster") is None


NESTED = """
application:
  interfaces: {all: {sizes: bind(sum#out.sizes)}}
  bindings: [[sum, racks.rack.nodes.node]]
  components:
    racks:
      type: composite.Scaler
      configuration: {configuration.quantity: 2}
      components:
        rack:
          bindings: [[nodes.node, switch]]
          components:
            switch:
              type: cobalt.common.Constants
              interfaces: {wire: {port: publish-signal(int)}}
              configuration: {configuration.values: {wire.port: 1}}
            nodes:
              type: composite.Scaler
              configuration: {configuration.quantity: 3}
              components:
                node:
                  type: workflow.Instance
                  interfaces: {wire: {port: consume-signal(int)}, size: {size: publish-signal(int)}}
    sum:
      type: workflow.Instance
      interfaces: {size: {size: consume-signal(int)}, out: {sizes: publish-signal(list<int>)}}
"""


def test_a_scaler_inside_a_scaler_has_members_of_its_own_in_each_member() -> None:
    manifest = nodes(NESTED)
    values = configure(manifest, {})
    quantities = {"racks": 2, "racks.rack[0].nodes": 1, "racks.rack[1].nodes": 2}
    found, configured = scaled(manifest, values, lambda path, _: quantities[path])
    inside = ["racks.rack[0].nodes.node[0]", "racks.rack[1].nodes.node[0]", "racks.rack[1].nodes.node[1]"]
    assert [path for path in found.components if path.endswith("]") and "node[" in path] == inside
    assert found == expanded(manifest, quantities)
    assert [peer.component for peer in found.components["sum"].peers["size"]] == inside
    for path in inside:
        [peer] = found.components[path].peers["wire"]
        assert peer.component == f"{path[:13]}.switch"
        assert found.components[path].scaler is None
    assert configured["racks.rack[1].nodes"] == values["racks.rack.nodes"]
    assert {template_path(path) for path in found.components} == set(manifest.components)


def test_the_copies_of_a_scaler_share_its_bound() -> None:
    manifest = nodes(NESTED)
    found, _ = scaled(manifest, {}, lambda path, _: 600 if path.endswith("nodes") else 2)
    assert sum("node[" in path for path in found.components) == 600
