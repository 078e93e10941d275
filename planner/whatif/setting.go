package whatif

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"rankmap/internal/strictyaml"
	"rankmap/internal/units"
	"rankmap/topology"
)

// Setting is one quantity with a value, as --set and --sweep name it.
type Setting struct {
	Key  string
	Text string  // as written
	Num  float64 // counts as they are, rates in bytes a second, factors; 0 for words
}

// unit says how a setting's value is written.
type unit uint8

const (
	count  unit = iota // a whole number of at least 1
	rate               // a rate: 400G, 50GB/s
	factor             // a number above 0
	word               // one of a list, or any word
)

// setting describes a key.
type setting struct {
	key   string
	unit  unit
	zero  bool     // 0 is a value
	words []string // of a word; nil = any
	help  string
}

// settings lists what can be set and swept. Order: as help prints it.
var settings = []setting{
	{key: "gpus", unit: count, help: "GPUs of the machine"},
	{key: "gpu", unit: word, help: "GPU model in the same boxes, such as b200-sxm"},
	{key: "nic.rate", unit: rate, help: "rate of every NIC, such as 800G"},
	{key: "nvlink.rate", unit: rate, help: "NVLink rate of a GPU one way, such as 900GB/s"},
	{key: "nvlink.scale", unit: factor, help: "NVLink rates times this"},
	{key: "nvlink.domain", unit: count, help: "GPUs of an NVLink domain"},
	{key: "nccl", unit: word, help: "version of NCCL, such as 2.28"},
	{key: "nvls", unit: word, words: []string{"on", "off"}, help: "in-switch reduction"},
	{key: "cost", unit: word, words: []string{"calibrated", "textbook"}, help: "how collectives are priced"},
	{key: "batch", unit: count, help: "sequences in flight; global batch in training"},
	{key: "isl", unit: count, help: "input tokens"},
	{key: "osl", unit: count, help: "output tokens"},
	{key: "seq-len", unit: count, help: "sequence length in training"},
	{key: "weights", unit: word, words: []string{"bf16", "fp16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4"}, help: "weight type"},
	{key: "kv-cache", unit: word, words: []string{"bf16", "fp8"}, help: "KV cache type"},
	{key: "experts.redundant", unit: count, zero: true, help: "extra physical experts of a mixture"},
}

// Keys lists what can be set and swept, with a line of help each.
func Keys() (keys, help []string) {
	for _, s := range settings {
		keys, help = append(keys, s.key), append(help, s.help)
	}
	return keys, help
}

// find returns a key's description, or an error with the word that was probably meant.
func find(key string) (*setting, error) {
	for i := range settings {
		if settings[i].key == key {
			return &settings[i], nil
		}
	}
	keys, _ := Keys()
	return nil, fmt.Errorf("unknown key %q%s", key, strictyaml.DidYouMean(key, keys))
}

// ParseSetting reads "nic.rate=800G".
func ParseSetting(s string) (Setting, error) {
	key, val, ok := strings.Cut(s, "=")
	if !ok || val == "" {
		return Setting{}, fmt.Errorf("set %q: want key=value, such as nic.rate=800G", s)
	}
	k, err := find(key)
	if err != nil {
		return Setting{}, fmt.Errorf("set %q: %w", s, err)
	}
	v, err := k.parse(val)
	if err != nil {
		return Setting{}, fmt.Errorf("set %s: %w", key, err)
	}
	return v, nil
}

// parse reads one value.
func (k *setting) parse(val string) (Setting, error) {
	out := Setting{Key: k.key, Text: val}
	least := 1
	if k.zero {
		least = 0
	}
	switch k.unit {
	case count:
		n, err := strconv.Atoi(val)
		if err != nil || n < least || n > maxCount {
			return out, fmt.Errorf("%q: want a whole number from %d to %d", val, least, maxCount)
		}
		out.Num = float64(n)
	case rate:
		r, err := units.ParseRate(val)
		if err != nil {
			return out, err
		}
		out.Num = float64(r)
	case factor:
		f, err := strconv.ParseFloat(val, 64)
		if err != nil || !(f > 0) || f > 1000 {
			return out, fmt.Errorf("%q: want a factor above 0, at most 1000", val)
		}
		out.Num = f
	case word:
		if k.key == "nccl" {
			return out, checkNCCL(val)
		}
		if k.words != nil && !slices.Contains(k.words, val) {
			return out, fmt.Errorf("%q is unknown%s", val, strictyaml.DidYouMean(val, k.words))
		}
		if strings.ContainsAny(val, " \t\n\"") || len(val) > 64 {
			return out, fmt.Errorf("%q: want a word", val)
		}
	}
	return out, nil
}

// maxCount bounds counts: sequences, tokens, GPUs.
const maxCount = 100_000_000

// at returns the setting of a key at a number.
func (k *setting) at(v float64) Setting {
	s := Setting{Key: k.key, Num: v}
	switch k.unit {
	case count:
		s.Text = strconv.FormatFloat(v, 'f', 0, 64)
	case rate:
		b := units.Bandwidth(v)
		if s.Text = units.Trim(b.Gbps(), 3) + "G"; k.key != "nic.rate" {
			s.Text = units.Trim(b.GBps(), 3) + "GB/s"
		}
	case factor:
		s.Text = units.Signif(v, 4)
	}
	return s
}

// Shown is the number of a setting in the unit in which it is read: Gb/s for NICs, GB/s for NVLink.
func (s Setting) Shown() float64 {
	k, err := find(s.Key)
	if err != nil || k.unit != rate {
		return s.Num
	}
	b := units.Bandwidth(s.Num)
	if s.Key == "nic.rate" {
		return round(b.Gbps(), 6)
	}
	return round(b.GBps(), 6)
}

// apply changes a machine or the problem. gpus is for the caller: it grows machines.
func (s Setting) apply(m *Machine, p *Problem) error {
	n := int(s.Num)
	if err := s.suits(p); err != nil {
		return err
	}
	switch s.Key {
	case "gpus":
		return m.grow(n)
	case "gpu":
		return m.swapGPU(s.Text, p.Catalog)
	case "nic.rate":
		if m.nicsAre(units.Bandwidth(s.Num)) {
			return nil
		}
		return m.edit(topology.Edit{Kind: topology.SetNICRate, GPU: -1, Peer: -1, NIC: -1, Rail: -1, Rate: units.Bandwidth(s.Num)}, p)
	case "nvlink.domain":
		if m.domainsAre(n) {
			return nil
		}
		return m.edit(topology.Edit{Kind: topology.SetDomainSize, GPUs: n}, p)
	case "nvlink.scale":
		if m.scaleIs(s.Num) {
			return nil
		}
		return m.edit(topology.Edit{Kind: topology.SetLinkScale, Scale: s.Num}, p)
	case "nvlink.rate":
		return m.linkRate(units.Bandwidth(s.Num), p)
	case "nccl":
		p.Costs.Library = s.Text
	case "nvls":
		p.Costs.NoMulticast = s.Text == "off"
	case "cost":
		p.Costs.Cost = s.Text
	case "batch":
		p.Workload.Batch, p.Workload.Concurrency = n, 0
	case "isl":
		p.Workload.ISL = n
	case "osl":
		p.Workload.OSL = n
	case "seq-len":
		p.Workload.SeqLen = n
	case "weights":
		p.Workload.Weights = s.Text
	case "kv-cache":
		p.Workload.KVCache = s.Text
	case "experts.redundant":
		if n > 0 && !p.Spec.MoE() {
			return errors.New("experts.redundant: the model has no routed experts")
		}
		p.Spec = p.Spec.WithRedundantExperts(n)
	}
	return nil
}

// grow gives the machine at least n GPUs and keeps n of them.
func (m *Machine) grow(n int) error {
	if have := m.usable(); n > have {
		if m.Grow == nil {
			return fmt.Errorf("gpus=%d: %s has %d usable GPUs and cannot be grown: only presets and files of one node can", n, m.Name, have)
		}
	}
	if m.Grow != nil {
		c, err := m.Grow(n)
		if err != nil {
			return err
		}
		m.undo = append(m.undo, restore{was: m.Cluster})
		m.Cluster = c
	}
	m.limit = n
	return nil
}

// linkRate scales NVLink so that a GPU with all its links up reaches the rate.
func (m *Machine) linkRate(want units.Bandwidth, p *Problem) error {
	c := m.Cluster
	full, now := units.Bandwidth(0), 1.0
	for id := range topology.GPUID(c.NumGPUs()) {
		if b := c.LinkBandwidth(id); b > full {
			full = b
			if k, _ := c.GPU(id); k.LinkScale > 0 {
				now = k.LinkScale
			} else {
				now = 1
			}
		}
	}
	if full <= 0 {
		return fmt.Errorf("nvlink.rate: %s has no NVLink of known rate", m.Name)
	}
	scale := float64(want) / (float64(full) / now)
	if math.Abs(scale-now) < 1e-9 {
		return nil
	}
	return m.edit(topology.Edit{Kind: topology.SetLinkScale, Scale: scale}, p)
}

// nicsAre says that every NIC has the rate already.
func (m *Machine) nicsAre(rate units.Bandwidth) bool {
	c := m.Cluster
	for n := range c.Nodes {
		k := &c.Classes[c.Nodes[n].Class]
		for x := range k.NICs {
			if r := k.NICs[x].Rate; r != rate && (r != 0 || c.Fabric.NICRate != rate) {
				return false
			}
		}
	}
	return true
}

// domainsAre says that the NVLink domains have that many GPUs already.
func (m *Machine) domainsAre(n int) bool {
	c := m.Cluster
	for i, d := range c.Domains {
		last := i == len(c.Domains)-1 && len(d) < n && len(d) == c.NumGPUs()-i*n // what is left over
		if len(d) != n && !last {
			return false
		}
	}
	return len(c.Domains) > 0
}

// scaleIs says that NVLink rates are scaled by that much already.
func (m *Machine) scaleIs(f float64) bool {
	for i := range m.Cluster.Nodes {
		k := &m.Cluster.Classes[m.Cluster.Nodes[i].Class]
		if k.LinkScale != f && (k.LinkScale != 0 || f != 1) {
			return false
		}
	}
	return true
}

// edit changes the cluster.
func (m *Machine) edit(e topology.Edit, p *Problem) error {
	after, back, err := m.Cluster.Edit(e, p.Catalog)
	if err != nil {
		return err
	}
	m.Cluster = after
	m.undo = append(m.undo, restore{edit: back})
	return nil
}
