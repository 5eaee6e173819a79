"""An organization as a directory of files: what `launchbay apply` reads and `launchbay export` writes."""
