"""The public manifests through the API: all are accepted, and those that need no machine or submodule run."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.manifests import (
    PUBLIC,
)
from tests.support.public_manifests import (
    DESERVED,
    RUNS,
    text_of,
)
from tests.support.service import YAML, Api, accepted, refused

# Their commands, with what they return.
COMMANDS: dict[str, dict[str, dict[str, Any]]] = {
    "contrib-python-qubell-client--integration_tests-default": {
        "action.default": {"out.app_output": "Action WF launched"}
    },
    "contrib-python-qubell-client--qubellclient-tests-instance-reconfiguration-workflow-trigger_on_param": {
        "action.gogogo": {"out.app_output": "Action GOGO launched"}
    },
}
# What is known only with the actions: logLevel of chefrun, in update; an alias repeats it in launch.
MISTYPED = {"component-mongodb--component-mongodb": [("UnknownStepParameter", line) for line in (76, 87, 108)]}
MARKED = "contrib-python-qubell-client--qubellclient-tests-environment-marker-property"


@pytest.mark.parametrize("path", PUBLIC.values(), ids=PUBLIC)
async def test_it_is_accepted_with_only_the_warnings_that_it_deserves(api: Api, path: Path) -> None:
    content = path.read_bytes()
    answer = await api.send("POST", "manifests/validate", content, **{"Content-Type": YAML["Content-Type"]})
    findings = accepted(answer)
    assert findings["errors"] == []
    warnings = [(found["code"], found["line"]) for found in findings["warnings"]]
    assert warnings == DESERVED.get(path.stem, []) + MISTYPED.get(path.stem, [])
    application = await api.application()
    where = f"applications/{application}/manifest?include=warnings"
    answer = await api.send("PUT", where, content, content_type="application/x-yaml")
    assert accepted(answer) == {"version": 2} | ({"warnings": findings["warnings"]} if warnings else {})


@pytest.mark.parametrize("stem", RUNS)
async def test_it_runs_and_returns_what_it_should(api: Api, stem: str) -> None:
    instance = await api.launch(await api.application(text_of(stem)))
    document = await api.settled(instance)
    assert (document["status"], document["errorMessage"]) == ("Running", None)
    assert document["returnValues"] == RUNS[stem]
    commands = COMMANDS.get(stem, {})
    assert set(document["availableWorkflows"]) == {"launch", "destroy", *commands}
    for command, expected in commands.items():
        document = await api.run(instance, command)
        assert document["workflowHistory"][0]["status"] == "Succeeded"
        assert document["returnValues"] == expected
    accepted(await api.put(f"instances/{instance}/configuration", {}))
    before, document = document, await api.settled(instance)
    assert (document["status"], document["returnValues"]) == ("Running", before["returnValues"])
    assert document["workflowHistory"][0]["name"] == "reconfigure"
    document = await api.run(instance, "destroy")
    assert (document["status"], document["workflowHistory"][0]["status"]) == ("Destroyed", "Succeeded")


async def test_a_given_parameter_is_returned_in_place_of_the_default(api: Api) -> None:
    application = await api.application(text_of("contrib-python-qubell-client--integration_tests-default"))
    instance = await api.launch(application, parameters={"in.app_input": "UPDATED by test"})
    assert (await api.settled(instance))["returnValues"] == {"out.app_output": "UPDATED by test"}


async def test_markers_and_properties_of_the_environment_reach_the_instance(api: Api) -> None:
    application = await api.application(text_of(MARKED))
    sentences = refused(await api.post(f"applications/{application}/launch", {}), 400)
    for name in ("test-marker", "sample-property-str", "sample-property-int", "sample-property-obj"):
        assert name in sentences
    created = await api.post(f"organizations/{api.organization}/environments", {"name": "marked"})
    environment = accepted(created)["id"]
    accepted(await api.put(f"environments/{environment}/markers", {"markers": [{"name": "test-marker"}]}))
    properties = [
        {"name": "sample-property-str", "type": "string", "value": "test-property-string"},
        {"name": "sample-property-int", "type": "int", "value": 42},
        {"name": "sample-property-obj", "type": "object", "value": {"aa": "bb", "deep": [1, None]}},
    ]
    accepted(await api.put(f"environments/{environment}/properties", {"properties": properties}))
    document = await api.settled(await api.launch(application, environmentId=environment))
    assert (document["status"], document["errorMessage"]) == ("Running", None)
    assert document["returnValues"] == {
        "output.str": "test-property-string",
        "output.int": 42,
        "output.obj": {"aa": "bb", "deep": [1, None]},
    }
