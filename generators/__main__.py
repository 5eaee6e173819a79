"""`python -m generators` writes every generated file."""

from generators.output import outputs
from generators.words import ROOT


def main() -> None:
    """Write them."""
    for path, text in outputs().items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
