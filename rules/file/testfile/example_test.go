package testfile_test

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/testfile"
)

func ExampleFile_Run() {
	doc, err := file.Parse("rules.yaml", []byte("rules: [{ id: search, when: { path: /search/** }, limits: 2/s }]"))
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := doc.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	cases, err := testfile.Parse("cases.yaml", []byte(`cases:
  - name: searches are limited
    request: { path: /search/cats }
    matches: [search]
    steps: [{ expect: allow }]
  - name: images are not
    request: { path: /images/cats }
    matches: [images]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	// In practice, an engine on a store with its own clock decides.
	start := func() (testfile.Decide, error) {
		return func(time.Duration, rules.Subject) (testfile.Decision, error) {
			return testfile.Decision{Verdict: testfile.Allow}, nil
		}, nil
	}
	results, err := cases.Run(set, start)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range results {
		fmt.Println(r.Case, len(r.Failures) == 0)
		for _, f := range r.Failures {
			fmt.Println("  " + f.String())
		}
	}
	// Output:
	// searches are limited true
	// images are not false
	//   cases.yaml:8:5: got no rule, want images
}
