// Command fitkernels fits the kernel parameters that rankmap ships, configs/hardware/SYSTEM.kernels.yaml, from measured
// operation tables.
//
//	go run ./internal/tools/fitkernels --data ../shared/measured/public
//
// Without --data it keeps the fitted records and only writes what follows from them and from the datasheets: the plain
// framework and the estimates of GPUs that no table measured.
//
// One shape in five takes no part in any fit (compute.HeldOut); the errors that it prints and writes are on those.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"rankmap/compute"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
)

// tables are the files that hold operation times.
var tables = []string{"gemm.csv", "context_attention.csv", "generation_attention.csv", "moe.csv", "context_mla.csv", "generation_mla.csv"}

func main() {
	data := flag.String("data", "", "folder with "+fmt.Sprint(tables))
	configs := flag.String("configs", "configs", "folder whose hardware/ is read and written")
	own := flag.String("triton", "", "table of expert layers in Triton, such as docs/measurements/h200/2026-11-30-triton/moe.csv; empty keeps the records")
	only := flag.String("only", "", "fit this system alone")
	flag.Parse()
	if err := run(*data, *own, *configs, *only); err != nil {
		fmt.Fprintln(os.Stderr, "fitkernels:", err)
		os.Exit(1)
	}
}

func run(data, own, configs, only string) error {
	rows := map[string][]measured.OpRow{}
	for _, t := range tables {
		if data == "" {
			break
		}
		f, err := os.Open(filepath.Join(data, t))
		if err != nil {
			return err
		}
		rs, err := measured.Ops(f, t, "")
		f.Close()
		if err != nil {
			return err
		}
		for _, r := range rs {
			rows[r.System] = append(rows[r.System], r)
		}
	}
	catalog, err := hardware.Load(os.DirFS(configs))
	if err != nil {
		return err
	}
	var fitted []compute.Fitting
	for _, s := range catalog.Systems() {
		g, err := catalog.GPU(s)
		if err != nil {
			return err
		}
		if data == "" || only != "" && s != only {
			k, err := hardware.LoadKernels(os.DirFS(configs), s)
			if err == nil && k.Estimate == "" {
				compute.SetPlain(g, k)
				fitted = append(fitted, compute.Fitting{GPU: g, Kernels: k})
			}
			continue
		}
		if len(rows[s]) == 0 {
			continue
		}
		k, err := settled(compute.FitSystem(g, rows[s], compute.HeldOut, os.Stderr))
		if err != nil {
			return err
		}
		fitted = append(fitted, compute.Fitting{GPU: g, Kernels: k})
	}
	if err := triton(own, configs, fitted); err != nil {
		return err
	}
	compute.Borrow(fitted)
	for i := range fitted {
		if fitted[i].Kernels, err = settled(fitted[i].Kernels); err != nil {
			return err
		}
	}
	for _, s := range catalog.Systems() {
		g, err := catalog.GPU(s)
		if err != nil {
			return err
		}
		var k *hardware.Kernels
		for _, f := range fitted {
			if f.GPU == g {
				k = f.Kernels
			}
		}
		if k == nil {
			if k, err = compute.Estimated(g, fitted); err != nil {
				return err
			}
		}
		compute.BorrowTriton(g, k, fitted)
		if err := write(filepath.Join(configs, "hardware", s+".kernels.yaml"), k); err != nil {
			return err
		}
	}
	return nil
}

// triton gives the fitted GPUs the records of expert layers in Triton: fitted to a table, or as they stand in their files.
func triton(table, configs string, fitted []compute.Fitting) error {
	var rows []measured.OpRow
	if table != "" {
		f, err := os.Open(table)
		if err != nil {
			return err
		}
		defer f.Close()
		if rows, err = measured.Ops(f, filepath.Base(table), ""); err != nil {
			return err
		}
	}
	for _, f := range fitted {
		var of []measured.OpRow
		for _, r := range rows {
			if r.System == f.GPU.System {
				of = append(of, r)
			}
		}
		f.Kernels.Triton = compute.FitTriton(f.GPU, of, compute.HeldOut, os.Stderr)
		if k, err := hardware.LoadKernels(os.DirFS(configs), f.GPU.System); err == nil && len(f.Kernels.Triton) == 0 {
			f.Kernels.Triton = k.Triton
		}
	}
	return nil
}

// write puts records into a file.
func write(name string, k *hardware.Kernels) error {
	b, err := encode(k)
	if err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o644)
}

// settled is k as a reader of its file will see it, so that what is derived from a fresh fit and from the file is the same
// to the last digit.
func settled(k *hardware.Kernels) (*hardware.Kernels, error) {
	b, err := encode(k)
	if err != nil {
		return nil, err
	}
	out := new(hardware.Kernels)
	return out, yaml.Unmarshal(b, out)
}

// encode prints records with four significant digits.
func encode(k *hardware.Kernels) ([]byte, error) {
	var n yaml.Node
	if err := n.Encode(k); err != nil {
		return nil, err
	}
	trim(&n)
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Kernel parameters of %s. Written by internal/tools/fitkernels; see compute/ for the forms.\n", k.System)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(&n)
	return b.Bytes(), err
}

// trim shortens floats and puts each record on a line of its own.
func trim(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!float" {
		var v float64
		if n.Decode(&v) == nil && !math.IsInf(v, 0) {
			n.Value = fmt.Sprintf("%.4g", v)
			n.Tag = ""
		}
	}
	for _, c := range n.Content {
		trim(c)
	}
	if depth(n) <= 2 && n.Kind == yaml.MappingNode {
		n.Style = yaml.FlowStyle
	}
}

// depth is the levels of mappings below and at n; a record with its error record has two.
func depth(n *yaml.Node) int {
	d := 0
	for _, c := range n.Content {
		d = max(d, depth(c))
	}
	if n.Kind == yaml.MappingNode {
		d++
	}
	return d
}
