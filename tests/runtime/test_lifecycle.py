"""Launching components: order, failures, repeated launches."""

import asyncio

import pytest

from launchbay.errors import InvalidManifest
from tests.support.runtime import WORK, chain, instance, launch


async def test_components_start_in_the_order_of_what_they_require() -> None:
    live = chain(c=launch(WORK, "c"), a=launch(WORK, "a"), b=launch(WORK, "b"))
    assert await live.launch() is None
    assert live.world.paths() == ["c#launch/s", "a#launch/s", "b#launch/s"]
    assert all(state["launched"] for state in live.components.values())


async def test_components_that_need_nothing_of_each_other_start_at_the_same_time() -> None:
    meet = launch("{action: meet, parameters: {count: 3}}", "x")
    live = instance(
        "application:\n  components:\n"
        + "\n".join(
            f"    {n}: {{type: workflow.Instance, interfaces: {{o: {{x: publish-signal(int)}}}},"
            f" configuration: {{configuration.workflows: {{launch: {meet}}}}}}}"
            for n in "abc"
        )
    )
    assert await live.launch() is None


def test_a_circle_of_required_interfaces_is_an_error_that_shows_it() -> None:
    with pytest.raises(InvalidManifest) as refused:
        instance("""
            application:
              components:
                a: &each
                  type: workflow.Instance
                  required: [in]
                  interfaces: {in: {x: consume-signal(int)}, out: {y: publish-signal(int)}}
                b:
                  type: workflow.Instance
                  required: [in]
                  interfaces: {in: {y: consume-signal(int)}, out: {x: publish-signal(int)}}
              bindings: [[a, b]]
        """)
    assert "'a' → 'b' → 'a'" in str(refused.value)


async def test_a_circle_by_commands_is_told_and_ends_the_launch() -> None:
    live = instance("""
        application:
          components:
            needed:
              type: workflow.Instance
              interfaces: {offer: {x: publish-signal(int)}, ask: {go: "send-command(=> )"}}
              configuration:
                configuration.workflows: {launch: {steps: [{call: {action: ask.go}}], return: {x: {value: 1}}}}
            needs:
              type: workflow.Instance
              required: [offer]
              interfaces: {offer: {x: consume-signal(int)}, answer: {go: "receive-command(=> )"}}
              configuration: {configuration.workflows: {launch: {steps: []}, go: {steps: []}}}
          bindings: [[needs, needed]]
    """)
    begun = asyncio.get_running_loop().time()
    error = await live.launch()
    assert asyncio.get_running_loop().time() - begun < 10
    assert error is not None
    assert "component 'needed' sends 'go' to 'needs', whose launch waits for 'needed'" in error


async def test_when_one_component_fails_the_others_finish_and_nothing_more_starts() -> None:
    live = instance("""
        application:
          components:
            bad: &plain
              type: workflow.Instance
              interfaces: {o: {x: publish-signal(int)}}
              configuration:
                configuration.workflows:
                  launch: {steps: [{broken: {action: effect, parameters: {fail: 1}}}]}
            slow:
              type: workflow.Instance
              interfaces: {o: {y: publish-signal(int)}}
              configuration:
                configuration.workflows:
                  launch:
                    steps:
                      - one: {action: effect, parameters: {seconds: 0.03}}
                      - two: {action: effect, precedingPhases: [one]}
                    return: {y: {value: 1}}
            behind:
              type: workflow.Instance
              required: [i]
              interfaces: {i: {y: consume-signal(int)}}
              configuration: {configuration.workflows: {launch: {steps: [{never: {action: effect}}]}}}
          bindings: [[behind, slow]]
    """)
    error = await live.launch()
    assert error == "Component 'bad': workflow 'launch': step 'broken' failed: attempt 1 did not work."
    assert live.world.paths() == ["bad#launch/broken", "slow#launch/one", "slow#launch/two"]
    launched = {name for name, state in live.components.items() if state["launched"]}
    assert launched == {"slow"}


async def test_a_provider_that_publishes_nothing_is_named_by_the_one_that_waits() -> None:
    live = chain(a="{steps: []}", b=launch(WORK, "b"))
    error = await live.launch()
    assert error == "Component 'b': from.a: component 'a' hasn't published 'to.a'"


async def test_a_signal_that_comes_later_by_a_command_starts_who_waits_for_it() -> None:
    live = instance("""
        application:
          components:
            source:
              type: workflow.Instance
              interfaces: {out: {x: publish-signal(int)}, in: {set: "receive-command(=> )"}}
              configuration:
                configuration.workflows: {launch: {steps: []}, set: {steps: [], return: {x: {value: 3}}}}
            setter:
              type: workflow.Instance
              interfaces: {in: {set: "send-command(=> )"}}
              configuration:
                configuration.workflows:
                  launch:
                    steps:
                      - set: {action: in.set}
                      - long: {action: pass, precedingPhases: [set], parameters: {gate: reader is up}}
            reader:
              type: workflow.Instance
              required: [out]
              interfaces: {out: {x: consume-signal(int)}}
              configuration:
                configuration.workflows:
                  launch: {steps: [{up: {action: pass, parameters: {opens: reader is up}}}]}
          bindings: [[setter, source], [reader, source]]
    """)
    assert await live.launch() is None


async def test_a_constant_of_the_wrong_type_fails_the_launch_by_name() -> None:
    live = instance("""
        application:
          components:
            c:
              type: cobalt.common.Constants
              interfaces: {v: {n: publish-signal(int)}}
              configuration: {configuration.values: {v.n: many}}
    """)
    error = await live.launch()
    assert error is not None
    assert error.startswith("Component 'c': the constant v.n: ")


async def test_a_repeated_launch_keeps_the_order() -> None:
    live = chain(a=launch(WORK, "a"), b=launch(WORK, "b"))
    await live.launch()
    live.world.effects.clear()
    live.world.events.clear()
    assert await live.launch() is None
    assert live.world.paths() == ["a#launch/s", "b#launch/s"]


@pytest.mark.slow
async def test_hundreds_of_components_in_a_chain_are_launched_quickly() -> None:
    live = chain(**{f"c{n}": f"{{steps: [], return: {{c{n}: {{value: 1}}}}}}" for n in range(300)})
    begun = asyncio.get_running_loop().time()
    assert await live.launch() is None
    assert asyncio.get_running_loop().time() - begun < 10
