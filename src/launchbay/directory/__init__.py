"""An organization as a directory of files: their form, and the changes from an organization to them."""
