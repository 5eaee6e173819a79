"""Who may reach what the rules forbid: the operator's list is the cap, and an environment narrows it."""

from ipaddress import ip_address

import pytest

from launchbay.egress.addresses import Allowlist, check_policy
from launchbay.egress.http import EgressClient
from launchbay.errors import AddressRefused, CannotStart
from tests.support.network import FakeResolver, loopback_server

pytestmark = pytest.mark.anyio

ORGANIZATION, ENVIRONMENT, OTHER = "a" * 24, "b" * 24, "c" * 24


def allows(allowlist: Allowlist, address: str, port: int = 80, host: str = "") -> bool:
    return allowlist.allows(host or address, ip_address(address), port)


def test_an_entry_may_be_for_one_organization_or_environment_alone() -> None:
    given = Allowlist.parse(f"10.0.0.0/8@{ORGANIZATION}, 192.168.0.1:80@{ENVIRONMENT}, 172.16.0.1")
    assert not allows(given, "10.1.2.3")
    assert allows(given, "172.16.0.1")
    assert allows(given.for_environment(ORGANIZATION), "10.1.2.3")
    assert not allows(given.for_environment(ORGANIZATION), "192.168.0.1")
    assert allows(given.for_environment(ORGANIZATION, ENVIRONMENT), "192.168.0.1")
    assert not allows(given.for_environment(ORGANIZATION, ENVIRONMENT), "192.168.0.1", 81)
    assert not allows(given.for_environment(OTHER, OTHER), "10.1.2.3")
    assert allows(given.for_environment(OTHER, OTHER), "172.16.0.1")


@pytest.mark.parametrize(
    ("operator", "policy", "address", "allowed"),
    [
        ("10.0.0.0/8", "10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", True),
        ("10.0.0.0/8", "10.1.0.0/16", "10.2.2.3", False),
        # What the operator has not allowed stays closed, however much the environment asks for.
        ("10.1.0.0/16", "10.0.0.0/8", "10.2.2.3", False),
        ("10.1.0.0/16", "0.0.0.0/0,::/0", "127.0.0.1", False),
        ("", "127.0.0.1", "127.0.0.1", False),
        ("127.0.0.1", "", "127.0.0.1", False),
        ("127.0.0.1:80", "127.0.0.1:81", "127.0.0.1", False),
        ("127.0.0.1", "127.0.0.1:80", "127.0.0.1", True),
        # A policy of old that cannot be read opens nothing.
        ("127.0.0.1", "127.0.0.1,%%%", "127.0.0.1", False),
        ("127.0.0.1", True, "127.0.0.1", False),
    ],
)
def test_an_environment_narrows_and_never_widens(operator: str, policy: object, address: str, allowed: bool) -> None:
    given = Allowlist.parse(operator).for_environment(ORGANIZATION, ENVIRONMENT, {"outgoing.allow": policy})
    assert allows(given, address) is allowed


def test_without_a_policy_everything_counts_that_the_operator_allowed() -> None:
    assert allows(
        Allowlist.parse("10.0.0.0/8").for_environment(ORGANIZATION, ENVIRONMENT, {"execrun.isSudo": True}), "10.0.0.1"
    )


@pytest.mark.parametrize("text", ["10.0.0.0/8@", "10.0.0.0/8@me", "@" + ORGANIZATION, f"10.0.0.0/8@{ORGANIZATION}@x"])
def test_an_entry_for_nobody_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(CannotStart, match=r"^LAUNCHBAY_OUTGOING_ALLOW: "):
        Allowlist.parse(text)


def test_the_policy_of_an_environment_speaks_of_itself_alone() -> None:
    check_policy("10.0.0.0/8,build.internal:8080")
    with pytest.raises(ValueError, match="Only the setting"):
        check_policy(f"10.0.0.0/8@{ORGANIZATION}")
    with pytest.raises(ValueError, match="Use an address"):
        check_policy("%")


async def test_requests_of_one_client_keep_each_to_their_own_rules() -> None:
    async with loopback_server() as server:
        outgoing = EgressClient(Allowlist.parse(f"127.0.0.1@{ORGANIZATION}"), resolver=FakeResolver(["127.0.0.1"]))
        url = server.url(host="build.example")
        assert (await outgoing.for_environment(ORGANIZATION).request("GET", url)).status == 200
        for refused in (outgoing, outgoing.for_environment(OTHER)):
            with pytest.raises(AddressRefused):
                await refused.request("GET", url)
        narrowed = outgoing.for_environment(ORGANIZATION, ENVIRONMENT, {"outgoing.allow": "127.0.0.2"})
        with pytest.raises(AddressRefused, match=r"policy outgoing\.allow"):
            await narrowed.request("GET", url)
        assert (await outgoing.for_environment(ORGANIZATION).request("GET", url)).status == 200
        assert server.connections == 2
