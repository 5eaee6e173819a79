"""`launchbay diff`: what two versions, instances, or a directory and the server differ in."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from launchbay.cli.commands import answer, connected, print_preview, sharing_options
from launchbay.cli.connection import Connection, say_warning
from launchbay.cli.files import file_text
from launchbay.cli.lazy import HELP_OPTIONS
from launchbay.cli.output import (
    DETAILED,
    RemoteCommand,
    exit_by_differences,
    printable,
    show,
    style_difference,
    with_iso_times,
)
from launchbay.client import NotAllowed, Operations
from launchbay.features.directories.cli import show_directory_differences
from launchbay.model.code_change import CodeChange

NEWEST = "newest"
_OUTER_KINDS = ("results", "commands", "needs")
_KINDS = ("components", "parameters", *_OUTER_KINDS)


@dataclass(frozen=True, slots=True)
class _Version:
    """A version of an application, by ID; None is the newest."""

    application: str
    version: int | None


@dataclass(frozen=True, slots=True)
class _Instance:
    id: str


_Side = _Version | _Instance | Path


def _side(connection: Connection, text: str) -> _Side:
    """Return what an argument names."""
    path = Path(text)
    if path.exists():
        return path
    if text.endswith((".yaml", ".yml")) or text.startswith((".", "/")):
        raise click.UsageError(f"{text} doesn't exist.")
    name, at, version = text.rpartition("@")
    if at and (version == NEWEST or (version.isascii() and version.isdigit() and len(version) < 10)):
        return _Version(connection.names.application(name), None if version == NEWEST else int(version))
    return _Instance(connection.names.instance(text))


def _diff(one: str, other: str | None, **given: Any) -> None:
    is_detailed, used = given.pop("is_detailed"), given.pop("used")
    connection = connected(given)
    first = _side(connection, one)
    second = None if other is None else _side(connection, other)
    if used:
        if not isinstance(first, _Version) or second is not None:
            raise click.UsageError("--used takes one version, such as shop@3.")
        differs = _show_used(connection, first)
    else:
        differs = _show(connection, first, second)
    exit_by_differences(differs, is_detailed=is_detailed)


def _show(connection: Connection, first: _Side, second: _Side | None) -> bool:
    shown: bool | None = None
    match first, second:
        case Path(), None if first.is_dir():
            shown = show_directory_differences(connection, first)
        case _Version(), None:
            shown = _show_versions(connection, first, None)
        case _Version(), _Version() if first.application == second.application:
            shown = _show_versions(connection, second, first)
        case _Version(), Path() if second.is_file():
            shown = _show_text(connection, first, second)
        case _Instance(), None | _Version():
            shown = _show_preview(connection, first, second)
        case _Instance(), _Instance():
            shown = _show_instances(connection, first, second)
    if shown is None:
        raise click.UsageError(
            "Name a directory, a version with another one of its application or a file, or an instance with a version "
            "or another instance. Write the older one first."
        )
    return shown


def _show_versions(connection: Connection, version: _Version, against: _Version | None) -> bool:
    former = None if against is None else _number(connection, against)
    call = Operations.compare_manifests.call(version.application, version=version.version, against=former)
    return _show_manifests(connection, answer(connection, call))


def _number(connection: Connection, version: _Version) -> int:
    if version.version is not None:
        return version.version
    return connection.client.read_application(version.application).version


def _show_text(connection: Connection, version: _Version, file: Path) -> bool:
    text = file_text(str(file))
    call = Operations.compare_manifest_text.call(version.application, text, against=version.version)
    return _show_manifests(connection, answer(connection, call))


def _show_manifests(connection: Connection, document: Mapping[str, Any]) -> bool:
    if connection.output != "table":
        show(document, connection.output)
    else:
        _print(_lines(document["difference"]))
        if document["isSame"]:
            after = "the file" if document["version"] is None else f"version {document['version']}"
            click.echo(f"Version {document['against']} and {after} mean the same.", err=True)
    return not document["isSame"]


def _show_preview(connection: Connection, instance: _Instance, version: _Version | None) -> bool:
    found = connection.client.read_instance(instance.id)
    if version is not None and version.application != found.application_id:
        raise click.UsageError("The version is of another application than the instance.")
    number = None if version is None else version.version
    document = answer(connection, Operations.preview_version.call(instance.id, version=number))
    # The preview is about components; the application's results and limits may differ, too.
    whole: Mapping[str, Any] | None = None
    if not document["errors"]:
        call = Operations.compare_manifests.call(found.application_id, version=number, against=found.version)
        with suppress(NotAllowed):
            whole = answer(connection, call)
        if whole is None:
            say_warning("You may not read the application, so its results, commands and limits aren't compared.")
        elif connection.output != "table":
            document = {**document, "difference": whole["difference"]}
    print_preview(connection, document)
    changes = any(each["change"] != "keeps" or each.get("code") for each in document["components"])
    if whole is not None and connection.output == "table":
        _print((_outer_lines if changes else _lines)(whole["difference"]))
    return changes or (whole is not None and not whole["isSame"])


def _show_instances(connection: Connection, one: _Instance, other: _Instance) -> bool:
    document = answer(connection, Operations.diff_instance.call(one.id, other_id=other.id))
    document = {**document, **{part: [_with_times(each) for each in document[part]] for part in ("differences", "own")}}
    if connection.output != "table":
        show(document, connection.output)
    else:
        for each in document["differences"]:
            _print([f"{each['path']}: {_from_to(each)}"])
        if document["manifest"] is None:
            click.echo("Their manifests can't be compared: they aren't yours to read, or don't compile.", err=True)
        else:
            _print(_lines(document["manifest"]))
        if document["own"]:
            click.echo("Each has its own:")
            _print([f"    {each['path']}: {_from_to(each)}" for each in document["own"]])
        if not document["differences"]:
            click.echo("They were given the same, and have the same status.", err=True)
    return bool(document["differences"])


def _with_times(difference: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a difference with its times as all other output has them, except in names that users choose."""
    path = difference["path"]
    if "." in path:
        return difference
    return {**difference, **{side: with_iso_times({path: difference[side]})[path] for side in ("from", "to")}}


def _show_used(connection: Connection, version: _Version) -> bool:
    call = Operations.list_used_manifests.call(version.application, version=version.version)
    document = answer(connection, call)
    pending = document["pending"]
    while pending:  # each answer compares some more
        document = answer(connection, call)
        if document["pending"] >= pending:
            break
        pending = document["pending"]
    if connection.output != "table":
        show(document, connection.output)
    else:
        for each in document["used"]:
            instances = f"{each['instances']} instance{'' if each['instances'] == 1 else 's'}"
            _print([f"version {each['version']}, {instances}: {_used(each)}"])
        if not document["used"]:
            click.echo("No live instance that you may see.", err=True)
    return any(not each["isSame"] for each in document["used"])


def _used(item: Mapping[str, Any]) -> str:
    if item["problem"]:
        return f"unknown: {item['problem']}"
    if item["pending"]:
        return "unknown: not compared yet"
    parts = [_component(each) for each in item["components"]]
    return "; ".join([*parts, *(["the application's interface"] if item["application"] else [])]) or "nothing changes"


def _component(change: Mapping[str, Any]) -> str:
    if change["change"] != "changed":
        return f"{change['path']} {change['change']}"
    parts = [f"workflow {name}" for name in change["workflows"]] + (
        ["pins, defaults or bindings"] if change["other"] else []
    )
    return f"{change['path']}: {', '.join(parts)}"


def _outer_lines(difference: Mapping[str, Any], kinds: Sequence[str] = _OUTER_KINDS) -> Iterator[str]:
    for kind in kinds:
        names = difference[kind]
        marked = [("+", "added"), ("-", "removed"), ("~", "changed")]
        shown = [f"{mark} {name}" for mark, part in marked for name in names[part]]
        if shown:
            yield f"{kind}: {', '.join(shown)}"
    if difference["concurrency"]:
        yield "limits of concurrent jobs"
    if difference["checks"]:
        yield "times of checks of drift"
    if difference["kind"]:
        yield "kind of manifest: components or workflows"


def _lines(difference: Mapping[str, Any]) -> Iterator[str]:
    yield from _outer_lines(difference, _KINDS)
    for each in difference["defaults"]:
        yield f"{each['component']}: default of {each['pin']} {_from_to(each)}"
    for each in difference["code"]:
        yield f"{each['path']}: {msgspec.convert(each, CodeChange).sentence}"
        for workflow in each["workflows"]:
            for step in workflow["steps"]:
                yield from (f"    {line}" for line in step["diff"])


def _from_to(difference: Mapping[str, Any]) -> str:
    """Return the two values of a difference; null is a value, too."""
    before = "nothing" if difference["change"] == "added" else msgspec.json.encode(difference["from"]).decode()
    after = "nothing" if difference["change"] == "removed" else msgspec.json.encode(difference["to"]).decode()
    return f"{before} → {after}"


def _print(lines: Iterator[str] | Sequence[str]) -> None:
    for line in lines:
        click.echo(style_difference(printable(line)))


diff = RemoteCommand(
    "diff",
    callback=_diff,
    short_help="Compare versions, instances, or a directory with the server.",
    help="""Compare two versions of an application, a version with a file, an instance with a version, two instances, or
    a directory with the server.

    ONE and OTHER are a version (shop@3, shop@newest), an instance (name or ID), a manifest file, or a directory. What
    exists as a file or directory is taken as that.
    Alone, a version is compared with the one before, and an instance with the newest version of its application.

    \b
    launchbay diff shop@3 shop@4
    launchbay diff shop@newest manifest.yaml
    launchbay diff shop-1 shop@4
    launchbay diff shop-1 shop-2
    launchbay diff ./platform
    launchbay diff shop@4 --used""",
    params=[
        click.Argument(["one"], metavar="ONE"),
        click.Argument(["other"], metavar="[OTHER]", required=False),
        click.Option(
            ["--used"], is_flag=True, help="Show which versions live instances have, and what the version would change."
        ),
        DETAILED,
        *sharing_options(),
    ],
    context_settings=HELP_OPTIONS,
)
