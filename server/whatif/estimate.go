package whatif

import "math"

// An Estimate is an estimated number with its 95 % confidence interval, from Low to High. If all clients are known, Low
// and High equal Value.
type Estimate struct {
	Value int64 `json:"value"`
	Low   int64 `json:"low"`
	High  int64 `json:"high"`
}

// A sum estimates the sum of a number over all clients from a sample of clients. The number is, for example, the denied
// requests of a client.
type sum struct {
	certain float64 // the sum over clients that are AlwaysSampled
	sampled float64 // the sum over the other clients in the sample
	squares float64 // the sum of the squares of the same numbers as in sampled
}

func (s *sum) add(c *Client, y float64) {
	if c.AlwaysSampled {
		s.certain += y
		return
	}
	s.sampled += y
	s.squares += y * y
}

// z is a number of standard deviations. With a probability of 95 %, a normally distributed value is at most z standard
// deviations away from its mean.
const z = 1.96

// estimate returns the sum over all clients. A client that is not AlwaysSampled is in the sample with the probability
// 1/oneIn. If the true sum of these clients is x, the estimate has the variance (oneIn-1)*size*x. Here size is the mean
// of their numbers, weighted by the numbers themselves. The interval consists of all x for which the estimate is at
// most z standard deviations away from x. This is the score interval of Wilson. It is also right for few clients.
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
