package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rankmap/internal/hardware"
)

// userProfile is one file that rankmap calibrate wrote: times of collectives, or of computations.
type userProfile struct {
	name        string
	collectives *hardware.CollectiveProfile
	kernels     *hardware.Kernels
}

// readProfile reads a profile of either kind, strictly; the keys tell which.
func readProfile(d *deps, name string) (userProfile, error) {
	data, err := readAll(d, name, maxInput)
	if err != nil {
		return userProfile{}, err
	}
	var kind struct {
		Frameworks map[string]any `yaml:"frameworks"`
	}
	if err := yaml.Unmarshal(data, &kind); err != nil {
		return userProfile{}, fmt.Errorf("%s: %w", name, err)
	}
	if kind.Frameworks == nil {
		p, err := hardware.ReadCollective(bytes.NewReader(data), name)
		return userProfile{collectives: p}, err
	}
	k := new(hardware.Kernels)
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(k); err != nil {
		return userProfile{}, fmt.Errorf("%s: %w", name, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return userProfile{}, fmt.Errorf("%s: want one document, got more", name)
	}
	if k.System == "" {
		return userProfile{}, fmt.Errorf("%s: system is missing", name)
	}
	return userProfile{kernels: k}, nil
}

// userProfiles are the profiles of --profile.
type userProfiles []userProfile

// kernels lists those of computations.
func (u userProfiles) kernels() []*hardware.Kernels {
	var out []*hardware.Kernels
	for _, p := range u {
		if p.kernels != nil {
			out = append(out, p.kernels)
		}
	}
	return out
}

// serves reports profiles that nothing would be priced by: of other GPUs than those of the machines.
func (u userProfiles) serves(ps *hardware.Profiles, systems []string) error {
	var errs []error
	for _, p := range u {
		var of string
		used := false
		if p.kernels != nil {
			of = p.kernels.System
			used = slices.Contains(systems, of)
		} else {
			of = p.collectives.System
			used = slices.ContainsFunc(systems, func(s string) bool { return s == of || leansOn(ps, s, of) })
		}
		if !used {
			errs = append(errs, fmt.Errorf("--profile %s is of %s, the GPUs are %s: leave it out", p.name, of, strings.Join(systems, ", ")))
		}
	}
	return inputErr(errors.Join(errs...))
}

// leansOn says whether the collectives of a system are priced by another one's profile, or with its help.
func leansOn(ps *hardware.Profiles, system, other string) bool {
	p := ps.Collective(system)
	return p != nil && (p.Like == other || slices.Contains(p.Siblings, other))
}

// loadProfiles reads datasheets, the built-in profiles of collectives, and the user's own profiles: those of collectives
// replace the built-in ones.
func loadProfiles(d *deps, own []string) (*hardware.Catalog, *hardware.Profiles, userProfiles, error) {
	cat, err := hardware.Load(d.Configs)
	if err != nil {
		return nil, nil, nil, err
	}
	profiles, err := hardware.LoadProfiles(d.Configs)
	if err != nil {
		return nil, nil, nil, err
	}
	var users userProfiles
	var errs []error
	for _, name := range own {
		p, err := readProfile(d, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if p.name = name; p.collectives != nil {
			profiles = profiles.With(p.collectives)
		}
		users = append(users, p)
	}
	return cat, profiles, users, inputErr(errors.Join(errs...))
}
