"""What cut-off, ties, the choice of an epoch and training items in the database do to MAP.

One JSON line per effect and direction, each with its control from the same run: the same model,
measured in another way.

    python -m benchmarks.paper.what_moves_map --data-dir DIR
        [--data wiki|mirflickr25k:features=deep]
"""

import argparse
import warnings

import numpy as np

import acqh
from acqh.bench import evaluate, make_split
from acqh.bench.running.evaluate import measure, open_data
from acqh.methods import CMFH, DCH, DDCMH
from acqh.metrics import mean_average_precision, relevance
from benchmarks._measure import emit

BITS = 16
CUTOFFS = (None, 50, 5000)


def say(effect, direction, **figures):
    """Print one result."""
    shown = {
        key: round(value, 4) if isinstance(value, float) else value
        for key, value in figures.items()
    }
    emit({"benchmark": "what_moves_map", "effect": effect, "direction": direction} | shown)


def scores_of(method, parts, view, searched):
    """Return the scores of all items for all queries of a view."""
    codes = method.encode({searched: parts.database.views[searched]}, mode="single")
    queries = method.embed_queries(parts.query.views[view], view=view)
    return queries @ method.decode(codes).T


def cutoffs_and_ties(data):
    """Measure one model at several cut-offs, and with ties in several orders."""
    split = make_split(data, "field", seed=0)
    parts = split.parts(data)
    method = DCH(BITS, random_state=0).fit(parts.train.views, parts.train.labels)
    by_class = np.argsort(parts.database_labels.argmax(axis=1), kind="stable")
    for view, searched in (("image", "text"), ("text", "image")):
        scores = scores_of(method, parts, view, searched)
        relevant = relevance(parts.query.labels, parts.database_labels)
        values = {
            f"map_{cutoff or 'all'}": mean_average_precision(scores, relevant, cutoff=cutoff)
            for cutoff in CUTOFFS
        }
        say("cut-off", f"{view}->{searched}", method="dch", bits=BITS, **values)
        expected = values["map_50"]
        rows = mean_average_precision(scores, relevant, cutoff=50, ties="stable")
        sorted_rows = mean_average_precision(
            scores[:, by_class], relevant[:, by_class], cutoff=50, ties="stable"
        )
        lucky = mean_average_precision(scores + 1e-6 * relevant, relevant, cutoff=50)
        say("ties", f"{view}->{searched}", method="dch", bits=BITS, map_50_expected=expected,
            map_50_in_file_order=rows,
            map_50_sorted_by_class=sorted_rows, map_50_relevant_first=lucky)  # fmt: skip


def epochs(data, counts):
    """Choose the length of training on the test queries, or on held-out training items."""
    split = make_split(data, "field", seed=0)
    parts = split.parts(data)
    train, held = parts.train.split(test_size=0.2, random_state=0)
    values = []
    for count in counts:
        method = DDCMH(BITS, max_epochs=count, random_state=0).fit(train.views, train.labels)
        row = {}
        for view, searched in (("image", "text"), ("text", "image")):
            test = mean_average_precision(
                scores_of(method, parts, view, searched),
                relevance(parts.query.labels, parts.database_labels),
            )
            queries = method.embed_queries(held.views[view], view=view)
            codes = method.encode({searched: train.views[searched]}, mode="single")
            final = mean_average_precision(
                queries @ method.decode(codes).T, relevance(held.labels, train.labels)
            )
            row[f"{view}->{searched}"] = test, final
        values.append(row)
    for direction in values[0]:
        test, final = np.array([row[direction] for row in values]).T
        say("epoch", direction, method="ddcmh", bits=BITS, epochs=list(counts),
            chosen_on_test_queries=float(test.max()),
            chosen_on_held_out=float(test[final.argmax()]),
            last=float(test[-1]))  # fmt: skip


def training_items(data):
    """Measure with training items in the database, and without; learnt from the same items."""
    for name, method in (("dch", DCH(BITS, random_state=0)), ("cmfh", CMFH(BITS, random_state=0))):
        field = make_split(data, "field", seed=0, n_train=5_000 if len(data) > 12_000 else None)
        if len(field.train) == len(field.database):
            field = make_split(data, "field", seed=0, n_train=len(field.database) // 2)
        parts = field.parts(data)
        method.fit(parts.train.views, parts.train.labels)
        with_them = measure(method, field, parts, "fused", 0.0)
        strict = np.setdiff1d(field.database, field.train)
        others = acqh.bench.Split(
            field.train, field.query, strict, "unlabelled", 0, field.dataset, field.n_items,
            field.ids_sha256,
        )  # fmt: skip
        without = measure(method, others, others.parts(data), "fused", 0.0)
        labelled = evaluate(method, data, make_split(data, "labelled", seed=0), database="fused")
        for (first, *_), (second, *_), third in zip(with_them, without, labelled, strict=True):
            say("training items in the database", first.direction, method=name, bits=BITS,
                share_of_training_items=len(field.train) / len(field.database),
                map_all_with=first.map_all, map_all_without=second.map_all,
                map_all_database_is_training_set=third.map_all)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--data", default="emoji")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    data = open_data(arguments.data, arguments.data_dir).data
    cutoffs_and_ties(data)
    training_items(data)
    epochs(data, (1, 2, 3, 5, 8, 12, 20, 30, 50))


if __name__ == "__main__":
    main()
