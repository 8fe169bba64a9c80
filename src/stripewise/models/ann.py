"""``ann``: the networks of the study of MPI-IO prediction with neural networks, one for each operation.

Inputs (one per column, more for several categories) - 256 - 128 - 1 with ReLU, mean squared error, Adam with a learning
rate of 0.002 and a weight decay of 1e-5, dropout of 5% for write and none for read, inputs and target divided by their
largest absolute value (MaxAbs), 80% of the rows to learn from and 20% to test. PyTorch trains; predictions need NumPy
alone and are computed in float64 over the float32 weights, as the runtime does.

What the study does not print is ours: batches of 256 rows, a cosine decay of the learning rate, at most 100 epochs,
and the epoch that does best on the 20% is kept. A second network, which does not see a fifth of the workloads, says how
uncertain predictions of new workloads are.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stripewise.models.base import ModelOptions, PerformanceModel
from stripewise.models.cells import Data, error_correlation
from stripewise.models.domain import Domain, Floats
from stripewise.models.features import Encoder, Feature, Matrix
from stripewise.models.files import Stored, mapping, read_head, write_whole
from stripewise.models.network import NeuralNetwork, TrainingOptions, import_torch, scaled_network, train
from stripewise.models.own_weights import read_pickled, read_weights

_KEY = "stripewise"
_LEAST_WORKLOADS = 5


class AnnOptions(ModelOptions, TrainingOptions):
    """Options of ``ann``."""

    weights: str = Field(
        default="",
        description="a .pt file of your own (state_dict or TorchScript) in place of training; {operation} in its name "
        "stands for that of each network",
    )


class AnnModel(PerformanceModel):
    """Feed-forward networks, one for each value of the operation's column, or one."""

    name: ClassVar[str] = "ann"
    Options: ClassVar[type[ModelOptions]] = AnnOptions
    options: AnnOptions
    networks: dict[int, NeuralNetwork]
    """By place of the operation among its column's values; -1 where there is one network for everything."""

    def _make_encoder(self, domain: Domain, points: Floats) -> Encoder:
        """One input per column, on its own axis, as in the study; the operation has networks instead."""
        features: list[Feature] = []
        for index, column in enumerate(domain.columns):
            if index == domain.operation:
                continue
            if column.kind == "ordinal":
                features.append(Feature(column.name, "value", (index,)))
                continue
            places = range(1, 2) if len(column.values) == 2 else range(len(column.values))
            features += [Feature(f"{column.name} is {column.values[p]}", "is", (index,), of=p) for p in places]
        return Encoder(tuple(features))

    def _fit(self, data: Data, rng: np.random.Generator) -> None:
        x, value = self.encoder.encode(data.points), np.exp(data.target)
        operation = self.domain.operation
        each = np.full(len(data), -1) if operation is None else data.points[:, operation].astype(np.int64)
        self.networks = {}
        left_out: list[tuple[Floats, NDArray[np.int64]]] = []
        for place in np.unique(each):
            rows = np.flatnonzero(each == place)
            write = operation is not None and str(self.domain.columns[operation].values[place]).lower() == "write"
            dropout = self.options.dropout_write if write else self.options.dropout_read
            seed = int(rng.integers(2**31))
            if self.options.weights:
                self.networks[int(place)] = self._take_weights(int(place), x[rows], value[rows], data.noise)
                continue
            network = train(self.options, x[rows], value[rows], dropout, data.noise, seed)
            # Rows that only test share their workloads with others: errors on new workloads are larger.
            held = _held_out(data.workloads[rows], self.options.test, rng)
            if held is not None:
                learn, test = rows[~held], rows[held]
                other = train(self.options, x[learn], value[learn], dropout, data.noise, seed)
                errors = data.target[test] - np.log(other.predict(x[test]))
                left_out.append((errors, data.workloads[test]))
                spread = float(np.sqrt(max(0.0, float(np.mean(errors**2)) - data.noise**2)))
                network = replace(network, spread=max(network.spread, spread))
            self.networks[int(place)] = network
        if left_out:
            errors, workloads = (np.concatenate(parts) for parts in zip(*left_out, strict=True))
            self.error_correlation = error_correlation(errors, workloads, data.noise**2)

    def _take_weights(self, place: int, x: Matrix, value: Floats, noise: float) -> NeuralNetwork:
        """Give a network of the user's own, scaled as the study scales: by the largest value of each column here.

        How far it is from the rows of this table says how uncertain it is.
        """
        operation = self.domain.operation
        name = "" if operation is None else str(self.domain.columns[operation].values[place])
        weights, biases = read_weights(self.options.weights.replace("{operation}", name), x.shape[1])
        return scaled_network(weights, biases, x, value, noise)

    def _predict(self, points: Floats, x: Matrix) -> tuple[Floats, Floats]:
        operation = self.domain.operation
        mean, deviation = np.empty(len(points)), np.empty(len(points))
        for place, network in self.networks.items():
            rows = np.full(len(points), True) if operation is None else points[:, operation] == place
            mean[rows] = np.log(network.predict(x[rows]))
            deviation[rows] = network.spread
        return mean, deviation

    def _importance(self) -> Floats:
        """Summed absolute weights along all ways from an input to the output (Garson), over all networks."""
        total = np.zeros(len(self.encoder.features))
        for network in self.networks.values():
            way = np.eye(len(total))
            for weight in network.weights:
                way = np.abs(weight.astype(np.float64)) @ way
            total += way[0] / (way[0].sum() or 1.0)
        return total

    def runtime_form(self) -> Mapping[int, NeuralNetwork]:
        """See :meth:`PerformanceModel.runtime_form`."""
        return self.networks

    # -- keeping -------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write PyTorch's format (``.pt``): tensors and one text, readable with ``weights_only=True``.

        With weights of the user's own, which need no PyTorch, the format of all other models.
        """
        if self.options.weights:
            super().save(path)
            return
        torch = import_torch()
        stored = self._stored()
        document: dict[str, Any] = {_KEY: json.dumps(stored.head, allow_nan=False)}
        document |= {name: torch.tensor(np.asarray(array)) for name, array in stored.arrays.items()}

        def write(part: Path) -> None:
            # PyTorch names the archive by the file, and refuses one whose name begins with a dot, as part's does.
            with part.open("wb") as stream:
                torch.save(document, stream)

        write_whole(path, write)

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        document: dict[str, Any] = {"networks": []}
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        for place, network in self.networks.items():
            numbers, own = network.state()
            document["networks"].append({"operation": place, **numbers})
            arrays |= {f"network{place}.{name}": array for name, array in own.items()}
        return document, arrays

    def _restore(self, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.networks = {}
        for entry in document["networks"]:
            place = int(entry["operation"])
            self.networks[place] = NeuralNetwork.restored(entry, arrays, f"network{place}.")
            if self.networks[place].inputs.shape != (len(self.encoder.features),):
                raise ValueError("a network does not fit the features")


def _held_out(workloads: NDArray[np.int64], share: float, rng: np.random.Generator) -> NDArray[np.bool_] | None:
    """Which rows belong to a share of the workloads, at random; None where there are too few workloads."""
    present = np.unique(workloads)
    if len(present) < _LEAST_WORKLOADS:
        return None
    chosen = rng.permutation(present)[: max(1, round(share * len(present)))]
    return np.isin(workloads, chosen)


def is_pt(path: str | Path) -> bool:
    """Whether a file is in PyTorch's format; False where it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError):
        return False


def read_pt(path: str | Path) -> Stored:
    """Read what :meth:`AnnModel.save` wrote; nothing but tensors, texts and numbers is accepted.

    Raises
    ------
    UserError
        The file holds anything else.
    """

    def take(content: Any, kinds: set[str]) -> Stored:
        arrays = mapping(content)
        head = mapping(read_head(arrays.pop(_KEY)))
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise TypeError("it holds more than one text and tensors")
        return Stored(head, arrays)

    return read_pickled(path, take, "train it again")
