"""Actions for a walk that finds what runs instead of planning what to do."""

from collections.abc import Mapping

from launchbay.actions.builtin import CommandCall
from launchbay.actions.contract import Action, ActionCall, ActionParameter, ChangesRoles
from launchbay.actions.plan import ActionPlan, FindsExisting, unknown
from launchbay.actions.registry import Registry
from launchbay.errors import ActionFailed


class FindingActions(Registry):
    """The actions, of which the artifact of a plan is `Existing`."""

    def __init__(self, actions: Registry) -> None:
        super().__init__(())
        self._all = actions

    def find(self, name: str) -> Action | None:
        action = self._all.find(name)
        if action is None or action.pure or isinstance(action, CommandCall):
            return action
        if isinstance(action, ChangesRoles) and not isinstance(action, FindsExisting):
            return action  # steps after it know that it leaves other machines
        return _Finder(action)  # type: ignore[return-value] # nothing runs it


class _Finder:
    pure = False

    def __init__(self, action: Action) -> None:
        self._action = action
        self.name: str = action.name
        self.parameters: Mapping[str, ActionParameter] = action.parameters

    async def plan(self, call: ActionCall) -> ActionPlan:
        """Return what runs as the artifact, or why not as an unknown effect."""
        if not isinstance(self._action, FindsExisting):
            return unknown(call.context.step_path)
        try:
            return ActionPlan(artifact=(await self._action.find_existing(call)).encoded())
        except ActionFailed as error:
            return unknown(call.context.step_path, str(error))
