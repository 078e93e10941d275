package smi

import (
	"fmt"
	"strings"

	"rankmap/topology"
)

// fact notes where a statement stands. The node is named when all tables are read.
func (b *builder) fact(m *machine, what, value string, at place) {
	m.facts = append(m.facts, topology.Fact{What: what, Value: value, Source: fmt.Sprintf("smi:%s:%d", b.file, at.line)})
}

func (m *machine) dropFacts(suffix string) {
	keep := m.facts[:0]
	for _, f := range m.facts {
		if !strings.HasSuffix(f.What, suffix) {
			keep = append(keep, f)
		}
	}
	m.facts = keep
}
