package model

import (
	"fmt"
	"regexp"
	"strings"
)

// rule decides about the modules that match.
type rule struct {
	glob  string
	re    *regexp.Regexp
	store Storage
}

// pattern reads a module pattern: "re:" starts a regular expression, * stands for anything.
func (b *builder) pattern(s string) rule {
	if rest, ok := strings.CutPrefix(s, "re:"); ok {
		re, err := regexp.Compile(rest)
		if err != nil {
			b.warnf("module pattern %q is not a regular expression that Go reads: skipped", s)
			return rule{glob: "\x00"}
		}
		return rule{re: re}
	}
	return rule{glob: trimModule(s)}
}

// trimModule drops what stands before the layers, which differs between wrappers and engines.
func trimModule(s string) string {
	if i := strings.Index(s, "layers."); i >= 0 && (i == 0 || s[i-1] == '.') {
		if !strings.HasPrefix(s, "mtp") && !strings.HasPrefix(s, "vision") {
			return s[i:]
		}
	}
	for _, p := range []string{"model.language_model.", "language_model.model.", "language_model.", "model.", "transformer.", "backbone."} {
		if rest, ok := strings.CutPrefix(s, p); ok {
			return rest
		}
	}
	return s
}

// match tells whether a module is the one that the rule names, or lies below it.
func (r rule) match(module string) bool {
	if r.re != nil {
		return r.re.MatchString(module) || r.re.MatchString("model."+module)
	}
	if !strings.Contains(r.glob, "*") {
		g := r.glob
		return module == g || strings.HasPrefix(module, g+".") || strings.HasSuffix(module, "."+g) ||
			(g != "" && strings.Contains(module, "."+g+"."))
	}
	return glob(r.glob, module) || glob(r.glob+".*", module) || glob("*."+r.glob, module)
}

// glob matches with * for any run of characters, in linear time.
func glob(pat, s string) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pat) && pat[p] == '*':
			star, mark = p, i
			p++
		case p < len(pat) && pat[p] == s[i]:
			p++
			i++
		case star >= 0:
			p = star + 1
			mark++
			i = mark
		default:
			return false
		}
	}
	for p < len(pat) && pat[p] == '*' {
		p++
	}
	return p == len(pat)
}

// storageOf decides how a module of a layer is stored. plain is the type of weights that stay as they are.
func (q *quantisation) storageOf(module string, t *Tensor, plain Storage) Storage {
	if !q.on || !t.Linear || t.In == 0 {
		return plain
	}
	if t.Part == PartHead && !q.head && !q.named(module) {
		return plain
	}
	if q.experts && t.Part != PartExperts {
		return plain
	}
	for i := range q.include {
		if q.include[i].match(module) {
			return q.include[i].store
		}
	}
	if q.only {
		return plain
	}
	for i := range q.exclude {
		if q.exclude[i].match(module) {
			return plain
		}
	}
	return q.base
}

func (q *quantisation) named(module string) bool {
	for i := range q.include {
		if q.include[i].match(module) {
			return true
		}
	}
	return false
}

// words describes the whole quantisation.
func (q *quantisation) words() string {
	if !q.on {
		return ""
	}
	switch {
	case q.experts:
		return q.base.words() + " (experts only)"
	case q.only && len(q.include) > 0:
		return "mixed: " + mixWords(q.include)
	case len(q.include) > 0:
		return q.base.words() + "; " + mixWords(q.include)
	}
	return q.base.words()
}

func mixWords(rules []rule) string {
	if len(rules) == 1 && rules[0].re == nil {
		return rules[0].store.Format.String() + " on " + rules[0].glob
	}
	var n [numFormats]int
	for _, r := range rules {
		n[r.store.Format]++
	}
	var out []string
	for f, c := range n {
		if c > 0 {
			out = append(out, fmt.Sprintf("%s on %d modules", Format(f), c))
		}
	}
	return strings.Join(out, ", ")
}
