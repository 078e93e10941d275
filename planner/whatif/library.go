package whatif

import "rankmap/collective"

// withLibrary prices every collective for one version of NCCL.
type withLibrary struct {
	inner   collective.Pricer
	version string
}

// Price implements collective.Pricer.
func (w withLibrary) Price(r collective.Request) (collective.Estimate, error) {
	r.Library = w.version
	return w.inner.Price(r)
}
