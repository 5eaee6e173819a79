"""Templates, their filters, and the headers of every page."""

import csv
import io
import json
import re
from collections.abc import Hashable, Iterable, Mapping, MutableMapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import jinja2
import msgspec
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import Context, Macro
from markupsafe import Markup, escape

from launchbay import __version__
from launchbay.auth.gate import RoleEntry, read_role_text
from launchbay.auth.permissions import Permission
from launchbay.auth.second_factors import qr_code as svg_qr_code
from launchbay.clock import from_ms, iso_time_ms
from launchbay.console.assets import (
    Glyph,
    address,
    color_class,
    glyph,
    icon,
    instance_status,
    run_status,
    shown_status,
    status_line,
    status_pill,
)
from launchbay.console.shell import GUIDES, NAVIGATION, SHORTCUTS
from launchbay.documentation import plain
from launchbay.errors import BadRequest
from launchbay.model.durations import duration_words
from launchbay.model.expiry import NEVER, duration
from launchbay.model.failures import FailureGroup, read_reason
from launchbay.model.freezes import FreezeState, shown_freeze
from launchbay.model.job import owner_of, step_name
from launchbay.model.redaction import Redactor
from launchbay.model.scalars import levels
from launchbay.model.waits import ISO_TIME
from launchbay.store.audit import AuditRow
from launchbay.store.events import LogRow
from launchbay.store.users import SignInState
from launchbay.usecases.organizations import AuditedChange

_LINK_CHARS = 2_048
_ROLES_READ = 1_024  # whose words stay in memory
_PIECES = 1_024  # some kB each
_SHOWN_PERMISSIONS = 4
_YEAR_2000_MS = 946_684_800_000
_FINGERPRINT = "fingerprint:"  # of a value that the audit log doesn't keep
# What acts on its own, by the end of its address in the audit log, such as `engine/expiry`.
_TASKS = {
    "expiry": "End of lifetime",
    "idle": "End of idle time",
    "sleep": "Sleep window",
    "schedules": "Schedule",
    "cron": "Schedule of the manifest",
    "rollback": "Launchbay",
    "triggers": "Trigger",
    "workflows": "Workflow",
}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))
_SPECIAL = re.compile("[&<>'\"]").search
_redactor = Redactor()
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    # With no referrer at all, browsers would not send the Origin of our own forms.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def actor_name(row: AuditRow, names: Mapping[str, str]) -> str:
    """Return who or what made an entry of the audit log. `names` are by ID."""
    engine, _, task = row.actor_email.partition("/")
    if engine == "engine" and task:  # people have an @ there
        return _TASKS.get(task, "Launchbay")
    return names.get(row.actor_id, row.actor_email)


def format_time(value: datetime | int | None) -> Markup:
    """Return a time as a `time` element; numbers are milliseconds since the Unix epoch."""
    if value is None:
        return Markup('<span class="quiet">never</span>')
    iso = (from_ms(value) if isinstance(value, int) else value).astimezone(UTC).isoformat(timespec="seconds")
    return Markup(f'<time datetime="{iso}">{iso[:10]} {iso[11:19]} UTC</time>')  # noqa: S704 - the digits of a time


def exported_time(value: datetime | int | None) -> str | None:
    """Return a time as exports have it; numbers are milliseconds."""
    if value is None:
        return None
    return iso_time_ms(from_ms(value) if isinstance(value, int) else value)


def format_duration(milliseconds: float | None) -> str:
    """Return a duration in its two largest units, such as `1 d 2 h`."""
    return "" if milliseconds is None else duration_words(milliseconds)


def first_and_last(group: FailureGroup[Any], now: datetime) -> str:
    """Return the first and last time of equal failures.

    They are `First 2 h ago, last 3 min ago`, and one time if both are the same.
    """
    first, last = format_remaining(group.first, now), format_remaining(group.last, now)
    return last if first == last else f"First {first}, last {last}"


def freeze_at(freezes: str | None, now: datetime) -> FreezeState | None:
    """Return the freeze of a row that is, or that begins soon."""
    return shown_freeze(freezes, now)


def format_remaining(value: datetime | int | None, now: datetime) -> str:
    """Return the time from now: `in 2 h 5 min`, `3 min ago`."""
    if value is None:
        return ""
    at = from_ms(value) if isinstance(value, int) else value
    seconds = int((at - now).total_seconds())
    if not seconds:
        return "now" if at > now else "just now"
    words = f"{abs(seconds)} s" if abs(seconds) < 60 else format_duration(seconds * 1000)
    return f"in {words}" if seconds > 0 else f"{words} ago"


def age_ms(value: int, now: datetime) -> int:
    """Return how long ago a time was; both in milliseconds."""
    return max(0, int(now.timestamp() * 1000) - value)


def short_time(value: datetime | int | None, now: datetime) -> Markup:
    """Return the hour of a time, with its day unless that is today.

    Numbers are milliseconds since the Unix epoch.
    """
    if value is None:
        return Markup("–")
    at = (from_ms(value) if isinstance(value, int) else value).astimezone(UTC)
    iso = at.isoformat(timespec="seconds")  # `strftime` and `Markup.format` take ten times as long
    words = iso[11:19] if at.date() == now.astimezone(UTC).date() else at.strftime("%-d %b %H:%M")
    return Markup(f'<time datetime="{iso}" title="{iso[:10]} {iso[11:19]} UTC">{words}</time>')  # noqa: S704 - the digits of a time


def with_times(text: str, now: datetime) -> Markup:
    """Return a sentence with its times as pages show them."""
    found = Markup("")
    for number, part in enumerate(ISO_TIME.split(text)):
        found += short_time(datetime.fromisoformat(part), now) if number % 2 else Markup.escape(part)
    return found


MISTAKE = re.compile(r"Line (\d+), column (\d+): ")  # in a text
_EXCERPT_CHARS = 60


def excerpt(message: str, text: str) -> str:
    """Return the line with a mistake, and a sign below its column.

    Empty: the message names no line of it.
    """
    found, lines = MISTAKE.match(message), re.split(r"\r\n?|\n", text)
    if found is None or not 0 < int(found[1]) <= len(lines):
        return ""
    line, column = lines[int(found[1]) - 1], max(int(found[2]) - 1, 0)
    begin = max(0, column - _EXCERPT_CHARS // 2)
    number = f"{found[1]}  "
    return f"{number}{line[begin : begin + _EXCERPT_CHARS]}\n{' ' * (len(number) + column - begin)}^"


def step_words(path: str) -> str:
    """Return component and name of the step at a path: `web · smoke-test`."""
    return f"{owner_of(path)} · {step_name(path)}"


def line_level(row: LogRow) -> str:
    """Return the level of a line; what Launchbay says about steps is `meta`."""
    if row.level == "info" and row.stream == "system" and row.text.startswith(("Step '", "Job ")):
        return "meta"
    return "warn" if row.level == "warning" else row.level


def clock(at: datetime) -> str:
    """Return the hour of a line, with hundredths of a second."""
    return at.astimezone(UTC).strftime("%H:%M:%S.") + f"{at.microsecond // 10_000:02}"


def elapsed(at: datetime, begin_ms: int) -> str:
    """Return how long after the beginning a line was written, such as `+1:02.35`."""
    hundredths = max(0, int(at.timestamp() * 100) - begin_ms // 10)
    return f"+{hundredths // 6000}:{hundredths // 100 % 60:02}.{hundredths % 100:02}"


def marked(text: str, search: str) -> Markup:
    """Return a text with the places of a search marked, ignoring case."""
    if not search:
        return escape(text)
    parts = re.split(f"({re.escape(search)})", text, flags=re.IGNORECASE)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )


def short_error(text: str) -> str:
    """Return an error with its place in few words: `web · smoke-test: got 503`."""
    place, reason = failure(text)
    return f"{place}: {reason}" if place else reason


def compact(value: Any) -> str:
    """Return a value on one line: strings unchanged, everything else as JSON."""
    return value if isinstance(value, str) else _json(value)


# What spreadsheets take for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_line(values: Iterable[Any]) -> str:
    """Return a line of CSV, in which no text is a formula."""
    line = io.StringIO()
    csv.writer(line).writerow([_cell(value) for value in values])
    return line.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, Mapping):
        value = " ".join(f"{name}={each}" if each else name for name, each in value.items())
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def pretty(value: Any) -> str:
    """Return a value as JSON on several lines."""
    return _json(value, 2)


def _json(value: Any, indent: int | None = None) -> str:
    if any(msgspec.Raw in kinds for kinds, _ in levels(value)):  # numbers that remember their texts
        return msgspec.json.format(msgspec.json.encode(value), indent=indent or 0).decode()
    return json.dumps(_plain(value), ensure_ascii=False, indent=indent)


def web_address(value: Any) -> str | None:
    """Return the value if it is a URL that is safe to link to (http or https), else None."""
    if not isinstance(value, str) or len(value) > _LINK_CHARS or any(character.isspace() for character in value):
        return None
    try:
        parts = urlsplit(value)
        return value if parts.scheme.lower() in {"http", "https"} and parts.hostname else None
    except ValueError:
        return None


def display_value(value: Any) -> Markup:
    """Return a value as HTML: a link for a URL, one line for a short value, else a block."""
    link = web_address(value)
    if link is not None:
        return Markup('<a href="{0}" rel="noreferrer noopener">{0}</a>').format(link)
    text = compact(value)
    if len(text) > 120 or "\n" in text:
        whole = value if isinstance(value, str) else pretty(value)
        return Markup('<pre class="value" tabindex="0">{}</pre>').format(whole)
    return Markup("<code>{}</code>").format(text) if text else Markup('<span class="quiet">empty</span>')


def failure(message: str) -> tuple[str, str]:
    """Return where a job failed, as `component · step`, or "", and the reason."""
    return read_reason(message)


def redact(value: Any) -> Any:
    """Return a value with the values of secret names masked (promise 10)."""
    return _redactor.value(value)


def redact_value(value: Any, name: str) -> str:
    """Return a value on one line, masked if its name is a secret's."""
    return compact(_redactor.named(name, value)) if value is not None else "unset"


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_.]+")
# The last words of a field that its value makes clear.
_KINDS_OF_FIELDS = {"id", "ids", "ms", "at"}
_FIELDS = {
    "destroy at": "expiry",
    "destroy interval": "lifetime",
    "manifest version": "version",
    "user data": "notes",
    "default ms": "default lifetime",
    "greatest ms": "longest lifetime",
    "extend ms": "longest extension",
    "grace ms": "grace time before a destroy",
    "idle ms": "longest time without a run",
    "may never": "instances without an end",
    "mail": "warnings by email",
    "until": "awake until",
    "on failure": "when a change fails",
    "cron": "times",
    "secret": "signing secret",
    "deleted": "removed",
}


def field_words(field: str) -> str:
    """Return the name of a field for people: `environment` for `environmentId`."""
    words = [word.lower() for word in _CAMEL.split(field) if word]
    known = _FIELDS.get(" ".join(words))
    if known is not None:
        return known
    if len(words) > 1 and words[0] == "is":
        return " ".join(words[1:])
    return " ".join(words[:-1] if len(words) > 1 and words[-1] in _KINDS_OF_FIELDS else words)


def value_words(value: Any, field: str, names: Mapping[str, str], *, ids: bool = False) -> str:
    """Return a value of a field for people, with secrets masked.

    IDs become names, and with `ids` names and IDs.
    """
    masked = redact_value(value, field)
    if value is None or masked != compact(value):
        return masked
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return _number_words(value, field)
    if isinstance(value, str) and value in names:
        return f"{names[value]} ({value})" if ids else names[value]
    if isinstance(value, list | dict):
        return _structure_words(value, field, names, ids=ids) or "none"
    return masked


def _structure_words(value: Any, field: str, names: Mapping[str, str], *, ids: bool) -> str:
    """Return a list or an object for people: commas between values, semicolons between objects."""
    if isinstance(value, dict):
        parts = (f"{field_words(name)} {value_words(each, name, names, ids=ids)}" for name, each in value.items())
        return ", ".join(parts)
    between = "; " if any(isinstance(each, dict) for each in value) else ", "
    return between.join(value_words(each, field, names, ids=ids) for each in value)


def _number_words(value: int, field: str) -> str:
    """Return a number whose field says that it is a time or a duration."""
    last = ([word.lower() for word in _CAMEL.split(field) if word] or [""])[-1]
    if last in {"ms", "interval"}:
        return "never" if value == NEVER else duration(value)
    if last in {"at", "until"} and value >= _YEAR_2000_MS:
        return f"{from_ms(value):%Y-%m-%d %H:%M} UTC"
    return str(value)


def change_words(change: AuditedChange, names: Mapping[str, str]) -> str:
    """Return a change of a field in words, such as `size: 2 → 3`."""
    parameter = change.field.removeprefix("parameters.")
    words = parameter if parameter != change.field else field_words(change.field)
    before, after = (value_words(each, change.field, names) for each in (change.before, change.after))
    if after.startswith(_FINGERPRINT):
        return f"{words} was set"
    return f"{words}: {after}" if change.before is None else f"{words}: {before} → {after}"


_VERBS = {
    Permission.READ: "see",
    Permission.CREATE_APPLICATION: "create applications",
    Permission.EDIT_APPLICATION: "change applications",
    Permission.DELETE_APPLICATION: "delete applications",
    Permission.CREATE_INSTANCE: "launch",
    Permission.EDIT_INSTANCE: "change and destroy instances",
    Permission.DELETE_INSTANCE: "delete instances",
    Permission.RUN_INSTANCE_WORKFLOW: "run workflows",
    Permission.SCHEDULE_INSTANCE_WORKFLOW: "schedule workflows",
    Permission.APPROVE_INSTANCE_WORKFLOW: "approve",
    Permission.CREATE_ENVIRONMENT: "create environments",
    Permission.EDIT_ENVIRONMENT: "change environments",
    Permission.DELETE_ENVIRONMENT: "delete environments",
    Permission.CREATE_SERVICE: "create services",
    Permission.EDIT_SERVICE: "change services",
    Permission.RUN_SERVICE_COMMAND: "run commands of services",
    Permission.MANAGE_ROLES: "manage roles",
    Permission.MANAGE_USERS: "manage users",
    Permission.VIEW_AUDIT: "see the audit log",
    Permission.REVEAL_SECRETS: "reveal secrets",
    Permission.OVERRIDE_FREEZE: "override freezes",
    Permission.EDIT_RULES: "write rules about changes",
    Permission.PROVISION_USERS: "provision users",
}
_ID = re.compile(r"\b[0-9a-f]{24}\b")


def entry_words(entry: RoleEntry, names: Mapping[str, str]) -> str:
    """Return an entry in words, with names for IDs: `launch, on /applications/*`."""
    paths = ", ".join(pattern.text for pattern in entry.patterns)
    where = "" if paths == "/*" else f", on {_ID.sub(lambda found: names.get(found[0], found[0]), paths)}"
    return _VERBS[entry.permission] + where


@lru_cache(maxsize=_ROLES_READ)
def role_words(text: str) -> str:
    """Return what the text of a role allows, in short.

    Pages with many roles call `read_role_words` first.
    """
    try:
        found = list(dict.fromkeys(entry.permission for entry in read_role_text(text) if entry.patterns))
    except BadRequest:
        return "Its text can't be read."
    if not found:
        return "Nothing"
    if len(found) == len(Permission):
        return "Everything, limited by the paths in its text"
    words = ", ".join(_VERBS[each] for each in found[:_SHOWN_PERMISSIONS])
    more = len(found) - _SHOWN_PERMISSIONS
    return (words[:1].upper() + words[1:]) + (f", and {more} more" if more > 0 else "")


def read_role_words(texts: Iterable[str]) -> None:
    """Read many roles for `role_words`, which remembers them.

    It may take seconds, so call it in a thread.
    """
    for text in texts:
        role_words(text)


def sign_in_words(state: SignInState) -> tuple[Glyph, str]:
    """Return how a member signs in, with its glyph."""
    if not state.enabled:
        return Glyph.STOPPED, "Disabled"
    if "passkey" in state.factors:
        return Glyph.OK, "Passkey"
    if state.factors:
        return Glyph.OK, "Password and code"
    if state.has_identity:
        return Glyph.OK, "Identity provider"
    return (Glyph.WARN, "Password only") if state.has_password else (Glyph.QUEUED, "Not set up")


def initials(name: str) -> str:
    """Return up to two letters that represent a person's name."""
    letters = [word[0].upper() for word in name.split() if word[0].isalnum()]
    return "".join(letters[:1] + letters[1:][-1:])


def qr_code(text: str) -> Markup:
    """Return a text as an SVG element."""
    return Markup(svg_qr_code(text))  # noqa: S704 - its content is only the path of the dark squares


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True)


def escaped(value: Any) -> str:
    """Return a value as the text of a page has it.

    Jinja makes a `Markup` of each value, which nobody asks for: what macros and blocks return is one anyway.
    """
    kind = type(value)
    if kind is str:
        return value if _SPECIAL(value) is None else escape(value)
    return value if kind is Markup else str(value) if kind is int else escape(value)


class _Generator(CodeGenerator):
    def _output_child_pre(
        self,
        node: nodes.Expr,  # noqa: ARG002 - as Jinja calls it
        frame: Frame,
        finalize: CodeGenerator._FinalizeInfo,  # noqa: ARG002 - as Jinja calls it
    ) -> None:
        is_escaped = frame.eval_ctx.autoescape and not frame.eval_ctx.volatile
        assert is_escaped, f"{self.name} turns escaping off"
        self.write("environment.escaped(")


class _Context(Context):
    def call(self, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what a template calls.

        Jinja looks each time what it passes first. Here macros alone get something.
        """
        kwargs.pop("_loop_vars", None)
        kwargs.pop("_block_vars", None)
        return called(self.eval_ctx, *args, **kwargs) if type(called) is Macro else called(*args, **kwargs)


class _Environment(jinja2.Environment):
    """Templates without globals of their own.

    Jinja looks up each name in two dictionaries otherwise, and compares all names at each import of macros.
    """

    code_generator_class = _Generator
    context_class = _Context
    escaped = staticmethod(escaped)

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        return super().make_globals(d) if d else self.globals


def _environment() -> jinja2.Environment:
    environment = _Environment(
        # Those of a feature are `<feature>/templates/<name>`.
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("launchbay.console", "templates"), jinja2.PackageLoader("launchbay", "features")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals |= {
        "glyph": glyph,
        "icon": icon,
        "piece": piece,
        "guides": GUIDES,
        "navigation": NAVIGATION,
        "shortcuts": SHORTCUTS,
        "version": __version__,
    }
    # Jinja applies a filter to a constant when it compiles the template: `"gear" | icon` costs a page nothing.
    template_filters = (
        color_class,
        glyph,
        icon,
        format_time,
        excerpt,
        first_and_last,
        format_duration,
        format_remaining,
        freeze_at,
        compact,
        failure,
        pretty,
        display_value,
        shown_status,
        status_line,
        status_pill,
        age_ms,
        line_level,
        clock,
        elapsed,
        marked,
        short_error,
        short_time,
        with_times,
        step_words,
        run_status,
        instance_status,
        redact_value,
        qr_code,
        initials,
        change_words,
        field_words,
        value_words,
        entry_words,
        role_words,
        sign_in_words,
        plain,
        without_field,
    )
    environment.filters |= {"asset": address, **{each.__name__: each for each in template_filters}}
    return environment


def without_field(message: str) -> str:
    """Return a message without the API's name of a field at its beginning."""
    name, colon, rest = message.partition(": ")
    return rest[:1].upper() + rest[1:] if colon and name.isidentifier() and name[0].islower() else message


def live_event(name: str, text: str) -> str:
    """Return a server-sent event, with one data line for each line of the text."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {name}\n" + (lines or "data:\n") + "\n"


@lru_cache(_PIECES)
def piece(template: str, **values: Hashable) -> Markup:
    """Return a template with these values and no others, rendered once for each.

    It is for what many pages share. It gets no value that is secret or differs with each page.
    """
    return Markup(templates.get_template(template).render(values))  # noqa: S704 - it was escaped


templates = _environment()


def render(template: str, values: dict[str, Any]) -> str:
    """Render a template. Values are escaped; an undefined name is an error."""
    return templates.get_template(template).render(values)
