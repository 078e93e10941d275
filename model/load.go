package model

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Names lists the models of a file tree that holds models/NAME/config.json, in order.
func Names(fsys fs.FS) []string {
	entries, err := fs.ReadDir(fsys, "models")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// Load reads models/NAME/config.json of a file tree. An unknown name is an error that lists the known ones.
func Load(fsys fs.FS, name string) (*Spec, error) {
	if !fs.ValidPath(name) || strings.Contains(name, "/") {
		return nil, fmt.Errorf("model %q: want a name (known: %s)", name, strings.Join(Names(fsys), ", "))
	}
	s, err := LoadDir(fsys, path.Join("models", name), Options{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("model %q is unknown (known: %s)", name, strings.Join(Names(fsys), ", "))
	}
	if err != nil {
		return nil, err
	}
	s.Name = name
	return s, nil
}

// LoadDir reads config.json, and hf_quant_config.json if it is there, of a folder.
func LoadDir(fsys fs.FS, dir string, opts Options) (*Spec, error) {
	return loadPair(fsys, path.Join(dir, "config.json"), path.Join(dir, "hf_quant_config.json"), opts)
}

// LoadFile reads one file and, if they are there, the side files that belong to it: hf_quant_config.json beside
// config.json, NAME.hf_quant_config.json beside NAME.json.
func LoadFile(fsys fs.FS, file string, opts Options) (*Spec, error) {
	side := path.Join(path.Dir(file), "hf_quant_config.json")
	if base := path.Base(file); base != "config.json" {
		side = strings.TrimSuffix(file, path.Ext(file)) + ".hf_quant_config.json"
		if s, ok := strings.CutSuffix(file, "_config.json"); ok {
			side = s + "_hf_quant_config.json"
		}
	}
	return loadPair(fsys, file, side, opts)
}

func loadPair(fsys fs.FS, file, side string, opts Options) (*Spec, error) {
	f, err := fsys.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if opts.Quant == nil {
		if q, err := fsys.Open(side); err == nil {
			defer func() { _ = q.Close() }()
			opts.Quant = io.Reader(q)
		}
	}
	return Parse(f, file, opts)
}
