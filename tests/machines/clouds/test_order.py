"""What a manifest asks of a cloud, and what contradicts itself."""

from typing import Any

import pytest

from launchbay.errors import ActionFailed
from launchbay.machines.clouds.order import Disk, Order, read_account_request, read_order, selects
from tests.support.clouds import account, spec

ACCOUNT = account("https://ec2.example", regions=())


def order(role: str = "web", regions: tuple[str, ...] = (), **more: Any) -> Order:
    return read_order(role, spec(**more), account("https://ec2.example", regions=regions))


def test_the_parameters_of_a_public_manifest_are_read() -> None:
    settings = {"ec2SecurityGroup": "default", "jcloudsProvider": "aws-ec2", "jcloudsEndpoint": "https://ec2.example/"}
    found = order(
        image="us-east-1/ami-0fac7566",
        hardware="m1.small",
        location="us-east-1",
        name_prefix="petclinic",
        settings=settings,
    )
    assert (found.image, found.region, found.size, found.login) == ("ami-0fac7566", "us-east-1", "m1.small", "ubuntu")
    assert found.security_groups == ("default",)
    assert found.name_of("db", 3, "i", "c") == "petclinic-3"
    assert found.unknown == ()
    assert selects(read_account_request(spec(settings=settings)), ACCOUNT)


def test_disks_and_user_data_are_read() -> None:
    found = order(
        settings={
            "blockDeviceMapping": {
                "/dev/sda1": {"ebs": {"volumeSize": 15, "deleteOnTermination": True}},
                "/dev/sdb": "ephemeral0",
            },
            "providerSettings": {"userData": "#cloud-config\n", "subnetId": "subnet-1", "publicIp": "true"},
        }
    )
    assert found.disks == (
        Disk("/dev/sda1", volume={"volumeSize": "15", "deleteOnTermination": "true"}),
        Disk("/dev/sdb", virtual="ephemeral0"),
    )
    assert (found.user_data, found.subnet, found.public_ip) == ("#cloud-config\n", "subnet-1", True)


@pytest.mark.parametrize(
    ("image", "location", "regions", "region", "zone"),
    [
        ("ami-1", "", (), "us-east-1", ""),
        ("ami-1", "", ("eu-west-1", "us-east-1"), "eu-west-1", ""),
        ("ami-1", "us-west-2, us-west-1", (), "us-west-2", ""),
        ("us-west-1/ami-1", "us-west-2,us-west-1", (), "us-west-1", ""),
        ("ami-1", "us-east-1a", ("us-east-1",), "us-east-1", "us-east-1a"),
        ("us-east-1/ami-1", "us-east-1b", (), "us-east-1", "us-east-1b"),
        ("ami-1", "RegionOne", (), "RegionOne", ""),
    ],
)
def test_the_region_is_that_of_the_image_or_the_first_that_was_named(
    image: str, location: str, regions: tuple[str, ...], region: str, zone: str
) -> None:
    found = order(image=image, location=location, regions=regions)
    assert (found.region, found.zone, found.image) == (region, zone, "ami-1")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"image": ""}, "'imageId' is invalid or missing. Expected the image"),
        ({"hardware": ""}, "'hardwareId' is invalid or missing. Expected the size"),
        ({"image": "eu-west-1/ami-1", "location": "us-east-1"}, "is in the region 'eu-west-1', but the machines are"),
        ({"location": "us-east-1", "regions": ("eu-west-1",)}, "allows eu-west-1, but not the region 'us-east-1'"),
        ({"settings": {"securityGroup": "a", "ec2SecurityGroup": "b"}}, "mean the same, but their values differ"),
        ({"settings": {"keyPair": "a"}, "key_name": "b"}, "mean the same, but their values differ"),
        ({"settings": {"securityGroup": "sg-1"}}, "is an ID, which works only in a subnet"),
        ({"settings": {"securityGroup": "web", "subnetId": "subnet-1"}}, "In a subnet, use IDs"),
        ({"settings": {"providerSettings": {"publicIp": True}}}, "'publicIp' needs 'subnetId'"),
        ({"settings": {"subnetId": "a", "providerSettings": {"subnetId": "b"}}}, "is set twice with different values"),
        (
            {"settings": {"providerSettings": {"userdata": "x"}}},
            "Unknown key in 'providerSettings': 'userdata'",
        ),
        ({"settings": {"providerSettings": "x"}}, "'providerSettings' is invalid or missing. Expected a map"),
        ({"settings": {"providerSettings": {"userData": "x" * 20_000}}}, "at most 16384 characters"),
        ({"settings": {"jcloudsNodeNameTemplate": "a-{nr}"}}, "{component}, not {nr}"),
        ({"settings": {"blockDeviceMapping": {"/dev/sda": {"ebs": {"size": 1}}}}}, "volumes with some of volumeSize"),
        ({"settings": {"blockDeviceMapping": ["/dev/sda"]}}, "'blockDeviceMapping' is invalid"),
        ({"settings": {"securityGroups": ["a"], "securityGroup": "b"}}, "Put all of them into 'securityGroups'"),
        ({"settings": {"region": ["a"]}}, "'region' is invalid or missing. Expected a string"),
    ],
)
def test_what_is_missing_or_contradicts_itself_is_refused_for_good(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ActionFailed) as refused:
        order(**more)
    assert said in str(refused.value)
    assert not refused.value.retryable


@pytest.mark.parametrize(
    ("template", "name"),
    [("{instance}-{role}-{number}", "i-web-7"), ("node", "node-7"), ("{component}/{number}x", "c/7x")],
)
def test_a_template_makes_names_that_differ(template: str, name: str) -> None:
    assert order(settings={"jcloudsNodeNameTemplate": template}).name_of("web", 7, "i", "c") == name


def test_a_parameter_of_another_cloud_is_left_and_told() -> None:
    assert order(settings={"azureTier": "x", "hardwareId": "y"}).unknown == ("azureTier",)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"jcloudsIdentity": "a"}, "'jcloudsIdentity' is set, but 'jcloudsCredential' is not"),
        ({"jcloudsCredential": "s3cret"}, "'jcloudsCredential' is set, but 'jcloudsIdentity' is not"),
        ({"jcloudsIdentity": "a", "jcloudsCredential": "b"}, "'jcloudsProvider' is invalid or missing"),
    ],
)
def test_half_of_an_account_is_refused_without_telling_it(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ActionFailed) as refused:
        read_account_request(spec(settings=settings))
    assert said in str(refused.value)
    assert "s3cret" not in str(refused.value)
