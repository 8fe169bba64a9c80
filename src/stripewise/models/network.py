"""One feed-forward network: how it is trained with PyTorch, and evaluated without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stripewise.errors import import_optional
from stripewise.models.domain import Floats
from stripewise.models.features import Matrix
from stripewise.options import Options

HIDDEN = (256, 128)
_FLOOR = 0.01
"""Predictions are cut off at this share of the smallest value in training: a network can predict less than zero."""
_LEAST_TEST = 5


class TrainingOptions(Options):
    """How a network is trained."""

    epochs: int = Field(default=100, ge=1, le=10000, description="passes over the data, at most")
    batch: int = Field(default=256, ge=1, le=1_000_000, description="rows of a step")
    learning_rate: float = Field(default=0.002, gt=0, le=1, description="of Adam")
    weight_decay: float = Field(default=1e-5, ge=0, le=1, description="of Adam")
    dropout_write: float = Field(default=0.05, ge=0, lt=1, description="share of hidden nodes left out, for write")
    dropout_read: float = Field(default=0.0, ge=0, lt=1, description="the same for read, and where nothing is said")
    test: float = Field(default=0.2, gt=0, lt=1, description="share of the rows that only tests")


@dataclass(frozen=True, eq=False)
class NeuralNetwork:
    """A trained feed-forward network with its scaling.

    Attributes
    ----------
    weights, biases : tuple of ndarray of float32
        Of each layer; weights have shape ``(outputs, inputs)``.
    inputs : ndarray of float64, shape (f,)
        The largest absolute value of each input: inputs are divided by it.
    output : float
        The largest value of the target: the output is multiplied by it.
    least : float
        No prediction is smaller.
    spread : float
        Standard deviation of ln(value) about the prediction on the rows that only tested.
    """

    weights: tuple[NDArray[np.float32], ...]
    biases: tuple[NDArray[np.float32], ...]
    inputs: Floats
    output: float
    least: float
    spread: float

    def predict(self, x: Matrix) -> Floats:
        """Values in the objective's unit, shape ``(n,)``."""
        layer = x.astype(np.float64) / self.inputs
        last = len(self.weights) - 1
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            layer = layer @ weight.astype(np.float64).T + bias.astype(np.float64)
            if place < last:
                layer = np.maximum(layer, 0.0)
        result: Floats = np.maximum(layer[:, 0] * self.output, self.least)
        return result

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Numbers and arrays, for a model file."""
        arrays: dict[str, NDArray[Any]] = {"inputs": self.inputs}
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays[f"{layer}.weight"], arrays[f"{layer}.bias"] = weight, bias
        numbers = {"output": self.output, "least": self.least, "spread": self.spread, "layers": len(self.weights)}
        return numbers, arrays

    @classmethod
    def restored(cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], prefix: str) -> NeuralNetwork:
        """Take back what :meth:`state` gave; arrays that do not fit one another raise a ValueError."""
        layers = range(int(document["layers"]))
        network = cls(
            tuple(np.asarray(arrays[f"{prefix}{layer}.weight"], np.float32) for layer in layers),
            tuple(np.asarray(arrays[f"{prefix}{layer}.bias"], np.float32) for layer in layers),
            np.asarray(arrays[f"{prefix}inputs"], np.float64),
            float(document["output"]),
            float(document["least"]),
            float(document["spread"]),
        )
        network.predict(np.zeros((1, len(network.inputs)), dtype=np.float32))
        return network


def train(options: TrainingOptions, x: Matrix, value: Floats, dropout: float, noise: float, seed: int) -> NeuralNetwork:
    """Train a network.

    Parameters
    ----------
    x : ndarray of float32, shape (n, f)
    value : ndarray, shape (n,)
        Positive values of the objective.
    dropout : float
        Share of hidden nodes left out in a step.
    noise : float
        Standard deviation of ln of a single run, which is not an error of the network.

    Raises
    ------
    UserError
        If PyTorch is missing.
    """
    torch = import_torch()
    order = np.random.default_rng(seed).permutation(len(x))
    tests = round(options.test * len(x)) if len(x) > _LEAST_TEST else 0
    test, learn = order[:tests], order[tests:]
    inputs = _largest(x[learn])
    output = float(np.abs(value[learn]).max())
    device = training_device(torch)
    generator = torch.Generator().manual_seed(seed)

    def tensor(array: NDArray[Any]) -> Any:
        return torch.tensor(array.astype(np.float32), device=device)

    scaled, target = tensor(x / inputs), tensor(value / output)
    sizes = [x.shape[1], *HIDDEN, 1]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        network = _layers(torch, sizes, dropout).to(device)
        optimizer = torch.optim.Adam(network.parameters(), options.learning_rate, weight_decay=options.weight_decay)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
        loss = torch.nn.MSELoss()
        judge = test if tests else learn
        best = np.inf
        kept: dict[str, NDArray[np.float32]] = {}
        for _ in range(options.epochs):
            network.train()
            shuffled = learn[torch.randperm(len(learn), generator=generator).numpy()]
            for start in range(0, len(shuffled), options.batch):
                rows = shuffled[start : start + options.batch]
                optimizer.zero_grad()
                loss(network(scaled[rows])[:, 0], target[rows]).backward()
                optimizer.step()
            schedule.step()
            network.eval()
            with torch.no_grad():
                error = float(loss(network(scaled[judge])[:, 0], target[judge]))
            if error < best or not kept:
                best, kept = error, {k: v.detach().cpu().clone().numpy() for k, v in network.state_dict().items()}
    weights = tuple(kept[k] for k in kept if k.endswith("weight"))
    biases = tuple(kept[k] for k in kept if k.endswith("bias"))
    least = _FLOOR * float(value[learn].min())
    return _with_spread(NeuralNetwork(weights, biases, inputs, output, least, 0.0), x[judge], value[judge], noise)


def _with_spread(network: NeuralNetwork, x: Matrix, value: Floats, noise: float) -> NeuralNetwork:
    """Say how far a network is from values that it did not learn from."""
    errors = np.log(value) - np.log(network.predict(x))
    return replace(network, spread=float(np.sqrt(max(0.0, float(np.mean(errors**2)) - noise**2))))


def scaled_network(
    weights: tuple[NDArray[np.float32], ...],
    biases: tuple[NDArray[np.float32], ...],
    x: Matrix,
    value: Floats,
    noise: float,
) -> NeuralNetwork:
    """Give a network that was trained elsewhere with the scaling of a table (MaxAbs), and its spread about it."""
    inputs, output = _largest(x), float(np.abs(value).max())
    least = _FLOOR * float(value.min())
    return _with_spread(NeuralNetwork(weights, biases, inputs, output, least, 0.0), x, value, noise)


def _largest(x: Matrix) -> Floats:
    """Give the largest absolute value of each input, 1 where all are 0."""
    largest: Floats = np.abs(x.astype(np.float64)).max(axis=0, initial=0.0)
    largest[largest == 0] = 1.0
    return largest


def _layers(torch: Any, sizes: Sequence[int], dropout: float) -> Any:
    layers: list[Any] = []
    for before, after in zip(sizes[:-2], sizes[1:-1], strict=True):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU(), torch.nn.Dropout(dropout)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-2], sizes[-1]))


def training_device(torch: Any) -> Any:
    """Where networks are trained: on a GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def import_torch() -> Any:
    """Give PyTorch.

    Raises
    ------
    UserError
        If it is not installed.
    """
    with import_optional("ann"):
        import torch  # noqa: PLC0415  3 GB: only where networks are wanted
    return torch
