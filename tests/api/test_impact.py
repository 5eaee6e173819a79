"""What a version would do to the live instances of an application."""

from typing import Any

from tests.support.applications import picky
from tests.support.service import YAML, Api, accepted, refused


async def test_instances_are_grouped_by_what_a_version_does_to_them(api: Api) -> None:
    application = await api.application(picky())
    plain = [await api.launch(application) for _ in range(2)]
    given = await api.launch(application, parameters={"input.size": 0})
    for instance in (*plain, given):
        await api.settled(instance)
    accepted(
        await api.put_yaml(f"applications/{application}/manifest", picky().replace("input.size: 1", "input.size: 2"))
    )
    found: Any = accepted(await api.get(f"applications/{application}/impact"))
    assert (found["version"], found["changes"], found["keeps"], found["fails"], found["present"]) == (3, 2, 1, 0, 0)
    changes, keeps = found["groups"]
    assert changes["components"] == [{"path": "worker", "change": "changes", "parameters": ["input.size"]}]
    assert changes["workflows"] == ["worker#resize"]
    assert {each["id"] for each in changes["instances"]} == set(plain)
    assert [each["id"] for each in keeps["instances"]] == [given]
    present = accepted(await api.get(f"applications/{application}/impact", version=2))
    assert (present["present"], present["groups"]) == (3, [])


async def test_an_unsaved_manifest_names_the_instances_that_would_fail(api: Api) -> None:
    application = await api.application(picky())
    instance = await api.launch(application, parameters={"input.size": 0})
    await api.settled(instance)
    text = picky().replace("input.size", "input.amount").replace("{size:", "{amount:").replace("$.size", "$.amount")
    answer = await api.send("POST", f"applications/{application}/impact", text.encode(), **YAML)
    found = accepted(answer)
    assert (found["version"], found["fails"], found["changes"]) == (None, 1, 0)
    assert "Unknown parameter 'input.size'" in found["groups"][0]["errors"][0]
    assert accepted(await api.get(f"applications/{application}"))["version"] == 2
    broken = await api.send("POST", f"applications/{application}/impact", b"launch: 3", **YAML)
    refused(broken, 400)


async def test_only_instances_that_the_caller_may_read_count(api: Api) -> None:
    application = await api.application(picky())
    instance = await api.launch(application)
    await api.settled(instance)
    accepted(await api.put_yaml(f"applications/{application}/manifest", picky("second")))
    reader = await api.member(f"Read: [/applications/{application}]")
    seen = accepted(await reader.get(f"applications/{application}/impact"))
    assert (seen["version"], seen["groups"]) == (3, [])
    all_reader = await api.member("Read: [/*]")
    assert accepted(await all_reader.get(f"applications/{application}/impact"))["keeps"] == 1
    refused(await (await api.member()).get(f"applications/{application}/impact"), 403)
