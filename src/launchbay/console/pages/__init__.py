"""One module per noun; each declares its pages at their handlers."""
