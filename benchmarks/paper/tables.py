"""The experiments of the ACQH paper with its published results, one JSON line per result.

    python -m benchmarks.paper.tables wiki --data-dir DIR [--seeds 5] [--lengths 16,32]
        [--methods acqh,dch] [--part map|training-size|convergence|sensitivity]

Query vectors and codes have K = 8 to 128 components or bits, additive codes four codebooks, and
the database is the training set. ``map`` is Tables 1 to 5, and how far each cut-off is from the
printed MAP, since the paper does not state its own; the other parts are its figures, at K = 32.
"""

import argparse
from collections import defaultdict

import numpy as np

import acqh
from acqh.bench import evaluate, make_split
from benchmarks._measure import emit
from benchmarks.paper.published import PAPER, paper_result

LENGTHS, MIDDLE, N_CODEBOOKS = tuple(PAPER["n_components"]), 32, 4
METHODS = [name for names in PAPER["methods"].values() for name in names]
TIMED_BY_SIZE = ("acqh", "acqh-paper", "dch", "fdch")
TRAIN_SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
CUTOFFS = ("map_all", "map_50", "map_100")
# Around the paper's values, 1e-2, 1e-4 and 4; its figures show no scale.
SENSITIVITY = {
    "label_ridge": (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e2),
    "label_weight": (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    "n_codebooks": (1, 2, 3, 4, 6, 8),
}


def make_method(name, length, seed, **settings):
    """Return an unfitted method with codes or vectors of a length."""
    cls = acqh.methods.get(name)
    params = cls().get_params(deep=False)
    if "n_bits" in params:
        settings["n_bits"] = length
    elif "n_codebooks" in params:
        settings = {"n_components": length, "n_codebooks": N_CODEBOOKS, **settings}
    if "random_state" in params:
        settings["random_state"] = seed
    return cls(**settings)


def measure(data, name, length, seeds, n_train=None, **settings):
    """Return the rows of all splits by direction."""
    rows = defaultdict(list)
    for seed in range(seeds):
        split = make_split(data, "labelled", seed=seed, n_train=n_train)
        method = make_method(name, length, seed, **settings)
        for row in evaluate(method, data, split, database=method.info.modes[0]):
            rows[row.direction].append(row)
    return rows


def mean(rows, column):
    """Return the mean of a column over splits."""
    return float(np.mean([getattr(row, column) for row in rows]))


def say(part, **facts):
    """Print one result."""
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in facts.items()}
    emit({"benchmark": "paper", "part": part} | rounded)


def tables(data, options):
    """Print Tables 1 to 5, and the distance of each cut-off from the printed MAP."""
    distances = defaultdict(list)
    for name in options.methods.split(","):
        for length in map(int, options.lengths.split(",")):
            for direction, rows in measure(data, name, length, options.seeds).items():
                key = (data.name, name, length, direction)
                means = {column: mean(rows, column) for column in CUTOFFS}
                printed = paper_result("map", *key)
                times = {}
                for column in ("fit_seconds", "query_seconds"):
                    times[column] = mean(rows, column)
                    times[f"printed_{column}"] = paper_result(column, *key)
                facts = {"data": data.name, "method": name, "K": length, "direction": direction}
                say("map", **facts, **means, printed_map=printed, **times, n_splits=len(rows))
                if printed is not None:
                    for column, value in means.items():
                        distances[column].append(abs(value - printed))
    for column, values in distances.items():
        difference = float(np.mean(values))
        say("cut-off", data=data.name, cutoff=column, mean_difference=difference, n=len(values))


def training_size(data, options):
    """Print the time of a fit by the number of training items."""
    n_all = len(make_split(data, "labelled").train)
    for name in (name for name in TIMED_BY_SIZE if name in options.methods.split(",")):
        for share in TRAIN_SHARES:
            n_train = round(share * n_all)
            rows = next(iter(measure(data, name, MIDDLE, options.seeds, n_train).values()))
            seconds = mean(rows, "fit_seconds")
            say("training-size", data=data.name, method=name, n_train=n_train, seconds=seconds)


def convergence(data, options):
    """Print the objective of Algorithm 1 after each sweep, over its largest value."""
    for seed in range(options.seeds):
        train = make_split(data, "labelled", seed=seed).parts(data).train
        model = make_method("acqh-paper", MIDDLE, seed).fit(train.views, train.labels)
        values = np.asarray(model.objective_)
        objective = np.round(values / np.abs(values).max(), 5).tolist()
        say("convergence", data=data.name, seed=seed, objective=objective)


def sensitivity(data, options):
    """Print MAP of Algorithm 1 by the values of its parameters."""
    for parameter, values in SENSITIVITY.items():
        for value in values:
            rows = measure(data, "acqh-paper", MIDDLE, options.seeds, **{parameter: value})
            means = {direction: mean(runs, "map_all") for direction, runs in rows.items()}
            say("sensitivity", data=data.name, parameter=parameter, value=f"{value:g}", **means)


PARTS = {
    "map": tables,
    "training-size": training_size,
    "convergence": convergence,
    "sensitivity": sensitivity,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", default=["emoji"], help="names of data sets")
    parser.add_argument("--data-dir", help="folder of the data sets")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--seeds", type=int, default=1, help="splits; the paper has 5")
    parser.add_argument("--part", choices=PARTS, help="all by default")
    options = parser.parse_args()
    for name in options.data:
        data = acqh.load_dataset(name, data_dir=options.data_dir)
        for part in [options.part] if options.part else PARTS:
            PARTS[part](data, options)


if __name__ == "__main__":
    main()
