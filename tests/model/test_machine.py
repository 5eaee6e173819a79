"""How hosts are written in `staticIps` and in pools."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.model.machine import StaticHost, address_of, read_host, read_resource


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
    ],
)
def test_a_resource_of_a_pool_is_a_text_or_a_map(resource_id: str, place: Any, host: StaticHost) -> None:
    assert read_resource(resource_id, place) == host


@pytest.mark.parametrize("place", [{"port": -1}, {"port": "x"}, {"port": True}, {"port": 70_000}, {"address": "a b"}])
def test_a_resource_that_is_no_host_is_refused(place: Any) -> None:
    with pytest.raises(ValueError, match=r"has an invalid port\.|Invalid host"):
        read_resource("10.0.0.5", place)
