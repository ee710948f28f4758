"""Import of optional packages, with an error message that names the extra to install."""

from importlib import import_module
from types import ModuleType

from skop.exceptions import OptionalDependencyError


def import_optional(name: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional package.

    Parameters
    ----------
    name : str
        Module to import, such as ``"matplotlib.pyplot"``.
    extra : str
        Extra of skop that installs it, such as ``"plot"``.
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
    >>> import_optional("json", extra="data", purpose="read headers").dumps([1])
    '[1]'
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise OptionalDependencyError(
            f"{package} is needed to {purpose}, but it is not installed. Install it with: pip install 'skop[{extra}]'"
        ) from error
