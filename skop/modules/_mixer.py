"""The base class of token mixers, which fixes their signature."""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch import nn

from skop._typing import GridShape
from skop.modules._feature_maps import note_features
from skop.modules._packing import group_by_size

__all__ = ["Probe", "Stream", "TokenMixer", "grid_of_tokens"]


class Stream(NamedTuple):
    """Tokens of the same samples that a mixer reads beside its own: its reference.

    Parameters
    ----------
    tokens : Tensor of shape (B, M, E), or (1, S, E) with `sizes`
        Tokens.
    coords : Tensor of shape (B, M, d), or (1, S, d) with `sizes`, or None
        Their places, for mixers that read coordinates.
    sizes : tuple of int or None
        Tokens of each sample of a packed batch.
    """

    tokens: torch.Tensor
    coords: torch.Tensor | None = None
    sizes: tuple[int, ...] | None = None

    def split(self) -> "list[Stream]":
        """Return the samples of a packed stream, each with a first axis of length one."""
        sizes = self.sizes or ()
        coords = [None] * len(sizes) if self.coords is None else self.coords.split(sizes, dim=1)
        return [Stream(own, place) for own, place in zip(self.tokens.split(sizes, dim=1), coords, strict=True)]

    @classmethod
    def join(cls, samples: "Sequence[Stream]") -> "Stream":
        """Pack samples that each have a first axis of length one."""
        if len(samples) == 1:
            return samples[0]
        coords = [own.coords for own in samples if own.coords is not None]
        return cls(
            torch.cat([own.tokens for own in samples], dim=1),
            torch.cat(coords, dim=1) if coords else None,
            tuple(own.tokens.shape[1] for own in samples),
        )


class Probe(NamedTuple):
    """Tokens that read others as one of these would, but that nothing reads.

    Parameters
    ----------
    tokens : Tensor of shape (B, Q, E)
        Tokens.
    coords : Tensor of shape (B, Q, d)
        Their places.
    stands_for : int64 Tensor of shape (B, Q)
        Number of the token in whose place in the sequence each stands.
    references : sequence of Tensor of shape (B, Q, E)
        What the references hold at their places, for the cross form of a mixer that is `aligned`.
    """

    tokens: torch.Tensor
    coords: torch.Tensor
    stands_for: torch.Tensor
    references: Sequence[torch.Tensor] = ()


class TokenMixer(nn.Module):
    """Base class of the modules that exchange information between the tokens of a sample, on a grid or in a sequence.

    A subclass takes ``(width, n_dims, **options)`` as its arguments and defines `mix`. `forward` separates the
    sequences of a packed batch, so that `mix` is always called with samples of one length, unless the attribute `packs`
    is true. A `skop.parts.Mixer` makes a mixer a parameter of an estimator.

    Some mixers read more than their tokens and the grid: the places of the tokens, or reference streams, which are
    other tokens of the same samples. Their attribute `takes_streams` is true, their `mix` takes
    ``mix(tokens, grid, coords, references)``, and they are built with ``n_references``, the number of references:
    0 for a mixer of one stream, 1 or more for its cross form, in which the tokens read the references, along the
    sequence of the tokens or in place of one another. Such mixers can also be probed: `probe` gives what a token would
    become that stands in for another one, so that a network can be asked at any place.

    Attributes
    ----------
    takes_streams : bool
        Whether `mix` takes coordinates and references.
    aligned : bool
        Whether the cross form pairs each token with one token of each reference. References then hold as many tokens,
        at the same places; who holds others interpolates them there before.
    n_references : int
        Reference streams of each call.
    packs : bool
        Whether `mix` also takes packed samples, of similar sizes, in one call: with the keyword `sizes`, tokens are
        (1, T, E) and references are packed too. What becomes of a sample must not depend on the others.

    Notes
    -----
    Notation: B samples, L tokens of a sample, T tokens of all samples of a packed batch, E width, d space dimensions,
    M tokens of a reference.

    Examples
    --------
    >>> import torch
    >>> from skop.modules import HydraMixer, SoftmaxAttention, Stream
    >>> mixer = HydraMixer(16, 1, d_state=4)
    >>> mixer(torch.zeros(3, 12, 16)).shape
    torch.Size([3, 12, 16])
    >>> mixer(torch.zeros(1, 12, 16), sizes=(5, 7)).shape
    torch.Size([1, 12, 16])
    >>> cross = SoftmaxAttention(16, n_references=1)
    >>> cross(torch.zeros(3, 12, 16), references=[Stream(torch.zeros(3, 7, 16))]).shape
    torch.Size([3, 12, 16])
    """

    takes_streams: bool = False
    aligned: bool = False
    n_references: int = 0
    packs: bool = False

    def __init__(self) -> None:
        super().__init__()

    def mix(self, tokens: torch.Tensor, grid: GridShape | None) -> torch.Tensor:
        """Mix tokens ``(B, L, E)``, in C order on `grid`, or as a sequence where `grid` is None."""
        raise NotImplementedError(f"{type(self).__name__} has to define mix(tokens, grid).")

    def forward(
        self,
        tokens: torch.Tensor,
        grid: GridShape | None = None,
        sizes: tuple[int, ...] | None = None,
        coords: torch.Tensor | None = None,
        references: Sequence[Stream] = (),
    ) -> torch.Tensor:
        """Mix the tokens of every sample.

        Parameters
        ----------
        tokens : Tensor of shape (B, L, E), or (1, T, E) with `sizes`
            Tokens.
        grid : tuple of int or None, default=None
            Number of tokens along each axis of their grid, in C order; None for a sequence.
        sizes : tuple of int or None, default=None
            Lengths of the sequences of a packed batch, in which one sequence follows the other.
        coords : Tensor of shape (B, L, d), or (1, T, d) with `sizes`, or None, default=None
            Places of the tokens, for mixers that were built to read them.
        references : sequence of Stream, default=()
            Reference streams, `n_references` of them, packed where the tokens are.

        Returns
        -------
        Tensor of the shape of tokens
            Mixed tokens.

        Raises
        ------
        ValueError
            If packed sequences come with a grid, there are more or fewer references than the mixer was built for, or
            `mix` returns another shape than that of its tokens.
        """
        if len(references) != self.n_references:
            raise ValueError(
                f"{type(self).__name__} got {len(references)} references, but was built with n_references="
                f"{self.n_references}; give it as many streams."
            )
        if sizes is None:
            return self._mix_all(tokens, grid, coords, references)
        if grid is not None:
            raise ValueError(
                f"grid={grid} and sizes={sizes} were given; packed sequences have no grid, pass one of them."
            )
        groups = group_by_size(sizes) if self.packs else tuple((number,) for number in range(len(sizes)))
        if len(groups) == 1 and len(sizes) > 1:
            return self._mix_all(tokens, None, coords, references, sizes)
        samples = Stream(tokens, coords, sizes).split()
        others = [reference.split() for reference in references]
        mixed = samples.copy()
        for group in groups:
            own = Stream.join([samples[number] for number in group])
            read = [Stream.join([other[number] for number in group]) for other in others]
            found = own._replace(tokens=self._mix_all(own.tokens, None, own.coords, read, own.sizes))
            for number, sample in zip(group, found.split() if own.sizes else [found], strict=True):
                mixed[number] = sample
        return torch.cat([sample.tokens for sample in mixed], dim=1)

    def probe(
        self,
        tokens: torch.Tensor,
        probe: Probe,
        coords: torch.Tensor | None = None,
        references: Sequence[Stream] = (),
    ) -> torch.Tensor:
        """Return what other tokens would become, each by itself, if it stood in for one of the tokens.

        Parameters
        ----------
        tokens : Tensor of shape (B, L, E)
            Tokens, as in `forward`.
        probe : Probe
            The other tokens.
        coords : Tensor of shape (B, L, d) or None, default=None
            Places of the tokens.
        references : sequence of Stream, default=()
            Reference streams, as in `forward`.

        Returns
        -------
        Tensor of shape (B, Q, E)
            The other tokens, mixed; that of a token itself is what `forward` gives.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define probe(tokens, probe, coords, references).")

    def _mix_all(
        self,
        tokens: torch.Tensor,
        grid: GridShape | None,
        coords: torch.Tensor | None,
        references: Sequence[Stream],
        sizes: tuple[int, ...] | None = None,
    ) -> torch.Tensor:
        """Call `mix` with what it takes, and check the shape of what it returns."""
        options: dict[str, Any] = {"coords": coords, "references": references} if self.takes_streams else {}
        if sizes is not None:
            options["sizes"] = sizes
        mixed = self.mix(tokens, grid, **options)
        if torch.compiler.is_compiling():
            return mixed
        if getattr(mixed, "shape", None) != tokens.shape:
            came = tuple(mixed.shape) if isinstance(mixed, torch.Tensor) else type(mixed).__name__
            raise ValueError(f"{type(self).__name__}.mix returned {came}, expected {tuple(tokens.shape)}.")
        return note_features("mixed", mixed, grid)


def grid_of_tokens(tokens: torch.Tensor, grid: GridShape | None, n_dims: int) -> GridShape:
    """Return the grid of tokens, or a single line of tokens where no grid is given.

    Parameters
    ----------
    tokens : Tensor of shape (B, L, E)
        Tokens.
    grid : tuple of int or None
        Number of tokens along each axis.
    n_dims : int
        Number of axes that the mixer was built for.

    Returns
    -------
    tuple of int
        Number of tokens along each axis.

    Raises
    ------
    ValueError
        If the number of axes or of tokens does not match.

    Examples
    --------
    >>> import torch
    >>> from skop.modules._mixer import grid_of_tokens
    >>> grid_of_tokens(torch.zeros(1, 6, 4), None, 1)
    (6,)
    """
    shape = tuple(tokens.shape[1:2]) if grid is None else tuple(grid)
    if len(shape) != n_dims or prod(shape) != tokens.shape[1]:
        raise ValueError(
            f"grid is {grid} for {tokens.shape[1]} tokens, but the mixer was built for n_dims={n_dims}; give the "
            "tokens along each of that many axes."
        )
    return shape
