"""Learn static token embeddings (src/acqh/encoders/pieces.npz) from captions and sentences.

Read are the captions of MS COCO in a bare git repository (``train.csv``, ``test.csv``; those of the
images 9,000 to 9,999 are test rows and never learnt from), and of the wheel ``clip-benchmark``
1.6.2 (``--wheel``) 20,000 of its 149,700 sentences about the classes of ImageNet. Every word
that MiniLM knows as one token is a sentence, too. Vectors take ten minutes on two cores and are
kept in the folder ``--cache``; the regression takes a few minutes more. Needs torch,
as the tool does that reads the captions.
"""

import argparse
import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from learn_image_network import TEST, read_captions
from scipy.linalg import cho_factor, cho_solve

from acqh.encoders import MiniLM, builtin_model
from acqh.encoders.minilm import in_bytes, numbers_of, vocabulary

SENTENCES = "clip_benchmark/datasets/cupl_prompts.json"
DRAWN, EVERY = 40_000, 2
# Chosen on captions of the images 8,000 to 8,999, held out for that: cosine to MiniLM's queries
# of the built-in image-text model 0.945 at 0.03 and 0.1.
RIDGE = 0.1
N_AXES = 256
Floats = np.ndarray[Any, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("src/acqh/encoders/pieces.npz"))
    arguments = parser.parse_args()
    arguments.cache.mkdir(exist_ok=True)
    captions = [text for n, text in sorted(read_captions(arguments.repository)) if n not in TEST]
    with zipfile.ZipFile(arguments.wheel) as wheel:
        classes = json.loads(wheel.read(SENTENCES))["imagenet1k"]
    sentences = [sentence for name in classes for sentence in classes[name]]
    drawn = np.random.default_rng(0).choice(len(sentences), DRAWN, replace=False)
    sentences = [sentences[number] for number in np.sort(drawn)[::EVERY]]
    words = [token for token in vocabulary() if token.isascii() and token.isalpha() and token[1:]]
    texts = [*captions, *sentences, *words]
    vectors = embed(texts, arguments.cache / "vectors.npy")
    alone = np.zeros((len(vocabulary()), vectors.shape[1]), dtype=np.float32)
    alone[[vocabulary()[word] for word in words]] = vectors[-len(words) :]
    table = solve(bags(texts), vectors, alone)
    mean = builtin_model().arrays["text_mean"].astype(np.float32)
    packed = pack(table, vectors, mean)
    packed["length"] = np.linalg.norm(vectors[: len(captions)] - mean, axis=1).mean()
    np.savez_compressed(arguments.out, **packed)
    print(json.dumps({"sentences": len(texts), "bytes": arguments.out.stat().st_size}))


def is_typed(token: str) -> bool:
    """Whether a token is a word, or the rest of one, that people type in English."""
    return token.isascii() and token.isalnum()


def embed(texts: list[str], path: Path) -> Floats:
    """Return MiniLM's vectors, made where they are not kept yet."""
    if not path.exists():
        np.save(path, MiniLM().transform(texts).astype(np.float16))
    return np.load(path).astype(np.float32)


def bags(texts: list[str]) -> sp.csr_array:
    """Return how often each text has each token, rows of length one."""
    counts = [Counter(numbers_of(text, 256)[1:-1]) for text in texts]
    rows = np.repeat(np.arange(len(texts)), [len(bag) for bag in counts])
    tokens = [token for bag in counts for token in bag]
    numbers = np.array([n for bag in counts for n in bag.values()], dtype=np.float32)
    matrix = sp.csr_array((numbers, (rows, tokens)), shape=(len(texts), len(vocabulary())))
    lengths = np.sqrt(matrix.power(2).sum(axis=1))
    return sp.csr_array(sp.diags_array(1 / np.maximum(lengths, 1)) @ matrix)


def solve(bags: sp.csr_array, vectors: Floats, alone: Floats) -> Floats:
    """Return a row for each token. For a token in no text, it is the vector of the token alone."""
    used = np.unique(bags.indices)
    used_bags = bags[:, used]
    gram = (used_bags.T @ used_bags).toarray()
    gram[np.diag_indices_from(gram)] += RIDGE
    table = alone.copy()
    table[used] = cho_solve(cho_factor(gram), used_bags.T @ vectors + RIDGE * alone[used])
    return table


def pack(table: Floats, vectors: Floats, mean: Floats) -> dict[str, Floats]:
    """Return the rows of what people type, a byte for each of the main coordinates."""
    first = mean / np.linalg.norm(mean)
    rest = vectors - np.outer(vectors @ first, first)
    _, axes = np.linalg.eigh(rest.T @ rest)
    basis, _ = np.linalg.qr(np.column_stack([first, axes[:, ::-1][:, : N_AXES - 1]]))
    typed = [n for token, n in vocabulary().items() if is_typed(token.removeprefix("##"))]
    token_numbers = np.array([n for n in typed if table[n].any()])  # of the others nothing is known
    rows, scales = in_bytes(table[token_numbers] @ basis)
    basis = basis.T.astype(np.float16)
    return {
        "pieces": token_numbers.astype(np.int32),
        "rows": rows,
        "scales": scales,
        "basis": basis,
    }


if __name__ == "__main__":
    main()
