"""Commands between components: arguments, results, time-outs, peers."""

import asyncio

import pytest

from tests.support.runtime import BY_CALL, BY_NAME, Instance, instance, pair


async def got(live: Instance) -> object:
    assert await live.launch() is None
    assert await live.command("act.go", n="1") is None
    return live.components["caller"]["variables"]["got"]


async def failed(live: Instance) -> str:
    assert await live.launch() is None
    error = await live.command("act.go")
    assert error is not None
    return error


async def test_a_command_takes_arguments_by_name_and_gives_results() -> None:
    live = pair(BY_NAME, "one")
    assert await got(live) == ["one", 1, "because"]
    assert live.world.paths() == ["caller#go/call>one#actions.grow/work"]


async def test_arguments_that_are_not_given_have_the_workflows_defaults() -> None:
    live = pair("{action: db.grow, parameters: {}, output: {got: size}}", "one")
    assert await got(live) == ["one", 7, "none"]


@pytest.mark.parametrize("action", ["commandCall", "serviceCall"])
async def test_command_call_and_service_call_give_all_results_and_those_not_returned_as_null(action: str) -> None:
    live = pair(BY_CALL.replace("commandCall", action), "one")
    assert await got(live) == {"size": ["one", 1, "none"], "note": None}


async def test_several_peers_work_at_the_same_time_and_answer_in_binding_order() -> None:
    live = pair(BY_NAME, "two", "one", "three", seconds=0.7)
    await live.launch()
    begun = asyncio.get_running_loop().time()
    assert await live.command("act.go", n="2") is None
    assert asyncio.get_running_loop().time() - begun < 2  # one after another they take longer
    expected = [[name, 2, "because"] for name in ("two", "one", "three")]
    assert live.components["caller"]["variables"]["got"] == expected


async def test_when_a_peer_fails_the_others_finish_and_the_step_fails() -> None:
    live = pair(BY_NAME, "one", "two", fail=1)
    error = await failed(live)
    assert error.startswith(
        "Component 'caller': workflow 'go': step 'call' failed: workflow 'grow': step 'work' failed:"
    )
    assert len(live.world.effects) == 2


async def test_without_a_peer_the_step_fails_with_the_remedy() -> None:
    error = await failed(pair(BY_NAME))
    assert "interface 'db' of component" in error
    assert "is unbound" in error
    assert "Add a binding" in error


async def test_an_unknown_command_fails_the_step_with_the_remedy() -> None:
    live = pair("{action: commandCall, parameters: {service: db, command: shrink}}", "one")
    error = await failed(live)
    assert "no send-command pin db.shrink" in error


@pytest.mark.parametrize(
    "step",
    [
        "{action: db.grow, parameters: {commandCallTimeout: 0.05}}",
        '{action: db.grow, parameters: {commandCallTimeout: "50 ms"}}',
        "{action: commandCall, parameters: {service: db, command: grow, timeout: 0.05}}",
    ],
)
async def test_a_command_that_takes_too_long_fails_its_step(step: str) -> None:
    live = pair(step, "one", seconds=5)
    begun = asyncio.get_running_loop().time()
    error = await failed(live)
    assert asyncio.get_running_loop().time() - begun < 4
    assert "The command db.grow exceeded its timeout of 0.05 s" in error


async def test_a_timeout_that_is_none_fails_the_step_by_name() -> None:
    live = pair("{action: db.grow, parameters: {commandCallTimeout: soon}}", "one")
    error = await failed(live)
    assert "commandCallTimeout: 'soon' is not a duration" in error
    assert live.world.effects == []


async def test_each_attempt_of_a_command_runs_the_peers_workflow_anew() -> None:
    live = pair("{action: db.grow, parameters: {retryCount: 1}}", "one", fail=9)
    await failed(live)
    assert live.world.paths() == [
        "caller#go/call>one#actions.grow/work",
        "caller#go/call~2>one#actions.grow/work",
    ]


SIGNAL = """
    application:
      interfaces: {{act: {{go: "bind(a#act.go)"}}}}
      components:
        a:
          type: workflow.Instance
          interfaces:
            act: {{go: "receive-command(=> object got)"}}
            b: {{set: "send-command(=> )", x: consume-signal(int)}}
          configuration:
            configuration.workflows:
              {a}
        b:
          type: workflow.Instance
          {b_more}
          interfaces:
            actions: {{set: "receive-command(=> )", x: publish-signal(int)}}
            {b_needs}
          configuration:
            configuration.workflows:
              launch: {b_launch}
              set: {{steps: [{{s: {{action: effect}}}}], return: {{x: {{value: 5}}}}}}
      bindings: [[a, b]]
"""


def two(a: str, b_launch: str = "{steps: []}", b_more: str = "", b_needs: str = "none: {}") -> Instance:
    return instance(SIGNAL.format(a=a, b_launch=b_launch, b_more=b_more, b_needs=b_needs))


async def test_what_a_command_returns_becomes_a_signal_of_the_peer() -> None:
    live = two("go: {steps: [{call: {action: b.set}}]}")
    assert await live.launch() is None
    assert await live.command("act.go") is None
    assert live.components["b"]["signals"] == {"actions": {"x": 5}}


async def test_a_command_sent_during_the_launch_waits_until_its_receiver_is_launched() -> None:
    live = two(
        "launch: {steps: [{call: {action: b.set}}]}",
        "{steps: [{slow: {action: effect, parameters: {seconds: 0.05}}}]}",
    )
    assert await live.launch() is None
    assert live.world.paths() == ["b#launch/slow", "a#launch/call>b#actions.set/s"]


async def test_a_command_to_a_component_whose_launch_failed_fails_at_once() -> None:
    live = two(
        "launch: {steps: [{call: {action: b.set}}]}",
        "{steps: [{bad: {action: effect, parameters: {fail: 1, seconds: 0.02}}}]}",
    )
    error = await live.launch()
    assert error is not None
    assert (
        "Component 'a': workflow 'launch': step 'call' failed: can't run 'set': component 'b' was not launched" in error
    )
    assert "Component 'b': workflow 'launch': step 'bad' failed" in error


async def test_components_whose_launches_send_commands_to_each_other_are_told_so() -> None:
    live = instance("""
        application:
          components:
            a:
              type: workflow.Instance
              interfaces: {ping: {ping: "receive-command(=> )"}, pong: {pong: "send-command(=> )"}}
              configuration:
                configuration.workflows: {launch: {steps: [{call: {action: pong.pong}}]}, ping: {steps: []}}
            b:
              type: workflow.Instance
              interfaces: {ping: {ping: "send-command(=> )"}, pong: {pong: "receive-command(=> )"}}
              configuration:
                configuration.workflows: {launch: {steps: [{call: {action: ping.ping}}]}, pong: {steps: []}}
          bindings: [[a, b]]
    """)
    begun = asyncio.get_running_loop().time()
    error = await live.launch()
    assert asyncio.get_running_loop().time() - begun < 10
    assert error is not None
    assert "whose launch waits for" in error
    assert "Send the command after the launch" in error


async def test_constants_take_no_commands() -> None:
    live = instance("""
        application:
          interfaces: {act: {go: "bind(a#act.go)"}}
          components:
            a:
              type: workflow.Instance
              interfaces: {act: {go: "receive-command(=> )"}, c: {do: "send-command(=> )"}}
              configuration: {configuration.workflows: {go: {steps: [{s: {action: c.do}}]}}}
            c:
              type: cobalt.common.Constants
              interfaces: {c: {do: "receive-command(=> )"}}
          bindings: [[a, c]]
    """)
    assert await live.launch() is None
    error = await live.command("act.go")
    assert error is not None
    assert "accepts no commands" in error


async def test_a_command_without_a_workflow_fails_with_the_remedy() -> None:
    live = instance("""
        application:
          interfaces: {act: {go: "bind(a#act.go)"}}
          components:
            a:
              type: workflow.Instance
              interfaces: {act: {go: "receive-command(=> )"}}
              configuration: {configuration.workflows: {launch: {steps: []}}}
    """)
    assert await live.launch() is None
    error = await live.command("act.go")
    assert error is not None
    assert "without a workflow of that name. Add the workflow." in error


async def test_commands_that_go_round_end_with_a_sentence() -> None:
    live = instance("""
        application:
          interfaces: {act: {go: "bind(a#act.go)"}}
          components:
            a:
              type: workflow.Instance
              interfaces: {act: {go: "receive-command(=> )"}, again: {go: "send-command(=> )"}}
              configuration: {configuration.workflows: {go: {steps: [{s: {action: again.go}}]}}}
          bindings: [[a#act, a#again]]
    """)
    assert await live.launch() is None
    error = await live.command("act.go")
    assert error is not None
    assert "nested calls. Check whether it calls itself." in error


TYPED = """
    application:
      interfaces: {act: {go: bind(caller#act.go)}}
      bindings: [[caller, one]]
      components:
        caller:
          type: workflow.Instance
          interfaces:
            act: {go: receive-command()}
            db: {grow: "send-command(string by => string size, list<int> sizes, int odd)"}
          configuration:
            configuration.workflows:
              go:
                steps: [{call: {action: db.grow, parameters: {by: "7"}, output: {size: size, sizes: sizes, odd: odd}}}]
                return: {got: {value: ["{$.size}", "{$.sizes}", "{$.odd}"]}}
        one:
          type: workflow.Instance
          interfaces:
            actions: {grow: "receive-command(int by => int size, list<string> sizes, int odd)"}
          configuration:
            configuration.workflows:
              grow:
                steps: []
                return:
                  saw: {value: "{$.by}"}
                  size: {value: "8"}
                  sizes: {value: [1, 2]}
                  odd: {value: many}
"""


async def test_arguments_and_results_have_the_types_that_each_end_declares_for_them() -> None:
    live = instance(TYPED)
    assert await live.launch() is None
    assert await live.command("act.go") is None
    assert live.components["one"]["variables"]["saw"] == 7
    assert live.components["caller"]["variables"]["got"] == ["8", [1, 2], "many"]
    [told] = live.disk.texts("warning")
    assert "'odd'" in told


async def test_arguments_of_a_macro_and_defaults_have_the_types_of_its_parameters() -> None:
    live = instance("""
        launch:
          steps:
            - a: {action: .show, parameters: {count: "3"}, output: {a: seen}}
            - b: {action: .show, parameters: {flag: "true", bare: "3"}, output: {b: seen}}
          return: {seen: {value: ["{$.a}", "{$.b}"]}}
        .show:
          parameters:
            - count: {type: int, default: "4"}
            - flag: {type: bool, default: "false"}
            - bare: {default: "5"}
          steps: []
          return: {seen: {value: ["{$.count}", "{$.flag}", "{$.bare}"]}}
    """)
    assert await live.launch() is None
    assert live.components["workflow"]["variables"]["seen"] == [[3, False, "5"], [4, True, "3"]]
