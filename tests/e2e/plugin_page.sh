#!/bin/sh
# plugin_page.sh: dsv4-plugin(7) is right. Its example and its commands, taken out of the page, are run against an
# installed tree and a daemon that serves from it; its list of refusals is complete.
set -eu
page=$top_srcdir/man/dsv4-plugin.7
dir=$(mktemp -d "${TMPDIR:-/tmp}/dsv4d-page.XXXXXX")
prefix=$dir/root/usr
daemon=
finish() {
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || :
	wait
	[ ! -f "$dir/failed" ] || cat "$dir/log" >&2
	rm -rf "$dir"
}
trap finish EXIT
make_var() { sed -n "s/^$1 = //p" "$top_builddir/Makefile"; }
fail() { echo "plugin_page.sh: $*" >&2; touch "$dir/failed" "$dir/log"; exit 1; }

# taken NAME: the display between the comments `begin NAME` and `end`, as a reader sees it.
taken() {
	sed -n '/^\.\\" begin '"$1"'$/,/^\.\\" end$/p' "$page" |
		sed '/^\./d; s/\\-/-/g; s/\\(aq/'"'"'/g; s/\\e/\\/g' >"$dir/$1"
	[ -s "$dir/$1" ] || fail "nothing to take for $1"
}

# run NAME: the commands of that display, as they stand but for the port.
run() {
	taken "$1"
	(cd "$dir" && sed "s/127.0.0.1:8420/$http/" "$1" | PATH=$dir/bin:$prefix/bin:$PATH sh -eu >"$dir/said" 2>&1) ||
		{ cat "$dir/said" >&2; fail "the commands of \"$1\" failed"; }
}

# says TEXT: what the last run printed.
says() { grep -qF -- "$1" "$dir/said" || { cat "$dir/said" >&2; fail "not said: $1"; }; }

# ---- the page ----

if command -v mandoc >/dev/null; then
	mandoc -Tlint -Wwarning "$page" || fail 'mandoc complains of the page'
fi
sed -n 's/^REFUSAL([a-z_]*, *"\([^"]*\)".*/\1/p' "$top_srcdir/engine/plugin/refusals.def" | sort >"$dir/refusals"
sed -n '/^\.Sh WHEN A PLUGIN/,/^\.Sh FILES/s/^\.It Sy //p' "$page" | sort >"$dir/explained"
[ -s "$dir/refusals" ] || fail 'no refusals in the table'
diff "$dir/refusals" "$dir/explained" >&2 || fail 'the refusals of the page are not those of refusals.def'

# ---- an installed tree; cc and pkg-config are this build's ----

env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$top_builddir" install DESTDIR="$dir/root" \
	prefix=/usr exec_prefix=/usr bindir=/usr/bin sbindir=/usr/sbin libdir=/usr/lib includedir=/usr/include \
	datarootdir=/usr/share datadir=/usr/share mandir=/usr/share/man sysconfdir=/etc >"$dir/said" 2>&1 ||
	{ cat "$dir/said" >&2; fail 'make install'; }
mkdir "$dir/bin"
printf '#!/bin/sh\nexec %s "$@"\n' "$(make_var CC)" >"$dir/bin/cc"
cat >"$dir/bin/pkg-config" <<-EOF
	#!/bin/sh
	PKG_CONFIG_PATH=$prefix/lib/pkgconfig exec $(command -v pkg-config) --define-variable=prefix=$prefix \
		--define-variable=libdir=$prefix/lib --define-variable=includedir=$prefix/include "\$@"
EOF
chmod 755 "$dir/bin/cc" "$dir/bin/pkg-config"

# ---- an empty file becomes a plugin ----

taken my-norm.c
http=none
run build
says 'my-norm: 2 of 2 pass'
sh "$top_srcdir/plugins/audit.sh" "$dir/my-norm.so" || fail 'the audit refuses the example'

# ---- in a daemon that serves ----

DSV4D_SOCKET=$dir/control
export DSV4D_SOCKET
"$prefix/sbin/dsv4d" --model "$prefix/share/dsv4d/tiny" --listen 127.0.0.1:0 --control "$DSV4D_SOCKET" \
	--state "$dir/state" \
	--kernels ref --plugins "$prefix/lib/dsv4d/plugins" >"$dir/log" 2>&1 &
daemon=$!
ctl() { "$prefix/bin/dsv4ctl" "$@"; }
ctl wait ready --timeout 240 >"$dir/said" || fail 'the daemon does not get ready'
http=$(ctl --json status | sed -n 's/.*"http": *"\([^"]*\)".*/\1/p')

# provider OP PHASE: who computes it in the active set.
provider() { ctl kernels show | awk -v op="$1" -v ph="$2" '$1 == op && $3 == ph { print $5 }'; }
# expect PROVIDER: of rms_norm in both phases; rope is nobody's but ref's.
expect() {
	for phase in prefill decode; do
		[ "$(provider rms_norm $phase)" = "$1" ] || fail "rms_norm in $phase is not $1's: $(ctl kernels show)"
		[ "$(provider rope $phase)" = ref ] || fail "rope in $phase is not ref's: $(ctl kernels show)"
	done
}

expect ref
run use
says accepted
says f64-sum
says assistant
expect my-norm
ctl request list | grep -q my-norm || fail "the request names other kernels: $(ctl request list)"
run back
expect ref

kill "$daemon"
rc=0
wait "$daemon" || rc=$?
daemon=
[ "$rc" -eq 0 ] || fail "dsv4d ended with status $rc"
echo "the page's example is built, checked, loaded, used and rolled back"
