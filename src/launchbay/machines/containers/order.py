"""The container that a manifest requests: the parameters of `provisionVms`, within the settings' limits. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay.errors import ActionFailed
from launchbay.machines.contract import Tags, invalid_setting
from launchbay.model.machine import MachineSpec

MIB = 1024 * 1024
_SIZE = re.compile(r"(?:([0-9]+(?:\.[0-9]+)?)x)?([1-9][0-9]*)([mg])", re.IGNORECASE)
_OF_PROVIDER = ("command", "environment", "network")
_HOST_NAME_CHARS = 63
_PIDS = 1_024
_NANO = 1_000_000_000
# Waits forever, ends immediately on a signal, and reaps the processes that commands leave behind.
_KEEP_RUNNING = ("sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLimits:
    """What the settings allow for a container. The first network is the default.

    `files` and `processes` limit one login. The engine can't allow more than it has itself.
    """

    memory_mb: int
    cpus: float
    networks: tuple[str, ...]
    files: int = 65_536
    processes: int = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOrder:
    """The container to create."""

    image: str
    memory_mb: int
    cpus: float
    network: str
    files: int
    processes: int
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    name_prefix: str = ""
    size_is_unknown: bool = False

    def body(self, tags: Tags, name: str) -> dict[str, Any]:
        """Return the engine's request for the container."""
        program, *arguments = self.command or _KEEP_RUNNING
        hosted = {} if self.network == "host" else {"Hostname": name}
        return {
            "Image": self.image,
            # Never empty: for Docker an empty list means the image's own.
            "Entrypoint": [program],
            "Cmd": arguments,
            **hosted,
            "Env": [f"{name}={value}" for name, value in self.environment.items()],
            "Labels": tags.to_dict(),
            "HostConfig": {
                "NetworkMode": self.network,
                "Memory": self.memory_mb * MIB,
                "MemorySwap": self.memory_mb * MIB,
                "NanoCpus": int(self.cpus * _NANO),
                "PidsLimit": _PIDS,
                "Ulimits": [
                    {"Name": name, "Soft": most, "Hard": most}
                    for name, most in (("nofile", self.files), ("nproc", self.processes))
                ],
                "Privileged": False,
                "RestartPolicy": {"Name": "no"},
            },
        }

    def host_name(self, role: str, number: int) -> str:
        """Return the container's name in its network."""
        name = re.sub(r"[^a-z0-9-]+", "-", f"{self.name_prefix or role}-{number}".lower()).strip("-")
        return name[-_HOST_NAME_CHARS:].lstrip("-") or f"machine-{number}"


def read_container_order(spec: MachineSpec, allowed: ContainerLimits) -> ContainerOrder:
    """Return the container to create. Raises ActionFailed for invalid parameters, and beyond the limits."""
    if not spec.image:
        raise invalid_setting("imageId", "the name of an image that the container engine has, such as debian:12")
    given = spec.settings.get("providerSettings") or {}
    if not isinstance(given, Mapping) or any(name not in _OF_PROVIDER for name in given):
        raise invalid_setting("providerSettings", f"a map with some of {', '.join(_OF_PROVIDER)}")
    size = _SIZE.fullmatch(spec.hardware.strip())
    memory_mb, cpus = allowed.memory_mb, allowed.cpus
    if size is not None:
        memory_mb = int(size[2]) * (1024 if size[3].lower() == "g" else 1)
        cpus = float(size[1]) if size[1] else allowed.cpus
        if memory_mb > allowed.memory_mb or not 0 < cpus <= allowed.cpus:
            raise ActionFailed(
                f"The size {spec.hardware!r} exceeds the limit for containers: {allowed.cpus:g} processors and "
                f"{allowed.memory_mb} MiB.",
                "Use a smaller size. An administrator can raise the limit: container_cpus, container_memory_mb.",
                retryable=False,
            )
    return ContainerOrder(
        image=spec.image,
        memory_mb=memory_mb,
        cpus=cpus,
        network=_network(given, allowed),
        files=allowed.files,
        processes=allowed.processes,
        command=_texts(given.get("command")),
        environment=_environment(given.get("environment")),
        name_prefix=spec.name_prefix,
        size_is_unknown=size is None and bool(spec.hardware),
    )


def _network(given: Mapping[str, Any], allowed: ContainerLimits) -> str:
    network = given.get("network") or allowed.networks[0]
    if network not in allowed.networks:
        raise ActionFailed(
            f"The network {str(network)[:80]!r} isn't allowed for containers. Allowed: {', '.join(allowed.networks)}.",
            "Choose one of these. An administrator can add networks with the setting container_networks.",
            retryable=False,
        )
    return str(network)


def _texts(value: Any) -> tuple[str, ...]:
    if value in (None, ""):
        return ()
    if not isinstance(value, list | tuple) or not value or not all(isinstance(each, str) and each for each in value):
        raise invalid_setting("providerSettings.command", "a list of strings: a program and its arguments")
    return tuple(value)


def _environment(value: Any) -> dict[str, str]:
    if value in (None, ""):
        return {}
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) and name and "=" not in name and isinstance(text, str | int | float)
        for name, text in value.items()
    ):
        raise invalid_setting("providerSettings.environment", "a map from names to strings")
    return {name: str(text) for name, text in value.items()}
