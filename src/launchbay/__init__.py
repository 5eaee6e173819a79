"""Launchbay: a self-hosted application orchestration service."""

__version__ = "0.1.0"
