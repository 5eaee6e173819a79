"""Free ports for the servers of a page."""

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 on which nobody listens now."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]
