# make help   lists what there is. Every target makes the environment it needs first, and again when the locked versions change.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test lint bench everything interop interop-s3 interop-hdfs corpus explore sim processes lock clean java

# What is started below must be this checkout's, whatever is set outside.
unexport PYTHONPATH SPARK_HOME PYSPARK_DRIVER_PYTHON PYSPARK_SUBMIT_ARGS
# Spark's workers need the packages of the environment.
export PYSPARK_PYTHON := $(CURDIR)/.venv/bin/python
# Spark would look for another address, and say so.
export SPARK_LOCAL_IP ?= 127.0.0.1

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /  make \1	/' | expand -t 21

demo: java .venv/installed ## a year of flights in a Delta table: the main things, on real data (about a minute)
	.venv/bin/python demo/flights.py

test: java .venv/installed ## every test that needs nothing but what is installed
	.venv/bin/python -m pytest --ignore=tests/interop --ignore=tests/programs --ignore=tests/hadoop $(TESTS)

lint: java .venv/installed ## ruff, mypy, the rings, and the Java sources through a compiler
	.venv/bin/ruff check .
	.venv/bin/ruff format --check src tests benchmarks demo
	.venv/bin/mypy
	.venv/bin/lint-imports
	scripts/check-java-sources .venv

bench: java .venv/installed .venv-reference/installed .cache/reference-jars/installed .venv-4.2/installed ## every question in benchmarks/, with the answers in benchmarks/results (an hour; ONLY="scan load" picks)
	.venv/bin/python -m benchmarks.run $(ONLY)

interop: java .venv/installed .venv-reference/installed .cache/reference-jars/installed .venv-4.1/installed .venv-4.2/installed ## against the reference implementation, and on the older Spark versions
	scripts/suites interop $(TESTS)

everything: java .venv/installed .venv-reference/installed .cache/reference-jars/installed .venv-4.1/installed .venv-4.2/installed ## test and interop in one go; JOBS=2 for two suites at a time
	scripts/suites everything

interop-s3: java .venv/installed .cache/s3-jars/installed ## Spark on S3: hadoop-aws, which is 690 MB, against a server on loopback (two minutes)
	TAHOE_HADOOP=required .venv/bin/python -m pytest tests/hadoop/test_s3.py $(TESTS)

interop-hdfs: java .venv/installed .cache/hdfs-jars/installed ## Spark on HDFS: a namenode and a datanode on loopback, 110 MB (four minutes)
	TAHOE_HADOOP=required .venv/bin/python -m pytest tests/hadoop/test_hdfs.py $(TESTS)

corpus: java .venv/installed ## every query of the corpus under every setting (ten minutes)
	TAHOE_CORPUS=all .venv/bin/python -m pytest tests/spark/test_corpus.py

explore: java .venv/installed ## every order of storage calls of two and three writers, over every scope (half an hour)
	TAHOE_EXPLORE=all .venv/bin/python -m pytest tests/exploration -s

sim: java .venv/installed ## ten thousand lives of a table on a storage that fails (half an hour; SEED=42 is one, call by call)
	.venv/bin/python -m tests.simulation $(if $(SEED),$(SEED) 1)

processes: java .venv/installed ## eight processes on one table, on a disk and on S3, and kill -9 (a quarter of an hour)
	TAHOE_PROCESSES=all .venv/bin/python -m pytest tests/processes -s

lock: ## write requirements/dev.txt anew, with the newest versions
	scripts/lock

clean: ## remove the environments and everything that was fetched
	rm -rf .venv .venv-* .cache build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

java:
	@scripts/check-java

.venv/installed: requirements/dev.txt pyproject.toml scripts/environment
	scripts/environment .venv requirements/dev.txt

.venv-4.1/installed: .venv/installed requirements/spark-4.1.txt scripts/overlay
	scripts/overlay .venv-4.1 .venv requirements/spark-4.1.txt

.venv-4.2/installed: .venv/installed requirements/spark-4.2.txt scripts/overlay
	scripts/overlay .venv-4.2 .venv requirements/spark-4.2.txt

.venv-reference/installed: requirements/reference.txt scripts/environment
	scripts/environment .venv-reference requirements/reference.txt

# Of what comes with these jars, Spark has the rest, in versions of its own: two of one library on the class path would fail.
.cache/reference-jars/installed: requirements/reference.pom.xml scripts/fetch-jars
	scripts/fetch-jars .cache/reference-jars requirements/reference.pom.xml -DexcludeGroupIds=org.apache.spark -DincludeGroupIds=io.delta,io.unitycatalog

.cache/s3-jars/installed: requirements/s3.pom.xml scripts/fetch-jars
	scripts/fetch-jars .cache/s3-jars requirements/s3.pom.xml -DincludeGroupIds=org.apache.hadoop,software.amazon.awssdk,software.amazon.s3.analytics

.cache/hdfs-jars/installed: requirements/hdfs.pom.xml scripts/fetch-jars
	scripts/fetch-jars .cache/hdfs-jars requirements/hdfs.pom.xml
