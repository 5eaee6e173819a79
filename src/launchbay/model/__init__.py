"""The domain as frozen values and pure functions: no input, no output, no clock."""
