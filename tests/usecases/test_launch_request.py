from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from launchbay.errors import BadRequest
from launchbay.store.applications import Revision
from launchbay.usecases.launch_request import (
    LaunchRequest,
    read_configuration_request,
    read_launch_request,
    with_revision,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def revision(**parts: Any) -> Revision:
    texts = {name: msgspec.json.encode(parts.get(name, {})).decode() for name in ("parameters", "submodules")}
    return Revision("r", "a", "o", "stable", 3, texts["parameters"], "dev", texts["submodules"], NOW)


def test_what_the_request_leaves_open_comes_from_the_revision() -> None:
    request = with_revision(LaunchRequest(), revision(parameters={"x": 1}, submodules={"db": {"revisionId": "q"}}))
    assert request.version == 3
    assert request.environment_id == "dev"
    assert request.parameters == {"x": 1}
    assert request.submodules == {"db": {"revisionId": "q"}}


def test_what_the_request_gives_wins_one_parameter_at_a_time() -> None:
    given = LaunchRequest(version=5, environment_id="prod", instance_name="n", parameters={"y": 9, "z": 3})
    request = with_revision(given, revision(parameters={"x": 1, "y": 2}))
    assert request.version == 5
    assert request.environment_id == "prod"
    assert request.instance_name == "n"
    assert request.parameters == {"x": 1, "y": 9, "z": 3}


KEPT = {"revisionId": "q", "manifestVersion": 2, "parameters": {"a": 1, "b": 2}, "submodules": {"in": {}}}


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        ({}, KEPT),
        ({"parameters": {"b": 3, "c": 4}}, KEPT | {"parameters": {"a": 1, "b": 3, "c": 4}}),
        ({"manifestVersion": 7}, KEPT | {"manifestVersion": 7}),
        ({"manifestVersion": None, "parameters": None}, KEPT),
        ({"revisionId": None}, KEPT | {"revisionId": None}),
        (
            {"submodules": {"in": {"manifestVersion": 1}, "more": {"manifestVersion": 2}}},
            KEPT | {"submodules": {"in": {"manifestVersion": 1}, "more": {"manifestVersion": 2}}},
        ),
        ({"revisionId": "p", "manifestVersion": 4}, KEPT | {"revisionId": "p", "manifestVersion": 4}),
        ("no object", "no object"),
    ],
)
def test_submodules_are_merged_one_by_one(given: Any, merged: Any) -> None:
    request = with_revision(LaunchRequest(submodules={"db": given}), revision(submodules={"db": KEPT, "web": KEPT}))
    assert request.submodules == {"db": merged, "web": KEPT}


def test_another_revision_of_a_submodule_brings_its_own_version() -> None:
    given = LaunchRequest(submodules={"db": {"revisionId": "p"}})
    request = with_revision(given, revision(submodules={"db": KEPT}))
    assert request.submodules["db"]["revisionId"] == "p"
    assert "manifestVersion" not in request.submodules["db"]


@pytest.mark.parametrize("read", [read_launch_request, read_configuration_request])
@pytest.mark.parametrize("name", ["parameters", "submodules"])
def test_a_request_has_a_bound_of_values(read: Callable[[Mapping[str, Any]], object], name: str) -> None:
    with pytest.raises(BadRequest, match="exceed 2 MiB"):
        read({name: {"p": list(range(40_000))}})
