package fabric

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"rankmap/topology"
)

// netqDoc is the network graph that NVIDIA NetQ serves and Topograph reads: devices by tier and bundles of links, each
// with its cables as "node:interface-*-node:interface".
type netqDoc struct {
	Links []netqLink `json:"links"`
	Tiers []struct {
		Tier    int        `json:"tier"`
		Devices []netqNode `json:"compounded_nodes"`
	} `json:"nodes"`
}

type netqLink struct {
	Src    string `json:"src"`
	Target string `json:"target"`
	Size   int    `json:"size"`
	Cables []struct {
		Interfaces []struct {
			Interface string `json:"interface"`
			Node      string `json:"node"`
		} `json:"interfaces"`
	} `json:"compounded_links"`
}

type netqNode struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"device_type"`
	Tier int    `json:"tier"`
}

// netqGraph reads a NetQ graph. A device is a switch when NetQ says so; what it merely saw over LLDP is a host.
func netqGraph(data []byte, name string) (*Result, error) {
	n := &notes{name: name}
	docs, err := decodeNetQ(data, name)
	if err != nil {
		return nil, err
	}
	d := &topology.FabricDesc{Source: KindTopograph + ":" + name, Default: true}
	switches := map[string]int{}
	hosts := map[string]int{}
	label := map[string]string{}
	used := map[string]bool{}
	for _, doc := range docs {
		for _, t := range doc.Tiers {
			for _, v := range t.Devices {
				if v.ID == "" {
					n.fail(0, "a device without an id")
					continue
				}
				if _, twice := label[v.ID]; twice {
					n.fail(0, "device %q is stated twice", clip(v.ID))
					continue
				}
				id := v.Name
				if id == "" || used[id] {
					id = v.ID
				}
				used[id] = true
				label[v.ID] = id
				if v.Type == "switch" || v.Type != "host" && v.Tier > 0 {
					switches[id] = len(d.Switches)
					d.Switches = append(d.Switches, topology.DescSwitch{Name: id, Label: v.ID, Tier: v.Tier})
				} else {
					hosts[id] = len(d.Hosts)
					d.Hosts = append(d.Hosts, topology.DescHost{Name: id})
				}
			}
		}
	}
	if len(d.Switches) == 0 {
		n.fail(0, "no switch in the graph: not a NetQ network graph")
	}
	low := 1 << 30
	for _, s := range d.Switches {
		low = min(low, s.Tier)
	}
	for i := range d.Switches {
		d.Switches[i].Tier -= low // NetQ counts leaves from 1
	}
	for _, doc := range docs {
		for _, l := range doc.Links {
			a, okA := label[l.Src]
			b, okB := label[l.Target]
			if !okA || !okB {
				n.warn(0, "link %q to %q: a device that the graph does not list", clip(l.Src), clip(l.Target))
				continue
			}
			count := max(len(l.Cables), l.Size, 1)
			sa, isA := switches[a]
			sb, isB := switches[b]
			switch {
			case isA && isB:
				if d.Switches[sa].Tier > d.Switches[sb].Tier || d.Switches[sa].Tier == d.Switches[sb].Tier && topology.CompareNames(a, b) > 0 {
					a, b = b, a
				}
				d.Links = append(d.Links, topology.DescLink{A: a, B: b, Count: count})
			case isA:
				hangOn(&d.Hosts[hosts[b]], a, l.Target, l)
			case isB:
				hangOn(&d.Hosts[hosts[a]], b, l.Src, l)
			default:
				n.warn(0, "hosts %q and %q are linked directly: not used", clip(a), clip(b))
			}
		}
	}
	if err := n.err(); err != nil {
		return nil, err
	}
	for i := range d.Hosts {
		h := &d.Hosts[i]
		sort.SliceStable(h.HCAs, func(i, j int) bool { return topology.CompareNames(h.HCAs[i].Name, h.HCAs[j].Name) < 0 })
		if h.Leaf == "" {
			n.warn(0, "host %q hangs on no switch", clip(h.Name))
		} else {
			d.Switches[switches[h.Leaf]].Hosts++
		}
	}
	sort.SliceStable(d.Hosts, func(i, j int) bool { return topology.CompareNames(d.Hosts[i].Name, d.Hosts[j].Name) < 0 })
	sortSwitches(d)
	return &Result{Kind: KindTopograph, Format: "graph", Fabric: d, Facts: fabricFacts(d), Warnings: n.texts(n.warns)}, nil
}

// hangOn records a host's adapters on a switch: one for each cable of the bundle, by the host's interface.
func hangOn(h *topology.DescHost, leaf, hostID string, l netqLink) {
	if h.Leaf == "" || topology.CompareNames(leaf, h.Leaf) < 0 {
		h.Leaf = leaf
	}
	for _, c := range l.Cables {
		for _, i := range c.Interfaces {
			if i.Node == hostID {
				h.HCAs = append(h.HCAs, topology.DescHCA{Name: i.Interface, Leaf: leaf})
			}
		}
	}
}

// decodeNetQ decodes a list of graphs or one graph, and nothing behind it.
func decodeNetQ(data []byte, name string) ([]netqDoc, error) {
	if err := jsonDepth(data, name); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	var docs []netqDoc
	var err error
	if firstByte(data) == '[' {
		err = dec.Decode(&docs)
	} else {
		docs = make([]netqDoc, 1)
		err = dec.Decode(&docs[0])
	}
	if err != nil {
		at := dec.InputOffset()
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = syntax.Offset
		}
		line := 1 + bytes.Count(data[:min(int64(len(data)), at)], []byte("\n"))
		return nil, fmt.Errorf("%s:%d: not a NetQ network graph: %s", name, line, strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: data after the graph", name)
	}
	for _, d := range docs {
		if len(d.Links) > 0 || len(d.Tiers) > 0 {
			return docs, nil
		}
	}
	return nil, fmt.Errorf("%s:1: JSON without links and nodes: not a NetQ network graph", name)
}

// jsonDepth refuses deep nesting before the decoder meets it.
func jsonDepth(data []byte, name string) error {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > maxYAMLDepth {
				return fmt.Errorf("%s: nested deeper than %d", name, maxYAMLDepth)
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return nil
}
