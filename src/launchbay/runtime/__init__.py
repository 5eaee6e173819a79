"""What a live instance does: launch, the workflow interpreter, signals, commands, destroy."""
