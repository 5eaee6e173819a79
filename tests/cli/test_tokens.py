"""`token create`: access tokens with a scope, and refresh tokens as before."""

from pathlib import Path

import pytest

from tests.support.servers import Bay, served
from tests.support.service import EMAIL, PASSWORD
from tests.support.shell import Shell


def test_a_scoped_token_is_created_as_json_and_used(cli: Shell, server: Bay) -> None:
    made = cli.document("token", "create", "--scope", "Read: [/*]", "--name", "build server", "--days", "3")
    assert set(made) == {"id", "token", "name", "scope", "expiresAt"}
    assert (made["name"], made["scope"]) == ("build server", ["Read: [/*]"])
    program = Shell(cli.config, {"LAUNCHBAY_URL": server.url, "LAUNCHBAY_TOKEN": made["token"]})
    assert program.document("organization", "list")[0]["id"] == server.organization
    assert "ManageUsers" in program.bad(5, "user", "create", "X", "--email", "x@example.org")
    listed = cli.document("access-token", "list")
    assert made["id"] in {row["id"] for row in listed}
    assert made["token"] not in str(listed)
    cli.good("access-token", "revoke", made["id"])
    program.bad(4, "organization", "list")


def test_a_service_account_is_named_as_the_owner(cli: Shell) -> None:
    account = cli.document("service-account", "create", "Deployment", "--roles", "Guest")
    token = cli.good("token", "create", "--owner", "Deployment").strip()
    assert token.startswith("lbt_")
    [row] = [row for row in cli.document("access-token", "list") if row["owner"]["id"] == account["id"]]
    assert row["owner"]["isServiceAccount"] is True


@pytest.mark.slow
def test_an_email_address_still_makes_a_refresh_token(tmp_path: Path) -> None:
    # A server of its own: the other tests here use up how many refresh tokens an account gets in an hour.
    with served() as bay:
        _check_refresh_token(Shell.of(bay, tmp_path / "config"))


def _check_refresh_token(cli: Shell) -> None:
    made = cli.good("token", "create", "--email", EMAIL, "--password", PASSWORD, "--label", "by hand")
    assert made.startswith("lbr_")
    cli.bad(2, "token", "create", "--email", EMAIL, "--password", PASSWORD, "--scope", "Read: [/*]")
