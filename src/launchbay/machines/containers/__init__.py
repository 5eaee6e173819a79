"""Machines that are containers: `provider.py` keeps the contract, `engine_api.py` talks to Docker or Podman."""
