"""Tables, figures and a page from the records of a run.

load.py          the run: the numbers of every cell
analysis.py      statistics: each entry compared with random
examples.py      examples to show, with the scores of every method
contents.py      the data model: Report, Section, Table, Figure
build.py         which tables and figures a report has, and their order
write.py         writing and replacing the files of a report
tables/          one module for each kind of table
figures/         one module for each kind of figure
formats/         HTML, Markdown and LaTeX
paper_results/   the numbers of the paper
assets/          template and style of the HTML page
"""

from pathlib import Path

from reagent.bench.store import Store
from reagent.errors import InputError
from reagent.report.analysis import compare_with_random, value_records
from reagent.report.build import build_report
from reagent.report.formats import latex, markdown
from reagent.report.formats.html import render_page
from reagent.report.load import Records, load_run
from reagent.report.write import ReportFiles, data_files, require_folder, require_libraries, write_files


def write_report(path: str | Path, out: str | Path) -> list[Path]:
    """Write the report of the run in the file `path` to the folder `out`, and return the files, the page first.

    Files of an earlier report in this folder are replaced or deleted; all other files stay.
    """
    require_libraries()
    require_folder(Path(out))
    with Store.open(path) as store:
        files = render_files(store, str(path))
    return write_files(files, Path(out))


def render_files(records: Records, name: str) -> ReportFiles:
    """The content of all files of a report by their paths in its folder, the page first."""
    run = load_run(records)
    if not run.cells and not run.failures:
        raise InputError(
            f"there is nothing to report: {name!r} has no cell that is done or failed; run its suite first"
        )
    results = compare_with_random(run)
    report = build_report(records, run, results)
    files: dict[str, str | bytes] = {
        "index.html": render_page(report),
        "report.md": markdown.render_report(report),
        "report.tex": latex.render_report(report),
    }
    for table in report.tables:
        files[f"tables/{table.id}.md"] = markdown.render_table(table)
        files[f"tables/{table.id}.tex"] = latex.render_table(table)
        files |= data_files(table.id, table.records)
    for figure in report.figures:
        files |= {f"figures/{figure.id}.png": figure.png, f"figures/{figure.id}.svg": figure.svg}
    if report.examples:
        files["tables/examples.tex"] = latex.render_examples(report.examples)
    if run.cells:
        files |= data_files("results", [result.to_record() for result in results])
        files |= data_files("values", value_records(run))
    return files


__all__ = ["render_files", "write_report"]
