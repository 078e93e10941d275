// Package topology says what hardware there is and how far apart any two parts are: clusters, nodes, GPUs, NICs,
// switches, links, the bandwidth graph, NVLink domains, paths and the shape of a member list.
//
// It is pure: it takes values and io.Reader and returns values and error. It opens no file, reads no environment and
// never plans. One source each (topo -m, NCCL XML, NVML, sysfs, fabric files) lives in a sub-package that fills these
// types.
//
// A Cluster shares node classes: 12,500 equal nodes are one NodeClass and 12,500 small Node values, so that 100,000
// GPUs stay cheap. GPUs are numbered node-major: GPUID is a position in that order.
package topology
