import threading
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from launchbay.auth.secret_key import KeyFile, SecretKey, UnsealFailed, read_secret_key
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
    with pytest.raises(UnsealFailed, match="key 2"):
        KEY.open(sealed, "key 2")
    with pytest.raises(UnsealFailed, match="the key file that was in use"):
        SecretKey(b"o" * 32).open(sealed, "key 1")


def test_every_changed_byte_and_every_cut_is_noticed() -> None:
    sealed = KEY.seal(b"private", "key 1")
    for index in range(len(sealed)):
        changed = bytearray(sealed)
        changed[index] ^= 1
        with pytest.raises(UnsealFailed):
            KEY.open(bytes(changed), "key 1")
        with pytest.raises(UnsealFailed):
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
    with pytest.raises(CannotStart, match="can't be read"):
        read_secret_key(tmp_path)


def test_the_same_bytes_can_be_sealed_alike_for_one_purpose() -> None:
    sealed = KEY.seal_deterministic(b"private", "p")
    assert sealed == KEY.seal_deterministic(b"private", "p")
    assert len({sealed, KEY.seal_deterministic(b"privatf", "p"), KEY.seal_deterministic(b"private", "q")}) == 3
    assert KEY.open(sealed, "p") == b"private"


def test_what_was_sealed_before_keys_had_ids_still_opens() -> None:
    old = b"\x01" + b"n" * 12 + AESGCM(b"k" * 32).encrypt(b"n" * 12, b"private", b"p")
    assert KEY.open(old, "p") == b"private"
    assert not KEY.is_current(old)
    assert SecretKey(b"o" * 32, [b"k" * 32]).open(old, "p") == b"private"


def write(file: Path, *lines: tuple[str, bytes]) -> None:
    file.write_text("".join(f"{word} {b64encode(key).decode()}\n" for word, key in lines))
    file.chmod(0o600)


def test_former_and_next_keys_open_and_only_one_seals(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    write(file, ("former", b"f" * 32), ("", b"k" * 32), ("next", b"n" * 32))
    key = read_secret_key(file)
    for other in (b"f", b"k", b"n"):
        assert key.open(SecretKey(other * 32).seal(b"x", "p"), "p") == b"x"
    assert KEY.is_current(key.seal(b"x", "p"))
    assert not key.is_current(SecretKey(b"f" * 32).seal(b"x", "p"))
    assert key.is_fingerprint(SecretKey(b"f" * 32).fingerprint(b"x", "p"), b"x", "p")
    assert not key.is_fingerprint(SecretKey(b"o" * 32).fingerprint(b"x", "p"), b"x", "p")


def test_a_changed_file_counts_at_once_for_sealing_and_for_what_does_not_open(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    write(file, ("", b"k" * 32))
    sealing, opening = read_secret_key(file), read_secret_key(file)
    KeyFile(file).write([("", b"n" * 32), ("former", b"k" * 32)])
    assert SecretKey(b"n" * 32).is_current(sealing.seal(b"x", "p"))
    assert opening.open(SecretKey(b"n" * 32).seal(b"y", "p"), "p") == b"y"
    assert opening.open(KEY.seal(b"z", "p"), "p") == b"z"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_that_breaks_under_a_running_server_leaves_it_its_keys(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    write(file, ("", b"k" * 32))
    key = read_secret_key(file)
    file.write_text("broken\n")
    assert KEY.is_current(key.seal(b"x", "p"))
    file.unlink()
    assert KEY.is_current(key.seal(b"x", "p"))


@pytest.mark.parametrize("words", [(), ("next",), ("", ""), ("", "other")])
def test_a_file_without_exactly_one_key_that_seals_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    file = tmp_path / "secret.key"
    write(file, *((word, bytes([number]) * 32) for number, word in enumerate(words)))
    with pytest.raises(CannotStart, match="holds no key"):
        read_secret_key(file)
