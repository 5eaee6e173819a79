"""The pages of the kernel's objects, a module for each noun. `table.py` lists them."""
