"""Digests of what an application, its components and workflows mean.

They are stored with each version. So what two versions differ in is known without compiling them.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

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


class ManifestDigests(msgspec.Struct, frozen=True, tag_field="kind", tag="digests"):
    """The digests of a manifest.

    `application` is that of its parameters, results, commands, needs and limits. Only digests of the same form compare.
    """

    form: int
    application: str
    components: dict[str, ComponentDigests]


class NoDigests(msgspec.Struct, frozen=True, tag_field="kind", tag="problem"):
    """Why a version has none: it no longer compiles.

    That is so for one `compiler` only: a later release, or another plug-in, may accept the version.
    """

    form: int
    problem: str
    compiler: str


Digests: TypeAlias = ManifestDigests | NoDigests
_read = msgspec.json.Decoder(Digests).decode


class _Form(msgspec.Struct):
    form: int


_read_form = msgspec.json.Decoder(_Form).decode


def read_digests(text: str | None, compiler: str) -> Digests | None:
    """Return what is stored of a version.

    None: nothing, or it is of another form, or another compiler refused the version.
    """
    if text is None:
        return None
    try:
        found = _read(text)
    except msgspec.ValidationError:
        return None
    is_known = found.form == DIGEST_FORM and (isinstance(found, ManifestDigests) or found.compiler == compiler)
    return found if is_known else None


def is_of_later_form(text: str | None) -> bool:
    """Return whether a server of a later release stored this, which must stay."""
    try:
        return text is not None and _read_form(text).form > DIGEST_FORM
    except msgspec.ValidationError:
        return False


def digests(manifest: CompiledManifest) -> ManifestDigests:
    """Return the digests of a manifest.

    They differ exactly where `compare_manifests` finds a difference.
    """
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
