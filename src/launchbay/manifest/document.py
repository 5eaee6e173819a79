"""Tells component manifests from workflow manifests and reads both into one typed manifest (manifest-language §1)."""

from launchbay.manifest.components import read_component
from launchbay.manifest.syntax import ManifestSyntax
from launchbay.manifest.tree import MappingNode, Node, kind_of
from launchbay.manifest.v1 import read_workflow_manifest
from launchbay.model.findings import Findings

_ROOTS = ("application", "root")


def read_document(document: Node, findings: Findings) -> ManifestSyntax | None:
    """Return the typed manifest; None, with one error, where the document is no map."""
    if not isinstance(document, MappingNode):
        message = f"A manifest must be a map, but it is {kind_of(document)}. Start with `application:` or `launch:`."
        findings.error("UnexpectedKind", message, document)
        return None
    roots = [key for key in _ROOTS if key in document]
    if not roots:
        return read_workflow_manifest(document, findings)
    for key in document.children:
        if key in _ROOTS and key != roots[0]:
            message = f"The manifest has both '{roots[0]}' and '{key}', which mean the same; keep one of them."
            findings.error("DuplicateKey", message, document.place_of(key))
        elif key != roots[0]:
            message = f"The key '{key}' beside '{roots[0]}' is unknown and ignored."
            findings.warning("UnknownKey", message, document.place_of(key))
    return ManifestSyntax(read_component("", document.children[roots[0]], findings), is_component_manifest=True)
