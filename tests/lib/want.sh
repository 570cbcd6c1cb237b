# want.sh: for scripts that check a program's command line. The script sets $program and sources this; it ends with
# `exit $failed`. $dir is a directory of its own, removed at the end.
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

# want STATUS TEXT ARG...: the command ends with the status and says the text.
want()
{
	status=$1 text=$2
	shift 2
	rc=0
	"$program" "$@" >"$dir/said" 2>&1 || rc=$?
	if [ "$rc" -ne "$status" ] || ! grep -qF -- "$text" "$dir/said"; then
		echo "${program##*/} $*: exit $rc, wanted $status and \"$text\"; it said:" >&2
		cat "$dir/said" >&2
		failed=1
	fi
}
