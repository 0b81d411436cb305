"""Functions of scipy and scikit-learn on lazy arrays: ``python -m tests.arrays.peers`` prints what each one gives.

Both read the switch of their array API support when they are imported, so a process of its own runs them.
"""

# mypy: disable-error-code="import-untyped,import-not-found"

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import pypto.arrays as pt
from pypto.graph.lazy import namespace
from pypto.graph.tracing.tensor import Tensor

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
LABELS = RNG.integers(0, 2, 30)
Call = tuple[Callable[..., Any], tuple[Any, ...]]


def of_scipy() -> Iterator[tuple[str, Call]]:
    from scipy import differentiate, fft, integrate, ndimage, signal, special, stats
    from scipy.cluster import vq
    from scipy.optimize import elementwise
    from scipy.spatial.transform import Rotation

    yield "stats.zscore", (lambda x: stats.zscore(x, axis=0), (X,))
    yield "stats.skew", (stats.skew, (X,))
    yield "stats.gmean", (lambda x: stats.gmean(x * x + 1), (X,))
    yield "stats.pearsonr", (lambda x, y: tuple(stats.pearsonr(x, y)), (X[:, 0].copy(), X[:, 1].copy()))
    yield "stats.ttest_ind", (lambda x: tuple(stats.ttest_ind(x, x + 1)), (X,))
    yield "stats.rankdata", (stats.rankdata, (X[0],))
    yield "special.logsumexp", (lambda x: special.logsumexp(x, axis=1), (X,))
    yield "special.expit", (special.expit, (X,))
    yield "fft.rfft", (fft.rfft, (X,))
    yield "fft.fftshift", (fft.fftshift, (X,))
    yield "integrate.trapezoid", (integrate.trapezoid, (X,))
    yield "integrate.cumulative_trapezoid", (integrate.cumulative_trapezoid, (X,))
    yield "signal.detrend", (signal.detrend, (X,))
    yield "signal.hilbert", (signal.hilbert, (X,))
    yield "cluster.vq.whiten", (vq.whiten, (X,))
    yield "cluster.vq.vq", (lambda x: vq.vq(x, x[:3]), (X,))
    yield "ndimage.gaussian_filter", (lambda x: ndimage.gaussian_filter(x, 1.0), (X,))
    yield "differentiate.derivative", (lambda x: differentiate.derivative(lambda t: t**2, x).df, (X[:3, 0].copy(),))
    find = elementwise.find_root
    yield "optimize.find_root", (lambda x: find(lambda t, c: t**3 - c, (x * 0 - 5, x * 0 + 5), args=(x,)).x, (X[0],))
    yield "Rotation", (lambda x: Rotation.from_quat(x).as_matrix(), (X,))


def of_sklearn() -> Iterator[tuple[str, Call]]:
    from sklearn import decomposition, discriminant_analysis, linear_model, metrics, naive_bayes, preprocessing

    for scaler in ("MinMaxScaler", "StandardScaler", "MaxAbsScaler", "Normalizer", "Binarizer"):
        yield scaler, (getattr(preprocessing, scaler)().fit_transform, (X,))
    yield "PolynomialFeatures", (preprocessing.PolynomialFeatures(2).fit_transform, (X,))
    yield "LabelEncoder", (preprocessing.LabelEncoder().fit_transform, (LABELS,))
    yield "PCA", (lambda x: abs(decomposition.PCA(2, svd_solver="full").fit_transform(x)), (X,))
    yield "Ridge", (lambda x: linear_model.Ridge(solver="svd").fit(x, x[:, 0]).predict(x), (X,))
    lda, naive = discriminant_analysis.LinearDiscriminantAnalysis, naive_bayes.GaussianNB
    yield "LinearDiscriminantAnalysis", (lambda x, y: lda().fit(x, y).predict(x), (X, LABELS))
    yield "GaussianNB", (lambda x, y: naive().fit(x, y).predict(x), (X, LABELS))
    for score in ("mean_squared_error", "r2_score", "mean_absolute_error"):
        yield score, (lambda x, score=score: getattr(metrics, score)(x, x * 1.1), (X,))
    for score in ("accuracy_score", "f1_score", "confusion_matrix"):
        yield score, (lambda y, score=score: getattr(metrics, score)(y, y[::-1]), (LABELS,))
    for kernel in ("cosine_similarity", "euclidean_distances", "rbf_kernel"):
        yield kernel, (getattr(metrics.pairwise, kernel), (X,))


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Say whether a function on lazy arrays gives what it gives on numpy's."""
    wanted = function(*args)
    try:
        found = function(*map(pt.lazy, args))
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    several = isinstance(wanted, tuple)
    for a, b in zip(found if several else [found], wanted if several else [wanted], strict=True):
        if isinstance(b, np.ndarray) and not isinstance(a, Tensor):
            return f"a {type(a).__name__}"
        if not np.allclose(np.asarray(a), np.asarray(b), rtol=1e-7, atol=1e-9):
            return "other numbers"
    return "right"


def main() -> None:
    os.environ["SCIPY_ARRAY_API"] = "1"
    warnings.simplefilter("ignore")
    import array_api_compat
    from sklearn import config_context

    assert array_api_compat.array_namespace(pt.lazy(X)) is namespace
    results = {name: outcome(*call) for name, call in of_scipy()}
    with config_context(array_api_dispatch=True):
        results |= {name: outcome(*call) for name, call in of_sklearn()}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
