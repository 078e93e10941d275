package smi

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// outcome counts what came of one kind of damage.
type outcome struct{ right, partly, refused, wrong int }

// TestDamage prints random machines in random shapes, damages the text, and reads it back: the result must be the
// machine, or the machine with affinities unknown and a warning, or a refusal. Never anything else.
func TestDamage(t *testing.T) {
	shapes, kinds := keys(printings), keys(damages)
	seeds := 8
	if testing.Short() {
		seeds = 3
	}
	byDamage, byShape := map[string]*outcome{}, map[string]*outcome{}
	for _, shape := range shapes {
		for _, kind := range kinds {
			if traceless(shape, kind) {
				continue
			}
			for seed := range seeds {
				r := rand.New(rand.NewPCG(uint64(seed), 7))
				m := randomMachine(r)
				text := damages[kind](r, printings[shape](r, m))
				tally(t, m, shape+" + "+kind, text, seed, at(byShape, shape), at(byDamage, kind))
			}
		}
	}
	for _, s := range []map[string]*outcome{byShape, byDamage} {
		for _, k := range keys(s) {
			o := s[k]
			t.Logf("%-26s right %5d, affinities open %4d, refused %4d, wrong %d", k, o.right, o.partly, o.refused, o.wrong)
		}
	}
}

// TestDamageTwice applies two kinds of damage, one after the other.
func TestDamageTwice(t *testing.T) {
	shapes, kinds := keys(printings), keys(damages)
	n := 4000
	if testing.Short() {
		n = 1000
	}
	var all outcome
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 11))
		m := randomMachine(r)
		shape, one, two := pick(r, shapes...), pick(r, kinds...), pick(r, kinds...)
		if tracelessPair(shape, one, two) {
			continue
		}
		text := damages[two](r, damages[one](r, printings[shape](r, m)))
		tally(t, m, shape+" + "+one+" + "+two, text, seed, &all)
	}
	t.Logf("right %d, affinities open %d, refused %d, wrong %d", all.right, all.partly, all.refused, all.wrong)
}

func tally(t *testing.T, m *truth, what, text string, seed int, out ...*outcome) {
	t.Helper()
	res, err := Read(strings.NewReader(text), "t")
	add := func(f func(*outcome)) {
		for _, o := range out {
			f(o)
		}
	}
	if err != nil {
		add(func(o *outcome) { o.refused++ })
		return
	}
	bad, unknown := m.check(res)
	switch {
	case len(bad) > 0:
		add(func(o *outcome) { o.wrong++ })
		if !t.Failed() {
			t.Errorf("%s, seed %d:\n%s\n%s\nwarnings %v", what, seed, strings.Join(bad[:min(len(bad), 5)], "\n"), text, res.Warnings)
		}
	case unknown > 0:
		add(func(o *outcome) { o.partly++ })
	default:
		add(func(o *outcome) { o.right++ })
	}
}

// traceless says that a damage cannot be noticed: where NICs have rows only or columns only, their cells have no twins, and
// a lost row is a lost NIC; where the header is lost, so is the loss of a title.
func traceless(shape, kind string) bool {
	switch shape {
	case "NIC columns cropped":
		return kind == "row lost" || kind == "tail cut" || kind == "cells swapped" || kind == "cell lost" || kind == "letter lost"
	case "no NIC rows":
		return kind == "cells swapped"
	case "third title cropped":
		return kind == "header lost"
	}
	return false
}

// tracelessPair says so of two kinds together: a title lost and then the tabs that would show it; a line cut inside a
// character.
func tracelessPair(shape, one, two string) bool {
	return traceless(shape, one) || traceless(shape, two) || shape == "third title cropped" ||
		strings.HasPrefix(one, "NBSP") && strings.HasPrefix(two, "wrapped") ||
		one == "srun -l" && strings.HasPrefix(two, "newlines") // the label 0: joins the name before it
}

func at(m map[string]*outcome, k string) *outcome {
	if m[k] == nil {
		m[k] = &outcome{}
	}
	return m[k]
}

func keys[V any](m map[string]V) []string {
	s := make([]string, 0, len(m))
	for k := range m {
		s = append(s, k)
	}
	slices.Sort(s)
	return s
}
