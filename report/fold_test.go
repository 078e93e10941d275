package report

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFold(t *testing.T) {
	const w = 40
	for _, c := range []struct{ about, in, want string }{
		{"what fits", "  - short\nrow  of  cells\n", "  - short\nrow  of  cells\n"},
		{"an item", "  - a sentence that is longer than the terminal is wide\n", "  - a sentence that is longer than the\n    terminal is wide\n"},
		{"the last cell of a row", "  seats       0 % over the lower bound of any seating\n", "  seats       0 % over the lower bound\n              of any seating\n"},
		{"numbers side by side", "group  collective       bytes  times   24 us\n", "group  collective       bytes  times   24 us\n"},
		{"no blank", strings.Repeat("x", 60), strings.Repeat("x", 60)},
		{"no final newline", "one two three four five six seven eight nine ten", "one two three four five six seven eight\n  nine ten"},
	} {
		if got := Fold(c.in, w); got != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.about, got, c.want)
		}
	}
	if in := strings.Repeat("word ", 20); Fold(in, 20) != in || Fold(in, 0) != in {
		t.Error("a narrow or unknown width changes nothing")
	}
}

// No word is lost or changed, and sentences fit.
func TestFoldKeepsEveryWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zé]{1,12}`), 0, 40).Draw(t, "words")
		mark := rapid.SampledFrom([]string{"", "  - ", "  ", "- "}).Draw(t, "mark")
		w := rapid.IntRange(40, 90).Draw(t, "width")
		in := mark + strings.Join(words, " ") + "\n"
		out := Fold(in, w)
		if a, b := strings.Fields(in), strings.Fields(out); strings.Join(a, " ") != strings.Join(b, " ") {
			t.Fatalf("words changed: %q, %q", in, out)
		}
		for _, l := range strings.Split(out, "\n") {
			if utf8.RuneCountInString(l) > w {
				t.Fatalf("a line of %d columns at %d: %q", utf8.RuneCountInString(l), w, l)
			}
		}
	})
}
