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
	certain float64 // of clients that are AlwaysSampled
	sampled float64
	squares float64
	count   float64 // sampled clients whose figure is not 0
}

func (s *sum) add(c *Client, y float64) {
	switch {
	case c.AlwaysSampled:
		s.certain += y
	case y != 0:
		s.sampled += y
		s.squares += y * y
		s.count++
	}
}

const (
	// z is the quantile of the normal distribution for 95 %.
	z = 1.96
	// unseen clients are assumed in addition to those of the sample, so that the interval is right even if the sample has
	// none with such a figure: of 3 in the whole, a sample of one in n misses all with a probability of about 5 %.
	unseen = 2.3
)

// estimate returns the sum over all clients. The sample has each client with the same probability, independently, so
// that the variance of the sum is estimated by that of Horvitz and Thompson.
func (s *sum) estimate(oneIn int64) Estimate {
	w := float64(oneIn)
	value := s.certain + w*s.sampled
	e := Estimate{Value: int64(math.Round(value)), Low: int64(math.Round(value)), High: int64(math.Round(value))}
	if oneIn <= 1 {
		return e
	}
	mean := 1.0
	if s.count > 0 {
		mean = s.sampled / s.count
	}
	half := z * math.Sqrt(w*(w-1)*(s.squares+unseen*mean*mean))
	e.Low = int64(math.Floor(max(value-half, s.certain+s.sampled)))
	e.High = int64(math.Ceil(value + half))
	return e
}
