#!/bin/sh
# Runs every fuzz target of the module for the given time each: sh scripts/fuzz.sh 5s
#
# Go before 1.27 can end a fuzz run that found nothing with a bare "context deadline exceeded", when the time
# runs out between two contexts of its coordinator (https://go.dev/issue/75804). Such a run proves nothing
# either way, so the target is fuzzed again, for the whole time. A run that wrote a failing input, or that failed
# for any other reason, fails at once; so does a third bare deadline.

set -eu
time=${1:-5s}
go=${GO:-go}
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# bare_deadline: the failure printed in $out is the coordinator's deadline and nothing else.
bare_deadline() {
	grep -q '^    context deadline exceeded$' "$out" &&
		! grep -qE 'Failing input written|panic:|fuzzing process hung|_test\.go:[0-9]+:' "$out"
}

fuzz_one() {
	for try in 1 2 3; do
		if $go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 10x "$1" >"$out" 2>&1; then
			cat "$out"
			return 0
		fi
		cat "$out"
		bare_deadline || return 1
		echo "fuzz $1 $2: run $try ended at its deadline without a finding (go.dev/issue/75804)"
	done
	return 1
}

for pkg in $($go list ./...); do
	dir=$($go list -f '{{.Dir}}' "$pkg")
	targets=$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go 2>/dev/null | sed 's/^func //' | sort -u)
	[ -n "$targets" ] || continue
	for target in $targets; do
		echo "fuzz $pkg $target $time"
		fuzz_one "$pkg" "$target"
	done
done
