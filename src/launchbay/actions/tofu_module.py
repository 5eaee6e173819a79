"""A module of OpenTofu with everything that is needed to apply and to destroy it, and its state: one kept document."""

import io
import json
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall
from launchbay.actions.parameters import optional_mapping, optional_text, text_of, wrong_parameter
from launchbay.egress.archives import unpack, unpack_fetched
from launchbay.errors import ActionFailed
from launchbay.processes.run import write_private

STATE = "terraform.tfstate"
_MAIN = "main.tf"
_VARIABLES = "launchbay.auto.tfvars.json"
_BACKEND = "launchbay_override.tf.json"
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN_NAMES = frozenset(("PATH", "HOME", "TMPDIR", "LANG", "TF_DATA_DIR", "TF_CLI_CONFIG_FILE"))
_ENVIRONMENT = "a map from names such as AWS_ACCESS_KEY_ID to texts"


class KeptModule(msgspec.Struct, frozen=True):
    """`archive` is the module, a tar.gz; `state` the text of OpenTofu's own document, empty before the first one."""

    archive: bytes
    variables: dict[str, Any] = {}
    environment: dict[str, str] = {}
    state: str = ""

    def encoded(self) -> bytes:
        """Return the form that is kept."""
        return msgspec.msgpack.encode(self)

    def write(self, directory: Path) -> None:
        """Put the module into a directory, ready to be initialised there."""
        top = unpack(self.archive, directory / "unpacked")
        top.rename(directory / "module")
        module = directory / "module"
        # The state belongs to the instance, whatever backend the module names.
        backend = {"terraform": {"backend": {"local": {"path": str(directory / STATE)}}}}
        write_private(module / _BACKEND, msgspec.json.encode(backend).decode())
        write_private(module / _VARIABLES, msgspec.json.encode(self.variables).decode())
        if self.state:
            write_private(directory / STATE, self.state)


def read_module(data: bytes) -> KeptModule:
    """Return a module from the form that is kept."""
    return _decoder.decode(data)


async def given_module(call: ActionCall, directory: Path, state: str) -> KeptModule:
    """Return the module that a step's parameters give, with a state from before. Raises ActionFailed."""
    parameters = call.parameters
    url = optional_text(parameters, "url", "the URL of a tar.gz")
    module = parameters.get("module")
    if (url is None) == (module is None):
        raise ActionFailed("Give either 'module' or 'url', and not both.", retryable=False)
    if url is None:
        files = _inline(module)
    else:
        top = await unpack_fetched(call.context.outgoing, url, directory / "fetched")
        files = _files_below(top / _directory(parameters))
    variables = dict(optional_mapping(parameters, "variables", "a map from names to values"))
    try:
        json.dumps(variables, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong_parameter("variables", f"data that JSON can hold ({error})") from error
    return KeptModule(_packed(files), variables, _environment(parameters), state)


def _inline(module: object) -> dict[str, bytes]:
    files = {_MAIN: module} if isinstance(module, str) else module
    expected = "the text of main.tf, or a map from names of files to their texts"
    if not isinstance(files, Mapping) or not files:
        raise wrong_parameter("module", expected)
    for name, text in files.items():
        if not isinstance(name, str) or not _FILE.fullmatch(name) or not isinstance(text, str):
            raise wrong_parameter("module", expected)
    return {name: text.encode("utf-8", "replace") for name, text in files.items()}


def _directory(parameters: Mapping[str, Any]) -> str:
    directory = optional_text(parameters, "directory", "a directory of the archive") or "."
    path = PurePosixPath(directory)
    if path.is_absolute() or ".." in path.parts:
        raise wrong_parameter("directory", "a directory of the archive")
    return str(path)


def _files_below(top: Path) -> dict[str, bytes]:
    files = {str(file.relative_to(top)): file.read_bytes() for file in sorted(top.rglob("*")) if file.is_file()}
    if not any(name.endswith((".tf", ".tf.json", ".tofu")) and "/" not in name for name in files):
        raise ActionFailed("The archive has no module there: no file that ends with .tf.", retryable=False)
    return files


def _packed(files: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, content in files.items():
            # Below a directory of its own, so that it unpacks to the same whatever is in it.
            member = tarfile.TarInfo(f"module/{name}")
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))
    if written.tell() > limits.KEPT_MODULE_BYTES:
        raise ActionFailed(
            f"The module has {written.tell()} bytes, packed; at most {limits.KEPT_MODULE_BYTES} are kept.",
            "Leave out of the archive what the module does not need.",
            retryable=False,
        )
    return written.getvalue()


def _environment(parameters: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in optional_mapping(parameters, "environment", _ENVIRONMENT).items():
        text = text_of(value)
        if text is None or not _NAME.fullmatch(name) or "\0" in text or name in _OWN_NAMES or name.startswith("LD_"):
            raise wrong_parameter(f"environment.{name}", f"{_ENVIRONMENT}; not {', '.join(sorted(_OWN_NAMES))}, LD_*")
        found[name] = text
    return found


_decoder = msgspec.msgpack.Decoder(KeptModule)
