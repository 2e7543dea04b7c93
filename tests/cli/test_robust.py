"""Commands end without a traceback on interrupts, narrow encodings and unusual numbers."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from acqh.collection import Collection, Item

INTERRUPTING = """
    import os, signal, sys

    class Interrupting:
        def find_spec(self, name, path=None, target=None):
            if name == {module!r}:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1_000_000):
                    pass  # Python calls the handler between two instructions

    sys.meta_path.insert(0, Interrupting())
    from acqh.__main__ import main
    sys.argv = ["acqh", *sys.argv[1:]]
    main()
"""


# A job in the background of a shell inherits that interrupts are ignored.
HANDLED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    path = tmp_path_factory.mktemp("robust") / "c.acqh"
    words = ("dog", "rose", "car", "boat")
    items = [Item(text=f"a {word} café {n}", id=f"{word}é{n}") for word in words for n in range(5)]
    Collection.build(items, path, text_encoder="tfidf").close()
    return path


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "acqh", *map(str, arguments)],
        capture_output=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("module", ["typer", "numpy", "acqh.cli.search", "acqh.collection"])
def test_an_interrupt_during_imports_exits_with_130_and_no_traceback(collection, module):
    code = textwrap.dedent(INTERRUPTING).format(module=module)
    done = subprocess.run(
        [sys.executable, "-c", HANDLED + code, "search", str(collection), "dog"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_that_an_import_turns_into_another_error_exits_with_130(collection):
    code = textwrap.dedent(INTERRUPTING).format(module="acqh.collection")
    swallow = """
                try:
                    os.kill(os.getpid(), signal.SIGINT)
                    for _ in range(1_000_000):
                        pass
                except KeyboardInterrupt:
                    raise ImportError("initialization failed") from None
"""
    start = code.index("            os.kill(")
    code = code[:start].rstrip() + swallow + code[code.index("\nsys.meta_path") :]
    done = subprocess.run(
        [sys.executable, "-c", HANDLED + code.replace("                ", "            "), "search",
         str(collection), "dog"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr


def test_an_ignored_interrupt_stays_ignored(collection):
    code = textwrap.dedent(INTERRUPTING).format(module="acqh.collection")
    done = subprocess.run(
        [sys.executable, "-c", code, "search", str(collection), "dog"],
        capture_output=True,
        check=False,
        timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_results_are_printed_in_any_encoding(collection, encoding):
    done = run("search", collection, "café", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert b"caf" in done.stdout


def test_errors_are_printed_in_any_encoding(tmp_path):
    done = run("search", tmp_path / "caf\u00e9.acqh", "x", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
def test_more_hits_than_any_number_of_items_are_all_items(collection, mode):
    done = run("search", collection, "dog", "-k", "9" * 20, "--mode", mode, "--json")
    assert done.returncode == 0, done.stderr
    assert b"dog" in done.stdout
