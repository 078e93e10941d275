// Package smi reads what people paste of nvidia-smi: the tables of "nvidia-smi topo -m" and "topo -mp", and the text of
// "nvidia-smi nvlink -s".
//
// Such text has rarely come straight from the tool. Read undoes what editors, terminals, mail, wikis and log collectors
// do to it: tabs turned into spaces, doubled or lost, underline escapes with or without the ESC byte, CRLF, quoting,
// prompts, prefixes of grep, pdsh and srun, markdown tables, fused cells, wrapped lines, lost line ends, a lost header.
//
// What it promises: a fact is reported only where the text states it. The matrix is symmetric, so every cell is
// checked against its twin and every X against its own column; a table that fails is refused with file:line:column. The
// affinity columns have no twin: where an empty cell makes them ambiguous, they stay unknown and a warning says so. A
// CPU list never takes the place of a NUMA node, nor the other way round.
//
// What it does not do: it names no GPU model (the matrix does not), it draws no conclusion about NVSwitch, and it does
// not read the look-alikes (topo -p2p, rocm-smi and others), which it refuses by name.
//
//	res, err := smi.Read(file, "topo.txt")
//	if err != nil { ... }            // topo.txt:3:9: ...
//	node := res.Nodes[0]             // GPUs, NICs, paths, NVLinks
package smi
