"""Documents that steps keep beyond their job. Pure."""


def kept_document_purpose(document_id: str) -> str:
    """Return what such a document is sealed for."""
    return f"kept document {document_id}"
