"""What a fitted model does: queries to vectors, items to codes, codes to vectors."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast

import numpy as np

from acqh._core.arrays import Array, Floats, Matrix
from acqh._core.device import MAX_MEMORY, is_tensor, to_tensor
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, LabelError, ViewError
from acqh.methods.acqh.items import Items
from acqh.methods.acqh.label_space import LabelSpace
from acqh.methods.acqh.predictions import Predictor
from acqh.methods.acqh.space import TargetSpace
from acqh.methods.acqh.tensor_coding import TensorCoder, project_tensor
from acqh.methods.base import BaseMethod, labelled
from acqh.methods.query_maps import QueryMaps, map_features
from acqh.methods.registry import DatabaseMode
from acqh.methods.target import Target
from acqh.methods.tensors import TensorData, has_tensors, read_tensors
from acqh.quantize import decode, search_codes
from acqh.quantize.codebooks import check_codes


class CodingMethod(BaseMethod):
    """A fitted space and codebooks; `acqh.ACQH` says how they are learnt."""

    n_codebooks: int
    ridge: float | Literal["auto"]
    fit_intercept: ClassVar[bool]
    similarity: Any

    # Where queries and items of any kind meet.
    space_: LabelSpace | TargetSpace
    projections_: dict[str, Floats]
    intercepts_: dict[str, Floats]
    unit_projections_: dict[str, Floats]
    codebooks_: Floats
    # In which a code vector is to be near its target; None: the identity.
    code_metric_: Floats | None
    refitted_: tuple[str, ...]

    def project(
        self, X: Matrix, *, view: str, device: str | None = None, max_memory: int = MAX_MEMORY
    ) -> Floats:
        """Turn queries of one view into real vectors.

        Parameters
        ----------
        X : (n_queries, n_features), dense or CSR, or tensor
        view : str
        device : str, optional
            Where to compute, such as ``"cuda"``; by default where `X` lies.
        max_memory : int
            Bytes of working memory on a device.

        Returns
        -------
        (n_queries, n_components)
            float32 where the model was fitted on nothing wider, otherwise float64. A tensor on
            the same device where `X` is one.

        Raises
        ------
        DeviceError
            The device is not available.
        ViewError
            An unknown view, another width than fitted, or a value that is not finite.
        """
        if device is not None or is_tensor(X):
            data = self._read_tensors({view: X}, None, device)
            found: Any = project_tensor(data, view, self.query_maps(), max_memory)
            return cast(Floats, found if is_tensor(X) else found.cpu().numpy())
        return self.query_maps().project(X, view=view)

    def query_maps(self) -> QueryMaps:
        """Return the part of the model that queries need."""
        self._check_fitted()
        return QueryMaps(
            self.n_features_in_,
            self.codebooks_,
            self.projections_,
            self.intercepts_,
            self.unit_projections_,
            self.feature_maps_,
        )

    def encode(
        self,
        views: Any = None,
        *,
        labels: Any = None,
        mode: DatabaseMode | None = None,
        device: str | None = None,
        max_memory: int = MAX_MEMORY,
    ) -> Array:
        """Turn items into codes, by whatever is known of them.

        Parameters
        ----------
        views : mapping of str to (n_items, n_features), or MultiViewData, optional
            Any of the fitted views, one or several. What a view says of a target is taken as it is;
            the other targets are predicted, each view weighted by how well it does.
        labels : optional
            Of any form that `fit` takes, by default those that a MultiViewData brings; a row
            without labels is one whose labels are not known.
            With labels as the only target, items that have labels are coded by these alone.
        mode : {"learnt", "hashed", "unified"}, optional
            By labels (and views), by one view, or by all views given; as the arguments suggest by
            default.
        device : str, optional
            Where to compute, such as ``"cuda"``; by default where tensors lie, and on the host
            for arrays.
        max_memory : int
            Bytes of working memory on a device.

        Returns
        -------
        uint8 (n_items, n_codebooks)
            A tensor on the device where views or labels are tensors.

        Raises
        ------
        DeviceError
            The device is not available.
        InvalidInputError
            Neither views nor labels are given, or not what the mode needs.
        LabelError
            An item has neither labels nor views.
        ViewError
            An unknown view, views of different lengths, a width that was not fitted, NaN.
        """
        views, labels, present = self._given(views, labels, mode)
        if device is not None or has_tensors(views, labels):
            if not all(mask.all() for mask in present.values()):
                raise ViewError(
                    "some items lack a view, which is not known on a device; leave device out"
                )
            data = self._check_tensors(views, labels, mode, device)
            found = self._coder(max_memory).encode(data)
            return cast(Array, found if has_tensors(views, labels) else found.cpu().numpy())
        items = self._check_items(views, labels, mode, present)
        codes = np.empty((items.n_items, self.n_codebooks), dtype=np.uint8)
        for rows, found in self.space_.encode(items, self._map_rows, self._search):
            codes[rows] = found
        return codes

    def embed(
        self, views: Any = None, *, labels: Any = None, mode: DatabaseMode | None = None
    ) -> Floats:
        """Return the vectors that `encode` puts into bytes: scores without quantization.

        Takes and raises what `encode` does.

        Returns
        -------
        (n_items, n_components)
        """
        views, labels, present = self._given(views, labels, mode)
        if has_tensors(views, labels):
            data = self._check_tensors(views, labels, mode, None)
            return cast(Floats, self._coder(MAX_MEMORY).vectors(data))
        items = self._check_items(views, labels, mode, present)
        found = np.empty((items.n_items, self.codebooks_.shape[2]), dtype=self.codebooks_.dtype)
        for rows, vectors in self.space_.vectors(items, self._map_rows):
            found[rows] = vectors
        return found

    def _coder(self, max_memory: int) -> TensorCoder:
        own = self.space_, self.feature_maps_, self.codebooks_, self.code_metric_, self._search
        return TensorCoder(*own, max_memory)

    def _read_tensors(self, views: Any, labels: Any, device: str | None) -> TensorData:
        """Check tensors against the fitted views and labels."""
        self._check_fitted()
        data = read_tensors(views, labels, device=device, names=self.label_names_)
        for name, matrix in data.views.items():
            self._check_shape(matrix, name)
        return data

    def _check_tensors(
        self, views: Any, labels: Any, mode: DatabaseMode | None, device: str | None
    ) -> TensorData:
        mode = self._check_given(views, labels, mode)
        wanted = labels if mode == "learnt" and self.space_.knows_labels else None
        return self._read_tensors(views or {}, wanted, device)

    def _given(
        self, views: Any, labels: Any, mode: DatabaseMode | None
    ) -> tuple[Any, Any, Mapping[str, Array]]:
        """Return views, labels and which items have a view, of items in any form."""
        self._check_fitted()
        if not isinstance(views, MultiViewData):
            return views, labels, {}
        if views.labels is not None:
            own = labelled(views, labels).labels
            by_labels = mode in (None, "learnt") and self.space_.knows_labels
            if by_labels and views.label_names != self.label_names_:
                raise LabelError(
                    "label names differ from those fitted; give label_names= to all data, so that "
                    "a column means the same label everywhere, or data without_labels()"
                )
            labels = own if by_labels else None
        return views.views, labels, views.present

    def _check_items(
        self,
        views: Any,
        labels: Any,
        mode: DatabaseMode | None,
        present: Mapping[str, Array],
    ) -> Items:
        mode = self._check_given(views, labels, mode)
        matrices = {name: self._check_view(X, name) for name, X in (views or {}).items()}
        known = mode == "learnt" and self.space_.knows_labels
        return Items.of(matrices, present, self._check_labels(labels) if known else None)

    def _check_given(self, views: Any, labels: Any, mode: DatabaseMode | None) -> DatabaseMode:
        """Check that there is what a mode needs; return the mode."""
        mode = self._check_mode(views, labels, mode)
        if mode == "hashed" and len(views) != 1:
            raise InvalidInputError(f"mode 'hashed' takes one view, got {sorted(views)}")
        if mode == "learnt" and labels is None:
            raise InvalidInputError("give labels, or views as a mapping of names to matrices")
        if not views and not self.space_.knows_labels:
            raise InvalidInputError(
                f"labels are no target of this model, but {[*self.targets_]}; give views of the "
                "items"
            )
        return mode

    def _map_rows(self, views: Mapping[str, Matrix]) -> dict[str, Matrix]:
        return {view: map_features(self.feature_maps_, rows, view) for view, rows in views.items()}

    def _search(self, targets: Floats) -> Array:
        # In the metric G, the code nearest to a target y minimises b^T G b - 2 b^T (G y).
        metric = self.code_metric_
        linear = targets if metric is None else targets @ metric
        return search_codes(linear, self.codebooks_, metric=metric)

    def decode(self, codes: Array) -> Floats:
        """Return the vectors that codes stand for: the sums of their codewords.

        Parameters
        ----------
        codes : uint8 (n_items, n_codebooks), array or tensor

        Returns
        -------
        (n_items, n_components)
            A tensor on the device of the codes where they are one.

        Raises
        ------
        InvalidInputError
            Codes of another width, or a word that there is not.
        """
        self._check_fitted()
        checked = check_codes(codes, self.codebooks_)
        if is_tensor(checked):
            return decode(checked.long(), to_tensor(self.codebooks_, checked.device))
        return decode(checked, self.codebooks_)

    def project_codes(self, codes: Array) -> Floats:
        """Turn stored items into query vectors, to find others like them.

        A code vector b stands for the target vector ``J b``, whose query vector is
        ``J^T J b``. Scores of code vectors themselves would weigh components by their spread.

        Parameters
        ----------
        codes : uint8 (n_items, n_codebooks)

        Returns
        -------
        (n_items, n_components)

        Raises
        ------
        InvalidInputError
            Codes of another width, or a word that there is not.
        """
        metric = (self.query_map_.T @ self.query_map_).astype(self.codebooks_.dtype)
        return np.asarray(self.decode(codes) @ metric)

    @property
    def bytes_per_item(self) -> int:
        """One byte per codebook."""
        return int(self.n_codebooks)

    @property
    def targets_(self) -> dict[str, Target]:
        """What scores stand for, with the weights and ranks used."""
        self._check_fitted()
        return self.space_.targets

    @property
    def query_map_(self) -> Floats:
        """From target vectors to query vectors, (n_dimensions, n_components)."""
        return self.space_.query_map

    @property
    def target_map_(self) -> Floats:
        """From target vectors to code vectors, (n_dimensions, n_components)."""
        return self.space_.target_map

    @property
    def label_codes_(self) -> Array:
        """Codes of the fitted label sets, uint8 (n_sets, n_codebooks); with labels alone."""
        if not isinstance(self.space_, LabelSpace):
            raise AttributeError("label sets have codes of their own with labels alone")
        return self.space_.label_codes

    def _predictors(self) -> dict[str, Predictor]:
        return self.space_.predictors if isinstance(self.space_, LabelSpace) else {}

    @property
    def predictors_(self) -> dict[str, Floats]:
        """Coefficients from each view to code vectors, with labels alone."""
        return {view: found.coefficients for view, found in self._predictors().items()}
