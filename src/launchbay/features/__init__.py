"""What an organization could do without: one package for each feature."""
