"""Reject private vocabulary and long sentences in text that people read.

Checks prose, messages, help, docstrings, comments, names and the strings of the web interface.
``--count`` prints how often each term occurs; ``--paths src/acqh/index`` checks a part.
"""

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_WORDS = 40

# Term (a regular expression), what to write instead, and the paths it applies to ("" for all).
TERMS = (
    (r"rooms?|doors?|(the|this|whole|our) house", "subpackage, public API, code base", ""),
    (r"describ(e|es|ed|ing)", "encode, embed; document, define", ""),
    (r"coded", "encoded, quantized", ""),
    (
        r"words? of (a|the|each|every|its|their|one|all) codebooks?|codebooks? words?",
        "codeword",
        "",
    ),
    (r"st(and|ands|anding|ood)[ _]out", "confident match; n_confident", ""),
    (r"bare (folders?|images?|photo(graph)?s?)", "photos without captions", ""),
    (r"general model", "built-in image-text model", ""),
    (r"(un)?told|tells? apart", "query-aware; detected by, distinguished by; by default", ""),
    (r"plain (metric|error)", "Euclidean metric, mean squared error", ""),
    (r"by heart", "memorized, overfitted", ""),
    (r"codes? stands? for", "reconstruction", ""),
    (r"looks? at|looked at|codes? (are )?seen", "scan, score; examine", ""),
    (r"rank(s|ed|ing)? again", "re-rank", ""),
    (r"(re|un)learn\w*|learn(s|t|ed|ing)? again|learning is due", "retrain", ""),
    (r"le(ave|aves|ft|aving) out|pass(es|ed)? over", "skip; omit", ""),
    (r"refus(e|es|ed|ing|al)", "reject; raise", ""),
    (r"the (service|page)", "the server, the web interface", "src/acqh|docs"),
    (r"rivals?", "baseline", ""),
    (r"(a|the|no|two|three|which) controls?|controls (are|is|and)", "trivial baseline", ""),
    (r"figures?", "results; figures are plots", r"src/acqh/(?!bench)|docs|\w+\.md"),
    (r"ours", "reconstructed, differs from the paper", ""),
    (r"cells?", "run", "src/acqh/bench|docs/how-to/(bench|report)"),
    (r"sums", "sufficient statistics", "src/acqh/(methods|scale|stats|cli)"),
    (r"beside", "next to; in addition to; compared with", ""),
    (
        r"of which|but for|unless (told|said)|(is|are|was|were) (said|told)",
        "a sentence with a subject",
        "",
    ),
    (r"worth|stand-?ins?|nearness|alike", "weight, background samples, similarity, similar", ""),
    (r"finds? itself", "self-retrieval rate", ""),
    (r"to code (an?|the|each|item|image|text)\w*|codes (each|every|all)", "encode", ""),
    (r"by meaning", "by semantic similarity", ""),
    (r"follow(s|ed|ing)? (a|the|its|this|that) (folder|directory)", "track, keep in sync", ""),
    (r"manifests? (of|with) (items|images|photos)|from a manifest|a manifest or", "table", ""),
    (r"columns of (items|(an|the|each) item)(?! table)", "fields, metadata", ""),
    (r"pieces of (a )?(file|array|item|row|vector)s?|lots of (item|row|vector)s", "chunks", ""),
    (r"table (text )?encoder", "fast text encoder", ""),
    (r"(is|as|returns?|answers) a problem", "error response", "serve|web|docs"),
    (r"(per|one more|dozen) components?|components of (vector|quer)\w+", "dimension", ""),
    (
        r"(heads|rests|runs|waves) of (the )?(lists|index|codes)|the (heads|rests|waves)",
        "lists, keys",
        "",
    ),
    (r"trust (in|of) (the )?captions?", "caption weight", ""),
    (r"so that", "a new sentence", r"docs|\w+\.md"),
    (
        r"(learnt|hashed|unified) codes",
        "training codes, out-of-sample codes, fused out-of-sample codes",
        "",
    ),
)
PATTERNS = [
    (re.compile(rf"\b(?:{term})\b", re.IGNORECASE), instead, re.compile(where))
    for term, instead, where in TERMS
]

# Names that say nothing about the value they hold.
NAMES = frozenset(
    re.findall(
        r"\w+",
        "found each it own known given made asked told said wanted seen those them these there "
        "here what kept taken got which whole",
    )
)

CHECKED = (
    "src",
    "tests",
    "tools",
    "benchmarks",
    "examples",
    "docs",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
# These two files hold rejected terms, to reject them and to test that.
SKIPPED = (
    "tools/check_language.py",
    "tests/test_language.py",
    "docs/reference/generated/",
    "docs/_build/",
    "docs/gallery/",
)


@dataclass(frozen=True)
class Text:
    """A stretch of text and where it stands."""

    path: str
    line: int
    kind: str  # docstring, message, comment, name, page, interface
    text: str


def texts_of_python(path: str, source: str) -> Iterator[Text]:
    """Yield docstrings, strings that read as prose, comments and assigned names."""
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.add(id(first.value))
                if isinstance(first.value.value, str):
                    yield Text(path, first.lineno, "docstring", first.value.value)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ):
            if len(re.findall(r"[A-Za-z]{2,}", node.value)) > 1:
                yield Text(path, node.lineno, "message", node.value)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield Text(path, node.lineno, "name", node.id)
        elif isinstance(node, ast.arg):
            yield Text(path, node.lineno, "name", node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield Text(path, node.lineno, "name", node.name)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(path, token.start[0], "comment", token.string.lstrip("# "))


def texts_of_markdown(path: str, source: str) -> Iterator[Text]:
    """Yield paragraphs without code blocks, inline code, links' addresses and tables."""
    plain = re.sub(
        r"(?ms)^([ ]*)(```|~~~|:::).*?^\1\2[^\n]*$", lambda m: "\n" * m[0].count("\n"), source
    )
    plain = re.sub(r"(?s)\$\$.*?\$\$|`[^`\n]*`|\]\([^)]*\)|\$[^$]*\$", " x ", plain)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", plain):
        if paragraph.strip():
            yield Text(path, line, "page", paragraph)
        line += paragraph.count("\n")


def texts_of_notebook(path: str, source: str) -> Iterator[Text]:
    """Yield the texts of the cells; lines are counted from the start of a cell."""
    for cell in json.loads(source)["cells"]:
        read = texts_of_python if cell["cell_type"] == "code" else texts_of_markdown
        yield from read(path, "".join(cell["source"]))


def texts_of_interface(path: str, source: str) -> Iterator[Text]:
    """Yield the strings and comments of JavaScript, and the text of HTML."""
    for number, text in enumerate(source.splitlines(), 1):
        if path.endswith(".html"):
            yield Text(path, number, "interface", re.sub(r"<[^>]*>", " ", text))
            continue
        for string in re.findall(r"\"[^\"]*\"|'[^']*'|`[^`]*`", text):
            if " " in string:
                yield Text(path, number, "interface", re.sub(r"\$\{[^}]*\}", " x ", string[1:-1]))
        if comment := re.search(r"(?:^|\s)//\s?(.*)", text):
            yield Text(path, number, "comment", comment[1])


def texts(root: Path, paths: list[str]) -> Iterator[Text]:
    """Yield every text below the paths."""
    readers = {".py": texts_of_python, ".pyi": texts_of_python, ".md": texts_of_markdown}
    readers |= dict.fromkeys((".js", ".html"), texts_of_interface)
    readers[".ipynb"] = texts_of_notebook
    for start in paths:
        place = root / start
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            path = file.relative_to(root).as_posix()
            if file.suffix in readers and file.is_file() and not path.startswith(SKIPPED):
                yield from readers[file.suffix](path, file.read_text("utf-8"))


def prose(text: Text) -> str:
    """Return the text without inline code and doctests."""
    without = (
        re.sub(r"(?m)^\s*(>>>|\.\.\.).*$", "", text.text) if text.kind == "docstring" else text.text
    )
    return re.sub(r"``[^`]*``|`[^`\n]*`", " x ", without)


def long_sentences(text: Text) -> Iterator[str]:
    """Yield the first words of sentences that have more than ``MAX_WORDS`` words."""
    if text.kind not in ("docstring", "page"):
        return
    for paragraph in re.split(r"\n\s*\n|\n\s*[-*|>#:]|\n\s*\d+\.", prose(text)):
        if text.kind == "page" and "|" in paragraph:
            continue  # a table
        for sentence in re.split(r"[.!?](?=\s|$)", paragraph):
            words = re.findall(r"[\w'-]*[A-Za-z][\w'-]*", sentence)
            if len(words) > MAX_WORDS:
                yield " ".join(words[:6])


def findings(root: Path, paths: list[str]) -> Iterator[tuple[Text, int, str, str]]:
    """Yield (text, line, rejected words, what to write instead)."""
    for text in texts(root, paths):
        if text.kind == "name":
            if text.text.strip("_") in NAMES:
                yield text, text.line, text.text, "name the value it holds"
            elif rejected := re.search(
                r"stands?_out|relearn|rivals?|describ(e|es|ed|ing)(_|$)", text.text
            ):
                yield text, text.line, rejected[0], "a name in the field's vocabulary"
            continue
        content = prose(text)
        for pattern, instead, where in PATTERNS:
            if where.search(text.path):
                for match in pattern.finditer(content):
                    line = text.line + content[: match.start()].count("\n")
                    yield text, line, match[0].lower(), instead
        for start in long_sentences(text):
            yield (
                text,
                text.line,
                f"sentence of more than {MAX_WORDS} words",
                f'shorten "{start} ..."',
            )


def main() -> int:
    """Print the findings or their counts; return 1 if a checked text has one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--count", action="store_true", help="Print a table of counts, pages included."
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="Check another checkout.")
    parser.add_argument(
        "--paths", nargs="*", default=None, help="Check these files and folders only."
    )
    options = parser.parse_args()
    paths = options.paths or [path for path in CHECKED if (options.root / path).exists()]
    all_findings = list(findings(options.root, paths))
    if options.count:
        kinds = ("docstring", "message", "comment", "name", "interface", "page")
        counts = Counter(
            (rejected if text.kind != "name" else f"{rejected} (name)", text.kind)
            for text, _, rejected, _ in all_findings
        )
        totals = Counter()
        for (rejected, _), count in counts.items():
            totals[rejected] += count
        print(f"{'term':36}" + "".join(f"{kind:>11}" for kind in kinds))
        for rejected, _ in totals.most_common():
            print(f"{rejected:36}" + "".join(f"{counts[rejected, kind]:11}" for kind in kinds))
        sums = [sum(count for (_, k), count in counts.items() if k == kind) for kind in kinds]
        print(f"{'all':36}" + "".join(f"{count:11}" for count in sums))
        return 0
    for text, line, rejected, instead in all_findings:
        print(f"{text.path}:{line}: {text.kind}: {rejected!r}: {instead}")
    return 1 if all_findings else 0


if __name__ == "__main__":
    sys.exit(main())
