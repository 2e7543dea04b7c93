import doctest
import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from acqh.cli import app

TUTORIALS = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
# These do not end.
NOT_TYPED = "open|serve|demo"


def type_in(command):
    with redirect_stdout(StringIO()):
        app(shlex.split(command, comments=True)[1:], standalone_mode=False)


def with_commands(page, not_typed):
    """Return the page with its commands as calls among the examples, in the order of the reader."""

    def calls(block):
        typed = re.findall(rf"^acqh (?!{not_typed}).*", block[1], flags=re.MULTILINE)
        return "\n".join(f">>> type_in({command!r})" for command in typed) + "\n\n"

    return re.sub(r"```sh\n(.*?)```", calls, page, flags=re.DOTALL)


@pytest.mark.parametrize(
    ("page", "not_typed"),
    [
        ("compare.md", f"{NOT_TYPED}|bench|report"),
        pytest.param("compare.md", NOT_TYPED, marks=pytest.mark.slow),
        ("compress.md", NOT_TYPED),
        ("search.md", NOT_TYPED),
    ],
)
def test_every_example_and_command_of_a_tutorial_gives_the_stated_output(
    tmp_path, monkeypatch, page, not_typed
):
    monkeypatch.chdir(tmp_path)
    text = (TUTORIALS / page).read_text(encoding="utf-8")
    assert all(first.startswith(">>>") for first in re.findall(r"```python\n *(\S+)", text))
    globs = {"type_in": type_in}
    examples = doctest.DocTestParser().get_doctest(
        with_commands(text, not_typed), globs, page, page, 0
    )
    result = doctest.DocTestRunner(verbose=False).run(examples)
    assert result.attempted > 0
    assert result.failed == 0
