package validate

import (
	"cmp"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// NICFacts is one port of an RDMA device.
type NICFacts struct {
	Name  string  `json:"name"` // "mlx5_0"
	Port  int     `json:"port"`
	State string  `json:"state"` // "ACTIVE", "DOWN"
	Link  string  `json:"link"`  // "InfiniBand" or "Ethernet"
	Gbps  float64 `json:"gbps"`  // as sysfs says; 0 unknown
	MTU   int     `json:"mtu,omitempty"`
}

// IfaceFacts is a network interface that is up, with one of its addresses.
type IfaceFacts struct {
	Name string `json:"name"`
	Addr string `json:"addr"` // "10.0.0.1/24"
	MTU  int    `json:"mtu"`
}

// NetFacts is what a node has to reach others with.
type NetFacts struct {
	Driver  string       `json:"driver,omitempty"` // NVIDIA's, as nvidia-smi prints it
	NICs    []NICFacts   `json:"nics,omitempty"`   // those that NCCL_IB_HCA admits
	Ifaces  []IfaceFacts `json:"ifaces,omitempty"`
	Socket  IfaceFacts   `json:"socket"`            // the interface that NCCL's bootstrap takes
	Plugins []string     `json:"plugins,omitempty"` // net plugins that NCCL would load, "libnccl-net.so.0 (123 bytes)"
	Unequal bool         `json:"unequal,omitempty"` // NCCL_IGNORE_NET_MISMATCH=1: unequal NICs are wanted
}

// maxNICs bounds what is listed of a node, so that it fits into a message.
const maxNICs = 64

// ReadNet looks at a node's network: sys is the root of sysfs, ifaces the interfaces that are up.
func ReadNet(sys fs.FS, ifaces []IfaceFacts, getenv func(string) string) NetFacts {
	n := NetFacts{
		NICs: readNICs(sys, getenv("NCCL_IB_HCA")), Ifaces: ifaces[:min(len(ifaces), maxNICs)],
		Plugins: netPlugins(getenv), Unequal: getenv("NCCL_IGNORE_NET_MISMATCH") == "1",
	}
	if v := getenv("NCCL_IB_DISABLE"); v != "" && v != "0" {
		n.NICs = nil
	}
	n.Socket, _ = chooseIface(ifaces, getenv("NCCL_SOCKET_IFNAME"), getenv("NCCL_SOCKET_FAMILY"))
	return n
}

// readNICs reads class/infiniband. Files that cannot be read leave their field empty.
func readNICs(sys fs.FS, hca string) []NICFacts {
	var out []NICFacts
	devs, _ := fs.ReadDir(sys, "class/infiniband")
	text := func(p string) string {
		b, err := fs.ReadFile(sys, p)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(clip(string(b), 200))
	}
	for _, d := range devs {
		dir := path.Join("class/infiniband", d.Name())
		mtu := 0
		if nets, _ := fs.Glob(sys, path.Join(dir, "device/net/*/mtu")); len(nets) > 0 {
			mtu, _ = strconv.Atoi(text(nets[0]))
		}
		ports, _ := fs.ReadDir(sys, path.Join(dir, "ports"))
		for _, p := range ports {
			port, err := strconv.Atoi(p.Name())
			if err != nil || !matchNames(hca, d.Name(), port) || len(out) == maxNICs {
				continue
			}
			at := path.Join(dir, "ports", p.Name())
			_, state, _ := strings.Cut(text(path.Join(at, "state")), ": ") // "4: ACTIVE"
			rate, _, _ := strings.Cut(text(path.Join(at, "rate")), " ")    // "400 Gb/sec (4X NDR)"
			gbps, _ := strconv.ParseFloat(rate, 64)
			out = append(out, NICFacts{Name: d.Name(), Port: port, State: state, Link: text(path.Join(at, "link_layer")), Gbps: gbps, MTU: mtu})
		}
	}
	return out
}

// matchNames applies a list of NCCL_IB_HCA or NCCL_SOCKET_IFNAME: prefixes, "=" for exact names, "^" for all others. Items
// may carry ":port". An empty list admits everything.
func matchNames(list, name string, port int) bool {
	if list == "" {
		return true
	}
	list, not := strings.CutPrefix(list, "^")
	list, exact := strings.CutPrefix(list, "=")
	found := slices.ContainsFunc(strings.Split(list, ","), func(item string) bool {
		want, rest, _ := strings.Cut(item, ":")
		p, _, _ := strings.Cut(rest, ":")
		if n, err := strconv.Atoi(p); err == nil && port > 0 && n != port {
			return false
		}
		return want == name || !exact && want != "" && strings.HasPrefix(name, want)
	})
	return found != not
}

// chooseIface picks the interface as NCCL's bootstrap does: those of NCCL_SOCKET_IFNAME, else one whose name begins with
// "ib", else any but Docker's, the loopback and virbr, else these (src/misc/socket.cc).
func chooseIface(ifs []IfaceFacts, names, family string) (IfaceFacts, bool) {
	v6 := func(f IfaceFacts) bool { return strings.Contains(f.Addr, ":") }
	pick := func(ok func(IfaceFacts) bool) (IfaceFacts, bool) {
		i := slices.IndexFunc(ifs, func(f IfaceFacts) bool {
			return ok(f) && (family != "AF_INET" || !v6(f)) && (family != "AF_INET6" || v6(f))
		})
		if i < 0 {
			return IfaceFacts{}, false
		}
		return ifs[i], true
	}
	if names != "" {
		return pick(func(f IfaceFacts) bool { return matchNames(names, f.Name, 0) })
	}
	virtual := func(f IfaceFacts) int {
		return 1 + slices.IndexFunc([]string{"docker", "lo", "virbr"}, func(p string) bool { return strings.HasPrefix(f.Name, p) })
	}
	if f, ok := pick(func(f IfaceFacts) bool { return strings.HasPrefix(f.Name, "ib") }); ok {
		return f, true
	}
	for class := range 4 {
		if f, ok := pick(func(f IfaceFacts) bool { return virtual(f) == class }); ok {
			return f, true
		}
	}
	return IfaceFacts{}, false
}

// upIfaces lists the interfaces that are up, in the kernel's order, IPv4 before IPv6; link-local addresses are left out.
func upIfaces() []IfaceFacts {
	var out []IfaceFacts
	ifs, _ := net.Interfaces()
	for _, i := range ifs {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, _ := i.Addrs()
		slices.SortStableFunc(addrs, func(a, b net.Addr) int {
			return cmp.Compare(strings.Count(a.String(), ":"), strings.Count(b.String(), ":"))
		})
		for _, a := range addrs {
			if p, ok := a.(*net.IPNet); ok && !p.IP.IsLinkLocalUnicast() {
				out = append(out, IfaceFacts{Name: i.Name, Addr: p.String(), MTU: i.MTU})
			}
		}
	}
	return out
}

// ldDirs are where the dynamic loader looks beside LD_LIBRARY_PATH.
var ldDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}

// netPlugins finds the files that NCCL would load as net plugin: libnccl-net.so, or what NCCL_NET_PLUGIN names. The size
// stands for the version: plugins carry none.
func netPlugins(getenv func(string) string) []string {
	names := []string{"libnccl-net.so"}
	if v := getenv("NCCL_NET_PLUGIN"); v == "none" {
		return nil
	} else if v != "" {
		names = nil
		for p := range strings.SplitSeq(v, ",") {
			names = append(names, p, "libnccl-net-"+p+".so")
		}
	}
	dirs := append(filepath.SplitList(getenv("LD_LIBRARY_PATH")), ldDirs...)
	var out []string
	for _, name := range names[:min(len(names), 16)] {
		files := []string{name}
		if !filepath.IsAbs(name) {
			files = nil
			for _, d := range dirs {
				files = append(files, filepath.Join(d, name))
			}
		}
		for _, f := range files {
			st, err := os.Stat(f)
			if err != nil || !st.Mode().IsRegular() {
				continue
			}
			if real, err := filepath.EvalSymlinks(f); err == nil {
				f = real
			}
			out = append(out, fmt.Sprintf("%s (%d bytes)", filepath.Base(f), st.Size()))
			break
		}
	}
	return out
}

// describeNICs prints the NICs of a node by kind: "2 x 400 Gb/s InfiniBand".
func describeNICs(nics []NICFacts) string {
	count := map[string]int{}
	for _, n := range nics {
		if n.active() {
			count[fmt.Sprintf("%g Gb/s %s", n.Gbps, cmp.Or(n.Link, "link"))]++
		}
	}
	var parts []string
	for k, n := range count {
		parts = append(parts, fmt.Sprintf("%d x %s", n, k))
	}
	slices.Sort(parts)
	return cmp.Or(strings.Join(parts, " + "), "no active RDMA port")
}

func (n NICFacts) active() bool { return n.State == "ACTIVE" || n.State == "" }
