// Package nvml reads the GPUs and NVLinks of a live host through NVIDIA's management library.
//
// API is our own narrow view of that library: the few questions that topology needs, by device number, each with an
// answer or an Error. Walk asks them all and makes a node of the answers. It believes little: a link exists when its
// state can be read, not because the library's bound (36) or a capability says so; a remote PCI address of all f is a
// remote end that a hypervisor hides; a ClusterUUID of zeros is no fabric; a question that one device does not support
// costs that fact and no other; a device that is lost stays in its place, marked bad.
//
// New opens the real library (go-nvml, in builds with cgo on Linux). Record notes all answers, Replay gives them again:
// a capture is read by the same Walk as a live machine.
package nvml
