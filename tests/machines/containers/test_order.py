"""What a manifest asks of a container, within what the operator allows."""

from typing import Any

import pytest

from launchbay.errors import ActionFailed
from launchbay.machines.containers.order import ContainerLimits, ContainerOrder, read_container_order
from launchbay.machines.contract import Tags
from launchbay.model.machine import MachineSpec
from tests.support.contexts import context

ALLOWED = ContainerLimits(memory_mb=512, cpus=2.0, networks=("bridge", "apps"))
MARKS = Tags.of("here", context(), "web", 1)


def order(**more: Any) -> ContainerOrder:
    settings = more.pop("settings", None)
    return read_container_order(
        MachineSpec(**{"image": "debian:12", **more}, settings={"providerSettings": settings}), ALLOWED
    )


@pytest.mark.parametrize(
    ("size", "cpus", "memory_mb", "is_unknown"),
    [("", 2.0, 512, False), ("0.5x256m", 0.5, 256, False), ("128M", 2.0, 128, False), ("m1.small", 2.0, 512, True)],
)
def test_a_size_is_processors_and_memory(size: str, cpus: float, memory_mb: int, is_unknown: bool) -> None:
    found = order(hardware=size)
    assert (found.cpus, found.memory_mb, found.size_is_unknown) == (cpus, memory_mb, is_unknown)


def test_the_engine_is_told_the_caps_and_no_way_out() -> None:
    body = order(hardware="0.5x256m").body(MARKS, "web-1")
    host = body["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (256 * 2**20, 256 * 2**20, 500_000_000)
    assert host["Privileged"] is False
    assert not {"Binds", "Mounts", "Devices", "PidMode", "IpcMode", "CapAdd", "SecurityOpt"} & host.keys()
    assert body["Labels"]["launchbay.instance"] == MARKS.instance


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"image": ""}, "'imageId' is invalid or missing"),
        ({"hardware": "1g"}, "exceeds the limit for containers: 2 processors and 512 MiB"),
        ({"hardware": "4x64m"}, "exceeds the limit for containers"),
        (
            {"settings": {"network": "host"}},
            "The network 'host' isn't allowed for containers. Allowed: bridge, apps",
        ),
        ({"settings": {"privileged": True}}, "Expected a map with some of command, environment, network"),
        ({"settings": {"command": "sleep 1"}}, "'providerSettings.command' is invalid"),
        ({"settings": {"environment": {"A=B": "x"}}}, "'providerSettings.environment' is invalid"),
    ],
)
def test_what_is_more_than_allowed_is_refused_for_good(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ActionFailed) as refused:
        order(**more)
    assert said in str(refused.value)
    assert not refused.value.retryable


def test_a_command_and_an_environment_are_handed_on_as_they_are() -> None:
    body = order(settings={"command": ["/init", "a b"], "environment": {"X": "$1 'y'"}, "network": "apps"}).body(
        MARKS, "w"
    )
    assert (body["Entrypoint"], body["Cmd"]) == (["/init"], ["a b"])
    assert (body["Env"], body["HostConfig"]["NetworkMode"]) == (["X=$1 'y'"], "apps")


@pytest.mark.parametrize(
    ("prefix", "role", "name"), [("", "Web Server", "web-server-3"), ("a" * 90, "r", "a" * 61 + "-3"), ("ü", "r", "3")]
)
def test_a_host_name_is_one_that_networks_know(prefix: str, role: str, name: str) -> None:
    assert order(name_prefix=prefix).host_name(role, 3) == name
