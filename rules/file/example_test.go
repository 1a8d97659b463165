package file_test

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
)

func ExampleParse() {
	doc, err := file.Parse("rules.yaml", []byte(`
rules:
  - id: search-per-user
    when: { path: /search/** }
    key: user
    limits: [10/s burst 20, 1000/h sliding-window]
    overrides: [{ when: { user: acme }, limits: 100/s }]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := doc.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	path, user := headgate.Attribute{Kind: headgate.AttrPath}, headgate.Attribute{Kind: headgate.AttrUser}
	for _, who := range []string{"alice", "acme"} {
		for _, m := range set.Match(rules.Attributes{path: "/search/cats", user: who}, nil) {
			fmt.Println(who, m.Rule.ID, len(m.Limits), m.Limits[0].Limit)
		}
	}
	// Output:
	// alice search-per-user 2 10/s burst 20
	// acme search-per-user 1 100/s
}

func ExampleParse_invalid() {
	_, err := file.Parse("rules.yaml", []byte(`rules:
  - id: search
    when: { path: search }
    limits: [ten/s]
    on_limits: drop
`))
	fmt.Println(err)
	// Output:
	// rules.yaml:3:19: rules[0].when.path[0]: "search": want a path that begins with '/', as in /search/**
	//         when: { path: search }
	//                       ^
	// rules.yaml:4:14: rules[0].limits[0]: Count "ten": want a whole number from 1 to 1099511627776
	//         limits: [ten/s]
	//                  ^
	// rules.yaml:5:5: rules[0].on_limits: unknown field: want on_limit
	//         on_limits: drop
	//         ^
}

func ExampleDocument_YAML() {
	limit := headgate.MustParseLimit("10/s burst 20")
	doc := file.Document{Rules: []rules.Rule{{
		ID:      "per-address",
		Key:     []headgate.Attribute{{Kind: headgate.AttrIP}},
		Limits:  []rules.Limit{{Limit: limit}},
		OnLimit: rules.OnLimit{Action: rules.Drop},
	}}}
	fmt.Print(string(doc.YAML()))
	// Output:
	// rules:
	//   - id: per-address
	//     key: [ip]
	//     limits: [10/s burst 20]
	//     on_limit: drop
}

// Several files form one set. A duplicate id is reported at its position.
func ExampleCompile() {
	parse := func(name, text string) *file.Document {
		doc, err := file.Parse(name, []byte(text))
		if err != nil {
			panic(err)
		}
		return doc
	}
	_, err := file.Compile(
		parse("a.yaml", "rules:\n  - { id: search, limits: 10/s }\n"),
		parse("b.yaml", "rules:\n  - { id: images, limits: 10/s }\n  - { id: search, limits: 20/s }\n"),
	)
	fmt.Println(err)
	// Output:
	// b.yaml:3:11: rules[1].id: "search": want an id that no other rule has; a.yaml:2 has the same value
	//       - { id: search, limits: 20/s }
	//               ^
}
