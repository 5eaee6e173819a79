"""Connections are opened in few places, and each keeps the address rules or has an address of the operator's."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "launchbay"
OPENS = re.compile(
    r"httpx\.(AsyncClient|Client|AsyncHTTPTransport|HTTPTransport|get|post|put|request|stream)\b"
    r"|requests\.(get|post|put|delete|head|request|Session)\b|urlopen|open_connection|open_unix_connection"
    r"|create_connection|sock_connect|\.connect_tcp\(|asyncssh\.connect\b|asyncssh\.create_connection"
    r"|smtplib\.SMTP(_SSL)?\(|http\.client\.HTTPS?Connection"
)
# Who may, and what keeps the rules there.
WAYS = {
    "egress/transport.py": "dials the addresses that it has judged",
    "egress/mail.py": "the operator's mail server",
    "machines/ssh.py": "addresses that `Parts.reach` has judged",
    "machines/clouds/ec2.py": "addresses that `Parts.reach` has judged",
    "machines/containers/engine_api.py": "the socket that the operator named",
}
# Programs of users, which talk to a server, and none of whose code runs in one.
CLIENTS = ("client/", "cli/", "demo/")


def test_only_these_files_open_connections() -> None:
    opening = {
        name
        for path in SOURCE.rglob("*.py")
        if OPENS.search(path.read_text("utf-8")) and not (name := str(path.relative_to(SOURCE))).startswith(CLIENTS)
    }
    assert opening == set(WAYS)
