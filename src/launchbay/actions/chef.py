"""`chefsolo` and `chefrun`: Chef brings machines to the state that recipes describe (manifest-language §9)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.live_log import LiveLog
from launchbay.actions.on_machines import on_each
from launchbay.actions.parameters import flag, optional_mapping, optional_text, optional_texts, required
from launchbay.model.machine import ChefRun, Machine

_RUN_LIST = "a list of recipes and roles of Chef"


@dataclass(frozen=True)
class Chef:
    """Runs Chef on every machine of some roles; the same work under two names."""

    name: str
    aliases: tuple[str, ...] = ()
    pure: bool = False
    on_machines: bool = True

    @property
    def parameters(self) -> Mapping[str, ActionParameter]:
        """The documented parameters by name."""
        return {
            "roles": ActionParameter("The roles whose machines do it; all where it is left out.", type="list<string>"),
            "runList": ActionParameter("Recipes and roles of Chef.", type="list<string>", required=True),
            "recipeUrl": ActionParameter("Where the archive of cookbooks is.", type="string"),
            "jattrs": ActionParameter("Attributes of the node.", type="map<string,object>"),
            "version": ActionParameter("The version of Chef.", type="string"),
            "isSolo": ActionParameter("Without a Chef server; true where it is left out.", type="bool"),
            "isSudo": ActionParameter("Run as the superuser; true where it is left out.", type="bool"),
        }

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs by name."""
        return {"chefState": "Address to the attributes that the node has afterwards."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Run Chef."""
        machines, parameters = call.context.machines, call.parameters
        required(parameters, "runList", _RUN_LIST)
        live = LiveLog(call.context.log, call.context.clock)
        chef = ChefRun(
            run_list=optional_texts(parameters, "runList", _RUN_LIST) or [],
            recipe_url=optional_text(parameters, "recipeUrl", "the URL of an archive of cookbooks") or "",
            attributes=optional_mapping(parameters, "jattrs", "a map of attributes"),
            version=optional_text(parameters, "version", "a version of Chef") or "",
            solo=flag(parameters, "isSolo", default=True),
            sudo=flag(parameters, "isSudo", default=True),
        )
        targets = machines.to_reach(optional_texts(parameters, "roles", "a list of roles"))

        async def converge(machine: Machine) -> Mapping[str, Any]:
            return await machines.converge(machine, replace(chef, sink=live.of(machine.host)))

        try:
            return {"chefState": await on_each(targets, converge)}
        finally:
            live.end()
