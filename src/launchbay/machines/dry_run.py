"""Simulated machines: every call is logged and gets an answer, and nothing is done.

So you can try and test any manifest without a machine. The same instance and step get the same answers, in every
attempt and after every crash: derived from their names, or configured as `Answers`. Addresses are from networks that
are reserved for documentation and lead nowhere.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn
from urllib.parse import urlsplit

import msgspec

from launchbay.errors import ActionFailed
from launchbay.machines.chef import merge_attributes
from launchbay.machines.contract import ProviderContext
from launchbay.manifest.tree import MappingNode, Node, ScalarNode, SequenceNode, kind_of, plain
from launchbay.model.findings import Findings
from launchbay.model.machine import DRY_RUN, ChefRun, CommandResult, Machine, MachineSpec, RemoteCommand, address_of
from launchbay.model.redaction import Redactor


def fits(pattern: str, text: str) -> bool:
    """Return whether a pattern with the wildcards `*` and `?` matches the whole text."""
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*+|\?)", pattern)
    return re.compile("".join(_PART.get(part[:1], re.escape(part)) for part in parts), re.DOTALL)


_PART = {"*": ".*", "?": "."}

# Answers that authors and operators configure in place of the derived ones (reference, dry-run).
#
#     answers:
#       - action: execrun
#         step: generate-db-password
#         give: { stdout: k1tt3n }
#       - action: chef*
#         give: { chefState: { haproxy: { entry_urls: ["http://192.0.2.1"] } } }
#
# An entry applies if all of its conditions match; `*` and `?` are wildcards. Of several matching entries, the first one
# with an output sets it. Policies of the environment take precedence: `dry-run.execrun.stdout: k1tt3n`, and for a value
# inside an output `dry-run.chefsolo.chefState.haproxy.entry_urls.0: http://192.0.2.1`.

_DERIVED = re.compile(rb"\bdry-run-[0-9a-f]{8}\b")  # what a command prints without a configured answer

POLICY_PREFIX = "dry-run."
GIVE = "give"
CONDITIONS = ("component", "action", "step", "role", "host", "command")
_KEYS = (*CONDITIONS, GIVE)


@dataclass(frozen=True, slots=True)
class Answer:
    """One entry: the conditions, as patterns by name, and the outputs."""

    conditions: Mapping[str, str]
    give: Mapping[str, Any]

    def matches(self, asked: Mapping[str, str]) -> bool:
        """Return whether all conditions match. A call without the named property doesn't match."""
        return all(fits(pattern, asked.get(name, "")) for name, pattern in self.conditions.items())


@dataclass(frozen=True, slots=True)
class Answers:
    """All entries, in order."""

    entries: tuple[Answer, ...] = field(default=())

    def of(self, context: ProviderContext, *, role: str = "", host: str = "", command: str = "") -> dict[str, Any]:
        """Return the configured outputs of a call by name; the dry run derives the others."""
        asked = {
            "component": context.component,
            "action": context.action,
            "step": context.step,
            "role": role,
            "host": host,
            "command": command,
        }
        found = of_policies(context.policies, context.action)
        for entry in self.entries:
            if entry.matches(asked):
                found = {**entry.give, **found}
        return found


def of_policies(policies: Mapping[str, Any], action: str) -> dict[str, Any]:
    """Return the outputs in the policies `dry-run.<action>.<output>…` of an action.

    Further names are keys of nested maps. If all keys of a map are numbers, it is a list.
    """
    prefix = f"{POLICY_PREFIX}{action}."
    root: dict[str, Any] = {}
    for name, value in policies.items():
        if not name.startswith(prefix):
            continue
        *path, last = name[len(prefix) :].split(".")
        target = root
        for segment in path:
            inner = target.setdefault(segment, {})
            if not isinstance(inner, dict):  # a policy for it and one for something inside: the first stays
                break
            target = inner
        else:
            target.setdefault(last, value)
    return {name: _listed(value) for name, value in root.items()}


def read_answers(node: Node | None, findings: Findings) -> Answers:
    """Read the list of entries. Invalid entries become findings and are ignored."""
    if node is None:
        return Answers()
    if not isinstance(node, SequenceNode):
        findings.error("UnexpectedKind", f"'answers' must be a list, not {kind_of(node)}.", node)
        return Answers()
    return Answers(tuple(_entries(node.children, findings)))


def _entries(nodes: Iterable[Node], findings: Findings) -> Iterable[Answer]:
    for node in nodes:
        if not isinstance(node, MappingNode):
            findings.error("UnexpectedKind", f"An answer must be a map, not {kind_of(node)}.", node)
            continue
        conditions: dict[str, str] = {}
        for key, child in node.items():
            if key not in _KEYS:
                message = f"Unknown key '{key[:80]}' of an answer. Valid keys: {', '.join(_KEYS)}."
                findings.error("UnknownKey", message, node.place_of(key))
            elif key != GIVE and (not isinstance(child, ScalarNode) or child.value is None):
                findings.error("UnexpectedKind", f"'{key}' must be a string, not {kind_of(child)}.", child)
            elif isinstance(child, ScalarNode) and key != GIVE:
                conditions[key] = child.text
        give = node.get(GIVE)
        if not isinstance(give, MappingNode):
            problem = "but it is missing" if give is None else f"not {kind_of(give)}"
            findings.error("UnexpectedKind", f"'{GIVE}' must be a map of outputs, {problem}.", give or node)
            continue
        yield Answer(conditions, plain(give))


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _listed(each) for name, each in value.items()}
    if all(name.isdigit() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


DOMAIN = "dry-run.example"
_NETWORK = 254  # addresses in a network for documentation
_OVERFLOW = 250  # addresses used in each /24 of the network for benchmarks
_PUBLIC, _PRIVATE = "192.0.2", "198.51.100"
_PUBLIC_OVERFLOW, _PRIVATE_OVERFLOW = "198.18", "198.19"
_SIMULATED_HOST = ("192.0.2.", "198.51.100.", "203.0.113.", "198.18.", "198.19.", "2001:db8:")
_LINE_CHARS = 120
_NAME = re.compile(r"[^a-z0-9-]+")
_REST_CALL = "restcall"
_REDACTOR = Redactor()


def network_offset(instance_id: str) -> int:
    """Return the offset of an instance's addresses, so that instances mostly have different ones."""
    return int.from_bytes(hashlib.sha256(instance_id.encode()).digest()[:4], "big") % _NETWORK


class DryRun:
    """The provider. `network_offset` returns the offset of an instance's addresses in the networks."""

    name = DRY_RUN

    def __init__(self, answers: Answers | None = None, network_offset: Callable[[str], int] = network_offset) -> None:
        self.answers = answers or Answers()
        self._network_offset = network_offset

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        given = self._configured_answer(context, role=role)
        machines = [self._machine(context, role, number, spec, given, index) for index, number in enumerate(numbers)]
        like = ", ".join(filter(None, (spec.hardware, spec.image, spec.location))) or "unspecified"
        hosts = ", ".join(machine.host for machine in machines)
        count = "one machine" if len(machines) == 1 else f"{len(machines)} machines"
        _log(context, f"{count} for the role {role!r} ({like}): {hosts}")
        return machines

    async def adopt(
        self, context: ProviderContext, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        self._configured_answer(context, role=role)
        _log(context, f"adopts {', '.join(addresses.values())} for the role {role!r}")
        return [
            Machine(
                id=f"adopted:{address}",
                role=role,
                provider=self.name,
                number=number,
                public_ip=address_of(address),
                private_ip=address_of(address),
                host_name=address_of(address),
                login=spec.login,
                adopted=True,
            )
            for number, address in addresses.items()
        ]

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        self._configured_answer(context, role=machine.role, host=machine.host)
        _log(context, f"releases {machine.host}, role {machine.role!r}")

    async def orphans(self, context: ProviderContext) -> Sequence[Machine]:  # noqa: ARG002 - contract
        return ()

    async def run(self, context: ProviderContext, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Return the configured output, or a word that is unique for the step and machine."""
        _log(context, f"on {_named(machine)}{' with sudo' if command.sudo else ''}: {_brief(command.shown)}")
        given = self._configured_answer(context, role=machine.role, host=machine.host, command=command.shown)
        stdout = given.get("stdout", f"dry-run-{_digest(context, machine)}")
        return CommandResult(_text(stdout), _text(given.get("stderr", "")), _exit_code(given.get("exitCode", 0)))

    async def stop(self, context: ProviderContext, machine: Machine) -> None:
        """Do nothing, because no command runs."""

    async def converge(self, context: ProviderContext, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Return the given attributes, those of every node, and the configured ones."""
        about = f" of {_brief(chef.recipe_url)}" if chef.recipe_url else ""
        _log(context, f"on {_named(machine)}: {', '.join(chef.run_list)}{about}")
        given = self._configured_answer(context, role=machine.role, host=machine.host, command=",".join(chef.run_list))
        node = {
            "fqdn": machine.host_name,
            "hostname": machine.host_name.partition(".")[0],
            "ipaddress": machine.inner_host,
            "run_list": list(chef.run_list),
        }
        return merge_attributes(merge_attributes(node, chef.attributes), given.get("chefState", {}))

    async def put_file(self, context: ProviderContext, machine: Machine, name: str, content: bytes) -> None:
        _log(context, f"puts {len(content)} bytes into {name} on {_named(machine)}")
        self._configured_answer(context, role=machine.role, host=machine.host, command=name)

    async def get_file(self, context: ProviderContext, machine: Machine, name: str) -> bytes:
        """Return the configured content, or a line that names the file."""
        _log(context, f"gets {name} from {_named(machine)}")
        given = self._configured_answer(context, role=machine.role, host=machine.host, command=name)
        return _text(given.get("content", f"dry run: {name} of {machine.host}\n")).encode()

    def simulate(self, context: ProviderContext, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return configured outputs, and a response for HTTP requests to simulated addresses."""
        command = parameters.get("command")
        asked = command if isinstance(command, str) else ""
        given = self._configured_answer(context, command=asked)
        if context.action == _REST_CALL:
            everything = context.policies.get(f"{POLICY_PREFIX}{_REST_CALL}") is True
            return _call(context, parameters, given) if given or everything or _is_simulated_url(asked) else None
        if not given:
            return None
        _log(context, f"the action {context.action!r} is not run; its outputs are configured")
        return given

    def _configured_answer(
        self, context: ProviderContext, *, role: str = "", host: str = "", command: str = ""
    ) -> dict[str, Any]:
        """Return the configured outputs, or raise the configured failure."""
        given = self.answers.of(context, role=role, host=host, command=command)
        error = given.pop("error", None)
        if error is not None:
            _fail(context, _text(error), retryable=given.get("retryable") is not False)
        return given

    def _machine(
        self, context: ProviderContext, role: str, number: int, spec: MachineSpec, given: Mapping[str, Any], index: int
    ) -> Machine:
        public, private = _addresses(self._network_offset(context.instance_id), number)
        name = _NAME.sub("-", (spec.name_prefix or role).lower()).strip("-") or "machine"
        return Machine(
            id=f"{DRY_RUN}:{context.instance_id}:{number}",
            role=role,
            provider=self.name,
            number=number,
            public_ip=_configured(given.get("ips"), index, public),
            private_ip=_configured(given.get("privateips"), index, private),
            host_name=f"{name}-{number}.{DOMAIN}",
            login=spec.login,
        )


def _addresses(offset: int, number: int) -> tuple[str, str]:
    """Return the public and the private address of an instance's machine with this number, from 1."""
    if number <= _NETWORK:
        host = (offset + number - 1) % _NETWORK + 1
        return f"{_PUBLIC}.{host}", f"{_PRIVATE}.{host}"
    block, host = divmod(number - _NETWORK - 1, _OVERFLOW)
    return f"{_PUBLIC_OVERFLOW}.{block}.{host + 1}", f"{_PRIVATE_OVERFLOW}.{block}.{host + 1}"


def _configured(addresses: Any, index: int, default: str) -> str:
    return str(addresses[index]) if isinstance(addresses, list) and index < len(addresses) else default


def _call(context: ProviderContext, parameters: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    method, url = str(parameters.get("method") or "GET").upper(), _brief(str(parameters.get("command")))
    status = _exit_code(given.get("status", 200))
    _log(context, f"{method} {url} is not sent; the response is {status}")
    expected = parameters.get("expectedStatus", status if 200 <= status <= 299 else None)
    if status not in (expected if isinstance(expected, list) else [expected]):
        _fail(context, f"{method} {url} returned {status}.", retryable=not 300 <= status <= 499)
    return {"content": given.get("content", {}), "status": status, "headers": given.get("headers", {})}


def _is_simulated_url(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host.startswith(_SIMULATED_HOST) or host == DOMAIN or host.endswith(f".{DOMAIN}")


def _log(context: ProviderContext, text: str) -> None:
    context.log("info", f"dry run: {context.action} {_REDACTOR.text(text)}.")


def _fail(context: ProviderContext, text: str, *, retryable: bool) -> NoReturn:
    raise ActionFailed(f"dry run: {context.action} fails, as configured: {text}", retryable=retryable)


def _named(machine: Machine) -> str:
    return f"{machine.host}, role {machine.role!r}"


def _brief(text: str) -> str:
    """Return the first line of a command, and the number of lines if there are more."""
    lines = text.strip().splitlines() or [""]
    first = lines[0] if len(lines[0]) <= _LINE_CHARS else f"{lines[0][:_LINE_CHARS]}…"
    return first if len(lines) == 1 else f"{first} … ({len(lines)} lines)"


def about_made_up_answers(parameters: Mapping[str, Any]) -> str:
    """Return a sentence about a derived answer in parameters, or an empty text."""
    found = _DERIVED.search(msgspec.json.encode(parameters, enc_hook=str))
    if found is None:
        return ""
    return (
        f" The value '{found[0].decode()}' is what a command prints in a dry run. Set its answer with the policy "
        "dry-run.execrun.stdout or the setting dry_run_answers."
    )


def _digest(context: ProviderContext, machine: Machine) -> str:
    return hashlib.sha256(f"{context.instance_id}\n{context.path}\n{machine.host}".encode()).hexdigest()[:8]


def _text(value: Any) -> str:
    """Return a configured output as a machine would print it."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _exit_code(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ActionFailed(f"dry run: the configured value {value!r} must be a number.", retryable=False) from None
