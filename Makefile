# Every target makes the .venv it needs by itself. PYTHON chooses the interpreter (3.11 or newer).
PYTHON ?= python3
BIN := .venv/bin
BASE := .venv/.base
STAMP := .venv/.installed
SITE := .venv/.docs
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install demo test docs gallery soak sweep check benchmark study dist clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(STAMP)  ## create .venv and install everything, exact versions

$(BASE): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("error: Python 3.11 or newer is needed, PYTHON=... chooses another" if sys.version_info < (3, 11) else 0)'
	@echo 'installing into .venv: a few minutes the first time'
	$(PYTHON) -m venv .venv
	$(PIP) torch
	$(PIP) --editable .
	@touch $@

$(STAMP): $(BASE)
	@echo 'installing the development tools into .venv'
	$(PIP) --editable '.[dev]'
	@touch $@

demo: $(BASE)  ## explain one answer of the embedded model, on the terminal and in demo.html
	@$(BIN)/reagent explain --file examples/prompt.txt --max-new-tokens 1 --html demo.html
	@echo 'wrote demo.html: open it in a browser'

test: $(STAMP)  ## run all tests
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

$(SITE): $(BASE)
	@echo 'installing the tools of the site into .venv'
	$(PIP) --editable '.[docs]'
	@touch $@

docs: $(SITE)  ## build the site into site/ (a broken link is an error), and open every page in Chromium
	NO_COLOR=1 PYTHONPATH=tools $(BIN)/python -m zensical build --strict --clean
	$(BIN)/python tools/check_site.py

gallery: $(STAMP)  ## run the scripts of examples/ and the tutorials: pictures, notebooks and outputs in docs/ (minutes)
	$(BIN)/python tools/gallery.py
	$(BIN)/python tools/notebooks.py

soak: $(STAMP)  ## attack files, service, servers and prompts (hours); SOAK="--minutes 30"; writes docs/hardening.md
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/hostile/soak.py --out docs/benchmarks/soak.json $(SOAK)
	$(BIN)/python tests/hostile/page.py docs/benchmarks/soak.json > docs/hardening.md

sweep: $(STAMP)  ## check every causal-LM architecture, and every kind of GGUF file (minutes)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m 'sweep or not sweep' tests/models/test_architectures.py tests/models/test_gguf_llama_cpp.py

check: $(STAMP)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Other packages are measured too where INSEQ_PYTHON names the interpreter of an environment with inseq, shap and captum.
benchmark: $(STAMP)  ## measure speed and agreement (hours); JSON in docs/benchmarks, and docs/benchmarks.md
	$(BIN)/python benchmarks/scoring.py > docs/benchmarks/scoring.json
	$(BIN)/python benchmarks/antecedents.py > docs/benchmarks/antecedents.json
	$(BIN)/python benchmarks/filtering.py > docs/benchmarks/filtering.json
	$(BIN)/python benchmarks/methods.py > docs/benchmarks/methods.json
	$(BIN)/python benchmarks/replacers.py > docs/benchmarks/replacers.json
	$(BIN)/python benchmarks/designs.py > docs/benchmarks/designs.json
	$(BIN)/python benchmarks/draws.py > docs/benchmarks/draws.json
	$(BIN)/python benchmarks/sharpness.py > docs/benchmarks/sharpness.json
	$(BIN)/python benchmarks/completeness.py > docs/benchmarks/completeness.json
	$(BIN)/python benchmarks/gguf_comparison.py > docs/benchmarks/gguf.json
	$(BIN)/python benchmarks/http_throughput.py > docs/benchmarks/http_throughput.json
	$(BIN)/python benchmarks/serving.py > docs/benchmarks/serving.json
	$(BIN)/python benchmarks/sharing.py > docs/benchmarks/sharing.json
	$(BIN)/python benchmarks/interrupted.py > docs/benchmarks/interrupted.json
	$(BIN)/python benchmarks/repeated.py --out docs/benchmarks/repeated.jsonl > docs/benchmarks/repeated.json
	$(BIN)/python benchmarks/repeated.py --split blind --size 16 --out docs/benchmarks/facts.jsonl > docs/benchmarks/facts.json
	$(BIN)/python benchmarks/faithfulness.py --out docs/benchmarks/faithfulness.jsonl > docs/benchmarks/faithfulness.json
	$(BIN)/python benchmarks/games.py --out docs/benchmarks/games.jsonl > docs/benchmarks/games.json
	$(BIN)/python benchmarks/models.py --out docs/benchmarks/models.jsonl > docs/benchmarks/models.json
	$(BIN)/python benchmarks/models.py --page docs/benchmarks/models.json > docs/models.md
	$(BIN)/python benchmarks/seq2seq.py --out docs/benchmarks/seq2seq.jsonl > docs/benchmarks/seq2seq.json
	$(BIN)/python benchmarks/planted_passages.py > docs/benchmarks/planted_passages.json
	$(BIN)/python benchmarks/prompt_studies.py --limit 40 --out docs/benchmarks/prompt_studies > docs/benchmarks/prompt_studies.json
	$(BIN)/python benchmarks/citations.py --out docs/benchmarks/citations.jsonl > docs/benchmarks/citations.json
	$(BIN)/python benchmarks/long_contexts.py --out docs/benchmarks/long_contexts.jsonl > docs/benchmarks/long_contexts.json
	$(if $(INSEQ_PYTHON),$(BIN)/python benchmarks/inseq_comparison.py --inseq-python $(INSEQ_PYTHON) > docs/benchmarks/inseq.json)
	$(if $(INSEQ_PYTHON),$(BIN)/python benchmarks/rivals.py --python $(INSEQ_PYTHON) > docs/benchmarks/rivals.json)
	$(BIN)/python benchmarks/agreement.py --out docs/benchmarks/agreement.json > /dev/null
	$(BIN)/python benchmarks/comparison.py --out docs/benchmarks/comparison.json
	$(BIN)/python benchmarks/comparison.py --page docs/benchmarks/comparison.json > docs/comparison.md
	$(BIN)/python benchmarks/report.py docs/benchmarks

study: $(STAMP)  ## reports of the study from its records, into docs/study/NAME; refreshes docs/study/figures
	@for run in docs/study/*.sqlite; do $(BIN)/reagent bench report $$run --out $${run%.sqlite} || exit 1; done
	@for file in docs/study/figures/*.png; do \
		name=$${file##*/}; cp docs/study/$${name%%-*}/figures/$${name#*-} $$file || exit 1; \
	done

dist: $(STAMP)  ## build the source archive, and from it the wheel, into dist
	rm -rf dist
	$(BIN)/python -m hatchling build --target sdist
	mkdir dist/source && tar -xf dist/*.tar.gz -C dist/source --strip-components 1
	cd dist/source && $(CURDIR)/$(BIN)/python -m hatchling build --target wheel --directory $(CURDIR)/dist
	rm -rf dist/source

clean:  ## remove what the other targets made, but not the model cache
	rm -rf .venv build dist site .cache demo.html .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
