"""Import of optional packages, with an error message that names the package to install."""

from importlib import import_module
from types import ModuleType

from skop.exceptions import OptionalDependencyError

#: Distributions whose name is not that of their module.
_DISTRIBUTIONS = {"skfem": "scikit-fem", "neuralop": "neuraloperator", "vtkmodules": "vtk", "mamba_ssm": "mamba-ssm"}


def import_optional(name: str, *, purpose: str) -> ModuleType:
    """Import an optional package.

    Parameters
    ----------
    name : str
        Module to import, such as ``"matplotlib.pyplot"``.
    purpose : str
        Purpose of the package, as words that follow "needed to".

    Returns
    -------
    module
        Imported module.

    Raises
    ------
    OptionalDependencyError
        If the package is not installed. Errors inside an installed package are not changed.

    Examples
    --------
    >>> from skop._optional import import_optional
    >>> import_optional("json", purpose="read headers").dumps([1])
    '[1]'
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise OptionalDependencyError(
            f"{package} is needed to {purpose}, but it is not installed. "
            f"Install it with: pip install {_DISTRIBUTIONS.get(package, package)}"
        ) from error
