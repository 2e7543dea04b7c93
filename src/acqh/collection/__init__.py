"""Items, the model that codes them and the index that finds them, in one folder."""

from typing import TYPE_CHECKING

from acqh._core.imports import lazy_names

if TYPE_CHECKING:
    from acqh.collection._collection import Collection
    from acqh.collection._folder import generation_of
    from acqh.collection._folder_source import folder_items
    from acqh.collection._fuse import Mode
    from acqh.collection._prepare import MAX_NAME_CHARACTERS
    from acqh.collection._replacing import remove_leftovers
    from acqh.collection._searchable import Searchable
    from acqh.collection._settings import BuildSettings
    from acqh.collection._sharded import ShardedCollection, open_collections
    from acqh.collection._sources import read_items
    from acqh.collection._sync import SyncReport
    from acqh.collection._types import (
        AddReport,
        Answer,
        CollectionReport,
        CollectionStats,
        Explanation,
        Hit,
        Item,
    )
    from acqh.collection._verify import verify_collection

__all__ = [
    "MAX_NAME_CHARACTERS",
    "AddReport",
    "Answer",
    "BuildSettings",
    "Collection",
    "CollectionReport",
    "CollectionStats",
    "Explanation",
    "Hit",
    "Item",
    "Mode",
    "Searchable",
    "ShardedCollection",
    "SyncReport",
    "folder_items",
    "generation_of",
    "open_collections",
    "read_items",
    "remove_leftovers",
    "verify_collection",
]


if not TYPE_CHECKING:  # type checkers know the new name alone
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "acqh.collection._collection": "Collection",
            "acqh.collection._folder": "generation_of",
            "acqh.collection._folder_source": "folder_items",
            "acqh.collection._fuse": "Mode",
            "acqh.collection._prepare": "MAX_NAME_CHARACTERS",
            "acqh.collection._replacing": "remove_leftovers",
            "acqh.collection._searchable": "Searchable",
            "acqh.collection._settings": "BuildSettings",
            "acqh.collection._sharded": "ShardedCollection open_collections",
            "acqh.collection._sources": "read_items",
            "acqh.collection._sync": "SyncReport",
            "acqh.collection._types": (
                "AddReport Answer CollectionReport CollectionStats Explanation Hit Item"
            ),
            "acqh.collection._verify": "verify_collection",
        },
    )
