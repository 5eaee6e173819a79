"""The manifest compiler: bytes in, component graph out, every finding with its place. Pure."""
