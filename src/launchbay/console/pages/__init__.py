"""One file for each family of pages; each declares its rows beside its handlers."""
