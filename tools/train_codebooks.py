"""Train the codebooks of the built-in image-text model for its queries: captions and class names.

    python tools/train_codebooks.py --names en_classnames.json --captions CAPTIONS.npy FOLDER

Run it after ``tools/train_class_evidence.py``, whose ``extract`` writes the features in FOLDER:
``captioned*`` (COCO, numbered photographs) and others of known or unknown classes. Photographs of
WordNet ids have the class that the original network gives most of them.

Codebooks first lower the squared error, from those that are there. Then gradient steps also lower
the contrastive loss of captions and class names that search the reconstructions, while codes
remain those of the least squared error. On 1,000 held-out photographs of COCO and 200 names of Tiny
ImageNet among 5,000 photographs, in 8 bytes: R@10 0.671 and one right photograph among five for
0.52 of the names by squared errors alone, 0.697 and 0.585 with the gradient steps. Ten times the
learning rate loses what squared errors gained. A minute on an NVIDIA H200.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from acqh.encoders import MiniLM
from acqh.encoders.builtin import builtin_model

sys.path.insert(0, str(Path(__file__).resolve().parent))
from train_builtin_model import N_CODED, SIZES, unit
from train_class_evidence import HELD_OUT, PACKAGE, Source, simulated

# One more than that of `train_class_evidence`.
VERSION = 6
N_SIMULATED = 60_000
N_SWEEPS, RIDGE = 12, 5.0
N_STEPS, RATE, BATCH = 1_000, 3e-4, 4_096
CLASS_WEIGHT, ERROR_WEIGHT, FIRST_SHARPNESS = 0.3, 50.0, 20.0
# Beams in training, by size.
BEAMS = {8: 8, 16: 4}
# A photograph that is not of a class but has this probability of it is no negative example of it.
MAX_NEGATIVE = 0.05
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Tensor = torch.Tensor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("names", "captions"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=PACKAGE / "builtin" / "builtin.npz")
    parser.add_argument("--steps", type=int, default=N_STEPS)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    names = json.loads(arguments.names.read_text())["imagenet1k"]
    sources = [Source(path) for path in sorted(arguments.folder.glob("*.npz"))]
    data = Data(sources, names, np.load(arguments.captions))
    stored = dict(np.load(arguments.out))
    for size in SIZES:
        codebooks = tensor(stored[f"codebooks_{size}"][:, :, :N_CODED])
        codebooks = tuned(data, least_squares(data, codebooks), arguments.steps, BEAMS[size])
        trained = stored[f"codebooks_{size}"]
        trained[:, :, :N_CODED] = codebooks.cpu().numpy()
    np.savez_compressed(arguments.out, **(stored | {"version": np.array(VERSION)}))


def tensor(array: Any) -> Tensor:
    return torch.from_numpy(np.asarray(array, dtype=np.float32)).to(DEVICE)


class Data:
    """Vectors of photographs to encode, and the captions and class names that search them."""

    def __init__(self, sources: list[Source], names: list[str], captions: Any) -> None:
        model = builtin_model()
        to_item = model.arrays["to_item"][:, :N_CODED].astype(np.float32)
        weights, intercept = model.pair_moments.regression(model.ridge)

        def queries(texts: Any) -> Tensor:
            return tensor(model.project(texts, view="text")[:, :N_CODED])

        def items(predicted: Any) -> Tensor:
            return tensor(unit(predicted) @ to_item)

        def predicted(features: Any) -> Any:
            return model.map_features(features, view="image") @ weights + intercept

        prompts = ("a photo of a {}", "{}")
        class_texts = [
            MiniLM().transform([prompt.format(name) for name in names]) for prompt in prompts
        ]
        self.class_queries = torch.cat([queries(texts) for texts in class_texts])
        self.class_of_query = torch.arange(len(names), device=DEVICE).repeat(len(prompts))

        captioned = [source for source in sources if source.is_captioned]
        numbers = np.concatenate([source.numbers for source in captioned])
        keep = ~np.isin(numbers, HELD_OUT)
        features = np.concatenate([source.features for source in captioned])[keep]
        self.captioned = items(predicted(features))
        self.captions = queries(captions[numbers[keep]])
        self.probabilities = tensor(model.class_probabilities(features))

        wide = [s for s in sources if not s.is_captioned and s.name != "held_out"]
        features = np.concatenate([source.features[~source.is_held] for source in wide])
        paths = [
            path
            for source in wide
            for path, is_held in zip(source.paths, source.is_held, strict=True)
            if not is_held
        ]
        classes = model.class_probabilities(features)
        base = predicted(features)
        mapped = [unit(model.map_features(texts, view="text")) for texts in class_texts]
        texts_of_classes = unit(sum(mapped))
        texts, _ = simulated(base, classes, texts_of_classes, N_SIMULATED)
        self.wide = torch.cat([items(base), items(texts)])
        labels = classes_of_folders(paths, classes)
        self.class_of_wide = torch.from_numpy(
            np.concatenate([labels, np.arange(N_SIMULATED) % len(names)])
        ).to(DEVICE)


def classes_of_folders(paths: list[str], classes: Any) -> Any:
    """Return the class of photographs in a folder of a WordNet id, -1 for others."""
    ids = np.array([(re.findall(r"n\d{8}", path) or [""])[0] for path in paths])
    labels = np.full(len(paths), -1)
    for one in set(ids.tolist()) - {""}:
        labels[ids == one] = classes[ids == one].mean(axis=0).argmax()
    return labels


@torch.no_grad()
def encode(vectors: Tensor, codebooks: Tensor, n_beams: int) -> Tensor:
    """Return the codes of least squared error that a beam search finds, (n, n_codebooks)."""
    m, k, _ = codebooks.shape
    words = codebooks.reshape(m * k, -1)
    pairs = words @ words.T
    norms = pairs.diagonal().reshape(m, k)
    parts = []
    for part in vectors.split(8_192):
        n = len(part)
        linear = (part @ words.T).reshape(n, m, k)
        codes = torch.zeros(n, 1, 0, dtype=torch.long, device=DEVICE)
        costs, cross = torch.zeros(n, 1, device=DEVICE), torch.zeros(n, 1, m * k, device=DEVICE)
        for j in range(m):
            longer = costs[:, :, None] + norms[j] - 2 * linear[:, j, None]
            longer = longer + 2 * cross[:, :, j * k : (j + 1) * k]
            width = min(n_beams, longer.shape[1] * k)
            costs, places = longer.reshape(n, -1).topk(width, largest=False)
            parents, chosen = places // k, places % k
            codes = codes.gather(1, parents[:, :, None].expand(-1, -1, j))
            codes = torch.cat([codes, chosen[:, :, None]], 2)
            cross = cross.gather(1, parents[:, :, None].expand(-1, -1, m * k))
            cross = cross + pairs[j * k : (j + 1) * k][chosen]
        parts.append(codes[:, 0])
    return torch.cat(parts)


def decode(codes: Tensor, codebooks: Tensor) -> Tensor:
    return torch.stack([book[codes[:, j]] for j, book in enumerate(codebooks)]).sum(0)


def least_squares(data: Data, codebooks: Tensor) -> Tensor:
    """Return codebooks after sweeps of codes and least squares, held by a ridge."""
    m, k, _ = codebooks.shape
    vectors = torch.cat([data.captioned, data.wide])
    for _ in range(N_SWEEPS):
        places = encode(vectors, codebooks, 8) + torch.arange(m, device=DEVICE) * k
        gram = RIDGE * torch.eye(m * k, dtype=torch.float64, device=DEVICE)
        right = RIDGE * codebooks.reshape(m * k, -1).double()
        for rows, part in zip(places.split(16_384), vectors.split(16_384), strict=True):
            chosen = torch.zeros(len(rows), m * k, device=DEVICE).scatter_(1, rows, 1.0)
            gram += (chosen.T @ chosen).double()
            right += (chosen.T @ part).double()
        codebooks = torch.linalg.solve(gram, right).float().reshape(codebooks.shape)
    return codebooks


def tuned(data: Data, codebooks: Tensor, n_steps: int, n_beams: int) -> Tensor:
    """Return the mean of codebooks over the gradient steps, the last ones counting most."""
    draw = torch.Generator(DEVICE).manual_seed(1)
    words = torch.nn.Parameter(codebooks.clone())
    sharpness = torch.nn.Parameter(torch.tensor(np.log(FIRST_SHARPNESS), device=DEVICE))
    groups = [{"params": [words], "lr": RATE}, {"params": [sharpness], "lr": 1e-2}]
    optimizer = torch.optim.Adam(groups, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [RATE, 1e-2], total_steps=n_steps, pct_start=0.1
    )
    mean = codebooks.clone()
    for step in range(n_steps):
        optimizer.zero_grad(set_to_none=True)
        rows = [
            torch.randint(len(part), (BATCH,), generator=draw, device=DEVICE)
            for part in (data.captioned, data.wide)
        ]
        loss(data, rows, words, sharpness.exp().clamp(max=200), n_beams).backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            mean.lerp_(words, 1 - min(0.99, (1 + step) / (10 + step)))
    return mean


def loss(data: Data, rows: list[Tensor], words: Tensor, sharpness: Tensor, n_beams: int) -> Tensor:
    """Return how badly captions and class names find reconstructions, and the relative error."""
    captioned, wide = rows
    vectors = torch.cat([data.captioned[captioned], data.wide[wide]])
    items = decode(encode(vectors, words.detach(), n_beams), words)
    scores = sharpness * data.captions[captioned] @ items.T
    by_caption = F.cross_entropy(scores, torch.arange(len(captioned), device=DEVICE))

    classes = torch.cat([torch.full_like(captioned, -1), data.class_of_wide[wide]])
    is_right = data.class_of_query[:, None] == classes
    likely = data.probabilities[captioned].T[data.class_of_query] > MAX_NEGATIVE
    likely = F.pad(likely, (0, len(wide)))
    scores = (sharpness * data.class_queries @ items.T).masked_fill(likely & ~is_right, -1e4)
    shares = F.log_softmax(scores, 1).masked_fill(~is_right, -1e4).logsumexp(1)
    by_class = -shares[is_right.any(1)].mean()

    error = (items - vectors).square().sum() / vectors.square().sum()
    return by_caption + CLASS_WEIGHT * by_class + ERROR_WEIGHT * error


if __name__ == "__main__":
    main()
