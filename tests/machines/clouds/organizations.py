"""An organization that makes its machines in a cloud of a test: account, key pair and policies, all through the API."""

from textwrap import dedent
from typing import Any, Protocol

import httpx

from tests.api.running import accepted, fresh_name
from tests.machines.clouds.bay import REGION
from tests.machines.clouds.moto import IMAGE, SIZE
from tests.machines.hosts import LOGIN, Hosts

KEY_PAIR = "deploy"

MANIFEST = f"""
application:
  interfaces:
    result: {{hosts: bind(web#result.hosts), names: bind(web#result.names)}}
    actions: {{grow: bind(web#actions.grow), shrink: bind(web#actions.shrink)}}
  components:
    web:
      type: workflow.Instance
      interfaces:
        result: {{hosts: publish-signal(list<string>), names: publish-signal(list<string>)}}
        actions: {{grow: receive-command(int size), shrink: receive-command(int count)}}
      configuration:
        configuration.workflows:
          launch:
            steps:
              - machines:
                  action: provisionVms
                  parameters: &machines
                    roleName: web
                    targetQuantity: 2
                    imageId: {REGION}/{IMAGE}
                    hardwareId: {SIZE}
                    vmIdentity: {LOGIN}
                    publicKeyId: {KEY_PAIR}
                    subnetId: SUBNET
                  output: {{hosts: ips}}
              - look:
                  action: execrun
                  precedingPhases: [machines]
                  parameters: {{roles: [web], command: ["echo $SSH_CONNECTION | cut -d' ' -f3"]}}
                  output: {{names: stdout}}
            return: {{hosts: {{value: "{{$.hosts}}"}}, names: {{value: "{{$.names[*]}}"}}}}
          grow:
            steps:
              - machines:
                  action: provisionVms
                  parameters: {{<<: *machines, targetQuantity: "{{$.size}}"}}
                  output: {{hosts: ips}}
            return: {{hosts: {{value: "{{$.hosts}}"}}}}
          shrink:
            steps:
              - machines:
                  action: destroyVms
                  parameters: {{roleName: web, quantity: "{{$.count}}"}}
                  output: {{hosts: ips}}
            return: {{hosts: {{value: "{{$.hosts}}"}}}}
"""


class Organized(Protocol):
    """Who may set an organization up: `Caller` has all of it, and `Api` both."""

    @property
    def organization(self) -> str: ...
    async def post(self, path: str, body: Any = None) -> httpx.Response: ...
    async def put(self, path: str, body: Any) -> httpx.Response: ...
    async def put_yaml(self, path: str, text: str) -> httpx.Response: ...


async def cloud_environment(api: Organized, endpoint: str, hosts: Hosts) -> str:
    """Make an environment with an account at the endpoint and the key pair of the hosts; return its id."""
    services = f"organizations/{api.organization}/services"
    parameters = {
        "configuration.provider": "aws-ec2",
        "configuration.identity": "AKIAIOSFODNN7EXAMPLE",
        "configuration.credential": "wJalrXUtnFEMI/K7MDENG",
        "configuration.endpoint-url": endpoint,
        "configuration.legacy-regions": REGION,
    }
    account = await _created(api, services, "builtin:cloud_account", parameters)
    vault = await _created(api, services, "builtin:cobalt_secure_store", {})
    arguments = {"name": KEY_PAIR, "privateKey": hosts.private_key}
    accepted(await api.post(f"services/{vault}/import-keypair", {"arguments": arguments}))
    created = await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("environment")})
    environment = str(accepted(created)["id"])
    accepted(await api.put(f"environments/{environment}/services", {"services": [account, vault]}))
    policies = f"""
        policies:
          machines.provider: cloud
          machines.address: private
          machines.ssh-port: {hosts[0].port}
          machines.start-timeout: 60
    """
    accepted(await api.put_yaml(f"environments/{environment}", dedent(policies)))
    return environment


async def _created(api: Organized, path: str, kind: str, parameters: dict[str, Any]) -> str:
    body = {"name": fresh_name("service"), "typeId": kind, "parameters": parameters}
    return str(accepted(await api.post(path, body))["id"])
