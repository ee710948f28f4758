"""Data sets: ``make_*`` generate seeded samples with a solver, ``load_*`` read published files."""

import skop._threads  # noqa: F401 - before anything that imports torch
from skop.datasets._advection import make_advection
from skop.datasets._airfoil import make_airfoil
from skop.datasets._antiderivative import make_antiderivative
from skop.datasets._brusselator import make_brusselator
from skop.datasets._brusselator_files import load_brusselator
from skop.datasets._cantilever import make_cantilever
from skop.datasets._darcy import make_darcy
from skop.datasets._diffusion_reaction import make_diffusion_reaction
from skop.datasets._elasticity import make_elasticity
from skop.datasets._european_option import make_european_option
from skop.datasets._fetching import fetch_published
from skop.datasets._joukowski import make_joukowski
from skop.datasets._moving_hole import make_moving_hole
from skop.datasets._navier_stokes import make_navier_stokes
from skop.datasets._navier_stokes_files import load_navier_stokes
from skop.datasets._pdebench import (
    load_pdebench_darcy,
    load_pdebench_diffusion_reaction,
    load_pdebench_shallow_water,
)
from skop.datasets._pipe import make_pipe
from skop.datasets._plasticity import make_plasticity
from skop.datasets._published import load_darcy
from skop.datasets._shallow_water import make_shallow_water
from skop.datasets._solid_files import load_elasticity, load_plasticity
from skop.datasets._structured import load_airfoil, load_pipe
from skop.datasets._tissue import load_tissue
from skop.datasets._wake import make_wake

__all__ = [
    "fetch_published",
    "load_airfoil",
    "load_brusselator",
    "load_darcy",
    "load_elasticity",
    "load_navier_stokes",
    "load_pdebench_darcy",
    "load_pdebench_diffusion_reaction",
    "load_pdebench_shallow_water",
    "load_pipe",
    "load_plasticity",
    "load_tissue",
    "make_advection",
    "make_airfoil",
    "make_antiderivative",
    "make_brusselator",
    "make_cantilever",
    "make_darcy",
    "make_diffusion_reaction",
    "make_elasticity",
    "make_european_option",
    "make_joukowski",
    "make_moving_hole",
    "make_navier_stokes",
    "make_pipe",
    "make_plasticity",
    "make_shallow_water",
    "make_wake",
]
