"""`getSignals` and `getEnvironmentProperties`: what the component consumes (manifest-language §5 "Scope", §9)."""

import asyncio
import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter
from launchbay.actions.parameters import (
    flag,
    optional_duration_s,
    optional_mapping,
    optional_text,
    required,
    required_duration_s,
    required_text,
    whole_number,
)
from launchbay.errors import ActionFailed


@dataclass(frozen=True)
class CommandCall:
    """Calls a command by the name of an interface; the same work under two names."""

    name: str
    aliases: tuple[str, ...] = ()
    pure: bool = True  # what it calls keeps its own records, and is repeated to bring back what it changed

    @property
    def parameters(self) -> Mapping[str, ActionParameter]:
        """The documented parameters by name."""
        return {
            "service": ActionParameter("The interface that has the command.", type="string", required=True),
            "command": ActionParameter("The command's name.", type="string", required=True),
            "arguments": ActionParameter("The command's arguments by name.", type="map<string,object>"),
            "timeout": ActionParameter('How long it may take: seconds, or a text such as "5 minutes".'),
        }

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs by name."""
        return {"result": "The command's results by name."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Send the command and wait for its results."""
        interface = required_text(call.parameters, "service", "the name of an interface of this component")
        command = required_text(call.parameters, "command", "the name of a command of that interface")
        arguments = optional_mapping(call.parameters, "arguments", "a map from argument names to values")
        timeout_s = optional_duration_s(call.parameters, "timeout")
        return {"result": await call.context.call_command(interface, command, arguments, timeout_s)}


class GetInstanceContext:
    """Tells the instance's id."""

    name = "getInstanceContext"
    aliases: tuple[str, ...] = ()
    pure = True
    parameters: Mapping[str, ActionParameter] = {}
    outputs: Mapping[str, str] = {"instanceId": "The id of the instance whose workflow runs."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Return the id."""
        return {"instanceId": call.context.instance_id}


@dataclass(frozen=True)
class NoOp:
    """Does nothing and says so in the step's log: steps have a log of their own here."""

    name: str
    aliases: tuple[str, ...] = ()
    pure: bool = True

    @property
    def parameters(self) -> Mapping[str, ActionParameter]:
        """None is looked at."""
        return {}

    @property
    def outputs(self) -> Mapping[str, str]:
        """There are none."""
        return {}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Say that nothing is done."""
        call.context.log("info", f"The action '{self.name}' is accepted and does nothing here.")
        return {}


LOGGING_ACTIONS = tuple(NoOp(name) for name in ("registerLogPath", "unregisterLogPath", "collectLogs", "logging"))

_INTERFACES = "a map from interface names to how many peers to wait for"


class WaitPeers:
    """Waits until every named interface has so many peers, then refreshes what `getSignals` sees."""

    name = "waitPeers"
    aliases: tuple[str, ...] = ()
    pure = True  # it changes nothing, and a recovery must refresh the signals again
    parameters: Mapping[str, ActionParameter] = {
        "interfaces": ActionParameter("How many peers each interface needs.", type="map<string,int>", required=True),
        "timeout": ActionParameter('How long to wait: seconds, or a text such as "20 minutes".'),
    }
    outputs: Mapping[str, str] = {}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Wait."""
        required(call.parameters, "interfaces", _INTERFACES)
        wanted = optional_mapping(call.parameters, "interfaces", _INTERFACES)
        interfaces = {
            interface: whole_number(count, f"interfaces.{interface}", minimum=0, maximum=limits.PEERS_MAX)
            for interface, count in wanted.items()
        }
        await call.context.wait_peers(interfaces, optional_duration_s(call.parameters, "timeout"))
        return {}


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


class GetSignals:
    """Reads the consumed signals, as seen at the workflow's start and refreshed by `waitPeers`."""

    name = "getSignals"
    aliases: tuple[str, ...] = ()
    pure = True
    parameters: Mapping[str, ActionParameter] = {
        "multi": ActionParameter("true: result[interface][peer][signal], for several peers.", type="bool"),
    }
    outputs: Mapping[str, str] = {"result": "The signals by interface and name."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Return the view that `multi` asks for."""
        view = call.context.signals
        return {"result": view.multi() if flag(call.parameters, "multi", default=False) else view.single()}


class GetEnvironmentProperties:
    """Reads what the environment offers: markers, properties and services."""

    name = "getEnvironmentProperties"
    aliases: tuple[str, ...] = ()
    pure = True
    parameters: Mapping[str, ActionParameter] = {}
    outputs: Mapping[str, str] = {"result": "The properties by interface and name, as `getSignals` gives them."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Return the signals of one peer per interface."""
        return {"result": call.context.signals.single()}


_REPORTS = 20  # of progress, at most
_SHORTEST_SLEEP_S = 1.0


class Wait:
    """Waits `delay`, counted from the step's first start: after a crash only the rest is waited."""

    name = "wait"
    aliases: tuple[str, ...] = ()
    pure = False
    parameters: Mapping[str, ActionParameter] = {
        "delay": ActionParameter('How long: seconds, or a text such as "2 minutes".', required=True),
    }
    outputs: Mapping[str, str] = {}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Wait, reporting the share that has passed."""
        delay_s = required_duration_s(call.parameters, "delay")
        context = call.context
        # The wall clock is read once, for what passed before this attempt: a step of it later changes nothing.
        before_s = (context.clock.now() - context.started_at).total_seconds()
        rest_s = min(max(delay_s - before_s, 0.0), delay_s)
        begin_s = context.clock.monotonic_s()
        nap_s = max(delay_s / _REPORTS, _SHORTEST_SLEEP_S)
        while (left_s := rest_s - (context.clock.monotonic_s() - begin_s)) > 0:
            await context.progress(min(int(100 * (delay_s - left_s) / delay_s), 99))
            # At least a millisecond: a clock may not tell shorter naps from none.
            await context.sleep(max(min(left_s, nap_s), 0.001))
        return {}
