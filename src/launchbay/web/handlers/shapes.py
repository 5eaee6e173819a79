"""Small request and answer types that several families share. Fields are named as the API names them."""

import msgspec


class Named(msgspec.Struct):
    """An id with its name: the list item of organizations, applications and revisions (reference §2)."""

    id: str
    name: str


class Created(msgspec.Struct):
    """The id of what was created."""

    id: str


class NameBody(msgspec.Struct, forbid_unknown_fields=False):
    """A body that names something."""

    name: str


class ServiceItem(msgspec.Struct):
    """A service instance as lists show it."""

    id: str
    name: str
    typeId: str
