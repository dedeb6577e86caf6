"""The direction of imports, the public names, and what a plain import costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import reagent

SOURCE = Path(reagent.__file__).parent

# A row imports only rows above it (and itself).
ROWS = [
    {"_version", "errors"},
    {"field_types"},
    {"atomic_io", "validation", "plugins", "notebook"},
    {"progress_bars"},
    {"segmentation"},
    {"serialization"},
    {"explanation_parts", "explanation_checks"},
    {"explanation"},
    {"aggregation"},
    {"tracing"},
    {"evaluation"},
    {"statement"},
    {"comparison"},
    {"documents"},
    {"citations"},
    {"templates", "prompt_study"},
    {"data_summary"},
    {"schemas"},
    {"case"},
    {"sampling"},
    {"models"},
    {"diagnosis"},
    {"replacers"},
    {"removal"},
    {"methods"},
    {"metrics"},
    {"views"},
    {"exchange"},
    {"request"},
    {"api"},
    {"testing"},
    {"data"},
    {"bench"},
    {"studies"},
    {"report"},
    {"web"},
    {"cli"},
    {"__main__"},
]
# A view knows the results and nothing of how they were made.
RESULTS = {"explanation", "evaluation", "comparison", "citations", "prompt_study", "data_summary", "statement"}
VIEWS_MAY_IMPORT = {"errors", "atomic_io", "segmentation", "views", "_version"} | RESULTS
# The methods of a result import these modules lazily. No other import may go down.
LAZY_IMPORTS = {"explanation": {"views", "aggregation", "tracing", "exchange"}} | {
    name: {"views"} for name in RESULTS - {"explanation"}
}


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def row(name: str) -> int:
    return next(i for i, names in enumerate(ROWS) if name in names)


def imported_packages(path: Path, at_top: bool) -> set[str]:
    """Packages of reagent that a file imports; with `at_top`, only what runs when the file is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if at_top else ast.walk(tree)
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "reagent":
                names.update(f"reagent.{alias.name}" for alias in node.names)
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {name.split(".")[1] for name in names if name.startswith("reagent.")}


MODULES = sorted(p for p in SOURCE.rglob("*.py") if p != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_row_imports_only_rows_above_it(path: Path) -> None:
    own = package_of(path)
    allowed_down = LAZY_IMPORTS.get(own, set())
    for other in imported_packages(path, at_top=False) - {own}:
        assert row(other) < row(own) or other in allowed_down, f"{own} imports {other}"
    assert not imported_packages(path, at_top=True) & allowed_down


@pytest.mark.parametrize("path", sorted((SOURCE / "views").rglob("*.py")), ids=lambda p: p.name)
def test_views_know_only_the_explanation(path: Path) -> None:
    assert imported_packages(path, at_top=False) <= VIEWS_MAY_IMPORT


def test_the_public_names_are_exactly_these() -> None:
    intended = {
        "Citations",
        "Comparison",
        "Summary",
        "Evaluation",
        "Explanation",
        "InputError",
        "ReagentError",
        "Study",
        "Token",
        "__version__",
        "check_traced",
        "cite",
        "compare",
        "evaluate",
        "explain",
        "from_captum",
        "from_inseq",
        "from_shap",
        "load",
        "load_model",
        "record",
        "study",
        "summarize",
    }
    assert set(reagent.__all__) == intended
    assert all(getattr(reagent, name) is not None for name in intended)
    with pytest.raises(AttributeError, match="no_such_name"):
        reagent.no_such_name  # noqa: B018


@pytest.mark.parametrize(
    "code", ["import reagent", "import reagent.cli.app", "import reagent.explanation, reagent.views.terminal"]
)
def test_a_plain_import_loads_no_heavy_library(code: str) -> None:
    heavy = "{'torch', 'transformers', 'matplotlib', 'scipy', 'pandas', 'pydantic'}"
    check = f"{code}; import sys; found = {heavy} & set(sys.modules); assert not found, found"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_help_loads_no_heavy_library() -> None:
    check = (
        "import sys\nfrom reagent.cli import main\n"
        "try: main(['explain', '--help'])\nexcept SystemExit as stop: assert stop.code == 0, stop.code\n"
        "assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert "--max-new-tokens" in answer.stdout


PACKAGES = sorted(p.parent for p in SOURCE.rglob("__init__.py"))


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_the_docstring_of_a_package_lists_its_files(folder: Path) -> None:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    files = {p.name for p in folder.glob("*.py")} - {"__init__.py", "__main__.py", "_version.py"}
    folders = {f"{p.name}/" for p in folder.iterdir() if p.is_dir() and p.name != "__pycache__"}
    words = {line.split()[0] for line in docstring.splitlines() if line.split()}
    listed = {word for word in words if word.endswith((".py", "/"))} - {"__main__.py"}
    assert listed == files | folders
