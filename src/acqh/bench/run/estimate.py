"""How long cells will take, from those that have been run."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from acqh.bench.run.cells import Cell
from acqh.bench.run.store import Record

# Where nothing like a cell has been run: about a middling method on one core.
_GUESSED_SECONDS = 3.0


class Estimator:
    """Expects of a cell the mean time of the most alike ones that have been run.

    Alike are cells of the same data, label and length; then of the same data and label; then of
    the same data; then all. Where nothing has been run, three seconds per cell is a guess.

    Parameters
    ----------
    records : iterable of dict
        Of a Store; failed cells do not count.

    Examples
    --------
    >>> Estimator([]).describe(90)
    '2 min'
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._sums: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for record in records:
            self.learn(record)

    def learn(self, record: Record) -> None:
        """Take another finished cell into account."""
        if record["status"] != "done":
            return
        length = record["n_components_asked"]
        for kind in _kinds(record["setting"]["dataset"], record["label"], length):
            known = self._sums[kind]
            known[0] += record["seconds"]
            known[1] += 1

    def seconds(self, cells: Iterable[Cell]) -> float:
        """Return the time that cells will take."""
        return sum(self._expect(cell) for cell in cells)

    def _expect(self, cell: Cell) -> float:
        for kind in _kinds(cell.dataset, cell.label, cell.n_components_asked):
            if kind in self._sums:
                total, count = self._sums[kind]
                return total / count
        return _GUESSED_SECONDS

    @staticmethod
    def describe(seconds: float) -> str:
        """Return a time in words, as exact as an estimate is."""
        if seconds < 60:
            return f"{seconds:.0f} s"
        if seconds < 5400:
            return f"{seconds / 60:.0f} min"
        return f"{seconds / 3600:.1f} h"


def _kinds(dataset: str, label: str, length: int | None) -> tuple[Any, ...]:
    """Return what a cell is like, the most alike first."""
    return (dataset, label, length), (dataset, label), (dataset,), ()
