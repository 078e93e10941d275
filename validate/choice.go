package validate

import (
	"regexp"
	"strconv"
	"strings"

	"rankmap/internal/measured"
)

// NCCL's own lines: "AllReduce: 1048576 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..23}" since 2.23 (subsystem TUNING),
// "Channel 00/24 : 0[0] -> 1[1] via P2P/CUMEM" (INIT, P2P), "... [send] via NET/IB/0/GDRDMA".
var (
	algoLine = regexp.MustCompile(`Bytes -> Algo ([A-Za-z0-9_]{1,24}) proto ([A-Za-z0-9_]{1,16})(?: channel\{Lo\.\.Hi\}=\{([0-9]{1,4})\.\.([0-9]{1,4})\})?`)
	viaLine  = regexp.MustCompile(`Channel [0-9/]{1,9} : [^\n]{1,80}? via ([A-Za-z0-9_ ]{1,24}(?:/[A-Za-z0-9_()]{1,24}){0,3})`)
	numbers  = regexp.MustCompile(`^[0-9]+(\([0-9]+\))?$`)
)

// algorithmNames turns NCCL's log words into those of the predictions.
var algorithmNames = map[string]string{
	"TREE": "tree", "RING": "ring", "COLLNET_DIRECT": "collnet", "COLLNET_CHAIN": "collnet-chain",
	"NVLS": "nvls", "NVLS_TREE": "nvls-tree", "PAT": "pat",
	"0": "tree", "1": "ring", "2": "collnet", "3": "collnet-chain", "4": "nvls", "5": "nvls-tree", "6": "pat",
}

var protocolNames = map[string]string{"LL": "LL", "LL128": "LL128", "SIMPLE": "Simple", "0": "LL", "1": "LL128", "2": "Simple"}

// parseChoice reads the last choice of algorithm and the last kind of connection in a piece of NCCL's log. Unknown words
// are kept as NCCL wrote them.
func parseChoice(log []byte) measured.Choice {
	var c measured.Choice
	if all := algoLine.FindAllSubmatch(log, -1); len(all) > 0 {
		m := all[len(all)-1]
		c.Algorithm, c.Protocol = word(algorithmNames, string(m[1])), word(protocolNames, string(m[2]))
		lo, errLo := strconv.Atoi(string(m[3]))
		hi, errHi := strconv.Atoi(string(m[4]))
		if errLo == nil && errHi == nil && hi >= lo {
			c.Channels = hi - lo + 1
		}
	}
	if all := viaLine.FindAllSubmatch(log, -1); len(all) > 0 {
		c.Transport = transport(string(all[len(all)-1][1]))
	}
	return c
}

func word(names map[string]string, s string) string {
	if n, ok := names[strings.ToUpper(s)]; ok {
		return n
	}
	return strings.ToLower(s)
}

// transport drops the device numbers: "NET/IB/0(3)/GDRDMA" becomes "NET/IB/GDRDMA".
func transport(s string) string {
	var keep []string
	for part := range strings.SplitSeq(strings.TrimSpace(s), "/") {
		if !numbers.MatchString(part) {
			keep = append(keep, part)
		}
	}
	out := strings.Join(keep, "/")
	out, _, _ = strings.Cut(out, " comm")
	return out
}
