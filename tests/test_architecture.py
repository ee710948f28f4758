"""Imports run one way, and every module states what it offers."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "skop"
BASE = {"_typing", "exceptions", "_optional"}
LOW = {"data", "ops", "losses", "metrics", "datasets"}
ALLOWED = {
    **dict.fromkeys(LOW, BASE),
    "datasets": BASE | {"data"},
    "modules": BASE | {"ops"},
    "networks": BASE | {"modules"},
    "training": BASE | {"data", "losses"},
    "estimators": BASE | LOW | {"training", "networks", "modules", "__init__"},
    "testing": BASE | {"data"},
    "inspection": BASE | LOW | {"estimators"},
    "bench": BASE | LOW | {"estimators", "inspection", "networks", "modules", "training", "__init__"},
    "cli": BASE | LOW | {"estimators", "inspection", "bench", "demo", "_demo", "__init__"},
    "demo": BASE | LOW | {"estimators", "inspection", "__init__"},
    "_demo": BASE | LOW | {"estimators", "inspection", "__init__"},
    "__main__": {"cli"},
    "__init__": {"data", "estimators"},
    "_typing": set(),
    "exceptions": set(),
    "_optional": {"exceptions"},
}
HEAVY = {"matplotlib", "h5py", "triton", "numba", "mamba_ssm", "pandas", "skfem"}
#: Packages of kernels and their compilers, and the files for them, which nothing imports but one another.
COMPILERS = {"numba": ("_simd", "_cpu"), "triton": ("_triton",), "mamba_ssm": ("_mamba_ssm",)}
SKLEARN_ROOMS = {"estimators", "metrics", "data", "datasets", "testing", "bench", "cli", "demo", "_demo"}
MODULES = sorted(ROOT.rglob("*.py"))


def room_of(path):
    """First part of a module's place below the package."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_modules(tree):
    """Every module named by an import, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path):
    room = room_of(path)
    for name, node in imported_modules(ast.parse(path.read_text())):
        top, _, rest = name.partition(".")
        if top != "skop":
            continue
        target = rest.partition(".")[0] or "__init__"
        assert target == room or target in ALLOWED[room], f"{path}:{node.lineno} imports {name} into {room}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_optional_packages_are_imported_on_use_only(path):
    tops = {name.partition(".")[0] for name, _ in imported_modules(ast.parse(path.read_text()))}
    tops -= {name for name, starts in COMPILERS.items() if path.stem.startswith(starts)}
    assert not tops & HEAVY, f"{path} imports {tops & HEAVY} directly; use skop._optional.import_optional"
    if "sklearn" in tops:
        assert room_of(path) in SKLEARN_ROOMS


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_kernels_are_imported_by_kernels_only(path):
    starts = tuple(start for group in COMPILERS.values() for start in group)
    imported = {name.rpartition(".")[2] for name, _ in imported_modules(ast.parse(path.read_text()))}
    kernels = {name for name in imported if name.startswith(starts)}
    assert not kernels or path.stem.startswith(starts), f"{path} imports {kernels}, which need a compiler"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_say_what_they_are(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), f"{path} lacks a docstring"
    is_public = all(not part.startswith("_") or part == "__init__.py" for part in path.relative_to(ROOT).parts)
    if is_public and path.parent.name != "presets":
        names = {
            ast.unparse(target)
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in getattr(node, "targets", [getattr(node, "target", None)])
        }
        assert "__all__" in names, f"{path} lacks __all__"


def test_the_rule_can_fail():
    tree = ast.parse("from skop.estimators import LaMORegressor")
    ((name, _),) = imported_modules(tree)
    assert name.split(".")[1] not in ALLOWED["data"]
