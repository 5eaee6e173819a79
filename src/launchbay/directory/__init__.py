"""An organization as a directory of files, and the changes that it needs."""
