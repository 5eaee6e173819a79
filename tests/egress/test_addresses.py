"""Connections are opened in few places, and each keeps the address rules or has an address of the operator's."""

import contextlib
import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.egress.addresses import (
    ALLOW_POLICY,
    Allowlist,
    check_policy,
    forbidden_reason,
    unmapped_address,
    validate_address,
)
from launchbay.errors import AddressRefused, CannotStart
from tests.support.cases import hold

FORBIDDEN_V4 = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255",
    "127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.0.1", "169.254.169.254", "169.254.170.2",
    "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1",
    "192.168.255.255", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1",
    "239.255.255.250", "240.0.0.1", "254.1.2.3", "255.255.255.255",
]  # fmt: skip
# The last four: Teredo with a loopback client, Teredo with a loopback server, ISATAP twice.
FORBIDDEN_V6 = [
    "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
    "100::1", "2001::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1",
    "2002:a9fe:a9fe::", "3fff::1", "5f00::1", "4000::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fdff::1",
    "fe80::1", "fe80::1%1", "febf::1", "fec0::1", "ff02::1", "ff0e::1", "2001:0:5db8:d822:0:0:80ff:fffe",
    "2001:0:7f00:1:0:0:f7f7:f7f7", "2600::5efe:10.0.0.1", "2600::200:5efe:127.0.0.1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "93.184.216.34", "100.63.255.255", "100.128.0.1",
    "126.255.255.255", "128.0.0.1", "169.253.255.255", "172.15.255.255", "172.32.0.1", "192.167.255.255",
    "192.169.0.1", "198.17.255.255", "198.20.0.1", "223.255.255.255", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
    "2002:808:808::1", "2606:4700:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888", "2001:200::1",
    "2001:0:808:808:0:0:f7f7:f7f7",
]  # fmt: skip


def test_a_special_address_is_refused_with_what_it_is_and_the_remedy() -> None:
    hold(_is_refused, ((each,) for each in FORBIDDEN_V4 + FORBIDDEN_V6))


def _is_refused(text: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        validate_address(text, "host.example", 80, Allowlist())

    assert str(unmapped_address(text)) in str(refused.value)
    assert "host.example" in str(refused.value)
    assert "the setting outgoing_allow" in str(refused.value)
    assert not refused.value.retryable


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_dialled_in_its_plainest_form(text: str) -> None:
    assert validate_address(text, "host.example", 80, Allowlist()) == str(unmapped_address(text))


@given(st.ip_addresses(v=4))
def test_whatever_the_standard_library_calls_special_is_refused_in_every_embedding(inner: IPv4Address) -> None:
    special = inner.is_private or inner.is_loopback or inner.is_link_local or inner.is_multicast or inner.is_reserved
    forms = [
        ip_address(f"::ffff:{inner}"),
        ip_address(f"64:ff9b::{inner}"),
        ip_address(f"2600::5efe:{inner}"),
        IPv6Address((0x2002 << 112) | (int(inner) << 80) | 1),
        IPv6Address((0x20010000 << 96) | (0x08080808 << 64) | (int(inner) ^ 0xFFFFFFFF)),
    ]

    assert not special or forbidden_reason(inner) is not None
    assert all((forbidden_reason(form) is None) == (forbidden_reason(inner) is None) for form in forms)


@given(st.ip_addresses(v=6))
def test_an_ipv6_address_that_is_not_globally_unicast_is_refused(address: IPv6Address) -> None:
    special = address.is_private or address.is_multicast or address.is_link_local or address.is_site_local
    is_translated = address.ipv4_mapped is not None or address in (address.teredo or ())

    assert not special or is_translated or forbidden_reason(address) is not None


def test_allowed_networks_hosts_and_ports_may_be_reached() -> None:
    allowlist = Allowlist.parse("127.0.0.1, 10.0.0.0/8,build.internal , [::1]:8080,, fd00::/8, Registry.Local.:5000")

    assert validate_address("127.0.0.1", "localhost", 1, allowlist) == "127.0.0.1"
    assert validate_address("::ffff:127.0.0.1", "localhost", 1, allowlist) == "127.0.0.1"
    assert validate_address("10.200.0.1", "x", 1, allowlist) == "10.200.0.1"
    assert validate_address("192.168.7.7", "BUILD.internal.", 1, allowlist) == "192.168.7.7"
    assert validate_address("::1", "x", 8080, allowlist) == "::1"
    assert validate_address("fd12::1", "x", 1, allowlist) == "fd12::1"
    assert validate_address("192.168.7.7", "registry.local", 5000, allowlist) == "192.168.7.7"


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("127.0.0.2", "localhost", 1),
        ("::1", "x", 8081),
        ("192.168.7.7", "other.internal", 1),
        ("192.168.7.7", "evil.build.internal", 1),
        ("192.168.7.7", "registry.local", 5001),
        ("64:ff9b::127.0.0.1", "x", 1),
        ("::127.0.0.1", "x", 1),
    ],
)
def test_what_is_beside_the_allow_list_stays_refused(address: str, host: str, port: int) -> None:
    allowlist = Allowlist.parse("127.0.0.1, build.internal, [::1]:8080, registry.local:5000")

    with pytest.raises(AddressRefused):
        validate_address(address, host, port, allowlist)


def test_a_network_of_mapped_addresses_counts_as_the_ipv4_network_that_it_is() -> None:
    allowlist = Allowlist.parse("::ffff:10.0.0.0/104")

    assert validate_address("10.1.2.3", "x", 1, allowlist) == "10.1.2.3"


def test_a_name_is_compared_in_its_ascii_form() -> None:
    allowlist = Allowlist.parse("büro.example")

    assert validate_address("10.1.2.3", "xn--bro-hoa.example", 1, allowlist) == "10.1.2.3"


@pytest.mark.parametrize(
    "entry",
    [
        "10.0.0.0/33",
        "10.0.0",
        "a b",
        "host:",
        "host:0",
        "host:65536",
        "host:x",
        "[::1",
        "[::1]x",
        "https://host",
        "*",
        "-/8",
        ".",
    ],
)
def test_an_entry_that_is_nothing_stops_the_start_and_is_named(entry: str) -> None:
    with pytest.raises(CannotStart, match="OUTGOING_ALLOW") as refused:
        Allowlist.parse(f"127.0.0.1, {entry}")

    assert repr(entry) in str(refused.value)


@given(st.text(max_size=60))
def test_any_setting_is_read_or_refused_as_a_setting(text: str) -> None:
    with contextlib.suppress(CannotStart):
        Allowlist.parse(text)


SOURCE = Path(__file__).parents[2] / "src" / "launchbay"
OPENS = re.compile(
    r"httpx\.(AsyncClient|Client|AsyncHTTPTransport|HTTPTransport|get|post|put|request|stream)\b"
    r"|requests\.(get|post|put|delete|head|request|Session)\b|urlopen|open_connection|open_unix_connection"
    r"|create_connection|sock_connect|\.connect_tcp\(|asyncssh\.connect\b|asyncssh\.create_connection"
    r"|smtplib\.SMTP(_SSL)?\(|http\.client\.HTTPS?Connection"
)
# Who may, and what keeps the rules there.
WAYS = {
    "egress/transport.py": "dials the addresses that it has judged",
    "egress/mail.py": "the operator's mail server",
    "app/doctor.py": "servers that the settings of the operator name",
    "machines/ssh_connection.py": "addresses that the resolver has checked, and names for jump hosts",
    "machines/clouds/ec2.py": "addresses that `Parts.reach` has judged",
    "machines/containers/engine_api.py": "the socket that the operator named",
}
# Programs of users, which talk to a server, and none of whose code runs in one.
CLIENTS = ("client/", "cli/", "demo/")


def test_only_these_files_open_connections() -> None:
    opening = {
        name
        for path in SOURCE.rglob("*.py")
        if OPENS.search(path.read_text("utf-8")) and not (name := str(path.relative_to(SOURCE))).startswith(CLIENTS)
    }
    assert opening == set(WAYS)


ORGANIZATION = "0" * 24


@pytest.mark.parametrize(
    ("setting", "host", "port", "is_allowed"),
    [
        ("", "build.internal", 80, False),
        ("build.internal", "build.internal", 80, False),  # reached, but without credentials
        ("http://build.internal", "BUILD.internal.", 80, True),
        ("http://build.internal:8080", "build.internal", 80, False),
        ("http://build.internal:8080", "build.internal", 8080, True),
        ("http://10.0.0.0/8", "10.1.2.3", 80, True),
        ("http://10.0.0.0/8", "build.internal", 80, False),  # whatever its address: names are compared as names
        (f"http://build.internal@{ORGANIZATION}", "build.internal", 80, True),
        (f"http://build.internal@{'1' * 24}", "build.internal", 80, False),
        ("http://*", "build.internal", 80, None),
        # What stays on this machine.
        ("", "127.0.0.1", 8080, True),
        ("", "[::1]", 8080, True),
        ("", "localhost", 8080, True),
        ("", "localhost.example.org", 80, False),
    ],
)
def test_credentials_go_over_plain_http_only_where_an_entry_says_so(
    setting: str, host: str, port: int, is_allowed: bool | None
) -> None:
    if is_allowed is None:
        with pytest.raises(CannotStart):
            Allowlist.parse(setting)
        return
    allowlist = Allowlist.parse(setting).for_environment(ORGANIZATION)
    assert allowlist.allows_plain(host, port) is is_allowed


def test_an_environment_cannot_allow_plain_http_itself() -> None:
    with pytest.raises(ValueError, match="Only the setting"):
        check_policy("http://build.internal")
    narrowed = Allowlist.parse("http://10.0.0.0/8").for_environment(
        ORGANIZATION, policies={ALLOW_POLICY: "10.1.0.0/16"}
    )
    assert narrowed.allows("10.1.0.1", ip_address("10.1.0.1"), 80)  # such an entry allows the address, too
    assert not narrowed.allows("10.2.0.1", ip_address("10.2.0.1"), 80)
