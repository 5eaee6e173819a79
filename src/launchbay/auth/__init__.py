"""Who calls, and may they: authentication, permissions, and the one way to get hold of an object."""
