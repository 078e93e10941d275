package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"rankmap/internal/strictyaml"
	"rankmap/model"
)

// openModel reads a model by name, file or folder.
func openModel(d *deps, arg string) (*model.Spec, sourceInfo, error) {
	if slices.Contains(model.Names(d.Configs), arg) {
		s, err := model.Load(d.Configs, arg)
		if err != nil {
			return nil, sourceInfo{}, err
		}
		data, err := fs.ReadFile(d.Configs, path.Join("models", arg, "config.json"))
		return s, sourceInfo{name: arg, digest: digest(data), notes: s.Warnings}, err
	}
	file := arg
	if st, err := os.Stat(arg); err == nil && st.IsDir() {
		file = filepath.Join(arg, "config.json")
	} else if errors.Is(err, fs.ErrNotExist) && !looksLikeFile(arg) {
		return nil, sourceInfo{}, inputErrf("model %q is neither a known name nor a file%s", arg, strictyaml.DidYouMean(arg, model.Names(d.Configs)))
	}
	data, err := readAll(d, file, maxInput)
	if err != nil {
		return nil, sourceInfo{}, inputErr(err)
	}
	opts := model.Options{}
	files := []string{file}
	if side := quantFile(file); side != "" {
		q, err := readAll(d, side, maxInput)
		if err != nil {
			return nil, sourceInfo{}, inputErr(err)
		}
		opts.Quant = bytes.NewReader(q)
		files = append(files, side)
	}
	s, err := model.Parse(bytes.NewReader(data), validName(file), opts)
	if err != nil {
		return nil, sourceInfo{}, inputErr(err)
	}
	return s, sourceInfo{name: s.Name, digest: digest(data), files: files, notes: s.Warnings}, nil
}

// looksLikeFile says whether a name that is no file was meant as one: a path, or a config by its suffix. Names of models
// hold dots as well.
func looksLikeFile(name string) bool {
	return name == "-" || strings.ContainsAny(name, "/\\") || strings.HasSuffix(name, ".json")
}

// quantFile finds the quantisation file that belongs to a config: hf_quant_config.json beside config.json, or
// NAME.hf_quant_config.json beside NAME.json; empty when there is none.
func quantFile(file string) string {
	side := filepath.Join(filepath.Dir(file), "hf_quant_config.json")
	if filepath.Base(file) != "config.json" {
		side = strings.TrimSuffix(file, filepath.Ext(file)) + ".hf_quant_config.json"
	}
	if st, err := os.Stat(side); err != nil || st.IsDir() {
		return ""
	}
	return side
}
