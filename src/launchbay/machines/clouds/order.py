"""What a manifest asks of a cloud: the parameters of `provisionVms` and `compute.Instance`, held together. Pure.

The names are those of old manifests (manifest-language §9). What contradicts itself is refused with what to change; a
parameter that means nothing here is told and left, because manifests carry those of other clouds.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay.errors import ActionFailed
from launchbay.machines.clouds.account import CloudAccount
from launchbay.model.machine import MachineSpec

_FLAGS = {"true": True, "false": False}


def refusal(name: str, expected: str) -> ActionFailed:
    """Return the error for a parameter that is wrong or missing. It does not repeat the value, which may be secret."""
    return ActionFailed(f"The parameter '{name}' is wrong or missing: expected {expected}.", retryable=False)


def string(settings: Mapping[str, Any], name: str) -> str:
    """Return a text, empty where it is left out; a number is written as text."""
    value = settings.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise refusal(name, "a text")
    return str(value)


def strings(settings: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of texts; a single text is separated at its commas."""
    value = settings.get(name)
    if value is None:
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each for each in value):
        raise refusal(name, "a list of texts")
    return list(value)


def boolean(settings: Mapping[str, Any], name: str) -> bool:
    """Return true or false; false where it is left out."""
    value = settings.get(name, False)
    if isinstance(value, str):
        value = _FLAGS.get(value.strip().lower())
    if not isinstance(value, bool):
        raise refusal(name, "true or false")
    return value


# The disks of a cloud machine, as `blockDeviceMapping` names them. Pure.
#
# blockDeviceMapping:
#   "/dev/sda1": { ebs: { volumeSize: 15, deleteOnTermination: true } }
#   "/dev/sdb": ephemeral0

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


DEFAULT_REGION = "us-east-1"
USER_DATA_CHARS = 16_384  # that EC2 takes
_NAME_CHARS = 120
_ZONE = re.compile(r"([a-z]{2,4}(?:-[a-z]+)+-[0-9]+)[a-z]")
_PLACEHOLDERS = ("role", "number", "instance", "component")
_NUMBER = "{number}"
# What stands in a spec by itself already: `compute.Instance` hands over its whole configuration.
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
    """What shall be made. The security groups are names, or ids where there is a `subnet`."""

    image: str
    size: str
    region: str
    zone: str = ""
    name: str = ""
    login: str = ""
    key_pair: str = ""
    security_groups: tuple[str, ...] = ()
    subnet: str = ""
    public_ip: bool = False
    user_data: str = ""
    profile: str = ""
    ebs_optimized: bool = False
    disks: tuple[Disk, ...] = ()
    unknown: tuple[str, ...] = ()

    def name_of(self, role: str, number: int, instance: str, component: str) -> str:
        """Return the name of one of the machines."""
        values = {"role": role, "number": str(number), "instance": instance, "component": component}
        name = self.name
        for placeholder in _PLACEHOLDERS:
            name = name.replace(f"{{{placeholder}}}", values[placeholder])
        return name[:_NAME_CHARS]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRequest:
    """What a manifest says about the account: all, to bring its own, or some, to choose among those that there are."""

    provider: str = ""
    endpoint_url: str = ""
    identity: str = ""
    credential: str = ""

    @property
    def has_credentials(self) -> bool:
        """Tell whether it is an account of its own."""
        return bool(self.identity)

    def matches(self, account: CloudAccount) -> bool:
        """Tell whether an account is one that was asked for."""
        return self.provider in ("", account.provider) and _plain(self.endpoint_url) in (
            "",
            _plain(account.endpoint_url),
        )


def read_account_request(spec: MachineSpec) -> AccountRequest:
    """Return what a manifest says about the account. Raises ActionFailed for half of the credentials."""
    provider, endpoint_url, identity, credential = (string(spec.settings, name) for name in _ACCOUNT)
    if bool(identity) != bool(credential):
        given, missing = _ACCOUNT[2:] if identity else _ACCOUNT[:1:-1]
        raise ActionFailed(
            f"The parameter '{given}' is there and '{missing}' is not.",
            "Give both, or neither: then the cloud account service of the environment counts.",
            retryable=False,
        )
    if identity and not provider:
        raise refusal("jcloudsProvider", "the provider that the identity is for, such as aws-ec2")
    return AccountRequest(provider=provider, endpoint_url=endpoint_url, identity=identity, credential=credential)


def read_order(role: str, spec: MachineSpec, account: CloudAccount) -> Order:
    """Return what shall be made. Raises ActionFailed with what is missing, wrong or contradicts itself."""
    more = _of_provider(spec.settings)
    settings = {**more, **{name: value for name, value in spec.settings.items() if value not in (None, "")}}
    image, region, zone = _place(spec, settings, account)
    if not spec.hardware:
        raise refusal("hardwareId", "the size of a machine, such as t3.small; a cloud has no default")
    subnet = _one(settings, more, "subnetId")
    user_data = string(settings, "userData")
    if len(user_data) > USER_DATA_CHARS:
        raise refusal("userData", f"at most {USER_DATA_CHARS} characters; let it fetch the rest")
    public_ip = boolean(settings, "publicIp")
    if public_ip and not subnet:
        raise ActionFailed(
            "'publicIp' is true and there is no 'subnetId': a cloud gives an address by the rules of a subnet.",
            "Add 'subnetId', or leave 'publicIp' out.",
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
        raise refusal("providerSettings", f"a map with some of {', '.join(_OF_PROVIDER)}")
    unknown = [str(name)[:80] for name in given if name not in _OF_PROVIDER]
    if unknown:
        raise ActionFailed(
            f"'providerSettings' has {', '.join(map(repr, unknown[:5]))}, which the cloud provider does not know.",
            f"It knows {', '.join(_OF_PROVIDER)}.",
            retryable=False,
        )
    return {name: value for name, value in given.items() if value not in (None, "")}


def _place(spec: MachineSpec, settings: Mapping[str, Any], account: CloudAccount) -> tuple[str, str, str]:
    """Return the image without its region, the region, and the zone or nothing."""
    if not spec.image:
        raise refusal("imageId", "the image of a machine, such as ami-0fac7566 or us-east-1/ami-0fac7566")
    of_image, _, image = spec.image.rpartition("/")
    named = string(settings, "region")
    asked = [named] if named else [part.strip() for part in spec.location.split(",") if part.strip()]
    regions = [(_region_of(part), part if _region_of(part) != part else "") for part in asked]
    if of_image:
        fitting = [zone for region, zone in regions if region == of_image]
        if regions and not fitting:
            raise ActionFailed(
                f"The image {spec.image!r} is of the region {of_image!r}, and machines are asked for in "
                f"{', '.join(asked)}.",
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
            f"The cloud account {account.name!r} is for {', '.join(account.regions)}, not for the region {region!r}.",
            "Name one of its regions, or change the account.",
            retryable=False,
        )
    return image, region, zone


def _region_of(location: str) -> str:
    """Return the region of a location, which may be a zone of it, such as us-east-1a."""
    zone = _ZONE.fullmatch(location)
    return location if zone is None else zone[1]


def _groups(settings: Mapping[str, Any], account: CloudAccount, subnet: str) -> tuple[str, ...]:
    one = _same(settings, "ec2SecurityGroup", "securityGroup")
    several = strings(settings, "securityGroups")
    if one and several and [one] != several:
        raise ActionFailed(
            "'securityGroups' and a single security group are both given. Name all of them in one place.",
            retryable=False,
        )
    groups = tuple(several or ([one] if one else [account.security_group] if account.security_group else []))
    wrong = [group for group in groups if group.startswith("sg-") is not bool(subnet)]
    if not wrong:
        return groups
    if subnet:
        raise ActionFailed(
            f"In a subnet security groups are named by their ids, such as sg-0a1b2c3d; {wrong[0][:80]!r} is a name.",
            retryable=False,
        )
    raise ActionFailed(
        f"The security group {wrong[0][:80]!r} is named by its id, which counts in a subnet only.",
        "Add 'subnetId', or give the group's name.",
        retryable=False,
    )


def _name(role: str, spec: MachineSpec, settings: Mapping[str, Any]) -> str:
    template = string(settings, "jcloudsNodeNameTemplate")
    if template:
        unknown = [name for name in re.findall(r"\{(\w+)\}", template) if name not in _PLACEHOLDERS]
        if unknown:
            places = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
            raise refusal("jcloudsNodeNameTemplate", f"a text with {places} where they belong, not {{{unknown[0]}}}")
        return template if _NUMBER in template else f"{template}-{_NUMBER}"
    return f"{spec.name_prefix or role}-{_NUMBER}"


def _same(settings: Mapping[str, Any], *names: str) -> str:
    """Return the one value of several names for the same thing."""
    given = {name: value for name in names if (value := string(settings, name))}
    if len(set(given.values())) > 1:
        raise ActionFailed(
            f"{' and '.join(map(repr, given))} stand for the same thing and are different: give one of them.",
            retryable=False,
        )
    return next(iter(given.values()), "")


def _one(settings: Mapping[str, Any], more: Mapping[str, Any], name: str) -> str:
    """Return a value that may stand among the parameters or in `providerSettings`, the same where in both."""
    value = string(settings, name)
    if name in more and string(more, name) != value:
        raise ActionFailed(f"{name!r} stands twice with different values: give it once.", retryable=False)
    return value


def _plain(url: str) -> str:
    return url.rstrip("/").lower()


def unknown_settings_line(names: Iterable[str]) -> str:
    """Return the line about parameters that mean nothing here."""
    return f"The cloud provider has no use for {', '.join(names)}."
