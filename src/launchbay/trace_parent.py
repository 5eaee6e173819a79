"""The trace that the running code belongs to, as W3C Trace Context writes it; "" where nothing is traced.

Set by `observe/tracing.py`, and frozen into the plans of jobs: a job goes on the trace of whoever asked for it.
"""

from contextvars import ContextVar

trace_parent: ContextVar[str] = ContextVar("trace parent", default="")
