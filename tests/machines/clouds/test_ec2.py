"""The driver of EC2 before endpoints that lie, lead away, say too much or nothing."""

import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from launchbay import limits
from launchbay.machines.clouds import ec2
from launchbay.machines.clouds.driver import CloudFailed, Endpoint
from launchbay.machines.clouds.ec2 import Ec2
from tests.support.clouds import REGION, account

MARKS = {"launchbay.installation": "here"}
NOTHING = b'<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet/></DescribeInstancesResponse>'
LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x0 "ha">'
    + b"".join(b'<!ENTITY x%d "%s">' % (n, b"&x%d;" % (n - 1) * 10) for n in range(1, 20))
    + b"]><a>&x19;</a>"
)
Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def endpoint(answer: Answer, path: str = "/", certificate: Path | None = None) -> Iterator[tuple[Ec2, list[str]]]:
    """Give a driver whose endpoint answers so, and the hosts that it was asked under."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Host"])
            answer(self)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        scheme = "http" if certificate is None else "https"
        place = Endpoint(scheme, "cloud.invalid", server.server_port, path, ("127.0.0.1",))
        yield Ec2(account(""), REGION, place), asked
    finally:
        server.shutdown()
        server.server_close()


def self_signed(directory: Path) -> Path:
    """Make a certificate for the endpoint's name, and return the file that has it with its key."""
    file = directory / "certificate.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=cloud.invalid"
    )
    names = ("-addext", "subjectAltName=DNS:cloud.invalid", "-keyout", directory / "key.pem", "-out", file)
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    file.write_text(file.read_text() + (directory / "key.pem").read_text())
    return file


def saying(content: bytes, status: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def test_the_checked_address_is_dialled_whatever_the_name_leads_to() -> None:
    """`cloud.invalid` has no address at all: only the one that was checked can have been dialled."""
    with endpoint(saying(NOTHING)) as (cloud, asked):
        assert cloud.find_tagged(MARKS) == []
        assert [host.partition(":")[0] for host in asked] == ["cloud.invalid"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with (
        endpoint(saying(NOTHING)) as (_, elsewhere),
        endpoint(saying(b"", status, Location="http://127.0.0.1:1/")) as (cloud, asked),
        pytest.raises(CloudFailed),
    ):
        cloud.find_tagged(MARKS)
    assert len(asked) == 1
    assert elsewhere == []


def test_proxies_of_this_machine_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with endpoint(saying(NOTHING)) as (cloud, _):
        assert cloud.find_tagged(MARKS) == []


def test_an_answer_that_is_too_long_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLOUD_RESPONSE_BYTES", 100_000)
    with endpoint(saying(b" " * 200_000)) as (cloud, _), pytest.raises(CloudFailed, match="more than 100000 bytes"):
        cloud.find_tagged(MARKS)


def test_an_answer_that_drips_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLOUD_CALL_S", 0.3)
    over = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while not over.wait(0.05):
                handler.wfile.write(b" " * 20_000)
        except OSError:
            return

    with endpoint(drip) as (cloud, _), pytest.raises(CloudFailed, match=r"takes more than 0\.3 s"):
        cloud.find_tagged(MARKS)
    over.set()


@pytest.mark.parametrize("content", [b"", b"not XML", b"<a/>", LAUGHS, b"\xff\xfe\x00"])
def test_an_answer_that_is_no_answer_is_told(content: bytes) -> None:
    with endpoint(saying(content)) as (cloud, _), suppress(CloudFailed):
        assert cloud.find_tagged(MARKS) == []


def page(node_id: str, token: str | None) -> bytes:
    """An answer as the reference of the API documents it."""
    next_token = "" if token is None else f"<nextToken>{token}</nextToken>"
    return (
        '<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>8f7724cf</requestId>'
        f"<reservationSet><item><reservationId>r-1</reservationId><instancesSet><item><instanceId>{node_id}</instanceId>"
        "<instanceState><code>16</code><name>running</name></instanceState><privateIpAddress>10.0.0.9"
        "</privateIpAddress></item></instancesSet></item></reservationSet>"
        f"{next_token}</DescribeInstancesResponse>"
    ).encode()


def test_pages_of_a_list_are_asked_for_with_the_same_filters() -> None:
    queries: list[dict[str, list[str]]] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        queries.append(parse_qs(urlsplit(handler.path).query))
        content = {1: page("i-1", "next=1+"), 2: page("i-2", "next=2"), 3: page("i-3", "")}[len(queries)]
        saying(content)(handler)

    with endpoint(answer) as (cloud, _):
        assert [node.id for node in cloud.find_tagged(MARKS)] == ["i-1", "i-2", "i-3"]
    assert [query.get("NextToken") for query in queries] == [None, ["next=1+"], ["next=2"]]
    filters = [{name: value for name, value in query.items() if name.startswith("Filter.")} for query in queries]
    assert filters[0]
    assert filters[0] == filters[1] == filters[2]


def test_a_list_without_an_end_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ec2, "_PAGES_MAX", 3)
    with endpoint(saying(page("i-1", "again"))) as (cloud, asked), pytest.raises(CloudFailed, match="3 pages"):
        cloud.find_tagged(MARKS)
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("code", "retryable"),
    # Another attempt has another token; see `Errors` in the reference of the API.
    [("IdempotentParameterMismatch", True), ("IdempotentInstanceTerminated", True), ("InvalidAMIID.NotFound", False)],
)
def test_a_refused_token_is_worth_another_attempt(code: str, retryable: bool) -> None:
    refusal = (
        f"<Response><Errors><Error><Code>{code}</Code><Message>Refused.</Message></Error></Errors>"
        "<RequestID>ea966190-f9aa-478e-9ede-example</RequestID></Response>"
    )
    with endpoint(saying(refusal.encode(), 400)) as (cloud, _), pytest.raises(CloudFailed) as failed:
        cloud.find_tagged(MARKS)
    assert (failed.value.reason, failed.value.retryable) == (code, retryable)


def test_a_refusal_without_a_body_is_told() -> None:
    with endpoint(saying(b"", 503)) as (cloud, _), pytest.raises(CloudFailed) as failed:
        cloud.find_tagged(MARKS)
    assert failed.value.retryable


def test_nobody_at_the_endpoint_is_told_without_the_credentials() -> None:
    cloud = Ec2(account(""), REGION, Endpoint("http", "cloud.invalid", 1, "/", ("127.0.0.1",)))
    with pytest.raises(CloudFailed, match="did not respond") as failed:
        cloud.find_tagged(MARKS)
    assert "AKIAIOSFODNN7EXAMPLE" not in str(failed.value)
    assert "Signature" not in str(failed.value)


def test_the_path_of_an_endpoint_is_asked() -> None:
    paths: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        paths.append(handler.path.partition("?")[0])
        saying(NOTHING)(handler)

    with endpoint(answer, path="/services/Cloud") as (cloud, _):
        assert cloud.find_tagged(MARKS) == []
    assert paths == ["/services/Cloud"]


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(tmp_path: Path) -> None:
    with endpoint(saying(NOTHING), certificate=self_signed(tmp_path)) as (cloud, asked):
        with pytest.raises(CloudFailed, match="certificate verify failed"):
            cloud.find_tagged(MARKS)
        assert asked == []


@pytest.mark.parametrize(
    "namespace", ["http://ec2.amazonaws.com/doc/2016-11-15/", "http://ec2.amazonaws.com/doc/2009-11-30", ""]
)
def test_answers_are_read_in_every_version_of_the_namespace(namespace: str) -> None:
    declared = f' xmlns="{namespace}"' if namespace else ""
    content = (
        f"<DescribeInstancesResponse{declared}><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId>"
        "<instanceState><name>running</name></instanceState><privateIpAddress>10.0.0.9</privateIpAddress></item>"
        "</instancesSet></item></reservationSet></DescribeInstancesResponse>"
    )
    with endpoint(saying(content.encode())) as (cloud, _):
        [node] = cloud.find_tagged(MARKS)
    assert (node.id, node.private_ip, node.tags) == ("i-1", "10.0.0.9", None)
