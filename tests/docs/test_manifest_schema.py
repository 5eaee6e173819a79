"""docs/reference/manifest.schema.json lets every good manifest through, and knows an obvious mistake."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain
from tests.support.documentation import LAUNCHED, ROOT
from tests.support.manifests import MANIFESTS

SCHEMA = json.loads((ROOT / "docs/reference/manifest.schema.json").read_text("utf-8"))


def mistakes(text: str) -> list[str]:
    document: Any = plain(read(text.encode()))
    checked = jsonschema.Draft202012Validator(SCHEMA)
    return [f"{error.json_path}: {error.message[:200]}" for error in checked.iter_errors(document)]


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_whole_manifests_pass(path: Path) -> None:
    assert mistakes(path.read_text("utf-8")) == []


def test_the_examples_of_the_reference_pass() -> None:
    assert len(LAUNCHED) > 20
    told = {example.line: mistakes(example.text) for example in LAUNCHED}
    assert {line: found for line, found in told.items() if found} == {}


@pytest.mark.parametrize(
    "text",
    [
        "application: [a, b]",
        "application: {components: {a: text}}",
        "application: {components: {a: {type: [x]}}}",
        "application: {components: {a: {interfaces: {input: {port: 5}}}}}",
        "launch: {steps: text}",
        "launch: {steps: [{a: {action: [wait]}}]}",
        "just a text",
    ],
)
def test_a_shape_that_cannot_be_is_told(text: str) -> None:
    assert mistakes(text)
