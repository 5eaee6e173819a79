"""Check the project's English: `python -m tests.style.prose [PATH …] [--show RULE] [--record] [--commits RANGE]`.

*Strict* rules are patterns that are wrong wherever they occur; none may be left. *Measures* (sentence length, passive
voice, long lines, headings) have a limit. A file beyond the limit has its figure in `prose.json`, which may only fall.

The check reads the pages of documentation, the strings and docstrings of the source, and the templates of the console.
It ignores code spans, code blocks, URLs and generated parts of pages: it reads the sources of those parts instead.
"""

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("prose.json")
MARK = "<!-- Below this line `python -m generators` writes. -->"


class Kind(StrEnum):
    """Kinds of text. The value is the letter that a rule names the kind by."""

    DOCS = "d"
    MESSAGE = "m"
    USER_INTERFACE = "u"
    DOCSTRING = "s"
    COMMIT = "c"


@dataclass(frozen=True)
class Passage:
    """A text to check, and where it is: a file below the root, or `git`."""

    kind: Kind
    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Rule:
    """A strict pattern, the kinds of text that it applies to, and what to write instead."""

    name: str
    kinds: str
    pattern: re.Pattern[str]
    instead: str


_START = r"(?:(?<=[.:;] )|(?<=^)|(?<=\n))"
RULES = [
    Rule(name, kinds, re.compile(pattern), instead)
    for name, kinds, pattern, instead in (
        (
            "is-no",
            "dmus",
            (
                r"(?<![Tt]here )\b(?:is|are|was) no "
                r"(?!longer|more|better|worse|less|one|such|need|way|reason|doubt|point)\w+"
            ),
            "isn't a / must be a",
        ),
        ("is-none", "dmus", r"\b(?:is|are) none\b(?! of)", "name the thing: doesn't exist, isn't an action"),
        ("mend", "dmusc", r"\b[Mm]end(?:s|ed|ing)?\b", "fix"),
        (
            "stands",
            "dmus",
            r"\b(?:stands?|stood) (?:in|at|there|twice|beside|alone|before|under|within|also|here)\b",
            "is in / appears / is duplicated",
        ),
        ("goes-on", "dmusc", r"\b(?:goes|go|went|going) on\b(?! (?:top|the)\b)", "continues / keeps running"),
        (
            "told",
            "dmus",
            r"\b(?:is|are|was|were|be) told\b|\b[Tt]ells? (?:of|that|how|what|which|why|it)\b",
            "reports / shows / notifies",
        ),
        ("beside", "dmusc", r"\b[Bb]eside\b", "next to / together with / in addition to"),
        ("anew", "dmusc", r"\banew\b", "again"),
        ("of-yours", "dmu", r"\bof (?:yours|theirs)\b(?! that)", "your X"),
        (
            "who-may",
            "dm",
            _START + r"Who (?:may|can|has|asks|wants|operates|reads|answers|changes|sets|uses)\b"
            r"(?! do what)(?![^.?\n]*\?)",
            "Users who … / Anyone with permission X",
        ),
        ("the-most", "m", r"which is the most\b", "limit: at most N"),
        ("same-moment", "m", r"at the same moment\b", "changed by another request"),
        ("sign-of-life", "dmu", r"\bsigns? of life\b", "heartbeat"),
        ("broken-off", "dmu", r"\bbr(?:oken|oke) off\b", "interrupted / cancelled"),
        (
            "where-omitted",
            "dmu",
            (
                r"\bwhere (?:it is|they are) (?:left out|not set|needed)\b"
                r"|\bwhere (?:there is|there are) (?:none|no|one)\b|, none where\b"
            ),
            "Default: X / if",
        ),
        (
            "what-there-is",
            "dmusc",
            (
                r"\bwhat there is\b|\bthat there is\b(?! (?:something|a\b|an\b|no\b))|\bas there (?:is|are)\b"
                r"|\bwhatever there is\b"
            ),
            "name it",
        ),
        (
            "what-cleft",
            "d",
            _START + r"What (?:is|was|has|fell|falls|nobody|remains|runs|goes)\b[^?\n]*?(?=[.\n])",
            "start with the noun",
        ),
        ("unknown-ignored", "m", r"unknown and ignored|known (?:are|is)\b", "unknown key 'x' (ignored). Valid keys: …"),
        ("a-text", "dmu", r"\b(?:a|is) texts?\b(?!\s(?:file|field|editor))", "a string"),
        (
            "comes-to",
            "dmusc",
            r"\b(?:come|comes|came|brought|bring|brings) to (?:its|their|an|the) ends?\b",
            "ends / finishes",
        ),
        ("message", "dm", r"\b(?:[Tt]he|in|with|puts?|its|a|says? in|carries) sentences?\b", "message"),
        ("for-good", "dmus", r"\bfor good\b", "permanently"),
        ("circle", "dmus", r"\bcircles?\b", "cycle"),
        ("letters", "dm", r"\b(?:gets? a|[Aa]|the|sends? no|without a) letters?\b(?! and)", "email"),
        (
            "places",
            "dm",
            r"\bin the place of\b|\bfree place\b|\bfor a place\b|\bof the places\b",
            "instead of / slot",
        ),
        ("shall", "dmus", r"\bshall\b", "must"),
        (
            "not-for-you",
            "u",
            (
                r"not for you|none to come|Given parameters"
                r"|Keep (?:it|environments|policies|markers|user data|as version)\b"
            ),
            "No permission / None scheduled / Parameters / Save",
        ),
        ("semicolons", "dm", r"[^.;\n|`]{25,};[^.;\n|`]{15,};", "split: three clauses in one sentence"),
    )
]

# Made from the table of endpoints: their docstrings begin with what a handler says, and go on with its permission.
GENERATED = {
    "src/launchbay/cli/operation_commands.py",
    "src/launchbay/client/operations.py",
    "src/launchbay/client/types.py",
}

# Measure → the figure that every file may have. More is allowed only up to what the record holds for the file.
LIMITS = {
    "sentences over 30 words": 1,
    "sentences over 40 words": 0,
    "sentence length, 95th percentile": 24,
    "passive sentences, percent": 25,
    "lines over 140 characters": 0,
    "table cells over 200 characters": 0,
    "headings over 7 words": 0,
    "vague headings": 0,
    "messages over 25 words": 0,
    "docstrings with a first line over 14 words": 800,
    "docstrings with a first line over 20 words": 0,
}
COMMIT_CHARACTERS = 72

_CODE = re.compile(r"```.*?```|`[^`\n]*`|https?://\S+|<!--.*?-->|\]\([^)]*\)", re.DOTALL)
_PASSIVE = re.compile(
    r"\b(?:is|are|was|were|be|been|being)(?: not| also| then| only| still| never| always| \w+ly)? "
    r"(?:\w{2,}ed|made|told|taken|given|kept|held|run|seen|shown|sent|written|read|left|lost|found|known|done|set|put"
    r"|built|chosen|drawn|brought|said|begun|broken|cut|hidden|paid|thrown|torn|worn|bound|meant|sealed|met)\b"
)
_KEYWORDS = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
_VAGUE = re.compile(r"(What|Who|How|Then|Further|Where|Two|Everything|Files|Sizes|Replace it|Watch it|Look at|Begin)\b")
_PAGES = ("*.md", "docs/**/*.md", "examples/*/README.md")
_MARKUP = re.compile(r"{%.*?%}|{{.*?}}|{#.*?#}|<[^>]*>", re.DOTALL)
_SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE FROM|CREATE)\b")


def _without_code(text: str) -> str:
    """Replace code, addresses and comments; line numbers stay."""
    return _CODE.sub(lambda found: "\n" * found[0].count("\n") or "C", text)


def _pages(root: Path) -> Iterator[Passage]:
    """Yield the hand-written parts of the pages of documentation."""
    for path in sorted(found for pattern in _PAGES for found in root.glob(pattern)):
        if not {"decisions", "evidence"}.intersection(path.relative_to(root).parts):
            text = _KEYWORDS.sub("", path.read_text("utf-8").partition(MARK)[0])
            yield Passage(Kind.DOCS, str(path.relative_to(root)), 0, _without_code(text))


def _strings(root: Path) -> Iterator[Passage]:
    """Yield the docstrings of the source, and its strings that look like messages: two words and no SQL."""
    for path in sorted((root / "src").rglob("*.py")):
        name = str(path.relative_to(root))
        tree = ast.parse(path.read_text("utf-8"))
        skipped: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node)
                if docstring:
                    skipped.add(id(node.body[0].value))  # type: ignore[attr-defined]  # a docstring is an expression
                    yield Passage(Kind.DOCSTRING, name, getattr(node, "lineno", 1), docstring)
            elif isinstance(node, ast.Assert):
                skipped |= {id(inner) for inner in ast.walk(node)}
            elif isinstance(node, ast.JoinedStr):
                skipped |= {id(inner) for inner in ast.walk(node) if inner is not node}
        for node in ast.walk(tree):
            if id(node) in skipped:
                continue
            match node:
                case ast.Constant(value=str(text)):
                    pass
                case ast.JoinedStr(values=parts):
                    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)
                case _:
                    continue
            if len(text) > 12 and re.search(r"[a-z]{2,} [a-z]+", text) and not _SQL.search(text):
                yield Passage(Kind.MESSAGE, name, node.lineno, text)


def _templates(root: Path) -> Iterator[Passage]:
    """Yield the console's templates without their markup."""
    for path in sorted((root / "src").rglob("templates/**/*.html")):
        yield Passage(Kind.USER_INTERFACE, str(path.relative_to(root)), 0, _MARKUP.sub(" ", path.read_text("utf-8")))


def _commits(root: Path, commits: str) -> Iterator[Passage]:
    """Yield the subjects of a range of commits, such as `main..`."""
    command = ["git", "-C", str(root), "log", "--format=%s", commits]
    for subject in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        yield Passage(Kind.COMMIT, "git", 0, subject)


def passages(root: Path, commits: str | None = None) -> Iterator[Passage]:
    """Yield everything that is checked, commits only if a range is given."""
    yield from _pages(root)
    yield from _strings(root)
    yield from _templates(root)
    if commits:
        yield from _commits(root, commits)


def strict_hits(found: list[Passage]) -> Iterator[tuple[Rule, str]]:
    """Yield each hit of a strict rule, as the rule and `file:line: …context…`."""
    for passage in found:
        for rule in RULES:
            if passage.kind in rule.kinds:
                for hit in rule.pattern.finditer(passage.text):
                    line = passage.line or passage.text.count("\n", 0, hit.start()) + 1
                    context = " ".join(passage.text[max(0, hit.start() - 45) : hit.end() + 35].split())
                    yield rule, f"{passage.file}:{line}: …{context}…"
        if passage.kind == Kind.COMMIT and len(passage.text) > COMMIT_CHARACTERS:
            yield _LONG_SUBJECT, f"git: {passage.text}"


_LONG_SUBJECT = Rule(
    "long-subject", "c", re.compile(""), f"at most {COMMIT_CHARACTERS} characters, the why in the body"
)


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield (words, sentence) for each sentence of more than two words. Cells of tables and list entries are apart."""
    for paragraph in re.split(r"\n\s*\n|\n\s*[-*>#]+ |\n\s*\d+\. |\||\n(?=#)", text):
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split())):
            words = len(re.findall(r"[A-Za-z][\w'-]*", sentence))
            if words > 2:
                yield words, sentence


def _measure_page(text: str) -> dict[str, int]:
    """Return the figures of a page."""
    found = list(sentences(text))
    lengths = sorted(words for words, _ in found)
    lines = [line for line in text.splitlines() if not line.startswith("|")]
    cells = [cell for line in text.splitlines() if line.startswith("|") for cell in line.split("|")]
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    passive = sum(bool(_PASSIVE.search(sentence)) for _, sentence in found)
    return {
        "sentences over 30 words": sum(words > 30 for words in lengths),
        "sentences over 40 words": sum(words > 40 for words in lengths),
        "sentence length, 95th percentile": lengths[int(len(lengths) * 0.95)] if len(lengths) >= 20 else 0,
        "passive sentences, percent": round(100 * passive / len(found)) if len(found) >= 20 else 0,
        "lines over 140 characters": sum(len(line) > 140 for line in lines),
        "table cells over 200 characters": sum(len(cell.strip()) > 200 for cell in cells),
        "headings over 7 words": sum(len(heading.split()) > 7 for heading in headings),
        "vague headings": sum(bool(_VAGUE.match(heading)) for heading in headings),
    }


def measures(found: list[Passage]) -> dict[str, dict[str, int]]:
    """Return file → measure → figure. The source counts as one file, `src`, so that a module can move."""
    figures: dict[str, dict[str, int]] = {}
    source: Counter[str] = Counter()
    for passage in found:
        match passage.kind:
            case Kind.DOCS:
                figures[passage.file] = _measure_page(passage.text)
            case Kind.MESSAGE:
                source["messages over 25 words"] += any(words > 25 for words, _ in sentences(passage.text))
            case Kind.DOCSTRING if passage.file not in GENERATED:
                words = len(passage.text.partition("\n")[0].split())
                source["docstrings with a first line over 14 words"] += words > 14
                source["docstrings with a first line over 20 words"] += words > 20
    return {**figures, "src": dict(source)}


def beyond_limits(figures: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return only the figures beyond their limit: the record."""
    beyond = {
        file: {name: figure for name, figure in entries.items() if figure > LIMITS[name]}
        for file, entries in figures.items()
    }
    return {file: entries for file, entries in sorted(beyond.items()) if entries}


def lowered(record: dict[str, dict[str, int]], figures: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return the record with the figures that fell. A figure that rose keeps its old entry, or none."""
    fallen = {
        file: {
            name: min(figure, record[file][name]) for name, figure in entries.items() if name in record.get(file, {})
        }
        for file, entries in beyond_limits(figures).items()
    }
    return {file: entries for file, entries in fallen.items() if entries}


def rises(figures: dict[str, dict[str, int]], record: dict[str, dict[str, int]]) -> Iterator[str]:
    """Yield a line for each figure that is beyond both its limit and the record."""
    for file, entries in beyond_limits(figures).items():
        for name, figure in entries.items():
            allowed = record.get(file, {}).get(name, LIMITS[name])
            if figure > allowed:
                yield f"{file}: {name}: {figure}, allowed: {allowed}"


def main() -> int:
    """Print strict hits by rule and what rose. Return 1 if there are any, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.style.prose", description="Check the project's English.")
    parser.add_argument("paths", nargs="*", help="check only files whose path starts with one of these, such as docs/")
    parser.add_argument("--show", metavar="RULE", help="show each hit of a strict rule, of all rules with 'all'")
    parser.add_argument("--record", action="store_true", help="store the figures that fell")
    parser.add_argument("--commits", metavar="RANGE", help="also check the subjects of these commits, such as main..")
    options = parser.parse_args()
    checked = tuple(options.paths) or ("",)
    everything = list(passages(ROOT, options.commits))
    figures = measures(everything)
    record: dict[str, dict[str, int]] = json.loads(RECORD.read_text("utf-8"))
    if options.record:
        record = lowered(record, figures)
        RECORD.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    hits = [*strict_hits([passage for passage in everything if passage.file.startswith(checked)])]
    for rule, place in hits:
        if options.show in {rule.name, "all"}:
            print(f"{place}  [{rule.name}: {rule.instead}]")
    if not options.show:
        for rule, count in Counter(rule for rule, _ in hits).most_common():
            print(f"{count:5} {rule.name:16} -> {rule.instead}")
    risen = [line for line in rises(figures, record) if line.startswith(checked)]
    print(*risen, sep="\n", end="\n" if risen else "")
    print(f"{len(hits)} strict hits, {len(risen)} figures that rose", file=sys.stderr)
    return 1 if hits or risen else 0


if __name__ == "__main__":
    sys.exit(main())
