"""One frozen `Settings`: `LAUNCHBAY_*` variables over a TOML file over the defaults (conformance.md, "Running it")."""

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_PROGRAMS = ("ansible", "helm", "opentofu")
_RATES = ("rate_limit_address_per_s", "rate_limit_user_per_s", "rate_limit_burst_s")
_DAYS = ("retention_days", "history_retention_days", "log_retention_days", "audit_retention_days")


class SettingError(ValueError):
    """A setting has an invalid value; the message names the setting and its valid values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. Field `name` is the variable `LAUNCHBAY_NAME` and `name` in the file."""

    host: str = "127.0.0.1"
    port: int = 8080
    data_dir: Path = Path("data")
    database_url: str = ""
    base_url: str = ""
    admin_email: str = "admin@launchbay.local"
    admin_password: str = ""
    organization: str = "Default"
    outgoing_allow: str = ""
    secret_key_file: str = ""
    session_lifetime_s: int = 36_000
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: str = field(default="", repr=False)
    oidc_scopes: str = "openid,email,profile"
    oidc_name: str = "OpenID"
    oidc_allowed_domains: str = ""
    oidc_organization: str = "Default"
    oidc_new_user_roles: str = ""
    server_programs: str = ""
    smtp_host: str = ""
    smtp_port: int = 587
    smtp_security: str = "starttls"
    smtp_user: str = ""
    smtp_password: str = field(default="", repr=False)
    smtp_sender: str = ""
    smtp_ca_file: str = ""
    rate_limit_address_per_s: int = 5_000
    rate_limit_user_per_s: int = 5_000
    rate_limit_burst_s: float = 2.0
    otlp_endpoint: str = ""
    otlp_service: str = "launchbay"
    metrics_token: str = field(default="", repr=False)
    log_level: str = "info"
    log_format: str = "console"
    engine_concurrency: int = 100
    queue_limit: int = 10_000
    database_connections: int = 20
    heartbeat_interval_s: float = 1.0
    stalled_after_s: float = 4.0
    stop_grace_s: float = 5.0
    stager_interval_ms: int = 100
    step_retry_first_s: float = 1.0
    step_retry_longest_s: float = 30.0
    destroy_timeout_s: float = 1800.0
    retention_days: float = 30.0
    history_retention_days: float = 365.0
    log_retention_days: float = 90.0
    audit_retention_days: float = 0.0
    machines: str = "none"
    local_environments: str = ""
    dry_run_answers: str = ""
    machines_sweep: str = "remove"
    machines_sweep_interval_s: float = 300.0
    machines_sweep_grace_s: float = 1800.0
    container_socket: str = ""
    container_environments: str = ""
    container_networks: str = "bridge"
    container_memory_mb: int = 1024
    container_cpus: float = 1.0

    def __post_init__(self) -> None:
        """Reject values that would fail later."""
        if not 0 <= self.port <= 65535:
            raise SettingError(f"LAUNCHBAY_PORT is {self.port}; a port is 0 to 65535.")
        for name in ("engine_concurrency", "queue_limit", "database_connections", "stager_interval_ms"):
            if getattr(self, name) < 1:
                raise SettingError(f"LAUNCHBAY_{name.upper()} is {getattr(self, name)}; it must be at least 1.")
        for name in ("heartbeat_interval_s", "stalled_after_s", "step_retry_first_s", "destroy_timeout_s"):
            if getattr(self, name) <= 0:
                raise SettingError(f"LAUNCHBAY_{name.upper()} is {getattr(self, name)}; it must be above 0.")
        for name in (*_RATES, *_DAYS):
            if getattr(self, name) < 0:
                raise SettingError(f"LAUNCHBAY_{name.upper()} is {getattr(self, name)}; it must be 0 or more.")
        if self.stalled_after_s < 2 * self.heartbeat_interval_s:
            raise SettingError("LAUNCHBAY_STALLED_AFTER_S must be at least twice LAUNCHBAY_HEARTBEAT_INTERVAL_S.")
        if self.log_format not in {"console", "json"}:
            raise SettingError(f"LAUNCHBAY_LOG_FORMAT is {self.log_format!r}; it is console or json.")
        if "@" not in self.admin_email:
            raise SettingError(f"LAUNCHBAY_ADMIN_EMAIL is {self.admin_email!r}; it must be an e-mail address.")
        if self.oidc_issuer:
            self._check_openid()
        self._check_mail()
        self._check_programs()

    def _check_programs(self) -> None:
        unknown = set(self.programs()) - set(_PROGRAMS)
        if unknown:
            raise SettingError(
                f"LAUNCHBAY_SERVER_PROGRAMS names {', '.join(sorted(unknown))}; it may name {', '.join(_PROGRAMS)}."
            )

    def key_file(self) -> Path:
        """Return the path of the secret key."""
        return Path(self.secret_key_file or self.data_dir / "secret.key")

    def programs(self) -> list[str]:
        """Return the programs that actions can start on this server."""
        return self.server_programs.replace(",", " ").split()

    def _check_mail(self) -> None:
        if not self.smtp_host:
            return
        if self.smtp_security not in {"tls", "starttls", "none"}:
            raise SettingError(f"LAUNCHBAY_SMTP_SECURITY is {self.smtp_security!r}; it is tls, starttls or none.")
        if not 1 <= self.smtp_port <= 65535:
            raise SettingError(f"LAUNCHBAY_SMTP_PORT is {self.smtp_port}; a port is 1 to 65535.")
        if "@" not in self.smtp_sender or not self.smtp_sender.isprintable():
            raise SettingError(f"LAUNCHBAY_SMTP_SENDER is {self.smtp_sender!r}; it must be an e-mail address.")
        if self.smtp_user and self.smtp_security == "none" and self.smtp_host not in {"localhost", "127.0.0.1", "::1"}:
            raise SettingError("LAUNCHBAY_SMTP_SECURITY is 'none'; a password is sent only over tls or starttls.")

    def _check_openid(self) -> None:
        issuer = urlsplit(self.oidc_issuer)
        is_safe = issuer.scheme == "https" or issuer.hostname in {"localhost", "127.0.0.1", "::1"}
        if not is_safe or not issuer.hostname:
            raise SettingError(f"LAUNCHBAY_OIDC_ISSUER is {self.oidc_issuer!r}; it must be an https:// address.")
        for name in ("oidc_client_id", "base_url"):
            if not getattr(self, name):
                raise SettingError(f"LAUNCHBAY_{name.upper()} is empty; a server with LAUNCHBAY_OIDC_ISSUER needs it.")
        if "openid" not in self.oidc_scopes.replace(",", " ").split():
            raise SettingError(f"LAUNCHBAY_OIDC_SCOPES is {self.oidc_scopes!r}; openid must be among them.")


def load(
    environ: Mapping[str, str] | None = None, file: Path | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Read the settings: `overrides` (command line) over `LAUNCHBAY_*` variables over the TOML file over the defaults.

    Raises SettingError for an unknown name in the file, a value of the wrong form, or an unreadable file.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    known = {field.name: field for field in fields(Settings)}
    if file is not None:
        for name, value in _read_file(file).items():
            if name not in known:
                raise SettingError(f"{file}: there is no setting {name!r}. Settings: {', '.join(sorted(known))}.")
            values[name] = value
    for name in known:
        text = environ.get(f"LAUNCHBAY_{name.upper()}")
        if text is not None and text != "":
            values[name] = text
    values.update({name: value for name, value in (overrides or {}).items() if value is not None})
    converted = {}
    for name, value in values.items():
        default = known[name].default
        assert default is not MISSING, "every setting has a default"
        converted[name] = _convert(name, value, Path if isinstance(default, Path) else type(default))
    return Settings(**converted)


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingError(f"The settings file {file} cannot be read: {error}") from error


def _convert(name: str, value: Any, wanted: Callable[[Any], Any]) -> Any:
    try:
        return wanted(value)
    except (TypeError, ValueError) as error:
        kind = "a whole number" if wanted is int else "a number" if wanted is float else "text"
        raise SettingError(f"LAUNCHBAY_{name.upper()} is {value!r}; it takes {kind}.") from error
