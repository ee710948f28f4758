"""Networks around others: over a base, whose predictions are corrected or blended, or over the last frame.

Notation: B samples of a batch, P points, T points of packed samples, Q query points, c input channels, p global
parameters, q output channels, s scalars.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from skop._typing import FloatArray
from skop.networks import Outputs

__all__ = ["CorrectionNetwork", "IncrementNetwork", "WrappingNetwork", "network_within"]


class WrappingNetwork(nn.Module):
    """Base class of the networks around another one.

    Parameters
    ----------
    network : OperatorNetwork
        Network within.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def __getattr__(self, name: str) -> Any:
        # Descriptions of the network, such as its blocks, have the same names as without another around it.
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("network"), name)


def network_within(network: Any) -> Any:
    """Return the network that others are around: over the last frame, and that over a base.

    Parameters
    ----------
    network : nn.Module
        Network, with or without others around it.

    Returns
    -------
    nn.Module
        The innermost one.
    """
    while isinstance(network, WrappingNetwork):
        network = network.network
    return network


class IncrementNetwork(WrappingNetwork):
    """Network of time steps: it learns the change since the last frame among its inputs, to which this is added.

    The frames are input fields if the outputs are fields, and global parameters if they are scalars. Channels whose
    factor is 0 are learned as they are.

    Parameters
    ----------
    network : OperatorNetwork
        Network.
    first : int
        Number of the first channel of the last frame among those of the inputs.
    count : int
        Number q of its channels, which is that of the outputs.

    Attributes
    ----------
    frame : slice
        Channels of the last frame.
    factor, shift : Tensor of shape (q,)
        Factor and shift by which the scaled last frame becomes a scaled output.
    size : Tensor of shape (q,)
        Units of the outputs of the network.
    """

    frame: slice

    def __init__(self, network: nn.Module, first: int, count: int) -> None:
        super().__init__(network)
        self.frame = slice(first, first + count)
        # In double precision until the network has its own.
        self.register_buffer("factor", torch.ones(count, dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(count, dtype=torch.float64))
        self.register_buffer("size", torch.ones(count, dtype=torch.float64))

    def set_units(self, factor: FloatArray, shift: FloatArray, size: FloatArray) -> None:
        """Set factor, shift and size, each ``(q,)``."""
        for name, value in (("factor", factor), ("shift", shift), ("size", size)):
            getattr(self, name).copy_(torch.as_tensor(value))

    def forward(
        self,
        *,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        query_fields: torch.Tensor | None = None,
        **arguments: Any,
    ) -> Outputs:
        """Add the outputs of the network to the last frame.

        Parameters
        ----------
        fields, params, query_fields : Tensor or None
            Inputs ``(B, P, c)`` or packed ``(T, c)``, ``(B, p)`` and ``(B, Q, c)``, as for
            `skop.networks.OperatorNetwork`.
        **arguments
            Further arguments of the network.

        Returns
        -------
        Outputs
            Field or scalars.
        """
        at = fields
        if "query_coords" in arguments:
            at = arguments["query_fields"] = query_fields
        field, scalars = self.network(fields=fields, params=params, **arguments)
        return Outputs(self._added(at, field), self._added(params, scalars))

    def _added(self, inputs: torch.Tensor | None, output: torch.Tensor | None) -> torch.Tensor | None:
        """Add an output of the network, which autocast may have made narrower, to the last frame among inputs."""
        if inputs is None or output is None:
            return output
        return inputs[..., self.frame] * self.factor + self.shift + self.size * output.to(inputs.dtype)


class CorrectionNetwork(WrappingNetwork):
    """Network over a base model: it learns the residual of the base, or the whole map.

    Parameters
    ----------
    network : OperatorNetwork
        Network. If it learns the residual of the base, it has q further input channels and s further global
        parameters, which are the predictions of the base.
    n_outputs, n_scalars : int
        Numbers q and s of output channels and scalars.
    learns_rest : bool, default=True
        Whether the network learns the residual of the base.

    Attributes
    ----------
    field_size, scalar_size : Tensor of shape (q,), (s,)
        Root mean square of the residual of the base: the unit of the correction by the network.
    field_share, scalar_share : Tensor of shape (q,), (s,)
        Weight of the network in the prediction, from 0 (base alone) to 1 (as in the training).
    """

    def __init__(self, network: nn.Module, n_outputs: int, n_scalars: int, learns_rest: bool = True) -> None:
        super().__init__(network)
        self.learns_rest = learns_rest
        for name, count in (("field", n_outputs), ("scalar", n_scalars)):
            self.register_buffer(f"{name}_size", torch.ones(count))
            self.register_buffer(f"{name}_share", torch.ones(count))

    def set_sizes(self, field: FloatArray | None, scalars: FloatArray | None) -> None:
        """Set the units of the outputs, ``(q,)`` and ``(s,)``."""
        for name, sizes in (("field_size", field), ("scalar_size", scalars)):
            if sizes is not None:
                getattr(self, name).copy_(torch.as_tensor(sizes))

    def set_shares(self, field: FloatArray | None, scalars: FloatArray | None) -> None:
        """Set the shares of the network, ``(q,)`` and ``(s,)``."""
        for name, shares in (("field_share", field), ("scalar_share", scalars)):
            if shares is not None:
                getattr(self, name).copy_(torch.as_tensor(shares))

    @contextmanager
    def shares_restored_on_failure(self) -> Iterator[None]:
        """Set the shares back to what they were where the block fails, such as a fit that goes on with the network."""
        before = self.field_share.clone(), self.scalar_share.clone()
        try:
            yield
        except BaseException:
            self.field_share.copy_(before[0])
            self.scalar_share.copy_(before[1])
            raise

    @property
    def is_base_alone(self) -> bool:
        """Whether the network has no share in any output."""
        return not (bool(self.field_share.any()) or bool(self.scalar_share.any()))

    def use_base(self) -> None:
        """Use the base model alone."""
        self.field_share.fill_(0.0)
        self.scalar_share.fill_(0.0)

    def use_whole(self) -> None:
        """Use the network alone, as in the training."""
        self.field_share.fill_(1.0)
        self.scalar_share.fill_(1.0)

    def forward(
        self,
        *,
        fields: torch.Tensor | None,
        params: torch.Tensor | None,
        base: torch.Tensor | None = None,
        base_scalars: torch.Tensor | None = None,
        query_fields: torch.Tensor | None = None,
        query_base: torch.Tensor | None = None,
        **arguments: Any,
    ) -> Outputs:
        """Combine the outputs of the network with the predictions of the base model.

        Parameters
        ----------
        fields, params, query_fields : Tensor or None
            Inputs of the samples, as for `skop.networks.OperatorNetwork`.
        base, base_scalars : Tensor or None, default=None
            Predictions of the base model at the points of the samples, ``(B, P, q)`` or packed ``(T, q)``, and of
            scalars ``(B, s)``. Without any the outputs are those of the network.
        query_base : Tensor of shape (B, Q, q) or None, default=None
            Predictions of the base model at the query points, if there are any.
        **arguments
            Further arguments of the network.

        Returns
        -------
        Outputs
            Field and scalars.
        """
        at = query_base if "query_coords" in arguments else base
        # In the training the shares are 1. A graph that is exported cannot depend on the values of tensors.
        fixed = self.training or torch.compiler.is_exporting() or (base is None and base_scalars is None)
        if not fixed and self.is_base_alone:
            return Outputs(at, base_scalars)
        inputs = {"fields": fields, "params": params}
        if "query_coords" in arguments:
            arguments["query_fields"] = _joined(query_fields, query_base) if self.learns_rest else query_fields
        if self.learns_rest:
            inputs = {"fields": _joined(fields, base), "params": _joined(params, base_scalars)}
        field, scalars = self.network(**inputs, **arguments)
        return Outputs(
            self._combined(at, field, self.field_size, self.field_share),
            self._combined(base_scalars, scalars, self.scalar_size, self.scalar_share),
        )

    def _combined(
        self, base: torch.Tensor | None, output: torch.Tensor | None, size: torch.Tensor, share: torch.Tensor
    ) -> torch.Tensor | None:
        """Combine predictions of the base with an output of the network, which autocast may have made narrower."""
        if base is None or output is None:
            return output
        output = output.to(base.dtype)
        found = torch.lerp(base, base + size * output if self.learns_rest else output, share)
        if self.learns_rest or self.training or torch.compiler.is_exporting():
            return found
        # The base is NaN where it knows nothing of a sample.
        return torch.where(base.isnan(), output, found)


def _joined(values: torch.Tensor | None, further: torch.Tensor | None) -> torch.Tensor | None:
    """Append channels to others, if there are any of both."""
    if values is None or further is None:
        return further if values is None else values
    return torch.cat([values, further], dim=-1)


# ---------------------------------------------------------------------- targets
