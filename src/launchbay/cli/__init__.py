"""The commands of `launchbay` that talk to a server as its clients, and those that look at manifests offline."""
