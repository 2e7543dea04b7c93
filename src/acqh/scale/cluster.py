"""Clusters: whether they can do our work, and how to reach or start one."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from acqh import __version__
from acqh._core.imports import require
from acqh.errors import ClusterError

_SCHEDULER_SECONDS = 5
_WORKER_SECONDS = 30


def check_workers(client: Any) -> None:
    """Find out whether the workers can do our work.

    Raises
    ------
    ClusterError
        There are no workers, or they lack this version of acqh.
    """
    try:
        client.wait_for_workers(1, timeout=_WORKER_SECONDS)
    except TimeoutError as error:
        raise ClusterError(
            f"the scheduler {client.scheduler.address} has no workers; start some with "
            f"'dask worker {client.scheduler.address}'"
        ) from error
    for worker, version in client.run(_version, on_error="return").items():
        # A worker that died meanwhile is none any more.
        if version != __version__ and not isinstance(version, OSError):
            raise ClusterError(
                f"worker {worker} has acqh {version}, this is {__version__}; all machines need the "
                "same"
            )


def list_workers(client: Any) -> list[str]:
    """Return the addresses of the workers, in an order that is always the same."""
    return sorted(client.nthreads())


def _version() -> str:
    return __version__


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Give a client of a Dask cluster, for as long as it is needed.

    Parameters
    ----------
    address : str
        Of a scheduler, such as ``"tcp://10.0.0.1:8786"``; or ``"local"``, which starts one process
        a core here and ends them afterwards.

    Yields
    ------
    distributed.Client

    Raises
    ------
    ClusterError
        Nothing answers there within 5 seconds, or what answers cannot do our work.
    MissingExtraError
        Dask is not installed.

    Examples
    --------
    >>> from distributed import LocalCluster
    >>> with LocalCluster(processes=False, dashboard_address=":0") as cluster:
    ...     with connect(cluster.scheduler_address) as client:
    ...         client.submit(sum, [1, 2]).result()
    3
    """
    distributed = require("distributed")
    if address == "local":
        # Mapped files count as a worker's memory, though the system takes it back when it must.
        with (
            distributed.LocalCluster(
                processes=True,
                threads_per_worker=1,
                dashboard_address=":0",
                memory_limit=None,
                silence_logs=logging.CRITICAL,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(address, timeout=_SCHEDULER_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address} ({error}); give the address that 'dask "
            "scheduler' prints, or 'local'"
        ) from error
    with client:
        yield client
