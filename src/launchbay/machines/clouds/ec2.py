"""EC2 and clouds that support its API, with apache-libcloud. Only this module imports it, and it is loaded late.

libcloud uses requests, which resolves names by itself. Here connections are dialed to addresses that were checked
before, so a name server that changes its answer gains nothing. TLS still verifies the name. No redirect is followed,
and no proxy but that of the settings and no `.netrc` is used. Responses are limited in bytes and time.
"""

import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import requests
from libcloud.common.exceptions import BaseHTTPError
from libcloud.common.types import InvalidCredsError, LibcloudError, MalformedResponseError
from libcloud.compute.base import Node as LibcloudNode
from libcloud.compute.base import NodeImage, NodeLocation, NodeSize
from libcloud.compute.drivers.ec2 import (
    NAMESPACE,
    EC2Connection,
    EC2NetworkSubnet,
    EC2NodeDriver,
    EC2NodeLocation,
    EC2Response,
    ExEC2AvailabilityZone,
)
from libcloud.compute.types import NodeState as LibcloudState
from libcloud.http import LibcloudConnection
from libcloud.utils.xml import findall, findtext
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError
from urllib3.util.connection import create_connection

from launchbay import limits
from launchbay.egress.proxy import OutgoingProxy, ProxyFailed
from launchbay.machines.clouds.account import CloudAccount
from launchbay.machines.clouds.driver import CloudFailed, Endpoint, Node, NodeState
from launchbay.machines.clouds.order import DEFAULT_REGION, Disk, Order
from launchbay.machines.contract import Tags


class ResponseTooLong(requests.exceptions.RequestException):
    """A response exceeds the limit of bytes or time."""


class BoundedAdapter(HTTPAdapter):
    """Bounds the bytes and the time of a response."""

    def __init__(self) -> None:
        super().__init__(max_retries=0)

    def send(self, request: requests.PreparedRequest, *arguments: Any, **more: Any) -> requests.Response:
        response = super().send(request, *arguments, **more)
        response.raw = _Bounded(response.raw, time.monotonic() + limits.CLOUD_CALL_S)
        return response


class CheckedAdapter(BoundedAdapter):
    """Dials these addresses of one host instead of resolving its name."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = tuple(addresses)
        super().__init__()

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **more: Any) -> None:  # noqa: FBT001, FBT002 - requests' own signature
        super().init_poolmanager(connections, maxsize, block, **more)
        self.poolmanager.pool_classes_by_scheme = _pools(self._addresses)


class ProxiedAdapter(BoundedAdapter):
    """Sends everything through the proxy. Raises ProxyRefused with what it answers."""

    def __init__(self, proxy: OutgoingProxy) -> None:
        self._proxy = proxy
        super().__init__()

    def send(self, request: requests.PreparedRequest, *arguments: Any, **more: Any) -> requests.Response:
        target = urlsplit(request.url or "").netloc
        try:
            response = super().send(request, *arguments, **more)
        except requests.exceptions.ProxyError as error:
            raise ProxyRefused(self._failure(target, str(_cause(error)))) from error
        if response.status_code == requests.codes.proxy_authentication_required:
            raise ProxyRefused(self._proxy.refused(target, str(response.status_code)))
        return response

    def _failure(self, target: str, reason: str) -> ProxyFailed:
        answer = _TUNNEL.search(reason)
        return self._proxy.refused(target, answer[1]) if answer else self._proxy.unreachable(reason[:_REASON_CHARS])


class ProxyRefused(requests.exceptions.RequestException):
    """The proxy can't be reached, or refuses."""

    def __init__(self, failure: ProxyFailed) -> None:
        super().__init__(str(failure))
        self.failure = failure


class _Bounded:
    """A raw response within the limits of bytes and time."""

    def __init__(self, raw: Any, deadline_s: float) -> None:
        self._raw = raw
        self._deadline_s = deadline_s

    def stream(self, amount: int, *, decode_content: bool = True) -> Iterator[bytes]:
        """Yield the parts of the body. Raises ResponseTooLong."""
        size = 0
        for part in self._raw.stream(amount, decode_content=decode_content):
            size += len(part)
            if size > limits.CLOUD_RESPONSE_BYTES:
                raise ResponseTooLong(f"the response has more than {limits.CLOUD_RESPONSE_BYTES} bytes")
            if time.monotonic() > self._deadline_s:
                raise ResponseTooLong(f"the response takes more than {limits.CLOUD_CALL_S:g} s")
            yield part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def _pools(addresses: tuple[str, ...]) -> dict[str, type[HTTPConnectionPool]]:
    """Return the classes of connection pools by URL scheme."""

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _connect(self, addresses)

    class Tls(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _connect(self, addresses)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class TlsPool(HTTPSConnectionPool):
        ConnectionCls = Tls

    return {"http": PlainPool, "https": TlsPool}


def _connect(connection: HTTPConnection, addresses: tuple[str, ...]) -> socket.socket:
    problem: Exception | None = None
    for address in addresses:
        try:
            return create_connection(
                (address, connection.port), limits.EGRESS_CONNECT_S, socket_options=connection.socket_options
            )
        except OSError as error:
            problem = error
    raise NewConnectionError(connection, f"no connection to {connection.host}: {problem}")


_SCHEMES = ("http", "https")
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3}[^')]*)")
_REASON_CHARS = 200
_SIGNATURE = "4"  # the only one that all regions accept
_PAGES_MAX = 1_000
_EXISTING = ["pending", "running", "stopping", "stopped"]
_STATES = {
    LibcloudState.PENDING: NodeState.STARTING,
    LibcloudState.RUNNING: NodeState.RUNNING,
    LibcloudState.TERMINATED: NodeState.TERMINATED,
}
_ACCESS_DENIED = re.compile(
    "AuthFailure|InvalidClientTokenId|SignatureDoesNotMatch|OptInRequired|UnauthorizedOperation"
)
_UNKNOWN = "InvalidInstanceID.NotFound"
_KEY_IS_THERE = "InvalidKeyPair.Duplicate"
# Codes of refusals that a repeated request would get again.
_PERMANENT = re.compile("Invalid|Missing|Malformed|Unsupported|Unknown|Blocked")


class _Response(EC2Response):
    """Reads responses in any version of the namespace, because other clouds than Amazon use different ones."""

    def parse_body(self) -> Any:
        """Return the tree with every name in the namespace that the driver expects."""
        body = super().parse_body()
        for element in body.iter() if hasattr(body, "iter") else ():
            if isinstance(element.tag, str):
                element.tag = f"{{{NAMESPACE}}}{element.tag.rpartition('}')[2]}"
        return body

    def parse_error(self) -> Any:
        """Return `code: message` of each error. Raises InvalidCredsError."""
        try:
            body = self.parse_body()
        except MalformedResponseError:
            return super().parse_error()
        errors = [
            ": ".join(findtext(error, name, NAMESPACE) for name in ("Code", "Message"))
            for error in body.iter(f"{{{NAMESPACE}}}Error")
        ]
        if any(map(_ACCESS_DENIED.match, errors)):
            raise InvalidCredsError(errors[0])
        return "\n".join(errors) or super().parse_error()


class _Driver(EC2NodeDriver):
    """Amazon's driver, for any endpoint and any region."""

    def __init__(self, account: CloudAccount, region: str, endpoint: Endpoint) -> None:
        known = region if region in self.list_regions() else DEFAULT_REGION

        class Connection(LibcloudConnection):
            def __init__(self, *arguments: Any, **more: Any) -> None:
                super().__init__(*arguments, **more)
                assert self.session is not None, "libcloud creates it in its constructor"
                self.session.trust_env = False
                self.session.max_redirects = 0
                proxy = endpoint.proxy
                self.session.proxies = {} if proxy is None else dict.fromkeys(_SCHEMES, proxy.url_with_credentials)
                for scheme in _SCHEMES:
                    adapter = CheckedAdapter(endpoint.addresses) if proxy is None else ProxiedAdapter(proxy)
                    self.session.mount(f"{scheme}://", adapter)

        class Connections(EC2Connection):
            conn_class = Connection
            responseCls = _Response  # noqa: N815 - libcloud's name

        self.connectionCls = Connections
        super().__init__(
            key=account.identity,
            secret=account.credential,
            token=account.token or None,
            secure=endpoint.scheme == "https",
            host=endpoint.host,
            port=endpoint.port,
            region=known,
            signature_version=_SIGNATURE,
            timeout=limits.CLOUD_CALL_S,
        )
        self.region_name = region
        self.path = endpoint.path or "/"

    def list_nodes(self, ex_node_ids: Any = None, ex_filters: Any = None) -> list[LibcloudNode]:  # noqa: ARG002 - libcloud's signature
        """Return the nodes of all pages: a service divides long answers though nobody asked for it.

        A machine's description has its address, so there is no call for addresses, which other clouds may lack.
        """
        nodes: list[LibcloudNode] = []
        parameters = {"Action": "DescribeInstances", **self._build_filters(ex_filters)}
        for _ in range(_PAGES_MAX):
            page = self.connection.request(self.path, params=dict(parameters)).object
            for reservation in findall(page, "reservationSet/item", NAMESPACE):
                nodes += self._to_nodes(reservation, "instancesSet/item")
            token = findtext(page, "nextToken", NAMESPACE)
            if not token:
                return nodes
            parameters["NextToken"] = token
        raise LibcloudError(f"the list of machines has more than {_PAGES_MAX} pages")


class Ec2:
    """One region of one account; implements `driver.Cloud`. Use it in one thread at a time."""

    def __init__(self, account: CloudAccount, region: str, endpoint: Endpoint) -> None:
        self._driver = _Driver(account, region, endpoint)
        self._region = region

    def create_node(self, order: Order, name: str, tags: Tags, token: str, key_name: str) -> Node:
        in_subnet = bool(order.subnet)
        groups = list(order.security_groups)
        driver = self._driver
        node = _call(
            driver.create_node,
            name=name,
            size=NodeSize(order.size, order.size, 0, 0, 0, 0.0, driver),
            image=NodeImage(order.image, order.image, driver),
            location=self._location(order.zone),
            ex_clienttoken=token,
            ex_metadata=tags.to_dict(),
            ex_keyname=key_name or None,
            ex_security_groups=None if in_subnet else groups,
            ex_security_group_ids=groups if in_subnet else None,
            ex_subnet=EC2NetworkSubnet(order.subnet, order.subnet, "available") if in_subnet else None,
            ex_assign_public_ip=order.public_ip,
            ex_userdata=order.user_data or None,
            ex_iamprofile=order.profile or None,
            ex_ebs_optimized="true" if order.ebs_optimized else None,
            ex_blockdevicemappings=[_disk(disk) for disk in order.disks] or None,
        )
        if not isinstance(node, LibcloudNode):
            raise CloudFailed("The cloud didn't return exactly one machine.")
        return _node(node)

    def find_tagged(self, tags: Mapping[str, str]) -> Sequence[Node]:
        filters: dict[str, list[str]] = {f"tag:{name}": [value] for name, value in tags.items()}
        found = _call(self._driver.list_nodes, ex_filters={**filters, "instance-state-name": _EXISTING})
        return [_node(node) for node in found]

    def describe(self, ids: Sequence[str]) -> Sequence[Node]:
        # By filter and not by ID: right after a creation, an unknown ID would make the whole call fail.
        return [_node(node) for node in _call(self._driver.list_nodes, ex_filters={"instance-id": list(ids)})]

    def terminate(self, node_id: str) -> bool:
        try:
            _call(self._driver.destroy_node, LibcloudNode(node_id, "", LibcloudState.UNKNOWN, [], [], self._driver))
        except CloudFailed as error:
            if error.reason != _UNKNOWN:
                raise
            return False
        return True

    def import_key(self, name: str, public_key: str) -> None:
        try:
            _call(self._driver.import_key_pair_from_string, name=name, key_material=public_key)
        except CloudFailed as error:
            if error.reason != _KEY_IS_THERE:
                raise

    def _location(self, zone: str) -> NodeLocation | None:
        if not zone:
            return None
        availability_zone = ExEC2AvailabilityZone(zone, "available", self._region)
        return EC2NodeLocation("0", zone, "", self._driver, availability_zone)


def _call(call: Any, *arguments: Any, **more: Any) -> Any:
    """Call libcloud. Raises CloudFailed with the cloud's own message."""
    try:
        return call(*arguments, **more)
    except InvalidCredsError as error:
        raise CloudFailed(
            f"The cloud rejected the credentials: {_describe(error)}",
            "Correct the identity and the credential of the cloud account.",
            retryable=False,
        ) from None
    except BaseHTTPError as error:
        raise _refused(str(error.message), error.code) from None
    except ProxyRefused as error:
        raise CloudFailed(*error.failure.messages, retryable=error.failure.retryable) from None
    except requests.exceptions.RequestException as error:
        raise CloudFailed(f"The cloud did not respond: {_describe(_cause(error))}") from None
    except (LibcloudError, ValueError, AttributeError, KeyError, OSError) as error:
        raise CloudFailed(f"Can't read the cloud's response: {_describe(error)}") from None
    except Exception as error:  # noqa: BLE001 - libcloud raises plain Exceptions with the text of a response
        raise _refused(str(error), 0) from None


def _refused(message: str, status: int) -> CloudFailed:
    reason, colon, _ = message.partition(":")
    reason = reason if colon and " " not in reason else ""
    is_permanent = bool(_PERMANENT.match(reason)) or (not reason and 400 <= status < 500 and status != 429)
    return CloudFailed(f"The cloud refused: {message[:500]}", reason=reason, retryable=not is_permanent)


def _cause(error: requests.exceptions.RequestException) -> Exception:
    """Return the cause of an error of requests, whose own text has the URL instead of the reason."""
    inner = error.args[0] if error.args else error
    reason = getattr(inner, "reason", inner)
    return reason if isinstance(reason, Exception) else error


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


def _disk(disk: Disk) -> dict[str, Any]:
    if disk.virtual:
        return {"DeviceName": disk.device, "VirtualName": disk.virtual}
    return {
        "DeviceName": disk.device,
        "Ebs": {name[:1].upper() + name[1:]: value for name, value in disk.volume.items()},
    }


def _node(node: LibcloudNode) -> Node:
    state = node.extra.get("status") or ""
    return Node(
        id=node.id or "",
        state=NodeState.TERMINATED if state == "shutting-down" else _STATES.get(node.state, NodeState.OTHER),
        public_ip=next(iter(node.public_ips), ""),
        private_ip=next(iter(node.private_ips), ""),
        host_name=node.extra.get("dns_name") or node.extra.get("private_dns") or "",
        tags=Tags.parse(node.extra.get("tags") or {}),
        created_at=node.created_at,
    )
