"""What README and docs say must run, and their links must lead somewhere."""

import ast
import contextlib
import importlib
import json
import pkgutil
import re
import shlex
import warnings
from itertools import chain
from pathlib import Path

import pytest

import skop
from benchmarks.__main__ import make_parser
from benchmarks._report import defaults_of, read_report
from skop.cli import main

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "skop/**/*.md", "datasets/**/*.md")
    for path in ROOT.glob(pattern)
    if not {"generated", "_build"} & set(path.relative_to(ROOT).parts)
)


def python_blocks(page):
    """Blocks of Python in a page; those that read downloaded files (path/to/...) cannot run."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    return [block for block in blocks if "path/to" not in block]


#: Pages with a test of their own.
ELSEWHERE = {"writing_an_operator.md", "command_line.md"}
EXECUTED = [
    page
    for page in PAGES
    if (page.parent == ROOT or ROOT / "docs" in page.parents) and page.name not in ELSEWHERE and python_blocks(page)
]


def without_numbers(text):
    """The words of a text, however its lines are broken."""
    return re.sub(r"\b([0-9a-f]{64}|\d[\w.,:+-]*)", "#", " ".join(text.split()))


#: Pages that are true only after as many epochs as they write.
TRAINED = {"README.md", "base_model.md", "training.md"}


@pytest.mark.parametrize("page", EXECUTED, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # The pages are about the interface: nothing needs to be compiled for them.
    monkeypatch.setenv("SKOP_BACKEND", "torch")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    names = {}
    with warnings.catch_warnings():
        for block in python_blocks(page):
            if page.name not in TRAINED:
                block = re.sub(r'(max_iter(=|": ))\d+', r"\g<1>1", block)
            exec(compile(block, str(page), "exec"), names)
    pyplot.close("all")
    if page.name == "README.md":
        assert (tmp_path / "darcy.skop").exists()
        # The mean field reaches 0.75 on these data, so this fit has learned something.
        assert names["model"].score(names["X_test"], names["y_test"]) > 0.85
    if page.name == "saving.md":
        # The model is that of the page, whatever the numbers of a run.
        shown = re.search(r"```text\n(model\.skop: .*?)```", page.read_text(), flags=re.DOTALL)[1]
        capsys.readouterr()
        assert main(["describe", "model.skop"]) == 0
        assert without_numbers(capsys.readouterr().out) == without_numbers(shown)


def test_commands_and_python_of_the_command_line_run_in_their_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKOP_BACKEND", "torch")
    text = (ROOT / "docs/user_guide/command_line.md").read_text()
    names, n_commands = {}, 0
    for language, block in re.findall(r"```(python|bash)\n(.*?)```", text, flags=re.DOTALL):
        if language == "python":
            exec(compile(block, "command_line.md", "exec"), names)
            continue
        for line in block.splitlines():
            program, *words = shlex.split(line)
            assert program == "skop"
            assert main(words) == 0, f"{line}: {capsys.readouterr().err}"
            n_commands += 1
    assert n_commands == 16
    assert sorted(path.name for path in (tmp_path / "predicted").iterdir()) == ["run_1.vtu", "run_2.vtu"]


def test_every_page_of_the_user_guide_with_code_is_executed():
    guide = {page.stem for page in EXECUTED if page.parent.name == "user_guide"}
    without_code = {"index", "command_line"}
    assert guide == {page.stem for page in (ROOT / "docs/user_guide").glob("*.md")} - without_code


def test_numbers_that_decide_are_those_of_the_source(choice_repeated):
    text = (ROOT / "docs/user_guide/choices.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)\.(\w+)` \| (\S.*?) \|", text, flags=re.MULTILINE)
    assert len(rows) > 15
    for module, name, value in rows:
        assert getattr(importlib.import_module(f"skop.estimators.{module}"), name) == ast.literal_eval(value), name


def test_links_lead_somewhere():
    targets = [
        (page.relative_to(ROOT), target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target
    ]
    assert not [pair for pair in targets if not (ROOT / pair[0]).parent.joinpath(pair[1]).exists()]


#: Measurements that a command wrote: pages with a file of their numbers.
MEASURED = [page for page in PAGES if page.with_suffix(".json").exists()]
PARSER = make_parser()
#: Parameters that are younger than a page and whose defaults stand for what was done before them.
KEPT = frozenset(
    {
        "grid", "training__subsample_points",
        # But for periodic fields: pages that have some say so.
        "symmetries__periodic",
        # Until parts were parameters some networks had these, and their estimators had no parameter.
        "patches__coordinate_channels", "patches__init", "patches__lifting_width", "patches__pad_to_multiple",
        "latents__normalize", "latents__parameter_embedding", "latents__position_network", "latents__shared",
        "latents__temperature", "latents__weight_init",
        # One parameter for both was "auto", which stood for these numbers.
        "patches__n_frequencies", "latents__n_frequencies",
    }
)  # fmt: skip


def why_old(page):
    """What of a measurement is not today's: changed defaults, commands that do not run; empty if nothing is."""
    text, (_, recorded) = page.read_text(), read_report(page)
    if recorded is None:
        return [f"{page.with_suffix('.json').name} does not say which defaults it was measured with"]
    changes = []
    for name, earlier in recorded.items():
        today = {part: value for part, value in defaults_of(name).items() if part in earlier or part not in KEPT}
        for part in sorted(earlier.keys() | today.keys()):
            before, now = (found.get(part, "no parameter") for found in (earlier, today))
            changes += [f"{name}: {part} was {before!r} and is {now!r}"] if before != now else []
    for words in re.findall(r"`python -m benchmarks ([^`]+)`", text):
        with contextlib.suppress(SystemExit):
            PARSER.parse_args(shlex.split(words))
            continue
        changes.append(f"the command is no longer one: {words}")
    return changes


def test_measurements_are_those_of_todays_defaults_or_say_that_they_are_older(subtests):
    for page in MEASURED:
        changes = why_old(page)
        says_so = re.search(r"^Measured before ", page.read_text().split("\n## ")[0], flags=re.MULTILINE)
        with subtests.test(page.stem):
            assert not changes or says_so, (
                f"{page.name} is older than today's defaults: {'; '.join(changes)}. Run its command again, or begin "
                "the page with a sentence 'Measured before ...' that says what has changed. If only a parameter is "
                "new, and its default stands for what was done before, add it to KEPT."
            )


def test_measurements_that_pages_name_exist():
    texts = [path.read_text() for path in (*PAGES, *ROOT.glob("benchmarks/papers/*.toml"))]
    named = {word for text in texts for word in re.findall(r"python -m\s+benchmarks\s+([a-z][a-z-]*)", text)}
    assert named <= set(PARSER._subparsers._group_actions[0].choices)


def test_a_measurement_with_another_default_or_without_a_record_is_old(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n`python -m benchmarks phase-error --budgets 60`\n")
    content = {"row": {"error": 0.25}, "defaults": {"PODRegressor": defaults_of("PODRegressor")}}
    file = page.with_suffix(".json")
    file.write_text(json.dumps(content))
    assert why_old(page) == []
    content["defaults"]["PODRegressor"] |= {"n_components": 0.99, "gone": 1}
    del content["defaults"]["PODRegressor"]["regressor"]
    file.write_text(json.dumps(content))
    assert [words.split(" ")[1] for words in why_old(page)] == ["gone", "n_components", "regressor"]
    file.write_text(json.dumps({"row": {}, "defaults": {}}))
    page.write_text("# Page\n\n`python -m benchmarks phase-error --no-such-option`\n")
    assert ["command" in words for words in why_old(page)] == [True]
    file.write_text(json.dumps({"row": {}}))
    assert "does not say" in why_old(page)[0]


def test_the_reference_lists_every_public_package():
    """Packages of the API reference are those with public names; estimators are public in `skop` itself."""
    tree = ast.parse((ROOT / "docs/conf.py").read_text())
    listed = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.AnnAssign | ast.Assign) and "PACKAGES" in ast.unparse(node).partition("=")[0]
    )
    # Commands (`skop.cli`) are described by their --help.
    apart = {"skop.estimators", "skop.cli"}
    modules = [f"skop.{module.name}" for module in pkgutil.iter_modules(skop.__path__) if module.name[0] != "_"]
    public = {name for name in modules if getattr(importlib.import_module(name), "__all__", [])}
    assert set(listed) == {"skop"} | public - apart
    assert set(importlib.import_module("skop.estimators").__all__) <= set(skop.__all__)


def test_words_that_a_reader_searches_for_are_in_the_docs():
    text = "\n".join(page.read_text() for page in PAGES).lower()
    words = (
        *("simd", "threads", "threading", "exponential moving average (ema)", "autoregressive", "super-resolution"),
        *("mini-batch", "learning rate schedule", "gradient clipping", "early stopping", "data augmentation"),
        *("checkpoint", "mixed precision", "positional encoding", "latent token"),
    )
    assert not [word for word in words if word not in text]


def test_readme_commands_are_those_of_the_project():
    readme = (ROOT / "README.md").read_text()
    assert 'pip install -c constraints.txt ".[demo]" && skop demo' in readme
    line = 'pip install -c constraints.txt -e ".[test]" && pytest'
    assert line in readme
    assert set(line.split(" && ")) <= set((ROOT / ".ci/run").read_text().splitlines())
    site = 'pip install -c constraints.txt -e ".[docs]" && sphinx-build -W docs docs/_build'
    assert site in (ROOT / "CONTRIBUTING.md").read_text()


def test_package_states_ranges_and_constraints_pin():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any("==" in requirement for requirement in project["dependencies"])
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert all("==" in pin for pin in pins)
    pinned = {pin.partition("==")[0].lower().replace("_", "-") for pin in pins}
    assert {re.split(r"[<>=]", requirement)[0] for requirement in project["dependencies"]} <= pinned
    extras = project["optional-dependencies"]
    assert {re.split(r"[<>=]", requirement)[0].lower() for requirement in extras["docs"][1:]} <= pinned
    # Those of the lowest versions are the lowest that the package allows.
    oldest = (ROOT / "constraints-oldest.txt").read_text()
    listed = [extras[name] for name in ("plot", "data", "fem", "mesh", "export", "dask")]
    for requirement in (*project["dependencies"], *chain.from_iterable(listed)):
        name, lowest = re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", requirement).groups()
        assert re.search(rf"^{name}=={re.escape(lowest)}(\.\d+)*( |$)", oldest, flags=re.MULTILINE), requirement
