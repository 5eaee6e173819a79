from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.manifest.bindings import launch_order
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.types import parse_pin_type
from tests.support.manifests import compiled, errors, findings, message, warnings

NEEDS = "{type: workflow.Instance, interfaces: {db: {host: consume-signal(string), run: send-command(int x => int y)}}}"


def offering(**interfaces: str) -> str:
    body = ", ".join(f"{name}: {{{pins}}}" for name, pins in interfaces.items())
    return f"{{type: reference.Submodule, configuration: {{__locator.application-id: x}}, interfaces: {{{body}}}}}"


HOST = "host: publish-signal(string)"
RUN = "run: receive-command(int x => int y)"
BOTH = f"{HOST}, {RUN}"


def manifest(bindings: str, **components: str) -> str:
    inner = "\n".join(f"    {name}: {body}" for name, body in components.items())
    return f"application:\n  bindings: {bindings}\n  components:\n{inner}\n"


def peers(manifest: CompiledManifest, component: str, interface: str) -> list[tuple[str, str]]:
    return [(peer.component, peer.interface) for peer in manifest.components[component].peers.get(interface, ())]


@pytest.mark.parametrize("pair", ["[[a, b]]", "[[b, a]]"])
def test_a_pair_is_unordered_and_interface_names_need_not_match(pair: str) -> None:
    assert peers(compiled(manifest(pair, a=NEEDS, b=offering(mysql=BOTH))), "a", "db") == [("b", "mysql")]


def test_an_interface_that_lacks_a_needed_pin_does_not_fit() -> None:
    text = manifest("[[a, b]]", a=NEEDS, b=offering(mysql=HOST, other=RUN))
    assert warnings(text) == [("UselessBinding", 2)]
    assert peers(compiled(text), "a", "db") == []


def test_a_pin_of_the_right_name_and_the_wrong_kind_does_not_fit() -> None:
    text = manifest("[[a, b]]", a=NEEDS, b=offering(mysql="host: consume-signal(string), " + RUN))
    assert warnings(text) == [("UselessBinding", 2)]
    assert "'a#db' needs 'host', which 'b' doesn't offer." in message(text)


def test_the_interface_of_the_same_name_is_preferred() -> None:
    text = manifest("[[a, b]]", a=NEEDS, b=offering(mysql=BOTH, db=BOTH))
    assert peers(compiled(text), "a", "db") == [("b", "db")]


def test_several_interfaces_of_other_names_are_ambiguous() -> None:
    text = manifest("[[a, b]]", a=NEEDS, b=offering(mysql=BOTH, oracle=BOTH))
    assert errors(text) == [("AmbiguousBinding", 2)]
    assert "ambiguous" in message(text)
    assert "b#mysql, b#oracle" in message(text)


def test_an_ambiguous_binding_is_settled_by_naming_an_interface() -> None:
    text = manifest("[[a, 'b#oracle']]", a=NEEDS, b=offering(mysql=BOTH, oracle=BOTH))
    assert peers(compiled(text), "a", "db") == [("b", "oracle")]
    named = manifest("[['a # db', b]]", a=NEEDS, b=offering(mysql=BOTH))
    assert peers(compiled(named), "a", "db") == [("b", "mysql")]


def test_one_need_has_a_peer_for_each_binding() -> None:
    text = manifest("[[a, b], [a, c], [b, a], [a, b]]", a=NEEDS, b=offering(x=BOTH), c=offering(x=BOTH))
    assert peers(compiled(text), "a", "db") == [("b", "x"), ("c", "x")]


def test_both_sides_may_need_something_of_the_other() -> None:
    left = "{type: workflow.Instance, interfaces: {in: {x: consume-signal(int)}, out: {y: publish-signal(int)}}}"
    right = "{type: workflow.Instance, interfaces: {in: {y: consume-signal(int)}, out: {x: publish-signal(int)}}}"
    found = compiled(manifest("[[a, b]]", a=left, b=right))
    assert peers(found, "a", "in") == [("b", "out")]
    assert peers(found, "b", "in") == [("a", "out")]


def test_a_binding_may_reach_inside_and_name_a_composite() -> None:
    face = "{h: bind(in#x.host), run: bind(in#x.run)}"
    composite = f"{{interfaces: {{face: {face}}}, components: {{in: {offering(x=BOTH)}}}}}"
    renamed = NEEDS.replace("host:", "h:")
    found = compiled(manifest("[[a, box], [b, box.in]]", a=renamed, b=NEEDS, box=composite))
    [through] = found.components["a"].peers["db"]
    assert (through.component, through.interface) == ("box", "face")
    assert {pin: (target.component, target.pin) for pin, target in through.pins.items()} == {
        "h": ("box.in", "x.host"),
        "run": ("box.in", "x.run"),
    }
    assert peers(found, "b", "db") == [("box.in", "x")]


def test_a_need_that_a_composite_binds_is_filled_from_outside() -> None:
    composite = f"{{interfaces: {{face: {{'*': bind(in#db.*)}}}}, components: {{in: {NEEDS}}}}}"
    found = compiled(manifest("[[box, b]]", box=composite, b=offering(x=BOTH)))
    assert peers(found, "box.in", "db") == [("b", "x")]


def test_a_need_that_a_composite_offers_in_parts_has_one_peer() -> None:
    faces = "{f: {host: bind(in#db.host)}, g: {run: bind(in#db.run)}}"
    composite = f"{{interfaces: {faces}, components: {{in: {NEEDS}}}}}"
    [peer] = compiled(manifest("[[box, b]]", box=composite, b=offering(x=BOTH))).components["box.in"].peers["db"]
    assert set(peer.pins) == {"host", "run"}


def test_bindings_of_a_composite_are_relative_to_it() -> None:
    composite = f"{{bindings: [[in, out]], components: {{in: {NEEDS}, out: {offering(x=BOTH)}}}}}"
    assert peers(compiled(manifest("[]", box=composite)), "box.in", "db") == [("box.out", "x")]


def test_an_unknown_component_is_an_error() -> None:
    assert errors(manifest("[[a, b]]", a=NEEDS)) == [("UnknownComponent", 2)]


def test_an_unknown_interface_is_an_error() -> None:
    assert errors(manifest("[[a, 'b#y']]", a=NEEDS, b=offering(x=BOTH))) == [("UnknownInterface", 2)]


@pytest.mark.parametrize("binding", ["a", "[a]", "[a, b, c]", "{a: b}", "[[a], b]", "[a, 'b#']", "[a, null]"])
def test_a_binding_that_is_no_pair_is_an_error(binding: str) -> None:
    assert errors(manifest(f"[{binding}]", a=NEEDS, b=offering(x=BOTH))) == [("MalformedBinding", 2)]


def test_ends_of_different_types_are_a_warning() -> None:
    text = manifest("[[a, b]]", a=NEEDS, b=offering(x=f"host: publish-signal(int), {RUN}"))
    assert warnings(text) == [("DifferentTypes", 2)]
    assert "string and int" in message(text)


@pytest.mark.parametrize(
    ("command", "difference"),
    [
        ("(string x => int y)", "the argument 'x' is int on one side and string on the other"),
        ("(int z => int y)", "only one side has the argument 'x'"),
        ("(int x)", "only one side has the result 'y'"),
    ],
)
def test_commands_of_different_signatures_are_a_warning(command: str, difference: str) -> None:
    text = manifest("[[a, b]]", a=NEEDS, b=offering(x=f"{HOST}, run: receive-command{command}"))
    assert warnings(text) == [("DifferentTypes", 2)]
    assert difference in message(text)


def test_arguments_match_by_name_and_extra_results_do_no_harm() -> None:
    need = "{type: workflow.Instance, interfaces: {i: {run: 'send-command(int a, string b)'}}}"
    text = manifest("[[a, b]]", a=need, b=offering(x="run: 'receive-command(string b, int a => int more)'"))
    assert warnings(text) == []


EXECUTOR = """{type: reference.Service, interfaces: {executor: {
      execute-workflow: receive-command(object request => object status => object status),
      execute-command: "send-command(string interface, string command => map<string, object> response)"}}}"""


def test_the_workflow_service_may_be_bound_and_connects_nothing() -> None:
    text = manifest("[[a, s]]", a=NEEDS, s=EXECUTOR)
    assert warnings(text) == []
    assert peers(compiled(text), "a", "db") == []


def test_a_declared_interface_is_preferred_to_a_built_in_one() -> None:
    need = "{type: workflow.Instance, interfaces: {vm: {networks: consume-signal(map<map<string>>)}}}"
    machine = "{type: compute.Instance, interfaces: {own: {networks: publish-signal(map<map<string>>)}}}"
    assert peers(compiled(manifest("[[a, m]]", a=need, m=machine)), "a", "vm") == [("m", "own")]


def taking_and_giving(taken: str, given: str, more: str = "") -> str:
    interfaces = f"{{in: {{{taken}: consume-signal(int)}}, out: {{{given}: publish-signal(int)}}}}"
    return f"{{type: workflow.Instance, {more}interfaces: {interfaces}}}"


def test_required_interfaces_in_a_circle_are_an_error_that_names_it() -> None:
    a, b, c = (taking_and_giving(pins[0], pins[1], "required: [in], ") for pins in ("xz", "yx", "zy"))
    text = manifest("[[a, b], [b, c], [c, a]]", a=a, b=b, c=c)
    assert errors(text) == [("RequiredCycle", 4)]
    assert "'a' → 'b' → 'c' → 'a'" in message(text)


def test_a_circle_of_interfaces_that_are_not_required_is_allowed() -> None:
    text = manifest("[[a, b]]", a=taking_and_giving("x", "y"), b=taking_and_giving("y", "x"))
    assert warnings(text) == []
    assert compiled(text).order == ("a", "b")


def test_an_endpoint_relays_the_url_of_the_component_it_is_bound_to() -> None:
    source = "{type: workflow.Instance, interfaces: {result: {url: publish-signal(string)}}}"
    reader = "{type: workflow.Instance, interfaces: {in: {url: consume-signal(string)}}}"
    endpoint = "{type: cobalt.common.HttpEndpoint}"
    found = compiled(manifest("[[a, e], [e, b]]", a=source, b=reader, e=endpoint))
    assert peers(found, "e", "source") == [("a", "result")]
    assert peers(found, "b", "in") == [("e", "connection")]


def test_a_built_in_need_that_could_be_filled_in_several_ways_is_left_alone() -> None:
    source = (
        "{type: workflow.Instance, interfaces: {x: {url: publish-signal(string)}, y: {url: publish-signal(string)}}}"
    )
    text = manifest("[[a, e]]", a=source, e="{type: cobalt.common.HttpEndpoint}")
    assert errors(text) == []
    assert peers(compiled(text), "e", "source") == []


def one_pin(pin: str) -> str:
    return (
        f"application:\n  components:\n    a:\n      type: workflow.Instance\n      interfaces: {{i: {{p: {pin}}}}}\n"
    )


@pytest.mark.parametrize(
    "type_text",
    ["configuration(int)", "publish-signal(map<string, list<int>>)", "consume-signal(unit)", "receive-command()",
     "send-command(string a => int b => int b, string c)", "receive-command( => )", "receive-command(=> string own)"],
)  # fmt: skip
def test_a_pin_is_a_type_or_a_map_with_a_type(type_text: str) -> None:
    short = compiled(one_pin(f'"{type_text}"')).components["a"].pins["i.p"]
    long = compiled(one_pin(f'{{type: "{type_text}"}}')).components["a"].pins["i.p"]
    assert short == long
    assert short.type == parse_pin_type(type_text)


def test_the_map_form_has_a_label_and_suggestions() -> None:
    pin = compiled(one_pin("{type: configuration(string), name: Size, suggestions: {Small: s, Large: l}}"))
    found = pin.components["a"].pins["i.p"]
    assert (found.key, found.label, found.suggestions) == ("i.p", "Size", {"Small": "s", "Large": "l"})


def test_labels_of_arguments_are_accepted() -> None:
    text = one_pin("{type: send-command(int a => int b), arguments: {a: {name: A}}, results: {b: {name: B}}}")
    assert warnings(text) == []


@pytest.mark.parametrize(
    "pin", ["configuration", "configuration(strin)", "signal(int)", "null", "[a]", "{name: x}", "{}"]
)
def test_a_malformed_pin_is_an_error(pin: str) -> None:
    assert errors(one_pin(pin)) == [("MalformedPin", 5)]
    assert message(one_pin(pin)).startswith("a › i.p: ")


def test_a_list_without_a_type_of_its_values_gets_an_example() -> None:
    assert "Type list lacks the type of its values" in message(one_pin("receive-command(list hosts)"))
    assert "Example: map<string>." in message(one_pin("configuration(map)"))


def test_an_unknown_key_of_a_pin_is_a_warning() -> None:
    assert warnings(one_pin("{type: configuration(int), defualt: 5}")) == [("UnknownKey", 5)]


def test_suggestions_that_are_neither_map_nor_list_are_an_error() -> None:
    assert errors(one_pin("{type: configuration(int), suggestions: 5}")) == [("UnexpectedKind", 5)]


def test_a_component_that_holds_no_others_cannot_bind() -> None:
    assert errors(one_pin("bind(b#i.p)")) == [("UnexpectedBind", 5)]


def test_only_a_bind_can_stand_for_all_pins() -> None:
    assert errors(one_pin("x").replace("p: x", "'*': configuration(int)")) == [("MalformedPin", 5)]


def test_the_application_binds_its_pins() -> None:
    assert errors("application:\n  interfaces: {i: {p: configuration(int)}}\n") == [("MissingBind", 2)]


def test_a_type_that_yaml_cut_at_a_comma_is_refused_with_a_hint_to_quote_it() -> None:
    found = findings(one_pin("send-command(int a, int b)"))
    assert "quote values that contain a comma" in found[0].message


def test_providers_come_first_and_the_rest_stays_in_order() -> None:
    order, cycle = launch_order({"web": ["db", "cache"], "log": [], "cache": [], "db": ["cache"]})
    assert order == ["cache", "db", "web", "log"]
    assert not cycle


def test_a_cycle_is_named_from_its_first_component_back_to_it() -> None:
    assert launch_order({"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]})[1] == ["a", "b", "c", "a"]


def test_a_component_that_needs_itself_is_a_cycle() -> None:
    assert launch_order({"a": ["a"]})[1] == ["a", "a"]


def test_a_chain_of_thousands_needs_no_deep_stack() -> None:
    chain = {str(number): [str(number + 1)] for number in range(10_000)}
    order, cycle = launch_order({**chain, "10000": []})
    assert len(order) == 10_001
    assert not cycle


_GRAPHS = st.integers(1, 7).flatmap(
    lambda size: st.lists(st.lists(st.integers(0, size - 1), unique=True, max_size=3), min_size=size, max_size=size)
)


@given(_GRAPHS)
def test_every_graph_has_an_order_or_a_cycle(edges: list[list[int]]) -> None:
    needed = {str(number): [str(other) for other in others] for number, others in enumerate(edges)}
    order, cycle = launch_order(needed)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert all(follower in needed[component] for component, follower in pairwise(cycle))
    else:
        assert sorted(order) == sorted(needed)
        for position, component in enumerate(order):
            assert set(needed[component]) <= set(order[:position])
