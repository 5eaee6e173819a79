"""The disks of a cloud machine, as `blockDeviceMapping` names them. Pure.

blockDeviceMapping:
  "/dev/sda1": { ebs: { volumeSize: 15, deleteOnTermination: true } }
  "/dev/sdb": ephemeral0
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay.machines.clouds.reading import refusal

_DISKS = 40  # that one machine may have
_EBS = ("volumeSize", "volumeType", "deleteOnTermination", "encrypted", "iops", "snapshotId")


@dataclass(frozen=True, slots=True)
class Disk:
    """One disk: a volume with these properties, or `virtual`, one that belongs to the hardware."""

    device: str
    virtual: str = ""
    volume: Mapping[str, str] = field(default_factory=dict)


def read_disks(given: Any) -> tuple[Disk, ...]:
    """Return the disks. Raises ActionFailed for what is none."""
    if given in (None, ""):
        return ()
    expected = 'a map from devices to {ebs: {volumeSize: …}} or to a name such as "ephemeral0"'
    if not isinstance(given, Mapping) or len(given) > _DISKS:
        raise refusal("blockDeviceMapping", expected)
    disks: list[Disk] = []
    for device, what in given.items():
        if isinstance(what, str) and what:
            disks.append(Disk(str(device), virtual=what))
        elif isinstance(what, Mapping) and list(what) == ["ebs"] and isinstance(what["ebs"], Mapping):
            disks.append(Disk(str(device), volume=_volume(what["ebs"])))
        else:
            raise refusal("blockDeviceMapping", expected)
    return tuple(disks)


def _volume(given: Mapping[str, Any]) -> dict[str, str]:
    volume: dict[str, str] = {}
    for name, value in given.items():
        if name not in _EBS or not isinstance(value, str | int | bool):
            raise refusal("blockDeviceMapping", f"volumes with some of {', '.join(_EBS)}, each a single value")
        volume[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return volume
