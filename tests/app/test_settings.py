"""Settings take what operators write, and a wrong value gets one sentence with its name and what is valid."""

from pathlib import Path
from typing import Any

import pytest

from launchbay.errors import CannotStart
from launchbay.settings import Settings, load


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("port", "8443", 8443),
        ("port", " 8443 ", 8443),
        ("queue_limit", "5_000", 5000),
        ("retention_days", "0.5", 0.5),
        ("retention_days", "3", 3.0),
        ("data_dir", "/srv/data", Path("/srv/data")),
        ("smtp_password", "007", "007"),
        ("log_level", "WARNING", "WARNING"),
        ("host", "", "127.0.0.1"),
    ],
)
def test_a_variable_is_converted_to_the_type_of_its_setting(name: str, text: str, value: object) -> None:
    converted = getattr(load({f"LAUNCHBAY_{name.upper()}": text}), name)
    assert (converted, type(converted)) == (value, type(value))


def test_a_variable_is_over_the_file_and_an_option_over_both(tmp_path: Path) -> None:
    file = tmp_path / "launchbay.toml"
    file.write_text('host = "a"\nport = 1\nrate_limit_burst_s = 3\nsmtp_password = 12345\n')
    settings = load({"LAUNCHBAY_HOST": "b", "LAUNCHBAY_PORT": "2"}, file, {"host": "c", "port": None})
    assert (settings.host, settings.port) == ("c", 2)
    assert (settings.rate_limit_burst_s, settings.smtp_password) == (3.0, "12345")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"port": "http"}, "LAUNCHBAY_PORT is 'http'; it must be a port, 0 to 65535."),
        ({"port": 65536}, "LAUNCHBAY_PORT is 65536; it must be a port, 0 to 65535."),
        ({"smtp_port": 0}, "LAUNCHBAY_SMTP_PORT is 0; it must be a port, 1 to 65535."),
        (
            {"session_lifetime_s": "1h"},
            "LAUNCHBAY_SESSION_LIFETIME_S is '1h'; it must be a whole number, 1 to 315360000 (ten years).",
        ),
        ({"stop_grace_s": "long"}, "LAUNCHBAY_STOP_GRACE_S is 'long'; it must be a number, 0 to 1000000."),
        ({"engine_concurrency": 0}, "LAUNCHBAY_ENGINE_CONCURRENCY is 0; it must be a whole number, 1 to 1000000."),
        (
            {"rate_limit_user_per_s": -1},
            "LAUNCHBAY_RATE_LIMIT_USER_PER_S is -1; it must be a whole number, 0 to 1000000000.",
        ),
        ({"log_retention_days": -1}, "LAUNCHBAY_LOG_RETENTION_DAYS is -1; it must be a number, 0 to 1000000."),
        ({"log_retention_days": "nan"}, "LAUNCHBAY_LOG_RETENTION_DAYS is 'nan'; it must be a number, 0 to 1000000."),
        ({"destroy_timeout_s": 0}, "LAUNCHBAY_DESTROY_TIMEOUT_S is 0; it must be a number above 0, at most 1000000."),
        ({"stalled_after_s": 1}, "LAUNCHBAY_STALLED_AFTER_S must be at least twice LAUNCHBAY_HEARTBEAT_INTERVAL_S."),
        ({"log_format": "xml"}, "LAUNCHBAY_LOG_FORMAT is 'xml'; it must be console or json."),
        ({"smtp_security": "ssl"}, "LAUNCHBAY_SMTP_SECURITY is 'ssl'; it must be tls or starttls or none."),
        ({"admin_email": "root"}, "LAUNCHBAY_ADMIN_EMAIL is 'root'; it must be an email address."),
        ({"smtp_host": "mail", "smtp_sender": ""}, "LAUNCHBAY_SMTP_SENDER is ''; it must be an email address."),
        (
            {"server_programs": "helm, sh"},
            "LAUNCHBAY_SERVER_PROGRAMS names sh; it may name ansible, git, helm, opentofu.",
        ),
        ({"organization": ["A"]}, "LAUNCHBAY_ORGANIZATION is ['A']; it must be text."),
        ({"stop_grace_s": "nan"}, "LAUNCHBAY_STOP_GRACE_S is 'nan'; it must be a number, 0 to 1000000."),
        ({"stop_grace_s": "inf"}, "LAUNCHBAY_STOP_GRACE_S is 'inf'; it must be a number, 0 to 1000000."),
        ({"stop_grace_s": -5}, "LAUNCHBAY_STOP_GRACE_S is -5; it must be a number, 0 to 1000000."),
        (
            {"session_lifetime_s": -1},
            "LAUNCHBAY_SESSION_LIFETIME_S is -1; it must be a whole number, 1 to 315360000 (ten years).",
        ),
        (
            {"session_lifetime_s": "9" * 20},
            f"LAUNCHBAY_SESSION_LIFETIME_S is '{'9' * 20}'; it must be a whole number, 1 to 315360000 (ten years).",
        ),
        ({"log_level": "foo"}, "LAUNCHBAY_LOG_LEVEL is 'foo'; it must be debug, info, warning or error."),
        (
            {"database_connections": 1_000_000_000},
            "LAUNCHBAY_DATABASE_CONNECTIONS is 1000000000; it must be a whole number, 1 to 10000.",
        ),
        ({"container_memory_mb": -3}, "LAUNCHBAY_CONTAINER_MEMORY_MB is -3; it must be a whole number, 1 to 1000000."),
        ({"oidc_client_secret": True}, "LAUNCHBAY_OIDC_CLIENT_SECRET has the wrong form; it must be text."),
        ({"oidc_issuer": "https://[x"}, "LAUNCHBAY_OIDC_ISSUER is 'https://[x'; it must be an https:// address."),
        (
            {"oidc_issuer": "https://id.example:99999"},
            "LAUNCHBAY_OIDC_ISSUER is 'https://id.example:99999'; it must be an https:// address.",
        ),
        ({"smtp_password": ["hunter2"]}, "LAUNCHBAY_SMTP_PASSWORD has the wrong form; it must be text."),
    ],
)
def test_a_wrong_value_is_named_with_what_is_valid(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CannotStart) as loaded:
        load({}, overrides=given)
    with pytest.raises(CannotStart) as constructed:
        Settings(**given)
    assert (str(loaded.value), str(constructed.value)) == (sentence, sentence)


def test_creators_of_organizations_are_words_and_ids() -> None:
    text = "User-Managers, 6b00261c4ba4eb76fa93ae77"
    assert Settings(organization_creators=text).creators() == {"user-managers", "6b00261c4ba4eb76fa93ae77"}
    assert Settings().creators() == {"server-administrators"}
    with pytest.raises(CannotStart, match="it may name server-administrators, user-managers and IDs"):
        Settings(organization_creators="server-administrators, ann@example.org")


def test_a_wrong_value_in_a_file_is_named_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "launchbay.toml"
    file.write_text("port = 99999\n")
    with pytest.raises(CannotStart) as caught:
        load({}, file)
    assert str(caught.value) == f"{file}: port is 99999; it must be a port, 0 to 65535."
    with pytest.raises(CannotStart, match=r"^LAUNCHBAY_PORT is '99998'; "):
        load({"LAUNCHBAY_PORT": "99998"}, file)


@pytest.mark.parametrize(
    ("text", "part"),
    [("prot = 1\n", "there is no setting 'prot'"), ("port 1\n", "cannot be read"), (None, "No such file")],
)
def test_a_file_that_cannot_be_used_is_named(text: str | None, part: str, tmp_path: Path) -> None:
    file = tmp_path / "launchbay.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CannotStart, match=part) as caught:
        load({}, file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    "name", ["admin_password", "database_url", "metrics_token", "oidc_client_secret", "smtp_password"]
)
def test_no_secret_is_shown_with_the_settings(name: str) -> None:
    assert "hunter2" not in repr(load({f"LAUNCHBAY_{name.upper()}": "hunter2"}))


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("HTTPS://Bay.Example.ORG:443", "https://bay.example.org"),
        ("http://bay.example.org:80/launchbay/", "http://bay.example.org/launchbay/"),
        ("https://bay.example.org:8443", "https://bay.example.org:8443"),
        ("https://b\u00fccher.example", "https://xn--bcher-kva.example"),
        ("https://fa\u00df.example", "https://xn--fa-hia.example"),
        ("http://[::1]:80", "http://[::1]"),
    ],
)
def test_the_base_url_is_spelled_as_browsers_do(written: str, sent: str) -> None:
    settings = Settings(base_url=written)
    assert settings.base_url == sent
    assert settings.is_secure() is sent.startswith("https")


@pytest.mark.parametrize("written", ["https://a b", "https://x:0", "https://x:99999", "https://\u2a74.example"])
def test_a_base_url_that_no_browser_takes_stops_the_start(written: str) -> None:
    with pytest.raises(CannotStart, match="LAUNCHBAY_BASE_URL"):
        Settings(base_url=written)


def test_a_log_of_changes_that_is_too_small_for_postgresql_is_refused() -> None:
    assert Settings(postgres_max_wal_size_mib=32).postgres_max_wal_size_mib == 32
    with pytest.raises(CannotStart, match=r"LAUNCHBAY_POSTGRES_MAX_WAL_SIZE_MIB must be 0, or at least 32\."):
        Settings(postgres_max_wal_size_mib=31)
