"""Numbers that remember their text, and what becomes of them."""

from typing import Any

import msgspec
import pytest

from launchbay.actions.contract import ActionParameter
from launchbay.actions.output import parse_json_output
from launchbay.actions.parameters import given_parameters
from launchbay.features.directories.files import FileTree, read_directory
from launchbay.manifest.policies import read_policies, write_policies
from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain, written_data
from launchbay.model.scalars import decode_json, for_json, is_stored_as, json_real, same, settled, text_of, with_texts
from launchbay.model.yaml_text import yaml_text


def data(text: str) -> Any:
    return written_data(read(text.encode()))


@pytest.mark.parametrize("text", ["1.10", "1.00", "0.00", "7.0", "1e3", "12345678e9", "0x1F", "+5", "-0", "7", "1.5"])
def test_a_number_is_a_number_with_the_text_of_its_author(text: str) -> None:
    value = data(text)
    assert (value == plain(read(text.encode())), text_of(value)) == (True, text)
    assert type(settled(value)) in (int, float)
    msgspec.json.encode(settled([value, {"a": (value,)}]))


def test_a_tree_without_such_numbers_is_not_copied() -> None:
    tree = {"a": [1, 1.5, True, None, "1.10"]}
    assert settled(tree) is tree
    assert with_texts(data("{a: [1.10, 1, true]}")) == {"a": ["1.10", 1, True]}


def test_a_number_goes_through_json_with_its_text() -> None:
    assert msgspec.json.encode(for_json(data("{a: [1.10, 1e3]}"))) == b'{"a":[1.10,1e3]}'
    with pytest.raises(ValueError, match=r"JSON has no number 0x1F\. Write 31"):
        for_json(data("0x1F"))
    assert json_real("1.5") == 1.5
    assert text_of(decode_json(b'{"a": -0}')["a"]) == "-0"
    assert same(settled(decode_json(b"[-0, -0.0, -0e1, 5e-324, 0e-400]")), [0, -0.0, -0.0, 5e-324, 0.0])
    with pytest.raises(ValueError, match="range of a double"):
        json_real("1e-400")
    with pytest.raises(ValueError, match="range of a double"):
        json_real("1e400")


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (0, False), (1, 1.0), (0.0, -0.0), ([1], [True]), ({"a": 0}, {"a": False})]
)
def test_values_that_python_calls_equal_are_not_the_same(one: Any, other: Any) -> None:
    assert one == other
    assert not same(one, other)
    assert same(one, one)


def test_a_directory_is_as_stored_whichever_type_its_numbers_got() -> None:
    given = {"a": msgspec.Raw(b"1.10"), "b": [msgspec.Raw(b"1e3")]}
    assert is_stored_as(given, {"a": "1.10", "b": [1000.0]})
    assert not is_stored_as(given, {"a": "1.1", "b": [1000.0]})


def test_actions_get_texts_where_they_want_texts() -> None:
    declared = {
        "texts": ActionParameter("", type="list<string>"),
        "headers": ActionParameter("", type="map<string,string>"),
        "command": ActionParameter("", numbers="text"),
        "attributes": ActionParameter("", type="map<string,object>"),
        "seen": ActionParameter("", numbers="written"),
    }
    given = data(
        "{texts: [1.10], headers: {a: 1.00}, command: [echo, 1.10], attributes: {v: 1.10}, seen: 1e3, other: 7.00}"
    )
    found = given_parameters(declared, given)
    assert found["texts"] == ["1.10"]
    assert found["headers"] == {"a": "1.00"}
    assert found["command"] == ["echo", "1.10"]
    assert type(found["attributes"]["v"]) is float
    assert text_of(found["seen"]) == "1e3"
    assert type(found["other"]) is float


@pytest.mark.parametrize("text", ["1e3", "81e3421", "1234e56", "0400", "no", "1.10", "yes", "1:30", "2001-01-01"])
def test_a_policy_and_user_data_are_written_as_what_they_are(text: str) -> None:
    assert read_policies(write_policies({"a.b": text})) == {"a.b": text}
    document = yaml_text({"a": text, "other": 1})
    assert plain(read(document.replace("other: 1", "other: 2").encode())) == {"a": text, "other": 2}


def test_the_end_of_a_block_is_not_taken_for_the_end_of_the_document() -> None:
    assert plain(read(yaml_text({"a": "...\n"}).encode())) == {"a": "...\n"}
    assert yaml_text("x") == "x\n"


def test_labels_in_a_directory_are_texts() -> None:
    contents = read_directory(FileTree.of({"environments/e.yaml": b"labels: { version: 1.10, level: 1e3 }\n"}))
    assert contents.environments is not None
    assert contents.environments["e"].labels == {"version": "1.10", "level": "1e3"}


@pytest.mark.parametrize("text", ["1e400", "[-1e400]", "123456789012345678901234567890"])
def test_json_of_a_tool_with_a_number_that_would_be_lost_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the number"):
        parse_json_output(text)
