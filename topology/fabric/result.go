package fabric

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"unicode"

	"rankmap/topology"
)

// Kinds of file, as in KIND:FILE.
const (
	KindIBNetDiscover = "ibnetdiscover"
	KindSlurm         = "slurm"
	KindTopograph     = "topograph"
	KindIBV           = "ibv"
	KindIBStat        = "ibstat"
	KindLSPCI         = "lspci"
)

// Limits of an input: dumps of tools may be large, hand-written files not.
const (
	maxDump     = 256 << 20
	maxHand     = 4 << 20
	maxHosts    = 1 << 20
	maxSwitches = 1 << 16
	maxName     = 255
	maxProblems = 20
)

// Result is what one file says. Fabric is set for files about the network, Node for files about one host.
type Result struct {
	Kind   string
	Format string // variant within the kind: "blocks", "ports", "tree", "block", "tree+block", "yaml", "model", "graph"
	Fabric *topology.FabricDesc
	Others []*topology.FabricDesc // further named topologies of a topology.yaml, in document order
	Node   *topology.NodeClass

	CARecords   int // ibnetdiscover: adapters listed, with pseudo-adapters
	Aggregation int // ibnetdiscover: SHARP aggregation nodes, which are no hosts

	Facts    []topology.Fact
	Warnings []string // with file:line, by line
}

// Read reads a file of a known kind.
func Read(kind string, r io.Reader, name string) (*Result, error) {
	switch kind {
	case KindIBNetDiscover:
		return IBNetDiscover(r, name)
	case KindSlurm:
		return Slurm(r, name)
	case KindTopograph:
		return Topograph(r, name)
	case KindIBV:
		return IBV(r, name)
	case KindIBStat:
		return IBStat(r, name)
	case KindLSPCI:
		return LSPCI(r, name)
	}
	return nil, fmt.Errorf("%s: unknown kind %q (known: ibnetdiscover, ibstat, ibv, lspci, slurm, topograph)", name, kind)
}

// note is a message at a line; line 0 is the whole file.
type note struct {
	line int
	text string
}

// notes collects errors and warnings of one file.
type notes struct {
	name  string
	errs  []note
	warns []note
}

func (n *notes) fail(line int, format string, args ...any) {
	if len(n.errs) <= 4*maxProblems {
		n.errs = append(n.errs, note{line, fmt.Sprintf(format, args...)})
	}
}

func (n *notes) warn(line int, format string, args ...any) {
	if len(n.warns) <= 4*maxProblems {
		n.warns = append(n.warns, note{line, fmt.Sprintf(format, args...)})
	}
}

func (n *notes) err() error {
	var errs []error
	for _, s := range n.texts(n.errs) {
		errs = append(errs, errors.New(s))
	}
	return errors.Join(errs...)
}

func (n *notes) texts(list []note) []string {
	sort.SliceStable(list, func(i, j int) bool { return list[i].line < list[j].line })
	var out []string
	for i, x := range list {
		if i == maxProblems {
			return append(out, fmt.Sprintf("%s: and more", n.name))
		}
		at := n.name
		if x.line > 0 {
			at = fmt.Sprintf("%s:%d", n.name, x.line)
		}
		out = append(out, at+": "+printable(x.text))
	}
	return out
}

// printable shows control characters and the marks that turn text around, which names in a file may hold, as escapes.
func printable(s string) string {
	clean := true
	for _, r := range s {
		clean = clean && unicode.IsPrint(r)
	}
	if clean {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// load reads all bytes up to a limit and drops a byte order mark.
func load(r io.Reader, name string, limit int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > limit {
		return nil, fmt.Errorf("%s: larger than %d MiB", name, limit>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%s:1: empty file", name)
	}
	if i := bytes.IndexByte(data[:min(len(data), 4096)], 0); i >= 0 {
		return nil, fmt.Errorf("%s: not a text file (a zero byte at %d)", name, i)
	}
	return data, nil
}

// lines calls f with each line without its end, numbered from 1.
func lines(data []byte, f func(n int, line string)) {
	for n := 1; len(data) > 0; n++ {
		line := data
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			line, data = data[:i], data[i+1:]
		} else {
			data = nil
		}
		f(n, string(bytes.TrimSuffix(line, []byte("\r"))))
	}
}

// clip shortens a string for a message.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}
