"""Run the scripts of examples/, photograph their explanations, and write docs/gallery.md.

    python tools/gallery.py                 # all of them: minutes, with the embedded model
    python tools/gallery.py contrast hindi  # some

What the scripts print is kept in docs/gallery/outputs.json. Needs Chromium and the extra `dev`.
"""

import argparse
import ast
import contextlib
import io
import json
import os
import re
import runpy
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
EXAMPLES, GALLERY = ROOT / "examples", ROOT / "docs" / "gallery"
OUTPUTS = GALLERY / "outputs.json"
WIDTH, MOST_HEIGHT, COLOURS = 760, 900, 48
COLUMNS = "88"  # of what a script prints

HEAD = """# Gallery

One script for each question, with a picture of its result and what it prints. The scripts are in the folder `examples`
of the repository, and each takes seconds:

    python examples/why_this_answer.py

`make gallery` runs them all and writes this page.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=names())
    os.environ["COLUMNS"] = COLUMNS
    for name in parser.parse_args().names:
        printed, results = execute(EXAMPLES / f"{name}.py")
        if results:
            photograph(results[0], GALLERY / f"{name}.png")
        outputs = read_outputs() | {name: {"printed": printed, "picture": bool(results)}}
        OUTPUTS.write_text(json.dumps(dict(sorted(outputs.items())), indent=1, ensure_ascii=False) + "\n")
        print(name, flush=True)
    (ROOT / "docs" / "gallery.md").write_text(render(read_outputs()))


def names() -> list[str]:
    """The scripts in the order of their table."""
    return re.findall(r"^\| .+ \| \[(\w+)\.py\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE)


def execute(script: Path) -> tuple[str, list[Any]]:
    """What a script prints, and its results that can be shown as a page."""
    folder = Path.cwd()
    with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stdout(io.StringIO()) as printed:
        os.chdir(temporary)
        values = runpy.run_path(str(script), run_name="__main__").values()
        os.chdir(folder)
    lines = [line.rstrip() for line in printed.getvalue().rstrip().split("\n")]
    return "\n".join(lines), [value for value in values if is_result(value)]


def is_result(value: Any) -> bool:
    return hasattr(value, "to_html") and type(value).__module__.startswith("reagent.")


def photograph(result: Any, path: Path) -> None:
    """A small PNG file of the page of a result, as Chromium draws it."""
    path.parent.mkdir(exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder, "page.html")
        result.to_html(page_file)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 100})
        page.goto(page_file.as_uri())
        height = min(page.evaluate("document.documentElement.scrollHeight"), MOST_HEIGHT)
        page.set_viewport_size({"width": WIDTH, "height": height})
        page.screenshot(path=path)
        browser.close()
    Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)


def read_outputs() -> dict[str, Any]:
    return dict(json.loads(OUTPUTS.read_text())) if OUTPUTS.exists() else {}


def render(outputs: Mapping[str, Any]) -> str:
    return "\n".join([HEAD, *(section(name, outputs[name]) for name in names() if name in outputs)])


def section(name: str, output: Mapping[str, Any]) -> str:
    """The question, the picture, the script without its question, and what it prints."""
    script = (EXAMPLES / f"{name}.py").read_text()
    question = ast.get_docstring(ast.parse(script)) or name
    code = script.split('"""', 2)[2].strip()
    picture = [f"![The result of {name}.py]({GALLERY.name}/{name}.png)"] if output["picture"] else []
    parts = [f"## {question}", *picture, f"```python\n{code}\n```", f"```text\n{output['printed']}\n```"]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
