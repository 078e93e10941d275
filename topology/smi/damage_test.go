package smi

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"unicode/utf16"
)

// A printing makes text of a machine in another shape than the tool's.
var printings = map[string]func(*rand.Rand, *truth) string{
	"raw":                     func(_ *rand.Rand, m *truth) string { return m.raw() },
	"markdown":                func(r *rand.Rand, m *truth) string { return markdown(r, m, false) },
	"markdown affinity first": func(r *rand.Rand, m *truth) string { return markdown(r, m, true) },
	"csv":                     csvPrint,
	"aligned by column -t":    func(_ *rand.Rand, m *truth) string { return columnT(m, false) },
	"aligned, empties merged": func(_ *rand.Rand, m *truth) string { return columnT(m, true) },
	"retyped in columns":      retyped,
	"no NIC rows":             func(_ *rand.Rand, m *truth) string { m.nicRows = false; return m.raw() },
	"rows shuffled":           shuffled,
	"one tab before GPU NUMA": oneTab,
	"X without blanks":        func(_ *rand.Rand, m *truth) string { return strings.ReplaceAll(m.raw(), " X ", "X") },
	"NIC columns cropped":     cropNICs,
	"third title cropped":     func(_ *rand.Rand, m *truth) string { return dropTitle(m) },
	"no legend":               func(_ *rand.Rand, m *truth) string { m.legend = nil; return m.raw() },
	"translated legend":       translated,
	"blank self":              func(_ *rand.Rand, m *truth) string { return strings.ReplaceAll(m.raw(), "\t X \t", "\t\t") },
	"dashes for self":         func(_ *rand.Rand, m *truth) string { return strings.ReplaceAll(m.raw(), "\t X ", "\t-") },
}

// A damage changes text.
var damages = map[string]func(*rand.Rand, string) string{
	"none":                 func(_ *rand.Rand, s string) string { return s },
	"tabs expanded":        func(_ *rand.Rand, s string) string { return expand(s) },
	"tabs to 4 blanks":     func(_ *rand.Rand, s string) string { return strings.ReplaceAll(s, "\t", "    ") },
	"tabs to 2 blanks":     func(_ *rand.Rand, s string) string { return strings.ReplaceAll(s, "\t", "  ") },
	"tabs to 1 blank":      func(_ *rand.Rand, s string) string { return strings.ReplaceAll(s, "\t", " ") },
	"squeezed":             func(_ *rand.Rand, s string) string { return squeeze.ReplaceAllString(s, " ") },
	"tabs squeezed":        func(_ *rand.Rand, s string) string { return tabRuns.ReplaceAllString(s, "\t") },
	"tabs doubled":         doubled,
	"trailing blanks lost": func(_ *rand.Rand, s string) string { return trailing.ReplaceAllString(s, "") },
	"ESC lost":             func(_ *rand.Rand, s string) string { return strings.ReplaceAll(s, "\x1b", "") },
	"ESC spelled": func(r *rand.Rand, s string) string {
		return strings.ReplaceAll(s, "\x1b", pick(r, "^[", `\033`, `\x1b`, "␛"))
	},
	"colours": func(_ *rand.Rand, s string) string {
		return strings.ReplaceAll(s, "GPU1", "\x1b[01;31m\x1b[KGPU1\x1b[m\x1b[K")
	},
	"CRLF":         func(_ *rand.Rand, s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
	"CR":           func(_ *rand.Rand, s string) string { return strings.ReplaceAll(s, "\n", "\r") },
	"mail quoting": func(r *rand.Rand, s string) string { return prefixed(s, pick(r, "> ", ">>> ", "> > ", ">")) },
	"comments":     func(r *rand.Rand, s string) string { return prefixed(s, pick(r, "# ", "// ", "#", ";; ", " * ")) },
	"grep": func(r *rand.Rand, s string) string {
		return prefixed(s, pick(r, "log.txt:# ", "a/b.log:", "topo.txt-"))
	},
	"grep -n":              numbered("topo.txt:%d:"),
	"cat -n":               numbered("%6d\t"),
	"timestamps":           numbered("2025-06-01T10:00:%02d.123Z "),
	"pdsh":                 func(_ *rand.Rand, s string) string { return prefixed(s, "gpu-node-07: ") },
	"srun -l":              func(_ *rand.Rand, s string) string { return prefixed(s, "0: ") },
	"mpirun --tag-output":  func(_ *rand.Rand, s string) string { return prefixed(s, "[1,0]<stdout>:") },
	"docker compose":       func(_ *rand.Rand, s string) string { return prefixed(s, "worker-1  | ") },
	"indented":             func(r *rand.Rand, s string) string { return prefixed(s, pick(r, "    ", "  ", "\t", "   ")) },
	"blank lines":          func(_ *rand.Rand, s string) string { return strings.ReplaceAll(s, "\n", "\n\n") },
	"dashes under header":  func(_ *rand.Rand, s string) string { return strings.Replace(s, "\n", "\n------ ---- ----\n", 1) },
	"first tab trimmed":    func(_ *rand.Rand, s string) string { return strings.TrimLeft(s, "\t ") },
	"first tab doubled":    func(_ *rand.Rand, s string) string { return "\t" + s },
	"titles fused":         fuseTitles,
	"cells fused":          fuseCells,
	"header lost":          func(_ *rand.Rand, s string) string { return dropLines(s, 1) },
	"newlines to blanks":   func(_ *rand.Rand, s string) string { return strings.ReplaceAll(s, "\n", " ") },
	"newlines lost":        func(_ *rand.Rand, s string) string { return strings.ReplaceAll(s, "\n", "") },
	"tail cut":             tailCut,
	"wrapped at 80":        func(_ *rand.Rand, s string) string { return wrapHard(expand(s), 80) },
	"wrapped at any width": func(r *rand.Rand, s string) string { return wrapHard(expand(s), 30+r.IntN(90)) },
	"wrapped, blanks lost": func(r *rand.Rand, s string) string {
		return trailing.ReplaceAllString(wrapHard(expand(s), 40+r.IntN(60)), "")
	},
	"wrapped by words": func(r *rand.Rand, s string) string { return wrapSoft(expand(s), 60+r.IntN(30)) },
	"NBSP":             func(_ *rand.Rand, s string) string { return strings.ReplaceAll(expand(s), " ", "\u00a0") },
	"BOM":              func(_ *rand.Rand, s string) string { return "\ufeff" + s },
	"UTF-16":           func(_ *rand.Rand, s string) string { return utf16le(s) },
	"JSON string":      func(_ *rand.Rand, s string) string { return jsonString(s) },
	"fence and prompt": func(_ *rand.Rand, s string) string { return "```bash\n$ nvidia-smi topo -m\n" + s + "```\n" },
	"srun traces": func(_ *rand.Rand, s string) string {
		return "+ srun -N1 nvidia-smi topo -m\n" + s + "+ [[ 0 -eq 1 ]]\n"
	},
	"log lines between": func(_ *rand.Rand, s string) string {
		return strings.ReplaceAll(s, "\nGPU1", "\nINFO: step 3 of 7 done\nGPU1")
	},
	"title words split": func(_ *rand.Rand, s string) string { return strings.Replace(s, "CPU Affinity", "CPU\tAffinity", 1) },
	"titles renamed":    func(_ *rand.Rand, s string) string { return renameTitles(s) },
	"twice":             func(_ *rand.Rand, s string) string { return s + "\n" + s },
	"topo -p2p behind": func(_ *rand.Rand, s string) string {
		return s + "\n$ nvidia-smi topo -p2p r\n \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n"
	},
	"letter lost":        letterLost,
	"row lost":           rowLost,
	"cells swapped":      cellsSwapped,
	"cell lost":          cellLost,
	"lower case names":   func(_ *rand.Rand, s string) string { return gpuWord.ReplaceAllString(s, "gpu$1") },
	"names with a blank": func(_ *rand.Rand, s string) string { return gpuWord.ReplaceAllString(s, "GPU $1") },
	"bold":               func(_ *rand.Rand, s string) string { return gpuWord.ReplaceAllString(s, "**GPU$1**") },
}

var (
	squeeze  = regexp.MustCompile(`[ \t]+`)
	tabRuns  = regexp.MustCompile(`\t+`)
	trailing = regexp.MustCompile(`(?m)[ \t]+$`)
	gpuWord  = regexp.MustCompile(`GPU(\d+)`)
	cellGap  = regexp.MustCompile(`(X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC)([ \t]+)(X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC)`)
	aCell    = regexp.MustCompile(`NV\d+|PIX|PXB|PHB|NODE|SYS|SOC`)
)

func expand(s string) string {
	var out strings.Builder
	col := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\n':
			col = 0
			out.WriteByte('\n')
		case '\t':
			n := 8 - col%8
			out.WriteString(strings.Repeat(" ", n))
			col += n
		case 0x1b: // no width
			n := strings.IndexByte(s[i:], 'm') + 1
			if n == 0 {
				n = 1
			}
			out.WriteString(s[i : i+n])
			i += n - 1
		default:
			out.WriteByte(s[i])
			col++
		}
	}
	return out.String()
}

func prefixed(s, p string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	return p + strings.Join(lines, "\n"+p) + "\n"
}

func numbered(format string) func(*rand.Rand, string) string {
	return func(_ *rand.Rand, s string) string {
		lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
		for i := range lines {
			lines[i] = fmt.Sprintf(format, i+1) + lines[i]
		}
		return strings.Join(lines, "\n") + "\n"
	}
}

func dropLines(s string, n int) string {
	for range n {
		_, s, _ = strings.Cut(s, "\n")
	}
	return s
}

func doubled(r *rand.Rand, s string) string {
	var out strings.Builder
	for _, c := range s {
		if c == '\t' && r.IntN(2) == 0 {
			out.WriteString(pick(r, "\t\t", "\t    ", " \t"))
			continue
		}
		out.WriteRune(c)
	}
	return out.String()
}

// tailCut cuts anywhere, but not inside a value of an affinity column of the last row nor inside the name of a device:
// that leaves no trace.
func tailCut(r *rand.Rand, s string) string {
	i := r.IntN(len(s) + 1)
	if n := strings.Index(s, "NIC Legend"); n >= 0 && i > n {
		i = max(n, strings.LastIndexByte(s[:i], '\n'))
	}
	for i < len(s) && i > 0 && strings.IndexByte("0123456789,-", s[i]) >= 0 && strings.IndexByte("0123456789,-", s[i-1]) >= 0 {
		i++
	}
	return s[:i]
}

func fuseTitles(_ *rand.Rand, s string) string {
	head, rest, _ := strings.Cut(s, "\n")
	return strings.ReplaceAll(head, "\t", "") + "\n" + rest
}

func fuseCells(r *rand.Rand, s string) string {
	for range 1 + r.IntN(4) {
		all := cellGap.FindAllStringSubmatchIndex(s, -1)
		if len(all) == 0 {
			return s
		}
		m := all[r.IntN(len(all))]
		s = s[:m[4]] + s[m[5]:]
	}
	return s
}

func wrapHard(s string, w int) string {
	var out []string
	for _, l := range strings.Split(s, "\n") {
		for len(l) > w {
			out = append(out, l[:w])
			l = l[w:]
		}
		out = append(out, l)
	}
	return strings.Join(out, "\n")
}

func wrapSoft(s string, w int) string {
	var out []string
	for _, l := range strings.Split(s, "\n") {
		for len(l) > w {
			i := strings.LastIndexByte(l[:w], ' ')
			if i <= 0 {
				break
			}
			out = append(out, strings.TrimRight(l[:i], " "))
			l = strings.TrimLeft(l[i:], " ")
		}
		out = append(out, l)
	}
	return strings.Join(out, "\n")
}

func utf16le(s string) string {
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return string(b)
}

func jsonString(s string) string {
	s = strings.NewReplacer("\n", `\n`, "\t", `\t`, "\x1b", `\u001b`, "\r", `\r`).Replace(s)
	return `{"stdout": "` + s + `", "rc": 0}` + "\n"
}

func renameTitles(s string) string {
	s = strings.Replace(s, "CPU Affinity", "CPU 亲和性", 1)
	return strings.Replace(s, "NUMA Affinity", "NUMA node", 1)
}

// table returns where the rows of GPUs stand in s, so that damage stays in the matrix.
func matrixCells(s string) [][]int {
	var out [][]int
	for _, m := range aCell.FindAllStringIndex(s, -1) {
		start := strings.LastIndexByte(s[:m[0]], '\n') + 1
		if l := s[start:m[0]]; strings.Contains(l, "GPU") || strings.Contains(l, "NIC") || strings.Contains(l, "mlx") {
			out = append(out, m)
		}
	}
	return out
}

func letterLost(r *rand.Rand, s string) string {
	all := matrixCells(s)
	if len(all) == 0 {
		return s
	}
	m := all[r.IntN(len(all))]
	i := m[0] + r.IntN(m[1]-m[0])
	return s[:i] + s[i+1:]
}

func cellLost(r *rand.Rand, s string) string {
	all := matrixCells(s)
	if len(all) == 0 {
		return s
	}
	m := all[r.IntN(len(all))]
	return s[:m[0]] + s[m[1]:]
}

func cellsSwapped(r *rand.Rand, s string) string {
	all := cellGap.FindAllStringSubmatchIndex(s, -1)
	if len(all) == 0 {
		return s
	}
	m := all[r.IntN(len(all))]
	return s[:m[2]] + s[m[6]:m[7]] + s[m[4]:m[5]] + s[m[2]:m[3]] + s[m[7]:]
}

func rowLost(r *rand.Rand, s string) string {
	lines := strings.Split(s, "\n")
	var rows []int
	for i, l := range lines {
		if strings.HasPrefix(l, "GPU") || strings.HasPrefix(l, "NIC") {
			rows = append(rows, i)
		}
	}
	if len(rows) == 0 {
		return s
	}
	i := rows[r.IntN(len(rows))]
	return strings.Join(append(lines[:i:i], lines[i+1:]...), "\n")
}
