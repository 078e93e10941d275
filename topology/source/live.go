package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"rankmap/topology"
	"rankmap/topology/capture"
	"rankmap/topology/nvml"
	"rankmap/topology/smi"
	"rankmap/topology/sysfs"
)

// Live is how the machine that rankmap runs on is reached.
type Live struct {
	NVML     func() (nvml.API, error)
	Sysfs    sysfs.Tree
	SMI      func(ctx context.Context, args ...string) ([]byte, error) // nvidia-smi
	Getenv   func(string) string
	Hostname func() (string, error)
}

// smiFolders are where nvidia-smi is looked for. PATH is not asked: discovery runs no program that somebody put there.
var smiFolders = []string{"/usr/bin", "/usr/local/nvidia/bin", "/usr/local/bin", "/usr/lib/wsl/lib", "/run/nvidia/driver/usr/bin", "/opt/nvidia/bin", "/bin"}

// Limits of one run of nvidia-smi.
const (
	smiTimeout = 20 * time.Second
	maxSMI     = 4 << 20
)

// ErrNoSMI says that nvidia-smi is in none of the usual folders.
var ErrNoSMI = errors.New("nvidia-smi is not found")

// OSLive reaches this machine.
func OSLive() *Live {
	return &Live{NVML: nvml.New, Sysfs: sysfs.Dir("/sys"), SMI: runSMI, Getenv: os.Getenv, Hostname: os.Hostname}
}

func runSMI(ctx context.Context, args ...string) ([]byte, error) {
	for _, dir := range smiFolders {
		name := filepath.Join(dir, "nvidia-smi")
		if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, smiTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin", "LD_LIBRARY_PATH=" + libraryPath(dir)}
		cmd.WaitDelay = time.Second
		var out limited
		cmd.Stdout = &out
		err := cmd.Run()
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s did not answer within %v", name, smiTimeout)
		case err != nil:
			return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
		}
		return out.Bytes(), nil
	}
	return nil, ErrNoSMI
}

// libraryPath is where a nvidia-smi in dir finds its library: where this process does, else beside it. An empty element
// would mean the working folder.
func libraryPath(dir string) string {
	beside := filepath.Join(filepath.Dir(dir), "lib64")
	if own := strings.Trim(os.Getenv("LD_LIBRARY_PATH"), ":"); own != "" {
		return own + ":" + beside
	}
	return beside
}

// limited is a buffer that stops growing.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	if room := maxSMI - l.Len(); room > 0 {
		l.Buffer.Write(b[:min(len(b), room)])
	}
	return len(b), nil
}

// The files of a capture.
const (
	fileNVML  = "nvml.json"
	fileSysfs = "sysfs.txt"
	fileTopo  = "topo-m.txt"
	fileLinks = "nvlink-s.txt"
)

// visibleEnv are the variables that change which GPUs a process sees, in which order.
var visibleEnv = []string{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}

// Capture asks this machine everything that discovery reads and keeps the answers. An error is an nvml.Unavailable: the
// machine has no driver that answers, and no nvidia-smi either.
func (l *Live) Capture(ctx context.Context) (*capture.Capture, error) {
	c := &capture.Capture{Env: map[string]string{}, Files: map[string][]byte{}}
	c.Host, _ = l.Hostname()
	for _, name := range visibleEnv {
		if v := l.Getenv(name); v != "" {
			c.Env[name] = v
		}
	}
	topo, smiErr := l.SMI(ctx, "topo", "-m")
	if smiErr == nil {
		c.Files[fileTopo] = topo
		if links, err := l.SMI(ctx, "nvlink", "-s"); err == nil {
			c.Files[fileLinks] = links
		}
	} else if !errors.Is(smiErr, ErrNoSMI) {
		c.Notes = append(c.Notes, smiErr.Error())
	}
	api, err := l.NVML()
	if err == nil {
		var rec nvml.Recording
		api, rec = nvml.Record(api)
		var res *nvml.Result
		res, err = nvml.Walk(api)
		api.Close()
		if err == nil {
			wholeUUIDs(c.Env, res.Node.GPUs)
			if c.Files[fileNVML], err = json.MarshalIndent(rec, "", " "); err != nil {
				return nil, err
			}
		}
	}
	if err != nil {
		if smiErr != nil {
			return nil, err
		}
		note := err.Error()
		var no *nvml.Unavailable
		if errors.As(err, &no) && no.Hint != "" {
			note += " (" + no.Hint + ")"
		}
		c.Notes = append(c.Notes, note+"; nvidia-smi is read in its place")
	}
	tree, archive := sysfs.Record(l.Sysfs)
	sysfs.Read(tree)
	c.Files[fileSysfs] = archive.Text()
	return c, ctx.Err()
}

// wholeUUIDs completes shortened UUIDs in CUDA_VISIBLE_DEVICES, so that they stay the same GPUs when they are hashed.
func wholeUUIDs(env map[string]string, gpus []topology.GPU) {
	v, ok := env["CUDA_VISIBLE_DEVICES"]
	if !ok {
		return
	}
	entries := strings.Split(v, ",")
	for i, e := range entries {
		if at := findGPU(strings.TrimSpace(e), gpus); at >= 0 && strings.HasPrefix(strings.TrimSpace(e), "GPU-") {
			entries[i] = gpus[at].UUID
		}
	}
	env["CUDA_VISIBLE_DEVICES"] = strings.Join(entries, ",")
}

// LoadCapture makes the machine of one host's answers, as live discovery does.
func LoadCapture(c *capture.Capture, name string, o Options) (*Result, error) {
	a := &assembly{opts: o, res: &Result{Name: name}}
	if err := a.addCapture(name, c); err != nil {
		return nil, err
	}
	return a.res, a.finish()
}

func (a *assembly) readCapture(file string, data []byte) error {
	c, err := capture.Read(bytes.NewReader(data), file)
	if err != nil {
		return err
	}
	return a.addCapture(file, c)
}

// addCapture reads one host's answers through the readers of the live machine.
func (a *assembly) addCapture(file string, c *capture.Capture) error {
	l := &liveReader{a: a, file: file, c: c, host: c.Host}
	for _, n := range c.Notes {
		a.warn(l.say(n))
	}
	if err := l.readDriver(); err != nil {
		return err
	}
	if err := l.readSysfs(); err != nil {
		return err
	}
	l.readSMI()
	if l.node == nil {
		return fmt.Errorf("%s: holds neither the driver's answers nor a matrix of nvidia-smi", file)
	}
	l.unclear()
	if err := l.visible(); err != nil {
		return err
	}
	a.add(part{kind: "capture", file: file, host: c.Host, class: l.node, facts: l.facts})
	return nil
}

// liveReader reads one host's answers.
type liveReader struct {
	a    *assembly
	file string
	host string
	c    *capture.Capture

	node   *topology.NodeClass
	driver *nvml.Result
	sys    *sysfs.Result
	topo   *smi.Result
	links  *smi.LinkStatus
	facts  []topology.Fact
}

// say puts the host in front where its name says something.
func (l *liveReader) say(text string) string {
	if l.host == "" {
		return text
	}
	return l.host + ": " + text
}

func (l *liveReader) find(id, part, text string) {
	where := l.host
	if where == "" {
		where = "node0"
	}
	if part != "" {
		where += "/" + part
	}
	l.a.res.Findings = append(l.a.res.Findings, finding(id, where, text))
}

func (l *liveReader) readDriver() error {
	data, ok := l.c.Files[fileNVML]
	if !ok {
		return nil
	}
	var rec nvml.Recording
	if err := json.Unmarshal(data, &rec); err != nil {
		return fmt.Errorf("%s: %s: %w", l.file, fileNVML, err)
	}
	if err := rec.Check(); err != nil {
		return fmt.Errorf("%s: %s: %w", l.file, fileNVML, err)
	}
	res, err := nvml.Walk(nvml.Replay(rec))
	if err != nil {
		return fmt.Errorf("%s: %s: %w", l.file, fileNVML, err)
	}
	l.driver, l.node, l.facts = res, &res.Node, append(l.facts, res.Facts...)
	for _, w := range res.Warnings {
		l.a.warn(l.say(w))
	}
	for _, t := range res.Trouble {
		l.a.warn(l.say(t))
	}
	for _, t := range res.Unhealthy {
		l.find("fabric-unhealthy", "", t)
	}
	return nil
}

func (l *liveReader) readSysfs() error {
	data, ok := l.c.Files[fileSysfs]
	if !ok {
		return nil
	}
	tree, err := sysfs.ParseArchive(data, l.file+": "+fileSysfs)
	if err != nil {
		return err
	}
	l.sys = sysfs.Read(tree)
	if l.node != nil {
		for _, d := range l.sys.Apply(l.node) {
			l.find("sources-differ", "", d)
		}
	}
	l.facts = append(l.facts, l.sys.Facts...)
	for _, w := range l.sys.Warnings {
		l.a.warn(l.say("sysfs: " + w))
	}
	for _, u := range l.sys.Unreadable {
		l.find("nic-unreadable", "", u)
	}
	if l.sys.IOMMU != "" {
		l.find("iommu-translates", "", l.sys.IOMMU)
	}
	if len(l.sys.ACS) > 0 {
		l.find("acs-on", "", strings.Join(l.sys.ACS, ", "))
	}
	return nil
}

// readSMI reads nvidia-smi's matrix and link status: in place of the driver's answers where there are none, else to
// compare.
func (l *liveReader) readSMI() {
	data, ok := l.c.Files[fileTopo]
	if !ok {
		return
	}
	res, err := smi.Read(bytes.NewReader(data), "nvidia-smi topo -m")
	if err != nil || len(res.Nodes) != 1 {
		l.a.warn(l.say(fmt.Sprintf("the matrix of nvidia-smi cannot be read: %v", err)))
		return
	}
	l.topo = res
	if s, ok := l.c.Files[fileLinks]; ok {
		if st, err := smi.ReadNVLinkStatus(bytes.NewReader(s), "nvidia-smi nvlink -s"); err == nil {
			l.links = st
		}
	}
	if l.node != nil {
		l.compare()
		return
	}
	n := &res.Nodes[0]
	l.node = n
	l.facts = append(l.facts, factsOf(res.Facts, n.Name, 0)...)
	if l.links != nil {
		for _, w := range l.links.Merge(n) {
			l.a.warn(l.say(w.String()))
		}
		l.facts = append(l.facts, factsOf(l.links.Facts(""), "", 0)...)
	}
	if l.sys == nil {
		return
	}
	// The driver numbers GPUs by PCI address: with as many on the tree, their addresses follow.
	if devs := l.sys.GPUs(); len(devs) == len(n.GPUs) {
		for i := range n.GPUs {
			n.GPUs[i].PCI = devs[i].PCI
			l.facts = append(l.facts, topology.Fact{What: fmt.Sprintf("GPU%d PCI", n.GPUs[i].Index), Value: devs[i].PCI, Source: "sysfs:bus/pci/devices (in order of address)"})
		}
	}
	nics, paths := n.NICs, n.NICPaths
	for _, d := range l.sys.Apply(n) {
		l.find("sources-differ", "", d)
	}
	if len(n.NICs) == 0 && len(nics) > 0 {
		n.NICs, n.NICPaths = nics, paths
	}
}

// unclear takes the pairs from nvidia-smi where a hypervisor hides the remote ends of links from the library.
func (l *liveReader) unclear() {
	if l.driver == nil || !l.driver.NVLinkUnclear || l.topo == nil {
		return
	}
	n := &l.topo.Nodes[0]
	if len(n.GPUs) != len(l.node.GPUs) || len(n.NVLinks) == 0 {
		return
	}
	l.node.NVLinks, l.node.Wiring = n.NVLinks, topology.NVLinkNone
	l.facts = append(l.facts, topology.Fact{What: "NVLink pairs", Value: "from the matrix: the library hides remote ends", Source: "nvidia-smi topo -m"})
}
