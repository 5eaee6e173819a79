"""Fields of queries and forms, percent-encoded as browsers send them (application/x-www-form-urlencoded)."""

from urllib.parse import parse_qsl

MEDIA_TYPE = "application/x-www-form-urlencoded"


def decode_fields(data: bytes, fields_max: int) -> dict[str, list[str]]:
    """Return the values of each field, in order.

    Raises ValueError with a sentence: more than `fields_max` fields, not percent-encoded UTF-8, or a NUL character,
    which PostgreSQL cannot store.
    """
    try:
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=fields_max)
    except ValueError:
        raise ValueError(f"Send at most {fields_max} fields, percent-encoded as UTF-8.") from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        if "\0" in name + value:
            raise ValueError(f"Field {name[:80]!r} contains a NUL character; remove it.")
        fields.setdefault(name, []).append(value)
    return fields
