"""The public manifests reconfigured, with what their text says must come of it.

What Chef is given, and what is passed to stand-ins, is looked at too: there the values of pins arrive.
"""

from typing import Any

import pytest

from launchbay.manifest.compiler import compile_manifest
from tests.support.applications import (
    destroyed,
    given_to_chef,
    is_public,
    reconfigured,
    stand_ins,
)
from tests.support.manifests import (
    ACTIONS,
)
from tests.support.public_manifests import (
    DATABASE,
    MAIN,
    MAIN_NEEDS,
    MONGO,
    MYSQL,
    PETCLINIC,
    TOMCAT,
    ZABBIX,
    launched_public,
    text_of,
)
from tests.support.service import Api, accepted, fresh_name

CHILD, ROOT, ROOT_W = (f"qubell_portal_sample--manifests-{name}" for name in ("child", "root", "root_w"))
TRIGGERED = "contrib-python-qubell-client--qubellclient-tests-instance-reconfiguration-workflow-trigger_on_param"
MARKED = "contrib-python-qubell-client--qubellclient-tests-environment-marker-property"
COVERED = {"password": "********"}


def names(document: Any) -> list[str]:
    return [job["name"] for job in document["workflowHistory"]]


async def test_mysql_keeps_its_signals_until_a_workflow_runs_and_that_sees_the_new_port(dry: Api) -> None:
    document = await launched_public(dry, MYSQL)
    instance, first = document["id"], document["returnValues"]
    other = {"configuration.db-port": 3307, "configuration.db-root-password": "other"}
    document = await reconfigured(dry, instance, 2, **other)
    assert document["returnValues"] == first  # nothing has a trigger
    arguments = {"db-user": "bay", "db-user-password": "pa55", "db-user-privileges": '["all"]'}
    await dry.run(instance, "database.schema", **arguments)
    attributes = await given_to_chef(dry, instance, "create-user")
    assert attributes["mysql"]["db-port"] == 3307
    assert attributes["mysql_component"] == {
        "schema": {"dbname": "bay", "username": "bay", "privileges": ["all"], "action": "grant", **COVERED},
        "hosts": ["%"],
    }
    document = await dry.run(instance, "launch")
    host = first["database.db-host"]
    assert document["returnValues"] == {
        "database.db-host": host,
        "database.db-port": 3307,
        "database.dbms": {
            "db-admin-uri": f"mysql://root:other@{host}:3307",
            "db-type": "mysql",
            "db-root-user": "root",
            "db-root-password": "other",
            "db-host": host,
            "db-port": 3307,
            "db-driver": "com.mysql.jdbc.Driver",
        },
    }
    await destroyed(dry, instance)


async def test_tomcat_follows_its_port(dry: Api) -> None:
    document = await launched_public(dry, TOMCAT)
    instance, first = document["id"], document["returnValues"]
    assert first["tomcat.app-port"] == 8080
    document = await reconfigured(dry, instance, 2, **{"configuration.app-port": 9090})
    assert document["returnValues"] == first | {"tomcat.app-port": 9090}
    assert (await given_to_chef(dry, instance, "install-tomcat"))["tomcat"] == {"port": 9090, "java_options": ""}
    document = await dry.run(instance, "tomcat.manage-service", **{"service-action": "restart"})
    assert (await given_to_chef(dry, instance, "run-service-action"))["base"] == {
        "manage": {"services": ["tomcat6"], "action": "restart"}
    }
    document = await reconfigured(dry, instance, 4)
    assert document["returnValues"] == first
    await destroyed(dry, instance)


async def test_tomcat_deploys_the_source_that_a_command_names(dry: Api) -> None:
    document = await launched_public(dry, TOMCAT)
    instance = document["id"]
    arguments = {
        "uri": "http://x.example/a.war",
        "path": "/a",
        "java-options": "-Xmx1g",
        "add-java-options": "-Dx=1",
        "context-attrs": '{"docBase": "a"}',
        "context-nodes": '[{"Resource": {}}]',
        "lib-uri": '["http://x/l"]',
    }
    document = await dry.run(instance, "tomcat.updateSource", **arguments)
    assert document["workflowHistory"][0]["status"] == "Succeeded", document["errorMessage"]
    assert (await given_to_chef(dry, instance, "deploy-war"))["cookbook-qubell-tomcat"] == {
        "war": {"uri": "http://x.example/a.war", "path": "/a"},
        "context": {"context_attrs": {"docBase": "a"}, "context_nodes": [{"Resource": {}}]},
    }
    assert (await given_to_chef(dry, instance, "deploy-libs"))["cookbook-qubell-tomcat"] == {"lib_uri": ["http://x/l"]}
    assert (await given_to_chef(dry, instance, "reconfigure-tomcat"))["tomcat"] == {
        "port": 8080,
        "java_options": "-Xmx1g",
    }
    await destroyed(dry, instance)


async def test_mongodb_grows_when_its_recipe_changes_with_its_quantity(dry: Api) -> None:
    document = await launched_public(dry, MONGO)
    instance, [host] = document["id"], document["returnValues"]["mongo.hosts"]
    document = await reconfigured(dry, instance, 2, **{"configuration.quantity": 3})
    assert document["returnValues"]["mongo.hosts"] == [host]  # a quantity has no trigger
    other = {"configuration.quantity": 3, "configuration.recipe-url": "http://x.example/recipes.tar.gz"}
    document = await reconfigured(dry, instance, 3, **other)
    hosts = document["returnValues"]["mongo.hosts"]
    assert (len(set(hosts)), hosts[0]) == (3, host)
    assert all(map(is_public, hosts))
    await destroyed(dry, instance)


async def test_the_hierarchical_applications_hand_parameters_down(dry: Api) -> None:
    await dry.application(text_of(DATABASE), name=MAIN_NEEDS)
    document = await launched_public(dry, MAIN, parameters={"input.app-tier-size": "2"})
    instance, first = document["id"], document["returnValues"]
    assert len(first["server.app-hosts"]) == 2
    [child] = [part["instanceId"] for part in document["components"] if "instanceId" in part]
    document = await reconfigured(
        dry, instance, 2, **{"input.db-app-branch": "red", "input.web-app-fork": "bay", "input.app-tier-size": "2"}
    )
    assert document["returnValues"] == first
    seen = await dry.document(child)
    assert seen["parameters"] == {"input.app-fork": "qubell", "input.app-branch": "red"}
    assert seen["returnValues"] == {"output.db-hosts": first["server.db-hosts"]}
    await dry.run(instance, "manage.update", **{"app-fork": "other", "app-branch": "HEAD"})
    await destroyed(dry, instance)


async def test_the_database_of_the_hierarchical_application_stands_alone(dry: Api) -> None:
    document = await launched_public(dry, DATABASE)
    [host] = document["returnValues"]["output.db-hosts"]
    assert is_public(host)
    document = await reconfigured(dry, document["id"], 2, **{"input.app-fork": "bay"})
    assert document["returnValues"] == {"output.db-hosts": [host]}
    document = await dry.run(document["id"], "launch")
    # `quantity` adds: the first machine stays, and `ips` are all of the role.
    assert document["returnValues"]["output.db-hosts"][0] == host
    assert len(document["returnValues"]["output.db-hosts"]) == 2
    deploy = await given_to_chef(dry, document["id"], "deploy-database")
    assert "raw.github.com/bay/" in deploy["database"]["schema"]
    await destroyed(dry, document["id"])


async def test_root_shows_its_parameters_and_launches_its_child_with_its_own(dry: Api) -> None:
    await dry.application(text_of(CHILD), name="child")
    document = await launched_public(dry, ROOT)
    instance = document["id"]
    assert document["returnValues"] == {
        "the-show.m": {"key": "value"},
        "the-show.i": 7,
        "the-show.l": ["item1", "item2"],
    }
    [child] = [part for part in document["components"] if "instanceId" in part]
    assert child["name"] == "references.submodules.monitor-child"
    assert (await dry.document(child["instanceId"]))["status"] == "Running"
    document = await reconfigured(dry, instance, 2, **{"init.i": 9, "init.m": {"a": "b"}})
    assert document["returnValues"]["the-show.i"] == 7
    document = await dry.run(instance, "launch")
    assert document["returnValues"] == {"the-show.m": {"a": "b"}, "the-show.i": 9, "the-show.l": ["item1", "item2"]}
    await destroyed(dry, instance)
    assert (await dry.document(child["instanceId"]))["status"] == "Destroyed"


async def test_the_parameters_of_the_child_can_be_given_for_the_parent_maps_none(dry: Api) -> None:
    await dry.application(text_of(CHILD), name="child_w")
    given = {"init.l": ["x"], "init.e": {"any": [1]}}
    document = await launched_public(dry, ROOT_W, submodules={"monitor-child": {"parameters": given}})
    [child] = [part["instanceId"] for part in document["components"] if "instanceId" in part]
    assert document["returnValues"] == {}
    shown = (await dry.document(child))["parameters"]
    defaults = {"init.s": "some sub string", "init.i": 9, "init.m": {"sub-key": "sub-value"}}
    assert shown == defaults | given
    other = {"submodules": {"references.submodules.monitor-child": {"parameters": {"init.s": "y"}}}}
    accepted(await dry.put(f"instances/{document['id']}/configuration", other))
    await dry.settled(document["id"])
    shown = (await dry.document(child))["parameters"]
    assert shown["init.s"] == "y"
    assert shown["init.l"] != given["init.l"], "the others have their defaults again"
    await destroyed(dry, document["id"])


async def test_only_the_pin_with_a_trigger_runs_the_update(dry: Api) -> None:
    document = await launched_public(dry, TRIGGERED)
    instance = document["id"]
    document = await reconfigured(dry, instance, 2, **{"in.app_input": "other"})
    assert document["returnValues"] == {"out.app_output": "Hello from BASE WORKFLOW manifest"}
    document = await reconfigured(dry, instance, 3, **{"in.app_trigger": "UPDATED"})
    assert document["returnValues"] == {"out.app_output": "UPDATED by update workflow"}
    document = await dry.run(instance, "launch")
    assert document["returnValues"] == {"out.app_output": "Hello from BASE WORKFLOW manifest"}
    await destroyed(dry, instance)


async def test_changed_properties_are_shown_by_a_launch_after_the_reconfiguration(dry: Api) -> None:
    environment = accepted(await dry.post(f"organizations/{dry.organization}/environments", {"name": fresh_name()}))
    path = f"environments/{environment['id']}"
    accepted(await dry.put(f"{path}/markers", {"markers": [{"name": "test-marker"}]}))
    properties: list[dict[str, Any]] = [
        {"name": "sample-property-str", "type": "string", "value": "text"},
        {"name": "sample-property-int", "type": "int", "value": 42},
        {"name": "sample-property-obj", "type": "object", "value": {"aa": "bb"}},
    ]
    accepted(await dry.put(f"{path}/properties", {"properties": properties}))
    document = await launched_public(dry, MARKED, environmentId=environment["id"])
    instance = document["id"]
    properties[1]["value"] = 43
    accepted(await dry.put(f"{path}/properties", {"properties": properties}))
    assert (await dry.run(instance, "launch"))["returnValues"]["output.int"] == 42
    await reconfigured(dry, instance, 3)
    document = await dry.run(instance, "launch")
    assert document["returnValues"] == {"output.str": "text", "output.int": 43, "output.obj": {"aa": "bb"}}
    await destroyed(dry, instance)


GROWING = (
    '"configuration.triggers": {"own.input-quantity": "grow"}, "configuration.workflows": {"grow": {"steps": [], '
    '"return": {"tomcat-app-hosts": {"value": ["one of {$.input-quantity}"]}}}, '
)


@pytest.mark.slow
async def test_petclinic_deploys_again_when_its_tier_grows_or_its_branch_changes(dry: Api) -> None:
    manifest = compile_manifest(text_of(PETCLINIC).encode(), known_actions=ACTIONS)
    locators = {locator: fresh_name("petclinic's") for locator in stand_ins(manifest)}
    text = text_of(PETCLINIC)
    played = stand_ins(manifest)
    # Its hosts follow its quantity.
    played["Application Server"] = (
        played["Application Server"]
        .replace('"configuration.workflows": {', GROWING, 1)
        .replace('["the tomcat-app-hosts"]', '["one of {$.input-quantity}"]')
    )
    for locator, stand_in in played.items():
        await dry.application(stand_in, name=locators[locator])
        text = text.replace(
            f'__locator.application-id: "{locator}"', f'__locator.application-id: "{locators[locator]}"'
        )
    document = await dry.settled(await dry.running(text))
    instance = document["id"]
    assert document["returnValues"]["endpoints.app"] == ["one of 1"]
    assert document["returnValues"]["endpoints.entry"] == "the entry-url"
    document = await reconfigured(dry, instance, 3, **{"input.app-quantity": 3})
    assert names(document) == ["app-scale", "reconfigure", "launch"]
    assert document["returnValues"]["endpoints.app"] == ["one of 3"]
    document = await reconfigured(dry, instance, 4, **{"input.app-quantity": 3, "input.app-branch": "red"})
    ran = [step["name"] for step in accepted(await dry.get(f"instances/{instance}/jobs"))[0]["steps"]]
    assert {"build-app", "deploy-libs", "deploy-war"} <= set(ran)
    assert "lb-reconfigure-servers" not in ran
    [server] = [part["instanceId"] for part in document["components"] if part["name"] == "AppServer"]
    # What the workflows of the parent passed on: launch, growth and branch have each built and deployed once.
    assert names(await dry.document(server)).count("tomcat.build-app") == 3
    await destroyed(dry, instance)


async def test_zabbix_shows_its_new_credentials_after_another_launch(dry: Api) -> None:
    name = fresh_name("Database of Zabbix")
    text = text_of(ZABBIX).replace('"Database"', f'"{name}"')
    for stand_in in stand_ins(compile_manifest(text.encode(), known_actions=ACTIONS)).values():
        await dry.application(stand_in, name=name)
    instance = await dry.running(text)
    other = {"input.web-credentials": {"login": "bay", "password": "pa55"}}
    document = await reconfigured(dry, instance, 2, **other)
    assert document["returnValues"]["zabbix.web-ui-user"] == "admin"
    arguments = {"connection": '{"url": "http://x.example"}', "method": "host.get", "api-params": '{"limit": 1}'}
    await dry.run(instance, "zabbix.api", **arguments)
    assert (await given_to_chef(dry, instance, "run-api-command"))["zabbix"] == {
        "server_connection": {"url": "http://x.example"},
        "method": "host.get",
        "parameters": {"limit": 1},
    }
    document = await dry.run(instance, "launch")
    assert {key: document["returnValues"][f"zabbix.{key}"] for key in ("web-ui-user", "web-ui-password")} == {
        "web-ui-user": "bay",
        "web-ui-password": "pa55",
    }
    assert document["returnValues"]["zabbix.api-connection"] == {
        "url": "http://zabbix.bay.example/api_jsonrpc.php",
        "user": "bay",
        "password": "pa55",
    }
    await destroyed(dry, instance)
