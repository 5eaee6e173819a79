"""The machines that a manifest requests of a cloud: parameters of `provisionVms` and `compute.Instance`. Pure.

The names are those of older manifests (manifest-language §9). Contradictions are rejected with a fix. Unknown
parameters are logged and ignored, because manifests contain those of other clouds.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay.errors import ActionFailed
from launchbay.machines.clouds.account import GIVEN, CloudAccount
from launchbay.machines.contract import invalid_setting
from launchbay.model.machine import JumpHost, MachineSpec

_FLAGS = {"true": True, "false": False}


def string(settings: Mapping[str, Any], name: str) -> str:
    """Return a string, or a number as a string. Default: empty."""
    value = settings.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise invalid_setting(name, "a string")
    return str(value)


def strings(settings: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of strings. A single string is comma-separated."""
    value = settings.get(name)
    if value is None:
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each for each in value):
        raise invalid_setting(name, "a list of strings")
    return list(value)


def boolean(settings: Mapping[str, Any], name: str) -> bool:
    """Return a boolean. Default: false."""
    value = settings.get(name, False)
    if isinstance(value, str):
        value = _FLAGS.get(value.strip().lower())
    if not isinstance(value, bool):
        raise invalid_setting(name, "true or false")
    return value


# blockDeviceMapping:
#   "/dev/sda1": { ebs: { volumeSize: 15, deleteOnTermination: true } }
#   "/dev/sdb": ephemeral0

_DISKS = 40  # per machine
_EBS = ("volumeSize", "volumeType", "deleteOnTermination", "encrypted", "iops", "snapshotId")


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk: a volume with these properties, or `virtual`, a disk of the hardware."""

    device: str
    virtual: str = ""
    volume: Mapping[str, str] = field(default_factory=dict)


def read_disks(given: Any) -> tuple[Disk, ...]:
    """Return the disks of `blockDeviceMapping`. Raises ActionFailed."""
    if given in (None, ""):
        return ()
    expected = 'a map from devices to {ebs: {volumeSize: …}} or to a name such as "ephemeral0"'
    if not isinstance(given, Mapping) or len(given) > _DISKS:
        raise invalid_setting("blockDeviceMapping", expected)
    disks: list[Disk] = []
    for device, what in given.items():
        if isinstance(what, str) and what:
            disks.append(Disk(str(device), virtual=what))
        elif isinstance(what, Mapping) and list(what) == ["ebs"] and isinstance(what["ebs"], Mapping):
            disks.append(Disk(str(device), volume=_volume(what["ebs"])))
        else:
            raise invalid_setting("blockDeviceMapping", expected)
    return tuple(disks)


def _volume(given: Mapping[str, Any]) -> dict[str, str]:
    volume: dict[str, str] = {}
    for name, value in given.items():
        if name not in _EBS or not isinstance(value, str | int | bool):
            raise invalid_setting("blockDeviceMapping", f"volumes with some of {', '.join(_EBS)}, each a single value")
        volume[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return volume


DEFAULT_REGION = "us-east-1"
USER_DATA_CHARS = 16_384  # the limit of EC2
_NAME_CHARS = 120
_ZONE = re.compile(r"([a-z]{2,4}(?:-[a-z]+)+-[0-9]+)[a-z]")
_PLACEHOLDERS = ("role", "number", "instance", "component")
_NUMBER = "{number}"
# Fields of the spec too, because `compute.Instance` passes its whole configuration.
_READ_ELSEWHERE = frozenset(("hardwareId", "imageId", "login", "locationId", "roleName"))
_ACCOUNT = ("jcloudsProvider", "jcloudsEndpoint", "jcloudsIdentity", "jcloudsCredential")
_KEY_PAIR = ("keyPair", "publicKeyId")
_PLAIN = (
    "region",
    *_KEY_PAIR,
    "securityGroup",
    "ec2SecurityGroup",
    "subnetId",
    "jcloudsNodeNameTemplate",
    "blockDeviceMapping",
    "providerSettings",
)
_OF_PROVIDER = ("userData", "securityGroup", "securityGroups", "subnetId", "publicIp", "iamProfile", "ebsOptimized")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The machines to create. The security groups are names, or IDs with a `subnet`."""

    image: str
    size: str
    region: str
    zone: str = ""
    name: str = ""
    login: str = ""
    key_pair: str = ""
    jump: tuple[JumpHost, ...] | None = None
    sudo_secret: str = ""
    security_groups: tuple[str, ...] = ()
    subnet: str = ""
    public_ip: bool = False
    user_data: str = ""
    profile: str = ""
    ebs_optimized: bool = False
    disks: tuple[Disk, ...] = ()
    unknown: tuple[str, ...] = ()

    def name_of(self, role: str, number: int, instance: str, component: str) -> str:
        values = {"role": role, "number": str(number), "instance": instance, "component": component}
        name = self.name
        for placeholder in _PLACEHOLDERS:
            name = name.replace(f"{{{placeholder}}}", values[placeholder])
        return name[:_NAME_CHARS]


def read_account_request(spec: MachineSpec) -> CloudAccount:
    """Return the account in a manifest. Without an identity, it selects one of the environment's accounts.

    Raises ActionFailed if only half of the credentials are set.
    """
    provider, endpoint_url, identity, credential = (string(spec.settings, name) for name in _ACCOUNT)
    if bool(identity) != bool(credential):
        given, missing = _ACCOUNT[2:] if identity else _ACCOUNT[:1:-1]
        raise ActionFailed(
            f"The parameter '{given}' is set, but '{missing}' is not.",
            "Set both, or neither to use the environment's cloud account service.",
            retryable=False,
        )
    if identity and not provider:
        raise invalid_setting("jcloudsProvider", "the provider of the identity, such as aws-ec2")
    return CloudAccount(
        id="", name=GIVEN, provider=provider, identity=identity, credential=credential, endpoint_url=endpoint_url
    )


def selects(asked: CloudAccount, account: CloudAccount) -> bool:
    url = _plain(asked.endpoint_url)
    return asked.provider in ("", account.provider) and url in ("", _plain(account.endpoint_url))


def read_order(role: str, spec: MachineSpec, account: CloudAccount) -> Order:
    """Return the machines to create. Raises ActionFailed for missing, invalid and contradictory parameters."""
    more = _of_provider(spec.settings)
    settings = {**more, **{name: value for name, value in spec.settings.items() if value not in (None, "")}}
    image, region, zone = _place(spec, settings, account)
    if not spec.hardware:
        raise invalid_setting("hardwareId", "the size of a machine, such as t3.small; a cloud has no default")
    subnet = _one(settings, more, "subnetId")
    user_data = string(settings, "userData")
    if len(user_data) > USER_DATA_CHARS:
        raise invalid_setting("userData", f"at most {USER_DATA_CHARS} characters; let it fetch the rest")
    public_ip = boolean(settings, "publicIp")
    if public_ip and not subnet:
        raise ActionFailed(
            "'publicIp' needs 'subnetId': without a subnet, the cloud decides about public addresses.",
            "Add 'subnetId', or remove 'publicIp'.",
            retryable=False,
        )
    known = (*_ACCOUNT, *_PLAIN, *_READ_ELSEWHERE)
    return Order(
        image=image,
        size=spec.hardware,
        region=region,
        zone=zone,
        name=_name(role, spec, settings),
        login=spec.login,
        key_pair=_same({**settings, "key_name": spec.key_name}, "key_name", *_KEY_PAIR),
        jump=spec.jump,
        sudo_secret=spec.sudo_secret,
        security_groups=_groups(settings, account, subnet),
        subnet=subnet,
        public_ip=public_ip,
        user_data=user_data,
        profile=string(settings, "iamProfile"),
        ebs_optimized=boolean(settings, "ebsOptimized"),
        disks=read_disks(spec.settings.get("blockDeviceMapping")),
        unknown=tuple(name for name in spec.settings if name not in known),
    )


def _of_provider(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    given = settings.get("providerSettings")
    if given in (None, ""):
        return {}
    if not isinstance(given, Mapping):
        raise invalid_setting("providerSettings", f"a map with some of {', '.join(_OF_PROVIDER)}")
    unknown = [str(name)[:80] for name in given if name not in _OF_PROVIDER]
    if unknown:
        raise ActionFailed(
            f"Unknown key in 'providerSettings': {', '.join(map(repr, unknown[:5]))}.",
            f"Valid keys: {', '.join(_OF_PROVIDER)}.",
            retryable=False,
        )
    return {name: value for name, value in given.items() if value not in (None, "")}


def _place(spec: MachineSpec, settings: Mapping[str, Any], account: CloudAccount) -> tuple[str, str, str]:
    """Return the image without its region, the region, and the zone or an empty string."""
    if not spec.image:
        raise invalid_setting("imageId", "the image of a machine, such as ami-0fac7566 or us-east-1/ami-0fac7566")
    of_image, _, image = spec.image.rpartition("/")
    named = string(settings, "region")
    asked = [named] if named else [part.strip() for part in spec.location.split(",") if part.strip()]
    regions = [(_region_of(part), part if _region_of(part) != part else "") for part in asked]
    if of_image:
        fitting = [zone for region, zone in regions if region == of_image]
        if regions and not fitting:
            raise ActionFailed(
                f"The image {spec.image!r} is in the region {of_image!r}, but the machines are in {', '.join(asked)}.",
                "Name an image of that region, or change the region.",
                retryable=False,
            )
        return _allowed(image, of_image, fitting[0] if fitting else "", account)
    if regions:
        return _allowed(image, *regions[0], account)
    return image, (*account.regions, DEFAULT_REGION)[0], ""


def _allowed(image: str, region: str, zone: str, account: CloudAccount) -> tuple[str, str, str]:
    if account.regions and region not in account.regions:
        raise ActionFailed(
            f"The cloud account {account.name!r} allows {', '.join(account.regions)}, but not the region {region!r}.",
            "Name one of its regions, or change the account.",
            retryable=False,
        )
    return image, region, zone


def _region_of(location: str) -> str:
    """Return the region of a location, which may be a zone such as us-east-1a."""
    zone = _ZONE.fullmatch(location)
    return location if zone is None else zone[1]


def _groups(settings: Mapping[str, Any], account: CloudAccount, subnet: str) -> tuple[str, ...]:
    one = _same(settings, "ec2SecurityGroup", "securityGroup")
    several = strings(settings, "securityGroups")
    if one and several and [one] != several:
        raise ActionFailed(
            "Both 'securityGroups' and a single security group are set. Put all of them into 'securityGroups'.",
            retryable=False,
        )
    groups = tuple(several or ([one] if one else [account.security_group] if account.security_group else []))
    wrong = [group for group in groups if group.startswith("sg-") is not bool(subnet)]
    if not wrong:
        return groups
    if subnet:
        raise ActionFailed(
            f"The security group {wrong[0][:80]!r} is a name. In a subnet, use IDs such as sg-0a1b2c3d.",
            retryable=False,
        )
    raise ActionFailed(
        f"The security group {wrong[0][:80]!r} is an ID, which works only in a subnet.",
        "Add 'subnetId', or use the group's name.",
        retryable=False,
    )


def _name(role: str, spec: MachineSpec, settings: Mapping[str, Any]) -> str:
    template = string(settings, "jcloudsNodeNameTemplate")
    if template:
        unknown = [name for name in re.findall(r"\{(\w+)\}", template) if name not in _PLACEHOLDERS]
        if unknown:
            places = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
            raise invalid_setting("jcloudsNodeNameTemplate", f"only the placeholders {places}, not {{{unknown[0]}}}")
        return template if _NUMBER in template else f"{template}-{_NUMBER}"
    return f"{spec.name_prefix or role}-{_NUMBER}"


def _same(settings: Mapping[str, Any], *names: str) -> str:
    """Return the value of a parameter that has several names."""
    given = {name: value for name in names if (value := string(settings, name))}
    if len(set(given.values())) > 1:
        raise ActionFailed(
            f"{' and '.join(map(repr, given))} mean the same, but their values differ. Set one of them.",
            retryable=False,
        )
    return next(iter(given.values()), "")


def _one(settings: Mapping[str, Any], more: Mapping[str, Any], name: str) -> str:
    """Return a value that may be a parameter, in `providerSettings`, or the same in both."""
    value = string(settings, name)
    if name in more and string(more, name) != value:
        raise ActionFailed(f"{name!r} is set twice with different values. Set it once.", retryable=False)
    return value


def _plain(url: str) -> str:
    return url.rstrip("/").lower()
