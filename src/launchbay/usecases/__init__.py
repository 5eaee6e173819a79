"""What the API of the kernel can do.

A public function is one operation and one transaction.
"""
