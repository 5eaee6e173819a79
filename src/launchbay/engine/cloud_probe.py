"""Tries the credentials of a cloud account, for the command `check` of its service."""

from collections.abc import Mapping, Sequence
from typing import Any

from launchbay.engine.cloud_book import account_of
from launchbay.errors import ActionFailed
from launchbay.machines.clouds.order import DEFAULT_REGION
from launchbay.machines.clouds.provider import CloudCalls
from launchbay.machines.contract import INSTALLATION, Errand, Reach
from launchbay.model.redaction import Masking

_NOBODY = {INSTALLATION: "nobody"}  # a question that is answered with no machines, but only to who may sign in


class CloudProbe:
    """Implements `service_types.cloud_account.AccountProbe`."""

    def __init__(self, reach: Reach) -> None:
        self._calls = CloudCalls(reach)

    def regions(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return the regions that an account with these parameters is for: those it names, or the usual one."""
        return account_of("", "", parameters).regions or (DEFAULT_REGION,)

    async def problem(self, organization_id: str, parameters: Mapping[str, Any], region: str) -> str | None:
        """Sign in to a region and return what keeps the account from being used there, None where nothing does."""
        account = account_of("", "of this service", parameters)
        masking = Masking()
        errand = Errand(
            organization_id=organization_id,
            environment_id="",
            instance_id="",
            component="",
            action="check",
            step="check",
            path="check",
            tag="check",
            log=_say_nothing,
            learn=masking.learn,
        )
        try:
            await self._calls.ask(errand, account, region, lambda cloud: cloud.marked(_NOBODY))
        except ActionFailed as error:
            return masking.text(str(error))
        return None


def _say_nothing(level: str, text: str) -> None:
    """Take a line for a log that there is not."""
