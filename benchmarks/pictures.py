"""The pictures of the README: an explanation as a web page, and the page of the server.

    python benchmarks/pictures.py docs/images

Needs Chromium (its path in CHROMIUM, or in the search path) and the extras `web` and `dev`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import reagent

PROMPT = (
    "My aunt moved to Japan to teach music. People in Japan are friendly. "
    "(Her old piano is still standing in our garage). She rents a small flat in the capital,"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        html = Path(temporary) / "why.html"
        reagent.explain("smollm2", PROMPT, max_new_tokens=1).to_html(html)
        page = browser.new_page(viewport={"width": 1000, "height": 740})
        page.goto(html.as_uri())
        page.screenshot(path=folder / "explanation.png")
        server = subprocess.Popen(
            [sys.executable, "-m", "reagent", "serve", "--port", "0", "--folder", temporary],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            page.goto(server.stdout.readline().strip())
            page.get_by_label("Prompt", exact=True).fill(PROMPT)
            page.get_by_label("Max. tokens").fill("4")
            page.get_by_role("button", name="Explain", exact=True).click()
            page.get_by_role("link", name="Link to this result").wait_for(timeout=300_000)
            page.screenshot(path=folder / "page.png")
        finally:
            server.terminate()
            server.wait()
        browser.close()


if __name__ == "__main__":
    main()
