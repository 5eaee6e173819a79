"""An example of an action in a package of its own."""
