"""How hosts are written in `staticIps` and in pools."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.model.machine import JumpHost, StaticHost, address_of, read_host, read_jump, read_resource


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("10.0.0.5", StaticHost(address="10.0.0.5")),
        (" db.example ", StaticHost(address="db.example")),
        ("ops@db.example:2222", StaticHost(address="db.example", login="ops", port=2222)),
        ("2001:db8::5", StaticHost(address="2001:db8::5")),
        ("root@[2001:db8::5]:22", StaticHost(address="2001:db8::5", login="root", port=22)),
        ("svc.deploy@10.0.0.5", StaticHost(address="10.0.0.5", login="svc.deploy")),
    ],
)
def test_an_entry_says_host_login_and_port(text: str, host: StaticHost) -> None:
    assert read_host(text) == host
    assert address_of(text) == host.address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "h:",
        "h:0",
        "h:65536",
        "h:x",
        "[::1]x",
        "@h",
        "-oProxyCommand=x@h",
        "$(id)",
        "h;ls",
        "-h",
        "h\nx",
        "x@",
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid host .* Use an address"):
        read_host(text)
    assert address_of(text) == text


@given(st.text(max_size=60))
def test_every_text_is_a_host_or_refused(text: str) -> None:
    try:
        found = read_host(text)
    except ValueError:
        return
    assert not set(found.address + found.login) & set(" '\"`$;|&<>\n\0")
    assert not found.address.startswith("-")


@pytest.mark.parametrize(
    ("resource_id", "place", "host"),
    [
        ("rack-1", "ops@10.0.0.5:2222", StaticHost(address="10.0.0.5", login="ops", port=2222)),
        ("10.0.0.5", None, StaticHost(address="10.0.0.5")),
        ("10.0.0.5:23", {"note": "blue"}, StaticHost(address="10.0.0.5", port=23)),
        (
            "rack-2",
            {"address": "10.0.0.6", "port": "2222", "user": "ops", "keyPair": "deploy"},
            StaticHost(address="10.0.0.6", login="ops", port=2222, key_name="deploy"),
        ),
        ("10.0.0.9", {"sudoPassword": "deploy"}, StaticHost(address="10.0.0.9", sudo_secret="deploy")),
        ("10.0.0.7", {"jump": "none"}, StaticHost(address="10.0.0.7", jump=())),
        ("10.0.0.8", {"jump": ["b.example"]}, StaticHost(address="10.0.0.8", jump=(JumpHost(address="b.example"),))),
    ],
)
def test_a_resource_of_a_pool_is_a_text_or_a_map(resource_id: str, place: Any, host: StaticHost) -> None:
    assert read_resource(resource_id, place) == host


@pytest.mark.parametrize("place", [{"port": -1}, {"port": "x"}, {"port": True}, {"port": 70_000}, {"address": "a b"}])
def test_a_resource_that_is_no_host_is_refused(place: Any) -> None:
    with pytest.raises(ValueError, match=r"has an invalid port\.|Invalid host"):
        read_resource("10.0.0.5", place)


def test_a_resource_names_itself_if_its_jump_hosts_are_wrong() -> None:
    with pytest.raises(ValueError, match=r"^The way to the host 10\.0\.0\.5: Unknown key 'adress' of a jump host"):
        read_resource("10.0.0.5", {"jump": [{"adress": "b"}]})


@pytest.mark.parametrize(
    ("value", "hosts"),
    [
        (None, ()),
        ("none", ()),
        ([], ()),
        ("b.example", (JumpHost(address="b.example"),)),
        (
            "ops@b.example,deploy@10.0.0.2:2222=inner",
            (
                JumpHost(address="b.example", login="ops"),
                JumpHost(address="10.0.0.2", login="deploy", port=2222, key_name="inner"),
            ),
        ),
        (
            ["b.example", {"address": "2001:db8::5", "port": "23", "user": "ops", "keyPair": "a key"}],
            (JumpHost(address="b.example"), JumpHost(address="2001:db8::5", port=23, login="ops", key_name="a key")),
        ),
    ],
)
def test_jump_hosts_are_a_text_or_a_list_in_the_order_of_the_way(value: Any, hosts: tuple[JumpHost, ...]) -> None:
    assert read_jump(value) == hosts


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("", "Invalid host ''"),
        ("a,", "Invalid host ''"),
        ("none,a b", "Invalid host 'a b'"),
        (5, "Invalid jump hosts: use"),
        (True, "Invalid jump hosts: use"),
        ({"address": "b"}, "Invalid jump hosts: use"),
        ([["b"]], "Invalid jump host "),
        ([{"port": 22}], "Invalid host ''"),
        ([{"address": "b", "proxy": "x"}], "Unknown key 'proxy' of a jump host. Use address, port, user, keyPair"),
        ([{"address": "b", "port": 70_000}], "The host b has an invalid port"),
        ([{"address": "b", "user": "x\n  ProxyCommand id"}], "The host b has an invalid login"),
        (["b"] * 9, "There are 9 jump hosts in a row. Limit: 8."),
    ],
)
def test_what_names_no_jump_hosts_is_refused(value: Any, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        read_jump(value)
