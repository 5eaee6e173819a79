"""`python -m generators` writes every generated file."""

from generators.output import folders, outputs
from generators.words import ROOT


def main() -> None:
    """Write what is to be there, and remove what is not."""
    texts = outputs()
    for path, text in texts.items():
        target = ROOT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    for folder in folders():
        for found in (ROOT / folder).glob("*.py"):
            if found.relative_to(ROOT) not in texts:
                found.unlink()


if __name__ == "__main__":
    main()
