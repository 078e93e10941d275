package ncclxml

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits of an input. The first four are NCCL's own (src/graph/xml.h: MAX_STR_LEN, MAX_ATTR_COUNT, MAX_SUBS); the
// others bound time and memory.
const (
	maxString   = 255
	maxAttrs    = 16
	maxChildren = 640
	maxDepth    = 32
	maxBytes    = 16 << 20
	maxElements = 1 << 17
)

// Limits of a machine, far above real ones: matrices grow with the square.
const (
	maxHosts   = 1024
	maxCPUs    = 1024 // cpu elements of a host
	maxGPUs    = 512  // of a host; one NVLink domain has 576 in 72 and more hosts
	maxNets    = 1024
	maxBridges = 4096
	maxPeers   = 64
	maxAllGPUs = 4096
)

// element is one XML element with its line.
type element struct {
	name string
	line int
	attr []xml.Attr
	kids []*element
}

// get returns an attribute and whether it is there.
func (e *element) get(name string) (string, bool) {
	for i := range e.attr {
		if e.attr[i].Name.Local == name {
			return e.attr[i].Value, true
		}
	}
	return "", false
}

// has says whether a child of that name exists.
func (e *element) has(name string) bool {
	for _, k := range e.kids {
		if k.name == name {
			return true
		}
	}
	return false
}

// parser is the state of the token loop.
type parser struct {
	name     string
	dec      *xml.Decoder
	root     *element
	stack    []*element
	count    int
	textLine int // first line with stray text, 0 none
}

// errorf makes an error at the line the decoder stands on.
func (p *parser) errorf(format string, args ...any) error {
	line, _ := p.dec.InputPos()
	return fmt.Errorf("%s:%d: %s", p.name, line, escape(fmt.Sprintf(format, args...)))
}

// parse turns bytes into an element tree. A token loop rather than Unmarshal, because Unmarshal skips unknown elements
// without a depth limit, keeps the last of two equal attributes and ignores what follows the root.
func parse(r io.Reader, name string) (*element, *parser, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxBytes {
		return nil, nil, fmt.Errorf("%s: larger than %d MiB, no NCCL topology is", name, maxBytes>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil, fmt.Errorf("%s:1: empty file, want NCCL topology XML with the root <system version=\"1\">", name)
	}
	p := &parser{name: name, dec: xml.NewDecoder(bytes.NewReader(data))}
	for {
		tok, err := p.dec.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = p.token(tok)
		} else {
			err = p.syntax(err)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if len(p.stack) > 0 {
		e := p.stack[len(p.stack)-1]
		return nil, nil, p.errorf("not well-formed: <%s> of line %d is never closed", e.name, e.line)
	}
	if p.root == nil {
		return nil, nil, fmt.Errorf("%s:1: no XML element, want the root <system version=\"1\">", name)
	}
	return p.root, p, nil
}

// syntax words a decoder error.
func (p *parser) syntax(err error) error {
	var se *xml.SyntaxError
	if errors.As(err, &se) {
		return fmt.Errorf("%s:%d: not well-formed XML: %s", p.name, se.Line, escape(se.Msg))
	}
	return p.errorf("not well-formed XML: %v", err)
}

func (p *parser) token(tok xml.Token) error {
	switch t := tok.(type) {
	case xml.StartElement:
		return p.open(t)
	case xml.EndElement:
		if len(p.stack) == 0 {
			return p.errorf("not well-formed: </%s> closes nothing", t.Name.Local)
		}
		if top := p.stack[len(p.stack)-1]; top.name != t.Name.Local {
			return p.errorf("not well-formed: </%s> where <%s> of line %d is open", t.Name.Local, top.name, top.line)
		}
		p.stack = p.stack[:len(p.stack)-1]
	case xml.CharData:
		text := bytes.TrimLeft(t, " \t\r\n")
		if len(text) == 0 {
			return nil
		}
		line, _ := p.dec.InputPos()
		line -= bytes.Count(text, []byte("\n"))
		switch {
		case len(p.stack) == 0 && p.root != nil:
			return fmt.Errorf("%s:%d: data after the end of <%s>", p.name, line, p.root.name)
		case len(p.stack) == 0:
			return fmt.Errorf("%s:%d: text before the root, want XML with the root <system version=\"1\">", p.name, line)
		case p.textLine == 0:
			p.textLine = line
		}
	case xml.Directive:
		hint := ""
		switch f := strings.Fields(string(t)); {
		case len(f) > 1 && f[0] == "DOCTYPE" && f[1] == "topology":
			hint = " (an hwloc file of lstopo, not an NCCL topology)"
		case len(f) > 1 && f[0] == "DOCTYPE" && f[1] == "nvidia_smi_log":
			hint = " (the output of nvidia-smi -q -x, not an NCCL topology)"
		}
		return p.errorf("<!%s ...> is refused: no document types or entities%s", firstWord(string(t)), hint)
	case xml.ProcInst:
		if t.Target != "xml" || p.root != nil {
			return p.errorf("processing instruction <?%s?> is refused", t.Target)
		}
	}
	return nil
}

func (p *parser) open(t xml.StartElement) error {
	line, _ := p.dec.InputPos()
	e := &element{name: t.Name.Local, line: line, attr: t.Attr}
	if t.Name.Space != "" {
		e.name = t.Name.Space + ":" + t.Name.Local
	}
	if p.count++; p.count > maxElements {
		return p.errorf("more than %d elements", maxElements)
	}
	if len(p.stack) == maxDepth {
		return p.errorf("elements nested deeper than %d", maxDepth)
	}
	if len(e.name) > maxString {
		return p.errorf("element name of %d bytes, NCCL's limit is %d", len(e.name), maxString)
	}
	if len(e.attr) > maxAttrs {
		return p.errorf("<%s> has %d attributes, NCCL's limit is %d", e.name, len(e.attr), maxAttrs)
	}
	for i, a := range e.attr {
		if len(a.Value) > maxString || len(a.Name.Local) > maxString {
			return p.errorf("<%s> attribute %.32s of more than %d bytes, NCCL's limit", e.name, a.Name.Local, maxString)
		}
		for _, b := range e.attr[:i] {
			if a.Name == b.Name {
				return p.errorf("<%s> states attribute %s twice: %q and %q", e.name, a.Name.Local, b.Value, a.Value)
			}
		}
	}
	if len(p.stack) == 0 {
		if p.root != nil {
			return p.errorf("<%s> after the end of <%s>: one root is allowed", e.name, p.root.name)
		}
		if err := p.checkRoot(e); err != nil {
			return err
		}
		p.root = e
	} else {
		up := p.stack[len(p.stack)-1]
		if len(up.kids) == maxChildren {
			return p.errorf("<%s> of line %d has more than %d children, NCCL's limit", up.name, up.line, maxChildren)
		}
		up.kids = append(up.kids, e)
	}
	p.stack = append(p.stack, e)
	return nil
}

// checkRoot names what a file is that is not a topology.
func (p *parser) checkRoot(e *element) error {
	switch e.name {
	case "system":
		return nil
	case "graphs", "graph":
		return p.errorf("root is <%s>: an NCCL graph file (NCCL_GRAPH_FILE, NCCL_GRAPH_DUMP_FILE), not a topology; want NCCL_TOPO_DUMP_FILE's", e.name)
	case "cpu", "pci", "gpu", "nic", "net", "nvlink", "c2c":
		return p.errorf("root is <%s>: a fragment of an NCCL topology; want the whole file, with the root <system version=\"1\">", e.name)
	case "nvidia_smi_log":
		return p.errorf("root is <nvidia_smi_log>: the output of nvidia-smi -q -x, not an NCCL topology")
	case "topology":
		return p.errorf("root is <topology>: an hwloc (lstopo) file, not an NCCL topology")
	}
	return p.errorf("root is <%.40s>: not an NCCL topology; want the root <system version=\"1\">", e.name)
}

func firstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return fmt.Sprintf("%.20s", f[0])
	}
	return ""
}
