"""The fractal permeability of ``make_darcy(variant="fractal")``, its sources, and the scheme that solves its equation.

Permeability and forcing are functions of the position and of random numbers that no grid has a part in. All of them are
evaluated at the cell centres (i + 1/2) / n of the unit square; axis 0 is x and axis 1 is y.

Notation: n cells per side, h = 1 / n their width, H Hurst exponent.
"""

import numpy as np
from scipy.sparse import diags_array
from scipy.sparse.linalg import splu

from skop._typing import FloatArray
from skop.exceptions import FieldDataError

#: Standard deviation of log k before channels and inclusions.
LOG_DEVIATION = 1.0
#: Channels of a sample. Their directions differ from a common one by at most a tilt (radians): k is anisotropic.
N_CHANNELS, LARGEST_TILT = 4, 0.2
#: Channels are sine waves: their widths, the lengths of their waves, and the largest amplitude in units of that length.
CHANNEL_WIDTHS, WAVE_LENGTHS, LARGEST_MEANDER = (0.025, 0.05), (0.4, 1.0), 0.05
#: Elliptic inclusions of a sample, and the range of their semi-axes.
N_INCLUSIONS, SEMI_AXES = 10, (0.02, 0.08)
#: Gaussian sources and sinks of a sample, the ranges of their widths (standard deviations) and of their integrals.
N_SOURCES, SOURCE_WIDTHS, SOURCE_STRENGTHS = 8, (0.02, 0.05), (0.5, 1.5)
#: Share of the dropped entries that the preconditioner adds to its diagonal. With 1 rounding errors spoil it at
#: contrasts near 1e17, and with 0 it needs twice as many iterations.
MODIFICATION = 0.97


def fractal_deviations(n_modes: int, hurst: float) -> FloatArray:
    """Return standard deviations |k|^-(H + 1) of the cosine modes 0 < |k| < n_modes, with squares that sum to 1.

    In two dimensions these are the amplitudes of a fractional Gaussian field, whose increments over a distance r have
    a mean square of about r^(2H) where the band limit does not show.
    """
    squares = np.arange(n_modes) ** 2
    wave_numbers = np.sqrt(squares[:, np.newaxis] + squares)
    in_band = (wave_numbers > 0) & (wave_numbers < n_modes)
    deviations = np.zeros(wave_numbers.shape)
    deviations[in_band] = wave_numbers[in_band] ** -(hurst + 1)
    return np.asarray(deviations / np.linalg.norm(deviations))


def draw_factor(rng: np.random.Generator, axis: FloatArray, values: tuple[float, float]) -> FloatArray:
    """Draw inclusions and channels, with a factor on k each; return k's factor at all pairs of positions of an axis."""
    x, y = np.meshgrid(axis, axis, indexing="ij")
    factor = np.ones(x.shape)
    in_inclusions, on_channels = values
    direction = rng.uniform(0, np.pi)
    on_channel = np.zeros(x.shape, dtype=bool)
    for _ in range(N_CHANNELS):
        middle = rng.random(2)
        along, across = _rotated(x - middle[0], y - middle[1], direction + rng.uniform(-LARGEST_TILT, LARGEST_TILT))
        length, width = rng.uniform(*WAVE_LENGTHS), rng.uniform(*CHANNEL_WIDTHS)
        amplitude, phase = length * rng.uniform(0, LARGEST_MEANDER), rng.uniform(0, 2 * np.pi)
        on_channel |= np.abs(across - amplitude * np.sin(2 * np.pi * along / length + phase)) < width / 2
    factor[on_channel] *= on_channels
    in_inclusion = np.zeros(x.shape, dtype=bool)
    for _ in range(N_INCLUSIONS):
        middle, semi_axes = rng.random(2), rng.uniform(*SEMI_AXES, size=2)
        along, across = _rotated(x - middle[0], y - middle[1], rng.uniform(0, np.pi))
        in_inclusion |= (along / semi_axes[0]) ** 2 + (across / semi_axes[1]) ** 2 < 1
    factor[in_inclusion] *= in_inclusions
    return factor


def _rotated(x: FloatArray, y: FloatArray, angle: float) -> tuple[FloatArray, FloatArray]:
    """Coordinates along and across a direction."""
    return np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x


def draw_sources(rng: np.random.Generator, axis: FloatArray) -> FloatArray:
    """Draw Gaussian sources and sinks; return their sum at all pairs of positions of an axis, (n, n)."""
    total = np.zeros((len(axis), len(axis)))
    for _ in range(N_SOURCES):
        middle, width = rng.random(2), rng.uniform(*SOURCE_WIDTHS)
        strength = rng.choice((-1.0, 1.0)) * rng.uniform(*SOURCE_STRENGTHS)
        along_x, along_y = (np.exp(-((axis - m) ** 2) / (2 * width**2)) for m in middle)
        total += strength / (2 * np.pi * width**2) * along_x[:, np.newaxis] * along_y
    return total


class FluxSystem:
    """Balance of the fluxes of each of n x n cells, with u = 0 on the border of the square; and its preconditioner.

    The flux through a face, as long as the spacing h, is the difference of u times the harmonic mean of the two
    permeabilities; through a face on the border, h / 2 from the centre, it is 2 k u. The sum over a cell's faces is
    h^2 f. The preconditioner is a modified incomplete Cholesky factorisation without fill (Gustafsson 1978), which
    adds most of what it drops to the diagonal. The number of iterations hardly depends on the jumps of the
    permeability, as it would with sine transforms, and is about in proportion to n.

    Parameters
    ----------
    permeability : ndarray of shape (n, n)
        Values k of the cells, finite and above 0.
    """

    #: What a direction of negative curvature would mean: rounding, since the matrix is positive definite.
    indefinite = "the system is lost to rounding. Bring the values of the permeability closer to 1."

    def __init__(self, permeability: FloatArray) -> None:
        k = np.asarray(permeability, dtype=np.float64)
        if not (np.isfinite(k).all() and (k > 0).all()):
            raise FieldDataError("the permeability is not finite and above 0 everywhere: bring its values closer to 1.")
        self.faces_x = np.concatenate([2 * k[:1], _harmonic_means(k[1:], k[:-1]), 2 * k[-1:]])
        self.faces_y = np.concatenate([2 * k[:, :1], _harmonic_means(k[:, 1:], k[:, :-1]), 2 * k[:, -1:]], axis=1)
        diagonal = self.faces_x[1:] + self.faces_x[:-1] + self.faces_y[:, 1:] + self.faces_y[:, :-1]
        to_next_row, to_next_column = np.zeros(k.shape), np.zeros(k.shape)
        to_next_row[:-1], to_next_column[:, :-1] = self.faces_x[1:-1], self.faces_y[:, 1:-1]
        self._pivots = _incomplete_pivots(diagonal, to_next_row, to_next_column).ravel()
        if not (self._pivots > 0).all():
            raise FieldDataError(self.indefinite)
        entries = [self._pivots, -to_next_column.ravel()[:-1], -to_next_row.ravel()[: -len(k)]]
        lower = diags_array(entries, offsets=[0, -1, -len(k)]).tocsc()
        # A factorisation of a triangular matrix in its own order has no fill; it serves for its fast substitutions.
        self._factor = splu(
            lower, permc_spec="NATURAL", diag_pivot_thresh=0, relax=1, panel_size=1, options={"Equil": False}
        )

    def apply(self, u: FloatArray) -> FloatArray:
        """Net flux out of each cell."""
        padded = np.pad(u, 1)
        flux_x = self.faces_x * np.diff(padded[:, 1:-1], axis=0)
        flux_y = self.faces_y * np.diff(padded[1:-1], axis=1)
        return -(np.diff(flux_x, axis=0) + np.diff(flux_y, axis=1))

    def precondition(self, residual: FloatArray) -> FloatArray:
        """Solve (D + L) D^-1 (D + L^T) z = residual, with the pivots D and the lower triangle L of the matrix."""
        half = self._factor.solve(residual.ravel()) * self._pivots
        return np.asarray(self._factor.solve(half, trans="T").reshape(residual.shape))


def _harmonic_means(left: FloatArray, right: FloatArray) -> FloatArray:
    """Harmonic means of positive numbers."""
    return 2 * left * (right / (left + right))


def _incomplete_pivots(diagonal: FloatArray, to_next_row: FloatArray, to_next_column: FloatArray) -> FloatArray:
    """Pivots of the incomplete factorisation in the order of rows, (n, n).

    The links are those of each cell to the cell of the next row and of the next column; 0 where there is none.
    """
    n_cells = len(diagonal)
    # A row and a column of cells without links in front save a case for the border.
    down, right = (np.pad(links, ((1, 0), (1, 0))).ravel() for links in (to_next_row, to_next_column))
    pivots = np.pad(diagonal, ((1, 0), (1, 0)), constant_values=1.0).ravel()
    # The cells of an antidiagonal depend on those of the one before only.
    for antidiagonal in range(2 * n_cells - 1):
        row = np.arange(max(0, antidiagonal - n_cells + 1), min(antidiagonal, n_cells - 1) + 1)
        cell = (row + 1) * (n_cells + 1) + antidiagonal - row + 1
        above, before = cell - (n_cells + 1), cell - 1
        pivots[cell] -= down[above] * ((down[above] + MODIFICATION * right[above]) / pivots[above])
        pivots[cell] -= right[before] * ((right[before] + MODIFICATION * down[before]) / pivots[before])
    return np.asarray(pivots.reshape(n_cells + 1, n_cells + 1)[1:, 1:])
