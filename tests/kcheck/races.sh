#!/bin/sh
# races.sh: every plugin of this tree on the small shape, quickly: short enough for a build with ThreadSanitizer, which
# then sees what the slices of a parallel_for share.
set -eu
program=$top_builddir/kcheck
. "$top_srcdir/tests/lib/want.sh"

checked=0
for plugin in "$top_builddir"/plugins/*.so; do
	name=$(basename "$plugin" .so)
	case $name in cuda-*) continue ;; esac # tests/cusim
	rc=0
	"$program" --quick --shape tiny "$plugin" >"$dir/said" 2>&1 || rc=$?
	if [ "$rc" -eq 69 ] && grep -q "cpu-lacks" "$dir/said"; then
		echo "$name: not on this CPU"
		continue
	fi
	checked=$((checked + 1))
	if [ "$rc" -ne 0 ] || grep -q "WARNING: ThreadSanitizer" "$dir/said"; then
		echo "$name: exit status $rc"
		cat "$dir/said"
		failed=1
	fi
done
# Variants in portable C run anywhere.
[ "$checked" -ge 5 ] || { echo "only $checked plugins were checked"; failed=1; }
exit $failed
