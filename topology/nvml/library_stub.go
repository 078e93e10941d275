//go:build !linux || !cgo

package nvml

// Built says whether this build can talk to the driver.
const Built = false

// New says that this build cannot talk to the driver.
func New() (API, error) {
	return nil, &Unavailable{Why: "this rankmap was built without cgo and cannot open libnvidia-ml.so.1",
		Hint: "use the Linux build with cgo (CGO_ENABLED=1 go build ./cmd/rankmap), or describe the machine with --from smi:FILE"}
}
