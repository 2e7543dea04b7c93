"""Compare what `src` imports with what pyproject.toml declares; neither may have more.

Imports are found in the code, `require("package")` of optional ones included. A package that is
declared but imported nowhere is not a dependency; one that is imported but comes only by way of
another may be gone tomorrow.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Declared, but loaded by another package when it needs it.
LOADED_BY_OTHERS = {"httptools", "python-multipart"}
# Imported, but declared by the package it comes with: torch brings triton where there is a GPU.
COMES_WITH_OTHERS = {"pydantic_core", "triton"}
# Used where a user has it, and by no extra.
WHERE_INSTALLED = {"mteb", "pandas"}


def imported(source: Path) -> set[str]:
    """Return the top-level names of all packages that the code imports or requires."""
    modules: set[str] = set()
    for file in source.rglob("*.py"):
        modules.update(_names(ast.parse(file.read_text(encoding="utf-8"))))
    return {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - {"acqh"}


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            if called in {"require", "find_spec"} and isinstance(node.args[0].value, str):
                yield node.args[0].value


def declared(project: Path) -> set[str]:
    """Return the names of all dependencies and extras."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    extras = table["optional-dependencies"].values()
    requirements = [
        *table["dependencies"],
        *(requirement for names in extras for requirement in names),
    ]
    names = {normal(re.match(r"[\w.-]+", requirement)[0]) for requirement in requirements}  # type: ignore[index]
    return names - {"acqh"}


def normal(name: str) -> str:
    """Return a project's name as all its spellings have it.

    Examples
    --------
    >>> normal("Foo_Bar")
    'foo-bar'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def differences(source: Path, project: Path) -> list[str]:
    """Return what is wrong, a sentence each."""
    owners = packages_distributions()
    used: dict[str, str] = {}
    for name in imported(source) - COMES_WITH_OTHERS - WHERE_INSTALLED:
        for owner in owners.get(name, [name]):
            used[normal(owner)] = name
    declared_names = declared(project)
    unused = sorted(declared_names - used.keys() - LOADED_BY_OTHERS)
    missing = sorted({used[name] for name in used.keys() - declared_names})
    return [f"{name} is declared but nothing in src imports it" for name in unused] + [
        f"{name} is imported but pyproject.toml does not declare it" for name in missing
    ]


def main() -> int:
    wrong = differences(ROOT / "src", ROOT / "pyproject.toml")
    print("\n".join(wrong) or "dependencies are those that src imports")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
