# `make pretrain` and `make test` need Python 3.11 and make, nothing else.
PYTHON ?= python3.11
VENV := .venv
RUN := $(VENV)/bin/python
# Everything that `make pretrain` writes.
OUT ?= runs/tiny
PROCESSES ?= 2
# The reference folder that `make golden` checks; any of the same layout.
GOLDEN ?= tests/golden/reference
GOLDEN_OPTIMIZER ?= tests/golden/reference/optimizer
# Each takes up to 9 GB in the end.
TEST_PROCESSES ?= 2
IN_PARALLEL = --numprocesses=$(TEST_PROCESSES) --dist=worksteal
BENCH_CONFIG ?= configs/pretrain/electra_small.py

# What `make finetune` starts from: the model of `make pretrain` once it is
# there, else the shipped one.
MODEL ?= $(if $(wildcard $(OUT)/export/saved_model.pb),$(OUT)/model,tiny-en)
# What it learns: a task of the catalog, from the folder DATA. Without them it
# is the embedded task of data/doc_topics.
TASK ?=
DATA ?=
TRIALS ?= 1
TOPICS := $(OUT)/doc_topics
FINETUNED := $(OUT)/finetuned/$(notdir $(MODEL))

.PHONY: setup lock pretrain finetune score test test-all test-slow extras test-extras lint format types bench docs \
	golden golden-addons wheel drill fuzz audit sbom clean

setup: $(VENV)/.installed

# seqeval is a source package, which an old pip would build in a way that fails.
$(VENV)/.installed: requirements.lock pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check \
	  --use-pep517 --require-hashes --requirement requirements.lock
	$(VENV)/bin/pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation --editable .
	touch $@

# Needs `pip install uv`; run it after a change of the dependencies.
lock:
	uv pip compile pyproject.toml --extra dev --python-version 3.11 \
	  --constraints constraints.txt \
	  --generate-hashes --no-header --no-annotate --quiet \
	  --output-file requirements.lock

# Text to a scored sentence. Each stage is skipped where its result stands;
# training goes on where it was stopped.
pretrain: score

$(OUT)/vocabulary/vocab.txt: | $(VENV)/.installed
	$(RUN) scripts/train_vocabulary.py --corpus=python_docs \
	  --vocab_size=4096 --output_dir=$(OUT)/vocabulary

$(OUT)/dataset/manifest.json: $(OUT)/vocabulary/vocab.txt
	$(RUN) scripts/build_pretraining_dataset.py --corpus=python_docs \
	  --vocab_file=$(OUT)/vocabulary --output_dir=$(OUT)/dataset \
	  --max_seq_length=32 --keep_overflow --validation_fraction=0.02 \
	  --num_processes=$(PROCESSES) --resume

$(OUT)/export/saved_model.pb: $(OUT)/dataset/manifest.json
	$(RUN) scripts/run_pretraining.py --config=configs/pretrain/tiny.py \
	  --config.data.dataset_dir=$(OUT)/dataset --model_dir=$(OUT)/model || \
	  { code=$$?; test $$code -ne 75 || echo "Run make pretrain again to go \
	on."; exit $$code; }
	$(RUN) scripts/export_saved_model.py --model_dir=$(OUT)/model \
	  --export_dir=$(OUT)/export

score: $(OUT)/export/saved_model.pb
	$(RUN) scripts/score_text.py --saved_model=$(OUT)/export \
	  --text="This method is called when the object is created." \
	  --swap=object:garden
	$(RUN) scripts/evaluate_words.py --model=$(OUT)/model \
	  --swaps=data/python_docs/swapped_words.tsv \
	  --text="Returns a [MASK] of strings." \
	  --text="Raise an [MASK] if the file does not exist."

# The model on a task; stop and start it at will.
ifeq ($(TASK),)
finetune: $(TOPICS)/train.csv
	$(RUN) scripts/run_finetuning.py --config=configs/finetune/tiny.py \
	  --config.task.names=own \
	  --config.own.train_file=$(TOPICS)/train.csv \
	  --config.own.dev_file=$(TOPICS)/dev.csv \
	  --config.own.test_file=$(TOPICS)/test.csv \
	  --config.training.num_train_epochs=10 \
	  --pretrained_dir=$(MODEL) --output_dir=$(FINETUNED)/topics \
	  --trials=$(TRIALS) --do=train,eval,predict
else
finetune: setup
	$(RUN) scripts/run_finetuning.py --config=configs/finetune/tiny.py \
	  --config.task.names=$(TASK) --config.task.data_dir=$(DATA) \
	  --pretrained_dir=$(MODEL) --output_dir=$(FINETUNED)/$(TASK) \
	  --trials=$(TRIALS) --do=train,eval,predict
endif

$(TOPICS)/train.csv: | $(VENV)/.installed
	$(RUN) data/doc_topics/prepare.py --output_dir=$(TOPICS)

test: setup
	$(RUN) -m pytest -m "not slow and not extra" $(IN_PARALLEL)

test-all: test test-slow test-extras
	$(RUN) -m tests.drill --kills=2 --faults=1

test-slow: setup
	$(RUN) -m pytest -m "slow and not extra" $(IN_PARALLEL)

# What needs a browser, or packages that the lock file does not have.
EXTRAS := beam compilers emulator litert onnx torch
extras: $(EXTRAS:%=.venv-%/.installed)

test-extras: test-extra-browser $(EXTRAS:%=test-extra-%)

test-extra-browser: setup
	$(RUN) -m pytest --extra=browser

test-extra-%: .venv-%/.installed
	.venv-$*/bin/python -m pytest --extra=$*

# Only what the extra adds to $(VENV), or replaces, is installed again.
.venv-torch/.installed: GROUPS := torch,peers
.venv-%/.installed: constraints.txt | $(VENV)/.installed
	$(PYTHON) -m venv --without-pip .venv-$*
	$(RUN) -c "import sysconfig; print('import site;', \
	  'site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
	  > $$(echo .venv-$*/lib/python*/site-packages)/locked.pth
	$(VENV)/bin/pip --python .venv-$*/bin/python install --quiet \
	  --disable-pip-version-check --only-binary :all: --no-build-isolation \
	  --constraint constraints.txt --editable '.[$(or $(GROUPS),$*)]' || \
	  { echo "The extra '$*' could not be installed: is the package index \
	  reachable?" >&2; exit 1; }
	touch $@

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: setup
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

types: setup
	$(VENV)/bin/mypy electra_tf scripts

# The pages as a site in build/site, with its packages beside the locked ones.
docs: setup
	$(VENV)/bin/pip install --quiet --disable-pip-version-check \
	  --no-build-isolation --constraint constraints.txt --editable '.[docs]'
	$(VENV)/bin/mkdocs build --strict

bench: setup
	$(RUN) scripts/benchmark.py pretrain --config=$(BENCH_CONFIG)

golden: setup
	$(RUN) scripts/verify_golden.py --golden_dir=$(GOLDEN)

.venv-addons/.installed: tests/golden/requirements-addons.lock
	$(PYTHON) -m venv .venv-addons
	.venv-addons/bin/pip install --quiet --disable-pip-version-check \
	  --require-hashes --requirement $<
	touch $@

# The tensorflow-addons numbers, computed anew by tensorflow-addons itself.
golden-addons: .venv-addons/.installed setup
	rm -rf build/golden-addons
	.venv-addons/bin/python tests/golden/recompute_addons.py \
	  --golden_dir=$(GOLDEN_OPTIMIZER) \
	  --output_dir=build/golden-addons/optimizer
	$(RUN) scripts/verify_golden.py --golden_dir=build/golden-addons

# Kills and damage at random instants; hours with the default of 50 kills each.
drill: setup
	$(RUN) -m tests.drill $(if $(SEED),--seed=$(SEED)) --kills=$(or $(KILLS),50)

# Random input for the parsers of tests/fuzz/targets.py, or for one TARGET.
fuzz: setup
	ELECTRA_EXAMPLES=$(or $(RUNS),10000) $(RUN) -m pytest tests/fuzz \
	  $(if $(TARGET),-k $(TARGET))

.venv-audit:
	$(PYTHON) -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check \
	  pip-audit cyclonedx-bom

# Known vulnerabilities of the locked packages; needs the network.
audit: .venv-audit
	.venv-audit/bin/pip-audit --strict --disable-pip --require-hashes \
	  --requirement requirements.lock

# What the lock file installs, as CycloneDX.
sbom: .venv-audit
	mkdir -p build
	.venv-audit/bin/cyclonedx-py requirements requirements.lock \
	  --output-reproducible --output-file build/sbom.json

wheel: setup
	$(RUN) -m build --wheel --no-isolation --outdir build/dist

clean:
	rm -rf build dist *.egg-info
