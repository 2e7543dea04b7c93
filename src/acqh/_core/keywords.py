"""Suggest the right name for an unknown keyword argument."""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Names of parameters in other libraries.
_SYNONYMS = {
    "k": ("top_k", "topk", "n", "limit", "size", "n_results", "n_neighbors", "num_results"),
    "text": ("query", "q", "words", "search", "query_text", "prompt"),
    "queries": ("query", "q", "x", "xq", "query_vectors"),
    "where": ("filter", "filters", "only", "condition"),
    "filter": ("where", "filters", "mask", "params"),
    "bytes_per_item": ("bytes", "n_bytes", "code_size", "bits", "n_bits", "nbits"),
    "n_codebooks": ("bytes", "m", "n_bytes", "n_subquantizers"),
    "n_components": ("dim", "d", "n_dims", "dimensions", "n_dimensions"),
    "random_state": ("seed", "rng", "random_seed"),
    "n_threads": ("n_jobs", "threads", "num_threads", "workers"),
    "items": ("x", "xb", "vectors", "data", "database", "embeddings"),
    "item": ("like", "id", "similar_to"),
    "n_splits": ("seeds", "seed", "n_seeds", "splits", "n_runs", "repeats"),
    "cutoffs": ("k", "at", "top_k"),
}


def suggest_keywords(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function so that its TypeError for an unknown keyword names the nearest one.

    Examples
    --------
    >>> @suggest_keywords
    ... def search(text, *, k=10):
    ...     return text, k
    >>> search("dog", top_k=5)
    Traceback (most recent call last):
    TypeError: search() got an unexpected keyword argument 'top_k'; did you mean 'k'?
    """
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if kwargs.keys() <= parameters.keys():
            return function(*args, **kwargs)
        unknown = next(name for name in kwargs if name not in parameters)
        raise TypeError(
            f"{function.__qualname__}() got an unexpected keyword argument {unknown!r}"
            f"{suggest(unknown, parameters)}"
        )

    return checked


def suggest(unknown: str, names: Iterable[str]) -> str:
    """Return ``"; did you mean NAME?"`` with the nearest of the names, or an empty string."""
    listed = list(names)
    candidates = [name for name in listed if unknown.lower() in _SYNONYMS.get(name, ())]
    candidates += difflib.get_close_matches(unknown, listed, n=1)
    return f"; did you mean {candidates[0]!r}?" if candidates else ""
