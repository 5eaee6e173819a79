"""What goes through the outgoing proxy, form by form, and what the settings about it refuse."""

from pathlib import Path

import pytest

from launchbay.egress.proxy import OutgoingProxy
from launchbay.errors import CannotStart

URL = "http://proxy.example:3128"


def proxy(no_proxy: str = "", url: str = URL, credentials_file: str = "") -> OutgoingProxy:
    found = OutgoingProxy.load(url, credentials_file, no_proxy)
    assert found is not None
    return found


# As Go reads them; in the comments, who reads a form otherwise.
@pytest.mark.parametrize(
    ("no_proxy", "host", "port", "is_carried"),
    [
        ("", "example.org", 443, True),
        ("example.org", "example.org", 443, False),
        ("example.org", "EXAMPLE.org.", 443, False),  # requests sends the final dot's through the proxy
        ("EXAMPLE.ORG.", "example.org", 443, False),
        ("example.org", "sub.example.org", 443, False),
        ("example.org", "notexample.org", 443, True),
        ("example.org", "example.org.evil.test", 443, True),
        (".example.org", "sub.example.org", 443, False),
        (".example.org", "example.org", 443, True),  # curl and requests: direct
        ("*.example.org", "sub.example.org", 443, False),  # curl and Python: through the proxy
        ("*.example.org", "example.org", 443, True),
        ("example.org:8080", "example.org", 8080, False),  # curl: through the proxy
        ("example.org:8080", "example.org", 443, True),
        (".example.org:8080", "sub.example.org", 8080, False),
        ("bücher.example", "xn--bcher-kva.example", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 443, False),  # urllib and httpx: through the proxy
        ("10.0.0.0/8", "11.1.2.3", 443, True),
        ("10.1.2.3/8", "10.9.9.9", 443, False),
        ("10.0.0.0/8", "0x0a010203", 443, False),  # another spelling of 10.1.2.3
        ("10.0.0.0/8", "ten.example", 443, True),  # a name, whatever its address
        ("10.1.2.3", "10.1.2.3", 443, False),
        ("2.3", "10.1.2.3", 443, None),
        ("10.1.2.3:8080", "10.1.2.3", 8080, False),
        ("10.1.2.3:8080", "10.1.2.3", 443, True),
        ("::ffff:10.1.2.3", "10.1.2.3", 443, False),
        ("10.1.2.3", "::ffff:10.1.2.3", 443, False),
        ("fd00::/8", "fd00::1", 443, False),
        ("fd00::1", "[fd00::1]", 443, False),
        ("[fd00::1]", "fd00::1", 443, False),  # curl and Go: through the proxy
        ("[fd00::1]:8080", "fd00::1", 8080, False),
        ("[fd00::1]:8080", "fd00::1", 443, True),
        ("a.example, example.org ,, b.example", "example.org", 443, False),
        # This machine, which curl and Python send through the proxy.
        ("", "localhost", 443, False),
        ("", "LOCALHOST.", 443, False),
        ("", "bay.localhost", 443, False),
        ("", "127.0.0.1", 443, False),
        ("", "127.1.2.3", 443, False),
        ("", "2130706433", 443, False),
        ("", "::1", 443, False),
        ("", "[::ffff:127.0.0.1]", 443, False),
        ("", "0.0.0.0", 443, False),
        ("", "::", 443, False),
        ("", "localhost.example.org", 443, True),
    ],
)
def test_each_form_of_an_exception_means_what_go_means_by_it(
    no_proxy: str, host: str, port: int, is_carried: bool | None
) -> None:
    if is_carried is None:
        with pytest.raises(CannotStart, match="OUTGOING_NO_PROXY"):
            proxy(no_proxy)
        return
    assert proxy(no_proxy).carries(host, port) is is_carried


@pytest.mark.parametrize("no_proxy", ["*", "a.example, *"])
def test_a_star_turns_the_proxy_off(no_proxy: str) -> None:
    assert OutgoingProxy.load(URL, "", no_proxy) is None


@pytest.mark.parametrize(
    "entry",
    [
        "10.1.*", "ex*mple.org", "http://example.org", "example.org/path", "example.org:0", "example.org:99999",
        "10.0.0.0/33", "10.0.0.0/8:80", ".10.0.0.0/8", "user@example.org", "a.example b.example", ".", "*.",
    ],
)  # fmt: skip
def test_a_form_that_others_ignore_silently_stops_the_start(entry: str) -> None:
    with pytest.raises(CannotStart, match="OUTGOING_NO_PROXY"):
        proxy(f"example.org,{entry}")


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("proxy.example:3128", "must be an address"),
        ("socks5://proxy.example:1080", "must be an address"),
        ("http://", "must be an address"),
        ("http://proxy.example:3128/path", "must be an address"),
        ("http://proxy.example:99999", "needs the port"),
        ("http://proxy.example", "needs the port"),
        ("https://proxy.example/", "needs the port"),
    ],
)
def test_an_address_that_is_none_of_a_proxy_stops_the_start(url: str, named: str) -> None:
    with pytest.raises(CannotStart, match=named):
        proxy(url=url)


def test_a_default_port_that_is_written_is_a_port() -> None:
    assert (proxy(url="http://proxy.example:80").port, proxy(url="https://[fd00::1]:443/").port) == (80, 443)
    assert proxy(url="https://[fd00::1]:443/").url == "https://[fd00::1]:443"


def test_a_password_in_the_address_stops_the_start_and_is_not_shown() -> None:
    with pytest.raises(CannotStart, match="CREDENTIALS_FILE") as refused:
        proxy(url="http://ops:hunter2@proxy.example:3128")
    assert "hunter2" not in str(refused.value)


def test_credentials_are_read_from_their_file_and_escaped(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("ops@corp:p@ss:w/ö rd\n")
    found = proxy(credentials_file=str(file))
    assert (found.user, found.password) == ("ops@corp", "p@ss:w/ö rd")
    assert found.url_with_credentials == "http://ops%40corp:p%40ss%3Aw%2F%C3%B6%20rd@proxy.example:3128"
    assert found.secrets() == ["p@ss:w/ö rd", "p%40ss%3Aw%2F%C3%B6%20rd"]
    assert "w/" not in repr(found)
    assert "@" not in found.url


@pytest.mark.parametrize("content", [b"", b"ops", b":secret", b"ops:hunter\nops:two", b"ops:\xff"])
def test_a_file_without_one_line_of_credentials_stops_the_start(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_bytes(content)
    with pytest.raises(CannotStart, match="CREDENTIALS_FILE") as refused:
        proxy(credentials_file=str(file))
    assert "hunter" not in str(refused.value)
    with pytest.raises(CannotStart, match="No such file"):
        proxy(credentials_file=str(tmp_path / "missing"))


def test_programs_get_the_list_in_forms_that_go_reads() -> None:
    found = proxy("[fd00::1], *.example.org, 10.1.2.3/8, [fd00::2]:8080, 10.1.2.3:80, Example.com:443").environment()
    assert found["HTTPS_PROXY"] == found["http_proxy"] == URL
    assert found["NO_PROXY"] == found["no_proxy"]
    assert found["NO_PROXY"].split(",") == [
        *("localhost", "127.0.0.1", "127.0.0.0/8", "::1", "[::1]"),
        *("fd00::1", ".example.org", "10.0.0.0/8", "[fd00::2]:8080", "10.1.2.3:80", "example.com:443"),
    ]


@pytest.mark.parametrize(
    ("answer", "message", "retryable"),
    [
        ("407 Proxy Authentication Required", "asks for credentials (407)", False),
        ("401 Unauthorized", "asks for credentials (401)", False),
        ("403 Filtered", "refuses api.example:443 (403 Filtered)", False),
        ("429 Too Many Requests", "refuses api.example:443 (429 Too Many Requests)", True),
        ("503 Service\x1b Unavailable", "can't connect to api.example:443 (503 Service  Unavailable)", True),
        ("nonsense", "can't connect to api.example:443 (nonsense)", True),
    ],
)
def test_what_the_proxy_answers_says_who_can_help(answer: str, message: str, retryable: bool) -> None:
    failed = proxy().refused("api.example:443", answer)
    assert message in failed.messages[0]
    assert failed.retryable is retryable
    assert "outgoing_" in failed.messages[1]
