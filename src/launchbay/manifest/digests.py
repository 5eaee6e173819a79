"""Digests of what an application, its components and workflows mean.

They are stored with each version. So what two versions differ in is known without compiling them.
"""

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.meaning import DIGEST_FORM, digest
from launchbay.model.manifest_difference import ComponentChange


class ComponentDigests(msgspec.Struct, frozen=True):
    """Digests of the workflows of a component, and of all else that it has.

    The defaults of its pins count, too.
    """

    own: str
    workflows: dict[str, str]


class ManifestDigests(msgspec.Struct, frozen=True):
    """The digests of a manifest.

    `application` is that of its parameters, results, commands, needs and limits. Only digests of the same form compare.
    """

    form: int
    application: str
    components: dict[str, ComponentDigests]


_decode = msgspec.json.Decoder(ManifestDigests).decode


def read_digests(text: str | None) -> ManifestDigests | None:
    """Return stored digests; None if they are missing or of an earlier form."""
    if text is None:
        return None
    try:
        found = _decode(text)
    except msgspec.ValidationError:
        return None
    return found if found.form == DIGEST_FORM else None


def digests(manifest: CompiledManifest) -> ManifestDigests:
    """Return the digests of a manifest, which differ exactly where `compare_manifests` finds a difference."""
    meant = manifest.meant()
    components, defaults = meant.pop("components"), meant.pop("defaults")
    return ManifestDigests(
        DIGEST_FORM,
        digest(meant),
        {
            path: ComponentDigests(
                digest((replace(component, workflows={}), defaults.get(path, {}))),
                {name: digest(workflow) for name, workflow in component.workflows.items()},
            )
            for path, component in components.items()
        },
    )


def component_changes(before: ManifestDigests, after: ManifestDigests) -> Iterator[ComponentChange]:
    """Yield the components that differ."""
    for path in dict.fromkeys((*before.components, *after.components)):
        old, new = before.components.get(path), after.components.get(path)
        if old is None or new is None:
            yield ComponentChange(path, "added" if old is None else "removed")
        elif old != new:
            names = dict.fromkeys((*old.workflows, *new.workflows))
            workflows = [name for name in names if old.workflows.get(name) != new.workflows.get(name)]
            yield ComponentChange(path, "changed", workflows, other=old.own != new.own)
