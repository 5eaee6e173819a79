"""Policies say how machines of a cloud are reached."""

from typing import Any

import pytest

from launchbay.errors import ActionFailed
from launchbay.machines.clouds.driver import Node, NodeState, read_node_access
from tests.support.contexts import context

NODE = Node(id="i", state=NodeState.RUNNING, public_ip="192.0.2.1", private_ip="10.0.0.1")


def test_machines_are_reached_by_their_public_address_and_the_port_of_ssh() -> None:
    way = read_node_access(context())
    assert (way.addresses(NODE), way.port, way.waits_for_ssh) == (("192.0.2.1", "10.0.0.1"), 22, True)


def test_policies_choose_otherwise() -> None:
    policies = {"machines.address": "private", "machines.ssh-port": 2222, "machines.start-timeout": 60}
    way = read_node_access(context(policies=policies))
    assert (way.addresses(NODE), way.port, way.within_s) == (("", "10.0.0.1"), 2222, 60)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("machines.address", "inner"),
        ("machines.ssh-port", 0),
        ("machines.ssh-port", "22"),
        ("machines.ssh-port", True),
        ("machines.wait-for-ssh", "no"),
        ("machines.start-timeout", 100_000),
    ],
)
def test_a_policy_that_cannot_be_is_told_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(ActionFailed, match=f"Invalid policy {name} of the environment: "):
        read_node_access(context(policies={name: value}))
