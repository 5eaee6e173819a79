"""What a step of a workflow can do: one file per built-in action, and the contract for everybody else's."""
