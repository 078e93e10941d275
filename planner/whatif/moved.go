package whatif

// Moved says what a new layout costs to adopt.
type Moved struct {
	Ranks   int      `yaml:"ranks" json:"ranks"`                        // whose GPU is another one
	Reloads int      `yaml:"reloads" json:"reloads"`                    // GPUs that must load other weights
	List    []string `yaml:"list,omitempty,flow" json:"list,omitempty"` // "29: node3/5 to node2/7", at most 16
}
