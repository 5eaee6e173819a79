#!/usr/bin/env bash
# pathspec 1.1.1, gitignore_parser 0.1.13 (Python 3.11) against git 2: files that git ignores are taken along.
#
# Expected: both answer as `git check-ignore` does.
# Seen: a file of an excluded folder can't be included again in git; for `d/` and `!d/keep` both say that d/keep isn't ignored.
#   gitignore_parser doesn't ignore dir/b/c for `dir/*`, nor ba/c for `*a*`, though the folder over it is ignored.
# What to do: ask git where there is one, and exclude folders on the walk instead of asking for each file.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install pathspec==1.1.1 gitignore_parser==0.1.13
cat >look.py <<'END'
from pathlib import Path
from subprocess import run
from tempfile import mkdtemp

from gitignore_parser import parse_gitignore
from pathspec import GitIgnoreSpec

seen = []
for text, path in [("d/\n!d/keep\n", "d/keep"), ("dir/*\n", "dir/b/c"), ("*a*\n", "ba/c")]:
    folder = Path(mkdtemp(dir="."))
    run(["git", "init", "--quiet", folder], check=True)
    (folder / ".gitignore").write_text(text)
    (folder / path).parent.mkdir(parents=True)
    (folder / path).touch()
    git = run(["git", "check-ignore", "--quiet", "--no-index", path], cwd=folder).returncode == 0
    parser = parse_gitignore(folder / ".gitignore")((folder / path).absolute())
    seen.append((git, GitIgnoreSpec.from_lines(text.splitlines()).match_file(path), parser))
    print(repr(text), path, "git, pathspec, gitignore_parser:", *seen[-1])
raise SystemExit(seen != [(True, False, False), (True, True, False), (True, True, False)])
END
venv/bin/python look.py
