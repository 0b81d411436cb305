"""Finance with numpy alone: indicators of prices, risk of returns, options, portfolios."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# ruff: noqa

from __future__ import annotations

import math

import numpy as np


def sma(prices, window=5):
    weights = np.repeat(1.0, window) / window
    return np.convolve(prices, weights, "valid")


def ema(prices, period=10):
    prices = np.array(prices, dtype=float)
    k = 2 / (period + 1)
    out = np.zeros_like(prices)
    out[0] = prices[0]
    for i in range(1, len(prices)):
        out[i] = prices[i] * k + out[i - 1] * (1 - k)
    return out


def ema_list(prices, period=10):
    k = 2 / (period + 1)
    values = [prices[0]]
    for price in prices[1:]:
        values.append(price * k + values[-1] * (1 - k))
    return np.array(values)


def rsi(prices, n=14):
    deltas = np.diff(prices)
    seed = deltas[: n + 1]
    up = seed[seed >= 0].sum() / n
    down = -seed[seed < 0].sum() / n
    rs = up / down
    rsi = np.zeros_like(prices)
    rsi[:n] = 100.0 - 100.0 / (1.0 + rs)
    for i in range(n, len(prices)):
        delta = deltas[i - 1]
        if delta > 0:
            upval = delta
            downval = 0.0
        else:
            upval = 0.0
            downval = -delta
        up = (up * (n - 1) + upval) / n
        down = (down * (n - 1) + downval) / n
        rs = up / down
        rsi[i] = 100.0 - 100.0 / (1.0 + rs)
    return rsi


def macd(close, fast=12, slow=26, signal=9):
    def smooth(x, span):
        alpha = 2.0 / (span + 1)
        y = np.empty_like(x)
        y[0] = x[0]
        for t in range(1, x.shape[0]):
            y[t] = alpha * x[t] + (1 - alpha) * y[t - 1]
        return y

    line = smooth(close, fast) - smooth(close, slow)
    sig = smooth(line, signal)
    return {"macd": line, "signal": sig, "histogram": line - sig}


def bollinger(prices, window=20, n_std=2):
    upper = np.full(len(prices), np.nan)
    lower = np.full(len(prices), np.nan)
    for i in range(window - 1, len(prices)):
        part = prices[i - window + 1 : i + 1]
        m = np.mean(part)
        s = np.std(part)
        upper[i] = m + n_std * s
        lower[i] = m - n_std * s
    return upper, lower


def true_range(high, low, close):
    prev = np.roll(close, 1)
    prev[0] = close[0]
    return np.max(np.stack([high - low, np.abs(high - prev), np.abs(low - prev)]), axis=0)


def max_drawdown(returns):
    wealth = np.cumprod(1 + returns)
    peak = np.maximum.accumulate(wealth)
    drawdown = (wealth - peak) / peak
    return drawdown.min()


def sharpe_ratio(returns, rf=0.01, periods=252):
    excess = returns - rf / periods
    std = excess.std(ddof=1)
    if std == 0:
        return 0.0
    return np.sqrt(periods) * excess.mean() / std


def value_at_risk(returns, level=5):
    var = np.percentile(returns, level)
    cvar = returns[returns <= var].mean()
    return var, cvar


def black_scholes_call(s, k, t, r, sigma):
    d1 = (np.log(s / k) + (r + 0.5 * sigma**2) * t) / (sigma * np.sqrt(t))
    d2 = d1 - sigma * np.sqrt(t)

    def norm_cdf(x):
        return 1.0 / (1.0 + np.exp(-1.702 * x))

    return s * norm_cdf(d1) - k * np.exp(-r * t) * norm_cdf(d2)


def binomial_option(s, k, steps=50, t=1.0, r=0.05, sigma=0.2):
    dt = t / steps
    u = math.exp(sigma * math.sqrt(dt))
    d = 1 / u
    p = (math.exp(r * dt) - d) / (u - d)
    prices = s * u ** np.arange(steps, -1, -1) * d ** np.arange(0, steps + 1)
    values = np.maximum(0, prices - k)
    for i in range(steps - 1, -1, -1):
        values = math.exp(-r * dt) * (p * values[:-1] + (1 - p) * values[1:])
    return values[0]


def portfolio_variance(weights, returns):
    cov = np.cov(returns, rowvar=False)
    return np.dot(weights.T, np.dot(cov, weights)) * 252


def obv(close, volume):
    direction = np.sign(np.diff(close))
    return np.concatenate(([volume[0]], direction * volume[1:])).cumsum()


def stochastic_oscillator(high, low, close, n=14):
    k = np.zeros(len(close))
    for i in range(n - 1, len(close)):
        hh = high[i - n + 1 : i + 1].max()
        ll = low[i - n + 1 : i + 1].min()
        k[i] = 100 * (close[i] - ll) / (hh - ll)
    return k


def crossover_signals(prices, fast=5, slow=12):
    f = np.lib.stride_tricks.sliding_window_view(prices, fast).mean(axis=1)[slow - fast :]
    s = np.lib.stride_tricks.sliding_window_view(prices, slow).mean(axis=1)
    position = np.where(f > s, 1, -1)
    trades = np.diff(position)
    return position, np.count_nonzero(trades)


def irr_newton(cashflows, guess=0.1):
    rate = guess
    t = np.arange(len(cashflows))
    for _ in range(20):
        npv = np.sum(cashflows / (1 + rate) ** t)
        slope = np.sum(-t * cashflows / (1 + rate) ** (t + 1))
        rate = rate - npv / slope
    return rate


def prices(rng, n):
    return (100 + np.cumsum(rng.standard_normal(6 * n)),)


def bars(rng, n):
    close = prices(rng, n)[0]
    return close + rng.random(6 * n), close - rng.random(6 * n), close


def returns(rng, n):
    return (rng.standard_normal(6 * n) * 0.01,)


CASES = {
    sma: prices,
    ema: prices,
    ema_list: prices,
    rsi: prices,
    macd: prices,
    bollinger: prices,
    true_range: bars,
    max_drawdown: returns,
    sharpe_ratio: returns,
    value_at_risk: returns,
    black_scholes_call: lambda rng, n: (rng.random(n) * 50 + 75, 100.0, rng.random(n) + 0.1, 0.03, 0.2),
    binomial_option: lambda rng, n: (100.0 + n, np.array([95.0, 100.0])[n % 2]),
    portfolio_variance: lambda rng, n: (rng.random(5), rng.standard_normal((4 * n, 5)) * 0.01),
    obv: lambda rng, n: (*prices(rng, n), rng.integers(1, 1000, 6 * n)),
    stochastic_oscillator: bars,
    crossover_signals: prices,
    irr_newton: lambda rng, n: (np.concatenate([[-100.0], rng.random(n) * 10 + 10]),),
}
