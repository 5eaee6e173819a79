"""Where connections that are not HTTP may go: the same address rules as for `restcall` (quality.md §3)."""

from collections.abc import Sequence

from launchbay import limits
from launchbay.egress.addresses import Allowlist, checked_address
from launchbay.egress.transport import Resolver, SystemResolver
from launchbay.errors import ActionFailed
from launchbay.machines.contract import Errand


class CheckedReach:
    """Implements `contract.Reach`: a name is resolved once and every address of it is judged."""

    def __init__(self, allowlist: Allowlist, resolver: Resolver | None = None) -> None:
        self._allowlist = allowlist
        self._resolver = resolver or SystemResolver()

    async def addresses(self, errand: Errand, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host. Raises AddressRefused, and ActionFailed for a name without an address."""
        try:
            found = await self._resolver.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ActionFailed(f"The host {host} has no address ({error}).") from error
        allowlist = self._allowlist.within(errand.organization_id, errand.environment_id, errand.policies)
        return [checked_address(each, host, port, allowlist) for each in found][: limits.OUTGOING_ADDRESSES]
