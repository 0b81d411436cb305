"""Machine learning from scratch with numpy alone: regressions, neighbours, clusters, networks."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# ruff: noqa

from __future__ import annotations

import numpy as np


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def softmax(x):
    e_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e_x / e_x.sum(axis=-1, keepdims=True)


def linear_regression(x, y, lr=0.05, epochs=50):
    n_samples, n_features = x.shape
    w = np.zeros(n_features)
    b = 0
    losses = []
    for _ in range(epochs):
        y_predicted = np.dot(x, w) + b
        dw = (1 / n_samples) * np.dot(x.T, (y_predicted - y))
        db = (1 / n_samples) * np.sum(y_predicted - y)
        w -= lr * dw
        b -= lr * db
        losses.append(np.mean((y_predicted - y) ** 2))
    return w, b, losses


def logistic_regression(x, y, lr=0.1, n_iters=40):
    w = np.zeros(x.shape[1])
    b = 0
    for _ in range(n_iters):
        p = sigmoid(np.dot(x, w) + b)
        dw = np.dot(x.T, (p - y)) / len(y)
        db = np.mean(p - y)
        w = w - lr * dw
        b = b - lr * db
    predicted = sigmoid(np.dot(x, w) + b)
    return np.array([1 if i > 0.5 else 0 for i in predicted])


def normal_equation(x, y):
    xb = np.c_[np.ones((x.shape[0], 1)), x]
    return np.linalg.inv(xb.T.dot(xb)).dot(xb.T).dot(y)


def ridge(x, y, alpha=0.5):
    xtx = x.T @ x
    return np.linalg.solve(xtx + alpha * np.eye(xtx.shape[0]), x.T @ y)


def knn_predict(x_train, y_train, x_test, k=3):
    y_pred = []
    for test_point in x_test:
        distances = np.sqrt(np.sum((x_train - test_point) ** 2, axis=1))
        nearest = y_train[np.argsort(distances)[:k]]
        y_pred.append(np.bincount(nearest).argmax())
    return np.array(y_pred)


def kmeans(x, centroids, max_iters=10):
    k = centroids.shape[0]
    for _ in range(max_iters):
        distances = np.linalg.norm(x[:, np.newaxis] - centroids, axis=2)
        labels = np.argmin(distances, axis=1)
        new = np.array([x[labels == i].mean(axis=0) for i in range(k)])
        if np.all(centroids == new):
            break
        centroids = new
    return centroids, labels


def gaussian_nb(x, y, x_test, n_classes=3):
    scores = []
    for c in range(n_classes):
        xc = x[y == c]
        mean = xc.mean(axis=0)
        var = xc.var(axis=0)
        prior = np.log(xc.shape[0] / x.shape[0])
        log_pdf = -0.5 * np.log(2 * np.pi * var) - (x_test - mean) ** 2 / (2 * var)
        scores.append(prior + log_pdf.sum(axis=1))
    return np.argmax(np.array(scores).T, axis=1)


def pca(x, n_components=2):
    x = x - np.mean(x, axis=0)
    cov = np.cov(x.T)
    eigenvalues, eigenvectors = np.linalg.eigh(cov)
    idxs = np.argsort(eigenvalues)[::-1]
    eigenvectors = eigenvectors[:, idxs]
    explained = eigenvalues[idxs][:n_components] / eigenvalues.sum()
    return np.abs(np.dot(x, eigenvectors[:, :n_components])), explained


def perceptron(x, y, lr=0.1, epochs=5):
    w = np.zeros(x.shape[1])
    b = 0.0
    y_ = np.where(y > 0, 1, 0)
    for _ in range(epochs):
        for idx, x_i in enumerate(x):
            y_hat = 1 if np.dot(x_i, w) + b >= 0 else 0
            update = lr * (y_[idx] - y_hat)
            w += update * x_i
            b += update
    return w, b


def linear_svm(x, y, lr=0.01, lam=0.01, n_iters=5):
    y_ = np.where(y <= 0, -1, 1)
    w = np.zeros(x.shape[1])
    b = 0
    for _ in range(n_iters):
        for idx, x_i in enumerate(x):
            condition = y_[idx] * (np.dot(x_i, w) - b) >= 1
            if condition:
                w -= lr * (2 * lam * w)
            else:
                w -= lr * (2 * lam * w - np.dot(x_i, y_[idx]))
                b -= lr * y_[idx]
    return w, b


def one_hot(y, n_classes=None):
    if not n_classes:
        n_classes = np.amax(y) + 1
    out = np.zeros((y.shape[0], n_classes))
    out[np.arange(y.shape[0]), y] = 1
    return out


def one_hot_eye(y, n_classes=5):
    return np.eye(n_classes)[y]


def cross_entropy(logits, y):
    m = y.shape[0]
    p = softmax(logits)
    log_likelihood = -np.log(p[range(m), y])
    grad = p
    grad[range(m), y] -= 1
    return np.sum(log_likelihood) / m, grad / m


def mlp_train(x, y, w1, w2, lr=0.1, epochs=10):
    for _ in range(epochs):
        h = np.maximum(0, x.dot(w1))
        y_pred = h.dot(w2)
        grad_y = 2.0 * (y_pred - y) / y.size
        grad_w2 = h.T.dot(grad_y)
        grad_h = grad_y.dot(w2.T)
        grad_h[h <= 0] = 0
        grad_w1 = x.T.dot(grad_h)
        w1 -= lr * grad_w1
        w2 -= lr * grad_w2
    return w1, w2


def batch_norm(x, gamma, beta, eps=1e-5):
    mu = np.mean(x, axis=0)
    var = np.var(x, axis=0)
    x_hat = (x - mu) / np.sqrt(var + eps)
    cache = {"x_hat": x_hat, "mu": mu, "var": var}
    return gamma * x_hat + beta, cache


def adam_step(w, grad, m, v, t, lr=0.001, b1=0.9, b2=0.999, eps=1e-8):
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * np.power(grad, 2)
    m_hat = m / (1 - b1**t)
    v_hat = v / (1 - b2**t)
    return w - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def f_score(y_true, y_pred):
    tp = np.sum((y_true == 1) & (y_pred == 1))
    fp = np.sum((y_true == 0) & (y_pred == 1))
    fn = np.sum((y_true == 1) & (y_pred == 0))
    precision = tp / (tp + fp) if tp + fp > 0 else 0
    recall = tp / (tp + fn) if tp + fn > 0 else 0
    return 2 * precision * recall / (precision + recall)


def max_pool(x, size=2, stride=2):
    n, h, w, c = x.shape
    oh, ow = (h - size) // stride + 1, (w - size) // stride + 1
    out = np.zeros((n, oh, ow, c))
    for i in range(oh):
        for j in range(ow):
            out[:, i, j, :] = np.max(
                x[:, i * stride : i * stride + size, j * stride : j * stride + size, :], axis=(1, 2)
            )
    return out


def pairwise_rbf(x, y, gamma=0.5):
    sq = np.sum(x**2, 1).reshape(-1, 1) + np.sum(y**2, 1) - 2 * np.dot(x, y.T)
    return np.exp(-gamma * sq)


def lda_two_classes(x, y):
    x1, x2 = x[y == 0], x[y == 1]
    cov = np.cov(x1.T) + np.cov(x2.T)
    return np.linalg.pinv(cov).dot(x1.mean(0) - x2.mean(0))


def dropout(x, mask, keep_prob=0.8):
    x = x * (mask < keep_prob)
    x /= keep_prob
    return x


def data(rng, n):
    x = rng.standard_normal((n, 4))
    return x, x @ np.array([1.0, -2.0, 0.5, 3.0]) + 0.1 * rng.standard_normal(n)


def classes(rng, n):
    return rng.standard_normal((n, 4)), rng.permutation(np.arange(n) % 2)


def several(rng, n):
    return rng.standard_normal((n, 4)), rng.permutation(np.arange(n) % 3)


CASES = {
    sigmoid: lambda rng, n: (rng.standard_normal(n),),
    softmax: lambda rng, n: (rng.standard_normal((n, 5)),),
    linear_regression: data,
    logistic_regression: classes,
    normal_equation: data,
    ridge: data,
    knn_predict: lambda rng, n: (*several(rng, n), rng.standard_normal((5, 4))),
    kmeans: lambda rng, n: (lambda x: (x, x[:3].copy()))(rng.standard_normal((n, 4))),
    gaussian_nb: lambda rng, n: (*several(rng, n), rng.standard_normal((6, 4))),
    pca: lambda rng, n: (data(rng, n)[0],),
    perceptron: classes,
    linear_svm: classes,
    one_hot: lambda rng, n: (rng.permutation(np.arange(n) % 5),),
    one_hot_eye: lambda rng, n: (rng.integers(0, 5, n),),
    cross_entropy: lambda rng, n: (rng.standard_normal((n, 5)), rng.integers(0, 5, n)),
    mlp_train: lambda rng, n: (
        rng.standard_normal((n, 6)),
        rng.standard_normal((n, 2)),
        rng.standard_normal((6, 8)),
        rng.standard_normal((8, 2)),
    ),
    batch_norm: lambda rng, n: (rng.standard_normal((n, 4)), rng.random(4), rng.random(4)),
    adam_step: lambda rng, n: (*(rng.random((n, 3)) for _ in range(4)), n),
    f_score: lambda rng, n: (rng.integers(0, 2, 4 * n), rng.integers(0, 2, 4 * n)),
    max_pool: lambda rng, n: (rng.random((2, 2 * (n // 4), 8, 3)),),
    pairwise_rbf: lambda rng, n: (rng.random((n, 3)), rng.random((n + 1, 3))),
    lda_two_classes: classes,
    dropout: lambda rng, n: (rng.random((n, 4)), rng.random((n, 4))),
}
