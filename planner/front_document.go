package planner

import "rankmap/layout"

// FrontDocument is a Pareto front as it is written: the inputs as in a layout, and the points from the fastest for a user
// to the most productive.
type FrontDocument struct {
	APIVersion string        `yaml:"apiVersion" json:"apiVersion"`
	Kind       string        `yaml:"kind" json:"kind"` // "ParetoFront"
	Inputs     layout.Inputs `yaml:"inputs" json:"inputs"`
	Of         int           `yaml:"of" json:"of"` // plans priced
	Points     []FrontPoint  `yaml:"points" json:"points"`
	Notes      []string      `yaml:"notes,omitempty" json:"notes,omitempty"`
}

// FrontPoint is one plan of the front.
type FrontPoint struct {
	TPOTMs                 float64         `yaml:"tpotMs,omitempty" json:"tpotMs,omitempty"`
	TTFTMs                 float64         `yaml:"ttftMs,omitempty" json:"ttftMs,omitempty"`
	TokensPerSecondPerUser float64         `yaml:"tokensPerSecondPerUser,omitempty" json:"tokensPerSecondPerUser,omitempty"` // 1 / TPOT
	TokensPerSecondPerGPU  float64         `yaml:"tokensPerSecondPerGpu" json:"tokensPerSecondPerGpu"`
	Batch                  int             `yaml:"batch" json:"batch"`
	GPUs                   int             `yaml:"gpus" json:"gpus"`
	Strategy               layout.Strategy `yaml:"strategy" json:"strategy"`
	MemoryGB               float64         `yaml:"memoryGB" json:"memoryGB"` // of the fullest GPU
}

// Document turns a front into its written form.
func (f *Front) Document(r Request, in layout.Inputs, notes []string) *FrontDocument {
	in.Workload = r.Workload
	d := &FrontDocument{APIVersion: layout.APIVersion, Kind: "ParetoFront", Inputs: in, Of: f.Of, Points: []FrontPoint{}, Notes: notes}
	for _, o := range f.Points {
		p := FrontPoint{
			TPOTMs: round(o.TPOT.Time.Millis(), 4), TTFTMs: round(o.TTFT.Time.Millis(), 4), TokensPerSecondPerGPU: round(o.PerGPU, 5),
			Batch: o.Batch, GPUs: o.GPUs, Strategy: layout.Of(o.Strategy), MemoryGB: gb(o.Memory.Total()),
		}
		if t := o.TPOT.Time.Seconds(); t > 0 {
			p.TokensPerSecondPerUser = round(1/t, 4)
		}
		d.Points = append(d.Points, p)
	}
	return d
}
