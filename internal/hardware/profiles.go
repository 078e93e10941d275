package hardware

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"
)

// MaxProfileBytes is the largest profile that is read.
const MaxProfileBytes = 4 << 20

// Profiles holds every fitted collective profile, fabric and host.
type Profiles struct {
	collective map[string]*CollectiveProfile
	fabrics    map[string]*FabricProfile
	hosts      map[string]*HostProfile
}

// LoadProfiles reads hardware/*.collective.yaml, fabric-*.yaml and host-*.yaml of fsys, strictly.
func LoadProfiles(fsys fs.FS) (*Profiles, error) {
	ps := &Profiles{collective: map[string]*CollectiveProfile{}, fabrics: map[string]*FabricProfile{}, hosts: map[string]*HostProfile{}}
	files, err := fs.Glob(fsys, "hardware/*.yaml")
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, f := range files {
		base := strings.TrimSuffix(strings.TrimPrefix(f, "hardware/"), ".yaml")
		switch {
		case strings.HasSuffix(base, ".collective"):
			p, err := openProfile(fsys, f, ReadCollective)
			if err == nil && p.System != strings.TrimSuffix(base, ".collective") {
				err = fmt.Errorf("%s: system is %q, want it like the file name", f, p.System)
			}
			if errs = append(errs, err); err == nil {
				ps.collective[p.System] = p
			}
		case strings.HasPrefix(base, "fabric-"):
			p, err := openProfile(fsys, f, readFabric)
			if errs = append(errs, err); err == nil {
				ps.fabrics[p.Name] = p
			}
		case strings.HasPrefix(base, "host-"):
			p, err := openProfile(fsys, f, readHost)
			if errs = append(errs, err); err == nil {
				ps.hosts[p.Name] = p
			}
		}
	}
	for _, s := range ps.Systems() {
		if l := ps.collective[s].Like; l != "" && (ps.collective[l] == nil || ps.collective[l].Like != "") {
			errs = append(errs, fmt.Errorf("hardware/%s.collective.yaml: like %q: no fitted profile of that name", s, l))
		}
	}
	return ps, errors.Join(errs...)
}

func openProfile[T any](fsys fs.FS, name string, read func(io.Reader, string) (*T, error)) (*T, error) {
	r, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return read(r, name)
}

// Systems lists the systems that have a profile, sorted.
func (ps *Profiles) Systems() []string { return sortedKeys(ps.collective) }

// Fabrics lists the fabric profiles, sorted.
func (ps *Profiles) Fabrics() []string { return sortedKeys(ps.fabrics) }

// Hosts lists the host profiles, sorted.
func (ps *Profiles) Hosts() []string { return sortedKeys(ps.hosts) }

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// Collective returns the profile of a system as its file states it; nil if there is none.
func (ps *Profiles) Collective(system string) *CollectiveProfile { return ps.collective[system] }

// Fabric returns the profile whose kinds hold the name (case does not matter), else the one of that name; nil if none.
func (ps *Profiles) Fabric(kind string) *FabricProfile {
	for _, k := range ps.Fabrics() {
		f := ps.fabrics[k]
		if strings.EqualFold(f.Name, kind) || slices.ContainsFunc(f.Kinds, func(s string) bool { return strings.EqualFold(s, kind) }) {
			return f
		}
	}
	return nil
}

// Host returns the profile of the host in which a system usually sits; nil if none is known.
func (ps *Profiles) Host(system string) *HostProfile {
	for _, k := range ps.Hosts() {
		if slices.Contains(ps.hosts[k].Systems, system) {
			return ps.hosts[k]
		}
	}
	return nil
}

// With returns a copy in which p replaces the profile of its system, and its networks those of their names.
func (ps *Profiles) With(p *CollectiveProfile) *Profiles {
	c := &Profiles{collective: make(map[string]*CollectiveProfile, len(ps.collective)+1), fabrics: ps.fabrics, hosts: ps.hosts}
	for k, v := range ps.collective {
		c.collective[k] = v
	}
	c.collective[p.System] = p
	for i := range p.Fabrics {
		c = c.WithFabric(&p.Fabrics[i])
	}
	return c
}

// WithFabric returns a copy in which f replaces the fabric of its name.
func (ps *Profiles) WithFabric(f *FabricProfile) *Profiles {
	c := &Profiles{collective: ps.collective, fabrics: make(map[string]*FabricProfile, len(ps.fabrics)+1), hosts: ps.hosts}
	for k, v := range ps.fabrics {
		c.fabrics[k] = v
	}
	c.fabrics[f.Name] = f
	return c
}

// ReadCollective reads one collective profile, strictly. name is for errors.
func ReadCollective(r io.Reader, name string) (*CollectiveProfile, error) {
	p := new(CollectiveProfile)
	if err := readStrict(r, name, p); err != nil {
		return nil, err
	}
	for i := range p.Fabrics {
		p.Fabrics[i].Params.complete()
	}
	return p, p.check(name)
}

func readFabric(r io.Reader, name string) (*FabricProfile, error) {
	p := new(FabricProfile)
	if err := readStrict(r, name, p); err != nil {
		return nil, err
	}
	p.Params.complete()
	return p, p.check(name)
}

func readHost(r io.Reader, name string) (*HostProfile, error) {
	p := new(HostProfile)
	if err := readStrict(r, name, p); err != nil {
		return nil, err
	}
	if p.Name == "" || p.Source == "" || !finite(p.FloorUs) || p.FloorUs < 0 || p.FloorUs > 1e6 {
		return nil, fmt.Errorf("%s: want name, source and a floorUs from 0 to 1e6", name)
	}
	return p, nil
}

// readStrict decodes exactly one YAML document without unknown or duplicate keys.
func readStrict(r io.Reader, name string, into any) error {
	b, err := io.ReadAll(io.LimitReader(r, MaxProfileBytes+1))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > MaxProfileBytes {
		return fmt.Errorf("%s: larger than 4 MiB, which no profile is", name)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("empty, want a profile in YAML")
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	var rest yaml.Node
	if err := d.Decode(&rest); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: want one document, got more", name)
	}
	return nil
}

// WriteCollective writes p as YAML under a comment; the same profile gives the same bytes.
func WriteCollective(w io.Writer, p *CollectiveProfile, comment string) error {
	return WriteProfile(w, p, comment)
}

// WriteProfile writes any profile as YAML under a comment.
func WriteProfile(w io.Writer, p any, comment string) error {
	var b bytes.Buffer
	for _, l := range strings.Split(comment, "\n") {
		if l != "" {
			b.WriteString("# " + l + "\n")
		}
	}
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(p); err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
