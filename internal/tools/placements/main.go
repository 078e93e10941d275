// Placements confronts the planner with published placements and writes docs/placements.md.
//
//	go run ./internal/tools/placements --data ../shared/placements
package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"runtime/pprof"

	"rankmap/configs"
	"rankmap/internal/accuracy"
	"rankmap/internal/measured"
)

func main() {
	if f := os.Getenv("CPUPROF"); f != "" {
		w, _ := os.Create(f)
		pprof.StartCPUProfile(w)
		go func() { time.Sleep(100 * time.Second); pprof.StopCPUProfile(); w.Close(); os.Exit(3) }()
	}
	data := flag.String("data", "../shared/placements", "folder of the placements")
	out := flag.String("out", "docs/placements.md", "document to write, - for standard output")
	flag.Parse()
	if err := run(*data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "placements:", err)
		os.Exit(1)
	}
}

func run(data, out string) error {
	f, err := os.Open(filepath.Join(data, "dev.csv"))
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := measured.ReadPlacements(f, "dev.csv")
	if err != nil {
		return err
	}
	m, err := os.Open(filepath.Join(data, "models.tsv"))
	if err != nil {
		return err
	}
	defer m.Close()
	names, err := measured.ReadModelMap(m, "models.tsv")
	if err != nil {
		return err
	}
	pl, err := accuracy.NewPlacer(configs.FS, accuracy.Models{Map: names, Folders: []fs.FS{os.DirFS(filepath.Join(data, "../models/dev"))}})
	if err != nil {
		return err
	}
	last := time.Now()
	res, err := pl.Rows(context.Background(), rows, func(i, n int) {
		if d := time.Since(last); d > 800*time.Millisecond && i > 0 {
			fmt.Fprintf(os.Stderr, "%v %s %s %d\n", d, rows[i-1].ID, rows[i-1].Model, rows[i-1].GPUs)
		}
		last = time.Now()
	})
	if err != nil {
		return err
	}
	return res.WriteTable(os.Stdout, true)
}
