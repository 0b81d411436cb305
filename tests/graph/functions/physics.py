"""Physics with numpy alone: forces, fields, waves, integrators, geometry."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# ruff: noqa

from __future__ import annotations

import numpy as np


def gravity(pos, mass, g=1.0, softening=0.1):
    x = pos[:, 0:1]
    y = pos[:, 1:2]
    z = pos[:, 2:3]
    dx = x.T - x
    dy = y.T - y
    dz = z.T - z
    inv_r3 = dx**2 + dy**2 + dz**2 + softening**2
    inv_r3[inv_r3 > 0] = inv_r3[inv_r3 > 0] ** (-1.5)
    ax = g * (dx * inv_r3) @ mass
    ay = g * (dy * inv_r3) @ mass
    az = g * (dz * inv_r3) @ mass
    return np.hstack((ax, ay, az))


def leapfrog(pos, vel, steps=20, dt=0.01):
    energy = []
    acc = -pos / np.linalg.norm(pos, axis=1, keepdims=True) ** 3
    for _ in range(steps):
        vel = vel + 0.5 * dt * acc
        pos = pos + dt * vel
        acc = -pos / np.linalg.norm(pos, axis=1, keepdims=True) ** 3
        vel = vel + 0.5 * dt * acc
        energy.append(0.5 * np.sum(vel**2))
    return pos, vel, np.array(energy)


def heat_equation(u, nt=30, alpha=0.1):
    for _ in range(nt):
        un = u.copy()
        u[1:-1, 1:-1] = un[1:-1, 1:-1] + alpha * (
            un[2:, 1:-1] + un[:-2, 1:-1] + un[1:-1, 2:] + un[1:-1, :-2] - 4 * un[1:-1, 1:-1]
        )
        u[0, :] = u[-1, :] = 0
        u[:, 0] = u[:, -1] = 0
    return u


def wave_equation(u0, c=0.5, steps=25):
    u_prev = u0.copy()
    u = u0.copy()
    for _ in range(steps):
        u_next = np.zeros_like(u)
        u_next[1:-1] = 2 * u[1:-1] - u_prev[1:-1] + c**2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u_prev, u = u, u_next
    return u


def laplace_jacobi(p, tol=1e-3, max_iter=500):
    error = 1.0
    iterations = 0
    while error > tol and iterations < max_iter:
        pn = p.copy()
        p[1:-1, 1:-1] = 0.25 * (pn[1:-1, 2:] + pn[1:-1, :-2] + pn[2:, 1:-1] + pn[:-2, 1:-1])
        error = np.abs(p - pn).max()
        iterations += 1
    return p, iterations


def ising_energy(spins, j=1.0, h=0.0):
    neighbours = np.roll(spins, 1, 0) + np.roll(spins, -1, 0) + np.roll(spins, 1, 1) + np.roll(spins, -1, 1)
    return -j * np.sum(spins * neighbours) / 2 - h * np.sum(spins)


def lattice_boltzmann_step(f, tau=0.6):
    cx = np.array([0, 0, 1, 1, 1, 0, -1, -1, -1])
    cy = np.array([0, 1, 1, 0, -1, -1, -1, 0, 1])
    w = np.array([4 / 9, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36])
    for i in range(9):
        f[:, :, i] = np.roll(f[:, :, i], cx[i], axis=1)
        f[:, :, i] = np.roll(f[:, :, i], cy[i], axis=0)
    rho = np.sum(f, axis=2)
    ux = np.sum(f * cx, axis=2) / rho
    uy = np.sum(f * cy, axis=2) / rho
    feq = np.zeros(f.shape)
    for i, (x, y, weight) in enumerate(zip(cx, cy, w)):
        cu = 3 * (x * ux + y * uy)
        feq[:, :, i] = rho * weight * (1 + cu + cu**2 / 2 - 3 * (ux**2 + uy**2) / 2)
    return f + -(1.0 / tau) * (f - feq)


def rk4(y0, t):
    def f(y, t):
        theta, omega = y
        return np.array([omega, -0.25 * omega - 5.0 * np.sin(theta)])

    n = len(t)
    y = np.zeros((n, len(y0)))
    y[0] = y0
    for i in range(n - 1):
        h = t[i + 1] - t[i]
        k1 = f(y[i], t[i])
        k2 = f(y[i] + k1 * h / 2.0, t[i] + h / 2.0)
        k3 = f(y[i] + k2 * h / 2.0, t[i] + h / 2.0)
        k4 = f(y[i] + k3 * h, t[i] + h)
        y[i + 1] = y[i] + (h / 6.0) * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def lennard_jones(r, epsilon=1.0, sigma=1.0):
    n = len(r)
    energy = 0.0
    forces = np.zeros_like(r)
    for i in range(n):
        for j in range(i + 1, n):
            d = r[i] - r[j]
            r2 = np.dot(d, d)
            s6 = (sigma * sigma / r2) ** 3
            energy += 4 * epsilon * (s6 * s6 - s6)
            f = 24 * epsilon * (2 * s6 * s6 - s6) / r2
            forces[i] += f * d
            forces[j] -= f * d
    return energy, forces


def rotation_matrix(axis, theta):
    axis = axis / np.sqrt(np.dot(axis, axis))
    a = np.cos(theta / 2.0)
    b, c, d = -axis * np.sin(theta / 2.0)
    aa, bb, cc, dd = a * a, b * b, c * c, d * d
    bc, ad, ac, ab, bd, cd = b * c, a * d, a * c, a * b, b * d, c * d
    return np.array(
        [
            [aa + bb - cc - dd, 2 * (bc + ad), 2 * (bd - ac)],
            [2 * (bc - ad), aa + cc - bb - dd, 2 * (cd + ab)],
            [2 * (bd + ac), 2 * (cd - ab), aa + dd - bb - cc],
        ]
    )


def haversine(lon1, lat1, lon2, lat2):
    lon1, lat1, lon2, lat2 = map(np.radians, [lon1, lat1, lon2, lat2])
    a = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return 6371 * 2 * np.arcsin(np.sqrt(a))


def planck(wavelength, temperature):
    h, c, k = 6.62607015e-34, 2.99792458e8, 1.380649e-23
    exponent = h * c / (wavelength[:, None] * k * temperature[None, :])
    return 2 * h * c**2 / wavelength[:, None] ** 5 / np.expm1(exponent)


def angular_separation(ra1, dec1, ra2, dec2):
    sdlon, cdlon = np.sin(ra2 - ra1), np.cos(ra2 - ra1)
    slat1, slat2 = np.sin(dec1), np.sin(dec2)
    clat1, clat2 = np.cos(dec1), np.cos(dec2)
    num1 = clat2 * sdlon
    num2 = clat1 * slat2 - slat1 * clat2 * cdlon
    return np.arctan2(np.hypot(num1, num2), slat1 * slat2 + clat1 * clat2 * cdlon)


def mandelbrot(c, maxiter=30):
    output = np.zeros(c.shape, dtype=int)
    z = np.zeros(c.shape, np.complex64)
    for it in range(maxiter):
        notdone = np.less(z.real * z.real + z.imag * z.imag, 4.0)
        output[notdone] = it
        z[notdone] = z[notdone] ** 2 + c[notdone]
    output[output == maxiter - 1] = 0
    return output


def game_of_life(z):
    n = (
        z[0:-2, 0:-2]
        + z[0:-2, 1:-1]
        + z[0:-2, 2:]
        + z[1:-1, 0:-2]
        + z[1:-1, 2:]
        + z[2:, 0:-2]
        + z[2:, 1:-1]
        + z[2:, 2:]
    )
    birth = (n == 3) & (z[1:-1, 1:-1] == 0)
    survive = ((n == 2) | (n == 3)) & (z[1:-1, 1:-1] == 1)
    z[...] = 0
    z[1:-1, 1:-1][birth | survive] = 1
    return z


def gray_scott(u, v, steps=10, f=0.04, k=0.06):
    for _ in range(steps):
        lu = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u
        lv = np.roll(v, 1, 0) + np.roll(v, -1, 0) + np.roll(v, 1, 1) + np.roll(v, -1, 1) - 4 * v
        uvv = u * v * v
        u = u + 0.16 * lu - uvv + f * (1 - u)
        v = v + 0.08 * lv + uvv - (f + k) * v
    return u, v


def thomas(a, b, c, d):
    n = len(d)
    ac, bc, cc, dc = map(np.array, (a, b, c, d))
    for i in range(1, n):
        mc = ac[i - 1] / bc[i - 1]
        bc[i] = bc[i] - mc * cc[i - 1]
        dc[i] = dc[i] - mc * dc[i - 1]
    xc = bc
    xc[-1] = dc[-1] / bc[-1]
    for i in range(n - 2, -1, -1):
        xc[i] = (dc[i] - cc[i] * xc[i + 1]) / bc[i]
    return xc


def plane(rng, n):
    return (rng.random((n, n + 1)),)


def angles(rng, n):
    return tuple(rng.random(n) * 1.5 for _ in range(4))


def complex_plane(rng, n):
    x, y = np.linspace(-2, 0.5, n), np.linspace(-1.2, 1.2, n + 1)
    return ((x[None, :] + 1j * y[:, None]).astype(np.complex64),)


CASES = {
    gravity: lambda rng, n: (rng.standard_normal((n, 3)), rng.random((n, 1))),
    leapfrog: lambda rng, n: (rng.standard_normal((n, 3)) + 2, rng.standard_normal((n, 3))),
    heat_equation: plane,
    wave_equation: lambda rng, n: (rng.random(4 * n),),
    laplace_jacobi: plane,
    ising_energy: lambda rng, n: (rng.choice([-1, 1], (n, n)),),
    lattice_boltzmann_step: lambda rng, n: (rng.random((n, n + 2, 9)) + 1,),
    rk4: lambda rng, n: (np.array([np.pi - 0.1, 0.0]), np.linspace(0, 5, 3 * n)),
    lennard_jones: lambda rng, n: (np.arange(n)[:, None] + rng.random((n, 3)) * 0.1,),
    rotation_matrix: lambda rng, n: (rng.random(3), 0.1 * n),
    haversine: angles,
    planck: lambda rng, n: (np.linspace(2e-7, 2e-6, n), np.linspace(3000, 6000, n + 2)),
    angular_separation: angles,
    mandelbrot: complex_plane,
    game_of_life: lambda rng, n: (rng.integers(0, 2, (n, n + 3)),),
    gray_scott: lambda rng, n: (*plane(rng, n), *plane(rng, n)),
    thomas: lambda rng, n: (rng.random(n - 1), rng.random(n) + 3, rng.random(n - 1), rng.random(n)),
}
