#!/bin/sh
# gpu.sh [--quick] [--model DIR] [--device cuda:N] [STEP...]: everything that a machine with a GPU has to say, in one command:
#     kcheck  every plugin for GPUs, on all shapes
#     golden  the golden vectors, swaps, compare and shadow through a daemon
#     roof op model  what dsv4-bench measures
# All of it, or these steps; printed, and kept in tests/bench/results (or $RESULTS) under the date and the device. Exit status
# 0: all passed; 69: there is no such device.
#
# DIR is a checkpoint to measure beside the embedded one: dsv4-mkmodel makes some of Flash's shape. --quick: minutes instead
# of an hour, for a look; its figures are of no worth. The build is $top_builddir, or build.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
quick=
model=
device=cuda:0
while [ $# -gt 0 ]; do
	case $1 in
	--quick) quick=yes ;;
	--model) model=$2; shift ;;
	--device) device=$2; shift ;;
	-*) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	*) break ;;
	esac
	shift
done
steps=" ${*:-kcheck golden roof op model} "
build=$(cd "${top_builddir:-build}" && pwd)
results=${RESULTS:-$source/tests/bench/results}
python=${DSV4_PYTHON:-$build/venv/bin/python}
cd "$source"

name=$("$build/dsv4-bench" roof --device "$device" --seconds 0.01 --memory 1M | sed -n 's/^device  *[^:]*:[0-9]*: //p')
[ -n "$name" ] || exit 69
mkdir -p "$results"
out=$results/$(date +%F)-$(printf '%s' "${name%%,*}" | tr -cs 'A-Za-z0-9' -).txt
failed=$(mktemp)
trap 'rm -f "$failed"' EXIT

run() { # COMMAND...
	printf '\n$ %s\n' "$(echo "$*" | sed "s|$build/||g; s|$source/||g")"
	"$@" 2>&1 || echo "FAILED: exit status $?" | tee -a "$failed"
}

bench() { # MODE ARG...
	[ -z "$quick" ] || set -- "$@" --seconds 0.01 --memory 4M
	run "$build/dsv4-bench" "$@" --device "$device"
}

every_plugin() { # COMMAND...
	for plugin in "$build"/plugins/cuda-*.so; do
		"$@" "$plugin"
	done
}

step_kcheck() {
	every_plugin run "$build/kcheck" --device "$device" ${quick:+--quick --shape tiny}
}

step_golden() {
	export top_builddir="$build" top_srcdir="$source" CUDA="$device" GOLDEN="${quick:-all}"
	run "$python" "$source/tests/cuda/whole.py"
}

step_roof() {
	bench roof
}

step_op() {
	every_plugin bench op
}

step_model() {
	[ -z "$quick" ] || set -- --contexts 10 --prefill 9
	set -- "$@" --plugin "$build/plugins/cuda-base.so" # the others lie over it
	for plugin in "$build"/plugins/cuda-*.so; do
		[ "${plugin##*/}" = cuda-base.so ] || set -- "$@" --plugin "$plugin"
	done
	bench model "$source/etc/tiny" "$@"
	[ -z "$model" ] || bench model "$model" "$@"
}

everything() {
	echo "$name, $(date +%F), $("$build/dsv4d" --version | head -n 1)${quick:+, quick: figures of no worth}"
	git log -1 --format='commit %h' 2>/dev/null || true
	for step in kcheck golden roof op model; do
		case $steps in *" $step "*) "step_$step" ;; esac
	done
}

everything | tee "$out"
echo "kept in $out"
[ ! -s "$failed" ] || { echo "FAILED: $(wc -l <"$failed") of these" >&2; exit 1; }
