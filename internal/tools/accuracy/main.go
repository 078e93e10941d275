// Accuracy confronts the predictions with measurements and writes docs/accuracy.md and its plots.
//
//	go run ./internal/tools/accuracy --data ../shared/measured
//
// Without the tables (a clean clone) only our own measurements on two H200, which lie in internal/accuracy/testdata, are
// compared; that part goes to standard output and the document stays as it is.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"rankmap/configs"
	"rankmap/internal/accuracy"
	"rankmap/internal/measured"
)

func main() {
	data := flag.String("data", "../shared/measured", "folder of the measured tables")
	own := flag.String("own", "internal/accuracy/testdata/h200-x2", "folder of our own measurements")
	out := flag.String("out", "docs", "folder to write accuracy.md and accuracy/*.svg to")
	flag.Parse()
	if err := run(*data, *own, *out); err != nil {
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

func run(data, own, out string) error {
	var doc bytes.Buffer
	if err := ownPart(&doc, own); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(data, "public")); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "accuracy: no tables at %s: our own measurements only; %s stays as it is\n", data, filepath.Join(out, "accuracy.md"))
		_, err := os.Stdout.Write(doc.Bytes())
		return err
	}
	var whole bytes.Buffer
	plots, err := publicPart(&whole, data)
	if err != nil {
		return err
	}
	whole.Write(doc.Bytes())
	if err := os.MkdirAll(filepath.Join(out, "accuracy"), 0o755); err != nil {
		return err
	}
	for _, name := range sortedKeys(plots) {
		if err := os.WriteFile(filepath.Join(out, "accuracy", name), plots[name], 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, "accuracy.md"), whole.Bytes(), 0o644)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// confronter prices with what the program ships.
func confronter(o accuracy.Options) (*accuracy.Confronter, error) { return accuracy.New(configs.FS, o) }

// read reads files; a pattern without a file is an error.
func read(patterns ...string) ([]measured.File, error) {
	var files []measured.File
	for _, p := range patterns {
		names, err := filepath.Glob(p)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("%s: no such file", p)
		}
		for _, name := range names {
			r, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			f, err := measured.Read(r, filepath.Base(name))
			r.Close()
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	return files, nil
}
