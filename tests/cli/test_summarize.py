"""`reagent summarize`: from the results of many prompts to the words that matter."""

from pathlib import Path


def test_results_of_bench_explain_are_read(run, tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("One two three\nTwo four\n")
    out = tmp_path / "p.sqlite"
    options = ("--method", "random", "--max-new-tokens", 1, "--model", tiny_folder, "--quiet")
    assert run("bench", "explain", tmp_path / "p.txt", "--out", out, *options).code == 0
    answer = run("summarize", out, "--html", tmp_path / "p.html")
    assert answer.code == 0, answer.err
    assert "Most important over 2 prompts: “two”" in answer.out or "“Two”" in answer.out
    assert "<details" in (tmp_path / "p.html").read_text()
    assert run("summarize", tmp_path / "p.txt").err.startswith("error: ")
