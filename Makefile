# `make help` lists the targets. Each target creates the environment that it needs, and recreates it when the locked versions change.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo docs links test lint bench race everything spark dml native interop interop-s3 interop-s3-servers interop-hdfs tools corpus explore large sim processes killed-streams killed-copies killed-pipelines long-stream next-spark lock clean java

# Use only this checkout, whatever the caller's environment sets.
unexport PYTHONPATH SPARK_HOME PYSPARK_DRIVER_PYTHON PYSPARK_SUBMIT_ARGS
# Spark's Python workers need the packages of the environment.
export PYSPARK_PYTHON := $(CURDIR)/.venv/bin/python
# Without this, Spark looks up an address of the host and warns about it.
export SPARK_LOCAL_IP ?= 127.0.0.1

# The tests are shared between processes, each with a Spark session of its own.
export PYTEST_XDIST ?= -n auto --maxprocesses 4 --dist worksteal

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /  make \1	/' | expand -t 21

demo: java .venv/installed ## run the main features on a year of flights (about a minute, after some minutes of installing the first time)
	.venv/bin/python demo/flights.py

docs: .venv-docs/installed ## build the site into build/docs; warnings are errors (half a minute)
	.venv-docs/bin/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

links: .venv-docs/installed ## check the links of the site that lead outside; needs the network
	.venv-docs/bin/python -m sphinx -W --keep-going -q -b linkcheck docs build/links

test: java .venv/installed ## run every test that needs no other environment, with a sample of the cases (seven minutes on two cores)
	TAHOE_MODE=$${TAHOE_MODE:-quick} .venv/bin/python -m pytest $(PYTEST_XDIST) --ignore=tests/interop --ignore=tests/programs --ignore=tests/hadoop --ignore=tests/tools $(TESTS)

spark: java .venv/installed ## run every case of the tests that start Spark, among them a thousand random DELETE, UPDATE and MERGE statements (half an hour)
	.venv/bin/python -m pytest $(PYTEST_XDIST) tests/spark $(TESTS)

dml: java .venv/installed ## run the thousand random DELETE, UPDATE and MERGE statements (ten minutes; TAHOE_DML_SEED=N for others)
	.venv/bin/python -m pytest $(PYTEST_XDIST) tests/spark/test_dml_model.py

lint: java .venv/installed .cache/pyright/installed ## ruff, mypy, pyright on a user's program, the import contracts, and the Java sources through javac
	.venv/bin/ruff check .
	.venv/bin/ruff format --check src tests benchmarks demo
	.venv/bin/mypy
	.venv/bin/mypy tests/package/typed_program.py
	node .cache/pyright/node_modules/pyright/index.js --pythonpath .venv/bin/python tests/package/typed_program.py
	.venv/bin/lint-imports
	scripts/check-java-sources .venv

bench: java .venv/installed .venv-reference/installed .cache/reference-jars/installed .cache/reference-4.1-jars/installed .cache/tpcds-jars/installed .cache/comet-jars/installed .venv-4.1/installed .venv-4.2/installed ## run the benchmarks and keep the results in benchmarks/results (an hour; ONLY="scan load" selects some)
	.venv/bin/python -m benchmarks.run $(ONLY)

race: java .venv/installed .venv-4.1/installed .venv-4.2/installed .venv-reference/installed .cache/reference-jars/installed .cache/comet-jars/installed ## race tahoe against its peers, and write docs/race (an hour; SCALE=0.1 ROUNDS=3 ENGINES=tahoe,delta-rs ONLY=tpch,dml)
	.venv/bin/python -m tahoe_race --folder .cache/race --output docs/race --scale $(or $(SCALE),1) --rounds $(or $(ROUNDS),3) \
	  $(if $(ONLY),--only $(ONLY)) --engines $(or $(ENGINES),tahoe,tahoe-comet,delta-spark,parquet,sail,delta-rs,duckdb) \
	  --python tahoe=.venv-4.2/bin/python --python tahoe-comet=.venv-4.1/bin/python --python parquet=.venv-reference/bin/python \
	  --python delta-spark=.venv-reference/bin/python --jars delta-spark=.cache/reference-jars --jars tahoe-comet=.cache/comet-jars

interop: java .venv/installed .venv-unity/installed .venv-iceberg/installed .cache/iceberg-jars/installed .venv-reference/installed .cache/reference-jars/installed .venv-4.1/installed .venv-4.2/installed .cache/comet-jars/installed .venv/classes.jsa ## test against the reference implementation and on older Spark versions
	scripts/suites interop $(TESTS)

everything: java .venv/installed .venv-unity/installed .venv-iceberg/installed .cache/iceberg-jars/installed .venv-reference/installed .cache/reference-jars/installed .venv-4.1/installed .venv-4.2/installed .cache/comet-jars/installed .cache/versitygw/installed .venv/classes.jsa ## test, spark and interop together (TAHOE_MODE=ci for a sample, as .ci/run)
	scripts/suites everything

native: java .venv-4.1/installed .cache/comet-jars/installed ## run the Spark suite with plans run natively by Comet, on PySpark 4.1 (half an hour)
	TAHOE_NATIVE=required TAHOE_COMET_JAR=$$(ls $(CURDIR)/.cache/comet-jars/comet-spark-*.jar) PYSPARK_PYTHON=$(CURDIR)/.venv-4.1/bin/python .venv-4.1/bin/python -m pytest $(PYTEST_XDIST) $(or $(TESTS),tests/spark)

interop-s3: java .venv/installed .cache/s3-jars/installed ## test Spark on S3: hadoop-aws (690 MB) against a server on loopback (two minutes)
	TAHOE_HADOOP=required .venv/bin/python -m pytest tests/hadoop/test_s3.py $(TESTS)
	TAHOE_HADOOP=required .venv/bin/python -m pytest tests/hadoop/test_s3_of_a_server.py

interop-s3-servers: java .venv/installed .cache/s3-jars/installed .cache/versitygw/installed .cache/seaweedfs/installed ## test the stores, processes and Spark on versitygw and SeaweedFS, and kill both under their writers (half an hour)
	scripts/s3-servers versitygw seaweedfs

interop-hdfs: java .venv/installed .cache/hdfs-jars/installed ## test Spark on HDFS: a namenode and a datanode on loopback (110 MB, four minutes)
	TAHOE_HADOOP=required .venv/bin/python -m pytest tests/hadoop/test_hdfs.py $(TESTS)

tools: java .venv-tools/installed .venv-4.1/installed .venv-4.2/installed ## run dbt, kedro, Great Expectations, pandera and Jupyter on our tables, on each Spark (ten minutes)
	.venv-tools/bin/python -m pytest --confcutdir=tests/tools tests/tools $(TESTS)

corpus: java .venv/installed ## test every query of the corpus under every setting (ten minutes)
	TAHOE_PROOF=1 .venv/bin/python -m pytest tests/spark/test_corpus.py

large: .venv/installed ## read and change more than 2 GiB in one array, one row group and one file (half an hour, 9 GB of memory, 6 GB of disk)
	TAHOE_PROOF=1 .venv/bin/python -m pytest tests/table/test_large_values.py -s

explore: java .venv/installed ## explore every order of storage calls of two and three writers, over every scope (half an hour)
	TAHOE_PROOF=1 .venv/bin/python -m pytest tests/exploration -s

sim: java .venv/installed ## simulate ten thousand runs on a failing storage (half an hour; SEED=42 prints one run, call by call; with OF=catalog, of a table of a catalog)
	.venv/bin/python -m tests.simulation $(if $(SEED),$(SEED) 1 $(OF),0 6000)
	$(if $(SEED),,.venv/bin/python -m tests.simulation 0 4000 catalog)

processes: java .venv/installed ## test eight processes on one table, on disk and on S3, with kill -9 (a quarter of an hour)
	TAHOE_PROOF=1 .venv/bin/python -m pytest tests/processes -s

killed-streams: java .venv/installed .venv/classes.jsa ## kill the drivers of streams two hundred times, and compare their tables (an hour; SEED=2 for other moments)
	TAHOE_KILLS=$(or $(KILLS),200) TAHOE_SEED=$(or $(SEED),1) .venv/bin/python -m pytest tests/programs/test_killed_stream.py -s

killed-copies: java .venv/installed .venv/classes.jsa ## kill drivers that load a folder by COPY INTO forty times, and compare their table (a quarter of an hour; SEED=2 for other moments)
	TAHOE_KILLS=$(or $(KILLS),40) TAHOE_SEED=$(or $(SEED),1) .venv/bin/python -m pytest tests/programs/test_killed_copy.py -s

killed-pipelines: java .venv/installed .venv/classes.jsa ## kill updates of a declarative pipeline with AutoCDC flows at each second, and compare their tables (half an hour)
	TAHOE_MODE=full TAHOE_KILLED_UPDATES=$(or $(KILLS),40) .venv/bin/python -m pytest tests/programs/test_pipelines.py -k killed -s

long-stream: java .venv/installed ## follow a commit a second for two hours, and fail if the memory of the driver or of Python grows (MINUTES=10 for less)
	TAHOE_LONG_STREAM=$$((60 * $(or $(MINUTES),120))) .venv/bin/python -m pytest tests/programs/test_long_stream.py -s

next-spark: java .venv/installed ## show what the newest PySpark of the index changes, previews and release candidates included (half an hour; SPARK=pyspark==4.2.1 for another)
	scripts/next-spark $(SPARK)

lock: ## update requirements/dev.txt and tools.txt to the newest versions
	scripts/lock

clean: ## remove the environments and everything that was downloaded
	rm -rf .venv .venv-* .cache build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

java:
	@scripts/check-java

.venv/installed: requirements/dev.txt pyproject.toml scripts/environment
	scripts/environment .venv requirements/dev.txt

.venv-tools/installed: requirements/tools.txt pyproject.toml scripts/environment
	scripts/environment .venv-tools requirements/tools.txt

# Only the programs start so many JVMs that an archive pays; the other targets use it if it is there.
.venv/classes.jsa: .venv/installed scripts/archive-classes
	scripts/archive-classes .venv

.venv-4.1/installed: .venv/installed requirements/spark-4.1.txt scripts/overlay
	scripts/overlay .venv-4.1 .venv requirements/spark-4.1.txt

.venv-4.2/installed: .venv/installed requirements/spark-4.2.txt scripts/overlay
	scripts/overlay .venv-4.2 .venv requirements/spark-4.2.txt

.venv-docs/installed: requirements/docs.txt pyproject.toml scripts/environment
	scripts/environment .venv-docs requirements/docs.txt

.venv-unity/installed: requirements/unity.txt scripts/environment
	scripts/environment .venv-unity requirements/unity.txt

.venv-iceberg/installed: requirements/iceberg.txt scripts/environment
	scripts/environment .venv-iceberg requirements/iceberg.txt

.venv-reference/installed: requirements/reference.txt scripts/environment
	scripts/environment .venv-reference requirements/reference.txt

# Download only the reference's own JARs. Spark has the other dependencies in versions of its own, and two versions of one library would clash.
.cache/reference-jars/installed: requirements/reference.pom.xml scripts/fetch-jars
	scripts/fetch-jars .cache/reference-jars requirements/reference.pom.xml -DexcludeGroupIds=org.apache.spark -DincludeGroupIds=io.delta,io.unitycatalog

.cache/reference-4.1-jars/installed: requirements/reference-4.1.pom.xml scripts/fetch-jars
	scripts/fetch-jars .cache/reference-4.1-jars requirements/reference-4.1.pom.xml -DexcludeGroupIds=org.apache.spark -DincludeGroupIds=io.delta,io.unitycatalog

.cache/iceberg-jars/installed: requirements/iceberg.pom.xml scripts/fetch-jars
	scripts/fetch-jars .cache/iceberg-jars requirements/iceberg.pom.xml -DincludeGroupIds=org.apache.iceberg

.cache/pyright/installed: Makefile
	npm install --prefix $(@D) --no-audit --no-fund --loglevel=error pyright@1.1.414
	touch $@

.cache/comet-jars/installed: requirements/comet.pom.xml scripts/fetch-jars
	scripts/fetch-jars .cache/comet-jars requirements/comet.pom.xml -DincludeGroupIds=org.apache.datafusion

.cache/s3-jars/installed: requirements/s3.pom.xml scripts/fetch-jars
	scripts/fetch-jars .cache/s3-jars requirements/s3.pom.xml -DincludeGroupIds=org.apache.hadoop,software.amazon.awssdk,software.amazon.s3.analytics

.cache/versitygw/installed: requirements/versitygw.txt scripts/build-server
	scripts/build-server .cache/versitygw requirements/versitygw.txt

.cache/seaweedfs/installed: requirements/seaweedfs.txt scripts/build-server
	scripts/build-server .cache/seaweedfs requirements/seaweedfs.txt

.cache/tpcds-jars/installed: requirements/tpcds.pom.xml scripts/fetch-jars
	scripts/fetch-jars .cache/tpcds-jars requirements/tpcds.pom.xml

.cache/hdfs-jars/installed: requirements/hdfs.pom.xml scripts/fetch-jars
	scripts/fetch-jars .cache/hdfs-jars requirements/hdfs.pom.xml
