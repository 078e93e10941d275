package validate

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// listenProblem turns a failed listen into a finding that says what to do.
func listenProblem(addr string, err error) *failure {
	f := &failure{finding: "start-failed", rank: -1, exit: exitEnvironment, detail: err.Error()}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		f.finding = "name-unknown"
	case errors.Is(err, syscall.EADDRINUSE):
		f.finding = "port-taken"
		if who := portHolder(addr); who != "" {
			f.detail += " (held by " + who + ")"
		}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		f.finding = "address-elsewhere"
	}
	return f
}

// portHolder names the process that listens on a port, as far as /proc tells this user; "" when it does not.
func portHolder(addr string) string {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return ""
	}
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) { // 0A is LISTEN
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err != nil || !inodes[to] {
			continue
		}
		pid := strings.Split(fd, "/")[2]
		name, _ := os.ReadFile("/proc/" + pid + "/comm")
		return fmt.Sprintf("process %s, %s", pid, strings.TrimSpace(string(name)))
	}
	return ""
}
