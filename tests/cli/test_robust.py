"""Commands end without a traceback on interrupts, narrow encodings and unusual numbers."""

import io
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


@pytest.mark.parametrize("module", ["typer", "numpy", "acqh.collection"])
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


def test_an_ignored_interrupt_stays_ignored():
    code = textwrap.dedent(INTERRUPTING).format(module="acqh.data")
    done = subprocess.run(
        [sys.executable, "-c", code, "datasets"],
        capture_output=True,
        check=False,
        timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that replaces the terminal by one of an encoding and returns it."""

    def opened(encoding):
        shown = io.TextIOWrapper(io.BytesIO(), encoding)
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, shown)
        return shown

    return opened


def test_results_are_printed_in_any_encoding(collection, terminal, call):
    shown = terminal("ascii")
    assert call("search", collection, "café")[0] == 0
    shown.flush()
    assert b"caf" in shown.buffer.getvalue()


def test_errors_are_printed_in_any_encoding(tmp_path, terminal, call):
    shown = terminal("ascii")
    assert call("search", tmp_path / "caf\u00e9.acqh", "x")[0] == 1
    shown.flush()
    assert b"caf?.acqh" in shown.buffer.getvalue()


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
def test_more_hits_than_any_number_of_items_are_all_items(collection, mode, call):
    code, shown, _ = call("search", collection, "dog", "-k", "9" * 20, "--mode", mode, "--json")
    assert code == 0
    assert "dog" in shown
