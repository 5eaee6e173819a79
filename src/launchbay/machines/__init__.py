"""Where machines come from, and how commands reach them: a file for each provider, and the contract for others."""
