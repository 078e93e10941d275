#!/bin/sh
# Runs every fuzz target of the module for the given time each: sh scripts/fuzz.sh 5s

set -eu
time=${1:-5s}
go=${GO:-go}
for pkg in $($go list ./...); do
	dir=$($go list -f '{{.Dir}}' "$pkg")
	targets=$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go 2>/dev/null | sed 's/^func //' | sort -u)
	[ -n "$targets" ] || continue
	for target in $targets; do
		echo "fuzz $pkg $target $time"
		$go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$pkg"
	done
done
