package topology

import (
	"fmt"
	"strings"
)

var pathNames = [numPathKinds]string{"?", "X", "NV", "C2C", "PIX", "PXB", "PHB", "NODE", "SYS"}

// PathKinds lists every path kind, nearest first.
func PathKinds() []PathKind {
	all := make([]PathKind, numPathKinds)
	for i := range all {
		all[i] = PathKind(i)
	}
	return all
}

// String returns nvidia-smi's word ("NV" without the count); "?" when unknown.
func (k PathKind) String() string {
	if k < numPathKinds {
		return pathNames[k]
	}
	return fmt.Sprintf("path(%d)", uint8(k))
}

// MarshalText writes the word.
func (k PathKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the word. "SOC" is SYS in the tables of drivers before 2017, and "NV4" is NV.
func (k *PathKind) UnmarshalText(b []byte) error {
	s := strings.ToUpper(strings.TrimSpace(string(b)))
	if s == "SOC" {
		*k = PathSYS
		return nil
	}
	if n := strings.TrimPrefix(s, "NV"); n != s && strings.Trim(n, "0123456789") == "" {
		*k = PathNV
		return nil
	}
	return unmarshalName(k, s, pathNames[:], "path")
}

// IsPCIe says that the kind names a PCIe distance.
func (k PathKind) IsPCIe() bool { return k >= PathPIX && k <= PathSYS }

// CrossesHostBridge says that traffic leaves the PCIe switches: it passes a host bridge or the link between sockets.
func (k PathKind) CrossesHostBridge() bool { return k >= PathPHB && k <= PathSYS }

const numWirings = NVLinkSwitched + 1

var wiringNames = [numWirings]string{"none", "unknown", "direct", "cube-mesh", "switched"}

// NVLinkKinds lists every wiring.
func NVLinkKinds() []NVLinkKind {
	all := make([]NVLinkKind, numWirings)
	for i := range all {
		all[i] = NVLinkKind(i)
	}
	return all
}

// String returns the wiring's name, such as "switched".
func (k NVLinkKind) String() string {
	if k < numWirings {
		return wiringNames[k]
	}
	return fmt.Sprintf("wiring(%d)", uint8(k))
}

// MarshalText writes the name.
func (k NVLinkKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the name.
func (k *NVLinkKind) UnmarshalText(b []byte) error {
	return unmarshalName(k, strings.ToLower(string(b)), wiringNames[:], "wiring")
}

const numSwitchKinds = CoreSwitch + 1

var switchNames = [numSwitchKinds]string{"nvswitch", "pcie", "leaf", "spine", "core"}

// SwitchKinds lists every kind of switch.
func SwitchKinds() []SwitchKind {
	all := make([]SwitchKind, numSwitchKinds)
	for i := range all {
		all[i] = SwitchKind(i)
	}
	return all
}

// String returns the kind's name, such as "nvswitch".
func (k SwitchKind) String() string {
	if k < numSwitchKinds {
		return switchNames[k]
	}
	return fmt.Sprintf("switch(%d)", uint8(k))
}

// MarshalText writes the name.
func (k SwitchKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the name.
func (k *SwitchKind) UnmarshalText(b []byte) error {
	return unmarshalName(k, strings.ToLower(string(b)), switchNames[:], "switch kind")
}

func unmarshalName[T ~uint8](into *T, s string, names []string, what string) error {
	for i, n := range names {
		if n == s {
			*into = T(i)
			return nil
		}
	}
	return fmt.Errorf("unknown %s %q (known: %s)", what, s, strings.Join(names, ", "))
}
