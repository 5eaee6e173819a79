"""The shape of component manifests: what stands where, and what is said when it does not."""

import pytest

from tests.manifest.compiling import compiled, errors, findings, message, warnings

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
    assert "'error'" in message(text)


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
