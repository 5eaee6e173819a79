"""User data of an instance (reference §4, userData)."""

from typing import Any

import pytest

from launchbay import limits
from tests.support.service import Api, accepted, refused


@pytest.fixture(scope="module")
async def instance(api: Api) -> str:
    return await api.running(None)


@pytest.mark.parametrize(
    "data",
    [
        {"ticket": "OPS-17", "tags": ["blue", "green"]},
        {"zebra": 1, "apple": {"deep": [None, True, 1.5, {"x": []}]}},
        {"": "an empty key", "Ünï 🚀": "ö", "a.b": '\n\t"quoted"'},
        {},
    ],
    ids=["strings", "deep", "odd", "empty"],
)
async def test_data_replaces_what_was_there_and_comes_back_as_it_was(
    api: Api, instance: str, data: dict[str, Any]
) -> None:
    path = f"instances/{instance}/userData"
    accepted(await api.put(path, {"before": "x"}))
    assert accepted(await api.put(path, data)) == {}
    shown = (await api.document(instance))["userData"]
    assert shown == data
    assert list(shown) == list(data)


async def test_an_instance_has_no_user_data_at_first(api: Api) -> None:
    assert (await api.document(await api.launch(await api.application())))["userData"] == {}


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'["a"]',
        b'"x"',
        b"5",
        b"null",
        b"true",
        b"{1: 2}",
        b"{'a': 1}",
        b'{"a": 1',
        b"",
        b'{"a":1,"a":2}',
        b"\xff",
    ],
    ids=repr,
)
async def test_anything_but_an_object_with_plain_keys_is_400_and_changes_nothing(
    api: Api, instance: str, body: bytes
) -> None:
    path = f"instances/{instance}/userData"
    accepted(await api.put(path, {"kept": "yes"}))
    refused(await api.send("PUT", path, body, content_type="application/json"), 400)
    assert (await api.document(instance))["userData"] == {"kept": "yes"}


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-yaml", "application/x-www-form-urlencoded"])
async def test_another_content_type_is_400(api: Api, instance: str, content_type: str) -> None:
    answer = await api.send("PUT", f"instances/{instance}/userData", b"{}", content_type=content_type)
    refused(answer, 400, "WrongContentType")


async def test_more_than_the_bound_is_413_and_the_bound_counts_bytes(api: Api, instance: str) -> None:
    path = f"instances/{instance}/userData"
    room = limits.USER_DATA_BYTES - len('{"x":""}')
    accepted(await api.put(path, {"x": "a" * room}))
    assert str(limits.USER_DATA_BYTES) in refused(await api.put(path, {"x": "a" * (room + 1)}), 413, "TooLarge")
    refused(await api.put(path, {"x": "ö" * (room // 2 + 1)}), 413, "TooLarge")
    accepted(await api.put(path, {"x": "ö" * (room // 2)}))


async def test_data_can_be_put_while_a_job_runs_and_after_the_end(api: Api) -> None:
    instance = await api.launch(await api.application("launch: {steps: [{s: {action: wait, parameters: {delay: 1}}}]}"))
    accepted(await api.put(f"instances/{instance}/userData", {"when": "launching"}))
    assert (await api.settled(instance))["userData"] == {"when": "launching"}
    await api.run(instance, "destroy")
    accepted(await api.put(f"instances/{instance}/userData", {"when": "destroyed"}))
    assert (await api.document(instance))["userData"] == {"when": "destroyed"}


async def test_it_needs_the_permission_to_edit(api: Api, instance: str) -> None:
    path = f"instances/{instance}/userData"
    editor, runner = await api.member("EditInstance: [/applications/*]"), await api.member("RunInstanceWorkflow: [/*]")
    accepted(await editor.put(path, {"by": "editor"}))
    assert "EditInstance" in refused(await runner.put(path, {"by": "runner"}), 403, "NotAllowed")
    assert (await api.document(instance))["userData"] == {"by": "editor"}
