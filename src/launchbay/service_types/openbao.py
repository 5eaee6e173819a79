"""OpenBao and Vault as a provider of secrets: KV 2, leases, and certificates.

A session is a client token of the server. Revoking it also revokes every lease that it got, such as accounts of
databases (decision 0196).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote

import msgspec

from launchbay.egress.http import EgressClient
from launchbay.errors import EgressFailed
from launchbay.limits import SECRET_LEASE_S, SECRET_RESPONSE_BYTES, SECRET_TIMEOUT_S
from launchbay.model.types import STRING, ListType
from launchbay.service_types.builtin import address_problems
from launchbay.service_types.contract import (
    FieldMessages,
    ParameterScope,
    PassiveServiceType,
    PathAccess,
    ProvidedSecret,
    Renewed,
    SecretCall,
    SecretFailed,
    SecretProblem,
    ServiceParameter,
    SignedIn,
)
from launchbay.service_types.server_secrets import PodTokens

_ADDRESS = "configuration.address"
_NAMESPACE = "configuration.namespace"
_METHOD = "configuration.sign-in"
_MOUNT = "configuration.sign-in-mount"
_ROLE = "configuration.role"
_AUDIENCE = "configuration.audience"
_ROLE_ID = "configuration.role-id"
_SECRET_ID = "configuration.secret-id"  # noqa: S105 - the name of a parameter
_KV = "configuration.kv-mounts"
_KUBERNETES = "kubernetes"
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "jwt": (_ROLE,),
    "approle": (_ROLE_ID, _SECRET_ID),
    _KUBERNETES: (_ROLE,),
}
_SIGN_IN_FIXES = {
    "jwt": "Compare its role with the claims of the job.",
    "approle": "Compare the role ID and the secret ID with the role.",
    _KUBERNETES: "Compare the service accounts, namespaces and audience of the role with the pod of the server, and let"
    " the provider ask for TokenReviews.",
}
_CAPABILITIES = "sys/capabilities-self"
_READS = frozenset(("read", "root"))
_WRITES = frozenset(("create", "update", "patch", "delete", "sudo", "root"))
_MAKES = frozenset(("update", "root"))  # what a POST to an engine needs, also if it makes something
_MAKING = re.compile(r"/(sign|sign-verbatim|issue)/[^/]+$")  # paths of SSH and PKI, which take parameters
_ISSUING = re.compile(r"/issue/[^/]+$")
_GIVING = re.compile(r"/(creds|static-creds)/[^/]+$")  # paths of databases, where nothing can be written
_PARAMETERS_CHARS = 8_000
_KEY_TO_SIGN = "public_key"  # the parameter that asks for a certificate of SSH
_SEGMENT = re.compile(r"(?!\.{1,2}$)[^\x00-\x20\x7f/]+")


class _Session(msgspec.Struct, frozen=True):
    """What reaches the server after the sign-in, also when the service has been deleted."""

    name: str
    address: str
    namespace: str
    token: str
    kv: list[str] = []
    renewable: bool = True


class OpenBao(PassiveServiceType):
    """Signs in, reads, renews and revokes; implements `LeasingProvider`."""

    id = "builtin:openbao"
    name = "OpenBao or Vault"
    parameters: Mapping[str, ServiceParameter] = {
        _ADDRESS: ServiceParameter(
            STRING, "The URL, such as https://vault.example.org:8200.", required=True, takes_tokens=True
        ),
        _METHOD: ServiceParameter(
            STRING,
            "jwt, with the identity of the job, approle, or kubernetes, with that of the server. Default: jwt.",
            choices=tuple(_NEEDED),
        ),
        _ROLE: ServiceParameter(STRING, "The role for jwt or kubernetes."),
        _AUDIENCE: ServiceParameter(STRING, "The audience for jwt, one of the environment's. Default: vault."),
        _ROLE_ID: ServiceParameter(STRING, "The role ID for approle."),
        _SECRET_ID: ServiceParameter(STRING, "The secret ID for approle.", secret=True, goes_to=_ADDRESS),
        _MOUNT: ServiceParameter(STRING, "Where the sign-in is mounted. Default: its name."),
        _NAMESPACE: ServiceParameter(STRING, "The namespace."),
        _KV: ServiceParameter(ListType(STRING), "The mounts of KV version 2. Default: secret."),
    }

    def __init__(self, pod_tokens: PodTokens | None = None) -> None:
        self._pod_tokens = pod_tokens or PodTokens()

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:
        """Check the URL, and what the sign-in needs."""
        problems: dict[str, list[str]] = {}
        if wrong := address_problems(scope, _ADDRESS, parameters[_ADDRESS], "https://vault.example.org:8200"):
            problems[_ADDRESS] = wrong
        method = parameters.get(_METHOD) or "jwt"
        if method not in _NEEDED:
            problems[_METHOD] = [f"This must be {', '.join(_NEEDED)}."]
        for name in _NEEDED.get(method, ()):
            if not parameters.get(name):
                problems[name] = [f"Sign-in by {method} requires this."]
        for name in (_MOUNT, _KV):
            given = parameters.get(name) or []
            if not all(map(_is_path, [given] if isinstance(given, str) else given)):
                problems[name] = ["A mount is a path without spaces, such as secret or teams/shop."]
        return problems

    async def sign_in(self, call: SecretCall) -> SignedIn:
        """Sign in for a job. Raises SecretFailed."""
        given = call.parameters
        method = given.get(_METHOD) or "jwt"
        session = _Session(
            call.name,
            given[_ADDRESS].rstrip("/"),
            given.get(_NAMESPACE) or "",
            "",
            [mount.strip("/") for mount in given.get(_KV) or ["secret"]],
        )
        if method == "jwt":
            body = {"role": given[_ROLE], "jwt": await call.token(given.get(_AUDIENCE) or "vault")}
        elif method == _KUBERNETES:
            body = {"role": given[_ROLE], "jwt": await self._pod_tokens.read(call, session.address)}
        else:
            body = {"role_id": given[_ROLE_ID], "secret_id": given[_SECRET_ID]}
        path = f"auth/{(given.get(_MOUNT) or method).strip('/')}/login"
        auth = _map((await _ask(call.egress, session, "POST", path, body, signs_in=method)).get("auth"))
        token = auth.get("client_token")
        if not isinstance(token, str) or not token:
            raise SecretFailed(
                SecretProblem.INVALID, f"{_server(session)} gave no token at {path}.", "Check its address."
            )
        if auth.get("token_type") == "batch":
            raise SecretFailed(
                SecretProblem.INVALID,
                f"{_server(session)} gave a batch token, which can't be revoked when the job ends.",
                "Set token_type of the role to service.",
            )
        signed_in = msgspec.structs.replace(session, token=token, renewable=auth.get("renewable") is True)
        secrets = [token, body["jwt"]] if method == _KUBERNETES else token
        return SignedIn(msgspec.json.encode(signed_in).decode(), secrets, _seconds(auth))

    async def read(self, egress: EgressClient, session: str, path: str) -> ProvidedSecret:
        """Read a secret of KV 2, or whatever the path gives or makes. Raises SecretFailed."""
        opened = _decode(session)
        path, given = _parameters(opened, path)
        mount, within = _place(opened, path, given)
        asked = within if mount is None else f"{mount}/data/{within}"
        answer = await _ask(egress, opened, "POST" if given else "GET", asked, given, shown=path)
        data = answer.get("data")
        values = data.get("data") if mount is not None and isinstance(data, dict) else data
        if not isinstance(values, dict):
            raise _nothing(opened, path)
        lease = answer.get("lease_id")
        lasts = not lease
        if not isinstance(lease, str) or answer.get("renewable") is not True:
            lease = ""  # it ends by itself, or with the token
        version = None if mount is None else str(_map(_map(data).get("metadata")).get("version") or "")
        return ProvidedSecret(values, lease, _seconds(answer), lasts=lasts, version=version)

    async def look(self, egress: EgressClient, session: str, path: str) -> PathAccess:
        """Ask for the capabilities of the token. Raises SecretFailed."""
        opened = _decode(session)
        path, given = _parameters(opened, path)
        mount, within = _place(opened, path, given)
        if mount is None and given is None and _ISSUING.search(within):
            raise _without_parameters(opened, within)  # of a signature, `machines.keyPair` adds them
        # Of KV 2, who may delete the metadata deletes all versions.
        asked = [within] if mount is None else [f"{mount}/data/{within}", f"{mount}/metadata/{within}"]
        answer = await _ask(egress, opened, "POST", _CAPABILITIES, {"paths": asked})
        may = [found if isinstance(found := answer.get(each), list) else [] for each in asked]
        makes = given is not None or (mount is None and _MAKING.search(within) is not None)
        changes = not makes and (mount is not None or _GIVING.search(within) is None)
        return PathAccess(
            may_read=not (_MAKES if makes else _READS).isdisjoint(may[0]),
            may_write=changes and any(not _WRITES.isdisjoint(each) for each in may),
            is_stored=mount is not None,
            fix=_policy(opened, path, asked[0], "update" if makes else "read"),
        )

    async def renew(self, egress: EgressClient, session: str, leases: Sequence[str]) -> Renewed:
        """Renew the token and its leases."""
        opened = _decode(session)
        session_s = None
        if opened.renewable:
            session_s = _seconds(_map((await _ask(egress, opened, "POST", "auth/token/renew-self", {})).get("auth")))
        lasting: list[int] = []
        lost: dict[str, str] = {}
        failed: dict[str, str] = {}
        for lease in leases:
            try:
                lasting.append(_seconds(await _ask(egress, opened, "POST", "sys/leases/renew", {"lease_id": lease})))
            except SecretFailed as error:
                (failed if error.retryable else lost)[lease] = str(error)
        return Renewed(session_s, min(filter(None, lasting), default=0), lost, failed)

    async def revoke(self, egress: EgressClient, session: str) -> None:
        """Revoke the token, and with it all of its leases. Raises SecretFailed."""
        await _ask(egress, _decode(session), "POST", "auth/token/revoke-self", {}, is_gone_fine=True)


_decode = msgspec.json.Decoder(_Session).decode


def _parameters(session: _Session, path: str) -> tuple[str, dict[str, str] | None]:
    """Return the path and its parameters, None without any. Raises SecretFailed."""
    place, mark, text = path.partition("?")
    if not mark:
        return path, None
    try:
        given = dict(parse_qsl(text, keep_blank_values=True, strict_parsing=True))
    except ValueError:
        given = {}
    if not given or len(text) > _PARAMETERS_CHARS:
        raise SecretFailed(
            SecretProblem.INVALID,
            f"The parameters of {place[:80]!r} of {session.name!r} can't be read.",
            f"Write them as in a URL: {session.name}/pki/issue/web?common_name=shop.example.org&ttl=10m.",
        )
    return place, given


def _place(session: _Session, path: str, given: Mapping[str, str] | None) -> tuple[str | None, str]:
    """Return the mount of KV 2 and the path in it.

    Elsewhere it is None and the whole path. Raises SecretFailed.
    """
    if not _is_path(path):
        raise SecretFailed(SecretProblem.INVALID, f"{path[:80]!r} can't be a path of {session.name!r}.")
    whole = path.strip("/")
    mount = max((each for each in session.kv if whole.startswith(f"{each}/")), key=len, default=None)
    if mount is not None and given and _KEY_TO_SIGN in given:
        raise SecretFailed(
            SecretProblem.INVALID,
            f"{path[:80]!r} of {session.name!r} gives no certificate of SSH: {mount!r} is KV version 2.",
            f"Name a path that signs, such as {session.name}/ssh/sign/ROLE, or a private key in it:"
            f" {session.name}/{path[:80]}#key.",
        )
    if mount is not None and given:
        raise SecretFailed(
            SecretProblem.INVALID,
            f"{path[:80]!r} of {session.name!r} takes no parameters: {mount!r} is KV version 2.",
            "Leave out what follows the question mark.",
        )
    return mount, whole if mount is None else whole[len(mount) + 1 :]


def _is_path(path: str) -> bool:
    return 0 < len(path) <= 500 and all(map(_SEGMENT.fullmatch, path.strip("/").split("/")))


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _seconds(answer: Mapping[str, Any]) -> int:
    """Return how long a lease lasts, 0 for one that doesn't end."""
    found = answer.get("lease_duration")
    return min(found, SECRET_LEASE_S) if isinstance(found, int) and found > 0 else 0


def _server(session: _Session) -> str:
    return f"The secret provider {session.name!r} ({session.address})"


def _nothing(session: _Session, path: str) -> SecretFailed:
    engine = path.strip("/").partition("/")[0]
    mount, _ = _place(session, path, None)
    if mount is not None:
        kind = f"If {mount!r} is KV version 1, take it out of {_KV}."
    else:
        kind = f"If {engine!r} is KV version 2, add it to {_KV}."
    fix = _without_data(session, path) or f"Write it there, or correct the path. {kind}"
    if engine == "cubbyhole":
        fix = "Each sign-in has a cubbyhole of its own, which is empty: keep the secret in another engine."
    return SecretFailed(SecretProblem.MISSING, f"{_server(session)} has no secret at {path!r}.", fix)


def _without_data(session: _Session, path: str) -> str:
    """Return what to do if a path has the `data` of its policies, or ""."""
    mount, within = _place(session, path, None)
    first, _, rest = within.partition("/")
    if mount is None or first not in ("data", "metadata") or not rest:
        return ""
    return f"Leave out {first!r}: {session.name}/{mount}/{rest}."


def _without_parameters(session: _Session, path: str) -> SecretFailed:
    given = "common_name=shop.example.org&ttl=10m" if _ISSUING.search(path) else f"{_KEY_TO_SIGN}=…"
    return SecretFailed(
        SecretProblem.INVALID,
        f"{path[:80]!r} of {session.name!r} makes certificates, and its parameters are missing.",
        f"Write them as in a URL: {session.name}/{path[:80]}?{given}. A policy of its role needs"
        f' path "{path[:80]}" {{ capabilities = ["update"] }}.',
    )


def _policy(session: _Session, path: str, asked: str, capability: str) -> str:
    """Return what a policy must have for a path, after its correction."""
    if without := _without_data(session, path):
        mount, within = _place(session, path, None)
        asked = f"{mount}/data/{within.partition('/')[2]}"
    fix = f'A policy of its role needs: path "{asked}" {{ capabilities = ["{capability}"] }}.'
    return f"{without} {fix}".strip()


async def _ask(
    egress: EgressClient,
    session: _Session,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    shown: str = "",
    signs_in: str = "",
    is_gone_fine: bool = False,
) -> dict[str, Any]:
    """Ask the server. Raises SecretFailed with provider, path and what to do.

    `shown` is the path as references have it. `signs_in` is the method of a sign-in.
    """
    headers = {"content-type": "application/json", "x-vault-request": "true"}
    if session.token:
        headers["x-vault-token"] = session.token
    if session.namespace:
        headers["x-vault-namespace"] = session.namespace
    content = b"" if body is None else msgspec.json.encode(body)
    url = f"{session.address}/v1/{quote(path, safe='/')}"
    try:
        egress.require_private(session.address, "What is secret")
        response = await egress.request(
            method, url, headers=headers, body=content, timeout_s=SECRET_TIMEOUT_S, max_bytes=SECRET_RESPONSE_BYTES
        )
    except EgressFailed as error:
        problem = SecretProblem.UNREACHABLE if error.retryable else SecretProblem.INVALID
        raise SecretFailed(
            problem,
            f"The secret provider {session.name!r} doesn't answer{f' for {shown!r}' if shown else ''}:",
            *error.messages,
            *filter(None, [_reach(error, session)]),
        ) from error
    try:
        answer = _answer(response.body)
    except ValueError as error:
        if response.status in (200, 204):
            raise SecretFailed(
                SecretProblem.UNREADABLE,
                f"{_server(session)} answers {(shown or path)!r} with something other than a JSON object.",
                "Check its address, and that it stores strings in UTF-8.",
            ) from error
        answer = {}
    if response.status in (200, 204):
        return answer
    if response.status == 403 and is_gone_fine and _is_gone(answer.get("errors")):
        return {}
    raise _refused(session, method, path, response.status, answer, shown=shown or path, signs_in=signs_in)


def _refused(
    session: _Session, method: str, path: str, status: int, answer: Mapping[str, Any], *, shown: str, signs_in: str
) -> SecretFailed:
    """Return what an answer other than a success means."""
    errors = answer.get("errors")
    said = "; ".join(map(_sentence, errors if isinstance(errors, list) else ()))[:300].rstrip(".")
    if signs_in and status in (400, 403, 404):
        return SecretFailed(
            SecretProblem.FORBIDDEN,
            f"{_server(session)} refused the sign-in of the job at {path!r}: {said or status}.",
            _sign_in_fix(signs_in, path, said),
        )
    if status in (403, 405) and method == "GET" and _MAKING.search(path):
        return _without_parameters(session, path)
    if status == 403:
        fix = "The role needs the policy default, with which a token renews and revokes itself."
        if not path.startswith(("auth/token/", _CAPABILITIES)):
            fix = _policy(session, shown, path, "read" if method == "GET" else "update")
        return SecretFailed(
            SecretProblem.FORBIDDEN, f"{_server(session)} refuses {shown!r} ({said or 'without a reason'}).", fix
        )
    if status == 404:
        return _nothing(session, shown)
    return _refusal(session, status, shown, said or str(status))


def _reach(error: EgressFailed, session: _Session) -> str:
    """Return what to do if the server can't be reached, or ""."""
    if "certificate" in str(error).casefold():
        return (
            f"Compare {_ADDRESS} with the certificate of the provider. Launchbay's server must trust its authority, by"
            " SSL_CERT_FILE or the certificates of the system."
        )
    if not error.retryable:
        return ""
    return f"Start it, or correct {_ADDRESS} of {session.name!r}."


def _sign_in_fix(method: str, path: str, said: str) -> str:
    """Return what to do after a refused sign-in.

    OpenBao says "permission denied" where nothing is mounted, and then doesn't name a claim.
    """
    mount = path.removeprefix("auth/").removesuffix("/login")
    if said in ("permission denied", "missing client token") or "no handler for route" in said:
        fix = f"Enable {method} there (bao auth enable -path={mount} {method}), or correct {_MOUNT}."
        return f"{fix} {_SIGN_IN_FIXES[method]}" if method == _KUBERNETES else fix
    if "could not load configuration" in said:
        return f"Configure the mount: bao write auth/{mount}/config."
    if "could not be found" in said or "invalid role name" in said:
        return f"Make the role (bao write auth/{mount}/role/NAME), or correct {_ROLE}."
    return _SIGN_IN_FIXES[method]


def _refusal(session: _Session, status: int, place: str, said: str) -> SecretFailed:
    if status in (429, 500, 502, 503, 504):
        message = f"{_server(session)} can't answer {place!r} now: {said}."
        if "sealed" in said:
            return SecretFailed(SecretProblem.SEALED, message, "Its operator must unseal it.")
        return SecretFailed(SecretProblem.THROTTLED if status == 429 else SecretProblem.UNREACHABLE, message)
    fix = "Correct the path or the role."
    if "unknown role" in said:  # that of the engine, not that of the sign-in
        fix = "Make the role in this engine, or correct the path."
    return SecretFailed(SecretProblem.INVALID, f"{_server(session)} refused {place!r}: {said}.", fix)


def _is_gone(errors: object) -> bool:
    """Return whether a refusal says that the token is unknown.

    The other reason is a policy. OpenBao writes the first without "1 error occurred", and Vault adds "invalid token".
    """
    return errors == ["permission denied"] or "invalid token" in str(errors)


def _sentence(error: object) -> str:
    """Return an error in one line: the server writes lists with bullets."""
    return " ".join(str(error).split()).removeprefix("1 error occurred: * ")


def _answer(body: bytes) -> dict[str, Any]:
    """Return the object in a response, {} for an empty one. Raises ValueError."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any]) if body else {}
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
