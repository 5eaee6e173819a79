"""Outgoing connections, checked: no step of a manifest reaches an address that the rules forbid."""
