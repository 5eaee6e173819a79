"""An organization as a directory of files, with names instead of ids.

DIR
├── applications/NAME/
│   ├── manifest.yaml               the manifest, or
│   ├── source.yaml                 `url` that the manifest is loaded from
│   ├── labels.yaml                 labels of the application, if it has any
│   ├── rules.yaml                  lifetime, sleep, concurrency, freeze, if there are any
│   ├── promotion.yaml              its own order of environments, if it has one
│   └── revisions/NAME/
│       ├── revision.yaml           parameters, environment, submodules
│       └── manifest.yaml           only if it differs from the application's
├── environments/NAME.yaml          default, policies, markers, properties, services, labels, rules
├── git-sources/NAME.yaml           sources in Git
├── promotion.yaml                  order of environments, if there is one
├── roles/NAME.yaml                 permissions of the role
├── schedules/NAME.yaml             recurring schedules of launches and bulk runs
├── service-accounts/NAME.yaml      description, roles
├── services/NAME.yaml              type, parameters
└── users/EMAIL.yaml                name, roles
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

import msgspec

from launchbay.auth.gate import read_role_text
from launchbay.egress.addresses import POLICY_CHECKS
from launchbay.errors import BadRequest, InvalidManifest
from launchbay.features.directories.contents import KINDS, Noun, ObjectKind, read_object
from launchbay.features.directories.values import Environment, PromotionOrder, Revision, RuleOwner, Rules, WrongRules
from launchbay.limits import LABELS
from launchbay.manifest.policies import check_policies
from launchbay.manifest.reader import read
from launchbay.manifest.tree import MappingNode, Node, SequenceNode, is_null, written_data
from launchbay.model.cron import parse as parse_cron
from launchbay.model.email_address import canonical_email
from launchbay.model.environment import Marker, Property, validate_markers, validate_properties
from launchbay.model.labels import read_labels
from launchbay.model.scalars import NumberTooLarge, WrittenInt, as_texts, decode_json, for_json, settled, text_of
from launchbay.model.schedule import zone_of
from launchbay.model.types import TypeSyntaxError, parse_type
from launchbay.model.values import CoercionError, coerce
from launchbay.model.wrong_values import WrongDocument, converted
from launchbay.model.yaml_text import yaml_text

_LINE = re.compile(r"\b[Ll]ine (\d+), column (\d+): ")  # as readers of YAML give places
_ODD = re.compile(r'[/\\:*?"<>|%\x00-\x1f]|^[. ]|[. ]$')


class Source(msgspec.Struct, forbid_unknown_fields=True):
    """The address that a manifest is loaded from."""

    url: str


class NamedRevision(msgspec.Struct):
    """A revision with its manifest; None is the application's manifest."""

    content: Revision
    manifest: str | None = None


class Application(msgspec.Struct):
    """An application. None leaves a part of it unchanged."""

    manifest: str | None = None
    source: Source | None = None
    labels: dict[str, str] | None = None
    revisions: dict[str, NamedRevision] | None = None
    rules: Rules | None = None
    promotion: PromotionOrder | None = None


class Contents(msgspec.Struct):
    """The objects of an organization by name.

    None is a kind without a folder in the directory, or no file of the order. `objects` are values in the form of
    `contents.py`, by kind. `omitted` says what of the organization a directory can't hold.
    """

    applications: dict[str, Application] | None = None
    environments: dict[str, Environment] | None = None
    roles: dict[str, str] | None = None
    objects: dict[Noun, dict[str, dict[str, Any]]] = {}
    omitted: list[str] = []
    sources: dict[tuple[str, str], tuple[str, Any]] = {}  # path and document of an object's file, by kind and name
    promotion: PromotionOrder | None = None

    def place(self, noun: Noun, name: str, *keys: str | int) -> str:
        """Return where a value in the file of an object is."""
        default = (f"{KINDS[noun].folder}/{file_name(name)}.yaml", None)
        return _place(*self.sources.get((noun, name), default), keys)

    def place_in_order(self, application: str | None, *keys: str | int) -> str:
        """Return where a value in the file of a promotion order is."""
        default = (ORDER_FILE if application is None else f"applications/{file_name(application)}/{ORDER_FILE}", None)
        return _place(*self.sources.get((ORDER_FILE, application or ""), default), keys)


def _place(path: str, node: Node | None, keys: Iterable[str | int]) -> str:
    """Return where a value is, or the innermost part around it."""
    if node is None:
        return path
    for key in keys:
        inner: Node | None = None
        if isinstance(node, MappingNode):
            inner = node.get(str(key))
        elif isinstance(node, SequenceNode) and isinstance(key, int) and key < len(node.children):
            inner = node.children[key]
        if inner is None:
            break
        node = inner
    return f"{path}:{node.line}:{node.column}"


def file_name(name: str) -> str:
    """Return the file name of an object, with refused characters percent-encoded."""
    return _ODD.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)


def object_name(stem: str) -> str:
    """Return the name of the object that a file is named after."""
    return unquote(stem, errors="strict")


T = TypeVar("T")
ORDER_FILE = "promotion.yaml"
_KINDS = tuple(sorted(("applications", "environments", "roles", *(each.folder for each in KINDS.values()))))
_NAMES = ", ".join(sorted((*_KINDS, ORDER_FILE)))
_APPLICATION_FILES = ("manifest.yaml", "source.yaml", "labels.yaml", "rules.yaml", "promotion.yaml", "revisions")


class Folder(Protocol):
    """A file or folder, such as a `pathlib.Path` or `FileTree`.

    Its text is its path, for messages.
    """

    @property
    def name(self) -> str:
        """The last part of the path."""

    def is_dir(self) -> bool: ...

    def is_file(self) -> bool: ...

    def iterdir(self) -> "Iterable[Folder]": ...

    def read_bytes(self) -> bytes: ...

    def __truediv__(self, name: str, /) -> "Folder": ...

    def __lt__(self, other: Any, /) -> bool: ...


class FileTree:
    """A file in memory, or a folder of them."""

    def __init__(self, path: str = "", content: bytes | None = None) -> None:
        self._path = path
        self._content = content
        self.inside: dict[str, FileTree] = {}

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> "FileTree":
        """Return the folder of some files, given by their paths with slashes."""
        root = cls()
        for path, content in files.items():
            *folders, name = path.split("/")
            found = root
            for folder in folders:
                found = found.inside.setdefault(folder, found / folder)
            found.inside[name] = FileTree(str(found / name), content)
        return root

    def __str__(self) -> str:
        return self._path or "."

    def __lt__(self, other: "FileTree") -> bool:
        return self._path < other._path

    def __truediv__(self, name: str) -> "FileTree":
        return self.inside.get(name) or FileTree(f"{self._path}/{name}" if self._path else name)

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    def is_file(self) -> bool:
        return self._content is not None

    def is_dir(self) -> bool:
        return bool(self.inside)

    def iterdir(self) -> "Iterable[FileTree]":
        return self.inside.values()

    def read_bytes(self) -> bytes:
        """Return the content. Raises IsADirectoryError for a folder."""
        if self._content is None:
            raise IsADirectoryError(f"{self} is no file")
        return self._content


def read_directory(root: Folder) -> Contents:
    """Return the contents of a directory. Raises BadRequest with all problems."""
    reader = _Reader()
    contents = Contents()
    for path in _visible(root):
        if path.name not in (*_KINDS, ORDER_FILE):
            reader.problems.append(f"{path}: unexpected name. Valid names: {_NAMES}.")
    if (root / "roles").is_dir():
        contents.roles = dict(reader.files(root / "roles", reader.role))
    if (root / "environments").is_dir():
        contents.environments = dict(reader.files(root / "environments", reader.environment))
    if (root / "applications").is_dir():
        contents.applications = {
            reader.name(path, path.name): reader.application(path) for path in _visible(root / "applications")
        }
    for noun, kind in KINDS.items():
        if (root / kind.folder).is_dir():
            found = list(reader.files(root / kind.folder, partial(reader.checked_object, kind)))
            contents.objects[noun] = {reader.email(name) if noun == "user" else name: each for name, each in found}
            for name, _ in found:
                source = str(root / kind.folder / f"{file_name(name)}.yaml")
                contents.sources[noun, name] = (source, reader.nodes.get(source))
            if len(contents.objects[noun]) < len(found):
                reader.problems.append(f"{root / kind.folder}: two files are of the same person.")
    _read_orders(reader, root, contents)
    if contents == Contents() and not reader.problems:
        reader.problems.append(f"{root}: the directory is empty. Valid names: {_NAMES}.")
    if reader.problems:
        raise BadRequest(*reader.problems, code="InvalidDirectory")
    return contents


def _read_orders(reader: "_Reader", root: Folder, contents: Contents) -> None:
    """Read the order of the organization, and note where all orders are."""
    if any(path.name == ORDER_FILE for path in _visible(root)):
        contents.promotion = reader.order(root / ORDER_FILE)
    owners = {"": root, **{name: root / "applications" / file_name(name) for name in contents.applications or {}}}
    for name, folder in owners.items():
        source = str(folder / ORDER_FILE)
        if source in reader.nodes:
            contents.sources[ORDER_FILE, name] = (source, reader.nodes[source])


def texts(root: Folder) -> dict[str, str]:
    """Return the visible files of a directory by their paths with slashes. Raises UnicodeDecodeError."""
    found: dict[str, str] = {}
    for path in _visible(root):
        if path.is_dir():
            found |= {f"{path.name}/{name}": text for name, text in texts(path).items()}
        else:
            found[path.name] = path.read_bytes().decode()
    return found


def read_object_text(noun: Noun, text: str) -> dict[str, Any]:
    """Return the content of an object from the text of its file (`read_object`).

    Raises BadRequest with all problems.
    """
    reader = _Reader()
    found = reader.object(KINDS[noun], FileTree("content", text.encode()))
    if reader.problems:
        raise BadRequest(*reader.problems, code="InvalidDirectory")
    return found


class _Reader:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.nodes: dict[str, Node] = {}  # by path

    def note(self, path: Folder, keys: Iterable[str | int], message: str) -> None:
        """Note a problem at the place that its message has, or at `keys`."""
        place = _LINE.search(message)
        if place:
            self.problems.append(f"{path}:{place[1]}:{place[2]}: {message[: place.start()]}{message[place.end() :]}")
        else:
            self.problems.append(f"{_place(str(path), self.nodes.get(str(path)), keys)}: {message}")

    def role(self, path: Folder) -> str:
        """Return the text of a role after noting problems with it."""
        text = self.text(path)
        try:
            read_role_text(text)
        except BadRequest as error:
            for message in error.messages:
                self.note(path, (), message)
        return text

    def checked_object(self, kind: ObjectKind, path: Folder) -> dict[str, Any]:
        """Return the object in a file after noting problems with its times."""
        found = self.object(kind, path)
        if kind.noun == "schedule" and found:
            for field, check in (("cron", parse_cron), ("zone", zone_of)):
                try:
                    check(found.get(field, "UTC"))
                except ValueError as error:
                    self.note(path, (field,), f"{field}: {error}")
        return found

    def files(self, folder: Folder, content: Callable[[Folder], T]) -> Iterator[tuple[str, T]]:
        for path in _visible(folder):
            if not path.name.endswith(".yaml") or not path.is_file():
                self.problems.append(f"{path}: unexpected name. Rename it to {_stem(path)}.yaml.")
                continue
            yield self.name(path, _stem(path)), content(path)

    def environment(self, path: Folder) -> Environment:
        found = self.document(path, Environment)
        self.labels(path, found.labels or {}, "labels")
        node = self.nodes.get(str(path))
        section = node.get("policies") if isinstance(node, MappingNode) else None
        if found.policies is not None and section is not None:
            for each in check_policies(section, POLICY_CHECKS):
                self.problems.append(f"{path}:{each.line}:{each.column}: {each.message}")
        self._markers_and_properties(path, found)
        if found.rules is not None:
            found.rules = self.rules(path, found.rules, "environment", "rules")
        return found

    def _markers_and_properties(self, path: Folder, found: Environment) -> None:
        """Note what the server would refuse."""
        try:
            validate_markers([Marker(each) for each in found.markers or ()])
        except BadRequest as error:
            self.note(path, ("markers",), " ".join(error.messages))
        # The value as the server gets it: a number that remembers its text is JSON.
        entries = [
            Property(each.name, decode_json(msgspec.json.encode(each.value)), each.type)
            for each in found.properties or ()
        ]
        wrong = False
        for index, each in enumerate(entries):
            try:
                validate_properties([each])
            except BadRequest as error:
                wrong = True
                self.note(path, ("properties", index, "value"), " ".join(error.messages))
        if not wrong:
            try:
                validate_properties(entries)
            except BadRequest as error:
                self.note(path, ("properties",), " ".join(error.messages))

    def application(self, folder: Folder) -> Application:
        found = Application()
        for path in _visible(folder):
            if path.name == "manifest.yaml":
                found.manifest = self.text(path)
            elif path.name == "source.yaml":
                found.source = self.document(path, Source)
            elif path.name == "labels.yaml":
                found.labels = self.labels(path, self.document(path, dict[str, str]))
            elif path.name == "rules.yaml":
                found.rules = self.rules(path, self.document(path, Rules), "application")
            elif path.name == ORDER_FILE:
                found.promotion = self.order(path)
            elif path.name == "revisions" and path.is_dir():
                found.revisions = {self.name(each, each.name): self._revision(each) for each in _visible(path)}
            else:
                self.problems.append(f"{path}: unexpected name. Valid names: {', '.join(_APPLICATION_FILES)}.")
        if found.manifest is not None and found.source is not None:
            self.problems.append(f"{folder}: contains manifest.yaml and source.yaml. Delete one of them.")
        return found

    def _revision(self, folder: Folder) -> NamedRevision:
        found = NamedRevision(Revision())
        for path in _visible(folder) if folder.is_dir() else [folder]:
            if path.name == "revision.yaml":
                found.content = self.document(path, Revision)
            elif path.name == "manifest.yaml":
                found.manifest = self.text(path)
            else:
                self.problems.append(f"{path}: unexpected name. Valid names: revision.yaml, manifest.yaml.")
        return found

    def text(self, path: Folder) -> str:
        """Return the text of a file with its line ends unchanged."""
        try:
            return path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self.problems.append(f"{path}: can't read the file: {error}.")
            return ""

    def document(self, path: Folder, kind: type[T]) -> T:
        """Return the document in a file, or an empty one after noting a problem."""
        found = self._read(path, lambda value: converted(_in_types_of(kind, value), kind))
        if found is not None:
            return found
        return kind() if kind is not Source else kind(url="")  # type: ignore[call-arg] # after a problem, no one reads it

    def email(self, name: str) -> str:
        """Return the stored form of an email address after noting a problem with it."""
        try:
            return canonical_email(name)
        except BadRequest as error:
            self.problems.append(f"users/{name}.yaml: {' '.join(error.messages)}")
            return name

    def object(self, kind: ObjectKind, path: Folder) -> dict[str, Any]:
        """Return the object in a file, or nothing after noting a problem."""
        return self._read(path, partial(read_object, kind)) or {}

    def _read(self, path: Folder, convert: Callable[[Any], T]) -> T | None:
        """Return what a file's values convert to, or None after noting a problem."""
        text = self.text(path)
        try:
            node = read(text.encode(), keeps_numbers=True) if text.strip() else None
            if node is not None:
                self.nodes[str(path)] = node
            return convert({} if node is None or is_null(node) else written_data(node))
        except InvalidManifest as error:
            for found in error.findings:
                message = str(found["message"]).replace("The manifest", "The file")
                self.problems.append(f"{path}:{found['line']}:{found['column']}: {message}")
        except WrongDocument as error:
            self.note(path, error.keys, str(error))
        return None

    def labels(self, path: Folder, found: dict[str, str], *keys: str | int) -> dict[str, str]:
        """Return the labels at `keys` of a file after noting problems with them."""
        if len(found) > LABELS:
            self.note(path, keys, f"There are {len(found)} labels; at most {LABELS} are allowed.")
            return found
        for name, value in found.items():
            try:
                read_labels({name: value})
            except BadRequest as error:
                self.note(path, (*keys, name), " ".join(error.messages))
        return found

    def rules(self, path: Folder, found: Rules, kind: RuleOwner, *keys: str | int) -> Rules:
        """Return the rules at `keys` of a file after noting a problem with them."""
        try:
            return found.canonical(kind)
        except WrongRules as error:
            self.note(path, (*keys, *error.keys), " ".join(error.messages))
            return Rules()

    def order(self, path: Folder) -> PromotionOrder | None:
        """Return the promotion order in a file after noting problems with it."""
        found = self._read(path, lambda value: converted(_in_types_of(PromotionOrder, value), PromotionOrder))
        for index, field, message in () if found is None else found.problems():
            keys = [each for each in (index, field) if each not in (None, "")]
            self.note(path, ("stages", *keys), f"{field}: {message}" if field else message)
        return found

    def name(self, path: Folder, stem: str) -> str:
        """Return the name of the object that a file or folder is named after."""
        try:
            return object_name(stem)
        except UnicodeDecodeError:
            self.problems.append(f"{path}: invalid % escape in the name. Write % as %25.")
            return stem


def _in_types_of(kind: Any, value: Any) -> Any:
    """Return a document with its numbers in the form of each part.

    Texts where those are wanted; JSON with the same text where the API knows the type. Raises WrongDocument for a
    number that JSON doesn't have.
    """
    if not isinstance(value, dict):
        return value
    of_all = as_texts if kind in (dict[str, str], Source) else settled
    return {
        name: _changed(
            _IN_TYPES.get(name, settled) if kind in (Environment, PromotionOrder, Revision) else of_all, each, name
        )
        for name, each in value.items()
    }


def _changed(change: Callable[[Any], Any], value: Any, key: str | int) -> Any:
    """Return a changed part of a document. Raises WrongDocument with its key."""
    try:
        return change(value)
    except WrongDocument as error:
        raise error.inside(key) from None
    except ValueError as error:
        raise WrongDocument(str(error), (key,)) from None


def _each_for_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return for_json(value)
    return {name: _changed(for_json, each, name) for name, each in value.items()}


_KEPT_AS_TEXT = (float, WrittenInt, NumberTooLarge)


def _policies(value: Any) -> Any:
    """Return policies as the server stores them: most numbers are strings."""
    if not isinstance(value, dict):
        return value
    return {name: text_of(each) if isinstance(each, _KEPT_AS_TEXT) else each for name, each in value.items()}


def _properties(value: Any) -> Any:
    """Return properties as the server takes them."""
    if not isinstance(value, list):
        return settled(value)
    return [_changed(_property, each, index) for index, each in enumerate(value)]


def _property(entry: Any) -> Any:
    """Return a property with its value converted to its type.

    The server refuses a value of another type.
    """
    if not isinstance(entry, dict) or "value" not in entry:
        return settled(entry)
    value = entry["value"]
    try:
        found = coerce(parse_type(str(entry.get("type"))), value)
    except (CoercionError, TypeSyntaxError):
        found = _changed(for_json, value, "value")
    return {**as_texts({**entry, "value": None}), "value": found}


def _stages(value: Any) -> Any:
    """Return the stages of an order: names are texts."""
    if not isinstance(value, list):
        return settled(value)
    return [_changed(_stage, each, index) for index, each in enumerate(value)]


def _stage(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return settled(entry)
    return {name: (as_texts if name in _NAMED else settled)(each) for name, each in entry.items()}


_NAMED = ("environment", "workflows")
_TYPED = (Environment, PromotionOrder, Revision)
_IN_TYPES: Mapping[str, Callable[[Any], Any]] = {
    "policies": _policies,
    "properties": _properties,
    "parameters": _each_for_json,
    "submodules": _each_for_json,
    "labels": as_texts,
    "environment": as_texts,
    "markers": as_texts,
    "services": as_texts,
    "stages": _stages,
}


def _stem(path: Folder) -> str:
    return PurePosixPath(path.name).stem


def _visible(folder: Folder) -> list[Folder]:
    """Return the content of a folder, without names that start with a dot."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []


def write_directory(root: Path, contents: Contents) -> int:
    """Write the contents, and return the number of files."""
    files: dict[Path, str] = {}
    for name, text in (contents.roles or {}).items():
        files[root / "roles" / f"{file_name(name)}.yaml"] = text
    for name, environment in (contents.environments or {}).items():
        files[root / "environments" / f"{file_name(name)}.yaml"] = _document(environment)
    for name, application in (contents.applications or {}).items():
        files |= _application(root / "applications" / file_name(name), application)
    for noun, objects in contents.objects.items():
        for name, content in objects.items():
            files[root / KINDS[noun].folder / f"{file_name(name)}.yaml"] = yaml_text(content, keeps_numbers=True)
    files |= _order_file(root, contents.promotion)
    for folder in _KINDS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return len(files)


def _order_file(folder: Path, order: PromotionOrder | None) -> dict[Path, str]:
    """Return the file of an order.

    One that is gone must not come back from the file of an earlier export.
    """
    path = folder / ORDER_FILE
    return {path: _document(order or PromotionOrder(None))} if order is not None or path.exists() else {}


def _application(folder: Path, application: Application) -> dict[Path, str]:
    files: dict[Path, str] = {}
    if application.source is not None:
        files[folder / "source.yaml"] = _document(application.source)
    elif application.manifest is not None:
        files[folder / "manifest.yaml"] = application.manifest
    # An application that has lost its labels must not get them back from the file of an earlier export.
    if application.labels or (folder / "labels.yaml").exists():
        files[folder / "labels.yaml"] = yaml_text(application.labels or {})
    rules = application.rules or Rules()
    if rules != Rules() or (folder / "rules.yaml").exists():
        files[folder / "rules.yaml"] = _document(rules)
    files |= _order_file(folder, application.promotion)
    for name, revision in (application.revisions or {}).items():
        files[folder / "revisions" / file_name(name) / "revision.yaml"] = _document(revision.content)
        if revision.manifest is not None:
            files[folder / "revisions" / file_name(name) / "manifest.yaml"] = revision.manifest
    return files


def _document(value: Any) -> str:
    return yaml_text(msgspec.to_builtins(value))
