#!/usr/bin/env bash
# Runs every static check, each to its end, so that one run reports all errors.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

failed=()
step() {
  local name="$1" start
  shift
  start=$(date +%s)
  if "$@"; then
    printf 'lint: %-14s ok (%s s)\n' "$name" "$(($(date +%s) - start))"
  else
    printf 'lint: %-14s FAILED\n' "$name"
    failed+=("$name")
  fi
}

format_cpp() { git ls-files -co --exclude-standard '*.h' '*.cpp' | xargs -r clang-format --dry-run -Werror; }
tidy() {
  cmake --preset release -B build/tidy -D FORKLIFT_UNITY_BATCH=100 --log-level=WARNING >/dev/null &&
    python tools/tidy.py build/tidy
}

step layers python tools/check_layers.py
step decisions python tools/decisions.py --check
step imports python tools/check_imports.py
step names python tools/check_names.py
step clang-format format_cpp
step ruff ruff check --quiet .
step ruff-format ruff format --check --quiet .
step mypy mypy --no-error-summary
step figures python bench/chart.py --check
step sizes python bench/plot.py --check
step table python tools/readme_table.py --check
step architecture python tools/architecture.py --check
step abi python tools/abi_namespace.py
step docs python tools/check_docs.py
step clang-tidy tidy

if [ ${#failed[@]} -gt 0 ]; then
  echo "lint: failed: ${failed[*]}"
  exit 1
fi
