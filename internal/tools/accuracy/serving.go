package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"rankmap/configs"
	"rankmap/internal/accuracy"
	"rankmap/internal/measured"
)

// derivedOn is the system whose points the engines' host times were chosen on (internal/engine ServingOf).
const derivedOn = "h200_sxm"

const servingText = `## Serving points

Measured operating points of inference engines against the steady state of continuous batching at their own layouts, from
kernel and collective prices alone (docs/serving.md). TTFT is the mean time to the first token, TPOT the mean time between
tokens, and tokens/s/GPU the throughput that follows from both. The host times of the engines and the least width of the
intervals were chosen on the points of H200; how requests of equal length keep in step was seen on H100. Goals: TPOT 10, TTFT 20
(median).

`

// servingPart writes the section on serving points; folders without them leave it out.
func servingPart(w io.Writer, data string) error {
	folder := filepath.Join(filepath.Dir(filepath.Clean(data)), "placements")
	tables, err := filepath.Glob(filepath.Join(folder, "serving_measured*.csv"))
	if err != nil || len(tables) == 0 {
		return err
	}
	files, err := read(tables...)
	if err != nil {
		return err
	}
	names, err := modelNames(filepath.Join(folder, "models.tsv"))
	if err != nil {
		return err
	}
	p, err := accuracy.NewPlacer(configs.FS, accuracy.Models{Map: names, Folders: []fs.FS{os.DirFS(filepath.Join(folder, "../models/dev"))}})
	if err != nil {
		return err
	}
	io.WriteString(w, servingText)
	var res accuracy.Result
	for i := range files {
		r := p.Runs(&files[i], "")
		res.Cases, res.Skipped = append(res.Cases, r.Cases...), append(res.Skipped, r.Skipped...)
	}
	servingTable(w, "system", res.Cases, func(c *accuracy.Case) string {
		if c.System == derivedOn {
			return c.System + " (host times chosen here)"
		}
		return c.System
	})
	servingTable(w, "engine", res.Cases, func(c *accuracy.Case) string { return c.Source })
	servingTable(w, "deployment", res.Cases, func(c *accuracy.Case) string {
		if c.Apart {
			return "prefill and decode apart"
		}
		return "one instance"
	})
	skipped(w, res)
	return nil
}

func modelNames(name string) (map[string]measured.ModelMap, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return measured.ReadModelMap(f, filepath.Base(name))
}

// servingTable writes one line for each value of a key, each time in columns of its own.
func servingTable(w io.Writer, what string, cases []accuracy.Case, key func(*accuracy.Case) string) {
	kinds := []string{accuracy.ServingTTFT, accuracy.ServingTPOT, accuracy.ServingTokens}
	groups := map[string]map[string][]accuracy.Case{}
	for i := range cases {
		c := &cases[i]
		k := key(c)
		if groups[k] == nil {
			groups[k] = map[string][]accuracy.Case{}
		}
		groups[k][c.Collective] = append(groups[k][c.Collective], *c)
	}
	var rows [][]string
	for _, k := range sortedKeys(groups) {
		row := []string{k, fmt.Sprint(len(groups[k][accuracy.ServingTPOT]))}
		for _, kind := range kinds {
			s := accuracy.Score(groups[k][kind], accuracy.Ours)
			row = append(row, "**"+pair(s)+"**", number(s.Bias), number(s.Coverage))
		}
		rows = append(rows, row)
	}
	table(w, []string{what, "points", "TTFT", "bias", "in 80 %", "TPOT", "bias", "in 80 %", "tokens/s/GPU", "bias of the time", "in 80 %"}, rows)
}
