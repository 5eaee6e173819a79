"""Actions for a walk that finds what runs instead of planning what to do."""

from collections.abc import Collection, Mapping

from launchbay.actions.builtin import CommandCall
from launchbay.actions.contract import Action, ActionCall, ActionParameter, ChangesRoles
from launchbay.actions.plan import ActionPlan, FindsExisting, unknown
from launchbay.actions.registry import Registry
from launchbay.errors import ActionFailed

# Nothing runs, so it leaves nothing on which what is asked for could depend. Without an artifact it would be unknown.
_NOT_ASKED = ActionPlan(artifact=b"not asked")


class FindingActions(Registry):
    """The actions, of which the artifact of a plan is `Existing`.

    `only` are the components whose steps are looked at; none stands for all.
    """

    def __init__(self, actions: Registry, only: Collection[str] = ()) -> None:
        super().__init__(())
        self._all = actions
        self._only = only

    def find(self, name: str) -> Action | None:
        action = self._all.find(name)
        if action is None or action.pure or isinstance(action, CommandCall):
            return action
        if isinstance(action, ChangesRoles) and not isinstance(action, FindsExisting):
            return action  # steps after it know that it leaves other machines
        return _Finder(action, self._only)  # type: ignore[return-value] # nothing runs it


class _Finder:
    pure = False

    def __init__(self, action: Action, only: Collection[str]) -> None:
        self._action = action
        self._only = only
        self.name: str = action.name
        self.parameters: Mapping[str, ActionParameter] = action.parameters

    async def plan(self, call: ActionCall) -> ActionPlan:
        """Return what runs as the artifact, or why not as an unknown effect."""
        path = call.context.step_path
        if self._only and path.partition("#")[0] not in self._only:
            return _NOT_ASKED
        if not isinstance(self._action, FindsExisting):
            return unknown(path)
        try:
            return ActionPlan(artifact=(await self._action.find_existing(call)).encoded())
        except ActionFailed as error:
            return unknown(path, str(error))
