"""Scalers inside of Scalers (manifest-language §4)."""

from typing import Any

from tests.support.service import Api, accepted

RACKS = """
application:
  configuration: {racks.quantity: 2, racks.nodes: 1}
  interfaces:
    racks: {quantity: bind(racks#configuration.quantity), nodes: bind(racks.rack.nodes#configuration.quantity)}
    do: {racks: bind(racks#scale.set-quantity), nodes: bind(racks.rack.nodes#scale.set-quantity)}
    seen: {sizes: bind(sum#out.sizes)}
  bindings: [[sum, racks.rack.nodes.node]]
  components:
    racks:
      type: composite.Scaler
      components:
        rack:
          components:
            nodes:
              type: composite.Scaler
              components:
                node:
                  type: workflow.Instance
                  interfaces: {made: {size: publish-signal(int)}}
                  configuration:
                    configuration.workflows:
                      launch: {steps: [], return: {size: {value: 1}}}
                      destroy: {steps: []}
    sum:
      type: workflow.Instance
      required: [made]
      interfaces: {made: {size: consume-signal(int)}, out: {sizes: publish-signal(list<int>)}}
      configuration:
        configuration.triggers: {made.size: launch}
        configuration.workflows:
          launch:
            steps: [{look: {action: getSignals, parameters: {multi: true}, output: {seen: result}}}]
            return: {sizes: {value: "{$.seen.made.*.size}"}}
"""


async def sized(api: Api, instance: str, members: int) -> Any:
    """Wait until the listener has heard of so many nodes."""
    while True:
        document = await api.settled(instance)
        if document["returnValues"].get("seen.sizes") == [1] * members:
            assert document["status"] == "Running", document["errorMessage"]
            return document


async def test_each_member_of_a_scaler_has_inner_members_of_its_own(api: Api) -> None:
    instance = await api.running(RACKS)
    await sized(api, instance, 2)
    await api.run(instance, "do.nodes", quantity="3")
    await sized(api, instance, 6)
    await api.run(instance, "do.racks", quantity="3")
    await sized(api, instance, 7)
    told = accepted(
        await api.post(f"instances/{instance}/configuration/preview", {"parameters": {"racks.quantity": 1}})
    )
    stops = {part["path"] for part in told["components"] if part["change"] == "stops"}
    assert {"racks.rack[1].nodes", "racks.rack[1].nodes.node[2]", "racks.rack[2].nodes.node[0]"} <= stops
    assert not any(path.startswith("racks.rack[0]") for path in stops)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"racks.quantity": 1}}))
    await sized(api, instance, 3)
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"racks.nodes": 2}}))
    await sized(api, instance, 4)
    assert (await api.run(instance, "destroy"))["status"] == "Destroyed"
