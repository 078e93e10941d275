package ncclxml

import "rankmap/topology"

// bridge is a PCIe switch (NCCL's dumps show one element for its upstream and downstream ports).
type bridge struct {
	pci  string
	id   uint64 // vendor, device, subsystem ids packed
	up   *bridge
	line int
	into *bridge // merged into this one
	done bool
}

// peer is a pcilink between two Broadcom switches.
type peer struct {
	from   *bridge
	target string
	line   int
}

// bcmGen is NCCL's getBcmGen (src/graph/topo.cc): the generation of a Broadcom switch in base mode that shows itself as
// two levels, 4 or 5, else 0. Gen5 parts tell the levels apart by the subsystem device.
func bcmGen(id uint64, level uint64) int {
	switch id &^ 0xfff {
	case 0x1000c0101000a000:
		return 4
	case 0x1000c03010000000 | level*0x1000:
		return 5
	}
	return 0
}

// flatten merges the second level of Broadcom switches into the first, as ncclTopoFlattenBcmSwitches does: a switch is
// merged with its direct children once, and a merged child merges nothing itself.
func (h *host) flatten() {
	for _, b := range h.bridges { // document order: parents first
		if b.into != nil || b.done {
			continue
		}
		gen := bcmGen(b.id, 0)
		if gen == 0 {
			continue
		}
		b.done = true
		for _, s := range h.bridges {
			if s.up == b && s.into == nil && !s.done && bcmGen(s.id, 1) == gen {
				s.into = b
			}
		}
	}
}

// chain lists the switches above a device, nearest first. It is called after merging only.
func (d *device) chain() []*bridge {
	if d.walked {
		return d.above
	}
	var out []*bridge
	for b := d.bridge; b != nil; b = b.up {
		t := b
		for t.into != nil {
			t = t.into
		}
		if len(out) == 0 || out[len(out)-1] != t {
			out = append(out, t)
		}
	}
	d.above, d.walked = out, true
	return out
}

// relation is NCCL's path type between two devices in nvidia-smi's words: PIX over one switch, PXB over several (or a
// pcilink), PHB over the CPU, SYS over two CPUs of different NUMA nodes. A flat tree in a virtual machine is no
// statement about distance.
func (h *host) relation(a, b *device) topology.PathKind {
	if a == b {
		return topology.PathPIX
	}
	if a.cpu == b.cpu {
		ca, cb := a.chain(), b.chain()
		for i, x := range ca {
			for j, y := range cb {
				if x == y {
					if i+j == 0 {
						return topology.PathPIX
					}
					return topology.PathPXB
				}
			}
		}
		if h.peered(ca, cb) {
			return topology.PathPXB
		}
		if h.Class.Virtual && (len(ca) == 0 || len(cb) == 0) {
			return topology.PathUnknown
		}
		return topology.PathPHB
	}
	if h.peered(a.chain(), b.chain()) {
		return topology.PathPXB
	}
	na, nb := h.CPUs[a.cpu].NUMA, h.CPUs[b.cpu].NUMA
	switch {
	case na < 0 || nb < 0:
		if h.Class.Virtual {
			return topology.PathUnknown
		}
	case na == nb:
		return topology.PathNODE
	}
	return topology.PathSYS
}

// peered says whether a pcilink joins two chains of switches.
func (h *host) peered(a, b []*bridge) bool {
	for _, p := range h.peers {
		t, ok := normalPCI(p.target)
		if !ok {
			continue
		}
		f := p.from
		for f.into != nil {
			f = f.into
		}
		for _, ab := range [][2][]*bridge{{a, b}, {b, a}} {
			from, to := false, false
			for _, x := range ab[0] {
				from = from || x == f
			}
			for _, y := range ab[1] {
				to = to || y.pci == t
			}
			if from && to {
				return true
			}
		}
	}
	return false
}

// paths fills the matrices of the class.
func (h *host) paths() {
	c := &h.Class
	n, m := len(h.gpus), len(h.nics)
	c.GPUPaths = matrix(n, n)
	c.NICPaths = matrix(n, m)
	for i, g := range h.gpus {
		for j := range n {
			c.GPUPaths[i][j] = h.relation(g.device, h.gpus[j].device)
		}
		c.GPUPaths[i][i] = topology.PathSelf
		for j, k := range h.nics {
			if k.device != nil {
				c.NICPaths[i][j] = h.relation(g.device, k.device)
			}
		}
	}
	if len(c.NVLinks) == 0 {
		return
	}
	c.PCIePaths = matrix(n, n)
	for i := range c.GPUPaths {
		copy(c.PCIePaths[i], c.GPUPaths[i])
	}
	for _, l := range c.NVLinks {
		if l.Count > 0 {
			c.GPUPaths[l.A][l.B], c.GPUPaths[l.B][l.A] = topology.PathNV, topology.PathNV
		}
	}
}

// matrix makes an n x m matrix of unknown paths.
func matrix(n, m int) [][]topology.PathKind {
	cells := make([]topology.PathKind, n*m)
	out := make([][]topology.PathKind, n)
	for i := range out {
		out[i] = cells[i*m : (i+1)*m : (i+1)*m]
	}
	return out
}
