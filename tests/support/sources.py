"""Python files as trees, each parsed and walked once for all tests of a process that read the source."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the tree of a file. Nobody may change it."""
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return what `ast.walk` yields, in its order."""
    return tuple(ast.walk(tree))
