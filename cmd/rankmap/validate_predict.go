package main

import (
	"rankmap/internal/measured"
	"rankmap/layout"
	"rankmap/validate"
)

// predictorFor prices what the layout has no number for.
func predictorFor(*deps, *layout.Layout, *validateOptions) validate.Predictor { return nil }

// systemOfLayout names the GPU model of the layout's machine.
func systemOfLayout(*layout.Layout) string { return "" }

// calibrateFromReport writes a profile.
func calibrateFromReport(*deps, string, *measured.Report) error {
	return inputErrf("--calibrate: use rankmap calibrate REPORT -f profile.yaml")
}
