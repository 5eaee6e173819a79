"""What a dry run answers instead of a plausible value, as authors and operators configure it (reference, dry-run).

    answers:
      - action: execrun
        step: generate-db-password
        give: { stdout: k1tt3n }
      - action: chef*
        give: { chefState: { haproxy: { entry_urls: ["http://192.0.2.1"] } } }

An entry counts where all that it names fits; `*` and `?` are wildcards. Of several entries that fit, the first one that
gives an output counts. Policies of the environment come before all entries: `dry-run.execrun.stdout: k1tt3n`, and for a
value inside of an output `dry-run.chefsolo.chefState.haproxy.entry_urls.0: http://192.0.2.1`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay.machines.contract import Errand
from launchbay.manifest.tree import MappingNode, Node, ScalarNode, SequenceNode, kind_of, plain
from launchbay.model.findings import Findings
from launchbay.model.wildcards import fits

POLICY_PREFIX = "dry-run."
GIVE = "give"
CONDITIONS = ("component", "action", "step", "role", "host", "command")
_KEYS = (*CONDITIONS, GIVE)


@dataclass(frozen=True, slots=True)
class Answer:
    """One entry: for which calls it counts, as wildcards by what they are about, and what it gives."""

    conditions: Mapping[str, str]
    give: Mapping[str, Any]

    def counts_for(self, asked: Mapping[str, str]) -> bool:
        """Tell whether it counts for a call. A call that knows nothing of a condition does not meet it."""
        return all(fits(pattern, asked.get(name, "")) for name, pattern in self.conditions.items())


@dataclass(frozen=True, slots=True)
class Answers:
    """All entries, in their order."""

    entries: tuple[Answer, ...] = field(default=())

    def of(self, errand: Errand, *, role: str = "", host: str = "", command: str = "") -> dict[str, Any]:
        """Return the configured outputs of a call by name; those left out are for the dry run to make up."""
        asked = {
            "component": errand.component,
            "action": errand.action,
            "step": errand.step,
            "role": role,
            "host": host,
            "command": command,
        }
        found = of_policies(errand.policies, errand.action)
        for entry in self.entries:
            if entry.counts_for(asked):
                found = {**entry.give, **found}
        return found


def of_policies(policies: Mapping[str, Any], action: str) -> dict[str, Any]:
    """Return what the policies `dry-run.<action>.<output>…` give for an action.

    Further names lead into maps; where all names at a place are numbers, it is a list.
    """
    prefix = f"{POLICY_PREFIX}{action}."
    root: dict[str, Any] = {}
    for name, value in policies.items():
        if not name.startswith(prefix):
            continue
        *way, last = name[len(prefix) :].split(".")
        place = root
        for segment in way:
            inner = place.setdefault(segment, {})
            if not isinstance(inner, dict):  # a value and something below it: the value stays
                break
            place = inner
        else:
            place.setdefault(last, value)
    return {name: _listed(value) for name, value in root.items()}


def read_answers(node: Node | None, findings: Findings) -> Answers:
    """Read the list of entries; what is wrong becomes a finding and is left out. None, for an absent one, has none."""
    if node is None:
        return Answers()
    if not isinstance(node, SequenceNode):
        findings.error("UnexpectedKind", f"'answers' must be a list, but it is {kind_of(node)}.", node)
        return Answers()
    return Answers(tuple(_entries(node.children, findings)))


def _entries(nodes: Iterable[Node], findings: Findings) -> Iterable[Answer]:
    for node in nodes:
        if not isinstance(node, MappingNode):
            findings.error("UnexpectedKind", f"An answer must be a map, but it is {kind_of(node)}.", node)
            continue
        conditions: dict[str, str] = {}
        for key, child in node.items():
            if key not in _KEYS:
                message = f"An answer knows no '{key[:80]}'; it has {', '.join(_KEYS)}."
                findings.error("UnknownKey", message, node.place_of(key))
            elif key != GIVE and (not isinstance(child, ScalarNode) or child.value is None):
                findings.error("UnexpectedKind", f"'{key}' must be a text, but it is {kind_of(child)}.", child)
            elif isinstance(child, ScalarNode) and key != GIVE:
                conditions[key] = child.text
        give = node.get(GIVE)
        if not isinstance(give, MappingNode):
            what = "missing" if give is None else kind_of(give)
            findings.error("UnexpectedKind", f"'{GIVE}' must be a map of outputs, but it is {what}.", give or node)
            continue
        yield Answer(conditions, plain(give))


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _listed(each) for name, each in value.items()}
    if all(name.isdigit() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner
