package planner

import (
	"rankmap/collective"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// twins lists the ways to exchange the usable GPUs of a node, by place, that change no distance between any two of them: seatings that
// such an exchange turns into each other cost the same. The first changes nothing. Distances are those that the machine's description
// states and, so that no other price of pairs is overlooked, two prices of each pair. nil on several nodes and on more than exactGPUs.
func (s *search) twins() [][]byte {
	if s.known {
		return s.exchanges
	}
	s.known = true
	ids := s.base.gpus
	n := len(ids)
	if n == 0 || n > exactGPUs {
		return nil
	}
	for _, id := range ids {
		if s.Cluster.NodeOf(id) != s.Cluster.NodeOf(ids[0]) {
			return nil
		}
	}
	pairs, err := s.pairPrices(ids)
	if err != nil {
		return nil
	}
	image, taken := make([]byte, 0, n), make([]bool, n)
	var walk func()
	walk = func() {
		if len(image) == n {
			s.exchanges = append(s.exchanges, append([]byte(nil), image...))
			return
		}
		i := len(image)
	next:
		for j := range n {
			if taken[j] || !s.sameKind(ids[i], ids[j]) {
				continue
			}
			for k, to := range image {
				if pairs[i*n+k] != pairs[j*n+int(to)] || !s.sameDistance(ids[i], ids[k], ids[j], ids[to]) {
					continue next
				}
			}
			taken[j] = true
			image = append(image, byte(j))
			walk()
			image, taken[j] = image[:i], false
		}
	}
	walk()
	return s.exchanges
}

// pairPrices prices a small and a large all-reduce on every pair of GPUs.
func (s *search) pairPrices(ids []topology.GPUID) ([][2]units.Duration, error) {
	n := len(ids)
	out := make([][2]units.Duration, n*n)
	for i := range ids {
		for j := range i {
			for m, bytes := range [...]units.Bytes{8 << 10, 64 << 20} {
				e, err := s.Pricer.Price(collective.Request{
					Op: parallel.AllReduce, Bytes: bytes, DType: "bf16", Launch: graphLaunch, Members: []topology.GPUID{ids[j], ids[i]},
				})
				if err != nil {
					return nil, err
				}
				out[i*n+j][m], out[j*n+i][m] = e.Time, e.Time
			}
		}
	}
	return out, nil
}

// sameKind says that two GPUs of a node differ in their names and places alone.
func (s *search) sameKind(a, b topology.GPUID) bool {
	bare := func(id topology.GPUID) topology.GPU {
		k, i := s.Cluster.GPU(id)
		g := k.GPUs[i]
		g.Index, g.UUID, g.PCI, g.CPUAffinity = 0, "", "", ""
		g.NUMA, g.NUMARange, g.GPUNUMA = 0, "", 0
		return g
	}
	return bare(a) == bare(b) && s.Cluster.LinksUp(a) == s.Cluster.LinksUp(b)
}

// sameDistance says that a and b of a node are joined by the same links as c and d.
func (s *search) sameDistance(a, b, c, d topology.GPUID) bool {
	k, i := s.Cluster.GPU(a)
	_, j := s.Cluster.GPU(b)
	_, x := s.Cluster.GPU(c)
	_, y := s.Cluster.GPU(d)
	for _, m := range [][][]topology.PathKind{k.GPUPaths, k.PCIePaths} {
		if m != nil && (m[i][j] != m[x][y] || m[j][i] != m[y][x]) {
			return false
		}
	}
	near := func(p, q int) bool { return k.GPUs[p].NUMA == k.GPUs[q].NUMA }
	shares := func(p, q int) int { // NICs that are equally far from both
		n := 0
		for nic := range k.NICs {
			if k.NICPaths != nil && k.NICPaths[p][nic] == k.NICPaths[q][nic] {
				n++
			}
		}
		return n
	}
	return near(i, j) == near(x, y) && shares(i, j) == shares(x, y) && linksBetween(k, i, j) == linksBetween(k, x, y) &&
		(s.Cluster.DomainOf(a) == s.Cluster.DomainOf(b)) == (s.Cluster.DomainOf(c) == s.Cluster.DomainOf(d))
}

// linksBetween is the bundle of NVLinks that joins two GPUs of a node, without its ends.
func linksBetween(k *topology.NodeClass, i, j int) topology.NVLink {
	var out topology.NVLink
	for _, l := range k.NVLinks {
		if l.A == min(i, j) && l.B == max(i, j) {
			out.Count, out.Down, out.PerLink = out.Count+l.Count, out.Down+l.Down, l.PerLink
		}
	}
	return out
}

// fixing leaves the exchanges that do not touch place i, and says whether none of the given ones turns i into an earlier place: of
// seatings that exchanges turn into each other the first one alone passes at every rank.
func fixing(exchanges [][]byte, i int) (left [][]byte, first bool) {
	for _, x := range exchanges {
		if int(x[i]) < i {
			return nil, false
		}
		if int(x[i]) == i {
			left = append(left, x)
		}
	}
	return left, true
}

// relabellings is how many seatings lowest leaves one of.
func relabellings(st parallel.Strategy) int {
	experts := st.EP * st.ExpertTP
	if experts > 1 && (st.ExpertTP != 1 || st.EP%(st.TP*st.CP) != 0) && (st.EP != 1 || st.ExpertTP != st.TP) {
		return 1
	}
	n := factorial(st.TP)
	if st.CP == 2 {
		n *= 2
	}
	if experts <= 1 || st.EP == st.StageRanks() {
		n *= factorial(st.DP)
	}
	return n
}

func factorial(n int) int {
	f := 1
	for i := 2; i <= min(n, 12); i++ {
		f *= i
	}
	return f
}
