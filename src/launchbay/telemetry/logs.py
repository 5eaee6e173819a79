"""Structured logs of the process, on standard error."""

import logging
import sys
import time
from collections.abc import Callable

import structlog
from structlog.typing import EventDict, Processor


class _Forwarding:
    """Passes each line on before it is written (`telemetry/collector.py`)."""

    def __init__(self) -> None:
        self.target: Callable[[EventDict], None] | None = None

    def __call__(self, _logger: object, _method: str, line: EventDict) -> EventDict:
        if self.target is not None:
            self.target(line)
        return line


forwarding = _Forwarding()
REPEAT_S = 60.0
_REPEATS_KNOWN = 1_000
# What ends an outage of the database, and what has begun it.
_OUTAGES = {"database.returned": "database.away", "database.disk_has_room": "database.disk_full"}


class _Repetitions:
    """Drops lines that repeat what another one of the last minute said.

    That concerns lines with `repeats=True`: of what is tried again and again, such as connecting. The first one of each
    event and error is written, then one each REPEAT_S, which says as `repeated` how many it stands for. None of them is
    written while the database is away or full: one line has said so, and all others follow from that.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[object, object], tuple[float, int]] = {}  # until when, and how many were dropped
        self._outages: set[str] = set()  # the events that began them

    def __call__(self, _logger: object, _method: str, line: EventDict) -> EventDict:
        if not line.pop("repeats", False):
            event = line["event"]
            if event in _OUTAGES.values():
                self._outages.add(event)
            elif event in _OUTAGES:
                self._outages.discard(_OUTAGES[event])
            return line
        if self._outages:
            raise structlog.DropEvent
        key, now_s = (line["event"], line.get("error")), time.monotonic()
        until_s, dropped = self._seen.get(key, (0.0, 0))
        if now_s < until_s:
            self._seen[key] = (until_s, dropped + 1)
            raise structlog.DropEvent
        if len(self._seen) >= _REPEATS_KNOWN:
            self._seen.clear()
        self._seen[key] = (now_s + REPEAT_S, 0)
        if dropped:
            line["repeated"] = dropped + 1
        return line


def configure_logs(level: str, form: str, process: int | None = None) -> None:
    """Send structlog's and the libraries' logs to standard error, as JSON lines or for a console, from a level on.

    Lines have `request_id` while a request is answered, `job` and `instance` while a job runs, and `step` in a step.
    `process` numbers the server process that writes them, if there are several.
    """
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if process is not None:

        def add_process(_: object, __: str, line: EventDict) -> EventDict:
            return {"process": process, **line}

        shared.append(add_process)
    shared += [_Repetitions(), forwarding]
    renderer: Processor = structlog.processors.JSONRenderer()
    last: list[Processor] = [structlog.processors.format_exc_info, renderer]
    if form == "console":
        # Without the local variables that structlog shows where rich is installed: they hold secrets (promise 10).
        plain = structlog.dev.plain_traceback
        last = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        # A line and its end in one write: processes that share a log would otherwise run their lines together.
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # What libraries log has the same form, and the ids of the request, job and step that made them do so.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING))
