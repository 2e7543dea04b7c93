"""Another encoder for queries, while codes stay as they are."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import numpy as np

from acqh._core.arrays import Floats, Matrix, as_matrix
from acqh.data import MultiViewData
from acqh.errors import InvalidInputError, ViewError
from acqh.methods.acqh.coding import CodingMethod
from acqh.methods.acqh.targets import LABELS
from acqh.stats import regress_rows


class RefittableMethod(CodingMethod):
    """A fitted model whose queries may come from other encoders than it was fitted with."""

    def refit_queries(self, views: Any, targets_or_codes: Any) -> Self:
        """Take another encoder for the queries of some views; codes stay as they are.

        Only the maps from the new features are learnt, from items of which something else is known:
        their stored codes, or any of the views and labels that the model knows. Nothing is coded
        again. Items can be coded by the new features too; what they meant to the codes before is
        then predicted.

        Parameters
        ----------
        views : mapping of str to (n_items, n_features)
            New features, of a view that there was (which they replace) or of one more. They are
            used as they are, without a feature map.
        targets_or_codes : uint8 (n_items, n_codebooks), mapping of str to matrix, or MultiViewData
            Codes of the same items, or their views as before, ``"labels"`` among them; of a
            MultiViewData its own labels.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            No mapping of views, or codes that cannot be.
        ViewError
            Different numbers of rows, unknown views.

        Examples
        --------
        >>> import acqh
        >>> data = acqh.make_multiview(300, random_state=0)
        >>> model = acqh.ACQH(8, n_codebooks=2, random_state=0).fit(data.views)
        >>> codes = model.encode(data.views)
        >>> newer = data.views["text"] @ np.random.default_rng(0).normal(size=(30, 40))
        >>> model.refit_queries({"text": newer}, codes).project(newer, view="text").shape
        (300, 8)
        """
        self._check_fitted()
        if not isinstance(views, Mapping) or not views:
            raise InvalidInputError(
                "give the new features as a mapping of views to matrices, such as {'text': X}, got "
                f"{type(views).__name__}"
            )
        if LABELS in views:
            raise ViewError("a view cannot be called 'labels'; give the view another name")
        matrices = {name: as_matrix(rows, f"view '{name}'") for name, rows in views.items()}
        wanted = self._query_targets(targets_or_codes)
        for name, matrix in matrices.items():
            if matrix.shape[0] != len(wanted):
                raise ViewError(
                    f"view '{name}' has {matrix.shape[0]} rows for {len(wanted)} items; they are "
                    "paired by row"
                )
        for name, matrix in matrices.items():
            self._take_source(name, matrix, wanted)
        return self

    def _query_targets(self, given: Any) -> Floats:
        """Return what the new features are to predict: blocks, or code vectors of labels."""
        if not isinstance(given, Mapping | MultiViewData):
            return self.space_.as_wanted(self.decode(given).astype(np.float64))
        labels = None
        if isinstance(given, Mapping):
            labels = given.get(LABELS) if self.space_.knows_labels else None
            given = {name: rows for name, rows in given.items() if name != LABELS}
        given, labels, present = self._given(given, labels, None)
        items = self._check_items(given, labels, None, present)
        parts = [*self.space_.wanted_of(items, self._map_rows)]
        found = np.empty((items.n_items, parts[0][1].shape[1]))
        for rows, block in parts:
            found[rows] = block
        return found

    def _take_source(self, name: str, features: Matrix, wanted: Floats) -> None:
        learn = partial(regress_rows, features, ridge=self.ridge, fit_intercept=self.fit_intercept)
        self.space_, projection, intercept = self.space_.refitted(name, wanted, learn)
        dtype = self.codebooks_.dtype
        self.projections_ = {**self.projections_, name: projection.astype(dtype)}
        self.intercepts_ = {**self.intercepts_, name: intercept.astype(dtype)}
        self.unit_projections_ = {k: v for k, v in self.unit_projections_.items() if k != name}
        self.feature_maps_ = {k: v for k, v in self.feature_maps_.items() if k != name}
        self.n_features_in_ = {**self.n_features_in_, name: features.shape[1]}
        self.refitted_ = tuple(sorted({*self.refitted_, name}))
