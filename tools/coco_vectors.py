"""Make image and caption vectors of one space from a folder of photographs with captions.

    python tools/coco_vectors.py COCO OUT.npz [--features FEATURES.npy]

COCO has a ``manifest.csv`` with the columns image and text. Captions become means of static token
vectors (the weights inside the package ``wordllama``, 256 components), centred, of unit length.
Images become EfficientNet-Lite0 features, mapped to the captions' space by ridge regression that is
learnt from the first half of the rows. OUT has ``items`` (images) and ``queries`` (captions), which
``benchmarks/quality/compress.py`` reads. The photographs of MS COCO are for research: keep OUT to
yourself.
"""

import argparse
import csv
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from acqh._core.imports import require

RIDGE = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("coco", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--features", type=Path, help="of the images, row by row, if there already")
    arguments = parser.parse_args()
    with (arguments.coco / "manifest.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    # Captions first: their vectors need a package of its own, and photographs take minutes.
    captions = embed_captions([row["text"] for row in rows])
    if arguments.features is None:
        images = embed_images([arguments.coco / row["image"] for row in rows])
    else:
        images = np.load(arguments.features).astype(np.float32)
    learnt = len(rows) // 2
    captions = unit(captions - captions[:learnt].mean(axis=0))
    images = unit(np.sqrt(np.abs(images)) * np.sign(images))
    images -= images[:learnt].mean(axis=0)
    gram = images[:learnt].T @ images[:learnt]
    gram += np.eye(len(gram), dtype=np.float32) * RIDGE * np.trace(gram) / len(gram)
    mapped = images @ np.linalg.solve(gram, images[:learnt].T @ captions[:learnt])
    np.savez(arguments.out, items=unit(mapped), queries=captions)


def embed_images(paths: list[Path]) -> np.ndarray:
    from acqh.encoders import EfficientNetLite0

    return np.asarray(
        EfficientNetLite0(classes=False).fit([]).transform([str(path) for path in paths])
    )


def embed_captions(texts: list[str]) -> np.ndarray:
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install wordllama: its package has the token vectors")
    package = Path(spec.origin).parent
    names = package / "tokenizers" / "l2_supercat_tokenizer_config.json"
    tokenizer = require("tokenizers").Tokenizer.from_file(str(names))
    weights = package / "weights" / "l2_supercat_256.safetensors"
    (vectors,) = require("safetensors.numpy").load_file(weights).values()
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    none = np.zeros(vectors.shape[1], np.float32)
    means = [vectors[encoding.ids].mean(axis=0) if encoding.ids else none for encoding in encodings]
    return unit(np.array(means, np.float32))


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9)


if __name__ == "__main__":
    main()
