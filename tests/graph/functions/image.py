"""Image processing with numpy alone: colours, filters, thresholds, morphology, sampling."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,arg-type"
# ruff: noqa

from __future__ import annotations

import numpy as np


def rgb_to_gray(img):
    """Luminance of a colour image of 8 bits."""
    return np.dot(img[..., :3], [0.2989, 0.5870, 0.1140]).astype(np.uint8)


def adjust_gamma(img, gamma=2.2):
    table = np.array([((i / 255.0) ** (1.0 / gamma)) * 255 for i in np.arange(0, 256)]).astype("uint8")
    return table[img]


def rgb_to_hsv(img):
    img = img.astype(np.float64) / 255.0
    r, g, b = img[..., 0], img[..., 1], img[..., 2]
    maxc = np.max(img, axis=-1)
    minc = np.min(img, axis=-1)
    delta = maxc - minc
    s = np.where(maxc > 0, delta / np.where(maxc == 0, 1, maxc), 0)
    safe = np.where(delta == 0, 1, delta)
    h = np.zeros_like(maxc)
    mask = (maxc == r) & (delta != 0)
    h[mask] = (((g - b) / safe) % 6)[mask]
    mask = (maxc == g) & (maxc != r) & (delta != 0)
    h[mask] = ((b - r) / safe + 2)[mask]
    mask = (maxc == b) & (maxc != r) & (maxc != g) & (delta != 0)
    h[mask] = ((r - g) / safe + 4)[mask]
    return np.stack([h * 60, s, maxc], axis=-1)


def convolve2d(image, kernel):
    m, n = kernel.shape
    y, x = image.shape
    new_image = np.zeros((y - m + 1, x - n + 1))
    for i in range(y - m + 1):
        for j in range(x - n + 1):
            new_image[i][j] = np.sum(image[i : i + m, j : j + n] * kernel)
    return new_image


def sobel_edges(img):
    gx = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    gy = gx.T
    padded = np.pad(img, 1, mode="edge")
    sx = np.zeros_like(img)
    sy = np.zeros_like(img)
    for di in range(3):
        for dj in range(3):
            window = padded[di : di + img.shape[0], dj : dj + img.shape[1]]
            sx += gx[di, dj] * window
            sy += gy[di, dj] * window
    magnitude = np.sqrt(sx**2 + sy**2)
    magnitude *= 255.0 / magnitude.max()
    return magnitude


def gaussian_blur(img, size=5, sigma=1.4):
    k = size // 2
    x, y = np.mgrid[-k : k + 1, -k : k + 1]
    g = np.exp(-((x**2 + y**2) / (2.0 * sigma**2)))
    g /= g.sum()
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(img, k, mode="reflect"), (size, size))
    return np.einsum("ijkl,kl->ij", windows, g)


def otsu_threshold(img):
    hist, _ = np.histogram(img, bins=256, range=(0, 256))
    total = img.size
    sum_all = np.dot(np.arange(256), hist)
    sum_b, w_b, best, threshold = 0.0, 0, 0.0, 0
    for t in range(256):
        w_b += hist[t]
        if w_b == 0:
            continue
        w_f = total - w_b
        if w_f == 0:
            break
        sum_b += t * hist[t]
        m_b = sum_b / w_b
        m_f = (sum_all - sum_b) / w_f
        between = w_b * w_f * (m_b - m_f) ** 2
        if between > best:
            best = between
            threshold = t
    return threshold


def equalize_histogram(img):
    hist, bins = np.histogram(img.flatten(), 256, [0, 256])
    cdf = hist.cumsum()
    cdf_m = np.ma.masked_equal(cdf, 0) if False else cdf
    cdf = (cdf_m - cdf_m.min()) * 255 / (cdf_m.max() - cdf_m.min())
    return cdf.astype("uint8")[img]


def median_filter(img, k=3):
    p = k // 2
    padded = np.pad(img, p, mode="edge")
    out = np.empty_like(img)
    for i in range(img.shape[0]):
        for j in range(img.shape[1]):
            out[i, j] = np.median(padded[i : i + k, j : j + k])
    return out


def dilate(mask):
    padded = np.pad(mask, 1)
    result = np.zeros_like(mask)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            result |= padded[1 + dy : 1 + dy + mask.shape[0], 1 + dx : 1 + dx + mask.shape[1]]
    return result


def bilinear_resize(img, scale=2):
    h, w = img.shape
    new_h, new_w = h * scale, w * scale
    ys = np.linspace(0, h - 1, new_h)
    xs = np.linspace(0, w - 1, new_w)
    y0 = np.floor(ys).astype(int)
    x0 = np.floor(xs).astype(int)
    y1 = np.minimum(y0 + 1, h - 1)
    x1 = np.minimum(x0 + 1, w - 1)
    wy = (ys - y0)[:, None]
    wx = (xs - x0)[None, :]
    top = img[y0][:, x0] * (1 - wx) + img[y0][:, x1] * wx
    bottom = img[y1][:, x0] * (1 - wx) + img[y1][:, x1] * wx
    return top * (1 - wy) + bottom * wy


def floyd_steinberg(img):
    arr = img.astype(float).copy()
    h, w = arr.shape
    for y in range(h):
        for x in range(w):
            old = arr[y, x]
            new = 255.0 if old > 127 else 0.0
            arr[y, x] = new
            err = old - new
            if x + 1 < w:
                arr[y, x + 1] += err * 7 / 16
            if y + 1 < h:
                if x > 0:
                    arr[y + 1, x - 1] += err * 3 / 16
                arr[y + 1, x] += err * 5 / 16
                if x + 1 < w:
                    arr[y + 1, x + 1] += err * 1 / 16
    return arr


def integral_image(img):
    return img.astype(np.int64).cumsum(axis=0).cumsum(axis=1)


def psnr(original, compressed):
    mse = np.mean((original.astype(np.float64) - compressed.astype(np.float64)) ** 2)
    if mse == 0:
        return 100.0
    return 20 * np.log10(255.0 / np.sqrt(mse))


def blend(background, overlay, alpha):
    assert background.shape == overlay.shape, "images must have one shape"
    a = alpha[..., np.newaxis]
    result = background * (1 - a) + overlay * a
    return np.clip(result, 0, 255).astype(np.uint8)


def normalize_contrast(img):
    low, high = np.percentile(img, (2, 98))
    out = (img - low) / (high - low)
    out[out < 0] = 0
    out[out > 1] = 1
    return out


def box_downsample(img, factor=2):
    h, w = img.shape
    return (
        img[: h // factor * factor, : w // factor * factor]
        .reshape(h // factor, factor, w // factor, factor)
        .mean(axis=(1, 3))
    )


def non_max_suppression(mag, angle):
    h, w = mag.shape
    out = np.zeros((h, w))
    angle = angle * 180.0 / np.pi
    angle[angle < 0] += 180
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            q = 255.0
            r = 255.0
            if (0 <= angle[i, j] < 22.5) or (157.5 <= angle[i, j] <= 180):
                q = mag[i, j + 1]
                r = mag[i, j - 1]
            elif 22.5 <= angle[i, j] < 67.5:
                q = mag[i + 1, j - 1]
                r = mag[i - 1, j + 1]
            elif 67.5 <= angle[i, j] < 112.5:
                q = mag[i + 1, j]
                r = mag[i - 1, j]
            elif 112.5 <= angle[i, j] < 157.5:
                q = mag[i - 1, j - 1]
                r = mag[i + 1, j + 1]
            if mag[i, j] >= q and mag[i, j] >= r:
                out[i, j] = mag[i, j]
    return out


def colour(rng, n):
    return (rng.integers(0, 256, (n, n + 3, 3), dtype=np.uint8),)


def gray(rng, n):
    return (rng.integers(0, 256, (n, n + 3), dtype=np.uint8),)


def floats(rng, n):
    return (rng.random((n, n + 4)) * 255,)


CASES = {
    rgb_to_gray: colour,
    adjust_gamma: gray,
    rgb_to_hsv: colour,
    convolve2d: lambda rng, n: (rng.random((n, n + 2)), rng.random((3, 3))),
    sobel_edges: floats,
    gaussian_blur: floats,
    otsu_threshold: gray,
    equalize_histogram: gray,
    median_filter: floats,
    dilate: lambda rng, n: (rng.random((n, n + 1)) > 0.8,),
    bilinear_resize: floats,
    floyd_steinberg: floats,
    integral_image: gray,
    psnr: lambda rng, n: (*gray(rng, n), *gray(rng, n)),
    blend: lambda rng, n: (*colour(rng, n), *colour(rng, n), rng.random((n, n + 3))),
    normalize_contrast: floats,
    box_downsample: floats,
    non_max_suppression: lambda rng, n: (*floats(rng, n), (rng.random((n, n + 4)) - 0.5) * 2 * np.pi),
}
