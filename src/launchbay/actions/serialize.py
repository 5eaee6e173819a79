"""`serialize`: data as text (manifest-language §9)."""

import asyncio
import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.parameters import optional_text
from launchbay.errors import ActionFailed

_NO_FOLDING = 2**31 - 1  # the longest line that the emitter knows
_FORMATS = "JSON, YAML or CSV"


class Serialize:
    """Writes `input` as JSON, YAML or CSV."""

    name = "serialize"
    aliases: tuple[str, ...] = ()
    pure = True
    parameters: Mapping[str, ActionParameter] = {
        "input": ActionParameter("What to write.", required=True),
        "format": ActionParameter(f"{_FORMATS}; JSON where it is left out.", type="string"),
    }
    outputs: Mapping[str, str] = {"serialized": "The text."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Write the input."""
        if "input" not in call.parameters:
            raise ActionFailed("The parameter 'input' is missing: expected the data to write.", retryable=False)
        wanted = (optional_text(call.parameters, "format", _FORMATS) or "JSON").strip().upper()
        writer = _WRITERS.get(wanted)
        if writer is None:
            raise ActionFailed(f"The parameter 'format' is wrong: expected {_FORMATS}.", retryable=False)
        try:
            # In a thread: a text near the bound takes long enough to be felt by everybody else on the loop.
            text = await asyncio.to_thread(writer, call.parameters["input"])
        except (TypeError, ValueError, yaml.YAMLError, csv.Error, RecursionError) as error:
            raise ActionFailed(
                f"The parameter 'input' cannot be written as {wanted}: {error}.", retryable=False
            ) from error
        if len(text) > limits.EXPRESSION_TEXT_CHARS:
            raise ActionFailed(
                f"The serialized text has {len(text)} characters; at most {limits.EXPRESSION_TEXT_CHARS} are possible.",
                retryable=False,
            )
        return {"serialized": text}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class _PlainDumper(yaml.CSafeDumper):
    """Writes what is used twice twice: readers of the text may know no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML asks about each node
        return True


def _yaml(value: Any) -> str:
    text: str = yaml.dump(value, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=_NO_FOLDING)
    return text.removesuffix("...\n")  # the mark that PyYAML sets after a bare scalar


def _csv(value: Any) -> str:
    """One row for a list, several for a list of lists; a header and rows for maps. No line break at the end.

    `["{$.ips}"]` gives a list in a list of one element: one row (used as `ETCD_CLUSTER=a,b,c` by public manifests).
    """
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(_rows(value))
    return buffer.getvalue().removesuffix("\n")


def _rows(value: Any) -> Iterable[list[str]]:
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple):
        return [[_cell(value)]]
    if value and all(isinstance(element, Mapping) for element in value):
        columns = list(dict.fromkeys(key for element in value for key in element))
        return [columns, *([_cell(element.get(column)) for column in columns] for element in value)]
    if any(isinstance(element, list | tuple) for element in value):
        return [[_cell(cell) for cell in row] if isinstance(row, list | tuple) else [_cell(row)] for row in value]
    return [[_cell(element) for element in value]] if value else []


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _json(value)


_WRITERS = {"JSON": _json, "YAML": _yaml, "CSV": _csv}
