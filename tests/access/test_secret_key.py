import threading
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launchbay.access.secret_key import SealBroken, SecretKey, read_secret_key
from launchbay.errors import CannotStart

KEY = SecretKey(b"k" * 32)


def test_what_was_sealed_opens_for_its_purpose() -> None:
    assert KEY.open(KEY.seal(b"private", "key 1"), "key 1") == b"private"
    assert KEY.open(KEY.seal(b"", ""), "") == b""


def test_the_same_bytes_never_look_the_same_and_never_show() -> None:
    sealed = KEY.seal(b"private", "key 1")
    assert sealed != KEY.seal(b"private", "key 1")
    assert b"private" not in sealed


def test_another_purpose_or_key_opens_nothing() -> None:
    sealed = KEY.seal(b"private", "key 1")
    with pytest.raises(SealBroken, match="key 2"):
        KEY.open(sealed, "key 2")
    with pytest.raises(SealBroken, match="the key file that was in use"):
        SecretKey(b"o" * 32).open(sealed, "key 1")


def test_every_changed_byte_and_every_cut_is_noticed() -> None:
    sealed = KEY.seal(b"private", "key 1")
    for index in range(len(sealed)):
        changed = bytearray(sealed)
        changed[index] ^= 1
        with pytest.raises(SealBroken):
            KEY.open(bytes(changed), "key 1")
        with pytest.raises(SealBroken):
            KEY.open(sealed[:index], "key 1")


def test_the_first_start_makes_a_key_that_only_its_owner_may_read(tmp_path: Path) -> None:
    file = tmp_path / "data" / "secret.key"
    made = read_secret_key(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(b64decode(file.read_text().strip())) == 32
    assert read_secret_key(file).open(made.seal(b"x", "p"), "p") == b"x"
    assert [entry.name for entry in file.parent.iterdir()] == ["secret.key"]


def test_servers_starting_at_once_agree_on_one_key(tmp_path: Path) -> None:
    for number in range(20):
        file = tmp_path / str(number) / "secret.key"
        start = threading.Barrier(8)

        def read(file: Path = file, start: threading.Barrier = start) -> SecretKey:
            start.wait(10)
            return read_secret_key(file)

        with ThreadPoolExecutor(8) as servers:
            keys = [running.result() for running in [servers.submit(read) for _ in range(8)]]
        assert {key.open(keys[0].seal(b"x", "p"), "p") for key in keys} == {b"x"}


@pytest.mark.parametrize(
    "content", [b"", b"short", b64encode(b"k" * 31), b64encode(b"k" * 33), b"\xff" * 44, b"!" * 44]
)
def test_a_file_that_holds_no_key_stops_the_start_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "secret.key"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(CannotStart, match="secret key file"):
        read_secret_key(file)
    assert file.read_bytes() == content


def test_a_key_that_everybody_may_read_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    read_secret_key(file)
    file.chmod(0o644)
    with pytest.raises(CannotStart, match="chmod 600"):
        read_secret_key(file)


def test_a_directory_in_place_of_the_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="cannot be read"):
        read_secret_key(tmp_path)
