"""New environments: some packages are installed, and everything else comes from the environment of the tests."""

import os
import site
import subprocess
import sys
from pathlib import Path


def create_environment(folder: Path, packages: list[Path], sources: list[Path] | None = None) -> Path:
    """The bin folder of a new environment with `packages`; `sources` are folders of modules that are not installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    parents = [*site.getsitepackages(), *(str(source) for source in sources or [])]
    lines = [f"import site; site.addsitedir({path!r})" for path in parents]
    Path(own, "parents.pth").write_text("\n".join(lines) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    # --ignore-installed: the environment of the tests may have an editable copy, which must not be removed.
    pip += ["--ignore-installed", "--no-build-isolation"]
    subprocess.run([*pip, *map(str, packages)], check=True, cwd=folder)
    return folder / "bin"


def clean_variables(**more: str) -> dict[str, str]:
    """The variables of this process without the ones that show the source tree to Python."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more
