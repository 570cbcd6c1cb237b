#!/bin/sh
# Golden vectors of the tiny model through dsv4-eval, in both profiles, by the tolerances their README gives:
# exact: every number within 5e-5, expert and row sets equal; native: logits within the noise of one rounding step.
# With ref, and with the plugins that claim to compute the same; each of these in one profile where a sanitizer is built in.
set -eu
eval="$top_builddir/dsv4-eval"
golden="$top_srcdir/tests/data/golden"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# compute OUT PROFILE ARG...
compute()
{
	out=$dir/$1 profile=$2
	shift 2
	"$eval" --model "$top_srcdir/etc/tiny" --in "$golden/$profile.safetensors" --out "$out" \
		--profile "$profile" "$@"
}

# compare A B ARG...
compare()
{
	a=$1 b=$2
	shift 2
	echo "== ${a##*/} against ${b#"$top_srcdir/"}: $*"
	"$eval" --diff "$a" "$b" "$@" || failed=1
}

sanitized=
if grep -q __asan_init "$eval"; then
	sanitized=1
	echo "== a build with a sanitizer: plugins in one profile each"
fi
# in_profile PLUGIN PROFILE: is it computed?
in_profile()
{
	[ -z "$sanitized" ] && return
	case $1-$2 in moe-fused-native | avx2-exact | avx512-native) ;; *) return 1 ;; esac
}

within_exact="--tolerance 5e-5"
within_native="--only logits,experts,rows --tolerance 6e-2 --median 1e-2 --gap 0.3 --sets 0.9"
golden_exact="$golden/exact.safetensors"
golden_native="$golden/native.safetensors"

failed=0
compute exact exact
compute native native
compare "$dir/exact" "$golden_exact" $within_exact
compare "$dir/native" "$golden_native" $within_native

# with PLUGIN: $with is the arguments to run all that it offers; false where build or CPU are not for it.
with()
{
	so="$top_builddir/plugins/$1.so"
	[ -e "$so" ] || { echo "== $1: not built here"; return 1; }
	facts=$(grep -ao '<dsv4-facts>[^<]*' "$so")
	for feature in $(echo "$facts" | sed 's/.*"cpu":"\([^"]*\)".*/\1/'); do
		grep -qw "$feature" /proc/cpuinfo || { echo "== $1: no $feature here"; return 1; }
	done
	install -m 0755 "$so" "$dir"
	with="--plugin $dir/$1.so --kernels all=$1"
}

# This one has ref's own bits.
for plugin in moe-fused; do
	with $plugin || continue
	for profile in exact native; do
		in_profile $plugin $profile || continue
		compute $plugin-$profile $profile $with
		compare "$dir/$plugin-$profile" "$dir/$profile" --tolerance 0
	done
done

# These sum in another order: as near to the golden numbers as ref has to be.
for plugin in avx2 avx512; do
	with $plugin || continue
	for profile in exact native; do
		in_profile $plugin $profile || continue
		compute $plugin-$profile $profile $with
		case $profile in exact) within=$within_exact ;; native) within=$within_native ;; esac
		compare "$dir/$plugin-$profile" "$golden/$profile.safetensors" $within
	done
done

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
