"""Sphinx configuration: `sphinx-build -W docs docs/_build` builds the site without a network connection.

Nothing is written twice. The API reference lists the `__all__` of every public package. Pages that live elsewhere in
the repository (contributing, changelog, data set cards, READMEs of `skop.ops`) are copied into `docs/generated` with
their links adjusted. Both happen when this file is read, before Sphinx looks for source files.
"""

import importlib
import inspect
import logging
import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
GENERATED = DOCS / "generated"

# Pictures are drawn without a display. Examples are small, so one thread and the scans in plain torch are the fastest:
# nothing has to be compiled.
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("SKOP_BACKEND", "torch")
sys.path.insert(0, str(ROOT))
# scikit-fem logs every assembly, which would fill the pages of the gallery.
logging.getLogger("skfem").setLevel(logging.WARNING)

import skop  # noqa: E402

# -- Project ---------------------------------------------------------------------------------------------------------

project = "skop"
author = "The skop developers"
project_copyright = "the skop developers, BSD-3-Clause"
version = release = skop.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "generated/backreferences", "generated/api_table.md"]
templates_path = ["_templates"]
# Single backticks in docstrings become links where they name something of skop, and code everywhere else.
default_role = "py:obj"

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "skop"
html_show_sourcelink = False
html_static_path: list[str] = []

autodoc_typehints = "none"
autodoc_member_order = "groupwise"
autosummary_generate = True
autosummary_ignore_module_all = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"plot_.*\.py$",
    "within_subsection_order": "ExampleTitleSortKey",
    "doc_module": ("skop",),
    "backreferences_dir": "generated/backreferences",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    # Each example computes on one thread.
    "parallel": min(2, os.cpu_count() or 1),
    "remove_config_comments": True,
    "abort_on_example_error": False,
}

# -- API reference ---------------------------------------------------------------------------------------------------

#: Public packages, in the order of the reference, and what each is for.
PACKAGES = {
    "skop": "Estimators, the container of fields, and loading of model files.",
    "skop.data": "The container of fields and the reading of grids, point sets and meshes.",
    "skop.datasets": "Generators (`make_*`) and readers of published files (`load_*`).",
    "skop.metrics": "Errors and scores on arrays, and scorers for searches.",
    "skop.losses": "Training losses on tensors.",
    "skop.inspection": "Descriptions of data, comparisons and reports; displays of fields, errors and networks.",
    "skop.exceptions": "Errors and warnings.",
    "skop.ops": "Differentiable scans with fused kernels, and rational functions that are orthonormal on the circle.",
    "skop.modules": "Building blocks of networks of your own, as `torch.nn.Module`.",
    "skop.networks": "Base classes of networks, and what an estimator calls one with.",
    "skop.parts": "Parts of the operators, which are parameters themselves: patches, latent tokens, mixers, hosts.",
    "skop.testing": "Checks for estimators of fields, for skop's own and for those of others.",
}


def write(path: Path, text: str) -> None:
    """Write a file unless it holds the text already, so that an incremental build stays incremental."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def write_api_pages() -> None:
    """Write one page a public package, with a table of its public names, and an overview."""
    first_place: dict[int, str] = {}
    for package, purpose in PACKAGES.items():
        module = importlib.import_module(package)
        tables: dict[str, list[str]] = {"Classes": [], "Functions": [], "Also in this package": []}
        data = []
        for name in sorted((name for name in module.__all__ if not name.startswith("__")), key=str.lower):
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isroutine(value)):
                data += [f".. py:data:: {name}", "", f"   {describe(value)}", ""]
            elif id(value) in first_place:
                tables["Also in this package"].append(first_place[id(value)])
            else:
                first_place[id(value)] = f"{package}.{name}"
                tables["Classes" if inspect.isclass(value) else "Functions"].append(name)
        lines = [
            f"{package}",
            "=" * len(package),
            "",
            purpose.replace("`", "``"),
            "",
            f".. currentmodule:: {package}",
            "",
        ]
        for title, members in tables.items():
            if members:
                # A name that another package lists too has its page there.
                pages = [] if title.startswith("Also") else ["   :toctree: ../api_members"]
                lines += [title, "-" * len(title), "", ".. autosummary::", *pages, ""]
                lines += [f"   {name}" for name in members] + [""]
        if data:
            lines += ["Constants and scorers", "---------------------", "", *data]
        write(GENERATED / "api" / f"{package}.rst", "\n".join(lines))
    rows = [f"| [{package}](generated/api/{package}.rst) | {purpose} |" for package, purpose in PACKAGES.items()]
    toctree = ["```{toctree}", ":hidden:", "", *(f"generated/api/{package}" for package in PACKAGES), "```"]
    write(GENERATED / "api_table.md", "\n".join(["| package | holds |", "|---|---|", *rows, "", *toctree, ""]))


def describe(value: object) -> str:
    """Give a short text for a public name that is neither a class nor a function."""
    if isinstance(value, dict):
        value = tuple(value)
    if isinstance(value, (tuple, list, set, frozenset)) and all(isinstance(item, (str, int, float)) for item in value):
        return "One of " + ", ".join(f"``{item!r}``" for item in value) + "."
    text = re.sub(r"<function (\w+) at 0x\w+>", r"\1", repr(value))
    return f"``{text}``"


# -- Pages that live outside docs/ -----------------------------------------------------------------------------------


def outside_pages() -> dict[Path, Path]:
    """Give the page under `docs/generated` of every Markdown file that the site takes from elsewhere."""
    pages = {
        ROOT / "CONTRIBUTING.md": GENERATED / "contributing.md",
        ROOT / "CHANGELOG.md": GENERATED / "changelog.md",
        ROOT / "SECURITY.md": GENERATED / "security.md",
    }
    pages |= {card: GENERATED / "cards" / f"{card.parent.name}.md" for card in ROOT.glob("datasets/*/README.md")}
    pages |= {page: GENERATED / "ops" / f"{page.parent.name}.md" for page in ROOT.glob("skop/ops/*/README.md")}
    return pages


def in_the_site(target: Path) -> Path | None:
    """Give the source file in the site for a file of the repository; None where the site has no page for it."""
    if target.parent == ROOT / "examples":
        return GENERATED / "gallery" / ("index.rst" if target.suffix == ".rst" else f"{target.stem}.rst")
    if target in OUTSIDE:
        return OUTSIDE[target]
    return target if target.is_relative_to(DOCS) else None


def adjust_links(text: str, source: Path, page: Path) -> str:
    """Make the relative links of a Markdown file of the repository lead to pages of the site."""

    def adjusted(link: re.Match) -> str:
        is_picture, label, target, anchor = link.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return link.group()
        if is_picture:
            return f"![{label}]({os.path.relpath((source.parent / target).resolve(), page.parent)})"
        place = in_the_site((source.parent / target).resolve())
        if place is None:
            return label
        return f"[{label}]({os.path.relpath(place, page.parent)}{anchor or ''})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)", adjusted, text)


OUTSIDE = outside_pages()


def copy_outside_pages() -> None:
    """Copy the pages from outside, and write the lists that lead to them."""
    for source, page in OUTSIDE.items():
        write(page, adjust_links(source.read_text(encoding="utf-8"), source, page))
    for folder, title in (("cards", "Data set cards"), ("ops", "Derivations of the scans and bases")):
        members = sorted(page.stem for page in OUTSIDE.values() if page.parent.name == folder)
        toctree = ["```{toctree}", ":maxdepth: 1", "", *(f"{folder}/{name}" for name in members), "```"]
        write(GENERATED / f"{folder}.md", "\n".join([f"# {title}", "", *toctree, ""]))


def remove_old_pages() -> None:
    """Remove pages of an earlier build whose source is gone, which no list leads to any more."""
    members = {f"{package}.{name}" for package in PACKAGES for name in importlib.import_module(package).__all__}
    expected = {"api": set(PACKAGES), "api_members": members}
    expected |= {
        folder: {page.stem for page in OUTSIDE.values() if page.parent.name == folder} for folder in ("cards", "ops")
    }
    for folder, names in expected.items():
        for page in GENERATED.glob(f"{folder}/*"):
            if page.stem not in names:
                page.unlink()


copy_outside_pages()
write_api_pages()
remove_old_pages()

# -- Hooks -----------------------------------------------------------------------------------------------------------


def adjust_page(app: object, docname: str, content: list[str]) -> None:
    """Adjust the links of a page of `docs/` before it is parsed."""
    page = DOCS / f"{docname}.md"
    if page.exists() and not page.is_relative_to(GENERATED):
        content[0] = adjust_links(content[0], page, page)


def escape_docstring(app: object, what: str, name: str, member: object, options: object, lines: list[str]) -> None:
    """Escape what reStructuredText would read as markup in a docstring written as plain text.

    Examples are ``(n, *grid, c)``, ``|e|`` and ``mean_``. Code between backticks, doctests and literal blocks stay.
    """
    in_doctest, literal_indent = False, None
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        in_doctest = bool(line.strip()) and (in_doctest or line.lstrip().startswith(">>>"))
        if literal_indent is not None and line.strip() and indent <= literal_indent:
            literal_indent = None
        if not in_doctest and literal_indent is None:
            parts = re.split(r"(``.*?``|`.*?`)", line)
            lines[number] = "".join(part if part.startswith("`") else escape(part) for part in parts)
            if line.rstrip().endswith("::"):
                literal_indent = indent


def escape(text: str) -> str:
    """Escape bars, lone asterisks and trailing underscores."""
    text = re.sub(r"(?<!\\)\|", r"\\|", text)
    text = re.sub(r"(?<![\w*\\])\*(?=\w)(?![^*]*\w\*(?!\w))", r"\\*", text)
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", text)


def skip_member(app: object, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out the methods that scikit-learn writes for metadata routing, whose text links into its own site."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app: object) -> None:
    """Connect the hooks."""
    app.connect("source-read", adjust_page)
    app.connect("autodoc-skip-member", skip_member)
    # Before numpydoc, which has the default priority of 500.
    app.connect("autodoc-process-docstring", escape_docstring, priority=400)
