#!/usr/bin/env bash
# Everything about GPUs on a machine that has one of NVIDIA's: builds, runs the tests of lifetimes on the real driver,
# and measures beside torch.multiprocessing, if a torch for CUDA is installed in .venv.
#
#   bench/device.sh                  all of it; writes bench/results-device.json and bench/RESULTS-device.md
#   bench/device.sh --quick          the same with a tenth of the measured work; other arguments of bench/device.py too
#   bench/device.sh --check-only     on any machine: the rows on the tests' fake driver, as `make core wheel` built it
#
# It needs no network but for what `make setup` installs where something is missing. With nvcc the kernels for GPUs are
# compiled, without it operations on a GPU are not tested.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'device: %s\n' "$*"; }

python=.venv/bin/python
if [[ " $* " == *" --check-only "* ]]; then
  export FORKLIFT_LIBCUDA="${FORKLIFT_LIBCUDA:-$PWD/build/release/tests/fake_cuda/libcuda.so.1}"
  export FORKLIFT_FAKE_CUDA_MACHINE="device-$$"
  exec "$python" bench/device.py "$@"
fi

[ -e /dev/nvidiactl ] || [ -e /dev/dxg ] || { say "there is no GPU of NVIDIA's here (--check-only uses the fake driver)" >&2; exit 1; }
unset FORKLIFT_LIBCUDA
command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || say "no nvcc: without kernels, so without tests of operations"
make core wheel

status=0
say "tests of C++ on the real driver"
FORKLIFT_TEST_REAL_CUDA=1 .venv/bin/ctest --preset release -R 'Cuda|^Gpu|Pinned' -j 1 --output-on-failure || status=1
say "tests of Python on the real driver"
FORKLIFT_TEST_REAL_CUDA=1 "$python" -m pytest -rs tests/python/devices || status=1
say "measurements"
"$python" bench/device.py --json bench/results-device.json --markdown bench/RESULTS-device.md "$@" || status=1
exit "$status"
