package whatif

import "math"

// An Estimate is a figure with its 95 % confidence interval. If all clients are known, Low and High equal Value.
type Estimate struct {
	Value int64 `json:"value"`
	Low   int64 `json:"low"`
	High  int64 `json:"high"`
}

// A sum estimates the sum of a figure over all clients from a sample.
type sum struct {
	certain float64 // the sum over clients that are AlwaysSampled
	sampled float64 // the sum over the other clients in the sample
	squares float64 // the sum of the squares of the same figures
}

func (s *sum) add(c *Client, y float64) {
	if c.AlwaysSampled {
		s.certain += y
		return
	}
	s.sampled += y
	s.squares += y * y
}

// z is the quantile of the normal distribution for 95 %.
const z = 1.96

// estimate returns the sum over all clients. Each client is in the sample with the probability 1/oneIn. If the true sum
// of those clients is x, the estimate has the variance (oneIn-1)*size*x, where size is the mean figure, weighted by the
// figure. The interval consists of all x from which the estimate is at most z standard deviations away, which is the
// score interval of Wilson: it holds for few clients, too.
func (s *sum) estimate(oneIn int64) Estimate {
	w := float64(oneIn)
	value := w * s.sampled
	size := 1.0
	if s.sampled > 0 {
		size = s.squares / s.sampled
	}
	a := z * z * (w - 1) * size / 2
	half := math.Sqrt(a * (a + 2*value))
	return Estimate{
		Value: int64(math.Round(s.certain + value)),
		Low:   int64(math.Floor(s.certain + max(value+a-half, s.sampled))),
		High:  int64(math.Ceil(s.certain + value + a + half)),
	}
}
