"""The actions that need machines (manifest-language §9), for an installation that has no machine provider.

Their names are known, so that manifests check; their steps fail with a sentence that says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.errors import ActionFailed


@dataclass(frozen=True)
class WithoutMachines:
    """Fails at run time: nothing here makes machines or runs commands on them."""

    name: str
    parameters: Mapping[str, ActionParameter] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    pure: bool = False

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Raise `ActionFailed`; another attempt would fare no better."""
        raise ActionFailed(
            f"The step {call.context.step_path} needs machines: '{self.name}' cannot run,"
            " because this installation has no machine provider yet.",
            retryable=False,
        )


_ROLES = ActionParameter("The roles whose machines do it.", type="list<string>")
_SUDO = ActionParameter("Run as the superuser.", type="bool")

_COMMAND = {
    "roles": _ROLES,
    "command": ActionParameter("One element: a shell line or script; more: program and arguments.", required=True),
    "isSudo": _SUDO,
    "batchSize": ActionParameter("How many machines at the same time.", type="int"),
}
_COMMAND_OUTPUTS = {
    "stdout": "Host to text, or to the value where the text is JSON.",
    "stderr": "Host to text, or to the value where the text is JSON.",
    "exitCode": "Host to exit code.",
}
_CHEF = {
    "roles": _ROLES,
    "runList": ActionParameter("Recipes and roles of Chef.", type="list<string>"),
    "recipeUrl": ActionParameter("Where the archive of cookbooks is.", type="string"),
    "jattrs": ActionParameter("Attributes of the node.", type="map<string,object>"),
    "version": ActionParameter("The version of Chef.", type="string"),
    "isSolo": ActionParameter("Without a Chef server.", type="bool"),
    "isSudo": _SUDO,
}
_CHEF_OUTPUTS = {"chefState": "Host to node attributes."}
_PROVISION = {
    "roleName": ActionParameter("The role of the machines.", type="string"),
    "hardwareId": ActionParameter("The size of a machine.", type="string"),
    "imageId": ActionParameter("The image of a machine.", type="string"),
    "vmIdentity": ActionParameter("The login.", type="string"),
    "staticIps": ActionParameter("Hosts to adopt; none is made then.", type="list<string>"),
    "targetQuantity": ActionParameter("How many machines the role shall have.", type="int"),
    "quantity": ActionParameter("How many machines to add.", type="int"),
    "providerSettings": ActionParameter("What the provider knows beside.", type="map<string,object>"),
}
_PROVISION_OUTPUTS = {"ips": "The addresses of the role.", "privateips": "The inner addresses of the role."}
_RELEASE = {
    "roleName": ActionParameter("The role whose machines go.", type="string"),
    "quantity": ActionParameter("How many machines go.", type="int"),
    "ips": ActionParameter("The addresses of the machines that go.", type="list<string>"),
}
_RELEASE_OUTPUTS = {"ips": "The addresses that are left."}

MACHINE_ACTIONS = (
    WithoutMachines("execrun", _COMMAND, _COMMAND_OUTPUTS),
    WithoutMachines("chefsolo", _CHEF, _CHEF_OUTPUTS),
    WithoutMachines("chefrun", _CHEF, _CHEF_OUTPUTS),
    WithoutMachines("provisionVms", _PROVISION, _PROVISION_OUTPUTS),
    WithoutMachines("provisionAmazonVm", _PROVISION, _PROVISION_OUTPUTS),
    WithoutMachines("undeployEnv", {}, {}),
    WithoutMachines("destroyVms", _RELEASE, _RELEASE_OUTPUTS),
    WithoutMachines("compute.shrink-all", _RELEASE, _RELEASE_OUTPUTS),
)
