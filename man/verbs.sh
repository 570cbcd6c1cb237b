#!/bin/sh
# verbs.sh SRCDIR: prints dsv4ctl(1): the template with an item for each verb of the table.
set -eu
verbs=$(sh "$1/man/table.sh" "$1/ctl/verbs.def" | awk -F '\t' '
# One word of the argument column (ctl/verbs.def) as mdoc.
function word(w,    name, type, option, optional, many) {
	sub(/^\+/, "", w)
	option = sub(/^--/, "", w)
	optional = sub(/^\[/, "", w)
	gsub(/\]/, "", w)
	many = sub(/\.\.\.$/, "", w)
	name = w
	if (w ~ /:/) {
		name = type = w
		sub(/:.*/, "", name)
		sub(/^[^:]*:/, "", type)
	}
	if (w ~ /=$/)
		return option ? "Oo Fl \\-option Ar value Oc" : "Ar key Ns = Ns Ar value ..."
	if (option) {
		gsub(/_/, "-", name)
		value = type ~ /\|/ ? type : type ~ /^(int|float)$/ ? "n" : type == "file" ? "file" : "text"
		return "Oo Fl \\-" name (type == "" ? "" : " Ar " value) " Oc"
	}
	if (type ~ /\|/)
		name = type
	name = "Ar " name (many ? " ..." : "")
	return optional ? "Oo " name " Oc" : name
}
{
	line = ".It " $3
	n = split($7, arg, " ")
	for (i = 1; i <= n; i++)
		line = line " " word(arg[i])
	print line
	text = toupper(substr($8, 1, 1)) substr($8, 2)
	gsub(/\\/, "\\e", text)
	print text "." ($5 == "MONITOR" ? "" : "\n.Pq " tolower($5))
}')
own=$(sh "$1/man/table.sh" "$1/ctl/own.def" | awk -F '\t' '
{
	line = ".It " $3 ($4 == "" ? "" : " " $4)
	n = split($5, arg, " ")
	for (i = 1; i <= n; i++) {
		w = arg[i]
		open = sub(/^\[/, "", w)
		shut = sub(/\]$/, "", w)
		line = line (open ? " Oo" : "") " "
		line = line (sub(/^--/, "", w) ? "Fl \\-" w : "Ar " tolower(w)) (shut ? " Oc" : "")
	}
	print line
	print toupper(substr($6, 1, 1)) substr($6, 2) "."
}')
while IFS= read -r line; do
	case $line in
	@verbs@) printf '%s\n' "$verbs" ;;
	@own@) printf '%s\n' "$own" ;;
	*) printf '%s\n' "$line" ;;
	esac
done <"$1/man/dsv4ctl.1.in"
