#!/bin/sh
# kcheck.sh: kcheck's command line; and every plugin of this tree passes a quick check, with other values in every run.
set -eu
program=$top_builddir/kcheck
. "$top_srcdir/tests/lib/want.sh"

want 0 "usage: kcheck" --help
want 0 "kcheck " --version
want 2 "unrecognized option" --quik
want 2 '--op does not take "gemm"' --op gemm
want 2 '--seed: "0" is not a whole number from 1' --seed 0
want 2 '--seed: "7x" is not a whole number from 1' --seed 7x
want 2 '--shape does not take "huge"' --shape huge
want 2 '--threads: "0" is not a whole number from 1 to 1024' --threads 0
want 69 "$dir/none.so" "$dir/none.so"
printf 'no plugin' >"$dir/junk.so"
want 69 "not-a-plugin-file" "$dir/junk.so"

# One that cannot be loaded does not keep the others from being checked, and decides the exit status.
want 69 "ref: 2 of 2 pass" --quick --shape tiny --op rope "$dir/junk.so" ref
want 0 "roofs: " --bench --shape tiny --op index_topk --threads 1
want 0 '"of_roof":' --bench --json --shape tiny --op index_topk --threads 1 ref
want 0 '"op":"index_topk","phase":"decode","weights":"-","numerics":"exact","class":"exact","verdict":"pass"' \
	--json --quick --shape tiny --op index_topk
want 1 "has no op to check" --quick --op attn "$top_builddir/plugins/mhc-bf16.so"

seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
seed=$((seed + 1))
echo "seed $seed"
want 0 "ref: 50 of 50 pass" --quick --seed "$seed"
checked=0
# avx2 once more as where AVX-VNNI is missing, whichever CPU this is; on other architectures it is not there.
for plugin in "$top_builddir"/plugins/*.so "$top_builddir"/tests/plugins/avx2-*.so; do
	[ -e "$plugin" ] || continue
	name=$(basename "$plugin" .so)
	case $name in cuda-*) continue ;; esac # tests/cusim
	rc=0
	"$program" --quick --seed "$seed" "$plugin" >"$dir/said" 2>&1 || rc=$?
	if [ "$rc" -eq 69 ] && grep -q "cpu-lacks" "$dir/said"; then
		echo "$name: not on this CPU"
		continue
	fi
	checked=$((checked + 1))
	if [ "$rc" -ne 0 ] || ! grep -qE "^${name%-without-vnni}: ([1-9][0-9]*) of \1 pass" "$dir/said"; then
		cat "$dir/said"
		failed=1
	fi
done
# What one value, or one score of attention, on the other side of a rounding edge moves is no fault: in one seed of a
# hundred it was one.
if grep -qE '^flags.* avx512vl( |$)' /proc/cpuinfo && [ -e "$top_builddir/plugins/avx512.so" ]; then
	want 0 "avx512: 2 of 2 pass" --quick --seed 2793723541 --op hc_post "$top_builddir/plugins/avx512.so"
	want 0 "avx512: 2 of 2 pass" --quick --seed 929050885 --op attn "$top_builddir/plugins/avx512.so"
fi
# Variants in portable C run anywhere.
[ "$checked" -ge 5 ] || { echo "only $checked plugins were checked"; failed=1; }
exit $failed
