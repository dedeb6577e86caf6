"""The example plugin, installed into an environment of its own: command line, Python, benchmark and web page."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from environments import clean_variables, create_environment

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "examples" / "plugin"
Run = Callable[..., str]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new environment with the plugin; everything else comes from the environment of the tests."""
    return create_environment(tmp_path_factory.mktemp("plugin"), [PLUGIN], [ROOT / "src"])


@pytest.fixture
def run(environment: Path, tmp_path: Path) -> Run:
    """Runs Python in that environment, in an empty folder, and returns its standard output."""

    def run(*arguments: str) -> str:
        words = [str(environment / "python"), *arguments]
        answer = subprocess.run(words, cwd=tmp_path, env=clean_variables(), capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run


def test_the_command_line_lists_and_uses_the_plugin(run: Run, tmp_path: Path) -> None:
    assert "recency: Scores that decay with the distance" in run("-m", "reagent", "methods")
    assert "neighbours: Replaces a token by other tokens" in run("-m", "reagent", "replacers")
    assert "greetings: three greetings" in run("-m", "reagent", "datasets")
    explain = ("-m", "reagent", "explain", "w3 w1 w2", "--model", "parrot", "--max-new-tokens", "1", "--quiet")
    recent = json.loads(run(*explain, "--method", "recency", "--set", "decay=0.25", "--json", "-"))
    assert recent["method"] == {"id": "recency", "preset": None, "decay": 0.25}
    assert recent["scores"][0] == pytest.approx([1 / 21, 4 / 21, 16 / 21])
    run(*explain, "--replacer", "neighbours", "--json", "why.json")
    why = json.loads((tmp_path / "why.json").read_text())
    assert why["replacer"]["id"] == "neighbours"
    assert max(range(3), key=why["scores"][0].__getitem__) == 0
    evaluate = (
        "-m",
        "reagent",
        "evaluate",
        "why.json",
        "--model",
        "parrot",
        "--draws",
        "8",
        "--replacer",
        "neighbours",
    )
    (result,) = json.loads(run(*evaluate, "--metrics", "top_drop", "--json", "-"))["results"]
    assert result["metric"] == "top_drop"
    assert result["value"] > result["random"]


def test_python_uses_the_plugin_by_name_and_by_instance(run: Run) -> None:
    code = """
import reagent
from reagent.testing import check_method, check_metric, check_model, check_replacer
from reagent_example_plugin.method import Recency
from reagent_example_plugin.metric import TopDrop
from reagent_example_plugin.replacer import Neighbours

model = reagent.load_model("parrot:loud")
by_name = reagent.explain(model, "w3 w1 w2", max_new_tokens=1, method="recency", decay=0.25)
by_instance = reagent.explain(model, "w3 w1 w2", max_new_tokens=1, method=Recency(0.25))
assert by_name.scores == by_instance.scores and by_name.method == by_instance.method
why = reagent.explain(model, "w3 w1 w2", max_new_tokens=1, replacer=Neighbours())
assert reagent.evaluate(model, why, ["top_drop"], draws=8).result("top_drop").value > 1
assert len(reagent.compare(model, "w3 w1 w2", ["recency", Recency(0.25)], max_new_tokens=1)) == 2
check_method(Recency(), finds_causes=False)
check_replacer(Neighbours())
check_metric(TopDrop())
check_model(model, "w3 w1 w2")
print("fine")
"""
    assert run("-c", code).strip() == "fine"


def test_a_benchmark_uses_the_plugin(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'models = ["parrot"]\ndatasets = ["greetings"]\nmethods = ["recency", "random"]\n'
        '[metrics]\nnames = ["top_drop"]\ndraws = 4\nreplacer = "neighbours"\n'
    )
    run("-m", "reagent", "bench", "run", "mine.toml", "--out", "mine.sqlite", "--quiet")
    run("-m", "reagent", "bench", "report", "mine.sqlite", "--out", "report")
    assert "top_drop" in (tmp_path / "report" / "data" / "results.csv").read_text()


def test_the_web_page_offers_and_uses_the_plugin(run: Run) -> None:
    code = """
import reagent, tempfile, time
from pathlib import Path
from fastapi.testclient import TestClient
from reagent.web.app import create_app
from reagent.web.config import ServiceConfig

with tempfile.TemporaryDirectory() as folder:
    app = create_app(reagent.load_model("parrot"), ServiceConfig(folder=Path(folder)))
    client = TestClient(app, base_url="http://127.0.0.1")
    options = client.get("/api/options").json()
    assert "recency" in [method["id"] for method in options["methods"]]
    assert "neighbours" in [replacer["id"] for replacer in options["replacers"]]
    for body in ({"method": "recency"}, {"replacer": "neighbours"}):
        job = client.post("/api/jobs", json={"prompt": "w3 w1 w2", "max_new_tokens": 1} | body)
        assert job.status_code in (200, 201, 202), job.text
        address = f"/api/jobs/{job.json()['id']}"
        for _ in range(200):
            state = client.get(address).json()["state"]
            if state in ("done", "failed"):
                break
            time.sleep(0.05)
        assert state == "done", client.get(address).json()
    app.state.jobs.close()
print("fine")
"""
    assert run("-c", code).strip() == "fine"
