import pytest
from tests.actions.contexts import run

from launchbay.actions.machines import MACHINE_ACTIONS, WithoutMachines
from launchbay.errors import ActionFailed

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("action", MACHINE_ACTIONS, ids=lambda action: action.name)
async def test_a_machine_action_fails_honestly_for_want_of_a_provider(action: WithoutMachines) -> None:
    with pytest.raises(ActionFailed, match=f"'{action.name}' cannot run.*no machine provider") as failed:
        await run(action, roles=["web"], command=["true"])

    assert not failed.value.retryable
