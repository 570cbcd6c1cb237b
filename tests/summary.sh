#!/bin/sh
# summary.sh BUILD_DIR...: adds up automake's test results over build trees, as "N passed, N failed, N skipped".
set -eu
pass=0 fail=0 skip=0
for dir; do
	for trs in $(find "$dir" -name '*.trs' | sort); do
		while read -r key value _; do
			[ "$key" = :test-result: ] || continue
			case $value in
			PASS | XFAIL) pass=$((pass + 1)) ;;
			SKIP) skip=$((skip + 1)); echo "skipped: $trs" ;;
			*) fail=$((fail + 1)); echo "failed: $trs" ;;
			esac
		done <"$trs"
	done
done
[ $((pass + fail)) -gt 0 ] || { echo "no test ran"; exit 1; }
if [ $skip -gt 0 ]; then echo "$pass passed, $fail failed, $skip skipped"; else echo "$pass passed, $fail failed"; fi
[ $fail -eq 0 ]
