"""What the Dockerfile says holds here, without Docker."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def commands(name):
    """Return the lists in JSON that follow an instruction."""
    return [json.loads(text) for text in re.findall(rf"{name} (\[.*\])$", DOCKERFILE, re.MULTILINE)]


def test_its_python_and_extras_are_of_the_package_and_enough_for_queries():
    version = re.search(r"^FROM python:([\d.]+)-slim$", DOCKERFILE, re.MULTILINE).group(1)
    assert SpecifierSet(PROJECT["requires-python"]).contains(f"{version}.0")
    extras = re.search(r"acqh-\*\.whl\)\[([\w,]+)\]", DOCKERFILE).group(1).split(",")
    assert {"images", "text", "languages", "serve"} <= set(extras)
    assert set(extras) <= set(PROJECT["optional-dependencies"])


def test_all_that_is_copied_is_sent_to_docker():
    ignored = (ROOT / ".dockerignore").read_text().split()
    copied = re.search(r"^COPY (.*) /tmp/install/$", DOCKERFILE, re.MULTILINE).group(1).split()
    assert ignored == ["*", *(f"!{name}" for name in copied)]
    assert (ROOT / "constraints.txt").is_file()


def test_its_command_serves_a_collection_and_its_check_finds_it_well(built, token_files):
    [entry], [check, arguments] = commands("ENTRYPOINT"), commands("CMD")
    places = {"/collection": str(built), "/token": str(token_files["token_file"])}
    assert entry[0] == "acqh"
    command = [
        *entry[1:],
        *(places.get(argument, argument) for argument in arguments),
        "--port",
        "0",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "acqh", *command], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            port = re.search(r"at http://0.0.0.0:(\d+)/", process.stderr.readline()).group(1)
            looked = [word.replace(":8000/", f":{port}/") for word in check[1:]]
            subprocess.run([sys.executable, *looked], check=True, timeout=30)
        finally:
            process.terminate()
