"""The public manifests by name: what they return, what is wrong in them, and what their machines would answer."""

from typing import Any

from tests.support.manifests import PUBLIC
from tests.support.service import Api

# Each of these was looked at: the manifest is wrong there, though it runs.
DESERVED = {
    "component-functional-tester--functional_tester": [
        ("ReturnWithoutPin", 123),  # view-filesystem-url
        ("UnknownPhase", 301),  # injection
        ("UnknownPhase", 386),  # injection
    ],
    "contrib-python-qubell-client--qm-hierarchical-main": [("UnknownPhase", 115)],  # growing-lb, by alias, in scale-up
    "qubell_portal_sample--manifests-root_w": [
        ("ReturnWithoutPin", 94),  # e and s, in launch; an alias repeats it in re-launch
        ("ReturnWithoutPin", 96),
    ],
}

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


# Files that this program can run by itself, with what they return at launch.
RUNS: dict[str, dict[str, Any]] = {
    "contrib-python-qubell-client--integration_tests-default": {"out.app_output": "This is default manifest"},
    "contrib-python-qubell-client--integration_tests-service": {"foo.stringValue": "hello"},
    "contrib-python-qubell-client--qubellclient-tests-instance-reconfiguration-workflow-trigger_on_param": {
        "out.app_output": "Hello from BASE WORKFLOW manifest"
    },
    "contrib-qubell-manifestconverter--tests-test_v11_v20-1": {},
    "qubell_portal_sample--manifests-child": {},
    "qubell_portal_sample--stories-test_filters-0": {},
}


async def launched_public(api: Api, stem: str, **body: Any) -> Any:
    instance = await api.running(text_of(stem), **body)
    return await api.settled(instance)


def text_of(stem: str) -> str:
    return PUBLIC[stem].read_text("utf-8")
