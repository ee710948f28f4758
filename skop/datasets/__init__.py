"""Data sets: ``make_*`` generate seeded samples with a solver, ``load_*`` read published files."""

from skop.datasets._darcy import make_darcy
from skop.datasets._published import load_darcy

__all__ = ["load_darcy", "make_darcy"]
