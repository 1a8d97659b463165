package headgate

import (
	"strconv"
	"strings"
)

// An Algorithm defines which units count towards a Limit. The package comment says which algorithm to choose.
type Algorithm uint8

// The algorithms. TokenBucket is the zero value and the default.
const (
	TokenBucket Algorithm = iota
	LeakyBucket
	GCRA
	FixedWindow
	SlidingLog
	SlidingWindow
	SlidingBuckets
	Concurrency
)

// FirstCustom is the lowest number of a custom algorithm, which a program defines itself. The highest number is 255.
// Only a store with this algorithm accepts its limits: see memstore.Options.Algorithms. Such a limit has a Count, a
// Period and optionally a Burst. ParseLimit does not know custom algorithms.
const FirstCustom Algorithm = 128

// algorithms lists all algorithms with their names and the settings that they have besides Count and Period. Clients
// and stores identify an algorithm by its index, so add new algorithms at the end. Run "go generate ./algorithm" after
// a change.
var algorithms = [...]struct {
	name string
	settings
}{
	TokenBucket:    {"token-bucket", burstSetting},
	LeakyBucket:    {"leaky-bucket", burstSetting},
	GCRA:           {"gcra", burstSetting},
	FixedWindow:    {"fixed-window", staggeredSetting},
	SlidingLog:     {"sliding-log", growingState},
	SlidingWindow:  {"sliding-window", 0},
	SlidingBuckets: {"sliding-buckets", bucketsSetting},
	Concurrency:    {"concurrency", ttlSetting | growingState},
}

// settings is a bit set of the fields that an algorithm's Limit has besides Count and Period. It also holds
// growingState, which is a property of the algorithm.
type settings uint8

const (
	burstSetting     settings = 1 << iota // Burst
	bucketsSetting                        // Buckets
	staggeredSetting                      // Staggered
	ttlSetting                            // TTL instead of Period
	growingState                          // memory grows with Count, so Count is at most MaxLogCount
)

// has reports whether the algorithm has at least one of the settings s.
func (a Algorithm) has(s settings) bool {
	return int(a) < len(algorithms) && algorithms[a].settings&s != 0
}

// Algorithms returns all algorithms, in the order of their numbers.
func Algorithms() []Algorithm {
	all := make([]Algorithm, len(algorithms))
	for i := range all {
		all[i] = Algorithm(i)
	}
	return all
}

// String returns the algorithm's name as ParseLimit reads it.
func (a Algorithm) String() string {
	if int(a) < len(algorithms) {
		return algorithms[a].name
	}
	if a >= FirstCustom {
		return "custom-" + strconv.Itoa(int(a-FirstCustom))
	}
	return "Algorithm(" + strconv.Itoa(int(a)) + ")"
}

// ParseAlgorithm returns the algorithm with the given name.
func ParseAlgorithm(name string) (Algorithm, error) {
	for a := range algorithms {
		if algorithms[a].name == name {
			return Algorithm(a), nil
		}
	}
	return 0, badLimit("Algorithm", quote(name), algorithmList()+suggest(name, algorithmNames()))
}

func algorithmNames() []string {
	names := make([]string, len(algorithms))
	for i := range algorithms {
		names[i] = algorithms[i].name
	}
	return names
}

func algorithmList() string { return "one of " + strings.Join(algorithmNames(), ", ") }

// algorithmsWith returns the algorithms that have a setting as the subject of a sentence, with the verb that fits their
// number: "fixed-window can".
func algorithmsWith(s settings, singular, plural string) string {
	var names []string
	for i := range algorithms {
		if algorithms[i].settings&s != 0 {
			names = append(names, algorithms[i].name)
		}
	}
	last := len(names) - 1
	if last == 0 {
		return names[0] + " " + singular
	}
	return strings.Join(names[:last], ", ") + " and " + names[last] + " " + plural
}
