"""One workflow: phases, parallel steps, failures, macros, variables, return values."""

from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.manifest.expressions import compile_template
from launchbay.manifest.graph import Step
from launchbay.runtime.state import WorkflowScope
from launchbay.runtime.workflow import Phases, rounds
from tests.support.runtime import MACRO, Instance, instance


def indexed(text: str, *parts: str) -> list[int]:
    return [text.index(part) for part in parts]


async def test_steps_that_become_ready_together_run_at_the_same_time() -> None:
    live = instance("""
        launch:
          steps:
            - first: {action: effect}
            - a: {action: meet, precedingPhases: [first], parameters: {count: 3}}
            - b: {action: meet, precedingPhases: [first], parameters: {count: 3}}
            - c: {action: meet, precedingPhases: [first], parameters: {count: 3}}
    """)
    assert await live.launch() is None


async def test_order_is_by_phases_and_not_by_place() -> None:
    live = instance("""
        launch:
          steps:
            - last: {action: pass, precedingPhases: [middle]}
            - m1: {action: pass, phase: middle, precedingPhases: [begin], parameters: {gate: x}}
            - m2: {action: pass, phase: middle, precedingPhases: [begin], parameters: {opens: x}}
            - one: {action: pass, phase: begin}
    """)
    assert await live.launch() is None
    events = live.world.events
    assert events[:2] == ["one begins", "one ends"]
    assert events[-2:] == ["last begins", "last ends"]
    assert events[2:4] == ["m1 begins", "m2 begins"]


async def test_a_thousand_parallel_steps_run_in_one_go() -> None:
    steps = "\n".join(f"    s{n}: {{action: meet, parameters: {{count: 1000}}}}" for n in range(1000))
    live = instance(f"launch:\n  steps:\n{steps}\n")
    assert await live.launch() is None


async def test_the_phase_provision_means_steps_without_phases_where_nobody_declares_it() -> None:
    live = instance("""
        launch:
          steps:
            - after: {action: pass, precedingPhases: [provision]}
            - plain: {action: pass}
            - phased: {action: pass, phase: other, parameters: {gate: never-before-after}}
            - opener: {action: pass, phase: last, precedingPhases: [after], parameters: {opens: never-before-after}}
    """)
    assert await live.launch() is None
    assert live.world.events.index("plain ends") < live.world.events.index("after begins")


async def test_a_failing_step_lets_its_siblings_finish_and_starts_nothing_new() -> None:
    live = instance("""
        launch:
          steps:
            - bad: {action: effect, parameters: {fail: 1}}
            - sibling: {action: effect, parameters: {seconds: 0.05}, output: {x: value}}
            - next: {action: effect, precedingPhases: [sibling]}
            - other: {action: effect, precedingPhases: [bad]}
    """)
    error = await live.launch()
    assert error == "Workflow 'launch': step 'bad' failed: attempt 1 did not work."
    assert sorted(live.world.paths()) == ["workflow#launch/bad", "workflow#launch/sibling"]
    assert live.disk.steps["workflow#launch/sibling"].status == "Succeeded"
    assert live.disk.steps["workflow#launch/bad"].status == "Failed"


async def test_every_failure_is_told_in_the_order_of_the_manifest() -> None:
    live = instance("""
        launch:
          steps:
            - slow: {action: effect, parameters: {fail: 1, seconds: 0.02}}
            - quick: {action: effect, parameters: {fail: 1}}
    """)
    error = await live.launch()
    assert error is not None
    assert indexed(error, "step 'slow' failed", "step 'quick' failed") == sorted(
        indexed(error, "step 'slow' failed", "step 'quick' failed")
    )


async def test_steps_that_wait_for_each_other_fail_with_their_names() -> None:
    live = instance("""
        launch:
          steps:
            - fine: {action: effect}
            - a: {action: effect, precedingPhases: [b]}
            - b: {action: effect, precedingPhases: [a]}
    """)
    error = await live.launch()
    assert error is not None
    assert "the steps 'a', 'b' wait for each other's phases" in error
    assert "cycle of precedingPhases" in error
    assert live.world.paths() == ["workflow#launch/fine"]


async def test_macros_take_parameters_return_outputs_and_show_inner_variables() -> None:
    live = instance(MACRO)
    assert await live.launch() is None
    assert live.results == {"made": [3, 4, "leaf of 3"]}
    assert live.world.paths() == [
        "workflow#launch/build/one",
        "workflow#launch/build/deeper/only",
        "workflow#launch/use",
    ]
    assert live.world.effects[-1].parameters == {"made": [3, 4, "leaf of 3"], "inner": 3, "deep": "leaf of 3"}


async def test_a_step_named_like_a_path_into_a_macro_is_another_step() -> None:
    live = instance("""
        launch:
          steps:
            - a: {action: .macro}
            - a/b: {action: effect, precedingPhases: [a], parameters: {value: outer}, output: {x: value}}
          return: {x: {value: "{$.x}"}}
        .macro:
          steps:
            - b: {action: effect, parameters: {value: inner}}
    """)
    assert await live.launch() is None
    assert live.results == {"x": "outer"}
    assert len(set(live.world.paths())) == 2


async def test_a_workflow_that_calls_itself_ends_with_a_sentence() -> None:
    live = instance("""
        launch: {steps: [{go: {action: .again}}]}
        .again: {steps: [{more: {action: .again}}]}
    """)
    error = await live.launch()
    assert error is not None
    assert f"exceeds the limit of {limits.RUNTIME_NESTING} nested calls. Check whether it calls itself." in error


async def test_a_failing_each_names_its_expression_and_no_class_of_the_program() -> None:
    live = instance('launch: {steps: [{go: {action: pass, each: "{$= range(3) + 1 }"}}]}')
    error = await live.launch()
    assert error is not None
    assert "each failed: {$=" in error, error
    assert "ExpressionError" not in error


async def test_calls_that_double_at_each_level_end_with_a_sentence() -> None:
    live = instance("""
        launch: {steps: [{go: {action: .twice}}]}
        .twice:
          steps:
            - one: {action: .twice}
            - two: {action: .twice}
    """)
    error = await live.launch(steps=500)
    assert error is not None
    assert "the job has run 500 steps" in error


async def test_loops_in_loops_begin_no_more_items_than_a_job_has_steps() -> None:
    live = instance("""
        launch: {steps: [{outer: {action: .many, each: "{$= range(20) }", parallel: 20}}]}
        .many: {steps: [{inner: {action: .none, each: "{$= range(20) }", parallel: 20}}]}
        .none: {steps: []}
    """)
    error = await live.launch(steps=100)
    assert error is not None
    assert "the job has run 100 steps" in error
    others = 1 + 21  # the launch of the component, and the items of each loop as they were when it began
    assert len(live.disk.steps) <= 100 + others


VARIABLES = """
    application:
      interfaces:
        input: {size: "bind(w#input.size)"}
        act: {later: "bind(w#act.later)"}
        result: {seen: "bind(w#result.seen)", kept: "bind(w#result.kept)"}
      configuration: {input.size: from-configuration}
      components:
        w:
          type: workflow.Instance
          interfaces:
            input: {size: configuration(string)}
            act: {later: "receive-command(string arg => object seen)"}
            result: {seen: publish-signal(object), kept: publish-signal(string)}
          configuration:
            configuration.workflows:
              launch:
                parameters: [p: {default: from-parameter}, size: {default: from-parameter}]
                steps:
                  - s: {action: compute, parameters: {value: ["{$.p}", "{$.size}"]}, output: {seen: value}}
                return: {seen: {value: "{$.seen}"}, kept: {value: first}, hidden: {value: remembered}}
              later:
                parameters: [hidden: {default: from-parameter}, arg: {default: from-parameter}]
                steps:
                  - s:
                      action: compute
                      parameters: {value: ["{$.size}", "{$.hidden}", "{$.arg}", "{$.seen}"]}
                      output: {arg: value}
                return: {seen: {value: "{$.arg}"}}
"""


async def test_later_sources_of_variables_win() -> None:
    live = instance(VARIABLES)
    assert await live.launch() is None
    assert live.results["result.seen"] == ["from-parameter", "from-configuration"]
    assert await live.command("act.later", arg="from-argument") is None
    assert live.results["result.seen"] == [
        "from-configuration",  # configuration over parameter defaults
        "remembered",  # returned by an earlier workflow, over parameter defaults
        "from-argument",  # arguments over all of them
        ["from-parameter", "from-configuration"],
    ]


MADE_OF_ITSELF = """
    version: "1.1"
    launch:
      parameters: [url: {{default: /page}}, size: {{default: 1}}]
      steps: []
      return: {{size: {{value: "{{$.size}}"}}, {returned}}}
    again:
      steps: []
      return: {{seen: {{value: ["{{$.url}}", "{{$.size}}"]}}, {returned}}}
    destroy: {{steps: []}}
"""


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ('"http://web{$.url}"', "/page"),
        ('{link: "{$.url}"}', "/page"),
        ('["{$.url}"]', "/page"),
        ('"${url}!"', "/page"),
        ('"{$.url.path}"', "/page"),
        ('"{$.url}"', "/page"),
        ("another", "another"),
        ('"{$.size}"', 1),
    ],
)
async def test_a_returned_value_hides_a_pin_of_its_name_unless_it_is_made_out_of_it(value: str, url: object) -> None:
    live = instance(MADE_OF_ITSELF.format(returned=f"url: {{value: {value}}}"))
    assert await live.launch() is None
    first = live.components["workflow"]["variables"]["url"]
    assert await live.command("again") is None
    assert await live.command("again") is None
    assert live.components["workflow"]["variables"]["seen"] == [url, 1]
    assert live.components["workflow"]["variables"]["url"] == first


async def test_what_a_macro_makes_out_of_a_variable_says_nothing_about_returned_values() -> None:
    live = instance("""
        launch: {parameters: [url: {default: /page}], steps: [], return: {}}
        move: {steps: [], return: {url: {value: /moved}}}
        look:
          steps: [{call: {action: .full, output: {full: url}}}]
          return: {full: {value: "{$.full}"}}
        .full: {steps: [], return: {url: {value: "http://web{$.url}"}}}
    """)
    assert await live.launch() is None
    assert await live.command("move") is None
    assert await live.command("look") is None
    assert live.components["workflow"]["variables"]["full"] == "http://web/moved"


async def test_signals_that_are_not_returned_keep_their_value() -> None:
    live = instance(VARIABLES)
    await live.launch()
    await live.command("act.later", arg="x")
    assert live.results["result.kept"] == "first"


async def test_parallel_steps_that_set_one_variable_agree_whoever_is_faster() -> None:
    for quick, slow in (("a", "b"), ("b", "a")):
        live = instance(f"""
            launch:
              steps:
                - a: {{action: effect, parameters: {{value: a, seconds: {0.02 * (slow == "a")}}}, output: {{x: value}}}}
                - b: {{action: effect, parameters: {{value: b, seconds: {0.02 * (slow == "b")}}}, output: {{x: value}}}}
              return: {{x: {{value: "{{$.x}}"}}}}
        """)
        assert await live.launch() is None
        assert live.results == {"x": "b"}, f"{quick} was quick"


async def test_a_step_that_follows_another_overwrites_its_variable_wherever_it_stands() -> None:
    live = instance("""
        launch:
          steps:
            - second: {action: compute, precedingPhases: [first], parameters: {value: 2}, output: {x: value}}
            - first: {action: compute, parameters: {value: 1}, output: {x: value}}
          return: {x: {value: "{$.x}"}}
    """)
    assert await live.launch() is None
    assert live.results == {"x": 2}


async def test_a_return_value_that_cannot_be_made_fails_the_workflow_with_its_name() -> None:
    live = instance("""
        launch:
          steps:
            - two: {action: effect, parameters: {value: [1, 2]}, output: {two: value}}
            - one: {action: effect, parameters: {value: [1]}, output: {one: value}}
          return: {url: {value: "{$.two}{$.one}"}}
    """)
    error = await live.launch()
    assert error is not None
    assert "return value 'url'" in error
    assert "{$.two}" in error


async def test_a_return_value_that_is_nothing_is_null_with_a_warning() -> None:
    live = instance("""
        launch: {steps: [], return: {url: {value: "{$.host}"}}}
    """)
    assert await live.launch() is None
    assert live.results == {"url": None}
    assert any("Return value 'url'" in text for text in live.disk.texts("warning"))


async def run_destroy(live: Instance) -> str | None:
    assert await live.launch() is None
    return await live.destroy()


async def test_destroy_goes_backwards_and_over_failures() -> None:
    live = instance("""
        application:
          components:
            top:
              type: workflow.Instance
              required: [needs]
              interfaces: {needs: {x: consume-signal(int)}}
              configuration:
                configuration.workflows:
                  destroy: {steps: [{down: {action: effect, parameters: {fail: 1}}}]}
            bottom:
              type: workflow.Instance
              interfaces: {offers: {x: publish-signal(int)}}
              configuration:
                configuration.workflows:
                  launch: {steps: [], return: {x: {value: 1}}}
                  destroy: {steps: [{down: {action: effect, parameters: {fail: 1}}}]}
          bindings: [[top, bottom]]
    """)
    error = await run_destroy(live)
    assert live.world.paths() == ["top#destroy/down", "bottom#destroy/down"]
    assert error is not None
    assert indexed(error, "Component 'top'", "Component 'bottom'")


@pytest.mark.parametrize("workflow", ["", "destroy: {steps: []}"])
async def test_components_without_a_destroy_workflow_are_destroyed_too(workflow: str) -> None:
    assert await run_destroy(instance(f"launch: {{steps: []}}\n{workflow}")) is None


NOTHING = compile_template({})


def step(name: str, phase: str = "", preceding: tuple[str, ...] = ()) -> Step:
    return Step(name, "wait", phase or name, preceding, NOTHING, {}, None, None, 1)


def names(steps: list[Step]) -> set[str]:
    return {each.name for each in steps}


PHASES = st.sampled_from("pqr")


@st.composite
def workflow(draw: st.DrawFn) -> list[Step]:
    count = draw(st.integers(1, 7))
    return [
        step(f"s{n}", draw(PHASES), tuple(draw(st.lists(st.sampled_from(["p", "q", "r", "unknown"]), max_size=3))))
        for n in range(count)
    ]


def ready_steps(waiting: list[Step], running: list[Step]) -> list[Step]:
    phases = Phases([*waiting, *running])
    return [each for each in waiting if phases.is_ready(each)]


@given(workflow())
def test_the_end_of_a_step_names_all_that_it_makes_ready(steps: list[Step]) -> None:
    phases = Phases(steps)
    waiting = {each.name: each for each in steps}
    ready = {each.name: each for each in steps if phases.is_ready(each)}
    while ready:
        ended = waiting.pop(ready.pop(next(iter(ready))).name)
        found = {each.name: each for each in phases.end(ended) if each.name in waiting and phases.is_ready(each)}
        ready |= found
        expected = names(ready_steps(list(waiting.values()), []))
        assert set(ready) == expected


def test_long_chains_cost_the_same_for_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    is_ready = Phases.is_ready

    def counted(self: Phases, asked: Step) -> bool:
        nonlocal looks
        looks += 1
        return is_ready(self, asked)

    monkeypatch.setattr(Phases, "is_ready", counted)
    for count in (100, 1000):
        looks = 0
        chain = [step(f"s{n}", f"p{n}", (f"p{n - 1}",) if n else ()) for n in range(count)]
        assert len(rounds(chain)) == count
        assert looks <= 3 * count


def test_a_step_waits_for_every_unfinished_step_of_its_preceding_phases() -> None:
    a, b, c = step("a", "one"), step("b", "one"), step("c", preceding=("one",))
    assert names(ready_steps([a, b, c], [])) == {"a", "b"}
    assert names(ready_steps([c], [b])) == set()
    assert names(ready_steps([c], [])) == {"c"}


def test_a_phase_that_nobody_declares_counts_as_finished() -> None:
    assert names(ready_steps([step("a", preceding=("nowhere",))], [])) == {"a"}


def test_a_step_does_not_wait_for_itself_but_for_the_others_of_its_phase() -> None:
    alone = step("a", "one", ("one",))
    assert names(ready_steps([alone], [])) == {"a"}
    assert names(ready_steps([alone, step("b", "one")], [])) == {"b"}


@given(workflow(), st.data())
def test_readiness_knows_no_order(steps: list[Step], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(steps))
    assert names(ready_steps(steps, [])) == names(ready_steps(shuffled, []))


@given(workflow())
def test_rounds_put_every_step_after_what_it_waits_for(steps: list[Step]) -> None:
    found = rounds(steps)
    for each in steps:
        if each.name not in found:
            continue
        for other in steps:
            if other.name != each.name and other.phase in each.preceding_phases:
                assert found[other.name] < found[each.name]


@given(workflow())
def test_only_steps_in_a_circle_or_behind_one_never_get_a_round(steps: list[Step]) -> None:
    found = rounds(steps)
    stuck = [each for each in steps if each.name not in found]
    for each in stuck:
        assert any(other.name != each.name and other.phase in each.preceding_phases for other in stuck)


async def test_items_of_a_loop_keep_copies_of_the_variables_only_while_they_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, most = WeakSet[WorkflowScope](), 0
    within = WorkflowScope.within

    def counted(scope: WorkflowScope, variables: Mapping[str, Any]) -> WorkflowScope:
        nonlocal most
        kept.add(found := within(scope, variables))
        most = max(most, len(kept))
        return found

    monkeypatch.setattr(WorkflowScope, "within", counted)
    live = instance("""
        launch:
          steps:
            - many: {action: effect, each: "{$= range(50) }", parameters: {value: "{$.each.value}"}, output: {x: value}}
          return: {x: {value: "{$.x}"}}
    """)
    assert await live.launch() is None
    assert most < 10
