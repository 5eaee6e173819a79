"""Every change of an application, revision, environment or service is in the audit log; secrets are not."""

from typing import Any

from tests.support.service import Api, accepted, fresh_name, refused


async def entries(api: Api, object_path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = accepted(await api.get(f"organizations/{api.organization}/audit", object=object_path))
    return found


async def operations(api: Api, object_path: str) -> list[str]:
    return sorted(entry["operation"] for entry in await entries(api, object_path))


async def test_changes_of_an_environment_are_recorded(api: Api) -> None:
    path = f"organizations/{api.organization}"
    environment = accepted(await api.post(f"{path}/environments", {"name": fresh_name("env")}))["id"]
    properties = {"properties": [{"name": "p", "value": "hunter2", "type": "string"}]}
    accepted(await api.put(f"environments/{environment}/name", {"name": fresh_name("env")}))
    accepted(await api.put_yaml(f"environments/{environment}", "policies: {a.b: hunter2}"))
    accepted(await api.put(f"environments/{environment}/markers", {"markers": [{"name": "m"}]}))
    accepted(await api.put(f"environments/{environment}/properties", properties))
    accepted(await api.put(f"environments/{environment}/services", {"services": []}))
    clone = accepted(await api.post(f"environments/{environment}/clone"))["id"]
    accepted(await api.put(f"{path}/defaultEnvironment", {"environmentId": clone}))
    accepted(await api.put(f"{path}/defaultEnvironment", {"environmentId": api.environment}))
    accepted(await api.delete(f"environments/{environment}"))
    assert await operations(api, f"/environments/{environment}") == [
        "create_environment",
        "delete_environment",
        "rename_environment",
        "replace_environment_services",
        "replace_markers",
        "replace_policies",
        "replace_properties",
    ]
    assert await operations(api, f"/environments/{clone}") == ["clone_environment", "set_default_environment"]
    [marked] = [e for e in await entries(api, f"/environments/{environment}") if e["operation"] == "replace_markers"]
    assert (marked["before"], marked["after"]) == ({"markers": []}, {"markers": [{"name": "m"}]})
    assert "hunter2" not in str(await entries(api, f"/environments/{environment}"))


async def test_changes_of_an_application_and_its_revisions_are_recorded(api: Api) -> None:
    application = await api.application("launch: {steps: []}")
    accepted(await api.put(f"applications/{application}", {"name": fresh_name("app")}))
    body = {"name": "r", "version": 1, "parameters": {"password": "hunter2"}}
    revision = accepted(await api.post(f"applications/{application}/revisions", body))["id"]
    accepted(await api.put(f"revisions/{revision}", {"version": 2}))
    accepted(await api.delete(f"revisions/{revision}"))
    accepted(await api.delete(f"applications/{application}"))
    assert await operations(api, f"/applications/{application}") == [
        "change_revision",
        "create_application",
        "create_revision",
        "delete_application",
        "delete_revision",
        "rename_application",
        "replace_manifest",
    ]
    found = await entries(api, f"/applications/{application}")
    [changed] = [entry for entry in found if entry["operation"] == "change_revision"]
    assert (changed["before"]["version"], changed["after"]["version"]) == (1, 2)
    assert changed["before"]["parameters"] == changed["after"]["parameters"] != {}
    assert "hunter2" not in str(found)


async def test_changes_of_a_service_and_its_commands_are_recorded(api: Api) -> None:
    parameters = {
        "configuration.provider": "aws-ec2",
        "configuration.identity": "AKIA",
        "configuration.credential": "hunter2",
    }
    body = {"name": "Cloud", "typeId": "builtin:cloud_account", "parameters": parameters}
    account = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    accepted(await api.put(f"services/{account}", {"parameters": {"configuration.credential": "hunter3"}}))
    accepted(await api.delete(f"services/{account}"))
    found = await entries(api, f"/services/{account}")
    assert await operations(api, f"/services/{account}") == ["create_service", "delete_service", "update_service"]
    [updated] = [entry for entry in found if entry["operation"] == "update_service"]
    changed = {
        name for name, value in updated["after"]["parameters"].items() if updated["before"]["parameters"][name] != value
    }
    assert changed == {"configuration.credential"}
    assert "hunter" not in str(found)


async def test_a_command_is_recorded_once_and_only_when_it_changes_something(api: Api) -> None:
    body = {
        "name": "Hosts",
        "typeId": "builtin:static_resource_pool",
        "parameters": {"configuration.resources": ["a"]},
    }
    pool = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    accepted(await api.post(f"services/{pool}/list"))
    accepted(await api.post(f"services/{pool}/acquire", {"arguments": {"holder": "x"}}))
    waited = await api.post(f"services/{pool}/acquire", {"arguments": {"holder": "y", "timeout": 1}})
    assert waited.status_code == 409
    ran = [entry["after"] for entry in await entries(api, f"/services/{pool}") if "run" in entry["operation"]]
    assert [after["command"] for after in ran] == ["acquire", "acquire"]
    assert {frozenset(after["arguments"]) for after in ran} == {frozenset(["holder"]), frozenset(["holder", "timeout"])}


async def test_what_is_refused_is_not_recorded(api: Api) -> None:
    application = await api.application()
    environment = accepted(await api.post(f"environments/{api.environment}/clone"))["id"]
    reader = await api.member("Read: [/*]")
    refused(await api.put_yaml(f"environments/{environment}", "nothing"), 400)
    refused(await api.put(f"environments/{environment}/name", {"name": "default"}), 400)
    refused(await reader.put(f"environments/{environment}/markers", {"markers": []}), 403)
    refused(await api.put(f"applications/{application}", {"name": " "}), 400)
    refused(await api.post(f"applications/{application}/revisions", {"name": "r", "version": 9}), 400)
    assert await operations(api, f"/environments/{environment}") == ["clone_environment"]
    assert await operations(api, f"/applications/{application}") == ["create_application"]
