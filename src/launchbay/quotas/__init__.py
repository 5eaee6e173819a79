"""What an organization may use: bounds, the check of them, and what is stored."""
