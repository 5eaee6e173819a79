"""Each change that a policy leaves to change sets is in one, or the refusal says that no change set contains it."""

from typing import Any

from launchbay.features.change_sets.rules import WITHOUT_CHANGE_SET, is_covered
from launchbay.model.changes import GOVERNED
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, fresh_name, own_service

api = own_service  # whose administrator administers the server

# By an act of change sets: what it does under the names of these operations.
_OF_INSTANCES = {
    "launch_application": "launch",
    "reconfigure_instance": "reconfigure",
    "take_over_instance": "manage",
    "rollback_instance": "reconfigure, with the former parameters and version",
    "delete_instance": "destroy; who deletes by force destroys",
}
_BY_DIRECTORY = {
    *("set_default_environment", "delete_environment", "replace_policies", "replace_markers", "replace_properties"),
    *("replace_environment_services", "replace_environment_lifetime", "replace_environment_sleep"),
    *("replace_environment_concurrency", "put_environment_labels"),
}
# They are of an application and no environment, so that no policy is asked.
_OF_APPLICATIONS = {
    *("rename_application", "delete_application", "replace_manifest", "set_manifest_source", "refresh_manifest"),
    *("replace_application_lifetime", "replace_application_sleep", "replace_application_concurrency"),
    *("put_application_labels", "set_failure_policy", "create_revision", "change_revision", "delete_revision"),
}


def test_each_operation_that_a_policy_is_about_is_in_a_change_set_or_says_that_it_is_not() -> None:
    asked = {operation for operation, kind in GOVERNED.items() if is_covered(kind, None)} - _OF_APPLICATIONS
    contained = {*_OF_INSTANCES, *_BY_DIRECTORY}
    assert contained & WITHOUT_CHANGE_SET == set()
    assert asked == contained | WITHOUT_CHANGE_SET


async def test_a_directory_makes_each_change_of_an_environment_that_is_said_to_be_in_one(api: Api) -> None:
    organization = accepted(await api.post("organizations", {"name": fresh_name("covered")}))["id"]
    home = f"organizations/{organization}"
    service = fresh_name("cache")
    parameters = {"configuration.resources": ["one"]}
    made = {"name": service, "typeId": "builtin:static_resource_pool", "parameters": parameters}
    accepted(await api.post(f"{home}/services", made))
    name, other = fresh_name("covered"), fresh_name("left")
    for each in (name, other):
        accepted(await api.post(f"{home}/environments", {"name": each}))
    content = f"""
default: true
policies: {{ a.b: c }}
markers: [blue]
properties: [{{ name: size, type: string, value: big }}]
services: ["{service}"]
labels: {{ team: web }}
rules:
  lifetime: {{ graceMs: 60000 }}
  sleep: {{ windows: [{{ sleepAt: "20:00", wakeAt: "07:00" }}] }}
  concurrency: [{{ limit: 20 }}]
"""
    await applied(api, home, {f"environments/{name}.yaml": content})
    await applied(api, home, {f"environments/{name}.yaml": content}, prune=True)
    entries = accepted(await api.get(f"{home}/audit?limit=500"))
    assert {each["operation"] for each in entries} >= _BY_DIRECTORY


async def applied(api: Api, home: str, files: dict[str, str], **more: Any) -> None:
    """Apply a directory by a change set."""
    body = {"act": "apply", "files": files, **more}
    made = accepted(await api.post(f"{home}/change-sets", body))["id"]
    accepted(await api.post(f"change-sets/{made}/apply", {}))
    found = await eventually(lambda: api.read(f"change-sets/{made}"), lambda found: found["status"] != "Applying")
    assert found["status"] == "Succeeded"
