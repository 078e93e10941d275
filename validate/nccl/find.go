package nccl

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Search says where libraries are looked for.
type Search struct {
	Explicit string              // --nccl-lib: the only candidate when set; must be absolute
	Getenv   func(string) string // nil means os.Getenv
	System   []string            // system folders; nil means SystemDirs
}

// SystemDirs are the folders of distributions, CUDA packages, container runtimes and CUDA's own installer.
var SystemDirs = []string{
	"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib",
	"/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/usr/local/cuda/targets/sbsa-linux/lib",
	"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/opt/nccl/lib", "/opt/nvidia/nccl/lib",
}

// ncclNames and cudartNames are tried in this order inside one folder.
var (
	ncclNames   = []string{"libnccl.so.2"}
	cudartNames = []string{"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}
)

// NCCLCandidates lists the libnccl files that exist, best first, without duplicates (by real path).
func (s Search) NCCLCandidates() ([]string, error) {
	return s.candidates(ncclNames, []string{"nvidia/nccl/lib", "torch/lib"})
}

// CUDARTCandidates lists the libcudart files that exist, best first. Explicit does not apply to it.
func (s Search) CUDARTCandidates() ([]string, error) {
	s.Explicit = ""
	return s.candidates(cudartNames, []string{"nvidia/cu[0-9]*/lib", "nvidia/cuda_runtime/lib", "torch/lib"})
}

func (s Search) candidates(names, inSite []string) ([]string, error) {
	if s.Explicit != "" {
		if !filepath.IsAbs(s.Explicit) {
			return nil, fmt.Errorf("library %q: want an absolute path", s.Explicit)
		}
		if _, err := os.Stat(s.Explicit); err != nil {
			return nil, fmt.Errorf("library %s: %w", s.Explicit, errors.Unwrap(err))
		}
		return []string{s.Explicit}, nil
	}
	var found []string
	seen := map[string]bool{}
	for _, dir := range s.dirs(inSite) {
		for _, n := range names {
			p := filepath.Join(dir, n)
			real, err := filepath.EvalSymlinks(p)
			if err != nil || seen[real] {
				continue
			}
			seen[real] = true
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s not found in LD_LIBRARY_PATH, the system folders, or the Python environments on PATH", strings.Join(names, ", "))
	}
	return found, nil
}

// dirs is the search order: LD_LIBRARY_PATH, system folders, then the site-packages of every Python environment that
// VIRTUAL_ENV, CONDA_PREFIX, PATH and the home folder name, then conda's own lib folder. Nothing is executed.
func (s Search) dirs(inSite []string) []string {
	getenv := s.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	system := s.System
	if system == nil {
		system = SystemDirs
	}
	var dirs []string
	for _, d := range filepath.SplitList(getenv("LD_LIBRARY_PATH")) {
		if filepath.IsAbs(d) {
			dirs = append(dirs, d)
		}
	}
	dirs = append(dirs, system...)

	var prefixes []string
	for _, v := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if p := getenv(v); filepath.IsAbs(p) {
			prefixes = append(prefixes, p)
		}
	}
	for _, d := range filepath.SplitList(getenv("PATH")) {
		if !filepath.IsAbs(d) {
			continue
		}
		if _, err := os.Stat(filepath.Join(d, "python3")); err == nil {
			prefixes = append(prefixes, filepath.Dir(filepath.Clean(d)))
		}
	}
	if h := getenv("HOME"); filepath.IsAbs(h) {
		prefixes = append(prefixes, filepath.Join(h, ".local"))
	}
	for _, p := range prefixes {
		for _, site := range []string{"lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages"} {
			for _, in := range inSite {
				m, err := filepath.Glob(filepath.Join(escapeGlob(p), site, in))
				if err != nil {
					continue
				}
				slices.Sort(m)
				slices.Reverse(m) // newest Python and newest CUDA first
				dirs = append(dirs, m...)
			}
		}
	}
	if p := getenv("CONDA_PREFIX"); filepath.IsAbs(p) {
		dirs = append(dirs, filepath.Join(p, "lib"))
	}
	return dirs
}

// escapeGlob protects the special characters of a folder name.
func escapeGlob(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// checkFile resolves links and refuses what a stranger could replace: files that every user may write.
func checkFile(path string) (real string, err error) {
	real, err = filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("library %s: %w", path, err)
	}
	st, err := os.Stat(real)
	switch {
	case err != nil:
		return "", fmt.Errorf("library %s: %w", path, err)
	case !st.Mode().IsRegular():
		return "", fmt.Errorf("library %s: not a regular file", real)
	case st.Mode().Perm()&0o002 != 0:
		return "", fmt.Errorf("library %s: every user can write it (mode %04o), refused; chmod o-w it", real, st.Mode().Perm())
	}
	return real, checkELF(real, st.Size())
}

// machines are the processors that CUDA runs on.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkELF refuses what the dynamic loader would choke on: it crashes the process on a file that ends before its segments do.
func checkELF(path string, size int64) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("library %s cannot be loaded: %w", path, err)
	}
	defer f.Close()
	if want := machines[runtime.GOARCH]; f.Class != elf.ELFCLASS64 || f.Machine != want || f.Type != elf.ET_DYN {
		return fmt.Errorf("library %s cannot be loaded: is %v for %v, want a 64-bit shared object for %v", path, f.Class, f.Machine, want)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Off+p.Filesz > uint64(size) {
			return fmt.Errorf("library %s cannot be loaded: cut off at %d bytes", path, size)
		}
	}
	return nil
}
