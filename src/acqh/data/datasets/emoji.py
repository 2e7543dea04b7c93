"""The embedded emoji set: images, names and tags, with features already made."""

import json
from importlib.resources import files
from typing import Any

import numpy as np
import scipy.sparse as sp

from acqh._core.arrays import Array
from acqh.data.multiview import MultiViewData

# Image features lie between 0 and 1 and are stored as bytes.
_STEPS = 255


def load_emoji() -> MultiViewData:
    """Load 1,906 emoji, each an image and a text, in 9 groups.

    Features are stored with the package, so that no extra is needed. The image features are those
    of ``acqh.encoders.HogColour()`` with its defaults, rounded to 1/255; the text features count
    the words of the text as ``acqh.encoders.word_vectorizer`` does. Variants of one thing (by
    gender, colour, size, clock time, keycap) share a family: split with ``groups="family"``.

    Returns
    -------
    MultiViewData
        Views ``image`` (1906, 544) float32 and ``text`` (1906, n_words) CSR float32 counts; one
        label of 9 per item; ids such as ``"1F44B"``, the code points. Item columns: ``name`` and
        ``text`` (name and tags) in English, ``emoji`` (the character), ``image`` (bytes of a
        WebP file, 64 x 64), ``subgroup``,
        ``family``.

    Examples
    --------
    >>> data = load_emoji()
    >>> data.items["name"][0], data.items["family"][0], data.ids[0]
    ('grinning face', 'grinning face', np.str_('1F600'))
    >>> data.label_names[0]
    'Smileys & Emotion'
    """
    table, arrays = _read_pack()
    ids, names, tags, groups, subgroups, families = zip(*table["items"], strict=True)
    counts = sp.csr_array(
        (
            arrays["text_counts"].astype(np.float32),
            arrays["text_indices"].astype(np.int32),
            arrays["text_indptr"],
        ),
        shape=(len(ids), len(table["words"])),
    )
    parts = np.split(arrays["pictures"], arrays["picture_ends"][:-1])
    images = [part.tobytes() for part in parts]
    return MultiViewData(
        {"image": arrays["image"].astype(np.float32) / _STEPS, "text": counts},
        [table["groups"][group] for group in groups],
        label_names=table["groups"],
        ids=ids,
        items={
            "name": names,
            "text": [", ".join([name, *words]) for name, words in zip(names, tags, strict=True)],
            "emoji": ["".join(chr(int(code, 16)) for code in each.split("-")) for each in ids],
            "image": images,
            "subgroup": subgroups,
            "family": families,
        },
        name="emoji",
    )


def _read_pack() -> tuple[dict[str, Any], dict[str, Array]]:
    folder = files("acqh.data.datasets") / "emoji"
    table = json.loads((folder / "items.json").read_text(encoding="utf-8"))
    with (folder / "arrays.npz").open("rb") as stream, np.load(stream) as stored:
        return table, dict(stored)
