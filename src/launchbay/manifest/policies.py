"""The policies of an environment as a YAML document, both ways (reference §2, "Environment policies"). Pure.

    policies:
      provisionVms.hardwareId: m1.small
      execrun.ignoreFail: true

One top-level key, dotted names (`action.parameter`, manifest-language §8), scalar values: true, false, whole numbers
and identifier-like strings. A number of another form, such as `1.10`, stays the string that was written: it may be a
version, and a step's parameter converts it to a number without loss. So do numbers that JSON doesn't have. A policy
without a value, or of null, is absent. `yes` and `off` are strings: a YAML 1.1 writer quotes such strings, and writes
booleans as `true` and `false`.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from launchbay.errors import BadRequest, InvalidManifest
from launchbay.limits import NAME_CHARS, POLICY_NODES
from launchbay.manifest.reader import Bounds, read
from launchbay.manifest.tree import MappingNode, Node, ScalarNode, children_of, is_null, kind_of, report_kind
from launchbay.model.findings import Finding, Findings
from launchbay.model.yaml_text import yaml_text

PolicyValue: TypeAlias = bool | int | str
Check: TypeAlias = Callable[[PolicyValue], object]

_KEY = "policies"
_NAME = re.compile(r"[\w-]+(\.[\w-]+)+")
_VALUE = re.compile(r"[\w./:@+=,%~?&#*!$-]+")
_VALUE_CHARS = 1_024
_BOUNDS = Bounds(nodes=POLICY_NODES)


def read_policies(text: str, checks: Mapping[str, Check] | None = None) -> dict[str, PolicyValue]:
    """Return the policies by name, in the order of the document.

    `checks` look at the values of policies that have a form, and raise ValueError with a message. Raises BadRequest
    with a message, line and column for each problem.
    """
    findings = Findings()
    try:
        policies = _policies(read(text.encode(), _BOUNDS, keeps_numbers=True), checks or {}, findings)
        findings.raise_errors()
    except InvalidManifest as error:
        # The reader's messages say "manifest", its usual input.
        messages = (message.replace("manifest", "document") for message in error.messages)
        raise BadRequest(*messages, code="InvalidPolicies") from None
    return policies


def write_policies(policies: dict[str, PolicyValue]) -> str:
    """Return the document that `read_policies` reads as these policies."""
    return yaml_text({_KEY: policies})


def _policies(document: Node, checks: Mapping[str, Check], findings: Findings) -> dict[str, PolicyValue]:
    if not isinstance(document, MappingNode):
        report_kind(document, "The document", f"a map with the key '{_KEY}'", findings)
        return {}
    parts = children_of(document, "The document", findings, (_KEY,), strict=True)
    if _KEY not in parts:
        findings.error("MissingKey", f"The key '{_KEY}' is missing. Put the policies under it.", document)
        return {}
    return _section(parts[_KEY], checks, findings)


def check_policies(section: Node, checks: Mapping[str, Check]) -> tuple[Finding, ...]:
    """Return what is wrong with policies that are part of another document."""
    findings = Findings()
    _section(section, checks, findings)
    return findings.errors


def _section(section: Node, checks: Mapping[str, Check], findings: Findings) -> dict[str, PolicyValue]:
    policies: dict[str, PolicyValue] = {}
    for name, node in children_of(section, f"'{_KEY}'", findings).items():
        if len(name) > NAME_CHARS or not _NAME.fullmatch(name):
            assert isinstance(section, MappingNode)  # the name came out of this map
            message = f"Invalid policy name {name[:80]!r}. Write ACTION.PARAMETER."
            findings.error("InvalidPolicyName", message, section.place_of(name))
        elif not is_null(node):
            policies[name] = _value(name, node, findings)
            try:
                checks.get(name, str)(policies[name])
            except ValueError as error:
                findings.error("InvalidPolicyValue", f"The policy {name!r}: {error}", node)
    return policies


def _value(name: str, node: Node, findings: Findings) -> PolicyValue:
    if not isinstance(node, ScalarNode):
        message = f"Policy {name!r} must be true, false, a number or an identifier, not {kind_of(node)}."
        findings.error("InvalidPolicyValue", message, node)
        return ""
    value = node.value
    if isinstance(value, bool) or (isinstance(value, int) and str(value) == node.text):
        return value
    if len(node.text) > _VALUE_CHARS or not _VALUE.fullmatch(node.text):
        message = (
            f"The value of policy {name!r} must be 1 to {_VALUE_CHARS} letters, digits and characters such as . - _ / :"
            " without spaces, quotes or brackets."
        )
        findings.error("InvalidPolicyValue", message, node)
    return node.text
