"""What is made from the endpoint table and kept in the repository: `python -m generators` writes it all again."""
