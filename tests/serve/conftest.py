"""A small collection, and real servers on loopback that serve it."""

import asyncio
import io
import shutil
import threading
from contextlib import contextmanager
from dataclasses import fields

import httpx
import numpy as np
import pytest
from PIL import Image

from acqh.collection import Collection, Item
from acqh.serve import Settings, create_app
from acqh.serve.run import Listener, Server, address_of, listen
from acqh.serve.settings import Limits

WORDS = {
    "cat": ["soft grey cat", "cat on a sofa", "black cat", "a cat sleeps"],
    "car": ["fast red car", "car on a road", "black car", "a car parks"],
    "sea": ["blue sea", "sea and sky", "waves of the sea", "a quiet sea"],
}
COLOURS = {"cat": (120, 120, 120), "car": (220, 30, 30), "sea": (20, 60, 220)}


def picture(colour, size=(40, 40), kind="PNG"):
    """Return the bytes of a picture in one colour, with a little noise."""
    rng = np.random.default_rng(sum(colour))
    pixels = np.clip(np.array(colour) + rng.integers(-20, 20, (*size, 3)), 0, 255)
    file = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(file, kind)
    return file.getvalue()


def items(n_rounds=3):
    """Return items of three kinds; one has no picture, one a strange id."""
    pictures = []
    for turn in range(n_rounds):
        for label, texts in WORDS.items():
            for position, text in enumerate(texts):
                colour = tuple(min(255, part + 5 * turn + position) for part in COLOURS[label])
                pictures.append(
                    Item(
                        image=picture(colour),
                        text=text,
                        labels=[label],
                        id=f"{label}-{turn}-{position}",
                        fields={"turn": turn, "where": "here"},
                    )
                )
    pictures.append(Item(text="a cat without a picture", labels=["cat"], id="plain"))
    pictures.append(
        Item(image=picture((10, 10, 10)), text="black cat", labels=["cat"], id="odd/100%#?.jpg")
    )
    return pictures


def build(path, source=None, **settings):
    Collection.build(
        items() if source is None else source,
        path,
        n_components=4,
        n_codebooks=2,
        **settings,
        image_encoder="hog",
        text_encoder="tfidf",
    ).close()
    return path


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Return a collection that no test changes."""
    return build(tmp_path_factory.mktemp("serve") / "things.acqh")


@pytest.fixture
def own_copy(built, tmp_path):
    """Return a collection that the test may change."""
    return shutil.copytree(built, tmp_path / "things.acqh")


@contextmanager
def serving(path, **settings):
    """Serve a collection on a free port of loopback, in a thread; give a client and the server."""
    names = {field.name for field in fields(Limits)}
    limits = Limits(**{name: value for name, value in settings.items() if name in names})
    settings = {name: value for name, value in settings.items() if name not in names}
    chosen = Settings(collection=path, **{"port": 0, "n_threads": 2, **settings})
    ready = threading.Event()
    with Listener(listen(chosen)) as listening:
        app = create_app(chosen, limits=limits)
        server = Server(app, limits, listening)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(ready.set)), daemon=True)
        thread.start()
        assert ready.wait(60), "the server did not start"
        try:
            with httpx.Client(
                base_url=address_of(listening), timeout=60, trust_env=False
            ) as client:
                client.app = app
                client.address = listening.getsockname()
                client.connections = server.connections
                yield client
        finally:
            server.stop()
            thread.join(10)
            assert not thread.is_alive(), "the server did not stop"


@pytest.fixture(scope="session")
def start():
    """Return the function that serves a collection."""
    return serving


@pytest.fixture(scope="session")
def make_picture():
    """Return the function that makes a picture of one colour."""
    return picture


@pytest.fixture(scope="session")
def make_items():
    """Return the function that makes the items of the collection."""
    return items


@pytest.fixture(scope="session")
def rebuild():
    """Return the function that builds a collection, also in place of another."""
    return build


@pytest.fixture(scope="session")
def client(built):
    """Return a client of a service with default settings."""
    with serving(built) as client:
        yield client


@pytest.fixture(scope="session")
def write_tokens():
    """Return a function that writes two tokens into a folder and returns settings naming them."""

    def write(folder):
        read, change = folder / "read.token", folder / "write.token"
        read.write_text("read-0123456789abcdef\n")
        change.write_text("write-0123456789abcdef\n")
        return {"token_file": read, "write_token_file": change}

    return write


@pytest.fixture
def token_files(write_tokens, tmp_path):
    """Return settings that name files with the tokens "read..." and "write..."."""
    return write_tokens(tmp_path)


@pytest.fixture(scope="session")
def photographs(tmp_path_factory):
    """Return a collection built from a table, and the folder of its images."""
    folder = tmp_path_factory.mktemp("photographs")
    rows = ["image,text,labels,date"]
    for number in range(8):
        kind, colour = (("car", COLOURS["car"]), ("sea", COLOURS["sea"]))[number % 2]
        (folder / f"{kind} {number}.png").write_bytes(picture(colour))
        rows.append(f"{kind} {number}.png,a {kind},{kind},2020-01-0{9 - number}")
    (folder / "manifest.csv").write_text("\n".join(rows))
    path = folder.parent / "photographs.acqh"
    encoders = {"image_encoder": "hog", "text_encoder": "tfidf"}
    Collection.build(folder, path, n_components=2, n_codebooks=2, **encoders).close()
    return path, folder
