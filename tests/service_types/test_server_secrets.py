"""Files and variables of the operator: only what the settings list, for whom they list it, and as it is now."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from launchbay.egress.http import EgressClient
from launchbay.errors import CannotStart
from launchbay.ids import new_id
from launchbay.limits import SECRET_BYTES, SECRET_FILES_OF_DIRECTORY
from launchbay.service_types import server_secrets
from launchbay.service_types.contract import ProvidedSecret, SecretCall, SecretFailed, SecretProblem
from launchbay.service_types.server_secrets import ServerFiles, ServerVariables
from launchbay.settings import Settings
from tests.support.eventually import eventually

OWN, OTHER = "6b0d6af7493fc450b0781cc6", "6b0d6af684d22482c3157743"
EGRESS = EgressClient()


def call(directory: str = "", *, organization: str = OWN, environment: str = "") -> SecretCall:
    async def token(_: str) -> str:
        raise AssertionError("nobody needs a token")

    return SecretCall(
        name="here",
        parameters={"configuration.directory": directory},
        egress=EGRESS,
        token=token,
        organization_id=organization,
        environment_id=environment,
    )


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    """A directory as Kubernetes mounts it: links to a directory that it replaces as a whole."""
    found = tmp_path / "mount"
    version = found / "..2026_11_30"
    version.mkdir(parents=True)
    (version / "password").write_text("of-the-mount")
    (found / "..data").symlink_to(version.name)
    (found / "password").symlink_to("..data/password")
    return found


async def read(mount: Path, path: str, *, setting: str | None = None, signs_in: SecretCall | None = None) -> str:
    files = ServerFiles(f"{mount}@{OWN}" if setting is None else setting)
    signed_in = await files.sign_in(signs_in or call(str(mount)))
    found = await files.read(EGRESS, signed_in.session, path)
    assert found.whole is not None
    return found.whole


async def test_a_mounted_file_is_read_as_it_is_now(mount: Path) -> None:
    assert await read(mount, "password") == "of-the-mount"
    newer = mount / "..2026_12_01"
    newer.mkdir()
    (newer / "password").write_text("newer")
    (mount / "..next").symlink_to(newer.name)
    (mount / "..next").rename(mount / "..data")
    assert await read(mount, "password") == "newer"


@pytest.mark.parametrize(
    ("content", "found"), [("one\n", "one"), ("one\r\n", "one"), ("two\nlines\n", "two\nlines\n"), ("", "")]
)
async def test_the_end_of_the_only_line_is_not_part_of_it(mount: Path, content: str, found: str) -> None:
    (mount / "file").write_bytes(content.encode())
    assert await read(mount, "file") == found


async def test_json_has_keys(mount: Path) -> None:
    (mount / "db").write_text('{"user": "shop", "password": "x-of-db"}')
    files = ServerFiles(f"{mount}@*")
    session = (await files.sign_in(call(str(mount)))).session
    assert (await files.read(EGRESS, session, "db")).values == {"user": "shop", "password": "x-of-db"}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("../secret", SecretProblem.INVALID),
        ("below/../../secret", SecretProblem.INVALID),
        ("./password", SecretProblem.INVALID),
        ("below//password", SecretProblem.INVALID),
        ("pass\0word", SecretProblem.INVALID),
        ("out", SecretProblem.FORBIDDEN),
        ("out-directory/secret", SecretProblem.FORBIDDEN),
        ("circle", SecretProblem.UNREACHABLE),
        ("below", SecretProblem.INVALID),
        ("pipe", SecretProblem.INVALID),
        ("none", SecretProblem.MISSING),
        ("password/none", SecretProblem.MISSING),
        ("large", SecretProblem.UNREADABLE),
        ("bytes", SecretProblem.UNREADABLE),
        ("n" * 300, SecretProblem.INVALID),
    ],
)
async def test_nothing_else_is_read(mount: Path, path: str, problem: SecretProblem) -> None:
    (mount.parent / "secret").write_text("of somebody else")
    (mount / "out").symlink_to("../secret")
    (mount / "out-directory").symlink_to("..")
    (mount / "circle").symlink_to("circle")
    (mount / "below").mkdir()
    os.mkfifo(mount / "pipe")
    (mount / "large").write_bytes(b"x" * (SECRET_BYTES + 1))
    (mount / "bytes").write_bytes(b"\xff\x00")
    with pytest.raises(SecretFailed) as failed:
        await read(mount, path)
    assert failed.value.problem is problem
    assert "somebody" not in str(failed.value)


async def test_files_of_the_server_itself_are_never_read(mount: Path) -> None:
    (mount / "secret.key").write_text("opens everything")
    (mount / "link").symlink_to("secret.key")
    settings = Settings(secret_key_file=str(mount / "link"), tls_key=str(mount / "password"), tls_certificate="x")
    files = ServerFiles(f"{mount}@*", settings.own_files())
    session = (await files.sign_in(call(str(mount)))).session
    for path in ("secret.key", "link", "password"):
        with pytest.raises(SecretFailed, match="a file of Launchbay itself") as failed:
            await files.read(EGRESS, session, path)
        assert failed.value.problem is SecretProblem.FORBIDDEN


async def test_an_entry_is_for_one_organization_or_environment(mount: Path) -> None:
    environment = new_id()
    for owner, fitting in ((OWN, call(str(mount))), (environment, call(str(mount), environment=environment))):
        assert await read(mount, "password", setting=f"{mount}@{owner}", signs_in=fitting) == "of-the-mount"
    for setting in ("", f"{mount}@{OTHER}", f"{mount}-of-others@{OWN}", f"{mount / 'below'}@{OWN}"):
        with pytest.raises(SecretFailed, match="setting secret_directories") as failed:
            await read(mount, "password", setting=setting)
        assert failed.value.problem is SecretProblem.FORBIDDEN


async def test_a_service_may_name_a_directory_below_an_entry_but_no_link_out_of_it(mount: Path) -> None:
    (mount / "out").symlink_to("..")
    (mount.parent / "secret").write_text("of somebody else")
    setting = f"{mount}@{OWN}"
    assert await read(mount, "password", setting=setting, signs_in=call(str(mount / "..data"))) == "of-the-mount"
    for directory in (mount / "out", f"{mount}/../", "/"):
        with pytest.raises(SecretFailed, match="may not read"):
            await read(mount, "secret", setting=setting, signs_in=call(str(directory)))


async def test_a_service_needs_an_absolute_path() -> None:
    for directory, is_fine in (("/run/shop", True), ("shop", False), ("/run/../etc", False), ("/a\0b", False)):
        found = await ServerFiles().check(None, {"configuration.directory": directory})  # type: ignore[arg-type]  # it reads nothing
        assert (found == {}) is is_fine


@pytest.mark.parametrize("setting", ["/run/shop", "/run/shop@", "@*", "/run/shop@Default", f"run/shop@{OWN}"])
def test_an_entry_without_an_owner_stops_the_start(setting: str) -> None:
    with pytest.raises(CannotStart, match="LAUNCHBAY_SECRET_DIRECTORIES has"):
        ServerFiles(setting)


async def variable(setting: str, name: str, *, organization: str = OWN) -> ProvidedSecret:
    variables = ServerVariables(setting)
    return await variables.read(EGRESS, (await variables.sign_in(call(organization=organization))).session, name)


async def test_variables_are_read_by_name_or_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DB", '{"password": "x-of-db"}')
    for setting in (f"SHOP_DB@{OWN}", f"OTHER@{OTHER}, SHOP_*@{OWN}", "SHOP_*@*"):
        assert (await variable(setting, "SHOP_DB")).values == {"password": "x-of-db"}
    for setting in ("", "SHOP@*", f"SHOP_DB@{OTHER}", "SHOP_D@*"):
        with pytest.raises(SecretFailed, match="setting secret_variables") as failed:
            await variable(setting, "SHOP_DB")
        assert failed.value.problem is SecretProblem.FORBIDDEN
    with pytest.raises(SecretFailed) as failed:
        await variable("SHOP_*@*", "SHOP_NONE")
    assert failed.value.problem is SecretProblem.MISSING


async def test_settings_of_the_server_are_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAUNCHBAY_ADMIN_PASSWORD", "of-the-administrator")
    for setting in ("LAUNCHBAY_*@*", "LAUNCHBAY_ADMIN_PASSWORD@*", "*@*", "SHOP-DB@*"):
        with pytest.raises(CannotStart, match="LAUNCHBAY_SECRET_VARIABLES has"):
            ServerVariables(setting)
    with pytest.raises(SecretFailed) as failed:
        await variable("L*@*", "LAUNCHBAY_ADMIN_PASSWORD")
    assert failed.value.problem is SecretProblem.FORBIDDEN


async def test_a_variable_that_is_too_long_or_no_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_LONG", "x" * (SECRET_BYTES + 1))
    monkeypatch.setenv("SHOP_BYTES", os.fsdecode(b"\xff"))
    for name in ("SHOP_LONG", "SHOP_BYTES"):
        with pytest.raises(SecretFailed) as failed:
            await variable("SHOP_*@*", name)
        assert failed.value.problem is SecretProblem.UNREADABLE


async def test_a_disk_that_hangs_holds_up_no_other_and_no_thread_of_the_server(
    mount: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, go_on = tmp_path / "hanging", threading.Event()
    hanging.mkdir()
    monkeypatch.setattr(server_secrets, "SECRET_TIMEOUT_S", 0.3)
    real = server_secrets._content

    def content(directory: str, *more: Any) -> bytes:
        if directory == str(hanging):
            go_on.wait()
        return real(directory, *more)

    monkeypatch.setattr(server_secrets, "_content", content)
    files = ServerFiles(f"{mount}@*, {hanging}@*")
    stuck = (await files.sign_in(call(str(hanging)))).session
    asked = await asyncio.gather(*(files.read(EGRESS, stuck, "x") for _ in range(100)), return_exceptions=True)
    try:
        assert {str(each) for each in asked} == {
            "The secret provider 'here' can't read 'x' now: the disk doesn't answer."
        }
        threads = [each for each in threading.enumerate() if each.name == "secret file"]
        assert len(threads) == SECRET_FILES_OF_DIRECTORY
        assert all(each.daemon for each in threads), "the end of the server waits for none of them"
        well = (await files.sign_in(call(str(mount)))).session
        found = await asyncio.gather(*(files.read(EGRESS, well, "password") for _ in range(100)))
        assert {each.whole for each in found} == {"of-the-mount"}
    finally:
        go_on.set()
    (hanging / "x").write_text("it is back")
    await eventually(lambda: not any(each.name == "secret file" for each in threading.enumerate()))
    assert (await files.read(EGRESS, stuck, "x")).whole == "it is back"
