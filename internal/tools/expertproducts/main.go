// Command expertproducts confronts grouped bf16 products of experts, timed on one H200, with what a training plan pays for
// them: one product for each expert.
//
//	go run ./internal/tools/expertproducts [docs/measurements/h200/2026-11-30-experts/products.csv]
package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"rankmap/compute"
	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/model"
)

func main() {
	name := "docs/measurements/h200/2026-11-30-experts/products.csv"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if err := run(name); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// layer is an expert layer as measured: the tokens' copies and the experts that they go to.
type layer struct {
	model       string
	local, rows int
}

type times struct{ measured, ours float64 }

func run(name string) error {
	m, err := trainingModel()
	if err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return err
	}
	sum := map[layer]*times{}
	for i, r := range rows {
		if i == 0 || len(r) < 10 || r[5] != "router" || r[3] == "0" {
			continue
		}
		if err := confront(m, r, sum); err != nil {
			return fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
	}
	report(sum)
	return nil
}

// trainingModel prices plain kernels at boost clock: the launches measured are short bursts.
func trainingModel() (*compute.Model, error) {
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		return nil, err
	}
	gpu, err := cat.GPU("h200")
	if err != nil {
		return nil, err
	}
	k, err := hardware.LoadKernels(configs.FS, gpu.System)
	if err != nil {
		return nil, err
	}
	return compute.New(gpu, k, compute.Options{Phase: model.Train, Framework: "plain", Sustained: 1})
}

// confront adds a row's product to its layer; other operations are passed over.
func confront(m *compute.Model, r []string, sum map[layer]*times) error {
	var n [5]int // hidden, inter, local, rows, flops
	var errs []error
	for i, field := range []int{1, 2, 3, 4, 8} {
		v, err := strconv.Atoi(r[field])
		n[i], errs = v, append(errs, err)
	}
	us, err := strconv.ParseFloat(r[7], 64)
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	hidden, inter, local, rows := n[0], n[1], n[2], n[3]
	if slices.Min(n[:4]) < 1 {
		return fmt.Errorf("hidden %d, inter %d, local %d, rows %d: want 1 or more each", hidden, inter, local, rows)
	}
	each := rows / local
	wide := n[4] / (2 * rows * hidden) // the up-projection with its gate, where it has one
	op := model.ComputeOp{Kind: model.GEMM, DType: "bf16", Times: 1}
	switch r[6] {
	case "fwd1":
		op.M, op.N, op.K = each, wide, hidden
	case "fwd2":
		op.M, op.N, op.K = each, hidden, inter
	case "dgrad1":
		op.M, op.N, op.K = each, hidden, wide
	case "dgrad2":
		op.M, op.N, op.K = each, inter, hidden
	case "wgrad1":
		op.M, op.N, op.K = wide, hidden, each
	case "wgrad2":
		op.M, op.N, op.K = hidden, inter, each
	default:
		return nil
	}
	e, err := m.Price(op)
	if err != nil {
		return err
	}
	l := layer{r[0], local, rows}
	if sum[l] == nil {
		sum[l] = new(times)
	}
	sum[l].measured += us
	sum[l].ours += e.Time.Seconds() * 1e6 * float64(local)
	return nil
}

func report(sum map[layer]*times) {
	keys := make([]layer, 0, len(sum))
	for l := range sum {
		keys = append(keys, l)
	}
	slices.SortFunc(keys, func(a, b layer) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.rows, b.rows), cmp.Compare(a.local, b.local))
	})
	fmt.Printf("%-16s %8s %8s %12s %12s %6s\n", "model", "rows", "experts", "measured us", "ours us", "ratio")
	var ratios []float64
	for _, l := range keys {
		t := sum[l]
		ratios = append(ratios, t.ours/t.measured)
		fmt.Printf("%-16s %8d %8d %12.0f %12.0f %6.2f\n", l.model, l.rows, l.local, t.measured, t.ours, t.ours/t.measured)
	}
	if len(ratios) == 0 {
		return
	}
	slices.Sort(ratios)
	fmt.Printf("%d layers; ours over measured: least %.2f, median %.2f, most %.2f\n", len(ratios), ratios[0], ratios[len(ratios)/2], ratios[len(ratios)-1])
}
