"""Bad input: the right 4xx with a sentence that helps, quickly, at no cost to the process (promise 11).

Time is compared with that of a good request in the same run, never with the clock. `pytest -rP` shows the table.
"""

import gc
import os
import re
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import httpx
import msgspec
import pytest

from launchbay import limits
from launchbay.web.requests import FormBody, JsonBody, LinesBody
from launchbay.web.routing import Endpoint
from tests.support.cases import each_holds
from tests.support.manifests import TYPED, WORKFLOWS
from tests.support.served import ENDPOINTS
from tests.support.service import UNKNOWN, Api, accepted, refused

# A refusal may take so many times as long as the upload of a small good manifest (1.6 ms), though many of these are
# hundreds of times longer. The longest manifests are compared with a good one of their length.
PATIENCE = 40
PATIENCE_LARGE = 5
GROWTH_BYTES = 24 * limits.MIB
REQUESTS = 500

BILLION_LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGE_BOMB = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join(['*' + old] * 9)}]}}\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
FULL = limits.MANIFEST_BYTES - 100
STEPS = "launch:\n  steps:\n"
COMPONENTS = "application:\n  components:\n"


def repeated(head: str, line: str, times: int) -> str:
    """Return a document: the head, and the line again and again, `{}` being its number."""
    return head + "".join(line.replace("{}", str(number)) for number in range(times))


# name → the document, the status, and what the answer must say. Those with 200 are good, however odd.
MANIFESTS: dict[str, tuple[str | bytes, int, str]] = {
    "nothing at all": ("", 400, ""),
    "only a comment": ("# nothing\n", 400, ""),
    "an empty map": ("{}", 200, ""),
    "a bare word": ("bare", 400, "Line 1"),
    "a list": ("- a\n- b\n", 400, "Line 1"),
    "null": ("null", 400, "Line 1"),
    "a null component": ("application:\n  components:\n    error:\n", 400, "error"),
    "a component without a type": ("application: {components: {x: {interfaces: {}}}}", 400, "x"),
    "an unknown component type": ("application: {components: {x: {type: magic.Wand}}}", 400, "magic.Wand"),
    "an unknown action": (STEPS + "    - a: {action: magic}\n", 400, "magic"),
    "a key twice": ("launch: {steps: []}\nlaunch: {steps: []}\n", 400, "Duplicate key 'launch'"),
    "60 KB of [": ("[" * 60_000, 400, "levels"),
    "60 KB of {a:": ("{a: " * 15_000, 400, "levels"),
    "60 KB of - ": ("- " * 30_000, 400, "levels"),
    "nesting by indentation": ("".join(" " * n + "a:\n" for n in range(300)), 400, "levels"),
    "a billion laughs": (BILLION_LAUGHS, 400, "alias"),
    "a merge bomb": (MERGE_BOMB, 400, ""),
    "an alias of itself": ("a: &a [*a]\n", 400, ""),
    "an alias of nobody": ("a: *b\n", 400, "b"),
    "an unknown tag": ("launch: !!python/object/apply:os.system [x]\n", 400, "tag"),
    "two documents": ("launch: {steps: []}\n---\nlaunch: {steps: []}\n", 400, ""),
    "a tab": ("launch:\n\tsteps: []\n", 400, "Line 2"),
    "an open quote": ("launch: 'x\n", 400, "Line"),
    "an unknown directive": ("%FOO bar\n--- {}\n", 400, "Line 1"),
    "YAML 9": ("%YAML 9.9\n--- {}\n", 400, ""),
    "no UTF-8": (b"launch: \xff\xfe\n", 400, "UTF-8"),
    "UTF-16": ("launch: {steps: []}".encode("utf-16"), 400, "UTF-8"),
    "NUL": ("launch: \0\n", 400, "NUL"),
    "an escaped NUL": ('launch: "\\0"\n', 400, ""),
    "a control character": ("launch: \x07\n", 400, ""),
    "half of a surrogate pair": ('launch: "\\ud800"\n', 400, ""),
    "a huge number": ("launch: " + "9" * 10_000 + "\n", 400, ""),
    "a long word": ("x" * FULL, 400, "Line 1"),
    "a long key": ("? " + "x" * FULL, 400, ""),
    "a long line of keys": ("{" + ", ".join(f"k{n}: v" for n in range(20_000)) + "}", 400, ""),
    "a deep type": (
        "application: {components: {a: {type: workflow.Instance, interfaces: {i: {p: 'configuration("
        + "list<" * 20_000
        + "'}}}}}",
        400,
        "",
    ),
    "brackets in an expression": (
        STEPS + "    - a: {action: wait, parameters: {delay: '{$.a" + "[" * 60_000 + "}'}}\n",
        400,
        "",
    ),
}

# Just below the bound of 20,000 values, and once above it. To read and check so much takes its time, good or bad.
LARGE_GOOD = repeated(STEPS, "    - s{}: {action: wait, parameters: {delay: 1}}\n", 2_100)
LARGE: dict[str, tuple[str | bytes, int, str]] = {
    "too many values": (
        repeated(STEPS, f"    - s{{}}: {{action: magic, parameters: {{x: [{'1,' * 20}]}}}}\n", 5_000),
        400,
        "100000 values",
    ),
    "many unknown actions": (repeated(STEPS, "    - s{}: {action: magic{}}\n", 3_900), 400, "magic0"),
    "many null components": (repeated(COMPONENTS, "    c{}:\n", 9_900), 400, "c0"),
    "many unknown types": (repeated(COMPONENTS, "    c{}: {type: t{}}\n", 4_900), 400, "t0"),
    "many bindings to nobody": (
        repeated("application:\n  components: {a: {type: workflow.Instance}}\n  bindings:\n", "  - [a, b{}]\n", 6_500),
        400,
        "b0",
    ),
    "many phases": (
        repeated(STEPS, "    - s{}: {action: magic, precedingPhases: [p{}, s0, s1, s2]}\n", 1_800),
        400,
        "magic",
    ),
    "many wrong expressions": (
        repeated(STEPS, "    - s{}: {action: magic, parameters: {a: '{$.x[}'}}\n", 2_200),
        400,
        "Invalid expression",
    ),
    "many required interfaces that nobody fills": (
        repeated(
            "application:\n  components:\n",
            "    c{}: {type: workflow.Instance, required: [i], interfaces: {i: {p: consume-signal(int)}}}\n",
            1_200,
        )
        + "  bindings: [[c0, nobody]]\n",
        400,
        "nobody",
    ),
    "a circle of many components": (
        repeated(
            "application:\n  components:\n",
            "    c{}:\n      {type: workflow.Instance, required: [i],"
            " interfaces: {i: {p: consume-signal(int)}, o: {p: publish-signal(int)}}}\n",
            800,
        )
        + "  bindings:\n"
        + "".join(f"  - [c{number}#i, c{(number + 1) % 800}#o]\n" for number in range(800)),
        400,
        "c0",
    ),
}

DEEP = b'{"a":' * 50_000
BODIES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"   \n", ""),
    "half an object": (b'{"name": "x"', "JSON"),
    "single quotes": (b"{'name': 'x'}", "JSON"),
    "a trailing comma": (b'{"name": "x",}', "JSON"),
    "two values": (b'{"name": "x"} {}', "JSON"),
    "a comment": (b'{"name": "x" /* why */}', "JSON"),
    "a bare word": (b"name", "JSON"),
    "NaN": (b'{"name": NaN}', "number"),
    "infinity": (b'{"name": 1e999}', "number"),
    "a huge number": (b'{"name": ' + b"9" * 500_000 + b"}", "64 bits"),
    "an array": (b'[{"name": "x"}]', "object"),
    "a string": (b'"name"', "object"),
    "deep objects": (DEEP, "nested"),
    "deep arrays": (b"[" * 500_000, "nested"),
    "deep and closed": (b"[" * 100_000 + b"]" * 100_000, "nested"),
    "no UTF-8": (b'{"name": "\xff"}', "UTF-8"),
    "UTF-16": ('{"name": "x"}'.encode("utf-16"), "UTF-8"),
    "a byte-order mark": (b'\xef\xbb\xbf{"name": 5}', ""),
    "NUL": (b'{"name": "\0"}', ""),
    "an escaped NUL": (b'{"name": "a\\u0000b"}', "NUL"),
    "half of a surrogate pair": (b'{"name": "\\ud800"}', "surrogate"),
    "half of a pair as a key": (b'{"\\udfff": "x"}', "surrogate"),
    "surrogates in UTF-8": (b'{"name": "\xed\xa0\x80"}', "UTF-8"),
    "a key twice": (b'{"name": "x", "name": "y"}', "Duplicate key"),
    "half a megabyte of keys": (b"{" + b",".join(b'"k%d":0' % n for n in range(40_000)) + b"", "JSON"),
    "a million spaces": (b" " * 1_000_000 + b"{", "JSON"),
    "a line break in a string": (b'{"name": "a\nb"}', "JSON"),
}
MEANINGLESS: dict[str, tuple[str, bytes, str]] = {
    "an empty name": ("POST organizations/{organization}/applications", b'{"name": ""}', "name"),
    "a name of half a megabyte": (
        "POST organizations/{organization}/applications",
        b'{"name": "' + b"x" * 500_000 + b'"}',
        "name",
    ),
    "an instance name of half a megabyte": (
        "POST applications/{application}/launch",
        b'{"instanceName": "' + b"x" * 500_000 + b'"}',
        "instanceName",
    ),
    "a parameter with a huge name": (
        "POST applications/{application}/launch",
        b'{"parameters": {"' + b"x" * 500_000 + b'": 1}}',
        "Unknown parameter",
    ),
    "20,000 unknown parameters": (
        "POST applications/{application}/launch",
        b"{" + b",".join(b'"k%d":0' % n for n in range(20_000)) + b"}",
        "k0",
    ),
    "20,000 unknown arguments": (
        "POST instances/{instance}/actions.show.all",
        b"{" + b",".join(b'"k%d":0' % n for n in range(20_000)) + b"}",
        "k0",
    ),
    "a wrong value of half a megabyte": (
        "POST instances/{instance}/actions.show.all",
        b'{"i": "' + b"9" * 500_000 + b'"}',
        "Parameter i",
    ),
    "deep JSON inside of a string": (
        "POST instances/{instance}/actions.show.all",
        b'{"o": "' + b"[" * 500_000 + b'"}',
        "Parameter o",
    ),
    "a huge interval": (
        "POST instances/{instance}/actions.default/schedule",
        b'{"interval": "' + b"9" * 500_000 + b'"}',
        "interval",
    ),
    "an interval that is deep": (
        "POST instances/{instance}/actions.default/schedule",
        b'{"interval": ' + b"[" * 60 + b"]" * 60 + b"}",
        "interval",
    ),
    "a version of half a megabyte": (
        "POST applications/{application}/launch",
        b'{"version": "' + b"9" * 500_000 + b'"}',
        "version",
    ),
    "an unknown schedule with a long name": (
        "POST instances/{instance}/" + "x" * 500 + "/reschedule",
        b'{"interval": 0}',
        "schedule",
    ),
    "an unknown workflow with a long name": ("POST instances/{instance}/" + "x" * 500, b"{}", "Available"),
}


class Stopwatch:
    """Compares the processor time of requests with that of a good one, which is taken again when something is slow."""

    def __init__(self, good: Callable[[], Awaitable[httpx.Response]], patience: int) -> None:
        self._good = good
        self._patience = patience
        self.good_ms = 0.0

    async def measure_good(self) -> None:
        times = []
        for _ in range(9):
            begin = time.process_time()
            accepted(await self._good())
            times.append((time.process_time() - begin) * 1000)
        self.good_ms = statistics.median(times)

    async def check(self, name: str, ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
        """Send a request and check its time; a slow one gets more chances, for the machine serves others too."""
        for attempt in range(6):
            begin = time.process_time()
            answer = await ask()
            took_ms = (time.process_time() - begin) * 1000
            print(f"{name:45} {answer.status_code} {took_ms:8.1f} ms, {took_ms / self.good_ms:6.1f} times a good one")
            if took_ms <= self._patience * self.good_ms:
                return answer
            if attempt < 5:
                await self.measure_good()
        raise AssertionError(f"{name} took {took_ms:.0f} ms, {took_ms / self.good_ms:.0f} times a good request")


@pytest.fixture(scope="module")
async def ids(api: Api) -> dict[str, str]:
    instance = await api.running(TYPED)
    application = (await api.document(instance))["applicationId"]
    return {"organization": api.organization, "application": application, "instance": instance}


@pytest.fixture(scope="module")
async def stopwatch(api: Api) -> Stopwatch:
    application = await api.application()
    stopwatch = Stopwatch(lambda: api.put_yaml(f"applications/{application}/manifest", TYPED), PATIENCE)
    await stopwatch.measure_good()
    return stopwatch


@pytest.fixture(scope="module")
async def large_stopwatch(api: Api) -> Stopwatch:
    application = await api.application()
    stopwatch = Stopwatch(lambda: api.put_yaml(f"applications/{application}/manifest", LARGE_GOOD), PATIENCE_LARGE)
    await stopwatch.measure_good()
    return stopwatch


@pytest.fixture(autouse=True)
async def process_lives(api: Api, ids: dict[str, str]) -> None:
    """Before each test, and so after the one before, a good request is answered."""
    assert (await api.document(ids["instance"]))["status"] == "Running"


@pytest.mark.parametrize("name", MANIFESTS)
async def test_a_bad_manifest_is_refused_quickly_and_says_why(api: Api, stopwatch: Stopwatch, name: str) -> None:
    await refuse_manifest(api, stopwatch, name, *MANIFESTS[name])


@pytest.mark.parametrize("name", LARGE)
async def test_a_large_manifest_costs_no_more_for_being_bad(api: Api, large_stopwatch: Stopwatch, name: str) -> None:
    await refuse_manifest(api, large_stopwatch, name, *LARGE[name])


async def refuse_manifest(
    api: Api, stopwatch: Stopwatch, name: str, document: str | bytes, status: int, said: str
) -> None:
    content = document if isinstance(document, bytes) else document.encode()
    path = f"applications/{await api.application()}/manifest"
    answer = await stopwatch.check(name, lambda: api.send("PUT", path, content, content_type="application/x-yaml"))
    if status == 200:
        accepted(answer)
        return
    sentences = refused(answer, status)
    assert said in sentences
    assert len(answer.content) < 200_000
    answer = await stopwatch.check(
        f"{name}, only checked",
        lambda: api.send("POST", "manifests/validate", content, content_type="application/x-yaml"),
    )
    assert answer.status_code == 400 or accepted(answer)["errors"]


# One reader reads every body, so each bad one goes to one of them; test_every_endpoint_… shows that all rows use it.
TARGETS = [
    "POST organizations/{organization}/applications",
    "POST applications/{application}/launch",
    "POST instances/{instance}/actions.default",
    "POST instances/{instance}/actions.default/schedule",
    "PUT instances/{instance}/userData",
]


@pytest.mark.parametrize(
    ("target", "name"), [(TARGETS[number % len(TARGETS)], name) for number, name in enumerate(BODIES)]
)
async def test_a_bad_body_is_refused_quickly_and_says_why(
    api: Api, ids: dict[str, str], stopwatch: Stopwatch, target: str, name: str
) -> None:
    body, said = BODIES[name]
    method, _, path = target.format(**ids).partition(" ")
    if name == "a byte-order mark":
        body = body[:-1]
    answer = await stopwatch.check(
        f"{name}: {target}", lambda: api.send(method, path, body, content_type="application/json")
    )
    assert said in refused(answer, 400)
    assert len(answer.content) < 1_000


def address(row: Endpoint) -> str:
    """Return a path of the row from the root of the server: what cannot be read is refused before objects are found."""
    return "http://launchbay" + re.sub(r"\{\w+\}", UNKNOWN, row.path)


async def test_every_endpoint_with_a_body_refuses_what_it_cannot_read(api: Api) -> None:
    await each_holds(
        partial(_refuses_what_it_cannot_read, api),
        ((row,) for row in ENDPOINTS if row.body is not None),
        named=lambda row: row.operation_id,
    )


async def _refuses_what_it_cannot_read(api: Api, row: Endpoint) -> None:
    assert row.body is not None

    async def refuses(content: bytes, media_type: str, status: int, code: str) -> None:
        answer = await api.send(row.method, address(row), content, content_type=media_type)
        assert answer.status_code == status
        # Pages answer with a page, and rows that list errors by field have a form of their own.
        if not isinstance(row.body, FormBody) and not row.field_errors:
            refused(answer, status, code)

    media_type = row.body.media_type
    await refuses(b"{}", "text/plain", 400, "WrongContentType")
    if isinstance(row.body, LinesBody):  # refused by what it announces: it need not fit into memory
        size = {"content-length": str(row.body.bytes_max + 1)}
        refused(await api.send(row.method, address(row), b"{}", content_type=media_type, **size), 413, "TooLarge")
    else:
        await refuses(b" " * (row.body.bytes_max + 1), media_type, 413, "TooLarge")
    # What a signature covers is read after the signature was checked.
    if isinstance(row.body, JsonBody) and row.body.type is not msgspec.Raw:
        for broken in (b'{"name": "x"', b'{"name": "\xff"}', b'{"a": 1, "a": 2}', b"[" * 100):
            await refuses(broken, media_type, 400, "MalformedBody")
        await refuses(b"5", media_type, 400, "WrongField")
        if getattr(getattr(row.body.type, "__struct_config__", None), "forbid_unknown_fields", False):
            await refuses(b'{"a field that nobody has": 1}', media_type, 400, "WrongField")


async def test_every_endpoint_names_its_methods_when_asked_with_another(api: Api) -> None:
    await each_holds(partial(_names_its_methods, api), ((each,) for each in sorted({row.path for row in ENDPOINTS})))


async def _names_its_methods(api: Api, path: str) -> None:
    row = next(row for row in ENDPOINTS if row.path == path)
    answer = await api.send("PATCH", address(row))
    if row.path == "/docs":
        assert answer.status_code == 405, "a page of the console, in the form of its errors"
    else:
        refused(answer, 405, "MethodNotAllowed")
    assert {each.method for each in ENDPOINTS if each.path == path} <= set(answer.headers["allow"].split(", "))


@pytest.mark.parametrize("name", MEANINGLESS)
async def test_a_body_without_sense_is_refused_quickly_and_says_why(
    api: Api, ids: dict[str, str], stopwatch: Stopwatch, name: str
) -> None:
    target, body, said = MEANINGLESS[name]
    method, _, path = target.format(**ids).partition(" ")
    answer = await stopwatch.check(name, lambda: api.send(method, path, body, content_type="application/json"))
    assert said in refused(answer, 400)
    assert len(answer.content) < 10_000


@pytest.mark.parametrize(
    ("target", "content_type", "size"),
    [
        ("PUT applications/{application}/manifest", "application/x-yaml", limits.MANIFEST_BYTES + 1),
        ("PUT applications/{application}/manifest", "application/x-yaml", limits.MIB),
        ("POST manifests/validate", "application/x-yaml", limits.MIB),
        ("POST applications/{application}/launch", "application/json", limits.JSON_BODY_BYTES + 1),
        ("PUT instances/{instance}/userData", "application/json", 5 * limits.MIB),
    ],
)
async def test_too_large_a_body_is_413(
    api: Api, ids: dict[str, str], stopwatch: Stopwatch, target: str, content_type: str, size: int
) -> None:
    method, _, path = target.format(**ids).partition(" ")
    body = b"a" * size
    answer = await stopwatch.check(
        f"{size} bytes: {target}", lambda: api.send(method, path, body, content_type=content_type)
    )
    assert "KiB" in refused(answer, 413, "TooLarge")


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/jsonp", "json", ";", "application/json; charset=utf-16"]
)
async def test_another_content_type_is_refused_quickly_and_says_which_one_to_send(
    api: Api, ids: dict[str, str], stopwatch: Stopwatch, content_type: str
) -> None:
    headers = {"content_type": content_type} if content_type else {}
    for path in (f"applications/{ids['application']}/launch", f"instances/{ids['instance']}/actions.default"):
        answer = await stopwatch.check(content_type, lambda path=path: api.send("POST", path, b"{}", **headers))  # type: ignore[misc] # mypy does not infer the default of a lambda
        refused(answer, 400, "WrongContentType")


@pytest.mark.parametrize(
    "path",
    [
        "instances/x",
        "instances/" + "f" * 5_000,
        "instances/%00",
        "instances/%ff",
        "instances/..%2f..%2fetc",
        "x" * 20_000,
    ],
    ids=lambda path: path[:20],
)
async def test_what_can_be_no_address_is_404_quickly(api: Api, stopwatch: Stopwatch, path: str) -> None:
    refused(await stopwatch.check(path[:40], lambda: api.get(path)), 404)


def resident() -> int:
    """Return the memory of this process, in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
async def test_memory_stays_flat_over_many_bad_requests(api: Api, ids: dict[str, str]) -> None:
    texts = [text for text, _, _ in (*MANIFESTS.values(), *LARGE.values())]
    manifests = [(text if isinstance(text, bytes) else text.encode()) for text in texts]
    bodies = [body for body, _ in BODIES.values()]
    path = f"applications/{await api.application()}"

    async def send(count: int) -> None:
        for number in range(count):
            manifest, body = manifests[number % len(manifests)], bodies[number % len(bodies)]
            if number % 2:
                await api.send("PUT", f"{path}/manifest", manifest, content_type="application/x-yaml")
            else:
                await api.send("POST", f"{path}/launch", body, content_type="application/json")

    await send(2 * len(manifests))  # what is kept for good, such as buffers and compiled patterns, is there now
    before = resident()
    await send(REQUESTS)
    grown = resident() - before
    print(f"{REQUESTS} bad requests: memory grew by {grown / limits.MIB:.1f} MiB")
    assert grown < GROWTH_BYTES
    assert (await api.run(await api.running(WORKFLOWS, label="x"), "echo", text="alive"))["returnValues"] == {
        "shown": "alive"
    }
