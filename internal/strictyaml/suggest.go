package strictyaml

import (
	"fmt"
	"sort"
	"strings"
)

// Suggest returns the known word that was probably meant, or "" when none is near: at most one edit for every three
// letters, case ignored; the first in alphabetical order among equals.
func Suggest(word string, known []string) string {
	if len(word) > 64 {
		return ""
	}
	sorted := append([]string(nil), known...)
	sort.Strings(sorted)
	best, at := "", 1+max(1, len(word)/3)
	for _, k := range sorted {
		if d := editDistance(strings.ToLower(word), strings.ToLower(k)); d < at && d < len(k) {
			best, at = k, d
		}
	}
	return best
}

// DidYouMean is the end of an error about an unknown word: the probable word, and the known ones when they are few.
func DidYouMean(word string, known []string) string {
	hint := ""
	if s := Suggest(word, known); s != "" {
		hint = fmt.Sprintf(", did you mean %q?", s)
	}
	if len(known) == 0 || len(known) > 40 {
		return hint
	}
	sorted := append([]string(nil), known...)
	sort.Strings(sorted)
	return hint + " (known: " + strings.Join(sorted, ", ") + ")"
}

// editDistance counts insertions, deletions, substitutions and swaps of neighbours.
func editDistance(a, b string) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}
