"""Let torch's idle OpenMP threads sleep, which has to be said before torch is imported.

By default GNU's OpenMP lets a thread spin for about 10 ms for more work before it sleeps. Where other programs use the
cores too, threads that spin use up their share of the time, and the next operation waits for them.
"""

import os
import sys

__all__ = ["import_torch"]

#: What a user may have set about waiting; then nothing is changed.
_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")
#: Sleep when idle; GNU's OpenMP spins for some 50 microseconds first, so that operations in a row find it awake.
_PATIENT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}


def import_torch() -> bool:
    """Import torch so that its threads sleep when they have nothing to do.

    Nothing is set if torch is imported already, or if the user has set any of ``OMP_WAIT_POLICY``, ``GOMP_SPINCOUNT``,
    ``KMP_BLOCKTIME`` or ``KMP_LIBRARY``. The variables are set while torch is imported and no longer: programs that
    this one starts do not inherit them.

    Returns
    -------
    bool
        Whether the waiting was set.

    Examples
    --------
    >>> import torch
    >>> from skop._openmp import import_torch
    >>> import_torch()
    False
    """
    if "torch" in sys.modules or any(name in os.environ for name in _VARIABLES):
        return False
    os.environ.update(_PATIENT)
    try:
        import torch

        torch.get_num_threads()  # LLVM's OpenMP reads its variables on first use
    finally:
        for name in _PATIENT:
            del os.environ[name]
    return True


import_torch()
