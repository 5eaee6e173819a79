"""What a container engine answers, as far as anybody here reads it: `msgspec` decodes and checks it."""

from collections.abc import Iterator

import msgspec


class Address(msgspec.Struct, frozen=True):
    """The address of a container in one network; empty where it has none."""

    ip: str | None = msgspec.field(default=None, name="IPAddress")


class Networks(msgspec.Struct, frozen=True):
    """The addresses of a container."""

    ip: str | None = msgspec.field(default=None, name="IPAddress")
    networks: dict[str, Address] | None = msgspec.field(default=None, name="Networks")

    def address(self) -> str:
        """Return one of the addresses, nothing where there is none."""
        return next(filter(None, self._addresses()), "")

    def _addresses(self) -> Iterator[str | None]:
        yield self.ip
        for network in (self.networks or {}).values():
            yield network.ip


class Configuration(msgspec.Struct, frozen=True, rename="pascal"):
    """What a container was made with."""

    hostname: str = ""
    labels: dict[str, str] | None = None


class State(msgspec.Struct, frozen=True):
    """Whether a container runs: `created`, `running`, `exited`, and others that engines have."""

    status: str = msgspec.field(default="", name="Status")
    oom_killed: bool = msgspec.field(default=False, name="OOMKilled")


class Container(msgspec.Struct, frozen=True):
    """One container, in detail."""

    id: str = msgspec.field(name="Id")
    configuration: Configuration = msgspec.field(default=Configuration(), name="Config")
    networks: Networks = msgspec.field(default=Networks(), name="NetworkSettings")
    state: State = msgspec.field(default=State(), name="State")


class ListedContainer(msgspec.Struct, frozen=True):
    """One container of a list. `created` is in seconds since the epoch."""

    id: str = msgspec.field(name="Id")
    created: int = msgspec.field(name="Created")
    labels: dict[str, str] | None = msgspec.field(default=None, name="Labels")
    networks: Networks | None = msgspec.field(default=None, name="NetworkSettings")


class Made(msgspec.Struct, frozen=True):
    """Something that was made."""

    id: str = msgspec.field(name="Id")


class Waited(msgspec.Struct, frozen=True):
    """How a container ended."""

    exit_code: int = msgspec.field(name="StatusCode")


class Execution(msgspec.Struct, frozen=True):
    """How a command stands."""

    is_running: bool = msgspec.field(default=False, name="Running")
    exit_code: int | None = msgspec.field(default=None, name="ExitCode")


class Refusal(msgspec.Struct, frozen=True):
    """Why the engine says no."""

    message: str
