"""Means of the tokens of a network, by which samples are compared."""

from __future__ import annotations

import numpy as np
import torch

from skop._typing import FloatArray, GridShape
from skop.data import Batch, FieldLoader, FieldSet, Predictions
from skop.exceptions import FieldDataError
from skop.modules import observe_features
from skop.surrogate._stages import Query
from skop.surrogate._surrogate import PREDICT_VALUES, Surrogate, evaluation
from skop.training._runtime import thread_limit

__all__ = ["mean_tokens"]

#: Chunk size (points) when recording tokens.
_TOKEN_POINTS = 2**15
#: Largest number of images of a sample whose tokens are averaged.
_IMAGES = 24
#: Kind, tokens and grid that a network has offered to an observer.
_Noted = tuple[str, torch.Tensor, GridShape | None]


def mean_tokens(surrogate: Surrogate, inputs: FieldSet, *, of_images: bool = True) -> FloatArray | None:
    """Return the means over the points of the last tokens of a network.

    Parameters
    ----------
    surrogate : Surrogate
        Fitted operator.
    inputs : FieldSet
        n samples.
    of_images : bool, default=True
        Whether the means are over the images of a sample under declared symmetries too.

    Returns
    -------
    ndarray of shape (n, E) or None
        Means, as the network sees the samples; None for a network that offers no tokens, and where the base predicts
        alone.
    """
    if surrogate.is_base_alone:
        return None
    seen = inputs if surrogate.spec.resampler is None else surrogate.spec.resampler.to_grid(inputs)
    surrogate.refine.require_grid(seen)
    found: Predictions = surrogate.refine.on_grid_of_fit(
        seen, lambda part: Predictions(None, _of_images(surrogate, part, of_images)), average=False
    )
    return found.scalars


def _of_images(surrogate: Surrogate, inputs: FieldSet, of_images: bool) -> FloatArray | None:
    """Means of the last tokens of samples and of their images under declared symmetries, which all have the same."""
    query = Query(inputs)
    symmetrise = surrogate.symmetrise if of_images else None
    try:
        images = [query] if symmetrise is None else list(symmetrise.images(query))
        some = images[:: -(-len(images) // _IMAGES)]
        found = [_of_network(surrogate, surrogate.loader(image.inputs, **image.options)) for image in some]
    except FieldDataError:
        # Symmetries that do not map the points of these samples onto each other have no images there.
        found = [_of_network(surrogate, surrogate.loader(inputs))]
    means = [part for part in found if part is not None]
    return np.mean(means, axis=0) if means else None


def _of_network(surrogate: Surrogate, loader: FieldLoader) -> FloatArray | None:
    """Means of the last tokens of samples on grids of the training spacing, or on points."""
    inputs = loader.inputs
    noted: list[_Noted] = []
    n_tokens = 0
    bound = min(_TOKEN_POINTS, PREDICT_VALUES // max(surrogate.spec.n_fields, 1))
    n_points = min(bound, int(inputs.n_points.sum()))

    def note(kind: str, tokens: torch.Tensor, grid: GridShape | None) -> None:
        if kind in ("poles", "mixed"):
            return
        # Tokens of earlier blocks are not needed any more, and those of all blocks can be more than the memory holds.
        if _is_whole(kind, grid):
            noted.clear()
        elif sum(_n_tokens(held) for of, held, _ in noted if of == kind) >= n_tokens:
            noted[:] = [held for held in noted if held[0] != kind]
        noted.append((kind, tokens, grid))

    limit = thread_limit(n_points, surrogate.width)
    with evaluation(surrogate), torch.inference_mode(), limit, observe_features(note):
        # Tokens of samples of unlike size that a network offers together are told apart one sample at a time.
        for most in (bound, 0):
            found: list[torch.Tensor] = []
            for indices, batch in loader.bounded_batches(most):
                noted.clear()
                n_tokens = _n_points(batch, len(indices))
                surrogate.network(**batch.inputs())
                if not noted:
                    return None
                means = _means(noted, batch, len(indices))
                if means is None:
                    break
                found += means
            else:
                return torch.stack(found).cpu().double().numpy()
    raise AssertionError("the tokens of a single sample have a mean")


def _means(noted: list[_Noted], batch: Batch, n_samples: int) -> list[torch.Tensor] | None:
    """Means of the last tokens offered for each sample of a batch; None if it is not known whose each token is."""
    last, pieces = noted[-1], list[torch.Tensor]()
    n_points = _n_points(batch, n_samples)
    for kind, tokens, grid in reversed(noted):
        # Networks on points offer those of a large sample in pieces, one after the other.
        if kind == last[0]:
            pieces.insert(0, tokens.reshape(-1, tokens.shape[-1]))
        if _is_whole(kind, grid) or sum(map(len, pieces)) >= n_points:
            break
    flat = torch.cat(pieces)
    if batch.sizes is not None and len(flat) == n_points:
        return [part.mean(dim=0) for part in flat.split(batch.sizes)]
    if batch.sizes is not None and not last[0].startswith("latent") and n_samples > 1:
        return None
    return list(flat.reshape(n_samples, -1, flat.shape[-1]).mean(dim=1))


def _is_whole(kind: str, grid: GridShape | None) -> bool:
    """Whether tokens are never offered in pieces."""
    return grid is not None or kind.startswith("latent")


def _n_points(batch: Batch, n_samples: int) -> int:
    """Number of points of all samples of a batch."""
    return int(batch.coords.shape[-2]) * (1 if batch.sizes is not None else n_samples)


def _n_tokens(tokens: torch.Tensor) -> int:
    """Number of tokens of all samples."""
    return tokens.numel() // tokens.shape[-1]
