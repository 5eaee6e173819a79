"""The tables of docs/reference/manifest/values.md: place × written form × type → value or error."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from launchbay.cli.inputs import mapping
from launchbay.errors import BadRequest, InvalidManifest
from launchbay.features.directories.contents import Noun
from launchbay.features.directories.files import FileTree, read_directory, read_object_text
from launchbay.manifest.configuration import configure, typed_parameters
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.policies import read_policies
from launchbay.model.environment import Property, validate_properties
from launchbay.model.scalars import decode_json, same
from launchbay.web.json_reader import read_json
from tests.support.cases import hold
from tests.support.documentation import ROOT
from tests.support.manifests import compiled

PAGE = (ROOT / "docs" / "reference" / "manifest" / "values.md").read_text()
TYPES = ("string", "int", "double", "bool", "object")
REFUSED = object()
JSON_ROWS = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false")


def _table(heading: str) -> dict[str, list[Any]]:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {
        cells[0].strip("`"): [REFUSED if cell == "refused" else json.loads(cell.strip("`")) for cell in cells[1:]]
        for cells in rows[2:]
    }


PLAIN, TEXT = _table("Without quotes"), _table("In quotes or as text")
CASES = [(written, type_, row[TYPES.index(type_)]) for written, row in PLAIN.items() for type_ in TYPES]
TEXT_CASES = [(written, type_, row[TYPES.index(type_)]) for written, row in TEXT.items() for type_ in TYPES]


def _manifest(type_: str, *, configuration: str = "", parameters: str = "[]") -> CompiledManifest:
    return compiled(
        f"""
        application:
          interfaces: {{ input: {{ v: bind(web#input.v) }} }}
          components:
            web:
              type: workflow.Instance
              interfaces: {{ input: {{ v: configuration({type_}) }} }}
              configuration:
                {configuration or "{}"}
                configuration.workflows: {{ launch: {{ parameters: {parameters}, steps: [] }} }}
        """.replace("                {}\n", "")
    )


def _launched(manifest: CompiledManifest, given: dict[str, Any]) -> Any:
    stored = decode_json(msgspec.json.encode(typed_parameters(manifest, given)))  # as the engine reads it again
    configured = configure(manifest, given)["web"]["input.v"]
    assert same(configure(manifest, stored)["web"]["input.v"], configured)
    return configured


def of_configuration(written: str, type_: str) -> Any:
    return _launched(_manifest(type_, configuration=f"input.v: {written}"), {})


def of_parameter_default(written: str, type_: str) -> Any:
    manifest = _manifest(type_, parameters=f"[v: {{ default: {written}, type: {type_} }}]")
    if "input.v" in configure_or_nothing(manifest):
        return _launched(manifest, {})
    raise BadRequest("the default doesn't match the pin")


def configure_or_nothing(manifest: CompiledManifest) -> Any:
    return configure(manifest, {}).get("web", {})


def of_parameter_file(written: str, type_: str, folder: Path) -> Any:
    (folder / "p.yaml").write_text(f"input.v: {written}\n")
    sent = msgspec.json.encode(mapping([f"@{folder / 'p.yaml'}"]))
    return _launched(_manifest(type_), read_json(sent, is_written=True))


def of_json(written: str, type_: str) -> Any:
    return _launched(_manifest(type_), read_json(f'{{"input.v": {written}}}'.encode(), is_written=True))


def of_json_option(written: str, type_: str) -> Any:
    sent = msgspec.json.encode(mapping([f"input.v:={written}"]))
    return _launched(_manifest(type_), read_json(sent, is_written=True))


def of_revision(written: str, type_: str) -> Any:
    files = {"applications/a/revisions/r/revision.yaml": f"parameters: {{ input.v: {written} }}\n".encode()}
    contents = read_directory(FileTree.of(files))
    assert contents.applications is not None
    revisions = contents.applications["a"].revisions
    assert revisions is not None
    sent = msgspec.json.encode(revisions["r"].content.parameters)
    return _launched(_manifest(type_), read_json(sent, is_written=True))


def of_property(written: str, type_: str) -> Any:
    text = f"properties: [{{ name: p, type: {type_}, value: {written} }}]\n"
    contents = read_directory(FileTree.of({"environments/e.yaml": text.encode()}))
    assert contents.environments is not None
    entries = contents.environments["e"].properties
    sent = read_json(msgspec.json.encode(entries), is_written=True)
    [checked] = validate_properties(msgspec.convert(sent, list[Property]))
    return checked.value


PLACES = (of_configuration, of_parameter_default, of_revision, of_property, of_json, of_json_option)


def _outcome(read: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except (BadRequest, InvalidManifest, click.UsageError, ValueError):
        return REFUSED


def _agrees(expected: Any, found: Any) -> bool:
    return found is REFUSED if expected is REFUSED else found is not REFUSED and same(expected, found)


def _is_of_the_table(place: Callable[[str, str], Any], written: str, type_: str, expected: Any) -> None:
    in_json = JSON_ROWS.fullmatch(written) is not None
    if not in_json and place in (of_json, of_json_option):
        expected = REFUSED
    if written == "0x1F" and place is of_revision:
        expected = REFUSED
    if place is of_property and type_ == "double":  # properties have no doubles
        expected = REFUSED
    if place is of_property and type_ == "string" and expected is REFUSED:  # the file says that a string is meant
        expected = written
    found = _outcome(place, written, type_)
    assert _agrees(expected, found), (expected, found)


@pytest.mark.parametrize("place", PLACES)
def test_what_is_written_is_the_value_of_the_table(place: Callable[[str, str], Any]) -> None:
    hold(_is_of_the_table, ((place, *case) for case in CASES))


def test_a_file_of_parameters_gives_the_value_of_the_table(tmp_path: Path) -> None:
    def is_in_the_file(written: str, type_: str, expected: Any) -> None:
        found = _outcome(of_parameter_file, written, type_, tmp_path)
        assert _agrees(REFUSED if written == "0x1F" else expected, found), (expected, found)

    hold(is_in_the_file, CASES)


@pytest.mark.parametrize("place", [of_configuration, of_revision, of_json])
def test_what_is_written_in_quotes_is_the_value_of_the_table(place: Callable[[str, str], Any]) -> None:
    def is_in_quotes(written: str, type_: str, expected: Any) -> None:
        found = _outcome(place, f'"{written}"', type_)
        assert _agrees(expected, found), (expected, found)

    hold(is_in_quotes, TEXT_CASES)


def test_a_parameter_on_the_command_line_is_a_text() -> None:
    def is_a_text(written: str, type_: str, expected: Any) -> None:
        found = _outcome(lambda: _launched(_manifest(type_), dict(mapping([f"input.v={written}"]) or {})))
        assert _agrees(expected, found), (expected, found)

    hold(is_a_text, TEXT_CASES)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *[("true", True), ("3", 3), ('"3"', "3")],
        *[(text, text) for text in ("1.10", "0x1F", "1e3", "1.5", "508e1234", "81e3421", "9" * 30, "0400", "no", "+5")],
    ],
)
def test_a_policy_is_a_flag_a_whole_number_or_the_text_that_was_written(written: str, value: Any) -> None:
    assert same(read_policies(f"policies: {{ a.b: {written} }}")["a.b"], value)
    contents = read_directory(FileTree.of({"environments/e.yaml": f"policies: {{ a.b: {written} }}\n".encode()}))
    assert contents.environments is not None
    assert contents.environments["e"].policies == {"a.b": value}


@pytest.mark.parametrize("written", ["0x1F", ".5", "+5"])
def test_a_number_that_json_cannot_spell_is_refused_where_its_type_is_known_to_the_server_alone(
    written: str, tmp_path: Path
) -> None:
    for read in (of_revision, partial(of_parameter_file, folder=tmp_path)):
        with pytest.raises((BadRequest, click.UsageError)) as refused:
            read(written, "string")
        assert f"JSON has no number {written}. Write " in str(refused.value)
    assert of_property(written, "string") == written
    assert of_property(written, "object") == {"0x1F": 31, ".5": 0.5, "+5": 5}[written]


def test_the_values_of_a_property_with_structure_are_those_of_its_type() -> None:
    assert of_property("[1.10, 0x1F, 81e3421, yes]", "list<string>") == ["1.10", "0x1F", "81e3421", "yes"]
    assert of_property("[1.0, 0x1F, 9007199254740993.0]", "list<int>") == [1, 31, 9007199254740993]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("environments/e.yaml", "properties: [{ name: p, type: object, value: [81e3421] }]"),
        ("environments/e.yaml", "rules: { concurrency: [{ limit: 81e3421 }] }"),
        ("applications/a/revisions/r/revision.yaml", "parameters: { a.b: 81e3421 }"),
    ],
)
def test_a_number_that_json_does_not_have_is_refused_with_its_place_where_no_string_is_meant(
    path: str, text: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        read_directory(FileTree.of({path: text.encode()}))
    place = f"{path}:1:{text.index('81e3421') + 1}"
    assert refused.value.messages == (
        f"{place}: The number 81e3421 exceeds the range of a double. Quote it if it is meant as a string.",
    )


def test_a_marker_is_a_text() -> None:
    environments = read_directory(FileTree.of({"environments/e.yaml": b"markers: [81e3421, 1.10]"})).environments
    assert environments is not None
    assert environments["e"].markers == ["81e3421", "1.10"]


def test_a_label_is_a_text() -> None:
    files = FileTree.of({"applications/a/labels.yaml": b"commit: 81e3421\nversion: 1.10\nids: 0x1F\n"})
    applications = read_directory(files).applications
    assert applications is not None
    assert applications["a"].labels == {"commit": "81e3421", "version": "1.10", "ids": "0x1F"}


OBJECTS: list[tuple[Noun, str, Any]] = [
    ("git-source", "account: a\nurl: u\nbranch: 10\n", {"branch": "10"}),
    ("git-source", "account: a\nurl: u\nbranch: 1.0\n", {"branch": "1.0"}),
    ("git-source", "account: a\nurl: u\nbranch: 1.10\nintervalMs: 3e5\n", {"branch": "1.10", "intervalMs": 300000}),
    ("service-account", "description: 5\nroles: [7, -0]\n", {"description": "5", "roles": ["7", "-0"]}),
    ("user", "name: 1\n", {"name": "1"}),
    ("schedule", "cron: '* * * * *'\njitterMs: 1e3\napplication: 2\n", {"jitterMs": 1000, "application": "2"}),
    (
        "service",
        "type: t\nparameters: { c: { fromVault: 1.10, vault: 7 } }\n",
        {"parameters": {"c": {"fromVault": "1.10", "vault": "7"}}},
    ),
]


@pytest.mark.parametrize(("noun", "text", "fields"), OBJECTS)
def test_a_number_in_a_field_of_an_object_has_the_type_of_the_field(noun: Noun, text: str, fields: Any) -> None:
    found = read_object_text(noun, text)
    assert same({name: found[name] for name in fields}, fields)


@pytest.mark.parametrize(
    ("noun", "text", "says"),
    [
        ("git-source", "account: a\nurl: u\nbranch: true\n", "branch must be a string."),
        ("git-source", "account: a\nurl: u\nintervalMs: 1.5\n", "intervalMs must be a whole number."),
        ("service-account", "roles: [true]\n", "roles must consist of strings."),
        ("service", "type: t\nparameters: { c: { fromVault: true } }\n", "c: fromVault must be a string."),
        ("service", "type: t\nparameters: { c: { fromVault: null } }\n", "c: fromVault must be a string."),
    ],
)
def test_what_a_field_of_an_object_cannot_be_is_refused_with_its_name(noun: Noun, text: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        read_object_text(noun, text)


def test_the_tables_are_read() -> None:
    assert (len(CASES), len(TEXT_CASES)) == (90, 50)
