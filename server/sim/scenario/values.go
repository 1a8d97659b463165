package scenario

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/accesslogs"
)

// A Number is a number that may have a fraction.
type Number float64

// A Percent is a percentage.
type Percent float64

// A Shift is the time by which a clock is set forward, or back if it is negative.
type Shift time.Duration

// A Pattern determines the times between the requests of a source.
type Pattern string

// The patterns.
const (
	Poisson  Pattern = "poisson"  // the times are random and do not depend on each other
	Constant Pattern = "constant" // the time between two requests is always the same
	Diurnal  Pattern = "diurnal"  // the times are random, and the rate rises and falls like a sine
)

// A Balance determines the node of each request.
type Balance string

// The load-balancer policies.
const (
	RoundRobin Balance = "round-robin" // the nodes get requests in turn
	Random     Balance = "random"
	ByClient   Balance = "client" // the same node gets all requests of a client, while it is live
)

// A Distribution is the distribution of delays.
type Distribution string

// The distributions of delays.
const (
	Exponential Distribution = "exponential" // half of the mean is fixed, and the rest exponential
	Uniform     Distribution = "uniform"     // from 0 to twice the mean
	Fixed       Distribution = "fixed"
	Heavy       Distribution = "heavy" // a Pareto distribution: a few messages take very long
)

// A FaultKind is a kind of fault.
type FaultKind string

// The kinds of faults.
const (
	Crash      FaultKind = "crash"       // nodes lose their memory, and start again after Fault.For
	Join       FaultKind = "join"        // nodes join that know nothing yet
	Partition  FaultKind = "partition"   // nodes cannot reach Redis or nodes outside of the group
	Slow       FaultKind = "slow"        // messages take longer
	Lossy      FaultKind = "lossy"       // messages are lost
	RedisDown  FaultKind = "redis-down"  // a Redis server does not respond
	Failover   FaultKind = "failover"    // a Redis server does not respond, and is then replaced by one without data
	RedisClock FaultKind = "redis-clock" // the clock of a Redis server jumps
	NodeClock  FaultKind = "node-clock"  // nodes restart with a wrong clock
	// RegionPartition cuts regions off: they cannot reach other regions or the global store.
	RegionPartition FaultKind = "region-partition"
)

var errWord = errors.New("unknown word")

// A wordError is the error for a word that is not one of the allowed words.
type wordError struct {
	text  string
	words []string
}

func (e *wordError) Error() string { return "unknown word " + strconv.Quote(e.text) }
func (e *wordError) Unwrap() error { return errWord }

// oneOf returns a function that parses one of the given words.
func oneOf[T ~string](words ...T) func(string) (T, error) {
	return func(text string) (T, error) {
		var list []string
		for _, w := range words {
			if text == string(w) {
				return w, nil
			}
			list = append(list, string(w))
		}
		return "", &wordError{text, list}
	}
}

func toString[T ~string](v T) string { return string(v) }

func newCodec() *source.Codec {
	c := source.NewCodec()
	c.Explain = explain
	source.RegisterScalar(c, parseTime, formatTime)
	source.RegisterScalar(c, parseShift, func(s Shift) string { return formatTime(time.Duration(s)) })
	source.RegisterScalar(c, parseNumber, func(n Number) string { return strconv.FormatFloat(float64(n), 'g', -1, 64) })
	source.RegisterScalar(c, parsePercent, func(n Percent) string { return strconv.FormatFloat(float64(n), 'g', -1, 64) })
	source.RegisterScalar(c, headgate.ParseLimit, headgate.Limit.String)
	source.RegisterScalar(c, headgate.ParseAlgorithm, headgate.Algorithm.String)
	source.RegisterScalar(c, rules.ParseConsistency, rules.Consistency.String)
	source.RegisterScalar(c, rules.ParsePolicy, headgate.Policy.String)
	source.RegisterScalar(c, oneOf(Poisson, Constant, Diurnal), toString)
	source.RegisterScalar(c, oneOf(RoundRobin, Random, ByClient), toString)
	source.RegisterScalar(c, oneOf(accesslogs.Formats...), toString)
	source.RegisterScalar(c, oneOf(Exponential, Uniform, Fixed, Heavy), toString)
	source.RegisterScalar(c, oneOf(
		Crash, Join, Partition, Slow, Lossy, RedisDown, Failover, RedisClock, NodeClock, RegionPartition), toString)
	return c
}

func explain(err error) (value, want string) {
	var unknown *wordError
	if errors.As(err, &unknown) {
		return err.Error(), strings.Join(unknown.words, ", ")
	}
	var bad *valueError
	if errors.As(err, &bad) {
		return strconv.Quote(bad.text), bad.want
	}
	return rules.Explain(err)
}

// A valueError is the error for a text that is not a valid value of its type.
type valueError struct{ text, want string }

func (e *valueError) Error() string { return fmt.Sprintf("%q: want %s", e.text, e.want) }

// parseTime parses a time, which may be 0.
func parseTime(text string) (time.Duration, error) {
	if text == "0" || text == "0s" {
		return 0, nil
	}
	return rules.ParseDuration(text)
}

// formatTime formats a time as a whole number of the largest possible unit.
func formatTime(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "us"}} {
		if d%unit.size == 0 {
			return strconv.FormatInt(int64(d/unit.size), 10) + unit.name
		}
	}
	return d.String()
}

func parseShift(text string) (Shift, error) {
	number, negative := strings.CutPrefix(text, "-")
	d, err := parseTime(number)
	if negative {
		d = -d
	}
	return Shift(d), err
}

// parseNumber parses a number. It may end with k or M: 3M is 3,000,000.
func parseNumber(text string) (Number, error) {
	number, factor := text, 1.0
	if rest, ok := strings.CutSuffix(text, "k"); ok {
		number, factor = rest, 1e3
	} else if rest, ok := strings.CutSuffix(text, "M"); ok {
		number, factor = rest, 1e6
	}
	n, err := parseNonNegative(number)
	if err != nil {
		return 0, &valueError{text, "a number, as in 1000, 2.5 or 3M"}
	}
	return Number(n * factor), nil
}

// parsePercent parses a percentage, with or without its sign.
func parsePercent(text string) (Percent, error) {
	n, err := parseNonNegative(strings.TrimSuffix(text, "%"))
	if err != nil {
		return 0, &valueError{text, "a percentage, as in 5 or 0.1%"}
	}
	return Percent(n), nil
}

func parseNonNegative(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err == nil && (n < 0 || math.IsInf(n, 0) || math.IsNaN(n)) {
		err = strconv.ErrRange
	}
	return n, err
}
