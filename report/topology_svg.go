package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"sort"
	"strings"
	"unicode/utf8"

	"rankmap/topology"
)

// Colours and sizes of the topology drawing. Every box stands in a column of its own, so nothing overlaps.
const (
	svgCol    = 106 // width of a column
	svgGap    = 10  // between columns
	svgBox    = 96  // width of a GPU or NIC
	svgHigh   = 56  // height of a GPU or NIC
	svgLevel  = 26  // height of a switch or socket
	svgStep   = 46  // from level to level
	svgMargin = 24  // around everything
	svgTray   = 150 // width of a tray in a rack

	fillGPU, fillNIC, fillSwitch, fillSocket = "#d9efc3", "#d3e5f7", "#ececec", "#f7e6c8"
	fillNVSwitch, fillBad, inkLine, inkNV    = "#76a93a", "#f4b6b0", "#8a8a8a", "#4d7a14"
)

// TopologySVG draws the machine: the network with its groups of nodes, racks that share NVLink, and each kind of node
// once in full. The drawing grows with the kinds of node, not with their number.
func TopologySVG(w io.Writer, c *topology.Cluster) error {
	o := newTopoOutline(c)
	s := &svg{wide: 640}
	s.text(svgMargin, svgMargin+16, 20, "start", "bold", o.title)
	s.text(svgMargin, svgMargin+40, 13, "start", "normal", o.summary)
	y := svgMargin + 64.0
	if o.network != "" {
		y = s.drawNetwork(o, y)
	}
	for i := range o.racks {
		if i == 4 {
			s.text(svgMargin, y+12, 13, "start", "normal", fmt.Sprintf("and %d more shapes of NVLink domain", len(o.racks)-i))
			y += 36
			break
		}
		y = s.drawRack(o, &o.racks[i], y)
	}
	for i := range o.classes {
		if i == maxTopoClasses {
			s.text(svgMargin, y+12, 13, "start", "normal", fmt.Sprintf("and %d more kinds of node", len(o.classes)-i))
			y += 36
			break
		}
		y = s.drawNode(o, &o.classes[i], y)
	}
	return s.write(w, o.title, y)
}

// svg collects shapes: lines first, so that boxes lie over them.
type svg struct {
	lines, boxes strings.Builder
	wide         float64
}

func (s *svg) reach(x float64) { s.wide = max(s.wide, x+svgMargin) }

func (s *svg) line(x1, y1, x2, y2, width float64, ink string) {
	fmt.Fprintf(&s.lines, `<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s" stroke-width="%s"/>`+"\n", num(x1), num(y1), num(x2), num(y2), ink, num(width))
}

func (s *svg) rect(x, y, w, h float64, fill string) {
	s.reach(x + w)
	fmt.Fprintf(&s.boxes, `<rect x="%s" y="%s" width="%s" height="%s" rx="4" fill="%s" stroke="#555"/>`+"\n", num(x), num(y), num(w), num(h), fill)
}

func (s *svg) text(x, y, size float64, anchor, weight, text string) {
	text = Clean(text)
	if anchor == "start" {
		s.reach(x + float64(utf8.RuneCountInString(text))*size*0.62)
	}
	fmt.Fprintf(&s.boxes, `<text x="%s" y="%s" font-size="%s" text-anchor="%s" font-weight="%s">%s</text>`+"\n", num(x), num(y), num(size), anchor, weight, html.EscapeString(text))
}

// label centres text in a width, smaller or cut where it would not fit.
func (s *svg) label(x, y, width, size float64, weight, text string) {
	text = Clean(text)
	fits := func(n int, size float64) bool { return float64(n)*size*0.61 <= width-6 }
	for n := utf8.RuneCountInString(text); !fits(n, size) && size > 9; {
		size--
	}
	r := []rune(text)
	for len(r) > 1 && !fits(len(r), size) {
		r = append(r[:len(r)-2], '…')
	}
	s.text(x+width/2, y, size, "middle", weight, string(r))
}

func num(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

func (s *svg) write(w io.Writer, title string, high float64) error {
	high += svgMargin
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" font-family="DejaVu Sans, Verdana, Arial, sans-serif" fill="#222">
<title>%s</title>
<rect width="100%%" height="100%%" fill="#fff"/>
%s%s</svg>
`, num(s.wide), num(high), num(s.wide), num(high), html.EscapeString(title), s.lines.String(), s.boxes.String())
	return err
}

// drawNetwork draws the groups of nodes below a bar that stands for the spines.
func (s *svg) drawNetwork(o *topoOutline, y float64) float64 {
	s.text(svgMargin, y+12, 14, "start", "bold", "Network")
	s.text(svgMargin, y+32, 12, "start", "normal", o.network)
	y += 46
	shown := o.groups[:min(len(o.groups), 8)]
	const wide, gap = 190.0, 18.0
	lines := 1
	for _, g := range shown {
		lines = max(lines, min(len(g.content), 4))
	}
	high := 46 + 16*float64(lines)
	total := float64(len(shown))*(wide+gap) - gap
	if len(o.groups) > 1 || o.groups[0].alike > 0 {
		s.rect(svgMargin, y, total, svgLevel, fillSwitch)
		s.label(svgMargin, y+17, total, 12, "normal", "spines")
		y += svgLevel + 30
	}
	for i, g := range shown {
		x := svgMargin + float64(i)*(wide+gap)
		if len(o.groups) > 1 || g.alike > 0 {
			s.line(x+wide/2, y-30, x+wide/2, y, 2, inkLine)
		}
		if g.alike > 0 { // a second sheet behind the first
			s.rect(x+5, y+5, wide, high, "#fafafa")
		}
		s.rect(x, y, wide, high, "#fff")
		name := g.name
		if g.pod != "" {
			name += " (" + g.pod + ")"
		}
		s.label(x, y+17, wide, 13, "bold", name)
		for j, line := range g.content {
			if j == 3 && len(g.content) > 4 {
				line = fmt.Sprintf("and %d more kinds", len(g.content)-3)
			}
			if j < 4 {
				s.label(x, y+36+16*float64(j), wide, 12, "normal", line)
			}
		}
		foot := topoCount(g.gpus, "GPU")
		if g.alike > 0 {
			foot = fmt.Sprintf("%s, and %d groups like it", foot, g.alike)
		}
		s.label(x, y+high-8, wide, 12, "normal", foot)
	}
	y += high + 14
	if more := len(o.groups) - len(shown); more > 0 {
		s.text(svgMargin, y+12, 12, "start", "normal", fmt.Sprintf("and %d more groups", more))
		y += 22
	}
	return y + 18
}

// drawRack draws the trays of one NVLink domain over the bar of its NVSwitches.
func (s *svg) drawRack(o *topoOutline, r *topoRack, y float64) float64 {
	head := fmt.Sprintf("%s: one NVLink domain of %s over %s", r.name, topoCount(r.gpus, "GPU"), topoCount(len(r.nodes), "node"))
	if r.alike > 0 {
		head += fmt.Sprintf(", and %d like it", r.alike)
	}
	s.text(svgMargin, y+12, 14, "start", "bold", head)
	y += 26
	const perRow, high, gap = 6, 44.0, 10.0
	member := map[topology.GPUID]bool{}
	for _, g := range o.c.Domains[r.domain] {
		member[g] = true
	}
	shown := r.nodes[:min(len(r.nodes), 36)]
	for i, n := range shown {
		x := svgMargin + float64(i%perRow)*(svgTray+gap)
		top := y + float64(i/perRow)*(high+gap)
		node, k := o.c.Node(n)
		s.rect(x, top, svgTray, high, "#fff")
		s.label(x, top+14, svgTray, 11, "normal", node.Name)
		size := min(22.0, (svgTray-12)/float64(len(k.GPUs))-4)
		left := x + (svgTray-float64(len(k.GPUs))*(size+4)+4)/2
		for g := range k.GPUs {
			id := node.First + topology.GPUID(g)
			fill := fillGPU
			switch {
			case o.c.GPUBad(id) != "":
				fill = fillBad
			case !member[id]:
				fill = "#fff"
			}
			s.rect(left+float64(g)*(size+4), top+19, size, 19, fill)
			if size >= 14 {
				s.label(left+float64(g)*(size+4)-4, top+33, size+8, 11, "normal", fmt.Sprint(g))
			}
		}
	}
	cols := min(len(shown), perRow)
	y += math.Ceil(float64(len(shown))/perRow)*(high+gap) + 6
	wide := float64(cols)*(svgTray+gap) - gap
	s.rect(svgMargin, y, wide, svgLevel, fillNVSwitch)
	_, first := o.c.Node(r.nodes[0])
	k := topoClass{node: r.nodes[0], class: first}
	s.label(svgMargin, y+17, wide, 12, "bold", k.nvlink(o.c))
	y += svgLevel + 16
	note := "green: in the domain"
	if len(shown) < len(r.nodes) {
		note = fmt.Sprintf("%d trays more; ", len(r.nodes)-len(shown)) + note
	}
	s.text(svgMargin, y, 11, "start", "normal", note+"; white: in another; red: bad")
	return y + 26
}

// leafColumn is one GPU or NIC with its place.
type leafColumn struct {
	part *topoPart
	x    float64 // left edge
}

// drawNode draws one kind of node: sockets, PCIe switches, GPUs and NICs from top to bottom, NVLink below.
func (s *svg) drawNode(o *topoOutline, k *topoClass, y float64) float64 {
	s.text(svgMargin, y+12, 14, "start", "bold", k.heading())
	y += 26
	d := nodeDrawing{svg: s, top: y, levels: 1}
	for _, root := range k.roots {
		for _, p := range root.children {
			if p.kind == topology.PartPCIeSwitch {
				d.levels = 2
			}
		}
	}
	x := float64(svgMargin)
	for i, root := range k.roots {
		if i > 0 {
			x += 2 * svgGap
		}
		_, x = d.place(root, x)
	}
	rows := d.leafRow()
	bottom := rows + svgHigh
	if k.class.Wiring == topology.NVLinkSwitched {
		return d.drawSwitchBar(o, k, bottom)
	}
	return d.drawLinks(k, bottom)
}

type nodeDrawing struct {
	*svg
	top    float64
	levels float64 // rows above the GPUs: sockets, and switches where there are any
	leaves []leafColumn
}

// leafRow is where GPUs and NICs stand: below the rows of sockets and switches.
func (d *nodeDrawing) leafRow() float64 { return d.top + d.levels*svgStep + 6 }

// place draws a part over its children and returns its centre and the next free x.
func (d *nodeDrawing) place(p *topoPart, x float64) (centre, next float64) {
	if p.kind == topology.PartGPU || p.kind == topology.PartNIC {
		d.leaf(p, x)
		return x + svgBox/2, x + svgCol
	}
	y := d.top
	if p.kind == topology.PartPCIeSwitch {
		y += svgStep
	}
	from := x
	var centres []float64
	var belows []float64
	for i, c := range p.children {
		if i > 0 && c.kind == topology.PartPCIeSwitch {
			x += svgGap
		}
		var at float64
		at, x = d.place(c, x)
		centres = append(centres, at)
		below := d.leafRow()
		if c.kind == topology.PartPCIeSwitch {
			below = d.top + svgStep
		}
		belows = append(belows, below)
	}
	if len(p.children) == 0 {
		x += svgCol
	}
	width := x - from - (svgCol - svgBox)
	for i, at := range centres {
		d.line(at, y+svgLevel, at, belows[i], 1.5, inkLine)
	}
	fill := fillSocket
	if p.kind == topology.PartPCIeSwitch {
		fill = fillSwitch
	}
	d.rect(from, y, width, svgLevel, fill)
	d.label(from, y+17, width, 12, "normal", p.label)
	return from + width/2, x
}

func (d *nodeDrawing) leaf(p *topoPart, x float64) {
	y := d.leafRow()
	fill := fillGPU
	if p.kind == topology.PartNIC {
		fill = fillNIC
	}
	notes := p.notes
	if p.bad != "" {
		fill, notes = fillBad, []string{"bad:", p.bad}
	}
	d.rect(x, y, svgBox, svgHigh, fill)
	d.label(x, y+17, svgBox, 13, "bold", p.label)
	for i, n := range notes[:min(2, len(notes))] {
		d.label(x, y+33+15*float64(i), svgBox, 11, "normal", n)
	}
	d.leaves = append(d.leaves, leafColumn{p, x})
}

func (d *nodeDrawing) drawSwitchBar(o *topoOutline, k *topoClass, y float64) float64 {
	left, right := math.Inf(1), 0.0
	for _, l := range d.leaves {
		if l.part.kind != topology.PartGPU {
			continue
		}
		centre := l.x + svgBox/2
		left, right = min(left, l.x), max(right, l.x+svgBox)
		id := gpuOf(o.c, k.node, l.part.index)
		links := o.c.LinksUp(id)
		if links == 0 {
			continue
		}
		d.line(centre, y, centre, y+34, 3, inkNV)
		d.text(centre+5, y+22, 11, "start", "normal", fmt.Sprint(links))
	}
	const least = 420
	d.rect(left, y+34, max(least, right-left), svgLevel, fillNVSwitch)
	d.label(left, y+51, max(least, right-left), 12, "bold", k.nvlink(o.c))
	return y + 34 + svgLevel + 34
}

// drawLinks draws NVLinks without a switch as arcs below the GPUs: the farther apart, the deeper; the more links, the
// thicker.
func (d *nodeDrawing) drawLinks(k *topoClass, y float64) float64 {
	if k.class.Wiring == topology.NVLinkNone || k.class.Wiring == topology.NVLinkUnknown {
		d.text(svgMargin, y+22, 12, "start", "normal", k.note())
		return y + 48
	}
	at := map[int]float64{}
	for _, l := range d.leaves {
		if l.part.kind == topology.PartGPU {
			at[l.part.index] = l.x + svgBox/2
		}
	}
	deepest := 0.0
	counts := map[int]bool{}
	place := arcPlaces(k.class.NVLinks, at)
	for _, l := range k.class.NVLinks {
		if l.Count == 0 {
			continue
		}
		counts[l.Count] = true
		a, b := place[[2]int{l.A, l.B}], place[[2]int{l.B, l.A}]
		depth := 26 + math.Abs(b-a)*0.22
		deepest = max(deepest, depth*0.75)
		ink := inkNV
		if l.Count == 1 {
			ink = "#9bbf6b"
		}
		fmt.Fprintf(&d.lines, `<path d="M%s %s C%s %s %s %s %s %s" fill="none" stroke="%s" stroke-width="%s"/>`+"\n", num(a), num(y), num(a), num(y+depth), num(b), num(y+depth), num(b), num(y), ink, num(1+1.2*math.Min(float64(l.Count), 4)))
	}
	y += deepest + 26
	d.text(svgMargin, y, 12, "start", "normal", k.note())
	return y + 30
}

// arcPlaces gives each end of each link a place along its GPU's box, keyed by (this GPU, other GPU). From left to
// right: links to the left, nearest first, then links to the right, farthest first; so arcs nest where they can.
func arcPlaces(links []topology.NVLink, at map[int]float64) map[[2]int]float64 {
	others := map[int][]int{}
	for _, l := range links {
		if l.Count > 0 {
			others[l.A], others[l.B] = append(others[l.A], l.B), append(others[l.B], l.A)
		}
	}
	place := map[[2]int]float64{}
	for g, list := range others {
		sort.Slice(list, func(i, j int) bool {
			if left, other := list[i] < g, list[j] < g; left != other {
				return left
			}
			return list[i] > list[j]
		})
		step := min(14, (svgBox-10)/float64(len(list)))
		for i, o := range list {
			place[[2]int{g, o}] = at[g] + (float64(i)-float64(len(list)-1)/2)*step
		}
	}
	return place
}

// note is the caption of wirings without a switch.
func (k *topoClass) note() string {
	switch k.class.Wiring {
	case topology.NVLinkNone:
		return "no NVLink: GPUs reach each other over PCIe"
	case topology.NVLinkUnknown:
		return "the source cannot show NVLink"
	}
	byCount := map[int]int{}
	most := 0
	for _, l := range k.class.NVLinks {
		byCount[l.Count]++
		most = max(most, l.Count)
	}
	var words []string
	for n := most; n > 0; n-- {
		if byCount[n] > 0 {
			words = append(words, fmt.Sprintf("NV%d: %s", n, topoCount(byCount[n], "pair")))
		}
	}
	return "NVLink without a switch (" + strings.Join(words, ", ") + "); thicker is more links"
}
