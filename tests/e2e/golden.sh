#!/bin/sh
# Golden vectors of the tiny model through dsv4-eval, in both profiles, by the tolerances their README gives:
# exact: every number within 5e-5, expert and row sets equal; native: logits within the noise of one rounding step.
set -eu
eval="$top_builddir/dsv4-eval"
golden="$top_srcdir/tests/data/golden"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

run()
{
	profile=$1
	shift
	"$eval" --model "$top_srcdir/etc/tiny" --in "$golden/$profile.safetensors" --out "$dir/$profile" \
		--profile "$profile"
	echo "== $profile"
	"$eval" --diff "$dir/$profile" "$golden/$profile.safetensors" "$@" || failed=1
}

failed=0
run exact --tolerance 5e-5
run native --only logits,experts,rows --tolerance 6e-2 --median 1e-2 --gap 0.3 --sets 0.9

# The names and shapes are those of the golden files, all of them.
if "$eval" --diff "$dir/exact" "$golden/exact.safetensors" | grep 'only in'; then
	failed=1
fi
# A profile's numbers must not pass for the other's.
if "$eval" --diff "$dir/native" "$golden/exact.safetensors" --tolerance 5e-5 >"$dir/table"; then
	echo "native passed as exact" >&2
	failed=1
fi
exit $failed
