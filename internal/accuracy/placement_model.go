package accuracy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"strconv"
	"strings"

	"rankmap/internal/measured"
	"rankmap/model"
)

// Models finds the networks that placements name.
type Models struct {
	Map     map[string]measured.ModelMap // by the name in the table
	Folders []fs.FS                      // where the configurations of Map lie, tried in order
	Configs fs.FS                        // models/NAME/config.json of the program, for truncated models
}

// knownShapes are networks that tables name without a configuration, with where their shape was published.
var knownShapes = map[string]string{
	// Brown et al. 2020, table 2.1; vocabulary padded as Megatron-LM pads it for 8 ways.
	"GPT 175B":   "hidden=12288 layers=96 heads=96 vocab=51200",
	"GPT-3 175B": "hidden=12288 layers=96 heads=96 vocab=51200",
	// Narayanan et al. 2021 (arXiv 2104.04473), tables 1 and 2.
	"GPT 174.6B": "hidden=12288 layers=96 heads=96 vocab=51200",
	"GPT 529.6B": "hidden=20480 layers=105 heads=128 vocab=51200",
	// Smith et al. 2022 (arXiv 2201.11990), section 3.
	"GPT 530B":    "hidden=20480 layers=105 heads=128 vocab=51200",
	"MT-NLG 530B": "hidden=20480 layers=105 heads=128 vocab=51200",
	// Megatron-LM README, strong scaling: the 175B network with a vocabulary of 131,072.
	"GPT-3 177B": "hidden=12288 layers=96 heads=96 vocab=131072",
	// Zhang et al. 2022 (arXiv 2205.01068), table 1.
	"OPT-175B": "hidden=12288 layers=96 heads=96 vocab=50272",
	// Nemotron-4 340B technical report (arXiv 2406.11704), table 1.
	"Nemotron-4-340B": `{"model_type":"nemotron","hidden_size":18432,"intermediate_size":73728,"num_hidden_layers":96,"num_attention_heads":96,"num_key_value_heads":8,"head_dim":192,"vocab_size":256000}`,
}

var (
	truncated = regexp.MustCompile(`^llama3_(\d+b) truncated to (\d+) layers$`)
	deepseek  = regexp.MustCompile(`^deepseekv3 truncated to (\d+) layers$`)
)

// find returns the network of a row. The error is a reason to skip it.
func (m *Models) find(p *measured.Placement) (*model.Spec, error) {
	known, listed := m.Map[p.Model]
	switch {
	case known.Config != "":
		for _, f := range m.Folders {
			s, err := model.LoadFile(f, known.Config, model.Options{})
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("configuration %s cannot be read", known.Config)
			}
			return s, nil
		}
		return nil, fmt.Errorf("configuration %s is not at hand", known.Config)
	case known.Shape != "":
		return shapeSpec(p.Model, known.Shape)
	}
	if s, ok := knownShapes[p.Model]; ok {
		return shapeSpec(p.Model, s)
	}
	if b := bloomName.FindStringSubmatch(p.Model); b != nil {
		if n, ok := bloomShape(b[1], p); ok {
			return shapeSpec(p.Model, fmt.Sprintf("hidden=%d layers=%d heads=%d vocab=%d", n.hidden, n.layers, n.heads, bloomVocab))
		}
	}
	if t := truncated.FindStringSubmatch(p.Model); t != nil {
		return m.cut("llama-3.1-"+t[1], t[2], nil)
	}
	if t := deepseek.FindStringSubmatch(p.Model); t != nil {
		// One dense layer: the memory that they allocated, 104.3 and 114.0 GiB, is 103.9 and 114.5 by our count; with the
		// network's three it would be below 70.
		return m.cut("deepseek-v3", t[1], map[string]any{"first_k_dense_replace": 1})
	}
	if !listed {
		return nil, fmt.Errorf("model %q is not in the model map", p.Model)
	}
	return nil, fmt.Errorf("model %q has neither a configuration nor a known shape", p.Model)
}

// cut is a model of the program with fewer layers, and other keys of its configuration.
func (m *Models) cut(name, layers string, other map[string]any) (*model.Spec, error) {
	file := path.Join("models", name, "config.json")
	f, err := m.Configs.Open(file)
	if err != nil {
		return nil, fmt.Errorf("model %q is not built in", name)
	}
	defer func() { _ = f.Close() }()
	var c map[string]any
	if err := json.NewDecoder(io.LimitReader(f, 1<<22)).Decode(&c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c["num_hidden_layers"], _ = strconv.Atoi(layers)
	maps.Copy(c, other)
	data, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return model.Parse(bytes.NewReader(data), name, model.Options{})
}

// shapeSpec reads "hidden=2048 layers=24 heads=16 vocab=51200 mlp=4h gelu", or JSON of config.json's form.
func shapeSpec(name, shape string) (*model.Spec, error) {
	if strings.HasPrefix(shape, "{") {
		return model.Parse(strings.NewReader(shape), name, model.Options{})
	}
	c := map[string]any{"model_type": "gpt3"}
	for _, f := range strings.Fields(shape) {
		k, v, _ := strings.Cut(f, "=")
		key := map[string]string{"hidden": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads", "vocab": "vocab_size"}[k]
		switch {
		case key != "":
			n, err := strconv.Atoi(v)
			if err != nil {
				return nil, fmt.Errorf("shape %q: %s is not a number", shape, k)
			}
			c[key] = n
		case k == "mlp" && v != "4h" || k != "mlp" && k != "gelu":
			return nil, fmt.Errorf("shape %q: %s is not understood", shape, f)
		}
	}
	data, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	s, err := model.Parse(bytes.NewReader(data), name, model.Options{})
	if err != nil {
		return nil, fmt.Errorf("shape %q: %w", shape, err)
	}
	return s, nil
}
