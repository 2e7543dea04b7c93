"""A query: what a person gives, what it asks for, and the answer, in one read transaction."""

import re
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from math import frexp, isfinite, ldexp
from os import PathLike
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np

from acqh._core.arrays import Floats, Ints, Matrix, check_positive_int, is_sparse
from acqh._core.fields import DATE, FIELDS, TAG, TAGS
from acqh.collection.opened import Opened
from acqh.collection.search.periods import Period, find_period
from acqh.collection.search.rank import (
    FUSED_PARTS,
    POOL,
    SAME_POOL,
    SOME_POOL,
    Ranked,
    compare_words,
    find_same,
    fuse,
    match_of_both,
    no_photos,
    put_first,
    rate,
    select,
    with_detected,
    with_files,
)
from acqh.collection.store.filters import (
    OPERATORS,
    Condition,
    Value,
    check_names,
    count_meeting,
    first_in_order,
    has_date,
)
from acqh.collection.store.items import LABEL, find_item, read_fields
from acqh.collection.store.words import (
    DETECTED_REASONS,
    WordQuery,
    find_detected,
    find_files,
    find_words,
    is_file_name,
    read_words,
    reasons,
    settle_words,
)
from acqh.collection.types import CONFIDENT, Answer, Explanation, Hit, Mode, TextFilter
from acqh.encoders.images import make_thumbnail, working_image
from acqh.encoders.languages import (
    begins_word,
    can_encode,
    check_language,
    correct,
    needs_languages,
    require_languages,
)
from acqh.encoders.minilm import MiniLM
from acqh.errors import CollectionError

# Of the parts of a query; 1 for the others. An item that is not wanted counts less.
_DEFAULT_WEIGHTS = {"unlike": 0.5}
# Of what a text says that items should not be similar to. Chosen on 85 pairs of things in 1,000
# COCO photos: of the first ten, 79 % show one and not the other; 75 % without it.
_NEGATED_WEIGHT = 0.65
# The index may know of items that were added since the transaction began; then it begins again.
_MAX_TRIES = 8
# Of one condition; SQLite takes this many in one statement, in every version.
_MAX_WANTED = 10_000
# More than any collection has; SQLite takes no whole numbers beyond 2**63.
_ALL = 2**31
_CONDITION = re.compile(r"\s*(\S|\S.*?\S)\s*(>=|<=|!=|>|<|~|=)(.*)", re.DOTALL)
# What conditions may be given as: a mapping, or texts such as "label=dog".
Where: TypeAlias = Mapping[str, Any] | Iterable[str] | None


@dataclass(frozen=True, eq=False)
class FeatureRow:
    """Precomputed features of a query, of one view."""

    values: Any  # (n_features,)


def search(
    opened: Opened,
    query_parts: Mapping[str, Any],
    weights: Mapping[str, float],
    k: int,
    where: Any,
    explain: bool,
    mode: str,
    dates: bool,
    language: str,
) -> Answer:
    """Answer a query; see `Collection.search`. `query_parts`: none of them is None."""
    k = min(check_positive_int(k, "k"), _ALL)
    conditions = read_where(where)
    text = query_parts.get("text")
    period = find_period(text) if dates and mode != "semantic" and isinstance(text, str) else None
    filters: list[TextFilter] = []
    if period is not None and _applies(opened, str(text), period):
        conditions += read_where(period.conditions())
        others = {name: part for name, part in query_parts.items() if name != "text"}
        query_parts = others | ({"text": period.rest} if period.rest else {})
        filters = [TextFilter(period.text, period.conditions())]
        if not query_parts:
            answer = browse(opened, conditions, k, 0, DATE, descending=True)
            hits = tuple(replace(hit, match=1.0, why=("date",)) for hit in answer.hits)
            return replace(answer, hits=hits, filters=tuple(filters))
        weights = {name: weight for name, weight in weights.items() if name in query_parts}
    if mode not in get_args(Mode):
        raise CollectionError(f"`mode` must be one of {', '.join(get_args(Mode))}, got {mode!r}")
    for name, weight in weights.items() if query_parts else ():
        if name not in query_parts:
            raise CollectionError(f"a weight is given for {name!r}, which is not searched by")
        if not np.isfinite(weight) or weight < 0:
            raise CollectionError(f"weights must be 0 or more, got {weight!r} for {name!r}")
    started = time.perf_counter()
    words, parts = _split_query(opened, query_parts, weights, mode)
    missing_extra, is_other = None, is_other_language(opened, parts.get("text"), language)
    if is_other and not can_encode():
        if words is None:
            require_languages()
        del parts["text"]
        missing_extra = "languages"
    # Of one image alone, an item may show a copy.
    image = None
    is_image = parts.keys() == {"image"} and _is_raw(opened, "image", parts["image"])
    if mode == "hybrid" and is_image and len(images := _as_list(parts["image"])) == 1:
        parts["image"] = working_image(images[0])
        image = make_thumbnail(parts["image"])
    # A word that the encoder knows is not corrected as a typo.
    encoder = opened.facts.encoders.get("text") if mode == "hybrid" else None
    is_word = getattr(encoder, "is_word", None)
    # Typos in other languages are not known.
    correct_term = None
    if words is not None and is_word is not None and not is_other:
        correct_term = partial(_typo_of, words)
    typed, unmatched, corrections = words, tuple[str, ...](), dict[str, str]()
    for _ in range(_MAX_TRIES):
        with opened.store.reading() as connection:
            vector, excluded, state = None, set[int](), opened.state(connection)
            if typed is not None and (typed.phrases or (typed.terms and correct_term)):
                words, corrections, unmatched = settle_words(
                    connection, typed, state.words, correct_term, state.detected_words
                )
                if corrections and "text" in parts:
                    parts["text"] = words.to_encode
            if parts or words is None:
                vector, excluded = _vector(opened, connection, parts, weights, is_other)
            if vector is not None and words is not None and words.negated and "text" in parts:
                vector = _without(opened, vector, words.negated, is_other)
            query = state, words, text, is_word, vector, excluded, frozenset(parts), image
            answer, is_complete = _answer(
                opened, connection, query, k, conditions, explain, started
            )
        if is_complete:
            break
    corrected = None
    if corrections:
        corrected = " ".join(corrections.get(word, word) for word in str(text).split())
    if filters or missing_extra or corrected or unmatched:
        answer = replace(
            answer,
            filters=tuple(filters),
            missing_extra=missing_extra,
            corrected=corrected,
            unmatched_phrases=unmatched,
        )
    return answer


def _typo_of(words: WordQuery, term: str) -> str | None:
    """Return the word that a term is a typo of; None of the beginning of a word at the end."""
    word = correct(term)
    is_last = term == words.terms[-1] and words.to_encode.endswith(term)
    return None if word is not None and is_last and begins_word(term) else word


def _without(opened: Opened, vector: Floats, negated: str, is_other: bool) -> Floats:
    """Return a query vector moved away from that of a text."""
    unwanted = opened.vector_of("text", negated, is_other=is_other)
    if unwanted is None:
        return vector
    length = np.linalg.norm(vector) / max(float(np.linalg.norm(unwanted)), 1e-9)
    return np.asarray(vector - _NEGATED_WEIGHT * length * unwanted, dtype=np.float32)


def _files(
    connection: sqlite3.Connection, typed: str, numbers: Ints | None, excluded: set[int], k: int
) -> dict[int, bool]:
    """Return at most k items whose files a text may name, and whether it is the whole name."""
    if not is_file_name(typed):
        return {}
    allowed = None if numbers is None else set(numbers.tolist())
    files = sorted(find_files(connection, typed).items(), key=lambda pair: not pair[1])
    may_be = (
        pair
        for pair in files
        if pair[0] not in excluded and (allowed is None or pair[0] in allowed)
    )
    return dict(islice(may_be, k))


def _applies(opened: Opened, text: str, period: Period) -> bool:
    """Whether a period is a filter: items have dates, and no file is called so.

    If it is only a number, items have dates in it.
    """
    with opened.store.reading() as connection:
        if is_file_name(text) and any(find_files(connection, text).values()):
            return False
        if period.is_year:
            return has_date(connection, period.start, period.end)
        return has_date(connection)


def _answer(
    opened: Opened,
    connection: sqlite3.Connection,
    query: tuple[Any, ...],
    k: int,
    conditions: tuple[Condition, ...],
    explain: bool,
    started: float,
) -> tuple[Answer, bool]:
    """Return the answer, and whether all of its items could be read."""
    state, words, typed, is_word, vector, excluded, kinds, image = query
    times = [started, time.perf_counter()]
    index = opened.index.at(connection, state.revision)
    n_items, n_scanned = len(index), 0
    numbers, part = select(opened, connection, state.selections, conditions, words)
    index, allowed = (index, numbers) if part is None else (part, None)
    pool = max(k, POOL if words is not None else SAME_POOL if image is not None else 0)
    nearest: dict[int, float] = {}  # scores by number, best first
    if vector is not None and len(index):
        n_wanted = min(pool + len(excluded), len(index))
        result = index.search(vector[np.newaxis], n_wanted, filter=allowed, n_threads=1)
        n_scanned, end = int(result.n_scanned[0]), int(result.counts[0])
        pairs = zip(result.ids[0, :end].tolist(), result.scores[0, :end].tolist(), strict=True)
        nearest = dict(pairs)
        if excluded:
            others = (pair for pair in nearest.items() if pair[0] not in excluded)
            nearest = dict(islice(others, pool))
    is_text = kinds == {"text"}
    best: Sequence[Ranked]
    why: dict[int, tuple[str, ...]]
    if words is not None:
        n_partial = max(k, SOME_POOL)
        pools = pool + len(excluded), numbers
        some = n_partial + len(excluded)
        hits, lists = find_words(connection, words, *pools, state.words, is_word, some)
        detected, detected_lists = find_detected(
            connection, words, *pools, state.detected_words, some
        )
        files = _files(connection, typed, numbers, excluded, pool)
        if detected:
            hits = with_detected(hits, detected)
        if files:
            hits = with_files(hits, files)
        if excluded or detected:
            hits = [hit for hit in hits if hit.number not in excluded]
            hits = hits[: sum(hit.complete for hit in hits) + n_partial]
        with_words = [hit.number for hit in hits]
        demoted = no_photos(state.other_kinds(connection), nearest, with_words) if is_text else ()
        # No more than the k nearest can be among the best, except for those with the words, and
        # those after demoted ones.
        near = dict(islice(nearest.items(), None if demoted else k))
        items = state.items.read(connection, [*with_words, *islice(near, k)])
        codes = {}
        for number in with_words:
            if number in nearest:
                near[number] = nearest[number]
            else:
                codes[number] = items[number].values["code"]
        match = rate(opened, vector, near, codes, is_text=is_text)
        for number in demoted:
            match[number] *= 0.5 if match[number] <= CONFIDENT else 1.0
        compared = with_files(compare_words(words, hits, items), files)
        best = fuse(match, compared, k, words_first=kinds <= {"text"})
        match |= {number: match_of_both(*shares) for number, _, shares in best}
        shown_numbers = [number for number, *_ in best]
        why = reasons(lists, shown_numbers)
        for number in files.keys() & set(shown_numbers):
            why[number] = ("file name", *why.get(number, ()))
        if detected:
            for number, where in reasons(detected_lists, shown_numbers, DETECTED_REASONS).items():
                why[number] = (*why.get(number, ()), *where)
    else:
        same = [] if image is None else find_same(connection, list(nearest), image)
        best = put_first(same, nearest, k)
        items = {}
        match = rate(opened, vector, nearest, {}, is_text=is_text) | dict.fromkeys(dict(same), 1.0)
        why = {number: ("same image",) for number, _ in same}
    semantic = ("semantic",) * bool(kinds - {"image", "unlike"}) + ("image",) * ("image" in kinds)
    for number, *_ in best:
        if number in nearest and why.get(number) != ("same image",):
            why[number] = why.get(number, ()) + semantic
    times.append(time.perf_counter())
    if unread := [number for number, *_ in best if number not in items]:
        items |= state.items.read(connection, unread)
    shown = [row for row in best if row[0] in items]
    results = tuple(
        Hit.from_stored(items[number].values, score, match.get(number, 0.0), why.get(number, ()))
        for number, score, _ in shown
    )
    explanation = None
    if explain:
        part_scores = None if words is None else [fused for *_, fused in shown]
        explanation = _explain(opened.index.codebooks, vector, results, part_scores)
    times.append(time.perf_counter())
    spans = (1e3 * (after - before) for before, after in pairwise(times))
    spent = dict(zip(("encode", "search", "items"), spans, strict=True))
    n_candidates = n_items if numbers is None else len(numbers)
    answer = Answer(results, n_items, n_candidates, n_scanned, spent, explanation)
    return answer, len(shown) == len(best)


def browse(
    opened: Opened, where: Any, k: int, offset: int, order: str | None, descending: bool
) -> Answer:
    """Return items without searching; see `Collection.browse`."""
    k, offset = check_positive_int(k, "k"), check_positive_int(offset, "offset", minimum=0)
    k, offset = min(k, _ALL), min(offset, _ALL)
    conditions = read_where(where)
    started = time.perf_counter()
    with opened.store.reading() as connection:
        n_items = len(opened.index.at(connection))
        n_met = count_meeting(connection, conditions) if conditions else n_items
        check_names(connection, conditions if not n_met else (), order)
        numbers = first_in_order(connection, conditions, order, descending, offset, k)
        items = read_fields(connection, numbers)
    hits = tuple(Hit.from_stored(items[number], 0.0) for number in numbers)
    spent = {"encode": 0.0, "search": 0.0, "items": 1e3 * (time.perf_counter() - started)}
    return Answer(hits, n_items, n_met, 0, spent)


def _explain(
    codebooks: Floats,
    query: Floats | None,
    hits: Sequence[Hit],
    fused: Sequence[tuple[float, ...]] | None,
) -> Explanation:
    """Say how scores came about; `fused`: their parts, where words were looked up."""
    if query is None:
        codebooks, query = codebooks[:0, :, :0], np.zeros(0, dtype=np.float32)
    tables = codebooks @ query
    codes = np.array([list(hit.code)[: len(tables)] for hit in hits], dtype=np.int64)
    codes = codes.reshape(len(hits), len(tables))
    entries = tables[np.arange(len(tables)), codes]
    names: tuple[str, ...] = FUSED_PARTS
    if fused is not None:
        parts = np.array(fused, dtype=np.float64).reshape(len(hits), len(names))
        return Explanation(query, tables, codes, entries, parts, names)
    names, parts = tuple(f"codebook {n + 1}" for n in range(len(tables))), entries.astype(float)
    if any("same image" in hit.why for hit in hits):
        scores = np.array([hit.score for hit in hits])
        first = np.where([hit.why == ("same image",) for hit in hits], scores - parts.sum(1), 0.0)
        names, parts = (*names, "same image"), np.column_stack([parts, first])
    return Explanation(query, tables, codes, entries, parts, names)


def _split_query(
    opened: Opened, query_parts: Mapping[str, Any], weights: Mapping[str, float], mode: str
) -> tuple[WordQuery | None, dict[str, Any]]:
    """Return the words to look up, and the parts of the query to encode."""
    parts = dict(query_parts)
    text = parts.get("text")
    if mode == "semantic" or not isinstance(text, str) or weights.get("text") == 0:
        if mode == "keyword":
            raise CollectionError("mode 'keyword' searches texts by keywords; give a text")
        return None, parts
    words = read_words(text)
    if mode == "keyword" and len(parts) > 1:
        others = ", ".join(sorted(parts.keys() - {"text"}))
        raise CollectionError(
            f"mode 'keyword' takes a text alone, got {others} too; search in mode 'hybrid'"
        )
    if mode == "keyword":
        return words, {}
    parts["text"] = words.to_encode or " ".join(words.terms) or text
    is_only_excluded = not (words.to_encode or words.terms) and bool(words.phrases or words.without)
    # An encoder that has a vocabulary knows no symbols.
    encoder = opened.facts.encoders.get("text")
    symbols = "".join((*words.phrases, *words.terms)) if hasattr(encoder, "is_word") else ""
    is_unknown = bool(symbols) and not any(map(str.isalnum, symbols))
    if is_only_excluded or encoder is None or is_unknown:
        del parts["text"]
    return words, parts


def _vector(
    opened: Opened,
    connection: sqlite3.Connection,
    query_parts: Mapping[str, Any],
    weights: Mapping[str, float],
    is_other: bool,
) -> tuple[Floats | None, set[int]]:
    """Return the query vector, None if the model knows nothing of it, and the items it names.

    `is_other`: whether its text is not in English.
    """
    if not query_parts or query_parts.keys() == {"unlike"}:
        raise CollectionError("there is nothing to search for; give text, image or item")
    vectors: list[Floats] = []
    excluded: set[int] = set()
    total = 0.0
    weights = {
        name: float(weights.get(name, _DEFAULT_WEIGHTS.get(name, 1.0))) for name in query_parts
    }
    # Only ratios count. A power of two keeps them to the last bit, whatever their size.
    _, exponent = frexp(max(weights.values()))
    for name, value in query_parts.items():
        parts: list[Floats | None] = []
        if name in ("item", "unlike"):
            for identifier in _as_list(value):
                number, item = find_item(connection, identifier)
                excluded.add(number)
                parts.append(opened.coder.query_of(item.code))
        else:
            several = _as_list(value) if _is_raw(opened, name, value) else [value]
            parts = [_vector_of(opened, name, value, is_other) for value in several]
        present = [part for part in parts if part is not None]
        if not present:
            continue
        weight = ldexp(weights[name], -exponent)
        mean = sum(present[1:], present[0]) / len(present)
        vectors.append((-weight if name == "unlike" else weight) * mean)
        total += weight * (name != "unlike")
    if not vectors or total == 0.0:
        return None, excluded
    return np.asarray(sum(vectors) / total, dtype=np.float32), excluded


def _vector_of(opened: Opened, view: str, value: Any, is_other: bool) -> Floats | None:
    """Return the vector of one image, text or row of features; None if nothing of it is known."""
    if view not in opened.coder.maps.widths:
        views = ", ".join(opened.coder.maps.widths)
        raise CollectionError(
            f"this collection has learnt nothing about {view!r}; search by {views} or item"
        )
    if not _is_raw(opened, view, value):
        return opened.coder.query(view, _row(opened, view, value))
    if view == "text" and not isinstance(value, str):
        raise CollectionError(f"text must be a str, got {type(value).__name__}")
    if view == "image":
        return opened.vector_of(view, working_image(value))
    return opened.vector_of(view, value, is_other=is_other)


class TextQuery(NamedTuple):
    """A query by text, as `search` gets it."""

    text: str
    mode: str
    language: str


def is_faster_together(opened: Opened) -> bool:
    """Whether texts are encoded faster together than one by one."""
    return not opened.is_fast and isinstance(opened.facts.encoders.get("text"), MiniLM)


def encode_together(opened: Opened, queries: Sequence[TextQuery]) -> None:
    """Encode texts of queries that will be searched for next, if that is faster than one by one.

    Texts with dates or typos may not be among them: their searches encode what is left of them.
    """
    if not is_faster_together(opened):
        return
    texts: list[str] = []
    for text, mode, language in queries:
        if mode != "keyword" and not is_other_language(opened, text, language):
            _, parts = _split_query(opened, {"text": text}, {}, mode)
            texts += parts.values()
    opened.encode_together(texts)


def is_other_language(opened: Opened, text: Any, language: str) -> bool:
    """Whether a text is in a language that MiniLM does not know; False without MiniLM."""
    check_language(language)
    encoder = opened.facts.encoders.get("text")
    return isinstance(text, str) and isinstance(encoder, MiniLM) and needs_languages(text, language)


def _is_raw(opened: Opened, view: str, value: Any) -> bool:
    """Whether a query of a view is yet to be encoded."""
    return view in opened.facts.encoders and not isinstance(value, FeatureRow)


def _row(opened: Opened, view: str, value: Any) -> Matrix:
    """Return features as the one row of a matrix."""
    values = value.values if isinstance(value, FeatureRow) else value
    if any(isinstance(entry, str | bytes | PathLike) for entry in _as_list(values)[:1]):
        if view in opened.facts.encoders:
            raise CollectionError(f"features of {view!r} are numbers; give {view}= instead")
        raise CollectionError(
            f"this collection was built from features and cannot encode a {view}; "
            "search by features or item"
        )
    rows = values if is_sparse(values) else np.atleast_2d(np.asarray(values, dtype=np.float32))
    if rows.shape[0] != 1:
        raise CollectionError(
            f"a query is one row of features, got {view!r} of shape {rows.shape}; search for "
            "one row at a time"
        )
    return rows


def _as_list(value: Any) -> list[Any]:
    """Return one or several parts of a query as a list."""
    return list(value) if isinstance(value, list | tuple) else [value]


def read_where(where: Any) -> tuple[Condition, ...]:
    """Read conditions in any accepted form, into a canonical order: equal ones are equal.

    ``{"label": "dog"}`` and ``"label=dog"`` say the same, and so do ``{"date>=": "2023"}`` and
    ``"date>=2023"``. Several must all hold. Of several labels an item must have all; of several
    values of a field, one. A number finds numbers alone: exactly, and 1 equals 1.0 and True. A
    text finds the text and, as command lines write all values so, the number or boolean that it
    spells: ``"favourite=true"``.

    Raises CollectionError: they cannot be read.

    Examples
    --------
    >>> [tuple(condition) for condition in read_where({"label": ["dog", "cat"], "year": 2010})]
    [('label', ('cat', 'dog'), '='), ('year', (2010,), '=')]
    >>> read_where("date >= 2023-01")
    (Condition(name='date', values=('2023-01',), operator='>='),)
    """
    if where is None:
        return ()
    if isinstance(where, tuple) and all(isinstance(one, Condition) for one in where):
        return where
    if isinstance(where, str):
        where = [where]
    if isinstance(where, Mapping):
        pairs = [(*_split_name(name), value) for name, value in where.items()]
    elif isinstance(where, Iterable):
        pairs = [_split(text) for text in where]
    else:
        raise CollectionError(
            f"`where` must be a mapping such as {{'label': 'dog'}} or a text such as 'label=dog', "
            f"got {where!r}"
        )
    conditions = []
    for name, operator, value in pairs:
        if not isinstance(name, str) or not name:
            raise CollectionError(f"`where` names a label or a field, got {name!r}")
        is_one = isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable)
        values = {_checked(one) for one in ([value] if is_one else value)}
        if not 0 < len(values) <= _MAX_WANTED:
            raise CollectionError(
                f"`where` has {len(values) or 'no'} value for {name!r}; give one, or up to "
                f"{_MAX_WANTED:,}, or leave it out"
            )
        if len(values) > 1 and operator in ("<", "<=", ">", ">="):
            raise CollectionError(f"{name}{operator} takes one value, got {len(values)}; give one")
        if name in FIELDS["labels"].names:
            name, values = LABEL, set(map(str, values))
        ordered = tuple(sorted(values, key=lambda v: (isinstance(v, str), v)))
        conditions.append(Condition(TAG if name == TAGS else name, ordered, operator))
    return tuple(sorted(conditions, key=repr))


def _split(text: Any) -> tuple[str, str, str]:
    """Return the name, the operator and the value of a condition."""
    parts = _CONDITION.fullmatch(str(text))
    if parts is None:
        raise CollectionError(
            f"{text!r} is not a condition; write label=NAME, FIELD=VALUE or date>=2023-01-31"
        )
    name, operator, value = parts.groups()
    return name, operator, value.strip()


def _split_name(name: Any) -> tuple[Any, str]:
    """Return the name of a mapping without its operator, and this."""
    for operator in OPERATORS[:-1]:
        if isinstance(name, str) and name.endswith(operator) and name.strip() != operator:
            return name.removesuffix(operator).rstrip(), operator
    return name, "="


def _checked(value: Any) -> Value:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
        return value
    raise CollectionError(f"`where` compares with texts and numbers that are finite, got {value!r}")
