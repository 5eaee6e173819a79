"""Small actions: signals, commands, `serialize`, `wait`, and names without effect (manifest-language §5, §9)."""

import asyncio
import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from yaml import YAMLError

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionDefaults, ActionParameter, OnlyReads
from launchbay.actions.parameters import (
    flag,
    one_of,
    optional_duration_s,
    optional_mapping,
    required,
    required_duration_s,
    required_text,
    text_or_default,
    whole_number,
    wrong_parameter,
)
from launchbay.errors import ActionFailed
from launchbay.model.durations import parse_duration_s
from launchbay.model.scalars import settled, text_of
from launchbay.model.yaml_text import yaml_text


class CommandCall(ActionDefaults):
    """Calls a command by the name of an interface, under two names."""

    pure = True  # the called steps have their own records, and a recovery repeats the call to restore their effects
    parameters: Mapping[str, ActionParameter] = {
        "service": ActionParameter("The interface of the command.", type="string", required=True),
        "command": ActionParameter("The name of the command.", type="string", required=True),
        "arguments": ActionParameter("The arguments by name.", type="map<string,object>", numbers="written"),
        "timeout": ActionParameter(
            'The maximum duration, in seconds or as a string such as "5 minutes".', check=parse_duration_s
        ),
    }
    outputs: Mapping[str, str] = {"result": "The results by name."}

    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        interface = required_text(call.parameters, "service", "the name of an interface of this component")
        command = required_text(call.parameters, "command", "the name of a command of that interface")
        arguments = optional_mapping(call.parameters, "arguments", "a map from argument names to values")
        timeout_s = optional_duration_s(call.parameters, "timeout")
        return {"result": await call.context.call_command(interface, command, arguments, timeout_s)}


class GetInstanceContext(OnlyReads):
    """Returns the instance's ID."""

    name = "getInstanceContext"
    computes = True
    pure = True
    parameters: Mapping[str, ActionParameter] = {}
    outputs: Mapping[str, str] = {"instanceId": "The ID of the instance whose workflow runs."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        return {"instanceId": call.context.instance_id}


class NoOp(OnlyReads):
    """Does nothing except to log that; every step has its own log here."""

    pure = True
    parameters: Mapping[str, ActionParameter] = {}
    outputs: Mapping[str, str] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        call.context.log("info", f"The action '{self.name}' has no effect here.")
        return {}


LOGGING_ACTIONS = tuple(
    map(
        NoOp,
        (
            "registerLogPath",
            "deregisterLogPath",
            "unregisterLogPath",
            "enableLogging",
            "disableLogging",
            "changeLoggerServer",
            "collectLogs",
            "logging",
        ),
    )
)

_INTERFACES = "a map from interface names to numbers of peers"


class WaitPeers(ActionDefaults):
    """Waits until every named interface has enough peers, then refreshes the signals for `getSignals`."""

    name = "waitPeers"
    pure = True  # a recovery must refresh the signals again
    parameters: Mapping[str, ActionParameter] = {
        "interfaces": ActionParameter("The number of peers by interface.", type="map<string,int>", required=True),
        "timeout": ActionParameter(
            'The maximum time to wait, in seconds or as a string such as "20 minutes".', check=parse_duration_s
        ),
    }
    outputs: Mapping[str, str] = {}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        required(call.parameters, "interfaces", _INTERFACES)
        wanted = optional_mapping(call.parameters, "interfaces", _INTERFACES)
        interfaces = {
            interface: whole_number(count, f"interfaces.{interface}", minimum=0, maximum=limits.PEERS_MAX)
            for interface, count in wanted.items()
        }
        await call.context.wait_peers(interfaces, optional_duration_s(call.parameters, "timeout"))
        return {}


_FORMATS = "JSON, YAML or CSV"


class Serialize(OnlyReads):
    """Writes `input` as JSON, YAML or CSV."""

    name = "serialize"
    computes = True
    pure = True
    parameters: Mapping[str, ActionParameter] = {
        "input": ActionParameter("The data to write.", required=True, numbers="written"),
        "format": ActionParameter(
            f"{_FORMATS}. Default: JSON.", type="string", check=one_of("JSON", "YAML", "CSV", any_case=True)
        ),
    }
    outputs: Mapping[str, str] = {"serialized": "The serialized text."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        if "input" not in call.parameters:
            raise ActionFailed("The parameter 'input' is missing: expected the data to write.", retryable=False)
        wanted = text_or_default(call.parameters, "format", _FORMATS, "JSON").strip().upper()
        writer = _WRITERS.get(wanted)
        if writer is None:
            raise wrong_parameter("format", _FORMATS)
        try:
            # In a thread, because a text near the limit would block the event loop.
            text = await asyncio.to_thread(writer, call.parameters["input"])
        except (TypeError, ValueError, YAMLError, csv.Error, RecursionError) as error:
            raise ActionFailed(f"Can't write the parameter 'input' as {wanted}: {error}.", retryable=False) from error
        if len(text) > limits.EXPRESSION_TEXT_CHARS:
            raise ActionFailed(
                f"The serialized text has {len(text)} characters. Limit: {limits.EXPRESSION_TEXT_CHARS}.",
                retryable=False,
            )
        return {"serialized": text}


def _json(value: Any) -> str:
    return json.dumps(settled(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _csv(value: Any) -> str:
    """Write one row for a list, rows for a list of lists, or a header and rows for maps. No line break at the end.

    `["{$.ips}"]` is a list in a list of one element, so it is one row: public manifests use it for `CLUSTER=a,b,c`.
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
    text = text_of(value)
    return _json(value) if text is None else text


_WRITERS = {"JSON": _json, "YAML": yaml_text, "CSV": _csv}


class GetSignals(OnlyReads):
    """Returns the consumed signals, as of the workflow's start or the last `waitPeers`."""

    name = "getSignals"
    pure = True
    parameters: Mapping[str, ActionParameter] = {
        "multi": ActionParameter("true: result[interface][peer][signal], for several peers.", type="bool")
    }
    outputs: Mapping[str, str] = {"result": "The signals by interface and name."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        view = call.context.signals
        return {"result": view.multi() if flag(call.parameters, "multi", default=False) else view.single()}


class GetEnvironmentProperties(OnlyReads):
    """Returns the environment's markers, properties and services."""

    name = "getEnvironmentProperties"
    computes = True
    pure = True
    parameters: Mapping[str, ActionParameter] = {}
    outputs: Mapping[str, str] = {"result": "The properties by interface and name, as `getSignals` returns them."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        return {"result": call.context.signals.single()}


_REPORTS = 20  # maximum number of progress reports
_SHORTEST_SLEEP_S = 1.0


class Wait(ActionDefaults):
    """Waits for `delay` from the step's first start: after a crash, only for the rest."""

    name = "wait"
    starts_unnoticed = True
    parameters: Mapping[str, ActionParameter] = {
        "delay": ActionParameter(
            'The duration, in seconds or as a string such as "2 minutes".', required=True, check=parse_duration_s
        )
    }
    outputs: Mapping[str, str] = {}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        delay_s = required_duration_s(call.parameters, "delay")
        context = call.context
        # The wall clock is read once, for the time before this attempt. Later changes of the clock have no effect.
        before_s = (context.clock.now() - context.started_at).total_seconds()
        rest_s = min(max(delay_s - before_s, 0.0), delay_s)
        begin_s = context.clock.monotonic_s()
        nap_s = max(delay_s / _REPORTS, _SHORTEST_SLEEP_S)
        with context.resting(rest_s):
            while (left_s := rest_s - (context.clock.monotonic_s() - begin_s)) > 0:
                await context.progress(min(int(100 * (delay_s - left_s) / delay_s), 99))
                # At least a millisecond, because a clock may not measure less.
                await context.sleep(max(min(left_s, nap_s), 0.001))
        return {}
