"""What the API can do: one file per endpoint family, a public function is one endpoint and one transaction."""
