"""Manifests in the style of old public ones: nulls, empty lists, roles without machines, variables that nobody defines.

All of them run on dry-run machines (language §9; conformance.md, "Decisions: States", parameters without a value).
"""

import pytest

from tests.support.service import Api

# Each is the steps of `launch`; they run one after the other. `ips` is what the last provision returned.
LAUNCHES = {
    "an identity of a cloud that nobody defines": [
        'provisionVms: {roleName: web, jcloudsIdentity: "{$.identity}", jcloudsCredential: "{$.credential}"}',
    ],
    "an endpoint, regions and a prefix that nobody defines": [
        (
            'provisionVms: {roleName: web, jcloudsEndpoint: "{$.endpoint}", jcloudsRegions: "{$.region}",'
            ' jcloudsNodeNamePrefix: "{$.prefix}", jcloudsPinnedJCloudsProperty: "{$.more}"}'
        ),
    ],
    "a security group and a key that nobody defines": [
        (
            'provisionAmazonVm: {roleName: web, ec2SecurityGroup: "{$.group}", publicKeyId: "{$.key}",'
            ' ec2KeyPair: "{$.pair}"}'
        ),
    ],
    "an image, a size and a login that nobody defines": [
        'provisionVms: {roleName: web, imageId: "{$.image}", hardwareId: "{$.size}", vmIdentity: "{$.login}"}',
    ],
    "written nulls": ["provisionVms: {roleName: , hardwareId: null, imageId: ~, providerSettings: null, quantity: }"],
    "written empty texts": ['provisionVms: {roleName: "", hardwareId: "", imageId: "", vmIdentity: ""}'],
    "a null among the settings of the provider": [
        'provisionVms: {roleName: web, providerSettings: {network: "{$.net}", tags: null}}',
    ],
    "numbers that nobody defines": ['provisionVms: {roleName: web, targetQuantity: "{$.target}", quantity: "{$.n}"}'],
    "no host to adopt, and Chef on the role": [
        "provisionVms: {roleName: web, staticIps: []}",
        'chefsolo: {roles: [web], runList: ["recipe[web]"], recipeUrl: "http://recipes.example/a.tar.gz"}',
        'execrun: {roles: [web], command: ["uptime"]}',
    ],
    "no machine of a target of 0, and commands on the role": [
        "provisionVms: {roleName: web, targetQuantity: 0}",
        'execrun: {roles: [web], command: ["uptime"], isSudo: true}',
    ],
    "a list without roles": ['execrun: {roles: [], command: ["uptime"]}'],
    "roles without a name": [
        "provisionVms: {roleName: web}",
        'execrun: {roles: [web, "", "{$.role}"], command: ["uptime"]}',
        'chefrun: {roles: "", runList: ["recipe[web]"]}',
    ],
    "one of two platforms": [
        "provisionVms: {roleName: linux}",
        'execrun: {roles: [windows], command: ["ver"]}',
        'chefrun: {roles: [linux], runList: ["recipe[base]"], isSudo: "{$.sudo}", isSolo: }',
    ],
    "Chef without attributes, archive and version": [
        "provisionVms: {roleName: web}",
        'chefsolo: {roles: [web], runList: ["recipe[a]"], jattrs: "{$.a}", recipeUrl: "{$.url}", version: "{$.v}"}',
        'chefsolo: {roles: [web], runList: ["recipe[a]"], jattrs: , recipeUrl: "", version: ""}',
    ],
    "attributes of Chef that have no value": [
        "provisionVms: {roleName: web}",
        'chefrun: {roles: [web], runList: ["recipe[a]"], jattrs: {a: {port: "{$.port}", hosts: [], tags: null}}}',
    ],
    "nothing to release, though there are machines": [
        "provisionVms: {roleName: web, quantity: 2}",
        "destroyVms: {roleName: web, ips: []}",
        "destroyVms: {ips: []}",
        "destroyVms: {roleName: web, quantity: 0}",
        "destroyVms: {quantity: 0}",
        "destroyVms: {ips: [], quantity: 0}",
    ],
    "nothing to release, and no machine": [
        'destroyVms: {roleName: "{$.role}", ips: "{$.ips}", quantity: "{$.n}"}',
        "compute.shrink-all: {}",
        "undeployEnv: {}",
    ],
    "empty and missing values in a text": [
        "provisionVms: {roleName: web}",
        'execrun: {roles: [web], command: ["echo {$.gone} ${nothing}", "{$.lost}x"], batchSize: , timeout: null}',
    ],
    "a list, a map, a null and an empty text as data": [
        "serialize: {input: [], format: JSON}",
        'serialize: {input: , format: ""}',
        'serialize: {input: {a: "{$.gone}", b: [], c: "", d: }, format: YAML}',
        'serialize: {input: "", format: CSV}',
    ],
    "signals, properties and peers of nobody": [
        "getSignals: {multi: }",
        "getEnvironmentProperties: {}",
        'waitPeers: {interfaces: {}, timeout: "{$.patience}"}',
        "enableLogging: {roles: []}",
    ],
}
SCALED = """
application:
  configuration: {input.hosts: []}
  interfaces:
    input: {hosts: bind(node#input.hosts)}
    result: {ips: bind(node#result.ips)}
  components:
    node:
      type: workflow.Instance
      interfaces:
        input: {hosts: configuration(list<string>)}
        result: {ips: publish-signal(list<string>)}
      configuration:
        configuration.workflows:
          launch:
            steps:
              - make:
                  action: provisionVms
                  parameters: {roleName: node, staticIps: "{$.hosts}", jcloudsIdentity: "{$.identity}"}
                  output: {ips: ips}
              - set-up:
                  action: chefsolo
                  precedingPhases: [make]
                  parameters: {roles: [node], runList: ["recipe[node]"]}
            return: {ips: {value: "{$.ips}"}}
"""


def manifest(steps: list[str]) -> str:
    lines = []
    for number, step in enumerate(steps):
        action, _, parameters = step.partition(": ")
        after = f"precedingPhases: [step{number - 1}], " if number else ""
        lines.append(f"    - step{number}: {{{after}action: {action}, parameters: {parameters}}}")
    return "\n".join(["launch:", "  steps:", *lines, "destroy: {steps: []}"])


@pytest.mark.parametrize("what", LAUNCHES)
async def test_it_runs_and_can_be_destroyed(dry: Api, what: str) -> None:
    instance = await dry.running(manifest(LAUNCHES[what]))
    document = await dry.run(instance, "destroy")
    assert document["status"] == "Destroyed", document["errorMessage"]


def test_there_are_twenty() -> None:
    assert len(LAUNCHES) == 20


async def test_a_variable_that_nobody_defines_is_warned_of_in_the_log(dry: Api) -> None:
    instance = await dry.running(manifest(LAUNCHES["an identity of a cloud that nobody defines"]))
    lines = (await dry.get(f"instances/{instance}/log")).json()
    warned = [line["text"] for line in lines if line["level"] == "warning"]
    assert warned == [
        "{$.identity} has no value, so null is used.",
        "{$.credential} has no value, so null is used.",
    ]


async def test_an_empty_list_of_hosts_is_no_host_and_null_fails(dry: Api) -> None:
    application = await dry.application(SCALED)
    document = await dry.settled(await dry.launch(application))
    assert (document["status"], document["returnValues"]) == ("Running", {"result.ips": []}), document["errorMessage"]
    document = await dry.settled(await dry.launch(application, parameters={"input.hosts": ["10.0.0.5"]}))
    assert (document["status"], document["returnValues"]) == ("Running", {"result.ips": ["10.0.0.5"]})
    lost = SCALED.replace('staticIps: "{$.hosts}"', 'staticIps: "{$.gone}"')
    document = await dry.settled(await dry.launch(await dry.application(lost)))
    assert document["status"] == "Failed"
    assert "staticIps is given, but has no value: {$.gone}." in document["errorMessage"]


async def test_what_is_released_is_what_was_meant(dry: Api) -> None:
    steps = [*LAUNCHES["nothing to release, though there are machines"], "execrun: {command: [uptime]}"]
    text = manifest(steps).replace("{command: [uptime]}}", "{command: [uptime]}, output: {out: stdout}}")
    text = text.replace("destroy: {", '  return: {out: {value: "{$.out}"}}\ndestroy: {')
    document = await dry.settled(await dry.launch(await dry.application(text)))
    assert len(document["returnValues"]["out"]) == 2
