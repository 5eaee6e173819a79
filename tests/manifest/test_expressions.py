import contextlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.errors import ExpressionError
from launchbay.manifest.expressions import compile_template
from launchbay.manifest.paths import MalformedExpression, Scope
from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain
from tests.support.manifests import MANIFESTS

SCOPE: dict[str, Any] = {
    "text": "hello",
    "port": 3306,
    "ratio": 0.5,
    "yes": True,
    "null": None,
    "empty": [],
    "app-fork": "qubell",
    "under_score": "u",
    "ips": ["10.0.0.1", "10.0.0.2"],
    "privateips": ["192.168.0.1", "192.168.0.2"],
    "three": [1, 2, 3],
    "map": {"key": "value", "odd key": 1, "a.b": 2, "}": 3, "'": 4, "*": 5, "0": 6, "list": [{"n": 1}, {"n": 2}]},
    "dotted.name": "exact",
    "dotted": {"name": "by path", "other": "other"},
    "expression": "{$.port} ${text} $$ {{",
    "stdout": {"host-b": "first\n", "host-a": "second\n"},
    "progress_raw": {"10.0.0.1": "42 %"},
    "chefAttrs": {
        "10.0.0.1": {"haproxy": {"entry_urls": ["http://a", "http://b"]}, "zookeeper": {"connect_uri": "zk://1"}},
        "10.0.0.2": {"haproxy": {"entry_urls": ["http://c"]}, "zookeeper": {"connect_uri": "zk://2"}},
    },
    "single": {"compute": {"networks": {"public": {"ip": "1.1.1.1"}}}},
    "signals": {
        "compute": {
            "peer1": {"networks": {"public": {"ip": "1.1.1.1"}, "eth0": {"ip": "10.1"}}},
            "peer2": {"networks": {"public": {"ip": "2.2.2.2"}, "eth0": {"ip": "10.2"}}},
        },
        "source": {
            "peer1": {
                "path": ["/"],
                "context-attrs": {"docBase": "x"},
                "context-nodes": [{"Resource": 1}, {"Resource": 2}],
            },
            "peer2": {"path": ["/b", "/c"]},
        },
        "servers": {},
    },
}
INNER: dict[str, dict[str, Any]] = {"lb-tier": {"hosts": ["3.3.3.3", "4.4.4.4"], "my": {"x": 1}}}


def evaluate(template: Any, **variables: Any) -> Any:
    """Evaluate a template, expecting no warning."""
    value, warnings = compile_template(template).evaluate(Scope(variables or SCOPE, INNER))
    assert warnings == ()
    return value


# Whole scalars


@pytest.mark.parametrize("name", ["text", "port", "ratio", "yes", "null", "empty", "ips", "map", "app-fork", "signals"])
def test_a_whole_scalar_is_the_typed_value(name: str) -> None:
    for form in (f"{{$.{name}}}", f"${{{name}}}", f"{{$.['{name}']}}"):
        value = evaluate(form)
        assert value == SCOPE[name]
        assert type(value) is type(SCOPE[name])


def test_templates_are_whole_trees_and_keys_are_left_alone() -> None:
    tree = {"a": ["{$.port}", 1, None, {"{$.port}": "${text}!"}], "$$": "$$", "b": True}
    assert evaluate(tree) == {"a": [3306, 1, None, {"{$.port}": "hello!"}], "$$": "$", "b": True}


def test_an_expression_with_white_space_around_it_is_text() -> None:
    assert evaluate(" {$.port}") == " 3306"
    assert evaluate("{$.port}\n") == "3306\n"


def test_two_expressions_side_by_side_are_text() -> None:
    assert evaluate("{$.port}{$.port}") == "33063306"


# Embedded expressions


def test_embedded_values_become_text() -> None:
    assert evaluate("<{$.text}|{$.port}|{$.yes}|${ratio}>") == "<hello|3306|true|0.5>"


def test_embedded_maps_become_json() -> None:
    assert json.loads(evaluate("x {$.map}")[2:]) == SCOPE["map"]


def test_inserted_text_is_not_looked_at_again() -> None:
    assert evaluate("{$.expression}") == SCOPE["expression"]
    assert evaluate("-{$.expression}") == "-" + SCOPE["expression"]


@pytest.mark.parametrize(
    "text", ["x{$.null}", "x${null}", "x{$.absent}", "x${absent}", "{$.port}{$.port.x}", "x{$.three[9]}"]
)
def test_null_and_nothing_within_a_text_are_empty_with_a_warning_that_names_the_expression(text: str) -> None:
    value, [warning] = compile_template(text).evaluate(Scope(SCOPE, INNER))
    assert value == ("3306" if "port" in text else "x")
    assert "has no value, so the string is empty at its place" in warning
    assert warning.partition(" ")[0] in text


def test_a_root_that_is_written_twice_is_read_as_one() -> None:
    assert evaluate("{$.$.port}") == 3306
    assert evaluate("<{$.$.map.key}{$.$['text']}>") == "<valuehello>"


# Escapes and lone braces


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$$", "$"),
        ("{{", "{"),
        ("}}", "}"),
        ("echo $$TEST; X=$${{X}}__$$(date)", "echo $TEST; X=${X}__$(date)"),
        ("map {{|x| i['string']+x}})", "map {|x| i['string']+x})"),
        ("{{$.port}}", "{$.port}"),
        ("{{{$.port}}}", "{3306}"),
        ("$${text}", "${text}"),
        ("$$${text}", "$hello"),
        ("$$$$", "$$"),
        ("{$.port}}", "3306}"),
    ],
)
def test_doubled_characters_are_literal(text: str, result: str) -> None:
    assert evaluate(text) == result


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "}",
        "$",
        "{}",
        "{ $.a }",
        "{$}",
        "{$a}",
        "{$['text']}",
        "{$0}",
        "a{b}c",
        "$x",
        "$(x)",
        "${",
        "${}",
        "${ text }",
        "${X:-1}",
        "${#x}",
        "${x[0]}",
        "${x%.*}",
        "$ {text}",
        "awk '{print $1}'",
        "${a..b}",
        "${.a}",
        '{"a": {"b": 1} }',
    ],
)
def test_what_starts_neither_form_is_left_alone(text: str) -> None:
    assert evaluate(text) == text
    assert compile_template(text).variables == frozenset()


@given(st.text(alphabet="ab $.{}[]'*~-\\\n", max_size=40))
def test_any_text_can_be_written_with_escapes(text: str) -> None:
    escaped = text.replace("$", "$$").replace("{", "{{").replace("}", "}}")
    assert evaluate(escaped) == text


# Paths


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".map.key", "value"),
        (".map['odd key']", 1),
        ('.map["odd key"]', 1),
        (".map[ 'a.b' ]", 2),
        (".map['}']", 3),
        (r".map['\'']", 4),
        ('.map["\'"]', 4),
        (r".map['\*']", 5),
        (".map.0", 6),
        (".map.list[0].n", 1),
        (".map.list[-1].n", 2),
        (".map.list[*].n", [1, 2]),
        (".map.list.*.n", [1, 2]),
        (".map['list']['*']['n'][1]", 2),
        (".under_score", "u"),
        (".dotted.name", "by path"),
        (".['dotted.name']", "exact"),
        (".three[*]", [1, 2, 3]),
        (".three[ 2 ]", 3),
        (".empty[*]", []),
        (".signals.servers.*.app-uri", []),
        (".stdout[*]", ["first\n", "second\n"]),
        (".stdout['*'][0]", "first\n"),
        ("..connect_uri", ["zk://1", "zk://2"]),
        ("..connect_uri[1]", "zk://2"),
        (".signals..ip", ["1.1.1.1", "10.1", "2.2.2.2", "10.2"]),
        (".signals.*.*.networks.public.ip", ["1.1.1.1", "2.2.2.2"]),
        (".signals.compute.*..ip[3]", "10.2"),
        (".chefAttrs..entry_urls", ["http://a", "http://b", "http://c"]),
        ("..nowhere", []),
        (".lb-tier~hosts", ["3.3.3.3", "4.4.4.4"]),
        (".lb-tier~my.x", 1),
    ],
)
def test_paths_lead_to_values(path: str, value: object) -> None:
    assert evaluate(f"{{${path}}}") == value


@pytest.mark.parametrize(
    "path",
    [
        ".absent",
        ".text.x",
        ".port[0]",
        ".text[0]",
        ".ips.x",
        ".three[3]",
        ".three[-4]",
        ".map[0]",
        ".null.x",
        ".text.*",
        ".port.*.x",
        ".empty[*][0]",
        ".lb-tier~absent",
        ".absent~hosts",
        ".hosts",
        ".map.keys",
        ".map.__class__",
        ".text.upper",
    ],
)
def test_a_whole_path_to_nothing_is_null_with_a_warning(path: str) -> None:
    value, warnings = compile_template({"a": f"{{${path}}}", "b": f"{{${path}}}"}).evaluate(Scope(SCOPE, INNER))
    assert value == {"a": None, "b": None}
    assert warnings == (f"{{${path}}} has no value, so null is used.",)


def test_warnings_are_bounded() -> None:
    _, warnings = compile_template([f"{{$.x{n}}}" for n in range(1000)]).evaluate(Scope({}))
    assert len(warnings) == 101
    assert warnings[-1] == "900 more expressions have no value."


def test_a_named_variable_is_exact_first_and_a_path_otherwise() -> None:
    assert evaluate("${dotted.name}") == "exact"
    assert evaluate("${dotted.other}") == "other"
    assert evaluate("https://github.com/${app-fork}/x.git") == "https://github.com/qubell/x.git"


# What public manifests need


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{$.progress_raw[*][0]}", "42 %"),
        ("{$.chefAttrs['*'][0]['haproxy']['entry_urls']}", ["http://a", "http://b"]),
        ("{$.chefAttrs.*.zookeeper.connect_uri[0]}", "zk://1"),
        ("{$.single.compute.networks.public.ip}", "1.1.1.1"),
        ("{$.signals.compute.*.networks.public.ip}", ["1.1.1.1", "2.2.2.2"]),
        ("http://{$.signals.compute.*.networks.public.ip[0]}:{$.port}/cluster", "http://1.1.1.1:3306/cluster"),
        (
            "http://{$.signals.compute.*.networks.public.ip}:{$.port}/ui",
            ["http://1.1.1.1:3306/ui", "http://2.2.2.2:3306/ui"],
        ),
        ("{$.signals.source.*.path}", ["/", "/b", "/c"]),
        ("{$.signals.source.*.context-nodes}", [{"Resource": 1}, {"Resource": 2}]),
        ("{$.signals.source.*.context-attrs[0]}", {"docBase": "x"}),
        ("http://{$.lb-tier~hosts[0]}:22002/", "http://3.3.3.3:22002/"),
    ],
)
def test_expressions_of_public_manifests_mean_what_they_need(text: str, value: object) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_expressions_of_manifests_compile_and_survive_an_empty_scope(path: Path) -> None:
    tree = plain(read(path.read_bytes()))
    template = compile_template(tree)
    assert all(name.replace("-", "").replace("_", "").replace("~", "").isalnum() for name in template.variables)
    try:
        template.evaluate(Scope({}))
    except ExpressionError as error:
        assert not isinstance(error, MalformedExpression)  # noqa: PT017  # both outcomes are right


# Broadcasts


def test_an_embedded_list_broadcasts() -> None:
    assert evaluate({"x": "http://{$.ips}:{$.port}"}) == {"x": ["http://10.0.0.1:3306", "http://10.0.0.2:3306"]}
    assert evaluate("x{$.empty}") == []


def test_several_lists_go_by_position() -> None:
    assert evaluate("{$.ips}={$.privateips}/{$.ips}") == [
        "10.0.0.1=192.168.0.1/10.0.0.1",
        "10.0.0.2=192.168.0.2/10.0.0.2",
    ]


@pytest.mark.parametrize("text", ["{$.ips}-{$.three}", "{$.three} {$.empty}"])
def test_lists_of_different_lengths_do_not_go_together(text: str) -> None:
    with pytest.raises(ExpressionError, match="different lengths"):
        evaluate(text)


def test_lists_in_lists_give_lists_of_lists() -> None:
    assert evaluate("{$.x}:{$.y}", x=[["a", "b"], ["c"]], y=[1, [2]]) == [["a:1", "b:1"], ["c:2"]]
    assert evaluate("{$.x}!", x=[{"a": 1}, True]) == ['{"a": 1}!', "true!"]
    value, [warning] = compile_template("{$.x}{$.y}").evaluate(Scope({"x": [1, 2], "y": [1, None]}, INNER))
    assert value == ["11", "2"]
    assert "{$.y} has no value" in warning


def test_a_broadcasting_element_of_a_list_is_spliced_and_a_whole_expression_stays_one_element() -> None:
    assert evaluate(["{$.privateips}=http://{$.privateips}:1", "z"]) == [
        "192.168.0.1=http://192.168.0.1:1",
        "192.168.0.2=http://192.168.0.2:1",
        "z",
    ]
    assert evaluate(["{$.ips}"]) == [["10.0.0.1", "10.0.0.2"]]
    assert evaluate(["{$.ips[0]}"]) == ["10.0.0.1"]


# Syntax


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("{$.", 3),
        ("{$.}", 3),
        ("ab {$.a", 7),
        ("{$.a b}", 5),
        ("{$.a.}", 5),
        ("{$.a[}", 5),
        ("{$.a[]}", 5),
        ("{$.a[x]}", 5),
        ("{$.a['x}", 4),
        ("{$.a['x'}", 4),
        ("{$.a[1", 6),
        ("{$.a[1:2]}", 6),
        ("{$.a[?(@.b)]}", 5),
        ("{$..}", 4),
        ("{$...a}", 4),
        ("{$..*}", 4),
        ("{$.a~}", 5),
        ("{$.a~b~c}", 6),
        ("{$.a.b~c}", 6),
        ("{$.a()}", 4),
        ("{$.a+}", 5),
        ("{$.ok} ${ok} {$.a|b}", 17),
    ],
)
def test_malformed_expressions_are_refused_with_the_offset(text: str, offset: int) -> None:
    with pytest.raises(MalformedExpression) as caught:
        compile_template({"a": [text]})
    assert caught.value.offset == offset


def test_the_variables_of_a_template_are_those_where_paths_start() -> None:
    tree = {"a": "{$.x.y} ${z} ${d.e}", "b": ["{$.['odd key'][0]}", "{$.step~v.w}", "{$..deep}", "{$.*}", "{{$.no}}"]}
    assert compile_template(tree).variables == {"x", "z", "d", "odd key", "step~v"}


def test_templates_deeper_than_a_manifest_are_refused() -> None:
    value: Any = "{$.x}"
    for _ in range(5000):
        value = [value]
    with pytest.raises(ExpressionError, match=r"more than \d+ levels"):
        compile_template(value)


# Nothing shared


def mutate(value: Any) -> None:
    if isinstance(value, dict):
        for child in value.values():
            mutate(child)
        value["mutated"] = True
    elif isinstance(value, list):
        for child in value:
            mutate(child)
        value.append("mutated")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.sampled_from(["", "a", "b c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
EXPRESSIONS = st.sampled_from(
    [
        "{$.a}",
        "{$.b}",
        "${a}",
        "{$.*}",
        "{$..b}",
        "{$.a.*}",
        "{$.a.b[0]}",
        "{$.s~a}",
        "x{$.a}",
        "{$.a}{$.b}",
        "x{$.a.*}",
        "$$",
    ]
)
TEMPLATES = st.recursive(
    EXPRESSIONS | JSON_VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)
VARIABLES = st.dictionaries(st.sampled_from("abc"), JSON_VALUES, max_size=3)


@given(TEMPLATES, VARIABLES, VARIABLES)
def test_results_share_nothing_with_scope_template_or_other_results(
    tree: Any, variables: dict[str, Any], inner: dict[str, Any]
) -> None:
    before = json.dumps([tree, variables, inner])
    template = compile_template(tree)
    scope = Scope(variables, {"s": inner})
    try:
        first, _ = template.evaluate(scope)
    except ExpressionError:
        return
    shown = json.dumps(first)
    mutate(first)
    assert json.dumps([tree, variables, inner]) == before
    second, _ = template.evaluate(scope)
    assert json.dumps(second) == shown
    mutate(tree)
    assert json.dumps(template.evaluate(scope)[0]) == shown


@given(st.text(alphabet="ab{}$.[]'\"*~0-\\ \n", max_size=40), VARIABLES)
def test_any_text_is_evaluated_or_refused_as_declared(text: str, variables: dict[str, Any]) -> None:
    try:
        compile_template(text).evaluate(Scope(variables))
    except ExpressionError as error:
        refused = str(error)
    else:
        refused = "."
    assert refused.endswith(".")


@given(JSON_VALUES)
def test_a_whole_expression_gives_back_any_value(value: Any) -> None:
    assert json.dumps(evaluate("{$.v}", v=value)) == json.dumps(value)


FOR_EVER_S = 10  # what is measured here takes a hundredth, and hours where it grows with the square


def refused_in_time(template: Any, **variables: Any) -> str:
    """Return how an evaluation is refused, having taken no more than its size deserves."""
    start = time.process_time()
    with pytest.raises(ExpressionError) as caught:
        compile_template(template).evaluate(Scope(variables))
    assert time.process_time() - start < FOR_EVER_S
    return str(caught.value)


@pytest.mark.slow
def test_evaluations_that_would_blow_up_are_refused_in_time() -> None:
    nested: Any = {"a": 1}
    for _ in range(60):
        nested = {"a": nested, "b": 1}
    many = [{"x": list(range(1000))} for _ in range(1000)]
    huge = {"l": list(range(50_000))}
    assert "more than" in refused_in_time("{$..a..a..a..a..a..a}", v=nested)
    assert "more than" in refused_in_time("{$.v.*.x}", v=many)
    assert "values" in refused_in_time(["{$.v}"] * 10_000, v=huge)
    assert "values" in refused_in_time(["{$..zzz}"] * 10_000, v=huge)
    assert "strings" in refused_in_time("x{$.v}", v=[1] * (limits.EXPRESSION_RESULT_ITEMS + 1))
    assert "characters" in refused_in_time("{$.v}{$.l}", v="x" * 100_000, l=[1] * 50_000)
    assert "characters" in refused_in_time(["{$.v}"] * 20_000, v="x" * limits.MIB)
    assert "characters" in refused_in_time(["x{$.v}"] * 20_000, v={"x" * limits.MIB: 1})
    assert "characters" in refused_in_time("{$.v}" * 5, v="x" * limits.MIB)


def test_results_deeper_than_json_may_be_are_refused() -> None:
    deep: Any = []
    for _ in range(limits.JSON_DEPTH - 1):
        deep = [deep]
    assert compile_template("{$.v}").evaluate(Scope({"v": deep})) == (deep, ())
    assert "more than 64 levels" in refused_in_time(["{$.v}"], v=deep)
    assert "more than 64 levels" in refused_in_time("x{$.v}", v=[deep])
    for _ in range(5000):
        deep = [deep]
    for text in ("{$.v}", "x{$.v}", "{$..a}x{$.v}", "x{$.m}"):
        assert refused_in_time(text, v=deep, m={"a": deep})


def test_what_is_no_json_value_is_refused() -> None:
    for text in ("{$.v}", "x{$.v}"):
        with pytest.raises(ExpressionError, match="isn't a JSON value"):
            compile_template(text).evaluate(Scope({"v": object()}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["{$.v}", "$$", "{{", "}}", "${v}", "${v.v.v", "${", "{", "{$", "$", "x", "{$.v.v['v'][0].*}"]
)
def test_time_grows_with_the_text_and_no_faster(unit: str) -> None:
    start = time.process_time()
    template = compile_template(unit * (limits.MANIFEST_BYTES // len(unit)))
    with contextlib.suppress(ExpressionError):
        template.evaluate(Scope({"v": "w"}))
    assert time.process_time() - start < FOR_EVER_S


@pytest.mark.slow
def test_long_paths_take_linear_time() -> None:
    start = time.process_time()
    for unit in (".v", "..v", "[0]", "['v']", ".*", "['", "['\\"):
        try:
            compile_template("{$.v" + unit * 50_000 + "}").evaluate(Scope({"v": ["w"]}))
        except ExpressionError:
            continue
    assert time.process_time() - start < FOR_EVER_S
