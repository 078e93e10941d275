package source

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"rankmap/topology"
)

// toolWords are what people add to a host's name when they save the output of a tool.
var toolWords = []string{"nvidia", "smi", "topo", "m", "mp", "matrix", "topology", "nvlink", "s", "status", "ibv", "devinfo", "ibstat", "ibstatus",
	"lspci", "tv", "nccl", "xml", "capture", "rankmap", "discover", "dump", "system", "txt", "out", "log"}

// hostByFile is the host that a file's name suggests: its first part, without the words that name the tool; empty when
// nothing is left.
func hostByFile(file string) string {
	base := path.Base(strings.ReplaceAll(file, "\\", "/"))
	stem, _, _ := strings.Cut(base, ".")
	for {
		at := strings.LastIndexAny(stem, "-_")
		if !slices.Contains(toolWords, strings.ToLower(stem[at+1:])) {
			return stem
		}
		if at < 0 {
			return ""
		}
		stem = stem[:at]
	}
}

// folderOf is the name of the folder that holds the file.
func folderOf(file string) string {
	dir := path.Base(path.Dir(strings.ReplaceAll(file, "\\", "/")))
	if dir == "." || dir == "/" {
		return ""
	}
	return dir
}

// group is all parts of one host.
type group struct {
	host  string
	parts []*part
}

// groups sorts the parts by host. A name that the content states counts first. Without one, a single file of each kind
// means a single host; with several of a kind the file names, or else their folders, tell the hosts apart.
func (a *assembly) groups() ([]group, error) {
	var unnamed []*part
	byHost := map[string]*group{}
	var order []*group
	put := func(host string, p *part) {
		g := byHost[host]
		if g == nil {
			g = &group{host: host}
			byHost[host] = g
			order = append(order, g)
		}
		g.parts = append(g.parts, p)
	}
	for i := range a.parts {
		if p := &a.parts[i]; p.host != "" {
			put(p.host, p)
		} else {
			unnamed = append(unnamed, p)
		}
	}
	many := map[string]int{}
	for _, p := range unnamed {
		many[p.kind]++
	}
	several := false
	for _, n := range many {
		several = several || n > 1
	}
	switch {
	case !several && len(order) == 1: // one host, named by one of its files
		for _, p := range unnamed {
			put(order[0].host, p)
		}
	case !several && len(order) == 0:
		for _, p := range unnamed {
			put("", p)
		}
	case len(unnamed) > 0:
		if err := nameByFiles(unnamed); err != nil {
			return nil, err
		}
		for _, p := range unnamed {
			put(p.byFile, p)
		}
	}
	out := make([]group, len(order))
	var errs []error
	for i, g := range order {
		out[i] = *g
		errs = append(errs, g.twice())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(x, y group) int { return topology.CompareNames(x.host, y.host) })
	return out, nil
}

// twice refuses two descriptions of a host's GPUs by one kind of source: two moments, or two hosts of one name.
func (g *group) twice() error {
	seen := map[string]string{}
	for _, p := range g.parts {
		if !p.base() && p.links == nil {
			continue
		}
		if was, dup := seen[p.kind]; dup {
			return fmt.Errorf("%s and %s both describe the host %q: leave one out", was, p.file, g.host)
		}
		seen[p.kind] = p.file
	}
	return nil
}

// nameByFiles names hosts after files: by the first part of their names, or by their folders where the names repeat.
func nameByFiles(parts []*part) error {
	ways := []func(string) string{hostByFile, folderOf}
	for _, way := range ways {
		ok := true
		seen := map[string]string{}
		for _, p := range parts {
			p.byFile = way(p.file)
			key := p.kind + "\x00" + p.byFile
			was, dup := seen[key]
			ok = ok && p.byFile != "" && (!dup || was == p.file)
			seen[key] = p.file
		}
		if ok {
			return nil
		}
	}
	var names []string
	for _, p := range parts {
		names = append(names, p.file)
	}
	slices.Sort(names)
	return fmt.Errorf("which hosts do %s describe? name the files after their hosts, such as node1.topo.txt, or put each host's files into a folder of its own", strings.Join(slices.Compact(names), ", "))
}
