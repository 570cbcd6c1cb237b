#!/bin/sh
# cuda.sh: every plugin for GPUs passes a quick check on the small shape, run by the simulator of tests/cusim, which finds
# nothing wrong with its kernels either; with other values in every run. Those that have products of their own for one
# architecture do so there, and say whose they take.
set -eu
program=$top_builddir/kcheck
. "$top_srcdir/tests/lib/want.sh"
[ -e "$top_builddir/tests/cusim/libcuda.so.1" ] || { echo "built without a C++ compiler"; exit 77; }
export LD_LIBRARY_PATH="$top_builddir/tests/cusim"

want 69 "the driver has 1 GPU" --device cuda:1 --quick
seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
seed=$((seed + 1))
echo "seed $seed"
passes() { # FILE TEXT
	name=$(basename "$1" .so)
	rc=0
	"$program" --device cuda:0 --quick --seed "$seed" --shape tiny "$1" >"$dir/said" 2>&1 || rc=$?
	if [ "$rc" -ne 0 ] || grep -q "^cusim:" "$dir/said" || ! grep -q "$2" "$dir/said" ||
	   ! grep -qE "^$name: ([1-9][0-9]*) of \1 pass" "$dir/said"; then
		cat "$dir/said"
		echo "FAILED: $name does not pass, or does not say \"$2\""
		failed=1
	fi
}
checked=0
for plugin in "$top_builddir"/plugins/cuda-*.so; do
	passes "$plugin" ""
	checked=$((checked + 1))
done
[ "$checked" -ge 1 ] || { echo "no plugin was checked"; failed=1; }

on() { # ARCHITECTURE PLUGIN TEXT
	export CUSIM_SM="$1"
	passes "$top_builddir/plugins/$2.so" "$3"
	unset CUSIM_SM
}
on 100 cuda-moe-fp4 "into sm_100a's tensor cores"
on 103 cuda-moe-fp4 "decoded to bf16"
on 120 cuda-moe-fp4 "into sm_120a's tensor cores"
on 121 cuda-moe-fp4 "decoded to bf16"
on 120 cuda-gemm-fp8 "into sm_120a's tensor cores"
on 121 cuda-gemm-fp8 "decoded to bf16"

# One float beyond a row is beyond its buffer in some case, which only the simulator sees.
fixture() { # NAME STATUS TEXT
	want "$2" "$3" --device cuda:0 --quick --seed "$seed" --shape tiny "$top_builddir/tests/cuda/norm-$1.so"
}
fixture right 0 "2 of 2 pass"
fixture short 1 "wrong"
fixture writes 1 "out-of-bounds"
fixture reads 75 "cusim: cuda_norm_reads"
exit $failed
