"""``forest``: a random forest on the logarithm of performance, with the features by role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from stripewise.models.base import ModelOptions, PerformanceModel
from stripewise.models.data import Data
from stripewise.models.domain import Floats
from stripewise.models.features import Matrix, at_least_one
from stripewise.models.trees.ensemble import Trees
from stripewise.threads import threads


class ForestOptions(ModelOptions):
    """Options of ``forest``."""

    trees: int = Field(default=200, ge=2, le=5000, description="trees")
    max_depth: int = Field(default=0, ge=0, le=60, description="largest depth; 0 for no limit")
    min_rows: int = Field(default=2, ge=1, le=1000, description="least rows of a leaf")
    max_features: float = Field(default=0.5, gt=0, le=1, description="share of the features that a split looks at")


class ForestModel(PerformanceModel):
    """Random forest (Breiman, 2001); its uncertainty is the disagreement of the trees."""

    name: ClassVar[str] = "forest"
    Options: ClassVar[type[ModelOptions]] = ForestOptions
    options: ForestOptions
    trees: Trees

    def _fit(self, data: Data, rng: np.random.Generator) -> None:
        from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415  slow import

        x = at_least_one(self.encoder.encode(data.points))
        options = self.options
        forest = RandomForestRegressor(
            options.trees,
            max_depth=options.max_depth or None,
            min_samples_leaf=options.min_rows,
            max_features=options.max_features,
            n_jobs=threads(len(x)),
            random_state=int(rng.integers(2**31)),
        ).fit(x, data.target)
        self.trees = Trees.from_sklearn(forest.estimators_, 1.0 / options.trees)

    def _predict(self, points: Floats, x: Matrix) -> tuple[Floats, Floats]:
        each = self.trees.members(x) * len(self.trees)
        return each.mean(axis=1) + self.trees.bias, each.std(axis=1, ddof=1)

    def members(self) -> Trees:
        """See :meth:`PerformanceModel.members`."""
        return self.trees

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        return {}, self.trees.arrays()

    def _restore(self, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.trees = Trees.restored(arrays)
