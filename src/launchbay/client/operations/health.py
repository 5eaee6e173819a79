"""Operations of the API: health.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from launchbay.client.call import Call, Row
from launchbay.client.operation import operation
from launchbay.client.types import Health


@operation(Row(id="health_live", method="GET", path="/health/live", public=True))
def health_live() -> Call[Health]:
    """Tells that the process lives."""
    return Call(Health)


@operation(Row(id="health_ready", method="GET", path="/health/ready", public=True))
def health_ready() -> Call[Health]:
    """Tells whether the process can answer requests: whether its database does."""
    return Call(Health)


@operation(Row(id="read_metrics", method="GET", path="/metrics", answer="text/plain", public=True))
def read_metrics() -> Call[str]:
    """Shows the metrics of this process in Prometheus' text format."""
    return Call(str)
