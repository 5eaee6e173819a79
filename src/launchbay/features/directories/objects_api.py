"""Objects of an organization by name, as directories hold them (conformance.md, "Beyond the reference")."""

import asyncio
from typing import Annotated, Literal

import msgspec

from launchbay.clock import to_ms
from launchbay.features.directories import objects as directory_objects
from launchbay.features.directories.contents import Noun
from launchbay.features.directories.files import read_object_text
from launchbay.model.yaml_text import yaml_text
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import absolute_url
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Organizations", extension=True)

_Kind = Annotated[
    Literal["service", "service-account", "user", "git-source", "schedule"],
    msgspec.Meta(description="The kind of the object, which decides about its content."),
]
_Content = Annotated[str, msgspec.Meta(description="The text of the object's file, in YAML. It names other objects.")]


class NamedObject(msgspec.Struct):
    """An object as the file of a directory describes it, without secrets."""

    kind: _Kind
    id: str
    name: str
    content: _Content
    at: Annotated[list[str], msgspec.Meta(description="Kind and ID of the object that permissions of it name.")]


class UnexportedObject(NamedObject):
    """An object without a file. Its content may be empty."""

    reason: str


class DirectoryObjects(msgspec.Struct):
    """The objects, and a sentence for each thing that can't be in a directory."""

    objects: list[NamedObject]
    omitted: list[str]
    unexported: list[UnexportedObject]


class ObjectBody(msgspec.Struct, forbid_unknown_fields=True):
    """The object to make or to change."""

    kind: _Kind
    name: str
    content: _Content


class PutObject(msgspec.Struct, omit_defaults=True):
    """The ID of the object, and the invitation of a new user, shown once."""

    id: str
    invitation: str | None = None
    invitationExpiresAt: int | None = None


_ACCOUNT = "description: Deploys from the build server\nroles:\n- Guest\n"


@routes.get(
    "/organizations/{orgId}/directory",
    command="organization objects",
    permission="Read on each object returned",
    returns=Returns(
        "The objects.",
        {
            "objects": [
                {
                    "kind": "service-account",
                    "id": EXAMPLE_ID,
                    "name": "Deployment",
                    "content": _ACCOUNT,
                    "at": ["user", EXAMPLE_ID],
                }
            ],
            "omitted": ["service 'Default credentials service': the secret 'mail-password'"],
            "unexported": [],
        },
        type=DirectoryObjects,
    ),
)
async def read_directory(request: Request[None, None]) -> DirectoryObjects:
    """Show services, accounts, users, Git sources and schedules by name, without secrets."""
    found = await directory_objects.list_directory_objects(request.ctx, request.path["orgId"])
    return await asyncio.to_thread(_written, found)


def _written(found: directory_objects.Listing) -> DirectoryObjects:
    return DirectoryObjects(
        [NamedObject(*_shown(each)) for each in found.objects],
        found.omitted,
        [UnexportedObject(*_shown(each), each.reason) for each in found.unexported],
    )


def _shown(each: directory_objects.DirectoryObject) -> tuple[Noun, str, str, str, list[str]]:
    content = "" if each.reason and not each.content else yaml_text(each.content, keeps_numbers=True)
    return each.kind, each.id, each.name, content, list(each.at)


@routes.put(
    "/organizations/{orgId}/directory",
    command="organization put-object",
    permission="Those to create or to change such an object",
    body=JsonBody(required=True, example={"kind": "service-account", "name": "Deployment", "content": _ACCOUNT}),
    returns=Returns("The ID of the object.", {"id": EXAMPLE_ID}, type=PutObject),
    statuses=(409,),
)
async def put_directory_object(request: Request[ObjectBody, None]) -> PutObject:
    """Create the object of this name, or change it. Its secrets stay."""
    body = request.body
    content = await asyncio.to_thread(read_object_text, body.kind, body.content)
    made = await directory_objects.put_directory_object(
        request.ctx, request.path["orgId"], body.kind, body.name, content
    )
    if made.invitation is None:
        return PutObject(made.id)
    return PutObject(made.id, absolute_url(request, made.invitation.path), to_ms(made.invitation.expires_at))
