import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

import acqh

# Workers get this process's path, and so find what they are given to read.
sys.path.insert(0, str(Path(__file__).parent))


_DYING = """
import os, signal, sys
from acqh._core import files as _files
from acqh.methods import load_method
from acqh.scale import encode_parts

rename, renamed = _files.rename, []
def counted(source, target):
    renamed.append(target)
    if len(renamed) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)
_files.rename = counted
"""


@pytest.fixture
def run_killed():
    """Run a step in a process that dies by SIGKILL at the n-th time that a file gets its name.

    These are the manifest of the folder, then of each part its codebooks, its codes and its
    manifest, which makes it be there. The step finds its arguments in ``sys.argv[2:]``.
    """

    def run(step, n_renamed, *arguments):
        command = [sys.executable, "-c", _DYING + step, str(n_renamed), *map(str, arguments)]
        killed = subprocess.run(command, capture_output=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr

    return run


@pytest.fixture(scope="session")
def items():
    return acqh.make_multiview(230, n_labels=4, random_state=0)


@pytest.fixture(scope="session")
def model(items):
    return acqh.ACQH(8, n_codebooks=2, random_state=0).fit(items)


@pytest.fixture(scope="session")
def items_file(items, tmp_path_factory):
    path = tmp_path_factory.mktemp("items") / "items.npz"
    acqh.data.save_npz(items, path)
    return path


@pytest.fixture(scope="session")
def cluster():
    """Give two worker processes; a killed one is started again."""
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    from distributed.utils import get_mp_context

    # Workers come from a process that has imported everything: a new one takes no seconds then.
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "acqh.scale", "worker_chunks"])
        with distributed.LocalCluster(
            processes=True, n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster:
            yield cluster


@pytest.fixture
def client(cluster):
    """Give a client of both workers: of those that a test before has had killed, too."""
    from distributed import Client

    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=300)
        yield client


@pytest.fixture
def kill_reader(tmp_path):
    """Kill the first worker that reads a certain chunk, while it reads."""
    from worker_chunks import Deadly

    marker = tmp_path / "reader"

    def watch(chunks, number):
        watched = list(chunks)
        watched[number] = Deadly(watched[number], marker)
        return watched, killing()

    @contextmanager
    def killing():
        given_up = threading.Event()
        killer = threading.Thread(target=kill, args=(given_up,))
        killer.start()
        try:
            yield
        finally:
            given_up.set()
            killer.join()
        assert marker.exists()

    def kill(given_up):
        while not given_up.wait(0.01):
            if marker.exists():
                os.kill(int(marker.read_text()), signal.SIGKILL)
                return

    return watch
