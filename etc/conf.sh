#!/bin/sh
# conf.sh SRCDIR: prints a dsv4d.conf that says nothing: every key with its meaning and its default, in comments.
set -eu
table="$1/man/table.sh"
cat <<'END'
# dsv4d.conf - configuration of dsv4d(8); see dsv4d.conf(5). `dsv4d -t` checks it, `dsv4ctl reload` reads it again.
# Every line below is a comment with a key's default. "restart": a change takes effect at the next start.
END
sh "$table" "$1/daemon/conf.def" | awk -F '\t' '
function wrap(text,    line, w, n, i) {
	n = split(text, w, " ")
	line = "#"
	for (i = 1; i <= n; i++) {
		if (length(line) + length(w[i]) > 98) {
			print line
			line = "#"
		}
		line = line " " w[i]
	}
	print line
}
$2 != section { section = $2; print "\n[" section "]" }
{
	def = $7
	sub(/^DSV4_PKGDATADIR/, "@pkgdatadir@", def)
	sub(/^DSV4_PLUGINDIR/, "@plugindir@", def)
	print ""
	wrap($9 ($8 == "RESTART" ? " (restart)" : ""))
	print "#" $3 " =" (def == "" ? "" : " " def)
}'
printf '\n# Numerics that the daemon starts with (dsv4ctl param list).\n[numerics]\n\n'
sh "$table" "$1/engine/kernels/numerics.def" | awk -F '\t' '
{
	n = split($3, choice, "|")
	def = n > 1 ? choice[$4 + 1] : "(the model'"'"'s own)"
	print "# " $6 (n > 1 ? ": " $3 : "") "\n#" $2 " = " def
}'
cat <<'END'

# Options of a probe, and how often it runs by itself (dsv4-probes(7)):
#[probe.recall]
#every = 30m
END
