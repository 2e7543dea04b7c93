"""Damage files at random and read them: only errors of acqh's own may come out.

    python tools/mutate.py --seconds 600 --seed 0

Prints one JSON line: how many files were damaged, how many of these were rejected, read after all,
or gave an exception that is not acqh's, which is a failure.
"""

import argparse
import hashlib
import io
import json
import logging
import re
import shutil
import sqlite3
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from PIL import Image

import acqh
from acqh.collection import Collection, Item
from acqh.collection.verify import verify_collection
from acqh.data import list_chunks, read, read_chunks, read_records
from acqh.encoders import make_encoder, read_image
from acqh.errors import AcqhError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "encoders"))
from tiny_clip import write_transformers_model

N_ITEMS = 40
NUMBERS = (b"-1", b"0", b"1", b"7", b"99999", b"9223372036854775808", b"1e999", b"nan", b"null")
NUMBERS += (b"-5", b"1000000", b"[1, 2]", b'".."', b"[" * 100_000)
# Of a member of a tar file: sizes that lead nowhere, and types whose headers are chained.
TAR_SIZES = (-512, -(2**40), -1, 0, 3, 2**40, 2**62)
TAR_TYPES = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE)
TAR_TYPES += (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.LNKTYPE)
# A file may be gone or unreadable: that is the system's error, and said as such.
ALLOWED = (AcqhError, OSError)

Probe = Callable[[Path], object]


# ---------------------------------------------------------------------------------- whole files


def make_files(folder: Path) -> dict[str, tuple[Path, Probe]]:
    """Write one file, or folder, of every kind; return each with how to read it."""
    folder.mkdir(parents=True, exist_ok=True)
    data = acqh.make_multiview(N_ITEMS, n_labels=4, random_state=0)
    arrays = {
        "image": np.asarray(data.views["image"], dtype=np.float32),
        "text": np.asarray(data.views["text"]),
        "labels": np.asarray(data.labels),
        "ids": np.array([f"i{n}" for n in range(N_ITEMS)]),
        "train_idx": np.arange(30),
        "test_idx": np.arange(30, N_ITEMS),
        "label_names": np.array(["a", "b", "c", "d"]),
    }
    sparse = sp.csr_array(np.maximum(arrays["image"], 0))
    pieces = {
        "words_data": sparse.data,
        "words_indices": sparse.indices,
        "words_indptr": sparse.indptr,
        "words_shape": np.array(sparse.shape),
    }
    np.savez(folder / "stored.npz", **arrays, **pieces)
    np.savez_compressed(folder / "packed.npz", **arrays, **pieces)
    (folder / "npy").mkdir()
    for name, array in {**arrays, **pieces}.items():
        np.save(folder / "npy" / f"{name}.npy", array)
    matlab = {"I_tr": arrays["image"][:30], "T_tr": arrays["text"][:30], "L_tr": data.labels[:30]}
    matlab |= {"I_te": arrays["image"][30:], "T_te": arrays["text"][30:], "L_te": data.labels[30:]}
    scipy.io.savemat(folder / "old.mat", matlab)
    scipy.io.savemat(folder / "packed.mat", matlab, do_compression=True)
    _write_tables(folder, arrays)
    _write_csv(folder, arrays)
    files: dict[str, tuple[Path, Probe]] = {
        name: (folder / name, _read_data)
        for name in ("stored.npz", "packed.npz", "npy", "old.mat", "packed.mat", "plain.parquet")
    }
    files |= {
        name: (folder / name, _read_data) for name in ("zstd.parquet", "t.arrow", "lz4.arrow")
    }
    files |= {"views.csv": (folder / "views.csv", _read_data)}
    files |= {"items.csv": (folder / "items.csv", _read_items)}
    files |= {"items.jsonl": (folder / "items.jsonl", _read_items)}
    return (
        files
        | _write_hdf5(folder, matlab)
        | _write_zarr(folder, arrays)
        | _write_layouts(folder, arrays)
        | _write_network(folder)
        | _write_images(folder)
        | _bundles(folder, data)
        | _write_collection(folder)
    )


def _write_images(folder: Path) -> dict[str, tuple[Path, Probe]]:
    import av
    import pillow_heif

    pillow_heif.register_heif_opener()
    pixels = np.random.default_rng(0).integers(0, 255, (9, 12, 3), dtype=np.uint8)
    image = Image.fromarray(pixels).resize((360, 270))
    image.save(folder / "photo.png")
    image.save(folder / "photo.jpg")
    image.save(folder / "photo.heic")
    image.save(folder / "photo.tif", compression="tiff_lzw")
    image.save(folder / "plain.tif")
    with av.open(str(folder / "video.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        frame = av.VideoFrame.from_image(image.resize((64, 48)))
        container.mux([*stream.encode(frame), *stream.encode(None)])

    def probe(path: Path) -> object:
        # Large ones are decoded in strips, if possible.
        max_pixels = 90_000 if path.suffix in (".png", ".tif") else None
        return read_image(path, max_pixels=max_pixels, side=20)

    names = ("png", "jpg", "heic", "tif")
    files = {f"photo.{name}": (folder / f"photo.{name}", probe) for name in names}
    return files | {name: (folder / name, probe) for name in ("plain.tif", "video.mp4")}


def _write_tables(folder: Path, arrays: dict[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    width = arrays["image"].shape[1]
    image = pa.FixedSizeListArray.from_arrays(pa.array(arrays["image"].ravel()), width)
    table = pa.table(
        {
            "id": arrays["ids"].tolist(),
            "image": image,
            "text": [row.tolist() for row in arrays["text"]],
            "labels": [["a", "b"][: 1 + n % 2] for n in range(N_ITEMS)],
            "title": [f"title {n}" for n in range(N_ITEMS)],
            "price": np.arange(N_ITEMS) / 3,
        }
    )
    pyarrow.parquet.write_table(table, folder / "plain.parquet", compression="none")
    pyarrow.parquet.write_table(
        table, folder / "zstd.parquet", compression="zstd", row_group_size=9
    )
    pyarrow.feather.write_feather(table, folder / "t.arrow", compression="uncompressed")
    pyarrow.feather.write_feather(table, folder / "lz4.arrow", compression="lz4", chunksize=9)


def _write_csv(folder: Path, arrays: dict[str, Any]) -> None:
    columns = ["id", "labels", *(f"image_{j}" for j in range(4)), *(f"text_{j}" for j in range(3))]
    lines = [",".join(columns)]
    items = ["id,image,text,labels,split"]
    records = []
    for n in range(N_ITEMS):
        image = [f"{value:.4f}" for value in arrays["image"][n, :4]]
        text = [f"{value:.4f}" for value in arrays["text"][n, :3]]
        lines.append(",".join([f"i{n}", "a|b", *image, *text]))
        items.append(f'i{n},{n}.jpg,"a text, and ""more"" {n}",sea|sky,{"train" if n else "test"}')
        records.append(json.dumps({"id": f"i{n}", "text": f"a text {n}", "labels": ["sea"]}))
    (folder / "views.csv").write_text("\n".join(lines))
    (folder / "items.csv").write_text("\n".join(items))
    (folder / "items.jsonl").write_text("\n".join(records))


def _write_hdf5(folder: Path, matlab: dict[str, Any]) -> dict[str, tuple[Path, Probe]]:
    import h5py

    path = folder / "new.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in matlab.items():
            file[name] = np.asarray(value, dtype=np.float64).T
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM"
    with path.open("r+b") as handle:
        handle.write(head.ljust(512, b"\0"))
    return {"new.mat": (path, _read_data)}


def _write_zarr(folder: Path, arrays: dict[str, Any]) -> dict[str, tuple[Path, Probe]]:
    import zarr

    probes: dict[str, tuple[Path, Probe]] = {}
    for version in (2, 3):
        path = folder / f"v{version}.zarr"
        group = zarr.open_group(path, mode="w", zarr_format=version)
        for name in ("image", "text", "labels"):
            group.create_array(name, data=arrays[name], chunks=(9, arrays[name].shape[1]))
        probes[path.name] = (path, _read_data)
    return probes


def _write_layouts(folder: Path, arrays: dict[str, Any]) -> dict[str, tuple[Path, Probe]]:
    """Write vectors as programs of others do."""
    import h5py
    import pyarrow as pa
    import pyarrow.parquet

    image, texts = arrays["image"], [f"a text {n}" for n in range(N_ITEMS)]
    with h5py.File(folder / "ann.hdf5", "w") as file:
        file.create_dataset("train", data=image, chunks=(9, image.shape[1]), compression="gzip")
        file["test"], file["neighbors"] = image[:5], np.zeros((5, 3), np.int32)
    for name in ("img_emb", "text_emb", "metadata"):
        (folder / "clip" / name).mkdir(parents=True)
    for number, rows in enumerate(np.array_split(np.arange(N_ITEMS), 3)):
        np.save(folder / f"clip/img_emb/img_emb_{number}.npy", image[rows])
        np.save(folder / f"clip/text_emb/text_emb_{number}.npy", arrays["text"][rows])
        facts = pa.table({"caption": [texts[row] for row in rows]})
        pyarrow.parquet.write_table(facts, folder / f"clip/metadata/metadata_{number}.parquet")
    (folder / "hugging").mkdir()
    card = {"info": {"features": {"label": {"names": ["a", "b"], "_type": "ClassLabel"}}}}
    table = pa.table({"v": list(image), "label": np.arange(N_ITEMS) % 2, "text": texts})
    table = table.replace_schema_metadata({"huggingface": json.dumps(card)})
    with pa.ipc.new_stream(str(folder / "hugging/data-0.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=9)
    state = {"_data_files": [{"filename": "data-0.arrow"}]}
    (folder / "hugging" / "state.json").write_text(json.dumps(state))
    with tarfile.open(folder / "samples.tar", "w") as tar:
        for n in range(N_ITEMS):
            vector = io.BytesIO()
            np.save(vector, image[n])
            members = {"npy": vector.getvalue(), "cls": b"1", "json": b'{"width": 3}'}
            for kind, content in members.items():
                member = tarfile.TarInfo(f"{n:05}.{kind}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    shutil.copy(folder / "samples.tar", folder / "records.tar")
    with sqlite3.connect(folder / "rclip.db") as database:
        database.execute("CREATE TABLE images (id INTEGER, deleted, filepath TEXT, vector BLOB)")
        rows = [(n, None, f"{n}.jpg", row.tobytes()) for n, row in enumerate(image)]
        database.executemany("INSERT INTO images VALUES (?,?,?,?)", rows)
    database.close()
    lists = [json.dumps(row.tolist()) for row in image]
    dump = "\n".join(f"u{n}\t{row}" for n, row in enumerate(lists))
    head = 'COPY public.smart_search ("assetId", embedding) FROM stdin;'
    (folder / "immich.sql").write_text(f"SET x = 1;\n{head}\n{dump}\n\\.\n")
    (folder / "lists.jsonl").write_text("\n".join(lists))
    np.savetxt(folder / "bare.csv", image, delimiter=",")
    sizes = np.array([N_ITEMS, 2], "<u4").tobytes()
    (folder / "truth").write_bytes(sizes + bytes(2 * 8 * N_ITEMS))
    names = ("ann.hdf5", "clip", "hugging", "samples.tar", "rclip.db", "immich.sql", "lists.jsonl")
    probes: dict[str, tuple[Path, Probe]] = {
        name: (folder / name, _read_data) for name in (*names, "bare.csv", "truth")
    }
    return probes | {"records.tar": (folder / "records.tar", _read_items)}


def _write_network(folder: Path) -> dict[str, tuple[Path, Probe]]:
    """Write a tiny CLIP model: two networks, a tokenizer and their settings."""
    path = folder / "network"
    return {"network": (write_transformers_model(path), _encode_both)}


def _bundles(folder: Path, data: Any) -> dict[str, tuple[Path, Probe]]:
    parameters = {"n_codebooks": 2, "codebook_size": 8, "random_state": 0}
    model = acqh.ACQH(4, feature_maps={"image": "rbf_mean2"}, **parameters)
    model.fit(data.views, data.labels).save(folder / "model.acqh")
    codes = model.encode(labels=data.labels)
    ids = [f"i{n}" for n in range(N_ITEMS)]
    index = acqh.CodeIndex(model.codebooks_).add(codes, ids=ids)
    index.remove(ids[:3])
    index.save(folder / "index.acqh")
    bits = np.random.default_rng(0).integers(0, 256, (N_ITEMS, 2), dtype=np.uint8)
    acqh.HammingIndex(16).add(bits).save(folder / "bits.acqh")
    names = ("model.acqh", "index.acqh", "bits.acqh")
    return {name: (folder / name, _read_bundle) for name in names}


def _write_collection(folder: Path) -> dict[str, tuple[Path, Probe]]:
    items = [
        Item(text=f"a {word} number {n}", labels=[word], id=f"{word}{n}")
        for word in ("dog", "rose", "car")
        for n in range(N_ITEMS // 3)
    ]
    path = folder / "things.acqh"
    with Collection.build(items, path, n_codebooks=2, text_encoder="tfidf") as collection:
        collection.remove("dog0")
    return {"things.acqh": (path, _read_collection)}


# ------------------------------------------------------------------------------------- reading


def _read_data(path: Path) -> object:
    return _all_of(lambda: read(path), lambda: list(read_chunks(list_chunks(path, chunk_size=7))))


def _read_items(path: Path) -> object:
    return list(read_records(path))


def _encode_both(path: Path) -> object:
    images = [Image.new("RGB", (9, 7), colour) for colour in ("red", "blue")]
    return _all_of(
        lambda: make_encoder(str(path), view="image").fit(images).transform(images),
        lambda: make_encoder(str(path), view="text").fit([]).transform(["red", "a green thing"]),
    )


def _read_bundle(path: Path) -> object:
    return _all_of(lambda: _use(acqh.load(path)), lambda: acqh.verify(path))


def _read_collection(path: Path) -> object:
    return _all_of(lambda: verify_collection(path), lambda: _use_collection(path))


def _use_collection(path: Path) -> object:
    with Collection.open(path) as collection:
        return _all_of(
            collection.info,
            lambda: collection.search(text="dog 3", k=50),
            lambda: collection.search(text="dog -rose", mode="keyword", where={"label": "dog"}),
            lambda: [collection.item(identifier) for identifier in collection],
            lambda: [collection.labels(), collection.fields(), collection.browse()],
            lambda: collection.add(Item(text="a new car", labels=["car"], id="new")),
            lambda: collection.remove("new"),
        )


def _use(opened: Any) -> object:
    """Ask a model or index what one asks them, if it opens."""
    if hasattr(opened, "search"):
        if hasattr(opened, "n_bits"):
            return opened.search(np.zeros((2, opened.n_bits // 8), np.uint8), k=5)
        return opened.search(np.ones((2, opened.codebooks.shape[2])), k=5)
    views = {view: np.ones((3, width)) for view, width in opened.n_features_in_.items()}
    return [opened.project(views["text"], view="text"), opened.encode(views)]


def _all_of(*probes: Callable[[], object]) -> list[object]:
    """Call all, then raise the first error, if any, that is not acqh's, or else the first."""
    errors: list[Exception] = []
    results = []
    for probe in probes:
        try:
            results.append(probe())
        except Exception as error:
            errors.append(error)
    for error in sorted(errors, key=lambda error_type: isinstance(error_type, ALLOWED)):
        raise error
    return results


# ------------------------------------------------------------------------------------ damaging


def damage(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content with one thing wrong with it."""
    if not content:
        return bytes(rng.integers(0, 256, 5, dtype=np.uint8))
    work = bytearray(content)
    # Headers are short and matter most: half of all damage is near the beginning or the end.
    place = int(rng.integers(len(work)))
    if rng.random() < 0.5:
        near = int(min(rng.exponential(60), len(work) - 1))
        place = near if rng.random() < 0.5 else len(work) - 1 - near
    length = int(min(1 + rng.exponential(20), 1024, len(work) - place))
    match int(rng.integers(8)):
        case 0:
            work[place] ^= 1 << int(rng.integers(8))
        case 1:
            work[place : place + length] = bytes(length)
        case 2:
            work[place : place + length] = rng.integers(0, 256, length, dtype=np.uint8).tobytes()
        case 3:
            del work[place:]
        case 4:
            del work[place : place + length]
        case 5:
            work[place:place] = work[place : place + length]
        case 6:
            work[place : place + 4] = bytes([255]) * min(4, len(work) - place)
        case _:
            return _other_number(content, rng)
    return bytes(work)


def _other_number(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content with one number, written in digits, replaced."""
    numbers = list(re.finditer(rb"\d+", content[:65536]))
    if not numbers:
        return content[:-1]
    hit = numbers[int(rng.integers(len(numbers)))]
    return content[: hit.start()] + NUMBERS[int(rng.integers(len(NUMBERS)))] + content[hit.end() :]


def mutate(path: Path, rng: np.random.Generator) -> None:
    """Damage one file; a checksum that covers it is, half of the time, made to fit."""
    inside = sorted(file for file in path.rglob("*") if file.is_file() and file.stat().st_size)
    files = inside if path.is_dir() else [path]
    file = files[int(rng.integers(len(files)))]
    reseal = rng.random() < 0.5
    if reseal and file.suffix == ".npz":
        _damage_member(file, rng)
        return
    if reseal and file.suffix == ".tar":
        file.write_bytes(_other_member(file.read_bytes(), rng))
        return
    file.write_bytes(damage(file.read_bytes(), rng))
    if reseal and (file.parent / "manifest.json").is_file():
        _reseal(file.parent)


def _damage_member(file: Path, rng: np.random.Generator) -> None:
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        packing = archive.infolist()[0].compress_type
    name = list(members)[int(rng.integers(len(members)))]
    members[name] = damage(members[name], rng)
    with zipfile.ZipFile(file, "w", packing) as archive:
        for member, content in members.items():
            archive.writestr(member, content)


def _other_member(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a tar file with the size or type of some members replaced; their checksums fit."""
    work = bytearray(content)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        heads = [member.offset for member in tar]
    for at in rng.choice(heads, rng.integers(1, len(heads) + 1), replace=False):
        head = work[at : at + tarfile.BLOCKSIZE]
        if rng.random() < 0.5:
            size = TAR_SIZES[int(rng.integers(len(TAR_SIZES)))]
            head[124:136] = (b"\x80" if size >= 0 else b"\xff") + (size % 256**11).to_bytes(
                11, "big"
            )
        else:
            head[156:157] = TAR_TYPES[int(rng.integers(len(TAR_TYPES)))]
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        work[at : at + tarfile.BLOCKSIZE] = head
    return bytes(work)


def _reseal(bundle: Path) -> None:
    """Give a damaged bundle checksums that fit, as an attacker would."""
    manifest = bundle / "manifest.json"
    try:
        fields = json.loads(manifest.read_bytes())
        for entry in fields["members"].values():
            member = bundle / entry["file"]
            content = member.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            entry |= {"file": f"{digest[:32]}.safetensors", "bytes": len(content), "sha256": digest}
            member.rename(bundle / entry["file"])
        fields.pop("manifest_sha256", None)
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
        fields["manifest_sha256"] = hashlib.sha256(canonical.encode("ascii")).hexdigest()
        manifest.write_text(json.dumps(fields))
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return  # beyond repair, which is a case as well


# ------------------------------------------------------------------------------------- running


def rounds(
    seed: int, files: dict[str, tuple[Path, Probe]], scratch: Path
) -> Iterator[dict[str, Any]]:
    """Damage one file after another, for ever; yield what came of each."""
    for number in range(sys.maxsize):
        rng = np.random.default_rng([seed, number])
        kind = list(files)[number % len(files)]
        source, probe = files[kind]
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        target = scratch / source.name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
        mutate(target, rng)
        outcome = {"kind": kind, "number": number, "result": "read"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                probe(target)
            except ALLOWED as error:
                outcome |= {"result": "refused", "error": type(error).__name__}
            except Exception as error:
                trace = io.StringIO()
                traceback.print_exc(file=trace)
                outcome |= {"result": "foreign", "error": repr(error), "trace": trace.getvalue()}
        yield outcome


def run(seed: int, n_rounds: int | None, seconds: float | None) -> dict[str, Any]:
    """Damage files for a number of rounds or seconds; return the counts and the failures."""
    counts: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        files = make_files(Path(folder) / "whole")
        for outcome in rounds(seed, files, Path(folder) / "damaged"):
            counts[outcome["result"]] += 1
            if outcome["result"] == "foreign":
                failures.append(outcome)
            done = counts.total()
            over = seconds is not None and time.monotonic() - start > seconds
            if over or (n_rounds is not None and done >= n_rounds):
                break
    return {
        "case": "mutations",
        "seed": seed,
        "files": counts.total(),
        "refused": counts["refused"],
        "read": counts["read"],
        "foreign": counts["foreign"],
        "failures": failures,
    }


def _cause(trace: str) -> str:
    """Return the last line of acqh's own that a traceback names, and the kind of exception."""
    places = re.findall(r"acqh/(\S+\.py)\", line (\d+)", trace)
    return f"{':'.join(places[-1]) if places else '?'} {trace.splitlines()[-1][:60]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    chosen = parser.parse_args()
    logging.disable()  # rebuilding a damaged index logs a warning each time
    result = run(chosen.seed, chosen.rounds, chosen.seconds)
    causes: dict[str, list[dict[str, Any]]] = {}
    for failure in result["failures"]:
        causes.setdefault(_cause(failure["trace"]), []).append(failure)
    for cause, failures in causes.items():
        first = failures[0]
        print(
            f"{len(failures)} x {cause}; first {first['kind']}, round {first['number']}:\n"
            f"{first['trace']}",
            file=sys.stderr,
        )
    print(json.dumps({**result, "failures": len(result["failures"])}))
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
