#!/bin/sh
# conf.sh SRCDIR: prints dsv4d.conf(5): the template with a section for each of the tables' own.
set -eu
keys=$(sh "$1/man/table.sh" "$1/daemon/conf.def" | awk -F '\t' '
$2 != section { if (section) print ".El"; section = $2; print ".Ss [" section "]\n.Bl -tag -width Ds" }
{
	def = $7
	sub(/^DSV4_PKGDATADIR/, "@pkgdatadir@", def)
	sub(/^DSV4_PLUGINDIR/, "@plugindir@", def)
	range = $4 == "INT" || $4 == "SIZE" ? " from " $5 " to " $6 : $4 == "YESNO" ? ", yes or no" : ""
	print ".It Va " $3 (def == "" ? "" : " Pq " def) "\n" $9 range ($8 == "LIVE" ? "; live" : "") "."
}
END { print ".El" }')
numerics=$(sh "$1/man/table.sh" "$1/engine/kernels/numerics.def" | awk -F '\t' '
{
	n = split($3, choice, "|")
	print ".It Va " $2 " Pq " (n > 1 ? choice[$4 + 1] : "the model'"'"'s own") "\n" $6 (n > 1 ? ": " : ".")
	for (i = 1; n > 1 && i <= n; i++)
		print ".Cm " choice[i] (i < n - 1 ? " ," : i < n ? "\nor" : " .")
}')
while IFS= read -r line; do
	case $line in
	@keys@) printf '%s\n' "$keys" ;;
	@numerics@) printf '%s\n' "$numerics" ;;
	*) printf '%s\n' "$line" ;;
	esac
done <"$1/man/dsv4d.conf.5.in"
