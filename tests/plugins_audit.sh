#!/bin/sh
# plugins_audit.sh: every plugin of this build passes the audit, and the audit finds each thing it looks for.
set -eu
src=${top_srcdir:-.}
build=${top_builddir:-build}
audit="sh $src/plugins/audit.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

make_var() {
	sed -n "s/^$1 = //p" "$build/Makefile"
}
cc=$(make_var CC)

failed=0
fail() {
	printf 'FAILED: %s\n' "$*"
	failed=1
}

# compile NAME CODE FLAGS...: the smallest plugin, CODE added, to $dir/NAME.so.
compile() {
	name=$1 code=$2
	shift 2
	cat >"$dir/$name.c" <<-EOF
		#include "plugins/dsv4_plugin.h"
		static int op(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rms_norm *a)
		{
			(void)x, (void)host;
			for (int64_t i = 0; i < a->n_row * a->dim; i++)
				a->y[i] = sqrtf(a->x[i]) + a->eps;
			return 0;
		}
		#define OPS(OP) OP(rms_norm, BOTH, ANY, LOSSY, "none", op)
		DSV4_PLUGIN("offender", "1.0", "", "", OPS, NULL, NULL, NULL)
		$code
	EOF
	$cc -O1 -fPIC -fvisibility=hidden -w -I"$src" "$dir/$name.c" -shared -nostartfiles -Wl,-z,now,-z,relro \
		-o "$dir/$name.so" -lm "$@"
}

# refused RULE WORD CODE FLAGS...: a plugin with CODE is refused by RULE, in a line that has WORD.
n_offender=0
refused() {
	rule=$1 word=$2 n_offender=$((n_offender + 1))
	shift 2
	compile "bad$n_offender" "$@"
	if out=$($audit "$dir/bad$n_offender.so"); then
		fail "$rule $word: passed"
	elif ! printf '%s\n' "$out" | grep -F ".so: $rule: " | grep -qF -- "$word"; then
		fail "$rule $word: not found in"
		printf '%s\n' "$out"
	fi
}

# ---- what ships ----

if [ -n "$(make_var SAN)" ]; then
	echo 'plugins of this build carry a sanitizer: not audited'
else
	set -- "$build"/plugins/*.so
	[ -f "$1" ] || fail 'this build has no plugins'
	$audit "$@" || fail 'a plugin of this build'
	echo "$# plugins audited"
fi

# ---- what must not ----

compile good '' && $audit "$dir/good.so" || fail 'the plugin without an offence'

echo 'int other(void) { return 1; }' >"$dir/other.c"
$cc -shared -fPIC -o "$dir/libother.so" "$dir/other.c"
keep='__attribute__((used))'

refused needed libother.so "int other(void); $keep static int f(void) { return other(); }" -L"$dir" -lother
refused symbol 'malloc: memory' "#include <stdlib.h>
	$keep static void *f(void) { return malloc(9); }"
refused symbol 'strdup: memory' "$keep static char *f(const char *s) { return strdup(s); }"
refused symbol 'pthread_create: threads' "#include <pthread.h>
	$keep static int f(pthread_t *t) { return pthread_create(t, 0, 0, 0); }"
refused symbol 'GOMP_parallel: threads' "void GOMP_parallel(void);
	$keep static void f(void) { GOMP_parallel(); }"
refused symbol 'on_exit: runs after' "int on_exit(void (*)(void), void *);
	$keep static void g(void) { on_exit(g, 0); }"
refused symbol '__cxa_atexit: runs after' "int __cxa_atexit(void);
	$keep static int g(void) { return __cxa_atexit(); }"
refused symbol 'dlopen: maps' "#include <dlfcn.h>
	$keep static void *f(void) { return dlopen(0, 0); }"
refused symbol 'printf: text' "#include <stdio.h>
	$keep static int f(int i) { return printf(\"%d\", i); }"
refused symbol 'stderr: text' "#include <stdio.h>
	$keep static int f(void) { return fileno(stderr); }"
refused symbol 'getenv: not on the list' "char *getenv(const char *);
	$keep static char *f(void) { return getenv(\"A\"); }"
refused symbol 'lgammaf: not on the list' "$keep static float f(float x) { return lgammaf(x); }"
refused start INIT_ARRAY '__attribute__((constructor)) static void f(void) { __asm__(""); }'
refused start FINI_ARRAY '__attribute__((destructor)) static void f(void) { __asm__(""); }'
refused start '(INIT)' 'void _init(void) {}'
refused start ifunc "static int one(void) { return 1; } static int (*pick(void))(void) { return one; }
	__attribute__((visibility(\"hidden\"))) int which(void) __attribute__((ifunc(\"pick\")));
	$keep static int f(void) { return which(); }"
refused data .bss "$keep static int count; $keep static int f(void) { return ++count; }"
refused data .data "$keep static int count = 3; $keep static int f(void) { return ++count; }"
refused tls bytes "$keep static __thread int count; $keep static int f(void) { return ++count; }"
refused unique pinned '__asm__(".section .rodata\n.globl pinned\n.type pinned, %gnu_unique_object\n"
	".size pinned, 4\npinned: .long 1\n.text");'
refused nodelete NODELETE '' -Wl,-z,nodelete
refused exports helper '__attribute__((visibility("default"))) int helper(void) { return 1; }'
refused binding 'no -z now' '' -Wl,-z,lazy
refused binding 'relocations in code' '__asm__(".text\n.balign 8\n.quad dsv4_plugin_descriptor\n");' \
	-Wl,-z,notext
refused path 'RUNPATH' '' -Wl,--enable-new-dtags,-rpath,/nowhere
refused stack GNU_STACK '' -Wl,-z,execstack
refused facts 'found 2 times' "$keep static const char again[] = \"<dsv4-facts>[]</dsv4-facts>\";"
refused data 'relro' '' -Wl,-z,norelro

# A library that is no plugin, and a file that is no library.
out=$($audit "$dir/libother.so") && fail 'a library that is no plugin passed'
printf '%s\n' "$out" | grep -q 'facts: found 0 times' || fail 'facts of a library that is no plugin'
$audit "$dir/other.c" >/dev/null && fail 'a C file passed'

# Every rule that the audit knows was broken above.
for rule in $(sed -n 's/^#   \([a-z]*\)  .*/\1/p' "$src/plugins/audit.sh"); do
	grep -q "^refused $rule " "$src/tests/plugins_audit.sh" || fail "rule $rule has no offender"
done

echo "$n_offender offenders"
exit $failed
