"""Expert knowledge of the stack files as a prior: what is usually faster before anything was run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stripewise.spec.space import Levels, Space


def knowledge_prior(space: Space, levels: Levels) -> NDArray[np.float64]:
    """Expected log-performance from :attr:`stripewise.spec.space.Space.knowledge`; a :class:`PriorMean`.

    Parameters
    ----------
    space : Space
    levels : ndarray, shape (n, d)

    Returns
    -------
    ndarray, shape (n,)
        Sum of the logarithms of the gains whose condition holds; 0 where nothing is known.
    """
    gain = np.zeros(len(levels))
    columns = space.columns(space.fold(levels))
    for piece in space.knowledge:
        holds = np.broadcast_to(np.asarray(piece.condition(columns), dtype=bool), gain.shape)
        gain += np.log(piece.gain) * holds
    return gain
