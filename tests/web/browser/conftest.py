"""A real browser on a real service, with a tiny model behind it."""

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
    """Closed with the module: while it is open, no other event loop can run in this process."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and os.environ.get("REAGENT_REQUIRE_BROWSER") == "1":
        pytest.fail("REAGENT_REQUIRE_BROWSER is set, and there is no Chromium: install it")
    if found is None:
        pytest.skip("there is no Chromium on this machine: install it to test the page")
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def network() -> Any:
    """A tiny model that has a name to be careful with."""
    network = copy.deepcopy(tiny.network_of("gpt2"))
    network.name_or_path = HOSTILE_NAME
    return network


@pytest.fixture
def slow(network: Any) -> Iterator[None]:
    """Every pass takes long enough to look at what is there meanwhile."""
    hook = network.register_forward_pre_hook(lambda *_: time.sleep(0.25))
    yield
    hook.remove()


@pytest.fixture(scope="module")
def address(network: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a service with a model that can chat."""
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
    app.state.desk.close()
    thread.join(10)


@dataclass
class Heard:
    """What the browser complains about."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)  # parts of complaints that a test provokes on purpose

    def unexpected(self) -> list[str]:
        return [error for error in self.errors if not any(part in error for part in self.expected)]


@pytest.fixture
def heard() -> Heard:
    return Heard()


def opened(browser: Browser, address: str, heard: Heard, **options: Any) -> Page:
    page = browser.new_context(**options).new_page()
    listen(page, heard)
    page.goto(address)
    page.locator("#method option").first.wait_for(state="attached")
    return page


def listen(page: Page, heard: Heard) -> None:
    page.set_default_timeout(30_000)
    page.on("console", lambda line: heard.errors.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: heard.errors.append(str(error)))
    page.on("dialog", lambda dialog: (heard.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: heard.requests.append(request.url))


@pytest.fixture
def page(browser: Browser, address: str, heard: Heard) -> Iterator[Page]:
    """The page, freshly opened; afterwards nothing was complained about and nothing asked of anyone else."""
    page = opened(browser, address, heard)
    yield page
    page.context.close()
    assert heard.unexpected() == []
    assert [url for url in heard.requests if not url.startswith((address, "data:", "blob:"))] == []
