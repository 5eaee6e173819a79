"""An example of a component type in a package of its own."""
