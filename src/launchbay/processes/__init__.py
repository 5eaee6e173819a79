"""Programs that actions start on this server."""
