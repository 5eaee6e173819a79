"""Sizes of the embedded PostgreSQL, from the memory of the machine (decision 0179)."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from launchbay.limits import MIB
from launchbay.settings import Settings

_UNLIMITED = 1 << 60  # cgroups of version 1 write a number near 2^63 for no limit
UNKNOWN_MIB = 1024  # what a machine that doesn't tell is taken for


class Memory(NamedTuple):
    """Memory in bytes, and whether a container or unit bounds it."""

    total: int
    is_bounded: bool


class Sizes(NamedTuple):
    """Settings of PostgreSQL in MiB, by their names there."""

    shared_buffers: int
    effective_cache_size: int
    work_mem: int
    maintenance_work_mem: int
    max_wal_size: int


def read_memory(root: Path = Path("/")) -> Memory | None:
    """Return the memory that this process may use; None if the machine doesn't tell.

    `root` has `proc` and `sys` of the machine.
    """
    total = _UNLIMITED
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) * 1024
    bound = min((int(text) for text in _limits(root) if text.isdigit()), default=_UNLIMITED)
    least = min(total, bound)
    return None if least >= _UNLIMITED else Memory(least, bound < total)


def _limits(root: Path) -> Iterator[str]:
    """Yield the limits of this process's cgroup and of those above it.

    Both versions of cgroups have them.
    """
    groups = {"": "/", "memory": "/"}
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "memory" in controllers.split(","):
            groups["memory" if controllers else ""] = path
    for version, file in (("", "memory.max"), ("memory", "memory.limit_in_bytes")):
        mount = root / "sys/fs/cgroup" / version
        group = Path(groups[version])
        # In a container, the path may be that of the host: then only the mount itself is there.
        for each in (group, *group.parents):
            yield _text(mount / str(each).lstrip("/") / file)


def sized(memory_mib: int) -> Sizes:
    """Return what PostgreSQL may take of so much memory.

    It shares the machine with servers and with what their steps start.
    """
    return Sizes(
        shared_buffers=_between(128, memory_mib // 8, 8_192),
        effective_cache_size=max(256, memory_mib // 2),  # nothing is reserved: it says what the system may cache
        work_mem=_between(4, memory_mib // 512, 32),  # for each sort of each connection
        maintenance_work_mem=_between(64, memory_mib // 32, 1_024),  # vacuums take it up to three times
        max_wal_size=_between(1_024, memory_mib // 8, 2_048),  # on the disk, and replayed after a crash
    )


def sizes_of(settings: Settings, root: Path = Path("/")) -> Sizes:
    """Return the sizes of the settings, and the rule's for the rest."""
    memory = read_memory(root)
    measured_mib = memory.total // MIB if memory else UNKNOWN_MIB
    ruled = sized(settings.postgres_memory_mib or measured_mib)
    return Sizes(*(getattr(settings, f"postgres_{name}_mib") or size for name, size in ruled._asdict().items()))


def as_overrides(sizes: Sizes) -> dict[str, str]:
    """Return the sizes as PostgreSQL writes them."""
    return {name: f"{size}MB" for name, size in sizes._asdict().items()}


def _between(least: int, wanted: int, most: int) -> int:
    return max(least, min(wanted, most))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return ""
