"""The notebook: the messages of the kernel, and the whole example."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from reagent.notebook import in_notebook, notebook_bar

EXAMPLE = Path(__file__).parent.parent / "examples" / "notebook.ipynb"

EXPLAIN = """
import time
import numpy as np
import reagent
from reagent.testing.scripted import ScriptedModel

def echo(context):
    time.sleep({seconds})
    return 5.0 * (context[:, :1] == np.arange(3))

why = reagent.explain(ScriptedModel(["a", "b", "c"], echo), "c a b", max_new_tokens=1{options})
"""

FAIL = """
try:
    reagent.explain(ScriptedModel(["a", "b"], lambda context: 1 / 0), "a b", target=" a")
except ZeroDivisionError:
    pass
"""


FETCH = """
import time
from reagent.progress_bars import step

with step("fetching tiny", 93_000_000, lambda: 45_000_000):
    time.sleep(0.7)
"""


class Client(NotebookClient):
    """Runs a notebook in a real kernel and records the updates of its displays."""

    def __init__(self, *cells: str, folder: Path) -> None:
        super().__init__(new_notebook(cells=[new_code_cell(cell) for cell in cells]), timeout=600)
        self.resources = {"metadata": {"path": str(folder)}}
        self.updates: list[dict[str, Any]] = []

    def process_message(self, msg: dict[str, Any], *rest: Any) -> Any:
        if msg["msg_type"] == "update_display_data":
            self.updates.append(msg["content"]["data"])
        return super().process_message(msg, *rest)


def displayed(cell: Any) -> list[Any]:
    """The displays of a cell, without the streams, where libraries print warnings."""
    return [output for output in cell.get("outputs", ()) if output["output_type"] != "stream"]


def test_there_is_no_bar_outside_a_notebook() -> None:
    assert not in_notebook()
    with notebook_bar() as update:
        assert update is None


@pytest.mark.xdist_group("kernel")
def test_the_first_steps_of_a_model_have_a_bar_with_sizes(tmp_path: Path) -> None:
    client = Client(FETCH, folder=tmp_path)
    client.execute()
    bars = [data["text/html"] for data in client.updates]
    assert "45 of at most 93 MB (fetching tiny)" in bars[0]
    assert bars[-1] == ""


@pytest.mark.xdist_group("kernel")
def test_a_bar_moves_below_the_cell_and_disappears_at_the_end(tmp_path: Path) -> None:
    client = Client(EXPLAIN.format(seconds=0.02, options="") + "why", folder=tmp_path)
    client.execute()
    bars = [data["text/html"] for data in client.updates]
    assert any('<progress value="' in bar and "probes" in bar for bar in bars)
    assert bars[-1] == ""
    bar, shown = displayed(client.nb.cells[0])
    assert bar["data"] == {"text/plain": "", "text/html": ""}
    assert 'class="reagent-data"' in shown["data"]["text/html"]
    assert shown["data"]["text/plain"].startswith("<Explanation of ' c'")


@pytest.mark.xdist_group("kernel")
def test_the_bar_disappears_after_an_error_and_is_absent_with_a_progress_callback(tmp_path: Path) -> None:
    client = Client(EXPLAIN.format(seconds=0, options=", on_progress=lambda now: None"), FAIL, folder=tmp_path)
    client.execute()
    assert displayed(client.nb.cells[0]) == []
    assert all(output["data"]["text/html"] == "" for output in displayed(client.nb.cells[1]))


@pytest.mark.xdist_group("kernel")
def test_the_example_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLE, as_version=4)
    nbformat.validate(notebook)
    assert not [cell for cell in notebook.cells if cell.get("outputs")], "the example is stored without outputs"
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [output["data"].get("text/html", "") for cell in notebook.cells for output in displayed(cell)]
    assert sum('class="reagent-data"' in html for html in shown) == 2
    tables = [html for html in shown if "<table" in html]
    assert len(tables) == 2
    assert all("Japan" in table for table in tables)
    assert {path.name for path in tmp_path.iterdir()} == {"why.json", "why.html", "why.png"}
