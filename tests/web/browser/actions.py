"""What the tests of the page do in the browser."""

from pathlib import Path
from typing import Any

import axe_core_python
from playwright.sync_api import Locator, Page, expect

from views.samples import PROMPT

expect.set_options(timeout=30_000)  # the machine may be busy

AXE = Path(axe_core_python.__file__).with_name("axe.min.js")


def fill(page: Page, prompt: str = PROMPT, **settings: str) -> None:
    """Fill in the form; a setting is the id of a field."""
    page.locator("#request-form details").evaluate("node => { node.open = true }")
    for name, value in {"max_new_tokens": "3", "probes": "32", "prompt": prompt, **settings}.items():
        field = page.locator(f"#{name}")
        field.select_option(value) if field.evaluate("node => node.tagName") == "SELECT" else field.fill(value)


def submit(page: Page, prompt: str = PROMPT, **settings: str) -> None:
    fill(page, prompt, **settings)
    page.get_by_role("button", name="Explain").click()


def wait_until_finished(page: Page) -> None:
    expect(page.locator("#downloads")).to_be_visible()
    expect(page.locator("#running")).to_be_hidden()


def bounding_box(part: Locator) -> Any:
    box = part.bounding_box()
    assert box is not None
    return box


def violations(page: Page, within: str | None = None) -> list[Any]:
    """The accessibility problems that axe-core reports for the page, or for a part of it."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    problems = page.evaluate("within => axe.run(within || document)", within)["violations"]
    return [(v["id"], [(n["html"][:200], n["failureSummary"]) for n in v["nodes"][:3]]) for v in problems]


def choices(page: Page) -> Locator:
    """The whole answer, then its parts."""
    return page.get_by_role("listbox", name="Parts of the answer").get_by_role("option")


def running_text(page: Page) -> str:
    """The text of the prompt without the letters of groups."""
    text = page.locator("#view .reagent-token").evaluate_all(
        """nodes => nodes.map(node => {
            const copy = node.cloneNode(true);
            for (const mark of copy.querySelectorAll(".reagent-mark")) mark.remove();
            return copy.textContent;
        }).join("")"""
    )
    return str(text)


def drop(page: Page, *files: tuple[str, str]) -> None:
    """Drop files on the page."""
    page.evaluate(
        """files => {
            const dataTransfer = new DataTransfer();
            for (const [name, text] of files) dataTransfer.items.add(new File([text], name));
            for (const type of ["dragover", "drop"])
                document.body.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
        }""",
        files,
    )
