"""The public manifests that need machines, on dry-run machines: launched, commanded, scaled, reconfigured, destroyed.

Submodules that nobody has published are played by stand-ins with the pins that the manifest asks for.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launchbay.manifest.compiler import compile_manifest
from launchbay.manifest.graph import SERVICE
from launchbay.manifest.services import markers, properties
from tests.support.applications import (
    destroyed,
    finished,
    given_to_chef,
    is_public,
    offered,
    stand_ins,
    with_stand_ins,
)
from tests.support.manifests import (
    ACTIONS,
    PUBLIC,
)
from tests.support.public_manifests import (
    DATABASE,
    DOCKER,
    HAPROXY,
    MAIN,
    MAIN_NEEDS,
    MONGO,
    MYSQL,
    PETCLINIC,
    TESTER,
    TOMCAT,
    ZABBIX,
    ZOOKEEPER,
    launched_public,
    text_of,
)
from tests.support.service import Api, accepted, fresh_name

CLIENT, SERVED = (f"contrib-python-qubell-client--integration_tests-{name}" for name in ("client", "service"))
VALUES: dict[str, Any] = {"string": "text", "int": 42, "object": {"aa": "bb"}, "map<string,string>": {"a": "b"}}


async def test_docker_networking_makes_a_cluster_and_enlarges_it(dry: Api) -> None:
    document = await launched_public(dry, DOCKER)
    hosts = document["returnValues"]["endpoints.hosts"]
    assert len(set(hosts)) == 3
    assert all(map(is_public, hosts))
    assert document["returnValues"]["endpoints.etcd"] == [f"http://{ip}:2379/v2/keys/docker/nodes" for ip in hosts]
    instance = document["id"]
    larger = {"parameters": {"configuration.memberTargetQuantity": 4}}
    accepted(await dry.put(f"instances/{instance}/configuration", larger))
    document = await finished(dry, instance, 2)
    assert document["returnValues"]["endpoints.hosts"][:3] == hosts
    assert len(document["returnValues"]["endpoints.hosts"]) == 4
    await destroyed(dry, instance)


async def test_mongodb_installs_and_runs_scripts(dry: Api) -> None:
    document = await launched_public(dry, MONGO, parameters={"configuration.quantity": 3})
    assert document["returnValues"]["mongo.url"] == "mongodb://bay"
    assert len(document["returnValues"]["mongo.hosts"]) == 3
    document = await dry.run(document["id"], "mongo.run-js", script_url="http://x.example/a.js")
    assert document["workflowHistory"][0]["status"] == "Succeeded"
    await destroyed(dry, document["id"])


async def test_mysql_gives_its_address_and_makes_schemas(dry: Api) -> None:
    document = await launched_public(dry, MYSQL)
    values = document["returnValues"]
    host = values["database.db-host"]
    assert is_public(host)
    assert values["database.db-port"] == 3306
    assert values["database.dbms"]["db-admin-uri"] == f"mysql://root:uR1zaebah0Qu@{host}:3306"
    instance = document["id"]
    arguments = {"db-user": "bay", "db-user-password": "pa55", "db-user-privileges": '["all"]'}
    for command, given in {
        "database.schema": arguments,
        "database.db": {"db-name": "bay", "db-action": "create"},
        "database.user": {**arguments, "app-hosts": '["%"]', "db-name": "bay", "user-action": "grant"},
        "database.file-query": {"connection": '{"db-name": "bay"}', "sql-url": '["http://x.example/a.sql"]'},
    }.items():
        document = await dry.run(instance, command, **given)
        assert document["workflowHistory"][0]["status"] == "Succeeded", command
    await destroyed(dry, instance)


async def test_haproxy_gives_its_entry_urls_and_follows_its_configuration(dry: Api) -> None:
    document = await launched_public(dry, HAPROXY)
    values = document["returnValues"]
    host = values["haproxy.lb-stats"]["lb-host"]
    assert is_public(host)
    assert values["haproxy.entry-urls"] == ["http://bay.example:80"]
    assert values["haproxy.stats-url"] == f"http://admin:pa55w0rd@{host}:1926/admin?stats"
    other = {"parameters": {"configuration.stats-port": 2000}}
    accepted(await dry.put(f"instances/{document['id']}/configuration", other))
    document = await finished(dry, document["id"], 2)
    assert document["returnValues"]["haproxy.stats-url"] == f"http://admin:pa55w0rd@{host}:2000/admin?stats"
    again = {"parameters": {"configuration.stats-url": "/figures"}}
    accepted(await dry.put(f"instances/{document['id']}/configuration", again))
    document = await finished(dry, document["id"], 3)
    assert document["returnValues"] == {
        "haproxy.lb-stats": {
            "lb-host": host,
            "lb-statistics-url": f"http://{host}:1926/figures",
            "stats-user": "admin",
            "stats-pass": "pa55w0rd",
        },
        "haproxy.stats-url": f"http://admin:pa55w0rd@{host}:1926/figures",
        "haproxy.entry-urls": ["http://bay.example:80"],
    }
    await destroyed(dry, document["id"])


async def test_zookeeper_scales_by_command_and_by_configuration(dry: Api) -> None:
    document = await launched_public(dry, ZOOKEEPER)
    values = document["returnValues"]
    hosts = values["zoo.zoo-hosts"]
    assert len(hosts) == len(values["zoo.zoo-nodes"]) == 3
    assert values["zoo.zoo-ui"] == [f"http://{ip}:8090/exhibitor/v1/ui/index.html" for ip in hosts]
    assert values["zoo.zoo-urls"] == "zk://bay:2181"
    instance = document["id"]
    await dry.run(instance, "scale.set-quantity", quantity="5")
    document = await finished(dry, instance, 3)  # the new machines trigger an update
    assert document["returnValues"]["zoo.zoo-hosts"][:3] == hosts
    assert len(document["returnValues"]["zoo.zoo-hosts"]) == 5
    accepted(await dry.put(f"instances/{instance}/configuration", {"parameters": {"configuration.clusterSize": 2}}))
    document = await finished(dry, instance, 4)
    assert document["returnValues"]["zoo.zoo-hosts"] == hosts[:2]
    await destroyed(dry, instance)


async def test_a_preview_names_the_members_that_start_and_stop(dry: Api) -> None:
    application = await dry.application(text_of(ZOOKEEPER))
    shown = accepted(await dry.post(f"applications/{application}/launch/preview", {}))
    members = {f"cluster.compute[{number}]" for number in range(3)}
    assert {found["path"] for found in shown["components"] if found["change"] == "starts"} >= members
    document = await dry.settled(await dry.launch(application))
    other = {"parameters": {"configuration.clusterSize": 1}}
    shown = accepted(await dry.post(f"instances/{document['id']}/configuration/preview", other))
    stopping = [found["path"] for found in shown["components"] if found["change"] == "stops"]
    assert sorted(stopping) == ["cluster.compute[1]", "cluster.compute[2]"]
    assert shown["workflows"] == ["zookeeper#update"]


async def test_tomcat_deploys_and_its_machine_takes_commands(dry: Api) -> None:
    document = await launched_public(dry, TOMCAT)
    values = document["returnValues"]
    assert values["tomcat.app-host"] == values["compute.networks"]["public"]["ip"]
    assert values["tomcat.app-uri"] == ["http://bay.example:8080/"]
    instance = document["id"]
    for command, given in {
        "tomcat.manage-service": {"service-action": "restart"},
        "compute.exec": {"command": "uptime", "timeout": "60"},
        "compute.put-file": {"filename": "/tmp/x", "payload": "aGVsbG8="},
        "compute.get-file": {"filename": "/tmp/x"},
    }.items():
        document = await dry.run(instance, command, **given)
        assert document["workflowHistory"][0]["status"] == "Succeeded", command
    await destroyed(dry, instance)


async def test_the_hierarchical_application_scales_its_tiers(dry: Api) -> None:
    await dry.application(text_of(DATABASE), name=MAIN_NEEDS)
    document = await launched_public(dry, MAIN)
    values = document["returnValues"]
    [lb] = values["server.lb-hosts"]
    assert (values["endpoint.url"], values["endpoint.ha"]) == (f"http://{lb}", f"http://{lb}:22002/")
    assert len(values["server.db-hosts"]) == len(values["server.app-hosts"]) == 1
    instance = document["id"]
    document = await dry.run(instance, "manage.scale-up", **{"app-tier-size": "2"})
    assert document["workflowHistory"][0]["status"] == "Succeeded"
    assert len(document["returnValues"]["server.app-hosts"]) == 3
    for command, given in {
        "manage.scale-down": {"app-tier-size": "1"},
        "manage.update": {"app-fork": "qubell", "app-branch": "HEAD"},
    }.items():
        document = await dry.run(instance, command, **given)
        assert document["workflowHistory"][0]["status"] == "Succeeded", document["workflowHistory"][0]["errorMessage"]
    await destroyed(dry, instance)


async def test_petclinic_launches_over_its_three_submodules(dry: Api) -> None:
    await with_stand_ins(dry, text_of(PETCLINIC))
    document = await launched_public(dry, PETCLINIC)
    assert document["returnValues"]["endpoints.entry"] == "the entry-url"
    assert document["returnValues"]["endpoints.app"] == ["the tomcat-app-hosts"]
    await destroyed(dry, document["id"])


async def test_zabbix_launches_over_a_database_and_takes_agents(dry: Api) -> None:
    text = text_of(ZABBIX).replace('"Database"', '"Database of Zabbix"')
    manifest = compile_manifest(text.encode(), known_actions=ACTIONS)
    for name, stand_in in stand_ins(manifest).items():
        await dry.application(stand_in, name=name)
    document = await dry.document(await dry.running(text))
    assert document["returnValues"]["zabbix.web-ui"] == "http://zabbix.bay.example"
    instance = document["id"]
    agents = {"agent-hosts": '["192.0.2.250", "192.0.2.251"]'}
    document = await dry.run(instance, "zabbix.init-agent", identity="ubuntu", **agents)
    assert document["workflowHistory"][0]["status"] == "Succeeded"
    document = await dry.run(instance, "zabbix.delete-agent", **agents)
    assert document["workflowHistory"][0]["status"] == "Succeeded"
    await destroyed(dry, instance)


async def test_the_functional_tester_runs_its_test_over_six_components_on_one_machine(dry: Api) -> None:
    await with_stand_ins(dry, text_of(TESTER))
    credentials = {"access-key": "AK", "secret-key": "SK"}
    environment = await dry.offer(
        properties=[{"name": "s3-credentials", "type": "map<string,string>", "value": credentials}]
    )
    [keystore] = [
        service["id"]
        for service in accepted(await dry.get(f"environments/{dry.environment}/services"))["services"]
        if service["typeId"] == "builtin:cobalt_secure_store"
    ]
    accepted(await dry.put(f"environments/{environment}/services", {"services": [keystore]}))
    document = await launched_public(dry, TESTER, environmentId=environment)
    dashboard = document["returnValues"].pop("analyse.local-dashboard")
    waiting = "waiting for real publish-signal(string)"
    told = {"chart.progress", "frame.https-direct", "analyse.published-atdd"}
    assert document["returnValues"] == dict.fromkeys(told, waiting)
    assert set(document["availableWorkflows"]) == {"launch", "destroy", "develop.test"}
    arguments = {"base-url": "http://x.example", "app-fork": "q", "app-repo": "r", "app-branch": "b", "tag": "t"}
    document = await dry.run(document["id"], "develop.test", **arguments)
    assert document["workflowHistory"][0]["status"] == "Succeeded", document["workflowHistory"][0]["errorMessage"]
    site = "petclinic-test-results.s3-website-us-east-1.amazonaws.com"
    assert document["returnValues"] == {
        "chart.progress": "42 %",
        "frame.https-direct": "https://s3.amazonaws.com/petclinic-test-results/q_b_t__20261120/atdd/index.html",
        "analyse.published-atdd": f"http://{site}/q_b_t__20261120/atdd/",
        "analyse.local-dashboard": dashboard,
    }
    assert is_public(dashboard.removeprefix("http://").removesuffix(":8899"))
    accepted(await dry.put(f"instances/{document['id']}/configuration", {"parameters": {"s3.bucket": "other"}}))
    document = await finished(dry, document["id"], 3)
    # No signal changes by a bucket's name; where the results go does.
    await dry.run(document["id"], "develop.test", **arguments)
    log = accepted(await dry.get(f"instances/{document['id']}/log"))
    assert any("s3://other/q_b_t__20261120/" in line["text"] for line in log)
    await destroyed(dry, document["id"])


SITE = """
application:
  configuration: {input.port: 8080}
  interfaces:
    input: {port: bind(app#configuration.app-port)}
    result: {entry: bind(lb#haproxy.entry-urls), uri: bind(app#tomcat.app-uri), schema: bind(main#out.db)}
    actions: {update: bind(main#actions.update)}
  bindings: [[lb#servers, app#tomcat], [main, db], [main, app], [app, code]]
  components:
    code:
      type: cobalt.common.Constants
      interfaces:
        source:
          lib-uri: publish-signal(list<string>)
          context-nodes: publish-signal(object)
          context-attrs: publish-signal(object)
          uri: publish-signal(list<string>)
          path: publish-signal(list<string>)
          java-opts: publish-signal(string)
      configuration:
        configuration.values:
          source.lib-uri: ["http://x.example/lib.jar"]
          source.context-nodes: [{Resource: {name: jdbc}}]
          source.context-attrs: {docBase: /a}
          source.uri: ["http://x.example/a.war"]
          source.path: [/a]
          source.java-opts: -Da=1
    app:
      type: reference.Submodule
      configuration: {__locator.application-id: TOMCAT}
      interfaces:
        configuration: {app-port: configuration(int)}
        tomcat: {app-uri: publish-signal(list<string>), manage-service: receive-command(string service-action)}
        source:
          lib-uri: consume-signal(list<string>)
          context-nodes: consume-signal(object)
          context-attrs: consume-signal(object)
          uri: consume-signal(list<string>)
          path: consume-signal(list<string>)
          java-opts: consume-signal(string)
    lb:
      type: reference.Submodule
      configuration: {__locator.application-id: HAPROXY}
      interfaces:
        servers: {app-uri: consume-signal(list<string>)}
        haproxy: {entry-urls: publish-signal(list<string>)}
    db:
      type: reference.Submodule
      configuration: {__locator.application-id: MYSQL}
      interfaces:
        database:
          schema: "receive-command(string db-user, string db-user-password, list<string> db-user-privileges
            => object connection)"
    main:
      type: workflow.Instance
      required: [database, tomcat]
      interfaces:
        database:
          schema: "send-command(string db-user, string db-user-password, list<string> db-user-privileges
            => object connection)"
        tomcat: {manage-service: send-command(string service-action)}
        actions: {update: receive-command()}
        out: {db: publish-signal(string)}
      configuration:
        configuration.workflows:
          launch: &update
            steps:
              - schema:
                  action: database.schema
                  parameters:
                    {db-user: bay, db-user-password: pa55, db-user-privileges: [all], commandCallTimeout: 5 minutes}
                  output: {con: connection}
              - restart:
                  action: tomcat.manage-service
                  precedingPhases: [schema]
                  parameters: {service-action: restart}
            return: {db: {value: "{$.con.connection-url}"}}
          update: *update
"""


@pytest.mark.slow
async def test_public_components_make_a_site_as_submodules_of_another_application(dry: Api) -> None:
    text = SITE
    for word, stem in (("TOMCAT", TOMCAT), ("HAPROXY", HAPROXY), ("MYSQL", MYSQL)):
        text = text.replace(word, await dry.application(text_of(stem)))
    document = await dry.settled(await dry.running(text))
    instance = document["id"]
    children = {part["name"]: part["instanceId"] for part in document["components"] if "instanceId" in part}
    host = (await dry.document(children["db"]))["returnValues"]["database.db-host"]
    assert document["returnValues"] == {
        "result.entry": ["http://bay.example:80"],
        "result.uri": ["http://bay.example:8080/"],
        "result.schema": f"jdbc:mysql://{host}:3306/bay?autoReconnect=true",
    }
    # What the parent's constants give to the server was there when it was launched.
    deployed = await given_to_chef(dry, children["app"], "deploy-war", job="launch")
    assert deployed["cookbook-qubell-tomcat"] == {
        "war": {"uri": ["http://x.example/a.war"], "path": ["/a"]},
        "context": {"context_attrs": {"docBase": "/a"}, "context_nodes": [{"Resource": {"name": "jdbc"}}]},
    }
    # The balancer requires no server, so its launch did not wait for one; it heard of it later.
    balancer = await finished(dry, children["lb"], 2)
    assert [job["name"] for job in balancer["workflowHistory"]] == ["reconfigure-servers", "launch"]
    given = await given_to_chef(dry, balancer["id"], "reconfigure-servers")
    assert given["haproxy"]["server_uri"] == ["http://bay.example:8080/"]
    accepted(await dry.put(f"instances/{instance}/configuration", {"parameters": {"input.port": 9090}}))
    await dry.settled(instance)
    assert (await dry.document(children["app"]))["returnValues"]["tomcat.app-port"] == 9090
    document = await dry.run(instance, "actions.update")
    assert document["workflowHistory"][0]["status"] == "Succeeded", document["errorMessage"]
    await destroyed(dry, instance)


@pytest.mark.parametrize("path", PUBLIC.values(), ids=PUBLIC)
async def test_every_public_manifest_is_running_after_a_dry_run(dry: Api, path: Path) -> None:
    """With what it asks for: applications of submodules, an offered instance, markers and properties."""
    made = accepted(await dry.post("organizations", {"name": fresh_name("public")}))["id"]
    api = replace(dry, organization=made)
    text = path.read_text("utf-8")
    manifest = compile_manifest(text.encode(), known_actions=ACTIONS)
    for name, stand_in in stand_ins(manifest).items():
        await api.application(stand_in, name=name)
    asked = [each for each in manifest.components.values() if each.type == SERVICE]
    [environment] = [each["id"] for each in accepted(await api.get(f"organizations/{made}/environments"))]
    if path.stem == CLIENT:
        _, environment = await offered(api, text_of(SERVED))
    named = [{"name": pin.name} for each in asked for pin in markers(each)]
    accepted(await api.put(f"environments/{environment}/markers", {"markers": named}))
    given = [
        {"name": pin.name, "type": str(pin.type.value_type), "value": VALUES[str(pin.type.value_type)]}
        for each in asked
        for pin in properties(each)
    ]
    accepted(await api.put(f"environments/{environment}/properties", {"properties": given}))
    instance = await api.launch(await api.application(text), environmentId=environment)
    document = await api.settled(instance)
    assert (document["status"], document["errorMessage"]) == ("Running", None)
