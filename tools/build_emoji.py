"""Build the embedded emoji set, src/acqh/data/datasets/emoji/, from two pinned npm packages.

Run ``python tools/build_emoji.py`` with npm and the extra ``images`` installed. The same versions
of packages, Pillow and scikit-image give the same bytes.
"""

import base64
import hashlib
import json
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from acqh.encoders import HogColor, tfidf_vectorizer

TARGET = Path(__file__).resolve().parents[1] / "src" / "acqh" / "data" / "datasets" / "emoji"
ART, TEXT = "emoji-datasource-google", "emojibase-data"
SOURCES = {
    ART: {
        "version": "16.0.0",
        "integrity": "sha512-ZRexfzs7MVoLnmzZmNsO4TKhnAJp5D++Vm6PpUpH/jEQQlemp3l88CjZ+DoZ2faM9R4Qx"
        "ZkOPJCoT8DlPhfQ3A==",
    },
    TEXT: {
        "version": "17.0.0",
        "integrity": "sha512-Yvgb5AWoHViHV/gq1qr5ZAarcBip+B27/ZLRsUJkbgAEaLlZ/fof9g882LTpmEpyhBNEC"
        "0m2SEmItljHsTygjA==",
    },
}
PICTURES = "img/google/64/"
# About 2 MB for all pictures; finer settings look the same at this size.
WEBP = {"quality": 80, "alpha_quality": 70, "method": 4}
# Features lie between 0 and 1; a byte has this many steps.
STEPS = 255

NOT_ITEMS = "Component"  # skin tones and hair styles, parts of other emoji
VARIANT_WORDS = [
    r"\b(man|men|woman|women|person|people)\b",
    r"\b(light blue|red|orange|yellow|green|blue|purple|brown|black|white|grey|pink)\b",
    r"\b(medium-small|small|medium|large)\b",
]
# Variants whose names share no word, after the words above are taken away.
SAME_THING = {
    "": "person",
    "and holding hands": "holding hands",
    "boy": "child",
    "closed book": "book",
    "girl": "child",
    "mermaid": "merperson",
    "merman": "merperson",
    "mrs. claus": "claus",
    "mx claus": "claus",
    "old": "older",
    "prince": "with crown",
    "princess": "with crown",
    "santa claus": "claus",
}


class Item(NamedTuple):
    """One emoji and where its picture is."""

    id: str
    name: str
    tags: list[str]
    group: str
    subgroup: str
    order: int
    picture: str


def main() -> None:
    """Fetch both packages, write the pack."""
    with tempfile.TemporaryDirectory() as folder:
        art, text = (fetch(name, Path(folder)) for name in (ART, TEXT))
        art_files = read_archive(art, ("emoji.json", PICTURES))
        text_files = read_archive(text, ("en/data.json",))
    texts_of = {
        without_selectors(entry["hexcode"]): entry
        for entry in json.loads(text_files["en/data.json"])
    }
    items = sorted(
        drawn_items(json.loads(art_files["emoji.json"]), texts_of), key=lambda item: item.order
    )
    pictures = [as_webp(art_files[PICTURES + item.picture]) for item in items]
    write_pack(items, pictures)
    for path in sorted(TARGET.iterdir()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{path.name}: {path.stat().st_size} bytes, sha256 {digest}")


def write_pack(items: list[Item], pictures: list[bytes]) -> None:
    """Write the features our encoders give, the pictures, and the table of items."""
    texts = [", ".join([item.name, *item.tags]) for item in items]
    encoder = tfidf_vectorizer(use_idf=False, norm=None)
    counts = encoder.fit_transform(texts)
    features = np.rint(HogColor().transform(pictures) * STEPS)
    TARGET.mkdir(exist_ok=True)
    np.savez_compressed(
        TARGET / "arrays.npz",
        image=features.astype(np.uint8),
        pictures=np.frombuffer(b"".join(pictures), dtype=np.uint8),
        picture_ends=np.cumsum([len(picture) for picture in pictures], dtype=np.int32),
        text_counts=counts.data.astype(np.uint8),
        text_indices=counts.indices.astype(np.uint16),
        text_indptr=counts.indptr.astype(np.int32),
    )
    (TARGET / "items.json").write_text(
        as_json(items, tuple(encoder.get_feature_names_out())), encoding="utf-8"
    )


def fetch(name: str, folder: Path) -> Path:
    """Download one package and check that it is the pinned one."""
    version, integrity = SOURCES[name]["version"], SOURCES[name]["integrity"]
    command = ["npm", "pack", f"{name}@{version}", "--silent", "--pack-destination", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    path = folder / f"{name}-{version}.tgz"
    digest = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != integrity:
        raise SystemExit(f"{path.name} has the checksum sha512-{digest}, not {integrity}")
    return path


def read_archive(path: Path, suffixes: tuple[str, ...]) -> dict[str, bytes]:
    """Return the files whose names start with one of `wanted`, in one pass."""
    contents = {}
    with tarfile.open(path) as archive:
        for member in archive:
            name = member.name.removeprefix("package/")
            stream = archive.extractfile(member) if name.startswith(suffixes) else None
            if stream is not None:
                contents[name] = stream.read()
    return contents


def drawn_items(drawn: list[Any], texts_of: dict[str, Any]) -> Iterator[Item]:
    """Join the pictures with their names and tags."""
    for entry in drawn:
        if entry["category"] == NOT_ITEMS or not entry["has_img_google"]:
            continue
        words = texts_of[without_selectors(entry["unified"])]
        yield Item(
            id=entry["unified"],
            name=words["label"],
            tags=words.get("tags", []),
            group=entry["category"],
            subgroup=entry["subcategory"],
            order=words["order"],
            picture=entry["image"],
        )


def without_selectors(hexcode: str) -> str:
    """Drop the marks that ask for a coloured picture; the two packages differ in them."""
    return hexcode.replace("-FE0F", "")


def variant_key(name: str) -> str:
    """Return a key that variants of one thing share: gender, colour, size, clock, keycap.

    >>> variant_key("woman running: facing right") == variant_key("person running")
    True
    """
    if name.startswith("keycap:"):
        return "keycap"
    if name.endswith(("o’clock", "-thirty")):
        return "clock face"
    head = name.partition(":")[0]
    if head in ("family", "kiss", "couple with heart"):
        return head
    if head in ("man", "woman", "person"):  # "man: red hair"
        return "person"
    key = name.removesuffix(": facing right").lower()
    for pattern in VARIANT_WORDS:
        key = re.sub(pattern, "", key)
    key = " ".join(key.split())
    return SAME_THING.get(key, key)


def families(items: list[Item]) -> list[str]:
    """Return for each item the name of the first item of its family."""
    first: dict[tuple[str, str], str] = {}
    return [first.setdefault((i.group, variant_key(i.name)), i.name) for i in items]


def as_webp(png: bytes) -> bytes:
    buffer = BytesIO()
    Image.open(BytesIO(png)).convert("RGBA").save(buffer, "WEBP", **WEBP)
    return buffer.getvalue()


def as_json(items: list[Item], vocabulary: tuple[str, ...]) -> str:
    """Write one item a line, so that changes can be read."""
    groups = list(dict.fromkeys(item.group for item in items))
    rows = [
        json.dumps([i.id, i.name, i.tags, groups.index(i.group), i.subgroup, family])
        for i, family in zip(items, families(items), strict=True)
    ]
    head = {
        "sources": SOURCES,
        "groups": groups,
        "words": vocabulary,
        "columns": ["id", "name", "tags", "group", "subgroup", "family"],
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    return "{\n" + ",\n".join(lines) + ',\n"items": [\n' + ",\n".join(rows) + "\n]\n}\n"


if __name__ == "__main__":
    main()
