"""Statistics with numpy alone: moments, ranks, tests, regressions, densities."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# ruff: noqa

from __future__ import annotations

import numpy as np


def zscore(x):
    return (x - np.mean(x, axis=0)) / np.std(x, axis=0)


def min_max_scale(x, feature_range=(0, 1)):
    low, high = feature_range
    x_min, x_max = x.min(axis=0), x.max(axis=0)
    span = x_max - x_min
    span[span == 0] = 1
    return (x - x_min) / span * (high - low) + low


def skewness_kurtosis(x):
    n = len(x)
    m = x.mean()
    m2 = ((x - m) ** 2).sum() / n
    m3 = ((x - m) ** 3).sum() / n
    m4 = ((x - m) ** 4).sum() / n
    return m3 / m2**1.5, m4 / m2**2 - 3


def pearson(x, y):
    mx, my = x.mean(), y.mean()
    xm, ym = x - mx, y - my
    r_num = np.sum(xm * ym)
    r_den = np.sqrt(np.sum(xm**2) * np.sum(ym**2))
    r = r_num / r_den
    return max(min(r, 1.0), -1.0)


def spearman(x, y):
    rank_x = x.argsort().argsort()
    rank_y = y.argsort().argsort()
    d = rank_x - rank_y
    n = len(x)
    return 1 - 6 * np.sum(d**2) / (n * (n**2 - 1))


def linear_fit(x, y):
    a = np.vstack([x, np.ones(len(x))]).T
    m, c = np.linalg.lstsq(a, y, rcond=None)[0]
    residuals = y - (m * x + c)
    r2 = 1 - np.sum(residuals**2) / np.sum((y - y.mean()) ** 2)
    return m, c, r2


def gaussian_kde(data, grid, bandwidth=None):
    if bandwidth is None:
        bandwidth = 1.06 * np.std(data) * len(data) ** (-1 / 5)
    u = (grid[:, np.newaxis] - data[np.newaxis, :]) / bandwidth
    return np.exp(-0.5 * u * u).sum(axis=1) / (len(data) * bandwidth * np.sqrt(2 * np.pi))


def ks_statistic(a, b):
    a = np.sort(a)
    b = np.sort(b)
    everything = np.concatenate([a, b])
    cdf_a = np.searchsorted(a, everything, side="right") / len(a)
    cdf_b = np.searchsorted(b, everything, side="right") / len(b)
    return np.max(np.abs(cdf_a - cdf_b))


def welch_t(a, b):
    na, nb = a.size, b.size
    va, vb = a.var(ddof=1), b.var(ddof=1)
    t = (a.mean() - b.mean()) / np.sqrt(va / na + vb / nb)
    df = (va / na + vb / nb) ** 2 / ((va / na) ** 2 / (na - 1) + (vb / nb) ** 2 / (nb - 1))
    return t, df


def mahalanobis(x, data):
    diff = x - np.mean(data, axis=0)
    inv = np.linalg.inv(np.cov(data.T))
    return np.sqrt(np.sum(diff @ inv * diff, axis=1))


def winsorize(x, limits=(5, 95)):
    low = np.percentile(x, limits[0])
    high = np.percentile(x, limits[1])
    y = x.copy()
    y[y < low] = low
    y[y > high] = high
    return y


def remove_outliers_iqr(x):
    q1, q3 = np.percentile(x, [25, 75])
    iqr = q3 - q1
    keep = (x >= q1 - 1.5 * iqr) & (x <= q3 + 1.5 * iqr)
    return x[keep].mean(), x[keep].std(), keep.sum()


def entropy(counts):
    p = counts / counts.sum()
    p = p[p > 0]
    return -np.sum(p * np.log2(p))


def bootstrap_means(data, picks):
    means = np.empty(picks.shape[0])
    for i in range(picks.shape[0]):
        means[i] = data[picks[i]].mean()
    return np.sort(means)[[int(0.025 * len(means)), int(0.975 * len(means))]]


def confusion_matrix(y_true, y_pred, n_classes=4):
    cm = np.zeros((n_classes, n_classes), dtype=int)
    for t, p in zip(y_true, y_pred):
        cm[t, p] += 1
    return cm


def roc_auc(y_true, score):
    order = np.argsort(-score)
    y = y_true[order]
    tpr = np.cumsum(y) / np.sum(y)
    fpr = np.cumsum(1 - y) / np.sum(1 - y)
    return np.trapezoid(tpr, fpr)


def running_mean_var(x):
    mean, m2, count = 0.0, 0.0, 0
    for value in x:
        count += 1
        delta = value - mean
        mean += delta / count
        m2 += delta * (value - mean)
    return mean, m2 / (count - 1)


def sample(rng, n):
    return (rng.standard_normal(5 * n),)


def two(rng, n):
    x = rng.standard_normal(5 * n)
    return x, x + rng.standard_normal(5 * n)


def table(rng, n):
    return (rng.standard_normal((n, 4)),)


CASES = {
    zscore: table,
    min_max_scale: table,
    skewness_kurtosis: sample,
    pearson: two,
    spearman: two,
    linear_fit: two,
    gaussian_kde: lambda rng, n: (*sample(rng, n), np.linspace(-3, 3, n)),
    ks_statistic: two,
    welch_t: two,
    mahalanobis: lambda rng, n: (*table(rng, n), *table(rng, 2 * n)),
    winsorize: sample,
    remove_outliers_iqr: sample,
    entropy: lambda rng, n: (rng.integers(0, 5, n),),
    bootstrap_means: lambda rng, n: (*sample(rng, n), rng.integers(0, 5 * n, (40, 5 * n))),
    confusion_matrix: lambda rng, n: (rng.integers(0, 4, n), rng.integers(0, 4, n)),
    roc_auc: lambda rng, n: (rng.permutation(np.arange(4 * n) % 2), rng.random(4 * n)),
    running_mean_var: sample,
}
