package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rankmap/compute"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
)

// kernelCalibration is the summary of a calibration with measured computations; errors are percent.
type kernelCalibration struct {
	System    string         `json:"system" yaml:"system"`
	Rows      int            `json:"rows" yaml:"rows"`
	Records   []kernelRecord `json:"records" yaml:"records"`
	Sustained float64        `json:"sustainedClock,omitempty" yaml:"sustainedClock,omitempty"` // under lasting load over boost; 0 = not asked or not shown
}

// kernelRecord is one kind and type of computation that was refitted.
type kernelRecord struct {
	Framework string  `json:"framework" yaml:"framework"`
	Kind      string  `json:"kind" yaml:"kind"`
	Type      string  `json:"type" yaml:"type"`
	Rows      int     `json:"rows" yaml:"rows"`
	Before    float64 `json:"medianAPEBefore" yaml:"medianAPEBefore"`
	After     float64 `json:"medianAPEAfter" yaml:"medianAPEAfter"`
}

// calibrateKernels refits the computations of one GPU to the user's rows and returns the profile as YAML.
func calibrateKernels(configs fs.FS, cat *hardware.Catalog, own []*hardware.Kernels, ops []measured.OpRow, lasting bool) ([]byte, *kernelCalibration, error) {
	systems := map[string]int{}
	byFramework := map[string][]measured.OpRow{}
	for _, r := range ops {
		systems[r.System]++
		byFramework[r.Framework] = append(byFramework[r.Framework], r)
	}
	if len(systems) > 1 {
		return nil, nil, fmt.Errorf("computations of several systems (%s): calibrate one at a time with --system", strings.Join(sortedNames(systems), ", "))
	}
	gpu, err := cat.GPU(ops[0].System)
	if err != nil {
		return nil, nil, err
	}
	k, err := hardware.LoadKernels(configs, gpu.System)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range own {
		if o.System == gpu.System {
			k = o
		}
	}
	sum := &kernelCalibration{System: gpu.System, Rows: len(ops)}
	for _, fw := range sortedNames(byFramework) {
		fit, err := compute.FitUser(gpu, k, fw, byFramework[fw], lasting)
		if err != nil {
			return nil, nil, err
		}
		k = fit.Kernels
		sum.Sustained = cmp.Or(fit.Sustained, sum.Sustained)
		for _, r := range fit.Records {
			sum.Records = append(sum.Records, kernelRecord{fw, r.Kind, r.Key, r.After.Rows, r.Before.Median, r.After.Median})
		}
	}
	var b bytes.Buffer
	b.WriteString("# Computations, calibrated by rankmap calibrate.\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(k), e.Close()); err != nil {
		return nil, nil, err
	}
	return b.Bytes(), sum, nil
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// text is the summary for people.
func (c *kernelCalibration) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d measured computations\n", c.System, c.Rows)
	for _, r := range c.Records {
		fmt.Fprintf(&b, "%s %s %s: %d rows, median error %g %% before, %g %% after\n", r.Framework, r.Kind, r.Type, r.Rows, tenth(r.Before), tenth(r.After))
	}
	if c.Sustained > 0 {
		fmt.Fprintf(&b, "sustained clock: %.2f of boost under this load\n", c.Sustained)
	}
	return b.String()
}
