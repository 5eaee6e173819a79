"""The templates of the console, those of features among them."""

from pathlib import Path

_SOURCE = Path(__file__).parents[2] / "src" / "launchbay"


def template_texts() -> dict[str, str]:
    """Return the text of each template by the name under which it is rendered."""
    own = _SOURCE / "console" / "templates"
    features = _SOURCE / "features"
    return {
        **{path.name: path.read_text("utf-8") for path in sorted(own.glob("*.html"))},
        **{
            str(path.relative_to(features)): path.read_text("utf-8")
            for path in sorted(features.glob("*/templates/*.html"))
        },
    }
