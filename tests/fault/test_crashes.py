"""Processes killed while they save, and full disks."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = [sys.executable, str(Path(__file__).with_name("writers.py"))]
# A private mount, gone with the process; needs no privileges where user namespaces are allowed.
ON_SMALL_DISK = [
    "unshare", "--mount", "--map-root-user", "sh", "-c",
    'mount -t tmpfs -o size=256k tmpfs "$0" || exit 77; exec "$@"',
]  # fmt: skip

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX processes")


def test_a_writer_killed_a_hundred_times_always_leaves_a_whole_bundle(tmp_path):
    done = subprocess.run(
        [*PROGRAM, "killed", str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    # Most kills come in the middle of a save, and many after one was finished.
    assert outcome["interrupted"] > 10
    assert outcome["progressed"] > 10
    assert outcome["left"] == 3


def test_a_full_disk_leaves_the_old_bundle_and_no_litter(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare(1) to mount a small disk")
    command = [*ON_SMALL_DISK, str(tmp_path), *PROGRAM, "full", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if "unshare failed" in done.stderr or done.returncode == 77:
        pytest.skip("this system does not allow mounting a small disk")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["failed"] > 5
    assert outcome["succeeded"] > 5
