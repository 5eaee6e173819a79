"""The shape of component manifests: what stands where, and what is said when it does not."""

import pytest

from launchbay.manifest.graph import Target
from tests.support.manifests import compiled, errors, findings, message, warnings

NOTHING_INSIDE = "application: {components: {a: {type: workflow.Instance}}}"


def test_application_and_root_are_the_same() -> None:
    assert compiled(NOTHING_INSIDE) == compiled(NOTHING_INSIDE.replace("application", "root"))


def test_application_and_root_together_are_refused() -> None:
    assert errors("application: {}\nroot: {}\n") == [("DuplicateKey", 2)]


def test_an_application_without_anything_is_valid() -> None:
    assert findings("application: {}") == []
    assert findings("application:\n") == []


@pytest.mark.parametrize("text", ["just a text", "[a, b]", "5", "null", "~"])
def test_a_document_that_is_no_map_is_one_error_with_a_position(text: str) -> None:
    assert errors(text) == [("UnexpectedKind", 1)]


def test_an_empty_document_is_an_error() -> None:
    assert errors("") == [("EmptyManifest", 1)]


def test_sections_with_all_entries_commented_out_are_empty() -> None:
    text = """\
        application:
          configuration:
            # input.x: 1
          interfaces:
          bindings:
          components:
            a:
              type: workflow.Instance
              interfaces:
                input:
              required:
              configuration:
                configuration.triggers:
                configuration.workflows:
                  launch:
        """
    assert findings(text) == []


def test_a_null_component_is_an_error() -> None:
    text = "application:\n  components:\n    error:\n    a: {type: workflow.Instance}\n"
    assert errors(text) == [("NullComponent", 3)]
    assert message(text).startswith("error: ")


@pytest.mark.parametrize("body", ["{}", "{interfaces: {}}", "{type: null}", "{components: null}"])
def test_a_component_with_neither_type_nor_components_is_an_error(body: str) -> None:
    assert errors(f"application:\n  components:\n    a: {body}\n") == [("MissingType", 3)]


def test_an_unknown_component_type_is_an_error_with_the_nearest_known_type() -> None:
    text = "application:\n  components:\n    a:\n      type: workflow.Instanze\n"
    assert errors(text) == [("UnknownComponentType", 4)]
    assert "Did you mean 'workflow.Instance'?" in message(text)


def test_unknown_keys_are_warnings() -> None:
    text = """\
        application:
          author: me
          components:
            a:
              type: workflow.Instance
              bindngs: []
        extra: 1
        """
    assert warnings(text) == [("UnknownKey", 7), ("UnknownKey", 2), ("UnknownKey", 6)]


def test_the_parts_of_a_component_must_have_their_shape() -> None:
    text = """\
        application:
          interfaces: []
          configuration: text
          bindings: {a: b}
          components:
            a: {type: workflow.Instance, required: {b: c}, interfaces: {i: 5}}
            b: 7
            c: {type: [x]}
        """
    assert sorted(errors(text), key=lambda found: found[1]) == [
        ("UnexpectedKind", 2),
        ("UnexpectedKind", 3),
        ("UnexpectedKind", 4),
        ("UnexpectedKind", 6),
        ("UnexpectedKind", 6),
        ("UnexpectedKind", 7),
        ("UnexpectedKind", 8),
    ]


@pytest.mark.parametrize("name", ["a.b", "a#b", "'a,b'", "' a'", "''", "a(b)"])
def test_a_name_that_no_bind_could_name_is_refused(name: str) -> None:
    assert errors(f"application:\n  components:\n    {name}: {{type: workflow.Instance}}\n") == [("BadName", 3)]


def test_a_component_with_a_type_holds_no_components() -> None:
    text = """\
        application:
          components:
            a:
              type: workflow.Instance
              components: {b: {type: workflow.Instance}}
        """
    assert errors(text) == [("UnexpectedComponents", 4)]


def test_every_finding_is_reported_and_not_only_the_first() -> None:
    text = """\
        application:
          interfaces: {i: {p: bind(nobody#i.p)}}
          bindings: [[a, nobody]]
          components:
            none:
            a: {type: some.Thing}
        """
    assert {code for code, _ in errors(text)} == {"NullComponent", "UnknownComponentType", "UnknownComponent"}
    assert len(errors(text)) == 4


def test_components_shared_by_alias_are_separate() -> None:
    manifest = compiled("""\
        application:
          components:
            a: &service
              type: reference.Service
              interfaces: {k: {get: receive-command()}}
            b: *service
        """)
    assert [(path, component.path) for path, component in manifest.components.items()] == [("a", "a"), ("b", "b")]


def test_findings_give_the_position_of_their_cause() -> None:
    [finding] = findings("application:\n  components:\n    a:\n      type:   wrong.Type\n")
    assert (finding.line, finding.column) == (4, 15)


WEB = """
  components:
    web:
      interfaces:
        in: {"*": bind(w#input.*), n: bind(w#input.size)}
        out: {url: bind(w#result.url)}
      components:
        w:
          type: workflow.Instance
          interfaces:
            input: {size: configuration(int), name: configuration(string)}
            result: {url: publish-signal(string)}
            actions: {go: receive-command(int x)}
            needs: {db: consume-signal(string), run: send-command()}
          configuration: {configuration.workflows: {go: {}}}
    other:
      type: workflow.Instance
      interfaces:
        input: {size: configuration(int), extra: configuration(string)}
        result: {url: publish-signal(string)}
"""


def web(interfaces: str) -> str:
    return f"application:\n  interfaces: {interfaces}{WEB}"


def test_a_pin_has_the_kind_and_type_of_its_target() -> None:
    manifest = compiled(web("{i: {a: bind(web.w#input.size), b: bind(web.w#result.url), c: bind(web.w#actions.go)}}"))
    assert str(manifest.parameters["i.a"].type) == "configuration(int)"
    assert manifest.results["i.b"].targets == (Target("web.w", "result.url"),)
    assert list(manifest.commands) == ["i.c"]


def test_a_bind_goes_through_the_interfaces_of_a_composite() -> None:
    manifest = compiled(web("{i: {size: bind(web#in.n), url: bind(web#out.url)}}"))
    assert manifest.parameters["i.size"].targets == (Target("web.w", "input.size"),)
    assert manifest.results["i.url"].targets == (Target("web.w", "result.url"),)


def test_a_wildcard_takes_all_pins_of_an_interface_even_a_composites() -> None:
    manifest = compiled(web('{i: {"*": bind(web#in.*)}}'))
    assert list(manifest.parameters) == ["i.n", "i.size", "i.name"]


def test_a_wildcard_joins_the_pins_of_several_components_by_name() -> None:
    manifest = compiled(web('{i: {"*": "bind(web.w#input.*, other#input.*)"}}'))
    assert manifest.parameters["i.size"].targets == (Target("web.w", "input.size"), Target("other", "input.size"))
    assert manifest.parameters["i.extra"].targets == (Target("other", "input.extra"),)


def test_an_explicit_pin_beside_a_wildcard_wins() -> None:
    manifest = compiled(web('{i: {"*": bind(web.w#input.*), size: bind(other#input.size)}}'))
    assert manifest.parameters["i.size"].targets == (Target("other", "input.size"),)
    assert manifest.parameters["i.name"].targets == (Target("web.w", "input.name"),)


def test_needs_that_the_application_binds_are_its_own_needs() -> None:
    assert list(compiled(web('{i: {"*": bind(web.w#needs.*)}}')).needs) == ["i.db", "i.run"]


def test_only_configuration_pins_have_several_targets() -> None:
    text = web('{i: {u: "bind(web.w#result.url, other#result.url)"}}')
    assert errors(text) == [("SeveralTargets", 2)]


def test_targets_of_different_types_are_a_warning() -> None:
    assert warnings(web('{i: {u: "bind(web.w#input.size, other#input.extra)"}}')) == [("DifferentTypes", 2)]


def test_an_unknown_component_in_a_bind_is_an_error_that_lists_those_here() -> None:
    text = web("{i: {u: bind(wbe#in.n)}}")
    assert errors(text) == [("UnknownComponent", 2)]
    assert "Components here: web, other." in message(text)


def test_a_pin_that_does_not_exist_is_an_error_that_lists_those_that_do() -> None:
    text = web("{i: {u: bind(other#input.sizes)}}")
    assert errors(text) == [("UnknownPin", 2)]
    assert "Pins of 'other': input.size, input.extra." in message(text)


def test_a_wildcard_on_an_unknown_interface_is_an_error() -> None:
    assert errors(web('{i: {"*": bind(other#inputs.*)}}')) == [("UnknownInterface", 2)]


def test_one_pin_cannot_be_bound_to_all_and_all_not_to_one() -> None:
    assert errors(web("{i: {u: bind(other#input.*)}}")) == [("WildcardBind", 2)]
    assert errors(web('{i: {"*": bind(other#input.size)}}')) == [("WildcardBind", 2)]


def test_wildcards_cannot_multiply_without_bound() -> None:
    pins = ", ".join(f"p{number}: configuration(int)" for number in range(2000))
    interfaces = ", ".join(f'i{number}: {{"*": bind(a#i.*)}}' for number in range(2000))
    component = f"{{type: workflow.Instance, interfaces: {{i: {{{pins}}}}}}}"
    text = f"application:\n  interfaces: {{{interfaces}}}\n  components: {{a: {component}}}"
    assert errors(text) == [("TooManyPins", 2)]


SCALER = """
  components:
    cluster:
      type: composite.Scaler
      configuration: {configuration.quantity: 2}
      interfaces: {vm: {"*": bind(node#compute.*)}}
      components:
        node: {type: compute.Instance}
"""


def test_a_scaler_has_its_own_pins_and_those_it_binds() -> None:
    quantity, command = "bind(cluster#configuration.quantity)", "bind(cluster#scale.set-quantity)"
    interfaces = f"{{i: {{q: {quantity}, net: bind(cluster#vm.networks), set: {command}}}}}"
    manifest = compiled(f"application:\n  interfaces: {interfaces}{SCALER}")
    assert manifest.parameters["i.q"].targets == (Target("cluster", "configuration.quantity"),)
    assert manifest.results["i.net"].targets == (Target("cluster.node", "compute.networks"),)
    assert manifest.commands["i.set"].targets == (Target("cluster", "scale.set-quantity"),)
    assert manifest.configuration_pins["cluster"]["configuration.quantity"].default == 2


def test_a_scaler_without_anything_to_multiply_is_an_error() -> None:
    assert errors("application:\n  components:\n    c: {type: composite.Scaler}\n") == [("MissingComponents", 3)]


def test_a_scaler_inside_a_scaler_is_part_of_its_template() -> None:
    inner = "{type: composite.Scaler, components: {x: {type: compute.Instance}}}"
    manifest = compiled(
        f"application:\n  components: {{c: {{type: composite.Scaler, components: {{inner: {inner}}}}}}}"
    )
    scalers = {path: component.scaler for path, component in manifest.components.items()}
    assert scalers == {"c": None, "c.inner": "c", "c.inner.x": "c.inner"}


def test_endpoints_and_submodules_have_built_in_pins() -> None:
    manifest = compiled("""\
        application:
          interfaces:
            i: {url: bind(e#endpoint.url), to: bind(e#configuration.url), app: bind(s#__locator.application-id)}
          components:
            e: {type: cobalt.common.HttpEndpoint}
            s: {type: reference.Submodule, configuration: {__locator.application-id: shop}}
        """)
    assert list(manifest.results) == ["i.url"]
    assert manifest.configuration_pins["s"]["__locator.application-id"].default == "shop"
    assert manifest.required_parameters == ("i.to",)
