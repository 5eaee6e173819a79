"""The web console: pages rendered on the server, on the same use cases as the API (docs/architecture.md)."""
