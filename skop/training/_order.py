"""The order in which an epoch visits the samples, and which of them share a batch.

Notation: n samples, S samples of a group, G = n / S groups.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from skop._typing import IntArray

__all__ = ["Grouping", "epoch_rounds"]

Grouping = Literal["together", "spread"]


def epoch_rounds(
    n_samples: int, batch_size: int, rng: np.random.RandomState, *, group_size: int = 1, grouping: Grouping = "together"
) -> Iterator[tuple[IntArray, int]]:
    """Yield the rounds of one epoch: the samples in order, and how many of them each batch takes.

    Groups of successive samples belong together, such as the steps of one trajectory. Every round
    takes the next groups of a random order and visits all their members once.

    Parameters
    ----------
    n_samples : int
        Samples n, a multiple of the group size.
    batch_size : int
        Groups of a round; the last round may have fewer.
    rng : numpy.random.RandomState
        Source of the order.
    group_size : int, default=1
        Members S of a group.
    grouping : {"together", "spread"}, default="together"
        ``"together"``: a round is one batch with all members of its groups. ``"spread"``: a round is S batches with
        one member of each of its groups, which every group gives in a random order of its own.

    Yields
    ------
    tuple of (ndarray of int, int)
        Samples of a round, and samples of each of its batches.

    Raises
    ------
    ValueError
        If the samples do not form whole groups.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.training import epoch_rounds
    >>> [(order.tolist(), size) for order, size in epoch_rounds(4, 1, np.random.RandomState(0), group_size=2)]
    [([2, 3], 2), ([0, 1], 2)]
    """
    if n_samples % group_size:
        raise ValueError(f"{n_samples} samples do not form groups of {group_size}.")
    groups = rng.permutation(n_samples // group_size)
    for start in range(0, len(groups), batch_size):
        members = groups[start : start + batch_size, np.newaxis] * group_size + np.arange(group_size)
        if grouping == "spread":
            own_order = np.array([rng.permutation(group) for group in members])
            yield own_order.T.ravel(), len(members)
        else:
            yield members.ravel(), members.size
