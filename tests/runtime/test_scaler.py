"""`composite.Scaler`: members are launched, seen as several peers, added, taken away and destroyed."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from launchbay.model.instance import InstanceStatus
from launchbay.planning.plans import plan_launch, plan_run
from tests.support.machines import Lab, dry, on_lab, roles
from tests.support.runtime import Case, Instance, check_records, instance

MACHINES = """
    application:
      configuration: {in.size: 2}
      interfaces:
        in: {size: "bind(cluster#configuration.quantity, user#input.size)"}
        out: {"*": bind(user#result.*)}
        do: {set: bind(cluster#scale.set-quantity), run: bind(user#actions.run), grow: bind(user#actions.grow)}
      bindings: [[user, cluster.vm], [user#scale, cluster]]
      components:
        cluster: {type: composite.Scaler, components: {vm: {type: compute.Instance}}}
        user:
          type: workflow.Instance
          interfaces:
            input: {size: configuration(int)}
            vm:
              networks: "consume-signal(map<string,map<string,string>>)"
              exec: "send-command(string command => string stdOut)"
            scale: {set-quantity: send-command(int quantity)}
            actions: {run: receive-command(), grow: receive-command(int to)}
            result: {ips: publish-signal(object), said: publish-signal(object), seen: publish-signal(object)}
          configuration:
            configuration.workflows:
              launch:
                steps:
                  - wait: {action: waitPeers, parameters: {interfaces: {vm: "{$.size}"}}}
                  - look: {action: getSignals, precedingPhases: [wait], parameters: {multi: true}, output: {s: result}}
                  - run:
                      action: execrun
                      precedingPhases: [look]
                      parameters: {roles: [vm], command: [x]}
                      output: {o: stdout}
                return:
                  ips: {value: "{$.s.vm.*.networks.public.ip}"}
                  seen: {value: "{$.s}"}
                  said: {value: "{$.o}"}
              run:
                steps:
                  - call: {action: vm.exec, parameters: {command: y}, output: {o: stdOut}}
                return: {said: {value: "{$.o}"}}
              grow:
                steps:
                  - set: {action: scale.set-quantity, parameters: {quantity: "{$.to}"}}
                  - wait: {action: waitPeers, precedingPhases: [set], parameters: {interfaces: {vm: "{$.to}"}}}
                  - look: {action: getSignals, precedingPhases: [wait], parameters: {multi: true}, output: {s: result}}
                  - run: {action: vm.exec, precedingPhases: [look], parameters: {command: z}, output: {o: stdOut}}
                return: {ips: {value: "{$.s.vm.*.networks.public.ip}"}, said: {value: "{$.o}"}}
"""
NODES = """
    application:
      interfaces:
        do: {set: bind(cluster#scale.set-quantity), poke: bind(cluster.node#actions.poke)}
        out: {all: bind(reader#result.all)}
      bindings: [[reader, cluster.node]]
      components:
        cluster:
          type: composite.Scaler
          configuration: {configuration.quantity: 2, configuration.minQuantity: 1}
          components:
            node:
              type: workflow.Instance
              interfaces: {actions: {poke: "receive-command(=> string got)"}, result: {me: publish-signal(object)}}
              configuration:
                configuration.workflows:
                  launch: {steps: [{up: {action: effect, output: {n: attempt}}}], return: {me: {value: "{$.n}"}}}
                  poke:
                    steps: [{hit: {action: effect, parameters: {value: poked}, output: {v: value}}}]
                    return: {got: {value: "{$.v}"}}
                  destroy: {steps: [{down: {action: effect}}]}
        reader:
          type: workflow.Instance
          required: [nodes]
          interfaces: {nodes: {me: consume-signal(object)}, result: {all: publish-signal(object)}}
          configuration:
            configuration.workflows:
              launch:
                steps: [{look: {action: getSignals, parameters: {multi: true}, output: {s: result}}}]
                return: {all: {value: "{$.s.nodes}"}}
"""
RUNNING = InstanceStatus.RUNNING


async def launched(text: str = MACHINES, lab: Lab | None = None) -> Instance:
    live = on_lab(text, lab or Lab())
    assert await live.launch() is None
    return live


async def test_so_many_members_are_launched_and_seen_as_peers_and_as_a_role() -> None:
    live = await launched()
    assert live.results["out.ips"] == ["10.0.0.0", "10.0.0.1"]
    assert list(live.results["out.seen"]["vm"]) == ["cluster.vm[0]", "cluster.vm[1]"]
    assert live.results["out.said"] == {"10.0.0.0": "10.0.0.0", "10.0.0.1": "10.0.0.1"}


async def test_a_command_to_the_template_goes_to_every_member() -> None:
    live = await launched()
    assert await live.command("do.run") is None
    assert live.results["out.said"] == ["10.0.0.0\n", "10.0.0.1\n"]


async def test_it_grows_and_shrinks_from_the_end() -> None:
    lab = Lab()
    live = await launched(lab=lab)
    assert await live.command("do.set", quantity=4) is None
    assert roles(live) == {"compute": ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"]}
    assert await live.command("do.run") is None
    assert len(live.results["out.said"]) == 4
    assert await live.command("do.set", quantity=1) is None
    assert roles(live) == {"compute": ["10.0.0.0"]}
    assert sorted(live.components) == ["cluster", "cluster.vm[0]", "user"]
    assert len(lab.standing) == 1
    assert await live.command("do.set", quantity=2) is None
    assert roles(live) == {"compute": ["10.0.0.0", "10.0.0.4"]}


async def test_it_may_shrink_to_nothing_and_come_back() -> None:
    live = await launched()
    assert await live.command("do.set", quantity=0) is None
    assert roles(live) == {}
    assert "has no receiver: interface 'vm'" in (await live.command("do.run") or "")
    assert await live.command("do.set", quantity=1) is None
    assert await live.command("do.run") is None


async def test_a_workflow_that_scales_sees_the_new_members_at_once() -> None:
    live = await launched()
    assert await live.command("do.grow", to=3) is None
    assert live.results["out.ips"] == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]
    assert len(live.results["out.said"]) == 3


@pytest.mark.parametrize(
    ("quantity", "said"), [(-1, "must be 0 to 1000, not -1"), (1001, "must be 0 to 1000, not 1001")]
)
async def test_impossible_numbers_are_refused(quantity: int, said: str) -> None:
    live = await launched()
    assert said in (await live.command("do.set", quantity=quantity) or "")
    assert len(roles(live)["compute"]) == 2


async def test_fewer_than_the_least_are_refused() -> None:
    live = instance(NODES)
    assert await live.launch() is None
    assert "must be 1 to 1000, not 0" in (await live.command("do.set", quantity=0) or "")


async def test_a_configured_number_beyond_the_bounds_fails_the_launch() -> None:
    live = instance(NODES.replace("configuration.quantity: 2", "configuration.quantity: 5000"))
    assert "configuration.quantity must be 0 to 1000, not 5000" in (await live.launch() or "")
    assert live.world.effects == []


async def test_a_number_that_was_set_stays_until_another_one_is_configured() -> None:
    lab = Lab()
    live = await launched(lab=lab)
    assert await live.command("do.set", quantity=3) is None
    assert await live.command("do.run") is None
    assert len(live.results["out.said"]) == 3
    live.parameters = {"in.size": 1}
    assert await live.command("do.run") is None
    assert live.results["out.said"] == "10.0.0.0\n"


async def test_members_with_workflows_live_their_own_lives() -> None:
    live = instance(NODES)
    assert await live.launch() is None
    assert live.results["out.all"] == {"cluster.node[0]": {"me": 1}, "cluster.node[1]": {"me": 1}}
    assert sorted(live.world.paths()) == ["cluster.node[0]#launch/up", "cluster.node[1]#launch/up"]
    assert await live.command("do.poke") is None
    assert live.world.paths()[2:] == ["cluster.node[0]#poke/hit", "cluster.node[1]#poke/hit"]
    assert await live.command("do.set", quantity=1) is None
    assert live.world.paths()[4:] == ["cluster.node[1]#destroy/down"]
    assert await live.destroy() is None
    assert live.world.paths()[5:] == ["cluster.node[0]#destroy/down"]


async def test_destroy_takes_every_member() -> None:
    lab = Lab()
    live = await launched(lab=lab)
    assert await live.command("do.set", quantity=5) is None
    assert await live.destroy() is None
    assert (roles(live), lab.standing) == ({}, {})


async def test_members_that_failed_are_launched_by_the_next_attempt() -> None:
    lab = Lab()
    live = await launched(lab=lab)
    lab.refusals["provision"] = {"*"}
    error = await live.command("do.set", quantity=4) or ""
    assert "Component 'cluster.vm[2]': the lab does not provision compute." in error
    assert len(roles(live)["compute"]) == 2
    lab.refusals.clear()
    assert await live.command("do.set", quantity=4) is None
    assert len(roles(live)["compute"]) == 4


async def test_a_member_that_does_not_go_stays_with_all_before_it() -> None:
    lab = Lab()
    live = await launched(lab=lab)
    assert await live.command("do.set", quantity=4) is None
    lab.refusals["release"] = {"10.0.0.2"}
    error = await live.command("do.set", quantity=1) or ""
    assert "can't destroy component 'cluster.vm[2]': Can't release machine 10.0.0.2" in error
    assert roles(live) == {"compute": ["10.0.0.0", "10.0.0.1", "10.0.0.2"]}
    lab.refusals.clear()
    assert await live.command("do.set", quantity=1) is None
    assert roles(live) == {"compute": ["10.0.0.0"]}


async def test_a_job_that_shrank_does_not_grow_again() -> None:
    twice = MACHINES.replace(
        "- wait: {action: waitPeers, precedingPhases: [set]",
        "- back: {action: scale.set-quantity, precedingPhases: [set], parameters: {quantity: 2}}\n"
        "                  - wait: {action: waitPeers, precedingPhases: [back]",
    )
    live = await launched(twice)
    assert "can't launch cluster.vm[1] again in the job that destroyed it" in (
        await live.command("do.grow", to=1) or ""
    )


async def cut_everywhere(prepare: Callable[[], Any], plan: Any) -> None:
    whole = await prepare()
    assert await whole.run(plan) is None
    writes = whole.disk.writes
    assert writes > 0
    for number in range(writes):
        live = await prepare()
        effects = len(live.world.effects)
        found, live, crashes = await Case(lambda live=live: live, plan).cut_at(number)  # type: ignore[misc]  # bound now
        assert crashes
        assert found.error is None
        assert live.components == whole.components, f"cut after write {number}"
        live.world.effects = live.world.effects[effects:]
        check_records(live, [(disk, max(0, done - effects)) for disk, done in crashes])


@pytest.mark.parametrize(("command", "arguments"), [("do.set", {"quantity": "4"}), ("do.grow", {"to": "3"})])
async def test_scaling_cut_anywhere_ends_as_if_it_was_not(command: str, arguments: dict[str, str]) -> None:
    async def prepare() -> Instance:
        return await launched()

    await cut_everywhere(prepare, plan_run((await prepare()).manifest, command, arguments, RUNNING))


@pytest.mark.parametrize("quantity", ["1", "3"])
async def test_scaling_members_with_workflows_cut_anywhere_ends_as_if_it_was_not(quantity: str) -> None:
    async def prepare() -> Instance:
        live = instance(NODES)
        assert await live.launch() is None
        return live

    await cut_everywhere(prepare, plan_run((await prepare()).manifest, "do.set", {"quantity": quantity}, RUNNING))


async def test_scaling_that_took_too_long_is_over_after_a_crash_too() -> None:
    text = MACHINES.replace(
        """parameters: {quantity: "{$.to}"}}""",
        """parameters: {quantity: "{$.to}", commandCallTimeout: 0.03, ignoreFail: true}}""",
    )
    text = text.replace("""interfaces: {vm: "{$.to}"}""", "interfaces: {vm: 2}").replace(
        "{command: z}", "{command: z, ignoreFail: true}"
    )

    async def prepare() -> Instance:
        lab = Lab()
        live = await launched(text, lab)
        lab.slow_s = 0.3
        return live

    live = await prepare()
    plan = plan_run(live.manifest, "do.grow", {"to": "3"}, RUNNING)
    assert await live.run(plan) is None
    assert "exceeded its timeout of 0.03 s" in " ".join(live.disk.texts("warning")), "its failure is ignored"
    assert live.results["out.ips"] == ["10.0.0.0", "10.0.0.1"]
    await cut_everywhere(prepare, plan)


async def test_a_launch_of_members_cut_anywhere_makes_each_once() -> None:
    async def prepare() -> Instance:
        return on_lab(MACHINES, Lab())

    await cut_everywhere(prepare, plan_launch({}, InstanceStatus.REQUESTED))


async def test_on_dry_run_machines_each_member_has_an_address_of_its_own() -> None:
    live = dry(MACHINES)
    assert await live.launch() is None
    assert live.results["out.ips"] == ["192.0.2.1", "192.0.2.2"]


# Racks of nodes: a Scaler in a Scaler. Each node publishes what its launch made.
RACKS = """
application:
  configuration: {racks.quantity: 2, racks.nodes: 1}
  interfaces:
    racks: {quantity: bind(racks#configuration.quantity), nodes: bind(racks.rack.nodes#configuration.quantity)}
    do: {racks: bind(racks#scale.set-quantity), nodes: bind(racks.rack.nodes#scale.set-quantity)}
    out: {all: bind(sum#out.all)}
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
                  interfaces: {made: {key: publish-signal(object)}}
                  configuration:
                    configuration.workflows:
                      launch:
                        steps: [{make: {action: effect, output: {key: attempt}}}]
                        return: {key: {value: "{$.key}"}}
                      destroy: {steps: [{gone: {action: effect}}]}
    sum:
      type: workflow.Instance
      interfaces: {made: {key: consume-signal(object)}, out: {all: publish-signal(object)}}
      configuration: {configuration.workflows: {launch: {steps: []}}}
"""


def node_paths(live: Instance) -> list[str]:
    return sorted(path for path in msgspec.json.decode(live.state) if "node[" in path)


async def test_members_of_a_scaler_scale_by_themselves_and_together() -> None:
    live = instance(RACKS)
    assert await live.launch() is None
    assert node_paths(live) == ["racks.rack[0].nodes.node[0]", "racks.rack[1].nodes.node[0]"]
    assert await live.command("do.nodes", quantity="2") is None
    assert len(node_paths(live)) == 4
    assert await live.command("do.racks", quantity="3") is None
    assert node_paths(live)[-1] == "racks.rack[2].nodes.node[0]", "a new rack has the configured number"
    assert len(node_paths(live)) == 5
    assert await live.command("do.racks", quantity="1") is None
    assert node_paths(live) == ["racks.rack[0].nodes.node[0]", "racks.rack[0].nodes.node[1]"]
    assert not [path for path in msgspec.json.decode(live.state) if path.startswith(("racks.rack[1]", "racks.rack[2]"))]
    assert await live.command("do.racks", quantity="2") is None
    assert len(node_paths(live)) == 3
    assert await live.destroy() is None


async def test_nested_scalers_have_a_bound_together() -> None:
    live = instance(RACKS.replace("racks.nodes: 1", "racks.nodes: 600"))
    assert "together must be at most 1000, not 1200" in str(await live.launch())
    live = instance(RACKS)
    assert await live.launch() is None
    assert "together must be at most 1000" in str(await live.command("do.nodes", quantity="501"))


@pytest.mark.parametrize(("command", "quantity"), [("do.racks", "1"), ("do.racks", "3"), ("do.nodes", "2")])
async def test_scaling_nested_scalers_cut_anywhere_ends_as_if_it_was_not(command: str, quantity: str) -> None:
    async def prepare() -> Instance:
        live = instance(RACKS)
        assert await live.launch() is None
        return live

    await cut_everywhere(prepare, plan_run((await prepare()).manifest, command, {"quantity": quantity}, RUNNING))
