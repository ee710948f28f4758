"""Imports run one way, and every module states what it offers.

Each rule is a function from the parsed modules to its offenders, so that one test lists them all.
"""

import ast
import gc
import sys
from collections import namedtuple
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
ROOT = CHECKOUT / "skop"
BASE = {
    *("_typing", "exceptions", "_optional", "_sklearn_compat", "_parameters", "_version", "_threads", "_draws"),
    *("_files", "_jobs"),
}
LOW = {"data", "ops", "losses", "metrics", "datasets"}
#: Parts of the package (packages and modules below `skop`), the benchmarks beside it, and those that each may import.
ALLOWED = {
    **dict.fromkeys(LOW, BASE),
    "datasets": BASE | {"data"},
    "modules": BASE | {"ops"},
    "parts": BASE | {"modules"},
    "networks": BASE | {"modules", "parts"},
    "training": BASE | {"data", "losses"},
    "surrogate": BASE | {"data", "ops", "modules", "networks", "training"},
    "estimators": BASE | LOW | {"surrogate", "training", "networks", "modules", "parts"},
    "testing": BASE | {"data"},
    "inspection": BASE | LOW | {"estimators", "surrogate", "modules"},
    "cli": BASE | LOW | {"estimators", "inspection", "_demo"},
    "_demo": BASE | LOW | {"estimators", "inspection"},
    "__main__": {"cli"},
    "benchmarks": BASE | LOW | {"estimators", "surrogate", "inspection", "networks", "modules", "parts", "training"},
    "__init__": BASE | LOW | {"estimators", "inspection", "modules", "networks", "parts", "testing", "training"},
    **{name: set() for name in BASE},
    "_optional": {"exceptions"},
    "_parameters": {"_sklearn_compat"},
}
#: Halls of the estimators, the lowest first; each may import those below it, and none above.
HALLS = (
    *({"_options"}, {"files"}, {"_field", "_parts", "_reading", "_streams", "_weights"}, {"classical"}, {"fitting"}),
    *({"operators"}, {"_wrapper"}, {"temporal"}, {"selection"}, {"uncertainty"}, {"_law"}, {"__init__"}),
)
HEAVY = {"matplotlib", "h5py", "triton", "numba", "mamba_ssm", "pandas", "skfem", "pyvista", "zarr", "pooch"}
#: Packages of kernels and their compilers, and the files for them, which nothing imports but one another.
COMPILERS = {"numba": ("_simd", "_cpu"), "triton": ("_triton",), "mamba_ssm": ("_mamba_ssm",)}
KERNEL_FILES = tuple(start for group in COMPILERS.values() for start in group)
#: Compiles loops of its own to compare with; it imports them, and the compiler, inside functions only.
ABLATION = "_kernel_ablation"
SKLEARN_PARTS = {
    "_sklearn_compat", "_parameters", "estimators", "metrics", "data", "datasets", "testing", "inspection", "cli",
    "_demo", "benchmarks",
}  # fmt: skip
PRIVATE_SKLEARN = "_sklearn_compat.py"

#: A parsed file: its place below the package (of a benchmark below the checkout), the part that it belongs to, its
#: tree, and what it imports as pairs of a line and a full name (`from a.b import c` is `a.b.c`).
Module = namedtuple("Module", ["place", "part", "tree", "imports"])


def parse(place, source):
    """Parse the source of a module at a place below the package."""
    tree = ast.parse(source)
    imports = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{place}:{node.lineno} imports by a relative name"
            imports += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return Module(Path(place), Path(place).parts[0].removesuffix(".py"), tree, imports)


@pytest.fixture(scope="module")
def modules():
    places = [(path, ROOT) for path in sorted(ROOT.rglob("*.py"))]
    places += [(path, CHECKOUT) for path in sorted(CHECKOUT.glob("benchmarks/*.py"))]
    # Of trees nothing is garbage, and most of the time would go into looking for it.
    gc.disable()
    try:
        return [parse(path.relative_to(folder), path.read_text()) for path, folder in places]
    finally:
        gc.enable()


def wrong_directions(modules):
    """Imports of a part from a part that may not know it; `from skop import name` is an import of its `__init__`."""
    for module in modules:
        for line, name in module.imports:
            top, _, rest = name.partition(".")
            target = rest.partition(".")[0] if top == "skop" else top
            target = target if target in ALLOWED else "__init__"
            if top in {"skop", "benchmarks"} and target != module.part and target not in ALLOWED[module.part]:
                yield f"{module.place}:{line} imports {name}"


def wrong_halls(modules):
    """Imports of a hall of the estimators from a hall below it."""
    floor = {name: number for number, names in enumerate(HALLS) for name in names}
    for module in modules:
        if module.part != "estimators":
            continue
        own = floor[module.place.parts[1].removesuffix(".py")]
        for line, name in module.imports:
            parts = name.split(".")
            if parts[:2] == ["skop", "estimators"] and floor.get(parts[2], len(HALLS)) > own:
                yield f"{module.place}:{line} imports {name}"


def heavy_imports(modules):
    """Direct imports of packages that are optional or slow to import, other than those of a kernel's own compiler."""
    for module in modules:
        own = {name for name, starts in COMPILERS.items() if module.place.stem.startswith((*starts, ABLATION))}
        for line, name in module.imports:
            if name.partition(".")[0] in HEAVY - own:
                yield f"{module.place}:{line} imports {name}; use skop._optional.import_optional"


def sklearn_elsewhere(modules):
    """Imports of scikit-learn by parts that are to work without it."""
    for module in modules:
        for line, name in module.imports:
            if name.partition(".")[0] == "sklearn" and module.part not in SKLEARN_PARTS:
                yield f"{module.place}:{line} imports {name}"


def private_sklearn_names(modules):
    """Imports of scikit-learn's private names other than in the file for them."""
    for module in modules:
        for line, name in module.imports:
            top, *parts = name.split(".")
            private = any(part.startswith("_") and not part.endswith("__") for part in parts)
            if top == "sklearn" and private and str(module.place) != PRIVATE_SKLEARN:
                yield f"{module.place}:{line} imports {name}; use skop.{PRIVATE_SKLEARN.removesuffix('.py')}"


def kernels_elsewhere(modules):
    """Imports of kernels by files that are to be imported without their compiler."""
    for module in modules:
        for line, name in module.imports:
            is_kernel = any(part.startswith(KERNEL_FILES) for part in name.split("."))
            if is_kernel and name.startswith("skop.") and not module.place.stem.startswith((*KERNEL_FILES, ABLATION)):
                yield f"{module.place}:{line} imports {name}, which needs a compiler"


def torch_before_threads(modules):
    """Parts that import torch, but not `skop._threads` before everything else in their first file."""
    # Commands import torch inside functions, so that their --help is quick.
    users = {module.part for module in modules if any(name.partition(".")[0] == "torch" for _, name in module.imports)}
    for module in modules:
        is_first = str(module.place) in (f"{module.part}/__init__.py", f"{module.part}.py")
        names = [name for _, name in module.imports if name.partition(".")[0] not in sys.stdlib_module_names]
        if is_first and module.part in users - BASE - {"cli"} and names[:1] != ["skop._threads"]:
            yield f"{module.place} does not begin with import skop._threads"


def undocumented_modules(modules):
    """Modules without a docstring."""
    return [str(module.place) for module in modules if not ast.get_docstring(module.tree)]


def public_modules_without_a_list(modules):
    """Public modules that do not list their public names in `__all__`."""
    for module in modules:
        is_public = all(not part.startswith("_") or part == "__init__.py" for part in module.place.parts)
        names = {
            ast.unparse(target)
            for node in module.tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in getattr(node, "targets", [getattr(node, "target", None)])
        }
        if is_public and module.place.parent.name != "presets" and "__all__" not in names:
            yield str(module.place)


#: Each rule with a module that breaks it: its place and its source.
RULES = {
    wrong_directions: ("data/_rows.py", "from skop.estimators import LaMORegressor"),
    wrong_halls: ("estimators/classical/_pod.py", "from skop.estimators.operators._lamo import LaMORegressor"),
    heavy_imports: ("inspection/_display.py", "def plot():\n    from matplotlib import pyplot"),
    sklearn_elsewhere: ("ops/_scan.py", "import sklearn.base"),
    private_sklearn_names: ("estimators/_base.py", "from sklearn.base import _fit_context"),
    kernels_elsewhere: ("ops/_dispatch.py", "from skop.ops import _cpu_threads"),
    torch_before_threads: ("data/__init__.py", "import torch\nimport skop._threads"),
    undocumented_modules: ("data/_rows.py", "rows = 1"),
    public_modules_without_a_list: ("data/rows.py", '"""Rows."""'),
}


def test_no_module_breaks(modules, subtests):
    for rule in RULES:
        with subtests.test(rule=rule):
            assert len(modules) > 100
            offenders = list(rule(modules))
            assert not offenders, "\n".join(offenders)


def test_a_module_can_break(subtests):
    for rule in RULES:
        with subtests.test(rule=rule):
            assert len(list(rule([parse(*RULES[rule])]))) == 1


def test_a_part_below_cannot_import_the_package_itself():
    assert len(list(wrong_directions([parse("estimators/_base.py", "from skop import __version__\nimport skop")]))) == 2
    assert not list(wrong_directions([parse("estimators/_base.py", "from skop import losses\nimport skop.losses")]))
