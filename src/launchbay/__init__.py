"""Launchbay: a self-hosted application orchestration service."""

import sys

__version__ = "0.1.0"

# httpx brings a command, and imports it with Rich and Pygments if they are there: half of its time (decision 0262).
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None: importing it fails, which httpx expects
