"""A real browser and a real service with a tiny model."""

import copy
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

import tiny
from reagent.models.load import load_model
from reagent.web.app import create_app
from reagent.web.config import ServiceConfig

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
HOSTILE_NAME = "<img src=x onerror=alert(1)>"
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed after each module, because no other event loop can run in this process while it is open."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None and os.environ.get("REAGENT_REQUIRE_BROWSER") == "1":
        pytest.fail("REAGENT_REQUIRE_BROWSER is set, but Chromium is not installed: install it")
    if path is None:
        pytest.skip("Chromium is not installed: install it to test the page")
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def network() -> Any:
    """A tiny model whose name contains markup."""
    network = copy.deepcopy(tiny.network_of("gpt2"))
    network.name_or_path = HOSTILE_NAME
    return network


@pytest.fixture
def slow(network: Any) -> Iterator[None]:
    """Make every forward pass slow, so that partial results can be checked."""
    hook = network.register_forward_pre_hook(lambda *_: time.sleep(0.25))
    yield
    hook.remove()


@pytest.fixture(scope="module")
def address(network: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service whose model has a chat template."""
    tokenizer = copy.deepcopy(tiny.tokenizer_of("gpt2"))
    tokenizer.chat_template = TEMPLATE
    app = create_app(load_model((network, tokenizer)), ServiceConfig(folder=tmp_path_factory.mktemp("explanations")))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the service did not start"
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    app.state.jobs.close()
    thread.join(10)


@dataclass
class BrowserLog:
    """The errors and requests of the browser."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)  # parts of errors that a test causes on purpose

    def unexpected(self) -> list[str]:
        return [error for error in self.errors if not any(part in error for part in self.expected)]


@pytest.fixture
def log() -> BrowserLog:
    return BrowserLog()


def open_page(browser: Browser, address: str, log: BrowserLog, **options: Any) -> Page:
    page = browser.new_context(**options).new_page()
    record(page, log)
    page.goto(address)
    page.locator("#method option").first.wait_for(state="attached")
    return page


def record(page: Page, log: BrowserLog) -> None:
    page.set_default_timeout(30_000)
    page.on("console", lambda line: log.errors.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: log.errors.append(str(error)))
    page.on("dialog", lambda dialog: (log.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: log.requests.append(request.url))


@pytest.fixture
def page(browser: Browser, address: str, log: BrowserLog) -> Iterator[Page]:
    """A newly opened page. At the end it must have no errors and no requests to other sites."""
    page = open_page(browser, address, log)
    yield page
    page.context.close()
    assert log.unexpected() == []
    assert [url for url in log.requests if not url.startswith((address, "data:", "blob:"))] == []
