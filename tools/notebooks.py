"""Execute the tutorials of docs/tutorials: their notebooks in docs/notebooks, and the outputs in their pages.

    python tools/notebooks.py            # all of them: minutes, with the embedded model
    python tools/notebooks.py plugin     # some

A page is the source of its notebook: each block of Python is a cell. A block of text after it holds what the cell
prints, and is written anew.
"""

import argparse
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

DOCS = Path(__file__).parents[1] / "docs"
TUTORIALS, NOTEBOOKS = DOCS / "tutorials", DOCS / "notebooks"
SITE = "https://reagent-lm.github.io/reagent/"
COLAB = "https://colab.research.google.com/github/reagent-lm/reagent/blob/main/docs/notebooks/"
INSTALL = '%pip install --quiet "reagent-lm[bench,frames]"'
TERMINAL = {"JUPYTER_COLUMNS": "88", "NO_COLOR": "1"}  # of what a cell prints
STYLE = re.compile(r"\x1b\[[0-9;]*m")
CODE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#]+)\.(md|ipynb)")


class Cell(NamedTuple):
    kind: str  # markdown or code
    source: str
    printed: str | None = None  # the text of a code cell in its page; None if the page does not show it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[path.stem for path in sorted(TUTORIALS.glob("*.md"))])
    for name in parser.parse_args().names:
        page = TUTORIALS / f"{name}.md"
        notebook = execute(make_notebook(page))
        page.write_text(with_outputs(page.read_text(), [printed(cell) for cell in code_cells(notebook)]))
        nbformat.write(notebook, NOTEBOOKS / f"{name}.ipynb")
        print(name, flush=True)


def header(name: str) -> str:
    """The line below the title of a tutorial."""
    return f"[![Open in Colab](../assets/colab.svg)]({COLAB}{name}.ipynb) [Notebook](../notebooks/{name}.ipynb)"


def read_cells(text: str) -> list[Cell]:
    """The cells of a page, in order."""
    cells, position = [], 0
    for match in CODE.finditer(text):
        cells.append(Cell("markdown", text[position : match.start()].strip()))
        cells.append(Cell("code", match[1].strip(), match[2]))
        position = match.end()
    cells.append(Cell("markdown", text[position:].strip()))
    return [cell for cell in cells if cell.source]


def make_notebook(page: Path) -> Any:
    """The notebook of a page, without outputs. Its links lead to the site, because Colab knows no other pages."""
    notebook = new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    )
    title, *rest = read_cells(page.read_text())
    cells = [title, Cell("code", INSTALL), *rest]
    makers = {"markdown": new_markdown_cell, "code": new_code_cell}
    for number, cell in enumerate(cells):
        source = cell.source if cell.kind == "code" else absolute_links(cell.source, page)
        notebook.cells.append(makers[cell.kind](source, id=f"cell-{number}"))
    return notebook


def absolute_links(text: str, page: Path) -> str:
    def address(match: re.Match[str]) -> str:
        target = (page.parent / f"{match[1]}.{match[2]}").resolve().relative_to(DOCS)
        return f"]({SITE}{target.with_suffix('.html') if match[2] == 'md' else target}"

    return LINK.sub(address, text).replace("README.html", "index.html")


def code_cells(notebook: Any) -> list[Any]:
    """The cells of a page, without the one that installs the package."""
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source != INSTALL]


def execute(notebook: Any) -> Any:
    """Run the cells in an empty folder; progress bars, messages and times are not kept."""
    os.environ.update(TERMINAL)
    installing = notebook.cells.pop(1)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=900, resources={"metadata": {"path": folder}}).execute()
    notebook.cells.insert(1, installing)
    for cell in code_cells(notebook):
        cell.outputs = [output for output in cell.outputs if is_kept(output)]
        cell.metadata = {}
    notebook.metadata.pop("language_info", None)
    return notebook


def is_kept(output: Any) -> bool:
    if output.output_type == "stream":
        return bool(output.name == "stdout")
    return bool(output.data.get("text/plain", "").strip())


def printed(cell: Any) -> str:
    """What a cell prints, without styles and without spaces at the ends of lines."""
    texts = [output.text if "text" in output else output.data["text/plain"] for output in cell.outputs]
    lines = STYLE.sub("", "\n".join(text.rstrip("\n") for text in texts)).split("\n")
    return "".join(f"{line.rstrip()}\n" for line in lines)


def with_outputs(text: str, outputs: Sequence[str]) -> str:
    """A page with the outputs of its cells in the blocks that hold them."""
    rest = iter(outputs)

    def write(match: re.Match[str]) -> str:
        output = next(rest)
        code = f"```python\n{match[1]}```\n"
        return code if match[2] is None else f"{code}\n```text\n{output}```\n"

    return CODE.sub(write, text)


if __name__ == "__main__":
    main()
