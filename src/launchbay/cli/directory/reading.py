"""Reads a directory. Everything that is wrong is told at once, each with its file, and line and column where known."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from launchbay.cli.directory.contents import (
    Application,
    Contents,
    NamedRevision,
    Source,
    object_name,
)
from launchbay.errors import InvalidManifest
from launchbay.manifest.reader import read
from launchbay.manifest.tree import is_null, plain
from launchbay.model.archive import Environment, Revision

T = TypeVar("T")

_KINDS = ("applications", "environments", "roles")


class BadDirectory(Exception):
    """What is wrong with a directory, as sentences with their places."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def read_directory(root: Path) -> Contents:
    """Return what a directory says. Raises BadDirectory."""
    reader = _Reader()
    contents = Contents()
    if not root.is_dir():
        raise BadDirectory([f"{root} is no directory."])
    for path in _visible(root):
        if path.name not in _KINDS:
            reader.problems.append(f"{path}: not expected here. The directory has: {', '.join(_KINDS)}.")
    if (root / "roles").is_dir():
        contents.roles = dict(reader.files(root / "roles", reader.text))
    if (root / "environments").is_dir():
        contents.environments = dict(
            reader.files(root / "environments", lambda path: reader.document(path, Environment))
        )
    if (root / "applications").is_dir():
        contents.applications = {
            reader.name(path, path.name): reader.application(path) for path in _visible(root / "applications")
        }
    if contents == Contents() and not reader.problems:
        reader.problems.append(f"{root}: there is nothing in it. It may have: {', '.join(_KINDS)}.")
    if reader.problems:
        raise BadDirectory(reader.problems)
    return contents


class _Reader:
    def __init__(self) -> None:
        self.problems: list[str] = []

    def files(self, folder: Path, content: Callable[[Path], T]) -> Iterator[tuple[str, T]]:
        """Yield name and content of each YAML file of a folder."""
        for path in _visible(folder):
            if path.suffix != ".yaml" or not path.is_file():
                self.problems.append(f"{path}: not expected here. Call it {path.stem}.yaml.")
                continue
            yield self.name(path, path.stem), content(path)

    def application(self, folder: Path) -> Application:
        """Return an application of its folder."""
        found = Application()
        for path in _visible(folder):
            if path.name == "manifest.yaml":
                found.manifest = self.text(path)
            elif path.name == "source.yaml":
                found.source = self.document(path, Source)
            elif path.name == "revisions" and path.is_dir():
                found.revisions = {self.name(each, each.name): self._revision(each) for each in _visible(path)}
            else:
                self.problems.append(f"{path}: not expected here. Known are manifest.yaml, source.yaml and revisions.")
        if found.manifest is not None and found.source is not None:
            self.problems.append(
                f"{folder}: has manifest.yaml and source.yaml. Keep the one that the manifest is from."
            )
        return found

    def _revision(self, folder: Path) -> NamedRevision:
        found = NamedRevision(Revision())
        for path in _visible(folder) if folder.is_dir() else [folder]:
            if path.name == "revision.yaml":
                found.content = self.document(path, Revision)
            elif path.name == "manifest.yaml":
                found.manifest = self.text(path)
            else:
                self.problems.append(f"{path}: not expected here. A revision has revision.yaml and manifest.yaml.")
        return found

    def text(self, path: Path) -> str:
        """Return the text of a file, with its line ends as they are."""
        try:
            return path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self.problems.append(f"{path}: cannot be read: {error}.")
            return ""

    def document(self, path: Path, kind: type[T]) -> T:
        """Return the document of a file; an empty one of the kind where it cannot be had."""
        text = self.text(path)
        try:
            value: Any = {} if not text.strip() else read(text.encode())
            value = value if isinstance(value, dict) else {} if is_null(value) else plain(value)
            return msgspec.convert(value, kind)
        except InvalidManifest as error:
            for found in error.findings:
                message = str(found["message"]).replace("The manifest", "The file")
                self.problems.append(f"{path}:{found['line']}:{found['column']}: {message}")
        except msgspec.ValidationError as error:
            self.problems.append(f"{path}: {error}.")
        return kind() if kind is not Source else kind(url="")  # type: ignore[call-arg] # a problem is noted: nobody sees it

    def name(self, path: Path, stem: str) -> str:
        """Return the name that a file or folder stands for."""
        try:
            return object_name(stem)
        except UnicodeDecodeError:
            self.problems.append(f"{path}: the name has a % that stands for no letter. Write the % itself as %25.")
            return stem


def _visible(folder: Path) -> list[Path]:
    """Return what is in a folder; names that begin with a dot are an editor's or a repository's."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []
