"""The types of answers: the package `client/types`."""

from collections.abc import Iterator, Mapping
from typing import Any

from generators.schemas import annotation, components_in
from generators.words import Schema, docstring, literal, safe, snake

_ABOUT = "Made from the endpoint table by `python -m generators`; a test holds that it is up to date."


def types_modules(document: Schema) -> dict[str, str]:
    """Return file name → text of the package `client/types`: a struct for each component that answers are made of.

    A struct stands in the module of the first family that needs it, so that modules only import earlier ones.
    """
    families = _families(document)
    homes = {name: module for module, names in families.items() for name in names}
    modules = {
        f"{module}.py": _module(module, names, homes, document["components"]["schemas"])
        for module, names in families.items()
    }
    modules["__init__.py"] = _package(families)
    return modules


def _families(document: Schema) -> dict[str, list[str]]:
    """Return module → names of its structs, each after those that it is made of."""
    schemas, types = document["components"]["schemas"], wanted(document)
    families: dict[str, list[str]] = {}
    done: set[str] = set()

    def take(name: str, home: list[str]) -> None:
        if name in done or name not in types:
            return
        done.add(name)
        for inner in sorted(components_in(schemas[name].get("properties", {}))):
            take(inner, home)
        home.append(name)

    for methods in document["paths"].values():
        for operation in methods.values():
            home = families.setdefault(module_name(operation["tags"][0]), [])
            for name in sorted(_used(operation, schemas)):
                take(name, home)
    return {module: names for module, names in families.items() if names}


def module_name(tag: str) -> str:
    """Return the name of the module of a family."""
    return tag.lower().replace(" ", "_")


def _module(module: str, names: list[str], homes: Mapping[str, str], schemas: Schema) -> str:
    lines = [
        f'"""Types of the API: {module.replace("_", " ")}. Times are milliseconds since the Unix epoch.',
        "",
        _ABOUT,
        '"""',
    ]
    lines += ["", "from typing import Any", "", "import msgspec", ""]
    needed = set().union(*(components_in(schemas[name].get("properties", {})) for name in names))
    for name in sorted(needed):
        if homes[name] != module:
            lines.append(f"from launchbay.client.types.{homes[name]} import {name}")
    structs = [_struct(name, schemas[name]) for name in names]
    return "\n".join(lines) + "\n\n\n" + "\n\n\n".join(structs) + "\n"


def _package(families: Mapping[str, list[str]]) -> str:
    lines = ['"""The types of the API\'s answers.', "", _ABOUT, '"""', ""]
    lines += [f"from launchbay.client.types.{module} import {', '.join(names)}" for module, names in families.items()]
    every = ", ".join(literal(name) for name in sorted(name for names in families.values() for name in names))
    return "\n".join(lines) + f"\n\n__all__ = [{every}]\n"


def wanted(document: Schema) -> set[str]:
    """Return the names of the components that are types of the client."""
    schemas = document["components"]["schemas"]
    found = set().union(
        *(_used(operation, schemas) for methods in document["paths"].values() for operation in methods.values())
    )
    todo = list(found)
    while todo:
        for name in components_in(schemas[todo.pop()].get("properties", {})) - found:
            found.add(name)
            todo.append(name)
    return found


def _used(operation: Schema, schemas: Schema) -> set[str]:
    """Return the names that an operation's answer and the fields of its request refer to by themselves."""
    found: set[str] = set()
    for content in operation["responses"]["200"]["content"].values():
        found |= components_in(content.get("schema", {}))
    for content in operation.get("requestBody", {}).get("content", {}).values():
        for name in components_in(content["schema"]):
            found |= components_in(schemas[name].get("properties", {}))
    return found


def _struct(name: str, schema: Schema) -> str:
    lines = [f"class {name}(msgspec.Struct, frozen=True, kw_only=True, rename='camel'):"]
    lines.append(docstring([schema.get("description", f"{name}.")], "    "))
    lines.append("")
    lines.extend(_fields(schema))
    return "\n".join(lines)


def _fields(schema: Schema) -> Iterator[str]:
    required = set(schema.get("required", ()))
    for wire_name, field in schema.get("properties", {}).items():
        name = snake(wire_name)
        attribute = safe(name) if name in {"from", "to"} else name
        kind, default = annotation(field, sent=False), ""
        if wire_name not in required:
            default = _default(field)
            kind = kind if default != "None" or "None" in kind or kind == "Any" else f"{kind} | None"
        if attribute != name:
            default = f"msgspec.field(name={literal(wire_name)}" + (f", default={default})" if default else ")")
        yield f"    {attribute}: {kind}" + (f" = {default}" if default else "")


def _default(field: Any) -> str:
    default = field.get("default")
    if isinstance(default, list):
        return "[]"
    return literal(default) if isinstance(default, str) else repr(default)
