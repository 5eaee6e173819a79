"""What a directory says of an organization, and what an organization is, in the same form: names, no ids.

DIR
├── applications/NAME/
│   ├── manifest.yaml               the manifest, or
│   ├── source.yaml                 where it is loaded from: `url`
│   └── revisions/NAME/
│       ├── revision.yaml           parameters, environment, submodules
│       └── manifest.yaml           only where it is another than the application's
├── environments/NAME.yaml          default, policies, markers, properties, services
└── roles/NAME.yaml                 the role's text
"""

import re
from urllib.parse import unquote

import msgspec

from launchbay.model.archive import Environment, Revision

_ODD = re.compile(r'[/\\:*?"<>|%\x00-\x1f]|^[. ]|[. ]$')


class Source(msgspec.Struct, forbid_unknown_fields=True):
    """Where a manifest is loaded from."""

    url: str


class NamedRevision(msgspec.Struct):
    """A revision with its manifest; None is the application's own one."""

    content: Revision
    manifest: str | None = None


class Application(msgspec.Struct):
    """An application. `manifest` None leaves the manifest alone, `revisions` None the revisions."""

    manifest: str | None = None
    source: Source | None = None
    revisions: dict[str, NamedRevision] | None = None


class Contents(msgspec.Struct):
    """An organization, by name. None is a kind that the directory says nothing of."""

    applications: dict[str, Application] | None = None
    environments: dict[str, Environment] | None = None
    roles: dict[str, str] | None = None


def file_name(name: str) -> str:
    """Return a name as one of a file: what no file system takes is written as `%` and two digits."""
    return _ODD.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)


def object_name(stem: str) -> str:
    """Return the name that a file name stands for."""
    return unquote(stem, errors="strict")
