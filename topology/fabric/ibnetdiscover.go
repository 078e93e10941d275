package fabric

import (
	"io"
	"strconv"
	"strings"

	"rankmap/internal/units"
)

// IBNetDiscover reads the output of ibnetdiscover (infiniband-diags): blocks of a node and its ports, or with --ports
// one line a port. Blanks may stand where the tool prints tabs, and "s=4 w=2 v=4 e=4" may follow a rate.
func IBNetDiscover(r io.Reader, name string) (*Result, error) {
	data, err := load(r, name, maxDump)
	if err != nil {
		return nil, err
	}
	n := &notes{name: name}
	g := newIBGraph(n)
	b := &blockReader{ibGraph: g}
	blocks, ports, other, firstOther := 0, 0, 0, 0
	lines(data, func(no int, line string) {
		t := strings.TrimSpace(line)
		switch {
		case t == "" || t[0] == '#':
			return
		case portLine(t):
			ports++
			g.portsLine(no, line)
		case b.line(no, t):
			blocks++
		default:
			if other++; other == 1 {
				firstOther = no
			}
		}
	})
	if blocks+ports == 0 {
		n.fail(1, "no node and no port: not the output of ibnetdiscover")
	} else if other > 0 {
		n.warn(firstOther, "%d lines are not of ibnetdiscover's format: ignored", other)
	}
	if err := n.err(); err != nil {
		return nil, err
	}
	d := g.describe(KindIBNetDiscover + ":" + name)
	res := &Result{Kind: KindIBNetDiscover, Format: "blocks", Fabric: d, CARecords: g.caRecords, Aggregation: g.aggregation}
	if ports > 0 && blocks == 0 {
		res.Format = "ports"
	}
	res.Facts = fabricFacts(d)
	res.Warnings = n.texts(n.warns)
	return res, nil
}

// blockReader reads the block format.
type blockReader struct {
	*ibGraph
	cur *ibNode
}

// line reads one line of a block and says whether it is one.
func (b *blockReader) line(no int, t string) bool {
	switch {
	case strings.HasPrefix(t, "vendid=") || strings.HasPrefix(t, "devid=") || strings.HasPrefix(t, "sysimgguid="):
		b.cur = nil
		return true
	case strings.HasPrefix(t, "switchguid=") || strings.HasPrefix(t, "caguid=") || strings.HasPrefix(t, "rtguid="):
		return true
	case t[0] == '[':
		return b.port(no, t)
	}
	word, rest := cutBlank(t)
	kind := ibKind(0)
	switch word {
	case "Switch":
		kind = ibSwitch
	case "Ca":
		kind = ibCA
	case "Rt":
		kind = ibRouter
	default:
		return false
	}
	_, rest = cutBlank(rest) // number of ports
	id, rest, ok := quoted(rest)
	if !ok || len(id) < 3 || id[1] != '-' {
		return false // such as the lists of ibswitches and ibhosts
	}
	desc, _, _ := quoted(rest)
	b.cur = b.node(id, kind)
	if b.cur.line != 0 {
		b.warn(no, "node %q is listed twice, first in line %d", clip(id), b.cur.line)
	} else if kind == ibCA {
		b.caRecords++
	}
	b.cur.line = no
	b.cur.desc = desc
	return true
}

// port reads "[1]	"H-guid"[1](guid) # "desc" lid 1 4xNDR" and, below an adapter, "[1](guid) "S-id"[1] # lid 1 lmc 0
// "desc" lid 2 4xNDR".
func (b *blockReader) port(no int, t string) bool {
	end := strings.IndexByte(t, ']')
	if end < 0 {
		return false
	}
	port, err := strconv.Atoi(t[1:end])
	if err != nil || b.cur == nil {
		b.warn(no, "a port without a node above it: ignored")
		return true
	}
	rest := t[end+1:]
	if q := strings.IndexByte(rest, '"'); q > 0 {
		rest = rest[q:] // after the port's own guid
	}
	id, rest, ok := quoted(rest)
	if !ok {
		b.warn(no, "port %d without a peer: ignored", port)
		return true
	}
	peerPort := 0
	if strings.HasPrefix(rest, "[") {
		if e := strings.IndexByte(rest, ']'); e > 0 {
			peerPort, _ = strconv.Atoi(rest[1:e])
			rest = rest[e+1:]
		}
	}
	kind := ibCA
	switch {
	case strings.HasPrefix(id, "S-"):
		kind = ibSwitch
	case strings.HasPrefix(id, "R-"):
		kind = ibRouter
	}
	peer := b.node(id, kind)
	if h := strings.IndexByte(rest, '#'); h >= 0 {
		rest = rest[h+1:]
	}
	desc, tail, ok := quoted(rest)
	if ok && peer.desc == "" {
		peer.desc = desc
	}
	if !ok {
		tail = rest
	}
	b.link(no, b.cur, port, peer, peerPort, rateIn(tail))
	return true
}

// rateIn finds a rate such as 4xNDR among the words of a line.
func rateIn(s string) units.Bandwidth {
	for s != "" {
		var w string
		if w, s = cutBlank(s); w == "" {
			break
		}
		if width, speed, ok := splitRate(w); ok {
			return ibRate(width, speed)
		}
	}
	return 0
}

// portLine says whether a line is of the --ports format: a node type, two numbers and a GUID.
func portLine(t string) bool {
	if len(t) < 3 || t[2] != ' ' && t[2] != '\t' {
		return false
	}
	switch t[:2] {
	case "CA", "SW", "RT":
	default:
		return false
	}
	lid, rest := cutBlank(t[2:])
	port, rest := cutBlank(rest)
	guid, _ := cutBlank(rest)
	return digits(lid) && digits(port) && strings.HasPrefix(guid, "0x")
}

// portsLine reads "CA 134 1 0xGUID 4x EDR - SW 1719 10 0xGUID ( 'host HCA-1' - 'leaf' )", or for a port without link
// "SW 24 1 0xGUID 4x SDR 'name'", where the name may be unquoted.
func (g *ibGraph) portsLine(no int, line string) {
	a, port, rest, ok := g.portsEnd(no, line, true)
	if !ok {
		return
	}
	width, rest := cutBlank(rest)
	speed, rest := cutBlank(rest)
	dash, after := cutBlank(rest)
	if dash != "-" {
		if name, _ := unquote(rest); a.desc == "" {
			a.desc = name
		}
		a.unlinked++
		return
	}
	peer, peerPort, rest, ok := g.portsEnd(no, after, false)
	if !ok {
		return
	}
	names := strings.TrimSpace(rest)
	names = strings.TrimSuffix(strings.TrimPrefix(names, "("), ")")
	l, r, ok := strings.Cut(names, "' - '")
	if !ok {
		l, r, ok = strings.Cut(names, " - ")
	}
	if ok {
		if n, _ := unquote(l); a.desc == "" {
			a.desc = n
		}
		if n, _ := unquote(r); peer.desc == "" {
			peer.desc = n
		}
	}
	g.link(no, a, port, peer, peerPort, ibRate(width, speed))
}

// portsEnd reads one end of a --ports line.
func (g *ibGraph) portsEnd(no int, s string, own bool) (*ibNode, int, string, bool) {
	word, rest := cutBlank(s)
	_, rest = cutBlank(rest) // lid
	ps, rest := cutBlank(rest)
	guid, rest := cutBlank(rest)
	port, err := strconv.Atoi(ps)
	kind := map[string]ibKind{"CA": ibCA, "SW": ibSwitch, "RT": ibRouter}[word]
	if err != nil || kind == 0 || !strings.HasPrefix(guid, "0x") {
		g.warn(no, "a port line without type, port and GUID: ignored")
		return nil, 0, "", false
	}
	n := g.node(guid[2:], kind)
	if own {
		if n.line == 0 && kind == ibCA {
			g.caRecords++
		}
		if n.line == 0 {
			n.line = no
		}
	}
	return n, port, rest, true
}

// cutBlank cuts the first word off a string.
func cutBlank(s string) (word, rest string) {
	s = strings.TrimLeft(s, " \t")
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// quoted cuts the first quoted string off.
func quoted(s string) (value, rest string, ok bool) {
	i := strings.IndexByte(s, '"')
	if i < 0 {
		return "", s, false
	}
	j := strings.IndexByte(s[i+1:], '"')
	if j < 0 {
		return "", s, false
	}
	return s[i+1 : i+1+j], s[i+j+2:], true
}

// unquote takes single quotes off, if there are any, and the blanks that some names begin or end with.
func unquote(s string) (string, bool) {
	s = strings.TrimSpace(s)
	q := strings.HasPrefix(s, "'") || strings.HasSuffix(s, "'")
	return strings.TrimSpace(strings.Trim(s, "'")), q
}
