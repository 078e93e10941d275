package model

import "math"

// ExpectedDestinations is how many of n equal destinations a token with k experts of e reaches, experts drawn without
// replacement: n (1 - C(e-e/n, k)/C(e, k)).
func ExpectedDestinations(n, e, k int) float64 {
	if n < 1 || e < n || k < 1 {
		return 0
	}
	return float64(n) * (1 - missShare(e, e/n, k))
}

// missShare is C(e-g, k)/C(e, k): the probability that none of k experts of e lies in a group of g.
func missShare(e, g, k int) float64 {
	p := 1.0
	for i := range k {
		left := float64(e - g - i)
		if left <= 0 {
			return 0
		}
		p *= left / float64(e-i)
	}
	return p
}

// NodeLimitedDestinations is the same under node-limited routing: of groups, one a node, a token may use top, and its k
// experts lie among theirs (DeepSeek-V3: 8 groups, 4 kept, 8 of 128 experts).
func NodeLimitedDestinations(groups, top, e, k int) float64 {
	if groups < 1 || top < 1 || e < groups {
		return 0
	}
	per := e / groups
	return float64(top) * (1 - missShare(per*top, per, k))
}

// TouchedExperts is the share of e experts that at least one of t tokens is sent to, k a token, uniform routing:
// 1 - (1 - k/e)^t. Decode reads only these weights.
func TouchedExperts(e, k, t int) float64 {
	if e < 1 || k >= e {
		return 1
	}
	return 1 - math.Pow(1-float64(k)/float64(e), float64(t))
}
