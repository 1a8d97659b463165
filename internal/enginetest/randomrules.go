package enginetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// RandomRules returns one to three rules for each IP address, whose cost is the header X-Weight, at most 4. It also
// returns the names that the RateLimit header has for their limits.
func RandomRules(random *rand.Rand) (list []rules.Rule, names map[string]bool) {
	algorithms := []string{
		"", " gcra", " leaky-bucket", " fixed-window", " sliding-window", " sliding-log", " sliding-buckets",
	}
	periods := []string{"100ms", "1s", "1500ms", "7s", "1m"}
	names = map[string]bool{}
	for i := range 1 + random.IntN(3) {
		id := fmt.Sprintf("rule-%d.%c", i, 'a'+random.IntN(26))
		limits := make([]string, 1+random.IntN(3))
		for j := range limits {
			limits[j] = fmt.Sprintf("%d/%s%s", 4+random.IntN(12),
				periods[random.IntN(len(periods))], algorithms[random.IntN(len(algorithms))])
			name := id
			if len(limits) > 1 {
				name += "/" + strconv.Itoa(j+1)
			}
			names[name] = true
		}
		list = append(list, rules.Rule{
			ID: id, Key: []headgate.Attribute{{Kind: headgate.AttrIP}}, Limits: Limits(limits...),
			Cost: rules.Cost{Header: "X-Weight", Max: 4},
		})
	}
	return list, names
}
