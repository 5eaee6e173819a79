"""The public manifests on dry-run machines: what their tests share."""

from typing import Any

import msgspec

from launchbay.manifest.compiler import compile_manifest
from tests.api.running import Api, accepted
from tests.api.stand_ins import stand_ins
from tests.manifest.compiling import ACTIONS, REAL

# What the recipes and commands of these manifests would answer, so that their return values make sense.
ANSWERS = """
answers:
  - { action: chefrun, component: workflow, give: { chefState: { cookbook_qubell_mongodb: { url: "mongodb://bay" } } } }
  - { action: chefsolo, give: { chefState: { haproxy: { entry_urls: ["http://bay.example:80"] } } } }
  - { action: chefrun, component: zookeeper, give: { chefState: { zookeeper: { connect_uri: "zk://bay:2181" } } } }
  - { step: template, give: { stdout: { value: ["http://bay.example:8080/"] } } }
  - { step: generate-ssh-key, give: { stdout: "ssh-rsa AAAA bay" } }
  - { component: maven.mavenizer, step: build, give: { stdout: built } }
  - { component: reporter.reportee, step: install-xsltproc, give: { stdout: "42 %" } }
  - { component: tester.functional, step: upload-results, give: { stdout: q_b_t, stderr: q_b_t__20261120 } }
  - { step: hostname, give: { stdout: zabbix.bay.example } }
"""
DOCKER, MONGO = "component-docker-networking--component-docker-networking", "component-mongodb--component-mongodb"
MYSQL, HAPROXY = "component-mysql-dev--component-mysql-dev", "component-haproxy--component-haproxy"
ZOOKEEPER = "component-zookeeper-dev--component-zookeeper-dev"
TOMCAT = "component-tomcat-dev--component-tomcat-dev"
PETCLINIC, ZABBIX = "component-petclinic-main--starter-java-web", "component-zabbix--component-zabbix"
TESTER = "component-functional-tester--functional_tester"
DATABASE = "contrib-python-qubell-client--qm-hierarchical-db"
MAIN, MAIN_NEEDS = "contrib-python-qubell-client--qm-hierarchical-main", "5213711ee4b00b3e08a97602"


async def launched(api: Api, stem: str, **body: Any) -> Any:
    instance = await api.running(text_of(stem), **body)
    return await api.settled(instance)


async def finished(api: Api, instance: str, jobs: int) -> Any:
    """Wait until an instance has so many jobs behind it: triggered ones follow by themselves."""
    document = await api.settled(instance)
    while len(document["workflowHistory"]) < jobs:
        document = await api.settled(instance)
    assert [job["status"] for job in document["workflowHistory"]] == ["Succeeded"] * jobs
    return document


async def destroyed(api: Api, instance: str) -> None:
    document = await api.run(instance, "destroy")
    assert (document["status"], document["errorMessage"]) == ("Destroyed", None)
    async with api.database.connection() as connection:
        statement = "SELECT state FROM instances WHERE id = %s OR parent_id = %s"
        rows = await (await connection.execute(statement, [instance, instance])).fetchall()
    for [state] in rows:
        parts: dict[str, dict[str, Any]] = msgspec.json.decode(state)
        assert [part["machines"] for part in parts.values() if part["machines"]] == []


async def with_stand_ins(api: Api, stem: str) -> None:
    manifest = compile_manifest(text_of(stem).encode(), known_actions=ACTIONS)
    for name, text in stand_ins(manifest).items():
        await api.application(text, name=name)


def text_of(stem: str) -> str:
    return next(path for path in REAL if path.stem == stem).read_text("utf-8")


def is_public(ip: str) -> bool:
    return ip.startswith("192.0.2.")


async def reconfigured(api: Api, instance: str, jobs: int, **parameters: Any) -> Any:
    """Reconfigure an instance with these parameters alone and wait until so many jobs are behind it."""
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": parameters}))
    return await finished(api, instance, jobs)


async def given_to_chef(api: Api, instance: str, step: str, job: str | None = None) -> Any:
    """Return the attributes that Chef got in this step, on the first machine, in the last job (of this name)."""
    jobs = accepted(await api.get(f"instances/{instance}/jobs"))
    last = next(each for each in jobs if job in (None, each["name"]))
    detail = accepted(await api.get(f"instances/{instance}/jobs/{last['id']}"))
    # A workflow's step and the action's own step inside of it may have one name; the outputs are the action's.
    [outputs] = [each["outputs"] for each in detail["steps"] if each["name"] == step and each.get("outputs")]
    return next(iter(outputs["chefState"].values()))
