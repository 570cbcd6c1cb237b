#!/bin/sh
# run.sh PROGRAM.fuzz: one bounded run of a libFuzzer target, from its seeds in tests/fuzz/seeds/NAME when there are
# any.
# FUZZ_RUNS inputs (default 20000); set it to 1000000 for a long run, with FUZZ_SECONDS=0 for no time bound.
set -eu
program=${1%.fuzz}
name=$(basename "$program")
seeds=${top_srcdir:-.}/tests/fuzz/seeds/${name#fuzz_}
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
if [ -d "$seeds" ]; then cp -r "$seeds"/. "$corpus"/; fi
"./$program" -runs="${FUZZ_RUNS:-20000}" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 \
	-print_final_stats=1 -artifact_prefix="$name-" "$corpus"
