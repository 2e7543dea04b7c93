"""A tour of acqh on the embedded emoji set.

Run with ``python examples/walkthrough.py``, or cell by cell in an editor that knows ``# %%``.
"""

# %% [markdown]
# ## Data
# Each emoji is an image (image features) and a name with tags (counts of words). Variants of one
# thing share a family, and a split keeps a family together, so that no query has a twin.

# %%
import tempfile
from pathlib import Path

from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.pipeline import make_pipeline

import acqh
from acqh.features import TagSVD

data = acqh.load_dataset("emoji")
train, query = data.split(test_size=0.2, groups="family", random_state=0)
print(data)
print(f"{len(train)} training items, {len(query)} queries")

# %% [markdown]
# ## Fit
# An SVD reduces word counts to 400 dimensions. Everything except the codebooks has a closed form.
# The gap bounds the distance of the objective from its minimum over all codes.


# %%
def maps():
    """Return fresh feature maps: one is fitted with each model."""
    return {"text": make_pipeline(TfidfTransformer(), TagSVD(400, random_state=0))}


model = acqh.ACQH(32, n_codebooks=4, feature_maps=maps(), random_state=0)
model.fit(train.views, train.labels)
print(f"{model.optimality_gap_:.1e} above the lower bound after {model.n_iter_} sweeps")

# %% [markdown]
# ## Items without labels
# Items are encoded from their labels or, without labels, from their views. Codes from views also
# distinguish items of one group. Either way an item takes four bytes.

# %%
by_labels = model.encode(labels=train.labels)
by_views = model.encode(dict(train.views))
print(
    f"{len(set(map(bytes, by_labels)))} codes by labels, {len(set(map(bytes, by_views)))} by views"
)
index = acqh.CodeIndex(model.codebooks_).add(by_views)  # ids are row numbers unless given

# %% [markdown]
# ## Search
# A query of either view becomes a real vector; search is exact.


# %%
def show(view, rows):
    """Print the hits of some queries of one view."""
    hits = index.search(model.project(query.views[view][rows], view=view), k=8)
    for row, ids in zip(rows, hits.ids, strict=True):
        if view == "text":
            print(query.items["name"][row], "->", *(train.items["emoji"][n] for n in ids))
        else:
            names = ", ".join(train.items["name"][n] for n in ids[:4])
            print(query.items["emoji"][row], "->", names)


some = list(range(0, len(query), 60))
show("text", some)
show("image", some)

# %% [markdown]
# Evaluate the search result: ids of hits, and the labels of queries and items.

# %%
hits = index.search(model.project(query.views["text"], view="text"), k=50)
results = acqh.metrics.evaluate(hits, query.labels, train.labels, cutoffs=(10, 50))
print({cutoff: round(value, 3) for cutoff, value in results.mean_average_precision.items()})

# %% [markdown]
# ## Save and load
# A model and an index are directories of plain arrays: no pickle.

# %%
with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "model.acqh")
    index.save(Path(folder) / "index.acqh")
    again = acqh.load(Path(folder) / "model.acqh")
    opened = acqh.load(Path(folder) / "index.acqh")
    queries = again.project(query.views["text"], view="text")
    same = (opened.search(queries, k=5).ids == index.search(queries, k=5).ids).all()
    print(f"{opened} opened; same results: {bool(same)}")

# %% [markdown]
# ## Evaluation
# In the labelled protocol the database is the training set, encoded from its labels. In the
# unlabelled one it is held out and has no labels. Ridge regression to the labels, which stores four
# bytes per *label*, is the trivial baseline.

# %%
for protocol in ("labelled", "unlabelled"):
    split = acqh.bench.make_split(data, protocol, seed=0)
    for method in (
        acqh.ACQH(32, n_codebooks=4, feature_maps=maps(), random_state=0),
        acqh.methods.get("label-ridge")(ridge="auto", feature_maps=maps()),
    ):
        for row in acqh.bench.evaluate(method, data, split):
            print(
                f"{protocol:10} {row.method:11} {row.bytes_per_item:2} bytes  {row.direction:11}  "
                f"MAP {row.map_all:.3f}"
            )
