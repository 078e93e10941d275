package measured

import (
	"fmt"
	"strings"
)

// What published tables of expert-parallel exchanges leave to their readers.

// networkWords are other names of a network: an instance type that comes with one.
var networkWords = map[string]string{"p4d": "EFA", "p5": "EFA", "p5e": "EFA", "p5en": "EFA", "p6": "EFA"}

// oneOfSeveral chooses among GPUs that a table names together, each with its network: "H200-SXM (p5en) or H100-SXM (CX7)" is the
// second where the row tells of CX7. Names that the row does not decide are returned as they are.
func oneOfSeveral(gpu, network string) string {
	if !strings.Contains(gpu, " or ") {
		return gpu
	}
	found := ""
	for a := range strings.SplitSeq(gpu, " or ") {
		name, word, ok := strings.Cut(a, " (")
		word = strings.TrimSuffix(word, ")")
		if w := networkWords[word]; w != "" {
			word = w
		}
		if !ok || word == "" || name == "" || !strings.Contains(network, word) {
			continue
		}
		if found != "" {
			return gpu
		}
		found = name
	}
	if found == "" {
		return gpu
	}
	return found
}

// publisherShapes are the shapes that a publisher's own benchmark has by default, for tables that state the tokens alone.
var publisherShapes = []struct {
	source string
	shape  ExchangeShape
}{
	{"perplexityai/pplx-garden", ExchangeShape{Hidden: 7168, TopK: 8, Expert: 256}}, // its benchmarks/bench_all_to_all.py
}

// fromPublisher completes an exchange that states neither width nor experts by its publisher's defaults, and says so.
func (r *Row) fromPublisher() {
	x := r.Exchange
	if x.Tokens < 1 || x.Hidden > 0 || x.TopK > 0 || x.Expert > 0 {
		return
	}
	for _, p := range publisherShapes {
		if strings.HasPrefix(r.Origin, p.source+":") {
			x.Hidden, x.TopK, x.Expert = p.shape.Hidden, p.shape.TopK, p.shape.Expert
			r.Flags = append(r.Flags, "width and experts: the publisher's benchmark defaults")
		}
	}
}

// mistyped says that the note names this very figure ("EP8 dispatch of pplx-CX7") among those that look mistyped.
func mistyped(r *Row, algorithm, note string) bool {
	library, _, _ := strings.Cut(algorithm, ":")
	return strings.Contains(note, "mistyped") && strings.Contains(note, fmt.Sprintf("EP%d %s of %s ", r.Ranks, r.Exchange.Phase, library))
}
