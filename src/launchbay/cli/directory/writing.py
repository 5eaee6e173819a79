"""Writes a directory."""

from pathlib import Path
from typing import Any

import msgspec

from launchbay.cli.directory.contents import Application, Contents, file_name
from launchbay.cli.directory.yaml_text import yaml_text


def write_directory(root: Path, contents: Contents) -> int:
    """Write what contents say, and return the number of files."""
    files: dict[Path, str] = {}
    for name, text in (contents.roles or {}).items():
        files[root / "roles" / f"{file_name(name)}.yaml"] = text
    for name, environment in (contents.environments or {}).items():
        files[root / "environments" / f"{file_name(name)}.yaml"] = _document(environment)
    for name, application in (contents.applications or {}).items():
        files |= _application(root / "applications" / file_name(name), application)
    for folder in ("roles", "environments", "applications"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return len(files)


def _application(folder: Path, application: Application) -> dict[Path, str]:
    files: dict[Path, str] = {}
    if application.source is not None:
        files[folder / "source.yaml"] = _document(application.source)
    elif application.manifest is not None:
        files[folder / "manifest.yaml"] = application.manifest
    for name, revision in (application.revisions or {}).items():
        files[folder / "revisions" / file_name(name) / "revision.yaml"] = _document(revision.content)
        if revision.manifest is not None:
            files[folder / "revisions" / file_name(name) / "manifest.yaml"] = revision.manifest
    return files


def _document(value: Any) -> str:
    return yaml_text(msgspec.to_builtins(value))
