"""Converter of the validation photographs of COCO 2017 and their captions."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from acqh._core.files import parse_json
from acqh.bench.prepare.originals import Originals
from acqh.data import MultiViewData
from acqh.encoders import EfficientNetLite0
from acqh.errors import CorruptBundleError

N_CAPTIONS = 5


def convert_coco(
    files: Originals, progress: Callable[[int, int | None, str], None]
) -> MultiViewData:
    """Encode the photographs by the built-in network; their first five captions become columns."""
    name = "captions_val2017.json"
    try:
        content = parse_json(files.read(name))
        photographs = {int(entry["id"]): str(entry["file_name"]) for entry in content["images"]}
        captions: dict[int, list[str]] = defaultdict(list)
        for entry in sorted(content["annotations"], key=lambda entry: int(entry["id"])):
            captions[int(entry["image_id"])].append(" ".join(str(entry["caption"]).split()))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptBundleError(f"{name} is not a file of COCO captions: {error!r}") from None
    ids = sorted(photographs)
    few = [number for number in ids if len(captions[number]) < N_CAPTIONS]
    if few or not ids:
        raise CorruptBundleError(
            f"{name}: {len(few)} of {len(ids)} photographs have fewer than {N_CAPTIONS} captions"
        )

    def images() -> Iterator[Any]:
        for number, row in enumerate(ids, start=1):
            yield files.photograph(photographs[row])
            progress(number, len(ids), "encoding photographs")

    features = EfficientNetLite0().fit([]).transform(images())
    columns = {
        f"caption_{place + 1}": [captions[row][place] for row in ids] for place in range(N_CAPTIONS)
    }
    return MultiViewData(
        {"image": np.asarray(features, dtype=np.float16)},
        ids=np.array(ids),
        items={"image": [photographs[row] for row in ids], **columns},
    )
