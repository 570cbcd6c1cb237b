#!/bin/sh
# probes.sh dsv4-probes.7.in probe.def TABLE.md: prints dsv4-probes(7). A line @options NAME@ of the page becomes that
# probe's options and figures, as the table has them; each probe must have its line. @faults N@ becomes the N-th table
# of what the probes catch.
set -eu
for probe in $(sed -n 's/^PROBE(\(\w*\),.*/\1/p' "$2"); do
	grep -qx "@options $probe@" "$1" || { echo "probes.sh: the page tells nothing of $probe" >&2; exit 1; }
done
awk -v table="$2" -v faults="$3" '
function list(probe, kind,    line, f, n) {
	while ((getline line <table) > 0) {
		if (index(line, kind "(" probe ",") != 1)
			continue
		split(line, f, "\"")
		if (!n++)
			print (kind == "OPTION" ? "Options:" : "Figures:") "\n.Pp\n.Bl -tag -width Ds -compact"
		if (kind == "OPTION") {
			split(f[1], part, /, */)
			gsub(/_/, "-", part[2])
			print ".It Fl \\-" part[2] " Ar " f[2] (f[4] != "" ? " Pq quick: " f[4] : "") "\n" f[6] "."
		} else {
			print ".It Va " f[2] "\n" f[4] "."
		}
	}
	close(table)
	if (n)
		print ".El\n.Pp"
}
# The probes that caught the fault of this row; in bold those that must.
function caught(row, head, n,    i, text) {
	for (i = 2; i <= n; i++)
		if (row[i] ~ /fail|warn/) {
			text = text (text ? " ,\n" : "") (row[i] ~ /\*/ ? ".Sy " : ".No ") head[i]
			text = text (row[i] ~ /warn/ ? " Pq warns" : "")
		}
	return text
}
function rows(which,    line, n, at, head, row, i, in_table, said) {
	print ".Bl -tag -width Ds -compact"
	while ((getline line <faults) > 0) {
		if (line !~ /^\|/)
			in_table = 0
		if (line !~ /^\| /)
			continue
		gsub(/^\| | \|$/, "", line)
		n = split(line, row, / \| /)
		if (!in_table++) {
			at++
			n = split(line, head, / *\| */)
			continue
		}
		if (at != which || row[1] ~ /^(sound:|nothing is wrong)/)
			continue
		said = at == 1 ? caught(row, head, n) : row[2]
		gsub(/\\/, "\\e", row[1])
		print ".It Li " row[1] "\n" said
	}
	close(faults)
	print ".El"
}
/^@faults / {
	rows($2 + 0)
	next
}
/^@options / {
	sub(/@$/, "", $2)
	list($2, "OPTION")
	list($2, "FIGURE")
	next
}
{ print }' "$1" |
	# No paragraph before a heading.
	awk 'held != "" { if ($0 !~ /^\.S[hs]/) print held; held = "" } $0 == ".Pp" { held = $0; next } { print }'
