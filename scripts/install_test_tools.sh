#!/usr/bin/env bash
# Installs DuckDB, the other engine of scripts/reference_answers.py and scripts/check_aged_answers.py, as a Python package of
# this user. Nothing else needs it, because its answers are shipped in data/tpch.
set -euo pipefail
python3 -m pip install --user --upgrade duckdb 2>/dev/null || python3 -m pip install --upgrade duckdb
python3 -c 'import duckdb; print("DuckDB", duckdb.__version__)'
