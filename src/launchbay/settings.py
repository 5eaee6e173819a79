"""One frozen `Settings`: `LAUNCHBAY_*` variables over a TOML file over the defaults (conformance.md, "Running it")."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from httpx import URL, InvalidURL
from msgspec import Meta, ValidationError, convert

from launchbay.errors import CannotStart

_SIGNALS = ("traces", "metrics", "logs")
_PROGRAMS = ("ansible", "git", "helm", "opentofu")
_LOCAL = ("localhost", "127.0.0.1", "::1")
SERVER_ADMINISTRATORS = "server-administrators"  # who holds the role Administrator in the first organization
USER_MANAGERS = "user-managers"  # who manages all users of an organization
_USER_ID = re.compile("[0-9a-f]{24}")
_DISPATCH_URL = re.compile(r"(nats|tls)://([^@/\s]+@)?[A-Za-z0-9._\[\]:-]+(,[A-Za-z0-9._\[\]:-]+)*")
_PATH_PREFIX = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*/?")
# The first segments of this server's own paths. A proxy that takes `/docs` off would leave a path that begins with it.
OWN_SEGMENTS = ("api", "console", "docs", "health", "invitation", "mcp", "metrics", "refreshToken", "signIn")
_HOST_NAME = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")

# The upper bounds keep times and sizes in the range of the database and of the clock; NaN and infinity are outside.
Count = Annotated[int, Meta(ge=1, le=1_000_000, description="a whole number, 1 to 1000000")]
Rate = Annotated[int, Meta(ge=0, le=1_000_000_000, description="a whole number, 0 to 1000000000")]
Amount = Annotated[float, Meta(ge=0, le=1_000_000, description="a number, 0 to 1000000")]
_LEAST_WAL_MIB = 32  # two segments, below which PostgreSQL doesn't start
Mebibytes = Annotated[int, Meta(ge=0, le=1_048_576, description="a whole number of MiB, 0 to 1048576")]
Duration = Annotated[float, Meta(gt=0, le=1_000_000, description="a number above 0, at most 1000000")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. Field `name` is the variable `LAUNCHBAY_NAME` and `name` in the file. Raises CannotStart."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="a port, 0 to 65535")] = 8080
    processes: Annotated[int, Meta(ge=1, le=256, description="a whole number, 1 to 256")] = 1
    data_dir: Path = Path("data")
    database_url: str = field(default="", repr=False)
    database_direct_url: str = field(default="", repr=False)
    dispatch_url: str = field(default="", repr=False)
    dispatch_stream: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z", description="letters, digits, - and _, at most 64")
    ] = "launchbay"
    dispatch_replicas: Annotated[int, Meta(ge=1, le=5, description="a whole number, 1 to 5")] = 1
    base_url: str = ""
    allowed_hosts: str = ""
    trusted_proxies: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    admin_email: Annotated[str, Meta(pattern="@", description="an email address")] = "admin@launchbay.local"
    admin_password: str = field(default="", repr=False)
    organization: str = "Default"
    organization_creators: str = SERVER_ADMINISTRATORS
    outgoing_allow: str = ""
    outgoing_proxy: str = ""
    outgoing_proxy_credentials_file: str = ""
    outgoing_no_proxy: str = ""
    secret_key_file: str = ""
    secret_directories: str = ""
    secret_variables: str = ""
    kubernetes_tokens: str = ""
    session_lifetime_s: Annotated[
        int, Meta(ge=1, le=315_360_000, description="a whole number, 1 to 315360000 (ten years)")
    ] = 36_000
    session_idle_s: Duration = 28_800.0
    given_password_days: Amount = 7.0
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: str = field(default="", repr=False)
    oidc_scopes: str = "openid,email,profile"
    oidc_name: str = "OpenID"
    oidc_allowed_domains: str = ""
    oidc_organization: str = "Default"
    oidc_new_user_roles: str = ""
    oidc_groups_claim: str = ""
    server_programs: str = ""
    smtp_host: str = ""
    smtp_port: Annotated[int, Meta(ge=1, le=65535, description="a port, 1 to 65535")] = 587
    smtp_security: Literal["tls", "starttls", "none"] = "starttls"
    smtp_user: str = ""
    smtp_password: str = field(default="", repr=False)
    smtp_sender: str = ""
    smtp_ca_file: str = ""
    connections: Rate = 0
    connections_per_address: Rate = 0
    rate_limit_address_per_s: Rate = 5_000
    rate_limit_user_per_s: Rate = 5_000
    rate_limit_burst_s: Amount = 2.0
    otlp_endpoint: str = ""
    otlp_service: str = "launchbay"
    otlp_signals: str = "traces"
    otlp_interval_s: Duration = 60.0
    metrics_token: str = field(default="", repr=False)
    metrics_applications: str = ""
    metrics_environments: str = ""
    metrics_labels: str = ""
    log_level: Annotated[
        str, Meta(pattern=r"(?i)^(debug|info|warn(ing)?|error|critical)\Z", description="debug, info, warning or error")
    ] = "info"
    log_format: Literal["console", "json"] = "console"
    engine_concurrency: Count = 100
    queue_limit: Count = 10_000
    manifest_kib: Annotated[int, Meta(ge=512, le=16_384, description="a whole number, 512 to 16384")] = 512
    manifest_values: Annotated[int, Meta(ge=100_000, le=2_000_000, description="a whole number, 100000 to 2000000")] = (
        100_000
    )
    manifest_expressions: Annotated[
        int, Meta(ge=50_000, le=1_000_000, description="a whole number, 50000 to 1000000")
    ] = 50_000
    manifest_bound_pins: Annotated[
        int, Meta(ge=20_000, le=1_000_000, description="a whole number, 20000 to 1000000")
    ] = 20_000
    expression_memory_mib: Annotated[int, Meta(ge=16, le=4_096, description="a whole number, 16 to 4096")] = 64
    quota_organizations: Rate = 100
    quota_applications: Rate = 10_000
    quota_instances: Rate = 200_000
    quota_jobs: Rate = 100_000
    quota_waiting_jobs: Rate = 100_000
    quota_schedules: Rate = 200_000
    quota_webhooks: Rate = 50
    quota_access_tokens: Rate = 5_000
    quota_manifests_mib: Rate = 4_096
    quota_logs_mib: Rate = 102_400
    quota_journals_mib: Rate = 102_400
    quota_event_streams: Rate = 800
    quota_requests_per_s: Rate = 5_000
    database_connections: Annotated[int, Meta(ge=1, le=10_000, description="a whole number, 1 to 10000")] = 10
    postgres_memory_mib: Mebibytes = 0
    postgres_shared_buffers_mib: Mebibytes = 0
    postgres_effective_cache_size_mib: Mebibytes = 0
    postgres_work_mem_mib: Mebibytes = 0
    postgres_maintenance_work_mem_mib: Mebibytes = 0
    postgres_max_wal_size_mib: Mebibytes = 0
    heartbeat_interval_s: Duration = 1.0
    stalled_after_s: Duration = 4.0
    stop_grace_s: Amount = 5.0
    park_after_s: Duration = 5.0
    stager_interval_ms: Count = 200
    step_retry_first_s: Duration = 1.0
    step_retry_longest_s: Duration = 30.0
    destroy_timeout_s: Duration = 1800.0
    retention_days: Amount = 30.0
    history_retention_days: Amount = 365.0
    log_retention_days: Amount = 90.0
    audit_retention_days: Amount = 0.0
    machines: str = "none"
    local_environments: str = ""
    dry_run_answers: str = ""
    machines_sweep: Literal["remove", "report", "off"] = "remove"
    machines_sweep_interval_s: Duration = 300.0
    machines_sweep_grace_s: Amount = 1800.0
    container_socket: str = ""
    container_environments: str = ""
    container_networks: str = "bridge"
    container_memory_mb: Count = 1024
    container_cpus: Duration = 1.0

    def __post_init__(self) -> None:
        """Convert each value to its field's type, and reject what would fail later."""
        for name, kind in get_type_hints(Settings, include_extras=True).items():
            object.__setattr__(self, name, _converted(name, getattr(self, name), kind))
        if self.stalled_after_s < 2 * self.heartbeat_interval_s:
            raise CannotStart("LAUNCHBAY_STALLED_AFTER_S must be at least twice LAUNCHBAY_HEARTBEAT_INTERVAL_S.")
        if unknown := sorted(set(self.programs()) - set(_PROGRAMS)):
            raise CannotStart(
                f"LAUNCHBAY_SERVER_PROGRAMS names {', '.join(unknown)}; it may name {', '.join(_PROGRAMS)}."
            )
        if unknown := sorted(self.signals() - set(_SIGNALS)):
            raise CannotStart(f"LAUNCHBAY_OTLP_SIGNALS names {', '.join(unknown)}; it may name {', '.join(_SIGNALS)}.")
        for each in sorted(self.creators() - {SERVER_ADMINISTRATORS, USER_MANAGERS}):
            if not _USER_ID.fullmatch(each):
                raise CannotStart(
                    f"LAUNCHBAY_ORGANIZATION_CREATORS names {each!r}; it may name {SERVER_ADMINISTRATORS},"
                    f" {USER_MANAGERS} and IDs of users."
                )
        self._check_database()
        if self.dispatch_url and not _DISPATCH_URL.fullmatch(self.dispatch_url):
            raise CannotStart(
                "LAUNCHBAY_DISPATCH_URL must be the address of a NATS server, such as nats://nats.example.org:4222, or"
                " tls://one.example.org,two.example.org for several."
            )
        self._check_addresses()
        if self.base_url:
            object.__setattr__(self, "base_url", _normalized(self.base_url))
        if self.oidc_issuer:
            self._check_openid()
        if self.smtp_host:
            self._check_mail()

    def key_file(self) -> Path:
        """Return the path of the secret key."""
        return Path(self.secret_key_file or self.data_dir / "secret.key")

    def own_files(self) -> list[Path]:
        """Return the files with secrets of the server itself."""
        return [self.key_file(), *map(Path, filter(None, (self.tls_key, self.outgoing_proxy_credentials_file)))]

    def direct_url(self) -> str:
        """Return the URL of PostgreSQL itself; empty for the embedded one."""
        return self.database_direct_url or self.database_url

    def accepted_hosts(self) -> frozenset[str] | None:
        """Return the names that a request's Host can have, or None for every name.

        With a base URL, responses have no links to the Host, and a proxy may send its own name for this server.
        """
        if self.base_url and not self.allowed_hosts:
            return None
        listed = self.allowed_hosts.replace(",", " ").lower().split()
        own = (self.host.lower(), (urlsplit(self.base_url).hostname or "") if self.base_url else "")
        return frozenset({*listed, *own} - {"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound

    def proxy_networks(self) -> list[IPv4Network | IPv6Network]:
        """Return the networks of the proxies whose headers about clients are believed."""
        networks = []
        for text in self.trusted_proxies.replace(",", " ").split():
            try:
                networks.append(ip_network(text))
            except ValueError as error:
                raise CannotStart(
                    f"LAUNCHBAY_TRUSTED_PROXIES names {text!r}; it may have addresses and networks like 10.0.0.0/24."
                ) from error
        return networks

    def programs(self) -> list[str]:
        """Return the programs that actions can start on this server."""
        return self.server_programs.replace(",", " ").split()

    def creators(self) -> frozenset[str]:
        """Return who may create organizations: the words above, and IDs of users."""
        return frozenset(self.organization_creators.replace(",", " ").lower().split())

    def signals(self) -> set[str]:
        """Return what is sent to the OpenTelemetry collector; nothing without one."""
        return set(self.otlp_signals.replace(",", " ").split()) if self.otlp_endpoint else set()

    def is_secure(self) -> bool:
        """Whether clients reach this server only through TLS."""
        return self.base_url.startswith("https://") if self.base_url else bool(self.tls_certificate)

    def _check_addresses(self) -> None:
        for given, missing in (("tls_certificate", "tls_key"), ("tls_key", "tls_certificate")):
            if getattr(self, given) and not getattr(self, missing):
                raise CannotStart(f"LAUNCHBAY_{missing.upper()} is empty; LAUNCHBAY_{given.upper()} needs it.")
        if self.base_url and not _is_base_url(self.base_url):
            raise CannotStart(f"LAUNCHBAY_BASE_URL is {self.base_url!r}; it must be an http:// or https:// address.")
        self._check_path_prefix(urlsplit(self.base_url).path)
        for name in self.allowed_hosts.replace(",", " ").split():
            if not _HOST_NAME.fullmatch(name):
                raise CannotStart(
                    f"LAUNCHBAY_ALLOWED_HOSTS names {name!r}; it may have names like bay.example.org and addresses,"
                    " without a port."
                )
        self.proxy_networks()

    def _check_path_prefix(self, path: str) -> None:
        if not _PATH_PREFIX.fullmatch(path):
            raise CannotStart(
                f"LAUNCHBAY_BASE_URL is {self.base_url!r}; its path may have letters, digits, '.', '_' and '-'."
            )
        if path.split("/")[1:2] and path.split("/")[1] in OWN_SEGMENTS:
            raise CannotStart(
                f"LAUNCHBAY_BASE_URL is {self.base_url!r}; its path can't begin with one of the server's own, such as"
                " /console. Choose another one, such as /launchbay."
            )

    def _check_database(self) -> None:
        if 0 < self.postgres_max_wal_size_mib < _LEAST_WAL_MIB:
            raise CannotStart(f"LAUNCHBAY_POSTGRES_MAX_WAL_SIZE_MIB must be 0, or at least {_LEAST_WAL_MIB}.")
        if self.database_direct_url and not self.database_url:
            raise CannotStart("LAUNCHBAY_DATABASE_URL is empty; LAUNCHBAY_DATABASE_DIRECT_URL needs it.")

    def _check_mail(self) -> None:
        if "@" not in self.smtp_sender or not self.smtp_sender.isprintable():
            raise CannotStart(f"LAUNCHBAY_SMTP_SENDER is {self.smtp_sender!r}; it must be an email address.")
        if self.smtp_user and self.smtp_security == "none" and self.smtp_host not in _LOCAL:
            raise CannotStart("LAUNCHBAY_SMTP_SECURITY is 'none'; a password is sent only over tls or starttls.")

    def _check_openid(self) -> None:
        if not _is_secure_url(self.oidc_issuer):
            raise CannotStart(f"LAUNCHBAY_OIDC_ISSUER is {self.oidc_issuer!r}; it must be an https:// address.")
        for name in ("oidc_client_id", "base_url"):
            if not getattr(self, name):
                raise CannotStart(f"LAUNCHBAY_{name.upper()} is empty; a server with LAUNCHBAY_OIDC_ISSUER needs it.")
        if "openid" not in self.oidc_scopes.replace(",", " ").split():
            raise CannotStart(f"LAUNCHBAY_OIDC_SCOPES is {self.oidc_scopes!r}; openid must be among them.")


def _is_secure_url(url: str) -> bool:
    """Return whether this is an https:// address, or an http:// one of this machine."""
    try:
        parts = urlsplit(url)
        has_valid_port = parts.port is None or parts.port > 0
    except ValueError:  # an open bracket, or a port above 65535
        return False
    if not has_valid_port or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)


_FIELDS = {each.name: each for each in fields(Settings)}


def load(
    environ: Mapping[str, str] | None = None, file: Path | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Read the settings: `overrides` (command line) over `LAUNCHBAY_*` variables over the TOML file over the defaults.

    Raises CannotStart for an unknown name in the file, an invalid value, or an unreadable file.
    """
    environ = os.environ if environ is None else environ
    values = {} if file is None else _read_file(file)
    if unknown := values.keys() - _FIELDS.keys():
        raise CannotStart(f"{file}: there is no setting {min(unknown)!r}. Settings: {', '.join(sorted(_FIELDS))}.")
    others = {name: text for name in _FIELDS if (text := environ.get(f"LAUNCHBAY_{name.upper()}"))}
    others |= {name: value for name, value in (overrides or {}).items() if value is not None}
    try:
        return Settings(**values | others)
    except CannotStart as error:
        written = {f"LAUNCHBAY_{name.upper()}": f"{file}: {name}" for name in values.keys() - others.keys()}
        messages = (
            re.sub(r"^LAUNCHBAY_\w+", lambda found: written.get(found[0], found[0]), each) for each in error.messages
        )
        raise CannotStart(*messages) from error


def _is_base_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _normalized(url: str) -> str:
    """Return an address as browsers send it.

    That is lower case, without the default port, and the host in ASCII. Passkeys and the origins of forms are compared
    with it.
    """
    parts = urlsplit(url)
    try:
        found, port = URL(parts._replace(scheme=parts.scheme.lower()).geturl()), parts.port
    except (InvalidURL, ValueError) as error:
        raise CannotStart(f"LAUNCHBAY_BASE_URL is {url!r}, which isn't an address: {error}.") from None
    if port == 0 or "%" in found.host:
        raise CannotStart(f"LAUNCHBAY_BASE_URL is {url!r}; there can't be such a host or port.")
    return f"{found.scheme}://{found.netloc.decode('ascii')}{parts.path}"


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CannotStart(f"The settings file {file} cannot be read: {error}") from error


def _converted(name: str, value: Any, kind: Any) -> Any:
    """Return the value in the field's type; also a number for text, and `5_000` or blanks around a number."""
    if isinstance(_FIELDS[name].default, str | Path):
        value = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    elif isinstance(value, str):
        value = value.strip().replace("_", "")
    try:
        return convert(value, kind, strict=False, dec_hook=lambda wanted, given: wanted(given))
    except ValidationError:
        found = f"is {value!r}" if _FIELDS[name].repr else "has the wrong form"
        raise CannotStart(f"LAUNCHBAY_{name.upper()} {found}; it must be {_valid(kind)}.") from None


def _valid(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    bounds = getattr(kind, "__metadata__", None)
    return bounds[0].description if bounds else {int: "a whole number", float: "a number"}.get(kind, "text")
