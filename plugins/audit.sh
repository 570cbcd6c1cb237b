#!/bin/sh
# audit.sh FILE.so...: is each a plugin that can be mapped, used, and unmapped without trace? Prints a line
# "FILE: rule: what was found" for everything that is not so, and fails if there was any.
#
# Each rule names something that outlives dlclose() or runs before the daemon allows it:
#   needed       other libraries than libc and libm come along, and may stay
#   symbol       an imported function that is not on the list: some keep state, start threads or write files
#   start        code that runs when the library is mapped or unmapped: constructors, destructors, resolvers
#   data         writable data: what a plugin remembers stands behind host->state
#   tls          thread-local storage: the threads outlive the mapping
#   unique       a symbol of type STB_GNU_UNIQUE pins the library for good (C++ does this)
#   nodelete     linked to stay
#   exports      more or less than dsv4_plugin_descriptor
#   binding      symbols are bound at first use, or by changing code (-z now, -fPIC)
#   path         a run path of its own
#   stack        an executable stack, or memory both writable and executable
#   facts        the facts do not stand in the file exactly once
set -eu
export LC_ALL=C

FACTS='<dsv4-facts>'
LIBRARIES='libc\.so\.[0-9]+|libm\.so\.[0-9]+|ld-linux[a-z0-9_-]*\.so\.[0-9]+'

# libm without what keeps state (lgamma writes signgam), each as double and float; libc without what allocates,
# prints or keeps state, with the names that hardened builds give some.
alternatives() {
	tr -s ' \n' '||' | sed 's/^|//; s/|$//'
}
MATH=$(alternatives <<EOF
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim
floor fma fmax fmin fmod frexp hypot ilogb ldexp llrint llround log log10 log1p log2 logb lrint lround modf
nearbyint nextafter pow remainder rint round roundeven scalbln scalbn sin sincos sinh sqrt tan tanh tgamma trunc
EOF
)
LIBC=$(alternatives <<EOF
abort bcmp bsearch mem(chr|cmp|cpy|move|rchr|set) str(chr|cmp|len|ncmp|nlen|rchr|str) v?snprintf
__errno_location __stack_chk_fail __mem(cpy|move|set)_chk __v?snprintf_chk
EOF
)
ALLOWED="($MATH)f?|__($MATH)f?_finite|$LIBC"

# complain RULE TEXT: one complaint per line of standard input, "TEXT line".
complain() {
	while read -r line; do
		printf '%s: %s: %s%s\n' "$file" "$1" "$2" "$line"
	done
}

# Why an imported function is refused.
reason() {
	case $1 in
	malloc | calloc | realloc | free | aligned_alloc | posix_memalign | memalign | strdup)
		echo 'memory comes from host->alloc and host->scratch' ;;
	pthread_* | thrd_* | GOMP_* | GOACC_* | omp_* | __kmpc_*) echo 'threads are host->parallel_for'"'s" ;;
	atexit | on_exit | __cxa_* | at_quick_exit)
		echo 'runs after the mapping is gone (linked without -nostartfiles?)' ;;
	dl*) echo 'maps libraries of its own' ;;
	*printf | *printf_chk | put* | fput* | fwrite | fopen* | write | std* | perror | syslog | __assert_fail)
		echo 'text goes to host->log' ;;
	__tls_get_addr) echo 'thread-local storage' ;;
	__asan_* | __tsan_* | __ubsan_* | __gcov_*) echo 'built with a sanitizer or for coverage' ;;
	cuda* | __cuda* | cu[A-Z]*) echo 'device code goes through the host' ;;
	*) echo 'not on the list of libc and libm functions' ;;
	esac
}

imports() {
	nm -D --undefined-only "$file" | sed 's/^ *[A-Za-z] //; s/@.*//' | grep -vxE "$ALLOWED" |
		while read -r name; do
			printf '%s: symbol: %s: %s\n' "$file" "$name" "$(reason "$name")"
		done
}

dynamic() {
	tags=$(readelf -dW "$file")
	tag() {
		printf '%s\n' "$tags" | grep -oE "$1"
	}
	tag '\(NEEDED\).*' | sed 's/.*\[\(.*\)\]/\1/' | grep -vxE "$LIBRARIES" | complain needed ''
	tag '\((PREINIT_ARRAY|INIT|INIT_ARRAY|FINI|FINI_ARRAY)\)' | complain start ''
	readelf -rW "$file" | grep -qE 'IRELATIV|_IFUNC' && echo 'a resolver (ifunc)' | complain start ''
	readelf -SW "$file" | grep -oE '\.(ctors|dtors) ' | complain start ''
	tag NODELETE | sort -u | complain nodelete ''
	tag TEXTREL | sort -u | complain binding 'relocations in code: '
	tag '\((RPATH|RUNPATH)\).*' | complain path ''
	tag 'BIND_NOW|FLAGS_1.*NOW' >/dev/null || echo 'no -z now' | complain binding ''
	readelf --dyn-syms -W "$file" | awk '$5 == "UNIQUE" && $7 != "UND" { print $8 }' | complain unique ''
}

# Writable segments that end up read-only are as good as constants: the part of each that relro does not cover
# is what counts.
segments() {
	heads=$(readelf -lW "$file" | sed -n 's/^ *\(LOAD\|TLS\|GNU_STACK\|GNU_RELRO\) .*/&/p')
	relro=$(printf '%s\n' "$heads" | awk '$1 == "GNU_RELRO" { print $3, $6 }')
	[ -n "$relro" ] || relro='0 0'
	start=$((${relro% *}))
	end=$((start + ${relro#* }))
	printf '%s\n' "$heads" | awk '{ f = ""; for (i = 7; i < NF; i++) f = f $i; print $1, $3, $6, f }' |
		while read -r type at size flags; do
			case $type:$flags in
			TLS:*) echo "$size bytes" | complain tls '' ;;
			*:*W*E*) echo "$type segment" | complain stack 'writable and executable: ' ;;
			LOAD:*W*)
				[ $((at)) -ge "$start" ] && [ $((at + size)) -le "$end" ] ||
					echo "$(writable)not covered by relro" | complain data ''
				;;
			esac
		done
	printf '%s\n' "$heads" | grep -q GNU_STACK ||
		echo 'nothing says that it is not executable' | complain stack ''
}

# Names of the sections that stay writable, if there are section headers.
writable() {
	readelf -SW "$file" | sed -n 's/^ *\[ *[0-9]*\] //p' | awk '
		$1 ~ /^\.(data\.rel\.ro|dynamic|got|init_array|fini_array|tbss|tdata)/ { next }
		$7 ~ /W/ { printf "%s ", $1 }'
}

exports() {
	names=$(nm -D --defined-only "$file" | awk '{ print $3 }' | tr '\n' ' ')
	[ "$names" = 'dsv4_plugin_descriptor ' ] || echo "${names:-nothing}" | complain exports ''
	n=$(grep -aoF "$FACTS" "$file" | wc -l)
	[ "$n" -eq 1 ] || echo "found $n times" | complain facts ''
}

audit() {
	file=$1
	readelf -h "$file" >/dev/null 2>&1 || { echo "$file: no ELF file"; return; }
	imports || :
	dynamic
	segments
	exports
}

[ $# -gt 0 ] || { echo "usage: audit.sh FILE.so..." >&2; exit 2; }
found=$(for f; do audit "$f"; done)
[ -z "$found" ] || { printf '%s\n' "$found"; exit 1; }
