"""Builds the documentation as a site in build/site/html: `make docs`.

The pages are written to be read in the repository too, where they link to sources, tests and examples. In the site,
links to pages lead to pages, and links to other files of the repository become their names.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from launchbay import __version__, documentation
from launchbay.documentation import MOVED, with_headings, without_keywords

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "site"
SOURCE = BUILD / "source"
EVIDENCE = "contribute/evidence/index.md"
_LINK = re.compile(r"(?<!!)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_TAKEN_AS_THEY_ARE = {".png", ".svg", ".json"}
_NOT_SEARCHED = ("contribute/", "changes")
_REDIRECT = (
    '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Moved</title>\n'
    '<meta http-equiv="refresh" content="0; url={target}">\n<link rel="canonical" href="{target}">\n'
    '<script>location.replace("{target}" + location.hash)</script>\n'
    '<p>This page is at <a href="{target}">{target}</a>.</p>\n</html>\n'
)
_NAME = 'site_name = "Launchbay"'
_STYLE = "copy.css"
_EDIT_HINT = re.compile(r"\s*<p>To change this page, edit <code>[^<]*</code> in the source\.</p>")
_LINE_LINK = re.compile(r'<a id="__codelineno-[^"]*" name="[^"]*" href="[^"]*"></a>')
_HIDDEN_INPUT = '<input class="md-option"'
_DECISION = re.compile(r"# (?:\d+[:.]? )?(.*)")


def placed() -> dict[Path, Path]:
    """Return page in the repository → page in the site."""
    docs = ROOT / "docs"
    pages = {path: path.relative_to(docs) for path in sorted(docs.rglob("*.md"))}
    pages[ROOT / "CONTRIBUTING.md"] = Path("contributing.md")
    pages[ROOT / "CHANGELOG.md"] = Path("changes.md")
    return pages


def with_links(page: Path, place: Path, pages: dict[Path, Path]) -> str:
    """Return the text of a file of the repository as it stands in a page of the site."""
    up = "../" * (len(place.parts) - 1)

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        if re.match(r"[a-z]+:", target):
            return found[0]
        path = (page.parent / target).resolve()
        if path in pages:
            return f"[{label}]({up}{pages[path].as_posix()}{anchor})"
        if path == ROOT / "docs" / "contribute" / "decisions":
            return f"[{label}]({up}contribute/decisions/index.md)"
        if path.is_relative_to(ROOT / "docs") and path.suffix in _TAKEN_AS_THEY_ARE:
            return f"[{label}]({up}{path.relative_to(ROOT / 'docs').as_posix()})"
        return label

    _, text = without_keywords(page.read_text("utf-8"))
    return _LINK.sub(link, with_headings(place.with_suffix("").as_posix(), text))


def described(place: Path, text: str) -> str:
    """Return a page of the site with what search engines show of it, and the file to edit."""
    page = documentation.pages().get(place.with_suffix("").as_posix())
    if page is None:
        return text
    text = f"{text}\n---\n\nTo change this page, edit `docs/{place.as_posix()}` in the source.\n"
    return f"---\ndescription: {json.dumps(page.description)}\n---\n\n{text}" if page.description else text


def decisions() -> str:
    """Return the page that lists the decisions."""
    lines = ["# Decisions", "", "Why it is as it is, with figures.", ""]
    for path in sorted((ROOT / "docs" / "contribute" / "decisions").glob("*.md")):
        found = _DECISION.match(path.read_text("utf-8"))
        assert found, f"{path.name}: a decision begins with its title"
        lines.append(f"- [{path.name[:4]}]({path.name}) {found[1]}")
    return "\n".join([*lines, ""])


def configuration() -> str:
    """Return the generator's configuration, with the version in the name of the site.

    The menu has the evidence where it was measured and written.
    """
    text = (ROOT / "docsite" / "zensical.toml").read_text("utf-8").replace(_NAME, f'{_NAME[:-1]} {__version__}"')
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if EVIDENCE not in line or (ROOT / "docs" / EVIDENCE).exists())


def write_source() -> None:
    """Write the pages and pictures as the site generator takes them."""
    shutil.rmtree(BUILD, ignore_errors=True)
    files = placed()
    for path, place in files.items():
        (SOURCE / place).parent.mkdir(parents=True, exist_ok=True)
        (SOURCE / place).write_text(described(place, with_links(path, place, files)), "utf-8")
    for path in sorted(path for path in (ROOT / "docs").rglob("*") if path.suffix in _TAKEN_AS_THEY_ARE):
        place = SOURCE / path.relative_to(ROOT / "docs")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    shutil.copy(ROOT / "docsite" / _STYLE, SOURCE / _STYLE)
    (SOURCE / "contribute" / "decisions" / "index.md").write_text(decisions(), "utf-8")
    (BUILD / "zensical.toml").write_text(configuration(), "utf-8")


def change_search(index: Path) -> None:
    """Take pages off the search that record how Launchbay was made, and add the keywords of the others."""
    document = json.loads(index.read_text("utf-8"))
    document["items"] = [item for item in document["items"] if not item["location"].startswith(_NOT_SEARCHED)]
    for item in document["items"]:
        item["text"] = _EDIT_HINT.sub("", item["text"])
        page = documentation.pages().get(item["location"].removesuffix(".html"))
        if page is not None and page.keywords:
            item["text"] = f"{item['text']} {page.keywords}"
    index.write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")), "utf-8")


def change_tab_stops(site: Path) -> None:
    """Remove tab stops without a name: a link for each line of code, and hidden inputs of the theme."""
    for page in site.rglob("*.html"):
        text = _LINE_LINK.sub("", page.read_text("utf-8"))
        page.write_text(text.replace(_HIDDEN_INPUT, f'{_HIDDEN_INPUT} tabindex="-1"'), "utf-8")


def write_redirects(site: Path) -> None:
    """Write a page at each old address that leads to the present one."""
    for old, new in MOVED.items():
        page = site / f"{old}.html"
        target = "../" * old.count("/") + f"{new}.html"
        assert (site / f"{new}.html").exists(), f"{old} leads to {new}, which doesn't exist"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(_REDIRECT.format(target=target), "utf-8")


def main() -> None:
    """Build, and fail where a link leads nowhere."""
    write_source()
    zensical = Path(sys.executable).parent / "zensical"
    command = [str(zensical), "build", "--strict", "--clean", "--config-file", str(BUILD / "zensical.toml")]
    subprocess.run(command, check=True, cwd=BUILD)  # noqa: S603 - the generator from the lock file
    change_search(BUILD / "html" / "search.json")
    change_tab_stops(BUILD / "html")
    write_redirects(BUILD / "html")


if __name__ == "__main__":
    main()
