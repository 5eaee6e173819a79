"""Traces from a request through its job to the steps, sent to an OpenTelemetry collector (setting `otlp_endpoint`).

OpenTelemetry comes with the extra `launchbay[telemetry]` and is loaded only where the setting asks for it. Without it,
a span costs a call and a comparison. Spans hold ids and names of actions, never parameters or texts of errors.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from launchbay import __version__
from launchbay.egress.proxy import OutgoingProxy
from launchbay.errors import CannotStart

# The trace that the running code belongs to, as W3C Trace Context writes it; "" where nothing is traced.
#
# Set by `telemetry/tracing.py`, and frozen into the plans of jobs: a job goes on the trace of whoever asked for it.

trace_parent: ContextVar[str] = ContextVar("trace parent", default="")

Attributes = Mapping[str, str | int]
_NOTHING: AbstractContextManager[None] = nullcontext()
_PORTS = {"http": 80, "https": 443}
_INSTANCE = str(uuid4())  # of this process, so that a collector tells its values from those of others


def optional_module(name: str) -> Any:
    """Return a module of OpenTelemetry. Raises CannotStart if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise CannotStart(
            f"LAUNCHBAY_OTLP_ENDPOINT is set, and OpenTelemetry is not installed: {error}.",
            "Install it with: pip install 'launchbay[telemetry]'",
            code="TelemetryMissing",
        ) from error


def resource(service: str) -> Any:
    """Return what OpenTelemetry says about this process with everything that it sends."""
    about = {"service.name": service, "service.version": __version__, "service.instance.id": _INSTANCE}
    return optional_module("opentelemetry.sdk.resources").Resource.create(about)


def trace_headers() -> dict[str, str]:
    """Return the header that continues the trace (W3C Trace Context), if any."""
    return {"traceparent": parent} if (parent := trace_parent.get()) else {}


def http_session(endpoint: str, proxy: OutgoingProxy | None) -> Any:
    """Return the session that reaches the collector, if need be through the proxy."""
    session = optional_module("requests").Session()
    session.trust_env = False  # no proxy of the environment, as in all connections of this server
    parts = urlsplit(endpoint)
    if proxy is not None and proxy.carries(parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)):
        session.proxies = dict.fromkeys(_PORTS, proxy.url_with_credentials)
    return session


def trace_variables() -> dict[str, str]:
    """Return the environment variable that continues the trace, if any."""
    return {"TRACEPARENT": parent} if (parent := trace_parent.get()) else {}


class Tracing:
    """The one way to spans; made at start, `off` or sending somewhere."""

    def __init__(self) -> None:
        self._begin: Callable[[str, str, Attributes], AbstractContextManager[Any]] | None = None

    @property
    def is_on(self) -> bool:
        return self._begin is not None

    def span(self, name: str, attributes: Attributes, parent: str = "") -> AbstractContextManager[Any]:
        """Return a span for the time of a block, under `parent` (a W3C traceparent) or else under the running one.

        Inside of the block it is the trace parent. The type of an exception that leaves the block is noted in it. What
        the block gets is OpenTelemetry's own span, or None where nothing is traced.
        """
        return _NOTHING if self._begin is None else self._begin(name, parent, attributes)

    def send_to(self, endpoint: str, service: str, proxy: OutgoingProxy | None = None) -> Callable[[], None]:
        """Send spans to the collector at an http(s) address from now on; call what is returned to end that.

        Raises CannotStart where OpenTelemetry is not installed.
        """
        exporting = optional_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        batches = optional_module("opentelemetry.sdk.trace.export")
        exporter = exporting.OTLPSpanExporter(
            endpoint=endpoint.rstrip("/") + "/v1/traces", session=http_session(endpoint, proxy)
        )
        return self._send(batches.BatchSpanProcessor(exporter), service)

    def _send(self, processor: Any, service: str) -> Callable[[], None]:
        provider = import_module("opentelemetry.sdk.trace").TracerProvider(
            resource=resource(service), shutdown_on_exit=False
        )
        provider.add_span_processor(processor)
        self._begin = _beginning(provider.get_tracer("launchbay"))

        def end() -> None:
            self._begin = None
            provider.shutdown()

        return end


def _beginning(tracer: Any) -> Callable[[str, str, Attributes], AbstractContextManager[Any]]:
    text_form = import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
    failed = import_module("opentelemetry.trace").StatusCode.ERROR

    @contextmanager
    def begin(name: str, parent: str, attributes: Attributes) -> Iterator[Any]:
        context = text_form.extract({"traceparent": parent}) if parent else None
        with tracer.start_as_current_span(
            name, context=context, attributes=dict(attributes), record_exception=False, set_status_on_exception=False
        ) as span:
            carried: dict[str, str] = {}
            text_form.inject(carried)
            token = trace_parent.set(carried.get("traceparent", ""))
            try:
                yield span
            except BaseException as error:
                span.set_status(failed)
                span.set_attribute("error.type", type(error).__name__)
                raise
            finally:
                trace_parent.reset(token)

    return begin


tracing = Tracing()
