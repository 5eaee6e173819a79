"""The web console: pages rendered on the server (docs/explain/architecture.md)."""
