"""The authorization matrix: every endpoint × every kind of caller × own, foreign and missing objects.

Made from the endpoint table, and compared with `matrix.golden`. Before the callers try, somebody who may shows that the
request succeeds; after each refusal the whole database is looked at, and must be as it was.
"""

import difflib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from launchbay.web.endpoints import ENDPOINTS
from launchbay.web.routing import Endpoint
from tests.access import matrix_golden as golden
from tests.access.matrix_cases import NAMED_IN_REQUESTS, SPECIAL
from tests.access.matrix_requests import Sent, ids_in, moved, request_of
from tests.access.matrix_world import ADMINISTRATOR, FOREIGN_ADMINISTRATOR, SLOW_CALLERS, Actor, World
from tests.access.watch import Watch
from tests.api.running import UNKNOWN

# Who makes an organization belongs to one more from then on, so this comes after everything else.
LAST = "create_organization"
ROWS = {row.operation_id: row for row in sorted(ENDPOINTS, key=lambda row: row.operation_id == LAST)}

# The files that share the table, each with the tags of its rows; test_matrix.py has the rest.
PARTS = {
    "accounts": {"Organizations", "Users", "Roles", "Account", "Pages"},
    "applications": {"Applications", "Manifests", "Revisions", "Webhooks", "Approvals"},
    "instances": {"Instances", "Jobs", "Workflows"},
}
REST = "rest"

# Nobody can reach these without an OpenID Connect provider; tests/api/test_openid.py has one.
NEED_A_PROVIDER = {"begin_sign_in", "finish_sign_in"}


def title(row: Endpoint) -> str:
    """Return the headline of a row's section."""
    return f"{row.operation_id}: {row.method} {row.path}"


def case_title(operation: str, name: str) -> str:
    """Return the headline of the section of a request that is special."""
    return f"{operation}, {name}"


TITLES = [
    *(title(row) for row in ENDPOINTS),
    *(case_title(operation, f"naming the {name}") for name, (operation, _) in NAMED_IN_REQUESTS.items()),
    *(case_title(operation, name) for name, (operation, _) in SPECIAL.items()),
]


def rows_of(part: str) -> list[str]:
    """Return the operations whose callers a file tries; when the golden file is written test_matrix.py has them all."""
    if golden.WRITES:
        return list(ROWS) if part == REST else []
    parts = {tag: name for name, tags in PARTS.items() for tag in tags}
    return [operation for operation, row in ROWS.items() if parts.get(row.tags[0], REST) == part]


Build = Callable[[Actor], Awaitable[Sent]]
_ID = re.compile(r"\b[0-9a-f]{24}\b")


@dataclass(frozen=True)
class Column:
    """A kind of object: `probe` is who may reach it, if anybody may, `of` the organization that the path leads to."""

    build: Build
    probe: str | None = None
    of: str = "home"

    def is_foreign_to(self, actor: Actor) -> bool:
        """Tell whether the caller does not belong to the organization."""
        return (actor.name == FOREIGN_ADMINISTRATOR) == (self.of == "home")


def columns_of(row: Endpoint, world: World) -> dict[str, Column]:
    """Return the kinds of objects that a row can be called for."""

    async def home(actor: Actor) -> Sent:
        return await request_of(row, world.home, actor)

    async def away(actor: Actor) -> Sent:
        return await request_of(row, world.away, actor)

    async def missing(actor: Actor) -> Sent:
        sent = await home(actor)
        return moved(sent, dict.fromkeys(ids_in(row, sent.path), UNKNOWN))

    async def home_missing(actor: Actor) -> Sent:
        sent = await home(actor)
        return moved(sent, {ids_in(row, sent.path)[-1]: UNKNOWN})

    async def home_away(actor: Actor) -> Sent:
        sent, other = await home(actor), await away(actor)
        last = ids_in(row, sent.path)[-1]
        return moved(sent, {last: other.path.partition("?")[0].split("/")[last]})

    count = row.path.count("Id}") + row.path.count("{id}")
    if count == 0 and row.operation_id != "explain_permission":
        return {"-": Column(home, None if row.operation_id in NEED_A_PROVIDER else ADMINISTRATOR)}
    columns = {"home": Column(home, ADMINISTRATOR), "away": Column(away, FOREIGN_ADMINISTRATOR, "away")}
    if count:
        columns["missing"] = Column(missing)
    if count > 1:
        columns |= {"home/missing": Column(home_missing), "home/away": Column(home_away)}
    return columns


async def outcomes(world: World, watch: Watch, column: Column, problems: list[str], *, changes: bool) -> dict[str, str]:
    """Let every caller try, and return who got what; what must not be goes into `problems`."""
    found: dict[str, str] = {}
    reference = await _probed(world, column, found)
    sent: Sent | None = None
    for actor in world.actors:
        if actor.name in SLOW_CALLERS and column.probe != ADMINISTRATOR:
            continue  # one column is enough: credentials are looked at before the object, as the other callers show
        if sent is None:
            sent = await column.build(actor)
            await watch.begin()
        async with world.client(actor) as client:
            answer = await sent.by(client)
        found[actor.name] = f"{answer.status_code}{_coverage(answer, reference)}"
        if answer.status_code == 200 and changes:
            sent = None
            continue
        where = f"{sent.method} {sent.path} by {actor.name}"
        if changed := await watch.changed():
            problems.append(f"{where}: {answer.status_code}, but these tables changed: {', '.join(changed)}")
        if answer.status_code != 200 and column.is_foreign_to(actor):
            problems.extend(f"{where} tells the id {told}" for told in _told(answer, sent))
        if sent.is_personal:
            sent = None
    return found


async def _probed(world: World, column: Column, found: dict[str, str]) -> list[str] | None:
    """Show that the request succeeds for who may make it, and return what a list then shows."""
    if column.probe is None:
        return None
    actor = next(actor for actor in world.actors if actor.name == column.probe)
    sent = await column.build(actor)
    if sent.owner is not None and sent.owner is not world.home.api and sent.owner is not world.away.api:
        probe = await sent.by_owner()
        found["its owner"] = str(probe.status_code)
    else:
        async with world.client(actor) as client:
            probe = await sent.by(client)
    assert probe.status_code == 200, f"the probe {sent.method} {sent.path} failed: {probe.text}"
    return _shown(probe)


def _shown(answer: httpx.Response) -> list[str] | None:
    """Return what identifies the items of a list; None for an answer that is no list of objects with ids."""
    if answer.headers.get("content-type") != "application/json":
        return None
    document = answer.json()
    if not isinstance(document, list) or not all(isinstance(item, dict) and "id" in item for item in document):
        return None
    return [str(item["id"]) for item in document]


def _coverage(answer: httpx.Response, reference: list[str] | None) -> str:
    if answer.status_code != 200 or reference is None:
        return ""
    shown = _shown(answer) or []
    if not shown:
        return " none"
    return " all" if shown == reference else " some"


def _told(answer: httpx.Response, sent: Sent) -> set[str]:
    """Return the ids in a refusal that its request did not hold; the request's own id is no object's."""
    known = sent.path.encode() + sent.content + answer.headers["x-request-id"].encode()
    return {told for told in _ID.findall(answer.text) if told.encode() not in known}


def compare(name: str, text: str, sections: dict[str, str]) -> None:
    """Compare a section with the golden file, or keep it to be written."""
    sections[name] = text
    if golden.WRITES:
        return
    expected = golden.stored().get(name, "")
    difference = "\n".join(difflib.unified_diff(expected.split("\n"), text.split("\n"), "golden", "now", lineterm=""))
    assert text == expected, f"who may do what has changed; see the head of {golden.FILE.name}:\n{difference}"


async def check_row(world: World, watch: Watch, sections: dict[str, str], operation: str) -> None:
    """Let every caller try a row of the table."""
    row = ROWS[operation]
    await check(world, watch, sections, title(row), columns_of(row, world), changes=row.method != "GET")


async def check(
    world: World, watch: Watch, sections: dict[str, str], headline: str, columns: dict[str, Column], *, changes: bool
) -> None:
    """Let every caller try the columns of a section, and compare who got what with the golden file."""
    problems: list[str] = []
    lines = {key: await outcomes(world, watch, column, problems, changes=changes) for key, column in columns.items()}
    assert problems == []
    compare(headline, golden.section(headline, lines), sections)
