package whatif

// SweepResult is what a sweep found.
type SweepResult struct {
	Axis      string     `yaml:"axis" json:"axis"`
	Crossings []Crossing `yaml:"crossings" json:"crossings"`
}

// Crossing is where the best plan changes.
type Crossing struct {
	Text string `yaml:"text" json:"text"`
}
