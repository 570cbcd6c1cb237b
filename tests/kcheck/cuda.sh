#!/bin/sh
# cuda.sh: every plugin for GPUs passes a quick check on the small shape, run by the simulator of tests/cusim, which finds
# nothing wrong with its kernels either; with other values in every run.
set -eu
program=$top_builddir/kcheck
. "$top_srcdir/tests/lib/want.sh"
[ -e "$top_builddir/tests/cusim/libcuda.so.1" ] || { echo "built without a C++ compiler"; exit 77; }
export LD_LIBRARY_PATH="$top_builddir/tests/cusim"

want 69 "the driver has 1 GPU" --device cuda:1 --quick
seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
seed=$((seed + 1))
echo "seed $seed"
checked=0
for plugin in "$top_builddir"/plugins/cuda-*.so; do
	name=$(basename "$plugin" .so)
	rc=0
	"$program" --device cuda:0 --quick --seed "$seed" --shape tiny "$plugin" >"$dir/said" 2>&1 || rc=$?
	checked=$((checked + 1))
	if [ "$rc" -ne 0 ] || grep -q "^cusim:" "$dir/said" || ! grep -qE "^$name: ([1-9][0-9]*) of \1 pass" "$dir/said"; then
		cat "$dir/said"
		failed=1
	fi
done
[ "$checked" -ge 1 ] || { echo "no plugin was checked"; failed=1; }

# One float beyond a row is beyond its buffer in some case, which only the simulator sees.
fixture() { # NAME STATUS TEXT
	want "$2" "$3" --device cuda:0 --quick --seed "$seed" --shape tiny "$top_builddir/tests/cuda/norm-$1.so"
}
fixture right 0 "2 of 2 pass"
fixture short 1 "wrong"
fixture writes 1 "out-of-bounds"
fixture reads 75 "cusim: cuda_norm_reads"
exit $failed
