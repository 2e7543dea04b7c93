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
print(f"{len(train)} to learn from, {len(query)} to ask with")

# %% [markdown]
# ## Fit
# Word counts become 400 components first. The solver is in closed form but for the codebooks; the
# gap says how far it is from the best that any codes could do.


# %%
def maps():
    """Return fresh feature maps: one is fitted with each model."""
    return {"text": make_pipeline(TfidfTransformer(), TagSVD(400, random_state=0))}


model = acqh.ACQH(32, n_codebooks=4, feature_maps=maps(), random_state=0)
model.fit(train.views, train.labels)
print(f"{model.optimality_gap_:.1e} above the lower bound after {model.n_iter_} sweeps")

# %% [markdown]
# ## Items without labels
# Items may be coded by their labels, or, without any, by what their views predict. The second
# tells items of one group apart. Either way an item is four bytes.

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
    """Print what some queries of one view find."""
    hits = index.search(model.project(query.views[view][rows], view=view), k=8)
    for row, found in zip(rows, hits.ids, strict=True):
        if view == "text":
            print(query.items["name"][row], "->", *(train.items["emoji"][n] for n in found))
        else:
            names = ", ".join(train.items["name"][n] for n in found[:4])
            print(query.items["emoji"][row], "->", names)


some = list(range(0, len(query), 60))
show("text", some)
show("image", some)

# %% [markdown]
# A search is measured as it is: by ids, against the labels of both sides.

# %%
hits = index.search(model.project(query.views["text"], view="text"), k=50)
found = acqh.metrics.evaluate(hits, query.labels, train.labels, cutoffs=(10, 50))
print({cutoff: round(value, 3) for cutoff, value in found.mean_average_precision.items()})

# %% [markdown]
# ## Save and load
# A model and an index are directories of plain arrays: no pickle.

# %%
with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "model.acqh")
    index.save(Path(folder) / "index.acqh")
    again = acqh.load(Path(folder) / "model.acqh")
    opened = acqh.load(Path(folder) / "index.acqh")
    asked = again.project(query.views["text"], view="text")
    same = (opened.search(asked, k=5).ids == index.search(asked, k=5).ids).all()
    print(f"{opened} opened; the same answers: {bool(same)}")

# %% [markdown]
# ## Evaluation
# In the labelled protocol the database is the training set, coded by its labels; in the unlabelled
# one it is neither trained on nor labelled. Ridge regression to the labels, which stores four
# bytes per *label*, is the control that a method has to be compared with.

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
