"""The order in which an epoch visits the samples, and how they are combined into mini-batches.

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
    """Yield the rounds of one epoch: the samples in order, and the number of samples in each batch.

    Successive samples can form groups, such as the steps of one trajectory. The groups are visited in random order.
    Every round takes the next few groups and visits each of their samples once.

    Parameters
    ----------
    n_samples : int
        Number n of samples, a multiple of the group size.
    batch_size : int
        Number of groups in a round; the last round may have fewer.
    rng : numpy.random.RandomState
        Random number generator for the order.
    group_size : int, default=1
        Number S of samples in a group.
    grouping : {"together", "spread"}, default="together"
        Batches of a round. ``"together"``: one batch with all samples of the groups. ``"spread"``: S batches, each with
        one sample of every group; the samples of each group are in random order.

    Yields
    ------
    tuple of (ndarray of int, int)
        Indices of the samples of a round, and the number of samples in each of its batches.

    Raises
    ------
    ValueError
        If `n_samples` is not a multiple of `group_size`.

    Examples
    --------
    >>> import numpy as np
    >>> from skop.training._order import epoch_rounds
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
