"""The pinned keys of the hosts that workflows reach (api-decisions, "Beyond the reference")."""

import msgspec

from launchbay.clock import to_ms
from launchbay.service_types.key_pairs import fingerprint
from launchbay.store.machines import HostKeyRow
from launchbay.usecases import organizations
from launchbay.web.answers import Answer, Empty
from launchbay.web.call import Call
from launchbay.web.encode import Paging
from launchbay.web.endpoint import Endpoint, Returns
from launchbay.web.handlers.lists import listed

_TAGS = ("Organizations",)
_PERMISSION = "EditEnvironment for all environments of the organization"


class HostKey(msgspec.Struct):
    """A pinned key. The id is the host's address with its port; times are milliseconds since the Unix epoch."""

    id: str
    algorithm: str
    fingerprint: str
    pinnedAt: int


async def list_host_keys(call: Call[None, Paging]) -> Answer:
    """List host keys."""
    rows = await organizations.list_host_keys(call.services.desk, call.actor, call.path["orgId"])
    return listed(call, [_host_key(row) for row in rows])


async def forget_host_key(call: Call[None, None]) -> Answer:
    """Forget a host key."""
    await organizations.forget_host_key(call.services.desk, call.actor, call.path["orgId"], call.path["host"])
    return Empty()


def _host_key(row: HostKeyRow) -> HostKey:
    algorithm = row.public_key.partition(" ")[0]
    return HostKey(row.host, algorithm, fingerprint(row.public_key), to_ms(row.pinned_at))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/organizations/{orgId}/hostKeys",
        operation_id="list_host_keys",
        handler=list_host_keys,
        summary="Lists the keys that the hosts of workflows showed at their first use.",
        tags=_TAGS,
        permission=_PERMISSION,
        query=Paging,
        returns=Returns(list[HostKey], "The pinned keys, by host."),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="DELETE",
        path="/api/1/organizations/{orgId}/hostKeys/{host}",
        operation_id="forget_host_key",
        handler=forget_host_key,
        summary="Forgets the key of a host, such as 10.0.0.5:22: the key that it shows next is pinned.",
        tags=_TAGS,
        permission=_PERMISSION,
        statuses=(403,),
        addition=True,
    ),
)
