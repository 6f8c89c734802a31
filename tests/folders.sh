#!/usr/bin/env bash
# Everything the README promises, where a stranger may have put it: in a folder called forklift, in one with a space
# and an umlaut in its path, and as an ordinary user who can install no packages.
#
#   tests/folders.sh                        each place: make demo, make test, make bench (quick)
#   tests/folders.sh --only "demo test-py"  other targets
#   tests/folders.sh --place umlaut         one of: forklift, umlaut, user
#
# What is committed is tested, in clones below a folder of its own, which is removed at the end. The machine needs
# the packages that `make setup` installs; run that first. PIP_ARGS and PYTHON are passed on.
set -euo pipefail
cd "$(dirname "$0")/.."

targets="demo test bench"
places="forklift umlaut user"
while [ $# -gt 0 ]; do
  case "$1" in
    --only) targets="$2" ;;
    --place) places="$2" ;;
    *)
      echo "folders.sh: $1 is none of --only, --place" >&2
      exit 2
      ;;
  esac
  shift 2
done

source_tree="$PWD"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

run_targets() { # in a clone; the rest: how to become whom
  local target status=0
  for target in $targets; do
    echo "== $PWD: make $target" >&2
    "$@" make "$target" BENCH_ARGS="--quick --rows queue-rtt,pool-apply,cpp-rtt" </dev/null || status=1
  done
  return $status
}

passed=0
failed=0
for place in $places; do
  case "$place" in
    forklift) folder="$work/forklift" ;;
    umlaut) folder="$work/mit Lücke und Ümlaut/tree" ;;
    user) folder="$work/home/tree" ;;
    *)
      echo "folders.sh: no place $place" >&2
      exit 2
      ;;
  esac
  mkdir -p "$(dirname "$folder")"
  git clone -q "$source_tree" "$folder"
  become=(env)
  if [ "$place" = user ]; then
    if [ "$(id -u)" != 0 ]; then
      echo "folders.sh: this is an ordinary user already" >&2
    else
      # Nobody's uid, so that nothing of this user's can be read or written by accident.
      chown -R 65534:65534 "$work/home"
      become=(setpriv --reuid=65534 --regid=65534 --clear-groups env "HOME=$work/home" "TMPDIR=$work/home")
    fi
  fi
  if (cd "$folder" && run_targets "${become[@]}"); then
    passed=$((passed + 1))
    echo "folders: $place ok"
  else
    failed=$((failed + 1))
    echo "folders: $place FAILED"
  fi
  rm -rf "$folder"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
