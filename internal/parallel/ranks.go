package parallel

// Coords is where a rank stands.
type Coords struct {
	TP int `yaml:"tp" json:"tp"`
	PP int `yaml:"pp" json:"pp"`
	DP int `yaml:"dp" json:"dp"`
	CP int `yaml:"cp" json:"cp"`
	EP int `yaml:"ep" json:"ep"`
	// ExpertTP and ExpertDP complete the expert side; they follow from the others.
	ExpertTP int `yaml:"-" json:"-"`
	ExpertDP int `yaml:"-" json:"-"`
}

// degree returns the size of an attention-side dimension.
func (s Strategy) degree(d Dim) int {
	switch d {
	case TP:
		return s.TP
	case CP:
		return s.CP
	case DP:
		return s.DP
	case PP:
		return s.PP
	default:
		return 1
	}
}

// CoordsOf returns the coordinates of a rank. The expert side follows the attention side's place inside its stage:
// with position q = the rank's index among the stage's ranks in Order, expertTP varies fastest, then ep, then copies,
// which is Megatron's expert generator and vLLM's and SGLang's flattened EP group.
func (s Strategy) CoordsOf(rank int) Coords {
	var c Coords
	r, q, stride := rank, 0, 1
	for _, d := range s.Order {
		n := s.degree(d)
		v := r % n
		r /= n
		switch d {
		case TP:
			c.TP = v
		case CP:
			c.CP = v
		case DP:
			c.DP = v
		case PP:
			c.PP = v
			continue
		case EP:
			continue
		}
		q += v * stride
		stride *= n
	}
	c.ExpertTP = q % s.ExpertTP
	c.EP = q / s.ExpertTP % s.EP
	c.ExpertDP = q / (s.ExpertTP * s.EP)
	return c
}

// RankOf is the inverse of CoordsOf; it reads TP, CP, DP and PP only.
func (s Strategy) RankOf(c Coords) int {
	r, stride := 0, 1
	for _, d := range s.Order {
		switch d {
		case TP:
			r += c.TP * stride
		case CP:
			r += c.CP * stride
		case DP:
			r += c.DP * stride
		case PP:
			r += c.PP * stride
		}
		stride *= s.degree(d)
	}
	return r
}
