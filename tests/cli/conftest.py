"""What tests of commands share."""

import logging
import sys
import warnings

import pytest

from acqh import cli
from acqh.cli._output import output


@pytest.fixture
def call(capsys, monkeypatch):
    """Return a function that runs a command in this process.

    It returns the exit code and what was written to stdout and stderr. An exception that the
    command would show as a traceback is raised.
    """

    # Options of the command do not hold for later tests.
    log = logging.getLogger("acqh")
    monkeypatch.setattr(log, "level", log.level)
    for name, value in vars(output).items():
        monkeypatch.setattr(output, name, value)

    def main(*arguments):
        monkeypatch.setattr(sys, "argv", ["acqh", *map(str, arguments)])
        with pytest.raises(SystemExit) as left, warnings.catch_warnings():
            cli.main()
        return left.value.code, *capsys.readouterr()

    return main


@pytest.fixture
def plain_defaults(monkeypatch):
    """Let the default encoders be quick ones: training with the others takes five seconds."""
    second = {"image": "hog", "text": "tfidf"}
    monkeypatch.setattr("acqh.encoders.named._best_installed", second.get)
