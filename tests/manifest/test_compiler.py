"""The whole way from bytes to a graph: nothing but findings comes of bad bytes, and soon."""

import json
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.errors import BadRequest, InvalidManifest
from launchbay.limits import MANIFEST_FINDINGS
from launchbay.manifest.compiler import check, compile_manifest
from launchbay.manifest.configuration import configure
from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain
from tests.support.manifests import ACTIONS, MANIFESTS, compiled, findings


def survives(data: bytes) -> None:
    """Check and compile must agree, and a manifest that compiles must be ready to be configured."""
    found = check(data, known_actions=ACTIONS)
    errors = [finding.to_document() for finding in found if finding.severity == "error"]
    assert all(finding.line >= 1 and finding.column >= 1 and finding.message and finding.code for finding in found)
    manifest = None
    refused: tuple[Mapping[str, Any], ...] = ()
    try:
        manifest = compile_manifest(data, known_actions=ACTIONS)
    except InvalidManifest as raised:
        refused = raised.findings
    assert list(refused) == errors
    if manifest is None:
        assert errors
        return
    assert list(manifest.warnings) == found
    assert sorted(manifest.order) == sorted(manifest.components)
    with suppress(BadRequest):
        configure(manifest, dict.fromkeys(manifest.required_parameters, "1"))


def test_compiling_raises_all_errors_and_no_warnings() -> None:
    text = b"application:\n  bindings: [[a, b]]\n  extra: 1\n  components: {a: {type: x}}\n"
    with pytest.raises(InvalidManifest) as caught:
        compile_manifest(text, known_actions=ACTIONS)
    assert [finding["code"] for finding in caught.value.findings] == ["UnknownComponent", "UnknownComponentType"]
    assert caught.value.messages[0].startswith("Line 2, column 18: ")


def test_warnings_stay_with_the_compiled_manifest() -> None:
    assert [finding.code for finding in compiled("application: {extra: 1}").warnings] == ["UnknownKey"]


WEB = "{type: workflow.Instance, configuration: {configuration.workflows: {launch: {steps: []}}}%s}"


@pytest.mark.parametrize(
    ("text", "replans"),
    [
        (f"application: {{components: {{web: {WEB % ''}}}}}", False),
        (f"application: {{onDifference: replan, components: {{web: {WEB % ''}}}}}", True),
        (f"application: {{onDifference: replan, components: {{web: {WEB % ', onDifference: stop'}}}}}", False),
        (f"application: {{components: {{web: {WEB % ', onDifference: replan'}}}}}", True),
        (f"application: {{components: {{a: {{onDifference: replan, components: {{web: {WEB % ''}}}}}}}}}", True),
        ("header: {onDifference: replan}\nlaunch: {steps: []}", True),
        ("header: {onDifference: stop}\nlaunch: {steps: []}", False),
    ],
)
def test_a_component_is_planned_again_if_it_or_what_is_around_it_says_so(text: str, *, replans: bool) -> None:
    manifest = compiled(text)
    assert [each.replans for each in manifest.components.values()] == [replans]
    assert manifest.warnings == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("launch: {onDifference: replan, steps: []}", "Write it at a component or the application"),
        ("launch: {steps: {a: {action: nothing, onDifference: replan}}}", "Write it at a component or the application"),
        ("application: {onDifference: replans}", "Write stop or replan."),
        ("application: {onDifference: [stop]}", "Write stop or replan."),
        ("application: {components: {a: {type: reference.Submodule, onDifference: replan}}}", "has no effect on a"),
    ],
)
def test_who_writes_on_difference_where_it_says_nothing_is_warned(text: str, told: str) -> None:
    found = [finding for finding in findings(text) if "onDifference" in finding.message]
    assert [told in each.message for each in found] == [True]


def test_findings_beyond_the_bound_are_counted() -> None:
    steps = ", ".join(f"s{number}: {{action: nothing}}" for number in range(MANIFEST_FINDINGS + 50))
    found = findings(f"launch: {{steps: {{{steps}}}}}")
    assert len(found) == MANIFEST_FINDINGS + 1
    assert "50 more errors" in found[-1].message


def test_two_compilations_of_one_text_are_equal_but_share_nothing_that_can_change() -> None:
    text = "application: {components: {a: {type: reference.Submodule, configuration: {__locator.application-id: [x]}}}}"
    first, second = compiled(text), compiled(text)
    assert first == second
    first.components["a"].configuration["__locator.application-id"].append("y")
    assert second.components["a"].configuration["__locator.application-id"] == ["x"]


@given(st.binary(max_size=300))
def test_any_bytes_are_answered_with_findings(data: bytes) -> None:
    survives(data)


WORDS = [
    "application", "root", "launch", "components", "type", "workflow.Instance", "interfaces", "bindings",
    "bind(a#i.p)", "configuration(int)", "consume-signal(int)", "configuration.workflows", "steps", "action", "wait",
    "return", "a", "parameters", "precedingPhases", "i.p", "*", "{$.x}", "${", "configuration.triggers",
    "composite.Scaler", "header", "services", "required", "executor", "__locator.application-id", "value",
    "reference.Submodule", "publish-signal(int)", "receive-command()", "send-command(int x)", "output", "retryCount",
    "phase",
]  # fmt: skip
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(WORDS), TREES, max_size=4))
def test_any_tree_of_the_languages_words_is_answered_with_findings(tree: dict[str, Any]) -> None:
    survives(json.dumps(tree).encode())


@given(TREES)
def test_any_component_is_answered_with_findings(tree: Any) -> None:
    survives(json.dumps({"application": {"components": {"a": tree, "b": {"type": "workflow.Instance"}}}}).encode())


def _mutated_text(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(lines))
        kind = dice.randrange(6)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, dice.choice(lines))
        elif kind == 2:
            lines[at] = dice.choice(["  ", " ", ""]) + lines[at].removeprefix("  ")
        elif kind == 3:
            lines[at] = lines[at][: dice.randint(0, len(lines[at]))]
        elif kind == 4:
            mark, other_mark = dice.choice(":#.{}[]()\"'$-&*"), dice.choice(["", ":", "#", "{", "&x ", "*x"])
            lines[at] = lines[at].replace(mark, other_mark, 1)
        else:
            other = dice.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        lines = lines or [""]
    return "\n".join(lines)


def _mutated_tree(tree: Any, dice: random.Random) -> Any:
    """Return the tree with about one part in sixty removed, renamed or replaced by another kind of thing."""
    fate = dice.random()
    if fate < 0.012:
        return dice.choice([None, [], {}, "", "x", 5, True, ["x"], {"x": None}, "bind(x#y.z)", "configuration(int)"])
    if isinstance(tree, dict):
        mutated = {}
        for key, child in tree.items():
            if dice.random() < 0.008:
                continue
            new_key = dice.choice([key[1:], f"{key}x", "*"]) if dice.random() < 0.008 else key
            mutated[new_key] = _mutated_tree(child, dice)
        return mutated
    if isinstance(tree, list):
        items = [_mutated_tree(item, dice) for item in tree]
        return items + items[:1] if dice.random() < 0.01 else items
    return tree


@pytest.mark.slow
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_with_mistakes_is_answered_with_findings(path: Any) -> None:
    text = path.read_text()
    tree = plain(read(text.encode()))
    rounds = max(20, 6_000 // (len(text) // 100 + 20))  # small ones can be tried more often
    for seed in range(rounds):
        dice = random.Random(f"{path.name} {seed}")
        survives(_mutated_text(text, dice).encode())
        survives(json.dumps(_mutated_tree(tree, dice)).encode())


# Hostile texts


def _seconds(data: bytes) -> float:
    start = time.process_time()
    check(data, known_actions=ACTIONS)
    return time.process_time() - start


ALIASES = "".join(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12))
BOMBS = {
    "brackets": "[" * 60_000,
    "braces": "{a: " * 15_000,
    "a million bytes": "a: " + "x" * 1_000_000,
    "a million brackets": "[" * 1_000_000,
    "aliases": "a0: &a0 [x, x]\n" + ALIASES,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_within_a_tenth_of_a_second(name: str) -> None:
    data = BOMBS[name].encode()
    assert min(_seconds(data) for _ in range(3)) < 0.1
    with pytest.raises(InvalidManifest):
        compile_manifest(data, known_actions=ACTIONS)


def _workflow(interfaces: dict[str, Any]) -> dict[str, Any]:
    return {"type": "workflow.Instance", "interfaces": interfaces}


def _application(**parts: Any) -> str:
    return json.dumps({"application": parts})


def _steps(**parameters: str) -> str:
    return json.dumps(
        {"launch": {"steps": {f"s{n}": {"action": "wait", "parameters": parameters} for n in range(1200)}}}
    )


def _bound_to(targets: list[str]) -> dict[str, Any]:
    return {"i": {f"p{number}": f"bind({target})" for number, target in enumerate(targets)}}


CONSUME, PUBLISH = "consume-signal(int)", "publish-signal(int)"
NEEDING = _workflow({f"a{n}": {"p": CONSUME, f"q{n % 7}": CONSUME} for n in range(1300)})
OFFERING = _workflow({f"b{n}": {"p" if n % 2 else "q0": PUBLISH} for n in range(1700)})
HEAVY = {
    "needs that nothing fits": _application(bindings=[["a", "b"]], components={"a": NEEDING, "b": OFFERING}),
    "unknown pins": _application(interfaces=_bound_to([f"b#i.x{n}" for n in range(3000)]), components={"b": OFFERING}),
    "a bind full of spaces": _application(interfaces=_bound_to([f"a{' ' * 200_000}b#i.p"])),
    "a binding full of spaces": _application(bindings=[[f"a{' ' * 200_000}b", "c"]]),
    "pins full of dots": _application(
        interfaces={"i": {f"p{n}": "B" for n in range(20)}}, components={"b": {"type": "workflow.Instance"}}
    )
    .replace('"B"', f"&b 'bind(b#{'x.' * 60_000}x)'", 1)
    .replace('"B"', "*b"),
    "missing variables": _steps(x="{$.x}").replace("$.x}", "$.a.b}", 600).replace("$.x}", "$.x0}", 300),
    "expressions by alias": _steps(x="T").replace('"T"', f'&t "{"{$.a}" * 300}"', 1).replace('"T"', "*t"),
    "unknown actions": _steps(x="y").replace("wait", "wiat"),
    "long names": _application(components={"n" * 200_000: {"components": {"a": {"type": "x"}}}}),
}


@pytest.mark.parametrize("name", HEAVY)
def test_a_manifest_within_all_bounds_that_is_made_to_be_slow_takes_no_more_than_its_size_deserves(name: str) -> None:
    # Measured: at most 0.05 s. Anything quadratic in such a text took minutes.
    assert min(_seconds(HEAVY[name].encode()) for _ in range(2)) < 2.0


def test_findings_do_not_grow_with_the_texts_that_they_quote() -> None:
    text = json.dumps({"launch": {"steps": {"s": {"action": "x" * 200_000}}}})
    assert all(len(finding.message) < 3_000 for finding in findings(text))


def test_names_have_a_bound() -> None:
    name = "n" * 256
    text = f"""\
        application:
          components:
            {name}: {{type: workflow.Instance}}
            a:
              type: workflow.Instance
              interfaces: {{{name}: {{}}, i: {{{name}: configuration(int)}}}}
              configuration:
                configuration.workflows:
                  {name}: {{}}
                  launch: {{steps: [{{{name}: {{action: wait}}}}]}}
        """
    found = [(finding.code, finding.line) for finding in findings(text)]
    assert sorted(found) == [("BadName", line) for line in (3, 6, 6, 9, 10)]


def test_expressions_have_a_bound() -> None:
    parameters = {"x": "{$.a}" * 50_001}
    text = json.dumps({"launch": {"parameters": ["a"], "steps": {"s": {"action": "wait", "parameters": parameters}}}})
    assert [finding.code for finding in findings(text)] == ["TooManyExpressions"]
