"""How often acqh takes images for another kind.

Prints JSON lines, how many images of each source are taken for which kind, without their names:
photographs of ``ACQH_COCO`` and ``ACQH_PHOTOS``, the emoji of acqh, and images that are drawn with
30 seeds each. Missing photographs are skipped.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from acqh._core.fields import KIND
from acqh.cli.demo import emoji_items
from acqh.collection import Item
from acqh.collection.build.detect import detect
from acqh.encoders.images import ImageLike, working_image
from benchmarks._measure import COCO, PHOTOS, emit
from benchmarks.quality.drawings import KINDS

N_PHOTOS, N_DRAWN, EMOJI_STEP = 1_000, 30, 8
DRAWN = {
    "document": ["letters", "invoices", "pages"],
    "screenshot": ["chats"],
    "drawing": ["charts", "smileys", "discs", "flags"],
}


def photographs(folder: Path) -> Iterator[ImageLike]:
    """Yield the last photographs of a manifest, those that nothing was chosen on."""
    with (folder / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[-N_PHOTOS:]
    yield from (folder / row["image"] for row in rows)


def drawn(name: str) -> Iterator[bytes]:
    for seed in range(N_DRAWN):
        file = io.BytesIO()
        KINDS[name](seed).save(file, "PNG")
        yield file.getvalue()


def measure(kind: str, source: str, images: Iterable[ImageLike]) -> None:
    counts = Counter(detect(Item(image=image), working_image(image))[KIND] for image in images)
    emit({"kind": kind, "source": source, "images": counts.total(), "taken_for": counts})


def main() -> None:
    for name, folder in {"COCO": COCO, "MIRFlickr25K": PHOTOS}.items():
        if (folder / "manifest.csv").exists():
            measure("photo", name, photographs(folder))
    for kind, names in DRAWN.items():
        for name in names:
            measure(kind, name, drawn(name))
    measure("drawing", "emoji", (item.image for item in [*emoji_items()][::EMOJI_STEP]))


if __name__ == "__main__":
    main()
