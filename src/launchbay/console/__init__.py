"""The web console: pages rendered on the server (docs/architecture.md)."""
