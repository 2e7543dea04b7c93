"""A folder that replaces another while the process is killed or interrupted at each step."""

import shutil
import subprocess
import sys
from itertools import count

import pytest

import acqh
from acqh._core import files
from acqh.cli._output import new_folder
from acqh.errors import InvalidInputError

# Every change of a folder goes through one of these.
OPERATIONS = ("mkdir", "rename", "replace", "rmdir", "unlink", "remove")
REPLACE = """
import os, signal, sys
from pathlib import Path
import acqh
from acqh.cli._output import new_folder

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
path, n_left = Path(sys.argv[1]), int(sys.argv[2])


def counted(operation):
    def operate(*args, **options):
        global n_left
        if not n_left:
            os.kill(os.getpid(), getattr(signal, sys.argv[3]))
        n_left -= 1
        return operation(*args, **options)

    return operate


index = acqh.HammingIndex(8).add([[1], [2]])
for name in sys.argv[4:]:
    setattr(os, name, counted(getattr(os, name)))
with new_folder(path, overwrite=True) as folder:
    index.save(folder)
"""


def replace_until(path, n_operations, how):
    """Replace an index by one of two items; return whether that was interrupted."""
    arguments = [sys.executable, "-c", REPLACE, str(path), str(n_operations), how, *OPERATIONS]
    return subprocess.run(arguments, stderr=subprocess.DEVNULL).returncode != 0


def save(path, n_items):
    with new_folder(path, overwrite=True) as folder:
        acqh.HammingIndex(8).add([[item] for item in range(n_items)]).save(folder)


@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_a_replacement_is_finished_or_undone_whenever_it_is_interrupted(tmp_path, how):
    sizes = []
    for n_operations in count():
        path = tmp_path / str(n_operations) / "index"
        path.parent.mkdir()
        save(path, 1)
        was_interrupted = replace_until(path, n_operations, how)
        sizes.append(len(acqh.load(path)))
        save(path, 3)
        assert len(acqh.load(path)) == 3
        left = [name for name in files.names(path.parent) if not name.endswith(".partial")]
        assert left == ["index"], "the next write removes what was replaced"
        if not was_interrupted:
            break
    assert len(sizes) > 5
    assert sizes == sorted(sizes), "from some step on it is the new one"
    assert set(sizes) == {1, 2}


def test_of_a_killed_replacement_the_next_reader_gets_the_new_folder(tmp_path):
    path, new = tmp_path / "index", files.temporary_folder(tmp_path / "index")
    acqh.HammingIndex(8).add([[1], [2]]).save(new)
    save(new.with_suffix(".old"), 1)
    assert len(acqh.load(path)) == 2
    assert files.names(tmp_path) == {"index"}


def test_the_only_complete_folder_is_put_back(tmp_path):
    path, new = tmp_path / "index", files.temporary_folder(tmp_path / "index")
    save(new.with_suffix(".old"), 1)
    assert len(acqh.load(path)) == 1
    assert files.names(tmp_path) == {"index"}


def test_nothing_is_lost_if_neither_folder_can_be_renamed(tmp_path, monkeypatch):
    path = tmp_path / "index"
    save(path, 1)
    n_renamed = 0

    def rename_once(source, target, real=files.rename):
        nonlocal n_renamed
        if path in (source, target):
            n_renamed += 1
            if n_renamed > 1:
                raise PermissionError("it is in use")
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files, "rename", rename_once)
        with pytest.raises((PermissionError, InvalidInputError)):
            save(path, 2)
        assert not path.exists()
    assert len(acqh.load(path)) == 1


def test_a_link_is_replaced_and_its_folder_kept(tmp_path):
    save(tmp_path / "data", 1)
    (tmp_path / "index").symlink_to(tmp_path / "data")
    save(tmp_path / "index", 2)
    assert not (tmp_path / "index").is_symlink()
    assert len(acqh.load(tmp_path / "index")) == 2
    assert len(acqh.load(tmp_path / "data")) == 1
    assert files.names(tmp_path) == {"data", "index"}


def test_a_folder_that_appears_meanwhile_is_not_replaced_without_overwrite(tmp_path):
    path = tmp_path / "index"

    def save_late():
        with new_folder(path) as folder:
            acqh.HammingIndex(8).add([[1]]).save(folder)
            shutil.copytree(folder, path)
            (path / "mine").touch()

    with pytest.raises(InvalidInputError, match="exists"):
        save_late()
    assert (path / "mine").exists()
    assert files.names(tmp_path) == {"index"}
