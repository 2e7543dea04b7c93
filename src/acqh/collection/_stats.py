"""Facts about a collection, collected from its parts."""

from pathlib import Path

from acqh.collection._cache import IndexCache
from acqh.collection._coder import Coder
from acqh.collection._folder import Facts, size_on_disk
from acqh.collection._store import Store
from acqh.collection._types import CollectionStats


def collect_stats(
    path: Path, facts: Facts, store: Store, coder: Coder, cache: IndexCache
) -> CollectionStats:
    """Return facts about a collection."""
    model, index = coder.model, cache.current()
    n_labelled, n_thumbnails = store.counts()
    return CollectionStats(
        n_items=len(index),
        n_labelled=n_labelled,
        n_labels=len(store.label_counts()),
        n_thumbnails=n_thumbnails,
        bytes_per_item=index.bytes_per_item,
        code_bytes=coder.code_bytes,
        size_on_disk=size_on_disk(path) if store.connections.in_place() else 0,
        encoders={view: repr(each) for view, each in facts.encoders.by_view.items()},
        method=model.info.title,
        n_components=model.n_components,
        n_codebooks=model.n_codebooks,
        n_trained=facts.n_trained,
        trained_on=facts.trained_on,
        coded_by=store.coded_by(),
        n_skipped=facts.n_skipped,
        generation=facts.generation,
        change=store.change,
        version=facts.version,
        settings=None if facts.settings is None else facts.settings.stored(),
    )
