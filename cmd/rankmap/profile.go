package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"gopkg.in/yaml.v3"

	"rankmap/internal/hardware"
)

// userProfile is one file that rankmap calibrate wrote: times of collectives, or of computations.
type userProfile struct {
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

// loadProfiles reads datasheets, the built-in profiles of collectives, and the user's own profiles: those of collectives
// replace the built-in ones, those of computations are returned.
func loadProfiles(d *deps, own []string) (*hardware.Catalog, *hardware.Profiles, []*hardware.Kernels, error) {
	cat, err := hardware.Load(d.Configs)
	if err != nil {
		return nil, nil, nil, err
	}
	profiles, err := hardware.LoadProfiles(d.Configs)
	if err != nil {
		return nil, nil, nil, err
	}
	var kernels []*hardware.Kernels
	var errs []error
	for _, name := range own {
		p, err := readProfile(d, name)
		switch {
		case err != nil:
			errs = append(errs, err)
		case p.collectives != nil:
			profiles = profiles.With(p.collectives)
		default:
			kernels = append(kernels, p.kernels)
		}
	}
	return cat, profiles, kernels, inputErr(errors.Join(errs...))
}
