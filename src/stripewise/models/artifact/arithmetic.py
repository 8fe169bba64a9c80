"""Arithmetic that Python and the runtime in C carry out to the very same bits.

Additions, multiplications and divisions of IEEE 754 doubles are exact to the last bit everywhere; the logarithms of C
libraries and of NumPy are not. So the features' logarithm is spelled out here in such steps, and
``native/core/model_program.c`` takes the same steps in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_SQRT_HALF = 0.7071067811865476
_TERMS = 11
_COEFFICIENTS = tuple(2.8853900817779268 / (2 * k + 1) for k in range(_TERMS))
"""2 / ln 2 / (2k + 1): log2(m) = sum of these times t^(2k+1), where t = (m - 1) / (m + 1)."""


def log2(x: Any) -> NDArray[np.float64]:
    """Binary logarithm, the same bits on every machine and as in the runtime.

    Exact for powers of two, otherwise within 3 units in the last place. Zero gives -inf, negative numbers NaN.

    Parameters
    ----------
    x : array_like
        Numbers.

    Returns
    -------
    ndarray of float64
        Of the same shape.
    """
    number = np.asarray(x, dtype=np.float64)
    mantissa, exponent = np.frexp(number)
    low = mantissa < _SQRT_HALF
    mantissa = np.where(low, mantissa + mantissa, mantissa)
    power = exponent.astype(np.float64) - low
    with np.errstate(all="ignore"):  # results of zero, infinity and not-a-number are dropped
        t = (mantissa - 1.0) / (mantissa + 1.0)
    square = t * t
    series = np.full_like(square, _COEFFICIENTS[-1])
    for coefficient in _COEFFICIENTS[-2::-1]:
        series = series * square + coefficient
    usual = power + t * series
    special = np.where(number == 0, -np.inf, np.where(number > 0, number, np.nan))
    result: NDArray[np.float64] = np.where((number > 0) & np.isfinite(number), usual, special)
    return result
