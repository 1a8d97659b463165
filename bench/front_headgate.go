package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ruleCount is how many rules the gateway has.
const ruleCount = 100

// openHeadgate starts the program that users run, with a rules file.
func openHeadgate(rules func() string) func(context.Context, *site) (place, error) {
	return func(ctx context.Context, s *site) (place, error) {
		path, err := s.bench.buildHeadgate(ctx)
		if err != nil {
			return place{}, err
		}
		dir, err := os.MkdirTemp(s.dir, "rules-")
		if err != nil {
			return place{}, err
		}
		file := filepath.Join(dir, "rules.yaml")
		if err := os.WriteFile(file, []byte(rules()), 0o644); err != nil {
			return place{}, err
		}
		cmd := exec.Command(path, "serve", "--rules", file, "--upstream", "http://"+s.upstream,
			"--gateway-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
			"--api-addr", "off", "--grpc-addr", "off", "--resp-addr", "off")
		p, err := s.start(s.frontCore, cmd)
		if err != nil {
			return place{}, err
		}
		var l struct{ Gateway string }
		err = p.await(ctx, func() error { return p.said.object(`"msg":"listening"`, &l) })
		return place{address: l.Gateway, process: p}, err
	}
}

// buildHeadgate builds the program from the sources around this one, once.
func (b *bench) buildHeadgate(ctx context.Context) (string, error) {
	if b.headgate != "" {
		return b.headgate, nil
	}
	root, err := repository()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "headgate-bench-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "headgate")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, "./cmd/headgate")
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("build headgate: %w: %s", err, said)
	}
	b.headgate = path
	return path, nil
}

// removeHeadgate removes the program if it was built.
func (b *bench) removeHeadgate() {
	if b.headgate != "" {
		_ = os.RemoveAll(filepath.Dir(b.headgate)) // what is left of it is the system's to clear
	}
}

// noRules are none.
func noRules() string { return "rules: []\n" }

// rulesThatPass are rules of which three apply to every request, with limits that nobody meets, since no proxy here serves as
// many; larger ones would not fit a word of the store, as those of services do.
func rulesThatPass() string { return rulesFile("90000/s", "80000/s") }

// rulesOfWhichOneApplies are as many, but for every request there is only the limit for its address.
func rulesOfWhichOneApplies() string {
	return "rules:\n  - { id: each-address, key: [ip], limits: [90000/s] }\n" + otherRules(1)
}

// rulesThatRefuse are those of which three apply, but an address has one request an hour, and all requests come from one.
func rulesThatRefuse() string { return rulesFile("1/h", "80000/s") }

// rulesForNeighbours are the same, but each client has a limit that one who floods is far above.
func rulesForNeighbours() string { return rulesFile("90000/s", fmt.Sprintf("%d/s", neighbourLimit)) }

// rulesFile is three rules for every request, of which the first has a limit for each address and the second one for each
// client, and others for other services.
func rulesFile(address, client string) string {
	return fmt.Sprintf(`rules:
  - { id: each-address, key: [ip], limits: [%s] }
  - { id: each-client, when: { path: /api/** }, key: [api_key], limits: [%s] }
  - { id: orders, when: { host: %s, path: /api/v1/orders/*, method: GET }, key: [api_key], limits: [100000000/h sliding-window] }
`, address, client, loadHost) + otherRules(3)
}

// otherRules are as many as there are beside the first, for other services: a third by path, a third by host and path, a third
// by header.
func otherRules(first int) string {
	var b strings.Builder
	for i := first; i < ruleCount; i++ {
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
