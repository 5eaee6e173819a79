"""The composition root: the parts wired together, and the `launchbay` command that starts them."""
