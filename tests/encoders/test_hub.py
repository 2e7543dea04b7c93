"""CLIP models by name, from a hub that runs in the test and from its local cache."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_clip import write_image_network, write_openclip_model, write_transformers_model
from typer.testing import CliRunner

from acqh._core.store import pack, unpack
from acqh.cli import app
from acqh.collection import Collection, Item
from acqh.encoders import list_encoders, make_encoder
from acqh.encoders.models import REPOSITORIES, find_model
from acqh.errors import EncoderError, InvalidInputError
from acqh.methods.registry import HOMES

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
pytest.importorskip("huggingface_hub")
COMMIT, NEWER = 40 * "a", 40 * "b"


class Hub(BaseHTTPRequestHandler):
    """As much of the Hugging Face Hub as a download asks for."""

    protocol_version = "HTTP/1.1"
    server: "HubServer"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.server.asked.append(self.path)
        parts = self.path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            return self.model_info("/".join(parts[2:4]), parts[5] if len(parts) > 5 else "main")
        if len(parts) > 4 and parts[2] == "resolve":
            return self.give("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        return self.answer(404)

    def folder(self, repository, revision):
        commits = self.server.models.get(repository, {})
        commit = max(commits, default="") if revision == "main" else revision
        return commit, commits.get(commit)

    def model_info(self, repository, revision):
        commit, folder = self.folder(repository, revision)
        if folder is None:
            return self.answer(404, {"X-Error-Code": "RepoNotFound"})
        names = [str(p.relative_to(folder)) for p in sorted(folder.rglob("*")) if p.is_file()]
        siblings = [{"rfilename": name} for name in names]
        facts = {"id": repository, "sha": commit, "private": False, "siblings": siblings}
        return self.answer(200, {"Content-Type": "application/json"}, json.dumps(facts).encode())

    def give(self, repository, revision, name):
        commit, folder = self.folder(repository, revision)
        if folder is None or not (folder / name).is_file():
            return self.answer(404, {"X-Error-Code": "EntryNotFound"})
        content = (folder / name).read_bytes()
        tag = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": commit}
        return self.answer(200, tag, content)

    def answer(self, status, headers=None, content=b""):
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


class HubServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Hub)
        self.models: dict[str, dict[str, Path]] = {}  # repository -> commit -> folder
        self.asked: list[str] = []


@pytest.fixture
def hub(monkeypatch, tmp_path):
    server = HubServer()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    folder = write_transformers_model(tmp_path / "published")
    (folder / "run_me.py").write_text("raise SystemExit")
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    server.models["someone/colours"] = {COMMIT: folder}
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def gone(monkeypatch):
    """Return a function after which no hub answers."""
    return lambda: monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


def colours():
    return [Image.new("RGB", (20, 12), colour) for colour in ("red", "lime", "blue")]


def test_a_model_is_downloaded_once(hub, gone):
    images = make_encoder("someone/colours", view="image").fit([])
    texts = make_encoder("someone/colours", view="text")
    gone()
    scores = images.transform(colours()) @ texts.fit([]).transform(["red", "green", "blue"]).T
    np.testing.assert_array_equal(scores.argmax(axis=1), [0, 1, 2])
    assert images.source_ == texts.source_ == f"someone/colours@{COMMIT}"


def test_only_networks_and_settings_are_downloaded(hub):
    folder = find_model("someone/colours").folder
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    networks = {"onnx/vision_model.onnx", "onnx/text_model.onnx"}
    settings = {"preprocessor_config.json", "tokenizer_config.json", "config.json"}
    assert names == networks | settings | {"tokenizer.json"}
    assert not [path for path in hub.asked if path.endswith((".py", ".bin"))]


def test_weights_next_to_a_network_are_downloaded_and_read_from_the_cache(hub, tmp_path):
    folder = write_openclip_model(tmp_path / "openclip")
    network = folder / "visual" / "model.onnx"
    write_image_network(network, batch=1, output="embedding", weights_file="some_data")
    hub.models["someone/openclip"] = {COMMIT: folder}
    encoder = make_encoder("someone/openclip", view="image").fit([])
    np.testing.assert_allclose(encoder.transform(colours()), np.eye(3), atol=1e-6)
    assert (find_model("someone/openclip").folder / "visual" / "some_data").is_file()


def test_weights_outside_the_folder_are_not_downloaded(hub):
    network = hub.models["someone/colours"][COMMIT] / "onnx" / "vision_model.onnx"
    write_image_network(network, weights_file="../../secret")
    with pytest.raises(InvalidInputError, match="outside"):
        find_model("someone/colours")
    assert not [path for path in hub.asked if "secret" in path]


def test_a_short_name_names_a_repository(hub):
    hub.models[REPOSITORIES["clip"]] = hub.models["someone/colours"]
    assert find_model("clip").source == f"{REPOSITORIES['clip']}@{COMMIT}"


def test_a_revision_can_be_chosen(hub, tmp_path):
    newer = tmp_path / "newer"
    shutil.copytree(hub.models["someone/colours"][COMMIT], newer)
    hub.models["someone/colours"][NEWER] = newer
    assert find_model(f"someone/colours@{COMMIT}").source.endswith(COMMIT)
    # What is in the cache is used; no newer revision is looked for.
    assert find_model("someone/colours").source.endswith(COMMIT)
    assert find_model("someone/colours@main").source.endswith(NEWER)


def test_an_interrupted_download_is_completed(hub):
    first = find_model("someone/colours")
    first.path("text").unlink()
    again = find_model("someone/colours")
    assert again == first
    assert again.path("text").is_file()


def test_a_variant_is_downloaded_alone(hub):
    folder = hub.models["someone/colours"][COMMIT]
    for name in ("vision_model", "text_model"):
        shutil.copy(folder / "onnx" / f"{name}.onnx", folder / "onnx" / f"{name}_quantized.onnx")
    model = find_model("someone/colours:quantized")
    assert model.source == f"someone/colours@{COMMIT}:quantized"
    assert not (model.folder / "onnx" / "text_model.onnx").exists()
    with pytest.raises(InvalidInputError, match="int8"):
        find_model("someone/colours:int8")


@pytest.mark.parametrize("name", ["someone/else", "someone/colours@other"])
def test_a_model_that_the_hub_does_not_have_is_named(hub, name):
    with pytest.raises(InvalidInputError, match=name):
        find_model(name)


def test_a_model_without_a_hub_is_named(gone):
    gone()
    with pytest.raises(InvalidInputError, match="someone/colours"):
        find_model("someone/colours")


def test_a_cached_model_needs_no_package_of_the_hub(hub, monkeypatch):
    find_model("someone/colours")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert find_model("someone/colours").source.endswith(COMMIT)


def test_a_stored_encoder_downloads_nothing(hub):
    encoder = make_encoder("someone/colours", view="text").fit([])
    description, arrays = pack(encoder, HOMES)
    shutil.rmtree(find_model("someone/colours").folder.parents[1])
    hub.asked.clear()
    with pytest.raises(InvalidInputError, match=f"--download someone/colours@{COMMIT}"):
        unpack(description, arrays, HOMES).transform(["red"])
    assert not hub.asked


def test_a_collection_keeps_the_revision_that_it_was_built_with(hub, tmp_path):
    words = ("red", "green", "blue")
    items = [Item(image=i, text=t) for i, t in zip(colours() * 4, words * 4, strict=True)]
    name, path = "someone/colours", tmp_path / "c.acqh"
    Collection.build(items, path, image_encoder=name, text_encoder=name).close()
    newer = tmp_path / "newer"
    shutil.copytree(hub.models[name][COMMIT], newer)
    (newer / "tokenizer_config.json").write_text("{}")
    hub.models[name][NEWER] = newer
    find_model(f"{name}@main")
    with Collection.open(path) as opened:
        assert opened.search(text="green", k=1, mode="semantic").hits[0].text == "green"
        assert COMMIT in opened.info().encoders["image"]
    shutil.rmtree(find_model(f"{name}@{COMMIT}").folder)
    with Collection.open(path) as opened, pytest.raises(EncoderError, match=COMMIT):
        opened.search(text="green", mode="semantic")


@pytest.mark.parametrize("quiet", [False, True])
def test_the_command_line_shows_the_progress_of_a_download(hub, quiet):
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    command = [sys.executable, "-m", "acqh", "encoders", "--download", "someone/colours"]
    terminal, stderr = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 100))
    shown = b""
    with subprocess.Popen(
        [*command, *["--quiet"] * quiet], stdout=subprocess.DEVNULL, stderr=stderr
    ) as process:
        os.close(stderr)
        with suppress(OSError):  # which Linux raises at the end
            while part := os.read(terminal, 4096):
                shown += part
    os.close(terminal)
    assert process.returncode == 0, shown
    assert (b"vision_model.onnx" in shown) is not quiet
    assert (shown == b"") is quiet


def test_the_command_line_builds_with_a_model_of_the_hub(hub, tmp_path):
    for number, image in enumerate(colours() * 3):
        image.save(tmp_path / f"{number}.png")
    command = ["build", str(tmp_path), "--out", str(tmp_path / "c.acqh"), "--encoder"]
    done = CliRunner().invoke(app, [*command, "someone/colours"])
    assert done.exit_code == 0, (done.output, done.exception)
    with Collection.open(tmp_path / "c.acqh") as collection:
        assert COMMIT in collection.info().encoders["text"]
    done = CliRunner().invoke(app, [*command, "someone/else", "--overwrite"])
    assert "someone/else" in str(done.exception)


def test_encoders_are_listed_with_what_is_known_of_them(hub):
    find_model("someone/colours")
    infos = {info.name: info for info in list_encoders()}
    assert infos["tfidf"].status == "installed"
    assert infos["clip"].status == "on the hub"
    assert infos["clip"].repository == REPOSITORIES["clip"]
    assert infos["siglip2"].languages == "multilingual"
    assert infos["siglip"].licence == "Apache-2.0"
    assert infos["someone/colours"].status == "cached"
    assert {info.views for info in infos.values()} == {"image", "text", "both"}


def test_encoders_without_their_packages_are_not_installed(monkeypatch):
    monkeypatch.setattr("acqh.encoders.models.find_spec", lambda name: name != "skimage" or None)
    status = {info.name: info.status for info in list_encoders()}
    assert status["hog"] == "not installed"
    assert status["minilm"] == "installed"


def test_the_command_line_lists_encoders_and_downloads_a_model(hub, gone):
    hub.models[REPOSITORIES["mobileclip"]] = hub.models["someone/colours"]
    done = CliRunner().invoke(app, ["encoders", "--download", "mobileclip", "--json"])
    assert json.loads(done.stdout)["source"] == f"{REPOSITORIES['mobileclip']}@{COMMIT}"
    gone()
    listed = json.loads(CliRunner().invoke(app, ["encoders", "--json"]).stdout)
    status = {info["name"]: info["status"] for info in listed}
    assert (status["mobileclip"], status["clip"]) == ("cached", "on the hub")
    table = CliRunner().invoke(app, ["encoders"], env={"COLUMNS": "200"}).stdout
    assert "mobileclip" in table
    assert "multilingual" in table
