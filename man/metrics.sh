#!/bin/sh
# metrics.sh metrics.def: prints dsv4-metrics(7). A comment of one line in the table begins a section.
set -eu
cat <<'END'
.\" SPDX-License-Identifier: MIT
.\" Made by man/metrics.sh from api/http/metrics.def.
.Dd November 30, 2026
.Dt DSV4-METRICS 7
.Os dsv4d
.Sh NAME
.Nm dsv4-metrics
.Nd what dsv4d tells Prometheus
.Sh DESCRIPTION
.Pa /metrics
of the HTTP server, and
.Ql dsv4ctl metrics ,
print counters and gauges in Prometheus' text format.
Counters count from the start of the process; units are seconds, bytes and
tokens.
There are no ratios: divide the rates of two counters.
.Pp
A metric whose name ends in
.Sy _info
is always 1 and says something by its labels.
A label
.Va state
has one series for each state: 1 for the one that is true, 0 for the others.
A histogram NAME has
.Va NAME_bucket ,
with the label
.Va le ,
.Va NAME_sum
and
.Va NAME_count .
.Pp
Values of labels are words of the daemon's own tables, names of plugins that an
operator loaded, and values of parameters: nothing that a client sends becomes
one.
Metrics without a value now, such as those of a shadow when none runs, have
their description alone.
.Pp
.Pa grafana-dashboard.json
in the daemon's data directory shows them.
.Sh METRICS
END
sed -n \
	-e 's,^/\* \([A-Z][^.]*\) \*/$,.Ss \1\n.Bl -tag -width Ds,p' \
	-e 's/^METRIC(\(\w*\), \(\w*\), "", "\(.*\)")$/.It Va dsv4d_\1 (\L\2\E)\n\3./p' \
	-e 's/^METRIC(\(\w*\), \(\w*\), "\([^"]*\)", "\(.*\)")$/.It Va dsv4d_\1 (\L\2\E by \3)\n\4./p' "$1" |
	awk '/^\.Ss/ && n++ { print ".El" } { print } END { print ".El" }'
cat <<'END'
.Sh SEE ALSO
.Xr dsv4-api 7 ,
.Xr dsv4-probes 7
END
