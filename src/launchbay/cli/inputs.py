"""Arguments and options of commands, made from the arguments of operations; how text becomes values; completion."""

import inspect
import re
import time
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import click
import msgspec
from click.shell_completion import CompletionItem

from launchbay.auth.permissions import ALIASES, Permission
from launchbay.cli.connection import Connection, connect
from launchbay.cli.files import file_text
from launchbay.cli.verbs import AnyOperation
from launchbay.client import ClientError, Retries
from launchbay.client.types import Marker, Selection
from launchbay.errors import InvalidManifest
from launchbay.ids import is_id
from launchbay.manifest.reader import read
from launchbay.manifest.tree import written_data
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import JobStatus
from launchbay.model.scalars import for_json
from launchbay.model.values import parse_json

COMPLETION_TIMEOUT_S = 2.0


def _named_in_organization(operation: str) -> Callable[[Connection], Iterable[str]]:
    def names(connection: Connection) -> Iterable[str]:
        return (each.name for each in getattr(connection.client, operation)(connection.names.organization()))

    return names


def _revisions(connection: Connection) -> Iterable[str]:
    for application in connection.client.list_applications(connection.names.organization()):
        for revision in connection.client.list_revisions(application.id):
            yield f"{application.name}/{revision.name}"


def _workflows(connection: Connection, given: Mapping[str, Any]) -> Iterable[str]:
    """Return the workflows of the instance that is named earlier in the command."""
    instance = connection.names.instance(str(given.get("instance_id")))
    return connection.client.read_instance(instance).available_workflows


_NAMES: Mapping[str, Callable[[Connection], Iterable[str]]] = {
    "application": _named_in_organization("list_applications"),
    "environment": _named_in_organization("list_environments"),
    "instance": lambda connection: (each.name for each in connection.names.instances() if each.status != "Destroyed"),
    "invitation": lambda connection: (each.organization_name for each in connection.client.list_invitations()),
    "revision": _revisions,
    "role": _named_in_organization("list_roles"),
    "service": _named_in_organization("list_services"),
    "token": lambda connection: (each.label for each in connection.client.list_tokens()),
    "user": lambda connection: (each.email for each in connection.client.list_users(connection.names.organization())),
}


def suggest(noun: str, ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names that start with `incomplete`; none if the server can't be asked."""
    names: Iterable[str] = ()
    with suppress(ClientError, click.ClickException), ctx:
        given = ctx.params
        connection = connect(
            given.get("profile"),
            given.get("organization"),
            None,
            timeout_s=COMPLETION_TIMEOUT_S,
            retries=Retries(attempts=1),
        )
        found = _workflows(connection, given) if noun == "workflow" else _NAMES[noun](connection)
        names = sorted({name for name in found if name.startswith(incomplete)})
    return [CompletionItem(name) for name in names]


def completion_for(noun: str) -> dict[str, Any]:
    """Return the click arguments that make a parameter complete names of this kind."""
    return {"shell_complete": partial(suggest, noun)} if noun in _NAMES or noun == "workflow" else {}


_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"([0-9]+)(ms|s|m|h|d|w)")
NEVER = -1


def parse_duration_ms(text: str) -> int:
    """Parse `90s`, `1h30m`, `2d`, `0` or `never` (-1).

    Other numbers need a unit.
    """
    stripped = text.strip().lower()
    if stripped in {"never", "-1"}:
        return NEVER
    if stripped == "0":
        return 0
    parts = _PART.findall(stripped)
    if not parts or "".join(number + unit for number, unit in parts) != stripped:
        raise click.UsageError(
            f"Invalid duration: {text}. Use 90s, 1h30m, 2d or never, with the units ms, s, m, h, d and w."
        )
    return sum(int(number) * _UNITS_MS[unit] for number, unit in parts)


def _parse_length_ms(text: str) -> int:
    """Parse a duration that has an end."""
    found = parse_duration_ms(text)
    if found == NEVER:
        raise click.UsageError(f"Invalid duration: {text}. This needs an end: use 90s, 1h30m or 2d.")
    return found


def _parse_extension_ms(text: str) -> int:
    if text.strip().lower() == "never":
        raise click.UsageError(
            "An extension has an end. For a life without one: launchbay instance set-destroy-at INSTANCE never"
        )
    return _parse_length_ms(text)


def _parse_pause_ms(text: str) -> int:
    stripped = text.strip()
    return int(stripped) if stripped.isdecimal() else parse_duration_ms(stripped)


def parse_time_ms(text: str) -> int:
    """Parse a time to milliseconds since the Unix epoch.

    Accepts `+2h`, `2026-12-24T18:00`, `never` (-1), or milliseconds.
    """
    stripped = text.strip()
    if stripped.startswith("+"):
        return int(time.time() * 1000) + parse_duration_ms(stripped[1:])
    if stripped.isdecimal():
        return int(stripped)
    if stripped in {"never", "-1"}:
        return NEVER
    try:
        return int(datetime.fromisoformat(stripped).astimezone().timestamp() * 1000)
    except ValueError:
        message = f"Invalid time: {text}. Use +2h, 2026-12-24T18:00, 2026-12-24T18:00+01:00 or never."
        raise click.UsageError(message) from None


def _parse_future_ms(text: str) -> int:
    time_ms = parse_time_ms(text)
    if time_ms != NEVER and time_ms < time.time() * 1000:
        raise click.UsageError(f"{text} has passed. Use +2h, a later time such as 2026-12-24T18:00, or never.")
    return time_ms


def _parse_bound_ms(text: str) -> int | None:
    """Parse a time that may be missing: `never` is None."""
    found = parse_time_ms(text)
    return None if found == NEVER else found


def parse_past_ms(text: str) -> int:
    """Parse a past time to milliseconds since the epoch: `10m` ago, or `2026-12-24T18:00`."""
    stripped = text.strip()
    if stripped.isdecimal():
        return int(stripped)
    try:
        return int(datetime.fromisoformat(stripped).astimezone().timestamp() * 1000)
    except ValueError:
        pass
    try:
        return int(time.time() * 1000) - parse_duration_ms(stripped)
    except click.UsageError:
        message = f"Invalid time: {text}. Use 10m or 2d (ago), 2026-12-24T18:00 or 2026-12-24T18:00+01:00."
        raise click.UsageError(message) from None


def text_or_file(text: str) -> str:
    """Return the string, or for `@FILE` and `@-` the content of the file."""
    return file_text(text) if text.startswith("@") and len(text) > 1 else text


def json_file(name: str) -> Any:
    """Return the value of a JSON file; `-` is standard input."""
    try:
        return _strict_json(file_text(name))
    except ValueError as error:
        raise click.UsageError(f"{name} is {error}.") from error


def archive_file(name: str) -> Any:
    """Return an archive in one document, or the path of one in lines.

    The first line of that is an object.
    """
    path = Path(name.removeprefix("@"))
    try:
        with path.open("rb") as file:
            has_lines = msgspec.json.decode(file.readline(), type=_FirstLine).version >= _LINES_VERSION
    except (OSError, ValueError):
        return json_file(name)
    return path if has_lines else json_file(name)


class _FirstLine(msgspec.Struct):
    """The first line of an archive, which may be all of it."""

    version: int


_LINES_VERSION = 3


def _strict_json(text: str) -> Any:
    """Return the value of a JSON text, whose numbers keep their text.

    Raises `ValueError` with a phrase for what the server would refuse, or what couldn't be sent to it as it is.
    """
    return for_json(parse_json(text, is_written=True))


def document(text: str, what: str) -> Any:
    """Return the value of a JSON or YAML string, named `what` in errors."""
    try:
        return for_json(written_data(read(text.encode())))
    except InvalidManifest as error:
        reason = error.messages[0].replace("The manifest", "It").replace("A manifest", "It")
        raise click.UsageError(f"{what}: {reason}") from error
    except ValueError as error:
        raise click.UsageError(f"{what}: {error}") from error


def mapping(items: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the map of `NAME=STRING`, `NAME:=JSON`, `@FILE` and `{"name": …}` items.

    Later ones win. None if empty.
    """
    if not items:
        return None
    found: dict[str, Any] = {}
    for item in items:
        name, sign, value = _parted(item)
        if sign == "=":
            found[name] = text_or_file(value)
        elif sign == ":=":
            found[name] = _json(value, item)
        else:
            whole = document(text_or_file(item), item)
            if not isinstance(whole, dict):
                raise click.UsageError(
                    f"{item} doesn't contain a map. Use NAME=STRING, NAME:=JSON, or @FILE with a map."
                )
            found.update(whole)
    return found


def _parted(item: str) -> tuple[str, str, str]:
    if item.startswith(("@", "{")):
        return "", "", ""
    before, equals, value = item.partition("=")
    if not equals or not before.rstrip(":"):
        raise click.UsageError(f"Invalid parameter: {item}. Use NAME=STRING, NAME:=JSON, @FILE or a JSON object.")
    return (before[:-1], ":=", value) if before.endswith(":") else (before, "=", value)


def _json(value: str, item: str) -> Any:
    try:
        return _strict_json(text_or_file(value))
    except ValueError as error:
        message = f"{item}: the value after := is {error}. To pass a string, use = instead."
        raise click.UsageError(message) from error


Read = Callable[[Any, Connection, Mapping[str, Any]], Any]
_NAMED = {
    "application",
    "environment",
    "instance",
    "invitation",
    "revision",
    "role",
    "service",
    "token",
    "user",
    "webhook",
    "zone",
}
_LISTS = {"environments": "environment", "services": "service"}
_SHORT = {"instance_name": ["--name"], "q": ["-q"]}
_MAPPINGS = {"parameters", "arguments", "user_data", "labels"}
_METAVARS = {"properties": "PROPERTY..."}
INSTANCE_ORDERS = ("name", "-name", "created", "-created", "lastJob", "-lastJob", "expiry", "-expiry")
_STATUSES = tuple(status.value for status in InstanceStatus)
# Choices of text that the document of the API doesn't list, by operation or for all others.
_CHOICES: Mapping[tuple[str, str], Sequence[str]] = {
    ("", "last_status"): ("Succeeded", "Failed"),
    ("list_organization_instances", "sort"): INSTANCE_ORDERS,
    ("list_organization_jobs", "sort"): ("created", "-created"),
    ("explain_permission", "permission"): (*(each.value for each in Permission), *ALIASES),
}
# Several of these may be given, separated by commas. Without the check, a mistyped status would find nothing.
_SEVERAL: Mapping[tuple[str, str], Sequence[str]] = {
    ("", "status"): _STATUSES,
    ("list_organization_jobs", "status"): tuple(status.value for status in JobStatus),
}
_SECRET = {"password", "current_password", "new_password", "repeated"}
_ORGANIZATION = {"organization_id", "organization"}
_FILES: Mapping[str, Callable[[str], Any]] = {"text": file_text, "archive": archive_file}
_HEADERS = {
    "idempotency_key": "Make retries safe: a repeated call with the same key returns the first result.",
    "if_match": "Only if the object still has this tag, which --etag of the command that shows it prints.",
}
_OF_CHANGE_SETS = {"create_change_set", "promote_version"}
_PAIRS = "NAME=STRING, NAME:=JSON, @FILE or a JSON object. Repeatable."


@dataclass(frozen=True)
class _Form:
    """How users write a value, and how it is parsed."""

    read: Callable[[str], Any]
    hint: str
    metavar: str


_FORMS = {
    "destroy_interval": _Form(
        parse_duration_ms, "Destroy the instance after this time: 90s, 1h30m, 2d or never. Default: 1h.", "DURATION"
    ),
    "expires_in": _Form(
        parse_duration_ms, "Destroy the instance after this time: 90s, 1h30m, 2d or never.", "DURATION"
    ),
    "since": _Form(parse_past_ms, "Only from this time on: 10m (ago), 2d or 2026-12-24T18:00.", "TIME"),
    "until": _Form(parse_past_ms, "Only before this time: 10m (ago), 2d or 2026-12-24T18:00.", "TIME"),
    "at": _Form(parse_past_ms, "As it was at this time: 10m (ago), 2d or 2026-12-24T18:00.", "TIME"),
    "from_": _Form(parse_past_ms, "The first time: 10m (ago), 2d or 2026-12-24T18:00. Default: now.", "TIME"),
    "to": _Form(parse_past_ms, "The second time: 10m (ago), 2d or 2026-12-24T18:00. Default: now.", "TIME"),
    "starts_at": _Form(_parse_bound_ms, "Not before this time: +2h or 2026-12-24T18:00. never: no bound.", "TIME"),
    "ends_at": _Form(_parse_bound_ms, "Not after this time: +2h or 2026-12-24T18:00. never: no bound.", "TIME"),
    "expires_before": _Form(
        _parse_bound_ms, "Only instances that are destroyed before this time: +2h or 2026-12-24T18:00.", "TIME"
    ),
    "longer_than": _Form(
        _parse_pause_ms, "Only jobs that took this long or longer: 90s or 10m, or milliseconds.", "DURATION"
    ),
    "jitter_ms": _Form(
        _parse_pause_ms, "Delay each firing by a random time up to this: 90s or 10m, or milliseconds.", "DURATION"
    ),
    "interval_ms": _Form(
        _parse_pause_ms,
        "Interval of checks of the branch: 90s, 10m or milliseconds. Default: only when asked.",
        "DURATION",
    ),
    "awake_until": _Form(
        parse_time_ms, "Until when: +4h, or 2026-12-24T18:00. Without it, it may sleep again.", "TIME"
    ),
    "pause": _Form(_parse_pause_ms, "Time between two waves: 90s, 10m or 0, or milliseconds.", "DURATION"),
    "by_ms": _Form(_parse_extension_ms, "How much longer the instance lives: 90m, 12h or 2d.", "DURATION"),
    "default_ms": _Form(parse_duration_ms, "For launches that don't say how long: 12h, 2d or never.", "DURATION"),
    "greatest_ms": _Form(_parse_length_ms, "The longest life, from the launch: 12h or 7d.", "DURATION"),
    "extend_ms": _Form(_parse_length_ms, "The maximum time that one extension adds: 12h or 2d.", "DURATION"),
    "grace_ms": _Form(_parse_length_ms, "How long a destroy waits and can be taken back: 30m or 1d.", "DURATION"),
    "idle_ms": _Form(_parse_length_ms, "An instance without a run for so long is destroyed: 12h or 7d.", "DURATION"),
    "interval": _Form(_parse_length_ms, "Time from now: 90s, 1h30m, 2d or 0.", "DURATION"),
    "destroy_at": _Form(_parse_future_ms, "Destroy the instance at this time: +2h, 2026-12-24T18:00 or never.", "TIME"),
    "permissions": _Form(text_or_file, "Permissions of the role in YAML, or @FILE.", "YAML"),
    "policies": _Form(text_or_file, "Policies of the environment in YAML, or @FILE.", "YAML"),
    "rules": _Form(text_or_file, "Rules in YAML, or @FILE.", "YAML"),
    "content": _Form(text_or_file, "Content of the object's file in YAML, or @FILE.", "YAML"),
}


@dataclass(frozen=True)
class Input:
    """Where one argument of an operation comes from: a parameter of the command, or the connection if it has none."""

    name: str
    parameter: click.Parameter | None
    read: Read
    also: click.Option | None = None  # a second parameter for more of the same: -p in addition to NAME=VALUE


def inputs(operation: AnyOperation) -> list[Input]:
    arguments, docs = operation.arguments, operation.argument_docs
    needed = [each.name for each in arguments if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    return [
        _input(argument, docs.get(argument.name, ""), operation.name, is_only=needed == [argument.name])
        for argument in arguments
    ]


def _input(argument: inspect.Parameter, about: str, operation: str, *, is_only: bool) -> Input:
    """Return one input. A field becomes an argument if it is the only one that the request requires."""
    name = argument.name
    is_optional = argument.default is not inspect.Parameter.empty
    if name in _ORGANIZATION:
        return Input(name, None, _no_organization if is_optional else _organization)
    if name in _HEADERS:
        return Input(name, click.Option([f"--{name.replace('_', '-')}"], help=_HEADERS[name]), _as_given)
    read = _reader(name, argument.annotation)
    positional = argument.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD or (
        not is_optional
        and (
            name in {"name", "url"}
            or name.endswith("_id")
            or name in _LISTS
            or (is_only and _unwrapped(argument.annotation) is not bool)
        )
        and name not in _SECRET
    )
    positional = positional or name == "arguments"  # of a service's command, as those of a workflow
    if name in _FILES:
        return Input(name, click.Argument([name], metavar="FILE"), partial(_formed, _FILES[name]))
    if positional and name in _MAPPINGS:
        also = click.Option(["-p", f"also_{name}"], multiple=True, metavar="NAME=VALUE", help=_PAIRS)
        return Input(name, _argument(name, argument, operation), read, also)
    if positional:
        return Input(name, _argument(name, argument, operation), read)
    return Input(name, _keyword(name, argument, about, operation, is_optional=is_optional), read)


def hint_of(argument: click.Parameter) -> str:
    """Return the forms or choices of a positional argument, empty for text."""
    if isinstance(argument, click.Argument) and isinstance(argument.type, click.Choice):
        *others, last = argument.type.choices
        return f"{argument.metavar} is {', '.join(others)} or {last}."
    form = _FORMS.get(argument.name or "")
    if form is None or form.metavar not in {"TIME", "DURATION"} or argument.metavar != form.metavar:
        return ""
    if not isinstance(argument, click.Argument):
        return ""
    return f"{form.metavar}: {form.hint.rpartition(': ')[2]}"


def _argument(name: str, argument: inspect.Parameter, operation: str) -> click.Parameter:
    if argument.annotation is Path:
        return click.Argument([name], type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PATH")
    shown = name.removesuffix("_id").upper().replace("_", "-")
    if get_origin(_unwrapped(argument.annotation)) in {Sequence, Mapping} or name in _LISTS:
        is_needed = argument.default is inspect.Parameter.empty and name not in _LISTS and name not in _MAPPINGS
        metavar = "[NAME=VALUE]..." if name in _MAPPINGS else _METAVARS.get(name, f"{shown.rstrip('S')}...")
        suggestions = completion_for(_LISTS.get(name, ""))
        return click.Argument([name], nargs=-1, required=is_needed, metavar=metavar, **suggestions)
    if choices := _choices(operation, name, argument.annotation):
        return click.Argument([name], type=click.Choice(choices), metavar=shown)
    if _has_form(name, _unwrapped(argument.annotation)):
        shown = _FORMS[name].metavar
    return click.Argument([name], metavar=shown, **completion_for(name.removesuffix("_id")))


def _choices(operation: str, name: str, annotation: Any) -> Sequence[str]:
    """Return the only values that an argument accepts, if they are known."""
    kind = _unwrapped(annotation)
    if get_origin(kind) is Literal:
        return sorted(get_args(kind))  # unions of equal literals are cached, in the order of the first one
    return _CHOICES.get((operation, name)) or (_CHOICES.get(("", name), ()) if kind is str else ())


class _OneOf(click.Choice[str]):
    """One of the choices."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the choice.

        Raises BadParameter with the choices, and with the option's help if it explains one.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            about = getattr(param, "help", None) or ""
            if not any(f"`{choice}`" in about for choice in self.choices):
                raise
            raise click.BadParameter(f"{error.message}\n{about}", ctx, param) from None


class _Several(click.Choice[str]):
    """Several of the choices, separated by commas."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text. Raises BadParameter, with the choices, if one isn't a choice."""
        for each in str(value).split(","):
            super().convert(each, param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete the last one."""
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(before + comma + each.value) for each in super().shell_complete(ctx, param, last)]


def _keyword(
    name: str, argument: inspect.Parameter, about: str, operation: str, *, is_optional: bool
) -> click.Parameter:
    kind = _unwrapped(argument.annotation)
    if name in _SECRET:
        confirm = name == "new_password"
        return click.Option(
            [f"--{name.replace('_', '-')}"],
            help=about if is_optional else "Prompted for if omitted.",
            prompt=not is_optional,
            hide_input=True,
            confirmation_prompt=confirm,
        )
    if name == "force":
        return click.Option(["--force"], is_flag=True, help=about)
    if kind is bool:
        flag = f"--{name.replace('_', '-')}/--no-{name.replace('_', '-')}"
        # With a default, even None, click wouldn't require it.
        default: dict[str, Any] = {"default": None} if is_optional else {}
        return click.Option([flag], required=not is_optional, help=about, **default)
    if name == "ids":
        about = "Only these instances: names or IDs. Repeatable."
        return click.Option(["--instance", name], multiple=True, metavar="INSTANCE", help=about)
    if name == "select":
        about = "All instances that fit: lastStatus=Failed, labels=team=web, application=NAME and so on. Repeatable."
        return click.Option(["--select"], multiple=True, metavar="FILTER=VALUE", help=about)
    hint, metavar = _hint(name, kind, operation)
    has_form = _has_form(name, kind)
    multiple = get_origin(kind) in {Sequence, Mapping}
    short = _SHORT.get(name, [])
    if name in _MAPPINGS and multiple:
        short = ["-l", "--label"] if name == "labels" else ["-p"]
    flag = f"--{name.removesuffix('_id').rstrip('_').replace('_', '-')}"
    choices = _choices(operation, name, argument.annotation)
    several: Sequence[str] = ()
    if kind is str and not choices:
        several = _SEVERAL.get((operation, name)) or _SEVERAL.get(("", name), ())
    return click.Option(
        [*short, flag, name],
        type=_type(kind, choices, several) if not has_form else str,
        multiple=multiple,
        required=not is_optional,
        help=hint if has_form else " ".join(part for part in (about, hint) if part),
        metavar=metavar,
        **(completion_for(name.removesuffix("_id")) if name.endswith("_id") else {}),
    )


def _type(kind: Any, choices: Sequence[str], several: Sequence[str]) -> Any:
    if choices:
        return _OneOf(choices)
    return _Several(several) if several else int if kind is int else str


def _has_form(name: str, kind: Any) -> bool:
    return name in _FORMS and (name != "to" or kind is int)  # the page to go to after signing in is also called `to`


def _hint(name: str, kind: Any, operation: str) -> tuple[str, str | None]:
    """Return the hint about the values of an option, and its metavar."""
    if name == "expires_in" and operation in _OF_CHANGE_SETS:
        return "How long the change set can be applied: 90s, 1h30m or 2d.", "DURATION"
    if _has_form(name, kind):
        form = _FORMS[name]
        return form.hint, form.metavar
    if get_origin(kind) is Mapping:
        return _PAIRS, "NAME=VALUE"
    if _is_struct(kind):
        return _object_hint(kind), "JSON"
    if name.endswith("_id") and name.removesuffix("_id") in _NAMED:
        return "Name or ID.", name.removesuffix("_id").upper()
    return ("Repeatable." if get_origin(kind) is Sequence else ""), None


def _reader(name: str, annotation: Any) -> Read:
    kind, noun = get_origin(_unwrapped(annotation)), name.removesuffix("_id")
    read: Read = _as_given
    if name in _READERS:
        read = _READERS[name]
    elif noun in _NAMED and (name.endswith("_id") or name == "user"):
        read = partial(_named, noun)
    elif name in _LISTS:
        read = partial(_all_named, _LISTS[name])
    elif name == "ids":
        read = _instances
    elif name == "select":
        read = _selection
    elif _has_form(name, _unwrapped(annotation)):
        read = partial(_formed, _FORMS[name].read)
    elif kind is Mapping:
        read = partial(_formed, mapping)
    elif kind is Sequence:
        read = partial(_formed, partial(_items, get_args(_unwrapped(annotation))[0]))
    elif _is_struct(_unwrapped(annotation)):
        read = partial(_formed, partial(_object, _unwrapped(annotation)))
    return read


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct) and bool(kind.__struct_fields__)


def _object_hint(kind: type[msgspec.Struct]) -> str:
    keys = ", ".join(each.encode_name for each in msgspec.structs.fields(kind))
    return f"A JSON or YAML object with {keys}, or @FILE."


def _object(kind: type[msgspec.Struct], text: str) -> Any:
    value = document(text_or_file(text), text)
    if not isinstance(value, dict):
        raise click.UsageError(f"{text} contains no object. Use: {_object_hint(kind)}")
    return value


def _formed(form: Callable[[Any], Any], given: Any, *_: Any) -> Any:
    return None if given is None else form(given)


def _job(given: str | None, connection: Connection, before: Mapping[str, Any]) -> str | None:
    if given is None:
        return None
    instance = before.get("instance_id")
    return connection.names.any_job(given)[1] if instance is None else connection.names.job(given, instance)


def _revision(given: str | None, connection: Connection, before: Mapping[str, Any]) -> str | None:
    """Return the ID of a revision.

    Its name is enough if the command names the application or an instance of it.
    """
    if given is None or is_id(given) or "/" in given:
        return given and connection.names.revision(given)
    application_id = before.get("application_id")
    if "instance_id" in before:
        application_id = connection.client.read_instance(before["instance_id"]).application_id
    return connection.names.revision(given, application_id=application_id)


def _named(noun: str, given: str | None, connection: Connection, _: Mapping[str, Any]) -> str | None:
    return given and str(getattr(connection.names, noun)(given))


def _listed_object(kind: str, given: str | None, connection: Connection, _: Mapping[str, Any]) -> str | None:
    return given and connection.names.listed(kind, given)


def _object_path(given: str | None, connection: Connection, _: Mapping[str, Any]) -> str | None:
    """Return the path of an object, such as `/applications/shop`, with ids instead of names."""
    if given is None:
        return None
    parts = given.split("/")
    for place, kind in enumerate(parts[:-1]):
        noun = kind.removesuffix("s")
        if noun in _NAMED and place % 2 == 1:
            parts[place + 1] = str(getattr(connection.names, noun)(parts[place + 1]))
    return "/".join(parts)


_READERS: Mapping[str, Read] = {
    "approval_id": partial(_named, "approval"),
    "bulk_id": partial(_listed_object, "bulk run"),
    "change_set_id": partial(_listed_object, "change set"),
    "git_source_id": partial(_listed_object, "git source"),
    "recurring_schedule_id": partial(_listed_object, "recurring schedule"),
    "rollout_id": partial(_listed_object, "rollout"),
    "force": partial(_formed, lambda given: 1 if given else None),
    "job": _job,
    "job_id": _job,
    "other_job_id": _job,
    "other_id": partial(_named, "instance"),
    "path": _object_path,
    "revision_id": _revision,
    "touching": _object_path,
}


def _all_named(noun: str, given: Sequence[str], connection: Connection, _: Mapping[str, Any]) -> list[str]:
    return [str(getattr(connection.names, noun)(each)) for each in given]


def _instances(given: Sequence[str], connection: Connection, _: Mapping[str, Any]) -> list[str] | None:
    return [connection.names.instance(each) for each in given] or None


def _selection(given: Sequence[str], connection: Connection, _: Mapping[str, Any]) -> Any:
    """Return the filters of a list of instances, with ids instead of names."""
    found = dict(mapping(given) or {})
    keys = [each.encode_name for each in msgspec.structs.fields(Selection)]
    for key in found:
        if key not in keys:
            raise click.UsageError(f"Unknown filter: {key}. Use {', '.join(keys)}.")
    for noun in ("application", "environment"):
        if noun in found:
            found[noun] = getattr(connection.names, noun)(found[noun])
    return found or None


def _items(inner: Any, given: Sequence[str]) -> Any:
    if inner is Marker:
        return [Marker(name=name) for name in given]
    if inner is str:
        return list(given) or None
    found = [item for text in given for item in _listed(document(text_or_file(text), text))]
    try:
        return msgspec.convert(found, list[inner])
    except msgspec.ValidationError as error:
        keys = ", ".join(each.encode_name for each in msgspec.structs.fields(inner))
        message = f"Invalid value: {' '.join(given)}. Use JSON or YAML objects with {keys}, or @FILE."
        raise click.UsageError(message) from error


def _listed(value: Any) -> Sequence[Any]:
    """Return the items of a list, of the one list in a map, or the value as the only item."""
    if isinstance(value, dict) and len(value) == 1:
        (inner,) = value.values()
        return inner if isinstance(inner, list) else [value]
    return value if isinstance(value, list) else [value]


def _unwrapped(annotation: Any) -> Any:
    """Return a type without None and UNSET; str for any other union."""
    if get_origin(annotation) in {Union, types.UnionType}:
        kinds = [each for each in get_args(annotation) if each not in {type(None), msgspec.UnsetType}]
        return kinds[0] if len(kinds) == 1 else str
    return annotation


def _as_given(given: Any, *_: Any) -> Any:
    return given


def _organization(_: Any, connection: Connection, __: Mapping[str, Any]) -> str:
    return connection.names.organization()


def _no_organization(*_: Any) -> None:
    return None
