// Package configs embeds the data that rankmap ships: GPU datasheets and fitted profiles, cluster presets, published
// model configurations and example workloads. Each file names its source.
package configs

import "embed"

// FS holds hardware/, topologies/, models/ and workloads/.
//
//go:embed hardware topologies models workloads
var FS embed.FS
