package gateway

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headgate/headgate/bench/site"
)

// RuleCount is how many rules the gateway has.
const RuleCount = 100

// openHeadgate starts the headgate program with a rules file.
func openHeadgate(rules func() string) func(context.Context, *site.Site) (site.RunningServer, error) {
	return openHeadgateWith(rules, "")
}

// openHeadgateWith starts the headgate program with a rules file, a configuration file and further arguments. It logs
// into a file.
func openHeadgateWith(
	rules func() string, config string, args ...string,
) func(context.Context, *site.Site) (site.RunningServer, error) {
	return func(ctx context.Context, s *site.Site) (site.RunningServer, error) {
		path, err := s.Bench.BuildHeadgate(ctx)
		if err != nil {
			return site.RunningServer{}, err
		}
		dir, err := os.MkdirTemp(s.Dir, "headgate-")
		if err != nil {
			return site.RunningServer{}, err
		}
		in := func(name string) string { return filepath.Join(dir, name) }
		for name, text := range map[string]string{"rules.yaml": rules(), "headgate.yaml": config, "log": ""} {
			if err := os.WriteFile(in(name), []byte(text), 0o644); err != nil {
				return site.RunningServer{}, err
			}
		}
		var configured []string
		if config != "" {
			configured = []string{"--config", in("headgate.yaml")}
		}
		cmd := exec.Command("/bin/sh", slices.Concat([]string{
			"-c", `exec "$0" "$@" 2> ` + in("log"), path, "serve",
			"--rules", in("rules.yaml"), "--upstream", "http://" + s.Upstream,
			"--gateway-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
			"--api-addr", "off", "--grpc-addr", "off", "--resp-addr", "off",
		}, configured, args)...)
		p, err := s.Start(s.FrontCore, cmd)
		if err != nil {
			return site.RunningServer{}, err
		}
		var l struct{ Gateway string }
		err = p.Await(ctx, func() error {
			text, err := os.ReadFile(in("log"))
			if err != nil {
				return err
			}
			return site.LoggedObject(text, `"msg":"listening"`, &l)
		})
		return site.RunningServer{Address: l.Gateway, Process: p}, err
	}
}

// noRules is a rules file without rules.
func noRules() string { return "rules: []\n" }

// RulesThatPass are rules of which three apply to every request. No proxy here is fast enough to reach their limits.
// The limits are not larger, so that their states fit a word of the store, like the limits of typical services.
func RulesThatPass() string { return rulesFile("90000/s", "80000/s") }

// rulesOfWhichOneApplies are the same number of rules. Only the limit by address applies to a request.
func rulesOfWhichOneApplies() string {
	return "rules:\n  - { id: each-address, key: [ip], limits: [90000/s] }\n" + otherRules(1)
}

// rulesThatRefuse are rules of which three apply. Each address has one request per hour, and all requests come from one
// address.
func rulesThatRefuse() string { return rulesFile("1/h", "80000/s") }

// rulesForNeighbours are the same rules, but each client has a limit. The flooding client is far above its limit.
func rulesForNeighbours() string { return rulesFile("90000/s", fmt.Sprintf("%d/s", neighbourLimit)) }

// rulesFile returns a file with three rules for every request, and rules for other services. The first rule has a limit
// for each address, and the second one a limit for each client.
func rulesFile(address, client string) string {
	return fmt.Sprintf(`rules:
  - { id: each-address, key: [ip], limits: [%s] }
  - { id: each-client, when: { path: /api/** }, key: [api_key], limits: [%s] }
  - { id: orders, when: { host: %s, path: /api/v1/orders/*, method: GET }, key: [api_key], limits: [100000000/h sliding-window] }
`, address, client, site.LoadHost) + otherRules(3)
}

// otherRules are the remaining rules, which are for other services: a third by path, a third by host and path, and a
// third by header.
func otherRules(first int) string {
	var b strings.Builder
	for i := first; i < RuleCount; i++ {
		when := fmt.Sprintf("path: /team-%d/**", i)
		switch i % 3 {
		case 1:
			when = fmt.Sprintf("host: service-%d.example.com, path: /v1/**", i)
		case 2:
			when = fmt.Sprintf("header.x-plan: plan-%d", i)
		}
		fmt.Fprintf(&b, "  - { id: other-%d, when: { %s }, key: [user], limits: [10/s burst 20] }\n", i, when)
	}
	return b.String()
}
