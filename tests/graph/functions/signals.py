"""Signal processing with numpy alone: windows, spectra, filters, features of audio."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# ruff: noqa

from __future__ import annotations

import math

import numpy as np


def moving_average(x, w=5):
    return np.convolve(x, np.ones(w), "valid") / w


def moving_average_cumsum(a, n=3):
    ret = np.cumsum(a, dtype=float)
    ret[n:] = ret[n:] - ret[:-n]
    return ret[n - 1 :] / n


def zero_crossing_rate(frame):
    return np.sum(np.abs(np.diff(np.sign(frame)))) / (2 * len(frame))


def short_time_energy(x, frame_len=32, hop=16):
    n_frames = 1 + (len(x) - frame_len) // hop
    energy = np.zeros(n_frames)
    for i in range(n_frames):
        frame = x[i * hop : i * hop + frame_len]
        energy[i] = np.sum(frame**2) / frame_len
    return energy


def spectrogram(x, n_fft=64, hop=32):
    window = np.hanning(n_fft)
    frames = np.array([x[i : i + n_fft] * window for i in range(0, len(x) - n_fft + 1, hop)])
    return 20 * np.log10(np.abs(np.fft.rfft(frames, axis=1)) + 1e-10)


def pre_emphasis(signal, coeff=0.97):
    return np.append(signal[0], signal[1:] - coeff * signal[:-1])


def mel_filter_bank(power, sample_rate=16000, n_filters=10):
    n_fft = (power.shape[-1] - 1) * 2
    low_mel = 0
    high_mel = 2595 * np.log10(1 + (sample_rate / 2) / 700)
    mel_points = np.linspace(low_mel, high_mel, n_filters + 2)
    hz_points = 700 * (10 ** (mel_points / 2595) - 1)
    bins = np.floor((n_fft + 1) * hz_points / sample_rate)
    fbank = np.zeros((n_filters, n_fft // 2 + 1))
    for m in range(1, n_filters + 1):
        left, center, right = int(bins[m - 1]), int(bins[m]), int(bins[m + 1])
        for k in range(left, center):
            fbank[m - 1, k] = (k - left) / (center - left)
        for k in range(center, right):
            fbank[m - 1, k] = (right - k) / (right - center)
    energies = np.dot(power, fbank.T)
    energies = np.where(energies == 0, np.finfo(float).eps, energies)
    return 20 * np.log10(energies)


def autocorrelation(x):
    x = x - np.mean(x)
    result = np.correlate(x, x, mode="full")
    result = result[result.size // 2 :]
    return result / result[0]


def lowpass_rc(x, dt=0.01, rc=0.05):
    y = np.zeros(len(x))
    alpha = dt / (rc + dt)
    y[0] = alpha * x[0]
    for i in range(1, len(x)):
        y[i] = alpha * x[i] + (1 - alpha) * y[i - 1]
    return y


def biquad(x, b0=0.2, b1=0.4, b2=0.2, a1=-0.3, a2=0.1):
    y = np.zeros_like(x)
    x1 = x2 = y1 = y2 = 0.0
    for n in range(len(x)):
        y[n] = b0 * x[n] + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2
        x2, x1 = x1, x[n]
        y2, y1 = y1, y[n]
    return y


def spectral_centroid(frame, sample_rate=44100):
    magnitudes = np.abs(np.fft.rfft(frame))
    freqs = np.abs(np.fft.fftfreq(len(frame), 1.0 / sample_rate)[: len(frame) // 2 + 1])
    return np.sum(magnitudes * freqs) / np.sum(magnitudes)


def hilbert_envelope(x):
    n = len(x)
    spectrum = np.fft.fft(x)
    h = np.zeros(n)
    if n % 2 == 0:
        h[0] = h[n // 2] = 1
        h[1 : n // 2] = 2
    else:
        h[0] = 1
        h[1 : (n + 1) // 2] = 2
    return np.abs(np.fft.ifft(spectrum * h))


def dft(x):
    x = np.asarray(x, dtype=float)
    n = x.shape[0]
    k = np.arange(n).reshape((n, 1))
    e = np.exp(-2j * np.pi * k * np.arange(n) / n)
    return np.dot(e, x)


def local_maxima(x):
    peaks = np.zeros(len(x), dtype=bool)
    peaks[1:-1] = (x[1:-1] > x[:-2]) & (x[1:-1] > x[2:])
    return peaks, peaks.sum()


def mu_law(x, mu=255):
    if mu <= 0:
        raise ValueError(f"mu must be positive, not {mu}")
    y = np.sign(x) * np.log1p(mu * np.abs(x)) / math.log1p(mu)
    return ((y + 1) / 2 * mu + 0.5).astype(np.int32)


def dct_two(x):
    n = len(x)
    k = np.arange(n)
    basis = np.cos(np.pi / n * (k[None, :] + 0.5) * k[:, None])
    out = 2 * basis @ x
    out[0] *= np.sqrt(1 / (4 * n))
    out[1:] *= np.sqrt(1 / (2 * n))
    return out


def lms_filter(x, d, mu=0.01, taps=4):
    w = np.zeros(taps)
    e = np.zeros(len(x))
    for n in range(taps, len(x)):
        u = x[n - taps : n][::-1]
        y = np.dot(w, u)
        e[n] = d[n] - y
        w = w + 2 * mu * e[n] * u
    return e, w


def wave(rng, n):
    return (np.sin(np.arange(8 * n) * 0.3) + 0.3 * rng.standard_normal(8 * n),)


CASES = {
    moving_average: wave,
    moving_average_cumsum: wave,
    zero_crossing_rate: wave,
    short_time_energy: wave,
    spectrogram: wave,
    pre_emphasis: wave,
    mel_filter_bank: lambda rng, n: (rng.random((n, 129)),),
    autocorrelation: wave,
    lowpass_rc: wave,
    biquad: wave,
    spectral_centroid: wave,
    hilbert_envelope: wave,
    dft: wave,
    local_maxima: wave,
    mu_law: lambda rng, n: (rng.random(n) * 2 - 1,),
    dct_two: wave,
    lms_filter: lambda rng, n: (*wave(rng, n), *wave(rng, n)),
}
