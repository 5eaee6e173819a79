"""The policies of an environment as a YAML document, both ways (reference §2, "Environment policies"). Pure.

    policies:
      provisionVms.hardwareId: m1.small
      execrun.ignoreFail: true

One top-level key, dotted names (`action.parameter`, manifest-language §8), scalar values: true, false, whole numbers
and identifier-like texts. A number of another form, such as `1.10`, is kept as the text that was written: it stands for
a version as often as for a number, and a step's parameter makes a number of it without loss.
"""

import re
from typing import TypeAlias

import yaml

from launchbay.errors import BadRequest, InvalidManifest
from launchbay.manifest.reader import read
from launchbay.manifest.tree import MappingNode, Node, ScalarNode, is_null, kind_of
from launchbay.model.findings import Findings

PolicyValue: TypeAlias = bool | int | str

_KEY = "policies"
_NAME = re.compile(r"[\w-]+(\.[\w-]+)+")
_VALUE = re.compile(r"[\w./:@+=,%~?&#*!$-]+")
_VALUE_CHARS = 1_024
_NAME_CHARS = 255


def read_policies(text: str) -> dict[str, PolicyValue]:
    """Return the policies by name, in the order of the document.

    Raises BadRequest with a sentence for everything that is wrong, each with its line and column.
    """
    findings = Findings()
    try:
        policies = _policies(read(text.encode()), findings)
        findings.raise_errors()
    except InvalidManifest as error:
        # The reader speaks of manifests, which is what else it reads.
        sentences = (sentence.replace("manifest", "document") for sentence in error.messages)
        raise BadRequest(*sentences, code="InvalidPolicies") from None
    return policies


def write_policies(policies: dict[str, PolicyValue]) -> str:
    """Return the document that `read_policies` reads as these policies."""
    text: str = yaml.dump(
        {_KEY: policies}, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return text


def _policies(document: Node, findings: Findings) -> dict[str, PolicyValue]:
    if not isinstance(document, MappingNode):
        message = f"The document must be a map with the one key '{_KEY}', but it is {kind_of(document)}."
        findings.error("UnexpectedKind", message, document)
        return {}
    for key in document.children:
        if key != _KEY:
            findings.error(
                "UnknownKey", f"The key {key[:80]!r} is unknown; only '{_KEY}' stands here.", document.place_of(key)
            )
    if _KEY not in document:
        findings.error("MissingKey", f"The key '{_KEY}' is missing; put the policies below it.", document)
        return {}
    section = document.children[_KEY]
    if is_null(section):  # all entries are commented out
        return {}
    if not isinstance(section, MappingNode):
        message = f"'{_KEY}' must be a map from names to values, but it is {kind_of(section)}."
        findings.error("UnexpectedKind", message, section)
        return {}
    found: dict[str, PolicyValue] = {}
    for name, node in section.items():
        if len(name) > _NAME_CHARS or not _NAME.fullmatch(name):
            message = f"The policy's name {name[:80]!r} must be an action and a parameter with a dot between them."
            findings.error("InvalidPolicyName", message, section.place_of(name))
        else:
            found[name] = _value(name, node, findings)
    return found


def _value(name: str, node: Node, findings: Findings) -> PolicyValue:
    if not isinstance(node, ScalarNode) or node.value is None:
        message = f"The policy {name!r} must be true, false, a number or an identifier, but it is {kind_of(node)}."
        findings.error("InvalidPolicyValue", message, node)
        return ""
    value = node.value
    if isinstance(value, bool) or (isinstance(value, int) and str(value) == node.text):
        return value
    if len(node.text) > _VALUE_CHARS or not _VALUE.fullmatch(node.text):
        message = (
            f"The value of the policy {name!r} must be like an identifier: 1 to {_VALUE_CHARS} letters, digits and "
            "signs such as . - _ / : without spaces, quotes or brackets."
        )
        findings.error("InvalidPolicyValue", message, node)
    return node.text
