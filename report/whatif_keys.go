package report

import (
	"maps"
	"slices"
)

// sortedNames lists the keys of a set in order.
func sortedNames(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
