"""Metrics and log lines sent to an OpenTelemetry collector (settings `otlp_endpoint` and `otlp_signals`)."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client.metrics_core import Metric
from structlog.typing import EventDict

from launchbay.egress.proxy import OutgoingProxy
from launchbay.telemetry.logs import forwarding
from launchbay.telemetry.tracing import http_session, optional_module, resource

_SCOPE = "launchbay"
_NS = 1_000_000_000
_SEND_S = 5
_LEVELS = {"debug": 5, "info": 9, "warning": 13, "error": 17, "critical": 21}  # severity numbers of OpenTelemetry
# What sends the lines would otherwise cause a line for each line that it can't send.
_SENDERS = ("opentelemetry", "requests", "urllib3")
_OWN_FIELDS = frozenset({"event", "level", "timestamp", "exc_info"})


def send_logs(endpoint: str, service: str, proxy: OutgoingProxy | None = None) -> Callable[[], None]:
    """Send log lines to the collector until the returned function is called.

    Raises CannotStart where OpenTelemetry is not installed.
    """
    sdk, batches = optional_module("opentelemetry.sdk._logs"), optional_module("opentelemetry.sdk._logs.export")
    exporting = optional_module("opentelemetry.exporter.otlp.proto.http._log_exporter")
    provider = sdk.LoggerProvider(resource=resource(service), shutdown_on_exit=False)
    exporter = exporting.OTLPLogExporter(
        endpoint=endpoint.rstrip("/") + "/v1/logs", session=http_session(endpoint, proxy)
    )
    provider.add_log_record_processor(batches.BatchLogRecordProcessor(exporter))
    forwarding.target = _forward_to(provider.get_logger(_SCOPE))

    def end() -> None:
        forwarding.target = None
        provider.shutdown()

    return end


def _forward_to(logger: Any) -> Callable[[EventDict], None]:
    api, context = optional_module("opentelemetry._logs"), optional_module("opentelemetry.context")

    def forward(line: EventDict) -> None:
        record = line.get("_record")  # of a library
        name = record.name if record is not None else ""
        if name.startswith(_SENDERS):
            return
        level = str(line.get("level", "info"))
        fields = {key: value for key, value in line.items() if key not in _OWN_FIELDS and not key.startswith("_")}
        attributes = {
            key: value if isinstance(value, bool | int | float) else str(value) for key, value in fields.items()
        }
        failure = line.get("exc_info")
        error = failure[1] if isinstance(failure, tuple) else failure
        if isinstance(error, BaseException):
            attributes["error.type"] = type(error).__name__
        if name:
            attributes["logger"] = name
        logger.emit(
            api.LogRecord(
                timestamp=time.time_ns(),
                context=context.get_current(),  # which has the span
                severity_text=level.upper(),
                severity_number=api.SeverityNumber(_LEVELS.get(level, _LEVELS["info"])),
                body=str(line.get("event", "")),
                attributes=attributes,
            )
        )

    return forward


class MetricsSender:
    """Sends samples of Prometheus' metrics to the collector.

    Raises CannotStart where OpenTelemetry is not installed.
    """

    def __init__(self, endpoint: str, service: str, proxy: OutgoingProxy | None = None) -> None:
        self._model = optional_module("opentelemetry.sdk.metrics.export")
        self._scope = optional_module("opentelemetry.sdk.util.instrumentation").InstrumentationScope(_SCOPE)
        self._resource = resource(service)
        self._started_ns = time.time_ns()
        exporting = optional_module("opentelemetry.exporter.otlp.proto.http.metric_exporter")
        self._exporter = exporting.OTLPMetricExporter(
            endpoint=endpoint.rstrip("/") + "/v1/metrics", timeout=_SEND_S, session=http_session(endpoint, proxy)
        )

    def send(self, families: Iterable[Metric]) -> None:
        """Send the samples, which blocks. A collector that is away is logged by OpenTelemetry."""
        model, now_ns = self._model, time.time_ns()
        metrics = [made for family in families if (made := self._metric(family, now_ns)) is not None]
        scope = model.ScopeMetrics(scope=self._scope, metrics=metrics, schema_url="")
        all_of_it = model.ResourceMetrics(resource=self._resource, scope_metrics=[scope], schema_url="")
        self._exporter.export(model.MetricsData(resource_metrics=[all_of_it]))

    def close(self) -> None:
        self._exporter.shutdown()

    def _metric(self, family: Metric, now_ns: int) -> Any:
        """Return a family as OpenTelemetry has it, or None without values."""
        model, cumulative = self._model, self._model.AggregationTemporality.CUMULATIVE
        starts = {
            _key(each.labels): int(each.value * _NS) for each in family.samples if each.name == f"{family.name}_created"
        }

        def point(labels: Mapping[str, str], value: float) -> Any:
            start_ns = starts.get(_key(labels), self._started_ns)
            return model.NumberDataPoint(
                attributes=dict(labels), start_time_unix_nano=start_ns, time_unix_nano=now_ns, value=value
            )

        if family.type == "histogram":
            points = [
                self._histogram(labels, samples, starts.get(key, self._started_ns), now_ns)
                for key, (labels, samples) in _by_labels(family).items()
            ]
            data = model.Histogram(data_points=points, aggregation_temporality=cumulative)
        elif family.type == "counter":
            points = [point(each.labels, each.value) for each in family.samples if each.name.endswith("_total")]
            data = model.Sum(data_points=points, aggregation_temporality=cumulative, is_monotonic=True)
        else:
            points = [point(each.labels, each.value) for each in family.samples if not math.isnan(each.value)]
            data = model.Gauge(data_points=points)
        unit = "s" if family.name.endswith("_seconds") else "1"
        return (
            model.Metric(name=family.name, description=family.documentation, unit=unit, data=data) if points else None
        )

    def _histogram(self, labels: Mapping[str, str], samples: Mapping[str, float], start_ns: int, now_ns: int) -> Any:
        """Return the point of one series.

        Prometheus counts all below a bound, OpenTelemetry those in a bucket.
        """
        bounds = sorted((float(name), value) for name, value in samples.items() if name not in {"sum", "count"})
        counts = [int(value) for _, value in bounds]
        return self._model.HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=start_ns,
            time_unix_nano=now_ns,
            count=counts[-1],
            sum=samples.get("sum", 0.0),
            bucket_counts=[count - before for before, count in zip([0, *counts], counts, strict=False)],
            explicit_bounds=[bound for bound, _ in bounds[:-1]],
            min=None,
            max=None,
        )


def _key(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in labels.items() if name != "le"))


def _by_labels(family: Metric) -> dict[tuple[tuple[str, str], ...], tuple[dict[str, str], dict[str, float]]]:
    """Return the series of a histogram: labels, and values by bound, `sum` and `count`."""
    found: dict[tuple[tuple[str, str], ...], tuple[dict[str, str], dict[str, float]]] = {}
    for each in family.samples:
        ending = each.name.removeprefix(f"{family.name}_")
        if ending == "created":
            continue
        key = _key(each.labels)
        _, samples = found.setdefault(key, (dict(key), {}))
        samples[each.labels["le"] if ending == "bucket" else ending] = each.value
    return found
