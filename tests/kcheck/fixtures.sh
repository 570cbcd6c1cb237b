#!/bin/sh
# fixtures.sh: kcheck passes a plugin that is right and fails each that is wrong in its numbers, for the right reason,
# whatever the values are.
set -eu
program=$top_builddir/kcheck
. "$top_srcdir/tests/lib/want.sh"

for seed in 1 2 "$$"; do
	for speed in --quick --shape=tiny; do
		# checked STATUS TEXT FIXTURE
		checked() { want "$1" "$2" --seed "$seed" "$speed" "$top_builddir/tests/plugins/$3.so"; }
		checked 0 "good: " good
		checked 1 " wrong" wrong-result
		# Guard bytes or an unmapped page, whichever it meets first.
		for fixture in past-end before-start; do
			checked 1 "$fixture" "$fixture"
			grep -qE 'out-of-bounds|touched memory that is not there' "$dir/said" ||
				{ cat "$dir/said"; failed=1; }
		done
		checked 1 "out-of-bounds" between-rows
		# Also one that puts back what was there: where weights lie, the first write kills.
		for fixture in writes-input restores-input; do
			checked 1 "wrote what is only to be read" "$fixture"
		done
		checked 1 "not-identical" batch
		checked 1 "not-identical" threads
		checked 1 "leaks: close() left 4096 bytes in 1 pieces" leaks
	done
done
exit $failed
