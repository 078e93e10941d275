package capture

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Redactor replaces what identifies a site. The same text becomes the same hash for one salt, so that topologies stay
// whole: a UUID becomes a UUID, a GUID a GUID, a host name "host-" with a hash. All-zero identities say "none" and stay.
type Redactor struct {
	salt  []byte
	hosts []string // longest first
}

// NewRedactor makes a redactor. hosts are the names to replace wherever they stand; their short forms are replaced too.
func NewRedactor(salt []byte, hosts ...string) *Redactor {
	r := &Redactor{salt: salt}
	seen := map[string]bool{}
	for _, h := range hosts {
		short, _, _ := strings.Cut(h, ".")
		for _, name := range []string{h, short} {
			low := strings.ToLower(name)
			if len(name) > 2 && !seen[low] && !slices.Contains(plainWords, low) && strings.Trim(low, "0123456789") != "" {
				seen[low] = true
				r.hosts = append(r.hosts, name)
			}
		}
	}
	sort.Slice(r.hosts, func(i, j int) bool {
		if len(r.hosts[i]) != len(r.hosts[j]) {
			return len(r.hosts[i]) > len(r.hosts[j])
		}
		return r.hosts[i] < r.hosts[j]
	})
	return r
}

// plainWords are words of the formats: a host called so is not identified by it, and replacing them would damage files.
var plainWords = []string{"gpu", "nic", "node", "host", "localhost", "file", "link", "list", "hex", "error", "rankmap", "sysfs", "class", "device", "devices",
	"bus", "pci", "name", "value", "code", "text", "nvidia", "infiniband", "ports", "rate", "state", "system", "kernel", "count", "fabric", "memory", "kind",
	"version", "uuid", "driver", "library", "compute", "active", "down", "true", "false", "null", "nvml", "numa", "cpu", "net", "not", "supported"}

// hash returns n hexadecimal digits for a value of a kind.
func (r *Redactor) hash(kind, value string, n int) string {
	m := hmac.New(sha256.New, r.salt)
	m.Write([]byte(kind + "\x00" + strings.ToLower(value)))
	return hex.EncodeToString(m.Sum(nil))[:n]
}

// Host returns the hash of a host's name. The domain does not count: tools disagree on it.
func (r *Redactor) Host(name string) string {
	if name == "" {
		return ""
	}
	short, _, _ := strings.Cut(name, ".")
	return "host-" + r.hash("host", short, 10)
}

// Name returns the hash of another name, such as a switch's.
func (r *Redactor) Name(kind, name string) string {
	if name == "" {
		return ""
	}
	return kind + "-" + r.hash(kind, name, 10)
}

// What Text finds. PCI addresses (0000:1a:00.0) and versions (28.43.2566) are none of these.
var (
	reUUID  = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	reShort = regexp.MustCompile(`\b(?:GPU|MIG)-[0-9a-fA-F][0-9a-fA-F-]*`)
	reGUID  = regexp.MustCompile(`(?i)\b[0-9a-f]{4}(?::[0-9a-f]{4}){3}\b`)
	reHex   = regexp.MustCompile(`(?i)\b(?:0x)?[0-9a-f]{16}\b`)
	reMAC   = regexp.MustCompile(`(?i)\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b`)
	reIPv6  = regexp.MustCompile(`(?i)(?:\b[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}\b|\b(?:[0-9a-f]{1,4}:){1,6}:(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,5})?|::(?:ffff:)?[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6}\b`)
	reIPv4  = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`)
	reENX   = regexp.MustCompile(`(?i)\b(enx|wlx)[0-9a-f]{12}\b`)
	reSN    = regexp.MustCompile(`(?i)\b(serial(?:[ _-]?(?:number|no|num))?\.?\s*[:=]\s*)([0-9A-Za-z-]{4,})`)
)

func zero(s string) bool { return strings.Trim(s, "0-:.xX") == "" }

// Text replaces every identity in a text.
func (r *Redactor) Text(s string) string {
	s = reSN.ReplaceAllStringFunc(s, func(m string) string {
		p := reSN.FindStringSubmatch(m)
		return p[1] + r.hash("serial", p[2], 12)
	})
	s = each(s, reUUID, func(m string) string {
		h := r.hash("uuid", m, 32)
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	})
	s = reShort.ReplaceAllStringFunc(s, func(m string) string { // the beginning of a UUID, as CUDA_VISIBLE_DEVICES takes it
		if len(m) >= len("GPU-")+36 {
			return m
		}
		return m[:4] + r.hash("uuid", m, 12)
	})
	s = each(s, reIPv6, func(m string) string { return "ip-" + r.hash("ip", m, 12) })
	s = each(s, reGUID, func(m string) string {
		h := r.guid(strings.ReplaceAll(m, ":", ""))
		return h[:4] + ":" + h[4:8] + ":" + h[8:12] + ":" + h[12:]
	})
	s = each(s, reMAC, func(m string) string {
		h := r.hash("mac", m, 10)
		return "02:" + h[:2] + ":" + h[2:4] + ":" + h[4:6] + ":" + h[6:8] + ":" + h[8:]
	})
	s = each(s, reHex, func(m string) string {
		digits := strings.TrimPrefix(strings.ToLower(m), "0x")
		return m[:len(m)-16] + r.guid(digits)
	})
	s = each(s, reIPv4, func(m string) string {
		for _, octet := range strings.Split(m, ".") {
			if v, _ := strconv.Atoi(octet); v > 255 {
				return m // a version
			}
		}
		return "ip-" + r.hash("ip", m, 12)
	})
	s = reENX.ReplaceAllStringFunc(s, func(m string) string { return m[:3] + r.hash("mac", m, 12) })
	for _, h := range r.hosts {
		s = r.replaceHost(s, h)
	}
	return s
}

// guid hashes 16 hexadecimal digits, however they were written.
func (r *Redactor) guid(digits string) string { return r.hash("guid", digits, 16) }

func each(s string, re *regexp.Regexp, f func(string) string) string {
	return re.ReplaceAllStringFunc(s, func(m string) string {
		if zero(m) {
			return m
		}
		return f(m)
	})
}

// replaceHost replaces a name where no letter or digit goes on at either side, whatever its case.
func (r *Redactor) replaceHost(s, host string) string {
	low, want := strings.ToLower(s), strings.ToLower(host)
	if len(low) != len(s) { // letters whose lower case has another length: compare as they stand
		low, want = s, host
	}
	var b strings.Builder
	for {
		i := strings.Index(low, want)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		end := i + len(want)
		whole := (i == 0 || !wordByte(low[i-1])) && (end == len(low) || !wordByte(low[end]))
		b.WriteString(s[:i])
		if whole {
			b.WriteString(r.Host(host))
		} else {
			b.WriteString(s[i:end])
		}
		s, low = s[end:], low[end:]
	}
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// Capture replaces every identity of a capture.
func (r *Redactor) Capture(c *Capture) *Capture {
	out := &Capture{Host: r.Host(c.Host), Env: map[string]string{}, Files: map[string][]byte{}}
	for k, v := range c.Env {
		out.Env[k] = r.Text(v)
	}
	for _, n := range c.Notes {
		out.Notes = append(out.Notes, r.Text(n))
	}
	for name, data := range c.Files {
		out.Files[name] = []byte(r.Text(string(data)))
	}
	return out
}
