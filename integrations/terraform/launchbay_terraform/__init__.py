"""A provider of Terraform and OpenTofu for Launchbay."""

__version__ = "0.1.0"
