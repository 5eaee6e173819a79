"""How those who use a server take turns and share it."""
