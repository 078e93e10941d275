package fabric

import (
	"io"
	"strconv"
	"strings"

	"rankmap/internal/units"
	"rankmap/topology"
)

// IBV reads ibv_devinfo (also -v, which shows width and speed): the adapters of one host, one NIC a port.
func IBV(r io.Reader, name string) (*Result, error) {
	p := newPortReader(name)
	data, err := load(r, name, maxDump)
	if err != nil {
		return nil, err
	}
	lines(data, func(no int, line string) {
		key, val, ok := keyValue(line)
		if !ok {
			return
		}
		switch key {
		case "hca_id":
			p.hca(no, val)
		case "fw_ver":
			p.firmware = val
		case "node_guid":
			p.guid = strings.ReplaceAll(val, ":", "")
		case "port":
			p.port(no, val)
		case "state":
			p.state(val)
		case "link_layer":
			p.layer(val)
		case "active_width":
			p.width, _ = cutBlank(val)
		case "active_speed":
			p.speed(val)
		}
	})
	return p.result(KindIBV, "no hca_id line: not the output of ibv_devinfo")
}

// IBStat reads ibstat (also cut down by grep to its "CA 'mlx5_0'" lines) and ibstatus: the adapters of one host.
func IBStat(r io.Reader, name string) (*Result, error) {
	p := newPortReader(name)
	data, err := load(r, name, maxDump)
	if err != nil {
		return nil, err
	}
	lines(data, func(no int, line string) {
		t := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(t, "CA '"); ok {
			if id, _, ok := strings.Cut(rest, "'"); ok {
				p.hca(no, id)
			}
			return
		}
		if rest, ok := strings.CutPrefix(t, "Infiniband device '"); ok { // ibstatus
			if id, tail, ok := strings.Cut(rest, "' port "); ok {
				p.hca(no, id)
				num, _ := cutBlank(tail)
				p.port(no, num)
			}
			return
		}
		if rest, ok := strings.CutPrefix(t, "Port "); ok && strings.HasSuffix(rest, ":") && digits(strings.TrimSuffix(rest, ":")) {
			p.port(no, strings.TrimSuffix(rest, ":"))
			return
		}
		key, val, ok := keyValue(line)
		if !ok {
			return
		}
		switch strings.ToLower(key) {
		case "firmware version":
			p.firmware = val
		case "node guid":
			p.guid = strings.TrimPrefix(val, "0x")
		case "state":
			p.state(val)
		case "link layer", "link_layer":
			p.layer(val)
		case "rate":
			p.rate(no, val)
		}
	})
	return p.result(KindIBStat, "no CA line: not the output of ibstat")
}

// keyValue splits "key:   value".
func keyValue(line string) (key, val string, ok bool) {
	key, val, ok = strings.Cut(line, ":")
	return strings.TrimSpace(key), strings.TrimSpace(val), ok
}

// portReader collects adapters and their ports.
type portReader struct {
	*notes
	res      *Result
	device   string
	first    int // position of the device's first NIC
	ports    int
	guid     string
	firmware string
	width    string
}

func newPortReader(name string) *portReader {
	return &portReader{notes: &notes{name: name}, res: &Result{Node: &topology.NodeClass{Wiring: topology.NVLinkUnknown}}}
}

// hca begins an adapter. ibstatus repeats it for each port.
func (p *portReader) hca(no int, id string) {
	if len(id) == 0 || len(id) > maxName || strings.ContainsAny(id, " \t") {
		p.warn(no, "adapter name %q: ignored", clip(id))
		return
	}
	if id == p.device {
		return
	}
	p.close()
	p.device, p.first, p.ports = id, len(p.res.Node.NICs), 0
	p.add(id)
}

// add appends a NIC of the current adapter.
func (p *portReader) add(name string) {
	p.res.Node.NICs = append(p.res.Node.NICs, topology.NIC{Index: len(p.res.Node.NICs), Name: name, Device: p.device, NUMA: -1, Rail: -1})
}

// close writes what holds for all ports of the adapter.
func (p *portReader) close() {
	if p.device == "" {
		return
	}
	for i := p.first; i < len(p.res.Node.NICs); i++ {
		p.res.Node.NICs[i].GUID, p.res.Node.NICs[i].Firmware = p.guid, p.firmware
	}
	p.guid, p.firmware, p.width = "", "", ""
}

func (p *portReader) cur() *topology.NIC {
	if p.device == "" {
		return &topology.NIC{}
	}
	return &p.res.Node.NICs[len(p.res.Node.NICs)-1]
}

// port begins a port; the second and later ones are NICs of their own, "mlx5_0:2".
func (p *portReader) port(no int, num string) {
	v, err := strconv.Atoi(num)
	if err != nil || v < 0 || v > 255 || p.device == "" {
		p.warn(no, "port %q: ignored", clip(num))
		return
	}
	if p.ports++; p.ports > 1 {
		p.add(p.device + ":" + num)
	}
	p.width = ""
}

// state reads "PORT_ACTIVE (4)", "Active" and ibstatus's "4: ACTIVE".
func (p *portReader) state(v string) {
	v = strings.TrimPrefix(strings.ToUpper(v), "PORT_")
	if _, after, ok := strings.Cut(v, ": "); ok {
		v = after
	}
	v, _ = cutBlank(v)
	p.cur().State = v
}

func (p *portReader) layer(v string) {
	if v == "InfiniBand" || v == "Ethernet" {
		p.cur().LinkLayer = v
	}
}

// rate reads ibstat's "400" (Gb/s) and ibstatus's "400 Gb/sec (4X NDR)".
func (p *portReader) rate(no int, v string) {
	w, _ := cutBlank(v)
	g, err := strconv.ParseFloat(w, 64)
	if err != nil || !(g >= 0 && g < 1e5) {
		p.warn(no, "rate %q is no number of Gb/s: unknown", clip(v))
		return
	}
	p.cur().Rate = units.Gbps(g)
}

// speed reads ibv_devinfo's "25.0 Gbps (32)", the rate of one lane, after "active_width: 4X (2)".
func (p *portReader) speed(v string) {
	w, rest := cutBlank(v)
	unit, _ := cutBlank(rest)
	g, err := strconv.ParseFloat(w, 64)
	lanes, errW := strconv.Atoi(strings.TrimSuffix(strings.ToUpper(p.width), "X"))
	if err == nil && errW == nil && strings.HasPrefix(unit, "Gb") && g > 0 && g < 1e4 && lanes > 0 && lanes <= 16 {
		p.cur().Rate = units.Gbps(g * float64(lanes))
	}
}

// result closes the reading.
func (p *portReader) result(kind, none string) (*Result, error) {
	p.close()
	c := p.res.Node
	if len(c.NICs) == 0 {
		p.fail(1, "%s", none)
		return nil, p.err()
	}
	down, silent, slow := 0, 0, 0
	for i := range c.NICs {
		n := &c.NICs[i]
		switch {
		case n.State == "":
			silent++
		case n.State != "ACTIVE":
			down++
		}
		if n.Rate == 0 {
			slow++
		}
		if n.State == "DOWN" {
			n.Rate = 0 // ibstat prints the lowest rate for a port that is down
		}
		src := kind + ":" + p.name
		p.res.Facts = append(p.res.Facts, topology.Fact{What: "NIC " + n.Name + " state", Value: n.State, Source: src})
	}
	switch {
	case down == len(c.NICs):
		p.warn(0, "all %d ports are down: no usable network", down)
	case down > 0:
		p.warn(0, "%d of %d ports are not active", down, len(c.NICs))
	}
	if silent > 0 {
		p.warn(0, "%d of %d ports without a state", silent, len(c.NICs))
	}
	if slow > 0 {
		p.warn(0, "%d of %d ports without a rate", slow, len(c.NICs))
	}
	p.res.Kind, p.res.Format, p.res.Warnings = kind, kind, p.texts(p.warns)
	return p.res, nil
}
