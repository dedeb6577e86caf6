"""The service of the page with a slow scripted model, as a process that can be killed: FOLDER PORT."""

import sys
import time
from pathlib import Path
from typing import Any

from reagent.cli.serve import bind, run
from reagent.web.app import create_app
from reagent.web.config import Limits, ServiceConfig
from web.service import capital_model

PASS_SECONDS = 0.002


def main() -> None:
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    model = capital_model()
    logits = model.logits

    def slowly(context: Any) -> Any:
        time.sleep(PASS_SECONDS)
        return logits(context)

    model.logits = slowly
    listening = bind("127.0.0.1", port)
    run(create_app(model, ServiceConfig(Limits(queue=64), folder=folder)), listening, "ready", quiet=True)


if __name__ == "__main__":
    main()
